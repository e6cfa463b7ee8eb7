/* storage/items.list, scheduled.list, items.import, items.delete; queue.peek, over all partitions.
 * All on the pool. */
#include "app/queue/queue_call.h"
#include "app/queue/queue_routes.h"
#include "codec/base64.h"
#include "codec/json_text.h"
#include "queue/admin.h"

#include <string.h>

enum {
    IMPORT_MEMORY_FACTOR = 8, /* of a body: its message and its items */
    IMPORT_BATCH_BYTES = 4 << 20,
    /* of an item in a batch, beside its fields: what queue_items_import makes of one */
    IMPORT_BATCH_ITEM_BYTES = 512,
    /* of an item in the JSON of an answer, beside its fields: names, id, times, numbers */
    IMPORT_JSON_ITEM_BYTES = 384,
    IMPORT_NOTE_BYTES = 180,
    IMPORT_ANSWER_BYTES = 4096, /* of an answer, beside its items: its head, what is rounded up */
};

/* ---- an item as a message, and back ---- */

static ProtobufCBinaryData id_text(struct arena *a, struct ksuid id)
{
    char *text = arena_alloc(a, KSUID_TEXT_BYTES + 1);
    if (text == NULL)
        return wire_bytes(STR_NONE);
    ksuid_format(id, text);
    return wire_bytes((str){ .p = text, .n = KSUID_TEXT_BYTES });
}

static bool item_message(struct arena *a, const struct queue_item *q, Wire__StorageItem *out)
{
    wire__storage_item__init(out);
    out->id = id_text(a, q->id);
    out->source_id = wire_bytes(q->source_id);
    out->is_leased = q->lease_deadline.ns != 0;
    out->lease_deadline = wire_time(a, q->lease_deadline);
    out->expire_deadline = wire_time(a, q->expire_at);
    out->created_at = wire_time(a, q->created_at);
    out->attempts = (int32_t)q->attempts;
    out->max_attempts = (int32_t)q->max_attempts;
    out->reference = wire_bytes(q->reference);
    out->encoding = wire_bytes(q->encoding);
    out->kind = wire_bytes(q->kind);
    out->payload = wire_bytes(q->bytes);
    return out->id.len > 0 && out->lease_deadline != NULL && out->expire_deadline != NULL &&
           out->created_at != NULL;
}

static err items_messages(struct arena *a, const struct queue_item *found, unsigned count,
                          Wire__StorageItem ***out)
{
    Wire__StorageItem *items = arena_calloc(a, count, sizeof *items);
    *out = arena_calloc(a, count, sizeof(Wire__StorageItem *));
    if (items == NULL || *out == NULL)
        return ERR_LIMIT;
    for (unsigned i = 0; i < count; i++) {
        (*out)[i] = &items[i];
        if (!item_message(a, &found[i], &items[i]))
            return ERR_LIMIT;
    }
    return ERR_OK;
}

/* ---- list ---- */

struct items_call {
    struct queue_call call;
    struct queue_items_page page;
};

static err list_run(struct queue_call *call)
{
    struct items_call *c = CONTAINER_OF(call, struct items_call, call);
    if (call->told)
        return call->later.why;
    c->page.later = &call->later;
    return queue_items_list(call->queue, &c->page, http_arena(call->x), &call->note);
}

static void list_answer(struct queue_call *call)
{
    struct items_call *c = CONTAINER_OF(call, struct items_call, call);
    Wire__StorageItemsListResponse reply = WIRE__STORAGE_ITEMS_LIST_RESPONSE__INIT;
    reply.n_items = c->page.count;
    if (items_messages(http_arena(call->x), c->page.found, c->page.count, &reply.items) == ERR_OK)
        queue_call_reply(call, &reply.base);
    else
        queue_call_end(call, ERR_LIMIT, NULL);
}

