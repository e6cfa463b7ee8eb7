/* queue.produce, queue.lease, queue.complete, queue.retry; and lease.take, .complete, .retry,
 * .extend, which carry tokens and are otherwise the same. Checks in the order that Querator's tests
 * pin. */
#include "app/queue/queue_call.h"
#include "app/queue/queue_routes.h"
#include "base/utf8.h"
#include "codec/goduration.h"

enum { REPLY_INLINE_BYTES_MAX = 64 << 10, TOKEN_BYTES_MAX = 20, HEADER_KEY_BYTES_MAX = 256 };
#define MINUTE_NS (60 * NS_PER_S)
#define TIMEOUT_MAX_NS (15 * MINUTE_NS)
#define TIMEOUT_MIN_NS (10 * NS_PER_MS)
#define RETRY_TIMEOUT_NS (5 * MINUTE_NS)

/* ---- timeouts ---- */

static bool refuse_timeout(struct queue_call *c, const char *edge, int64_t ns)
{
    char text[GODURATION_BYTES_MAX + 1];
    goduration_format(ns, text);
    queue_call_refuse(c, "request timeout is invalid; %s but '%s' was requested", edge, text);
    return false;
}

static bool require_timeout(struct queue_call *c, int64_t ns)
{
    if (ns != 0)
        return true;
    queue_call_refuse(c, "request timeout is required; '5m' is recommended, 15m is the maximum");
    return false;
}

static bool check_timeout_most(struct queue_call *c, int64_t ns, int64_t most)
{
    return ns <= most ? true : refuse_timeout(c, "maximum timeout is '15m'", ns);
}

static bool check_timeout_least(struct queue_call *c, int64_t ns, int64_t least)
{
    return ns >= least ? true : refuse_timeout(c, "minimum timeout is '10ms'", ns);
}

/* ---- clients that leave ---- */

/* The queue of a call that another thread may be ending right now: a reference of its own to it, or
 * NULL when it is not the one that has this name (deleted: then its requests were answered). */
static struct queue *queue_held(const struct queue_call *c, const struct queue *of_request)
{
    struct queue *q = NULL;
    if (queues_find(c->app->queues, c->name, &q, NULL) != ERR_OK)
        return NULL;
    if (q != of_request)
        queue_unref(&q);
    return q;
}

/* ---- produce ---- */

struct produce_call {
    struct queue_call call;
    struct queue_produce produce;
};

static void produce_done(struct queue_produce *p, err why)
{
    struct produce_call *c = CONTAINER_OF(p, struct produce_call, produce);
    queue_call_end(&c->call, why, &p->note);
}

static void produce_gone(struct http_exchange *x, void *ctx)
{
    (void)x;
    struct produce_call *c = ctx;
    struct queue *q = queue_held(&c->call, c->produce.queue);
    if (q == NULL)
        return;
    queue_produce_cancel(&c->produce);
    queue_unref(&q);
}

static void produce_item(const Wire__QueueProduceItem *from, struct queue_item_new *to)
{
    *to =
        (struct queue_item_new){ .encoding = wire_str(from->encoding),
                                 .kind = wire_str(from->kind),
                                 .reference = wire_str(from->reference),
                                 .bytes = wire_str(from->bytes.len > 0 ? from->bytes : from->utf8),
                                 .enqueue_at = wire_time_read(from->enqueue_at) };
}

/* A key in a header: one, at most so long, UTF-8. False: answered. */
static bool header_key(struct queue_call *c, const char *name, str *out)
{
    if (!http_header(c->x, name, out))
        return true;
    if (http_header_count(c->x, name) > 1) {
        queue_call_refuse(c, "%s is invalid; one is wanted, not several", name);
        return false;
    }
    if (out->n > 0 && out->n <= HEADER_KEY_BYTES_MAX && utf8_valid(*out))
        return true;
    queue_call_refuse(c, "%s is invalid; 1 to %d bytes of UTF-8 are wanted", name,
                      HEADER_KEY_BYTES_MAX);
    return false;
}

