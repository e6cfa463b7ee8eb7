/* rowkey.c - builds and reads keys of rows. Invariant: memcmp of two keys orders them as their
 * fields are ordered. */
#include "codec/rowkey.h"

#include <string.h>

enum { ESCAPE = 0x00, ESCAPED_NUL = 0xff, TEXT_END = 0x01 };
#define SIGN_BIT 0x8000000000000000ull

void rowkey_init(struct rowkey *k)
{
    k->n = 0; /* bytes stay as they are: nobody reads past n */
    k->failed = false;
}

err rowkey_status(const struct rowkey *k)
{
    return k->failed ? ERR_LIMIT : ERR_OK;
}

str rowkey_str(const struct rowkey *k)
{
    return (str){ .p = (const char *)k->bytes, .n = k->n };
}

static unsigned char *extend(struct rowkey *k, size_t n)
{
    if (k->failed || n > ROWKEY_BYTES_MAX - k->n) {
        k->failed = true;
        return NULL;
    }
    unsigned char *at = k->bytes + k->n;
    k->n += n;
    return at;
}

void rowkey_put_raw(struct rowkey *k, str s)
{
    unsigned char *at = extend(k, s.n);
    if (at != NULL && s.n > 0)
        memcpy(at, s.p, s.n);
}

void rowkey_put_u8(struct rowkey *k, uint8_t v)
{
    unsigned char *at = extend(k, sizeof v);
    if (at != NULL)
        *at = v;
}

void rowkey_put_u16(struct rowkey *k, uint16_t v)
{
    unsigned char *at = extend(k, sizeof v);
    if (at != NULL)
        put_be16(at, v);
}

void rowkey_put_u32(struct rowkey *k, uint32_t v)
{
    unsigned char *at = extend(k, sizeof v);
    if (at != NULL)
        put_be32(at, v);
}

void rowkey_put_u64(struct rowkey *k, uint64_t v)
{
    unsigned char *at = extend(k, sizeof v);
    if (at != NULL)
        put_be64(at, v);
}

void rowkey_put_i64(struct rowkey *k, int64_t v)
{
    rowkey_put_u64(k, (uint64_t)v ^ SIGN_BIT);
}

void rowkey_put_u64_desc(struct rowkey *k, uint64_t v)
{
    rowkey_put_u64(k, ~v);
}

void rowkey_put_tid(struct rowkey *k, struct tid t)
{
    unsigned char *at = extend(k, TID_KEY_BYTES);
    if (at != NULL)
        tid_key(t, at);
}

void rowkey_put_tid_desc(struct rowkey *k, struct tid t)
{
    rowkey_put_tid(k, (struct tid){ .ticks = ~t.ticks, .low = ~t.low });
}

void rowkey_put_text(struct rowkey *k, str s)
{
    while (s.n > 0) {
        size_t plain = str_find(s, 0);
        rowkey_put_raw(k, str_take(s, plain));
        if (plain < s.n) {
            rowkey_put_u8(k, ESCAPE);
            rowkey_put_u8(k, ESCAPED_NUL);
            plain++;
        }
        s = str_skip(s, plain);
    }
    rowkey_put_u8(k, ESCAPE);
    rowkey_put_u8(k, TEXT_END);
}

void rowkey_prefix_end(struct rowkey *k)
{
    while (k->n > 0 && k->bytes[k->n - 1] == 0xff)
        k->n--;
    if (k->n > 0)
        k->bytes[k->n - 1]++;
}

int64_t rowkey_get_i64(struct cursor *c)
{
    uint64_t v = cursor_be64(c);
    return c->failed ? 0 : (int64_t)(v ^ SIGN_BIT);
}

uint64_t rowkey_get_u64_desc(struct cursor *c)
{
    uint64_t v = cursor_be64(c);
    return c->failed ? 0 : ~v;
}

struct tid rowkey_get_tid(struct cursor *c)
{
    str key = cursor_bytes(c, TID_KEY_BYTES);
    return c->failed ? (struct tid){ 0 } : tid_from_key((const unsigned char *)key.p);
}

struct tid rowkey_get_tid_desc(struct cursor *c)
{
    struct tid t = rowkey_get_tid(c);
    return c->failed ? t : (struct tid){ .ticks = ~t.ticks, .low = ~t.low };
}

/* Bytes of the encoded text before its end, or false when it has none or holds an unknown
 * escape. */
static bool text_measure(str s, size_t *encoded, size_t *escapes)
{
    *escapes = 0;
    for (size_t i = str_find(s, ESCAPE); i + 1 < s.n;
         i += 2 + str_find(str_skip(s, i + 2), ESCAPE)) {
        unsigned char after = (unsigned char)s.p[i + 1];
        *encoded = i;
        if (after == TEXT_END)
            return true;
        if (after != ESCAPED_NUL)
            return false;
        ++*escapes;
    }
    return false;
}

str rowkey_get_text(struct cursor *c, struct arena *a)
{
    size_t encoded, escapes;
    if (c->failed || !text_measure(c->rest, &encoded, &escapes)) {
        c->failed = true;
        return STR_NONE;
    }
    str from = cursor_bytes(c, encoded);
    (void)cursor_be16(c); /* the end, seen just above */
    if (escapes == 0)
        return from;
    char *text = arena_alloc(a, encoded - escapes);
    if (text == NULL) {
        c->failed = true;
        return STR_NONE;
    }
    size_t n = 0;
    for (size_t i = 0; i < from.n; i++) {
        text[n++] = from.p[i];
        if (from.p[i] == ESCAPE)
            i++;
    }
    return (str){ .p = text, .n = n };
}
