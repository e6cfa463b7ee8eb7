/* queue_storage.c - storage/items.list, scheduled.list, items.import, items.delete; queue.peek and
 * queue.clear, over all partitions; queue.requeue. */
#include "app/queue/queue_routes.h"
#include "codec/base64.h"
#include "codec/json_text.h"

enum {
    /* of an item in the JSON of an answer, beside its fields: names, id, times, numbers */
    IMPORT_JSON_ITEM_BYTES = 384,
    IMPORT_ANSWER_BYTES = 4096, /* of an answer, beside its items: its head, what is rounded up */
};

/* ---- items as messages ---- */

static bool item_message(struct arena *a, const struct queue_item *q, Wire__StorageItem *out)
{
    out->id = wire_id(a, q->id);
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
    return out->id.data != NULL && out->lease_deadline != NULL && out->expire_deadline != NULL &&
           out->created_at != NULL;
}

/* Into the field items of a reply. */
static err items_message(struct queue_call *c, const struct queue_item *found, unsigned count,
                         ProtobufCMessage *reply)
{
    struct arena *a = http_arena(c->x);
    Wire__StorageItem *items = wire_list(a, reply, "items", count);
    for (unsigned i = 0; items != NULL && i < count; i++)
        if (!item_message(a, &found[i], &items[i]))
            return ERR_LIMIT;
    return items == NULL ? ERR_LIMIT : ERR_OK;
}

/* ---- list, peek ---- */

err app_items_run(struct queue_call *c)
{
    const ProtobufCBinaryData *pivot = wire_field(c->m, "pivot");
    c->u.items = (struct queue_items_page){ .partition = c->partition,
                                            .scheduled = c->kind->arg == ITEMS_SCHEDULED,
                                            .pivot = str_trim(wire_str(*pivot)), /* blank: none */
                                            .limit = c->limit,
                                            .later = &c->turn.later };
    return queue_items_list(c->queue, &c->u.items, http_arena(c->x), &c->note);
}

err app_items_reply(struct queue_call *c)
{
    Wire__StorageItemsListResponse reply = WIRE__STORAGE_ITEMS_LIST_RESPONSE__INIT;
    err why = items_message(c, c->u.items.found, c->u.items.count, &reply.base);
    return why == ERR_OK ? queue_call_encode(c, &reply.base) : why;
}

/* ---- import: what can be refused is refused before the first write, no memory for the answer as
 * well ---- */

/* id, created_at and enqueue_at are the server's. */
static bool import_item(struct queue_call *c, const Wire__StorageItem *from, struct queue_item *to)
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
    const struct queue_refusal numbers[] = {
        { from->attempts < 0, "attempts is invalid; cannot be negative number" },
        { from->max_attempts < 0, "max attempts is invalid; cannot be negative number" },
    };
    if (!queue_call_check(c, numbers, COUNT_OF(numbers)))
        return false;
    if (from->attempts > QUEUE_ITEM_ATTEMPTS_MAX)
        return queue_call_refuse(c, "attempts is invalid; cannot be greater than %d",
                                 QUEUE_ITEM_ATTEMPTS_MAX);
    return queue_import_fits(to) ||
           queue_call_refuse(c, "items is invalid; a field or all of them together are too large");
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

bool app_import_check(struct queue_call *c)
{
    const Wire__StorageItemsImportRequest *m = c->m;
    struct queue_import *import = &c->u.import;
    if (m->n_items == 0)
        return queue_call_refuse(c, "items is invalid; cannot be empty");
    if (m->n_items > QUEUE_IMPORT_ITEMS_MAX)
        return queue_call_refuse(c,
                                 "items is invalid; max_import_batch_size is %d but received %zu",
                                 QUEUE_IMPORT_ITEMS_MAX, m->n_items);
    struct queue_item *items = queue_call_memory(c, m->n_items, sizeof *items);
    for (size_t i = 0; items != NULL && i < m->n_items; i++)
        if (!import_item(c, m->items[i], &items[i]))
            return false;
    *import = (struct queue_import){ .partition = c->partition,
                                     .items = items,
                                     .count = (unsigned)m->n_items,
                                     .later = &c->turn.later };
    import->answer_bytes = items == NULL ? 0 : import_answer_bytes(import);
    return items != NULL;
}

