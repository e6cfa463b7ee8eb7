#include "server/offline.h"

#include "engine/engine.h"
#include "loop/sysclock.h"

#include <sys/stat.h>

/* As clock.leap_max unless it is told otherwise. */
#define OFFLINE_LEAP_NS_MAX (INT64_C(1826) * 24 * 3600 * NS_PER_S)

enum server_exit server_exit_of(err why)
{
    return why == ERR_CORRUPT || why == ERR_BAD ? SERVER_DAMAGED : SERVER_FAILED;
}

err offline_open(struct offline *f, const char *dir, enum server_exit *status, struct err_note *note)
{
    *f = (struct offline){ .sysclock = sysclock_new() };
    f->clock = sysclock_clock(f->sysclock);
    sysclock_believe(f->sysclock, OFFLINE_LEAP_NS_MAX);
    (void)umask(0077); /* returns the old one; it never fails */
    struct engine_opts opts = { .dir = dir };
    store_time greatest = STORE_TIME_ZERO;
    err why = engine_open(&opts, &f->engine, &greatest, note);
    if (why == ERR_OK) {
        sysclock_start(f->sysclock, greatest);
        why = engine_start(f->engine, f->clock, note);
    }
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
