/* Goal: replay returns every whole group, cuts only what may be torn, and calls everything else
 * damage. Method: a log of a few groups; then each way in which a crash or a bad disk can leave it:
 * cut at every length, every byte flipped, segments missing, empty or without a header. All of it
 * once more with zeros ahead of the log's tail, as a process leaves them that was killed. */
#include "lib/folder.h"
#include "vlog/vlog.h"

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

enum { GROUPS = 5 };
static const unsigned char ID[RECORD_ID_BYTES] = "0123456789abcde";

struct fixture {
    char dir[FOLDER_PATH_BYTES];
    int dir_fd;
    bool zeros;
    struct vlog *log;
    struct vlog_tail ends[GROUPS + 1]; /* behind group i */
    uint64_t groups, mutations;        /* what replay gave */
    struct err_note note;
};

static void found_group(void *ctx, const struct vlog_found *g)
{
    struct fixture *f = ctx;
    f->groups++;
    assert_int_equal(g->head.seq, f->groups);
    assert_int_equal(g->after.offset, g->whole.offset + g->whole.size);
}

static void found_mutation(void *ctx, const struct record_mutation *m, uint64_t seq)
{
    struct fixture *f = ctx;
    f->mutations++;
    assert_true(m->key.n > 0);
    assert_int_equal(seq, f->groups + 1);
}

static err replay_from(struct fixture *f, struct vlog_tail from, bool read_only,
                       uint64_t segment_bytes)
{
    struct vlog_opts opts = { .dir_fd = f->dir_fd,
                              .id = ID,
                              .segment_bytes = segment_bytes,
                              .read_only = read_only,
                              .zeros_always = f->zeros };
    struct vlog_replay_calls calls = { .group = found_group, .mutation = found_mutation, .ctx = f };
    f->groups = from.seq;
    f->mutations = 0;
    f->note.text[0] = '\0';
    assert_int_equal(vlog_open(&opts, &f->log, &f->note), ERR_OK);
    return vlog_replay(f->log, from, &calls, &f->note);
}

static err replay(struct fixture *f)
{
    return replay_from(f, vlog_start(), false, 1 << 20);
}

/* Two values in the log and one inline row. */
static void append(struct fixture *f, uint64_t seq)
{
    char a[700], b[900];
    memset(a, (int)('a' + seq), sizeof(a));
    memset(b, (int)('A' + seq), sizeof(b));
    struct record_mutation m[] = {
        { .space = 1,
          .blob = RECORD_BLOB_LOG,
          .key = STR("one"),
          .value = STR("v"),
          .bytes = { a, sizeof(a) } },
        { .space = 1, .blob = RECORD_BLOB_INLINE, .key = STR("three"), .bytes = STR("inline") },
        { .space = 2,
          .blob = RECORD_BLOB_LOG,
          .key = STR("two"),
          .value = STR("v"),
          .bytes = { b, sizeof(b) } },
    };
    for (size_t i = 0; i < COUNT_OF(m); i++) {
        m[i].place.n = (uint32_t)m[i].bytes.n;
        m[i].place.hash = XXH3_64bits(m[i].bytes.p, m[i].bytes.n);
    }
    struct vlog_group g = {
        .seq = seq, .time = { .ns = (int64_t)seq }, .mutations = m, .count = COUNT_OF(m)
    };
    struct vlog_extent whole;
    assert_int_equal(vlog_reserve(f->log, 3000), ERR_OK);
    assert_int_equal(vlog_append(f->log, &g, &whole), ERR_OK);
    char got[sizeof(b)];
    assert_int_equal(vlog_read(f->log, m[2].place.segment,
                               m[2].place.extent_offset + m[2].place.value_offset, sizeof(got),
                               got),
                     ERR_OK);
    assert_memory_equal(got, b, sizeof(b));
}

