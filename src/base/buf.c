/* buf.c - appends bytes and numbers to a growing buffer, and reads them back with a cursor.
 * Invariant: after the first failure neither a buffer nor a cursor does anything more, so a
 * caller checks once, at the end. */
#include "base/buf.h"

#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUF_FIRST_BYTES = 256 };

void buf_init(struct buf *b, size_t bytes_max)
{
    *b = (struct buf){ .bytes_max = bytes_max };
}

void buf_fini(struct buf *b)
{
    free(b->p);
    *b = (struct buf){ .bytes_max = b->bytes_max };
}

void buf_clear(struct buf *b)
{
    b->n = 0;
    b->failed = b->starved = false;
}

err buf_status(const struct buf *b)
{
    return b->failed ? ERR_LIMIT : ERR_OK;
}

bool buf_is_starved(const struct buf *b)
{
    return b->failed && b->starved;
}

str buf_str(const struct buf *b)
{
    return (str){ .p = b->p, .n = b->n };
}

str buf_take(struct buf *b, struct arena *a)
{
    str held = b->failed ? STR_NONE : arena_copy(a, buf_str(b));
    buf_fini(b);
    return held;
}

static bool buf_grow(struct buf *b, size_t need)
{
    size_t size = b->size == 0 ? BUF_FIRST_BYTES : b->size;
    while (size < need)
        size = size > b->bytes_max / 2 ? b->bytes_max : size * 2;
    if (size == SIZE_MAX)
        return false;
    char *p = realloc(b->p, size + 1); /* one more for the NUL that buf_printf writes */
    if (p == NULL)
        return false;
    b->p = p;
    b->size = size;
    return true;
}

bool buf_reserve(struct buf *b, size_t n)
{
    INVARIANT(n <= b->bytes_max);
    if (n <= b->size && b->p != NULL)
        return true;
    char *p = n == SIZE_MAX ? NULL : realloc(b->p, n + 1); /* as in buf_grow */
    if (p == NULL)
        return false;
    b->p = p;
    b->size = n;
    return true;
}

char *buf_extend(struct buf *b, size_t n)
{
    if (b->failed)
        return NULL;
    if (n > b->bytes_max || b->n > b->bytes_max - n) {
        b->failed = true;
        return NULL;
    }
    if ((b->p == NULL || b->n + n > b->size) && !buf_grow(b, b->n + n)) {
        b->failed = b->starved = true;
        return NULL;
    }
    char *at = b->p + b->n;
    b->n += n;
    return at;
}

void buf_put(struct buf *b, str s)
{
    char *at = buf_extend(b, s.n);
    if (at != NULL && s.n > 0)
        memcpy(at, s.p, s.n);
}

void buf_put_c(struct buf *b, char c)
{
    buf_put(b, (str){ .p = &c, .n = 1 });
}

void buf_put_u8(struct buf *b, uint8_t v)
{
    buf_put_c(b, (char)v);
}

void buf_put_be16(struct buf *b, uint16_t v)
{
    char *at = buf_extend(b, sizeof v);
    if (at != NULL)
        put_be16(at, v);
}

void buf_put_be32(struct buf *b, uint32_t v)
{
    char *at = buf_extend(b, sizeof v);
    if (at != NULL)
        put_be32(at, v);
}

void buf_put_be64(struct buf *b, uint64_t v)
{
    char *at = buf_extend(b, sizeof v);
    if (at != NULL)
        put_be64(at, v);
}

void buf_put_str16(struct buf *b, str s)
{
    INVARIANT(s.n <= UINT16_MAX);
    buf_put_be16(b, (uint16_t)s.n);
    buf_put(b, s);
}

void buf_printf(struct buf *b, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    INVARIANT(n >= 0);
    char *at = buf_extend(b, (size_t)n);
    if (at != NULL)
        (void)vsnprintf(at, (size_t)n + 1, format, again); /* measured just above */
    va_end(again);
}

str cursor_bytes(struct cursor *c, size_t n)
{
    if (c->failed || n > c->rest.n) {
        c->failed = true;
        return STR_NONE;
    }
    str got = str_take(c->rest, n);
    c->rest = str_skip(c->rest, n);
    return got;
}

uint8_t cursor_u8(struct cursor *c)
{
    str s = cursor_bytes(c, 1);
    return s.n == 1 ? (uint8_t)s.p[0] : 0;
}

uint16_t cursor_be16(struct cursor *c)
{
    str s = cursor_bytes(c, 2);
    return s.n == 2 ? get_be16(s.p) : 0;
}

uint32_t cursor_be32(struct cursor *c)
{
    str s = cursor_bytes(c, 4);
    return s.n == 4 ? get_be32(s.p) : 0;
}

uint64_t cursor_be64(struct cursor *c)
{
    str s = cursor_bytes(c, 8);
    return s.n == 8 ? get_be64(s.p) : 0;
}

str cursor_str16(struct cursor *c)
{
    return cursor_bytes(c, cursor_be16(c));
}

char *varint_put(char *at, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        *at++ = (char)(v | 0x80);
    *at++ = (char)v;
    return at;
}

uint64_t varint_get(struct cursor *c)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = cursor_u8(c);
        if (shift == 63 && byte > 1)
            break;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            if (byte == 0 && shift > 0)
                break;
            return v;
        }
    }
    c->failed = true;
    return 0;
}

bool cursor_done(const struct cursor *c)
{
    return !c->failed && c->rest.n == 0;
}
