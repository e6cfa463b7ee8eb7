/* Goal: an order to move all items of a dead queue moves all of them, or its answer says how many
 * were moved and why no more. Method: queues over local stores; one store whose leases cannot be
 * read, or are read late; more items than memory holds. */
#include "rig.h"

#include "queue/admin.h"
#include "queue/machine.h"

#include <stdatomic.h>
#include <string.h>

enum { ITEMS = 5, LARGE_ITEMS = 20, RELOADS = 5, LATE_MS = 300 };

static struct queue *dead, *to;

static const struct queue_store_ops *real;
static struct queue_store_ops bent;
static atomic_bool silent, entered, answered;

static err bent_leases(struct queue_store *s, struct queue_part p,
                       bool (*each)(void *ctx, const struct queue_lease *l), void *ctx)
{
    const mono until = mono_add_ms(clock_mono(rig.clock), LATE_MS);
    if (atomic_load(&silent))
        return ERR_UNAVAILABLE;
    atomic_store(&entered, true);
    while (!atomic_load(&answered) && clock_mono(rig.clock).ns < until.ns)
        queue_rest();
    return real->leases(s, p, each, ctx);
}

/* The last store, in which dead has its last partition. */
static void bend(bool is_silent)
{
    struct queue_store *s = rig.stores[rig.stores_count - 1];
    atomic_store(&silent, is_silent);
    atomic_store(&entered, false);
    atomic_store(&answered, false);
    real = s->ops;
    bent = *real;
    bent.leases = bent_leases;
    s->ops = &bent;
}

static void straighten(void)
{
    rig.stores[rig.stores_count - 1]->ops = real;
}

static void make_queues(void)
{
    dead = rig_queue(&rig, "dead", rig.stores_count);
    to = rig_queue(&rig, "to", 1);
    for (uint32_t i = 0; i < rig.stores_count; i++)
        (void)rig_produce(&rig, dead, "x", ITEMS);
    for (uint32_t i = 0; i < rig.stores_count; i++)
        assert_int_equal(rig_stats(dead, i).ready, ITEMS);
}

static void let_queues_go(void)
{
    queue_unref(&dead);
    queue_unref(&to);
}

static void a_partition_that_is_away_is_told_with_what_was_moved(void **state)
{
    struct err_note note = { "" };
    unsigned moved = 0;
    (void)state;
    make_queues();
    bend(true);
    assert_int_equal(queue_reload(dead, &note), ERR_OK);
    assert_int_equal(queue_requeue(dead, to, 1000, &moved, &note), ERR_UNAVAILABLE);
    assert_string_equal(
        note.text, "partition not available; partition '1' is failing; 5 were moved, try again");
    assert_int_equal(moved, ITEMS);
    straighten();
    const mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
    while (queue_requeue(dead, to, 1000, &moved, &note) !=
           ERR_OK) { /* until its store was probed */
        assert_int_equal(moved, 0);
        assert_true(clock_mono(rig.clock).ns < deadline.ns);
    }
    assert_int_equal(moved, ITEMS);
    assert_int_equal(rig_stats(to, 0).ready, 2 * ITEMS);
    let_queues_go();
}

static void as_many_as_are_wanted_need_no_partition_that_is_away(void **state)
{
    struct err_note note = { "" };
    unsigned moved = 0;
    (void)state;
    make_queues();
    bend(true);
    assert_int_equal(queue_reload(dead, &note), ERR_OK);
    assert_int_equal(queue_requeue(dead, to, ITEMS, &moved, &note), ERR_OK);
    assert_int_equal(moved, ITEMS);
    straighten();
    let_queues_go();
}

static void *reload(void *ctx)
{
    struct err_note note;
    (void)ctx;
    assert_int_equal(queue_reload(dead, &note), ERR_OK);
    return NULL;
}

static void a_partition_that_is_being_read_is_waited_for(void **state)
{
    struct err_note note;
    unsigned moved = 0;
    pthread_t thread;
    (void)state;
    make_queues();
    bend(false);
    assert_int_equal(pthread_create(&thread, NULL, reload, NULL), 0);
    const mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
    while (!atomic_load(&entered))
        assert_true(clock_mono(rig.clock).ns < deadline.ns);
    err why = queue_requeue(dead, to, 1000, &moved, &note);
    atomic_store(&answered, true);
    (void)pthread_join(thread, NULL);
    straighten();
    assert_int_equal(why, ERR_OK);
    assert_int_equal(moved, 2 * ITEMS);
    let_queues_go();
}

