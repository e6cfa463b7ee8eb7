/* move_in.c - the side of a move that goes into the target: bodies read, a place, the batch; then
 * what came of it.
 *
 * A round takes as many items as have MOVE_BYTES_MAX bytes together, one at least. An item that
 * dies and cannot be read goes to no queue: it is told of, and removed. Of requeued items those go
 * behind the others, which are moved; when only such items are left, the round fails. */
#include "queue/move/move.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* A week: longer than a move waits for its source. */
#define MOVE_KEY_NS (7 * 24 * 3600 * NS_PER_S)

/* Names the item by its source: the same item has the same key in each try. */
static void key_of(const struct move *m, unsigned i, unsigned char out[16])
{
    unsigned char text[8 + KSUID_BYTES];
    XXH128_canonical_t c;
    put_be32(text, m->place.queue);
    put_be32(text + 4, m->place.partition);
    ksuid_key(m->items[i].id, text + 8);
    XXH128_canonicalFromHash(&c, XXH3_128bits_withSeed(text, sizeof text, UINT64_C(0x6d6f7665)));
    memcpy(out, c.digest, 16);
}

/* ---- bodies ---- */

/* Behind all others. The item waits until all others have gone. */
static void put_last(struct move *m, unsigned i)
{
    struct moved moved = m->items[i];
    unsigned last = m->count - 1;
    memmove(&m->items[i], &m->items[i + 1], (last - i) * sizeof *m->items);
    moved.skip = false;
    m->items[last] = moved;
}

/* Item i of the move cannot be read. */
static void pass_over(struct move *m, unsigned i)
{
    if (m->to_number > 0) {
        put_last(m, i);
        return;
    }
    m->items[i].skip = true;
    m->new_count--;
    damage_tell(m->part, 1, m->items[i].id, "its body cannot be read; it goes to no dead queue");
}

/* Items of a round on their way into its batch. What a round reads and makes, in the move's
 * arena. */
struct packing {
    unsigned at[MOVE_ITEMS_MAX]; /* which of the move */
    struct queue_bodies bodies;
    struct item *items;
};

/* ERR_LIMIT. */
static err pack_begin(struct move *m)
{
    /* What the pass before had made is dropped. */
    arena_reset(&m->arena);
    struct packing *k = arena_calloc(&m->arena, 1, sizeof *k);
    struct queue_place *places = arena_calloc(&m->arena, m->count, sizeof *places);
    if (k == NULL || places == NULL)
        return ERR_LIMIT;
    k->bodies =
        (struct queue_bodies){ .bytes_max = MOVE_BYTES_MAX, .arena = &m->arena, .at = places };
    k->bodies.out = arena_calloc(&m->arena, m->count, sizeof *k->bodies.out);
    k->items = arena_calloc(&m->arena, m->count, sizeof *k->items);
    if (k->bodies.out == NULL || k->items == NULL)
        return ERR_LIMIT;
    for (unsigned i = 0; i < m->count; i++) {
        /* In the target already, or not to be read: both are only removed here. */
        if (m->items[i].skip)
            continue;
        k->at[k->bodies.count] = i;
        places[k->bodies.count++] = m->items[i].place;
    }
    m->packing = k;
    m->round = m->count;
    return ERR_OK;
}

static err pack(struct move *m, struct packing *k, unsigned i)
{
    err why = item_decode(k->bodies.out[i], &k->items[i]);
    char *id = arena_alloc(&m->arena, KSUID_TEXT_BYTES + 1);
    if (why != ERR_OK || id == NULL)
        return why != ERR_OK ? why : ERR_LIMIT;
    ksuid_format(m->items[k->at[i]].id, id);
    /* The id in the source becomes the source_id in the target: so an item can be traced back. */
    k->items[i].source_id = (str){ .p = id, .n = KSUID_TEXT_BYTES };
    /* It is ready at once, whatever its producer had said. */
    k->items[i].enqueue_at = STORE_TIME_ZERO;
    return ERR_OK;
}

/* The batch of a round whose bodies were read. ERR_AGAIN: its first item was passed over. */
static err pack_take(struct move *m, err why, str *out)
{
    struct packing *k = m->packing;
    /* In order, up to the first that cannot be read: the batch is a prefix of what was asked
     * for. */
    err packed = ERR_OK;
    unsigned n = 0;
    while ((why == ERR_OK || damage_is(why)) && n < k->bodies.read &&
           (packed = pack(m, k, n)) == ERR_OK)
        n++;
    why = packed == ERR_OK ? why : packed;
    if (why != ERR_OK && !damage_is(why))
        return why;
    m->what = "items cannot be read";
    if (n == 0 && m->to_number > 0 && k->at[0] > 0) { /* the target has those before it */
        m->new_count = 0;
        m->round = k->at[0];
        return ERR_OK;
    }
    if (n == 0) {
        pass_over(m, k->at[0]);
        /* A pass over one item ends the search for it; move_read tries again without the item. */
        return ERR_AGAIN;
    }
    m->new_count = n;
    /* Skipped items before the next one to be read belong to the round. */
    m->round = n == k->bodies.count ? m->count : k->at[n];
    return item_batch_encode(k->items, n, &m->arena, out);
}

