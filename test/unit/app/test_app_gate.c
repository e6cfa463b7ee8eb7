/* Goal: calls on a store that does not answer hold their share of the pool and nothing else; who
 * waits can leave, and is refused when it takes too long or the server drains.
 * Method: a gate over a loop; its jobs stay on the pool until they are let go. A thread of the
 * test's own enters and looks; what it expects it waits for, what must not come is looked for once
 * all else has. */
#include "app/queue/queue_gate.h"

#include "base/check.h"
#include "loop/loop.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { CALLS = 12, THREADS = 12, HUNG = 0, WELL = 1, TURN_NS = 1000 };

struct call {
    struct loop_job job;
    struct queue_turn turn;
    atomic_bool begun, go, done, refused;
    err why; /* of the refusal */
};

struct rig {
    struct loop *loop;
    struct queue_gate *gate;
    struct call calls[CALLS];
    unsigned count;
    atomic_llong now_ns;
    void (*driven)(struct rig *r);
};
static struct rig rig;

static void call_run(struct loop_job *j)
{
    struct call *c = CONTAINER_OF(j, struct call, job);
    atomic_store(&c->begun, true);
    while (!atomic_load(&c->go))
        (void)sched_yield();
}

static void call_done(struct loop_job *j, bool canceled)
{
    struct call *c = CONTAINER_OF(j, struct call, job);
    INVARIANT(!canceled);
    queue_gate_leave(rig.gate, &c->turn, (mono){ .ns = atomic_load(&rig.now_ns) });
    atomic_store(&c->done, true);
}

static void call_refused(struct queue_turn *t, err why)
{
    struct call *c = CONTAINER_OF(t, struct call, turn);
    c->why = why;
    atomic_store(&c->refused, true);
}

static struct call *enter(struct rig *r, uint64_t stores, bool change)
{
    INVARIANT(r->count < CALLS);
    struct call *c = &r->calls[r->count++];
    c->job = (struct loop_job){ .run = call_run, .done = call_done };
    c->turn = (struct queue_turn){ .need = { .stores = stores, .change = change },
                                   .job = &c->job,
                                   .refused = call_refused,
                                   .deadline = { .ns = atomic_load(&r->now_ns) + TURN_NS } };
    queue_gate_enter(r->gate, &c->turn);
    return c;
}

/* A test that hangs here is ended by its runner. */
static void await(const atomic_bool *what)
{
    while (!atomic_load(what))
        (void)sched_yield();
}

static void finish(struct call *c)
{
    await(&c->begun);
    atomic_store(&c->go, true);
    await(&c->done);
}

static void *drive(void *ctx)
{
    struct rig *r = ctx;
    r->driven(r);
    loop_stop(r->loop);
    return NULL;
}

static void run_rig(void (*driven)(struct rig *r))
{
    pthread_t thread;
    rig = (struct rig){ .loop = loop_new(THREADS), .driven = driven };
    rig.gate = queue_gate_new(rig.loop);
    assert_int_equal(pthread_create(&thread, NULL, drive, &rig), 0);
    loop_run(rig.loop);
    assert_int_equal(pthread_join(thread, NULL), 0);
    loop_free(&rig.loop);
    queue_gate_free(&rig.gate);
}

static void drive_hung(struct rig *r)
{
    struct call *hung[QUEUE_GATE_SHARE + 1];
    for (unsigned i = 0; i < COUNT_OF(hung); i++)
        hung[i] = enter(r, BIT(HUNG), false);
    for (unsigned i = 0; i < QUEUE_GATE_SHARE; i++)
        await(&hung[i]->begun);
    finish(enter(r, BIT(WELL), false)); /* although others came first */
    finish(enter(r, 0, true));
    finish(enter(r, 0, false));
    finish(enter(r, BIT(HUNG) | BIT(WELL), false));
    INVARIANT(!atomic_load(&hung[QUEUE_GATE_SHARE]->begun));
    finish(hung[0]); /* one place: first come */
    finish(hung[QUEUE_GATE_SHARE]);
    finish(hung[1]);
}

static void a_store_that_hangs_holds_its_share_alone(void **state)
{
    (void)state;
    run_rig(drive_hung);
}

static void drive_wide(struct rig *r)
{
    struct call *wide[QUEUE_GATE_SHARE + 1];
    for (unsigned i = 0; i < COUNT_OF(wide); i++)
        wide[i] = enter(r, BIT(HUNG) | BIT(WELL), false);
    for (unsigned i = 0; i < QUEUE_GATE_SHARE; i++)
        await(&wide[i]->begun);
    finish(enter(r, BIT(WELL), false)); /* they hold none of its places */
    finish(enter(r, 0, true));
    struct call *alone[QUEUE_GATE_SHARE];
    for (unsigned i = 0; i < COUNT_OF(alone); i++)
        alone[i] = enter(r, BIT(WELL), false);
    for (unsigned i = 0; i < COUNT_OF(alone); i++)
        await(&alone[i]->begun);
    INVARIANT(!atomic_load(&wide[QUEUE_GATE_SHARE]->begun));
    finish(wide[0]);
    finish(wide[QUEUE_GATE_SHARE]); /* nor do others stand in their way, as long as they come */
    finish(wide[1]);
    for (unsigned i = 0; i < COUNT_OF(alone); i++)
        finish(alone[i]);
}