/* A segment as bytes, and back. */
static char *load_segment(struct fixture *f, uint32_t number, size_t *n)
{
    char name[VLOG_NAME_BYTES];
    vlog_segment_name(number, name);
    int fd = openat(f->dir_fd, name, O_RDONLY);
    struct stat st;
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    *n = (size_t)st.st_size;
    char *bytes = malloc(*n);
    assert_non_null(bytes);
    assert_int_equal(file_read(NULL, fd, bytes, *n, 0), 0);
    close(fd);
    return bytes;
}

static void store_segment(struct fixture *f, uint32_t number, char *bytes, size_t n)
{
    char name[VLOG_NAME_BYTES];
    vlog_segment_name(number, name);
    int fd = openat(f->dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    struct iovec iov = { .iov_base = bytes, .iov_len = n };
    assert_true(fd >= 0);
    assert_int_equal(file_write(NULL, fd, &iov, 1, 0), 0);
    close(fd);
}

static char *load(struct fixture *f, size_t *n)
{
    return load_segment(f, 1, n);
}

static void store(struct fixture *f, char *bytes, size_t n)
{
    store_segment(f, 1, bytes, n);
}

/* Closes the log, and leaves it as a kill does. */
static void leave(struct fixture *f)
{
    struct vlog_tail tail = vlog_tail(f->log);
    size_t n;
    char *bytes = load_segment(f, tail.segment, &n);
    assert_true(f->zeros ? n > tail.offset : n == tail.offset);
    vlog_close(&f->log);
    store_segment(f, tail.segment, bytes, n);
    free(bytes);
}

/* Syncs after the groups whose bit is set. */
static void build_synced(struct fixture *f, uint64_t segment_bytes, unsigned synced)
{
    assert_int_equal(replay_from(f, vlog_start(), false, segment_bytes), ERR_OK);
    f->ends[0] = vlog_tail(f->log);
    for (uint64_t i = 1; i <= GROUPS; i++) {
        append(f, i);
        f->ends[i] = vlog_tail(f->log);
        if ((synced & BIT(i)) != 0) {
            assert_int_equal(vlog_sync(f->log, f->ends[i]), ERR_OK);
            assert_int_equal(vlog_synced(f->log), i);
        }
    }
    leave(f);
}

static void build(struct fixture *f, uint64_t segment_bytes)
{
    build_synced(f, segment_bytes, UINT32_MAX);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    folder_make(f->dir);
    f->dir_fd = open(f->dir, O_RDONLY | O_DIRECTORY);
    *state = f;
    return 0;
}

static int setup_zeros(void **state)
{
    int failed = setup(state);
    ((struct fixture *)*state)->zeros = true;
    return failed;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    vlog_close(&f->log);
    close(f->dir_fd);
    folder_remove(f->dir);
    free(f);
    return 0;
}

static void expect_tail(struct fixture *f, uint64_t groups)
{
    struct vlog_tail t = vlog_tail(f->log);
    assert_int_equal(f->groups, groups);
    assert_int_equal(t.seq, groups);
    assert_int_equal(t.segment, f->ends[groups].segment);
    assert_int_equal(t.offset, f->ends[groups].offset);
}

static void every_group_is_replayed_in_order_over_segments(void **state)
{
    struct fixture *f = *state;
    build(f, 5000);
    assert_true(f->ends[GROUPS].segment > 2);
    for (int i = 0; i <= GROUPS; i++) {
        assert_int_equal(replay_from(f, f->ends[i], false, 5000), ERR_OK);
        assert_int_equal(f->mutations, (GROUPS - i) * 3);
        expect_tail(f, GROUPS);
        vlog_close(&f->log);
    }
}

/* The file ends at cut, or, where it is longer ahead of its tail, has zeros from there on. */
static void store_torn(struct fixture *f, const char *bytes, size_t cut, size_t n)
{
    char *torn = calloc(1, n);
    assert_non_null(torn);
    memcpy(torn, bytes, cut);
    store(f, torn, f->zeros ? n : cut);
    free(torn);
}

static void torn_last_group_is_cut_at_every_length(void **state)
{
    struct fixture *f = *state;
    build(f, 1 << 20);
    size_t n;
    char *bytes = load(f, &n);
    for (size_t cut = f->ends[GROUPS - 1].offset; cut < f->ends[GROUPS].offset; cut += 31) {
        store_torn(f, bytes, cut, n);
        assert_int_equal(replay_from(f, vlog_start(), true, 1 << 20), ERR_OK);
        expect_tail(f, GROUPS - 1);
        vlog_close(&f->log);
        assert_int_equal(faccessat(f->dir_fd, "00000001.seg", R_OK, 0), 0);
        assert_int_equal(replay(f), ERR_OK);
        expect_tail(f, GROUPS - 1);
        append(f, GROUPS);
        leave(f);
        assert_int_equal(replay(f), ERR_OK);
        expect_tail(f, GROUPS);
        vlog_close(&f->log);
    }
    free(bytes);
}

static void any_flipped_byte_of_the_last_group_takes_it_back(void **state)
{
    struct fixture *f = *state;
    build(f, 1 << 20);
    size_t n;
    char *bytes = load(f, &n);
    for (size_t at = f->ends[GROUPS - 1].offset; at < f->ends[GROUPS].offset; at++) {
        bytes[at] ^= 0x10;
        store(f, bytes, n);
        assert_int_equal(replay_from(f, vlog_start(), true, 1 << 20), ERR_OK);
        expect_tail(f, GROUPS - 1);
        vlog_close(&f->log);
        bytes[at] ^= 0x10;
    }
    free(bytes);
}

static void flipped_byte_before_a_whole_group_is_damage(void **state)
{
    struct fixture *f = *state;
    build(f, 1 << 20);
    size_t n;
    char *bytes = load(f, &n);
    for (size_t at = f->ends[1].offset; at < f->ends[1].offset + RECORD_GROUP_BYTES + 60; at++) {
        bytes[at] ^= 0x01;
        store(f, bytes, n);
        assert_int_equal(replay(f), ERR_CORRUPT);
        assert_non_null(strstr(f->note.text, "backup"));
        vlog_close(&f->log);
        bytes[at] ^= 0x01;
    }
    for (size_t at = 0; at < RECORD_SEGMENT_BYTES; at += 5) {
        bytes[at] ^= 0x01;
        store(f, bytes, n);
        assert_int_equal(replay(f), ERR_CORRUPT);
        vlog_close(&f->log);
        bytes[at] ^= 0x01;
    }
    store(f, bytes, n);
    assert_int_equal(replay(f), ERR_OK);
    free(bytes);
}

/* A power loss keeps of groups that were not synced whatever it likes: the first that is not whole
 * ends the log. */
static void flipped_byte_of_an_unsynced_group_takes_back_all_behind(void **state)
{
    struct fixture *f = *state;
    build_synced(f, 1 << 20, BIT(1) | BIT(2));
    size_t n;
    char *bytes = load(f, &n);
    for (size_t at = f->ends[2].offset; at < f->ends[GROUPS].offset; at += 3) {
        uint64_t whole = at < f->ends[3].offset ? 2 : at < f->ends[4].offset ? 3 : 4;
        bytes[at] ^= 0x10;
        store(f, bytes, n);
        assert_int_equal(replay_from(f, vlog_start(), true, 1 << 20), ERR_OK);
        expect_tail(f, whole);
        vlog_close(&f->log);
        bytes[at] ^= 0x10;
    }
    bytes[f->ends[1].offset + 20] ^= 1; /* group 3 knew it on disk */
    store(f, bytes, n);
    assert_int_equal(replay(f), ERR_CORRUPT);
    free(bytes);
}

static void flipped_byte_before_a_group_that_was_written_after_a_sync_is_damage(void **state)
{
    struct fixture *f = *state;
    build_synced(f, 1 << 20, BIT(4));
    size_t n;
    char *bytes = load(f, &n);
    for (size_t group = 0; group < 4; group++)
        for (size_t at = f->ends[group].offset;
             at < f->ends[group].offset + RECORD_GROUP_BYTES + 60; at += 2) {
            bytes[at] ^= 0x01;
            store(f, bytes, n);
            assert_int_equal(replay(f), ERR_CORRUPT);
            vlog_close(&f->log);
            bytes[at] ^= 0x01;
        }
    store(f, bytes, n);
    assert_int_equal(replay(f), ERR_OK);
    expect_tail(f, GROUPS);
    free(bytes);
}

/* No group lies unsynced in a segment that has a successor. */
static void a_new_segment_begins_with_all_before_it_on_disk(void **state)
{
    struct fixture *f = *state;
    build_synced(f, 5000, 0);
    size_t n;
    char *bytes = load(f, &n); /* of the first segment */
    for (size_t at = RECORD_SEGMENT_BYTES; at < RECORD_SEGMENT_BYTES + 100; at++) {
        bytes[at] ^= 0x01;
        store(f, bytes, n);
        assert_int_equal(replay_from(f, vlog_start(), false, 5000), ERR_CORRUPT);
        vlog_close(&f->log);
        bytes[at] ^= 0x01;
    }
    free(bytes);
}

static int failing_sync(void *ctx, enum file_call call, size_t *n)
{
    (void)n;
    int *left = ctx;
    return call == FILE_FDATASYNC && (*left)-- == 0 ? EIO : 0;
}

/* The kernel tells of it once; whoever asks next must not hear that all is well. */
static void a_failed_sync_fails_all_later_ones(void **state)
{
    struct fixture *f = *state;
    int left = -1;
    struct file_faults faults = { .hit = failing_sync, .ctx = &left };
    struct vlog_opts opts = { .dir_fd = f->dir_fd,
                              .id = ID,
                              .segment_bytes = 1 << 20,
                              .faults = &faults,
                              .zeros_always = f->zeros };
    struct vlog_replay_calls calls = { .group = found_group, .mutation = found_mutation, .ctx = f };
    assert_int_equal(vlog_open(&opts, &f->log, &f->note), ERR_OK);
    assert_int_equal(vlog_replay(f->log, vlog_start(), &calls, &f->note), ERR_OK);
    append(f, 1);
    left = 0;
    assert_int_equal(vlog_sync(f->log, vlog_tail(f->log)), ERR_IO);
    assert_int_equal(vlog_sync(f->log, vlog_tail(f->log)), ERR_IO);
    assert_int_equal(vlog_synced(f->log), 0);
    vlog_close(&f->log); /* with the faults */
}

static void log_shorter_than_the_index_is_damage(void **state)
{
    struct fixture *f = *state;
    build(f, 1 << 20);
    size_t n;
    char *bytes = load(f, &n);
    store(f, bytes, (size_t)f->ends[3].offset - 1);
    assert_int_equal(replay_from(f, f->ends[3], false, 1 << 20), ERR_CORRUPT);
    assert_non_null(strstr(f->note.text, "shorter"));
    free(bytes);
}

static void missing_segment_is_damage(void **state)
{
    struct fixture *f = *state;
    build(f, 5000);
    char name[VLOG_NAME_BYTES];
    vlog_segment_name(2, name);
    assert_int_equal(renameat(f->dir_fd, name, f->dir_fd, "aside"), 0);
    assert_int_equal(replay_from(f, vlog_start(), false, 5000), ERR_CORRUPT);
    assert_non_null(strstr(f->note.text, "segment 2 is missing"));
    vlog_close(&f->log);
    assert_int_equal(renameat(f->dir_fd, "aside", f->dir_fd, name), 0);
    vlog_segment_name(1, name);
    assert_int_equal(unlinkat(f->dir_fd, name, 0), 0);
    assert_int_equal(replay_from(f, vlog_start(), false, 5000), ERR_CORRUPT);
}

static void torn_group_with_a_later_segment_is_damage(void **state)
{
    struct fixture *f = *state;
    build(f, 5000);
    size_t n;
    char *bytes = load(f, &n);
    store(f, bytes, n - 3);
    assert_int_equal(replay_from(f, vlog_start(), false, 5000), ERR_CORRUPT);
    free(bytes);
}

/* What a crash of an earlier release left while a segment was made; that one wrote no zeros. */
static void unborn_segment_is_dropped(void **state)
{
    struct fixture *f = *state;
    build(f, 1 << 20);
    static const size_t sizes[] = { 0, 10, 64, 4096 };
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        int fd = openat(f->dir_fd, "00000002.seg", O_WRONLY | O_CREAT | O_TRUNC, 0600);
        assert_int_equal(ftruncate(fd, (off_t)sizes[i]), 0);
        close(fd);
        assert_int_equal(replay_from(f, vlog_start(), true, 1 << 20), ERR_OK);
        expect_tail(f, GROUPS);
        vlog_close(&f->log);
        assert_int_equal(replay(f), ERR_OK);
        expect_tail(f, GROUPS);
        vlog_close(&f->log);
        assert_int_not_equal(faccessat(f->dir_fd, "00000002.seg", F_OK, 0), 0);
    }
}

