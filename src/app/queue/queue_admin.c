/* queues.create, .list, .info, .update, .delete; queue.stats, .clear, .reload: what waits for the
 * disk or looks at every partition runs on the pool. */
#include "app/queue/queue_call.h"
#include "app/queue/queue_routes.h"
#include "auth/authority.h"
#include "codec/goduration.h"
#include "queue/admin.h"

enum { TIMEOUT_TEXT_BYTES_MAX = 15 };

/* ---- a queue as a message ---- */

static bool duration_text(struct arena *a, int64_t ns, ProtobufCBinaryData *out)
{
    char text[GODURATION_BYTES_MAX + 1];
    goduration_format(ns, text);
    str copy = arena_copy(a, str_of(text));
    *out = wire_bytes(copy);
    return copy.p != NULL;
}

static bool info_message(struct arena *a, const struct queue_info *q, Wire__QueueInfo *out)
{
    wire__queue_info__init(out);
    out->queue_name = wire_bytes(q->name);
    out->namespace_ = wire_bytes(q->space);
    out->dead_queue = wire_bytes(q->dead_queue);
    out->reference = wire_bytes(q->reference);
    out->max_attempts = (int32_t)q->max_attempts;
    out->requested_partitions = (int32_t)q->partitions;
    out->created_at = wire_time(a, q->created_at);
    out->updated_at = wire_time(a, q->updated_at);
    return out->created_at != NULL && out->updated_at != NULL &&
           duration_text(a, q->lease_timeout_ns, &out->lease_timeout) &&
           duration_text(a, q->expire_timeout_ns, &out->expire_timeout);
}

/* ---- create, update ---- */

struct info_call {
    struct queue_call call;
    struct queue_info wanted;
};

static bool check_length(struct queue_call *c, const char *what, ProtobufCBinaryData text)
{
    if (text.len <= TIMEOUT_TEXT_BYTES_MAX)
        return true;
    queue_call_refuse(c, "%s is invalid; cannot be greater than '%d' characters", what,
                      TIMEOUT_TEXT_BYTES_MAX);
    return false;
}

/* What unsigned numbers cannot say. False: answered. */
static bool check_negative(struct queue_call *c, const Wire__QueueInfo *m,
                           const struct queue_info *wanted)
{
    const char *wrong = NULL;
    if (m->max_attempts < 0)
        wrong = "max attempts is invalid; cannot be negative number";
    else if (m->requested_partitions < 0)
        wrong = "partitions is invalid; cannot be less than 1";
    else if (wanted->lease_timeout_ns < 0)
        wrong = "lease timeout is invalid; cannot be negative";
    else if (wanted->expire_timeout_ns < 0)
        wrong = "expire timeout is invalid; cannot be negative";
    if (wrong != NULL)
        queue_call_refuse(c, "%s", wrong);
    return wrong == NULL;
}

/* `Queue-Durability`, which no message of Querator's has. False: answered. */
static bool read_durability(struct queue_call *c, struct queue_info *out)
{
    static const char *const names[] = {
        [QUEUE_SYNC] = "sync", [QUEUE_INTERVAL] = "interval", [QUEUE_NONE] = "none"
    };
    str text;
    if (!http_header(c->x, "queue-durability", &text))
        return true;
    for (unsigned i = 0; i < COUNT_OF(names); i++) {
        if (str_eq(text, str_of(names[i]))) {
            out->durability = (enum queue_durability)i;
            out->has_durability = true;
            return true;
        }
    }
    queue_call_refuse(c, "queue-durability is invalid; sync, interval or none is wanted");
    return false;
}

