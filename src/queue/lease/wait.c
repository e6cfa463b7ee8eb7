#include "queue/lease/wait.h"

void waiter_init(struct waiter *w)
{
    *w = (struct waiter){ .worst = ERR_OK };
    INVARIANT(pthread_mutex_init(&w->lock, NULL) == 0);
    INVARIANT(pthread_cond_init(&w->changed, NULL) == 0);
}

void waiter_fini(struct waiter *w)
{
    INVARIANT(w->left == 0);
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
    w->worst = why == ERR_OK ? w->worst : why;
    (void)pthread_cond_broadcast(
        &w->changed); /* inside: who waits may free w as soon as it has the lock */
    INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
}

err waiter_wait(struct waiter *w)
{
    INVARIANT(pthread_mutex_lock(&w->lock) == 0);
    while (w->left > 0)
        (void)pthread_cond_wait(&w->changed, &w->lock);
    err why = w->worst;
    INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
    return why;
}
