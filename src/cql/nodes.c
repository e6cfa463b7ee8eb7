/* nodes.c - a node: its connections, whether it is slow, and who waits there.
 *
 * Invariants:
 *   1 open counts the connections in conns whose handshake is over;
 *   2 a node is kept as long as it has a connection: a leaving node goes when nothing is under way
 *     there;
 *   3 version is that of all its connections; a node without a connection is asked for the newest
 *     again;
 *   4 tries to connect come one at a time, and ever later, until a connection has lived for
 *     CQL_STEADY_MS. Several connections that end together are one failure. */
#include "cql/cql_impl.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

enum {
    SLOW_MS_MIN = 1000,
    SLOW_MS_MAX = 10000,
    FOREGROUND_TURNS = 4, /* of so many turns one is the background's, where both wait */
};

bool cql_node_is_up(const struct cql_node *n)
{
    return n->open > 0;
}

/* The background's part of a limit: a quarter, and at least one. */
static unsigned background_part(unsigned all)
{
    return all < 4 ? 1 : all / 4;
}

unsigned cql_waiting_max(const struct cql *c, enum cql_class class)
{
    unsigned all = c->opts.waiting_max;
    return class == CQL_BACKGROUND ? background_part(all) : all;
}

static unsigned waiting_all(const struct cql_node *n)
{
    return n->waiting_count[CQL_FOREGROUND] + n->waiting_count[CQL_BACKGROUND];
}

struct cql_node *cql_node_of(const struct cql *c, const unsigned char host_id[CQL_UUID_BYTES])
{
    for (unsigned i = 0; i < c->nodes_count; i++)
        if (c->nodes[i] != NULL && memcmp(c->nodes[i]->host_id, host_id, CQL_UUID_BYTES) == 0)
            return c->nodes[i];
    return NULL;
}

/* The connection with the fewest requests under way; NULL: none has room for the class. */
struct cql_conn *cql_node_conn(struct cql_node *n, enum cql_class class)
{
    const struct cql_opts *o = &n->client->opts;
    if (class == CQL_BACKGROUND &&
        n->in_flight[CQL_BACKGROUND] >= background_part(o->inflight_max * o->connections))
        return NULL;
    struct cql_conn *best = NULL;
    for (unsigned i = 0; i < o->connections; i++) {
        struct cql_conn *conn = n->conns[i];
        if (conn != NULL && cql_conn_has_room(conn) &&
            (best == NULL || cql_conn_in_flight(conn) < cql_conn_in_flight(best)))
            best = conn;
    }
    return best;
}

/* The node is asked last for a while, which is longer each time until an answer comes after it. */
void cql_node_slow(struct cql_node *n, mono now)
{
    if (n->slow_until.ns > now.ns)
        return;
    n->slow_ms = n->slow_ms == 0 ? SLOW_MS_MIN : 2 * n->slow_ms;
    if (n->slow_ms > SLOW_MS_MAX)
        n->slow_ms = SLOW_MS_MAX;
    n->slow_until = mono_add_ms(now, n->slow_ms);
}

void cql_node_answered(struct cql_node *n, int64_t took_ns)
{
    /* A moving average; an answer counts an eighth. */
    n->latency_ns += (took_ns - n->latency_ns) / 8;
    if (n->slow_ms > 0 && n->slow_until.ns <= cql_now(n->client).ns)
        n->slow_ms = 0; /* it was tried again, and answered */
}

/* ---- those who wait ---- */

/* Chooses the class that is served next. Of FOREGROUND_TURNS turns one is the background's, so
 * neither starves. */
static enum cql_class turn_of(struct cql_node *n)
{
    bool fore = !list_empty(&n->waiting[CQL_FOREGROUND]);
    bool back =
        !list_empty(&n->waiting[CQL_BACKGROUND]) && cql_node_conn(n, CQL_BACKGROUND) != NULL;
    if (fore && back)
        return n->turn++ % FOREGROUND_TURNS == 0 ? CQL_BACKGROUND : CQL_FOREGROUND;
    return back ? CQL_BACKGROUND : CQL_FOREGROUND;
}

