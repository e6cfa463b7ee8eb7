/* Goal: each kind of store keeps what it acknowledged, all of it or none, in order, and refuses
 * what contradicts. Method: small cases, and a random history beside a naive model, with restarts
 * in between. */
#include "suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const unsigned char BOOT[QUEUE_BOOT_BYTES] = "boot one";

static void shown(const struct model *m, struct suite *s)
{
    char why[MODEL_WHY_BYTES];
    if (!model_shown(m, s->store, why))
        fail_msg("after step %llu: %s", (unsigned long long)m->steps, why);
}

/* ---- small cases; each in a queue of its own ---- */

static struct queue_part_record own_one(struct suite *s, struct queue_part p)
{
    struct queue_part_record r;
    const struct queue_own own = { .parts = &p, .count = 1, .boot = BOOT, .out = &r };
    assert_int_equal(s->store->ops->own(s->store, &own), ERR_OK);
    return r;
}

static err write_ops(struct suite *s, const struct queue_write_part *part)
{
    struct queue_write w = { .parts = { *part }, .parts_count = 1 };
    return model_write_run(s->store, &w);
}

/* Four bytes as the one item of a batch. */
static struct queue_op batch_put(struct arena *a, struct ksuid first)
{
    static const unsigned char in_place[1] = { ITEM_IN_PLACE };
    struct item it = { .bytes = STR("four") };
    struct queue_op op = { .kind = OP_BATCH_PUT,
                           .u.batch = { .first = first, .count = 1, .states = in_place } };
    assert_int_equal(item_batch_encode(&it, 1, a, &op.u.batch.bytes), ERR_OK);
    return op;
}

static void epochs_rise_and_old_owners_change_nothing(struct suite *s)
{
    struct queue_part p = { .queue = 100, .partition = 3 };
    struct queue_part_record r, first, second;
    assert_int_equal(s->store->ops->record(s->store, p, &r), ERR_NOT_FOUND);
    first = own_one(s, p);
    second = own_one(s, p);
    assert_true(second.epoch > first.epoch);
    assert_memory_equal(second.boot, BOOT, sizeof(BOOT));
    struct arena a;
    arena_init(&a, 1 << 20);
    struct queue_op op = batch_put(&a, (struct ksuid){ .low = 5 });
    struct queue_write_part w = {
        .part = p, .epoch = first.epoch, .ready = 1, .ops = &op, .ops_count = 1
    };
    assert_int_equal(write_ops(s, &w), ERR_CONFLICT);
    w.epoch = second.epoch + 1;
    assert_int_equal(write_ops(s, &w), ERR_CONFLICT);
    w.epoch = second.epoch;
    w.part.partition = 4; /* nobody's */
    assert_int_equal(write_ops(s, &w), ERR_CONFLICT);
    assert_int_equal(s->store->ops->record(s->store, p, &r), ERR_OK);
    assert_true(r.ready == 0 && r.bytes == 0 && r.epoch == second.epoch);
    w.part.partition = 3;
    assert_int_equal(write_ops(s, &w), ERR_OK);
    assert_int_equal(s->store->ops->record(s->store, p, &r), ERR_OK);
    assert_true(r.ready == 1 && r.bytes == op.u.batch.bytes.n && r.last_id.low == 5);
    arena_fini(&a);
}

