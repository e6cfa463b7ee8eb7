/* value.h - values of CQL: types, values to bind to a statement, and cells of a row.
 *
 * Formats: Cassandra's doc/native_protocol_v4.spec and _v5.spec, sections 3 and 6. A value is bound
 * by position. A null value deletes what stands there and leaves a tombstone; an unset value leaves
 * it alone. Thread: one at a time. */
#ifndef CQL_VALUE_H
#define CQL_VALUE_H

#include "base/buf.h"
#include "base/tid.h"

/* The numbers of the protocol. */
enum cql_type {
    CQL_CUSTOM = 0x00,
    CQL_ASCII = 0x01,
    CQL_BIGINT = 0x02,
    CQL_BLOB = 0x03,
    CQL_BOOLEAN = 0x04,
    CQL_COUNTER = 0x05,
    CQL_DECIMAL = 0x06,
    CQL_DOUBLE = 0x07,
    CQL_FLOAT = 0x08,
    CQL_INT = 0x09,
    CQL_TIMESTAMP = 0x0b,
    CQL_UUID = 0x0c,
    CQL_TEXT = 0x0d,
    CQL_VARINT = 0x0e,
    CQL_TIMEUUID = 0x0f,
    CQL_INET = 0x10,
    CQL_DATE = 0x11,
    CQL_TIME = 0x12,
    CQL_SMALLINT = 0x13,
    CQL_TINYINT = 0x14,
    CQL_DURATION = 0x15,
    CQL_LIST = 0x20,
    CQL_MAP = 0x21,
    CQL_SET = 0x22,
    CQL_UDT = 0x30,
    CQL_TUPLE = 0x31,
};
enum { CQL_TYPE_DEPTH_MAX = 8, CQL_UUID_BYTES = 16 };

/* A type as it stands in metadata: the number, then what a collection, tuple or user type holds.
 * Borrowed. */
struct cql_spec {
    enum cql_type type;
    str rest; /* the [option] bytes behind the number */
};
/* Takes one type. False, and the cursor has failed: bytes are missing, a number is unknown, or
 * types are nested deeper than CQL_TYPE_DEPTH_MAX, the outermost counted. */
MUST_CHECK bool cql_spec_take(struct cursor *from, struct cql_spec *out);
/* As CQL writes it: "map<text, list<bigint>>", "frozen" left out; a custom type by its class in
 * single quotes, a user type by its name. */
void cql_spec_print(const struct cql_spec *spec, struct buf *out);

/* ---- values to bind ---- */

enum { CQL_VALUES_MAX = 65535 };
struct cql_values {
    struct buf bytes; /* [value] behind [value] */
    unsigned count;
};
/* INVARIANT: bytes_max is INT32_MAX at most, so that each length fits into its field. */
void cql_values_init(struct cql_values *v, size_t bytes_max);
void cql_values_fini(struct cql_values *v);
void cql_values_clear(struct cql_values *v); /* keeps the memory */
/* ERR_LIMIT: they are more than bytes_max bytes, or more than CQL_VALUES_MAX. */
MUST_CHECK err cql_values_status(const struct cql_values *v);

void cql_put_null(struct cql_values *v);
void cql_put_unset(struct cql_values *v);
void cql_put_bytes(struct cql_values *v, str bytes); /* blob, text, ascii: as they are */
void cql_put_i64(struct cql_values *v, int64_t n); /* bigint, counter, timestamp (ms), time (ns) */
void cql_put_i32(struct cql_values *v, int32_t n); /* int */
void cql_put_i16(struct cql_values *v, int16_t n); /* smallint */
void cql_put_i8(struct cql_values *v, int8_t n);   /* tinyint */
void cql_put_bool(struct cql_values *v, bool on);
void cql_put_double(struct cql_values *v, double d);
void cql_put_tid(struct cql_values *v, struct tid t); /* timeuuid */
void cql_put_uuid(struct cql_values *v, const unsigned char uuid[CQL_UUID_BYTES]);
void cql_put_date(struct cql_values *v, int32_t days_since_1970);
/* A list, set, map or tuple: open, put what it holds (of a map: key, value, key, value), close.
 * They nest. counted: false for a tuple. */
struct cql_open {
    size_t at;
    unsigned before;
    bool counted;
};
struct cql_open cql_put_open(struct cql_values *v, bool counted);
void cql_put_close(struct cql_values *v, struct cql_open open, bool of_pairs);
/* The value at an index, as it is bound; n 0 of NULL: null or unset. Walks over those before it.
 * INVARIANT: there is one, and the status is ERR_OK. */
str cql_value_at(const struct cql_values *v, unsigned index);

/* ---- cells of a row ---- */

struct cql_column {
    str keyspace, table, name;
    struct cql_spec spec;
};
/* The columns of a result, or the markers of a statement; shared, with its own copy of all text. */
struct cql_columns {
    unsigned refs, count;
    struct cql_column at[];
};
struct cql_columns *cql_columns_hold(struct cql_columns *c); /* atomic */
void cql_columns_drop(struct cql_columns **cp);              /* atomic; NULL is allowed */

struct cql_cell {
    const struct cql_column *column;
    str bytes;
    bool null;
};
/* Each: false (*out untouched) for null, for a column of another type, and for bytes that are no
 * such value. */
MUST_CHECK bool cql_get_bytes(const struct cql_cell *c, str *out); /* any type */
/* bigint, counter, timestamp (ms), time (ns), int, smallint, tinyint */
MUST_CHECK bool cql_get_i64(const struct cql_cell *c, int64_t *out);
MUST_CHECK bool cql_get_bool(const struct cql_cell *c, bool *out);
MUST_CHECK bool cql_get_double(const struct cql_cell *c, double *out); /* double, float */
MUST_CHECK bool cql_get_tid(const struct cql_cell *c,
                            struct tid *out); /* timeuuid, uuid: version 1 */
MUST_CHECK bool cql_get_uuid(const struct cql_cell *c, const unsigned char **out);
MUST_CHECK bool cql_get_date(const struct cql_cell *c, int32_t *days_since_1970);
/* An address as numbers and as text fit for getaddrinfo. */
MUST_CHECK bool cql_get_inet(const struct cql_cell *c, char out[46]);
/* What a list, set, map (keys and values in turn), tuple or user type holds, as cells. The column
 * of a cell is that of its items: an item of a user type has its field's name, valid until the
 * next. */
struct cql_items {
    struct cql_column column[2]; /* of the items: of a map key and value */
    struct cursor rest, types;   /* types: those of a tuple or user type still to come */
    unsigned columns;            /* in use; 0: a tuple or user type */
    unsigned left, taken;
    bool named; /* a user type */
};
MUST_CHECK bool cql_get_items(const struct cql_cell *c, struct cql_items *out);
/* False: no more, or the bytes are wrong (rest.failed). What a tuple's bytes end before is null. */
MUST_CHECK bool cql_items_next(struct cql_items *i, struct cql_cell *out);

/* Rows of a result, one behind the other. Borrows the result. */
struct cql_rows {
    struct cql_columns *columns; /* NULL: the result has no rows, as that of a write */
    struct cursor rest;
    uint32_t count, left;
    bool more;      /* there is another page; this one may be empty all the same */
    str page_state; /* to ask for it; opaque, of this protocol version only */
};
/* cells: columns->count of them are filled. False: no more rows, or the bytes are wrong
 * (rest.failed). INVARIANT: columns are known while rows are left. */
MUST_CHECK bool cql_rows_next(struct cql_rows *r, struct cql_cell *cells);

#endif
