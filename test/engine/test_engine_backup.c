/* Goal: a backup that is damaged is named, file and folder, and made whole by the next one of a
 * good store; what a broken-off one leaves behind goes.
 * Method: single bytes of a copy, or of its store, are flipped between backups; files are laid into
 * the folder, or the disk is made to fail. The store's log has zeros ahead of its tail. */
#include "model.h"

#include "engine/store.h"
#include "vlog/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROWS = 40, VALUE_BYTES = 20000, SEGMENT_BYTES = 256 << 10 };

struct pair {
    struct scratch store, copy;
    struct file_faults faults;
    atomic_bool full; /* writes fail; the store's threads look at it, too */
    struct engine_backup_result r;
    struct err_note note;
};

static int hit(void *ctx, enum file_call call, size_t *n)
{
    struct pair *p = ctx;
    (void)n;
    return call == FILE_PWRITEV && atomic_load(&p->full) ? ENOSPC : 0;
}

static void put(struct pair *p, unsigned row, unsigned version)
{
    static char bytes[VALUE_BYTES];
    char key[16];
    int n = snprintf(key, sizeof(key), "row-%04u", row);
    scratch_bytes(1000 * version + row, bytes, sizeof(bytes));
    assert_int_equal(scratch_put(&p->store, SPACE_ROW, (str){ .p = key, .n = (size_t)n }, STR("v"),
                                 (str){ .p = bytes, .n = sizeof(bytes) }),
                     ERR_OK);
}

static err back_up(struct pair *p)
{
    p->note.text[0] = '\0';
    return engine_backup(p->store.engine, p->copy.dir, &p->r, &p->note);
}

static void backed_up(struct pair *p)
{
    if (back_up(p) != ERR_OK)
        fail_msg("%s", p->note.text);
}

static int setup(void **state)
{
    struct pair *p = calloc(1, sizeof(*p));
    assert_non_null(p);
    p->faults = (struct file_faults){ .hit = hit, .ctx = p };
    scratch_init(&p->store);
    scratch_init(&p->copy);
    p->store.segment_bytes = p->copy.segment_bytes = SEGMENT_BYTES;
    p->store.faults = &p->faults;
    p->store.zeros_always = true;
    scratch_open(&p->store);
    for (unsigned i = 0; i < ROWS; i++)
        put(p, i, 1);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct pair *p = *state;
    scratch_fini(&p->copy);
    scratch_fini(&p->store);
    free(p);
    return 0;
}

