/* plan.c - which nodes a request is sent to, in which order; and how long reads take of late.
 *
 * A change of the schema goes to the node of the control connection first. Then come replicas of
 * the partition in the local data centre, and the other nodes there. Remote nodes follow when they
 * are allowed. Each of these groups is shuffled, so the load of a node that is down falls on all
 * others alike. Then its slow nodes come last.
 * Invariants:
 *   1 only nodes with an open connection are in a plan when it is made;
 *   2 a plan has at most CQL_PLAN_MAX nodes, none twice. */
#include "cql/cql_impl.h"

#include <string.h>

/* Fewer reads say nothing of one in a hundred. */
enum { LATENCIES_MIN = 100 };

/* ---- latencies: a histogram with 4 buckets an octave, from 1 us on ---- */

/* 4 buckets an octave: the first bits behind the leading one. */
static unsigned latency_bucket(int64_t ns)
{
    uint64_t us = ns <= NS_PER_US ? 1 : (uint64_t)(ns / NS_PER_US);
    unsigned octave = 63u - (unsigned)__builtin_clzll(us);
    unsigned quarter = (unsigned)(us << 2 >> octave) & 3;
    unsigned bucket = 4 * octave + quarter;
    return bucket < CQL_LATENCY_BUCKETS ? bucket : CQL_LATENCY_BUCKETS - 1;
}

/* The upper end of a bucket: patience should rather be too long. */
static int64_t latency_top_ns(unsigned bucket)
{
    unsigned octave = bucket / 4, quarter = bucket % 4;
    return ((int64_t)1 << octave) * (5 + quarter) / 4 * NS_PER_US;
}

void cql_latency_note(struct cql *c, int64_t took_ns)
{
    c->latencies[latency_bucket(took_ns)]++;
    c->latencies_count++;
}

/* Each second: works out the p99, and halves all counts, so that what is older weighs less. */
void cql_latency_age(struct cql *c)
{
    if (c->latencies_count < LATENCIES_MIN)
        return;
    /* From the slowest bucket down, until more than one in a hundred lies above. */
    uint32_t above = c->latencies_count / 100, seen = 0;
    unsigned bucket = CQL_LATENCY_BUCKETS - 1;
    for (; bucket > 0; bucket--) {
        seen += c->latencies[bucket];
        if (seen > above)
            break;
    }
    c->p99_ns = latency_top_ns(bucket);
    c->latencies_count = 0;
    for (bucket = 0; bucket < CQL_LATENCY_BUCKETS; bucket++) {
        c->latencies[bucket] /= 2;
        c->latencies_count += c->latencies[bucket];
    }
}

/* ---- the plan ---- */

struct cql_keyspace *cql_keyspace_find(struct cql *c, const char *name)
{
    for (unsigned i = 0; i < c->keyspaces_count; i++)
        if (strcmp(c->keyspaces[i].name, name) == 0)
            return &c->keyspaces[i];
    return NULL;
}

/* The indexes in the ring of the nodes that hold the partition; count 0: not known, such as for a
 * statement as text. All parts of a batch are of one partition as a rule: the first part counts. */
static const uint16_t *plan_replicas(struct cql *c, const struct cql_request *q, unsigned *count)
{
    *count = 0;
    const struct cql_part *part = q->way == CQL_WAY_TEXT ? NULL : &q->parts[0];
    const struct cql_statement *st = part != NULL ? part->statement : NULL;
    if (st == NULL || st->partition_count == 0 || c->ring == NULL)
        return NULL;
    struct cql_keyspace *ks = cql_keyspace_find(c, st->keyspace);
    if (ks == NULL)
        return NULL;
    /* Worked out at the first request of a keyspace, and kept until nodes or keyspaces change. */
    if (ks->replicas == NULL)
        ks->replicas = cql_replicas_new(c->ring, &ks->how, str_of(c->opts.local_dc));
    str parts[CQL_PARTITION_COLUMNS_MAX];
    for (unsigned i = 0; i < st->partition_count; i++) {
        if (part->values == NULL || st->partition[i] >= part->values->count)
            return NULL;
        parts[i] = cql_value_at(part->values, st->partition[i]);
    }
    int64_t token;
    if (st->partition_count == 1) {
        token = cql_token(parts[0]);
    } else {
        buf_clear(&c->routing);
        if (!cql_routing_key(&c->routing, parts, st->partition_count))
            return NULL; /* longer than a key may be: the server will say so */
        token = cql_token(buf_str(&c->routing));
    }
    return cql_replicas_of(ks->replicas, token, count);
}

