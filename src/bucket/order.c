/* order.c - what somebody asks for one render or title: extend, stash, unstash, hold, release,
 * purge, mark.
 *
 * A purge deletes at most PURGE_BATCH renders an update, oldest first, so that the latest stays
 * until the last one; the fence is in the first, and what is put after it is spared. A release ends
 * at most RELEASE_BATCH holds an update, newest first. */
#include "bucket/mark.h"
#include "bucket/page_write.h"

#include <string.h>

enum {
    RELEASE_BATCH = 1024,
    PURGE_BATCH = 2048,
    PURGE_CHUNK = 128
}; /* a render purged writes up to 6 rows */

static const struct page_policy *policy_of(const struct page_order *o)
{
    return &o->bucket->plan.policy;
}

/* ---- pins ---- */

static err find_ordered(struct page_order *o, const struct title *t, struct page_row *row)
{
    struct page_which w = { .domain = o->domain, .title = o->title, .name = o->name };
    w.select = !o->has_rev ? SELECT_LATEST : o->has_tid ? SELECT_EXACT : SELECT_REV;
    return look_find(&t->look, &w, row, &o->trace);
}

static err write_pin(struct page_order *o, struct title *t, struct page_row *row)
{
    retention_repin(policy_of(o), &row->r, t->look.now);
    o->changed = true;
    return title_update(t, row);
}

static err pin(struct page_order *o, struct title *t)
{
    struct page_row row;
    store_time now = t->look.now, until;
    err e = find_ordered(o, t, &row);
    if (e != ERR_OK)
        return e;
    bool extends = o->kind == ORDER_EXTEND || (o->kind == ORDER_STASH && o->named);
    if (extends && retention_wants_extension(policy_of(o), &row.r, now)) {
        retention_extend(policy_of(o), &row.r, now);
        o->extended = true;
        e = write_pin(o, t, &row);
    }
    if (e == ERR_OK && o->kind == ORDER_STASH) {
        until = store_time_add(now, policy_of(o)->stash_ttl_ns);
        if (store_time_before(row.r.stash_until, until)) {
            o->pinned_ns = policy_of(o)->stash_ttl_ns - retention_stash_left(&row.r, now);
            row.r.stash_until = until;
            e = write_pin(o, t, &row);
        }
    }
    if (o->kind == ORDER_HOLD) {
        if (!store_time_before(now, o->until)) {
            err_note_set(&o->note, "a hold must end in the future");
            return ERR_BAD;
        }
        row.r.hold_until = o->until;
        e = write_pin(o, t, &row);
    }
    o->render = row.r;
    return e;
}

static err release_all(struct page_order *o, struct title *t, uint64_t rev)
{
    struct page_name low = page_name_low(rev), high = o->phase == 0 ? page_name_high(rev) : o->from;
    struct page_row row;
    for (unsigned ended = 0; ended < RELEASE_BATCH;
         ended++) { /* a walk is not kept open over its own writes */
        struct look_walk w;
        look_walk_open(&w, &t->look, low, high, false);
        err e;
        do
            e = look_walk_alive(&w, &row);
        while (e == ERR_OK && row.r.hold_until.ns == 0);
        look_walk_close(&w);
        if (e != ERR_OK)
            return e == ERR_NOT_FOUND ? ERR_OK : e;
        row.r.hold_until = STORE_TIME_ZERO;
        e = write_pin(o, t, &row);
        if (e != ERR_OK)
            return e;
        if (page_name_cmp(row.r.name, o->render.name) == 0)
            o->render = row.r;
        high = row.r.name;
    }
    o->more = true;
    o->next_from = high;
    return ERR_OK;
}

static err release(struct page_order *o, struct title *t)
{
    struct page_row row;
    if (o->phase > 0)
        return release_all(o, t, o->render.name.rev);
    err e = find_ordered(o, t, &row);
    if (e != ERR_OK)
        return e;
    o->render = row.r;
    if (!o->has_tid)
        return release_all(o, t, row.r.name.rev);
    if (row.r.hold_until.ns == 0)
        return ERR_OK;
    row.r.hold_until = STORE_TIME_ZERO;
    e = write_pin(o, t, &row);
    o->render = row.r;
    return e;
}

static err unstash(struct page_order *o, struct title *t)
{
    struct page_row row;
    err e = look_get(&t->look, o->name, &row);
    if (e == ERR_NOT_FOUND || (e == ERR_OK && !look_alive(&t->look, &row)))
        return ERR_OK;
    if (e != ERR_OK)
        return e;
    o->pinned_ns = retention_stash_left(&row.r, t->look.now);
    if (o->drop) {
        o->changed = true;
        o->purged_now++;
        return title_remove(t, &row, PAGE_PURGED);
    }
    if (row.r.stash_until.ns == STORE_TIME_ZERO.ns)
        return ERR_OK;
    row.r.stash_until = STORE_TIME_ZERO;
    return write_pin(o, t, &row);
}

/* ---- purge ---- */

struct purge {
    struct page_order *order;
    struct title *title;
    struct page_name low, high, next; /* next: where to go on */
    unsigned looked;
    bool took_latest, at_end;
};

