/* feed.c - see feed.h.
 *
 * Invariants
 *  1. Batches are told on the committer, in the order in which their updates decided: a batch takes
 *     its positions when it is told, so they rise in that order.
 *  2. A batch lives until each follower has had it.
 *  3. That a render is dated is told once: when the wiki is first known to have something newer. */
#include "bucket/feed.h"

#include "base/buf.h"
#include "bucket/catalog.h"
#include "event/append.h"
#include "title/title.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { FEED_BATCH_FIRST = 8, FEED_TITLES_BYTES_MAX = 64 << 20 };

/* The hand-over of a batch to one follower; part of the batch. */
struct feed_task {
    struct task task;
    struct feed_batch *batch;
    const struct page_follower *follower;
};

/* The changes of one update. Its submitter makes it, and the decision fills it. Once told, it
 * belongs to the followers, and the last of them frees it. */
struct feed_batch {
    struct feed *feed;
    store_time now;
    struct page_change *changes; /* until they are told, title.p is not set */
    size_t *titles_at;           /* in titles, of each */
    unsigned count, size;
    struct buf titles;
    atomic_uint readers;            /* followers that have not had it yet */
    struct page_event_texts *texts; /* for the event log; NULL: there were none */
    bool has_word;
    struct title_word word; /* the last one before this update */
    /* The render that took the place of a latest one which was not dated; rev 0: none did */
    struct page_name successor;
    struct feed_task tasks[PAGE_FOLLOWERS_MAX];
};

/* Updates before this start may have had any count in their last instant: n is the greatest. */
void feed_init(struct feed *f, struct pages *pages, store_time stored_until)
{
    *f = (struct feed){ .pages = pages, .last = { .at = stored_until, .n = UINT32_MAX } };
    INVARIANT(pthread_mutex_init(&f->lock, NULL) == 0);
}

void feed_fini(struct feed *f)
{
    INVARIANT(pthread_mutex_destroy(&f->lock) == 0);
}

struct page_position feed_position(struct feed *f)
{
    INVARIANT(pthread_mutex_lock(&f->lock) == 0);
    struct page_position last = f->last;
    INVARIANT(pthread_mutex_unlock(&f->lock) == 0);
    return last;
}

struct feed_batch *feed_batch_new(struct feed *f)
{
    if (f->followers_count == 0 && !page_events_wanted(&f->pages->events))
        return NULL;
    struct feed_batch *b = calloc(1, sizeof *b);
    INVARIANT(b != NULL);
    b->feed = f;
    buf_init(&b->titles, FEED_TITLES_BYTES_MAX);
    return b;
}

void feed_batch_free(struct feed_batch **bp)
{
    struct feed_batch *b = *bp;
    *bp = NULL;
    if (b == NULL)
        return;
    free(b->changes);
    free(b->titles_at);
    buf_fini(&b->titles);
    page_event_texts_free(&b->texts);
    free(b);
}

void feed_batch_clear(struct feed_batch *b, store_time now)
{
    if (b == NULL)
        return;
    b->now = now;
    b->count = 0;
    b->has_word = false;
    b->successor = (struct page_name){ .rev = 0 };
    buf_clear(&b->titles);
}

static void batch_grow(struct feed_batch *b)
{
    b->size = b->size == 0 ? FEED_BATCH_FIRST : b->size * 2;
    b->changes = realloc(b->changes, b->size * sizeof *b->changes);
    b->titles_at = realloc(b->titles_at, b->size * sizeof *b->titles_at);
    INVARIANT(b->changes != NULL);
    INVARIANT(b->titles_at != NULL);
}

/* Where the title's text stands in titles: as the last one, or put there now. Most batches are
 * of one title. */
static size_t batch_title(struct feed_batch *b, str title)
{
    if (b->count > 0) {
        size_t at = b->titles_at[b->count - 1];
        if (str_eq(title, str_skip(buf_str(&b->titles), at)))
            return at;
    }
    size_t at = b->titles.n;
    buf_put(&b->titles, title);
    INVARIANT(buf_status(&b->titles) == ERR_OK);
    return at;
}

void feed_note(struct feed_batch *b, const struct feed_title *t, enum page_change_what what,
               const struct page_render *r)
{
    if (b == NULL)
        return;
    if (b->count == b->size)
        batch_grow(b);
    size_t at = batch_title(b, t->title);
    b->titles_at[b->count] = at;
    b->changes[b->count++] = (struct page_change){
        .what = what,
        .bucket = t->bucket,
        .domain = t->domain,
        /* p is set when titles does not move any more (batch_set_titles). */
        .title = { .n = t->title.n },
        .name = r->name,
        .by = what == CHANGE_SUPERSEDED || what == CHANGE_STORED ? r->superseded_by
                                                                 : (struct page_name){ .rev = 0 },
        .hidden = r->hidden,
    };
}

/* ---- what is dated ---- */

void feed_set_word(struct feed_batch *b, const struct title_word *last)
{
    if (b == NULL)
        return;
    b->has_word = last != NULL;
    if (last != NULL)
        b->word = *last;
}

/* By the word before this update: followers were told then. */
static bool is_dated_already(const struct feed_batch *b, const struct page_render *r)
{
    return b->has_word && title_has_newer(&b->word, r);
}

static void note_dated(struct feed_batch *b, const struct feed_title *t,
                       const struct page_render *r, uint64_t newest)
{
    feed_note(b, t, CHANGE_DATED, r);
    b->changes[b->count - 1].by.rev = newest;
}

