/* serve.c - the steps of a request, whatever it came over: refuse, route, collect the body, run.
 *
 * 1. Each step leaves x answered (status is not 0), or awaited: by its body, its handler, its pool.
 * 2. While a body arrives an early answer waits in STAGE_DROP: a client that is busy sending would
 *    not see it, and with what it still sends the connection can go on. */
#include "http/head.h"
#include "http/server.h"
#include "http/strand.h"
#include "http/trace.h"

#include <string.h>

static void http_serve_refuse(struct http_exchange *x, int status, const char *type,
                              const char *detail)
{
    const struct http_hooks *hooks = &x->conn->server->hooks;
    hooks->refuse(x, status, type, str_of(detail), hooks->app);
    INVARIANT(x->status != 0);
}

/* The request may be as it should: others hold what it needs. */
static void refuse_starved(struct http_exchange *x)
{
    http_serve_refuse(x, 503, "overloaded",
                      "there is no memory for it now: requests under way hold what they may have "
                      "(http.bytes_max), or the machine has no more; try again");
}

static void allow_header(struct http_exchange *x, unsigned allowed)
{
    char text[64];
    size_t n = 0;
    allowed |= BIT(HTTP_OPTIONS) | (allowed & BIT(HTTP_GET) ? BIT(HTTP_HEAD) : 0);
    for (unsigned m = 0; m < HTTP_METHODS; m++) {
        if (!(allowed & BIT(m)))
            continue;
        str name = head_method_name((enum http_method)m);
        if (n > 0)
            text[n++] = ',', text[n++] = ' ';
        memcpy(text + n, name.p, name.n);
        n += name.n;
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
        http_serve_refuse(x, 404, "not_found#route", "no route has this path");
        return false;
    case ROUTER_NO_METHOD:
        allow_header(x, x->match.allowed);
        if (x->method == HTTP_OPTIONS && s->hooks.options != NULL)
            s->hooks.options(x, s->hooks.app);
        if (x->method == HTTP_OPTIONS)
            http_answer(x, 204, STR(""));
        else
            http_serve_refuse(x, 405, "method_not_allowed",
                              "this path knows other methods only; see Allow");
        return false;
    case ROUTER_BROKEN:
        http_serve_refuse(x, 400, "bad_request#path",
                          "a '%' in the path is not followed by two hex digits");
        return false;
    case ROUTER_NO_MEMORY:
        if (arena_is_starved(&x->arena))
            refuse_starved(x);
        else
            http_serve_refuse(x, 413, "content_too_large",
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
    http_serve_refuse(x, 413, "content_too_large", "the body is larger than this route accepts");
}

/* x was answered before its body: read and drop the body first, unless that is hopeless or not
 * wanted. allowed: how much of it would have been taken anyway; the limit on what is dropped counts
 * from there. */
static void answer_before_body(struct http_exchange *x, uint64_t allowed)
{
    uint64_t most = x->conn->server->limits.body_drain_bytes_max + allowed;
    bool long_body = x->body_declared != UINT64_MAX && x->body_declared > most;
    if (x->expects_continue || long_body) {
        x->close = true;
        return;
    }
    x->stage = STAGE_DROP;
    x->dropped_max = most;
    conn_phase_set(x->conn, PHASE_BODY);
}

static void body_begin(struct http_exchange *x)
{
    if (!route(x)) {
        answer_before_body(x, 0);
        return;
    }
    size_t most = x->body_bytes_max;
    bool chunked = x->body_declared == UINT64_MAX;
    size_t memory = x->conn->server->limits.arena_bytes_max;
    size_t room = memory > HTTP_ANSWER_ROOM ? memory - HTTP_ANSWER_ROOM : 0;
    if (most > room)
        most = room;
    if (most == 0 || (!chunked && x->body_declared > most)) {
        refuse_large(x);
        answer_before_body(x, most);
        return;
    }
    buf_init(&x->body, chunked ? most : x->body_declared);
    x->body_part = (struct budget_part){ .of = x->conn->server->limits.budget };
    if (!chunked && !buf_reserve(&x->body, x->body_declared)) {
        refuse_starved(x);
        answer_before_body(x, x->body_declared);
        return;
    }
    x->stage = STAGE_BODY;
    conn_phase_set(x->conn, PHASE_BODY);
}

static bool body_drop(struct http_exchange *x, size_t n)
{
    x->dropped += n;
    return x->dropped <= x->dropped_max;
}

/* n bytes of it are not taken, and what was is let go. */
static bool body_refuse(struct http_exchange *x, size_t n, bool large)
{
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

static void body_count(struct http_exchange *x, size_t n)
{
    uint64_t all = atomic_load_explicit(&x->conn->body_bytes, memory_order_relaxed) + n;
    atomic_store_explicit(&x->conn->body_bytes, all, memory_order_relaxed); /* one writer */
    x->body_seen += n;
}

bool serve_body_take(struct http_exchange *x, str piece)
{
    body_count(x, piece.n);
    if (x->stage == STAGE_DROP)
        return body_drop(x, piece.n);
    bool large = piece.n > x->body.bytes_max - x->body.n;
    if (!large && budget_part_set(&x->body_part, x->body.n + piece.n)) {
        buf_put(&x->body, piece);
        if (buf_status(&x->body) == ERR_OK)
            return true;
    }
    return body_refuse(x, piece.n + x->body.n, large);
}

char *serve_body_room(struct http_exchange *x, size_t *n)
{
    if (x->stage != STAGE_BODY || x->body_declared == UINT64_MAX)
        return NULL;
    *n = (size_t)(x->body_declared - x->body.n);
    return x->body.p + x->body.n;
}

bool serve_body_came(struct http_exchange *x, size_t n)
{
    body_count(x, n);
    x->body.n += n;
    return budget_part_set(&x->body_part, x->body.n) || body_refuse(x, x->body.n, false);
}

/* ---- the steps of a request ---- */

void serve_refuse(struct http_exchange *x, struct head_fault fault)
{
    x->close = true;
    if (arena_is_starved(&x->arena)) /* and the head may be as it should */
        refuse_starved(x);
    else
        http_serve_refuse(x, fault.status,
                          fault.status == 400   ? "bad_request#head"
                          : fault.status == 413 ? "content_too_large"
                          : fault.status == 505 ? "bad_request#version"
                                                : "request_too_large",
                          fault.detail);
}

void serve_refuse_body(struct http_exchange *x, bool large)
{
    exchange_body_end(x);
    x->close = true;
    x->stage = STAGE_RUN;
    if (x->status != 0) /* told already */
        return;
    if (large)
        refuse_large(x);
    else
        http_serve_refuse(x, 400, "bad_request#body",
                          "a chunk of the body is not framed as it should be");
}

static void serve_handle(struct http_exchange *x)
{
    const struct http_route *to = x->match.row->route;
    void *app = x->conn->server->hooks.app;
    struct check_note before = trace_enter(x);
    if (to->gate == NULL || to->gate(x, app))
        to->handle(x, app);
    trace_leave(before);
}

static void begin_run(struct task *t)
{
    struct http_exchange *x = CONTAINER_OF(t, struct http_exchange, begin);
    trace_note(x, TRACE_RUN);
    serve_handle(x);
    INVARIANT(x->deferred || x->status != 0); /* or its connection would wait for ever */
}

/* Does its handler take longer than those of other connections should wait? */
static bool wants_pool(const struct http_exchange *x)
{
    return x->conn->server->pool != NULL &&
           (x->match.row->route->pool || x->body.n > HTTP_INLINE_BODY_BYTES_MAX);
}

/* All was read, and nothing was done yet but what the head alone asked for. True: x is the pool's
 * now. */
static bool http_serve_run(struct http_exchange *x)
{
    struct http_server *s = x->conn->server;
    bool reads = x->method == HTTP_GET || x->method == HTTP_HEAD;
    if (!x->routed && !route(x))
        return false;
    if (reads && atomic_load(&s->refusing) && !router_is_health(x->match.row->route)) {
        http_serve_refuse(x, 503, "shutting_down", "The server is shutting down.");
        return false;
    }
    if (!wants_pool(x)) {
        serve_handle(x);
        return false;
    }
    x->pooled = true;
    x->begin.run = begin_run;
    trace_begin(x);
    trace_note(x, TRACE_POOL);
    strand_post(x, &x->begin);
    return true;
}

void serve_head(struct http_exchange *x)
{
    x->stage = STAGE_RUN;
    if (!x->has_body)
        return;
    if (x->method == HTTP_GET || x->method == HTTP_HEAD || x->method == HTTP_OPTIONS)
        serve_refuse(x,
                     (struct head_fault){ .status = 400, .detail = "this method takes no body" });
    else
        body_begin(x);
}

/* May ready answers to this target be given where it came? Where a part is hidden the route says
 * so, as it would later. */
static bool early_shows(struct http_exchange *x)
{
    const struct http_listen *from = x->conn->listen;
    struct router_match m;
    return from->plain ||
           (from->content && router_match(x->conn->server->router, x->target, x->method, from,
                                          &x->arena, &m) == ROUTER_FOUND);
}

bool serve_early(struct http_exchange *x)
{
    struct http_server *s = x->conn->server;
    bool reads = x->method == HTTP_GET || x->method == HTTP_HEAD;
    return reads && s->hooks.early != NULL && !atomic_load(&s->refusing) && early_shows(x) &&
           s->hooks.early(x, s->hooks.app);
}

bool serve_run(struct http_exchange *x)
{
    x->stage = STAGE_RUN;
    atomic_store_explicit(&x->holds, 1, memory_order_relaxed);
    if (x->body.n > 0) {
        /* http.arena_bytes_max is of both; body_begin left HTTP_ANSWER_ROOM */
        x->arena.bytes_max -= x->body.n;
        arena_beside(&x->arena, x->body_part.counted);
    }
    return x->status == 0 ? http_serve_run(x) : false;
}

void http_go(struct http_exchange *x)
{
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    INVARIANT(x->deferred);
    trace_note(x, TRACE_GO);
    x->match.row->route->handle(x, x->conn->server->hooks.app);
}
