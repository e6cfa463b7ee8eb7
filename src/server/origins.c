/* origins.c - opens and closes all that asks others: the HTTP client, flights, origins of
 * domains, lists, Redis, peers. Invariant: origins_close runs after the last request, because
 * handlers borrow all of these. */
#include "server/origins.h"

#include "flight/flight.h"
#include "flight/shared.h"
#include "http/client.h"
#include "list/list.h"
#include "loop/entropy.h"
#include "page/check.h"
#include "page/leave.h"
#include "page/look.h"
#include "page/noted.h"
#include "page/redo.h"
#include "page/remake.h"
#include "page/secondary.h"
#include "page/sweep.h"
#include "page/tell.h"
#include "peer/peer.h"
#include "render/render.h"
#include "server/secret.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool origins_wanted(const struct config *config)
{
    for (unsigned i = 0; i < config->domains_count; i++)
        if (config->domains[i].origin.url != NULL)
            return true;
    return false;
}

struct page_bucket_opts origins_stash_opts(const struct config *config)
{
    struct page_policy policy = config->buckets[0].page.policy;
    policy.kind = POLICY_TTL;
    policy.ttl_ns = policy.stash_ttl_ns;
    return (struct page_bucket_opts){ .name = ORIGINS_STASH_NAME,
                                      .policy = policy,
                                      .deaf = true,
                                      .codec = config->buckets[0].page.codec };
}

/* ---- other servers ---- */

static void on_dropped(void *ctx, const unsigned char *id)
{
    struct app *app = ctx;
    lists_dropped(app->lists, id);
}

static void on_told(void *ctx, str text)
{
    const struct app *app = ctx;
    page_told(&app->page, text);
}

static void on_redis(void *ctx, bool up, bool fresh)
{
    struct app *app = ctx;
    lists_redis(app->lists, up, fresh);
    if (fresh && app->page.noted != NULL)
        page_noted_forget(app->page.noted);
}

static void shared_open(struct app *app)
{
    const struct config *c = app->config;
    char node[2 * sizeof(uint64_t) + 1];
    (void)snprintf(node, sizeof node, "%016llx", (unsigned long long)entropy_u64()); /* fits */
    struct flight_shared_opts opts = { .loop = app->loop,
                                       .clock = app->clock,
                                       .log = app->log,
                                       .metrics = app->metrics,
                                       .address = c->redis.address,
                                       .seed = entropy_u64(),
                                       .node = node,
                                       .lease_ms = c->redis.lease_ms,
                                       .jitter_ms = c->redis.jitter_ms,
                                       .redis_timeout_ms = c->redis.timeout_ms,
                                       .make_timeout_ms = c->flight.make_timeout_ms,
                                       .error_base_ms = c->flight.error_base_ms,
                                       .error_max_ms = c->flight.error_max_ms,
                                       .dropped = on_dropped,
                                       .told = on_told,
                                       .state = on_redis,
                                       .ctx = app };
    app->page.shared = flight_shared_new(&opts);
}

static void lists_open(struct app *app)
{
    const struct config *c = app->config;
    struct lists_opts opts = { .loop = app->loop,
                               .clock = app->clock,
                               .log = app->log,
                               .client = app->client,
                               .metrics = app->metrics,
                               .flights = app->page.flights,
                               .shared = app->page.shared,
                               .seed = entropy_u64(),
                               .bytes_max = c->lists_bytes,
                               .buckets_count = c->lists_count };
    struct list_bucket_opts buckets[CONFIG_LISTS_MAX];
    for (unsigned i = 0; i < c->lists_count; i++)
        buckets[i] = c->lists[i].list;
    opts.buckets = buckets;
    app->lists = lists_new(&opts);
}

static void flights_open(struct app *app)
{
    struct flight_opts opts = app->config->flight;
    opts.shared = app->page.shared;
    opts.limiter = http_client_limiter(app->client);
    opts.loop = app->loop;
    opts.clock = app->clock;
    opts.metrics = app->metrics;
    opts.seed = entropy_u64();
    app->page.flights = flights_new(&opts);
}

static void client_open(struct app *app)
{
    struct http_client_opts opts = app->config->client;
    opts.loop = app->loop;
    opts.clock = app->clock;
    opts.user_agent = "palimpsest";
    app->client = http_client_new(&opts);
}

err origins_new(struct http_client *client, struct loop *loop, struct clock *clock,
                const struct config_domain *config, struct origin **out, struct err_note *note)
{
    struct origin_opts opts = config->origin;
    char *secret = NULL;
    err e = ERR_OK;
    if (config->authorization_file != NULL && config->authorization_file[0] != '\0')
        e = secret_read(config->authorization_file, &secret, note);
    opts.authorization = secret;
    if (e == ERR_OK)
        e = origin_new(client, loop, clock, &opts, out, note);
    if (secret != NULL)
        explicit_bzero(secret, strlen(secret));
    free(secret);
    return e;
}

