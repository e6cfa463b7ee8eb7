/* events.c - see events.h. An event is small, so that most are kept in the row itself: 512 bytes
 * and no more cost no record of the value log. */
#include "bucket/events.h"

#include "base/date.h"
#include "base/tid.h"
#include "bucket/catalog.h"
#include "codec/json_text.h"
#include "event/append.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { EVENT_TEXTS_BYTES_MAX = 64 << 20 };

static const char *const stream_names[PAGE_STREAMS] = {
    [STREAM_RENDER] = "palimpsest.render",
    [STREAM_GONE] = "palimpsest.gone",
    [STREAM_DATED] = "palimpsest.dated",
};

const char *page_stream_name(enum page_stream s)
{
    return stream_names[s];
}

struct page_event_texts {
    struct buf text;
    struct event *events;
    size_t *ends; /* in text, of each */
    struct event_taken *taken;
    unsigned count, size;
};

/* ---- names of domains ---- */

void page_events_domain(struct page_events *e, uint32_t number, str name)
{
    if (number >= e->domains_size) {
        uint32_t size = 2 * number + 8;
        e->domains = realloc(e->domains, size * sizeof *e->domains);
        INVARIANT(e->domains != NULL);
        memset(e->domains + e->domains_size, 0, (size - e->domains_size) * sizeof *e->domains);
        e->domains_size = size;
    }
    if (e->domains[number] != NULL)
        return;
    e->domains[number] = strndup(name.p, name.n);
    INVARIANT(e->domains[number] != NULL);
}

void page_events_fini(struct page_events *e)
{
    for (uint32_t i = 0; i < e->domains_size; i++)
        free(e->domains[i]);
    free(e->domains);
}

static str domain_of(const struct page_events *e, uint32_t number)
{
    bool known = number < e->domains_size && e->domains[number] != NULL;
    return known ? str_of(e->domains[number]) : STR("");
}

/* ---- one event ---- */

/* False: no stream tells of it. kind NULL: it has none. */
static bool stream_of(const struct page_change *c, enum page_stream *stream, const char **kind)
{
    *kind = NULL;
    *stream = STREAM_GONE;
    switch (c->what) {
    case CHANGE_LATEST:
        *stream = STREAM_RENDER;
        return true;
    case CHANGE_DATED:
        *stream = STREAM_DATED;
        *kind = c->by.rev > c->name.rev ? "revision" : "touched";
        return true;
    case CHANGE_SHOWN:
        *stream = STREAM_DATED;
        *kind = "shown";
        return true;
    case CHANGE_HIDDEN:
        *kind = c->hidden == PAGE_DELETED ? "deleted" : "hidden";
        return true;
    case CHANGE_CULLED:
        *kind = "culled";
        return true;
    case CHANGE_PURGED:
        *kind = "purged";
        return true;
    case CHANGE_STORED:
    case CHANGE_SUPERSEDED:
    case CHANGE_DUE:
    case CHANGE_WHATS:
        break;
    }
    return false;
}

static bool same_title(const struct page_change *a, const struct page_change *b)
{
    return a->bucket == b->bucket && a->domain == b->domain && a->title.p == b->title.p;
}

/* The render that was the latest of the title before this update, and is not any more; NULL: none.
 * Changes of one title and bucket stand beside each other. */
static const struct page_change *superseded_of(const struct page_change *changes, unsigned count,
                                               unsigned i)
{
    const struct page_change *c = &changes[i];
    unsigned from = i, until = i + 1;
    if (c->what != CHANGE_LATEST && c->what != CHANGE_DATED)
        return NULL;
    while (from > 0 && same_title(&changes[from - 1], c))
        from--;
    while (until < count && same_title(&changes[until], c))
        until++;
    for (unsigned k = from; k < until; k++)
        if (changes[k].what == CHANGE_SUPERSEDED)
            return &changes[k];
    return NULL;
}

static void put_superseded(struct buf *b, const struct page_change *superseded)
{
    char tid[TID_TEXT_BYTES + 1];
    if (superseded == NULL)
        return;
    tid_format(superseded->name.tid, tid);
    buf_printf(b, ",\"superseded\":{\"rev_id\":%" PRIu64 ",\"tid\":\"%s\"}", superseded->name.rev,
               tid);
}

