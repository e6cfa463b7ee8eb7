/* part.c - items, batches and order keys of one partition in memory, for the rest of src/queue.
 * Invariants: an item is in exactly one state, stands in the list of that state, and holds its
 * batch. */
#include "queue/order/part.h"

#include "queue/item.h"
#include "queue/machine.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Items are allocated in chunks. An id's payload begins with 30 bits of nanoseconds, a zero bit
 * and 33 random bits. */
enum { CHUNK_ITEMS = 64, ID_NS_SHIFT = 34, ID_RANDOM_SHIFT = 31 };
/* The golden ratio in 64 bits: a multiplication spreads the random bits over the low half of the
 * payload. */
#define ID_SPREAD UINT64_C(0x9e3779b97f4a7c15)

/* ---- batches ---- */

struct batch *batch_new(uint16_t count, str order_key)
{
    /* States and order key stand behind the struct: one allocation, one free. */
    struct batch *b = calloc(1, sizeof *b + count + order_key.n);
    INVARIANT(b != NULL);
    b->states = (unsigned char *)(b + 1);
    char *key = (char *)b->states + count;
    if (order_key.n > 0)
        memcpy(key, order_key.p, order_key.n);
    b->order_key = (str){ .p = key, .n = order_key.n };
    b->count = count;
    return b;
}

/* The states of a batch that grows have memory of their own, since items and writes point at the
 * struct. */
void batch_grow(struct batch *b, unsigned count)
{
    enum { STATES_LEAST = 32 };
    unsigned more = b->count + count, room = b->room == 0 ? STATES_LEAST : b->room;
    INVARIANT(b->count == 0 || b->room > 0);
    INVARIANT(more <= QUEUE_BATCH_ITEMS_MAX);
    while (room < more)
        room *= 2;
    if (room != b->room) {
        unsigned char *states = realloc(b->room == 0 ? NULL : b->states, room);
        INVARIANT(states != NULL);
        b->states = states;
        b->room = (uint16_t)room;
    }
    memset(b->states + b->count, ITEM_IN_PLACE, count);
    b->count = (uint16_t)more;
}

struct shared *shared_new(str bytes)
{
    struct shared *s = malloc(sizeof *s);
    char *memory = s == NULL ? NULL : malloc(bytes.n + 1);
    if (memory == NULL) {
        free(s);
        return NULL;
    }
    memcpy(memory, bytes.p, bytes.n);
    *s = (struct shared){ .refs = 1, .bytes = { .p = memory, .n = bytes.n }, .memory = memory };
    return s;
}

void shared_unref(struct shared **sp)
{
    struct shared *s = *sp;
    *sp = NULL;
    /* A request's thread and the queue release their references without a common lock. */
    if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) > 1)
        return;
    free(s->memory);
    free(s);
}

void batch_bytes_set(struct batch *b, struct shared *bytes)
{
    INVARIANT(b->bytes == NULL);
    (void)atomic_fetch_add_explicit(&bytes->refs, 1, memory_order_relaxed);
    b->bytes = bytes;
}

/* A batch that was encoded item by item may have room for more. A copy without that room
 * replaces its bytes; without memory for a copy the bytes stay. */
static void batch_bytes_trim(struct batch *b)
{
    enum { SPARE_BYTES = 1024 };
    struct shared *s = b->bytes;
    if (s->memory_bytes <= s->bytes.n + s->bytes.n / 4 + SPARE_BYTES)
        return;
    struct shared *tight = shared_new(s->bytes);
    if (tight == NULL)
        return;
    shared_unref(&b->bytes);
    b->bytes = tight;
}

void batch_keep(struct batch *b, atomic_uint_least64_t *cached, uint64_t bytes_max)
{
    uint64_t n = b->bytes == NULL ? 0 : b->bytes->bytes.n;
    if (b->bytes == NULL || b->cached != NULL)
        return;
    /* The bound is loose: queues add to the sum without a common lock. */
    if (atomic_load_explicit(cached, memory_order_relaxed) + n > bytes_max)
        return;
    batch_bytes_trim(b);
    (void)atomic_fetch_add_explicit(cached, n, memory_order_relaxed);
    b->cached = cached;
}

