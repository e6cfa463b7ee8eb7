#include "http/head.h"
#include "http/server.h"
#include "http/worker.h"

#include <string.h>

/* What the library calls, on the worker that owns the connection: once for the request line, once
 * for the head, for each piece of the body, and once when all was read (again after a resume).
 * 1. The library closes a connection whose answer is queued before the body was read, and when it
 *    is queued in the call for the head: so answers wait for the last call, except refusals that
 *    shall close.
 * 2. While a body arrives no answer can be queued: an early one waits in STAGE_DROP. */

static enum http_method method_of(const char *name)
{
    static const struct {
        const char *name;
        enum http_method method;
    } methods[] = {
        { "GET", HTTP_GET },     { "HEAD", HTTP_HEAD },     { "PUT", HTTP_PUT },
        { "POST", HTTP_POST },   { "DELETE", HTTP_DELETE }, { "OPTIONS", HTTP_OPTIONS },
        { "PURGE", HTTP_PURGE },
    };
    for (size_t i = 0; i < COUNT_OF(methods); i++)
        if (strcmp(name, methods[i].name) == 0)
            return methods[i].method;
    return HTTP_OTHER;
}

static void refuse(struct http_exchange *x, int status, const char *type, const char *detail)
{
    const struct http_hooks *hooks = &x->conn->server->hooks;
    hooks->refuse(x, status, type, str_of(detail), hooks->app);
    INVARIANT(x->status != 0);
}

/* The request may be as it should: others hold what it needs. */
static void refuse_starved(struct http_exchange *x)
{
    refuse(x, 503, "overloaded",
           "there is no memory for it now: requests under way hold what they may have "
           "(http.bytes_max), or the machine has no more; try again");
}

static void allow_header(struct http_exchange *x, unsigned allowed)
{
    static const struct {
        enum http_method method;
        const char *name;
    } names[] = {
        { HTTP_GET, "GET" },     { HTTP_HEAD, "HEAD" },     { HTTP_PUT, "PUT" },
        { HTTP_POST, "POST" },   { HTTP_DELETE, "DELETE" }, { HTTP_OPTIONS, "OPTIONS" },
        { HTTP_PURGE, "PURGE" },
    };
    char text[64];
    size_t n = 0;
    allowed |= BIT(HTTP_OPTIONS) | (allowed & BIT(HTTP_GET) ? BIT(HTTP_HEAD) : 0);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (!(allowed & BIT(names[i].method)))
            continue;
        if (n > 0)
            text[n++] = ',', text[n++] = ' ';
        size_t name_n = strlen(names[i].name);
        memcpy(text + n, names[i].name, name_n);
        n += name_n;
    }
    http_reply_header(x, STR("Allow"), (str){ .p = text, .n = n });
}

/* Finds the route and asks whether it is allowed. False: x has been answered. */
static bool route(struct http_exchange *x)
{
    struct http_server *s = x->conn->server;
    switch (router_match(s->router, x->target, x->method, x->conn->listen, &x->arena, &x->match)) {
    case ROUTER_FOUND:
        break;
    case ROUTER_NO_PATH:
        refuse(x, 404, "not_found#route", "no route has this path");
        return false;
    case ROUTER_NO_METHOD:
        allow_header(x, x->match.allowed);
        if (x->method == HTTP_OPTIONS && s->hooks.options != NULL)
            s->hooks.options(x, s->hooks.app);
        if (x->method == HTTP_OPTIONS)
            http_answer(x, 204, STR(""));
        else
            refuse(x, 405, "method_not_allowed", "this path knows other methods only; see Allow");
        return false;
    case ROUTER_BROKEN:
        refuse(x, 400, "bad_request#path", "a '%' in the path is not followed by two hex digits");
        return false;
    case ROUTER_NO_MEMORY:
        if (arena_is_starved(&x->arena))
            refuse_starved(x);
        else
            refuse(x, 413, "content_too_large",
                   "the request needs more memory than a request may have");
        return false;
    }
    x->routed = true;
    if (x->match.row->route->urgent)
        arena_urgent(&x->arena);
    x->body_bytes_max = x->match.row->route->body_bytes_max;
    const char *permission = x->match.row->route->permission;
    if (s->hooks.authorize == NULL || s->hooks.authorize(x, permission, s->hooks.app))
        return true;
    INVARIANT(x->status != 0);
    return false;
}

/* ---- bodies ---- */

static void refuse_large(struct http_exchange *x)
{
    refuse(x, 413, "content_too_large", "the body is larger than this route accepts");
}

