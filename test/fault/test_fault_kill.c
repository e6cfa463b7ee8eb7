/* Goal: kill -9 at any instant loses nothing acknowledged and shows nothing half written; a power
 * loss loses nothing that was acknowledged as synced, and of the rest only an end; no space leaks.
 * Method: a child writes pairs of rows with a window of updates in flight and tells each
 * acknowledgement through a pipe; the parent kills it after a random number of them (or at once),
 * opens the store and compares. Which row an update writes, and how, follows from its number, so
 * the parent knows what may be there. For a power loss the child notes what each sync covered, and
 * the parent loses random sectors of the log behind that. In turn with zeros ahead in the log and
 * without. FAULT_KILL_CYCLES sets the number of kills (100); FAULT_SEED the seed, printed. */
#include "base/rng.h"
#include "engine/store.h"
#include "scratch.h"
#include "vlog/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    KEYS = 24,
    WINDOW = 48,
    BYTES_MAX = 12000,
    CYCLES = 100,
    SEGMENTS = 4096,
    SECTOR = 512,
    LOOK_BYTES = 1 << 16
};

/* What update number v does: everything follows from v. */
static uint64_t mixed(uint64_t v)
{
    struct rng r;
    rng_init(&r, v);
    return rng_next(&r);
}

static uint64_t key_of(uint64_t v)
{
    return mixed(v) % KEYS;
}

static bool deletes(uint64_t v)
{
    return mixed(v) / KEYS % 6 == 0;
}

/* Runs of one kind, so that there are groups of one kind too. */
static enum engine_ack ack_of(uint64_t v)
{
    return mixed(v / 400) % 2 == 0 ? ENGINE_ACK_SYNCED : ENGINE_ACK_UNSYNCED;
}

static size_t bytes_of(uint64_t v, char *out)
{
    size_t n = (size_t)(mixed(v) >> 20) % BYTES_MAX;
    scratch_bytes(v, out, n);
    return n;
}

static str row_key(uint64_t key, char side, char *buf)
{
    int n = snprintf(buf, 16, "%c%02u", side, (unsigned)key);
    return (str){ .p = buf, .n = (size_t)n };
}

/* ---- what of the log is on disk ---- */

/* Shared with the child: what of each segment a sync that returned has covered. */
struct covered {
    _Atomic uint64_t bytes[SEGMENTS];
    char log[2 * SCRATCH_PATH_BYTES];
};

static uint32_t segment_number(const struct dirent *d)
{
    uint64_t number = 0;
    return str_to_u64(str_take(str_of(d->d_name), 8), &number) && number < SEGMENTS
               ? (uint32_t)number
               : 0;
}

/* The end of what is written, without the zeros ahead of it: no group of these ends with a zero. */
static uint64_t written_end(int fd)
{
    char bytes[LOOK_BYTES];
    struct stat st;
    uint64_t from = fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    while (from > 0) {
        size_t n = from < LOOK_BYTES ? (size_t)from : LOOK_BYTES;
        from -= n;
        if (pread(fd, bytes, n, (off_t)from) != (ssize_t)n)
            return 0;
        while (n > 0 && bytes[n - 1] == 0)
            n--;
        if (n > 0)
            return from + n;
    }
    return 0;
}

/* What there is of the segments is on disk: a power loss has left it, or a start has synced what it
 * took over. */
static void settle(struct covered *c)
{
    DIR *dir = opendir(c->log);
    for (struct dirent *d = dir == NULL ? NULL : readdir(dir); d != NULL; d = readdir(dir)) {
        uint32_t number = segment_number(d);
        int fd = number == 0 ? -1 : openat(dirfd(dir), d->d_name, O_RDONLY);
        if (fd < 0)
            continue;
        atomic_store(&c->bytes[number], written_end(fd));
        close(fd);
    }
    if (dir != NULL)
        closedir(dir);
}

/* ---- the child ---- */

