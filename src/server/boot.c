/* boot.c - starts the parts of a server in their order, and ends them in the reverse order.
 *
 * Order: clock, log, metrics, engine, loop, buckets, tables, events, authority, origins, handlers,
 * upkeep, listeners. The store is open before anything listens; one in Cassandra may open later. */
#include "server/boot.h"

#include "app/change/streams.h"
#include "auth/auth.h"
#include "base/disk.h"
#include "bucket/pages.h"
#include "change/change.h"
#include "engine/store.h"
#include "event/log.h"
#include "flight/shared.h"
#include "loop/entropy.h"
#include "loop/loop.h"
#include "loop/machine.h"
#include "loop/sysclock.h"
#include "page/changes.h"
#include "page/stash.h"
#include "queue/queue.h"
#include "rule/rule.h"
#include "server/buckets.h"
#include "server/options.h"
#include "server/origins.h"
#include "server/settings.h"
#include "table/tables.h"
#include "timeline/remote.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_BESIDE_CONNECTIONS = 512 }; /* segments, index, pipes, logs; not those to origins */

/* ---- the parts, in order; each may fail with *status set ---- */

static void open_clock(struct server *s)
{
    s->app.sysclock = sysclock_new();
    s->app.clock = sysclock_clock(s->app.sysclock);
    s->app.log = log_new(STDERR_FILENO, s->config->log_level, s->config->log_format, s->app.clock);
    s->app.metrics = metrics_new("palimpsest_");
    timekeep_init(&s->timekeep, s->app.sysclock, s->app.log, s->app.metrics);
    sysclock_believe(s->app.sysclock, s->config->leap_ns_max);
    struct err_note note;
    /* The first freeze may name any instant. */
    if (s->config->test_frozen)
        INVARIANT(sysclock_freeze(s->app.sysclock, s->config->test_instant, &note) == ERR_OK);
}

/* A store that cannot write can promise nothing any more: the process ends, the next start
 * replays. */
static void engine_failed(void *ctx, const char *what)
{
    struct server *s = ctx;
    log_event(
        s->app.log, LOG_ERROR, "store.failed", LOG_CSTR("what", what),
        LOG_CSTR(
            "then",
            "the server ends; start it when the disk is well: what was acknowledged is there"));
    _exit(SERVER_FAILED);
}

static err open_engine(struct server *s, enum server_exit *status, struct err_note *note)
{
    struct engine_opts opts = { .dir = s->config->data_dir,
                                .segment_bytes = s->config->segment_bytes,
                                .free_bytes_min = s->config->free_bytes_min };
    store_time greatest = STORE_TIME_ZERO;
    err why = engine_open(&opts, &s->app.engine, &greatest, note);
    if (why != ERR_OK) {
        *status = server_exit_of(why);
        return why;
    }
    sysclock_start(s->app.sysclock, greatest);
    engine_on_failure(s->app.engine, engine_failed, s);
    why = engine_start(s->app.engine, s->app.clock, note);
    *status = server_exit_of(why);
    struct engine_stats stats;
    engine_stats_get(s->app.engine, &stats);
    if (stats.map_bytes < ENGINE_MAP_BYTES)
        log_event(s->app.log, LOG_WARN, "store.map_cut", LOG_INT("wanted", ENGINE_MAP_BYTES),
                  LOG_INT("now", stats.map_bytes),
                  LOG_CSTR("what", "there is less address space than the index may need: a limit "
                                   "of the process (ulimit -v), or of the machine"));
    return why;
}

/* What of the page service is there before the loop; the rest comes with origins and app_start. */
static void open_service(struct server *s)
{
    const struct config *c = s->config;
    struct page_service *page = &s->app.page;
    settings_renew(&s->settings, page, c);
    page->clock = s->app.clock;
    page->began = clock_store(s->app.clock);
    page->log = s->app.log;
    page->budget = s->app.budget;
    page->arena_bytes_max = c->http.arena_bytes_max;
    page->write_timeout_ms = c->write_timeout_ms;
    page->shared_store = c->pages != PAGES_EMBEDDED;
    page->hot_ttl_ns = c->hot_ttl_ns;
}

