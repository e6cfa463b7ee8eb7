/* queue_call.c - the one way through all calls of queues (queue_call.h). Invariant: a call is
 * answered once, and its queues are given back before that. */
#include "app/queue/queue_call.h"

#include "auth/auth.h"
#include "base/utf8.h"
#include "codec/goduration.h"

#include <stdarg.h>
#include <stdio.h>

enum { REFUSAL_BYTES_MAX = 4096 };

/* ---- ends ---- */

/* The last use of c but its exchange. */
static void call_leave(struct queue_call *c, err why)
{
    if (c->audited)
        log_event(c->app->log, LOG_INFO, "queue.audit", LOG_CSTR("what", http_route(c->x)->label),
                  LOG_STR("queue", c->name), LOG_CSTR("outcome", err_name(why)),
                  LOG_STR("peer", http_peer(c->x)), LOG_STR("request_id", http_request_id(c->x)));
    queue_unref(&c->queue);
    queue_unref(&c->other);
}

void queue_call_end(struct queue_call *c, err why, const struct err_note *note)
{
    call_leave(c, why);
    if (why != ERR_OK)
        rpc_fail(c->x, why, note);
    else if (c->reply == REPLY_OK)
        rpc_ok(c->x, c->app);
    else
        rpc_send(c->x, c->reply == REPLY_BODY ? c->body : STR_NONE);
}

bool queue_call_ok(struct queue_call *c, err why)
{
    if (why != ERR_OK)
        queue_call_end(c, why, &c->note);
    return why == ERR_OK;
}

bool queue_call_refuse(struct queue_call *c, const char *format, ...)
{
    char text[REFUSAL_BYTES_MAX];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    INVARIANT(n >= 0);
    call_leave(c, ERR_BAD);
    rpc_error(c->x, 400,
              (str){ .p = text, .n = (size_t)n < sizeof text ? (size_t)n : sizeof text - 1 });
    return false;
}

bool queue_call_check(struct queue_call *c, const struct queue_refusal *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (rows[i].wrong)
            return queue_call_refuse(c, "%s", rows[i].words);
    return true;
}

err queue_call_encode(struct queue_call *c, const ProtobufCMessage *m)
{
    err why = rpc_encode(c->x, m, &c->body);
    c->reply = why == ERR_OK ? REPLY_BODY : REPLY_TOO_LARGE;
    return ERR_OK;
}

/* ---- checks ---- */

/* Finds a queue and asks for the permission there. Who may nowhere is not told which there are. */
static bool call_may(struct queue_call *c, str name, const char *permission, struct queue **q,
                     struct queue_info *info)
{
    err why = queues_find(c->app->queues, name, q, &c->note);
    if (why == ERR_OK)
        why = queue_info_get(*q, http_arena(c->x), info);
    str space = why == ERR_OK ? info->space : STR(AUTH_ANYWHERE);
    if (app_may(c->x, permission, space, c->app))
        return queue_call_ok(c, why);
    call_leave(c, ERR_DENIED);
    return false;
}

bool queue_call_find(struct queue_call *c, const char *permission)
{
    const ProtobufCBinaryData *name = wire_field(c->m, "queue_name");
    c->name = wire_str(*name);
    if (utf8_is_blank(c->name))
        return queue_call_refuse(c, "queue name is invalid; queue name cannot be empty");
    if (str_find(c->name, '~') < c->name.n) /* one to be stored is checked by queue_name_check */
        return queue_call_refuse(c, "queue name is invalid; '%.*s' cannot contain '~' character",
                                 STR_ARG(c->name));
    return call_may(c, c->name, permission, &c->queue, &c->info);
}

bool queue_call_find_other(struct queue_call *c, str name, const char *permission)
{
    struct queue_info info;
    return call_may(c, name, permission, &c->other, &info);
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
        return queue_call_refuse(c, "%s is invalid; %.*s - expected format: %s", what, STR_ARG(why),
                                 examples);
    if (e != ERR_OK)
        queue_call_end(c, e, NULL);
    return e == ERR_OK;
}

bool queue_call_limit(struct queue_call *c, int32_t limit, unsigned initial)
{
    if (limit < 0)
        return queue_call_refuse(c, "limit is invalid; limit cannot be negative");
    if (limit > QUEUE_LIST_MAX)
        return queue_call_refuse(c, "limit is invalid; cannot be greater than %d", QUEUE_LIST_MAX);
    c->limit = limit == 0 ? initial : (unsigned)limit;
    return true;
}

