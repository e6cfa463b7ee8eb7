/* job.h - work that asks stores, and holds no thread while one of them answers later. Private to
 * queue.
 *
 * A job goes in steps, on threads of the pool. A step that starts a call with the job's later
 * (later.h) and gets ERR_AGAIN returns true, and touches the job no more: the next step may be
 * under way. It begins when the store has answered, and finds the outcome in later.why. The job
 * lives until done, or until store_job_run has returned false. */
#ifndef QUEUE_STORE_JOB_H
#define QUEUE_STORE_JOB_H

#include "queue/later.h"

struct loop;

/* Embedding: CONTAINER_OF. */
struct store_job {
    bool (*step)(struct store_job *j); /* pool; false: it is over */
    void (*done)(struct store_job *j); /* loop */
    /* the job's own */
    struct loop *loop;
    struct queue_later later;
    bool waits; /* for step: the next step takes an outcome */
};
/* Thread: any. step and done are set, the rest is zero. */
void store_job_start(struct loop *l, struct store_job *j);
/* The same with its first step on the calling thread. False: it is over, and done is not called. */
MUST_CHECK bool store_job_run(struct loop *l, struct store_job *j);

/* A step asks a store like this:
 *     err why = ask(..., store_job_ask(j));
 *     if (store_job_waits(j, why))
 *         return true;
 * Then the store answers later, and the next step takes later.why. */
static inline struct queue_later *store_job_ask(struct store_job *j)
{
    j->waits = true;
    return &j->later;
}
static inline bool store_job_waits(struct store_job *j, err why)
{
    if (why != ERR_AGAIN)
        j->waits = false;
    return why == ERR_AGAIN;
}
/* First in a step: did a store answer since the last step? Then later.why has what it said. */
static inline bool store_job_told(struct store_job *j)
{
    bool told = j->waits;
    j->waits = false;
    return told;
}

/* A job made for a caller who is told of it (later.h): call after call of stores. Embedding:
 * CONTAINER_OF. All on threads of the pool but end, and a first step on the calling thread. */
struct told_job {
    bool (*due)(struct told_job *j);           /* is there another call to make? */
    err (*ask)(struct told_job *j);            /* makes it, with store_job_ask(&j->job) */
    void (*take)(struct told_job *j, err why); /* what the call came to */
    err (*end)(struct told_job *j);            /* what all came to; j is gone. Caller's, or loop */
    /* the job's own */
    struct store_job job;
    struct queue_later *later;
};
/* later NULL: waits here, and does not return ERR_AGAIN. */
MUST_CHECK err told_job_run(struct loop *l, struct told_job *j, struct queue_later *later);

#endif
