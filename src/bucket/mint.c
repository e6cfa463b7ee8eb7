/* mint.c - names for renders that are made here: greater than all the revision had. */
#include "bucket/page_write.h"
#include "bucket/title.h"

err look_next_ticks(const struct look *k, uint64_t rev, uint64_t *ticks)
{
    struct page_name name;
    err e = look_greatest_known(k, page_name_low(rev), page_name_high(rev), &name);
    if (e == ERR_OK && name.tid.ticks >= *ticks)
        *ticks = name.tid.ticks + 1;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

err page_mint(struct page_bucket *b, struct engine_view *v, const struct page_which *rev,
              store_time began, uint64_t random, struct tid *out)
{
    MAGIC_CHECK(b, PAGE_BUCKET_MAGIC);
    struct title t = { .look = { .bucket = b, .view = v, .now = clock_store(b->pages->clock) } };
    struct engine_row found;
    bool fenced = false;
    store_time at;
    uint64_t ticks = tid_ticks(began);
    page_key_title(&t.look.title, b->number, rev->domain, rev->title);
    err e = engine_get(v, SPACE_TITLE, page_key_str(&t.look.title), &found);
    if (e == ERR_OK)
        e = page_title_decode(found.value, &t.row);
    if (e == ERR_OK)
        e = title_fence(&t, rev->name.rev, NULL, &fenced, &at);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    if (fenced && store_time_before(began, at))
        return ERR_GONE;
    if (fenced && tid_ticks(at) >= ticks)
        ticks = tid_ticks(at) + 1;
    e = look_next_ticks(&t.look, rev->name.rev, &ticks);
    if (e == ERR_OK)
        *out = tid_make(ticks, random);
    return e;
}
