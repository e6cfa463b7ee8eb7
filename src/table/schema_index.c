/* schema_index.c - secondary indexes of a schema: read, given numbers, stored, seen as a table. */
#include "codec/json.h"
#include "table/schema.h"

#include <string.h>

const struct schema_index *schema_index_find(const struct schema *s, str name)
{
    for (unsigned i = 0; i < s->indexes_count; i++)
        if (str_eq(s->indexes[i].name, name))
            return &s->indexes[i];
    return NULL;
}

const struct schema_index *schema_index_numbered(const struct schema *s, uint16_t number)
{
    for (unsigned i = 0; i < s->indexes_count; i++)
        if (s->indexes[i].number == number)
            return &s->indexes[i];
    return NULL;
}

/* ---- from JSON ---- */

/* One index being read. */
struct reading {
    struct schema *schema;
    struct schema_index *index;
    struct err_note *note;
    bool named[TABLE_ATTRS_MAX];
};

static err schema_index_refuse(const struct reading *r, const char *what, str attr)
{
    err_note_set(r->note, "secondaryIndexes.%.*s: %s%s%.*s", STR_ARG(r->index->name), what,
                 attr.n > 0 ? ": " : "", STR_ARG(str_take(attr, TABLE_ATTR_NAME_BYTES_MAX)));
    return ERR_BAD;
}

static unsigned keys_count(const struct schema_index *ix)
{
    return ix->hash_count + ix->range_count;
}

static err key_add(struct reading *r, unsigned attr, bool hash, bool desc)
{
    struct schema_index *ix = r->index;
    if ((hash ? ix->hash_count : ix->range_count) == TABLE_KEY_ATTRS_MAX)
        return schema_index_refuse(
            r, "more than 16 hash or range attributes, with those of the table's own key",
            STR_NONE);
    ix->desc[keys_count(ix)] = desc;
    ix->keys[keys_count(ix)] = (uint8_t)attr;
    if (hash)
        ix->hash_count++;
    else
        ix->range_count++;
    return ERR_OK;
}

static const char *schema_index_member(const json_t *json, const char *name)
{
    const char *text = json_body_word(json_object_get(json, name));
    return text == NULL ? "" : text;
}

/* Hash attributes come first in the key wherever they are named, so they are read in a round of
 * their own. */
static err entry_read(struct reading *r, const json_t *entry, bool hashes)
{
    str name = str_of(schema_index_member(entry, "attribute"));
    const char *type = schema_index_member(entry, "type");
    const struct schema_attr *at = schema_find(r->schema, name);
    bool hash = strcmp(type, "hash") == 0, range = strcmp(type, "range") == 0;
    if (at == NULL)
        return schema_index_refuse(r, "is not in attributes", name);
    if (!hash && !range && strcmp(type, "proj") != 0 && strcmp(type, "static") != 0)
        return schema_index_refuse(r, "its type must be hash, range, static or proj", name);
    if (hash != hashes)
        return ERR_OK;
    unsigned index = (unsigned)(at - r->schema->attrs);
    if (r->named[index])
        return schema_index_refuse(r, "named twice", name);
    r->named[index] = r->index->shown[index] = true;
    if (!hash && !range)
        return ERR_OK;
    if (at->kind.set)
        return schema_index_refuse(r, "a set cannot be hash or range", name);
    if (at->role == ROLE_STATIC)
        return schema_index_refuse(
            r,
            "a static attribute cannot be hash or range: it would change the entries of "
            "a whole partition",
            name);
    const char *order =
        json_object_get(entry, "order") == NULL ? "asc" : schema_index_member(entry, "order");
    if (strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0)
        return schema_index_refuse(r, "its order must be asc or desc", name);
    return key_add(r, index, hash, range && strcmp(order, "desc") == 0);
}

/* The version of rows: the last range attribute, when it is a timeuuid, descending. */
static bool is_version(const struct schema *s, unsigned attr)
{
    return s->range_count > 0 && s->range[s->range_count - 1] == attr && s->attrs[attr].desc &&
           s->attrs[attr].kind.type == TYPE_TIMEUUID;
}

static bool in_key(const struct schema_index *ix, unsigned attr)
{
    for (unsigned i = 0; i < keys_count(ix); i++)
        if (ix->keys[i] == attr)
            return true;
    return false;
}

