/* condition.c - reads the conditions of a rule. In a section all conditions have to hold; those
 * that cost least stand first, whatever their order in the text: streams, domains, other members,
 * groups. Invariant: sections are read within each other to RULE_DEPTH_MAX. */
#include "rule/rule_impl.h"

#include <string.h>

static bool is_word(const yaml_node_t *n, const char *word)
{
    return n->type == YAML_SCALAR_NODE && str_eq(yaml_doc_text(n), str_of(word));
}

static struct rule_condition *condition_new(struct rule_reading *r, const yaml_node_t *at,
                                            enum rule_group group)
{
    if (++r->conditions > RULE_CONDITIONS_MAX) {
        (void)rule_fail(r, at, "is one of more than %d conditions", RULE_CONDITIONS_MAX);
        return NULL;
    }
    struct rule_condition *c = rule_alloc(r, at, 1, sizeof *c);
    if (c != NULL)
        *c = (struct rule_condition){ .group = group, .line = yaml_doc_line(at) };
    return c;
}

/* ---- one test ---- */

static bool has_globs(struct rule_subject s)
{
    return s.kind == RULE_SUBJECT_STREAM || s.kind == RULE_SUBJECT_DOMAIN;
}

static bool pattern_read(struct rule_reading *r, const yaml_node_t *n, str text, bool caseless,
                         struct rule_value *out)
{
    struct err_note note;
    struct rule_pattern *pattern;
    const char *wrong = rule_pattern_add(r->set, r->rule, text, caseless, &pattern, &note);
    if (wrong != NULL)
        return rule_fail(r, n, "%s", wrong);
    out->kind = RULE_VALUE_PATTERN;
    out->pattern = pattern;
    return true;
}

/* literal: no sign in it has a meaning. */
static bool value_read(struct rule_reading *r, const yaml_node_t *n, struct rule_subject subject,
                       bool literal, struct rule_value *out)
{
    str text;
    if (yaml_doc_is_null(n))
        return rule_fail(r, n, "has no value; absent: true is for what is not there");
    if (!rule_read_text(r, n, &text))
        return false;
    *out = (struct rule_value){ .kind = RULE_VALUE_EQUAL, .text = text };
    if (literal)
        return true;
    if (has_globs(subject) && str_find(text, '*') < text.n) {
        out->kind = RULE_VALUE_GLOB;
        return true;
    }
    if (!str_starts(text, STR("/")))
        return true;
    bool caseless = str_ends(text, STR("/i"));
    size_t ends = caseless ? 2 : 1;
    if (text.n < 1 + ends || text.p[text.n - ends] != '/')
        return rule_fail(r, n,
                         "begins with / as a pattern, and does not end with / or /i; a text "
                         "that begins so is written {equal: TEXT}");
    return pattern_read(r, n, str_take(str_skip(text, 1), text.n - 1 - ends), caseless, out);
}

static bool values_read(struct rule_reading *r, const yaml_node_t *n, bool literal,
                        struct rule_condition *c)
{
    unsigned count = rule_list_count(n);
    if (n->type == YAML_MAPPING_NODE || count == 0 || count > RULE_VALUES_MAX)
        return rule_fail(r, n, "wants a text, or a list of 1 to %d texts", RULE_VALUES_MAX);
    struct rule_value *values = rule_alloc(r, n, count, sizeof *values);
    for (unsigned i = 0; values != NULL && i < count; i++)
        if (!value_read(r, rule_list_at(r, n, i), c->subject, literal, &values[i]))
            return false;
    c->values = values;
    c->values_count = count;
    return values != NULL;
}

static bool pattern_alone(struct rule_reading *r, const yaml_node_t *n, struct rule_condition *c)
{
    str text;
    struct rule_value *value = rule_alloc(r, n, 1, sizeof *value);
    if (value == NULL || !rule_read_text(r, n, &text))
        return false;
    *value = (struct rule_value){ .text = text };
    c->values = value;
    c->values_count = 1;
    return pattern_read(r, n, text, false, value);
}

