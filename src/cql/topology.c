/* topology.c - what the cluster told of itself (look.c) becomes nodes, the ring and keyspaces.
 *
 * Invariants:
 *   1 a node is known by its host_id. The first row of a host_id or an address counts; others are
 *     leftovers of nodes that moved or were replaced;
 *   2 a node that the rows leave out leaves, but not while it has an open connection. The peers of
 *     a node that has just begun are incomplete. When a new host_id stands at its address, the node
 *     takes that host_id: its connections lead to the successor;
 *   3 the ring is built again only when nodes changed, and the replicas of a keyspace only when the
 *     ring or the keyspace's replication did. */
#include "cql/cql_impl.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* Of the statements in look.c, whose order counts. */
enum { LOCAL_COLUMNS = 6, PEER_COLUMNS = 7, PEER_V2_COLUMNS = 8, KEYSPACE_COLUMNS = 2 };

/* A row of system.local or system.peers, read. */
struct told_node {
    unsigned char host_id[CQL_UUID_BYTES];
    char dc[CQL_NAME_BYTES_MAX + 1], rack[CQL_NAME_BYTES_MAX + 1], release[32];
    struct sockaddr_storage address;
    socklen_t address_bytes;
    bool taken;
    bool here; /* the control connection is to this node: it may be known by another address */
    int64_t *tokens;
    unsigned tokens_count;
};
/* All that one look has read. Owner: the control connection, until it is applied or dropped. */
struct cql_told {
    struct told_node *nodes;
    unsigned nodes_count;
    struct cql_keyspace *keyspaces;
    unsigned keyspaces_count;
    bool murmur3; /* the tokens are such */
};

struct cql_told *cql_told_new(void)
{
    struct cql_told *t = calloc(1, sizeof *t);
    INVARIANT(t != NULL);
    return t;
}

void cql_told_free(struct cql_told **tp)
{
    struct cql_told *t = *tp;
    *tp = NULL;
    if (t == NULL)
        return;
    for (unsigned i = 0; i < t->nodes_count; i++)
        free(t->nodes[i].tokens);
    free(t->nodes);
    free(t->keyspaces);
    free(t);
}

/* ---- rows ---- */

/* Empty or too long counts as not told. */
static bool text_get(const struct cql_cell *cell, char *out, size_t size)
{
    str text;
    return cql_get_bytes(cell, &text) && text.n > 0 && str_to_cstr(text, out, size);
}

/* A token that is no 64-bit number is left out; other partitioners are not routed by. */
static bool tokens_get(const struct cql_cell *cell, struct told_node *n)
{
    struct cql_items items;
    struct cql_cell one;
    str text;
    if (!cql_get_items(cell, &items) || items.left > CQL_NODE_TOKENS_MAX)
        return false;
    n->tokens = calloc(items.left + 1, sizeof *n->tokens);
    INVARIANT(n->tokens != NULL);
    while (cql_items_next(&items, &one))
        if (cql_get_bytes(&one, &text) && str_to_i64(text, &n->tokens[n->tokens_count]))
            n->tokens_count++;
    return !items.rest.failed;
}

/* The address where a peer says that clients find it. A peer that says 0.0.0.0 listens at its own
 * address, too. Version 2 of the table tells the port; else it is that of the control connection.
 */
static bool peer_address(struct cql *c, const struct cql_cell *cells, enum cql_look look,
                         struct told_node *n)
{
    char host[46];
    int64_t port = c->control.port;
    bool fine = cql_get_inet(&cells[5], host);
    if (!fine || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0)
        fine = cql_get_inet(&cells[6], host);
    if (look == CQL_LOOK_PEERS_V2)
        fine = fine && cql_get_i64(&cells[7], &port);
    if (!fine || port <= 0 || port > UINT16_MAX ||
        !cql_address_read(host, (uint16_t)port, &n->address, &n->address_bytes))
        return false;
    cql_address_map(c, &n->address, &n->address_bytes);
    return true;
}

/* Reads a row. False: the row is not whole, as that of a node that is joining, and is passed over.
 */
