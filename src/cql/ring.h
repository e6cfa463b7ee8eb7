/* ring.h - who holds a partition: tokens, the ring, and replicas by the keyspace's strategy.
 *
 * Token: Murmur3 x64 128, seed 0, the first 64 bits, with the tail's bytes sign-extended as
 * Cassandra's MurmurHash.java has them. Replicas: as SimpleStrategy and NetworkTopologyStrategy
 * walk the ring (racks not yet seen first). Private to cql. Pure. Thread: any. */
#ifndef CQL_RING_H
#define CQL_RING_H

#include "base/check.h"
#include "base/err.h"
#include "base/str.h"
#include "cql/value.h"

enum { CQL_REPLICAS_MAX = 32, CQL_DCS_MAX = 16, CQL_NAME_BYTES_MAX = 63 };

int64_t cql_token(str routing_key);
/* Of a composite partition key: each part with its length, ended by 0. Of one part: the part. */
void cql_routing_key(struct buf *out, const str *parts, unsigned count);

/* What a node says of itself. Borrowed. */
struct cql_ring_node {
    str dc, rack;
    const int64_t *tokens;
    unsigned tokens_count;
};
struct cql_ring; /* knows nodes by their index */
struct cql_ring *cql_ring_new(const struct cql_ring_node *nodes, unsigned count);
void cql_ring_free(struct cql_ring **rp);

enum cql_strategy {
    CQL_STRATEGY_LOCAL,   /* every node has its own */
    CQL_STRATEGY_SIMPLE,  /* copies in all */
    CQL_STRATEGY_NETWORK, /* copies by data centre */
    CQL_STRATEGY_OTHER,   /* not known here: no replicas are told */
};
struct cql_replication {
    enum cql_strategy strategy;
    unsigned copies; /* SIMPLE */
    unsigned dcs_count;
    struct {
        char name[CQL_NAME_BYTES_MAX + 1];
        unsigned copies;
    } dcs[CQL_DCS_MAX];
};
/* From the map of system_schema.keyspaces: {"class": "...NetworkTopologyStrategy", "dc1": "3"}.
 * Transient replicas ("3/1") count as copies. ERR_BAD: it is no such map. */
MUST_CHECK err cql_replication_read(const struct cql_cell *map, struct cql_replication *out,
                                    struct err_note *note);

/* Replicas of a token: indexes of nodes into out, in the order of the ring, no node twice; those
 * in dc only, when dc is not empty. Returns how many: at most CQL_REPLICAS_MAX, and never more
 * than there are nodes. */
unsigned cql_ring_replicas(const struct cql_ring *r, const struct cql_replication *how,
                           int64_t token, str dc, unsigned out[CQL_REPLICAS_MAX]);

#endif
