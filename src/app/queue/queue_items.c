/* queue_items.c - queue.produce, queue.lease, queue.complete, queue.retry; and lease.take,
 * .complete, .retry, .extend, which carry tokens and are otherwise the same. Checks in the order
 * that Querator's tests pin. */
#include "app/queue/queue_routes.h"
#include "base/utf8.h"
#include "codec/goduration.h"
#include "http/slow.h"

enum { REPLY_INLINE_BYTES_MAX = 64 << 10, TOKEN_BYTES_MAX = 20, HEADER_KEY_BYTES_MAX = 256 };
#define MINUTE_NS (60 * NS_PER_S)
#define TIMEOUT_MAX_NS (15 * MINUTE_NS)
#define TIMEOUT_MIN_NS (10 * NS_PER_MS)
#define RETRY_TIMEOUT_NS (5 * MINUTE_NS)

/* ---- timeouts ---- */

static bool check_timeout_given(struct queue_call *c)
{
    return c->timeout_ns != 0 ||
           queue_call_refuse(
               c, "request timeout is required; '5m' is recommended, 15m is the maximum");
}

/* fits: else it is beyond this edge. */
static bool check_timeout(struct queue_call *c, bool fits, const char *edge)
{
    char text[GODURATION_BYTES_MAX + 1];
    if (fits)
        return true;
    goduration_format(c->timeout_ns, text);
    return queue_call_refuse(c, "request timeout is invalid; %s but '%s' was requested", edge,
                             text);
}

static bool check_timeout_most(struct queue_call *c, int64_t most)
{
    return check_timeout(c, c->timeout_ns <= most, "maximum timeout is '15m'");
}

static bool check_timeout_least(struct queue_call *c)
{
    return check_timeout(c, c->timeout_ns > TIMEOUT_MIN_NS, "minimum timeout is '10ms'");
}

/* ---- what all of them do ---- */

/* The queue of a call that another thread may be ending right now: a reference of its own to it, or
 * NULL when it is not the one that has this name (deleted: then its requests were answered). */
static struct queue *queue_held(const struct queue_call *c, const struct queue *of_request)
{
    struct queue *q = NULL;
    if (queues_find(c->app->queues, c->name, &q, NULL) == ERR_OK && q != of_request)
        queue_unref(&q);
    return q;
}

/* Ends it unless it was begun. */
static void started(struct queue_call *c, err why, const struct err_note *note)
{
    if (why != ERR_OK)
        queue_call_end(c, why, note);
}

/* ---- produce ---- */

static void produce_done(struct queue_produce *p, err why)
{
    queue_call_end(CONTAINER_OF(p, struct queue_call, u.produce), why, &p->note);
}

static void produce_gone(struct http_exchange *x, void *ctx)
{
    struct queue_call *c = ctx;
    struct queue *q = queue_held(c, c->u.produce.queue);
    (void)x; /* it is c's */
    if (q != NULL)
        queue_produce_cancel(&c->u.produce);
    queue_unref(&q);
}

/* A key in a header: one, at most so long, UTF-8. */
static bool check_header_key(struct queue_call *c, const char *name, str *out)
{
    if (!http_header(c->x, name, out))
        return true;
    if (http_header_count(c->x, name) > 1)
        return queue_call_refuse(c, "%s is invalid; one is wanted, not several", name);
    return (out->n > 0 && out->n <= HEADER_KEY_BYTES_MAX && utf8_valid(*out)) ||
           queue_call_refuse(c, "%s is invalid; 1 to %d bytes of UTF-8 are wanted", name,
                             HEADER_KEY_BYTES_MAX);
}

bool app_produce_check(struct queue_call *c)
{
    const Wire__QueueProduceRequest *m = c->m;
    struct queue_produce *p = &c->u.produce;
    if (!check_timeout_given(c) || !check_timeout_most(c, TIMEOUT_MAX_NS - 1) ||
        !check_timeout_least(c))
        return false;
    if (m->n_items == 0)
        return queue_call_refuse(c, "items cannot be empty; at least one item is required");
    if (m->n_items > QUEUE_PRODUCE_ITEMS_MAX)
        return queue_call_refuse(c,
                                 "items is invalid; max_produce_batch_size is %d but received %zu",
                                 QUEUE_PRODUCE_ITEMS_MAX, m->n_items);
    if (!check_header_key(c, "idempotency-key", &p->idempotency_key) ||
        !check_header_key(c, "order-key", &p->order_key))
        return false;
    struct queue_item_new *items = queue_call_memory(c, m->n_items, sizeof *items);
    for (size_t i = 0; items != NULL && i < m->n_items; i++) {
        const Wire__QueueProduceItem *from = m->items[i];
        items[i] = (struct queue_item_new){
            .encoding = wire_str(from->encoding),
            .kind = wire_str(from->kind),
            .reference = wire_str(from->reference),
            .bytes = wire_str(from->bytes.len > 0 ? from->bytes : from->utf8),
            .enqueue_at = wire_time_read(from->enqueue_at),
        };
    }
    p->items = items;
    p->items_count = (unsigned)m->n_items;
    return items != NULL;
}