struct flight {
    struct engine_update update;
    struct writer *writer;
    uint64_t version;
    char bytes[BYTES_MAX];
    size_t n;
    atomic_bool busy;
};
struct writer {
    struct scratch *scratch;
    int pipe;
    struct flight flights[WINDOW];
};

static err pair_decide(struct engine_txn *t, void *ctx)
{
    struct flight *f = ctx;
    char buf[16], value[32];
    int n = snprintf(value, sizeof(value), "%llu", (unsigned long long)f->version);
    err why = ERR_OK;
    for (const char *side = "AB"; *side != '\0' && why == ERR_OK; side++) {
        str key = row_key(key_of(f->version), *side, buf);
        if (deletes(f->version))
            why = engine_txn_delete(t, SPACE_ROW, key);
        else
            why = engine_txn_put(t, SPACE_ROW, key, (str){ .p = value, .n = (size_t)n },
                                 (str){ .p = f->bytes, .n = f->n });
    }
    return why;
}

static void pair_done(void *ctx, err why)
{
    struct flight *f = ctx;
    if (why == ERR_OK &&
        write(f->writer->pipe, &f->version, sizeof(f->version)) != (ssize_t)sizeof(f->version))
        _exit(3);
    atomic_store(&f->busy, false);
}

static _Noreturn void child_run(struct scratch *s, int pipe_fd, uint64_t version)
{
    struct err_note note;
    struct writer *w = calloc(1, sizeof(*w));
    if (w == NULL || scratch_try(s, false, &note) != ERR_OK)
        _exit(4);
    if (s->faults != NULL)
        settle(s->faults->ctx);
    w->pipe = pipe_fd;
    for (uint64_t i = 0;; i = (i + 1) % WINDOW) {
        struct flight *f = &w->flights[i];
        bool more = false;
        if (i == 0 && engine_reclaim(s->engine, &more) != ERR_OK)
            _exit(5);
        while (atomic_load(&f->busy))
            (void)sched_yield();
        f->writer = w;
        f->version = version++;
        f->n = bytes_of(f->version, f->bytes);
        f->update = (struct engine_update){
            .decide = pair_decide,
            .done = pair_done,
            .ctx = f,
            .ack = ack_of(f->version),
        };
        atomic_store(&f->busy, true);
        engine_submit(s->engine, &f->update);
    }
}

/* ---- the parent ---- */

struct truth {
    uint64_t shown[KEYS];   /* the version each key shows after update acked; 0: none */
    uint64_t acked;         /* the greatest number that must be there */
    uint64_t heard;         /* the greatest number that was acknowledged */
    bool power;             /* what was not acknowledged as synced may be gone */
    uint64_t in_flight_end; /* numbers from here on were never submitted */
};

static void pause_ns(uint64_t ns)
{
    struct timespec ts = { .tv_nsec = (long)ns };
    nanosleep(&ts, NULL);
}

static void show_up_to(struct truth *t, uint64_t v)
{
    for (uint64_t u = t->acked + 1; u <= v; u++)
        t->shown[key_of(u)] = deletes(u) ? 0 : u;
    t->acked = v > t->acked ? v : t->acked;
}

