/* find.c - reading: one render, a history, the titles of a domain. Walks stop at the first
 * answer. */
#include "bucket/ledger.h"

#include <string.h>
#include <xxhash.h>

static bool is_never(store_time t)
{
    return t.ns == INT64_MAX;
}

static err gone_or_never(const struct look *k, struct page_name low, struct page_name high,
                         struct page_trace *trace)
{
    struct page_trace_row found;
    err e = look_newest_trace(k, low, high, &found);
    if (e != ERR_OK)
        return e;
    if (trace != NULL)
        *trace = found.trace;
    return ERR_GONE;
}

/* What is told of a render that is hidden, and is there. */
static err hidden(const struct page_row *row, struct page_trace *trace)
{
    if (trace != NULL)
        *trace = (struct page_trace){ .name = row->r.name,
                                      .state = row->r.hidden,
                                      .at = row->r.hidden_at,
                                      .policy = row->policy,
                                      .superseded_at = row->r.superseded_at,
                                      .superseded_by = row->r.superseded_by };
    return ERR_GONE;
}

static err find_latest(const struct look *k, struct page_row *out, struct page_trace *trace)
{
    struct page_row newest;
    err e = look_newest_shown(k, page_name_first, page_name_last, out);
    bool passed = k->damage != NULL && k->damage->count > 0; /* the latest may be one of those */
    if (e == ERR_OK && (passed || is_never(out->r.superseded_at)))
        return ERR_OK;
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    if (!passed && look_newest_alive(k, page_name_first, page_name_last, &newest) == ERR_OK &&
        newest.r.hidden != PAGE_CURRENT)
        return hidden(&newest, trace);
    return gone_or_never(k, page_name_first, page_name_last, trace);
}

static err find_rev(const struct look *k, uint64_t rev, struct page_row *out,
                    struct page_trace *trace)
{
    err e = look_newest_alive(k, page_name_low(rev), page_name_high(rev), out);
    return e == ERR_NOT_FOUND ? gone_or_never(k, page_name_low(rev), page_name_high(rev), trace)
                              : e;
}

static err find_exact(const struct look *k, struct page_name name, struct page_row *out,
                      struct page_trace *trace)
{
    err e = look_get(k, name, out);
    if (e == ERR_OK && !look_alive(k, out))
        e = ERR_NOT_FOUND;
    return e == ERR_NOT_FOUND ? gone_or_never(k, name, name, trace) : e;
}

/* ---- what was served at an instant ---- */

/* Counts one row or revision looked at. */
static err step(unsigned *steps, err e)
{
    return e == ERR_OK && ++*steps > PAGE_AT_STEPS_MAX ? ERR_LIMIT : e;
}

static bool served_at(store_time stored, store_time superseded, store_time at)
{
    return !store_time_before(at, stored) && store_time_before(at, superseded);
}

static err served_trace(const struct look *k, store_time at, struct page_trace *trace)
{
    struct page_trace_row t, gone;
    struct page_row row;
    struct look_walk w;
    struct ledger_walk ledger;
    bool has_gone = false;
    unsigned steps = 0;
    err e;
    look_walk_open(&w, k, page_name_first, page_name_last, false);
    while (!has_gone && (e = step(&steps, look_walk_next(&w, &row))) == ERR_OK) {
        if (look_alive(k, &row) || !served_at(row.r.stored_at, row.r.superseded_at, at))
            continue;
        look_trace_of(k, &row, &gone);
        has_gone = look_trace_alive(k, &gone);
    }
    look_walk_close(&w);
    if (!has_gone && e != ERR_NOT_FOUND)
        return e;
    ledger_open(&ledger, k, page_name_first, page_name_last, false);
    do
        e = ledger_next(&ledger, &t);
    while (e == ERR_OK &&
           !(look_trace_alive(k, &t) && served_at(t.stored_at, t.trace.superseded_at, at)));
    ledger_close(&ledger);
    if (e != ERR_OK && (e != ERR_NOT_FOUND || !has_gone))
        return e;
    if (e == ERR_NOT_FOUND || (has_gone && page_name_cmp(gone.trace.name, t.trace.name) > 0))
        t = gone;
    if (trace != NULL)
        *trace = t.trace;
    return ERR_GONE;
}

/* Times of latestness of stored renders follow each other as their names do, so the first render
 * below which nothing can match ends the walk. */
