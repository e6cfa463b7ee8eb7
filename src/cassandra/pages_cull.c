/* pages_cull.c - the upkeep of a title, in steps that may stop anywhere:
 *
 *   BYTES   ranges of bytes are deleted, as of the settled horizon
 *   ANEW    the puts whose bytes went are written again without contents, so that they are not
 *           deleted again and again
 *   NAMES   the fact is written that names are forgotten, before any of their facts goes
 *   FACTS   facts are deleted
 *   LISTED  of a title whose last put was forgotten long ago, the row goes by which it is listed
 *
 * Why long ago: a put that saw another put writes no such row. A put under way may have seen a put
 * that is forgotten now. Such a put is stamped at or before the horizon once the forgetting lies as
 * far behind the horizon as the horizon behind the clock. By then its fact is seen, and the row
 * stays. The row of a put that saw none is newer than the horizon, and stays, too.
 *
 * The horizon lies so far behind the clock that no fact will come that is older (title/derive.h,
 * rule 3). A step that is not done is done by the next upkeep. */
#include "cassandra/due.h"
#include "cassandra/pages_impl.h"

#include <string.h>

/* Names of contents that one upkeep deletes; a put with more waits for the next upkeep. */
enum { CONTENTS_MAX = 64 };

struct cull_own { /* in the work's arena */
    struct work *work;
    struct cassandra_cull *cull;
    int64_t behind_ns; /* by how much the horizon is behind the clock */
    store_time horizon;
    struct title_cull bytes; /* what title_cull allows */
    size_t range;            /* the next of them that is deleted */
    str contents[CONTENTS_MAX];
    unsigned contents_count;
    struct title_cull part; /* those ranges that are being deleted */
    struct titles_cull deletion;
    const struct fact **puts; /* whose bytes went */
    size_t puts_count, put;
    struct fact batch[TITLES_APPEND_MAX];
    struct titles_append anew;
    struct title_forget forget; /* what title_forget allows */
    struct fact forgotten;
    const struct fact **gone; /* facts to delete; `at` of them are deleted */
    size_t gone_count, at;
    struct titles_forget drop;
    struct lists_drop unlist;
};

/* The note is the cluster's own, which names nodes: no client asks for an upkeep. */
static void cull_fail(struct cull_own *o, err why, const struct err_note *note)
{
    o->cull->note = *note;
    work_end(o->work, why);
}

/* The call of one step: at the upkeep's home, with its deadline. */
static struct store_call part_call(const struct cull_own *o, void (*done)(struct store_call *c))
{
    return (struct store_call){ .home = o->work->load.call.home,
                                .done = done,
                                .deadline = o->work->call->deadline };
}

/* ---- LISTED ---- */

static void row_dropped(struct store_call *c)
{
    struct lists_drop *d = CONTAINER_OF(c, struct lists_drop, call);
    struct cull_own *o = CONTAINER_OF(d, struct cull_own, unlist);
    o->cull->unlisted = d->dropped;
    work_end(o->work, c->why);
}

/* Was the last put of the title forgotten so long ago that no put can be under way that saw it? */
static bool title_is_bare(const struct cull_own *o)
{
    const struct title_facts *in = &o->work->facts;
    store_time long_ago = { .ns = o->horizon.ns - o->behind_ns };
    /* A FORGOTTEN within the last `behind` says that a put under way may have seen the forgotten
     * one. */
    for (size_t i = 0; i < in->facts_count; i++)
        if (in->facts[i].what == FACT_FORGOTTEN &&
            store_time_before(long_ago, fact_arrived(&in->facts[i])))
            return false;
    return !title_has_puts(in);
}

/* Is a put left that is not forgotten by now? */
static bool puts_are_left(const struct cull_own *o)
{
    const struct title_facts *in = &o->work->facts;
    for (size_t i = 0; i < in->facts_count; i++)
        if (in->facts[i].what == FACT_PUT && !title_forgets(in, &o->forget, &in->facts[i]))
            return true;
    return false;
}

/* The last step: the row of `titles` goes, or the sweep hears when to come again for it. */
static void row_drop(struct cull_own *o)
{
    if (!title_is_bare(o)) {
        /* By then the FORGOTTEN of just now is as far behind the horizon as title_is_bare wants. */
        store_time later = store_time_add(o->work->memory.title.now, 2 * o->behind_ns + NS_PER_MS);
        if (!puts_are_left(o))
            o->cull->next = store_time_min(o->cull->next, later);
        work_end(o->work, ERR_OK);
        return;
    }
    o->unlist = (struct lists_drop){ .call = part_call(o, row_dropped),
                                     .key = o->work->key,
                                     .before = o->horizon,
                                     .note = &o->cull->note };
    store_call_then(lists_drop(o->work->pages->opts.titles, &o->unlist), &o->unlist.call);
}

/* ---- FACTS ---- */

static void facts_drop(struct cull_own *o);

