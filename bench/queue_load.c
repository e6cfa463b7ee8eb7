/* queue_load.c - load for queues: Palimpsest and Querator over HTTP, beanstalkd, Redis Streams,
 * RabbitMQ, JetStream.
 *
 *   queue_load WIRE PORT [OPTION]...         WIRE: http events beanstalk redis amqp nats; the
 * server is on 127.0.0.1 --producers N --consumers N            connections that put, and that take
 * and finish [1, 0] --batch N                              items of one operation [1]
 *     --bytes N                              of an item [200]
 *     --ms N                                 for so long [2000]
 *     --operations N                         or so many operations in all, or items taken:
 *                                            whichever is first
 *     --pace N                               operations a second in all, begun when it is time for
 *                                            each: what is late counts from then
 *     --queue NAME [bench]   --timeout DURATION of takes [30s]   --json   --accept-json   --key KEY
 *     --drain                                consumers end when they find the queue empty
 *
 * Prints one line of JSON: for produce, take and finish the operations, items, rate and quantiles
 * in microseconds; empty takes, refusals, seconds. Quantiles are exact to 1.6 %. One thread, epoll,
 * keep-alive. What cannot be done is said on stderr; exit 1 when a connection broke. */
#include "queue_load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum {
    CLIENTS_MAX = 4096,
    EVENTS_MAX = 256,
    READ_BYTES = 256 << 10,
    SUB_BITS = 6,
    BUCKETS = 40 << SUB_BITS
};

struct histogram {
    uint64_t count, items, max_us;
    int64_t last_us;
    uint64_t bucket[BUCKETS];
};

struct client {
    struct load_conn conn;
    bool producer, ready, waiting; /* for room to write */
    int64_t began_us;
    int64_t due_us; /* with a pace: of the next one */
    bool rests;     /* until then */
};

struct load {
    const struct load_wire *wire;
    struct load_opts opts;
    uint16_t port;
    unsigned producers, consumers, batch;
    int64_t run_ms;
    uint64_t pace; /* 0: none */
    uint64_t operations_max, operations;
    bool drain;
    int epoll;
    struct client *clients;
    unsigned open;
    int64_t began_us, until_us, ended_us;
    struct histogram of[LOAD_OPS];
    uint64_t empty, refused, broken;
};

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "queue_load: %s: %s\n", what, strerror(errno));
    exit(2);
}

/* ---- quantiles ---- */

/* 64 buckets for each power of two. */
static size_t bucket_of(uint64_t us)
{
    unsigned shift = 0;
    while (us >> shift >= (2u << SUB_BITS))
        shift++;
    size_t i = ((size_t)shift << SUB_BITS) + (size_t)(us >> shift);
    return i < BUCKETS ? i : BUCKETS - 1;
}

static uint64_t value_of(size_t bucket)
{
    size_t shift = bucket < (2u << SUB_BITS) ? 0 : (bucket >> SUB_BITS) - 1;
    return (uint64_t)(bucket - (shift << SUB_BITS)) << shift;
}

static void record(struct histogram *h, int64_t us, unsigned items)
{
    uint64_t u = us > 0 ? (uint64_t)us : 0;
    h->count++;
    h->items += items;
    h->last_us = now_us();
    h->bucket[bucket_of(u)]++;
    if (u > h->max_us)
        h->max_us = u;
}

static uint64_t quantile(const struct histogram *h, double q)
{
    uint64_t rank = (uint64_t)((double)h->count * q), seen = 0;
    for (size_t i = 0; i < BUCKETS; i++) {
        seen += h->bucket[i];
        if (seen > rank)
            return value_of(i);
    }
    return h->max_us;
}

/* ---- for the wires ---- */

void load_drop(struct load_conn *c, size_t n)
{
    INVARIANT(n <= c->in.n);
    memmove(c->in.p, c->in.p + n, c->in.n - n);
    c->in.n -= n;
}

bool load_line(str s, str *line, size_t *n)
{
    size_t end = str_find_str(s, STR("\r\n"));
    if (end == s.n)
        return false;
    *line = str_take(s, end);
    *n = end + 2;
    return true;
}

