/* arena.h - memory that lives and ends together: one per request, one reset instead of many frees.
 *
 * Grows in chunks up to a ceiling; past it allocation returns NULL and the request fails with
 * ERR_LIMIT. NULL is also returned where the machine, or the budget that the arena shares with
 * others, has no more: then arena_is_starved, and the same request may well succeed later.
 * Built with ARENA_DEBUG every allocation is a malloc of its own, so that sanitizers see overruns.
 * Thread: one at a time. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/budget.h"
#include "base/check.h"
#include "base/str.h"

struct arena_chunk;
struct arena {
    struct arena_chunk *chunks; /* newest first */
    size_t used;                /* in the newest chunk */
    size_t total;               /* bytes of all chunks */
    size_t bytes_max;           /* ceiling on total */
    size_t chunk_bytes;         /* least size of a chunk */
    struct budget_part part;    /* of total; ends with a reset */
    bool starved, full;
};

void arena_init(struct arena *a, size_t bytes_max);
/* Frees everything but keeps the arena usable. */
void arena_reset(struct arena *a);
void arena_fini(struct arena *a);
/* Before the first allocation: it grows by at least so many bytes at once [8192]. For one of many
 * that hold little. */
void arena_chunks(struct arena *a, size_t bytes);
/* Its ceiling is so much higher from now on: for one whose owner learns only later how much there
 * is. */
void arena_raise(struct arena *a, size_t more);
/* Before the first allocation: what it takes counts against b, which outlives it. */
void arena_share(struct arena *a, struct budget *b);
/* From here to the next reset its request holds so many bytes of the same budget elsewhere. What
 * both together can never have is past the ceiling. */
void arena_beside(struct arena *a, size_t bytes);
/* From here to the next reset it may take of the budget's reserve. */
void arena_urgent(struct arena *a);
/* Was anything refused since the last reset although it was below the ceiling? */
bool arena_is_starved(const struct arena *a);

/* Was anything refused since the last reset because it was past the ceiling? */
bool arena_is_full(const struct arena *a);

/* What is allocated now. arena_release frees all that was allocated since, for who tries again;
 * good until a reset, or the release of an earlier mark. */
struct arena_mark {
    struct arena_chunk *newest, *behind;
    size_t used;
};
struct arena_mark arena_mark(const struct arena *a);
void arena_release(struct arena *a, struct arena_mark m);

/* 16-byte aligned, uninitialised; NULL past the ceiling or out of memory. size 0 is fine. */
MUST_CHECK void *arena_alloc(struct arena *a, size_t size);
/* Room for so many bytes, each allocation rounded up to 16: the next ones that fit there together
 * do not fail. ARENA_DEBUG promises less. False: past the ceiling or out of memory. */
MUST_CHECK bool arena_reserve(struct arena *a, size_t bytes);
/* Zeroed array; NULL on overflow of count * size too. */
MUST_CHECK void *arena_calloc(struct arena *a, size_t count, size_t size);
/* A copy that lives in the arena, with a NUL behind it. p is NULL past the ceiling. */
MUST_CHECK str arena_copy(struct arena *a, str s);
MUST_CHECK char *arena_cstr(struct arena *a, str s);
/* Formatted text, NUL-terminated. p is NULL past the ceiling. */
MUST_CHECK str arena_printf(struct arena *a, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
