/* lease.c - ready items to waiting requests: a round promises, shares, reads bodies and writes
 * leases.
 *
 * Round. Each request in order of arrival goes to the partition with the oldest ready head not yet
 * promised; when all is promised, to the partition served last, as long as that has an item for
 * each. Then the requests of a partition take its items one each per turn. A reply is from one
 * partition. Whoever got nothing waits on.
 *   Bodies in memory: the lease is written at once, bodies are copied meanwhile. Otherwise they are
 * read first, because their size decides how many fit into the reply; what does not fit goes back
 * to its place.
 *   A request may end while its lease is being written. Then the items go back to their place once
 * that write is answered, by another write. Until they are there, the partition gives nothing. */
#include "queue/order/flush.h"

#include <string.h>

enum { COPY_BYTES_MAX = 4096 /* copied under the lock; more is copied outside */ };

/* ---- a request comes ---- */

static struct queue_lease_request *same_client(struct queue *q, str client)
{
    struct hash_node *n = hash_first(&q->clients, hash_of_str(client, q->number));
    for (; n != NULL; n = hash_next(n)) {
        struct own_lease *own = CONTAINER_OF(n, struct own_lease, by_client);
        struct queue_lease_request *r = req_lease(&own->req);
        if (str_eq(r->client_id, client))
            return r;
    }
    return NULL;
}

static err lease_admit(struct queue *q, struct queue_lease_request *r)
{
    err why = req_admit(q, &r->note);
    if (why != ERR_OK || r->client_id.n == 0)
        return why;
    if (same_client(q, r->client_id) != NULL) {
        err_note_set(
            &r->note,
            "duplicate client id; a client cannot make multiple leased requests to the same queue");
        return ERR_BAD;
    }
    hash_add(&q->clients, &own_lease(r)->by_client, hash_of_str(r->client_id, q->number));
    own_lease(r)->named = true;
    return ERR_OK;
}

err queue_lease_start(struct queue_lease_request *r)
{
    struct queue *q = r->queue;
    struct own_lease *own = own_lease(r);
    if (r->batch_size == 0 || r->batch_size > QUEUE_LEASE_ITEMS_MAX) {
        err_note_set(&r->note,
                     "invalid batch size; max_lease_batch_size is %d, but %u was requested",
                     QUEUE_LEASE_ITEMS_MAX, r->batch_size);
        return ERR_BAD;
    }
    *own = (struct own_lease){ .req = { .kind = REQ_LEASE, .home = r->home },
                               .tries = arena_mark(r->arena) };
    list_init(&own->items);
    r->items = NULL;
    r->items_count = 0;
    queue_enter(q);
    err why = lease_admit(q, r);
    if (why == ERR_OK) {
        req_add(q, &own->req, r->deadline);
        list_append(q->paused ? &q->held : &q->waiting, &own->req.link);
        if (heap_first(&q->heads) ==
            NULL) /* it waits: what it waits for may be in a store that is back */
            stores_all_wanted(q->all);
    }
    queue_leave(q);
    return why;
}

/* Who only stopped sending reads it. */
static void answer_gone(struct queue *q, struct queue_lease_request *r)
{
    lease_detach(q, r);
    err_note_set(&r->note, QUEUE_GONE_NOTE "no items were leased");
    req_answer(q, &own_lease(r)->req, ERR_GONE);
}

void queue_lease_cancel(struct queue_lease_request *r)
{
    struct queue *q = r->queue;
    queue_enter(q);
    struct own_lease *own = own_lease(r);
    if (own->req.state != REQ_ANSWERED && !own->copying) {
        answer_gone(q, r);
    } else if (own->req.state != REQ_ANSWERED) {
        own->req.canceled = true; /* when its bodies are read */
    }
    queue_leave(q);
}

/* ---- back to where they were ---- */

static void back(struct part *p, struct list *items)
{
    for (struct list *n; (n = list_take(items)) != NULL;) {
        struct qitem *it = CONTAINER_OF(n, struct qitem, link);
        INVARIANT(p->granting > 0);
        p->granting--;
        it->attempts--;
        it->token = 0;
        qitem_move(it, QITEM_READY);
        part_ready_put(p, it);
    }
    part_loads(p);
}

static void wait_again(struct queue *q, struct queue_lease_request *r)
{
    struct own_lease *own = own_lease(r);
    own->count = 0;
    own->bytes = 0;
    own->again = own->written = false;
    own->req.part = NULL;
    r->items = NULL;
    r->items_count = 0;
    INVARIANT(own->batches == NULL);
    arena_release(r->arena, own->tries);
    err why = q->draining || q->deleted ? req_admit(q, &r->note) : ERR_OK;
    if (why == ERR_OK)
        req_park(&q->waiting, &own->req);
    else
        req_answer(q, &own->req, why);
}

