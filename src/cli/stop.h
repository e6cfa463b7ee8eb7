/* stop.h - a signal that asks a verb for its end, for those that have something to say or to put back first.
 * Private to cli.
 *
 * The handler sets a flag; reads and waits end with EINTR. A second signal of the kind ends the process at once.
 * Requests of client.h give up within a second. Thread: one. */
#ifndef CLI_STOP_H
#define CLI_STOP_H

#include <stdbool.h>

/* Takes SIGINT, SIGTERM and SIGHUP from now on, but those that whoever started us has ignored, as nohup does. */
void stop_watch(void);
bool stop_asked(void);
/* Ends the process by the signal that came, so that a shell's loop ends with it; nothing when none came. */
void stop_end(void);

#endif
