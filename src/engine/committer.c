/* committer.c - takes what waits, decides one after the other, writes one group, answers all in
 * order.
 *
 * A group with a synced update:
 *   decide all -> write -> answer the unsynced -> sync -> publish -> answer the others
 * One of unsynced alone:
 *   decide all -> write -> publish -> answer all
 *
 * Invariants
 *  1. A decision sees everything acknowledged and everything decided before it in its group.
 *  2. done of a synced update is called after the group and all groups before it are on disk, in
 *     the order of submission; an error too, because it may rest on rows of the same group. Also
 *  when it wrote nothing. 3. After a failed write or sync nothing is acknowledged any more.
 *  4. A group is not left unsynced when an older one has been for sync_interval_ms. The indexer
 *     syncs what nothing follows: LMDB never holds a group that the log may still lose. */
#include "engine/parts.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct group {
    struct engine *engine;
    struct overlay *pending;
    struct engine_view *view;
    struct engine_update *updates[GROUP_UPDATES_MAX];
    err results[GROUP_UPDATES_MAX];
    uint32_t count;
    uint64_t seq;   /* of the last update, within the group */
    uint64_t bytes; /* at most this much in the log */
    uint64_t rows;
    bool no_space; /* the disk is low: only updates that free */
    struct record_mutation *mutations;
    size_t mutations_size;
};

/* ---- what a decision may do ---- */

struct engine_view *engine_txn_view(struct engine_txn *t)
{
    return t->view;
}

store_time engine_txn_now(const struct engine_txn *t)
{
    return t->now;
}

static struct record_mutation mutation_of(const struct overlay_node *n)
{
    const struct engine_blob *b = &n->blob;
    struct record_mutation m = {
        .deleted = n->deleted,
        .space = (uint8_t)n->key[0],
        .key = str_skip(overlay_key(n), 1),
        .value = overlay_value(n),
        .place = { .hash = b->hash, .n = (uint32_t)b->n },
    };
    if (b->n == 0)
        return m;
    m.blob = n->fresh || blob_in_log(b) ? RECORD_BLOB_LOG : RECORD_BLOB_INLINE;
    m.bytes = (str){ .p = b->mem, .n = b->mem == NULL ? 0 : b->n };
    if (blob_in_log(b)) {
        m.place.segment = b->segment;
        m.place.extent_offset = b->extent_offset;
        m.place.extent_size = b->extent_size;
        m.place.value_offset = b->value_offset;
    }
    return m;
}

static err txn_write(struct engine_txn *t, struct overlay_row *row)
{
    if (t->rows >= ENGINE_UPDATE_ROWS_MAX)
        return ERR_LIMIT;
    row->seq = t->seq;
    struct overlay_node *n = overlay_find(t->pending, row->key, UINT64_MAX);
    if (n != NULL && n->seq == t->seq) {
        struct record_mutation before = mutation_of(n); /* it is not written */
        t->bytes -= vlog_mutation_bytes(&before);
        overlay_replace(t->pending, n, row);
    } else {
        n = overlay_add(t->pending, row);
        n->written_before = t->written;
        t->written = n;
    }
    struct record_mutation m = mutation_of(n);
    t->bytes += vlog_mutation_bytes(&m);
    t->rows++;
    return ERR_OK;
}

static bool sizes_fit(str key, str value, uint64_t bytes)
{
    return key.n <= ENGINE_KEY_BYTES_MAX && value.n <= ENGINE_VALUE_BYTES_MAX &&
           bytes <= ENGINE_BLOB_BYTES_MAX;
}

struct engine_blob engine_blob_of(str bytes)
{
    if (bytes.n == 0)
        return (struct engine_blob){ .n = 0 };
    return (
        struct engine_blob){ .n = bytes.n, .hash = XXH3_64bits(bytes.p, bytes.n), .mem = bytes.p };
}

