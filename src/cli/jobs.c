/* jobs.c - palimpsest jobs: what rules that run jobs have to do, by type and domain, and how that
 * is steered. A job is an item of such a rule; it is looked for in all of them. Why one of them
 * does not run is in change_items.c. Those that are retried by type or domain are found in the
 * listing of items: so many are looked at, and no more. */
#include "cli/change_call.h"
#include "cli/out.h"
#include "cli/verbs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS_PAGE = 1000, JOBS_LOOK_MAX = 100 * 1000, JOBS_KEY_BYTES = 1024 };

static bool is_job_rule(const json_t *rule)
{
    return str_eq(change_text(rule, "effect"), STR("job"));
}

static json_t *of_rule(const json_t *rule)
{
    json_t *body = json_object();
    (void)json_object_set(body, "rule", json_object_get(rule, "name")); /* dies with its call */
    return body;
}

static void set_option(json_t *body, const struct cli_call *call, const char *name)
{
    if (cli_value(call, name) != NULL)
        (void)json_object_set_new(body, name, json_string(cli_value(call, name)));
}

/* ---- all of a rule, page by page ---- */

struct jobs {
    struct client c;
    json_t *status; /* of all rules */
    bool failed;    /* it was said why */
    bool cut;       /* there are more than were looked at */
    /* What a walk fills in. */
    json_t *rows, *by_key; /* of ls */
    int64_t count;
    bool known; /* one rule at least has the job of that ID */
};
typedef void job_fn(struct jobs *j, const json_t *rule, const json_t *item);

static json_t *page_ask(struct jobs *j, const json_t *rule, const char *state, const char *pivot)
{
    json_t *body = of_rule(rule);
    (void)json_object_set_new(body, "limit", json_integer(JOBS_PAGE));
    set_option(body, j->c.call, "type");
    set_option(body, j->c.call, "domain");
    if (state != NULL)
        (void)json_object_set_new(body, "state", json_string(state));
    if (pivot[0] != '\0')
        (void)json_object_set_new(body, "pivot", json_string(pivot));
    return change_post(&j->c, "items", body, "items");
}

/* state NULL: in all. */
static void rule_walk(struct jobs *j, const json_t *rule, const char *state, job_fn *each)
{
    char pivot[32] = "";
    for (int64_t looked = 0; !j->failed;) {
        size_t i;
        json_t *item, *page = page_ask(j, rule, state, pivot);
        j->failed = page == NULL;
        json_array_foreach(json_object_get(page, "items"), i, item) each(j, rule, item);
        looked += (int64_t)json_array_size(json_object_get(page, "items"));
        bool more = str_to_cstr(change_text(page, "next"), pivot, sizeof pivot) &&
                    json_is_string(json_object_get(page, "next"));
        json_decref(page);
        if (!more)
            return;
        if (looked >= JOBS_LOOK_MAX) {
            j->cut = true;
            return;
        }
    }
}

static void jobs_walk(struct jobs *j, const char *state, job_fn *each)
{
    const json_t *rule;
    size_t i;
    json_array_foreach(json_object_get(j->status, "rules"), i, rule)
    {
        if (is_job_rule(rule) && !j->failed)
            rule_walk(j, rule, state, each);
    }
}

static enum cli_exit jobs_open(struct jobs *j, struct cli_call *call)
{
    *j = (struct jobs){ .count = 0 };
    enum cli_exit code = client_open(&j->c, call);
    if (code != CLI_OK)
        return code;
    j->status = change_status(&j->c);
    j->failed = j->status == NULL;
    return CLI_OK;
}

static enum cli_exit jobs_close(struct jobs *j, enum cli_exit code)
{
    if (j->failed)
        code = j->c.failed;
    else if (j->cut)
        cli_warn(j->c.call, "there are more jobs than were looked at");
    json_decref(j->status);
    json_decref(j->rows);
    json_decref(j->by_key);
    client_close(&j->c);
    return code;
}

