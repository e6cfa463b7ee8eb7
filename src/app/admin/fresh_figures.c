/* fresh_figures.c - words of wikis, sweeps and what is made anew without a reader as metrics: a
 * line for each domain, for all behind DOMAINS_MAX of them one together, as "other". */
#include "app/admin/fresh.h"
#include "page/remake.h"
#include "page/sweep.h"

#include <string.h>

enum { DOMAINS_MAX = METRICS_SERIES_MAX - 1 };

struct figures {
    bool is_there;
    int64_t calls, words, failures, lagging, full, waiting, closed;
    int64_t rerenders_waiting, rerenders_made, rerenders_failed, rerenders_dropped;
    int64_t found, asked, titles, sweep_failures, age_s, late_s;
};
#define FIGURE(id, how, member)                                                                    \
    {                                                                                              \
        METRIC_##id, how, offsetof(struct figures, member)                                         \
    }
enum together { SUM, GREATEST };
static const struct figure {
    enum metric_id id;
    enum together how;
    size_t offset;
} rows[] = {
    FIGURE(CHECK_CALLS, SUM, calls),
    FIGURE(CHECK_WORDS, SUM, words),
    FIGURE(CHECK_FAILURES, SUM, failures),
    FIGURE(CHECK_LAGGING, SUM, lagging),
    FIGURE(CHECK_FULL, SUM, full),
    FIGURE(CHECK_WAITING, SUM, waiting),
    FIGURE(CHECK_CLOSED, SUM, closed),
    FIGURE(RERENDERS_WAITING, SUM, rerenders_waiting),
    FIGURE(RERENDERS_MADE, SUM, rerenders_made),
    FIGURE(RERENDERS_FAILED, SUM, rerenders_failed),
    FIGURE(RERENDERS_DROPPED, SUM, rerenders_dropped),
    FIGURE(SWEEP_FOUND, SUM, found),
    FIGURE(SWEEP_ASKED, SUM, asked),
    FIGURE(SWEEP_TITLES, SUM, titles),
    FIGURE(SWEEP_FAILURES, SUM, sweep_failures),
    FIGURE(SWEEP_AGE_SECONDS, GREATEST, age_s),
    FIGURE(SWEEP_LATE_SECONDS, GREATEST, late_s),
};
#undef FIGURE

static int64_t figure_get(const struct figures *f, const struct figure *row)
{
    int64_t value;
    memcpy(&value, (const char *)f + row->offset, sizeof value);
    return value;
}

static void figure_set(struct figures *f, const struct figure *row, int64_t value)
{
    memcpy((char *)f + row->offset, &value, sizeof value);
}

static struct figures figures_of(const struct page_service *s, const struct page_domain *d)
{
    struct check_figures checks;
    struct sweep_figures sweep;
    struct remake_figures remakes;
    page_checks_figures(s->checks, d, &checks);
    page_sweeps_figures(s->sweeps, d, &sweep);
    page_remakes_figures(s->remakes, d, &remakes);
    bool known = sweep.all_since.ns != INT64_MAX;
    int64_t now_ns = clock_store(s->clock).ns;
    return (struct figures){ .is_there = true,
                             .calls = (int64_t)checks.calls,
                             .words = (int64_t)checks.words,
                             .failures = (int64_t)checks.failures,
                             .lagging = (int64_t)checks.lagging,
                             .full = (int64_t)checks.full,
                             .waiting = (int64_t)checks.waiting,
                             .closed = checks.closed,
                             .rerenders_waiting = (int64_t)remakes.waiting,
                             .rerenders_made = (int64_t)remakes.made,
                             .rerenders_failed = (int64_t)remakes.failed,
                             .rerenders_dropped = (int64_t)remakes.dropped,
                             .found = (int64_t)sweep.found,
                             .asked = (int64_t)sweep.asked,
                             .titles = (int64_t)sweep.titles,
                             .sweep_failures = (int64_t)sweep.failures,
                             .age_s = known ? (now_ns - sweep.all_since.ns) / NS_PER_S : -1,
                             .late_s = sweep.late_ns / NS_PER_S };
}

static void figures_join(struct figures *all, const struct figures *one)
{
    for (unsigned i = 0; i < COUNT_OF(rows); i++) {
        int64_t a = figure_get(all, &rows[i]), b = figure_get(one, &rows[i]);
        figure_set(all, &rows[i], rows[i].how == SUM ? a + b : a > b ? a : b);
    }
    all->is_there = true;
}

/* -1: it is not known. */
static void put_line(const struct metrics *m, const struct figure *row, str domain,
                     const struct figures *f, struct buf *out)
{
    if (f->is_there && figure_get(f, row) >= 0)
        metrics_line(m, row->id, &domain, figure_get(f, row), out);
}

/* Lines of one metric stand together. */
void fresh_figures(const struct page_service *s, const struct metrics *m, struct buf *out)
{
    struct figures shown[DOMAINS_MAX], other = { .age_s = -1 };
    str names[DOMAINS_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < s->domains_count; i++) {
        const struct page_domain *d = &s->domains[i];
        if (d->origin == NULL || !origin_has_api(d->origin))
            continue;
        struct figures f = figures_of(s, d);
        if (count == DOMAINS_MAX) {
            figures_join(&other, &f);
            continue;
        }
        names[count] = d->name;
        shown[count++] = f;
    }
    for (unsigned i = 0; count > 0 && i < COUNT_OF(rows); i++) {
        metrics_head(m, rows[i].id, out);
        for (unsigned n = 0; n < count; n++)
            put_line(m, &rows[i], names[n], &shown[n], out);
        put_line(m, &rows[i], STR("other"), &other, out);
    }
}
