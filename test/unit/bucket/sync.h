/* sync.h - page buckets as a test calls them: one thing after the other, on a clock it moves. */
#ifndef TEST_BUCKET_SYNC_H
#define TEST_BUCKET_SYNC_H

#include "bucket/page_write.h"
#include "bucket/traces.h"
#include "lib/clock.h"

/* Fill in everything but the module's own, arena, done and ctx; return what done got, or the
 * refusal. */
err sync_put(struct page_bucket *b, struct page_put *p);
err sync_order(struct page_bucket *b, struct page_order *o);
err sync_hear(struct pages *p, struct page_hear *h);
err sync_forget(struct pages *p, struct page_forget *f);
err sync_note(struct pages *p, struct page_note_put *n);
/* Upkeep until there is nothing more to do now. */
err sync_upkeep(struct pages *p, store_time *next);

/* A stored frame, decoded. */
static inline err frame_raw(const struct page_content *c, str frame, struct arena *a, str *raw)
{
    const struct page_body b = {
        .codec = c->codec, .raw_bytes = c->raw_bytes, .pieces = &frame, .pieces_count = 1
    };
    return page_body_raw(&b, a, raw);
}

/* How many traces there are; rows that cannot be read hold none. */
uint64_t traces_stored(struct engine *e);
/* The value of a trace's row as stores before wrote it: alone. */
enum { OLD_TRACE_BYTES_MAX = 3 + 4 * 8 + 10 + TID_KEY_BYTES };
str old_trace(const struct page_trace_row *t, char out[OLD_TRACE_BYTES_MAX]);

/* A tid whose time is this instant; low tells apart. */
struct tid tid_at(int64_t ns, uint64_t low);

#endif
