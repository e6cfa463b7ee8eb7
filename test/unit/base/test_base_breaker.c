/* Goal: who fails again and again is left alone, tried once after each pause, and taken up again.
 * Method: instants by hand; then random histories against what the header says. */
#include "base/breaker.h"
#include "base/rng.h"

#include "../cmocka_all.h"

static mono at(int64_t ms)
{
    return (mono){ .ns = ms * NS_PER_MS };
}

static void failures_in_a_row_open_it_and_a_success_between_does_not(void **state)
{
    (void)state;
    struct breaker b;
    breaker_init(&b, 3, 100, 1000);
    for (int i = 0; i < 10; i++) {
        assert_true(breaker_enter(&b, at(i)));
        assert_false(breaker_failed(&b, at(i)));
        assert_false(breaker_failed(&b, at(i)));
        breaker_succeeded(&b);
    }
    assert_false(breaker_failed(&b, at(10)));
    assert_false(breaker_failed(&b, at(10)));
    assert_true(breaker_failed(&b, at(10)));
    assert_false(breaker_enter(&b, at(10)));
    assert_false(breaker_enter(&b, at(109)));
    assert_true(breaker_enter(&b, at(110)));
    assert_false(breaker_enter(&b, at(110))); /* one on trial */
    breaker_succeeded(&b);
    assert_true(breaker_enter(&b, at(110)));
}

static void each_trial_that_fails_doubles_the_pause_up_to_the_longest(void **state)
{
    (void)state;
    struct breaker b;
    int64_t now = 0;
    breaker_init(&b, 1, 100, 1000);
    assert_true(breaker_failed(&b, at(now)));
    const int64_t pauses[] = { 100, 200, 400, 800, 1000, 1000 };
    for (size_t i = 0; i < COUNT_OF(pauses); i++) {
        assert_false(breaker_enter(&b, at(now + pauses[i] - 1)));
        now += pauses[i];
        assert_true(breaker_enter(&b, at(now)));
        assert_true(breaker_failed(&b, at(now)));
        assert_false(breaker_failed(&b, at(now))); /* a late one changes nothing */
    }
    breaker_succeeded(&b);
    assert_true(breaker_failed(&b, at(now)));
    assert_true(breaker_enter(&b, at(now + 100)));
}

static void a_trial_that_never_ends_lets_another_in(void **state)
{
    (void)state;
    struct breaker b;
    breaker_init(&b, 1, 100, 1000);
    assert_true(breaker_failed(&b, at(0)));
    assert_true(breaker_enter(&b, at(100)));
    assert_false(breaker_enter(&b, at(1099)));
    assert_true(breaker_enter(&b, at(1100)));
}

/* While it is open no more than one a base_ms gets in; a success always closes it. */
static void random_histories_hold_what_is_promised(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r, 7);
    for (int run = 0; run < 200; run++) {
        struct breaker b;
        int64_t now = 0, opened_at = -1;
        breaker_init(&b, 4, 50, 400);
        for (int i = 0; i < 500; i++) {
            now += (int64_t)(rng_next(&r) % 30);
            bool in = breaker_enter(&b, at(now));
            assert_true(opened_at >= 0 || in);
            assert_true(!in || opened_at < 0 || now - opened_at >= 50);
            if (!in)
                continue;
            if (rng_next(&r) % 3 == 0) {
                breaker_succeeded(&b);
                opened_at = -1;
            } else if (breaker_failed(&b, at(now))) {
                opened_at = now;
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_in_a_row_open_it_and_a_success_between_does_not),
        cmocka_unit_test(each_trial_that_fails_doubles_the_pause_up_to_the_longest),
        cmocka_unit_test(a_trial_that_never_ends_lets_another_in),
        cmocka_unit_test(random_histories_hold_what_is_promised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
