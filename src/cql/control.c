/* control.c - the control connection, on which the client learns what nodes there are and what
 * changes.
 *
 *   NONE --places are gathered--> OPENING --the first that is ready--> UP
 * From OPENING to NONE when all places have failed; from UP to NONE when the connection broke.
 *
 * Places are the nodes of the last look, then the contact points: a cluster that moved away whole
 * is found again through their names. Names are looked up on the pool; the addresses that are found
 * join the places, and hold up none of them. A place more is tried each NEXT_MS, so a place that
 * does not answer holds up no other.
 * Invariants:
 *   1 at most one lookup is under way;
 *   2 a connection on which a look was over, and which then lived for CQL_STEADY_MS, is replaced at
 *     once. Any other failure makes the next try come later;
 *   3 a place whose look failed is shunned: it is tried behind all others, until a look is over
 *     somewhere. A node that is joining answers first, and knows nothing. */
#include "cql/cql_impl.h"

#include "base/log.h"
#include "loop/loop.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEXT_MS = 100, ASK_HEAD_BYTES = 64 };

static const unsigned control_next[CQL_CONTROLS] = {
    [CQL_CONTROL_NONE] = BIT(CQL_CONTROL_OPENING),
    [CQL_CONTROL_OPENING] = BIT(CQL_CONTROL_UP) | BIT(CQL_CONTROL_NONE),
    [CQL_CONTROL_UP] = BIT(CQL_CONTROL_NONE),
};

static void control_move(struct cql *c, enum cql_control_state to)
{
    INVARIANT(control_next[c->control.state] & BIT(to));
    c->control.state = to;
}

static void points_close(struct cql *c)
{
    for (unsigned i = 0; i < c->control.points_count; i++)
        cql_conn_close(&c->control.points[i].conn);
}

/* All places have failed, or the connection is gone: waits before the next round. The log gets the
 * first failure alone, until a look is over. */
static void control_none(struct cql *c)
{
    struct cql_control *k = &c->control;
    points_close(c);
    control_move(c, CQL_CONTROL_NONE);
    k->retry_at = mono_add_ms(cql_now(c), cql_backoff_ms(c, &k->retry_ms));
    if (k->said)
        return;
    k->said = true;
    log_event(c->opts.log, LOG_WARN, "cql.control", LOG_CSTR("state", "down"),
              LOG_CSTR("why", k->why.text));
}

/* ---- the connection ---- */

static bool address_shunned(const struct cql_control *k, const struct sockaddr_storage *a,
                            socklen_t bytes)
{
    for (unsigned i = 0; i < k->shunned_count; i++)
        if (cql_address_same(&k->shunned[i].address, k->shunned[i].bytes, a, bytes))
            return true;
    return false;
}

static void address_shun(struct cql_control *k)
{
    if (k->shunned_count == CQL_POINTS_MAX || address_shunned(k, &k->address, k->address_bytes))
        return;
    k->shunned[k->shunned_count].address = k->address;
    k->shunned[k->shunned_count++].bytes = k->address_bytes;
}

/* A connection that was steady was no fault of the place, so the next one is opened at once. */
static void control_lost(struct cql *c)
{
    struct cql_control *k = &c->control;
    mono now = cql_now(c);
    bool steady = k->looked && now.ns >= mono_add_ms(k->opened_at, CQL_STEADY_MS).ns;
    cql_look_drop(c);
    if (steady)
        k->retry_ms = 0;
    if (!k->looked)
        address_shun(k);
    control_none(c);
    if (steady)
        k->retry_at = now;
}

void cql_control_looked(struct cql *c)
{
    c->control.looked = true;
    c->control.shunned_count = 0;
}

void cql_control_drop(struct cql *c, const char *why)
{
    struct cql_control *k = &c->control;
    if (k->state != CQL_CONTROL_UP)
        return;
    err_note_set(&k->why, "%s", why);
    cql_conn_close(&k->conn);
    control_lost(c);
}

