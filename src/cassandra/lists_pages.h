/* lists_pages.h - listings over many titles, and where each goes on. Private to this folder. */
#ifndef CASSANDRA_LISTS_PAGES_H
#define CASSANDRA_LISTS_PAGES_H

#include "cassandra/lists_merge.h"
#include "cassandra/pages_impl.h"
#include "store/listplace.h"

enum { LISTS_LOADS_MAX = 8 }; /* titles that a listing loads at a time */

/* TITLES and STASHES. from is a place of this kind. */
enum store_start lists_start(struct cassandra_pages *p, struct page_list *l,
                             const struct list_place *from);
/* As work_blame says of facts: what the cluster did not do is no fault of the caller's. */
static inline err lists_blame(err why)
{
    return why == ERR_LIMIT || why == ERR_CORRUPT || why == ERR_SHUTDOWN ? why : ERR_UNAVAILABLE;
}

#endif
