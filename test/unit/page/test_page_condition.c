/* Goal: the conditions of a request (RFC 9110 13.1) become what the store judges, and are judged as
 * the fields say. Method: tables of fields against renders of known names. */
#include "page/condition.h"

#include "page/etag.h"

#include "../cmocka_all.h"

/* Rendered at 2026-01-01 00:00:00 and a second later. */
#define TICKS ((int64_t)1767225600 * NS_PER_S)
static const char BEFORE[] = "Wed, 31 Dec 2025 23:59:59 GMT";
static const char THEN[] = "Thu, 01 Jan 2026 00:00:00 GMT";
static const char AFTER[] = "Thu, 01 Jan 2026 00:00:01 GMT";

static struct page_name name_at(uint64_t rev, int64_t s)
{
    return (struct page_name){ .rev = rev,
                               .tid =
                                   tid_make(tid_ticks((store_time){ TICKS + s * NS_PER_S }), 1) };
}

/* "R/TID" of that render where %s stands in the field. */
static str field_of(struct arena *a, const char *pattern, struct page_name name)
{
    char tag[PAGE_TAG_BYTES + 1];
    str text = str_of(pattern), tag_text = page_tag(name, tag);
    size_t at = str_find(text, '@');
    if (at == text.n)
        return text;
    return arena_printf(a, "%.*s%.*s%s", STR_ARG(str_take(text, at)), STR_ARG(tag_text),
                        pattern + at + 1);
}

static enum page_verdict judge(const char *match, const char *none, const char *since)
{
    struct arena a;
    arena_init(&a, 1 << 16);
    struct page_name name = name_at(7, 0);
    const struct page_condition_fields f = { .if_match = field_of(&a, match, name),
                                             .if_none_match = field_of(&a, none, name),
                                             .if_unmodified_since = str_of(since) };
    struct page_condition c;
    assert_true(page_condition_parse(&a, &f, &c));
    enum page_verdict verdict = page_condition_judge(&c, name);
    assert_int_equal(page_condition_holds(&c, &name), verdict == CONDITION_HOLDS);
    arena_fini(&a);
    return verdict;
}

static void fields_are_judged_as_they_say(void **state)
{
    (void)state;
    static const struct {
        const char *match, *none, *since;
        enum page_verdict verdict;
    } cases[] = {
        { "", "", "", CONDITION_HOLDS },
        { "*", "", "", CONDITION_HOLDS },
        { " * ", "", "", CONDITION_HOLDS },
        { "\"@\"", "", "", CONDITION_HOLDS },
        { "\"x\", \"@\"", "", "", CONDITION_HOLDS },
        { "W/\"@\"", "", "", CONDITION_FAILS }, /* weak tags match nothing strongly */
        { "\"8/x\"", "", "", CONDITION_FAILS },
        { "nonsense", "", "", CONDITION_FAILS },
        { "", "*", "", CONDITION_SAME },
        { "", "\"@\"", "", CONDITION_SAME },
        { "", "W/\"@\"", "", CONDITION_SAME },
        { "", "\"8/x\"", "", CONDITION_HOLDS },
        { "\"x\"", "\"@\"", "", CONDITION_FAILS },
        { "\"@\"", "\"@\"", "", CONDITION_SAME },
        { "", "", BEFORE, CONDITION_FAILS },
        { "", "", THEN, CONDITION_HOLDS },
        { "", "", AFTER, CONDITION_HOLDS },
        { "", "", "no date", CONDITION_HOLDS },
        { "\"@\"", "", BEFORE, CONDITION_HOLDS }, /* the date counts for nothing beside it */
        { "", "\"@\"", BEFORE, CONDITION_FAILS },
        { "", "\"@\"", AFTER, CONDITION_SAME },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_int_equal(judge(cases[i].match, cases[i].none, cases[i].since), cases[i].verdict);
}

static void younger_is_asked_strictly(void **state)
{
    (void)state;
    static const struct {
        const char *match, *since;
        bool spares, holds;
    } cases[] = {
        { "", "", false, true },    { "", BEFORE, true, false },    { "", THEN, true, false },
        { "", AFTER, false, true }, { "", "no date", true, false }, { "*", BEFORE, false, true },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct arena a;
        arena_init(&a, 1 << 16);
        const struct page_condition_fields f = { .if_match = str_of(cases[i].match),
                                                 .if_unmodified_since = str_of(cases[i].since) };
        struct page_condition c;
        assert_true(page_condition_parse(&a, &f, &c));
        page_condition_ask_younger(&f, &c);
        assert_int_equal(page_condition_spares(&c, name_at(7, 0)), cases[i].spares);
        assert_int_equal(page_condition_judge(&c, name_at(7, 0)) == CONDITION_HOLDS,
                         cases[i].holds);
        arena_fini(&a);
    }
}

static void a_full_arena_is_told(void **state)
{
    (void)state;
    struct arena a;
    struct page_condition c;
    const struct page_condition_fields match = { .if_match = STR("\"7/x\"") },
                                       none = { .if_none_match = STR("\"7/x\"") };
    arena_init(&a, 0);
    assert_false(page_condition_parse(&a, &match, &c));
    assert_false(page_condition_parse(&a, &none, &c));
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_judged_as_they_say),
        cmocka_unit_test(younger_is_asked_strictly),
        cmocka_unit_test(a_full_arena_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
