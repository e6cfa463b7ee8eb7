/* lists_pages.c - listings for readers: the titles of a domain, and the stashed renders of a domain
 * or of one title.
 *
 * Titles come in key order from a merge of the shards (lists_merge.h). The facts of those ahead are
 * loaded while one is told: at first of one title, then of LISTS_LOADS_MAX. They are told in their
 * order, one at a time, at the caller's home.
 * Invariants:
 *   1 slots from `first` on, `count` of them, are the titles that were taken and not told yet, in
 *     their order;
 *   2 the listing ends when each load and each read that was begun has turned (lists_turns): until
 *     then they may write into the listing;
 *   3 a title is told only when all before it were told, or gone past. */
#include "cassandra/lists_pages.h"

#include "cassandra/due.h"

#include <stdlib.h>
#include <string.h>

struct slot { /* a title */
    struct listing *listing;
    struct store_call call; /* of its load */
    struct work *work;      /* it is loaded, when why is ERR_OK */
    struct list_place at;   /* its title */
    atomic_bool ready;      /* set last, on the thread that ended the load */
};
/* One listing under way. It frees itself in listing_end. */
struct listing {
    struct cassandra_pages *pages;
    struct page_list *list;
    struct lists_merge *merge; /* NULL: of one title */
    str bucket;
    struct list_place place; /* up to and with which all was told */
    struct slot slots[LISTS_LOADS_MAX];
    /* told: also gone past; damaged: titles whose facts cannot be read */
    unsigned first, count, told, damaged;
    uint64_t loads; /* begun */
    bool merged;    /* no title comes any more */
    bool stopped;   /* nothing is told any more */
    bool more;      /* with stopped: the caller has enough, and next says where to go on */
    err why;
    struct lists_turns turns;
};

/* ---- loads ---- */

/* `ready` is set before the turn: the next step finds it. Behind the turn the slot may be gone. */
static void slot_turned(struct slot *s)
{
    struct lists_turns *turns = &s->listing->turns;
    atomic_store(&s->ready, true);
    lists_turned(turns);
}

/* The work is kept until its title is told (slot_tell frees it). */
static void slot_loaded(struct work *w)
{
    struct slot *s = w->request;
    s->work = w;
    s->call.why = ERR_OK;
    slot_turned(s);
}

/* The work ended itself, and freed itself: call.why says why. */
static void slot_failed(struct store_call *c)
{
    slot_turned(CONTAINER_OF(c, struct slot, call));
}

/* Begins to load one title, in the slot behind the last one. */
static void slot_start(struct listing *l, str title)
{
    struct slot *s = &l->slots[(l->first + l->count++) % LISTS_LOADS_MAX];
    *s = (struct slot){ .listing = l };
    s->call = (struct store_call){ .home = l->list->call.home,
                                   .done = slot_failed,
                                   .part_of = &l->list->call,
                                   .deadline = l->list->call.deadline };
    list_place_title(&s->at, title);
    l->loads++;
    struct work *w = work_new(l->pages, l->list->bucket, &s->call);
    w->request = s;
    w->loaded = slot_loaded;
    work_start(w, l->list->domain, (str){ .p = s->at.title, .n = s->at.title_bytes }, s->call.home);
}

/* ---- telling ---- */

/* Nothing is told any more. Loads that are under way are waited for all the same. */
static void listing_stop(struct listing *l, err why, bool more)
{
    l->stopped = true;
    l->more = more;
    l->why = why;
}

/* Tells the newest render that is shown, when it is the latest. A title without one is gone past.
 */
