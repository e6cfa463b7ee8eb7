/* sweep.h - the wiki is asked about every stored title of a domain, once in a period, whether or
 * not anybody reads it.
 *
 * Model. A lap goes through the titles of a domain in key order, 50 a call of the checks (check.h),
 * behind all that somebody waits for. The calls are spread evenly over the period, by store time.
 * How far a lap came is a note of the store: a restart goes on there. What was under way when a
 * process was killed is asked for once more.
 *   Older revisions of a title are asked for, too, when the page was touched since the lap before
 * began, or they came since: whether their text was hidden shows nowhere else. Times are compared
 * with what the wiki said at the beginning of that lap, by its own clock.
 *   The word of a title of which nothing is stored any more goes, once it is SWEEP_KEEP_S old.
 *   A wiki that does not answer, or wants to be left alone, is asked for the same titles again as
 * soon as the checks ask it anything. A lap that is late catches up, one call after the other.
 *   Domains of one host (host and port of the origin's URL) share SWEEPS_OF_HOST places, by turns.
 * So 500 domains of a farm cost it a few calls at once, and leave room for words that readers of
 * any of them wait for. Who waits for no wiki holds no place: also not while it is left alone.
 *   A sweep makes no renders. Each server sweeps the titles of its own store.
 * Thread: new, stop, idle, free, now: loop; figures: any. */
#ifndef PAGE_SWEEP_H
#define PAGE_SWEEP_H

#include "page/check.h"

enum {
    SWEEP_TICK_MS = 500,
    SWEEP_RETRY_MS = 2000,   /* after a failure: the wiki's, the store's */
    SWEEPS_AT_ONCE = 4,      /* domains busy with the store; of each one call at a time */
    SWEEPS_OF_HOST = 4,      /* domains of one host with a call under way: half of what it takes */
    SWEEP_COUNT_MAX = 10000, /* titles counted in one go */
    SWEEP_KEEP_S = 2 * 3600, /* longer than a render is in the making (flight.make_timeout) */
    SWEEP_MARGIN_S = 60,     /* a copy of the wiki's database may have been so far behind */
};

struct page_sweeps;
/* After the service's domains, trust, checks, store and loop. Reads notes: blocks. Owner: caller.
 */
struct page_sweeps *page_sweeps_new(const struct page_service *s);
/* Nothing starts any more; before page_checks_stop. */
void page_sweeps_stop(struct page_sweeps *s);
bool page_sweeps_idle(const struct page_sweeps *s);
/* Stopped and idle. */
void page_sweeps_free(struct page_sweeps **sp);

/* A new lap of this domain begins now, and is not spread over the period. False: it has no origin
 * with api.php, or the server drains. */
MUST_CHECK bool page_sweep_now(struct page_sweeps *s, const struct page_domain *d);

enum sweep_is {
    SWEEP_OFF,   /* there is nobody to ask, or no period */
    SWEEP_RESTS, /* until the next lap begins */
    SWEEP_GOES,  /* a lap is under way */
};
struct sweep_figures {
    enum sweep_is is;
    bool fails;                        /* the last call did */
    store_time began;                  /* the lap; ZERO: there was none */
    uint64_t titles, asked;            /* of the lap: counted at its beginning; asked for so far */
    char at[PAGE_TITLE_BYTES_MAX + 1]; /* the last of them; empty: none */
    /* since when each title that is stored all the while was asked for; NEVER: it was not yet */
    store_time all_since;
    int64_t late_ns; /* behind its pace; 0: it is not */
    /* since the start of the server */
    uint64_t laps, found, revisions, forgotten, unanswered, failures;
};
void page_sweeps_figures(const struct page_sweeps *s, const struct page_domain *d,
                         struct sweep_figures *out);

#endif