static void facts_dropped(struct store_call *c)
{
    struct titles_forget *f = CONTAINER_OF(c, struct titles_forget, call);
    struct cull_own *o = CONTAINER_OF(f, struct cull_own, drop);
    if (c->why != ERR_OK) {
        cull_fail(o, c->why, &f->note);
        return;
    }
    o->cull->forgotten += f->facts_count;
    o->at += f->facts_count;
    facts_drop(o);
}

/* Facts go out in batches, one behind the other. */
static void facts_drop(struct cull_own *o)
{
    size_t left = o->gone_count - o->at;
    if (left == 0) {
        row_drop(o);
        return;
    }
    o->drop = (struct titles_forget){
        .call = part_call(o, facts_dropped),
        .key = o->work->key,
        .facts = o->gone + o->at,
        .facts_count = (unsigned)(left < TITLES_DELETE_MAX ? left : TITLES_DELETE_MAX),
        .horizon = o->horizon,
    };
    store_call_then(titles_forget(o->work->pages->opts.titles, &o->drop), &o->drop.call);
}

/* The facts that upkeep may delete, as pointers into the title's facts. */
static err facts_choose(struct cull_own *o)
{
    const struct title_facts *in = &o->work->facts;
    o->gone = arena_alloc(&o->work->arena, (in->facts_count + 1) * sizeof(const struct fact *));
    if (o->gone == NULL)
        return ERR_LIMIT;
    for (size_t i = 0; i < in->facts_count; i++)
        if (title_forgets(in, &o->forget, &in->facts[i]))
            o->gone[o->gone_count++] = &in->facts[i];
    return ERR_OK;
}

/* ---- NAMES ---- */

/* The FORGOTTEN is on a quorum: from now on any of the facts may be there or not. */
static void names_forgotten(struct work *w)
{
    facts_drop(w->call->own);
}

/* The names to forget follow from the facts as they were loaded; puts that were written again keep
 * their names. */
static void names_forget(struct cull_own *o)
{
    struct work *w = o->work;
    err e = title_forget(&w->facts, o->horizon, TITLES_TRACES_MAX, &w->arena, &o->forget);
    if (e == ERR_OK)
        e = facts_choose(o);
    if (e != ERR_OK) {
        work_end(w, e);
    } else if (!o->forget.any) {
        facts_drop(o);
    } else {
        w->appended = names_forgotten;
        /* its time is set by work_append, which stamps it as any fact of this server */
        o->forgotten = title_forget_fact(&o->forget, o->horizon);
        work_append(w, &o->forgotten, 1, NULL);
    }
}

/* ---- ANEW ---- */

static void puts_write(struct cull_own *o);

static void puts_written(struct store_call *c)
{
    struct titles_append *a = CONTAINER_OF(c, struct titles_append, call);
    struct cull_own *o = CONTAINER_OF(a, struct cull_own, anew);
    if (c->why != ERR_OK) {
        cull_fail(o, c->why, &a->note);
        return;
    }
    o->put += a->facts_count;
    puts_write(o);
}

/* Writes puts without their contents, in batches: the facts then say that the bytes are gone, and
 * later upkeeps leave them alone. */
static void puts_write(struct cull_own *o)
{
    size_t left = o->puts_count - o->put;
    unsigned count = (unsigned)(left < TITLES_APPEND_MAX ? left : TITLES_APPEND_MAX);
    if (count == 0) {
        names_forget(o);
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        o->batch[i] = *o->puts[o->put + i];
        o->batch[i].contents = NULL;
        o->batch[i].contents_count = 0;
    }
    o->anew = (struct titles_append){ .call = part_call(o, puts_written),
                                      .key = o->work->key,
                                      .facts = o->batch,
                                      .facts_count = count,
                                      /* As of the horizon: later than the put's own time, so the
                                       * new value wins; and earlier than any fact that may still
                                       * come. */
                                      .write_at = o->horizon,
                                      .arena = &o->work->arena };
    store_call_then(titles_append(o->work->pages->opts.titles, &o->anew), &o->anew.call);
}

/* Puts within these ranges that came by then: their bytes go. Of one name other puts may have come
 * later, and stay. */
static err puts_choose(struct cull_own *o)
{
    const struct title_facts *in = &o->work->facts;
    o->puts = arena_alloc(&o->work->arena, (in->facts_count + 1) * sizeof(const struct fact *));
    if (o->puts == NULL)
        return ERR_LIMIT;
    for (size_t i = 0; i < in->facts_count; i++) {
        const struct fact *f = &in->facts[i];
        bool went = false;
        for (size_t r = 0; r < o->bytes.count && !went; r++)
            went = page_name_cmp(o->bytes.ranges[r].low, f->name) <= 0 &&
                   page_name_cmp(f->name, o->bytes.ranges[r].high) <= 0;
        if (f->what == FACT_PUT && f->contents_count > 0 && went && f->at.ns <= o->bytes.at.ns)
            o->puts[o->puts_count++] = f;
    }
    return ERR_OK;
}

