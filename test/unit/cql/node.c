/* node.c - the fake cluster: its life, its thread, its ports, and the verbs of the test.
 *
 * Invariants:
 * 1. Only the thread closes a descriptor that it polls, and only between two polls.
 * 2. A node's port is held by a bound socket that never listens, for the node to come back to. */
#include "cql/segment.h"
#include "unit/cql/node_impl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BACKLOG = 128, POLLED_MAX = 4096, PORT_TRIES = 100 };

void node_lock(struct node_cluster *c)
{
    INVARIANT(pthread_mutex_lock(&c->lock) == 0);
}

void node_unlock(struct node_cluster *c)
{
    INVARIANT(pthread_mutex_unlock(&c->lock) == 0);
}

int64_t node_now_ms(void)
{
    struct timespec now;
    INVARIANT(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct node *node_of(struct node_cluster *c, int node)
{
    INVARIANT(node >= 0);
    INVARIANT((unsigned)node < c->count);
    return &c->nodes[node];
}

str node_keep(struct node_cluster *c, str s)
{
    str kept = arena_copy(&c->arena, s);
    INVARIANT(kept.p != NULL);
    return kept;
}

void node_complain(struct node_conn *conn, const char *format, ...)
{
    struct node_cluster *c = conn->cluster;
    if (c->complaint[0] != '\0')
        return;
    int n = snprintf(c->complaint, sizeof c->complaint, "connection %u to node %u: ", conn->number,
                     conn->node);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(c->complaint + n, sizeof c->complaint - (size_t)n, format, args); /* cut */
    va_end(args);
}

/* ---- ports ---- */

static int port_bind(const struct sockaddr_in *at)
{
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    INVARIANT(fd >= 0);
    INVARIANT(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    if (bind(fd, (const struct sockaddr *)at, sizeof *at) == 0)
        return fd;
    INVARIANT(errno == EADDRINUSE);
    close(fd);
    return -1;
}

static void node_listen(struct node *n)
{
    n->listen = port_bind(&n->at);
    INVARIANT(n->listen >= 0);
    INVARIANT(listen(n->listen, BACKLOG) == 0);
}

static bool node_take_port(struct node *n, uint16_t port)
{
    socklen_t size = sizeof n->at;
    n->at.sin_port = htons(port);
    n->keep = port_bind(&n->at);
    if (n->keep < 0)
        return false;
    INVARIANT(getsockname(n->keep, (struct sockaddr *)&n->at, &size) == 0);
    return true;
}

static void ports_take(struct node_cluster *c)
{
    for (int tries = 0; tries < PORT_TRIES; tries++) {
        unsigned i = 0;
        for (uint16_t port = 0; i < c->count && node_take_port(&c->nodes[i], port); i++)
            port = c->opts.one_port ? ntohs(c->nodes[0].at.sin_port) : 0;
        if (i == c->count)
            return;
        while (i-- > 0)
            close(c->nodes[i].keep);
    }
    check_failed(__FILE__, __LINE__, "no port is free");
}

/* ---- the thread ---- */

static struct node_conn *conn_new(struct node_cluster *c, unsigned node, int fd)
{
    struct node_conn *conn = calloc(1, sizeof *conn);
    INVARIANT(conn != NULL);
    *conn = (struct node_conn){
        .next = c->conns, .cluster = c, .node = node, .number = ++c->conns_made, .fd = fd
    };
    buf_init(&conn->in, NODE_BYTES_MAX);
    buf_init(&conn->piece, NODE_BYTES_MAX);
    buf_init(&conn->gather, NODE_BYTES_MAX);
    buf_init(&conn->out, NODE_BYTES_MAX);
    c->nodes[node].accepted++;
    return c->conns = conn;
}

static void node_accept(struct node_cluster *c, unsigned node)
{
    int fd;
    while ((fd = accept4(c->nodes[node].listen, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
        (void)conn_new(c, node, fd);
}

static void conns_reap(struct node_cluster *c)
{
    for (struct node_conn **at = &c->conns; *at != NULL;) {
        struct node_conn *conn = *at;
        if (conn->dead) {
            *at = conn->next;
            node_conn_free(conn);
        } else {
            at = &conn->next;
        }
    }
}

struct polled {
    struct pollfd fds[POLLED_MAX];
    struct node_conn *conns[POLLED_MAX]; /* NULL: a listener, of nodes[] */
    unsigned nodes[POLLED_MAX];
    nfds_t count;
};

static void polled_add(struct polled *p, struct pollfd fd, struct node_conn *conn, unsigned node)
{
    INVARIANT(p->count < POLLED_MAX);
    p->fds[p->count] = fd;
    p->conns[p->count] = conn;
    p->nodes[p->count++] = node;
}

/* Whom to wait for. Returns until when: -1 without end. */
static int polled_fill(struct node_cluster *c, struct polled *p, int64_t now_ms)
{
    int64_t wait_ms = -1;
    p->count = 0;
    polled_add(p, (struct pollfd){ .fd = c->wake, .events = POLLIN }, NULL, 0);
    for (unsigned i = 0; i < c->count; i++)
        if (c->nodes[i].listen >= 0 && !c->nodes[i].frozen)
            polled_add(p, (struct pollfd){ .fd = c->nodes[i].listen, .events = POLLIN }, NULL, i);
    for (struct node_conn *conn = c->conns; conn != NULL; conn = conn->next) {
        if (c->nodes[conn->node].frozen)
            continue;
        short out = conn->sent < conn->out.n ? POLLOUT : 0;
        polled_add(p, (struct pollfd){ .fd = conn->fd, .events = (short)(POLLIN | out) }, conn, 0);
        if (conn->letters == NULL || conn->letters->due_ms == INT64_MAX)
            continue;
        int64_t left_ms = conn->letters->due_ms > now_ms ? conn->letters->due_ms - now_ms : 0;
        wait_ms = wait_ms < 0 || left_ms < wait_ms ? left_ms : wait_ms;
    }
    return (int)wait_ms;
}

static void polled_serve(struct node_cluster *c, const struct polled *p)
{
    uint64_t woken;
    if (p->fds[0].revents != 0)
        INVARIANT(read(c->wake, &woken, sizeof woken) == sizeof woken);
    for (nfds_t i = 1; i < p->count; i++) {
        struct node_conn *conn = p->conns[i];
        if (p->fds[i].revents == 0)
            continue;
        if (conn == NULL) {
            if (!c->nodes[p->nodes[i]].frozen)
                node_accept(c, p->nodes[i]);
        } else if (!c->nodes[conn->node].frozen) { /* it may be so since it was polled */
            node_conn_read(conn);
            node_conn_write(conn);
        }
    }
}

static void *cluster_serve(void *ctx)
{
    struct node_cluster *c = ctx;
    struct polled *p = malloc(sizeof *p);
    INVARIANT(p != NULL);
    node_lock(c);
    while (!c->stop) {
        if (c->task != NULL) {
            c->task(c, c->task_ctx);
            c->task = NULL;
        }
        int64_t now_ms = node_now_ms();
        for (struct node_conn *conn = c->conns; conn != NULL; conn = conn->next)
            if (!c->nodes[conn->node].frozen)
                node_conn_letters(conn, now_ms);
        conns_reap(c);
        int wait_ms = polled_fill(c, p, now_ms);
        INVARIANT(pthread_cond_broadcast(&c->changed) == 0);
        node_unlock(c);
        INVARIANT(poll(p->fds, p->count, wait_ms) >= 0 || errno == EINTR);
        node_lock(c);
        polled_serve(c, p);
    }
    node_unlock(c);
    free(p);
    return NULL;
}

static void cluster_wake(struct node_cluster *c)
{
    uint64_t one = 1;
    INVARIANT(write(c->wake, &one, sizeof one) == sizeof one);
}

void node_run(struct node_cluster *c, node_task_fn *task, void *ctx)
{
    node_lock(c);
    while (c->task != NULL)
        INVARIANT(pthread_cond_wait(&c->changed, &c->lock) == 0);
    c->task = task;
    c->task_ctx = ctx;
    cluster_wake(c);
    while (c->task == task && c->task_ctx == ctx) /* ctx is the caller's own */
        INVARIANT(pthread_cond_wait(&c->changed, &c->lock) == 0);
    node_unlock(c);
}

/* ---- life ---- */

static void node_begin(struct node_cluster *c, unsigned i)
{
    struct node *n = &c->nodes[i];
    unsigned dcs = c->opts.dcs == 0 ? 1 : c->opts.dcs, racks = c->opts.racks;
    *n = (struct node){
        .at = { .sin_family = AF_INET,
                .sin_addr = { htonl(INADDR_LOOPBACK + (c->opts.one_port ? i : 0)) } },
        .keep = -1,
        .listen = -1,
        .version_max = c->opts.version_max == 0 ? 5 : c->opts.version_max,
        .prepared = map_new(i),
        .tokens_count = NODE_TOKENS,
        .schema = 1,
        .host_number = i + 1
    };
    INVARIANT(inet_ntop(AF_INET, &n->at.sin_addr, n->host, sizeof n->host) != NULL);
    (void)snprintf(n->dc, sizeof n->dc, "dc%u", i % dcs + 1);
    (void)snprintf(n->rack, sizeof n->rack, "rack%u", i / dcs % (racks == 0 ? 1 : racks) + 1);
    (void)snprintf(n->release, sizeof n->release, "%s",
                   c->opts.release == NULL ? "5.0.9" : c->opts.release);
    uint64_t apart = UINT64_MAX / ((uint64_t)c->count * NODE_TOKENS);
    for (unsigned t = 0; t < NODE_TOKENS; t++)
        n->tokens[t] = (int64_t)((uint64_t)INT64_MIN + apart * (t * c->count + i + 1));
}

static void cluster_init_lock(struct node_cluster *c)
{
    pthread_mutexattr_t how;
    pthread_condattr_t by;
    INVARIANT(pthread_mutexattr_init(&how) == 0);
    INVARIANT(pthread_mutexattr_settype(&how, PTHREAD_MUTEX_RECURSIVE) == 0);
    INVARIANT(pthread_mutex_init(&c->lock, &how) == 0);
    INVARIANT(pthread_condattr_init(&by) == 0);
    INVARIANT(pthread_condattr_setclock(&by, CLOCK_MONOTONIC) == 0);
    INVARIANT(pthread_cond_init(&c->changed, &by) == 0);
    pthread_condattr_destroy(&by);
    pthread_mutexattr_destroy(&how);
}

struct node_cluster *node_new(const struct node_opts *opts)
{
    struct node_cluster *c = calloc(1, sizeof *c);
    INVARIANT(c != NULL);
    c->opts = *opts;
    c->count = opts->nodes == 0 ? 1 : opts->nodes;
    INVARIANT(c->count <= NODE_MAX);
    INVARIANT((opts->user == NULL) == (opts->password == NULL));
    (void)snprintf(c->user, sizeof c->user, "%s", opts->user == NULL ? "" : opts->user);
    (void)snprintf(c->password, sizeof c->password, "%s", opts->user == NULL ? "" : opts->password);
    cluster_init_lock(c);
    arena_init(&c->arena, NODE_BYTES_MAX);
    c->unpacked = malloc(CQL_SEGMENT_BYTES_MAX);
    INVARIANT(c->unpacked != NULL);
    for (unsigned i = 0; i < c->count; i++)
        node_begin(c, i);
    ports_take(c);
    for (unsigned i = 0; i < c->count; i++)
        node_listen(&c->nodes[i]);
    node_keyspace(c, "system", "class=LocalStrategy");
    node_keyspace(c, "system_schema", "class=LocalStrategy");
    node_keyspace(c, "ks", "class=NetworkTopologyStrategy, dc1=3");
    c->wake = eventfd(0, EFD_CLOEXEC);
    INVARIANT(c->wake >= 0);
    INVARIANT(pthread_create(&c->thread, NULL, cluster_serve, c) == 0);
    return c;
}

void node_free(struct node_cluster **cp)
{
    struct node_cluster *c = *cp;
    if (c == NULL)
        return;
    node_lock(c);
    c->stop = true;
    cluster_wake(c);
    node_unlock(c);
    INVARIANT(pthread_join(c->thread, NULL) == 0);
    for (struct node_conn *conn = c->conns; conn != NULL; conn = conn->next)
        conn->dead = true;
    conns_reap(c);
    for (unsigned i = 0; i < c->count; i++) {
        close(c->nodes[i].keep);
        if (c->nodes[i].listen >= 0)
            close(c->nodes[i].listen);
        map_free(&c->nodes[i].prepared);
    }
    close(c->wake);
    arena_fini(&c->arena);
    free(c->records);
    free(c->unpacked);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
    *cp = NULL;
}

/* ---- verbs ---- */

struct verb {
    int node;
    unsigned number;
    bool reset;
    const struct cql_event *event;
    unsigned told;
};

static void verb_cut(struct node_cluster *c, void *ctx)
{
    const struct verb *v = ctx;
    for (struct node_conn *conn = c->conns; conn != NULL; conn = conn->next)
        if ((v->node == NODE_ANY || (unsigned)v->node == conn->node) &&
            (v->number == 0 || v->number == conn->number)) {
            conn->reset = v->reset;
            conn->dead = true;
        }
    conns_reap(c);
}

static void verb_down(struct node_cluster *c, void *ctx)
{
    struct node *n = node_of(c, ((const struct verb *)ctx)->node);
    if (n->listen >= 0)
        close(n->listen);
    n->listen = -1;
    verb_cut(c, ctx);
}

static void verb_up(struct node_cluster *c, void *ctx)
{
    const struct verb *v = ctx;
    struct node *n = node_of(c, v->node);
    node_forget(c, v->node);
    if (n->listen < 0)
        node_listen(n);
}

static void verb_move(struct node_cluster *c, void *ctx)
{
    struct node *n = node_of(c, ((const struct verb *)ctx)->node);
    int before = n->keep;
    verb_down(c, ctx);
    INVARIANT(node_take_port(n, 0));
    close(before); /* behind it, so that the port is another one */
    verb_up(c, ctx);
}

static void verb_nothing(struct node_cluster *c, void *ctx)
{
    (void)c;
    (void)ctx;
}

void node_down(struct node_cluster *c, unsigned node)
{
    node_run(c, verb_down, &(struct verb){ .node = (int)node });
}

void node_up(struct node_cluster *c, unsigned node)
{
    node_run(c, verb_up, &(struct verb){ .node = (int)node });
}

void node_move(struct node_cluster *c, unsigned node)
{
    node_run(c, verb_move, &(struct verb){ .node = (int)node });
}

void node_cut(struct node_cluster *c, int node, unsigned connection, bool reset)
{
    node_run(c, verb_cut, &(struct verb){ .node = node, .number = connection, .reset = reset });
}

static void node_set_frozen(struct node_cluster *c, unsigned node, bool frozen)
{
    struct verb v = { .node = (int)node };
    node_lock(c);
    node_of(c, (int)node)->frozen = frozen;
    node_unlock(c);
    node_run(c, verb_nothing, &v); /* whom it polls is chosen anew */
}

void node_freeze(struct node_cluster *c, unsigned node)
{
    node_set_frozen(c, node, true);
}

void node_thaw(struct node_cluster *c, unsigned node)
{
    node_set_frozen(c, node, false);
}

void node_forget(struct node_cluster *c, int node)
{
    node_lock(c);
    for (unsigned i = 0; i < c->count; i++)
        if (node == NODE_ANY || (unsigned)node == i) {
            map_free(&c->nodes[i].prepared);
            c->nodes[i].prepared = map_new(i);
        }
    node_unlock(c);
}

void node_version_max(struct node_cluster *c, unsigned node, unsigned version)
{
    node_lock(c);
    node_of(c, (int)node)->version_max = version;
    node_unlock(c);
}

static void verb_event(struct node_cluster *c, void *ctx)
{
    struct verb *v = ctx;
    const struct cql_event *e = v->event;
    unsigned kinds = e->kind == CQL_EVENT_OTHER ? ~0u : BIT(e->kind);
    for (struct node_conn *conn = c->conns; conn != NULL; conn = conn->next) {
        if ((v->node == NODE_ANY || (unsigned)v->node == conn->node) && !conn->ended &&
            !conn->dead && (conn->registered & kinds) != 0) {
            node_talk_event(conn, e);
            v->told++;
        }
    }
}

static void verb_release(struct node_cluster *c, void *ctx)
{
    struct verb *v = ctx;
    for (struct node_conn *conn = c->conns; conn != NULL; conn = conn->next)
        v->told += node_conn_release(conn, v->number);
}

unsigned node_release(struct node_cluster *c, unsigned rule)
{
    struct verb v = { .number = rule };
    node_run(c, verb_release, &v);
    return v.told;
}

unsigned node_event(struct node_cluster *c, int node, const struct cql_event *e)
{
    struct verb v = { .node = node, .event = e };
    node_run(c, verb_event, &v);
    return v.told;
}

unsigned node_event_of(struct node_cluster *c, int to, const char *change, unsigned of)
{
    struct cql_event e = { .change = str_of(change) };
    bool status = str_eq(e.change, STR("UP")) || str_eq(e.change, STR("DOWN"));
    e.kind = status ? CQL_EVENT_STATUS : CQL_EVENT_TOPOLOGY;
    node_lock(c);
    const struct node *n = node_of(c, (int)of);
    (void)snprintf(e.address, sizeof e.address, "%s", n->address[0] == '\0' ? n->host : n->address);
    e.port = n->port == 0 ? ntohs(n->at.sin_port) : n->port;
    node_unlock(c);
    return node_event(c, to, &e);
}
