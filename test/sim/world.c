#include "world.h"

#include "base/heap.h"

#include <stdlib.h>

/* ---- events ---- */

struct event {
    struct heap_node node;
    int64_t at;
    uint64_t seq;
    void (*fn)(void *ctx);
    void *ctx;
};
struct loop {
    struct world *world;
    struct home home, pool;
    struct heap events;
    uint64_t seq;
};
struct loop_timer {
    struct loop *loop;
    void (*fired)(void *ctx);
    void *ctx;
    uint64_t generation;
    int64_t repeat_ms;
};

static bool is_sooner(const struct heap_node *a, const struct heap_node *b)
{
    const struct event *x = CONTAINER_OF((void *)(uintptr_t)a, struct event, node);
    const struct event *y = CONTAINER_OF((void *)(uintptr_t)b, struct event, node);
    return x->at != y->at ? x->at < y->at : x->seq < y->seq;
}

static void add(struct loop *l, int64_t delay, void (*fn)(void *ctx), void *ctx)
{
    struct event *e = calloc(1, sizeof *e);
    INVARIANT(e != NULL);
    *e = (struct event){ .at = l->world->now_ns + delay, .seq = l->seq++, .fn = fn, .ctx = ctx };
    heap_add(&l->events, &e->node);
}

void world_at(struct world *w, int64_t delay_ns, void (*fn)(void *ctx), void *ctx)
{
    add(w->loop, delay_ns, fn, ctx);
}

bool world_run_due(struct world *w)
{
    bool any = false;
    for (struct heap_node *n; (n = heap_first(&w->loop->events)) != NULL; any = true) {
        struct event *e = CONTAINER_OF(n, struct event, node);
        if (e->at > w->now_ns)
            return any;
        heap_remove(&w->loop->events, n);
        e->fn(e->ctx);
        free(e);
    }
    return any;
}

int64_t world_next(const struct world *w)
{
    struct heap_node *n = heap_first(&w->loop->events);
    return n == NULL ? INT64_MAX : CONTAINER_OF(n, struct event, node)->at;
}

void world_advance(struct world *w, int64_t ns_max)
{
    int64_t next = world_next(w), step = next - w->now_ns;
    if (next == INT64_MAX || step > ns_max)
        step = ns_max;
    if (step < 0)
        step = 0;
    w->now_ns += step;
    w->store_ns += step;
}

/* ---- the clock ---- */

static store_time store_now(struct clock *c)
{
    return (store_time){ .ns = CONTAINER_OF(c, struct world, clock)->store_ns };
}

static mono mono_now(struct clock *c)
{
    return (mono){ .ns = CONTAINER_OF(c, struct world, clock)->now_ns };
}

static wall wall_now(struct clock *c)
{
    return (wall){ .ns = CONTAINER_OF(c, struct world, clock)->store_ns };
}

/* ---- loop.h ---- */

static void task_runs(void *ctx)
{
    struct task *t = ctx;
    t->run(t);
}

static void home_posted(struct home *h, struct task *t)
{
    loop_post(CONTAINER_OF(h, struct loop, home), task_runs, t);
}

static void pool_posted(struct home *h, struct task *t)
{
    struct loop *l = CONTAINER_OF(h, struct loop, pool);
    add(l, (int64_t)rng_below(&l->world->rng, NS_PER_MS), task_runs, t);
}

struct loop *loop_new(unsigned threads)
{
    (void)threads;
    struct loop *l = calloc(1, sizeof *l);
    INVARIANT(l != NULL);
    heap_init(&l->events, is_sooner);
    l->home.post = home_posted;
    l->pool.post = pool_posted;
    return l;
}

void loop_free(struct loop **lp)
{
    INVARIANT(heap_first(&(*lp)->events) == NULL);
    heap_fini(&(*lp)->events);
    free(*lp);
    *lp = NULL;
}

void loop_assert_here(const struct loop *l)
{
    (void)l;
}

void loop_post(struct loop *l, void (*fn)(void *ctx), void *ctx)
{
    add(l, (int64_t)rng_below(&l->world->rng, 20000), fn, ctx);
}

struct home *loop_home(struct loop *l)
{
    return &l->home;
}

struct home *loop_pool(struct loop *l)
{
    return &l->pool;
}

struct loop_timer *loop_timer_new(struct loop *l, void (*fired)(void *ctx), void *ctx)
{
    struct loop_timer *t = calloc(1, sizeof *t);
    INVARIANT(t != NULL);
    *t = (struct loop_timer){ .loop = l, .fired = fired, .ctx = ctx };
    return t;
}

struct tick {
    struct loop_timer *timer;
    uint64_t generation;
};

