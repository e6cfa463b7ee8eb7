/* old.h - why a stored render of the latest is made anew by its next reader. Pure. */
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
/* When it is too old, whatever the wiki says; NEVER: at no time. */
store_time page_old_at(const struct page_domain *d, const struct page_render *r);

#endif
