/* Goal: what a queue shows of itself: items by age over all partitions, whole pages and those that end at their bytes.
 * Method: as test_queue_queue.c; the clock stands still or is moved between two produces, so ages are known. */
#include "rig.h"

#include "base/rng.h"
#include "queue/part.h"

#include <string.h>

/* Of two partitions, within one second. */
static void ids_of_all_partitions_are_in_order_of_time(void **state)
{
    (void)state;
    static struct part p[2];
    struct rng rng;
    store_time now = { .ns = INT64_C(1800000000) * NS_PER_S };
    struct ksuid last = KSUID_NIL;
    rng_init(&rng, 7);
    for (int i = 0; i < 2000; i++, now.ns += 499999) {
        struct ksuid first = part_ids(&p[rng_next(&rng) % 2], 1000, now, rng_next(&rng));
        assert_true(ksuid_cmp(first, last) > 0);
        last = ksuid_add(first, 999);
        assert_int_equal(id_time(first).ns, now.ns);
        assert_int_equal(id_time(last).ns, now.ns);
    }
    struct ksuid again = part_ids(&p[0], 1, (store_time){ .ns = now.ns - NS_PER_S }, 0);
    struct ksuid next = part_ids(&p[0], 1, (store_time){ .ns = now.ns - NS_PER_S }, UINT64_MAX);
    assert_int_equal(ksuid_cmp(ksuid_add(again, 1), next), 0); /* of a clock that went back */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_of_all_partitions_are_in_order_of_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
