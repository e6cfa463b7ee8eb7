#include "bucket/look.h"

static bool passed(void *ctx, str title, const struct page_name *name)
{
    struct page_explanation *x = ctx;
    (void)title; /* the one that was asked for */
    if (x->passed++ == 0 && name != NULL)
        x->passed_name = *name;
    return true;
}

static err find(const struct look *title, const struct page_which *w, struct page_row *row,
                struct page_explanation *x)
{
    const struct page_each each = { .damaged = passed, .ctx = x };
    struct look_damage damage = { .each = &each };
    struct look k = *title;
    k.damage = &damage;
    err e = look_find(&k, w, row, &x->trace);
    if (e != ERR_NOT_FOUND || x->passed == 0)
        return e;
    return ERR_CORRUPT; /* all there is */
}

err page_explain(struct page_bucket *b, struct engine_view *v, const struct page_which *w,
                 struct page_explanation *out)
{
    MAGIC_CHECK(b, PAGE_BUCKET_MAGIC);
    struct look k = { .bucket = b, .view = v, .now = clock_store(b->pages->clock) };
    struct page_row row;
    struct page_explanation x = { .state = PAGE_UNKNOWN };
    err e = ERR_NOT_FOUND;
    if (w->title.n >= 1 && w->title.n <= PAGE_TITLE_BYTES_MAX) {
        page_key_title(&k.title, b->number, w->domain, w->title);
        e = find(&k, w, &row, &x);
    }
    if (e != ERR_OK && e != ERR_GONE && e != ERR_NOT_FOUND)
        return e;
    if (e == ERR_GONE)
        x.state = x.trace.state;
    if (e == ERR_OK) {
        x.render = row.r;
        x.state = row.r.state;
        x.stashed = store_time_before(k.now, row.r.stash_until);
        x.held = store_time_before(k.now, row.r.hold_until);
        x.requested = store_time_before(k.now, row.r.requested_until);
    }
    x.reason = retention_reason(&b->plan.policy, x.state);
    *out = x;
    return ERR_OK;
}
