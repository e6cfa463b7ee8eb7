/* tail.c - see tail.h.
 *
 * Invariants: 1. chunks lie in a ring, oldest first, each behind the last of the one before; last
 * is that of the newest. 2. The log is read for the tail by tail_told alone, which the log never
 * calls twice at once (event/log.c): so chunks come in order. 3. lock guards the ring and the
 * figures. It is never held over a read of the log. */
#include "event/tail.h"

#include <pthread.h>
#include <stdlib.h>

enum { TAIL_CHUNKS_MAX = 256 };
#define TAIL_MAGIC 0x7a11e7e2u

struct event_tail {
    uint32_t magic;
    struct event_tail_opts opts;
    pthread_mutex_t lock;
    struct event_chunk *ring[TAIL_CHUNKS_MAX];
    unsigned first, count;
    size_t bytes;
    uint64_t last;
    uint64_t events, spoilt, failed;
};

static size_t chunk_bytes(const struct event_chunk *c)
{
    return c->text.size + c->names.size + c->size * sizeof *c->frames;
}

static struct event_chunk *chunk_at(const struct event_tail *t, unsigned i)
{
    return t->ring[(t->first + i) % TAIL_CHUNKS_MAX];
}

static void oldest_drop(struct event_tail *t)
{
    struct event_chunk *c = chunk_at(t, 0);
    t->bytes -= chunk_bytes(c);
    t->first = (t->first + 1) % TAIL_CHUNKS_MAX;
    t->count--;
    event_chunk_unref(&c);
}

/* Takes the caller's reference. */
static void chunk_add(struct event_tail *t, struct event_chunk *c)
{
    INVARIANT(pthread_mutex_lock(&t->lock) == 0);
    t->last = c->last;
    t->events += c->count;
    t->spoilt += c->spoilt;
    t->bytes += chunk_bytes(c);
    while (t->count > 0 && (t->count == TAIL_CHUNKS_MAX || t->bytes > t->opts.bytes_max))
        oldest_drop(t);
    t->ring[(t->first + t->count++) % TAIL_CHUNKS_MAX] = c;
    INVARIANT(pthread_mutex_unlock(&t->lock) == 0);
}

/* False: there is no more now. A read that fails is tried again when the next event comes. */
static bool read_some(struct event_tail *t)
{
    struct event_chunk *c = NULL;
    uint64_t after = event_tail_last(t);
    if (event_chunk_read(t->opts.log, after, &t->opts.choice, &c) != ERR_OK) {
        INVARIANT(pthread_mutex_lock(&t->lock) == 0);
        t->failed++;
        INVARIANT(pthread_mutex_unlock(&t->lock) == 0);
        return false;
    }
    if (c->last == after) {
        event_chunk_unref(&c);
        return false;
    }
    bool more = c->more;
    chunk_add(t, c);
    t->opts.news(t->opts.ctx);
    return more;
}

/* Nobody wants what is new. */
static void pass_over(struct event_tail *t)
{
    struct event_figures f;
    if (event_log_figures(t->opts.log, &f) != ERR_OK)
        return;
    INVARIANT(pthread_mutex_lock(&t->lock) == 0);
    while (t->count > 0)
        oldest_drop(t);
    t->last = f.last;
    INVARIANT(pthread_mutex_unlock(&t->lock) == 0);
}

static void tail_told(void *ctx)
{
    struct event_tail *t = ctx;
    MAGIC_CHECK(t, TAIL_MAGIC);
    if (!t->opts.wanted(t->opts.ctx)) {
        pass_over(t);
        return;
    }
    while (read_some(t))
        ;
}

err event_tail_new(const struct event_tail_opts *opts, struct event_tail **out)
{
    struct event_figures f;
    err why = event_log_figures(opts->log, &f);
    if (why != ERR_OK)
        return why;
    struct event_tail *t = calloc(1, sizeof *t);
    INVARIANT(t != NULL);
    t->magic = TAIL_MAGIC;
    t->opts = *opts;
    t->last = f.last;
    INVARIANT(pthread_mutex_init(&t->lock, NULL) == 0);
    const struct event_follower follower = { .told = tail_told, .ctx = t, .home = opts->pool };
    event_log_follow(opts->log, &follower);
    *out = t;
    return ERR_OK;
}

void event_tail_free(struct event_tail **tp)
{
    struct event_tail *t = *tp;
    if (t == NULL)
        return;
    MAGIC_CHECK(t, TAIL_MAGIC);
    while (t->count > 0)
        oldest_drop(t);
    INVARIANT(pthread_mutex_destroy(&t->lock) == 0);
    t->magic = 0;
    free(t);
    *tp = NULL;
}

/* The first chunk whose last is behind after; there is one. */
static struct event_chunk *chunk_behind(const struct event_tail *t, uint64_t after)
{
    unsigned low = 0, high = t->count - 1;
    while (low < high) {
        unsigned at = low + (high - low) / 2;
        if (chunk_at(t, at)->last > after)
            high = at;
        else
            low = at + 1;
    }
    return chunk_at(t, low);
}

enum event_tail_has event_tail_find(struct event_tail *t, uint64_t after, struct event_chunk **out)
{
    enum event_tail_has has = TAIL_CHUNK;
    MAGIC_CHECK(t, TAIL_MAGIC);
    INVARIANT(pthread_mutex_lock(&t->lock) == 0);
    if (after >= t->last)
        has = TAIL_NOTHING;
    else if (t->count == 0 || after < chunk_at(t, 0)->after)
        has = TAIL_BEHIND;
    else
        *out = event_chunk_ref(chunk_behind(t, after));
    INVARIANT(pthread_mutex_unlock(&t->lock) == 0);
    return has;
}

uint64_t event_tail_last(struct event_tail *t)
{
    INVARIANT(pthread_mutex_lock(&t->lock) == 0);
    uint64_t last = t->last;
    INVARIANT(pthread_mutex_unlock(&t->lock) == 0);
    return last;
}

void event_tail_figures(struct event_tail *t, struct event_tail_figures *out)
{
    INVARIANT(pthread_mutex_lock(&t->lock) == 0);
    *out = (struct event_tail_figures){ .chunks = t->count,
                                        .bytes = t->bytes,
                                        .read = t->events,
                                        .spoilt = t->spoilt,
                                        .failed = t->failed };
    INVARIANT(pthread_mutex_unlock(&t->lock) == 0);
}
