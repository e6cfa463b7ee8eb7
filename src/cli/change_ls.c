/* change_ls.c - palimpsest change ls and show: what rules have to do, what they did, and what keeps
 * them from it. */
#include "cli/change_call.h"
#include "cli/out.h"
#include "cli/verbs.h"

#include <inttypes.h>
#include <string.h>

/* ---- ls ---- */

static const char *colour_of(const json_t *rule)
{
    if (queue_count(rule, "dead") > 0)
        return "31";
    return json_is_true(json_object_get(rule, "paused")) ||
                   json_is_true(json_object_get(rule, "removed"))
               ? "33"
               : NULL;
}

/* For people, what runs is not ready as well. */
static int64_t count_of(const json_t *rule, const char *member)
{
    int64_t n = queue_count(rule, member);
    if (strcmp(member, "ready") != 0)
        return n;
    n -= queue_count(rule, "running");
    return n > 0 ? n : 0; /* they are counted one after the other */
}

/* "HTTP 500 (2m10s ago)" */
static void error_cell(const json_t *rule, char *out, size_t size)
{
    char ago[QUEUE_CELL_BYTES];
    const char *error = queue_text(rule, "last_error");
    change_away_cell(rule, "last_error_at", 1, change_now_ns(), ago);
    if (error[0] == '\0')
        error = "-";
    if (ago[0] == '-')
        (void)snprintf(out, size, "%s", error); /* cut, as the next, if it must be */
    else
        (void)snprintf(out, size, "%s (%s ago)", error, ago);
}

static void add_rule(struct out_table *t, const json_t *rule)
{
    static const char *const members[] = { "ready", "waiting", "scheduled", "dead" };
    char cells[COUNT_OF(members)][QUEUE_CELL_BYTES], running[QUEUE_CELL_BYTES],
        oldest[QUEUE_CELL_BYTES], error[512];
    for (size_t i = 0; i < COUNT_OF(members); i++)
        queue_number_cell(count_of(rule, members[i]), cells[i]);
    error_cell(rule, error, sizeof error);
    change_running_cell(rule, running);
    change_age_cell(rule, "oldest_s", oldest);
    out_table_row(t,
                  (const str[]){ change_text(rule, "name"), change_text(rule, "effect"),
                                 str_of(change_rule_state(rule)), str_of(running), str_of(cells[0]),
                                 str_of(cells[1]), str_of(cells[2]), str_of(cells[3]),
                                 str_of(oldest), str_of(error) },
                  colour_of(rule));
}

void change_rules_print(FILE *to, const json_t *rules)
{
    static const struct out_column columns[] = {
        { "RULE", false },  { "EFFECT", false },     { "STATE", false },    { "RUNNING", true },
        { "READY", true },  { "WAITING", true },     { "SCHEDULED", true }, { "DEAD", true },
        { "OLDEST", true }, { "LAST ERROR", false },
    };
    struct out_table *t = out_table_new(to, columns, COUNT_OF(columns));
    const json_t *rule;
    size_t i;
    json_array_foreach(rules, i, rule) add_rule(t, rule);
    out_table_end(&t);
}

static void print_router(const json_t *router)
{
    char lag[QUEUE_CELL_BYTES];
    int64_t behind = queue_count(router, "behind"), missed = queue_count(router, "missed");
    change_age_cell(router, "lag_s", lag);
    if (behind > 0)
        printf("%" PRId64 " events were not shown to the rules yet, for %s\n", behind, lag);
    const char *at = json_string_value(json_object_get(router, "missed_at"));
    if (missed > 0)
        printf("%" PRId64 " events, of all so far, were removed before the rules saw them%s%s: "
               "lines change.missed of the log say when\n",
               missed, at == NULL ? "" : "; the last were noticed at ", at == NULL ? "" : at);
}

enum cli_exit verb_change_ls(struct cli_call *call)
{
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    json_t *doc = change_status(&c), *rule;
    size_t i;
    if (doc != NULL && c.json) {
        json_array_foreach(json_object_get(doc, "rules"), i, rule) out_json(stdout, rule);
    } else if (doc != NULL) {
        change_rules_print(stdout, json_object_get(doc, "rules"));
        print_router(json_object_get(doc, "router"));
    }
    code = doc == NULL ? c.failed : CLI_OK;
    json_decref(doc);
    client_close(&c);
    return code;
}

/* ---- show ---- */

static void pair_count(FILE *to, const json_t *rule, const char *member)
{
    char cell[QUEUE_CELL_BYTES];
    queue_number_cell(count_of(rule, member), cell);
    out_pair(to, member, str_of(cell));
}

/* Of types that have one of their own, by jobs limit. */
static void pair_types(FILE *to, const json_t *types)
{
    const char *type;
    const json_t *count;
    json_object_foreach((json_t *)(uintptr_t)types, type, count)
    {
        char line[256];
        (void)snprintf(line, sizeof line, "%s: %" JSON_INTEGER_FORMAT " at once, by jobs limit",
                       type, json_integer_value(count)); /* cut, if it must be */
        out_pair(to, "  of type", str_of(line));
    }
}

