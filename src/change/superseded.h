/* superseded.h - what was superseded before an instant, as a rule of effect timeline keeps it in
 * the store: read in pages. In the order of time, domain after domain; of one title the newest
 * first. */
#ifndef CHANGE_SUPERSEDED_H
#define CHANGE_SUPERSEDED_H

#include "change/change.h"

struct change_superseded {
    store_time at;
    str domain, title; /* domain empty: it is not configured any more */
    str kind;          /* "revision", "render" */
    uint64_t rev;
    str tid; /* empty: a revision */
};
struct change_timeline {
    str domain, title; /* empty: all; a title only with its domain */
    str kind;          /* empty: both */
    store_time before;
    str pivot;      /* `next` of the page before; empty: the first page */
    unsigned limit; /* CHANGE_LIST_MAX at most */
    /* out */
    struct change_superseded *entries;
    unsigned count;
    str next; /* empty: there are no more. A page with fewer entries than limit may have one */
};
/* Texts go to the arena. ERR_BAD: the domain is not configured, there is no such kind, the title is
 * too long, or the pivot is of another list. Waits for the disk: a pool thread. */
MUST_CHECK err change_timeline(struct change *c, struct change_timeline *t, struct arena *a,
                               struct err_note *note);

#endif
