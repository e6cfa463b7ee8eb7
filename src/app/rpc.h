/* rpc.h - calls as Querator takes and answers them: one message in, one out, each as protobuf or
 * JSON.
 *
 * Model. A call is POST /v1/name; its body is a message by Content-Type (none, any type, any
 * application, application/json: JSON; application/protobuf). The answer is a message by Accept in
 * the same words; without Accept: JSON, as DUH has it. Other types: 455. Errors are a Reply with
 * the status as its code, whatever was asked for.
 *   The key of a caller is checked before its body is read; what it may do, when the handler knows
 * in which namespace (app_may). Bodies over the route's limit: 400.
 * Thread: as http.h. */
#ifndef APP_RPC_H
#define APP_RPC_H

#include "app/app.h"
#include "codec/wire.h"

/* Reads the body: a message of that type, in the arena. NULL: answered.
 *   const Wire__QueueStatsRequest *m = rpc_read(x, &wire__queue_stats_request__descriptor); */
MUST_CHECK const void *rpc_read(struct http_exchange *x, const ProtobufCMessageDescriptor *type);

/* Answers 200 with the Reply that says no more than that. */
void rpc_ok(struct http_exchange *x, const struct app *app);
/* What rpc_ok sends: app's ok. Owner: caller. */
struct http_ready *rpc_ok_new(enum wire_encoding encoding);
/* The same with a message, in two steps: writing it takes long. p of the body NULL: it could not be
 * written. */
MUST_CHECK err rpc_encode(struct http_exchange *x, const ProtobufCMessage *m, str *body);
void rpc_send(struct http_exchange *x, str body);
/* Answers with an error of this code. What is no UTF-8 in message becomes '?'. */
void rpc_error(struct http_exchange *x, int code, str message);
void rpc_errorf(struct http_exchange *x, int code, const char *format, ...) PRINTF_LIKE(3, 4);
/* The code of an error as queue.h means it; its note, but 500 `Internal Error` for what broke in
 * us, which goes to the log. ERR_LIMIT without a note is the request's memory: 413, or 503. */
void rpc_fail(struct http_exchange *x, err why, const struct err_note *note);

/* Refuses a body over the route's limit. */
void rpc_too_large(struct http_exchange *x);

#endif
