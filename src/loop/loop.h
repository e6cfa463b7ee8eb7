/* loop.h - the one loop thread: timers, sockets, calls from other threads, blocking jobs on a pool.
 * On libuv.
 *
 * Model: a loop runs on one thread (loop_run). Timers and done functions run there. Work that
 * blocks is a job on the pool: run touches only the job, done comes back on the loop exactly once.
 * loop_post runs a function on the loop from any thread. A callback over 5 ms is counted
 * (loop_stalls). */
#ifndef LOOP_LOOP_H
#define LOOP_LOOP_H

#include "base/err.h"
#include "base/home.h"
#include "base/times.h"

struct loop;
struct loop_timer;

/* Dies when out of memory. threads: of the pool, set once per process (UV_THREADPOOL_SIZE). */
struct loop *loop_new(unsigned threads);
/* After loop_run returned, on any thread, when nobody else posts any more. Runs what is posted,
 * takes back jobs that have not begun (done gets canceled) and waits for the others. Invariant: no
 * timer and no watch is left. */
void loop_free(struct loop **lp);
/* Until loop_stop; on the calling thread, which becomes the loop thread. */
void loop_run(struct loop *l);
/* What was posted before is run before loop_run returns. Thread: any. */
void loop_stop(struct loop *l);
/* INVARIANT: called on the loop thread; until loop_run that is the one which called loop_new. */
void loop_assert_here(const struct loop *l);
bool loop_is_here(const struct loop *l); /* the same, asked */
uint64_t loop_stalls(const struct loop *l);

/* Tasks posted there run on the loop thread. Lives as long as the loop. */
struct home *loop_home(struct loop *l);
/* Tasks posted there run on the pool, where they may block; several at once, in any order. What has
 * not begun when the loop ends runs inside loop_free. Lives as long as the loop. */
struct home *loop_pool(struct loop *l);
/* Runs fn(ctx) on the loop thread, in order of posting, with loop_home's tasks. Thread: any; never
 * blocks. */
void loop_post(struct loop *l, void (*fn)(void *ctx), void *ctx);

/* A timer starts stopped. Thread: loop (timer_new also before loop_run). */
struct loop_timer *loop_timer_new(struct loop *l, void (*fired)(void *ctx), void *ctx);
/* repeat 0: once. Started within its own firing it fires a millisecond later at least, so that
 * others come first. */
void loop_timer_start(struct loop_timer *t, int64_t first_ms, int64_t repeat_ms);
void loop_timer_stop(struct loop_timer *t);
void loop_timer_free(struct loop_timer **tp);

/* What a watched descriptor can be ready for. GONE: the peer closed its side, or all of it. ERROR:
 * the socket holds an error (refused, reset); it comes unasked, and the watch has stopped then. */
enum { LOOP_READABLE = 1, LOOP_WRITABLE = 2, LOOP_GONE = 4, LOOP_ERROR = 8 };

/* A watch on a socket or pipe. It starts stopped. Level triggered: ready is called again while the
 * descriptor is ready. fd stays the caller's: not closed before loop_watch_stop or _free; one
 * started watch a descriptor and loop. ready may stop, start or free the watch. Thread: loop
 * (watch_new also before loop_run). */
struct loop_watch;
struct loop_watch *loop_watch_new(struct loop *l, int fd, void (*ready)(void *ctx, unsigned events),
                                  void *ctx);
void loop_watch_start(struct loop_watch *w, unsigned events); /* instead of those before; 0: stop */
void loop_watch_stop(struct loop_watch *w);
void loop_watch_free(struct loop_watch **wp);

/* One blocking job; the memory is the caller's until done was called. Thread: any. Embedding:
 * CONTAINER_OF. */
struct loop_job {
    void (*run)(struct loop_job *j); /* pool thread */
    void (*done)(struct loop_job *j,
                 bool canceled); /* loop thread; canceled: run was never called */
    struct loop *loop;           /* the loop's */
};
void loop_job_start(struct loop *l, struct loop_job *j);

/* Calls got(ctx, signal_number) on the loop for each of SIGTERM, SIGINT, SIGHUP, also for those
 * that were noted before (loop/signals.h). From loop_free on they are ignored. */
void loop_signals(struct loop *l, void (*got)(void *ctx, int signal_number), void *ctx);

#endif
