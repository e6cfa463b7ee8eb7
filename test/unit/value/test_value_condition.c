/* Goal: If-Match and If-None-Match are judged as RFC 9110 13.1 says, by the tag of the stored
 * value, or of its revision. Method: tables. */
#include "value/value_impl.h"

#include "../cmocka_all.h"

#define TID "a0b0c000-e6a4-11f0-8000-010000000001"

enum stored { NOTHING, UNTAGGED, STRONG, WEAK };

static void check_case(enum value_kind kind, const struct table_row *stored, const char *if_match,
                       const char *if_none_match, bool holds)
{
    const struct value_condition c = { .if_match = str_of(if_match),
                                       .if_none_match = str_of(if_none_match) };
    if (value_condition_holds(&c, kind, stored) != holds)
        fail_msg("If-Match: %s, If-None-Match: %s: want %d", if_match, if_none_match, holds);
}

static void a_value_is_named_by_the_tag_its_writer_gave(void **state)
{
    static const struct {
        enum stored stored;
        const char *if_match, *if_none_match;
        bool holds;
    } cases[] = {
        { NOTHING, "", "", true },           { NOTHING, "*", "", false },
        { NOTHING, "\"a\"", "", false },     { NOTHING, "", "*", true },
        { NOTHING, "", "\"a\"", true },      { UNTAGGED, "*", "", true },
        { UNTAGGED, " * ", "", true },       { UNTAGGED, "\"a\"", "", false },
        { UNTAGGED, "", "*", false },        { UNTAGGED, "", "\"a\"", true },
        { STRONG, "\"a\"", "", true },       { STRONG, "\"b\", \"a\"", "", true },
        { STRONG, "W/\"a\"", "", false },    { STRONG, "\"b\"", "", false },
        { STRONG, "", "\"a\"", false },      { STRONG, "", "W/\"a\"", false },
        { STRONG, "", "\"b\"", true },       { STRONG, "\"a\"", "\"b\"", true },
        { STRONG, "\"a\"", "\"a\"", false }, { WEAK, "\"a\"", "", false },
        { WEAK, "W/\"a\"", "", false },      { WEAK, "*", "", true },
        { WEAK, "", "\"a\"", false },        { WEAK, "", "W/\"a\"", false },
    };
    static const char *const tags[] = { [STRONG] = "\"a\"", [WEAK] = "W/\"a\"" };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        enum stored s = cases[i].stored;
        const struct table_attr attrs[] = {
            { STR("key"), STR("k") }, { STR("etag"), s >= STRONG ? str_of(tags[s]) : STR_NONE }
        };
        const struct table_row row = { .attrs = attrs, .count = s >= STRONG ? 2 : 1 };
        check_case(VALUE_PLAIN, s == NOTHING ? NULL : &row, cases[i].if_match,
                   cases[i].if_none_match, cases[i].holds);
    }
}

static void a_revision_is_named_by_its_key(void **state)
{
    struct arena a;
    struct tid tid;
    (void)state;
    arena_init(&a, 1 << 16);
    assert_true(tid_parse(STR(TID), &tid));
    const struct table_attr attrs[] = { { STR("key"), STR("k") },
                                        { STR("rev"), table_value_long(&a, 7) },
                                        { STR("tid"), table_value_tid(&a, tid) } };
    const struct table_row row = { .attrs = attrs, .count = COUNT_OF(attrs) };
    check_case(VALUE_REVS, &row, "\"7/" TID "\"", "", true);
    check_case(VALUE_REVS, &row, "\"8/" TID "\"", "", false);
    check_case(VALUE_REVS, &row, "", "\"7/" TID "\"", false);
    check_case(VALUE_REVS, &row, "", "*", false);
    check_case(VALUE_REVS, NULL, "", "*", true);
    check_case(VALUE_REVS, NULL, "\"7/" TID "\"", "", false);
    arena_fini(&a);
}

static void what_is_absent_asks_for_nothing(void **state)
{
    (void)state;
    const struct value_condition none = { .if_match = STR(""), .if_none_match = STR_NONE },
                                 some = { .if_none_match = STR("*") };
    assert_true(value_condition_is_none(&none));
    assert_false(value_condition_is_none(&some));
}

static void a_reader_has_what_its_tags_name(void **state)
{
    (void)state;
    assert_true(value_is_named(STR("\"b\", W/\"a\""), STR("\"a\"")));
    assert_true(value_is_named(STR("\"a\""), STR("W/\"a\"")));
    assert_true(value_is_named(STR(" * "), STR_NONE));
    assert_false(value_is_named(STR("\"a\""), STR_NONE));
    assert_false(value_is_named(STR_NONE, STR("\"a\"")));
    assert_false(value_is_named(STR("\"b\""), STR("\"a\"")));
}

/* The tid is of 2025-12-31T23:58:39Z. */
static void the_tid_of_a_tag_says_how_old_its_value_is(void **state)
{
    (void)state;
    const char *later = "Fri, 02 Jan 2026 00:00:00 GMT", *earlier = "Wed, 31 Dec 2025 00:00:00 GMT";
    static const char *const tags[] = { ("\"7/" TID "\""), ("W/\"7/" TID "/x\""), ("7/" TID) };
    for (size_t i = 0; i < COUNT_OF(tags); i++) {
        assert_true(value_is_older(str_of(tags[i]), str_of(later)));
        assert_false(value_is_older(str_of(tags[i]), str_of(earlier)));
        assert_false(value_is_older(str_of(tags[i]), STR("yesterday")));
    }
    assert_false(value_is_older(STR("\"7\""), str_of(later)));
    assert_false(value_is_older(STR(""), str_of(later)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_named_by_the_tag_its_writer_gave),
        cmocka_unit_test(a_revision_is_named_by_its_key),
        cmocka_unit_test(what_is_absent_asks_for_nothing),
        cmocka_unit_test(a_reader_has_what_its_tags_name),
        cmocka_unit_test(the_tid_of_a_tag_says_how_old_its_value_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
