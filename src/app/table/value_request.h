/* value_request.h - what the handlers of key_value and key_rev_value share. Private to value*.c.
 *
 * A bucket is a table of the server's own: `.key_value.NAME` or `.key_rev_value.NAME`, with one row
 * a value:
 *   key (hash), in key_rev_value rev and tid (range, descending); value: the bytes as they were
 *   sent; headers: the lines to replay (headers.h); etag: what the writer gave (key_value); coding:
 *     "gzip" or null.
 * A function that says "false: answered" has given the client its answer; the handler just
 * returns. */
#ifndef APP_TABLE_VALUE_REQUEST_H
#define APP_TABLE_VALUE_REQUEST_H

#include "app/answer.h"
#include "app/coded.h"
#include "app/table/table_request.h"
#include "app/table/value_path.h"
#include "table/table_write.h"

enum {
    VALUE_BODY_BYTES_MAX = 8 << 20,
    VALUE_SCHEMA_BODY_BYTES_MAX = 16 << 10,
    VALUE_LIMIT_DEFAULT = 125, /* of a listing, as the peer */
    VALUE_LIMIT_MAX = 1000,
    VALUE_ATTRS_MAX = 8,
    VALUE_REV_TAG_BYTES = 20 + 1 + TID_TEXT_BYTES + 1,
};

enum value_bucket_kind { BUCKET_PLAIN, BUCKET_REVS };

/* A stored value; all in the arena. */
struct value_row {
    bool found;
    int64_t rev;
    struct tid tid;
    str headers, etag, coding, body;
};

struct value_request {
    struct http_exchange *x;
    struct app *app;
    const struct page_domain *domain;
    enum value_bucket_kind kind;
    const struct config_bucket *configured; /* NULL: its name is not in the configuration */
    const struct config_value_access *access;
    str table, key;
    bool has_rev, has_tid;
    int64_t rev;
    struct tid tid;
    bool deferred;
    /* reading */
    bool with_body;
    struct value_row row;
    struct err_note note;
    err why;
    void (*read_done)(struct value_request *r, err why);
    struct loop_job job;
    /* writing */
    str body, coding, raw; /* value_take_body; raw: what body holds */
    void (*there)(struct value_request *r);
    void (*write_done)(struct value_request *r, err why);
    struct table_change change;
    struct table_write write;
    struct table_attr attrs[VALUE_ATTRS_MAX];
    struct table_predicate predicates[3];
    bool unmet; /* a condition did not hold; nothing was written */
};

/* Reads {domain}, {bucket}, {key}, {rev}, {tid}. NULL: answered. */
struct value_request *value_request_new(struct http_exchange *x, struct app *app,
                                        enum value_bucket_kind kind);
/* Puts the connection to sleep once. False: answered. */
MUST_CHECK bool value_defer(struct value_request *r);
/* 404 unknown_bucket and so on. */
void value_fail(struct value_request *r, err why);

/* value_schema.c. Calls then when the table of a configured bucket is there as the configuration
 * says; of others at once. */
void value_there(struct value_request *r, void (*then)(struct value_request *r));
/* The schema that a PUT of the bucket asks for; of a configured one whether it is the same.
 * ERR_BAD, ERR_LIMIT. */
MUST_CHECK err value_schema_read(struct value_request *r, str *out, struct err_note *note);

/* Finds the row the path names (of several the newest) into r->row and calls done: at once, or on
 * the loop when its bytes were cold. without a body only the key and the headers are read. */
void value_read(struct value_request *r, bool with_body,
                void (*done)(struct value_request *r, err why));
/* As a read with the body, here and now. Blocks: a pool thread. */
MUST_CHECK err value_read_wait(struct value_request *r);
/* The predicates of the path, in r; their count, or 0 when the arena is full. */
unsigned value_predicates(struct value_request *r);

/* The body of a PUT, into r->body and r->coding as they will be stored, and r->raw. HTTP worker: it
 * may take milliseconds. False: answered. */
MUST_CHECK bool value_take_body(struct value_request *r, enum headers_rule rule);
/* Headers and coding of the request, to keep. False: answered. */
MUST_CHECK bool value_kept(struct value_request *r, enum headers_rule rule, str *lines,
                           str *coding);
/* value_condition.c. Has it If-Match or If-None-Match? */
bool value_is_conditional(const struct value_request *r);
/* Judges them by what is stored at the path, NULL: nothing; sets r->unmet. In the update that
 * decides: it is of struct table_write. */
bool value_allows(void *r, const struct table_row *stored);
/* Has the write judged so, if it is conditional; a delete needs it in any case. False: answered. */
MUST_CHECK bool value_judge(struct value_request *r);
/* 412. */
void value_unmet(struct value_request *r);
/* Writes key, in key_rev_value r->rev and r->tid, and row.headers, row.etag, row.coding; the body
 * is r->body. */
void value_write(struct value_request *r, const struct value_row *row,
                 void (*done)(struct value_request *r, err why));
/* The write that was not done, once more, until its first deadline; done is called as before. */
void value_write_again(struct value_request *r);
/* Deletes what the path names, if its conditions hold. */
void value_delete(struct value_request *r);

/* 200 or 304 with the row; etag with its quotes, or empty. */
void value_answer(struct value_request *r, str etag);
/* A conditional answer: does If-None-Match name this etag? */
bool value_unchanged(const struct value_request *r, str etag);

/* Handlers of both kinds: value_bucket.c and value_rev.c. */
void value_bucket_create(struct http_exchange *x, struct app *app, enum value_bucket_kind kind);
void value_bucket_drop(struct http_exchange *x, struct app *app, enum value_bucket_kind kind);
void value_bucket_keys(struct http_exchange *x, struct app *app, enum value_bucket_kind kind);
void value_key_revs(struct http_exchange *x, void *app);
/* "rev/tid" without quotes: what the etag of a revision says. */
void value_rev_tag(int64_t rev, struct tid tid, char text[VALUE_REV_TAG_BYTES]);
void value_rev_get(struct http_exchange *x, void *app);
void value_rev_put(struct http_exchange *x, void *app);
void value_rev_delete(struct http_exchange *x, void *app);

#endif
