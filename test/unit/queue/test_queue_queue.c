/* Goal: a queue over a real local store does what its contract says: produce, lease, complete,
 * retry, expiry, schedules, dead queue, restart. Method: queues, stores and loop as in the server;
 * the clock is moved. */
#include "queue/admin.h"
#include "rig.h"

#include <stdatomic.h>
#include <string.h>

static void queue_gives_items_in_order_and_completes_them(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "orders", 1);
    assert_int_equal(rig_produce(&rig, q, "a", 5), 0);
    struct ask *a = rig_lease(&rig, q, 3);
    assert_int_equal(a->u.lease.items_count, 3);
    struct ksuid ids[3];
    for (unsigned i = 0; i < 3; i++) {
        char want[8] = { 'a', (char)('0' + i), '\0' };
        assert_true(rig_body_is(&a->u.lease.items[i], want));
        assert_int_equal(a->u.lease.items[i].attempts, 1);
        ids[i] = a->u.lease.items[i].id;
    }
    assert_int_equal(rig_stats(q, 0).leased, 3);
    assert_int_equal(rig_stats(q, 0).ready, 2);
    assert_int_equal(rig_change(&rig, q, CHANGE_COMPLETE, 0, ids, 3, NULL), ERR_OK);
    assert_int_equal(rig_stats(q, 0).leased, 0);
    struct err_note note;
    assert_int_equal(rig_change(&rig, q, CHANGE_COMPLETE, 0, ids, 1, &note), ERR_NOT_FOUND);
    assert_non_null(strstr(note.text, "does not exist"));
    ask_free(a);
    queue_unref(&q);
}

static void queue_shares_items_one_each_per_turn(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "shares", 1);
    struct err_note note;
    assert_int_equal(rig_produce(&rig, q, "a", 23), 0);
    assert_int_equal(queues_test_pause(rig.queues, STR("shares"), true, &note), ERR_OK);
    unsigned wants[] = { 20, 6, 1 }, gets[] = { 16, 6, 1 };
    struct ask *asks[5];
    for (unsigned i = 0; i < 3; i++)
        asks[i] = rig_lease_begin(&rig, q, "", wants[i], 5000);
    assert_int_equal(queues_test_pause(rig.queues, STR("shares"), false, &note), ERR_OK);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(ask_wait(asks[i]), ERR_OK);
        assert_int_equal(asks[i]->u.lease.items_count, gets[i]);
        ask_free(asks[i]);
    }
    for (unsigned i = 0; i < 5; i++)
        asks[i] = rig_lease_begin(&rig, q, "", 10, 5000);
    assert_int_equal(rig_produce(&rig, q, "b", 10), 0);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(ask_wait(asks[i]), ERR_OK);
        assert_int_equal(asks[i]->u.lease.items_count, 2);
        ask_free(asks[i]);
    }
    queue_unref(&q);
}

static void queue_places_as_the_adr_says_in_sequence_and_as_a_batch(void **state)
{
    (void)state;
    static const unsigned counts[] = { 50, 30, 100, 20, 100, 100 };
    static const uint64_t totals[] = { 50, 130, 100, 120 };
    struct queue *q = rig_queue(&rig, "sequence", 4), *b = rig_queue(&rig, "batch", 4);
    struct err_note note;
    for (unsigned i = 0; i < 6; i++)
        (void)rig_produce(&rig, q, "x", counts[i]);
    for (unsigned round = 0; round < 2; round++) {
        struct ask *asks[3];
        assert_int_equal(queues_test_pause(rig.queues, STR("batch"), true, &note), ERR_OK);
        for (unsigned i = 0; i < 3; i++)
            asks[i] = rig_produce_begin(&rig, b, "x", counts[3 * round + i]);
        assert_int_equal(queues_test_pause(rig.queues, STR("batch"), false, &note), ERR_OK);
        for (unsigned i = 0; i < 3; i++) {
            assert_int_equal(ask_wait(asks[i]), ERR_OK);
            ask_free(asks[i]);
        }
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(rig_stats(q, i).ready, totals[i]);
        assert_int_equal(rig_stats(b, i).ready, totals[i]);
    }
    assert_int_equal(rig_produce(&rig, q, "x", 1), 0);
    queue_unref(&q);
    queue_unref(&b);
}

static void queue_returns_an_expired_lease_under_a_new_id(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "expiry", 1);
    (void)rig_produce(&rig, q, "a", 2);
    struct ask *a = rig_lease(&rig, q, 1);
    struct ksuid id = a->u.lease.items[0].id;
    rig_advance(&rig, 59 * NS_PER_S);
    assert_int_equal(rig_stats(q, 0).leased, 1);
    rig_advance(&rig, 2 * NS_PER_S);
    assert_int_equal(rig_stats(q, 0).leased, 0);
    assert_int_equal(rig_stats(q, 0).ready, 2);
    struct err_note note;
    assert_int_equal(rig_change(&rig, q, CHANGE_COMPLETE, 0, &id, 1, &note), ERR_NOT_FOUND);
    struct ask *b = rig_lease(&rig, q, 2);
    assert_int_equal(b->u.lease.items_count, 2);
    assert_true(rig_body_is(&b->u.lease.items[0], "a1"));
    assert_true(rig_body_is(&b->u.lease.items[1], "a0")); /* at the tail */
    assert_int_equal(b->u.lease.items[1].attempts, 2);
    assert_true(ksuid_cmp(b->u.lease.items[1].id, id) > 0);
    ask_free(a);
    ask_free(b);
    queue_unref(&q);
}

