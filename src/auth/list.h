/* list.h - lists of rows in pages. Private to auth.
 *
 * A list walks the rows under a prefix from its pivot on, in one view; each takes a row and adds
 * what it shows to a growing array in the arena. It ends at the page's limit, or past
 * AUTH_PAGE_BYTES_MAX of texts. */
#ifndef AUTH_LIST_H
#define AUTH_LIST_H

#include "auth/auth_impl.h"
#include "auth/authority.h"
#include "auth/rows.h"

struct listing {
    struct auth *auth;
    struct arena *arena;
    const struct auth_page *page;
    struct rowkey prefix;
    size_t size; /* of an item */
    /* Adds an item with listing_add, or not; ERR_OK goes on. The row is borrowed until the next
     * call on view. */
    err (*each)(struct listing *l, const struct row *row);
    str filter; /* each's own */
    struct row_view *view;
    void *items;
    unsigned count, room;
    size_t bytes; /* of texts */
    bool failed;  /* the arena is full */
};
/* ERR_LIMIT: the arena is full; ERR_BAD never. Blocks on cold pages. */
MUST_CHECK err listing_run(struct listing *l);
/* A zeroed item at the end, valid until the next; NULL when the arena is full. */
void *listing_add(struct listing *l);
/* A copy in the arena, counted. */
str listing_text(struct listing *l, str s);
/* The row of that key in the list's view. */
MUST_CHECK err listing_get(struct listing *l, const struct rowkey *k, struct row *row);

#endif