void app_produce_start(struct queue_call *c)
{
    struct queue_produce *p = &c->u.produce;
    p->queue = c->queue;
    p->deadline = queue_call_deadline(c);
    p->arena = http_arena(c->x);
    p->done = produce_done;
    http_defer(c->x);
    p->home = http_home(c->x);
    http_on_gone(c->x, produce_gone, c);
    started(c, queue_produce_start(p), &p->note);
}

/* ---- lease ---- */

static bool lease_item(struct arena *a, const struct queue_item *from, bool with_token,
                       Wire__LeaseItem *to)
{
    to->id = wire_id(a, from->id);
    to->lease_deadline = wire_time(a, from->lease_deadline);
    to->encoding = wire_bytes(from->encoding);
    to->kind = wire_bytes(from->kind);
    to->reference = wire_bytes(from->reference);
    to->attempts = (int32_t)from->attempts;
    to->bytes = wire_bytes(from->bytes);
    if (with_token) {
        to->token = wire_number(a, from->token);
        to->created_at = wire_time(a, from->created_at);
    }
    return to->id.data != NULL && to->lease_deadline != NULL &&
           (!with_token || (to->token.data != NULL && to->created_at != NULL));
}

/* A LeaseTakeResponse without tokens and births is a QueueLeaseResponse, byte for byte. When it
 * needs more memory than the request has, it is made of fewer items. */
static err lease_write(struct queue_call *c, unsigned *count)
{
    const struct queue_lease_request *r = &c->u.lease;
    struct arena *a = http_arena(c->x);
    Wire__LeaseTakeResponse reply = WIRE__LEASE_TAKE_RESPONSE__INIT;
    Wire__LeaseItem *items = wire_list(a, &reply.base, "items", *count);
    for (unsigned i = 0; items != NULL && i < *count; i++)
        if (!lease_item(a, &r->items[i], r->wants_token, &items[i]))
            return ERR_LIMIT;
    reply.queue_name = wire_bytes(c->name);
    reply.partition = (int32_t)r->partition;
    err why = ERR_LIMIT;
    for (; items != NULL; *count /= 2) {
        reply.n_items = *count;
        why = rpc_encode(c->x, &reply.base, &c->body);
        if (why != ERR_LIMIT || *count == 1)
            break;
    }
    return why;
}

/* The items were leased before: those that the answer does not tell go back. */
static err lease_encode(struct queue_call *c)
{
    unsigned told = c->u.lease.items_count;
    err why = lease_write(c, &told);
    c->reply = REPLY_BODY;
    if (why != ERR_OK && !arena_is_starved(http_arena(c->x)))
        err_note_set(&c->note, "the answer needs more memory than a request may have "
                               "(http.arena_bytes_max); no items were leased");
    queue_lease_give_back(&c->u.lease, why == ERR_OK ? told : 0);
    return why;
}

static err lease_run(struct queue_turn *t)
{
    return lease_encode(CONTAINER_OF(t, struct queue_call, turn));
}

static bool is_large(const struct queue_lease_request *r)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < r->items_count && bytes <= REPLY_INLINE_BYTES_MAX; i++)
        bytes += r->items[i].bytes.n;
    return bytes > REPLY_INLINE_BYTES_MAX;
}

static void lease_done(struct queue_lease_request *r, err why)
{
    struct queue_call *c = CONTAINER_OF(r, struct queue_call, u.lease);
    if (why != ERR_OK)
        queue_call_end(c, why, &r->note);
    else if (is_large(r)) /* who calls this has more to do than to write base64 */
        queue_call_go(c, SHARE_NONE, lease_run, NULL);
    else
        queue_call_end(c, lease_encode(c), &c->note);
}

static void lease_gone(struct http_exchange *x, void *ctx)
{
    struct queue_call *c = ctx;
    struct queue *q = queue_held(c, c->u.lease.queue);
    (void)x; /* it is c's */
    if (q != NULL)
        queue_lease_cancel(&c->u.lease);
    queue_unref(&q);
}

/* A lease_timeout of our own routes: absent is 0, the queue's. */
static bool check_lease_timeout(struct queue_call *c, int64_t *ns)
{
    const ProtobufCBinaryData *text = wire_field(c->m, "lease_timeout");
    return queue_call_duration(c, "lease timeout", "8m, 15m or 1h", *text, ns) &&
           ((*ns >= 0 && *ns <= c->info.expire_timeout_ns) ||
            queue_call_refuse(c, "lease timeout is invalid; it cannot be negative nor greater than "
                                 "the expire timeout"));
}

