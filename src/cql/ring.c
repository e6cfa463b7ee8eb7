/* ring.c - the ring, and the replicas of each of its places. Pure.
 *
 * A partition belongs to the first place whose token is not below its own; behind the last place
 * comes the first. Its replicas are found by a walk from there over the nodes, each where it is met
 * first. A node that is met again changes nothing. NetworkTopologyStrategy passes a node over only
 * when its rack was seen and no further repeat of a rack is allowed. That stays so for the rest of
 * the walk. So the walks of all places need only the nodes in the order of their next places. Going
 * backwards over the ring, that order is kept in a linked list by moving the node of each place to
 * the front.
 * Invariant: the list holds each node that has a place and can be a replica, once. */
#include "cql/ring.h"

#include <stdlib.h>
#include <string.h>

/* One token of one node. */
struct place {
    int64_t token;
    uint16_t node;
};
struct ring_node {
    uint16_t dc, rack; /* indexes; a rack is one of its data centre */
};
struct ring_dc {
    str name;
    unsigned nodes_count, racks_count; /* of nodes that have tokens */
};
struct ring_rack {
    uint16_t dc;
    str name;
};
struct cql_ring {
    size_t places_count;
    struct place *places; /* by token, then by node */
    unsigned nodes_count, dcs_count, racks_count;
    struct ring_node *nodes;
    struct ring_dc *dcs;
};

static void *ring_alloc(size_t count, size_t size)
{
    void *p = calloc(count == 0 ? 1 : count, size);
    INVARIANT(p != NULL);
    return p;
}

static int place_cmp(const void *va, const void *vb)
{
    const struct place *a = va, *b = vb;
    if (a->token != b->token)
        return a->token < b->token ? -1 : 1;
    return (a->node > b->node) - (a->node < b->node);
}

static uint16_t dc_index(struct cql_ring *r, str name)
{
    for (unsigned i = 0; i < r->dcs_count; i++)
        if (str_eq(r->dcs[i].name, name))
            return (uint16_t)i;
    char *copy = ring_alloc(name.n, 1);
    if (name.n > 0)
        memcpy(copy, name.p, name.n);
    r->dcs[r->dcs_count] = (struct ring_dc){ .name = { copy, name.n } };
    return (uint16_t)r->dcs_count++;
}

/* racks: those seen so far; their names are borrowed. */
static uint16_t rack_index(struct cql_ring *r, struct ring_rack *racks, struct ring_rack of)
{
    for (unsigned i = 0; i < r->racks_count; i++)
        if (racks[i].dc == of.dc && str_eq(racks[i].name, of.name))
            return (uint16_t)i;
    racks[r->racks_count] = of;
    r->dcs[of.dc].racks_count++;
    return (uint16_t)r->racks_count++;
}

/* Places are sorted by token, then by node, so equal rings are equal whatever the order of their
 * tokens. */
struct cql_ring *cql_ring_new(const struct cql_ring_node *nodes, unsigned count)
{
    INVARIANT(count <= CQL_RING_NODES_MAX);
    struct cql_ring *r = ring_alloc(1, sizeof *r);
    r->nodes_count = count;
    r->nodes = ring_alloc(count, sizeof *r->nodes);
    r->dcs = ring_alloc(count, sizeof *r->dcs);
    for (unsigned n = 0; n < count; n++) {
        INVARIANT(nodes[n].tokens_count <= CQL_NODE_TOKENS_MAX);
        r->places_count += nodes[n].tokens_count;
    }
    r->places = ring_alloc(r->places_count, sizeof *r->places);
    struct ring_rack *racks = ring_alloc(count, sizeof *racks);
    struct place *to = r->places;
    for (unsigned n = 0; n < count; n++) {
        const struct cql_ring_node *from = &nodes[n];
        if (from->tokens_count == 0)
            continue; /* a node without tokens counts for no rack and data centre */
        uint16_t dc = dc_index(r, from->dc);
        r->dcs[dc].nodes_count++;
        r->nodes[n].dc = dc;
        r->nodes[n].rack = rack_index(r, racks, (struct ring_rack){ dc, from->rack });
        for (unsigned i = 0; i < from->tokens_count; i++)
            *to++ = (struct place){ from->tokens[i], (uint16_t)n };
    }
    free(racks);
    qsort(r->places, r->places_count, sizeof *r->places, place_cmp);
    return r;
}

void cql_ring_free(struct cql_ring **rp)
{
    struct cql_ring *r = *rp;
    *rp = NULL;
    if (r == NULL)
        return;
    for (unsigned i = 0; i < r->dcs_count; i++)
        free((char *)(uintptr_t)r->dcs[i].name.p);
    free(r->dcs);
    free(r->nodes);
    free(r->places);
    free(r);
}

/* ---- replicas ---- */

/* A range of tokens with one list of replicas: the tokens above the row before, up to this one. */
struct row {
    int64_t token;
    uint32_t begin; /* in nodes */
    uint32_t count;
};
struct cql_replicas {
    size_t rows_count;
    struct row *rows; /* by token, each another */
    uint16_t *nodes;
};

