/* gone.h - tells the handler of a deferred exchange that its client has left. Private to http.
 *
 * Model. A worker's epoll set says when the client of a connection has shut its side, also while a
 * request is in work: the worker notes it in the connection and looks here. Who asked to be told is
 * told on the loop, once, unless it was answered first. While that is under way the exchange is
 * held.
 *
 *   UNASKED -> ASKED -> POSTED -> TELLING -> OVER
 *              ASKED -> OVER           answered before anything happened
 *                       POSTED -> OVER     answered before the loop came to it
 *                                 TELLING -> OVER    told, or answered meanwhile
 *
 * Thread: any, each x by one at a time but for the answer. */
#ifndef HTTP_GONE_H
#define HTTP_GONE_H

#include "http/http.h"

/* x says whom to tell; the client may have left before. Thread: x's home. */
void gone_asked(struct http_exchange *x);
/* The client has left while x was in work. Thread: the connection's worker. */
void gone_left(struct http_exchange *x);
/* x is answered: from here on nobody is told. Thread: any. */
void gone_end(struct http_exchange *x);

#endif
