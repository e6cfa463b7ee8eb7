/* page_get.h - one GET of a content: what was found and how it will be answered. Private to
 * page_get.c, page_answer.c, page_miss.c, render_make.c. */
#ifndef APP_PAGE_PAGE_GET_H
#define APP_PAGE_PAGE_GET_H

#include "app/page/hot.h"
#include "app/page/page_request.h"
#include "app/page/title.h"
#include "flight/flight.h"
#include "http/negotiate.h"
#include "render/render.h"

#include <stdatomic.h>

enum { PAGE_HOPS_MAX = 10 }; /* redirects followed for a script of another site */

/* Where the content comes from; x-restbase-cache and Cache-Status say so. */
enum page_how {
    HOW_HIT,     /* it was stored */
    HOW_MISS,    /* it was not, and was made */
    HOW_RENEWED, /* it was made anew, because the client wanted that */
    HOW_STALE,   /* it should have been, and could not */
};
/* What looking for it came to. */
enum page_found {
    FOUND_READY,      /* status says which answer */
    FOUND_OLD,        /* it is there and has to be made anew */
    FOUND_NOTHING,    /* why is ERR_NOT_FOUND, or ERR_GONE and trace says more */
    FOUND_NO_CONTENT, /* the render is there and has no content of that name */
    FOUND_FAILURE,    /* why */
};

/* Where the following of redirects began. */
struct page_from {
    struct page_target target;
    struct page_name name;
    enum page_how how;
    const char *how_detail;
    bool named;
};

struct page_get {
    struct http_exchange *x; /* NULL: of an answer for many */
    const struct app *app;
    struct arena *arena;
    struct page_target target;
    struct hot_mark mark; /* taken before the read */
    struct page_read read;
    enum page_found found;
    err why;
    const struct page_content *content;
    enum page_how how;
    const char *how_detail; /* of Cache-Status; NULL: none */
    bool collapsed;         /* another request had asked for the making */
    bool named;             /* the path names a revision */
    bool stash;             /* ?stash=true */
    bool follow;            /* redirects: not ?redirect=false */
    bool negotiated;        /* Accept-Datetime or ?at= chose the render */
    bool no_cache;          /* to be made anew */
    bool profiled;          /* Accept names a profile */
    bool plain;            /* nothing in the request but path and codings: a ready answer will do */
    bool extended;         /* the answer waited for a longer life */
    bool made;             /* by the flight this waited for */
    bool remade;           /* that was purged before it could be read, and is made once more */
    bool settled;          /* the title is as the wiki writes it, by its rules */
    bool moved;            /* the wiki itself wrote it in another way, which the title is now */
    bool unfollowed;       /* a redirect of the wiki, answered as the page that it is */
    bool unlike;           /* the client wrote the title in another way, and is not redirected */
    unsigned hops;         /* redirects followed */
    struct page_from from; /* of the first of them */
    /* decided by page_get_decide */
    int status;              /* 200, 206, 302, 304, 406, 412, 416 */
    enum http_coding coding; /* of the answer */
    struct http_range range; /* of 206 */
    str location;            /* of 302: the stored target */
    str body;                /* as stored, or its raw bytes when the answer is identity */
    /* waiting */
    bool deferred;
    struct home *home; /* x's worker: whatever was waited for goes on there */
    struct task again;
    struct page_order order;
    uint64_t taken; /* of what may be kept for editors */
    mono deadline;
    struct title_wait wait;
    atomic_bool waiting; /* in the flight */
    struct flight_waiter flight;
};

/* Which answer the conditions of the request ask for, once render and content are known. Pure but
 * for g. */
void page_get_decide(struct page_get *g);
/* Of a render that was made anew no matter what: does the stored one spare that? Pure. */
bool page_get_is_younger(const struct page_get *g);
/* Answers as decided; headers and body are there for 200, 206 and 302.
 * Thread: any. */
void page_get_answer(struct page_get *g);
/* Answers that there is none; ERR_GONE is told by the trace. */
void page_get_fail(struct page_get *g, err why, const struct page_trace *trace,
                   const struct err_note *note);
/* The 200 as decided, to be sent to many. Owner: caller; NULL when it cannot be made. */
struct http_ready *page_get_ready(struct page_get *g);
/* Bits for the variants of a ready answer; -1: what the client accepts is too odd for one. */
int page_get_variant(const struct http_common *c);

/* Looks for the render, and decides and reads; then answers, or waits. Thread: g's home. */
void page_get_look(struct page_get *g);
/* The same from any thread. Deferred. */
void page_get_again(struct page_get *g);
/* The body, once read, in the coding of the answer. */
MUST_CHECK err page_get_decode(struct page_get *g);
/* Puts the request to sleep. Handler thread. */
void page_get_defer(struct page_get *g);

/* The redirects that were followed lead nowhere: answers the first page itself. False: none
 * were. */
MUST_CHECK bool page_get_turn_back(struct page_get *g);

/* page_miss.c: settles the title, has the render made if page_miss_can, then looks again; answers
 * when that cannot be. Thread: g's home. */
void page_miss_start(struct page_get *g);
/* What ?stash=true asks for is to be edited. Without the data of a page bundle it could not be
 * saved as it was. True: answered so. */
bool page_miss_refuses_stash(struct page_get *g);
/* Puts the request to sleep, which a client that leaves may end. Handler thread. */
void page_miss_defer(struct page_get *g);
/* Could an origin make what this asks for? */
bool page_miss_can(const struct page_get *g);
/* May it stand under the title as the wiki writes it, which nobody has looked for yet? */
bool page_miss_may_be_unlike(const struct page_get *g);

#endif
