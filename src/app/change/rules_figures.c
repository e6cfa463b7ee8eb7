/* rules_figures.c - what rules have to do and did, as metrics: a line for each rule, at most
 * RULE_RULES_MAX and those that were taken out, and for the first TARGETS_SHOWN targets.
 *   All is read anew for each look. Counts begin with the server. */
#include "app/change/rules_figures.h"

#include "change/change.h"

#include <stddef.h>
#include <string.h>

enum { TARGETS_SHOWN = 255, FIGURES_BYTES_MAX = 8 << 20 };

struct rule_figure {
    enum metric_id id;
    const char *label; /* the second one; NULL: it has none */
    size_t offset;     /* of a uint64_t in struct change_rule_status */
};
#define FIGURE(id, label, member)                                                                  \
    {                                                                                              \
        METRIC_##id, label, offsetof(struct change_rule_status, member)                            \
    }
static const struct rule_figure figures[] = {
    FIGURE(RULE_ITEMS, "running", running),
    FIGURE(RULE_ITEMS, "ready", counts[CHANGE_READY]),
    FIGURE(RULE_ITEMS, "waiting", counts[CHANGE_WAITING]),
    FIGURE(RULE_ITEMS, "scheduled", counts[CHANGE_SCHEDULED]),
    FIGURE(RULE_ITEMS, "dead", counts[CHANGE_DEAD]),
    FIGURE(RULE_EVENTS, "matched", matched),
    FIGURE(RULE_EVENTS, "collapsed", collapsed),
    FIGURE(RULE_EVENTS, "refused", refused),
    FIGURE(RULE_EVENTS, "looped", looped),
    FIGURE(RULE_EVENTS, "sampled", sampled),
    FIGURE(RULE_OUTCOMES, "done", done),
    FIGURE(RULE_OUTCOMES, "ignored", ignored),
    FIGURE(RULE_OUTCOMES, "failed", failed),
    FIGURE(RULE_OUTCOMES, "died", died),
    FIGURE(RULE_OUTCOMES, "dropped", dropped),
    FIGURE(RULE_OUTCOMES, "expired", expired),
};
#undef FIGURE

static int64_t figure_get(const struct change_rule_status *r, const struct rule_figure *f)
{
    uint64_t value;
    memcpy(&value, (const char *)r + f->offset, sizeof value);
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

/* What runs is ready, too. */
static int64_t figure_of(const struct change_rule_status *r, const struct rule_figure *f)
{
    int64_t n = figure_get(r, f);
    bool is_ready = f->id == METRIC_RULE_ITEMS && str_eq(str_of(f->label), STR("ready"));
    int64_t running = (int64_t)r->running;
    return is_ready ? (n > running ? n - running : 0) : n;
}

static void put_figures(const struct change_status *s, const struct metrics *m, struct buf *out)
{
    for (size_t i = 0; i < COUNT_OF(figures); i++) {
        if (i == 0 || figures[i].id != figures[i - 1].id)
            metrics_head(m, figures[i].id, out);
        for (unsigned n = 0; n < s->rules_count; n++) {
            const str labels[] = { s->rules[n].name, str_of(figures[i].label) };
            metrics_line(m, figures[i].id, labels, figure_of(&s->rules[n], &figures[i]), out);
        }
    }
}

static void put_state(const struct change_status *s, const struct metrics *m, store_time now,
                      struct buf *out)
{
    metrics_head(m, METRIC_RULE_PAUSED, out);
    for (unsigned n = 0; n < s->rules_count; n++)
        metrics_line(m, METRIC_RULE_PAUSED, &s->rules[n].name, s->rules[n].paused, out);
    metrics_head(m, METRIC_RULE_OLDEST_SECONDS, out);
    for (unsigned n = 0; n < s->rules_count; n++) {
        const struct change_rule_status *r = &s->rules[n];
        int64_t ns = r->oldest.ns < now.ns ? now.ns - r->oldest.ns : 0; /* NEVER: there is none */
        metrics_line(m, METRIC_RULE_OLDEST_SECONDS, &r->name, ns / NS_PER_S, out);
    }
}

/* now: behind the status. A pause that is over ends with the next call, which may come late. */
static bool is_closed(const struct change_target_status *t, store_time now)
{
    return t->drained || store_time_before(now, t->paused_until);
}

static void put_targets(const struct change_status *s, const struct metrics *m, store_time now,
                        struct buf *out)
{
    unsigned count = s->targets_count < TARGETS_SHOWN ? s->targets_count : TARGETS_SHOWN;
    metrics_head(m, METRIC_TARGET_FAILURES, out);
    for (unsigned i = 0; i < count; i++)
        metrics_line(m, METRIC_TARGET_FAILURES, &s->targets[i].name, (int64_t)s->targets[i].failed,
                     out);
    metrics_head(m, METRIC_TARGET_CLOSED, out);
    for (unsigned i = 0; i < count; i++) {
        const struct change_target_status *t = &s->targets[i];
        metrics_line(m, METRIC_TARGET_CLOSED, &t->name, is_closed(t, now), out);
    }
}

void rules_figures(struct change *c, struct clock *clock, const struct metrics *m, struct buf *out)
{
    struct arena a;
    struct change_status s;
    arena_init(&a, FIGURES_BYTES_MAX);
    err why = change_status_get(c, &a, &s);
    metrics_head(m, METRIC_RULES_UNTOLD, out);
    metrics_line(m, METRIC_RULES_UNTOLD, NULL, why != ERR_OK, out);
    if (why == ERR_OK) {
        metrics_head(m, METRIC_ROUTER_BEHIND, out);
        metrics_line(m, METRIC_ROUTER_BEHIND, NULL, (int64_t)s.behind, out);
        metrics_head(m, METRIC_ROUTER_MISSED, out);
        metrics_line(m, METRIC_ROUTER_MISSED, NULL, (int64_t)s.missed, out);
        put_figures(&s, m, out);
        store_time now = clock_store(clock);
        put_state(&s, m, now, out);
        put_targets(&s, m, now, out);
    }
    arena_fini(&a);
}
