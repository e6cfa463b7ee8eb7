/* sweep_impl.h - one domain's sweep, and the titles it is at. Private to sweep.c and sweep_batch.c.
 * Thread: loop. */
#ifndef PAGE_SWEEP_IMPL_H
#define PAGE_SWEEP_IMPL_H

#include "page/sweep_lap.h"

struct batch; /* sweep_batch.c: titles that follow each other, and what is under way for them */
struct sweep_host; /* sweep.c */

struct sweep_counts {
    uint64_t found, revisions, forgotten, unanswered;
};
struct sweep {
    struct page_sweeps *all;
    const struct page_service *service;
    const struct page_domain *domain; /* NULL: there is nobody to ask */
    struct sweep_host *host;          /* with domain */
    struct list link;                 /* of the host's */
    struct lap lap;
    bool wanted;   /* a new lap is, now */
    bool hurries;  /* the lap is not spread over the period */
    bool stopped;  /* nothing is to begin any more */
    mono again_at; /* after a failure */
    uint64_t laps;
    struct batch *batch; /* NULL: it rests */
    bool asks;           /* it waits for its wiki */
    struct {
        struct lap lap;
        bool hurries, fails;
        uint64_t laps, failures;
        struct sweep_counts counts;
    } shown; /* under the lock of all */
};

/* sweep_batch.c: the next titles, or a new lap. Ends with sweep_rests, later. */
void sweep_go(struct sweep *w);
/* It asks, and its wiki wants to be left alone: what it asked for is not waited for. Ends as a
 * failure. */
void sweep_leave(struct sweep *w);

/* sweep.c */
/* The batch waits for the wiki; it has answered, or failed. */
void sweep_asks(struct sweep *w);
void sweep_goes_on(struct sweep *w);
/* The batch is over. */
void sweep_rests(struct sweep *w, bool fails);
/* Adds to what is shown. */
void sweep_count(struct sweep *w, const struct sweep_counts *more);

#endif