void load_complain(const struct load_conn *c, str what)
{
    static unsigned said;
    if (said++ < 5)
        fprintf(stderr, "queue_load: connection %u: %.*s\n", c->number,
                STR_ARG(str_take(what, 300)));
}

/* ---- one client ---- */

static void watch(struct load *l, struct client *c, bool write)
{
    struct epoll_event e = { .events = write ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = c };
    if (epoll_ctl(l->epoll, EPOLL_CTL_MOD, c->conn.fd, &e) != 0)
        die("epoll_ctl");
    c->waiting = write;
}

static void hang_up(struct load *l, struct client *c, bool broken)
{
    if (c->conn.fd < 0)
        return;
    close(c->conn.fd);
    c->conn.fd = -1;
    l->open--;
    l->broken += broken ? 1 : 0;
}

static void push(struct load *l, struct client *c)
{
    struct load_conn *conn = &c->conn;
    while (conn->out_at < conn->out.n) {
        ssize_t sent =
            send(conn->fd, conn->out.p + conn->out_at, conn->out.n - conn->out_at, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            if (!c->waiting)
                watch(l, c, true);
            return;
        }
        if (sent < 0) {
            hang_up(l, c, true);
            return;
        }
        conn->out_at += (size_t)sent;
    }
    buf_clear(&conn->out);
    conn->out_at = 0;
    if (c->waiting)
        watch(l, c, false);
}

static bool is_over(const struct load *l, int64_t now)
{
    return now >= l->until_us || (l->operations_max > 0 && l->operations >= l->operations_max);
}

static void begin(struct load *l, struct client *c, enum load_op op)
{
    struct load_conn *conn = &c->conn;
    if (op != OP_FINISH && is_over(l, now_us())) {
        hang_up(l, c, false);
        return;
    }
    if (op == OP_PRODUCE && l->pace > 0 && c->due_us > now_us()) {
        c->rests = true;
        return;
    }
    conn->op = op;
    conn->seen = 0;
    c->began_us = op == OP_PRODUCE && l->pace > 0 ? c->due_us : now_us();
    c->due_us += l->pace > 0 ? (int64_t)(1000000 * (uint64_t)l->producers / l->pace) : 0;
    if (op == OP_PRODUCE) {
        conn->wanted = l->batch;
        l->operations++;
        l->wire->produce(conn, l->batch);
    } else if (op == OP_TAKE) {
        conn->wanted = l->batch;
        conn->taken = 0;
        buf_clear(&conn->handles);
        l->wire->take(conn, l->batch);
    } else {
        conn->wanted = conn->taken;
        l->wire->finish(conn);
    }
    push(l, c);
}

/* What comes after an operation that was answered. */
static void next(struct load *l, struct client *c, enum load_reply got)
{
    struct load_conn *conn = &c->conn;
    if (!c->ready) {
        c->ready = true;
        begin(l, c, c->producer ? OP_PRODUCE : OP_TAKE);
        return;
    }
    if (got == REPLY_DONE)
        record(&l->of[conn->op], now_us() - c->began_us,
               conn->op == OP_PRODUCE ? conn->wanted : conn->taken);
    l->empty += got == REPLY_EMPTY ? 1 : 0;
    l->refused += got == REPLY_REFUSED ? 1 : 0;
    if (got == REPLY_EMPTY && l->drain) {
        hang_up(l, c, false);
        return;
    }
    if (conn->op == OP_TAKE && got == REPLY_DONE) {
        l->operations += conn->taken;
        begin(l, c, OP_FINISH);
    } else {
        begin(l, c, c->producer ? OP_PRODUCE : OP_TAKE);
    }
}

static void pull(struct load *l, struct client *c)
{
    struct load_conn *conn = &c->conn;
    char *room = buf_extend(&conn->in, READ_BYTES);
    INVARIANT(room != NULL);
    ssize_t got = recv(conn->fd, room, READ_BYTES, 0);
    conn->in.n -= READ_BYTES - (got > 0 ? (size_t)got : 0);
    if (got == 0 || (got < 0 && errno != EAGAIN)) {
        load_complain(conn, STR("the server closed the connection"));
        hang_up(l, c, true);
        return;
    }
    while (conn->fd >= 0) {
        enum load_op op = conn->op;
        enum load_reply reply = l->wire->reply(conn);
        if (reply == REPLY_BROKEN) {
            load_complain(conn, STR("an answer that cannot be read"));
            hang_up(l, c, true);
            return;
        }
        if (reply == REPLY_MORE) {
            if (conn->out_at < conn->out.n)
                push(l, c); /* the next step of a greeting */
            return;
        }
        next(l, c, reply);
        if (op == OP_HELLO && conn->in.n == 0)
            return;
    }
}

