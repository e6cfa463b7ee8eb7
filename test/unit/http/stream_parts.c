#include "stream_parts.h"

#include "echo.h"
#include "odd_transport.h"
#include "wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

struct flow {
    struct bench *bench;
    struct http_exchange *x;
    uint64_t n, at, piece, fail, end;
    bool lent, over;
    unsigned pending, told, max; /* of a feed, under the lock */
};

/* ---- the streams ---- */

static enum http_pulled text_said(const struct flow *k)
{
    return k->at == k->n || k->at == k->end ? HTTP_PULL_END : HTTP_PULL_MORE;
}

static enum http_pulled text_pull(void *ctx, struct http_pull *p)
{
    struct flow *k = ctx;
    uint64_t end = k->n < k->end ? k->n : k->end,
             n = end - k->at < k->piece ? end - k->at : k->piece;
    atomic_fetch_add(&k->bench->pulls, 1);
    if (k->over)
        atomic_store(&k->bench->unordered, true);
    if (k->at >= k->fail)
        return HTTP_PULL_FAILED;
    if (!k->lent && n > HTTP_PULL_ROOM_BYTES)
        n = HTTP_PULL_ROOM_BYTES;
    const char *from = k->bench->letters + k->at % 26;
    if (!k->lent && n > 0)
        memcpy(p->room, from, n);
    p->piece = (str){ .p = k->lent ? from : p->room, .n = n };
    k->at += n;
    atomic_fetch_add(&k->bench->given, n);
    return text_said(k);
}

static enum http_pulled feed_pull(void *ctx, struct http_pull *p)
{
    struct flow *k = ctx;
    struct bench *b = k->bench;
    size_t n = 0;
    atomic_fetch_add(&b->pulls, 1);
    if (k->over)
        atomic_store(&b->unordered, true);
    pthread_mutex_lock(&b->lock);
    for (; k->pending > 0 && n < HTTP_PULL_ROOM_BYTES - 16 && k->told < k->max; k->pending--) {
        memcpy(p->room + n, "event\n", 6);
        n += 6;
        k->told++;
    }
    bool more = k->pending > 0 && k->told < k->max, ends = k->told == k->max;
    pthread_mutex_unlock(&b->lock);
    if (p->ending) {
        atomic_fetch_add(&b->ended_told, 1);
        memcpy(p->room + n, "bye\n", 4);
        n += 4;
    }
    p->piece = (str){ .p = p->room, .n = n };
    atomic_fetch_add(&b->given, n);
    return ends || p->ending ? HTTP_PULL_END : more ? HTTP_PULL_MORE : HTTP_PULL_LATER;
}

/* Of three each first wakes the one but next to it, which is not over yet. */
static void feed_drop(struct flow *k)
{
    struct bench *b = k->bench;
    pthread_mutex_lock(&b->lock);
    for (unsigned i = 0; i < b->feeds_count; i++) {
        if (b->feeds[i] == k) {
            b->feeds[i] = b->feeds[--b->feeds_count];
            break;
        }
    }
    if (b->feeds_count > 1 && b->drops++ % 3 == 0)
        http_wake(b->feeds[b->feeds_count - 2]->x);
    pthread_mutex_unlock(&b->lock);
}

static void stream_over(void *ctx)
{
    struct flow *k = ctx;
    INVARIANT(!k->over);
    INVARIANT(http_state(k->x) == k); /* x and its arena are there */
    k->over = true;
    feed_drop(k);
    atomic_fetch_add(&k->bench->overs, 1);
}

static const struct http_stream text_stream = { .pull = text_pull, .over = stream_over };
static const struct http_stream feed_stream = { .pull = feed_pull,
                                                .over = stream_over,
                                                .endless = true };

/* ---- the handlers ---- */

static uint64_t number(struct http_exchange *x, const char *name, uint64_t otherwise)
{
    str text;
    uint64_t n;
    return http_query(x, name, &text) && str_to_u64(text, &n) ? n : otherwise;
}

/* NULL: there is no memory, and x is answered. */
static struct flow *flow_new(struct http_exchange *x, struct bench *b)
{
    struct flow *k = arena_calloc(http_arena(x), 1, sizeof *k);
    if (k == NULL) {
        http_answer(x, 503, STR(""));
        return NULL;
    }
    k->bench = b;
    k->x = x;
    http_state_set(x, k);
    atomic_fetch_add(&b->begun, 1);
    return k;
}

static void get_text(struct http_exchange *x, void *app)
{
    struct flow *k = flow_new(x, app);
    if (k == NULL)
        return;
    k->n = number(x, "n", 0);
    k->piece = number(x, "piece", 1000);
    k->fail = number(x, "fail", UINT64_MAX);
    k->end = number(x, "end", UINT64_MAX);
    k->lent = number(x, "lent", 0) != 0;
    INVARIANT(k->piece <= PIECE_BYTES_MAX);
    uint64_t length = number(x, "length", UINT64_MAX);
    http_reply_header(x, STR("Content-Type"), STR("text/plain"));
    http_answer_pull(x, 200, length == UINT64_MAX ? -1 : (int64_t)length, &text_stream, k);
}

