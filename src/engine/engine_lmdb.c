/* engine_lmdb.c - the embedded engine: opening, starting, closing, figures.
 *
 * A store is a folder:
 *   LOCK               held with flock while a process has the store open
 *   STORE              "store <format>\nid <32 hex digits>\n"
 *   index/data.mdb     LMDB (index.c)
 *   log/NNNNNNNN.seg   the value log (vlog/vlog.h) */
#include "engine/parts.h"
#include "engine/store.h"
#include "engine/store_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SEGMENT_BYTES_DEFAULT ((uint64_t)256 << 20)
#define FREE_BYTES_DEFAULT ((uint64_t)64 << 20)
enum {
    WAITING_DEFAULT = 65536,
    SYNC_INTERVAL_MS_DEFAULT = 50,
    REST_MS_DEFAULT = 20000,
    SEGMENT_BYTES_MIN = 1 << 16
};

static void fail_default(void *ctx, const char *what)
{
    (void)ctx;
    fprintf(stderr, "error store.failed what=\"%s\"\n", what);
    _exit(1);
}

void engine_on_failure(struct engine *e, void (*failed)(void *ctx, const char *what), void *ctx)
{
    MAGIC_CHECK(e, ENGINE_MAGIC);
    e->on_failure = failed;
    e->on_failure_ctx = ctx;
}

void engine_fail(struct engine *e, const char *what, const char *detail)
{
    char text[256];
    (void)snprintf(text, sizeof(text), "%s: %s", what, detail);
    bool before = atomic_exchange(&e->failed, true);
    if (!before)
        e->on_failure(e->on_failure_ctx, text);
    pthread_mutex_lock(&e->index);
    pthread_cond_broadcast(&e->index_moved);
    pthread_mutex_unlock(&e->index);
    indexer_wake(e);
}

/* ---- opening ---- */

static void locks_init(struct engine *e)
{
    pthread_rwlockattr_t attr;
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&e->state, &attr);
    pthread_rwlockattr_destroy(&attr);
    pthread_mutex_init(&e->queue, NULL);
    pthread_cond_init(&e->queue_filled, NULL);
    pthread_mutex_init(&e->index, NULL);
    pthread_cond_init(&e->index_moved, NULL);
    pthread_mutex_init(&e->space, NULL);
    pthread_mutex_init(&e->reclaim, NULL);
}

static void locks_fini(struct engine *e)
{
    pthread_rwlock_destroy(&e->state);
    pthread_mutex_destroy(&e->queue);
    pthread_cond_destroy(&e->queue_filled);
    pthread_mutex_destroy(&e->index);
    pthread_cond_destroy(&e->index_moved);
    pthread_mutex_destroy(&e->space);
    pthread_mutex_destroy(&e->reclaim);
}

static struct engine *engine_new(const struct engine_opts *opts)
{
    struct engine *e = calloc(1, sizeof(*e));
    INVARIANT(e != NULL);
    e->magic = ENGINE_MAGIC;
    e->dir = strdup(opts->dir);
    INVARIANT(e->dir != NULL);
    e->faults = opts->faults;
    e->read_only = opts->read_only;
    e->free_bytes_min = opts->free_bytes_min == 0 ? FREE_BYTES_DEFAULT : opts->free_bytes_min;
    e->waiting_max = opts->waiting_max == 0 ? WAITING_DEFAULT : opts->waiting_max;
    e->sync_interval_ms =
        opts->sync_interval_ms == 0 ? SYNC_INTERVAL_MS_DEFAULT : opts->sync_interval_ms;
    e->rest_ms = opts->rest_ms == 0 ? REST_MS_DEFAULT : (int)opts->rest_ms;
    e->dir_fd = e->log_fd = e->index_fd = e->lock_fd = e->data_fd = -1;
    e->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    INVARIANT(e->wake_fd >= 0);
    e->on_failure = fail_default;
    e->active = overlay_new();
    locks_init(e);
    return e;
}

