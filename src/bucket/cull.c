/* cull.c - what time does: renders past due become traces, traces are forgotten, changed policies
 * planned.
 *
 * The first due row says whether there is anything to do; a batch takes the next PAGE_CULL_BATCH of
 * them in one update. The cost of one cull is a few seeks, whatever its title went through. */
#include "bucket/ledger.h"

#include <stdlib.h>
#include <string.h>

struct due {
    struct page_key key; /* of the due row */
    store_time at;
    enum page_due_kind kind;
    str row_key;  /* in key */
    bool damaged; /* the key alone is known */
};

struct cull {
    struct pages *pages;
    struct due *dues; /* PAGE_CULL_BATCH */
    bool *culled;     /* which of them removed a render */
    unsigned count;
    unsigned count_max; /* of this update: PAGE_CULL_BATCH, and less where there is little room */
    unsigned looked;    /* at traces, in this update */
    int64_t overdue_ns_max;
};
/* A batch takes no more due rows beyond: it writes at most two rows for each trace, and blocks the
 * committer. */
enum { TRACES_LOOKED_MAX = 4096, CULL_SHRINK = 4 };

/* Does what the cursor found lie where its key says, so that it can be deleted? */
static bool lies_there(struct engine_view *v, err found, str key)
{
    struct engine_row row;
    return found == ERR_OK || engine_get(v, SPACE_DUE, key, &row) == ERR_CORRUPT;
}

/* The next due row. One that fails its sum is as good as any: what it is filed for is judged by a
 * row of its own. One without meaning is due at once, to be dropped. ERR_NOT_FOUND; ERR_CORRUPT:
 * too much is damaged. */
static err next_due_row(struct engine_view *v, struct engine_cursor *c, struct due *out)
{
    struct engine_row found;
    for (unsigned passed = 0; passed < PAGE_DAMAGED_MAX; passed++) {
        err e = engine_cursor_next(c, &found);
        if (e != ERR_OK && (e != ERR_CORRUPT || found.key.n == 0))
            return e;
        if (found.key.n > sizeof(out->key.p))
            continue;
        out->key.n = found.key.n;
        if (found.key.n > 0)
            memcpy(out->key.p, found.key.p, found.key.n);
        if (!lies_there(v, e, page_key_str(&out->key)))
            continue;
        out->damaged =
            !page_key_due_parse(page_key_str(&out->key), &out->at, &out->kind, &out->row_key);
        if (out->damaged)
            out->at = STORE_TIME_ZERO;
        return ERR_OK;
    }
    return ERR_CORRUPT;
}

