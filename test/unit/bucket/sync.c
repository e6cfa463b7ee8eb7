#include "sync.h"

#include "base/buf.h"
#include "bucket/key.h"
#include "bucket/page_write.h"

#include "lib/wait.h"

static void put_done(struct page_put *p, err why)
{
    awaited_tell(p->ctx, why);
}

err sync_put(struct page_bucket *b, struct page_put *p)
{
    struct awaited w;
    struct arena arena;
    awaited_init(&w);
    arena_init(&arena, 1u << 26);
    p->arena = &arena;
    p->done = put_done;
    p->ctx = &w;
    p->deadline = (mono){ .ns = INT64_MAX };
    err e = page_put_start(b, p);
    if (e == ERR_OK)
        e = awaited_wait(&w);
    awaited_fini(&w);
    arena_fini(&arena);
    return e;
}

static void order_done(struct page_order *o, err why)
{
    awaited_tell(o->ctx, why);
}

err sync_order(struct page_bucket *b, struct page_order *o)
{
    struct awaited w;
    awaited_init(&w);
    o->done = order_done;
    o->ctx = &w;
    o->deadline = (mono){ .ns = INT64_MAX };
    page_order_start(b, o);
    err e = awaited_wait(&w);
    awaited_fini(&w);
    return e;
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
