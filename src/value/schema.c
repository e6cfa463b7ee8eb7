/* schema.c - makes the schema of a bucket's table, from a PUT or from the configuration. Pure. */
#include "codec/json.h"
#include "value/value_impl.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *const plain_schema = "\"attributes\":{\"key\":\"string\",\"headers\":\"string\","
                                        "\"etag\":\"string\",\"coding\":\"string\","
                                        "\"value\":\"blob\"},"
                                        "\"index\":[{\"attribute\":\"key\",\"type\":\"hash\"}]";
static const char *const revs_schema =
    "\"attributes\":{\"key\":\"string\",\"rev\":\"long\",\"tid\":\"timeuuid\",\"headers\":"
    "\"string\","
    "\"coding\":\"string\",\"value\":\"blob\"},\"index\":[{\"attribute\":\"key\",\"type\":\"hash\"}"
    ","
    "{\"attribute\":\"rev\",\"type\":\"range\",\"order\":\"desc\"},"
    "{\"attribute\":\"tid\",\"type\":\"range\",\"order\":\"desc\"}]";

/* What a bucket is beyond its kind; on the stack of its reader. */
struct bucket_says {
    int64_t version, ttl_s; /* ttl_s -1: not said */
    const json_t *policy;   /* NULL: not said */
    json_t *options;        /* of the table; owned */
};

/* The schema as text. ERR_LIMIT: no memory. */
static err schema_text(struct value_call *c, const struct bucket_says *b, str *out)
{
    char *options = json_dumps(b->options, JSON_COMPACT), *policy = NULL;
    if (b->policy != NULL)
        policy = json_dumps(b->policy, JSON_COMPACT);
    *out = STR_NONE;
    if (options != NULL && (b->policy == NULL || policy != NULL))
        *out = arena_printf(c->arena, "{\"version\":%" PRId64 ",%s,\"options\":%s%s%s}", b->version,
                            c->target.kind == VALUE_PLAIN ? plain_schema : revs_schema, options,
                            policy == NULL ? "" : ",\"revisionRetentionPolicy\":",
                            policy == NULL ? "" : policy);
    free(options);
    free(policy);
    return out->p == NULL ? ERR_LIMIT : ERR_OK;
}

/* ---- by a PUT ---- */

/* ERR_OK also when the member is not there. */
static err word_is(const json_t *json, const char *name, const char *const *words,
                   struct err_note *note)
{
    const json_t *value = json_object_get(json, name);
    for (; value != NULL && json_is_string(value) && *words != NULL; words++)
        if (strcmp(json_string_value(value), *words) == 0)
            return ERR_OK;
    if (value == NULL)
        return ERR_OK;
    err_note_set(note, "%s is none that this bucket has; docs/api.md lists them", name);
    return ERR_BAD;
}

/* Adds storage options that stand beside the others or in `options`, as of a table. An option that
 * is said twice must be the same. */
static err options_add(struct bucket_says *b, const json_t *from, struct err_note *note)
{
    static const char *const names[] = { "compression", "updates", "default_time_to_live",
                                         "durability" };
    for (unsigned i = 0; i < COUNT_OF(names); i++) {
        json_t *value = json_object_get(from, names[i]),
               *other = json_object_get(b->options, names[i]);
        if (value == NULL)
            continue;
        if (other != NULL && !json_equal(value, other)) {
            err_note_set(note, "%s is said twice, and differently", names[i]);
            return ERR_BAD;
        }
        if (json_object_set(b->options, names[i], value) != 0)
            return ERR_LIMIT;
    }
    return ERR_OK;
}

