/* sealed.h - a render of travel.h on its way through Redis, where others may write, too.
 *
 *   version u8 | sealed at, seconds, i64 | seal, 64 digits | the render as travel.h writes it
 *
 * The seal (peer/peer.h) is over bucket, domain, title and revision that were asked for, when it
 * was sealed, and the render, which begins with its revision and tid. So it can be put in the place
 * of no other, and lasts no longer than the clocks of servers may be apart. Where servers share no
 * secret, the render goes alone; so a render without a seal is of a server that has none, or of a
 * release that sealed nothing. Neither can read the other's: each makes its own. Thread: any. */
#ifndef PAGE_SEALED_H
#define PAGE_SEALED_H

#include "page/page.h"
#include "page/travel.h"

/* What was asked for; the target's revision is 0 for the latest. */
struct page_sealing {
    const struct peers *peers; /* NULL: nothing is sealed */
    const struct page_target *target;
};
void page_sealed_put(struct buf *out, const struct page_sealing *s, const struct page_travel *t);
/* Slices of bytes. ERR_CORRUPT; one that must not be believed is counted (peers_refused). */
MUST_CHECK err page_sealed_get(const struct page_sealing *s, str bytes, struct page_travel *out);

#endif
