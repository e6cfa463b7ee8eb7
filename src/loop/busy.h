/* busy.h - did a thread work without rest, and would another one beside it carry work on?
 *
 * Model. Of each window of BUSY_WINDOW_MS a thread learns how much of it it ran, how much of it it
 * waited for a processor, and how long the processors it may use, added up, had nothing to do or
 * waited for a disk. Full: it ran or waited for BUSY_FULL_PERCENT of the window or more, and
 *   - BUSY_SPARE_PERCENT of a processor or more was left, or
 *   - it waited for BUSY_WAITED_PERCENT or more, BUSY_WAITED_WINDOWS windows in a row: others take
 *     its processor, and as the kernel shares by threads, two get twice as much of it.
 * A thread that alone has its processor while none is left is not full: a second one would have
 * them both wait.
 *   Where the wait cannot be read there is none. Where the idle time cannot be (a /proc without
 * "stat") something is left always: a second thread too many costs less than a processor that
 * nobody uses. */
#ifndef LOOP_BUSY_H
#define LOOP_BUSY_H

#include "base/str.h"
#include "base/times.h"

enum {
    BUSY_WINDOW_MS = 200,
    BUSY_FULL_PERCENT = 85,
    BUSY_SPARE_PERCENT = 30,
    BUSY_WAITED_PERCENT = 30,
    BUSY_WAITED_WINDOWS =
        5 /* what lasts shorter is not worth a second thread, which stays at work */
};

/* Since some moment. idle_ms: of all processors the thread may use. waited_ns, idle_ms -1: not
 * known. */
struct busy_sample {
    mono at;
    int64_t ran_ns, waited_ns, idle_ms;
};
struct busy { /* zeroed before the first use */
    struct busy_sample last;
    unsigned waited_windows;  /* in a row, until now */
    bool blind;               /* the idle time cannot be read here */
    _Atomic int64_t at_ns;    /* end of the last window */
    _Atomic unsigned percent; /* that the thread ran or waited in it */
    _Atomic bool full;
};

/* Call it often. True: a window has ended, and the thread was full. Thread: the one it is about. */
bool busy_look(struct busy *b, mono now);
/* The same, from a sample taken at the end of a window. Pure. */
bool busy_add(struct busy *b, const struct busy_sample *s);
/* Would the window that ends with s be without rest, so that its idle_ms is worth reading? Pure. */
bool busy_is_restless(const struct busy *b, const struct busy_sample *s);
/* In the last window; 0 when that was a while ago, for who sleeps takes no samples. Thread: any. */
unsigned busy_percent(const struct busy *b, mono now);
bool busy_full(const struct busy *b, mono now);

/* "RAN WAITED TIMES" in ns, as /proc/thread-self/schedstat has it, to WAITED; -1: it is not that.
 * Pure. */
int64_t busy_waited_ns(str text);
/* "cpuN USER NICE SYSTEM IDLE IOWAIT ..." in ticks, as in /proc/stat, to N and IDLE + IOWAIT.
 * False: it is not that (the first line, "cpu ", is of all). Pure. */
bool busy_processor(str line, unsigned *number, int64_t *idle_ticks);

#endif