static void dial(struct load *l, struct client *c, unsigned number)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(l->port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int on = 1;
    struct load_conn *conn = &c->conn;
    *c = (struct client){
        .conn = { .opts = &l->opts, .number = number, .op = OP_HELLO },
        .producer = number < l->producers,
        .due_us = l->pace == 0 ? 0 : now_us() + (int64_t)(1000000 * (uint64_t)number / l->pace)
    };
    buf_init(&conn->out, LOAD_BUFFER_BYTES_MAX);
    buf_init(&conn->in, LOAD_BUFFER_BYTES_MAX);
    buf_init(&conn->scratch, LOAD_BUFFER_BYTES_MAX);
    buf_init(&conn->handles, LOAD_BUFFER_BYTES_MAX);
    conn->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (conn->fd < 0 || connect(conn->fd, (struct sockaddr *)&to, sizeof to) != 0)
        die("connect");
    (void)setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* only speed */
    if (fcntl(conn->fd, F_SETFL, O_NONBLOCK) != 0)
        die("fcntl");
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };
    if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, conn->fd, &e) != 0)
        die("epoll_ctl");
    l->open++;
    if (l->wire->hello == NULL) {
        next(l, c, REPLY_DONE);
        return;
    }
    l->wire->hello(conn);
    push(l, c);
}

/* Those whose time has come begin. */
static void rested(struct load *l)
{
    int64_t now = now_us();
    for (unsigned i = 0; i < l->producers; i++) {
        struct client *c = &l->clients[i];
        if (!c->rests || c->due_us > now)
            continue;
        c->rests = false;
        begin(l, c, OP_PRODUCE);
    }
}

static void run(struct load *l)
{
    unsigned count = l->producers + l->consumers;
    l->epoll = epoll_create1(0);
    l->clients = calloc(count, sizeof *l->clients);
    INVARIANT(l->clients != NULL);
    l->began_us = now_us();
    l->until_us = l->began_us + l->run_ms * 1000;
    for (unsigned i = 0; i < count; i++)
        dial(l, &l->clients[i], i); /* one behind the other by their numbers, with a pace */
    int64_t give_up_us = l->until_us + 60000000;
    while (l->open > 0 && now_us() < give_up_us) {
        struct epoll_event events[EVENTS_MAX];
        int n = epoll_wait(l->epoll, events, EVENTS_MAX, l->pace > 0 ? 1 : 1000);
        for (int i = 0; i < n; i++) {
            struct client *c = events[i].data.ptr;
            if (c->conn.fd >= 0 && (events[i].events & EPOLLOUT) != 0)
                push(l, c);
            if (c->conn.fd >= 0 && (events[i].events & ~(unsigned)EPOLLOUT) != 0)
                pull(l, c);
        }
        if (l->pace > 0)
            rested(l);
    }
    l->ended_us = now_us();
    l->broken += l->open; /* still waiting for an answer */
}

/* ---- words ---- */

/* Rates are until the last of its answers: what came after was waiting for nothing. */
static void print_op(const char *name, const struct histogram *h, int64_t began_us)
{
    double seconds = h->last_us > began_us ? (double)(h->last_us - began_us) / 1e6 : 1;
    printf("\"%s\":{\"ops\":%llu,\"items\":%llu,\"ops_s\":%.1f,\"items_s\":%.1f,\"p50\":%llu,"
           "\"p99\":%llu,"
           "\"p999\":%llu,\"max\":%llu},",
           name, (unsigned long long)h->count, (unsigned long long)h->items,
           (double)h->count / seconds, (double)h->items / seconds,
           (unsigned long long)quantile(h, 0.5), (unsigned long long)quantile(h, 0.99),
           (unsigned long long)quantile(h, 0.999), (unsigned long long)h->max_us);
}