/* ---- the round ---- */

/* What a partition has for this round, and who shares it. */
struct share {
    struct part *part;
    struct list *next; /* first item not promised */
    uint64_t left;     /* items not promised */
    uint64_t items;
    unsigned requests;
    struct list takers; /* requests */
};

static void share_begin(struct share *h, struct part *p)
{
    *h = (struct share){
        .part = p, .next = p->ready_list.next, .left = p->ready_items, .items = p->ready_items
    };
    list_init(&h->takers);
}

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

static bool share_is_older(const struct share *a, const struct share *b)
{
    int64_t at = CONTAINER_OF(a->next, struct qitem, link)->ready_at.ns;
    int64_t other = CONTAINER_OF(b->next, struct qitem, link)->ready_at.ns;
    return at != other ? at < other : a->part->number < b->part->number;
}

/* One item each per turn, until the items or the requests' wishes end. */
static void deal(struct share *h)
{
    struct part *p = h->part;
    struct list full;
    list_init(&full);
    while (!list_empty(&h->takers) && !list_empty(&p->ready_list)) {
        struct req *req = CONTAINER_OF(list_take(&h->takers), struct req, link);
        struct queue_lease_request *r = req_lease(req);
        struct own_lease *own = own_lease(r);
        struct qitem *it = part_head(p);
        str body;
        uint64_t size = batch_item(it->batch, it->index, &body) ? body.n : 0;
        if (own->count > 0 && own->bytes + size > p->queue->all->opts.reply_bytes_max) {
            list_append(&full, &req->link);
            continue;
        }
        part_unlist(p, it);
        qitem_move(it, QITEM_GRANTING);
        list_append(&own->items, &it->link);
        it->attempts++;
        p->granting++;
        own->sized = (own->count == 0 || own->sized) && size > 0;
        own->bytes += size;
        own->count++;
        list_append(own->count == r->batch_size ? &full : &h->takers, &req->link);
    }
    list_join(&h->takers, &full);
}

/* The reply's items, but for their bodies. */
static bool fill(struct queue_lease_request *r, struct part *p, store_time now)
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
        batch_ref(it->batch);
    }
    r->partition = p->number;
    r->items_count = own->count;
    return true;
}

/* body is in the arena. */
static err item_fill(struct queue_item *out, str body)
{
    struct item it;
    err why = item_decode(body, &it);
    if (why != ERR_OK)
        return why;
    out->encoding = it.encoding;
    out->kind = it.kind;
    out->reference = it.reference;
    out->bytes = it.bytes;
    out->source_id = it.source_id;
    out->enqueue_at = it.enqueue_at;
    return why;
}

static void unpin(struct queue_lease_request *r, struct part *p)
{
    struct own_lease *own = own_lease(r);
    for (unsigned i = 0; i < own->count && own->batches != NULL; i++)
        batch_unref(p, own->batches[i]);
    own->batches = NULL;
}

static err copy_known(struct queue_lease_request *r)
{
    struct own_lease *own = own_lease(r);
    err why = ERR_OK;
    str body;
    for (unsigned i = 0; i < own->count && why == ERR_OK; i++) {
        why = batch_item(own->batches[i], own->places[i].index, &body) ? ERR_OK : ERR_CORRUPT;
        if (why == ERR_OK)
            body = arena_copy(r->arena, body);
        if (why == ERR_OK)
            why = body.p == NULL ? ERR_LIMIT : item_fill(&r->items[i], body);
    }
    return why;
}

static void to_write(struct queue_lease_request *r, struct part *p)
{
    struct req *req = &own_lease(r)->req;
    req->state = REQ_PENDING;
    list_remove(&req->link);
    list_append(&p->grants, &req->link);
    queue_work(p);
}

/* A request that got items: its lease is written, or its bodies are read first. */
static void granted(struct queue *q, struct queue_lease_request *r, struct part *p)
{
    struct own_lease *own = own_lease(r);
    own->req.part = p;
    own->again = own->written = false;
    own->fetch_why = ERR_OK;
    own->store = part_store(p);
    own->store_index = p->store;
    own->place = (struct queue_part){ .queue = q->number, .partition = p->number };
    if (!fill(r, p, clock_store(q->all->opts.clock))) {
        back(p, &own->items);
        own->count = 0;
        err_note_set(&r->note, "queue is overloaded; try again later");
        req_answer(q, &own->req, ERR_LIMIT);
        return;
    }
    own->copying = !own->sized || own->bytes > COPY_BYTES_MAX;
    if (!own->copying) {
        own->fetch_why = copy_known(r);
        unpin(r, p);
    }
    if (own->sized) {
        to_write(r, p);
        if (own->copying)
            list_append(&q->fetches, &own->fetch);
        return;
    }
    own->req.state = REQ_FETCHING;
    list_append(&p->fetching, &own->req.link);
    list_append(&q->fetches, &own->fetch);
}

