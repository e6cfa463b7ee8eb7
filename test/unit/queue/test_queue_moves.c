/* Goal: items reach their dead queue and come back from it whatever their size, and a move that
 * cannot go on is told and stops nobody. Method: as test_queue_sizes.c, on one store and across
 * two; a dead queue that is paused; a store whose bodies of some items cannot be read. */
#include "rig.h"

#include "queue/admin.h"
#include "queue/store/store.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

enum { MB = 1000000, ITEMS = 30 };

static struct queue *dead, *q;

/* Items of q die on their second lease; on two stores each queue has a partition on one of them. */
static void make_queues(void)
{
    dead = rig_queue(&rig, "dead", rig.stores_count);
    q = rig_create(&rig, (struct queue_info){ .name = STR("q"),
                                              .partitions = rig.stores_count,
                                              .max_attempts = 1,
                                              .dead_queue = STR("dead") });
}

static void only_partition(struct queue *of, uint32_t partition)
{
    struct err_note note;
    for (uint32_t i = 0; i < rig.stores_count; i++) {
        struct queue_part_change c = { .partition = i,
                                       .order = i == partition ? PART_RESUME : PART_PAUSE };
        assert_int_equal(queue_part_change(of, &c, &note), ERR_OK);
    }
}

static void let_queues_go(void)
{
    queue_unref(&dead);
    queue_unref(&q);
}

static void produce(unsigned count, size_t size)
{
    struct ask *a = ask_new();
    for (unsigned i = 0; i < count; i++) {
        char *body = arena_calloc(&a->arena, 1, size);
        assert_non_null(body);
        body[0] = (char)('0' + i);
        a->items[i].bytes = (str){ .p = body, .n = size };
    }
    for (unsigned i = 0; i < count; i += 5) {
        struct ask *part = ask_new();
        memcpy(part->items, a->items + i, 5 * sizeof *a->items);
        ask_produce(&rig, q, part, count - i < 5 ? count - i : 5);
        assert_int_equal(ask_wait(part), ERR_OK);
        ask_free(part);
    }
    ask_free(a);
}

static uint64_t ready(struct queue *of)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < rig.stores_count; i++)
        n += rig_stats(of, i).ready;
    return n;
}

static uint64_t leased(void)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < rig.stores_count; i++)
        n += rig_stats(q, i).leased;
    return n;
}

static void lease_all(void)
{
    while (ready(q) > 0)
        ask_free(rig_lease(&rig, q, 1000));
}

static void await(struct queue *of, uint64_t want)
{
    const mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
    while (ready(of) != want) {
        queues_upkeep_all(rig.queues);
        assert_true(clock_mono(rig.clock).ns < deadline.ns);
    }
}

static void assert_sources(unsigned count)
{
    for (unsigned n = 0; n < count;) {
        struct ask *a = rig_lease(&rig, dead, 1000);
        for (unsigned i = 0; i < a->u.lease.items_count; i++) {
            assert_int_equal(a->u.lease.items[i].source_id.n, KSUID_TEXT_BYTES);
            assert_int_equal(a->u.lease.items[i].bytes.n, MB);
        }
        n += a->u.lease.items_count;
        ask_free(a);
    }
}

static void reopen(void)
{
    struct err_note note;
    let_queues_go();
    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(queues_find(rig.queues, STR("q"), &q, &note), ERR_OK);
    assert_int_equal(queues_find(rig.queues, STR("dead"), &dead, &note), ERR_OK);
    const mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
    queue_await_read(dead, QUEUE_PARTS_ALL, deadline);
    queue_await_read(q, QUEUE_PARTS_ALL, deadline);
}

static void items_that_die_reach_the_dead_queue_whatever_their_size(void **state)
{
    (void)state;
    make_queues();
    only_partition(dead, rig.stores_count - 1);
    produce(ITEMS, MB);
    lease_all();
    rig_advance(&rig, 61 * NS_PER_S);
    await(dead, ITEMS);
    assert_int_equal(leased(), 0);
    assert_int_equal(ready(q), 0);
    assert_sources(ITEMS);
    let_queues_go();
}

