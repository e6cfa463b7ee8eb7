/* segment.c - the table of segment files: finds, makes, adds and removes them. Invariant: a
 * segment's file is complete and synced with its folder before the table has it. */
#include "vlog/segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void vlog_segment_name(uint32_t number, char out[VLOG_NAME_BYTES])
{
    snprintf(out, VLOG_NAME_BYTES, "%08u.seg", number);
}

static bool name_number(const char *name, uint32_t *number)
{
    str rest = str_of(name);
    if (!str_ends(rest, STR(".seg")))
        return false;
    uint64_t n = 0;
    if (!str_to_u64(str_take(rest, rest.n - 4), &n) || n == 0 || n > UINT32_MAX)
        return false;
    char again[VLOG_NAME_BYTES];
    vlog_segment_name((uint32_t)n, again);
    if (strcmp(name, again) != 0)
        return false;
    *number = (uint32_t)n;
    return true;
}

static struct segment *segment_new(uint32_t number, uint64_t end)
{
    struct segment *seg = calloc(1, sizeof(*seg));
    INVARIANT(seg != NULL);
    seg->number = number;
    atomic_init(&seg->fd, -1);
    atomic_init(&seg->end, end);
    return seg;
}

static void segment_free(struct segment *seg)
{
    int fd = atomic_load(&seg->fd);
    if (fd >= 0)
        close(fd);
    free(seg);
}

