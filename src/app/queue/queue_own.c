/* What is ours beside Querator's API: partitions, moves out of a dead queue, decisions. All on the
 * pool. */
#include "app/queue/queue_call.h"
#include "app/queue/queue_routes.h"
#include "codec/goduration.h"
#include "queue/admin.h"

enum { WHY_DEFAULT = 100 };

/* ---- partitions ---- */

struct change_call {
    struct queue_call call;
    struct queue_part_change change;
};

static void ok_answer(struct queue_call *c)
{
    queue_call_end(c, ERR_OK, NULL);
}

static err change_run(struct queue_call *call)
{
    struct change_call *c = CONTAINER_OF(call, struct change_call, call);
    return queue_part_change(call->queue, &c->change, &call->note);
}

static void partition_change(struct http_exchange *x, void *app, enum queue_part_order order)
{
    struct change_call *c = queue_call_new(x, app, sizeof *c);
    const Wire__PartitionChangeRequest *m =
        c == NULL ? NULL : rpc_read(x, &wire__partition_change_request__descriptor);
    if (m == NULL || !queue_call_find(&c->call, m->queue_name, "queue.update") ||
        (order != PART_ADD && !queue_call_partition(&c->call, m->partition)))
        return;
    c->call.audited = true;
    c->change =
        (struct queue_part_change){ .order = order,
                                    .partition = order == PART_ADD ? 0 : (uint32_t)m->partition,
                                    .store = wire_str(m->store) };
    queue_call_change_job(&c->call, change_run, ok_answer);
}

void app_partitions_add(struct http_exchange *x, void *app)
{
    partition_change(x, app, PART_ADD);
}

void app_partitions_drain(struct http_exchange *x, void *app)
{
    partition_change(x, app, PART_DRAIN);
}

void app_partitions_pause(struct http_exchange *x, void *app)
{
    partition_change(x, app, PART_PAUSE);
}

void app_partitions_resume(struct http_exchange *x, void *app)
{
    partition_change(x, app, PART_RESUME);
}

void app_partitions_move(struct http_exchange *x, void *app)
{
    partition_change(x, app, PART_MOVE);
}

static err rebalance_run(struct queue_call *c)
{
    return queue_rebalance(c->queue, &c->note);
}

void app_partitions_rebalance(struct http_exchange *x, void *app)
{
    struct queue_call *c = queue_call_new(x, app, sizeof *c);
    const Wire__PartitionChangeRequest *m =
        c == NULL ? NULL : rpc_read(x, &wire__partition_change_request__descriptor);
    if (m == NULL || !queue_call_find(c, m->queue_name, "queue.update"))
        return;
    c->audited = true;
    queue_call_change_job(c, rebalance_run, ok_answer);
}

struct state_call {
    struct queue_call call;
    struct queue_stats stats;
};

static err state_run(struct queue_call *call)
{
    struct state_call *c = CONTAINER_OF(call, struct state_call, call);
    return queue_stats_get(call->queue, http_arena(call->x), &c->stats);
}

static bool number(struct arena *a, uint64_t n, ProtobufCBinaryData *out)
{
    str text = arena_printf(a, "%llu", (unsigned long long)n);
    *out = wire_bytes(text);
    return text.p != NULL;
}

static bool state_message(struct arena *a, const struct queue_part_stats *p,
                          Wire__PartitionState *out)
{
    char age[GODURATION_BYTES_MAX + 1];
    goduration_format(p->oldest_age_ns, age);
    str oldest = arena_copy(a, str_of(age));
    wire__partition_state__init(out);
    out->partition = (int32_t)p->partition;
    out->store = wire_bytes(str_of(p->store));
    out->state = wire_bytes(str_of(p->state));
    out->oldest_age = wire_bytes(oldest);
    return oldest.p != NULL && number(a, p->ready, &out->ready) &&
           number(a, p->scheduled, &out->scheduled) && number(a, p->leased, &out->leased) &&
           number(a, p->placing, &out->placing) && number(a, p->failures, &out->failures);
}

