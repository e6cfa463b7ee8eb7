/* produce.c - produce requests: checked, placed on the partitions that place.h names, whole, in
 * order of arrival; then several into one write. Small requests share a batch. */
#include "queue/order/flush.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum {
    /* a larger request is encoded by its own thread, as a batch of its own */
    PRODUCE_APART_BYTES = 64 << 10,
    PRODUCE_PACK_BYTES = 1 << 20,   /* of requests that share a batch */
    PRODUCE_PACK_MS = 10,           /* between the first and the last of them: they have one time */
    PRODUCE_WRITE_BYTES = 16 << 20, /* of batches in one write: it takes no more beyond */
    /* two for each item, a batch, an import's key */
    PRODUCE_OPS_MAX = 2 * QUEUE_BATCH_ITEMS_MAX + 2,
    PRODUCE_ITEM_BYTES = 64,    /* about, beside what the client gave */
    PRODUCE_UNPLACED_MS = 1000, /* a queue that takes no request for longer is told of in the log */
};

/* ---- a request comes ---- */

/* The words are those of the API; item counts from 0. */
static err item_check(const struct queue_item_new *it, unsigned index, struct err_note *note)
{
    if (it->encoding.n <= QUEUE_FIELD_BYTES_MAX && it->kind.n <= QUEUE_FIELD_BYTES_MAX &&
        it->reference.n <= QUEUE_FIELD_BYTES_MAX)
        return ERR_OK;
    err_note_set(note,
                 "items is invalid; encoding, kind and reference of item %u cannot be greater than "
                 "'%d' bytes",
                 index, QUEUE_FIELD_BYTES_MAX);
    return ERR_BAD;
}

/* *bytes: about what the encoded items take. The limits hold before anything is encoded. */
static err request_check(struct queue_produce *r, uint64_t *bytes)
{
    *bytes = 0;
    if (r->items_count == 0 || r->items_count > QUEUE_PRODUCE_ITEMS_MAX) {
        err_note_set(&r->note,
                     r->items_count == 0
                         ? "items cannot be empty; at least one item is required"
                         : "items is invalid; max_produce_batch_size is %d but received %u",
                     QUEUE_PRODUCE_ITEMS_MAX, r->items_count);
        return ERR_BAD;
    }
    for (unsigned i = 0; i < r->items_count; i++) {
        const struct queue_item_new *it = &r->items[i];
        err why = item_check(it, i, &r->note);
        if (why != ERR_OK)
            return why;
        *bytes += it->encoding.n + it->kind.n + it->reference.n + it->bytes.n + PRODUCE_ITEM_BYTES;
        /* Of an order key the first is by id; a schedule would change the order. */
        if (r->order_key.n > 0 && it->enqueue_at.ns != 0) {
            err_note_set(&r->note,
                         "order key is invalid; items with an order key cannot be scheduled");
            return ERR_BAD;
        }
    }
    if (*bytes > QUEUE_REQUEST_BYTES_MAX) {
        err_note_set(&r->note, "items is invalid; a request cannot be greater than '%d' bytes",
                     QUEUE_REQUEST_BYTES_MAX);
        return ERR_BAD;
    }
    if (r->order_key.n > QUEUE_ORDER_KEY_BYTES_MAX ||
        r->idempotency_key.n > QUEUE_ORDER_KEY_BYTES_MAX) {
        err_note_set(&r->note, "%s key is invalid; cannot be greater than '%d' bytes",
                     r->order_key.n > QUEUE_ORDER_KEY_BYTES_MAX ? "order" : "idempotency",
                     QUEUE_ORDER_KEY_BYTES_MAX);
        return ERR_BAD;
    }
    return ERR_OK;
}

/* source_id stays empty: imports encode their own. */
static struct item item_of(const struct queue_item_new *it)
{
    return (struct item){ .encoding = it->encoding,
                          .kind = it->kind,
                          .reference = it->reference,
                          .bytes = it->bytes,
                          .enqueue_at = it->enqueue_at };
}

/* On the thread of the request, without the lock: encoding a large request would hold all others
 * up. The result outlives the request (struct shared). */
