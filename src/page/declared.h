/* declared.h - what a client declares a bucket of pages to be, in RESTBase's options of
 * multi_content (docs/peers.md, 1). The configuration decides what it is: a declaration is right or
 * wrong, and changes nothing. Pure. */
#ifndef PAGE_DECLARED_H
#define PAGE_DECLARED_H

#include "store/page_store.h"

/* json: an object; empty: nothing is declared. Fails: ERR_BAD, and note says what the bucket is
 * not; ERR_UNAVAILABLE: no memory. */
MUST_CHECK err page_declared_check(const struct page_bucket_opts *o, str json,
                                   struct err_note *note);

#endif
