/* Goal: an item whose body cannot be had is told, counted and out of the way; all others are given,
 * and their counts are those of the rows.
 * Method: queues over local stores, whose answers of bodies and batches are bent between opening
 * and looking. */
#include "queue/admin.h"
#include "rig.h"

#include <stdatomic.h>
#include <string.h>

enum { ITEMS = 5, BAD = 2 };

/* What the store says of one item of the first batch it is asked for, or of a whole batch. */
static struct {
    struct queue_store_ops ops;
    const struct queue_store_ops *_Atomic real;
    _Atomic err body, batch; /* its threads read them while a test changes them */
} bend;

static err bent_bodies(struct queue_store *s, struct queue_part p, struct queue_bodies *b)
{
    const err body = bend.body;
    unsigned count = b->count;
    if (b->now)
        return ERR_AGAIN;
    for (b->count = 0; b->count < count && b->at[b->count].index != BAD;)
        b->count++;
    bool bad = body != ERR_OK && b->count < count;
    b->count = bad ? b->count : count;
    err why = b->count == 0 ? ERR_OK : bend.real->bodies(s, p, b);
    b->read = b->count == 0 ? 0 : b->read;
    bool all = b->read == b->count;
    b->count = count;
    return why == ERR_OK && bad && all ? body : why;
}

static err bent_batch(struct queue_store *s, struct queue_part p,
                      const struct queue_batch_look *look)
{
    const err batch = bend.batch;
    return batch != ERR_OK ? batch : bend.real->batch(s, p, look);
}

static void store_bend(err body, err batch)
{
    bend.body = body;
    bend.batch = batch;
    bend.real = rig.stores[0]->ops;
    bend.ops = *bend.real;
    bend.ops.bodies = bent_bodies;
    bend.ops.batch = bent_batch;
    rig_ops(&rig, 0, &bend.ops);
}

static void store_straighten(void)
{
    rig_ops(&rig, 0, bend.real);
}

/* Its items are in the store alone. */
static struct queue *cold_queue(const char *name)
{
    struct err_note note;
    struct queue *q = rig_queue(&rig, name, 1);
    (void)rig_produce(&rig, q, "x", ITEMS);
    queue_unref(&q);
    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(queues_find(rig.queues, str_of(name), &q, &note), ERR_OK);
    return q;
}

static unsigned listed(struct queue *q)
{
    struct arena a;
    struct queue_items_page page = { .limit = 100 };
    struct err_note note = { "" };
    arena_init(&a, 1 << 20);
    if (queue_items_list(q, &page, &a, &note) != ERR_OK)
        fail_msg("list: %s", note.text);
    arena_fini(&a);
    return page.count;
}

static void an_item_that_cannot_be_read_is_passed(err body)
{
    struct queue *q = cold_queue(body == ERR_CORRUPT ? "corrupt" : "missing");
    struct err_note note = { "" };
    store_bend(body, ERR_OK);
    unsigned got = 0;
    while (got < ITEMS - 1) {
        struct ask *a = rig_lease(&rig, q, ITEMS);
        for (unsigned i = 0; i < a->u.lease.items_count; i++)
            assert_false(rig_body_is(&a->u.lease.items[i], "x2"));
        got += a->u.lease.items_count;
        ask_free(a);
    }
    struct ask *none = rig_lease_soon(&rig, q, ITEMS);
    assert_int_equal(none->u.lease.items_count, 0);
    struct queue_part_stats s = rig_stats(q, 0);
    assert_int_equal(s.damaged, 1);
    assert_int_equal(s.leased, ITEMS - 1);
    assert_int_equal(s.ready, 1); /* it is there, for who can mend it */
    assert_string_equal(s.state, "available");
    assert_int_equal(listed(q), ITEMS - 1);
    store_straighten();
    assert_int_equal(listed(q), ITEMS);
    assert_int_equal(queue_clear(q,
                                 &(struct queue_clear_order){
                                     .ready = true, .scheduled = false, .destructive = false },
                                 &note),
                     ERR_OK);
    assert_int_equal(rig_stats(q, 0).ready, 0);
    ask_free(none);
    queue_unref(&q);
}

static void one_whose_bytes_are_damaged_is_passed(void **state)
{
    (void)state;
    an_item_that_cannot_be_read_is_passed(ERR_CORRUPT);
}

static void one_whose_batch_went_is_passed(void **state)
{
    (void)state;
    an_item_that_cannot_be_read_is_passed(ERR_NOT_FOUND);
}

