/* title.h - the title machine: what becomes of the renders of one title.
 *
 * Model. A title is a set of facts (fact.h): renders that were put, pins and their ends, words of
 * the wiki, purges. All else is a fold over the facts in the order of their times: which render is
 * the latest, when each was superseded, when each is gone.
 *   decide (decide.h)  looks at a title and a request; says the answer, and the facts it makes.
 *   step   (step.h)    takes one fact and edits the title's rows.
 *   find   (find.h)    answers reads from the rows.
 *   derive (derive.h)  sorts facts and folds them by step, over rows in memory.
 * The machine sees and edits rows through struct title_ops. An embedded store keeps rows on disk:
 * its update is decide, then step for each fact. A shared store keeps the facts, and derives.
 *
 * Invariants of the rows, after each step, over the renders that are neither gone nor hidden:
 *   1 at most one has superseded_at NEVER, and it is the greatest. There is exactly one, unless the
 *     greatest that ever was ran out under policy ttl, was dropped with its stash, or is superseded
 *     by a revision that is not made yet;
 *   2 grouped policies: those with out_at NEVER are the newest `count` of their group;
 *   3 what is hidden is superseded, as a rule by a revision not made. */
#ifndef TITLE_TITLE_H
#define TITLE_TITLE_H

#include "base/check.h"
#include "base/err.h"
#include "title/fact.h"
#include "title/retention.h"

struct title;

/* Renders with low <= name <= high, gone ones too, newest first (rising: oldest first). */
struct title_walk {
    const struct title *title;
    struct page_name low, high;
    bool rising;
    void *cursor; /* the store's, with at */
    size_t at;
};
/* Traces likewise. */
enum { TITLE_TRACE_WALK_BYTES = 1536 };
struct title_trace_walk {
    const struct title *title;
    struct page_name low, high;
    bool rising;
    _Alignas(16) unsigned char own[TITLE_TRACE_WALK_BYTES]; /* the store's */
};

enum { TITLE_NAMES_MAX = 128 };
struct title_names {
    unsigned count;
    struct page_name names[TITLE_NAMES_MAX];
};

/* How the machine sees and edits the rows of one title. Each fails with ERR_CORRUPT, ERR_IO,
 * ERR_LIMIT as the store says; looking for one thing with ERR_NOT_FOUND, too. A walk is not kept
 * open over an edit. */
struct title_ops {
    /* ---- seeing ---- */
    err (*get)(const struct title *t, struct page_name name, struct page_row *out);
    void (*walk_open)(struct title_walk *w);
    err (*walk_next)(struct title_walk *w, struct page_row *out);
    void (*walk_close)(struct title_walk *w);
    void (*traces_open)(struct title_trace_walk *w);
    err (*traces_next)(struct title_trace_walk *w, struct page_trace_row *out);
    void (*traces_close)(struct title_trace_walk *w);
    /* The greatest name between two, of renders and traces. */
    err (*greatest_known)(const struct title *t, struct page_name low, struct page_name high,
                          struct page_name *out);
    /* The next names at or above low, damaged rows too; fewer than TITLE_NAMES_MAX: no more. */
    err (*names)(const struct title *t, struct page_name low, struct page_name high,
                 struct title_names *out);
    /* The latest fence over this name (tid NULL: over every name of the revision), if any. */
    err (*fence)(const struct title *t, uint64_t rev, const struct tid *tid, bool *fenced,
                 store_time *at);
    /* Does a word that came before hide what is put of this revision, though it was asked for
     * before that word? *state CURRENT: no. */
    err (*silenced)(const struct title *t, uint64_t rev, store_time said_at, enum page_state *state,
                    store_time *at);

