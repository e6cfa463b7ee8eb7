/* title.c - looks at the rows of a title, whichever store keeps them (title.h). All that reads or
 * decides goes through here.
 *
 * Invariant: rows that a decision saw (seen.h) are given instead of the store's, and say the same.
 */
#include "title/title.h"

#include "title/seen.h"

err title_get(const struct title *t, struct page_name name, struct page_row *out)
{
    const struct title_seen *s = t->seen;
    if (s == NULL || !s->has_last || page_name_cmp(s->last.r.name, name) != 0)
        return t->ops->get(t, name, out);
    *out = s->last;
    return ERR_OK;
}

void title_walk_open(struct title_walk *w, const struct title *t, struct page_name low,
                     struct page_name high, bool rising)
{
    *w = (struct title_walk){ .title = t, .low = low, .high = high, .rising = rising };
    t->ops->walk_open(w);
}

err title_walk_next(struct title_walk *w, struct page_row *out)
{
    return w->title->ops->walk_next(w, out);
}

/* Rows past due count as gone, whether or not a cull came by. */
err title_walk_alive(struct title_walk *w, struct page_row *out)
{
    for (;;) {
        err e = title_walk_next(w, out);
        if (e != ERR_OK || title_alive(w->title, out))
            return e;
    }
}

void title_walk_close(struct title_walk *w)
{
    w->title->ops->walk_close(w);
}

err title_newest_alive(const struct title *t, struct page_name low, struct page_name high,
                       struct page_row *out)
{
    struct title_walk w;
    title_walk_open(&w, t, low, high, false);
    err e = title_walk_alive(&w, out);
    title_walk_close(&w);
    return e;
}

/* The first row in that direction that is alive and not hidden. */
static err first_shown(const struct title *t, struct page_name low, struct page_name high,
                       bool rising, struct page_row *out)
{
    struct title_walk w;
    title_walk_open(&w, t, low, high, rising);
    err e;
    do
        e = title_walk_alive(&w, out);
    while (e == ERR_OK && !title_is_shown(t, out));
    title_walk_close(&w);
    return e;
}

err title_newest_shown(const struct title *t, struct page_name low, struct page_name high,
                       struct page_row *out)
{
    return first_shown(t, low, high, false, out);
}

err title_oldest_shown(const struct title *t, struct page_name low, struct page_name high,
                       struct page_row *out)
{
    return first_shown(t, low, high, true, out);
}

/* A render that is superseded by a hidden one may be the latest when that one is gone or stays
 * hidden. */
err title_waits(const struct title *t, const struct page_render *r, bool *waits)
{
    struct page_row by;
    *waits = page_name_is_unmade(r->superseded_by);
    if (*waits || title_is_latest(r))
        return ERR_OK;
    err e = title_get(t, r->superseded_by, &by);
    *waits = e == ERR_OK && title_alive(t, &by) && !title_is_shown(t, &by);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* ---- traces ---- */

/* Its death is dated from due_at, and not from the cull: upkeep may come late. */
void title_trace_of(const struct title *t, const struct page_row *gone, struct page_trace_row *out)
{
    *out = (struct page_trace_row){
        .trace = { .name = gone->r.name,
                   .state = PAGE_CULLED,
                   .at = gone->r.due_at,
                   .policy = gone->policy,
                   .superseded_at = gone->r.superseded_at,
                   .superseded_by = gone->r.superseded_by },
        .stored_at = gone->r.stored_at,
        .forget_at = store_time_add(gone->r.due_at, t->plan->policy.ledger_ttl_ns),
    };
}

void title_traces_open(struct title_trace_walk *w, const struct title *t, struct page_name low,
                       struct page_name high, bool rising)
{
    w->title = t;
    w->low = low;
    w->high = high;
    w->rising = rising;
    t->ops->traces_open(w);
}

err title_traces_next(struct title_trace_walk *w, struct page_trace_row *out)
{
    return w->title->ops->traces_next(w, out);
}

err title_traces_alive(struct title_trace_walk *w, struct page_trace_row *out)
{
    for (;;) {
        err e = title_traces_next(w, out);
        if (e != ERR_OK || title_trace_alive(w->title, out))
            return e;
    }
}

void title_traces_close(struct title_trace_walk *w)
{
    w->title->ops->traces_close(w);
}

/* Ticks alone: a tid of the same tick with another low part would not be surely greater. */
err title_next_ticks(const struct title *t, uint64_t rev, uint64_t *ticks)
{
    struct page_name name;
    err e = t->ops->greatest_known(t, page_name_low(rev), page_name_high(rev), &name);
    if (e == ERR_OK && name.tid.ticks >= *ticks)
        *ticks = name.tid.ticks + 1;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}
