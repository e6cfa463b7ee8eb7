/* engine.h - ordered rows with large values beside them; the only door to a backend.
 *
 * Model. A store holds rows in key spaces; a row is a key (at most 500 bytes, ordered bytewise), a
 * small value, and optionally one blob: the large bytes that belong to it. Whoever deletes or
 * replaces a row frees its blob; exactly one row owns a blob.
 *   Reading happens in a view: one consistent state of everything acknowledged so far.
 *   Writing happens in an update: a pure decision that reads the newest state and writes rows.
 * Updates are serialised per partition (the embedded engine: over the whole store), so an update is
 * atomic and isolated across spaces, and a decision always sees all rows it decides over. An engine
 * may run a decision again after throwing its writes away; so a decision may not keep anything from
 * an earlier run.
 *   An update that wrote is acknowledged when it is on disk, unless it asks to be told earlier
 * (engine_ack). Updates take effect in the order of submission, and of those of one engine_ack are
 * acknowledged in it.
 *
 * Embedded engine (engine_lmdb.c): the synced log record is the commit, LMDB is its index
 * (docs/architecture.md, "The way of a write").
 * Sources: Bitcask's paper for values in a log, LMDB for the index, group commit after Gray and
 * Reuter. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "base/err.h"
#include "base/str.h"
#include "base/times.h"

enum {
    ENGINE_KEY_BYTES_MAX = 500,
    ENGINE_VALUE_BYTES_MAX = 1024, /* a row's own value */
    ENGINE_BLOB_BYTES_MAX = 64 << 20,
    ENGINE_INLINE_BYTES_MAX = 512,  /* a blob up to this is kept beside the row, not in the log */
    ENGINE_UPDATE_ROWS_MAX = 16384, /* rows one update may write */
};

/* Key spaces. Numbers are on disk: never reuse one. Each line names the module that owns the
 * layout. */
enum engine_space {
    SPACE_CATALOG = 1, /* bucket/catalog.h: numbers of domains and buckets, policies in force */
    SPACE_RENDER = 2,  /* bucket/page.h: one row a stored render */
    SPACE_TITLE = 3,   /* bucket/page.h: one row a title: fences, ledger count */
    SPACE_DUE = 4,     /* bucket/page.h: due time -> row to cull, or trace to forget */
    SPACE_LEDGER = 5,  /* bucket/page.h: traces of what was culled or purged */
    SPACE_SCHEMA = 6,  /* table/table.h: schemas */
    SPACE_ROW = 7,     /* table/table.h: rows of tables */
    SPACE_AUTH = 8,    /* auth/auth.h: users, keys, roles, bindings */
    /* 9 was the place of imports, before any release */
    SPACE_TIMELINE = 10,  /* timeline/rows.h: what was superseded, and when */
    SPACE_COMPARE = 11,   /* bench/strategy: two_table, table_per_query */
    SPACE_QUEUE = 12,     /* queue/queue.h: the catalogue of queues */
    SPACE_PARTITION = 13, /* queue/store/store.h: partitions of a local store */
    SPACE_WORD = 14,      /* bucket/word.h: the wiki's last word on a title */
    SPACE_EVENT = 15,     /* event/rows.h: the event log */
    SPACE_CHANGE = 16,    /* change/rows.h: what is to be done about events */
};

struct engine;
struct engine_view;
struct engine_txn;

/* Where a blob is. Plain value: copy it freely, but its bytes stay readable only inside the view
 * that gave it, or while a pin holds it. n == 0: no blob. Do not look at the rest. */
struct engine_blob {
    uint64_t n;    /* bytes */
    uint64_t hash; /* XXH3-64 of the bytes */
    uint64_t extent_offset;
    uint32_t extent_size;
    uint32_t value_offset; /* from extent_offset */
    uint32_t segment;
    const char *mem; /* inline or not yet written: the bytes themselves; else NULL */
};

/* Borrowed: until the next call on the same view or cursor, or its end. */
struct engine_row {
    str key;
    str value;
    struct engine_blob blob;
};

/* ---- reading. Thread: any; a view belongs to the thread that began it. ---- */

/* Begins a view of everything acknowledged. Short: no waiting, no blocking call but
 * engine_blob_read inside. Owner: caller; end it with engine_view_end. Never NULL while the engine
 * is open. */
struct engine_view *engine_view_begin(struct engine *e);
void engine_view_end(struct engine_view **vp);

/* ERR_NOT_FOUND, ERR_CORRUPT, ERR_IO. *out only on ERR_OK. */
MUST_CHECK err engine_get(struct engine_view *v, enum engine_space space, str key,
                          struct engine_row *out);

/* Ordered walk over from <= key < until (an empty until: no bound). Reversed: from the greatest key
 * down. Bounds are copied. The cursor ends with its view or with engine_cursor_close, whichever is
 * first; rows written by the same txn after opening may or may not be seen. */
struct engine_cursor;
struct engine_range {
    enum engine_space space;
    str from, until;
    bool reversed;
};
struct engine_cursor *engine_cursor_open(struct engine_view *v, const struct engine_range *range);
/* ERR_NOT_FOUND at the end. ERR_CORRUPT: a row fails its sum; out->key is what its key looks like
 * (which may be what is damaged), and the next call goes on behind it. An empty out->key: the index
 * itself cannot be read. */
