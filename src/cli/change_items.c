/* change_items.c - palimpsest change items, change why and jobs why: what a rule has still to do,
 * item by item, and why one of them does not run.
 *
 * Who asks why names an item, or an event: of that each rule may have an item of its own. All rules
 * are asked, so that "there is none" is true. Items of several rules may have one ID. */
#include "cli/change_call.h"
#include "cli/out.h"
#include "cli/verbs.h"

#include "event/position.h"

#include <inttypes.h>

enum { ITEMS_PAGE = 1000, ITEMS_DEFAULT = 100, ITEMS_MAX = 100 * 1000 };

/* ---- items ---- */

static str item_state(const json_t *item)
{
    return json_is_true(json_object_get(item, "running")) ? STR("running")
                                                          : change_text(item, "state");
}

static void add_item(struct out_table *t, const json_t *item, int64_t now)
{
    char attempts[QUEUE_CELL_BYTES], age[QUEUE_CELL_BYTES], due[QUEUE_CELL_BYTES], what[512];
    const char *type = queue_text(item, "type"), *title = queue_text(item, "title");
    bool dead = str_eq(change_text(item, "state"), STR("dead"));
    queue_number_cell(queue_count(item, "attempts"), attempts);
    change_away_cell(item, "taken_at", 1, now, age);
    change_away_cell(item, "due_at", -1, now, due);
    bool both = type[0] != '\0' && title[0] != '\0', none = type[0] == '\0' && title[0] == '\0';
    (void)snprintf(what, sizeof what, "%s%s%s%s", type, both ? " " : "", title,
                   none ? "-" : ""); /* cut, if it must be */
    out_table_row(t,
                  (const str[]){ change_text(item, "id"), item_state(item), str_of(attempts),
                                 str_of(age), str_of(due), change_text(item, "domain"),
                                 str_of(what), change_text(item, "target"),
                                 change_text(item, "error"), change_text(item, "why") },
                  dead ? "31" : NULL);
}

static struct out_table *items_table(void)
{
    static const struct out_column columns[] = {
        { "ID", false },    { "STATE", false },  { "ATTEMPTS", true }, { "AGE", true },
        { "DUE", true },    { "DOMAIN", false }, { "WHAT", false },    { "TARGET", false },
        { "ERROR", false }, { "WHY", false },
    };
    return out_table_new(stdout, columns, COUNT_OF(columns));
}

static void set_option(json_t *body, const struct cli_call *call, const char *name)
{
    if (cli_value(call, name) != NULL)
        (void)json_object_set_new(body, name, json_string(cli_value(call, name)));
}

static json_t *items_ask(struct client *c, const char *pivot, int64_t limit)
{
    json_t *body = json_pack("{s:s, s:I}", "rule", c->call->operands[0], "limit",
                             (json_int_t)(limit < ITEMS_PAGE ? limit : ITEMS_PAGE));
    set_option(body, c->call, "state");
    set_option(body, c->call, "type");
    set_option(body, c->call, "domain");
    if (pivot[0] != '\0')
        (void)json_object_set_new(body, "pivot", json_string(pivot));
    return change_post(c, "items", body, "items");
}

static void items_print(struct out_table *t, const json_t *items)
{
    const json_t *item;
    size_t i;
    int64_t now = change_now_ns();
    json_array_foreach(items, i, item)
    {
        if (t == NULL)
            out_json(stdout, item);
        else
            add_item(t, item, now);
    }
}

enum cli_exit verb_change_items(struct cli_call *call)
{
    struct client c;
    int64_t limit = ITEMS_DEFAULT;
    char pivot[32] = "";
    if (!queue_number(call, "limit", 1, ITEMS_MAX, &limit))
        return CLI_USAGE;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    struct out_table *t = c.json ? NULL : items_table();
    bool more = true;
    while (code == CLI_OK && more && limit > 0) {
        json_t *page = items_ask(&c, pivot, limit);
        const json_t *items = json_object_get(page, "items");
        code = page == NULL ? c.failed : CLI_OK;
        items_print(t, items);
        limit -= (int64_t)json_array_size(items);
        more = json_is_string(json_object_get(page, "next")) &&
               str_to_cstr(change_text(page, "next"), pivot, sizeof pivot);
        json_decref(page);
    }
    if (code == CLI_OK && t != NULL)
        out_table_end(&t);
    else if (t != NULL)
        out_table_drop(&t);
    if (code == CLI_OK && more)
        cli_warn(call, "there are more: --limit says how many are listed");
    client_close(&c);
    return code;
}

/* ---- why ---- */

struct whys {
    struct client c;
    const char *which; /* the operand */
    json_t *status;
    json_t *found; /* items, with "rule" and "effect"; of no item: "rule", "effect" and "why" */
    bool jobs;     /* those of rules that run jobs are meant */
    bool has_jobs; /* one of found is */
    bool failed;   /* it was said why */
    bool taken;    /* an event is meant, and the log has it */
};

static str effect_of(const struct whys *w, str rule)
{
    const json_t *each;
    size_t i;
    json_array_foreach(json_object_get(w->status, "rules"), i, each)
    {
        if (str_eq(change_text(each, "name"), rule))
            return change_text(each, "effect");
    }
    return STR("-");
}