static void items_list(struct http_exchange *x, void *app, bool scheduled)
{
    struct items_call *c = queue_call_new(x, app, sizeof *c);
    const Wire__StorageItemsListRequest *m =
        c == NULL ? NULL : rpc_read(x, &wire__storage_items_list_request__descriptor);
    if (m == NULL || !queue_call_find(&c->call, m->queue_name, "queue.stats") ||
        !queue_call_partition(&c->call, m->partition) ||
        !queue_call_limit(&c->call, m->limit, &c->page.limit))
        return;
    c->page.partition = (uint32_t)m->partition;
    c->page.scheduled = scheduled;
    c->page.pivot = str_trim(wire_str(m->pivot)); /* a blank one is none */
    queue_call_part_job(&c->call, c->page.partition, list_run, list_answer);
}

void app_storage_items(struct http_exchange *x, void *app)
{
    items_list(x, app, false);
}

void app_storage_scheduled(struct http_exchange *x, void *app)
{
    items_list(x, app, true);
}

/* ---- peek: of all partitions ---- */

void app_queue_peek(struct http_exchange *x, void *app)
{
    struct items_call *c = queue_call_new(x, app, sizeof *c);
    const Wire__QueuePeekRequest *m =
        c == NULL ? NULL : rpc_read(x, &wire__queue_peek_request__descriptor);
    if (m != NULL && queue_call_find(&c->call, m->queue_name, "queue.stats") &&
        queue_call_limit(&c->call, m->limit == 0 ? 1 : m->limit, &c->page.limit)) {
        c->page.partition = QUEUE_PARTS_ALL;
        c->page.pivot = str_trim(wire_str(m->pivot));
        queue_call_part_job(&c->call, QUEUE_PARTS_ALL, list_run, list_answer);
    }
}

/* ---- import ----
 *
 * All that can be refused is refused before the first write: too many items, an item that is too
 * large, no memory for the answer. So nothing is stored when the answer is an error, but for a
 * write of several that fails; its error says how many items the writes before it stored. */

struct import_call {
    struct queue_call call;
    const Wire__StorageItemsImportRequest *wanted;
    uint32_t partition;
    unsigned count, done;
    struct queue_import batch; /* on its way */
    struct arena_mark before;  /* of what it takes */
    struct queue_item *items, *stored;
    str body; /* of the answer */
};

static size_t import_bytes(const struct queue_item *q)
{
    return q->bytes.n + q->encoding.n + q->kind.n + q->reference.n + q->source_id.n;
}

/* How many of the items from there on go into one batch; one with a source_id, which is stored
 * once, alone. */
static unsigned import_batch(const struct import_call *c, unsigned from)
{
    size_t bytes = 0;
    unsigned n = 0;
    while (from + n < c->count && n < QUEUE_PRODUCE_ITEMS_MAX) {
        const struct queue_item *q = &c->items[from + n];
        if (q->source_id.n > 0)
            return n == 0 ? 1 : n;
        bytes += import_bytes(q);
        if (n > 0 && bytes > IMPORT_BATCH_BYTES)
            break;
        n++;
    }
    return n;
}

/* What is stored stays. */
static void import_note(struct queue_call *call, unsigned stored, unsigned count)
{
    struct err_note why = call->note;
    if (stored > 0)
        err_note_set(&call->note, "the first %u of %u items were stored; then: %.*s", stored, count,
                     IMPORT_NOTE_BYTES, why.text);
}

static err import_encode(struct import_call *c)
{
    Wire__StorageItemsImportResponse reply = WIRE__STORAGE_ITEMS_IMPORT_RESPONSE__INIT;
    err why = items_messages(http_arena(c->call.x), c->stored, c->count, &reply.items);
    if (why != ERR_OK)
        return why;
    reply.n_items = c->count;
    for (unsigned i = 0; i < c->count; i++) /* Querator gives it back, although it means nothing */
        if (!c->wanted->items[i]->is_leased && c->wanted->items[i]->lease_deadline != NULL)
            reply.items[i]->lease_deadline = c->wanted->items[i]->lease_deadline;
    return rpc_encode(c->call.x, &reply.base, &c->body);
}