static void items_that_died_while_nobody_was_there_reach_the_dead_queue(void **state)
{
    struct err_note note;
    (void)state;
    make_queues();
    only_partition(dead, rig.stores_count - 1);
    produce(ITEMS, MB);
    let_queues_go();
    rig_close(&rig);
    assert_int_equal(sysclock_advance(rig.sysclock, 25 * 3600 * NS_PER_S, &note), ERR_OK);
    rig_open(&rig);
    assert_int_equal(queues_find(rig.queues, STR("q"), &q, &note), ERR_OK);
    assert_int_equal(queues_find(rig.queues, STR("dead"), &dead, &note), ERR_OK);
    await(dead, ITEMS);
    assert_int_equal(ready(q), 0);
    let_queues_go();
}

/* All of the only partition of q, to the dead queue. */
/* A thread of its own, as a worker of HTTP is: what it runs waits for nothing of the loop's. */
static struct own_thread {
    struct home home;
    pthread_t thread;
    pthread_mutex_t lock; /* of the next */
    struct task_list tasks;
    sem_t posted;
} own_thread;
static struct home *retry_home; /* NULL: the loop's */

static void own_thread_post(struct home *h, struct task *t)
{
    struct own_thread *o = CONTAINER_OF(h, struct own_thread, home);
    (void)pthread_mutex_lock(&o->lock);
    (void)task_list_put(&o->tasks, t);
    (void)pthread_mutex_unlock(&o->lock);
    (void)sem_post(&o->posted);
}

static void *own_thread_main(void *own)
{
    struct own_thread *o = own;
    for (;;) {
        (void)sem_wait(&o->posted);
        (void)pthread_mutex_lock(&o->lock);
        struct task *t = task_list_take(&o->tasks);
        (void)pthread_mutex_unlock(&o->lock);
        if (t == NULL)
            return NULL;
        t->run(t);
    }
}

static void own_thread_begin(void)
{
    own_thread = (struct own_thread){ .home = { .post = own_thread_post } };
    assert_int_equal(pthread_mutex_init(&own_thread.lock, NULL), 0);
    assert_int_equal(sem_init(&own_thread.posted, 0, 0), 0);
    assert_int_equal(pthread_create(&own_thread.thread, NULL, own_thread_main, &own_thread), 0);
    retry_home = &own_thread.home;
}

static void own_thread_end(void)
{
    retry_home = NULL;
    (void)sem_post(&own_thread.posted);
    assert_int_equal(pthread_join(own_thread.thread, NULL), 0);
    (void)sem_destroy(&own_thread.posted);
    (void)pthread_mutex_destroy(&own_thread.lock);
}

static err retry_dead(struct ask *l, struct err_note *note)
{
    struct ask *a = ask_new();
    a->u.change.kind = CHANGE_RETRY;
    a->u.change.home = retry_home;
    a->u.change.items_count = l->u.lease.items_count;
    a->u.change.partition = l->u.lease.partition;
    for (unsigned i = 0; i < l->u.lease.items_count; i++) {
        ksuid_format(l->u.lease.items[i].id, a->ids[i]);
        a->changes[i] = (struct queue_change_item){ .id = str_of(a->ids[i]), .dead = true };
    }
    err why = rig_change_items(&rig, q, a);
    *note = a->u.change.note;
    ask_free(a);
    return why;
}

/* Who is told that items were sent to the dead queue finds them there. */
static void items_sent_are_there_when_it_is_told(void **state)
{
    enum { ROUNDS = 200 };
    struct err_note note;
    (void)state;
    make_queues();
    own_thread_begin();
    for (unsigned i = 1; i <= ROUNDS; i++) {
        (void)rig_produce(&rig, q, "x", 1);
        struct ask *l = rig_lease(&rig, q, 1);
        assert_int_equal(retry_dead(l, &note), ERR_OK);
        ask_free(l);
        assert_int_equal(ready(dead), i);
    }
    own_thread_end();
    let_queues_go();
}

