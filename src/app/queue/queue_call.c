#include "app/queue/queue_call.h"

#include "auth/auth.h"
#include "base/utf8.h"
#include "codec/goduration.h"

#include <stdarg.h>
#include <stdio.h>

enum { REFUSAL_BYTES_MAX = 4096, READ_LOOK_MS = 2 };
#define TURN_CHANGE STR("change")
#define TURN_SEVERAL STR("several")
#define TURN_REQUEUE STR("requeue")

void *queue_call_new(struct http_exchange *x, void *app, size_t size)
{
    struct queue_call *c = arena_calloc(http_arena(x), 1, size);
    if (http_draining(x)) {
        rpc_fail(x, ERR_SHUTDOWN, NULL);
        return NULL;
    }
    if (c == NULL) {
        rpc_fail(x, ERR_LIMIT, NULL);
        return NULL;
    }
    c->x = x;
    c->app = app;
    return c;
}

static void audit(const struct queue_call *c, err why)
{
    struct log *log = c->app->log;
    log_event(log, LOG_INFO, "queue.audit", LOG_CSTR("what", http_route(c->x)->label),
              LOG_STR("queue", c->name), LOG_CSTR("outcome", err_name(why)),
              LOG_STR("peer", http_peer(c->x)), LOG_STR("request_id", http_request_id(c->x)));
}

/* The last use of c but its exchange. */
static void leave(struct queue_call *c, err why)
{
    if (c->audited)
        audit(c, why);
    if (c->queue != NULL)
        queue_unref(&c->queue);
    if (c->other != NULL)
        queue_unref(&c->other);
}

void queue_call_end(struct queue_call *c, err why, const struct err_note *note)
{
    leave(c, why);
    if (why == ERR_OK)
        rpc_ok(c->x, c->app);
    else
        rpc_fail(c->x, why, note);
}

void queue_call_refuse(struct queue_call *c, const char *format, ...)
{
    char text[REFUSAL_BYTES_MAX];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    INVARIANT(n >= 0);
    leave(c, ERR_BAD);
    rpc_error(c->x, 400,
              (str){ .p = text, .n = (size_t)n < sizeof text ? (size_t)n : sizeof text - 1 });
}

void queue_call_reply(struct queue_call *c, const ProtobufCMessage *m)
{
    leave(c, ERR_OK);
    rpc_reply(c->x, m);
}

void queue_call_send(struct queue_call *c, str body)
{
    leave(c, ERR_OK);
    rpc_send(c->x, body);
}

/* What a lookup looks at; a name to be stored is checked by queue_name_check. False: answered. */
static bool check_name(struct queue_call *c)
{
    if (utf8_is_blank(c->name)) {
        queue_call_refuse(c, "queue name is invalid; queue name cannot be empty");
        return false;
    }
    if (str_find(c->name, '~') == c->name.n)
        return true;
    queue_call_refuse(c, "queue name is invalid; '%.*s' cannot contain '~' character",
                      STR_ARG(c->name));
    return false;
}

bool queue_call_may(struct queue_call *c, str name, const char *permission, struct queue **q,
                    struct queue_info *info)
{
    err why = queues_find(c->app->queues, name, q, &c->note);
    if (why == ERR_OK)
        why = queue_info_get(*q, http_arena(c->x), info);
    str space = why == ERR_OK
                    ? info->space
                    : STR(AUTH_ANYWHERE); /* who may nowhere is not told which there are */
    if (!app_may(c->x, permission, space, c->app))
        leave(c, ERR_DENIED);
    else if (why != ERR_OK)
        queue_call_end(c, why, &c->note);
    else
        return true;
    return false;
}

bool queue_call_find(struct queue_call *c, ProtobufCBinaryData name, const char *permission)
{
    c->name = wire_str(name);
    return check_name(c) && queue_call_may(c, c->name, permission, &c->queue, &c->info);
}

bool queue_call_partition(struct queue_call *c, int32_t partition)
{
    if (partition >= 0 && (uint32_t)partition < c->info.partitions)
        return true;
    queue_call_refuse(c, "partition is invalid; '%d' is not a valid partition", (int)partition);
    return false;
}

