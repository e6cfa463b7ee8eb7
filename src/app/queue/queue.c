/* queue.c - the routes of queues: Querator's, then ours. A permission is asked for in the namespace
 * of the queue that the message names, so it stands in the call's row, not in the route. */
#include "app/answer.h"
#include "app/errors.h"
#include "app/pooled.h"
#include "app/queue/queue_routes.h"
#include "base/date.h"

/* ---- GET /health, as Querator has it ---- */

struct health {
    struct pooled pooled;
    err why;
};

static void health_run(struct pooled *p)
{
    struct queues_page page = { .limit = 1 };
    CONTAINER_OF(p, struct health, pooled)->why =
        queues_list(p->app->queues, &page, http_arena(p->x));
}

static void health_answer(struct pooled *p)
{
    char now[DATE_RFC3339_BYTES + 1];
    err why = CONTAINER_OF(p, struct health, pooled)->why;
    const char *status = why == ERR_OK ? "pass" : "fail";
    const char *output = why == ERR_OK         ? ""
                         : why == ERR_SHUTDOWN ? ",\"output\":\"the server is shutting down\""
                                               : ",\"output\":\"storage check failed\"";
    date_format_ms(clock_wall(p->app->clock).ns, now);
    str body =
        arena_printf(http_arena(p->x),
                     "{\"status\":\"%s\",\"version\":\"" APP_VERSION
                     "\",\"checks\":{\"queues:storage\":[{"
                     "\"componentType\":\"datastore\",\"status\":\"%s\",\"time\":\"%s\"%s}]}}\n",
                     status, status, now, output);
    struct answer w = { .status = why == ERR_OK && body.p != NULL ? 200 : 503,
                        .body = body.p != NULL ? body : STR("{}") };
    answer_add(&w, STR("content-type"), STR("application/health+json"));
    answer_add(&w, STR("cache-control"), STR("no-store"));
    answer_add(&w, STR("x-content-type-options"), STR("nosniff"));
    answer_send(p->x, &w);
}

static void get_health(struct http_exchange *x, void *app)
{
    struct health *h = app_new(x, sizeof *h);
    if (h == NULL)
        return;
    *h = (struct health){ .pooled = { .x = x, .app = app }, .why = ERR_SHUTDOWN };
    if (http_draining(x))
        health_answer(&h->pooled);
    else
        pooled_start(&h->pooled, health_run, health_answer);
}

/* ---- routes ---- */

enum {
    SMALL = 8 << 10, /* bytes of a body */
    PLAIN = 256000,
    UPDATE = 512000,
    PRODUCE = 5000000,
    IMPORT = 64000000,
    IMPORT_MEMORY = 8, /* times its body: its message and its items */
    WHY_DEFAULT = 100,
};

