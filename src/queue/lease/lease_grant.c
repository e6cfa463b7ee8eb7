/* lease_grant.c - who gets what: a round promises, shares, and hands over.
 *
 * Each request in order of arrival goes to the partition with the oldest ready head not yet
 * promised; when all is promised, to the partition served last, as long as that has an item for
 * each. Then the requests of a partition take its items one each per turn. A reply is from one
 * partition. Whoever got nothing waits on. Each lease of whoever wants tokens gets a fencing token:
 * the partition's epoch, then a count. */
#include "queue/lease/lease.h"

enum {
    COPY_BYTES_MAX = 4096, /* copied under the lock; more is copied outside */
    SHARES_MAX = 16,       /* partitions of one round; the next round takes the others */
};

/* ---- shares ---- */

/* What a partition has for this round, and who shares it. */
struct share {
    struct part *part;
    struct list *next; /* first item not promised */
    uint64_t left;     /* items not promised */
    uint64_t items;
    unsigned requests;
    struct list takers; /* requests */
};

/* left and next begin with the whole window, in order. */
static void share_begin(struct share *h, struct part *p)
{
    *h = (struct share){
        .part = p, .next = p->ready_list.next, .left = p->ready_items, .items = p->ready_items
    };
    list_init(&h->takers);
}

/* Promised, not dealt: the round learns who shares a partition before anybody takes. */
static void share_promise(struct share *h, struct queue_lease_request *r)
{
    uint64_t n = r->batch_size < h->left ? r->batch_size : h->left;
    h->left -= n;
    for (; n > 0; n--)
        h->next = h->next->next;
    list_remove(&own_lease(r)->req.link);
    list_append(&h->takers, &own_lease(r)->req.link);
    h->requests++;
}

/* The oldest of what is left of each; the lower number wins ties. */
static bool share_is_older(const struct share *a, const struct share *b)
{
    int64_t at = CONTAINER_OF(a->next, struct qitem, link)->ready_at.ns;
    int64_t other = CONTAINER_OF(b->next, struct qitem, link)->ready_at.ns;
    return at != other ? at < other : a->part->number < b->part->number;
}

/* One item each per turn, until the items or the requests' wishes end. */
static void share_deal(struct share *h)
{
    struct part *p = h->part;
    struct list full;
    list_init(&full);
    while (!list_empty(&h->takers) && !list_empty(&p->ready_list)) {
        struct req *req = CONTAINER_OF(list_take(&h->takers), struct req, link);
        struct queue_lease_request *r = req_lease(req);
        /* The request is in no list while it is dealt to: it goes to the end of takers, or to
         * full. */
        struct own_lease *own = own_lease(r);
        struct qitem *it = part_head(p);
        str body;
        uint64_t size = batch_item(it->batch, it->index, &body) ? body.n : 0;
        /* A reply is at most reply_bytes_max, but for its first item. */
        if (own->count > 0 && own->bytes + size > p->queue->all->opts.reply_bytes_max) {
            list_append(&full, &req->link);
            continue;
        }
        part_unlist(p, it);
        qitem_move(it, QITEM_GRANTING);
        list_append(&own->items, &it->link);
        it->attempts++;
        p->granting++;
        /* sized: all bodies so far are in memory, so that bytes is what they take. */
        own->sized = (own->count == 0 || own->sized) && size > 0;
        own->bytes += size;
        own->count++;
        list_append(own->count == r->batch_size ? &full : &h->takers, &req->link);
    }
    list_join(&h->takers, &full);
}

/* ---- what a request got ---- */

/* The reply's items, but for their bodies. False: the request's arena has no room. */
static bool grant_fill(struct queue_lease_request *r, struct part *p, store_time now)
{
    struct own_lease *own = own_lease(r);
    int64_t timeout =
        r->lease_timeout_ns > 0 ? r->lease_timeout_ns : p->queue->info.lease_timeout_ns;
    r->items = arena_calloc(r->arena, own->count, sizeof *r->items);
    own->batches = arena_calloc(r->arena, own->count, sizeof(struct batch *));
    own->places = arena_calloc(r->arena, own->count, sizeof *own->places);
    if (r->items == NULL || own->batches == NULL || own->places == NULL)
        return false;
    unsigned i = 0;
    for (struct list *n = own->items.next; n != &own->items; n = n->next, i++) {
        struct qitem *it = CONTAINER_OF(n, struct qitem, link);
        it->due_at = store_time_add(now, timeout);
        /* Epoch first: tokens of a later owner are greater than those of this one. */
        it->token = r->wants_token ? (p->epoch << 40) + ++p->tokens : 0;
        r->items[i] = (struct queue_item){ .id = it->id,
                                           .attempts = it->attempts,
                                           .lease_deadline = it->due_at,
                                           .expire_at = it->expire_at,
                                           .created_at = it->created_at,
                                           .token = it->token,
                                           .max_attempts = p->queue->info.max_attempts };
        own->places[i] = (struct queue_place){ .batch = it->batch->first, .index = it->index };
        own->batches[i] = it->batch;
        /* Pinned for the copy, which may run without the lock. */
        batch_ref(it->batch);
    }
    r->partition = p->number;
    r->items_count = own->count;
    return true;
}

