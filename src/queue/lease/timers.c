/* timers.c - when a queue has something to do by time alone: one timer on the loop for all of
 * them. */
#include "queue/order/flush.h"

enum {
    TIMERS_QUEUES_MAX = 64, /* served before the loop gets a turn */
    TIMERS_FROZEN_MS = 50,  /* store_time may stand still: look again then */
    TIMERS_FAR_MS = 1000    /* store_time may be set forward with the machine's clock */
};

/* Queues by the first instant of store_time at which something is due. */
static bool due_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct queue *x = CONTAINER_OF(unconst(a), struct queue, due_node);
    const struct queue *y = CONTAINER_OF(unconst(b), struct queue, due_node);
    return x->due_at.ns < y->due_at.ns;
}

/* Queues by the first instant of mono: deadlines, ends of pauses. */
static bool wait_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct queue *x = CONTAINER_OF(unconst(a), struct queue, wait_node);
    const struct queue *y = CONTAINER_OF(unconst(b), struct queue, wait_node);
    return x->wait_at.ns < y->wait_at.ns;
}

static void queue_timers_lock(struct queues *all)
{
    INVARIANT(pthread_mutex_lock(&all->timers_lock) == 0);
}

static void timers_unlock(struct queues *all)
{
    INVARIANT(pthread_mutex_unlock(&all->timers_lock) == 0);
}

/* The first instant of anything, as mono; under the lock. Instants of store_time are taken as if
 * store_time went on as mono does. */
static mono timers_first(struct queues *all)
{
    struct heap_node *due = heap_first(&all->due), *wait = heap_first(&all->wait);
    mono now = clock_mono(all->opts.clock), at = all->probe_at;
    if (wait != NULL && CONTAINER_OF(wait, struct queue, wait_node)->wait_at.ns < at.ns)
        at = CONTAINER_OF(wait, struct queue, wait_node)->wait_at;
    if (due != NULL) {
        int64_t left =
            CONTAINER_OF(due, struct queue, due_node)->due_at.ns - clock_store(all->opts.clock).ns;
        int64_t then = left > INT64_MAX - now.ns ? INT64_MAX : now.ns + (left < 0 ? 0 : left);
        at.ns = then < at.ns ? then : at.ns;
    }
    return at;
}

/* On the loop. */
static void timers_arm(void *ctx)
{
    struct queues *all = ctx;
    queue_timers_lock(all);
    all->arming = false;
    mono at = timers_first(all), now = clock_mono(all->opts.clock);
    /* armed is read by must_arm: a later instant needs no new timer. */
    all->armed = at;
    bool stopped = all->stopped;
    timers_unlock(all);
    if (stopped)
        return;
    /* Rounded up: a timer that fires too early would find nothing. */
    int64_t ms = at.ns <= now.ns ? 0 : (at.ns - now.ns + NS_PER_MS - 1) / NS_PER_MS;
    /* At most TIMERS_FAR_MS: store_time may be set forward meanwhile. */
    loop_timer_start(all->timer, ms < TIMERS_FAR_MS ? ms : TIMERS_FAR_MS, 0);
}

/* Under the lock: arms anew when the timer would come too late. */
static bool must_arm(struct queues *all, mono at)
{
    if (all->stopped || all->arming || at.ns >= all->armed.ns)
        return false;
    all->arming = true;
    return true;
}

