/* place.c - chooses the store and the partition for the next items, in trees of winners.
 *
 * Invariants:
 *  1. Node n of a store's tree is the better of its two children: less load, then the lower
 *     number; node 1 is the best.
 *  2. Members of a tree are in order of partition numbers, so the left child wins ties.
 *  3. A closed partition never wins over an open one; the root of a tree without an open one is
 *     NONE. */
#include "queue/order/place.h"

#include <stdlib.h>
#include <string.h>

/* One partition; leaf is its place among the members of its store's tree. */
struct place_part {
    uint64_t load;
    uint32_t store, leaf;
    bool open;
};
/* The partitions of one store. */
struct tree {
    uint32_t *members; /* partitions, ascending */
    uint32_t *nodes;   /* 2 * width: partitions or PLACE_NONE; leaves from width up */
    uint32_t count, width;
};
/* The choice of one queue; its owner is struct queue. */
struct place {
    unsigned stores_count;
    struct place_part *parts;
    uint32_t parts_count, parts_size;
    struct tree *trees;
    struct place_decision *decisions; /* a ring; NULL until the first */
    struct place_store *seen;         /* stores_count for each of the ring */
    uint64_t decisions_made;
};

const char *place_status_name(enum place_status s)
{
    static const char *const names[] = {
        [PLACE_OK] = "available", [PLACE_SUSPECT] = "suspect", [PLACE_ERROR] = "error"
    };
    return names[s];
}

/* ---- the decision ---- */

/* Up, and with an open partition that is loaded. */
static bool is_usable(const struct place_store *s)
{
    return s->status == PLACE_OK && s->partition != PLACE_NONE;
}

/* Keeps of in those that pass; all of them when none would, or too few by least. */
static unsigned place_keep(const bool *pass, bool *in, unsigned count, unsigned in_count,
                           unsigned least)
{
    unsigned left = 0;
    for (unsigned i = 0; i < count; i++)
        left += in[i] && pass[i];
    if (left == 0 || left < least)
        return in_count;
    for (unsigned i = 0; i < count; i++)
        in[i] = in[i] && pass[i];
    return left;
}

/* Keeps stores below the bound of in_flight; at least one always is below 3/2 of the mean, or
 * the bound is the minimum. */
static unsigned drop_crowded(const struct place_store *stores, unsigned count, bool *in,
                             unsigned in_count)
{
    uint64_t sum = 0;
    bool pass[PLACE_STORES_MAX];
    for (unsigned i = 0; i < count; i++)
        sum += in[i] ? stores[i].in_flight : 0;
    uint64_t bound = (3 * sum + 2 * in_count - 1) / (2 * in_count); /* 3/2 of the mean, up */
    if (bound < PLACE_IN_FLIGHT_MIN)
        bound = PLACE_IN_FLIGHT_MIN;
    for (unsigned i = 0; i < count; i++)
        pass[i] = stores[i].in_flight < bound;
    return place_keep(pass, in, count, in_count, 1);
}

