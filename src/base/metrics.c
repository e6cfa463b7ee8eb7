/* metrics.c - counters, gauges and histograms, and their Prometheus text. Invariant: a family
 * has at most METRICS_SERIES_MAX series; a label value beyond them is counted as "other". */
#include "base/metrics.h"

#include "base/utf8.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define METRICS_MAGIC 0x3e781c5u
enum { METRIC_BUCKETS = 21 }; /* and one more for all above */

struct bucket {
    int64_t ns_max;
    const char *le; /* the same in seconds, as it is printed */
};
static const struct bucket buckets[METRIC_BUCKETS] = {
    { 50000, "0.00005" },  { 100000, "0.0001" },    { 250000, "0.00025" },
    { 500000, "0.0005" },  { 1000000, "0.001" },    { 2500000, "0.0025" },
    { 5000000, "0.005" },  { 10000000, "0.01" },    { 25000000, "0.025" },
    { 50000000, "0.05" },  { 100000000, "0.1" },    { 250000000, "0.25" },
    { 500000000, "0.5" },  { 1000000000, "1" },     { 2500000000, "2.5" },
    { 5000000000, "5" },   { 10000000000, "10" },   { 30000000000, "30" },
    { 60000000000, "60" }, { 300000000000, "300" }, { 3600000000000, "3600" },
};
static const char *const kind_names[] = {
    [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_HISTOGRAM] = "histogram"
};

