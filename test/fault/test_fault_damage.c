/* Goal: a flipped bit or a cut-off file is told, never served, and never a crash.
 * Method: a store is made and closed; then, again and again, one byte of one of its files is
 * changed or the file cut, and a child opens the copy for reading, reads every row by get and by
 * walk, and checks the store. The child says what it saw: nothing wrong (the byte means nothing),
 * an error from open, read or check, or wrong bytes. FAULT_FLIPS: changes tried in each file
 * (400). */
#include "base/rng.h"
#include "engine/store.h"
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROWS = 300, FLIPS = 400, BYTES = 3000 };
enum verdict {
    UNTOUCHED = 10,
    TOLD_AT_OPEN,
    TOLD_BY_CHECK,
    TOLD_BY_READ_AND_CHECK,
    READ_TOLD_CHECK_DID_NOT,
    WRONG_BYTES,
    NO_NOTE,
    VERDICTS
};

static str key_of(unsigned i, char *buf)
{
    int n = snprintf(buf, 16, "row-%04u", i);
    return (str){ .p = buf, .n = (size_t)n };
}

/* Rows of three kinds; every third was deleted again. */
static size_t bytes_of(unsigned i, char *out)
{
    static const size_t sizes[] = { 0, 200, 900, BYTES };
    size_t n = sizes[i % COUNT_OF(sizes)];
    scratch_bytes(i + 1, out, n);
    return n;
}

static bool is_there(unsigned i)
{
    return i % 3 != 0;
}

static void build(struct scratch *s)
{
    char key[16], bytes[BYTES];
    scratch_open(s);
    for (unsigned i = 0; i < ROWS; i++) {
        size_t n = bytes_of(i, bytes);
        assert_int_equal(scratch_put(s, SPACE_ROW, key_of(i, key), STR("value"),
                                     (str){ .p = bytes, .n = n }),
                         ERR_OK);
        if (!is_there(i))
            assert_int_equal(scratch_delete(s, SPACE_ROW, key_of(i, key)), ERR_OK);
    }
    assert_int_equal(engine_flush(s->engine), ERR_OK);
    bool more = true;
    while (more)
        assert_int_equal(engine_reclaim(s->engine, &more), ERR_OK);
    scratch_close(s);
}

/* ---- the child ---- */

static bool reads_right(struct scratch *s, bool *told)
{
    for (unsigned i = 0; i < ROWS; i++) {
        char key[16], bytes[BYTES];
        struct scratch_row r;
        err why = scratch_get(s, SPACE_ROW, key_of(i, key), &r);
        size_t n = bytes_of(i, bytes);
        if (why == ERR_CORRUPT || why == ERR_IO)
            *told = true;
        else if (why == ERR_NOT_FOUND && is_there(i))
            *told = true; /* gone astray: check has to tell */
        else if (why == ERR_OK && !is_there(i))
            return false;
        else if (why == ERR_OK && (r.value_n != 5 || memcmp(r.value, "value", 5) != 0))
            return false;
        else if (why == ERR_OK && (r.bytes_n != n || memcmp(r.bytes, bytes, n) != 0))
            return false;
        scratch_row_free(&r);
    }
    return true;
}

static bool walks_right(struct scratch *s, bool *told, bool reversed)
{
    struct engine_view *v = engine_view_begin(s->engine);
    struct engine_range all = { .space = SPACE_ROW, .reversed = reversed };
    struct engine_cursor *c = engine_cursor_open(v, &all);
    struct engine_row row;
    bool right = true;
    unsigned count = 0;
    err why = engine_cursor_next(c, &row);
    for (int steps = 0; why != ERR_NOT_FOUND && steps < 10 * ROWS; steps++) {
        if (why == ERR_OK)
            right = right && row.key.n == 8 && row.value.n == 5;
        else
            *told = true;
        count += why == ERR_OK;
        why = engine_cursor_next(c, &row);
    }
    *told = *told || count != ROWS - ROWS / 3;
    engine_view_end(&v);
    return right;
}

static _Noreturn void child_run(struct scratch *s)
{
    struct err_note note = { .text = "" };
    bool told = false;
    err why = scratch_try(s, true, &note);
    if (why != ERR_OK)
        _exit(note.text[0] == '\0' ? NO_NOTE : TOLD_AT_OPEN);
    if (!reads_right(s, &told) || !walks_right(s, &told, false) || !walks_right(s, &told, true))
        _exit(WRONG_BYTES);
    struct engine_check_opts opts = { .found = NULL };
    why = engine_check(s->engine, &opts);
    if (why == ERR_OK)
        _exit(told ? READ_TOLD_CHECK_DID_NOT : UNTOUCHED);
    _exit(told ? TOLD_BY_READ_AND_CHECK : TOLD_BY_CHECK);
}

