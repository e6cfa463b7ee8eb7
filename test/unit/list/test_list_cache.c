/* Goal: what was just seen is found again until its time or its memory is over, and a drop is never
 * undone by a list that was on its way.
 * Method: the cache alone, with values of known size and a clock that is an argument; threads that
 * put, drop and get. */
#include "list/cache.h"

#include "../cmocka_all.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_MAX = 20000, JSON_BYTES = 1000, THREADS = 4, ROUNDS = 4000 };

static _Atomic int values_alive;

static void value_free(struct flight_value *v)
{
    values_alive--;
    free(list_value_of(v));
}

static struct list_value *value_new(mono at, size_t json_bytes)
{
    struct list_value *v = calloc(1, sizeof *v + json_bytes);
    assert_non_null(v);
    v->v = (struct flight_value){ .refs = 1, .free = value_free };
    v->at = at;
    v->json = (str){ .p = (char *)(v + 1), .n = json_bytes };
    values_alive++;
    return v;
}

static void unref(struct list_value *v)
{
    struct flight_value *value = &v->v;
    flight_value_unref(&value);
}

static const unsigned char *id_of(unsigned n, unsigned char out[FLIGHT_ID_BYTES])
{
    memset(out, 0, FLIGHT_ID_BYTES);
    memcpy(out, &n, sizeof n);
    return out;
}

static void put(struct list_cache *c, unsigned n, int64_t at_ms, int64_t until_ms)
{
    unsigned char id[FLIGHT_ID_BYTES];
    struct list_value *v = value_new((mono){ at_ms * NS_PER_MS }, JSON_BYTES);
    v->fresh_ms = until_ms - at_ms;
    list_cache_put(c, id_of(n, id), list_cache_mark(c, id_of(n, id)), v,
                   (mono){ until_ms * NS_PER_MS });
    unref(v);
}

static bool answers(struct list_cache *c, unsigned n, int64_t now_ms, bool alone)
{
    unsigned char id[FLIGHT_ID_BYTES];
    struct list_value *v = list_cache_get(c, id_of(n, id), (mono){ now_ms * NS_PER_MS }, alone);
    if (v == NULL)
        return false;
    unref(v);
    return true;
}

static bool has(struct list_cache *c, unsigned n, int64_t now_ms)
{
    return answers(c, n, now_ms, true);
}

static uint64_t count_of(struct list_cache *c)
{
    uint64_t count, bytes;
    list_cache_size(c, &count, &bytes);
    assert_true(bytes <= BYTES_MAX);
    assert_int_equal(count == 0, bytes == 0);
    return count;
}

static void what_was_put_is_there_until_its_time(void **state)
{
    (void)state;
    struct list_cache *c = list_cache_new(BYTES_MAX, 1);
    put(c, 1, 0, 100);
    assert_true(has(c, 1, 99));
    assert_false(has(c, 2, 99));
    assert_false(has(c, 1, 100));
    assert_int_equal(count_of(c), 0);
    put(c, 3, 50, 50);
    assert_false(has(c, 3, 50));
    list_cache_free(&c);
    assert_int_equal(values_alive, 0);
}

static void the_last_put_takes_the_place_of_what_was_there(void **state)
{
    (void)state;
    struct list_cache *c = list_cache_new(BYTES_MAX, 1);
    put(c, 1, 0, 100);
    put(c, 1, 0, 200);
    assert_int_equal(count_of(c), 1);
    assert_int_equal(values_alive, 1);
    assert_true(has(c, 1, 150));
    list_cache_free(&c);
    assert_int_equal(values_alive, 0);
}

static void the_oldest_go_when_memory_is_full(void **state)
{
    (void)state;
    struct list_cache *c = list_cache_new(BYTES_MAX, 1);
    for (unsigned n = 0; n < 100; n++)
        put(c, n, 0, 100);
    uint64_t count = count_of(c);
    assert_in_range(count, 5, BYTES_MAX / JSON_BYTES);
    for (unsigned n = 0; n < 100; n++)
        assert_int_equal(has(c, n, 1), n >= 100 - count);
    assert_int_equal(values_alive, (int)count);
    list_cache_free(&c);
    assert_int_equal(values_alive, 0);
}

static void what_is_larger_than_all_memory_is_not_kept(void **state)
{
    (void)state;
    struct list_cache *c = list_cache_new(BYTES_MAX, 1);
    unsigned char id[FLIGHT_ID_BYTES];
    put(c, 1, 0, 100);
    struct list_value *v = value_new((mono){ 0 }, BYTES_MAX);
    list_cache_put(c, id_of(2, id), list_cache_mark(c, id), v, (mono){ NS_PER_MS });
    unref(v);
    assert_true(has(c, 1, 1));
    assert_int_equal(count_of(c), 1);
    list_cache_free(&c);
    assert_int_equal(values_alive, 0);
}

