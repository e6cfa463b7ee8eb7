#include "sync.h"

#include "base/buf.h"
#include "bucket/key.h"
#include "bucket/page_write.h"

#include <pthread.h>
#include <stdatomic.h>

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool done;
    err why;
};

static store_time fake_store(struct clock *c)
{
    return (store_time){ .ns = atomic_load(&CONTAINER_OF(c, struct fake_clock, clock)->now_ns) };
}

static mono fake_mono(struct clock *c)
{
    return (mono){ .ns = fake_store(c).ns };
}

static wall fake_wall(struct clock *c)
{
    return (wall){ .ns = fake_store(c).ns };
}

void fake_clock_init(struct fake_clock *c, int64_t now_ns)
{
    c->clock =
        (struct clock){ .store_now = fake_store, .mono_now = fake_mono, .wall_now = fake_wall };
    atomic_init(&c->now_ns, now_ns);
}

void fake_clock_advance(struct fake_clock *c, int64_t ns)
{
    atomic_fetch_add(&c->now_ns, ns);
}

static void waiter_init(struct waiter *w)
{
    *w = (struct waiter){ .lock = PTHREAD_MUTEX_INITIALIZER, .over = PTHREAD_COND_INITIALIZER };
}

static void waiter_tell(struct waiter *w, err why)
{
    INVARIANT(pthread_mutex_lock(&w->lock) == 0);
    INVARIANT(!w->done); /* exactly once */
    w->done = true;
    w->why = why;
    INVARIANT(pthread_cond_signal(&w->over) == 0);
    INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
}

static err waiter_wait(struct waiter *w)
{
    INVARIANT(pthread_mutex_lock(&w->lock) == 0);
    while (!w->done)
        INVARIANT(pthread_cond_wait(&w->over, &w->lock) == 0);
    INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
    return w->why;
}

static void put_done(struct page_put *p, err why)
{
    waiter_tell(p->ctx, why);
}

err sync_put(struct page_bucket *b, struct page_put *p)
{
    struct waiter w;
    struct arena arena;
    waiter_init(&w);
    arena_init(&arena, 1u << 26);
    p->arena = &arena;
    p->done = put_done;
    p->ctx = &w;
    p->deadline = (mono){ .ns = INT64_MAX };
    err e = page_put_start(b, p);
    if (e == ERR_OK)
        e = waiter_wait(&w);
    arena_fini(&arena);
    return e;
}

static void order_done(struct page_order *o, err why)
{
    waiter_tell(o->ctx, why);
}

err sync_order(struct page_bucket *b, struct page_order *o)
{
    struct waiter w;
    waiter_init(&w);
    o->done = order_done;
    o->ctx = &w;
    o->deadline = (mono){ .ns = INT64_MAX };
    page_order_start(b, o);
    return waiter_wait(&w);
}

err sync_upkeep(struct pages *p, store_time *next)
{
    bool more = true;
    err e = ERR_OK;
    while (more && e == ERR_OK)
        e = pages_upkeep(p, &more, next);
    return e;
}

struct tid tid_at(int64_t ns, uint64_t low)
{
    return tid_make(tid_ticks((store_time){ .ns = ns }), low);
}

uint64_t traces_stored(struct engine *e)
{
    const struct engine_range all = { .space = SPACE_LEDGER };
    struct engine_view *v = engine_view_begin(e);
    struct engine_cursor *c = engine_cursor_open(v, &all);
    struct engine_row row;
    struct page_key_parts parts;
    struct page_traces traces;
    uint64_t n = 0;
    while (engine_cursor_next(c, &row) == ERR_OK)
        if (page_key_parse(row.key, &parts) &&
            page_traces_decode(row.value, parts.name, &traces) == ERR_OK)
            n += traces.count;
    engine_cursor_close(&c);
    engine_view_end(&v);
    return n;
}

str old_trace(const struct page_trace_row *t, char out[OLD_TRACE_BYTES_MAX])
{
    const int64_t times[] = { t->trace.at.ns, t->stored_at.ns, t->forget_at.ns,
                              t->trace.superseded_at.ns };
    char *at = out;
    *at++ = 1;
    *at++ = (char)t->trace.state;
    *at++ = (char)t->trace.policy;
    for (unsigned i = 0; i < COUNT_OF(times); i++, at += 8)
        put_be64(at, (uint64_t)times[i]);
    if (t->trace.superseded_at.ns != INT64_MAX) {
        at = varint_put(at, t->trace.superseded_by.rev);
        tid_key(t->trace.superseded_by.tid, (unsigned char *)at);
        at += TID_KEY_BYTES;
    }
    return (str){ .p = out, .n = (size_t)(at - out) };
}