void *queue_call_memory(struct queue_call *c, size_t count, size_t size)
{
    void *p = arena_calloc(http_arena(c->x), count, size);
    if (p == NULL)
        queue_call_end(c, ERR_LIMIT, NULL);
    return p;
}

mono queue_call_deadline(const struct queue_call *c)
{
    mono now = clock_mono(c->app->clock);
    return (mono){ .ns = now.ns + (c->timeout_ns < 0 ? 0 : c->timeout_ns) };
}

/* ---- in its turn ---- */

static void call_done(struct queue_turn *t, err why)
{
    struct queue_call *c = CONTAINER_OF(t, struct queue_call, turn);
    queue_call_end(c, why, &c->note);
}

static void call_gone(struct http_exchange *x, void *ctx)
{
    struct queue_call *c = ctx;
    (void)x;                     /* it is c's */
    queue_turn_cancel(&c->turn); /* who only stopped sending reads that nothing was done */
}

void queue_call_go(struct queue_call *c, enum queue_share share, err (*run)(struct queue_turn *t),
                   err (*write)(struct queue_turn *t))
{
    c->turn = (struct queue_turn){ .queues = c->app->queues,
                                   .queue = c->queue,
                                   .share = share,
                                   .partition = c->partition,
                                   .run = run,
                                   .write = write,
                                   .done = call_done,
                                   .note = &c->note };
    queue_turn_start(&c->turn);
}

static err call_run(struct queue_turn *t)
{
    struct queue_call *c = CONTAINER_OF(t, struct queue_call, turn);
    return c->kind->run(c);
}

static err call_write(struct queue_turn *t)
{
    struct queue_call *c = CONTAINER_OF(t, struct queue_call, turn);
    c->note.text[0] = '\0';
    return c->kind->reply(c);
}

/* ---- the way of a call ---- */

static struct queue_call *call_new(struct http_exchange *x, void *app)
{
    struct queue_call *c = arena_calloc(http_arena(x), 1, sizeof *c);
    if (c == NULL || http_draining(x)) {
        rpc_fail(x, http_draining(x) ? ERR_SHUTDOWN : ERR_LIMIT, NULL);
        return NULL;
    }
    c->x = x;
    c->app = app;
    c->kind = http_route(x)->row;
    c->partition = QUEUE_PARTS_ALL;
    return c;
}

static bool call_check_partition(struct queue_call *c)
{
    const int32_t *partition = wire_field(c->m, "partition");
    if (*partition < 0 || (uint32_t)*partition >= c->info.partitions)
        return queue_call_refuse(c, "partition is invalid; '%d' is not a valid partition",
                                 (int)*partition);
    c->partition = (uint32_t)*partition;
    return true;
}

/* What its row says of it. */
static bool call_check(struct queue_call *c)
{
    const struct queue_kind *kind = c->kind;
    if (kind->permission == NULL)
        return true;
    if (!queue_call_find(c, kind->permission) || (kind->partition && !call_check_partition(c)))
        return false;
    c->audited = kind->audited;
    if (kind->timeout) {
        const ProtobufCBinaryData *text = wire_field(c->m, "request_timeout");
        return queue_call_duration(c, "request timeout", "900ms, 5m or 15m", *text, &c->timeout_ns);
    }
    const int32_t *limit = kind->limit == 0 ? NULL : wire_field(c->m, "limit");
    return limit == NULL || queue_call_limit(c, *limit, kind->limit);
}

void queue_call_handle(struct http_exchange *x, void *app)
{
    struct queue_call *c = call_new(x, app);
    if (c == NULL)
        return;
    const struct queue_kind *kind = c->kind;
    arena_raise(http_arena(x), http_body(x).n * kind->memory);
    c->m = rpc_read(x, kind->type);
    if (c->m == NULL || !call_check(c) || (kind->check != NULL && !kind->check(c)))
        return;
    if (kind->start != NULL) {
        kind->start(c);
        return;
    }
    http_defer(x);
    http_on_gone(x, call_gone, c);
    queue_call_go(c, kind->share, call_run, kind->reply == NULL ? NULL : call_write);
}
