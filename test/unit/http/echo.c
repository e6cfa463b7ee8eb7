#include "echo.h"
#include "odd_transport.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIZE_BYTES_MAX = 1 << 30 };

struct echo {
    struct http_server *server;
    struct http_ready *ready;
    pthread_mutex_t lock;
    struct http_exchange *parked[ECHO_PARKED_MAX];
    unsigned parked_count;
    sem_t blocked, go_on;
    atomic_uint finished, never_answered, early;
};

static int64_t ns_of(clockid_t id)
{
    struct timespec t;
    INVARIANT(clock_gettime(id, &t) == 0);
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}
static store_time store_now(struct clock *c)
{
    (void)c;
    return (store_time){ .ns = ns_of(CLOCK_REALTIME) };
}
static mono mono_now(struct clock *c)
{
    (void)c;
    return (mono){ .ns = ns_of(CLOCK_MONOTONIC) };
}
static wall wall_now(struct clock *c)
{
    (void)c;
    return (wall){ .ns = ns_of(CLOCK_REALTIME) };
}

struct clock *echo_clock(void)
{
    static struct clock clock = { .store_now = store_now,
                                  .mono_now = mono_now,
                                  .wall_now = wall_now };
    return &clock;
}

static void text_type(struct http_exchange *x)
{
    http_reply_header(x, STR("Content-Type"), STR("text/plain"));
}

static str or_absent(str s)
{
    return s.p == NULL ? STR("(absent)") : s;
}

static void get_echo(struct http_exchange *x, void *app)
{
    (void)app;
    str q = STR("(absent)"), list = STR("(absent)"), host = STR("(absent)");
    (void)http_query(x, "q", &q);
    (void)http_header(x, "x-list", &list);
    (void)http_header(x, "host", &host);
    text_type(x);
    str a = http_param(x, "a"), b = or_absent(http_param(x, "b")), id = http_request_id(x),
        peer = http_peer(x);
    str target = http_target(x), query = http_query_raw(x);
    str encoding = or_absent(http_common(x)->accept_encoding);
    http_answer(
        x, 200,
        arena_printf(
            http_arena(x),
            "method=%s\ntarget=%.*s\nquery=%.*s\na=%.*s\na_bytes=%zu\nb=%.*s\nq=%.*s\nlist=%.*s\n"
            "encoding=%.*s\nid=%.*s\npeer=%.*s\nconditional=%d\nhost=%.*s\n",
            http_method_name(x), STR_ARG(target), STR_ARG(query), STR_ARG(a), a.n, STR_ARG(b),
            STR_ARG(q), STR_ARG(list), STR_ARG(encoding), STR_ARG(id), STR_ARG(peer),
            http_common(x)->any_conditional, STR_ARG(host)));
}

static void get_rest(struct http_exchange *x, void *app)
{
    (void)app;
    http_answer(x, 200, http_param(x, "rest"));
}

/* Room for {n} bytes; NULL: n is no number, or too large a one. */
static char *read_size(struct http_exchange *x, uint64_t *n)
{
    bool fine = str_to_u64(http_param(x, "n"), n) && *n <= SIZE_BYTES_MAX;
    return fine ? arena_alloc(http_arena(x), *n + 1) : NULL;
}

static void get_size(struct http_exchange *x, void *app)
{
    (void)app;
    uint64_t n = 0;
    char *body = read_size(x, &n);
    if (body == NULL) {
        http_answer(x, 400, STR("n is no size\n"));
        return;
    }
    memset(body, 'x', n);
    http_answer(x, 200, (str){ .p = body, .n = n });
}

static void get_wide(struct http_exchange *x, void *app)
{
    (void)app;
    uint64_t n = 0;
    char *value = read_size(x, &n);
    if (value == NULL) {
        http_answer(x, 400, STR("n is no size\n"));
        return;
    }
    memset(value, 'w', n);
    http_reply_header(x, STR("X-Wide"), (str){ .p = value, .n = n });
    http_answer(x, 200, STR("wide\n"));
}

