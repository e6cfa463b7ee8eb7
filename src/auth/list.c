/* list.c - walks rows in pages for the lists of users, keys, roles and namespaces. Invariant: a
 * page ends at its limit of rows or at its limit of bytes, and says where the next page begins. */
#include "auth/list.h"

#include "auth/authority.h"
#include "auth/txn.h"

#include <string.h>

enum { ITEMS_FIRST = 16 };
enum { PIVOT_BYTES_MAX = AUTH_NAME_BYTES_MAX + 1 };

void *listing_add(struct listing *l)
{
    if (l->count == l->room) {
        unsigned room = l->room == 0 ? ITEMS_FIRST : l->room * 2;
        void *more = arena_calloc(l->arena, room, l->size);
        l->failed |= more == NULL;
        if (more == NULL)
            return NULL;
        if (l->count > 0)
            memcpy(more, l->items, l->count * l->size);
        l->items = more;
        l->room = room;
    }
    return (char *)l->items + l->count++ * l->size;
}

str listing_text(struct listing *l, str s)
{
    str kept = arena_copy(l->arena, s);
    l->failed |= kept.p == NULL;
    l->bytes += s.n;
    return kept;
}

err listing_get(struct listing *l, const struct rowkey *k, struct row *row)
{
    return rows_find(l->view, k, row);
}

/* Where a pivot stands among names and ids: they are shorter, and hold no NUL. */
static str place_of(str pivot)
{
    str place = str_take(pivot, PIVOT_BYTES_MAX);
    return str_take(place, str_find(place, '\0') + 1);
}

static unsigned limit_of(const struct auth_page *page)
{
    if (page->limit == 0)
        return AUTH_PAGE_DEFAULT;
    return page->limit < AUTH_PAGE_MAX ? page->limit : AUTH_PAGE_MAX;
}

static err list_walk(struct listing *l, struct row_cursor *c)
{
    unsigned limit = limit_of(l->page);
    err why = ERR_OK;
    while (why == ERR_OK && l->count < limit &&
           l->bytes + l->count * l->size <= AUTH_PAGE_BYTES_MAX) {
        struct row row;
        why = row_cursor_next(c, &row);
        if (why == ERR_OK)
            why = l->each(l, &row);
        if (why == ERR_OK && l->failed)
            why = ERR_LIMIT;
    }
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

err listing_run(struct listing *l)
{
    struct rowkey from = l->prefix, until = l->prefix;
    rowkey_prefix_end(&until);
    if (l->page->pivot.n > 0)
        rowkey_put_text(&from, place_of(l->page->pivot));
    if (rowkey_status(&from) != ERR_OK) /* a namespace too long to have rows */
        return ERR_OK;
    l->view = row_view_begin(l->auth->rows);
    struct row_cursor *c = row_cursor_open(l->view, rowkey_str(&from), rowkey_str(&until));
    err why = list_walk(l, c);
    row_cursor_close(&c);
    row_view_end(&l->view);
    return why;
}
