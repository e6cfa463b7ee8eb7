/* GET /health as Querator has it, and what queues add to GET /metrics: counts and ages of
 * partitions, of at most QUEUES_MAX queues, PARTITIONS_MAX partitions and the text that all other
 * figures left, so that a scrape is bounded whatever clients create. palimpsest_queue_left_out says
 * whether there are more. */
#include "app/queue/queue_figures.h"

#include "app/answer.h"
#include "app/errors.h"
#include "app/queue/queue_call.h"
#include "app/queue/queue_routes.h"
#include "base/date.h"
#include "base/metrics.h"
#include "queue/admin.h"

#include <string.h>

enum {
    QUEUES_MAX = 256,
    PARTITIONS_MAX = 2048,
    FIGURES_ARENA_BYTES = 64 << 20,
    /* of the text: what stores take, CONFIG_STORES_MAX of them, and headings */
    STORES_BYTES = 128 << 10,
};

/* ---- health ---- */

struct health_call {
    struct queue_call call;
    err why; /* what is answered, whatever it is */
};

static err health_run(struct queue_call *c)
{
    struct queues_page page = { .limit = 1 };
    CONTAINER_OF(c, struct health_call, call)->why =
        queues_list(c->app->queues, &page, http_arena(c->x));
    return ERR_OK;
}

static void health_answer(struct queue_call *c)
{
    char now[DATE_RFC3339_BYTES + 1];
    err why = CONTAINER_OF(c, struct health_call, call)->why;
    bool fine = why == ERR_OK;
    const char *fault =
        why == ERR_SHUTDOWN ? "the server is shutting down" : "storage check failed";
    date_format_ms(clock_wall(c->app->clock).ns, now);
    str body = arena_printf(
        http_arena(c->x),
        "{\"status\":\"%s\",\"version\":\"" APP_VERSION "\",\"checks\":{\"queues:storage\":[{"
        "\"componentType\":\"datastore\",\"status\":\"%s\",\"time\":\"%s\"%s%s%s}]}}\n",
        fine ? "pass" : "fail", fine ? "pass" : "fail", now, fine ? "" : ",\"output\":\"",
        fine ? "" : fault, fine ? "" : "\"");
    struct answer w = { .status = fine && body.p != NULL ? 200 : 503,
                        .body = body.p != NULL ? body : STR("{}") };
    answer_add(&w, STR("content-type"), STR("application/health+json"));
    answer_add(&w, STR("cache-control"), STR("no-store"));
    answer_add(&w, STR("x-content-type-options"), STR("nosniff"));
    answer_send(c->x, &w);
}

void app_health(struct http_exchange *x, void *app)
{
    struct health_call *c = arena_calloc(http_arena(x), 1, sizeof *c);
    if (c == NULL) {
        app_fail(x, ERR_LIMIT, NULL);
        return;
    }
    c->call.x = x;
    c->call.app = app;
    if (http_draining(x)) {
        c->why = ERR_SHUTDOWN;
        health_answer(&c->call);
        return;
    }
    queue_call_job(&c->call, health_run, health_answer);
}

/* ---- figures ---- */

enum {
    FIGURE_ITEMS,
    FIGURE_FAILURES,
    FIGURE_DAMAGED,
    FIGURE_OLDEST,
    FIGURE_WAITING,
    FIGURE_MOVING,
    FIGURE_MOVES_FAILED,
    FIGURES
};
static const enum metric_id figure_ids[FIGURES] = {
    METRIC_QUEUE_ITEMS,         METRIC_QUEUE_FAILURES, METRIC_QUEUE_DAMAGED,
    METRIC_QUEUE_OLDEST_AGE_MS, METRIC_QUEUE_WAITING,  METRIC_QUEUE_MOVING,
    METRIC_QUEUE_MOVES_FAILED,
};

enum { WAITING_LINES = 3, PARTITION_LINES = 9, LINE_BYTES = 128 /* beside the label */ };

struct figures {
    struct buf out[FIGURES]; /* the lines of one figure stand together */
    size_t left;             /* bytes of all of them */
    bool left_out;           /* there is more than is shown */
    struct arena arena;      /* of one queue */
    unsigned partitions;     /* so far */
};

/* As the text format wants it in quotes. */
static void put_label(struct buf *b, str name)
{
    for (size_t i = 0; i < name.n; i++) {
        if (name.p[i] == '\\' || name.p[i] == '"')
            buf_put_c(b, '\\');
        buf_put_c(b, name.p[i] == '\n' ? ' ' : name.p[i]);
    }
}

/* Room for so many lines of a queue? Then it is taken, for a label of which every byte is
 * escaped. */
static bool figures_room(struct figures *f, str queue, unsigned lines)
{
    size_t bytes = lines * (2 * queue.n + LINE_BYTES);
    bool fits = bytes <= f->left;
    f->left -= fits ? bytes : 0;
    f->left_out |= !fits;
    return fits;
}

static void put_figure(struct figures *f, unsigned figure, str queue, uint32_t partition,
                       const char *state, uint64_t value)
{
    struct buf *b = &f->out[figure];
    buf_printf(b, "palimpsest_%s{queue=\"", metric_rows[figure_ids[figure]].name);
    put_label(b, queue);
    buf_printf(b, "\",partition=\"%u\"", (unsigned)partition);
    if (state != NULL)
        buf_printf(b, ",state=\"%s\"", state);
    buf_printf(b, "} %llu\n", (unsigned long long)value);
}