static void a_drop_is_not_undone_by_what_was_under_way(void **state)
{
    (void)state;
    struct list_cache *c = list_cache_new(BYTES_MAX, 1);
    unsigned char id[FLIGHT_ID_BYTES];
    uint32_t mark = list_cache_mark(c, id_of(7, id));
    put(c, 7, 0, 100);
    list_cache_drop(c, id);
    assert_false(has(c, 7, 1));
    struct list_value *late = value_new((mono){ 0 }, JSON_BYTES);
    list_cache_put(c, id, mark, late, (mono){ 100 * NS_PER_MS });
    assert_false(has(c, 7, 1));
    list_cache_put(c, id, list_cache_mark(c, id), late, (mono){ 100 * NS_PER_MS });
    assert_true(has(c, 7, 1));
    unref(late);
    list_cache_free(&c);
    assert_int_equal(values_alive, 0);
}

static void all_that_is_there_is_given_newest_first(void **state)
{
    (void)state;
    struct list_cache *c = list_cache_new(BYTES_MAX, 1);
    struct list_cached out[8];
    for (unsigned n = 1; n <= 5; n++)
        put(c, n, 0, 100);
    assert_int_equal(list_cache_all(c, (mono){ 0 }, out, 3), 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(out[i].id[0], 5 - i);
        unref(out[i].value);
    }
    assert_int_equal(list_cache_all(c, (mono){ 0 }, out, 8), 5);
    list_cache_free(&c);
    for (unsigned i = 0; i < 5; i++)
        unref(out[i].value); /* they outlive the cache */
    assert_int_equal(values_alive, 0);
}

static struct list_value *held(struct list_cache *c, unsigned n, int64_t now_ms)
{
    unsigned char id[FLIGHT_ID_BYTES];
    struct list_value *v = list_cache_held(c, id_of(n, id), (mono){ now_ms * NS_PER_MS });
    if (v != NULL)
        unref(v);
    return v;
}

static void what_is_fresh_is_held_beyond_its_time(void **state)
{
    (void)state;
    struct list_cache *c = list_cache_new(BYTES_MAX, 1);
    struct list_cached out[2];
    unsigned char id[FLIGHT_ID_BYTES];
    struct list_value *v = value_new((mono){ 0 }, JSON_BYTES);
    v->fresh_ms = 1000;
    list_cache_put(c, id_of(1, id), list_cache_mark(c, id), v, (mono){ 100 * NS_PER_MS });
    assert_true(answers(c, 1, 99, false));
    assert_false(answers(c, 1, 100, false)); /* Redis is asked again */
    assert_true(answers(c, 1, 999, true));   /* nobody else can be asked */
    assert_ptr_equal(held(c, 1, 999), v);
    assert_null(held(c, 1, 1000));
    assert_null(held(c, 2, 0));
    assert_int_equal(list_cache_all(c, (mono){ 1000 * NS_PER_MS }, out, 2), 0);
    assert_false(has(c, 1, 1000)); /* it is over for good */
    assert_int_equal(count_of(c), 0);
    unref(v);
    list_cache_free(&c);
    assert_int_equal(values_alive, 0);
}

static void what_may_have_been_dropped_is_held_no_longer(void **state)
{
    (void)state;
    struct list_cache *c = list_cache_new(BYTES_MAX, 1);
    struct list_cached out[2];
    put(c, 1, 0, 100);
    assert_non_null(held(c, 1, 50));
    list_cache_cut(c);
    assert_null(held(c, 1, 50));
    assert_true(has(c, 1, 50)); /* its short time is its time */
    put(c, 2, 0, 100);
    assert_non_null(held(c, 2, 50));
    assert_int_equal(list_cache_all(c, (mono){ 0 }, out, 2), 1);
    assert_int_equal(out[0].id[0], 2);
    unref(out[0].value);
    assert_false(has(c, 1, 100));
    assert_int_equal(count_of(c), 1);
    list_cache_free(&c);
    assert_int_equal(values_alive, 0);
}

static struct list_value *version_new(struct list_cache *c, unsigned n, const char *version,
                                      int64_t at_ms)
{
    unsigned char id[FLIGHT_ID_BYTES];
    struct list_value *v = value_new((mono){ at_ms * NS_PER_MS }, JSON_BYTES);
    v->fresh_ms = 100;
    v->stale_ms = 1000;
    v->turn = (uint64_t)at_ms;
    assert_true(str_to_cstr(str_of(version), v->version, sizeof v->version));
    list_cache_put(c, id_of(n, id), list_cache_mark(c, id), v, (mono){ (at_ms + 100) * NS_PER_MS });
    return v;
}

