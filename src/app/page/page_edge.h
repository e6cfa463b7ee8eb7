/* page_edge.h - how long caches in front of the server may keep an answer, where a rule purges
 * them. Private to page_get.c and page_answer.c.
 *
 * A rule purges addresses (docs/rules.md, edge_ttl). What is answered under such an address may be
 * kept until it is purged: it says s-maxage. What is answered under another may not. */
#ifndef APP_PAGE_PAGE_EDGE_H
#define APP_PAGE_PAGE_EDGE_H

#include "app/page/page_get.h"

/* May others who ask for the same be given what g is answered? Not where a rule purges caches, and
 * g does not name the page as that does. */
bool page_edge_may_share(const struct content_get *g);
/* Sets what its answer says about being kept: for an outcome with a content. */
void page_edge_choose(struct content_get *g);

#endif
