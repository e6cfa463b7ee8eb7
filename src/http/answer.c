/* answer.c - answers: what handlers say of one, and what is sent of it.
 *
 * An answer is stored in the exchange; its worker makes the head and sends it, at once when the
 * handler has answered there, else when nobody holds the exchange any more. A ready answer is sent
 * as it is, with what this request's has to say more behind its head. */
#include "http/conn.h"
#include "http/gone.h"
#include "http/head.h"
#include "http/server.h"
#include "http/status.h"
#include "http/strand.h"
#include "http/streams.h"
#include "http/trace.h"
#include "http/worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct http_ready {
    uint32_t magic;
    atomic_uint refs;
    int status;
    size_t bytes;      /* of this whole block */
    struct budget *of; /* where they are counted; may be NULL */
    str head;          /* status line and fields, but for those of each answer and the empty line */
    str body;
    char texts[];
};
#define READY_MAGIC 0x04eadc01u
enum { READY_HEAD_BYTES = 128 }; /* of a head: what is in every one */

/* The server sets these itself; whoever replays stored headers need not filter them. */
static bool is_servers_own(str name)
{
    static const str own[] = { { "content-length", 14 },
                               { "date", 4 },
                               { "connection", 10 },
                               { "keep-alive", 10 },
                               { "transfer-encoding", 17 } };
    for (size_t i = 0; i < COUNT_OF(own); i++)
        if (name.n == own[i].n && str_eq_nocase(name, own[i]))
            return true;
    return false;
}

/* Neither NUL nor a line end nor another control byte may reach the wire. TAB may. */
static void header_must_be_clean(str name, str value)
{
    INVARIANT(!head_has_control(name.p, name.n, '!'));
    INVARIANT(str_find(name, ':') == name.n);
    INVARIANT(!head_has_control(value.p, value.n, ' '));
}

static bool header_is_sent(str name, str value)
{
    return name.n > 0 && value.n > 0 && !is_servers_own(name);
}

static bool is_sent_bare(int status)
{
    return status == 204 || status == 304;
}

/* ---- who is done with it ---- */

static void resume_run(struct task *t)
{
    conn_answer(CONTAINER_OF(t, struct http_exchange, resume)->conn);
}

bool exchange_hold(struct http_exchange *x)
{
    unsigned held = atomic_load(&x->holds);
    while (held > 0)
        if (atomic_compare_exchange_weak(&x->holds, &held, held + 1))
            return true;
    return false;
}

void exchange_release(struct http_exchange *x)
{
    struct http_worker *w = x->conn->worker; /* x may end as soon as it is let go */
    unsigned before = atomic_fetch_sub(&x->holds, 1);
    INVARIANT(before > 0);
    if (before > 1)
        return;
    INVARIANT(x->status != 0);
    x->resume.run = resume_run;
    worker_post(w, &x->resume);
}

/* The answer is stored: who runs the handler sends it, or the worker is told to come for it. */
static void answer_stored(struct http_exchange *x)
{
    if (!x->deferred && !x->pooled)
        return;
    trace_note(x, TRACE_ANSWERED);
    gone_end(x);
    exchange_release(x);
}

static void answer_claim(struct http_exchange *x, int status)
{
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    INVARIANT(x->stage != STAGE_IDLE);
    INVARIANT(status >= 200 && status <= 599);
    INVARIANT(!atomic_exchange(&x->answered, true)); /* exactly once */
    x->status = status;
}

void http_reply_header(struct http_exchange *x, str name, str value)
{
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    header_must_be_clean(name, value);
    if (!header_is_sent(name, value))
        return;
    struct reply_header *h = arena_alloc(&x->arena, sizeof *h);
    str name_copy = arena_copy(&x->arena, name), value_copy = arena_copy(&x->arena, value);
    if (h == NULL || name_copy.p == NULL || value_copy.p == NULL) {
        x->reply_failed = true;
        return;
    }
    *h = (struct reply_header){ .name = name_copy, .value = value_copy };
    if (x->reply_first == NULL)
        x->reply_first = h;
    else
        x->reply_last->next = h;
    x->reply_last = h;
}

void http_reply_age(struct http_exchange *x, int64_t age_s)
{
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    INVARIANT(age_s >= 0);
    x->has_age = true;
    x->age_s = age_s;
}

