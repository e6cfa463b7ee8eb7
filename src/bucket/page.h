/* page.h - reading titles in views of the engine, and what pages are as a whole. The model is
 * store/page_store.h's; store.c and list.c give it to callers. Private to this folder, and its
 * tests'.
 *
 * Each change of a title is one engine update. A cull deletes the row and leaves a trace in the
 * ledger for ledger_ttl. Fences do not run out with the traces: an import puts renders of any age,
 * so after any time they could come back. They are bounded by number: PAGE_FENCES_MAX rows a title,
 * then one. */
#ifndef BUCKET_PAGE_H
#define BUCKET_PAGE_H

#include "bucket/pages.h"
#include "engine/engine.h"
#include "store/listplace.h"
#include "title/fact.h"

enum {
    /* beyond, the lowest are forgotten, PAGE_LEDGER_DROP or a few more together */
    PAGE_TITLE_TRACES_MAX = 10000,
    PAGE_LEDGER_DROP = 128,
    PAGE_CULL_BATCH = 256, /* due rows of one cull update */
    PAGE_FENCES_MAX = 64,  /* of one title; more become one for the whole title */
};

struct page_bucket *pages_find(struct pages *p, str bucket_name); /* NULL: unknown */
/* The number a configured domain is stored under, on every start. Blocks: start-up only. */
MUST_CHECK err pages_domain(struct pages *p, str domain, uint32_t *out);

/* ---- reading. Thread: any. Never blocks. ---- */
/* ERR_OK and *out; ERR_GONE and *trace (may be NULL; the newest of what was asked for);
 * ERR_NOT_FOUND; ERR_CORRUPT; ERR_IO. Under policy ttl the latest may run out before renders put
 * late: then there is none. Cost: a few seeks; SERVED_AT and CURRENT_AT walk the title's renders
 * down to the instant: ERR_LIMIT beyond PAGE_AT_STEPS_MAX. */
MUST_CHECK err page_find(struct page_bucket *b, struct engine_view *v, const struct page_which *w,
                         struct page_render *out, struct page_trace *trace);
/* Must a read that names this revision extend its life first (then call page_extend)? */
bool page_wants_extension(const struct page_bucket *b, const struct page_render *r, store_time now);
/* Up to and with which instant does no such read have to, as long as the title does not change?
 * NEVER: at no time. */
store_time page_lasts_until(const struct page_bucket *b, const struct page_render *r);

/* Renders of a title, newest first, strictly after *after (NULL: all). None past due. */
MUST_CHECK err page_history(struct page_bucket *b, struct engine_view *v, uint32_t domain,
                            str title, const struct page_name *after, const struct page_each *each);
/* Titles of a domain in key order, after the given one, each with its latest. */
MUST_CHECK err page_titles(struct page_bucket *b, struct engine_view *v, uint32_t domain, str after,
                           const struct page_each *each);

struct page_stash_walk {
    uint32_t domain;
    str title;               /* a key: its renders alone; empty: of the whole domain */
    struct list_place after; /* strictly after this one. Out: the last that was looked at */
    unsigned steps;          /* so many renders are looked at at most. Out: how many are left */
};
/* Renders that a stash pins now, by title, newest first, until each->render returns false (which is
 * not gone past) or steps are used up: *more. There is no index of them: all of a domain's renders
 * are looked at. Where a damaged row stands is not believed, so with no more steps than
 * PAGE_DAMAGED_MAX a walk may come no further. */
MUST_CHECK err page_stashes(struct page_bucket *b, struct engine_view *v, struct page_stash_walk *w,
                            const struct page_each *each, bool *more);

MUST_CHECK err page_explain(struct page_bucket *b, struct engine_view *v,
                            const struct page_which *w, struct page_explanation *out);

struct page_bytes {
    str headers, frame;
};
/* One content of a found render: its headers ("name: value\n" lines) and its frame, in the arena,
 * verified. now: only from memory, ERR_AGAIN otherwise (then again on the pool). ERR_CORRUPT,
 * ERR_LIMIT. */
MUST_CHECK err page_read(struct page_bucket *b, const struct page_render *r,
                         const struct page_content *c, struct arena *a, bool now,
                         struct page_bytes *out);
/* ---- upkeep ---- */
/* Culls what is due, forgets old traces, goes on replanning after a policy change: one batch.
 * *more: there is more to do now; *next: when the next row falls due (NEVER: none). Blocks until on
 * disk: a pool job. */
MUST_CHECK err pages_upkeep(struct pages *p, bool *more, store_time *next);
void pages_stats_get(struct pages *p, struct pages_stats *out);

uint16_t page_bucket_number(const struct page_bucket *b);

/* Given the facts of each update of a title, in their order, before its listener is told.
 * The rows of the title follow from its facts and the policies of its bucket (title/derive.h). An
 * order that takes several updates is given with its first. */
typedef void pages_facts_fn(void *ctx, uint16_t bucket, uint32_t domain, str title,
                            const struct fact *facts, unsigned count);
void pages_on_facts(struct pages *p, pages_facts_fn *facts, void *ctx);
/* The policy in force, and since when. Both live as long as p. */
const struct page_policy *page_bucket_policy(const struct page_bucket *b);
const struct page_plan *page_bucket_plan(const struct page_bucket *b);

/* Verifies what rows must hold among each other. Online. */
MUST_CHECK err pages_check(struct pages *p, void (*found)(void *ctx, const char *what), void *ctx);

#endif
