/* make_impl.h - the maker of one flight. Private to make*.c. */
#ifndef PAGE_MAKE_IMPL_H
#define PAGE_MAKE_IMPL_H

#include "page/ask.h"
#include "page/make.h"

#define MAKE_MAGIC 0x4a5e4a5eu
enum make_flag {
    MAKE_FRESH = 1 << 0,   /* what is stored is too old */
    MAKE_LOOKED = 1 << 1,  /* whoever asked looked for it in vain; then seen says when */
    MAKE_PURGED = 1 << 2,  /* a purge came in between: what is made now began after it */
    MAKE_ARRIVED = 1 << 3, /* ask was filled by another server, whose name it has */
    MAKE_TAKE = 1 << 4,    /* what does not arrive is not made */
    MAKE_TOLD = 1 << 5,    /* the other servers are told of it, by name */
    MAKE_DATED = 1 << 6,   /* with FRESH: somebody may have made it anew meanwhile */
    MAKE_SETTLES = 1 << 7, /* with DATED: one that is unsettled will not do */
};

struct make {
    uint32_t magic;
    const struct page_service *service;
    struct flight *flight;
    struct arena arena;
    struct page_target target; /* its strings are in the arena */
    struct page_seen seen;
    unsigned flags;
    struct page_purge purge;
    bool canceled;
    str arrived;           /* bytes of another server, in the arena; STR_NONE: it is full */
    struct tid tid;        /* of what arrived */
    struct page_name name; /* TOLD */
    unsigned tries, rests;
    struct page_ask ask; /* its request is filled by another server, too */
    struct page_put put;
    struct page_read read; /* the look before */
    struct page_hear hear; /* of a render that came too late */
    struct title_mark mark;
    struct task task;
    struct loop_timer *rest; /* until the next try; NULL: it never had to rest */
    bool resting;
    err why;
    bool keep; /* the error is worth remembering */
    struct err_note note;
    struct page_made *value;
};

/* Loop; m may be gone afterwards. */
void make_finish(struct make *m);
void make_fail(struct make *m, err why, const char *note);
/* Something came in between: once more, of what is there now. As make_finish. */
void make_again(struct make *m);
/* Nothing of use has come from elsewhere. As make_finish. */
void make_here(struct make *m);
/* It may have run before, under a lease that was lost. Loop. */
void make_begin(struct make *m, struct flight *f);
/* Compresses and submits. Pool. */
void make_put(struct make *m);

/* make_travel.c: of the flight's share, on the loop. */
err make_encode(const struct flight_value *v, struct buf *out, void *ctx);
void make_accept(struct flight *f, const struct flight_arrival *a, void *ctx);
/* When what arrived under this tid was asked for, at the latest: their clock may be ahead, but
 * Redis has it since ask.began. */
store_time make_arrived_said_at(const struct make *m, struct tid tid);

/* make_late.c */
/* Once it is stored. False: it did not. Else it is hidden in the store as the wiki says, and nobody
 * is given it: that ends it. Where the title's first word came meanwhile, and is another one, the
 * store could not see whether it denies the render: that is made once more. Loop. */
MUST_CHECK bool make_came_late(struct make *m);

#endif
