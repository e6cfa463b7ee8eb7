/* parts.h - the embedded engine's own structures; private to src/engine.
 *
 *   committer.c  waiting updates -> group -> log -> active overlay -> done      (thread
 *                "committer")
 *   indexer.c    active overlay -> frozen overlay -> LMDB -> dropped            (thread "indexer",
 *                ADR 0001)
 *   view.c       pending > active > frozen > LMDB, as one consistent state      (any thread)
 *   index.c      rows, dead extents, segments and position in LMDB
 *   index_blocks.c  the blocks of LMDB's file, and what is left of its map
 *   space.c      dead extents -> holes, unlinked and copied-out segments
 *   engine_lmdb.c  opening, closing, waiting, stats
 *
 * Locks, in the order they may be taken: reclaim > space > index > state. queue stands alone.
 *   queue    the list of waiting updates, started, closing
 *   index    held while rows are published and while the active overlay is frozen; what is asked of
 *            the indexer
 *   space    the batches of dead extents; held over an index commit
 *   reclaim  one reclaim at a time
 *   state    which overlays there are, together with what LMDB shows and the epoch; held for
 *            nanoseconds
 *
 * Epochs. A view counts itself in pins[epoch]. What an index commit made dead is tagged with the
 * epoch before it and may be given back when no count up to that epoch is left: a view of a later
 * epoch cannot see it. */
#ifndef ENGINE_PARTS_H
#define ENGINE_PARTS_H

#include "engine/overlay.h"
#include "vlog/vlog.h"

#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    DB_KEY_BYTES_MAX = ENGINE_KEY_BYTES_MAX + 1,
    DB_BOUND_BYTES_MAX = DB_KEY_BYTES_MAX + 1,
    EPOCHS = 64, /* counted apart at once; an epoch does not advance onto one still in use */
    VIEWS_KEPT = 64,
    LAYERS = 3, /* pending, active, frozen */
    GROUP_UPDATES_MAX = 1024,
    GROUP_BYTES_MAX = 8 << 20, /* a group takes no more updates beyond */
    GROUP_ROWS_MAX = 16384,
    INDEX_LAG_ROWS = 1024,
    INDEX_LAG_MS = 20,
    OVERLAY_ROWS_MAX = 16384, /* the committer waits for the indexer beyond */
    OVERLAY_BYTES_MAX = 128 << 20,
};

struct engine_cursor {
    struct engine_view *view;
    struct engine_cursor *next;
    MDB_cursor *lmdb;
    struct overlay_node *at[LAYERS];
    MDB_val key, value; /* LMDB's current row */
    bool has_lmdb, reversed;
    int failed; /* an LMDB error, told by the next call */
    uint16_t from_n, until_n;
    char from[DB_BOUND_BYTES_MAX], until[DB_BOUND_BYTES_MAX];
};

struct engine_view {
    uint32_t magic;
    struct engine *engine;
    MDB_txn *txn;
    bool broken; /* LMDB refused: the engine failed, reads give ERR_IO */
    struct overlay *layers[LAYERS];
    uint64_t seqs[LAYERS];
    uint64_t epoch;
    struct engine_cursor *open, *unused;
};
#define ENGINE_VIEW_MAGIC 0x51e90011u

struct engine_txn {
    struct engine *engine;
    struct engine_view *view;
    struct overlay *pending;
    uint64_t seq; /* of this update within the group */
    store_time now;
    struct overlay_node *written;
    uint32_t rows;
    uint64_t bytes; /* at most this much in the log */
};

struct dead_batch {
    struct dead_batch *next;
    uint64_t epoch;
    size_t count;
    struct vlog_extent extents[];
};

struct engine {
    uint32_t magic;
    const struct file_faults *faults;
    bool read_only;
    uint64_t free_bytes_min;
    uint32_t waiting_max;
    int rest_ms;
    char *dir;
    int dir_fd, log_fd, index_fd, lock_fd, data_fd;
    unsigned char id[RECORD_ID_BYTES];
    struct vlog *log;
    struct clock *clock;
    store_time last_now; /* the committer's */
    store_time stored_until;
    int64_t sync_interval_ms;
    mono unsynced_since; /* the committer's: when the oldest group was written that no sync has
                            covered */

    MDB_env *env;
    const void *mapped; /* where; NULL: not (map_guard.h) */
    MDB_dbi rows, dead, segments, meta;
    uint64_t index_pages; /* under space, the next three too: blocks of data.mdb are there for so
                             many pages */
    bool index_holed;     /* but for holes in pages that LMDB holds free */
    uint64_t rested;      /* the transaction after which blocks were given back; 0: they were not */
    uint64_t rested_to;   /* holes are made up to this page; 0: as many as there are to be */
    struct vlog_tail indexed; /* under index: where LMDB stands */
    store_time greatest;
    _Atomic uint64_t live_bytes;
    /* no headroom for the index on the disk or in its map: only updates that free go on */
    atomic_bool index_full;

