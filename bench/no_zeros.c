/* no_zeros.c - preloaded into a server, says of every file system that it is one of memory, so that
 * the server writes no zeros ahead of its log (vlog/zeros.h). For bench/zeros.py: one binary, with
 * and without. */
#include <linux/magic.h>
#include <sys/vfs.h>

int fstatfs(int fd, struct statfs *out)
{
    (void)fd;
    *out = (struct statfs){ .f_type = TMPFS_MAGIC };
    return 0;
}

/* What the first is called where files have 64 bits. */
int fstatfs64(int fd, struct statfs64 *out)
{
    (void)fd;
    *out = (struct statfs64){ .f_type = TMPFS_MAGIC };
    return 0;
}