/* Bytes that were not kept are read from the store when an item is leased. */
void batch_written(struct batch *b)
{
    if (b->bytes != NULL && b->cached == NULL)
        shared_unref(&b->bytes);
}

void batch_ref(struct batch *b)
{
    b->refs++;
}

void batch_unref(struct part *p, struct batch *b)
{
    INVARIANT(b->refs > 0);
    if (--b->refs > 0)
        return;
    if (b->known) {
        INVARIANT(p != NULL);
        hash_remove(&p->batches, &b->node);
        /* A job that reads the store now may have seen the batch as it was before: the job's
         * reading is then old. */
        if (memchr(b->states, ITEM_IN_PLACE, b->count) != NULL ||
            memchr(b->states, ITEM_ELSEWHERE, b->count) != NULL)
            p->churn++;
    }
    if (b->bytes != NULL && b->cached != NULL)
        (void)atomic_fetch_sub_explicit(b->cached, b->bytes->bytes.n, memory_order_relaxed);
    shared_unref(&b->bytes);
    if (b->room > 0)
        free(b->states);
    free(b);
}

struct batch *part_batch(struct part *p, struct ksuid first)
{
    struct hash_node *n = hash_first(&p->batches, ksuid_hash(first));
    for (; n != NULL; n = hash_next(n)) {
        struct batch *b = CONTAINER_OF(n, struct batch, node);
        if (ksuid_cmp(b->first, first) == 0)
            return b;
    }
    return NULL;
}

/* From here on the batch leaves p->batches with its last reference. */
void part_batch_add(struct part *p, struct batch *b)
{
    hash_add(&p->batches, &b->node, ksuid_hash(b->first));
    b->known = true;
}

bool batch_item(const struct batch *b, unsigned index, str *out)
{
    if (b->bytes == NULL)
        return false;
    struct item_span span;
    struct item_place place = item_slot_place(index);
    str bytes = b->bytes->bytes;
    str slots = str_take(str_skip(bytes, place.offset), place.n);
    if (item_slot_decode(slots, index, b->count, bytes.n, &span) != ERR_OK)
        return false;
    *out = str_take(str_skip(bytes, span.offset), span.n);
    return true;
}

/* ---- order keys ---- */

void part_okey_hash(str key, unsigned char out[16])
{
    static const uint64_t apart =
        0x6f72646572206b65; /* from idempotency keys, which stand in the same rows */
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits_withSeed(key.p, key.n, apart));
    memcpy(out, c.digest, 16);
}

/* make: a key without items is added, so that the result is not NULL. Two keys of one hash count
 * as one key: 128 bits. */
struct okey *part_okey(struct part *p, const unsigned char hash[16], bool make)
{
    uint64_t h = hash_of_str((str){ .p = (const char *)hash, .n = 16 }, 0);
    struct okey *k = NULL;
    for (struct hash_node *n = hash_first(&p->okeys, h); n != NULL; n = hash_next(n)) {
        k = CONTAINER_OF(n, struct okey, node);
        if (memcmp(k->hash, hash, 16) == 0)
            return k;
    }
    if (!make)
        return NULL;
    k = calloc(1, sizeof *k);
    INVARIANT(k != NULL);
    memcpy(k->hash, hash, 16);
    list_init(&k->behind);
    hash_add(&p->okeys, &k->node, h);
    return k;
}

/* The caller counts on key == NULL for items without an order key. */
void part_key_of(struct part *p, struct qitem *it)
{
    unsigned char hash[16];
    if (it->batch->order_key.n == 0)
        return;
    part_okey_hash(it->batch->order_key, hash);
    it->key = part_okey(p, hash, true);
    it->key->items++;
}

/* The id that the item had when its batch was put. Marks name an item by this id, since the
 * item's own id changes at each return. */
static struct ksuid place_id(const struct qitem *it)
{
    return ksuid_add(it->batch->first, it->index);
}

