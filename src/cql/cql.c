/* cql.c - the client as a whole: options, timers, end, and figures.
 *
 * Invariants:
 *   1 the bytes that a turn of the loop wrote to connections go out at the turn's end: a node with
 *     unsent bytes stands in dirty, and flush is posted;
 *   2 stopped is told once, from the tick, when no request is active and no connection is left. */
#include "cql/cql_impl.h"

#include "base/log.h"
#include "loop/loop.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* AGE_TICKS: of CQL_TICK_MS, so a second. */
enum { AGE_TICKS = 10, NAME_BYTES_MAX = 255, TIMES_MS_MAX = 24 * 3600 * 1000 };

static bool due_less(const struct heap_node *a, const struct heap_node *b)
{
    const struct cql_request *x = CONTAINER_OF(unconst(a), struct cql_request, due);
    const struct cql_request *y = CONTAINER_OF(unconst(b), struct cql_request, due);
    return x->due_at.ns < y->due_at.ns;
}

/* ---- time ---- */

/* Sets the timer for the first request that is due. The timer is only set to an earlier instant: a
 * request that ended early costs one wake for nothing. */
void cql_due_arm(struct cql *c)
{
    struct heap_node *first = heap_first(&c->due);
    if (first == NULL)
        return;
    int64_t at_ns = CONTAINER_OF(first, struct cql_request, due)->due_at.ns;
    if (at_ns >= c->due_set_ns)
        return; /* it wakes early enough */
    /* Rounded up: the request is due when the timer fires. */
    int64_t ms = (at_ns - cql_now(c).ns + NS_PER_MS - 1) / NS_PER_MS;
    c->due_set_ns = at_ns;
    loop_timer_start(c->due_timer, ms < 1 ? 1 : ms, 0);
}

static void on_due(void *ctx)
{
    struct cql *c = ctx;
    c->due_set_ns = INT64_MAX;
    cql_requests_due(c, cql_now(c));
}

/* Requests were canceled on other threads. `poked` is cleared first: a cancel that comes now posts
 * again. */
static void on_poke(struct task *t)
{
    struct cql *c = CONTAINER_OF(t, struct cql, poke);
    atomic_store(&c->poked, false);
    cql_requests_canceled(c);
}

/* A random wait keeps clients apart that lost one node together. */
int64_t cql_backoff_ms(struct cql *c, int64_t *retry_ms)
{
    const struct cql_opts *o = &c->opts;
    int64_t next = *retry_ms == 0 ? o->retry_min_ms : 2 * *retry_ms;
    *retry_ms = next < o->retry_max_ms ? next : o->retry_max_ms;
    return *retry_ms / 2 + (int64_t)rng_below(&c->rng, (uint64_t)(*retry_ms / 2 + 1));
}

/* ---- bytes ---- */

/* Several requests of a turn share one write to each connection. */
static void on_flush(struct task *t)
{
    struct cql *c = CONTAINER_OF(t, struct cql, flush);
    struct list *first;
    c->flush_posted = false;
    while ((first = list_take(&c->dirty)) != NULL) {
        struct cql_node *n = CONTAINER_OF(first, struct cql_node, dirty);
        for (unsigned i = 0; i < CQL_CONNECTIONS_MAX; i++)
            if (n->conns[i] != NULL && cql_conn_is_open(n->conns[i]))
                cql_conn_flush(n->conns[i]);
    }
}

void cql_flush_soon(struct cql *c, struct cql_node *n)
{
    /* A node stands in dirty at most once. */
    if (n->dirty.next == &n->dirty)
        list_append(&c->dirty, &n->dirty);
    if (c->flush_posted)
        return;
    c->flush_posted = true;
    home_post(loop_home(c->opts.loop), &c->flush);
}

