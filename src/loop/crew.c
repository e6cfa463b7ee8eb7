/* crew.c - two lists of tasks under a lock, and threads that take from them.
 *
 * Invariant: resting counts the threads that wait; a post wakes one of them, if there is one. */
#include "loop/crew.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CREW_MAGIC 0xc4e3c4e3u
enum { CREW_NAME_BYTES = 16 };

struct crew_line {
    struct home home;
    struct crew *crew;
    struct task_list tasks; /* under the crew's lock */
};

struct crew {
    uint32_t magic;
    struct crew_line first, common;
    pthread_mutex_t lock; /* of what follows, but for threads */
    pthread_cond_t posted;
    unsigned first_in_row; /* so many of first were taken since one of common */
    unsigned resting;
    bool stopping;
    unsigned threads_count;
    pthread_t threads[];
};

static void crew_lock(struct crew *c)
{
    INVARIANT(pthread_mutex_lock(&c->lock) == 0);
}

static void crew_unlock(struct crew *c)
{
    INVARIANT(pthread_mutex_unlock(&c->lock) == 0);
}

static void crew_post(struct home *h, struct task *t)
{
    struct crew_line *line = CONTAINER_OF(h, struct crew_line, home);
    struct crew *c = line->crew;
    MAGIC_CHECK(c, CREW_MAGIC);
    crew_lock(c);
    (void)task_list_put(&line->tasks, t);
    if (c->resting > 0) /* under the lock: the task may be the last, and the crew end after it */
        INVARIANT(pthread_cond_signal(&c->posted) == 0);
    crew_unlock(c);
}

/* Under the lock. NULL: there is none. */
static struct task *crew_next(struct crew *c)
{
    bool common = c->first_in_row >= CREW_FIRST_MAX && c->common.tasks.first != NULL;
    struct task *t = common ? NULL : task_list_take(&c->first.tasks);
    c->first_in_row = t != NULL ? c->first_in_row + 1 : 0;
    return t != NULL ? t : task_list_take(&c->common.tasks);
}

/* Under the lock. NULL: it is over. */
static struct task *crew_take(struct crew *c)
{
    struct task *t = crew_next(c);
    while (t == NULL && !c->stopping) {
        c->resting++;
        INVARIANT(pthread_cond_wait(&c->posted, &c->lock) == 0);
        c->resting--;
        t = crew_next(c);
    }
    return t;
}

static void *crew_run(void *crew)
{
    struct crew *c = crew;
    MAGIC_CHECK(c, CREW_MAGIC);
    crew_lock(c);
    for (struct task *t = crew_take(c); t != NULL; t = crew_take(c)) {
        crew_unlock(c);
        t->run(t);
        crew_lock(c);
    }
    crew_unlock(c);
    return NULL;
}

struct crew *crew_new(unsigned threads, const char *name)
{
    struct crew *c = calloc(1, sizeof *c + threads * sizeof c->threads[0]);
    INVARIANT(c != NULL);
    const struct crew_line line = { .home = { .post = crew_post }, .crew = c };
    *c = (struct crew){ .magic = CREW_MAGIC, .first = line, .common = line };
    INVARIANT(pthread_mutex_init(&c->lock, NULL) == 0);
    INVARIANT(pthread_cond_init(&c->posted, NULL) == 0);
    for (; c->threads_count < threads; c->threads_count++) {
        char full[CREW_NAME_BYTES];
        pthread_t *t = &c->threads[c->threads_count];
        if (pthread_create(t, NULL, crew_run, c) != 0) {
            crew_free(&c);
            return NULL;
        }
        (void)snprintf(full, sizeof full, "%s-%u", name, c->threads_count);
        (void)pthread_setname_np(*t, full); /* for who looks at threads, no more */
    }
    return c;
}

void crew_free(struct crew **cp)
{
    struct crew *c = *cp;
    if (c == NULL)
        return;
    MAGIC_CHECK(c, CREW_MAGIC);
    crew_lock(c);
    c->stopping = true;
    crew_unlock(c);
    INVARIANT(pthread_cond_broadcast(&c->posted) == 0);
    for (unsigned i = 0; i < c->threads_count; i++)
        INVARIANT(pthread_join(c->threads[i], NULL) == 0);
    INVARIANT(pthread_cond_destroy(&c->posted) == 0);
    INVARIANT(pthread_mutex_destroy(&c->lock) == 0);
    c->magic = 0;
    free(c);
    *cp = NULL;
}

struct home *crew_home(struct crew *c)
{
    MAGIC_CHECK(c, CREW_MAGIC);
    return &c->common.home;
}

struct home *crew_home_first(struct crew *c)
{
    MAGIC_CHECK(c, CREW_MAGIC);
    return &c->first.home;
}
