/* Goal: the first is the least, any node can go, places are right. Method: random operations, a
 * linear search. */
#include "base/heap.h"

#include "base/rng.h"

#include "../cmocka_all.h"

struct item {
    int value;
    struct heap_node node;
};

static bool item_less(const struct heap_node *a, const struct heap_node *b)
{
    const struct item *x =
        (const struct item *)(const void *)((const char *)a - offsetof(struct item, node));
    const struct item *y =
        (const struct item *)(const void *)((const char *)b - offsetof(struct item, node));
    return x->value < y->value;
}

static int first_value(const struct heap *h)
{
    return CONTAINER_OF(heap_first(h), struct item, node)->value;
}

static void an_empty_heap_has_no_first(void **state)
{
    (void)state;
    struct heap h;
    struct item one = { .value = 1 };
    heap_init(&h, item_less);
    assert_null(heap_first(&h));
    heap_add(&h, &one.node);
    assert_ptr_equal(heap_first(&h), &one.node);
    heap_remove(&h, &one.node);
    assert_null(heap_first(&h));
    assert_int_equal(one.node.place, 0);
    heap_add(&h, &one.node);
    heap_fini(&h);
    assert_int_equal(one.node.place, 0); /* free to go elsewhere */
    heap_fini(&h);
}

static void equal_items_all_come_out(void **state)
{
    (void)state;
    struct heap h;
    struct item items[50];
    heap_init(&h, item_less);
    for (int i = 0; i < 50; i++) {
        items[i] = (struct item){ .value = i % 3 };
        heap_add(&h, &items[i].node);
    }
    int before = -1;
    for (int i = 0; i < 50; i++) {
        assert_true(first_value(&h) >= before);
        before = first_value(&h);
        heap_remove(&h, heap_first(&h));
    }
    assert_int_equal(h.count, 0);
    heap_fini(&h);
}

static void heap_check(const struct heap *h)
{
    for (size_t i = 0; i < h->count; i++) {
        assert_int_equal(h->nodes[i]->place, i + 1);
        if (i > 0)
            assert_false(item_less(h->nodes[i], h->nodes[(i - 1) / 2]));
    }
}

static void random_operations_keep_the_order(void **state)
{
    (void)state;
    enum { ITEMS = 60 };
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct item items[ITEMS] = { 0 };
        struct heap h;
        struct rng r;
        size_t inside = 0;
        rng_init(&r, seed);
        heap_init(&h, item_less);
        for (unsigned i = 0; i < 1000; i++) {
            struct item *it = &items[rng_below(&r, ITEMS)];
            if (it->node.place == 0) {
                it->value = (int)rng_below(&r, 40);
                heap_add(&h, &it->node);
                inside++;
            } else {
                heap_remove(&h, &it->node);
                inside--;
            }
            assert_int_equal(h.count, inside);
            heap_check(&h);
        }
        heap_fini(&h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_heap_has_no_first),
        cmocka_unit_test(equal_items_all_come_out),
        cmocka_unit_test(random_operations_keep_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
