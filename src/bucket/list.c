/* list.c - listings as callers see them: each goes on where a token of its own says.
 *
 * A token is a letter, which says of what, then the place behind which to go on. It is not secret
 * and not signed: a forged one names a place that its client could have reached.
 *   HISTORY  'r' rev tid        TITLES  't' title        STASHES  's' rev tid title
 * The letter alone: from the beginning. */
#include "bucket/list.h"

#include <string.h>

enum { NAME_BYTES = 8 + TID_KEY_BYTES };

/* ---- tokens ---- */

static const struct {
    char letter;
    bool name, title; /* which follow */
} kinds[] = { [LIST_HISTORY] = { 'r', .name = true },
              [LIST_TITLES] = { 't', .title = true },
              [LIST_STASHES] = { 's', .name = true, .title = true } };

/* False: no render can have that name. */
static bool name_get(str *rest, struct page_name *out)
{
    char text[TID_TEXT_BYTES + 1];
    if (rest->n < NAME_BYTES)
        return false;
    struct page_name name = { .rev = get_be64(rest->p),
                              .tid = tid_from_key((const unsigned char *)rest->p + 8) };
    *rest = str_skip(*rest, NAME_BYTES);
    if (name.rev == 0 || name.rev > PAGE_REV_MAX || name.tid.ticks >> 60 != 0)
        return false;
    tid_format(name.tid, text); /* only what a tid can be */
    if (!tid_parse(str_of(text), &name.tid))
        return false;
    *out = name;
    return true;
}

err list_place_get(enum page_list_what what, str token, struct page_place *out)
{
    struct page_place p = { .title_bytes = 0 };
    str rest = str_skip(token, 1);
    bool fine = token.n > 0 && token.p[0] == kinds[what].letter;
    if (fine && rest.n > 0 && kinds[what].name)
        fine = name_get(&rest, &p.name) && (rest.n > 0) == kinds[what].title;
    if (!fine || rest.n > sizeof p.title)
        return ERR_BAD;
    if (rest.n > 0)
        memcpy(p.title, rest.p, rest.n);
    p.title_bytes = rest.n;
    *out = p;
    return ERR_OK;
}

str list_place_put(enum page_list_what what, const struct page_place *p, struct arena *a)
{
    bool began = p->title_bytes > 0 || p->name.rev > 0;
    size_t name_n = began && kinds[what].name ? NAME_BYTES : 0;
    size_t title_n = kinds[what].title ? p->title_bytes : 0;
    char *token = arena_alloc(a, 1 + name_n + title_n);
    if (token == NULL)
        return STR_NONE;
    token[0] = kinds[what].letter;
    if (name_n > 0) {
        put_be64(token + 1, p->name.rev);
        tid_key(p->name.tid, (unsigned char *)token + 9);
    }
    memcpy(token + 1 + name_n, p->title, title_n);
    return (str){ .p = token, .n = 1 + name_n + title_n };
}

/* ---- walking ---- */

struct listing {
    const struct page_each *each;
    bool stopped;           /* its reader has enough */
    struct page_place last; /* that it took */
};

static bool listing_render(void *ctx, str title, const struct page_render *r)
{
    struct listing *l = ctx;
    l->stopped = !l->each->render(l->each->ctx, title, r);
    if (l->stopped)
        return false;
    l->last.name = r->name;
    l->last.title_bytes = title.n;
    memcpy(l->last.title, title.p, title.n);
    return true;
}

static bool listing_damaged(void *ctx, str title, const struct page_name *name)
{
    struct listing *l = ctx;
    l->stopped = !l->each->damaged(l->each->ctx, title, name);
    return !l->stopped;
}

/* Histories and titles. */
static err list_items(struct page_list *l, struct engine_view *v, struct page_place *at, bool *more)
{
    struct listing walk = { .each = &l->each, .last = *at };
    const struct page_each each = { .render = listing_render,
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

static err list_stashes(struct page_list *l, struct engine_view *v, struct page_place *at,
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
    struct page_place at = { .title_bytes = 0 };
    bool more = false;
    MAGIC_CHECK(l->bucket, PAGE_BUCKET_MAGIC);
    l->next = STR("");
    err e = l->from.n > 0 ? list_place_get(l->what, l->from, &at) : ERR_OK;
    if (e == ERR_OK)
        e = l->what == LIST_STASHES ? list_stashes(l, v, &at, &more) : list_items(l, v, &at, &more);
    if (e != ERR_OK || !more)
        return e;
    l->next = list_place_put(l->what, &at, l->arena);
    return l->next.p == NULL ? ERR_LIMIT : ERR_OK;
}
