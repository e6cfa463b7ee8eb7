/* value_request.h - what the handlers of key_value and key_rev_value share. Private to value*.c.
 *
 * They parse, check, call the value service (value/value.h) and answer. Which of the two a request
 * is about stands in its route (kind). */
#ifndef APP_TABLE_VALUE_REQUEST_H
#define APP_TABLE_VALUE_REQUEST_H

#include "app/answer.h"
#include "app/coded.h"
#include "app/table/table_request.h"
#include "app/table/value_path.h"

enum { VALUE_BODY_BYTES_MAX = 8 << 20 };

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
                                        void (*done)(struct store_call *c));
/* Answers what the service gave: 404 unknown_bucket and so on. */
void value_fail(struct value_request *r, err why);

/* Handlers. */
void value_get(struct http_exchange *x, void *app);
void value_put_plain(struct http_exchange *x, void *app);
void value_put_rev(struct http_exchange *x, void *app);
void value_remove(struct http_exchange *x, void *app);
void value_bucket_create(struct http_exchange *x, void *app);
void value_bucket_drop(struct http_exchange *x, void *app);
void value_keys(struct http_exchange *x, void *app);

#endif
