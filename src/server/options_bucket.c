/* options_bucket.c - buckets.NAME: its kind, its fields, what they say together.
 *
 * A bucket's kind may come after its fields, so a field is set in every table of rows that has its
 * name. At the end the kind decides which fields count, a field that does not count is refused, and
 * buckets of values go into a list of their own. Bucket 0 is `page`. */
#include "server/options_impl.h"

#include "store/table_read.h"

#include <string.h>

static const char *const kinds[CONFIG_KINDS] = { "page", "key_value", "key_rev_value" };

err option_bucket(struct options *o, str name, struct options_from from, unsigned *index,
                  struct err_note *note)
{
    static const char *const reserved[] = { "page",          "v1",        "table",
                                            "batch",         "key_value", "key_rev_value",
                                            "multi_content", "lists",     "transform",
                                            "_stash" };
    struct config *c = &o->config;
    for (unsigned i = 1; i < c->buckets_count; i++)
        if (str_eq(str_of(c->buckets[i].page.name), name)) {
            *index = i;
            return ERR_OK;
        }
    if (!option_is_plain_name(name, 32, "-_"))
        return option_fail(from, STR("buckets"), note, "\"%.*s\" is no name of a bucket",
                           STR_ARG(str_take(name, 60)));
    if (option_is_one_of(name, reserved, COUNT_OF(reserved)))
        return option_fail(from, STR("buckets"), note, "\"%.*s\" is a reserved name",
                           STR_ARG(name));
    if (c->buckets_count == CONFIG_BUCKETS_MAX)
        return option_fail(from, STR("buckets"), note, "more than %d buckets", CONFIG_BUCKETS_MAX);
    const char *copy = arena_cstr(&o->texts, name);
    if (copy == NULL)
        return option_fail(from, STR("buckets"), note, "all values together pass %d bytes",
                           OPTIONS_TEXT_BYTES_MAX);
    *index = c->buckets_count++;
    c->buckets[*index].page.name = copy;
    option_defaults(o, option_bucket_rows, &c->buckets[*index], *index);
    option_defaults(o, option_value_rows, &c->buckets[*index], *index);
    return ERR_OK;
}

/* ---- fields ---- */

static err set_kind(struct options *o, const struct option_value *v, struct err_note *note)
{
    for (unsigned kind = 0; v->bucket > 0 && kind < CONFIG_KINDS; kind++)
        if (str_eq(v->text, str_of(kinds[kind]))) {
            o->config.buckets[v->bucket].kind = (enum config_kind)kind;
            return ERR_OK;
        }
    return option_fail(v->from, v->name, note, "\"%.*s\" is none of: page%s",
                       STR_ARG(str_take(v->text, 60)),
                       v->bucket > 0 ? ", key_value, key_rev_value" : "");
}

err option_set_field(struct options *o, struct option_value *v, str field, struct err_note *note)
{
    const struct option *const tables[] = { option_bucket_rows, option_value_rows };
    struct options_from *const from[] = { o->bucket_from[v->bucket], o->value_from[v->bucket] };
    bool found = false;
    if (str_eq(field, STR("kind")))
        return set_kind(o, v, note);
    v->base = &o->config.buckets[v->bucket];
    for (unsigned i = 0; i < (v->bucket > 0 ? COUNT_OF(tables) : 1); i++) {
        v->row = option_find(tables[i], field);
        if (v->row == NULL)
            continue;
        err why = option_store(o, v, note);
        if (why != ERR_OK)
            return why;
        from[i][v->row - tables[i]] = v->from;
        found = true;
    }
    return found ? ERR_OK : option_fail(v->from, v->name, note, "there is no such option");
}

/* ---- what they say together ---- */

static const struct option *row_of(const char *field)
{
    const struct option *r = option_find(option_bucket_rows, str_of(field));
    INVARIANT(r != NULL);
    return r;
}

static struct options_from from_of(const struct options *o, unsigned bucket, const char *field)
{
    return o->bucket_from[bucket][row_of(field) - option_bucket_rows];
}

static err fail_bucket(const struct options *o, unsigned bucket, struct options_from from,
                       const char *field, const char *what, struct err_note *note)
{
    char name[64] = "";
    struct err_note full;
    err_note_set(&full, "%s%s.%s", bucket > 0 ? "buckets." : "",
                 o->config.buckets[bucket].page.name, field);
    (void)str_to_cstr(str_take(str_of(full.text), sizeof name - 1), name,
                      sizeof name); /* cut to fit */
    return option_fail(from, str_of(name), note, "%s", what);
}

/* Fields that only some policies look at; given with another one they would be silently without
 * effect. */