/* Of the table's key: also what is named to be shown only, so that each row has an entry of its
 * own. */
static err rest_add(struct reading *r, const uint8_t *list, unsigned count)
{
    err e = ERR_OK;
    for (unsigned i = 0; e == ERR_OK && i < count; i++) {
        if (in_key(r->index, list[i]))
            continue;
        r->index->grouped = is_version(r->schema, list[i]) && !r->named[list[i]];
        r->index->shown[list[i]] = !r->index->grouped;
        e = key_add(r, list[i], false, true);
    }
    return e;
}

static err index_read(struct reading *r, const json_t *list)
{
    if (r->index->name.n == 0 || r->index->name.n > TABLE_ATTR_NAME_BYTES_MAX)
        return schema_index_refuse(r, "its name must have 1 to 64 bytes", STR_NONE);
    if (!json_is_array(list) || json_array_size(list) == 0)
        return schema_index_refuse(r, "must be an array of {attribute, type, order}", STR_NONE);
    err e = ERR_OK;
    for (unsigned round = 0; round < 2; round++)
        for (size_t i = 0; e == ERR_OK && i < json_array_size(list); i++)
            e = entry_read(r, json_array_get(list, i), round == 0);
    if (e == ERR_OK && r->index->hash_count == 0)
        return schema_index_refuse(r, "needs at least one hash attribute", STR_NONE);
    if (e == ERR_OK)
        e = rest_add(r, r->schema->hash, r->schema->hash_count);
    return e == ERR_OK ? rest_add(r, r->schema->range, r->schema->range_count) : e;
}

err schema_indexes_read(struct arena *a, const json_t *json, struct schema *s,
                        struct err_note *note)
{
    const char *name;
    json_t *list;
    if (json == NULL || json_is_null(json))
        return ERR_OK;
    if (!json_is_object(json) || json_object_size(json) > TABLE_INDEXES_MAX) {
        err_note_set(note, "secondaryIndexes must be an object of at most %d names and arrays",
                     TABLE_INDEXES_MAX);
        return ERR_BAD;
    }
    json_object_foreach((json_t *)(uintptr_t)json, name, list)
    {
        struct reading r = { .schema = s, .index = &s->indexes[s->indexes_count], .note = note };
        r.index->name = arena_copy(a, str_of(name));
        if (r.index->name.p == NULL)
            return ERR_LIMIT;
        err e = index_read(&r, list);
        if (e != ERR_OK)
            return e;
        s->indexes_count++;
    }
    return ERR_OK;
}

/* ---- migration ---- */

/* Earlier servers left what an index named as proj out of its entries. */
static bool has_whole_key(const struct schema *s, const struct schema_index *ix)
{
    for (unsigned i = 0; i < s->hash_count; i++)
        if (!in_key(ix, s->hash[i]))
            return false;
    for (unsigned i = 0; i < s->range_count; i++)
        if (!in_key(ix, s->range[i]))
            return false;
    return true;
}

/* Do both have the same entries? What they show is not in them. */
static bool same_entries(const struct schema *a, const struct schema_index *x,
                         const struct schema *b, const struct schema_index *y)
{
    if (x->hash_count != y->hash_count || x->range_count != y->range_count ||
        x->grouped != y->grouped)
        return false;
    for (unsigned i = 0; i < keys_count(x); i++)
        if (a->attrs[x->keys[i]].number != b->attrs[y->keys[i]].number || x->desc[i] != y->desc[i])
            return false;
    return true;
}

err schema_indexes_follow(const struct schema *old, struct schema *next, struct err_note *note)
{
    next->indexes_made = old->indexes_made;
    for (unsigned i = 0; i < next->indexes_count; i++) {
        struct schema_index *is = &next->indexes[i];
        const struct schema_index *was = schema_index_find(old, is->name);
        if (was != NULL && same_entries(old, was, next, is)) {
            is->number = was->number;
            continue;
        }
        if (next->indexes_made == UINT16_MAX) {
            err_note_set(note, "the table had more than %d indexes in its life", UINT16_MAX);
            return ERR_BAD;
        }
        is->number = ++next->indexes_made;
    }
    return ERR_OK;
}

/* ---- bytes ---- */