static void items_come_back_from_the_dead_queue_whatever_their_size(void **state)
{
    struct err_note note;
    unsigned moved = 0;
    (void)state;
    make_queues();
    only_partition(dead, rig.stores_count - 1);
    only_partition(q, 0);
    produce(ITEMS, MB);
    while (ready(q) > 0) {
        struct ask *l = rig_lease(&rig, q, 1000);
        assert_int_equal(retry_dead(l, &note), ERR_OK);
        ask_free(l);
    }
    await(dead, ITEMS);
    assert_int_equal(queue_requeue(dead, q, 10, &moved, &note), ERR_OK);
    assert_int_equal(moved, 10);
    assert_int_equal(ready(dead), ITEMS - 10);
    reopen();
    assert_int_equal(queue_requeue(dead, q, 1000, &moved, &note), ERR_OK);
    assert_int_equal(moved, ITEMS - 10);
    await(q, ITEMS);
    assert_int_equal(ready(dead), 0);
    let_queues_go();
}

/* ---- a move that cannot go on ---- */

static void an_order_that_the_dead_queue_does_not_take_is_told_and_undone(void **state)
{
    struct err_note note;
    (void)state;
    make_queues();
    only_partition(dead, rig.stores_count); /* none */
    produce(5, 10);
    struct ask *l = rig_lease(&rig, q, 5);
    assert_int_equal(retry_dead(l, &note), ERR_UNAVAILABLE);
    assert_string_equal(note.text,
                        "dead queue 'dead' does not take the items; those that were not moved are "
                        "leased as before, try again");
    assert_int_equal(leased(), 5);
    assert_true(rig_stats(q, 0).failures > 0);
    assert_int_equal(rig_change(&rig, q, CHANGE_COMPLETE, 0, &l->u.lease.items[0].id, 1, &note),
                     ERR_OK);
    only_partition(dead, 0);
    rig_advance(&rig, 61 * NS_PER_S);
    await(dead, 4);
    ask_free(l);
    let_queues_go();
}

static void items_that_the_dead_queue_does_not_take_can_be_deleted(void **state)
{
    struct err_note note;
    (void)state;
    make_queues();
    only_partition(dead, rig.stores_count); /* none */
    produce(5, 10);
    struct ask *l = rig_lease(&rig, q, 5);
    rig_advance(&rig, 61 * NS_PER_S);
    const mono begin = clock_mono(rig.clock);
    assert_int_equal(rig_change(&rig, q, CHANGE_DELETE, 0, &l->u.lease.items[2].id, 1, &note),
                     ERR_OK);
    assert_int_equal(leased(), 4);
    assert_int_equal(queue_clear(q,
                                 &(struct queue_clear_order){
                                     .ready = true, .scheduled = true, .destructive = true },
                                 &note),
                     ERR_OK);
    assert_int_equal(leased() + ready(q), 0);
    assert_true(clock_mono(rig.clock).ns < mono_add_ms(begin, 20000).ns);
    ask_free(l);
    let_queues_go();
}

