/* order.c - what somebody asks for one render or title: extend, stash, unstash, hold, release,
 * purge. One update decides and steps. Where one may not write all, further updates step on. */
#include "bucket/edit.h"

#include <stdlib.h>

/* Rows that one update writes to settle a group. */
enum { SETTLE_BATCH = 2048 };

/* An order until it is over. Owner: the call; order_end frees it. */
struct order_own {
    struct engine_update update;
    unsigned phase;               /* 0: decides; later ones step on */
    bool changed, more, settling; /* settling: rows only, no decision yet */
    uint64_t purged_now;
    struct title_answer answer;
    /* Of one update; the others are of the order. */
    struct feed_batch *changes; /* of one update */
    struct page_name from,
        next_from; /* PURGE, RELEASE of many rows: several updates; where the next goes on */
};

static struct order_own *own_of(const struct page_order *o)
{
    return o->call.own;
}

/* Writes a group as the plan in force sees it, before one of its rows goes. A row of an earlier
 * plan is settled by how many rows precede it: with one gone, a row that ran out would come
 * back. Only while a policy change is being worked in. */
static err settle_group(struct page_order *o, struct edit *t)
{
    const struct page_plan *plan = t->look.title.plan;
    struct page_name low, high;
    struct page_row row;
    unsigned written = 0;
    err e = ERR_OK;
    retention_group(&plan->policy, o->name, &low, &high);
    while (e == ERR_OK && written < SETTLE_BATCH) {
        struct title_walk w;
        title_walk_open(&w, &t->look.title, low, high,
                        true); /* lowest first: none is settled by what is written */
        /* To the next row of an earlier plan that was alive when the plan came. */
        do
            e = title_walk_next(&w, &row);
        while (e == ERR_OK &&
               (row.plan == plan->number || !store_time_before(plan->changed_at, row.due_stored)));
        title_walk_close(&w);
        /* A walk is not kept open over an edit: the next one starts at this name. */
        low = row.r.name;
        written++;
        if (e == ERR_OK)
            e = title_update(&t->look.title, &row);
    }
    /* No more rows: else another update settles on, and decides only then. */
    own_of(o)->settling = e == ERR_OK;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* Does the order take one render of a group away, while rows of an earlier plan are left? */
static bool wants_settling(const struct page_order *o, const struct edit *t)
{
    bool takes = o->kind == ORDER_PURGE ? o->has_tid : o->kind == ORDER_UNSTASH && o->drop;
    return takes && retention_grouped(&t->look.title.plan->policy) &&
           !atomic_load(&o->bucket->replanned);
}

/* ---- one update ---- */

/* Decides, in the first phase. Does not step: settling may have to come first. */
static err order_first(struct page_order *o, struct edit *t)
{
    const struct title_order request = {
        .kind = o->kind,
        .has_rev = o->has_rev,
        .has_tid = o->has_tid,
        .name = o->name,
        .until = o->until,
        .named = o->named,
        .drop = o->drop,
        .elsewhere = o->elsewhere,
        .allow = page_condition_allow(&o->condition),
        .allow_ctx = &o->condition,
    };
    struct title *title = &t->look.title;
    struct title_answer *a = &own_of(o)->answer;
    err e = title_decide_order(title, &request, &o->render, a);
    if (e == ERR_GONE)
        o->trace = a->trace;
    o->pinned_ns = a->pinned_ns;
    if (a->note != NULL)
        err_note_set(&o->note, "%s", a->note);
    return e == ERR_OK && wants_settling(o, t) ? settle_group(o, t) : e;
}

/* Steps the facts, or goes on with the last one. */
static err order_step(struct page_order *o, struct edit *t)
{
    struct order_own *own = own_of(o);
    struct title_part part = { .resumed = own->phase > 0, .from = own->from };
    err e = edit_step(t, &own->answer, &part);
    /* Nothing to do: `changed` and the rest stay as order_decide set them. */
    if (own->answer.facts_count == 0)
        return e;
    own->more = part.more;
    own->next_from = part.next;
    own->changed = part.changed;
    own->purged_now = part.purged;
    /* The answer shows the render as the order left it. */
    if (t->seen.has_last && own->phase == 0)
        o->render = t->seen.last.r;
    return e;
}

/* One update: decides and steps, or settles, or steps on. May run again: the answer of phase 0
 * is made anew. */
static err order_decide(struct engine_txn *txn, void *ctx)
{
    struct page_order *o = ctx;
    struct order_own *own = own_of(o);
    struct page_key key;
    struct edit t;
    own->changed = own->more = own->settling = false;
    own->purged_now = 0;
    page_key_title(&key, o->bucket->number, o->domain, o->title);
    feed_batch_clear(own->changes, engine_txn_now(txn));
    err e = edit_begin(&t, txn, o->bucket, &key, own->changes);
    if (e == ERR_OK && own->phase == 0)
        e = order_first(o, &t);
    /* The decision is thrown away and made again once the group is settled. */
    if (e == ERR_OK && own->settling)
        own->more = true;
    else if (e == ERR_OK)
        e = order_step(o, &t);
    if (e == ERR_OK)
        e = edit_end(&t);
    return e == ERR_OK ? feed_batch_append(own->changes, txn) : e;
}

static void order_submit(struct page_order *o);

/* The memory goes before the call ends: done may free the order. */
static void order_end(struct page_order *o, err why)
{
    free(o->call.own);
    store_call_end(&o->call, why);
}

/* On the committer. Counts, tells, and submits the next update or ends the order. */
static void order_done(void *ctx, err why)
{
    struct page_order *o = ctx;
    struct order_own *own = own_of(o);
    struct pages *pages = o->bucket->pages;
    if (why != ERR_OK) {
        feed_batch_free(&own->changes);
        order_end(o, why);
        return;
    }
    o->purged += own->purged_now;
    atomic_fetch_add(&pages->purged, own->purged_now);
    atomic_fetch_add(&pages->extended, own->phase == 0 && own->answer.extended);
    /* Facts are told once, with the first part; a group that is settled is no fact. */
    if (own->phase == 0 && !own->settling)
        pages_tell_facts(o->bucket, o->domain, o->title, own->answer.facts,
                         own->answer.facts_count);
    if (own->changed)
        pages_tell(pages, o->bucket->number, o->domain, o->title);
    feed_batch_tell(&own->changes);
    if (!own->more) {
        order_end(o, ERR_OK);
        return;
    }
    /* While it settles, the phase stays 0, so that the next update decides. */
    if (!own->settling) {
        own->phase++;
        own->from = own->next_from;
    }
    order_submit(o);
}

/* A purge that has begun is finished: later phases have no deadline. frees: what removes rows
 * may use the reserve of a full disk. */
static void order_submit(struct page_order *o)
{
    struct order_own *own = own_of(o);
    own->changes = feed_batch_new(&o->bucket->pages->feed);
    own->update = (struct engine_update){
        .decide = order_decide,
        .done = order_done,
        .ctx = o,
        .deadline = own->phase == 0 ? o->call.deadline : (mono){ .ns = INT64_MAX },
        .partition = STR_NONE,
        .frees = o->kind == ORDER_PURGE || o->kind == ORDER_RELEASE || o->kind == ORDER_UNSTASH
    };
    engine_submit(o->bucket->pages->engine, &own->update);
}

enum store_start page_order_start(struct page_bucket *b, struct page_order *o)
{
    MAGIC_CHECK(b, PAGE_BUCKET_MAGIC);
    o->bucket = b;
    o->purged = 0;
    /* No row has such a title; a tid means nothing without its revision. */
    if (o->title.n < 1 || o->title.n > PAGE_TITLE_BYTES_MAX || (o->has_tid && !o->has_rev)) {
        err_note_set(&o->note,
                     "the title is empty or too long, or a tid is given without its revision");
        return store_call_done(&o->call, ERR_BAD);
    }
    struct order_own *own = calloc(1, sizeof *own);
    INVARIANT(own != NULL);
    own->from = page_name_first;
    o->call.own = own;
    order_submit(o);
    return STORE_LATER;
}
