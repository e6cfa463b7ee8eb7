/* metadata.c - the columns of a result and the markers of a statement, out of their answer.
 *
 * They outlive the answer: threads share them and the prepared cache keeps them. So the bytes are
 * walked twice. The first walk sees that they are whole and where they end; the second sets the
 * slices in a copy.
 * Invariant: memory is taken only for bytes that are there. */
#include "cql/metadata.h"

#include <stdlib.h>
#include <string.h>

enum { FLAG_GLOBAL = 1, FLAG_MORE = 2, FLAG_NO_COLUMNS = 4, FLAG_CHANGED = 8 };
enum { COLUMN_BYTES_MIN = 2 + 2, INDEX_BYTES = 2 };

/* Walks over count columns. at: where they go; NULL: they are only looked at. */
static void columns_walk(struct cursor *c, bool global, unsigned count, struct cql_column *at)
{
    struct cql_column column = { .keyspace = STR_NONE };
    /* One keyspace and one table for all columns. */
    if (global) {
        column.keyspace = cursor_str16(c);
        column.table = cursor_str16(c);
    }
    for (unsigned i = 0; i < count; i++) {
        if (!global) {
            column.keyspace = cursor_str16(c);
            column.table = cursor_str16(c);
        }
        column.name = cursor_str16(c);
        if (!cql_spec_take(c, &column.spec))
            return;
        if (at != NULL)
            at[i] = column;
    }
}

/* One allocation: the columns, and behind them the text that they borrow. */
static err columns_take(struct cursor *c, bool global, unsigned count, struct cql_columns **out,
                        struct err_note *note)
{
    str whole = c->rest;
    columns_walk(c, global, count, NULL);
    if (c->failed) {
        err_note_set(note, "metadata of %u columns is cut, or has a type of no known kind", count);
        return ERR_CORRUPT;
    }
    whole = str_take(whole, whole.n - c->rest.n);
    size_t head = sizeof **out + count * sizeof(*out)->at[0];
    struct cql_columns *columns = malloc(head + whole.n);
    if (columns == NULL) {
        err_note_set(note, "no memory for metadata of %zu bytes", whole.n);
        return ERR_LIMIT;
    }
    char *text = (char *)columns + head;
    if (whole.n > 0)
        memcpy(text, whole.p, whole.n);
    *columns = (struct cql_columns){ .refs = 1, .count = count };
    struct cursor copy = { .rest = { .p = text, .n = whole.n } };
    columns_walk(&copy, global, count, columns->at);
    INVARIANT(cursor_done(&copy));
    *out = columns;
    return ERR_OK;
}

/* Reads how many columns there are. bytes_min: what each takes of the bytes that are left; 0: they
 * are left out. */
static err count_take(struct cursor *c, size_t bytes_min, unsigned *out, struct err_note *note)
{
    uint32_t count = cursor_be32(c);
    if (c->failed || (bytes_min > 0 && count > c->rest.n / bytes_min) || count > INT32_MAX) {
        err_note_set(note, "metadata says %u columns in %zu bytes", count, c->rest.n);
        return ERR_CORRUPT;
    }
    if (count > CQL_COLUMNS_MAX) {
        err_note_set(note, "%u columns, at most %d", count, CQL_COLUMNS_MAX);
        return ERR_LIMIT;
    }
    *out = count;
    return ERR_OK;
}

/* The fields that may stand between the count and the columns. */
static err result_ids_take(struct cursor *c, uint32_t flags, struct cql_metadata *out,
                           struct err_note *note)
{
    out->more = (flags & FLAG_MORE) != 0;
    if (out->more) {
        uint32_t n = cursor_be32(c);
        out->page_state = cursor_bytes(c, n);
        if (out->page_state.n == 0) { /* else the caller would begin again at the first page */
            err_note_set(note, "there are more pages, and no state to ask for them");
            return ERR_CORRUPT;
        }
    }
    if (flags & FLAG_CHANGED) {
        if (flags & FLAG_NO_COLUMNS) {
            err_note_set(note, "metadata changed, and is not there");
            return ERR_CORRUPT;
        }
        out->id = cursor_str16(c);
    }
    return ERR_OK;
}

err cql_metadata_take(struct cursor *c, unsigned version, struct cql_metadata *out,
                      struct err_note *note)
{
    struct cql_metadata m = { .columns = NULL };
    uint32_t flags = cursor_be32(c);
    if (version < 5)
        flags &= ~(uint32_t)FLAG_CHANGED; /* a bit without a meaning there */
    /* The count is there all the same when the columns are left out. */
    bool none = (flags & FLAG_NO_COLUMNS) != 0;
    err why = count_take(c, none ? 0 : COLUMN_BYTES_MIN, &m.count, note);
    if (why == ERR_OK)
        why = result_ids_take(c, flags, &m, note);
    if (why == ERR_OK && c->failed) {
        err_note_set(note, "metadata of a result is cut");
        why = ERR_CORRUPT;
    }
    if (why == ERR_OK && !none)
        why = columns_take(c, (flags & FLAG_GLOBAL) != 0, m.count, &m.columns, note);
    if (why == ERR_OK)
        *out = m;
    return why;
}

/* Reads which markers make the partition key. More than fit: the count stays 0, and the statement
 * is routed by no token. */
static err partition_take(struct cursor *c, unsigned markers, struct cql_prepared_answer *p,
                          struct err_note *note)
{
    uint32_t count = cursor_be32(c);
    if (c->failed || count > c->rest.n / INDEX_BYTES) {
        err_note_set(note, "a partition key of %u markers in %zu bytes", count, c->rest.n);
        return ERR_CORRUPT;
    }
    p->partition_count = 0;
    /* All indexes are read, also too many: the columns stand behind them. */
    for (uint32_t i = 0; i < count; i++) {
        uint16_t index = cursor_be16(c);
        if (index >= markers) {
            err_note_set(note, "a partition key has marker %u of %u", index, markers);
            return ERR_CORRUPT;
        }
        if (count <= CQL_PARTITION_COLUMNS_MAX)
            p->partition[p->partition_count++] = index;
    }
    return ERR_OK;
}

static err markers_take(struct cursor *c, struct cql_prepared_answer *p, struct err_note *note)
{
    uint32_t flags = cursor_be32(c);
    unsigned count;
    err why = count_take(c, COLUMN_BYTES_MIN, &count, note);
    if (why == ERR_OK)
        why = partition_take(c, count, p, note);
    if (why == ERR_OK)
        why = columns_take(c, (flags & FLAG_GLOBAL) != 0, count, &p->markers, note);
    return why;
}

/* The markers first, then the columns of the result. */
err cql_prepared_take(struct cursor *c, unsigned version, struct cql_prepared_answer *out,
                      struct err_note *note)
{
    struct cql_prepared_answer p = { .id = cursor_str16(c) };
    if (version >= 5)
        p.columns_id = cursor_str16(c);
    err why = markers_take(c, &p, note);
    if (why != ERR_OK)
        return why;
    struct cql_metadata m;
    why = cql_metadata_take(c, version, &m, note);
    if (why != ERR_OK) {
        cql_columns_drop(&p.markers);
        return why;
    }
    p.columns = m.columns;
    if (p.columns != NULL && p.columns->count == 0)
        cql_columns_drop(&p.columns); /* a statement without a result */
    *out = p;
    return ERR_OK;
}
