/* value_request.h - what the handlers of key_value and key_rev_value share. Private to value*.c.
 *
 * They parse, check, call the value service (value/value.h) and answer. A function that says
 * "false: answered" has given the client its answer; the handler just returns. */
#ifndef APP_TABLE_VALUE_REQUEST_H
#define APP_TABLE_VALUE_REQUEST_H

#include "app/answer.h"
#include "app/coded.h"
#include "app/table/table_request.h"
#include "app/table/value_path.h"

enum {
    VALUE_BODY_BYTES_MAX = 8 << 20,
    VALUE_SCHEMA_BODY_BYTES_MAX = 16 << 10,
    VALUE_LIMIT_DEFAULT = 125, /* of a listing, as the peer */
};

struct value_request {
    struct http_exchange *x;
    struct app *app;
    const struct config_value_access *access;
    union {
        struct value_call of;
        struct value_read read;
        struct value_put put;
        struct value_delete del;
        struct value_list list;
        struct value_bucket bucket;
    };
};
static inline struct value_request *value_request_of(struct store_call *c)
{
    return CONTAINER_OF(c, struct value_request, of.call);
}

/* Reads {domain}, {bucket}, {key}, {rev}, {tid}; done answers. NULL: answered. */
struct value_request *value_request_new(struct http_exchange *x, struct app *app,
                                        enum value_kind kind, void (*done)(struct store_call *c));
/* As table_may_wait, for what writes: its deadline runs from here on. */
MUST_CHECK bool value_may_wait(struct value_request *r);
/* As table_call_go. */
void value_go_on(struct value_request *r, enum store_start start);
/* Answers what the service gave: 404 unknown_bucket and so on. */
void value_fail(struct value_request *r, err why);

/* Handlers of both kinds. */
void value_plain_get(struct http_exchange *x, void *app);
void value_rev_get(struct http_exchange *x, void *app);
void value_plain_put(struct http_exchange *x, void *app);
void value_rev_put(struct http_exchange *x, void *app);
void value_delete_start(struct http_exchange *x, struct app *app, enum value_kind kind);
void value_bucket_create(struct http_exchange *x, struct app *app, enum value_kind kind);
void value_bucket_drop(struct http_exchange *x, struct app *app, enum value_kind kind);
void value_bucket_keys(struct http_exchange *x, struct app *app, enum value_kind kind);
void value_key_revs(struct http_exchange *x, void *app);
void value_multi_create(struct http_exchange *x, void *app);

#endif