/* With Cassandra no bucket is of the engine. */
static err open_pages(struct server *s, enum server_exit *status, struct err_note *note)
{
    struct server_buckets b;
    bool embedded = s->config->pages == PAGES_EMBEDDED;
    server_buckets_take(&b, s->config);
    const struct pages_opts opts = { s->app.engine, s->app.clock, entropy_u64(), b.of,
                                     embedded ? b.pages : 0 };
    err why = pages_new(&opts, &s->pages, note);
    *status = server_exit_of(why);
    if (why == ERR_OK) {
        s->app.page.store = pages_store(s->pages);
        pages_read_on(s->pages, loop_pool(s->app.loop));
    }
    if (why == ERR_OK && !embedded)
        why = server_open_store(s, status, note);
    if (why == ERR_OK)
        open_service(s);
    return why;
}

static err open_tables(struct server *s, enum server_exit *status, struct err_note *note)
{
    err why = tables_new(s->app.engine, s->app.clock, &s->tables, note);
    if (why == ERR_OK) {
        s->app.tables = server_shared_tables(s);
        if (s->app.tables == NULL)
            s->app.tables = tables_store(s->tables);
        tables_read_on(s->tables, loop_pool(s->app.loop));
    }
    *status = server_exit_of(why);
    return why;
}

/* What the store tells of itself: what somebody may follow, and what a rule may want. */
static unsigned streams_wanted(const struct config *c)
{
    unsigned streams = c->change.streams;
    for (unsigned s = 0; s < PAGE_STREAMS; s++)
        if (rule_set_may_want(c->change.rules, str_of(page_stream_name((enum page_stream)s))))
            streams |= BIT(s);
    return streams;
}

static struct event_limits event_limits_of(const struct config *c)
{
    return (struct event_limits){ .retention_ns = c->change.retention_ns,
                                  .bytes_max = c->change.bytes_max,
                                  .dedupe_ns = c->change.dedupe_window_ns,
                                  .ids_max = c->change.dedupe_ids_max };
}

static err open_events(struct server *s, enum server_exit *status, struct err_note *note)
{
    const struct event_log_opts opts = { .engine = s->app.engine,
                                         .clock = s->app.clock,
                                         .random = entropy_u64(),
                                         .limits = event_limits_of(s->config) };
    err why = event_log_new(&opts, &s->app.events, note);
    if (why == ERR_OK)
        why = pages_append_to(s->pages, s->app.events, streams_wanted(s->config), entropy_u64());
    *status = server_exit_of(why);
    return why;
}

/* Buckets of values; after the domains. */
static void open_values(struct server *s)
{
    const struct config *c = s->config;
    for (unsigned i = 0; i < c->values_count; i++) {
        const struct config_bucket *b = &c->values[i];
        s->values[i] =
            (struct value_settings){ .kind = b->kind == KIND_KEY_VALUE ? VALUE_PLAIN : VALUE_REVS,
                                     .name = str_of(b->page.name),
                                     .ttl_ns = b->value_ttl_ns,
                                     .policy = &b->page.policy };
    }
    s->app.values = (struct value_service){ .store = s->app.tables,
                                            .clock = s->app.clock,
                                            .buckets = s->values,
                                            .buckets_count = c->values_count,
                                            .domains_count = s->app.page.domains_count };
    value_service_init(&s->app.values);
}

static int by_name(const void *a, const void *b)
{
    const struct page_domain *x = a, *y = b;
    return str_cmp(x->name, y->name);
}

static err open_domains(struct server *s, enum server_exit *status, struct err_note *note)
{
    unsigned count = s->config->domains_count;
    struct page_domain *domains = calloc(count, sizeof *domains);
    INVARIANT(domains != NULL);
    s->app.page.domains = s->domains = domains;
    for (unsigned i = 0; i < count; i++) {
        domains[i].name = str_of(s->config->domains[i].name);
        domains[i].place =
            (struct wiki_place){ .hosts = str_of(s->config->domains[i].hosts),
                                 .article_path = str_of(s->config->domains[i].article_path) };
        domains[i].forward_cookies = s->config->domains[i].forward_cookies;
        err why = page_store_domain(s->app.page.store, domains[i].name, &domains[i].number);
        if (why != ERR_OK) {
            err_note_set(note, "domain %s has no place in the store: %s",
                         s->config->domains[i].name, err_name(why));
            *status = server_exit_of(why);
            return why;
        }
    }
    qsort(domains, count, sizeof *domains, by_name);
    s->app.page.domains_count = count;
    return ERR_OK;
}