static bool has_version(struct list_cache *c, unsigned n, const char *version, int64_t now_ms)
{
    unsigned char id[FLIGHT_ID_BYTES];
    struct list_value *v =
        list_cache_version(c, id_of(n, id), str_of(version), (mono){ now_ms * NS_PER_MS });
    if (v != NULL)
        unref(v);
    return v != NULL;
}

static void what_is_replaced_is_found_by_its_version_until_its_end(void **state)
{
    (void)state;
    struct list_cache *c = list_cache_new(BYTES_MAX, 1);
    unsigned char id[FLIGHT_ID_BYTES];
    unref(version_new(c, 1, "a", 1));
    unref(version_new(c, 1, "b", 2));
    unref(version_new(c, 1, "b", 3));
    assert_int_equal(count_of(c), 2);
    assert_true(has_version(c, 1, "a", 1000));
    assert_true(has_version(c, 1, "b", 1002));
    assert_false(has_version(c, 2, "a", 10));
    assert_false(has_version(c, 1, "c", 10));
    assert_false(has_version(c, 1, "a", 1001));
    assert_int_equal(count_of(c), 1);
    unref(version_new(c, 1, "c", 4));
    list_cache_drop(c, id_of(1, id));
    assert_false(has_version(c, 1, "b", 10));
    assert_false(has_version(c, 1, "c", 10));
    unref(version_new(c, 1, "d", 5));
    unref(version_new(c, 1, "e", 6));
    list_cache_cut(c); /* they may have been dropped */
    assert_false(has_version(c, 1, "d", 10));
    list_cache_free(&c);
    assert_int_equal(values_alive, 0);
}

static void of_too_many_versions_the_first_goes(void **state)
{
    (void)state;
    struct list_cache *c = list_cache_new(BYTES_MAX * 2, 1);
    char name[8];
    for (unsigned i = 0; i < LIST_VERSIONS_MAX + 2; i++) {
        (void)snprintf(name, sizeof name, "v%u", i);
        unref(version_new(c, 1, name, 1 + i));
    }
    assert_false(has_version(c, 1, "v0", 20));
    assert_true(has_version(c, 1, "v1", 20));
    list_cache_free(&c);
    assert_int_equal(values_alive, 0);
}

static void put_pinned(struct list_cache *c, unsigned n, int64_t at_ms)
{
    unsigned char id[FLIGHT_ID_BYTES];
    struct list_value *v = value_new((mono){ at_ms * NS_PER_MS }, JSON_BYTES);
    v->pin_ms = 100000;
    list_cache_put(c, id_of(n, id), list_cache_mark(c, id), v, (mono){ (at_ms + 100) * NS_PER_MS });
    unref(v);
}

static void the_pinned_one_that_was_not_read_goes_first(void **state)
{
    (void)state;
    struct list_cache *c = list_cache_new(BYTES_MAX, 1);
    unsigned n = 0;
    for (; list_cache_evicted(c) == 0; n++) {
        put_pinned(c, n, n);
        assert_true(has(c, 0, n));
    }
    assert_false(has(c, 1, n));
    assert_true(has(c, 2, n));
    assert_true(has(c, 0, n + 100000 - 2));
    assert_false(has(c, 2, n + 100000));
    assert_true(has(c, 0, n + 199000));
    list_cache_free(&c);
    assert_int_equal(values_alive, 0);
}

static void *worker(void *ctx)
{
    struct list_cache *c = ctx;
    for (unsigned n = 0; n < ROUNDS; n++) {
        unsigned char id[FLIGHT_ID_BYTES];
        put(c, n % 40, 0, 100);
        (void)has(c, (n * 7) % 40, (int64_t)(n % 120)); /* only that it is sound matters here */
        if (n % 5 == 0)
            list_cache_drop(c, id_of(n % 40, id));
    }
    return NULL;
}

static void threads_may_do_all_of_it_at_once(void **state)
{
    (void)state;
    struct list_cache *c = list_cache_new(BYTES_MAX, 1);
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, worker, c), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(values_alive, (int)count_of(c));
    list_cache_free(&c);
    assert_int_equal(values_alive, 0);
}

