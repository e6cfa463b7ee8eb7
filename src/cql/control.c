/* control.c - the control connection: on which the client learns what nodes there are, and what
 * changes.
 *
 *   NONE --contact points resolved on the pool--> OPENING --the first that is ready--> UP
 *    ^__________________none of the places answers___|___________________it broke______|
 *
 * Places are the nodes of the last look, then the contact points: a cluster that moved away whole
 * is found again through their names. A place more is tried each NEXT_MS, so that one that does not
 * answer holds up no other. */
#include "cql/cql_impl.h"

#include "base/log.h"
#include "loop/loop.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEXT_MS = 100, ASK_HEAD_BYTES = 64 };

static const unsigned control_next[CQL_CONTROLS] = {
    [CQL_CONTROL_NONE] = BIT(CQL_CONTROL_RESOLVING),
    [CQL_CONTROL_RESOLVING] = BIT(CQL_CONTROL_OPENING) | BIT(CQL_CONTROL_NONE),
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

static void control_lost(struct cql *c)
{
    cql_look_drop(c);
    control_none(c);
    c->control.retry_at = cql_now(c); /* at once; from then on slower */
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

static void point_opened(void *ctx, struct cql_conn *conn)
{
    struct cql_point *p = ctx;
    struct cql *c = p->client;
    struct cql_control *k = &c->control;
    INVARIANT(k->state == CQL_CONTROL_OPENING);
    p->conn = NULL;
    points_close(c);
    control_move(c, CQL_CONTROL_UP);
    k->conn = conn;
    k->address = p->address;
    k->address_bytes = p->address_bytes;
    k->port = cql_address_port(&p->address);
    k->retry_ms = 0;
    k->said = false;
    c->stats.version = c->version;
    cql_look_begin(c);
}

static void point_open(struct cql_point *p);

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
    p->conn = cql_conn_open(&o, &c->control.why);
    c->stats.connects += p->conn != NULL;
}

/* ---- places ---- */

static void point_add(struct cql *c, const struct sockaddr_storage *a, socklen_t bytes,
                      const char *host)
{
    struct cql_control *k = &c->control;
    for (unsigned i = 0; i < k->points_count; i++)
        if (k->points[i].address_bytes == bytes && memcmp(&k->points[i].address, a, bytes) == 0)
            return;
    if (k->points_count == CQL_POINTS_MAX)
        return; /* enough to find one that answers */
    struct cql_point *p = &k->points[k->points_count++];
    *p = (struct cql_point){ .client = c, .address = *a, .address_bytes = bytes };
    (void)snprintf(p->host, sizeof p->host, "%s", host);
}

/* up: those with an open connection; else the others. */
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

/* getaddrinfo on the pool; outlives a stop. */
struct cql_lookup {
    struct loop_job job;
    struct cql *client; /* NULL: it has stopped */
    unsigned count;
    char host[CQL_CONTACT_POINTS_MAX][CQL_HOST_BYTES_MAX + 1];
    char port[CQL_CONTACT_POINTS_MAX][6];
    struct addrinfo *found[CQL_CONTACT_POINTS_MAX];
    int result[CQL_CONTACT_POINTS_MAX];
};

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

static void lookup_done(struct loop_job *j, bool canceled)
{
    struct cql_lookup *l = CONTAINER_OF(j, struct cql_lookup, job);
    struct cql *c = l->client;
    if (c != NULL) {
        struct cql_control *k = &c->control;
        k->lookup = NULL;
        k->points_count = 0;
        points_of_nodes(c, true);
        points_of_nodes(c, false);
        if (!canceled)
            lookup_take(c, l);
        control_move(c, CQL_CONTROL_OPENING);
        k->next_at = cql_now(c);
        cql_control_tick(c, k->next_at);
    }
    for (unsigned i = 0; i < l->count; i++)
        if (l->found[i] != NULL)
            freeaddrinfo(l->found[i]);
    free(l);
}

static void control_resolve(struct cql *c)
{
    struct cql_lookup *l = calloc(1, sizeof *l);
    INVARIANT(l != NULL);
    l->job = (struct loop_job){ .run = lookup_run, .done = lookup_done };
    l->client = c;
    for (unsigned i = 0; i < c->opts.contact_points_count; i++)
        if (cql_point_split(c->opts.contact_points[i], l->host[l->count], l->port[l->count]))
            l->count++; /* cql_new has refused others */
    control_move(c, CQL_CONTROL_RESOLVING);
    c->version = c->opts.version_max; /* nodes may have been upgraded */
    c->control.lookup = l;
    loop_job_start(c->opts.loop, &l->job);
}

/* One more place; the first time all of them at once. */
static void control_open(struct cql *c, mono now)
{
    struct cql_control *k = &c->control;
    bool open = false;
    for (unsigned i = 0; i < k->points_count; i++) {
        struct cql_point *p = &k->points[i];
        if (!p->tried && now.ns >= k->next_at.ns) {
            point_open(p);
            if (c->nodes_count > 0)
                k->next_at = mono_add_ms(now, NEXT_MS);
        }
        open |= p->conn != NULL || !p->tried;
    }
    if (!open)
        control_none(c);
}

void cql_control_tick(struct cql *c, mono now)
{
    struct cql_control *k = &c->control;
    switch (k->state) {
    case CQL_CONTROL_NONE:
        if (!c->stopping && now.ns >= k->retry_at.ns)
            control_resolve(c);
        break;
    case CQL_CONTROL_RESOLVING:
        break;
    case CQL_CONTROL_OPENING:
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
        k->lookup->client = NULL;
    k->lookup = NULL;
    points_close(c);
    cql_conn_close(&k->conn);
    cql_look_drop(c);
    k->state = CQL_CONTROL_NONE;
}
