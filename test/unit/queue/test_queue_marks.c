/* Goal: no number that a client chose makes its item one that was ordered to another queue. Method:
 * items are imported with as many attempts as an earlier release took, leased with a token that
 * ends with the number of somebody else's queue, and die; in memory, and read again after a
 * restart. */
#include "rig.h"

#include "queue/admin.h"
#include "queue/machine.h"

#include <string.h>

#define BIT_30 (UINT32_C(1) << 30)
#define BIT_31 (UINT32_C(1) << 31)

static struct queue *stranger, *q;

/* The first token of q ends with the number of stranger. */
static void make_queues(void)
{
    stranger = rig_create(&rig, (struct queue_info){ .name = STR("stranger"), .space = STR("b") });
    q = rig_create(&rig,
                   (struct queue_info){ .name = STR("q"), .space = STR("a"), .max_attempts = 1 });
    assert_int_equal(stranger->number, 1);
}

static void let_queues_go(void)
{
    queue_unref(&stranger);
    queue_unref(&q);
}

static void reopen(void)
{
    struct err_note note;
    let_queues_go();
    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(queues_find(rig.queues, STR("q"), &q, &note), ERR_OK);
    assert_int_equal(queues_find(rig.queues, STR("stranger"), &stranger, &note), ERR_OK);
    queue_await_read(q, QUEUE_PARTS_ALL, mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS));
}

static void import(uint32_t attempts)
{
    const struct queue_item item = { .bytes = STR("x"), .attempts = attempts };
    struct queue_import one = { .items = &item, .count = 1 };
    struct err_note note = { "" };
    struct arena a;
    arena_init(&a, 1 << 20);
    if (queue_items_import(q, &one, &a, &note) != ERR_OK)
        fail_msg("import: %s", note.text);
    arena_fini(&a);
}

static uint32_t shown_attempts(void)
{
    struct queue_items_page page = { .partition = 0 };
    struct err_note note;
    struct arena a;
    arena_init(&a, 1 << 20);
    assert_int_equal(queue_items_list(q, &page, &a, &note), ERR_OK);
    assert_int_equal(page.count, 1);
    const uint32_t attempts = page.found[0].attempts;
    arena_fini(&a);
    return attempts;
}

/* Leased with the token, and never given back. */
static void die(bool reopens)
{
    struct ask *a = rig_lease_token(&rig, q, 1);
    assert_int_equal((uint32_t)a->u.lease.items[0].token, stranger->number);
    ask_free(a);
    if (reopens)
        reopen();
    rig_advance(&rig, 61 * NS_PER_S);
    const mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
    while (rig_stats(q, 0).leased > 0 && clock_mono(rig.clock).ns < deadline.ns)
        queues_upkeep_all(rig.queues);
    assert_int_equal(rig_stats(q, 0).leased + rig_stats(q, 0).ready, 0);
    assert_int_equal(rig_stats(stranger, 0).ready, 0);
}

static const uint32_t counts[] = { BIT_30 / 2, BIT_30 - 2, BIT_30 - 1, BIT_30,
                                   BIT_30 + 1, BIT_31 - 1, BIT_31,     UINT32_MAX };

static void many_attempts_order_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        rig_setup(state);
        make_queues();
        import(counts[i]);
        die(false);
        let_queues_go();
        rig_fini(&rig);
    }
}

static void many_attempts_that_are_read_again_order_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        rig_setup(state);
        make_queues();
        import(counts[i]);
        reopen();
        die(true);
        let_queues_go();
        rig_fini(&rig);
    }
}

static void more_attempts_than_are_counted_count_as_the_most(void **state)
{
    (void)state;
    make_queues();
    import(BIT_30);
    assert_int_equal(shown_attempts(), QUEUE_ITEM_ATTEMPTS_MAX);
    reopen();
    assert_int_equal(shown_attempts(), QUEUE_ITEM_ATTEMPTS_MAX);
    let_queues_go();
}

static const struct queue_store_ops *_Atomic real;

/* As an earlier release put the lease of an item that died: with a mark over all its attempts. */
static void write_dead(struct queue_store *s, struct queue_write *w)
{
    struct queue_op *ops = (struct queue_op *)(uintptr_t)w->parts[0].ops;
    for (unsigned i = 0; i < w->parts[0].ops_count; i++)
        if (ops[i].kind == OP_LEASE_PUT)
            ops[i].u.lease.attempts = BIT_31 | (BIT_30 + 1);
    real->write(s, w);
}

static void a_dead_item_of_an_earlier_release_goes_to_its_own_dead_queue(void **state)
{
    static struct queue_store_ops ops;
    (void)state;
    make_queues();
    struct queue *dead =
        rig_create(&rig, (struct queue_info){ .name = STR("dead"), .space = STR("a") });
    const struct queue_info info = { .name = STR("q"), .dead_queue = STR("dead") };
    struct err_note note;
    assert_int_equal(queues_update(rig.queues, &info, &note), ERR_OK);
    import(0);
    real = rig.stores[0]->ops;
    ops = *real;
    ops.write = write_dead;
    rig_ops(&rig, 0, &ops);
    struct ask *a = rig_lease_token(&rig, q, 1);
    assert_int_equal((uint32_t)a->u.lease.items[0].token, stranger->number);
    ask_free(a);
    rig_ops(&rig, 0, real);
    queue_unref(&dead);
    reopen();
    assert_int_equal(queues_find(rig.queues, STR("dead"), &dead, &note), ERR_OK);
    const mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
    while (rig_stats(dead, 0).ready == 0 && clock_mono(rig.clock).ns < deadline.ns)
        queues_upkeep_all(rig.queues);
    assert_int_equal(rig_stats(dead, 0).ready, 1);
    assert_int_equal(rig_stats(q, 0).leased, 0);
    assert_int_equal(rig_stats(stranger, 0).ready, 0);
    queue_unref(&dead);
    let_queues_go();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_attempts_order_nothing),
        cmocka_unit_test(many_attempts_that_are_read_again_order_nothing),
        cmocka_unit_test_setup_teardown(more_attempts_than_are_counted_count_as_the_most, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(
            a_dead_item_of_an_earlier_release_goes_to_its_own_dead_queue, rig_setup, rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