static int count_syncs(void *ctx, enum file_call call, size_t *n)
{
    int *syncs = ctx;
    (void)n;
    *syncs += call == FILE_FSYNC || call == FILE_FDATASYNC;
    return 0;
}

/* A killed process may have left a whole group, or a new segment, that only the page cache
 * holds. */
static void what_a_start_takes_over_is_synced_with_its_folder(void **state)
{
    struct fixture *f = *state;
    int syncs = 0;
    struct file_faults ff = { .hit = count_syncs, .ctx = &syncs };
    struct vlog_opts opts = { .dir_fd = f->dir_fd,
                              .id = ID,
                              .segment_bytes = 1 << 20,
                              .faults = &ff,
                              .zeros_always = f->zeros };
    struct vlog_replay_calls calls = { .group = found_group, .mutation = found_mutation, .ctx = f };
    build(f, 1 << 20);
    f->groups = 0;
    assert_int_equal(vlog_open(&opts, &f->log, &f->note), ERR_OK);
    assert_int_equal(vlog_replay(f->log, vlog_start(), &calls, &f->note), ERR_OK);
    expect_tail(f, GROUPS);
    assert_int_equal(syncs, 2);
}

static int failing_reads(void *ctx, enum file_call call, size_t *n)
{
    int *left = ctx;
    (void)n;
    return call == FILE_PREAD && (*left)-- > 0 ? EIO : 0;
}

