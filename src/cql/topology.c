/* topology.c - what the cluster told of itself becomes nodes, the ring and keyspaces.
 *
 * A node is known by its host_id, never by its address. One that is not told any more leaves, but
 * not while it has an open connection: the peers of a node that has just begun are incomplete. */
#include "cql/cql_impl.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

enum { LOCAL_COLUMNS = 6, PEER_COLUMNS = 7, KEYSPACE_COLUMNS = 2 };

struct told_node {
    unsigned char host_id[CQL_UUID_BYTES];
    char dc[CQL_NAME_BYTES_MAX + 1], rack[CQL_NAME_BYTES_MAX + 1], release[32];
    struct sockaddr_storage address;
    socklen_t address_bytes;
    int64_t *tokens;
    unsigned tokens_count;
};
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

static bool text_get(const struct cql_cell *cell, char *out, size_t size)
{
    str text;
    return cql_get_bytes(cell, &text) && text.n > 0 && str_to_cstr(text, out, size);
}

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

/* Where a peer says that it is: one that says 0.0.0.0 listens at its own address. */
static bool peer_address(struct cql *c, const struct cql_cell *cells, enum cql_look look,
                         struct told_node *n)
{
    char host[46];
    int64_t port = c->control.port;
    bool fine = cql_get_inet(&cells[5], host);
    if (look == CQL_LOOK_PEERS_V2 && !cql_get_i64(&cells[6], &port))
        return false;
    bool any = fine && (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0);
    if (look == CQL_LOOK_PEERS && (!fine || any))
        fine = cql_get_inet(&cells[6], host);
    if (!fine || port <= 0 || port > UINT16_MAX ||
        !cql_address_read(host, (uint16_t)port, &n->address, &n->address_bytes))
        return false;
    cql_address_map(c, &n->address, &n->address_bytes);
    return true;
}

/* False: the row is not whole, as that of a node that is joining. */
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

bool cql_told_nodes(struct cql *c, struct cql_rows *rows, enum cql_look look, struct err_note *note)
{
    struct cql_told *t = c->control.told;
    struct cql_cell cells[PEER_COLUMNS];
    unsigned columns = look == CQL_LOOK_LOCAL ? LOCAL_COLUMNS : PEER_COLUMNS;
    if (rows->columns->count != columns) {
        err_note_set(note, "%u columns instead of %u", rows->columns->count, columns);
        return false;
    }
    while (t->nodes_count < CQL_NODES_MAX && cql_rows_next(rows, cells)) {
        struct told_node n;
        if (look == CQL_LOOK_LOCAL) {
            str partitioner;
            t->murmur3 = cql_get_bytes(&cells[5], &partitioner) &&
                         str_ends(partitioner, STR("Murmur3Partitioner"));
        }
        if (!node_read(c, cells, look, &n))
            continue;
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
            continue; /* not routed by */
        t->keyspaces = realloc(t->keyspaces, (t->keyspaces_count + 1) * sizeof *t->keyspaces);
        INVARIANT(t->keyspaces != NULL);
        t->keyspaces[t->keyspaces_count++] = ks;
    }
    if (rows->rest.failed)
        err_note_set(note, "a row of keyspaces cannot be read");
    return !rows->rest.failed;
}

/* ---- nodes ---- */

static struct cql_node *node_find(struct cql *c, const unsigned char *host_id)
{
    for (unsigned i = 0; i < c->nodes_count; i++)
        if (c->nodes[i] != NULL && memcmp(c->nodes[i]->host_id, host_id, CQL_UUID_BYTES) == 0)
            return c->nodes[i];
    return NULL;
}

static void node_take(struct cql *c, struct told_node *t)
{
    struct cql_node *n = node_find(c, t->host_id);
    if (n == NULL)
        n = cql_node_new(c);
    if (n == NULL)
        return; /* CQL_NODES_MAX */
    bool moved = n->address_bytes != t->address_bytes ||
                 memcmp(&n->address, &t->address, t->address_bytes) != 0;
    memcpy(n->host_id, t->host_id, sizeof n->host_id);
    memcpy(n->dc, t->dc, sizeof n->dc);
    memcpy(n->rack, t->rack, sizeof n->rack);
    if (strcmp(n->release, t->release) != 0)
        n->version = 0; /* upgraded: it may speak a newer one */
    memcpy(n->release, t->release, sizeof n->release);
    n->local = strcmp(n->dc, c->opts.local_dc) == 0;
    n->leaving = false;
    n->seen = true;
    free(n->tokens);
    n->tokens = t->tokens;
    n->tokens_count = t->tokens_count;
    t->tokens = NULL;
    if (!moved)
        return;
    n->address = t->address;
    n->address_bytes = t->address_bytes;
    cql_address_print(&n->address, n->text);
    n->retry_ms = 0;
    n->retry_at = cql_now(c);
    cql_node_close(n);
}

static void nodes_apply(struct cql *c, struct cql_told *t)
{
    for (unsigned i = 0; i < c->nodes_count; i++)
        if (c->nodes[i] != NULL)
            c->nodes[i]->seen = false;
    for (unsigned i = 0; i < t->nodes_count; i++)
        node_take(c, &t->nodes[i]);
    for (unsigned i = 0; i < c->nodes_count; i++) {
        struct cql_node *n = c->nodes[i];
        if (n != NULL && !n->seen && !cql_node_is_up(n))
            n->leaving = true;
    }
}

/* Without a node in the local data centre nothing can be asked: a name that is misspelt, most
 * often. */
static void local_dc_judge(struct cql *c)
{
    const char *other = NULL;
    for (unsigned i = 0; i < c->nodes_count; i++) {
        const struct cql_node *n = c->nodes[i];
        if (n != NULL && !n->leaving && n->local)
            return;
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

static void ring_drop(struct cql *c)
{
    cql_ring_free(&c->ring);
    free(c->ring_places);
    c->ring_places = NULL;
    for (unsigned i = 0; i < c->keyspaces_count; i++)
        cql_replicas_free(&c->keyspaces[i].replicas);
}

static void ring_build(struct cql *c, bool murmur3)
{
    ring_drop(c);
    if (!murmur3)
        return;
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

void cql_told_apply(struct cql *c)
{
    struct cql_told *t = c->control.told;
    nodes_apply(c, t);
    ring_build(c, t->murmur3);
    free(c->keyspaces);
    c->keyspaces = t->keyspaces;
    c->keyspaces_count = t->keyspaces_count;
    t->keyspaces = NULL;
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