/* ---- the parent ---- */

struct image {
    char path[2 * SCRATCH_PATH_BYTES];
    char *bytes;
    size_t n;
};

static void load(struct scratch *s, const char *name, struct image *out)
{
    struct stat st;
    scratch_path(s, name, out->path);
    int fd = open(out->path, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    out->n = (size_t)st.st_size;
    out->bytes = malloc(out->n);
    assert_non_null(out->bytes);
    assert_int_equal(read(fd, out->bytes, out->n), (ssize_t)out->n);
    close(fd);
}

static void patch(const struct image *im, size_t at, char byte)
{
    int fd = open(im->path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
}

/* The child's verdict; VERDICTS: it died of a signal. */
static int verdict(struct scratch *s)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static const int fatal[] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL };
        for (size_t i = 0; i < COUNT_OF(fatal); i++)
            (void)signal(fatal[i], SIG_DFL); /* cmocka's would run the teardown */
        (void)!freopen("/dev/null", "w", stderr);
        child_run(s);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? VERDICTS : WEXITSTATUS(status);
}

static uint64_t flips(void)
{
    uint64_t n = FLIPS;
    const char *text = getenv("FAULT_FLIPS");
    if (text != NULL)
        assert_true(str_to_u64(str_of(text), &n));
    return n;
}

static void flip_file(struct scratch *s, const char *name, int counts[VERDICTS + 1])
{
    struct image im;
    struct rng rng;
    rng_init(&rng, 11);
    load(s, name, &im);
    memset(counts, 0, sizeof(int) * (VERDICTS + 1));
    for (uint64_t i = 0; i < flips(); i++) {
        size_t at = (size_t)rng_below(&rng, im.n);
        char flipped = (char)(im.bytes[at] ^ (char)(1 << rng_below(&rng, 8)));
        patch(&im, at, flipped);
        int v = verdict(s);
        if (v == WRONG_BYTES || v == READ_TOLD_CHECK_DID_NOT || v == NO_NOTE || v == VERDICTS)
            print_message("%s offset %zu: verdict %d\n", name, at, v);
        counts[v]++;
        patch(&im, at, im.bytes[at]);
    }
    print_message(
        "%s: %d without meaning, told: %d at open, %d by check, %d by reading too; %d crashes\n",
        name, counts[UNTOUCHED], counts[TOLD_AT_OPEN], counts[TOLD_BY_CHECK],
        counts[TOLD_BY_READ_AND_CHECK], counts[VERDICTS]);
    free(im.bytes);
}

static void expect_told(const int counts[VERDICTS + 1])
{
    assert_int_equal(counts[WRONG_BYTES], 0);
    assert_int_equal(counts[READ_TOLD_CHECK_DID_NOT], 0);
    assert_int_equal(counts[NO_NOTE], 0);
    assert_int_equal(counts[VERDICTS], 0);
}

static int setup(void **state)
{
    struct scratch *s = malloc(sizeof(*s));
    assert_non_null(s);
    scratch_init(s);
    s->segment_bytes = 4 << 20;
    build(s);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    scratch_fini(*state);
    free(*state);
    return 0;
}

static void flipped_bit_in_the_log_is_told(void **state)
{
    int counts[VERDICTS + 1];
    flip_file(*state, "log/00000001.seg", counts);
    expect_told(counts);
    assert_true(counts[TOLD_BY_READ_AND_CHECK] > 0);
}

static void flipped_bit_in_the_index_is_told(void **state)
{
    int counts[VERDICTS + 1];
    flip_file(*state, "index/data.mdb", counts);
    expect_told(counts);
}

static void flipped_bit_in_store_is_told(void **state)
{
    int counts[VERDICTS + 1];
    flip_file(*state, "STORE", counts);
    expect_told(counts);
    assert_true(counts[TOLD_AT_OPEN] > 0);
}

static void cut_off_file_is_told(void **state)
{
    struct scratch *s = *state;
    static const char *names[] = { "log/00000001.seg", "index/data.mdb", "STORE" };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct image im;
        load(s, names[i], &im);
        for (size_t part = 0; part < 8; part++) {
            assert_int_equal(truncate(im.path, (off_t)(im.n * part / 8)), 0);
            assert_int_equal(verdict(s), TOLD_AT_OPEN);
            int fd = open(im.path, O_WRONLY);
            assert_int_equal(pwrite(fd, im.bytes, im.n, 0), (ssize_t)im.n);
            close(fd);
        }
        assert_int_equal(verdict(s), UNTOUCHED);
        free(im.bytes);
    }
}

