/* step.c - edits rows by one fact (step.h). Facts of one render are stepped here, facts of many
 * renders in step_*.c.
 *
 * Invariant: a fact of a render that is missing, or past due, leaves the rows as they are, with
 * ERR_OK: a fold meets such facts. */
#include "title/step.h"

#include "title/steps.h"

/* ---- pins ---- */

/* The render that a fact is of, while it is alive. ERR_NOT_FOUND: the fact says nothing any longer.
 */
static err step_find(const struct title *t, const struct fact *f, struct page_row *row)
{
    err e = title_get(t, f->name, row);
    return e == ERR_OK && !title_alive(t, row) ? ERR_NOT_FOUND : e;
}

/* Writes a row whose pins changed. It stays until at_least, whatever its pins say now. */
static err write_pin(struct title *t, struct page_row *row, store_time at_least,
                     struct title_part *part)
{
    retention_repin(&t->plan->policy, &row->r, at_least);
    part->changed = true;
    return title_update(t, row);
}

/* The end of a stash or hold: another server may be pinning the render that does not see the end
 * yet. */
static err write_unpinned(struct title *t, struct page_row *row, struct title_part *part)
{
    return write_pin(t, row, store_time_add(t->now, t->linger_ns), part);
}

/* The longest request and stash counts, and the last hold: a hold is an order, which may be
 * shortened. */
static err step_pin(struct title *t, const struct fact *f, struct title_part *part)
{
    struct page_row row;
    err e = step_find(t, f, &row);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if (f->what == FACT_REQUEST)
        row.r.requested_until = store_time_max(row.r.requested_until, f->until);
    else if (f->what == FACT_STASH)
        row.r.stash_until = store_time_max(row.r.stash_until, f->until);
    else
        row.r.hold_until = f->until;
    return write_pin(t, &row, t->now, part);
}

/* The last making counts, by the wiki's clock. */
static err step_made(struct title *t, const struct fact *f, struct title_part *part)
{
    struct page_row row;
    err e = step_find(t, f, &row);
    if (e != ERR_OK || !title_under_later(f->made, row.r.made))
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    row.r.made = f->made;
    part->changed = true;
    return title_update(t, &row);
}

/* DROP takes the render with its stash; its place in the group is free again. */
static err step_unstash(struct title *t, const struct fact *f, struct title_part *part)
{
    struct page_row row;
    err e = step_find(t, f, &row);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if (f->what == FACT_DROP) {
        part->changed = true;
        part->purged++;
        e = title_remove(t, &row, PAGE_PURGED);
        return e == ERR_OK ? step_refill(t, f->name) : e;
    }
    row.r.stash_until = STORE_TIME_ZERO;
    return write_unpinned(t, &row, part);
}

/* The newest render at or below high that is held. */
static err next_held(const struct title *t, struct page_name low, struct page_name high,
                     struct page_row *out)
{
    struct title_walk w;
    err e;
    title_walk_open(&w, t, low, high, false);
    do
        e = title_walk_alive(&w, out);
    while (e == ERR_OK && out->r.hold_until.ns == 0);
    title_walk_close(&w);
    return e;
}

/* Ends the holds of one render, or of a revision in parts. */
static err step_release(struct title *t, const struct fact *f, struct title_part *part)
{
    enum { RELEASE_BATCH = 1024 };
    struct page_name low, high;
    struct page_row row;
    title_range(f->name, &low, &high);
    if (part->resumed)
        high = part->from;
    for (unsigned ended = 0; ended < RELEASE_BATCH; ended++) {
        bool exact = !page_name_is_unmade(f->name);
        err e = exact ? step_find(t, f, &row) : next_held(t, low, high, &row);
        if (e != ERR_OK || row.r.hold_until.ns == 0)
            return e == ERR_NOT_FOUND ? ERR_OK : e;
        row.r.hold_until = STORE_TIME_ZERO;
        e = write_unpinned(t, &row, part);
        if (e != ERR_OK)
            return e;
        high = page_name_below(row.r.name);
    }
    part->more = true;
    part->next = high;
    return ERR_OK;
}

/* ---- the wiki's latest revision ---- */

/* The latest is superseded when the wiki has a greater revision. A render that waited becomes the
 * latest when the wiki names its revision. */
static err step_word(struct title *t, const struct fact *f, struct title_part *part)
{
    struct page_row row;
    bool waits = false;
    err e = title_newest_shown(t, page_name_first, page_name_last, &row);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    bool latest = title_is_latest(&row.r);
    if (!latest && f->name.rev == row.r.name.rev)
        e = title_waits(t, &row.r, &waits);
    if (latest && f->name.rev > row.r.name.rev)
        retention_supersede(&t->plan->policy, &row.r, f->name, t->now);
    else if (waits)
        retention_make_latest(&t->plan->policy, &row.r);
    else
        return e;
    part->changed = true;
    return e == ERR_OK ? title_update(t, &row) : e;
}

/* ---- names and kinds ---- */

void title_range(struct page_name of, struct page_name *low, struct page_name *high)
{
    *low = of.rev == 0 ? page_name_first : of;
    *high = of.rev == 0 ? page_name_last : page_name_is_unmade(of) ? page_name_high(of.rev) : of;
}

err title_step(struct title *t, const struct fact *f, struct title_part *part)
{
    INVARIANT(t->seen != NULL);
    /* From here on the title is as of the fact's arrival. */
    t->now = fact_arrived(f);
    part->more = part->changed = part->ignored = false;
    part->purged = 0;
    switch (f->what) {
    case FACT_WORD:
        return step_word(t, f, part);
    case FACT_SHOWN:
    case FACT_SUPPRESSED:
    case FACT_DELETED:
        return step_mark(t, f, part);
    case FACT_PURGE:
    case FACT_PURGE_ELSEWHERE:
        return step_purge(t, f, part);
    case FACT_FENCE:
        return t->ops->fence_set(t, f->name, f->at);
    case FACT_PUT:
        return step_put(t, f, part);
    case FACT_REQUEST:
    case FACT_STASH:
    case FACT_HOLD:
        return step_pin(t, f, part);
    case FACT_UNSTASH:
    case FACT_DROP:
        return step_unstash(t, f, part);
    case FACT_RELEASE:
        return step_release(t, f, part);
    case FACT_MADE:
        return step_made(t, f, part);
    case FACT_FORGOTTEN: /* for stores that keep facts: the fold leaves forgotten puts out */
        return ERR_OK;
    case FACT_WHATS:
        break;
    }
    INVARIANT(false);
    return ERR_BAD;
}
