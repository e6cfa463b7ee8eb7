/* home.h - tasks, and homes: where a task runs.
 *
 * Model. Whoever waits for something embeds a task in its request and names a home. What finishes
 * elsewhere (a committer, a pool thread, a client library) posts the task to that home and is done
 * with the request: the work goes on where it belongs. Posting never blocks for long, never fails
 * and needs no memory, because the task is the poster's. A home runs what was posted in order of
 * posting. A task is posted once, and again only after it has run.
 *
 * Homes: loop_home and loop_pool (loop/loop.h), http_home (http/http.h), home_here. */
#ifndef BASE_HOME_H
#define BASE_HOME_H

#include <stdbool.h>
#include <stddef.h>

struct home;

struct task {
    void (*run)(struct task *t); /* may free t */
    /* the home's, from home_post until run */
    struct task *next;
    struct home *home;
};

struct home {
    /* Takes the task; runs it, or has it run, on this home's thread. Thread: any. */
    void (*post)(struct home *h, struct task *t);
};

static inline void home_post(struct home *h, struct task *t)
{
    t->home = h;
    h->post(h, t);
}

/* The poster's own thread: the task runs inside home_post. For tests, and for callers without a
 * thread of their own. Static. */
struct home *home_here(void);

/* Tasks in order of posting. Not locked: the owner's lock, if any. */
struct task_list {
    struct task *first, *last;
};
/* True: the list was empty. */
static inline bool task_list_put(struct task_list *l, struct task *t)
{
    bool was_empty = l->first == NULL;
    t->next = NULL;
    if (was_empty)
        l->first = t;
    else
        l->last->next = t;
    l->last = t;
    return was_empty;
}
/* The first; NULL: there is none. */
static inline struct task *task_list_take(struct task_list *l)
{
    struct task *t = l->first;
    if (t != NULL)
        l->first = t->next;
    return t;
}

#endif