static void fd_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void engine_free(struct engine **ep)
{
    struct engine *e = *ep;
    views_free(e);
    vlog_close(&e->log);
    index_close(e);
    overlay_unref(&e->active);
    overlay_unref(&e->frozen);
    space_free(e);
    fd_close(&e->wake_fd);
    fd_close(&e->log_fd);
    fd_close(&e->index_fd);
    fd_close(&e->dir_fd);
    fd_close(&e->lock_fd); /* last: the store is free now */
    locks_fini(e);
    free(e->dir);
    e->magic = 0;
    free(e);
    *ep = NULL;
}

static void replay_mutation(void *ctx, const struct record_mutation *m, uint64_t seq)
{
    struct engine *e = ctx;
    publish_row(e->active, m, seq);
}

static void replay_group(void *ctx, const struct vlog_found *g)
{
    struct engine *e = ctx;
    publish_group(e->active, g);
}

static err log_open(struct engine *e, const struct engine_opts *with, struct err_note *note)
{
    uint64_t segment_bytes = with->segment_bytes;
    if (segment_bytes == 0)
        segment_bytes = SEGMENT_BYTES_DEFAULT;
    if (segment_bytes < SEGMENT_BYTES_MIN)
        segment_bytes = SEGMENT_BYTES_MIN;
    struct vlog_opts opts = {
        .dir_fd = e->log_fd,
        .id = e->id,
        .segment_bytes = segment_bytes,
        .faults = e->faults,
        .read_only = e->read_only,
        .zeros_always = with->zeros_always,
    };
    struct vlog_replay_calls calls = { .group = replay_group,
                                       .mutation = replay_mutation,
                                       .ctx = e };
    err why = vlog_open(&opts, &e->log, note);
    if (why != ERR_OK)
        return why;
    e->active->start = e->active->end = e->indexed;
    e->active->greatest = e->greatest;
    why = vlog_replay(e->log, e->indexed, &calls, note);
    atomic_store(&e->published, e->active->end.seq);
    return why;
}

