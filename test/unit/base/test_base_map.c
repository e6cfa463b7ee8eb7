/* Goal: puts, gets and removes as a plain list would have them, whatever the keys. Method: a model
 * of a list, random operations. */
#include "base/map.h"

#include "base/rng.h"

#include "../cmocka_all.h"

#include <stdio.h>
#include <string.h>

static void keys_are_bytes_and_copied(void **state)
{
    (void)state;
    struct map *m = map_new(1);
    int a = 0, b = 0, c = 0;
    char key[] = "k\0x";
    assert_null(map_put(m, (str){ key, 3 }, &a));
    assert_null(map_put(m, STR("k"), &b));
    assert_null(map_put(m, STR_NONE, &c));
    memset(key, 'z', sizeof key);
    assert_ptr_equal(map_get(m, STR("k\0x")), &a);
    assert_ptr_equal(map_get(m, STR("k")), &b);
    assert_ptr_equal(map_get(m, STR("")), &c);
    assert_null(map_get(m, STR("zzz")));
    assert_int_equal(map_count(m), 3);
    assert_ptr_equal(map_put(m, STR("k"), &c), &b);
    assert_int_equal(map_count(m), 3);
    assert_ptr_equal(map_remove(m, STR("k")), &c);
    assert_null(map_remove(m, STR("k")));
    assert_int_equal(map_count(m), 2);
    map_free(&m);
    assert_null(m);
    map_free(&m);
}

struct seen {
    unsigned count;
    uintptr_t sum;
};

static void see(void *ctx, str key, void *value)
{
    struct seen *s = ctx;
    uint64_t number = 0;
    assert_true(str_to_u64(key, &number));
    assert_int_equal((uintptr_t)value, number + 1);
    s->count++;
    s->sum += (uintptr_t)value;
}

static void each_entry_is_seen_once(void **state)
{
    (void)state;
    struct map *m = map_new(2);
    struct seen seen = { 0 };
    map_each(m, see, &seen);
    assert_int_equal(seen.count, 0);
    for (uintptr_t i = 0; i < 1000; i++) {
        char key[16];
        int n = snprintf(key, sizeof key, "%u", (unsigned)i);
        assert_null(map_put(m, (str){ key, (size_t)n }, (void *)(i + 1)));
    }
    map_each(m, see, &seen);
    assert_int_equal(seen.count, 1000);
    assert_int_equal(seen.sum, 500500);
    map_free(&m);
}

static void random_operations_agree_with_an_array(void **state)
{
    (void)state;
    enum { KEYS = 300 };
    for (uint64_t seed = 1; seed <= 5; seed++) {
        void *model[KEYS] = { NULL };
        size_t count = 0;
        struct rng r;
        rng_init(&r, seed);
        struct map *m = map_new(seed);
        for (unsigned i = 0; i < 20000; i++) {
            size_t index = rng_below(&r, KEYS);
            char bytes[2] = { (char)(index / 256), (char)index };
            str key = { bytes, 2 };
            void *value = (void *)(uintptr_t)(i + 1);
            switch (rng_below(&r, 3)) {
            case 0:
                assert_ptr_equal(map_put(m, key, value), model[index]);
                count += model[index] == NULL;
                model[index] = value;
                break;
            case 1:
                assert_ptr_equal(map_remove(m, key), model[index]);
                count -= model[index] != NULL;
                model[index] = NULL;
                break;
            default:
                assert_ptr_equal(map_get(m, key), model[index]);
            }
            assert_int_equal(map_count(m), count);
        }
        map_free(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_bytes_and_copied),
        cmocka_unit_test(each_entry_is_seen_once),
        cmocka_unit_test(random_operations_agree_with_an_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