bool okey_marks(const struct okey *k, const struct qitem *it)
{
    return k->marked && ksuid_cmp(k->marked_id, place_id(it)) == 0;
}

bool okey_may(const struct okey *k, const struct qitem *it)
{
    if (k->active != NULL)
        return k->active == it;
    return !k->marked || okey_marks(k, it);
}

void part_okey_end(struct part *p, struct qitem *it)
{
    struct okey *k = it->key;
    if (k == NULL || (k->active != it && !okey_marks(k, it)))
        return;
    /* The mark is cleared in memory; the write that ends the item deletes the row (unmark_order
     * in step.c). */
    k->active = NULL;
    k->marked = false;
    struct list *next = list_first(&k->behind);
    if (next != NULL) {
        struct qitem *follower = CONTAINER_OF(next, struct qitem, link);
        part_unlist(p, follower);
        follower->state = QITEM_READY;
        part_ready_put(p, follower);
    }
}

/* The item leaves memory. Items of the key in a write or a move are in no list of the key: k is
 * freed with the last item of all. */
static void okey_leave(struct part *p, struct qitem *it)
{
    struct okey *k = it->key;
    it->key = NULL;
    if (k == NULL)
        return;
    INVARIANT(k->active != it);
    INVARIANT(k->items > 0);
    if (--k->items == 0 && !k->marked) {
        hash_remove(&p->okeys, &k->node);
        free(k);
    }
}

/* ---- items ---- */

/* Which states may follow which. Some functions of this folder set state directly, where an undo
 * or an arrival goes a way that no decision may take. */
static const unsigned qitem_next[QITEM_STATES] = {
    [QITEM_READY] = BIT(QITEM_GRANTING) | BIT(QITEM_ENDING) | BIT(QITEM_MOVING) | BIT(QITEM_BEHIND),
    [QITEM_TAIL] = BIT(QITEM_READY) | BIT(QITEM_ENDING),
    [QITEM_BEHIND] = BIT(QITEM_READY) | BIT(QITEM_ENDING) | BIT(QITEM_MOVING),
    [QITEM_GRANTING] = BIT(QITEM_LEASED) | BIT(QITEM_READY) | BIT(QITEM_DAMAGED),
    [QITEM_DAMAGED] = BIT(QITEM_ENDING),
    [QITEM_LEASED] = BIT(QITEM_ENDING) | BIT(QITEM_MOVING),
    [QITEM_SCHEDULED] = BIT(QITEM_ENDING) | BIT(QITEM_MOVING),
    [QITEM_ENDING] = BIT(QITEM_READY) | BIT(QITEM_BEHIND) | BIT(QITEM_LEASED) |
                     BIT(QITEM_SCHEDULED) | BIT(QITEM_DAMAGED),
    [QITEM_MOVING] = BIT(QITEM_READY) | BIT(QITEM_BEHIND) | BIT(QITEM_LEASED) |
                     BIT(QITEM_SCHEDULED) | BIT(QITEM_ENDING),
};

void qitem_move(struct qitem *it, enum qitem_state to)
{
    INVARIANT(it->state < QITEM_STATES);
    INVARIANT(qitem_next[it->state] & BIT(to));
    /* An item of a move keeps from: the state to go back to is that before the move. */
    if ((to == QITEM_ENDING || to == QITEM_MOVING) && it->state != QITEM_MOVING)
        it->from = it->state;
    it->state = (unsigned char)to;
}

struct qitem *part_item(struct part *p, struct ksuid id)
{
    struct hash_node *n = hash_first(&p->items, ksuid_hash(id));
    for (; n != NULL; n = hash_next(n)) {
        struct qitem *it = CONTAINER_OF(n, struct qitem, by_id);
        if (ksuid_cmp(it->id, id) == 0)
            return it;
    }
    return NULL;
}

