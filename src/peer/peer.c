/* peer.c - a question to another server.
 *
 *   the note (loop, Redis) -> the call (loop) -> its seal (pool) -> done
 *
 * Invariant: from peer_ask_start to done one of these is under way, and ends by its own deadline.
 */
#include "peer/peer.h"

#include "base/buf.h"
#include "base/check.h"
#include "base/metrics.h"
#include "codec/sha256.h"
#include "flight/shared.h"
#include "http/client.h"
#include "loop/entropy.h"
#include "loop/loop.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PEERS_MAGIC 0x9ee59ee5u
enum peer_metric { PEER_ASKED, PEER_FOUND, PEER_GIVEN, PEER_REFUSED, PEER_METRICS };

struct peers {
    uint32_t magic;
    struct peers_opts opts;
    char *address, *secret;
    size_t secret_bytes;
    struct metric *metrics[PEER_METRICS]; /* NULL: none */
};

struct peer_work {
    struct peer_ask *ask;
    struct http_call call;
    struct http_pair header;
    char seal[PEER_SEAL_BYTES + 1];
    struct task task;
};

static void peer_count(const struct peers *p, enum peer_metric what)
{
    if (p->metrics[what] != NULL)
        metric_add(p->metrics[what], 1);
}

static char *peer_copy(str s)
{
    char *p = malloc(s.n + 1);
    INVARIANT(p != NULL);
    INVARIANT(str_to_cstr(s, p, s.n + 1));
    return p;
}

bool peer_is_address(str url)
{
    static const char ends[] = "/?#@";
    char origin[HTTP_ORIGIN_BYTES_MAX];
    size_t scheme = str_starts(url, STR("https://"))  ? 8
                    : str_starts(url, STR("http://")) ? 7
                                                      : url.n;
    str rest = str_skip(url, scheme);
    bool bare = rest.n > 0;
    for (const char *c = ends; *c != 0; c++)
        bare = bare && str_find(rest, *c) == rest.n;
    return bare && http_client_origin(url, origin) == ERR_OK;
}

struct peers *peers_new(const struct peers_opts *opts)
{
    static const enum metric_id ids[PEER_METRICS] = { METRIC_PEERS_ASKED, METRIC_PEERS_FOUND,
                                                      METRIC_PEERS_GIVEN, METRIC_PEERS_REFUSED };
    struct peers *p = calloc(1, sizeof *p);
    INVARIANT(p != NULL);
    INVARIANT(opts->secret.n >= PEER_SECRET_BYTES_MIN);
    INVARIANT(str_of(opts->address).n <= FLIGHT_NOTE_BYTES_MAX);
    p->magic = PEERS_MAGIC;
    p->opts = *opts;
    p->address = peer_copy(str_of(opts->address));
    p->secret = malloc(opts->secret.n);
    INVARIANT(p->secret != NULL);
    memcpy(p->secret, opts->secret.p, opts->secret.n);
    p->secret_bytes = opts->secret.n;
    for (unsigned i = 0; opts->metrics != NULL && i < PEER_METRICS; i++)
        p->metrics[i] = metrics_one(opts->metrics, ids[i]);
    return p;
}

void peers_free(struct peers **pp)
{
    struct peers *p = *pp;
    if (p == NULL)
        return;
    MAGIC_CHECK(p, PEERS_MAGIC);
    p->magic = 0;
    free(p->secret);
    free(p->address);
    free(p);
    *pp = NULL;
}

/* ---- seals ---- */

static void seal(const struct peers *p, const str *parts, unsigned n, char out[PEER_SEAL_BYTES + 1])
{
    _Static_assert((int)PEER_SEAL_BYTES == (int)SHA256_TEXT_BYTES, "the digits of a hash");
    sha256_keyed((str){ .p = p->secret, .n = p->secret_bytes }, parts, n, out);
}

