/* place.c - finds the place of a render that is put (place.h). Greater than all that are shown, the
 * render is the latest. Otherwise its arrival is also the instant at which the next greater
 * neighbour, or a revision made elsewhere, supersedes it.
 *
 * Renders looked at: the greatest shown, the next greater one, and at most `count` of the group. So
 * the cost does not grow with history.
 * Invariant: no row is written here; step_put.c does what t->seen->place says. */
#include "title/place.h"

#include <string.h>

/* The row as the put says it, before its place is known. */
static void row_of_put(struct title *t, const struct fact *f, struct page_row *row)
{
    *row = (struct page_row){ .said_at = f->said_at };
    row->r.name = f->name;
    row->r.stored_at = t->now;
    row->r.stash_until = f->stash_until;
    row->r.requested_until = f->until;
    row->r.made = f->made;
    row->r.contents_count = f->contents_count;
    if (f->contents_count > 0)
        memcpy(row->r.contents, f->contents, f->contents_count * sizeof(f->contents[0]));
    memcpy(row->digest, f->digest, PAGE_DIGEST_BYTES);
    memcpy(row->plain_digest, f->plain_digest, PAGE_DIGEST_BYTES);
}

/* Mostly a decision has seen the latest already. */
static err see_latest(struct title *t, struct title_place *p)
{
    if (p->latest_known)
        return ERR_OK;
    err e = title_newest_shown(t, page_name_first, page_name_last, &p->latest);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    p->has_latest = e == ERR_OK;
    p->latest_known = true;
    return ERR_OK;
}

/* Sets superseded_at and superseded_by. `unmade` is the revision, not made yet, by which the render
 * is superseded though it is the greatest. */
static err place_among_all(struct title *t, const struct fact *f, struct title_place *p)
{
    const struct page_policy *policy = &t->plan->policy;
    struct page_row greater;
    err e = see_latest(t, p);
    if (e != ERR_OK)
        return e;
    retention_make_latest(policy, &p->row.r);
    p->greatest = !p->has_latest || page_name_cmp(f->name, p->latest.r.name) > 0;
    uint64_t unmade = f->behind > f->name.rev ? f->behind : 0;
    /* A hidden render is never the latest: it waits for a greater revision. */
    if (unmade == 0 && p->row.r.hidden != PAGE_CURRENT)
        unmade = f->name.rev + 1;
    if (p->greatest) {
        if (unmade > 0)
            retention_supersede(policy, &p->row.r, (struct page_name){ .rev = unmade }, t->now);
        return ERR_OK;
    }
    /* Its own name is not there, or gone. */
    e = title_oldest_shown(t, f->name, page_name_last, &greater);
    if (e == ERR_OK)
        retention_supersede(policy, &p->row.r, greater.r.name, t->now);
    /* There is a greater render, since place.latest is one: the store contradicts itself. */
    return e == ERR_NOT_FOUND ? ERR_CORRUPT : e;
}

/* Grouped policies: is the new render among the newest `count` of its group, and which render does
 * it push out? */
static err place_in_group(struct title *t, struct title_place *p)
{
    const struct page_policy *policy = &t->plan->policy;
    struct page_name low, high;
    struct title_walk w;
    bool placed = false;
    uint32_t rank = 0;
    err e = ERR_OK;
    retention_group(policy, p->row.r.name, &low, &high);
    title_walk_open(&w, t, low, high, false);
    while (e == ERR_OK) {
        e = title_walk_alive(&w, &p->faller);
        if (e == ERR_NOT_FOUND)
            break;
        /* The new render stands here in the order, and takes a rank. */
        if (!placed && rank < policy->count && page_name_cmp(p->faller.r.name, p->row.r.name) < 0) {
            placed = true;
            rank++;
        }
        if (rank == policy->count)
            break;
        rank++;
    }
    title_walk_close(&w);
    /* The render behind the newest `count` falls out, unless it fell out before. */
    p->has_faller = e == ERR_OK && placed && p->faller.r.out_at.ns == INT64_MAX;
    /* The group ended: there is room for all. */
    if (e == ERR_NOT_FOUND)
        placed = rank < policy->count || placed;
    if (!placed)
        retention_drop(policy, &p->row.r, t->now);
    if (p->has_faller)
        retention_drop(policy, &p->faller.r, t->now);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

err title_place(struct title *t, const struct fact *put, enum page_state hidden,
                store_time hidden_at)
{
    const struct page_policy *policy = &t->plan->policy;
    struct title_place *p = &t->seen->place;
    row_of_put(t, put, &p->row);
    p->row.r.hidden = hidden;
    p->row.r.hidden_at = hidden == PAGE_CURRENT ? STORE_TIME_ZERO : hidden_at;
    p->has_faller = false;
    err e = place_among_all(t, put, p);
    if (e == ERR_OK && retention_grouped(policy))
        e = place_in_group(t, p);
    if (e != ERR_OK)
        return e;
    p->row.r.due_at = retention_due(policy, &p->row.r);
    /* A hidden render that is due at once would be gone before the wiki can take its word back. */
    if (hidden != PAGE_CURRENT && !title_alive(t, &p->row))
        retention_extend(policy, &p->row.r, t->now);
    t->seen->placed = true;
    return ERR_OK;
}
