/* superseded.h - what was superseded before an instant, as a rule of effect timeline keeps it:
 * read in pages. In the order of time, domain after domain; of one title the newest first. A
 * timeline in the store is read at once; one in Redis is asked, and answers later. */
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
    str keep;          /* "store", "redis"; empty: where a rule keeps one, the store first */
    store_time before;
    str pivot;      /* `next` of the page before; empty: the first page */
    unsigned limit; /* CHANGE_LIST_MAX at most */
    /* out */
    bool remote; /* it is in Redis: nothing was read; change_timeline_ask reads it */
    struct change_superseded *entries;
    unsigned count;
    str next; /* empty: there are no more. A page with fewer entries than limit may have one */
};
/* Texts go to the arena. ERR_BAD: the domain is not configured, there is no such kind or place, the
 * title is too long, or the pivot is of another list. Waits for the disk: a pool thread. */
MUST_CHECK err change_timeline(struct change *c, struct change_timeline *t, struct arena *a,
                               struct err_note *note);
/* The same, of one that is remote: Redis is asked. t, a and note are this call's until done, which
 * comes once, later, on the loop: also ERR_UNAVAILABLE, ERR_TIMEOUT and others of Redis. Any thread
 * that has the arena. */
typedef void change_timeline_done_fn(void *ctx, err why);
void change_timeline_ask(struct change *c, struct change_timeline *t, struct arena *a,
                         struct err_note *note, change_timeline_done_fn *done, void *ctx);

#endif
