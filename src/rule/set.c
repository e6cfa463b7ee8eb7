/* set.c - rule sets: which rules a text has, what is told of faults, and how two sets differ. */
#include "base/hash.h"
#include "base/utf8.h"
#include "rule/rule_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is told ---- */

bool rule_fail(struct rule_reading *r, const yaml_node_t *at, const char *format, ...)
{
    struct err_note said, whole;
    char field[RULE_NAME_BYTES_MAX + 1], text[ERR_NOTE_BYTES];
    va_list args;
    if (r->faults++ >= RULE_FAULTS_MAX)
        return false;
    va_start(args, format);
    (void)vsnprintf(said.text, sizeof said.text, format, args); /* cut is good enough */
    va_end(args);
    field[utf8_clean(r->field, field, sizeof field - 1)] = '\0';
    err_note_set(&whole, "%s%s%s", field, field[0] == '\0' ? "" : " ", said.text);
    text[utf8_clean(str_of(whole.text), text, sizeof text - 1)] =
        '\0'; /* cuts may cut characters */
    for (char *p = text; *p != '\0'; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?'; /* a name in a file may hold a line's end: a fault is one line */
    struct rule_fault fault = { .line = at == NULL ? 0 : yaml_doc_line(at),
                                .rule = r->rule == NULL ? STR("") : r->rule->name,
                                .text = text };
    r->told(r->ctx, &fault);
    return false;
}

void *rule_alloc(struct rule_reading *r, const yaml_node_t *at, size_t count, size_t size)
{
    void *p = arena_calloc(&r->set->arena, count, size);
    if (p == NULL)
        (void)rule_fail(r, at, "is more than rules may take in memory");
    return p;
}

bool rule_keep(struct rule_reading *r, const yaml_node_t *at, str text, str *out)
{
    str kept = arena_copy(&r->set->arena, text);
    if (kept.p == NULL)
        return rule_fail(r, at, "is more than rules may take in memory");
    *out = kept;
    return true;
}

/* ---- nodes ---- */

static bool has_control(str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
            return true;
    return false;
}

bool rule_read_text(struct rule_reading *r, const yaml_node_t *n, str *out)
{
    if (n->type != YAML_SCALAR_NODE || yaml_doc_is_null(n))
        return rule_fail(r, n, n->type == YAML_SCALAR_NODE ? "has no value" : "wants a text");
    str text = yaml_doc_text(n);
    if (text.n > RULE_VALUE_BYTES_MAX)
        return rule_fail(r, n, "is longer than %d bytes", RULE_VALUE_BYTES_MAX);
    if (has_control(text) || !utf8_valid(text))
        return rule_fail(r, n, "has a control character");
    return rule_keep(r, n, text, out);
}

bool rule_read_mapping(struct rule_reading *r, const yaml_node_t *n, unsigned max)
{
    if (n->type != YAML_MAPPING_NODE)
        return rule_fail(r, n, "wants a section, NAME: VALUE");
    if (rule_pairs(n) > max)
        return rule_fail(r, n, "has more than %u entries", max);
    const yaml_node_pair_t *first = n->data.mapping.pairs.start;
    for (const yaml_node_pair_t *p = first; p < n->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = rule_node(r, p->key);
        if (key->type != YAML_SCALAR_NODE || yaml_doc_text(key).n == 0)
            return rule_fail(r, key, "has a name that is no text");
        for (const yaml_node_pair_t *q = first; q < p; q++) {
            const yaml_node_t *earlier = rule_node(r, q->key);
            if (str_eq(yaml_doc_text(earlier), yaml_doc_text(key)))
                return rule_fail(r, key, "has %.*s twice, first on line %u",
                                 STR_ARG(str_take(yaml_doc_text(key), RULE_NAME_BYTES_MAX)),
                                 yaml_doc_line(earlier));
        }
    }
    return true;
}

unsigned rule_list_count(const yaml_node_t *n)
{
    return n->type == YAML_SEQUENCE_NODE ? rule_items(n) : 1;
}

const yaml_node_t *rule_list_at(struct rule_reading *r, const yaml_node_t *n, unsigned i)
{
    return n->type == YAML_SEQUENCE_NODE ? rule_node(r, n->data.sequence.items.start[i]) : n;
}

/* ---- rules ---- */

static bool is_rule_name(str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!(s.p[i] >= 'a' && s.p[i] <= 'z') && !(s.p[i] >= '0' && s.p[i] <= '9') &&
            s.p[i] != '_' && s.p[i] != '-')
            return false;
    return s.n > 0 && s.n <= RULE_NAME_BYTES_MAX;
}

