/* events.c - builds the events that tell of changes, and appends them to the event log, for
 * feed.c. On the committer, but for names of domains at the start. An event of up to 512 bytes
 * is kept in its row and costs no record of the value log: most are that small. */
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

/* The events of one update; its batch owns them (feed.c). The arrays are kept when a decision
 * runs again. */
struct page_event_texts {
    struct buf text;           /* JSON of all events, one behind the other */
    struct event *events;      /* their bytes lie in text */
    size_t *ends;              /* in text, of each */
    struct event_taken *taken; /* of each: what the log made of it */
    unsigned count, size;      /* size: room of the arrays */
};

/* ---- names of domains ---- */

/* The array may move here: start-up only, while nothing reads it. */
void page_events_domain(struct page_events *e, uint32_t number, str name)
{
    if (number >= e->domains_size) {
        uint32_t size = 2 * number + 8;
        e->domains = realloc(e->domains, size * sizeof *e->domains);
        INVARIANT(e->domains != NULL);
        memset(e->domains + e->domains_size, 0, (size - e->domains_size) * sizeof *e->domains);
        e->domains_size = size;
    }
    /* An earlier call may have brought the same name. */
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

/* Which stream tells of a change. False: none does. *kind NULL: the event has no kind. */
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
    /* Only followers are told of these. An event of the successor has what it superseded as a
     * member. */
    case CHANGE_STORED:
    case CHANGE_SUPERSEDED:
    case CHANGE_DUE:
    case CHANGE_WHATS:
        break;
    }
    return false;
}

/* Within a batch, changes of one title that stand beside each other share its text
 * (batch_title). */
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

/* Writes an event without its closing brace: put_superseded may add a member. */
static void put_event(struct pages *p, struct buf *b, const struct page_change *c, store_time now,
                      enum page_stream stream, const char *kind)
{
    char dt[DATE_RFC3339_BYTES + 1], tid[TID_TEXT_BYTES + 1];
    const struct page_bucket *bucket = pages_numbered(p, c->bucket);
    date_format_ms(now.ns, dt);
    tid_format(c->name.tid, tid);
    buf_printf(b, "{\"meta\":{\"stream\":\"%s\",\"id\":\"", page_stream_name(stream));
    /* Two random numbers are the 128 bits of its id. */
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

/* Owner: the batch, which frees it with page_event_texts_free. */
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

/* Builds the events of those changes that a selected stream tells. */
static void texts_build(struct pages *p, struct page_event_texts *t, store_time now,
                        const struct page_change *changes, unsigned count)
{
    const struct page_events *e = &p->events;
    /* Read once: the streams may change meanwhile, and an update is told by those of one
     * instant. */
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
    for (unsigned i = 0; i < t->count; i++) { /* text moves no more */
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
    /* Texts beyond EVENT_TEXTS_BYTES_MAX fail the update. */
    err why = buf_status(&t->text);
    for (unsigned i = 0; i < t->count && why == ERR_OK; i += EVENT_APPEND_MAX) {
        unsigned n = t->count - i < EVENT_APPEND_MAX ? t->count - i : EVENT_APPEND_MAX;
        why = event_log_append(p->events.log, txn, t->events + i, n, t->taken + i);
    }
    return why;
}