/* In a later update: was this render put after the purge began? (In the same instant: as if
 * before.) */
static bool is_spared(const struct page_order *o, const struct page_row *row)
{
    return o->phase > 0 && store_time_before(o->fenced_at, row->r.stored_at);
}

static err purge_one(struct purge *p, struct page_name name)
{
    struct page_row row;
    struct page_key key;
    err e = look_get(&p->title->look, name, &row);
    if (e ==
        ERR_CORRUPT) { /* goes without a trace; a cull will find its due row filed for nothing */
        page_key_name(&key, &p->title->look.title, name);
        p->took_latest = true; /* it may have been */
        p->order->purged_now++;
        return engine_txn_delete(p->title->txn, SPACE_RENDER, page_key_str(&key));
    }
    if (e != ERR_OK || is_spared(p->order, &row))
        return e;
    if (!look_alive(&p->title->look, &row))
        return title_remove(p->title, &row, PAGE_CULLED);
    p->took_latest |= row.r.superseded_at.ns == INT64_MAX;
    p->order->purged_now++;
    return title_remove(p->title, &row, PAGE_PURGED);
}

/* The next name a walk over names comes by. A row that fails its sum has one too, unless that is
 * what is damaged: then it is gone past, and pages_check tells. */
static err next_name(struct engine_cursor *c, struct page_name after, struct page_name *out)
{
    struct page_key_parts parts;
    struct engine_row found;
    for (unsigned passed = 0; passed < PAGE_DAMAGED_MAX; passed++) {
        err e = engine_cursor_next(c, &found);
        if (e != ERR_OK && (e != ERR_CORRUPT || found.key.n == 0))
            return e;
        if (!page_key_parse(found.key, &parts) || page_name_cmp(parts.name, after) < 0)
            continue;
        *out = parts.name;
        return ERR_OK;
    }
    return ERR_CORRUPT;
}

/* Names first, removals after: a walk is not kept open over its own writes. */
static err purge_chunk(struct purge *p)
{
    struct page_name names[PURGE_CHUNK];
    unsigned count = 0;
    err e = ERR_OK;
    struct engine_cursor *c = look_names_open(&p->title->look, p->next, p->high, true);
    while (count < PURGE_CHUNK && e == ERR_OK) {
        e = next_name(c, count > 0 ? names[count - 1] : p->next, &names[count]);
        count += e == ERR_OK;
    }
    engine_cursor_close(&c);
    p->at_end = e == ERR_NOT_FOUND;
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    e = ERR_OK;
    for (unsigned i = 0; i < count && e == ERR_OK; i++)
        e = purge_one(p, names[i]);
    p->looked += count;
    if (count > 0) {
        p->next = names[count - 1];
        p->at_end |= page_name_cmp(p->next, p->high) >= 0;
        if (p->next.tid.low++ == UINT64_MAX && p->next.tid.ticks++ == UINT64_MAX)
            p->next.rev++;
    }
    return e;
}

/* The next render is latest again, or waits for what is made elsewhere. */
static err promote(struct purge *p)
{
    struct page_row row;
    err e = look_newest_shown(&p->title->look, page_name_first, page_name_last, &row);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if (row.r.superseded_at.ns == INT64_MAX)
        return ERR_OK;
    if (p->order->elsewhere)
        row.r.superseded_by.tid = (struct tid){ 0 };
    else
        retention_make_latest(policy_of(p->order), &row.r);
    return title_update(p->title, &row);
}

