/* worker.h - a thread that runs the library for its connections, and tasks. Private to http.
 *
 * Model. Each worker has a library of its own without a thread (its "external" mode), so all that
 * happens to a connection, from its first byte to its end, happens on one thread. In a turn a
 * worker runs some of the tasks that were posted, then lets the library see to what is ready, then
 * waits for either. Only a worker resumes its connections: who answers on another thread posts the
 * exchange to it. */
#ifndef HTTP_WORKER_H
#define HTTP_WORKER_H

#include "http/server.h"

/* accepts: it takes connections from l's socket; else only those that worker_take gives it. NULL:
 * the library does not start. */
struct http_worker *worker_start(struct listener *l, bool accepts);
/* Runs what was posted, ends the thread, closes all its connections. Nothing is deferred. */
void worker_stop(struct http_worker **wp);
struct listener *worker_listener(const struct http_worker *w);
bool worker_is_here(const struct http_worker *w);
/* How often it has let the library see to what is ready. Thread: any. */
uint64_t worker_turns(const struct http_worker *w);
/* Does it wait for something to do? Thread: any. */
bool worker_rests(const struct http_worker *w);
/* Thread: any. */
void worker_post(struct http_worker *w, struct task *t);
/* Resumes x's connection. Thread: w. */
void worker_resume(struct http_worker *w, struct http_exchange *x);
/* A connection of a lane is w's from here on, with what it sent unread. Thread: its lane's. */
void worker_take(struct http_worker *w, struct http_conn *c);
/* The connection that the library was given with this descriptor; NULL: it accepted it itself.
 * Thread: w. */
struct http_conn *worker_given(struct http_worker *w, int fd);

#endif