static void contradictions_change_nothing(struct suite *s)
{
    struct queue_part p = { .queue = 101, .partition = 0 };
    struct queue_part_record own = own_one(s, p), before, after;
    struct arena a;
    arena_init(&a, 1 << 20);
    struct queue_op ops[2] = { batch_put(&a, (struct ksuid){ .low = 7 }) };
    struct queue_write_part w = {
        .part = p, .epoch = own.epoch, .ready = 1, .ops = ops, .ops_count = 1
    };
    assert_int_equal(write_ops(s, &w), ERR_OK);
    assert_int_equal(s->store->ops->record(s->store, p, &before), ERR_OK);
    assert_int_equal(write_ops(s, &w), ERR_CORRUPT); /* the same batch again */
    static const unsigned char gone[2] = { ITEM_GONE, ITEM_GONE };
    ops[0] = (struct queue_op){ .kind = OP_LEASE_PUT, .u.lease = { .id = { .low = 7 } } };
    ops[1] = (struct queue_op){ .kind = OP_BATCH_STATES };
    ops[1].u.batch = (struct queue_batch){ .first = { .low = 8 }, .count = 1, .states = gone };
    w = (struct queue_write_part){ .part = p, .epoch = own.epoch, .ops = ops, .ops_count = 2 };
    assert_int_equal(write_ops(s, &w), ERR_CORRUPT); /* no such batch */
    ops[1].u.batch.first.low = 7;
    ops[1].u.batch.count = 2;
    assert_int_equal(write_ops(s, &w), ERR_CORRUPT); /* of another size */
    w.ops_count = 1;
    w.ready = -2;
    assert_int_equal(write_ops(s, &w), ERR_CORRUPT); /* fewer than none */
    assert_int_equal(s->store->ops->record(s->store, p, &after), ERR_OK);
    assert_true(after.ready == before.ready && after.leased == 0 && after.bytes == before.bytes);
    struct queue_batch b;
    const struct queue_batch_look no = { .first = { .low = 8 }, .arena = &a, .out = &b };
    assert_int_equal(s->store->ops->batch(s->store, p, &no), ERR_NOT_FOUND);
    struct queue_place at = { .batch = { .low = 7 }, .index = 1 };
    str body;
    struct queue_bodies one = { .at = &at, .count = 1, .arena = &a, .out = &body };
    assert_int_equal(s->store->ops->bodies(s->store, p, &one), ERR_NOT_FOUND);
    at.batch.low = 9;
    at.index = 0;
    assert_int_equal(s->store->ops->bodies(s->store, p, &one), ERR_NOT_FOUND);
    arena_fini(&a);
}

static bool count_row(void *ctx, const struct queue_row *row)
{
    (void)row;
    unsigned *left = ctx;
    return --*left > 0;
}

/* As many rows as *left at most; of those, the ones that were not there are left. */
static err scan_some(struct suite *s, struct queue_scan scan, unsigned *left)
{
    scan.each = count_row;
    scan.ctx = left;
    return s->store->ops->scan(s->store, &scan);
}

static void walks_stop_when_told(struct suite *s)
{
    struct queue_part p = { .queue = 102, .partition = 0 };
    struct queue_part_record own = own_one(s, p);
    struct arena a;
    arena_init(&a, 1 << 20);
    for (uint64_t i = 1; i <= 5; i++) {
        struct queue_op op = batch_put(&a, (struct ksuid){ .low = i });
        struct queue_write_part w = {
            .part = p, .epoch = own.epoch, .ready = 1, .ops = &op, .ops_count = 1
        };
        assert_int_equal(write_ops(s, &w), ERR_OK);
    }
    unsigned left = 3;
    struct queue_scan ready = { .part = p, .kind = SCAN_READY };
    assert_int_equal(scan_some(s, ready, &left), ERR_OK);
    assert_int_equal(left, 0);
    left = 10;
    ready.from.low = 4;
    assert_int_equal(scan_some(s, ready, &left), ERR_OK);
    assert_int_equal(left, 8);
    arena_fini(&a);
}

