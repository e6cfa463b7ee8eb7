/* Goal: items of one order key end in every way, alone and several in one write, and neither the
 * server nor the key is stuck after it. Method: as test_queue_more.c; after each end the key has to
 * give its next item, and only that. */
#include "rig.h"

#include "queue/admin.h"
#include "queue/machine.h"

#include <time.h>

#define HOUR_NS (3600 * NS_PER_S) /* so that the time the test itself takes does not matter */
#define LEASE_NS (20 * HOUR_NS)
#define EXPIRE_NS (40 * HOUR_NS)

static struct queue *make(const char *name, const char *dead)
{
    return rig_create(&rig, (struct queue_info){ .name = str_of(name),
                                                 .lease_timeout_ns = LEASE_NS,
                                                 .expire_timeout_ns = EXPIRE_NS,
                                                 .dead_queue = str_of(dead),
                                                 .partitions = 1 });
}

static struct queue *make_dead(void)
{
    return rig_create(&rig, (struct queue_info){ .name = STR("dead"),
                                                 .expire_timeout_ns = 100 * EXPIRE_NS });
}

static void produce(struct queue *q, const char *body, unsigned count, const char *order)
{
    struct ask *a = ask_new();
    for (unsigned i = 0; i < count; i++)
        a->items[i] = (struct queue_item_new){ .bytes = arena_printf(&a->arena, "%s%u", body, i) };
    a->u.produce.order_key = str_of(order);
    ask_produce(&rig, q, a, count);
    assert_int_equal(ask_wait(a), ERR_OK);
    ask_free(a);
}

/* The next lease is of this item alone; it stays leased. */
static struct ksuid takes(struct queue *q, const char *body)
{
    struct ask *a = rig_lease(&rig, q, 10);
    assert_int_equal(a->u.lease.items_count, 1);
    assert_true(rig_body_is(&a->u.lease.items[0], body));
    struct ksuid id = a->u.lease.items[0].id;
    ask_free(a);
    return id;
}

static void change(struct queue *q, enum queue_change_kind kind, struct ksuid id)
{
    assert_int_equal(rig_change(&rig, q, kind, 0, &id, 1, NULL), ERR_OK);
}

/* The key gives what is produced now, one after the other. */
static void goes_on(struct queue *q, const char *order)
{
    assert_int_equal(rig_stats(q, 0).ready + rig_stats(q, 0).leased, 0);
    produce(q, "n", 2, order);
    change(q, CHANGE_COMPLETE, takes(q, "n0"));
    change(q, CHANGE_COMPLETE, takes(q, "n1"));
    assert_int_equal(rig_stats(q, 0).ready + rig_stats(q, 0).leased, 0);
}

/* What died is counted where it came from first, in the dead queue a moment later. */
static void holds(struct queue *dead, uint64_t count)
{
    WAIT_UNTIL(rig_stats(dead, 0).ready == count);
}

/* Ids of the items from the first not leased on. */
static unsigned list_ids(struct queue *q, struct ksuid *ids, unsigned max)
{
    struct arena arena;
    struct queue_items_page page = { .limit = max };
    struct err_note note;
    arena_init(&arena, 64 << 20);
    assert_int_equal(queue_items_list(q, &page, &arena, &note), ERR_OK);
    for (unsigned i = 0; i < page.count; i++)
        ids[i] = page.found[i].id;
    arena_fini(&arena);
    return page.count;
}

static void clear_of_a_key_ends_all_of_it(void **state)
{
    (void)state;
    struct err_note note;
    struct queue *q = make("cleared", "");
    produce(q, "a", 3, "k");
    produce(q, "b", 1, "k"); /* another batch */
    produce(q, "c", 2, "l");
    assert_int_equal(queue_clear(q,
                                 &(struct queue_clear_order){
                                     .ready = true, .scheduled = false, .destructive = false },
                                 &note),
                     ERR_OK);
    goes_on(q, "k");
    produce(q, "d", 3, "k");
    struct ksuid held = takes(q, "d0");
    assert_int_equal(queue_clear(q,
                                 &(struct queue_clear_order){
                                     .ready = true, .scheduled = false, .destructive = false },
                                 &note),
                     ERR_OK);
    change(q, CHANGE_COMPLETE, held);
    goes_on(q, "k");
    produce(q, "e", 3, "k");
    change(q, CHANGE_RETRY, takes(q, "e0"));
    assert_int_equal(queue_clear(q,
                                 &(struct queue_clear_order){
                                     .ready = true, .scheduled = true, .destructive = true },
                                 &note),
                     ERR_OK);
    goes_on(q, "k");
    goes_on(q, "l");
    queue_unref(&q);
}

