#include "ready_parts.h"

#include "loop/sysclock.h"
#include "wire.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TOLD_HEADERS_MAX = 128, TARGET_BYTES_MAX = 64 };

struct parts {
    struct http_server *server;
    struct sysclock *clock;
    struct http_ready *same, *large;
    atomic_uint asked;
    pthread_mutex_t lock; /* of the rest */
    pthread_t threads[PARTS_THREADS_MAX];
    unsigned threads_count;
    char last_target[TARGET_BYTES_MAX];
};

/* What handlers can see, but for what names the connection. */
static str tell(struct http_exchange *x)
{
    struct http_pair headers[TOLD_HEADERS_MAX];
    struct arena *a = http_arena(x);
    const struct http_common *c = http_common(x);
    unsigned count = http_headers_all(x, headers, TOLD_HEADERS_MAX);
    str target = http_target(x), query = http_query_raw(x);
    str s = arena_printf(a, "%s\n%.*s\n%.*s\n%d %.*s|%.*s|%.*s|%.*s\n", http_method_name(x),
                         STR_ARG(target), STR_ARG(query), c->any_conditional, STR_ARG(c->accept),
                         STR_ARG(c->accept_encoding), STR_ARG(c->if_none_match), STR_ARG(c->range));
    for (unsigned i = 0; i < count; i++)
        s = arena_printf(a, "%.*s%.*s=%.*s\n", STR_ARG(s), STR_ARG(headers[i].name),
                         STR_ARG(headers[i].value));
    return s;
}

static void note_thread(struct parts *p)
{
    unsigned i = 0;
    pthread_mutex_lock(&p->lock);
    while (i < p->threads_count && !pthread_equal(p->threads[i], pthread_self()))
        i++;
    if (i == p->threads_count && i < PARTS_THREADS_MAX)
        p->threads[p->threads_count++] = pthread_self();
    pthread_mutex_unlock(&p->lock);
}

static bool early(struct http_exchange *x, void *app)
{
    struct parts *p = app;
    atomic_fetch_add(&p->asked, 1);
    note_thread(p);
    if (str_eq(http_target(x), STR("/same")) || str_eq(http_target(x), STR("/large"))) {
        http_answer_ready(x, str_eq(http_target(x), STR("/same")) ? p->same : p->large);
        return true;
    }
    if (!str_starts(http_target(x), STR("/told")))
        return false;
    const struct http_pair type = { STR("Content-Type"), STR("text/plain") };
    struct http_ready *told = http_ready_new(NULL, 200, &type, 1, tell(x));
    if (http_has_request_id(x)) {
        http_reply_header(x, STR("X-Request-Id"), http_request_id(x));
        http_reply_header(x, STR("X-More"), STR("more"));
    }
    http_answer_ready(x, told);
    http_ready_unref(&told);
    return true;
}

static void refuse(struct http_exchange *x, int status, const char *type, str detail, void *app)
{
    (void)app;
    http_answer(x, status, arena_printf(http_arena(x), "%s: %.*s\n", type, STR_ARG(detail)));
}

static void finished(struct http_exchange *x, int status, int64_t ns, uint64_t bytes_sent,
                     void *app)
{
    (void)status, (void)bytes_sent;
    struct parts *p = app;
    INVARIANT(ns >= 0);
    pthread_mutex_lock(&p->lock);
    if (!str_to_cstr(http_target(x), p->last_target, sizeof p->last_target))
        p->last_target[0] = 0;
    pthread_mutex_unlock(&p->lock);
}

/* A ready answer of a route, as whoever does not ask the early hook finds it. */
static void get_large(struct http_exchange *x, void *app)
{
    const struct parts *p = app;
    http_answer_ready(x, p->large);
}

static void get_health(struct http_exchange *x, void *app)
{
    (void)app;
    http_answer(x, 200, STR("fine"));
}

static const struct http_route routes[] = {
    /* labels of routes that are on every listener */
    { HTTP_GET, "/large", get_large, .label = "metrics" },
    { HTTP_GET, "/healthz", get_health, .label = "health" },
    { HTTP_GET, "/healthz/large", get_large, .label = "health" },
    { .pattern = NULL },
};
static const struct http_route *const tables[] = { routes };