/* The words of the request, in Querator's order. False: answered. */
static bool read_info(struct info_call *c, const Wire__QueueInfo *m)
{
    struct queue_call *call = &c->call;
    call->name = wire_str(m->queue_name);
    err why = queue_name_check(call->name, &call->note);
    if (why != ERR_OK) {
        queue_call_end(call, why, &call->note);
        return false;
    }
    c->wanted = (struct queue_info){ .name = call->name,
                                     .space = wire_str(m->namespace_),
                                     .dead_queue = wire_str(m->dead_queue),
                                     .reference = wire_str(m->reference),
                                     .max_attempts = (uint32_t)m->max_attempts,
                                     .partitions = (uint32_t)m->requested_partitions };
    int64_t *lease_ns = &c->wanted.lease_timeout_ns, *expire_ns = &c->wanted.expire_timeout_ns;
    if (!check_length(call, "lease timeout", m->lease_timeout) ||
        !check_length(call, "expire timeout", m->expire_timeout) ||
        !queue_call_duration(call, "expire timeout", "60m, 2h or 24h", m->expire_timeout,
                             expire_ns) ||
        !queue_call_duration(call, "lease timeout", "8m, 15m or 1h", m->lease_timeout, lease_ns) ||
        !read_durability(call, &c->wanted))
        return false;
    why = c->wanted.space.n == 0 ? ERR_OK : auth_space_name_check(c->wanted.space, &call->note);
    if (why != ERR_OK)
        queue_call_end(call, why, &call->note);
    return why == ERR_OK;
}

static void ok_answer(struct queue_call *c)
{
    queue_call_end(c, ERR_OK, NULL);
}

static err create_run(struct queue_call *call)
{
    struct info_call *c = CONTAINER_OF(call, struct info_call, call);
    err why = queues_create(call->app->queues, &c->wanted, &call->note);
    if (why == ERR_OK &&
        queues_find(call->app->queues, c->wanted.name, &call->queue, NULL) == ERR_OK)
        queue_await_read(call->queue, QUEUE_PARTS_ALL,
                         mono_add_ms(clock_mono(call->app->clock), QUEUE_READ_MS_MAX));
    return why;
}

void app_queues_create(struct http_exchange *x, void *app)
{
    struct info_call *c = queue_call_new(x, app, sizeof *c);
    const Wire__QueueInfo *m = c == NULL ? NULL : rpc_read(x, &wire__queue_info__descriptor);
    if (m == NULL || !read_info(c, m))
        return;
    struct queue_call *call = &c->call;
    call->audited = true;
    if (c->wanted.space.n == 0)
        c->wanted.space = STR(AUTH_SYSTEM);
    if (!app_may(x, "queue.create", c->wanted.space, app))
        return;
    err why = auth_space_find(call->app->auth, c->wanted.space, &call->note);
    if (why == ERR_NOT_FOUND)
        rpc_error(x, 453, str_of(call->note.text));
    else if (why != ERR_OK)
        rpc_fail(x, why, &call->note);
    else if (check_negative(call, m, &c->wanted))
        queue_call_change_job(call, create_run, ok_answer);
}

static err update_run(struct queue_call *call)
{
    struct info_call *c = CONTAINER_OF(call, struct info_call, call);
    return queues_update(call->app->queues, &c->wanted, &call->note);
}

void app_queues_update(struct http_exchange *x, void *app)
{
    struct info_call *c = queue_call_new(x, app, sizeof *c);
    const Wire__QueueInfo *m = c == NULL ? NULL : rpc_read(x, &wire__queue_info__descriptor);
    if (m == NULL || !read_info(c, m))
        return;
    c->call.audited = true;
    if (queue_call_find(&c->call, m->queue_name, "queue.update") &&
        check_negative(&c->call, m, &c->wanted))
        queue_call_change_job(&c->call, update_run, ok_answer);
}

/* ---- list, info, delete ---- */

struct list_call {
    struct queue_call call;
    struct queues_page page;
};

static err list_run(struct queue_call *call)
{
    struct list_call *c = CONTAINER_OF(call, struct list_call, call);
    return queues_list(call->app->queues, &c->page, http_arena(call->x));
}

static void list_answer(struct queue_call *call)
{
    const struct queues_page *page = &CONTAINER_OF(call, struct list_call, call)->page;
    struct arena *a = http_arena(call->x);
    Wire__QueuesListResponse reply = WIRE__QUEUES_LIST_RESPONSE__INIT;
    Wire__QueueInfo *items = queue_call_memory(call, page->count, sizeof *items);
    reply.items =
        items == NULL ? NULL : queue_call_memory(call, page->count, sizeof(Wire__QueueInfo *));
    if (reply.items == NULL)
        return;
    str next = page->next.n > 0 ? http_encode(a, page->next) : STR("");
    bool fits = next.p != NULL;
    for (; reply.n_items < page->count && fits; reply.n_items++) {
        reply.items[reply.n_items] = &items[reply.n_items];
        fits = info_message(a, &page->found[reply.n_items], &items[reply.n_items]);
    }
    if (!fits) {
        queue_call_end(call, ERR_LIMIT, NULL);
        return;
    }
    if (next.n > 0) /* no member: Querator's clients refuse one that they do not know */
        http_reply_header(call->x, STR("next-pivot"), next);
    queue_call_reply(call, &reply.base);
}