static int time_cmp(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Keeps stores that are not slow, unless fewer than half would be left. */
static void drop_slow(const struct place_store *stores, unsigned count, bool *in, unsigned in_count)
{
    int64_t times[PLACE_STORES_MAX];
    bool pass[PLACE_STORES_MAX];
    unsigned n = 0;
    for (unsigned i = 0; i < count; i++)
        if (in[i])
            times[n++] = stores[i].write_ns;
    qsort(times, n, sizeof *times, time_cmp);
    int64_t median =
        times[(n - 1) / 2]; /* of two the faster: a slow one is seen beside one other */
    for (unsigned i = 0; i < count; i++)
        pass[i] =
            stores[i].write_ns <= PLACE_SLOW_NS || stores[i].write_ns / PLACE_SLOW_FACTOR <= median;
    (void)place_keep(pass, in, count, in_count, (in_count + 1) / 2);
}

/* With one store that is usable there is nothing to compare. */
uint32_t place_pick(const struct place_store *stores, unsigned count)
{
    bool in[PLACE_STORES_MAX];
    unsigned in_count = 0;
    INVARIANT(count <= PLACE_STORES_MAX);
    for (unsigned i = 0; i < count; i++) {
        in[i] = is_usable(&stores[i]);
        in_count += in[i];
    }
    if (in_count > 1) {
        in_count = drop_crowded(stores, count, in, in_count);
        drop_slow(stores, count, in, in_count);
    }
    uint32_t best = PLACE_NONE;
    for (unsigned i = 0; i < count; i++) {
        if (!in[i])
            continue;
        /* The lower partition number wins ties: a decision made again comes out the same. */
        if (best == PLACE_NONE || stores[i].load < stores[best].load ||
            (stores[i].load == stores[best].load && stores[i].partition < stores[best].partition))
            best = i;
    }
    return best;
}

/* ---- loads ---- */

struct place *place_new(unsigned stores_count)
{
    INVARIANT(stores_count >= 1);
    INVARIANT(stores_count <= PLACE_STORES_MAX);
    struct place *p = calloc(1, sizeof *p);
    INVARIANT(p != NULL);
    p->stores_count = stores_count;
    p->trees = calloc(stores_count, sizeof *p->trees);
    INVARIANT(p->trees != NULL);
    return p;
}

void place_free(struct place **pp)
{
    struct place *p = *pp;
    if (p == NULL)
        return;
    for (unsigned i = 0; i < p->stores_count; i++) {
        free(p->trees[i].members);
        free(p->trees[i].nodes);
    }
    free(p->trees);
    free(p->parts);
    free(p->decisions);
    free(p->seen);
    free(p);
    *pp = NULL;
}

/* left is in order before right: ties go to it. */
static uint32_t better(const struct place *p, uint32_t left, uint32_t right)
{
    if (left == PLACE_NONE || right == PLACE_NONE)
        return left == PLACE_NONE ? right : left;
    return p->parts[right].load < p->parts[left].load ? right : left;
}

/* The leaf, then its ancestors: O(log n). */
static void climb(struct place *p, uint32_t partition)
{
    struct tree *t = &p->trees[p->parts[partition].store];
    uint32_t at = t->width + p->parts[partition].leaf;
    t->nodes[at] = p->parts[partition].open ? partition : PLACE_NONE;
    for (at /= 2; at >= 1; at /= 2)
        t->nodes[at] = better(p, t->nodes[2 * at], t->nodes[2 * at + 1]);
}

/* Lays the tree of a store out anew: O(n) over the partitions of the queue. Width is a power of
 * two, so that children of n are 2n and 2n+1. */
static void plant(struct place *p, uint32_t store)
{
    struct tree *t = &p->trees[store];
    uint32_t width = 1;
    t->count = 0;
    for (uint32_t i = 0; i < p->parts_count; i++)
        t->count += p->parts[i].store == store;
    while (width < t->count)
        width *= 2;
    t->width = width;
    t->members = reallocarray(t->members, width, sizeof *t->members);
    t->nodes = reallocarray(t->nodes, 2 * (size_t)width, sizeof *t->nodes);
    INVARIANT(t->members != NULL);
    INVARIANT(t->nodes != NULL);
    memset(t->nodes, 0xff, 2 * (size_t)width * sizeof *t->nodes); /* PLACE_NONE everywhere */
    uint32_t leaf = 0;
    /* Ascending numbers: the order of leaves breaks ties. */
    for (uint32_t i = 0; i < p->parts_count; i++) {
        if (p->parts[i].store != store)
            continue;
        t->members[leaf] = i;
        p->parts[i].leaf = leaf++;
        t->nodes[width + p->parts[i].leaf] = p->parts[i].open ? i : PLACE_NONE;
    }
    for (uint32_t at = width - 1; at >= 1; at--)
        t->nodes[at] = better(p, t->nodes[2 * at], t->nodes[2 * at + 1]);
}

/* The last of its store so far: the tree has a leaf for it. */
static bool fits_last(struct place *p, uint32_t partition)
{
    struct tree *t = &p->trees[p->parts[partition].store];
    if (t->count >= t->width)
        return false;
    t->members[t->count] = partition;
    p->parts[partition].leaf = t->count++;
    climb(p, partition);
    return true;
}

void place_put(struct place *p, uint32_t partition, uint32_t store)
{
    INVARIANT(partition <= p->parts_count);
    INVARIANT(store < p->stores_count);
    if (partition == p->parts_count) {
        if (p->parts_count == p->parts_size) {
            p->parts_size = p->parts_size == 0 ? 4 : p->parts_size * 2;
            p->parts = reallocarray(p->parts, p->parts_size, sizeof *p->parts);
            INVARIANT(p->parts != NULL);
        }
        p->parts_count++;
        p->parts[partition] = (struct place_part){ .store = store };
        /* The tree is full: it gets twice the width. */
        if (!fits_last(p, partition))
            plant(p, store);
        return;
    }
    uint32_t before = p->parts[partition].store;
    p->parts[partition].store = store;
    /* It is opened again once it was read on the other store. */
    p->parts[partition].open = false;
    plant(p, before);
    if (store != before)
        plant(p, store);
}

void place_open(struct place *p, uint32_t partition, bool open)
{
    INVARIANT(partition < p->parts_count);
    p->parts[partition].open = open;
    climb(p, partition);
}

void place_load(struct place *p, uint32_t partition, uint64_t load)
{
    INVARIANT(partition < p->parts_count);
    if (p->parts[partition].load == load)
        return;
    p->parts[partition].load = load;
    climb(p, partition);
}

uint64_t place_load_of(const struct place *p, uint32_t partition)
{
    INVARIANT(partition < p->parts_count);
    return p->parts[partition].load;
}

/* status and in_flight of each store are the caller's. */
void place_look(const struct place *p, struct place_store *stores)
{
    for (unsigned i = 0; i < p->stores_count; i++) {
        const struct tree *t = &p->trees[i];
        stores[i].partition = t->count == 0 ? PLACE_NONE : t->nodes[1];
        stores[i].load = stores[i].partition == PLACE_NONE ? 0 : p->parts[stores[i].partition].load;
    }
}

/* ---- decisions kept ---- */

void place_record(struct place *p, const struct place_decision *d)
{
    /* A queue that never got a request keeps no ring. */
    if (p->decisions == NULL) {
        p->decisions = calloc(PLACE_DECISIONS_MAX, sizeof *p->decisions);
        p->seen = calloc((size_t)PLACE_DECISIONS_MAX * p->stores_count, sizeof *p->seen);
        INVARIANT(p->decisions != NULL);
        INVARIANT(p->seen != NULL);
    }
    /* The oldest decision makes room. */
    size_t slot = p->decisions_made++ % PLACE_DECISIONS_MAX;
    struct place_store *seen = p->seen + slot * p->stores_count;
    memcpy(seen, d->stores, p->stores_count * sizeof *seen);
    struct place_decision *kept = &p->decisions[slot];
    *kept = *d;
    kept->stores = seen;
    kept->loads_count = p->parts_count < PLACE_LOADS_SHOWN ? p->parts_count : PLACE_LOADS_SHOWN;
    for (uint32_t i = 0; i < kept->loads_count; i++)
        kept->loads[i] = p->parts[i].load;
}

unsigned place_decisions(const struct place *p)
{
    return p->decisions_made < PLACE_DECISIONS_MAX ? (unsigned)p->decisions_made
                                                   : PLACE_DECISIONS_MAX;
}

const struct place_decision *place_decision_at(const struct place *p, unsigned index)
{
    INVARIANT(index < place_decisions(p));
    return &p->decisions[(p->decisions_made - 1 - index) % PLACE_DECISIONS_MAX];
}

/* A fixed decision chose nothing. */
bool place_replays(const struct place *p, const struct place_decision *d)
{
    if (d->fixed)
        return true;
    uint32_t store = place_pick(d->stores, p->stores_count);
    if (store != d->store)
        return false;
    return store == PLACE_NONE ? d->partition == PLACE_NONE
                               : d->stores[store].partition == d->partition;
}
