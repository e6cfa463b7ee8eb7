/* http.h - HTTP/1.1 in front of handlers: limits, strictness, routes, waiting, drain.
 *
 * Model. Worker threads own connections, read requests and call handlers. Handlers of routes that
 * take a while (`pool`), and those of large bodies, run on threads of the pool instead, one call of
 * a request at a time. A handler answers at once, or defers: then the connection sleeps and whoever
 * finishes answers it from any thread. Every request that reached a handler is answered exactly
 * once. A request lives in its exchange; its memory is the exchange's arena, which ends after the
 * last byte went out.
 *   Strict where smuggling lives: such heads get 400 and the connection is closed. What is slow
 * (head, body, reader, idle) is cut by a sweep over all connections.
 *   Paths are split at '/' while still encoded, each segment is decoded once. */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include "base/arena.h"
#include "base/err.h"
#include "base/home.h"
#include "base/log.h"
#include "base/str.h"
#include "base/times.h"
#include "http/listen.h"
#include "http/negotiate.h"
#include "http/percent.h"

struct http_server;
struct http_exchange;
struct loop;

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_PUT,
    HTTP_POST,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_PURGE, /* as caches have it: forget what this URL names */
    HTTP_METHODS,
    HTTP_OTHER
};

/* One row of the route table. Pattern: literal segments, {name}, and [optional tails]; a pattern
 * that ends in '/' wants the empty last segment; {name} is never empty. A literal segment beats
 * {name} beats {+rest}, which takes all that remains (still encoded); the path decides alone, the
 * method after it. HEAD goes to GET, OPTIONS of a known path is answered 204 with Allow. A path
 * that matches with other methods only: 405 with Allow. Refused with type names: "bad_request#head"
 * and 400, "bad_request#body" (a chunk) 400, "bad_request#version" 505, "request_too_large" 414 or
 * 431, all of which close; "bad_request#path" 400, "not_found#route" 404, "method_not_allowed" 405,
 * "content_too_large" 413. */
struct http_route {
    enum http_method method;
    const char *pattern;
    void (*handle)(struct http_exchange *x, void *app);
    /* NULL, or called before handle, with all that was read. False: it has deferred x, and calls
     * http_go at x's home, or answers */
    bool (*gate)(struct http_exchange *x, void *app);
    size_t body_bytes_max;  /* 0: a body is refused (400 for GET and HEAD, 413 else) */
    const char *permission; /* "page.read"; NULL: free to all, or as the hook and the handler say */
    const char *label;      /* of metrics and logs; bounded by being static */
    const void *row;        /* the handler's own */
    bool urgent;            /* goes on when the budget is full, of its reserve; first, too */
    bool first;             /* where it comes to the pool, it is taken before the others there */
    bool pool; /* its handler may take more than 200 us: it compresses, reads lists, formats much */
    bool admin;    /* only on a listener with .admin; label "health", "metrics", "spec": on all */
    unsigned kind; /* for handle: which of several calls that differ in a word this is */
};

enum { HTTP_SPARE_FILES = 128 }; /* descriptors that a server wants beside its connections */

struct http_limits {             /* 0: the default in brackets */
    size_t head_bytes_max;       /* request line and headers [16 KiB] */
    size_t body_drain_bytes_max; /* of a refused body, past its limit, read and dropped before the
                                    answer [1 MiB] */
    size_t arena_bytes_max;      /* of one request [64 MiB] */
    /* of all requests: bodies, what they allocate, answers until they are out [none] */
    struct budget *budget;
    unsigned connections_max;     /* [10000] */
    int64_t head_timeout_ms;      /* first byte to end of head [10 s] */
    int64_t body_bytes_per_s_min; /* [1 KiB] after head_timeout_ms */
    int64_t send_bytes_per_s_min; /* [1 KiB] after head_timeout_ms */
    int64_t idle_timeout_ms;      /* [60 s] */
    unsigned threads;             /* HTTP workers in all [number of cores] */
};
/* What threads comes to. */
unsigned http_threads(const struct http_limits *l);

struct http_hooks {
    void *app;
    /* Before routing, with the head checked, on the worker: for answers that are ready. True:
     * answered. GET and HEAD without a body alone, on listeners of content, of what they show. */
    bool (*early)(struct http_exchange *x, void *app);
    /* After routing, before the body; permission may be NULL. False: it has answered (401, 403). */
    bool (*authorize)(struct http_exchange *x, const char *permission, void *app);
    /* Adds headers to the coming answer to OPTIONS on a known path (204, Allow); NULL: none. */
    void (*options)(struct http_exchange *x, void *app);
    /* Must answer x; type is a short name ("not_found#route"), detail a sentence. */
    void (*refuse)(struct http_exchange *x, int status, const char *type, str detail, void *app);
    str (*target_shown)(const struct http_exchange *x, void *app); /* by slow.h; NULL: all of it */
    /* After the last byte went out (or the client left); on the worker. 0: never answered. */
    void (*finished)(struct http_exchange *x, int status, int64_t ns, uint64_t bytes_sent,
                     void *app);
};

