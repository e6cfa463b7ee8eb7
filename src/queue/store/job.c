/* job.c - the steps of a job, and its end, for all that asks stores (job.h). Invariant: the one
 * task is on its way, or a store has it, or a step runs that has not asked yet. */
#include "queue/store/job.h"

#include "loop/loop.h"
#include "queue/lease/wait.h"

/* Loop: the last that the job's machinery does with j; done may free it. */
static void job_over(struct task *t)
{
    struct store_job *j = CONTAINER_OF(t, struct store_job, later.task);
    j->done(j);
}

/* Pool: a step that was posted, or whose store has answered. */
static void job_step(struct task *t)
{
    struct store_job *j = CONTAINER_OF(t, struct store_job, later.task);
    if (j->step(j))
        return; /* not ours any more */
    t->run = job_over;
    home_post(loop_home(j->loop), t);
}

/* later is the store's way back: its task posts the next step to the pool. */
static void job_begin(struct loop *l, struct store_job *j)
{
    j->loop = l;
    j->waits = false;
    j->later = (struct queue_later){ .home = loop_pool(l), .task = { .run = job_step } };
}

void store_job_start(struct loop *l, struct store_job *j)
{
    job_begin(l, j);
    home_post(loop_pool(l), &j->later.task);
}

/* The first step runs on the calling thread, which may block. When it returns false nothing was
 * posted. */
bool store_job_run(struct loop *l, struct store_job *j)
{
    job_begin(l, j);
    return j->step(j);
}

/* Call after call, until one is answered later or none is due. */
static bool told_step(struct store_job *job)
{
    struct told_job *j = CONTAINER_OF(job, struct told_job, job);
    err why = job->later.why;
    bool told = store_job_told(job);
    while (told || j->due(j)) {
        if (!told) {
            why = j->ask(j);
            if (store_job_waits(job, why))
                return true;
        }
        /* taken once: the loop goes on with the next call. */
        told = false;
        j->take(j, why);
    }
    return false;
}

/* Loop. end frees j, so later is read before. */
static void told_done(struct store_job *job)
{
    struct told_job *j = CONTAINER_OF(job, struct told_job, job);
    struct queue_later *later = j->later;
    later->why = j->end(j);
    home_post(later->home, &later->task);
}

/* Without a later the caller waits here. The first call is made on this thread in both cases. */
err told_job_run(struct loop *l, struct told_job *j, struct queue_later *later)
{
    struct wait_later blocked;
    j->job = (struct store_job){ .step = told_step, .done = told_done };
    j->later = later != NULL ? later : wait_later_begin(&blocked);
    err why = store_job_run(l, &j->job) ? ERR_AGAIN : j->end(j);
    return later != NULL ? why : wait_later_outcome(&blocked, why);
}