static err find_served_at(const struct look *k, store_time at, struct page_row *out,
                          struct page_trace *trace)
{
    struct look_walk w;
    bool found = false;
    unsigned steps = 0;
    err e;
    look_walk_open(&w, k, page_name_first, page_name_last, false);
    while ((e = step(&steps, look_walk_alive(&w, out))) == ERR_OK) {
        bool was_latest = store_time_before(out->r.stored_at, out->r.superseded_at);
        found = served_at(out->r.stored_at, out->r.superseded_at, at);
        if (found || (was_latest && !store_time_before(at, out->r.stored_at)))
            break;
    }
    look_walk_close(&w);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    return found ? ERR_OK : served_trace(k, at, trace);
}

/* ---- the revision current at an instant ---- */

/* The greatest revision known below `below`, stored or traced. ERR_NOT_FOUND. */
static err next_rev(const struct look *k, uint64_t below, uint64_t *rev)
{
    struct page_name name;
    err e = below == 0 ? ERR_NOT_FOUND
                       : look_greatest_known(k, page_name_first, page_name_high(below - 1), &name);
    if (e == ERR_OK)
        *rev = name.rev;
    return e;
}

/* The time of the oldest render known of a revision: stored, or its trace. */
static err oldest_known(const struct look *k, uint64_t rev, store_time *out)
{
    struct look_walk w;
    struct ledger_walk ledger;
    struct page_row row;
    struct page_trace_row trace;
    store_time oldest = STORE_TIME_NEVER;
    err e;
    look_walk_open(&w, k, page_name_low(rev), page_name_high(rev), true);
    while ((e = look_walk_next(&w, &row)) == ERR_OK) {
        look_trace_of(k, &row, &trace);
        if (look_alive(k, &row) || look_trace_alive(k, &trace)) {
            oldest = tid_time(row.r.name.tid);
            break;
        }
    }
    look_walk_close(&w);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    ledger_open(&ledger, k, page_name_low(rev), page_name_high(rev), true);
    do
        e = ledger_next(&ledger, &trace);
    while (e == ERR_OK && !look_trace_alive(k, &trace));
    ledger_close(&ledger);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    if (e == ERR_OK && store_time_before(tid_time(trace.trace.name.tid), oldest))
        oldest = tid_time(trace.trace.name.tid);
    *out = oldest;
    return ERR_OK;
}

static err find_current_at(const struct look *k, store_time at, struct page_row *out,
                           struct page_trace *trace)
{
    uint64_t rev = (uint64_t)PAGE_REV_MAX + 1;
    store_time oldest;
    unsigned steps = 0;
    for (;;) {
        err e = step(&steps, next_rev(k, rev, &rev));
        if (e == ERR_OK)
            e = oldest_known(k, rev, &oldest);
        if (e != ERR_OK)
            return e;
        if (!is_never(oldest) && !store_time_before(at, oldest))
            return find_rev(k, rev, out, trace);
    }
}

static err find_any(const struct look *k, const struct page_which *w, struct page_row *out,
                    struct page_trace *trace)
{
    switch (w->select) {
    case SELECT_LATEST:
        return find_latest(k, out, trace);
    case SELECT_REV:
        return find_rev(k, w->name.rev, out, trace);
    case SELECT_EXACT:
        return find_exact(k, w->name, out, trace);
    case SELECT_SERVED_AT:
        return find_served_at(k, w->at, out, trace);
    case SELECT_CURRENT_AT:
        break;
    }
    return find_current_at(k, w->at, out, trace);
}

err look_find(const struct look *k, const struct page_which *w, struct page_row *out,
              struct page_trace *trace)
{
    err e = find_any(k, w, out, trace);
    if (e != ERR_OK || out->r.hidden == PAGE_CURRENT ||
        (w->deleted_too && out->r.hidden == PAGE_DELETED))
        return e;
    return hidden(out, trace);
}

static bool title_fits(str title)
{
    return title.n >= 1 && title.n <= PAGE_TITLE_BYTES_MAX;
}

static void look_init(struct look *k, struct page_bucket *b, struct engine_view *v, uint32_t domain,
                      str title)
{
    MAGIC_CHECK(b, PAGE_BUCKET_MAGIC);
    *k = (struct look){ .bucket = b, .view = v, .now = clock_store(b->pages->clock) };
    page_key_title(&k->title, b->number, domain, title);
}

err page_find(struct page_bucket *b, struct engine_view *v, const struct page_which *w,
              struct page_render *out, struct page_trace *trace)
{
    struct look k;
    struct page_row row;
    if (!title_fits(w->title))
        return ERR_NOT_FOUND;
    look_init(&k, b, v, w->domain, w->title);
    err e = look_find(&k, w, &row, trace);
    if (e == ERR_OK)
        *out = row.r;
    return e;
}

bool page_wants_extension(const struct page_bucket *b, const struct page_render *r, store_time now)
{
    return retention_wants_extension(&b->plan.policy, r, now);
}

