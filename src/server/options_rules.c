/* options_rules.c - change.rules: read from the configuration file, all faults kept, and what
 * differs between the rules of two options. */
#include "codec/yaml_doc.h"
#include "rule/rule.h"
#include "server/options_impl.h"

#include <stdio.h>
#include <string.h>

struct rules_reading {
    struct options *o;
    const char *file;
    struct err_note *note; /* the first fault */
};

static void rules_told(void *ctx, const struct rule_fault *fault)
{
    struct rules_reading *r = ctx;
    struct options_from from = { .file = r->file, .line = fault->line };
    struct err_note line;
    str rule = fault->rule.n > 0 ? fault->rule : STR("change.rules");
    (void)option_fail(from, STR_NONE, &line, "%.*s: %s", STR_ARG(rule),
                      fault->text); /* ERR_BAD, as the caller says */
    if (r->o->faults.n == 0)
        err_note_set(r->note, "%s", line.text);
    else
        buf_put_c(&r->o->faults, '\n');
    buf_put(&r->o->faults, str_of(line.text));
}

err options_rules(struct options *o, yaml_document_t *doc, const yaml_node_t *rules,
                  struct options_from from, struct err_note *note)
{
    struct rules_reading r = { .o = o, .file = from.file, .note = note };
    struct rule_set *set = NULL;
    err why = rule_set_parse(doc, rules, rules_told, &r, &set);
    if (why != ERR_OK)
        return ERR_BAD;
    rule_set_unref(&o->config.change.rules);
    o->config.change.rules = set;
    o->from[option_find(option_rows, STR("change.rules")) - option_rows] = from;
    return ERR_OK;
}

/* A rule that keeps a timeline in Redis wants one. */
err options_finish_rules(struct options *o, struct err_note *note)
{
    const struct rule_set *set = o->config.change.rules;
    const struct option *row = option_find(option_rows, STR("change.rules"));
    const char *url = o->config.redis.url;
    for (unsigned i = 0; set != NULL && (url == NULL || url[0] == 0) && i < rule_set_count(set);
         i++) {
        const struct rule *r = rule_set_at(set, i);
        const struct options_from from = { .file = o->from[row - option_rows].file,
                                           .line = r->line };
        if (r->effect == RULE_TIMELINE && r->keep == RULE_KEEP_REDIS)
            return option_fail(from, STR_NONE, note, "%.*s: keep is redis, which wants redis.url",
                               STR_ARG(r->name));
    }
    return ERR_OK;
}

void options_faults(const struct options *o, const struct err_note *note, options_line_fn *each,
                    void *ctx)
{
    str rest = buf_str(&o->faults);
    if (rest.n == 0)
        each(ctx, note->text);
    while (rest.n > 0) {
        struct err_note line;
        str one = str_split(&rest, '\n');
        err_note_set(&line, "%.*s", STR_ARG(one));
        each(ctx, line.text);
    }
}

/* ---- what may be a slip ---- */

static bool is_configured(const struct config *c, str domain)
{
    for (unsigned i = 0; i < c->domains_count; i++)
        if (str_eq(str_of(c->domains[i].name), domain))
            return true;
    return false;
}

/* A limit of a domain that nobody configured: its events come all the same, where they name it. */
static void doubt_limits(const struct options *o, const struct rule *r, options_line_fn *each,
                         void *ctx)
{
    const struct option *row = option_find(option_rows, STR("change.rules"));
    for (unsigned i = 0; i < r->concurrency_of[RULE_BY_DOMAIN].count; i++) {
        str domain = r->concurrency_of[RULE_BY_DOMAIN].p[i].name;
        if (str_eq(domain, STR("*")) || is_configured(&o->config, domain))
            continue;
        struct options_from from = { .file = o->from[row - option_rows].file, .line = r->line };
        struct err_note line;
        (void)option_fail(from, STR_NONE, &line,
                          "%.*s: concurrency_of limits the domain %.*s, which is not configured",
                          STR_ARG(r->name), STR_ARG(str_take(domain, 80))); /* a line, no fault */
        each(ctx, line.text);
    }
}

struct doubting {
    const struct options *o;
    options_line_fn *each;
    void *ctx;
};

static void doubt_rule(void *ctx, const struct rule_fault *fault)
{
    const struct doubting *d = ctx;
    const struct option *row = option_find(option_rows, STR("change.rules"));
    struct options_from from = { .file = d->o->from[row - option_rows].file, .line = fault->line };
    struct err_note line;
    (void)option_fail(from, STR_NONE, &line, "%.*s: %s", STR_ARG(fault->rule), /* no fault */
                      fault->text);
    d->each(d->ctx, line.text);
}

void options_doubts(const struct options *o, options_line_fn *each, void *ctx)
{
    const struct rule_set *set = o->config.change.rules;
    struct doubting d = { o, each, ctx };
    for (unsigned i = 0; set != NULL && i < rule_set_count(set); i++)
        doubt_limits(o, rule_set_at(set, i), each, ctx);
    rule_set_doubt(set, doubt_rule, &d);
}

/* ---- what differs ---- */

struct rules_change {
    options_change_fn *each;
    void *ctx;
};

static void rule_differs(void *ctx, enum rule_difference how, str name)
{
    static const char *const hows[] = {
        [RULE_ADDED] = "added", [RULE_REMOVED] = "removed", [RULE_CHANGED] = "changed"
    };
    const struct rules_change *c = ctx;
    char option[sizeof "change.rules." + RULE_NAME_BYTES_MAX];
    (void)snprintf(option, sizeof option, "change.rules.%.*s", STR_ARG(name)); /* it fits */
    c->each(c->ctx, option, hows[how], true);
}

void options_rules_take(struct options *running, const struct options *fresh,
                        options_change_fn *each, void *ctx)
{
    struct rules_change c = { .each = each, .ctx = ctx };
    struct rule_set *now = fresh->config.change.rules, *was = running->config.change.rules;
    (void)rule_sets_compare(was, now, rule_differs, &c); /* also where nothing is told: lines */
    running->config.change.rules = now == NULL ? NULL : rule_set_ref(now);
    rule_set_unref(&was);
}
