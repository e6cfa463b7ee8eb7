/* serve.c - states: SERVING -> DRAINING -> REFUSING -> over. Invariants: 1. draining begins once.
 * 2. refusing begins when every request read before the signal is answered and no upkeep job is in
 * the air. 3. the loop stops when the answers that were on their way then are out, or at the drain
 * deadline. */
#include "server/serve.h"

#include "change/change.h"
#include "engine/engine.h"
#include "loop/loop.h"
#include "loop/signals.h"
#include "queue/queue.h"
#include "server/boot.h"
#include "server/inherit.h"
#include "server/options.h"
#include "server/origins.h"
#include "server/reload.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One calm look is not enough: a handler that began just before the drain may be about to defer. */
enum { SWEEP_MS = 250, DRAIN_POLL_MS = 5, CALM_POLLS = 2 };

struct serve {
    struct server server;
    struct options *options;
    struct inherited inherited;
    int argc;
    char **argv;
    char *const *envp;
    struct reload *reload;
    struct loop_timer *sweep, *tick, *drain;
    bool draining, refusing, cut;
    unsigned calm;
    mono drain_deadline;
};

static void warn_unknown(void *ctx, const char *variable)
{
    (void)ctx; /* there is no log yet */
    str name = str_of(variable);
    name = str_split(&name, '=');
    (void)fprintf(stderr, "palimpsest: environment: %.*s: there is no such option; ignored\n",
                  STR_ARG(name));
}

static void warn_gone(void *ctx, const char *name)
{
    (void)ctx;
    (void)fprintf(stderr, "palimpsest: %s does nothing any more; the next release refuses it\n",
                  name);
}

static void say_line(void *ctx, const char *line)
{
    (void)ctx;
    (void)fprintf(stderr, "palimpsest: %s\n", line);
}

/* ---- signals ---- */

/* New requests had answers until now: those that are on their way go out whole. */
static void begin_refusing(struct serve *v)
{
    http_server_refuse(v->server.app.http);
    v->refusing = true;
    v->calm = 0;
}

static void drain_cut(struct serve *v)
{
    begin_refusing(v); /* again, maybe: what is cut counts whenever it began */
    log_event(v->server.app.log, LOG_WARN, "serve.drain_cut",
              LOG_INT("requests", http_server_owed_requests(v->server.app.http)),
              LOG_CSTR("what",
                       "drain_timeout is over, or a second signal came: these are cut off"));
    v->cut = true;
    loop_stop(v->server.app.loop);
}

static void drain_fired(void *ctx)
{
    struct serve *v = ctx;
    bool calm = http_server_owed_requests(v->server.app.http) == 0 &&
                !upkeep_busy(v->server.upkeep) && !reload_busy(v->reload) &&
                origins_idle(&v->server.app) && queues_idle(v->server.app.queues) &&
                change_idle(v->server.app.change);
    v->calm = calm ? v->calm + 1 : 0;
    if (v->calm >= CALM_POLLS && v->refusing)
        loop_stop(v->server.app.loop);
    else if (v->calm >= CALM_POLLS)
        begin_refusing(v);
    else if (clock_mono(v->server.app.clock).ns >= v->drain_deadline.ns)
        drain_cut(v);
}

static void begin_draining(struct serve *v, int signal_number)
{
    struct server *s = &v->server;
    v->draining = true;
    log_event(s->app.log, LOG_INFO, "serve.drain", LOG_INT("signal", signal_number),
              LOG_INT("requests", http_server_open_requests(s->app.http)));
    v->drain_deadline = mono_add_ms(clock_mono(s->app.clock), s->config->drain_timeout_ms);
    reload_stop(v->reload);
    upkeep_stop(s->upkeep);
    http_server_drain(s->app.http);
    queues_drain(s->app.queues);
    change_drain(s->app.change);
    origins_drain(&s->app);
    loop_timer_start(v->drain, 0, DRAIN_POLL_MS);
}

static void signalled(void *ctx, int signal_number)
{
    struct serve *v = ctx;
    if (signal_number == SIGHUP)
        reload_now(v->reload);
    else if (v->draining) /* asked twice: no more patience */
        v->drain_deadline = clock_mono(v->server.app.clock);
    else
        begin_draining(v, signal_number);
}

/* ---- timers ---- */

static void sweep_fired(void *ctx)
{
    struct serve *v = ctx;
    http_server_sweep(v->server.app.http);
}

static void tick_fired(void *ctx)
{
    struct serve *v = ctx;
    timekeep_tick(&v->server.timekeep);
    if (v->server.lost && !v->draining) {
        log_note(v->server.app.log, LOG_ERROR, "serve.lost");
        begin_draining(v, 0);
    }
}

