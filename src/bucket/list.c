/* list.c - listings as callers see them: each goes on where the token of the one before says. */
#include "bucket/list.h"

#include "store/listplace.h"

/* What the caller's functions are called through, to note where the listing came to. */
struct listing {
    const struct page_each *each;
    bool stopped;           /* its reader has enough */
    struct list_place last; /* that it took */
};

static bool listing_render(void *ctx, str title, const struct page_render *r)
{
    struct listing *l = ctx;
    l->stopped = !l->each->render(l->each->ctx, title, r);
    if (l->stopped)
        return false;
    l->last.name = r->name;
    list_place_title(&l->last, title);
    return true;
}

/* A refused damaged row stops the listing as a render does. */
static bool listing_damaged(void *ctx, str title, const struct page_name *name)
{
    struct listing *l = ctx;
    l->stopped = !l->each->damaged(l->each->ctx, title, name);
    return !l->stopped;
}

/* Histories and titles. They tell by `stopped` that there is more; a stash walk says it itself. */
static err list_items(struct page_list *l, struct engine_view *v, struct list_place *at, bool *more)
{
    struct listing walk = { .each = &l->each, .last = *at };
    const struct page_each each = { .render = listing_render,
                                    /* Without the caller's damaged function none is called: the
                                     * first damaged row ends the listing. */
                                    .damaged = l->each.damaged == NULL ? NULL : listing_damaged,
                                    .ctx = &walk };
    const str title = { .p = at->title, .n = at->title_bytes };
    err e = l->what == LIST_TITLES ? page_titles(l->bucket, v, l->domain, title, &each)
                                   : page_history(l->bucket, v, l->domain, l->title,
                                                  at->name.rev == 0 ? NULL : &at->name, &each);
    *at = walk.last;
    *more = walk.stopped;
    return e;
}

static err list_stashes(struct page_list *l, struct engine_view *v, struct list_place *at,
                        bool *more)
{
    struct page_stash_walk walk = {
        .domain = l->domain, .title = l->title, .after = *at, .steps = l->steps
    };
    err e = page_stashes(l->bucket, v, &walk, &l->each, more);
    l->steps = walk.steps;
    *at = walk.after;
    return e;
}

err bucket_list(struct page_list *l, struct engine_view *v)
{
    struct list_place at = { .title_bytes = 0 };
    bool more = false;
    MAGIC_CHECK(l->bucket, PAGE_BUCKET_MAGIC);
    l->next = STR("");
    err e = l->from.n > 0 ? list_place_get(l->what, l->from, &at) : ERR_OK;
    if (e == ERR_OK)
        e = l->what == LIST_STASHES ? list_stashes(l, v, &at, &more) : list_items(l, v, &at, &more);
    /* The last page has no token. */
    if (e != ERR_OK || !more)
        return e;
    l->next = list_place_put(l->what, &at, l->arena);
    return l->next.p == NULL ? ERR_LIMIT : ERR_OK;
}