static void missing_file_is_told(void **state)
{
    struct scratch *s = *state;
    static const char *names[] = { "log/00000001.seg", "index/data.mdb", "STORE" };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char path[2 * SCRATCH_PATH_BYTES], aside[2 * SCRATCH_PATH_BYTES];
        scratch_path(s, names[i], path);
        scratch_path(s, "aside", aside);
        assert_int_equal(rename(path, aside), 0);
        assert_int_equal(verdict(s), TOLD_AT_OPEN);
        struct err_note note = { .text = "" };
        assert_int_equal(scratch_try(s, false, &note), ERR_CORRUPT); /* not made anew either */
        assert_true(note.text[0] != '\0');
        assert_int_equal(rename(aside, path), 0);
        assert_int_equal(verdict(s), UNTOUCHED);
    }
}

/* What opening despite damage gives, and then a check. *note: what opening said. */
static err checked_despite(struct scratch *s, struct err_note *note, err *found)
{
    struct engine_opts opts = { .dir = s->dir, .read_only = true, .despite_damage = true };
    struct engine *e = NULL;
    store_time greatest;
    *found = ERR_OK;
    err why = engine_open(&opts, &e, &greatest, note);
    struct engine_check_opts check = { .found = NULL };
    if (why == ERR_OK)
        *found = engine_check(e, &check);
    engine_close(&e);
    return why;
}

static void a_check_goes_on_over_a_damaged_log_alone(void **state)
{
    struct scratch *s = *state;
    struct image im;
    struct err_note note;
    err found;
    static const char *const names[] = { "log/00000001.seg", "index/data.mdb", "STORE" };
    assert_int_equal(checked_despite(s, &note, &found), ERR_OK);
    assert_true(note.text[0] == '\0' && found == ERR_OK);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        load(s, names[i], &im);
        assert_int_equal(truncate(im.path, (off_t)(im.n / 2)), 0);
        assert_int_equal(checked_despite(s, &note, &found), i == 0 ? ERR_OK : ERR_CORRUPT);
        assert_true(note.text[0] != '\0');
        assert_int_equal(found, i == 0 ? ERR_CORRUPT : ERR_OK);
        int fd = open(im.path, O_WRONLY);
        assert_int_equal(pwrite(fd, im.bytes, im.n, 0), (ssize_t)im.n);
        close(fd);
        free(im.bytes);
    }
    load(s, "log/00000001.seg", &im);
    patch(&im, 3, (char)(im.bytes[3] ^ 1)); /* the header: no replay over it */
    assert_int_equal(scratch_try(s, true, &note), ERR_CORRUPT);
    assert_int_equal(checked_despite(s, &note, &found), ERR_OK);
    assert_non_null(strstr(note.text, "log/00000001.seg is damaged at offset "));
    assert_int_equal(found, ERR_CORRUPT);
    free(im.bytes);
}

static void another_format_is_told(void **state)
{
    struct scratch *s = *state;
    struct image im;
    struct err_note note;
    load(s, "STORE", &im);
    patch(&im, 6, '9');
    assert_int_equal(scratch_try(s, false, &note), ERR_CORRUPT);
    assert_non_null(strstr(note.text, "format 9"));
    free(im.bytes);
}

static void older_format_is_read_and_marked_when_written(void **state)
{
    struct scratch *s = *state;
    struct image old, after;
    struct err_note note;
    load(s, "STORE", &old);
    const unsigned char ours = (unsigned char)old.bytes[6];
    patch(&old, 6, '1');
    assert_int_equal(verdict(s), UNTOUCHED);
    load(s, "STORE", &after);
    assert_int_equal(after.bytes[6], '1'); /* whoever only reads leaves it as it is */
    free(after.bytes);
    assert_int_equal(scratch_try(s, false, &note), ERR_OK);
    scratch_close(s);
    load(s, "STORE", &after);
    assert_int_equal(after.bytes[6], ours);
    assert_int_equal(verdict(s), UNTOUCHED);
    free(after.bytes);
    free(old.bytes);
}

int main(void)
{
#define FACT(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        FACT(flipped_bit_in_the_log_is_told),
        FACT(flipped_bit_in_store_is_told),
        FACT(cut_off_file_is_told),
        FACT(missing_file_is_told),
        FACT(a_check_goes_on_over_a_damaged_log_alone),
        FACT(another_format_is_told),
        FACT(older_format_is_read_and_marked_when_written),
        FACT(flipped_bit_in_the_index_is_told),
    };
#undef FACT
    return cmocka_run_group_tests(tests, NULL, NULL);
}