/* Called when room may have come: an answer, a new connection, each tick. */
void cql_node_serve(struct cql_node *n)
{
    for (;;) {
        enum cql_class class = turn_of(n);
        struct list *first = list_first(&n->waiting[class]);
        if (first == NULL || cql_node_conn(n, class) == NULL)
            return;
        if (!cql_request_go_on(CONTAINER_OF(first, struct cql_request, link), n))
            return; /* it waits again: bytes have to leave first */
    }
}

/* Each goes to another node, or fails, so the lists become empty. */
static void waiters_send_away(struct cql_node *n)
{
    for (unsigned class = 0; class < CQL_CLASSES; class ++) {
        struct list *first;
        while ((first = list_first(&n->waiting[class])) != NULL)
            cql_request_elsewhere(CONTAINER_OF(first, struct cql_request, link),
                                  "its last connection was lost");
    }
}

/* ---- its connections ---- */

static unsigned conn_place(const struct cql_node *n, const struct cql_conn *conn)
{
    unsigned i = 0;
    while (n->conns[i] != conn) {
        i++;
        INVARIANT(i < CQL_CONNECTIONS_MAX);
    }
    return i;
}

static void node_opened(void *ctx, struct cql_conn *conn)
{
    struct cql_node *n = ctx;
    struct cql *c = n->client;
    (void)conn_place(n, conn);               /* one of ours */
    n->opened_at = n->retry_at = cql_now(c); /* the next one may come at once */
    n->said = false;
    n->version = cql_conn_version(conn);
    if (n->open++ == 0) {
        log_event(c->opts.log, LOG_INFO, "cql.node", LOG_CSTR("node", n->text),
                  LOG_CSTR("state", "up"), LOG_INT("version", n->version));
        cql_known_ahead(n);
    }
    cql_ready_judge(c);
    cql_node_serve(n);
}

/* Notes why the node has no connection. Requests that find no node hear it; the log hears it once.
 */
static void node_failed(struct cql_node *n, const char *why)
{
    struct cql *c = n->client;
    err_note_set(&c->control.why, "%s: %s", n->text, why);
    if (n->said)
        return;
    n->said = true;
    log_event(c->opts.log, LOG_WARN, "cql.node", LOG_CSTR("node", n->text),
              LOG_CSTR("state", "down"), LOG_CSTR("why", why));
}

/* When to connect again. */
static void node_retry_set(struct cql_node *n, mono now)
{
    if (now.ns >= n->retry_at.ns) /* else another one has ended just now */
        n->retry_at = mono_add_ms(now, cql_backoff_ms(n->client, &n->retry_ms));
}

static void node_closed(void *ctx, struct cql_conn *conn, enum cql_end end,
                        const struct err_note *why)
{
    struct cql_node *n = ctx;
    struct cql *c = n->client;
    mono now = cql_now(c);
    uint64_t sent, received;
    cql_conn_bytes(conn, &sent, &received);
    c->stats.bytes_sent += sent;
    c->stats.bytes_received += received;
    n->conns[conn_place(n, conn)] = NULL;
    /* A handshake that failed is no loss of a connection. */
    if (cql_conn_was_open(conn)) {
        n->open--;
        c->stats.lost++;
        /* It has lived for a while: the next failure is a new one. */
        if (now.ns >= mono_add_ms(n->opened_at, CQL_STEADY_MS).ns)
            n->retry_ms = 0;
    }
    node_retry_set(n, now);
    if (n->open == 0 && end == CQL_END_VERSION && n->version > CQL_VERSION_MIN) {
        n->version--; /* older than other nodes of the cluster: an upgrade is under way */
        n->retry_at = now;
    } else if (n->open == 0) {
        n->version = 0;
        node_failed(n, why->text);
        waiters_send_away(n);
    }
    cql_ready_judge(c);
}

/* Warnings come with each answer that deserves one: the log gets one a second. */
static void node_warned(void *ctx, str warning)
{
    struct cql_node *n = ctx;
    struct cql *c = n->client;
    c->stats.warnings++;
    if (cql_now(c).ns < c->warned_at.ns + NS_PER_S)
        return; /* the rest of this second's are counted */
    c->warned_at = cql_now(c);
    log_event(c->opts.log, LOG_WARN, "cql.warning", LOG_CSTR("node", n->text),
              LOG_STR("text", warning));
}

static void node_room(void *ctx, struct cql_conn *conn)
{
    (void)conn;
    cql_node_serve(ctx);
}

