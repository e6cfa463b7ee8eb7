#include "pg_wait.h"

#include "loop/loop.h"
#include "pg/conn.h"

#include <pthread.h>

/* One call. Invariant: who brings the outcome touches it no more once the lock is free. */
struct call {
    struct task task;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool over;
};

static void call_over(struct call *w)
{
    INVARIANT(pthread_mutex_lock(&w->lock) == 0);
    w->over = true;
    (void)pthread_cond_broadcast(&w->changed);
    INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
}

/* Runs it on the loop, and returns when call_over was called. */
static void call_run(struct call *w, struct loop *loop, void (*run)(struct task *t))
{
    *w = (struct call){ .task = { .run = run } };
    INVARIANT(pthread_mutex_init(&w->lock, NULL) == 0);
    INVARIANT(pthread_cond_init(&w->changed, NULL) == 0);
    home_post(loop_home(loop), &w->task);
    INVARIANT(pthread_mutex_lock(&w->lock) == 0);
    while (!w->over)
        (void)pthread_cond_wait(&w->changed, &w->lock);
    INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
    (void)pthread_mutex_destroy(&w->lock);
    (void)pthread_cond_destroy(&w->changed);
}

struct open_call {
    struct call call;
    struct pg_opening opening;
    err why;
};

static void opened(struct pg_opening *o, err why)
{
    struct open_call *w = CONTAINER_OF(o, struct open_call, opening);
    w->why = why;
    call_over(&w->call);
}

static void open_run(struct task *t)
{
    pg_opening_start(&CONTAINER_OF(t, struct open_call, call.task)->opening);
}

err pg_open(const struct pg_opts *opts, mono deadline, struct pg **out, struct err_note *note)
{
    err why = pg_url_check(opts->url, note);
    if (why != ERR_OK)
        return why;
    struct open_call w = { .opening = { .opts = *opts, .deadline = deadline, .done = opened } };
    call_run(&w.call, opts->loop, open_run);
    if (w.why == ERR_OK)
        *out = w.opening.conn;
    else
        err_note_set(note, "%s", w.opening.note.text);
    return w.why;
}

struct run_call {
    struct call call;
    struct pg *conn;
    struct pg_unit unit;
};

static void ran(struct pg_unit *u)
{
    call_over(&CONTAINER_OF(u, struct run_call, unit)->call);
}

static void run_run(struct task *t)
{
    struct run_call *w = CONTAINER_OF(t, struct run_call, call.task);
    pg_start(w->conn, &w->unit);
}

void pg_run(struct pg *c, const struct pg_statement *list, unsigned count, mono deadline,
            struct pg_rows **rows, struct pg_outcome *out)
{
    struct run_call w = {
        .conn = c,
        .unit = { .list = list, .count = count, .deadline = deadline, .rows = rows, .done = ran }
    };
    for (unsigned i = 0; rows != NULL && i < count; i++)
        rows[i] = NULL;
    call_run(&w.call, c->loop, run_run);
    *out = w.unit.out;
}

void pg_run_one(struct pg *c, const char *sql, const struct pg_params *params, mono deadline,
                struct pg_rows **rows, struct pg_outcome *out)
{
    struct pg_statement one = { .sql = sql, .params = params };
    pg_run(c, &one, 1, deadline, rows, out);
}

struct close_call {
    struct call call;
    struct pg **conn;
};

static void close_run(struct task *t)
{
    struct close_call *w = CONTAINER_OF(t, struct close_call, call.task);
    pg_close(w->conn);
    call_over(&w->call);
}

void pg_close_wait(struct pg **cp)
{
    struct close_call w = { .conn = cp };
    if (*cp != NULL)
        call_run(&w.call, (*cp)->loop, close_run);
}