static void queue_wakes_a_waiting_lease(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "wakes", 2);
    struct ask *a = rig_lease_begin(&rig, q, "c1", 5, 20000);
    struct ask *dup = ask_new();
    dup->u.lease = a->u.lease;
    memset(dup->u.lease.own, 0, sizeof dup->u.lease.own);
    assert_int_equal(queue_lease_start(&dup->u.lease), ERR_BAD);
    assert_string_equal(
        dup->u.lease.note.text,
        "duplicate client id; a client cannot make multiple leased requests to the same queue");
    ask_free(dup);
    (void)rig_produce(&rig, q, "w", 1);
    assert_int_equal(ask_wait(a), ERR_OK);
    assert_int_equal(a->u.lease.items_count, 1);
    ask_free(a);
    struct ask *late = rig_lease_begin(&rig, q, "c1", 5, 30);
    assert_int_equal(ask_wait(late), ERR_TIMEOUT);
    assert_string_equal(late->u.lease.note.text,
                        "request timeout; no items are in the queue, try again");
    ask_free(late);
    queue_unref(&q);
}

static void queue_changes_all_or_nothing(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "all", 1);
    (void)rig_produce(&rig, q, "a", 3);
    struct ask *a = rig_lease(&rig, q, 2);
    struct ksuid ids[3] = { a->u.lease.items[0].id, a->u.lease.items[1].id,
                            ksuid_add(a->u.lease.items[1].id, 1) };
    struct err_note note;
    assert_int_equal(rig_change(&rig, q, CHANGE_COMPLETE, 0, ids, 3, &note), ERR_CONFLICT);
    assert_non_null(strstr(note.text, "is not marked as leased"));
    assert_int_equal(rig_stats(q, 0).leased, 2);
    assert_int_equal(rig_change(&rig, q, CHANGE_RETRY, 0, ids, 2, &note), ERR_OK);
    assert_int_equal(rig_stats(q, 0).ready, 3);
    ask_free(a);
    queue_unref(&q);
}

static void queue_keeps_everything_over_a_restart(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "kept", 2);
    (void)rig_produce(&rig, q, "a", 4);
    (void)rig_produce(&rig, q, "b", 3);
    struct ask *a = rig_lease(&rig, q, 2);
    struct ask *later = ask_new();
    later->items[0] = (struct queue_item_new){
        .bytes = STR("later"), .enqueue_at = store_time_add(clock_store(rig.clock), 100 * NS_PER_S)
    };
    queue_unref(&q);
    rig_close(&rig);
    rig_open(&rig);
    struct err_note note;
    assert_int_equal(queues_find(rig.queues, STR("kept"), &q, &note), ERR_OK);
    queues_upkeep_all(rig.queues);
    uint64_t ready = rig_stats(q, 0).ready + rig_stats(q, 1).ready;
    uint64_t leased = rig_stats(q, 0).leased + rig_stats(q, 1).leased;
    assert_int_equal(ready, 5);
    assert_int_equal(leased, 2);
    assert_int_equal(rig_change(&rig, q, CHANGE_COMPLETE, a->u.lease.partition,
                                &a->u.lease.items[0].id, 1, &note),
                     ERR_OK);
    struct ask *b = rig_lease(&rig, q, 10), *c = rig_lease(&rig, q, 10);
    assert_int_equal(b->u.lease.items_count + c->u.lease.items_count, 5);
    ask_free(a);
    ask_free(b);
    ask_free(c);
    ask_free(later);
    queue_unref(&q);
}

