/* counts.c - a series for each route and class of answers, found by the address of its label. */
#include "http/counts.h"

#include <stdlib.h>

#define COUNTS_MAGIC 0xc0a17e26u
enum { ROUTES_MAX = 240, CLASSES = 6, SLOTS = 512 /* of the table by label; a power of two */ };

static const char no_route[] = "none";

struct route {
    const char *label;
    struct metric *of_class[CLASSES];
    struct metric *latency;
};

static const enum metric_id class_rows[CLASSES] = {
    METRIC_HTTP_UNANSWERED,    METRIC_HTTP_RESPONSES_1XX, METRIC_HTTP_RESPONSES_2XX,
    METRIC_HTTP_RESPONSES_3XX, METRIC_HTTP_RESPONSES_4XX, METRIC_HTTP_RESPONSES_5XX,
};

struct http_counts {
    uint32_t magic;
    struct metric_family *of_class[CLASSES], *latency;
    struct metric *bytes_sent;
    unsigned count;
    struct route routes[ROUTES_MAX];
    uint8_t by_label[SLOTS]; /* index + 1, by the address of the label */
};

static unsigned label_slot(const char *label)
{
    return (unsigned)(((uintptr_t)label * 0x9e3779b97f4a7c15ull) >> 40) & (SLOTS - 1);
}

static const struct route *route_find(const struct http_counts *c, const char *label)
{
    for (unsigned slot = label_slot(label); c->by_label[slot] != 0; slot = (slot + 1) & (SLOTS - 1))
        if (c->routes[c->by_label[slot] - 1].label == label)
            return &c->routes[c->by_label[slot] - 1];
    return NULL;
}

static void route_add(struct http_counts *c, const char *label)
{
    if (label == NULL || route_find(c, label) != NULL)
        return;
    INVARIANT(c->count < ROUTES_MAX);
    struct route *r = &c->routes[c->count++];
    r->label = label;
    for (unsigned i = 0; i < CLASSES; i++)
        r->of_class[i] = metric_of(c->of_class[i], label);
    r->latency = metric_of(c->latency, label);
    unsigned slot = label_slot(label);
    while (c->by_label[slot] != 0)
        slot = (slot + 1) & (SLOTS - 1);
    c->by_label[slot] = (uint8_t)c->count;
}

struct http_counts *http_counts_new(struct metrics *m, const struct http_route *const *tables,
                                    const char *early)
{
    struct http_counts *c = calloc(1, sizeof *c);
    INVARIANT(c != NULL);
    c->magic = COUNTS_MAGIC;
    for (unsigned i = 0; i < CLASSES; i++)
        c->of_class[i] = metrics_row(m, class_rows[i]);
    c->latency = metrics_row(m, METRIC_HTTP_REQUEST_DURATION_SECONDS);
    c->bytes_sent = metrics_one(m, METRIC_HTTP_SENT_BYTES);
    route_add(c, no_route);
    route_add(c, early);
    for (; *tables != NULL; tables++)
        for (const struct http_route *r = *tables; r->pattern != NULL; r++)
            route_add(c, r->label);
    return c;
}

void http_counts_free(struct http_counts **cp)
{
    if (*cp == NULL)
        return;
    MAGIC_CHECK(*cp, COUNTS_MAGIC);
    (*cp)->magic = 0;
    free(*cp);
    *cp = NULL;
}

void http_counts_add(struct http_counts *c, const char *label, int status, int64_t ns,
                     uint64_t bytes_sent)
{
    MAGIC_CHECK(c, COUNTS_MAGIC);
    const struct route *r = label == NULL ? NULL : route_find(c, label);
    if (r == NULL)
        r = &c->routes[0];
    int class = status / 100;
    metric_add(r->of_class[class > 0 && class < CLASSES ? class : 0], 1);
    metric_observe_ns(r->latency, ns);
    metric_add(c->bytes_sent, (int64_t)bytes_sent);
}
