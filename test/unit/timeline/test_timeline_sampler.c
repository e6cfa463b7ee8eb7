/* Goal: sampling keeps every entry of a quiet domain and a steady rate of a busy one.
 * Method: made arrival times through a sampler, counted. */
#include "timeline/timeline.h"

#include "../cmocka_all.h"

#define DAY_NS (86400 * NS_PER_S)

static unsigned kept(struct timeline_sampler *s, uint32_t domain, unsigned count, int64_t step_ns)
{
    unsigned n = 0;
    for (unsigned i = 0; i < count; i++)
        n += timeline_sample(s, domain, (store_time){ .ns = (int64_t)i * step_ns }) ? 1u : 0u;
    return n;
}

static void a_quiet_domain_keeps_every_entry(void **state)
{
    (void)state;
    struct timeline_sampler_opts opts = { .entries_per_s = 0.01, .burst = 10, .domains_max = 4 };
    struct timeline_sampler *s = timeline_sampler_new(&opts);
    assert_int_equal(kept(s, 0, 39, DAY_NS * 10 / 13), 39);
    timeline_sampler_free(&s);
}

static void a_busy_domain_keeps_its_rate(void **state)
{
    (void)state;
    struct timeline_sampler_opts opts = { .entries_per_s = 0.01, .burst = 10, .domains_max = 4 };
    struct timeline_sampler *s = timeline_sampler_new(&opts);
    unsigned n = kept(s, 1, 186497, DAY_NS / 186497);
    assert_in_range(n, 864, 864 + 10);
    timeline_sampler_free(&s);
}

static void a_busy_domain_does_not_touch_a_quiet_one(void **state)
{
    (void)state;
    struct timeline_sampler_opts opts = { .entries_per_s = 1, .burst = 1, .domains_max = 4 };
    struct timeline_sampler *s = timeline_sampler_new(&opts);
    for (int i = 0; i < 100; i++)
        (void)timeline_sample(s, 1, (store_time){ .ns = i }); /* spends domain 1's tokens */
    assert_true(timeline_sample(s, 2, (store_time){ .ns = 100 }));
    timeline_sampler_free(&s);
}

static void no_rate_means_everything(void **state)
{
    (void)state;
    struct timeline_sampler_opts opts = { .domains_max = 1 };
    struct timeline_sampler *s = timeline_sampler_new(&opts);
    assert_int_equal(kept(s, 0, 1000, 0), 1000);
    timeline_sampler_free(&s);
}

static void a_clock_that_goes_back_gives_no_tokens(void **state)
{
    (void)state;
    struct timeline_sampler_opts opts = { .entries_per_s = 1, .burst = 1, .domains_max = 1 };
    struct timeline_sampler *s = timeline_sampler_new(&opts);
    assert_true(timeline_sample(s, 0, (store_time){ .ns = 100 * NS_PER_S }));
    assert_false(timeline_sample(s, 0, (store_time){ .ns = 0 }));
    assert_false(timeline_sample(s, 0, (store_time){ .ns = 100 * NS_PER_S }));
    assert_true(timeline_sample(s, 0, (store_time){ .ns = 101 * NS_PER_S }));
    timeline_sampler_free(&s);
}

static void domains_past_the_last_share_it(void **state)
{
    (void)state;
    struct timeline_sampler_opts opts = { .entries_per_s = 1, .burst = 1, .domains_max = 2 };
    struct timeline_sampler *s = timeline_sampler_new(&opts);
    assert_true(timeline_sample(s, 7, STORE_TIME_ZERO));
    assert_false(timeline_sample(s, 8, STORE_TIME_ZERO));
    timeline_sampler_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quiet_domain_keeps_every_entry),
        cmocka_unit_test(a_busy_domain_keeps_its_rate),
        cmocka_unit_test(a_busy_domain_does_not_touch_a_quiet_one),
        cmocka_unit_test(no_rate_means_everything),
        cmocka_unit_test(a_clock_that_goes_back_gives_no_tokens),
        cmocka_unit_test(domains_past_the_last_share_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