static err titles_tell(struct listing *l, const struct slot *s, str title)
{
    const struct page_each *each = &l->list->each;
    struct page_row row;
    /* A row without facts is that of a put that failed, say: upkeep takes the row away. */
    if (s->work->facts.facts_count == 0)
        dues_file(l->pages, &s->work->key, clock_store(l->pages->opts.clock));
    err e = title_newest_shown(&s->work->memory.title, page_name_first, page_name_last, &row);
    /* The caller refused this title, so its place is not passed: the next listing begins with it.
     */
    if (e == ERR_OK && title_is_latest(&row.r) && !each->render(each->ctx, title, &row.r))
        listing_stop(l, ERR_OK, true);
    else
        l->place = s->at;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* All of the title was gone past: its place is behind the least name, so no render of it is told
 * again. */
static void place_behind(struct listing *l, const struct slot *s)
{
    l->place = s->at;
    if (l->list->what == LIST_STASHES)
        l->place.name = (struct page_name){ .rev = 1, .tid = tid_make(0, 0) };
}

/* Looks at the title's renders, newest first, as long as steps are left. A title costs a step when
 * there is no render to look at. */
static err stashes_tell(struct listing *l, const struct slot *s, str title)
{
    const struct title *t = &s->work->memory.title;
    struct page_list *q = l->list;
    /* An earlier listing can have stopped in the first title alone. */
    bool goes_on = l->place.name.rev > 0 &&
                   str_eq(title, (str){ .p = l->place.title, .n = l->place.title_bytes });
    struct title_walk walk;
    struct page_row row;
    unsigned before = q->steps;
    err e = ERR_OK;
    title_walk_open(&walk, t, page_name_first,
                    goes_on ? page_name_below(l->place.name) : page_name_last, false);
    while (!l->stopped && (e = title_walk_alive(&walk, &row)) == ERR_OK) {
        /* Steps bound how long a listing may look without finding anything. */
        if (q->steps == 0) {
            listing_stop(l, ERR_OK, true);
            break;
        }
        q->steps--;
        /* Renders that are not stashed cost a step, too: they were looked at. */
        if (store_time_before(t->now, row.r.stash_until) &&
            !q->each.render(q->each.ctx, title, &row.r)) {
            listing_stop(l, ERR_OK, true);
            break;
        }
        l->place = s->at;
        l->place.name = row.r.name;
    }
    title_walk_close(&walk);
    /* No step was taken here. A listing of the domain counts the title itself; of one title there
     * is nothing more to count. */
    if (e != ERR_NOT_FOUND || l->list->title.n > 0 || q->steps < before)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if (q->steps == 0) {
        listing_stop(l, ERR_OK, true);
        return ERR_OK;
    }
    q->steps--;
    place_behind(l, s);
    return ERR_OK;
}

/* A title whose facts cannot be read is gone past, while the caller wants to hear of such and there
 * are not too many. */
static err damage_tell(struct listing *l, const struct slot *s, str title)
{
    const struct page_each *each = &l->list->each;
    if (each->damaged == NULL || l->damaged == PAGE_DAMAGED_MAX)
        return ERR_CORRUPT;
    l->damaged++;
    if (!each->damaged(each->ctx, title, NULL))
        listing_stop(l, ERR_OK, true);
    else
        place_behind(l, s);
    return ERR_OK;
}

/* Tells the title that stands first, unless the listing has stopped; then its slot is free again.
 */
static void slot_tell(struct listing *l)
{
    struct slot *s = &l->slots[l->first];
    const str title = { .p = s->at.title, .n = s->at.title_bytes };
    err e = s->call.why;
    if (!l->stopped) {
        if (e == ERR_CORRUPT)
            e = damage_tell(l, s, title);
        else if (e == ERR_OK)
            e = l->list->what == LIST_TITLES ? titles_tell(l, s, title) : stashes_tell(l, s, title);
        if (e != ERR_OK)
            listing_stop(l, e, false);
    }
    if (s->work != NULL)
        work_free(s->work);
    s->work = NULL;
    l->told++;
    l->first = (l->first + 1) % LISTS_LOADS_MAX;
    l->count--;
}

/* ---- the whole ---- */

/* Takes more titles from the merge, and begins to load them. A listing of a few titles should not
 * load many, so as many are ahead as were told, and one. */
static void titles_take(struct listing *l)
{
    const struct page_list *q = l->list;
    bool stashes = q->what == LIST_STASHES;
    unsigned ahead = l->told + 1 < LISTS_LOADS_MAX ? l->told + 1 : LISTS_LOADS_MAX;
    while (!l->stopped && !l->merged && l->count < ahead) {
        struct lists_title next;
        err why = ERR_OK;
        switch (lists_merge_next(l->merge, &next, &why)) {
        case LISTS_TITLE:
            /* The row may be that of a stash that has ended; then its title need not be loaded for
             * it. */
            if (!stashes || store_time_before(clock_store(l->pages->opts.clock), next.until))
                slot_start(l, next.title);
            break;
        case LISTS_WAIT:
            /* The read that is waited for turns the listing again. */
            return;
        case LISTS_OVER:
            l->merged = true;
            break;
        case LISTS_FAILED:
            listing_stop(l, lists_blame(why), false);
            break;
        }
    }
}

static void listing_end(struct listing *l)
{
    struct page_list *q = l->list;
    err why = l->why;
    if (why == ERR_OK && l->more) {
        /* The caller goes on at `next`; "" says that there is no more. */
        q->next = list_place_put(q->what, &l->place, q->arena);
        why = q->next.p == NULL ? ERR_LIMIT : ERR_OK;
    }
    if (q->next.p == NULL)
        q->next = STR("");
    lists_merge_free(&l->merge);
    free(l);
    store_call_end(&q->call, why);
}

/* Runs on one thread at a time (lists_turned), whichever part ended. True: the listing is over and
 * freed. */
static bool listing_step(struct lists_turns *t)
{
    struct listing *l = CONTAINER_OF(t, struct listing, turns);
    if (!l->stopped && store_call_canceled(&l->list->call))
        listing_stop(l, ERR_TIMEOUT, false);
    titles_take(l);
    while (l->count > 0 && atomic_load(&l->slots[l->first].ready)) {
        slot_tell(l);
        titles_take(l);
    }
    /* One turn for the start, and one for each part that was begun. */
    uint64_t begun = 1 + l->loads + (l->merge == NULL ? 0 : lists_merge_reads(l->merge));
    if (l->count > 0 || (!l->stopped && !l->merged) || t->taken < begun)
        return false;
    listing_end(l);
    return true;
}

enum store_start lists_start(struct cassandra_pages *p, struct page_list *q,
                             const struct list_place *from)
{
    bool stashes = q->what == LIST_STASHES;
    bool alone = stashes && q->title.n > 0;
    const str place_title = { .p = from->title, .n = from->title_bytes };
    /* A place in another title: the token is of another listing. */
    if (alone && from->title_bytes > 0 && !str_eq(place_title, q->title))
        return store_call_done(&q->call, ERR_BAD);
    /* No such title can be stored, so it has no stashes. */
    if (alone && q->title.n > PAGE_TITLE_BYTES_MAX)
        return store_call_done(&q->call, ERR_OK);
    struct listing *l = calloc(1, sizeof *l);
    INVARIANT(l != NULL);
    *l = (struct listing){ .pages = p,
                           .list = q,
                           .bucket = str_of(q->bucket->opts.name),
                           .place = *from,
                           .merged = alone,
                           .turns = { .step = listing_step } };
    const struct lists_merge_opts o = {
        .titles = p->opts.titles,
        .statement = stashes ? TITLES_STASHED : TITLES_LISTED,
        .buckets = &l->bucket,
        .buckets_count = 1,
        .domain = pages_domain_name(p, q->domain),
        .from = { .p = l->place.title, .n = l->place.title_bytes },
        /* A place in STASHES may be within its title, so that title is read again. */
        .after = !stashes && l->place.title_bytes > 0,
        .call = &q->call,
        .turns = &l->turns,
    };
    if (alone)
        slot_start(l, q->title);
    else
        l->merge = lists_merge_new(&o);
    /* The start's own turn. Behind it the listing may be over. */
    lists_turned(&l->turns);
    return STORE_LATER;
}
