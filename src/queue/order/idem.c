/* idem.c - idempotency keys: within its window a key stands for one produce, over all partitions of
 * the queue.
 *
 *   none -> being written (in its writer's batch; others with the key wait) -> stored
 *        -> past its window -> none
 * The key's row is in the same write as the batch, and with it a digest of what was asked for: the
 * key with another request is refused, whether the first was stored or is on its way. Source:
 * draft-ietf-httpapi-idempotency-key-header, "Idempotency Fingerprint". Keys of imports, of moves
 * and of older stores have no digest and stand for any request. */
#include "queue/order/flush.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Keys in memory, of one queue; rows deleted in one write; keys that expire in one call. */
enum { IDEMS_MAX = 1 << 20, DELETES_MAX = 256, EXPIRES_MAX = 1024 };

/* Without a seed: the hash is on disk. */
static void hash_key(str key, unsigned char out[16])
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits(key.p, key.n));
    memcpy(out, c.digest, 16);
}

static uint64_t slot_of(const unsigned char hash[16])
{
    return hash_of_str((str){ .p = (const char *)hash, .n = 16 }, 0);
}

struct idem *idem_find(struct queue *q, const unsigned char hash[16])
{
    struct hash_node *n = hash_first(&q->idems, slot_of(hash));
    for (; n != NULL; n = hash_next(n)) {
        struct idem *m = CONTAINER_OF(n, struct idem, node);
        if (memcmp(m->hash, hash, 16) == 0)
            return m;
    }
    return NULL;
}

/* A key without an outcome: in no list of ages, and not stored. */
static struct idem *idem_new(struct queue *q, const unsigned char hash[16])
{
    struct idem *m = calloc(1, sizeof *m);
    INVARIANT(m != NULL);
    memcpy(m->hash, hash, 16);
    list_init(&m->age);
    list_init(&m->waiting);
    hash_add(&q->idems, &m->node, slot_of(hash));
    return m;
}

static void idem_free(struct queue *q, struct idem *m)
{
    /* Requests that wait were answered or passed on before. */
    INVARIANT(list_empty(&m->waiting));
    hash_remove(&q->idems, &m->node);
    list_remove(&m->age);
    free(m);
}

/* The length goes first: fields that differ only in where one ends have different digests. */
static void digest_str(XXH3_state_t *s, str text)
{
    char size[8];
    put_be64(size, text.n);
    (void)XXH3_128bits_update(s, size, sizeof size); /* fails for no state alone */
    if (text.n > 0)
        (void)XXH3_128bits_update(s, text.p, text.n);
}

/* It is on disk: what it is made of, and how, never changes. */
void idem_digest(const struct queue_produce *r, unsigned char out[QUEUE_DIGEST_BYTES])
{
    XXH3_state_t *s = XXH3_createState();
    XXH128_canonical_t c;
    char at[8];
    INVARIANT(s != NULL);
    (void)XXH3_128bits_reset(s);
    digest_str(s, r->order_key);
    for (unsigned i = 0; i < r->items_count; i++) {
        const struct queue_item_new *it = &r->items[i];
        digest_str(s, it->encoding);
        digest_str(s, it->kind);
        digest_str(s, it->reference);
        digest_str(s, it->bytes);
        put_be64(at, (uint64_t)it->enqueue_at.ns);
        digest_str(s, (str){ .p = at, .n = sizeof at });
    }
    XXH128_canonicalFromHash(&c, XXH3_128bits_digest(s));
    (void)XXH3_freeState(s);
    memcpy(out, c.digest, QUEUE_DIGEST_BYTES);
}

/* A digest of zeros fits every request. */
static bool same_request(const struct idem *m, struct queue_produce *r)
{
    static const unsigned char none[QUEUE_DIGEST_BYTES];
    return memcmp(m->digest, own_produce(r)->digest, sizeof none) == 0 ||
           memcmp(m->digest, none, sizeof none) == 0;
}

static err refuse_other(struct queue_produce *r)
{
    err_note_set(&r->note, "idempotency-key is invalid; it was used for another request");
    return ERR_PRECONDITION;
}

