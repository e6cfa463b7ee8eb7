/* Goal: conditions of writers (RFC 9110 13.1 and 13.2.2) hold and fail as values.
 * Method: each against no render, an older one, the very one, a newer one. */
#include "store/page_store.h"

#include "../cmocka_all.h"

static struct page_name name_at(uint64_t rev, int64_t s)
{
    return (struct page_name){ .rev = rev,
                               .tid = tid_make(tid_ticks((store_time){ s * NS_PER_S }), 1) };
}

static bool holds(struct page_match match, struct page_match none, int64_t before_s,
                  const struct page_name *latest)
{
    const struct page_condition c = { .match = match,
                                      .none_match = none,
                                      .dated = before_s != 0,
                                      .before = { before_s * NS_PER_S } };
    bool asked = match.kind != MATCH_UNASKED || none.kind != MATCH_UNASKED || before_s != 0;
    assert_int_equal(page_condition_is_none(&c), !asked);
    return page_condition_holds(&c, latest);
}

static void conditions_hold_as_asked(void **state)
{
    (void)state;
    const struct page_name older = name_at(6, 1000), one = name_at(7, 2000),
                           newer = name_at(7, 3000);
    const struct page_name names[] = { name_at(1, 5), one };
    const struct page_match unasked = { .kind = MATCH_UNASKED }, any = { .kind = MATCH_ANY };
    const struct page_match listed = { .kind = MATCH_LISTED, .names = names, .count = 2 };
    const struct page_match nothing = { .kind = MATCH_LISTED }; /* tags of others alone */
    const struct {
        struct page_match match, none;
        int64_t before_s;
        bool holds[4]; /* of no render, older, one, newer */
    } cases[] = {
        { unasked, unasked, 0, { true, true, true, true } },
        { any, unasked, 0, { false, true, true, true } },
        { listed, unasked, 0, { false, false, true, false } },
        { nothing, unasked, 0, { false, false, false, false } },
        { unasked, any, 0, { true, false, false, false } },
        { unasked, listed, 0, { true, true, false, true } },
        { unasked, nothing, 0, { true, true, true, true } },
        { unasked, unasked, 2000, { true, true, false, false } },
        { unasked, unasked, 2001, { true, true, true, false } },
        { any, listed, 0, { false, true, false, true } },
        { listed, any, 0, { false, false, false, false } },
        { unasked, listed, 2001, { true, true, false, false } },
    };
    const struct page_name *const latest[] = { NULL, &older, &one, &newer };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        for (size_t k = 0; k < COUNT_OF(latest); k++)
            assert_int_equal(holds(cases[i].match, cases[i].none, cases[i].before_s, latest[k]),
                             cases[i].holds[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(conditions_hold_as_asked) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
