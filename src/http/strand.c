/* strand.c - one task for the pool stands for all that an exchange has to run there.
 *
 * Invariant: strand_runs exactly while strand_turn is posted or runs, and then the strand holds x.
 */
#include "http/strand.h"

#include "http/server.h"
#include "http/trace.h"

static void strand_lock(struct http_conn *c)
{
    INVARIANT(pthread_mutex_lock(&c->strand_lock) == 0);
}

static void strand_unlock(struct http_conn *c)
{
    INVARIANT(pthread_mutex_unlock(&c->strand_lock) == 0);
}

/* The next; NULL: the strand rests. */
static struct task *strand_next(struct http_exchange *x)
{
    strand_lock(x->conn);
    struct task *t = task_list_take(&x->strand_tasks);
    x->strand_runs = t != NULL;
    strand_unlock(x->conn);
    return t;
}

static void strand_turn(struct task *turn)
{
    struct http_exchange *x = CONTAINER_OF(turn, struct http_exchange, strand_turn);
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    struct check_note before = trace_enter(x);
    for (struct task *t = strand_next(x); t != NULL; t = strand_next(x)) {
        if (t != &x->begin)
            trace_note(x, TRACE_TASK);
        t->run(t); /* may post more, and answer */
    }
    trace_leave(before);
    exchange_release(x);
}

static struct home *strand_pool(const struct http_exchange *x)
{
    const struct http_server *s = x->conn->server;
    const struct http_route *route = x->match.row->route;
    return route->urgent || route->first ? s->pool_first : s->pool;
}

void strand_post(struct http_exchange *x, struct task *t)
{
    strand_lock(x->conn);
    (void)task_list_put(&x->strand_tasks, t);
    bool begins = !x->strand_runs;
    x->strand_runs = true;
    strand_unlock(x->conn);
    if (!begins)
        return;
    INVARIANT(exchange_hold(x));
    x->strand_turn.run = strand_turn;
    home_post(strand_pool(x), &x->strand_turn);
}
