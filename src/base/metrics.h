/* metrics.h - counters, gauges and latency histograms, and their Prometheus text (format 0.0.4).
 *
 * A registry owns families; a family owns its series, one per label value, all created up front or
 * bounded by METRICS_SERIES_MAX with the rest counted as "other": labels never grow with what
 * clients send. Updates are relaxed atomics. Histograms have fixed buckets from 50 us to 1 h.
 * Thread: creating on one thread before use, updating and rendering from any. */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include "base/buf.h"

enum { METRICS_SERIES_MAX = 256, METRICS_FAMILIES_MAX = 256, METRICS_LABEL_BYTES_MAX = 128 };
#define METRICS_LABEL_BREAK '\x1f'
enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

/* The table of metrics.def. */
enum metric_id {
#define METRIC(id, kind, name, unit, labels, help) METRIC_##id,
#include "base/metrics.def"
#undef METRIC
    METRIC_IDS
};
struct metric_row {
    enum metric_kind kind;
    const char *name, *unit, *labels, *help;
};
extern const struct metric_row metric_rows[METRIC_IDS];

struct metrics;
struct metric_family;
struct metric; /* one series */

/* A row of the table as a family; each once. */
struct metric_family *metrics_row(struct metrics *m, enum metric_id id);
/* The series of a row without labels. */
struct metric *metrics_one(struct metrics *m, enum metric_id id);
/* HELP and TYPE of a row, for who writes its lines himself. */
void metrics_head(const struct metrics *m, enum metric_id id, struct buf *out);
/* Such a line: a value for each label of the row, in their order. */
void metrics_line(const struct metrics *m, enum metric_id id, const str *values, int64_t value,
                  struct buf *out);

/* prefix is a static string put before every name in the exposition; may be empty. */
struct metrics *metrics_new(const char *prefix);
void metrics_free(struct metrics **mp);
/* name and help are static strings; label is the label's name, NULL for a single series; several
 * stand with commas, and a value then has as many parts with METRICS_LABEL_BREAK between them (one
 * that is cut, or "other", gives its last part to the labels left). Invariant: names are unique and
 * at most METRICS_FAMILIES_MAX of them. Borrowed from the registry. */
struct metric_family *metrics_family(struct metrics *m, enum metric_kind kind, const char *name,
                                     const char *help, const char *label);
/* The series of a label value (copied; cut and escaped as needed); the same again for the same
 * value. */
struct metric *metric_of(struct metric_family *f, const char *label_value);
void metric_add(struct metric *m, int64_t n);
void metric_set(struct metric *m, int64_t value);
void metric_observe_ns(struct metric *m, int64_t ns);
int64_t metric_value(const struct metric *m);
/* Appends the whole exposition. */
void metrics_render(struct metrics *m, struct buf *out);

#endif
