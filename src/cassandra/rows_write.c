/* rows_write.c - keeps what a change has written, before any of it is sent (rows.c).
 *
 * Invariant: writes are in order of keys, and no key stands twice: the last write of a key counts.
 */
#include "cassandra/rows_impl.h"

#include <stdlib.h>
#include <string.h>

unsigned rows_writes_from(const struct rows_writes *w, str key)
{
    unsigned low = 0, high = w->count;
    while (low < high) {
        unsigned mid = low + (high - low) / 2;
        if (str_cmp(w->at[mid].key, key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

void rows_writes_clear(struct rows_writes *w)
{
    for (unsigned i = 0; i < w->count; i++)
        free(w->at[i].bytes);
    w->count = 0;
    w->full = false;
}

/* The place of this key among the writes, made when it is not there; NULL: there is no room. */
static struct rows_write *write_place(struct rows_writes *w, str key)
{
    unsigned i = rows_writes_from(w, key);
    /* The caller overwrites the whole place. */
    if (i < w->count && str_eq(w->at[i].key, key)) {
        free(w->at[i].bytes);
        return &w->at[i];
    }
    if (w->count == CATALOG_CHANGE_MAX) {
        w->full = true;
        return NULL;
    }
    memmove(&w->at[i + 1], &w->at[i], (w->count - i) * sizeof w->at[0]);
    w->count++;
    return &w->at[i];
}

/* Keeps a copy of key and cell in one allocation. cell NULL: the row is removed. */
static err write_add(struct rows_writes *w, str key, const struct buf *cell)
{
    struct rows_write *at = write_place(w, key);
    if (at == NULL)
        return ERR_LIMIT;
    size_t cell_n = cell == NULL ? 0 : cell->n;
    char *bytes = malloc(key.n + cell_n + 1);
    INVARIANT(bytes != NULL);
    if (key.n > 0)
        memcpy(bytes, key.p, key.n);
    if (cell_n > 0)
        memcpy(bytes + key.n, cell->p, cell_n);
    *at = (struct rows_write){ .bytes = bytes,
                               .key = { .p = bytes, .n = key.n },
                               .cell = { .p = bytes + key.n, .n = cell_n },
                               .gone = cell == NULL };
    return ERR_OK;
}

/* The value's size has two bytes in a cell; `more` is what is left of the cell. */
err rows_put(struct row_txn *txn, str key, str value, str more)
{
    struct rows_txn *t = CONTAINER_OF(txn, struct rows_txn, txn);
    struct buf cell;
    if (key.n > CATALOG_KEY_BYTES_MAX || value.n > UINT16_MAX)
        return ERR_LIMIT;
    buf_init(&cell, CATALOG_VALUE_BYTES_MAX);
    buf_put_str16(&cell, value);
    buf_put(&cell, more);
    err e = buf_status(&cell);
    if (e == ERR_OK)
        e = write_add(&t->writes, key, &cell);
    buf_fini(&cell);
    return e;
}

/* A key that is too long is in no row. */
err rows_remove(struct row_txn *txn, str key)
{
    struct rows_txn *t = CONTAINER_OF(txn, struct rows_txn, txn);
    return key.n > CATALOG_KEY_BYTES_MAX ? ERR_OK : write_add(&t->writes, key, NULL);
}