/* A request of the client's own, without a plan: looks and agreements. */
bool cql_control_ask(struct cql *c, struct cql_call *call, str text)
{
    struct cql_conn *conn = c->control.conn;
    struct buf *out = conn == NULL || !cql_conn_has_room(conn)
                          ? NULL
                          : cql_conn_begin(conn, call, CQL_OP_QUERY, 0, text.n + ASK_HEAD_BYTES);
    if (out == NULL)
        return false;
    const struct cql_params p = { .consistency = CQL_ONE,
                                  .timestamp_us = CQL_NO_TIMESTAMP,
                                  .now_s = CQL_NO_NOW };
    cql_body_query(out, cql_conn_version(conn), text, NULL, &p);
    cql_conn_end(conn);
    cql_conn_flush(conn);
    return true;
}

/* The first place that is ready wins; the other candidates are closed. */
static void point_opened(void *ctx, struct cql_conn *conn)
{
    struct cql_point *p = ctx;
    struct cql *c = p->client;
    struct cql_control *k = &c->control;
    INVARIANT(k->state == CQL_CONTROL_OPENING);
    p->conn = NULL;
    points_close(c);
    control_move(c, CQL_CONTROL_UP);
    c->stats.denied = false;
    k->conn = conn;
    k->address = p->address;
    k->address_bytes = p->address_bytes;
    k->port = cql_address_port(&p->address);
    k->opened_at = cql_now(c);
    k->looked = false;
    c->stats.version = cql_conn_version(conn);
    cql_look_begin(c);
}

static void point_open(struct cql_point *p);

/* A candidate failed, or the control connection was lost. */
static void point_closed(void *ctx, struct cql_conn *conn, enum cql_end end,
                         const struct err_note *why)
{
    struct cql_point *p = ctx;
    struct cql *c = p->client;
    struct cql_control *k = &c->control;
    unsigned version = cql_conn_version(conn);
    char text[CQL_NODE_TEXT_BYTES];
    cql_address_print(&p->address, text);
    err_note_set(&k->why, "%s: %s", text, why->text);
    if (k->state == CQL_CONTROL_UP) {
        k->conn = NULL;
        control_lost(c);
        return;
    }
    p->conn = NULL;
    c->stats.denied = end == CQL_END_DENIED;
    /* The client speaks the version of the oldest node that it met in this round. */
    if (end == CQL_END_VERSION && version == c->version && version > CQL_VERSION_MIN)
        c->version--;
    if (end == CQL_END_VERSION && version > c->version)
        point_open(p);
    k->next_at = cql_now(c); /* one has failed: the next one now */
}

static void point_event(void *ctx, const struct cql_event *e)
{
    struct cql_point *p = ctx;
    cql_look_event(p->client, e);
}

static void point_room(void *ctx, struct cql_conn *conn)
{
    (void)ctx;
    (void)conn; /* nobody waits for room here */
}

static void point_open(struct cql_point *p)
{
    struct cql *c = p->client;
    struct cql_conn_opts o = cql_conn_opts_of(c);
    o.address = p->address;
    o.address_bytes = p->address_bytes;
    o.host = p->host;
    o.opened = point_opened;
    o.closed = point_closed;
    o.event = point_event;
    o.room = point_room;
    o.ctx = p;
    p->tried = true;
    p->again_at = mono_add_ms(cql_now(c), c->opts.retry_max_ms);
    p->conn = cql_conn_open(&o, &c->control.why);
    c->stats.connects += p->conn != NULL;
}

/* ---- places ---- */

