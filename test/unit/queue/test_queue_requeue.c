/* Goal: an order to move all items of a dead queue moves all of them, or its answer says how many
 * were moved and why no more. Method: queues over local stores; one store whose leases cannot be
 * read, or are read late; more items than memory holds. */
#include "requeue_rig.h"

#include "queue/machine.h"

#include <stdatomic.h>
#include <string.h>

enum { ITEMS = REQUEUE_ITEMS, LARGE_ITEMS = 20, RELOADS = 5 };

static const struct queue_store_ops *_Atomic real;
static struct queue_store_ops bent;
static atomic_bool silent, entered, answered;

static err bent_scan(struct queue_store *s, const struct queue_scan *scan)
{
    const mono until = mono_add_ms(clock_mono(rig.clock), REQUEUE_LATE_MS);
    if (scan->kind != SCAN_LEASES)
        return real->scan(s, scan);
    if (atomic_load(&silent))
        return ERR_UNAVAILABLE;
    atomic_store(&entered, true);
    while (!atomic_load(&answered) && clock_mono(rig.clock).ns < until.ns)
        queue_rest();
    return real->scan(s, scan);
}

/* The last store, in which dead has its last partition. */
static void bend(bool is_silent)
{
    const unsigned last = rig.stores_count - 1;
    atomic_store(&silent, is_silent);
    atomic_store(&entered, false);
    atomic_store(&answered, false);
    real = rig.stores[last]->ops;
    bent = *real;
    bent.scan = bent_scan;
    rig_ops(&rig, last, &bent);
}

static void straighten(void)
{
    rig_ops(&rig, rig.stores_count - 1, real);
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

static void a_partition_that_is_away_is_told_with_what_was_moved(void **state)
{
    struct err_note note = { "" };
    unsigned moved = 0;
    (void)state;
    make_queues();
    bend(true);
    queue_reload(dead);
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
    queue_reload(dead);
    assert_int_equal(queue_requeue(dead, to, ITEMS, &moved, &note), ERR_OK);
    assert_int_equal(moved, ITEMS);
    straighten();
    let_queues_go();
}

static void *reload(void *ctx)
{
    (void)ctx;
    queue_reload(dead);
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

static pthread_t closer;

/* The insert into the target waits until the source is closed. */
static void late_write(struct queue_store *s, struct queue_write *w)
{
    if (w->parts[0].ops_count > 0 && w->parts[0].ops[0].kind == OP_BATCH_PUT &&
        !atomic_exchange(&entered, true)) {
        const mono until = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
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

static void items_go_on_when_a_partition_is_closed_meanwhile(void **state)
{
    struct err_note note = { "" };
    unsigned moved = 0;
    (void)state;
    requeue_between_stores();
    bend(false);
    bent.scan = real->scan;
    bent.write = late_write;
    rig_ops(&rig, 1, &bent);
    assert_int_equal(queue_requeue(dead, to, 1000, &moved, &note), ERR_UNAVAILABLE);
    assert_string_equal(note.text,
                        "items are still being moved; 0 were moved, 5 are on their way, try again");
    assert_true(atomic_load(&entered));
    (void)pthread_join(closer, NULL);
    straighten();
    await_moved(ITEMS, 0);
    let_queues_go();
}

/* Insert and drop wait for each other, until REQUEUE_LATE_MS are over. */
static atomic_bool dropping, inserted;

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
        await_late(&dropping);
    }
    real->write(s, w);
    atomic_store(&inserted, true);
}

static err drop_after_write(struct queue_store *s, struct queue_part p, struct queue_later *later)
{
    atomic_store(&dropping, true);
    await_late(&inserted);
    return real->drop(s, p, later);
}

static void a_target_that_is_moved_meanwhile_loses_no_items(void **state)
{
    struct err_note note = { "" };
    unsigned moved = 0;
    (void)state;
    requeue_between_stores();
    bend(false);
    bent.scan = real->scan;
    bent.write = write_before_drop;
    bent.drop = drop_after_write;
    rig_ops(&rig, 1, &bent);
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
    (void)ctx;
    for (unsigned n = 0; !atomic_load(&over); n++) {
        assert_true(rig_stats(dead, 0).moving <= LARGE_ITEMS);
        if (n < RELOADS)
            queue_reload(dead); /* each stops the moves */
    }
    return NULL;
}

/* For the thread sanitizer. */
static void moves_may_be_looked_at_while_they_go_on(void **state)
{
    static char body[1 << 20];
    struct err_note note = { "" };
    unsigned moved;
    pthread_t thread;
    (void)state;
    requeue_between_stores();
    memset(body, 'x', sizeof body - 1);
    for (unsigned i = ITEMS; i < LARGE_ITEMS; i++)
        (void)rig_produce(&rig, dead, body, 1);
    atomic_store(&over, false);
    assert_int_equal(pthread_create(&thread, NULL, look, NULL), 0);
    const mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
    while (rig_stats(to, 0).ready < LARGE_ITEMS) {
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
        cmocka_unit_test_setup_teardown(items_go_on_when_a_partition_is_closed_meanwhile,
                                        rig_setup_two, rig_teardown),
        cmocka_unit_test_setup_teardown(a_target_that_is_moved_meanwhile_loses_no_items,
                                        rig_setup_two, rig_teardown),
        cmocka_unit_test_setup_teardown(moves_may_be_looked_at_while_they_go_on, rig_setup_two,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(a_queue_that_was_deleted_is_told, rig_setup, rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
