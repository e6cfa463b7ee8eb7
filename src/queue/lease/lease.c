/* lease.c - requests for items: they come, their leases are written, they end.
 *
 * A request waits until a round (lease_grant.c) gives it items of one partition. Then its lease is
 * written, beside the reading of their bodies or after it (lease_bodies.c). Until that write is
 * over the items are GRANTING; a failed one puts them back to their place, and the request waits
 * again. A request may end while its lease is being written. Then the items go back to their place
 * once that write is answered, by another write. Until they are there, the partition gives nothing.
 */
#include "queue/lease/lease.h"

#include <string.h>

/* ---- a request comes ---- */

/* The waiting request of that client in this queue. NULL: there is none. */
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

/* A request without a client id is under no name, and any number of them may wait. */
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
                               /* What each try takes of the arena is released when the request
                                * waits again. */
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

void lease_answer_gone(struct queue *q, struct queue_lease_request *r)
{
    lease_detach(q, r);
    err_note_set(&r->note, QUEUE_GONE_NOTE "no items were leased");
    req_answer(q, &own_lease(r)->req, ERR_GONE);
}

/* A request that is copying is left alone: the job writes into its memory until bodies_done. */
void queue_lease_cancel(struct queue_lease_request *r)
{
    struct queue *q = r->queue;
    queue_enter(q);
    struct own_lease *own = own_lease(r);
    if (own->req.state != REQ_ANSWERED && !own->copying) {
        lease_answer_gone(q, r);
    } else if (own->req.state != REQ_ANSWERED) {
        own->req.canceled = true; /* when its bodies are read */
    }
    queue_leave(q);
}

/* ---- back to where they were ---- */

void lease_back(struct part *p, struct list *items)
{
    for (struct list *n; (n = list_take(items)) != NULL;) {
        struct qitem *it = CONTAINER_OF(n, struct qitem, link);
        INVARIANT(p->granting > 0);
        p->granting--;
        /* The grant did not happen: it takes no attempt. */
        it->attempts--;
        it->token = 0;
        qitem_move(it, QITEM_READY);
        part_ready_put(p, it);
    }
    part_loads(p);
}

/* The request has no items any more, and nobody writes into its memory. */
void lease_wait_again(struct queue *q, struct queue_lease_request *r)
{
    struct own_lease *own = own_lease(r);
    own->count = 0;
    own->bytes = 0;
    own->again = own->written = false;
    own->req.part = NULL;
    r->items = NULL;
    /* lease_unpin came before: the pins hold batches of the part. */
    r->items_count = 0;
    INVARIANT(own->batches == NULL);
    arena_release(r->arena, own->tries);
    err why = q->draining || q->deleted ? req_admit(q, &r->note) : ERR_OK;
    if (why == ERR_OK)
        req_park(&q->waiting, &own->req);
    else
        req_answer(q, &own->req, why);
}

/* ---- a request ends ---- */

void lease_disown(struct part *p, const struct queue_lease_request *r, unsigned kept)
{
    /* By id, because the items may have moved on since: each is looked up again. */
    for (unsigned i = kept; i < r->items_count; i++) {
        struct qitem *it = part_item(p, r->items[i].id);
        if (it == NULL || it->state != QITEM_LEASED || it->due.place == 0)
            continue; /* its write or its expiry is on the way */
        if (it->due_at.ns != r->items[i].lease_deadline.ns)
            continue; /* it was leased again */
        /* Out of the heap: an orphan does not expire, it is released. */
        heap_remove(&p->queue->due, &it->due);
        list_append(&p->orphans, &it->link);
    }
    part_heads(p);
    queue_work(p);
}

void lease_finish(struct queue *q, struct queue_lease_request *r)
{
    /* Bodies and lease are both over here. A request whose lease stands and whose bodies cannot
     * be had gives its items back. */
    struct own_lease *own = own_lease(r);
    bool starved = arena_is_starved(r->arena);
    if (own->fetch_why != ERR_OK) { /* the lease would end unseen, and count */
        if (own->written)
            lease_disown(own->req.part, r, 0);
        if (!starved)
            err_note_set(&r->note, "internal error, try your request again");
        r->items_count = 0;
    }
    req_answer(q, &own->req,
               own->fetch_why == ERR_OK ? ERR_OK
               : starved                ? ERR_LIMIT
                                        : ERR_UNAVAILABLE);
}

