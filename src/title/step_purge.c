/* step_purge.c - removes renders by order, oldest first, so that the latest stays until the last
 * part.
 *
 * Invariant: the fence is set in the first part. So each later put is refused or spared. */
#include "title/steps.h"

enum { PURGE_BATCH = 2048 }; /* a render purged writes up to 6 rows */

/* One part of a purge. */
struct purge {
    struct title *t;
    const struct fact *fact;
    struct title_part *part;
    struct page_name low, high, next; /* next: where to go on */
    unsigned looked;                  /* names, also of rows that were spared */
    bool took_latest, at_end;
};

/* In a later part: was this render put after the purge? A put of the same instant counts as before.
 */
static bool purge_spares(const struct purge *p, const struct page_row *row)
{
    return p->part->resumed && store_time_before(p->fact->at, row->r.stored_at);
}

/* A damaged row goes, too: else no order could take it away. */
static err purge_one(struct purge *p, struct page_name name)
{
    struct page_row row;
    err e = title_get(p->t, name, &row);
    if (e == ERR_CORRUPT) {
        p->took_latest = true; /* it may have been */
        p->part->purged++;
        title_unsee(p->t);
        return p->t->ops->drop(p->t, name);
    }
    if (e != ERR_OK || purge_spares(p, &row))
        return e;
    /* Past due: policy took it, and the purge does not count it. */
    if (!title_alive(p->t, &row))
        return title_remove(p->t, &row, PAGE_CULLED);
    p->took_latest |= title_is_latest(&row.r);
    p->part->purged++;
    return title_remove(p->t, &row, PAGE_PURGED);
}

/* Takes names first and removes then: a walk is not kept open over writes. */
static err purge_chunk(struct purge *p)
{
    struct title_names chunk;
    err e = p->t->ops->names(p->t, p->next, p->high, &chunk);
    if (e != ERR_OK)
        return e;
    p->at_end = chunk.count < TITLE_NAMES_MAX;
    for (unsigned i = 0; i < chunk.count && e == ERR_OK; i++)
        e = purge_one(p, chunk.names[i]);
    p->looked += chunk.count;
    if (chunk.count > 0) {
        p->next = chunk.names[chunk.count - 1];
        p->at_end |= page_name_cmp(p->next, p->high) >= 0;
        if (!p->at_end)
            p->next = page_name_above(p->next);
    }
    return e;
}

/* The latest was taken. The next render is the latest again; or, with ELSEWHERE, waits for the
 * revision that is made elsewhere. */
static err purge_promote(struct purge *p)
{
    struct page_row row;
    err e = title_newest_shown(p->t, page_name_first, page_name_last, &row);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if (title_is_latest(&row.r))
        return ERR_OK;
    if (p->fact->what == FACT_PURGE_ELSEWHERE)
        row.r.superseded_by.tid = (struct tid){ 0 };
    else
        retention_make_latest(&p->t->plan->policy, &row.r);
    return title_update(p->t, &row);
}

err step_refill(struct title *t, struct page_name gone)
{
    const struct page_policy *policy = &t->plan->policy;
    struct page_name low, high;
    struct page_row row;
    struct title_walk w;
    err e = ERR_OK;
    bool found = false;
    if (!retention_grouped(policy))
        return ERR_OK;
    retention_group(policy, gone, &low, &high);
    title_walk_open(&w, t, low, high, false);
    /* Of the newest `count` that are left one may have fallen out before: it comes back. */
    for (uint32_t rank = 0; rank < policy->count && !found && e == ERR_OK; rank++) {
        e = title_walk_alive(&w, &row);
        found = e == ERR_OK && row.r.out_at.ns != INT64_MAX;
    }
    title_walk_close(&w);
    if (found) {
        retention_keep(policy, &row.r);
        e = title_update(t, &row);
    }
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

err step_purge(struct title *t, const struct fact *f, struct title_part *part)
{
    struct purge p = { .t = t, .fact = f, .part = part };
    title_range(f->name, &p.low, &p.high);
    p.next = part->resumed ? part->from : p.low;
    bool exact = page_name_cmp(p.low, p.high) == 0;
    err e = part->resumed ? ERR_OK : t->ops->fence_set(t, f->name, f->at);
    while (e == ERR_OK && !p.at_end && p.looked < PURGE_BATCH)
        e = purge_chunk(&p);
    /* A purge of one render frees one place of a group; a purge of more leaves whole groups empty.
     */
    if (e == ERR_OK && exact && part->purged > 0)
        e = step_refill(t, f->name);
    if (e == ERR_OK && p.took_latest)
        e = purge_promote(&p);
    part->more = !p.at_end;
    part->changed = part->purged > 0;
    part->next = p.next;
    return e;
}