static bool produce_check(struct queue_call *c, const Wire__QueueProduceRequest *m,
                          int64_t timeout_ns)
{
    if (!require_timeout(c, timeout_ns) || !check_timeout_most(c, timeout_ns, TIMEOUT_MAX_NS - 1) ||
        !check_timeout_least(c, timeout_ns, TIMEOUT_MIN_NS + 1))
        return false;
    if (m->n_items > 0 && m->n_items <= QUEUE_PRODUCE_ITEMS_MAX)
        return true;
    if (m->n_items == 0)
        queue_call_refuse(c, "items cannot be empty; at least one item is required");
    else
        queue_call_refuse(c, "items is invalid; max_produce_batch_size is %d but received %zu",
                          QUEUE_PRODUCE_ITEMS_MAX, m->n_items);
    return false;
}

void app_queue_produce(struct http_exchange *x, void *app)
{
    struct produce_call *c = queue_call_new(x, app, sizeof *c);
    const Wire__QueueProduceRequest *m =
        c == NULL ? NULL : rpc_read(x, &wire__queue_produce_request__descriptor);
    int64_t timeout_ns;
    if (m == NULL || !queue_call_find(&c->call, m->queue_name, "queue.produce") ||
        !queue_call_timeout(&c->call, m->request_timeout, &timeout_ns) ||
        !produce_check(&c->call, m, timeout_ns))
        return;
    struct queue_produce *p = &c->produce;
    if (!header_key(&c->call, "idempotency-key", &p->idempotency_key) ||
        !header_key(&c->call, "order-key", &p->order_key))
        return;
    struct queue_item_new *items = queue_call_memory(&c->call, m->n_items, sizeof *items);
    if (items == NULL)
        return;
    for (size_t i = 0; i < m->n_items; i++)
        produce_item(m->items[i], &items[i]);
    p->queue = c->call.queue;
    p->items = items;
    p->items_count = (unsigned)m->n_items;
    p->deadline = queue_call_deadline(&c->call, timeout_ns);
    p->arena = http_arena(x);
    p->done = produce_done;
    http_defer(x);
    p->home = http_home(x);
    http_on_gone_late(x, produce_gone, c);
    err why = queue_produce_start(p);
    if (why != ERR_OK)
        queue_call_end(&c->call, why, &p->note);
}

/* ---- lease ---- */

struct lease_call {
    struct queue_call call;
    struct queue_lease_request lease;
    str body; /* of the answer, when the pool wrote it */
};

static err lease_item(struct arena *a, const struct queue_item *from, bool with_token,
                      Wire__LeaseItem *to)
{
    wire__lease_item__init(to);
    char *id = arena_alloc(a, KSUID_TEXT_BYTES + 1);
    to->lease_deadline = wire_time(a, from->lease_deadline);
    if (id == NULL || to->lease_deadline == NULL)
        return ERR_LIMIT;
    ksuid_format(from->id, id);
    to->id = wire_bytes((str){ .p = id, .n = KSUID_TEXT_BYTES });
    to->encoding = wire_bytes(from->encoding);
    to->kind = wire_bytes(from->kind);
    to->reference = wire_bytes(from->reference);
    to->attempts = (int32_t)from->attempts;
    to->bytes = wire_bytes(from->bytes);
    if (!with_token)
        return ERR_OK;
    str token = arena_printf(a, "%llu", (unsigned long long)from->token);
    to->token = wire_bytes(token);
    to->created_at = wire_time(a, from->created_at);
    return token.p == NULL || to->created_at == NULL ? ERR_LIMIT : ERR_OK;
}

/* A LeaseTakeResponse without tokens and births is a QueueLeaseResponse, byte for byte. When it
 * needs more memory than the request has, it is made of fewer items. */
