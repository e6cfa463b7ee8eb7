/* gone.h - tells the handler of a deferred exchange that its client has left. Private to http.
 *
 * Model. The library does not look at the socket of a suspended connection. So those whose handlers
 * ask stand in an epoll set of ours, which any thread may change and the loop watches as one
 * descriptor. An entry names a slot and its generation, never an exchange: the slot says under the
 * lock whether the exchange is still there.
 *
 * The worker enters it when the handler has returned: until then the worker holds the exchange,
 * also when it has been answered.
 *
 *   slot   FREE -> WATCHING -> TELLING -> TOLD -> FREE
 *                  WATCHING -> FREE       answered before anything happened
 *                             TELLING -> FREE   answered meanwhile: the teller resumes the
 *                             connection
 *          FREE -> LATER -> WATCHING      two sweeps have seen it: it waits long
 *                  LATER -> FREE          answered by then, as a rule; the set was never touched
 *
 * The set is left before the connection is resumed, so its descriptor is open all the time. The
 * lock is never held over a call to a handler. */
#ifndef HTTP_GONE_H
#define HTTP_GONE_H

#include "http/http.h"

struct gone;
struct loop;

/* Thread: the loop's, or before it runs. Dies when there is no descriptor left. */
struct gone *gone_new(struct loop *loop);
/* No slot is taken. Thread: as above, or after the loop ran. */
void gone_free(struct gone **gp);
/* x is deferred, and its handler has asked and returned. When the kernel refuses nothing will be
 * told. Thread: x's worker. */
void gone_watch(struct gone *g, struct http_exchange *x);
/* Enters who asked to be looked at late and still waits. Thread: one. */
void gone_sweep(struct gone *g);
/* x's handler asked, and x is answered now. False: the handler is being told right now, and the
 * teller resumes x. Thread: any. */
bool gone_end(struct gone *g, struct http_exchange *x);

#endif
