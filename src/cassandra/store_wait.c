/* store_wait.c - a note of a domain, read while its caller waits (page_store_note_get). The caller
 * is a pool thread, or the loop's own thread while the server starts.
 *
 * The loop carries the request out. So a caller on the loop's thread runs the loop meanwhile
 * (opts.turn). The request ends within WAIT_MS, so the waiting does, too. Its done runs on the
 * thread that ended the request: all threads of the pool may be waiting. */
#include "cassandra/store_impl.h"

#include <semaphore.h>
#include <string.h>

enum { WAIT_MS = 10000 };

/* One waiting, on the stack of the caller. */
struct note_wait {
    struct cassandra_note_get get;
    sem_t sem;
    atomic_bool over; /* for opts.turn, which looks at it between turns of the loop */
};

static void note_got(struct store_call *c)
{
    struct cassandra_note_get *get = CONTAINER_OF(c, struct cassandra_note_get, call);
    struct note_wait *w = CONTAINER_OF(get, struct note_wait, get);
    atomic_store(&w->over, true);
    INVARIANT(sem_post(&w->sem) == 0); /* the last thing: w may be gone then */
}

err store_wait_note(struct cassandra_store *s, uint32_t domain, enum page_note note, char *out,
                    size_t *n)
{
    err e = store_gate_enter(s, false, NULL);
    if (e != ERR_OK)
        return e;
    struct note_wait w = {
        .get = { .call = { .deadline = mono_add_ms(clock_mono(s->opts.clock), WAIT_MS),
                           .home = home_here(),
                           .done = note_got },
                 .domain = domain,
                 .note = note },
    };
    INVARIANT(sem_init(&w.sem, 0, 0) == 0);
    enum store_start start = store_gate_leave(s, cassandra_pages_note_get(s->pages, &w.get));
    if (start == STORE_LATER && s->opts.turn != NULL)
        (void)s->opts.turn(s->opts.ctx, &w.over); /* the semaphore tells in either case */
    while (start == STORE_LATER && sem_wait(&w.sem) != 0)
        ; /* a signal came */
    INVARIANT(sem_destroy(&w.sem) == 0);
    e = w.get.call.why;
    if (e == ERR_OK)
        memcpy(out, w.get.bytes, w.get.n);
    if (e == ERR_OK)
        *n = w.get.n;
    return e;
}