static err lease_write(struct lease_call *c, unsigned *count)
{
    struct arena *a = http_arena(c->call.x);
    Wire__LeaseTakeResponse reply = WIRE__LEASE_TAKE_RESPONSE__INIT;
    Wire__LeaseItem *items = arena_calloc(a, *count, sizeof *items);
    reply.items = arena_calloc(a, *count, sizeof(Wire__LeaseItem *));
    if (items == NULL || reply.items == NULL)
        return ERR_LIMIT;
    for (unsigned i = 0; i < *count; i++) {
        err why = lease_item(a, &c->lease.items[i], c->lease.wants_token, &items[i]);
        if (why != ERR_OK)
            return why;
        reply.items[i] = &items[i];
    }
    reply.queue_name = wire_bytes(c->call.name);
    reply.partition = (int32_t)c->lease.partition;
    for (;; *count /= 2) {
        reply.n_items = *count;
        err why = rpc_encode(c->call.x, &reply.base, &c->body);
        if (why != ERR_LIMIT || *count == 1)
            return why;
    }
}

/* The items were leased before: those that the answer does not tell go back. */
static err lease_encode(struct lease_call *c)
{
    unsigned told = c->lease.items_count;
    err why = lease_write(c, &told);
    if (why != ERR_OK && !arena_is_starved(http_arena(c->call.x)))
        err_note_set(&c->call.note, "the answer needs more memory than a request may have "
                                    "(http.arena_bytes_max); no items were leased");
    queue_lease_give_back(&c->lease, why == ERR_OK ? told : 0);
    return why;
}

static err lease_run(struct queue_call *call)
{
    return lease_encode(CONTAINER_OF(call, struct lease_call, call));
}

static void lease_answer(struct queue_call *call)
{
    queue_call_send(call, CONTAINER_OF(call, struct lease_call, call)->body);
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
    struct lease_call *c = CONTAINER_OF(r, struct lease_call, lease);
    if (why == ERR_OK && is_large(r)) {
        queue_call_pool(&c->call, lease_run,
                        lease_answer); /* who calls this has more to do than to write base64 */
        return;
    }
    if (why != ERR_OK) {
        queue_call_end(&c->call, why, &r->note);
        return;
    }
    why = lease_encode(c);
    if (why == ERR_OK)
        lease_answer(&c->call);
    else
        queue_call_end(&c->call, why, &c->call.note);
}

static void lease_gone(struct http_exchange *x, void *ctx)
{
    (void)x;
    struct lease_call *c = ctx;
    struct queue *q = queue_held(&c->call, c->lease.queue);
    if (q == NULL)
        return;
    queue_lease_cancel(&c->lease);
    queue_unref(&q);
}

static bool lease_check(struct queue_call *c, str client_id, int32_t batch_size, int64_t timeout_ns)
{
    if (utf8_is_blank(client_id)) {
        queue_call_refuse(c, "invalid client id; cannot be empty");
        return false;
    }
    if (batch_size <= 0) {
        queue_call_refuse(c, "invalid batch size; must be greater than zero");
        return false;
    }
    if (batch_size > QUEUE_LEASE_ITEMS_MAX) {
        queue_call_refuse(c, "invalid batch size; max_lease_batch_size is %d, but %d was requested",
                          QUEUE_LEASE_ITEMS_MAX, (int)batch_size);
        return false;
    }
    return require_timeout(c, timeout_ns) && check_timeout_most(c, timeout_ns, TIMEOUT_MAX_NS) &&
           check_timeout_least(c, timeout_ns, TIMEOUT_MIN_NS + 1);
}

static void lease_start(struct lease_call *c, str client_id, int32_t batch_size, int64_t timeout_ns)
{
    struct queue_lease_request *r = &c->lease;
    if (!lease_check(&c->call, client_id, batch_size, timeout_ns))
        return;
    r->queue = c->call.queue;
    r->batch_size = (unsigned)batch_size;
    r->client_id = client_id;
    r->deadline = queue_call_deadline(&c->call, timeout_ns);
    r->arena = http_arena(c->call.x);
    r->done = lease_done;
    http_defer(c->call.x);
    r->home = http_home(c->call.x);
    http_on_gone(c->call.x, lease_gone, c);
    err why = queue_lease_start(r);
    if (why != ERR_OK)
        queue_call_end(&c->call, why, &r->note);
}