static void timers_new(struct serve *v)
{
    struct loop *l = v->server.app.loop;
    v->sweep = loop_timer_new(l, sweep_fired, v);
    v->tick = loop_timer_new(l, tick_fired, v);
    v->drain = loop_timer_new(l, drain_fired, v);
    loop_timer_start(v->sweep, SWEEP_MS, SWEEP_MS);
    loop_timer_start(v->tick, 0, TIMEKEEP_TICK_MS);
}

static void timers_free(struct serve *v)
{
    loop_timer_free(&v->sweep);
    loop_timer_free(&v->tick);
    loop_timer_free(&v->drain);
}

/* ---- life ---- */

/* The main listener first, then others, those with names, the admin one, the one for PURGE: so they
 * stand in the config. */
static void announce(const struct server *s)
{
    for (unsigned i = 0; i < s->config->listens_count; i++) {
        const struct http_listen *l = &s->config->listens[i];
        bool v6 = strchr(l->address, ':') != NULL;
        const char *what = l->name != NULL ? l->name
                           : l->content    ? "listening"
                           : l->purge      ? "purge"
                                           : "admin";
        if (http_listen_path(l->address) != NULL)
            (void)printf("%s on %s\n", what, l->address);
        else
            (void)printf("%s on http://%s%s%s:%u\n", what, v6 ? "[" : "", l->address, v6 ? "]" : "",
                         http_server_port(s->app.http, i));
    }
    (void)fflush(stdout); /* who closed stdout does not want the line */
    log_event(s->app.log, LOG_INFO, "serve.ready", LOG_CSTR("data", s->config->data_dir),
              LOG_INT("domains", s->config->domains_count),
              LOG_INT("port", http_server_port(s->app.http, 0)));
    if (s->config->test_hooks)
        log_event(s->app.log, LOG_WARN, "serve.test_hooks",
                  LOG_CSTR("what", "anybody on this machine may move the clock of this store"));
}

static int server_serve_run(struct serve *v, const struct config *config)
{
    enum server_exit status = SERVER_FAILED;
    struct err_note note;
    if (server_boot(&v->server, config, &status, &note) != ERR_OK) {
        (void)fprintf(stderr, "palimpsest: %s\n", note.text);
        return (int)status;
    }
    timers_new(v);
    v->reload = reload_new(&(struct reload_opts){
        .server = &v->server,
        .options = v->options,
        .from = { .argc = v->argc, .argv = v->argv, .envp = v->envp, .inherited = &v->inherited },
    });
    loop_signals(v->server.app.loop, signalled, v);
    upkeep_begin(v->server.upkeep);
    announce(&v->server);
    loop_run(v->server.app.loop);
    if (v->cut) {
        /* Somebody still waits, so memory in use cannot be taken down; what was acknowledged is on
         * disk. */
        http_server_unlink(v->server.app.http);
        (void)fflush(NULL);
        _exit(v->server.lost ? SERVER_FAILED : SERVER_FINE);
    }
    status = v->server.lost ? SERVER_FAILED : SERVER_FINE;
    log_note(v->server.app.log, LOG_INFO, "serve.stop");
    timers_free(v);
    server_unboot(&v->server);
    reload_free(&v->reload);
    return (int)status;
}

/* What is freed of a body, or of a large answer, goes back to the machine at once: the library
 * would raise its threshold to the largest that was freed, and from then on keep such memory in
 * the heaps of its threads, where nobody counts it. Growing such a body moves pages, not bytes. */
static void malloc_gives_back(void)
{
    enum { MALLOC_MAPPED_BYTES = 256 << 10, MALLOC_KEPT_BYTES = 2 * MALLOC_MAPPED_BYTES };
    (void)mallopt(M_MMAP_THRESHOLD, MALLOC_MAPPED_BYTES); /* a sanitizer's malloc takes none */
    (void)mallopt(M_TRIM_THRESHOLD, MALLOC_KEPT_BYTES);
}

int serve_main(int argc, char **argv, char *const *envp)
{
    struct serve *v = calloc(1, sizeof *v);
    INVARIANT(v != NULL);
    v->options = options_new();
    v->argc = argc;
    v->argv = argv;
    v->envp = envp;
    int status = SERVER_USAGE;
    struct err_note note = { .text = "" };
    malloc_gives_back();
    signals_ignore(SIGNALS_PIPE);
    signals_watch(SIGNALS_HUP, SIGNALS_EACH); /* heard once the loop runs */
    struct options_sources from = { argc, argv, envp, .unknown = warn_unknown,
                                    .inherited = &v->inherited };
    if (inherit_take(&v->inherited, &note) == ERR_OK &&
        options_load(v->options, &from, &note) == ERR_OK) {
        options_gone(v->options, warn_gone, NULL);
        options_doubts(v->options, say_line, NULL);
        status = server_serve_run(v, options_config(v->options));
    } else {
        options_faults(v->options, &note, say_line, NULL);
    }
    options_free(&v->options);
    free(v);
    return status;
}
