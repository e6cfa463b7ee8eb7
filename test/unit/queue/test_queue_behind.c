/* Goal: one write of a partition behind another: who sends it, in what order outcomes take effect,
 * what becomes of it when the first fails. Method: the store's write is held by the test, which
 * says its outcome when it likes; the queue's lock is held where the machine must not run. */
#include "rig.h"

#include "queue/machine.h"
#include "queue/store/store.h"

static struct {
    struct queue_store_ops ops;
    const struct queue_store_ops *real;
    struct queue_write *held; /* the first */
    bool at_once;             /* the others are written before write returns */
    atomic_uint writes;
} slow;

static void write_held(struct queue_store *s, struct queue_write *w)
{
    if (atomic_fetch_add(&slow.writes, 1) == 0)
        slow.held = w;
    else if (slow.at_once)
        w->done(w, ERR_OK);
    else
        slow.real->write(s, w);
}

static struct queue *slow_begin(bool at_once)
{
    struct queue *q = rig_queue(&rig, "behind", 1);
    (void)rig_produce(&rig, q, "before", 1); /* from here on this thread writes */
    slow.real = rig.stores[0]->ops;
    slow.ops = *slow.real;
    slow.ops.write = write_held;
    slow.held = NULL;
    slow.at_once = at_once;
    atomic_store(&slow.writes, 0);
    rig.stores[0]->ops = &slow.ops;
    return q;
}

static void slow_end(struct queue *q, struct ask *a, struct ask *b)
{
    assert_int_equal(ask_wait(a), ERR_OK);
    assert_int_equal(ask_wait(b), ERR_OK);
    assert_int_equal(rig_stats(q, 0).ready, 3);
    rig.stores[0]->ops = slow.real;
    ask_free(a);
    ask_free(b);
    queue_unref(&q);
}

static void what_is_behind_a_write_is_sent_by_who_says_that_it_is_written(void **state)
{
    (void)state;
    struct queue *q = slow_begin(false);
    struct ask *a = rig_produce_begin(&rig, q, "a", 1), *b = rig_produce_begin(&rig, q, "b", 1);
    assert_int_equal(atomic_load(&slow.writes), 1);
    queue_enter(q);
    slow.held->done(slow.held, ERR_OK);
    unsigned writes = atomic_load(&slow.writes);
    queue_leave(q);
    assert_int_equal(writes, 2);
    slow_end(q, a, b);
}

static void outcomes_take_effect_in_order_whoever_is_first(void **state)
{
    (void)state;
    struct queue *q = slow_begin(true);
    struct ask *a = rig_produce_begin(&rig, q, "a", 1), *b = rig_produce_begin(&rig, q, "b", 1);
    slow.held->done(slow.held, ERR_OK); /* b's outcome comes inside */
    assert_int_equal(atomic_load(&slow.writes), 2);
    slow_end(q, a, b);
}

static void what_is_behind_a_write_that_fails_is_not_sent_but_made_anew(void **state)
{
    (void)state;
    struct queue *q = slow_begin(false);
    struct ask *a = rig_produce_begin(&rig, q, "a", 1), *b = rig_produce_begin(&rig, q, "b", 1);
    queue_enter(q);
    slow.held->done(slow.held, ERR_UNAVAILABLE);
    unsigned writes = atomic_load(&slow.writes);
    queue_leave(q);
    assert_int_equal(writes, 1);
    slow_end(q, a, b);
}

static void what_a_client_gave_up_behind_a_write_is_not_sent(void **state)
{
    (void)state;
    struct queue *q = slow_begin(false);
    struct ask *a = rig_produce_begin(&rig, q, "a", 1), *b = rig_produce_begin(&rig, q, "b", 1);
    struct ask *c = rig_produce_begin(&rig, q, "c", 1);
    queue_produce_cancel(&b->u.produce);
    assert_int_equal(ask_wait(b), ERR_GONE);
    slow.held->done(slow.held, ERR_OK);
    ask_free(b);
    slow_end(q, a, c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            what_is_behind_a_write_is_sent_by_who_says_that_it_is_written, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(outcomes_take_effect_in_order_whoever_is_first, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(what_is_behind_a_write_that_fails_is_not_sent_but_made_anew,
                                        rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(what_a_client_gave_up_behind_a_write_is_not_sent, rig_setup,
                                        rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