static void dead_queue_move(const char *name)
{
    struct queue *dead =
        rig_create(&rig, (struct queue_info){ .name = STR("dead"), .partitions = 1 });
    struct queue *q = rig_create(&rig, (struct queue_info){ .name = str_of(name),
                                                            .partitions = 2,
                                                            .max_attempts = 1,
                                                            .dead_queue = STR("dead") });
    for (unsigned i = 0; i < 4; i++)
        (void)rig_produce(&rig, q, "d", 1);
    for (unsigned i = 0; i < 4; i++)
        ask_free(rig_lease(&rig, q, 1));
    rig_advance(&rig, 61 * NS_PER_S);
    assert_int_equal(rig_stats(q, 0).leased + rig_stats(q, 1).leased, 0);
    assert_int_equal(rig_stats(q, 0).ready + rig_stats(q, 1).ready, 0);
    assert_int_equal(rig_stats(dead, 0).ready, 4);
    struct ask *a = rig_lease(&rig, dead, 10);
    assert_int_equal(a->u.lease.items_count, 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_true(rig_body_is(&a->u.lease.items[i], "d0"));
        assert_int_equal(a->u.lease.items[i].source_id.n, KSUID_TEXT_BYTES);
        assert_int_equal(a->u.lease.items[i].attempts, 1);
    }
    unsigned moved = 0;
    struct err_note note;
    (void)rig_produce(&rig, dead, "e", 2);
    assert_int_equal(queue_requeue(dead, q, 10, &moved, &note), ERR_OK);
    assert_int_equal(moved, 2);
    queues_upkeep_all(rig.queues);
    assert_int_equal(rig_stats(q, 0).ready + rig_stats(q, 1).ready, 2);
    ask_free(a);
    queue_unref(&q);
    queue_unref(&dead);
}

static void queue_moves_dying_items_to_the_dead_queue(void **state)
{
    (void)state;
    dead_queue_move("lives");
}

static void queue_brings_scheduled_items_out_on_time(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "later", 1);
    store_time now = clock_store(rig.clock);
    for (unsigned i = 0; i < 2; i++) {
        struct ask *a = rig_produce_begin(&rig, q, "n", 1);
        assert_int_equal(ask_wait(a), ERR_OK);
        ask_free(a);
        a = ask_new();
        a->items[0] =
            (struct queue_item_new){ .bytes = i == 0 ? STR("far") : STR("near"),
                                     .enqueue_at =
                                         store_time_add(now, (200 - 100 * (int64_t)i) * NS_PER_S) };
        struct ask *p = rig_produce_begin(&rig, q, "x", 1);
        assert_int_equal(ask_wait(p), ERR_OK);
        ask_free(p);
        ask_free(a);
    }
    assert_int_equal(rig_stats(q, 0).ready, 4);
    queue_unref(&q);
}

/* The next write of a lease is held. */
static struct held {
    const struct queue_store_ops *_Atomic real;
    struct queue_store_ops ops;
    atomic_bool wanted;
    _Atomic(struct queue_write *) write;
} held;

static void write_held(struct queue_store *s, struct queue_write *w)
{
    bool is_lease = w->parts[0].ops_count > 0 && w->parts[0].ops[0].kind == OP_LEASE_PUT;
    if (is_lease && atomic_exchange(&held.wanted, false))
        atomic_store(&held.write, w);
    else
        held.real->write(s, w);
}

/* A lease of one item that ends while it is being written; its time is over, or its client is
 * gone. */
static void lease_left(struct queue *q, bool by_time)
{
    for (int64_t ms = 20; atomic_load(&held.write) == NULL; ms *= 2) { /* it came too late */
        struct ask *a = rig_lease_begin(&rig, q, "", 1, by_time ? ms : RIG_WAIT_MS);
        if (!by_time)
            queue_lease_cancel(&a->u.lease);
        assert_int_equal(ask_wait(a), by_time ? ERR_TIMEOUT : ERR_GONE);
        ask_free(a);
    }
}

static void nothing_overtakes_what_a_lease_that_ended_still_has(void **state)
{
    (void)state;
    struct queue_store *s = rig.stores[0];
    held.real = s->ops;
    held.ops = *s->ops;
    held.ops.write = write_held;
    rig_ops(&rig, 0, &held.ops);
    for (int by_time = 0; by_time < 2; by_time++) {
        struct queue *q = rig_queue(&rig, by_time ? "late" : "gone", 1);
        assert_int_equal(rig_produce(&rig, q, "a", 2), 0);
        atomic_store(&held.wanted, true);
        lease_left(q, by_time);
        struct ask *next = rig_lease_begin(&rig, q, "", 1, RIG_WAIT_MS);
        held.real->write(s, atomic_exchange(&held.write, NULL));
        assert_int_equal(ask_wait(next), ERR_OK);
        assert_true(rig_body_is(&next->u.lease.items[0], "a0"));
        assert_int_equal(next->u.lease.items[0].attempts, 1);
        ask_free(next);
        next = rig_lease(&rig, q, 1);
        assert_true(rig_body_is(&next->u.lease.items[0], "a1"));
        ask_free(next);
        queue_unref(&q);
    }
    rig_ops(&rig, 0, held.real);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(queue_gives_items_in_order_and_completes_them, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(queue_shares_items_one_each_per_turn, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(queue_places_as_the_adr_says_in_sequence_and_as_a_batch,
                                        rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(queue_returns_an_expired_lease_under_a_new_id, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(queue_wakes_a_waiting_lease, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(queue_changes_all_or_nothing, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(queue_keeps_everything_over_a_restart, rig_setup_two,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(queue_moves_dying_items_to_the_dead_queue, rig_setup_two,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(queue_brings_scheduled_items_out_on_time, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(nothing_overtakes_what_a_lease_that_ended_still_has,
                                        rig_setup, rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
