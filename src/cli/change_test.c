/* change_test.c - palimpsest change test: what the rules of a file would do with one event. Nothing
 * is sent. A rule's document is made first; as text it is printed from that. */
#include "cli/change.h"
#include "cli/out.h"
#include "cli/verbs.h"
#include "codec/json.h"
#include "codec/yaml_doc.h"
#include "event/log.h"
#include "loop/sysclock.h"

#include <string.h>

struct test {
    const struct cli_call *call;
    str rules_text;
    struct rule_set *rules;
    struct rule_event *event;
    str bytes;
    yaml_document_t doc;        /* of the file of rules */
    const yaml_node_t *domains; /* its section; NULL: it has none */
    /* The rule at hand, and what is said of it. */
    const struct rule *rule;
    const struct rule_verdict *verdict;
    json_t *said, *requests;
    bool failed; /* a template could not be filled in */
};

/* ---- the file of rules, as a configuration ---- */

static bool is_configured(void *ctx, str domain)
{
    struct test *t = ctx;
    return t->domains == NULL || yaml_doc_entry(&t->doc, t->domains, domain) != NULL;
}

static str domain_of(struct test *t, const json_t *event)
{
    str domain = json_body_text(json_object_get(json_object_get(event, "meta"), "domain"));
    str database = json_body_text(json_object_get(event, "database"));
    const yaml_node_t *root = yaml_document_get_root_node(&t->doc);
    const yaml_node_t *databases =
        yaml_doc_entry(&t->doc, yaml_doc_entry(&t->doc, root, STR("change")), STR("databases"));
    const yaml_node_t *of = yaml_doc_entry(&t->doc, databases, database);
    if (domain.n > 0)
        return domain;
    return of != NULL && of->type == YAML_SCALAR_NODE ? yaml_doc_text(of)
                                                      : str_of(cli_value(t->call, "domain"));
}

/* ---- what would be done ---- */

static json_t *text_json(str s)
{
    return json_stringn(s.p == NULL ? "" : s.p, s.n);
}

/* A template filled in; NULL: it cannot be, and that is said. */
static json_t *change_test_filled(struct test *t, const struct rule_template *of, const char *what)
{
    struct buf out;
    struct err_note note;
    const struct rule_domains domains = { .has = is_configured, .ctx = t };
    buf_init(&out, RULE_EXPANDED_BYTES_MAX);
    json_t *text = NULL;
    if (rule_expand(t->event, t->verdict, of, &domains, &out, &note) == ERR_OK) {
        text = text_json(buf_str(&out));
    } else {
        json_object_set_new(t->said, "error", json_sprintf("%s: %s", what, note.text));
        t->failed = true;
    }
    buf_fini(&out);
    return text;
}

/* The headers and the body of a request; false: one of them cannot be. */
static bool request_fill(struct test *t, json_t *request)
{
    const struct rule *r = t->rule;
    json_t *headers = json_object();
    bool fine = true;
    for (unsigned i = 0; i < r->headers_count && fine; i++) {
        json_t *value = change_test_filled(t, r->headers[i].value, "headers");
        fine = value != NULL;
        if (fine)
            json_object_setn_new(headers, r->headers[i].name.p, r->headers[i].name.n, value);
    }
    if (json_object_size(headers) > 0)
        json_object_set(request, "headers", headers);
    json_decref(headers);
    if (r->effect == RULE_JOB || (r->effect == RULE_HTTP && r->body == RULE_BODY_EVENT))
        json_object_set_new(request, "body", text_json(t->bytes));
    if (!fine || r->effect != RULE_HTTP || r->body != RULE_BODY_TEMPLATE)
        return fine;
    json_t *body = change_test_filled(t, r->body_template, "body");
    return body != NULL && json_object_set_new(request, "body", body) == 0;
}

