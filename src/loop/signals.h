/* signals.h - what each signal does, for every verb of the program. Nobody else sets handlers or
 * masks, but src/engine/map_guard.h for SIGBUS.
 *
 * Model. One handler notes which signals came, and makes a descriptor readable (the self-pipe
 * trick, D. J. Bernstein). Who waits for something else watches that descriptor beside it. So a
 * signal that comes just before a wait ends it as well.
 *
 *   signal          serve                        verbs that have something     other verbs
 *                                                to put back first
 *   SIGTERM,        ends a start at once;        noted, once: the verb ends,   ends
 *   SIGINT          noted while stores open      by the signal; the second
 *                   and from the loop on: drain  ends at once
 *   SIGHUP          noted from the start on:     as SIGTERM                    ends
 *                   options are read again
 *   SIGPIPE         ignored                      of imports: ignored           ends
 *   SIGXFSZ         ignored: a write beyond the limit of a file's size fails instead, and is told
 *   SIGBUS          of an index that cannot be read: said, and ends (map_guard.h)
 *
 * A signal that whoever started us ignores (nohup) stays ignored under SIGNALS_ONCE. The state is
 * the process's, as signals are. Thread: all functions from any thread; who watches and who takes
 * is one caller at a time. */
#ifndef LOOP_SIGNALS_H
#define LOOP_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

enum {
    SIGNALS_TERM = 1,
    SIGNALS_INT = 2,
    SIGNALS_HUP = 4,
    SIGNALS_END = SIGNALS_TERM | SIGNALS_INT,
    SIGNALS_NOTED = SIGNALS_END | SIGNALS_HUP, /* those that can be noted */
    SIGNALS_PIPE = 8,
    SIGNALS_FILE_SIZE = 16
};
enum signals_manner {
    SIGNALS_EACH, /* whenever one comes; calls of the system go on */
    SIGNALS_ONCE, /* the first of a kind, which calls of the system end for; then what it does by
                     default */
};

/* Notes these from now on. */
void signals_watch(unsigned which, enum signals_manner manner);
void signals_ignore(unsigned which);

/* Those that came and were not taken. */
unsigned signals_seen(void);
/* The same, and forgets them: the descriptor is readable no more. */
unsigned signals_take(void);
/* Readable while there are some. -1, which poll passes over: none was ever watched. */
int signals_fd(void);
/* The number of one of them, of the lowest in which; 0: which is empty. */
int signals_number(unsigned which);

/* Ends the process by the signal that came first, so that a shell's loop ends with it; returns when
 * none came. */
void signals_end(void);
/* Those that we ignore and a child of ours must not. */
void signals_of_child(sigset_t *out);

#endif
