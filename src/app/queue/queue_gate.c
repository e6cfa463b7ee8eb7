/* Invariants: 1. each turn is of one share, inside[i] <= share_max(i). 2. no turn in the line has
 * room in its share. */
#include "app/queue/queue_gate.h"

#include "base/check.h"
#include "loop/loop.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

/* Shares: one for each store by its index, then these. */
enum { SHARE_SEVERAL = QUEUE_GATE_STORES_MAX, SHARE_CHANGE, SHARE_NOTHING, SHARES };

struct queue_gate {
    struct loop *loop;
    pthread_mutex_t lock;
    unsigned inside[SHARES];
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
    for (unsigned i = 0; i < SHARES; i++)
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

static unsigned share_of(struct queue_need need)
{
    INVARIANT(!need.change || need.stores == 0);
    if (need.change)
        return SHARE_CHANGE;
    if (need.stores == 0)
        return SHARE_NOTHING;
    if ((need.stores & (need.stores - 1)) != 0)
        return SHARE_SEVERAL;
    return (unsigned)__builtin_ctzll(need.stores);
}

static unsigned share_max(unsigned share)
{
    return share == SHARE_NOTHING ? UINT_MAX : share == SHARE_CHANGE ? 1 : QUEUE_GATE_SHARE;
}

/* ---- under the lock ---- */

/* Takes a place of its share, if there is one. */
static bool admit(struct queue_gate *g, const struct queue_turn *t)
{
    unsigned share = share_of(t->need);
    if (g->inside[share] == share_max(share))
        return false;
    g->inside[share]++;
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

/* Out of the line: those that waited too long into late, those that have room now into admitted, in
 * order. */
static void advance(struct queue_gate *g, mono now, struct queue_turn **admitted,
                    struct queue_turn **late)
{
    for (struct queue_turn **at = &g->first; *at != NULL;) {
        struct queue_turn *t = *at, ***end = now.ns >= t->deadline.ns ? &late
                                             : admit(g, t)            ? &admitted
                                                                      : NULL;
        if (end == NULL) {
            at = &t->next;
            continue;
        }
        unlink_at(g, at);
        **end = t;
        *end = &t->next;
    }
}

static void refuse_all(struct queue_turn *list, err why)
{
    while (list != NULL) {
        struct queue_turn *one = list; /* not ours once it is refused */
        list = one->next;
        one->refused(one, why);
    }
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
        t->refused(t, ERR_SHUTDOWN);
}

void queue_gate_leave(struct queue_gate *g, const struct queue_turn *t, mono now)
{
    unsigned share = share_of(t->need);
    struct queue_turn *next = NULL, *late = NULL;
    lock(g);
    INVARIANT(g->inside[share] > 0);
    g->inside[share]--;
    advance(g, now, &next, &late);
    unlock(g);
    while (next != NULL) {
        struct queue_turn *one = next; /* not ours once it is started */
        next = one->next;
        loop_job_start(g->loop, one->job);
    }
    refuse_all(late, ERR_LIMIT);
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
    refuse_all(next, ERR_SHUTDOWN);
}