struct dc_want {
    unsigned copies;  /* at most as many as it has nodes */
    unsigned repeats; /* how many of them may be of a rack that was seen */
};
/* The parts that stay the same for all walks over a ring, and the parts that a walk uses up. */
struct walk {
    const struct cql_ring *ring;
    bool by_dc;
    unsigned copies;           /* of the whole ring, unless by_dc */
    bool *may_hold, *is_asked; /* by data centre: is on the list; may be told */
    struct dc_want *wants, *left;
    unsigned wants_count; /* data centres that want copies */
    uint32_t *rack_seen;  /* by rack: the number of the last walk that took a node of it */
    uint32_t number;
    uint16_t *next, *prev; /* the list; its ends are at the index nodes_count */
    bool *is_listed;
};

static unsigned copies_of_dc(const struct cql_replication *how, str dc)
{
    for (unsigned i = 0; i < how->dcs_count; i++)
        if (str_eq(str_of(how->dcs[i].name), dc))
            return how->dcs[i].copies;
    return how->copies;
}

/* Reads of how and ring what the walks need; nothing of both is kept but the ring. */
static void walk_init(struct walk *w, const struct cql_ring *r, const struct cql_replication *how,
                      str dc)
{
    *w = (struct walk){ .ring = r, .by_dc = how->strategy == CQL_STRATEGY_NETWORK };
    if (how->strategy == CQL_STRATEGY_SIMPLE)
        w->copies = how->copies;
    w->may_hold = ring_alloc(r->dcs_count, sizeof *w->may_hold);
    w->is_asked = ring_alloc(r->dcs_count, sizeof *w->is_asked);
    w->wants = ring_alloc(r->dcs_count, sizeof *w->wants);
    w->left = ring_alloc(r->dcs_count, sizeof *w->left);
    w->rack_seen = ring_alloc(r->racks_count, sizeof *w->rack_seen);
    w->next = ring_alloc(r->nodes_count + 1, sizeof *w->next);
    w->prev = ring_alloc(r->nodes_count + 1, sizeof *w->prev);
    w->is_listed = ring_alloc(r->nodes_count, sizeof *w->is_listed);
    w->next[r->nodes_count] = w->prev[r->nodes_count] = (uint16_t)r->nodes_count;
    for (unsigned i = 0; i < r->dcs_count; i++) {
        const struct ring_dc *d = &r->dcs[i];
        w->is_asked[i] = dc.n == 0 || str_eq(d->name, dc);
        w->may_hold[i] = !w->by_dc;
        unsigned copies = w->by_dc && w->is_asked[i] ? copies_of_dc(how, d->name) : 0;
        if (copies == 0)
            continue;
        w->may_hold[i] = true;
        w->wants_count++;
        w->wants[i].copies = copies < d->nodes_count ? copies : d->nodes_count;
        /* With fewer racks than copies, some racks hold two: as many repeats as there are copies
         * beyond racks. */
        w->wants[i].repeats = copies > d->racks_count ? copies - d->racks_count : 0;
    }
}

static void walk_fini(struct walk *w)
{
    free(w->may_hold);
    free(w->is_asked);
    free(w->wants);
    free(w->left);
    free(w->rack_seen);
    free(w->next);
    free(w->prev);
    free(w->is_listed);
}

/* Takes the node out of the list, if it is in, and puts it first. The list's two ends are one more
 * element, so neither is a case of its own. */
static void walk_to_front(struct walk *w, uint16_t n)
{
    uint16_t end = (uint16_t)w->ring->nodes_count;
    if (w->is_listed[n]) {
        w->next[w->prev[n]] = w->next[n];
        w->prev[w->next[n]] = w->prev[n];
    }
    w->is_listed[n] = true;
    w->next[n] = w->next[end];
    w->prev[n] = end;
    w->prev[w->next[n]] = n;
    w->next[end] = n;
}

/* May this node be one more replica of its data centre? Then it counts as one. */
static bool walk_takes(struct walk *w, struct ring_node n)
{
    struct dc_want *left = &w->left[n.dc];
    if (left->copies == 0)
        return false;
    bool repeats = w->rack_seen[n.rack] == w->number;
    if (repeats && left->repeats == 0)
        return false;
    left->repeats -= repeats;
    left->copies--;
    w->rack_seen[n.rack] = w->number;
    return true;
}

/* Replicas of the place that is in front, by data centre and rack. */
static unsigned walk_dcs(struct walk *w, uint16_t out[CQL_REPLICAS_MAX])
{
    const struct cql_ring *r = w->ring;
    unsigned count = 0, dcs_left = w->wants_count;
    memcpy(w->left, w->wants, r->dcs_count * sizeof *w->left);
    /* A new number forgets the racks of the walk before, without clearing them. */
    w->number++;
    for (uint16_t n = w->next[r->nodes_count];
         n != r->nodes_count && dcs_left > 0 && count < CQL_REPLICAS_MAX; n = w->next[n]) {
        if (!walk_takes(w, r->nodes[n]))
            continue;
        out[count++] = n;
        dcs_left -= w->left[r->nodes[n].dc].copies == 0;
    }
    return count;
}