void app_queues_list(struct http_exchange *x, void *app)
{
    struct list_call *c = queue_call_new(x, app, sizeof *c);
    const Wire__QueuesListRequest *m =
        c == NULL ? NULL : rpc_read(x, &wire__queues_list_request__descriptor);
    if (m == NULL)
        return;
    struct queues_page *page = &c->page;
    page->pivot = wire_str(m->pivot);
    page->space = m->namespace_.len == 0 ? STR(AUTH_SYSTEM) : wire_str(m->namespace_);
    if (!app_may(x, "queue.list", page->space, app) ||
        !queue_call_limit(&c->call, m->limit, &page->limit))
        return;
    if (str_find(page->pivot, '~') < page->pivot.n)
        queue_call_refuse(&c->call, "pivot is invalid; '%.*s' cannot contain '~' character",
                          STR_ARG(page->pivot));
    else
        queue_call_job(&c->call, list_run, list_answer);
}

void app_queues_info(struct http_exchange *x, void *app)
{
    struct queue_call *c = queue_call_new(x, app, sizeof *c);
    const Wire__QueuesInfoRequest *m =
        c == NULL ? NULL : rpc_read(x, &wire__queues_info_request__descriptor);
    Wire__QueueInfo reply;
    if (m == NULL || !queue_call_find(c, m->queue_name, "queue.stats"))
        return;
    if (info_message(http_arena(x), &c->info, &reply))
        queue_call_reply(c, &reply.base);
    else
        queue_call_end(c, ERR_LIMIT, NULL);
}

struct delete_call {
    struct queue_call call;
    bool unnamed; /* only when no other names it as its dead queue */
};

static err delete_run(struct queue_call *call)
{
    bool named_too = !CONTAINER_OF(call, struct delete_call, call)->unnamed;
    return queues_delete(call->app->queues, call->name, named_too, &call->note);
}

/* `Queue-Delete: unnamed`, which Querator's clients do not send: they delete any. False:
 * answered. */
static bool read_unnamed(struct delete_call *c)
{
    str text;
    c->unnamed = http_header(c->call.x, "queue-delete", &text);
    if (!c->unnamed || str_eq(text, STR("unnamed")))
        return true;
    queue_call_refuse(&c->call, "queue-delete is invalid; unnamed is wanted");
    return false;
}

void app_queues_delete(struct http_exchange *x, void *app)
{
    struct delete_call *c = queue_call_new(x, app, sizeof *c);
    const Wire__QueuesDeleteRequest *m =
        c == NULL ? NULL : rpc_read(x, &wire__queues_delete_request__descriptor);
    if (m == NULL)
        return;
    struct queue_call *call = &c->call;
    call->name = wire_str(m->queue_name);
    call->audited = true;
    err why = queue_name_check(call->name, &call->note);
    if (why != ERR_OK)
        queue_call_end(call, why, &call->note);
    else if (queue_call_find(call, m->queue_name, "queue.delete") && read_unnamed(c))
        queue_call_change_job(call, delete_run, ok_answer);
}

/* ---- stats ---- */

struct stats_call {
    struct queue_call call;
    struct queue_stats stats;
};

static err stats_run(struct queue_call *call)
{
    struct stats_call *c = CONTAINER_OF(call, struct stats_call, call);
    return queue_stats_get(call->queue, http_arena(call->x), &c->stats);
}

static int32_t clamp(uint64_t n)
{
    return n > INT32_MAX ? INT32_MAX : (int32_t)n;
}