/* ---- ls ---- */

static const char *const job_counts[] = { "running", "ready", "waiting", "scheduled", "dead" };

static json_t *row_of(struct jobs *j, str type, str domain)
{
    char key[JOBS_KEY_BYTES];
    (void)snprintf(key, sizeof key, "%.*s\n%.*s", STR_ARG(type),
                   STR_ARG(domain)); /* cut at worst */
    json_t *row = json_object_get(j->by_key, key);
    if (row != NULL)
        return row;
    row = json_pack("{s:s%, s:s%}", "type", type.p, type.n, "domain", domain.p, domain.n);
    for (size_t i = 0; i < COUNT_OF(job_counts); i++)
        (void)json_object_set_new(row, job_counts[i], json_integer(0));
    (void)json_object_set_new(row, "oldest", json_null());
    (void)json_object_set(j->by_key, key, row);
    (void)json_array_append_new(j->rows, row);
    return row;
}

/* What runs is ready, where a state was asked for. */
static bool is_counted(const char *state, const char *count)
{
    return state == NULL || strcmp(state, count) == 0 ||
           (strcmp(state, "ready") == 0 && strcmp(count, "running") == 0);
}

static bool is_asked(const struct jobs *j, const char *option, str name)
{
    const char *wanted = cli_value(j->c.call, option);
    return wanted == NULL || str_eq(str_of(wanted), name);
}

static void lane_count(struct jobs *j, const json_t *lane)
{
    const char *state = cli_value(j->c.call, "state");
    str type = change_text(lane, "type"), domain = change_text(lane, "domain");
    int64_t all = 0;
    for (size_t i = 0; i < COUNT_OF(job_counts); i++)
        all += is_counted(state, job_counts[i]) ? queue_count(lane, job_counts[i]) : 0;
    if (all == 0 || !is_asked(j, "type", type) || !is_asked(j, "domain", domain))
        return;
    json_t *row = row_of(j, type, domain);
    for (size_t i = 0; i < COUNT_OF(job_counts); i++) {
        json_t *count = json_object_get(row, job_counts[i]);
        if (is_counted(state, job_counts[i]))
            (void)json_integer_set(count,
                                   json_integer_value(count) + queue_count(lane, job_counts[i]));
    }
    const char *taken = queue_text(lane, "oldest_at"), *oldest = queue_text(row, "oldest");
    if (taken[0] != '\0' && (oldest[0] == '\0' || strcmp(taken, oldest) < 0))
        (void)json_object_set(row, "oldest", json_object_get(lane, "oldest_at"));
}

static void rule_count(struct jobs *j, const json_t *rule)
{
    const json_t *lane;
    size_t i;
    json_t *doc = change_post(&j->c, "lanes", of_rule(rule), "lanes");
    j->failed = doc == NULL;
    j->cut |= json_is_true(json_object_get(doc, "cut"));
    json_array_foreach(json_object_get(doc, "lanes"), i, lane) lane_count(j, lane);
    json_decref(doc);
}

static void add_row(struct out_table *t, const json_t *row)
{
    char cells[COUNT_OF(job_counts)][QUEUE_CELL_BYTES];
    for (size_t i = 0; i < COUNT_OF(job_counts); i++)
        queue_number_cell(queue_count(row, job_counts[i]), cells[i]);
    out_table_row(t,
                  (const str[]){ change_text(row, "type"), change_text(row, "domain"),
                                 str_of(cells[0]), str_of(cells[1]), str_of(cells[2]),
                                 str_of(cells[3]), str_of(cells[4]), change_text(row, "oldest") },
                  queue_count(row, "dead") > 0 ? "31" : NULL);
}

