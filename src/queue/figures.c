/* figures.c - what queues add to GET /metrics: counts and ages of partitions, and how stores do; of
 * at most QUEUES_MAX queues, PARTITIONS_MAX partitions and the text that all other figures left, so
 * that a scrape is bounded whatever clients create. queue_left_out says whether there are more. */
#include "base/metrics.h"
#include "queue/admin.h"
#include "queue/order/flush.h"

#include <stdio.h>
#include <string.h>

enum {
    QUEUES_MAX = 256,
    PARTITIONS_MAX = 2048,
    FIGURES_ARENA_BYTES = 64 << 20,
    STORES_BYTES = 128 << 10, /* of the text: what stores take, all there can be, and headings */
    LINE_BYTES = 128,         /* of a line, beside its queue's name */
};

/* Lines of one metric stand together. */
static const struct figure {
    enum metric_id id;
    bool of_queue;    /* one of it, not one of each partition */
    const char *last; /* value of the last label; NULL: there is none beside queue and partition */
    size_t offset;    /* of 64 bits in struct queue_stats, or queue_part_stats */
} figures[] = {
#define PART(id, last, member)                                                                     \
    {                                                                                              \
        METRIC_QUEUE_##id, false, last, offsetof(struct queue_part_stats, member)                  \
    }
#define QUEUE(id, last, member)                                                                    \
    {                                                                                              \
        METRIC_QUEUE_##id, true, last, offsetof(struct queue_stats, member)                        \
    }
    PART(ITEMS, "ready", ready),
    PART(ITEMS, "leased", leased),
    PART(ITEMS, "scheduled", scheduled),
    PART(ITEMS, "placing", placing),
    PART(FAILURES, NULL, failures),
    PART(DAMAGED, NULL, damaged),
    PART(OLDEST_AGE_MS, NULL, oldest_age_ns),
    QUEUE(WAITING, "produce", produce_waiting),
    QUEUE(WAITING, "lease", lease_waiting),
    QUEUE(WAITING, "complete", complete_waiting),
    PART(MOVING, NULL, moving),
    PART(MOVES_FAILED, NULL, moves_failed),
#undef QUEUE
#undef PART
};
enum { WAITING_LINES = 3, PARTITION_LINES = COUNT_OF(figures) - WAITING_LINES };

/* A queue whose figures are shown; name is in the arena. */
struct shown {
    str name;
    struct queue_stats stats; /* of the partitions that are shown */
};
/* All that one scrape shows, gathered before the first line: lines of one metric stand together,
 * over all queues. */
struct gathered {
    struct shown queues[QUEUES_MAX];
    unsigned count, partitions;
    size_t left;   /* bytes of the text */
    bool left_out; /* there is more than is shown */
    struct arena arena;
};

/* Room for so many lines of a queue? Then it is taken, for a name of which every byte is escaped.
 */
static bool gather_room(struct gathered *g, str queue, unsigned lines)
{
    size_t bytes = lines * (2 * queue.n + LINE_BYTES);
    bool fits = bytes <= g->left;
    g->left -= fits ? bytes : 0;
    g->left_out |= !fits;
    return fits;
}

/* A queue that does not fit, with the lines of the queue alone, is left out as a whole. */
static void gather_queue(struct gathered *g, struct queues *qs, str name)
{
    struct queue *q = NULL;
    struct queue_stats stats;
    if (queues_find(qs, name, &q, NULL) != ERR_OK)
        return; /* deleted meanwhile */
    err why = queue_stats_get(q, &g->arena, &stats);
    queue_unref(&q);
    if (why != ERR_OK || !gather_room(g, name, WAITING_LINES)) {
        g->left_out = true;
        return;
    }
    /* The first partitions, as many as fit. */
    unsigned shown = 0;
    while (shown < stats.parts_count && g->partitions < PARTITIONS_MAX &&
           gather_room(g, name, PARTITION_LINES)) {
        g->partitions++;
        shown++;
    }
    g->left_out |= shown < stats.parts_count;
    stats.parts_count = shown;
    g->queues[g->count++] = (struct shown){ .name = name, .stats = stats };
}

