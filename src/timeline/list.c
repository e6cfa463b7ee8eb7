/* list.c - pages of entries, by time or of a title. A page ends behind so many entries, or so many
 * rows: rows of the kind, or of an instant, that nobody asked for are looked at, too. */
#include "timeline/rows.h"

#include <string.h>

struct listing {
    struct timeline_listing *l;
    struct engine_cursor *rows;
    struct timeline_key last; /* that was looked at; n 0: none */
    unsigned looks, taken;
    bool full;
};

/* ---- where it begins ---- */

bool timeline_pivot_fits(const struct timeline_listing *l)
{
    struct timeline_where w;
    struct timeline_entry e;
    bool by_time;
    if (!timeline_key_parse(l->pivot, &by_time, &w, &e) || by_time == (l->title.n > 0))
        return false;
    if (l->has_domain && w.domain != l->domain)
        return false;
    return l->title.n == 0 ||
           (str_eq(w.title, l->title) && (l->kind < 0 || (int)w.kind == l->kind));
}

static void rows_open(struct listing *g, struct engine_view *v, str prefix)
{
    char end[TIMELINE_KEY_BYTES_MAX], from[TIMELINE_KEY_BYTES_MAX + 1];
    str pivot = g->l->pivot;
    struct engine_range range = { .space = SPACE_TIMELINE,
                                  .from = prefix,
                                  .until = engine_prefix_end(prefix, end) };
    if (pivot.n > 0 && str_cmp(pivot, prefix) >= 0) { /* behind it */
        memcpy(from, pivot.p, pivot.n);
        from[pivot.n] = 0;
        range.from = (str){ .p = from, .n = pivot.n + 1 };
    }
    g->rows = engine_cursor_open(v, &range);
}

/* ---- one row ---- */

static bool page_full(struct listing *g)
{
    g->full |= g->looks >= TIMELINE_LOOKS_MAX || g->taken >= g->l->limit;
    return g->full;
}

/* The next row, kept in last. */
static err row_next(struct listing *g, struct timeline_where *w, struct timeline_entry *e)
{
    struct engine_row row;
    bool by_time;
    err why = engine_cursor_next(g->rows, &row);
    if (why != ERR_OK)
        return why;
    if (row.key.n > sizeof g->last.p)
        return ERR_CORRUPT;
    memcpy(g->last.p, row.key.p, row.key.n);
    g->last.n = row.key.n;
    g->looks++;
    return timeline_key_parse(timeline_key_str(&g->last), &by_time, w, e) ? ERR_OK : ERR_CORRUPT;
}

static void row_take(struct listing *g, const struct timeline_where *w,
                     const struct timeline_entry *e)
{
    if (g->l->kind >= 0 && (int)w->kind != g->l->kind)
        return;
    g->taken++;
    g->full |= !g->l->take(g->l->ctx, w, e);
}

/* ---- lists ---- */

/* Domain after domain; each ends at the first entry that is too new. */
static err list_by_time(struct listing *g, struct engine_view *v)
{
    struct timeline_listing *l = g->l;
    struct timeline_key k;
    struct timeline_where w;
    struct timeline_entry e;
    static const char form[] = { TIMELINE_BY_TIME };
    timeline_key_domain(&k, TIMELINE_BY_TIME, l->domain);
    rows_open(g, v, l->has_domain ? timeline_key_str(&k) : (str){ .p = form, .n = sizeof form });
    err why = ERR_OK;
    while (!page_full(g) && (why = row_next(g, &w, &e)) == ERR_OK) {
        if (store_time_before(e.at, l->before)) {
            row_take(g, &w, &e);
            continue;
        }
        if (l->has_domain || w.domain == UINT32_MAX)
            return ERR_NOT_FOUND;
        timeline_key_domain(&k, TIMELINE_BY_TIME, w.domain + 1);
        engine_cursor_seek(g->rows, timeline_key_str(&k));
    }
    return why;
}

static err list_kind(struct listing *g, struct engine_view *v, enum timeline_kind kind)
{
    struct timeline_listing *l = g->l;
    struct timeline_where w = { .kind = kind, .domain = l->domain, .title = l->title };
    struct timeline_entry e;
    struct timeline_key k;
    err why = timeline_key_prefix(&k, &w);
    if (why != ERR_OK)
        return why;
    if (kind == TIMELINE_RENDER)
        k.n -= 8; /* of all revisions */
    rows_open(g, v, timeline_key_str(&k));
    if (l->pivot.n == 0 && kind == TIMELINE_REVISION) { /* nothing before this is old enough */
        timeline_key_tail(&k, &(struct timeline_entry){ .at = store_time_add(l->before, -1),
                                                        .rev = UINT64_MAX,
                                                        .tid = { UINT64_MAX, UINT64_MAX } });
        engine_cursor_seek(g->rows, timeline_key_str(&k));
    }
    while (!page_full(g) && (why = row_next(g, &w, &e)) == ERR_OK)
        if (store_time_before(e.at, l->before))
            row_take(g, &w, &e);
    return why;
}

static err list_title(struct listing *g, struct engine_view *v)
{
    const struct timeline_listing *l = g->l;
    bool from_renders = l->pivot.n > 0 && l->pivot.p[0] == TIMELINE_RENDER;
    err why = ERR_NOT_FOUND;
    if (l->kind != TIMELINE_RENDER && !from_renders)
        why = list_kind(g, v, TIMELINE_REVISION);
    if (why == ERR_NOT_FOUND && l->kind != TIMELINE_REVISION) {
        engine_cursor_close(&g->rows);
        why = list_kind(g, v, TIMELINE_RENDER);
    }
    return why;
}

err timeline_list(struct engine_view *v, struct timeline_listing *l)
{
    struct listing g = { .l = l };
    l->next_n = 0;
    INVARIANT(l->title.n == 0 || l->has_domain);
    INVARIANT(l->limit > 0);
    INVARIANT(l->limit <= TIMELINE_LIST_MAX);
    if (l->pivot.n > 0 && !timeline_pivot_fits(l))
        return ERR_BAD;
    err why = l->title.n > 0 ? list_title(&g, v) : list_by_time(&g, v);
    engine_cursor_close(&g.rows);
    if (why == ERR_OK && g.full) {
        memcpy(l->next, g.last.p, g.last.n);
        l->next_n = g.last.n;
    }
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}
