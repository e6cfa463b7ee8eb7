/* queue_routes.h - the handlers behind the table in queue.c. Private to queue*.c. */
#ifndef APP_QUEUE_QUEUE_ROUTES_H
#define APP_QUEUE_QUEUE_ROUTES_H

struct http_exchange;

/* queue_items.c */
void app_queue_produce(struct http_exchange *x, void *app);
void app_queue_lease(struct http_exchange *x, void *app);
void app_queue_complete(struct http_exchange *x, void *app);
void app_queue_retry(struct http_exchange *x, void *app);
void app_queue_take(struct http_exchange *x, void *app);
void app_queue_complete_by_token(struct http_exchange *x, void *app);
void app_queue_retry_by_token(struct http_exchange *x, void *app);
void app_queue_extend(struct http_exchange *x, void *app);

/* queue_admin.c */
void app_queues_create(struct http_exchange *x, void *app);
void app_queues_update(struct http_exchange *x, void *app);
void app_queues_list(struct http_exchange *x, void *app);
void app_queues_info(struct http_exchange *x, void *app);
void app_queues_delete(struct http_exchange *x, void *app);
void app_queue_stats(struct http_exchange *x, void *app);
void app_queue_clear(struct http_exchange *x, void *app);
void app_queue_reload(struct http_exchange *x, void *app);

/* queue_storage.c */
void app_storage_items(struct http_exchange *x, void *app);
void app_storage_scheduled(struct http_exchange *x, void *app);
void app_storage_import(struct http_exchange *x, void *app);
void app_storage_delete(struct http_exchange *x, void *app);
void app_queue_peek(struct http_exchange *x, void *app);

/* queue_own.c */
void app_partitions_add(struct http_exchange *x, void *app);
void app_partitions_drain(struct http_exchange *x, void *app);
void app_partitions_pause(struct http_exchange *x, void *app);
void app_partitions_resume(struct http_exchange *x, void *app);
void app_partitions_move(struct http_exchange *x, void *app);
void app_partitions_rebalance(struct http_exchange *x, void *app);
void app_partitions_list(struct http_exchange *x, void *app);
void app_queue_requeue(struct http_exchange *x, void *app);
void app_queue_why(struct http_exchange *x, void *app);

#endif
