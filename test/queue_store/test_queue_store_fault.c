/* Goal: whatever call to the disk fails, whenever the process is killed, however full the disk is:
 * a write is there whole or not at all, what was acknowledged is there, what failed definitely is
 * not, and the store works on. Method: the model's history on a disk that fails the Nth call, for
 * every N; a child that is killed; a disk without room. FAULT_KILL_CYCLES sets the number of kills
 * (60); FAULT_SEED the seed, printed. */
#include "engine/store.h"
#include "lib/wait.h"
#include "scratch.h"
#include "suite.h"
#include "vlog/file.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { STEPS = 30, CYCLES = 60, CALLS_MAX = 20000, OWN_TRIES = 1000 };

struct fixture {
    struct scratch scratch;
    struct file_faults faults;
    struct queue_store *store;
    atomic_long calls_left; /* until one fails */
    int errno_value;
    bool hit; /* it did */
    uint64_t free_bytes_min;
    atomic_int failures;
};

static int hit(void *ctx, enum file_call call, size_t *n)
{
    struct fixture *f = ctx;
    (void)n;
    if (call == FILE_STATVFS && atomic_load(&f->calls_left) > 1)
        return 0; /* only asks */
    if (atomic_fetch_sub(&f->calls_left, 1) != 1)
        return 0;
    f->hit = true;
    return f->errno_value;
}

static void store_failed(void *ctx, const char *store, const char *what)
{
    struct fixture *f = ctx;
    (void)store, (void)what;
    atomic_fetch_add(&f->failures, 1);
}

static err store_try(struct fixture *f)
{
    store_time greatest;
    struct queue_local_opts opts = {
        .name = "a",
        .dir = f->scratch.dir,
        .clock = &f->scratch.clock.clock,
        .segment_bytes = 1 << 17,
        .free_bytes_min = f->free_bytes_min,
        .faults = &f->faults,
        .failed = store_failed,
        .ctx = f,
    };
    return queue_local_open(&opts, &f->store, &greatest, NULL);
}

static void store_open(struct fixture *f)
{
    if (store_try(f) != ERR_OK)
        assert_int_equal(store_try(f), ERR_OK); /* a call fails once */
}

static void store_close(struct fixture *f)
{
    f->store->ops->close(&f->store);
}

static void fixture_init(struct fixture *f)
{
    *f = (struct fixture){ .faults.hit = hit };
    f->faults.ctx = f;
    f->free_bytes_min = 1;
    scratch_init(&f->scratch);
}

static void print_found(void *ctx, const char *what)
{
    (void)ctx;
    print_error("check: %s\n", what);
}

/* All of it, at rest. */
static void expect_sound_at_rest(struct fixture *f)
{
    struct err_note note = { .text = "" };
    struct engine_check_opts opts = { .found = print_found };
    if (scratch_try(&f->scratch, true, &note) != ERR_OK)
        fail_msg("%s", note.text);
    assert_int_equal(engine_check(f->scratch.engine, &opts), ERR_OK);
    assert_int_equal(queue_local_check(f->scratch.engine, print_found, NULL), ERR_OK);
    scratch_close(&f->scratch);
}

/* ---- the Nth call ---- */

static void own_again(struct fixture *f, struct model *m)
{
    for (int tries = 0;; tries++) {
        err why = f->store->ops->recover(f->store, NULL, NULL);
        if (why == ERR_OK)
            why = model_own(m, f->store);
        if (why == ERR_OK)
            return;
        assert_true(tries < OWN_TRIES);
        if (why == ERR_FULL) /* the index tries again by and by */
            wait_pause(10);
    }
}

static struct model before, after;