/* Reads acknowledgements until the pipe ends, kills when count of them came. */
static void watch(struct truth *t, int fd, pid_t child, uint64_t count, uint64_t delay_ns)
{
    uint64_t v;
    uint64_t seen = 0;
    uint64_t last[2] = { 0 };
    if (count == 0) {
        pause_ns(delay_ns);
        kill(child, SIGKILL);
    }
    while (read(fd, &v, sizeof(v)) == (ssize_t)sizeof(v)) {
        assert_true(v > last[ack_of(v)]); /* in order */
        last[ack_of(v)] = v;
        t->heard = v > t->heard ? v : t->heard;
        if (!t->power || ack_of(v) == ENGINE_ACK_SYNCED)
            show_up_to(t, v);
        if (++seen == count)
            kill(child, SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    t->in_flight_end = t->heard + 1 + WINDOW;
}

static uint64_t read_side(struct scratch *s, uint64_t key, char side)
{
    static char bytes[BYTES_MAX];
    char buf[16];
    struct scratch_row r;
    err why = scratch_get(s, SPACE_ROW, row_key(key, side, buf), &r);
    if (why == ERR_NOT_FOUND)
        return 0;
    assert_int_equal(why, ERR_OK);
    uint64_t version = 0;
    assert_true(str_to_u64((str){ .p = r.value, .n = r.value_n }, &version));
    assert_int_equal(r.bytes_n, bytes_of(version, bytes));
    assert_memory_equal(r.bytes, bytes, r.bytes_n);
    scratch_row_free(&r);
    return version;
}

/* What stands in the store is the state after some update: the last acknowledged one, or one in
 * flight when the kill came. Returns how many of the latter survived. */
static uint64_t compare(struct truth *t, struct scratch *s)
{
    uint64_t shown[KEYS];
    for (uint64_t key = 0; key < KEYS; key++) {
        shown[key] = read_side(s, key, 'A');
        assert_int_equal(shown[key], read_side(s, key, 'B'));
    }
    uint64_t first = t->acked + 1;
    for (uint64_t v = first; v <= t->in_flight_end; v++) {
        if (memcmp(shown, t->shown, sizeof(shown)) == 0)
            return v - first;
        show_up_to(t, v);
    }
    fail_msg("the store shows no state between update %llu and %llu", (unsigned long long)first - 1,
             (unsigned long long)t->in_flight_end);
    return 0;
}

static void print_found(void *ctx, const char *what)
{
    (void)ctx;
    print_error("check: %s\n", what);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    uint64_t n = otherwise;
    const char *text = getenv(name);
    if (text != NULL)
        assert_true(str_to_u64(str_of(text), &n));
    return n;
}

/* ---- what a power loss leaves ---- */

/* A sync of fewer bytes may come to its end after one of more: on two threads, the committer's and
 * the indexer's. */
static void note_covered(_Atomic uint64_t *covered, uint64_t bytes)
{
    uint64_t before = atomic_load(covered);
    while (before < bytes && !atomic_compare_exchange_weak(covered, &before, bytes))
        ;
}

/* Before the engine's own: syncs what there is of every segment, then notes how much that was. */
static int note_sync(void *ctx, enum file_call call, size_t *n)
{
    struct covered *c = ctx;
    (void)n;
    if (call != FILE_FDATASYNC)
        return 0;
    DIR *dir = opendir(c->log);
    for (struct dirent *d = dir == NULL ? NULL : readdir(dir); d != NULL; d = readdir(dir)) {
        uint32_t number = segment_number(d);
        int fd = number == 0 ? -1 : openat(dirfd(dir), d->d_name, O_RDONLY);
        uint64_t end = fd >= 0 ? written_end(fd) : 0;
        if (end > 0 && end > atomic_load(&c->bytes[number]) && fdatasync(fd) == 0)
            note_covered(&c->bytes[number], end);
        if (fd >= 0)
            close(fd);
    }
    if (dir != NULL)
        closedir(dir);
    return 0;
}

/* Loses sectors of fd between from and size, and sometimes its end. */
static void lose_sectors(int fd, uint64_t from, uint64_t size, struct rng *rng)
{
    static const char zeros[SECTOR];
    uint64_t odds = 1 + rng_below(rng, 6);
    if (rng_below(rng, 4) == 0) {
        size = from + rng_below(rng, size - from);
        assert_int_equal(ftruncate(fd, (off_t)size), 0);
    }
    while (from < size) {
        uint64_t end = (from / SECTOR + 1) * SECTOR < size ? (from / SECTOR + 1) * SECTOR : size;
        if (rng_below(rng, odds) == 0)
            assert_int_equal(pwrite(fd, zeros, end - from, (off_t)from), end - from);
        from = end;
    }
}

static void lose_power(struct covered *c, struct rng *rng)
{
    DIR *dir = opendir(c->log);
    for (struct dirent *d = dir == NULL ? NULL : readdir(dir); d != NULL; d = readdir(dir)) {
        struct stat st;
        uint32_t number = segment_number(d);
        int fd = number == 0 ? -1 : openat(dirfd(dir), d->d_name, O_RDWR);
        if (fd < 0)
            continue;
        uint64_t covered = atomic_load(&c->bytes[number]);
        if (covered > 0 && fstat(fd, &st) == 0 && (uint64_t)st.st_size > covered)
            lose_sectors(fd, covered, (uint64_t)st.st_size, rng);
        close(fd);
    }
    if (dir != NULL)
        closedir(dir);
}

/* ---- the cycles ---- */

static void cycle(struct scratch *s, struct truth *t, struct rng *rng, uint64_t *unacked)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    uint64_t first = t->in_flight_end;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(fds[0]);
        child_run(s, fds[1], first);
    }
    close(fds[1]);
    t->acked = t->heard = first - 1;
    bool early = rng_below(rng, 8) == 0;
    watch(t, fds[0], child, early ? 0 : 1 + rng_below(rng, 300), rng_below(rng, 4000000));
    close(fds[0]);
    if (t->power) {
        lose_power(s->faults->ctx, rng);
        settle(s->faults->ctx);
    }
    struct err_note note = { .text = "" };
    bool read_only = rng_below(rng, 2) == 0;
    err why = scratch_try(s, read_only, &note);
    if (why == ERR_NOT_FOUND && read_only && t->heard == 0)
        why = scratch_try(s, false, &note); /* killed before the store was made */
    if (why != ERR_OK)
        fail_msg("open after kill: %s: %s", err_name(why), note.text);
    *unacked += compare(t, s);
    struct engine_check_opts opts = { .found = print_found };
    if (rng_below(rng, 4) == 0)
        assert_int_equal(engine_check(s->engine, &opts), ERR_OK);
    scratch_close(s);
}

