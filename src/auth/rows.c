/* rows.c - encodes and decodes the rows of the authority: keys, and values behind a version.
 * Invariant: a value is whole when its version is known and no byte is left over; anything else
 * is ERR_CORRUPT. */
#include "auth/rows.h"

#include <string.h>

static void key_begin(struct rowkey *k, char kind)
{
    rowkey_init(k);
    rowkey_put_u8(k, (uint8_t)kind);
}

void row_key_of_all(struct rowkey *k, char kind)
{
    key_begin(k, kind);
}

void row_key1(struct rowkey *k, char kind, str a)
{
    key_begin(k, kind);
    rowkey_put_text(k, a);
}

void row_key2(struct rowkey *k, char kind, str a, str b)
{
    row_key1(k, kind, a);
    rowkey_put_text(k, b);
}

void row_key3(struct rowkey *k, char kind, str a, str b, str c)
{
    row_key2(k, kind, a, b);
    rowkey_put_text(k, c);
}

void row_key_of_secret(struct rowkey *k, const struct secret_hash *h)
{
    key_begin(k, 'k');
    rowkey_put_raw(k, (str){ .p = (const char *)h->bytes, .n = ROW_HASH_KEY_BYTES });
}

void row_key_of_count(struct rowkey *k, char kind)
{
    key_begin(k, 'c');
    rowkey_put_u8(k, (uint8_t)kind);
}

err row_key_texts(str key, char kind, struct arena *a, str *texts, unsigned count)
{
    struct cursor c = { .rest = key };
    bool known = cursor_u8(&c) == (uint8_t)kind;
    for (unsigned i = 0; i < count; i++)
        texts[i] = rowkey_get_text(&c, a);
    return known && cursor_done(&c) ? ERR_OK : ERR_CORRUPT;
}

/* ---- values ---- */

static void put_time(struct buf *b, store_time t)
{
    buf_put_be64(b, (uint64_t)t.ns);
}

static store_time get_time(struct cursor *c)
{
    return (store_time){ .ns = (int64_t)cursor_be64(c) };
}

/* A value is whole when its version is known and nothing is left over. */
static struct cursor auth_rows_begin(str value, bool *known)
{
    struct cursor c = { .rest = value };
    *known = cursor_u8(&c) == ROW_VERSION;
    return c;
}

void row_put_space(struct buf *b, const struct row_space *r)
{
    buf_put_u8(b, ROW_VERSION);
    buf_put_str16(b, r->tag);
    put_time(b, r->created_at);
}

err row_get_space(str value, struct row_space *r)
{
    bool known;
    struct cursor c = auth_rows_begin(value, &known);
    str tag = cursor_str16(&c);
    store_time created_at = get_time(&c);
    if (!known || !cursor_done(&c) || tag.n > AUTH_TAG_BYTES_MAX)
        return ERR_CORRUPT;
    *r = (struct row_space){ .tag = tag, .created_at = created_at };
    return ERR_OK;
}

void row_put_user(struct buf *b, const struct row_user *r)
{
    buf_put_u8(b, ROW_VERSION);
    buf_put_str16(b, r->name);
    buf_put_str16(b, r->email);
    buf_put_str16(b, r->external_id);
    put_time(b, r->created_at);
    put_time(b, r->updated_at);
}

err row_get_user(str value, struct row_user *r)
{
    bool known;
    struct cursor c = auth_rows_begin(value, &known);
    str name = cursor_str16(&c), email = cursor_str16(&c), external_id = cursor_str16(&c);
    store_time created_at = get_time(&c), updated_at = get_time(&c);
    if (!known || !cursor_done(&c))
        return ERR_CORRUPT;
    *r = (struct row_user){ .name = name,
                            .email = email,
                            .external_id = external_id,
                            .created_at = created_at,
                            .updated_at = updated_at };
    return ERR_OK;
}

void row_put_role(struct buf *b, const struct row_role *r)
{
    buf_put_u8(b, ROW_VERSION);
    buf_put_str16(b, r->id);
    buf_put_be64(b, r->bits);
    buf_put_u8(b, r->standard ? 1 : 0);
    put_time(b, r->created_at);
}