MUST_CHECK err engine_cursor_next(struct engine_cursor *c, struct engine_row *out);
/* Goes on at the first key >= key (reversed: <= key); used to skip. */
void engine_cursor_seek(struct engine_cursor *c, str key);
void engine_cursor_close(struct engine_cursor **cp);
/* The exclusive upper bound of all keys that start with prefix, written to out (at most prefix.n
 * bytes). */
str engine_prefix_end(str prefix, char *out);

/* Copies n bytes at offset of the blob to dst. May block on a cold page. ERR_CORRUPT, ERR_IO.
 * Does not verify the hash: who reads the whole compares with XXH3, who reads parts keeps its own
 * sums. */
MUST_CHECK err engine_blob_read(struct engine *e, const struct engine_blob *b, uint64_t offset,
                                uint64_t n, char *dst);
/* The same without blocking: ERR_AGAIN when the bytes are not in memory. */
MUST_CHECK err engine_blob_read_now(struct engine *e, const struct engine_blob *b, uint64_t offset,
                                    uint64_t n, char *dst);

/* Keeps the space of every blob seen in the view from being reused until released, beyond the
 * view's end. (Inline bytes are not covered: copy them inside the view.) Thread: release from any
 * thread. */
struct engine_pin {
    uint64_t epoch;
};
struct engine_pin engine_pin(struct engine_view *v);
void engine_unpin(struct engine *e, struct engine_pin pin);

/* ---- writing ---- */

/* Of the last update on disk when the store was opened; ZERO: there was none. */
store_time engine_stored_until(const struct engine *e);

/* The newest state, this update's own writes included; for the read functions above. */
struct engine_view *engine_txn_view(struct engine_txn *t);
/* store_time of this update: never smaller than that of an earlier one. */
store_time engine_txn_now(const struct engine_txn *t);
/* Puts or replaces a row. key and value are copied. The blob of a replaced row is freed.
 *   bytes  the new blob, borrowed until the update's done was called; STR_NONE: no blob
 * Fails: ERR_LIMIT when key, value, bytes or the number of rows pass their maximum. */
MUST_CHECK err engine_txn_put(struct engine_txn *t, enum engine_space space, str key, str value,
                              str bytes);
/* A new blob of these bytes, with their hash: made before the update, so that the engine's thread
 * need not read them all. n 0: no blob. Thread: any. */
struct engine_blob engine_blob_of(str bytes);
/* As engine_txn_put. */
MUST_CHECK err engine_txn_put_blob(struct engine_txn *t, enum engine_space space, str key,
                                   str value, const struct engine_blob *blob);
/* Replaces the value of an existing row and keeps its blob. ERR_NOT_FOUND. */
MUST_CHECK err engine_txn_put_value(struct engine_txn *t, enum engine_space space, str key,
                                    str value);
/* Deletes a row; no error when it is not there. Fails: ERR_LIMIT. */
MUST_CHECK err engine_txn_delete(struct engine_txn *t, enum engine_space space, str key);

/* When an update is acknowledged.
 *   SYNCED    on disk, with all it read
 *   UNSYNCED  written; a group of such alone is not synced: it is with the next one that is, at the
 *             latest after engine_opts.sync_interval_ms, or before the index takes it over
 * What was written and not synced survives the process, and is lost, group by group from the end,
 * when the machine stops: never a part of an update, nor an update without all before it. Decisions
 * see it at once. Views show an update's rows when its group is synced, or at done when the group
 * is not going to be; so of an unsynced update in a group with others, a moment after done. */
enum engine_ack { ENGINE_ACK_SYNCED, ENGINE_ACK_UNSYNCED };

/* One update. The memory is the caller's and must stay until done was called.
 *   decide    runs on the committer. Never blocks, keeps to the rules above. Anything but ERR_OK
 *             throws its writes away and is what done gets.
 *   done      exactly once, on the committer (or, when refused, inside engine_submit): ERR_OK as
 *             ack says (also when decide wrote nothing), decide's own error, ERR_FULL,
 *             ERR_SHUTDOWN, ERR_LIMIT (engine_opts.waiting_max), ERR_TIMEOUT (deadline passed
 *             before decide ran: nothing was written). Short: it may wake somebody, not work.
 *   partition the bytes that all keys written start with, for engines that distribute; STR_NONE:
 *             any key.
 *   frees     the update removes rows, or lets others be removed: it may use the reserve kept on a
 *             full disk. */
struct engine_update {
    err (*decide)(struct engine_txn *t, void *ctx);
    void (*done)(void *ctx, err why);
    void *ctx;
    mono deadline; /* ns 0: none */
    str partition;
    bool frees;
    enum engine_ack ack;
    struct engine_update *next; /* the engine's */
};
void engine_submit(struct engine *e, struct engine_update *u);
/* Submits and waits until done was called, which may be NULL; next is not the caller's. Thread: any
 * but the committer and the loop. */
MUST_CHECK err engine_submit_wait(struct engine *e, const struct engine_update *u);
/* The same for one that has no more to say. For start-up, tools and tests. */
MUST_CHECK err engine_update_wait(struct engine *e, err (*decide)(struct engine_txn *t, void *ctx),
                                  void *ctx);

#endif