/* Batch after batch, each in the room of the one before. */
static err import_run(struct queue_call *call)
{
    struct import_call *c = CONTAINER_OF(call, struct import_call, call);
    struct arena *a = http_arena(call->x);
    err why = call->told ? call->later.why : ERR_OK;
    while (why == ERR_OK) {
        if (c->batch.count > 0) { /* it is stored */
            memcpy(c->stored + c->done, c->batch.stored, c->batch.count * sizeof *c->batch.stored);
            c->done += c->batch.count;
            arena_release(a, c->before);
        }
        if (c->done == c->count) {
            why = import_encode(c);
            break;
        }
        c->before = arena_mark(a);
        c->batch = (struct queue_import){ .partition = c->partition,
                                          .items = c->items + c->done,
                                          .count = import_batch(c, c->done),
                                          .later = &call->later };
        why = queue_items_import(call->queue, &c->batch, a, &call->note);
    }
    if (why != ERR_OK && why != ERR_AGAIN)
        import_note(call, c->done, c->count);
    return why;
}

static void import_answer(struct queue_call *call)
{
    queue_call_send(call, CONTAINER_OF(call, struct import_call, call)->body);
}

/* id, created_at and enqueue_at are the server's. */
static void import_item(const Wire__StorageItem *from, struct queue_item *to)
{
    *to = (struct queue_item){ .encoding = wire_str(from->encoding),
                               .kind = wire_str(from->kind),
                               .reference = wire_str(from->reference),
                               .bytes = wire_str(from->payload),
                               .attempts = (uint32_t)from->attempts,
                               .max_attempts = (uint32_t)from->max_attempts,
                               .lease_deadline = from->is_leased
                                                     ? wire_time_read(from->lease_deadline)
                                                     : STORE_TIME_ZERO,
                               .expire_at = wire_time_read(from->expire_deadline),
                               .source_id = wire_str(from->source_id) };
}

/* False: answered. */
static bool import_check(struct queue_call *c, const Wire__StorageItem *item)
{
    const char *wrong = NULL;
    if (item->attempts < 0)
        wrong = "attempts is invalid; cannot be negative number";
    else if (item->max_attempts < 0)
        wrong = "max attempts is invalid; cannot be negative number";
    if (wrong != NULL)
        queue_call_refuse(c, "%s", wrong);
    else if (item->attempts > QUEUE_ITEM_ATTEMPTS_MAX)
        queue_call_refuse(c, "attempts is invalid; cannot be greater than %d",
                          QUEUE_ITEM_ATTEMPTS_MAX);
    return wrong == NULL && item->attempts <= QUEUE_ITEM_ATTEMPTS_MAX;
}

/* False: answered. */
static bool import_items(struct import_call *c)
{
    size_t count = c->wanted->n_items;
    if (count == 0 || count > QUEUE_IMPORT_ITEMS_MAX) {
        queue_call_refuse(&c->call,
                          count == 0 ? "items is invalid; cannot be empty"
                                     : "items is invalid; max_import_batch_size is %d but received "
                                       "%zu",
                          QUEUE_IMPORT_ITEMS_MAX, count);
        return false;
    }
    c->items = queue_call_memory(&c->call, count, sizeof *c->items);
    c->stored = c->items == NULL ? NULL : queue_call_memory(&c->call, count, sizeof *c->stored);
    for (size_t i = 0; c->stored != NULL && i < count; i++) {
        if (!import_check(&c->call, c->wanted->items[i]))
            return false;
        import_item(c->wanted->items[i], &c->items[i]);
        if (queue_import_fits(&c->items[i]))
            continue;
        queue_call_refuse(&c->call,
                          "items is invalid; a field or all of them together are too large");
        return false;
    }
    c->count = (unsigned)count;
    return c->stored != NULL;
}

static size_t rounded(size_t n)
{
    return (n + 15) & ~(size_t)15;
}

