/* Goal: an order to move items of a dead queue that is cut between its two writes in two stores
 * goes on or is taken back, and its answer says which; no item is in both queues or in none.
 * Method: writes of a store that are refused, that have an unknown outcome, or that wait for the
 * answer; a process that ends in between. */
#include "requeue_rig.h"

#include "queue/machine.h"

#include <string.h>

#define REFUSED "queue 'to' does not take the items; 0 were moved, try again"
#define ON_THEIR_WAY "items are still being moved; 0 were moved, 5 are on their way, try again"

static atomic_bool refuses, refused, answered;

static void expect_requeue(unsigned count, err why, const char *said)
{
    struct err_note note = { "" };
    unsigned moved = 0;
    assert_int_equal(queue_requeue(dead, to, count, &moved, &note), why);
    assert_string_equal(note.text, said);
    assert_int_equal(moved, 0);
}

/* ---- the removal ---- */

static void refuse_removals(struct queue_store *s, struct queue_write *w)
{
    if (!write_has(w, OP_BATCH_STATES) || !atomic_load(&refuses)) {
        real_write(s, w);
        return;
    }
    atomic_store(&refused, true);
    w->done(w, ERR_UNAVAILABLE);
}

static void begin_to_refuse(unsigned store, write_fn *write)
{
    atomic_store(&refuses, true);
    atomic_store(&refused, false);
    bend_writes(store, write);
}

static void a_requeue_that_is_cut_by_the_end_of_the_server_is_completed(void **state)
{
    (void)state;
    requeue_between_stores();
    begin_to_refuse(0, refuse_removals);
    expect_requeue(1000, ERR_UNAVAILABLE, ON_THEIR_WAY);
    assert_true(atomic_load(&refused));
    requeue_reopen();
    struct ask *a = rig_lease_soon(&rig, dead, REQUEUE_ITEMS); /* nobody gets them here any more */
    assert_int_equal(a->u.lease.items_count, 0);
    ask_free(a);
    await_moved(REQUEUE_ITEMS, 0);
    let_queues_go();
}

/* As many as were wanted are on their way: asking again would move others as well. */
static void items_on_their_way_are_told_beside_those_that_were_moved(void **state)
{
    (void)state;
    requeue_between_stores();
    (void)rig_produce(&rig, dead, "more", 2);
    begin_to_refuse(0, refuse_removals);
    expect_requeue(REQUEUE_ITEMS, ERR_UNAVAILABLE,
                   "items are still being moved; 0 were moved, 5 are on their way");
    assert_int_equal(rig_stats(dead, 0).ready, 2);
    atomic_store(&refuses, false);
    await_moved(REQUEUE_ITEMS, 2);
    straighten_writes();
    let_queues_go();
}

/* The bodies are too many for one round. Whoever ordered the move was told that it failed. */
static void items_of_later_rounds_are_not_moved_unseen(void **state)
{
    enum { LARGE = 2 << 20, MORE = 4 };
    static char body[LARGE];
    struct err_note note = { "" };
    unsigned moved = 0, open = 0;
    (void)state;
    requeue_between_stores();
    memset(body, 'x', sizeof body - 1);
    for (unsigned i = 0; i < MORE; i++)
        (void)rig_produce(&rig, dead, body, 1);
    begin_to_refuse(0, refuse_removals);
    assert_int_equal(queue_requeue(dead, to, 1000, &moved, &note), ERR_UNAVAILABLE);
    const str said = str_of(note.text);
    const str before = STR("0 were moved, ");
    str rest = str_skip(said, str_find_str(said, before) + before.n);
    uint64_t n = 0;
    assert_true(str_to_u64(str_split(&rest, ' '), &n));
    open = (unsigned)n;
    assert_true(open > 0 && open < REQUEUE_ITEMS + MORE);
    atomic_store(&refuses, false);
    await_moved(open, REQUEUE_ITEMS + MORE - open);
    straighten_writes();
    let_queues_go();
}

static void a_requeue_that_is_cut_by_a_closed_partition_is_completed(void **state)
{
    struct queue_part_change c = { .order = PART_MOVE, .store = STR("s1") };
    struct err_note note = { "" };
    err why;
    (void)state;
    requeue_between_stores();
    begin_to_refuse(0, refuse_removals);
    expect_requeue(1000, ERR_UNAVAILABLE, ON_THEIR_WAY);
    queue_reload(dead);
    assert_int_equal(rig_stats(dead, 0).ready, 0);
    assert_int_equal(rig_stats(to, 0).ready, REQUEUE_ITEMS);
    const mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
    while ((why = queue_part_change(dead, &c, &note)) == ERR_UNAVAILABLE &&
           clock_mono(rig.clock).ns < deadline.ns) /* its store refused a write just now */
        queue_rest();
    assert_int_equal(why, ERR_OK); /* in the other store they can be removed */
    await_moved(REQUEUE_ITEMS, 0);
    straighten_writes();
    let_queues_go();
}