#define CALL_ON(on_pool, is_first, path, name, bytes, ...)                                         \
    {                                                                                              \
        HTTP_POST, path, queue_call_handle, .body_bytes_max = (bytes), .label = (name),            \
                                            .pool = (on_pool), .first = (is_first),                \
                                            .row = &(const struct queue_kind)                      \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define CALL(path, name, bytes, ...) CALL_ON(true, false, path, name, bytes, __VA_ARGS__)
#define NAMED(name, bytes, ...) CALL_ON(true, false, "/v1/" name, name, bytes, __VA_ARGS__)
/* Each item's way: what it takes on its thread is little, and whoever has the item waits. */
#define QUICK(name, bytes, ...) CALL_ON(false, true, "/v1/" name, name, bytes, __VA_ARGS__)
#define TYPE(message) .type = &wire__##message##__descriptor
#define RUNS(share_of, name) .share = SHARE_##share_of, .run = app_##name##_run
#define ITEMS_LISTED RUNS(STORE, items), .reply = app_items_reply

const struct http_route app_queue_routes[] = {
    CALL_ON(false, false, "/v1/queue.produce", "queue.produce", PRODUCE,
            TYPE(queue_produce_request), .permission = "queue.produce", .timeout = true,
            .check = app_produce_check, .start = app_produce_start),
    QUICK("queue.lease", SMALL, TYPE(queue_lease_request), .permission = "queue.lease",
          .timeout = true, .arg = LEASE_PLAIN, .check = app_lease_check, .start = app_lease_start),
    QUICK("queue.complete", PLAIN, TYPE(queue_complete_request), .permission = "queue.complete",
          .partition = true, .timeout = true, .arg = CHANGE_COMPLETE, .check = app_complete_check,
          .start = app_change_start),
    QUICK("queue.retry", PLAIN, TYPE(queue_retry_request), .permission = "queue.retry",
          .partition = true, .arg = CHANGE_RETRY, .check = app_retry_check,
          .start = app_change_start),
    NAMED("queue.stats", SMALL, TYPE(queue_stats_request), .permission = "queue.stats",
          RUNS(MEMORY, stats), .reply = app_stats_reply),
    NAMED("queue.clear", SMALL, TYPE(queue_clear_request), .permission = "queue.clear",
          .audited = true, .check = app_clear_check, RUNS(STORE, clear)),
    NAMED("queue.reload", SMALL, TYPE(queue_reload_request), .permission = "queue.update",
          .audited = true, RUNS(CHANGE, reload)),
    NAMED("queues.create", PLAIN, TYPE(queue_info), .asks = "queue.create",
          .check = app_create_check, RUNS(CHANGE, create)),
    NAMED("queues.list", PLAIN, TYPE(queues_list_request), .asks = "queue.list",
          .check = app_list_check, RUNS(NONE, list), .reply = app_list_reply),
    NAMED("queues.info", PLAIN, TYPE(queues_info_request), .permission = "queue.stats",
          .start = app_info_start),
    NAMED("queues.update", UPDATE, TYPE(queue_info), .asks = "queue.update",
          .check = app_update_check, RUNS(CHANGE, update)),
    NAMED("queues.delete", PLAIN, TYPE(queues_delete_request), .asks = "queue.delete",
          .check = app_queue_delete_check, RUNS(CHANGE, queue_delete)),
    CALL("/v1/storage/items.list", "storage.items", PLAIN, TYPE(storage_items_list_request),
         .permission = "queue.stats", .partition = true, .limit = QUEUE_LIST_DEFAULT,
         .arg = ITEMS_READY, ITEMS_LISTED),
    CALL("/v1/storage/scheduled.list", "storage.scheduled", PLAIN, TYPE(storage_items_list_request),
         .permission = "queue.stats", .partition = true, .limit = QUEUE_LIST_DEFAULT,
         .arg = ITEMS_SCHEDULED, ITEMS_LISTED),
    CALL("/v1/storage/items.import", "storage.import", IMPORT, TYPE(storage_items_import_request),
         .permission = "queue.produce", .audited = true, .partition = true, .memory = IMPORT_MEMORY,
         .check = app_import_check, RUNS(STORE, import), .reply = app_import_reply),
    CALL("/v1/storage/items.delete", "storage.delete", PLAIN, TYPE(storage_items_delete_request),
         .permission = "queue.clear", .audited = true, .partition = true, .check = app_delete_check,
         RUNS(STORE, delete)),
    { HTTP_GET, "/health", get_health, .label = "health", .urgent = true },

    QUICK("lease.take", SMALL, TYPE(lease_take_request), .permission = "queue.lease",
          .timeout = true, .arg = LEASE_BY_TOKEN, .check = app_lease_check,
          .start = app_lease_start),
    QUICK("lease.complete", PLAIN, TYPE(lease_change_request), .permission = "queue.complete",
          .partition = true, .timeout = true, .arg = CHANGE_COMPLETE, .check = app_token_check,
          .start = app_change_start),
    QUICK("lease.retry", PLAIN, TYPE(lease_change_request), .permission = "queue.retry",
          .partition = true, .timeout = true, .arg = CHANGE_RETRY, .check = app_token_check,
          .start = app_change_start),
    QUICK("lease.extend", PLAIN, TYPE(lease_change_request), .permission = "queue.lease",
          .partition = true, .timeout = true, .arg = CHANGE_EXTEND, .check = app_token_check,
          .start = app_change_start),
    NAMED("queue.peek", SMALL, TYPE(queue_peek_request), .permission = "queue.stats", .limit = 1,
          .arg = ITEMS_READY, ITEMS_LISTED),
    NAMED("queue.requeue", SMALL, TYPE(queue_requeue_request), .permission = "queue.retry",
          .audited = true, .check = app_requeue_check, RUNS(REQUEUE, requeue),
          .reply = app_requeue_reply),
    NAMED("queue.why", SMALL, TYPE(queue_why_request), .permission = "queue.stats",
          .limit = WHY_DEFAULT, RUNS(NONE, why), .reply = app_why_reply),
    NAMED("partitions.list", SMALL, TYPE(partitions_list_request), .permission = "queue.stats",
          RUNS(MEMORY, stats), .reply = app_partitions_reply),
#define CHANGE(name, order, of_one)                                                                \
    NAMED(name, SMALL, TYPE(partition_change_request), .permission = "queue.update",               \
          .audited = true, .partition = (of_one), .arg = (order), RUNS(CHANGE, partition))
    CHANGE("partitions.add", PART_ADD, false),
    CHANGE("partitions.drain", PART_DRAIN, true),
    CHANGE("partitions.pause", PART_PAUSE, true),
    CHANGE("partitions.resume", PART_RESUME, true),
    CHANGE("partitions.move", PART_MOVE, true),
#undef CHANGE
    NAMED("partitions.rebalance", SMALL, TYPE(partition_change_request),
          .permission = "queue.update", .audited = true, RUNS(CHANGE, rebalance)),
    { .pattern = NULL },
};
