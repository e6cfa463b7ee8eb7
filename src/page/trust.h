/* trust.h - how long ago the wiki was asked about a title, and what it said then.
 *
 * Model. What is read has a cell: a title, or one revision of it. The cell says when the last word
 * was asked for, and which it was, as a number (of a title: title_word_hash; of a revision: an
 * enum trust_shown). Who answers from the store compares that number with what the store has
 * heard: so a word that another one overtook is not trusted. Ready answers hold the cell of their
 * title, and share its trust.
 *   A doubt is a hint that something changed: nothing asked for before it is trusted. The doubt of
 * a title is one of all its revisions. It may have a bound: a word of the title that does not reach
 * that comes from a copy of the wiki's database that is behind, and is not trusted either.
 *   All of this is in memory alone: after a start nothing is trusted, and what is read first is
 * asked for first. To lose a cell is to lose trust, which costs a question and is always safe.
 * Cells that nobody holds are forgotten when there are too many, those not used for the longest
 * time first (CLOCK; Corbato 1968). Who asks the wiki holds the cell until the answer is heard: so
 * a doubt is not lost that came after the question. Thread: all from any thread, but new and free.
 * Cells take no lock when they are looked at. */
#ifndef PAGE_TRUST_H
#define PAGE_TRUST_H

#include "base/check.h"
#include "base/home.h"
#include "base/str.h"
#include "base/times.h"
#include "title/word.h"

#include <stdatomic.h>

enum { TRUST_CELLS_DEFAULT = 200000 };
#define TRUST_NEVER INT64_MAX /* an age: it was never asked for */
/* GONE: it was deleted, or is another title's. */
enum trust_shown { TRUST_HIDDEN, TRUST_SHOWN, TRUST_GONE };

struct page_trust;
struct trust_cell;

/* The word of a title is wanted behind an answer: once, until one is heard, or none. The cell is
 * held while it runs. */
typedef void trust_soon_fn(void *ctx, struct trust_cell *c);

/* Dies when out of memory. cells_max: that nobody holds. seed: of the hashes. */
struct page_trust *page_trust_new(unsigned cells_max, uint64_t seed);
/* No cell is held. */
void page_trust_free(struct page_trust **tp);
/* soon runs at that home; NULL: nobody asks. Before anybody reads, or when nobody does any more. */
void page_trust_on_soon(struct page_trust *t, struct home *home, trust_soon_fn *soon, void *ctx);

struct trust_key {
    uint32_t domain;
    str title;    /* copied */
    uint64_t rev; /* 0: the title */
};
/* With a reference, given back with trust_release. Dies when out of memory. */
struct trust_cell *page_trust_hold(struct page_trust *t, const struct trust_key *k);
struct trust_cell *trust_hold(struct trust_cell *c); /* one more */
void trust_release(struct trust_cell **cp);
/* Of a held cell; title is borrowed from it. */
struct trust_key trust_key_of(const struct trust_cell *c);

/* For how long it is known by now that the wiki says this: 0 or more; TRUST_NEVER: it is not. */
int64_t trust_age_ns(const struct trust_cell *c, uint64_t says, store_time now);
/* The same, whatever doubt came meanwhile, for who waited for a word that was asked for since then:
 * the doubt is for those who come after him. */
int64_t trust_waited_ns(const struct trust_cell *c, uint64_t says, store_time since,
                        store_time now);
/* A word, asked for at that instant. One asked for before the last is passed over; one asked for
 * before a doubt does not end the doubt. */
void trust_hear(struct trust_cell *c, store_time asked_at, uint64_t says);
/* The same of a title's word. False: it does not reach the bound, and is not trusted; believe: it
 * is, whatever it reaches. What reaches the bound ends it. */
bool trust_hear_word(struct trust_cell *c, const struct title_word *w, bool believe);
/* Was a word asked for after that instant? Then what the last one said, trusted or not, and when it
 * was asked for. */
MUST_CHECK bool trust_said_since(const struct trust_cell *c, store_time since, uint64_t *says,
                                 store_time *at);
void trust_doubt(struct trust_cell *c, store_time at);
store_time trust_doubted_at(const struct trust_cell *c); /* ZERO: never */
/* Of a title: words have to reach this, and what was to be reached before; but for what the last
 * word that was heard reaches. */
void trust_bind(struct trust_cell *c, const struct title_bound *b);
bool trust_reaches(const struct trust_cell *c, const struct title_word *w);
/* A doubt of a title, with that bound, when there is a cell of it; else nothing is trusted anyway,
 * and false. */
bool page_trust_doubt(struct page_trust *t, const struct trust_key *k, store_time at,
                      const struct title_bound *b);
/* Was this the last word of what has a cell, with no doubt since? */
bool page_trust_says(struct page_trust *t, const struct trust_key *k, uint64_t says);
/* Of a title: may its page be purged at the wiki once more by our own doing? Then it counts as
 * done. Each purge is a touch, which may call for another one: by turns of servers that do not know
 * of each other, or where the word behind it comes from a copy of the database that has not heard
 * of it. So there are TRUST_PURGES_MAX at once, and one in TRUST_PURGE_S. */
enum { TRUST_PURGES_MAX = 3, TRUST_PURGE_S = 60 };
MUST_CHECK bool trust_may_purge(struct trust_cell *c, store_time now);
/* A word is wanted, and nobody waits for it. */
void trust_soon(struct trust_cell *c);
/* None came: it may be wanted anew. */
void trust_unheard(struct trust_cell *c);

/* Who reads. */
enum trust_reader {
    TRUST_PLAIN,  /* the latest */
    TRUST_NAMED,  /* a revision, or an exact render */
    TRUST_EDITOR, /* who opens it to edit it: the last save may be a moment ago */
    TRUST_SAVER,  /* who brings back what was opened */
};
enum trust_need { TRUST_FINE, TRUST_BEHIND, TRUST_FIRST }; /* ask: not; behind the answer; first */
/* ttl <= max, but for a moment while they change. */
struct trust_rules {
    _Atomic int64_t ttl_ns, max_ns;
};
/* A word of so long ago is as good as a new one to a saver, and to a reader who has to wait. */
#define TRUST_RECENT_NS (2 * NS_PER_S)
enum trust_need trust_need(const struct trust_rules *r, enum trust_reader reader, int64_t age_ns);

struct trust_figures {
    uint64_t cells, held, doubts;
};
void page_trust_figures(struct page_trust *t, struct trust_figures *out);

#endif
