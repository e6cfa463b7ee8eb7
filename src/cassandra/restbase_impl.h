/* restbase_impl.h - what the parts of restbase.h share. Private to them. */
#ifndef CASSANDRA_RESTBASE_IMPL_H
#define CASSANDRA_RESTBASE_IMPL_H

#include "cassandra/restbase.h"

enum { RESTBASE_TEXT_BYTES = 400 /* of a statement */, RESTBASE_COLUMNS_MAX = 3 };

struct restbase {
    uint32_t magic;
    struct cql *client;
    struct clock *clock;
    struct restbase_table tables[RESTBASE_TABLES_MAX];
    unsigned tables_count;
    char *domain;
    int64_t timeout_ms;
    /* what the statements are made of, for the client's life */
    char keys_text[RESTBASE_TEXT_BYTES], names_text[RESTBASE_TEXT_BYTES],
        latest_text[RESTBASE_TEXT_BYTES], of_rev_text[RESTBASE_TEXT_BYTES],
        row_text[RESTBASE_TABLES_MAX][RESTBASE_TEXT_BYTES];
    const struct cql_statement *keys, *names, *latest, *of_rev, *row[RESTBASE_TABLES_MAX];
};
#define RESTBASE_MAGIC 0x4e57ba5eu

/* A name in double quotes. Returns the end. out: 2 * RESTBASE_NAME_BYTES + 2 bytes. */
void restbase_quote(const char *name, char *out);
/* What all requests have in common. */
void restbase_request(struct cql_request *q, void (*done)(struct cql_request *q));
/* The revision that a cell says; false: no number above 0. Pure. */
MUST_CHECK bool restbase_rev(const struct cql_cell *cell, uint64_t *out);

/* A render's rows, all at once: one request for each table. */
enum { RESTBASE_REV_BYTES_MAX = 24 };
struct restbase_name { /* as it lies there, for the next question */
    char rev_raw[RESTBASE_REV_BYTES_MAX];
    size_t rev_n;
    uint64_t rev;
    struct tid tid;
    const char *unfit;
};
/* One name as it lies there, of the cells of rev and tid. */
void restbase_name_take(struct restbase_name *n, const struct cql_cell *cells);
/* The name as a table of such revisions has it. False: its revision does not fit in. Pure. */
MUST_CHECK bool restbase_name_put(struct restbase_name *n, enum restbase_revs revs);
struct restbase_fetch {
    /* in; borrowed until done */
    struct restbase *reader;
    str domain, title;
    mono deadline;
    const struct restbase_name *name;
    void (*done)(struct restbase_fetch *f); /* after restbase_fetch_start has returned */
    /* out */
    err why; /* ERR_LIMIT: a row is too large for an answer; also as of a request */
    struct err_note note;
    bool gone;                                       /* the first table has no row of it any more */
    struct restbase_part parts[RESTBASE_TABLES_MAX]; /* until restbase_fetch_fini */
    size_t bytes;
    /* its own */
    struct restbase_row {
        struct restbase_fetch *fetch;
        struct cql_request request;
        struct cql_part part;
        struct cql_values values;
        bool held;
    } rows[RESTBASE_TABLES_MAX];
    unsigned waiting;
};
void restbase_fetch_start(struct restbase_fetch *f);
void restbase_fetch_cancel(struct restbase_fetch *f);
void restbase_fetch_fini(struct restbase_fetch *f); /* afterwards it may be started again */

#endif
