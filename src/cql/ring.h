/* ring.h - who holds a partition: tokens, the ring, and replicas by the keyspace's strategy.
 *
 * Token: Murmur3 x64 128, seed 0, the first 64 bits, with the tail's bytes sign-extended as
 * Cassandra's MurmurHash.java has them. Replicas: as SimpleStrategy and NetworkTopologyStrategy
 * walk the ring (racks not yet seen first). The walk is made once, for each place of the ring; a
 * request only looks up its token. Private to cql. Pure. Thread: any; what is built never
 * changes, and may be read by several at once. */
#ifndef CQL_RING_H
#define CQL_RING_H

#include "base/check.h"
#include "base/err.h"
#include "base/str.h"
#include "cql/value.h"

enum {
    CQL_REPLICAS_MAX = 32,
    CQL_DCS_MAX = 16,
    CQL_NAME_BYTES_MAX = 63,
    CQL_RING_NODES_MAX = 4096,
    CQL_NODE_TOKENS_MAX = 1536, /* Cassandra's own limit */
};

int64_t cql_token(str routing_key);
/* Appends the routing key. Of a composite partition key: each part with its length, ended by 0. Of
 * one part: the part. False (out as before): a part has more than UINT16_MAX bytes, which is no key
 * for the server either. */
MUST_CHECK bool cql_routing_key(struct buf *out, const str *parts, unsigned count);

/* What a node says of itself. Borrowed. */
struct cql_ring_node {
    str dc, rack;
    const int64_t *tokens; /* in any order; those of a node that holds no data: none */
    unsigned tokens_count;
};
struct cql_ring; /* knows nodes by their index */
/* Copies what it needs. INVARIANT: at most CQL_RING_NODES_MAX nodes of at most CQL_NODE_TOKENS_MAX
 * tokens. A token of two nodes is met as that of the lower index, then the other. Dies when out of
 * memory. */
struct cql_ring *cql_ring_new(const struct cql_ring_node *nodes, unsigned count);
void cql_ring_free(struct cql_ring **rp);

enum cql_strategy {
    CQL_STRATEGY_LOCAL,   /* every node has its own: no replicas are told */
    CQL_STRATEGY_SIMPLE,  /* copies in all */
    CQL_STRATEGY_NETWORK, /* copies by data centre */
    CQL_STRATEGY_OTHER,   /* not known here: no replicas are told */
};
struct cql_replication {
    enum cql_strategy strategy;
    unsigned copies; /* SIMPLE; NETWORK: in each data centre that is not named, 0 as a rule */
    unsigned dcs_count;
    struct {
        char name[CQL_NAME_BYTES_MAX + 1];
        unsigned copies;
    } dcs[CQL_DCS_MAX];
};
/* From the map of system_schema.keyspaces: {"class": "...NetworkTopologyStrategy", "dc1": "3"}.
 * Transient replicas ("3/1") count as copies. ERR_BAD: it is no such map. ERR_LIMIT: more data
 * centres, or a longer name, than there is room for. */
MUST_CHECK err cql_replication_read(const struct cql_cell *map, struct cql_replication *out,
                                    struct err_note *note);

/* The replicas of every token, for one keyspace's replication. */
struct cql_replicas;
/* dc: those in it only; empty: all. Keeps nothing of ring and how. At most as many lists as the
 * ring has tokens. Of 256,000 tokens this takes some 10 ms, and half a second where a rack has one
 * token of them: not for a loop's thread. Dies when out of memory. */
struct cql_replicas *cql_replicas_new(const struct cql_ring *ring,
                                      const struct cql_replication *how, str dc);
void cql_replicas_free(struct cql_replicas **rp);
/* Indexes of nodes, in the order of the ring, no node twice; *count: how many, 0 to
 * CQL_REPLICAS_MAX. Borrowed from r. One binary search. */
const uint16_t *cql_replicas_of(const struct cql_replicas *r, int64_t token, unsigned *count);

#endif
