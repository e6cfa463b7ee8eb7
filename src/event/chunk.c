/* chunk.c - see chunk.h. */
#include "event/chunk.h"

#include <stdlib.h>

enum { CHUNK_FRAMES_FIRST = 16, CHUNK_TEXT_BYTES_MAX = 4 * EVENT_BYTES_MAX };

struct chunking {
    struct event_chunk *chunk;
    const struct event_choice *choice;
};

static bool chunk_wants(void *ctx, const struct event_seen *e)
{
    const struct event_choice *c = ((const struct chunking *)ctx)->choice;
    return c->wants == NULL || c->wants(c->ctx, e->stream, e->domain);
}

static size_t name_put(struct buf *names, str name)
{
    size_t at = names->n;
    buf_put(names, name);
    return at;
}

static void chunk_grow(struct event_chunk *c)
{
    c->size = c->size == 0 ? CHUNK_FRAMES_FIRST : 2 * c->size;
    c->frames = realloc(c->frames, c->size * sizeof *c->frames);
    INVARIANT(c->frames != NULL); /* EVENT_CHUNK_LOOKS at most */
}

static void chunk_take(void *ctx, const struct event_seen *e, str bytes)
{
    const struct chunking *k = ctx;
    struct event_chunk *c = k->chunk;
    struct event_frame f = {
        .seq = e->seq, .at = c->text.n, .stream_n = e->stream.n, .domain_n = e->domain.n
    };
    if (c->count == c->size)
        chunk_grow(c);
    f.stream_at = name_put(&c->names, e->stream);
    f.domain_at = name_put(&c->names, e->domain);
    k->choice->frame(k->choice->ctx, &c->text, e, bytes);
    f.n = c->text.n - f.at;
    c->frames[c->count++] = f;
}

err event_chunk_read(struct event_log *l, uint64_t after, const struct event_choice *choice,
                     struct event_chunk **out)
{
    struct event_chunk *c = calloc(1, sizeof *c);
    INVARIANT(c != NULL);
    atomic_init(&c->refs, 1);
    buf_init(&c->text, CHUNK_TEXT_BYTES_MAX);
    buf_init(&c->names, CHUNK_TEXT_BYTES_MAX);
    struct chunking k = { .chunk = c, .choice = choice };
    struct event_read r = { .after = after,
                            .looks_max = EVENT_CHUNK_LOOKS,
                            .bytes_max = EVENT_CHUNK_BYTES,
                            .wants = chunk_wants,
                            .take = chunk_take,
                            .ctx = &k };
    err why = event_log_read(l, &r);
    if (why == ERR_OK && (c->text.failed || c->names.failed))
        why = ERR_LIMIT;
    if (why != ERR_OK) {
        event_chunk_unref(&c);
        return why;
    }
    c->after = after;
    c->last = r.after;
    c->missed = r.missed;
    c->more = r.more;
    c->spoilt = r.spoilt;
    *out = c;
    return ERR_OK;
}

struct event_chunk *event_chunk_ref(struct event_chunk *c)
{
    (void)atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed); /* the caller holds one */
    return c;
}

void event_chunk_unref(struct event_chunk **cp)
{
    struct event_chunk *c = *cp;
    *cp = NULL;
    if (c == NULL || atomic_fetch_sub(&c->refs, 1) != 1)
        return;
    buf_fini(&c->text);
    buf_fini(&c->names);
    free(c->frames);
    free(c);
}
