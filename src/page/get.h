/* get.h - one read of a content, from what was asked to what is answered.
 *
 * Model. A read is a machine: it looks in the store; what is missing, and can be made, it has made;
 * a read that names a revision, or keeps a render for an editor, writes that before it ends. Values
 * go in (names, conditions, codings), and one outcome comes out, with what belongs to it. The words
 * of HTTP for both are the caller's.
 *   The states are in get.c. All of them run at the caller's home, one after the other. */
#ifndef PAGE_GET_H
#define PAGE_GET_H

#include "page/check.h"
#include "page/coding.h"
#include "page/condition.h"
#include "page/make.h"
#include "page/range.h"
#include "page/title.h"

enum { PAGE_HOPS_MAX = 10 }; /* redirects followed for a script of another site */

enum page_get_flag {
    GET_STASH = 1 << 0,       /* keep it for an editor */
    GET_FOLLOW = 1 << 1,      /* redirects of the wiki are told, or followed for a script */
    GET_SCRIPT = 1 << 2,      /* of another site: it cannot follow a redirect itself */
    GET_NO_CACHE = 1 << 3,    /* make the latest, or a revision, anew */
    GET_ONLY_CACHED = 1 << 4, /* ask nobody */
    GET_NO_STALE = 1 << 5,    /* rather fail than give what could not be made anew */
    GET_AT = 1 << 6,          /* an instant chose the render, not the names */
    GET_OWN = 1 << 7,         /* no other server is asked for it */
};
struct get_hop; /* get_hop.c */
/* What happened on the way. */
enum page_get_was {
    WAS_MADE = 1 << 0,       /* by the flight this waited for */
    WAS_REMADE = 1 << 1,     /* that was purged before it could be read, and is made once more */
    WAS_COLLAPSED = 1 << 2,  /* another request had asked for the making */
    WAS_SETTLED = 1 << 3,    /* the title is as the wiki writes it, by its rules */
    WAS_MOVED = 1 << 4,      /* the wiki itself wrote it in another way, which the title is now */
    WAS_UNLIKE = 1 << 5,     /* the client wrote the title in another way, and is not redirected */
    WAS_UNFOLLOWED = 1 << 6, /* a redirect of the wiki, answered as the page that it is */
    WAS_WRITTEN = 1 << 7,    /* the answer waited for a longer life, or a pin */
    WAS_CHECKED = 1 << 8,    /* the answer waited for the wiki's word */
    WAS_HOPPED = 1 << 9,     /* another server was asked for it */
    WAS_ARRIVED = 1 << 10,   /* its making began before; it is judged as what is stored */
    WAS_HURRIED = 1 << 12,   /* it waits so short for a word that none is no outage of the wiki */
    WAS_SECONDARY = 1 << 13, /* the secondary was asked for it, under this title */
    WAS_TAKEN = 1 << 14,     /* and had it */
    WAS_NEWEST = 1 << 11, /* the latest was looked for as the revision that is the wiki's newest */
};
/* Where the content comes from. */
enum page_how {
    HOW_HIT,     /* it was stored */
    HOW_MISS,    /* it was not, and was made */
    HOW_RENEWED, /* it was made anew, because the client wanted that */
    HOW_STALE,   /* it should have been, and could not */
};
/* Does the wiki still say so? */
enum page_get_trusted {
    GET_UNASKED,   /* it was made now, or there is no wiki that could be asked */
    GET_TRUSTED,   /* by a word that is young enough */
    GET_CHECKED,   /* by a word that was waited for */
    GET_UNCHECKED, /* it could not be asked, or what it said may come from a copy that is behind */
    GET_DATED,     /* it says that it has something newer, which is not made for this */
};
enum page_outcome {
    /* with render, content and coding */
    GOT_CONTENT,      /* body */
    GOT_PART,         /* body, of which range */
    GOT_REDIRECT,     /* body and location: the stored target */
    GOT_SAME,         /* the client has it */
    GOT_PRECONDITION, /* a condition does not hold */
    GOT_UNACCEPTABLE, /* no coding, or no version of its specification, that will do */
    GOT_NO_RANGE,     /* the range lies outside */
    /* without */
    GOT_SHAPE,         /* shaped: what another waiter has built of it */
    GOT_MOVED,         /* target.title is how the wiki writes it: the client is to go there */
    GOT_NOTHING,       /* no such render */
    GOT_NO_CONTENT,    /* a render without such a content */
    GOT_NO_DATA,       /* an editor's, without the data that it could be saved by */
    GOT_GONE,          /* trace and note say why */
    GOT_BAD_TITLE,     /* why and note; no title of this wiki */
    GOT_UNCACHED,      /* it would have to be made */
    GOT_FULL,          /* there is no room to keep it for an editor */
    GOT_REFUSED,       /* it had to wait, and must not */
    GOT_ORIGIN_FAILED, /* why, note and retry_ms, of the origin */
    GOT_FAILED,        /* why, trace and note, of the store */
};
/* WAITS: not begun; and as the next state: of what is under way. */
enum page_get_state {
    STEP_WAITS,
    STEP_LOOK,
    STEP_CHECK,
    STEP_SETTLE,
    STEP_MAKE,
    STEP_KEEP,
    STEP_TAKE,
    STEP_HOP,
    STEP_END,
    STEPS
};
enum page_wait { WAIT_READ, WAIT_WRITE, WAIT_OTHERS };

