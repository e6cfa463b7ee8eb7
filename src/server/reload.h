/* reload.h - a SIGHUP: the options are read anew, and a running server takes over what it can; all
 * of it, or nothing when anything in them is wrong or the store refuses. Private to server.
 *
 * What is taken over is the rows with OPTION_ON_RELOAD (options_table.h), and rules. Other policies
 * of pages are recorded by the store first, which blocks: a job. One reload is under way at a time;
 * a signal that comes meanwhile is heard when it is over. Thread: the loop's. */
#ifndef SERVER_RELOAD_H
#define SERVER_RELOAD_H

#include "server/options.h"

struct reload;
struct server;

struct reload_opts {
    struct server *server;
    struct options *options;     /* those of the server */
    struct options_sources from; /* as at the start; .unknown: told nothing */
};
/* Owner: caller. */
struct reload *reload_new(const struct reload_opts *opts);
void reload_now(struct reload *r);
/* None begins any more, and one that waits for the store is refused soon. */
void reload_stop(struct reload *r);
bool reload_busy(const struct reload *r);
/* It is not busy, or the loop has stopped and runs no more jobs. */
void reload_free(struct reload **rp);

#endif