static err encode_apart(struct queue_produce *r)
{
    struct item *items = arena_calloc(r->arena, r->items_count, sizeof *items);
    if (items == NULL)
        return ERR_LIMIT;
    str encoded;
    for (unsigned i = 0; i < r->items_count; i++)
        items[i] = item_of(&r->items[i]);
    err why = item_batch_encode(items, r->items_count, r->arena, &encoded);
    if (why == ERR_OK)
        own_produce(r)->encoded = shared_new(encoded);
    return why == ERR_OK && own_produce(r)->encoded == NULL ? ERR_LIMIT : why;
}

/* Is there room for one more request? Under the lock; also when a request waits again. */
err req_admit(struct queue *q, struct err_note *note)
{
    if (q->draining) {
        err_note_set(note, "queue is shutting down");
        return ERR_SHUTDOWN;
    }
    if (q->deleted) {
        err_note_set(note, "queue does not exist; no such queue named '%.*s'",
                     STR_ARG(q->info.name));
        return ERR_NOT_FOUND;
    }
    if (q->requests >= QUEUE_REQUESTS_MAX) {
        err_note_set(note, "queue is overloaded; try again later");
        return ERR_LIMIT;
    }
    return ERR_OK;
}

void produce_begin(struct queue *q, struct queue_produce *r)
{
    struct own_produce *own = own_produce(r);
    /* Keys are known once all partitions were read; until then place_round asks idem_ready. */
    if (r->idempotency_key.n > 0 && q->unseen == 0) {
        err why = idem_join(q, r);
        if (why != ERR_AGAIN) {
            if (why != ERR_OK)
                req_answer(q, &own->req, why);
            return;
        }
    }
    /* Behind others that found no place it would find none either, unless it is fixed. */
    bool alone = list_empty(&q->parked);
    list_append(&q->parked, &own->req.link);
    if (alone || own->fixed != PLACE_NONE)
        q->placing_wanted = true;
}

err queue_produce_start(struct queue_produce *r)
{
    struct queue *q = r->queue;
    struct own_produce *own = own_produce(r);
    uint64_t bytes;
    err why = request_check(r, &bytes);
    if (why != ERR_OK)
        return why;
    *own = (struct own_produce){ .req = { .kind = REQ_PRODUCE, .home = r->home },
                                 .bytes = bytes,
                                 .fixed = PLACE_NONE };
    r->repeated = false;
    if (r->idempotency_key.n > 0)
        idem_digest(r, own->digest);
    if (r->order_key.n > 0)
        /* Any number but PLACE_NONE: it says that there is no choice. */
        own->fixed = 0; /* which one: produce_place, under the lock */
    if (bytes > PRODUCE_APART_BYTES || r->order_key.n > 0)
        why = encode_apart(r);
    if (why != ERR_OK)
        return why;
    queue_enter(q);
    why = req_admit(q, &r->note);
    if (why == ERR_OK) {
        req_add(q, &own->req, r->deadline);
        if (q->paused)
            list_append(&q->held, &own->req.link);
        else
            produce_begin(q, r);
    } else {
        shared_unref(&own->encoded);
    }
    queue_leave(q);
    return why;
}

/* ---- placing ---- */

/* The items count against the partition from here on, so the next request sees them. */
static void produce_place(struct queue_produce *r, struct part *p)
{
    struct req *req = &own_produce(r)->req;
    req->part = p;
    req->state = REQ_PENDING;
    list_remove(&req->link);
    list_append(&p->produces, &req->link);
    p->placing += r->items_count;
    part_loads(p);
    /* Of the store's requests, not its items: what place.h compares. */
    stores_in_flight(p->queue->all, p->store, 1);
    queue_work(p);
}

/* The partition of its order key never changes, also when partitions are added. */
static struct part *part_of_key(struct queue *q, str key)
{
    uint32_t n = q->keyed_count < q->parts_count ? q->keyed_count : q->parts_count;
    return q->parts[XXH3_64bits(key.p, key.n) % n];
}

static void keep_decision(struct queue *q, const struct queue_produce *r,
                          struct place_store *stores, uint32_t store, uint32_t partition)
{
    const struct own_produce *own = own_produce((struct queue_produce *)(uintptr_t)r);
    place_record(q->place, &(struct place_decision){ .seq = own->req.seq,
                                                     .at = clock_store(q->all->opts.clock),
                                                     .items = r->items_count,
                                                     .store = store,
                                                     .partition = partition,
                                                     .fixed = own->fixed != PLACE_NONE,
                                                     .stores = stores });
}

