/* Goal: zeros lie ahead of the log's tail while groups are small, in blocks that are reserved and
 * up to the segment's end at most; and no crash while a segment follows another takes them for
 * damage. Method: the decision alone; then a log that always writes zeros, its file looked at after
 * each step; and a look, at each disk call of a new segment, at what a crash would leave then.
 * Replay of such files: test_vlog_replay.c. */
#include "lib/folder.h"
#include "vlog/vlog.h"
#include "vlog/zeros.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include <cmocka.h>

enum { SMALL = 1000, BLOCK = 4096, ST_BLOCK_BYTES = 512, SEGMENTS_MAX = 9, ROOMY = 64 << 20 };
static const unsigned char ID[RECORD_ID_BYTES] = "0123456789abcde";

/* ---- the decision ---- */

static bool pays_after(struct zeros *z, int syncs, uint64_t bytes)
{
    for (int i = 0; i < syncs; i++)
        zeros_count(z, bytes, true);
    zeros_count(z, 1, true); /* the group that asks: so many syncs came before it */
    return zeros_pay(z);
}

static void none_before_enough_syncs_were_small(void **state)
{
    (void)state;
    struct zeros z = { .when = ZEROS_BEHIND_SMALL };
    assert_false(pays_after(&z, VLOG_ZEROS_SYNCS - 1, SMALL));
    assert_true(zeros_pay(&(struct zeros){ .when = ZEROS_ALWAYS }));
    struct zeros again = { .when = ZEROS_BEHIND_SMALL };
    assert_true(pays_after(&again, VLOG_ZEROS_SYNCS, SMALL));
    struct zeros never = { .when = ZEROS_NEVER };
    assert_false(pays_after(&never, VLOG_ZEROS_SYNCS, SMALL));
}

static void none_while_syncs_are_of_much_on_average(void **state)
{
    (void)state;
    struct zeros z = { .when = ZEROS_BEHIND_SMALL };
    assert_true(pays_after(&z, VLOG_ZEROS_SYNCS, VLOG_ZEROS_SYNC_BYTES_MAX));
    assert_false(pays_after(&z, VLOG_ZEROS_SYNCS, VLOG_ZEROS_SYNC_BYTES_MAX + 1));
    assert_true(pays_after(&z, VLOG_ZEROS_SYNCS, SMALL));
    assert_false(pays_after(&z, 1, (uint64_t)VLOG_ZEROS_SYNCS * VLOG_ZEROS_SYNC_BYTES_MAX));
    assert_false(
        pays_after(&z, VLOG_ZEROS_SYNCS - 3, SMALL)); /* and one of a byte each time it is asked */
    assert_true(pays_after(&z, 1, SMALL));
}

/* Small groups that no sync follows are brought to disk together. */
static void groups_of_one_sync_count_together(void **state)
{
    (void)state;
    struct zeros z = { .when = ZEROS_BEHIND_SMALL };
    for (int sync = 0; sync <= VLOG_ZEROS_SYNCS; sync++)
        for (int i = 0; i <= VLOG_ZEROS_SYNC_BYTES_MAX / SMALL; i++)
            zeros_count(&z, SMALL, i == 0);
    assert_int_equal(z.syncs, VLOG_ZEROS_SYNCS);
    assert_false(zeros_pay(&z));
}

/* ---- a log ---- */

struct fixture {
    char dir[FOLDER_PATH_BYTES];
    int dir_fd;
    struct vlog *log;
    struct file_faults faults;
    uint64_t segment_bytes;
    uint64_t seq, replayed;
    bool zeros_always;
    enum file_call failing; /* with errno fails, when that is not 0 */
    int fails;
    bool watched, sealed, named,
        kept; /* a segment: the old one ends with its groups, the new one's name, on disk */
};

static void found_group(void *ctx, const struct vlog_found *g)
{
    struct fixture *f = ctx;
    f->replayed = g->head.seq;
}

static void found_mutation(void *ctx, const struct record_mutation *m, uint64_t seq)
{
    (void)ctx;
    assert_true(m->key.n > 0);
    assert_true(seq > 0);
}

