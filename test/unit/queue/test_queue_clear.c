/* Goal: a clear removes the kinds that it names, and what is of another kind by then stays.
 * Method: the store's look at what is there is over only when a consumer has changed it. */
#include "rig.h"

#include "queue/admin.h"
#include "queue/machine.h"

#include <pthread.h>
#include <string.h>

enum { LATER_S = 30 };

static struct {
    struct queue_store_ops ops;
    const struct queue_store_ops *_Atomic real;
    pthread_t clearer;
    void (*meanwhile)(struct queue *q);
    struct queue *q;
} bent;

static void others(void)
{
    void (*meanwhile)(struct queue * q) = bent.meanwhile;
    if (meanwhile == NULL || !pthread_equal(pthread_self(), bent.clearer))
        return;
    bent.meanwhile = NULL;
    meanwhile(bent.q);
}

static err look_at(struct queue_store *s, const struct queue_scan *scan)
{
    err why = bent.real->scan(s, scan);
    others();
    return why;
}

/* Clears while meanwhile happens behind the first look. */
static void clear(struct queue *q, bool ready, bool scheduled, bool destructive,
                  void (*meanwhile)(struct queue *q))
{
    struct err_note note = { "" };
    bent.real = rig.stores[0]->ops;
    bent.ops = *bent.real;
    bent.ops.scan = look_at;
    bent.clearer = pthread_self();
    bent.q = q;
    bent.meanwhile = meanwhile;
    rig_ops(&rig, 0, &bent.ops);
    err why = queue_clear(q,
                          &(struct queue_clear_order){
                              .ready = ready, .scheduled = scheduled, .destructive = destructive },
                          &note);
    rig_ops(&rig, 0, bent.real);
    assert_int_equal(why, ERR_OK);
    assert_null(bent.meanwhile);
}

static void nothing(struct queue *q)
{
    (void)q;
}

/* Takes the oldest and gives them back for later. */
static void give_back(struct queue *q, unsigned count, int64_t later_s)
{
    struct ask *l = rig_lease(&rig, q, count), *a = ask_new();
    store_time at = store_time_add(clock_store(rig.clock), later_s * NS_PER_S);
    assert_int_equal(l->u.lease.items_count, count);
    for (unsigned i = 0; i < count; i++) {
        ksuid_format(l->u.lease.items[i].id, a->ids[i]);
        a->changes[i] = (struct queue_change_item){ .id = str_of(a->ids[i]), .retry_at = at };
    }
    a->u.change.kind = CHANGE_RETRY;
    a->u.change.items_count = count;
    assert_int_equal(rig_change_items(&rig, q, a), ERR_OK);
    ask_free(a);
    ask_free(l);
}

static void give_back_later(struct queue *q)
{
    give_back(q, 1, LATER_S);
}

static void give_back_last(struct queue *q)
{
    give_back(q, 1, 2 * LATER_S);
}

static void take(struct queue *q)
{
    ask_free(rig_lease(&rig, q, 1));
}

/* It is due, and somebody has it. */
static void take_when_due(struct queue *q)
{
    rig_advance(&rig, (LATER_S + 1) * NS_PER_S);
    take(q);
}

static void due(struct queue *q)
{
    const mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
    rig_advance(&rig, (LATER_S + 1) * NS_PER_S);
    while (rig_stats(q, 0).ready == 0) {
        assert_true(clock_mono(rig.clock).ns < deadline.ns);
        queue_rest();
    }
}

static void left(struct queue *q, uint64_t ready, uint64_t scheduled, uint64_t leased)
{
    struct queue_part_stats s = rig_stats(q, 0);
    assert_int_equal(s.ready, ready);
    assert_int_equal(s.scheduled, scheduled);
    assert_int_equal(s.leased, leased);
}

static void what_is_given_back_for_later_meanwhile_stays(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "q", 1);
    (void)rig_produce(&rig, q, "a", 3);
    clear(q, true, false, false, give_back_later);
    left(q, 0, 1, 0);
    (void)rig_produce(&rig, q, "b", 3);
    clear(q, true, false, true, give_back_later);
    left(q, 0, 2, 0);
    queue_unref(&q);
}

static void what_is_taken_meanwhile_stays_unless_leased_ones_go(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "q", 1);
    (void)rig_produce(&rig, q, "a", 3);
    clear(q, true, false, false, take);
    left(q, 0, 0, 1);
    (void)rig_produce(&rig, q, "b", 3);
    clear(q, true, false, true, take);
    left(q, 0, 0, 0);
    queue_unref(&q);
}