static void more_items_than_memory_holds_are_all_moved(void **state)
{
    enum { MANY = 12000 };
    struct err_note note;
    unsigned moved = 0;
    (void)state;
    dead = rig_queue(&rig, "dead", 1);
    to = rig_queue(&rig, "to", 1);
    for (unsigned i = 0; i < MANY; i += QUEUE_PRODUCE_ITEMS_MAX)
        (void)rig_produce(&rig, dead, "x", QUEUE_PRODUCE_ITEMS_MAX);
    assert_int_equal(queue_requeue(dead, to, MANY + 1, &moved, &note), ERR_OK);
    assert_int_equal(moved, MANY);
    assert_int_equal(rig_stats(dead, 0).ready, 0);
    let_queues_go();
}

static void requeue_between_stores(void)
{
    struct err_note note = { "" };
    dead = rig_queue(&rig, "dead", 1);
    to = rig_queue(&rig, "to", 1);
    struct queue_part_change c = { .order = PART_MOVE, .store = STR("s1") };
    assert_int_equal(queue_part_change(to, &c, &note), ERR_OK);
    queue_await_read(to, QUEUE_PARTS_ALL,
                     mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS)); /* else it takes nothing */
    (void)rig_produce(&rig, dead, "x", ITEMS);
}

static pthread_t closer;

/* The insert into the target waits until the source is closed, or would be. */
static void late_write(struct queue_store *s, struct queue_write *w)
{
    if (w->parts[0].ops_count > 0 && w->parts[0].ops[0].kind == OP_BATCH_PUT &&
        !atomic_exchange(&entered, true)) {
        const mono until = mono_add_ms(clock_mono(rig.clock), LATE_MS);
        bool is_closed = false;
        assert_int_equal(pthread_create(&closer, NULL, reload, NULL), 0);
        while (!is_closed && clock_mono(rig.clock).ns < until.ns) {
            queue_rest();
            queue_enter(dead);
            is_closed = dead->parts[0]->closed;
            queue_leave(dead);
        }
    }
    real->write(s, w);
}

static void items_are_never_in_both_queues_when_a_partition_is_closed_meanwhile(void **state)
{
    struct err_note note = { "" };
    unsigned moved = 0;
    (void)state;
    requeue_between_stores();
    bend(false);
    bent.leases = real->leases;
    bent.write = late_write;
    err why = queue_requeue(dead, to, 1000, &moved, &note);
    assert_true(atomic_load(&entered));
    (void)pthread_join(closer, NULL);
    straighten();
    queue_await_read(dead, QUEUE_PARTS_ALL, mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS));
    uint64_t left = rig_stats(dead, 0).ready, there = rig_stats(to, 0).ready;
    let_queues_go();
    assert_int_equal(left + there, ITEMS);
    assert_int_equal(why, ERR_OK);
    assert_int_equal(there, moved);
}

/* Nothing can be removed from the first store, in which dead is. */
static void write_no_removal(struct queue_store *s, struct queue_write *w)
{
    for (unsigned i = 0; i < w->parts[0].ops_count; i++) {
        if (w->parts[0].ops[i].kind == OP_BATCH_STATES && atomic_load(&silent)) {
            atomic_store(&entered, true);
            w->done(w, ERR_UNAVAILABLE);
            return;
        }
    }
    real->write(s, w);
}

static void *requeue(void *ctx)
{
    unsigned *moved = ctx;
    struct err_note note;
    assert_int_equal(queue_requeue(dead, to, 1000, moved, &note),
                     ERR_UNAVAILABLE); /* told when the removal failed */
    return NULL;
}

static void a_partition_is_not_closed_while_its_items_are_in_both_queues(void **state)
{
    static struct queue_store_ops ops;
    struct queue_store *s0 = rig.stores[0];
    struct queue_part_change c = { .order = PART_MOVE, .store = STR("s1") };
    struct err_note note = { "" };
    unsigned moved = 0;
    pthread_t thread;
    (void)state;
    requeue_between_stores();
    real = s0->ops;
    ops = *real;
    ops.write = write_no_removal;
    atomic_store(&entered, false);
    atomic_store(&silent, true);
    s0->ops = &ops;
    assert_int_equal(pthread_create(&thread, NULL, requeue, &moved), 0);
    const mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
    while (!atomic_load(&entered) && clock_mono(rig.clock).ns < deadline.ns)
        queue_rest();
    err ordered = queue_part_change(dead, &c, &note);
    err reloaded = queue_reload(dead, &note);
    (void)pthread_join(thread, NULL);
    (void)rig_produce(&rig, dead, "more", 1); /* it goes on working */
    atomic_store(&silent, false);
    while (rig_stats(dead, 0).ready != 1 && clock_mono(rig.clock).ns < deadline.ns)
        queues_upkeep_all(rig.queues);
    s0->ops = real;
    assert_int_equal(rig_stats(dead, 0).ready, 1);
    assert_int_equal(rig_stats(to, 0).ready, ITEMS);
    assert_int_equal(ordered, ERR_UNAVAILABLE);
    assert_int_equal(reloaded, ERR_UNAVAILABLE);
    assert_string_equal(
        note.text,
        "partition not available; items of partition '0' are on their way to another queue, "
        "try again");
    let_queues_go();
}

