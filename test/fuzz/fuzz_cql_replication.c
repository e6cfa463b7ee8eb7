/* Goal: no bytes in a keyspace's replication break its reading or the replicas found by it, and
 * those are of the ring, no node twice, of the data centre asked for, and as many as asked for at
 * most. */
#include "cql/ring.h"

#include <string.h>

enum { NODES = 9 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const int64_t tokens[NODES + 1] = { INT64_MIN + 1, -77,           -1,       0, 5, 5, 1000,
                                           1 << 30,       INT64_MAX - 1, INT64_MAX };
static const struct cql_ring_node nodes[NODES] = {
    { STR_INIT("dc1"), STR_INIT("r1"), &tokens[0], 2 },
    { STR_INIT("dc1"), STR_INIT("r1"), &tokens[2], 1 },
    { STR_INIT("dc2"), STR_INIT("r1"), &tokens[3], 2 },
    { STR_INIT("dc1"), STR_INIT("r2"), &tokens[5], 2 },
    { STR_INIT("dc2"), STR_INIT("r2"), &tokens[6], 1 },
    { STR_INIT("dc1"), STR_INIT("r3"), &tokens[7], 1 },
    { STR_INIT("dc3"), STR_INIT(""), &tokens[8], 1 },
    { STR_INIT("dc2"), STR_INIT("r2"), &tokens[9], 1 },
    { STR_INIT("dc1"), STR_INIT("r9"), NULL, 0 },
};

static unsigned copies_max(const struct cql_replication *how)
{
    uint64_t sum = 0;
    if (how->strategy == CQL_STRATEGY_SIMPLE)
        return how->copies;
    if (how->strategy == CQL_STRATEGY_NETWORK)
        sum = (uint64_t)how->copies * 3;
    for (unsigned i = 0; i < how->dcs_count; i++)
        sum += how->dcs[i].copies;
    return sum > NODES ? NODES : (unsigned)sum;
}

static void check(const struct cql_replicas *r, int64_t token, const struct cql_replication *how,
                  str dc)
{
    unsigned count, seen = 0;
    const uint16_t *found = cql_replicas_of(r, token, &count);
    INVARIANT(count <= copies_max(how));
    for (unsigned i = 0; i < count; i++) {
        INVARIANT(found[i] < NODES);
        INVARIANT(nodes[found[i]].tokens_count > 0);
        INVARIANT(!(seen & BIT(found[i])));
        INVARIANT(dc.n == 0 || str_eq(nodes[found[i]].dc, dc));
        seen |= BIT(found[i]);
    }
}

static void look_up(const struct cql_replication *how)
{
    static const str dcs[] = { STR_INIT(""), STR_INIT("dc1"), STR_INIT("dc3"), STR_INIT("x") };
    struct cql_ring *ring = cql_ring_new(nodes, NODES);
    for (size_t i = 0; i < COUNT_OF(dcs); i++) {
        struct cql_replicas *r = cql_replicas_new(ring, how, dcs[i]);
        for (size_t k = 0; k < COUNT_OF(tokens); k++) {
            check(r, tokens[k], how, dcs[i]);
            check(r, tokens[k] - 1, how, dcs[i]);
        }
        cql_replicas_free(&r);
    }
    cql_ring_free(&ring);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cql_column column = { .spec = { CQL_MAP, STR_INIT("\0\x0d\0\x0d") } };
    struct cql_cell cell = { .column = &column, .bytes = { (const char *)data, size } };
    struct cql_replication how;
    struct err_note note = { "" };
    err e = cql_replication_read(&cell, &how, &note);
    INVARIANT(e == ERR_OK || e == ERR_BAD || e == ERR_LIMIT);
    INVARIANT(e == ERR_OK || note.text[0] != '\0');
    if (e != ERR_OK)
        return 0;
    INVARIANT(how.dcs_count <= CQL_DCS_MAX);
    for (unsigned i = 0; i < how.dcs_count; i++)
        INVARIANT(strlen(how.dcs[i].name) <= CQL_NAME_BYTES_MAX);
    look_up(&how);
    return 0;
}