/* A request that got items: its lease is written, or its bodies are read first. */
static void grant(struct queue *q, struct queue_lease_request *r, struct part *p)
{
    struct own_lease *own = own_lease(r);
    own->req.part = p;
    own->again = own->written = false;
    own->fetch_why = ERR_OK;
    own->store = part_store(p);
    own->store_index = p->store;
    own->place = (struct queue_part){ .queue = q->number, .partition = p->number };
    if (!grant_fill(r, p, clock_store(q->all->opts.clock))) {
        /* The items go to others; this client gets the error. */
        lease_back(p, &own->items);
        own->count = 0;
        err_note_set(&r->note, "queue is overloaded; try again later");
        req_answer(q, &own->req, ERR_LIMIT);
        return;
    }
    /* Small replies are copied at once: a hand-over would cost more than the copy. */
    own->copying = !own->sized || own->bytes > COPY_BYTES_MAX;
    if (!own->copying) {
        own->fetch_why = lease_copy(r);
        lease_unpin(r, p);
    }
    /* The lease is written while the bodies are copied. */
    if (own->sized) {
        lease_to_write(r, p);
        if (own->copying)
            list_append(&q->fetches, &own->fetch);
        return;
    }
    /* Their size decides how many fit: the lease is written afterwards. */
    own->req.state = REQ_FETCHING;
    list_append(&p->fetching, &own->req.link);
    list_append(&q->fetches, &own->fetch);
}

/* ---- the round ---- */

static void share_end(struct queue *q, struct share *h)
{
    struct part *p = h->part;
    share_deal(h);
    for (struct list *n; (n = list_take(&h->takers)) != NULL;) {
        struct req *req = CONTAINER_OF(n, struct req, link);
        if (own_lease(req_lease(req))->count == 0)
            /* By order of arrival: it is first again in the next round. */
            req_park(&q->waiting, req);
        else
            grant(q, req_lease(req), p);
    }
    part_loads(p);
    q->last_part = p->number;
}

static bool share_is_promised(const struct share *s)
{
    return s->left == 0;
}

/* The share with the oldest head not promised: one begun, or the next partition. */
static struct share *share_oldest(struct queue *q, struct share *shares, unsigned *count)
{
    struct share *best = NULL;
    for (unsigned i = 0; i < *count; i++)
        if (!share_is_promised(&shares[i]) && (best == NULL || share_is_older(&shares[i], best)))
            best = &shares[i];
    struct heap_node *n = heap_first(&q->heads);
    if (n == NULL || *count == SHARES_MAX)
        return best;
    struct share next;
    share_begin(&next, CONTAINER_OF(n, struct part, head));
    if (best != NULL && share_is_older(best, &next))
        return best;
    /* Out of the heap until the round is over: part_heads puts it back. */
    heap_remove(&q->heads, n);
    share_begin(&shares[*count], next.part);
    return &shares[(*count)++];
}

void lease_round(struct queue *q)
{
    struct share shares[SHARES_MAX], *last = NULL;
    unsigned count = 0;
    while (!q->draining && !list_empty(&q->waiting)) {
        struct queue_lease_request *r = req_lease(CONTAINER_OF(q->waiting.next, struct req, link));
        struct share *to = share_oldest(q, shares, &count);
        if (to == NULL)
            /* All heads are promised: requests share what is there, as long as each gets an
             * item. */
            to = last;
        if (to == NULL || to->requests >= to->items)
            break;
        share_promise(to, r);
        last = to;
    }
    /* Dealing begins when all have chosen. Then the partitions come back
     * into the heap, and read on. */
    for (unsigned i = 0; i < count; i++)
        share_end(q, &shares[i]);
    for (unsigned i = 0; i < count; i++) {
        part_heads(shares[i].part);
        part_read(shares[i].part);
    }
}