/* x was answered before its body: read and drop the body first, unless that is hopeless or not
 * wanted. allowed: how much of it would have been taken anyway; the limit on what is dropped counts
 * from there. */
static enum MHD_Result answer_before_body(struct http_exchange *x, uint64_t allowed)
{
    uint64_t most = x->conn->server->limits.body_drain_bytes_max + allowed;
    bool long_body = x->body_declared != UINT64_MAX && x->body_declared > most;
    if (x->expects_continue || long_body)
        return exchange_queue(x);
    x->stage = STAGE_DROP;
    x->dropped_max = most;
    conn_phase_set(x->conn, PHASE_BODY);
    return MHD_YES;
}

static enum MHD_Result body_begin(struct http_exchange *x)
{
    if (!route(x))
        return answer_before_body(x, 0);
    size_t most = x->body_bytes_max;
    bool chunked = x->body_declared == UINT64_MAX;
    size_t memory = x->conn->server->limits.arena_bytes_max;
    size_t room = memory > HTTP_ANSWER_ROOM ? memory - HTTP_ANSWER_ROOM : 0;
    if (most > room)
        most = room;
    if (most == 0 || (!chunked && x->body_declared > most)) {
        refuse_large(x);
        return answer_before_body(x, most);
    }
    buf_init(&x->body, chunked ? most : x->body_declared);
    x->body_part = (struct budget_part){ .of = x->conn->server->limits.budget };
    if (!chunked && !buf_reserve(&x->body, x->body_declared)) {
        refuse_starved(x);
        return answer_before_body(x, x->body_declared);
    }
    x->stage = STAGE_BODY;
    conn_phase_set(x->conn, PHASE_BODY);
    return MHD_YES;
}

static enum MHD_Result body_drop(struct http_exchange *x, size_t n)
{
    x->dropped += n;
    return x->dropped > x->dropped_max ? MHD_NO : MHD_YES;
}

/* n more bytes of it are not taken, and what was is let go. */
static enum MHD_Result body_refuse(struct http_exchange *x, size_t n, bool large)
{
    n += x->body.n;
    exchange_body_end(x);
    if (large)
        refuse_large(x);
    else
        refuse_starved(x);
    x->stage = STAGE_DROP;
    x->dropped_max =
        x->conn->server->limits.body_drain_bytes_max + x->match.row->route->body_bytes_max;
    return body_drop(x, n);
}

static enum MHD_Result body_take(struct http_exchange *x, const char *data, size_t n)
{
    uint64_t all = atomic_load_explicit(&x->conn->body_bytes, memory_order_relaxed) + n;
    atomic_store_explicit(&x->conn->body_bytes, all, memory_order_relaxed); /* one writer */
    if (x->stage == STAGE_DROP)
        return body_drop(x, n);
    INVARIANT(x->body_declared == UINT64_MAX || x->body.n + n <= x->body_declared);
    bool large = n > x->body.bytes_max - x->body.n;
    if (!large && budget_part_set(&x->body_part, x->body.n + n)) {
        buf_put(&x->body, (str){ .p = data, .n = n });
        if (buf_status(&x->body) == ERR_OK)
            return MHD_YES;
    }
    return body_refuse(x, n, large);
}

/* ---- the steps of a request ---- */

static enum MHD_Result refuse_head(struct http_exchange *x, int status, const char *detail)
{
    x->close = true;
    refuse(x, status, status == 400 ? "bad_request#head" : "request_too_large", detail);
    return exchange_queue(x);
}

static enum MHD_Result head_read(struct http_exchange *x, const char *method, const char *version)
{
    struct http_server *s = x->conn->server;
    x->began = clock_mono(s->clock);
    x->method_name = method;
    x->method = method_of(method);
    struct head_fault fault = head_check(x, version, s->limits.head_bytes_max);
    if (arena_is_starved(&x->arena)) { /* and the head may be as it should */
        x->close = true;
        refuse_starved(x);
        return exchange_queue(x);
    }
    if (fault.status != 0)
        return refuse_head(x, fault.status, fault.detail);
    if (!x->has_body) {
        x->stage = STAGE_RUN;
        return MHD_YES;
    }
    if (x->method == HTTP_GET || x->method == HTTP_HEAD || x->method == HTTP_OPTIONS)
        return refuse_head(x, 400, "this method takes no body");
    return body_begin(x);
}

