/* offline.c - opens the store of a folder for a tool, without a server. Invariant: the folder's
 * lock is held until offline_close, so no server runs on it meanwhile. */
#include "server/offline.h"

#include "base/disk.h"
#include "base/units.h"
#include "engine/store.h"
#include "loop/sysclock.h"
#include "server/options_table.h"

#include <sys/stat.h>

/* What clock.leap_max is when nobody says. */
static int64_t leap_ns_max(void)
{
    int64_t ns = 0;
    INVARIANT(units_parse_duration(STR(OPTION_LEAP_MAX_INITIAL), &ns));
    return ns;
}

enum server_exit server_exit_of(err why)
{
    return why == ERR_CORRUPT || why == ERR_BAD ? SERVER_DAMAGED : SERVER_FAILED;
}

err offline_open(struct offline *f, const char *dir, enum server_exit *status,
                 struct err_note *note)
{
    *f = (struct offline){ .sysclock = sysclock_new() };
    f->clock = sysclock_clock(f->sysclock);
    sysclock_believe(f->sysclock, leap_ns_max());
    (void)umask(0077); /* returns the old one; it never fails */
    struct engine_opts opts = { .dir = dir };
    store_time greatest = STORE_TIME_ZERO;
    err why = engine_open(&opts, &f->engine, &greatest, note);
    if (why == ERR_OK) {
        sysclock_start(f->sysclock, greatest);
        f->leap = sysclock_tick(f->sysclock).verdict == SYSCLOCK_LEAP;
        why = engine_start(f->engine, f->clock, note);
    }
    disk_note_full(note, why, dir);
    if (why != ERR_OK) {
        *status = server_exit_of(why);
        offline_close(f);
    }
    return why;
}

void offline_close(struct offline *f)
{
    engine_close(&f->engine);
    sysclock_free(&f->sysclock);
}
