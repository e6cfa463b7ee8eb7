/* title.h - titles of domains with an origin: as the wiki writes them, and addresses of other titles relative to a
 * request's (notes on the peer: restbase.md 1.7).
 *
 * What is stored under a title stands under its normal form. A read looks under what the client wrote first, so that
 * a title that is normal already never waits for the wiki's rules. */
#ifndef APP_TITLE_H
#define APP_TITLE_H

#include "app/page_request.h"
#include "render/render.h"

enum title_state {
    TITLE_FINE,    /* target->title is the key */
    TITLE_WAIT,    /* the rules are not known yet: origin_siteinfo_wait, then again */
    TITLE_BAD,     /* it has answered, 400 */
};
struct title_seen {
    bool changed;  /* the client wrote it in another way */
    bool user;     /* it is a page of a user or of her talk */
};
/* The key of target->title by the rules of its domain's wiki, when it has one. seen may be NULL. */
enum title_state title_settle(struct http_exchange *x, struct page_target *target, struct title_seen *seen);

/* Location of another title, relative to the request's path: `../` for each segment behind its title. target_key is as
 * it is stored: encoded, with "#fragment" or without. A page that redirects to itself is asked for as it is. */
str title_location(struct arena *a, const struct page_target *from, str target_key, str query);
/* Of the same page under the title that target now has. */
str title_location_same(struct arena *a, const struct page_target *target, str query);

#endif