store_time page_lasts_until(const struct page_bucket *b, const struct page_render *r)
{
    return retention_lasts_until(&b->plan.policy, r);
}

err page_history(struct page_bucket *b, struct engine_view *v, uint32_t domain, str title,
                 const struct page_name *after, const struct page_each *each)
{
    struct look_damage damage = { .each = each };
    struct look k;
    struct look_walk w;
    struct page_row row;
    if (!title_fits(title))
        return ERR_OK;
    look_init(&k, b, v, domain, title);
    k.damage = &damage;
    look_walk_open(&w, &k, page_name_first, after == NULL ? page_name_last : *after, false);
    err e;
    while ((e = look_walk_alive(&w, &row)) == ERR_OK) {
        if (after != NULL && page_name_cmp(row.r.name, *after) == 0)
            continue;
        if (!each->render(each->ctx, title, &row.r))
            break;
    }
    look_walk_close(&w);
    return e == ERR_NOT_FOUND || damage.stopped ? ERR_OK : e;
}

/* ---- over many titles ---- */

/* A walk over rows of a domain; row, one of them: ERR_OK goes on, unless it says that this is
 * over. */
struct rows {
    struct page_bucket *bucket;
    struct engine_view *view;
    err (*row)(struct rows *all, const struct engine_row *found, struct engine_cursor *c);
    struct page_stash_walk *stashes;
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

/* Goes past a damaged one, too, and never to where a damaged key says. */
static err rows_next(struct rows *all, struct engine_cursor *c)
{
    struct look k = { .bucket = all->bucket, .damage = &all->damage };
    struct engine_row found;
    struct page_key key;
    err e = engine_cursor_next(c, &found);
    if (e != ERR_OK && e != ERR_CORRUPT)
        return e;
    page_key_of(&key, found.key);
    if (e == ERR_OK)
        e = all->row(all, &found, c);
    return e == ERR_CORRUPT && look_passes(&k, page_key_str(&key)) ? ERR_OK : e;
}

/* The newest of its title. After a damaged row, which may have been that, the title's next rows are
 * looked at: one that is superseded is not listed. */
static err titles_row(struct rows *all, const struct engine_row *found, struct engine_cursor *c)
{
    const struct page_each *each = all->damage.each;
    struct page_key_parts parts;
    struct page_row row;
    struct look k;
    char title[PAGE_TITLE_BYTES_MAX];
    if (!page_key_parse(found->key, &parts) || parts.title.n > sizeof(title))
        return ERR_CORRUPT;
    memcpy(title, parts.title.p, parts.title.n);
    look_init(&k, all->bucket, all->view, parts.domain, (str){ .p = title, .n = parts.title.n });
    err e = look_decode(&k, parts.name, found, &row);
    if (e != ERR_OK || !look_alive(&k, &row) || row.r.hidden != PAGE_CURRENT)
        return e;
    if (is_never(row.r.superseded_at))
        all->over = !each->render(each->ctx, (str){ .p = title, .n = parts.title.n }, &row.r);
    page_key_title_end(&k.title);
    engine_cursor_seek(c, page_key_str(&k.title));
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

static str place_title(const struct page_place *p)
{
    return (str){ .p = p->title, .n = p->title_bytes };
}

/* Its key range: behind the place, of the title or the domain. */
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

/* The row that it is over at is not gone past. */
static err stashes_row(struct rows *all, const struct engine_row *found, struct engine_cursor *c)
{
    const struct page_each *each = all->damage.each;
    (void)c; /* which goes on by itself */
    struct page_key_parts parts;
    struct page_row row;
    struct look k;
    if (!page_key_parse(found->key, &parts) || !title_fits(parts.title))
        return ERR_CORRUPT;
    struct page_place at = { .title_bytes = parts.title.n, .name = parts.name };
    memcpy(at.title, parts.title.p, parts.title.n);
    look_init(&k, all->bucket, all->view, parts.domain, place_title(&at));
    err e = look_decode(&k, parts.name, found, &row);
    bool stashed =
        e == ERR_OK && look_alive(&k, &row) && store_time_before(k.now, row.r.stash_until);
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

err page_read(struct page_bucket *b, const struct page_render *r, const struct page_content *c,
              struct arena *a, bool now, str *headers, str *frame)
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
    if (XXH3_64bits(bytes, n) != c->sum)
        return ERR_CORRUPT;
    *headers = (str){ .p = bytes, .n = c->headers_bytes };
    *frame = (str){ .p = bytes + c->headers_bytes, .n = c->stored_bytes };
    return ERR_OK;
}
