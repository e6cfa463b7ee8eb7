/* skew.c - compares this server's clock with those of two nodes, for store.c: when it opens, and
 * each skew_period.
 *
 * Two requests go out at once. The client takes nodes in random order, so each request asks a node
 * of its own where there are two.
 * Invariant: ahead_ns is 0 unless a clock is certainly off: the time of the exchange and the node's
 * whole milliseconds are allowed for. */
#include "cassandra/skew.h"

#include "cql/cql.h"

#include <stdlib.h>

enum { NODES = 2 };

/* One comparison. It frees itself behind the last answer. */
struct skew {
    struct skew_opts opts;
    skew_done_fn *done;
    void *ctx;
    store_time sent;         /* by this server's clock */
    unsigned left, answered; /* left: requests under way */
    int64_t ahead_ns;        /* of the answer that was nearest */
    err why;
    struct ask {
        struct skew *skew;
        struct cql_request request;
    } asks[NODES];
};

static int64_t size_of(int64_t ns)
{
    return ns < 0 ? -ns : ns;
}

/* False: it says no time. */
static bool node_time(const struct cql_request *q, int64_t *ns)
{
    struct cql_rows rows = q->out.rows;
    struct cql_cell cell;
    int64_t ms;
    if (rows.columns == NULL || rows.columns->count != 1 || !cql_rows_next(&rows, &cell) ||
        !cql_get_i64(&cell, &ms))
        return false;
    *ns = ms * NS_PER_MS;
    return true;
}

/* By how much the clock is ahead at least. The node looked at its clock between sent and now, and
 * told whole milliseconds: a time within that says nothing. */
static int64_t ahead_of(store_time sent, store_time now, int64_t node_ns)
{
    if (node_ns + NS_PER_MS < sent.ns)
        return sent.ns - node_ns - NS_PER_MS;
    return node_ns > now.ns ? now.ns - node_ns : 0;
}

static void answered(struct cql_request *q)
{
    struct ask *a = CONTAINER_OF(q, struct ask, request);
    struct skew *s = a->skew;
    int64_t node_ns;
    if (q->out.why != ERR_OK) {
        s->why = q->out.why;
    } else if (node_time(q, &node_ns)) {
        int64_t ahead_ns = ahead_of(s->sent, clock_store(s->opts.clock), node_ns);
        /* The nearer node counts: one node whose clock is wrong stops nobody. */
        if (s->answered++ == 0 || size_of(ahead_ns) < size_of(s->ahead_ns))
            s->ahead_ns = ahead_ns;
    } else {
        s->why = ERR_CORRUPT;
    }
    cql_outcome_fini(&q->out);
    if (--s->left > 0)
        return;
    s->done(s->ctx, s->answered > 0 ? ERR_OK : s->why, s->ahead_ns);
    free(s);
}

void skew_look(const struct skew_opts *o, skew_done_fn *done, void *ctx)
{
    struct skew *s = calloc(1, sizeof *s);
    INVARIANT(s != NULL);
    *s = (struct skew){
        .opts = *o, .done = done, .ctx = ctx, .sent = clock_store(o->clock), .left = NODES
    };
    for (unsigned i = 0; i < NODES; i++) {
        struct cql_request *q = &s->asks[i].request;
        s->asks[i].skew = s;
        *q = (struct cql_request){ .way = CQL_WAY_TEXT,
                                   .text = STR("SELECT toUnixTimestamp(now()) FROM system.local"),
                                   .done = answered };
        /* The node's own clock is asked for, so one node answers. `now()` is made there. */
        q->params.consistency = CQL_ONE;
        q->params.timestamp_us = CQL_NO_TIMESTAMP;
        q->params.now_s = CQL_NO_NOW;
        q->deadline = o->deadline;
        cql_start(o->client, q);
    }
}

/* ---- the guard ---- */

int64_t skew_apart(struct clock *c)
{
    return clock_store(c).ns - clock_mono(c).ns;
}

void skew_guard_set(struct skew_guard *g, int64_t apart_ns)
{
    atomic_store(&g->apart_ns, apart_ns);
    atomic_store(&g->known, true);
}

bool skew_guard_holds(const struct skew_guard *g, struct clock *c)
{
    return !atomic_load(&g->known) ||
           size_of(skew_apart(c) - atomic_load(&g->apart_ns)) <= g->moved_ns_max;
}
