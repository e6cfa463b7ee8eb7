/* wait.c - a thread that waits, and runs meanwhile what is posted to it. Invariant: who brings the
 * last outcome touches the waiter no more once the lock is free. */
#include "queue/lease/wait.h"

/* Thread: any. The broadcast comes inside the lock, as in waiter_done. */
static void waiter_post(struct home *h, struct task *t)
{
    struct waiter *w = CONTAINER_OF(h, struct waiter, home);
    INVARIANT(pthread_mutex_lock(&w->lock) == 0);
    (void)task_list_put(&w->tasks, t);
    (void)pthread_cond_broadcast(&w->changed);
    INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
}

void waiter_init(struct waiter *w)
{
    *w = (struct waiter){ .home = { .post = waiter_post }, .worst = ERR_OK };
    INVARIANT(pthread_mutex_init(&w->lock, NULL) == 0);
    INVARIANT(pthread_cond_init(&w->changed, NULL) == 0);
}

void waiter_fini(struct waiter *w)
{
    INVARIANT(w->left == 0);
    INVARIANT(w->tasks.first == NULL);
    (void)pthread_mutex_destroy(&w->lock);
    (void)pthread_cond_destroy(&w->changed);
}

void waiter_expect(struct waiter *w)
{
    INVARIANT(pthread_mutex_lock(&w->lock) == 0);
    w->left++;
    INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
}

void waiter_done(struct waiter *w, err why, unsigned items)
{
    INVARIANT(pthread_mutex_lock(&w->lock) == 0);
    INVARIANT(w->left > 0);
    w->left--;
    w->good += why == ERR_OK ? items : 0;
    /* The last error counts, not the first. */
    w->worst = why == ERR_OK ? w->worst : why;
    (void)pthread_cond_broadcast(
        &w->changed); /* inside: who waits may free w as soon as it has the lock */
    INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
}

err waiter_wait(struct waiter *w)
{
    /* The tasks of this home run here, so that a caller who blocks needs no loop of its own. */
    INVARIANT(pthread_mutex_lock(&w->lock) == 0);
    while (w->left > 0) {
        struct task *t = task_list_take(&w->tasks);
        if (t == NULL) {
            (void)pthread_cond_wait(&w->changed, &w->lock);
            continue;
        }
        /* A task may take other locks, or post to this home. */
        INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
        t->run(t);
        INVARIANT(pthread_mutex_lock(&w->lock) == 0);
    }
    err why = w->worst;
    INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
    return why;
}

static void later_over(struct task *t)
{
    struct wait_later *w = CONTAINER_OF(t, struct wait_later, later.task);
    waiter_done(&w->waiter, w->later.why, 0);
}

struct queue_later *wait_later_begin(struct wait_later *w)
{
    waiter_init(&w->waiter);
    waiter_expect(&w->waiter);
    w->later = (struct queue_later){ .home = &w->waiter.home, .task.run = later_over };
    return &w->later;
}

err wait_later_outcome(struct wait_later *w, err returned)
{
    if (returned != ERR_AGAIN)
        waiter_done(&w->waiter, returned, 0); /* nobody else does */
    err why = waiter_wait(&w->waiter);
    waiter_fini(&w->waiter);
    return why;
}