static void what_was_made_alone_is_asked_for_again_when_others_are_back(void **state)
{
    (void)state;
    struct list_cache *c = list_cache_new(BYTES_MAX, 1);
    put(c, 1, 1000, 1000 + 4 * LIST_CACHE_MS);
    assert_true(answers(c, 1, 1000 + LIST_CACHE_MS - 1, false));
    assert_false(answers(c, 1, 1000 + LIST_CACHE_MS, false));
    assert_true(
        answers(c, 1, 1000 + LIST_CACHE_MS, true)); /* it is still held, and they may go again */
    assert_false(answers(c, 1, 1000 + 4 * LIST_CACHE_MS, true));
    assert_int_equal(count_of(c), 0);
    list_cache_free(&c);
}

static void what_is_unlike_the_others_is_answered_while_it_is_valid_and_never_held(void **state)
{
    (void)state;
    unsigned char id[FLIGHT_ID_BYTES];
    struct list_cache *c = list_cache_new(BYTES_MAX, 1);
    struct list_cached out[2];
    struct list_value *v = value_new((mono){ 0 }, JSON_BYTES);
    v->unlike = true;
    v->fresh_ms = 4 * LIST_CACHE_MS;
    const mono until = { 8 * LIST_CACHE_MS * NS_PER_MS };
    uint32_t mark = list_cache_mark(c, id_of(1, id));
    list_cache_put(c, id, mark, v, until);
    assert_true(answers(c, 1, 4 * LIST_CACHE_MS - 1, false));
    assert_null(held(c, 1, 1));
    assert_int_equal(list_cache_all(c, (mono){ 0 }, out, 2), 0);
    assert_true(answers(c, 1, 4 * LIST_CACHE_MS, true));   /* alone, as any */
    assert_false(answers(c, 1, 4 * LIST_CACHE_MS, false)); /* and ends with its freshness else */
    assert_int_equal(count_of(c), 0);
    list_cache_put(c, id, mark, v, until);
    list_cache_cut(c);
    assert_true(answers(c, 1, LIST_CACHE_MS - 1, false));
    assert_false(answers(c, 1, LIST_CACHE_MS, false)); /* it may have been dropped */
    unref(v);
    list_cache_free(&c);
    assert_int_equal(values_alive, 0);
}

static void what_was_begun_before_does_not_take_the_place(void **state)
{
    (void)state;
    unsigned char id[FLIGHT_ID_BYTES];
    struct list_cache *c = list_cache_new(BYTES_MAX, 1);
    struct list_value *older = value_new((mono){ 0 }, JSON_BYTES),
                      *newer = value_new((mono){ 0 }, JSON_BYTES);
    const mono until = { 100 * NS_PER_MS };
    older->turn = list_cache_turn(c);
    newer->turn = list_cache_turn(c);
    assert_true(newer->turn > older->turn);
    older->fresh_ms = newer->fresh_ms = 100;
    uint32_t mark = list_cache_mark(c, id_of(7, id));
    struct list_value *const order[] = { older, newer, older, newer };
    for (unsigned i = 0; i < COUNT_OF(order); i++) {
        list_cache_put(c, id, mark, order[i], until);
        assert_ptr_equal(held(c, 7, 1), i == 0 ? older : newer);
    }
    list_cache_drop(c, id);
    list_cache_put(c, id, list_cache_mark(c, id), older, until); /* nothing newer is there */
    assert_ptr_equal(held(c, 7, 1), older);
    unref(older);
    unref(newer);
    list_cache_free(&c);
    assert_int_equal(values_alive, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_unlike_the_others_is_answered_while_it_is_valid_and_never_held),
        cmocka_unit_test(what_was_begun_before_does_not_take_the_place),
        cmocka_unit_test(what_was_made_alone_is_asked_for_again_when_others_are_back),
        cmocka_unit_test(what_was_put_is_there_until_its_time),
        cmocka_unit_test(the_last_put_takes_the_place_of_what_was_there),
        cmocka_unit_test(the_oldest_go_when_memory_is_full),
        cmocka_unit_test(what_is_larger_than_all_memory_is_not_kept),
        cmocka_unit_test(a_drop_is_not_undone_by_what_was_under_way),
        cmocka_unit_test(all_that_is_there_is_given_newest_first),
        cmocka_unit_test(what_is_fresh_is_held_beyond_its_time),
        cmocka_unit_test(what_may_have_been_dropped_is_held_no_longer),
        cmocka_unit_test(what_is_replaced_is_found_by_its_version_until_its_end),
        cmocka_unit_test(of_too_many_versions_the_first_goes),
        cmocka_unit_test(the_pinned_one_that_was_not_read_goes_first),
        cmocka_unit_test(threads_may_do_all_of_it_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