void app_queue_lease(struct http_exchange *x, void *app)
{
    struct lease_call *c = queue_call_new(x, app, sizeof *c);
    const Wire__QueueLeaseRequest *m =
        c == NULL ? NULL : rpc_read(x, &wire__queue_lease_request__descriptor);
    int64_t timeout_ns;
    if (m != NULL && queue_call_find(&c->call, m->queue_name, "queue.lease") &&
        queue_call_timeout(&c->call, m->request_timeout, &timeout_ns))
        lease_start(c, wire_str(m->client_id), m->batch_size, timeout_ns);
}

/* A lease_timeout of our own routes: absent is 0, the queue's. False: answered. */
static bool lease_timeout(struct queue_call *c, ProtobufCBinaryData text, int64_t *ns)
{
    if (!queue_call_duration(c, "lease timeout", "8m, 15m or 1h", text, ns))
        return false;
    if (*ns >= 0 && *ns <= c->info.expire_timeout_ns)
        return true;
    queue_call_refuse(
        c, "lease timeout is invalid; it cannot be negative nor greater than the expire timeout");
    return false;
}

void app_queue_take(struct http_exchange *x, void *app)
{
    struct lease_call *c = queue_call_new(x, app, sizeof *c);
    const Wire__LeaseTakeRequest *m =
        c == NULL ? NULL : rpc_read(x, &wire__lease_take_request__descriptor);
    int64_t timeout_ns;
    if (m == NULL || !queue_call_find(&c->call, m->queue_name, "queue.lease") ||
        !queue_call_timeout(&c->call, m->request_timeout, &timeout_ns) ||
        !lease_timeout(&c->call, m->lease_timeout, &c->lease.lease_timeout_ns))
        return;
    c->lease.wants_token = true;
    lease_start(c, wire_str(m->client_id), m->batch_size, timeout_ns);
}

/* ---- complete, retry, extend ---- */

struct change_call {
    struct queue_call call;
    struct queue_change change;
};

static void change_done(struct queue_change *ch, err why)
{
    struct change_call *c = CONTAINER_OF(ch, struct change_call, change);
    queue_call_end(&c->call, why, &ch->note);
}

static void change_start(struct change_call *c, enum queue_change_kind kind, uint32_t partition,
                         int64_t timeout_ns)
{
    struct queue_change *ch = &c->change;
    ch->queue = c->call.queue;
    ch->kind = kind;
    ch->partition = partition;
    ch->deadline = queue_call_deadline(&c->call, timeout_ns);
    ch->arena = http_arena(c->call.x);
    ch->done = change_done;
    http_defer(c->call.x);
    ch->home = http_home(c->call.x);
    err why = queue_change_start(ch);
    if (why != ERR_OK)
        queue_call_end(&c->call, why, &ch->note);
}

/* False: answered. what: "ids", "list of ids". */
static bool check_count(struct queue_call *c, const char *name, size_t count, size_t most)
{
    if (count > 0 && count <= most)
        return true;
    if (count == 0)
        queue_call_refuse(c, "%s is invalid; list of %s cannot be empty", name, name);
    else
        queue_call_refuse(c, "%s is invalid; max_complete_batch_size is %zu but received %zu", name,
                          most, count);
    return false;
}

static struct queue_change_item *change_items(struct change_call *c, size_t count)
{
    struct queue_change_item *items = queue_call_memory(&c->call, count, sizeof *items);
    c->change.items = items;
    c->change.items_count = (unsigned)count;
    return items;
}

void app_queue_complete(struct http_exchange *x, void *app)
{
    struct change_call *c = queue_call_new(x, app, sizeof *c);
    const Wire__QueueCompleteRequest *m =
        c == NULL ? NULL : rpc_read(x, &wire__queue_complete_request__descriptor);
    int64_t timeout_ns;
    if (m == NULL || !queue_call_find(&c->call, m->queue_name, "queue.complete") ||
        !queue_call_partition(&c->call, m->partition) ||
        !queue_call_timeout(&c->call, m->request_timeout, &timeout_ns) ||
        !check_count(&c->call, "ids", m->n_ids, QUEUE_COMPLETE_IDS_MAX) ||
        !check_timeout_most(&c->call, timeout_ns, TIMEOUT_MAX_NS) ||
        !require_timeout(&c->call, timeout_ns))
        return;
    struct queue_change_item *items = change_items(c, m->n_ids);
    if (items == NULL)
        return;
    for (size_t i = 0; i < m->n_ids; i++)
        items[i].id = wire_str(m->ids[i]);
    change_start(c, CHANGE_COMPLETE, (uint32_t)m->partition, timeout_ns);
}

