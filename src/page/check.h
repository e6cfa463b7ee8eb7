/* check.h - the wiki is asked for its words, of many titles and revisions in one call, and the
 * store hears them.
 *
 * Model. What is wanted is a cell of trust.h. Of each domain there are two calls at most: one for
 * what somebody waits for, which starts at once; one for what is wanted behind an answer, which is
 * gathered for CHECK_GATHER_MS, but for titles of which somebody said that they changed. Who comes
 * meanwhile waits for the next.
 *   A word is trusted once the store has heard it. A revision that is stored and greater than the
 * wiki's newest is asked for by its number: it was deleted, or the wiki answered from a copy of its
 * database that is behind. Then, and when a word lags otherwise, nothing is trusted, and the title
 * is asked for again, after 1, 5 and 30 s; what it says then is believed, and 36 s after the first
 * that lagged whatever others tell of it meanwhile. A word lags, too, that does not reach what the
 * wiki is known to have done (trust_bind): what it shows that is newer than all that is known is
 * heard all the same, and who waits for it is told at once; what would take something back is asked
 * for once more CHECK_LISTED_MS later, before who waits for it is told; and one that takes
 * something back and comes from a copy that is known to be behind (behind.h), which is never
 * believed. A revision that is there all the same is of an imported history; it is remembered with
 * the word, and not asked for again. A wiki that fails, or wants to be left alone, is asked nothing
 * for as long as it wants, up to CHECK_ASKED_PAUSE_S_MAX, else for 1 s, 2 s, and so on up to
 * CHECK_PAUSE_S_MAX; who waits is told at once: ERR_DENIED, where the wiki said last that it is not
 * for us to read, which closes the domain. So does a server before the wiki that answers 401 or
 * 403 to all questions, plain ones too, and does so still CHECK_BARRED_S after the first. Thread:
 * start from any, figures, too; the rest on the loop. */
#ifndef PAGE_CHECK_H
#define PAGE_CHECK_H

#include "base/heap.h"
#include "base/list.h"
#include "page/page.h"
#include "page/trust.h"
#include "render/render.h"

enum {
    CHECK_GATHER_MS = 1000,
    CHECK_CALL_MS = 30000, /* a call has so long */
    CHECK_PAUSE_S_MAX = 30,
    CHECK_BARRED_S = 10,
    CHECK_ASKED_PAUSE_S_MAX = 300, /* what the wiki asks for, and no longer */
    CHECK_LISTED_MS = 300,         /* so long a change is not listed yet (behind.h) */
    CHECK_RESTS_LOOK_MS = 100, /* how often titles that lag are looked at: tests move their clock */
    CHECK_ITEMS_MAX = 100000,  /* of one domain, wanted or asked for; more are refused */
    CHECK_ITEMS_WAITED = 20000, /* and so many more, that somebody waits for */
};

struct page_checks;
/* After the service's domains, trust, store and loop. Owner: caller. */
struct page_checks *page_checks_new(const struct page_service *s);
/* Nothing starts any more; who waits is told ERR_SHUTDOWN. Thread: loop. */
void page_checks_stop(struct page_checks *c);
/* Stopped, and no call is under way: page_checks_idle. */
bool page_checks_idle(const struct page_checks *c);
void page_checks_free(struct page_checks **cp);

/* Somebody waits, or has time (behind): then it is gathered with what is wanted behind answers. */
struct page_check {
    /* in; borrowed until done */
    struct page_checks *checks;
    const struct page_domain *domain; /* its origin has api.php */
    struct trust_cell *cell;          /* held by the caller */
    store_time since;                 /* a word asked for then or later will do */
    mono deadline;
    bool behind;
    struct home *home;
    void (*done)(struct page_check *c); /* once, later */
    /* out */
    /* ERR_OK; ERR_TIMEOUT; ERR_SHUTDOWN; ERR_LIMIT: too much is wanted of the domain, which says
     * nothing of its wiki; of the wiki: as page_err_of_render; ERR_CORRUPT: it answered, but
     * nothing of this that could be heard */
    err why;
    int64_t retry_after_s;
    /* ERR_OK, ERR_AGAIN: the wiki answered, but its word does not reach what it is known to have
     * done (trust_bind). It is not trusted. ERR_OK: the store has heard what it shows: says, by
     * title_word_hash, at asked_at. ERR_AGAIN: it has not; it would take back what is known. Nobody
     * who has time (behind) is told so */
    bool unreached;
    uint64_t says;
    store_time asked_at;
    bool answered;  /* why not ERR_OK: the wiki did, but not for this one; or this one is damaged */
    bool news;      /* ERR_OK: what the store had heard before was something else */
    int64_t said_s; /* ERR_OK: when the wiki said so, by its clock, in seconds since 1970 */
    bool has_word;  /* ERR_OK, of a title, and not unreached: word is what it said */
    struct title_word word;
    /* the module's */
    struct task task;
    struct list link;
    struct heap_node by_deadline;
    struct check_waits *waits; /* NULL: not there yet, or over */
    bool left;
};
void page_check_start(struct page_check *c);
/* done is not called any more, unless false: then it is on its way. */
MUST_CHECK bool page_check_leave(struct page_check *c);

/* When the wiki answered last, whatever it was asked for here; ZERO: not yet. Thread: any. */
store_time page_checks_answered(const struct page_checks *c, const struct page_domain *d);

/* An answer of the domain's wiki, asked for then: does it come from a copy of its database that is
 * behind (behind.h)? What is news is told to the servers that share our Redis. Thread: any. */
bool page_checks_behind(struct page_checks *c, const struct page_domain *d,
                        const struct wiki_newest *n, store_time asked_at);
/* Is it asked nothing now, because it failed or wants to be left alone? Thread: loop. */
bool page_checks_pauses(const struct page_checks *c, const struct page_domain *d);
/* Is it known to be away: the last call failed, and less than trust_ttl has passed since it may be
 * asked again? Thread: any. */
bool page_checks_away(const struct page_checks *c, const struct page_domain *d);
/* How long after its page was touched is a render settled? Thread: any. */
int64_t page_checks_settle_s(const struct page_checks *c, const struct page_domain *d);
/* Another server has seen it. Thread: any. */
void page_checks_know(struct page_checks *c, const struct page_domain *d,
                      const struct wiki_newest *n);

/* Is any domain's wiki closed (page.h)? Costs a load. Thread: any. */
bool page_checks_any_closed(const struct page_checks *c);

/* Somebody said that this title changed: it is asked for at once, with all that are told together,
 * in the call that is not for who waits. What is asked for already is asked for again. False: too
 * many are. Thread: loop. */
bool page_checks_look(struct page_checks *c, const struct page_domain *domain,
                      struct trust_cell *cell);

/* Of a domain; read anywhere. */
struct check_figures {
    uint64_t calls, words, failures, lagging, full, waiting;
    bool closed; /* the wiki last said that it is not for us to read */
};
void page_checks_figures(const struct page_checks *c, const struct page_domain *d,
                         struct check_figures *out);

#endif