err app_import_run(struct queue_call *c)
{
    return queue_items_import(c->queue, &c->u.import, http_arena(c->x), &c->note);
}

err app_import_reply(struct queue_call *c)
{
    const Wire__StorageItemsImportRequest *m = c->m;
    Wire__StorageItemsImportResponse reply = WIRE__STORAGE_ITEMS_IMPORT_RESPONSE__INIT;
    err why = items_message(c, c->u.import.stored, c->u.import.count, &reply.base);
    for (size_t i = 0; why == ERR_OK && i < m->n_items; i++) /* given back, but means nothing */
        if (!m->items[i]->is_leased && m->items[i]->lease_deadline != NULL)
            reply.items[i]->lease_deadline = m->items[i]->lease_deadline;
    c->reply = REPLY_BODY;
    return why == ERR_OK ? rpc_encode(c->x, &reply.base, &c->body) : why;
}

/* ---- delete, clear, requeue ---- */

/* All of them before one is deleted. */
bool app_delete_check(struct queue_call *c)
{
    const Wire__StorageItemsDeleteRequest *m = c->m;
    struct ksuid id;
    if (m->n_ids == 0)
        return queue_call_refuse(c, "ids is invalid; cannot be empty");
    str *ids = queue_call_memory(c, m->n_ids, sizeof *ids);
    for (size_t i = 0; ids != NULL && i < m->n_ids; i++) {
        ids[i] = wire_str(m->ids[i]);
        if (!ksuid_parse(ids[i], &id))
            return queue_call_refuse(c, "invalid storage id; '%.*s': %s", STR_ARG(ids[i]),
                                     ksuid_refusal(ids[i]));
    }
    c->u.deletion = (struct queue_deletion){
        .partition = c->partition, .ids = ids, .count = (unsigned)m->n_ids, .later = &c->turn.later
    };
    return ids != NULL;
}

err app_delete_run(struct queue_call *c)
{
    return queue_items_delete(c->queue, &c->u.deletion, &c->note);
}

bool app_clear_check(struct queue_call *c)
{
    const Wire__QueueClearRequest *m = c->m;
    return m->queue || m->scheduled ||
           queue_call_refuse(c, "invalid clear request; one of 'queue', 'scheduled' must be true");
}

err app_clear_run(struct queue_call *c)
{
    const Wire__QueueClearRequest *m = c->m;
    const struct queue_clear_order order = { .ready = m->queue,
                                             .scheduled = m->scheduled,
                                             .destructive = m->destructive,
                                             .later = &c->turn.later };
    return queue_clear(c->queue, &order, &c->note);
}

/* Whoever asks may produce where the items go. */
bool app_requeue_check(struct queue_call *c)
{
    const Wire__QueueRequeueRequest *m = c->m;
    if (m->count < 0)
        return queue_call_refuse(c, "count is invalid; it cannot be negative");
    return queue_call_find_other(c, wire_str(m->to), "queue.produce");
}

err app_requeue_run(struct queue_call *c)
{
    const Wire__QueueRequeueRequest *m = c->m;
    unsigned count = m->count == 0 ? INT32_MAX : (unsigned)m->count;
    return queue_requeue(c->queue, c->other, count, &c->u.moved, &c->note);
}

err app_requeue_reply(struct queue_call *c)
{
    Wire__QueueRequeueResponse reply = WIRE__QUEUE_REQUEUE_RESPONSE__INIT;
    reply.moved = (int32_t)c->u.moved;
    return queue_call_encode(c, &reply.base);
}