/* base: the target before a path, or to which a whole URL is sent; empty for most. */
static void request_put(struct test *t, str base, const char *url)
{
    json_t *request = json_object();
    str method = t->rule->effect == RULE_PURGE ? STR("PURGE") : t->rule->method;
    bool whole = base.n > 0 && url[0] == 'h';
    json_object_set_new(request, "method", text_json(method));
    json_object_set_new(request, "url",
                        json_sprintf("%.*s%s%s", STR_ARG(base), whole ? " " : "", url));
    if (request_fill(t, request))
        json_array_append(t->requests, request);
    json_decref(request);
}

static void purges_put(struct test *t)
{
    for (unsigned i = 0; i < t->rule->urls_count; i++) {
        json_t *url = change_test_filled(t, t->rule->urls[i], "urls");
        for (unsigned j = 0; j < t->rule->targets.count && url != NULL; j++)
            request_put(t, t->rule->targets.p[j], json_string_value(url));
        json_decref(url);
    }
}

static void effect_say(struct test *t)
{
    json_t *url;
    switch (t->rule->effect) {
    case RULE_LOOK:
    case RULE_TIMELINE:
        if (rule_event_title(t->event).n == 0 && t->rule->effect == RULE_LOOK)
            json_object_set_new(t->said, "note",
                                json_string("the event has no title: nothing is looked at"));
        else
            json_object_set_new(t->said, "title", text_json(rule_event_title(t->event)));
        break;
    case RULE_PURGE:
        purges_put(t);
        break;
    case RULE_HTTP:
        url = change_test_filled(t, t->rule->url, "url");
        if (url != NULL)
            request_put(t, STR(""), json_string_value(url));
        json_decref(url);
        break;
    case RULE_JOB: /* one of the targets, whichever is free */
        for (unsigned i = 0; i < t->rule->targets.count; i++)
            request_put(t, t->rule->targets.p[i], "");
        break;
    case RULE_PRODUCE:
        json_object_set_new(t->said, "queue", text_json(t->rule->queue));
        break;
    case RULE_DROP:
    case RULE_EFFECTS:
        break;
    }
    if (json_array_size(t->requests) > 0)
        json_object_set(t->said, "requests", t->requests);
}

/* ---- what is printed ---- */

static void text_out(const char *before, const json_t *text)
{
    fputs(before, stdout);
    out_text(stdout, json_body_text(text));
}

static void request_out(const json_t *request, bool job)
{
    const char *name;
    json_t *value;
    text_out(job ? "    one of: " : "    ", json_object_get(request, "method"));
    text_out(" ", json_object_get(request, "url"));
    fputc('\n', stdout);
    json_object_foreach(json_object_get(request, "headers"), name, value)
    {
        printf("      %s", name);
        text_out(": ", value);
        fputc('\n', stdout);
    }
    if (json_object_get(request, "body") != NULL) {
        text_out("      ", json_object_get(request, "body"));
        fputc('\n', stdout);
    }
}

static void rule_out(const struct rule *r, const json_t *doc)
{
    size_t i;
    json_t *request;
    bool matches = json_is_true(json_object_get(doc, "matches"));
    printf("%.*s: %s", STR_ARG(r->name), matches ? "matches: " : "no: ");
    out_text(stdout, matches ? str_of(rule_effect_name(r->effect))
                             : json_body_text(json_object_get(doc, "why")));
    if (json_object_get(doc, "note") != NULL)
        text_out(", but ", json_object_get(doc, "note"));
    if (json_object_get(doc, "title") != NULL)
        text_out(" at ", json_object_get(doc, "title"));
    if (json_object_get(doc, "queue") != NULL)
        text_out(" into ", json_object_get(doc, "queue"));
    fputc('\n', stdout);
    json_array_foreach(json_object_get(doc, "requests"), i, request)
        request_out(request, r->effect == RULE_JOB && r->targets.count > 1);
    if (json_object_get(doc, "error") != NULL) {
        text_out("    cannot be done: ", json_object_get(doc, "error"));
        fputc('\n', stdout);
    }
}

