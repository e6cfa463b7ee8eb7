/* list.h - the store's listings and where they go on. Private to this folder. */
#ifndef BUCKET_LIST_H
#define BUCKET_LIST_H

#include "bucket/catalog.h"
#include "bucket/page.h"

/* As page_store_list; in a view. Fills l->next. */
MUST_CHECK err bucket_list(struct page_list *l, struct engine_view *v);

#endif