static void a_damaged_item_ends_when_it_expires(void **state)
{
    (void)state;
    struct queue *q = cold_queue("short");
    store_bend(ERR_CORRUPT, ERR_OK);
    struct ask *a = rig_lease(&rig, q, ITEMS), *b = rig_lease(&rig, q, ITEMS);
    assert_int_equal(rig_stats(q, 0).damaged, 1);
    rig_advance(&rig, 25 * 3600 * NS_PER_S);
    store_straighten();
    assert_int_equal(rig_stats(q, 0).ready + rig_stats(q, 0).leased, 0);
    ask_free(a), ask_free(b);
    queue_unref(&q);
}

/* Nothing of them is left: leases of items whose batches are gone go, and the counts with them. */
static void rows_that_point_at_nothing_go(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "torn", 1);
    (void)rig_produce(&rig, q, "x", ITEMS);
    struct ask *a = rig_lease(&rig, q, ITEMS);
    assert_int_equal(rig_stats(q, 0).leased, ITEMS);
    store_bend(ERR_OK, ERR_NOT_FOUND);
    queue_reload(q);
    queue_await_read(q, 0, mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS));
    mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
    while (rig_stats(q, 0).leased > 0)
        assert_true(clock_mono(rig.clock).ns < deadline.ns);
    struct queue_part_stats s = rig_stats(q, 0);
    store_straighten();
    assert_int_equal(s.damaged, ITEMS);
    assert_int_equal(s.average_leased_age_ns, 0);
    (void)rig_produce(&rig, q, "y", 1);
    struct ask *b = rig_lease(&rig, q, ITEMS);
    assert_int_equal(b->u.lease.items_count, 1);
    ask_free(a), ask_free(b);
    queue_unref(&q);
}

/* Those that die with it reach the dead queue. */
static void one_that_dies_unreadable_holds_no_other_up(void **state)
{
    (void)state;
    struct queue *dead = rig_queue(&rig, "dead", 1);
    struct queue *q =
        rig_create(&rig, (struct queue_info){
                             .name = STR("dying"), .dead_queue = STR("dead"), .max_attempts = 1 });
    (void)rig_produce(&rig, q, "x", ITEMS);
    struct ask *a = rig_lease(&rig, q, ITEMS);
    store_bend(ERR_CORRUPT, ERR_OK);
    rig_advance(&rig, 61 * NS_PER_S);
    mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
    while (rig_stats(dead, 0).ready < ITEMS - 1 || rig_stats(q, 0).leased > 0)
        assert_true(clock_mono(rig.clock).ns < deadline.ns);
    store_straighten();
    assert_int_equal(rig_stats(q, 0).damaged, 1);
    assert_int_equal(rig_stats(dead, 0).ready, ITEMS - 1);
    ask_free(a);
    queue_unref(&q);
    queue_unref(&dead);
}

static atomic_uint writes;

static err no_bodies(struct queue_store *s, struct queue_part p, struct queue_bodies *b)
{
    (void)s, (void)p;
    b->read = 0;
    return ERR_CORRUPT;
}

static void write_counted(struct queue_store *s, struct queue_write *w)
{
    atomic_fetch_add(&writes, 1);
    bend.real->write(s, w);
}

static void many_that_die_unreadable_go_by_one_write(void **state)
{
    enum { MANY = 40 };
    (void)state;
    struct queue *dead = rig_queue(&rig, "dead", 1);
    struct queue *q =
        rig_create(&rig, (struct queue_info){
                             .name = STR("dying"), .dead_queue = STR("dead"), .max_attempts = 1 });
    (void)rig_produce(&rig, q, "x", MANY);
    struct ask *a = rig_lease(&rig, q, MANY);
    assert_int_equal(rig_stats(q, 0).leased, MANY);
    store_bend(ERR_CORRUPT, ERR_OK);
    bend.ops.bodies = no_bodies;
    bend.ops.write = write_counted;
    rig_ops(&rig, 0, &bend.ops);
    atomic_store(&writes, 0);
    rig_advance(&rig, 61 * NS_PER_S);
    mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
    while (rig_stats(q, 0).leased > 0)
        assert_true(clock_mono(rig.clock).ns < deadline.ns);
    store_straighten();
    assert_int_equal(atomic_load(&writes), 1);
    assert_int_equal(rig_stats(q, 0).damaged, MANY);
    assert_int_equal(rig_stats(dead, 0).ready, 0);
    ask_free(a);
    queue_unref(&q);
    queue_unref(&dead);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_whose_bytes_are_damaged_is_passed, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(one_whose_batch_went_is_passed, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(a_damaged_item_ends_when_it_expires, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(one_that_dies_unreadable_holds_no_other_up, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(many_that_die_unreadable_go_by_one_write, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(rows_that_point_at_nothing_go, rig_setup, rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