err engine_txn_put_blob(struct engine_txn *t, enum engine_space space, str key, str value,
                        const struct engine_blob *blob)
{
    if (!sizes_fit(key, value, blob->n))
        return ERR_LIMIT;
    char buf[DB_KEY_BYTES_MAX];
    struct overlay_row row = { .key = db_key(space, key, buf),
                               .value = value,
                               .blob = *blob,
                               .fresh = blob->n > ENGINE_INLINE_BYTES_MAX };
    return txn_write(t, &row);
}

err engine_txn_put(struct engine_txn *t, enum engine_space space, str key, str value, str bytes)
{
    if (bytes.n > ENGINE_BLOB_BYTES_MAX)
        return ERR_LIMIT;
    const struct engine_blob blob = engine_blob_of(bytes);
    return engine_txn_put_blob(t, space, key, value, &blob);
}

err engine_txn_put_value(struct engine_txn *t, enum engine_space space, str key, str value)
{
    if (!sizes_fit(key, value, 0))
        return ERR_LIMIT;
    struct engine_row old;
    err why = engine_get(t->view, space, key, &old);
    if (why != ERR_OK)
        return why;
    char buf[DB_KEY_BYTES_MAX];
    struct overlay_row row = { .key = db_key(space, key, buf), .value = value, .blob = old.blob };
    row.fresh = old.blob.n > ENGINE_INLINE_BYTES_MAX && old.blob.mem != NULL;
    return txn_write(t, &row);
}

err engine_txn_delete(struct engine_txn *t, enum engine_space space, str key)
{
    struct engine_row old;
    err why = engine_get(t->view, space, key, &old);
    if (why == ERR_NOT_FOUND)
        return ERR_OK;
    if (why != ERR_OK && why != ERR_CORRUPT) /* a damaged row may be deleted */
        return why;
    char buf[DB_KEY_BYTES_MAX];
    struct overlay_row row = { .key = db_key(space, key, buf), .deleted = true };
    return txn_write(t, &row);
}

/* ---- one update ---- */

/* Is there room for what t wrote, on top of the group so far? */
static err admit(struct group *g, const struct engine_txn *t, bool frees)
{
    struct engine *e = g->engine;
    if (!frees && (g->no_space || atomic_load(&e->index_full)))
        return ERR_FULL;
    err why = vlog_reserve(e->log, g->bytes + t->bytes);
    if (why == ERR_FULL)
        return ERR_FULL;
    if (why != ERR_OK)
        engine_fail(e, "reserving blocks in the log", err_name(why));
    return why;
}

static err committer_decide(struct group *g, struct engine_update *u)
{
    struct engine *e = g->engine;
    if (u->deadline.ns > 0 && clock_mono(e->clock).ns >= u->deadline.ns)
        return ERR_TIMEOUT;
    e->last_now = store_time_max(e->last_now, clock_store(e->clock));
    struct engine_txn t = {
        .engine = e,
        .view = g->view,
        .pending = g->pending,
        .seq = ++g->seq,
        .now = e->last_now,
    };
    err why = u->decide(&t, u->ctx);
    while (g->view->open != NULL) {
        struct engine_cursor *c = g->view->open;
        engine_cursor_close(&c);
    }
    if (why == ERR_OK && t.written != NULL)
        why = admit(g, &t, u->frees);
    if (why != ERR_OK) {
        for (struct overlay_node *n = t.written; n != NULL; n = n->written_before)
            n->aborted = true;
        return why;
    }
    g->bytes += t.bytes;
    g->rows += t.rows;
    return ERR_OK;
}

/* ---- one group ---- */

static uint32_t collect(struct group *g)
{
    if (g->mutations_size < g->pending->rows) {
        g->mutations_size = g->pending->rows;
        free(g->mutations);
        g->mutations = malloc(g->mutations_size * sizeof(*g->mutations));
        INVARIANT(g->mutations != NULL);
    }
    uint32_t count = 0;
    for (struct overlay_node *n = overlay_next(g->pending, NULL, UINT64_MAX); n != NULL;
         n = overlay_next(g->pending, n, UINT64_MAX))
        g->mutations[count++] = mutation_of(n);
    return count;
}

