/* step_put.c - a render is put. It may supersede the latest, and push another render out of a
 * group.
 *
 * A decision has judged the put against the rows there are, and left its place in t->seen. A fold
 * also meets puts that its own decision would refuse. A purge covers them, a word hides them, the
 * name is taken, or the policy lets them go.
 * Invariant: rows are written after all was looked at; a put of a name that is alive changes
 * nothing. */
#include "title/place.h"
#include "title/steps.h"

#include <string.h>

/* The put is gone as it comes, and leaves a trace alone. A gone row of its name goes without a
 * trace of its own. */
static err put_leave_trace(struct title *t, const struct fact *f, enum page_state state,
                           store_time superseded_at, struct page_name superseded_by)
{
    const struct page_row same = t->seen->place.same;
    const struct page_policy *policy = &t->plan->policy;
    const struct page_trace_row trace = {
        .trace = { .name = f->name,
                   .state = state,
                   .at = t->now,
                   .policy = policy->kind,
                   .superseded_at = superseded_at,
                   .superseded_by = superseded_by },
        .stored_at = t->now,
        .forget_at = store_time_add(t->now, policy->ledger_ttl_ns),
    };
    err e = t->seen->place.has_same ? title_remove(t, &same, PAGE_CULLED) : ERR_OK;
    title_unsee(t);
    return e == ERR_OK ? t->ops->leave(t, &trace) : e;
}

/* Judges a put that no decision has placed. *over: the name is stored already, or a purge covers
 * it. ERR_OK without over: t->seen->place is filled. */
static err put_again(struct title *t, const struct fact *f, bool *over, struct title_part *part)
{
    struct title_place *p = &t->seen->place;
    enum page_state hidden;
    store_time at;
    bool fenced;
    err e = t->ops->get(t, f->name, &p->same);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    p->has_same = e == ERR_OK;
    /* Of several puts of one name the first counts, for as long as its render is there. */
    *over = part->ignored = p->has_same && title_alive(t, &p->same);
    if (*over)
        return ERR_OK;
    e = t->ops->fence(t, f->name.rev, &f->name.tid, &fenced, &at);
    if (e != ERR_OK)
        return e;
    *over = fenced && !store_time_before(at, tid_time(f->name.tid));
    if (*over)
        return put_leave_trace(t, f, PAGE_PURGED, STORE_TIME_NEVER, (struct page_name){ 0 });
    /* Hidden renders are stored: a later word may show them. */
    e = t->ops->silenced(t, f->name.rev, f->said_at, &hidden, &at);
    return e == ERR_OK ? title_place(t, f, hidden, at) : e;
}

/* Writes the put and whom it touches: the latest that is superseded, and the render that falls out
 * of the group. */
static err put_apply(struct title *t, struct title_place *p)
{
    bool supersedes = p->greatest && p->row.r.hidden == PAGE_CURRENT && p->has_latest &&
                      title_is_latest(&p->latest.r);
    /* The render that falls out may be the superseded latest: then one row is written with both
     * changes. */
    bool one =
        supersedes && p->has_faller && page_name_cmp(p->faller.r.name, p->latest.r.name) == 0;
    const struct page_row *replaced = p->has_same ? &p->same : NULL;
    err e = ERR_OK;
    if (one)
        p->latest.r.out_at = p->faller.r.out_at;
    if (supersedes) {
        retention_supersede(&t->plan->policy, &p->latest.r, p->row.r.name, t->now);
        e = title_update_or_cull(t, &p->latest);
    }
    if (e == ERR_OK && p->has_faller && !one)
        e = title_update_or_cull(t, &p->faller);
    return e == ERR_OK ? title_insert(t, &p->row, replaced) : e;
}

err step_put(struct title *t, const struct fact *f, struct title_part *part)
{
    struct title_place *p = &t->seen->place;
    bool over = false;
    /* No decision of this put has left its place: a fold, or a store that steps alone. */
    if (!t->seen->placed || page_name_cmp(p->row.r.name, f->name) != 0) {
        err e = put_again(t, f, &over, part);
        if (e != ERR_OK || over)
            return e;
    }
    part->changed = true;
    /* By its policy the render may be gone as it comes. */
    if (title_alive(t, &p->row))
        return put_apply(t, p);
    return put_leave_trace(t, f, PAGE_CULLED, p->row.r.superseded_at, p->row.r.superseded_by);
}