/* ---- a place ---- */

/* Which partition: on the same store when there is one, for then it is one write. A SUSPECT
 * store is taken, too: one write is better than three. */
static struct part *move_in_choose(struct move *m)
{
    struct queue *to = m->to;
    struct place_store stores[PLACE_STORES_MAX];
    stores_look(to->all, stores);
    place_look(to->place, stores);
    const struct place_store *same = &stores[m->store_index];
    if (same->status != PLACE_ERROR && same->partition != PLACE_NONE)
        return to->parts[same->partition];
    uint32_t store = place_pick(stores, to->all->opts.stores_count);
    return store == PLACE_NONE ? NULL : to->parts[stores[store].partition];
}

/* NULL: none takes items now. */
static struct part *place_for(struct move *m)
{
    struct part *p = move_in_choose(m);
    return p != NULL && part_usable(p) && !m->to->draining && !m->to->deleted ? p : NULL;
}

/* Under the lock of the target: what of it is there already; and whether the others can go
 * there. */
static err find_there(struct move *m)
{
    unsigned char hash[16];
    /* m->what is for the log, should this be where the round ends. */
    m->what = "the queue is being read";
    /* Keys of partitions that were not read yet might show that an item is there. */
    if (m->to->unseen + m->to->unsure > 0)
        return ERR_UNAVAILABLE;
    m->new_count = 0;
    m->round = m->count;
    for (unsigned i = 0; i < m->count; i++) {
        key_of(m, i, hash);
        const struct idem *there = idem_find(m->to, hash);
        m->items[i].skip = there != NULL && there->stored;
        m->new_count += !m->items[i].skip;
    }
    m->what = "the queue has no partition that takes items";
    bool fine = m->new_count == 0 || place_for(m) != NULL; /* before bodies are read */
    return fine ? ERR_OK : ERR_UNAVAILABLE;
}

/* Only between two stores: one write for both sides needs no second try that finds them. */
static void put_keys(struct move *m, store_time now)
{
    for (unsigned i = 0, at = 0; i < m->round && m->across; i++) {
        if (m->items[i].skip)
            continue;
        struct queue_op *op = &m->ops[m->ops_count++];
        *op = (struct queue_op){ .kind = OP_KEY_PUT,
                                 .u.key = { .first = ksuid_add(m->batch->first, at++),
                                            .count = 1,
                                            .expire_at = store_time_add(now, MOVE_KEY_NS) } };
        key_of(m, i, op->u.key.hash);
    }
}

/* Under the lock of the target: a place, ids, and the ops of its side. */
static err settle_in(struct move *m, str encoded)
{
    struct queue *to = m->to;
    struct part *p = place_for(m);
    if (p == NULL)
        return ERR_UNAVAILABLE;
    store_time now = clock_store(to->all->opts.clock);
    /* A batch, and a key for each of its items. */
    m->ops = calloc((size_t)m->new_count + 1, sizeof *m->ops);
    m->what = "there is no memory";
    if (m->ops == NULL)
        return ERR_LIMIT;
    m->to_part = p;
    /* Another generation by the time of the outcome: the partition was read again, and has the
     * batch from there. */
    m->to_generation = p->generation;
    m->to_epoch = p->epoch;
    m->to_store_index = p->store;
    m->across = p->store != m->store_index;
    m->batch = batch_new((uint16_t)m->new_count, STR_NONE);
    m->batch->first = part_ids(p, m->new_count, now, rng_next(&to->rng));
    m->batch->created_at = now;
    m->batch->expire_at = store_time_add(now, to->info.expire_timeout_ns);
    batch_ref(m->batch);
    m->ops[m->ops_count++] = (struct queue_op){ .kind = OP_BATCH_PUT,
                                                .u.batch = { .first = m->batch->first,
                                                             .count = m->batch->count,
                                                             .created_at = now,
                                                             .expire_at = m->batch->expire_at,
                                                             .states = m->batch->states,
                                                             .bytes = encoded } };
    put_keys(m, now);
    p->placing += m->new_count;
    part_loads(p);
    m->placed = true;
    to->busy++;
    return ERR_OK;
}

/* A dead queue that was deleted is none, though somebody else has a queue of its name now. By
 * number when a client ordered it; by name for a dead queue. */
static bool find_target(struct move *m)
{
    struct queue *from = m->part->queue;
    struct err_note note;
    if (m->to_number > 0) {
        m->to = queues_by_number(from->all, m->to_number);
        if (m->to != NULL && m->to_name_bytes == 0)
            m->to_name_bytes = str_to_cstr(m->to->info.name, m->to_name, sizeof m->to_name)
                                   ? m->to->info.name.n
                                   : 0;
        return m->to != NULL;
    }
    if (queues_find(from->all, (str){ .p = m->to_name, .n = m->to_name_bytes }, &m->to, &note) !=
        ERR_OK)
        return false;
    /* Names are of one deployment: somebody else's queue of that name is not the dead queue of
     * this one. */
    if (!str_eq(m->to->info.space,
                from->info.space)) /* who orders a move was asked for its rights */
        queue_unref(&m->to);
    return m->to != NULL;
}

