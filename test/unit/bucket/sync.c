#include "sync.h"

#include "base/buf.h"
#include "bucket/key.h"
#include "bucket/page_write.h"
#include "bucket/sweep.h"

#include "lib/wait.h"

struct waiter {
    struct home home; /* of one call */
    struct awaited over;
};

/* On the committer: the call is over. */
static void waiter_post(struct home *h, struct task *t)
{
    const struct store_call *c = CONTAINER_OF(t, struct store_call, task);
    awaited_tell(&CONTAINER_OF(h, struct waiter, home)->over, c->why);
}

static struct store_call waiter_call(struct waiter *w)
{
    w->home.post = waiter_post;
    awaited_init(&w->over);
    return (struct store_call){ .home = &w->home, .deadline = { .ns = INT64_MAX } };
}

static err waiter_wait(struct waiter *w, enum store_start start, const struct store_call *c)
{
    err e = start == STORE_LATER ? awaited_wait(&w->over) : c->why;
    awaited_fini(&w->over);
    return e;
}

err sync_put(struct page_bucket *b, struct page_put *p)
{
    struct waiter w;
    struct arena arena;
    arena_init(&arena, 1u << 26);
    p->arena = &arena;
    p->call = waiter_call(&w);
    err e = waiter_wait(&w, page_put_start(b, p), &p->call);
    arena_fini(&arena);
    return e;
}

err sync_order(struct page_bucket *b, struct page_order *o)
{
    struct waiter w;
    o->call = waiter_call(&w);
    return waiter_wait(&w, page_order_start(b, o), &o->call);
}

err sync_hear(struct pages *p, struct page_hear *h)
{
    struct waiter w;
    h->call = waiter_call(&w);
    return waiter_wait(&w, page_hear_start(p, h), &h->call);
}

err sync_forget(struct pages *p, struct page_forget *f)
{
    struct waiter w;
    f->call = waiter_call(&w);
    return waiter_wait(&w, page_forget_start(p, f), &f->call);
}

err sync_note(struct pages *p, struct page_note_put *n)
{
    struct waiter w;
    n->call = waiter_call(&w);
    return waiter_wait(&w, page_note_start(p, n), &n->call);
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
