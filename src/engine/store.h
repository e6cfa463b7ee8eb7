/* store.h - opening a store and its upkeep: space, figures, check, backup. Part of engine.h. */
#ifndef ENGINE_STORE_H
#define ENGINE_STORE_H

#include "base/err.h"
#include "base/times.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;

/* ---- opening and upkeep ---- */

/* Of address space for the index; no disk is taken before it is needed. A larger one fails under
 * ThreadSanitizer. */
#define ENGINE_MAP_BYTES ((uint64_t)1 << 40)
struct file_faults;
struct engine_opts {
    const char *dir;           /* created (0700) when missing; one process at a time */
    uint64_t segment_bytes;    /* of one log file; 0: 256 MiB */
    uint64_t map_bytes;        /* of the index's map; 0: ENGINE_MAP_BYTES, halved until it maps */
    uint64_t free_bytes_min;   /* puts are refused when the disk has less left; 0: 64 MiB */
    uint32_t waiting_max;      /* updates waiting at once; 0: 65536 */
    uint32_t sync_interval_ms; /* of updates acknowledged unsynced; 0: 50 */
    /* without a write, until the index gives spare blocks back to the disk; 0: 20 s */
    uint32_t rest_ms;
    bool read_only;      /* for check and backup: changes nothing on disk, replays into memory */
    bool despite_damage; /* with read_only, for check: a damaged log is opened as far as it can be;
                            what is behind the damage and not in the index is left out, which the
                            note then says */
    /* for tests: zeros ahead in the log whatever groups are, on any file system */
    bool zeros_always;
    const struct file_faults *faults; /* vlog/file.h: tests make the disk fail; NULL: it does not */
};

/* Opens or creates, replays the log. *greatest is the greatest store_time on disk (ZERO when new).
 * Fails, with a note that says what to do: ERR_CORRUPT (damaged), ERR_BAD (another version),
 * ERR_CONFLICT (in use by another process), ERR_IO, ERR_FULL. */
MUST_CHECK err engine_open(const struct engine_opts *opts, struct engine **out,
                           store_time *greatest, struct err_note *note);
/* Starts the committer. Before it, only reading. clock must outlive the engine. */
MUST_CHECK err engine_start(struct engine *e, struct clock *clock, struct err_note *note);
/* Finishes what was submitted, indexes everything, ends the threads, closes. All views are over by
 * then. */
void engine_close(struct engine **ep);
/* Called (on the engine's thread) when a write or sync failed and the store can acknowledge nothing
 * any more. Default: log and _exit(1). */
void engine_on_failure(struct engine *e, void (*failed)(void *ctx, const char *what), void *ctx);

/* Gives freed space back to the file system: punches holes, copies sparse segments out, unlinks
 * empty ones. Bounded work per call; *more says there is more to do now. Blocks: a pool job. */
MUST_CHECK err engine_reclaim(struct engine *e, bool *more);
/* Waits until the index holds everything acknowledged before the call. Blocks. ERR_FULL: a commit
 * of the index found no room. It is tried again, and may find room then. */
MUST_CHECK err engine_flush(struct engine *e);

struct engine_stats {
    uint64_t rows, live_bytes, disk_bytes, index_bytes;
    uint64_t segments, groups, updates, syncs, log_bytes_written, punched_bytes, copied_bytes;
    uint64_t overlay_rows, waiting, index_lag_ms;
    uint64_t free_bytes, map_bytes;
};
void engine_stats_get(struct engine *e, struct engine_stats *out);

/* Verifies every row, log record and checksum, the space accounting, and that nothing leaks. Online
 * or on a read_only engine. found is called once per damage, with a sentence that begins with the
 * file; damaged before it if that is a log segment. Both may be NULL. Blocks. Returns ERR_CORRUPT
 * when anything was found. pace_bytes_per_s 0: as fast as it goes. */
struct engine_check_opts {
    void (*found)(void *ctx, const char *what);
    void (*damaged)(void *ctx, uint32_t segment);
    void (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
    uint64_t pace_bytes_per_s;
    uint32_t segment; /* only this one of the log; behind the index only values; 0: all there is */
};
MUST_CHECK err engine_check(struct engine *e, const struct engine_check_opts *opts);
/* Copies a consistent state of the store to dir while it runs; what dir already holds of this store
 * is not copied again, unless it turns out damaged. The result opens as a store. Blocks. Fails:
 * ERR_CONFLICT when dir holds another store, or things that are no store; ERR_BAD: no backup can be
 * made at dir; ERR_CORRUPT: the store itself is damaged; ERR_FULL: what was copied is removed
 * again. The note says what dir holds then. */
struct engine_backup_result {
    uint64_t bytes_copied, bytes_kept, segments;
    uint64_t segments_replaced; /* were there, and damaged */
};
MUST_CHECK err engine_backup(struct engine *e, const char *dir, struct engine_backup_result *out,
                             struct err_note *note);

#endif