/* Free items are kept until the queue is freed: chunks are never given back one by one. */
static struct qitem *take_free(struct queue *q)
{
    struct list *n = list_take(&q->free_items);
    if (n != NULL)
        return CONTAINER_OF(n, struct qitem, link);
    struct qitem *chunk = calloc(CHUNK_ITEMS, sizeof *chunk);
    INVARIANT(chunk != NULL);
    q->chunks = reallocarray(q->chunks, q->chunks_count + 1, sizeof(struct qitem *));
    INVARIANT(q->chunks != NULL);
    q->chunks[q->chunks_count++] = chunk;
    for (unsigned i = 1; i < CHUNK_ITEMS; i++)
        list_append(&q->free_items, &chunk[i].link);
    return chunk;
}

struct qitem *part_item_new(struct part *p, struct batch *b, unsigned index, struct ksuid id)
{
    INVARIANT(index < b->count);
    struct qitem *it = take_free(p->queue);
    /* The states of items that a read finds elsewhere are corrected by the caller. */
    *it = (struct qitem){ .batch = b,
                          .part = p,
                          .id = id,
                          .index = (uint16_t)index,
                          .state = QITEM_READY,
                          .in_place = true,
                          .created_at = b->created_at,
                          .expire_at = b->expire_at,
                          .ready_at = b->created_at };
    list_init(&it->link);
    batch_ref(b);
    hash_add(&p->items, &it->by_id, ksuid_hash(id));
    return it;
}

void part_item_free(struct part *p, struct qitem *it)
{
    INVARIANT(it->state != QITEM_FREE);
    INVARIANT(it->due.place == 0);
    okey_leave(p, it);
    hash_remove(&p->items, &it->by_id);
    batch_unref(p, it->batch);
    list_remove(&it->link);
    it->state = QITEM_FREE;
    it->batch = NULL;
    list_append(&p->queue->free_items, &it->link);
}

/* The payload begins with the nanoseconds of the second, so ids of all partitions are in order of
 * time; no two calls have the same. A zero bit behind them leaves room to count up. */
struct ksuid part_ids(struct part *p, uint32_t n, store_time now, uint64_t random)
{
    /* Ids of one queue are at least a nanosecond apart, whichever partition they are for. */
    struct queue *q = p->queue;
    q->ids_at = store_time_max(now, store_time_add(q->ids_at, 1));
    uint64_t ns = (uint64_t)(q->ids_at.ns % NS_PER_S);
    struct ksuid at =
        ksuid_at(q->ids_at, ns << ID_NS_SHIFT | random >> ID_RANDOM_SHIFT, random * ID_SPREAD);
    /* The clock may be behind an id that another server gave: then ids count up from that one. */
    struct ksuid first = ksuid_cmp(at, p->last_id) > 0 ? at : ksuid_add(p->last_id, 1);
    p->last_id = ksuid_add(first, n - 1);
    return first;
}

store_time id_time(struct ksuid id)
{
    int64_t ns = (int64_t)(id.high >> ID_NS_SHIFT);
    return (store_time){ .ns = ((int64_t)id.seconds + KSUID_EPOCH_S) * NS_PER_S +
                               /* A payload of an older version is random: more than a second of
                                * nanoseconds counts as the end of the second. */
                               (ns < NS_PER_S ? ns : NS_PER_S - 1) };
}

/* Compares the id of a listed item with that of another: below zero, it stands before. */
static int cmp_listed(struct list *n, const struct qitem *it)
{
    return ksuid_cmp(CONTAINER_OF(n, struct qitem, link)->id, it->id);
}

/* Puts it into a list in order of ids; most go to its end or near it, those returned to its
 * beginning. */
static void put_sorted(struct list *l, struct qitem *it)
{
    struct list *last = l->prev;
    if (last == l || cmp_listed(last, it) < 0) {
        list_append(l, &it->link);
        return;
    }
    /* From both ends at once: the cost is the distance to the nearer end. Invariant: all before
     * front is smaller, all behind last is greater. */
    struct list *front = l->next;
    while (cmp_listed(front, it) < 0 && last->prev != l && cmp_listed(last->prev, it) > 0) {
        front = front->next;
        last = last->prev;
    }
    list_put_before(cmp_listed(front, it) > 0 ? front : last, &it->link);
}