static err replay_with_failing_reads(struct fixture *f, int count)
{
    struct file_faults ff = { .hit = failing_reads, .ctx = &count };
    struct vlog_opts opts = { .dir_fd = f->dir_fd,
                              .id = ID,
                              .segment_bytes = 1 << 20,
                              .faults = &ff,
                              .zeros_always = f->zeros };
    struct vlog_replay_calls calls = { .group = found_group, .mutation = found_mutation, .ctx = f };
    f->groups = 0;
    assert_int_equal(vlog_open(&opts, &f->log, &f->note), ERR_OK);
    err why = vlog_replay(f->log, vlog_start(), &calls, &f->note);
    if (why == ERR_OK)
        expect_tail(f, GROUPS);
    vlog_close(&f->log); /* with the faults */
    return why;
}

/* After a kill the kernel may refuse direct reads, for a moment or for minutes, though nothing is
 * wrong. */
static void a_read_that_fails_for_a_moment_is_made_again(void **state)
{
    struct fixture *f = *state;
    build(f, 1 << 20);
    assert_int_equal(replay_with_failing_reads(f, 1), ERR_OK);
    assert_int_equal(replay_with_failing_reads(f, 3), ERR_OK);
    assert_int_equal(replay_with_failing_reads(f, 5),
                     ERR_OK); /* as often as it is tried directly */
    assert_int_equal(replay_with_failing_reads(f, 1000), ERR_IO);
}

