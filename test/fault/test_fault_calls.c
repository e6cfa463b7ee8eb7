/* Goal: whatever disk call fails, and however: no false acknowledgement, nothing acknowledged is lost, nothing half
 * written is seen, and what fails is told.
 * Method: one scenario (make, write, index, reclaim, back up, close, open again, write) run again and again, the Nth
 * disk call of our own failing, for every N until it runs to its end without reaching N; then the store is opened
 * without faults and compared. Kinds: EIO and ENOSPC once and from then on, short and interrupted transfers.
 * LMDB's calls: test_fault_index.c. Runs on tmpfs when there is one: thousands of syncs. */
#include "model.h"

#include "vlog/file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { KEYS = 12, WRITES = 10 };

struct plan {
    int fail;             /* errno; 0: shorten the transfer to one byte */
    bool stays;           /* every call from the Nth on */
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
    if (p->fail == ENOSPC && (call == FILE_PREAD || call == FILE_UNLINK || call == FILE_PUNCH || call == FILE_STATVFS))
        return 0; /* these do not run out of room */
    if (p->fail == EINTR && call != FILE_PREAD && call != FILE_PWRITEV && call != FILE_FALLOCATE && call != FILE_PUNCH)
        return 0;
    atomic_store(&p->reached, true);
    if (p->fail == 0 && *n > 1)
        *n = 1;
    return p->fail;
}

struct scenario {
    struct scratch scratch;
    char backup[SCRATCH_PATH_BYTES];
    uint64_t acked[KEYS];      /* version each key must at least show; 0: none */
    uint64_t tried[KEYS];      /* the last version submitted */
    bool unknown[KEYS];        /* the last write failed with ERR_IO: it may or may not be there */
    uint64_t versions;
    atomic_int failures;       /* on_failure calls */
    int refused;               /* updates that were not acknowledged */
};

static void on_failure(void *ctx, const char *what)
{
    struct scenario *s = ctx;
    (void)what;
    atomic_fetch_add(&s->failures, 1);
}

static str key_of(uint64_t i, char *buf)
{
    int n = snprintf(buf, 16, "k%02u", (unsigned)i);
    return (str){ .p = buf, .n = (size_t)n };
}

static void write_one(struct scenario *s)
{
    static char bytes[MODEL_VALUE_BYTES_MAX];
    char key[16], value[32];
    uint64_t v = ++s->versions;
    uint64_t k = v * 5 % KEYS;
    size_t n = model_bytes(v, bytes);
    int vn = snprintf(value, sizeof(value), "%llu", (unsigned long long)v);
    err why = scratch_put(&s->scratch, SPACE_ROW, key_of(k, key), (str){ .p = value, .n = (size_t)vn },
                          (str){ .p = bytes, .n = n });
    s->tried[k] = v;
    s->refused += why != ERR_OK;
    s->unknown[k] = why == ERR_IO || (s->unknown[k] && why != ERR_OK);
    if (why == ERR_OK)
        s->acked[k] = v;
    if (why == ERR_IO || why == ERR_UNAVAILABLE)
        assert_true(atomic_load(&s->failures) > 0);
}

/* Opens; with faults that may fail, which must be told. */
static bool open_store(struct scenario *s)
{
    struct err_note note = { .text = "" };
    err why = scratch_try(&s->scratch, false, &note);
    if (why == ERR_OK) {
        engine_on_failure(s->scratch.engine, on_failure, s);
        return true;
    }
    assert_true(why == ERR_IO || why == ERR_FULL || why == ERR_CORRUPT);
    assert_true(note.text[0] != '\0');
    s->scratch.engine = NULL;
    return false;
}

/* A fault may come after engine_start and before on_failure is set; the engine then has nothing to write. */
static void scenario_run(struct scenario *s)
{
    struct engine_backup_result r;
    struct err_note note;
    for (int round = 0; round < 2; round++) {
        bool more = true;
        if (!open_store(s))
            continue;
        for (int i = 0; i < WRITES; i++)
            write_one(s);
        (void)!engine_flush(s->scratch.engine);
        for (int i = 0; i < WRITES; i++)
            write_one(s);
        (void)!engine_flush(s->scratch.engine);
        for (int i = 0; i < 3 && more; i++)
            if (engine_reclaim(s->scratch.engine, &more) != ERR_OK)
                break;
        (void)!engine_backup(s->scratch.engine, s->backup, &r, &note);
        scratch_close(&s->scratch);
    }
}

static void compare_key(struct scenario *s, uint64_t k)
{
    static char bytes[MODEL_VALUE_BYTES_MAX];
    char key[16];
    struct scratch_row r;
    err why = scratch_get(&s->scratch, SPACE_ROW, key_of(k, key), &r);
    if (why == ERR_NOT_FOUND) {
        assert_int_equal(s->acked[k], 0);
        return;
    }
    assert_int_equal(why, ERR_OK);
    uint64_t v = 0;
    assert_true(str_to_u64((str){ .p = r.value, .n = r.value_n }, &v));
    assert_true(v == s->acked[k] || (s->unknown[k] && v > s->acked[k] && v <= s->tried[k]));
    assert_int_equal(r.bytes_n, model_bytes(v, bytes));
    assert_memory_equal(r.bytes, bytes, r.bytes_n);
    scratch_row_free(&r);
}

static void compare(struct scenario *s)
{
    struct err_note note = { .text = "" };
    s->scratch.faults = NULL;
    err why = scratch_try(&s->scratch, false, &note);
    if (why != ERR_OK)
        fail_msg("open after the fault: %s: %s", err_name(why), note.text);
    for (uint64_t k = 0; k < KEYS; k++)
        compare_key(s, k);
    bool more = true;
    while (more)
        assert_int_equal(engine_reclaim(s->scratch.engine, &more), ERR_OK);
    expect_sound(s->scratch.engine);
    struct engine_backup_result r;
    if (engine_backup(s->scratch.engine, s->backup, &r, &note) != ERR_OK)
        fail_msg("backup after the fault: %s", note.text);
    scratch_close(&s->scratch);
}

static void remove_tree(struct scratch *s, const char *dir)
{
    struct scratch other = *s;
    (void)snprintf(other.dir, sizeof(other.dir), "%s", dir);
    other.engine = NULL;
    scratch_fini(&other);
}

/* True when the Nth call was never reached. */
static bool run_with(struct plan *plan)
{
    struct scenario s = { .versions = 0 };
    struct file_faults ff = { .hit = hit, .ctx = plan };
    scratch_init(&s.scratch);
    assert_true(snprintf(s.backup, sizeof(s.backup), "%s.b", s.scratch.dir) < (int)sizeof(s.backup));
    s.scratch.segment_bytes = 128 << 10;
    s.scratch.faults = &ff;
    scenario_run(&s);
    if (!atomic_load(&plan->reached) || plan->fail == 0 || plan->fail == EINTR)
        assert_int_equal(s.refused, 0);
    compare(&s);
    remove_tree(&s.scratch, s.backup);
    scratch_fini(&s.scratch);
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

int main(void)
{
    if (access("/dev/shm", W_OK) == 0)
        (void)setenv("TMPDIR", "/dev/shm", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_call_may_fail_with_eio),
        cmocka_unit_test(any_call_may_fail_with_eio_from_then_on),
        cmocka_unit_test(any_call_may_find_the_disk_full),
        cmocka_unit_test(disk_may_stay_full),
        cmocka_unit_test(interrupted_and_short_calls_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
