#include "rogue.h"

#include "../cmocka_all.h"
#include "echo.h"

#include "lib/wait.h"
#include "loop/loop.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

struct played {
    struct rogue *rogue;
    pthread_t thread;
    int fd;
    unsigned nth;
};

struct rogue {
    rogue_play *play;
    void *ctx;
    int listening;
    uint16_t port;
    pthread_t thread;
    pthread_mutex_t lock; /* of the three below */
    struct played played[ROGUE_CONNECTIONS_MAX];
    unsigned count;
    bool stopping;
    atomic_uint requests;
};

static void *play_main(void *ctx)
{
    struct played *p = ctx;
    p->rogue->play(p->rogue, p->fd, p->nth);
    pthread_mutex_lock(&p->rogue->lock);
    close(p->fd);
    p->fd = -1;
    pthread_mutex_unlock(&p->rogue->lock);
    return NULL;
}

static void *accept_main(void *ctx)
{
    struct rogue *r = ctx;
    for (int fd = accept(r->listening, NULL, NULL); fd >= 0;
         fd = accept(r->listening, NULL, NULL)) {
        pthread_mutex_lock(&r->lock);
        if (r->stopping) {
            close(fd);
        } else {
            INVARIANT(r->count < ROGUE_CONNECTIONS_MAX);
            struct played *p = &r->played[r->count++];
            *p = (struct played){ .rogue = r, .fd = fd, .nth = r->count };
            INVARIANT(pthread_create(&p->thread, NULL, play_main, p) == 0);
        }
        pthread_mutex_unlock(&r->lock);
    }
    return NULL;
}

static struct rogue *rogue_on(int listening, rogue_play *play, void *ctx)
{
    struct rogue *r = calloc(1, sizeof *r);
    INVARIANT(r != NULL && listening >= 0);
    r->play = play;
    r->ctx = ctx;
    r->listening = listening;
    INVARIANT(pthread_mutex_init(&r->lock, NULL) == 0);
    INVARIANT(listen(r->listening, 256) == 0);
    INVARIANT(pthread_create(&r->thread, NULL, accept_main, r) == 0);
    return r;
}

struct rogue *rogue_start(rogue_play *play, void *ctx)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t at_n = sizeof at;
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    INVARIANT(listening >= 0);
    INVARIANT(bind(listening, (struct sockaddr *)&at, sizeof at) == 0);
    INVARIANT(getsockname(listening, (struct sockaddr *)&at, &at_n) == 0);
    struct rogue *r = rogue_on(listening, play, ctx);
    r->port = ntohs(at.sin_port);
    return r;
}

struct rogue *rogue_start_unix(rogue_play *play, const char *path)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    INVARIANT(str_to_cstr(str_of(path), at.sun_path, sizeof at.sun_path));
    int listening = socket(AF_UNIX, SOCK_STREAM, 0);
    INVARIANT(listening >= 0);
    INVARIANT(bind(listening, (struct sockaddr *)&at, sizeof at) == 0);
    return rogue_on(listening, play, NULL);
}

void rogue_stop(struct rogue **rp)
{
    struct rogue *r = *rp;
    pthread_mutex_lock(&r->lock);
    r->stopping = true;
    for (unsigned i = 0; i < r->count; i++)
        if (r->played[i].fd >= 0)
            (void)shutdown(r->played[i].fd, SHUT_RDWR); /* the peer may be gone */
    pthread_mutex_unlock(&r->lock);
    (void)shutdown(r->listening, SHUT_RDWR); /* wakes accept */
    INVARIANT(pthread_join(r->thread, NULL) == 0);
    for (unsigned i = 0; i < r->count; i++)
        INVARIANT(pthread_join(r->played[i].thread, NULL) == 0);
    close(r->listening);
    pthread_mutex_destroy(&r->lock);
    free(r);
    *rp = NULL;
}

uint16_t rogue_port(const struct rogue *r)
{
    return r->port;
}

void *rogue_ctx(const struct rogue *r)
{
    return r->ctx;
}

unsigned rogue_connections(struct rogue *r)
{
    pthread_mutex_lock(&r->lock);
    unsigned count = r->count;
    pthread_mutex_unlock(&r->lock);
    return count;
}

unsigned rogue_requests(struct rogue *r)
{
    return atomic_load(&r->requests);
}

void rogue_count(struct rogue *r)
{
    atomic_fetch_add(&r->requests, 1);
}

