/* job.c - the steps of a job, and its end. Invariant: the one task is on its way, or a store has
 * it, or a step runs that has not asked yet. */
#include "queue/store/job.h"

#include "loop/loop.h"

static void job_over(struct task *t)
{
    struct store_job *j = CONTAINER_OF(t, struct store_job, later.task);
    j->done(j);
}

static void job_step(struct task *t)
{
    struct store_job *j = CONTAINER_OF(t, struct store_job, later.task);
    if (j->step(j))
        return; /* not ours any more */
    t->run = job_over;
    home_post(loop_home(j->loop), t);
}

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

bool store_job_run(struct loop *l, struct store_job *j)
{
    job_begin(l, j);
    return j->step(j);
}
