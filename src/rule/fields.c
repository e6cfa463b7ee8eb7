/* fields.c - the fields of a rule: one table of them, which effects have each, and what they may
 * be.
 *
 * The effect is read first, because it says which fields there are; then the conditions, because
 * they name the captures of templates; then all else, in the order of the text. A rule with a fault
 * is read to its end, so that all of its faults are told. */
#include "rule/fields.h"

#include <stdio.h>

#define ON(e) BIT(RULE_##e)
#define ON_ALL (BIT(RULE_EFFECTS) - 1)
#define ON_ITEMS (ON_ALL & ~ON(DROP) & ~ON(TIMELINE))
#define ON_SENT (ON(PURGE) | ON(HTTP) | ON(JOB))
#define AT(member) offsetof(struct rule, member)
#define DAY (86400 * NS_PER_S)

static const struct rule_field fields[] = {
    { "match", ON_ALL, ON_ALL, NULL, 0, 0, 0 },
    { "effect", ON_ALL, ON_ALL, NULL, 0, 0, 0 },
    { "sample", ON_ALL, 0, rule_field_share, AT(sample_ppm), 1, 1000 * 1000 },
    { "claim_ttl", ON_ALL, 0, rule_field_duration, AT(claim_ttl_ns), NS_PER_S, DURATION_NEVER },
    { "root_claim_ttl", ON_ALL, 0, rule_field_duration, AT(root_claim_ttl_ns), NS_PER_S,
      DURATION_NEVER },
    { "delay", ON_ITEMS, 0, rule_field_duration, AT(delay_ns), 0, 30 * DAY },
    { "targets", ON(PURGE) | ON(JOB), ON(PURGE) | ON(JOB), rule_field_targets, AT(targets), 0, 0 },
    { "url", ON(HTTP), ON(HTTP), rule_field_url, AT(url), 0, 0 },
    { "urls", ON(PURGE), 0, rule_field_urls, 0, 0, 0 },
    { "method", ON(HTTP), 0, rule_field_method, AT(method), 0, 0 },
    { "headers", ON_SENT, 0, rule_field_headers, 0, 0, 0 },
    { "body", ON(HTTP), 0, rule_field_body, 0, 0, 0 },
    { "ok", ON(HTTP), 0, rule_field_statuses, 0, 100, 599 },
    { "ignore", ON(HTTP), 0, rule_field_statuses, 0, 100, 599 },
    { "retries", ON_SENT, 0, rule_field_number, AT(retries), 0, 100 },
    { "backoff", ON_SENT, 0, rule_field_duration, AT(backoff_ns), NS_PER_MS, 7 * DAY },
    { "backoff_factor", ON_SENT, 0, rule_field_number, AT(backoff_factor), 1, 100 },
    { "timeout", ON_SENT, 0, rule_field_duration, AT(timeout_ns), 100 * NS_PER_MS, 3 * DAY },
    { "concurrency", ON_SENT, 0, rule_field_number, AT(concurrency), 1, 10000 },
    { "concurrency_of", ON_SENT, 0, rule_field_concurrency_of, 0, 1, 10000 },
    { "rate", ON_SENT, 0, rule_field_rate, 0, 1, 1000 * 1000 },
    { "collapse", ON_ITEMS, 0, rule_field_collapse, AT(collapse), 0, 0 },
    { "on_failure", ON(HTTP), 0, rule_field_on_failure, AT(on_failure), 0, 0 },
    { "edge_ttl", ON(PURGE), 0, rule_field_duration, AT(edge_ttl_ns), NS_PER_S, 365 * DAY },
    { "rebound", ON(PURGE), 0, rule_field_duration, AT(rebound_ns), 0, 3600 * NS_PER_S },
    { "queue", ON(PRODUCE), ON(PRODUCE), rule_field_queue, AT(queue), 0, 0 },
    { "rate_per_s", ON(TIMELINE), 0, rule_field_domain_rate, AT(domain_rate_ppm), 1, 0 },
    { "burst", ON(TIMELINE), 0, rule_field_number, AT(burst), 1, 1000 * 1000 },
    { "keep", ON(TIMELINE), 0, rule_field_keep, AT(keep), 0, 0 },
    { "ttl", ON(TIMELINE), 0, rule_field_duration, AT(ttl_ns), NS_PER_S, 3650 * DAY },
};
enum { WAIT_MAX_DAYS = 30 };

