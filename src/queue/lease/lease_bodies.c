/* lease_bodies.c - the bodies of what a request got.
 *
 * Bodies in memory: the lease is written at once, bodies are copied meanwhile. Otherwise they are
 * read first, because their size decides how many fit into the reply; what does not fit goes back
 * to its place. */
#include "queue/lease/lease.h"

/* ---- reading ---- */

/* Fills an item of the reply. The texts point into body, which is in the request's arena. */
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

/* Batches were kept for copying without the lock; the references are of the part, so the lock is
 * held here. */
void lease_unpin(struct queue_lease_request *r, struct part *p)
{
    struct own_lease *own = own_lease(r);
    for (unsigned i = 0; i < own->count && own->batches != NULL; i++)
        batch_unref(p, own->batches[i]);
    own->batches = NULL;
}

/* The batches are pinned: their bytes stay, whoever is served meanwhile. */
err lease_copy(struct queue_lease_request *r)
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

/* What is to be read. ERR_LIMIT. */
static err bodies_begin(struct queue_lease_request *r)
{
    struct own_lease *own = own_lease(r);
    own->bodies = arena_alloc(r->arena, sizeof *own->bodies);
    str *out = arena_calloc(r->arena, own->count, sizeof *out);
    if (own->bodies == NULL || out == NULL)
        return ERR_LIMIT;
    *own->bodies = (struct queue_bodies){ .at = own->places,
                                          .count = own->count,
                                          .arena = r->arena,
                                          .out = out,
                                          .bytes_max = r->queue->all->opts.reply_bytes_max };
    return ERR_OK;
}

/* What was read, into the reply: up to the first body that cannot be had. */
static err bodies_take(struct queue_lease_request *r, err why)
{
    struct own_lease *own = own_lease(r);
    const struct queue_bodies *b = own->bodies;
    for (own->read = 0; own->read < b->read && (why == ERR_OK || damage_is(why)); own->read++) {
        err filled = item_fill(&r->items[own->read], b->out[own->read]);
        if (filled != ERR_OK) {
            why = filled;
            break;
        }
    }
    return damage_is(why) && own->read > 0
               ? ERR_OK
               : why; /* the next lease begins with what cannot be read */
}

/* Everything about the bodies of r but the lock, where they are in memory. ERR_AGAIN: they are
 * not. */
static err bodies_read_now(struct queue_lease_request *r)
{
    struct own_lease *own = own_lease(r);
    if (own->sized)
        /* The engine may have the bytes in memory though this queue has not: no job is needed
         * then. */
        return lease_copy(r);
    err why = bodies_begin(r);
    if (why != ERR_OK)
        return why;
    own->bodies->now = true;
    why = own->store->ops->bodies(own->store, own->place, own->bodies);
    return why == ERR_AGAIN ? why : bodies_take(r, why);
}

/* ---- read ---- */

/* Items that do not fit into the reply go back; the first always fits. Read from the end, so
 * that rest is in reverse order: each is put back by its id. */
static void bodies_trim(struct queue_lease_request *r, struct part *p)
{
    struct own_lease *own = own_lease(r);
    struct list rest;
    list_init(&rest);
    for (unsigned i = own->count; i > own->read; i--) {
        struct list *n = own->items.prev;
        list_remove(n);
        list_append(&rest, n);
    }
    lease_back(p, &rest);
    own->count = r->items_count = own->read;
}

/* It was to be leased, and its body cannot be had. */
static void bodies_aside(struct part *p, struct qitem *it, err why)
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
static void bodies_unread(struct queue *q, struct queue_lease_request *r)
{
    struct own_lease *own = own_lease(r);
    struct part *p = own->req.part;
    list_remove(&own->req.link);
    /* The first item is the damaged one: bodies_take would have leased those before it. */
    if (damage_is(own->fetch_why)) {
        bodies_aside(p, CONTAINER_OF(list_take(&own->items), struct qitem, link), own->fetch_why);
        lease_back(p, &own->items);
        lease_wait_again(q, r);
        return;
    }
    lease_back(p, &own->items);
    own->count = 0;
    if (own->fetch_why == ERR_UNAVAILABLE || own->fetch_why == ERR_TIMEOUT) {
        stores_written(q->all, own->store_index, ERR_UNAVAILABLE, 0, false);
        part_hold(p);
        lease_wait_again(q, r);
        return;
    }
    /* An unknown state of the store: the partition is read anew. */
    if (own->fetch_why == ERR_IO)
        part_refuse(p);
    lease_finish(q, r);
}

/* The bodies are here, or cannot be had. Under the lock. Four ways on: the client went, the
 * lease failed meanwhile, the bodies came first, or the lease did. */
static void bodies_done(struct queue *q, struct queue_lease_request *r)
{
    struct own_lease *own = own_lease(r);
    struct part *p = own->req.part;
    own->copying = false;
    lease_unpin(r, p);
    if (own->req.canceled) {
        if (own->written)
            lease_disown(p, r, 0);
        lease_answer_gone(q, r);
    } else if (own->again) {
        lease_wait_again(q, r);
    } else if (own->req.state == REQ_FETCHING && own->fetch_why != ERR_OK) {
        bodies_unread(q, r);
    } else if (own->req.state == REQ_FETCHING) {
        bodies_trim(r, p);
        lease_to_write(r, p);
    } else if (own->written) {
        lease_finish(q, r);
    }
}

/* ---- jobs ---- */

/* Thread: pool. now is taken back: this time the store may block, or answer later. */
static bool bodies_step(struct store_job *j)
{
    struct own_lease *own = CONTAINER_OF(j, struct own_lease, job);
    err why = j->later.why;
    if (!store_job_told(j)) {
        own->bodies->now = false;
        own->bodies->read = 0;
        own->bodies->later = store_job_ask(j);
        why = own->store->ops->bodies(own->store, own->place, own->bodies);
        if (store_job_waits(j, why))
            return true;
    }
    own->fetch_why = bodies_take(req_lease(&own->req), why);
    return false;
}

static void bodies_job_done(struct store_job *j)
{
    struct own_lease *own = CONTAINER_OF(j, struct own_lease, job);
    /* queue_leave may answer the last request, which frees what holds q. */
    struct queue *q = req_lease(&own->req)->queue;
    queue_ref(q);
    queue_enter(q);
    bodies_done(q, req_lease(&own->req));
    queue_leave(q);
    queue_unref(&q);
}

/* After the lock was left: copies what is in memory, on this thread, and starts jobs for the
 * rest. Returns with the lock taken. */
void lease_fetch_all(struct queue *q, struct list *fetches)
{
    struct list here;
    list_init(&here);
    for (struct list *n; (n = list_take(fetches)) != NULL;) {
        struct own_lease *own = CONTAINER_OF(n, struct own_lease, fetch);
        own->fetch_why = bodies_read_now(req_lease(&own->req));
        if (own->fetch_why == ERR_AGAIN) {
            own->job.step = bodies_step;
            own->job.done = bodies_job_done;
            store_job_start(q->all->opts.loop, &own->job);
        } else {
            list_append(&here, n);
        }
    }
    queue_enter(q);
    for (struct list *n; (n = list_take(&here)) != NULL;)
        bodies_done(q, req_lease(&CONTAINER_OF(n, struct own_lease, fetch)->req));
}