/* ERR_NOT_FOUND: there is no target, and the items of a requeue stay. First step of a round.
 * Locks the target alone: the source's items are the move's, and change under no lock here. */
static err move_look(struct move *m)
{
    m->round = m->count;
    m->packing = NULL;
    m->passes = 0;
    m->what = "there is no such queue";
    if (!find_target(m)) {
        for (unsigned i = 0; i < m->count; i++)
            m->items[i].skip = false; /* what it had is gone with it */
        return m->to_number > 0 ? ERR_NOT_FOUND
                                : ERR_OK; /* without a dead queue the items are deleted */
    }
    queue_enter(m->to);
    err why = find_there(m);
    queue_leave(m->to);
    return why;
}

static err move_settle(struct move *m, str encoded)
{
    m->what = "the queue has no partition that takes items";
    queue_enter(m->to);
    err why = settle_in(m, encoded);
    queue_leave(m->to);
    m->what = why == ERR_OK ? "it cannot be written" : m->what;
    return why;
}

/* What of it goes this time, as a batch; each item may be passed over. True: the store answers
 * later. encoded is empty: nothing has to go. */
static bool move_read(struct move *m, err *why, str *encoded)
{
    struct store_job *j = &m->job;
    /* A step that goes on after an answer skips the asking. */
    err read = j->later.why;
    bool told = store_job_told(j);
    do {
        if (!told) {
            m->passes++;
            *why = pack_begin(m);
            if (*why != ERR_OK || m->packing->bodies.count == 0)
                return false;
            m->what = "its store cannot be read";
            m->packing->bodies.later = store_job_ask(j);
            read = m->store->ops->bodies(m->store, m->place, &m->packing->bodies);
            if (store_job_waits(j, read))
                return true;
        }
        *why = pack_take(m, read, encoded);
        told = false;
        /* Each pass leaves one item out, so there are no more passes than items. */
    } while (*why == ERR_AGAIN && m->passes <= m->count);
    *why = *why == ERR_AGAIN ? ERR_CORRUPT : *why;
    return false;
}

bool move_prepare(struct store_job *j)
{
    struct move *m = CONTAINER_OF(j, struct move, job);
    str encoded = STR_NONE;
    err why = ERR_OK;
    /* Not the first step: what was looked up before the store was asked still holds. */
    if (!j->waits) {
        why = move_look(m);
        if (why != ERR_OK || m->to == NULL) {
            m->why = why;
            return false;
        }
    }
    if (move_read(m, &why, &encoded))
        return true;
    m->why = why == ERR_OK && encoded.n > 0 ? move_settle(m, encoded) : why;
    return false;
}

/* ---- what came of it ---- */

/* For a write of its own (move_insert), or as the second part of the source's. */
void move_side_of_target(const struct move *m, struct queue_write_part *w)
{
    *w = (struct queue_write_part){ .part = { .queue = m->to->number,
                                              .partition = m->to_part->number },
                                    .epoch = m->to_epoch,
                                    .ready = m->new_count,
                                    .last_id = ksuid_add(m->batch->first, m->new_count - 1),
                                    .ops = m->ops,
                                    .ops_count = m->ops_count };
}

/* Under the lock of the target. The batch becomes part of its memory, or its outcome is unknown
 * and the partition is read again. */
static void settle_placed(struct move *m)
{
    struct part *p = m->to_part;
    struct queue *to = m->to;
    m->placed = false;
    p->placing -= m->new_count;
    to->busy--;
    if (m->why == ERR_OK && m->to_generation == p->generation) {
        struct ksuid last = ksuid_add(m->batch->first, m->new_count - 1);
        p->ready += m->new_count;
        p->done_id = ksuid_cmp(last, p->done_id) > 0 ? last : p->done_id;
        part_arrive(p, m->batch);
    } else if (m->why == ERR_IO) {
        /* unsure: until it was read nobody may say that an item is not there. */
        to->unsure += !p->unsure;
        p->unsure = true;
        part_failed(p);
    }
    batch_unref(p, m->batch);
    m->batch = NULL;
    part_loads(p);
    for (unsigned i = 0; i < m->ops_count && m->why == ERR_OK; i++)
        if (m->ops[i].kind == OP_KEY_PUT)
            /* Keys must be known to find_there, should the round be tried again. */
            idem_load(p, &m->ops[i].u.key);
}

/* On the loop. Also when nothing was placed: removed items end their keys. */
void move_deliver(struct move *m)
{
    struct queue *to = m->to;
    unsigned char hash[16];
    if (to == NULL)
        return;
    queue_enter(to);
    if (m->placed)
        settle_placed(m);
    for (unsigned i = 0; i < m->round && m->removed; i++) {
        key_of(m, i, hash);
        idem_end(to, hash); /* the source is rid of it: the key has done its work */
    }
    queue_leave(to);
}