/* What the rule itself says of it. */
static void pair_own(FILE *to, const json_t *rule)
{
    const char *by, *name;
    const json_t *limits, *count;
    char line[256];
    json_object_foreach((json_t *)(uintptr_t)json_object_get(rule, "concurrency_of"), by, limits)
    {
        json_object_foreach((json_t *)(uintptr_t)limits, name, count)
        {
            (void)snprintf(line, sizeof line, "%s %s: %" JSON_INTEGER_FORMAT " at once", by, name,
                           json_integer_value(count)); /* cut, if it must be */
            out_pair(to, "  of", str_of(line));
        }
    }
    if (!json_is_integer(json_object_get(rule, "retries")))
        return;
    (void)snprintf(line, sizeof line, "%" PRId64 ", after %s, each wait %" PRId64 " times as long",
                   queue_count(rule, "retries"), queue_text(rule, "backoff"),
                   queue_count(rule, "backoff_factor")); /* fits */
    out_pair(to, "retries", str_of(line));
}

static void pair_limit(FILE *to, const json_t *rule)
{
    const json_t *limit = json_object_get(rule, "limit");
    const char *rate = queue_text(limit, "rate");
    char line[128];
    (void)snprintf(line, sizeof line, "%" PRId64 " at once%s%s%s",
                   queue_count(limit, "concurrency"), rate[0] ? ", " : "", rate,
                   json_is_true(json_object_get(rule, "override"))
                       ? "; by change limit, until the server starts again"
                       : ""); /* cut, if it must be */
    out_pair(to, "limit", str_of(line));
    pair_types(to, json_object_get(limit, "types"));
    pair_own(to, rule);
}

void change_rule_print(FILE *to, const json_t *rule)
{
    static const char *const counts[] = { "running", "ready",    "waiting",   "scheduled",
                                          "dead",    "matched",  "collapsed", "done",
                                          "ignored", "failures", "died",      "dropped",
                                          "refused", "looped",   "sampled",   "expired" };
    char oldest[QUEUE_CELL_BYTES];
    change_age_cell(rule, "oldest_s", oldest);
    out_pair(to, "rule", change_text(rule, "name"));
    out_pair(to, "effect", change_text(rule, "effect"));
    out_pair(to, "state", str_of(change_rule_state(rule)));
    out_pair(to, "position", change_text(rule, "position"));
    out_pair(to, "oldest", str_of(oldest));
    pair_limit(to, rule);
    for (size_t i = 0; i < COUNT_OF(counts); i++)
        pair_count(to, rule, counts[i]);
    out_pair(to, "last error", change_text(rule, "last_error"));
    if (json_is_string(json_object_get(rule, "last_error_at")))
        out_pair(to, "  at", change_text(rule, "last_error_at"));
}

static void add_target(struct out_table *t, const json_t *target)
{
    char running[QUEUE_CELL_BYTES], failed[QUEUE_CELL_BYTES], until[128];
    bool drained = json_is_true(json_object_get(target, "drained"));
    bool paused = json_is_string(json_object_get(target, "paused_until"));
    queue_number_cell(queue_count(target, "running"), running);
    queue_number_cell(queue_count(target, "failed"), failed);
    (void)snprintf(until, sizeof until, "paused until %s", queue_text(target, "paused_until"));
    out_table_row(t,
                  (const str[]){ change_text(target, "name"),
                                 drained  ? STR("drained")
                                 : paused ? str_of(until)
                                          : STR("on"),
                                 str_of(running), str_of(failed),
                                 change_text(target, "last_error") },
                  drained || paused ? "33" : NULL);
}

void change_targets_print(FILE *to, const json_t *targets)
{
    static const struct out_column columns[] = {
        { "TARGET", false }, { "STATE", false },      { "RUNNING", true },
        { "FAILED", true },  { "LAST ERROR", false },
    };
    struct out_table *t = out_table_new(to, columns, COUNT_OF(columns));
    const json_t *target;
    size_t i;
    json_array_foreach(targets, i, target) add_target(t, target);
    out_table_end(&t);
}

static void change_ls_show(const struct client *c, const json_t *rule)
{
    const json_t *targets = json_object_get(rule, "targets");
    if (c->json) {
        out_json(stdout, rule);
        return;
    }
    change_rule_print(stdout, rule);
    if (json_array_size(targets) > 0) {
        putchar('\n');
        change_targets_print(stdout, targets);
    }
}

enum cli_exit verb_change_show(struct cli_call *call)
{
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    json_t *doc = change_status(&c);
    const json_t *rule = doc == NULL ? NULL : change_rule_of(&c, doc, call->operands[0]);
    if (rule != NULL)
        change_ls_show(&c, rule);
    code = rule == NULL ? c.failed : CLI_OK;
    json_decref(doc);
    client_close(&c);
    return code;
}
