/* call.h - requests that become a call of a store (store/store.h): how they start, how they wait,
 * and what each listing reads of the query. A function that says "false: answered" has given the
 * client its answer; the handler just returns. Thread: the handler's. */
#ifndef APP_CALL_H
#define APP_CALL_H

#include "app/app.h"
#include "store/store.h"

enum { APP_LISTING_MAX = 1000, APP_TOKEN_TEXT_BYTES_MAX = 1024 };

/* A call that was started, whose home is http_home, goes on: done runs here and now, or later, and
 * x sleeps until then. */
void app_call_go(struct http_exchange *x, enum store_start start, struct store_call *c);
/* The same of a read, which is canceled when its client leaves. */
void app_read_go(struct http_exchange *x, enum store_start start, struct store_call *c);

/* ?limit=, 1 to APP_LISTING_MAX (*limit stays when it is absent), and ?page=, in *from: a token
 * that whoever lists gave, in base64url on the wire. It is not signed: a forged one names a
 * position the client could have reached. *from has n 0 when it is absent. False: answered. */
MUST_CHECK bool app_listing_parse(struct http_exchange *x, unsigned *limit, str *from);
/* ?page= alone. */
MUST_CHECK bool app_token_parse(struct http_exchange *x, str *from);
/* 400: page is no token. False. */
bool app_token_bad(struct http_exchange *x);

#endif
