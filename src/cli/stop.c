/* stop.c - signals as a flag. */
#include "cli/stop.h"

#include "base/check.h"

#include <signal.h>
#include <stdio.h>

/* Written by the handler alone. */
static volatile sig_atomic_t stopped_by;

static void on_signal(int number)
{
    stopped_by = number;
}

void stop_watch(void)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
    sigemptyset(&action.sa_mask);
    struct sigaction was;
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        INVARIANT(sigaction(numbers[i], NULL, &was) == 0);
        if (was.sa_handler != SIG_IGN)
            INVARIANT(sigaction(numbers[i], &action, NULL) == 0);
    }
}

bool stop_asked(void)
{
    return stopped_by != 0;
}

void stop_end(void)
{
    int number = stopped_by;
    if (number == 0)
        return;
    (void)fflush(NULL); /* what was said is said */
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}