/* Adds a place once, under the host by which a certificate names it. */
static void point_add(struct cql *c, const struct sockaddr_storage *a, socklen_t bytes,
                      const char *host)
{
    struct cql_control *k = &c->control;
    for (unsigned i = 0; i < k->points_count; i++)
        if (cql_address_same(&k->points[i].address, k->points[i].address_bytes, a, bytes))
            return;
    if (k->points_count == CQL_POINTS_MAX)
        return; /* enough places to find a node that answers */
    struct cql_point *p = &k->points[k->points_count++];
    *p = (struct cql_point){ .client = c, .address = *a, .address_bytes = bytes };
    (void)snprintf(p->host, sizeof p->host, "%s", host);
    p->shunned = address_shunned(k, a, bytes);
}

/* The client's nodes of the local data centre. They begin anywhere, so clients spread their control
 * connections. up: nodes with an open connection; else the others. */
static void points_of_nodes(struct cql *c, bool up)
{
    unsigned first = c->nodes_count == 0 ? 0 : (unsigned)rng_below(&c->rng, c->nodes_count);
    for (unsigned i = 0; i < c->nodes_count; i++) {
        const struct cql_node *n = c->nodes[(first + i) % c->nodes_count];
        if (n == NULL || n->leaving || !n->local || cql_node_is_up(n) != up)
            continue;
        char host[CQL_NODE_TEXT_BYTES];
        cql_address_host(n->text, host);
        point_add(c, &n->address, n->address_bytes, host);
    }
}

/* getaddrinfo on the pool. It may take long, and outlives a stop of the client: then client is
 * NULL. */
struct cql_lookup {
    struct loop_job job;
    struct cql *client; /* NULL: it has stopped */
    unsigned count;
    char host[CQL_CONTACT_POINTS_MAX][CQL_HOST_BYTES_MAX + 1];
    char port[CQL_CONTACT_POINTS_MAX][6];
    struct addrinfo *found[CQL_CONTACT_POINTS_MAX];
    int result[CQL_CONTACT_POINTS_MAX];
};

/* Pool thread: touches the lookup alone. */
static void lookup_run(struct loop_job *j)
{
    struct cql_lookup *l = CONTAINER_OF(j, struct cql_lookup, job);
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC };
    for (unsigned i = 0; i < l->count; i++)
        l->result[i] = getaddrinfo(l->host[i], l->port[i], &hints, &l->found[i]);
}

static void lookup_take(struct cql *c, const struct cql_lookup *l)
{
    for (unsigned i = 0; i < l->count; i++) {
        if (l->result[i] != 0)
            err_note_set(&c->control.why, "%s: %s", l->host[i], gai_strerror(l->result[i]));
        for (const struct addrinfo *a = l->found[i]; a != NULL; a = a->ai_next) {
            struct sockaddr_storage at = { .ss_family = 0 };
            memcpy(&at, a->ai_addr, a->ai_addrlen);
            point_add(c, &at, a->ai_addrlen, l->host[i]);
        }
    }
}

/* The places that are known without a lookup: nodes, and contact points that are addresses. */
static void control_gather(struct cql *c)
{
    struct cql_control *k = &c->control;
    char host[CQL_HOST_BYTES_MAX + 1], port[6];
    k->points_count = 0;
    points_of_nodes(c, true);
    points_of_nodes(c, false);
    for (unsigned i = 0; i < c->opts.contact_points_count; i++) {
        struct sockaddr_storage a;
        socklen_t bytes;
        uint64_t number;
        if (cql_point_split(c->opts.contact_points[i], host, port) &&
            str_to_u64(str_of(port), &number) &&
            cql_address_read(host, (uint16_t)number, &a, &bytes))
            point_add(c, &a, bytes, host);
    }
    c->version = c->opts.version_max; /* nodes may have been upgraded */
    k->next_at = cql_now(c);
    control_move(c, CQL_CONTROL_OPENING);
}