static struct engine_blob blob_of(const struct record_mutation *m)
{
    struct engine_blob b = { .n = m->place.n, .hash = m->place.hash };
    if (m->blob == RECORD_BLOB_INLINE)
        b.mem = m->bytes.p;
    if (m->blob == RECORD_BLOB_LOG) {
        b.segment = m->place.segment;
        b.extent_offset = m->place.extent_offset;
        b.extent_size = m->place.extent_size;
        b.value_offset = m->place.value_offset;
    }
    return b;
}

/* Did the blob come with a group of this overlay? An older one is the index's to free: it knows the
 * row that owned it, whatever stood here in between. */
static bool written_since(const struct overlay *o, const struct engine_blob *b)
{
    if (!blob_in_log(b))
        return false;
    return b->segment > o->start.segment ||
           (b->segment == o->start.segment && b->extent_offset >= o->start.offset);
}

void publish_row(struct overlay *o, const struct record_mutation *m, uint64_t seq)
{
    char buf[DB_KEY_BYTES_MAX];
    struct overlay_row row = {
        .key = db_key((enum engine_space)m->space, m->key, buf),
        .value = m->value,
        .blob = blob_of(m),
        .deleted = m->deleted,
        .seq = seq,
    };
    const struct overlay_node *old = overlay_find(o, row.key, UINT64_MAX);
    if (old != NULL && written_since(o, &old->blob) && !blob_same_place(&old->blob, &row.blob))
        overlay_dead_add(o, (struct vlog_extent){
                                .segment = old->blob.segment,
                                .offset = old->blob.extent_offset,
                                .size = old->blob.extent_size,
                            });
    (void)overlay_add(o, &row);
}

void publish_group(struct overlay *o, const struct vlog_found *g)
{
    if (g->head.values == 0)
        overlay_dead_add(o, g->whole);
    o->end = g->after;
    o->greatest = store_time_max(o->greatest, g->head.time);
}

static void publish(struct group *g, const struct vlog_group *lg, struct vlog_extent whole)
{
    struct engine *e = g->engine;
    struct vlog_found found = {
        .head = { .seq = lg->seq, .time = lg->time },
        .whole = whole,
        .after = vlog_tail(e->log),
    };
    pthread_mutex_lock(&e->index);
    bool first = e->active->end.seq == e->active->start.seq;
    for (uint32_t i = 0; i < lg->count; i++) {
        const struct record_mutation *m = &lg->mutations[i];
        found.head.values += m->blob == RECORD_BLOB_LOG && m->bytes.p != NULL;
        publish_row(e->active, m, lg->seq);
    }
    publish_group(e->active, &found);
    atomic_store_explicit(&e->published, lg->seq, memory_order_release);
    if (first)
        e->lag_since = clock_mono(e->clock);
    bool wake = first || e->active->rows >= INDEX_LAG_ROWS;
    pthread_mutex_unlock(&e->index);
    if (wake)
        indexer_wake(e);
}

/* Calls done of the updates that are acknowledged as ack says. */
static void committer_answer(struct group *g, enum engine_ack ack, err why)
{
    for (uint32_t i = 0; i < g->count; i++) {
        struct engine_update *u = g->updates[i];
        if (u == NULL || u->ack != ack)
            continue;
        err result = why != ERR_OK && g->results[i] == ERR_OK ? why : g->results[i];
        if (result == ERR_OK)
            atomic_fetch_add_explicit(&g->engine->updates, 1, memory_order_relaxed);
        g->updates[i] = NULL; /* the caller's again */
        u->done(u->ctx, result);
    }
}

static err group_append(struct group *g, struct vlog_group *lg, struct vlog_extent *whole)
{
    struct engine *e = g->engine;
    if (lg->count == 0)
        return ERR_OK;
    bool all_synced = vlog_synced(e->log) == vlog_tail(e->log).seq;
    err why = vlog_append(e->log, lg, whole);
    if (why != ERR_OK) {
        engine_fail(e, "writing the log", err_name(why));
        return ERR_IO;
    }
    if (all_synced)
        e->unsynced_since = clock_mono(e->clock);
    return ERR_OK;
}