/* Flips a bit well inside a value of a segment. */
static void flip(const struct scratch *s, const char *segment, off_t at)
{
    char path[2 * SCRATCH_PATH_BYTES], byte;
    scratch_path(s, segment, path);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void expect_says(const struct pair *p, const char *what)
{
    if (strstr(p->note.text, what) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", p->note.text, what);
}

static void expect_whole(struct pair *p)
{
    struct err_note note = { .text = "" };
    if (scratch_try(&p->copy, true, &note) != ERR_OK)
        fail_msg("%s", note.text);
    expect_sound(p->copy.engine);
    scratch_close(&p->copy);
}

static unsigned left_overs_in(const struct pair *p, const char *folder)
{
    char path[2 * SCRATCH_PATH_BYTES];
    scratch_path(&p->copy, folder, path);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    unsigned count = 0;
    for (struct dirent *d = readdir(dir); d != NULL; d = readdir(dir))
        count += strstr(d->d_name, ".new") != NULL || strstr(d->d_name, ".next") != NULL;
    closedir(dir);
    return count;
}

static unsigned left_overs(const struct pair *p)
{
    return left_overs_in(p, "log") + left_overs_in(p, "index") + left_overs_in(p, ".");
}

static void a_damaged_copy_is_made_whole_by_the_next_backup(void **state)
{
    struct pair *p = *state;
    backed_up(p);
    assert_int_equal(p->r.segments_replaced, 0);
    flip(&p->copy, "log/00000001.seg", 50000);
    flip(&p->copy, "log/00000003.seg", 70000);
    put(p, 1, 2);
    backed_up(p);
    assert_int_equal(p->r.segments_replaced, 2);
    assert_true(p->r.bytes_kept > 0);
    expect_whole(p);
    backed_up(p);
    assert_int_equal(p->r.segments_replaced, 0);
    assert_true(p->r.bytes_copied < SEGMENT_BYTES);
}

static void damage_of_the_store_is_told_as_such(void **state)
{
    struct pair *p = *state;
    flip(&p->store, "log/00000001.seg", 50000);
    assert_int_equal(back_up(p), ERR_CORRUPT);
    expect_says(p, "log/00000001.seg at offset ");
    expect_says(p, p->copy.dir);
    expect_says(p, "The store seems to be damaged itself");
}

static void a_good_copy_is_not_replaced_from_a_damaged_store(void **state)
{
    struct pair *p = *state;
    backed_up(p);
    flip(&p->store, "log/00000001.seg", 50000);
    backed_up(p);
    assert_int_equal(p->r.segments_replaced, 0);
    expect_whole(p);
}

static void a_damaged_store_does_not_overwrite_its_last_good_copy(void **state)
{
    struct pair *p = *state;
    static const char last[] = "log/00000004.seg";
    char path[2 * SCRATCH_PATH_BYTES];
    backed_up(p);
    scratch_path(&p->copy, "log/00000005.seg", path);
    assert_int_not_equal(access(path, F_OK), 0);
    put(p, ROWS, 1); /* the last segment grows, so it is copied again */
    flip(&p->store, last, 10000);
    assert_int_equal(back_up(p), ERR_CORRUPT);
    expect_says(p, last);
    expect_says(p, "in the store itself");
    expect_says(p, p->copy.dir);
    expect_whole(p);
    assert_int_equal(left_overs(p), 0);
    flip(&p->store, last, 10000);
    backed_up(p);
}

/* The store as after a kill: its index does not know the last row, which is read from the log
 * again. */
static void nor_from_one_damaged_where_the_index_does_not_reach(void **state)
{
    struct pair *p = *state;
    static const char last[] = "log/00000004.seg";
    char data[2 * SCRATCH_PATH_BYTES], aside[2 * SCRATCH_PATH_BYTES], path[2 * SCRATCH_PATH_BYTES];
    struct err_note note = { .text = "" };
    struct stat st;
    backed_up(p);
    scratch_close(&p->store);
    scratch_path(&p->store, "index/data.mdb", data);
    scratch_path(&p->store, "aside", aside);
    scratch_copy_file(data, aside);
    scratch_open(&p->store);
    put(p, ROWS, 1);
    scratch_close(&p->store);
    scratch_copy_file(aside, data);
    if (scratch_try(&p->store, true, &note) != ERR_OK)
        fail_msg("%s", note.text);
    scratch_path(&p->store, last, path);
    assert_int_equal(stat(path, &st), 0);
    flip(&p->store, last, st.st_size - VALUE_BYTES / 2);
    assert_int_equal(back_up(p), ERR_CORRUPT);
    expect_says(p, last);
    expect_says(p, "in the store itself");
    expect_whole(p);
    assert_int_equal(left_overs(p), 0);
}

static void damage_on_both_sides_is_told(void **state)
{
    struct pair *p = *state;
    backed_up(p);
    flip(&p->store, "log/00000001.seg", 50000);
    flip(&p->copy, "log/00000001.seg", 90000);
    assert_int_equal(back_up(p), ERR_CORRUPT);
    expect_says(p, "in the store itself");
    expect_says(p, "the copy there is damaged, too");
}

struct told {
    char first[256];
    uint32_t segment;
};

static void note_found(void *ctx, const char *what)
{
    struct told *t = ctx;
    if (t->first[0] == '\0')
        (void)snprintf(t->first, sizeof(t->first), "%s", what);
}

static void note_segment(void *ctx, uint32_t segment)
{
    struct told *t = ctx;
    t->segment = segment;
}

static void check_names_the_file(void **state)
{
    struct pair *p = *state;
    struct told told = { .segment = 0 };
    struct err_note note;
    backed_up(p);
    flip(&p->copy, "log/00000002.seg", 50000);
    assert_int_equal(scratch_try(&p->copy, true, &note), ERR_OK);
    struct engine_check_opts opts = { .found = note_found, .damaged = note_segment, .ctx = &told };
    assert_int_equal(engine_check(p->copy.engine, &opts), ERR_CORRUPT);
    assert_int_equal(told.segment, 2);
    assert_true(strncmp(told.first, "log/00000002.seg at offset ", 27) == 0);
}

/* ---- what a broken-off backup leaves ---- */

static void lay(const struct pair *p, const char *name)
{
    char path[2 * SCRATCH_PATH_BYTES];
    scratch_path(&p->copy, name, path);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "half", 4), 4);
    close(fd);
}

static void a_full_disk_keeps_the_backup_before_and_nothing_else(void **state)
{
    struct pair *p = *state;
    backed_up(p);
    for (unsigned i = 0; i < ROWS; i++)
        put(p, i, 2);
    atomic_store(&p->full, true);
    assert_int_equal(back_up(p), ERR_FULL);
    atomic_store(&p->full, false);
    expect_says(p, "what was copied is removed again");
    expect_says(p, "the backup that was there before is whole");
    assert_int_equal(left_overs(p), 0);
    expect_whole(p);
    backed_up(p);
    expect_whole(p);
}

static void a_first_backup_to_a_full_disk_leaves_nothing(void **state)
{
    struct pair *p = *state;
    atomic_store(&p->full, true);
    assert_int_equal(back_up(p), ERR_FULL);
    atomic_store(&p->full, false);
    expect_says(p, "there is no backup there yet");
    assert_int_equal(left_overs(p), 0);
    backed_up(p);
}