err row_get_role(str value, struct row_role *r)
{
    bool known;
    struct cursor c = auth_rows_begin(value, &known);
    str id = cursor_str16(&c);
    uint64_t bits = cursor_be64(&c);
    uint8_t standard = cursor_u8(&c);
    store_time created_at = get_time(&c);
    if (!known || !cursor_done(&c) || standard > 1 || id.n != AUTH_ID_BYTES)
        return ERR_CORRUPT;
    *r = (struct row_role){
        .id = id, .bits = bits, .standard = standard == 1, .created_at = created_at
    };
    return ERR_OK;
}

void row_put_binding(struct buf *b, const struct row_binding *r)
{
    buf_put_u8(b, ROW_VERSION);
    buf_put_str16(b, r->id);
    buf_put_str16(b, r->role_space);
    buf_put_str16(b, r->role_name);
    put_time(b, r->created_at);
}

err row_get_binding(str value, struct row_binding *r)
{
    bool known;
    struct cursor c = auth_rows_begin(value, &known);
    str id = cursor_str16(&c), role_space = cursor_str16(&c), role_name = cursor_str16(&c);
    store_time created_at = get_time(&c);
    if (!known || !cursor_done(&c) || id.n != AUTH_ID_BYTES)
        return ERR_CORRUPT;
    *r = (struct row_binding){
        .id = id, .role_space = role_space, .role_name = role_name, .created_at = created_at
    };
    return ERR_OK;
}

void row_put_bound(struct buf *b, const struct row_bound *r)
{
    buf_put_u8(b, ROW_VERSION);
    buf_put_str16(b, r->user_id);
    buf_put_str16(b, r->role_id);
}

err row_get_bound(str value, struct row_bound *r)
{
    bool known;
    struct cursor c = auth_rows_begin(value, &known);
    str user_id = cursor_str16(&c), role_id = cursor_str16(&c);
    if (!known || !cursor_done(&c))
        return ERR_CORRUPT;
    *r = (struct row_bound){ .user_id = user_id, .role_id = role_id };
    return ERR_OK;
}

void row_put_secret(struct buf *b, const struct row_secret *r)
{
    buf_put_u8(b, ROW_VERSION);
    buf_put(b, (str){ .p = (const char *)r->hash.bytes, .n = SECRET_HASH_BYTES });
    buf_put_str16(b, r->id);
    buf_put_str16(b, r->user_id);
    buf_put_str16(b, r->scope);
    buf_put_str16(b, r->prefix);
    buf_put_str16(b, r->name);
    put_time(b, r->created_at);
    put_time(b, r->expires_at);
}

err row_get_secret(str value, struct row_secret *r)
{
    bool known;
    struct cursor c = auth_rows_begin(value, &known);
    str hash = cursor_bytes(&c, SECRET_HASH_BYTES);
    str id = cursor_str16(&c), user_id = cursor_str16(&c), scope = cursor_str16(&c);
    str prefix = cursor_str16(&c), name = cursor_str16(&c);
    store_time created_at = get_time(&c), expires_at = get_time(&c);
    if (!known || !cursor_done(&c) || id.n != AUTH_ID_BYTES || prefix.n > AUTH_PREFIX_BYTES_MAX)
        return ERR_CORRUPT;
    *r = (struct row_secret){ .id = id,
                              .user_id = user_id,
                              .scope = scope,
                              .prefix = prefix,
                              .name = name,
                              .created_at = created_at,
                              .expires_at = expires_at };
    memcpy(r->hash.bytes, hash.p, SECRET_HASH_BYTES);
    return ERR_OK;
}

void row_put_text(struct buf *b, str s)
{
    buf_put_u8(b, ROW_VERSION);
    buf_put_str16(b, s);
}

err row_get_text(str value, str *s)
{
    bool known;
    struct cursor c = auth_rows_begin(value, &known);
    str text = cursor_str16(&c);
    if (!known || !cursor_done(&c))
        return ERR_CORRUPT;
    *s = text;
    return ERR_OK;
}