static void share_end(struct queue *q, struct share *h)
{
    struct part *p = h->part;
    deal(h);
    for (struct list *n; (n = list_take(&h->takers)) != NULL;) {
        struct req *req = CONTAINER_OF(n, struct req, link);
        if (own_lease(req_lease(req))->count == 0)
            req_park(&q->waiting, req);
        else
            granted(q, req_lease(req), p);
    }
    part_loads(p);
    q->last_part = p->number;
}

enum { SHARES_MAX = 16 }; /* partitions of one round; the next round takes the others */

static bool is_promised(const struct share *s)
{
    return s->left == 0;
}

/* The share with the oldest head not promised: one begun, or the next partition. */
static struct share *oldest(struct queue *q, struct share *shares, unsigned *count)
{
    struct share *best = NULL;
    for (unsigned i = 0; i < *count; i++)
        if (!is_promised(&shares[i]) && (best == NULL || share_is_older(&shares[i], best)))
            best = &shares[i];
    struct heap_node *n = heap_first(&q->heads);
    if (n == NULL || *count == SHARES_MAX)
        return best;
    struct share next;
    share_begin(&next, CONTAINER_OF(n, struct part, head));
    if (best != NULL && share_is_older(best, &next))
        return best;
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
        struct share *to = oldest(q, shares, &count);
        if (to == NULL)
            to = last;
        if (to == NULL || to->requests >= to->items)
            break;
        share_promise(to, r);
        last = to;
    }
    for (unsigned i = 0; i < count; i++)
        share_end(q, &shares[i]);
    for (unsigned i = 0; i < count; i++) {
        part_heads(shares[i].part);
        part_read(shares[i].part);
    }
}

/* ---- bodies ---- */

/* Everything about the bodies of r but the lock. ERR_AGAIN: not without blocking. */
static err read_bodies(struct queue_lease_request *r, bool now)
{
    struct own_lease *own = own_lease(r);
    if (own->sized)
        return copy_known(r);
    struct queue_bodies b = { .at = own->places,
                              .count = own->count,
                              .now = now,
                              .arena = r->arena,
                              .bytes_max = r->queue->all->opts.reply_bytes_max };
    b.out = arena_calloc(r->arena, own->count, sizeof *b.out);
    if (b.out == NULL)
        return ERR_LIMIT;
    err why = own->store->ops->bodies(own->store, own->place, &b);
    for (own->read = 0; own->read < b.read && (why == ERR_OK || damage_is(why)); own->read++) {
        err filled = item_fill(&r->items[own->read], b.out[own->read]);
        if (filled != ERR_OK) {
            why = filled;
            break;
        }
    }
    return damage_is(why) && own->read > 0
               ? ERR_OK
               : why; /* the next lease begins with what cannot be read */
}

/* What does not fit into the reply goes back; the first always fits. */
static void trim(struct queue_lease_request *r, struct part *p)
{
    struct own_lease *own = own_lease(r);
    struct list rest;
    list_init(&rest);
    for (unsigned i = own->count; i > own->read; i--) {
        struct list *n = own->items.prev;
        list_remove(n);
        list_append(&rest, n);
    }
    back(p, &rest);
    own->count = r->items_count = own->read;
}

/* The leases of its items are written, and nobody is told of those from kept on. */
static void disown(struct part *p, const struct queue_lease_request *r, unsigned kept)
{
    for (unsigned i = kept; i < r->items_count; i++) {
        struct qitem *it = part_item(p, r->items[i].id);
        if (it == NULL || it->state != QITEM_LEASED || it->due.place == 0)
            continue; /* its write or its expiry is on the way */
        if (it->due_at.ns != r->items[i].lease_deadline.ns)
            continue; /* it was leased again */
        heap_remove(&p->queue->due, &it->due);
        list_append(&p->orphans, &it->link);
    }
    part_heads(p);
    queue_work(p);
}

