/* crew.h - threads that run tasks which take a while: a home for work that must not hold up the
 * threads that serve sockets.
 *
 * A crew is two homes. Each runs its tasks in order of posting, several at once. A thread that is
 * free takes from the first home before it takes from the common one. After CREW_FIRST_MAX tasks of
 * the first in a row it takes one of the common home, if any waits: so none waits for ever. Unlike
 * loop_pool, a post goes straight to a thread, and nobody else's blocking jobs stand before it. */
#ifndef LOOP_CREW_H
#define LOOP_CREW_H

#include "base/check.h"
#include "base/home.h"

struct crew;
enum { CREW_FIRST_MAX = 8 };

/* name: of the threads, at most 15 bytes with their number. NULL: the system gives no thread. */
MUST_CHECK struct crew *crew_new(unsigned threads, const char *name);
/* Runs what was posted, then ends. Nobody posts any more but those tasks themselves. */
void crew_free(struct crew **cp);
/* The common home, and the first; both live as long as the crew. */
struct home *crew_home(struct crew *c);
struct home *crew_home_first(struct crew *c);

#endif
