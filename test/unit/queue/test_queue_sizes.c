/* Goal: no size that clients choose stops a queue or ends the process: large bodies on disk, many
 * requests behind a slow write, many rows in one write. Method: as test_queue_queue.c. */
#include "rig.h"

#include "queue/admin.h"
#include "queue/store/store.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MB = 1000000 };

static str body_of(struct ask *a, size_t size)
{
    char *p = arena_calloc(&a->arena, 1, size);
    assert_non_null(p);
    return (str){ .p = p, .n = size };
}

static struct ask *produce_begin(struct queue *q, unsigned count, size_t size)
{
    struct ask *a = ask_new();
    str body = body_of(a, size);
    for (unsigned i = 0; i < count; i++)
        a->items[i].bytes = body;
    ask_produce(&rig, q, a, count);
    return a;
}

static void stored(struct ask *a)
{
    if (ask_wait(a) != ERR_OK)
        fail_msg("produce: %s", a->u.produce.note.text);
    ask_free(a);
}

static struct queue *reopened(struct queue **q, const char *name)
{
    struct err_note note;
    queue_unref(q);
    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(queues_find(rig.queues, str_of(name), q, &note), ERR_OK);
    return *q;
}

/* ---- leases ---- */

static void a_lease_of_bodies_on_disk_ends_where_its_reply_is_full(void **state)
{
    enum { ITEMS = 20, SIZE = 2 * MB, FITS = 4 }; /* of reply_bytes_max, 8 MiB */
    (void)state;
    struct queue *q = rig_queue(&rig, "large", 1);
    for (unsigned i = 0; i < ITEMS; i++)
        stored(produce_begin(q, 1, SIZE));
    (void)reopened(&q, "large");
    struct ksuid last = KSUID_NIL;
    for (unsigned i = 0; i < ITEMS; i += FITS) {
        struct ask *a = ask_new();
        a->arena.bytes_max = 16 << 20; /* less than all of them */
        rig_lease_with(&rig, q, a, QUEUE_LEASE_ITEMS_MAX);
        assert_int_equal(ask_wait(a), ERR_OK);
        assert_int_equal(a->u.lease.items_count, FITS);
        for (unsigned n = 0; n < FITS; n++) {
            assert_int_equal(a->u.lease.items[n].bytes.n, SIZE);
            assert_int_equal(a->u.lease.items[n].attempts, 1); /* after going back */
            assert_true(ksuid_cmp(a->u.lease.items[n].id, last) > 0);
            last = a->u.lease.items[n].id;
        }
        ask_free(a);
    }
    assert_int_equal(rig_stats(q, 0).ready, 0);
    assert_int_equal(rig_stats(q, 0).leased, ITEMS);
    queue_unref(&q);
}

/* Leases count items; each for the first time. */
static void assert_first_attempt(struct queue *q, unsigned count)
{
    struct ask *a = rig_lease(&rig, q, count);
    assert_int_equal(a->u.lease.items_count, count);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(a->u.lease.items[i].attempts, 1);
    ask_free(a);
}

static void a_lease_whose_answer_cannot_be_made_is_given_back(void **state)
{
    enum { ITEMS = 3, SIZE = 600000 };
    (void)state;
    struct queue *q = rig_queue(&rig, "copied", 1);
    stored(produce_begin(q, ITEMS,
                         SIZE)); /* in memory: the lease is written while bodies are copied */
    struct ask *a = ask_new();
    a->arena.bytes_max = 1 << 20;
    rig_lease_with(&rig, q, a, ITEMS);
    assert_int_equal(ask_wait(a), ERR_UNAVAILABLE);
    assert_int_equal(a->u.lease.items_count, 0);
    ask_free(a);
    assert_first_attempt(q, ITEMS);
    queue_unref(&q);
}

static void items_that_no_answer_tells_are_given_back_in_their_order(void **state)
{
    enum { ITEMS = 5, TOLD = 2 };
    (void)state;
    struct queue *q = rig_queue(&rig, "told", 1);
    (void)rig_produce(&rig, q, "t", ITEMS);
    struct ask *a = rig_lease(&rig, q, ITEMS);
    struct ksuid next = a->u.lease.items[TOLD].id;
    queue_lease_give_back(&a->u.lease, TOLD);
    assert_int_equal(a->u.lease.items_count, TOLD);
    struct ask *b = rig_lease(&rig, q, ITEMS);
    assert_int_equal(b->u.lease.items_count, ITEMS - TOLD);
    assert_int_equal(b->u.lease.items[0].attempts, 1);
    assert_int_equal(ksuid_cmp(b->u.lease.items[0].id, next), 0);
    queue_lease_give_back(&a->u.lease, 0);
    assert_int_equal(rig_change(&rig, q, CHANGE_COMPLETE, 0, &next, 1, NULL), ERR_OK);
    ask_free(a), ask_free(b);
    queue_unref(&q);
}