static err finish_policy(const struct options *o, unsigned bucket, struct err_note *note)
{
    static const struct {
        const char *field;
        unsigned policies;
    } fields[] = {
        { "count", BIT(POLICY_LATEST) | BIT(POLICY_INTERVAL) },
        { "interval", BIT(POLICY_INTERVAL) },
        { "ttl", BIT(POLICY_TTL) },
    };
    const struct config_bucket *b = &o->config.buckets[bucket];
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        struct options_from from = from_of(o, bucket, fields[i].field);
        bool of_values = b->kind != KIND_PAGE && strcmp(fields[i].field, "ttl") == 0;
        if (from.file == NULL || of_values || (fields[i].policies & BIT(b->page.policy.kind)) != 0)
            continue;
        struct err_note what;
        err_note_set(&what, "contradicts policy %s, which has none",
                     row_of("policy")->choices[b->page.policy.kind]);
        return fail_bucket(o, bucket, from, fields[i].field, what.text, note);
    }
    return ERR_OK;
}

static err finish_page(struct options *o, unsigned bucket, struct err_note *note)
{
    struct options_from from = from_of(o, bucket, "stash_bytes_max");
    if (bucket > 0 && from.file != NULL)
        return fail_bucket(o, bucket, from, "stash_bytes_max",
                           "is one for all buckets: page.stash_bytes_max", note);
    for (const struct option *r = option_value_rows; r->name != NULL; r++) {
        from = o->value_from[bucket][r - option_value_rows];
        if (from.file != NULL && option_find(option_bucket_rows, str_of(r->name)) == NULL)
            return fail_bucket(o, bucket, from, r->name,
                               "is of buckets of values only (kind: key_value)", note);
    }
    return finish_policy(o, bucket, note);
}

/* Ends are in whole seconds, as in every table. */
static bool is_table_ttl(int64_t ns)
{
    return ns == DURATION_NEVER || (ns % NS_PER_S == 0 && ns / NS_PER_S <= TABLE_TTL_S_MAX);
}

static err finish_values(struct options *o, unsigned bucket, struct err_note *note)
{
    static const char *const of_revs[] = { "policy", "count", "grace_ttl", "interval" };
    struct config_bucket *b = &o->config.buckets[bucket];
    struct page_policy *policy = &b->page.policy;
    for (const struct option *r = option_bucket_rows; r->name != NULL; r++) {
        struct options_from from = o->bucket_from[bucket][r - option_bucket_rows];
        bool fits = option_find(option_value_rows, str_of(r->name)) != NULL ||
                    (b->kind == KIND_KEY_REV_VALUE &&
                     option_is_one_of(str_of(r->name), of_revs, COUNT_OF(of_revs)));
        if (from.file != NULL && !fits)
            return fail_bucket(o, bucket, from, r->name, "is of no bucket of this kind", note);
    }
    if (from_of(o, bucket, "policy").file == NULL)
        policy->kind = POLICY_ALL;
    if (policy->kind == POLICY_APP_TTL || policy->kind == POLICY_TTL)
        return fail_bucket(o, bucket, from_of(o, bucket, "policy"), "policy",
                           "of key_rev_value is one of all, latest_hash, latest, interval; its ttl "
                           "is the option ttl",
                           note);
    if (!is_table_ttl(b->value_ttl_ns))
        return fail_bucket(o, bucket, from_of(o, bucket, "ttl"), "ttl",
                           "is never, or whole seconds up to 20 years", note);
    if (!is_table_ttl(policy->grace_ttl_ns) || policy->grace_ttl_ns == DURATION_NEVER)
        return fail_bucket(o, bucket, from_of(o, bucket, "grace_ttl"), "grace_ttl",
                           "is whole seconds up to 20 years", note);
    if (!is_table_ttl(policy->interval_ns) || policy->interval_ns == DURATION_NEVER)
        return fail_bucket(o, bucket, from_of(o, bucket, "interval"), "interval",
                           "is whole seconds up to 20 years", note);
    return finish_policy(o, bucket, note);
}

err options_finish_buckets(struct options *o, struct err_note *note)
{
    struct config *c = &o->config;
    unsigned pages = 0;
    for (unsigned i = 0; i < c->buckets_count; i++) {
        bool is_page = c->buckets[i].kind == KIND_PAGE;
        err why = is_page ? finish_page(o, i, note) : finish_values(o, i, note);
        if (why != ERR_OK)
            return why;
        if (is_page)
            c->buckets[pages++] = c->buckets[i];
        else
            c->values[c->values_count++] = c->buckets[i];
    }
    c->buckets_count = pages;
    return ERR_OK;
}
