/* title.h - titles of domains with an origin: as the wiki writes them.
 *
 * What is stored under a title stands under its normal form. A read looks under what the client
 * wrote first, so that a title that is normal already never waits for the wiki's rules. Where the
 * wiki, asked for a page, has its title otherwise than the rules said (RENDER_OTHER_TITLE), the
 * wiki's word counts. */
#ifndef PAGE_TITLE_H
#define PAGE_TITLE_H

#include "base/home.h"
#include "page/page.h"
#include "render/title_rules.h"

struct page_title_seen {
    bool changed; /* the client wrote it in another way */
    bool user;    /* it is a page of a user or of her talk */
};
enum page_title_end {
    TITLE_SETTLED,
    TITLE_BAD,      /* it is no title of the wiki: why is ERR_BAD, ERR_NOT_FOUND or ERR_LIMIT */
    TITLE_NO_RULES, /* the wiki's rules cannot be had: why, as of an origin */
};
/* Turns target->title into its key by the rules of its domain's wiki, when it has one. */
struct page_title_wait {
    /* in; borrowed until done */
    struct page_target *target;
    struct arena *arena;
    mono deadline;
    struct home *home;
    void (*done)(struct page_title_wait *w); /* at home, once, when it was LATER */
    /* out */
    enum page_title_end end;
    err why;
    struct err_note note;
    struct page_title_seen seen;
    /* the module's */
    struct siteinfo_waiter siteinfo;
    struct task task;
};
/* By what is known now. False: the rules are not known, and nothing changed. */
MUST_CHECK bool page_title_settle(struct page_title_wait *w);
/* Asks for the rules that are not known, and settles by them. After page_title_settle. */
void page_title_wait(struct page_title_wait *w);

/* The wiki's own word for the title: target gets that, and *seen says so. ERR_BAD: the store takes
 * no such key. */
MUST_CHECK err page_title_take(struct arena *a, struct page_target *target, str title,
                               int64_t namespace_id, struct page_title_seen *seen);

#endif