static void timer_fired(void *ctx)
{
    struct tick *k = ctx;
    struct loop_timer *t = k->timer;
    if (t->fired == NULL) { /* freed: the last tick to come takes it along */
        if (k->generation == t->generation)
            free(t);
    } else if (k->generation == t->generation) {
        t->fired(t->ctx);
    }
    free(k);
}

void loop_timer_start(struct loop_timer *t, int64_t first_ms, int64_t repeat_ms)
{
    struct tick *k = calloc(1, sizeof *k);
    INVARIANT(k != NULL);
    INVARIANT(repeat_ms == 0);
    *k = (struct tick){ .timer = t, .generation = ++t->generation };
    add(t->loop, first_ms * NS_PER_MS, timer_fired, k);
}

void loop_timer_stop(struct loop_timer *t)
{
    t->generation++;
}

void loop_timer_free(struct loop_timer **tp)
{
    struct loop_timer *t = *tp;
    t->fired = NULL;
    t->generation = 0;
    struct tick *k = calloc(1, sizeof *k);
    INVARIANT(k != NULL);
    *k = (struct tick){ .timer = t };
    add(t->loop, 24 * 3600 * NS_PER_S, timer_fired, k); /* behind all its other ticks */
    *tp = NULL;
}

static void job_over(void *ctx)
{
    struct loop_job *j = ctx;
    j->done(j, false);
}

static void job_begins(void *ctx)
{
    struct loop_job *j = ctx;
    j->run(j);
    add(j->loop, (int64_t)rng_below(&j->loop->world->rng, 2 * NS_PER_MS), job_over, j);
}

void loop_job_start(struct loop *l, struct loop_job *j)
{
    j->loop = l;
    add(l, (int64_t)rng_below(&l->world->rng, NS_PER_MS), job_begins, j);
}

/* ---- the world ---- */

void world_init(struct world *w, uint64_t seed)
{
    *w = (struct world){ .now_ns = NS_PER_S, .store_ns = 1767225600 * NS_PER_S };
    w->clock = (struct clock){ .store_now = store_now, .mono_now = mono_now, .wall_now = wall_now };
    rng_init(&w->rng, seed);
    w->loop = loop_new(1);
    w->loop->world = w;
}

void world_fini(struct world *w)
{
    while (world_next(w) != INT64_MAX) {
        world_advance(w, INT64_MAX / 4);
        (void)world_run_due(w);
    }
    loop_free(&w->loop);
}

/* ---- a store with faults ---- */

struct waiting {
    struct waiting *next;
    struct queue_write *write;
};
struct sim_store {
    struct queue_store base;
    struct queue_store *inner;
    struct world *world;
    struct sim_faults faults;
    struct waiting *first, **last;
    unsigned count;
    bool broken, busy;
};

static struct sim_store *mine(struct queue_store *s)
{
    return CONTAINER_OF(s, struct sim_store, base);
}

static void captured(struct queue_write *w, err why)
{
    *(err *)w->ctx = why;
}

/* The real store answers at once: its engine is in memory. */
static err apply(struct sim_store *s, const struct queue_write *w)
{
    err why = ERR_AGAIN;
    struct queue_write copy = *w;
    copy.done = captured;
    copy.ctx = &why;
    copy.deadline = (mono){ .ns = 0 };
    s->inner->ops->write(s->inner, &copy);
    INVARIANT(why != ERR_AGAIN);
    INVARIANT(why != ERR_CORRUPT); /* the queue never contradicts what is stored */
    return why;
}

static err fate(struct sim_store *s, const struct queue_write *w)
{
    static const err definite[] = { ERR_FULL, ERR_UNAVAILABLE, ERR_TIMEOUT, ERR_LIMIT };
    struct rng *rng = &s->world->rng;
    if (s->faults.crashed || s->broken || s->faults.down)
        return ERR_UNAVAILABLE;
    if (w->deadline.ns != 0 && w->deadline.ns <= s->world->now_ns)
        return ERR_TIMEOUT;
    if (rng_below(rng, 1000) < s->faults.unknown_permille)
        return ERR_IO;
    if (rng_below(rng, 1000) < s->faults.fail_permille)
        return definite[rng_below(rng, 4)];
    return ERR_OK;
}

static void serve(void *ctx);

static void next_write(struct sim_store *s)
{
    int64_t delay = 1000 + (int64_t)rng_below(&s->world->rng, (uint64_t)s->faults.delay_ns + 1);
    s->busy = s->first != NULL;
    if (s->busy)
        world_at(s->world, delay, serve, s);
}

static struct queue_write *take(struct sim_store *s)
{
    struct waiting *n = s->first;
    struct queue_write *w = n->write;
    s->first = n->next;
    if (s->first == NULL)
        s->last = &s->first;
    s->count--;
    free(n);
    return w;
}