static void get_park(struct http_exchange *x, void *app)
{
    struct echo *e = app;
    if (http_draining(x)) {
        http_answer(x, 503, STR("draining\n"));
        return;
    }
    http_defer(x);
    pthread_mutex_lock(&e->lock);
    INVARIANT(e->parked_count < ECHO_PARKED_MAX);
    e->parked[e->parked_count++] = x;
    pthread_mutex_unlock(&e->lock);
}

static void get_block(struct http_exchange *x, void *app)
{
    struct echo *e = app;
    INVARIANT(sem_post(&e->blocked) == 0);
    INVARIANT(sem_wait(&e->go_on) == 0);
    http_answer(x, 200, STR("went on\n"));
}

static void post_release(struct http_exchange *x, void *app)
{
    echo_release(app);
    http_answer(x, 200, STR("released\n"));
}

static void get_not_modified(struct http_exchange *x, void *app)
{
    (void)app;
    http_answer(x, 304, (str){ .p = NULL, .n = 1234 });
}

static void post_count(struct http_exchange *x, void *app)
{
    (void)app;
    str body = http_body(x);
    unsigned long sum = 0;
    for (size_t i = 0; i < body.n; i++)
        sum += (unsigned char)body.p[i];
    http_answer(x, 200, arena_printf(http_arena(x), "%zu %lu\n", body.n, sum));
}

static void answer_empty(struct http_exchange *x, void *app)
{
    (void)app;
    http_answer(x, 204, STR(""));
}

static void answer_fine(struct http_exchange *x, void *app)
{
    (void)app;
    http_answer(x, 200, STR("fine\n"));
}

static bool early(struct http_exchange *x, void *app)
{
    struct echo *e = app;
    if (!str_eq(http_target(x), STR("/ready")))
        return false;
    atomic_fetch_add_explicit(&e->early, 1, memory_order_relaxed);
    str note;
    if (http_query(x, "note", &note))
        http_reply_header(x, STR("X-Note"), note);
    http_answer_ready(x, e->ready);
    return true;
}

static bool authorize(struct http_exchange *x, const char *permission, void *app)
{
    (void)app;
    if (permission == NULL)
        return true;
    http_answer(x, 403, STR("not allowed\n"));
    return false;
}

static void refuse(struct http_exchange *x, int status, const char *type, str detail, void *app)
{
    (void)app;
    text_type(x);
    http_answer(x, status, arena_printf(http_arena(x), "%s: %.*s\n", type, STR_ARG(detail)));
}

static void finished(struct http_exchange *x, int status, int64_t ns, uint64_t bytes_sent,
                     void *app)
{
    (void)x, (void)bytes_sent;
    struct echo *e = app;
    INVARIANT(ns >= 0);
    atomic_fetch_add_explicit(status == 0 ? &e->never_answered : &e->finished, 1,
                              memory_order_relaxed);
}

static const struct http_route routes[] = {
    { HTTP_GET, "/echo/{a}[/{b}]", get_echo, .label = "echo", .pool = true },
    { HTTP_GET, "/rest/{+rest}", get_rest, .label = "rest", .pool = true },
    { HTTP_GET, "/size/{n}", get_size, .label = "size", .pool = true },
    { HTTP_GET, "/wide/{n}", get_wide, .label = "wide", .pool = true },
    { HTTP_GET, "/park", get_park, .label = "park", .pool = true },
    { HTTP_GET, "/block", get_block, .label = "block" },
    { HTTP_POST, "/release", post_release, .label = "release" },
    { HTTP_GET, "/not-modified", get_not_modified, .label = "not_modified", .pool = true },
    { HTTP_POST, "/count", post_count, .body_bytes_max = ECHO_BODY_BYTES_MAX, .label = "count",
      .pool = true },
    { HTTP_PUT, "/forbidden", answer_fine, .body_bytes_max = ECHO_BODY_BYTES_MAX,
      .permission = "page.write" },
    { HTTP_DELETE, "/thing", answer_empty, .label = "thing", .pool = true },
    { HTTP_GET, "/admin/only", answer_fine, .admin = true, .label = "admin" },
    { HTTP_GET, "/alive", answer_fine, .label = "health" },
    { .pattern = NULL },
};

