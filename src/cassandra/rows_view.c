/* rows_view.c - reading of rows.h: the copy, and over it the rows that the change at work has
 * written.
 *
 * A cell holds the value's size, the value, and the text beside it.
 * Invariant: a walk remembers the key where it stands, and looks for the key again each time. So it
 * may go on while its change writes. */
#include "cassandra/rows_impl.h"

#include <stdlib.h>
#include <string.h>

/* One walk over a range of keys. Owner: the caller, until rows_cursor_close. */
struct walk {
    struct row_cursor cursor;
    const struct rows_view *view;
    char at[CATALOG_KEY_BYTES_MAX], until[CATALOG_KEY_BYTES_MAX];
    size_t at_n, until_n;
    bool behind; /* the row at `at` was given already */
};

void rows_view_end(struct row_view *view)
{
    struct rows_view *v = CONTAINER_OF(view, struct rows_view, view);
    catalog_rows_drop(&v->rows);
    free(v);
}

/* Reads a cell; the row borrows the copy, or the writes. */
static err row_take(str key, str cell, struct row *out)
{
    struct cursor c = { .rest = cell };
    str value = cursor_str16(&c);
    if (c.failed)
        return ERR_CORRUPT;
    *out = (struct row){ .key = key, .value = value, .more_n = c.rest.n, .own = c.rest.p };
    return ERR_OK;
}

/* The first row whose key is not less; behind: whose key is greater. Merges two ordered lists:
 * cells of the copy, and writes of the change, which stand in the place of cells. */
static err row_from(const struct rows_view *v, str key, bool behind, struct row *out)
{
    const struct rows_writes *w = v->writes;
    size_t i = catalog_rows_from(v->rows, key);
    unsigned k = w == NULL ? 0 : rows_writes_from(w, key), writes = w == NULL ? 0 : w->count;
    if (behind && i < v->rows->count && str_eq(v->rows->cells[i].key, key))
        i++;
    if (behind && k < writes && str_eq(w->at[k].key, key))
        k++;
    /* A row that the change has removed is gone past, together with its cell. */
    for (;;) {
        bool has_cell = i < v->rows->count, has_write = k < writes;
        int order = has_cell && has_write ? str_cmp(w->at[k].key, v->rows->cells[i].key)
                    : has_write           ? -1
                                          : 1;
        if (!has_cell && !has_write)
            return ERR_NOT_FOUND;
        if (order > 0)
            return row_take(v->rows->cells[i].key, v->rows->cells[i].value, out);
        if (order == 0) /* the write stands in its place */
            i++;
        if (!w->at[k].gone)
            return row_take(w->at[k].key, w->at[k].cell, out);
        k++;
    }
}

err rows_get(struct row_view *view, str key, struct row *out)
{
    const struct rows_view *v = CONTAINER_OF(view, struct rows_view, view);
    struct row row;
    if (v->rows == NULL)
        return ERR_UNAVAILABLE;
    err e = row_from(v, key, false, &row);
    if (e == ERR_OK && !str_eq(row.key, key))
        e = ERR_NOT_FOUND;
    if (e == ERR_OK)
        *out = row;
    return e;
}

err rows_more(struct row_view *view, const struct row *row, char *out)
{
    (void)view; /* it is in memory */
    if (row->more_n > 0)
        memcpy(out, row->own, row->more_n);
    return ERR_OK;
}

/* Keys of all rows fit, so a bound that comes from a row fits; a caller's bounds are short. */
static size_t bound_copy(char *to, str from)
{
    INVARIANT(from.n <= CATALOG_KEY_BYTES_MAX);
    if (from.n > 0)
        memcpy(to, from.p, from.n);
    return from.n;
}

struct row_cursor *rows_cursor_open(struct row_view *view, str from, str until)
{
    struct walk *c = calloc(1, sizeof *c);
    INVARIANT(c != NULL);
    c->cursor.ops = &cassandra_rows_ops;
    c->view = CONTAINER_OF(view, struct rows_view, view);
    c->at_n = bound_copy(c->at, from);
    c->until_n = bound_copy(c->until, until);
    return &c->cursor;
}

err rows_cursor_next(struct row_cursor *cursor, struct row *out)
{
    struct walk *c = CONTAINER_OF(cursor, struct walk, cursor);
    struct row row;
    if (c->view->rows == NULL)
        return ERR_UNAVAILABLE;
    err e = row_from(c->view, (str){ .p = c->at, .n = c->at_n }, c->behind, &row);
    /* until_n 0: the walk goes to the last row. */
    if (e == ERR_OK && c->until_n > 0 &&
        str_cmp(row.key, (str){ .p = c->until, .n = c->until_n }) >= 0)
        e = ERR_NOT_FOUND;
    if (e != ERR_OK)
        return e;
    c->at_n = bound_copy(c->at, row.key);
    c->behind = true;
    *out = row;
    return ERR_OK;
}

void rows_cursor_close(struct row_cursor *cursor)
{
    free(CONTAINER_OF(cursor, struct walk, cursor));
}
