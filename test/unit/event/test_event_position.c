/* Goal: a position is told to clients and understood again, and nothing else is taken for one.
 * Method: known texts, and random positions printed and parsed. */
#include "../cmocka_all.h"
#include "base/check.h"
#include "base/rng.h"
#include "event/position.h"

#include <string.h>

static void it_is_printed_and_parsed(void **state)
{
    (void)state;
    char out[EVENT_POSITION_BYTES];
    const struct event_position p = { .log = 0xabc, .seq = 1800000000000000, .at_ms = 7 };
    const str text = { .p = out, .n = event_position_print(&p, out) };
    assert_true(str_eq(text, STR("0000000000000abc-1800000000000000-7")));
    struct rng rng;
    rng_init(&rng, 20261127);
    for (unsigned i = 0; i < 10000; i++) {
        const struct event_position before = { .log = rng_next(&rng) >> rng_below(&rng, 64),
                                               .seq = rng_next(&rng) >> rng_below(&rng, 64),
                                               .at_ms = (int64_t)(rng_next(&rng) >> 1) };
        struct event_position after;
        const str one = { .p = out, .n = event_position_print(&before, out) };
        assert_true(event_position_parse(one, &after));
        assert_true(before.log == after.log && before.seq == after.seq);
        assert_true(before.at_ms == after.at_ms);
    }
}

static void what_is_no_position_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "-",
        "--",
        "0000000000000abc",
        "0000000000000abc-1",
        "0000000000000abc-1-",
        "0000000000000abc--1",
        "0000000000000abc-1-2-3",
        "000000000000abc-1-2",
        "00000000000000abc-1-2",
        "0000000000000ABC-1-2",
        "000000000000 abc-1-2",
        "0000000000000abc-01-2",
        "0000000000000abc-1-02",
        "0000000000000abc-+1-2",
        "0000000000000abc-1--2",
        "0000000000000abc-18446744073709551616-2",
        "0000000000000abc-1-9223372036854775808",
        " 0000000000000abc-1-2",
        "0000000000000abc-1-2 ",
    };
    struct event_position p = { .seq = 42 };
    for (unsigned i = 0; i < COUNT_OF(texts); i++)
        assert_false(event_position_parse(str_of(texts[i]), &p));
    assert_true(p.seq == 42);
    assert_true(event_position_parse(STR("0000000000000abc-18446744073709551615-0"), &p));
    assert_true(p.seq == UINT64_MAX && p.at_ms == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_printed_and_parsed),
        cmocka_unit_test(what_is_no_position_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
