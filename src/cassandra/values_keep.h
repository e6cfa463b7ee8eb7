/* values_keep.h - which rows of a key a policy lets go: what table/trim.h says of the embedded
 * store, over the rows of one key in memory. Pure. Private to this folder. */
#ifndef CASSANDRA_VALUES_KEEP_H
#define CASSANDRA_VALUES_KEEP_H

#include "base/tid.h"
#include "store/table_keep.h"

enum { VALUES_ID_BYTES = 16 };
struct values_id {
    unsigned char bytes[VALUES_ID_BYTES];
};

/* A row, of key_value with rev 0 and a tid of zeros. */
struct values_row {
    int64_t rev;
    unsigned char tid[TID_KEY_BYTES];
    struct values_id id; /* of the write */
    store_time own;      /* when it ends without a policy */
    store_time expires;
    store_time written;
    int64_t size, sum; /* of the value; sum: XXH3 */
    bool chunked;
    str head, bytes; /* where they were read */
    /* set by a decision */
    bool is_new, moved;
};
/* Order of rows: revisions, then tids, the greatest first. <0, 0, >0. */
int values_row_cmp(const struct values_row *a, const struct values_row *b);

/* When a row that is put now and has that end of its own ends. */
store_time values_put_end(const struct table_keep *k, store_time now, store_time own);
/* Rows are those of one revision at least, the greatest first, with the one that was put among
 * them, at `put`. Sets expires and moved of those that come or go. False: the policy would not keep
 * the row that was put at all, and the note says so. */
MUST_CHECK bool values_keep_put(const struct table_keep *k, struct values_row *rows, size_t count,
                                size_t put, store_time now, struct err_note *note);
/* A row was deleted that counted in a group: those that take its place come back. */
void values_keep_deleted(const struct table_keep *k, struct values_row *rows, size_t count,
                         const struct values_row *gone, store_time now);
/* All rows of a key, by a policy that may be another one than they were put under. */
void values_keep_all(const struct table_keep *k, struct values_row *rows, size_t count,
                     store_time now);

#endif
