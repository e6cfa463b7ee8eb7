/* indexer.c - carries what is in the log into LMDB, at most INDEX_LAG_MS or INDEX_LAG_ROWS behind.
 *
 * A thread of its own (ADR 0001): an LMDB commit waits for two syncs, and the committer must not.
 *
 *   active --freeze--> frozen --LMDB commit--> dropped; what died goes to space.c */
#include "engine/parts.h"

#include <errno.h>
#include <time.h>

enum { FULL_RETRY_MS = 100 };

uint64_t pace_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * (uint64_t)NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* Under the index lock; comes back earlier when there is something to do. */
static void wait_until(struct engine *e, uint64_t ns)
{
    struct timespec ts = { .tv_sec = (time_t)(ns / (uint64_t)NS_PER_S), .tv_nsec = (long)(ns % (uint64_t)NS_PER_S) };
    (void)pthread_cond_clockwait(&e->index_wanted, &e->index, CLOCK_MONOTONIC, &ts); /* ETIMEDOUT is as good */
}

static bool has_rows(const struct engine *e)
{
    return e->active->end.seq > e->indexed.seq;
}

/* Waits for a reason to index; false: stop, nothing is left. Under the index lock. */
static bool wait_for_work(struct engine *e)
{
    for (;;) {
        bool rows = has_rows(e);
        if (!rows && e->index_stop)
            return false;
        if (!rows) {
            pthread_cond_wait(&e->index_wanted, &e->index);
            continue;
        }
        bool flush = e->flush_to > e->indexed.seq || e->index_stop;
        uint64_t due = e->lag_since_ns + (uint64_t)INDEX_LAG_MS * (uint64_t)NS_PER_MS;
        if (flush || e->active->rows >= INDEX_LAG_ROWS || pace_now_ns() >= due)
            return true;
        wait_until(e, due);
    }
}

static void freeze(struct engine *e)
{
    struct overlay *next = overlay_new();
    next->start = next->end = e->active->end;
    next->greatest = e->active->greatest;
    pthread_rwlock_wrlock(&e->state);
    e->frozen = e->active;
    e->active = next;
    pthread_rwlock_unlock(&e->state);
    e->lag_since_ns = 0;
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

/* Tries until it works, the disk is full and the engine closes, or it fails for good. */
static err apply_frozen(struct engine *e)
{
    for (;;) {
        const char *detail = NULL;
        err why = apply_and_drop(e, &detail);
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
        if (!stop)
            wait_until(e, pace_now_ns() + (uint64_t)FULL_RETRY_MS * (uint64_t)NS_PER_MS);
        pthread_mutex_unlock(&e->index);
        if (stop)
            return ERR_FULL; /* the log has it all; the next start replays it */
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
            freeze(e);
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
    pthread_cond_signal(&e->index_wanted);
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