bool queue_call_duration(struct queue_call *c, const char *what, const char *examples,
                         ProtobufCBinaryData text, int64_t *ns)
{
    str why = STR_NONE;
    *ns = 0;
    if (text.len == 0)
        return true;
    err e = goduration_parse(wire_str(text), ns, http_arena(c->x), &why);
    if (e == ERR_BAD)
        queue_call_refuse(c, "%s is invalid; %.*s - expected format: %s", what, STR_ARG(why),
                          examples);
    else if (e != ERR_OK)
        queue_call_end(c, e, NULL);
    return e == ERR_OK;
}

bool queue_call_timeout(struct queue_call *c, ProtobufCBinaryData text, int64_t *ns)
{
    return queue_call_duration(c, "request timeout", "900ms, 5m or 15m", text, ns);
}

mono queue_call_deadline(const struct queue_call *c, int64_t timeout_ns)
{
    mono now = clock_mono(c->app->clock);
    return (mono){ .ns = now.ns + (timeout_ns < 0 ? 0 : timeout_ns) };
}

bool queue_call_limit(struct queue_call *c, int32_t limit, unsigned *out)
{
    if (limit < 0) {
        queue_call_refuse(c, "limit is invalid; limit cannot be negative");
        return false;
    }
    if (limit > QUEUE_LIST_MAX) {
        queue_call_refuse(c, "limit is invalid; cannot be greater than %d", QUEUE_LIST_MAX);
        return false;
    }
    *out = limit == 0 ? QUEUE_LIST_DEFAULT : (unsigned)limit;
    return true;
}

void *queue_call_memory(struct queue_call *c, size_t count, size_t size)
{
    void *p = arena_calloc(http_arena(c->x), count, size);
    if (p == NULL)
        queue_call_end(c, ERR_LIMIT, NULL);
    return p;
}

/* Loop. */
static void call_over(struct task *t)
{
    struct queue_call *c = CONTAINER_OF(t, struct queue_call, later.task);
    if (c->in_turn)
        (void)limiter_leave(c->app->queue_turns, &c->pass); /* it was in */
    if (c->why == ERR_OK)
        c->answer(c);
    else
        queue_call_end(c, c->why, &c->note);
}

/* Pool: run is called, again when what it waited for has come. */
static void call_step(struct task *t)
{
    struct queue_call *c = CONTAINER_OF(t, struct queue_call, later.task);
    c->told = c->began;
    c->began = true;
    err why = c->run(c);
    if (why == ERR_AGAIN)
        return; /* not ours any more */
    c->why = why;
    t->run = call_over;
    home_post(loop_home(c->app->loop), t);
}

static void await_fired(void *ctx)
{
    struct queue_call *c = ctx;
    if (!queue_is_read(c->queue, c->awaited) && clock_mono(c->app->clock).ns < c->read_deadline.ns)
        return;
    loop_timer_free(&c->timer);
    home_post(loop_pool(c->app->loop), &c->later.task);
}

/* Loop: what it looks at is being read, soon after a start. */
static void call_await(struct task *t)
{
    struct queue_call *c = CONTAINER_OF(t, struct queue_call, later.task);
    t->run = call_step;
    c->read_deadline = mono_add_ms(clock_mono(c->app->clock), QUEUE_READ_MS_MAX);
    c->timer = loop_timer_new(c->app->loop, await_fired, c);
    loop_timer_start(c->timer, READ_LOOK_MS, READ_LOOK_MS);
}

static void call_start(struct queue_call *c)
{
    struct task *t = &c->later.task;
    if (!c->in_turn || c->queue == NULL || queue_is_read(c->queue, c->awaited)) {
        home_post(loop_pool(c->app->loop), t);
        return;
    }
    t->run = call_await;
    home_post(loop_home(c->app->loop), t);
}

static void call_set(struct queue_call *c, err (*run)(struct queue_call *c),
                     void (*answer)(struct queue_call *c))
{
    c->run = run;
    c->answer = answer;
    c->began = c->told = false;
    c->later =
        (struct queue_later){ .home = loop_pool(c->app->loop), .task = { .run = call_step } };
}

void queue_call_pool(struct queue_call *c, err (*run)(struct queue_call *c),
                     void (*answer)(struct queue_call *c))
{
    call_set(c, run, answer);
    call_start(c);
}

