/* query.c - reads rows of a table for a query: ranges of keys, filters, pages. Invariant: a page
 * ends at its limits of rows, bytes and steps, and the next page begins behind it. */
#include "table/query.h"

#include "base/date.h"
#include "codec/json.h"
#include "table/store.h"
#include "table/value.h"

#include <string.h>
#include <strings.h>

/* State of one query being read. */
struct reading {
    struct arena *arena;
    const struct schema *schema;
    struct err_note *note;
};

err query_load(str text, bool array, json_t **out, struct err_note *note)
{
    if (text.n == 0 && !array)
        text = STR("{}");
    json_t *json;
    err e = json_body_parse_few(text, TABLE_QUERY_VALUES_MAX, &json, note);
    if (e != ERR_OK)
        return e;
    if (array ? !json_is_array(json) : !json_is_object(json)) {
        err_note_set(note, "the body must be a JSON %s", array ? "array" : "object");
        json_decref(json);
        return ERR_BAD;
    }
    *out = json;
    return ERR_OK;
}

static err members_check(const json_t *json, const char *const *known, struct err_note *note)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)json, key, value)
    {
        const char *const *k = known;
        while (*k != NULL && strcmp(*k, key) != 0)
            k++;
        if (*k != NULL)
            continue;
        if (strcmp(key, "timestamp") == 0)
            err_note_set(
                note, "timestamp: writes are ordered by their arrival, not by a time of their own");
        else
            err_note_set(note, "%s is not a member of this query", key);
        return ERR_BAD;
    }
    return ERR_OK;
}

static err value_read(const struct reading *r, const struct schema_attr *at, const json_t *json,
                      str *out)
{
    struct err_note why = { .text = "" };
    err e = value_from_json(r->arena, at->kind, json, out, &why);
    store_memory_note(e, r->arena, &why);
    if (e != ERR_OK)
        err_note_set(r->note, "attribute %.*s: %s", STR_ARG(at->name), why.text);
    return e;
}

static err attr_find(const struct reading *r, const char *name, const struct schema_attr **out)
{
    *out = schema_find(r->schema, str_of(name));
    if (*out != NULL)
        return ERR_OK;
    if (r->schema->through != NULL)
        err_note_set(r->note, "there is no attribute %s in index %.*s of table %.*s", name,
                     STR_ARG(r->schema->through->name), STR_ARG(r->schema->name));
    else
        err_note_set(r->note, "there is no attribute %s in table %.*s", name,
                     STR_ARG(r->schema->name));
    return ERR_BAD;
}

/* ---- predicates ---- */

static bool op_parse(const char *name, enum table_op *op)
{
    static const struct {
        const char *name;
        enum table_op op;
    } ops[] = {
        { "eq", OP_EQ }, { "lt", OP_LT }, { "le", OP_LE }, { "gt", OP_GT }, { "ge", OP_GE }
    };
    for (unsigned i = 0; i < COUNT_OF(ops); i++)
        if (strcasecmp(name, ops[i].name) == 0) {
            *op = ops[i].op;
            return true;
        }
    return false;
}

struct predicates {
    struct table_predicate list[TABLE_PREDICATES_MAX];
    unsigned count;
    const struct schema_attr *ranged; /* the one attribute with another operator than eq */
};

/* An instant as bound of a timeuuid is the first tid of that time (lt, ge), or of the time behind
 * it (le, gt). */
static bool bound_by_time(const struct reading *r, const struct schema_attr *at, const json_t *json,
                          enum table_op *op, str *value)
{
    const uint64_t low_least = UINT64_C(1) << 63; /* the variant's bits */
    int64_t ns;
    bool ranges = at->kind.type == TYPE_TIMEUUID && *op != OP_EQ;
    if (!ranges || !date_parse_rfc3339(json_body_text(json), &ns))
        return false;
    bool behind = *op == OP_LE || *op == OP_GT;
    store_time from = store_time_add((store_time){ .ns = ns }, behind ? 1 : 0);
    *op = *op == OP_LT || *op == OP_LE ? OP_LT : OP_GE;
    *value = table_value_tid(r->arena, (struct tid){ .ticks = tid_ticks(from), .low = low_least });
    return true;
}