static void await_all_moved(void)
{
    const mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
    for (struct queue_part_stats from, at; clock_mono(rig.clock).ns < deadline.ns; queue_rest()) {
        queues_upkeep_all(rig.queues);
        from = rig_stats(dead, 0);
        at = rig_stats(to, 0);
        if (from.ready + from.leased == 0 && at.ready == ITEMS)
            break;
    }
    assert_int_equal(rig_stats(dead, 0).ready, 0);
    assert_int_equal(rig_stats(dead, 0).leased, 0);
    assert_int_equal(rig_stats(to, 0).ready, ITEMS);
}

static void a_requeue_that_is_cut_by_the_end_of_the_server_is_completed(void **state)
{
    static struct queue_store_ops ops;
    struct queue_store *s0 = rig.stores[0];
    struct err_note note = { "" };
    unsigned moved = 0;
    (void)state;
    requeue_between_stores();
    real = s0->ops;
    ops = *real;
    ops.write = write_no_removal;
    atomic_store(&entered, false);
    atomic_store(&silent, true);
    s0->ops = &ops;
    (void)requeue(&moved);
    assert_true(atomic_load(&entered));
    let_queues_go();
    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(queues_find(rig.queues, STR("dead"), &dead, &note), ERR_OK);
    assert_int_equal(queues_find(rig.queues, STR("to"), &to, &note), ERR_OK);
    struct ask *a = rig_lease_soon(&rig, dead, ITEMS); /* nobody gets them here any more */
    assert_int_equal(a->u.lease.items_count, 0);
    ask_free(a);
    await_all_moved();
    let_queues_go();
}

/* Once, the first write that puts a batch, or the first that removes one, has an unknown outcome;
 * told true: though it was done. */
static enum queue_op_kind lost_kind;
static atomic_bool lost, told;

static void lost_done(struct queue_write *w, err why)
{
    (void)w;
    assert_int_equal(why, ERR_OK);
    atomic_store(&told, true);
}

static void write_lost(struct queue_store *s, struct queue_write *w)
{
    bool is_it = false;
    for (unsigned i = 0; i < w->parts[0].ops_count; i++)
        is_it |= w->parts[0].ops[i].kind == lost_kind;
    if (!is_it || atomic_exchange(&lost, true)) {
        real->write(s, w);
        return;
    }
    if (atomic_load(&silent)) {
        struct queue_write copy = *w;
        copy.done = lost_done;
        atomic_store(&told, false);
        real->write(s, &copy);
        while (!atomic_load(&told))
            queue_rest();
    }
    w->done(w, ERR_IO);
}

static void lose_write(struct queue_store *s, enum queue_op_kind kind, bool is_done)
{
    static struct queue_store_ops ops;
    real = s->ops;
    ops = *real;
    ops.write = write_lost;
    lost_kind = kind;
    atomic_store(&lost, false);
    atomic_store(&silent, is_done);
    s->ops = &ops;
}

static void requeue_with_a_lost_write(unsigned store, enum queue_op_kind kind, bool is_done)
{
    struct err_note note = { "" };
    unsigned moved = 0;
    requeue_between_stores();
    lose_write(rig.stores[store], kind, is_done);
    err why = queue_requeue(dead, to, 1000, &moved, &note);
    assert_true(why == ERR_OK || why == ERR_UNAVAILABLE);
    assert_true(atomic_load(&lost));
    await_all_moved();
    rig.stores[store]->ops = real;
    let_queues_go();
}

static void an_insert_of_unknown_outcome_is_looked_for(void **state)
{
    (void)state;
    requeue_with_a_lost_write(1, OP_BATCH_PUT, true);
}

static void an_insert_of_unknown_outcome_that_was_not_done_is_done(void **state)
{
    (void)state;
    requeue_with_a_lost_write(1, OP_BATCH_PUT, false);
}

static void a_removal_of_unknown_outcome_is_looked_for(void **state)
{
    (void)state;
    requeue_with_a_lost_write(0, OP_BATCH_STATES, true);
}

static void a_removal_of_unknown_outcome_that_was_not_done_is_done(void **state)
{
    (void)state;
    requeue_with_a_lost_write(0, OP_BATCH_STATES, false);
}

