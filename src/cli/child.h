/* child.h - a child process with pipes: no shell, arguments as they are. Private to cli. Thread:
 * one.
 *
 * Its output is a stop_stream; a child that does not end by itself is killed once stop_asked. It
 * must do no harm then. */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include "base/err.h"

#include <stdio.h>
#include <sys/types.h>

struct child {
    pid_t pid;
    FILE *to;   /* its stdin; NULL when it reads stdin_fd */
    FILE *from; /* its stdout */
    const char *name;
};
/* argv[0] is looked up in PATH; ends with NULL. stdin_fd: borrowed, -1: a pipe. stderr is ours.
 * ERR_IO with a note: it cannot be started. Owner: caller, child_end. */
MUST_CHECK err child_start(struct child *c, const char *const *argv, int stdin_fd,
                           struct err_note *note);
/* Closes the pipes and waits. ERR_IO with a note unless it exited with 0 (or was killed by our
 * closing). */
MUST_CHECK err child_end(struct child *c, struct err_note *note);
/* The same where how it ended does not matter any more. */
void child_drop(struct child *c);

#endif
