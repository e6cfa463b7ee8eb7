/* Goal: freed space goes back to the file system, nothing that somebody may read goes with it,
 * nothing leaks. Method: random histories against a naive model with small segments; reclaim,
 * check, reopening and backup in between; figures from the file system itself. */
#include "engine/store.h"
#include "model.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static int setup(void **state)
{
    struct scratch *s = malloc(sizeof(*s));
    assert_non_null(s);
    scratch_init(s);
    s->segment_bytes = 256 << 10;
    scratch_open(s);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    scratch_fini(*state);
    free(*state);
    return 0;
}

static void reclaim_all(struct scratch *s)
{
    bool more = true;
    for (int i = 0; more && i < 10000; i++)
        assert_int_equal(engine_reclaim(s->engine, &more), ERR_OK);
    assert_false(more);
}

static void random_histories_match_the_model(void **state)
{
    struct scratch *s = *state;
    struct model m;
    model_init(&m, 42);
    for (int i = 0; i < 1500; i++) {
        model_step(&m, s);
        uint64_t what = rng_below(&m.rng, 100);
        if (what == 0)
            model_compare(&m, s);
        if (what == 1)
            assert_int_equal(engine_flush(s->engine), ERR_OK);
        if (what == 2)
            reclaim_all(s);
        if (what == 3)
            expect_sound(s->engine);
        if (what == 4) {
            scratch_close(s);
            scratch_open(s);
        }
    }
    reclaim_all(s);
    expect_sound(s->engine);
    model_compare(&m, s);
    scratch_close(s);
    struct err_note note;
    assert_int_equal(scratch_try(s, true, &note), ERR_OK);
    expect_sound(s->engine);
    model_compare(&m, s);
}

static uint64_t log_disk_bytes(struct scratch *s)
{
    struct engine_stats st;
    engine_stats_get(s->engine, &st);
    return st.disk_bytes - st.index_bytes;
}

static void put_seed(struct scratch *s, unsigned key, uint64_t seed, size_t n)
{
    char *bytes = malloc(n);
    char name[16];
    assert_non_null(bytes);
    scratch_bytes(seed, bytes, n);
    (void)snprintf(name, sizeof(name), "k%05u", key);
    assert_int_equal(scratch_put(s, SPACE_ROW, str_of(name), STR("v"), (str){ .p = bytes, .n = n }),
                     ERR_OK);
    free(bytes);
}

static void hot_row_does_not_grow_the_disk(void **state)
{
    struct scratch *s = *state;
    for (unsigned i = 0; i < 1000; i++) {
        put_seed(s, 0, i, 20000);
        if (i % 100 == 99)
            reclaim_all(s);
    }
    assert_int_equal(engine_flush(s->engine), ERR_OK);
    reclaim_all(s);
    struct engine_stats st;
    engine_stats_get(s->engine, &st);
    assert_true(st.live_bytes < 64 << 10);
    assert_true(st.segments <= 2);
    assert_true(st.punched_bytes > 10 << 20);
    assert_true(log_disk_bytes(s) <
                (2 << 20) + 2 * (uint64_t)s->segment_bytes); /* what is reserved ahead */
    expect_sound(s->engine);
}

enum { AGAIN_BYTES = 1 << 20, AGAIN_TIMES = 64 };

static err put_again_and_again(struct engine_txn *t, void *ctx)
{
    err why = engine_txn_put(t, SPACE_ROW, STR("k"), STR("0"), (str){ .p = ctx, .n = AGAIN_BYTES });
    for (unsigned i = 0; i < AGAIN_TIMES && why == ERR_OK; i++)
        why = engine_txn_put_value(t, SPACE_ROW, STR("k"), STR("1"));
    return why;
}

/* The blob is written once, however often its row is put: so no more room is asked for. */
static void a_row_put_again_in_one_update_takes_its_room_once(void **state)
{
    struct scratch *s = *state;
    char *bytes = malloc(AGAIN_BYTES);
    assert_non_null(bytes);
    scratch_bytes(3, bytes, AGAIN_BYTES);
    assert_int_equal(engine_update_wait(s->engine, put_again_and_again, bytes), ERR_OK);
    free(bytes);
    assert_true(log_disk_bytes(s) < 2 * AGAIN_BYTES + (2 << 20) + 2 * (uint64_t)s->segment_bytes);
    expect_sound(s->engine);
}

