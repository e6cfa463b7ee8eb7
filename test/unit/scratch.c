#include "../unit/scratch.h"

#include "../unit/cmocka_all.h"
#include "engine/store.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void scratch_make(struct scratch *s)
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(s->dir, sizeof s->dir, "%.40s/unit-XXXXXX", base == NULL ? "/tmp" : base);
    INVARIANT(mkdtemp(s->dir) != NULL);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

void scratch_remove(struct scratch *s)
{
    enum { FDS_MAX = 16 };
    (void)nftw(s->dir, remove_one, FDS_MAX,
               FTW_DEPTH | FTW_PHYS); /* what stays is in the temporary directory */
}

static store_time still_store(struct clock *c)
{
    return (store_time){ .ns = CONTAINER_OF(c, struct still_clock, clock)->ns };
}

static mono still_mono(struct clock *c)
{
    struct timespec now;
    (void)c;
    INVARIANT(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (mono){ .ns = now.tv_sec * NS_PER_S + now.tv_nsec };
}

static wall still_wall(struct clock *c)
{
    return (wall){ .ns = CONTAINER_OF(c, struct still_clock, clock)->ns };
}

void still_clock_init(struct still_clock *c, int64_t ns)
{
    *c = (struct still_clock){
        .clock = { .store_now = still_store, .mono_now = still_mono, .wall_now = still_wall },
        .ns = ns
    };
}

struct engine *scratch_engine(const struct scratch *s, struct clock *clock)
{
    struct engine *e = NULL;
    struct err_note note = { "" };
    store_time greatest;
    struct engine_opts opts = { .dir = s->dir, .map_bytes = 1u << 30, .segment_bytes = 8u << 20 };
    err why = engine_open(&opts, &e, &greatest, &note);
    if (why == ERR_OK)
        why = engine_start(e, clock, &note);
    if (why != ERR_OK)
        fail_msg("engine: %s", note.text);
    return e;
}
