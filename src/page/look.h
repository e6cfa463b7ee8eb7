/* look.h - somebody says that something happened to a title of a wiki: it is looked at.
 *
 * Model. Nobody is believed: the title's trust ends at once (trust.h), and the wiki is asked about
 * it at once, not after the gathering of questions behind answers (check.h). What comes of a title
 * is collapsed: titles that wait together are asked for together, and one that waits already is
 * asked for once. A title of which nothing is stored costs a look at the store's index, on the
 * pool, and no question.
 *   Who says it may know what the wiki's word must reach to have heard of the change: a bound. A
 * word that does not reach it comes from a copy of the wiki's database that is behind: it does not
 * renew trust, and is asked for again after 1, 5 and 30 s; then it is believed. What it shows that
 * no copy could show that is behind counts at once: who says it may lie. Without a bound
 * nobody can tell: so the title is looked at once more, recheck_ns later, and then only once for
 * all who said so meanwhile.
 *   All of this is in memory alone. What a kill loses, or a full table, is lost trust at worst: who
 * reads asks.
 * Source: notes of the wiki in docs/adr/0036. */
#ifndef PAGE_LOOK_H
#define PAGE_LOOK_H

#include "page/page.h"
#include "title/word.h"

enum {
    LOOK_TITLES_MAX = 100000, /* that wait, or are to be looked at once more */
    LOOK_BATCH_MAX = 64,      /* looked for in the store, and told to the checks, at a time */
};

struct page_looks;
/* After the service's domains, trust, checks, store and loop. Owner: caller. seed: of hashes. Dies
 * when out of memory. */
struct page_looks *page_looks_new(const struct page_service *s, int64_t recheck_ns, uint64_t seed);
/* Nothing begins any more, and what waits is forgotten. Thread: loop. */
void page_looks_stop(struct page_looks *l);
/* Stopped, and nothing runs on the pool. Thread: loop. */
bool page_looks_idle(const struct page_looks *l);
/* Idle, or the loop never ran. Before the checks are freed. */
void page_looks_free(struct page_looks **lp);

/* Look at this title. title: its key, copied; bound: NULL, or all 0: nothing is known. Of a domain
 * without an origin that has api.php it does nothing, nor of a title that no store can have. Never
 * blocks for long: the trust ends inside, all else comes later. False: LOOK_TITLES_MAX titles wait:
 * the trust has ended all the same, and who reads the title asks. Thread: any. */
bool page_look(const struct page_service *s, const struct page_domain *d, str title,
               const struct title_bound *bound);

/* The same for a title as it was written, which the domain's rules make a key of, if they are
 * known. What no page of the wiki can be called is passed over. Thread: any. */
struct arena;
void page_look_written(const struct page_service *s, struct arena *a, const struct page_domain *d,
                       str title, const struct title_bound *bound);

/* The same, and no other server is told: another has told this one. bound: all 0: nothing is
 * known. */
bool page_look_told(const struct page_service *s, const struct page_domain *d, str title,
                    const struct title_bound *bound);

/* Of the whole; read anywhere. */
struct look_figures {
    uint64_t looked;    /* titles that were stored, and asked for */
    uint64_t unknown;   /* titles of which nothing was stored */
    uint64_t rechecked; /* looked at once more */
    uint64_t dropped;   /* there were too many */
    uint64_t waiting;   /* now: in the table */
};
void page_looks_figures(struct page_looks *l, struct look_figures *out);

#endif