void http_answer(struct http_exchange *x, int status, str body)
{
    bool starved = x->reply_failed && arena_is_starved(&x->arena);
    if (x->reply_failed) {
        x->reply_first = NULL;
        status = starved ? 503 : 500;
        body = STR("");
    }
    answer_claim(x, status);
    bool bare = is_sent_bare(status) || x->method == HTTP_HEAD;
    INVARIANT(bare || body.p != NULL || body.n == 0);
    x->answer_bytes = bare ? 0 : body.n;
    x->starved = starved;
    x->body_out = body;
    answer_stored(x);
}

void http_defer(struct http_exchange *x)
{
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    INVARIANT(x->stage == STAGE_RUN);
    INVARIANT(!atomic_load(&x->answered));
    if (x->deferred)
        return;
    trace_begin(x);
    trace_note(x, TRACE_DEFERRED);
    x->deferred = true;
    atomic_fetch_add(&x->conn->server->deferred, 1);
}

void exchange_post(struct http_exchange *x, struct task *t)
{
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    if (x->pooled)
        strand_post(x, t);
    else
        worker_post(x->conn->worker, t);
}

static void home_take(struct home *h, struct task *t)
{
    struct http_exchange *x = CONTAINER_OF(h, struct http_exchange, home);
    trace_note(x, TRACE_POSTED);
    exchange_post(x, t);
}

struct http_exchange *exchange_of_task(const struct task *t)
{
    return t->home == NULL || t->home->post != home_take
               ? NULL
               : CONTAINER_OF(t->home, struct http_exchange, home);
}

struct home *http_home(struct http_exchange *x)
{
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    INVARIANT(x->stage == STAGE_RUN);
    if (x->home.post == NULL) /* else others may be reading it */
        x->home.post = home_take;
    return &x->home;
}

void http_on_gone(struct http_exchange *x, http_gone_fn *gone, void *ctx)
{
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    INVARIANT(x->deferred);
    INVARIANT(x->gone == NULL);
    if (x->conn->server->loop == NULL)
        return;
    x->gone = gone;
    x->gone_ctx = ctx;
    gone_asked(x);
}

/* ---- ready answers ---- */

static void text_put(str *at, str part)
{
    if (part.n > 0)
        memcpy((char *)(uintptr_t)at->p + at->n, part.p, part.n);
    at->n += part.n;
}

static void number_put(str *at, uint64_t number)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" PRIu64, number);
    text_put(at, (str){ .p = digits, .n = (size_t)n });
}

static void field_put(str *at, str name, str value)
{
    text_put(at, name);
    text_put(at, STR(": "));
    text_put(at, value);
    text_put(at, STR("\r\n"));
}

static str ready_head(char *at, int status, const struct http_pair *headers, unsigned count,
                      size_t body_n)
{
    str head = { .p = at, .n = 0 };
    text_put(&head, STR("HTTP/1.1 "));
    number_put(&head, (uint64_t)status);
    text_put(&head, STR(" "));
    text_put(&head, str_of(http_status_text(status)));
    text_put(&head, STR("\r\n"));
    for (unsigned i = 0; i < count; i++)
        if (header_is_sent(headers[i].name, headers[i].value))
            field_put(&head, headers[i].name, headers[i].value);
    if (status != 204) {
        text_put(&head, STR("Content-Length: "));
        number_put(&head, body_n);
        text_put(&head, STR("\r\n"));
    }
    return head;
}

struct http_ready *http_ready_new(struct budget *of, int status, const struct http_pair *headers,
                                  unsigned count, str body)
{
    size_t body_copied = body.p == NULL ? 0 : body.n;
    size_t bytes = sizeof(struct http_ready) + READY_HEAD_BYTES + body_copied;
    for (unsigned i = 0; i < count; i++) {
        header_must_be_clean(headers[i].name, headers[i].value);
        bytes += headers[i].name.n + headers[i].value.n + 4;
    }
    INVARIANT(body.p != NULL || body.n == 0 || is_sent_bare(status));
    struct http_ready *r = malloc(bytes);
    if (r == NULL)
        return NULL;
    *r = (struct http_ready){ .magic = READY_MAGIC, .status = status, .bytes = bytes, .of = of };
    atomic_init(&r->refs, 1);
    if (of != NULL)
        budget_keep(of, bytes);
    r->head = ready_head(r->texts, status, headers, count, body.n);
    r->body = (str){ .p = r->texts + r->head.n, .n = body.n };
    if (body_copied > 0)
        memcpy(r->texts + r->head.n, body.p, body_copied);
    return r;
}