/* The socket may fail at once, as without a route: then the node waits like after any failure. */
static void node_connect(struct cql_node *n, unsigned place, mono now)
{
    struct cql *c = n->client;
    struct cql_conn_opts o = cql_conn_opts_of(c);
    char host[CQL_NODE_TEXT_BYTES];
    cql_address_host(n->text, host);
    if (n->version == 0)
        n->version = c->opts.version_max; /* each node is asked: an upgrade may be under way */
    o.version = n->version;
    o.address = n->address;
    o.address_bytes = n->address_bytes;
    o.host = host;
    o.opened = node_opened;
    o.closed = node_closed;
    o.warned = node_warned;
    o.room = node_room;
    o.ctx = n;
    struct err_note why = { .text = "" };
    n->conns[place] = cql_conn_open(&o, &why);
    if (n->conns[place] != NULL) {
        c->stats.connects++;
        return;
    }
    node_retry_set(n, now);
    if (n->open == 0)
        node_failed(n, why.text);
}

/* Opens a connection that is missing, unless one is shaking hands: a node that is down costs one
 * try at a time. */
static void node_fill(struct cql_node *n, mono now)
{
    unsigned shaking = 0, missing = CQL_CONNECTIONS_MAX;
    for (unsigned i = n->client->opts.connections; i > 0; i--) {
        if (n->conns[i - 1] == NULL)
            missing = i - 1;
        else if (!cql_conn_is_open(n->conns[i - 1]))
            shaking++;
    }
    if (missing < CQL_CONNECTIONS_MAX && shaking == 0 && now.ns >= n->retry_at.ns)
        node_connect(n, missing, now);
}

void cql_node_tick(struct cql_node *n, mono now)
{
    struct cql *c = n->client;
    for (unsigned i = 0; i < CQL_CONNECTIONS_MAX; i++)
        if (n->conns[i] != NULL)
            cql_conn_tick(n->conns[i], now);
    cql_known_tick(n, now);
    /* Its requests are let go to their end; new ones are not sent there (plan.c). */
    if (n->leaving) {
        if (n->in_flight[CQL_FOREGROUND] + n->in_flight[CQL_BACKGROUND] + waiting_all(n) == 0)
            cql_node_free(c, n);
        return;
    }
    if (!c->stopping && n->seen && (n->local || c->opts.remote_dcs))
        /* a node that no look tells any more may have a successor at its address */
        node_fill(n, now);
    cql_node_serve(n);
}

void cql_node_move(struct cql_node *n, const struct sockaddr_storage *to, socklen_t bytes)
{
    n->address = *to;
    n->address_bytes = bytes;
    cql_address_print(&n->address, n->text);
    n->retry_ms = 0;
    n->retry_at = cql_now(n->client);
    for (unsigned i = 0; i < CQL_CONNECTIONS_MAX; i++)
        if (n->conns[i] != NULL && !cql_conn_is_open(n->conns[i]))
            cql_conn_close(&n->conns[i]); /* to where it was before */
}

static void node_close(struct cql_node *n)
{
    for (unsigned i = 0; i < CQL_CONNECTIONS_MAX; i++)
        cql_conn_close(&n->conns[i]);
    n->open = 0;
    waiters_send_away(n);
}

struct cql_node *cql_node_new(struct cql *c)
{
    /* The lowest free place: places are indexes in plans, and may be used again. */
    unsigned place = 0;
    while (place < c->nodes_count && c->nodes[place] != NULL)
        place++;
    if (place == CQL_NODES_MAX)
        return NULL;
    struct cql_node *n = calloc(1, sizeof *n);
    INVARIANT(n != NULL);
    n->client = c;
    n->place = place;
    for (unsigned class = 0; class < CQL_CLASSES; class ++)
        list_init(&n->waiting[class]);
    list_init(&n->dirty);
    c->nodes[place] = n;
    if (place == c->nodes_count)
        c->nodes_count++;
    return n;
}

/* Requests under way there were told by their connections. */
void cql_node_free(struct cql *c, struct cql_node *n)
{
    node_close(n);
    cql_known_free(n);
    list_remove(&n->dirty);
    c->nodes[n->place] = NULL;
    free(n->tokens);
    free(n);
}
