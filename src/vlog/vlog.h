/* vlog.h - the value log: numbered segment files to which groups are appended; the synced group is
 * the commit.
 *
 * Model. A log is a row of segment files, each a header and then group after group without gaps
 * (vlog/record.h). The last segment is the active one; the others are synced, sealed and never
 * written again, only holes are punched into them until they are unlinked. Appending and syncing
 * are two steps; each group says how many groups before it were not known to be on disk when it was
 * written. So a group that fails its sums is damage when a later one knew it on disk; otherwise, in
 * the last segment, it is torn, and with it all that lies behind.
 *   Extents: a value record is an extent; the first value record of a group owns the group's header
 * and meta too. Extents lie side by side and account for every byte behind the segment header. A
 * group without values is an extent of its own that nobody owns: it is dead as soon as the index
 * holds it.
 * Sources: Bitcask's log of values; group commit after Gray and Reuter.
 *
 * Files: log/NNNNNNNN.seg. Up to 16 MiB are reserved ahead of the tail without changing the file's
 * size; behind small groups a part of them is written with zeros (vlog/zeros.h), which ends with
 * the file when the log is closed. Thread: one writer (reserve, append); reading, punching and
 * unlinking from any thread. */
#ifndef VLOG_VLOG_H
#define VLOG_VLOG_H

#include "vlog/file.h"
#include "vlog/record.h"

struct vlog;

struct vlog_opts {
    int dir_fd;              /* of the folder that holds the segments; borrowed until closed */
    const unsigned char *id; /* RECORD_ID_BYTES, copied */
    uint64_t segment_bytes;  /* a group that does not fit in what is left starts a new segment */
    const struct file_faults *faults;
    bool read_only;
    bool zeros_always; /* for tests: behind every group that has none, on any file system */
};

/* The end of group seq: where group seq + 1 begins. */
struct vlog_tail {
    uint64_t seq;
    uint64_t offset;
    uint32_t segment;
};

struct vlog_extent {
    uint64_t offset, size;
    uint32_t segment;
};

enum { VLOG_FIRST_SEGMENT = 1, VLOG_AHEAD_BYTES_MAX = 16 << 20, VLOG_AHEAD_BYTES_MIN = 1 << 20 };

/* The tail of a log nothing was written to. */
struct vlog_tail vlog_start(void);

/* Lists the segments; reads nothing of them. Call vlog_replay before anything else but vlog_end.
 * ERR_IO. */
MUST_CHECK err vlog_open(const struct vlog_opts *opts, struct vlog **out, struct err_note *note);
void vlog_close(struct vlog **lp);

/* One group as replay found it. Slices are valid inside the call. */
struct vlog_found {
    struct record_group head;
    struct vlog_extent whole; /* header, meta and values */
    struct vlog_tail after;
};
struct vlog_replay_calls {
    void (*group)(void *ctx, const struct vlog_found *g);
    void (*mutation)(void *ctx, const struct record_mutation *m, uint64_t seq);
    void *ctx;
};
/* Goes over every group behind from, in order, and sets the tail behind the last whole one. Unless
 * read_only, what is torn behind it is cut off and the first segment is made when there is none.
 * ERR_CORRUPT (with what to do): a damaged group with a whole one behind it, a log shorter than
 * from, a missing segment. ERR_IO, ERR_FULL. */
MUST_CHECK err vlog_replay(struct vlog *log, struct vlog_tail from,
                           const struct vlog_replay_calls *calls, struct err_note *note);

/* Behind the last group that was written. Thread: the writer, or nobody writes. */
struct vlog_tail vlog_tail(const struct vlog *log);
/* Where a group of these sizes would begin if it were appended now (a new segment when it does not
 * fit), with its blocks reserved. ERR_FULL: no room, nothing changed. ERR_IO: fatal. */
MUST_CHECK err vlog_reserve(struct vlog *log, uint64_t group_bytes);

/* A group to append. A mutation with BLOB_LOG and bytes gets a value record, and its place; one
 * without bytes keeps the place it has. bytes are borrowed until vlog_append returned. */
struct vlog_group {
    uint64_t seq;
    store_time time;
    struct record_mutation *mutations;
    uint32_t count;
    bool no_zeros; /* behind it */
};
/* Bytes of one mutation in a group, and of a group without mutations: what vlog_reserve wants added
 * up. */
uint64_t vlog_mutation_bytes(const struct record_mutation *m);
/* Writes. Any failure is final: what is on disk is unknown. ERR_IO, ERR_FULL. */
MUST_CHECK err vlog_append(struct vlog *log, struct vlog_group *g, struct vlog_extent *whole);
/* Brings everything up to a tail of this log to disk, when it is not yet. A failure is final: all
 * later calls fail. Thread: any. ERR_IO. */
MUST_CHECK err vlog_sync(struct vlog *log, struct vlog_tail to);
/* The last group that is known to be on disk. Thread: any. */
uint64_t vlog_synced(const struct vlog *log);

/* n bytes at offset of a segment. ERR_CORRUPT: not there; ERR_IO; _now: ERR_AGAIN when not in
 * memory. */
MUST_CHECK err vlog_read(struct vlog *log, uint32_t segment, uint64_t offset, size_t n, void *dst);
MUST_CHECK err vlog_read_now(struct vlog *log, uint32_t segment, uint64_t offset, size_t n,
                             void *dst);

struct vlog_segment {
    uint64_t end;       /* behind the last whole group */
    uint64_t allocated; /* bytes on disk, reserved ones included */
    uint32_t number;
    bool sealed;
};
/* The segment with the least number >= from. ERR_NOT_FOUND behind the last. */
MUST_CHECK err vlog_segment_next(struct vlog *log, uint32_t from, struct vlog_segment *out);
/* Gives back the whole blocks inside. */
MUST_CHECK err vlog_punch(struct vlog *log, struct vlog_extent hole);
/* Removes a sealed segment's file. No one may still read it. */
MUST_CHECK err vlog_unlink(struct vlog *log, uint32_t number);
/* NNNNNNNN.seg */
enum { VLOG_NAME_BYTES = 16 };
void vlog_segment_name(uint32_t number, char out[VLOG_NAME_BYTES]);

struct vlog_stats {
    uint64_t segments, syncs, groups, bytes_written;
};
void vlog_stats_get(struct vlog *log, struct vlog_stats *out);

#endif
