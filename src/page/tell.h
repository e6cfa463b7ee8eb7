/* tell.h - what takes renders away goes to every server that shares our Redis; each does it in
 * its own store. Told once, best effort: a server that is away or cut off does not learn of it
 * (docs/operations.md).
 * The messages are codec/told.h's.
 * Thread: any. */
#ifndef PAGE_TELL_H
#define PAGE_TELL_H

#include "page/page.h"

/* What was purged here. Does nothing without Redis. */
void page_purge_tell(const struct page_service *s, const struct page_target *t);
/* What the origin of t's title said was heard here. Does nothing without Redis. */
void page_mark_tell(const struct page_service *s, const struct page_target *t,
                    const struct title_mark *mark);
/* The other end: a word from another server. Thread: loop. */
void page_told(const struct page_service *s, str text);

#endif
