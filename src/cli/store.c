/* store.c - checks a store that no server has open: the log, the index, and the rows of pages.
 * Invariant: nothing is written. */
#include "cli/store.h"
#include "bucket/pages.h"
#include "change/change.h"
#include "cli/cli.h"
#include "engine/store.h"
#include "event/log.h"
#include "loop/sysclock.h"
#include "queue/store/open.h"

struct checking {
    struct store_check *out;
    struct out_progress progress;
    struct sysclock *sysclock;
    struct clock *clock;
};

static void on_found(void *ctx, const char *what)
{
    struct checking *c = ctx;
    if (c->out->damages++ < STORE_FOUND_MAX)
        json_array_append_new(c->out->found, json_string(what));
}

static void on_progress(void *ctx, uint64_t done, uint64_t total)
{
    struct checking *c = ctx;
    out_progress_step(&c->progress, done, total, clock_mono(c->clock));
}

/* With the policies that the store knows itself; no bucket is opened, so nothing is written. */
static err check_pages(struct engine *engine, struct checking *c)
{
    struct pages *pages = NULL;
    const struct pages_opts opts = { .engine = engine, .clock = c->clock };
    err e = pages_new(&opts, &pages, &c->out->note);
    if (e != ERR_OK) {
        on_found(c, "the catalog of buckets cannot be read: damaged, or of another version");
        return ERR_CORRUPT;
    }
    e = page_store_check(pages_store(pages), on_found, c);
    pages_free(&pages);
    return e;
}

static err check_engine(const char *dir, struct checking *c)
{
    struct engine *engine = NULL;
    store_time greatest;
    struct engine_opts opts = { .dir = dir, .read_only = true, .despite_damage = true };
    err e = engine_open(&opts, &engine, &greatest, &c->out->note);
    if (e != ERR_OK)
        return e;
    if (c->out->note.text[0] != '\0')
        on_found(c, c->out->note.text);
    struct engine_check_opts check = { .found = on_found, .progress = on_progress, .ctx = c };
    e = engine_check(engine, &check);
    if (e == ERR_OK) { /* page rows say nothing while records below them are damaged */
        sysclock_start(c->sysclock, greatest);
        e = check_pages(engine, c);
        err queues = queue_local_check(engine, on_found, c);
        err events = event_log_check(engine, on_found, c);
        err changes = change_check(engine, on_found, c);
        e = e == ERR_OK ? queues : e;
        e = e == ERR_OK ? events : e;
        e = e == ERR_OK ? changes : e;
    }
    if (e != ERR_OK && e != ERR_CORRUPT)
        err_note_set(&c->out->note, "cannot read all of %s: %s", dir, err_name(e));
    engine_close(&engine);
    return e == ERR_OK && c->out->damages > 0 ? ERR_CORRUPT : e;
}

err store_check(const char *dir, bool progress, struct store_check *out)
{
    *out = (struct store_check){ .found = json_array() };
    INVARIANT(out->found != NULL);
    struct checking c = { .out = out, .sysclock = sysclock_new() };
    c.clock = sysclock_clock(c.sysclock);
    out_progress_begin(&c.progress, "checking", NULL, clock_mono(c.clock));
    c.progress.shown = c.progress.shown && progress;
    err e = check_engine(dir, &c);
    out_progress_end(&c.progress);
    sysclock_free(&c.sysclock);
    return e;
}

enum cli_exit store_exit(err why)
{
    if (why == ERR_OK)
        return CLI_OK;
    return why == ERR_CORRUPT || why == ERR_BAD ? CLI_DAMAGED : CLI_FAILED;
}

void store_tell_rest(const json_t *answer)
{
    const json_t *rest = json_object_get(answer, "not_covered");
    size_t i;
    json_t *item;
    if (json_array_size(rest) == 0)
        return;
    fputs("not covered:", stdout);
    json_array_foreach(rest, i, item)
    {
        printf("%s %s", i == 0 ? "" : ",", json_string_value(item));
    }
    puts(" (store.kind is cassandra: nodetool repair, nodetool snapshot)");
}
