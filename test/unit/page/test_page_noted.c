/* Goal: a hit tells the other servers of its render once in a while, and no oftener, however many
 * hits there are. Method: a clock by hand; many renders; threads that ask at once. */
#include "page/noted.h"

#include "../cmocka_all.h"

#include <pthread.h>
#include <stdatomic.h>

#define AGE_NS (10 * NS_PER_S)

static struct page_noted_key some_key(void)
{
    return (struct page_noted_key){ .bucket = "page",
                                    .domain = 3,
                                    .title = STR("T"),
                                    .name = { .rev = 7, .tid = tid_make(0x1f0e6a4a0b0c000, 1) } };
}

static bool is_due(struct page_noted *n, struct page_noted_key k, int64_t now_s)
{
    store_time again = STORE_TIME_ZERO, now = { .ns = now_s * NS_PER_S };
    bool due = page_noted_due(n, &k, now, AGE_NS, &again);
    assert_true(store_time_before(now, again));
    assert_true(again.ns <= now.ns + AGE_NS);
    if (due)
        assert_int_equal(again.ns, now.ns + AGE_NS);
    return due;
}

static void it_is_due_once_in_its_time(void **state)
{
    (void)state;
    struct page_noted *n = page_noted_new(1);
    assert_true(is_due(n, some_key(), 1000));
    for (int64_t s = 1000; s < 1010; s++)
        assert_false(is_due(n, some_key(), s));
    assert_true(is_due(n, some_key(), 1010));
    assert_false(is_due(n, some_key(), 1011));
    page_noted_forget(n);
    assert_true(is_due(n, some_key(), 1012));
    assert_false(is_due(n, some_key(), 1013));
    page_noted_free(&n);
}

static void each_render_has_its_own_time(void **state)
{
    (void)state;
    struct page_noted *n = page_noted_new(1);
    struct page_noted_key k[6];
    for (unsigned i = 0; i < COUNT_OF(k); i++)
        k[i] = some_key();
    k[1].bucket = "mobile";
    k[2].domain = 4;
    k[3].title = STR("U");
    k[4].name.rev = 8;
    k[5].name.tid.low ^= 1;
    for (unsigned i = 0; i < COUNT_OF(k); i++)
        assert_true(is_due(n, k[i], 1000 + i));
    for (unsigned i = 0; i < COUNT_OF(k); i++)
        assert_false(is_due(n, k[i], 1009));
    page_noted_free(&n);
}

/* A third of the places: those that push each other out are few. */
static void many_renders_have_room(void **state)
{
    (void)state;
    enum { RENDERS = PAGE_NOTED_PLACES / 3 };
    struct page_noted *n = page_noted_new(1);
    unsigned again = 0;
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < RENDERS; i++) {
            struct page_noted_key k = some_key();
            k.name.rev = i + 1;
            bool due = is_due(n, k, 1000 + round);
            assert_true(round == 1 || due);
            again += round == 1 && due;
        }
    assert_in_range(again, 0, RENDERS / 20);
    page_noted_free(&n);
}

struct crowd {
    struct page_noted *noted;
    atomic_uint due;
};

static void *ask_often(void *arg)
{
    struct crowd *c = arg;
    for (unsigned i = 0; i < 10000; i++)
        atomic_fetch_add(&c->due, is_due(c->noted, some_key(), 1000 + i / 5000));
    return NULL;
}

static void of_many_at_once_one_does_it(void **state)
{
    (void)state;
    pthread_t threads[4];
    struct crowd c = { .noted = page_noted_new(1) };
    assert_true(is_due(c.noted, some_key(), 900)); /* its place is its own */
    for (unsigned i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &c), 0);
    for (unsigned i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(c.due, 1);
    page_noted_free(&c.noted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_due_once_in_its_time),
        cmocka_unit_test(each_render_has_its_own_time),
        cmocka_unit_test(many_renders_have_room),
        cmocka_unit_test(of_many_at_once_one_does_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
