/* trace.c - events of a request in a ring, names of the threads in them, and what is printed when
 * an invariant breaks.
 *
 * An event: ns in the upper 48 bits (three days), then the stage, then the thread's number. */
#include "http/trace.h"

#include "http/server.h"
#include "http/slow_kept.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    EVENT_NS_SHIFT = 16,
    EVENT_STAGE_SHIFT = 8,
    EVENT_BYTE = 0xff,
    THREADS_MAX = 255, /* the number of all that come late: they have no name */
    THREAD_NAME_BYTES = 16
};
#define EVENT_NS_MAX ((INT64_C(1) << 48) - 1)

static const char *const stage_names[TRACE_STAGES] = {
    [TRACE_HEAD] = "head",         [TRACE_BODY] = "body",
    [TRACE_POOL] = "pool",         [TRACE_RUN] = "run",
    [TRACE_DEFERRED] = "deferred", [TRACE_POSTED] = "posted",
    [TRACE_TASK] = "task",         [TRACE_GO] = "go",
    [TRACE_GONE] = "gone",         [TRACE_ANSWERED] = "answered",
    [TRACE_SEND] = "send",         [TRACE_REST] = "rest",
    [TRACE_SENT] = "sent",         [TRACE_CUT] = "cut",
};

/* ---- threads ---- */

/* A row is its thread's from the count on; an event that bears the number is released after it. */
static char thread_names[THREADS_MAX - 1][THREAD_NAME_BYTES];
static atomic_uint threads_count;
static _Thread_local unsigned thread_number; /* 0: none yet; else index + 1 */

static unsigned thread_here(void)
{
    if (thread_number != 0)
        return thread_number;
    unsigned i = atomic_fetch_add(&threads_count, 1);
    if (i >= THREADS_MAX - 1)
        return thread_number = THREADS_MAX;
    thread_number = i + 1;
    if (pthread_getname_np(pthread_self(), thread_names[i], THREAD_NAME_BYTES) != 0)
        thread_names[i][0] = 0;
    return thread_number;
}

static const char *thread_name(unsigned number)
{
    return number == 0 || number >= THREADS_MAX ? "other" : thread_names[number - 1];
}

/* ---- the ring ---- */

struct http_event http_event_of(uint64_t event)
{
    uint64_t stage = (event >> EVENT_STAGE_SHIFT) & EVENT_BYTE;
    return (struct http_event){ .ns = (int64_t)(event >> EVENT_NS_SHIFT),
                                .stage = stage < TRACE_STAGES ? stage_names[stage] : "?",
                                .thread = thread_name((unsigned)(event & EVENT_BYTE)) };
}

void trace_put(struct trace *t, enum trace_stage stage, int64_t ns)
{
    ns = ns < 0 ? 0 : ns > EVENT_NS_MAX ? EVENT_NS_MAX : ns;
    uint64_t event =
        (uint64_t)ns << EVENT_NS_SHIFT | (uint64_t)stage << EVENT_STAGE_SHIFT | thread_here();
    unsigned at = atomic_fetch_add(&t->count, 1);
    atomic_store_explicit(&t->events[at % HTTP_TRACE_MAX], event, memory_order_release);
}

unsigned trace_copy(const struct trace *t, uint64_t out[static HTTP_TRACE_MAX], unsigned *lost)
{
    unsigned all = atomic_load(&t->count), count = all < HTTP_TRACE_MAX ? all : HTTP_TRACE_MAX;
    for (unsigned i = 0; i < count; i++)
        out[i] = atomic_load_explicit(&t->events[(all - count + i) % HTTP_TRACE_MAX],
                                      memory_order_acquire);
    *lost = all - count;
    return count;
}

/* ---- of a request ---- */

static int64_t ns_since(const struct http_exchange *x)
{
    return clock_mono(x->conn->server->clock).ns - x->began.ns;
}