/* Pages, because a page ends at reply_bytes_max. */
static void gather(struct gathered *g, struct queues *qs)
{
    struct queues_page page = { .limit = QUEUES_MAX };
    do {
        if (queues_list(qs, &page, &g->arena) != ERR_OK)
            break;
        for (unsigned i = 0; i < page.count; i++)
            gather_queue(g, qs, page.found[i].name);
        page.limit -= page.count;
        page.pivot = page.next;
    } while (page.limit > 0 && page.next.n > 0);
    g->left_out |= page.next.n > 0;
}

/* of: what it is counted of. */
static void put_figure(const struct figure *f, str queue, const void *of, const struct metrics *m,
                       struct buf *out)
{
    char digits[16];
    str values[3] = { queue };
    unsigned n = 1;
    int64_t value;
    memcpy(&value, (const char *)of + f->offset, sizeof value);
    if (f->id == METRIC_QUEUE_OLDEST_AGE_MS)
        value = value < 0 ? 0 : value / NS_PER_MS;
    if (!f->of_queue) {
        const struct queue_part_stats *p = of;
        (void)snprintf(digits, sizeof digits, "%u", p->partition);
        values[n++] = str_of(digits);
    }
    if (f->last != NULL)
        values[n] = str_of(f->last);
    metrics_line(m, f->id, values, value, out);
}

static void put_queue(const struct figure *from, unsigned count, const struct shown *s,
                      const struct metrics *m, struct buf *out)
{
    unsigned parts = from->of_queue ? 1 : s->stats.parts_count;
    for (unsigned p = 0; p < parts; p++)
        for (unsigned i = 0; i < count; i++)
            put_figure(&from[i], s->name,
                       from->of_queue ? (const void *)&s->stats : &s->stats.parts[p], m, out);
}

static void put_stores(struct queues *qs, const struct metrics *m, struct buf *out)
{
    static const char *const states[] = { "available", "suspect", "error" };
    struct queue_store_stats s;
    metrics_head(m, METRIC_QUEUE_STORE_STATE, out);
    for (unsigned i = 0; queues_store(qs, i, &s); i++)
        for (size_t k = 0; k < COUNT_OF(states); k++)
            metrics_line(m, METRIC_QUEUE_STORE_STATE,
                         (const str[]){ str_of(s.name), str_of(states[k]) },
                         strcmp(s.state, states[k]) == 0, out);
    metrics_head(m, METRIC_QUEUE_STORE_FAILURES, out);
    for (unsigned i = 0; queues_store(qs, i, &s); i++)
        metrics_line(m, METRIC_QUEUE_STORE_FAILURES, (const str[]){ str_of(s.name) },
                     (int64_t)s.failures, out);
    metrics_head(m, METRIC_QUEUE_STORE_WRITE_US, out);
    for (unsigned i = 0; queues_store(qs, i, &s); i++)
        metrics_line(m, METRIC_QUEUE_STORE_WRITE_US, (const str[]){ str_of(s.name) },
                     s.write_ns * 1000 / NS_PER_MS, out);
}

void queues_figures(struct queues *qs, const struct metrics *m, struct buf *out)
{
    /* What stores need is set aside first: their figures are always there. */
    size_t room = out->bytes_max - out->n;
    struct gathered g = { .left = room > STORES_BYTES ? room - STORES_BYTES : 0 };
    arena_init(&g.arena, FIGURES_ARENA_BYTES);
    gather(&g, qs);
    for (unsigned i = 0, n; i < COUNT_OF(figures); i += n) {
        /* n rows of the table are of the same metric. */
        for (n = 1; i + n < COUNT_OF(figures) && figures[i + n].id == figures[i].id;)
            n++;
        metrics_head(m, figures[i].id, out);
        for (unsigned k = 0; k < g.count; k++)
            put_queue(&figures[i], n, &g.queues[k], m, out);
    }
    metrics_head(m, METRIC_QUEUE_LEFT_OUT, out);
    metrics_line(m, METRIC_QUEUE_LEFT_OUT, NULL, g.left_out, out);
    put_stores(qs, m, out);
    arena_fini(&g.arena);
}