static err predicate_add(const struct reading *r, struct predicates *ps,
                         const struct schema_attr *at, enum table_op op, const json_t *json)
{
    str value;
    bool by_time = bound_by_time(r, at, json, &op, &value);
    err e = by_time ? (value.p == NULL ? ERR_LIMIT : ERR_OK) : value_read(r, at, json, &value);
    if (e != ERR_OK)
        return e;
    if (value.p == NULL || ps->count == TABLE_PREDICATES_MAX) {
        err_note_set(r->note, "attribute %.*s cannot be compared with null, nor more than %d times",
                     STR_ARG(at->name), TABLE_PREDICATES_MAX);
        return ERR_BAD;
    }
    if (op != OP_EQ && ps->ranged != NULL && ps->ranged != at) {
        err_note_set(r->note,
                     "only one attribute may have another condition than eq, not %.*s and %.*s",
                     STR_ARG(ps->ranged->name), STR_ARG(at->name));
        return ERR_BAD;
    }
    if (op != OP_EQ && at->role != ROLE_RANGE) {
        err_note_set(r->note, "attribute %.*s is not a range attribute and allows eq only",
                     STR_ARG(at->name));
        return ERR_BAD;
    }
    if (op != OP_EQ)
        ps->ranged = at;
    ps->list[ps->count++] = (struct table_predicate){ .name = at->name, .op = op, .value = value };
    return ERR_OK;
}

static err between_add(const struct reading *r, struct predicates *ps, const struct schema_attr *at,
                       const json_t *json)
{
    if (!json_is_array(json) || json_array_size(json) != 2) {
        err_note_set(r->note, "between of attribute %.*s needs an array of two values",
                     STR_ARG(at->name));
        return ERR_BAD;
    }
    err e = predicate_add(r, ps, at, OP_GE, json_array_get(json, 0));
    return e == ERR_OK ? predicate_add(r, ps, at, OP_LE, json_array_get(json, 1)) : e;
}

static err operators_add(const struct reading *r, struct predicates *ps,
                         const struct schema_attr *at, const json_t *json)
{
    const char *name;
    json_t *value;
    if (json_object_size(json) == 0) {
        err_note_set(r->note, "attribute %.*s has no condition", STR_ARG(at->name));
        return ERR_BAD;
    }
    json_object_foreach((json_t *)(uintptr_t)json, name, value)
    {
        enum table_op op;
        err e;
        if (strcasecmp(name, "between") == 0) {
            e = between_add(r, ps, at, value);
        } else if (op_parse(name, &op)) {
            e = predicate_add(r, ps, at, op, value);
        } else {
            err_note_set(r->note, "%s is not an operator: eq, lt, le, gt, ge or between", name);
            e = ERR_BAD;
        }
        if (e != ERR_OK)
            return e;
    }
    return ERR_OK;
}

/* {"base64": ...} is a blob, not operators. */
static bool is_operators(const struct schema_attr *at, const json_t *json)
{
    return json_is_object(json) &&
           !(at->kind.type == TYPE_BLOB && json_object_get(json, "base64") != NULL);
}

static err predicates_read(const struct reading *r, const json_t *json,
                           const struct table_predicate **list, unsigned *count)
{
    *count = 0;
    if (json == NULL)
        return ERR_OK;
    struct predicates *ps = arena_calloc(r->arena, 1, sizeof *ps);
    if (ps == NULL)
        return ERR_LIMIT;
    if (!json_is_object(json)) {
        err_note_set(r->note, "attributes must be an object");
        return ERR_BAD;
    }
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)json, name, value)
    {
        const struct schema_attr *at;
        err e = attr_find(r, name, &at);
        if (e == ERR_OK && at->role != ROLE_HASH && at->role != ROLE_RANGE) {
            err_note_set(r->note, "attribute %s is not a hash or range attribute", name);
            e = ERR_BAD;
        }
        if (e == ERR_OK)
            e = is_operators(at, value) ? operators_add(r, ps, at, value)
                                        : predicate_add(r, ps, at, OP_EQ, value);
        if (e != ERR_OK)
            return e;
    }
    *list = ps->list;
    *count = ps->count;
    return ERR_OK;
}