    pthread_rwlock_t state;
    struct overlay *active, *frozen;
    _Atomic uint64_t published;
    uint64_t epoch;
    _Atomic uint64_t pins[EPOCHS];
    struct engine_view *_Atomic views[VIEWS_KEPT];

    pthread_mutex_t queue;
    pthread_cond_t queue_filled;
    struct engine_update *first, *last;
    uint32_t waiting;
    bool started, closing;
    atomic_bool failed;

    pthread_mutex_t index;
    pthread_cond_t index_moved;
    int wake_fd;       /* eventfd: the indexer has something to look at */
    uint64_t flush_to; /* somebody waits for this seq */
    mono lag_since;    /* when the active overlay got its first row */
    bool index_stop;
    bool index_stuck; /* an index commit waits for room */
    pthread_t committer, indexer;

    pthread_mutex_t space;
    struct dead_batch *batches, *batches_last;
    pthread_mutex_t reclaim;
    struct vlog_extent sweep; /* reclaim's: how far the sweep after the start came */
    bool sweep_done;

    void (*on_failure)(void *ctx, const char *what);
    void *on_failure_ctx;
    _Atomic uint64_t updates, punched_bytes, copied_bytes;
};
#define ENGINE_MAGIC 0xe1911e01u

/* Database key: space byte, then key. buf: DB_KEY_BYTES_MAX. key is not longer than
 * ENGINE_KEY_BYTES_MAX. */
str db_key(enum engine_space space, str key, char *buf);

/* Nothing can be acknowledged any more. Calls on_failure, which as a rule does not return. Thread:
 * any. */
void engine_fail(struct engine *e, const char *what, const char *detail);

/* ---- index.c ---- */
/* Opens LMDB and reads the position. ERR_CORRUPT, ERR_IO, ERR_FULL. */
MUST_CHECK err index_open(struct engine *e, uint64_t map_bytes, struct err_note *note);
void index_close(struct engine *e);
/* A row as LMDB holds it, checked. key with its space byte. ERR_CORRUPT. */
MUST_CHECK err index_row_decode(str key, MDB_val value, struct engine_row *out);
/* Writes the newest version of every row of o, and all that follows from it. *batch: what became
 * dead; the caller's. Fails: ERR_FULL, and nothing was written; ERR_IO is final. */
MUST_CHECK err index_apply(struct engine *e, struct overlay *o, struct dead_batch **batch,
                           const char **detail);
/* The position a transaction shows. ERR_CORRUPT. */
MUST_CHECK err index_position(struct engine *e, MDB_txn *txn, struct vlog_tail *at,
                              store_time *greatest);
/* Whether each segment is where and as long as the index says. Reads the sum of live bytes. */
MUST_CHECK err index_check_segments(struct engine *e, struct err_note *note);

/* The dead range that begins at or before offset and reaches beyond it, else the next one of the
 * same segment. ERR_NOT_FOUND, ERR_CORRUPT. */
MUST_CHECK err index_dead_at(struct engine *e, MDB_txn *txn, uint32_t segment, uint64_t offset,
                             struct vlog_extent *out);
struct index_segment {
    uint32_t number;
    uint64_t end, dead;
};
/* The first segment with a number >= from. ERR_NOT_FOUND, ERR_CORRUPT. */
MUST_CHECK err index_segment_next(struct engine *e, MDB_txn *txn, uint32_t from,
                                  struct index_segment *out);
/* Forgets a segment and its dead ranges, in a commit of its own. ERR_FULL: not now; ERR_IO is
 * final. */
MUST_CHECK err index_segment_forget(struct engine *e, uint32_t number);
bool blob_same_place(const struct engine_blob *a, const struct engine_blob *b);
/* Of two struct vlog_extent, for qsort: as they lie in the log. */
int extent_order(const void *a, const void *b);
static inline bool blob_in_log(const struct engine_blob *b)
{
    return b->segment != 0;
}

/* ---- view.c ---- */
void views_free(struct engine *e);
/* A view with pending on top. */
struct engine_view *view_begin_pending(struct engine *e, struct overlay *pending);
/* No pin is left up to epoch. */
bool epoch_is_over(struct engine *e, uint64_t epoch);
/* Under the state lock: the next epoch, when its counter is free. */
void epoch_advance(struct engine *e);

/* ---- committer.c, indexer.c ---- */
void *committer_run(void *engine);
void *indexer_run(void *engine);
/* Rows of a group that is on disk: into the active overlay, visible at once. Also used by
 * replay. */
void publish_row(struct overlay *o, const struct record_mutation *m, uint64_t seq);
void publish_group(struct overlay *o, const struct vlog_found *g);
void indexer_wake(struct engine *e);

/* ---- space.c ---- */
/* The engine takes the batch. Under the space lock. */
void space_add(struct engine *e, struct dead_batch *batch);
void space_free(struct engine *e);

#endif
