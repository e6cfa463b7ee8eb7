/* queue_admin.c - queues.create, .list, .info, .update, .delete; queue.stats, .reload, .why;
 * partitions.*. */
#include "app/queue/queue_routes.h"
#include "auth/authority.h"

enum { TIMEOUT_TEXT_BYTES_MAX = 15 };

/* ---- a queue as a message ---- */

static bool info_message(struct arena *a, const struct queue_info *q, Wire__QueueInfo *out)
{
    out->queue_name = wire_bytes(q->name);
    out->namespace_ = wire_bytes(q->space);
    out->dead_queue = wire_bytes(q->dead_queue);
    out->reference = wire_bytes(q->reference);
    out->max_attempts = (int32_t)q->max_attempts;
    out->requested_partitions = (int32_t)q->partitions;
    out->created_at = wire_time(a, q->created_at);
    out->updated_at = wire_time(a, q->updated_at);
    out->lease_timeout = wire_duration(a, q->lease_timeout_ns);
    out->expire_timeout = wire_duration(a, q->expire_timeout_ns);
    return out->created_at != NULL && out->updated_at != NULL && out->lease_timeout.data != NULL &&
           out->expire_timeout.data != NULL;
}

/* ---- create, update ---- */

static bool check_length(struct queue_call *c, const char *what, ProtobufCBinaryData text)
{
    return text.len <= TIMEOUT_TEXT_BYTES_MAX ||
           queue_call_refuse(c, "%s is invalid; cannot be greater than '%d' characters", what,
                             TIMEOUT_TEXT_BYTES_MAX);
}

/* What unsigned numbers cannot say. */
static bool check_negative(struct queue_call *c, const Wire__QueueInfo *m)
{
    const struct queue_info *wanted = &c->u.wanted;
    const struct queue_refusal numbers[] = {
        { m->max_attempts < 0, "max attempts is invalid; cannot be negative number" },
        { m->requested_partitions < 0, "partitions is invalid; cannot be less than 1" },
        { wanted->lease_timeout_ns < 0, "lease timeout is invalid; cannot be negative" },
        { wanted->expire_timeout_ns < 0, "expire timeout is invalid; cannot be negative" },
    };
    return queue_call_check(c, numbers, COUNT_OF(numbers));
}

/* `Queue-Durability`, which no message of Querator's has. */
static bool check_durability(struct queue_call *c, struct queue_info *out)
{
    str text;
    if (!http_header(c->x, "queue-durability", &text))
        return true;
    for (unsigned i = 0; queue_durability_names[i] != NULL; i++) {
        if (str_eq(text, str_of(queue_durability_names[i]))) {
            out->durability = (enum queue_durability)i;
            out->has_durability = true;
            return true;
        }
    }
    return queue_call_refuse(c, "queue-durability is invalid; sync, interval or none is wanted");
}

static bool check_name(struct queue_call *c, ProtobufCBinaryData name)
{
    c->name = wire_str(name);
    return queue_call_ok(c, queue_name_check(c->name, &c->note));
}

/* The words of the request, in Querator's order. */
static bool check_info(struct queue_call *c, const Wire__QueueInfo *m)
{
    struct queue_info *wanted = &c->u.wanted;
    if (!check_name(c, m->queue_name))
        return false;
    *wanted = (struct queue_info){ .name = c->name,
                                   .space = wire_str(m->namespace_),
                                   .dead_queue = wire_str(m->dead_queue),
                                   .reference = wire_str(m->reference),
                                   .max_attempts = (uint32_t)m->max_attempts,
                                   .partitions = (uint32_t)m->requested_partitions };
    if (!check_length(c, "lease timeout", m->lease_timeout) ||
        !check_length(c, "expire timeout", m->expire_timeout) ||
        !queue_call_duration(c, "expire timeout", "60m, 2h or 24h", m->expire_timeout,
                             &wanted->expire_timeout_ns) ||
        !queue_call_duration(c, "lease timeout", "8m, 15m or 1h", m->lease_timeout,
                             &wanted->lease_timeout_ns) ||
        !check_durability(c, wanted) ||
        (wanted->space.n > 0 && !queue_call_ok(c, auth_space_name_check(wanted->space, &c->note))))
        return false;
    c->audited = true;
    return true;
}

