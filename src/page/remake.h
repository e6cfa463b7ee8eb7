/* remake.h - the latest of a title is made once more, and nobody waits for it.
 *
 * Model. A render that a wiki made right after its page was touched may be of what was there before
 * (title/word.h: DATED_UNSETTLED). It is given as it is; who reads it once it could be settled has
 * it made once more, behind the answer. One is made at a time, of all domains, so that those who
 * wait for renders hardly feel it; REMAKES_MAX wait, and what is wanted beyond that is left to the
 * next reader. Nothing is made for a wiki that wants to be left alone. */
#ifndef PAGE_REMAKE_H
#define PAGE_REMAKE_H

#include "page/changes.h"
#include "page/page.h"

enum { REMAKES_MAX = 1000 };

struct page_remakes;
/* After the service's flights and loop. Owner: caller; dies when out of memory. */
struct page_remakes *page_remakes_new(const struct page_service *s);
/* Nothing is begun any more. Thread: loop. */
void page_remakes_stop(struct page_remakes *r);
/* Stopped; no flight is under way. Thread: the loop's. */
void page_remakes_free(struct page_remakes **rp);

/* t: its domain has an origin; its title is as the wiki writes it, copied. seen: before it was
 * found. Thread: any. */
void page_remake(struct page_remakes *r, const struct page_target *t, const struct page_seen *seen);

#endif