/* SimpleStrategy: the next nodes, whatever their racks; those of other data centres count, and are
 * not told. */
static unsigned walk_simple(const struct walk *w, uint16_t out[CQL_REPLICAS_MAX])
{
    const struct cql_ring *r = w->ring;
    unsigned count = 0, met = 0;
    for (uint16_t n = w->next[r->nodes_count];
         n != r->nodes_count && met < w->copies && count < CQL_REPLICAS_MAX; n = w->next[n]) {
        met++;
        if (w->is_asked[r->nodes[n].dc])
            out[count++] = n;
    }
    return count;
}

/* Rows come from the last to the first. Of one token the row of the foremost place stays. A row
 * that says the same as the row behind it is not needed. */
static void replicas_add(struct cql_replicas *to, int64_t token, const uint16_t *nodes,
                         unsigned count)
{
    if (to->rows_count > 0 && to->rows[to->rows_count - 1].token == token)
        to->rows_count--;
    uint32_t begin = 0;
    if (to->rows_count > 0) {
        const struct row *last = &to->rows[to->rows_count - 1];
        begin = last->begin + last->count;
        if (last->count == count &&
            memcmp(&to->nodes[last->begin], nodes, count * sizeof *nodes) == 0)
            return;
    }
    to->rows[to->rows_count++] = (struct row){ .token = token, .begin = begin, .count = count };
    memcpy(&to->nodes[begin], nodes, count * sizeof *nodes);
}

static void replicas_reverse(struct cql_replicas *r)
{
    for (size_t i = 0, j = r->rows_count; i + 1 < j; i++) {
        struct row swap = r->rows[--j];
        r->rows[j] = r->rows[i];
        r->rows[i] = swap;
    }
}

static void *shrunk(void *p, size_t bytes)
{
    void *smaller = realloc(p, bytes == 0 ? 1 : bytes);
    return smaller == NULL ? p : smaller;
}

static void replicas_fill(struct cql_replicas *out, struct walk *w)
{
    const struct cql_ring *r = w->ring;
    uint16_t found[CQL_REPLICAS_MAX];
    /* One round fills the list, so that the last places know the nodes behind the first. */
    for (size_t i = r->places_count; i-- > 0;)
        if (w->may_hold[r->nodes[r->places[i].node].dc])
            walk_to_front(w, r->places[i].node);
    for (size_t i = r->places_count; i-- > 0;) {
        const struct place *p = &r->places[i];
        if (!w->may_hold[r->nodes[p->node].dc])
            continue; /* its replicas are those of the place behind it */
        walk_to_front(w, p->node);
        unsigned count = w->by_dc ? walk_dcs(w, found) : walk_simple(w, found);
        replicas_add(out, p->token, found, count);
    }
}

/* The most replicas that one place can have. */
static size_t walk_count_max(const struct walk *w)
{
    size_t sum = w->copies < w->ring->nodes_count ? w->copies : w->ring->nodes_count;
    for (unsigned i = 0; i < w->ring->dcs_count; i++)
        sum += w->wants[i].copies;
    return sum < CQL_REPLICAS_MAX ? sum : CQL_REPLICAS_MAX;
}

struct cql_replicas *cql_replicas_new(const struct cql_ring *ring,
                                      const struct cql_replication *how, str dc)
{
    struct cql_replicas *r = ring_alloc(1, sizeof *r);
    struct walk w;
    walk_init(&w, ring, how, dc);
    size_t count_max = walk_count_max(&w);
    if (count_max > 0) {
        r->rows = ring_alloc(ring->places_count, sizeof *r->rows);
        r->nodes = ring_alloc(ring->places_count * count_max, sizeof *r->nodes);
        replicas_fill(r, &w);
        replicas_reverse(r);
        size_t nodes_count = r->rows_count == 0 ? 0 : r->rows[0].begin + r->rows[0].count;
        r->rows = shrunk(r->rows, r->rows_count * sizeof *r->rows);
        r->nodes = shrunk(r->nodes, nodes_count * sizeof *r->nodes);
    }
    walk_fini(&w);
    return r;
}

void cql_replicas_free(struct cql_replicas **rp)
{
    struct cql_replicas *r = *rp;
    *rp = NULL;
    if (r == NULL)
        return;
    free(r->rows);
    free(r->nodes);
    free(r);
}

const uint16_t *cql_replicas_of(const struct cql_replicas *r, int64_t token, unsigned *count)
{
    size_t low = 0, high = r->rows_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->rows[middle].token < token)
            low = middle + 1;
        else
            high = middle;
    }
    if (r->rows_count == 0) {
        *count = 0;
        return NULL;
    }
    /* Behind the last token the ring begins again. */
    const struct row *row = &r->rows[low == r->rows_count ? 0 : low];
    *count = row->count;
    return &r->nodes[row->begin];
}