static void put_partition(struct figures *f, str queue, const struct queue_part_stats *p)
{
    put_figure(f, FIGURE_ITEMS, queue, p->partition, "ready", p->ready);
    put_figure(f, FIGURE_ITEMS, queue, p->partition, "leased", p->leased);
    put_figure(f, FIGURE_ITEMS, queue, p->partition, "scheduled", p->scheduled);
    put_figure(f, FIGURE_ITEMS, queue, p->partition, "placing", p->placing);
    put_figure(f, FIGURE_FAILURES, queue, p->partition, NULL, p->failures);
    put_figure(f, FIGURE_DAMAGED, queue, p->partition, NULL, p->damaged);
    uint64_t oldest_ms = p->oldest_age_ns < 0 ? 0 : (uint64_t)(p->oldest_age_ns / NS_PER_MS);
    put_figure(f, FIGURE_OLDEST, queue, p->partition, NULL, oldest_ms);
    put_figure(f, FIGURE_MOVING, queue, p->partition, NULL, p->moving);
    put_figure(f, FIGURE_MOVES_FAILED, queue, p->partition, NULL, p->moves_failed);
}

static void put_waiting(struct figures *f, str queue, const char *kind, uint64_t value)
{
    struct buf *b = &f->out[FIGURE_WAITING];
    buf_put(b, STR("palimpsest_queue_waiting{queue=\""));
    put_label(b, queue);
    buf_printf(b, "\",kind=\"%s\"} %llu\n", kind, (unsigned long long)value);
}

static void put_queue(struct figures *f, struct queues *queues, str name)
{
    struct queue *q = NULL;
    struct queue_stats stats;
    if (queues_find(queues, name, &q, NULL) != ERR_OK)
        return; /* deleted meanwhile */
    if (queue_stats_get(q, &f->arena, &stats) == ERR_OK && figures_room(f, name, WAITING_LINES)) {
        unsigned i = 0;
        put_waiting(f, name, "produce", stats.produce_waiting);
        put_waiting(f, name, "lease", stats.lease_waiting);
        put_waiting(f, name, "complete", stats.complete_waiting);
        for (; i < stats.parts_count && f->partitions < PARTITIONS_MAX; i++, f->partitions++) {
            if (!figures_room(f, name, PARTITION_LINES))
                break;
            put_partition(f, name, &stats.parts[i]);
        }
        f->left_out |= i < stats.parts_count;
    }
    queue_unref(&q);
    arena_reset(&f->arena);
}

static void put_store_states(struct queues *queues, const struct metrics *m, struct buf *out)
{
    static const char *const states[] = { "available", "suspect", "error" };
    struct queue_store_stats s;
    metrics_head(m, METRIC_QUEUE_STORE_STATE, out);
    for (unsigned i = 0; queues_store(queues, i, &s); i++)
        for (size_t k = 0; k < COUNT_OF(states); k++)
            buf_printf(out, "palimpsest_queue_store_state{store=\"%s\",state=\"%s\"} %d\n", s.name,
                       states[k], strcmp(s.state, states[k]) == 0);
}

static void put_stores(struct queues *queues, const struct metrics *m, struct buf *out)
{
    struct queue_store_stats s;
    put_store_states(queues, m, out);
    metrics_head(m, METRIC_QUEUE_STORE_FAILURES, out);
    for (unsigned i = 0; queues_store(queues, i, &s); i++)
        buf_printf(out, "palimpsest_queue_store_failures{store=\"%s\"} %llu\n", s.name,
                   (unsigned long long)s.failures);
    metrics_head(m, METRIC_QUEUE_STORE_WRITE_US, out);
    for (unsigned i = 0; queues_store(queues, i, &s); i++)
        buf_printf(out, "palimpsest_queue_store_write_us{store=\"%s\"} %lld\n", s.name,
                   (long long)(s.write_ns * 1000 / NS_PER_MS));
}

void queue_figures_render(struct queues *queues, const struct metrics *m, struct buf *out)
{
    size_t room = out->bytes_max - out->n;
    struct figures f = { .left = room > STORES_BYTES ? room - STORES_BYTES : 0 };
    struct arena names;
    struct queues_page page = { .limit = QUEUES_MAX };
    arena_init(&names, FIGURES_ARENA_BYTES);
    arena_init(&f.arena, FIGURES_ARENA_BYTES);
    for (unsigned i = 0; i < FIGURES; i++)
        buf_init(&f.out[i], out->bytes_max);
    do {
        if (queues_list(queues, &page, &names) != ERR_OK)
            break;
        for (unsigned i = 0; i < page.count; i++)
            put_queue(&f, queues, page.found[i].name);
        page.limit -= page.count;
        page.pivot = page.next;
    } while (page.limit > 0 && page.next.n > 0);
    f.left_out |= page.next.n > 0;
    for (unsigned i = 0; i < FIGURES; i++) {
        metrics_head(m, figure_ids[i], out);
        buf_put(out, buf_str(&f.out[i]));
        buf_fini(&f.out[i]);
    }
    metrics_head(m, METRIC_QUEUE_LEFT_OUT, out);
    buf_printf(out, "palimpsest_queue_left_out %d\n", f.left_out);
    put_stores(queues, m, out);
    arena_fini(&f.arena);
    arena_fini(&names);
}