const struct metric_row metric_rows[METRIC_IDS] = {
#define METRIC(id, kind, name, unit, labels, help)                                                 \
    [METRIC_##id] = { METRIC_##kind, name, unit, labels, help },
#include "base/metrics.def"
#undef METRIC
};

struct metric {
    enum metric_kind kind;
    char label[METRICS_LABEL_BYTES_MAX + 1];
    _Atomic int64_t value;   /* of a histogram: the sum in ns */
    _Atomic int64_t *counts; /* of a histogram: METRIC_BUCKETS + 1, each alone */
};

struct metric_family {
    enum metric_kind kind;
    const char *prefix, *name, *help, *label;
    pthread_mutex_t adding;
    atomic_uint count; /* grows with release, so that readers need no lock */
    struct metric *series[METRICS_SERIES_MAX];
};

struct metrics {
    uint32_t magic;
    const char *prefix;
    unsigned count;
    struct metric_family *families[METRICS_FAMILIES_MAX];
};

struct metrics *metrics_new(const char *prefix)
{
    struct metrics *m = calloc(1, sizeof *m);
    INVARIANT(m != NULL);
    m->magic = METRICS_MAGIC;
    m->prefix = prefix;
    return m;
}

static void family_free(struct metric_family *f)
{
    unsigned count = atomic_load(&f->count);
    for (unsigned i = 0; i < count; i++) {
        free(f->series[i]->counts);
        free(f->series[i]);
    }
    (void)pthread_mutex_destroy(&f->adding); /* nobody can hold it any more */
    free(f);
}

void metrics_free(struct metrics **mp)
{
    struct metrics *m = *mp;
    if (m == NULL)
        return;
    MAGIC_CHECK(m, METRICS_MAGIC);
    for (unsigned i = 0; i < m->count; i++)
        family_free(m->families[i]);
    m->magic = 0;
    free(m);
    *mp = NULL;
}

struct metric_family *metrics_family(struct metrics *m, enum metric_kind kind, const char *name,
                                     const char *help, const char *label)
{
    MAGIC_CHECK(m, METRICS_MAGIC);
    INVARIANT(m->count < METRICS_FAMILIES_MAX);
    for (unsigned i = 0; i < m->count; i++)
        INVARIANT(strcmp(m->families[i]->name, name) != 0);
    struct metric_family *f = calloc(1, sizeof *f);
    INVARIANT(f != NULL);
    f->kind = kind;
    f->prefix = m->prefix;
    f->name = name;
    f->help = help;
    f->label = label;
    INVARIANT(pthread_mutex_init(&f->adding, NULL) == 0);
    m->families[m->count++] = f;
    if (label == NULL)
        (void)metric_of(f, NULL); /* so that it shows as 0 from the start */
    return f;
}

struct metric_family *metrics_row(struct metrics *m, enum metric_id id)
{
    const struct metric_row *r = &metric_rows[id];
    return metrics_family(m, r->kind, r->name, r->help, r->labels);
}

struct metric *metrics_one(struct metrics *m, enum metric_id id)
{
    INVARIANT(metric_rows[id].labels == NULL);
    return metric_of(metrics_row(m, id), NULL);
}

static struct metric *series_find(const struct metric_family *f, const char *label)
{
    unsigned count = atomic_load_explicit(&f->count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++)
        if (strcmp(f->series[i]->label, label) == 0)
            return f->series[i];
    return NULL;
}

static struct metric *series_add(struct metric_family *f, const char *label)
{
    unsigned count = atomic_load(&f->count);
    INVARIANT(count < METRICS_SERIES_MAX);
    struct metric *s = calloc(1, sizeof *s);
    INVARIANT(s != NULL);
    s->kind = f->kind;
    memcpy(s->label, label, strlen(label) + 1);
    if (f->kind == METRIC_HISTOGRAM) {
        s->counts = calloc(METRIC_BUCKETS + 1, sizeof *s->counts);
        INVARIANT(s->counts != NULL);
    }
    f->series[count] = s;
    atomic_store_explicit(&f->count, count + 1, memory_order_release);
    return s;
}

struct metric *metric_of(struct metric_family *f, const char *label_value)
{
    char label[METRICS_LABEL_BYTES_MAX + 1];
    label[utf8_clean(str_of(label_value), label, METRICS_LABEL_BYTES_MAX)] = '\0';
    struct metric *s = series_find(f, label);
    if (s != NULL)
        return s;
    INVARIANT(pthread_mutex_lock(&f->adding) == 0);
    /* The last place is kept for "other"; whoever comes when the rest is full is counted there. */
    const char *name = atomic_load(&f->count) < METRICS_SERIES_MAX - 1 ? label : "other";
    s = series_find(f, label);
    if (s == NULL)
        s = series_find(f, name);
    if (s == NULL)
        s = series_add(f, name);
    INVARIANT(pthread_mutex_unlock(&f->adding) == 0);
    return s;
}

void metric_add(struct metric *m, int64_t n)
{
    INVARIANT(m->kind != METRIC_HISTOGRAM);
    INVARIANT(m->kind == METRIC_GAUGE || n >= 0);
    (void)atomic_fetch_add_explicit(&m->value, n, memory_order_relaxed); /* old value: no use */
}

void metric_set(struct metric *m, int64_t value)
{
    INVARIANT(m->kind != METRIC_HISTOGRAM);
    atomic_store_explicit(&m->value, value, memory_order_relaxed);
}

void metric_observe_ns(struct metric *m, int64_t ns)
{
    INVARIANT(m->kind == METRIC_HISTOGRAM);
    size_t i = 0;
    while (i < METRIC_BUCKETS && ns > buckets[i].ns_max)
        i++;
    (void)atomic_fetch_add_explicit(&m->counts[i], 1, memory_order_relaxed); /* as above */
    (void)atomic_fetch_add_explicit(&m->value, ns > 0 ? ns : 0, memory_order_relaxed);
}

int64_t metric_value(const struct metric *m)
{
    if (m->kind != METRIC_HISTOGRAM)
        return atomic_load_explicit(&m->value, memory_order_relaxed);
    int64_t total = 0;
    for (size_t i = 0; i <= METRIC_BUCKETS; i++)
        total += atomic_load_explicit(&m->counts[i], memory_order_relaxed);
    return total;
}

static void put_escaped(struct buf *out, str text, bool quotes)
{
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == '\n')
            buf_put(out, STR("\\n"));
        else if (text.p[i] == '\\' || (quotes && text.p[i] == '"'))
            buf_printf(out, "\\%c", text.p[i]);
        else
            buf_put_c(out, text.p[i]);
    }
}

