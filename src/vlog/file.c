/* file.c - every system call on files of the log, each with a place where a test injects a
 * failure. Invariant: no other file of vlog calls the kernel about a file. */
#include "vlog/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { IOVECS_MAX = 1024 };

static int fault(const struct file_faults *ff, enum file_call call, size_t *n)
{
    size_t whole = 0;
    return ff == NULL ? 0 : ff->hit(ff->ctx, call, n == NULL ? &whole : n);
}

err file_err(int errno_value)
{
    switch (errno_value) {
    case 0:
        return ERR_OK;
    case ENOSPC:
    case EDQUOT:
        return ERR_FULL;
    case EAGAIN:
        return ERR_AGAIN;
    case ENOENT:
        return ERR_NOT_FOUND;
    default:
        return ERR_IO;
    }
}

int file_open(const struct file_faults *ff, int dir_fd, const char *name, int flags, int *fd)
{
    int why = fault(ff, FILE_OPEN, NULL);
    if (why != 0)
        return why;
    /* Not blocking: a pipe would wait for its writer. */
    int got = openat(dir_fd, name, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
    if (got < 0)
        return errno;
    struct stat st;
    if (fstat(got, &st) != 0 || S_ISFIFO(st.st_mode)) {
        (void)close(got); /* nothing was written */
        return EINVAL;
    }
    *fd = got;
    return 0;
}

/* Steps over n written bytes. */
static void iov_skip(struct iovec **iov, int *count, size_t n)
{
    while (*count > 0 && n >= (*iov)->iov_len) {
        n -= (*iov)->iov_len;
        (*iov)++;
        (*count)--;
    }
    if (n > 0) {
        (*iov)->iov_base = (char *)(*iov)->iov_base + n;
        (*iov)->iov_len -= n;
    }
}

/* One pwritev of at most limit bytes, which a fault may have shortened. */
static ssize_t write_some(int fd, struct iovec *iov, int count, uint64_t offset, size_t limit)
{
    if (limit >= iov->iov_len)
        return pwritev(fd, iov, limit == SIZE_MAX ? count : 1, (off_t)offset);
    struct iovec cut = { .iov_base = iov->iov_base, .iov_len = limit };
    return pwritev(fd, &cut, 1, (off_t)offset);
}

int file_write(const struct file_faults *ff, int fd, struct iovec *iov, int count, uint64_t offset)
{
    iov_skip(&iov, &count, 0);
    while (count > 0) {
        size_t limit = SIZE_MAX;
        int why = fault(ff, FILE_PWRITEV, &limit);
        if (why == EINTR)
            continue;
        if (why != 0)
            return why;
        int some = count > IOVECS_MAX ? IOVECS_MAX : count;
        ssize_t n = write_some(fd, iov, some, offset, limit);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        if (n == 0)
            return EIO;
        offset += (uint64_t)n;
        iov_skip(&iov, &count, (size_t)n);
    }
    return 0;
}

int file_read_some(const struct file_faults *ff, int fd, void *dst, size_t n, uint64_t offset,
                   size_t *got)
{
    for (;;) {
        int why = fault(ff, FILE_PREAD, &n);
        if (why == EINTR)
            continue;
        if (why != 0)
            return why;
        ssize_t r = pread(fd, dst, n, (off_t)offset);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return errno;
        *got = (size_t)r;
        return 0;
    }
}

int file_read(const struct file_faults *ff, int fd, void *dst, size_t n, uint64_t offset)
{
    char *at = dst;
    while (n > 0) {
        size_t got = 0;
        int why = file_read_some(ff, fd, at, n, offset, &got);
        if (why != 0)
            return why;
        if (got == 0)
            return ENODATA;
        at += got;
        n -= got;
        offset += got;
    }
    return 0;
}

int file_read_now(const struct file_faults *ff, int fd, void *dst, size_t n, uint64_t offset)
{
    int why = fault(ff, FILE_PREAD, NULL);
    if (why != 0)
        return why;
    struct iovec iov = { .iov_base = dst, .iov_len = n };
    ssize_t r = preadv2(fd, &iov, 1, (off_t)offset, RWF_NOWAIT);
    if (r < 0)
        return errno == EOPNOTSUPP || errno == EINTR ? EAGAIN : errno;
    return (size_t)r == n ? 0 : EAGAIN;
}

int file_datasync(const struct file_faults *ff, int fd)
{
    int why = fault(ff, FILE_FDATASYNC, NULL);
    if (why != 0)
        return why;
    return fdatasync(fd) == 0 ? 0 : errno;
}

int file_sync(const struct file_faults *ff, int fd)
{
    int why = fault(ff, FILE_FSYNC, NULL);
    if (why != 0)
        return why;
    return fsync(fd) == 0 ? 0 : errno;
}

static int file_allocate(const struct file_faults *ff, enum file_call call, int fd, int mode,
                         uint64_t offset, uint64_t n)
{
    for (;;) {
        int why = fault(ff, call, NULL);
        if (why == EINTR)
            continue;
        if (why != 0)
            return why;
        if (fallocate(fd, mode, (off_t)offset, (off_t)n) == 0)
            return 0;
        if (errno == EOPNOTSUPP)
            return 0;
        if (errno != EINTR)
            return errno;
    }
}

int file_reserve(const struct file_faults *ff, int fd, uint64_t offset, uint64_t n)
{
    return file_allocate(ff, FILE_FALLOCATE, fd, FALLOC_FL_KEEP_SIZE, offset, n);
}

int file_punch(const struct file_faults *ff, int fd, uint64_t offset, uint64_t n)
{
    return file_allocate(ff, FILE_PUNCH, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, n);
}

int file_truncate(const struct file_faults *ff, int fd, uint64_t size)
{
    int why = fault(ff, FILE_TRUNCATE, NULL);
    if (why != 0)
        return why;
    return ftruncate(fd, (off_t)size) == 0 ? 0 : errno;
}

int file_unlink(const struct file_faults *ff, int dir_fd, const char *name)
{
    int why = fault(ff, FILE_UNLINK, NULL);
    if (why != 0)
        return why;
    return unlinkat(dir_fd, name, 0) == 0 ? 0 : errno;
}

int file_rename(const struct file_faults *ff, int dir_fd, const char *from, const char *to)
{
    int why = fault(ff, FILE_RENAME, NULL);
    if (why != 0)
        return why;
    return renameat(dir_fd, from, dir_fd, to) == 0 ? 0 : errno;
}

bool file_zeros_pay(int fd)
{
    struct statfs st;
    if (fstatfs(fd, &st) != 0)
        return false;
    return st.f_type == EXT4_SUPER_MAGIC || st.f_type == XFS_SUPER_MAGIC;
}

int file_space(const struct file_faults *ff, int fd, uint64_t *bytes)
{
    int why = fault(ff, FILE_STATVFS, NULL);
    if (why != 0)
        return why;
    struct statvfs st;
    if (fstatvfs(fd, &st) != 0)
        return errno;
    *bytes = (uint64_t)st.f_bavail * st.f_frsize;
    return 0;
}
