#include "../unit/scratch.h"

#include "../unit/cmocka_all.h"
#include "engine/store.h"

struct engine *scratch_engine(const char *dir, struct clock *clock)
{
    struct engine *e = NULL;
    struct err_note note = { "" };
    store_time greatest;
    struct engine_opts opts = { .dir = dir, .map_bytes = 1u << 30, .segment_bytes = 8u << 20 };
    err why = engine_open(&opts, &e, &greatest, &note);
    if (why == ERR_OK)
        why = engine_start(e, clock, &note);
    if (why != ERR_OK)
        fail_msg("engine: %s", note.text);
    return e;
}
