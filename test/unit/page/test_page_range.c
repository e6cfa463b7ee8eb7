/* Goal: a range is sent when it is asked for of the very render that is there (RFC 9110 13.1.5,
 * 14). Method: a table. */
#include "page/range.h"

#include "page/etag.h"

#include "../cmocka_all.h"

#include <stdio.h>
#include <string.h>

static void ranges_are_of_the_render_that_is_named(void **state)
{
    (void)state;
    const struct page_name name = { .rev = 7, .tid = tid_make(0x1f0e6a4a0b0c000, 1) };
    char tag[PAGE_TAG_BYTES + 1], strong[PAGE_TAG_BYTES + 3], weak[PAGE_TAG_BYTES + 5];
    (void)page_tag(name, tag);
    (void)snprintf(strong, sizeof strong, "\"%s\"", tag);
    (void)snprintf(weak, sizeof weak, "W/\"%s\"", tag);
    const struct {
        const char *range, *if_range;
        enum http_range_kind kind;
        uint64_t first, last;
    } cases[] = {
        { "", "", RANGE_NONE, 0, 0 },
        { "", strong, RANGE_NONE, 0, 0 },
        { "bytes=2-5", "", RANGE_ONE, 2, 5 },
        { "bytes=2-5", strong, RANGE_ONE, 2, 5 },
        { "bytes=2-5", weak, RANGE_NONE, 0, 0 },
        { "bytes=2-5", "*", RANGE_NONE, 0, 0 },
        { "bytes=2-5", "\"8/other\"", RANGE_NONE, 0, 0 },
        { "bytes=2-5", "Thu, 01 Jan 2026 00:00:00 GMT", RANGE_NONE, 0, 0 },
        { "bytes=-3", "", RANGE_ONE, 7, 9 },
        { "bytes=10-", "", RANGE_UNSATISFIABLE, 0, 0 },
        { "bytes=10-", strong, RANGE_UNSATISFIABLE, 0, 0 },
        { "bytes=1-2,4-5", "", RANGE_NONE, 0, 0 },
        { "lines=1-2", "", RANGE_NONE, 0, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct page_range_fields f = { .range = str_of(cases[i].range),
                                             .if_range = str_of(cases[i].if_range) };
        struct http_range r = page_range(&f, name, 10);
        assert_int_equal(r.kind, cases[i].kind);
        if (r.kind == RANGE_ONE) {
            assert_int_equal(r.first, cases[i].first);
            assert_int_equal(r.last, cases[i].last);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(ranges_are_of_the_render_that_is_named) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
