/* change_call.h - what the verbs that look at rules and steer them share: calls to the server, and
 * cells. Private to cli.
 *
 * A rule, a target and an item are JSON objects as docs/api.md, 8 has them. Thread: one. */
#ifndef CLI_CHANGE_CALL_H
#define CLI_CHANGE_CALL_H

#include "cli/client.h"
#include "cli/queue.h"

/* POST /v1/admin.change.NAME; body is taken over, and NULL for want of memory. NULL: it was said
 * why, and the code is in c->failed. Owner: caller. */
MUST_CHECK json_t *change_post(struct client *c, const char *name, json_t *body,
                               const char *member);
/* The same; *absent, and nothing is told: it answered 404. */
MUST_CHECK json_t *change_try(struct client *c, const char *name, json_t *body, bool *absent);
/* GET /v1/admin.change. As change_post. */
MUST_CHECK json_t *change_status(struct client *c);
/* The rule of that name; NULL: it was said that there is none. Borrowed from status. */
MUST_CHECK const json_t *change_rule_of(struct client *c, const json_t *status, const char *name);

/* A text, or "-". */
str change_text(const json_t *doc, const char *member);
/* A time as oldest_s has it; - when there is none. */
void change_age_cell(const json_t *doc, const char *member, char out[QUEUE_CELL_BYTES]);
/* How long an instant is past (sign 1) or to come (-1); - when there is none. */
void change_away_cell(const json_t *doc, const char *member, int64_t sign, int64_t now,
                      char out[QUEUE_CELL_BYTES]);
int64_t change_now_ns(void); /* by the clock of this machine */
/* "paused", "on", "removed", "replays" */
const char *change_rule_state(const json_t *rule);
/* "2/4": what runs, and its limit. */
void change_running_cell(const json_t *rule, char out[QUEUE_CELL_BYTES]);
/* A whole number as an operand, from min to max. False: it was said. */
MUST_CHECK bool change_operand(const struct cli_call *call, unsigned operand, int64_t min,
                               int64_t max, int64_t *value);

/* Behind "0 items ready again" of one that is there. */
#define CHANGE_NOT_RETRIED                                                                         \
    ": it is neither dead nor scheduled; change why ID says what it waits for"

/* Tables and lines, for tests apart from the server. */
void change_rules_print(FILE *to, const json_t *rules);
void change_rule_print(FILE *to, const json_t *rule);
void change_targets_print(FILE *to, const json_t *targets);
void change_item_print(FILE *to, const json_t *item);
void change_explanation_print(FILE *to, const json_t *doc);
void change_dry_print(FILE *to, const json_t *doc);

#endif
