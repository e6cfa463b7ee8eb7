/* edit.c - each edit of a title's rows: the store's own, and what a decision saw kept in line. */
#include "title/edit.h"

void title_unsee(struct title *t)
{
    title_seen_init(t->seen);
}

/* A row that was seen last is now so; where a new render belongs may have changed with it. */
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
    err e = t->ops->remove(t, row, state, title_trace_alive(t, &trace) ? &trace : NULL);
    title_unsee(t);
    return e;
}

err title_update_or_cull(struct title *t, struct page_row *row)
{
    return title_alive(t, row) ? title_update(t, row) : title_remove(t, row, PAGE_CULLED);
}
