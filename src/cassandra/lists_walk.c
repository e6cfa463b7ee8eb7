/* lists_walk.c - the titles of a domain over all buckets that hear the wiki, for the sweep that
 * asks the wiki about all of them (store/page_sweep.h).
 *
 * A title counts as stored while its row is there. The row goes some time after the last render was
 * forgotten. So a walk loads no facts. */
#include "cassandra/lists_pages.h"

#include <stdlib.h>

/* One walk under way. It frees itself in walk_end. */
struct walk {
    struct page_walk *walk;
    struct lists_merge *merge;
    str buckets[LISTS_BUCKETS_MAX];
    unsigned left; /* titles */
    bool over;     /* nothing is told any more; reads may be under way */
    err why;
    struct lists_turns turns;
};

static void walk_end(struct walk *w)
{
    struct page_walk *q = w->walk;
    err why = w->why;
    lists_merge_free(&w->merge);
    free(w);
    store_call_end(&q->call, why);
}

/* more: titles follow the last one told. */
static void walk_stop(struct walk *w, err why, bool more)
{
    w->over = true;
    w->why = why;
    w->walk->more = more;
}

/* Tells titles until there are no more, the caller has enough, or a read is waited for. */
static void walk_go(struct walk *w)
{
    struct page_walk *q = w->walk;
    struct lists_title next;
    err why = ERR_OK;
    while (!w->over) {
        enum lists_next found = lists_merge_next(w->merge, &next, &why);
        if (found == LISTS_WAIT)
            return;
        if (found == LISTS_FAILED)
            walk_stop(w, lists_blame(why), false);
        else if (found == LISTS_OVER || (q->until.n > 0 && str_cmp(next.title, q->until) > 0))
            walk_stop(w, ERR_OK, false);
        /* A title that is refused was not told: the caller's next walk begins with it. */
        else if (w->left == 0 ||
                 !q->each(q->ctx, &(struct page_swept){ .title = next.title, .stored = true }))
            walk_stop(w, ERR_OK, true);
        else
            w->left--;
    }
}

/* Runs on one thread at a time (lists_turned). True: the walk is over and freed. */
static bool walk_step(struct lists_turns *t)
{
    struct walk *w = CONTAINER_OF(t, struct walk, turns);
    if (!w->over && store_call_canceled(&w->walk->call))
        walk_stop(w, ERR_TIMEOUT, false);
    walk_go(w);
    /* Each read that was begun still writes into the merge. */
    if (!w->over || t->taken < 1 + lists_merge_reads(w->merge))
        return false;
    walk_end(w);
    return true;
}

enum store_start cassandra_pages_walk(struct cassandra_pages *p, struct page_walk *q)
{
    MAGIC_CHECK(p, CASSANDRA_PAGES_MAGIC);
    struct walk *w = calloc(1, sizeof *w);
    INVARIANT(w != NULL);
    *w = (struct walk){ .walk = q, .left = q->titles, .turns = { .step = walk_step } };
    struct lists_merge_opts o = { .titles = p->opts.titles,
                                  .statement = TITLES_LISTED,
                                  .buckets = w->buckets,
                                  .domain = pages_domain_name(p, q->domain),
                                  .from = q->after,
                                  .after = q->after.n > 0,
                                  .call = &q->call,
                                  .turns = &w->turns };
    for (unsigned i = 0; i < p->opts.buckets_count; i++)
        /* The caller asks the wiki, so buckets that are deaf to the wiki are left out. */
        if (!p->buckets[i].opts.deaf)
            w->buckets[o.buckets_count++] = str_of(p->buckets[i].opts.name);
    q->more = false;
    w->merge = lists_merge_new(&o);
    lists_turned(&w->turns);
    return STORE_LATER;
}