static void rule_test(struct test *t, const struct rule *r)
{
    struct rule_verdict v;
    struct err_note why;
    rule_match(t->event, r, &v);
    rule_why(t->event, r, &v, &why);
    bool matches = v.answer == RULE_MATCHES;
    t->rule = r;
    t->verdict = &v;
    t->requests = json_array();
    t->said = json_pack("{s:s%, s:s, s:b}", "rule", r->name.p, r->name.n, "effect",
                        rule_effect_name(r->effect), "matches", matches);
    if (matches)
        effect_say(t);
    else
        json_object_set_new(t->said, "why", json_string(why.text));
    if (cli_flag(t->call, "json"))
        out_json(stdout, t->said);
    else
        rule_out(r, t->said);
    json_decref(t->said);
    json_decref(t->requests);
}

/* ---- the verb ---- */

static enum cli_exit event_test(struct test *t, const json_t *event)
{
    struct sysclock *sysclock = sysclock_new();
    store_time now = { .ns = clock_wall(sysclock_clock(sysclock)).ns };
    sysclock_free(&sysclock);
    struct rule_given given = { .stream = json_body_text(
                                    json_object_get(json_object_get(event, "meta"), "stream")),
                                .domain = domain_of(t, event),
                                .bytes = t->bytes,
                                .at = now,
                                .now = now };
    if (given.stream.n == 0)
        return cli_fail(t->call, CLI_USAGE, "change test: %s has no meta.stream",
                        t->call->operands[1]);
    t->event = rule_event_new(t->rules);
    enum cli_exit code = CLI_OK;
    if (rule_event_begin(t->event, &given) != ERR_OK)
        code = cli_fail(t->call, CLI_USAGE, "change test: %s is no event", t->call->operands[1]);
    for (unsigned i = 0; code == CLI_OK && i < rule_set_count(t->rules); i++)
        rule_test(t, rule_set_at(t->rules, i));
    rule_event_free(&t->event);
    return code == CLI_OK && t->failed ? CLI_FAILED : code;
}

static enum cli_exit change_test_run(struct test *t)
{
    unsigned line;
    struct err_note note = { .text = "" };
    if (yaml_doc_read(t->rules_text, &t->doc, &line, &note) != ERR_OK)
        return cli_fail(t->call, CLI_USAGE, "change test: %s", note.text);
    t->domains = yaml_doc_entry(&t->doc, yaml_document_get_root_node(&t->doc), STR("domains"));
    json_t *event;
    enum cli_exit code = CLI_USAGE;
    if (json_body_parse(t->bytes, &event, &note) != ERR_OK) {
        code = cli_fail(t->call, CLI_USAGE, "change test: %s is no JSON: %s", t->call->operands[1],
                        note.text);
    } else {
        code = event_test(t, event);
        json_decref(event);
    }
    yaml_document_delete(&t->doc);
    return code;
}

enum cli_exit verb_change_test(struct cli_call *call)
{
    struct test t = { .call = call };
    struct buf rules, event;
    if (strcmp(call->operands[0], "-") == 0 && strcmp(call->operands[1], "-") == 0)
        return cli_fail(call, CLI_USAGE, "change test: - is standard input, for one of the two");
    buf_init(&rules, RULE_TEXT_BYTES_MAX);
    buf_init(&event, EVENT_BYTES_MAX);
    enum cli_exit code = change_read(call, call->operands[0], &rules);
    if (code == CLI_OK)
        code = change_read(call, call->operands[1], &event);
    if (code == CLI_OK)
        code = change_rules(call, call->operands[0], buf_str(&rules), stderr, &t.rules);
    if (code == CLI_OK) {
        t.rules_text = buf_str(&rules);
        t.bytes = buf_str(&event);
        while (t.bytes.n > 0 && strchr("\r\n", t.bytes.p[t.bytes.n - 1]) != NULL)
            t.bytes.n--; /* an editor's */
        code = change_test_run(&t);
    }
    rule_set_unref(&t.rules);
    buf_fini(&rules);
    buf_fini(&event);
    return code;
}