static void who_needs_several_stores_holds_none_of_the_others_places(void **state)
{
    (void)state;
    run_rig(drive_wide);
}

static void drive_changes(struct rig *r)
{
    struct call *first = enter(r, 0, true), *second = enter(r, 0, true);
    await(&first->begun);
    finish(enter(r, BIT(WELL), false));
    INVARIANT(!atomic_load(&second->begun));
    finish(first);
    finish(second);
}

static void changes_come_one_at_a_time(void **state)
{
    (void)state;
    run_rig(drive_changes);
}

static void drive_leaving(struct rig *r)
{
    struct call *hung[QUEUE_GATE_SHARE], *waits[3];
    for (unsigned i = 0; i < COUNT_OF(hung); i++)
        hung[i] = enter(r, BIT(HUNG), false);
    for (unsigned i = 0; i < COUNT_OF(waits); i++)
        waits[i] = enter(r, BIT(HUNG), false);
    INVARIANT(queue_gate_quit(
        r->gate, &waits[2]->turn)); /* the last: who comes next stands behind the others */
    INVARIANT(!queue_gate_quit(r->gate, &waits[2]->turn));
    INVARIANT(queue_gate_quit(r->gate, &waits[0]->turn));
    struct call *late = enter(r, BIT(HUNG), false);
    INVARIANT(!queue_gate_quit(r->gate, &hung[0]->turn));
    finish(hung[0]);
    finish(waits[1]);
    finish(late);
    finish(hung[1]);
    INVARIANT(!atomic_load(&waits[0]->begun) && !atomic_load(&waits[2]->begun));
}

static void who_left_the_line_is_forgotten(void **state)
{
    (void)state;
    run_rig(drive_leaving);
}

static void drive_late(struct rig *r)
{
    struct call *hung[QUEUE_GATE_SHARE], *well[QUEUE_GATE_SHARE];
    for (unsigned i = 0; i < COUNT_OF(hung); i++)
        hung[i] = enter(r, BIT(HUNG), false), well[i] = enter(r, BIT(WELL), false);
    struct call *one = enter(r, BIT(HUNG), false), *two = enter(r, BIT(WELL), false);
    atomic_fetch_add(&r->now_ns, TURN_NS - 1);
    struct call *three = enter(r, BIT(HUNG), false), *four = enter(r, BIT(WELL), false);
    finish(well[0]);
    finish(two); /* in time */
    INVARIANT(!atomic_load(&one->refused));
    atomic_fetch_add(&r->now_ns, 1);
    finish(four);
    await(&one->refused);
    INVARIANT(one->why == ERR_LIMIT && !queue_gate_quit(r->gate, &one->turn));
    INVARIANT(!atomic_load(&three->refused));
    finish(hung[0]);
    finish(three);
    finish(hung[1]);
    finish(well[1]);
    INVARIANT(!atomic_load(&one->begun));
}

static void who_waited_too_long_is_refused_when_somebody_leaves(void **state)
{
    (void)state;
    run_rig(drive_late);
}

static void drive_draining(struct rig *r)
{
    struct call *hung[QUEUE_GATE_SHARE];
    for (unsigned i = 0; i < COUNT_OF(hung); i++)
        hung[i] = enter(r, BIT(HUNG), false);
    struct call *one = enter(r, BIT(HUNG), false), *two = enter(r, BIT(HUNG), false);
    queue_gate_drain(r->gate);
    INVARIANT(atomic_load(&one->refused) && atomic_load(&two->refused));
    INVARIANT(one->why == ERR_SHUTDOWN);
    INVARIANT(!queue_gate_quit(r->gate, &one->turn));
    INVARIANT(atomic_load(&enter(r, 0, false)->refused));
    for (unsigned i = 0; i < COUNT_OF(hung); i++)
        finish(hung[i]);
    INVARIANT(!atomic_load(&hung[0]->refused) && !atomic_load(&one->begun));
}

static void a_drain_refuses_who_waits_and_who_comes(void **state)
{
    (void)state;
    run_rig(drive_draining);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_that_hangs_holds_its_share_alone),
        cmocka_unit_test(who_needs_several_stores_holds_none_of_the_others_places),
        cmocka_unit_test(changes_come_one_at_a_time),
        cmocka_unit_test(who_left_the_line_is_forgotten),
        cmocka_unit_test(who_waited_too_long_is_refused_when_somebody_leaves),
        cmocka_unit_test(a_drain_refuses_who_waits_and_who_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
