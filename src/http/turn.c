/* turn.c - what wakes a deferred exchange: its tasks, of which its answer is one.
 *
 * While an exchange is deferred the library does not call its handler. A task that is posted to it
 * has the library call once more, on the worker that owns the connection: that is a turn. In a turn
 * all tasks run that are there, also those that come meanwhile; it ends with the answer, or asleep
 * again.
 *
 * Invariants
 *  1. tasks is NULL while the exchange sleeps: who posts then asks for a turn. In a turn the list
 * ends with a mark, the exchange itself, which is no task: who posts then asks for nothing.
 *  2. The connection is suspended before tasks becomes NULL: no turn is asked for too early.
 *  3. Nobody but the worker touches x after its task is in the list of a turn: x may be over.
 *
 * When the client has left the library may end the request instead of calling its handler. Its
 * tasks run then; is it not answered even so, it goes on as an orphan: its memory stays without a
 * connection, and its turns are tasks of the loop. */
#include "http/exchange.h"
#include "http/gone.h"
#include "http/server.h"
#include "loop/loop.h"

static void turn_resume(struct http_server *s, struct http_exchange *x)
{
    x->resumed = true;
    MHD_resume_connection(x->mhd); /* x may be gone from here on, or asleep again */
    INVARIANT(atomic_fetch_sub(&s->deferred, 1) > 0);
}

/* The library sees to all that are resumed before it looks at a socket again: thousands that waited
 * for one answer would hold up everybody else. */
static void turn_ask(struct http_exchange *x)
{
    struct http_server *s = x->conn->server;
    if (x->orphan) {
        home_post(s->loop == NULL ? home_here() : loop_home(s->loop), &x->turn);
        return;
    }
    INVARIANT(pthread_mutex_lock(&s->pace_lock) == 0);
    bool now = s->resumed < HTTP_RESUMED_MAX;
    if (now) {
        s->resumed++;
    } else {
        *(s->paced_first == NULL ? &s->paced_first : &s->paced_last->next_paced) = x;
        s->paced_last = x;
    }
    INVARIANT(pthread_mutex_unlock(&s->pace_lock) == 0);
    if (now)
        turn_resume(s, x);
}

void exchange_pace(struct http_exchange *x)
{
    if (!x->resumed)
        return;
    x->resumed = false;
    struct http_server *s = x->conn->server;
    struct http_exchange *first = NULL, **link = &first;
    INVARIANT(pthread_mutex_lock(&s->pace_lock) == 0);
    s->resumed--;
    if (s->resumed <= HTTP_RESUMED_LOW)
        while (s->paced_first != NULL && s->resumed < HTTP_RESUMED_MAX) {
            *link = s->paced_first;
            s->paced_first = (*link)->next_paced;
            link = &(*link)->next_paced;
            s->resumed++;
        }
    *link = NULL;
    INVARIANT(pthread_mutex_unlock(&s->pace_lock) == 0);
    while (first != NULL) {
        struct http_exchange *next = first->next_paced;
        first->next_paced = NULL;
        turn_resume(s, first);
        first = next;
    }
}

/* ---- tasks ---- */

static struct task *turn_mark(struct http_exchange *x)
{
    return (struct task *)(void *)x;
}

static void turn_post(struct home *h, struct task *t)
{
    struct http_exchange *x = CONTAINER_OF(h, struct http_exchange, home);
    struct task *before = atomic_load(&x->tasks);
    do
        t->next = before;
    while (!atomic_compare_exchange_weak(&x->tasks, &before, t));
    if (before == NULL)
        turn_ask(x);
}

/* In order of posting. last: as they stand in the list. */
static void turn_run(struct task *last, const struct task *end)
{
    struct task *first = NULL;
    for (struct task *next; last != end && last != NULL; last = next) {
        next = last->next;
        last->next = first;
        first = last;
    }
    for (struct task *next; first != NULL; first = next) {
        next = first->next; /* its memory may be used anew */
        first->run(first);
    }
}

/* All that are there. True: one of them was the answer; else the list holds the mark alone. */
static bool turn_tasks(struct http_exchange *x)
{
    struct task *mark = turn_mark(x);
    for (struct task *last; (last = atomic_exchange(&x->tasks, mark)) != mark;)
        turn_run(last, mark);
    return x->stored;
}

static void turn_sleep(struct http_exchange *x)
{
    struct task *mark = turn_mark(x);
    if (!atomic_compare_exchange_strong(&x->tasks, &mark, NULL))
        turn_ask(x); /* one came just now */
}

bool exchange_turn(struct http_exchange *x)
{
    exchange_pace(x);
    if (turn_tasks(x))
        return true;
    atomic_fetch_add(&x->conn->server->deferred, 1);
    MHD_suspend_connection(x->mhd);
    turn_sleep(x);
    return false;
}

/* ---- without a connection ---- */

static void orphan_run(struct task *t)
{
    struct http_exchange *x = CONTAINER_OF(t, struct http_exchange, turn);
    struct http_server *s = x->conn->server;
    if (!turn_tasks(x)) {
        turn_sleep(x);
        return;
    }
    exchange_over(x, 0);
    conns_close(x->conn);
    INVARIANT(atomic_fetch_sub(&s->deferred, 1) > 0);
}

bool exchange_orphan(struct http_exchange *x)
{
    struct http_conn *c = x->conn;
    exchange_pace(x);
    if (turn_tasks(x))
        return false;
    atomic_fetch_add(&c->server->deferred, 1);
    atomic_fetch_add(&c->owners, 1);
    if (c->server->gone != NULL)
        gone_forget(c->server->gone, x);
    else
        conn_fd_set(c, -1);
    x->turn.run = orphan_run;
    x->orphan = true;
    turn_sleep(x);
    return true;
}

static void stored_run(struct task *t)
{
    CONTAINER_OF(t, struct http_exchange, answer)->stored = true;
}

void exchange_stored(struct http_exchange *x)
{
    x->answer.run = stored_run;
    home_post(&x->home, &x->answer);
}

void http_defer(struct http_exchange *x)
{
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    INVARIANT(x->stage == STAGE_RUN);
    INVARIANT(!x->deferred);
    INVARIANT(!atomic_load(&x->answered));
    x->deferred = true;
    x->home.post = turn_post;
    atomic_fetch_add(&x->conn->server->deferred, 1);
    MHD_suspend_connection(x->mhd);
}

struct home *http_home(struct http_exchange *x)
{
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    INVARIANT(x->deferred);
    return &x->home;
}
