/* queue_routes.h - what the rows of queue.c name. Private to queue*.c. */
#ifndef APP_QUEUE_QUEUE_ROUTES_H
#define APP_QUEUE_QUEUE_ROUTES_H

#include "app/queue/queue_call.h"

/* queue_items.c. arg of leases; that of changes is an enum queue_change_kind. */
enum { LEASE_PLAIN, LEASE_BY_TOKEN };
bool app_produce_check(struct queue_call *c);
void app_produce_start(struct queue_call *c);
bool app_lease_check(struct queue_call *c);
void app_lease_start(struct queue_call *c);
bool app_complete_check(struct queue_call *c);
bool app_retry_check(struct queue_call *c);
bool app_token_check(struct queue_call *c);
void app_change_start(struct queue_call *c);

/* queue_storage.c */
enum { ITEMS_READY, ITEMS_SCHEDULED };
err app_items_run(struct queue_call *c);
err app_items_reply(struct queue_call *c);
bool app_import_check(struct queue_call *c);
err app_import_run(struct queue_call *c);
err app_import_reply(struct queue_call *c);
bool app_delete_check(struct queue_call *c);
err app_delete_run(struct queue_call *c);
bool app_clear_check(struct queue_call *c);
err app_clear_run(struct queue_call *c);
bool app_requeue_check(struct queue_call *c);
err app_requeue_run(struct queue_call *c);
err app_requeue_reply(struct queue_call *c);

/* queue_admin.c. arg of a partition's change is an enum queue_part_order. */
bool app_create_check(struct queue_call *c);
err app_create_run(struct queue_call *c);
bool app_update_check(struct queue_call *c);
err app_update_run(struct queue_call *c);
bool app_list_check(struct queue_call *c);
err app_list_run(struct queue_call *c);
err app_list_reply(struct queue_call *c);
void app_info_start(struct queue_call *c);
bool app_queue_delete_check(struct queue_call *c);
err app_queue_delete_run(struct queue_call *c);
err app_reload_run(struct queue_call *c);
err app_stats_run(struct queue_call *c);
err app_stats_reply(struct queue_call *c);
err app_partitions_reply(struct queue_call *c);
err app_partition_run(struct queue_call *c);
err app_rebalance_run(struct queue_call *c);
err app_why_run(struct queue_call *c);
err app_why_reply(struct queue_call *c);

#endif
