/* Goal: rows of partitions come back as they were put, keys order as ids and instants do, what is
 * damaged is refused. Method: round trips of extremes, every cut of a value. */
#include "queue/store/local/rows.h"

#include "base/buf.h"
#include "base/rng.h"

#include "../cmocka_all.h"

#include <string.h>

static const struct queue_part PART = { .queue = 0x01020304, .partition = QUEUE_PARTITIONS_MAX };
static const struct ksuid ID = { .seconds = UINT32_MAX, .high = 1, .low = UINT64_MAX };

static void keys_come_back(void **state)
{
    (void)state;
    unsigned char hash[16];
    memset(hash, 0xee, sizeof(hash));
    store_time before = { .ns = -5 };
    struct row_key keys[] = {
        row_key_prefix(PART, ROW_RECORD),
        row_key_id(PART, ROW_BATCH, ID),
        row_key_id(PART, ROW_ASIDE, ID),
        row_key_id(PART, ROW_READY, ID),
        row_key_scheduled(PART, before, ID),
        row_key_id(PART, ROW_LEASE, ID),
        row_key_hash(PART, hash),
        row_key_prefix(PART, ROW_HEARTBEAT),
        row_key_prefix(PART, ROW_OWNER),
    };
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        struct row_key_parts p;
        assert_int_equal(row_key_parse(row_key_str(&keys[i]), &p), ERR_OK);
        assert_int_equal(p.kind, i + 1 < ROW_UNUSED ? i + 1 : i + 2);
        assert_int_equal(p.part.queue, PART.queue);
        assert_int_equal(p.part.partition, PART.partition);
        if (p.kind == ROW_SCHEDULED)
            assert_true(p.at.ns == before.ns);
        if (p.kind == ROW_KEY)
            assert_memory_equal(p.hash, hash, sizeof(hash));
        if (p.kind != ROW_RECORD && p.kind != ROW_HEARTBEAT && p.kind != ROW_OWNER &&
            p.kind != ROW_KEY)
            assert_int_equal(ksuid_cmp(p.id, ID), 0);
        for (size_t n = 0; n < keys[i].n; n++)
            assert_int_equal(row_key_parse(str_take(row_key_str(&keys[i]), n), &p), ERR_CORRUPT);
    }
    char wrong[ROW_PREFIX_BYTES] = { 0 };
    struct row_key_parts p;
    assert_int_equal(row_key_parse((str){ .p = wrong, .n = sizeof(wrong) }, &p), ERR_CORRUPT);
    wrong[ROW_PART_BYTES] = ROW_UNUSED;
    assert_int_equal(row_key_parse((str){ .p = wrong, .n = sizeof(wrong) }, &p), ERR_CORRUPT);
    wrong[ROW_PART_BYTES] = ROW_KINDS;
    assert_int_equal(row_key_parse((str){ .p = wrong, .n = sizeof(wrong) }, &p), ERR_CORRUPT);
}

static void scheduled_rows_order_by_instant_then_id(void **state)
{
    (void)state;
    static const int64_t at[] = { INT64_MIN, -1, 0, 1, INT64_MAX };
    struct row_key last = { .n = 0 };
    for (size_t i = 0; i < COUNT_OF(at); i++)
        for (uint64_t low = 0; low < 2; low++) {
            struct row_key k =
                row_key_scheduled(PART, (store_time){ .ns = at[i] }, (struct ksuid){ .low = low });
            assert_true(str_cmp(row_key_str(&last), row_key_str(&k)) < 0);
            last = k;
        }
}

static void records_come_back(void **state)
{
    (void)state;
    char buf[ROW_VALUE_BYTES_MAX];
    struct queue_part_record r = { .ready = 1,
                                   .scheduled = 2,
                                   .leased = UINT64_MAX,
                                   .bytes = 4,
                                   .last_id = ID,
                                   .settled = { .low = 9 },
                                   .epoch = 5,
                                   .boot = { 1, 2, 3 } };
    struct queue_part_record back;
    str value = row_record_encode(&r, buf);
    assert_int_equal(row_record_decode(value, &back), ERR_OK);
    char again[ROW_VALUE_BYTES_MAX];
    assert_true(str_eq(row_record_encode(&back, again), value));
    assert_true(back.leased == UINT64_MAX && back.epoch == 5 && back.settled.low == 9 &&
                back.boot[2] == 3);
    assert_int_equal(ksuid_cmp(back.last_id, ID), 0);
    for (size_t n = 0; n < value.n; n++)
        assert_int_equal(row_record_decode(str_take(value, n), &back), ERR_CORRUPT);
}

static void batches_of_every_size_come_back(void **state)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 3);
    char order[QUEUE_ORDER_KEY_BYTES_MAX], buf[ROW_VALUE_BYTES_MAX];
    unsigned char states[QUEUE_BATCH_ITEMS_MAX], back_states[QUEUE_BATCH_ITEMS_MAX];
    memset(order, 'o', sizeof(order));
    for (unsigned count = 1; count <= QUEUE_BATCH_ITEMS_MAX; count++) {
        for (unsigned i = 0; i < count; i++)
            states[i] = (unsigned char)rng_below(&rng, ITEM_STATES);
        struct queue_batch b = { .count = (uint16_t)count,
                                 .created_at = { .ns = -1 },
                                 .expire_at = STORE_TIME_NEVER,
                                 .order_key = { .p = order,
                                                .n = rng_below(&rng, sizeof(order) + 1) },
                                 .states = states };
        struct queue_batch back;
        str value = row_batch_encode(&b, buf);
        assert_int_equal(row_batch_decode(value, back_states, &back), ERR_OK);
        assert_int_equal(back.count, count);
        assert_memory_equal(back.states, states, count);
        assert_true(str_eq(back.order_key, b.order_key));
        assert_true(back.created_at.ns == -1 && back.expire_at.ns == INT64_MAX);
    }
}