static void feed_begin(struct http_exchange *x, struct bench *b)
{
    struct flow *k = flow_new(x, b);
    if (k == NULL)
        return;
    k->max = (unsigned)number(x, "max", UINT32_MAX);
    pthread_mutex_lock(&b->lock);
    INVARIANT(b->feeds_count < FEEDS_MAX);
    b->feeds[b->feeds_count++] = k;
    pthread_mutex_unlock(&b->lock);
    http_answer_pull(x, 200, -1, &feed_stream, k);
}

static void get_feed(struct http_exchange *x, void *app)
{
    feed_begin(x, app);
}

static void get_late(struct http_exchange *x, void *app)
{
    struct bench *b = app;
    http_defer(x);
    atomic_store(&b->late, x);
}

void bench_late(struct bench *b)
{
    struct http_exchange *x = atomic_exchange(&b->late, NULL);
    INVARIANT(x != NULL);
    feed_begin(x, b);
}

static void get_plain(struct http_exchange *x, void *app)
{
    (void)app;
    http_answer(x, 200, STR("plain\n"));
}

static void refuse(struct http_exchange *x, int status, const char *type, str detail, void *app)
{
    struct bench *b = app;
    atomic_fetch_add(&b->refused, 1);
    http_answer(x, status, arena_printf(http_arena(x), "%s: %.*s\n", type, STR_ARG(detail)));
}

static void finished(struct http_exchange *x, int status, int64_t ns, uint64_t bytes_sent,
                     void *app)
{
    struct bench *b = app;
    const struct flow *k = http_state(x);
    INVARIANT(ns >= 0);
    if (k == NULL)
        return;
    if (!k->over)
        atomic_store(&b->unordered, true);
    atomic_store(&b->bytes, bytes_sent);
    atomic_store(&b->status, status);
    atomic_fetch_add(&b->finished, 1);
}

static const struct http_route routes[] = {
    { HTTP_GET, "/text", get_text, .label = "text" },
    { HTTP_GET, "/feed", get_feed, .label = "feed" },
    { HTTP_GET, "/late", get_late, .label = "late" },
    { HTTP_GET, "/pool/text", get_text, .label = "pool_text", .pool = true },
    { HTTP_GET, "/pool/feed", get_feed, .label = "pool_feed", .pool = true },
    { HTTP_GET, "/plain", get_plain, .label = "plain" },
    { .pattern = NULL },
};

/* ---- the server ---- */

static mono mono_now(struct clock *c)
{
    struct bench *b = CONTAINER_OF(c, struct bench, clock);
    return (mono){ .ns = clock_mono(echo_clock()).ns + atomic_load(&b->ahead_ns) };
}

void bench_begin(struct bench *b, const struct http_limits *limits)
{
    const struct http_listen listens[] = {
        { .address = "127.0.0.1", .content = true, .transport = odd_transport() }
    };
    const struct http_route *tables[] = { routes };
    struct err_note note = { "" };
    memset(b, 0, sizeof *b);
    INVARIANT(pthread_mutex_init(&b->lock, NULL) == 0);
    b->letters = malloc(PIECE_BYTES_MAX + 26);
    INVARIANT(b->letters != NULL);
    for (unsigned i = 0; i < PIECE_BYTES_MAX + 26; i++)
        b->letters[i] = (char)('a' + i % 26);
    b->clock = *echo_clock();
    b->clock.mono_now = mono_now;
    const struct http_server_opts opts = {
        .listens = listens,
        .listens_count = 1,
        .tables = tables,
        .tables_count = 1,
        .limits = *limits,
        .clock = &b->clock,
        .pool_threads = 2,
        .hooks = { .app = b, .refuse = refuse, .finished = finished },
    };
    INVARIANT(http_server_new(&opts, &b->server, &note) == ERR_OK);
    INVARIANT(http_server_start(b->server, &note) == ERR_OK);
    b->port = http_server_port(b->server, 0);
}

void bench_end(struct bench *b)
{
    http_server_free(&b->server);
    INVARIANT(b->feeds_count == 0);
    INVARIANT(atomic_load(&b->overs) == atomic_load(&b->begun));
    INVARIANT(atomic_load(&b->finished) == atomic_load(&b->begun));
    INVARIANT(!atomic_load(&b->unordered));
    pthread_mutex_destroy(&b->lock);
    free(b->letters);
}

void feeds_tell(struct bench *b, unsigned events)
{
    pthread_mutex_lock(&b->lock);
    for (unsigned i = 0; i < b->feeds_count; i++) {
        b->feeds[i]->pending += events;
        http_wake(b->feeds[i]->x);
    }
    pthread_mutex_unlock(&b->lock);
}

