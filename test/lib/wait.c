/* wait.c - see wait.h. */
#include "lib/wait.h"

#include "base/check.h"
#include "base/times.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static _Noreturn void wait_failed(const char *what)
{
    fprintf(stderr, "not within %d s: %s\n", WAIT_S, what);
    abort();
}

void awaited_init(struct awaited *w)
{
    *w = (struct awaited){ .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
}

void awaited_fini(struct awaited *w)
{
    INVARIANT(pthread_mutex_destroy(&w->lock) == 0);
    INVARIANT(pthread_cond_destroy(&w->changed) == 0);
}

void awaited_tell(struct awaited *w, err why)
{
    INVARIANT(pthread_mutex_lock(&w->lock) == 0);
    INVARIANT(!w->done); /* exactly once */
    w->done = true;
    w->why = why;
    INVARIANT(pthread_cond_broadcast(&w->changed) == 0);
    INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
}

bool awaited_told(struct awaited *w)
{
    INVARIANT(pthread_mutex_lock(&w->lock) == 0);
    bool done = w->done;
    INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
    return done;
}

err awaited_wait(struct awaited *w)
{
    INVARIANT(pthread_mutex_lock(&w->lock) == 0);
    while (!w->done)
        wait_change(&w->changed, &w->lock, "an answer");
    err why = w->why;
    INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
    return why;
}

void wait_change(pthread_cond_t *changed, pthread_mutex_t *lock, const char *what)
{
    struct timespec until;
    INVARIANT(clock_gettime(CLOCK_REALTIME, &until) == 0);
    until.tv_sec += WAIT_S;
    if (pthread_cond_timedwait(changed, lock, &until) != 0)
        wait_failed(what);
}

void wait_pause(int64_t ms)
{
    const struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * NS_PER_MS };
    (void)nanosleep(&t, NULL);
}

void wait_look(int64_t *left_ms, const char *what)
{
    if (--*left_ms < 0)
        wait_failed(what);
    wait_pause(1);
}
