/* stop.h - a signal that asks a verb for its end, for those that have something to say or to put
 * back first. Private to cli.
 *
 * Model. The signals are noted as loop/signals.h says, once. Every wait here, and every request of
 * client.h, looks at the descriptor of those that came beside what it waits for. A verb that ends
 * for one ends by it, with signals_end. Thread: one. */
#ifndef CLI_STOP_H
#define CLI_STOP_H

#include <stdbool.h>
#include <stdio.h>

/* Takes SIGINT, SIGTERM and SIGHUP from now on, but those that whoever started us has ignored, as
 * nohup does. */
void stop_watch(void);
bool stop_asked(void);
/* Can be read once stop_asked: for a poll of the caller's own. -1, which poll passes over: nothing
 * is watched. */
int stop_fd(void);
/* Waits until fd (-1: none) can be read, or has an end or error to tell; timeout_ms -1: for ever.
 * False: the time is over, or stop_asked. */
bool stop_wait(int fd, int timeout_ms);

/* A stream to read from fd. Its reads fail with EINTR once stop_asked. Owner: caller; fclose closes
 * fd. */
FILE *stop_stream(int fd);
/* The same of a file, or of standard input for "-". A FIFO that nobody writes to is waited for by
 * the first read. NULL: errno says why. */
FILE *stop_open(const char *file);

#endif