/* The room of the largest batch and of the answer, before a byte is written. False: answered. */
static bool import_reserve(struct import_call *c)
{
    enum { TIMES = 3 };
    const size_t message = sizeof(Wire__StorageItem) + sizeof(Wire__StorageItem *) +
                           TIMES * rounded(sizeof(Wire__Timestamp)) +
                           rounded(KSUID_TEXT_BYTES + 1) + IMPORT_JSON_ITEM_BYTES;
    size_t answer = IMPORT_ANSWER_BYTES + c->count * message, batch = 0;
    for (unsigned i = 0; i < c->count; i++) {
        const struct queue_item *q = &c->items[i];
        answer += json_text_size(q->encoding) + json_text_size(q->kind) +
                  json_text_size(q->reference) + json_text_size(q->source_id) +
                  base64_size(q->bytes.n);
    }
    for (unsigned done = 0, n; done < c->count; done += n) {
        size_t bytes = 0;
        n = import_batch(c, done);
        for (unsigned i = done; i < done + n; i++)
            bytes += import_bytes(&c->items[i]) + IMPORT_BATCH_ITEM_BYTES;
        batch = bytes > batch ? bytes : batch;
    }
    size_t room = answer > batch + IMPORT_ANSWER_BYTES ? answer : batch + IMPORT_ANSWER_BYTES;
    arena_raise(http_arena(c->call.x), room);
    if (arena_reserve(http_arena(c->call.x), room))
        return true;
    queue_call_end(&c->call, ERR_LIMIT, NULL);
    return false;
}

void app_storage_import(struct http_exchange *x, void *app)
{
    struct import_call *c = queue_call_new(x, app, sizeof *c);
    arena_raise(http_arena(x), http_body(x).n * IMPORT_MEMORY_FACTOR);
    const Wire__StorageItemsImportRequest *m =
        c == NULL ? NULL : rpc_read(x, &wire__storage_items_import_request__descriptor);
    if (m == NULL || !queue_call_find(&c->call, m->queue_name, "queue.produce") ||
        !queue_call_partition(&c->call, m->partition))
        return;
    c->wanted = m;
    c->partition = (uint32_t)m->partition;
    c->call.audited = true;
    if (import_items(c) && import_reserve(c))
        queue_call_part_job(&c->call, c->partition, import_run, import_answer);
}

/* ---- delete ---- */

struct delete_call {
    struct queue_call call;
    uint32_t partition;
    unsigned count, begun;
    str *ids;
};

static err delete_run(struct queue_call *call)
{
    struct delete_call *c = CONTAINER_OF(call, struct delete_call, call);
    unsigned left = c->count - c->begun;
    const struct queue_deletion d = { .partition = c->partition,
                                      .ids = c->ids + c->begun,
                                      .count = left < QUEUE_COMPLETE_IDS_MAX
                                                   ? left
                                                   : QUEUE_COMPLETE_IDS_MAX,
                                      .later = &call->later };
    if (left == 0 || (call->told && call->later.why != ERR_OK))
        return call->later.why;
    c->begun += d.count;
    return queue_items_delete(call->queue, &d, &call->note); /* never ERR_OK: that comes later */
}

static void delete_answer(struct queue_call *call)
{
    queue_call_end(call, ERR_OK, NULL);
}

/* All of them before one is deleted. False: answered. */
static bool delete_ids(struct delete_call *c, const Wire__StorageItemsDeleteRequest *m)
{
    struct ksuid id;
    c->ids = queue_call_memory(&c->call, m->n_ids, sizeof *c->ids);
    for (size_t i = 0; c->ids != NULL && i < m->n_ids; i++) {
        c->ids[i] = wire_str(m->ids[i]);
        if (ksuid_parse(c->ids[i], &id))
            continue;
        queue_call_refuse(&c->call, "invalid storage id; '%.*s': %s", STR_ARG(c->ids[i]),
                          ksuid_refusal(c->ids[i]));
        return false;
    }
    c->count = (unsigned)m->n_ids;
    return c->ids != NULL;
}

void app_storage_delete(struct http_exchange *x, void *app)
{
    struct delete_call *c = queue_call_new(x, app, sizeof *c);
    const Wire__StorageItemsDeleteRequest *m =
        c == NULL ? NULL : rpc_read(x, &wire__storage_items_delete_request__descriptor);
    if (m == NULL || !queue_call_find(&c->call, m->queue_name, "queue.clear") ||
        !queue_call_partition(&c->call, m->partition))
        return;
    if (m->n_ids == 0) {
        queue_call_refuse(&c->call, "ids is invalid; cannot be empty");
        return;
    }
    c->call.audited = true;
    c->partition = (uint32_t)m->partition;
    if (delete_ids(c, m))
        queue_call_part_job(&c->call, c->partition, delete_run, delete_answer);
}
