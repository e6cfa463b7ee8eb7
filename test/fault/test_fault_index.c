/* Goal: whatever call of LMDB on its data file fails: nothing acknowledged is lost, and the store
 * says so and stops. Method: this program defines pwrite, writev, write and fdatasync itself, so
 * that liblmdb calls them here; the Nth call on index/data.mdb fails, for every N until the
 * scenario runs to its end. */
#include "scenario.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

/* Global because LMDB knows no context; set while no engine is open. */
static struct {
    int fail; /* errno; 0: off */
    bool stays;
    int nth;
    atomic_int calls;
    atomic_bool reached;
} plan;

static bool is_index(int fd)
{
    char link[64], path[PATH_MAX];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path));
    return n > 0 && str_ends((str){ .p = path, .n = (size_t)n }, STR("/index/data.mdb"));
}

/* Whether this call is to fail; errno is set. */
static bool fails(int fd)
{
    if (plan.fail == 0 || !is_index(fd))
        return false;
    int i = atomic_fetch_add(&plan.calls, 1) + 1;
    if (plan.stays ? i < plan.nth : i != plan.nth)
        return false;
    atomic_store(&plan.reached, true);
    errno = plan.fail;
    return true;
}

ssize_t index_pwrite(int fd, const void *p, size_t n, off_t offset) __asm__("pwrite");
ssize_t index_pwrite(int fd, const void *p, size_t n, off_t offset)
{
    return fails(fd) ? -1 : syscall(SYS_pwrite64, fd, p, n, offset);
}

ssize_t index_writev(int fd, const struct iovec *iov, int count) __asm__("writev");
ssize_t index_writev(int fd, const struct iovec *iov, int count)
{
    return fails(fd) ? -1 : syscall(SYS_writev, fd, iov, count);
}

int index_fdatasync(int fd) __asm__("fdatasync");
int index_fdatasync(int fd)
{
    return fails(fd) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

/* True when the Nth call was never reached. */
static bool run_with(int fail, bool stays, int nth)
{
    struct scenario s;
    scenario_init(&s, NULL);
    plan.stays = stays;
    plan.nth = nth;
    atomic_store(&plan.calls, 0);
    atomic_store(&plan.reached, false);
    plan.fail = fail;
    scenario_run(&s);
    plan.fail = 0;
    if (!atomic_load(&plan.reached))
        assert_int_equal(s.refused, 0);
    scenario_compare(&s);
    scenario_fini(&s);
    return !atomic_load(&plan.reached);
}

static void fail_every_call(int fail, bool stays)
{
    int nth = 1;
    while (!run_with(fail, stays, nth))
        nth++;
    assert_true(nth > 5); /* the calls do come here */
    print_message("%d calls\n", atomic_load(&plan.calls));
}

static void any_index_call_may_fail_with_eio(void **state)
{
    (void)state;
    fail_every_call(EIO, false);
    fail_every_call(EIO, true);
}

static void any_index_call_may_find_the_disk_full(void **state)
{
    (void)state;
    fail_every_call(ENOSPC, true);
}

int main(void)
{
    scenario_on_tmpfs();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_index_call_may_fail_with_eio),
        cmocka_unit_test(any_index_call_may_find_the_disk_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