static const char *const effects[RULE_EFFECTS] = {
    [RULE_LOOK] = "look", [RULE_PURGE] = "purge",     [RULE_HTTP] = "http",
    [RULE_JOB] = "job",   [RULE_PRODUCE] = "produce", [RULE_TIMELINE] = "timeline",
    [RULE_DROP] = "drop",
};

const char *rule_effect_name(enum rule_effect e)
{
    INVARIANT(e < RULE_EFFECTS);
    return effects[e];
}

static const struct rule_field *field_find(str name)
{
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        if (str_eq(name, str_of(fields[i].name)))
            return &fields[i];
    return NULL;
}

/* NULL: there is none. */
static const yaml_node_t *entry_of(struct rule_reading *r, const yaml_node_t *n, const char *name)
{
    return yaml_doc_entry(r->doc, n, str_of(name));
}

/* ---- effects ---- */

static bool effect_read(struct rule_reading *r, const yaml_node_t *rule, bool *known)
{
    const yaml_node_t *n = entry_of(r, rule, "effect");
    str text;
    r->field = STR("effect");
    if (n == NULL)
        return rule_fail(r, rule,
                         "is missing: look, purge, http, job, produce, timeline or drop is wanted");
    if (!rule_read_text(r, n, &text))
        return false;
    for (unsigned i = 0; i < RULE_EFFECTS; i++) {
        if (str_eq(text, str_of(effects[i]))) {
            r->rule->effect = (enum rule_effect)i;
            *known = true;
            return true;
        }
    }
    return rule_fail(r, n, "\"%.*s\" is none of look, purge, http, job, produce, timeline and drop",
                     STR_ARG(str_take(text, 64)));
}

static void defaults_set(struct rule *r)
{
    bool collapses = r->effect == RULE_LOOK || r->effect == RULE_PURGE;
    r->sample_ppm = 1000 * 1000;
    r->claim_ttl_ns = DURATION_NEVER;
    r->root_claim_ttl_ns = DURATION_NEVER;
    r->method = STR("POST");
    r->retries = 2; /* changeprop's: after 60 s, and after 6 min */
    r->backoff_ns = 60 * NS_PER_S;
    r->backoff_factor = 6;
    r->timeout_ns = 60 * NS_PER_S;
    r->rebound_ns = 5 * NS_PER_S;
    r->concurrency = 4;
    r->domain_rate_ppm = 20 * 1000; /* 1,728 a day */
    r->burst = 100;
    r->ttl_ns = RULE_TIMELINE_TTL_NS;
    r->collapse = collapses ? RULE_COLLAPSE_TITLE : RULE_COLLAPSE_NONE;
}

static bool match_read(struct rule_reading *r, const yaml_node_t *rule)
{
    const yaml_node_t *n = entry_of(r, rule, "match");
    r->field = STR("match");
    if (n == NULL)
        return rule_fail(r, rule, "is missing; every event is match: {stream: \"*\"}");
    return rule_read_match(r, n, &r->rule->match);
}

/* ---- the others ---- */

static void effects_list(unsigned of, char out[64])
{
    size_t used = 0;
    for (unsigned i = 0; i < RULE_EFFECTS; i++)
        if ((of & BIT(i)) != 0)
            used += (size_t)snprintf(out + used, 64 - used, "%s%s", used > 0 ? ", " : "",
                                     effects[i]); /* all together are shorter */
}