struct cql_conn_opts cql_conn_opts_of(struct cql *c)
{
    const struct cql_opts *o = &c->opts;
    return (struct cql_conn_opts){
        .loop = o->loop,
        .clock = o->clock,
        .tls = o->tls,
        .version = c->version,
        .lz4 = o->lz4,
        .user = o->user,
        .password = o->password,
        .plain_anywhere = o->plain_anywhere,
        .streams_max = o->inflight_max,
        .orphans_max = o->orphans_max,
        .answer_bytes_max = o->answer_bytes_max,
        .connect_timeout_ms = o->connect_timeout_ms,
        .heartbeat_ms = o->heartbeat_ms,
        .answer_timeout_ms = o->answer_timeout_ms,
    };
}

/* ---- ready, and stopped ---- */

/* A remote node does not make the client ready: remote_dcs may forbid its use. */
void cql_ready_judge(struct cql *c)
{
    bool ready = false;
    for (unsigned i = 0; i < c->nodes_count && !ready; i++)
        ready = c->nodes[i] != NULL && c->nodes[i]->local && cql_node_is_up(c->nodes[i]);
    if (atomic_exchange(&c->ready, ready) != ready && c->opts.ready != NULL)
        c->opts.ready(c->opts.ctx, ready);
}

bool cql_is_ready(const struct cql *c)
{
    return atomic_load(&c->ready);
}

static void nodes_free(struct cql *c)
{
    for (unsigned i = 0; i < c->nodes_count; i++)
        if (c->nodes[i] != NULL)
            cql_node_free(c, c->nodes[i]);
    c->nodes_count = 0;
}

/* Looks each tick whether all has ended. The order of the tests is that in which work is handed on:
 * requests, holds, starts and tells, tasks. */
static void stop_tick(struct cql *c, mono now)
{
    if (now.ns >= c->stop_deadline.ns) {
        cql_requests_end(c, ERR_SHUTDOWN);
        cql_agreements_end(c, ERR_SHUTDOWN);
    }
    if (heap_first(&c->due) != NULL || !list_empty(&c->agreements))
        return;
    /* A holder of the client may still start a request. */
    if (atomic_load(&c->holds) > 0)
        return;
    if (atomic_load(&c->started) > 0)
        return; /* requests come here, or are told elsewhere: callers may cancel until done */
    if (c->flush_posted || atomic_load(&c->poked))
        return; /* a task of ours is still posted */
    c->stopped = true;
    cql_control_stop(c);
    nodes_free(c);
    loop_timer_free(&c->tick);
    loop_timer_free(&c->due_timer);
    c->on_stopped(c->stopped_ctx);
}

/* The client's clock: 100 ms. All deadlines but those of requests are kept here. */
static void on_tick(void *ctx)
{
    struct cql *c = ctx;
    mono now = cql_now(c);
    cql_control_tick(c, now);
    for (unsigned i = 0; i < c->nodes_count; i++)
        if (c->nodes[i] != NULL)
            /* A tick may free a node that leaves. */
            cql_node_tick(c->nodes[i], now);
    cql_agreements_tick(c, now);
    if (++c->ticks % AGE_TICKS == 0)
        cql_latency_age(c);
    if (c->stopping)
        stop_tick(c, now);
}

void cql_stop(struct cql *c, mono deadline, void (*stopped)(void *ctx), void *ctx)
{
    MAGIC_CHECK(c, CQL_MAGIC);
    INVARIANT(!c->stopping);
    c->stopping = true;
    c->stop_deadline = deadline;
    c->on_stopped = stopped;
    c->stopped_ctx = ctx;
}

void cql_hold(struct cql *c)
{
    MAGIC_CHECK(c, CQL_MAGIC);
    (void)atomic_fetch_add(&c->holds, 1); /* the old value is of no use */
}

void cql_release(struct cql *c)
{
    INVARIANT(atomic_fetch_sub(&c->holds, 1) > 0); /* c may be gone behind this */
}

void cql_free(struct cql **cp)
{
    struct cql *c = *cp;
    *cp = NULL;
    if (c == NULL)
        return;
    MAGIC_CHECK(c, CQL_MAGIC);
    INVARIANT(c->stopped);
    for (unsigned i = 0; i < c->statements_count; i++)
        free(c->statements[i]);
    cql_topology_free(c);
    heap_fini(&c->due);
    buf_fini(&c->routing);
    c->magic = 0;
    free(c);
}

/* ---- options ---- */