static void seal_question(const struct peers *p, str question, char out[PEER_SEAL_BYTES + 1])
{
    const str parts[] = { STR("ask\n"), question };
    seal(p, parts, COUNT_OF(parts), out);
}

void peer_seal(const struct peers *p, str question_seal, int status, str body,
               char out[PEER_SEAL_BYTES + 1])
{
    MAGIC_CHECK(p, PEERS_MAGIC);
    char number[16];
    (void)snprintf(number, sizeof number, "\n%d\n", status); /* fits */
    const str parts[] = { STR("give\n"), question_seal, str_of(number), body };
    seal(p, parts, COUNT_OF(parts), out);
}

static const char asked_at[] = "&asked_at="; /* ends a question */

int64_t peer_now_s(const struct peers *p)
{
    return clock_wall(p->opts.clock).ns / NS_PER_S;
}

static bool is_of_now(const struct peers *p, int64_t at)
{
    int64_t now = peer_now_s(p);
    return at > now - PEER_QUESTION_S && at < now + PEER_QUESTION_S;
}

static bool was_asked_now(const struct peers *p, str question)
{
    int64_t at;
    str last = question;
    for (size_t i = str_find_str(last, str_of(asked_at)); i < last.n;
         i = str_find_str(last, str_of(asked_at)))
        last = str_skip(last, i + sizeof asked_at - 1);
    return str_to_i64(last, &at) && is_of_now(p, at);
}

bool peer_is_sealed(const struct peers *p, str question, str given)
{
    MAGIC_CHECK(p, PEERS_MAGIC);
    char ours[PEER_SEAL_BYTES + 1];
    seal_question(p, question, ours);
    bool fine = sha256_keyed_eq(ours, given) && was_asked_now(p, question);
    if (fine)
        peer_count(p, PEER_GIVEN);
    return fine;
}

void peer_value_seal(const struct peers *p, const struct peer_value *v,
                     char out[PEER_SEAL_BYTES + 1])
{
    MAGIC_CHECK(p, PEERS_MAGIC);
    INVARIANT(v->of_count <= PEER_PARTS_MAX);
    char lengths[PEER_PARTS_MAX][4], at[8];
    str parts[2 * PEER_PARTS_MAX + 3] = { STR("leave\n") };
    unsigned n = 1;
    for (unsigned i = 0; i < v->of_count; i++) {
        put_be32(lengths[i], (uint32_t)v->of[i].n);
        parts[n++] = (str){ .p = lengths[i], .n = sizeof lengths[i] };
        parts[n++] = v->of[i];
    }
    put_be64(at, (uint64_t)v->sealed_s);
    parts[n++] = (str){ .p = at, .n = sizeof at };
    parts[n++] = v->bytes;
    seal(p, parts, n, out);
}

bool peer_value_is_sealed(const struct peers *p, int64_t sealed_s,
                          const char ours[PEER_SEAL_BYTES + 1], str given)
{
    MAGIC_CHECK(p, PEERS_MAGIC);
    return sha256_keyed_eq(ours, given) && is_of_now(p, sealed_s);
}

void peer_refused(const struct peers *p)
{
    MAGIC_CHECK(p, PEERS_MAGIC);
    peer_count(p, PEER_REFUSED);
}

/* ---- notes ---- */

void peer_note(struct peers *p, const struct peer_noting *n)
{
    MAGIC_CHECK(p, PEERS_MAGIC);
    const struct flight_note note = { .id = n->id,
                                      .text = str_of(p->address),
                                      .ttl_ms = n->ttl_ms < PEER_NOTE_MS_MAX ? n->ttl_ms
                                                                             : PEER_NOTE_MS_MAX,
                                      .yields = n->yields,
                                      .done = n->done,
                                      .ctx = n->ctx };
    flight_shared_note(p->opts.shared, &note);
}

/* ---- asking ---- */

static void ask_end(struct peer_ask *a, err why)
{
    struct peer_work *w = a->work;
    a->work = NULL;
    a->why = why;
    free(w);
    a->done(a);
}

