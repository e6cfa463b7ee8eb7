/* bucket.c - makes and drops buckets, and brings configured ones to what the configuration says.
 *
 * That a configured bucket is there is remembered until the next start. Two first puts may both
 * make it: the same schema again is no change. */
#include "codec/json.h"
#include "value/value_impl.h"

#include <jansson.h>

/* One change of a schema, as a step of c. */
static enum store_start table_change(struct value_call *c, enum table_schema_action action,
                                     str json, value_next_fn *next)
{
    c->step.change = (struct table_schema_change){ .call = value_step(c, next),
                                                   .action = action,
                                                   .domain = c->target.domain_number,
                                                   .table = c->table,
                                                   .json = json,
                                                   .arena = c->arena };
    return value_go(c, table_store_change(c->service->store, &c->step.change));
}

/* ---- a configured bucket is there ---- */

/* By domain and bucket; value_service_init made room for all. */
static atomic_bool *there_flag(const struct value_call *c)
{
    const struct value_service *s = c->service;
    return &s->there[(size_t)c->target.domain_index * s->buckets_count +
                     (size_t)(c->target.settings - s->buckets)];
}

static enum store_start there_over(struct value_call *c, err why)
{
    if (why != ERR_OK)
        c->note = c->step.change.note;
    else
        atomic_store(there_flag(c), true);
    return c->found(c, why);
}

/* Makes the table with the configured schema, under this version of it. */
static enum store_start there_make(struct value_call *c, int64_t version, value_next_fn *next)
{
    str json;
    err why = value_schema_configured(c, version, &json);
    return why == ERR_OK ? table_change(c, SCHEMA_CREATE, json, next) : c->found(c, why);
}

/* ERR_BAD: the stored schema is another, so the configured one becomes its next version. */
static enum store_start there_made(struct value_call *c, err why)
{
    return why == ERR_BAD ? there_make(c, c->version + 1, there_over) : there_over(c, why);
}

/* No table yet: the first version. Else the stored version decides whether there is anything to
 * change. */
static enum store_start there_read(struct value_call *c, err why)
{
    json_t *json;
    if (why == ERR_NOT_FOUND)
        return there_make(c, VALUE_VERSION_BASE + 1, there_over);
    if (why == ERR_OK && json_body_parse(c->step.schema.json, &json, &c->note) != ERR_OK)
        why = ERR_CORRUPT;
    if (why != ERR_OK)
        return c->found(c, why);
    c->version = json_integer_value(json_object_get(json, "version"));
    json_decref(json);
    return c->version > 0 ? there_make(c, c->version, there_made)
                          : there_make(c, VALUE_VERSION_BASE + 1, there_over);
}

/* A bucket that is not configured is made by a request of its own. */
enum store_start value_there(struct value_call *c, value_next_fn *then)
{
    c->found = then;
    if (c->target.settings == NULL || atomic_load(there_flag(c)))
        return then(c, ERR_OK);
    c->step.schema = (struct table_schema_read){ .call = value_step(c, there_read),
                                                 .domain = c->target.domain_number,
                                                 .table = c->table,
                                                 .arena = c->arena };
    return value_go(c, table_store_schema(c->service->store, &c->step.schema));
}

/* ---- made and dropped ---- */

static enum store_start change_over(struct value_call *c, err why)
{
    return value_over(c, why, &c->step.change.note);
}

enum store_start value_bucket(struct value_service *s, struct value_bucket *b)
{
    struct value_call *c = &b->of;
    str json = STR_NONE;
    err why = value_begin(c, s) ? ERR_OK : ERR_LIMIT;
    if (why == ERR_OK && !b->drop)
        why = value_schema_read(c, b->json, &json);
    /* A configured bucket is only compared with what is asked. */
    if (why != ERR_OK || (!b->drop && c->target.settings != NULL))
        return value_over(c, why, NULL);
    return table_change(c, b->drop ? SCHEMA_DROP : SCHEMA_CREATE, json, change_over);
}
