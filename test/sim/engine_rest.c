/* What the local store asks of an engine beyond engine_mem.c: in a simulation the engine is there
 * and never fails. */
#include "engine/store.h"

err engine_open(const struct engine_opts *opts, struct engine **out, store_time *greatest,
                struct err_note *note)
{
    (void)opts, (void)out, (void)greatest, (void)note;
    check_failed(__FILE__, __LINE__, "an engine is given");
}

err engine_start(struct engine *e, struct clock *clock, struct err_note *note)
{
    (void)e, (void)clock, (void)note;
    check_failed(__FILE__, __LINE__, "an engine is given");
}

void engine_on_failure(struct engine *e, void (*failed)(void *ctx, const char *what), void *ctx)
{
    (void)e, (void)failed, (void)ctx;
}

err engine_reclaim(struct engine *e, bool *more)
{
    (void)e;
    *more = false;
    return ERR_OK;
}
