/* timeline_list.c - pages of the timeline that a rule keeps in the store, with names for numbers.
 */
#include "change/superseded.h"

#include "change/change_impl.h"
#include "codec/base64.h"
#include "page/page.h"

struct listing {
    const struct page_service *page;
    struct arena *arena;
    struct change_timeline *out;
    bool full; /* the arena is */
};

static str domain_name(const struct page_service *page, uint32_t number)
{
    for (unsigned i = 0; i < page->domains_count; i++)
        if (page->domains[i].number == number)
            return page->domains[i].name;
    return STR("");
}

static bool entry_take(void *ctx, const struct timeline_where *w, const struct timeline_entry *e)
{
    struct listing *g = ctx;
    struct change_superseded *one = &g->out->entries[g->out->count];
    char tid[TID_TEXT_BYTES + 1];
    tid_format(e->tid, tid);
    *one = (struct change_superseded){
        .at = e->at,
        .domain = domain_name(g->page, w->domain),
        .title = arena_copy(g->arena, w->title),
        .kind = str_of(timeline_kind_name(w->kind)),
        .rev = e->rev,
        .tid = w->kind == TIMELINE_RENDER ? arena_copy(g->arena, str_of(tid)) : STR(""),
    };
    g->full = one->title.p == NULL || one->tid.p == NULL;
    g->out->count++;
    return !g->full;
}

static err list_read(struct change *c, struct listing *g, struct timeline_listing *l,
                     struct err_note *note)
{
    struct change_timeline *t = g->out;
    if (t->pivot.n > 0 && base64_decode(g->arena, t->pivot, BASE64_TOKEN, &l->pivot) != ERR_OK)
        return err_bad(note, "pivot: next of an earlier answer is wanted");
    t->entries = arena_calloc(g->arena, t->limit, sizeof *t->entries);
    if (t->entries == NULL)
        return ERR_LIMIT;
    struct engine_view *v = engine_view_begin(c->opts.engine);
    err why = timeline_list(v, l);
    engine_view_end(&v);
    if (why == ERR_BAD)
        return err_bad(note, "pivot: it is next of another list");
    if (why == ERR_LIMIT)
        return err_bad(note, "title: it is longer than %d bytes", TIMELINE_TITLE_BYTES_MAX);
    if (why == ERR_OK && l->next_n > 0) {
        t->next = base64_url(g->arena, (str){ .p = l->next, .n = l->next_n });
        g->full |= t->next.p == NULL;
    }
    return why == ERR_OK && g->full ? ERR_LIMIT : why;
}

/* empty: both */
static bool kind_find(str name, int *out)
{
    *out = -1;
    for (int i = 0; i < TIMELINE_KINDS && name.n > 0; i++)
        if (str_eq(name, str_of(timeline_kind_name((enum timeline_kind)i))))
            *out = i;
    return *out >= 0 || name.n == 0;
}

err change_timeline(struct change *c, struct change_timeline *t, struct arena *a,
                    struct err_note *note)
{
    struct listing g = { .page = c->opts.page, .arena = a, .out = t };
    struct timeline_listing l = { .has_domain = t->domain.n > 0,
                                  .title = t->title,
                                  .before = t->before,
                                  .limit = t->limit,
                                  .take = entry_take,
                                  .ctx = &g };
    _Static_assert((int)CHANGE_LIST_MAX <= (int)TIMELINE_LIST_MAX, "a page is one of a timeline");
    t->count = 0;
    t->next = STR("");
    if (t->title.n > 0 && t->domain.n == 0)
        return err_bad(note, "domain: a title wants its domain");
    if (l.has_domain && !change_timeline_domain(c->opts.page, t->domain, &l.domain))
        return err_bad(note, "domain: %.*s is not configured", STR_ARG(str_take(t->domain, 64)));
    return kind_find(t->kind, &l.kind) ? list_read(c, &g, &l, note)
                                       : err_bad(note, "kind: revision or render is wanted");
}
