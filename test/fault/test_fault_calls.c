/* Goal: whatever disk call fails, and however: no false acknowledgement, nothing acknowledged is
 * lost, nothing half written is seen, and what fails is told.
 * Method: one scenario (scenario.h) run again and again, the Nth disk call of our own failing, for
 * every N until it runs to its end without reaching N. Kinds: EIO and ENOSPC, once and from then
 * on; short and interrupted transfers. LMDB's calls: test_fault_index.c. */
#include "scenario.h"

#include "vlog/file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct plan {
    int fail;   /* errno; 0: shorten the transfer to one byte */
    bool stays; /* every call from the Nth on */
    int nth;
    atomic_int calls;
    atomic_bool reached;
};

static int hit(void *ctx, enum file_call call, size_t *n)
{
    struct plan *p = ctx;
    int i = atomic_fetch_add(&p->calls, 1) + 1;
    bool now = p->stays ? i >= p->nth : i == p->nth;
    if (!now)
        return 0;
    if (p->fail == ENOSPC &&
        (call == FILE_PREAD || call == FILE_UNLINK || call == FILE_PUNCH || call == FILE_STATVFS))
        return 0; /* these do not run out of room */
    if (p->fail == EINTR && call != FILE_PREAD && call != FILE_PWRITEV && call != FILE_FALLOCATE &&
        call != FILE_PUNCH)
        return 0;
    atomic_store(&p->reached, true);
    if (p->fail == 0 && *n > 1)
        *n = 1;
    return p->fail;
}

/* True when the Nth call was never reached. */
static bool run_with(struct plan *plan)
{
    struct scenario s;
    struct file_faults ff = { .hit = hit, .ctx = plan };
    scenario_init(&s, &ff);
    scenario_run(&s);
    if (!atomic_load(&plan->reached) || plan->fail == 0 || plan->fail == EINTR)
        assert_int_equal(s.refused, 0);
    s.scratch.faults = NULL;
    scenario_compare(&s);
    scenario_fini(&s);
    return !atomic_load(&plan->reached) && atomic_load(&plan->calls) < plan->nth;
}

static void fail_every_call(int fail, bool stays, int step)
{
    for (int nth = 1;; nth += step) {
        struct plan plan = { .fail = fail, .stays = stays, .nth = nth };
        if (run_with(&plan)) {
            print_message("%d calls\n", atomic_load(&plan.calls));
            return;
        }
    }
}

static void any_call_may_fail_with_eio(void **state)
{
    (void)state;
    fail_every_call(EIO, false, 1);
}

static void any_call_may_fail_with_eio_from_then_on(void **state)
{
    (void)state;
    fail_every_call(EIO, true, 1);
}

static void any_call_may_find_the_disk_full(void **state)
{
    (void)state;
    fail_every_call(ENOSPC, false, 1);
}

static void disk_may_stay_full(void **state)
{
    (void)state;
    fail_every_call(ENOSPC, true, 1);
}

static void interrupted_and_short_calls_change_nothing(void **state)
{
    (void)state;
    fail_every_call(EINTR, false, 7);
    fail_every_call(0, false, 7);
}

struct trace {
    atomic_int writes, unsynced;
};

static int trace_hit(void *ctx, enum file_call call, size_t *n)
{
    struct trace *t = ctx;
    (void)n;
    if (call == FILE_PWRITEV) {
        atomic_fetch_add(&t->writes, 1);
        atomic_store(&t->unsynced, 1);
    }
    if (call == FILE_FDATASYNC)
        atomic_store(&t->unsynced, 0);
    return 0;
}

static void nothing_is_acknowledged_before_it_is_synced(void **state)
{
    (void)state;
    struct trace trace = { 0 };
    struct file_faults ff = { .hit = trace_hit, .ctx = &trace };
    struct scratch s;
    scratch_init(&s);
    s.faults = &ff;
    scratch_open(&s);
    for (int i = 0; i < 50; i++) {
        int before = atomic_load(&trace.writes);
        assert_int_equal(scratch_put(&s, SPACE_ROW, STR("k"), STR("v"),
                                     i % 2 == 0 ? STR_NONE : STR("b")),
                         ERR_OK);
        assert_true(atomic_load(&trace.writes) > before);
        assert_int_equal(atomic_load(&trace.unsynced), 0);
    }
    scratch_fini(&s);
}

int main(void)
{
    scenario_on_tmpfs();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_acknowledged_before_it_is_synced),
        cmocka_unit_test(any_call_may_fail_with_eio),
        cmocka_unit_test(any_call_may_fail_with_eio_from_then_on),
        cmocka_unit_test(any_call_may_find_the_disk_full),
        cmocka_unit_test(disk_may_stay_full),
        cmocka_unit_test(interrupted_and_short_calls_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
