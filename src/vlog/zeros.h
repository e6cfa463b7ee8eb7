/* zeros.h - whether zeros are written ahead of the log's tail. Pure; no I/O.
 *
 * Blocks that are only reserved count as unwritten, and lie behind the file's end. A sync of a
 * group there waits for the file system's journal, too, which says that the blocks are written now
 * and that the file is longer. In blocks that hold zeros the journal has nothing to say. So a group
 * that reaches the end of the zeros is written with more of them behind it, in one write and one
 * sync. One group in many waits a little longer, all others less. Bytes are written twice for that,
 * which pays only while a sync is of few bytes (docs/adr/0021). Thread: the log's writer. */
#ifndef VLOG_ZEROS_H
#define VLOG_ZEROS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    VLOG_ZEROS_BYTES = 256 << 10,         /* at most, behind a group, in blocks that are reserved */
    VLOG_ZEROS_SYNCS = 16,                /* none before so many */
    VLOG_ZEROS_SYNC_BYTES_MAX = 64 << 10, /* nor while the last of them were of more on average */
};

enum zeros_when { ZEROS_NEVER, ZEROS_BEHIND_SMALL, ZEROS_ALWAYS };

struct zeros {
    enum zeros_when when;
    uint64_t syncs; /* so far */
    /* bytes that each of the last ones brought to disk; a ring */
    uint64_t of_sync[VLOG_ZEROS_SYNCS];
    uint64_t unsynced; /* bytes since the last */
};

/* A group of n bytes is about to be written. all_synced: everything before it is on disk. */
void zeros_count(struct zeros *z, uint64_t n, bool all_synced);
/* Are zeros to be written behind it? */
bool zeros_pay(const struct zeros *z);

#endif