/* Without its end. */
static void put_event(struct pages *p, struct buf *b, const struct page_change *c, store_time now,
                      enum page_stream stream, const char *kind)
{
    char dt[DATE_RFC3339_BYTES + 1], tid[TID_TEXT_BYTES + 1];
    const struct page_bucket *bucket = pages_numbered(p, c->bucket);
    date_format_ms(now.ns, dt);
    tid_format(c->name.tid, tid);
    buf_printf(b, "{\"meta\":{\"stream\":\"%s\",\"id\":\"", page_stream_name(stream));
    uint64_t high = rng_next(&p->events.rng);
    event_id_put(b, high, rng_next(&p->events.rng));
    buf_printf(b, "\",\"dt\":\"%s\",\"domain\":", dt);
    json_text_append(b, domain_of(&p->events, c->domain));
    buf_put(b, STR("},\"bucket\":"));
    json_text_append(b, bucket == NULL ? STR("") : str_of(bucket->opts.name));
    buf_put(b, STR(",\"page_title\":"));
    json_text_append(b, c->title);
    buf_printf(b, ",\"rev_id\":%" PRIu64 ",\"tid\":\"%s\"", c->name.rev, tid);
    if (kind != NULL)
        buf_printf(b, ",\"kind\":\"%s\"", kind);
    if (c->what == CHANGE_DATED)
        buf_printf(b, ",\"last_rev_id\":%" PRIu64, c->by.rev);
}

/* ---- those of an update ---- */

void page_event_texts_free(struct page_event_texts **tp)
{
    struct page_event_texts *t = *tp;
    *tp = NULL;
    if (t == NULL)
        return;
    buf_fini(&t->text);
    free(t->events);
    free(t->ends);
    free(t->taken);
    free(t);
}

bool page_events_appended(const struct page_event_texts *t)
{
    return t != NULL && t->count > 0;
}

static struct page_event_texts *texts_new(void)
{
    struct page_event_texts *t = calloc(1, sizeof *t);
    INVARIANT(t != NULL);
    buf_init(&t->text, EVENT_TEXTS_BYTES_MAX);
    return t;
}

static void texts_grow(struct page_event_texts *t, unsigned count)
{
    if (count <= t->size)
        return;
    t->size = count;
    t->events = realloc(t->events, count * sizeof *t->events);
    t->ends = realloc(t->ends, count * sizeof *t->ends);
    t->taken = realloc(t->taken, count * sizeof *t->taken);
    INVARIANT(t->events != NULL);
    INVARIANT(t->ends != NULL);
    INVARIANT(t->taken != NULL);
}

static void texts_build(struct pages *p, struct page_event_texts *t, store_time now,
                        const struct page_change *changes, unsigned count)
{
    const struct page_events *e = &p->events;
    const unsigned streams = atomic_load_explicit(&e->streams, memory_order_relaxed);
    for (unsigned i = 0; i < count; i++) {
        enum page_stream stream;
        const char *kind;
        if (!stream_of(&changes[i], &stream, &kind) || (streams & BIT(stream)) == 0)
            continue;
        put_event(p, &t->text, &changes[i], now, stream, kind);
        put_superseded(&t->text, superseded_of(changes, count, i));
        buf_put_c(&t->text, '}');
        t->events[t->count] = (struct event){ .stream = str_of(page_stream_name(stream)),
                                              .domain = domain_of(e, changes[i].domain) };
        t->ends[t->count++] = t->text.n;
    }
    for (unsigned i = 0; i < t->count; i++) { /* the buffer has come to rest */
        size_t from = i == 0 ? 0 : t->ends[i - 1];
        t->events[i].bytes = (str){ .p = t->text.p + from, .n = t->ends[i] - from };
    }
}

err page_events_append(struct pages *p, struct engine_txn *txn, const struct page_change *changes,
                       unsigned count, struct page_event_texts **tp)
{
    struct page_event_texts *t = *tp;
    if (t != NULL)
        t->count = 0; /* of an earlier run */
    if (!page_events_wanted(&p->events) || count == 0)
        return ERR_OK;
    if (t == NULL)
        *tp = t = texts_new();
    buf_clear(&t->text);
    texts_grow(t, count);
    texts_build(p, t, engine_txn_now(txn), changes, count);
    err why = buf_status(&t->text);
    for (unsigned i = 0; i < t->count && why == ERR_OK; i += EVENT_APPEND_MAX) {
        unsigned n = t->count - i < EVENT_APPEND_MAX ? t->count - i : EVENT_APPEND_MAX;
        why = event_log_append(p->events.log, txn, t->events + i, n, t->taken + i);
    }
    return why;
}
