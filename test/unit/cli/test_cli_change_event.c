/* Goal: a line says what an event tells of, whoever sent it; and nothing in an event steers a
 * terminal. Method: events of MediaWiki, of the store and of nobody, printed into memory. */
#include "cli/change_event.h"

#include "base/check.h"

#include "../cmocka_all.h"

#include <stdlib.h>

#define POSITION "0123456789abcdef-1795753383128001-1795753383128"
#define AT "2026-11-27T04:23:03.128Z"

static char *print(struct change_columns *c, const char *const *events)
{
    char *text = NULL;
    size_t n = 0;
    struct arena a;
    FILE *to = open_memstream(&text, &n);
    assert_non_null(to);
    arena_init(&a, 1 << 20);
    for (; *events != NULL; events++) {
        struct change_event e;
        assert_int_equal(change_event_read(&a, STR(POSITION), str_of(*events), &e), ERR_OK);
        change_event_print(to, c, &e);
    }
    arena_fini(&a);
    assert_int_equal(fclose(to), 0);
    return text;
}

static void expect(const char *event, const char *want)
{
    struct change_columns c = { .aligned = false };
    char *got = print(&c, (const char *const[]){ event, NULL });
    assert_string_equal(got, want);
    free(got);
}

static void each_sender_writes_titles_in_its_own_way(void **state)
{
    (void)state;
    expect("{\"meta\":{\"stream\":\"mediawiki.revision-create\",\"domain\":\"en.test\"},"
           "\"page_title\":\"A\",\"rev_id\":7}",
           AT "\tmediawiki.revision-create\ten.test\tA\t7\t-\n");
    expect("{\"meta\":{\"stream\":\"mediawiki.page_change.v1\"},\"page_change_kind\":\"edit\","
           "\"page\":{\"page_title\":\"A b\"},\"revision\":{\"rev_id\":8}}",
           AT "\tmediawiki.page_change.v1\t-\tA b\t8\tedit\n");
    expect(" { \"database\" : \"enwiki\", \"type\":\"refreshLinks\",\"meta\":{\"stream\":\"j\"}}",
           AT "\tj\tenwiki\t-\t-\trefreshLinks\n");
    expect("{\"meta\":{\"stream\":\"resource-purge\",\"uri\":\"http://a/wiki/B\"}}",
           AT "\tresource-purge\t-\thttp://a/wiki/B\t-\t-\n");
    expect("{\"meta\":{\"stream\":\"palimpsest.purge\",\"domain\":\"d\"},\"uri\":\"http://a/B\"}",
           AT "\tpalimpsest.purge\td\thttp://a/B\t-\t-\n");
    expect("{\"meta\":{\"stream\":\"palimpsest.gone\",\"domain\":\"d\"},\"page_title\":\"\\u00e4\","
           "\"rev_id\":3,\"kind\":\"culled\"}",
           AT "\tpalimpsest.gone\td\t\xc3\xa4\t3\tculled\n");
}

static void what_is_odd_is_left_out(void **state)
{
    (void)state;
    expect("{}", AT "\t-\t-\t-\t-\t-\n");
    expect("{\"meta\":1,\"page_title\":{\"x\":1},\"rev_id\":[7],\"kind\":null,\"page\":[]}",
           AT "\t-\t-\t-\t-\t-\n");
    expect("{\"page_title\":\"\\ud800\",\"title\":\"B\",\"rev_id\":123456789012345678901234567890}",
           AT "\t-\t-\tB\t123456789012345678901234567890\t-\n");
    struct arena a;
    struct change_event e;
    arena_init(&a, 1 << 20);
    static const char *const none[] = { "", "[]", "7", "{", "{} {}", "\"x\"", "{\"a\":\"\xff\"}" };
    for (size_t i = 0; i < COUNT_OF(none); i++)
        assert_int_equal(change_event_read(&a, STR(POSITION), str_of(none[i]), &e), ERR_BAD);
    assert_int_equal(change_event_read(&a, STR("x"), STR("{}"), &e), ERR_OK);
    assert_string_equal(e.at, "");
    assert_int_equal(change_event_read(&a, STR("0123456789abcdef-1-9223372036854775807"), STR("{}"),
                                       &e),
                     ERR_OK);
    assert_string_equal(e.at, "");
    arena_fini(&a);
}

static void columns_grow_and_do_not_shrink(void **state)
{
    (void)state;
    struct change_columns c = { .aligned = true };
    char *got =
        print(&c, (const char *const[]){ "{\"page_title\":\"A\",\"rev_id\":1}",
                                         "{\"page_title\":\"Earth\",\"rev_id\":100}",
                                         "{\"page_title\":\"\xe4\xb8\xad\",\"rev_id\":2}", NULL });
    assert_string_equal(got, AT "  -  -  A  1  -\n" AT "  -  -  Earth  100  -\n" AT
                                "  -  -  \xe4\xb8\xad     2    -\n");
    free(got);
}

static void json_has_nothing_that_a_terminal_obeys(void **state)
{
    (void)state;
    static const struct {
        const char *json, *want;
    } cases[] = {
        { "{\"a\":\"\xc3\xa4\"}", "{\"a\":\"\xc3\xa4\"}" },
        { "\"\x7f\xc2\x9b\xc2\xa0\"", "\"\\u007f\\u009b\xc2\xa0\"" },
        { "\"\xc2\x80", "\"\\u0080" },
        { "", "" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char *text = NULL;
        size_t n = 0;
        FILE *to = open_memstream(&text, &n);
        assert_non_null(to);
        change_json_print(to, str_of(cases[i].json));
        assert_int_equal(fclose(to), 0);
        assert_string_equal(text, cases[i].want);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sender_writes_titles_in_its_own_way),
        cmocka_unit_test(what_is_odd_is_left_out),
        cmocka_unit_test(columns_grow_and_do_not_shrink),
        cmocka_unit_test(json_has_nothing_that_a_terminal_obeys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
