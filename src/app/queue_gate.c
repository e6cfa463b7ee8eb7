#include "app/queue_gate.h"

#include "base/check.h"
#include "loop/loop.h"

#include <pthread.h>
#include <stdlib.h>

struct queue_gate {
    struct loop *loop;
    pthread_mutex_t lock;
    unsigned inside, inside_max;
    struct queue_turn *first, **last; /* who waits */
};

struct queue_gate *queue_gate_new(struct loop *loop, unsigned threads)
{
    struct queue_gate *g = calloc(1, sizeof *g);
    INVARIANT(g != NULL);
    g->loop = loop;
    g->inside_max = threads < 2 ? 1 : threads / 2;
    g->last = &g->first;
    INVARIANT(pthread_mutex_init(&g->lock, NULL) == 0);
    return g;
}

void queue_gate_free(struct queue_gate **gp)
{
    if (*gp == NULL)
        return;
    INVARIANT((*gp)->inside == 0);
    INVARIANT(pthread_mutex_destroy(&(*gp)->lock) == 0);
    free(*gp);
    *gp = NULL;
}

void queue_gate_enter(struct queue_gate *g, struct queue_turn *t, struct loop_job *job)
{
    *t = (struct queue_turn){ .job = job };
    INVARIANT(pthread_mutex_lock(&g->lock) == 0);
    bool now = g->inside < g->inside_max;
    if (now) {
        g->inside++;
    } else {
        *g->last = t;
        g->last = &t->next;
    }
    INVARIANT(pthread_mutex_unlock(&g->lock) == 0);
    if (now)
        loop_job_start(g->loop, job);
}

void queue_gate_leave(struct queue_gate *g)
{
    INVARIANT(pthread_mutex_lock(&g->lock) == 0);
    struct queue_turn *next = g->first;
    if (next == NULL) {
        INVARIANT(g->inside > 0);
        g->inside--;
    } else {
        g->first = next->next;
        if (g->first == NULL)
            g->last = &g->first;
    }
    INVARIANT(pthread_mutex_unlock(&g->lock) == 0);
    if (next != NULL)
        loop_job_start(g->loop, next->job);
}
