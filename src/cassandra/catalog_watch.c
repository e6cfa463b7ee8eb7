/* catalog_watch.c - copies of scopes that follow the cluster: a look each second, and a load when
 * the generation is another one.
 *
 * Invariants:
 *   1 a copy is replaced only by one whose reading began later. So no copy that was read before a
 *     change of this server's own comes back behind that change; nor does one that was forgotten;
 *   2 fresh_at belongs to the copy: the generation was still the copy's when that look began;
 *   3 at most one look or load is under way. The loop thread alone starts them. */
#include "cassandra/catalog_impl.h"
#include "loop/loop.h"

#include <pthread.h>
#include <stdlib.h>

enum { LOOK_MS = 1500, LOAD_MS = 20000 };

/* One copy that follows a scope. Owner: the caller of catalog_watch_new. */
struct catalog_watch {
    uint32_t magic;
    struct catalog_watch_opts opts;
    struct loop_timer *timer; /* NULL once it was stopped */
    struct catalog_look look;
    struct catalog_load load;
    mono looked_at;           /* when the look under way began */
    bool under_way, stopping; /* loop thread only */
    void (*stopped)(void *ctx);
    void *stopped_ctx;
    pthread_mutex_t lock; /* of rows and fresh_at */
    struct catalog_rows *rows;
    mono fresh_at, forgotten_at;
    _Atomic int64_t fresh_ns; /* fresh_at again, without the lock; 0: no copy */
};
#define CATALOG_WATCH_MAGIC 0xca7a107cu

static void watch_lock(struct catalog_watch *w)
{
    INVARIANT(pthread_mutex_lock(&w->lock) == 0);
}

static void watch_unlock(struct catalog_watch *w)
{
    INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
}

/* Under the lock. */
static void fresh_raise(struct catalog_watch *w, mono at)
{
    if (w->fresh_at.ns < at.ns)
        w->fresh_at = at;
    atomic_store_explicit(&w->fresh_ns, w->fresh_at.ns, memory_order_release);
}

/* Takes a copy unless the present copy was asked for later. Thread: any, so the lock. True: it was
 * taken. */
static bool copy_take(struct catalog_watch *w, struct catalog_rows *rows)
{
    struct catalog_rows *old = NULL;
    watch_lock(w);
    /* Without a copy the instant of forgetting counts: a load that began before it would bring back
     * what was to go. */
    mono behind = w->rows == NULL ? w->forgotten_at : w->rows->asked_at;
    bool later = behind.ns < rows->asked_at.ns;
    if (later) {
        old = w->rows;
        w->rows = catalog_rows_hold(rows);
        fresh_raise(w, rows->asked_at);
    }
    watch_unlock(w);
    /* Outside the lock: freeing a large copy takes time. */
    catalog_rows_drop(&old);
    return later;
}

static void watch_stopped(void *ctx)
{
    struct catalog_watch *w = ctx;
    w->stopped(w->stopped_ctx);
}

/* No look is under way. A stop that waited for this is told, later, on the loop. */
static void watch_rest(struct catalog_watch *w)
{
    w->under_way = false;
    if (w->stopping)
        loop_post(w->opts.catalog->loop, watch_stopped, w);
}

/* A load that failed leaves the old copy: its age says how far it may be trusted. */
static void watch_loaded(struct store_call *call)
{
    struct catalog_watch *w = CONTAINER_OF(call, struct catalog_watch, load.call);
    if (call->why == ERR_OK) {
        /* The hook runs on the loop while `load.rows` holds the copy, so it may look without a
         * lock. */
        if (copy_take(w, w->load.rows) && !w->stopping && w->opts.changed != NULL)
            w->opts.changed(w->opts.ctx, w->load.rows);
        catalog_rows_drop(&w->load.rows);
    }
    watch_rest(w);
}

static void watch_load(struct catalog_watch *w)
{
    w->load = (struct catalog_load){
        .call = { .home = loop_home(w->opts.catalog->loop),
                  .done = watch_loaded,
                  .deadline = mono_add_ms(clock_mono(w->opts.catalog->clock), LOAD_MS) },
        .scope = str_of(w->opts.scope)
    };
    store_call_then(catalog_load(w->opts.catalog, &w->load), &w->load.call);
}

/* Is the copy as the look saw the scope? Then it was good when the look began, and is fresher for
 * it. */