static err open_auth(struct server *s, enum server_exit *status, struct err_note *note)
{
    struct auth_opts opts = { .engine = s->app.engine,
                              .rows = server_shared_keys(s),
                              .clock = s->app.clock,
                              .entropy = entropy_bytes,
                              .enabled = s->config->auth == AUTH_INTERNAL,
                              .exposed = s->config->exposed };
    err why = auth_new(&opts, &s->app.auth, note);
    *status = server_exit_of(why);
    bool door_open = false;
    /* Shared rows may not be known yet, and others may open the door later: the authority of an
     * exposed server gives anonymous nothing then. */
    if (why == ERR_OK && opts.enabled && opts.rows == NULL)
        why = auth_door_open(s->app.auth, &door_open);
    if (why != ERR_OK || !door_open)
        return why;
    for (unsigned i = 0; i < s->config->listens_count; i++) {
        if (s->config->listens[i].purge || options_is_loopback(s->config->listens[i].address))
            continue;
        err_note_set(note,
                     "anonymous still holds rights here, so %s is refused as a listener; make a "
                     "key and take "
                     "them away: palimpsest token create --role Admin --data %s; palimpsest token "
                     "lock --data %s",
                     s->config->listens[i].address, s->config->data_dir, s->config->data_dir);
        *status = SERVER_USAGE;
        return ERR_DENIED;
    }
    log_event(
        s->app.log, LOG_WARN, "auth.door_open",
        LOG_CSTR(
            "what",
            "callers without a key may do what the roles of anonymous allow; palimpsest token lock "
            "ends that"));
    return ERR_OK;
}

/* ---- listeners ---- */

/* Files that are wanted beside connections of clients. */
static rlim_t files_beside(const struct server *s)
{
    rlim_t beside = FILES_BESIDE_CONNECTIONS;
    if (s->config->change.rules != NULL)
        beside += (rlim_t)HTTP_CLIENT_CONNECTION_FILES * CHANGE_CONNECTIONS_MAX;
    if (s->app.client != NULL)
        beside += (rlim_t)HTTP_CLIENT_CONNECTION_FILES * s->config->client.connections_max;
    return beside;
}

/* How many files there may be, of those that are wanted. */
static rlim_t files_get(rlim_t wanted)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return wanted;
    if (files.rlim_cur < wanted) {
        files.rlim_cur = files.rlim_max < wanted ? files.rlim_max : wanted;
        (void)setrlimit(RLIMIT_NOFILE, &files); /* what was got is read back */
    }
    return getrlimit(RLIMIT_NOFILE, &files) != 0 ? wanted : files.rlim_cur;
}

static void say_files_cut(const struct server *s, unsigned wanted, rlim_t now, rlim_t files)
{
    log_event(
        s->app.log, LOG_WARN, "serve.connections_cut", LOG_INT("wanted", wanted),
        LOG_INT("now", now), LOG_INT("nofile", files),
        LOG_CSTR(
            "what",
            "too few files for http.connections_max and client.connections_max: raise the limit of "
            "open files (ulimit -n, LimitNOFILE=)"));
}

/* As many files as connections need, clients' and to origins, or as many connections as there are
 * files for. */
static void fit_connections(struct server *s, struct http_limits *limits)
{
    rlim_t beside = files_beside(s), wanted = limits->connections_max + beside;
    rlim_t files = files_get(wanted);
    if (files >= wanted)
        return;
    rlim_t fit = files > 2 * beside ? files - beside : files / 2;
    if (fit > files - HTTP_SPARE_FILES && files > HTTP_SPARE_FILES)
        fit = files - HTTP_SPARE_FILES; /* which the server wants beside them */
    fit = fit < limits->connections_max
              ? fit
              : limits->connections_max; /* then the others may lack some */
    say_files_cut(s, limits->connections_max, fit, files);
    limits->connections_max = (unsigned)fit;
}

static void check_permissions(const struct http_route *table)
{
    for (; table->pattern != NULL; table++)
        if (table->permission != NULL && !auth_permission_known(table->permission))
            check_failed(table->pattern, 0, "a route asks for a permission nobody can have");
}