/* ---- BYTES ---- */

static void bytes_delete(struct cull_own *o);

static void bytes_deleted(struct store_call *c)
{
    struct titles_cull *d = CONTAINER_OF(c, struct titles_cull, call);
    struct cull_own *o = CONTAINER_OF(d, struct cull_own, deletion);
    if (c->why != ERR_OK) {
        cull_fail(o, c->why, &d->note);
        return;
    }
    o->cull->ranges += (unsigned)o->part.count;
    o->range += o->part.count;
    bytes_delete(o);
}

/* Deletes the next ranges, as many as one batch may have; the batch has a part for each range and
 * content. */
static void bytes_delete(struct cull_own *o)
{
    size_t left = o->bytes.count - o->range;
    size_t most = o->contents_count == 0 ? 0 : TITLES_DELETE_MAX / o->contents_count;
    if (most > TITLES_RANGES_MAX)
        most = TITLES_RANGES_MAX;
    o->part = (struct title_cull){ .at = o->bytes.at,
                                   .ranges = o->bytes.ranges + o->range,
                                   .count = left < most ? left : most };
    if (o->part.count == 0) {
        puts_write(o);
        return;
    }
    o->deletion = (struct titles_cull){ .call = part_call(o, bytes_deleted),
                                        .key = o->work->key,
                                        .cull = &o->part,
                                        .contents = o->contents,
                                        .contents_count = o->contents_count };
    store_call_then(titles_cull(o->work->pages->opts.titles, &o->deletion), &o->deletion.call);
}

/* Adds the name of a content to the deletion. False: there is no room for one more. */
static bool content_note(struct cull_own *o, const struct page_content *c)
{
    str name = str_of(c->name);
    for (unsigned i = 0; i < o->contents_count; i++)
        if (str_eq(o->contents[i], name))
            return true;
    if (o->contents_count == CONTENTS_MAX)
        return false;
    o->contents[o->contents_count++] = name;
    return true;
}

/* The contents of those puts alone whose bytes go. A put with a content that finds no room keeps
 * its contents in its fact: the next upkeep deletes them. */
static void contents_choose(struct cull_own *o)
{
    size_t count = 0;
    for (size_t i = 0; i < o->puts_count; i++) {
        bool all = true;
        for (unsigned k = 0; k < o->puts[i]->contents_count; k++)
            all = content_note(o, &o->puts[i]->contents[k]) && all;
        if (all)
            o->puts[count++] = o->puts[i];
    }
    o->puts_count = count;
}

/* The latest has its bytes: go on. It has none: nothing is deleted now, and the upkeep ends well.
 */
static void latest_looked(struct work *w, err why)
{
    if (why == ERR_OK)
        bytes_delete(w->call->own);
    else
        work_end(w, why == ERR_NOT_FOUND ? ERR_OK : why);
}

/* Nothing goes while the latest has no bytes. Such a render was never acknowledged, and what it
 * superseded may be all there is. */
static void cull_begin(struct cull_own *o)
{
    const struct title_which latest = { .select = SELECT_LATEST };
    struct work *w = o->work;
    struct page_row row;
    struct page_trace trace;
    if (o->bytes.count > 0 && title_find(&w->memory.title, &latest, &row, &trace) == ERR_OK)
        work_look_bytes(w, &row, latest_looked);
    else
        bytes_delete(o);
}

/* The title is derived, on the pool. The arena holds all that the steps need. */
static void cull_loaded(struct work *w)
{
    struct cull_own *o = arena_alloc(&w->arena, sizeof *o);
    if (o == NULL) {
        work_end(w, ERR_LIMIT);
        return;
    }
    memset(o, 0, sizeof *o);
    o->work = w;
    o->cull = w->request;
    w->call->own = o;
    o->behind_ns = pages_behind_ns(w->pages);
    /* Taken after the facts were read, so all facts up to it were read (derive.h, rule 3). */
    o->horizon = pages_horizon(w->pages);
    err e = title_cull(&w->facts, o->horizon, &w->arena, &o->bytes);
    if (e == ERR_OK)
        e = puts_choose(o);
    if (e != ERR_OK) {
        work_end(w, e);
        return;
    }
    contents_choose(o);
    /* Puts that are written again below are no reason to come back. */
    o->cull->next = dues_next(&w->facts, &w->memory, o->puts_count);
    cull_begin(o);
}

enum store_start cassandra_pages_cull(struct cassandra_pages *p, struct cassandra_cull *c)
{
    struct work *w = work_new(p, c->bucket, &c->call);
    c->ranges = c->forgotten = 0;
    c->unlisted = false;
    c->next = STORE_TIME_NEVER;
    w->request = c;
    w->note = &c->note;
    w->loaded = cull_loaded;
    work_start(w, c->domain, c->title, pages_pool(p, &c->call));
    return STORE_LATER;
}