static void a_full_batch_comes_back(struct suite *s)
{
    struct queue_part p = { .queue = 103, .partition = 0 };
    struct queue_part_record own = own_one(s, p);
    struct arena a;
    arena_init(&a, 64u << 20);
    static struct item items[QUEUE_BATCH_ITEMS_MAX];
    static unsigned char states[QUEUE_BATCH_ITEMS_MAX];
    static struct queue_place at[QUEUE_BATCH_ITEMS_MAX];
    static str bodies[QUEUE_BATCH_ITEMS_MAX];
    static char bytes[8000];
    char order[QUEUE_ORDER_KEY_BYTES_MAX];
    memset(bytes, 'b', sizeof(bytes));
    memset(order, 'o', sizeof(order));
    for (unsigned i = 0; i < QUEUE_BATCH_ITEMS_MAX; i++) {
        items[i].bytes = (str){ .p = bytes, .n = 4000 + i };
        at[i] = (struct queue_place){ .batch = { .low = 50 },
                                      .index = (uint16_t)(QUEUE_BATCH_ITEMS_MAX - 1 - i) };
    }
    struct queue_op op = { .kind = OP_BATCH_PUT,
                           .u.batch = { .first = { .low = 50 },
                                        .count = QUEUE_BATCH_ITEMS_MAX,
                                        .states = states,
                                        .order_key = { .p = order, .n = sizeof(order) } } };
    assert_int_equal(item_batch_encode(items, QUEUE_BATCH_ITEMS_MAX, &a, &op.u.batch.bytes),
                     ERR_OK);
    struct queue_write_part w = {
        .part = p, .epoch = own.epoch, .ready = QUEUE_BATCH_ITEMS_MAX, .ops = &op, .ops_count = 1
    };
    assert_int_equal(write_ops(s, &w), ERR_OK);
    struct queue_bodies all = { .at = at,
                                .count = QUEUE_BATCH_ITEMS_MAX,
                                .bytes_max = UINT64_MAX,
                                .arena = &a,
                                .out = bodies };
    assert_int_equal(s->store->ops->bodies(s->store, p, &all), ERR_OK);
    assert_int_equal(all.read, QUEUE_BATCH_ITEMS_MAX);
    for (unsigned i = 0; i < QUEUE_BATCH_ITEMS_MAX; i++) {
        struct item it;
        assert_int_equal(item_decode(bodies[i], &it), ERR_OK);
        assert_int_equal(it.bytes.n, 4000 + QUEUE_BATCH_ITEMS_MAX - 1 - i);
    }
    struct queue_batch b;
    const struct queue_batch_look look = { .first = { .low = 50 }, .arena = &a, .out = &b };
    assert_int_equal(s->store->ops->batch(s->store, p, &look), ERR_OK);
    assert_true(b.order_key.n == sizeof(order) && b.count == QUEUE_BATCH_ITEMS_MAX);
    arena_fini(&a);
}

/* Three items, each of a batch of its own. A store reads small and large ones in different ways. */
static void bodies_end_at_their_limit(struct suite *s, uint32_t queue, size_t size)
{
    struct queue_part p = { .queue = queue, .partition = 0 };
    struct queue_part_record own = own_one(s, p);
    struct arena a;
    struct queue_place at[3];
    str bodies[3];
    arena_init(&a, 64u << 20);
    str body = { .p = arena_calloc(&a, 1, size), .n = size };
    static const unsigned char states[1];
    for (uint64_t i = 0; i < 3; i++) {
        const struct item it = { .bytes = body };
        struct queue_op op = { .kind = OP_BATCH_PUT,
                               .u.batch = {
                                   .first = { .low = 60 + i }, .count = 1, .states = states } };
        assert_int_equal(item_batch_encode(&it, 1, &a, &op.u.batch.bytes), ERR_OK);
        struct queue_write_part w = {
            .part = p, .epoch = own.epoch, .ready = 1, .ops = &op, .ops_count = 1
        };
        assert_int_equal(write_ops(s, &w), ERR_OK);
        at[i] = (struct queue_place){ .batch = { .low = 60 + i } };
    }
    const uint64_t item = size + ITEM_HEAD_BYTES;
    const struct {
        uint64_t bytes_max;
        unsigned read;
    } cases[] = {
        { 0, 1 },        { item - 1, 1 },     { 2 * item - 1, 1 },
        { 2 * item, 2 }, { 3 * item - 1, 2 }, { 3 * item, 3 },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct queue_bodies b = {
            .at = at, .count = 3, .bytes_max = cases[i].bytes_max, .arena = &a, .out = bodies
        };
        assert_int_equal(s->store->ops->bodies(s->store, p, &b), ERR_OK);
        assert_int_equal(b.read, cases[i].read);
        assert_int_equal(bodies[b.read - 1].n, item);
    }
    arena_fini(&a);
}

