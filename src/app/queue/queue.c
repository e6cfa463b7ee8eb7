/* The routes of queues: Querator's, then ours. No permission stands here: each handler asks for it
 * in the namespace of the queue it was given. */
#include "app/answer.h"
#include "app/errors.h"
#include "app/pooled.h"
#include "app/queue/queue_call.h"
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

#define CALL(path, handler, bytes, name)                                                           \
    {                                                                                              \
        HTTP_POST, (path), (handler), .body_bytes_max = (bytes), .label = (name)                   \
    }
#define SMALL QUEUE_BODY_SMALL_BYTES_MAX
#define PLAIN QUEUE_BODY_BYTES_MAX

const struct http_route app_queue_routes[] = {
    CALL("/v1/queue.produce", app_queue_produce, QUEUE_BODY_PRODUCE_BYTES_MAX, "queue.produce"),
    CALL("/v1/queue.lease", app_queue_lease, SMALL, "queue.lease"),
    CALL("/v1/queue.complete", app_queue_complete, PLAIN, "queue.complete"),
    CALL("/v1/queue.retry", app_queue_retry, PLAIN, "queue.retry"),
    CALL("/v1/queue.stats", app_queue_stats, SMALL, "queue.stats"),
    CALL("/v1/queue.clear", app_queue_clear, SMALL, "queue.clear"),
    CALL("/v1/queue.reload", app_queue_reload, SMALL, "queue.reload"),
    CALL("/v1/queues.create", app_queues_create, PLAIN, "queues.create"),
    CALL("/v1/queues.list", app_queues_list, PLAIN, "queues.list"),
    CALL("/v1/queues.info", app_queues_info, PLAIN, "queues.info"),
    CALL("/v1/queues.update", app_queues_update, QUEUE_BODY_UPDATE_BYTES_MAX, "queues.update"),
    CALL("/v1/queues.delete", app_queues_delete, PLAIN, "queues.delete"),
    CALL("/v1/storage/items.list", app_storage_items, PLAIN, "storage.items"),
    CALL("/v1/storage/scheduled.list", app_storage_scheduled, PLAIN, "storage.scheduled"),
    CALL("/v1/storage/items.import", app_storage_import, QUEUE_BODY_IMPORT_BYTES_MAX,
         "storage.import"),
    CALL("/v1/storage/items.delete", app_storage_delete, PLAIN, "storage.delete"),
    { HTTP_GET, "/health", get_health, .label = "health", .urgent = true },

    CALL("/v1/lease.take", app_queue_take, SMALL, "lease.take"),
    CALL("/v1/lease.complete", app_queue_complete_by_token, PLAIN, "lease.complete"),
    CALL("/v1/lease.retry", app_queue_retry_by_token, PLAIN, "lease.retry"),
    CALL("/v1/lease.extend", app_queue_extend, PLAIN, "lease.extend"),
    CALL("/v1/queue.peek", app_queue_peek, SMALL, "queue.peek"),
    CALL("/v1/queue.requeue", app_queue_requeue, SMALL, "queue.requeue"),
    CALL("/v1/queue.why", app_queue_why, SMALL, "queue.why"),
    CALL("/v1/partitions.list", app_partitions_list, SMALL, "partitions.list"),
    CALL("/v1/partitions.add", app_partitions_add, SMALL, "partitions.add"),
    CALL("/v1/partitions.drain", app_partitions_drain, SMALL, "partitions.drain"),
    CALL("/v1/partitions.pause", app_partitions_pause, SMALL, "partitions.pause"),
    CALL("/v1/partitions.resume", app_partitions_resume, SMALL, "partitions.resume"),
    CALL("/v1/partitions.move", app_partitions_move, SMALL, "partitions.move"),
    CALL("/v1/partitions.rebalance", app_partitions_rebalance, SMALL, "partitions.rebalance"),
    { .pattern = NULL },
};