/* All was read, and nothing was done yet. */
static void run(struct http_exchange *x)
{
    struct http_server *s = x->conn->server;
    const struct http_hooks *hooks = &s->hooks;
    bool reads = x->method == HTTP_GET || x->method == HTTP_HEAD, asked = x->conn->asked;
    bool refused = reads && atomic_load(&s->refusing);
    x->conn->asked = false;
    if (reads && !refused && !asked && hooks->early != NULL && hooks->early(x, hooks->app))
        return;
    if (!x->routed && !route(x))
        return;
    const struct http_route *to = x->match.row->route;
    if (refused && !router_is_health(to))
        refuse(x, 503, "shutting_down", "The server is shutting down.");
    else if (to->gate == NULL || to->gate(x, hooks->app))
        to->handle(x, hooks->app);
}

void http_go(struct http_exchange *x)
{
    struct http_server *s = x->conn->server;
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    INVARIANT(x->deferred);
    x->match.row->route->handle(x, s->hooks.app);
    if (x->gone != NULL)
        gone_watch(s->gone, x);
}

static enum MHD_Result all_read(struct http_exchange *x)
{
    if (x->deferred) { /* resumed */
        INVARIANT(atomic_load(&x->answered));
        return exchange_queue(x);
    }
    x->stage = STAGE_RUN;
    x->arena.bytes_max -=
        x->body.n; /* http.arena_bytes_max is of both; body_begin left HTTP_ANSWER_ROOM */
    arena_beside(&x->arena, x->body_part.counted);
    conn_phase_set(x->conn, PHASE_WORK);
    if (x->status == 0)
        run(x);
    if (!x->deferred)
        return exchange_queue(x);
    if (x->gone != NULL)
        gone_watch(x->conn->server->gone, x);
    return MHD_YES;
}

/* The library would list the query's pieces in the memory of its connection, and when that is full,
 * forget that the request is ours and go on with it. We read our own copy: so its own, which it may
 * write to, ends here. */
static void query_hide(const struct http_exchange *x, const char *line_target)
{
    ((char *)(uintptr_t)line_target)[x->target.n + 1] = '\0';
}

/* The library would take cookies apart before it calls us, each into memory of its connection, and
 * when that is full answer and go on at once. It looks at the first field of that name only: so
 * there is an empty one before all. */
static void cookies_hide(struct MHD_Connection *mhd)
{
    (void)MHD_set_connection_value(mhd, MHD_HEADER_KIND, head_not_sent,
                                   ""); /* no room: then for none of the fields */
}

void *serve_line(void *worker, const char *target, struct MHD_Connection *mhd)
{
    (void)worker;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct http_conn *c = info->socket_context;
    MAGIC_CHECK(c, CONN_MAGIC);
    exchange_begin(&c->x, mhd, target);
    if (c->x.target.n < c->x.line_target_bytes)
        query_hide(&c->x, target);
    cookies_hide(mhd);
    conn_phase_set(c, PHASE_HEAD);
    return &c->x;
}

enum MHD_Result serve_call(void *worker, struct MHD_Connection *mhd, const char *url,
                           const char *method, const char *version, const char *data,
                           size_t *data_n, void **slot)
{
    (void)mhd, (void)url;
    struct http_exchange *x = *slot;
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    if (atomic_load_explicit(&worker_listener(worker)->server->stopping, memory_order_relaxed))
        if (!x->deferred)
            return MHD_NO;
    switch (x->stage) {
    case STAGE_LINE:
        return head_read(x, method, version);
    case STAGE_BODY:
    case STAGE_DROP:
        if (*data_n > 0) {
            enum MHD_Result taken = body_take(x, data, *data_n);
            *data_n = 0;
            return taken;
        }
        return all_read(x);
    case STAGE_RUN:
        return all_read(x);
    case STAGE_IDLE:
    case STAGE_SENT:
    case STAGES:
        break;
    }
    check_failed(__FILE__, __LINE__, "called for a request that is over");
}

void serve_completed(void *worker, struct MHD_Connection *mhd, void **slot,
                     enum MHD_RequestTerminationCode why)
{
    (void)mhd;
    struct http_server *s = worker_listener(worker)->server;
    struct http_exchange *x = *slot;
    if (x == NULL)
        return;
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    INVARIANT(!x->deferred || atomic_load(&x->answered));
    if (x->stage != STAGE_LINE && s->hooks.finished != NULL) {
        int status = x->stage == STAGE_SENT ? x->status : 0;
        uint64_t bytes = why == MHD_REQUEST_TERMINATED_COMPLETED_OK ? x->answer_bytes : 0;
        s->hooks.finished(x, status, clock_mono(s->clock).ns - x->began.ns, bytes, s->hooks.app);
    }
    struct http_conn *c = x->conn;
    exchange_end(x);
    conn_phase_set(c, PHASE_IDLE);
    *slot = NULL;
}