static void bodies_are_read_up_to_their_limit(struct suite *s)
{
    bodies_end_at_their_limit(s, 110, 100);
    bodies_end_at_their_limit(s, 111, 100000);
}

static void a_dropped_partition_is_gone_and_can_be_made_anew(struct suite *s)
{
    struct queue_part p = { .queue = 104, .partition = 9 };
    struct queue_part next = { .queue = 104, .partition = 10 };
    struct queue_part_record own = own_one(s, p), other = own_one(s, next), r;
    struct arena a;
    arena_init(&a, 1 << 20);
    for (uint64_t i = 1; i <= 50; i++) {
        struct queue_op op = batch_put(&a, (struct ksuid){ .low = i });
        struct queue_write_part w = {
            .part = p, .epoch = own.epoch, .ready = 1, .ops = &op, .ops_count = 1
        };
        assert_int_equal(write_ops(s, &w), ERR_OK);
        w.part = next;
        w.epoch = other.epoch;
        assert_int_equal(write_ops(s, &w), ERR_OK);
    }
    assert_int_equal(s->store->ops->drop(s->store, p, NULL), ERR_OK);
    assert_int_equal(s->store->ops->drop(s->store, p, NULL), ERR_OK);
    assert_int_equal(s->store->ops->record(s->store, p, &r), ERR_NOT_FOUND);
    unsigned left = 1;
    for (int kind = SCAN_READY; kind <= SCAN_KEYS; kind++)
        assert_int_equal(
            scan_some(s, (struct queue_scan){ .part = p, .kind = (enum queue_scan_kind)kind },
                      &left),
            ERR_OK);
    assert_int_equal(left, 1);
    struct queue_write_part w = { .part = p, .epoch = own.epoch };
    assert_int_equal(write_ops(s, &w), ERR_CONFLICT);
    own = own_one(s, p);
    assert_true(own.ready == 0 && own.bytes == 0 && ksuid_cmp(own.last_id, KSUID_NIL) == 0);
    left = 100;
    assert_int_equal(scan_some(s, (struct queue_scan){ .part = next, .kind = SCAN_READY }, &left),
                     ERR_OK);
    assert_int_equal(left, 50);
    arena_fini(&a);
}

static void it_is_alive(struct suite *s)
{
    assert_int_equal(s->store->ops->heartbeat(s->store, (mono){ .ns = 0 }, NULL), ERR_OK);
    assert_int_equal(s->store->ops->recover(s->store, NULL, NULL), ERR_OK); /* nothing to do */
    assert_int_equal(s->store->ops->heartbeat(s->store, (mono){ .ns = 0 }, NULL), ERR_OK);
}

/* ---- the random history ---- */

static void a_random_history_is_shown_as_it_was(struct suite *s)
{
    static struct model m;
    static struct model_write w;
    model_init(&m, 11, 200);
    assert_int_equal(model_own(&m, s->store), ERR_OK);
    for (unsigned i = 0; i < s->steps; i++) {
        model_step(&m, &w);
        assert_int_equal(model_write_run(s->store, &w.write), ERR_OK);
        model_write_fini(&w);
        if (i % (s->steps / 40 + 1) == 0 && !w.write.early)
            shown(&m, s); /* what was early before it, too: a write that is synced was waited for */
        if (i % (s->steps / 6 + 1) != 0)
            continue;
        s->reopen(s);
        shown(&m, s);
        assert_int_equal(model_own(&m, s->store), ERR_OK);
    }
    s->reopen(s);
    shown(&m, s);
    if (s->check != NULL)
        s->check(s);
}

void suite_run(struct suite *s)
{
    epochs_rise_and_old_owners_change_nothing(s);
    contradictions_change_nothing(s);
    walks_stop_when_told(s);
    a_full_batch_comes_back(s);
    bodies_are_read_up_to_their_limit(s);
    a_dropped_partition_is_gone_and_can_be_made_anew(s);
    it_is_alive(s);
    a_random_history_is_shown_as_it_was(s);
}