static void impossible_states_are_refused(void **state)
{
    (void)state;
    char buf[ROW_VALUE_BYTES_MAX];
    unsigned char states[QUEUE_BATCH_ITEMS_MAX] = { 0 };
    struct queue_batch b = { .count = 3, .states = states };
    str value = row_batch_encode(&b, buf);
    buf[value.n - 1] = 3; /* no such state */
    assert_int_equal(row_batch_decode(value, states, &b), ERR_CORRUPT);
    buf[value.n - 1] = 1 << 6; /* a fourth item */
    assert_int_equal(row_batch_decode(value, states, &b), ERR_CORRUPT);
    put_be16(buf + 1, 0);
    assert_int_equal(row_batch_decode(value, states, &b), ERR_CORRUPT);
    put_be16(buf + 1, QUEUE_BATCH_ITEMS_MAX + 1);
    assert_int_equal(row_batch_decode(value, states, &b), ERR_CORRUPT);
}

/* old: as it was before digests were kept. */
static void keys_come_back_with_and_without_a_digest(struct queue_key k, str old)
{
    char buf[ROW_VALUE_BYTES_MAX];
    struct queue_key back;
    assert_int_equal(old.n, 1 + KSUID_BYTES + 4 + 8);
    assert_int_equal(row_key_decode(old, &back), ERR_OK);
    assert_false(queue_key_has_digest(&back));
    memset(k.digest, 0xd1, sizeof(k.digest));
    str value = row_key_encode(&k, buf);
    assert_int_equal(row_key_decode(value, &back), ERR_OK);
    assert_memory_equal(back.digest, k.digest, sizeof(k.digest));
    for (size_t n = 0; n < value.n; n++)
        assert_int_equal(row_key_decode(str_take(value, n), &back),
                         n == old.n ? ERR_OK : ERR_CORRUPT);
    memset(buf + old.n, 0, sizeof(k.digest)); /* not how none is written */
    assert_int_equal(row_key_decode(value, &back), ERR_CORRUPT);
}

static void entries_leases_and_keys_come_back(void **state)
{
    (void)state;
    char buf[ROW_VALUE_BYTES_MAX];
    struct queue_place place = { .batch = ID, .index = QUEUE_BATCH_ITEMS_MAX - 1 };
    struct queue_entry e = { .place = place,
                             .attempts = 4,
                             .created_at = { .ns = 1 },
                             .expire_at = { .ns = 2 },
                             .order_key = STR("key") },
                       e2;
    assert_int_equal(row_entry_decode(row_entry_encode(&e, buf), &e2), ERR_OK);
    assert_true(e2.attempts == 4 && e2.place.index == place.index &&
                ksuid_cmp(e2.place.batch, ID) == 0);
    assert_true(e2.created_at.ns == 1 && e2.expire_at.ns == 2 && str_eq(e2.order_key, STR("key")));
    struct queue_lease l = { .place = place,
                             .in_place = true,
                             .deadline = { .ns = 3 },
                             .attempts = 5,
                             .token = 6,
                             .created_at = { .ns = 1 },
                             .expire_at = { .ns = 2 },
                             .order_key = STR("key") },
                       l2;
    assert_int_equal(row_lease_decode(row_lease_encode(&l, buf), &l2), ERR_OK);
    assert_true(l2.in_place && l2.deadline.ns == 3 && l2.attempts == 5 && l2.token == 6);
    assert_true(l2.place.index == place.index && l2.created_at.ns == 1 && l2.expire_at.ns == 2);
    buf[1 + KSUID_BYTES + 2] = 2;
    assert_int_equal(row_lease_decode((str){ .p = buf, .n = 70 }, &l2), ERR_CORRUPT);
    struct queue_key k = { .first = ID, .count = 3, .expire_at = { .ns = 9 } }, k2;
    assert_int_equal(row_key_decode(row_key_encode(&k, buf), &k2), ERR_OK);
    assert_true(k2.count == 3 && k2.expire_at.ns == 9 && ksuid_cmp(k2.first, ID) == 0);
    keys_come_back_with_and_without_a_digest(k, row_key_encode(&k, buf));
    str owner;
    uint64_t beats = 0;
    assert_int_equal(row_heartbeat_decode(row_heartbeat_encode(77, buf), &beats), ERR_OK);
    assert_int_equal(row_owner_decode(row_owner_encode(STR("one"), buf), &owner), ERR_OK);
    assert_true(str_eq(owner, STR("one")));
    assert_int_equal(row_owner_decode((str){ .p = buf, .n = 1 }, &owner), ERR_CORRUPT);
    assert_int_equal(beats, 77);
    str beat = row_heartbeat_encode(78, buf);
    buf[0] = 2; /* another version */
    assert_int_equal(row_heartbeat_decode(beat, &beats), ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_come_back),
        cmocka_unit_test(scheduled_rows_order_by_instant_then_id),
        cmocka_unit_test(records_come_back),
        cmocka_unit_test(batches_of_every_size_come_back),
        cmocka_unit_test(impossible_states_are_refused),
        cmocka_unit_test(entries_leases_and_keys_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
