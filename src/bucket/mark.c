#include "bucket/mark.h"
#include "bucket/page_write.h"

enum { MARK_BATCH = 1024 };

static bool changes(const struct title_mark *m, const struct page_render *r)
{
    if (m->state == PAGE_CURRENT)
        return r->hidden != PAGE_CURRENT && !store_time_before(m->said_at, r->hidden_at);
    bool weaker = m->state == PAGE_DELETED && r->hidden == PAGE_SUPPRESSED;
    return r->hidden != m->state && !weaker && !store_time_before(m->said_at, r->stored_at);
}

/* The newest row at or below high that is alive and changes. */
static err next_row(const struct look *k, const struct title_mark *m, struct page_name high,
                    struct page_row *out)
{
    struct look_walk w;
    err e;
    look_walk_open(&w, k, m->low, high, false);
    do
        e = look_walk_alive(&w, out);
    while (e == ERR_OK && !changes(m, &out->r));
    look_walk_close(&w);
    return e;
}

static err change(struct title *t, const struct title_mark *m, struct page_row *row)
{
    const struct page_policy *policy = &t->look.bucket->plan.policy;
    row->r.hidden = m->state;
    row->r.hidden_at = m->state == PAGE_CURRENT ? STORE_TIME_ZERO : m->said_at;
    if (row->r.superseded_at.ns == STORE_TIME_NEVER.ns) {
        retention_supersede(policy, &row->r, (struct page_name){ .rev = row->r.name.rev + 1 },
                            t->look.now);
        if (!look_alive(&t->look, row)) /* a word that is taken back must find it */
            retention_extend(policy, &row->r, t->look.now);
    }
    return title_update(t, row);
}

/* After hiding: what is the newest now waits for the origin to say so. */
static err wait_for_origin(struct title *t)
{
    struct page_row row;
    err e = look_newest_shown(&t->look, page_name_first, page_name_last, &row);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if (row.r.superseded_at.ns == STORE_TIME_NEVER.ns || page_name_is_unmade(row.r.superseded_by))
        return ERR_OK;
    row.r.superseded_by.tid = (struct tid){ 0 };
    return title_update(t, &row);
}

/* After showing: what was the latest may have a greater one again. */
static err supersede(struct title *t, struct page_row *latest)
{
    struct page_row greater;
    struct page_name above = latest->r.name;
    if (above.tid.low++ == UINT64_MAX)
        above.tid.ticks++;
    err e = look_oldest_shown(&t->look, above, page_name_last, &greater);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    retention_supersede(&t->look.bucket->plan.policy, &latest->r, greater.r.name, t->look.now);
    return title_update(t, latest);
}

err title_mark_set(struct title *t, struct title_mark *m)
{
    struct page_row row, latest;
    struct page_name high = m->high;
    unsigned written = 0;
    m->changed = m->more = false;
    err e = look_newest_shown(&t->look, page_name_first, page_name_last, &latest);
    bool has_latest = e == ERR_OK && latest.r.superseded_at.ns == STORE_TIME_NEVER.ns;
    if (e == ERR_NOT_FOUND)
        e = ERR_OK;
    while (e == ERR_OK && written < MARK_BATCH &&
           (e = next_row(&t->look, m, high, &row)) == ERR_OK) {
        e = change(t, m, &row); /* a walk is not kept open over its own writes */
        high = row.r.name;
        written++;
    }
    m->more = e == ERR_OK;
    m->next = high;
    m->changed = written > 0;
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    if (!m->changed)
        return ERR_OK;
    if (m->state != PAGE_CURRENT)
        return wait_for_origin(t);
    return has_latest ? supersede(t, &latest) : ERR_OK;
}

bool page_wants_mark(struct page_bucket *b, struct engine_view *v, const struct page_order *mark)
{
    struct look k = { .bucket = b, .view = v, .now = clock_store(b->pages->clock) };
    struct title_mark m = { .low = page_name_low(mark->name.rev),
                            .state = mark->mark,
                            .said_at = mark->said_at };
    struct page_row row;
    MAGIC_CHECK(b, PAGE_BUCKET_MAGIC);
    page_key_title(&k.title, b->number, mark->domain, mark->title);
    err e = next_row(&k, &m, page_name_high(mark->rev_last), &row);
    return e != ERR_NOT_FOUND; /* what cannot be read is for the update to tell */
}
