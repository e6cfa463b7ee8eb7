/* location.h - addresses of pages: where an answer stands, and where a client is sent. Results are
 * in the arena; STR_NONE when it is full. Pure. */
#ifndef PAGE_LOCATION_H
#define PAGE_LOCATION_H

#include "base/arena.h"
#include "page/page.h"

/* What stands before /{bucket}/{content}/...: public_url with the domain filled in for {domain};
 * public_url empty: /{domain}/v1. */
str page_location_base(struct arena *a, str public_url, str domain);
/* "https://host:port" of public_url: there the wiki's own style sheets are, too. STR_NONE: it is
 * empty. */
str page_location_styles(struct arena *a, str public_url, str domain);
/* An address of t's page. content is written as it is; behind: what stands behind the title; empty:
 * nothing. */
struct page_location {
    const struct page_target *target;
    str public_url, content, behind, query;
};
str page_location(struct arena *a, const struct page_location *l);

/* Of another title, relative to the request's path: `../` for each segment behind its title.
 * target_key is as it is stored: encoded, with "#fragment" or without. A page that redirects to
 * itself is asked for as it is. */
str page_location_redirect(struct arena *a, const struct page_target *from, str target_key,
                           str query);
/* Of the same page under the title that t now has. */
str page_location_moved(struct arena *a, const struct page_target *t, str query);

#endif