static void any_of_a_key_can_be_deleted_in_any_order(void **state)
{
    (void)state;
    struct queue *q = make("deleted", "");
    struct ksuid ids[5];
    for (unsigned first = 0; first < 5; first++) {
        produce(q, "a", 5, "k");
        assert_int_equal(list_ids(q, ids, 5), 5);
        assert_int_equal(rig_change(&rig, q, CHANGE_DELETE, 0, ids + first, 5 - first, NULL),
                         ERR_OK);
        if (first > 0)
            assert_int_equal(rig_change(&rig, q, CHANGE_DELETE, 0, ids, first, NULL), ERR_OK);
        goes_on(q, "k");
    }
    produce(q, "a", 5, "k");
    assert_int_equal(list_ids(q, ids, 5), 5);
    assert_int_equal(rig_change(&rig, q, CHANGE_DELETE, 0, ids, 2, NULL), ERR_OK);
    change(q, CHANGE_COMPLETE, takes(q, "a2"));
    change(q, CHANGE_DELETE, ids[4]);
    change(q, CHANGE_COMPLETE, takes(q, "a3"));
    goes_on(q, "k");
    queue_unref(&q);
}

static void expiry_of_a_key_ends_all_of_it(struct queue *q)
{
    produce(q, "a", 3, "k");
    produce(q, "b", 1, "k");
    for (unsigned i = 0; i < 20; i++)
        produce(q, "c", 2, i % 2 == 0 ? "l" : "m");
    rig_advance(&rig, EXPIRE_NS + HOUR_NS);
    goes_on(q, "k");
    goes_on(q, "m");
    produce(q, "d", 3, "k");
    rig_advance(&rig, EXPIRE_NS - 10 * HOUR_NS);
    struct ksuid held = takes(q, "d0");
    rig_advance(&rig, 11 * HOUR_NS); /* the others are past their time, the first is leased */
    change(q, CHANGE_COMPLETE, held);
    goes_on(q, "k");
    produce(q, "e", 3, "k");
    change(q, CHANGE_RETRY, takes(q, "e0"));
    rig_advance(&rig, EXPIRE_NS + HOUR_NS);
    goes_on(q, "k");
}

static void expiry_with_and_without_a_dead_queue(void **state)
{
    (void)state;
    struct queue *dead = make_dead();
    struct queue *q = make("plain", ""), *to = make("named", "dead");
    expiry_of_a_key_ends_all_of_it(q);
    expiry_of_a_key_ends_all_of_it(to);
    holds(dead, 4 + 40 + 2 + 3);
    queue_unref(&q), queue_unref(&to), queue_unref(&dead);
}

static void last_attempt_of_a_key_gives_the_next_its_turn(void **state)
{
    (void)state;
    struct queue *dead = make_dead();
    struct queue *q = rig_create(&rig, (struct queue_info){ .name = STR("tries"),
                                                            .max_attempts = 1,
                                                            .lease_timeout_ns = LEASE_NS,
                                                            .expire_timeout_ns = EXPIRE_NS,
                                                            .dead_queue = STR("dead"),
                                                            .partitions = 1 });
    produce(q, "a", 4, "k");
    change(q, CHANGE_RETRY, takes(q, "a0"));
    (void)takes(q, "a1");
    rig_advance(&rig, LEASE_NS + HOUR_NS);
    change(q, CHANGE_COMPLETE, takes(q, "a2"));
    change(q, CHANGE_COMPLETE, takes(q, "a3"));
    goes_on(q, "k");
    holds(dead, 2);
    queue_unref(&q), queue_unref(&dead);
}

/* The first of a key is returned behind a full window: it keeps its turn there, and gives it up
 * when it is deleted. */
