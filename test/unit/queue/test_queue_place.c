/* Goal: requests go where ADR 19 says, figure by figure, alone and in a batch; stores that fail or
 * lag are left out as the rules say; a decision can be made again from its record. Method: the
 * ADR's example and the failure cases as vectors; random loads against a naive search. */
#include "queue/order/health.h"

#include "../cmocka_all.h"
#include "base/rng.h"

#include <stdio.h>
#include <string.h>

enum { STORES_MAX = 8 };
struct table {
    struct place *place;
    struct place_store stores[STORES_MAX];
    unsigned stores_count;
    uint64_t seq;
};

static void table_init(struct table *t, unsigned partitions, unsigned stores)
{
    *t = (struct table){ .place = place_new(stores), .stores_count = stores };
    for (uint32_t i = 0; i < partitions; i++) {
        place_put(t->place, i, i % stores);
        place_open(t->place, i, true);
    }
}

/* Places items as one request: counts at once. */
static uint32_t put(struct table *t, uint32_t items)
{
    place_look(t->place, t->stores);
    uint32_t store = place_pick(t->stores, t->stores_count);
    uint32_t to = store == PLACE_NONE ? PLACE_NONE : t->stores[store].partition;
    place_record(t->place, &(struct place_decision){ .seq = t->seq++,
                                                     .items = items,
                                                     .store = store,
                                                     .partition = to,
                                                     .stores = t->stores });
    if (to != PLACE_NONE)
        place_load(t->place, to, place_load_of(t->place, to) + items);
    return to;
}

static void expect_loads(const struct table *t, const uint64_t *loads, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(place_load_of(t->place, i), loads[i]);
}
#define EXPECT(t, ...)                                                                             \
    expect_loads(t, (const uint64_t[]){ __VA_ARGS__ },                                             \
                 sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))

static void place_gives_the_figures_of_the_adr_one_after_another(void **state)
{
    struct table t;
    (void)state;
    table_init(&t, 4, 1);
    assert_int_equal(put(&t, 50), 0);
    EXPECT(&t, 50, 0, 0, 0);
    assert_int_equal(put(&t, 30), 1);
    assert_int_equal(put(&t, 100), 2);
    EXPECT(&t, 50, 30, 100, 0);
    assert_int_equal(put(&t, 20), 3);
    EXPECT(&t, 50, 30, 100, 20);
    assert_int_equal(put(&t, 100), 3);
    assert_int_equal(put(&t, 100), 1);
    EXPECT(&t, 50, 130, 100, 120);
    assert_int_equal(put(&t, 1), 0);
    for (unsigned i = 0; i < place_decisions(t.place); i++)
        assert_true(place_replays(t.place, place_decision_at(t.place, i)));
    place_free(&t.place);
}

static void place_takes_ties_by_the_lowest_number(void **state)
{
    struct table t;
    (void)state;
    table_init(&t, 14, 3);
    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t i = 0; i < 14; i++)
            assert_int_equal(put(&t, 1), i);
    place_free(&t.place);
}

static void place_moves_a_failed_request_after_the_batch_to_partition_3(void **state)
{
    struct table t;
    (void)state;
    table_init(&t, 4, 4); /* a store each, so that partition 1 can fail alone */
    (void)put(&t, 50), (void)put(&t, 30), (void)put(&t, 100);
    place_load(t.place, 1, 0); /* what was placing there is not */
    t.stores[1].status = PLACE_SUSPECT;
    assert_int_equal(put(&t, 30), 3);
    EXPECT(&t, 50, 0, 100, 30);
    place_free(&t.place);
}

static void place_moves_a_failed_request_alone_to_partition_2(void **state)
{
    struct table t;
    (void)state;
    table_init(&t, 4, 4);
    (void)put(&t, 50), (void)put(&t, 30);
    place_load(t.place, 1, 0);
    t.stores[1].status = PLACE_SUSPECT;
    assert_int_equal(put(&t, 30), 2);
    EXPECT(&t, 50, 0, 30, 0);
    assert_int_equal(put(&t, 100), 3);
    place_free(&t.place);
}

static void place_leaves_a_suspect_out_in_the_second_round(void **state)
{
    struct table t;
    (void)state;
    table_init(&t, 4, 4);
    (void)put(&t, 50), (void)put(&t, 30), (void)put(&t, 100);
    t.stores[1].status = PLACE_SUSPECT;
    assert_int_equal(put(&t, 20), 3);
    assert_int_equal(put(&t, 100), 3);
    assert_int_equal(put(&t, 100), 0);
    EXPECT(&t, 150, 30, 100, 120);
    for (unsigned i = 0; i < 4; i++)
        t.stores[i].status = PLACE_SUSPECT;
    assert_int_equal(put(&t, 7), PLACE_NONE);
    EXPECT(&t, 150, 30, 100, 120);
    place_free(&t.place);
}

