/* Goal: every code has a name of its own, notes are cut and never unended, and a broken invariant
 * aborts. Method: all codes; long notes; a child process. */
#include "base/err.h"

#include "../cmocka_all.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void every_code_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < ERR_CODES; i++) {
        assert_non_null(err_name((err)i));
        for (int j = 0; j < i; j++)
            assert_string_not_equal(err_name((err)i), err_name((err)j));
    }
    assert_string_equal(err_name(ERR_OK), "ok");
    assert_string_equal(err_name(ERR_NOT_FOUND), "not_found");
}

static void a_note_is_cut_and_ends(void **state)
{
    (void)state;
    struct err_note note;
    char text[2 * ERR_NOTE_BYTES];
    memset(text, 'x', sizeof text);
    err_note_set(&note, "%.*s", (int)sizeof text, text);
    assert_int_equal(strlen(note.text), ERR_NOTE_BYTES - 1);
    err_note_set(&note, "short %d", 1);
    assert_string_equal(note.text, "short 1");
    err_note_set(NULL, "nobody asks %d", 1);
}

static void a_broken_invariant_says_where_and_aborts(void **state)
{
    (void)state;
    int ends[2];
    char text[512] = "";
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        INVARIANT(1 + 1 == 3);
        _exit(0);
    }
    assert_true(child > 0);
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && n<sizeof text - 1; n += got> 0 ? (size_t)got : 0)
        got = read(ends[0], text + n, sizeof text - 1 - n);
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_non_null(strstr(text, "test_base_err.c:"));
    assert_non_null(strstr(text, "invariant broken: 1 + 1 == 3\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_a_name_of_its_own),
        cmocka_unit_test(a_note_is_cut_and_ends),
        cmocka_unit_test(a_broken_invariant_says_where_and_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
