/* change_explain.c - palimpsest change explain and dry: what rules say to an event that was taken,
 * and what other rules would have said to the last ones. */
#include "cli/change.h"
#include "cli/change_call.h"
#include "cli/out.h"
#include "cli/verbs.h"

#include "event/position.h"

#include <inttypes.h>

/* ---- explain ---- */

void change_item_print(FILE *to, const json_t *item)
{
    static const char *const members[] = { "id",     "position", "state", "taken_at", "due_at",
                                           "stream", "domain",   "title", "type",     "target",
                                           "error",  "why",      "event" };
    char attempts[QUEUE_CELL_BYTES];
    for (size_t i = 0; i < COUNT_OF(members); i++) {
        bool running = str_eq(str_of(members[i]), STR("state")) &&
                       json_is_true(json_object_get(item, "running"));
        if (json_is_string(json_object_get(item, members[i])))
            out_pair(to, members[i], running ? STR("running") : change_text(item, members[i]));
    }
    queue_number_cell(queue_count(item, "attempts"), attempts);
    out_pair(to, "attempts", str_of(attempts));
}

static void print_explained(FILE *to, const json_t *rule)
{
    const json_t *item = json_object_get(rule, "item");
    bool matches = json_is_true(json_object_get(rule, "matches"));
    out_text(to, change_text(rule, "rule"));
    fputs(matches ? ": matches" : ": does not match", to);
    if (json_is_string(json_object_get(rule, "why"))) {
        fputs(matches ? "; " : ": ", to);
        out_text(to, change_text(rule, "why"));
    }
    if (json_is_string(json_object_get(rule, "collapsed_into"))) {
        fputs("; collapsed into ", to);
        out_text(to, change_text(rule, "collapsed_into"));
    }
    if (json_is_object(item)) {
        bool running = json_is_true(json_object_get(item, "running"));
        fputs("; item ", to);
        out_text(to, change_text(item, "id"));
        fputs(" is ", to);
        out_text(to, running ? STR("running") : change_text(item, "state"));
        if (json_is_string(json_object_get(item, "why"))) {
            fputs(": ", to);
            out_text(to, change_text(item, "why"));
        }
        if (json_is_string(json_object_get(item, "error"))) {
            fputs("; last error: ", to);
            out_text(to, change_text(item, "error"));
        }
    }
    fputc('\n', to);
}

void change_explanation_print(FILE *to, const json_t *doc)
{
    static const char *const members[] = { "position", "taken_at", "stream", "domain" };
    const json_t *rule;
    size_t i;
    for (size_t m = 0; m < COUNT_OF(members); m++)
        out_pair(to, members[m], change_text(doc, members[m]));
    if (!json_is_true(json_object_get(doc, "routed")))
        out_pair(to, "routed", STR("no: the rules have not seen it yet"));
    fputc('\n', to);
    json_array_foreach(json_object_get(doc, "rules"), i, rule) print_explained(to, rule);
    if (json_array_size(json_object_get(doc, "rules")) == 0)
        fputs("there are no rules\n", to);
}

enum cli_exit verb_change_explain(struct cli_call *call)
{
    struct event_position p;
    struct client c;
    const char *which = call->operands[0], *stream = cli_value(call, "stream");
    bool by_position = event_position_parse(str_of(which), &p);
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    json_t *body = json_pack("{s:s}", by_position ? "position" : "id", which);
    if (stream != NULL && !by_position)
        (void)json_object_set_new(body, "stream", json_string(stream));
    json_t *doc = change_post(&c, "explain", body, "rules");
    if (doc != NULL && c.json)
        out_json(stdout, doc);
    else if (doc != NULL)
        change_explanation_print(stdout, doc);
    code = doc == NULL ? c.failed : CLI_OK;
    json_decref(doc);
    client_close(&c);
    return code;
}

/* ---- dry ---- */

static void add_dry(struct out_table *t, const json_t *rule)
{
    static const char *const members[] = { "matched", "unsampled", "too_old", "open" };
    char cells[COUNT_OF(members)][QUEUE_CELL_BYTES];
    for (size_t i = 0; i < COUNT_OF(members); i++)
        queue_number_cell(queue_count(rule, members[i]), cells[i]);
    out_table_row(t,
                  (const str[]){ change_text(rule, "rule"), change_text(rule, "effect"),
                                 str_of(cells[0]), str_of(cells[1]), str_of(cells[2]),
                                 str_of(cells[3]), change_text(rule, "example") },
                  queue_count(rule, "matched") == 0 ? "2" : NULL);
}

void change_dry_print(FILE *to, const json_t *doc)
{
    static const struct out_column columns[] = {
        { "RULE", false },   { "EFFECT", false }, { "MATCHED", true },  { "UNSAMPLED", true },
        { "TOO OLD", true }, { "OPEN", true },    { "EXAMPLE", false },
    };
    int64_t looked = queue_count(doc, "looked");
    struct out_table *t = out_table_new(to, columns, COUNT_OF(columns));
    const json_t *rule;
    size_t i;
    json_array_foreach(json_object_get(doc, "rules"), i, rule) add_dry(t, rule);
    out_table_end(&t);
    fprintf(to, "of %" PRId64 " event%s%s\n", looked, looked == 1 ? "" : "s",
            json_is_true(json_object_get(doc, "stopped"))
                ? "; then its time was over, so the newest were not looked at"
                : "");
    json_array_foreach(json_object_get(doc, "rules"), i, rule)
    {
        int64_t untitled = queue_count(rule, "untitled");
        if (untitled == 0)
            continue;
        out_text(to, change_text(rule, "rule"));
        fprintf(to, ": %" PRId64 " of them %s no title: nothing is looked at\n", untitled,
                untitled == 1 ? "has" : "have");
    }
}

static enum cli_exit dry_ask(struct client *c, str rules, int64_t last)
{
    json_t *body = json_object();
    if (last > 0)
        (void)json_object_set_new(body, "last", json_integer(last));
    bool given = c->call->operands_count > 0;
    if (given && json_object_set_new(body, "rules", json_stringn(rules.p, rules.n)) != 0) {
        json_decref(body);
        return cli_fail(c->call, CLI_USAGE, "change dry: %s is not UTF-8", c->call->operands[0]);
    }
    json_t *doc = change_post(c, "dry", body, "rules");
    if (doc != NULL && c->json)
        out_json(stdout, doc);
    else if (doc != NULL)
        change_dry_print(stdout, doc);
    enum cli_exit code = doc == NULL ? c->failed : CLI_OK;
    json_decref(doc);
    return code;
}

enum cli_exit verb_change_dry(struct cli_call *call)
{
    struct client c;
    struct buf text;
    struct rule_set *rules = NULL;
    int64_t last = 0;
    if (!queue_number(call, "last", 1, 100000, &last))
        return CLI_USAGE;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    buf_init(&text, RULE_TEXT_BYTES_MAX);
    bool given = call->operands_count > 0; /* else those in force */
    if (given)
        code = change_read(call, call->operands[0], &text);
    if (given && code == CLI_OK) /* its faults are told with their file */
        code = change_rules(call, call->operands[0], buf_str(&text), stderr, &rules);
    if (code == CLI_OK)
        code = dry_ask(&c, buf_str(&text), last);
    rule_set_unref(&rules);
    buf_fini(&text);
    client_close(&c);
    return code;
}
