/* table_read.h - what a table store is asked for. Part of table_store.h. */
#ifndef STORE_TABLE_READ_H
#define STORE_TABLE_READ_H

#include "base/arena.h"
#include "base/tid.h"
#include "store/store.h"

enum {
    TABLE_NAME_BYTES_MAX = 128,
    TABLE_ATTRS_MAX = 128, /* of one schema */
    TABLE_ATTR_NAME_BYTES_MAX = 64,
    TABLE_LIMIT_MAX = 10000, /* rows of one answer */
    /* an answer in JSON ends with the row that reaches them; more rows come with `next` */
    TABLE_ANSWER_BYTES_FULL = 12 << 20,
    /* of one answer, the last row included; what does not fit is for `next` */
    TABLE_ANSWER_BYTES_MAX = 48 << 20,
    TABLE_TEXT_BYTES_MAX = TABLE_ANSWER_BYTES_MAX - (64 << 10), /* of one value in an answer */
    TABLE_SCAN_ROWS_MAX = 100000, /* rows one get looks at before it answers with `next` */
    /* JSON values in one body: 64 MiB of memory, whatever they are */
    TABLE_QUERY_VALUES_MAX = 1 << 18,
    TABLE_DAMAGED_MAX = 64, /* rows that cannot be read, told of in one answer */
    TABLE_PREDICATES_MAX = 64,
};
#define TABLE_TTL_S_MAX ((int64_t)630720000) /* 20 years, as Cassandra */

/* A named value in its stored form: memcmp order is the order of the values, and string and blob
 * are their own bytes. p NULL: null. */
struct table_attr {
    str name, value;
};
/* Stored forms for callers that have values, not JSON; in the arena, p NULL when it is full. */
str table_value_long(struct arena *a, int64_t v);
str table_value_tid(struct arena *a, struct tid t);
int64_t table_long(str stored); /* 0 when malformed */
struct tid table_tid(str stored);

enum table_op { OP_EQ, OP_LT, OP_LE, OP_GT, OP_GE };
struct table_predicate {
    str name;
    enum table_op op;
    str value;
};
struct table_get {
    str table;
    str index; /* a secondary index to go through, or empty: predicates, proj and order are of it */
    const struct table_predicate *predicates;
    unsigned predicates_count;
    const str *proj; /* names; count 0: all */
    unsigned proj_count;
    bool reversed; /* the whole key order turned round */
    bool distinct; /* one row a partition; proj: hash attributes only */
    bool with_ttl;
    uint32_t limit; /* 0: TABLE_LIMIT_MAX */
    str next;       /* of an earlier answer: opaque bytes, which the store alone reads; or empty */
};
struct table_row {
    const struct table_attr *attrs; /* key attributes first; without those not asked for */
    unsigned count;
    int64_t ttl_s; /* left, rounded up; 0: none */
    bool with_ttl;
};
str table_row_value(const struct table_row *r, str name); /* p NULL: null or unknown */

/* ---- requests. The caller keeps what they borrow alive and unchanged until the call is over.
 * Results live in the arena of the request. ---- */

/* Rows in the order of their keys. call.why: ERR_OK; ERR_NOT_FOUND (no such table), ERR_BAD with a
 * note, ERR_CONFLICT (an index that is still being filled), ERR_LIMIT (the arena is full),
 * ERR_UNAVAILABLE (other requests hold the memory), ERR_TIMEOUT (canceled), ERR_CORRUPT, ERR_IO. */
struct table_rows {
    struct store_call call;
    /* in */
    uint32_t domain;
    struct table_get get;
    struct arena *arena; /* of what is read */
    /* Rows that cannot be read are gone past, TABLE_DAMAGED_MAX at most, and stand in damaged. Else
     * one ends the get with ERR_CORRUPT. */
    bool past_damage;
    /* out */
    const struct table_row *rows;
    const struct table_row *damaged; /* of what can be read of their keys; count 0: nothing */
    unsigned rows_count, damaged_count;
    str next; /* n 0: that was all */
    struct err_note note;
};

/* The same, from a query in JSON (docs/peers.md, 1) to an answer in JSON,
 * {"items":[...],"damaged":[...],"next":"..."}. It ends before a row that does not fit in it, or in
 * what the arena has left; as the first, such a row is ERR_LIMIT with a note. */
struct table_query {
    struct store_call call;
    /* in */
    uint32_t domain;
    str table, query;
    struct arena *arena;
    /* out */
    str json;
    unsigned rows, damaged;
    bool more;    /* there is a `next` */
    bool went_on; /* the query had one */
    struct err_note note;
};

/* The schema as JSON. call.why: ERR_NOT_FOUND and the others. */
struct table_schema_read {
    struct store_call call;
    /* in */
    uint32_t domain;
    str table;
    struct arena *arena;
    /* out */
    str json;
};

#endif
