#include "auth/rows.h"

#include <string.h>

static void key_begin(struct rowkey *k, char kind)
{
    rowkey_init(k);
    rowkey_put_u8(k, (uint8_t)kind);
}

static void key_texts(struct rowkey *k, char kind, const str *texts, unsigned count)
{
    key_begin(k, kind);
    for (unsigned i = 0; i < count; i++)
        rowkey_put_text(k, texts[i]);
}

void row_key_of_namespace(struct rowkey *k, str name)
{
    key_texts(k, 'n', &name, 1);
}

void row_key_of_user(struct rowkey *k, str id)
{
    key_texts(k, 'u', &id, 1);
}

void row_key_of_user_name(struct rowkey *k, str name)
{
    key_texts(k, 'U', &name, 1);
}

void row_key_of_role(struct rowkey *k, str space, str name)
{
    key_texts(k, 'r', (const str[]){ space, name }, 2);
}

void row_key_of_bindings(struct rowkey *k, str user_id)
{
    key_texts(k, 'b', &user_id, 1);
}

void row_key_of_binding(struct rowkey *k, str user_id, str space, str role)
{
    key_texts(k, 'b', (const str[]){ user_id, space, role }, 3);
}

void row_key_of_secret(struct rowkey *k, const struct secret_hash *h)
{
    key_begin(k, 'k');
    rowkey_put_raw(k, (str){ .p = (const char *)h->bytes, .n = ROW_HASH_KEY_BYTES });
}

void row_key_of_secrets(struct rowkey *k)
{
    key_begin(k, 'k');
}

void row_key_of_id(struct rowkey *k, str id)
{
    key_texts(k, 'i', &id, 1);
}

void row_key_of_owned(struct rowkey *k, str user_id, str id)
{
    key_texts(k, 'o', (const str[]){ user_id, id }, 2);
}

void row_key_of_owner(struct rowkey *k, str user_id)
{
    key_texts(k, 'o', &user_id, 1);
}

void row_key_of_count(struct rowkey *k)
{
    key_begin(k, 'c');
}

err row_binding_names(str key, struct arena *a, str *space, str *role)
{
    struct cursor c = { .rest = key };
    uint8_t kind = cursor_u8(&c);
    (void)rowkey_get_text(&c, a); /* the user, whom the caller knows */
    str s = rowkey_get_text(&c, a), r = rowkey_get_text(&c, a);
    if (kind != 'b' || !cursor_done(&c))
        return ERR_CORRUPT;
    *space = s;
    *role = r;
    return ERR_OK;
}

/* ---- values ---- */

static void put_text(struct buf *b, str s)
{
    INVARIANT(s.n <= UINT8_MAX);
    buf_put_u8(b, (uint8_t)s.n);
    buf_put(b, s);
}

static str get_text(struct cursor *c)
{
    return cursor_bytes(c, cursor_u8(c));
}

static void put_time(struct buf *b, store_time t)
{
    buf_put_be64(b, (uint64_t)t.ns);
}

static store_time get_time(struct cursor *c)
{
    return (store_time){ .ns = (int64_t)cursor_be64(c) };
}

static bool is_whole(const struct cursor *c, uint8_t version)
{
    return version == ROW_VERSION && cursor_done(c);
}

void row_put_secret(struct buf *b, const struct row_secret *r)
{
    buf_put_u8(b, ROW_VERSION);
    buf_put(b, (str){ .p = (const char *)r->hash.bytes, .n = SECRET_HASH_BYTES });
    put_text(b, r->id);
    put_text(b, r->user_id);
    put_text(b, r->space);
    put_text(b, r->prefix);
    put_time(b, r->created_at);
    put_time(b, r->expires_at);
}

err row_get_secret(str value, struct row_secret *r)
{
    struct cursor c = { .rest = value };
    uint8_t version = cursor_u8(&c);
    str hash = cursor_bytes(&c, SECRET_HASH_BYTES);
    str id = get_text(&c), user_id = get_text(&c), space = get_text(&c), prefix = get_text(&c);
    store_time created_at = get_time(&c), expires_at = get_time(&c);
    if (!is_whole(&c, version) || id.n != AUTH_ID_BYTES || prefix.n > AUTH_PREFIX_BYTES_MAX)
        return ERR_CORRUPT;
    *r = (struct row_secret){ .id = id, .user_id = user_id, .space = space, .prefix = prefix,
                              .created_at = created_at, .expires_at = expires_at };
    memcpy(r->hash.bytes, hash.p, SECRET_HASH_BYTES);
    return ERR_OK;
}

void row_put_role(struct buf *b, const struct row_role *r)
{
    buf_put_u8(b, ROW_VERSION);
    put_text(b, r->id);
    buf_put_be64(b, r->bits);
    buf_put_u8(b, r->standard ? 1 : 0);
    put_time(b, r->created_at);
}

err row_get_role(str value, struct row_role *r)
{
    struct cursor c = { .rest = value };
    uint8_t version = cursor_u8(&c);
    str id = get_text(&c);
    uint64_t bits = cursor_be64(&c);
    uint8_t standard = cursor_u8(&c);
    store_time created_at = get_time(&c);
    if (!is_whole(&c, version) || standard > 1)
        return ERR_CORRUPT;
    *r = (struct row_role){ .id = id, .bits = bits, .standard = standard == 1, .created_at = created_at };
    return ERR_OK;
}

void row_put_name(struct buf *b, const struct row_name *r)
{
    buf_put_u8(b, ROW_VERSION);
    put_text(b, r->name);
    put_time(b, r->created_at);
}

err row_get_name(str value, struct row_name *r)
{
    struct cursor c = { .rest = value };
    uint8_t version = cursor_u8(&c);
    str name = get_text(&c);
    store_time created_at = get_time(&c);
    if (!is_whole(&c, version))
        return ERR_CORRUPT;
    *r = (struct row_name){ .name = name, .created_at = created_at };
    return ERR_OK;
}