bool app_create_check(struct queue_call *c)
{
    struct queue_info *wanted = &c->u.wanted;
    if (!check_info(c, c->m))
        return false;
    if (wanted->space.n == 0)
        wanted->space = STR(AUTH_SYSTEM);
    if (!app_may(c->x, c->kind->asks, wanted->space, c->app))
        return false;
    err why = auth_space_find(c->app->auth, wanted->space, &c->note);
    if (why == ERR_OK)
        return check_negative(c, c->m);
    if (why == ERR_NOT_FOUND)
        rpc_error(c->x, 453, str_of(c->note.text));
    else
        rpc_fail(c->x, why, &c->note);
    return false;
}

err app_create_run(struct queue_call *c)
{
    return queues_create(c->app->queues, &c->u.wanted, &c->note);
}

bool app_update_check(struct queue_call *c)
{
    return check_info(c, c->m) && queue_call_find(c, c->kind->asks) && check_negative(c, c->m);
}

err app_update_run(struct queue_call *c)
{
    return queues_update(c->app->queues, &c->u.wanted, &c->note);
}

/* ---- list, info ---- */

bool app_list_check(struct queue_call *c)
{
    const Wire__QueuesListRequest *m = c->m;
    struct queues_page *page = &c->u.queues;
    page->pivot = wire_str(m->pivot);
    page->space = m->namespace_.len == 0 ? STR(AUTH_SYSTEM) : wire_str(m->namespace_);
    if (!app_may(c->x, c->kind->asks, page->space, c->app) ||
        !queue_call_limit(c, m->limit, QUEUE_LIST_DEFAULT))
        return false;
    page->limit = c->limit;
    return str_find(page->pivot, '~') == page->pivot.n ||
           queue_call_refuse(c, "pivot is invalid; '%.*s' cannot contain '~' character",
                             STR_ARG(page->pivot));
}

err app_list_run(struct queue_call *c)
{
    return queues_list(c->app->queues, &c->u.queues, http_arena(c->x));
}

err app_list_reply(struct queue_call *c)
{
    const struct queues_page *page = &c->u.queues;
    struct arena *a = http_arena(c->x);
    Wire__QueuesListResponse reply = WIRE__QUEUES_LIST_RESPONSE__INIT;
    Wire__QueueInfo *items = wire_list(a, &reply.base, "items", page->count);
    str next = page->next.n > 0 ? http_encode(a, page->next) : STR("");
    if (items == NULL || next.p == NULL)
        return ERR_LIMIT;
    for (unsigned i = 0; i < page->count; i++)
        if (!info_message(a, &page->found[i], &items[i]))
            return ERR_LIMIT;
    if (next.n > 0) /* no member: Querator's clients refuse one that they do not know */
        http_reply_header(c->x, STR("next-pivot"), next);
    return queue_call_encode(c, &reply.base);
}

void app_info_start(struct queue_call *c)
{
    Wire__QueueInfo reply = WIRE__QUEUE_INFO__INIT;
    bool fits = info_message(http_arena(c->x), &c->info, &reply);
    queue_call_end(c, fits ? queue_call_encode(c, &reply.base) : ERR_LIMIT, NULL);
}

/* ---- delete, reload ---- */

/* `Queue-Delete: unnamed`, which Querator's clients do not send: they delete any. */
bool app_queue_delete_check(struct queue_call *c)
{
    const Wire__QueuesDeleteRequest *m = c->m;
    str text;
    c->audited = true;
    if (!check_name(c, m->queue_name) || !queue_call_find(c, c->kind->asks))
        return false;
    c->u.unnamed = http_header(c->x, "queue-delete", &text);
    return !c->u.unnamed || str_eq(text, STR("unnamed")) ||
           queue_call_refuse(c, "queue-delete is invalid; unnamed is wanted");
}

err app_queue_delete_run(struct queue_call *c)
{
    return queues_delete(c->app->queues, c->name, !c->u.unnamed, &c->note);
}

err app_reload_run(struct queue_call *c)
{
    queue_reload(c->queue);
    return ERR_OK;
}

/* ---- stats, partitions.list ---- */

err app_stats_run(struct queue_call *c)
{
    return queue_stats_get(c->queue, http_arena(c->x), &c->u.stats);
}

static int32_t clamp(uint64_t n)
{
    return n > INT32_MAX ? INT32_MAX : (int32_t)n;
}

