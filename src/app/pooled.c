/* pooled.c - a request goes to the pool, and comes back to its home. */
#include "app/pooled.h"

#include "app/errors.h"
#include "loop/loop.h"

void *pooled_new(struct http_exchange *x, struct app *app, size_t size)
{
    if (http_draining(x)) {
        app_fail(x, ERR_SHUTDOWN, NULL);
        return NULL;
    }
    struct pooled *p = app_new(x, size);
    if (p != NULL)
        *p = (struct pooled){ .x = x, .app = app };
    return p;
}

static void pooled_answer(struct task *t)
{
    struct pooled *p = CONTAINER_OF(t, struct pooled, task);
    p->answer(p);
}

static void pooled_run(struct task *t)
{
    struct pooled *p = CONTAINER_OF(t, struct pooled, task);
    p->run(p);
    p->task.run = pooled_answer;
    home_post(p->home, &p->task);
}

void pooled_start(struct pooled *p, void (*run)(struct pooled *p), void (*answer)(struct pooled *p))
{
    p->home = http_home(p->x);
    http_defer(p->x);
    pooled_again(p, run, answer);
}

void pooled_again(struct pooled *p, void (*run)(struct pooled *p), void (*answer)(struct pooled *p))
{
    p->run = run;
    p->answer = answer;
    p->task.run = pooled_run;
    home_post(loop_pool(p->app->loop), &p->task);
}

void pooled_here(struct pooled *p, void (*run)(struct pooled *p), void (*answer)(struct pooled *p))
{
    p->home = http_home(p->x);
    http_defer(p->x);
    run(p);
    answer(p);
}