static bool node_read(struct cql *c, const struct cql_cell *cells, enum cql_look look,
                      struct told_node *n)
{
    const unsigned char *id;
    *n = (struct told_node){ .tokens = NULL };
    if (!cql_get_uuid(&cells[0], &id) || !text_get(&cells[1], n->dc, sizeof n->dc) ||
        !text_get(&cells[2], n->rack, sizeof n->rack))
        return false;
    memcpy(n->host_id, id, sizeof n->host_id);
    if (!text_get(&cells[4], n->release, sizeof n->release))
        n->release[0] = '\0'; /* for the eyes only */
    if (look == CQL_LOOK_LOCAL) {
        n->here = true;
        n->address = c->control.address; /* where it was reached */
        n->address_bytes = c->control.address_bytes;
    } else if (!peer_address(c, cells, look, n)) {
        return false;
    }
    if (tokens_get(&cells[3], n))
        return true;
    free(n->tokens);
    return false;
}

static bool told_already(const struct cql_told *t, const struct told_node *n)
{
    for (unsigned i = 0; i < t->nodes_count; i++) {
        const struct told_node *o = &t->nodes[i];
        if (memcmp(o->host_id, n->host_id, sizeof n->host_id) == 0 ||
            cql_address_same(&o->address, o->address_bytes, &n->address, n->address_bytes))
            return true;
    }
    return false;
}

bool cql_told_nodes(struct cql *c, struct cql_rows *rows, enum cql_look look, struct err_note *note)
{
    struct cql_told *t = c->control.told;
    struct cql_cell cells[PEER_V2_COLUMNS];
    unsigned columns = look == CQL_LOOK_LOCAL   ? LOCAL_COLUMNS
                       : look == CQL_LOOK_PEERS ? PEER_COLUMNS
                                                : PEER_V2_COLUMNS;
    if (rows->columns->count != columns) {
        err_note_set(note, "%u columns instead of %u", rows->columns->count, columns);
        return false;
    }
    /* The rows of LOCAL come first, so the node itself is never taken for a leftover. */
    while (t->nodes_count < CQL_NODES_MAX && cql_rows_next(rows, cells)) {
        struct told_node n;
        if (look == CQL_LOOK_LOCAL) {
            str partitioner;
            t->murmur3 = cql_get_bytes(&cells[5], &partitioner) &&
                         str_ends(partitioner, STR("Murmur3Partitioner"));
        }
        if (!node_read(c, cells, look, &n))
            continue;
        if (told_already(t, &n)) {
            free(n.tokens);
            continue;
        }
        t->nodes = realloc(t->nodes, (t->nodes_count + 1) * sizeof *t->nodes);
        INVARIANT(t->nodes != NULL);
        t->nodes[t->nodes_count++] = n;
    }
    bool fine = !rows->rest.failed && t->nodes_count > 0;
    if (!fine)
        err_note_set(note, "a row of nodes cannot be read");
    return fine;
}

bool cql_told_keyspaces(struct cql *c, struct cql_rows *rows, struct err_note *note)
{
    struct cql_told *t = c->control.told;
    struct cql_cell cells[KEYSPACE_COLUMNS];
    if (rows->columns->count != KEYSPACE_COLUMNS) {
        err_note_set(note, "%u columns instead of %d", rows->columns->count, KEYSPACE_COLUMNS);
        return false;
    }
    while (t->keyspaces_count < CQL_KEYSPACES_MAX && cql_rows_next(rows, cells)) {
        struct cql_keyspace ks = { .replicas = NULL };
        if (!text_get(&cells[0], ks.name, sizeof ks.name) ||
            cql_replication_read(&cells[1], &ks.how, NULL) != ERR_OK)
            /* its name is too long, or its replication unknown: requests go to any node */
            continue;
        t->keyspaces = realloc(t->keyspaces, (t->keyspaces_count + 1) * sizeof *t->keyspaces);
        INVARIANT(t->keyspaces != NULL);
        t->keyspaces[t->keyspaces_count++] = ks;
    }
    if (rows->rest.failed)
        err_note_set(note, "a row of keyspaces cannot be read");
    return !rows->rest.failed;
}

