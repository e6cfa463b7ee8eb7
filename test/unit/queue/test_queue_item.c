/* Goal: what a producer gave comes back byte for byte, each item alone; nothing damaged passes.
 * Method: round trips, each single bit of a batch turned over. */
#include "queue/item.h"

#include "base/rng.h"
#include "queue/store/store.h"

#include "../cmocka_all.h"

#include <stdlib.h>
#include <string.h>

enum { ITEMS = 5 };

static const struct item ITEM[ITEMS] = {
    { .encoding = STR_INIT("json"),
      .kind = STR_INIT("k"),
      .reference = STR_INIT("a/b"),
      .source_id = STR_INIT("s-1"),
      .bytes = STR_INIT("{}"),
      .enqueue_at = { .ns = 5 } },
    { .bytes = STR_INIT("\0with\0nul") },
    { .kind = STR_INIT("no bytes") },
    { .enqueue_at = { .ns = INT64_MAX } },
    { .encoding = STR_INIT("x"), .bytes = STR_INIT("the last one") },
};

static struct arena arena;

static int setup(void **state)
{
    (void)state;
    arena_init(&arena, 64u << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static err read_one(str batch, unsigned index, unsigned count, struct item *out)
{
    struct item_place at = item_slot_place(index);
    struct item_span span;
    if (at.offset + at.n > batch.n)
        return ERR_CORRUPT;
    err why =
        item_slot_decode(str_take(str_skip(batch, at.offset), at.n), index, count, batch.n, &span);
    if (why != ERR_OK)
        return why;
    str one = str_take(str_skip(batch, span.offset), span.n);
    return item_fits(one, index, span.hash) ? item_decode(one, out) : ERR_CORRUPT;
}

static void same_item(const struct item *a, const struct item *b)
{
    assert_true(str_eq(a->encoding, b->encoding));
    assert_true(str_eq(a->kind, b->kind));
    assert_true(str_eq(a->reference, b->reference));
    assert_true(str_eq(a->source_id, b->source_id));
    assert_true(str_eq(a->bytes, b->bytes));
    assert_true(a->enqueue_at.ns == b->enqueue_at.ns);
}

static void each_item_comes_back_alone(void **state)
{
    (void)state;
    for (unsigned count = 1; count <= ITEMS; count++) {
        str batch;
        assert_int_equal(item_batch_encode(ITEM, count, &arena, &batch), ERR_OK);
        assert_int_equal(item_batch_check(batch, count), ERR_OK);
        for (unsigned i = 0; i < count; i++) {
            struct item it;
            assert_int_equal(read_one(batch, i, count, &it), ERR_OK);
            same_item(&it, &ITEM[i]);
        }
        struct item none;
        assert_int_equal(read_one(batch, count, count, &none), ERR_CORRUPT);
        assert_int_equal(item_batch_check(batch, count + 1), ERR_CORRUPT);
        if (count > 1)
            assert_int_equal(item_batch_check(batch, count - 1), ERR_CORRUPT);
    }
}

static void every_turned_bit_is_found(void **state)
{
    (void)state;
    str batch;
    assert_int_equal(item_batch_encode(ITEM, ITEMS, &arena, &batch), ERR_OK);
    char *copy = malloc(batch.n);
    assert_non_null(copy);
    for (size_t bit = 0; bit < batch.n * 8; bit++) {
        memcpy(copy, batch.p, batch.n);
        copy[bit / 8] = (char)(copy[bit / 8] ^ 1 << bit % 8);
        assert_int_equal(item_batch_check((str){ .p = copy, .n = batch.n }, ITEMS), ERR_CORRUPT);
    }
    free(copy);
}

static void every_cut_is_found(void **state)
{
    (void)state;
    str batch;
    assert_int_equal(item_batch_encode(ITEM, ITEMS, &arena, &batch), ERR_OK);
    for (size_t n = 0; n < batch.n; n++)
        assert_int_equal(item_batch_check(str_take(batch, n), ITEMS), ERR_CORRUPT);
}

static void limits_are_kept(void **state)
{
    (void)state;
    str batch;
    char *big = calloc(1, QUEUE_BATCH_BYTES_MAX + 1);
    assert_non_null(big);
    struct item it = { .bytes = { .p = big, .n = QUEUE_BATCH_BYTES_MAX } };
    assert_int_equal(item_batch_encode(&it, 1, &arena, &batch), ERR_LIMIT);
    it.bytes.n = QUEUE_BATCH_BYTES_MAX - ITEM_BATCH_HEAD_BYTES - ITEM_SLOT_BYTES - ITEM_HEAD_BYTES;
    assert_int_equal(item_batch_encode(&it, 1, &arena, &batch), ERR_OK);
    assert_int_equal(batch.n, QUEUE_BATCH_BYTES_MAX);
    assert_int_equal(item_batch_check(batch, 1), ERR_OK);
    it = (struct item){ .kind = { .p = big, .n = ITEM_FIELD_BYTES_MAX } };
    assert_int_equal(item_batch_encode(&it, 1, &arena, &batch), ERR_OK);
    it.kind.n++;
    assert_int_equal(item_batch_encode(&it, 1, &arena, &batch), ERR_LIMIT);
    struct item *many = calloc(QUEUE_BATCH_ITEMS_MAX + 1, sizeof(*many));
    assert_non_null(many);
    assert_int_equal(item_batch_encode(many, QUEUE_BATCH_ITEMS_MAX, &arena, &batch), ERR_OK);
    assert_int_equal(item_batch_check(batch, QUEUE_BATCH_ITEMS_MAX), ERR_OK);
    assert_int_equal(item_batch_encode(many, QUEUE_BATCH_ITEMS_MAX + 1, &arena, &batch), ERR_LIMIT);
    assert_int_equal(item_batch_encode(many, 0, &arena, &batch), ERR_LIMIT);
    struct arena small;
    arena_init(&small, 1000);
    assert_int_equal(item_batch_encode(many, QUEUE_BATCH_ITEMS_MAX, &small, &batch), ERR_LIMIT);
    arena_fini(&small);
    free(many);
    free(big);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_item_comes_back_alone),
        cmocka_unit_test(every_turned_bit_is_found),
        cmocka_unit_test(every_cut_is_found),
        cmocka_unit_test(limits_are_kept),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
