/* storage/items.list, scheduled.list, items.import, items.delete; queue.peek, over all partitions.
 * All on the pool. */
#include "app/queue/queue_call.h"
#include "app/queue/queue_routes.h"
#include "codec/base64.h"
#include "codec/json_text.h"
#include "queue/admin.h"

enum {
    IMPORT_MEMORY_FACTOR = 8, /* of a body: its message and its items */
    /* of an item in the JSON of an answer, beside its fields: names, id, times, numbers */
    IMPORT_JSON_ITEM_BYTES = 384,
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

/* ---- import: what can be refused is refused before the first write, no memory for the answer as
 * well ---- */

struct import_call {
    struct queue_call call;
    const Wire__StorageItemsImportRequest *wanted;
    struct queue_import import;
    str body; /* of the answer */
};

static err import_encode(struct import_call *c)
{
    Wire__StorageItemsImportResponse reply = WIRE__STORAGE_ITEMS_IMPORT_RESPONSE__INIT;
    err why =
        items_messages(http_arena(c->call.x), c->import.stored, c->import.count, &reply.items);
    if (why != ERR_OK)
        return why;
    reply.n_items = c->import.count;
    for (unsigned i = 0; i < reply.n_items; i++) /* Querator gives it back; it means nothing */
        if (!c->wanted->items[i]->is_leased && c->wanted->items[i]->lease_deadline != NULL)
            reply.items[i]->lease_deadline = c->wanted->items[i]->lease_deadline;
    return rpc_encode(c->call.x, &reply.base, &c->body);
}

static err import_run(struct queue_call *call)
{
    struct import_call *c = CONTAINER_OF(call, struct import_call, call);
    c->import.later = &call->later;
    err why = call->told
                  ? call->later.why
                  : queue_items_import(call->queue, &c->import, http_arena(call->x), &call->note);
    return why == ERR_OK ? import_encode(c) : why;
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
    struct queue_item *items = queue_call_memory(&c->call, count, sizeof *items);
    for (size_t i = 0; items != NULL && i < count; i++) {
        if (!import_check(&c->call, c->wanted->items[i]))
            return false;
        import_item(c->wanted->items[i], &items[i]);
        if (queue_import_fits(&items[i]))
            continue;
        queue_call_refuse(&c->call,
                          "items is invalid; a field or all of them together are too large");
        return false;
    }
    c->import.items = items;
    c->import.count = (unsigned)count;
    return items != NULL;
}

static size_t rounded(size_t n)
{
    return (n + 15) & ~(size_t)15;
}

static size_t import_answer_bytes(const struct queue_import *import)
{
    enum { TIMES = 3 };
    const size_t message = sizeof(Wire__StorageItem) + sizeof(Wire__StorageItem *) +
                           TIMES * rounded(sizeof(Wire__Timestamp)) +
                           rounded(KSUID_TEXT_BYTES + 1) + IMPORT_JSON_ITEM_BYTES;
    size_t bytes = IMPORT_ANSWER_BYTES + import->count * message;
    for (unsigned i = 0; i < import->count; i++) {
        const struct queue_item *q = &import->items[i];
        bytes += json_text_size(q->encoding) + json_text_size(q->kind) +
                 json_text_size(q->reference) + json_text_size(q->source_id) +
                 base64_size(q->bytes.n);
    }
    return bytes;
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
    c->import.partition = (uint32_t)m->partition;
    c->call.audited = true;
    if (!import_items(c))
        return;
    c->import.answer_bytes = import_answer_bytes(&c->import);
    queue_call_part_job(&c->call, c->import.partition, import_run, import_answer);
}

/* ---- delete ---- */

struct delete_call {
    struct queue_call call;
    struct queue_deletion deletion;
};

static err delete_run(struct queue_call *call)
{
    struct delete_call *c = CONTAINER_OF(call, struct delete_call, call);
    c->deletion.later = &call->later;
    return call->told ? call->later.why
                      : queue_items_delete(call->queue, &c->deletion, &call->note);
}

static void delete_answer(struct queue_call *call)
{
    queue_call_end(call, ERR_OK, NULL);
}

/* All of them before one is deleted. False: answered. */
static bool delete_ids(struct delete_call *c, const Wire__StorageItemsDeleteRequest *m)
{
    struct ksuid id;
    str *ids = queue_call_memory(&c->call, m->n_ids, sizeof *ids);
    for (size_t i = 0; ids != NULL && i < m->n_ids; i++) {
        ids[i] = wire_str(m->ids[i]);
        if (ksuid_parse(ids[i], &id))
            continue;
        queue_call_refuse(&c->call, "invalid storage id; '%.*s': %s", STR_ARG(ids[i]),
                          ksuid_refusal(ids[i]));
        return false;
    }
    c->deletion.ids = ids;
    c->deletion.count = (unsigned)m->n_ids;
    return ids != NULL;
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
    c->deletion.partition = (uint32_t)m->partition;
    if (delete_ids(c, m))
        queue_call_part_job(&c->call, c->deletion.partition, delete_run, delete_answer);
}