static void finish(struct queue *q, struct queue_lease_request *r)
{
    struct own_lease *own = own_lease(r);
    if (own->fetch_why != ERR_OK) { /* the lease would end unseen, and count */
        if (own->written)
            disown(own->req.part, r, 0);
        err_note_set(&r->note, "internal error, try your request again");
        r->items_count = 0;
    }
    req_answer(q, &own->req, own->fetch_why == ERR_OK ? ERR_OK : ERR_UNAVAILABLE);
}

void queue_lease_give_back(struct queue_lease_request *r, unsigned kept)
{
    struct queue *q = r->queue;
    if (kept >= r->items_count)
        return;
    queue_enter(q);
    disown(q->parts[r->partition], r, kept);
    r->items_count = kept;
    queue_leave(q);
}

/* It was to be leased, and its body cannot be had. */
static void aside(struct part *p, struct qitem *it, err why)
{
    INVARIANT(p->granting > 0);
    p->granting--;
    it->attempts--;
    it->token = 0;
    damage_aside(p, it, why);
}

/* Its bodies cannot be read: the items are back in their place. A store that is away is left alone
 * for a while, and the request waits for what another has. Of damage the first item is out of the
 * way, and the request waits for others. */
static void unread(struct queue *q, struct queue_lease_request *r)
{
    struct own_lease *own = own_lease(r);
    struct part *p = own->req.part;
    list_remove(&own->req.link);
    if (damage_is(own->fetch_why)) {
        aside(p, CONTAINER_OF(list_take(&own->items), struct qitem, link), own->fetch_why);
        back(p, &own->items);
        wait_again(q, r);
        return;
    }
    back(p, &own->items);
    own->count = 0;
    if (own->fetch_why == ERR_UNAVAILABLE || own->fetch_why == ERR_TIMEOUT) {
        stores_written(q->all, own->store_index, ERR_UNAVAILABLE, 0, false);
        part_hold(p);
        wait_again(q, r);
        return;
    }
    if (own->fetch_why == ERR_IO)
        part_refuse(p);
    finish(q, r);
}

/* The bodies are here, or cannot be had. Under the lock. */
static void copied(struct queue *q, struct queue_lease_request *r)
{
    struct own_lease *own = own_lease(r);
    struct part *p = own->req.part;
    own->copying = false;
    unpin(r, p);
    if (own->req.canceled) {
        if (own->written)
            disown(p, r, 0);
        answer_gone(q, r);
    } else if (own->again) {
        wait_again(q, r);
    } else if (own->req.state == REQ_FETCHING && own->fetch_why != ERR_OK) {
        unread(q, r);
    } else if (own->req.state == REQ_FETCHING) {
        trim(r, p);
        to_write(r, p);
    } else if (own->written) {
        finish(q, r);
    }
}

static void read_run(struct loop_job *j)
{
    struct own_lease *own = CONTAINER_OF(j, struct own_lease, job);
    own->fetch_why = read_bodies(req_lease(&own->req), false);
}

static void read_done(struct loop_job *j, bool canceled)
{
    struct own_lease *own = CONTAINER_OF(j, struct own_lease, job);
    struct queue *q = req_lease(&own->req)->queue;
    if (canceled)
        own->fetch_why = ERR_UNAVAILABLE;
    queue_ref(q);
    queue_enter(q);
    copied(q, req_lease(&own->req));
    queue_leave(q);
    queue_unref(&q);
}

void lease_fetch_all(struct queue *q, struct list *fetches)
{
    struct list here;
    list_init(&here);
    for (struct list *n; (n = list_take(fetches)) != NULL;) {
        struct own_lease *own = CONTAINER_OF(n, struct own_lease, fetch);
        own->fetch_why = read_bodies(req_lease(&own->req), true);
        if (own->fetch_why == ERR_AGAIN) {
            own->job = (struct loop_job){ .run = read_run, .done = read_done };
            stores_job_start(q->all, own->store_index, &own->job);
        } else {
            list_append(&here, n);
        }
    }
    queue_enter(q);
    for (struct list *n; (n = list_take(&here)) != NULL;)
        copied(q, req_lease(&CONTAINER_OF(n, struct own_lease, fetch)->req));
}

/* ---- writing ---- */

void lease_build(struct part *p, struct slot *s)
{
    for (struct list *n; (n = list_first(&p->grants)) != NULL;) {
        struct own_lease *own =
            CONTAINER_OF(CONTAINER_OF(n, struct req, link), struct own_lease, req);
        if (!slot_room(s, own->count))
            break;
        for (struct list *l = own->items.next; l != &own->items; l = l->next) {
            struct qitem *it = CONTAINER_OF(l, struct qitem, link);
            slot_op(s, OP_LEASE_PUT)->u.lease = qitem_lease(it, it->due_at);
            s->write.parts[0].ready--;
            s->write.parts[0].leased++;
        }
        list_remove(n);
        slot_request(s, &own->req);
    }
}

