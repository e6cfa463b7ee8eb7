/* schema_store.c - schemas as bytes, and from one version to the next. */
#include "codec/json.h"
#include "table/schema.h"
#include "table/trim.h"

/* A schema with neither indexes nor a policy is packed as it was before there were any. */
enum { PACK_VERSION = 1, PACK_VERSION_MORE = 2, ATTR_DESC = 1, ATTR_SET = 2 };

void schema_first(struct schema *s, uint32_t number)
{
    s->number = number;
    s->changes = 1;
    for (unsigned i = 0; i < s->attrs_count; i++)
        s->attrs[i].number = ++s->attrs_made;
    for (unsigned i = 0; i < s->indexes_count; i++)
        s->indexes[i].number = ++s->indexes_made;
}

/* ---- migration ---- */

static bool same_kind(struct table_kind a, struct table_kind b)
{
    return a.type == b.type && a.set == b.set;
}

static bool same_key_attr(const struct schema_attr *a, const struct schema_attr *b)
{
    return str_eq(a->name, b->name) && same_kind(a->kind, b->kind) && a->desc == b->desc;
}

static bool same_key(const struct schema *a, const struct schema *b)
{
    if (a->hash_count != b->hash_count || a->range_count != b->range_count)
        return false;
    for (unsigned i = 0; i < a->hash_count; i++)
        if (!same_key_attr(&a->attrs[a->hash[i]], &b->attrs[b->hash[i]]))
            return false;
    for (unsigned i = 0; i < a->range_count; i++)
        if (!same_key_attr(&a->attrs[a->range[i]], &b->attrs[b->range[i]]))
            return false;
    return true;
}

/* Is that member of both the same JSON, whatever the order of its members? */
static bool same_member(const struct schema *a, const struct schema *b, const char *name)
{
    json_t *left = json_body_read(a->text), *right = json_body_read(b->text);
    const json_t *l = json_object_get(left, name), *r = json_object_get(right, name);
    bool same = l == r || (l != NULL && r != NULL && json_equal(l, r) != 0);
    json_decref(left);
    json_decref(right);
    return same;
}

static bool same_schema(const struct schema *a, const struct schema *b)
{
    if (a->version != b->version || a->attrs_count != b->attrs_count || !same_key(a, b) ||
        !same_member(a, b, "options") || !same_member(a, b, "secondaryIndexes") ||
        !same_member(a, b, "revisionRetentionPolicy"))
        return false;
    for (unsigned i = 0; i < b->attrs_count; i++) {
        const struct schema_attr *was = schema_find(a, b->attrs[i].name);
        if (was == NULL || was->role != b->attrs[i].role || !same_kind(was->kind, b->attrs[i].kind))
            return false;
    }
    return true;
}

static err attr_follows(const struct schema_attr *was, const struct schema_attr *is,
                        struct err_note *note)
{
    if (!same_kind(was->kind, is->kind)) {
        err_note_set(note, "attribute %.*s cannot change its type", STR_ARG(is->name));
        return ERR_BAD;
    }
    if (was->role != is->role) {
        err_note_set(note, "attribute %.*s cannot change its place in the index",
                     STR_ARG(is->name));
        return ERR_BAD;
    }
    return ERR_OK;
}

static err attrs_follow(const struct schema *old, struct schema *next, struct err_note *note)
{
    next->attrs_made = old->attrs_made;
    for (unsigned i = 0; i < next->attrs_count; i++) {
        struct schema_attr *is = &next->attrs[i];
        const struct schema_attr *was = schema_find(old, is->name);
        if (was != NULL) {
            err e = attr_follows(was, is, note);
            if (e != ERR_OK)
                return e;
            is->number = was->number;
            continue;
        }
        if (next->attrs_made == UINT16_MAX) {
            err_note_set(note, "the table had more than %d attributes in its life", UINT16_MAX);
            return ERR_BAD;
        }
        is->number = ++next->attrs_made;
    }
    return ERR_OK;
}

err schema_migrate(const struct schema *old, struct schema *next, bool *changed,
                   struct err_note *note)
{
    if (!same_schema(old, next)) {
        if (next->version <= old->version) {
            err_note_set(note,
                         "the table exists with another schema: version must be higher than %lld",
                         (long long)old->version);
            return ERR_BAD;
        }
        if (!same_key(old, next)) {
            err_note_set(note, "hash and range attributes cannot change");
            return ERR_BAD;
        }
        *changed = true;
    } else {
        *changed = false;
    }
    err e = attrs_follow(old, next, note);
    if (e == ERR_OK)
        e = schema_indexes_follow(old, next, note);
    *changed |=
        next->indexes_made > old->indexes_made; /* the same schema, of which an index was lacking */
    next->number = old->number;
    next->changes = old->changes + (*changed ? 1u : 0u);
    return e;
}

