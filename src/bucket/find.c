/* find.c - reading in a view, for store.c and list.c: one render (title/find.h), a history, the
 * titles of a domain, stashes, and bytes. */
#include "bucket/ledger.h"

#include <string.h>
#include <xxhash.h>

/* Nothing is stored under other titles: keys cannot hold them. */
static bool title_fits(str title)
{
    return title.n >= 1 && title.n <= PAGE_TITLE_BYTES_MAX;
}

struct title_which look_which(const struct page_which *w)
{
    return (struct title_which){
        .select = w->select, .name = w->name, .at = w->at, .deleted_too = w->deleted_too
    };
}

err page_find(struct page_bucket *b, struct engine_view *v, const struct page_which *w,
              struct page_render *out, struct page_trace *trace)
{
    struct look k;
    struct page_row row;
    if (!title_fits(w->title))
        return ERR_NOT_FOUND;
    const struct title_which which = look_which(w);
    look_init(&k, b, v, w->domain, w->title);
    err e = title_find(&k.title, &which, &row, trace);
    if (e == ERR_OK)
        *out = row.r;
    return e;
}

bool page_wants_extension(const struct page_bucket *b, const struct page_render *r, store_time now)
{
    return retention_wants_extension(&bucket_plan(b)->policy, r, now);
}

store_time page_lasts_until(const struct page_bucket *b, const struct page_render *r)
{
    return retention_lasts_until(&bucket_plan(b)->policy, r);
}

err page_history(struct page_bucket *b, struct engine_view *v, uint32_t domain, str title,
                 const struct page_name *after, const struct page_each *each)
{
    struct look_damage damage = { .each = each };
    struct look k;
    struct title_walk w;
    struct page_row row;
    if (!title_fits(title))
        return ERR_OK;
    look_init(&k, b, v, domain, title);
    look_past_damage(&k, &damage);
    title_walk_open(&w, &k.title, page_name_first, after == NULL ? page_name_last : *after, false);
    err e;
    while ((e = title_walk_alive(&w, &row)) == ERR_OK) {
        /* The walk starts with *after itself, which an earlier listing gave. */
        if (after != NULL && page_name_cmp(row.r.name, *after) == 0)
            continue;
        if (!each->render(each->ctx, title, &row.r))
            break;
    }
    title_walk_close(&w);
    /* It is no error that the reader has enough. */
    return e == ERR_NOT_FOUND || damage.stopped ? ERR_OK : e;
}

/* ---- over many titles ---- */

/* A walk over rows of a title or a domain. row is called for each of them. ERR_OK goes on,
 * unless row sets over. */
struct rows {
    struct page_bucket *bucket;
    struct engine_view *view;
    err (*row)(struct rows *all, const struct engine_row *found, struct engine_cursor *c);
    struct page_stash_walk *stashes; /* of page_stashes; else NULL */
    struct look_damage damage;
    bool over;
};

static void key_of_domain(struct page_key *out, const struct page_bucket *b, uint32_t domain)
{
    page_key_title(out, b->number, domain, STR("x"));
    out->n -= 2; /* without the title and its end */
}

/* From a key on, to the end of what begins with prefix. */
static struct engine_cursor *rows_open(struct engine_view *v, const struct page_key *from,
                                       const struct page_key *prefix)
{
    char end[PAGE_BOUND_BYTES_MAX];
    const struct engine_range range = { .space = SPACE_RENDER,
                                        .from = page_key_str(from),
                                        .until = engine_prefix_end(page_key_str(prefix), end) };
    return engine_cursor_open(v, &range);
}

/* One row further, past a damaged one, too. A damaged key is never sought. */
static err rows_next(struct rows *all, struct engine_cursor *c)
{
    struct look k = { .bucket = all->bucket, .damage = &all->damage };
    struct engine_row found;
    struct page_key key;
    err e = engine_cursor_next(c, &found);
    if (e != ERR_OK && e != ERR_CORRUPT)
        return e;
    /* A copy: row may move the cursor, which owns found. */
    page_key_of(&key, found.key);
    if (e == ERR_OK)
        e = all->row(all, &found, c);
    return e == ERR_CORRUPT && look_passes(&k, page_key_str(&key)) ? ERR_OK : e;
}

/* Tells the title's newest shown render, if it is the latest. A damaged row may have been newer:
 * then the title's next rows are looked at, and a superseded one is not listed. */
static err titles_row(struct rows *all, const struct engine_row *found, struct engine_cursor *c)
{
    const struct page_each *each = all->damage.each;
    struct page_key_parts parts;
    struct page_row row;
    struct look k;
    char title[PAGE_TITLE_BYTES_MAX];
    if (!page_key_parse(found->key, &parts) || parts.title.n > sizeof(title))
        return ERR_CORRUPT;
    /* A copy: the seek below ends what the cursor lent. */
    memcpy(title, parts.title.p, parts.title.n);
    look_init(&k, all->bucket, all->view, parts.domain, (str){ .p = title, .n = parts.title.n });
    err e = look_decode(&k, parts.name, found, &row);
    if (e != ERR_OK || !title_alive(&k.title, &row) || row.r.hidden != PAGE_CURRENT)
        return e;
    if (title_is_latest(&row.r))
        all->over = !each->render(each->ctx, (str){ .p = title, .n = parts.title.n }, &row.r);
    /* One render of each title: on to the next title. */
    page_key_title_end(&k.key);
    engine_cursor_seek(c, page_key_str(&k.key));
    return ERR_OK;
}