static void leased(struct part *p, struct list *items, struct list *orphans)
{
    for (struct list *n; (n = list_take(items)) != NULL;) {
        struct qitem *it = CONTAINER_OF(n, struct qitem, link);
        INVARIANT(p->granting > 0);
        p->granting--;
        qitem_move(it, QITEM_LEASED);
        if (orphans != NULL)
            list_append(orphans, n);
        else
            due_put(it);
    }
}

/* Should their lease turn out to stand, they are given back as soon as the partition is read. */
static void lose_items(struct part *p, struct list *items)
{
    for (struct list *n = items->next; n != items; n = n->next)
        part_lose(p, CONTAINER_OF(n, struct qitem, link));
}

/* Those that a write was giving back. */
void lease_lose_steps(struct slot *s)
{
    for (unsigned i = 0; i < s->steps_count && s->generation == s->part->generation; i++)
        if (s->steps[i].kind == STEP_RELEASE)
            part_lose(s->part, s->steps[i].item);
}

void lease_written(struct queue_lease_request *r, bool ok, bool unknown)
{
    struct own_lease *own = own_lease(r);
    struct part *p = own->req.part;
    if (ok && !own->again) {
        leased(p, &own->items, NULL);
        own->written = true;
        if (!own->copying)
            finish(p->queue, r);
        return;
    }
    if (!ok && unknown)
        lose_items(p, &own->items);
    back(p, &own->items); /* none, when the memory of the partition was thrown away */
    own->again = true;
    if (!own->copying)
        wait_again(p->queue, r);
}

void lease_orphans(struct slot *s, bool ok, bool unknown)
{
    for (const struct list *n = s->orphans.next; n != &s->orphans; n = n->next) {
        INVARIANT(s->part->releasing > 0);
        s->part->releasing--;
    }
    if (unknown)
        lose_items(s->part, &s->orphans);
    if (ok)
        leased(s->part, &s->orphans, &s->part->orphans);
    else
        back(s->part, &s->orphans);
}

/* The write of their lease is on its way, and their request ends now. */
static void orphan(struct part *p, struct slot *s, struct list *items)
{
    for (struct list *n; (n = list_take(items)) != NULL;) {
        list_append(&s->orphans, n);
        p->releasing++;
    }
    part_heads(p);
}

void lease_detach(struct queue *q, struct queue_lease_request *r)
{
    struct own_lease *own = own_lease(r);
    struct part *p = own->req.part;
    (void)q;
    INVARIANT(!own->copying);
    req_recall(&own->req);
    if (own->req.state == REQ_WRITING && own->req.slot != NULL)
        orphan(p, own->req.slot, &own->items);
    else if (p != NULL)
        back(p, &own->items);
    own->count = r->items_count = 0;
}

/* Items nobody is told of any more go back as if they had never been leased. */
void orphan_build(struct part *p, struct slot *s)
{
    for (struct list *n; slot_room(s, STEP_OPS_MAX) && (n = list_take(&p->orphans)) != NULL;)
        step_release(s, CONTAINER_OF(n, struct qitem, link));
}

static void lose(struct part *p, struct list *requests)
{
    for (struct list *n = requests->next; n != requests; n = n->next) {
        struct req *req = CONTAINER_OF(n, struct req, link);
        if (req->kind != REQ_LEASE)
            continue;
        lose_items(p, &own_lease(req_lease(req))->items);
        list_init(&own_lease(req_lease(req))->items);
        own_lease(req_lease(req))->again = true;
    }
}

void lease_lost(struct part *p)
{
    lose_items(p, &p->orphans);
    lose(p, &p->fetching);
    lose(p, &p->grants);
    struct slot *slots[] = { p->early.sent, p->early.next, p->main.sent, p->main.next };
    for (size_t i = 0; i < COUNT_OF(slots); i++) {
        if (slots[i] == NULL)
            continue;
        lease_lose_steps(slots[i]);
        lose(p, &slots[i]->requests);
        lose_items(p, &slots[i]->orphans);
        list_init(&slots[i]->orphans);
    }
    for (struct list *n; (n = list_take(&p->grants)) != NULL;) {
        struct queue_lease_request *r = req_lease(CONTAINER_OF(n, struct req, link));
        if (!own_lease(r)->copying)
            wait_again(p->queue, r);
        else
            list_append(&p->fetching, n); /* until it is copied */
    }
}
