/* store_wait.c - requests that their callers wait for: pool threads, never the loop, which carries
 * them out. Each ends by WAIT_MS, so the waiting does, too; done runs on the thread that ended it,
 * for the pool's may all be waiting. */
#include "cassandra/store_impl.h"

#include <semaphore.h>
#include <string.h>

enum { WAIT_MS = 10000 };

struct wait {
    sem_t over;
};

static void wait_over(struct store_call *c)
{
    struct wait *w = c->own;
    INVARIANT(sem_post(&w->over) == 0);
}

static struct store_call wait_call(const struct cassandra_store *s, struct wait *w)
{
    INVARIANT(sem_init(&w->over, 0, 0) == 0);
    return (struct store_call){ .deadline = mono_add_ms(clock_mono(s->opts.clock), WAIT_MS),
                                .home = home_here(),
                                .done = wait_over,
                                .own = w };
}

static err wait_for(struct wait *w, enum store_start start, const struct store_call *c)
{
    while (start == STORE_LATER && sem_wait(&w->over) != 0)
        ; /* a signal came */
    INVARIANT(sem_destroy(&w->over) == 0);
    return c->why;
}

err store_wait_note(struct cassandra_store *s, uint32_t domain, enum page_note note, char *out,
                    size_t *n)
{
    struct wait w;
    err e = store_gate_enter(s, false, NULL);
    if (e != ERR_OK)
        return e;
    struct cassandra_note_get g = { .call = wait_call(s, &w), .domain = domain, .note = note };
    e = wait_for(&w, store_gate_leave(s, cassandra_pages_note_get(s->pages, &g)), &g.call);
    if (e == ERR_OK)
        memcpy(out, g.bytes, g.n);
    if (e == ERR_OK)
        *n = g.n;
    return e;
}