static int look_while_unlinking(void *ctx, enum file_call call, size_t *n)
{
    struct fixture *f = ctx;
    struct vlog_segment s;
    (void)n;
    if (call != FILE_UNLINK)
        return 0;
    assert_int_equal(vlog_segment_next(f->log, 0, &s), ERR_OK);
    assert_int_equal(s.number, 2);
    return 0;
}

static void segment_is_out_of_the_table_before_its_file_goes(void **state)
{
    struct fixture *f = *state;
    struct file_faults ff = { .hit = look_while_unlinking, .ctx = f };
    struct vlog_opts opts = { .dir_fd = f->dir_fd,
                              .id = ID,
                              .segment_bytes = 5000,
                              .faults = &ff,
                              .zeros_always = f->zeros };
    struct vlog_replay_calls calls = { .group = found_group, .mutation = found_mutation, .ctx = f };
    build(f, 5000);
    f->groups = 0;
    assert_int_equal(vlog_open(&opts, &f->log, &f->note), ERR_OK);
    assert_int_equal(vlog_replay(f->log, vlog_start(), &calls, &f->note), ERR_OK);
    assert_int_equal(vlog_unlink(f->log, 1), ERR_OK);
    assert_int_not_equal(faccessat(f->dir_fd, "00000001.seg", F_OK, 0), 0);
}

