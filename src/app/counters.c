#include "app/counters.h"

#include "app/page/hot.h"
#include "engine/store.h"
#include "flight/flight.h"
#include "http/http.h"
#include "list/list.h"
#include "loop/loop.h"
#include "table/table.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define COUNTERS_MAGIC 0xc0a17e25u
_Static_assert((int)READ_KINDS <= (int)HOT_KINDS_MAX,
               "ready answers are counted by the same kinds");
enum { ROUTES_MAX = 128, CLASSES = 6, SLOTS = 512 /* of the table by label; a power of two */ };

const char COUNTERS_HOT[] = "page.hot";
static const char no_route[] = "none";

struct route {
    const char *label;
    struct metric *of_class[CLASSES];
    struct metric *latency;
};

static const struct {
    const char *name, *help;
} class_families[CLASSES] = {
    { "http_unanswered_total", "Requests whose client left before the answer." },
    { "http_responses_1xx_total", "Answers with an informational status." },
    { "http_responses_2xx_total", "Answers with a success status." },
    { "http_responses_3xx_total", "Answers with a redirection status, 304 among them." },
    { "http_responses_4xx_total", "Answers that blame the client." },
    { "http_responses_5xx_total", "Answers that blame the server." },
};

/* Figures of the store: read where they are kept. */
struct figures {
    struct engine_stats engine;
    struct pages_stats pages;
    struct tables_stats tables;
    struct hot_stats hot;
    struct lists_stats lists;
    uint64_t open_requests, loop_stalls;
    uint64_t budget_bytes, budget_bytes_max, budget_refused;
};
struct figure {
    enum metric_kind kind;
    const char *name, *help;
    size_t offset; /* of a uint64_t in struct figures */
};
#define LEVEL(name, help, member)                                                                  \
    {                                                                                              \
        METRIC_GAUGE, (name), (help), offsetof(struct figures, member)                             \
    }
#define TOTAL(name, help, member)                                                                  \
    {                                                                                              \
        METRIC_COUNTER, (name "_total"), (help), offsetof(struct figures, member)                  \
    }
static const struct figure figures[] = {
    LEVEL("engine_rows", "Rows in the index.", engine.rows),
    LEVEL("engine_live_bytes", "Bytes of values that rows refer to.", engine.live_bytes),
    LEVEL("engine_disk_bytes", "Bytes the value log occupies.", engine.disk_bytes),
    LEVEL("engine_index_bytes", "Bytes the index occupies.", engine.index_bytes),
    LEVEL("engine_segments", "Files of the value log.", engine.segments),
    TOTAL("engine_groups", "Groups committed since the start.", engine.groups),
    TOTAL("engine_updates", "Updates committed since the start.", engine.updates),
    TOTAL("engine_syncs", "Syncs of the value log since the start.", engine.syncs),
    TOTAL("engine_log_written_bytes", "Bytes appended to the value log since the start.",
          engine.log_bytes_written),
    TOTAL("engine_punched_bytes", "Bytes given back by punching holes.", engine.punched_bytes),
    TOTAL("engine_copied_bytes", "Bytes copied out of sparse segments.", engine.copied_bytes),
    LEVEL("engine_overlay_rows", "Rows on disk but not yet in the index.", engine.overlay_rows),
    LEVEL("engine_waiting_updates", "Updates waiting for the committer.", engine.waiting),
    LEVEL("engine_index_lag_ms", "How far the index is behind the log.", engine.index_lag_ms),
    LEVEL("engine_free_bytes", "Bytes free on the disk.", engine.free_bytes),
    TOTAL("pages_puts", "Renders stored since the start.", pages.puts),
    TOTAL("pages_duplicates", "Puts of what was stored already.", pages.duplicates),
    TOTAL("pages_superseded", "Renders superseded since the start.", pages.superseded),
    TOTAL("pages_culled", "Renders removed by policy since the start.", pages.culled),
    TOTAL("pages_purged", "Renders removed by order since the start.", pages.purged),
    TOTAL("pages_extended", "Reads that extended a life since the start.", pages.extended),
    TOTAL("pages_replanned", "Renders planned anew after a change of policy.", pages.replanned),
    TOTAL("pages_damaged", "Stored rows gone past because they cannot be read.", pages.damaged),
    TOTAL("tables_damaged", "Rows of tables gone past because they cannot be read.",
          tables.damaged),
    LEVEL("pages_overdue_ns_max", "The longest a cull came after its due time.",
          pages.overdue_ns_max),
    TOTAL("hot_hits", "Answers that were ready.", hot.hits),
    TOTAL("hot_misses", "Plain requests that had no ready answer.", hot.misses),
    LEVEL("hot_entries", "Ready answers kept.", hot.entries),
    LEVEL("hot_bytes", "Bytes of ready answers kept.", hot.bytes),
    TOTAL("hot_evicted", "Ready answers given up for room.", hot.evicted),
    LEVEL("list_entries", "Lists kept by this server, those of displays among them.", lists.kept),
    LEVEL("list_bytes", "Bytes of lists kept by this server.", lists.kept_bytes),
    LEVEL("http_open_requests", "Requests read and not yet answered.", open_requests),
    LEVEL("http_budget_bytes",
          "Memory of requests under way: bodies, what they allocate, answers not yet out.",
          budget_bytes),
    LEVEL("http_budget_bytes_max", "How much that may be (http.bytes_max).", budget_bytes_max),
    TOTAL("http_budget_refused", "Memory that a request was refused because others held it.",
          budget_refused),
    TOTAL("loop_stalls", "Callbacks that held the loop for over 5 ms.", loop_stalls),
};
#undef LEVEL
#undef TOTAL