static err options_read(struct bucket_says *b, const json_t *json, struct err_note *note)
{
    static const char *const known[] = { "compression", "updates", "durability",
                                         "default_time_to_live", NULL };
    const json_t *inner = NULL;
    err why = json_body_object(json, "options", &inner, note);
    if (why == ERR_OK)
        why = json_body_only(inner, known, note);
    if (why != ERR_OK && why != ERR_NOT_FOUND)
        return why;
    why = options_add(b, json, note);
    if (why == ERR_OK && inner != NULL)
        why = options_add(b, inner, note);
    if (why == ERR_OK)
        why =
            json_body_i64(b->options, "default_time_to_live", 0, TABLE_TTL_S_MAX, &b->ttl_s, note);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

/* Reads the policy, by both of its names: the peer's modules of 2017 say retention_policy. */
static err policy_read(const struct value_call *c, struct bucket_says *b, const json_t *json,
                       struct err_note *note)
{
    static const char *const names[] = { "revisionRetentionPolicy", "retention_policy" };
    for (unsigned i = 0; i < COUNT_OF(names); i++) {
        const json_t *policy;
        err why = json_body_object(json, names[i], &policy, note);
        if (why == ERR_NOT_FOUND)
            continue;
        if (why == ERR_OK && c->target.kind == VALUE_PLAIN) {
            err_note_set(note, "%s is of key_rev_value: key_value has one value for each key",
                         names[i]);
            why = ERR_BAD;
        } else if (why == ERR_OK && b->policy != NULL && !json_equal(policy, b->policy)) {
            err_note_set(note, "%s is said twice, and differently", names[i]);
            why = ERR_BAD;
        }
        if (why != ERR_OK)
            return why;
        b->policy = policy;
    }
    return ERR_OK;
}

/* The peer's modules name table and domain in the body, too: they must agree with the path. */
static err names_agree(const struct value_call *c, const json_t *json, struct err_note *note)
{
    const struct {
        const char *name;
        str want;
    } rows[] = { { "table", c->target.bucket }, { "domain", c->target.domain } };
    for (unsigned i = 0; i < COUNT_OF(rows); i++) {
        const json_t *value = json_object_get(json, rows[i].name);
        if (value == NULL || str_eq(json_body_text(value), rows[i].want))
            continue;
        err_note_set(note, "%s is not the one in the path", rows[i].name);
        return ERR_BAD;
    }
    return ERR_OK;
}

/* All members are known, and each is right by itself. */
static err says_read(const struct value_call *c, const json_t *json, struct bucket_says *b,
                     struct err_note *note)
{
    static const char *const known[] = { "keyType",
                                         "valueType",
                                         "version",
                                         "compression",
                                         "updates",
                                         "durability",
                                         "default_time_to_live",
                                         "options",
                                         "revisionRetentionPolicy",
                                         "retention_policy",
                                         "table",
                                         "domain",
                                         NULL };
    static const char *const key_types[] = { "string", NULL };
    static const char *const value_types[] = { "blob", "string", "json", NULL };
    int64_t version = 1;
    if (!json_is_object(json)) {
        err_note_set(note, "the options of a bucket are a JSON object");
        return ERR_BAD;
    }
    err why = json_body_only(json, known, note);
    if (why == ERR_OK)
        why = word_is(json, "keyType", key_types, note);
    if (why == ERR_OK)
        why = word_is(json, "valueType", value_types, note);
    if (why == ERR_OK)
        why = names_agree(c, json, note);
    if (why == ERR_OK) {
        why = json_body_i64(json, "version", 1, INT32_MAX, &version, note);
        why = why == ERR_NOT_FOUND ? ERR_OK : why;
    }
    b->version = VALUE_VERSION_BASE + version;
    if (why == ERR_OK)
        why = options_read(b, json, note);
    return why == ERR_OK ? policy_read(c, b, json, note) : why;
}

/* ---- by the configuration ---- */

/* The other kinds of policy keep all rows of a table. */
static json_t *policy_configured(const struct page_policy *p)
{
    json_int_t grace_s = p->grace_ttl_ns / NS_PER_S;
    switch (p->kind) {
    case POLICY_LATEST_HASH:
        return json_pack("{s:s, s:I}", "type", "latest_hash", "grace_ttl", grace_s);
    case POLICY_LATEST:
        return json_pack("{s:s, s:I, s:I}", "type", "latest", "count", (json_int_t)p->count,
                         "grace_ttl", grace_s);
    case POLICY_INTERVAL:
        return json_pack("{s:s, s:I, s:I, s:I}", "type", "interval", "count", (json_int_t)p->count,
                         "interval", (json_int_t)(p->interval_ns / NS_PER_S), "grace_ttl", grace_s);
    case POLICY_ALL:
    case POLICY_APP_TTL:
    case POLICY_TTL:
    case POLICY_KINDS:
        break;
    }
    return json_pack("{s:s}", "type", "all");
}

static int64_t ttl_configured(const struct value_settings *s)
{
    return s->ttl_ns == DURATION_NEVER ? 0 : s->ttl_ns / NS_PER_S;
}

/* Compares what a PUT says of a configured bucket: nothing of it can be changed. */
static err says_same(const struct value_settings *s, const struct bucket_says *b,
                     struct err_note *note)
{
    if (b->ttl_s >= 0 && b->ttl_s != ttl_configured(s)) {
        err_note_set(note, "default_time_to_live of this bucket is %lld s, by the configuration",
                     (long long)ttl_configured(s));
        return ERR_BAD;
    }
    json_t *policy = policy_configured(s->policy), *value;
    const char *name;
    err why = policy == NULL ? ERR_LIMIT : ERR_OK;
    json_object_foreach((json_t *)(uintptr_t)b->policy, name, value)
    {
        if (why != ERR_OK || json_equal(json_object_get(policy, name), value))
            continue;
        err_note_set(note,
                     "revisionRetentionPolicy.%s of this bucket is another, by the configuration",
                     name);
        why = ERR_BAD;
    }
    json_decref(policy);
    return why;
}

/* The caller gives the version: the next one, when the stored schema is another. */
err value_schema_configured(struct value_call *c, int64_t version, str *out)
{
    const struct value_settings *s = c->target.settings;
    struct bucket_says b = { .version = version, .options = json_object() };
    json_t *policy = c->target.kind == VALUE_REVS ? policy_configured(s->policy) : NULL;
    b.policy = policy;
    err why =
        b.options == NULL || (c->target.kind == VALUE_REVS && policy == NULL) ? ERR_LIMIT : ERR_OK;
    if (why == ERR_OK && ttl_configured(s) > 0 &&
        json_object_set_new(b.options, "default_time_to_live", json_integer(ttl_configured(s))) !=
            0)
        why = ERR_LIMIT;
    if (why == ERR_OK)
        why = schema_text(c, &b, out);
    json_decref(policy);
    json_decref(b.options);
    return why;
}

err value_schema_read(struct value_call *c, str text, str *out)
{
    const struct value_settings *s = c->target.settings;
    json_t *json;
    err why = json_body_parse(text.n == 0 ? STR("{}") : text, &json, &c->note);
    if (why != ERR_OK)
        return why;
    struct bucket_says b = { .ttl_s = -1, .options = json_object() };
    why = b.options == NULL ? ERR_LIMIT : says_read(c, json, &b, &c->note);
    if (why == ERR_OK)
        why = s == NULL ? schema_text(c, &b, out) : says_same(s, &b, &c->note);
    json_decref(b.options);
    json_decref(json);
    return why;
}