/* A client stores bytes that look like a log: they stay a value. */
static void stored_log_bytes_are_no_groups(void **state)
{
    struct fixture *f = *state;
    build(f, 1 << 20);
    size_t n;
    char *bytes = load(f, &n);
    assert_int_equal(replay(f), ERR_OK);
    n = f->ends[GROUPS].offset;
    struct record_mutation m = {
        .space = 1, .blob = RECORD_BLOB_LOG, .key = STR("log"), .bytes = { bytes, n }
    };
    m.place.n = (uint32_t)n;
    m.place.hash = XXH3_64bits(bytes, n);
    struct vlog_group g = { .seq = GROUPS + 1, .mutations = &m, .count = 1 };
    struct vlog_extent whole;
    assert_int_equal(vlog_reserve(f->log, 2 * n), ERR_OK);
    assert_int_equal(vlog_append(f->log, &g, &whole), ERR_OK);
    leave(f);
    char *longer = load(f, &n);
    longer[f->ends[GROUPS].offset + 8] ^=
        1; /* the last group is torn now, with whole groups in its value */
    store(f, longer, n);
    assert_int_equal(replay(f), ERR_OK);
    expect_tail(f, GROUPS);
    free(bytes);
    free(longer);
}

int main(void)
{
#define PLAIN(fact) cmocka_unit_test_setup_teardown(fact, setup, teardown)
#define FACT(fact)                                                                                 \
    PLAIN(fact),                                                                                   \
    {                                                                                              \
#fact " with zeros", fact, setup_zeros, teardown, NULL                                     \
    }
    const struct CMUnitTest tests[] = {
        FACT(every_group_is_replayed_in_order_over_segments),
        FACT(torn_last_group_is_cut_at_every_length),
        FACT(any_flipped_byte_of_the_last_group_takes_it_back),
        FACT(flipped_byte_before_a_whole_group_is_damage),
        FACT(flipped_byte_of_an_unsynced_group_takes_back_all_behind),
        FACT(flipped_byte_before_a_group_that_was_written_after_a_sync_is_damage),
        FACT(a_new_segment_begins_with_all_before_it_on_disk),
        FACT(a_failed_sync_fails_all_later_ones),
        FACT(log_shorter_than_the_index_is_damage),
        FACT(missing_segment_is_damage),
        FACT(torn_group_with_a_later_segment_is_damage),
        PLAIN(unborn_segment_is_dropped),
        FACT(what_a_start_takes_over_is_synced_with_its_folder),
        FACT(a_read_that_fails_for_a_moment_is_made_again),
        FACT(segment_is_out_of_the_table_before_its_file_goes),
        FACT(stored_log_bytes_are_no_groups),
    };
#undef FACT
#undef PLAIN
    return cmocka_run_group_tests(tests, NULL, NULL);
}
