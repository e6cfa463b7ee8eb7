/* transform.h - what editors have the wiki do with a document, with the render that they began
 * with (docs/peers.md, 3).
 *
 * Model. A transform is a machine, as a read is (get.h): values go in, one outcome comes out. The
 * original is the render that the editor's tag names, or the head of the HTML that was sent. It
 * goes to the wiki with the HTML, so that what was not touched comes back as it was. html to html
 * brings that render itself up to date (red links, a variant of its language), which an origin does
 * between bundles.
 *   Before an original is used, the wiki is asked whether its text may still be given; a word of
 * TRUST_RECENT_NS ago will do. Where no word comes, it is used as it is stored: the wiki finds
 * conflicts at the save, and says itself that a page was deleted. The store hears what a transform
 * is told of a revision. What comes of a transform is not given when the revision was hidden or
 * deleted meanwhile.
 *   An original that is not here may be at another server (hop.h), which is asked once.
 *   Transformed wikitext that is to be kept (fields.stash) stands in a bucket of its own, under a
 * tag that comes out. What was made with a user's cookies is kept for that user alone, as the wiki
 * knows her: sessions and cookies change during an edit. The states are in transform.c. */
#ifndef PAGE_TRANSFORM_H
#define PAGE_TRANSFORM_H

#include "page/ask.h"
#include "page/etag.h"
#include "page/hop.h"
#include "page/title.h"
#include "page/transform_body.h"
#include "page/trusted.h"

enum transform_kind {
    HTML_TO_WIKITEXT,
    HTML_TO_HTML,
    WIKITEXT_TO_HTML,
    WIKITEXT_TO_LINT,
    TRANSFORM_KINDS
};
/* Of words such as "html" and "wikitext"; TRANSFORM_KINDS: there is no such transform. */
enum transform_kind page_transform_kind(str from, str to);

/* What is wrong with what was asked, before anything is done. */
enum transform_refusal {
    TRANSFORM_ALLOWED,
    TRANSFORM_NO_KIND,
    TRANSFORM_NO_ORIGIN,  /* that transforms */
    TRANSFORM_NO_BUNDLES, /* the origin's: what was not edited would change, too */
    TRANSFORM_NO_HTML,
    TRANSFORM_NO_WIKITEXT,
    TRANSFORM_NO_RENDER,     /* to be brought up to date: title or revision are missing */
    TRANSFORM_NO_UPDATES,    /* it is not said which */
    TRANSFORM_NO_NAME,       /* of that render, in a tag or in the HTML's head */
    TRANSFORM_NO_DATA,       /* the origin's, by which what is kept could be saved */
    TRANSFORM_KEEPS_NO_PAGE, /* what is to be kept has no title */
    TRANSFORM_KEEPS_PART,    /* what is to be kept is a fragment */
    TRANSFORM_BAD_TAG,       /* of a page that is there neither tag nor head names a render */
    TRANSFORM_REFUSALS
};
enum transform_outcome {
    TRANSFORM_DONE,            /* headers, body; etag, when it is kept */
    TRANSFORM_NONE,            /* as it turns out, this origin has no transforms */
    TRANSFORM_BAD_TITLE,       /* why and note */
    TRANSFORM_NO_ORIGINAL,     /* it is not stored */
    TRANSFORM_BAD_ORIGINAL,    /* note: what is stored cannot be edited */
    TRANSFORM_ORIGINAL_FAILED, /* why and trace */
    TRANSFORM_REFUSED,         /* by the origin: its status, and its own words for the user */
    TRANSFORM_DELETED,         /* the page was, says the origin */
    TRANSFORM_HIDDEN,          /* the text of the revision is, says the origin */
    TRANSFORM_FULL,            /* there is no room to keep it */
    TRANSFORM_ORIGIN_FAILED,   /* why, note and retry_ms, of the origin */
    TRANSFORM_FAILED,          /* why and note, of ours */
};
enum { TRANSFORM_PARTS_MAX = 4 };

struct page_transform {
    /* in; borrowed until done */
    const struct page_service *service;
    struct arena *arena;
    struct home *home;
    enum transform_kind kind;
    struct page_target target; /* of the first bucket; title: as the client wrote it, or empty;
                                  name.rev 0: no revision is named */
    struct transform_fields fields;
    str tag;                             /* that the editor brings back; n 0: none */
    str accept, accept_language, cookie; /* of the client */
    mono deadline;
    /* Once, later, at home. t may be gone behind it */
    void (*done)(struct page_transform *t);
    /* out */
    enum transform_outcome outcome;
    str headers, body, etag; /* headers: "name: value\n" lines; etag: without its quotes */
    int origin_status;
    str words;
    err why;
    struct err_note note;
    struct page_trace trace;
    int64_t retry_ms;
    /* the module's */
    unsigned phase;
    struct page_edited original_name;
    bool has_original;
    bool elsewhere;              /* the original is looked for in the other place */
    bool checked;                /* the wiki was asked for its word on it */
    bool taken_from;             /* the secondary was asked for it */
    struct page_trusted trusted; /* it is; cell NULL: nobody looked */
    struct page_check check;
    bool asking;
    bool full;
    str kept_title; /* under which what is kept for who asks stands */
    struct page_title_wait title;
    struct task task;
    struct page_read read;
    struct page_hop hop;         /* another server is asked for the original */
    struct flight_waiter taking; /* the secondary is */
    struct transform_original original;
    struct buf sent;            /* what the origin is asked with */
    enum transform_holds holds; /* of html to wikitext */
    struct transform_request ask;
    struct render_request meta; /* of the user */
    struct page_target of_fate;
    struct page_ask fate;
    struct render_content parts[TRANSFORM_PARTS_MAX];
    unsigned parts_count;
    store_time began;
    uint64_t taken; /* of what may be kept for editors */
    struct page_put put;
};
/* Is there such a transform for this target? Looks at kind and target alone. */
enum transform_refusal page_transform_can(const struct page_transform *t);
/* Is what was sent right for it? Finds out which render is the original. After page_transform_can;
 * before the start. */
enum transform_refusal page_transform_check(struct page_transform *t);
void page_transform_start(struct page_transform *t);
/* The client has left. A call to the origin that transforms is canceled, and done comes soon. In
 * every other phase nothing is canceled, and done comes when the transform ends. Thread: loop. */
void page_transform_leave(struct page_transform *t);

#endif
