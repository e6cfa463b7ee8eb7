/* counters.c - copies what the store and its parts count into metrics and into the answer of
 * /v1/admin.stats. The table `figures` names each figure once, for both. */
#include "app/counters.h"

#include "app/change/streams.h"
#include "engine/store.h"
#include "event/log.h"
#include "flight/flight.h"
#include "hot/hot.h"
#include "http/client.h"
#include "http/http.h"
#include "list/list.h"
#include "loop/limiter.h"
#include "loop/loop.h"
#include "page/look.h"
#include "render/render.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define COUNTERS_MAGIC 0xc0a17e25u
_Static_assert((int)READ_KINDS <= (int)HOT_KINDS_MAX,
               "ready answers are counted by the same kinds");
/* Figures of the store: read where they are kept. */
struct figures {
    struct engine_stats engine;
    struct pages_stats pages;
    struct tables_stats tables;
    struct hot_stats hot;
    struct lists_stats lists;
    struct limiter_figures calls;
    struct look_figures looks;
    struct trust_figures trust;
    struct event_figures events;
    struct streams_figures streams;
    uint64_t open_requests, cut, loop_stalls;
    uint64_t budget_bytes, budget_bytes_max, budget_refused;
};
#define FIGURE(id, member)                                                                         \
    {                                                                                              \
        id, NULL, NULL, offsetof(struct figures, member)                                           \
    }
#define STAT(id, part, member)                                                                     \
    {                                                                                              \
        id, #part, #member, offsetof(struct figures, part.member)                                  \
    }
static const struct figure {
    enum metric_id id;
    const char *part, *name; /* where /v1/admin.stats has it; part NULL: nowhere */
    size_t offset;           /* of a uint64_t in struct figures */
} figures[] = {
    STAT(METRIC_ENGINE_ROWS, engine, rows),
    STAT(METRIC_ENGINE_LIVE_BYTES, engine, live_bytes),
    STAT(METRIC_ENGINE_DISK_BYTES, engine, disk_bytes),
    STAT(METRIC_ENGINE_INDEX_BYTES, engine, index_bytes),
    STAT(METRIC_ENGINE_SEGMENTS, engine, segments),
    STAT(METRIC_ENGINE_GROUPS, engine, groups),
    STAT(METRIC_ENGINE_UPDATES, engine, updates),
    STAT(METRIC_ENGINE_SYNCS, engine, syncs),
    STAT(METRIC_ENGINE_LOG_WRITTEN_BYTES, engine, log_bytes_written),
    STAT(METRIC_ENGINE_PUNCHED_BYTES, engine, punched_bytes),
    STAT(METRIC_ENGINE_COPIED_BYTES, engine, copied_bytes),
    STAT(METRIC_ENGINE_OVERLAY_ROWS, engine, overlay_rows),
    STAT(METRIC_ENGINE_WAITING_UPDATES, engine, waiting),
    STAT(METRIC_ENGINE_INDEX_LAG_MS, engine, index_lag_ms),
    STAT(METRIC_ENGINE_FREE_BYTES, engine, free_bytes),
    STAT(METRIC_PAGES_PUTS, pages, puts),
    STAT(METRIC_PAGES_DUPLICATES, pages, duplicates),
    STAT(METRIC_PAGES_SUPERSEDED, pages, superseded),
    STAT(METRIC_PAGES_CULLED, pages, culled),
    STAT(METRIC_PAGES_PURGED, pages, purged),
    STAT(METRIC_PAGES_EXTENDED, pages, extended),
    STAT(METRIC_PAGES_REPLANNED, pages, replanned),
    FIGURE(METRIC_PAGES_DAMAGED, pages.damaged),
    FIGURE(METRIC_TABLES_DAMAGED, tables.damaged),
    STAT(METRIC_PAGES_OVERDUE_NS_MAX, pages, overdue_ns_max),
    STAT(METRIC_HOT_HITS, hot, hits),
    STAT(METRIC_HOT_MISSES, hot, misses),
    STAT(METRIC_HOT_ENTRIES, hot, entries),
    STAT(METRIC_HOT_BYTES, hot, bytes),
    STAT(METRIC_HOT_EVICTED, hot, evicted),
    FIGURE(METRIC_LIST_ENTRIES, lists.kept),
    FIGURE(METRIC_LIST_BYTES, lists.kept_bytes),
    FIGURE(METRIC_CALLS_RUNNING, calls.running),
    FIGURE(METRIC_CALLS_WAITING, calls.waiting),
    FIGURE(METRIC_CALLS_REFUSED, calls.refused),
    FIGURE(METRIC_CALLS_WAIT_NS_MAX, calls.wait_ns_max),
    FIGURE(METRIC_LOOKS_STORED, looks.looked),
    FIGURE(METRIC_LOOKS_UNKNOWN, looks.unknown),
    FIGURE(METRIC_LOOKS_AGAIN, looks.rechecked),
    FIGURE(METRIC_LOOKS_DROPPED, looks.dropped),
    FIGURE(METRIC_LOOKS_WAITING, looks.waiting),
    FIGURE(METRIC_HTTP_OPEN_REQUESTS, open_requests),
    FIGURE(METRIC_HTTP_CUT, cut),
    FIGURE(METRIC_HTTP_BUDGET_BYTES, budget_bytes),
    FIGURE(METRIC_HTTP_BUDGET_BYTES_MAX, budget_bytes_max),
    FIGURE(METRIC_HTTP_BUDGET_REFUSED, budget_refused),
    FIGURE(METRIC_LOOP_STALLS, loop_stalls),
    FIGURE(METRIC_TRUST_CELLS, trust.cells),
    FIGURE(METRIC_TRUST_DOUBTS, trust.doubts),
    FIGURE(METRIC_STREAM_CLIENTS, streams.clients),
    FIGURE(METRIC_STREAM_REFUSED, streams.refused),
    FIGURE(METRIC_STREAM_BYTES, streams.bytes),
    FIGURE(METRIC_STREAM_FAILED, streams.failed),
    FIGURE(METRIC_STREAM_GAPS, streams.gaps),
    FIGURE(METRIC_EVENT_LOG_TAKEN, events.taken),
    FIGURE(METRIC_EVENT_LOG_EVENTS, events.count),
    FIGURE(METRIC_EVENT_LOG_BYTES, events.bytes),
    FIGURE(METRIC_EVENT_LOG_IDS, events.ids),
    FIGURE(METRIC_EVENT_LOG_IDS_EARLY, events.ids_early),
};
#undef STAT
#undef FIGURE