/* Files of segments that the index forgot just before a crash. */
static err remove_forgotten(struct engine *e)
{
    MDB_txn *txn;
    if (mdb_txn_begin(e->env, NULL, MDB_RDONLY, &txn) != 0)
        return ERR_IO;
    struct vlog_segment file = { .number = 0 };
    err why = vlog_segment_next(e->log, 0, &file);
    while (why == ERR_OK && file.number < e->indexed.segment) {
        struct index_segment s;
        err known = index_segment_next(e, txn, file.number, &s);
        if (known == ERR_CORRUPT)
            why = ERR_CORRUPT;
        else if (known == ERR_NOT_FOUND || s.number != file.number)
            why = vlog_unlink(e->log, file.number);
        if (why == ERR_OK)
            why = vlog_segment_next(e->log, file.number + 1, &file);
    }
    mdb_txn_abort(txn);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

static err open_parts(struct engine *e, const struct engine_opts *opts, struct err_note *note)
{
    err why = store_open(e, note);
    if (why == ERR_OK)
        why = index_open(e, opts->map_bytes, note);
    if (why == ERR_OK) {
        why = log_open(e, opts, note);
        if (why == ERR_CORRUPT && opts->despite_damage)
            why = ERR_OK;
    }
    if (why == ERR_OK && !opts->despite_damage)
        why = index_check_segments(e, note);
    if (why == ERR_OK && !e->read_only) {
        backup_sweep(e);
        why = remove_forgotten(e);
    }
    return why;
}

err engine_open(const struct engine_opts *opts, struct engine **out, store_time *greatest,
                struct err_note *note)
{
    struct engine *e = engine_new(opts);
    if (note != NULL)
        note->text[0] = '\0';
    err why = open_parts(e, opts, note);
    if (why != ERR_OK) {
        if (note != NULL && note->text[0] == '\0')
            err_note_set(note, "the store at %s cannot be opened: %s", opts->dir, err_name(why));
        engine_free(&e);
        return why;
    }
    e->last_now = e->stored_until = e->active->greatest;
    *greatest = e->stored_until;
    *out = e;
    return ERR_OK;
}

store_time engine_stored_until(const struct engine *e)
{
    return e->stored_until;
}

err engine_start(struct engine *e, struct clock *clock, struct err_note *note)
{
    MAGIC_CHECK(e, ENGINE_MAGIC);
    INVARIANT(!e->started);
    if (e->read_only)
        return err_bad(note, "the store was opened for reading only");
    e->clock = clock;
    e->lag_since = clock_mono(clock);
    if (pthread_create(&e->indexer, NULL, indexer_run, e) != 0 ||
        pthread_create(&e->committer, NULL, committer_run, e) != 0) {
        err_note_set(note, "the store's threads cannot be started");
        engine_fail(e, "starting threads", "no thread");
        return ERR_IO;
    }
    (void)pthread_setname_np(e->indexer, "indexer");
    (void)pthread_setname_np(e->committer, "committer");
    pthread_mutex_lock(&e->queue);
    e->started = true;
    pthread_mutex_unlock(&e->queue);
    return ERR_OK;
}

static void stop_threads(struct engine *e)
{
    pthread_mutex_lock(&e->queue);
    e->closing = true;
    pthread_cond_signal(&e->queue_filled);
    pthread_mutex_unlock(&e->queue);
    pthread_join(e->committer, NULL);
    pthread_mutex_lock(&e->index);
    e->index_stop = true;
    pthread_mutex_unlock(&e->index);
    indexer_wake(e);
    pthread_join(e->indexer, NULL);
}

void engine_close(struct engine **ep)
{
    struct engine *e = *ep;
    if (e == NULL)
        return;
    MAGIC_CHECK(e, ENGINE_MAGIC);
    if (e->started)
        stop_threads(e);
    engine_free(ep);
}

/* ---- figures ---- */

static void stats_of_files(struct engine *e, struct engine_stats *out)
{
    struct vlog_segment s = { .number = 0 };
    for (err why = vlog_segment_next(e->log, 0, &s); why == ERR_OK;
         why = vlog_segment_next(e->log, s.number + 1, &s))
        out->disk_bytes += s.allocated;
    struct stat st;
    if (fstat(e->data_fd, &st) == 0)
        out->index_bytes = (uint64_t)st.st_blocks * 512;
    out->disk_bytes += out->index_bytes;
    if (file_space(e->faults, e->log_fd, &out->free_bytes) != 0)
        out->free_bytes = 0;
}

void engine_stats_get(struct engine *e, struct engine_stats *out)
{
    MAGIC_CHECK(e, ENGINE_MAGIC);
    struct vlog_stats log;
    vlog_stats_get(e->log, &log);
    *out = (struct engine_stats){
        .live_bytes = atomic_load(&e->live_bytes),
        .segments = log.segments,
        .groups = log.groups,
        .syncs = log.syncs,
        .log_bytes_written = log.bytes_written,
        .updates = atomic_load(&e->updates),
        .punched_bytes = atomic_load(&e->punched_bytes),
        .copied_bytes = atomic_load(&e->copied_bytes),
    };
    struct engine_view *v = engine_view_begin(e);
    MDB_stat st;
    MDB_envinfo info;
    if (!v->broken && mdb_stat(v->txn, e->rows, &st) == 0)
        out->rows = st.ms_entries;
    if (mdb_env_info(e->env, &info) == 0)
        out->map_bytes = info.me_mapsize;
    engine_view_end(&v);
    stats_of_files(e, out);
    pthread_mutex_lock(&e->index);
    out->overlay_rows = e->active->rows;
    if (e->started && e->active->end.seq > e->active->start.seq)
        out->index_lag_ms = (uint64_t)((clock_mono(e->clock).ns - e->lag_since.ns) / NS_PER_MS);
    pthread_mutex_unlock(&e->index);
    pthread_mutex_lock(&e->queue);
    out->waiting = e->waiting;
    pthread_mutex_unlock(&e->queue);
}