static void default_64(int64_t *value, int64_t what)
{
    if (*value == 0)
        *value = what;
}

static void default_u(unsigned *value, unsigned what)
{
    if (*value == 0)
        *value = what;
}

static void defaults_set(struct cql_opts *o)
{
    default_u(&o->version_max, CQL_VERSION_MAX);
    default_u(&o->connections, 2);
    default_u(&o->inflight_max, 1024);
    default_u(&o->orphans_max, 256);
    default_u(&o->waiting_max, 1024);
    if (o->request_bytes_max == 0)
        o->request_bytes_max = 16 << 20;
    if (o->answer_bytes_max == 0)
        o->answer_bytes_max = 64 << 20;
    default_64(&o->connect_timeout_ms, 5000);
    default_64(&o->heartbeat_ms, 10000);
    default_64(&o->answer_timeout_ms, 5000);
    default_64(&o->retry_min_ms, 250);
    default_64(&o->retry_max_ms, 30000);
    default_64(&o->refresh_ms, 60000);
    default_64(&o->speculate_min_ms, 5);
}

/* Tests of each option would need each a text; a time that is no time is enough to say. */
static err times_check(const struct cql_opts *o, struct err_note *note)
{
    const int64_t times[] = { o->connect_timeout_ms, o->heartbeat_ms, o->answer_timeout_ms,
                              o->retry_min_ms,       o->retry_max_ms, o->refresh_ms,
                              o->speculate_min_ms };
    for (unsigned i = 0; i < COUNT_OF(times); i++)
        if (times[i] < 0 || times[i] > TIMES_MS_MAX)
            return err_bad(note, "a time is negative, or more than %d ms", TIMES_MS_MAX);
    if (o->retry_min_ms > o->retry_max_ms)
        return err_bad(note, "retry_min_ms is above retry_max_ms");
    return ERR_OK;
}

/* All that would break an invariant later is refused here, with the option's name. */
static err opts_check(const struct cql_opts *o, struct err_note *note)
{
    char host[CQL_HOST_BYTES_MAX + 1], port[6];
    if (o->contact_points_count == 0 || o->contact_points_count > CQL_CONTACT_POINTS_MAX)
        return err_bad(note, "1 to %d contact points, not %u", CQL_CONTACT_POINTS_MAX,
                       o->contact_points_count);
    for (unsigned i = 0; i < o->contact_points_count; i++)
        if (o->contact_points[i] == NULL || !cql_point_split(o->contact_points[i], host, port))
            return err_bad(note, "contact point %s: not HOST or HOST:PORT",
                           o->contact_points[i] == NULL ? "(none)" : o->contact_points[i]);
    for (unsigned i = 0; i < o->mapped_count; i++)
        if (!cql_address_text_is_good(o->mapped[i].from) ||
            !cql_address_text_is_good(o->mapped[i].to))
            return err_bad(note, "mapped from %s to %s: not ADDRESS or ADDRESS:PORT",
                           o->mapped[i].from, o->mapped[i].to);
    if (o->local_dc == NULL || o->local_dc[0] == '\0' || strlen(o->local_dc) > CQL_NAME_BYTES_MAX)
        return err_bad(note, "the local data centre has to be named, in at most %d bytes",
                       CQL_NAME_BYTES_MAX);
    if (o->version_max < CQL_VERSION_MIN || o->version_max > CQL_VERSION_MAX)
        return err_bad(note, "protocol version %d to %d", CQL_VERSION_MIN, CQL_VERSION_MAX);
    if (o->connections > CQL_CONNECTIONS_MAX)
        return err_bad(note, "at most %d connections to a node", CQL_CONNECTIONS_MAX);
    /* Each orphan keeps a stream, and one more is for signs of life (conn_shake.c). */
    if (o->inflight_max >= CQL_STREAMS_MAX || o->orphans_max >= CQL_STREAMS_MAX - o->inflight_max)
        return err_bad(note, "inflight_max and orphans_max together are below %d", CQL_STREAMS_MAX);
    if ((o->user == NULL) != (o->password == NULL))
        return err_bad(note, "a user and a password, or neither");
    if (o->user != NULL &&
        (strlen(o->user) > NAME_BYTES_MAX || strlen(o->password) > NAME_BYTES_MAX))
        return err_bad(note, "a user and a password have at most %d bytes", NAME_BYTES_MAX);
    /* A request must fit into half of what may be unsent (cql_conn_has_room). */
    if (o->request_bytes_max > CQL_OUT_BYTES_MAX / 2)
        return err_bad(note, "request_bytes_max is at most %d", CQL_OUT_BYTES_MAX / 2);
    return times_check(o, note);
}

