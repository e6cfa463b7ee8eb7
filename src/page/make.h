/* make.h - has a missing render made, for whoever asks: asks the origin, stores what it gives,
 * tells all who wait.
 *
 * One flight for each (bucket, domain, title, revision or latest). Its maker looks in the store,
 * unless a fresh render is wanted or the title has not changed since whoever asked looked; asks the
 * origin; and puts what it gives: the newest revision as the latest, an old one for historical_ttl.
 * The store names the render by a tid of the instant it began at, which is put into the HTML's
 * head. A purge that comes meanwhile makes it begin once more. Who waits reads what was stored, by
 * its name.
 *   A wiki may answer out of a cache of its own (kind rest), which it empties of a page by itself
 * when that is touched. It is told to for whoever asks with no-cache, and for what old.h says: a
 * purge touches the page, so what was made of it before is dated.
 *   Servers that share a Redis share such flights: who waits takes what another server made, with
 * the word of the wiki that it was made under (travel.h). A render that was made anew is told to
 * the other servers (tell.h), and those that have an older one take it as well.
 *   A made render may carry shapes: answers that one of its waiters built, of which all others who
 * ask the same take a copy. What a shape is, is the caller's business. */
#ifndef PAGE_MAKE_H
#define PAGE_MAKE_H

#include "flight/shared.h"
#include "page/changes.h"
#include "page/old.h"
#include "page/page.h"

enum { PAGE_SHAPES = 8 };

struct page_made {
    struct flight_value v;
    struct page_name name;
    store_time began;     /* nothing that the wiki heard later is in it for sure */
    bool found;           /* it was stored meanwhile: nothing was made */
    bool arrived;         /* another server made it, some moments ago */
    char *moved_to;       /* nothing was made: the wiki has the page under this title; else NULL */
    int64_t namespace_id; /* of moved_to */
    _Atomic(void *) shapes[PAGE_SHAPES]; /* NULL: nobody built it yet */
    void (*shape_free)(void *shape);     /* of the service */
};
static inline struct page_made *page_made_of(struct flight_value *v)
{
    return CONTAINER_OF(v, struct page_made, v);
}
/* One for all: the made render's from here on. False: another was there already. Thread: any. */
MUST_CHECK bool page_made_offer(struct page_made *m, unsigned index, void *shape);

struct page_wish {
    const struct page_domain *domain; /* it has an origin */
    const struct page_settings *settings;
    str title;    /* a key, as the wiki writes it */
    uint64_t rev; /* 0: the latest */
    bool fresh;   /* what is stored is too old */
    bool take;  /* what another server made a moment ago, or ERR_NOT_FOUND: nothing is made here */
    bool dated; /* with fresh: by the wiki's word alone, unless it was made anew meanwhile */
    bool settles;            /* with dated: because it was made too soon after a touch, too */
    struct page_purge purge; /* with fresh */
    /* With fresh: what another server began since then will do; ZERO: what is begun from now on */
    store_time since;
    /* As it was seen before it was looked for in vain; NULL: nobody looked. Borrowed until
     * page_make returns */
    const struct page_seen *seen;
};
/* The value of the flight is a page_made. Refuses as flight_join; also ERR_LIMIT when out of
 * memory. Thread: join from any; the waiter's done on the loop. */
MUST_CHECK err page_make(const struct page_service *s, const struct page_wish *wish,
                         struct flight_waiter *w);

/* The id of that flight across servers; rev 0: the latest. */
void page_make_share_id(const struct page_target *t, uint64_t rev,
                        unsigned char out[FLIGHT_ID_BYTES]);

#endif