static void print_rows(const struct jobs *j)
{
    static const struct out_column columns[] = {
        { "TYPE", false },   { "DOMAIN", false },   { "RUNNING", true }, { "READY", true },
        { "WAITING", true }, { "SCHEDULED", true }, { "DEAD", true },    { "OLDEST", false },
    };
    struct out_table *t = j->c.json ? NULL : out_table_new(stdout, columns, COUNT_OF(columns));
    const json_t *row;
    size_t i;
    json_array_foreach(j->rows, i, row)
    {
        if (t == NULL)
            out_json(stdout, row);
        else
            add_row(t, row);
    }
    if (t != NULL)
        out_table_end(&t);
}

static bool is_state(const char *state)
{
    for (size_t i = 1; state != NULL && i < COUNT_OF(job_counts); i++)
        if (strcmp(state, job_counts[i]) == 0)
            return true;
    return state == NULL;
}

enum cli_exit verb_jobs_ls(struct cli_call *call)
{
    struct jobs j;
    if (!is_state(cli_value(call, "state")))
        return cli_fail(call, CLI_USAGE,
                        "jobs ls: --state: ready, waiting, scheduled or dead is wanted");
    enum cli_exit code = jobs_open(&j, call);
    if (code != CLI_OK)
        return code;
    j.rows = json_array();
    j.by_key = json_object();
    const json_t *rule;
    size_t i;
    json_array_foreach(json_object_get(j.status, "rules"), i, rule)
    {
        if (is_job_rule(rule) && !j.failed)
            rule_count(&j, rule);
    }
    if (!j.failed)
        print_rows(&j);
    return jobs_close(&j, CLI_OK);
}

/* ---- retry ---- */

/* Calls a rule about the job, and takes the answer. Absent: nothing. */
static json_t *job_ask(struct jobs *j, const json_t *rule, const char *name, const char *id)
{
    bool absent = false;
    json_t *body = of_rule(rule);
    (void)json_object_set_new(body, "id", json_string(id));
    json_t *doc = change_try(&j->c, name, body, &absent);
    j->failed = j->failed || (doc == NULL && !absent);
    return doc;
}

static enum cli_exit no_job(const struct cli_call *call)
{
    return cli_fail(call, CLI_NOT_FOUND, "%s: no rule has a job %s: jobs why says what it is",
                    call->verb->name, call->operands[0]);
}

static void one_retry(struct jobs *j, const json_t *rule, const char *id)
{
    json_t *doc = job_ask(j, rule, "retry", id);
    j->count += queue_count(doc, "count");
    j->known |= doc != NULL;
    json_decref(doc);
}

static void item_retry(struct jobs *j, const json_t *rule, const json_t *item)
{
    one_retry(j, rule, queue_text(item, "id"));
}

/* id NULL: all of each rule, in one call a rule. */
static void rules_retry(struct jobs *j, const char *id)
{
    const json_t *rule;
    size_t i;
    json_array_foreach(json_object_get(j->status, "rules"), i, rule)
    {
        if (!is_job_rule(rule) || j->failed)
            continue;
        if (id != NULL) {
            one_retry(j, rule, id);
            continue;
        }
        json_t *doc = change_post(&j->c, "retry", of_rule(rule), "count");
        j->failed = doc == NULL;
        j->count += queue_count(doc, "count");
        json_decref(doc);
    }
}

enum cli_exit verb_jobs_retry(struct cli_call *call)
{
    struct jobs j;
    int64_t id;
    bool one = call->operands_count > 0;
    bool some = cli_value(call, "type") != NULL || cli_value(call, "domain") != NULL;
    if (one && some)
        return cli_fail(call, CLI_USAGE, "jobs retry: give ID, or --type and --domain");
    if (one && !change_operand(call, 0, 1, INT64_MAX, &id))
        return CLI_USAGE;
    enum cli_exit code = jobs_open(&j, call);
    if (code != CLI_OK)
        return code;
    if (some) {
        jobs_walk(&j, "dead", item_retry);
        jobs_walk(&j, "scheduled", item_retry);
    } else {
        rules_retry(&j, one ? call->operands[0] : NULL);
    }
    if (!j.failed && one && !j.known)
        code = no_job(call);
    else if (!j.failed && j.c.json)
        printf("{\"count\":%" PRId64 "}\n", j.count);
    else if (!j.failed)
        printf("%" PRId64 " job%s ready again%s\n", j.count, j.count == 1 ? "" : "s",
               one && j.count == 0 ? CHANGE_NOT_RETRIED : "");
    return jobs_close(&j, code);
}