static void fired(void *ctx)
{
    struct queues *all = ctx;
    struct queue *ready[TIMERS_QUEUES_MAX];
    unsigned count = 0;
    mono now = clock_mono(all->opts.clock);
    store_time at = clock_store(all->opts.clock);
    /* Before the lock: probing takes the lock of the stores' health. */
    mono probe_at = stores_probe(all, now);
    queue_timers_lock(all);
    all->probe_at = probe_at;
    for (struct heap_node *n; count < TIMERS_QUEUES_MAX && (n = heap_first(&all->wait)) != NULL;) {
        struct queue *q = CONTAINER_OF(n, struct queue, wait_node);
        if (q->wait_at.ns > now.ns)
            break;
        heap_remove(&all->wait, n);
        /* queue_leave sets both anew, as far as something is left to do. */
        q->wait_at.ns = INT64_MAX;
        /* The reference keeps the queue while the lock of the timers is free. */
        queue_ref(q);
        ready[count++] = q;
    }
    for (struct heap_node *n; count < TIMERS_QUEUES_MAX && (n = heap_first(&all->due)) != NULL;) {
        struct queue *q = CONTAINER_OF(n, struct queue, due_node);
        if (q->due_at.ns > at.ns)
            break;
        heap_remove(&all->due, n);
        q->due_at = STORE_TIME_NEVER;
        queue_ref(q);
        ready[count++] = q;
    }
    bool idle = count == 0;
    timers_unlock(all);
    for (unsigned i = 0; i < count; i++) {
        /* Entering and leaving settles all that is due by now. */
        queue_enter(ready[i]);
        queue_leave(ready[i]);
        queue_unref(&ready[i]);
    }
    timers_arm(all);
    if (idle && all->armed.ns <= now.ns &&
        !all->stopped) /* store_time was moved or stands: no spinning */
        loop_timer_start(all->timer, TIMERS_FROZEN_MS, 0);
}

/* Called on leaving a queue, under its lock. The timers' lock is taken inside the queue's, never
 * the other way. */
void timers_update(struct queue *q, store_time due, mono wait)
{
    struct queues *all = q->all;
    /* Of a deleted queue nothing is due; its requests still time out. */
    if (q->deleted)
        due = STORE_TIME_NEVER, wait.ns = q->requests > 0 || q->busy > 0 ? wait.ns : INT64_MAX;
    queue_timers_lock(all);
    bool sooner = due.ns < q->due_at.ns || wait.ns < q->wait_at.ns;
    /* A later instant may stay: the timer finds nothing then, and asks for the next. */
    if (sooner || q->deleted) {
        if (q->due_node.place != 0)
            heap_remove(&all->due, &q->due_node);
        if (q->wait_node.place != 0)
            heap_remove(&all->wait, &q->wait_node);
        q->due_at = due;
        q->wait_at = wait;
        if (due.ns != STORE_TIME_NEVER.ns && !all->stopped)
            heap_add(&all->due, &q->due_node);
        if (wait.ns != INT64_MAX && !all->stopped)
            heap_add(&all->wait, &q->wait_node);
        sooner = must_arm(all, timers_first(all));
    }
    timers_unlock(all);
    if (sooner)
        /* Any thread may be here; the timer is the loop's. */
        loop_post(all->opts.loop, timers_arm, all);
}

void timers_soon(struct queues *all, mono at)
{
    queue_timers_lock(all);
    if (at.ns < all->probe_at.ns)
        all->probe_at = at;
    bool post = must_arm(all, all->probe_at);
    timers_unlock(all);
    if (post)
        loop_post(all->opts.loop, timers_arm, all);
}

void timers_init(struct queues *all)
{
    INVARIANT(pthread_mutex_init(&all->timers_lock, NULL) == 0);
    heap_init(&all->due, due_before);
    heap_init(&all->wait, wait_before);
    all->armed.ns = all->probe_at.ns = INT64_MAX;
    all->timer = loop_timer_new(all->opts.loop, fired, all);
}

/* A posted task would find the queues freed. */
bool timers_idle(struct queues *all)
{
    queue_timers_lock(all);
    bool idle = !all->arming;
    timers_unlock(all);
    return idle;
}

void timers_stop(struct queues *all)
{
    queue_timers_lock(all);
    all->stopped = true;
    /* No queue is served by the timer from here on. */
    struct heap *heaps[] = { &all->due, &all->wait };
    for (unsigned i = 0; i < COUNT_OF(heaps); i++)
        heap_fini(heaps[i]);
    timers_unlock(all);
}

void timers_fini(struct queues *all)
{
    loop_timer_free(&all->timer);
    (void)pthread_mutex_destroy(&all->timers_lock);
}
