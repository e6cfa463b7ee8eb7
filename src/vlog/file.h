/* file.h - the tiny door to the disk: every call the store makes on a file of its own goes through
 * here. Not those on the index: LMDB writes that itself, and takes a short write for an I/O error
 * (docs/operations.md, exit codes).
 *
 * Each function takes a fault table (NULL: none). Before the kernel is asked, the table may fail
 * the call with an errno of its choice or shorten it, so that a test can fail the Nth call of a
 * scenario without the code above knowing. EINTR and short transfers are handled here and nowhere
 * else. Results: 0, or an errno; file_err() turns it into one of our codes. Thread: any. */
#ifndef VLOG_FILE_H
#define VLOG_FILE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/uio.h>

enum file_call {
    FILE_OPEN,
    FILE_PWRITEV,
    FILE_PREAD,
    FILE_FDATASYNC,
    FILE_FSYNC,
    FILE_FALLOCATE,
    FILE_PUNCH,
    FILE_TRUNCATE,
    FILE_UNLINK,
    FILE_RENAME,
    FILE_STATVFS,
    FILE_CALLS
};

struct file_faults {
    /* 0: go on (with *n bytes at most, for reads and writes); else the errno to fail with. */
    int (*hit)(void *ctx, enum file_call call, size_t *n);
    void *ctx;
};

/* ERR_OK, ERR_FULL (ENOSPC, EDQUOT), ERR_AGAIN, ERR_NOT_FOUND (ENOENT), else ERR_IO. */
err file_err(int errno_value);

/* *fd only on success; mode 0600, close-on-exec. */
MUST_CHECK int file_open(const struct file_faults *ff, int dir_fd, const char *name, int flags,
                         int *fd);
/* Writes everything; iov is changed on the way. */
MUST_CHECK int file_write(const struct file_faults *ff, int fd, struct iovec *iov, int count,
                          uint64_t offset);
/* Reads exactly n bytes; ENODATA when the file ends before. */
MUST_CHECK int file_read(const struct file_faults *ff, int fd, void *dst, size_t n,
                         uint64_t offset);
/* One pread of at most n bytes into an aligned buffer, for descriptors opened with O_DIRECT; *got
 * may be short. */
MUST_CHECK int file_read_some(const struct file_faults *ff, int fd, void *dst, size_t n,
                              uint64_t offset, size_t *got);
/* Reads exactly n bytes without waiting for the disk; EAGAIN when they are not in memory. */
MUST_CHECK int file_read_now(const struct file_faults *ff, int fd, void *dst, size_t n,
                             uint64_t offset);
MUST_CHECK int file_datasync(const struct file_faults *ff, int fd);
MUST_CHECK int file_sync(const struct file_faults *ff, int fd);
/* Blocks for [offset, offset + n) without changing the file's size. EOPNOTSUPP is success: the file
 * system cannot promise, and the check of free space has to do. */
MUST_CHECK int file_reserve(const struct file_faults *ff, int fd, uint64_t offset, uint64_t n);
/* Gives the blocks of [offset, offset + n) back. EOPNOTSUPP is success. */
MUST_CHECK int file_punch(const struct file_faults *ff, int fd, uint64_t offset, uint64_t n);
int file_truncate(const struct file_faults *ff, int fd, uint64_t size);
int file_unlink(const struct file_faults *ff, int dir_fd, const char *name);
MUST_CHECK int file_rename(const struct file_faults *ff, int dir_fd, const char *from,
                           const char *to);
/* Is a sync cheaper when its bytes went into blocks that hold zeros, not into reserved ones? It is
 * on ext4 and XFS, because their journal has nothing to record. It is not in memory, nor in file
 * systems that write everything to new blocks. */
bool file_zeros_pay(int fd);
/* Bytes an ordinary user may still take from the file system of fd. */
MUST_CHECK int file_space(const struct file_faults *ff, int fd, uint64_t *bytes);

#endif