struct http_server_opts {
    const struct http_listen *listens;
    unsigned listens_count;
    const struct http_route *const *tables; /* each ends with a row whose pattern is NULL */
    unsigned tables_count;
    struct http_limits limits;
    struct http_hooks hooks;
    struct clock *clock;
    struct log *log;
    struct loop *loop;     /* where http_on_gone tells; NULL: it tells nothing */
    unsigned pool_threads; /* 0: all handlers run on workers */
    bool restless;         /* for tests: connections go from worker to worker in every turn */
};

/* Binds, but answers nothing before http_server_start. With a loop: on its thread, or before it
 * runs. http_server_free when it does not run, before loop_free. Fails: ERR_BAD (address, routes),
 * ERR_UNAVAILABLE (port taken), ERR_LIMIT (RLIMIT_NOFILE too low for connections_max: note says
 * both numbers). */
MUST_CHECK err http_server_new(const struct http_server_opts *opts, struct http_server **out,
                               struct err_note *note);
MUST_CHECK err http_server_start(struct http_server *s, struct err_note *note);
uint16_t http_server_port(const struct http_server *s, unsigned listen_index);
/* Removes the files of unix sockets, as http_server_free does: for who ends without that. */
void http_server_unlink(struct http_server *s);
/* Cuts what is overdue; loop, every 250 ms or so. */
void http_server_sweep(struct http_server *s);
/* Connections that it has cut. Thread: any. */
uint64_t http_server_cut(const struct http_server *s);
/* From here on every answer carries Connection: close, and new requests are passed to handlers with
 * http_draining(x) true. Listening goes on. */
void http_server_drain(struct http_server *s);
/* Requests whose head was read, not yet fully answered, but for bodies that stand still. */
unsigned http_server_open_requests(const struct http_server *s);
/* Those of them that were read before http_server_drain, or http_server_refuse, or all that are
 * deferred when those are more: what a drain waits for, whoever comes meanwhile. */
unsigned http_server_owed_requests(const struct http_server *s);
/* When a drain has nothing more to wait for: from here on new reads are refused with 503
 * shutting_down, ready or not, but for those of label "health", and what is in work or on its way
 * now is owed. So all that was begun can go out whole, and a drain ends although new requests come
 * all the time. */
void http_server_refuse(struct http_server *s);
/* Stops listening, closes all. Every deferred exchange was answered before, or will be without new
 * requests: with a loop that runs here until they are. */
void http_server_free(struct http_server **sp);

/* ---- the request; borrowed until the exchange ends. Thread: whoever handles it. ---- */
enum http_method http_method(const struct http_exchange *x);
const char *http_method_name(const struct http_exchange *x); /* as sent */
str http_target(const struct http_exchange *x);    /* raw path as sent, without the query */
str http_query_raw(const struct http_exchange *x); /* after '?', raw; empty when none */
const struct http_route *http_route(const struct http_exchange *x); /* NULL before routing */
/* Decoded once; STR_NONE (p NULL) when the optional segment is absent. */
str http_param(const struct http_exchange *x, const char *name);
/* Decoded value ('+' is a space, a broken escape stays as sent) of the first query parameter of
 * that name; false when absent. */
bool http_query(struct http_exchange *x, const char *name, str *out);
/* All query parameters in order, decoded. Returns how many were written, at most max. */
unsigned http_query_all(struct http_exchange *x, struct http_pair *out, unsigned max);
/* Name in any letter case; repeated fields of list type are joined with ", ". */
bool http_header(const struct http_exchange *x, const char *name, str *out);
unsigned http_header_count(const struct http_exchange *x, const char *name); /* fields so named */
unsigned http_headers_all(const struct http_exchange *x, struct http_pair *out, unsigned max);
str http_body(const struct http_exchange *x);
struct arena *http_arena(struct http_exchange *x);
bool http_draining(const struct http_exchange *x);
/* Numeric address; "unix" (address.h) of who came over a unix socket. */
str http_peer(const struct http_exchange *x);
/* The client's X-Request-Id when sane (<= 128 plain characters), else one of ours. */
str http_request_id(struct http_exchange *x);
bool http_has_request_id(const struct http_exchange *x); /* the client sent a sane one */
/* The hooks' word, kept with this request: scripts of other sites may read the answer. */
void http_share(struct http_exchange *x);
bool http_is_shared(const struct http_exchange *x);
/* Another: it is for this client alone. No cache may keep the answer, no script of another site
 * read it. */