/* One render of a group is gone by order: the next one is among its newest `count` again. */
static err refill_group(struct purge *p)
{
    const struct page_policy *policy = policy_of(p->order);
    struct page_name low, high;
    struct page_row row;
    struct look_walk w;
    err e = ERR_OK;
    bool found = false;
    retention_group(policy, p->order->name, &low, &high);
    look_walk_open(&w, &p->title->look, low, high, false);
    for (uint32_t rank = 0; rank < policy->count && !found && e == ERR_OK; rank++) {
        e = look_walk_alive(&w, &row);
        found = e == ERR_OK && row.r.out_at.ns != INT64_MAX;
    }
    look_walk_close(&w);
    if (found) {
        retention_keep(policy, &row.r);
        e = title_update(p->title, &row);
    }
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* A row of an earlier plan is settled by how many precede it: before one of those goes, its group
 * is written as the plan sees it, or what ran out would come back. Only while a policy change is
 * being worked in. */
static err settle_group(struct page_order *o, struct title *t)
{
    const struct page_plan *plan = &o->bucket->plan;
    struct page_name low, high;
    struct page_row row;
    unsigned written = 0;
    err e = ERR_OK;
    retention_group(&plan->policy, o->name, &low, &high);
    while (e == ERR_OK && written < PURGE_BATCH) {
        struct look_walk w;
        look_walk_open(&w, &t->look, low, high,
                       true); /* lowest first: none is settled by what is written */
        do
            e = look_walk_next(&w, &row);
        while (e == ERR_OK &&
               (row.plan == plan->number || !store_time_before(plan->changed_at, row.due_stored)));
        look_walk_close(&w);
        low = row.r.name;
        written++;
        if (e == ERR_OK)
            e = title_update(t, &row);
    }
    o->settling = e == ERR_OK;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static err purge(struct page_order *o, struct title *t)
{
    struct purge p = { .order = o, .title = t, .low = page_name_first, .high = page_name_last };
    if (o->has_rev) {
        p.low = o->has_tid ? o->name : page_name_low(o->name.rev);
        p.high = o->has_tid ? o->name : page_name_high(o->name.rev);
    }
    p.next = o->phase == 0 ? p.low : o->from;
    err e = ERR_OK;
    if (o->has_tid && retention_grouped(policy_of(o)) && !atomic_load(&o->bucket->replanned)) {
        e = settle_group(o, t);
        o->more = o->settling;
        if (e != ERR_OK || o->settling)
            return e;
    }
    if (o->phase == 0) {
        o->fenced_at = t->look.now;
        e = title_fence_set(t, o->has_rev ? &o->name.rev : NULL, o->has_tid ? &o->name.tid : NULL,
                            o->fenced_at);
    }
    while (e == ERR_OK && !p.at_end && p.looked < PURGE_BATCH)
        e = purge_chunk(&p);
    if (e == ERR_OK && o->has_tid && o->purged_now > 0 && retention_grouped(policy_of(o)))
        e = refill_group(&p);
    if (e == ERR_OK && p.took_latest)
        e = promote(&p);
    o->more = !p.at_end;
    o->changed = o->purged_now > 0;
    o->next_from = p.next;
    return e;
}

/* ---- what the origin says ---- */

static err mark(struct page_order *o, struct title *t)
{
    struct title_mark m = { .low = page_name_low(o->name.rev),
                            .high = page_name_high(o->rev_last),
                            .state = o->mark,
                            .said_at = o->said_at };
    if (o->phase > 0)
        m.high = o->from;
    err e = title_mark_set(t, &m);
    o->changed = m.changed;
    o->more = m.more;
    o->next_from = m.next;
    return e;
}

/* ---- one update ---- */

static err order_decide(struct engine_txn *txn, void *ctx)
{
    struct page_order *o = ctx;
    struct page_key key;
    struct title t;
    o->changed = o->extended = o->more = o->settling = false;
    o->purged_now = 0;
    o->pinned_ns = 0;
    page_key_title(&key, o->bucket->number, o->domain, o->title);
    err e = title_begin(&t, txn, o->bucket, &key);
    if (e != ERR_OK)
        return e;
    if (o->phase == 0)
        e = look_allowed(&t.look, o->allow, o->allow_ctx);
    if (e != ERR_OK)
        return e;
    switch (o->kind) {
    case ORDER_EXTEND:
    case ORDER_STASH:
    case ORDER_HOLD:
        e = pin(o, &t);
        break;
    case ORDER_UNSTASH:
        e = unstash(o, &t);
        break;
    case ORDER_RELEASE:
        e = release(o, &t);
        break;
    case ORDER_PURGE:
        e = purge(o, &t);
        break;
    case ORDER_MARK:
        e = mark(o, &t);
        break;
    }
    return e == ERR_OK ? title_end(&t) : e;
}

static void order_submit(struct page_order *o);

static void order_done(void *ctx, err why)
{
    struct page_order *o = ctx;
    struct pages *pages = o->bucket->pages;
    if (why == ERR_OK) {
        o->purged += o->purged_now;
        atomic_fetch_add(&pages->purged, o->purged_now);
        atomic_fetch_add(&pages->extended, o->extended);
        if (o->changed)
            pages_tell(pages, o->bucket->number, o->domain, o->title);
        if (o->more) {
            if (!o->settling) {
                o->phase++;
                o->from = o->next_from;
            }
            order_submit(o);
            return;
        }
    }
    o->done(o, why);
}

static void order_submit(struct page_order *o)
{
    o->update =
        (struct engine_update){ .decide = order_decide,
                                .done = order_done,
                                .ctx = o,
                                .deadline = o->phase == 0 ? o->deadline : (mono){ .ns = INT64_MAX },
                                .partition = STR_NONE,
                                .frees = o->kind == ORDER_PURGE || o->kind == ORDER_RELEASE ||
                                         o->kind == ORDER_MARK || o->kind == ORDER_UNSTASH };
    engine_submit(o->bucket->pages->engine, &o->update);
}

void page_order_start(struct page_bucket *b, struct page_order *o)
{
    MAGIC_CHECK(b, PAGE_BUCKET_MAGIC);
    o->bucket = b;
    o->phase = 0;
    o->purged = 0;
    o->from = page_name_first;
    if (o->title.n < 1 || o->title.n > PAGE_TITLE_BYTES_MAX || (o->has_tid && !o->has_rev)) {
        err_note_set(&o->note,
                     "the title is empty or too long, or a tid is given without its revision");
        o->done(o, ERR_BAD);
        return;
    }
    order_submit(o);
}
