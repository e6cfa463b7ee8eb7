/* Goal: the end of a server does not wait for what is being changed about its queues. Method: as
 * test_queue_queue.c, with a store that holds a partition's move until it is told to go on. */
#include "queue/admin.h"
#include "rig.h"

#include <time.h>

static struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const struct queue_store_ops *_Atomic inner;
    struct queue_store_ops ops;
    bool held, open;
} gate;

static int setup(void **state)
{
    (void)state;
    gate = (struct gate){ .held = false };
    (void)pthread_mutex_init(&gate.lock, NULL);
    (void)pthread_cond_init(&gate.changed, NULL);
    rig_init(&rig, 2);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_fini(&rig);
    (void)pthread_mutex_destroy(&gate.lock);
    (void)pthread_cond_destroy(&gate.changed);
    return 0;
}

/* Under the lock. */
static void gate_wait(const bool *until)
{
    while (!*until)
        wait_change(&gate.changed, &gate.lock, "the other side of the gate");
}

/* A move drops first what an earlier try left. */
static err held_drop(struct queue_store *s, struct queue_part p, struct queue_later *later)
{
    (void)pthread_mutex_lock(&gate.lock);
    gate.held = true;
    (void)pthread_cond_broadcast(&gate.changed);
    gate_wait(&gate.open);
    (void)pthread_mutex_unlock(&gate.lock);
    return gate.inner->drop(s, p, later);
}

struct mover {
    struct queue *queue;
    err why;
    struct err_note note;
};

static void *move_run(void *arg)
{
    struct mover *m = arg;
    struct queue_part_change c = { .order = PART_MOVE, .partition = 0, .store = STR("s1") };
    m->why = queue_part_change(m->queue, &c, &m->note);
    return NULL;
}

static void drain_does_not_wait_for_a_partition_that_moves(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "q", 2);
    assert_int_equal(rig_produce(&rig, q, "a", 5), 0);
    struct queue_part_change pause = { .order = PART_PAUSE, .partition = 0 };
    struct err_note note;
    assert_int_equal(queue_part_change(q, &pause, &note), ERR_OK);
    struct ask *waiting = rig_lease_begin(&rig, q, "c", 1, 600 * 1000);
    gate.inner = rig.stores[1]->ops;
    gate.ops = *gate.inner;
    gate.ops.drop = held_drop;
    rig_ops(&rig, 1, &gate.ops);
    struct mover mover = { .queue = q };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, move_run, &mover), 0);
    (void)pthread_mutex_lock(&gate.lock);
    gate_wait(&gate.held);
    (void)pthread_mutex_unlock(&gate.lock);

    queues_drain(rig.queues);
    assert_int_equal(ask_wait(waiting), ERR_SHUTDOWN);
    (void)pthread_mutex_lock(&gate.lock);
    gate.open = true;
    (void)pthread_cond_broadcast(&gate.changed);
    (void)pthread_mutex_unlock(&gate.lock);
    (void)pthread_join(thread, NULL);
    assert_int_equal(mover.why, ERR_SHUTDOWN);
    assert_string_equal(mover.note.text, "queue is shutting down");
    ask_free(waiting);
    queue_unref(&q);

    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(queues_find(rig.queues, STR("q"), &q, &note), ERR_OK);
    pause.order = PART_RESUME;
    assert_int_equal(queue_part_change(q, &pause, &note), ERR_OK);
    struct ask *a = rig_lease_begin(&rig, q, "c", 10, 10000);
    assert_int_equal(ask_wait(a), ERR_OK);
    assert_int_equal(a->u.lease.partition, 0);
    assert_int_equal(a->u.lease.items_count, 5);
    assert_string_equal(rig_stats(q, 0).store, "s0");
    ask_free(a);
    queue_unref(&q);
}

static void no_queue_is_made_while_draining(void **state)
{
    (void)state;
    struct err_note note = { "" };
    queues_drain(rig.queues);
    struct queue_info info = { .name = STR("late"),
                               .lease_timeout_ns = NS_PER_S,
                               .expire_timeout_ns = NS_PER_S,
                               .partitions = 1 };
    assert_int_equal(queues_create(rig.queues, &info, &note), ERR_SHUTDOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(drain_does_not_wait_for_a_partition_that_moves, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(no_queue_is_made_while_draining, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
