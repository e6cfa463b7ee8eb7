/* storm_client.c - many requests at one instant, or a few connections asking one after the other;
 * times of each.
 *
 *   storm_client storm PORT HOST PATH COUNT                 COUNT connections are opened; then one
 *                                                           request on each, at once
 *   storm_client pace PORT HOST PATH CONNECTIONS MS [FILE]  one after the other on each connection,
 *                                                           for so long; FILE: "end duration" of
 *                                                           each, a line
 *
 * PATH may be @FILE: the paths in its lines, in turn.
 * The server is on 127.0.0.1. Prints one line of JSON: instants are CLOCK_MONOTONIC in
 * microseconds, comparable with those of other processes of this machine; storm's quantiles are
 * instants at which an answer was complete, pace's are durations. One thread, epoll; an answer ends
 * where its Content-Length says. Ends after 120 s at the latest. */
#include "base/check.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
    HEAD_BYTES_MAX = 4096,
    REQUEST_BYTES_MAX = 2048,
    PATHS_BYTES_MAX = 1 << 20,
    READ_BYTES = 256 << 10,
    EVENTS_MAX = 512,
    GIVE_UP_S = 120,
    SAMPLES_MAX = 4 << 20
};

struct connection {
    int fd;
    size_t head_n, body_left;
    bool in_body, busy;
    int status;
    int64_t began_us;
    char head[HEAD_BYTES_MAX];
};

struct run {
    const char *host;
    str paths, rest; /* lines; those of this round */
    char *bytes;     /* READ_BYTES */
    unsigned count, open;
    struct connection *connections;
    int epoll;
    int64_t until_us; /* pace: no request is begun after it; storm: 0 */
    int64_t *samples;
    FILE *each; /* NULL: not wanted */
    size_t samples_count;
    uint64_t fine, other, broken;
};

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "storm_client: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- one connection ---- */

static void dial(struct run *r, struct connection *c, uint16_t port)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int on = 1;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof to) != 0)
        die("connect");
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* only speed */
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };
    if (epoll_ctl(r->epoll, EPOLL_CTL_ADD, c->fd, &e) != 0)
        die("epoll_ctl");
    r->open++;
}

static void hang_up(struct run *r, struct connection *c)
{
    close(c->fd);
    c->fd = -1;
    c->busy = false;
    r->open--;
}

static void ask(struct run *r, struct connection *c)
{
    char text[REQUEST_BYTES_MAX];
    if (r->rest.n == 0)
        r->rest = r->paths;
    str path = str_split(&r->rest, '\n');
    int n = snprintf(text, sizeof text, "GET %.*s HTTP/1.1\r\nHost: %s\r\n\r\n", STR_ARG(path),
                     r->host);
    c->began_us = now_us();
    c->busy = true;
    c->in_body = false;
    c->head_n = 0;
    if (n < 0 || (size_t)n >= sizeof text || send(c->fd, text, (size_t)n, MSG_NOSIGNAL) != n) {
        r->broken++;
        hang_up(r, c);
    }
}

/* The length the head tells, or SIZE_MAX. */
static size_t head_length(str head)
{
    while (head.n > 0) {
        str line = str_split(&head, '\n');
        str name = str_split(&line, ':');
        uint64_t n;
        if (str_eq_nocase(name, STR("content-length")) &&
            str_to_u64(str_trim(str_split(&line, '\r')), &n))
            return (size_t)n;
    }
    return SIZE_MAX;
}

static void answered(struct run *r, struct connection *c)
{
    int64_t now = now_us();
    c->busy = false;
    if (c->status == 200)
        r->fine++;
    else
        r->other++;
    if (r->each != NULL)
        fprintf(r->each, "%lld %lld\n", (long long)now, (long long)(now - c->began_us));
    if (r->samples_count < SAMPLES_MAX)
        r->samples[r->samples_count++] = r->until_us > 0 ? now - c->began_us : now;
    if (r->until_us > now)
        ask(r, c);
    else
        hang_up(r, c);
}

/* Takes what came; false: no answer as it should be. */
static bool take(struct run *r, struct connection *c, const char *p, size_t n)
{
    if (!c->in_body) {
        size_t room = sizeof c->head - c->head_n;
        size_t part = n < room ? n : room;
        memcpy(c->head + c->head_n, p, part);
        str head = { .p = c->head, .n = c->head_n + part };
        size_t end = str_find_str(head, STR("\r\n\r\n"));
        if (end == head.n && part == room)
            return false;
        size_t used = end == head.n ? part : end + 4 - c->head_n;
        c->head_n += used;
        p += used;
        n -= used;
        if (end == head.n)
            return true;
        str code = str_take(str_skip(head, sizeof "HTTP/1.1 " - 1), 3);
        uint64_t status = 0;
        (void)str_to_u64(code, &status); /* 0 is no status: counted as another */
        c->status = (int)status;
        c->body_left = head_length(str_take(head, end));
        c->in_body = true;
        if (c->body_left == SIZE_MAX)
            return false;
    }
    if (n > c->body_left)
        return false;
    c->body_left -= n;
    if (c->body_left == 0)
        answered(r, c);
    return true;
}

