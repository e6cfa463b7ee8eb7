/* value_schema.c - which table a bucket of values is: by a PUT of the bucket, or by the
 * configuration.
 *
 * A PUT says keyType, valueType, version, default_time_to_live and, of key_rev_value,
 * revisionRetentionPolicy. The table layer checks options of another database (compression,
 * updates, durability), which mean nothing here. A name that nobody knows is refused.
 * A configured bucket is in every domain what the configuration says: its table is made, or
 * brought up to date, before the first put after a start. */
#include "app/table/value_request.h"

#include "codec/json.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Tables of buckets are of version 5000 and up, so that the layout can change under versions of
 * clients. */
enum { BUCKET_VERSION_BASE = 5000 };

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

/* What a bucket is beyond its kind. */
struct bucket_says {
    int64_t version, ttl_s; /* ttl_s -1: not said */
    const json_t *policy;   /* NULL: not said */
    json_t *options;        /* of the table; owned */
};

static err schema_text(struct value_request *r, const struct bucket_says *b, str *out)
{
    struct arena *a = http_arena(r->x);
    char *options = json_dumps(b->options, JSON_COMPACT), *policy = NULL;
    if (b->policy != NULL)
        policy = json_dumps(b->policy, JSON_COMPACT);
    *out = STR_NONE;
    if (options != NULL && (b->policy == NULL || policy != NULL))
        *out = arena_printf(a, "{\"version\":%" PRId64 ",%s,\"options\":%s%s%s}", b->version,
                            r->kind == BUCKET_PLAIN ? plain_schema : revs_schema, options,
                            policy == NULL ? "" : ",\"revisionRetentionPolicy\":",
                            policy == NULL ? "" : policy);
    free(options);
    free(policy);
    return out->p == NULL ? ERR_LIMIT : ERR_OK;
}

/* ---- by a PUT ---- */

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

/* Storage options stand beside the others or in `options`, as of a table; twice they must be the
 * same. */
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

