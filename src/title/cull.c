/* cull.c - says which bytes are free, for stores that keep facts (title_cull of derive.h). Bytes
 * stay of renders that are stored at the horizon, or came after it. Pure.
 *
 * Ranges are the gaps between names that keep their bytes, so there is at most one more range than
 * such names.
 * Invariant: no range holds a name of the revision and tick of a render that keeps its bytes. */
#include "title/forgotten.h"

#include <stdlib.h>

/* The names of all puts, apart: kept keep their bytes; gone have bytes that nobody is shown again.
 * A name may stand in both, with other bytes. */
struct cull {
    struct page_name *kept, *gone; /* sorted */
    size_t kept_count, gone_count;
};

static int name_cmp(const void *a, const void *b)
{
    return page_name_cmp(*(const struct page_name *)a, *(const struct page_name *)b);
}

/* Derives the title as of the horizon: only its rows keep their bytes, and puts that came later. */
static err cull_sort(struct cull *c, const struct title_facts *in, store_time horizon,
                     struct arena *a)
{
    struct title_forgotten gone;
    struct title_memory m;
    struct page_row row;
    c->kept = arena_calloc(a, in->facts_count + 1, sizeof(c->kept[0]));
    c->gone = arena_calloc(a, in->facts_count + 1, sizeof(c->gone[0]));
    if (c->kept == NULL || c->gone == NULL)
        return ERR_LIMIT;
    err e = forgotten_find(in, a, &gone);
    if (e == ERR_OK)
        e = title_derive_behind(in, &gone, horizon, a, &m);
    for (size_t i = 0; i < in->facts_count && e == ERR_OK; i++) {
        const struct fact *put = &in->facts[i];
        if (put->what != FACT_PUT)
            continue;
        bool kept =
            store_time_before(horizon, put->at) || title_get(&m.title, put->name, &row) == ERR_OK;
        if (kept)
            c->kept[c->kept_count++] = put->name;
        /* The bytes of a put without contents are gone: it needs no range. */
        else if (put->contents_count > 0)
            c->gone[c->gone_count++] = put->name;
    }
    qsort(c->kept, c->kept_count, sizeof(c->kept[0]), name_cmp);
    qsort(c->gone, c->gone_count, sizeof(c->gone[0]), name_cmp);
    return e;
}

/* The least name behind all names of this one's revision and tick. */
static struct page_name after_tick(struct page_name name)
{
    name.tid.low = UINT64_MAX;
    return page_name_above(name);
}

static struct page_name before_tick(struct page_name name)
{
    name.tid.low = 0;
    return page_name_below(name);
}

err title_cull(const struct title_facts *in, store_time horizon, struct arena *a,
               struct title_cull *out)
{
    struct cull c = { .kept_count = 0 };
    struct title_range range = { .low = page_name_first };
    size_t gone = 0;
    *out = (struct title_cull){ .at = horizon };
    out->ranges = arena_calloc(a, in->facts_count + 1, sizeof(out->ranges[0]));
    if (out->ranges == NULL)
        return ERR_LIMIT;
    err e = cull_sort(&c, in, horizon, a);
    /* One gap for each kept name, before it, and one behind the last. */
    for (size_t i = 0; i <= c.kept_count && e == ERR_OK; i++) {
        range.high = i == c.kept_count ? page_name_last : before_tick(c.kept[i]);
        /* Both lists rise, so one walk over each is enough. */
        while (gone < c.gone_count && page_name_cmp(c.gone[gone], range.low) < 0)
            gone++;
        /* A gap without bytes to delete is no range. */
        if (gone < c.gone_count && page_name_cmp(c.gone[gone], range.high) <= 0)
            out->ranges[out->count++] = range;
        if (i < c.kept_count)
            range.low = after_tick(c.kept[i]);
    }
    return e;
}
