/* arena.c - hands out memory in chunks that one reset gives back. Invariant: the bytes of all
 * chunks never pass the arena's ceiling, and each chunk is counted in the shared budget, if
 * there is one. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_CHUNK_BYTES = 8192, ARENA_ALIGN = 16, ARENA_SHORT_TEXT_BYTES = 512 };

struct arena_chunk {
    struct arena_chunk *next;
    size_t size; /* of bytes */
    _Alignas(ARENA_ALIGN) char bytes[];
};

void arena_init(struct arena *a, size_t bytes_max)
{
    *a = (struct arena){ .bytes_max = bytes_max, .chunk_bytes = ARENA_CHUNK_BYTES };
}

void arena_reset(struct arena *a)
{
    while (a->chunks != NULL) {
        struct arena_chunk *chunk = a->chunks;
        a->chunks = chunk->next;
        free(chunk);
    }
    a->used = 0;
    a->total = 0;
    a->starved = a->full = false;
    budget_part_end(&a->part);
    a->part.urgent = false;
    a->part.beside = 0;
}

void arena_chunks(struct arena *a, size_t bytes)
{
    INVARIANT(a->chunks == NULL);
    a->chunk_bytes = bytes;
}

void arena_raise(struct arena *a, size_t more)
{
    a->bytes_max = more > SIZE_MAX - a->bytes_max ? SIZE_MAX : a->bytes_max + more;
}

void arena_share(struct arena *a, struct budget *b)
{
    INVARIANT(a->chunks == NULL);
    a->part = (struct budget_part){ .of = b };
}

void arena_beside(struct arena *a, size_t bytes)
{
    a->part.beside = bytes;
}

void arena_urgent(struct arena *a)
{
    a->part.urgent = true;
}

bool arena_is_starved(const struct arena *a)
{
    return a->starved;
}

struct arena_mark arena_mark(const struct arena *a)
{
    struct arena_chunk *newest = a->chunks;
    return (struct arena_mark){ .newest = newest,
                                .behind = newest == NULL ? NULL : newest->next,
                                .used = a->used };
}

static void chunk_free(struct arena *a, struct arena_chunk **at)
{
    struct arena_chunk *chunk = *at;
    *at = chunk->next;
    a->total -= chunk->size;
    free(chunk);
}

void arena_release(struct arena *a, struct arena_mark m)
{
    while (a->chunks != m.newest)
        chunk_free(a, &a->chunks);
    while (m.newest != NULL && m.newest->next != m.behind) /* those that were put apart */
        chunk_free(a, &m.newest->next);
    a->used = m.used;
    INVARIANT(budget_part_set(&a->part, a->total)); /* less than it was */
}

void arena_fini(struct arena *a)
{
    arena_reset(a);
}

bool arena_is_full(const struct arena *a)
{
    return a->full;
}

static bool is_past_ceiling(const struct arena *a, size_t size)
{
    return size > a->bytes_max || a->total > a->bytes_max - size ||
           size > SIZE_MAX - sizeof(struct arena_chunk) || budget_never(&a->part, a->total + size);
}

static struct arena_chunk *chunk_new(struct arena *a, size_t size)
{
    if (is_past_ceiling(a, size)) {
        a->full = true;
        return NULL;
    }
    struct arena_chunk *chunk =
        budget_part_set(&a->part, a->total + size) ? malloc(sizeof *chunk + size) : NULL;
    if (chunk == NULL) {
        a->starved = true;
        INVARIANT(budget_part_set(&a->part, a->total)); /* less than it was, or the same */
        return NULL;
    }
    chunk->size = size;
    a->total += size;
    return chunk;
}

/* A new newest chunk, with room for at least size. */
static bool chunk_add(struct arena *a, size_t size)
{
#ifndef ARENA_DEBUG
    if (size < a->chunk_bytes && a->bytes_max - a->total >= a->chunk_bytes)
        size = a->chunk_bytes;
#endif
    struct arena_chunk *chunk = chunk_new(a, size);
    if (chunk == NULL)
        return false;
    chunk->next = a->chunks;
    a->chunks = chunk;
    a->used = 0;
    return true;
}

#ifndef ARENA_DEBUG
/* A chunk of its own behind the newest, whose room stays in use. */
static void *alloc_apart(struct arena *a, size_t size)
{
    struct arena_chunk *chunk = chunk_new(a, size);
    if (chunk == NULL)
        return NULL;
    chunk->next = a->chunks->next;
    a->chunks->next = chunk;
    return chunk->bytes;
}
#endif

void *arena_alloc(struct arena *a, size_t size)
{
    if (size > SIZE_MAX - ARENA_ALIGN)
        return NULL;
    size = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
#ifdef ARENA_DEBUG
    if (!chunk_add(a, size))
        return NULL;
#else
    bool has_room = a->chunks != NULL && a->chunks->size - a->used >= size;
    if (!has_room && a->chunks != NULL && size >= a->chunk_bytes)
        return alloc_apart(a, size);
    if (!has_room && !chunk_add(a, size))
        return NULL;
#endif
    void *at = a->chunks->bytes + a->used;
    a->used += size;
    return at;
}

bool arena_reserve(struct arena *a, size_t bytes)
{
#ifdef ARENA_DEBUG
    a->full |= is_past_ceiling(a, bytes);
    return !is_past_ceiling(a, bytes);
#else
    return (a->chunks != NULL && a->chunks->size - a->used >= bytes) || chunk_add(a, bytes);
#endif
}

void *arena_calloc(struct arena *a, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    void *at = arena_alloc(a, bytes);
    if (at != NULL && bytes > 0)
        memset(at, 0, bytes);
    return at;
}

char *arena_cstr(struct arena *a, str s)
{
    if (s.n == SIZE_MAX)
        return NULL;
    char *at = arena_alloc(a, s.n + 1);
    if (at == NULL)
        return NULL;
    if (s.n > 0)
        memcpy(at, s.p, s.n);
    at[s.n] = 0;
    return at;
}

str arena_copy(struct arena *a, str s)
{
    char *at = arena_cstr(a, s);
    return at == NULL ? STR_NONE : (str){ .p = at, .n = s.n };
}

str arena_printf(struct arena *a, const char *format, ...)
{
    char text[ARENA_SHORT_TEXT_BYTES]; /* what fits is formatted once */
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    INVARIANT(n >= 0);
    char *at = arena_alloc(a, (size_t)n + 1);
    if (at != NULL && (size_t)n < sizeof text)
        memcpy(at, text, (size_t)n + 1);
    else if (at != NULL)
        (void)vsnprintf(at, (size_t)n + 1, format, again); /* measured just above */
    va_end(again);
    return at == NULL ? STR_NONE : (str){ .p = at, .n = (size_t)n };
}
