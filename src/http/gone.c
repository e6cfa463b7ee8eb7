/* gone.c - from a worker that sees a client leave to the handler that asked, by way of the loop.
 *
 * Invariant: from POSTED until the task has run the exchange is held. */
#include "http/gone.h"

#include "http/server.h"
#include "http/trace.h"
#include "loop/loop.h"

static bool state_move(struct http_exchange *x, int from, int to)
{
    return atomic_compare_exchange_strong(&x->gone_state, &from, to);
}

static void gone_tell(struct task *t)
{
    struct http_exchange *x = CONTAINER_OF(t, struct http_exchange, gone_task);
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    if (state_move(x, GONE_POSTED, GONE_TELLING)) {
        struct check_note before = trace_enter(x);
        trace_note(x, TRACE_GONE);
        x->gone(x, x->gone_ctx);
        trace_leave(before);
        (void)state_move(x, GONE_TELLING, GONE_OVER); /* or it was answered meanwhile */
    }
    exchange_release(x);
}

/* Is there somebody to tell, and its client left? Not inside a handler, or a task of x's home. */
static void gone_look(struct http_exchange *x)
{
    if (!atomic_load(&x->conn->left) || atomic_load(&x->gone_state) != GONE_ASKED ||
        !exchange_hold(x))
        return;
    if (!state_move(x, GONE_ASKED, GONE_POSTED)) {
        exchange_release(x);
        return;
    }
    x->gone_task.run = gone_tell;
    home_post(loop_home(x->conn->server->loop), &x->gone_task);
}

static void left_run(struct task *t)
{
    gone_look(CONTAINER_OF(t, struct http_exchange, left_task));
}

static void asked_run(struct task *t)
{
    gone_look(CONTAINER_OF(t, struct http_exchange, asked_task));
}

void gone_asked(struct http_exchange *x)
{
    atomic_store(&x->gone_state, GONE_ASKED);
    if (!atomic_load(&x->conn->left)) /* the worker sets that first, and then looks at the state */
        return;
    x->asked_task.run = asked_run;
    exchange_post(x, &x->asked_task);
}

void gone_left(struct http_exchange *x)
{
    if (!x->pooled) {
        gone_look(x);
        return;
    }
    if (!exchange_hold(x))
        return;
    x->left_task.run = left_run;
    exchange_post(x, &x->left_task); /* a handler may be at work now: behind it */
    exchange_release(x);
}

void gone_end(struct http_exchange *x)
{
    (void)atomic_exchange(&x->gone_state, GONE_OVER); /* whatever it was */
}
