/* cull.c - what time does: renders past due become traces, traces are forgotten, changed policies
 * planned.
 *
 * The first due row says whether there is anything to do; a batch takes the next PAGE_CULL_BATCH of
 * them in one update. The cost of one cull is a few seeks, whatever its title went through. */
#include "bucket/ledger.h"

#include <stdlib.h>
#include <string.h>

/* One cull update, on the stack of cull_batch. The committer fills in what was done. */
struct cull {
    struct pages *pages;
    /* max of this update: PAGE_CULL_BATCH, less where there is little room */
    struct due_batch dues;
    bool *culled; /* which of them removed a render */
    struct feed_batch *changes;
    unsigned looked; /* at traces, in this update */
    int64_t overdue_ns_max;
};
/* A batch that has looked at TRACES_LOOKED_MAX traces takes no more due rows: each trace may
 * write two rows, and the committer serves nobody meanwhile. CULL_SHRINK: by how much a batch
 * shrinks on a full disk. */
enum { TRACES_LOOKED_MAX = 4096, CULL_SHRINK = 4 };

/* When the first row falls due; NEVER: nothing is filed at all. */
static err next_due(struct pages *p, store_time *at)
{
    struct engine_view *v = engine_view_begin(p->engine);
    err e = due_next(v, &page_due, at);
    engine_view_end(&v);
    return e;
}

/* A row that is due and cannot be read goes without a trace: else it would keep all rows behind
 * it from being culled. */
static err drop_damaged(struct edit *t, const struct due_entry *d, enum engine_space space)
{
    /* Behind the byte of its kind, a due row is named by the key of its row. */
    err e = engine_txn_delete(t->txn, space, str_skip(due_of(d), 1));
    return e == ERR_OK ? due_drop(t->txn, &page_due, d) : e;
}

/* DUE_LEDGER: one trace, filed alone by a store before. */
static err forget_trace(struct edit *t, const struct due_entry *d, struct page_name name)
{
    err e = ledger_remove(t, name);
    if (e == ERR_CORRUPT) {
        /* The row counted as one trace. */
        t->look.row.ledger_count -= t->look.row.ledger_count > 0;
        return drop_damaged(t, d, SPACE_LEDGER);
    }
    return e == ERR_OK ? due_drop(t->txn, &page_due, d) : e;
}

/* DUE_TRACES: the traces of a title that are to be forgotten by now. While there are more the
 * due row stays, and a later batch goes on. */
static err forget_traces(struct cull *u, struct edit *t, const struct due_entry *d)
{
    bool more = false;
    err e = ledger_forget_due(t, &u->looked, &more);
    return e == ERR_OK && !more ? due_drop(t->txn, &page_due, d) : e;
}

/* Removes a render that is due, and leaves a trace. *culled: it was removed. */
static err cull_render(struct cull *u, struct edit *t, const struct due_entry *d,
                       struct page_name name, bool *culled)
{
    struct page_row row;
    err e = look_get(&t->look.title, name, &row);
    if (e == ERR_NOT_FOUND || (e == ERR_OK && row.due_stored.ns != d->at.ns))
        return due_drop(t->txn, &page_due, d); /* filed under what no longer holds */
    if (e == ERR_CORRUPT)
        return drop_damaged(t, d, SPACE_RENDER);
    if (e != ERR_OK)
        return e;
    if (title_alive(&t->look.title, &row))
        return title_update(&t->look.title, &row); /* a changed policy keeps it longer */
    /* How late the cull came: the greatest delay is a metric. */
    int64_t overdue = t->look.title.now.ns - row.r.due_at.ns;
    if (overdue > u->overdue_ns_max)
        u->overdue_ns_max = overdue;
    *culled = true;
    return title_remove(&t->look.title, &row, PAGE_CULLED);
}

/* Drops the due row of a title whose own row cannot be read, or a due row that names nothing: so
 * the others are culled. Such a title keeps its rows, and pages_check names it. */