/* Where the others ask this server, and the secret that all of them share. */
static err peers_open(struct app *app, struct err_note *note)
{
    const struct config_servers *c = &app->config->servers;
    char *secret = NULL;
    if (c->secret_file == NULL || c->secret_file[0] == 0)
        return ERR_OK;
    err why = secret_read(c->secret_file, &secret, note);
    if (why != ERR_OK)
        return why;
    const struct peers_opts opts = { .loop = app->loop,
                                     .clock = app->clock,
                                     .client = app->client,
                                     .shared = app->page.shared,
                                     .metrics = app->metrics,
                                     .address = c->advertise,
                                     .secret = str_of(secret) };
    if (opts.secret.n >= PEER_SECRET_BYTES_MIN) {
        app->page.peers = peers_new(&opts);
        app->page.noted = page_noted_new(entropy_u64());
    } else
        why = err_bad(note, "servers.secret_file: %.150s holds less than %d bytes", c->secret_file,
                      PEER_SECRET_BYTES_MIN);
    explicit_bzero(secret, opts.secret.n);
    free(secret);
    return why;
}

err origins_open(struct app *app, struct page_domain *domains, struct err_note *note)
{
    const struct config *c = app->config;
    bool keeps_leaves = false;
    bool has_redis = c->redis.url != NULL && c->redis.url[0] != 0;
    if (has_redis)
        shared_open(app);
    if (origins_wanted(c) || c->lists_count > 0) {
        client_open(app);
        flights_open(app);
    }
    lists_open(app);
    if (!origins_wanted(c))
        return ERR_OK;
    app->page.previews = page_store_bucket(app->page.store, STR(ORIGINS_STASH_NAME));
    INVARIANT(app->page.previews != NULL);
    app->origin_metrics = origin_metrics_new(app->metrics);
    struct metric_family *visible = metrics_row(app->metrics, METRIC_EDIT_VISIBLE_SECONDS);
    for (unsigned i = 0; i < c->domains_count; i++) {
        const struct config_domain *config = &c->domains[i];
        struct page_domain *d =
            &domains[page_domain_find(&app->page, str_of(config->name)) - app->page.domains];
        if (config->origin.url == NULL)
            continue;
        struct err_note why;
        err e = origins_new(app->client, app->loop, app->clock, config, &d->origin, &why);
        if (e != ERR_OK) {
            err_note_set(note, "domains.%.*s.origin: %s", STR_ARG(str_take(d->name, 80)), why.text);
            return e;
        }
        origin_measure(d->origin, app->origin_metrics, d->name);
        origin_log(d->origin, app->log, d->name);
        d->busy_until_ns = calloc(1, sizeof *d->busy_until_ns);
        INVARIANT(d->busy_until_ns != NULL);
        d->closed = calloc(1, sizeof *d->closed);
        INVARIANT(d->closed != NULL);
        d->failures = calloc(ERR_CODES, sizeof *d->failures);
        INVARIANT(d->failures != NULL);
        d->trust = config->trust;
        d->check_wait_ms = config->check_wait_ms;
        d->is_private = config->is_private;
        d->leave_ttl_ms = config->leave_ttl_ms;
        keeps_leaves |= d->is_private && d->leave_ttl_ms > 0;
        d->sweep_period_ns = config->sweep_period_ns;
        d->visible = metric_of(visible, config->name);
        d->rerender = config->rerender;
        d->rerenders = config->rerenders;
        d->rerender_after_ns = config->rerender_after_ns;
        d->redo_ns = calloc(1, sizeof *d->redo_ns);
        INVARIANT(d->redo_ns != NULL);
    }
    if (keeps_leaves)
        app->page.leaves = page_leaves_new();
    err why_no_peers = peers_open(app, note);
    if (why_no_peers != ERR_OK)
        return why_no_peers;
    app->page.trust = page_trust_new(TRUST_CELLS_DEFAULT, entropy_u64());
    app->page.checks = page_checks_new(&app->page);
    app->page.looks = page_looks_new(&app->page, c->change.event_recheck_ns, entropy_u64());
    app->page.sweeps = page_sweeps_new(&app->page);
    app->page.remakes = page_remakes_new(&app->page, entropy_u64());
    return ERR_OK;
}

/* One that cannot be read is as good as none: the renders are what they were. */
static void redo_load(const struct app *app, const struct page_domain *d)
{
    err e = page_redo_load(&app->page, d);
    if (e != ERR_OK)
        log_event(app->log, LOG_WARN, "page.redo_lost", LOG_STR("domain", d->name),
                  LOG_CSTR("why", err_name(e)),
                  LOG_CSTR("what", "when its renders were told to be made anew cannot be read; "
                                   "tell it again: palimpsest fresh redo"));
}