/* When the first row falls due; NEVER: nothing is filed at all. */
static err next_due(struct pages *p, store_time *at)
{
    const struct engine_range all = { .space = SPACE_DUE };
    struct engine_view *v = engine_view_begin(p->engine);
    struct engine_cursor *c = engine_cursor_open(v, &all);
    struct due first;
    err e = next_due_row(v, c, &first);
    engine_cursor_close(&c);
    engine_view_end(&v);
    if (e == ERR_OK || e == ERR_NOT_FOUND)
        *at = e == ERR_OK ? first.at : STORE_TIME_NEVER;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static err collect(struct cull *u, struct engine_txn *t)
{
    const struct engine_range all = { .space = SPACE_DUE };
    struct engine_cursor *c = engine_cursor_open(engine_txn_view(t), &all);
    err e = ERR_OK;
    u->count = 0;
    while (u->count < u->count_max &&
           (e = next_due_row(engine_txn_view(t), c, &u->dues[u->count])) == ERR_OK) {
        if (store_time_before(engine_txn_now(t), u->dues[u->count].at))
            break;
        u->count++;
    }
    engine_cursor_close(&c);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static err drop_due(struct engine_txn *t, const struct due *d)
{
    return engine_txn_delete(t, SPACE_DUE, page_key_str(&d->key));
}

/* A row that is due and cannot be read must not keep the rest from being culled: it goes without a
 * trace. */
static err drop_damaged(struct edit *t, const struct due *d, enum engine_space space)
{
    err e = engine_txn_delete(t->txn, space, d->row_key);
    return e == ERR_OK ? drop_due(t->txn, d) : e;
}

static err forget_trace(struct edit *t, const struct due *d, struct page_name name)
{
    err e = ledger_remove(t, name);
    if (e == ERR_CORRUPT) {
        t->look.row.ledger_count -= t->look.row.ledger_count > 0;
        return drop_damaged(t, d, SPACE_LEDGER);
    }
    return e == ERR_OK ? drop_due(t->txn, d) : e;
}

static err forget_traces(struct cull *u, struct edit *t, const struct due *d)
{
    bool more = false;
    err e = ledger_forget_due(t, &u->looked, &more);
    return e == ERR_OK && !more ? drop_due(t->txn, d) : e;
}

static err cull_render(struct cull *u, struct edit *t, const struct due *d, struct page_name name,
                       bool *culled)
{
    struct page_row row;
    err e = look_get(&t->look.title, name, &row);
    if (e == ERR_NOT_FOUND || (e == ERR_OK && row.due_stored.ns != d->at.ns))
        return drop_due(t->txn, d); /* filed under what no longer holds */
    if (e == ERR_CORRUPT)
        return drop_damaged(t, d, SPACE_RENDER);
    if (e != ERR_OK)
        return e;
    if (title_alive(&t->look.title, &row))
        return title_update(&t->look.title, &row); /* a changed policy keeps it longer */
    int64_t overdue = t->look.title.now.ns - row.r.due_at.ns;
    if (overdue > u->overdue_ns_max)
        u->overdue_ns_max = overdue;
    *culled = true;
    return title_remove(&t->look.title, &row, PAGE_CULLED);
}

/* A title whose own row cannot be read keeps what it has, and pages_check names it; the others are
 * culled. So does what a due row without meaning was for. */
static err pass_over(struct cull *u, struct engine_txn *txn, const struct due *d)
{
    atomic_fetch_add(&u->pages->damaged, 1);
    return drop_due(txn, d);
}

static err cull_one(struct cull *u, struct engine_txn *txn, unsigned i)
{
    const struct due *d = &u->dues[i];
    struct page_key_parts parts;
    struct page_key key;
    struct edit t;
    u->culled[i] = false;
    if (d->damaged)
        return pass_over(u, txn, d);
    bool right = d->kind == DUE_TRACES ? page_key_title_parse(d->row_key, &parts)
                                       : page_key_parse(d->row_key, &parts);
    INVARIANT(right);
    struct page_bucket *b = pages_numbered(u->pages, parts.bucket);
    if (b == NULL)
        return pass_over(u, txn, d); /* the catalog knows every number ever given */
    page_key_title(&key, parts.bucket, parts.domain, parts.title);
    err e = edit_begin(&t, txn, b, &key);
    if (e == ERR_CORRUPT)
        return pass_over(u, txn, d);
    if (e != ERR_OK)
        return e;
    switch (d->kind) {
    case DUE_RENDER:
        e = cull_render(u, &t, d, parts.name, &u->culled[i]);
        break;
    case DUE_LEDGER:
        e = forget_trace(&t, d, parts.name);
        break;
    case DUE_TRACES:
        e = forget_traces(u, &t, d);
        break;
    }
    return e == ERR_OK ? edit_end(&t) : e;
}

static err cull_decide(struct engine_txn *t, void *ctx)
{
    struct cull *u = ctx;
    u->overdue_ns_max = 0;
    u->looked = 0;
    err e = collect(u, t);
    unsigned done = 0;
    while (done < u->count && e == ERR_OK && u->looked <= TRACES_LOOKED_MAX)
        e = cull_one(u, t, done++);
    u->count = done;
    return e;
}

static void cull_told(struct cull *u)
{
    struct page_key_parts parts;
    uint64_t culled = 0, before = atomic_load(&u->pages->overdue_ns_max),
             now = (uint64_t)u->overdue_ns_max;
    for (unsigned i = 0; i < u->count; i++) {
        if (!u->culled[i] || !page_key_parse(u->dues[i].row_key, &parts))
            continue;
        culled++;
        pages_tell(u->pages, parts.bucket, parts.domain, parts.title);
    }
    atomic_fetch_add(&u->pages->culled, culled);
    while (before < now && !atomic_compare_exchange_weak(&u->pages->overdue_ns_max, &before, now))
        continue;
}

static err cull_batch(struct pages *p)
{
    struct cull u = { .pages = p, .count_max = PAGE_CULL_BATCH };
    const struct engine_update update = { .decide = cull_decide, .ctx = &u, .frees = true };
    u.dues = calloc(PAGE_CULL_BATCH, sizeof(*u.dues));
    u.culled = calloc(PAGE_CULL_BATCH, sizeof(*u.culled));
    INVARIANT(u.dues != NULL);
    INVARIANT(u.culled != NULL);
    err e = engine_submit_wait(p->engine, &update);
    while (e == ERR_FULL && u.count_max > 1) {
        u.count_max /= CULL_SHRINK;
        e = engine_submit_wait(p->engine, &update);
    }
    if (e == ERR_OK)
        cull_told(&u);
    free(u.culled);
    free(u.dues);
    return e;
}

err pages_upkeep(struct pages *p, bool *more, store_time *next)
{
    MAGIC_CHECK(p, PAGES_MAGIC);
    bool replanning = false;
    err e = next_due(p, next);
    if (e == ERR_OK && !store_time_before(clock_store(p->clock), *next))
        e = cull_batch(p);
    for (unsigned i = 0; i < p->count && e == ERR_OK && !replanning; i++)
        if (!atomic_load(&p->buckets[i].replanned)) {
            e = bucket_replan(&p->buckets[i], &replanning);
            replanning = true; /* this one again, or the next one */
        }
    if (e == ERR_OK)
        e = next_due(p, next);
    if (e == ERR_OK)
        *more = replanning || !store_time_before(clock_store(p->clock), *next);
    return e;
}

/* ---- planning anew ---- */

struct replan {
    struct page_bucket *bucket;
    struct page_key (*keys)[PAGE_CULL_BATCH];
    unsigned count, planned;
    bool over;
};

/* The next keys of the bucket from the cursor on, but for damaged rows; leaves the cursor behind
 * them. */
static err replan_collect(struct replan *r, struct engine_txn *t, struct page_key *cursor)
{
    struct page_key first;
    char end[PAGE_BOUND_BYTES_MAX];
    put_be16(first.p, r->bucket->number);
    first.n = 2;
    struct engine_range range = { .space = SPACE_RENDER,
                                  .from = page_key_str(cursor->n > 0 ? cursor : &first),
                                  .until = engine_prefix_end(page_key_str(&first), end) };
    struct engine_cursor *c = engine_cursor_open(engine_txn_view(t), &range);
    struct engine_row found;
    err e = ERR_OK;
    r->count = 0;
    for (unsigned passed = 0; r->count < PAGE_CULL_BATCH && passed < PAGE_DAMAGED_MAX;) {
        struct page_key *k = &(*r->keys)[r->count];
        e = engine_cursor_next(c, &found);
        if (e != ERR_OK && (e != ERR_CORRUPT || found.key.n == 0))
            break;
        page_key_of(k, found.key);
        bool usable = e == ERR_OK && k->n > 0;
        r->count += usable;
        passed += !usable;
    }
    engine_cursor_close(&c);
    r->over = e == ERR_NOT_FOUND;
    if (r->count > 0) {
        *cursor = (*r->keys)[r->count - 1];
        page_key_after(cursor);
    }
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static err replan_one(struct replan *r, struct engine_txn *txn, const struct page_key *row_key)
{
    struct page_key_parts parts;
    struct page_key key;
    struct page_row row;
    struct edit t;
    if (!page_key_parse(page_key_str(row_key), &parts))
        return ERR_CORRUPT;
    page_key_title(&key, parts.bucket, parts.domain, parts.title);
    err e = edit_begin(&t, txn, r->bucket, &key);
    if (e == ERR_OK)
        e = look_get(&t.look.title, parts.name, &row);
    const struct page_plan *plan = &r->bucket->plan;
    if (e == ERR_CORRUPT)
        return ERR_OK; /* one damaged row does not keep the others from the new policy; pages_check
                          tells */
    if (e != ERR_OK || row.plan == plan->number ||
        !store_time_before(plan->changed_at, row.due_stored))
        return e; /* gone before: its due row stands, a cull will take it */
    r->planned++;
    return title_update(&t.look.title, &row);
}

static err replan_decide(struct engine_txn *t, void *ctx)
{
    struct replan *r = ctx;
    struct page_key cursor;
    r->planned = 0;
    err e = catalog_cursor_get(t, r->bucket, &cursor);
    if (e == ERR_OK)
        e = replan_collect(r, t, &cursor);
    for (unsigned i = 0; i < r->count && e == ERR_OK; i++)
        e = replan_one(r, t, &(*r->keys)[i]);
    if (e != ERR_OK)
        return e;
    return r->over ? catalog_replanned(t, r->bucket)
                   : catalog_cursor_put(t, r->bucket, page_key_str(&cursor));
}

err bucket_replan(struct page_bucket *b, bool *more)
{
    struct replan r = { .bucket = b };
    r.keys = calloc(1, sizeof(*r.keys));
    INVARIANT(r.keys != NULL);
    err e = engine_update_wait(b->pages->engine, replan_decide, &r);
    free(r.keys);
    if (e != ERR_OK)
        return e;
    atomic_fetch_add(&b->pages->replanned, r.planned);
    if (r.over)
        atomic_store(&b->replanned, true);
    *more = !r.over;
    return ERR_OK;
}