static void serve(void *ctx)
{
    struct sim_store *s = ctx;
    if (s->first == NULL) { /* answered by a recovery meanwhile */
        s->busy = false;
        return;
    }
    struct queue_write *w = take(s);
    err why = fate(s, w);
    if (why == ERR_OK) {
        why = apply(s, w);
    } else if (why == ERR_IO) { /* it breaks: some of what waits was still written, in order, none
                                   is told */
        bool written = true;
        s->broken = true;
        for (;;) {
            written = written && rng_below(&s->world->rng, 2) == 0;
            if (written)
                (void)apply(s, w);
            w->done(w, ERR_IO);
            if (s->first == NULL)
                break;
            w = take(s);
        }
        next_write(s);
        return;
    }
    next_write(s);
    w->done(w, why);
}

static void sim_write(struct queue_store *base, struct queue_write *w)
{
    struct sim_store *s = mine(base);
    struct waiting *n = calloc(1, sizeof *n);
    INVARIANT(n != NULL);
    n->write = w;
    *s->last = n;
    s->last = &n->next;
    s->count++;
    if (!s->busy)
        next_write(s);
}

static bool refuses(const struct sim_store *s)
{
    return s->broken || s->faults.down || s->faults.crashed;
}

#define PASS(name, params, args)                                                                   \
    static err sim_##name params                                                                   \
    {                                                                                              \
        struct sim_store *s = mine(base);                                                          \
        return refuses(s) ? ERR_UNAVAILABLE : s->inner->ops->name args;                            \
    }
PASS(own, (struct queue_store * base, const struct queue_own *own), (s->inner, own))
PASS(record, (struct queue_store * base, struct queue_part p, struct queue_part_record *out),
     (s->inner, p, out))
PASS(scan, (struct queue_store * base, const struct queue_scan *scan), (s->inner, scan))
PASS(batch, (struct queue_store * base, struct queue_part p, const struct queue_batch_look *look),
     (s->inner, p, look))
PASS(drop, (struct queue_store * base, struct queue_part p, struct queue_later *later),
     (s->inner, p, later))

static err sim_bodies(struct queue_store *base, struct queue_part p, struct queue_bodies *b)
{
    struct sim_store *s = mine(base);
    if (b->now && rng_below(&s->world->rng, 2) == 0)
        return ERR_AGAIN; /* not in memory */
    return refuses(s) ? ERR_UNAVAILABLE : s->inner->ops->bodies(s->inner, p, b);
}

static err sim_recover(struct queue_store *base, struct err_note *note, struct queue_later *later)
{
    (void)later;
    struct sim_store *s = mine(base);
    while (s->first != NULL) { /* writes are answered first */
        struct queue_write *w = take(s);
        w->done(w, ERR_UNAVAILABLE);
    }
    err_note_set(note, "simulated");
    if (s->faults.down || s->faults.crashed || rng_below(&s->world->rng, 3) == 0)
        return ERR_UNAVAILABLE;
    s->broken = false;
    return ERR_OK;
}

static err sim_heartbeat(struct queue_store *base, mono deadline, struct queue_later *later)
{
    (void)deadline, (void)later;
    return refuses(mine(base)) ? ERR_UNAVAILABLE : ERR_OK;
}

static const struct queue_store_ops sim_ops = {
    .write = sim_write,
    .own = sim_own,
    .record = sim_record,
    .scan = sim_scan,
    .batch = sim_batch,
    .bodies = sim_bodies,
    .drop = sim_drop,
    .recover = sim_recover,
    .heartbeat = sim_heartbeat,
};

struct sim_store *sim_store_new(struct world *w, struct queue_store *inner, const char *name)
{
    struct sim_store *s = calloc(1, sizeof *s);
    INVARIANT(s != NULL);
    *s = (struct sim_store){ .base = { .ops = &sim_ops, .name = name },
                             .inner = inner,
                             .world = w,
                             .faults.delay_ns = NS_PER_MS };
    s->last = &s->first;
    return s;
}

struct queue_store *sim_store_of(struct sim_store *s)
{
    return &s->base;
}

struct sim_faults *sim_store_faults(struct sim_store *s)
{
    return &s->faults;
}

void sim_store_reopen(struct sim_store *s)
{
    INVARIANT(s->first == NULL);
    s->broken = false;
}

bool sim_store_broken(const struct sim_store *s)
{
    return s->broken;
}

unsigned sim_store_waiting(const struct sim_store *s)
{
    return s->count;
}

void sim_store_free(struct sim_store **sp)
{
    INVARIANT((*sp)->first == NULL);
    free(*sp);
    *sp = NULL;
}
