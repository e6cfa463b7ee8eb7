/* place.c - a render takes its sorted place: greater than all that are shown, it is the latest;
 * else it is superseded at its arrival, by its next greater neighbour or by a revision made
 * elsewhere.
 *
 * Looks at the greatest render that is shown, at the next greater one, and at most at `count`
 * renders of the group: nothing grows with history. */
#include "title/place.h"

#include <string.h>

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
    return e == ERR_NOT_FOUND ? ERR_CORRUPT : e;
}

/* Grouped policies: is the new render among the newest `count` of its group, and which one does it
 * push out? */
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
        if (!placed && rank < policy->count && page_name_cmp(p->faller.r.name, p->row.r.name) < 0) {
            placed = true;
            rank++;
        }
        if (rank == policy->count)
            break;
        rank++;
    }
    title_walk_close(&w);
    p->has_faller = e == ERR_OK && placed && p->faller.r.out_at.ns == INT64_MAX;
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
    /* A word that is taken back must find it. */
    if (hidden != PAGE_CURRENT && !title_alive(t, &p->row))
        retention_extend(policy, &p->row.r, t->now);
    t->seen->placed = true;
    return ERR_OK;
}