/* ---- get ---- */

static err proj_add(const struct reading *r, str *names, unsigned *count, const json_t *json)
{
    const char *name = json_body_word(json);
    if (name == NULL) {
        err_note_set(r->note, "proj must be a name or an array of names");
        return ERR_BAD;
    }
    const struct schema_attr *at;
    err e = attr_find(r, name, &at);
    if (e == ERR_OK)
        names[(*count)++] = at->name;
    return e;
}

static err proj_read(const struct reading *r, const json_t *json, struct table_get *g)
{
    if (json == NULL)
        return ERR_OK;
    size_t size = json_is_array(json) ? json_array_size(json) : 1;
    if (size > TABLE_ATTRS_MAX) {
        err_note_set(r->note, "proj has more than %d names", TABLE_ATTRS_MAX);
        return ERR_BAD;
    }
    str *names = arena_calloc(r->arena, size, sizeof *names);
    if (names == NULL)
        return ERR_LIMIT;
    g->proj = names;
    if (!json_is_array(json))
        return proj_add(r, names, &g->proj_count, json);
    for (size_t i = 0; i < size; i++) {
        err e = proj_add(r, names, &g->proj_count, json_array_get(json, i));
        if (e != ERR_OK)
            return e;
    }
    return ERR_OK;
}

static err order_read(const struct reading *r, const json_t *json, struct table_get *g)
{
    if (json == NULL)
        return ERR_OK;
    const char *name;
    json_t *value;
    bool first = true;
    if (!json_is_object(json)) {
        err_note_set(r->note, "order must be an object of range attributes and asc or desc");
        return ERR_BAD;
    }
    json_object_foreach((json_t *)(uintptr_t)json, name, value)
    {
        const struct schema_attr *at;
        err e = attr_find(r, name, &at);
        if (e != ERR_OK)
            return e;
        const char *word = json_body_word(value);
        bool desc = word != NULL && strcmp(word, "desc") == 0;
        if (at->role != ROLE_RANGE || word == NULL || (!desc && strcmp(word, "asc") != 0)) {
            err_note_set(r->note, "order of %s: it must be a range attribute, and asc or desc",
                         name);
            return ERR_BAD;
        }
        bool reversed = desc != at->desc;
        if (!first && reversed != g->reversed) {
            err_note_set(r->note,
                         "order must be the order of the index or the whole of it reversed");
            return ERR_BAD;
        }
        g->reversed = reversed;
        first = false;
    }
    return ERR_OK;
}

static err flag_read(const struct reading *r, const json_t *json, const char *name, bool *out)
{
    const json_t *value = json_object_get(json, name);
    *out = json_is_true(value);
    if (value == NULL || json_is_boolean(value) || json_is_null(value))
        return ERR_OK;
    err_note_set(r->note, "%s must be true or false", name);
    return ERR_BAD;
}

static err page_read(const struct reading *r, const json_t *json, struct table_get *g)
{
    const json_t *limit = json_object_get(json, "limit"), *next = json_object_get(json, "next");
    if (limit != NULL && !json_is_null(limit)) {
        json_int_t v = json_integer_value(limit);
        if (!json_is_integer(limit) || v < 1) {
            err_note_set(r->note, "limit must be a whole number from 1");
            return ERR_BAD;
        }
        g->limit = v > TABLE_LIMIT_MAX ? TABLE_LIMIT_MAX : (uint32_t)v;
    }
    if (next == NULL || json_is_null(next))
        return ERR_OK;
    g->next = arena_copy(r->arena, json_body_text(next));
    if (json_is_string(next) && g->next.n > 0)
        return ERR_OK;
    err_note_set(r->note, "next must be the token of an earlier answer");
    return ERR_BAD;
}

static err consistency_check(const struct reading *r, const json_t *json)
{
    static const char *const words[] = { "all", "localOne", "localQuorum" };
    const json_t *value = json_object_get(json, "consistency");
    if (value == NULL)
        return ERR_OK;
    const char *word = json_body_word(value);
    for (unsigned i = 0; word != NULL && i < COUNT_OF(words); i++)
        if (strcmp(word, words[i]) == 0)
            return ERR_OK; /* one store answers for all of them */
    err_note_set(r->note, "consistency must be all, localOne or localQuorum");
    return ERR_BAD;
}

