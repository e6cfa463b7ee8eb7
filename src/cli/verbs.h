/* verbs.h - who runs each verb: one function a verb. The table itself is cli_verbs in verbs.c. */
#ifndef CLI_VERBS_H
#define CLI_VERBS_H

#include "cli/cli.h"

#ifndef CLI_VERSION
#define CLI_VERSION "unknown"
#endif

enum cli_exit verb_backup(struct cli_call *call);
enum cli_exit verb_change_drop(struct cli_call *call);
enum cli_exit verb_change_dry(struct cli_call *call);
enum cli_exit verb_timeline_ls(struct cli_call *call);
enum cli_exit verb_change_explain(struct cli_call *call);
enum cli_exit verb_change_items(struct cli_call *call);
enum cli_exit verb_change_limit(struct cli_call *call);
enum cli_exit verb_change_ls(struct cli_call *call);
enum cli_exit verb_change_pause(struct cli_call *call);
enum cli_exit verb_change_replay(struct cli_call *call);
enum cli_exit verb_change_resume(struct cli_call *call);
enum cli_exit verb_change_retry(struct cli_call *call);
enum cli_exit verb_change_rules_check(struct cli_call *call);
enum cli_exit verb_change_show(struct cli_call *call);
enum cli_exit verb_change_tail(struct cli_call *call);
enum cli_exit verb_change_test(struct cli_call *call);
enum cli_exit verb_change_why(struct cli_call *call);
enum cli_exit verb_check(struct cli_call *call);
enum cli_exit verb_completion(struct cli_call *call);
enum cli_exit verb_explain(struct cli_call *call);
enum cli_exit verb_flight_ls(struct cli_call *call);
enum cli_exit verb_fresh_check(struct cli_call *call);
enum cli_exit verb_fresh_ls(struct cli_call *call);
enum cli_exit verb_fresh_redo(struct cli_call *call);
enum cli_exit verb_fresh_sweep(struct cli_call *call);
enum cli_exit verb_fresh_why(struct cli_call *call);
enum cli_exit verb_get(struct cli_call *call);
enum cli_exit verb_history(struct cli_call *call);
enum cli_exit verb_import_git(struct cli_call *call);
enum cli_exit verb_import_restbase(struct cli_call *call);
enum cli_exit verb_import_xml(struct cli_call *call);
enum cli_exit verb_jobs_drain(struct cli_call *call);
enum cli_exit verb_jobs_limit(struct cli_call *call);
enum cli_exit verb_jobs_ls(struct cli_call *call);
enum cli_exit verb_jobs_retry(struct cli_call *call);
enum cli_exit verb_jobs_why(struct cli_call *call);
enum cli_exit verb_list_get(struct cli_call *call);
enum cli_exit verb_ls(struct cli_call *call);
enum cli_exit verb_man(struct cli_call *call);
enum cli_exit verb_migrate(struct cli_call *call);
enum cli_exit verb_options(struct cli_call *call);
enum cli_exit verb_origin_check(struct cli_call *call);
enum cli_exit verb_policy_apply(struct cli_call *call);
enum cli_exit verb_policy_show(struct cli_call *call);
enum cli_exit verb_prewarm(struct cli_call *call);
enum cli_exit verb_put(struct cli_call *call);
enum cli_exit verb_queue_add(struct cli_call *call);
enum cli_exit verb_queue_complete(struct cli_call *call);
enum cli_exit verb_queue_create(struct cli_call *call);
enum cli_exit verb_queue_drain(struct cli_call *call);
enum cli_exit verb_queue_info(struct cli_call *call);
enum cli_exit verb_queue_lease(struct cli_call *call);
enum cli_exit verb_queue_ls(struct cli_call *call);
enum cli_exit verb_queue_move(struct cli_call *call);
enum cli_exit verb_queue_pause(struct cli_call *call);
enum cli_exit verb_queue_peek(struct cli_call *call);
enum cli_exit verb_queue_produce(struct cli_call *call);
enum cli_exit verb_queue_rebalance(struct cli_call *call);
enum cli_exit verb_queue_requeue(struct cli_call *call);
enum cli_exit verb_queue_resume(struct cli_call *call);
enum cli_exit verb_queue_retry(struct cli_call *call);
enum cli_exit verb_queue_rm(struct cli_call *call);
enum cli_exit verb_queue_stats(struct cli_call *call);
enum cli_exit verb_queue_top(struct cli_call *call);
enum cli_exit verb_queue_update(struct cli_call *call);
enum cli_exit verb_queue_why(struct cli_call *call);
enum cli_exit verb_render(struct cli_call *call);
enum cli_exit verb_restore(struct cli_call *call);
enum cli_exit verb_rm(struct cli_call *call);
enum cli_exit verb_serve(int argc, char **argv);
void serve_man_options(FILE *to); /* the table of the server's options, as roff */
enum cli_exit verb_slow_ls(struct cli_call *call);
enum cli_exit verb_stash_ls(struct cli_call *call);
enum cli_exit verb_stash_rm(struct cli_call *call);
enum cli_exit verb_store_schema(struct cli_call *call);
enum cli_exit verb_token_create(struct cli_call *call);
enum cli_exit verb_token_lock(struct cli_call *call);
enum cli_exit verb_token_ls(struct cli_call *call);
enum cli_exit verb_token_rm(struct cli_call *call);
enum cli_exit verb_token_unlock(struct cli_call *call);
enum cli_exit verb_version(struct cli_call *call);

#endif