/* doc is taken over. */
static void why_add(struct whys *w, str rule, json_t *doc)
{
    str effect = effect_of(w, rule);
    (void)json_object_set_new(doc, "rule", json_stringn(rule.p, rule.n));
    (void)json_object_set_new(doc, "effect", json_stringn(effect.p, effect.n));
    w->has_jobs = w->has_jobs || str_eq(effect, STR("job"));
    (void)json_array_append_new(w->found, doc);
}

static void why_number(struct whys *w)
{
    const json_t *rule;
    size_t i;
    json_array_foreach(json_object_get(w->status, "rules"), i, rule)
    {
        bool absent = false;
        if (w->failed)
            return;
        json_t *body =
            json_pack("{s:O, s:s}", "rule", json_object_get(rule, "name"), "id", w->which);
        json_t *item = change_try(&w->c, "item", body, &absent);
        w->failed = item == NULL && !absent;
        if (item != NULL)
            why_add(w, change_text(rule, "name"), item);
    }
}

/* What became of the event by that rule. */
static void why_explained(struct whys *w, const json_t *doc, const json_t *rule)
{
    json_t *item = json_object_get(rule, "item");
    if (!json_is_true(json_object_get(rule, "matches")))
        return;
    if (json_is_object(item)) {
        if (str_eq(change_text(item, "position"), change_text(doc, "position")))
            (void)json_object_set(item, "event", json_object_get(doc, "event"));
        if (json_is_string(json_object_get(rule, "collapsed_into")))
            (void)json_object_set(item, "collapsed_into", json_object_get(rule, "collapsed_into"));
        why_add(w, change_text(rule, "rule"), json_incref(item));
        return;
    }
    why_add(w, change_text(rule, "rule"),
            json_pack("{s:n, s:O}", "state", "why", json_object_get(rule, "why")));
}

static void why_event(struct whys *w)
{
    struct event_position p;
    const json_t *rule;
    size_t i;
    bool absent = false;
    bool by_position = event_position_parse(str_of(w->which), &p);
    json_t *doc =
        change_try(&w->c, "explain", json_pack("{s:s}", by_position ? "position" : "id", w->which),
                   &absent);
    w->failed = doc == NULL && !absent;
    w->taken = doc != NULL;
    json_array_foreach(json_object_get(doc, "rules"), i, rule) why_explained(w, doc, rule);
    json_decref(doc);
}

static void why_print(const struct whys *w, const json_t *doc, bool first)
{
    if (w->c.json) {
        out_json(stdout, doc);
        return;
    }
    if (!first)
        putchar('\n');
    out_pair(stdout, "rule", change_text(doc, "rule"));
    if (json_is_string(json_object_get(doc, "collapsed_into")))
        out_pair(stdout, "collapsed into", change_text(doc, "collapsed_into"));
    if (json_is_string(json_object_get(doc, "id")))
        change_item_print(stdout, doc);
    else
        out_pair(stdout, "why", change_text(doc, "why"));
}

static enum cli_exit why_tell(const struct whys *w)
{
    const struct cli_call *call = w->c.call;
    const json_t *doc;
    size_t i, printed = 0;
    int64_t number;
    json_array_foreach(w->found, i, doc)
    {
        bool meant = !w->jobs || !w->has_jobs || str_eq(change_text(doc, "effect"), STR("job"));
        if (meant)
            why_print(w, doc, printed++ == 0);
    }
    if (printed > 0)
        return CLI_OK;
    if (w->taken)
        return cli_fail(call, CLI_NOT_FOUND,
                        "%s: no rule wants the event %s: change explain says what each says to it",
                        call->verb->name, w->which);
    if (str_to_i64(str_of(w->which), &number))
        return cli_fail(call, CLI_NOT_FOUND, "%s: no rule has %s %s: it is done, or was dropped",
                        call->verb->name, w->jobs ? "a job" : "an item", w->which);
    return cli_fail(call, CLI_NOT_FOUND,
                    "%s: %s is no item's number, and the event log has no such event, or no more",
                    call->verb->name, w->which);
}

static enum cli_exit why(struct cli_call *call, bool jobs)
{
    struct whys w = { .which = call->operands[0], .jobs = jobs };
    int64_t number;
    enum cli_exit code = client_open(&w.c, call);
    if (code != CLI_OK)
        return code;
    w.status = change_status(&w.c);
    w.found = json_array();
    w.failed = w.status == NULL;
    if (!w.failed && str_to_i64(str_of(w.which), &number) && number > 0)
        why_number(&w);
    if (!w.failed && json_array_size(w.found) == 0)
        why_event(&w);
    code = w.failed ? w.c.failed : why_tell(&w);
    json_decref(w.status);
    json_decref(w.found);
    client_close(&w.c);
    return code;
}

enum cli_exit verb_change_why(struct cli_call *call)
{
    return why(call, false);
}

/* An item that is no job is told of, too. */
enum cli_exit verb_jobs_why(struct cli_call *call)
{
    return why(call, true);
}