struct cql *cql_new(const struct cql_opts *opts, struct err_note *note)
{
    struct cql_opts o = *opts;
    defaults_set(&o);
    if (opts_check(&o, note) != ERR_OK)
        return NULL;
    struct cql *c = calloc(1, sizeof *c);
    INVARIANT(c != NULL);
    c->magic = CQL_MAGIC;
    c->opts = o;
    c->version = o.version_max;
    c->due_set_ns = INT64_MAX;
    rng_init(&c->rng, o.seed);
    heap_init(&c->due, due_less);
    list_init(&c->agreements);
    list_init(&c->dirty);
    buf_init(&c->routing, CQL_OUT_BYTES_MAX);
    c->flush.run = on_flush;
    c->poke.run = on_poke;
    c->tick = loop_timer_new(o.loop, on_tick, c);
    c->due_timer = loop_timer_new(o.loop, on_due, c);
    /* The first tick comes at once: it opens the control connection. */
    loop_timer_start(c->tick, 1, CQL_TICK_MS);
    return c;
}

/* ---- figures ---- */

static void node_stats(const struct cql_node *n, mono now, struct cql_node_stats *out)
{
    *out = (struct cql_node_stats){ .local = n->local,
                                    .up = cql_node_is_up(n),
                                    .slow = n->slow_until.ns > now.ns,
                                    .connections = n->open,
                                    .waiting = n->waiting_count[CQL_FOREGROUND] +
                                               n->waiting_count[CQL_BACKGROUND],
                                    .latency_ns = n->latency_ns };
    out->in_flight = n->in_flight[CQL_FOREGROUND] + n->in_flight[CQL_BACKGROUND];
    (void)snprintf(out->node, sizeof out->node, "%s", n->text);
    (void)snprintf(out->dc, sizeof out->dc, "%s", n->dc);
    (void)snprintf(out->release, sizeof out->release, "%s", n->release);
}

unsigned cql_nodes(const struct cql *c, struct cql_node_stats *out, unsigned count)
{
    MAGIC_CHECK(c, CQL_MAGIC);
    unsigned found = 0;
    mono now = cql_now(c);
    for (unsigned i = 0; i < c->nodes_count; i++) {
        if (c->nodes[i] == NULL)
            continue;
        if (found < count)
            node_stats(c->nodes[i], now, &out[found]);
        found++;
    }
    return found;
}

static void bytes_add(const struct cql_conn *conn, struct cql_stats *out)
{
    uint64_t sent, received;
    if (conn == NULL)
        return;
    cql_conn_bytes(conn, &sent, &received);
    out->bytes_sent += sent;
    out->bytes_received += received;
}

/* Figures of closed connections were added when they closed (nodes.c); those of open ones come
 * here. */
void cql_stats(const struct cql *c, struct cql_stats *out)
{
    MAGIC_CHECK(c, CQL_MAGIC);
    *out = c->stats;
    out->control = c->control.state == CQL_CONTROL_UP;
    out->p99_ns = c->p99_ns;
    out->nodes_count = cql_nodes(c, NULL, 0);
    bytes_add(c->control.conn, out);
    for (unsigned i = 0; i < c->nodes_count; i++)
        for (unsigned k = 0; c->nodes[i] != NULL && k < CQL_CONNECTIONS_MAX; k++)
            bytes_add(c->nodes[i]->conns[k], out);
}

void cql_outcome_fini(struct cql_outcome *out)
{
    cql_columns_drop(&out->rows.columns);
    free(out->body);
    out->body = NULL;
}
