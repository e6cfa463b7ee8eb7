#include "engine/store.h"
#include "store.h"

#include <stdio.h>
#include <stdlib.h>

const bool model_store_survives = true;

void model_store_open(struct model_store *s, struct clock *clock)
{
    const struct engine_opts opts = { .dir = s->dir,
                                      .segment_bytes = 1u << 20,
                                      .map_bytes = 1u << 28 };
    struct err_note note = { "" };
    store_time greatest;
    err e = engine_open(&opts, &s->engine, &greatest, &note);
    if (e == ERR_OK)
        e = engine_start(s->engine, clock, &note);
    if (e == ERR_OK && greatest.ns <= clock_store(clock).ns)
        return;
    (void)fprintf(stderr, "cannot open %s: %s %s\n", s->dir, err_name(e), note.text);
    abort();
}

void model_store_close(struct model_store *s, bool last)
{
    (void)last; /* what is on disk is the caller's */
    engine_close(&s->engine);
}
