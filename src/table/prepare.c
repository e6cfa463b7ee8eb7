/* prepare.c - puts and deletes as steps of an update: on the caller's thread, before the decision.
 */
#include "table/key.h"
#include "table/update.h"
#include "table/value.h"

static err put_attr(struct table_step *st, const struct table_attr *attr, struct err_note *note)
{
    const struct schema_attr *at = schema_find(st->schema, attr->name);
    if (at == NULL) {
        err_note_set(note, "there is no attribute %.*s in table %.*s",
                     STR_ARG(str_take(attr->name, 64)), STR_ARG(st->schema->name));
        return ERR_BAD;
    }
    unsigned index = (unsigned)(at - st->schema->attrs);
    if (!value_valid(at->kind, attr->value)) {
        err_note_set(note, "attribute %.*s has a value that is not of its type", STR_ARG(at->name));
        return ERR_BAD;
    }
    st->values[index] = attr->value;
    st->named[index] = true;
    st->names_static |= at->role == ROLE_STATIC;
    return ERR_OK;
}

/* The last range attribute of a key, a timeuuid, when a put leaves it out: now. Puts of one batch
 * keep their order. */
static err version_make(struct table_update *u, struct table_step *st)
{
    const struct schema *s = st->schema;
    unsigned last = s->range_count == 0 ? 0 : s->range[s->range_count - 1];
    if (s->range_count == 0 || s->attrs[last].kind.type != TYPE_TIMEUUID || st->named[last])
        return ERR_OK;
    const struct update_own *own = u->call.own;
    uint64_t ticks = tid_ticks(clock_store(own->tables->clock)) + (uint64_t)(st - own->steps);
    st->values[last] = table_value_tid(u->arena, tid_make(ticks, u->random));
    st->named[last] = true;
    return st->values[last].p == NULL ? ERR_LIMIT : ERR_OK;
}

static err key_attr(struct buf *b, const struct table_step *st, unsigned index,
                    struct err_note *note)
{
    const struct schema_attr *at = &st->schema->attrs[index];
    if (st->values[index].p == NULL) {
        err_note_set(note, "attribute %.*s of the key is missing", STR_ARG(at->name));
        return ERR_BAD;
    }
    key_put(b, at->kind.type, at->desc, st->values[index]);
    return ERR_OK;
}

static err key_build(struct buf *b, struct table_step *st, uint32_t domain, struct err_note *note)
{
    err e = ERR_OK;
    key_put_head(b, domain, st->schema);
    for (unsigned i = 0; e == ERR_OK && i < st->schema->hash_count; i++)
        e = key_attr(b, st, st->schema->hash[i], note);
    st->partition_size = b->n;
    buf_put_u8(b, KEY_REGULAR);
    for (unsigned i = 0; e == ERR_OK && i < st->schema->range_count; i++)
        e = key_attr(b, st, st->schema->range[i], note);
    if (e != ERR_OK)
        return e;
    if (buf_status(b) != ERR_OK) {
        err_note_set(note, "the key is longer than %d bytes (TABLE_KEY_BYTES_MAX) encoded",
                     TABLE_KEY_BYTES_MAX);
        return ERR_BAD;
    }
    INVARIANT(key_buf_set(&st->key, buf_str(b)));
    return ERR_OK;
}

/* All of one partition, or what begins alike within it. */
static err range_prepare(struct table_update *u, struct table_step *st)
{
    const struct table_write *w = st->write;
    err e =
        plan_make(st->schema, u->domain, w->predicates, w->predicates_count, &st->plan, &u->note);
    if (e != ERR_OK || st->plan.empty)
        return e;
    if (!st->plan.one_partition) {
        err_note_set(&u->note, "a delete must give all hash attributes with eq");
        return ERR_BAD;
    }
    if (!st->plan.exact) {
        err_note_set(
            &u->note,
            "a delete must give range attributes in the order of the index, the last with a range");
        return ERR_BAD;
    }
    return ERR_OK;
}

static err put_prepare(struct table_update *u, struct table_step *st)
{
    const struct table_write *w = st->write;
    st->values = arena_calloc(u->arena, st->schema->attrs_count, sizeof *st->values);
    st->named = arena_calloc(u->arena, st->schema->attrs_count, sizeof *st->named);
    if (st->values == NULL || st->named == NULL)
        return ERR_LIMIT;
    for (unsigned i = 0; i < w->attrs_count; i++) {
        err e = put_attr(st, &w->attrs[i], &u->note);
        if (e != ERR_OK)
            return e;
    }
    err made = version_make(u, st);
    if (made != ERR_OK)
        return made;
    st->names_all = true;
    for (unsigned i = 0; i < st->schema->attrs_count; i++)
        st->names_all &= st->named[i] || st->schema->attrs[i].role != ROLE_PLAIN;
    for (unsigned i = 0; i < w->equal_count; i++)
        if (schema_find(st->schema, w->equal[i].name) == NULL) {
            err_note_set(&u->note, "there is no attribute %.*s",
                         STR_ARG(str_take(w->equal[i].name, 64)));
            return ERR_BAD;
        }
    struct buf b;
    buf_init(&b, TABLE_KEY_BYTES_MAX);
    err e = key_build(&b, st, u->domain, &u->note);
    buf_fini(&b);
    return e == ERR_OK && w->predicates_count > 0 ? range_prepare(u, st) : e;
}

static err delete_prepare(struct table_update *u, struct table_step *st)
{
    err e = range_prepare(u, st);
    if (e != ERR_OK)
        return e;
    st->key = st->plan.from; /* whatever its ranges say, it begins with the partition */
    st->key.n = st->partition_size = st->plan.partition_size;
    if (st->plan.empty)
        return ERR_OK;
    INVARIANT(st->partition_size > 0);
    if (st->plan.whole_partition)
        st->plan.from = st->key; /* the static row goes too */
    return ERR_OK;
}

static err step_prepare(struct table_update *u, const struct store_look *look,
                        struct table_step *st)
{
    st->schema = st->write->own;
    if (st->schema == NULL) {
        struct schema *s;
        err e = store_schema(look, st->write->table, &s);
        if (e != ERR_OK)
            return e;
        st->schema = s;
    }
    return st->write->is_delete ? delete_prepare(u, st) : put_prepare(u, st);
}

/* The encoded hash attributes: what steps of a batch must have in common. */
static str partition_of(const struct table_step *st)
{
    return str_skip(str_take(key_buf_str(&st->key), st->partition_size), KEY_HEAD_BYTES);
}

err steps_prepare(struct table_update *u, const struct store_look *look)
{
    struct update_own *own = u->call.own;
    for (unsigned i = 0; i < u->writes_count; i++) {
        struct table_step *st = &own->steps[i];
        st->write = &u->writes[i];
        err e = step_prepare(u, look, st);
        if (e != ERR_OK)
            return e;
        bool nowhere = st->partition_size == 0; /* a delete of a key that cannot exist */
        if (i > 0 && (nowhere || !str_eq(partition_of(&own->steps[0]), partition_of(st)))) {
            err_note_set(&u->note,
                         "a batch must stay on one partition key: operation %u is on another", i);
            return ERR_BAD;
        }
        own->update.frees &= u->writes[i].is_delete;
    }
    return ERR_OK;
}