static void replay(struct fixture *f, const struct vlog_opts *opts, struct vlog **log)
{
    struct vlog_replay_calls calls = { .group = found_group, .mutation = found_mutation, .ctx = f };
    struct err_note note = { .text = "" };
    f->replayed = 0;
    assert_int_equal(vlog_open(opts, log, &note), ERR_OK);
    err why = vlog_replay(*log, vlog_start(), &calls, &note);
    if (why != ERR_OK)
        fail_msg("%s: %s", err_name(why), note.text);
    assert_int_equal(f->replayed, f->seq);
}

static void open_log(struct fixture *f)
{
    struct vlog_opts opts = { .dir_fd = f->dir_fd,
                              .id = ID,
                              .segment_bytes = f->segment_bytes,
                              .faults = &f->faults,
                              .zeros_always = f->zeros_always };
    replay(f, &opts, &f->log);
}

/* Would a start find every group, if the process ended now? */
static void look(struct fixture *f)
{
    struct vlog_opts opts = {
        .dir_fd = f->dir_fd, .id = ID, .segment_bytes = f->segment_bytes, .read_only = true
    };
    struct vlog *other = NULL;
    replay(f, &opts, &other);
    vlog_close(&other);
}

static struct stat file_stat(struct fixture *f, uint32_t segment)
{
    char name[VLOG_NAME_BYTES];
    struct stat st;
    vlog_segment_name(segment, name);
    assert_int_equal(fstatat(f->dir_fd, name, &st, 0), 0);
    return st;
}

static uint64_t file_size(struct fixture *f, uint32_t segment)
{
    return (uint64_t)file_stat(f, segment).st_size;
}

static uint64_t active_size(struct fixture *f)
{
    return file_size(f, vlog_tail(f->log).segment);
}

/* A group of one value of n bytes. */
static void append_with(struct fixture *f, size_t n, bool no_zeros)
{
    char *bytes = malloc(n);
    assert_non_null(bytes);
    memset(bytes, 'a', n);
    struct record_mutation m = {
        .space = 1, .blob = RECORD_BLOB_LOG, .key = STR("key"), .bytes = { bytes, n }
    };
    m.place.n = (uint32_t)n;
    m.place.hash = XXH3_64bits(bytes, n);
    struct vlog_group g = { .seq = f->seq + 1, .mutations = &m, .count = 1, .no_zeros = no_zeros };
    struct vlog_extent whole;
    assert_int_equal(vlog_reserve(f->log, vlog_mutation_bytes(&m)), ERR_OK);
    assert_int_equal(vlog_append(f->log, &g, &whole), ERR_OK);
    f->seq++;
    assert_int_equal(vlog_sync(f->log, vlog_tail(f->log)), ERR_OK);
    free(bytes);
}

static void append(struct fixture *f, size_t n)
{
    append_with(f, n, false);
}