struct app_counters {
    uint32_t magic;
    struct metric *figures[COUNT_OF(figures)];
    struct metric *reads_shown[READ_KINDS];
    struct metric *purges[PURGE_KINDS], *events[EVENT_KINDS], *events_repeated;
    atomic_uint_least64_t reads[READ_KINDS]; /* ready answers left out */
};

static void reads_begin(struct app_counters *c, struct metrics *m)
{
    static const char *const names[READ_KINDS] = { "current", "recent", "historical", "gone" };
    struct metric_family *reads = metrics_row(m, METRIC_READS);
    for (unsigned kind = 0; kind < READ_KINDS; kind++)
        c->reads_shown[kind] = metric_of(reads, names[kind]);
}

static void told_begin(struct app_counters *c, struct metrics *m)
{
    static const char *const purges[PURGE_KINDS] = { "title", "other", "unknown", "refused" };
    static const char *const events[EVENT_KINDS] = { "title", "other", "job", "invalid" };
    struct metric_family *f = metrics_row(m, METRIC_CHANGE_PURGES);
    for (unsigned kind = 0; kind < PURGE_KINDS; kind++)
        c->purges[kind] = metric_of(f, purges[kind]);
    f = metrics_row(m, METRIC_CHANGE_EVENTS);
    for (unsigned kind = 0; kind < EVENT_KINDS; kind++)
        c->events[kind] = metric_of(f, events[kind]);
    c->events_repeated = metrics_one(m, METRIC_CHANGE_EVENTS_REPEATED);
}

struct app_counters *counters_new(struct metrics *m)
{
    struct app_counters *c = calloc(1, sizeof *c);
    INVARIANT(c != NULL);
    c->magic = COUNTERS_MAGIC;
    reads_begin(c, m);
    told_begin(c, m);
    for (size_t i = 0; i < COUNT_OF(figures); i++)
        c->figures[i] = metrics_one(m, figures[i].id);
    return c;
}

void counters_purge(struct app_counters *c, enum purge_kind kind)
{
    metric_add(c->purges[kind], 1);
}

void counters_events(struct app_counters *c, enum event_kind kind, uint64_t count)
{
    metric_add(c->events[kind], (int64_t)count);
}

void counters_events_repeated(struct app_counters *c, uint64_t count)
{
    metric_add(c->events_repeated, (int64_t)count);
}