/* One event makes an item for each target of each rule that it matches. Told of the rule that goes
 * beyond, and of none after it. */
static bool targets_fit(struct rule_reading *r, const yaml_node_t *key)
{
    unsigned n = r->rule->targets.count > 0 ? r->rule->targets.count : 1;
    bool fitted = r->targets <= RULE_TARGETS_MAX;
    r->targets += n;
    r->field = STR("targets");
    return !fitted || r->targets <= RULE_TARGETS_MAX ||
           rule_fail(r, key, "of all rules together are more than %d, with those of this rule",
                     RULE_TARGETS_MAX);
}

/* There is one timeline in the store, and one in Redis. Of each one rule says how long its entries
 * stay. */
static bool timeline_fits(struct rule_reading *r, const yaml_node_t *key)
{
    if (r->rule->effect != RULE_TIMELINE)
        return true;
    str *earlier = &r->timelines[r->rule->keep];
    r->field = STR("keep");
    if (earlier->n > 0)
        return rule_fail(r, key, "is %s, and rule %.*s keeps the timeline there",
                         rule_keep_name(r->rule->keep), STR_ARG(*earlier));
    *earlier = r->rule->name;
    return true;
}

/* A rule with faults is left behind; the set is not used then. */
static void rule_read(struct rule_reading *r, const yaml_node_t *key, const yaml_node_t *value)
{
    struct rule *rule = &r->set->rules[r->set->count];
    str name = yaml_doc_text(key);
    if (!is_rule_name(name)) {
        (void)rule_fail(r, key, "\"%.*s\" is no name of a rule: 1 to %d of a-z, 0-9, _ and -",
                        STR_ARG(str_take(name, RULE_NAME_BYTES_MAX)), RULE_NAME_BYTES_MAX);
        return;
    }
    *rule = (struct rule){ .index = r->set->count, .line = yaml_doc_line(key) };
    if (!rule_keep(r, key, name, &rule->name))
        return;
    r->rule = rule;
    r->conditions = 0;
    if (rule_read_fields(r, value) && targets_fit(r, key) && timeline_fits(r, key)) {
        rule->hash = rule_hash_node(r, value);
        r->set->count++;
    }
    r->field = STR("");
    r->rule = NULL;
}

static void rules_read(struct rule_reading *r, const yaml_node_t *rules)
{
    if (yaml_doc_is_null(rules))
        return;
    r->field = STR("rules");
    if (!rule_read_mapping(r, rules, RULE_RULES_MAX))
        return;
    r->field = STR("");
    r->set->rules = rule_alloc(r, rules, rule_pairs(rules) + 1, sizeof *r->set->rules);
    if (r->set->rules == NULL)
        return;
    for (const yaml_node_pair_t *p = rules->data.mapping.pairs.start;
         p < rules->data.mapping.pairs.top; p++)
        rule_read(r, rule_node(r, p->key), rule_node(r, p->value));
}

err rule_set_parse(yaml_document_t *doc, const yaml_node_t *rules, rule_fault_fn *told, void *ctx,
                   struct rule_set **out)
{
    struct rule_set *s = calloc(1, sizeof *s);
    INVARIANT(s != NULL);
    s->magic = RULE_SET_MAGIC;
    atomic_init(&s->refs, 1);
    arena_init(&s->arena, RULE_TEXTS_BYTES_MAX);
    rule_paths_init(&s->paths);
    struct rule_reading r = { .doc = doc, .set = s, .told = told, .ctx = ctx, .field = STR("") };
    rules_read(&r, rules);
    if (r.faults > 0) {
        rule_set_unref(&s);
        return ERR_BAD;
    }
    *out = s;
    return ERR_OK;
}