/* What is behind the last group. */
static void expect_zeros(struct fixture *f, uint64_t from, uint64_t until)
{
    char name[VLOG_NAME_BYTES];
    vlog_segment_name(vlog_tail(f->log).segment, name);
    int fd = openat(f->dir_fd, name, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(active_size(f), until);
    assert_true(from < until && until - from <= VLOG_ZEROS_BYTES);
    static const char zeros[VLOG_ZEROS_BYTES];
    char *got = malloc(until - from);
    assert_non_null(got);
    assert_int_equal(file_read(NULL, fd, got, until - from, from), 0);
    assert_memory_equal(got, zeros, until - from);
    free(got);
    close(fd);
}

static int hit(void *ctx, enum file_call call, size_t *n)
{
    struct fixture *f = ctx;
    (void)n;
    if (f->watched) {
        if (call == FILE_RENAME) {
            assert_true(f->sealed);
            assert_int_equal(active_size(f), vlog_tail(f->log).offset);
        }
        f->kept = f->kept || (f->named && call == FILE_FSYNC);
        f->named = f->named || call == FILE_RENAME;
        look(f);
        f->sealed = call == FILE_FSYNC && active_size(f) == vlog_tail(f->log).offset;
    }
    return f->fails != 0 && call == f->failing ? f->fails : 0;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    folder_make(f->dir);
    f->dir_fd = open(f->dir, O_RDONLY | O_DIRECTORY);
    f->faults = (struct file_faults){ .hit = hit, .ctx = f };
    f->segment_bytes = ROOMY;
    f->zeros_always = true;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    f->watched = false;
    f->fails = 0;
    vlog_close(&f->log);
    for (uint32_t number = 1; number < SEGMENTS_MAX; number++) {
        char name[VLOG_NAME_BYTES];
        vlog_segment_name(number, name);
        (void)unlinkat(f->dir_fd, name, 0);
    }
    close(f->dir_fd);
    int left = rmdir(f->dir); /* fails when something else was left there */
    free(f);
    return left;
}

static void zeros_lie_behind_a_group_until_others_come_to_their_end(void **state)
{
    struct fixture *f = *state;
    open_log(f);
    assert_int_equal(active_size(f), RECORD_SEGMENT_BYTES);
    append(f, SMALL);
    uint64_t tail = vlog_tail(f->log).offset;
    uint64_t end = (tail + VLOG_ZEROS_BYTES) / BLOCK * BLOCK;
    expect_zeros(f, tail, end);
    while (vlog_tail(f->log).offset + 2 * SMALL < end) {
        append(f, SMALL);
        expect_zeros(f, vlog_tail(f->log).offset, end);
    }
    append(f, 2 * SMALL);
    tail = vlog_tail(f->log).offset;
    assert_true(tail > end);
    expect_zeros(f, tail, (tail + VLOG_ZEROS_BYTES) / BLOCK * BLOCK);
    look(f);
}

static void zeros_end_with_the_segment(void **state)
{
    struct fixture *f = *state;
    f->segment_bytes = 2 * BLOCK + 100;
    open_log(f);
    append(f, SMALL);
    expect_zeros(f, vlog_tail(f->log).offset, 2 * BLOCK);
}

/* Beyond them a write may find the disk full. */
static void zeros_end_with_the_reserved_blocks(void **state)
{
    struct fixture *f = *state;
    open_log(f);
    append(f, VLOG_AHEAD_BYTES_MIN - 3 * BLOCK); /* of the blocks that a new segment comes with */
    expect_zeros(f, vlog_tail(f->log).offset, VLOG_AHEAD_BYTES_MIN);
}

static void a_group_that_wants_none_has_none(void **state)
{
    struct fixture *f = *state;
    open_log(f);
    append_with(f, SMALL, true);
    assert_int_equal(active_size(f), vlog_tail(f->log).offset);
    append(f, SMALL);
    assert_true(active_size(f) > vlog_tail(f->log).offset);
}

static void they_go_when_the_log_is_closed(void **state)
{
    struct fixture *f = *state;
    open_log(f);
    append(f, SMALL);
    uint64_t tail = vlog_tail(f->log).offset;
    vlog_close(&f->log);
    assert_int_equal(file_size(f, 1), tail);
    open_log(f);
}

/* On ext4 and XFS, where they pay, but not before it is known whether groups are small. */
static void the_file_system_decides(void **state)
{
    struct fixture *f = *state;
    f->zeros_always = false;
    open_log(f);
    for (int i = 0; i < VLOG_ZEROS_SYNCS; i++) {
        append(f, SMALL);
        assert_int_equal(active_size(f), vlog_tail(f->log).offset);
    }
    append(f, SMALL);
    assert_int_equal(active_size(f) > vlog_tail(f->log).offset, file_zeros_pay(f->dir_fd));
    int memory = open("/dev/shm", O_RDONLY | O_DIRECTORY);
    if (memory >= 0)
        assert_false(file_zeros_pay(memory));
    close(memory);
}

static void a_segment_gets_its_name_when_the_one_before_it_ends_with_its_groups(void **state)
{
    struct fixture *f = *state;
    f->segment_bytes = 10 * BLOCK;
    open_log(f);
    for (uint32_t segment = 1; segment < SEGMENTS_MAX - 1; segment++) {
        while (vlog_tail(f->log).offset + 2 * SMALL < f->segment_bytes)
            append(f, SMALL);
        assert_true(active_size(f) > vlog_tail(f->log).offset);
        uint64_t tail = vlog_tail(f->log).offset;
        f->watched = true;
        f->named = f->sealed = f->kept = false;
        assert_int_equal(vlog_reserve(f->log, 2 * SMALL), ERR_OK);
        f->watched = false;
        assert_true(f->kept);
        assert_int_equal(vlog_tail(f->log).segment, segment + 1);
        assert_int_equal(file_size(f, segment), tail);
    }
}

/* A group may be on its way into it: its blocks stay, and the zeros that are in them. */
static void a_segment_that_gets_no_successor_stays_as_it_is(void **state)
{
    struct fixture *f = *state;
    f->segment_bytes = 10 * BLOCK;
    open_log(f);
    append(f, SMALL);
    uint64_t size = active_size(f);
    f->failing = FILE_FALLOCATE;
    f->fails = ENOSPC;
    assert_int_equal(vlog_reserve(f->log, 10 * BLOCK), ERR_FULL);
    f->fails = 0;
    assert_int_equal(active_size(f), size);
    assert_int_equal(vlog_tail(f->log).segment, 1);
    look(f);
    append(f, SMALL);
    assert_int_equal(active_size(f), size);
    f->failing = FILE_RENAME;
    f->fails = EIO;
    assert_int_equal(vlog_reserve(f->log, 10 * BLOCK), ERR_IO);
    look(f);
}

/* The folder may have no room for the name: nothing acknowledged is at stake. The group on its way
 * gets its blocks again, and not the many ahead of it, since the disk is full. */
static void a_segment_whose_successor_gets_no_name_goes_on(void **state)
{
    struct fixture *f = *state;
    f->segment_bytes = 10 * BLOCK;
    open_log(f);
    append(f, SMALL);
    assert_int_equal(vlog_reserve(f->log, 4 * BLOCK), ERR_OK); /* a group on its way */
    uint64_t written = vlog_tail(f->log).offset;
    f->failing = FILE_RENAME;
    f->fails = ENOSPC;
    assert_int_equal(vlog_reserve(f->log, 10 * BLOCK), ERR_FULL);
    f->fails = 0;
    assert_int_equal(vlog_tail(f->log).segment, 1);
    uint64_t got = (uint64_t)file_stat(f, 1).st_blocks * ST_BLOCK_BYTES;
    assert_true(got >= written + 4 * BLOCK);
    assert_true(got < f->segment_bytes);
    f->failing = FILE_FALLOCATE;
    f->fails = ENOSPC;
    append(f, 3 * BLOCK);
    f->fails = 0;
    look(f);
    assert_int_equal(vlog_reserve(f->log, 10 * BLOCK), ERR_OK);
    assert_int_equal(vlog_tail(f->log).segment, 2);
}

int main(void)
{
#define FACT(fact) cmocka_unit_test_setup_teardown(fact, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_before_enough_syncs_were_small),
        cmocka_unit_test(none_while_syncs_are_of_much_on_average),
        cmocka_unit_test(groups_of_one_sync_count_together),
        FACT(zeros_lie_behind_a_group_until_others_come_to_their_end),
        FACT(zeros_end_with_the_segment),
        FACT(zeros_end_with_the_reserved_blocks),
        FACT(a_group_that_wants_none_has_none),
        FACT(they_go_when_the_log_is_closed),
        FACT(the_file_system_decides),
        FACT(a_segment_gets_its_name_when_the_one_before_it_ends_with_its_groups),
        FACT(a_segment_that_gets_no_successor_stays_as_it_is),
        FACT(a_segment_whose_successor_gets_no_name_goes_on),
    };
#undef FACT
    return cmocka_run_group_tests(tests, NULL, NULL);
}
