/* Goal: what was put in is found for as long as it counts, whatever the size of the table.
 * Method: a random history against a plain array; sizes at which buckets are split. */
#include "../cmocka_all.h"
#include "base/rng.h"
#include "event/ids.h"

#include <string.h>

enum { IDS = 100000, KNOWN = 400, STEPS = 200000 };

static void digest_of(uint64_t number, unsigned char out[EVENT_DIGEST_BYTES])
{
    struct rng rng;
    rng_init(&rng, number);
    for (unsigned i = 0; i < EVENT_DIGEST_BYTES; i += 8) {
        uint64_t part = rng_next(&rng);
        memcpy(out + i, &part, sizeof part);
    }
}

static uint64_t find(const struct event_ids *ids, uint64_t number)
{
    unsigned char digest[EVENT_DIGEST_BYTES];
    digest_of(number, digest);
    return event_ids_find(ids, digest);
}

static void put(struct event_ids *ids, uint64_t number, uint64_t seq)
{
    unsigned char digest[EVENT_DIGEST_BYTES];
    digest_of(number, digest);
    event_ids_put(ids, digest, seq);
}

static void strike(struct event_ids *ids, uint64_t number, uint64_t seq)
{
    unsigned char digest[EVENT_DIGEST_BYTES];
    digest_of(number, digest);
    event_ids_strike(ids, digest, seq);
}

static uint64_t count(const struct event_ids *ids)
{
    uint64_t n, early;
    event_ids_figures(ids, &n, &early);
    return n;
}

static void all_are_found_while_it_grows_and_after_they_left(void **state)
{
    (void)state;
    struct event_ids *ids = event_ids_new();
    event_ids_bound(ids, 0, IDS);
    for (unsigned round = 0; round < 3; round++) {
        const uint64_t base = (uint64_t)round * IDS;
        for (unsigned i = 1; i <= IDS; i++) {
            put(ids, base + i, base + i);
            if (i % 1009 == 0 || (i & (i - 1)) == 0)
                for (unsigned j = 1; j <= i; j += 97)
                    assert_int_equal(find(ids, base + j), base + j);
        }
        assert_int_equal(count(ids), IDS);
        for (unsigned i = 1; i <= IDS; i++)
            assert_int_equal(find(ids, base + i), base + i);
        if (round > 0)
            assert_int_equal(find(ids, base), 0);
        event_ids_bound(ids, base + IDS, IDS);
        assert_int_equal(find(ids, base + IDS), 0);
    }
    event_ids_free(&ids);
}

static void the_newest_of_an_id_counts_and_a_struck_one_does_not(void **state)
{
    (void)state;
    struct event_ids *ids = event_ids_new();
    event_ids_bound(ids, 0, 10);
    put(ids, 1, 100);
    put(ids, 2, 101);
    strike(ids, 1, 100);
    assert_int_equal(find(ids, 1), 0);
    put(ids, 1, 102);
    assert_int_equal(find(ids, 1), 102);
    put(ids, 1, 103);
    assert_int_equal(find(ids, 1), 103);
    strike(ids, 1, 103);
    assert_int_equal(find(ids, 1), 102);
    event_ids_bound(ids, 102, 10);
    assert_int_equal(find(ids, 1), 0);
    put(ids, 3, 104);
    assert_int_equal(count(ids), 1); /* the four of before left with it */
    assert_int_equal(find(ids, 3), 104);
    event_ids_free(&ids);
}

static void fewer_may_stay_than_there_are(void **state)
{
    (void)state;
    uint64_t n, early;
    struct event_ids *ids = event_ids_new();
    event_ids_bound(ids, 0, 100);
    for (unsigned i = 1; i <= 100; i++)
        put(ids, i, i);
    event_ids_bound(ids, 0, 10);
    for (unsigned i = 101; i <= 140; i++)
        put(ids, i, i);
    event_ids_figures(ids, &n, &early);
    assert_int_equal(n, 10);
    assert_int_equal(early, 130);
    assert_int_equal(find(ids, 131), 131);
    assert_int_equal(find(ids, 130), 0);
    event_ids_bound(ids, 0, 0);
    for (unsigned i = 141; i <= 144; i++)
        put(ids, i, i);
    assert_int_equal(count(ids), 0);
    event_ids_free(&ids);
}

static void a_random_history_is_as_an_array_says(void **state)
{
    (void)state;
    static uint64_t last[KNOWN];
    struct rng rng;
    uint64_t behind = 0;
    struct event_ids *ids = event_ids_new();
    rng_init(&rng, 36);
    memset(last, 0, sizeof last);
    event_ids_bound(ids, behind, STEPS);
    for (uint64_t seq = 1; seq <= STEPS; seq++) {
        const unsigned id = (unsigned)rng_below(&rng, KNOWN);
        assert_int_equal(find(ids, id), last[id] > behind ? last[id] : 0);
        switch (rng_below(&rng, 8)) {
        case 0:
            behind += rng_below(&rng, seq - behind);
            event_ids_bound(ids, behind, STEPS);
            break;
        case 1:
            if (last[id] > behind)
                strike(ids, id, last[id]);
            last[id] = last[id] > behind ? 0 : last[id];
            break;
        default:
            if (last[id] <= behind) { /* as the log: what is there is not put in again */
                put(ids, id, seq);
                last[id] = seq;
            }
            break;
        }
    }
    event_ids_free(&ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_found_while_it_grows_and_after_they_left),
        cmocka_unit_test(the_newest_of_an_id_counts_and_a_struck_one_does_not),
        cmocka_unit_test(fewer_may_stay_than_there_are),
        cmocka_unit_test(a_random_history_is_as_an_array_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