/* No partition takes a request: stores that are away are probed soon. The log tells only of a queue
 * that takes none for PRODUCE_UNPLACED_MS. */
static void place_failed(struct queue *q)
{
    mono now = clock_mono(q->all->opts.clock);
    stores_all_wanted(q->all);
    if (q->unplaced_at.ns == INT64_MAX)
        q->unplaced_at = now;
    if (q->unplaced_said || now.ns < mono_add_ms(q->unplaced_at, PRODUCE_UNPLACED_MS).ns)
        return;
    q->unplaced_said = true;
    log_event(q->all->opts.log, LOG_WARN, "queue.unavailable", LOG_STR("queue", q->info.name),
              LOG_INT("partitions", q->parts_count), LOG_INT("waiting", q->produces_waiting));
}

static void place_worked(struct queue *q)
{
    if (q->unplaced_said)
        log_event(q->all->opts.log, LOG_INFO, "queue.available", LOG_STR("queue", q->info.name));
    q->unplaced_said = false;
    q->unplaced_at.ns = INT64_MAX;
}

/* Places what is parked, in order of arrival; what cannot be placed stays parked. */
void place_round(struct queue *q)
{
    struct place_store stores[PLACE_STORES_MAX];
    /* none: no store takes a request without a choice; those that are fixed are still looked at. */
    bool none = false;
    q->placing_wanted = false;
    if (list_empty(&q->parked))
        return;
    stores_look(q->all, stores);
    for (struct list *n = q->parked.next, *next; n != &q->parked; n = next) {
        next = n->next;
        struct queue_produce *r = req_produce(CONTAINER_OF(n, struct req, link));
        struct own_produce *own = own_produce(r);
        /* The same key is being written: this one waits for that outcome. */
        if (r->idempotency_key.n > 0 && own->idem == NULL && !idem_ready(q, r))
            continue;
        if (own->fixed != PLACE_NONE) {
            struct part *p =
                own->import != NULL ? q->parts[own->fixed] : part_of_key(q, r->order_key);
            own->fixed = p->number;
            if (p->mode == PART_OPEN && part_usable(p) && stores[p->store].status == PLACE_OK) {
                keep_decision(q, r, stores, p->store, p->number);
                produce_place(r, p);
                /* Its partition alone can take it: the store is asked soon whether it is well. */
            } else if (stores[p->store].status != PLACE_OK) {
                stores_wanted(q->all, p->store);
            }
            continue;
        }
        if (none)
            continue;
        /* Each request changes loads, so the stores' best partitions are looked up anew. */
        place_look(q->place, stores);
        uint32_t store = place_pick(stores, q->all->opts.stores_count);
        none = store == PLACE_NONE;
        uint32_t to = none ? PLACE_NONE : stores[store].partition;
        keep_decision(q, r, stores, store, to);
        if (none) {
            place_failed(q);
            continue;
        }
        place_worked(q);
        produce_place(r, q->parts[to]);
    }
}

/* The opposite of produce_place, but for the list. The items are in no write. */
static void unplace(struct queue_produce *r)
{
    struct req *req = &own_produce(r)->req;
    struct part *p = req->part;
    INVARIANT(req->state == REQ_PENDING);
    INVARIANT(p->placing >= r->items_count);
    p->placing -= r->items_count;
    part_loads(p);
    stores_in_flight(p->queue->all, p->store, -1);
}

void produce_unplace_all(struct part *p)
{
    /* Requests in a write that was not sent are pending again then. */
    track_withdraw(p, &p->main);
    for (struct list *n; (n = list_first(&p->produces)) != NULL;) {
        struct req *req = CONTAINER_OF(n, struct req, link);
        unplace(req_produce(req));
        req_park(&p->queue->parked, req);
    }
    p->queue->placing_wanted = true;
}

/* Definitely not written. The request waits for a place again, unless its queue ends. */
void produce_again(struct queue_produce *r)
{
    struct req *req = &own_produce(r)->req;
    struct queue *q = req->part->queue;
    if (q->draining || q->deleted) {
        err why = req_admit(q, &r->note);
        idem_left(q, r);
        req_answer(q, req, why);
        return;
    }
    /* By its order of arrival, before those that came later. */
    req_park(&q->parked, req);
    q->placing_wanted = true;
}