void app_queue_retry(struct http_exchange *x, void *app)
{
    struct change_call *c = queue_call_new(x, app, sizeof *c);
    const Wire__QueueRetryRequest *m =
        c == NULL ? NULL : rpc_read(x, &wire__queue_retry_request__descriptor);
    if (m == NULL || !queue_call_find(&c->call, m->queue_name, "queue.retry") ||
        !queue_call_partition(&c->call, m->partition) ||
        !check_count(&c->call, "items", m->n_items, QUEUE_RETRY_ITEMS_MAX))
        return;
    struct queue_change_item *items = change_items(c, m->n_items);
    if (items == NULL)
        return;
    for (size_t i = 0; i < m->n_items; i++)
        items[i] = (struct queue_change_item){ .id = wire_str(m->items[i]->id),
                                               .retry_at = wire_time_read(m->items[i]->retry_at),
                                               .dead = m->items[i]->dead };
    change_start(c, CHANGE_RETRY, (uint32_t)m->partition, RETRY_TIMEOUT_NS);
}

/* Tokens are of our own routes, where every item has one. False: answered. */
static bool change_with_tokens(struct change_call *c, const Wire__LeaseChangeRequest *m,
                               int64_t extend_ns)
{
    struct queue_change_item *items = change_items(c, m->n_items);
    if (items == NULL)
        return false;
    for (size_t i = 0; i < m->n_items; i++) {
        str token = wire_str(m->items[i]->token);
        items[i] = (struct queue_change_item){ .id = wire_str(m->items[i]->id),
                                               .retry_at = wire_time_read(m->items[i]->retry_at),
                                               .dead = m->items[i]->dead,
                                               .extend_ns = extend_ns };
        if (str_to_u64(token, &items[i].token) && items[i].token != 0)
            continue;
        queue_call_refuse(&c->call, "invalid token; '%.*s'",
                          STR_ARG(str_take(token, TOKEN_BYTES_MAX)));
        return false;
    }
    return true;
}

static void change_by_token(struct http_exchange *x, void *app, enum queue_change_kind kind,
                            const char *permission)
{
    struct change_call *c = queue_call_new(x, app, sizeof *c);
    const Wire__LeaseChangeRequest *m =
        c == NULL ? NULL : rpc_read(x, &wire__lease_change_request__descriptor);
    int64_t timeout_ns, extend_ns;
    if (m == NULL || !queue_call_find(&c->call, m->queue_name, permission) ||
        !queue_call_partition(&c->call, m->partition) ||
        !queue_call_timeout(&c->call, m->request_timeout, &timeout_ns) ||
        !lease_timeout(&c->call, m->lease_timeout, &extend_ns) ||
        !check_count(&c->call, "items", m->n_items, QUEUE_COMPLETE_IDS_MAX) ||
        !check_timeout_most(&c->call, timeout_ns, TIMEOUT_MAX_NS) ||
        !require_timeout(&c->call, timeout_ns) ||
        !change_with_tokens(c, m, extend_ns == 0 ? c->call.info.lease_timeout_ns : extend_ns))
        return;
    change_start(c, kind, (uint32_t)m->partition, timeout_ns);
}

void app_queue_complete_by_token(struct http_exchange *x, void *app)
{
    change_by_token(x, app, CHANGE_COMPLETE, "queue.complete");
}

void app_queue_retry_by_token(struct http_exchange *x, void *app)
{
    change_by_token(x, app, CHANGE_RETRY, "queue.retry");
}

void app_queue_extend(struct http_exchange *x, void *app)
{
    change_by_token(x, app, CHANGE_EXTEND, "queue.lease");
}
