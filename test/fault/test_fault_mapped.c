/* Goal: a store whose files are cut off while it is open ends with a sentence or an error, never
 * with a bare signal. Method: a child opens a store, its parent cuts one of the files, and the
 * child reads: of the index it must end by the guard (map_guard.h), of the log it must get an error
 * for what is gone and the bytes of what is not. */
#include "scratch.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROWS = 600, BYTES = 600, STORE_DAMAGED = 3, FINE = 40, UNEXPECTED = 41 };

static str key_of(unsigned i, char *buf)
{
    int n = snprintf(buf, 16, "row-%04u", i);
    return (str){ .p = buf, .n = (size_t)n };
}

static void build(struct scratch *s)
{
    char key[16], bytes[BYTES];
    scratch_init(s);
    scratch_open(s);
    for (unsigned i = 0; i < ROWS; i++) {
        scratch_bytes(i + 1, bytes, sizeof(bytes));
        assert_int_equal(scratch_put(s, SPACE_ROW, key_of(i, key), STR("value"),
                                     (str){ bytes, sizeof(bytes) }),
                         ERR_OK);
    }
    scratch_close(s);
}

/* How many rows read well, and with how many errors. */
static void read_all(struct scratch *s, unsigned *well, unsigned *told)
{
    *well = *told = 0;
    for (unsigned i = 0; i < ROWS; i++) {
        char key[16];
        struct scratch_row r;
        err why = scratch_get(s, SPACE_ROW, key_of(i, key), &r);
        *well += why == ERR_OK;
        *told += why == ERR_CORRUPT || why == ERR_IO;
        scratch_row_free(&r);
    }
}

static _Noreturn void child_run(struct scratch *s, int go, int ready, int err_fd)
{
    unsigned well, told;
    char byte = 1;
    struct err_note note;
    if (dup2(err_fd, STDERR_FILENO) < 0 || scratch_try(s, true, &note) != ERR_OK)
        _exit(UNEXPECTED);
    if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 1)
        _exit(UNEXPECTED);
    read_all(s, &well, &told);
    _exit(well > 0 && told > 0 && well + told == ROWS ? FINE : UNEXPECTED);
}

/* Cuts name to bytes under a child that has the store open; its exit status, and what it wrote to
 * stderr. */
static int cut_under(struct scratch *s, const char *name, long bytes, char *said, size_t said_size)
{
    int go[2], ready[2], errs[2], status;
    char path[2 * SCRATCH_PATH_BYTES], byte = 1;
    assert_int_equal(pipe(go), 0);
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(errs), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static const int fatal[] = { SIGSEGV, SIGBUS, SIGABRT };
        for (size_t i = 0; i < COUNT_OF(fatal); i++)
            (void)signal(fatal[i], SIG_DFL); /* cmocka's would run the teardown */
        child_run(s, go[0], ready[1], errs[1]);
    }
    close(errs[1]);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    scratch_path(s, name, path);
    assert_int_equal(truncate(path, bytes), 0);
    assert_int_equal(write(go[1], &byte, 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    size_t n = 0;
    for (ssize_t r; n + 1 < said_size && (r = read(errs[0], said + n, said_size - 1 - n)) > 0;)
        n += (size_t)r;
    said[n] = '\0';
    close(errs[0]);
    close(ready[0]);
    close(go[0]);
    close(go[1]);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void index_cut_off_while_open_ends_with_a_sentence(void **state)
{
    (void)state; /* unused */
    struct scratch s;
    char said[1024];
    build(&s);
    assert_int_equal(cut_under(&s, "index/data.mdb", 8192, said, sizeof(said)), STORE_DAMAGED);
    assert_non_null(strstr(said, "error store.unreadable file=\""));
    assert_non_null(strstr(said, "/index/data.mdb\" offset="));
    struct err_note note;
    assert_int_equal(scratch_try(&s, false, &note),
                     ERR_CORRUPT); /* and the next start says so too */
    scratch_fini(&s);
}

static void log_cut_off_while_open_is_an_error_of_what_is_gone(void **state)
{
    (void)state; /* unused */
    struct scratch s;
    char said[1024];
    build(&s);
    assert_int_equal(cut_under(&s, "log/00000001.seg", ROWS * BYTES / 2, said, sizeof(said)), FINE);
    scratch_fini(&s);
}

static void bus_errors_elsewhere_keep_their_end(void **state)
{
    (void)state; /* unused */
    struct scratch s;
    struct err_note note;
    int status;
    build(&s);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (scratch_try(&s, true, &note) == ERR_OK) /* installs the guard */
            (void)raise(SIGBUS);
        _exit(FINE);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGBUS);
    scratch_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(index_cut_off_while_open_ends_with_a_sentence),
        cmocka_unit_test(log_cut_off_while_open_is_an_error_of_what_is_gone),
        cmocka_unit_test(bus_errors_elsewhere_keep_their_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
