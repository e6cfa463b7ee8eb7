/* old.h - why a stored render of the latest is made anew. Pure. */
#ifndef PAGE_OLD_H
#define PAGE_OLD_H

#include "page/page.h"

enum page_old {
    OLD_NOT,
    OLD_NEWER,   /* the wiki has a newer revision */
    OLD_TOUCHED, /* the page was touched since */
    OLD_TOLD,    /* all of the domain that was made so long ago is to be (redo.h) */
    OLD_AGED,    /* rerender_after */
};
/* r: a read of the latest that found one. */
enum page_old page_old(const struct page_domain *d, const struct page_read *r, store_time now);
/* Will it do to make it of what the wiki has in a cache of its own? A wiki drops a page from there
 * when it touches the page: so the page is purged at the wiki first only where no touch tells of
 * what changed, and where the wiki may have been at the render `before` when it touched the page:
 * then it put there, after the touch, what it had begun to make before that. */
struct page_purge {
    bool is;
    struct title_making before; /* what is stored */
};
struct page_purge page_old_purge(const struct page_domain *d, const struct page_read *r,
                                 store_time now);
/* Is it made anew without a reader (remake.h)? Also what is unsettled; not what is old by its age
 * alone: else all that is stored would be, again and again. settle_s: how long after its page was
 * touched a render settles (page_checks_settle_s). */
struct page_anew {
    bool is;
    store_time due;   /* a render that is begun then could be settled */
    store_time since; /* one that was begun since then is not old; ZERO: it is not known */
    struct page_purge purge;
};
struct page_anew page_old_anew(const struct page_domain *d, const struct page_read *r,
                               store_time now, int64_t settle_s);
/* When it is too old, whatever the wiki says; NEVER: at no time. */
store_time page_old_at(const struct page_domain *d, const struct page_render *r);

#endif
