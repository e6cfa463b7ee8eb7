/* Goal: short transfers and EINTR are invisible above file.h; every other failure arrives as its
 * errno. Method: a fault table that shortens or fails calls, on a real file. */
#include "lib/folder.h"
#include "vlog/file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct plan {
    enum file_call call;
    int fail; /* errno of the first `times` calls */
    int times;
    size_t most; /* bytes a call may transfer; 0: all */
    int calls;
};

static int hit(void *ctx, enum file_call call, size_t *n)
{
    struct plan *p = ctx;
    if (call != p->call)
        return 0;
    p->calls++;
    if (p->most > 0 && *n > p->most)
        *n = p->most;
    return p->calls <= p->times ? p->fail : 0;
}

static int scratch_file(void)
{
    char name[] = "/tmp/vlog-file-XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    unlink(name);
    return fd;
}

static void shortened_and_interrupted_writes_write_everything(void **state)
{
    (void)state;
    int fd = scratch_file();
    struct plan plan = { .call = FILE_PWRITEV, .fail = EINTR, .times = 2, .most = 3 };
    struct file_faults ff = { .hit = hit, .ctx = &plan };
    char a[] = "hello ", b[] = "", c[] = "world";
    struct iovec iov[] = { { a, 6 }, { b, 0 }, { c, 5 } };
    assert_int_equal(file_write(&ff, fd, iov, 3, 100), 0);
    assert_true(plan.calls > 4);
    char got[11];
    plan = (struct plan){ .call = FILE_PREAD, .fail = EINTR, .times = 1, .most = 2 };
    assert_int_equal(file_read(&ff, fd, got, sizeof(got), 100), 0);
    assert_memory_equal(got, "hello world", 11);
    assert_int_equal(file_read(&ff, fd, got, sizeof(got), 101), ENODATA);
    close(fd);
}

static void many_slices_are_written_in_order(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    static char bytes[COUNT], got[COUNT];
    static struct iovec iov[COUNT];
    int fd = scratch_file();
    for (int i = 0; i < COUNT; i++) {
        bytes[i] = (char)('a' + i % 26);
        iov[i] = (struct iovec){ .iov_base = &bytes[i], .iov_len = 1 };
    }
    assert_int_equal(file_write(NULL, fd, iov, COUNT, 0), 0);
    assert_int_equal(file_read(NULL, fd, got, COUNT, 0), 0);
    assert_memory_equal(got, bytes, COUNT);
    close(fd);
}

static void failures_arrive_as_their_errno(void **state)
{
    (void)state;
    int fd = scratch_file();
    struct plan plan = { .call = FILE_FDATASYNC, .fail = EIO, .times = 1 };
    struct file_faults ff = { .hit = hit, .ctx = &plan };
    assert_int_equal(file_datasync(&ff, fd), EIO);
    plan = (struct plan){ .call = FILE_FALLOCATE, .fail = ENOSPC, .times = 1 };
    assert_int_equal(file_reserve(&ff, fd, 0, 4096), ENOSPC);
    assert_int_equal(file_err(ENOSPC), ERR_FULL);
    assert_int_equal(file_err(EIO), ERR_IO);
    assert_int_equal(file_err(ENOENT), ERR_NOT_FOUND);
    close(fd);
}

static void reserving_keeps_the_size(void **state)
{
    (void)state;
    int fd = scratch_file();
    struct stat st;
    assert_int_equal(file_reserve(NULL, fd, 0, 1 << 20), 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, 0);
    close(fd);
}

/* Else whoever opens a pipe left in place of a segment waits for its writer for ever. */
static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    char dir[FOLDER_PATH_BYTES];
    folder_make(dir);
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY), fd = -1;
    assert_int_equal(mkfifoat(dir_fd, "pipe", 0600), 0);
    assert_int_equal(file_open(NULL, dir_fd, "pipe", O_RDONLY, &fd), EINVAL);
    assert_int_equal(file_open(NULL, dir_fd, "pipe", O_RDWR, &fd), EINVAL);
    assert_int_equal(fd, -1);
    close(dir_fd);
    folder_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shortened_and_interrupted_writes_write_everything),
        cmocka_unit_test(many_slices_are_written_in_order),
        cmocka_unit_test(failures_arrive_as_their_errno),
        cmocka_unit_test(reserving_keeps_the_size),
        cmocka_unit_test(what_is_no_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