static bool plan_holds(const struct cql_request *q, unsigned place)
{
    for (unsigned i = 0; i < q->plan_count; i++)
        if (q->plan[i] == place)
            return true;
    return false;
}

/* Skips nodes that cannot be asked now, and nodes that are there already. */
static void plan_add(struct cql *c, struct cql_request *q, unsigned place)
{
    const struct cql_node *n = c->nodes[place];
    if (n != NULL && !n->leaving && cql_node_is_up(n) && q->plan_count < CQL_PLAN_MAX &&
        !plan_holds(q, place))
        q->plan[q->plan_count++] = (uint16_t)place;
}

/* Shuffles the plan from `from` on, then moves the slow nodes behind the others. */
static void plan_order(struct cql *c, struct cql_request *q, unsigned from)
{
    uint16_t slow[CQL_PLAN_MAX];
    unsigned slow_count = 0, kept = from;
    for (unsigned i = q->plan_count; i > from + 1; i--) {
        unsigned j = from + (unsigned)rng_below(&c->rng, i - from);
        uint16_t swap = q->plan[i - 1];
        q->plan[i - 1] = q->plan[j];
        q->plan[j] = swap;
    }
    mono now = cql_now(c);
    for (unsigned i = from; i < q->plan_count; i++) {
        if (c->nodes[q->plan[i]]->slow_until.ns > now.ns)
            slow[slow_count++] = q->plan[i];
        else
            q->plan[kept++] = q->plan[i];
    }
    memcpy(q->plan + kept, slow, slow_count * sizeof slow[0]);
}

static void plan_others(struct cql *c, struct cql_request *q, bool local)
{
    unsigned from = q->plan_count;
    unsigned first = c->nodes_count == 0 ? 0 : (unsigned)rng_below(&c->rng, c->nodes_count);
    for (unsigned i = 0; i < c->nodes_count; i++) {
        unsigned place = (first + i) % c->nodes_count;
        if (c->nodes[place] != NULL && c->nodes[place]->local == local)
            plan_add(c, q, place);
    }
    plan_order(c, q, from);
}

/* The node of the control connection knows the schema that it has made, while others still tell of
 * the schema before. An agreement asked there is not about an older schema. */
static void plan_control_node(struct cql *c, struct cql_request *q)
{
    const struct cql_control *k = &c->control;
    for (unsigned i = 0; k->state == CQL_CONTROL_UP && i < c->nodes_count; i++) {
        const struct cql_node *n = c->nodes[i];
        if (n != NULL && n->address_bytes == k->address_bytes &&
            memcmp(&n->address, &k->address, k->address_bytes) == 0)
            plan_add(c, q, i);
    }
}

void cql_plan(struct cql *c, struct cql_request *q)
{
    unsigned count;
    const uint16_t *replicas = plan_replicas(c, q, &count);
    q->plan_count = q->plan_at = 0;
    if (q->schema)
        plan_control_node(c, q);
    for (unsigned i = 0; i < count; i++)
        plan_add(c, q, c->ring_places[replicas[i]]);
    /* The control node stays in front of a change of the schema. */
    if (!q->schema)
        plan_order(c, q, 0);
    plan_others(c, q, true);
    if (c->opts.remote_dcs)
        plan_others(c, q, false);
}

/* A keyspace or an instant beside a statement needs version 5. */
static bool node_fits(const struct cql_request *q, const struct cql_node *n)
{
    return n->version >= 5 || (q->params.keyspace.n == 0 && q->params.now_s == CQL_NO_NOW);
}

/* Looked at again for each try: a node may have gone since the plan was made. */
struct cql_node *cql_plan_node(const struct cql_request *q, unsigned at)
{
    struct cql_node *n = q->client->nodes[q->plan[at]];
    return n != NULL && !n->leaving && cql_node_is_up(n) && node_fits(q, n) ? n : NULL;
}

const struct cql_node *cql_plan_misfit(const struct cql_request *q)
{
    for (unsigned i = 0; i < q->plan_count; i++) {
        const struct cql_node *n = q->client->nodes[q->plan[i]];
        if (n != NULL && cql_node_is_up(n) && !node_fits(q, n))
            return n;
    }
    return NULL;
}