static unsigned pool_threads, unix_mode;
static const char *unix_address;
static const struct http_transport *echo_transport_set;

void echo_transport(const struct http_transport *t)
{
    echo_transport_set = t;
}

void echo_unix(const char *address, unsigned mode)
{
    unix_address = address;
    unix_mode = mode;
}

void echo_pool(unsigned threads)
{
    pool_threads = threads;
}

struct echo *echo_start(const struct http_limits *limits)
{
    struct echo *e = calloc(1, sizeof *e);
    INVARIANT(e != NULL);
    INVARIANT(pthread_mutex_init(&e->lock, NULL) == 0);
    INVARIANT(sem_init(&e->blocked, 0, 0) == 0);
    INVARIANT(sem_init(&e->go_on, 0, 0) == 0);
    const struct http_pair headers[] = { { STR("Content-Type"), STR("text/plain") },
                                         { STR("ETag"), STR("\"1/2\"") } };
    const struct http_transport *transport = odd_transport();
    if (echo_transport_set != NULL)
        transport = echo_transport_set;
    e->ready = http_ready_new(NULL, 200, headers, COUNT_OF(headers), STR("ready\n"));
    const struct http_listen listens[] = {
        { .address = "127.0.0.1", .content = true, .transport = transport },
        { .address = "127.0.0.1", .admin = true, .transport = transport },
        { .address = unix_address, .mode = unix_mode, .content = true, .transport = transport }
    };
    const struct http_route *tables[] = { routes };
    struct err_note note = { "" };
    const struct http_server_opts opts = {
        .listens = listens,
        .listens_count = unix_address != NULL ? 3 : 2,
        .tables = tables,
        .tables_count = 1,
        .limits = *limits,
        .clock = echo_clock(),
        .pool_threads = pool_threads,
        .hooks = { .app = e,
                   .early = early,
                   .authorize = authorize,
                   .refuse = refuse,
                   .finished = finished },
    };
    INVARIANT(http_server_new(&opts, &e->server, &note) == ERR_OK);
    INVARIANT(http_server_start(e->server, &note) == ERR_OK);
    return e;
}

void echo_stop(struct echo **ep)
{
    struct echo *e = *ep;
    http_server_drain(e->server);
    echo_release(e);
    http_server_free(&e->server);
    http_ready_unref(&e->ready);
    pthread_mutex_destroy(&e->lock);
    sem_destroy(&e->blocked);
    sem_destroy(&e->go_on);
    free(e);
    *ep = NULL;
}

uint16_t echo_port(const struct echo *e, unsigned listen_index)
{
    return http_server_port(e->server, listen_index);
}

struct http_server *echo_server(struct echo *e)
{
    return e->server;
}

unsigned echo_parked(struct echo *e)
{
    pthread_mutex_lock(&e->lock);
    unsigned count = e->parked_count;
    pthread_mutex_unlock(&e->lock);
    return count;
}

void echo_release(struct echo *e)
{
    struct http_exchange *free_now[ECHO_PARKED_MAX];
    pthread_mutex_lock(&e->lock);
    unsigned count = e->parked_count;
    memcpy(free_now, e->parked, count * sizeof free_now[0]);
    e->parked_count = 0;
    pthread_mutex_unlock(&e->lock);
    for (unsigned i = 0; i < count; i++) {
        if (str_eq(http_query_raw(free_now[i]), STR("ready")))
            http_answer_ready(free_now[i], e->ready);
        else
            http_answer(free_now[i], 200, STR("parked\n"));
    }
}

void echo_blocked(struct echo *e)
{
    INVARIANT(sem_wait(&e->blocked) == 0);
}

void echo_unblock(struct echo *e)
{
    INVARIANT(sem_post(&e->go_on) == 0);
}

struct echo_counts echo_counts(struct echo *e)
{
    return (struct echo_counts){ .finished = atomic_load(&e->finished),
                                 .never_answered = atomic_load(&e->never_answered),
                                 .early = atomic_load(&e->early) };
}
