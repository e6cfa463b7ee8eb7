/* listplace.h - the place behind which a listing goes on, and the token that names it to a caller.
 *
 * A token is a letter, which says of what kind the listing is, and then the place. Tokens are
 * neither secret nor signed: a forged token names a place that its client could have reached.
 *
 * Thread: any; pure, but for the arena. */
#ifndef STORE_LISTPLACE_H
#define STORE_LISTPLACE_H

#include "store/page_read.h"

struct list_place {
    char title[PAGE_TITLE_BYTES_MAX];
    size_t title_bytes; /* 0: before the first */
    struct page_name name;
};

/* ERR_BAD: the token is none of this kind; *out is untouched. */
MUST_CHECK err list_place_get(enum page_list_what what, str token, struct list_place *out);
/* STR_NONE: the arena is full. */
str list_place_put(enum page_list_what what, const struct list_place *p, struct arena *a);
/* Copies title, of at most PAGE_TITLE_BYTES_MAX. */
void list_place_title(struct list_place *p, str title);

#endif