static void print_result(const struct load *l)
{
    double seconds = (double)(l->ended_us - l->began_us) / 1e6;
    printf("{");
    print_op("produce", &l->of[OP_PRODUCE], l->began_us);
    print_op("take", &l->of[OP_TAKE], l->began_us);
    print_op("finish", &l->of[OP_FINISH], l->began_us);
    printf("\"empty\":%llu,\"refused\":%llu,\"broken\":%llu,\"seconds\":%.3f}\n",
           (unsigned long long)l->empty, (unsigned long long)l->refused,
           (unsigned long long)l->broken, seconds);
}

static bool set_number(struct load *l, const char *option, uint64_t n)
{
    if (strcmp(option, "--producers") == 0)
        l->producers = (unsigned)n;
    else if (strcmp(option, "--consumers") == 0)
        l->consumers = (unsigned)n;
    else if (strcmp(option, "--batch") == 0)
        l->batch = (unsigned)n;
    else if (strcmp(option, "--bytes") == 0)
        l->opts.item_bytes = (size_t)n;
    else if (strcmp(option, "--pace") == 0)
        l->pace = n;
    else if (strcmp(option, "--ms") == 0)
        l->run_ms = (int64_t)n;
    else if (strcmp(option, "--operations") == 0)
        l->operations_max = n;
    else
        return false;
    return true;
}

/* How many words it took; 0: unknown. */
static int read_option(struct load *l, const char *option, const char *value)
{
    uint64_t n;
    if (strcmp(option, "--json") == 0) {
        l->opts.json = true;
        return 1;
    }
    if (strcmp(option, "--accept-json") == 0) {
        l->opts.accept_json = true;
        return 1;
    }
    if (strcmp(option, "--drain") == 0) {
        l->drain = true;
        return 1;
    }
    const char **text = strcmp(option, "--queue") == 0     ? &l->opts.queue
                        : strcmp(option, "--timeout") == 0 ? &l->opts.timeout
                        : strcmp(option, "--key") == 0     ? &l->opts.key
                                                           : NULL;
    if (value == NULL)
        return 0;
    if (text != NULL)
        *text = value;
    else if (!str_to_u64(str_of(value), &n) || !set_number(l, option, n))
        return 0;
    return 2;
}

static bool read_words(struct load *l, int argc, char **argv)
{
    static const struct load_wire *const wires[] = { &load_http,  &load_events, &load_beanstalk,
                                                     &load_redis, &load_nats,   &load_amqp };
    uint64_t port;
    if (argc < 3 || !str_to_u64(str_of(argv[2]), &port) || port > UINT16_MAX)
        return false;
    l->port = (uint16_t)port;
    for (size_t i = 0; i < COUNT_OF(wires); i++)
        if (strcmp(wires[i]->name, argv[1]) == 0)
            l->wire = wires[i];
    for (int i = 3; i < argc;) {
        int words = read_option(l, argv[i], argv[i + 1]);
        if (words == 0)
            return false;
        i += words;
    }
    return l->wire != NULL && l->batch > 0 && l->batch <= LOAD_ITEMS_MAX &&
           l->producers + l->consumers > 0 && l->producers + l->consumers <= CLIENTS_MAX;
}

/* Text that no server can take for zeros. */
static char *make_payload(size_t n)
{
    char *p = malloc(n + 1);
    INVARIANT(p != NULL);
    uint32_t x = 12345;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525 + 1013904223;
        p[i] = (char)('a' + (x >> 24) % 26);
    }
    p[n] = '\0';
    return p;
}

int main(int argc, char **argv)
{
    static struct load l = { .producers = 1,
                             .batch = 1,
                             .run_ms = 2000,
                             .opts = { .queue = "bench", .timeout = "30s", .item_bytes = 200 } };
    if (!read_words(&l, argc, argv)) {
        fputs("usage: queue_load http|events|beanstalk|redis|amqp|nats PORT [OPTION]...; the head "
              "of its "
              "source tells more\n",
              stderr);
        return 2;
    }
    l.opts.payload = make_payload(l.opts.item_bytes);
    run(&l);
    print_result(&l);
    return l.broken > 0 ? 1 : 0;
}