/* Of a store that servers share: tables and events would be those of one server. */
static bool routes_wanted(const struct server *s, const struct http_route *table)
{
    const struct http_route *const local[] = { app_table_routes, app_stream_routes, app_rule_routes,
                                               app_item_routes, app_timeline_routes };
    bool wanted = table != app_hook_routes || s->config->test_hooks;
    for (size_t i = 0; i < COUNT_OF(local); i++)
        wanted = wanted && (s->config->pages == PAGES_EMBEDDED || table != local[i]);
    return wanted;
}

static err open_http(struct server *s, enum server_exit *status, struct err_note *note)
{
    const struct http_route *tables[APP_TABLES_MAX];
    unsigned count = 0;
    for (unsigned i = 0; app_tables[i] != NULL; i++) {
        check_permissions(app_tables[i]);
        if (routes_wanted(s, app_tables[i]))
            tables[count++] = app_tables[i];
    }
    bool ready = s->config->hot_bytes > 0; /* else it would look for nothing */
    struct http_server_opts opts = { .listens = s->config->listens,
                                     .listens_count = s->config->listens_count,
                                     .tables = tables,
                                     .tables_count = count,
                                     .limits = s->config->http,
                                     .hooks = { .app = &s->app,
                                                .early = ready ? app_early : NULL,
                                                .authorize = app_authorize,
                                                .options = app_options,
                                                .refuse = app_refuse,
                                                .target_shown = app_target_shown,
                                                .finished = app_finished },
                                     .clock = s->app.clock,
                                     .log = s->app.log,
                                     .loop = s->app.loop,
                                     .pool_threads = http_threads(&s->config->http) };
    opts.limits.budget = s->app.budget;
    fit_connections(s, &opts.limits);
    err why = http_server_new(&opts, &s->app.http, note);
    *status = why == ERR_BAD ? SERVER_USAGE : SERVER_FAILED;
    if (why == ERR_OK)
        why = http_server_start(s->app.http, note);
    return why;
}

static void run_upkeep(struct app *app)
{
    upkeep_all(CONTAINER_OF(app, struct server, app)->upkeep);
    change_upkeep_all(app->change);
    queues_upkeep_all(app->queues);
}

static err open_origins(struct server *s, enum server_exit *status, struct err_note *note)
{
    s->served = true;
    err why = origins_open(&s->app, s->domains, note);
    if (why == ERR_OK)
        why = server_open_secondary(s, note);
    if (why == ERR_OK)
        server_recall(s);
    *status = SERVER_USAGE;
    return why;
}

/* Ready answers have a limit of their own; a request alone always gets what it may have. */
static void open_budget(struct server *s)
{
    enum { SHARE = 4, RESERVE_BYTES = 8 << 20 }; /* of an operator: the longest scrape, twice */
    const struct config *c = s->config;
    uint64_t share = machine_memory_bytes("") / SHARE, least = c->http.arena_bytes_max;
    s->budget.bytes_max = c->http_bytes_max != 0 ? c->http_bytes_max
                          : share > least        ? share
                                                 : least;
    s->budget.kept_max = c->hot_bytes;
    s->budget.reserve = RESERVE_BYTES;
    s->app.budget = &s->budget;
}

static err open_app(struct server *s, enum server_exit *status, struct err_note *note)
{
    open_values(s);
    s->app.upkeep_all = run_upkeep;
    app_start(&s->app);
    s->upkeep = upkeep_new(&s->app);
    err why = streams_new(&s->app, &s->app.streams);
    if (why != ERR_OK)
        err_note_set(note, "the event log cannot be read: %s", err_name(why));
    *status = server_exit_of(why);
    return why;
}

/* Ready answers say how long caches may keep them, which the rules say. */
static void rules_took(void *ctx)
{
    struct server *s = ctx;
    page_changes_tell_all(s->app.page.changes);
}

static err open_change(struct server *s, enum server_exit *status, struct err_note *note)
{
    if (s->app.page.shared != NULL)
        s->timelines = timeline_remote_new(flight_shared_redis(s->app.page.shared));
    const struct change_opts opts = { .engine = s->app.engine,
                                      .events = s->app.events,
                                      .clock = s->app.clock,
                                      .loop = s->app.loop,
                                      .log = s->app.log,
                                      .page = &s->app.page,
                                      .queues = &s->app.queues,
                                      .timelines = s->timelines,
                                      .rules = s->config->change.rules,
                                      .took = rules_took,
                                      .ctx = s,
                                      .seed = entropy_u64() };
    err why = change_new(&opts, &s->app.change, note);
    *status = server_exit_of(why);
    return why;
}