static err table_check(const struct reading *r, const json_t *json)
{
    const json_t *table = json_object_get(json, "table");
    if (table == NULL || str_eq(json_body_text(table), r->schema->name))
        return ERR_OK;
    err_note_set(r->note, "the query's table is not %.*s", STR_ARG(r->schema->name));
    return ERR_BAD;
}

/* From here on the query is one of the index. */
static err index_read(struct reading *r, const json_t *json, struct table_get *g)
{
    const char *name = json_body_word(json);
    if (json == NULL || json_is_null(json))
        return ERR_OK;
    const struct schema_index *ix =
        name == NULL ? NULL : schema_index_find(r->schema, str_of(name));
    if (ix == NULL) {
        err_note_set(
            r->note,
            "there is no index %s in table %.*s; one that was declared before indexes were kept "
            "comes with a higher version of the schema",
            name == NULL ? "but by a name" : name, STR_ARG(r->schema->name));
        return ERR_BAD;
    }
    g->index = ix->name;
    r->schema = schema_through(r->arena, r->schema, ix);
    return r->schema == NULL ? ERR_LIMIT : ERR_OK;
}

static err get_read(struct reading *r, const json_t *json, struct table_get *g)
{
    static const char *const known[] = { "table",    "index",       "attributes", "proj",
                                         "order",    "limit",       "next",       "withTTL",
                                         "distinct", "consistency", NULL };
    err e = members_check(json, known, r->note);
    if (e == ERR_OK)
        e = index_read(r, json_object_get(json, "index"), g);
    if (e == ERR_OK)
        e = table_check(r, json);
    if (e == ERR_OK)
        e = consistency_check(r, json);
    if (e == ERR_OK)
        e = predicates_read(r, json_object_get(json, "attributes"), &g->predicates,
                            &g->predicates_count);
    if (e == ERR_OK)
        e = proj_read(r, json_object_get(json, "proj"), g);
    if (e == ERR_OK)
        e = order_read(r, json_object_get(json, "order"), g);
    if (e == ERR_OK)
        e = page_read(r, json, g);
    if (e == ERR_OK)
        e = flag_read(r, json, "withTTL", &g->with_ttl);
    if (e == ERR_OK)
        e = flag_read(r, json, "distinct", &g->distinct);
    return e;
}

err query_get(struct arena *a, const struct schema *s, str text, struct table_get *out,
              struct err_note *note)
{
    struct reading r = { .arena = a, .schema = s, .note = note };
    struct table_get g = { .table = s->name };
    json_t *json;
    err e = query_load(text, false, &json, note);
    if (e != ERR_OK)
        return e;
    e = get_read(&r, json, &g);
    json_decref(json);
    if (e == ERR_OK)
        *out = g;
    return e;
}

/* ---- put ---- */

static err ttl_read(const struct reading *r, const json_t *json, struct table_write *w)
{
    w->ttl_s = json_integer_value(json);
    if (json_is_integer(json) && w->ttl_s >= 1 && w->ttl_s <= TABLE_TTL_S_MAX)
        return ERR_OK;
    err_note_set(r->note, "_ttl must be a whole number of seconds from 1 to %lld",
                 (long long)TABLE_TTL_S_MAX);
    return ERR_BAD;
}

static err put_attrs_read(const struct reading *r, const json_t *json, struct table_write *w)
{
    size_t size = json_object_size(json);
    if (!json_is_object(json) || size == 0) {
        err_note_set(r->note, "attributes must be an object with the whole key");
        return ERR_BAD;
    }
    struct table_attr *attrs = arena_calloc(r->arena, size, sizeof *attrs);
    if (attrs == NULL)
        return ERR_LIMIT;
    w->attrs = attrs;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)json, name, value)
    {
        const struct schema_attr *at;
        err e;
        if (strcmp(name, "_ttl") == 0) {
            e = ttl_read(r, value, w);
        } else {
            struct table_attr *to = &attrs[w->attrs_count];
            e = attr_find(r, name, &at);
            if (e == ERR_OK)
                e = value_read(r, at, value, &to->value);
            if (e == ERR_OK) {
                to->name = at->name;
                w->attrs_count++;
            }
        }
        if (e != ERR_OK)
            return e;
    }
    return ERR_OK;
}