/* Index of the first segment with a number >= this one. Under the lock. */
static size_t lower_bound(const struct segments *s, uint32_t number)
{
    size_t low = 0;
    size_t high = s->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (s->all[mid]->number < number)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void table_add(struct segments *s, struct segment *seg)
{
    if (s->count == s->size) {
        s->size = s->size == 0 ? 16 : s->size * 2;
        s->all = realloc(s->all, s->size * sizeof(*s->all));
        INVARIANT(s->all != NULL);
    }
    size_t at = lower_bound(s, seg->number);
    memmove(s->all + at + 1, s->all + at, (s->count - at) * sizeof(*s->all));
    s->all[at] = seg;
    s->count++;
}

err segments_init(struct vlog *log)
{
    int fd = openat(log->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return ERR_IO;
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        close(fd);
        return ERR_IO;
    }
    err why = ERR_OK;
    for (struct dirent *d = readdir(dir); d != NULL && why == ERR_OK; d = readdir(dir)) {
        uint32_t number;
        struct stat st;
        if (!name_number(d->d_name, &number))
            continue;
        if (fstatat(log->dir_fd, d->d_name, &st, 0) != 0)
            why = ERR_IO;
        else
            table_add(&log->segments, segment_new(number, (uint64_t)st.st_size));
    }
    closedir(dir);
    return why;
}

void segments_fini(struct segments *s)
{
    for (size_t i = 0; i < s->count; i++)
        segment_free(s->all[i]);
    free(s->all);
    s->all = NULL;
    s->count = s->size = 0;
}

struct segment *segments_find(struct segments *s, uint32_t number)
{
    pthread_rwlock_rdlock(&s->lock);
    size_t at = lower_bound(s, number);
    struct segment *seg = at < s->count && s->all[at]->number == number ? s->all[at] : NULL;
    pthread_rwlock_unlock(&s->lock);
    return seg;
}

err segment_fd(struct vlog *log, struct segment *seg, int *fd)
{
    int have = atomic_load_explicit(&seg->fd, memory_order_acquire);
    if (have >= 0) {
        *fd = have;
        return ERR_OK;
    }
    char name[VLOG_NAME_BYTES];
    vlog_segment_name(seg->number, name);
    int opened = -1;
    int why =
        file_open(log->faults, log->dir_fd, name, log->read_only ? O_RDONLY : O_RDWR, &opened);
    if (why != 0)
        return file_err(why);
    int none = -1;
    if (!atomic_compare_exchange_strong(&seg->fd, &none, opened)) {
        close(opened);
        opened = none;
    }
    *fd = opened;
    return ERR_OK;
}

/* NNNNNNNN.seg.new; what a crash leaves of it the next start sweeps away (engine/backup.c). */
enum { PART_NAME_BYTES = VLOG_NAME_BYTES + sizeof(".new") };

static void part_name(uint32_t number, char out[PART_NAME_BYTES])
{
    snprintf(out, PART_NAME_BYTES, "%08u.seg.new", number);
}

static int write_header(struct vlog *log, uint32_t number, int fd)
{
    char header[RECORD_SEGMENT_BYTES];
    record_segment_encode((struct record_spot){ .id = log->id, .segment = number, .offset = 0 },
                          header);
    struct iovec iov = { .iov_base = header, .iov_len = sizeof(header) };
    int why = file_reserve(log->faults, fd, 0, VLOG_AHEAD_BYTES_MIN);
    if (why == 0)
        why = file_write(log->faults, fd, &iov, 1, 0);
    return why == 0 ? file_datasync(log->faults, fd) : why;
}

err segment_make(struct vlog *log, uint32_t number, struct segment **out)
{
    char name[PART_NAME_BYTES];
    part_name(number, name);
    int fd = -1;
    int why = file_open(log->faults, log->dir_fd, name, O_RDWR | O_CREAT | O_TRUNC, &fd);
    struct segment *seg = segment_new(number, RECORD_SEGMENT_BYTES);
    atomic_store(&seg->fd, fd);
    seg->reserved = VLOG_AHEAD_BYTES_MIN;
    if (why == 0)
        why = write_header(log, number, fd);
    if (why != 0) {
        segment_discard(log, &seg);
        return file_err(why) == ERR_FULL ? ERR_FULL : ERR_IO;
    }
    *out = seg;
    return ERR_OK;
}

void segment_discard(struct vlog *log, struct segment **sp)
{
    char name[PART_NAME_BYTES];
    part_name((*sp)->number, name);
    segment_free(*sp);
    *sp = NULL;
    (void)file_unlink(log->faults, log->dir_fd, name); /* in the way of nobody */
}

err segment_add(struct vlog *log, struct segment *seg)
{
    char part[PART_NAME_BYTES], name[VLOG_NAME_BYTES];
    part_name(seg->number, part);
    vlog_segment_name(seg->number, name);
    int why = file_rename(log->faults, log->dir_fd, part, name);
    if (why != 0)
        return file_err(why) == ERR_FULL ? ERR_FULL : ERR_IO;
    if (file_sync(log->faults, log->dir_fd) != 0)
        return ERR_IO;
    pthread_rwlock_wrlock(&log->segments.lock);
    table_add(&log->segments, seg);
    pthread_rwlock_unlock(&log->segments.lock);
    return ERR_OK;
}

err segment_remove(struct vlog *log, struct segment *seg)
{
    char name[VLOG_NAME_BYTES];
    vlog_segment_name(seg->number, name);
    struct segments *s = &log->segments;
    pthread_rwlock_wrlock(&s->lock);
    size_t at = lower_bound(s, seg->number);
    INVARIANT(at < s->count && s->all[at] == seg);
    memmove(s->all + at, s->all + at + 1, (s->count - at - 1) * sizeof(*s->all));
    s->count--;
    pthread_rwlock_unlock(&s->lock);
    segment_free(seg);
    int why = file_unlink(log->faults, log->dir_fd, name);
    return why == ENOENT ? ERR_OK : file_err(why);
}

err vlog_segment_next(struct vlog *log, uint32_t from, struct vlog_segment *out)
{
    struct segments *s = &log->segments;
    pthread_rwlock_rdlock(&s->lock);
    size_t at = lower_bound(s, from);
    struct segment *seg = at < s->count ? s->all[at] : NULL;
    err why = ERR_NOT_FOUND;
    struct stat st;
    char name[VLOG_NAME_BYTES];
    if (seg != NULL) {
        vlog_segment_name(seg->number, name);
        why = fstatat(log->dir_fd, name, &st, 0) == 0 ? ERR_OK : ERR_IO;
    }
    if (why == ERR_OK)
        *out = (struct vlog_segment){
            .end = atomic_load(&seg->end),
            .allocated = (uint64_t)st.st_blocks * 512,
            .number = seg->number,
            .sealed = at + 1 < s->count,
        };
    pthread_rwlock_unlock(&s->lock);
    return why;
}

err vlog_unlink(struct vlog *log, uint32_t number)
{
    struct segments *s = &log->segments;
    pthread_rwlock_rdlock(&s->lock);
    size_t at = lower_bound(s, number);
    struct segment *seg = at < s->count && s->all[at]->number == number ? s->all[at] : NULL;
    INVARIANT(seg == NULL || at + 1 < s->count); /* never the one that is written */
    pthread_rwlock_unlock(&s->lock);
    return seg == NULL ? ERR_OK : segment_remove(log, seg);
}