static bool part_message(struct arena *a, const struct queue_part_stats *p,
                         Wire__QueuePartitionStats *out)
{
    wire__queue_partition_stats__init(out);
    out->partition = (int32_t)p->partition;
    out->total = clamp(p->ready + p->leased);
    out->total_leased = clamp(p->leased);
    out->failures = clamp(p->failures);
    out->scheduled = clamp(p->scheduled);
    return duration_text(a, p->average_age_ns, &out->average_age) &&
           duration_text(a, p->average_leased_age_ns, &out->average_leased_age);
}

static void stats_answer(struct queue_call *call)
{
    struct stats_call *c = CONTAINER_OF(call, struct stats_call, call);
    struct queue_stats *s = &c->stats;
    Wire__QueueStatsResponse reply = WIRE__QUEUE_STATS_RESPONSE__INIT;
    Wire__QueueLogicalStats logical = WIRE__QUEUE_LOGICAL_STATS__INIT, *one = &logical;
    Wire__QueuePartitionStats *parts = queue_call_memory(call, s->parts_count, sizeof *parts);
    logical.partitions = parts == NULL ? NULL
                                       : queue_call_memory(call, s->parts_count,
                                                           sizeof(Wire__QueuePartitionStats *));
    if (logical.partitions == NULL)
        return;
    for (; logical.n_partitions < s->parts_count; logical.n_partitions++) {
        logical.partitions[logical.n_partitions] = &parts[logical.n_partitions];
        if (!part_message(http_arena(call->x), &s->parts[logical.n_partitions],
                          &parts[logical.n_partitions])) {
            queue_call_end(call, ERR_LIMIT, NULL);
            return;
        }
    }
    logical.produce_waiting = clamp(s->produce_waiting);
    logical.lease_waiting = clamp(s->lease_waiting);
    logical.complete_waiting = clamp(s->complete_waiting);
    logical.in_flight = clamp(s->in_flight);
    reply.queue_name = wire_bytes(call->name);
    reply.n_logicalqueues = 1;
    reply.logicalqueues = &one;
    queue_call_reply(call, &reply.base);
}

void app_queue_stats(struct http_exchange *x, void *app)
{
    struct stats_call *c = queue_call_new(x, app, sizeof *c);
    const Wire__QueueStatsRequest *m =
        c == NULL ? NULL : rpc_read(x, &wire__queue_stats_request__descriptor);
    if (m != NULL && queue_call_find(&c->call, m->queue_name, "queue.stats"))
        queue_call_memory_job(&c->call, stats_run, stats_answer);
}

/* ---- clear, reload ---- */

struct clear_call {
    struct queue_call call;
    const Wire__QueueClearRequest *wanted;
};

static err clear_run(struct queue_call *call)
{
    const Wire__QueueClearRequest *m = CONTAINER_OF(call, struct clear_call, call)->wanted;
    const struct queue_clear_order order = { .ready = m->queue,
                                             .scheduled = m->scheduled,
                                             .destructive = m->destructive,
                                             .later = &call->later };
    return call->told ? call->later.why : queue_clear(call->queue, &order, &call->note);
}

void app_queue_clear(struct http_exchange *x, void *app)
{
    struct clear_call *c = queue_call_new(x, app, sizeof *c);
    const Wire__QueueClearRequest *m =
        c == NULL ? NULL : rpc_read(x, &wire__queue_clear_request__descriptor);
    if (m == NULL || !queue_call_find(&c->call, m->queue_name, "queue.clear"))
        return;
    c->wanted = m;
    c->call.audited = true;
    if (m->queue || m->scheduled)
        queue_call_part_job(&c->call, QUEUE_PARTS_ALL, clear_run, ok_answer);
    else
        queue_call_refuse(&c->call,
                          "invalid clear request; one of 'queue', 'scheduled' must be true");
}

static err reload_run(struct queue_call *c)
{
    queue_reload(c->queue);
    return ERR_OK;
}

void app_queue_reload(struct http_exchange *x, void *app)
{
    struct queue_call *c = queue_call_new(x, app, sizeof *c);
    const Wire__QueueReloadRequest *m =
        c == NULL ? NULL : rpc_read(x, &wire__queue_reload_request__descriptor);
    if (m == NULL || !queue_call_find(c, m->queue_name, "queue.update"))
        return;
    c->audited = true;
    queue_call_change_job(c, reload_run, ok_answer);
}