err app_stats_reply(struct queue_call *c)
{
    const struct queue_stats *s = &c->u.stats;
    struct arena *a = http_arena(c->x);
    Wire__QueueStatsResponse reply = WIRE__QUEUE_STATS_RESPONSE__INIT;
    Wire__QueueLogicalStats *logical = wire_list(a, &reply.base, "logicalQueues", 1);
    Wire__QueuePartitionStats *parts =
        logical == NULL ? NULL : wire_list(a, &logical->base, "partitions", s->parts_count);
    if (parts == NULL)
        return ERR_LIMIT;
    for (unsigned i = 0; i < s->parts_count; i++) {
        const struct queue_part_stats *p = &s->parts[i];
        parts[i].partition = (int32_t)p->partition;
        parts[i].total = clamp(p->ready + p->leased);
        parts[i].total_leased = clamp(p->leased);
        parts[i].failures = clamp(p->failures);
        parts[i].scheduled = clamp(p->scheduled);
        parts[i].average_age = wire_duration(a, p->average_age_ns);
        parts[i].average_leased_age = wire_duration(a, p->average_leased_age_ns);
        if (parts[i].average_age.data == NULL || parts[i].average_leased_age.data == NULL)
            return ERR_LIMIT;
    }
    logical->produce_waiting = clamp(s->produce_waiting);
    logical->lease_waiting = clamp(s->lease_waiting);
    logical->complete_waiting = clamp(s->complete_waiting);
    logical->in_flight = clamp(s->in_flight);
    reply.queue_name = wire_bytes(c->name);
    return queue_call_encode(c, &reply.base);
}

static bool state_message(struct arena *a, const struct queue_part_stats *p,
                          Wire__PartitionState *out)
{
    out->partition = (int32_t)p->partition;
    out->store = wire_bytes(str_of(p->store));
    out->state = wire_bytes(str_of(p->state));
    out->oldest_age = wire_duration(a, p->oldest_age_ns);
    out->ready = wire_number(a, p->ready);
    out->scheduled = wire_number(a, p->scheduled);
    out->leased = wire_number(a, p->leased);
    out->placing = wire_number(a, p->placing);
    out->failures = wire_number(a, p->failures);
    return out->oldest_age.data != NULL && out->ready.data != NULL && out->scheduled.data != NULL &&
           out->leased.data != NULL && out->placing.data != NULL && out->failures.data != NULL;
}

err app_partitions_reply(struct queue_call *c)
{
    const struct queue_stats *s = &c->u.stats;
    struct arena *a = http_arena(c->x);
    Wire__PartitionsListResponse reply = WIRE__PARTITIONS_LIST_RESPONSE__INIT;
    Wire__PartitionState *parts = wire_list(a, &reply.base, "partitions", s->parts_count);
    for (unsigned i = 0; parts != NULL && i < s->parts_count; i++)
        if (!state_message(a, &s->parts[i], &parts[i]))
            return ERR_LIMIT;
    reply.durability = wire_bytes(str_of(queue_durability_names[c->info.durability]));
    return parts == NULL ? ERR_LIMIT : queue_call_encode(c, &reply.base);
}

/* ---- partitions.add, .drain, .pause, .resume, .move, .rebalance ---- */

err app_partition_run(struct queue_call *c)
{
    const Wire__PartitionChangeRequest *m = c->m;
    const struct queue_part_change change = { .order = (enum queue_part_order)c->kind->arg,
                                              .partition = c->kind->partition ? c->partition : 0,
                                              .store = wire_str(m->store) };
    return queue_part_change(c->queue, &change, &c->note);
}

err app_rebalance_run(struct queue_call *c)
{
    return queue_rebalance(c->queue, &c->note);
}

/* ---- why ---- */

err app_why_run(struct queue_call *c)
{
    return queue_why(c->queue, c->limit, http_arena(c->x), &c->u.lines);
}

err app_why_reply(struct queue_call *c)
{
    Wire__QueueWhyResponse reply = WIRE__QUEUE_WHY_RESPONSE__INIT;
    reply.decisions = arena_calloc(http_arena(c->x), c->limit, sizeof *reply.decisions);
    if (reply.decisions == NULL)
        return ERR_LIMIT;
    for (str rest = c->u.lines; rest.n > 0 && reply.n_decisions < c->limit;) {
        str line = str_split(&rest, '\n');
        if (line.n > 0)
            reply.decisions[reply.n_decisions++] = wire_bytes(line);
    }
    return queue_call_encode(c, &reply.base);
}
