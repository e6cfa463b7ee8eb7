/* step_mark.c - what the wiki says of revisions: renders are hidden, and shown again.
 *
 * Invariants:
 *   1 the latest word holds: a mark spares renders that the wiki was asked for after the mark, and
 *     showing spares what was hidden after that;
 *   2 where the clocks of several servers may put two askings in the wrong order, hiding wins;
 *   3 SUPPRESSED is stronger than DELETED; a render is hidden as of the latest mark that hides it,
 *     whichever of both;
 *   4 a hidden render is superseded, as a rule by a revision not made; so it is never the latest.
 */
#include "title/steps.h"

static enum page_state mark_state(const struct fact *mark)
{
    return mark->what == FACT_SHOWN        ? PAGE_CURRENT
           : mark->what == FACT_SUPPRESSED ? PAGE_SUPPRESSED
                                           : PAGE_DELETED;
}

/* Does the mark change this row? again: also when the row is hidden already, but the wiki was not
 * asked as late. */
static bool mark_changes(const struct title *t, const struct fact *mark, const struct page_row *row,
                         bool again)
{
    enum page_state state = mark_state(mark), is = row->r.hidden;
    if (state == PAGE_CURRENT)
        return is != PAGE_CURRENT &&
               !store_time_before(mark->said_at, title_said_until(t, row->r.hidden_at));
    /* The render was asked for surely after the mark. */
    if (store_time_before(title_said_until(t, mark->said_at), row->said_at))
        return false;
    if (again && is != PAGE_CURRENT && store_time_before(row->r.hidden_at, mark->said_at))
        return true;
    bool weaker = state == PAGE_DELETED && is == PAGE_SUPPRESSED;
    return is != state && !weaker;
}

/* The newest row at or below high that the mark changes. */
static err mark_find(const struct title *t, const struct fact *mark, struct page_name high,
                     bool again, struct page_row *out)
{
    struct title_walk w;
    err e;
    title_walk_open(&w, t, page_name_low(mark->name.rev), high, false);
    do
        e = title_walk_alive(&w, out);
    while (e == ERR_OK && !mark_changes(t, mark, out, again));
    title_walk_close(&w);
    return e;
}

/* For a decision: a hidden render that the wiki hides once more is no news. */
err mark_next(const struct title *t, const struct fact *mark, struct page_name high,
              struct page_row *out)
{
    return mark_find(t, mark, high, false, out);
}

/* Writes what the mark says of one row. A hidden latest gives up its place to a revision not made
 * yet. */
static err mark_change(struct title *t, const struct fact *mark, struct page_row *row)
{
    const struct page_policy *policy = &t->plan->policy;
    enum page_state state = mark_state(mark);
    /* DELETED does not replace SUPPRESSED. */
    if (state != PAGE_DELETED || row->r.hidden == PAGE_CURRENT)
        row->r.hidden = state;
    row->r.hidden_at =
        state == PAGE_CURRENT ? STORE_TIME_ZERO : store_time_max(row->r.hidden_at, mark->said_at);
    if (title_is_latest(&row->r)) {
        retention_supersede(policy, &row->r, (struct page_name){ .rev = row->r.name.rev + 1 },
                            t->now);
        if (!title_alive(t, row)) /* a word that is taken back must find it */
            retention_extend(policy, &row->r, t->now);
    }
    return title_update(t, row);
}

/* Greater renders were hidden. The newest shown render now waits until the wiki calls it the
 * latest: the wiki may have a newer revision. */
static err mark_wait_for_origin(struct title *t, struct page_name hidden)
{
    struct page_row row;
    err e = title_newest_shown(t, page_name_first, page_name_last, &row);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    bool was_newest = page_name_cmp(row.r.name, hidden) > 0;
    if (was_newest || title_is_latest(&row.r) || page_name_is_unmade(row.r.superseded_by))
        return ERR_OK;
    row.r.superseded_by.tid = (struct tid){ 0 };
    return title_update(t, &row);
}

/* Renders are shown again, so the render that was the latest may have a greater one above it. */
static err mark_supersede(struct title *t, struct page_row *latest)
{
    struct page_row greater;
    err e = title_oldest_shown(t, page_name_above(latest->r.name), page_name_last, &greater);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    retention_supersede(&t->plan->policy, &latest->r, greater.r.name, t->now);
    return title_update(t, latest);
}

err step_mark(struct title *t, const struct fact *f, struct title_part *part)
{
    enum { MARK_BATCH = 1024 };
    struct page_row row, latest;
    struct page_name high = part->resumed ? part->from : page_name_high(f->rev_last);
    struct page_name greatest = page_name_first;
    unsigned written = 0;
    /* The decision's note of this fact is used up. */
    t->seen->shows = false;
    err e = title_newest_shown(t, page_name_first, page_name_last, &latest);
    bool has_latest = e == ERR_OK && title_is_latest(&latest.r);
    if (e == ERR_NOT_FOUND)
        e = ERR_OK;
    while (e == ERR_OK && written < MARK_BATCH &&
           (e = mark_find(t, f, high, true, &row)) == ERR_OK) {
        /* The greatest that was shown until now. */
        if (row.r.hidden == PAGE_CURRENT && page_name_cmp(row.r.name, greatest) > 0)
            greatest = row.r.name;
        e = mark_change(t, f, &row); /* row by row, since a walk is not kept open over writes */
        high = page_name_below(row.r.name);
        written++;
    }
    part->more = e == ERR_OK;
    part->next = high;
    part->changed = written > 0;
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    /* Remembered once, behind the last part, for renders that are put later. */
    e = part->more ? ERR_OK : t->ops->heard(t, f);
    if (e != ERR_OK || !part->changed)
        return e;
    if (f->what != FACT_SHOWN)
        return greatest.rev == 0 ? ERR_OK : mark_wait_for_origin(t, greatest);
    return has_latest ? mark_supersede(t, &latest) : ERR_OK;
}
