/* etag: a tag names its render, and what editors bring back as If-Match names the render it came
 * from. Method: tables. */
#include "page/etag.h"

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
        struct page_edited tag;
        char text[TID_TEXT_BYTES + 1];
        assert_true(page_edited_parse(str_of(good[i].text), &tag));
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
        struct page_edited tag;
        assert_false(page_edited_parse(str_of(bad[i]), &tag));
    }
}

static void a_tag_is_read_as_it_is_written(void **state)
{
    (void)state;
    static const char *const other[] = {
        "",
        "7",
        "7/",
        "x/" TID,
        "07/" TID,
        "7/A0B0C000-e6a4-11f0-8000-010000000001",
        "7/" TID "/stash",
        "7/a0b0c000-e6a4-41f0-8000-010000000001",
    };
    char text[PAGE_TAG_BYTES + 1];
    struct page_name name = { .rev = 0 };
    assert_true(page_tag_name(STR("7/" TID), &name));
    assert_int_equal(name.rev, 7);
    assert_true(str_eq(page_tag(name, text), STR("7/" TID)));
    name.rev = UINT64_MAX;
    assert_int_equal(page_tag(name, text).n, PAGE_TAG_BYTES);
    assert_int_equal(text[PAGE_TAG_BYTES], 0);
    for (size_t i = 0; i < COUNT_OF(other); i++)
        assert_false(page_tag_name(str_of(other[i]), &name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tag_is_read_as_it_is_written),
        cmocka_unit_test(tags_of_renders_are_read),
        cmocka_unit_test(other_tags_are_none_of_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
