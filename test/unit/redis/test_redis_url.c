/* Goal: every form of a Redis URL is understood, and nothing else. Method: a table. */
#include "redis/redis.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct fine {
    const char *url, *host;
    uint16_t port;
    uint32_t db;
    const char *user, *password;
};
static const struct fine fines[] = {
    { "redis://127.0.0.1:6379/0", "127.0.0.1", 6379, 0, "", "" },
    { "redis://h", "h", 6379, 0, "", "" },
    { "redis://h/", "h", 6379, 0, "", "" },
    { "redis://h:1/15", "h", 1, 15, "", "" },
    { "redis://[::1]", "::1", 6379, 0, "", "" },
    { "redis://[::1]:7000/3", "::1", 7000, 3, "", "" },
    { "redis://:secret@h", "h", 6379, 0, "", "secret" },
    { "redis://app:s%40%2f:x@h:2", "h", 2, 0, "app", "s@/:x" },
    { "redis://a:b@c@h", "h", 6379, 0, "a", "b@c" },
    { "redis://app:@h", "h", 6379, 0, "app", "" },
};

static void fine_ones_are_taken_apart(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(fines); i++) {
        const struct fine *f = &fines[i];
        struct redis_address a;
        struct err_note note;
        assert_int_equal(redis_url_parse(str_of(f->url), &a, &note), ERR_OK);
        assert_string_equal(a.host, f->host);
        assert_int_equal(a.port, f->port);
        assert_int_equal(a.db, f->db);
        assert_string_equal(a.user, f->user);
        assert_string_equal(a.password, f->password);
    }
}

static void others_are_refused_without_a_word_of_them(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "redis",
        "redis:/h",
        "redis://",
        "redis://:secret@",
        "http://h",
        "redis://h:",
        "redis://h:0",
        "redis://h:65536",
        "redis://h:x",
        "redis://h/x",
        "redis://h/-1",
        "redis://h/0/1",
        "redis://[::1",
        "redis://[::1]x",
        "redis://secret@h",
        "redis://a:%zz@h",
        "redis://a:%4@h",
        "redis://a:%00@h",
        "redis://a b",
        "redis://h/9999999999",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct redis_address a;
        struct err_note note;
        assert_int_equal(redis_url_parse(str_of(bad[i]), &a, &note), ERR_BAD);
        assert_null(strstr(note.text, "secret"));
    }
}

static void tls_is_refused_with_what_to_do(void **state)
{
    (void)state;
    struct redis_address a;
    struct err_note note;
    assert_int_equal(redis_url_parse(STR("rediss://h"), &a, &note), ERR_BAD);
    assert_non_null(strstr(note.text, "stunnel4"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fine_ones_are_taken_apart),
        cmocka_unit_test(others_are_refused_without_a_word_of_them),
        cmocka_unit_test(tls_is_refused_with_what_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
