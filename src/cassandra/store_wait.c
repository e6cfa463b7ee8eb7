/* store_wait.c - a request that its caller waits for: on a pool thread, or on the loop's while the
 * server starts, which then runs the loop: it carries the request out. It ends within WAIT_MS, so
 * the waiting does, too. done runs on the thread that ended the request, for the pool's may all be
 * waiting. */
#include "cassandra/store_impl.h"

#include <semaphore.h>
#include <string.h>

enum { WAIT_MS = 10000 };

struct note_wait {
    struct cassandra_note_get get;
    sem_t sem;
    atomic_bool over;
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
