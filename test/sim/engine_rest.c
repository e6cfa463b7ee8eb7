/* What the local store asks of an engine beyond engine_mem.c: in a simulation the engine is there and never fails. */
#include "engine/engine.h"

err engine_open(const struct engine_opts *opts, struct engine **out, store_time *greatest, struct err_note *note)
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

struct answer {
    struct engine_update update;
    void *ctx;
    err (*decide)(struct engine_txn *t, void *ctx);
    bool done;
    err why;
};

static err decide(struct engine_txn *t, void *ctx)
{
    struct answer *a = ctx;
    return a->decide(t, a->ctx);
}

static void done(void *ctx, err why)
{
    struct answer *a = ctx;
    a->done = true;
    a->why = why;
}

/* Updates in memory are over when submit returns. */
err engine_submit_wait(struct engine *e, const struct engine_update *u)
{
    struct answer a = { .update = *u, .ctx = u->ctx, .decide = u->decide };
    a.update.decide = decide;
    a.update.done = done;
    a.update.ctx = &a;
    a.update.deadline = (mono){ .ns = INT64_MAX };
    engine_submit(e, &a.update);
    INVARIANT(a.done);
    return a.why;
}