/* ---- bytes ---- */

void schema_pack(struct buf *b, const struct schema *s)
{
    bool more = s->indexes_made > 0 || s->policy.kind != POLICY_ALL;
    buf_put_u8(b, more ? PACK_VERSION_MORE : PACK_VERSION);
    buf_put_be32(b, s->number);
    buf_put_be32(b, s->changes);
    buf_put_be64(b, (uint64_t)s->version);
    buf_put_be64(b, (uint64_t)s->ttl_s);
    buf_put_be16(b, s->attrs_made);
    buf_put_be32(b, (uint32_t)s->text.n);
    buf_put(b, s->text);
    buf_put_u8(b, (uint8_t)s->attrs_count);
    for (unsigned i = 0; i < s->attrs_count; i++) {
        const struct schema_attr *at = &s->attrs[i];
        buf_put_be16(b, at->number);
        buf_put_u8(b, (uint8_t)at->kind.type);
        buf_put_u8(b, (uint8_t)at->role);
        buf_put_u8(b, (uint8_t)((at->desc ? ATTR_DESC : 0) | (at->kind.set ? ATTR_SET : 0)));
        buf_put_str16(b, at->name);
    }
    buf_put_u8(b, (uint8_t)s->hash_count);
    buf_put(b, (str){ .p = (const char *)s->hash, .n = s->hash_count });
    buf_put_u8(b, (uint8_t)s->range_count);
    buf_put(b, (str){ .p = (const char *)s->range, .n = s->range_count });
    if (!more)
        return;
    schema_indexes_pack(b, s);
    trim_pack(b, s);
}

static bool unpack_attr(struct cursor *c, struct schema_attr *at)
{
    at->number = cursor_be16(c);
    uint8_t type = cursor_u8(c), role = cursor_u8(c), flags = cursor_u8(c);
    at->name = cursor_bytes(c, cursor_be16(c));
    if (type >= TABLE_TYPES || role >= SCHEMA_ROLES || at->name.n == 0 ||
        at->name.n > TABLE_ATTR_NAME_BYTES_MAX)
        return false;
    at->kind = (struct table_kind){ .type = (enum table_type)type, .set = (flags & ATTR_SET) != 0 };
    at->role = (enum schema_role)role;
    at->desc = (flags & ATTR_DESC) != 0;
    return !c->failed;
}

static bool unpack_key(struct cursor *c, const struct schema *s, enum schema_role role,
                       uint8_t *list, unsigned *count)
{
    *count = cursor_u8(c);
    if (*count > TABLE_KEY_ATTRS_MAX)
        return false;
    for (unsigned i = 0; i < *count; i++) {
        list[i] = cursor_u8(c);
        if (list[i] >= s->attrs_count || s->attrs[list[i]].role != role ||
            s->attrs[list[i]].kind.set)
            return false;
    }
    return !c->failed;
}

static bool unpack(struct cursor *c, struct schema *s)
{
    uint8_t version = cursor_u8(c);
    if (version != PACK_VERSION && version != PACK_VERSION_MORE)
        return false;
    s->number = cursor_be32(c);
    s->changes = cursor_be32(c);
    s->version = (int64_t)cursor_be64(c);
    s->ttl_s = (int64_t)cursor_be64(c);
    s->attrs_made = cursor_be16(c);
    s->text = cursor_bytes(c, cursor_be32(c));
    s->attrs_count = cursor_u8(c);
    if (s->attrs_count > TABLE_ATTRS_MAX || s->ttl_s < 0 || s->ttl_s > TABLE_TTL_S_MAX)
        return false;
    for (unsigned i = 0; i < s->attrs_count; i++) {
        if (!unpack_attr(c, &s->attrs[i]))
            return false;
        s->statics_count += s->attrs[i].role == ROLE_STATIC ? 1 : 0;
    }
    return unpack_key(c, s, ROLE_HASH, s->hash, &s->hash_count) &&
           unpack_key(c, s, ROLE_RANGE, s->range, &s->range_count) && s->hash_count > 0 &&
           (version == PACK_VERSION || (schema_indexes_unpack(c, s) && trim_unpack(c, s))) &&
           cursor_done(c);
}

err schema_unpack(struct arena *a, str name, str bytes, struct schema **out)
{
    struct schema *s = arena_calloc(a, 1, sizeof *s);
    str copy = arena_copy(a, bytes);
    if (s == NULL || copy.p == NULL)
        return ERR_LIMIT;
    struct cursor c = { .rest = copy };
    s->name = name;
    if (!unpack(&c, s))
        return ERR_CORRUPT;
    *out = s;
    return ERR_OK;
}