/* Bytes of the body that the head promises. */
static size_t body_promised(const char *head)
{
    const char *line = strcasestr(head, "\r\ncontent-length:");
    uint64_t n = 0;
    if (line == NULL)
        return 0;
    str value = str_of(line + strlen("\r\ncontent-length:"));
    INVARIANT(str_to_u64(str_trim(str_take(value, str_find(value, '\r'))), &n));
    return (size_t)n;
}

bool rogue_read(struct rogue *r, int fd, char request[ROGUE_REQUEST_BYTES_MAX])
{
    size_t n = 0, want = SIZE_MAX;
    while (n < want) {
        size_t room = ROGUE_REQUEST_BYTES_MAX - 1 - n;
        INVARIANT(room > 0);
        ssize_t got =
            recv(fd, request + n, want == SIZE_MAX ? 1 : room, 0); /* no byte of the next one */
        if (got <= 0)
            return false;
        n += (size_t)got;
        request[n] = 0;
        if (want == SIZE_MAX && n >= 4 && memcmp(request + n - 4, "\r\n\r\n", 4) == 0)
            want = n + body_promised(request);
    }
    rogue_count(r);
    return true;
}

bool rogue_send(int fd, str bytes)
{
    while (bytes.n > 0) {
        ssize_t n = send(fd, bytes.p, bytes.n, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        bytes = str_skip(bytes, (size_t)n);
    }
    return true;
}

bool rogue_say(int fd, const char *text)
{
    return rogue_send(fd, str_of(text));
}

void rogue_wait(int fd)
{
    char bytes[4096];
    while (recv(fd, bytes, sizeof bytes, 0) > 0) {
    }
}

void rogue_settle(int fd)
{
    int unsent = 1;
    WAIT_UNTIL(ioctl(fd, SIOCOUTQ, &unsent) == 0 && unsent == 0);
}

void rogue_reset(int fd)
{
    struct linger now = { .l_onoff = 1, .l_linger = 0 };
    INVARIANT(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0);
}

/* ---- the other side ---- */

void asker_begin(struct asker *a, const struct http_client_opts *opts)
{
    *a = (struct asker){ .loop = loop_new(2) };
    struct http_client_opts o =
        opts == NULL ? (struct http_client_opts){ .user_agent = "asker" } : *opts;
    o.loop = a->loop;
    o.clock = echo_clock();
    a->client = http_client_new(&o);
}

void asker_end(struct asker *a)
{
    http_client_free(&a->client);
    loop_free(&a->loop);
}

static void done(struct http_call *call, err why)
{
    struct ask *q = call->ctx;
    struct asker *a = q->asker;
    loop_assert_here(a->loop);
    q->why = why;
    q->dones++;
    q->order = a->finished++;
    a->left--;
    if (a->left == 0)
        loop_stop(a->loop);
}

void ask_begin(struct ask *q, struct asker *a, uint16_t port, const char *path)
{
    *q = (struct ask){ .asker = a };
    arena_init(&q->arena, 64 << 20);
    (void)snprintf(q->url, sizeof q->url, "http://127.0.0.1:%u%s", port,
                   path); /* tests' paths are short */
    q->call = (struct http_call){
        .method = "GET",
        .url = str_of(q->url),
        .reply_bytes_max = 1 << 20,
        .deadline = mono_add_ms(clock_mono(echo_clock()), ROGUE_ASK_MS),
        .arena = &q->arena,
        .done = done,
        .ctx = q,
    };
}

void ask_start(struct ask *q)
{
    q->asker->left++;
    http_call_start(q->asker->client, &q->call);
}

static void overdue(void *ctx)
{
    (void)ctx;
    fail_msg("nothing happened for %d ms", ROGUE_WATCHDOG_MS);
}

void asker_run(struct asker *a)
{
    struct loop_timer *watchdog = loop_timer_new(a->loop, overdue, NULL);
    loop_timer_start(watchdog, ROGUE_WATCHDOG_MS, 0);
    loop_run(a->loop);
    loop_timer_free(&watchdog);
    assert_int_equal(a->left, 0);
}

void ask_now(struct ask *q)
{
    ask_start(q);
    asker_run(q->asker);
    assert_int_equal(q->dones, 1);
}

void ask_end(struct ask *q)
{
    arena_fini(&q->arena);
}

void ask_expect(struct asker *a, uint16_t port, const char *path, err why)
{
    struct ask q;
    ask_begin(&q, a, port, path);
    ask_now(&q);
    if (q.why != why)
        fail_msg("%s: %s (%s) instead of %s", path, err_name(q.why), q.call.note.text,
                 err_name(why));
    ask_end(&q);
}
