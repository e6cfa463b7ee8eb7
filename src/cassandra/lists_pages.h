/* lists_pages.h - listings over many titles, and where each goes on. Private to this folder. */
#ifndef CASSANDRA_LISTS_PAGES_H
#define CASSANDRA_LISTS_PAGES_H

#include "cassandra/lists_merge.h"
#include "cassandra/pages_impl.h"

enum { LISTS_LOADS_MAX = 8 }; /* titles that a listing loads at a time */

/* Behind which a listing goes on. */
struct lists_place {
    char title[PAGE_TITLE_BYTES_MAX];
    size_t title_bytes; /* 0: before the first */
    struct page_name name;
};
/* ERR_BAD: it is none of this kind. STR_NONE: the arena is full. Pure, but for the arena. */
MUST_CHECK err lists_place_get(enum page_list_what what, str token, struct lists_place *out);
str lists_place_put(enum page_list_what what, const struct lists_place *p, struct arena *a);
void lists_place_title(struct lists_place *p, str title);

/* TITLES and STASHES. from is a place of this kind. */
enum store_start lists_start(struct cassandra_pages *p, struct page_list *l,
                             const struct lists_place *from);
/* As work_blame says of facts: what the cluster did not do is no fault of the caller's. */
static inline err lists_blame(err why)
{
    return why == ERR_LIMIT || why == ERR_CORRUPT || why == ERR_SHUTDOWN ? why : ERR_UNAVAILABLE;
}

#endif