enum read_kind counters_read_kind(enum page_state s)
{
    switch (s) {
    case PAGE_CURRENT:
        return READ_CURRENT;
    case PAGE_RECENT:
        return READ_RECENT;
    case PAGE_HISTORICAL:
    case PAGE_HELD:
    case PAGE_ARCHIVE:
        return READ_HISTORICAL;
    case PAGE_CULLED:
    case PAGE_PURGED:
    case PAGE_SUPPRESSED:
    case PAGE_DELETED:
    case PAGE_UNKNOWN:
    case PAGE_STATES:
        break;
    }
    return READ_GONE;
}

void counters_read(struct app_counters *c, enum read_kind kind)
{
    MAGIC_CHECK(c, COUNTERS_MAGIC);
    (void)atomic_fetch_add_explicit(&c->reads[kind], 1,
                                    memory_order_relaxed); /* the old value is of no use */
}

static void reads_show(struct app_counters *c, const struct hot_stats *hot)
{
    for (unsigned kind = 0; kind < READ_KINDS; kind++) {
        uint64_t slow = atomic_load_explicit(&c->reads[kind], memory_order_relaxed);
        metric_set(c->reads_shown[kind], (int64_t)(slow + hot->hits_of[kind]));
    }
}

void counters_free(struct app_counters **cp)
{
    if (*cp == NULL)
        return;
    MAGIC_CHECK(*cp, COUNTERS_MAGIC);
    (*cp)->magic = 0;
    free(*cp);
    *cp = NULL;
}

static uint64_t figure_of(const struct figures *now, const struct figure *f)
{
    uint64_t value;
    memcpy(&value, (const char *)now + f->offset, sizeof value);
    return value;
}

static void figures_get(const struct app *app, struct figures *now)
{
    *now = (struct figures){ 0 };
    engine_stats_get(app->engine, &now->engine);
    page_store_stats(app->page.store, &now->pages);
    table_store_stats(app->tables, &now->tables);
    hot_stats_get(app->hot, &now->hot);
    if (app->lists != NULL)
        lists_stats_get(app->lists, &now->lists);
    if (app->page.looks != NULL)
        page_looks_figures(app->page.looks, &now->looks);
    if (app->client != NULL)
        limiter_figures_get(http_client_limiter(app->client), LIMITER_ALL, NULL, &now->calls);
    if (app->page.trust != NULL)
        page_trust_figures(app->page.trust, &now->trust);
    streams_figures_get(app->streams, &now->streams);
    if (event_log_figures(app->events, &now->events) != ERR_OK)
        now->events = (struct event_figures){ 0 }; /* palimpsest check says what is damaged */
    now->open_requests = app->http == NULL ? 0 : http_server_open_requests(app->http);
    now->cut = app->http == NULL ? 0 : http_server_cut(app->http);
    now->loop_stalls = loop_stalls(app->loop);
    now->budget_bytes = budget_held(app->budget);
    now->budget_bytes_max = app->budget->bytes_max;
    now->budget_refused = atomic_load(&app->budget->refused);
}

void counters_stats(const struct app *app, struct buf *out)
{
    struct figures now;
    const char *part = "";
    figures_get(app, &now);
    for (size_t i = 0; i < COUNT_OF(figures); i++) {
        const struct figure *f = &figures[i];
        if (f->part == NULL)
            continue;
        bool same = strcmp(f->part, part) == 0;
        if (!same)
            buf_printf(out, "%s\"%s\":{", part[0] == 0 ? "{" : "},", f->part);
        part = f->part;
        buf_printf(out, "%s\"%s\":%" PRIu64, same ? "," : "", f->name, figure_of(&now, f));
    }
    buf_put(out, STR("}}"));
}

void counters_render(const struct app *app, struct buf *out)
{
    MAGIC_CHECK(app->counters, COUNTERS_MAGIC);
    struct figures now;
    figures_get(app, &now);
    for (size_t i = 0; i < COUNT_OF(figures); i++) {
        uint64_t value = figure_of(&now, &figures[i]);
        metric_set(app->counters->figures[i], value > INT64_MAX ? INT64_MAX : (int64_t)value);
    }
    reads_show(app->counters, &now.hot);
    struct flight_stats flights; /* these show their own as they are asked */
    if (app->page.flights != NULL)
        flights_stats_get(app->page.flights, &flights);
    struct origin_stats origin;
    for (unsigned i = 0; i < app->page.domains_count; i++)
        if (app->page.domains[i].origin != NULL)
            origin_stats_get(app->page.domains[i].origin, &origin);
    metrics_render(app->metrics, out);
}