struct http_ready *http_ready_ref(struct http_ready *r)
{
    MAGIC_CHECK(r, READY_MAGIC);
    INVARIANT(atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed) > 0);
    return r;
}

void http_ready_unref(struct http_ready **rp)
{
    if (*rp == NULL)
        return;
    struct http_ready *r = *rp;
    MAGIC_CHECK(r, READY_MAGIC);
    *rp = NULL;
    unsigned before = atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel);
    INVARIANT(before > 0);
    if (before > 1)
        return;
    if (r->of != NULL)
        budget_keep_end(r->of, r->bytes);
    r->magic = 0;
    free(r);
}

size_t http_ready_bytes(const struct http_ready *r)
{
    return r->bytes;
}

void http_answer_ready(struct http_exchange *x, struct http_ready *r)
{
    MAGIC_CHECK(r, READY_MAGIC);
    if (x->reply_failed) {
        http_answer(x, 500, STR(""));
        return;
    }
    answer_claim(x, r->status);
    x->ready = http_ready_ref(r);
    x->answer_bytes = is_sent_bare(r->status) || x->method == HTTP_HEAD ? 0 : r->body.n;
    answer_stored(x);
}

/* ---- what is sent ---- */

/* Empty: the answer has none. */
static str age_line(const struct http_exchange *x, char room[static ANSWER_AGE_BYTES])
{
    if (!x->has_age)
        return STR("");
    char *at = room + ANSWER_AGE_BYTES;
    uint64_t left = (uint64_t)x->age_s;
    *--at = '\n';
    *--at = '\r';
    do
        *--at = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    at -= 5;
    memcpy(at, "Age: ", 5);
    return (str){ .p = at, .n = (size_t)(room + ANSWER_AGE_BYTES - at) };
}

/* HTTP/1.0 goes on only where the answer says so (RFC 9112 9.3). */
static str connection_line(const struct http_exchange *x)
{
    if (x->close)
        return STR("Connection: close\r\n");
    return x->version_11 ? STR("") : STR("Connection: Keep-Alive\r\n");
}

static void own_put(struct http_exchange *x, struct buf *b, str age, str connection)
{
    for (const struct reply_header *h = x->reply_first; h != NULL; h = h->next) {
        buf_put(b, h->name);
        buf_put(b, STR(": "));
        buf_put(b, h->value);
        buf_put(b, STR("\r\n"));
    }
    buf_put(b, age);
    buf_put(b, connection);
}

bool answer_parts(struct http_exchange *x, struct answer_room *room, struct answer_parts *out)
{
    x->close = x->close || http_draining(x);
    str age = age_line(x, room->age), connection = connection_line(x);
    struct buf *b = &room->text;
    if (x->ready != NULL && x->reply_first == NULL && connection.n == 0) {
        *out = (struct answer_parts){ .head = x->ready->head,
                                      .own = age,
                                      .body = { .p = x->ready->body.p, .n = x->answer_bytes } };
        return true;
    }
    buf_clear(b);
    if (x->ready != NULL) {
        own_put(x, b, age, connection);
        *out = (struct answer_parts){ .head = x->ready->head,
                                      .own = buf_str(b),
                                      .body = str_take(x->ready->body, x->answer_bytes) };
        return buf_status(b) == ERR_OK;
    }
    str id = http_request_id(x);
    buf_printf(b, "HTTP/1.1 %d %s\r\nx-request-id: %.*s\r\n", x->status,
               http_status_text(x->status), STR_ARG(id));
    own_put(x, b, age, connection);
    if (x->starved)
        buf_put(b, STR("Retry-After: 1\r\n"));
    if (x->conn->stream.state != STREAM_NONE)
        stream_frame(x->conn, b);
    else if (x->status != 204)
        buf_printf(b, "Content-Length: %zu\r\n", x->body_out.n);
    *out =
        (struct answer_parts){ .head = buf_str(b), .body = str_take(x->body_out, x->answer_bytes) };
    return buf_status(b) == ERR_OK;
}