void schema_indexes_pack(struct buf *b, const struct schema *s)
{
    buf_put_be16(b, s->indexes_made);
    buf_put_u8(b, (uint8_t)s->indexes_count);
    for (unsigned i = 0; i < s->indexes_count; i++) {
        const struct schema_index *ix = &s->indexes[i];
        buf_put_be16(b, ix->number);
        buf_put_u8(b, ix->grouped ? 1 : 0);
        buf_put_u8(b, (uint8_t)ix->name.n);
        buf_put(b, ix->name);
        buf_put_u8(b, (uint8_t)ix->hash_count);
        buf_put_u8(b, (uint8_t)ix->range_count);
        for (unsigned k = 0; k < keys_count(ix); k++) {
            buf_put_u8(b, ix->keys[k]);
            buf_put_u8(b, ix->desc[k] ? 1 : 0);
        }
        for (unsigned k = 0; k < s->attrs_count; k++)
            buf_put_u8(b, ix->shown[k] ? 1 : 0);
    }
}

static bool unpack_one(struct cursor *c, const struct schema *s, struct schema_index *ix)
{
    ix->number = cursor_be16(c);
    ix->grouped = cursor_u8(c) != 0;
    ix->name = cursor_bytes(c, cursor_u8(c));
    ix->hash_count = cursor_u8(c);
    ix->range_count = cursor_u8(c);
    if (ix->number == 0 || ix->number > s->indexes_made || ix->name.n == 0 || ix->hash_count == 0 ||
        ix->hash_count > TABLE_KEY_ATTRS_MAX || ix->range_count > TABLE_KEY_ATTRS_MAX)
        return false;
    for (unsigned k = 0; k < keys_count(ix); k++) {
        ix->keys[k] = cursor_u8(c);
        ix->desc[k] = cursor_u8(c) != 0;
        if (ix->keys[k] >= s->attrs_count || s->attrs[ix->keys[k]].kind.set)
            return false;
    }
    for (unsigned k = 0; k < s->attrs_count; k++)
        ix->shown[k] = cursor_u8(c) != 0;
    return !ix->grouped || (ix->range_count > 0 && is_version(s, ix->keys[keys_count(ix) - 1]));
}

bool schema_indexes_unpack(struct cursor *c, struct schema *s)
{
    s->indexes_made = cursor_be16(c);
    s->indexes_count = cursor_u8(c);
    if (s->indexes_count > TABLE_INDEXES_MAX)
        return false;
    for (unsigned i = 0; i < s->indexes_count; i++) {
        if (!unpack_one(c, s, &s->indexes[i]))
            return false;
        s->indexes[i].lacking = !has_whole_key(s, &s->indexes[i]);
    }
    return !c->failed;
}

/* ---- seen as a table ---- */

/* Puts the attribute into the view of the index; a hidden version without its name. */
static uint8_t through_add(struct schema *to, const struct schema *s, unsigned attr,
                           enum schema_role role)
{
    for (unsigned i = 0; i < to->attrs_count; i++)
        if (to->attrs[i].number == s->attrs[attr].number)
            return (uint8_t)i;
    struct schema_attr *at = &to->attrs[to->attrs_count];
    *at = s->attrs[attr];
    at->role = role;
    return (uint8_t)to->attrs_count++;
}

const struct schema *schema_through(struct arena *a, const struct schema *s,
                                    const struct schema_index *ix)
{
    struct schema *to = arena_calloc(a, 1, sizeof *to);
    if (to == NULL)
        return NULL;
    to->name = s->name;
    to->number = s->number;
    to->changes = s->changes;
    to->through = ix;
    for (unsigned i = 0; i < s->attrs_count; i++) /* in the order of the table's own */
        if (ix->shown[i])
            (void)through_add(to, s, i, s->attrs[i].role == ROLE_STATIC ? ROLE_STATIC : ROLE_PLAIN);
    for (unsigned i = 0; i < keys_count(ix); i++) {
        bool hash = i < ix->hash_count;
        uint8_t at = through_add(to, s, ix->keys[i], ROLE_PLAIN);
        to->attrs[at].role = hash ? ROLE_HASH : ROLE_RANGE;
        to->attrs[at].desc = ix->desc[i];
        if (hash)
            to->hash[to->hash_count++] = at;
        else
            to->range[to->range_count++] = at;
        if (ix->grouped && i + 1 == keys_count(ix))
            to->attrs[at].name = STR_NONE;
    }
    return to;
}
