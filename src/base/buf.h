/* buf.h - a growing byte buffer with a maximum, and big-endian put/get for disk and wire.
 *
 * A failed append (past the maximum, out of memory) sets failed, and every later append does
 * nothing, so that a builder checks once at its end. Thread: one at a time. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/check.h"
#include "base/err.h"
#include "base/str.h"

struct arena;
struct buf {
    char *p;
    size_t n, size;
    size_t bytes_max;
    bool failed, starved;
};

void buf_init(struct buf *b, size_t bytes_max);
void buf_fini(struct buf *b);
/* Empties it and keeps the memory. */
void buf_clear(struct buf *b);
/* Room for n bytes in all, got at once; false: there is no memory. n: at most the maximum. */
MUST_CHECK bool buf_reserve(struct buf *b, size_t n);
/* ERR_OK or ERR_LIMIT: whether every append since init or clear succeeded. */
MUST_CHECK err buf_status(const struct buf *b);
/* It failed although it is below its maximum: the machine had no more. */
bool buf_is_starved(const struct buf *b);
/* The bytes so far; borrowed until the next append. */
str buf_str(const struct buf *b);
/* What it holds, in the arena; it ends. STR_NONE: an append failed, or the arena is full. */
str buf_take(struct buf *b, struct arena *a);
/* Room for n more bytes at the end, counted as appended; NULL on failure. */
char *buf_extend(struct buf *b, size_t n);
void buf_put(struct buf *b, str s);
void buf_put_c(struct buf *b, char c);
void buf_put_u8(struct buf *b, uint8_t v);
void buf_put_be16(struct buf *b, uint16_t v);
void buf_put_be32(struct buf *b, uint32_t v);
void buf_put_be64(struct buf *b, uint64_t v);
/* Its size as be16, then its bytes: UINT16_MAX at most. Read by cursor_str16. */
void buf_put_str16(struct buf *b, str s);
void buf_printf(struct buf *b, const char *format, ...) PRINTF_LIKE(2, 3);

static inline void put_be16(void *at, uint16_t v)
{
    unsigned char *p = at;
    p[0] = (unsigned char)(v >> 8);
    p[1] = (unsigned char)v;
}
static inline void put_be32(void *at, uint32_t v)
{
    unsigned char *p = at;
    put_be16(p, (uint16_t)(v >> 16));
    put_be16(p + 2, (uint16_t)v);
}
static inline void put_be64(void *at, uint64_t v)
{
    unsigned char *p = at;
    put_be32(p, (uint32_t)(v >> 32));
    put_be32(p + 4, (uint32_t)v);
}
static inline uint16_t get_be16(const void *at)
{
    const unsigned char *p = at;
    return (uint16_t)((p[0] << 8) | p[1]);
}
static inline uint32_t get_be32(const void *at)
{
    const unsigned char *p = at;
    return ((uint32_t)get_be16(p) << 16) | get_be16(p + 2);
}
static inline uint64_t get_be64(const void *at)
{
    const unsigned char *p = at;
    return ((uint64_t)get_be32(p) << 32) | get_be32(p + 4);
}

/* Reading what others wrote: a cursor that fails instead of running over. */
struct cursor {
    str rest;
    bool failed; /* some get ran past the end; all gets after it give zero */
};
uint8_t cursor_u8(struct cursor *c);
uint16_t cursor_be16(struct cursor *c);
uint32_t cursor_be32(struct cursor *c);
uint64_t cursor_be64(struct cursor *c);
str cursor_bytes(struct cursor *c, size_t n);
str cursor_str16(struct cursor *c);
/* Little-endian base 128, as in protobuf; the shortest form only. at has 10 bytes. */
char *varint_put(char *at, uint64_t v);
uint64_t varint_get(struct cursor *c);
/* Nothing failed and nothing is left over. */
bool cursor_done(const struct cursor *c);

#endif
