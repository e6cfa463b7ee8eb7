/* busy.h - did a thread work without rest while the machine had a processor to spare?
 *
 * Model. Of each window of BUSY_WINDOW_MS a thread learns how much of it it ran, and how long the processors of the
 * machine, added up, had nothing to do. Full: it ran BUSY_FULL_PERCENT of it or more, and BUSY_SPARE_PERCENT of a
 * processor or more was left: another thread would have carried work on. A thread that waits for a processor is not
 * full, since a second one would wait as well.
 *   Where /proc/uptime cannot be read there is always something to spare. */
#ifndef LOOP_BUSY_H
#define LOOP_BUSY_H

#include "base/times.h"

#include <stdbool.h>

enum { BUSY_WINDOW_MS = 200, BUSY_FULL_PERCENT = 85, BUSY_SPARE_PERCENT = 30 };

/* Since some moment. idle_ns: of all processors; -1: not known. */
struct busy_sample { mono at; int64_t ran_ns, idle_ns; };
struct busy {                         /* zeroed before the first use */
    struct busy_sample last;
    _Atomic int64_t at_ns;            /* end of the last window */
    _Atomic unsigned percent;         /* that the thread ran in it */
    _Atomic bool full;
};

/* Call it often. True: a window has ended, and the thread was full. Thread: the one it is about. */
bool busy_look(struct busy *b, mono now);
/* The same, from a sample taken at the end of a window. Pure. */
bool busy_add(struct busy *b, const struct busy_sample *s);
/* In the last window; 0 when that was a while ago, for who sleeps takes no samples. Thread: any. */
unsigned busy_percent(const struct busy *b, mono now);
bool busy_full(const struct busy *b, mono now);
/* "UPTIME IDLE" in seconds with two digits, as /proc/uptime has them, to IDLE; -1: it is not that. Pure. */
int64_t busy_idle_ns(const char *text);

#endif
