/* worker.h - a thread with an epoll set and the connections in it, and tasks. Private to http.
 *
 * Model. All that happens to a connection, from its first byte to its end, happens on the worker
 * that has it. In a turn a worker runs some of the tasks that were posted, then sees to what its
 * set says, then waits for either. Who answers on another thread posts the exchange to its worker.
 *   The first worker that is not full (loop/busy.h) gets what is accepted. A full one gives every
 * second connection of a turn that waits for requests to one that has much less to do, after each
 * window in which it was: there are no more threads at work than were needed once. What was given
 * away stays where it is. */
#ifndef HTTP_WORKER_H
#define HTTP_WORKER_H

#include "http/server.h"

/* All of them, with the listening sockets in the set of each. False: they do not start; then
 * workers_stop all the same. */
MUST_CHECK bool workers_start(struct http_server *s);
/* The threads run what was posted and end; nothing is in work. Twice is once; none is none. */
void workers_stop(struct http_server *s);
/* The server drains: each worker leaves inherited sockets, and rouses its streams. Once. */
void workers_drain(struct http_server *s);
/* Thread: any. */
void worker_post(struct http_worker *w, struct task *t);

/* ---- for conn.c; thread: the worker's ---- */

/* What was received goes here: of a connection, for as long as it is being read. */
char *worker_room(struct http_worker *w, size_t *size);
/* Date, and the end of the head. Good until the next call. */
str worker_last_lines(struct http_worker *w);
struct answer_room *worker_answer_room(struct http_worker *w);
/* The set waits for these events of c from here on; 0: it forgets c. */
void worker_wants(struct http_conn *c, uint32_t events);
/* c has more in left_over: it is seen to in the next turn, whatever its socket says. */
void worker_again(struct http_conn *c);
/* c has a stream from here on, for as long as that lasts: a drain rouses it. */
void worker_stream_add(struct http_conn *c);
void worker_stream_drop(struct http_conn *c);
/* c ends: no list and no set has it any more. */
void worker_forgets(struct http_conn *c);

#endif