static void first_of_a_key_behind_the_window(bool again, bool deleted)
{
    struct queue *q = make("deep", "");
    struct err_note note;
    static struct ksuid ids[PART_WINDOW_ITEMS + 1010];
    produce(q, "k", 2, "k");
    struct ksuid first = takes(q, "k0");
    for (unsigned i = 0; i < PART_WINDOW_ITEMS / 1000 + 1; i++)
        produce(q, "f", 1000, "");
    change(q, CHANGE_RETRY, first);
    if (again) {
        queue_unref(&q);
        rig_close(&rig);
        rig_open(&rig);
        assert_int_equal(queues_find(rig.queues, STR("deep"), &q, &note), ERR_OK);
    }
    unsigned count = list_ids(q, ids, COUNT_OF(ids));
    assert_int_equal(count, (PART_WINDOW_ITEMS / 1000 + 1) * 1000 + 2);
    if (deleted)
        change(q, CHANGE_DELETE, ids[count - 1]);
    for (unsigned i = 1; i + 1 < count; i += 1000)
        assert_int_equal(rig_change(&rig, q, CHANGE_DELETE, 0, ids + i,
                                    i + 1001 < count ? 1000 : count - 1 - i, NULL),
                         ERR_OK);
    if (!deleted)
        change(q, CHANGE_COMPLETE, takes(q, "k0"));
    change(q, CHANGE_COMPLETE, takes(q, "k1"));
    goes_on(q, "k");
    queue_unref(&q);
    assert_int_equal(queues_delete(rig.queues, STR("deep"), true, &note), ERR_OK);
}

static void first_of_a_key_keeps_its_turn_behind_the_window(void **state)
{
    (void)state;
    first_of_a_key_behind_the_window(false, false);
    first_of_a_key_behind_the_window(true, false);
}

static void deleting_the_first_of_a_key_behind_the_window_frees_the_key(void **state)
{
    (void)state;
    first_of_a_key_behind_the_window(false, true);
    first_of_a_key_behind_the_window(true, true);
}

/* Memory holds no more than its bound, what was being read when it was reached, and what came
 * meanwhile. */
static void memory_is_bounded(struct queue *q)
{
    (void)pthread_mutex_lock(&q->lock);
    size_t behind = q->parts[0]->behind_items;
    (void)pthread_mutex_unlock(&q->lock);
    assert_in_range(behind, PART_BEHIND_ITEMS / 2, PART_BEHIND_ITEMS + 2 * PART_WINDOW_ITEMS);
}

/* More than memory holds wait behind the first of a key, and that is returned to where nothing was
 * read yet. */
static void first_of_a_key_is_found_behind_more_than_memory_holds(void **state)
{
    enum { EACH = 1000, ALL = (PART_BEHIND_ITEMS + 4 * PART_WINDOW_ITEMS) / EACH };
    (void)state;
    struct err_note note;
    struct queue *q = make("hot", "");
    for (unsigned i = 0; i < ALL; i++)
        produce(q, "k", EACH, "k");
    for (unsigned i = 0; i < 2; i++) {
        change(q, CHANGE_RETRY, takes(q, "k0"));
        change(q, CHANGE_RETRY, takes(q, "k0"));
        struct ksuid held = takes(q, "k0");
        memory_is_bounded(q);
        change(q, CHANGE_RETRY, held);
        queue_unref(&q);
        rig_close(&rig);
        rig_open(&rig);
        assert_int_equal(queues_find(rig.queues, STR("hot"), &q, &note), ERR_OK);
    }
    change(q, CHANGE_COMPLETE, takes(q, "k0"));
    memory_is_bounded(q);
    change(q, CHANGE_COMPLETE, takes(q, "k1"));
    queue_unref(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(clear_of_a_key_ends_all_of_it, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(any_of_a_key_can_be_deleted_in_any_order, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(expiry_with_and_without_a_dead_queue, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(last_attempt_of_a_key_gives_the_next_its_turn, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(first_of_a_key_keeps_its_turn_behind_the_window, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(deleting_the_first_of_a_key_behind_the_window_frees_the_key,
                                        rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(first_of_a_key_is_found_behind_more_than_memory_holds,
                                        rig_setup, rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
