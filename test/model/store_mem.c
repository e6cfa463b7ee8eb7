#include "store.h"

#include "engine/store.h"
#include "engine_mem.h"

const bool model_store_survives = false;

void model_store_open(struct model_store *s, struct clock *clock)
{
    if (s->engine == NULL)
        s->engine = engine_mem_new(clock);
}

void model_store_close(struct model_store *s, bool last)
{
    if (last)
        engine_close(&s->engine);
}