static void fail_run(struct task *t)
{
    struct peer_work *w = CONTAINER_OF(t, struct peer_work, task);
    ask_end(w->ask, w->ask->why);
}

static void peer_fail(struct peer_work *w, err why)
{
    w->ask->why = why;
    w->task.run = fail_run;
    home_post(loop_pool(w->ask->peers->opts.loop), &w->task);
}

/* Pool: the body may be large. A server that ends, or has no memory left, refuses before it knows
 * who asks: its 503 is believed without a seal, for it costs no more than being asked again. */
static void verify_run(struct task *t)
{
    struct peer_work *w = CONTAINER_OF(t, struct peer_work, task);
    struct peer_ask *a = w->ask;
    char ours[PEER_SEAL_BYTES + 1];
    peer_seal(a->peers, str_of(w->seal), w->call.status, w->call.reply_body, ours);
    bool fine = sha256_keyed_eq(ours, http_call_header(&w->call, PEER_FIELD));
    if (fine) {
        a->status = w->call.status;
        a->body = w->call.reply_body;
        if (a->status == 200)
            peer_count(a->peers, PEER_FOUND);
    }
    ask_end(a, fine ? ERR_OK : w->call.status == 503 ? ERR_UNAVAILABLE : ERR_NOT_FOUND);
}

/* Loop. */
static void called(struct http_call *call, err why)
{
    struct peer_work *w = CONTAINER_OF(call, struct peer_work, call);
    if (why != ERR_OK) {
        peer_fail(w, why == ERR_SHUTDOWN || why == ERR_LIMIT ? why : ERR_UNAVAILABLE);
        return;
    }
    w->task.run = verify_run;
    home_post(loop_pool(w->ask->peers->opts.loop), &w->task);
}

/* Loop. */
static void call_start(struct peer_work *w, str address)
{
    struct peer_ask *a = w->ask;
    struct peers *p = a->peers;
    mono soon = mono_add_ms(clock_mono(p->opts.clock), PEER_MS);
    str question =
        arena_printf(a->arena, "%.*s&nonce=%016" PRIx64 "%016" PRIx64 "%s%" PRId64,
                     STR_ARG(a->question), entropy_u64(), entropy_u64(), asked_at, peer_now_s(p));
    str url = arena_printf(a->arena, "%.*s%.*s", STR_ARG(address), STR_ARG(question));
    if (question.p == NULL || url.p == NULL) {
        peer_fail(w, ERR_LIMIT);
        return;
    }
    seal_question(p, question, w->seal);
    w->header = (struct http_pair){ .name = STR(PEER_FIELD), .value = str_of(w->seal) };
    w->call = (struct http_call){ .method = "GET",
                                  .url = url,
                                  .headers = &w->header,
                                  .headers_count = 1,
                                  .reply_bytes_max = a->reply_bytes_max,
                                  .deadline = soon.ns < a->deadline.ns ? soon : a->deadline,
                                  .arena = a->arena,
                                  .done = called };
    peer_count(p, PEER_ASKED);
    http_call_start(p->opts.client, &w->call);
}

/* Loop. A note of our own: what it named is gone here. One that leads elsewhere than to a server
 * was written by nobody who may. */
static void peer_noted(void *ctx, err why, str address)
{
    struct peer_work *w = ctx;
    bool ours = why == ERR_OK && str_eq(address, str_of(w->ask->peers->address));
    if (why != ERR_OK || ours || !peer_is_address(address))
        peer_fail(w, why == ERR_SHUTDOWN ? why : ERR_NOT_FOUND);
    else
        call_start(w, address);
}

void peer_ask_start(struct peer_ask *a)
{
    MAGIC_CHECK(a->peers, PEERS_MAGIC);
    struct peer_work *w = calloc(1, sizeof *w);
    INVARIANT(w != NULL);
    w->ask = a;
    a->work = w;
    flight_shared_noted(a->peers->opts.shared, a->id, peer_noted, w);
}