/* r had the same key as a produce that is stored: r gets that one's ids, or is refused. */
static void answer_repeated(struct queue *q, const struct idem *m, struct queue_produce *r)
{
    own_produce(r)->idem = NULL;
    if (!same_request(m, r)) {
        req_answer(q, &own_produce(r)->req, refuse_other(r));
        return;
    }
    r->partition = m->partition;
    r->first = m->first;
    r->repeated = true;
    req_answer(q, &own_produce(r)->req, ERR_OK);
}

err idem_join(struct queue *q, struct queue_produce *r)
{
    struct own_produce *own = own_produce(r);
    unsigned char hash[16];
    hash_key(r->idempotency_key, hash);
    struct idem *m = idem_find(q, hash);
    if (m != NULL && m->stored) {
        answer_repeated(q, m, r);
        return ERR_OK;
    }
    /* Refused at once: whatever comes of the writer, this is another request. */
    if (m != NULL && !same_request(m, r))
        return refuse_other(r);
    /* The same request is being written: r waits for its outcome. */
    if (m != NULL) {
        own->idem = m;
        own->attached = true;
        list_remove(&own->req.link);
        list_append(&m->waiting, &own->req.link);
        return ERR_OK;
    }
    if (q->idems.count >= IDEMS_MAX) {
        err_note_set(
            &r->note,
            "queue is overloaded; too many idempotency keys within their window, try again later");
        return ERR_LIMIT;
    }
    /* r writes the key. It keeps the key until the outcome, or until it leaves. */
    own->idem = idem_new(q, hash);
    own->idem->writer = r;
    memcpy(own->idem->digest, own->digest, sizeof own->digest);
    return ERR_AGAIN;
}

/* Whoever waits next writes instead; nobody: the key is free again. */
static void pass_on(struct queue *q, struct idem *m)
{
    struct list *n = list_take(&m->waiting);
    m->writer = NULL;
    if (n == NULL) {
        idem_free(q, m);
        return;
    }
    struct req *req = CONTAINER_OF(n, struct req, link);
    m->writer = req_produce(req);
    own_produce(m->writer)->attached = false;
    req_park(&q->parked, req);
    q->placing_wanted = true;
}

/* The key is on disk: its writer is answered by its write, those that waited are answered here. */
static void settle_stored(struct queue *q, struct idem *m)
{
    m->stored = true;
    if (m->writer != NULL)
        own_produce(m->writer)->idem = NULL;
    m->writer = NULL;
    /* From the list of its write to the end of those by age: the window is the same for all keys
     * of a server. */
    list_remove(&m->age);
    list_append(&q->idems_by_age, &m->age);
    for (struct list *n; (n = list_first(&m->waiting)) != NULL;)
        answer_repeated(q, m, req_produce(CONTAINER_OF(n, struct req, link)));
}

void idem_build(struct slot *s, struct queue_produce *r, struct ksuid first, store_time now)
{
    struct idem *m = own_produce(r)->idem;
    m->partition = s->part->number;
    m->first = first;
    m->count = r->items_count;
    m->expire_at = store_time_add(now, s->part->queue->all->opts.idempotency_window_ns);
    /* In the list of the write, until its outcome. */
    list_remove(&m->age);
    list_append(&s->idems, &m->age);
    struct queue_op *op = slot_op(s, OP_KEY_PUT);
    op->u.key = (struct queue_key){ .first = first, .count = m->count, .expire_at = m->expire_at };
    memcpy(op->u.key.hash, m->hash, 16);
    memcpy(op->u.key.digest, m->digest, sizeof m->digest);
}

void idem_outcome(struct slot *s, err why)
{
    struct part *p = s->part;
    for (struct list *n; (n = list_take(&s->idems)) != NULL;) {
        struct idem *m = CONTAINER_OF(n, struct idem, age);
        if (why == ERR_OK)
            settle_stored(p->queue, m);
        /* Only the store knows: the key is settled when the partition is read again. */
        else if (why == ERR_IO)
            list_append(&p->unknown_idems, &m->age);
        else if (m->writer == NULL) /* it left; one that did not is placed again */
            pass_on(p->queue, m);
    }
}

/* The partition was read, and had no row of these keys: they were not written. */
void idem_reloaded(struct part *p)
{
    for (struct list *n; (n = list_take(&p->unknown_idems)) != NULL;) {
        struct idem *m = CONTAINER_OF(n, struct idem, age);
        if (m->writer == NULL)
            pass_on(p->queue, m);
    }
}

