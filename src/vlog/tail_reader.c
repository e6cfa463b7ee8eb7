/* tail_reader.c - one aligned window at a time, and again when the kernel refuses for a moment.
 *
 * Linux writes a file's dirty pages back before a direct read. Blocks that still have no place on
 * the disk behind that, as right after a process was killed, are an EIO for this one read, and the
 * kernel says "Direct I/O collision with buffered writes" (fs/iomap/direct-io.c, IOMAP_DELALLOC).
 * The next try writes them back, as a rule. It can go on so for minutes: then the file is synced,
 * the clean pages that the kernel has of it are dropped, and it is read without O_DIRECT: from the
 * disk, too. A disk that is broken fails all of that. */
#include "vlog/tail_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* tries of a read that gets EIO; between them 1, 4, 16 and 64 ms */
enum { ALIGN_BYTES = 4096, READ_TRIES = 5, READ_PAUSE_NS = 1000000, READ_PAUSE_GROWS = 4 };

static err open_fd(struct tail_reader *r, bool direct)
{
    char name[VLOG_NAME_BYTES];
    vlog_segment_name(r->segment, name);
    int fd = -1;
    int why =
        file_open(r->log->faults, r->log->dir_fd, name, O_RDONLY | (direct ? O_DIRECT : 0), &fd);
    if (why == EINVAL && direct)
        return open_fd(r, false); /* the file system knows no O_DIRECT */
    if (why != 0)
        return ERR_IO;
    if (r->fd >= 0)
        close(r->fd);
    r->fd = fd;
    r->direct = direct;
    return ERR_OK;
}

err tail_reader_init(struct tail_reader *r, struct vlog *log, struct segment *seg)
{
    *r = (struct tail_reader){
        .log = log, .segment = seg->number, .fd = -1, .size = atomic_load(&seg->end)
    };
    r->window = aligned_alloc(ALIGN_BYTES, TAIL_WINDOW_BYTES);
    INVARIANT(r->window != NULL);
    return open_fd(r, true);
}

void tail_reader_fini(struct tail_reader *r)
{
    if (r->fd >= 0)
        close(r->fd);
    free(r->window);
    *r = (struct tail_reader){ .fd = -1 };
}

static int read_once(const struct tail_reader *r, uint64_t start, size_t *got)
{
    return file_read_some(r->log->faults, r->fd, r->window, TAIL_WINDOW_BYTES, start, got);
}

/* The kernel refuses direct reads: what lies on the disk, by way of pages that it has to read. */
static int read_by_pages(struct tail_reader *r, uint64_t start, size_t *got)
{
    if (file_sync(r->log->faults, r->fd) != 0 || open_fd(r, false) != ERR_OK)
        return EIO;
    (void)posix_fadvise(r->fd, 0, 0, POSIX_FADV_DONTNEED); /* of all it has: they are clean */
    return read_once(r, start, got);
}

static int read_window(struct tail_reader *r, uint64_t start, size_t *got)
{
    struct timespec pause = { .tv_nsec = READ_PAUSE_NS };
    for (unsigned tries = 1;; tries++) {
        int why = read_once(r, start, got);
        if (why != EIO)
            return why;
        if (tries == READ_TRIES)
            return r->direct ? read_by_pages(r, start, got) : why;
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL); /* shorter is fine */
        pause.tv_nsec *= READ_PAUSE_GROWS;
    }
}

static err tail_reader_fill(struct tail_reader *r, uint64_t offset)
{
    uint64_t start = offset / ALIGN_BYTES * ALIGN_BYTES;
    size_t got = 0;
    r->window_n = 0;
    int why = read_window(r, start, &got);
    if (why == EINVAL && r->direct) {
        err again = open_fd(r, false);
        return again == ERR_OK ? tail_reader_fill(r, offset) : again;
    }
    if (why != 0)
        return ERR_IO;
    r->window_start = start;
    r->window_n = got;
    return ERR_OK;
}

static bool in_window(const struct tail_reader *r, uint64_t offset)
{
    return offset >= r->window_start && offset < r->window_start + r->window_n;
}

err tail_read(struct tail_reader *r, uint64_t offset, size_t n, char *dst)
{
    while (n > 0) {
        if (!in_window(r, offset)) {
            err why = tail_reader_fill(r, offset);
            if (why != ERR_OK)
                return why;
            if (!in_window(r, offset))
                return ERR_CORRUPT;
        }
        size_t at = (size_t)(offset - r->window_start);
        size_t some = r->window_n - at < n ? r->window_n - at : n;
        memcpy(dst, r->window + at, some);
        dst += some;
        offset += some;
        n -= some;
    }
    return ERR_OK;
}
