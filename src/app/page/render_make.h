/* render_make.h - has a missing render made: asks the origin, stores what it gives, tells all who
 * wait.
 *
 * One flight for each (bucket, domain, title, revision or latest). Its maker looks in the store
 * again (unless a fresh render is wanted), asks the origin, names the render by a tid of the
 * instant it began at, puts that into the HTML's head, and stores it: the newest revision as the
 * latest, an old one for historical_ttl. A purge that comes meanwhile makes it begin once more.
 * What waits is answered from what is stored, by name; the common kind of request by an answer made
 * once for all. Thread: join from any; the waiter's done on the loop. */
#ifndef APP_PAGE_RENDER_MAKE_H
#define APP_PAGE_RENDER_MAKE_H

#include "app/page/page_get.h"
#include "flight/shared.h"

enum render_coding { RENDER_RAW, RENDER_CODED, RENDER_CODINGS };

struct render_value {
    struct flight_value v;
    struct page_name name;
    bool found;           /* it was stored meanwhile: nothing was made */
    char *moved_to;       /* nothing was made: the wiki has the page under this title; else NULL */
    int64_t namespace_id; /* of moved_to */
    char content[PAGE_CONTENT_NAME_BYTES_MAX + 1]; /* which the ready answers are of */
    enum page_codec codec;                         /* of the coded one */
    enum page_state state;                         /* of the render */
    bool short_lived;                              /* a read that names it must extend its life */
    struct http_ready *ready[RENDER_CODINGS];      /* NULL: none, as for a redirect */
};
static inline struct render_value *render_value_of(struct flight_value *v)
{
    return CONTAINER_OF(v, struct render_value, v);
}

/* Joins the making of what g asks for; its title is settled. fresh: what is stored is too old.
 * Refuses as flight_join; also ERR_LIMIT when out of memory. */
MUST_CHECK err render_make_join(struct page_get *g, bool fresh, struct flight_waiter *w);

/* The id of that flight across servers; rev 0: the latest. */
void render_share_id(const struct page_target *t, uint64_t rev, unsigned char out[FLIGHT_ID_BYTES]);

#endif