void origins_recall(const struct app *app)
{
    for (unsigned i = 0; i < app->page.domains_count; i++)
        if (app->page.domains[i].redo_ns != NULL)
            redo_load(app, &app->page.domains[i]);
}

/* What of a domain may change while others read it. */
static void domain_take(struct page_domain *d, const struct config_domain *c)
{
    d->trust.ttl_ns = c->trust.ttl_ns;
    d->trust.max_ns = c->trust.max_ns;
    d->check_wait_ms = c->check_wait_ms;
    d->sweep_period_ns = c->sweep_period_ns;
    d->rerender = c->rerender;
    d->rerender_after_ns = c->rerender_after_ns;
}

void origins_reloaded(struct app *app, struct page_domain *domains)
{
    const struct config *c = app->config;
    struct list_bucket_opts lists[CONFIG_LISTS_MAX];
    if (app->client != NULL)
        http_client_limit(app->client, &c->client);
    if (app->page.flights != NULL)
        flights_limit(app->page.flights, &c->flight);
    for (unsigned i = 0; i < c->lists_count; i++)
        lists[i] = c->lists[i].list;
    lists_limit(app->lists, lists);
    struct origin_limit *limits = calloc(app->page.domains_count + 1, sizeof *limits);
    size_t count = 0;
    INVARIANT(limits != NULL);
    for (unsigned i = 0; i < c->domains_count; i++) { /* in another order than the service's */
        const struct config_domain *config = &c->domains[i];
        struct page_domain *d =
            &domains[page_domain_find(&app->page, str_of(config->name)) - app->page.domains];
        if (d->origin == NULL)
            continue;
        domain_take(d, config);
        limits[count++] = (struct origin_limit){ d->origin, &config->origin };
        page_remakes_limit(app->page.remakes, d, config->rerenders);
    }
    origins_limit(limits, count);
    free(limits);
}

void origins_drain(struct app *app)
{
    if (app->page.remakes != NULL)
        page_remakes_stop(app->page.remakes);
    if (app->page.flights != NULL)
        flights_drain(app->page.flights);
    if (app->page.secondary != NULL)
        page_secondary_drain(app->page.secondary);
    if (app->page.looks != NULL)
        page_looks_stop(app->page.looks);
    if (app->page.sweeps != NULL)
        page_sweeps_stop(app->page.sweeps);
    if (app->page.checks != NULL)
        page_checks_stop(app->page.checks);
    if (app->client != NULL)
        http_client_stop(app->client);
}

bool origins_idle(const struct app *app)
{
    if (app->page.flights != NULL && !flights_idle(app->page.flights))
        return false;
    if (app->page.secondary != NULL && !page_secondary_idle(app->page.secondary))
        return false;
    if (app->page.looks != NULL && !page_looks_idle(app->page.looks))
        return false;
    if (app->page.sweeps != NULL && !page_sweeps_idle(app->page.sweeps))
        return false;
    if (app->page.checks != NULL && !page_checks_idle(app->page.checks))
        return false;
    if (app->page.remakes != NULL && !page_remakes_idle(app->page.remakes))
        return false;
    for (unsigned i = 0; i < app->page.domains_count; i++)
        if (app->page.domains[i].origin != NULL && !origin_idle(app->page.domains[i].origin))
            return false;
    return true;
}

void origins_close(struct app *app, struct page_domain *domains)
{
    if (app->page.flights != NULL)
        flights_free(&app->page.flights);
    page_looks_free(&app->page.looks);
    page_sweeps_free(&app->page.sweeps);
    page_checks_free(&app->page.checks);
    page_remakes_free(&app->page.remakes);
    page_leaves_free(&app->page.leaves);
    lists_free(&app->lists);
    peers_free(&app->page.peers);
    page_noted_free(&app->page.noted);
    if (app->page.shared != NULL)
        flight_shared_stop(app->page.shared);
    flight_shared_free(&app->page.shared);
    for (unsigned i = 0; i < app->page.domains_count; i++) {
        if (domains[i].origin != NULL)
            origin_free(&domains[i].origin);
        free(domains[i].busy_until_ns);
        domains[i].busy_until_ns = NULL;
        free(domains[i].redo_ns);
        domains[i].redo_ns = NULL;
        free(domains[i].closed);
        domains[i].closed = NULL;
        free(domains[i].failures);
        domains[i].failures = NULL;
    }
    origin_metrics_free(&app->origin_metrics);
    if (app->client != NULL)
        http_client_free(&app->client);
}