void feed_note_word(struct feed_batch *b, const struct feed_title *t, const struct title_word *w,
                    const struct page_render *r)
{
    if (b != NULL && title_is_latest(r) && title_has_newer(w, r) && !is_dated_already(b, r))
        note_dated(b, t, r, w->rev);
}

/* Is it the newest that can be given, though the wiki is known to have a newer revision? */
static bool waits_for_unmade(const struct page_render *r)
{
    return r->hidden == PAGE_CURRENT && page_name_is_unmade(r->superseded_by);
}

/* It was the latest, and is not any more. */
static void note_superseded(struct feed_batch *b, const struct feed_title *t,
                            const struct page_render *r)
{
    feed_note(b, t, CHANGE_SUPERSEDED, r);
    if (r->hidden != PAGE_CURRENT || is_dated_already(b, r))
        return;
    if (waits_for_unmade(r))
        note_dated(b, t, r, r->superseded_by.rev);
    else
        /* Its successor may wait for a revision not made, too: then note_stored tells. */
        b->successor = r->superseded_by;
}

/* A new render that is not the latest. Where it took the place of the latest one it is given all
 * the same: then it is dated from the start. */
static void note_stored(struct feed_batch *b, const struct feed_title *t,
                        const struct page_render *r)
{
    feed_note(b, t, CHANGE_STORED, r);
    if (b->successor.rev != 0 && page_name_cmp(b->successor, r->name) == 0 && waits_for_unmade(r))
        note_dated(b, t, r, r->superseded_by.rev);
}

/* ---- rows ---- */

struct page_row_was feed_row_was(const struct page_row *row)
{
    return (struct page_row_was){ .known = true,
                                  .latest = title_is_latest(&row->r),
                                  .hidden = row->r.hidden != PAGE_CURRENT };
}

void feed_note_row(struct feed_batch *b, const struct feed_title *t, struct page_row *row)
{
    const struct page_row_was is = feed_row_was(row);
    const struct page_row_was was = row->was;
    /* A second write of the row in this update is compared with this one. */
    row->was = is;
    if (b == NULL)
        return;
    /* Hiding is told beside what else changed; of the others one at most. */
    if (was.known && is.hidden != was.hidden)
        feed_note(b, t, is.hidden ? CHANGE_HIDDEN : CHANGE_SHOWN, &row->r);
    if (is.latest && !(was.known && was.latest))
        feed_note(b, t, CHANGE_LATEST, &row->r);
    else if (!was.known)
        note_stored(b, t, &row->r);
    else if (is.latest != was.latest)
        note_superseded(b, t, &row->r);
    else if (is.hidden == was.hidden && row->due_stored.ns != row->r.due_at.ns)
        feed_note(b, t, CHANGE_DUE, &row->r);
}

/* ---- telling ---- */

/* At the follower's home. */
static void batch_run(struct task *t)
{
    struct feed_task *own = CONTAINER_OF(t, struct feed_task, task);
    struct feed_batch *b = own->batch;
    own->follower->told(own->follower->ctx, b->changes, b->count);
    if (atomic_fetch_sub(&b->readers, 1) == 1)
        feed_batch_free(&b);
}

/* Positions rise strictly: with the instant, else with the count in it; a full count takes the
 * next nanosecond. */
static struct page_position position_next(struct page_position last, store_time now)
{
    if (last.at.ns < now.ns)
        return (struct page_position){ .at = now };
    if (last.n < UINT32_MAX)
        return (struct page_position){ .at = last.at, .n = last.n + 1 };
    return (struct page_position){ .at = store_time_add(last.at, 1) };
}

static void batch_set_titles(struct feed_batch *b)
{
    for (unsigned i = 0; i < b->count; i++)
        b->changes[i].title.p = buf_str(&b->titles).p + b->titles_at[i];
}

err feed_batch_append(struct feed_batch *b, struct engine_txn *t)
{
    if (b == NULL)
        return ERR_OK;
    batch_set_titles(b);
    return page_events_append(b->feed->pages, t, b->changes, b->count, &b->texts);
}

/* Positions are given on the committer; the lock is for feed_position, which any thread calls. */
static void batch_finish(struct feed_batch *b)
{
    struct feed *f = b->feed;
    batch_set_titles(b);
    INVARIANT(pthread_mutex_lock(&f->lock) == 0);
    for (unsigned i = 0; i < b->count; i++)
        b->changes[i].position = f->last = position_next(f->last, b->now);
    INVARIANT(pthread_mutex_unlock(&f->lock) == 0);
}

void feed_batch_tell(struct feed_batch **bp)
{
    struct feed_batch *b = *bp;
    if (b == NULL || b->count == 0) {
        feed_batch_free(bp);
        return;
    }
    const struct feed *f = b->feed;
    if (page_events_appended(b->texts))
        event_log_told(f->pages->events.log);
    if (f->followers_count == 0) {
        feed_batch_free(bp);
        return;
    }
    *bp = NULL;
    batch_finish(b);
    atomic_store(&b->readers, f->followers_count);
    for (unsigned i = 0; i < f->followers_count; i++) {
        struct feed_task *t = &b->tasks[i];
        *t = (struct feed_task){ .task.run = batch_run, .batch = b, .follower = &f->followers[i] };
        home_post(t->follower->home, &t->task); /* behind the last post b is not ours any more */
    }
}