void queue_call_job(struct queue_call *c, err (*run)(struct queue_call *c),
                    void (*answer)(struct queue_call *c))
{
    http_defer(c->x);
    queue_call_pool(c, run, answer);
}

/* ---- in turn ---- */

struct limiter *queue_turns_new(struct loop *loop, struct clock *clock)
{
    struct limiter *l = limiter_new(loop, clock);
    limiter_limit(l, LIMITER_ORIGIN, NULL, (struct limiter_limits){ .running_max = QUEUE_TURNS });
    limiter_limit(l, LIMITER_ORIGIN, &(struct limiter_key){ .origin = TURN_CHANGE },
                  (struct limiter_limits){ .running_max = 1 });
    return l;
}

static void turn_refused(struct queue_call *c, err why)
{
    if (why == ERR_LIMIT)
        err_note_set(&c->note,
                     "queue is overloaded; too many calls wait for its stores, try again later");
    queue_call_end(c, why, why == ERR_LIMIT ? &c->note : NULL);
}

/* On the loop. */
static void turn_came(struct limiter_pass *p, bool in)
{
    struct queue_call *c = CONTAINER_OF(p, struct queue_call, pass);
    c->waits = false;
    if (in)
        call_start(c);
    else
        turn_refused(c, http_draining(c->x) ? ERR_SHUTDOWN : ERR_LIMIT);
}

/* On the loop, as turn_came. */
static void turn_gone(struct http_exchange *x, void *ctx)
{
    struct queue_call *c = ctx;
    (void)x; /* it is c's */
    if (!c->waits)
        return;
    (void)limiter_leave(c->app->queue_turns, &c->pass); /* it waited */
    err_note_set(&c->note,
                 QUEUE_GONE_NOTE "nothing was done"); /* who only stopped sending reads it */
    queue_call_end(c, ERR_GONE, &c->note);
}

/* share: of which store, or what else there is. */
static void in_turn(struct queue_call *c, str share, err (*run)(struct queue_call *c),
                    void (*answer)(struct queue_call *c))
{
    call_set(c, run, answer);
    c->in_turn = c->waits = true;
    c->pass = (struct limiter_pass){ .deadline =
                                         mono_add_ms(clock_mono(c->app->clock), QUEUE_TURN_MS_MAX),
                                     .go = turn_came };
    http_defer(c->x);
    http_on_gone_late(c->x, turn_gone, c);
    if (limiter_enter(c->app->queue_turns, &(struct limiter_key){ .origin = share }, &c->pass) !=
        LIMITER_IN)
        return;
    c->waits = false;
    call_start(c);
}

static void in_turn_of(struct queue_call *c, uint64_t stores, err (*run)(struct queue_call *c),
                       void (*answer)(struct queue_call *c))
{
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%d", __builtin_ctzll(stores | UINT64_C(1) << 63));
    in_turn(c, (stores & (stores - 1)) != 0 ? TURN_SEVERAL : str_of(digits), run, answer);
}

void queue_call_part_job(struct queue_call *c, uint32_t partition, err (*run)(struct queue_call *c),
                         void (*answer)(struct queue_call *c))
{
    c->awaited = partition;
    in_turn_of(c, queue_stores(c->queue, partition), run, answer);
}

void queue_call_change_job(struct queue_call *c, err (*run)(struct queue_call *c),
                           void (*answer)(struct queue_call *c))
{
    c->awaited = QUEUE_PARTS_ALL;
    in_turn(c, TURN_CHANGE, run, answer);
}

void queue_call_requeue_job(struct queue_call *c, err (*run)(struct queue_call *c),
                            void (*answer)(struct queue_call *c))
{
    c->awaited = QUEUE_PARTS_ALL;
    in_turn(c, TURN_REQUEUE, run, answer);
}

void queue_call_memory_job(struct queue_call *c, err (*run)(struct queue_call *c),
                           void (*answer)(struct queue_call *c))
{
    uint64_t stores = queue_stores_unread(c->queue);
    c->awaited = QUEUE_PARTS_ALL;
    if (stores == 0)
        queue_call_job(c, run, answer);
    else
        in_turn_of(c, stores, run, answer);
}