err server_boot(struct server *s, const struct config *config, enum server_exit *status,
                struct err_note *note)
{
    *s = (struct server){ .config = config,
                          .app = { .config = config,
                                   .access_log = config->access_log,
                                   .wait_timeout_ms = config->wait_timeout_ms } };
    (void)umask(0077); /* returns the old one; it never fails */
    err_note_set(note, "no reason was given");
    open_clock(s);
    open_budget(s);
    err why = open_engine(s, status, note);
    if (why == ERR_OK)
        s->app.page.loop = s->app.loop = loop_new(server_pool_threads(config));
    if (why == ERR_OK)
        why = open_pages(s, status, note);
    if (why == ERR_OK)
        why = open_tables(s, status, note);
    if (why == ERR_OK)
        why = open_events(s, status, note);
    if (why == ERR_OK)
        why = open_domains(s, status, note);
    if (why == ERR_OK)
        why = open_auth(s, status, note);
    if (why == ERR_OK)
        why = open_origins(s, status, note);
    if (why == ERR_OK)
        why = open_app(s, status, note);
    if (why == ERR_OK)
        why = server_open_queues(s, status, note);
    if (why == ERR_OK)
        why = open_change(s, status, note);
    if (why == ERR_OK)
        server_doubt_queues(s);
    if (why == ERR_OK)
        why = open_http(s, status, note);
    disk_note_full(note, why, config->data_dir);
    if (why == ERR_OK)
        change_start(s->app.change); /* last: who is taken down again has begun nothing */
    else
        server_unboot(s);
    return why;
}

/* More connections to origins than were wanted at the start may want more files. */
static void fit_client(struct server *s)
{
    rlim_t wanted = s->config->http.connections_max + files_beside(s);
    rlim_t files = files_get(wanted);
    if (files < wanted)
        say_files_cut(s, s->config->http.connections_max, s->config->http.connections_max, files);
}

void server_reloaded(struct server *s)
{
    const struct config *c = s->config;
    log_level_set(s->app.log, c->log_level);
    atomic_store(&s->app.access_log, c->access_log);
    atomic_store(&s->app.wait_timeout_ms, c->wait_timeout_ms);
    const struct event_limits events = event_limits_of(c);
    event_log_limits(s->app.events, &events);
    pages_stream(s->pages, streams_wanted(c));
    change_rules_take(s->app.change, c->change.rules);
    streams_limit(s->app.streams, c->stream_clients);
    settings_renew(&s->settings, &s->app.page, c);
    page_stash_quota_set(&s->app.page, c->buckets[0].stash_bytes_max);
    origins_reloaded(&s->app, s->domains);
    if (s->app.client != NULL)
        fit_client(s);
    page_changes_tell_all(s->app.page.changes); /* ready answers say what held */
    server_doubt_queues(s);
}

void server_unboot(struct server *s)
{
    http_server_free(&s->app.http);
    upkeep_free(&s->upkeep);
    server_close_queues(s);
    bool started = s->served;
    if (s->app.events != NULL)
        event_log_hush(s->app.events);
    if (started) {
        streams_stop(s->app.streams);
        change_stop(s->app.change);
        origins_close(&s->app, s->domains);
    }
    server_close_secondary(s);
    server_close_store(s);
    loop_free(&s->app.loop); /* ends what requests left on the pool, which may still steer */
    if (started) {
        change_free(&s->app.change);
        timeline_remote_free(&s->timelines);
        streams_free(&s->app.streams);
    }
    engine_close(
        &s->app.engine); /* finishes what other servers told us to do, which uses all below */
    if (started)
        app_stop(&s->app);
    auth_free(&s->app.auth);
    value_service_fini(&s->app.values);
    tables_free(&s->tables);
    event_log_free(&s->app.events);
    pages_free(&s->pages);
    server_free_store(s);
    settings_free(&s->settings);
    free(s->domains);
    metrics_free(&s->app.metrics);
    log_free(&s->app.log);
    sysclock_free(&s->app.sysclock);
}