static void refuse_batches(struct queue_store *s, struct queue_write *w)
{
    if (w->parts[0].ops_count > 0 && w->parts[0].ops[0].kind == OP_BATCH_PUT)
        w->done(w, ERR_UNAVAILABLE);
    else
        real->write(s, w);
}

static void items_that_the_target_refuses_are_given_back(void **state)
{
    struct err_note note = { "" };
    unsigned moved = 0;
    (void)state;
    requeue_between_stores();
    struct ask *a = rig_lease(&rig, dead, 2); /* two that were leased before */
    struct ksuid ids[] = { a->u.lease.items[0].id, a->u.lease.items[1].id };
    assert_int_equal(rig_change(&rig, dead, CHANGE_RETRY, 0, ids, 2, &note), ERR_OK);
    ask_free(a);
    bend(false);
    bent.leases = real->leases;
    bent.write = refuse_batches;
    assert_int_equal(queue_requeue(dead, to, 1000, &moved, &note), ERR_UNAVAILABLE);
    assert_int_equal(moved, 0);
    a = rig_lease(&rig, dead, 1000); /* waits until they are ready again */
    assert_int_equal(a->u.lease.items_count, ITEMS);
    for (unsigned i = 0; i < ITEMS; i++) {
        assert_int_equal(a->u.lease.items[i].attempts, i < 3 ? 1 : 2);
        assert_true(i == 0 || ksuid_cmp(a->u.lease.items[i - 1].id, a->u.lease.items[i].id) < 0);
    }
    ask_free(a);
    straighten();
    assert_int_equal(rig_stats(to, 0).ready, 0);
    let_queues_go();
}

static void items_on_their_way_to_a_queue_that_is_deleted_are_given_back(void **state)
{
    struct err_note note = { "" };
    unsigned moved = 0;
    (void)state;
    requeue_between_stores();
    lose_write(rig.stores[1], OP_BATCH_PUT, false);
    assert_int_equal(queue_requeue(dead, to, 1000, &moved, &note), ERR_UNAVAILABLE);
    assert_int_equal(queues_delete(rig.queues, STR("to"), true, &note), ERR_OK);
    const mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
    while (rig_stats(dead, 0).ready + rig_stats(to, 0).ready < ITEMS &&
           clock_mono(rig.clock).ns < deadline.ns)
        queues_upkeep_all(rig.queues);
    struct ask *a = rig_lease_soon(&rig, dead, ITEMS);
    assert_int_equal(a->u.lease.items_count + rig_stats(to, 0).ready, ITEMS); /* which came first */
    for (unsigned i = 0; i < a->u.lease.items_count; i++)
        assert_int_equal(a->u.lease.items[i].attempts, 1);
    ask_free(a);
    rig.stores[1]->ops = real;
    let_queues_go();
}

/* Insert and drop wait for each other, until LATE_MS are over. */
static atomic_bool dropping, inserted;

static void await(const atomic_bool *flag)
{
    const mono until = mono_add_ms(clock_mono(rig.clock), LATE_MS);
    while (!atomic_load(flag) && clock_mono(rig.clock).ns < until.ns)
        queue_rest();
}

static void *move_target(void *ctx)
{
    struct queue_part_change c = { .order = PART_MOVE, .store = STR("s0") };
    struct err_note note;
    (void)ctx;
    assert_int_equal(queue_part_change(to, &c, &note), ERR_OK);
    return NULL;
}

static void write_before_drop(struct queue_store *s, struct queue_write *w)
{
    if (w->parts[0].ops_count > 0 && w->parts[0].ops[0].kind == OP_BATCH_PUT &&
        !atomic_exchange(&entered, true)) {
        assert_int_equal(pthread_create(&closer, NULL, move_target, NULL), 0);
        await(&dropping);
    }
    real->write(s, w);
    atomic_store(&inserted, true);
}

static err drop_after_write(struct queue_store *s, struct queue_part p)
{
    atomic_store(&dropping, true);
    await(&inserted);
    return real->drop(s, p);
}

static void a_target_that_is_moved_meanwhile_loses_no_items(void **state)
{
    struct err_note note = { "" };
    unsigned moved = 0;
    (void)state;
    requeue_between_stores();
    bend(false);
    bent.leases = real->leases;
    bent.write = write_before_drop;
    bent.drop = drop_after_write;
    atomic_store(&dropping, false);
    atomic_store(&inserted, false);
    err why = queue_requeue(dead, to, 1000, &moved, &note);
    assert_true(atomic_load(&entered));
    (void)pthread_join(closer, NULL);
    straighten();
    queue_await_read(to, QUEUE_PARTS_ALL, mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS));
    assert_int_equal(rig_stats(dead, 0).ready + rig_stats(to, 0).ready, ITEMS);
    assert_int_equal(rig_stats(to, 0).ready, moved);
    assert_int_equal(why, ERR_OK);
    let_queues_go();
}