static bool field_read(struct rule_reading *r, const yaml_node_t *key, const yaml_node_t *value)
{
    r->field = yaml_doc_text(key);
    const struct rule_field *f = field_find(r->field);
    if (f == NULL)
        return rule_fail(r, key, "is no field of a rule");
    if ((f->effects & BIT(r->rule->effect)) == 0) {
        char list[64] = "";
        effects_list(f->effects, list);
        return rule_fail(r, key, "is a field of %s, and the effect is %s", list,
                         effects[r->rule->effect]);
    }
    if (f->read == NULL)
        return true; /* it was read before */
    if (yaml_doc_is_null(value))
        return rule_fail(r, value, "has no value");
    return f->read(r, f, value, (char *)r->rule + f->offset);
}

static bool required_are_there(struct rule_reading *r, const yaml_node_t *rule)
{
    bool fine = true;
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        const struct rule_field *f = &fields[i];
        if (f->read == NULL || (f->required & BIT(r->rule->effect)) == 0 ||
            entry_of(r, rule, f->name) != NULL)
            continue;
        r->field = str_of(f->name);
        fine = rule_fail(r, rule, "is missing, and effect %s wants it", effects[r->rule->effect]);
    }
    return fine;
}

/* ---- fields that contradict each other ---- */

static bool statuses_differ(struct rule_reading *r, const yaml_node_t *rule)
{
    const struct rule *x = r->rule;
    for (unsigned i = 0; i < x->ok_count; i++)
        for (unsigned j = 0; j < x->ignore_count; j++)
            if (x->ok[i] == x->ignore[j]) {
                r->field = STR("ignore");
                return rule_fail(r, entry_of(r, rule, "ignore"), "has %d, and so has ok",
                                 (int)x->ok[i]);
            }
    return true;
}

static bool has_no_body(str method)
{
    return str_eq(method, STR("GET")) || str_eq(method, STR("HEAD")) ||
           str_eq(method, STR("PURGE")) || str_eq(method, STR("DELETE"));
}

static bool body_fits(struct rule_reading *r, const yaml_node_t *rule)
{
    struct rule *x = r->rule;
    const yaml_node_t *body = entry_of(r, rule, "body");
    if (x->effect != RULE_HTTP || !has_no_body(x->method))
        return true;
    if (body == NULL)
        x->body = RULE_BODY_NONE;
    r->field = STR("body");
    return x->body == RULE_BODY_NONE ||
           rule_fail(r, body, "is not none, and method %.*s has no body", STR_ARG(x->method));
}

static bool waits_fit(struct rule_reading *r, const yaml_node_t *rule)
{
    const struct rule *x = r->rule;
    static const char *const names[] = { "backoff", "backoff_factor" };
    for (size_t i = 0; i < COUNT_OF(names) && x->retries == 0; i++) {
        const yaml_node_t *n = entry_of(r, rule, names[i]);
        r->field = str_of(names[i]);
        if (n != NULL)
            return rule_fail(r, n, "is of no use: retries is 0");
    }
    int64_t wait = x->backoff_ns;
    for (int64_t i = 1; i < x->retries && wait <= WAIT_MAX_DAYS * DAY; i++)
        wait *= x->backoff_factor;
    r->field = STR("retries");
    return wait <= WAIT_MAX_DAYS * DAY ||
           rule_fail(r, entry_of(r, rule, "retries") == NULL ? rule : entry_of(r, rule, "retries"),
                     "with this backoff and backoff_factor wait longer than %d days",
                     WAIT_MAX_DAYS);
}

bool rule_read_fields(struct rule_reading *r, const yaml_node_t *n)
{
    bool known = false;
    r->field = STR("");
    if (!rule_read_mapping(r, n, COUNT_OF(fields) * 2))
        return false;
    bool fine = effect_read(r, n, &known);
    defaults_set(r->rule);
    fine = match_read(r, n) && fine;
    if (!known)
        return false; /* nothing is known of the other fields */
    for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top;
         p++)
        fine = field_read(r, rule_node(r, p->key), rule_node(r, p->value)) && fine;
    fine = required_are_there(r, n) && fine;
    if (fine)
        fine = statuses_differ(r, n) && fine;
    if (fine)
        fine = body_fits(r, n);
    return fine && waits_fit(r, n);
}