/* Loop thread. Frees the lookup, whatever became of the client. */
static void lookup_done(struct loop_job *j, bool canceled)
{
    struct cql_lookup *l = CONTAINER_OF(j, struct cql_lookup, job);
    struct cql *c = l->client;
    if (c != NULL)
        c->control.lookup = NULL;
    if (c != NULL && !canceled && !c->stopping) {
        if (c->control.state == CQL_CONTROL_NONE)
            control_gather(c); /* the other places have failed meanwhile */
        if (c->control.state == CQL_CONTROL_OPENING) {
            lookup_take(c, l);
            cql_control_tick(c, cql_now(c));
        }
    }
    for (unsigned i = 0; i < l->count; i++)
        if (l->found[i] != NULL)
            freeaddrinfo(l->found[i]);
    free(l);
}

/* Looks up the contact points that are names. None: there is nothing to look up. */
static void lookup_start(struct cql *c)
{
    struct cql_lookup *l = calloc(1, sizeof *l);
    INVARIANT(l != NULL);
    l->job = (struct loop_job){ .run = lookup_run, .done = lookup_done };
    l->client = c;
    for (unsigned i = 0; i < c->opts.contact_points_count; i++) {
        struct sockaddr_storage a;
        socklen_t bytes;
        if (cql_point_split(c->opts.contact_points[i], l->host[l->count], l->port[l->count]) &&
            !cql_address_read(l->host[l->count], 0, &a, &bytes))
            l->count++;
    }
    if (l->count == 0) {
        free(l);
        return;
    }
    c->control.lookup = l;
    loop_job_start(c->opts.loop, &l->job);
}

/* Opens places of one kind as their time comes. A place that failed is tried again after a while,
 * for as long as others leave us waiting. False: no place of the kind is being tried or left. */
static bool points_open(struct cql *c, bool of_shunned, mono now)
{
    struct cql_control *k = &c->control;
    bool open = false;
    for (unsigned i = 0; i < k->points_count; i++) {
        struct cql_point *p = &k->points[i];
        if (p->shunned != of_shunned)
            continue;
        bool again = p->tried && p->conn == NULL && now.ns >= p->again_at.ns;
        if ((!p->tried || again) && now.ns >= k->next_at.ns) {
            point_open(p);
            /* Without any node all places are tried at once: the client is of no use meanwhile. */
            if (c->nodes_count > 0)
                k->next_at = mono_add_ms(now, NEXT_MS);
        }
        open |= p->conn != NULL || !p->tried;
    }
    return open;
}

/* One more place; the first time all of them at once. */
static void control_open(struct cql *c, mono now)
{
    struct cql_control *k = &c->control;
    if (points_open(c, false, now) || points_open(c, true, now))
        return;
    /* Only names are given, and their lookup is under way. */
    if (k->points_count == 0 && k->lookup != NULL)
        return; /* there are names only */
    control_none(c);
}

void cql_control_tick(struct cql *c, mono now)
{
    struct cql_control *k = &c->control;
    switch (k->state) {
    case CQL_CONTROL_NONE:
        if (c->stopping || now.ns < k->retry_at.ns)
            break;
        control_gather(c);
        if (k->lookup == NULL)
            lookup_start(c);
        control_open(c, now);
        break;
    case CQL_CONTROL_OPENING:
        /* A tick may end a connection, and with it the state. */
        for (unsigned i = 0; i < k->points_count && k->state == CQL_CONTROL_OPENING; i++)
            if (k->points[i].conn != NULL)
                cql_conn_tick(k->points[i].conn, now);
        if (k->state == CQL_CONTROL_OPENING)
            control_open(c, now);
        break;
    case CQL_CONTROL_UP:
        cql_conn_tick(k->conn, now);
        if (k->state == CQL_CONTROL_UP)
            cql_look_tick(c, now);
        break;
    case CQL_CONTROLS:
        INVARIANT(false);
    }
}

void cql_control_stop(struct cql *c)
{
    struct cql_control *k = &c->control;
    if (k->lookup != NULL)
        /* The lookup ends by itself, and must not touch the client then. */
        k->lookup->client = NULL;
    k->lookup = NULL;
    points_close(c);
    cql_conn_close(&k->conn);
    cql_look_drop(c);
    k->state = CQL_CONTROL_NONE;
}