static void run_cycles(bool power)
{
    uint64_t cycles = number_of("FAULT_KILL_CYCLES", CYCLES);
    uint64_t seed = number_of("FAULT_SEED", (uint64_t)getpid());
    struct scratch s;
    struct truth t = { .in_flight_end = 1, .power = power };
    struct covered *covered =
        mmap(NULL, sizeof(*covered), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct file_faults faults = { .hit = note_sync, .ctx = covered };
    assert_true(covered != MAP_FAILED);
    struct rng rng;
    uint64_t unacked = 0;
    uint64_t acked = 0;
    print_message("seed %llu\n", (unsigned long long)seed);
    rng_init(&rng, seed);
    scratch_init(&s);
    s.segment_bytes = 1 << 20;
    s.faults = power ? &faults : NULL;
    scratch_path(&s, "log", covered->log);
    for (uint64_t i = 0; i < cycles; i++) {
        uint64_t first = t.in_flight_end;
        s.zeros_always = i % 2 == 0;
        cycle(&s, &t, &rng, &unacked);
        acked += t.heard + 1 - first;
    }
    print_message(
        "%llu kills, %llu acknowledged updates, 0 lost; %llu that were not promised were there\n",
        (unsigned long long)cycles, (unsigned long long)acked, (unsigned long long)unacked);
    scratch_fini(&s);
    munmap(covered, sizeof(*covered));
}

static void kill_loses_nothing_acknowledged(void **state)
{
    (void)state;
    run_cycles(false);
}

static void power_loss_loses_nothing_synced(void **state)
{
    (void)state;
    run_cycles(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kill_loses_nothing_acknowledged),
        cmocka_unit_test(power_loss_loses_nothing_synced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
