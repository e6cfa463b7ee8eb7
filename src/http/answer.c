#include "http/head.h"
#include "http/server.h"
#include "http/worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Answers. An answer is stored in the exchange and queued by the worker, with one exception: a
 * ready answer given on the worker itself is queued at once, because the library then holds its own
 * reference. A ready answer is only copied when this request's has to say more: headers of its own,
 * Connection: close. */

struct http_ready {
    uint32_t magic;
    atomic_uint refs;
    int status;
    size_t bytes;                  /* of this whole block */
    struct budget *of;             /* where they are counted; may be NULL */
    struct MHD_Response *response; /* one reference of its own; its end frees this block */
    str body;
    str head; /* as a lane sends it, but for Date, Age and the empty line */
    unsigned count;
    struct http_pair headers[]; /* texts NUL-terminated, behind the array */
};
#define READY_MAGIC 0x04eadc01u
enum {
    READY_HEAD_BYTES = 128,   /* of a head: what is in every one */
    RESUMED_TIMEOUT_S = 3600, /* not 0, and never waited for */
    AGE_BYTES_MAX = 24
};

/* The library sets these itself; whoever replays stored headers need not filter them. */
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
    return name.n > 0 && value.n > 0 &&
           !is_servers_own(name); /* the library refuses empty values */
}

static void *unconst(const char *p)
{
    return (
        void *)(uintptr_t)p; /* the library's buffers are not const, though it only reads them */
}

static bool is_sent_bare(int status)
{
    return status == 204 || status == 304;
}

static struct MHD_Response *response_new(str body)
{
    /* Without a body to send (HEAD, 304) only its size counts. */
    const char *p = body.p == NULL ? "" : body.p;
    struct MHD_Response *r =
        MHD_create_response_from_buffer(body.n, unconst(p), MHD_RESPMEM_PERSISTENT);
    INVARIANT(r != NULL); /* out of memory */
    return r;
}

static void response_header(struct MHD_Response *r, const char *name, const char *value)
{
    INVARIANT(MHD_add_response_header(r, name, value) == MHD_YES);
}

/* The library would read of a connection that it resumes before it calls the handler, and close the
 * one that it reads the end of: who shut its writing side lost its answer. What has a timeout of
 * its own it looks at first. No timeout is ever waited for. */
static void resume_order(struct http_exchange *x, unsigned timeout_s)
{
    INVARIANT(MHD_set_connection_option(x->mhd, MHD_CONNECTION_OPTION_TIMEOUT, timeout_s) ==
              MHD_YES);
}

enum MHD_Result exchange_queue(struct http_exchange *x)
{
    INVARIANT(x->status != 0);
    if (x->stage == STAGE_SENT) /* a ready answer, queued by http_answer_ready */
        return x->queue_failed ? MHD_NO : MHD_YES;
    if (x->deferred)
        resume_order(x, 0);
    x->stage = STAGE_SENT;
    conn_phase_set(x->conn, PHASE_SEND);
    if (x->response == NULL) /* ready, with a reference until the exchange ends */
        return MHD_queue_response(x->mhd, (unsigned)x->status, x->ready->response);
    enum MHD_Result done = MHD_queue_response(x->mhd, (unsigned)x->status, x->response);
    MHD_destroy_response(x->response); /* the library took its own reference */
    x->response = NULL;
    return done;
}

static void resume(struct http_exchange *x)
{
    struct http_server *s = x->conn->server;
    worker_resume(x->conn->worker, x);
    INVARIANT(atomic_fetch_sub(&s->deferred, 1) > 0);
}

static void resume_run(struct task *t)
{
    resume(CONTAINER_OF(t, struct http_exchange, resume));
}

void exchange_resume(struct http_exchange *x)
{
    struct http_worker *w = x->conn->worker;
    if (worker_is_here(w)) {
        resume(x);
        return;
    }
    x->resume.run = resume_run;
    worker_post(w, &x->resume);
}

/* The answer is stored: whoever is on the worker queues it, or the worker is told to come for
 * it. */
static void answer_stored(struct http_exchange *x)
{
    if (!x->deferred)
        return;
    if (x->gone == NULL || gone_end(x->conn->server->gone, x))
        exchange_resume(x);
}