void http_withhold(struct http_exchange *x);
bool http_is_withheld(const struct http_exchange *x);
/* Within the authorize hook: this request's body may have so many bytes, if that is less than its
 * route's. */
void http_body_limit(struct http_exchange *x, size_t bytes_max);
/* Adds bytes to *sum until the exchange and its memory have ended. False, and nothing is added:
 * others hold some, and with these it were more than max. Once for an exchange; sum outlives the
 * server. */
MUST_CHECK bool http_charge(struct http_exchange *x, _Atomic size_t *sum, size_t bytes, size_t max);
/* A slot for the handler's own state; in the arena as a rule. */
void http_state_set(struct http_exchange *x, void *state);
void *http_state(const struct http_exchange *x);

/* The header fields that most handlers ask for, found in the one pass that checks the head. */
struct http_common {
    str if_match, if_none_match, if_unmodified_since, if_modified_since, if_range, range;
    str accept_encoding, accept, cache_control, authorization, content_type, accept_datetime;
    str request_id;       /* as sent; see http_request_id */
    bool any_conditional; /* one of the first six is present */
};
const struct http_common *http_common(const struct http_exchange *x);

/* ---- the answer ---- */
/* Adds a header to the coming answer; copied. CTL in a value is an INVARIANT: filter what clients
 * sent. Left out: empty values, and what the server sets itself (Content-Length, Transfer-Encoding,
 * Date, Connection). */
void http_reply_header(struct http_exchange *x, str name, str value);
/* The coming answer, ready or not, says so by Age. 0 or more; needs no memory. */
void http_reply_age(struct http_exchange *x, int64_t age_s);
/* Answers; with x-request-id, which only ready answers leave out. body is in the exchange's arena,
 * or static, or kept by the caller until finished. HEAD and 304 send no body, but body.n becomes
 * Content-Length and must be that of the 200; body.p may then be NULL. Thread: the handler, or any
 * one thread after http_defer. */
void http_answer(struct http_exchange *x, int status, str body);

/* A ready answer, shared by all workers and sent unchanged. Reference counted; bytes copied at
 * birth. A 304 may have body.p NULL and the size of the 200. */
struct http_ready;
/* of: counted there as kept until its end; NULL: nowhere. NULL when there is no memory. */
struct http_ready *http_ready_new(struct budget *of, int status, const struct http_pair *headers,
                                  unsigned count, str body);
struct http_ready *http_ready_ref(struct http_ready *r);
void http_ready_unref(struct http_ready **rp);
size_t http_ready_bytes(const struct http_ready *r); /* memory it takes, about */
/* Takes no reference of its own beyond the answer, which may have headers of its own. */
void http_answer_ready(struct http_exchange *x, struct http_ready *r);

/* Puts the connection to sleep, if it does not already; call it BEFORE handing x to whoever will
 * answer. Handler thread only. */
void http_defer(struct http_exchange *x);
/* The gate is open: x goes to its handler, deferred. Thread: at x's home. */
void http_go(struct http_exchange *x);
/* Where x goes on: a task posted there runs after the handler has returned, never beside another of
 * x's, in order of posting: on the worker that owns x's connection, or, when the handler ran on the
 * pool, there. What posts there may be started before http_defer, which then must be called before
 * the handler returns. A group of tasks wakes a worker once. Lives as long as x. Thread: the
 * handler's. */
struct home *http_home(struct http_exchange *x);

/* Asks to be told when the client of a deferred exchange leaves: it closed, was cut off, or shut
 * its writing side. (The kernel shows the first and the last alike; like nginx and Go's server we
 * take both for leaving. What is answered nevertheless is sent, and a client that still reads gets
 * it.) gone is called on the loop thread, at most once, never before the handler, or the task of
 * x's home that asks, has returned and never after http_answer has. x must still be answered, by
 * gone or by whoever else: when that happens while gone runs, x and its arena stay until it
 * returns. Best effort: not told is possible. Thread: x's home, after http_defer and before x is
 * handed to whoever will answer. Costs no system call. */
typedef void http_gone_fn(struct http_exchange *x, void *ctx);
void http_on_gone(struct http_exchange *x, http_gone_fn *gone, void *ctx);

#endif