/* The peer's modules of 2017 say retention_policy too. */
static err policy_read(const struct value_request *r, struct bucket_says *b, const json_t *json,
                       struct err_note *note)
{
    static const char *const names[] = { "revisionRetentionPolicy", "retention_policy" };
    for (unsigned i = 0; i < COUNT_OF(names); i++) {
        const json_t *policy;
        err why = json_body_object(json, names[i], &policy, note);
        if (why == ERR_NOT_FOUND)
            continue;
        if (why == ERR_OK && r->kind == BUCKET_PLAIN) {
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

/* The peer's modules name the table and the domain once more. */
static err names_agree(const struct value_request *r, const json_t *json, struct err_note *note)
{
    const struct {
        const char *name;
        str want;
    } rows[] = { { "table", http_param(r->x, "bucket") }, { "domain", r->domain->name } };
    for (unsigned i = 0; i < COUNT_OF(rows); i++) {
        const json_t *value = json_object_get(json, rows[i].name);
        if (value == NULL || str_eq(json_body_text(value), rows[i].want))
            continue;
        err_note_set(note, "%s is not the one in the path", rows[i].name);
        return ERR_BAD;
    }
    return ERR_OK;
}

static err says_read(const struct value_request *r, const json_t *json, struct bucket_says *b,
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
        why = names_agree(r, json, note);
    if (why == ERR_OK) {
        why = json_body_i64(json, "version", 1, INT32_MAX, &version, note);
        why = why == ERR_NOT_FOUND ? ERR_OK : why;
    }
    b->version = BUCKET_VERSION_BASE + version;
    if (why == ERR_OK)
        why = options_read(b, json, note);
    return why == ERR_OK ? policy_read(r, b, json, note) : why;
}

/* ---- by the configuration ---- */

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

static int64_t ttl_configured(const struct config_bucket *c)
{
    return c->value_ttl_ns == DURATION_NEVER ? 0 : c->value_ttl_ns / NS_PER_S;
}

/* What a PUT says of a configured bucket cannot change it. */
static err says_same(const struct config_bucket *c, const struct bucket_says *b,
                     struct err_note *note)
{
    if (b->ttl_s >= 0 && b->ttl_s != ttl_configured(c)) {
        err_note_set(note, "default_time_to_live of this bucket is %lld s, by the configuration",
                     (long long)ttl_configured(c));
        return ERR_BAD;
    }
    json_t *policy = policy_configured(&c->page.policy), *value;
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

static err configured_text(struct value_request *r, int64_t version, str *out)
{
    const struct config_bucket *c = r->configured;
    struct bucket_says b = { .version = version, .options = json_object() };
    json_t *policy = r->kind == BUCKET_REVS ? policy_configured(&c->page.policy) : NULL;
    b.policy = policy;
    err why = b.options == NULL || (r->kind == BUCKET_REVS && policy == NULL) ? ERR_LIMIT : ERR_OK;
    if (why == ERR_OK && ttl_configured(c) > 0 &&
        json_object_set_new(b.options, "default_time_to_live", json_integer(ttl_configured(c))) !=
            0)
        why = ERR_LIMIT;
    if (why == ERR_OK)
        why = schema_text(r, &b, out);
    json_decref(policy);
    json_decref(b.options);
    return why;
}

err value_schema_read(struct value_request *r, str *out, struct err_note *note)
{
    json_t *json;
    str body = http_body(r->x);
    err why = json_body_parse(body.n == 0 ? STR("{}") : body, &json, note);
    if (why != ERR_OK)
        return why;
    struct bucket_says b = { .ttl_s = -1, .options = json_object() };
    why = b.options == NULL ? ERR_LIMIT : says_read(r, json, &b, note);
    if (why == ERR_OK)
        why = r->configured == NULL ? schema_text(r, &b, out) : says_same(r->configured, &b, note);
    json_decref(b.options);
    json_decref(json);
    return why;
}

/* ---- a configured bucket is there ---- */

void value_there_init(struct app *app)
{
    app->values_there = calloc((size_t)app->page.domains_count * app->config->values_count + 1,
                               sizeof(atomic_bool));
    INVARIANT(app->values_there != NULL);
}

static atomic_bool *there_flag(const struct value_request *r)
{
    const struct config *c = r->app->config;
    return &r->app->values_there[(size_t)(r->domain - r->app->page.domains) * c->values_count +
                                 (size_t)(r->configured - c->values)];
}

static err change_to(struct value_request *r, int64_t version)
{
    struct table_schema_change c = { .action = SCHEMA_CREATE,
                                     .domain = r->domain->number,
                                     .table = r->table,
                                     .arena = http_arena(r->x),
                                     .deadline = table_deadline(r->app) };
    err why = configured_text(r, version, &c.json);
    if (why == ERR_OK)
        why = tables_change_wait(r->app->tables, &c);
    r->note = c.note;
    return why;
}

/* The version of the stored table; 0: there is none. */
static err stored_version(struct value_request *r, int64_t *version)
{
    str text;
    json_t *json;
    *version = 0;
    err why =
        tables_schema(r->app->tables, r->domain->number, r->table, http_arena(r->x), false, &text);
    if (why != ERR_OK)
        return why == ERR_NOT_FOUND ? ERR_OK : why;
    why = json_body_parse(text, &json, &r->note);
    if (why != ERR_OK)
        return ERR_CORRUPT;
    *version = json_integer_value(json_object_get(json, "version"));
    json_decref(json);
    return ERR_OK;
}

static void there_run(struct loop_job *j)
{
    struct value_request *r = CONTAINER_OF(j, struct value_request, job);
    int64_t version;
    r->why = stored_version(r, &version);
    if (r->why != ERR_OK)
        return;
    r->why = change_to(r, version > 0 ? version : BUCKET_VERSION_BASE + 1);
    if (r->why == ERR_BAD && version > 0) /* it is another: the next version is this one */
        r->why = change_to(r, version + 1);
    if (r->why == ERR_OK)
        atomic_store(there_flag(r), true);
}

static void there_done(struct loop_job *j, bool canceled)
{
    struct value_request *r = CONTAINER_OF(j, struct value_request, job);
    err why = canceled ? ERR_SHUTDOWN : r->why;
    if (why == ERR_OK)
        r->there(r);
    else
        value_fail(r, why);
}

void value_there(struct value_request *r, void (*then)(struct value_request *r))
{
    r->there = then;
    if (r->configured == NULL || atomic_load(there_flag(r))) {
        then(r);
        return;
    }
    if (!value_defer(r))
        return;
    r->job = (struct loop_job){ .run = there_run, .done = there_done };
    loop_job_start(r->app->loop, &r->job);
}