static void left_overs_of_a_killed_backup_go(void **state)
{
    struct pair *p = *state;
    static const char *const names[] = { "log/00000001.seg.new", "log/00000099.seg.new",
                                         "index/data.mdb.new" };
    backed_up(p);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        lay(p, names[i]);
    backed_up(p);
    assert_int_equal(left_overs(p), 0);
    lay(p, "log/00000002.seg.next");
    for (size_t i = 0; i < COUNT_OF(names); i++)
        lay(p, names[i]);
    scratch_open(&p->copy); /* as a store of its own */
    scratch_close(&p->copy);
    assert_int_equal(left_overs(p), 0);
}

static void a_wrong_place_is_the_callers_mistake(void **state)
{
    struct pair *p = *state;
    char path[2 * SCRATCH_PATH_BYTES];
    scratch_path(&p->copy, "no/such", path);
    assert_int_equal(engine_backup(p->store.engine, path, &p->r, &p->note), ERR_BAD);
    expect_says(p, "No such file or directory");
    expect_says(p, path);
    lay(p, "file");
    scratch_path(&p->copy, "file", path);
    assert_int_equal(engine_backup(p->store.engine, path, &p->r, &p->note), ERR_BAD);
    expect_says(p, "Not a directory");
}

static void a_read_only_store_is_backed_up(void **state)
{
    struct pair *p = *state;
    struct err_note note = { .text = "" };
    scratch_close(&p->store);
    if (scratch_try(&p->store, true, &note) != ERR_OK)
        fail_msg("%s", note.text);
    backed_up(p);
    backed_up(p);
    assert_true(p->r.bytes_kept > 0);
    expect_whole(p);
}

static off_t log_size(const struct scratch *s)
{
    char path[2 * SCRATCH_PATH_BYTES];
    struct stat st;
    scratch_path(s, "log/00000001.seg", path);
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

static void a_killed_store_is_checked_and_backed_up_without_its_zeros(void **state)
{
    struct pair *p = *state;
    struct err_note note = { .text = "" };
    scratch_fini(&p->store);
    scratch_init(&p->store);
    p->store.segment_bytes = SEGMENT_BYTES;
    p->store.zeros_always = true;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        scratch_open(&p->store);
        put(p, 1, 1);
        _exit(0);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(log_size(&p->store) > 2 * VALUE_BYTES);
    if (scratch_try(&p->store, true, &note) != ERR_OK)
        fail_msg("%s", note.text);
    expect_sound(p->store.engine);
    backed_up(p);
    assert_in_range(log_size(&p->copy), VALUE_BYTES, 2 * VALUE_BYTES);
    expect_whole(p);
    backed_up(p);
    assert_true(p->r.bytes_kept > 0);
}

/* The backup has so many rows more than the store it comes from, restored from the one before. */
static void expect_refused_behind(struct pair *p, unsigned rows)
{
    struct scratch earlier;
    scratch_init(&earlier);
    earlier.segment_bytes = SEGMENT_BYTES;
    assert_int_equal(engine_backup(p->store.engine, earlier.dir, &p->r, &p->note), ERR_OK);
    for (unsigned i = 0; i < rows; i++)
        put(p, i, 2);
    backed_up(p);
    scratch_open(&earlier); /* restored, so to say, and written to */
    assert_int_equal(scratch_put(&earlier, SPACE_ROW, STR("new"), STR("v"), STR_NONE), ERR_OK);
    assert_int_equal(engine_backup(earlier.engine, p->copy.dir, &p->r, &p->note), ERR_CONFLICT);
    expect_says(p, "holds a later state of this store");
    scratch_fini(&earlier);
    expect_whole(p);
    backed_up(p);
}

static void a_later_backup_is_not_overwritten_from_an_earlier_state(void **state)
{
    expect_refused_behind(*state, ROWS);
}

static void nor_when_both_end_in_the_same_segment(void **state)
{
    expect_refused_behind(*state, 1);
}

int main(void)
{
#define FACT(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        FACT(a_damaged_copy_is_made_whole_by_the_next_backup),
        FACT(damage_of_the_store_is_told_as_such),
        FACT(a_good_copy_is_not_replaced_from_a_damaged_store),
        FACT(a_damaged_store_does_not_overwrite_its_last_good_copy),
        FACT(nor_from_one_damaged_where_the_index_does_not_reach),
        FACT(damage_on_both_sides_is_told),
        FACT(check_names_the_file),
        FACT(a_full_disk_keeps_the_backup_before_and_nothing_else),
        FACT(a_first_backup_to_a_full_disk_leaves_nothing),
        FACT(left_overs_of_a_killed_backup_go),
        FACT(a_wrong_place_is_the_callers_mistake),
        FACT(a_read_only_store_is_backed_up),
        FACT(a_killed_store_is_checked_and_backed_up_without_its_zeros),
        FACT(a_later_backup_is_not_overwritten_from_an_earlier_state),
        FACT(nor_when_both_end_in_the_same_segment),
    };
#undef FACT
    return cmocka_run_group_tests(tests, NULL, NULL);
}
