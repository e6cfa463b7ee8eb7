/* edit.c - what the title machine writes: rows of renders with their due rows, fences, and the
 * title's own row, which counts fences and traces. */
#include "bucket/ledger.h"

#include <string.h>

/* The machine is given the title; the edit lies around it. */
static struct edit *edit_of(struct title *t)
{
    return CONTAINER_OF(t, struct edit, look.title);
}

err edit_begin(struct edit *t, struct engine_txn *txn, struct page_bucket *b,
               const struct page_key *key, struct feed_batch *changes)
{
    struct engine_row found;
    look_init_key(&t->look, b, engine_txn_view(txn), key);
    t->look.title.now = engine_txn_now(txn);
    /* What the decision sees here the steps behind it need not look for. */
    t->look.title.seen = &t->seen;
    title_seen_init(&t->seen);
    t->txn = txn;
    t->blob = (struct engine_blob){ .n = 0 };
    t->joined = false;
    t->changes = changes;
    /* While a policy change is being decided, an update may be by the plan before or by the next
     * one (plan.c, invariant 2). */
    err e = bucket_plan_decides(b, txn, &t->look.title.plan);
    if (e == ERR_OK)
        e = engine_get(t->look.view, SPACE_TITLE, page_key_str(key), &found);
    if (e == ERR_OK)
        e = page_title_decode(found.value, &t->look.row);
    t->had_row = e == ERR_OK;
    /* edit_end writes the row only if it differs from this. */
    t->as_read = t->look.row;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static bool title_row_eq(const struct page_title_row *a, const struct page_title_row *b)
{
    return a->ledger_count == b->ledger_count && a->fence_count == b->fence_count &&
           a->fenced == b->fenced && a->fence_at.ns == b->fence_at.ns;
}

/* Writes the title's own row where it changed. A title without traces and fences has none. */
err edit_end(struct edit *t)
{
    char value[PAGE_TITLE_ROW_BYTES_MAX];
    str key = page_key_str(&t->look.key);
    bool empty =
        t->look.row.ledger_count == 0 && t->look.row.fence_count == 0 && !t->look.row.fenced;
    if (empty)
        return t->had_row ? engine_txn_delete(t->txn, SPACE_TITLE, key) : ERR_OK;
    if (t->had_row && title_row_eq(&t->look.row, &t->as_read))
        return ERR_OK;
    return engine_txn_put(t->txn, SPACE_TITLE, key, page_title_encode(&t->look.row, value),
                          STR_NONE);
}

/* Stamps the row with the plan that it is written by, and with the instant that its due row
 * gets. */
static str row_encode(const struct edit *t, struct page_row *row, char *value)
{
    const struct page_plan *plan = t->look.title.plan;
    row->plan = plan->number;
    row->policy = plan->policy.kind;
    row->due_stored = row->r.due_at;
    row->r.state = retention_state(&plan->policy, &row->r, t->look.title.now);
    return page_row_encode(row, value);
}

/* ---- what is told of it ---- */

/* False: to nobody. */
static bool edit_is_followed(const struct edit *t, struct feed_title *of)
{
    struct page_key_parts parts;
    if (t->changes == NULL || !page_key_title_parse(page_key_str(&t->look.key), &parts))
        return false;
    *of =
        (struct feed_title){ .bucket = parts.bucket, .domain = parts.domain, .title = parts.title };
    return true;
}

/* A row is about to be written. */
static void edit_note_row(const struct edit *t, struct page_row *row)
{
    struct feed_title of;
    if (edit_is_followed(t, &of))
        feed_note_row(t->changes, &of, row);
}

static void edit_note_gone(const struct edit *t, const struct page_render *r, enum page_state why)
{
    struct feed_title of;
    if (edit_is_followed(t, &of))
        feed_note(t->changes, &of, why == PAGE_CULLED ? CHANGE_CULLED : CHANGE_PURGED, r);
}

/* ---- rows ---- */

/* replaced: a row of the same name that is gone. Its blob is freed by the put. */
static err edit_insert(struct title *title, struct page_row *row, const struct page_row *replaced)
{
    struct edit *t = edit_of(title);
    char value[ENGINE_VALUE_BYTES_MAX];
    struct page_key key;
    page_key_name(&key, &t->look.key, row->r.name);
    str k = page_key_str(&key);
    const struct due_row due = page_due_row(DUE_RENDER, k);
    row->was.known = false;
    edit_note_row(t, row);
    /* A name has a render or a trace, never both. */
    err e = ledger_remove(t, row->r.name);
    if (e == ERR_OK && replaced != NULL)
        e = due_unfile(t->txn, &page_due, replaced->due_stored, due);
    if (e == ERR_OK)
        e = engine_txn_put_blob(t->txn, SPACE_RENDER, k, row_encode(t, row, value), &t->blob);
    return e == ERR_OK ? due_file(t->txn, &page_due, row->r.due_at, due, STR("")) : e;
}

static err edit_update(struct title *title, struct page_row *row)
{
    struct edit *t = edit_of(title);
    char value[ENGINE_VALUE_BYTES_MAX];
    struct page_key key;
    /* row_encode sets due_stored to the new instant; due_move needs the old one. */
    store_time due = row->due_stored;
    page_key_name(&key, &t->look.key, row->r.name);
    str k = page_key_str(&key);
    edit_note_row(t, row);
    err e = engine_txn_put_value(t->txn, SPACE_RENDER, k, row_encode(t, row, value));
    return e == ERR_OK
               ? due_move(t->txn, &page_due, due, row->r.due_at, page_due_row(DUE_RENDER, k))
               : e;
}

static err edit_remove(struct title *title, const struct page_row *row, enum page_state why,
                       const struct page_trace_row *trace)
{
    struct edit *t = edit_of(title);
    struct page_key key;
    page_key_name(&key, &t->look.key, row->r.name);
    str k = page_key_str(&key);
    edit_note_gone(t, &row->r, why);
    err e = engine_txn_delete(t->txn, SPACE_RENDER, k);
    if (e == ERR_OK)
        e = due_unfile(t->txn, &page_due, row->due_stored, page_due_row(DUE_RENDER, k));
    if (e != ERR_OK)
        return e;
    /* A name that leaves no trace must not keep an older one. */
    return trace != NULL ? ledger_put(t, trace) : ledger_remove(t, row->r.name);
}

/* Nobody knows when a row that cannot be read was due. Its due row stays, and a cull drops that
 * (cull_render). */
static err edit_drop(struct title *title, struct page_name name)
{
    struct edit *t = edit_of(title);
    const struct page_render gone = { .name = name };
    struct page_key key;
    page_key_name(&key, &t->look.key, name);
    edit_note_gone(t, &gone, PAGE_PURGED);
    return engine_txn_delete(t->txn, SPACE_RENDER, page_key_str(&key));
}

static err edit_leave(struct title *title, const struct page_trace_row *trace)
{
    return ledger_put(edit_of(title), trace);
}

/* ---- fences ---- */

/* Puts one fence over the whole title in the place of all its others: there are too many of
 * them, or the purge is of the whole title. */
static err fences_join(struct edit *t, store_time at)
{
    struct page_key until = t->look.key;
    page_key_title_end(&until);
    struct engine_row found;
    struct page_key keys[PAGE_FENCES_MAX + 1];
    unsigned count = 0;
    /* Fences have the title's prefix, as its own row has, and stand behind that. */
    const struct engine_range range = { .space = SPACE_TITLE,
                                        .from = page_key_str(&t->look.key),
                                        .until = page_key_str(&until) };
    struct engine_cursor *c = engine_cursor_open(t->look.view, &range);
    err e = ERR_OK;
    bool more = true;
    while (more && count < COUNT_OF(keys)) {
        e = engine_cursor_next(c, &found);
        more = e == ERR_OK ||
               (e == ERR_CORRUPT && found.key.n > 0); /* one that fails its sum goes too */
        /* The title's own row is the prefix itself: it stays. */
        if (more)
            page_key_of(&keys[count], found.key);
        count += more && keys[count].n > t->look.key.n;
    }
    engine_cursor_close(&c);
    if (!more && e != ERR_NOT_FOUND)
        return e;
    e = ERR_OK;
    for (unsigned i = 0; i < count && e == ERR_OK; i++)
        e = engine_txn_delete(t->txn, SPACE_TITLE, page_key_str(&keys[i]));
    t->look.row.fence_count = 0;
    t->look.row.fence_at = t->look.row.fenced ? store_time_max(t->look.row.fence_at, at) : at;
    t->look.row.fenced = true;
    return e;
}

/* range: without a revision the whole title, without a tid the whole revision. */
static err edit_fence_set(struct title *title, struct page_name range, store_time at)
{
    struct edit *t = edit_of(title);
    struct page_key key;
    struct engine_row found;
    char value[PAGE_FENCE_ROW_BYTES];
    if (range.rev == 0)
        return fences_join(t, at);
    page_key_fence(&key, &t->look.key, &range.rev, page_name_is_unmade(range) ? NULL : &range.tid);
    err e = engine_get(t->look.view, SPACE_TITLE, page_key_str(&key), &found);
    /* One fence more than a title may have: they all become one, and edit_step adds the fact
     * that says so. */
    t->joined = e == ERR_NOT_FOUND && t->look.row.fence_count == PAGE_FENCES_MAX;
    if (t->joined)
        return fences_join(t, at);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    t->look.row.fence_count += e == ERR_NOT_FOUND;
    return engine_txn_put(t->txn, SPACE_TITLE, page_key_str(&key), page_fence_encode(at, value),
                          STR_NONE);
}

static err edit_heard(struct title *t, const struct fact *mark)
{
    (void)t, (void)mark; /* rows that it hides say so; what comes later was asked for later */
    return ERR_OK;
}

const struct title_ops edit_ops = {
    .get = look_get,
    .walk_open = look_walk_open,
    .walk_next = look_walk_next,
    .walk_close = look_walk_close,
    .traces_open = look_traces_open,
    .traces_next = look_traces_next,
    .traces_close = look_traces_close,
    .greatest_known = look_greatest_known,
    .names = look_names,
    .fence = look_fence,
    .silenced = look_silenced,
    .insert = edit_insert,
    .update = edit_update,
    .remove = edit_remove,
    .drop = edit_drop,
    .leave = edit_leave,
    .fence_set = edit_fence_set,
    .heard = edit_heard,
};

/* ---- facts ---- */

/* The instant of a fact and its count within that instant give the order of all facts. */
static void fact_stamp(struct pages *pages, struct fact *f)
{
    pages->fact_n = f->at.ns == pages->fact_at.ns ? pages->fact_n + 1 : 0;
    pages->fact_at = f->at;
    f->n = pages->fact_n;
}

/* Steps a fact with all its parts in this update. Only the last fact of an answer may go on in a
 * later update. */
static err step_whole(struct title *t, const struct fact *f, struct title_part *part)
{
    err e;
    do {
        e = title_step(t, f, part);
        part->resumed = part->more;
        part->from = part->next;
    } while (e == ERR_OK && part->more);
    part->resumed = false;
    return e;
}

err edit_step_fact(struct edit *t, struct fact *f, struct title_part *part)
{
    fact_stamp(t->look.bucket->pages, f);
    return title_step(&t->look.title, f, part);
}

/* Only the one fact of an order is stepped in several updates. FACT_FENCE is added behind it, in
 * the update of the first part. */
err edit_step(struct edit *t, struct title_answer *a, struct title_part *part)
{
    struct pages *pages = t->look.bucket->pages;
    struct title *title = &t->look.title;
    err e = ERR_OK;
    part->more = false;
    /* A later update of the same order: the fact has its stamp already. */
    if (part->resumed)
        return title_step(title, &a->facts[0], part);
    for (unsigned i = 0; i < a->facts_count && e == ERR_OK; i++) {
        fact_stamp(pages, &a->facts[i]);
        e = i + 1 < a->facts_count ? step_whole(title, &a->facts[i], part)
                                   : title_step(title, &a->facts[i], part);
    }
    /* edit_fence_set joined all fences: the facts say so as well, as the rows follow from them. */
    if (e != ERR_OK || !t->joined)
        return e;
    INVARIANT(a->facts_count < TITLE_FACTS_MAX);
    struct fact *f = &a->facts[a->facts_count++];
    *f = (struct fact){ .what = FACT_FENCE, .at = a->facts[0].at, .joined_at = a->facts[0].at };
    fact_stamp(pages, f);
    return ERR_OK;
}