/* One step with any outcome; afterwards m is what the store shows. */
static void step(struct fixture *f, struct model *m)
{
    static struct model_write w;
    char why_after[MODEL_WHY_BYTES], why_before[MODEL_WHY_BYTES];
    before = after = *m;
    model_step(&after, &w);
    before.rng = after.rng;
    err why = model_write_run(f->store, &w.write);
    model_write_fini(&w);
    *m = why == ERR_OK ? after : before;
    if (why == ERR_OK || why == ERR_FULL)
        return;
    assert_true(why == ERR_IO || why == ERR_UNAVAILABLE);
    own_again(f, m);
    for (unsigned i = 0; i < MODEL_PARTS; i++)
        after.parts[i].epoch = before.parts[i].epoch = m->parts[i].epoch;
    if (model_shown(&before, f->store, why_before))
        return;
    *m = after;
    if (why != ERR_IO || !model_shown(&after, f->store, why_after))
        fail_msg("%s at step %llu: before: %s; after: %s", err_name(why),
                 (unsigned long long)after.steps, why_before, why_after);
}

static void shown(struct fixture *f, const struct model *m)
{
    char why[MODEL_WHY_BYTES];
    if (!model_shown(m, f->store, why))
        fail_msg("after step %llu: %s", (unsigned long long)m->steps, why);
}

/* False: the history is over before the call comes. */
static bool history_with_failing_call(long n, int errno_value)
{
    static struct fixture f;
    static struct model m;
    fixture_init(&f);
    f.errno_value = errno_value;
    atomic_store(&f.calls_left, n);
    model_init(&m, 77, 1);
    store_open(&f);
    own_again(&f, &m);
    for (unsigned i = 0; i < STEPS; i++) {
        step(&f, &m);
        if (i != STEPS / 2)
            continue;
        store_close(&f);
        store_open(&f);
        own_again(&f, &m);
    }
    atomic_store(&f.calls_left, 0);
    own_again(&f, &m);
    shown(&f, &m);
    store_close(&f);
    expect_sound_at_rest(&f);
    scratch_fini(&f.scratch);
    return f.hit;
}

static void every_failing_call(int errno_value)
{
    long n = 1;
    while (n < CALLS_MAX && history_with_failing_call(n, errno_value))
        n++;
    print_message("%ld calls\n", n - 1);
    assert_true(n > 50 && n < CALLS_MAX);
}

static void any_failing_call_leaves_writes_whole(void **state)
{
    (void)state;
    every_failing_call(EIO);
}

static void any_full_call_leaves_writes_whole(void **state)
{
    (void)state;
    every_failing_call(ENOSPC);
}

/* ---- kill -9 ---- */

static _Noreturn void child_run(struct fixture *f, struct model *m, int pipe_fd)
{
    static struct model_write w;
    if (store_try(f) != ERR_OK || model_own(m, f->store) != ERR_OK)
        _exit(4);
    for (;;) {
        model_step(m, &w);
        if (model_write_run(f->store, &w.write) != ERR_OK)
            _exit(5);
        model_write_fini(&w);
        if (write(pipe_fd, &m->steps, sizeof(m->steps)) != (ssize_t)sizeof(m->steps))
            _exit(6);
    }
}

