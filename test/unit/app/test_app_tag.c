/* tag: what editors bring back as If-Match names the render it came from. Method: a table. */
#include "app/page/tag.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TID "a0b0c000-e6a4-11f0-8000-010000000001"

static void tags_of_renders_are_read(void **state)
{
    static const struct {
        const char *text;
        uint64_t rev;
        bool stash;
    } good[] = {
        { "\"7/" TID "\"", 7, false },
        { "W/\"7/" TID "\"", 7, false },
        { "7/" TID, 7, false },
        { " \"7/" TID "-gzip\" ", 7, false },
        { "\"7/" TID "/stash\"", 7, true },
        { "W/\"0/" TID "/stash\"", 0, true },
        { "\"7/" TID "/view/html\"", 7, false },
        { "\"9223372036854775807/" TID "\"", INT64_MAX, false },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct tag tag;
        char text[TID_TEXT_BYTES + 1];
        assert_true(tag_parse(str_of(good[i].text), &tag));
        assert_int_equal(tag.name.rev, good[i].rev);
        assert_int_equal(tag.stash, good[i].stash);
        tid_format(tag.name.tid, text);
        assert_string_equal(text, TID);
    }
}

static void other_tags_are_none_of_ours(void **state)
{
    static const char *const bad[] = {
        "",
        "*",
        "\"7\"",
        "\"/" TID "\"",
        "\"x/" TID "\"",
        "\"-7/" TID "\"",
        "\"7/a0b0c000-e6a4-11f0-8000\"",
        "\"7/a0b0c000-e6a4-41f0-8000-010000000001\"",
        "\"9223372036854775808/" TID "\"",
        "\"7/" TID "\", \"8/" TID "\"",
        "\"",
        "W/",
        "\"7/\"",
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct tag tag;
        assert_false(tag_parse(str_of(bad[i]), &tag));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_of_renders_are_read),
        cmocka_unit_test(other_tags_are_none_of_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