static void state_answer(struct queue_call *call)
{
    static const char *const durabilities[] = {
        [QUEUE_SYNC] = "sync", [QUEUE_INTERVAL] = "interval", [QUEUE_NONE] = "none"
    };
    struct queue_stats *s = &CONTAINER_OF(call, struct state_call, call)->stats;
    Wire__PartitionsListResponse reply = WIRE__PARTITIONS_LIST_RESPONSE__INIT;
    Wire__PartitionState *parts = queue_call_memory(call, s->parts_count, sizeof *parts);
    reply.partitions =
        parts == NULL ? NULL
                      : queue_call_memory(call, s->parts_count, sizeof(Wire__PartitionState *));
    if (reply.partitions == NULL)
        return;
    for (; reply.n_partitions < s->parts_count; reply.n_partitions++) {
        reply.partitions[reply.n_partitions] = &parts[reply.n_partitions];
        if (!state_message(http_arena(call->x), &s->parts[reply.n_partitions],
                           &parts[reply.n_partitions])) {
            queue_call_end(call, ERR_LIMIT, NULL);
            return;
        }
    }
    reply.durability = wire_bytes(str_of(durabilities[call->info.durability]));
    queue_call_reply(call, &reply.base);
}

void app_partitions_list(struct http_exchange *x, void *app)
{
    struct state_call *c = queue_call_new(x, app, sizeof *c);
    const Wire__PartitionsListRequest *m =
        c == NULL ? NULL : rpc_read(x, &wire__partitions_list_request__descriptor);
    if (m != NULL && queue_call_find(&c->call, m->queue_name, "queue.stats"))
        queue_call_memory_job(&c->call, state_run, state_answer);
}

/* ---- requeue ---- */

struct requeue_call {
    struct queue_call call;
    unsigned count, moved;
};

static err requeue_run(struct queue_call *call)
{
    struct requeue_call *c = CONTAINER_OF(call, struct requeue_call, call);
    return queue_requeue(call->queue, call->other, c->count, &c->moved, &call->note);
}

static void requeue_answer(struct queue_call *call)
{
    Wire__QueueRequeueResponse reply = WIRE__QUEUE_REQUEUE_RESPONSE__INIT;
    reply.moved = (int32_t)CONTAINER_OF(call, struct requeue_call, call)->moved;
    queue_call_reply(call, &reply.base);
}

/* Finds where to, and asks whether the caller may produce there. False: answered. */
static bool requeue_to(struct requeue_call *c, str name)
{
    struct queue_info info;
    return queue_call_may(&c->call, name, "queue.produce", &c->call.other, &info);
}

void app_queue_requeue(struct http_exchange *x, void *app)
{
    struct requeue_call *c = queue_call_new(x, app, sizeof *c);
    const Wire__QueueRequeueRequest *m =
        c == NULL ? NULL : rpc_read(x, &wire__queue_requeue_request__descriptor);
    if (m == NULL || !queue_call_find(&c->call, m->queue_name, "queue.retry"))
        return;
    c->call.audited = true;
    c->count = m->count == 0 ? INT32_MAX : (unsigned)m->count;
    if (m->count < 0)
        queue_call_refuse(&c->call, "count is invalid; it cannot be negative");
    else if (requeue_to(c, wire_str(m->to)))
        queue_call_requeue_job(&c->call, requeue_run, requeue_answer);
}

/* ---- why ---- */

struct why_call {
    struct queue_call call;
    unsigned limit;
    str lines;
};

static err why_run(struct queue_call *call)
{
    struct why_call *c = CONTAINER_OF(call, struct why_call, call);
    return queue_why(call->queue, c->limit, http_arena(call->x), &c->lines);
}

static void why_answer(struct queue_call *call)
{
    struct why_call *c = CONTAINER_OF(call, struct why_call, call);
    Wire__QueueWhyResponse reply = WIRE__QUEUE_WHY_RESPONSE__INIT;
    reply.decisions = queue_call_memory(call, c->limit, sizeof *reply.decisions);
    if (reply.decisions == NULL)
        return;
    for (str rest = c->lines; rest.n > 0 && reply.n_decisions < c->limit;) {
        str line = str_split(&rest, '\n');
        if (line.n > 0)
            reply.decisions[reply.n_decisions++] = wire_bytes(line);
    }
    queue_call_reply(call, &reply.base);
}

void app_queue_why(struct http_exchange *x, void *app)
{
    struct why_call *c = queue_call_new(x, app, sizeof *c);
    const Wire__QueueWhyRequest *m =
        c == NULL ? NULL : rpc_read(x, &wire__queue_why_request__descriptor);
    if (m != NULL && queue_call_find(&c->call, m->queue_name, "queue.stats") &&
        queue_call_limit(&c->call, m->limit == 0 ? WHY_DEFAULT : m->limit, &c->limit))
        queue_call_job(&c->call, why_run, why_answer);
}