static err pass_over(struct cull *u, struct engine_txn *txn, const struct due_entry *d)
{
    atomic_fetch_add(&u->pages->damaged, 1);
    return due_drop(txn, &page_due, d);
}

/* Works off one due row. The title's own row is written at its end: the next due row of the same
 * title reads it again. */
static err cull_one(struct cull *u, struct engine_txn *txn, unsigned i)
{
    const struct due_entry *d = &u->dues.entries[i];
    struct page_key_parts parts;
    enum page_due_kind kind;
    struct page_key key;
    struct edit t;
    str row_key;
    u->culled[i] = false;
    if (!page_due_parse(due_of(d), &kind, &row_key))
        return pass_over(u, txn, d);
    bool right = kind == DUE_TRACES ? page_key_title_parse(row_key, &parts)
                                    : page_key_parse(row_key, &parts);
    /* page_due_parse has checked the key. */
    INVARIANT(right);
    struct page_bucket *b = pages_numbered(u->pages, parts.bucket);
    if (b == NULL)
        return pass_over(u, txn, d); /* the catalog knows every number ever given */
    page_key_title(&key, parts.bucket, parts.domain, parts.title);
    err e = edit_begin(&t, txn, b, &key, u->changes);
    if (e == ERR_CORRUPT)
        return pass_over(u, txn, d);
    if (e != ERR_OK)
        return e;
    switch (kind) {
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

/* The engine may run a decision again: counters start anew each time. */
static err cull_decide(struct engine_txn *t, void *ctx)
{
    struct cull *u = ctx;
    u->overdue_ns_max = 0;
    u->looked = 0;
    feed_batch_clear(u->changes, engine_txn_now(t));
    err e = due_take(engine_txn_view(t), &page_due, engine_txn_now(t), &u->dues);
    unsigned done = 0;
    while (done < u->dues.count && e == ERR_OK && u->looked <= TRACES_LOOKED_MAX)
        e = cull_one(u, t, done++);
    /* cull_done goes through those that were worked off alone. */
    u->dues.count = done;
    return e == ERR_OK ? feed_batch_append(u->changes, t) : e;
}

/* On the committer, as all that changes titles. */
static void cull_done(void *ctx, err why)
{
    struct cull *u = ctx;
    if (why != ERR_OK)
        return; /* perhaps a smaller batch follows */
    struct page_key_parts parts;
    uint64_t culled = 0, before = atomic_load(&u->pages->overdue_ns_max),
             now = (uint64_t)u->overdue_ns_max;
    for (unsigned i = 0; i < u->dues.count; i++) {
        if (!u->culled[i] || !page_key_parse(str_skip(due_of(&u->dues.entries[i]), 1), &parts))
            continue;
        culled++;
        pages_tell(u->pages, parts.bucket, parts.domain, parts.title);
    }
    atomic_fetch_add(&u->pages->culled, culled);
    /* Keeps the greatest delay since the start. */
    while (before < now && !atomic_compare_exchange_weak(&u->pages->overdue_ns_max, &before, now))
        continue;
    feed_batch_tell(&u->changes);
}

/* frees: a cull may use the reserve of a full disk. */
static err cull_batch(struct pages *p)
{
    struct cull u = { .pages = p,
                      .dues.max = PAGE_CULL_BATCH,
                      .changes = feed_batch_new(&p->feed) };
    const struct engine_update update = {
        .decide = cull_decide, .done = cull_done, .ctx = &u, .frees = true
    };
    u.dues.entries = calloc(PAGE_CULL_BATCH, sizeof(*u.dues.entries));
    u.culled = calloc(PAGE_CULL_BATCH, sizeof(*u.culled));
    INVARIANT(u.dues.entries != NULL);
    INVARIANT(u.culled != NULL);
    err e = engine_submit_wait(p->engine, &update);
    /* What does not fit may fit in part: a fourth of the batch, and so on down to one row. */
    while (e == ERR_FULL && u.dues.max > 1) {
        u.dues.max /= CULL_SHRINK;
        e = engine_submit_wait(p->engine, &update);
    }
    feed_batch_free(&u.changes);
    free(u.culled);
    free(u.dues.entries);
    return e;
}

err pages_upkeep(struct pages *p, bool *more, store_time *next)
{
    MAGIC_CHECK(p, PAGES_MAGIC);
    bool replanning = false;
    err e = next_due(p, next);
    if (e == ERR_OK && !store_time_before(clock_store(p->clock), *next))
        e = cull_batch(p);
    /* Replanning runs beside the culls: one batch of one bucket in each call. */
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

/* One batch of replanning, on the stack of bucket_replan. */
struct replan {
    struct page_bucket *bucket;
    struct page_key (*keys)[PAGE_CULL_BATCH]; /* of the batch */
    unsigned count, planned;                  /* count: keys; planned: rows that were written */
    bool over;                                /* no row of the bucket is left behind the batch */
    struct feed_batch *changes;
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
    /* A run of damaged rows is gone past as long as it is at most PAGE_DAMAGED_MAX long. */
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

/* Writes one row as the plan in force sees it, with that plan's number (row_encode in edit.c). */
static err replan_one(struct replan *r, struct engine_txn *txn, const struct page_key *row_key)
{
    struct page_key_parts parts;
    struct page_key key;
    struct page_row row;
    struct edit t;
    if (!page_key_parse(page_key_str(row_key), &parts))
        return ERR_CORRUPT;
    page_key_title(&key, parts.bucket, parts.domain, parts.title);
    err e = edit_begin(&t, txn, r->bucket, &key, r->changes);
    if (e == ERR_OK)
        e = look_get(&t.look.title, parts.name, &row);
    const struct page_plan *plan = t.look.title.plan;
    if (e == ERR_CORRUPT)
        return ERR_OK; /* one damaged row does not keep the others from the new policy; pages_check
                          tells */
    if (e != ERR_OK || row.plan == plan->number ||
        !store_time_before(plan->changed_at, row.due_stored))
        return e; /* gone before: its due row stands, a cull will take it */
    r->planned++;
    return title_update(&t.look.title, &row);
}

/* Rows and cursor are written in one update: a restart plans no row twice, and leaves none out. */
static err replan_decide(struct engine_txn *t, void *ctx)
{
    struct replan *r = ctx;
    struct page_key cursor;
    r->planned = 0;
    feed_batch_clear(r->changes, engine_txn_now(t));
    err e = catalog_cursor_get(t, r->bucket, &cursor);
    if (e == ERR_OK)
        e = replan_collect(r, t, &cursor);
    for (unsigned i = 0; i < r->count && e == ERR_OK; i++)
        e = replan_one(r, t, &(*r->keys)[i]);
    if (e == ERR_OK)
        e = feed_batch_append(r->changes, t);
    if (e != ERR_OK)
        return e;
    return r->over ? bucket_replanned(t, r->bucket)
                   : catalog_cursor_put(t, r->bucket, page_key_str(&cursor));
}

/* On the committer. */
static void replan_done(void *ctx, err why)
{
    struct replan *r = ctx;
    if (why != ERR_OK)
        return;
    feed_batch_tell(&r->changes);
    /* No row of an earlier plan is left: the policy may change again. */
    if (r->over)
        atomic_store(&r->bucket->replanned, true);
}

/* Blocks until the batch is on disk. What it planned is counted once it is there. */
err bucket_replan(struct page_bucket *b, bool *more)
{
    struct replan r = { .bucket = b, .changes = feed_batch_new(&b->pages->feed) };
    const struct engine_update update = { .decide = replan_decide, .done = replan_done, .ctx = &r };
    r.keys = calloc(1, sizeof(*r.keys));
    INVARIANT(r.keys != NULL);
    err e = engine_submit_wait(b->pages->engine, &update);
    feed_batch_free(&r.changes);
    free(r.keys);
    if (e != ERR_OK)
        return e;
    atomic_fetch_add(&b->pages->replanned, r.planned);
    *more = !r.over;
    return ERR_OK;
}