void produce_leave(struct queue *q, struct queue_produce *r)
{
    struct req *req = &own_produce(r)->req;
    req_recall(req);
    if (req->state == REQ_PENDING)
        unplace(r);
    idem_left(q, r);
}

/* Thread: any. A request in a write on its way cannot be given up: its outcome comes soon. */
void queue_produce_cancel(struct queue_produce *r)
{
    struct queue *q = r->queue;
    struct req *req = &own_produce(r)->req;
    queue_enter(q);
    req_recall(req);
    if (req->state == REQ_PARKED || req->state == REQ_PENDING) {
        produce_leave(q, r);
        err_note_set(&r->note, QUEUE_GONE_NOTE "nothing was stored");
        req_answer(q, req, ERR_GONE);
    }
    queue_leave(q);
}

/* ---- writing ---- */

/* A schedule of its own for an item that its producer wants later. */
static void put_later(struct part *p, struct slot *s, struct batch *b, unsigned index,
                      store_time at)
{
    /* Items in memory point at a batch that part_batch finds. */
    if (!b->known)
        part_batch_add(p, b);
    struct qitem *it = part_item_new(p, b, index, ksuid_add(b->first, index));
    it->in_place = false;
    it->due_at = at;
    it->expire_at = queue_expiry(p->queue, at);
    /* ENDING until the write is answered: STEP_ARRIVE then makes it what from says. */
    it->state = QITEM_ENDING;
    it->from = QITEM_SCHEDULED;
    b->states[index] = ITEM_ELSEWHERE;
    slot_op(s, OP_ENTRY_PUT)->u.entry = qitem_entry(it, ENTRY_SCHEDULED);
    slot_step(s, &(struct step){ .kind = STEP_ARRIVE, .item = it, .at = at });
    s->write.parts[0].scheduled++;
}

/* An item that was elsewhere before: its attempts, and its lease when it has one. */
static void put_imported(struct slot *s, struct batch *b, unsigned index,
                         const struct queue_item *from)
{
    struct part *p = s->part;
    if (!b->known)
        part_batch_add(p, b);
    struct qitem *it = part_item_new(p, b, index, ksuid_add(b->first, index));
    /* A lease that is over already is none: the item is ready. */
    bool leased = store_time_before(b->created_at, from->lease_deadline);
    it->in_place = false;
    it->attempts = attempts_counted(from->attempts);
    /* The expiry of the store it comes from; without one, that of this queue. */
    it->expire_at = from->expire_at.ns > 0 ? from->expire_at : it->expire_at;
    it->due_at = from->lease_deadline;
    it->state = QITEM_ENDING;
    it->from = leased ? QITEM_LEASED : QITEM_READY;
    b->states[index] = ITEM_ELSEWHERE;
    slot_op(s, OP_ENTRY_PUT)->u.entry = qitem_entry(it, ENTRY_READY);
    if (leased) {
        slot_op(s, OP_LEASE_PUT)->u.lease = qitem_lease(it, it->due_at);
        s->write.parts[0].leased++;
    } else {
        s->write.parts[0].ready++;
    }
    slot_step(s, &(struct step){ .kind = STEP_ARRIVE, .item = it, .at = it->due_at });
}

/* Adds the items of r to batch b from offset on. */
static void put_request(struct slot *s, struct queue_produce *r, struct batch *b, uint32_t offset,
                        store_time now)
{
    struct part *p = s->part;
    struct own_produce *own = own_produce(r);
    for (unsigned i = 0; i < r->items_count; i++) {
        /* An import has a batch of its own: its offset is 0. */
        if (own->import != NULL)
            put_imported(s, b, i, &own->import[i]);
        else if (r->items[i].enqueue_at.ns > store_time_add(now, QUEUE_SOON_NS).ns)
            put_later(p, s, b, offset + i, r->items[i].enqueue_at);
        else
            /* No row of its own: the item is ready where its batch is. */
            s->write.parts[0].ready++;
    }
    own->created_at = b->created_at;
    own->expire_at = b->expire_at;
    /* Kept in the request, so that an unknown outcome can be asked for by batch. */
    own->batch = b->first;
    own->offset = offset;
    list_remove(&own->req.link);
    slot_request(s, &own->req);
    s->placing += r->items_count;
    s->requests_placed++;
    if (own->idem != NULL)
        idem_build(s, r, ksuid_add(b->first, offset), now);
}

