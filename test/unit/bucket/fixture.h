/* fixture.h - a page bucket on an engine in memory, on a clock the test moves; puts and reads that
 * assert.
 *
 * All on the title "T" of one domain. fixture_free checks the store. */
#ifndef TEST_BUCKET_FIXTURE_H
#define TEST_BUCKET_FIXTURE_H

#include "bucket/page_write.h"
#include "engine_mem.h"
#include "sync.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define T0 ((int64_t)1767225600 * NS_PER_S) /* 2026-01-01 */
#define GRACE (100 * NS_PER_S)
#define HOUR (3600 * NS_PER_S)

struct fixture {
    struct fake_clock clock;
    unsigned texts;
    struct engine *engine;
    struct pages *pages;
    struct page_bucket *bucket;
    uint32_t domain;
    unsigned told;
};

/* grace 100 s, historical 1 h, stash 2 h, ledger 10 d, count 2, interval 60 s, ttl 50 s. */
struct page_policy fix_policy(enum page_policy_kind kind);
struct fixture *fixture_new(struct page_policy p);
/* Prints; for pages_check. */
void damage_found(void *ctx, const char *what);
void fixture_free(struct fixture *f);
/* As after a new start of the process, with this policy. */
void fix_restart(struct fixture *f, struct page_policy p);
/* Puts text as html. tid_s < 0: minted; else T0 + that many seconds. Keeps p->stash_ns, behind,
 * asked, said_at, heeds and word. */
err fix_put_as(struct fixture *f, uint64_t rev, int64_t tid_s, const char *text,
               struct page_put *p);
/* A text of its own; asserts that it is stored. */
struct page_name fix_put(struct fixture *f, uint64_t rev, int64_t tid_s);
err fix_find(struct fixture *f, enum page_select select, struct page_name name,
             struct page_render *r, struct page_trace *trace);
struct page_render fix_latest(struct fixture *f);
struct page_render fix_exact(struct fixture *f, struct page_name name);
err fix_gone(struct fixture *f, struct page_name name, struct page_trace *t);
void assert_name(struct page_name a, struct page_name b);
/* How many renders the history shows. */
unsigned fix_history(struct fixture *f);
/* Until nothing is due. */
void fix_upkeep(struct fixture *f);
/* name: rev 0 is the title, tid 0 the revision. Keeps o->until and elsewhere. */
err fix_order(struct fixture *f, enum page_order_kind kind, struct page_name name,
              struct page_order *o);
/* What the wiki said, asked now when said_at is zero, of revisions of the title. */
err fix_mark(struct fixture *f, struct title_mark mark);
/* A word on the title: a copy of it, asked now when asked_at is zero. Keeps h->believe and marks.
 */
err fix_hear(struct fixture *f, const struct title_word *word, struct page_hear *h);

#endif