/* More of them than one move takes: the moves fail at different times. */
static void items_of_many_moves_that_fail_are_removed_at_once(void **state)
{
    enum { MANY = 900 };
    struct err_note note = { "" };
    struct ksuid ids[MANY];
    (void)state;
    make_queues();
    only_partition(dead, rig.stores_count); /* none */
    (void)rig_produce(&rig, q, "x", MANY);
    struct ask *l = rig_lease(&rig, q, MANY);
    assert_int_equal(l->u.lease.items_count, MANY);
    for (unsigned i = 0; i < MANY; i++)
        ids[i] = l->u.lease.items[i].id;
    ask_free(l);
    rig_advance(&rig, 61 * NS_PER_S);
    const mono begin = clock_mono(rig.clock);
    assert_int_equal(queue_clear(q, &(struct queue_clear_order){ .ready = true }, &note), ERR_OK);
    assert_int_equal(leased(), MANY); /* their leases ended, and that is all that ended */
    assert_int_equal(rig_change(&rig, q, CHANGE_DELETE, 0, ids, MANY - 1, &note), ERR_OK);
    assert_int_equal(leased(), 1);
    assert_int_equal(
        queue_clear(q, &(struct queue_clear_order){ .ready = true, .destructive = true }, &note),
        ERR_OK);
    assert_int_equal(leased() + ready(q), 0);
    assert_true(clock_mono(rig.clock).ns < mono_add_ms(begin, 20000).ns);
    let_queues_go();
}

static const struct queue_store_ops *_Atomic real;
static atomic_bool rotten;

/* Every third body that was produced is gone. */
static err some_bodies(struct queue_store *s, struct queue_part p, struct queue_bodies *b)
{
    err why = real->bodies(s, p, b);
    for (unsigned i = 0; atomic_load(&rotten) && why == ERR_OK && i < b->read; i++) {
        if (b->at[i].index != 2)
            continue;
        b->read = i;
        return ERR_CORRUPT;
    }
    return why;
}

static void items_that_cannot_be_read_stop_no_others(void **state)
{
    enum { ROTTEN = ITEMS / 5 };
    static struct queue_store_ops ops;
    struct err_note note;
    (void)state;
    make_queues();
    produce(2 * ITEMS, 10); /* five of a batch */
    while (leased() < ITEMS)
        ask_free(rig_lease(&rig, q, 5));
    reopen(); /* no body is in memory */
    real = rig.stores[0]->ops;
    ops = *real;
    ops.bodies = some_bodies;
    rig_ops(&rig, 0, &ops);
    atomic_store(&rotten, true);
    rig_advance(&rig, 61 * NS_PER_S);
    await(dead, ITEMS - ROTTEN);
    assert_int_equal(leased(), 0);
    assert_int_equal(rig_stats(q, 0).damaged, ROTTEN);
    unsigned moved = 0; /* by order: told; the others are moved */
    assert_int_equal(queue_requeue(q, dead, 1000, &moved, &note), ERR_UNAVAILABLE);
    assert_int_equal(moved, ITEMS - ROTTEN);
    await(q, ROTTEN);
    await(dead, 2 * (ITEMS - ROTTEN));
    rig_ops(&rig, 0, real);
    let_queues_go();
}

#define ONE_STORE(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
#define TWO_STORES(name)                                                                           \
    {                                                                                              \
#name "_of_another_store", name, rig_setup_two, rig_teardown, NULL                         \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONE_STORE(items_that_die_reach_the_dead_queue_whatever_their_size),
        TWO_STORES(items_that_die_reach_the_dead_queue_whatever_their_size),
        ONE_STORE(items_that_died_while_nobody_was_there_reach_the_dead_queue),
        TWO_STORES(items_that_died_while_nobody_was_there_reach_the_dead_queue),
        ONE_STORE(items_sent_are_there_when_it_is_told),
        TWO_STORES(items_sent_are_there_when_it_is_told),
        ONE_STORE(items_come_back_from_the_dead_queue_whatever_their_size),
        TWO_STORES(items_come_back_from_the_dead_queue_whatever_their_size),
        ONE_STORE(an_order_that_the_dead_queue_does_not_take_is_told_and_undone),
        ONE_STORE(items_that_the_dead_queue_does_not_take_can_be_deleted),
        ONE_STORE(items_of_many_moves_that_fail_are_removed_at_once),
        ONE_STORE(items_that_cannot_be_read_stop_no_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