/* {equal: .. | pattern: .. | absent: true | present: true} */
static bool test_section(struct rule_reading *r, const yaml_node_t *n, struct rule_condition *c)
{
    if (!rule_read_mapping(r, n, RULE_VALUES_MAX))
        return false;
    const yaml_node_t *key = NULL, *value = NULL;
    if (rule_pairs(n) == 1) {
        key = rule_node(r, n->data.mapping.pairs.start->key);
        value = rule_node(r, n->data.mapping.pairs.start->value);
    }
    if (key != NULL && is_word(key, "equal"))
        return values_read(r, value, true, c);
    if (key != NULL && is_word(key, "pattern"))
        return pattern_alone(r, value, c);
    bool absent = key != NULL && is_word(key, "absent"),
         present = key != NULL && is_word(key, "present");
    if (!absent && !present)
        return rule_fail(r, n,
                         "wants a value, a list of them, or one of {equal: ..}, "
                         "{pattern: ..}, {absent: true}, {present: true}");
    if (!is_word(value, "true"))
        return rule_fail(r, value, "wants %s: true", absent ? "absent" : "present");
    c->want = absent ? RULE_WANT_ABSENT : RULE_WANT_PRESENT;
    return true;
}

static bool test_read(struct rule_reading *r, const yaml_node_t *key, const yaml_node_t *value,
                      struct rule_condition **out)
{
    struct rule_condition *c = condition_new(r, key, RULE_TEST);
    if (c == NULL || !rule_keep(r, key, yaml_doc_text(key), &c->field))
        return false;
    const char *wrong = rule_subject_find(&r->set->paths, c->field, &c->subject);
    if (wrong != NULL)
        return rule_fail(r, key, "%s", wrong);
    *out = c;
    return value->type == YAML_MAPPING_NODE ? test_section(r, value, c)
                                            : values_read(r, value, false, c);
}

/* ---- sections and groups ---- */

static bool section_read(struct rule_reading *r, const yaml_node_t *n, unsigned depth,
                         struct rule_condition **out);

/* Of all, any, not: a list of sections, or one. */
static bool group_read(struct rule_reading *r, const yaml_node_t *key, const yaml_node_t *value,
                       unsigned depth, struct rule_condition **out)
{
    enum rule_group group = is_word(key, "all")   ? RULE_ALL
                            : is_word(key, "any") ? RULE_ANY
                                                  : RULE_NONE;
    unsigned count = value->type == YAML_SCALAR_NODE ? 0 : rule_list_count(value);
    if (count == 0 || count > RULE_VALUES_MAX)
        return rule_fail(r, value, "wants conditions: a section, or a list of them");
    struct rule_condition *c = condition_new(r, key, group), *one = NULL;
    const struct rule_condition **at = c == NULL ? NULL : &c->first;
    for (unsigned i = 0; c != NULL && i < count; i++) {
        if (!section_read(r, rule_list_at(r, value, i), depth + 1, &one))
            return false;
        *at = one;
        at = &one->next;
    }
    *out = c;
    return c != NULL;
}

/* In which order conditions are looked at. */
enum { COST_STREAM, COST_DOMAIN, COST_MEMBER, COST_GROUP, COSTS };
static unsigned cost_of(const yaml_node_t *key)
{
    if (is_word(key, "stream") || is_word(key, "meta.stream"))
        return COST_STREAM;
    if (is_word(key, "domain"))
        return COST_DOMAIN;
    return is_word(key, "all") || is_word(key, "any") || is_word(key, "not") ? COST_GROUP
                                                                             : COST_MEMBER;
}

static bool section_read(struct rule_reading *r, const yaml_node_t *n, unsigned depth,
                         struct rule_condition **out)
{
    if (depth > RULE_DEPTH_MAX)
        return rule_fail(r, n, "has conditions nested deeper than %d", RULE_DEPTH_MAX);
    if (!rule_read_mapping(r, n, RULE_CONDITIONS_MAX))
        return false;
    if (rule_pairs(n) == 0)
        return rule_fail(r, n, "has no condition; every event is stream: \"*\"");
    struct rule_condition *c = condition_new(r, n, RULE_ALL), *one = NULL;
    if (c == NULL)
        return false;
    const struct rule_condition **at = &c->first;
    str field = r->field;
    for (unsigned cost = 0; cost < COSTS; cost++) {
        for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top;
             p++) {
            const yaml_node_t *key = rule_node(r, p->key), *value = rule_node(r, p->value);
            if (cost_of(key) != cost)
                continue;
            r->field = yaml_doc_text(key);
            if (!(cost == COST_GROUP ? group_read(r, key, value, depth, &one)
                                     : test_read(r, key, value, &one)))
                return false;
            *at = one;
            at = &one->next;
        }
    }
    r->field = field;
    *out = c;
    return true;
}

bool rule_read_match(struct rule_reading *r, const yaml_node_t *n,
                     const struct rule_condition **out)
{
    struct rule_condition *c = NULL;
    str field = r->field;
    bool fine = section_read(r, n, 1, &c);
    r->field = field;
    *out = c;
    return fine;
}