/* r is answered early. Others that wait for its key must not wait for ever. */
void idem_left(struct queue *q, struct queue_produce *r)
{
    struct own_produce *own = own_produce(r);
    struct idem *m = own->idem;
    if (m == NULL)
        return;
    own->idem = NULL;
    if (own->attached) {
        list_remove(&own->req.link);
        return;
    }
    INVARIANT(m->writer == r);
    m->writer = NULL;
    /* In a write on its way the key stays: the outcome passes it on. */
    if (own->req.state == REQ_PARKED || own->req.state == REQ_PENDING)
        pass_on(q, m);
}

/* A bounded number at once; the timer of idem_next brings the rest. */
void idem_expire(struct queue *q, store_time now)
{
    struct list *n;
    for (unsigned i = 0; i < EXPIRES_MAX && (n = list_first(&q->idems_by_age)) != NULL; i++) {
        struct idem *m = CONTAINER_OF(n, struct idem, age);
        if (store_time_before(now, m->expire_at))
            return;
        struct part *p = q->parts[m->partition];
        list_remove(&m->age);
        list_append(&p->old_idems, &m->age);
        queue_work(p);
    }
}

/* In order of age; what finds no room stays for the next write. */
void idem_delete(struct part *p, struct slot *s)
{
    struct list *n;
    for (unsigned i = 0;
         i < DELETES_MAX && slot_room(s, 1) && (n = list_first(&p->old_idems)) != NULL; i++) {
        struct idem *m = CONTAINER_OF(n, struct idem, age);
        memcpy(slot_op(s, OP_KEY_DELETE)->u.key.hash, m->hash, 16);
        idem_free(p->queue,
                  m); /* should the write fail, the row is found and deleted at the next start */
    }
}

/* A row of a key was read. A key that memory knows as stored is not changed by it. */
void idem_load(struct part *p, const struct queue_key *k)
{
    struct queue *q = p->queue;
    struct idem *m = idem_find(q, k->hash);
    if (m != NULL && m->stored)
        return;
    if (m != NULL && m->writer != NULL && own_produce(m->writer)->req.state != REQ_UNKNOWN)
        return; /* another write is on its way: it began when this row was past its window */
    /* A writer of an unknown outcome: the row says that it was written. */
    if (m == NULL)
        m = idem_new(q, k->hash);
    m->partition = p->number;
    m->first = k->first;
    m->count = k->count;
    m->expire_at = k->expire_at;
    memcpy(m->digest, k->digest, sizeof m->digest);
    settle_stored(q, m);
    struct list *at = m->age.prev;
    list_remove(&m->age);
    /* Rows come in no order of age; most are younger than those there, so the search begins at
     * the end. */
    while (at != &q->idems_by_age &&
           CONTAINER_OF(at, struct idem, age)->expire_at.ns > m->expire_at.ns)
        at = at->prev;
    list_put_before(at->next, &m->age);
}

/* For the timer: when the next key is past its window. */
store_time idem_next(const struct queue *q)
{
    struct list *n = list_first(&q->idems_by_age);
    return n == NULL ? STORE_TIME_NEVER : CONTAINER_OF(n, struct idem, age)->expire_at;
}

static void free_one(void *ctx, struct hash_node *n)
{
    (void)ctx;
    free(CONTAINER_OF(n, struct idem, node));
}

/* The table itself is the caller's to end. */
void idem_free_all(struct queue *q)
{
    hash_each(&q->idems, free_one, NULL);
    list_init(&q->idems_by_age);
}

/* For place_round: keys of partitions that were not read yet might be this one. */
bool idem_ready(struct queue *q, struct queue_produce *r)
{
    if (q->unseen > 0)
        return false;
    err why = idem_join(q, r);
    if (why != ERR_OK && why != ERR_AGAIN)
        req_answer(q, &own_produce(r)->req, why);
    return why == ERR_AGAIN;
}

/* A stored key is ended before its window is over: its row is deleted with those that are old. */
void idem_end(struct queue *q, const unsigned char hash[16])
{
    struct idem *m = idem_find(q, hash);
    if (m == NULL || !m->stored)
        return;
    list_remove(&m->age);
    list_append(&q->parts[m->partition]->old_idems, &m->age);
    queue_work(q->parts[m->partition]);
}