static void place_leaves_a_slow_store_out_unless_too_few_are_left(void **state)
{
    (void)state;
    struct place_store s[4];
    for (unsigned i = 0; i < 4; i++)
        s[i] = (struct place_store){ .partition = i, .load = i, .write_ns = NS_PER_MS };
    s[0].write_ns = 100 * NS_PER_MS;
    assert_int_equal(place_pick(s, 4), 1);
    assert_int_equal(place_pick(s, 2), 1); /* beside one other */
    assert_int_equal(place_pick(s, 1), 0); /* alone: nothing to compare with */
    s[0].write_ns = 9 * NS_PER_MS;
    assert_int_equal(place_pick(s, 4), 0); /* many times the median, but quick */
    s[0].write_ns = s[1].write_ns = s[2].write_ns = 100 * NS_PER_MS;
    assert_int_equal(place_pick(s, 4), 0); /* the median is slow too */
}

static void place_leaves_a_crowded_store_out(void **state)
{
    (void)state;
    struct place_store s[3] = { { .partition = 0, .in_flight = 9 },
                                { .partition = 1, .load = 5, .in_flight = 2 },
                                { .partition = 2, .load = 6, .in_flight = 1 } };
    assert_int_equal(place_pick(s, 3), 1); /* mean 4, bound 6 */
    s[0].in_flight = 3;
    assert_int_equal(place_pick(s, 3), 0); /* fewer than the least bound */
    s[0].in_flight = s[1].in_flight = s[2].in_flight = 50;
    assert_int_equal(place_pick(s, 3), 0);
    assert_int_equal(place_pick(s, 1), 0);
}

static void place_agrees_with_a_naive_search(void **state)
{
    enum { PARTS = 37, STEPS = 20000 };
    struct table t;
    struct rng rng;
    uint32_t store_of[PARTS];
    bool open[PARTS];
    (void)state;
    rng_init(&rng, 42);
    table_init(&t, PARTS, 5);
    for (uint32_t i = 0; i < PARTS; i++)
        store_of[i] = i % 5, open[i] = true;
    for (unsigned step = 0; step < STEPS; step++) {
        uint32_t p = (uint32_t)rng_below(&rng, PARTS);
        switch (rng_below(&rng, 8)) {
        case 0:
            open[p] = !open[p];
            place_open(t.place, p, open[p]);
            break;
        case 1:
            store_of[p] = (uint32_t)rng_below(&rng, 5), open[p] = false;
            place_put(t.place, p, store_of[p]);
            break;
        case 2:
            t.stores[p % 5].status = rng_below(&rng, 2) ? PLACE_OK : PLACE_ERROR;
            break;
        default:
            place_load(t.place, p, rng_below(&rng, 9));
            break;
        }
        uint32_t best = PLACE_NONE;
        for (uint32_t i = 0; i < PARTS; i++)
            if (open[i] && t.stores[store_of[i]].status == PLACE_OK &&
                (best == PLACE_NONE || place_load_of(t.place, i) < place_load_of(t.place, best)))
                best = i;
        assert_int_equal(put(&t, (uint32_t)rng_below(&rng, 3)), best);
        assert_true(place_replays(t.place, place_decision_at(t.place, 0)));
    }
    place_free(&t.place);
}

static void health_is_suspect_until_probed_and_in_error_until_recovered(void **state)
{
    struct health h = { .status = PLACE_OK };
    mono now = { .ns = NS_PER_S };
    (void)state;
    assert_true(health_written(&h, now, ERR_UNAVAILABLE, 0, true));
    assert_int_equal(h.status, PLACE_SUSPECT);
    assert_false(health_probe(&h, now));
    now = mono_add_ms(now, HEALTH_BACKOFF_MS);
    assert_true(health_probe(&h, now));
    assert_false(health_probe(&h, now)); /* one at a time */
    assert_false(health_written(&h, now, ERR_OK, 1, true));
    assert_int_equal(h.status, PLACE_SUSPECT); /* only the probe clears it */
    assert_true(health_probed(&h, now, ERR_OK, 5));
    assert_int_equal(h.status, PLACE_OK);
    (void)health_written(&h, now, ERR_FULL, 0, true);
    for (unsigned i = 0; i < 40; i++)
        (void)health_probed(&h, now, ERR_FULL, 0);
    assert_int_equal(h.status, PLACE_SUSPECT); /* full is not broken */
    assert_int_equal(h.probe_at.ns - now.ns, HEALTH_BACKOFF_MS_MAX * NS_PER_MS);
    assert_true(health_written(&h, now, ERR_IO, 0, true));
    assert_int_equal(h.status, PLACE_ERROR);
    assert_false(health_written(&h, now, ERR_OK, 1, true));
    assert_int_equal(h.status, PLACE_ERROR);
}