static void ready(struct run *r, struct connection *c)
{
    ssize_t n = recv(c->fd, r->bytes, READ_BYTES, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    bool was_busy = c->busy;
    bool fine = n > 0 && take(r, c, r->bytes, (size_t)n);
    if (!fine && c->fd >= 0) {
        r->broken += was_busy;
        hang_up(r, c);
    }
}

/* ---- the run ---- */

static void serve_answers(struct run *r)
{
    struct epoll_event events[EVENTS_MAX];
    int64_t give_up_us = now_us() + (int64_t)GIVE_UP_S * 1000000;
    while (r->open > 0 && now_us() < give_up_us) {
        int n = epoll_wait(r->epoll, events, EVENTS_MAX, 100);
        for (int i = 0; i < n; i++)
            ready(r, events[i].data.ptr);
    }
    r->broken += r->open;
}

static int by_value(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static int64_t quantile(const struct run *r, double q)
{
    if (r->samples_count == 0)
        return 0;
    size_t i = (size_t)(q * (double)(r->samples_count - 1) + 0.5);
    return r->samples[i];
}

static void print_run(struct run *r, int64_t began_us, int64_t sent_us)
{
    qsort(r->samples, r->samples_count, sizeof r->samples[0], by_value);
    printf("{\"began_us\":%lld,\"sent_us\":%lld,\"fine\":%llu,\"other\":%llu,\"broken\":%llu,"
           "\"first_us\":%lld,"
           "\"p50_us\":%lld,\"p99_us\":%lld,\"max_us\":%lld}\n",
           (long long)began_us, (long long)sent_us, (unsigned long long)r->fine,
           (unsigned long long)r->other, (unsigned long long)r->broken, (long long)quantile(r, 0),
           (long long)quantile(r, 0.5), (long long)quantile(r, 0.99), (long long)quantile(r, 1));
}

static unsigned number(const char *text, unsigned max)
{
    uint64_t n;
    if (!str_to_u64(str_of(text), &n) || n == 0 || n > max) {
        fprintf(stderr, "storm_client: not a number from 1 to %u: %s\n", max, text);
        exit(2);
    }
    return (unsigned)n;
}

/* The lines of PATH or of @FILE. */
static str read_paths(const char *path)
{
    if (path[0] != '@')
        return str_of(path);
    char *text = malloc(PATHS_BYTES_MAX);
    FILE *file = fopen(path + 1, "rb");
    if (text == NULL || file == NULL)
        die(path);
    size_t n = fread(text, 1, PATHS_BYTES_MAX, file);
    fclose(file);
    while (n > 0 && text[n - 1] == '\n')
        n--;
    return (str){ .p = text, .n = n };
}

int main(int argc, char **argv)
{
    bool pace = argc > 1 && strcmp(argv[1], "pace") == 0;
    if (argc < 6 || (pace && argc < 7) || (!pace && strcmp(argv[1], "storm") != 0)) {
        fprintf(stderr, "usage: see the head of bench/storm_client.c\n");
        return 2;
    }
    struct rlimit files = { 0 };
    (void)getrlimit(RLIMIT_NOFILE, &files); /* too few are told by connect */
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    uint16_t port = (uint16_t)number(argv[2], UINT16_MAX);
    struct run r = { .host = argv[3],
                     .paths = read_paths(argv[4]),
                     .count = number(argv[5], 100000),
                     .epoll = epoll_create1(0),
                     .bytes = malloc(READ_BYTES) };
    r.connections = calloc(r.count, sizeof r.connections[0]);
    r.samples = calloc(pace ? SAMPLES_MAX : r.count, sizeof r.samples[0]);
    if (argc > 7 && (r.each = fopen(argv[7], "w")) == NULL)
        die(argv[7]);
    if (r.connections == NULL || r.samples == NULL || r.bytes == NULL || r.epoll < 0)
        die("set-up");
    for (unsigned i = 0; i < r.count; i++)
        dial(&r, &r.connections[i], port);
    int64_t began_us = now_us();
    r.until_us = pace ? began_us + (int64_t)number(argv[6], 3600000) * 1000 : 0;
    for (unsigned i = 0; i < r.count; i++)
        ask(&r, &r.connections[i]);
    int64_t sent_us = now_us();
    serve_answers(&r);
    print_run(&r, began_us, sent_us);
    if (r.each != NULL && fclose(r.each) != 0)
        die(argv[7]);
    if (argv[4][0] == '@')
        free((char *)(uintptr_t)r.paths.p);
    free(r.bytes);
    free(r.connections);
    free(r.samples);
    return 0;
}
