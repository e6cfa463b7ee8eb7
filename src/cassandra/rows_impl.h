/* rows_impl.h - what the files of rows.h share. Private to this folder. */
#ifndef CASSANDRA_ROWS_IMPL_H
#define CASSANDRA_ROWS_IMPL_H

#include "base/buf.h"
#include "cassandra/rows.h"

/* What a change wrote so far, in order of keys. */
struct rows_write {
    char *bytes; /* key, then the cell */
    str key, cell;
    bool gone;
};
struct rows_writes {
    struct rows_write at[CATALOG_CHANGE_MAX];
    unsigned count;
    bool full;
};
struct rows_view {
    struct row_view view;
    struct catalog_rows *rows;        /* NULL: they are not known */
    const struct rows_writes *writes; /* NULL: none */
};
struct rows_txn {
    struct row_txn txn;
    struct rows_view view;
    struct rows_writes writes;
    store_time now;
};

extern const struct row_store_ops cassandra_rows_ops;

/* rows_view.c */
void rows_view_end(struct row_view *v);
err rows_get(struct row_view *v, str key, struct row *out);
err rows_more(struct row_view *v, const struct row *row, char *out);
struct row_cursor *rows_cursor_open(struct row_view *v, str from, str until);
err rows_cursor_next(struct row_cursor *c, struct row *out);
void rows_cursor_close(struct row_cursor *c);
/* rows_write.c */
err rows_put(struct row_txn *t, str key, str value, str more);
err rows_remove(struct row_txn *t, str key);
unsigned rows_writes_from(const struct rows_writes *w, str key); /* the first that is not less */
void rows_writes_clear(struct rows_writes *w);

#endif
