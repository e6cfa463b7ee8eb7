/* upkeep.c - the jobs that run by themselves: culls, compaction, checks of free space.
 *
 * Invariants:
 *  1. Each job is in the air at most once (busy).
 *  2. Rounds of culling hold lock, so that the timer's and the clock hook's never mix.
 *  3. After stopped no timer is started.
 *  4. A part that failed stands still for UPKEEP_PERIOD_MS, or until the clock hook asks; the other
 *     goes on. */
#include "server/upkeep.h"

#include "engine/store.h"
#include "event/log.h"
#include "loop/loop.h"
#include "queue/store/open.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

#define UPKEEP_MAGIC 0x0fbeeb01u

enum {
    TOLD_MS = 60000, /* a cluster may be away for hours */
};

/* What is culled apart from the other. */
struct part {
    const char *name;
    mono again_at; /* after it failed */
    err told;      /* in the log, at most once in TOLD_MS */
    mono tell_at;
    bool more;
    store_time next;
};

/* Space of one store. Each has jobs of its own: one whose disk does not answer holds up no
 * other. */
struct reclaim {
    struct upkeep *upkeep;
    struct queue_store *store; /* NULL: the main store */
    struct loop_timer *timer;
    struct loop_job job;
    bool busy;
    bool more; /* the job's result */
    struct reclaim *next;
};

struct upkeep {
    uint32_t magic;
    struct app *app;
    pthread_mutex_t lock; /* of one round, and of the parts */
    struct part pages, tables, events;
    struct loop_timer *cull_timer;
    struct loop_job cull;
    bool cull_busy, stopped;
    bool cull_more;           /* the job's result */
    struct reclaim *reclaims; /* the main store's is the last */
    store_time cull_next;
    struct metric *failures, *batches;
};

static bool part_begin(const struct upkeep *u, struct part *p)
{
    if (clock_mono(u->app->clock).ns < p->again_at.ns)
        return false;
    p->more = false;
    p->next = STORE_TIME_NEVER;
    return true;
}

/* A failure is logged, and tried again later: a full disk must not stop the server. */
static void part_end(struct upkeep *u, struct part *p, err why)
{
    if (why == ERR_OK)
        return;
    p->more = false;
    p->next = STORE_TIME_NEVER;
    p->again_at = mono_add_ms(clock_mono(u->app->clock), UPKEEP_PERIOD_MS);
    if (why == ERR_SHUTDOWN)
        return;
    metric_add(u->failures, 1);
    const mono now = clock_mono(u->app->clock);
    if (why == p->told && now.ns < p->tell_at.ns)
        return;
    p->told = why;
    p->tell_at = mono_add_ms(now, TOLD_MS);
    log_event(u->app->log, LOG_WARN, "upkeep.failed", LOG_CSTR("part", p->name),
              LOG_CSTR("why", err_name(why)),
              LOG_CSTR("what", why == ERR_FULL
                                   ? "culling found no room on the disk; it is tried again"
                                   : "culling failed; it is tried again"));
}

/* One batch of every part that does not stand still. */
static void batch(struct upkeep *u, bool *more, store_time *next)
{
    if (part_begin(u, &u->pages))
        part_end(u, &u->pages,
                 page_store_upkeep(u->app->page.store, &u->pages.more, &u->pages.next));
    if (part_begin(u, &u->tables))
        part_end(u, &u->tables,
                 table_store_upkeep(u->app->tables, &u->tables.more, &u->tables.next));
    if (part_begin(u, &u->events))
        part_end(u, &u->events, event_log_upkeep(u->app->events, &u->events.more, &u->events.next));
    metric_add(u->batches, 1);
    *more = u->pages.more || u->tables.more || u->events.more;
    *next = store_time_min(u->pages.next, store_time_min(u->tables.next, u->events.next));
}

void upkeep_all(struct upkeep *u)
{
    MAGIC_CHECK(u, UPKEEP_MAGIC);
    bool more = true;
    store_time next = STORE_TIME_NEVER, last = STORE_TIME_ZERO;
    INVARIANT(pthread_mutex_lock(&u->lock) == 0);
    u->pages.again_at = u->tables.again_at = u->events.again_at = (mono){ .ns = 0 };
    /* A row that cannot be culled stays due: next does not move then. */
    while (more || (next.ns != last.ns && store_time_before(next, clock_store(u->app->clock)))) {
        last = next;
        batch(u, &more, &next);
    }
    INVARIANT(pthread_mutex_unlock(&u->lock) == 0);
}

static void cull_run(struct loop_job *j)
{
    struct upkeep *u = CONTAINER_OF(j, struct upkeep, cull);
    mono until = mono_add_ms(clock_mono(u->app->clock), UPKEEP_ROUND_MS_MAX);
    INVARIANT(pthread_mutex_lock(&u->lock) == 0);
    do {
        batch(u, &u->cull_more, &u->cull_next);
    } while (u->cull_more && clock_mono(u->app->clock).ns < until.ns);
    INVARIANT(pthread_mutex_unlock(&u->lock) == 0);
}

static int64_t cull_wait_ms(const struct upkeep *u)
{
    if (u->cull_more)
        return 0;
    if (u->cull_next.ns == INT64_MAX)
        return UPKEEP_PERIOD_MS;
    int64_t left_ms = (u->cull_next.ns - clock_store(u->app->clock).ns) / NS_PER_MS + 1;
    return left_ms < 1 || left_ms > UPKEEP_PERIOD_MS ? UPKEEP_PERIOD_MS : left_ms;
}

static void cull_done(struct loop_job *j, bool canceled)
{
    struct upkeep *u = CONTAINER_OF(j, struct upkeep, cull);
    u->cull_busy = false;
    if (!u->stopped && !canceled)
        loop_timer_start(u->cull_timer, cull_wait_ms(u), 0);
}