void feeds_give_up(struct bench *b)
{
    pthread_mutex_lock(&b->lock);
    for (unsigned i = 0; i < b->feeds_count; i++)
        http_give_up(b->feeds[i]->x);
    pthread_mutex_unlock(&b->lock);
}

unsigned feeds_count(struct bench *b)
{
    pthread_mutex_lock(&b->lock);
    unsigned count = b->feeds_count;
    pthread_mutex_unlock(&b->lock);
    return count;
}

/* ---- the client ---- */

int ask_as(const struct bench *b, const char *method, const char *target, const char *version)
{
    char text[512];
    int n =
        snprintf(text, sizeof text, "%s %s HTTP/%s\r\nHost: a\r\n\r\n", method, target, version);
    int fd = wire_connect(b->port);
    INVARIANT(wire_send(fd, (str){ .p = text, .n = (size_t)n }));
    return fd;
}

int ask(const struct bench *b, const char *target)
{
    return ask_as(b, "GET", target, "1.1");
}

/* How many bytes came; fewer than n: the connection ended. */
static size_t bytes_get(int fd, char *at, size_t n, struct read *out)
{
    size_t got = 0;
    while (got < n) {
        ssize_t some = recv(fd, at + got, n - got, 0);
        INVARIANT(some >= 0 || errno == ECONNRESET); /* no deadline passed */
        out->reset = out->reset || some < 0;
        if (some <= 0)
            return got;
        got += (size_t)some;
    }
    return got;
}

/* A line without its end; false: the connection ended. */
static bool line_get(int fd, char line[static 256], struct read *out)
{
    size_t n = 0;
    while (bytes_get(fd, line + n, 1, out) == 1) {
        if (++n >= 2 && line[n - 2] == '\r' && line[n - 1] == '\n') {
            line[n - 2] = 0;
            return true;
        }
        INVARIANT(n < 255);
    }
    return false;
}

static bool head_get(int fd, struct read *out)
{
    char line[256];
    if (!line_get(fd, line, out))
        return false;
    INVARIANT(strncmp(line, "HTTP/1.1 ", 9) == 0);
    uint64_t n;
    INVARIANT(str_to_u64(str_take(str_of(line + 9), 3), &n));
    out->status = (int)n;
    while (line_get(fd, line, out) && line[0] != 0) {
        if (strncasecmp(line, "Content-Length: ", 16) == 0)
            INVARIANT(str_to_i64(str_of(line + 16), &out->length));
        out->chunked = out->chunked || strcasecmp(line, "Transfer-Encoding: chunked") == 0;
        out->close = out->close || strcasecmp(line, "Connection: close") == 0;
    }
    return line[0] == 0;
}

/* False: fewer came. */
static bool body_get(int fd, uint64_t n, struct read *out)
{
    static _Thread_local char block[65536];
    while (n > 0) {
        size_t want = n < sizeof block ? (size_t)n : sizeof block;
        size_t got = bytes_get(fd, block, want, out);
        for (size_t i = 0; i < got; i++, out->body_n++) {
            out->alphabet = out->alphabet && block[i] == (char)('a' + out->body_n % 26);
            if (out->body_n < BODY_KEPT)
                out->body[out->body_n] = block[i];
        }
        n -= got;
        if (got < want)
            return false;
    }
    return true;
}

static uint64_t hex(const char *text)
{
    uint64_t n = 0;
    INVARIANT(text[0] != 0);
    for (; *text != 0; text++) {
        INVARIANT(str_hex_digit(*text) >= 0);
        n = n * 16 + (uint64_t)str_hex_digit(*text);
    }
    return n;
}

static bool chunks_get(int fd, struct read *out)
{
    char line[256];
    for (;;) {
        if (!line_get(fd, line, out))
            return false;
        uint64_t n = hex(line);
        if (n > 0 && !body_get(fd, n, out))
            return false;
        if (!line_get(fd, line, out)) /* behind a chunk, or behind the last */
            return false;
        INVARIANT(line[0] == 0);
        if (n == 0)
            return true;
    }
}

void read_answer(int fd, bool bare, struct read *out)
{
    *out = (struct read){ .length = -1, .alphabet = true };
    if (!head_get(fd, out)) {
        out->status = 0;
        return;
    }
    if (bare)
        out->whole = true;
    else if (out->chunked)
        out->whole = chunks_get(fd, out);
    else if (out->length >= 0)
        out->whole = body_get(fd, (uint64_t)out->length, out);
    else
        out->whole = !body_get(fd, UINT64_MAX, out) && !out->reset;
    INVARIANT(!out->chunked || out->length < 0);
}

void read_until(int fd, const char *text)
{
    struct read r = { .length = -1 };
    char last[64] = "";
    size_t n = strlen(text), have = 0;
    INVARIANT(n < sizeof last);
    while (have < n || memcmp(last, text, n) != 0) {
        if (have == n)
            memmove(last, last + 1, --have);
        INVARIANT(bytes_get(fd, last + have, 1, &r) == 1);
        have++;
    }
}