/* Counts steps until the pipe ends; kills at the given one. */
static uint64_t watch(int fd, pid_t child, uint64_t first, uint64_t count)
{
    uint64_t step_done;
    uint64_t acked = first;
    if (count == 0)
        kill(child, SIGKILL);
    while (read(fd, &step_done, sizeof(step_done)) == (ssize_t)sizeof(step_done)) {
        assert_int_equal(step_done, acked + 1);
        acked = step_done;
        if (acked - first == count)
            kill(child, SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return acked;
}

static void cycle(struct fixture *f, struct model *m, uint64_t count)
{
    static struct model_write w;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(fds[0]);
        child_run(f, m, fds[1]);
    }
    close(fds[1]);
    uint64_t acked = watch(fds[0], child, m->steps, count);
    close(fds[0]);
    while (m->steps < acked) {
        model_step(m, &w);
        model_write_fini(&w);
    }
    after = *m;
    model_step(&after, &w);
    model_write_fini(&w);
    assert_int_equal(store_try(f), ERR_OK);
    assert_int_equal(model_own(m, f->store), ERR_OK);
    for (unsigned i = 0; i < MODEL_PARTS; i++)
        after.parts[i].epoch = m->parts[i].epoch;
    char why[MODEL_WHY_BYTES], why_after[MODEL_WHY_BYTES];
    if (!model_shown(m, f->store, why)) {
        if (!model_shown(&after, f->store, why_after))
            fail_msg("after step %llu: %s; one more: %s", (unsigned long long)m->steps, why,
                     why_after);
        *m = after;
    }
    store_close(f);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    uint64_t n = otherwise;
    const char *text = getenv(name);
    if (text != NULL)
        assert_true(str_to_u64(str_of(text), &n));
    return n;
}

static void kill_loses_no_acknowledged_write(void **state)
{
    (void)state;
    static struct fixture f;
    static struct model m;
    uint64_t seed = number_of("FAULT_SEED", (uint64_t)getpid());
    uint64_t cycles = number_of("FAULT_KILL_CYCLES", CYCLES);
    struct rng rng;
    rng_init(&rng, seed);
    print_message("seed %llu\n", (unsigned long long)seed);
    fixture_init(&f);
    model_init(&m, seed, 1);
    for (uint64_t i = 0; i < cycles; i++)
        cycle(&f, &m, rng_below(&rng, 60));
    expect_sound_at_rest(&f);
    print_message("%llu kills, %llu writes, 0 lost\n", (unsigned long long)cycles,
                  (unsigned long long)m.steps);
    scratch_fini(&f.scratch);
}

/* ---- a full disk ---- */

static void a_full_disk_takes_only_what_frees(void **state)
{
    (void)state;
    static struct fixture f;
    static struct model m;
    static struct model_write w;
    fixture_init(&f);
    model_init(&m, 5, 1);
    store_open(&f);
    assert_int_equal(model_own(&m, f.store), ERR_OK);
    for (unsigned i = 0; i < 60; i++) {
        model_step(&m, &w);
        assert_int_equal(model_write_run(f.store, &w.write), ERR_OK);
        model_write_fini(&w);
    }
    store_close(&f);
    f.free_bytes_min = UINT64_MAX / 2;
    store_open(&f);
    struct queue_part_record records[MODEL_PARTS];
    struct queue_part parts[MODEL_PARTS];
    for (unsigned i = 0; i < MODEL_PARTS; i++)
        parts[i] = m.parts[i].part;
    static const unsigned char boot[QUEUE_BOOT_BYTES] = "b";
    const struct queue_own own = {
        .parts = parts, .count = MODEL_PARTS, .boot = boot, .out = records
    };
    assert_int_equal(f.store->ops->own(f.store, &own), ERR_FULL);
    shown(&f, &m);
    unsigned taken = 0;
    for (unsigned i = 0; i < 40; i++) {
        before = m;
        model_step(&m, &w);
        w.write.frees = i % 2 == 0;
        err why = model_write_run(f.store, &w.write);
        assert_int_equal(why, w.write.frees ? ERR_OK : ERR_FULL);
        model_write_fini(&w);
        taken += why == ERR_OK;
        if (why != ERR_OK) {
            before.rng = m.rng;
            m = before;
        }
    }
    assert_true(taken == 20);
    store_close(&f);
    store_open(&f);
    shown(&f, &m);
    assert_int_equal(f.store->ops->drop(f.store, parts[0], NULL), ERR_OK);
    assert_int_equal(f.store->ops->record(f.store, parts[0], records), ERR_NOT_FOUND);
    store_close(&f);
    f.free_bytes_min = 1;
    store_open(&f);
    assert_int_equal(model_own(&m, f.store), ERR_OK);
    store_close(&f);
    expect_sound_at_rest(&f);
    scratch_fini(&f.scratch);
}

int main(void)
{
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 0); /* thousands of syncs */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_failing_call_leaves_writes_whole),
        cmocka_unit_test(any_full_call_leaves_writes_whole),
        cmocka_unit_test(kill_loses_no_acknowledged_write),
        cmocka_unit_test(a_full_disk_takes_only_what_frees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
