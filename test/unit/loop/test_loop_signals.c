/* Goal: a signal does what loop/signals.h says, whoever watches. Method: a process of its own for
 * each case sends itself signals; the test waits for its end and looks how it ended. */
#include "loop/loop.h"
#include "loop/signals.h"

#include "../cmocka_all.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_S = 120, FINE = 7 };

/* In a process of its own; true: as it should be. */
typedef bool case_fn(void);

/* What waitpid says of it. */
static int ended(case_fn *run)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)alarm(PATIENCE_S);
        _exit(run() ? FINE : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void is_fine(case_fn *run)
{
    int status = ended(run);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), FINE);
}

static void is_ended_by(case_fn *run, int number)
{
    int status = ended(run);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), number);
}

static bool is_readable(void)
{
    struct pollfd fd = { .fd = signals_fd(), .events = POLLIN };
    return poll(&fd, 1, 0) == 1;
}

static bool notes_each(void)
{
    signals_watch(SIGNALS_NOTED, SIGNALS_EACH);
    if (signals_seen() != 0 || is_readable())
        return false;
    (void)raise(SIGHUP);
    (void)raise(SIGTERM);
    (void)raise(SIGTERM);
    if (signals_seen() != (SIGNALS_HUP | SIGNALS_TERM) || !is_readable())
        return false;
    return signals_take() == (SIGNALS_HUP | SIGNALS_TERM) && signals_seen() == 0 && !is_readable();
}

static void each_is_noted_until_it_is_taken(void **state)
{
    (void)state;
    is_fine(notes_each);
}

static bool comes_twice(void)
{
    signals_watch(SIGNALS_NOTED, SIGNALS_ONCE);
    (void)raise(SIGINT);
    if (signals_seen() != SIGNALS_INT)
        return false;
    (void)raise(SIGINT);
    return true;
}

static void the_second_ends_who_notes_one(void **state)
{
    (void)state;
    is_ended_by(comes_twice, SIGINT);
}

static bool ignored_before(void)
{
    signals_ignore(SIGNALS_HUP);
    signals_watch(SIGNALS_NOTED, SIGNALS_ONCE);
    (void)raise(SIGHUP);
    return signals_seen() == 0;
}

static void what_was_ignored_stays_so(void **state)
{
    (void)state;
    is_fine(ignored_before);
}

static bool ends_by_the_first(void)
{
    signals_end();                 /* none came: it returns */
    (void)signal(SIGHUP, SIG_DFL); /* nohup has it ignored */
    signals_watch(SIGNALS_NOTED, SIGNALS_ONCE);
    (void)raise(SIGHUP);
    (void)raise(SIGTERM);
    signals_end();
    return true;
}

static void the_end_is_by_the_first_that_came(void **state)
{
    (void)state;
    is_ended_by(ends_by_the_first, SIGHUP);
}

static void heard(void *ctx, int signal_number)
{
    struct loop *l = ctx;
    if (signal_number == SIGHUP)
        loop_stop(l);
}

static bool comes_before_the_loop(void)
{
    signals_watch(SIGNALS_HUP, SIGNALS_EACH);
    (void)raise(SIGHUP);
    struct loop *l = loop_new(1);
    loop_signals(l, heard, l);
    loop_run(l);
    loop_free(&l);
    return signals_seen() == 0;
}

static void the_loop_hears_what_was_noted_before_it(void **state)
{
    (void)state;
    is_fine(comes_before_the_loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_noted_until_it_is_taken),
        cmocka_unit_test(the_second_ends_who_notes_one),
        cmocka_unit_test(what_was_ignored_stays_so),
        cmocka_unit_test(the_end_is_by_the_first_that_came),
        cmocka_unit_test(the_loop_hears_what_was_noted_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
