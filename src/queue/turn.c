/* turn.c - who is let in, and the way of a call through the pool (turn.h), for the
 * administration of queues in app. */
#include "queue/turn.h"

#include "queue/machine.h"

#include <stdio.h>

/* How often a queue that is being read is looked at. */
enum { READ_LOOK_MS = 2 };
#define TURN_CHANGE STR("change")
#define TURN_SEVERAL STR("several")
#define TURN_REQUEUE STR("requeue")

struct limiter *turns_new(struct loop *loop, struct clock *clock)
{
    struct limiter *l = limiter_new(loop, clock);
    /* By origin: the digits of a store's number, or one of the names above. */
    limiter_limit(l, LIMITER_ORIGIN, NULL, (struct limiter_limits){ .running_max = QUEUE_TURNS });
    limiter_limit(l, LIMITER_ORIGIN, &(struct limiter_key){ .origin = TURN_CHANGE },
                  (struct limiter_limits){ .running_max = 1 });
    return l;
}

unsigned queue_turn_threads(unsigned stores, unsigned disks)
{
    bool several = stores > 1 && disks > 0; /* calls that need several may hold one at a disk */
    unsigned shares = 1 + disks + several;  /* 1: of requeues */
    return 1 + shares * QUEUE_TURNS;        /* and of a change */
}

/* ---- on the pool, and back ---- */

/* Loop. */
static void turn_over(struct task *task)
{
    struct queue_turn *t = CONTAINER_OF(task, struct queue_turn, later.task);
    if (t->in)
        (void)limiter_leave(t->queues->turns, &t->pass); /* it was in */
    t->done(t, t->why);
}

/* Pool: once, or once more when what run waited for has come. */
static void turn_step(struct task *task)
{
    struct queue_turn *t = CONTAINER_OF(task, struct queue_turn, later.task);
    bool told = t->began;
    t->began = true;
    err why = told ? t->later.why : t->run(t);
    if (!told && why == ERR_AGAIN)
        return; /* not ours any more */
    if (why == ERR_OK && t->write != NULL)
        why = t->write(t);
    t->why = why;
    task->run = turn_over;
    home_post(loop_home(t->queues->opts.loop), task);
}

/* ---- until it was read, soon after a start ---- */

static bool turn_is_read(const struct queue_turn *t)
{
    return !t->in || t->queue == NULL || queue_is_read(t->queue, t->partition);
}

/* On the timer, until all was read or its time is over; run answers for what cannot be read. */
static void turn_look(void *ctx)
{
    struct queue_turn *t = ctx;
    if (!turn_is_read(t) && clock_mono(t->queues->opts.clock).ns < t->read_deadline.ns)
        return;
    loop_timer_free(&t->timer);
    home_post(loop_pool(t->queues->opts.loop), &t->later.task);
}

/* Loop. */
static void turn_await(struct task *task)
{
    struct queue_turn *t = CONTAINER_OF(task, struct queue_turn, later.task);
    struct loop *loop = t->queues->opts.loop;
    task->run = turn_step;
    t->read_deadline = mono_add_ms(clock_mono(t->queues->opts.clock), QUEUE_READ_MS_MAX);
    t->timer = loop_timer_new(loop, turn_look, t);
    loop_timer_start(t->timer, READ_LOOK_MS, READ_LOOK_MS);
}

static void turn_begin(struct queue_turn *t)
{
    struct loop *loop = t->queues->opts.loop;
    bool read = turn_is_read(t);
    t->later.task.run = read ? turn_step : turn_await;
    home_post(read ? loop_pool(loop) : loop_home(loop), &t->later.task);
}

/* ---- turns ---- */

/* Loop. Called once by the limiter, unless the call was cancelled. */
static void turn_came(struct limiter_pass *p, bool in)
{
    struct queue_turn *t = CONTAINER_OF(p, struct queue_turn, pass);
    bool draining = t->queues->draining;
    t->waits = false;
    t->in = in;
    if (in) {
        turn_begin(t);
        return;
    }
    /* The limiter gave up: its time is over, or too many wait. */
    if (!draining)
        err_note_set(t->note,
                     "queue is overloaded; too many calls wait for its stores, try again later");
    t->done(t, draining ? ERR_SHUTDOWN : ERR_LIMIT);
}

void queue_turn_cancel(struct queue_turn *t)
{
    if (!t->waits)
        return;
    t->waits = false;
    (void)limiter_leave(t->queues->turns, &t->pass); /* it waited */
    err_note_set(t->note, QUEUE_GONE_NOTE "nothing was done");
    t->done(t, ERR_GONE);
}

static void turn_enter(struct queue_turn *t, str share)
{
    /* Set before: the limiter may call turn_came at once. */
    t->waits = t->in = true;
    if (limiter_enter(t->queues->turns, &(struct limiter_key){ .origin = share }, &t->pass) !=
        LIMITER_IN)
        return;
    t->waits = false;
    turn_begin(t);
}

/* One store is a share of its own. No store at all counts as store 63, which few servers have. */
static void turn_enter_stores(struct queue_turn *t, uint64_t stores)
{
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%d", __builtin_ctzll(stores | UINT64_C(1) << 63));
    turn_enter(t, (stores & (stores - 1)) != 0 ? TURN_SEVERAL : str_of(digits));
}

void queue_turn_start(struct queue_turn *t)
{
    const struct queues_opts *opts = &t->queues->opts;
    t->later = (struct queue_later){ .home = loop_pool(opts->loop) };
    t->pass =
        (struct limiter_pass){ .deadline = mono_add_ms(clock_mono(opts->clock), QUEUE_TURN_MS_MAX),
                               .go = turn_came };
    t->began = t->waits = t->in = false;
    uint64_t stores = 0;
    switch (t->share) {
    case SHARE_NONE:
        turn_begin(t);
        return;
    case SHARE_STORE:
        turn_enter_stores(t, queue_stores(t->queue, t->partition));
        return;
    case SHARE_MEMORY:
        t->partition = QUEUE_PARTS_ALL;
        stores = queue_stores_unread(t->queue);
        if (stores == 0)
            turn_begin(t);
        else
            turn_enter_stores(t, stores);
        return;
    case SHARE_REQUEUE:
    case SHARE_CHANGE:
        t->partition = QUEUE_PARTS_ALL;
        turn_enter(t, t->share == SHARE_CHANGE ? TURN_CHANGE : TURN_REQUEUE);
        return;
    }
}
