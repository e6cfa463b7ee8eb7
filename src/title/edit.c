/* edit.c - edits the rows of a title through its store, and keeps what a decision saw in line
 * (seen.h). For the steps.
 *
 * Invariant: t->seen says nothing that the rows do not say, also after an edit that failed. */
#include "title/edit.h"

void title_unsee(struct title *t)
{
    title_seen_init(t->seen);
}

/* Keeps the row that was seen last as it is written now. Where a new render belongs may have
 * changed with it, so that is forgotten. */
static void see_edited(struct title *t, const struct page_row *row)
{
    struct title_seen *s = t->seen;
    if (s->has_last && page_name_cmp(s->last.r.name, row->r.name) == 0 && &s->last != row)
        s->last = *row;
    s->placed = s->place.latest_known = s->place.has_same = false;
}

err title_insert(struct title *t, struct page_row *row, const struct page_row *replaced)
{
    err e = t->ops->insert(t, row, replaced);
    see_edited(t, row);
    return e;
}

err title_update(struct title *t, struct page_row *row)
{
    err e = t->ops->update(t, row);
    see_edited(t, row);
    return e;
}

/* A culled render leaves a trace as of its due_at (title_trace_of), a purged render a trace as of
 * now. */
err title_remove(struct title *t, const struct page_row *row, enum page_state state)
{
    struct page_trace_row trace;
    title_trace_of(t, row, &trace);
    if (state != PAGE_CULLED) {
        trace.trace.state = state;
        trace.trace.policy = t->plan->policy.kind;
        trace.trace.at = t->now;
        trace.forget_at = store_time_add(t->now, t->plan->policy.ledger_ttl_ns);
    }
    /* A trace past its forget_at is not written. */
    err e = t->ops->remove(t, row, state, title_trace_alive(t, &trace) ? &trace : NULL);
    title_unsee(t);
    return e;
}

err title_update_or_cull(struct title *t, struct page_row *row)
{
    return title_alive(t, row) ? title_update(t, row) : title_remove(t, row, PAGE_CULLED);
}