static const struct queue_store_ops *_Atomic real;
static atomic_int failures; /* of writes of leases, to come */

static void write_leases(struct queue_store *s, struct queue_write *w)
{
    bool is_lease = w->parts[0].ops_count > 0 && w->parts[0].ops[0].kind == OP_LEASE_PUT;
    if (is_lease && atomic_fetch_sub(&failures, 1) > 0)
        w->done(w, ERR_FULL);
    else
        real->write(s, w);
}

static void a_lease_that_is_tried_again_needs_no_more_memory(void **state)
{
    enum { ITEMS = 4, SIZE = 1 * MB, TRIES = 4 };
    (void)state;
    struct queue *q = rig_queue(&rig, "tried", 1);
    stored(produce_begin(q, ITEMS, SIZE));
    real = rig.stores[0]->ops;
    struct queue_store_ops bent = *real;
    bent.write = write_leases;
    rig_ops(&rig, 0, &bent);
    for (int on_disk = 0; on_disk < 2; on_disk++) {
        atomic_store(&failures, TRIES);
        struct ask *a = ask_new();
        a->arena.bytes_max = (ITEMS + 2) * MB;
        rig_lease_with(&rig, q, a, ITEMS);
        err why = ask_wait(a);
        assert_true(atomic_load(&failures) < 0);
        if (why == ERR_OK)
            queue_lease_give_back(&a->u.lease, 0);
        ask_free(a);
        assert_int_equal(why, ERR_OK);
        if (on_disk == 0) {
            rig_ops(&rig, 0, real);
            (void)reopened(&q, "tried");
            real = rig.stores[0]->ops;
            rig_ops(&rig, 0, &bent);
        }
    }
    rig_ops(&rig, 0, real);
    queue_unref(&q);
}

/* ---- produces behind a write ---- */

static void pause_part(struct queue *q, bool pause)
{
    struct err_note note;
    struct queue_part_change c = { .order = pause ? PART_PAUSE : PART_RESUME };
    assert_int_equal(queue_part_change(q, &c, &note), ERR_OK);
}

static void small_requests_of_more_bytes_than_a_write_has_are_all_stored(void **state)
{
    enum { REQUESTS = 700, SIZE = 60000 }; /* 42 MB */
    (void)state;
    struct queue *q = rig_queue(&rig, "behind", 1);
    struct ask *asks[REQUESTS];
    pause_part(q, true);
    for (unsigned i = 0; i < REQUESTS; i++)
        asks[i] = produce_begin(q, 1, SIZE);
    pause_part(q, false);
    for (unsigned i = 0; i < REQUESTS; i++)
        stored(asks[i]);
    assert_int_equal(rig_stats(q, 0).ready, REQUESTS);
    queue_unref(&q);
}

/* One request of one item, kept once by its key, due later: two rows beside its batch's. */
static struct ask *produce_with_rows(struct queue *q, unsigned n, store_time at)
{
    struct ask *a = ask_new();
    a->items[0] = (struct queue_item_new){ .bytes = STR("r"), .enqueue_at = at };
    a->u.produce.idempotency_key = arena_printf(&a->arena, "key %u", n);
    ask_produce(&rig, q, a, 1);
    return a;
}

static void requests_of_more_rows_than_a_write_has_are_all_stored(void **state)
{
    enum {
        BATCH = QUEUE_BATCH_ITEMS_MAX,
        ALONE = QUEUE_WRITE_OPS_MAX - 2 * BATCH - (2 * BATCH + 1),
        REQUESTS = 2 * BATCH + ALONE
    };
    (void)state;
    struct queue *q = rig_queue(&rig, "rows", 1);
    store_time later = store_time_add(clock_store(rig.clock), 3600 * NS_PER_S);
    struct ask **asks = calloc(REQUESTS, sizeof(struct ask *));
    pause_part(q, true);
    for (unsigned i = 0; i < REQUESTS; i++) {
        bool alone = i >= BATCH && i < BATCH + ALONE; /* a batch of its own: one row */
        asks[i] = alone ? rig_produce_keyed_begin(&rig, q, "a", "", "order")
                        : produce_with_rows(q, i, later);
    }
    pause_part(q, false);
    for (unsigned i = 0; i < REQUESTS; i++)
        stored(asks[i]);
    assert_int_equal(rig_stats(q, 0).scheduled, 2 * BATCH);
    assert_int_equal(rig_stats(q, 0).ready, ALONE);
    free(asks);
    queue_unref(&q);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lease_of_bodies_on_disk_ends_where_its_reply_is_full),
        TEST(a_lease_whose_answer_cannot_be_made_is_given_back),
        TEST(a_lease_that_is_tried_again_needs_no_more_memory),
        TEST(items_that_no_answer_tells_are_given_back_in_their_order),
        TEST(small_requests_of_more_bytes_than_a_write_has_are_all_stored),
        TEST(requests_of_more_rows_than_a_write_has_are_all_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
