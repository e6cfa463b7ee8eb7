/* indexer.c - carries what is in the log into LMDB, at most INDEX_LAG_MS or INDEX_LAG_ROWS behind.
 *
 * A thread of its own (ADR 0001): an LMDB commit waits for two syncs, and the committer must not.
 *
 *   active --freeze--> frozen --LMDB commit--> dropped; what died goes to space.c */
#include "engine/index.h"
#include "engine/store.h"

#include <poll.h>
#include <unistd.h>

enum { FULL_RETRY_MS = 100 };

void indexer_wake(struct engine *e)
{
    uint64_t one = 1;
    (void)!write(e->wake_fd, &one, sizeof(one)); /* full means it is awake */
}

/* Waits for a wake, at most ms (-1: for ever); false: nobody called. Real time, whatever the
 * engine's clock says. */
static bool wait_for_wake(struct engine *e, int ms)
{
    struct pollfd p = { .fd = e->wake_fd, .events = POLLIN };
    uint64_t count;
    if (poll(&p, 1, ms) == 0)
        return false;
    (void)!read(e->wake_fd, &count, sizeof(count)); /* empty is fine: a signal came */
    return true;
}

static bool has_rows(const struct engine *e)
{
    return e->active->end.seq > e->indexed.seq;
}

/* How long to wait for rows, in ms. While the index has no headroom only updates that free are let
 * in, and there may be none: then nobody but the indexer finds out that the disk has room again. */
static int patience(struct engine *e)
{
    if (!atomic_load(&e->index_full))
        return e->rest_ms;
    pthread_mutex_lock(&e->space);
    err why = index_headroom(e, NULL);
    pthread_mutex_unlock(&e->space);
    if (why != ERR_OK)
        engine_fail(e, "reserving blocks for the index", err_name(why));
    return why == ERR_OK && atomic_load(&e->index_full) ? FULL_RETRY_MS : e->rest_ms;
}

/* Nobody called for a while. Whoever calls now waits for one part of it. */
static void indexer_rest(struct engine *e)
{
    while (index_rest(e))
        if (wait_for_wake(e, 0)) {
            indexer_wake(e); /* for whom it was */
            return;
        }
}

/* Waits for a reason to index; false: stop, nothing is left. Under the index lock, given up while
 * it waits. */
static bool wait_for_work(struct engine *e)
{
    for (;;) {
        bool rows = has_rows(e);
        if (!rows && e->index_stop)
            return false;
        bool flush = e->flush_to > e->indexed.seq || e->index_stop;
        if (rows && (flush || e->active->rows >= INDEX_LAG_ROWS))
            return true;
        pthread_mutex_unlock(&e->index);
        bool woken = wait_for_wake(e, rows ? INDEX_LAG_MS : patience(e));
        if (!rows && !woken)
            indexer_rest(e);
        pthread_mutex_lock(&e->index);
        if (rows && !woken)
            return true;
    }
}

static void indexer_freeze(struct engine *e)
{
    struct overlay *next = overlay_new();
    next->start = next->end = e->active->end;
    next->greatest = e->active->greatest;
    pthread_rwlock_wrlock(&e->state);
    e->frozen = e->active;
    e->active = next;
    pthread_rwlock_unlock(&e->state);
}

/* LMDB holds it: readers need the frozen overlay no longer. Under the space lock. */
static void drop_frozen(struct engine *e, struct dead_batch *batch)
{
    pthread_rwlock_wrlock(&e->state);
    struct overlay *old = e->frozen;
    e->frozen = NULL;
    if (batch != NULL)
        batch->epoch = e->epoch;
    epoch_advance(e);
    pthread_rwlock_unlock(&e->state);
    overlay_unref(&old);
    if (batch != NULL)
        space_add(e, batch);
}

/* Commit and what follows from it, one step for reclaim (space.c). */
static err apply_and_drop(struct engine *e, const char **detail)
{
    struct dead_batch *batch = NULL;
    pthread_mutex_lock(&e->space);
    err why = index_apply(e, e->frozen, &batch, detail);
    if (why == ERR_OK)
        drop_frozen(e, batch);
    pthread_mutex_unlock(&e->space);
    return why;
}

/* On disk first: what the index holds the log may not lose. Also what came since, while the index
 * cannot follow. */
static err sync_log(struct engine *e)
{
    pthread_mutex_lock(&e->index);
    struct vlog_tail to = e->active->end;
    pthread_mutex_unlock(&e->index);
    err why = vlog_sync(e->log, to);
    if (why != ERR_OK)
        engine_fail(e, "syncing the log", err_name(why));
    return why;
}

/* Waits before the commit that found no room is tried again: with what the commit before it freed,
 * which only the one after the next can take. */
static err wait_for_pages(struct engine *e)
{
    (void)wait_for_wake(e, FULL_RETRY_MS); /* tries again whoever woke it */
    pthread_mutex_lock(&e->space);
    err why = index_step(e);
    pthread_mutex_unlock(&e->space);
    if (why != ERR_OK)
        engine_fail(e, "writing the index", err_name(why));
    return why;
}

/* Tries until it works, the disk or the map is full and the engine closes, or it fails for good. */
static err apply_frozen(struct engine *e)
{
    for (;;) {
        const char *detail = NULL;
        err why = sync_log(e);
        if (why != ERR_OK)
            return why;
        why = apply_and_drop(e, &detail);
        if (why == ERR_OK)
            return ERR_OK;
        if (why != ERR_FULL) {
            engine_fail(e, "writing the index", detail);
            return why;
        }
        pthread_mutex_lock(&e->index);
        bool stop = e->index_stop;
        e->index_stuck = true;
        pthread_cond_broadcast(&e->index_moved);
        pthread_mutex_unlock(&e->index);
        if (stop)
            return ERR_FULL; /* the log has it all; the next start replays it */
        why = wait_for_pages(e);
        if (why != ERR_OK)
            return why;
    }
}

/* Fails: the engine closes with a full disk, or it failed. */
static err index_once(struct engine *e)
{
    struct vlog_tail end = e->frozen->end;
    store_time greatest = e->frozen->greatest;
    err why = apply_frozen(e);
    if (why != ERR_OK)
        return why;
    pthread_mutex_lock(&e->index);
    e->index_stuck = false;
    e->indexed = end;
    e->greatest = greatest;
    pthread_cond_broadcast(&e->index_moved);
    pthread_mutex_unlock(&e->index);
    return ERR_OK;
}

void *indexer_run(void *engine)
{
    struct engine *e = engine;
    MAGIC_CHECK(e, ENGINE_MAGIC);
    for (;;) {
        pthread_mutex_lock(&e->index);
        bool work = wait_for_work(e);
        if (work)
            indexer_freeze(e);
        pthread_mutex_unlock(&e->index);
        if (!work || index_once(e) != ERR_OK)
            return NULL;
    }
}

err engine_flush(struct engine *e)
{
    MAGIC_CHECK(e, ENGINE_MAGIC);
    if (e->read_only || !e->started)
        return ERR_OK;
    pthread_mutex_lock(&e->index);
    uint64_t to = atomic_load(&e->published);
    if (to > e->flush_to)
        e->flush_to = to;
    indexer_wake(e);
    err why = ERR_OK;
    while (e->indexed.seq < to && why == ERR_OK) {
        if (atomic_load(&e->failed))
            why = ERR_UNAVAILABLE;
        else if (e->index_stuck)
            why = ERR_FULL;
        else
            pthread_cond_wait(&e->index_moved, &e->index);
    }
    pthread_mutex_unlock(&e->index);
    return why;
}