err rule_set_read(str text, rule_fault_fn *told, void *ctx, struct rule_set **out)
{
    yaml_document_t doc;
    struct err_note note;
    struct rule_fault fault = { .rule = STR(""), .text = note.text };
    if (text.n > RULE_TEXT_BYTES_MAX) {
        err_note_set(&note, "the text is longer than %d bytes", RULE_TEXT_BYTES_MAX);
        told(ctx, &fault);
        return ERR_BAD;
    }
    if (yaml_doc_read(text, &doc, &fault.line, &note) != ERR_OK) {
        told(ctx, &fault);
        return ERR_BAD;
    }
    const yaml_node_t *root = yaml_document_get_root_node(&doc);
    const yaml_node_t *rules = yaml_doc_entry(&doc, root, STR("rules"));
    if (rules == NULL)
        rules = yaml_doc_entry(&doc, yaml_doc_entry(&doc, root, STR("change")), STR("rules"));
    err why = ERR_BAD;
    if (rules != NULL) {
        why = rule_set_parse(&doc, rules, told, ctx, out);
    } else {
        err_note_set(&note, "there is no section `change: rules:`, and no `rules:` at the top");
        told(ctx, &fault);
    }
    yaml_document_delete(&doc);
    return why;
}

struct rule_set *rule_set_ref(struct rule_set *s)
{
    MAGIC_CHECK(s, RULE_SET_MAGIC);
    atomic_fetch_add(&s->refs, 1);
    return s;
}

void rule_set_unref(struct rule_set **sp)
{
    struct rule_set *s = *sp;
    if (s == NULL)
        return;
    MAGIC_CHECK(s, RULE_SET_MAGIC);
    *sp = NULL;
    if (atomic_fetch_sub(&s->refs, 1) > 1)
        return;
    for (struct rule_pattern *p = s->patterns; p != NULL; p = p->next)
        pcre2_code_free(p->code);
    arena_fini(&s->arena);
    s->magic = 0;
    free(s);
}

unsigned rule_set_count(const struct rule_set *s)
{
    MAGIC_CHECK(s, RULE_SET_MAGIC);
    return s->count;
}

const struct rule *rule_set_at(const struct rule_set *s, unsigned index)
{
    MAGIC_CHECK(s, RULE_SET_MAGIC);
    INVARIANT(index < s->count);
    return &s->rules[index];
}

const struct rule *rule_set_find(const struct rule_set *s, str name)
{
    if (s == NULL)
        return NULL;
    MAGIC_CHECK(s, RULE_SET_MAGIC);
    for (unsigned i = 0; i < s->count; i++)
        if (str_eq(s->rules[i].name, name))
            return &s->rules[i];
    return NULL;
}

bool rule_sets_compare(const struct rule_set *before, const struct rule_set *after,
                       void (*each)(void *ctx, enum rule_difference how, str name), void *ctx)
{
    bool same = true;
    for (unsigned i = 0; after != NULL && i < rule_set_count(after); i++) {
        const struct rule *now = &after->rules[i], *was = rule_set_find(before, now->name);
        bool differs = was == NULL || was->hash != now->hash;
        same = same && !differs;
        if (differs && each != NULL)
            each(ctx, was == NULL ? RULE_ADDED : RULE_CHANGED, now->name);
    }
    for (unsigned i = 0; before != NULL && i < rule_set_count(before); i++) {
        bool gone = rule_set_find(after, before->rules[i].name) == NULL;
        same = same && !gone;
        if (gone && each != NULL)
            each(ctx, RULE_REMOVED, before->rules[i].name);
    }
    return same;
}