/* Where the following of redirects began. */
struct page_from {
    struct page_target target;
    struct page_name name;
    enum page_how how;
    const char *how_detail;
};
/* What looking for it came to. */
enum page_found { FOUND_READY, FOUND_OLD, FOUND_NOTHING, FOUND_NO_CONTENT, FOUND_FAILURE };

struct page_get {
    /* in; borrowed until done */
    const struct page_service *service;
    struct arena *arena;
    struct home *home;
    struct page_target target;
    unsigned flags; /* enum page_get_flag */
    struct page_condition condition;
    struct page_range_fields range_fields;
    str accept_encoding;
    str accept; /* when it names a specification; else empty */
    /* It is about to wait for this. Fills in deadline and shape for WAIT_OTHERS. False: it
     * must not wait; the answer is ignored for WAIT_READ. At home, or inside page_get_start */
    bool (*wait)(struct page_get *g, enum page_wait what);
    mono deadline;
    int shape; /* index of the shape that would answer; -1: none would */
    /* Once: inside page_get_start, or later at home. All below is there until it returns. g may be
     * gone behind it */
    void (*done)(struct page_get *g);
    /* in and out: which render was asked for, and what was read of it */
    struct page_read read;
    /* out */
    enum page_outcome outcome;
    unsigned was; /* enum page_get_was */
    enum page_how how;
    const char *how_detail; /* leader, waiter, ...; NULL: nothing to say */
    enum page_get_trusted trusted;
    int64_t word_age_ns; /* how long ago it was asked; TRUST_NEVER: never, or not by us */
    /* By which trust it was given, until done returns; cell NULL: by none. */
    struct trust_cell *cell;
    uint64_t says;
    enum trust_reader reader;
    struct page_seen seen;   /* before the read */
    store_time looked_at;    /* the same, with shared_store */
    enum http_coding coding; /* of the answer */
    struct http_range range;
    str location, body; /* body: as stored, or its raw bytes when the coding is identity */
    void *shaped;
    struct page_made *made; /* NULL: nothing was, or it is read by another name since */
    unsigned hops;          /* redirects followed */
    store_time renews_at;   /* when a read of it is to be told to the other servers; NEVER: not */
    err why;
    struct err_note note;
    struct page_trace trace;
    int64_t retry_ms;
    struct page_title_seen title_seen;
    /* the module's */
    enum page_get_state state;
    enum page_found found;
    int64_t title_age_ns;  /* of page_trusted */
    struct page_from from; /* of the first hop */
    uint64_t taken;        /* of what may be kept for editors */
    union {
        struct page_order order;
        struct page_title_wait title;
    } by;                    /* of the state */
    struct get_hop *hop;     /* in the arena; NULL: no other server was asked */
    struct page_check check; /* for itself: the loop looks at it in page_get_leave */
    atomic_bool waiting;     /* in the flight */
    atomic_bool taking;      /* in one of the secondary */
    err taken_why;
    atomic_bool checking;
    struct flight_waiter flight;
    struct task task;
};
/* read.which is set by page_target_which, or names an instant; the rest of read is the module's. */
void page_get_start(struct page_get *g);
/* Whoever asked has left. True: it waited for a flight or a word, and done will not be called.
 * Thread: loop. */
MUST_CHECK bool page_get_leave(struct page_get *g);
/* Are readers sent to the title as the wiki writes it? Who would not follow (scripts of another
 * site, who asks for it anew) and pages of users are served all the same. flags: enum
 * page_get_flag. Pure. */
bool page_title_sends_on(struct page_title_seen seen, unsigned flags);
/* Will what is answered to this do for later readers, who ask alike, without a look into the store,
 * as long as the title does not change? Then until *until: while the render is not due, in the
 * state it is counted in, until the other servers are to be told of it again, and for one that is
 * named while a read of it needs no longer life. Once it is done. Pure. */
MUST_CHECK bool page_get_lasts(const struct page_get *g, store_time *until);
/* Would this, once it is done, answer all who asked the same of the same flight? */
bool page_get_may_be_shape(const struct page_get *g);

#endif