static void sparse_segments_are_copied_out(void **state)
{
    struct scratch *s = *state;
    for (unsigned i = 0; i < 2000; i++)
        put_seed(s, i, i, 700);
    for (unsigned i = 0; i < 2000; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "k%05u", i);
        if (i % 4 != 0)
            assert_int_equal(scratch_delete(s, SPACE_ROW, str_of(name)), ERR_OK);
    }
    assert_int_equal(engine_flush(s->engine), ERR_OK);
    reclaim_all(s);
    struct engine_stats st;
    engine_stats_get(s->engine, &st);
    assert_true(st.copied_bytes > 0);
    assert_true(st.segments <= 6);
    for (unsigned i = 0; i < 2000; i += 4) {
        char name[16], bytes[700];
        struct scratch_row r;
        (void)snprintf(name, sizeof(name), "k%05u", i);
        scratch_bytes(i, bytes, sizeof(bytes));
        assert_int_equal(scratch_get(s, SPACE_ROW, str_of(name), &r), ERR_OK);
        assert_int_equal(r.bytes_n, sizeof(bytes));
        assert_memory_equal(r.bytes, bytes, sizeof(bytes));
        scratch_row_free(&r);
    }
    expect_sound(s->engine);
}

/* Changes a byte of every value in the first segment. */
static void damage_first_segment(struct scratch *s)
{
    uint64_t at[100];
    size_t count = 0;
    char name[2 * SCRATCH_PATH_BYTES];
    struct engine_view *v = engine_view_begin(s->engine);
    struct engine_range all = { .space = SPACE_ROW };
    struct engine_cursor *c = engine_cursor_open(v, &all);
    struct engine_row row;
    while (engine_cursor_next(c, &row) == ERR_OK && count < COUNT_OF(at))
        if (row.blob.segment == 1)
            at[count++] = row.blob.extent_offset + row.blob.value_offset;
    engine_view_end(&v);
    assert_true(count > 0);
    scratch_path(s, "log/00000001.seg", name);
    int fd = open(name, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(pwrite(fd, "", 1, (off_t)at[i]), 1);
    close(fd);
}

static void damaged_records_do_not_keep_other_segments_from_being_copied_out(void **state)
{
    struct scratch *s = *state;
    struct engine_stats st;
    for (unsigned i = 0; i < 2000; i++)
        put_seed(s, i, i, 700);
    for (unsigned i = 0; i < 2000; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "k%05u", i);
        if (i % 50 != 0)
            assert_int_equal(scratch_delete(s, SPACE_ROW, str_of(name)), ERR_OK);
    }
    assert_int_equal(engine_flush(s->engine), ERR_OK);
    damage_first_segment(s);
    reclaim_all(s);
    engine_stats_get(s->engine, &st);
    assert_true(st.copied_bytes > 0);
    assert_true(st.segments <= 4); /* the damaged one, and what is written now */
}

static void nothing_is_reclaimed_under_a_pin_and_all_is_after(void **state)
{
    struct scratch *s = *state;
    put_seed(s, 0, 5, 150000);
    assert_int_equal(engine_flush(s->engine), ERR_OK);
    struct engine_view *v = engine_view_begin(s->engine);
    struct engine_pin pin = engine_pin(v);
    engine_view_end(&v);
    for (unsigned i = 0; i < 200; i++) {
        put_seed(s, 0, 100 + i, 2000);
        assert_int_equal(engine_flush(s->engine), ERR_OK);
    }
    reclaim_all(s);
    struct engine_stats st;
    engine_stats_get(s->engine, &st);
    assert_int_equal(st.punched_bytes, 0);
    engine_unpin(s->engine, pin);
    reclaim_all(s);
    engine_stats_get(s->engine, &st);
    assert_true(st.punched_bytes > 140000);
    expect_sound(s->engine);
}

/* What a crash between index commit and punching leaves: the engine is closed without reclaim. */
static void start_finds_what_was_not_punched(void **state)
{
    struct scratch *s = *state;
    for (unsigned i = 0; i < 50; i++)
        put_seed(s, i % 2, i, 30000);
    scratch_close(s);
    scratch_open(s);
    uint64_t before = log_disk_bytes(s);
    reclaim_all(s);
    assert_true(log_disk_bytes(s) + (1 << 20) < before);
    expect_sound(s->engine);
}