/* Passes every probe and refuses every write. */
static void
health_of_one_that_refuses_every_write_ends_in_error_and_swings_ever_slower(void **state)
{
    struct health h = { .status = PLACE_OK };
    mono now = { .ns = 1 };
    unsigned turns = 0;
    (void)state;
    for (mono end = mono_add_ms(now, 600000); now.ns < end.ns; turns++) {
        (void)health_written(&h, now, ERR_UNAVAILABLE, 0, true);
        assert_int_equal(h.status, turns < HEALTH_FAILURES_MAX - 1 ? PLACE_SUSPECT : PLACE_ERROR);
        health_wanted(&h, now); /* somebody waits, and that changes nothing after the first */
        now = turns == 0 ? mono_add_ms(now, HEALTH_WANTED_MS) : health_next(&h);
        assert_true(health_probe(&h, now));
        assert_true(health_probed(&h, now, ERR_OK, 1));
    }
    assert_true(turns < 40); /* in ten minutes */
    (void)health_written(&h, now, ERR_OK, 1, true);
    (void)health_written(&h, now, ERR_UNAVAILABLE, 0, true);
    assert_int_equal(h.status, PLACE_SUSPECT); /* forgotten after one good write */
}

static void health_is_probed_soon_when_a_request_waits(void **state)
{
    struct health h = { .status = PLACE_OK };
    mono now = { .ns = 1 };
    (void)state;
    (void)health_written(&h, now, ERR_UNAVAILABLE, 0, true);
    for (unsigned i = 0; i < 20; i++) {
        now = health_next(&h);
        assert_true(health_probe(&h, now));
        (void)health_probed(&h, now, ERR_UNAVAILABLE, 0);
    }
    assert_true(health_next(&h).ns >= mono_add_ms(now, HEALTH_BACKOFF_MS_MAX).ns);
    health_wanted(&h, now);
    assert_int_equal(health_next(&h).ns,
                     mono_add_ms(now, HEALTH_WANTED_MS).ns); /* not at once: one was just made */
    now = mono_add_ms(now, HEALTH_BACKOFF_MS_MAX / 2);
    health_wanted(&h, now);
    assert_true(health_probe(&h, now));
}

static void health_average_is_not_moved_by_one_slow_write(void **state)
{
    struct health quick = { .status = PLACE_OK }, slow = { .status = PLACE_OK };
    mono now = { .ns = NS_PER_S };
    (void)state;
    (void)health_written(&quick, now, ERR_OK, NS_PER_MS, true);
    (void)health_written(&quick, now, ERR_OK, 57 * NS_PER_MS, true);
    assert_int_equal(quick.write_ns, 8 * NS_PER_MS);
    assert_int_equal(health_next(&quick).ns, INT64_MAX);
    for (int i = 0; i < 40; i++)
        (void)health_written(&slow, now, ERR_OK, 100 * NS_PER_MS, true);
    assert_int_equal(slow.write_ns, 100 * NS_PER_MS);
    struct place_store both[] = { health_view(&quick), health_view(&slow) };
    both[0].partition = 0, both[0].load = 1000;
    both[1].partition = 1, both[1].load = 0;
    assert_int_equal(place_pick(both, 2),
                     0); /* the peak of the quick one does not hide the slow one */
    now = mono_add_ms(now, HEALTH_SLOW_PROBE_MS);
    assert_true(health_probe(&slow, now)); /* nothing else would show that it got better */
    (void)health_probed(&slow, now, ERR_OK, NS_PER_MS);
    assert_int_equal(slow.write_ns, NS_PER_MS);
    assert_int_equal(health_next(&slow).ns, INT64_MAX);
    (void)health_written(&slow, now, ERR_OK, 100 * NS_PER_MS, true);
    assert_true(health_next(&slow).ns < INT64_MAX); /* it was luck: one write shows it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(place_gives_the_figures_of_the_adr_one_after_another),
        cmocka_unit_test(place_takes_ties_by_the_lowest_number),
        cmocka_unit_test(place_moves_a_failed_request_after_the_batch_to_partition_3),
        cmocka_unit_test(place_moves_a_failed_request_alone_to_partition_2),
        cmocka_unit_test(place_leaves_a_suspect_out_in_the_second_round),
        cmocka_unit_test(place_leaves_a_slow_store_out_unless_too_few_are_left),
        cmocka_unit_test(place_leaves_a_crowded_store_out),
        cmocka_unit_test(place_agrees_with_a_naive_search),
        cmocka_unit_test(health_is_suspect_until_probed_and_in_error_until_recovered),
        cmocka_unit_test(
            health_of_one_that_refuses_every_write_ends_in_error_and_swings_ever_slower),
        cmocka_unit_test(health_is_probed_soon_when_a_request_waits),
        cmocka_unit_test(health_average_is_not_moved_by_one_slow_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