err page_titles(struct page_bucket *b, struct engine_view *v, uint32_t domain, str after,
                const struct page_each *each)
{
    MAGIC_CHECK(b, PAGE_BUCKET_MAGIC);
    struct rows all = { .bucket = b, .view = v, .row = titles_row, .damage = { .each = each } };
    struct page_key from, prefix;
    key_of_domain(&prefix, b, domain);
    from = prefix;
    /* No stored title is longer. The cut one has the same titles behind it. */
    if (after.n > PAGE_TITLE_BYTES_MAX)
        after = str_take(after, PAGE_TITLE_BYTES_MAX);
    if (after.n > 0) {
        page_key_title(&from, b->number, domain, after);
        page_key_title_end(&from);
    }
    struct engine_cursor *c = rows_open(v, &from, &prefix);
    err e = ERR_OK;
    while (e == ERR_OK && !all.over)
        e = rows_next(&all, c);
    engine_cursor_close(&c);
    return e == ERR_NOT_FOUND || all.damage.stopped ? ERR_OK : e;
}

/* ---- stashes ---- */

static str place_title(const struct list_place *p)
{
    return (str){ .p = p->title, .n = p->title_bytes };
}

/* From behind the place on, to the end of the title or the domain. */
static struct engine_cursor *stashes_open(const struct page_bucket *b, struct engine_view *v,
                                          const struct page_stash_walk *w)
{
    struct page_key from, prefix;
    if (w->title.n > 0)
        page_key_title(&prefix, b->number, w->domain, w->title);
    else
        key_of_domain(&prefix, b, w->domain);
    from = prefix;
    if (w->after.title_bytes > 0) {
        page_key_title(&from, b->number, w->domain, place_title(&w->after));
        page_key_name(&from, &from, w->after.name);
        page_key_after(&from);
    }
    return rows_open(v, &from, &prefix);
}

/* Tells a stashed render. A row that its reader refuses is not gone past: the next listing
 * begins with it. */
static err stashes_row(struct rows *all, const struct engine_row *found, struct engine_cursor *c)
{
    const struct page_each *each = all->damage.each;
    (void)c; /* which goes on by itself */
    struct page_key_parts parts;
    struct page_row row;
    struct look k;
    if (!page_key_parse(found->key, &parts) || !title_fits(parts.title))
        return ERR_CORRUPT;
    struct list_place at = { .title_bytes = parts.title.n, .name = parts.name };
    memcpy(at.title, parts.title.p, parts.title.n);
    look_init(&k, all->bucket, all->view, parts.domain, place_title(&at));
    err e = look_decode(&k, parts.name, found, &row);
    bool stashed = e == ERR_OK && title_alive(&k.title, &row) &&
                   store_time_before(k.title.now, row.r.stash_until);
    all->over = stashed && !each->render(each->ctx, place_title(&at), &row.r);
    if (!all->over)
        all->stashes->after = at;
    return e;
}

err page_stashes(struct page_bucket *b, struct engine_view *v, struct page_stash_walk *w,
                 const struct page_each *each, bool *more)
{
    MAGIC_CHECK(b, PAGE_BUCKET_MAGIC);
    struct rows all = {
        .bucket = b, .view = v, .row = stashes_row, .stashes = w, .damage = { .each = each }
    };
    err e = ERR_OK;
    *more = false;
    if (w->title.n > PAGE_TITLE_BYTES_MAX)
        return ERR_OK;
    struct engine_cursor *c = stashes_open(b, v, w);
    for (; e == ERR_OK && !all.over && w->steps > 0; w->steps--)
        e = rows_next(&all, c);
    engine_cursor_close(&c);
    *more = e == ERR_OK; /* else the walk is at its end */
    return e == ERR_NOT_FOUND || all.damage.stopped ? ERR_OK : e;
}

/* ---- bytes ---- */

/* A row's offsets are believed only within the blob that the engine has. now: ERR_AGAIN instead
 * of a read that blocks. */
err page_read(struct page_bucket *b, const struct page_render *r, const struct page_content *c,
              struct arena *a, bool now, struct page_bytes *out)
{
    struct engine *engine = b->pages->engine;
    struct engine_blob blob;
    memcpy(&blob, &r->where, sizeof(blob));
    uint64_t n = (uint64_t)c->headers_bytes + c->stored_bytes;
    if (c->offset > blob.n || n > blob.n - c->offset)
        return ERR_CORRUPT;
    char *bytes = arena_alloc(a, n);
    if (bytes == NULL)
        return ERR_LIMIT;
    err e = ERR_OK;
    if (n > 0)
        e = now ? engine_blob_read_now(engine, &blob, c->offset, n, bytes)
                : engine_blob_read(engine, &blob, c->offset, n, bytes);
    if (e != ERR_OK)
        return e;
    /* The engine has a hash of the whole blob only; the sum of each content stands in its row. */
    if (XXH3_64bits(bytes, n) != c->sum)
        return ERR_CORRUPT;
    out->headers = (str){ .p = bytes, .n = c->headers_bytes };
    out->frame = (str){ .p = bytes + c->headers_bytes, .n = c->stored_bytes };
    return ERR_OK;
}
