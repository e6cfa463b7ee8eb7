/* catalog.h - all page buckets of a store: their numbers, the policy in force, and what they share.
 *
 * Space of the catalog: 'b' name -> bucket number and plan; 'd' domain -> number; 'n' -> the last
 * numbers given; 'r' bucket number -> how far replanning came; 's', 'o' domain number -> notes: how
 * far its sweep came, up to when its renders count as old. Numbers are never given twice. A
 * changed policy becomes the next plan (plan.c); while rows of the plan before are left, both are
 * known, and a policy changed again first waits for the replanning before it. Private to this
 * folder. */
#ifndef BUCKET_CATALOG_H
#define BUCKET_CATALOG_H

#include "base/map.h"
#include "base/rng.h"
#include "bucket/events.h"
#include "bucket/feed.h"
#include "bucket/key.h"
#include "bucket/row.h"
#include "codec/frame.h"
#include "title/decide.h"

#include <stdatomic.h>

struct page_plan_kept;
struct page_bucket {
    uint32_t magic;
    struct pages *pages;
    struct page_bucket_opts opts; /* its own copies; .policy: as at the start */
    uint16_t number;
    /* In force, and on disk. .replanned: as it was when it came; see below */
    const struct page_plan *_Atomic plan;
    const struct page_plan *next; /* committer only: it may come into force; NULL: none may */
    _Atomic uint32_t plan_max;    /* no row is by a plan of a greater number */
    struct page_plan_kept *plans; /* all that were in force since the start */
    _Atomic bool replanned;
    bool dormant; /* known to the catalog alone: culled by its last policy, not found */
};
#define PAGE_BUCKET_MAGIC 0xb0c4e701u
/* Does what the wiki says of a title hold for what is stored of it here? */
static inline bool bucket_hears(const struct page_bucket *b)
{
    return !b->dormant && !b->opts.deaf;
}

struct pages {
    uint32_t magic;
    struct page_store store;
    struct home *pool; /* NULL: callers block */
    struct engine *engine;
    struct clock *clock;
    struct rng rng; /* committer only: minted tids */
    struct frame_pool frames;
    struct page_bucket *buckets;
    unsigned count;
    struct feed feed;
    struct page_events events;
    pages_facts_fn *facts;
    void *facts_ctx;
    store_time fact_at; /* committer only: of the last fact, and its count in that instant */
    uint32_t fact_n;
    _Atomic uint64_t culled, purged, extended, overdue_ns_max, superseded, puts, duplicates,
        replanned, damaged;
};
#define PAGES_MAGIC 0xb0c4e702u

/* plan.c. Who reads loads it after the view was begun; it lives as long as the bucket. */
static inline const struct page_plan *bucket_plan(const struct page_bucket *b)
{
    return atomic_load_explicit(&b->plan, memory_order_acquire);
}
/* By which plan an update decides. ERR_IO, ERR_CORRUPT. Committer. */
MUST_CHECK err bucket_plan_decides(struct page_bucket *b, struct engine_txn *t,
                                   const struct page_plan **out);
/* Loads its plan, and brings the policy of its options into force. Blocks. */
MUST_CHECK err bucket_plan_open(struct page_bucket *b);
/* Of a dormant bucket: the plan that its row in the catalog has. ERR_CORRUPT. */
MUST_CHECK err bucket_plan_set(struct page_bucket *b, str value);
void bucket_plans_free(struct page_bucket *b);
MUST_CHECK err bucket_policy_check(const struct page_policy *p, struct err_note *note);
/* Records that no row of an earlier plan is left. */
MUST_CHECK err bucket_replanned(struct engine_txn *t, struct page_bucket *b);

/* The bucket of this number, or NULL: no longer configured. */
struct page_bucket *pages_numbered(struct pages *p, uint16_t number);
/* Tells the listener. */
void pages_tell(struct pages *p, uint16_t bucket, uint32_t domain, str title);
/* Gives out facts, if there are any. */
void pages_tell_facts(struct page_bucket *b, uint32_t domain, str title, const struct fact *facts,
                      unsigned count);

/* Plans the next rows of a bucket whose policy changed; the last batch sets replanned. cull.c */
MUST_CHECK err bucket_replan(struct page_bucket *b, bool *more);
/* Where replanning goes on; in an update. key has PAGE_BOUND_BYTES_MAX bytes. */
MUST_CHECK err catalog_cursor_get(struct engine_txn *t, const struct page_bucket *b,
                                  struct page_key *key);
MUST_CHECK err catalog_cursor_put(struct engine_txn *t, const struct page_bucket *b, str key);
/* Notes of domains (store/page_sweep.h). get: out has PAGE_NOTE_BYTES_MAX bytes; ERR_NOT_FOUND. */
MUST_CHECK err catalog_note_put(struct engine_txn *t, uint32_t domain, enum page_note note,
                                str bytes);
MUST_CHECK err catalog_note_get(struct engine_view *v, uint32_t domain, enum page_note note,
                                char *out, size_t *n);
/* The next number of a kind, 0: buckets, 1: domains. ERR_LIMIT: there is none. */
MUST_CHECK err catalog_number_give(struct engine_txn *t, unsigned kind, uint32_t *out);
/* The row of a bucket, by its name. ERR_NOT_FOUND; ERR_BAD: the name is too long. */
MUST_CHECK err catalog_bucket_get(struct engine_view *v, str name, struct engine_row *out);
MUST_CHECK err catalog_bucket_put(struct engine_txn *t, str name, str value);

#endif
