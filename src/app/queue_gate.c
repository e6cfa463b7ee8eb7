/* Invariants: 1. inside[i] <= QUEUE_GATE_SHARE, changes <= 1. 2. no turn in the line has room for all it needs. */
#include "app/queue_gate.h"

#include "base/check.h"
#include "loop/loop.h"

#include <pthread.h>
#include <stdlib.h>

struct queue_gate {
    struct loop *loop;
    pthread_mutex_t lock;
    unsigned inside[QUEUE_GATE_STORES_MAX], changes;
    struct queue_turn *first, **last; /* who waits */
    bool draining;
};

struct queue_gate *queue_gate_new(struct loop *loop)
{
    struct queue_gate *g = calloc(1, sizeof *g);
    INVARIANT(g != NULL);
    g->loop = loop;
    g->last = &g->first;
    INVARIANT(pthread_mutex_init(&g->lock, NULL) == 0);
    return g;
}

void queue_gate_free(struct queue_gate **gp)
{
    struct queue_gate *g = *gp;
    if (g == NULL)
        return;
    INVARIANT(g->first == NULL);
    INVARIANT(g->changes == 0);
    for (unsigned i = 0; i < QUEUE_GATE_STORES_MAX; i++)
        INVARIANT(g->inside[i] == 0);
    INVARIANT(pthread_mutex_destroy(&g->lock) == 0);
    free(g);
    *gp = NULL;
}

static void lock(struct queue_gate *g)
{
    INVARIANT(pthread_mutex_lock(&g->lock) == 0);
}

static void unlock(struct queue_gate *g)
{
    INVARIANT(pthread_mutex_unlock(&g->lock) == 0);
}

/* ---- under the lock ---- */

static bool wants(const struct queue_turn *t, unsigned store)
{
    return (t->need.stores >> store & 1) != 0;
}

/* Takes room for it, if there is room for all of it. */
static bool admit(struct queue_gate *g, const struct queue_turn *t)
{
    bool room = !t->need.change || g->changes == 0;
    for (unsigned i = 0; i < QUEUE_GATE_STORES_MAX; i++)
        room = room && (!wants(t, i) || g->inside[i] < QUEUE_GATE_SHARE);
    if (!room)
        return false;
    g->changes += t->need.change;
    for (unsigned i = 0; i < QUEUE_GATE_STORES_MAX; i++)
        g->inside[i] += wants(t, i);
    return true;
}

/* The turn that at points to, out of the line. */
static void unlink_at(struct queue_gate *g, struct queue_turn **at)
{
    struct queue_turn *t = *at;
    *at = t->next;
    if (g->last == &t->next)
        g->last = at;
    t->next = NULL;
    t->waiting = false;
}

/* Those that have room now, in order, as a list of their own. */
static struct queue_turn *admit_waiting(struct queue_gate *g)
{
    struct queue_turn *list = NULL, **end = &list;
    for (struct queue_turn **at = &g->first; *at != NULL;) {
        struct queue_turn *t = *at;
        if (!admit(g, t)) {
            at = &t->next;
            continue;
        }
        unlink_at(g, at);
        *end = t;
        end = &t->next;
    }
    return list;
}

/* ---- */

void queue_gate_enter(struct queue_gate *g, struct queue_turn *t)
{
    t->next = NULL;
    lock(g);
    bool refused = g->draining, now = !refused && admit(g, t);
    t->waiting = !refused && !now;
    if (t->waiting) {
        *g->last = t;
        g->last = &t->next;
    }
    unlock(g);
    if (now)
        loop_job_start(g->loop, t->job);
    else if (refused)
        t->refused(t);
}

void queue_gate_leave(struct queue_gate *g, const struct queue_turn *t)
{
    lock(g);
    INVARIANT(!t->need.change || g->changes == 1);
    g->changes -= t->need.change;
    for (unsigned i = 0; i < QUEUE_GATE_STORES_MAX; i++) {
        INVARIANT(!wants(t, i) || g->inside[i] > 0);
        g->inside[i] -= wants(t, i);
    }
    struct queue_turn *next = admit_waiting(g);
    unlock(g);
    while (next != NULL) {
        struct queue_turn *one = next; /* not ours once it is started */
        next = one->next;
        loop_job_start(g->loop, one->job);
    }
}

bool queue_gate_quit(struct queue_gate *g, struct queue_turn *t)
{
    lock(g);
    bool waited = t->waiting;
    struct queue_turn **at = &g->first;
    while (waited && *at != t)
        at = &(*at)->next;
    if (waited)
        unlink_at(g, at);
    unlock(g);
    return waited;
}

void queue_gate_drain(struct queue_gate *g)
{
    lock(g);
    g->draining = true;
    struct queue_turn *next = g->first;
    for (struct queue_turn *t = next; t != NULL; t = t->next)
        t->waiting = false;
    g->first = NULL;
    g->last = &g->first;
    unlock(g);
    while (next != NULL) {
        struct queue_turn *one = next;
        next = one->next;
        one->refused(one);
    }
}