/* ---- unknown outcomes ---- */

static void requeue_with_a_lost_write(unsigned store, enum queue_op_kind kind, bool is_done)
{
    requeue_between_stores();
    lose_write(store, kind, is_done);
    expect_requeue(1000, ERR_UNAVAILABLE, ON_THEIR_WAY);
    assert_true(atomic_load(&write_lost));
    await_moved(REQUEUE_ITEMS, 0);
    straighten_writes();
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

static void a_mark_of_unknown_outcome_is_looked_for(void **state)
{
    (void)state;
    requeue_with_a_lost_write(0, OP_LEASE_PUT, true);
}

/* Then nothing is on its way any more, which nobody knew. */
static void an_unknown_outcome_that_was_not_done_leaves_the_items(enum queue_op_kind kind)
{
    lose_write(0, kind, false);
    expect_requeue(1000, ERR_UNAVAILABLE, ON_THEIR_WAY);
    struct ask *a = rig_lease(&rig, dead, 1000);
    assert_int_equal(a->u.lease.items_count, REQUEUE_ITEMS);
    assert_int_equal(rig_stats(to, 0).ready, 0);
    ask_free(a);
    straighten_writes();
    let_queues_go();
}

static void a_mark_of_unknown_outcome_that_was_not_done_leaves_the_items(void **state)
{
    (void)state;
    requeue_between_stores();
    an_unknown_outcome_that_was_not_done_leaves_the_items(OP_LEASE_PUT);
}

static void a_move_within_a_store_of_unknown_outcome_is_told(void **state)
{
    (void)state;
    dead = rig_queue(&rig, "dead", 1);
    to = rig_queue(&rig, "to", 1);
    (void)rig_produce(&rig, dead, "x", REQUEUE_ITEMS);
    lose_write(0, OP_BATCH_STATES, true);
    expect_requeue(1000, ERR_UNAVAILABLE, ON_THEIR_WAY);
    await_moved(REQUEUE_ITEMS, 0);
    straighten_writes();
    let_queues_go();
}

static void a_move_within_a_store_that_was_not_done_leaves_the_items(void **state)
{
    (void)state;
    dead = rig_queue(&rig, "dead", 1);
    to = rig_queue(&rig, "to", 1);
    (void)rig_produce(&rig, dead, "x", REQUEUE_ITEMS);
    an_unknown_outcome_that_was_not_done_leaves_the_items(OP_BATCH_STATES);
}

/* ---- a target that takes nothing ---- */

static void refuse_batches(struct queue_store *s, struct queue_write *w)
{
    if (write_has(w, OP_BATCH_PUT))
        w->done(w, ERR_UNAVAILABLE);
    else
        real_write(s, w);
}

static void items_that_the_target_refuses_are_given_back(void **state)
{
    struct err_note note = { "" };
    (void)state;
    requeue_between_stores();
    struct ask *a = rig_lease(&rig, dead, 2); /* two that were leased before */
    struct ksuid ids[] = { a->u.lease.items[0].id, a->u.lease.items[1].id };
    assert_int_equal(rig_change(&rig, dead, CHANGE_RETRY, 0, ids, 2, &note), ERR_OK);
    ask_free(a);
    bend_writes(1, refuse_batches);
    expect_requeue(1000, ERR_UNAVAILABLE, REFUSED);
    assert_int_equal(rig_stats(dead, 0).ready, REQUEUE_ITEMS); /* they are ready by then */
    a = rig_lease(&rig, dead, 1000);
    assert_int_equal(a->u.lease.items_count, REQUEUE_ITEMS);
    for (unsigned i = 0; i < REQUEUE_ITEMS; i++) {
        assert_int_equal(a->u.lease.items[i].attempts, i < 3 ? 1 : 2);
        assert_true(i == 0 || ksuid_cmp(a->u.lease.items[i - 1].id, a->u.lease.items[i].id) < 0);
    }
    ask_free(a);
    straighten_writes();
    assert_int_equal(rig_stats(to, 0).ready, 0);
    let_queues_go();
}

/* The release of what was marked comes late. */
static void release_late(struct queue_store *s, struct queue_write *w)
{
    if (write_has(w, OP_LEASE_DELETE)) {
        await_late(&answered);
        assert_false(atomic_load(&answered));
        atomic_store(&refused, true);
    }
    real_write(s, w);
}

static void a_refusal_is_told_when_the_items_are_back_on_disk(void **state)
{
    (void)state;
    requeue_between_stores();
    bend_writes(1, refuse_batches);
    atomic_store(&answered, false);
    begin_to_refuse(0, release_late);
    expect_requeue(1000, ERR_UNAVAILABLE, REFUSED);
    atomic_store(&answered, true);
    assert_true(atomic_load(&refused));
    straighten_writes();
    let_queues_go();
}

static void refuse_releases(struct queue_store *s, struct queue_write *w)
{
    if (!write_has(w, OP_LEASE_DELETE) || !atomic_load(&refuses)) {
        real_write(s, w);
        return;
    }
    atomic_store(&refused, true);
    w->done(w, ERR_UNAVAILABLE);
}

static void items_whose_release_is_not_written_are_told_to_be_on_their_way(void **state)
{
    (void)state;
    requeue_between_stores();
    bend_writes(1, refuse_batches);
    begin_to_refuse(0, refuse_releases);
    expect_requeue(1000, ERR_UNAVAILABLE, ON_THEIR_WAY);
    assert_true(atomic_load(&refused));
    atomic_store(&refuses, false);
    struct ask *a = rig_lease(&rig, dead, 1000); /* given back as soon as it can be written */
    assert_int_equal(a->u.lease.items_count, REQUEUE_ITEMS);
    assert_int_equal(a->u.lease.items[0].attempts, 1);
    ask_free(a);
    assert_int_equal(rig_stats(to, 0).ready, 0);
    straighten_writes();
    let_queues_go();
}

static void a_release_of_unknown_outcome_leaves_each_item_in_one_queue(void **state)
{
    (void)state;
    requeue_between_stores();
    bend_writes(1, refuse_batches);
    lose_write(0, OP_LEASE_DELETE, false);
    expect_requeue(1000, ERR_UNAVAILABLE, ON_THEIR_WAY);
    straighten_writes(); /* the target takes them from now on, and the marks still are there */
    await_moved(REQUEUE_ITEMS, 0);
    let_queues_go();
}

static void items_on_their_way_to_a_queue_that_is_deleted_are_given_back(void **state)
{
    struct err_note note = { "" };
    (void)state;
    requeue_between_stores();
    lose_write(1, OP_BATCH_PUT, false);
    expect_requeue(1000, ERR_UNAVAILABLE, ON_THEIR_WAY);
    assert_int_equal(queues_delete(rig.queues, STR("to"), true, &note), ERR_OK);
    const mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
    while (rig_stats(dead, 0).ready + rig_stats(to, 0).ready < REQUEUE_ITEMS &&
           clock_mono(rig.clock).ns < deadline.ns)
        queues_upkeep_all(rig.queues);
    struct ask *a = rig_lease_soon(&rig, dead, REQUEUE_ITEMS);
    assert_int_equal(a->u.lease.items_count + rig_stats(to, 0).ready,
                     REQUEUE_ITEMS); /* which came first */
    for (unsigned i = 0; i < a->u.lease.items_count; i++)
        assert_int_equal(a->u.lease.items[i].attempts, 1);
    ask_free(a);
    straighten_writes();
    let_queues_go();
}

#define ONE_STORE(name) cmocka_unit_test_setup_teardown(name, requeue_setup, rig_teardown)
#define TWO_STORES(name) cmocka_unit_test_setup_teardown(name, requeue_setup_two, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TWO_STORES(a_requeue_that_is_cut_by_the_end_of_the_server_is_completed),
        TWO_STORES(a_requeue_that_is_cut_by_a_closed_partition_is_completed),
        TWO_STORES(items_on_their_way_are_told_beside_those_that_were_moved),
        TWO_STORES(items_of_later_rounds_are_not_moved_unseen),
        TWO_STORES(an_insert_of_unknown_outcome_is_looked_for),
        TWO_STORES(an_insert_of_unknown_outcome_that_was_not_done_is_done),
        TWO_STORES(a_removal_of_unknown_outcome_is_looked_for),
        TWO_STORES(a_removal_of_unknown_outcome_that_was_not_done_is_done),
        TWO_STORES(a_mark_of_unknown_outcome_is_looked_for),
        TWO_STORES(a_mark_of_unknown_outcome_that_was_not_done_leaves_the_items),
        ONE_STORE(a_move_within_a_store_of_unknown_outcome_is_told),
        ONE_STORE(a_move_within_a_store_that_was_not_done_leaves_the_items),
        TWO_STORES(items_that_the_target_refuses_are_given_back),
        TWO_STORES(a_refusal_is_told_when_the_items_are_back_on_disk),
        TWO_STORES(items_whose_release_is_not_written_are_told_to_be_on_their_way),
        TWO_STORES(a_release_of_unknown_outcome_leaves_each_item_in_one_queue),
        TWO_STORES(items_on_their_way_to_a_queue_that_is_deleted_are_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