/* The first of the names, which it is taken from. */
static void put_label(struct buf *out, str *names, str value)
{
    str name = str_split(names, ',');
    buf_printf(out, "%.*s=\"", STR_ARG(name));
    put_escaped(out, value, true);
    buf_put(out, names->p != NULL ? STR("\",") : STR("\""));
}

/* One name="value" for each name; a value of fewer parts gives its last to those left. */
static void put_labels(struct buf *out, str names, str values)
{
    for (str value = STR(""); names.p != NULL;) {
        bool last = str_find(names, ',') == names.n;
        if (values.p != NULL)
            value = last ? values : str_split(&values, METRICS_LABEL_BREAK);
        put_label(out, &names, value);
    }
}

/* name{label="value",le="x"}; either label may be absent. */
static void put_name(struct buf *out, const struct metric_family *f, const struct metric *s,
                     const char *suffix, const char *le)
{
    buf_printf(out, "%s%s%s", f->prefix, f->name, suffix);
    if (f->label == NULL && le == NULL)
        return;
    buf_put_c(out, '{');
    if (f->label != NULL)
        put_labels(out, str_of(f->label), str_of(s->label));
    if (le != NULL)
        buf_printf(out, "%sle=\"%s\"", f->label != NULL ? "," : "", le);
    buf_put_c(out, '}');
}

static void render_histogram(struct buf *out, const struct metric_family *f, const struct metric *s)
{
    int64_t total = 0;
    for (size_t i = 0; i <= METRIC_BUCKETS; i++) {
        total += atomic_load_explicit(&s->counts[i], memory_order_relaxed);
        put_name(out, f, s, "_bucket", i < METRIC_BUCKETS ? buckets[i].le : "+Inf");
        buf_printf(out, " %lld\n", (long long)total);
    }
    int64_t ns = atomic_load_explicit(&s->value, memory_order_relaxed);
    put_name(out, f, s, "_sum", NULL);
    buf_printf(out, " %lld.%09lld\n", (long long)(ns / 1000000000), (long long)(ns % 1000000000));
    put_name(out, f, s, "_count", NULL);
    buf_printf(out, " %lld\n", (long long)total);
}

static void put_head(struct buf *out, const char *prefix, const char *name, const char *help,
                     enum metric_kind kind)
{
    buf_printf(out, "# HELP %s%s ", prefix, name);
    put_escaped(out, str_of(help), false);
    buf_printf(out, "\n# TYPE %s%s %s\n", prefix, name, kind_names[kind]);
}

void metrics_head(const struct metrics *m, enum metric_id id, struct buf *out)
{
    MAGIC_CHECK(m, METRICS_MAGIC);
    const struct metric_row *r = &metric_rows[id];
    put_head(out, m->prefix, r->name, r->help, r->kind);
}

void metrics_line(const struct metrics *m, enum metric_id id, const str *values, int64_t value,
                  struct buf *out)
{
    MAGIC_CHECK(m, METRICS_MAGIC);
    const struct metric_row *r = &metric_rows[id];
    buf_printf(out, "%s%s", m->prefix, r->name);
    if (r->labels != NULL) {
        buf_put_c(out, '{');
        for (str names = str_of(r->labels); names.p != NULL; values++)
            put_label(out, &names, *values);
        buf_put_c(out, '}');
    }
    buf_printf(out, " %lld\n", (long long)value);
}

static void render_family(struct buf *out, const struct metric_family *f)
{
    unsigned count = atomic_load_explicit(&f->count, memory_order_acquire);
    put_head(out, f->prefix, f->name, f->help, f->kind);
    for (unsigned i = 0; i < count; i++) {
        const struct metric *s = f->series[i];
        if (f->kind == METRIC_HISTOGRAM) {
            render_histogram(out, f, s);
            continue;
        }
        put_name(out, f, s, "", NULL);
        buf_printf(out, " %lld\n", (long long)metric_value(s));
    }
}

void metrics_render(struct metrics *m, struct buf *out)
{
    MAGIC_CHECK(m, METRICS_MAGIC);
    for (unsigned i = 0; i < m->count; i++)
        render_family(out, m->families[i]);
}