/* A batch that was encoded before, in a row of its own. */
static struct batch *put_batch(struct slot *s, const struct queue_produce *r, store_time now)
{
    struct part *p = s->part;
    struct shared *bytes = own_produce(unconst(r))->encoded;
    struct batch *b = batch_new((uint16_t)r->items_count, r->order_key);
    b->first = part_ids(p, r->items_count, now, rng_next(&p->queue->rng));
    b->created_at = now;
    b->expire_at = queue_expiry(p->queue, now);
    /* The batch's reference outlives a request that times out. */
    batch_bytes_set(b, bytes);
    s->bytes += bytes->bytes.n;
    slot_batch(s, b);
    slot_op(s, OP_BATCH_PUT)->u.batch = (struct queue_batch){ .first = b->first,
                                                              .count = b->count,
                                                              .created_at = b->created_at,
                                                              .expire_at = b->expire_at,
                                                              .order_key = b->order_key,
                                                              .states = b->states,
                                                              .bytes = bytes->bytes };
    return b;
}

/* Rows of a write that the items of r need, beside the one of their batch. */
static unsigned rows_of(const struct queue_produce *r, store_time now)
{
    const struct own_produce *own = (const struct own_produce *)(const void *)r->own;
    unsigned rows = own->idem != NULL;
    for (unsigned i = 0; i < r->items_count; i++)
        rows += own->import != NULL
                    /* An entry and a lease at most. */
                    ? 2
                    : r->items[i].enqueue_at.ns > store_time_add(now, QUEUE_SOON_NS).ns;
    return rows;
}

/* ---- the batch that small requests share ---- */

/* Does the batch of the write take r, too? Its items have ids in a row, and one time. */
static bool pack_takes(const struct slot *s, const struct queue_produce *r, store_time now)
{
    const struct slot_pack *k = &s->pack;
    const struct batch *b = k->batch;
    if (b == NULL || b->count + r->items_count > QUEUE_BATCH_ITEMS_MAX)
        return false;
    /* Ids in a row: another request of the partition must not have taken ids since. */
    return k->bytes + own_produce(unconst(r))->bytes <= PRODUCE_PACK_BYTES &&
           now.ns - b->created_at.ns < PRODUCE_PACK_MS * NS_PER_MS &&
           ksuid_cmp(s->part->last_id, ksuid_add(b->first, b->count - 1u)) == 0;
}

/* Called whenever the write may be sent: what was added since counts. */
void produce_pack_close(struct slot *s)
{
    struct slot_pack *k = &s->pack;
    if (k->batch == NULL)
        return;
    struct queue_batch *row = &s->ops[k->op].u.batch;
    row->count = k->batch->count;
    row->states = k->batch->states;
    row->bytes = item_pack_bytes(&k->items);
}

/* The write is over or taken back: its shared batch owns the bytes from now on. */
void produce_pack_end(struct slot *s)
{
    struct slot_pack *k = &s->pack;
    if (k->batch == NULL)
        return;
    produce_pack_close(s);
    struct shared *own = malloc(sizeof *own);
    INVARIANT(own != NULL);
    *own = (struct shared){ .refs = 1,
                            .bytes = s->ops[k->op].u.batch.bytes,
                            .memory = k->items.memory,
                            .memory_bytes = k->items.size };
    k->items.memory = NULL; /* the batch's from here on */
    batch_bytes_set(k->batch, own);
    shared_unref(&own);
    item_pack_fini(&k->items);
    k->batch = NULL;
}

/* The items of r behind those in the pack. ERR_LIMIT: none of them was added. */
static err pack_add(struct item_pack *to, const struct queue_produce *r)
{
    unsigned before = to->count;
    for (unsigned i = 0; i < r->items_count; i++) {
        struct item it = item_of(&r->items[i]);
        if (item_pack_add(to, &it) == ERR_OK)
            continue;
        item_pack_cut(to, before);
        return ERR_LIMIT;
    }
    return ERR_OK;
}

/* A write may have several shared batches, one after the other: the one before is closed for
 * good. */
