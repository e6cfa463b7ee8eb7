/* title.h - titles of domains with an origin: as the wiki writes them, and addresses of other
 * titles relative to a request's as RESTBase has them (docs/peers.md, 1).
 *
 * What is stored under a title stands under its normal form. A read looks under what the client
 * wrote first, so that a title that is normal already never waits for the wiki's rules. Where the
 * wiki, asked for a page, has its title otherwise than the rules said (RENDER_OTHER_TITLE), the
 * wiki's word counts: readers are sent to that. */
#ifndef APP_PAGE_TITLE_H
#define APP_PAGE_TITLE_H

#include "app/page/page_request.h"
#include "render/title.h"

struct title_seen {
    bool changed; /* the client wrote it in another way */
    bool user;    /* it is a page of a user or of her talk */
};
/* Turns target->title into its key by the rules of its domain's wiki, when it has one; asks for the
 * rules first when they are not known yet. */
struct title_wait {
    /* in; borrowed until go or failed is called, or the request was answered */
    struct http_exchange *x;
    struct page_target *target;
    mono deadline;
    /* The title is settled. Inside title_wait_start, or later on the loop; then deferred is
     * true. */
    void (*go)(struct title_wait *w);
    /* The rules cannot be had. NULL: app_origin_fail. */
    void (*failed)(struct title_wait *w, err why, const struct err_note *note);
    /* It is no title of the wiki; false: answer that. NULL: it is answered, and nothing else is
     * called. */
    bool (*refused)(struct title_wait *w);
    bool deferred; /* x is; it will be when that has to be waited for */
    /* out */
    struct title_seen seen;
    /* the module's */
    struct siteinfo_waiter siteinfo;
};
void title_wait_start(struct title_wait *w);
/* At once: false when the rules are not known, and target->title stays as it is; or when *bad, and
 * it has answered. */
MUST_CHECK bool title_settle(struct http_exchange *x, struct page_target *target,
                             struct title_seen *seen, bool *bad);

/* Readers are sent to the title as the wiki writes it: true, 301 was answered. Who would not follow
 * (scripts of another site, who asks for it anew) and pages of users are served all the same. */
bool title_answer_moved(struct http_exchange *x, const struct page_target *target,
                        struct title_seen seen);

/* The wiki's own word for the title: target gets that, and *seen says so. ERR_BAD: the store takes
 * no such key. */
MUST_CHECK err title_take(struct arena *a, struct page_target *target, str title,
                          int64_t namespace_id, struct title_seen *seen);

/* Location of another title, relative to the request's path: `../` for each segment behind its
 * title. target_key is as it is stored: encoded, with "#fragment" or without. A page that redirects
 * to itself is asked for as it is. */
str title_location(struct arena *a, const struct page_target *from, str target_key, str query);
/* Of the same page under the title that target now has. */
str title_location_same(struct arena *a, const struct page_target *target, str query);

#endif