/* ---- nodes ---- */

/* A node that no row told of so far, at this address: the row's node has taken its place. */
static struct cql_node *node_replaced(struct cql *c, const struct told_node *t)
{
    for (unsigned i = 0; i < c->nodes_count; i++) {
        struct cql_node *n = c->nodes[i];
        if (n != NULL && !n->seen &&
            cql_address_same(&n->address, n->address_bytes, &t->address, t->address_bytes))
            return n;
    }
    return NULL;
}

/* Only what the ring is made of: a change of the rest needs no new ring. */
static bool in_ring_the_same(const struct cql_node *n, const struct told_node *t)
{
    return !n->leaving && strcmp(n->dc, t->dc) == 0 && strcmp(n->rack, t->rack) == 0 &&
           n->tokens_count == t->tokens_count &&
           (n->tokens_count == 0 ||
            memcmp(n->tokens, t->tokens, n->tokens_count * sizeof n->tokens[0]) == 0);
}

static void node_take(struct cql *c, struct cql_node *n, struct told_node *t)
{
    /* The control connection may lead to another address of the same node: that is no move while
     * the node is connected. */
    bool moved = !cql_address_same(&n->address, n->address_bytes, &t->address, t->address_bytes) &&
                 !(t->here && cql_node_is_up(n));
    c->ring_stale |= !in_ring_the_same(n, t);
    memcpy(n->host_id, t->host_id, sizeof n->host_id);
    memcpy(n->dc, t->dc, sizeof n->dc);
    memcpy(n->rack, t->rack, sizeof n->rack);
    memcpy(n->release, t->release, sizeof n->release);
    n->local = strcmp(n->dc, c->opts.local_dc) == 0;
    n->leaving = false;
    n->seen = true;
    free(n->tokens);
    n->tokens = t->tokens;
    n->tokens_count = t->tokens_count;
    /* The tokens belong to the node now. */
    t->tokens = NULL;
    if (moved)
        cql_node_move(n, &t->address, t->address_bytes);
}

/* First come the nodes with a known id: none of them may be taken for a replaced node.
 */
static void nodes_apply(struct cql *c, struct cql_told *t)
{
    for (unsigned i = 0; i < c->nodes_count; i++)
        if (c->nodes[i] != NULL)
            c->nodes[i]->seen = false;
    for (unsigned i = 0; i < t->nodes_count; i++) {
        struct cql_node *n = cql_node_of(c, t->nodes[i].host_id);
        t->nodes[i].taken = n != NULL;
        if (n != NULL)
            node_take(c, n, &t->nodes[i]);
    }
    for (unsigned i = 0; i < t->nodes_count; i++) {
        if (t->nodes[i].taken)
            continue;
        struct cql_node *n = node_replaced(c, &t->nodes[i]);
        if (n == NULL)
            n = cql_node_new(c);
        if (n != NULL) /* else CQL_NODES_MAX */
            node_take(c, n, &t->nodes[i]);
    }
    for (unsigned i = 0; i < c->nodes_count; i++) {
        struct cql_node *n = c->nodes[i];
        if (n == NULL || n->seen || n->leaving || cql_node_is_up(n))
            continue;
        n->leaving = true;
        c->ring_stale = true;
    }
}

/* Without a node in the local data centre nothing can be asked: mostly the option's name is
 * misspelt. The log says so once. */
static void local_dc_judge(struct cql *c)
{
    const char *other = NULL;
    for (unsigned i = 0; i < c->nodes_count; i++) {
        const struct cql_node *n = c->nodes[i];
        if (n != NULL && !n->leaving && n->local) {
            c->control.said = false;
            return;
        }
        if (n != NULL && !n->leaving)
            other = n->dc;
    }
    err_note_set(&c->control.why, "the cluster has no node in data centre %s, but in %s",
                 c->opts.local_dc, other == NULL ? "none" : other);
    if (!c->control.said)
        log_event(c->opts.log, LOG_ERROR, "cql.local_dc", LOG_CSTR("why", c->control.why.text));
    c->control.said = true;
}

