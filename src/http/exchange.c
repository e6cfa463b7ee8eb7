/* exchange.c - what handlers ask of a request, and its end. */
#include "http/exchange.h"

#include "http/server.h"
#include "http/trace.h"

#include <string.h>

void conn_phase_set(struct http_conn *c, enum phase to)
{
    uint64_t before = atomic_load_explicit(&c->phase, memory_order_relaxed);
    uint64_t after = (((before >> PHASE_BITS) + 1) << PHASE_BITS) | (uint64_t)to;
    atomic_store(
        &c->phase,
        after); /* one writer: the worker. In order with its looks at draining: see conns_owe */
}

void conn_phase_turn(struct http_conn *c, enum phase to)
{
    uint64_t before = atomic_load_explicit(&c->phase, memory_order_relaxed);
    atomic_store(&c->phase, before >> PHASE_BITS << PHASE_BITS | (uint64_t)to);
}

void exchange_body_end(struct http_exchange *x)
{
    if (x->body.p != NULL)
        buf_fini(&x->body);
    budget_part_end(&x->body_part); /* a piece that found no memory may count already */
}

void exchange_end(struct http_exchange *x)
{
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    if (x->ready != NULL)
        http_ready_unref(&x->ready);
    exchange_body_end(x);
    if (x->trace != NULL)
        trace_end(x);
    if (x->arena.chunks != NULL || x->arena.starved || x->arena.full || x->arena.part.urgent ||
        x->arena.part.beside > 0)
        arena_reset(&x->arena);
    x->arena.bytes_max = x->conn->server->limits.arena_bytes_max;
    if (x->charged != NULL)
        (void)atomic_fetch_sub(x->charged, x->charge); /* the old value is of no use */
    size_t from = offsetof(struct http_exchange, method),
           to = offsetof(struct http_exchange, arena);
    memset((char *)x + from, 0,
           to - from); /* headers_inline needs none: headers_count says what is in it */
    x->headers = x->headers_inline;
    x->stage = STAGE_IDLE;
}

static void rebase(str *s, str from, const char *to)
{
    if (s->p >= from.p && s->p <= from.p + from.n && s->p != NULL)
        s->p = to + (s->p - from.p);
}

void exchange_rebase(struct http_exchange *x, str from, const char *to)
{
    struct http_common *c = &x->common;
    str *const some[] = { &x->target,
                          &x->query,
                          &x->request_id,
                          &c->if_match,
                          &c->if_none_match,
                          &c->if_unmodified_since,
                          &c->if_modified_since,
                          &c->if_range,
                          &c->range,
                          &c->accept_encoding,
                          &c->accept,
                          &c->cache_control,
                          &c->authorization,
                          &c->content_type,
                          &c->accept_datetime,
                          &c->request_id };
    for (size_t i = 0; i < COUNT_OF(some); i++)
        rebase(some[i], from, to);
    for (unsigned i = 0; i < x->headers_count; i++) {
        rebase(&x->headers[i].name, from, to);
        rebase(&x->headers[i].value, from, to);
    }
}

/* ---- what handlers ask ---- */

enum http_method http_method(const struct http_exchange *x)
{
    return x->method;
}

const char *http_method_name(const struct http_exchange *x)
{
    return x->method_name;
}

str http_target(const struct http_exchange *x)
{
    return x->target;
}

str http_query_raw(const struct http_exchange *x)
{
    return x->query;
}

const struct http_route *http_route(const struct http_exchange *x)
{
    return x->routed ? x->match.row->route : NULL;
}

str http_param(const struct http_exchange *x, const char *name)
{
    if (!x->routed)
        return STR_NONE;
    const struct router_row *row = x->match.row;
    for (unsigned i = 0; i < row->names_count; i++)
        if (str_eq(row->names[i], str_of(name)))
            return x->match.params[i];
    return STR_NONE;
}

/* Decodes one piece of a query; a broken escape stays as it was sent. */
static str query_decode(struct http_exchange *x, str raw)
{
    if (str_find(raw, '%') == raw.n && str_find(raw, '+') == raw.n)
        return raw;
    str out = raw;
    if (http_decode(&x->arena, raw, true, &out) != ERR_OK)
        return raw;
    return out;
}

/* The next "name=value" of *rest, still encoded; false at the end. */
static bool query_next(str *rest, struct http_pair *out)
{
    while (rest->n > 0) {
        str piece = str_split(rest, '&');
        if (piece.n == 0)
            continue;
        size_t at = str_find(piece, '=');
        out->name = str_take(piece, at);
        out->value = at < piece.n ? str_skip(piece, at + 1) : STR("");
        return true;
    }
    return false;
}

bool http_query(struct http_exchange *x, const char *name, str *out)
{
    str rest = x->query;
    struct http_pair pair;
    while (query_next(&rest, &pair)) {
        if (str_eq(query_decode(x, pair.name), str_of(name))) {
            *out = query_decode(x, pair.value);
            return true;
        }
    }
    return false;
}