/* {"eq": value} or the bare value. */
static const json_t *condition_value(const struct schema_attr *at, const json_t *json)
{
    if (is_operators(at, json) && json_object_size(json) == 1) {
        void *it = json_object_iter((json_t *)(uintptr_t)json);
        if (strcasecmp(json_object_iter_key(it), "eq") == 0)
            return json_object_iter_value(it);
    }
    return at->kind.type != TYPE_JSON && is_operators(at, json) ? NULL : json;
}

static err equal_add(const struct reading *r, struct table_attr *to, const char *name,
                     const json_t *json)
{
    const struct schema_attr *at;
    err e = attr_find(r, name, &at);
    if (e != ERR_OK)
        return e;
    const json_t *value = condition_value(at, json);
    if (value == NULL) {
        err_note_set(r->note, "a condition on %s must be {\"eq\": value}", name);
        return ERR_BAD;
    }
    to->name = at->name;
    return value_read(r, at, value, &to->value);
}

static err condition_read(const struct reading *r, const json_t *json, struct table_write *w)
{
    if (json == NULL || json_is_null(json))
        return ERR_OK;
    const char *word = json_body_word(json);
    if (word != NULL && strcasecmp(word, "not exists") == 0) {
        w->condition = IF_NOT_EXISTS;
        return ERR_OK;
    }
    size_t size = json_object_size(json);
    if (!json_is_object(json) || size == 0) {
        err_note_set(r->note,
                     "if must be \"not exists\" or an object of attributes and {\"eq\": value}");
        return ERR_BAD;
    }
    struct table_attr *equal = arena_calloc(r->arena, size, sizeof *equal);
    if (equal == NULL)
        return ERR_LIMIT;
    const char *name;
    json_t *value;
    w->condition = IF_EQUAL;
    w->equal = equal;
    json_object_foreach((json_t *)(uintptr_t)json, name, value)
    {
        err e = equal_add(r, &equal[w->equal_count++], name, value);
        if (e != ERR_OK)
            return e;
    }
    return ERR_OK;
}

err query_put(struct arena *a, const struct schema *s, const json_t *json, struct table_write *out,
              struct err_note *note)
{
    static const char *const known[] = { "op",          "table", "attributes", "if",
                                         "consistency", "_ttl",  NULL };
    struct reading r = { .arena = a, .schema = s, .note = note };
    struct table_write w = { .table = s->name };
    err e = members_check(json, known, note);
    if (e == ERR_OK)
        e = table_check(&r, json);
    if (e == ERR_OK)
        e = consistency_check(&r, json);
    if (e == ERR_OK)
        e = put_attrs_read(&r, json_object_get(json, "attributes"), &w);
    if (e == ERR_OK && json_object_get(json, "_ttl") != NULL)
        e = ttl_read(&r, json_object_get(json, "_ttl"), &w);
    if (e == ERR_OK)
        e = condition_read(&r, json_object_get(json, "if"), &w);
    if (e == ERR_OK)
        *out = w;
    return e;
}

/* ---- delete ---- */

err query_delete(struct arena *a, const struct schema *s, const json_t *json,
                 struct table_write *out, struct err_note *note)
{
    static const char *const known[] = { "op", "table", "attributes", "consistency", NULL };
    struct reading r = { .arena = a, .schema = s, .note = note };
    struct table_write w = { .table = s->name, .is_delete = true };
    err e = members_check(json, known, note);
    if (e == ERR_OK)
        e = table_check(&r, json);
    if (e == ERR_OK)
        e = consistency_check(&r, json);
    if (e == ERR_OK)
        e = predicates_read(&r, json_object_get(json, "attributes"), &w.predicates,
                            &w.predicates_count);
    if (e == ERR_OK)
        *out = w;
    return e;
}
