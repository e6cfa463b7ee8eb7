/* verb_options.h - the options each verb takes. A table ends with a row without a name. Private to
 * verbs.c. */
#ifndef CLI_VERB_OPTIONS_H
#define CLI_VERB_OPTIONS_H

#include "cli/cli.h"

extern const struct cli_option get_options[], put_options[], import_git_options[],
    import_restbase_options[], migrate_options[], import_options[], prewarm_options[],
    check_options[], backup_options[], restore_options[], serve_options[], origin_check_options[],
    options_options[], token_options[], token_create_options[], queue_options[],
    queue_create_options[], queue_update_options[], queue_rm_options[], queue_ls_options[],
    queue_produce_options[], queue_lease_options[], queue_complete_options[], queue_retry_options[],
    queue_peek_options[], queue_requeue_options[], queue_why_options[], queue_top_options[],
    flight_options[], slow_options[], fresh_options[], fresh_sweep_options[], fresh_redo_options[],
    change_options[], change_explain_options[], change_replay_options[], change_limit_options[],
    change_items_options[], change_drop_options[], change_dry_options[], timeline_ls_options[],
    change_tail_options[], change_test_options[], jobs_ls_options[], jobs_retry_options[],
    jobs_limit_options[], jobs_drain_options[], list_get_options[], stash_ls_options[],
    stash_rm_options[], store_schema_options[], policy_show_options[], policy_apply_options[],
    man_options[], json_options[];

#endif
