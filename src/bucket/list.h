/* list.h - the store's listings and where they go on. Private to this folder. */
#ifndef BUCKET_LIST_H
#define BUCKET_LIST_H

#include "bucket/catalog.h"
#include "bucket/page.h"

/* As page_store_list; in a view. Fills l->next. */
MUST_CHECK err bucket_list(struct page_list *l, struct engine_view *v);

/* Tokens: the place behind which to go on. Pure, but for the arena. ERR_BAD: it is none of this
 * kind; STR_NONE: the arena is full. */
MUST_CHECK err list_place_get(enum page_list_what what, str token, struct page_place *out);
str list_place_put(enum page_list_what what, const struct page_place *p, struct arena *a);

#endif