/* Under the queue's lock: what the reply could not take is given back before another lease
 * expires it. */
void queue_lease_give_back(struct queue_lease_request *r, unsigned kept)
{
    struct queue *q = r->queue;
    if (kept >= r->items_count)
        return;
    queue_enter(q);
    lease_disown(q->parts[r->partition], r, kept);
    r->items_count = kept;
    queue_leave(q);
}

/* ---- writing ---- */

void lease_to_write(struct queue_lease_request *r, struct part *p)
{
    struct req *req = &own_lease(r)->req;
    req->state = REQ_PENDING;
    list_remove(&req->link);
    list_append(&p->grants, &req->link);
    queue_work(p);
}

void lease_build(struct part *p, struct slot *s)
{
    for (struct list *n; (n = list_first(&p->grants)) != NULL;) {
        /* A write takes whole requests. One that finds no room waits for the next write. */
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

/* Their lease is written. orphans: nobody waits for these items any more; NULL: their request
 * does. */
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

/* The outcome of their lease is unknown. Should the lease turn out to stand, the items are given
 * back as soon as the partition is read. */
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

/* again: the memory of the partition was thrown away while the lease was written, so the items
 * are no longer the request's. */
void lease_written(struct queue_lease_request *r, bool ok, bool unknown)
{
    struct own_lease *own = own_lease(r);
    struct part *p = own->req.part;
    if (ok && !own->again) {
        leased(p, &own->items, NULL);
        own->written = true;
        /* Bodies are still being copied: bodies_done finishes the request then. */
        if (!own->copying)
            lease_finish(p->queue, r);
        return;
    }
    if (!ok && unknown)
        lose_items(p, &own->items);
    lease_back(p, &own->items); /* none, when the memory of the partition was thrown away */
    own->again = true;
    if (!own->copying)
        lease_wait_again(p->queue, r);
}

/* Items whose requests left before the write of their lease was answered. */
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
        lease_back(s->part, &s->orphans);
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

/* Takes the items from a request that ends or waits again: into the write on its way, or back to
 * their place. */
void lease_detach(struct queue *q, struct queue_lease_request *r)
{
    struct own_lease *own = own_lease(r);
    struct part *p = own->req.part;
    (void)q;
    INVARIANT(!own->copying);
    /* Not sent yet: the request is taken out of that write first. */
    req_recall(&own->req);
    if (own->req.state == REQ_WRITING && own->req.slot != NULL)
        orphan(p, own->req.slot, &own->items);
    else if (p != NULL)
        lease_back(p, &own->items);
    own->count = r->items_count = 0;
}

/* Items nobody is told of any more go back as if they had never been leased. */
void orphan_build(struct part *p, struct slot *s)
{
    for (struct list *n; slot_room(s, STEP_OPS_MAX) && (n = list_take(&p->orphans)) != NULL;)
        step_release(s, CONTAINER_OF(n, struct qitem, link));
}

/* Requests whose items go with the memory of their partition. Changes and produces may stand in
 * the same lists. */
static void lose_requests(struct part *p, struct list *requests)
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

/* Before the memory is thrown away: leases that may stand in the store are noted, so that the
 * next reading gives their items back. */
void lease_lost(struct part *p)
{
    lose_items(p, &p->orphans);
    lose_requests(p, &p->fetching);
    lose_requests(p, &p->grants);
    /* Writes on their way keep their requests: their outcomes answer them. */
    struct slot *slots[] = { p->early.sent, p->early.next, p->main.sent, p->main.next };
    for (size_t i = 0; i < COUNT_OF(slots); i++) {
        if (slots[i] == NULL)
            continue;
        lease_lose_steps(slots[i]);
        lose_requests(p, &slots[i]->requests);
        lose_items(p, &slots[i]->orphans);
        list_init(&slots[i]->orphans);
    }
    for (struct list *n; (n = list_take(&p->grants)) != NULL;) {
        struct queue_lease_request *r = req_lease(CONTAINER_OF(n, struct req, link));
        if (!own_lease(r)->copying)
            /* Its memory is still being written into: bodies_done lets it wait again. */
            lease_wait_again(p->queue, r);
        else
            list_append(&p->fetching, n); /* until it is copied */
    }
}