unsigned http_query_all(struct http_exchange *x, struct http_pair *out, unsigned max)
{
    str rest = x->query;
    struct http_pair pair;
    unsigned count = 0;
    while (count < max && query_next(&rest, &pair)) {
        out[count].name = query_decode(x, pair.name);
        out[count++].value = query_decode(x, pair.value);
    }
    return count;
}

/* Fields that are one value, not a list: of several the first counts (the dangerous ones were
 * refused). */
static bool is_single(str name)
{
    static const str singles[] = {
        { "content-type", 12 },
        { "content-length", 14 },
        { "host", 4 },
        { "authorization", 13 },
        { "range", 5 },
        { "if-range", 8 },
        { "if-modified-since", 17 },
        { "if-unmodified-since", 19 },
        { "accept-datetime", 15 },
        { "user-agent", 10 },
        { "referer", 7 },
        { "from", 4 },
        { "x-request-id", 12 },
        { "date", 4 },
        { "location", 8 },
        { "max-forwards", 12 },
    };
    for (size_t i = 0; i < COUNT_OF(singles); i++)
        if (str_eq_nocase(name, singles[i]))
            return true;
    return false;
}

bool http_header(const struct http_exchange *x, const char *name, str *out)
{
    str wanted = str_of(name), joined = STR_NONE;
    for (unsigned i = 0; i < x->headers_count; i++) {
        if (x->headers[i].name.n != wanted.n || !str_eq_nocase(x->headers[i].name, wanted))
            continue;
        if (joined.p == NULL) {
            joined = x->headers[i].value;
            continue;
        }
        if (is_single(wanted))
            break;
        str more = arena_printf(&x->self->arena, "%.*s, %.*s", STR_ARG(joined),
                                STR_ARG(x->headers[i].value));
        if (more.p != NULL)
            joined = more;
    }
    if (joined.p == NULL)
        return false;
    *out = joined;
    return true;
}

unsigned http_header_count(const struct http_exchange *x, const char *name)
{
    unsigned count = 0;
    for (unsigned i = 0; i < x->headers_count; i++)
        count += str_eq_nocase(x->headers[i].name, str_of(name));
    return count;
}

unsigned http_headers_all(const struct http_exchange *x, struct http_pair *out, unsigned max)
{
    unsigned count = x->headers_count < max ? x->headers_count : max;
    if (count > 0)
        memcpy(out, x->headers, count * sizeof *out);
    return count;
}

const struct http_common *http_common(const struct http_exchange *x)
{
    return &x->common;
}

str http_body(const struct http_exchange *x)
{
    return buf_str(&x->body);
}

struct arena *http_arena(struct http_exchange *x)
{
    return &x->arena;
}

bool http_draining(const struct http_exchange *x)
{
    return atomic_load(&x->conn->server->draining);
}

str http_peer(const struct http_exchange *x)
{
    return str_of(x->conn->peer);
}

void http_body_limit(struct http_exchange *x, size_t bytes_max)
{
    if (bytes_max < x->body_bytes_max)
        x->body_bytes_max = bytes_max;
}

bool http_charge(struct http_exchange *x, _Atomic size_t *sum, size_t bytes, size_t max)
{
    INVARIANT(x->charged == NULL);
    size_t held = atomic_load(sum);
    do {
        if (held > 0 && (held > max || bytes > max - held))
            return false;
    } while (!atomic_compare_exchange_weak(sum, &held, held + bytes));
    x->charged = sum;
    x->charge = bytes;
    return true;
}

void http_state_set(struct http_exchange *x, void *state)
{
    x->state = state;
}

void *http_state(const struct http_exchange *x)
{
    return x->state;
}

/* ---- request ids ---- */

static bool id_is_sane(str id)
{
    for (size_t i = 0; i < id.n; i++) {
        char c = id.p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && c != '-' && c != '_' && c != '.' && c != ':' &&
            c != '/')
            return false;
    }
    return id.n > 0 && id.n <= HTTP_REQUEST_ID_BYTES_MAX;
}

bool http_has_request_id(const struct http_exchange *x)
{
    return id_is_sane(x->common.request_id);
}

void http_share(struct http_exchange *x)
{
    x->shared = true;
}

bool http_is_shared(const struct http_exchange *x)
{
    return x->shared;
}

void http_withhold(struct http_exchange *x)
{
    x->withheld = true;
}

void http_patient(struct http_exchange *x)
{
    x->patient = true;
}

bool http_is_withheld(const struct http_exchange *x)
{
    return x->withheld;
}

str http_request_id(struct http_exchange *x)
{
    if (x->request_id.p != NULL)
        return x->request_id;
    if (http_has_request_id(x))
        return x->request_id = x->common.request_id;
    struct http_server *s = x->conn->server;
    uint64_t z = s->ids_seed + (atomic_fetch_add(&s->ids, 1) + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) *
        UINT64_C(0xbf58476d1ce4e5b9); /* splitmix64: distinct for distinct counts */
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    x->request_id = arena_printf(&x->arena, "%016llx", (unsigned long long)(z ^ (z >> 31)));
    if (x->request_id.p == NULL)
        x->request_id = STR("-");
    return x->request_id;
}
