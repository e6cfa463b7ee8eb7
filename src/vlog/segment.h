/* segment.h - the table of segment files of one log: descriptors, ends, creating and removing
 * files.
 *
 * Descriptors are opened at first use and stay open until the segment goes. The table has a lock of
 * its own; whoever reads a segment keeps it from being unlinked by other means (the engine's
 * pins). */
#ifndef VLOG_SEGMENT_H
#define VLOG_SEGMENT_H

#include "vlog/vlog.h"
#include "vlog/zeros.h"

#include <pthread.h>
#include <stdatomic.h>

struct segment {
    uint32_t number;
    atomic_int fd;        /* -1: not opened yet */
    _Atomic uint64_t end; /* size of the file without what is torn, zeroed or reserved */
    uint64_t reserved;    /* the writer's: blocks are there up to this offset */
    uint64_t zeroed;      /* the writer's: blocks behind the groups hold zeros up to here */
};

struct segments {
    pthread_rwlock_t lock;
    struct segment **all; /* by number */
    size_t count, size;
};

struct vlog {
    uint32_t magic;
    int dir_fd;
    unsigned char id[RECORD_ID_BYTES];
    uint64_t segment_bytes;
    const struct file_faults *faults;
    bool read_only;
    struct segments segments;
    struct segment *active;
    struct vlog_tail tail;
    uint64_t promised; /* the writer's: the group on its way has blocks up to this offset */
    pthread_mutex_t
        sync; /* one sync at a time: the kernel tells of lost writes once, to whoever asks first */
    bool sync_failed;        /* under sync */
    _Atomic uint64_t synced; /* seq */
    struct buf meta, heads;  /* the writer's, reused */
    struct iovec *iov;
    size_t iov_size;
    struct zeros zeros; /* the writer's */
    char *zero_bytes;   /* VLOG_ZEROS_BYTES of them */
    _Atomic uint64_t syncs, groups, bytes_written;
};
#define VLOG_MAGIC 0x5106f11eu

/* Lists the folder. ERR_IO. */
MUST_CHECK err segments_init(struct vlog *log);
void segments_fini(struct segments *s);
/* NULL when there is none. Stays valid until vlog_unlink. */
struct segment *segments_find(struct segments *s, uint32_t number);
/* Descriptor for reading (and writing, unless read_only). ERR_IO, ERR_NOT_FOUND. */
MUST_CHECK err segment_fd(struct vlog *log, struct segment *seg, int *fd);
/* Makes the file of a segment with its header, synced. Its name is not yet a segment's, so a start
 * does not see it: before an empty segment a torn group, or zeros, would look like damage. The
 * caller calls segment_add or segment_discard next. ERR_FULL, ERR_IO: nothing changed. */
MUST_CHECK err segment_make(struct vlog *log, uint32_t number, struct segment **out);
/* Gives the file its name, synced, and takes the segment into the table. ERR_FULL: the folder has
 * no room for the name, nothing changed. ERR_IO is final. */
MUST_CHECK err segment_add(struct vlog *log, struct segment *seg);
void segment_discard(struct vlog *log, struct segment **sp);
/* Removes the table entry first and the file after it, so that every entry has its file. The folder
 * is not synced. */
MUST_CHECK err segment_remove(struct vlog *log, struct segment *seg);

#endif