static bool copy_is_current(struct catalog_watch *w)
{
    watch_lock(w);
    bool current = w->rows != NULL && catalog_id_eq(&w->rows->generation, &w->look.generation);
    if (current)
        fresh_raise(w, w->looked_at);
    watch_unlock(w);
    return current;
}

static void watch_looked(struct store_call *call)
{
    struct catalog_watch *w = CONTAINER_OF(call, struct catalog_watch, look.call);
    if (call->why == ERR_OK && !w->stopping && !copy_is_current(w))
        watch_load(w);
    else
        watch_rest(w);
}

static void watch_fired(void *ctx)
{
    struct catalog_watch *w = ctx;
    /* A look that is slow is not joined by a second one: a cluster in trouble is asked less, not
     * more. */
    if (w->under_way || w->stopping)
        return;
    w->under_way = true;
    w->looked_at = clock_mono(w->opts.catalog->clock);
    w->look = (struct catalog_look){ .call = { .home = loop_home(w->opts.catalog->loop),
                                               .done = watch_looked,
                                               .deadline = mono_add_ms(w->looked_at, LOOK_MS) },
                                     .scope = str_of(w->opts.scope) };
    store_call_then(catalog_look(w->opts.catalog, &w->look), &w->look.call);
}

struct catalog_watch *catalog_watch_new(const struct catalog_watch_opts *o)
{
    struct catalog_watch *w = calloc(1, sizeof *w);
    INVARIANT(w != NULL);
    *w = (struct catalog_watch){ .magic = CATALOG_WATCH_MAGIC, .opts = *o };
    if (w->opts.poll_ms == 0)
        w->opts.poll_ms = CATALOG_POLL_MS;
    INVARIANT(pthread_mutex_init(&w->lock, NULL) == 0);
    w->timer = loop_timer_new(o->catalog->loop, watch_fired, w);
    loop_timer_start(w->timer, 0, w->opts.poll_ms);
    return w;
}

void catalog_watch_stop(struct catalog_watch *w, void (*stopped)(void *ctx), void *ctx)
{
    MAGIC_CHECK(w, CATALOG_WATCH_MAGIC);
    INVARIANT(!w->stopping);
    w->stopping = true;
    w->stopped = stopped;
    w->stopped_ctx = ctx;
    /* Freed here and not in catalog_watch_free: the loop may be gone by then, and must have no
     * timer. */
    loop_timer_free(&w->timer);
    if (!w->under_way)
        loop_post(w->opts.catalog->loop, watch_stopped, w);
}

void catalog_watch_free(struct catalog_watch **wp)
{
    struct catalog_watch *w = *wp;
    *wp = NULL;
    if (w == NULL)
        return;
    MAGIC_CHECK(w, CATALOG_WATCH_MAGIC);
    /* Requests under way write into the watch. */
    INVARIANT(!w->under_way);
    if (w->timer != NULL)
        loop_timer_free(&w->timer);
    catalog_rows_drop(&w->rows);
    INVARIANT(pthread_mutex_destroy(&w->lock) == 0);
    w->magic = 0;
    free(w);
}

struct catalog_rows *catalog_watch_rows(struct catalog_watch *w, mono *fresh_at)
{
    MAGIC_CHECK(w, CATALOG_WATCH_MAGIC);
    watch_lock(w);
    struct catalog_rows *rows = w->rows == NULL ? NULL : catalog_rows_hold(w->rows);
    *fresh_at = w->fresh_at;
    watch_unlock(w);
    return rows;
}

bool catalog_watch_fresh(const struct catalog_watch *w, mono *fresh_at)
{
    MAGIC_CHECK(w, CATALOG_WATCH_MAGIC);
    fresh_at->ns = atomic_load_explicit(&w->fresh_ns, memory_order_acquire);
    return fresh_at->ns != 0;
}

void catalog_watch_take(struct catalog_watch *w, struct catalog_rows *rows)
{
    MAGIC_CHECK(w, CATALOG_WATCH_MAGIC);
    (void)copy_take(w, rows); /* a later one is as good */
}

void catalog_watch_forget(struct catalog_watch *w)
{
    MAGIC_CHECK(w, CATALOG_WATCH_MAGIC);
    watch_lock(w);
    struct catalog_rows *old = w->rows;
    w->rows = NULL;
    /* A reading that is under way began before this instant, and copy_take refuses its copy. */
    w->forgotten_at = clock_mono(w->opts.catalog->clock);
    w->fresh_at.ns = 0;
    atomic_store_explicit(&w->fresh_ns, 0, memory_order_release);
    watch_unlock(w);
    catalog_rows_drop(&old);
}