static err log_sync(struct engine *e)
{
    err why = vlog_sync(e->log, vlog_tail(e->log));
    if (why != ERR_OK)
        engine_fail(e, "syncing the log", err_name(why));
    return why;
}

/* Must the group be on disk before its last update is answered? */
static bool group_wants_sync(const struct group *g)
{
    const struct engine *e = g->engine;
    for (uint32_t i = 0; i < g->count; i++)
        if (g->updates[i]->ack != ENGINE_ACK_UNSYNCED)
            return true;
    return vlog_synced(e->log) < vlog_tail(e->log).seq &&
           clock_mono(e->clock).ns - e->unsynced_since.ns >= e->sync_interval_ms * NS_PER_MS;
}

/* Writes what was decided and answers everybody. */
static void group_write(struct group *g)
{
    struct engine *e = g->engine;
    bool sync = group_wants_sync(g);
    struct vlog_group lg = { .seq = vlog_tail(e->log).seq + 1,
                             .time = e->last_now,
                             .count = collect(g) };
    lg.no_zeros = g->no_space;
    lg.mutations = g->mutations;
    struct vlog_extent whole;
    err why = group_append(g, &lg, &whole);
    if (sync) {
        committer_answer(g, ENGINE_ACK_UNSYNCED, why);
        why = why == ERR_OK ? log_sync(e) : why;
    }
    if (why == ERR_OK && lg.count > 0)
        publish(g, &lg, whole);
    committer_answer(g, ENGINE_ACK_UNSYNCED, why);
    committer_answer(g, ENGINE_ACK_SYNCED, why);
}

static void group_refuse(struct group *g)
{
    committer_answer(g, ENGINE_ACK_UNSYNCED, ERR_UNAVAILABLE);
    committer_answer(g, ENGINE_ACK_SYNCED, ERR_UNAVAILABLE);
}

/* Must the group wait for the index? Under its lock. */
static bool index_is_behind(const struct engine *e)
{
    return e->active->rows >= OVERLAY_ROWS_MAX || e->active->bytes >= OVERLAY_BYTES_MAX;
}

/* Waits while the index is too far behind. ERR_FULL: it cannot follow. */
static err wait_for_index(struct engine *e)
{
    pthread_mutex_lock(&e->index);
    err why = ERR_OK;
    while (index_is_behind(e)) {
        if (atomic_load(&e->failed))
            why = ERR_UNAVAILABLE;
        else if (e->index_stuck)
            why = ERR_FULL;
        if (why != ERR_OK)
            break;
        indexer_wake(e);
        pthread_cond_wait(&e->index_moved, &e->index);
    }
    pthread_mutex_unlock(&e->index);
    return why;
}

static void group_begin(struct group *g)
{
    struct engine *e = g->engine;
    g->pending = overlay_new();
    g->view = view_begin_pending(e, g->pending);
    g->count = 0;
    g->seq = g->bytes = g->rows = 0;
    uint64_t space = 0;
    int why = file_space(e->faults, e->log_fd, &space);
    g->no_space = why == 0 && space < e->free_bytes_min;
}

/* Bounds what goes into the log, and the memory, which also holds what failed decisions wrote. */
static bool group_is_full(const struct group *g)
{
    return g->count == GROUP_UPDATES_MAX || g->bytes >= GROUP_BYTES_MAX ||
           g->rows >= GROUP_ROWS_MAX || g->pending->bytes >= GROUP_BYTES_MAX;
}