struct parts *parts_start(unsigned threads, bool restless)
{
    struct parts *p = calloc(1, sizeof *p);
    char *large = malloc(PARTS_LARGE_BYTES);
    INVARIANT(p != NULL && large != NULL);
    INVARIANT(pthread_mutex_init(&p->lock, NULL) == 0);
    p->clock = sysclock_new();
    memset(large, 'x', PARTS_LARGE_BYTES);
    const struct http_pair tag = { STR("ETag"), STR("\"1\"") };
    p->same = http_ready_new(NULL, 304, &tag, 1, (str){ .n = 1234 });
    p->large = http_ready_new(NULL, 200, &tag, 1, (str){ .p = large, .n = PARTS_LARGE_BYTES });
    free(large);
    const struct http_listen listens[] = {
        [PARTS_CONTENT] = { .address = "127.0.0.1", .content = true },
        [PARTS_ADMIN] = { .address = "127.0.0.1", .admin = true }
    };
    struct err_note note = { "" };
    const struct http_server_opts opts = {
        .listens = listens,
        .listens_count = COUNT_OF(listens),
        .tables = tables,
        .tables_count = 1,
        .limits = { .threads = threads, .connections_max = PARTS_CONNECTIONS_MAX },
        .clock = sysclock_clock(p->clock),
        .restless = restless,
        .hooks = { .app = p, .early = early, .refuse = refuse, .finished = finished },
    };
    INVARIANT(http_server_new(&opts, &p->server, &note) == ERR_OK);
    INVARIANT(http_server_start(p->server, &note) == ERR_OK);
    return p;
}

void parts_stop(struct parts **pp)
{
    struct parts *p = *pp;
    http_server_free(&p->server);
    sysclock_free(&p->clock);
    http_ready_unref(&p->same);
    http_ready_unref(&p->large);
    pthread_mutex_destroy(&p->lock);
    free(p);
    *pp = NULL;
}

uint16_t parts_port(const struct parts *p, unsigned listen_index)
{
    return http_server_port(p->server, listen_index);
}

struct http_server *parts_server(struct parts *p)
{
    return p->server;
}

unsigned parts_asked(struct parts *p)
{
    return atomic_load(&p->asked);
}

unsigned parts_threads(struct parts *p)
{
    pthread_mutex_lock(&p->lock);
    unsigned count = p->threads_count;
    pthread_mutex_unlock(&p->lock);
    return count;
}

const char *parts_last_target(struct parts *p)
{
    static char target[TARGET_BYTES_MAX];
    pthread_mutex_lock(&p->lock);
    memcpy(target, p->last_target, sizeof target);
    pthread_mutex_unlock(&p->lock);
    return target;
}

/* ---- comparing ---- */

/* A head without Date and the request's id, which is given out anew each time. */
static void head_copy(const struct wire_answer *answer, char *out, size_t size)
{
    str rest = str_of(answer->head);
    size_t n = 0;
    while (rest.n > 0) {
        str line = str_split(&rest, '\n');
        if (str_starts(line, STR("Date: ")) || str_starts(line, STR("x-request-id: ")))
            continue;
        INVARIANT(n + line.n + 1 < size);
        memcpy(out + n, line.p, line.n);
        n += line.n;
        out[n++] = '\n';
    }
    out[n] = 0;
}

/* A refusal may come before the end of it. */
static void send_in_pieces(int fd, str request, size_t piece)
{
    while (request.n > 0 && wire_send(fd, str_take(request, piece)))
        request = str_skip(request, piece);
}

void parts_compare(struct parts *p, str request, size_t piece, bool head_only)
{
    static struct wire_answer answers[2];
    static char heads[2][sizeof answers[0].head];
    for (unsigned i = 0; i < 2; i++) {
        int fd = wire_connect(parts_port(p, PARTS_CONTENT));
        const int on = 1;
        INVARIANT(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
        send_in_pieces(fd, request, i == 0 ? request.n : piece);
        wire_read(fd, head_only, &answers[i]);
        close(fd);
        INVARIANT(answers[i].status != 0);
        head_copy(&answers[i], heads[i], sizeof heads[i]);
    }
    INVARIANT(strcmp(heads[0], heads[1]) == 0);
    INVARIANT(answers[0].body_n == answers[1].body_n);
    INVARIANT(strcmp(answers[0].body, answers[1].body) == 0);
}
