/* Goal: administering calls run in their turn: a store that does not answer holds its own calls and
 * no others; who gives up, and a server that ends, let nobody wait. Method: as test_queue_queue.c,
 * with calls that wait for a store until the test lets them go. */
#include "queue/turn.h"
#include "rig.h"

#include <stdatomic.h>
#include <string.h>

struct call {
    struct queue_turn turn;
    struct err_note note;
    struct awaited answer;
    bool holds; /* its store answers when it is let go */
    atomic_bool ran, wrote;
};

static err call_run(struct queue_turn *t)
{
    struct call *c = CONTAINER_OF(t, struct call, turn);
    bool holds = c->holds;
    atomic_store(&c->ran, true); /* from here on it may be let go */
    return holds ? ERR_AGAIN : ERR_OK;
}

static err call_write(struct queue_turn *t)
{
    struct call *c = CONTAINER_OF(t, struct call, turn);
    atomic_store(&c->wrote, true);
    return ERR_OK;
}

static void call_done(struct queue_turn *t, err why)
{
    struct call *c = CONTAINER_OF(t, struct call, turn);
    loop_assert_here(rig.loop);
    awaited_tell(&c->answer, why);
}

static void call_start(struct call *c, struct queue *q, enum queue_share share, uint32_t partition)
{
    c->turn = (struct queue_turn){ .queues = rig.queues,
                                   .queue = q,
                                   .share = share,
                                   .partition = partition,
                                   .run = call_run,
                                   .write = call_write,
                                   .done = call_done,
                                   .note = &c->note };
    c->note.text[0] = '\0';
    atomic_store(&c->ran, false);
    atomic_store(&c->wrote, false);
    awaited_init(&c->answer);
    queue_turn_start(&c->turn);
}

static err call_wait(struct call *c)
{
    err why = awaited_wait(&c->answer);
    awaited_fini(&c->answer);
    return why;
}

/* Its store says why. */
static void call_let_go(struct call *c, err why)
{
    WAIT_UNTIL(atomic_load(&c->ran));
    c->turn.later.why = why;
    home_post(c->turn.later.home, &c->turn.later.task);
}

/* As many as run beside each other, and one that waits for its turn. */
static void fill_share(struct call held[QUEUE_TURNS + 1], struct queue *q, enum queue_share share)
{
    unsigned running = share == SHARE_CHANGE ? 1 : QUEUE_TURNS;
    for (unsigned i = 0; i <= running; i++) {
        held[i].holds = i < running;
        call_start(&held[i], q, share, 0);
        if (i < running)
            WAIT_UNTIL(atomic_load(&held[i].ran));
    }
}

static void check_free(struct queue *q, enum queue_share share, uint32_t partition)
{
    struct call c = { .holds = false };
    call_start(&c, q, share, partition);
    assert_int_equal(call_wait(&c), ERR_OK);
    assert_true(atomic_load(&c.ran) && atomic_load(&c.wrote));
}

static void a_store_that_does_not_answer_holds_its_own_calls_alone(void **state)
{
    (void)state;
    struct call held[QUEUE_TURNS + 1] = { 0 };
    struct queue *q = rig_queue(&rig, "two", 2);
    fill_share(held, q, SHARE_STORE);
    check_free(q, SHARE_STORE, 1);
    check_free(q, SHARE_STORE, QUEUE_PARTS_ALL);
    check_free(q, SHARE_NONE, 0);
    check_free(q, SHARE_MEMORY, 0);
    check_free(q, SHARE_REQUEUE, 0);
    check_free(NULL, SHARE_CHANGE, 0);
    assert_false(atomic_load(&held[QUEUE_TURNS].ran));
    call_let_go(&held[0], ERR_UNAVAILABLE);
    assert_int_equal(call_wait(&held[0]), ERR_UNAVAILABLE);
    assert_false(atomic_load(&held[0].wrote));
    assert_int_equal(call_wait(&held[QUEUE_TURNS]), ERR_OK);
    for (unsigned i = 1; i < QUEUE_TURNS; i++) {
        call_let_go(&held[i], ERR_OK);
        assert_int_equal(call_wait(&held[i]), ERR_OK);
        assert_true(atomic_load(&held[i].wrote));
    }
    queue_unref(&q);
}

static void changes_of_the_catalogue_run_one_at_a_time(void **state)
{
    (void)state;
    struct call held[QUEUE_TURNS + 1] = { 0 };
    fill_share(held, NULL, SHARE_CHANGE);
    assert_false(atomic_load(&held[1].ran));
    call_let_go(&held[0], ERR_OK);
    assert_int_equal(call_wait(&held[0]), ERR_OK);
    assert_int_equal(call_wait(&held[1]), ERR_OK);
}

static void cancel(void *ctx)
{
    queue_turn_cancel(ctx);
}

static void who_gives_up_is_done_while_it_waits_and_not_later(void **state)
{
    (void)state;
    struct call held[QUEUE_TURNS + 1] = { 0 };
    struct queue *q = rig_queue(&rig, "gone", 1);
    fill_share(held, q, SHARE_STORE);
    loop_post(rig.loop, cancel, &held[QUEUE_TURNS].turn);
    assert_int_equal(call_wait(&held[QUEUE_TURNS]), ERR_GONE);
    assert_string_equal(held[QUEUE_TURNS].note.text, QUEUE_GONE_NOTE "nothing was done");
    loop_post(rig.loop, cancel, &held[0].turn); /* it is in its turn: nothing comes of that */
    for (unsigned i = 0; i < QUEUE_TURNS; i++) {
        call_let_go(&held[i], ERR_OK);
        assert_int_equal(call_wait(&held[i]), ERR_OK);
    }
    assert_false(atomic_load(&held[QUEUE_TURNS].ran));
    check_free(q, SHARE_STORE, 0);
    queue_unref(&q);
}

static void a_server_that_ends_lets_nobody_wait(void **state)
{
    (void)state;
    struct call held[QUEUE_TURNS + 1] = { 0 };
    struct queue *q = rig_queue(&rig, "ends", 1);
    fill_share(held, q, SHARE_STORE);
    queues_drain(rig.queues);
    assert_int_equal(call_wait(&held[QUEUE_TURNS]), ERR_SHUTDOWN);
    for (unsigned i = 0; i < QUEUE_TURNS; i++) {
        call_let_go(&held[i], ERR_OK);
        assert_int_equal(call_wait(&held[i]), ERR_OK);
    }
    queue_unref(&q);
}

static void the_pool_has_a_thread_for_each_turn_that_may_hold_one(void **state)
{
    (void)state;
    assert_int_equal(queue_turn_threads(1, 1), 1 + 2 * QUEUE_TURNS);
    assert_int_equal(queue_turn_threads(3, 0), 1 + QUEUE_TURNS);
    assert_int_equal(queue_turn_threads(3, 2), 1 + 4 * QUEUE_TURNS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_store_that_does_not_answer_holds_its_own_calls_alone,
                                        rig_setup_two, rig_teardown),
        cmocka_unit_test_setup_teardown(changes_of_the_catalogue_run_one_at_a_time, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(who_gives_up_is_done_while_it_waits_and_not_later,
                                        rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(a_server_that_ends_lets_nobody_wait, rig_setup,
                                        rig_teardown),
        cmocka_unit_test(the_pool_has_a_thread_for_each_turn_that_may_hold_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
