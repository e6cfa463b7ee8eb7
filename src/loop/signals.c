/* signals.c - one handler, which does what is safe in one: atomics and write(2). */
#include "loop/signals.h"

#include "base/check.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>

static const struct {
    unsigned bit;
    int number;
} signals[] = { { SIGNALS_TERM, SIGTERM },
                { SIGNALS_INT, SIGINT },
                { SIGNALS_HUP, SIGHUP },
                { SIGNALS_PIPE, SIGPIPE },
                { SIGNALS_FILE_SIZE, SIGXFSZ } };

/* The process's. The descriptor stays open: a handler may still be at it on another thread. */
static atomic_int seen_fd = -1;
static atomic_uint seen;
static atomic_int first; /* that came, of all; 0: none */

static void on_signal(int number)
{
    int before = errno;
    int none = 0;
    (void)atomic_compare_exchange_strong(&first, &none, number); /* not the first: fine */
    for (size_t i = 0; i < COUNT_OF(signals); i++)
        if (signals[i].number == number)
            (void)atomic_fetch_or(&seen, signals[i].bit); /* what came before is still there */
    (void)eventfd_write(atomic_load(&seen_fd), 1);        /* EAGAIN: it is readable */
    errno = before;
}

static void signals_handle(unsigned which, const struct sigaction *action, bool respect)
{
    for (size_t i = 0; i < COUNT_OF(signals); i++) {
        if ((which & signals[i].bit) == 0)
            continue;
        struct sigaction was;
        INVARIANT(sigaction(signals[i].number, NULL, &was) == 0);
        if (!respect || was.sa_handler != SIG_IGN)
            INVARIANT(sigaction(signals[i].number, action, NULL) == 0);
    }
}

void signals_watch(unsigned which, enum signals_manner manner)
{
    INVARIANT((which & ~(unsigned)SIGNALS_NOTED) == 0);
    if (atomic_load(&seen_fd) < 0)
        atomic_store(&seen_fd, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    INVARIANT(atomic_load(&seen_fd) >= 0);
    struct sigaction action = { .sa_handler = on_signal,
                                .sa_flags =
                                    manner == SIGNALS_ONCE ? (int)SA_RESETHAND : SA_RESTART };
    INVARIANT(sigfillset(&action.sa_mask) == 0);
    signals_handle(which, &action, manner == SIGNALS_ONCE);
}

void signals_ignore(unsigned which)
{
    struct sigaction action = { .sa_handler = SIG_IGN };
    INVARIANT(sigemptyset(&action.sa_mask) == 0);
    signals_handle(which, &action, false);
}

unsigned signals_seen(void)
{
    return atomic_load(&seen);
}

unsigned signals_take(void)
{
    eventfd_t count;
    (void)eventfd_read(signals_fd(), &count); /* EAGAIN: none came */
    return atomic_exchange(&seen, 0);
}

int signals_fd(void)
{
    return atomic_load(&seen_fd);
}

int signals_number(unsigned which)
{
    for (size_t i = 0; i < COUNT_OF(signals); i++)
        if ((which & signals[i].bit) != 0)
            return signals[i].number;
    return 0;
}

void signals_end(void)
{
    int number = atomic_load(&first);
    if (number == 0)
        return;
    (void)fflush(NULL); /* what was said is said */
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

void signals_of_child(sigset_t *out)
{
    INVARIANT(sigemptyset(out) == 0);
    INVARIANT(sigaddset(out, SIGPIPE) == 0);
    INVARIANT(sigaddset(out, SIGXFSZ) == 0);
}