struct app_counters {
    uint32_t magic;
    struct metric_family *of_class[CLASSES], *latency;
    struct metric *bytes_sent;
    struct metric *figures[COUNT_OF(figures)];
    struct metric *reads_shown[READ_KINDS];
    atomic_uint_least64_t reads[READ_KINDS]; /* ready answers left out */
    unsigned count;
    struct route routes[ROUTES_MAX];
    uint8_t by_label[SLOTS]; /* index + 1, by the address of the label */
};

static unsigned slot_of(const char *label)
{
    return (unsigned)(((uintptr_t)label * 0x9e3779b97f4a7c15ull) >> 40) & (SLOTS - 1);
}

static const struct route *find(const struct app_counters *c, const char *label)
{
    for (unsigned slot = slot_of(label); c->by_label[slot] != 0; slot = (slot + 1) & (SLOTS - 1))
        if (c->routes[c->by_label[slot] - 1].label == label)
            return &c->routes[c->by_label[slot] - 1];
    return NULL;
}

static void add(struct app_counters *c, const char *label)
{
    if (label == NULL || find(c, label) != NULL)
        return;
    INVARIANT(c->count < ROUTES_MAX);
    struct route *r = &c->routes[c->count++];
    r->label = label;
    for (unsigned i = 0; i < CLASSES; i++)
        r->of_class[i] = metric_of(c->of_class[i], label);
    r->latency = metric_of(c->latency, label);
    unsigned slot = slot_of(label);
    while (c->by_label[slot] != 0)
        slot = (slot + 1) & (SLOTS - 1);
    c->by_label[slot] = (uint8_t)c->count;
}

static void reads_begin(struct app_counters *c, struct metrics *m)
{
    static const char *const names[READ_KINDS] = { "current", "recent", "historical", "gone" };
    struct metric_family *reads =
        metrics_family(m, METRIC_COUNTER, "reads_total",
                       "Reads of contents of pages, by the state of the render.", "state");
    for (unsigned kind = 0; kind < READ_KINDS; kind++)
        c->reads_shown[kind] = metric_of(reads, names[kind]);
}

struct app_counters *counters_new(struct metrics *m, const struct http_route *const *tables)
{
    struct app_counters *c = calloc(1, sizeof *c);
    INVARIANT(c != NULL);
    c->magic = COUNTERS_MAGIC;
    for (unsigned i = 0; i < CLASSES; i++)
        c->of_class[i] = metrics_family(m, METRIC_COUNTER, class_families[i].name,
                                        class_families[i].help, "route");
    c->latency =
        metrics_family(m, METRIC_HISTOGRAM, "http_request_duration_seconds",
                       "From the first byte of a request to the last of its answer.", "route");
    c->bytes_sent = metric_of(metrics_family(m, METRIC_COUNTER, "http_sent_bytes_total",
                                             "Bytes of answers sent.", NULL),
                              NULL);
    reads_begin(c, m);
    add(c, no_route);
    add(c, COUNTERS_HOT);
    for (; *tables != NULL; tables++)
        for (const struct http_route *r = *tables; r->pattern != NULL; r++)
            add(c, r->label);
    for (size_t i = 0; i < COUNT_OF(figures); i++)
        c->figures[i] =
            metric_of(metrics_family(m, figures[i].kind, figures[i].name, figures[i].help, NULL),
                      NULL);
    return c;
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

void counters_count(struct app_counters *c, const char *label, int status, int64_t ns,
                    uint64_t bytes_sent)
{
    MAGIC_CHECK(c, COUNTERS_MAGIC);
    const struct route *r = label == NULL ? NULL : find(c, label);
    if (r == NULL)
        r = &c->routes[0];
    int class = status / 100;
    metric_add(r->of_class[class > 0 && class < CLASSES ? class : 0], 1);
    metric_observe_ns(r->latency, ns);
    metric_add(c->bytes_sent, (int64_t)bytes_sent);
}

void counters_render(const struct app *app, struct buf *out)
{
    MAGIC_CHECK(app->counters, COUNTERS_MAGIC);
    struct figures now = { 0 };
    engine_stats_get(app->engine, &now.engine);
    pages_stats_get(app->pages, &now.pages);
    tables_stats_get(app->tables, &now.tables);
    hot_stats_get(app->hot, &now.hot);
    if (app->lists != NULL)
        lists_stats_get(app->lists, &now.lists);
    now.open_requests = app->http == NULL ? 0 : http_server_open_requests(app->http);
    now.loop_stalls = loop_stalls(app->loop);
    now.budget_bytes = budget_held(app->budget);
    now.budget_bytes_max = app->budget->bytes_max;
    now.budget_refused = atomic_load(&app->budget->refused);
    for (size_t i = 0; i < COUNT_OF(figures); i++) {
        uint64_t value;
        memcpy(&value, (const char *)&now + figures[i].offset, sizeof value);
        metric_set(app->counters->figures[i], value > INT64_MAX ? INT64_MAX : (int64_t)value);
    }
    reads_show(app->counters, &now.hot);
    struct flight_stats flights; /* they show their own as they are asked */
    if (app->flights != NULL)
        flights_stats_get(app->flights, &flights);
    metrics_render(app->metrics, out);
}
