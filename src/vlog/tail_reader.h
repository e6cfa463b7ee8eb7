/* tail_reader.h - reads a segment past the page cache where the file system allows.
 *
 * After a failed sync the page cache may show bytes that are not on disk; what is replayed must be
 * what the disk holds, so the tail is read with O_DIRECT, through one aligned buffer. Thread: one
 * at a time. */
#ifndef VLOG_TAIL_READER_H
#define VLOG_TAIL_READER_H

#include "vlog/segment.h"

struct tail_reader {
    struct vlog *log;
    uint32_t segment;
    int fd;
    bool direct;
    char *window; /* TAIL_WINDOW_BYTES, aligned */
    uint64_t window_start;
    size_t window_n;
    uint64_t size; /* of the file */
};
enum { TAIL_WINDOW_BYTES = 1 << 20 };

/* Owner: caller, tail_reader_fini. ERR_IO. */
MUST_CHECK err tail_reader_init(struct tail_reader *r, struct vlog *log, struct segment *seg);
void tail_reader_fini(struct tail_reader *r);
/* n bytes at offset, all within size. ERR_IO; ERR_CORRUPT when the file is shorter than it was. */
MUST_CHECK err tail_read(struct tail_reader *r, uint64_t offset, size_t n, char *dst);

#endif