/* ---- limit ---- */

/* count 0: the rule's own again. */
static void rule_limit(struct jobs *j, const json_t *rule, const char *type, int64_t count)
{
    json_t *body = of_rule(rule);
    (void)json_object_set_new(body, "type", json_string(type));
    if (count > 0)
        (void)json_object_set_new(body, "concurrency", json_integer(count));
    json_t *doc = change_post(&j->c, "limit", body, "name");
    j->failed = doc == NULL;
    j->count += doc != NULL;
    if (doc != NULL && j->c.json)
        out_json(stdout, doc);
    json_decref(doc);
}

static bool is_chosen(const struct cli_call *call, const json_t *rule)
{
    const char *name = cli_value(call, "rule");
    return is_job_rule(rule) && (name == NULL || str_eq(change_text(rule, "name"), str_of(name)));
}

enum cli_exit verb_jobs_limit(struct cli_call *call)
{
    struct jobs j;
    int64_t count = 0;
    const json_t *rule;
    size_t i;
    const char *type = call->operands[0];
    bool reset = cli_flag(call, "reset");
    if (reset == (call->operands_count > 1))
        return cli_fail(call, CLI_USAGE, "jobs limit: give N, or --reset");
    if (!reset && !change_operand(call, 1, 1, 10000, &count))
        return CLI_USAGE;
    enum cli_exit code = jobs_open(&j, call);
    if (code != CLI_OK)
        return code;
    json_array_foreach(json_object_get(j.status, "rules"), i, rule)
    {
        if (is_chosen(call, rule) && !j.failed)
            rule_limit(&j, rule, type, count);
    }
    if (!j.failed && j.count == 0)
        code = cli_fail(call, CLI_NOT_FOUND, "jobs limit: there is no such rule that runs jobs");
    if (!j.failed && j.count > 0 && !j.c.json) {
        out_text(stdout, str_of(type));
        if (reset)
            puts(" has the limits of its rule again");
        else
            printf(" runs %" PRId64 " at once, until the server starts again\n", count);
    }
    return jobs_close(&j, code);
}

/* ---- drain ---- */

/* was: the target, before. */
static void undone_print(const json_t *was)
{
    bool drained = json_is_true(json_object_get(was, "drained"));
    bool paused = json_is_string(json_object_get(was, "paused_until"));
    if (!drained && !paused) {
        puts(" was neither drained nor paused: it gets work as before");
        return;
    }
    fputs(" gets work again", stdout);
    if (paused) {
        printf("; it was paused until %s: ", queue_text(was, "paused_until"));
        out_text(stdout, change_text(was, "last_error"));
    }
    putchar('\n');
}

enum cli_exit verb_jobs_drain(struct cli_call *call)
{
    struct client c;
    bool undo = cli_flag(call, "undo");
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    json_t *doc =
        change_post(&c, "drain",
                    json_pack("{s:s, s:b}", "target", call->operands[0], "drained", !undo),
                    "drained");
    if (doc != NULL && c.json) {
        out_json(stdout, doc);
    } else if (doc != NULL) {
        out_text(stdout, str_of(call->operands[0]));
        if (undo)
            undone_print(json_object_get(doc, "was"));
        else
            puts(" gets no more work; what runs there comes to its end");
    }
    code = doc == NULL ? c.failed : CLI_OK;
    json_decref(doc);
    client_close(&c);
    return code;
}
