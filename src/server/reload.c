/* reload.c - see reload.h.
 *
 *   READ --faults--> refused
 *     |--no other policies--> TAKEN
 *     \--RECORDED by the store (pool)--> TAKEN, or refused
 *
 * Invariant: until the store has recorded what it has to, nothing of the server has changed. */
#include "server/reload.h"

#include "base/log.h"
#include "loop/loop.h"
#include "server/boot.h"
#include "server/settings.h"

#include <stdlib.h>

struct reload {
    struct reload_opts opts;
    struct options *fresh; /* of the one that is under way */
    struct pages_policy policies[CONFIG_BUCKETS_MAX + 1];
    unsigned policies_count;
    struct loop_job job;
    err why; /* the job's, with note */
    struct err_note note;
    bool busy, again, stopped;
    atomic_bool stop;        /* for the job */
    unsigned taken, waiting; /* of one take-over */
};

static struct log *log_of(const struct reload *r)
{
    return r->opts.server->app.log;
}

static void say_refused(void *ctx, const char *line)
{
    log_event(log_of(ctx), LOG_ERROR, "reload.refused", LOG_CSTR("why", line));
}

static void say_doubt(void *ctx, const char *line)
{
    log_event(log_of(ctx), LOG_WARN, "reload.doubt", LOG_CSTR("what", line));
}

static void say_changed(void *ctx, const char *name, const char *how, bool taken)
{
    struct reload *r = ctx;
    r->taken += taken ? 1 : 0;
    r->waiting += taken ? 0 : 1;
    if (taken && how != NULL)
        log_event(log_of(r), LOG_INFO, "reload.changed", LOG_CSTR("option", name),
                  LOG_CSTR("how", how));
    else if (taken)
        log_event(log_of(r), LOG_INFO, "reload.changed", LOG_CSTR("option", name));
    else
        log_event(log_of(r), LOG_WARN, "reload.needs_restart", LOG_CSTR("option", name));
}

static void reload_take(struct reload *r)
{
    r->taken = r->waiting = 0;
    options_doubts(r->fresh, say_doubt, r);
    options_take_over(r->opts.options, r->fresh, say_changed, r);
    server_reloaded(r->opts.server);
    log_event(log_of(r), LOG_INFO, "reload.done", LOG_INT("changed", r->taken),
              LOG_INT("needs_restart", r->waiting));
}

/* ---- the store ---- */

static void record_run(struct loop_job *j)
{
    struct reload *r = CONTAINER_OF(j, struct reload, job);
    r->why =
        pages_policies(r->opts.server->pages, r->policies, r->policies_count, &r->stop, &r->note);
}

static void record_done(struct loop_job *j, bool canceled)
{
    struct reload *r = CONTAINER_OF(j, struct reload, job);
    r->busy = false;
    if (!canceled && r->why == ERR_OK)
        reload_take(r);
    else
        say_refused(r, canceled ? "the server ends" : r->note.text);
    options_free(&r->fresh);
    if (r->again)
        reload_now(r);
}

/* ---- one signal ---- */

void reload_now(struct reload *r)
{
    struct err_note note = { .text = "" };
    if (r->stopped)
        return;
    r->again = r->busy;
    if (r->busy)
        return;
    r->fresh = options_new();
    if (options_load(r->fresh, &r->opts.from, &note) != ERR_OK) {
        options_faults(r->fresh, &note, say_refused, r);
        options_free(&r->fresh);
        return;
    }
    r->policies_count =
        settings_policies(options_config(r->opts.options), options_config(r->fresh), r->policies);
    if (r->policies_count == 0) {
        reload_take(r);
        options_free(&r->fresh);
        return;
    }
    if (options_config(r->fresh)->pages == PAGES_CASSANDRA) {
        say_refused(r, "policies of a store that servers share do not change by a reload");
        options_free(&r->fresh);
        return;
    }
    r->busy = true; /* fresh has what policies point to */
    loop_job_start(r->opts.server->app.loop, &r->job);
}

struct reload *reload_new(const struct reload_opts *opts)
{
    struct reload *r = calloc(1, sizeof *r);
    INVARIANT(r != NULL);
    r->opts = *opts;
    r->job = (struct loop_job){ .run = record_run, .done = record_done };
    return r;
}

void reload_stop(struct reload *r)
{
    r->stopped = true;
    r->again = false;
    atomic_store(&r->stop, true);
}

bool reload_busy(const struct reload *r)
{
    return r->busy;
}

void reload_free(struct reload **rp)
{
    struct reload *r = *rp;
    if (r == NULL)
        return;
    options_free(&r->fresh);
    free(r);
    *rp = NULL;
}