/* ---- the ring ---- */

/* Replicas are lists of indexes in the ring, so they go with the ring. */
static void ring_drop(struct cql *c)
{
    cql_ring_free(&c->ring);
    free(c->ring_places);
    c->ring_places = NULL;
    for (unsigned i = 0; i < c->keyspaces_count; i++)
        cql_replicas_free(&c->keyspaces[i].replicas);
}

/* The ring's nodes are numbered without holes; ring_places leads back to the client's. */
static void ring_build(struct cql *c)
{
    struct cql_ring_node *nodes = calloc(c->nodes_count + 1, sizeof *nodes);
    c->ring_places = calloc(c->nodes_count + 1, sizeof *c->ring_places);
    INVARIANT(nodes != NULL && c->ring_places != NULL);
    unsigned count = 0;
    for (unsigned i = 0; i < c->nodes_count; i++) {
        const struct cql_node *n = c->nodes[i];
        if (n == NULL || n->leaving)
            continue;
        c->ring_places[count] = (uint16_t)i;
        nodes[count++] = (struct cql_ring_node){ .dc = str_of(n->dc),
                                                 .rack = str_of(n->rack),
                                                 .tokens = n->tokens,
                                                 .tokens_count = n->tokens_count };
    }
    c->ring = cql_ring_new(nodes, count);
    free(nodes);
}

/* ---- keyspaces ---- */

static bool replication_same(const struct cql_replication *a, const struct cql_replication *b)
{
    bool same =
        a->strategy == b->strategy && a->copies == b->copies && a->dcs_count == b->dcs_count;
    for (unsigned i = 0; same && i < a->dcs_count; i++)
        same = a->dcs[i].copies == b->dcs[i].copies && strcmp(a->dcs[i].name, b->dcs[i].name) == 0;
    return same;
}

/* The keyspace as it was before. The server tells them in the same order each time, so the same
 * place is looked at first. */
static struct cql_keyspace *keyspace_before(struct cql *c, unsigned place, const char *name)
{
    if (place < c->keyspaces_count && strcmp(c->keyspaces[place].name, name) == 0)
        return &c->keyspaces[place];
    return cql_keyspace_find(c, name);
}

/* Replicas that are still right move over; others are worked out at the next request. */
static void keyspaces_apply(struct cql *c, struct cql_told *t)
{
    for (unsigned i = 0; i < t->keyspaces_count; i++) {
        struct cql_keyspace *now = &t->keyspaces[i], *old = keyspace_before(c, i, now->name);
        if (old == NULL || !replication_same(&old->how, &now->how))
            continue;
        now->replicas = old->replicas;
        old->replicas = NULL;
    }
    for (unsigned i = 0; i < c->keyspaces_count; i++)
        cql_replicas_free(&c->keyspaces[i].replicas);
    free(c->keyspaces);
    c->keyspaces = t->keyspaces;
    c->keyspaces_count = t->keyspaces_count;
    t->keyspaces = NULL;
}

/* Nodes before the ring, the ring before keyspaces: each stands on the one before. */
void cql_told_apply(struct cql *c)
{
    struct cql_told *t = c->control.told;
    nodes_apply(c, t);
    /* Another partitioner's tokens are no places: requests go to any node then. */
    if (c->ring_stale || !t->murmur3)
        ring_drop(c);
    if (c->ring == NULL && t->murmur3)
        ring_build(c);
    c->ring_stale = false;
    keyspaces_apply(c, t);
    local_dc_judge(c);
    mono now = cql_now(c);
    for (unsigned i = 0; i < c->nodes_count; i++)
        if (c->nodes[i] != NULL)
            cql_node_tick(c->nodes[i], now); /* connects to new ones */
}

void cql_topology_free(struct cql *c)
{
    ring_drop(c);
    free(c->keyspaces);
    c->keyspaces = NULL;
    c->keyspaces_count = 0;
}