/* Runs one group off the front of list; returns what is left of it. */
static struct engine_update *group_run(struct group *g, struct engine_update *list)
{
    struct engine *e = g->engine;
    err room = wait_for_index(e);
    group_begin(g);
    while (list != NULL && !group_is_full(g)) {
        struct engine_update *u = list;
        bool dead = atomic_load(&e->failed);
        list = u->next;
        g->updates[g->count] = u;
        g->results[g->count++] = dead             ? ERR_UNAVAILABLE
                                 : room != ERR_OK ? room
                                                  : committer_decide(g, u);
    }
    engine_view_end(&g->view);
    if (atomic_load(&e->failed))
        group_refuse(g);
    else
        group_write(g);
    pthread_mutex_lock(&e->queue);
    e->waiting -= g->count;
    pthread_mutex_unlock(&e->queue);
    overlay_unref(&g->pending);
    return list;
}

/* Waits for work; NULL when the engine closes and nothing is left. */
static struct engine_update *queue_take(struct engine *e)
{
    pthread_mutex_lock(&e->queue);
    while (e->first == NULL && !e->closing)
        pthread_cond_wait(&e->queue_filled, &e->queue);
    struct engine_update *list = e->first;
    e->first = e->last = NULL;
    pthread_mutex_unlock(&e->queue);
    return list;
}

void *committer_run(void *engine)
{
    struct engine *e = engine;
    MAGIC_CHECK(e, ENGINE_MAGIC);
    struct group *g = calloc(1, sizeof(*g));
    INVARIANT(g != NULL);
    g->engine = e;
    for (struct engine_update *list = queue_take(e); list != NULL; list = queue_take(e))
        while (list != NULL)
            list = group_run(g, list);
    if (!atomic_load(&e->failed))
        (void)log_sync(e); /* told by engine_fail */
    free(g->mutations);
    free(g);
    return NULL;
}

/* ---- submitting ---- */

static err enqueue(struct engine *e, struct engine_update *u)
{
    u->next = NULL;
    pthread_mutex_lock(&e->queue);
    err why = ERR_OK;
    if (!e->started || e->closing)
        why = ERR_SHUTDOWN;
    else if (e->waiting >= e->waiting_max)
        why = ERR_LIMIT;
    if (why == ERR_OK) {
        if (e->last == NULL)
            e->first = u;
        else
            e->last->next = u;
        e->last = u;
        e->waiting++;
        if (e->first == u)
            pthread_cond_signal(&e->queue_filled);
    }
    pthread_mutex_unlock(&e->queue);
    return why;
}

void engine_submit(struct engine *e, struct engine_update *u)
{
    MAGIC_CHECK(e, ENGINE_MAGIC);
    err why = enqueue(e, u);
    if (why != ERR_OK)
        u->done(u->ctx, why);
}

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool done;
    err why;
    const struct engine_update *update;
};

static err waiter_decide(struct engine_txn *t, void *ctx)
{
    struct waiter *w = ctx;
    return w->update->decide(t, w->update->ctx);
}

static void waiter_done(void *ctx, err why)
{
    struct waiter *w = ctx;
    if (w->update->done != NULL)
        w->update->done(w->update->ctx, why);
    pthread_mutex_lock(&w->lock);
    w->done = true;
    w->why = why;
    pthread_cond_signal(&w->over);
    pthread_mutex_unlock(&w->lock);
}

err engine_submit_wait(struct engine *e, const struct engine_update *update)
{
    struct waiter w = { .update = update };
    pthread_mutex_init(&w.lock, NULL);
    pthread_cond_init(&w.over, NULL);
    struct engine_update u = *update;
    u.decide = waiter_decide;
    u.done = waiter_done;
    u.ctx = &w;
    engine_submit(e, &u);
    pthread_mutex_lock(&w.lock);
    while (!w.done)
        pthread_cond_wait(&w.over, &w.lock);
    pthread_mutex_unlock(&w.lock);
    pthread_mutex_destroy(&w.lock);
    pthread_cond_destroy(&w.over);
    return w.why;
}

err engine_update_wait(struct engine *e, err (*decide_fn)(struct engine_txn *t, void *ctx),
                       void *ctx)
{
    struct engine_update u = { .decide = decide_fn, .ctx = ctx };
    return engine_submit_wait(e, &u);
}