static void backup_opens_as_the_same_store(void **state)
{
    struct scratch *s = *state;
    struct model m;
    struct scratch copy;
    struct engine_backup_result first, second, third;
    struct err_note note = { .text = "" };
    scratch_init(&copy);
    model_init(&m, 7);
    for (int i = 0; i < 300; i++)
        model_step(&m, s);
    if (engine_backup(s->engine, copy.dir, &first, &note) != ERR_OK)
        fail_msg("%s", note.text);
    assert_true(first.bytes_copied > 0);
    assert_int_equal(first.bytes_kept, 0);
    assert_int_equal(scratch_try(&copy, true, &note), ERR_OK);
    model_compare(&m, &copy);
    scratch_close(&copy);
    for (int i = 0; i < 100; i++)
        model_step(&m, s);
    if (engine_backup(s->engine, copy.dir, &second, &note) != ERR_OK)
        fail_msg("%s", note.text);
    assert_true(second.bytes_kept > 0);
    reclaim_all(s);
    if (engine_backup(s->engine, copy.dir, &third, &note) != ERR_OK)
        fail_msg("%s", note.text);
    assert_true(third.segments < second.segments);
    scratch_open(&copy);
    model_compare(&m, &copy);
    model_step(&m, &copy);
    reclaim_all(&copy);
    expect_sound(copy.engine);
    model_compare(&m, &copy);
    assert_int_equal(engine_backup(s->engine, copy.dir, &third, &note),
                     ERR_CONFLICT); /* it is open */
    scratch_fini(&copy);
}

static void backup_into_another_store_is_refused(void **state)
{
    struct scratch *s = *state;
    struct scratch other;
    struct engine_backup_result r;
    struct err_note note;
    scratch_init(&other);
    scratch_open(&other);
    scratch_close(&other);
    put_seed(s, 0, 1, 1000);
    assert_int_equal(engine_backup(s->engine, other.dir, &r, &note), ERR_CONFLICT);
    assert_non_null(strstr(note.text, "another store"));
    scratch_fini(&other);
}

static void backup_among_other_things_is_refused(void **state)
{
    struct scratch *s = *state;
    struct engine_backup_result r;
    struct err_note note;
    struct scratch other;
    char path[2 * SCRATCH_PATH_BYTES];
    put_seed(s, 0, 1, 1000);
    scratch_init(&other);
    scratch_path(&other, "a-letter", path);
    FILE *letter = fopen(path, "w");
    assert_non_null(letter);
    assert_int_equal(fclose(letter), 0);
    assert_int_equal(engine_backup(s->engine, other.dir, &r, &note), ERR_CONFLICT);
    assert_non_null(strstr(note.text, "other things"));
    scratch_path(&other, "LOCK", path);
    assert_int_not_equal(access(path, F_OK), 0); /* nothing was made there */
    scratch_fini(&other);
}

static void backup_into_the_store_itself_is_refused(void **state)
{
    struct scratch *s = *state;
    struct engine_backup_result r;
    struct err_note note;
    char log[2 * SCRATCH_PATH_BYTES];
    scratch_path(s, "log", log);
    put_seed(s, 0, 1, 1000);
    assert_int_equal(engine_backup(s->engine, log, &r, &note), ERR_CONFLICT);
    scratch_path(s, "log/LOCK", log);
    assert_int_not_equal(access(log, F_OK), 0);
}

int main(void)
{
#define FACT(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        FACT(random_histories_match_the_model),
        FACT(hot_row_does_not_grow_the_disk),
        FACT(a_row_put_again_in_one_update_takes_its_room_once),
        FACT(sparse_segments_are_copied_out),
        FACT(damaged_records_do_not_keep_other_segments_from_being_copied_out),
        FACT(nothing_is_reclaimed_under_a_pin_and_all_is_after),
        FACT(start_finds_what_was_not_punched),
        FACT(backup_opens_as_the_same_store),
        FACT(backup_into_another_store_is_refused),
        FACT(backup_among_other_things_is_refused),
        FACT(backup_into_the_store_itself_is_refused),
    };
#undef FACT
    return cmocka_run_group_tests(tests, NULL, NULL);
}
