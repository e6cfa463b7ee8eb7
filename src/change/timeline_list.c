/* timeline_list.c - pages of the timeline that a rule keeps in the store or in Redis, with names
 * for numbers. */
#include "change/superseded.h"

#include "change/change_impl.h"
#include "codec/base64.h"
#include "page/page.h"

#include <stdlib.h>
#include <string.h>

struct listing {
    const struct page_service *page;
    struct arena *arena;
    struct change_timeline *out;
    struct err_note *note;
    struct timeline_listing list;
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

/* ---- what was asked ---- */

/* empty: both */
static bool kind_find(str name, int *out)
{
    *out = -1;
    for (int i = 0; i < TIMELINE_KINDS && name.n > 0; i++)
        if (str_eq(name, str_of(timeline_kind_name((enum timeline_kind)i))))
            *out = i;
    return *out >= 0 || name.n == 0;
}

static err place_find(struct change *c, struct listing *g)
{
    struct change_timeline *t = g->out;
    enum rule_keep keep = RULE_KEEP_STORE;
    if (t->keep.n > 0 && !rule_keep_find(t->keep, &keep))
        return err_bad(g->note, "keep: store or redis is wanted");
    change_lock(c);
    if (t->keep.n == 0 && change_timeline_rule(c, RULE_KEEP_STORE) == NULL &&
        change_timeline_rule(c, RULE_KEEP_REDIS) != NULL)
        keep = RULE_KEEP_REDIS;
    change_unlock(c);
    t->remote = keep == RULE_KEEP_REDIS;
    return t->remote && c->opts.timelines == NULL
               ? err_bad(g->note, "keep: this server has no Redis: redis.url is not set")
               : ERR_OK;
}

static err listing_read(struct change *c, struct listing *g)
{
    struct change_timeline *t = g->out;
    struct timeline_listing *l = &g->list;
    *l = (struct timeline_listing){ .has_domain = t->domain.n > 0,
                                    .title = t->title,
                                    .before = t->before,
                                    .limit = t->limit,
                                    .take = entry_take,
                                    .ctx = g };
    _Static_assert((int)CHANGE_LIST_MAX <= (int)TIMELINE_LIST_MAX, "a page is one of a timeline");
    t->count = 0;
    t->next = STR("");
    if (t->title.n > 0 && t->domain.n == 0)
        return err_bad(g->note, "domain: a title wants its domain");
    if (l->has_domain && !change_timeline_domain(c->opts.page, t->domain, &l->domain))
        return err_bad(g->note, "domain: %.*s is not configured", STR_ARG(str_take(t->domain, 64)));
    if (!kind_find(t->kind, &l->kind))
        return err_bad(g->note, "kind: revision or render is wanted");
    if (t->title.n > TIMELINE_TITLE_BYTES_MAX)
        return err_bad(g->note, "title: it is longer than %d bytes", TIMELINE_TITLE_BYTES_MAX);
    if (t->title.n > 0 && memchr(t->title.p, 0, t->title.n) != NULL)
        return err_bad(g->note, "title: it has a zero byte");
    if (t->pivot.n > 0 && base64_decode(g->arena, t->pivot, BASE64_TOKEN, &l->pivot) != ERR_OK)
        return err_bad(g->note, "pivot: next of an earlier answer is wanted");
    t->entries = arena_calloc(g->arena, t->limit, sizeof *t->entries);
    return t->entries == NULL ? ERR_LIMIT : place_find(c, g);
}

/* The page was read: why says how that went. */
static err listing_end(struct listing *g, err why)
{
    struct change_timeline *t = g->out;
    const struct timeline_listing *l = &g->list;
    if (why == ERR_OK && l->next_n > 0) {
        t->next = base64_url(g->arena, (str){ .p = l->next, .n = l->next_n });
        g->full |= t->next.p == NULL;
    }
    return why == ERR_OK && g->full ? ERR_LIMIT : why;
}

err change_timeline(struct change *c, struct change_timeline *t, struct arena *a,
                    struct err_note *note)
{
    struct listing g = { .page = c->opts.page, .arena = a, .out = t, .note = note };
    err why = listing_read(c, &g);
    if (why != ERR_OK || t->remote)
        return why;
    struct engine_view *v = engine_view_begin(c->opts.engine);
    why = timeline_list(v, &g.list);
    engine_view_end(&v);
    if (why == ERR_BAD)
        return err_bad(note, "pivot: it is next of another list");
    return listing_end(&g, why);
}

/* ---- of one in Redis ---- */

struct asking {
    struct change *change;
    struct listing listing;
    struct timeline_remote_list remote;
    struct timeline_named *named;
    change_timeline_done_fn *done;
    void *ctx;
    err why;
};

static void asking_over(struct asking *k, err why)
{
    k->done(k->ctx, why);
    free(k->named);
    free(k);
}

static void asking_done(struct timeline_remote_list *l, err why, const struct err_note *note)
{
    struct asking *k = l->ctx;
    struct change *c = k->change;
    if (why != ERR_OK)
        err_note_set(k->listing.note, "Redis: %s", note->text);
    /* an error of Redis is none of who asks */
    asking_over(k, listing_end(&k->listing,
                               why == ERR_OK || why == ERR_SHUTDOWN ? why : ERR_UNAVAILABLE));
    change_lock(c);
    change_busy(c, -1);
    change_unlock(c);
}

static err asking_start(struct asking *k)
{
    struct change *c = k->change;
    unsigned count;
    k->named = change_timeline_names(c->opts.page, &count);
    k->remote = (struct timeline_remote_list){ .listing = &k->listing.list,
                                               .domains = k->named,
                                               .domains_count = count,
                                               .done = asking_done,
                                               .ctx = k };
    err why = c->draining ? ERR_SHUTDOWN : timeline_remote_list(c->opts.timelines, &k->remote);
    if (why == ERR_BAD)
        return err_bad(k->listing.note, "pivot: it is next of another list");
    if (why == ERR_UNAVAILABLE)
        err_note_set(k->listing.note, "Redis is away");
    if (why == ERR_OK)
        change_busy(c, 1);
    return why;
}

static void asking_run(void *ctx)
{
    struct asking *k = ctx;
    change_lock(k->change);
    err why = k->why == ERR_OK ? asking_start(k) : k->why;
    change_unlock(k->change);
    if (why != ERR_OK)
        asking_over(k, why == ERR_NOT_FOUND ? ERR_OK : why); /* no domain, no entry */
}

void change_timeline_ask(struct change *c, struct change_timeline *t, struct arena *a,
                         struct err_note *note, change_timeline_done_fn *done, void *ctx)
{
    struct asking *k = calloc(1, sizeof *k);
    INVARIANT(k != NULL);
    *k = (struct asking){
        .change = c,
        .listing = { .page = c->opts.page, .arena = a, .out = t, .note = note },
        .done = done,
        .ctx = ctx,
    };
    t->keep = str_of(rule_keep_name(RULE_KEEP_REDIS)); /* whatever rules are in force by now */
    k->why = listing_read(c, &k->listing);
    loop_post(c->opts.loop, asking_run, k);
}