/* What a big body was taken apart into lies scattered over the workers' heaps: free() alone keeps
 * all of it. So it does with what large answers were. */
static void upkeep_trim(struct app *app)
{
    if (budget_fallen(app->budget) >= UPKEEP_FALLEN_BYTES)
        atomic_store(&app->trims, APP_TRIMS);
    unsigned trims = atomic_load(&app->trims);
    if (trims == 0)
        return;
    (void)malloc_trim(0); /* says only whether there was any */
    /* Another body meanwhile: its rounds are all to come. */
    (void)atomic_compare_exchange_strong(&app->trims, &trims, trims - 1);
}

static void reclaim_run(struct loop_job *j)
{
    struct reclaim *r = CONTAINER_OF(j, struct reclaim, job);
    struct upkeep *u = r->upkeep;
    r->more = false;
    if (r->store == NULL)
        upkeep_trim(u->app);
    err why = r->store == NULL ? engine_reclaim(u->app->engine, &r->more)
                               : r->store->ops->reclaim(r->store, &r->more);
    if (why == ERR_OK || why == ERR_SHUTDOWN || (r->store != NULL && why == ERR_UNAVAILABLE))
        return; /* of a store that is away the queues tell */
    r->more = false;
    metric_add(u->failures, 1);
    log_event(u->app->log, LOG_WARN, "upkeep.failed", LOG_CSTR("part", "space"),
              LOG_CSTR("store", r->store == NULL ? "main" : r->store->name),
              LOG_CSTR("why", err_name(why)),
              LOG_CSTR("what", "freed space was not given back; it is tried again"));
}

static void reclaim_done(struct loop_job *j, bool canceled)
{
    struct reclaim *r = CONTAINER_OF(j, struct reclaim, job);
    r->busy = false;
    if (!r->upkeep->stopped && !canceled)
        loop_timer_start(r->timer, r->more ? RECLAIM_MORE_MS : RECLAIM_PERIOD_MS, 0);
}

static void cull_fired(void *ctx)
{
    struct upkeep *u = ctx;
    MAGIC_CHECK(u, UPKEEP_MAGIC);
    INVARIANT(!u->cull_busy);
    u->cull_busy = true;
    loop_job_start(u->app->loop, &u->cull);
}

static void reclaim_fired(void *ctx)
{
    struct reclaim *r = ctx;
    MAGIC_CHECK(r->upkeep, UPKEEP_MAGIC);
    INVARIANT(!r->busy);
    r->busy = true;
    loop_job_start(r->upkeep->app->loop, &r->job);
}

static void reclaim_add(struct upkeep *u, struct queue_store *store)
{
    struct reclaim *r = calloc(1, sizeof *r);
    INVARIANT(r != NULL);
    *r = (struct reclaim){ .upkeep = u, .store = store, .next = u->reclaims };
    r->job = (struct loop_job){ .run = reclaim_run, .done = reclaim_done };
    r->timer = loop_timer_new(u->app->loop, reclaim_fired, r);
    u->reclaims = r;
}

void upkeep_store(struct upkeep *u, struct queue_store *store)
{
    MAGIC_CHECK(u, UPKEEP_MAGIC);
    if (store->ops->reclaim != NULL)
        reclaim_add(u, store);
}

struct upkeep *upkeep_new(struct app *app)
{
    struct upkeep *u = calloc(1, sizeof *u);
    INVARIANT(u != NULL);
    u->magic = UPKEEP_MAGIC;
    u->app = app;
    INVARIANT(pthread_mutex_init(&u->lock, NULL) == 0);
    u->pages = (struct part){ .name = "pages", .next = STORE_TIME_NEVER };
    u->tables = (struct part){ .name = "tables", .next = STORE_TIME_NEVER };
    u->events = (struct part){ .name = "events", .next = STORE_TIME_NEVER };
    u->cull = (struct loop_job){ .run = cull_run, .done = cull_done };
    u->cull_timer = loop_timer_new(app->loop, cull_fired, u);
    reclaim_add(u, NULL);
    u->batches = metrics_one(app->metrics, METRIC_UPKEEP_BATCHES);
    u->failures = metrics_one(app->metrics, METRIC_UPKEEP_FAILURES);
    return u;
}

void upkeep_begin(struct upkeep *u)
{
    loop_timer_start(u->cull_timer, 0, 0);
    for (struct reclaim *r = u->reclaims; r != NULL; r = r->next)
        loop_timer_start(r->timer, RECLAIM_PERIOD_MS, 0);
}

void upkeep_stop(struct upkeep *u)
{
    MAGIC_CHECK(u, UPKEEP_MAGIC);
    u->stopped = true;
    loop_timer_stop(u->cull_timer);
    for (struct reclaim *r = u->reclaims; r != NULL; r = r->next)
        loop_timer_stop(r->timer);
}

bool upkeep_busy(const struct upkeep *u)
{
    bool busy = u->cull_busy;
    for (const struct reclaim *r = u->reclaims; r != NULL; r = r->next)
        busy = busy || r->busy;
    return busy;
}

void upkeep_free(struct upkeep **up)
{
    struct upkeep *u = *up;
    if (u == NULL)
        return;
    MAGIC_CHECK(u, UPKEEP_MAGIC);
    INVARIANT(!upkeep_busy(u));
    loop_timer_free(&u->cull_timer);
    while (u->reclaims != NULL) {
        struct reclaim *r = u->reclaims;
        u->reclaims = r->next;
        loop_timer_free(&r->timer);
        free(r);
    }
    INVARIANT(pthread_mutex_destroy(&u->lock) == 0);
    u->magic = 0;
    free(u);
    *up = NULL;
}