static void pack_begin(struct slot *s, const struct item_pack *items, store_time now)
{
    struct batch *b = batch_new(0, STR_NONE);
    produce_pack_end(s);
    b->created_at = now;
    b->expire_at = queue_expiry(s->part->queue, now);
    s->pack = (struct slot_pack){ .batch = b, .items = *items, .op = s->ops_count };
    slot_batch(s, b);
    slot_op(s, OP_BATCH_PUT)->u.batch =
        /* count, states and bytes are filled in by produce_pack_close. */
        (struct queue_batch){ .created_at = now, .expire_at = b->expire_at };
}

/* A small request into the shared batch. ERR_AGAIN: there is no memory for its rows now; ERR_LIMIT:
 * nor for its bytes. */
static err pack_put(struct slot *s, struct queue_produce *r, store_time now)
{
    /* All that can fail comes before anything is changed. */
    struct part *p = s->part;
    struct item_pack fresh = { .count = 0 };
    bool joins = pack_takes(s, r, now);
    if (!slot_room(s, rows_of(r, now) + !joins))
        return ERR_AGAIN;
    err why = pack_add(joins ? &s->pack.items : &fresh, r);
    if (why != ERR_OK) {
        item_pack_fini(&fresh);
        return why;
    }
    if (!joins)
        pack_begin(s, &fresh, now);
    struct slot_pack *k = &s->pack;
    uint32_t offset = k->batch->count;
    /* The ids follow those in the batch: pack_takes made sure that nothing lies between. */
    if (joins)
        p->last_id = ksuid_add(p->last_id, r->items_count);
    else
        k->batch->first = part_ids(p, r->items_count, now, rng_next(&p->queue->rng));
    s->ops[k->op].u.batch.first = k->batch->first;
    batch_grow(k->batch, r->items_count);
    k->bytes += own_produce(r)->bytes;
    s->bytes += own_produce(r)->bytes;
    put_request(s, r, k->batch, offset, now);
    return ERR_OK;
}

/* There is no memory to encode it: the request ends with ERR_LIMIT. */
static void pack_refuse(struct part *p, struct queue_produce *r)
{
    produce_leave(p->queue, r);
    err_note_set(&r->note, "queue is overloaded; try again later");
    req_answer(p->queue, &own_produce(r)->req, ERR_LIMIT);
}

void produce_build(struct part *p, struct slot *s, store_time now)
{
    for (struct list *n; (n = list_first(&p->produces)) != NULL;) {
        struct queue_produce *r = req_produce(CONTAINER_OF(n, struct req, link));
        /* A request goes in whole, or waits for the next write. */
        if (s->bytes >= PRODUCE_WRITE_BYTES || !slot_takes(s, PRODUCE_OPS_MAX))
            return;
        if (own_produce(r)->encoded != NULL) {
            if (!slot_room(s, 1 + rows_of(r, now)))
                /* The part has no memory for rows: the slot is starved, and flush.c pauses. */
                return;
            put_request(s, r, put_batch(s, r, now), 0, now);
            continue;
        }
        err why = pack_put(s, r, now);
        if (why == ERR_AGAIN)
            return;
        if (why != ERR_OK)
            pack_refuse(p, r);
    }
}

void produce_done(struct queue_produce *r)
{
    struct own_produce *own = own_produce(r);
    r->partition = own->req.part->number;
    r->first = ksuid_add(own->batch, own->offset);
    req_answer(own->req.part->queue, &own->req, ERR_OK);
}

/* Only the store knows. The request waits until the partition was read; when the queue ends
 * nobody asks the store, and the outcome stays unknown. */
void produce_unknown(struct part *p, struct queue_produce *r)
{
    struct req *req = &own_produce(r)->req;
    req->state = REQ_UNKNOWN;
    list_append(&p->unknown, &req->link);
    if (!p->queue->draining && !p->queue->deleted)
        return;
    produce_leave(p->queue, r);
    err_note_set(&r->note, "request timeout; the outcome is unknown, try again");
    req_answer(p->queue, req, ERR_TIMEOUT);
}

/* For load.c, once the store said whether the batch is there. */
void produce_known(struct queue_produce *r, bool there)
{
    if (there)
        produce_done(r);
    else
        produce_again(r);
}
