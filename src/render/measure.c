/* measure.c - counts requests to origins by domain and by outcome, for /metrics. Invariant: each
 * request is counted once. A meter that is NULL counts nothing. */
#include "render/measure.h"

#include "base/metrics.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define MEASURE_MAGIC 0x3ea50123u

/* The families, shared by all origins. Owner: the caller of origin_metrics_new. */
struct origin_metrics {
    uint32_t magic;
    struct metric_family *requests, *seconds, *retries, *remembered, *open, *making, *waiting;
    unsigned domains;
};

/* What one origin counts. Domains beyond ORIGIN_METRICS_DOMAINS_MAX share the label "other". */
struct meter {
    struct origin_metrics *all;
    char domain[METRICS_LABEL_BYTES_MAX + 1];
    struct metric *retries, *remembered, *open, *making, *waiting;
    _Atomic int64_t making_shown,
        waiting_shown; /* its part of the series, which others may share */
    struct metric *seconds[FETCH_KINDS];
    _Atomic(struct metric *) outcomes[FETCH_KINDS][RENDER_WHYS]; /* looked up once */
};

static const char *const kind_names[FETCH_KINDS] = { "siteinfo", "meta", "render",
                                                     "wikitext", "lint", "transform",
                                                     "purge",    "word", "revisions" };

struct origin_metrics *origin_metrics_new(struct metrics *m)
{
    struct origin_metrics *all = calloc(1, sizeof *all);
    INVARIANT(all != NULL);
    *all = (struct origin_metrics){
        .magic = MEASURE_MAGIC,
        .requests = metrics_row(m, METRIC_ORIGIN_REQUESTS),
        .seconds = metrics_row(m, METRIC_ORIGIN_REQUEST_SECONDS),
        .retries = metrics_row(m, METRIC_ORIGIN_RETRIES),
        .remembered = metrics_row(m, METRIC_ORIGIN_REMEMBERED),
        .open = metrics_row(m, METRIC_ORIGIN_OPEN_REQUESTS),
        .making = metrics_row(m, METRIC_ORIGIN_RENDERS_MAKING),
        .waiting = metrics_row(m, METRIC_ORIGIN_RENDERS_WAITING),
    };
    return all;
}

void origin_metrics_free(struct origin_metrics **mp)
{
    struct origin_metrics *all = *mp;
    if (all == NULL)
        return;
    MAGIC_CHECK(all, MEASURE_MAGIC);
    all->magic = 0;
    free(all);
    *mp = NULL;
}

/* The first domains get labels of their own: a farm of wikis must not flood the metrics. */
struct meter *meter_new(struct origin_metrics *all, str domain)
{
    MAGIC_CHECK(all, MEASURE_MAGIC);
    struct meter *m = calloc(1, sizeof *m);
    INVARIANT(m != NULL);
    m->all = all;
    str name = all->domains++ < ORIGIN_METRICS_DOMAINS_MAX
                   ? str_take(domain, METRICS_LABEL_BYTES_MAX)
                   : STR("other");
    INVARIANT(str_to_cstr(name, m->domain, sizeof m->domain));
    m->retries = metric_of(all->retries, m->domain);
    m->remembered = metric_of(all->remembered, m->domain);
    m->open = metric_of(all->open, m->domain);
    m->making = metric_of(all->making, m->domain);
    m->waiting = metric_of(all->waiting, m->domain);
    return m;
}

void meter_free(struct meter **mp)
{
    free(*mp); /* series are the registry's */
    *mp = NULL;
}

void meter_open(struct meter *m, int by)
{
    if (m != NULL)
        metric_add(m->open, by);
}

void meter_again(struct meter *m)
{
    if (m != NULL)
        metric_add(m->retries, 1);
}

void meter_remembered(struct meter *m)
{
    if (m != NULL)
        metric_add(m->remembered, 1);
}

/* Series may be shared: a meter adds by how much its own part moved. */
void meter_renders(struct meter *m, uint64_t making, uint64_t waiting)
{
    if (m == NULL)
        return;
    int64_t making_was = atomic_exchange(&m->making_shown, (int64_t)making);
    int64_t waiting_was = atomic_exchange(&m->waiting_shown, (int64_t)waiting);
    metric_add(m->making, (int64_t)making - making_was);
    metric_add(m->waiting, (int64_t)waiting - waiting_was);
}

/* Loop only: series of times are looked up without an atomic. */
void meter_took(struct meter *m, enum fetch_kind kind, int64_t ns)
{
    char label[2 * sizeof m->domain];
    INVARIANT(kind < FETCH_KINDS);
    if (m == NULL)
        return;
    /* Looked up at the first use: most kinds are never asked of most domains. */
    if (m->seconds[kind] == NULL) {
        (void)snprintf(label, sizeof label, "%s%c%s", kind_names[kind], METRICS_LABEL_BREAK,
                       m->domain); /* fits */
        m->seconds[kind] = metric_of(m->all->seconds, label);
    }
    metric_observe_ns(m->seconds[kind], ns);
}

/* Each series is looked up once; two threads that do so at once find the same one. */
void meter_outcome(struct meter *m, enum fetch_kind kind, enum render_why why)
{
    char label[2 * sizeof m->domain];
    INVARIANT(kind < FETCH_KINDS);
    INVARIANT(why < RENDER_WHYS);
    if (m == NULL)
        return;
    struct metric *metric = atomic_load(&m->outcomes[kind][why]);
    if (metric == NULL) {
        (void)snprintf(label, sizeof label, "%s%c%s%c%s", kind_names[kind], METRICS_LABEL_BREAK,
                       render_why_name(why), METRICS_LABEL_BREAK, m->domain); /* fits */
        metric = metric_of(m->all->requests, label);
        atomic_store(&m->outcomes[kind][why], metric); /* whoever else comes stores the same */
    }
    metric_add(metric, 1);
}