void part_expire_set(struct part *p, store_time at)
{
    /* Taken out and added again, because the heap is ordered by expire_min. */
    if (p->expire.place != 0)
        heap_remove(&p->queue->expires, &p->expire);
    p->expire_min = at;
    if (at.ns != STORE_TIME_NEVER.ns)
        heap_add(&p->queue->expires, &p->expire);
}

void part_ready_put(struct part *p, struct qitem *it)
{
    INVARIANT(it->state == QITEM_READY);
    /* Another item of its order key is first. */
    if (it->key != NULL && !okey_may(it->key, it)) {
        qitem_move(it, QITEM_BEHIND);
        put_sorted(&it->key->behind, it);
        p->behind_items++;
    } else {
        if (it->key != NULL)
            it->key->active = it;
        put_sorted(&p->ready_list, it);
        p->ready_items++;
    }
    if (store_time_before(it->expire_at, p->expire_min))
        part_expire_set(p, it->expire_at);
    /* Leases are served by the age of heads: a new head changes the partition's place there. */
    if (p->ready_list.next == &it->link)
        part_heads(p);
}

void part_tail_put(struct part *p, struct qitem *it)
{
    /* Without a read under way nobody would take the tail in: the read that comes later finds
     * the item in the store. */
    if (!p->refilling || p->tail_items >= PART_WINDOW_ITEMS) {
        p->tail_over = true;
        part_item_free(p, it);
        return;
    }
    it->state = QITEM_TAIL;
    list_append(&p->tail, &it->link);
    p->tail_items++;
}

void part_tail_end(struct part *p, bool all_read)
{
    /* After more became ready than was kept, the store has items that memory has not. */
    p->whole = all_read && !p->tail_over;
    /* The tail is in order of ids: these items got theirs while the read was under way, so they
     * stand behind all that was read. */
    for (struct list *n; (n = list_take(&p->tail)) != NULL;) {
        struct qitem *it = CONTAINER_OF(n, struct qitem, link);
        if (!p->whole) {
            part_item_free(p, it);
            continue;
        }
        it->state = QITEM_READY;
        p->edge = it->id;
        part_ready_put(p, it);
    }
    p->tail_items = 0;
    p->tail_over = false;
}

void part_unlist(struct part *p, struct qitem *it)
{
    /* A list node that is in no list points at itself. */
    bool first = p->ready_list.next == &it->link, listed = it->link.next != &it->link;
    if (it->state == QITEM_READY && listed) {
        INVARIANT(p->ready_items > 0);
        p->ready_items--;
    } else if (it->state == QITEM_TAIL && listed) {
        p->tail_items--;
    } else if (it->state == QITEM_BEHIND && listed) {
        INVARIANT(p->behind_items > 0);
        p->behind_items--;
    }
    list_remove(&it->link);
    if (first)
        part_heads(p);
}

struct qitem *part_head(const struct part *p)
{
    struct list *n = list_first(&p->ready_list);
    return n == NULL ? NULL : CONTAINER_OF(n, struct qitem, link);
}

/* ---- leases nobody was told of ---- */

void part_lose(struct part *p, const struct qitem *it)
{
    /* Beyond the bound the lease stands until its deadline passes, as if somebody had it. */
    if (p->lost_count == PART_LOST_MAX)
        return;
    if (p->lost_count == p->lost_size) {
        size_t size = p->lost_size == 0 ? 64 : p->lost_size * 2;
        struct lost_lease *lost = reallocarray(p->lost, size, sizeof *lost);
        if (lost == NULL)
            return; /* it stands until it expires */
        p->lost = lost;
        p->lost_size = size;
    }
    p->lost[p->lost_count++] = (struct lost_lease){ .id = it->id, .deadline = it->due_at };
}

/* By id, then by deadline: an item may have been leased and lost twice. */
static int lost_cmp(const void *a, const void *b)
{
    const struct lost_lease *x = a, *y = b;
    int by_id = ksuid_cmp(x->id, y->id);
    return by_id != 0 ? by_id
                      : (x->deadline.ns > y->deadline.ns) - (x->deadline.ns < y->deadline.ns);
}

