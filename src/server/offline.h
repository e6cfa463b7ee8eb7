/* offline.h - the store of a directory without a server: for tools that run while no server
 * does. */
#ifndef SERVER_OFFLINE_H
#define SERVER_OFFLINE_H

#include "base/err.h"
#include "base/times.h"

/* Exit statuses of the program (docs/operations.md). */
enum server_exit { SERVER_FINE = 0, SERVER_FAILED = 1, SERVER_USAGE = 2, SERVER_DAMAGED = 3 };
/* With what to exit when a store does not open. */
enum server_exit server_exit_of(err why);

struct engine;
struct sysclock;
struct offline {
    struct sysclock *sysclock;
    struct clock *clock;
    struct engine *engine; /* started: may be written */
    bool leap; /* the machine's clock is ahead of what is stored by more than the default of
                  clock.leap_max, which alone counts here: it is not followed */
};
/* Makes the store when it is missing. Fails as engine_open does (ERR_CONFLICT: a server has it),
 * with a note and *status. Owner: caller, by offline_close; nothing is open after a failure. */
MUST_CHECK err offline_open(struct offline *f, const char *dir, enum server_exit *status,
                            struct err_note *note);
void offline_close(struct offline *f);

#endif
