/* runs.c - what runs for a rule now, as others ask about it. Under the lock of struct change. */
#include "change/change_impl.h"

struct runs_asked {
    uint64_t id;                    /* is it there? */
    const struct change_target *at; /* how many are there? */
    uint64_t *ids;                  /* which are there? NULL: nobody asks */
    unsigned count;
};

static void runs_look(void *ctx, uint64_t id, const struct change_target *at)
{
    struct runs_asked *a = ctx;
    if (a->ids != NULL)
        *a->ids++ = id;
    a->count += a->ids != NULL || (a->at != NULL && a->at == at) || (a->id != 0 && a->id == id);
}

bool change_run_is_of(const struct change_runner *r, uint64_t id)
{
    struct runs_asked a = { .id = id };
    change_runs_look(r, runs_look, &a);
    return a.count > 0;
}

void change_runs_ids(const struct change_runner *r, uint64_t *ids)
{
    struct runs_asked a = { .ids = ids };
    change_runs_look(r, runs_look, &a);
}

unsigned change_runs_at(const struct change_runner *r, const struct change_target *t)
{
    struct runs_asked a = { .at = t };
    change_runs_look(r, runs_look, &a);
    return a.count;
}