static atomic_bool over;

static void *look(void *ctx)
{
    struct err_note note;
    (void)ctx;
    for (unsigned n = 0; !atomic_load(&over); n++) {
        assert_true(rig_stats(dead, 0).moving <= LARGE_ITEMS);
        err why = n < RELOADS ? queue_reload(dead, &note) : ERR_OK; /* each stops the moves */
        assert_true(why == ERR_OK ||
                    why == ERR_UNAVAILABLE); /* while items are on their way it is refused */
    }
    return NULL;
}

/* For the thread sanitizer. */
static void moves_may_be_looked_at_while_they_go_on(void **state)
{
    static char body[1 << 20];
    struct err_note note = { "" };
    unsigned moved, all = 0;
    pthread_t thread;
    (void)state;
    requeue_between_stores();
    memset(body, 'x', sizeof body - 1);
    for (unsigned i = ITEMS; i < LARGE_ITEMS; i++)
        (void)rig_produce(&rig, dead, body, 1);
    atomic_store(&over, false);
    assert_int_equal(pthread_create(&thread, NULL, look, NULL), 0);
    for (const mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS); all < LARGE_ITEMS;
         all += moved) {
        err why = queue_requeue(dead, to, 1000, &moved, &note);
        assert_true(why == ERR_OK || why == ERR_UNAVAILABLE);
        assert_true(clock_mono(rig.clock).ns < deadline.ns);
    }
    atomic_store(&over, true);
    (void)pthread_join(thread, NULL);
    queue_await_read(dead, QUEUE_PARTS_ALL, mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS));
    assert_int_equal(rig_stats(dead, 0).ready, 0);
    assert_int_equal(rig_stats(to, 0).ready, LARGE_ITEMS);
    let_queues_go();
}

static void a_queue_that_was_deleted_is_told(void **state)
{
    struct err_note note = { "" };
    unsigned moved = 0;
    (void)state;
    make_queues();
    assert_int_equal(queues_delete(rig.queues, STR("dead"), true, &note), ERR_OK);
    assert_int_equal(queue_requeue(dead, to, 1000, &moved, &note), ERR_NOT_FOUND);
    assert_string_equal(note.text,
                        "queue does not exist; no such queue named 'dead'; 0 were moved");
    assert_int_equal(moved, 0);
    let_queues_go();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_partition_that_is_away_is_told_with_what_was_moved,
                                        rig_setup_two, rig_teardown),
        cmocka_unit_test_setup_teardown(as_many_as_are_wanted_need_no_partition_that_is_away,
                                        rig_setup_two, rig_teardown),
        cmocka_unit_test_setup_teardown(a_partition_that_is_being_read_is_waited_for, rig_setup_two,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(more_items_than_memory_holds_are_all_moved, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(
            items_are_never_in_both_queues_when_a_partition_is_closed_meanwhile, rig_setup_two,
            rig_teardown),
        cmocka_unit_test_setup_teardown(
            a_partition_is_not_closed_while_its_items_are_in_both_queues, rig_setup_two,
            rig_teardown),
        cmocka_unit_test_setup_teardown(a_requeue_that_is_cut_by_the_end_of_the_server_is_completed,
                                        rig_setup_two, rig_teardown),
        cmocka_unit_test_setup_teardown(an_insert_of_unknown_outcome_is_looked_for, rig_setup_two,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(an_insert_of_unknown_outcome_that_was_not_done_is_done,
                                        rig_setup_two, rig_teardown),
        cmocka_unit_test_setup_teardown(a_removal_of_unknown_outcome_is_looked_for, rig_setup_two,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(a_removal_of_unknown_outcome_that_was_not_done_is_done,
                                        rig_setup_two, rig_teardown),
        cmocka_unit_test_setup_teardown(items_that_the_target_refuses_are_given_back, rig_setup_two,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(
            items_on_their_way_to_a_queue_that_is_deleted_are_given_back, rig_setup_two,
            rig_teardown),
        cmocka_unit_test_setup_teardown(a_target_that_is_moved_meanwhile_loses_no_items,
                                        rig_setup_two, rig_teardown),
        cmocka_unit_test_setup_teardown(moves_may_be_looked_at_while_they_go_on, rig_setup_two,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(a_queue_that_was_deleted_is_told, rig_setup, rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