    /* ---- editing ---- */
    /* A new render. replaced: a gone row of its name, or NULL. Takes its trace away. */
    err (*insert)(struct title *t, struct page_row *row, const struct page_row *replaced);
    err (*update)(struct title *t, struct page_row *row);
    /* why: CULLED, PURGED. trace NULL: it is forgotten already. */
    err (*remove)(struct title *t, const struct page_row *row, enum page_state why,
                  const struct page_trace_row *trace);
    /* A row that cannot be read goes without a trace. */
    err (*drop)(struct title *t, struct page_name name);
    /* A trace of what was never stored. */
    err (*leave)(struct title *t, const struct page_trace_row *trace);
    /* Range: as of a purge. */
    err (*fence_set)(struct title *t, struct page_name range, store_time at);
    /* A mark is remembered for what comes later. */
    err (*heard)(struct title *t, const struct fact *mark);
};

struct title_seen;
struct title {
    const struct title_ops *ops;
    const struct page_plan *plan;
    store_time now;          /* of the request or read; step: of the fact */
    const unsigned *passed;  /* damaged rows that walks went past; NULL: none */
    struct title_seen *seen; /* who decides and steps has one; seen.h */
    /* Are all requests decided one after the other, on rows that do not keep when the wiki was
     * asked? Then a put is judged against each word there is, and counts as said at its arrival. */
    bool serial;
    /* By how much two instants may be in the wrong order at which two servers asked the wiki: twice
     * what a clock may be wrong. 0: one server asks. */
    int64_t skew_ns;
    /* How long a render stays at least when its stash or hold ends: another server may be pinning
     * it that does not see the end yet. 0: one server pins. */
    int64_t linger_ns;
};
/* Up to when, by any server's clock, may the wiki have been asked before it said so then? What was
 * asked for by then is hidden by what it said; showing needs a word of this instant or later. */
static inline store_time title_said_until(const struct title *t, store_time said_at)
{
    return store_time_add(said_at, t->skew_ns);
}

/* ---- seeing ---- */
static inline bool title_alive(const struct title *t, const struct page_row *row)
{
    return store_time_before(t->now, row->r.due_at);
}
static inline bool title_is_latest(const struct page_render *r)
{
    return r->superseded_at.ns == INT64_MAX;
}
/* The render of this name, gone or not. */
MUST_CHECK err title_get(const struct title *t, struct page_name name, struct page_row *out);
void title_walk_open(struct title_walk *w, const struct title *t, struct page_name low,
                     struct page_name high, bool rising);
/* ERR_NOT_FOUND at the end. */
MUST_CHECK err title_walk_next(struct title_walk *w, struct page_row *out);
MUST_CHECK err title_walk_alive(struct title_walk *w, struct page_row *out);
void title_walk_close(struct title_walk *w);
/* The newest render still alive between two names. */
MUST_CHECK err title_newest_alive(const struct title *t, struct page_name low,
                                  struct page_name high, struct page_row *out);
/* The newest (oldest) that is alive and not hidden. */
MUST_CHECK err title_newest_shown(const struct title *t, struct page_name low,
                                  struct page_name high, struct page_row *out);
MUST_CHECK err title_oldest_shown(const struct title *t, struct page_name low,
                                  struct page_name high, struct page_row *out);

/* Is this superseded by what is not there: a revision not made, or a render that is hidden? A word
 * of the wiki may make it the latest. */
MUST_CHECK err title_waits(const struct title *t, const struct page_render *r, bool *waits);

/* ---- traces ---- */
static inline bool title_trace_alive(const struct title *t, const struct page_trace_row *trace)
{
    return store_time_before(t->now, trace->forget_at);
}
/* What is left of a render that is gone by policy, whether or not it was culled yet. */
void title_trace_of(const struct title *t, const struct page_row *gone, struct page_trace_row *out);
void title_traces_open(struct title_trace_walk *w, const struct title *t, struct page_name low,
                       struct page_name high, bool rising);
MUST_CHECK err title_traces_next(struct title_trace_walk *w, struct page_trace_row *out);
/* Those still to be known. */
MUST_CHECK err title_traces_alive(struct title_trace_walk *w, struct page_trace_row *out);
void title_traces_close(struct title_trace_walk *w);

/* The least ticks, at least those given, that are greater than all of the revision's tids known. */
MUST_CHECK err title_next_ticks(const struct title *t, uint64_t rev, uint64_t *ticks);

#endif