void trace_begin(struct http_exchange *x)
{
    if (atomic_load_explicit(&x->trace, memory_order_relaxed) != NULL)
        return;
    struct trace *t = calloc(1, sizeof *t);
    if (t == NULL)
        return;
    trace_put(t, TRACE_HEAD, 0);
    if (x->body.n > 0)
        trace_put(t, TRACE_BODY, ns_since(x));
    atomic_store_explicit(&x->trace, t, memory_order_release);
}

void trace_end(struct http_exchange *x)
{
    free(atomic_load_explicit(&x->trace, memory_order_relaxed));
    atomic_store_explicit(&x->trace, NULL, memory_order_relaxed);
}

void trace_note_now(struct http_exchange *x, enum trace_stage stage)
{
    trace_put(atomic_load_explicit(&x->trace, memory_order_acquire), stage, ns_since(x));
}

static size_t cut_copy(char *to, size_t size, str from)
{
    size_t n = from.n < size ? from.n : size;
    if (n > 0)
        memcpy(to, from.p, n);
    return n;
}

/* Who may do nothing here, but sends slowly, does not push others out of the list. */
static bool is_turned_away(const struct http_exchange *x)
{
    return x->status == 401 || x->status == 403 || (!x->routed && x->ready == NULL);
}

void trace_keep(struct http_exchange *x, int status, int64_t ns, uint64_t bytes)
{
    struct http_server *s = x->conn->server;
    const struct trace *t = atomic_load_explicit(&x->trace, memory_order_acquire);
    if (x->patient || is_turned_away(x))
        return;
    str target = s->hooks.target_shown == NULL ? x->target : s->hooks.target_shown(x, s->hooks.app);
    struct http_slow r = { .ns = ns,
                           .finished = { .ns = x->began.ns + ns },
                           .began = { .ns = clock_wall(s->clock).ns - ns },
                           .status = status,
                           .bytes = bytes,
                           .target_cut = target.n > HTTP_SLOW_TARGET_BYTES };
    if (x->method_name != NULL)
        (void)cut_copy(r.method, sizeof r.method - 1, str_of(x->method_name));
    r.target_n = cut_copy(r.target, sizeof r.target, target);
    r.id_n = cut_copy(r.id, sizeof r.id, http_request_id(x));
    if (t != NULL)
        r.events_count = trace_copy(t, r.events, &r.events_lost);
    slow_keep(s->slow, &r);
}

unsigned http_slow_list(const struct http_exchange *x, struct http_slow *out, unsigned max)
{
    struct http_server *s = x->conn->server;
    return slow_list(s->slow, clock_mono(s->clock), out, max);
}

/* ---- when an invariant breaks ---- */

/* Without memory and locks; what is wrong may be x itself. */
static void trace_print(const void *exchange)
{
    const struct http_exchange *x = exchange;
    if (x->magic != EXCHANGE_MAGIC)
        return;
    uint64_t events[HTTP_TRACE_MAX];
    unsigned lost = 0;
    const struct trace *t = atomic_load_explicit(&x->trace, memory_order_acquire);
    unsigned count = t == NULL ? 0 : trace_copy(t, events, &lost);
    str id = x->request_id.p != NULL  ? x->request_id
             : http_has_request_id(x) ? x->common.request_id
                                      : STR("-");
    const char *method = x->method_name == NULL ? "?" : x->method_name;
    fprintf(stderr,
            "at work for %s %s, request %.*s, after %" PRId64 " us; events kept %u, lost %u\n",
            method, x->routed ? x->match.row->route->pattern : "(no route)", STR_ARG(id),
            ns_since(x) / NS_PER_US, count, lost);
    for (unsigned i = 0; i < count; i++) {
        struct http_event e = http_event_of(events[i]);
        fprintf(stderr, "  %12" PRId64 " us  %-8s  %s\n", e.ns / NS_PER_US, e.stage, e.thread);
    }
}

struct check_note trace_enter(const struct http_exchange *x)
{
    return check_note_set((struct check_note){ .print = trace_print, .ctx = x });
}

void trace_leave(struct check_note before)
{
    (void)check_note_set(before); /* ours has ended */
}