static void answer_claim(struct http_exchange *x, int status)
{
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    INVARIANT(x->stage != STAGE_IDLE);
    INVARIANT(status >= 200 && status <= 599);
    INVARIANT(!atomic_exchange(&x->answered, true)); /* exactly once */
    x->status = status;
}

static bool must_close(const struct http_exchange *x)
{
    return x->close || http_draining(x);
}

/* What this request's answer alone says. */
static void response_headers(struct http_exchange *x)
{
    for (const struct reply_header *h = x->reply_first; h != NULL; h = h->next)
        response_header(x->response, h->name, h->value);
    if (x->has_age) {
        char age[AGE_BYTES_MAX];
        INVARIANT(snprintf(age, sizeof age, "%" PRId64, x->age_s) > 0);
        response_header(x->response, "Age", age);
    }
    if (must_close(x))
        response_header(x->response, "Connection", "close");
}

void http_reply_header(struct http_exchange *x, str name, str value)
{
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    header_must_be_clean(name, value);
    if (!header_is_sent(name, value))
        return;
    struct reply_header *h = arena_alloc(&x->arena, sizeof *h);
    const char *name_copy = arena_cstr(&x->arena, name), *value_copy = arena_cstr(&x->arena, value);
    if (h == NULL || name_copy == NULL || value_copy == NULL) {
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
    x->response = response_new(body);
    response_headers(x);
    if (starved)
        response_header(x->response, "Retry-After", "1");
    answer_stored(x);
}

void http_defer(struct http_exchange *x)
{
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    INVARIANT(x->stage == STAGE_RUN);
    INVARIANT(!atomic_load(&x->answered));
    if (x->deferred)
        return;
    x->deferred = true;
    atomic_fetch_add(&x->conn->server->deferred, 1);
    resume_order(x, RESUMED_TIMEOUT_S); /* since 1.0 it cannot be set of a suspended one */
    MHD_suspend_connection(x->mhd);
}

static void exchange_post(struct home *h, struct task *t)
{
    struct http_exchange *x = CONTAINER_OF(h, struct http_exchange, home);
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    worker_post(x->conn->worker, t);
}

struct home *http_home(struct http_exchange *x)
{
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    INVARIANT(x->stage == STAGE_RUN);
    x->home.post = exchange_post;
    return &x->home;
}

void http_on_gone(struct http_exchange *x, http_gone_fn *gone, void *ctx)
{
    MAGIC_CHECK(x, EXCHANGE_MAGIC);
    INVARIANT(x->deferred);
    INVARIANT(x->gone == NULL);
    if (x->conn->server->gone == NULL || x->conn->fd < 0)
        return;
    x->gone = gone;
    x->gone_ctx = ctx;
}

void http_on_gone_late(struct http_exchange *x, http_gone_fn *gone, void *ctx)
{
    x->gone_late = true;
    http_on_gone(x, gone, ctx);
}

/* ---- ready answers ---- */

static void ready_block_free(void *block)
{
    const struct http_ready *r = block;
    if (r->of != NULL)
        budget_keep_end(r->of, r->bytes);
    free(block);
}

static str ready_text(char **at, str s)
{
    char *to = *at;
    if (s.n > 0)
        memcpy(to, s.p, s.n);
    to[s.n] = 0;
    *at += s.n + 1;
    return (str){ .p = to, .n = s.n };
}

static void head_append(str *head, str part)
{
    memcpy((char *)(uintptr_t)head->p + head->n, part.p, part.n);
    head->n += part.n;
}

static void head_field(str *head, str name, str value)
{
    head_append(head, name);
    head_append(head, STR(": "));
    head_append(head, value);
    head_append(head, STR("\r\n"));
}

/* The same fields that the library sends of it. Behind all else in the block. */
static void ready_head(struct http_ready *r, char *at)
{
    char number[24];
    int n = snprintf(number, sizeof number, "%d", r->status);
    str head = { .p = at, .n = 0 };
    head_append(&head, STR("HTTP/1.1 "));
    head_append(&head, (str){ .p = number, .n = (size_t)n });
    head_append(&head, STR(" "));
    head_append(&head, str_of(MHD_get_reason_phrase_for((unsigned)r->status)));
    head_append(&head, STR("\r\n"));
    for (unsigned i = 0; i < r->count; i++)
        head_field(&head, r->headers[i].name, r->headers[i].value);
    n = snprintf(number, sizeof number, "%zu", r->body.n);
    if (r->status != 204)
        head_field(&head, STR("Content-Length"), (str){ .p = number, .n = (size_t)n });
    r->head = head;
}

struct http_ready *http_ready_new(struct budget *of, int status, const struct http_pair *headers,
                                  unsigned count, str body)
{
    size_t body_copied = body.p == NULL ? 0 : body.n;
    size_t bytes = sizeof(struct http_ready) + count * sizeof(struct http_pair) + body_copied + 1;
    for (unsigned i = 0; i < count; i++)
        bytes += 2 * (headers[i].name.n + headers[i].value.n + 4); /* also in the head */
    bytes += READY_HEAD_BYTES;
    struct http_ready *r = malloc(bytes);
    if (r == NULL)
        return NULL;
    *r = (struct http_ready){ .magic = READY_MAGIC, .status = status, .bytes = bytes, .of = of };
    atomic_init(&r->refs, 1);
    if (of != NULL)
        budget_keep(of, bytes);
    char *at = (char *)&r->headers[count];
    for (unsigned i = 0; i < count; i++) {
        header_must_be_clean(headers[i].name, headers[i].value);
        if (!header_is_sent(headers[i].name, headers[i].value))
            continue;
        r->headers[r->count].name = ready_text(&at, headers[i].name);
        r->headers[r->count++].value = ready_text(&at, headers[i].value);
    }
    char *body_at = at;
    (void)ready_text(&at, (str){ .p = body.p, .n = body_copied }); /* placed at body_at */
    r->body = (str){ .p = body_at, .n = body.n };
    INVARIANT(body.p != NULL || body.n == 0 || is_sent_bare(status));
    ready_head(r, at);
    r->response = MHD_create_response_from_buffer_with_free_callback_cls(body.n, body_at,
                                                                         ready_block_free, r);
    INVARIANT(r->response != NULL);
    for (unsigned i = 0; i < r->count; i++)
        response_header(r->response, r->headers[i].name.p, r->headers[i].value.p);
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
    r->magic = 0;
    MHD_destroy_response(r->response); /* the last one, ours or a worker's, frees r */
}

void exchange_ready_parts(const struct http_exchange *x, str *head, str *body)
{
    const struct http_ready *r = x->ready;
    *head = r->head;
    *body = x->answer_bytes == 0 ? STR("") : r->body;
}

size_t http_ready_bytes(const struct http_ready *r)
{
    enum { LIBRARY_BYTES = 256, LIBRARY_HEADER_BYTES = 112 };
    return r->bytes + LIBRARY_BYTES + r->count * (size_t)LIBRARY_HEADER_BYTES;
}

/* The same answer in a response of its own, which points into r's body. */
static void ready_copy(struct http_exchange *x, const struct http_ready *r)
{
    x->response = response_new(r->body);
    for (unsigned i = 0; i < r->count; i++)
        response_header(x->response, r->headers[i].name.p, r->headers[i].value.p);
    response_headers(x);
}

void http_answer_ready(struct http_exchange *x, struct http_ready *r)
{
    MAGIC_CHECK(r, READY_MAGIC);
    if (x->reply_failed) {
        http_answer(x, 500, STR(""));
        return;
    }
    answer_claim(x, r->status);
    bool bare = is_sent_bare(r->status) || x->method == HTTP_HEAD,
         as_it_is = x->reply_first == NULL && !x->has_age && !must_close(x);
    x->answer_bytes = bare ? 0 : r->body.n;
    if (x->conn->lane != NULL) {
        x->ready = http_ready_ref(r);
        return;
    }
    if (x->stage == STAGE_RUN && !x->deferred && as_it_is) {
        x->stage = STAGE_SENT;
        conn_phase_set(x->conn, PHASE_SEND);
        x->queue_failed = MHD_queue_response(x->mhd, (unsigned)r->status, r->response) != MHD_YES;
        return;
    }
    x->ready = http_ready_ref(r);
    if (!as_it_is)
        ready_copy(x, r);
    answer_stored(x);
}