void part_lost_sort(struct part *p)
{
    if (p->lost_count > 0)
        qsort(p->lost, p->lost_count, sizeof *p->lost, lost_cmp);
}

bool part_was_lost(const struct part *p, const struct qitem *it)
{
    const struct lost_lease its = { .id = it->id, .deadline = it->due_at };
    return p->lost_count > 0 &&
           bsearch(&its, p->lost, p->lost_count, sizeof *p->lost, lost_cmp) != NULL;
}

void part_lost_end(struct part *p)
{
    free(p->lost);
    p->lost = NULL;
    p->lost_count = p->lost_size = 0;
}

/* ---- the whole ---- */

void part_init(struct part *p, struct queue *q, uint32_t number, uint32_t store)
{
    *p = (struct part){
        .queue = q, .number = number, .store = store, .expire_min = STORE_TIME_NEVER
    };
    hash_init(&p->items);
    hash_init(&p->batches);
    hash_init(&p->okeys);
    list_init(&p->ready_list);
    list_init(&p->tail);
    list_init(&p->work);
    list_init(&p->produces);
    list_init(&p->changes);
    list_init(&p->grants);
    list_init(&p->fetching);
    list_init(&p->due);
    list_init(&p->orphans);
    list_init(&p->moves);
    list_init(&p->dying);
    list_init(&p->later);
    list_init(&p->movers);
    list_init(&p->old_idems);
    list_init(&p->unknown_idems);
    list_init(&p->unknown);
}

/* Items of a loaded partition, one by one: the queue's heap and its list of free items outlive
 * the part's memory. */
static void forget_item(void *ctx, struct hash_node *n)
{
    struct part *p = ctx;
    struct qitem *it = CONTAINER_OF(n, struct qitem, by_id);
    if (it->due.place != 0)
        heap_remove(&p->queue->due, &it->due);
    list_remove(&it->link);
    batch_unref(p, it->batch);
    it->state = QITEM_FREE;
    it->batch = NULL;
    list_append(&p->queue->free_items, &it->link);
}

/* Keys without items may stand here too: those that a row marks. */
static void forget_okey(void *ctx, struct hash_node *n)
{
    (void)ctx;
    free(CONTAINER_OF(n, struct okey, node));
}

static void forget_batch(void *ctx, struct hash_node *n)
{
    (void)ctx;
    CONTAINER_OF(n, struct batch, node)->known =
        false; /* whoever still looks at it has the last reference */
}

void part_forget(struct part *p)
{
    /* Batches first: forget_item drops references, and must not remove from the table that is
     * being taken apart. */
    hash_each(&p->batches, forget_batch, NULL);
    hash_fini(&p->batches);
    hash_each(&p->items, forget_item, p);
    hash_fini(&p->items);
    hash_each(&p->okeys, forget_okey, NULL);
    hash_fini(&p->okeys);
    list_init(&p->ready_list);
    list_init(&p->tail);
    list_init(&p->due);
    list_init(&p->orphans);
    p->tail_over = false;
    /* The counts ready, scheduled and leased stay: they are those of the store. */
    p->tail_items = p->ready_items = p->behind_items = p->scheduled_items = 0;
    p->granting = p->releasing = 0;
    damage_forget(p);
    p->whole = p->whole_due = false;
    p->edge = p->edge_id = p->sought = KSUID_NIL;
    p->firsts_away = p->sought_all = false;
    p->edge_at = STORE_TIME_ZERO;
    p->expire_min = STORE_TIME_NEVER;
    p->loaded = false;
    /* Jobs and writes that began before compare their generation, and leave the new memory
     * alone. */
    p->generation++;
    if (p->head.place != 0)
        heap_remove(&p->queue->heads, &p->head);
    if (p->expire.place != 0)
        heap_remove(&p->queue->expires, &p->expire);
}

void part_fini(struct part *p)
{
    part_forget(p);
    part_lost_end(p);
    free(p->recent);
}
