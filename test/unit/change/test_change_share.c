/* Goal: targets that take jobs get them in proportion to their weights, a slow one gets less, and
 * one that was away makes up for nothing. Method: a simulation with a few at once, whose jobs end
 * in the order of their lengths. */
#include "change/share.h"

#include "unit/cmocka_all.h"

#include <string.h>

enum { RUNS_MAX = 64 };

struct play {
    struct change_shares shares;
    struct change_share of[4];
    unsigned count, begun[4];
    uint64_t lasts[4]; /* how long a job there does */
    uint64_t now;
    struct {
        uint64_t ends;
        unsigned target;
    } runs[RUNS_MAX];
    unsigned running;
};

static void end_first(struct play *p)
{
    unsigned first = 0;
    for (unsigned i = 1; i < p->running; i++)
        if (p->runs[i].ends < p->runs[first].ends)
            first = i;
    p->now = p->runs[first].ends;
    p->of[p->runs[first].target].running--;
    p->runs[first] = p->runs[--p->running];
}

/* Begins so many jobs more, with so many at once. */
static void play(struct play *p, unsigned jobs, unsigned at_once)
{
    memset(p->begun, 0, sizeof p->begun);
    for (unsigned n = 0; n < jobs; n++) {
        while (p->running >= at_once)
            end_first(p);
        unsigned turn = change_share_turn(&p->shares, p->of, p->count);
        assert_true(turn < p->count);
        assert_true(p->of[turn].takes);
        p->of[turn].running++;
        p->begun[turn]++;
        p->runs[p->running].target = turn;
        p->runs[p->running++].ends = p->now + p->lasts[turn];
    }
}

static void jobs_are_split_by_weight_however_many_run(void **state)
{
    (void)state;
    for (unsigned at_once = 1; at_once <= 16; at_once++) {
        struct play p = { .count = 3,
                          .of = { { true, 0, 1 }, { true, 0, 3 }, { true, 0, 6 } },
                          .lasts = { 1000, 1001, 999 } };
        play(&p, 1000, at_once);
        assert_in_range(p.begun[0], 90, 115);
        assert_in_range(p.begun[1], 280, 320);
        assert_in_range(p.begun[2], 570, 630);
    }
}

static void equal_weights_take_turns(void **state)
{
    (void)state;
    struct play p = { .count = 3,
                      .of = { { true, 0, 1 }, { true, 0, 1 }, { true, 0, 1 } },
                      .lasts = { 10, 10, 10 } };
    for (unsigned i = 0; i < 9; i++) {
        play(&p, 1, 1);
        assert_int_equal(p.begun[i % 3], 1);
    }
}

static void a_slow_target_keeps_its_part_busy_and_no_more(void **state)
{
    (void)state;
    struct play p = { .count = 2, .of = { { true, 0, 1 }, { true, 0, 1 } }, .lasts = { 10, 1000 } };
    play(&p, 1000, 8);
    assert_in_range(p.of[1].running, 1, 4);
    assert_true(p.begun[0] > 950);
}

static void one_that_is_drained_gets_none_and_makes_up_for_nothing(void **state)
{
    (void)state;
    struct play p = { .count = 2, .of = { { true, 0, 3 }, { false, 0, 1 } }, .lasts = { 10, 10 } };
    play(&p, 500, 2);
    assert_int_equal(p.begun[0], 500);
    p.of[1].takes = true;
    play(&p, 40, 1);
    assert_in_range(p.begun[1], 9, 11);
    p.of[0].takes = false;
    play(&p, 40, 1);
    assert_int_equal(p.begun[1], 40);
    p.of[1].takes = false;
    assert_int_equal(change_share_turn(&p.shares, p.of, 2), 2);
    assert_int_equal(change_share_turn(&p.shares, p.of, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_are_split_by_weight_however_many_run),
        cmocka_unit_test(equal_weights_take_turns),
        cmocka_unit_test(a_slow_target_keeps_its_part_busy_and_no_more),
        cmocka_unit_test(one_that_is_drained_gets_none_and_makes_up_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