bool app_lease_check(struct queue_call *c)
{
    struct queue_lease_request *r = &c->u.lease;
    const ProtobufCBinaryData *client_id = wire_field(c->m, "client_id");
    const int32_t *batch_size = wire_field(c->m, "batch_size");
    r->wants_token = c->kind->arg == LEASE_BY_TOKEN;
    r->client_id = wire_str(*client_id);
    r->batch_size = (unsigned)*batch_size;
    if (r->wants_token && !check_lease_timeout(c, &r->lease_timeout_ns))
        return false;
    if (utf8_is_blank(r->client_id))
        return queue_call_refuse(c, "invalid client id; cannot be empty");
    if (*batch_size <= 0)
        return queue_call_refuse(c, "invalid batch size; must be greater than zero");
    if (*batch_size > QUEUE_LEASE_ITEMS_MAX)
        return queue_call_refuse(
            c, "invalid batch size; max_lease_batch_size is %d, but %d was requested",
            QUEUE_LEASE_ITEMS_MAX, (int)*batch_size);
    return check_timeout_given(c) && check_timeout_most(c, TIMEOUT_MAX_NS) &&
           check_timeout_least(c);
}

void app_lease_start(struct queue_call *c)
{
    struct queue_lease_request *r = &c->u.lease;
    r->queue = c->queue;
    r->deadline = queue_call_deadline(c);
    r->arena = http_arena(c->x);
    r->done = lease_done;
    http_patient(c->x); /* it waits for items */
    http_defer(c->x);
    r->home = http_home(c->x);
    http_on_gone(c->x, lease_gone, c);
    started(c, queue_lease_start(r), &r->note);
}

/* ---- complete, retry, extend ---- */

/* name: "ids". Room for so many items of the change. */
static struct queue_change_item *change_items(struct queue_call *c, const char *name, size_t count,
                                              size_t most)
{
    struct queue_change_item *items = NULL;
    if (count == 0)
        queue_call_refuse(c, "%s is invalid; list of %s cannot be empty", name, name);
    else if (count > most)
        queue_call_refuse(c, "%s is invalid; max_complete_batch_size is %zu but received %zu", name,
                          most, count);
    else
        items = queue_call_memory(c, count, sizeof *items);
    c->u.change.items = items;
    c->u.change.items_count = (unsigned)count;
    return items;
}

bool app_complete_check(struct queue_call *c)
{
    const Wire__QueueCompleteRequest *m = c->m;
    struct queue_change_item *items = change_items(c, "ids", m->n_ids, QUEUE_COMPLETE_IDS_MAX);
    for (size_t i = 0; items != NULL && i < m->n_ids; i++)
        items[i].id = wire_str(m->ids[i]);
    return items != NULL && check_timeout_most(c, TIMEOUT_MAX_NS) && check_timeout_given(c);
}

bool app_retry_check(struct queue_call *c)
{
    const Wire__QueueRetryRequest *m = c->m;
    struct queue_change_item *items = change_items(c, "items", m->n_items, QUEUE_RETRY_ITEMS_MAX);
    for (size_t i = 0; items != NULL && i < m->n_items; i++)
        items[i] = (struct queue_change_item){ .id = wire_str(m->items[i]->id),
                                               .retry_at = wire_time_read(m->items[i]->retry_at),
                                               .dead = m->items[i]->dead };
    c->timeout_ns = RETRY_TIMEOUT_NS;
    return items != NULL;
}

/* Tokens are of our own routes, where every item has one. */
bool app_token_check(struct queue_call *c)
{
    const Wire__LeaseChangeRequest *m = c->m;
    int64_t extend_ns;
    if (!check_lease_timeout(c, &extend_ns))
        return false;
    struct queue_change_item *items = change_items(c, "items", m->n_items, QUEUE_COMPLETE_IDS_MAX);
    if (items == NULL || !check_timeout_most(c, TIMEOUT_MAX_NS) || !check_timeout_given(c))
        return false;
    for (size_t i = 0; i < m->n_items; i++) {
        str token = wire_str(m->items[i]->token);
        items[i] = (struct queue_change_item){
            .id = wire_str(m->items[i]->id),
            .retry_at = wire_time_read(m->items[i]->retry_at),
            .dead = m->items[i]->dead,
            .extend_ns = extend_ns == 0 ? c->info.lease_timeout_ns : extend_ns,
        };
        if (!str_to_u64(token, &items[i].token) || items[i].token == 0)
            return queue_call_refuse(c, "invalid token; '%.*s'",
                                     STR_ARG(str_take(token, TOKEN_BYTES_MAX)));
    }
    return true;
}

static void change_done(struct queue_change *ch, err why)
{
    queue_call_end(CONTAINER_OF(ch, struct queue_call, u.change), why, &ch->note);
}

void app_change_start(struct queue_call *c)
{
    struct queue_change *ch = &c->u.change;
    ch->queue = c->queue;
    ch->kind = (enum queue_change_kind)c->kind->arg;
    ch->partition = c->partition;
    ch->deadline = queue_call_deadline(c);
    ch->arena = http_arena(c->x);
    ch->done = change_done;
    http_defer(c->x);
    ch->home = http_home(c->x);
    started(c, queue_change_start(ch), &ch->note);
}