static void what_was_scheduled_and_is_taken_meanwhile_stays(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "q", 1);
    (void)rig_produce(&rig, q, "a", 2);
    give_back_later(q);
    give_back_later(q);
    left(q, 0, 2, 0);
    clear(q, false, true, false, take_when_due);
    left(q, 1, 0, 1);
    queue_unref(&q);
}

static void what_is_due_meanwhile_goes_where_both_kinds_do(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "q", 1);
    (void)rig_produce(&rig, q, "a", 1);
    give_back_later(q);
    clear(q, false, true, false, nothing);
    left(q, 0, 0, 0);
    (void)rig_produce(&rig, q, "a", 1);
    give_back_later(q);
    clear(q, true, true, false, due);
    left(q, 0, 0, 0);
    queue_unref(&q);
}

/* Memory holds the next schedules alone: what is given back behind them is known to the store. */
static void what_memory_does_not_hold_stays_and_is_due_in_time(void **state)
{
    enum { ROUNDS = 5, ROUND = 1000 };
    (void)state;
    struct queue *q = rig_queue(&rig, "q", 1);
    for (unsigned round = 0; round < ROUNDS; round++) {
        (void)rig_produce(&rig, q, "a", ROUND);
        give_back(q, ROUND, LATER_S);
    }
    left(q, 0, ROUNDS * ROUND, 0);
    (void)rig_produce(&rig, q, "b", 1);
    clear(q, true, false, false, give_back_last);
    left(q, 0, ROUNDS * ROUND + 1, 0);
    const mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
    rig_advance(&rig, 3 * LATER_S * NS_PER_S);
    while (rig_stats(q, 0).ready < ROUNDS * ROUND + 1) {
        assert_true(clock_mono(rig.clock).ns < deadline.ns);
        queue_rest();
    }
    left(q, ROUNDS * ROUND + 1, 0, 0);
    queue_unref(&q);
}

static err own_by_another(struct queue_store *s, const struct queue_own *o)
{
    (void)s, (void)o;
    return ERR_CONFLICT;
}

static void await_state(struct queue *q, const char *state)
{
    const mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
    while (strcmp(rig_stats(q, 0).state, state) != 0) {
        assert_true(clock_mono(rig.clock).ns < deadline.ns);
        queue_rest();
    }
}

/* Only its owner knows which items a partition has. */
static void a_partition_of_another_is_not_cleared_nor_called_empty(void **state)
{
    struct err_note note;
    (void)state;
    struct queue *q = rig_queue(&rig, "q", 1);
    (void)rig_produce(&rig, q, "a", 3);
    bent.real = rig.stores[0]->ops;
    bent.ops = *bent.real;
    bent.ops.own = own_by_another;
    rig_ops(&rig, 0, &bent.ops);
    queue_reload(q);
    await_state(q, "standby");
    for (int how = 1; how < 8; how++) {
        bool ready = how & 1, scheduled = how & 2, destructive = how & 4;
        if (!ready && !scheduled)
            continue;
        assert_int_equal(queue_clear(q,
                                     &(struct queue_clear_order){ .ready = ready,
                                                                  .scheduled = scheduled,
                                                                  .destructive = destructive },
                                     &note),
                         ERR_UNAVAILABLE);
        assert_string_equal(note.text, "partition not available; partition '0' is owned by another "
                                       "process, retry again");
    }
    struct ask *l = rig_lease_begin(&rig, q, "c", 1, 50);
    assert_int_equal(ask_wait(l), ERR_TIMEOUT);
    assert_string_equal(l->u.lease.note.text,
                        "request timeout; no partition is available, try again");
    ask_free(l);
    rig_ops(&rig, 0, bent.real);
    await_state(q, "available");
    left(q, 3, 0, 0);
    assert_int_equal(queue_clear(q, &(struct queue_clear_order){ .ready = true }, &note), ERR_OK);
    left(q, 0, 0, 0);
    queue_unref(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_partition_of_another_is_not_cleared_nor_called_empty,
                                        rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(what_is_given_back_for_later_meanwhile_stays, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(what_is_taken_meanwhile_stays_unless_leased_ones_go,
                                        rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(what_was_scheduled_and_is_taken_meanwhile_stays, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(what_is_due_meanwhile_goes_where_both_kinds_do, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(what_memory_does_not_hold_stays_and_is_due_in_time,
                                        rig_setup, rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
