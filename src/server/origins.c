#include "server/origins.h"

#include "flight/flight.h"
#include "http/client.h"
#include "loop/entropy.h"
#include "render/render.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

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
    return (struct page_bucket_opts){ .name = ORIGINS_STASH_NAME, .policy = policy,
                                      .codec = config->buckets[0].page.codec };
}

static void flights_open(struct app *app)
{
    struct flight_opts opts = app->config->flight;
    opts.loop = app->loop;
    opts.clock = app->clock;
    opts.metrics = app->metrics;
    opts.seed = entropy_u64();
    app->flights = flights_new(&opts);
}

static void client_open(struct app *app)
{
    struct http_client_opts opts = app->config->client;
    opts.loop = app->loop;
    opts.clock = app->clock;
    opts.user_agent = "palimpsest";
    app->client = http_client_new(&opts);
}

err origins_open(struct app *app, struct app_domain *domains, struct err_note *note)
{
    if (!origins_wanted(app->config))
        return ERR_OK;
    client_open(app);
    flights_open(app);
    app->stash = pages_find(app->pages, STR(ORIGINS_STASH_NAME));
    INVARIANT(app->stash != NULL);
    for (unsigned i = 0; i < app->domains_count; i++) {
        struct app_domain *d = &domains[i];
        if (d->config->origin.url == NULL)
            continue;
        struct err_note why;
        err e = origin_new(app->client, app->loop, app->clock, &d->config->origin, &d->origin, &why);
        if (e != ERR_OK) {
            err_note_set(note, "domains.%.*s.origin: %s", STR_ARG(str_take(d->name, 80)), why.text);
            return e;
        }
        d->busy_until_ns = calloc(1, sizeof *d->busy_until_ns);
        INVARIANT(d->busy_until_ns != NULL);
    }
    return ERR_OK;
}

void origins_drain(struct app *app)
{
    if (app->flights != NULL)
        flights_drain(app->flights);
    if (app->client != NULL)
        http_client_stop(app->client);
}

bool origins_idle(const struct app *app)
{
    if (app->flights != NULL && !flights_idle(app->flights))
        return false;
    for (unsigned i = 0; i < app->domains_count; i++)
        if (app->domains[i].origin != NULL && !origin_idle(app->domains[i].origin))
            return false;
    return true;
}

void origins_close(struct app *app, struct app_domain *domains)
{
    if (app->flights != NULL)
        flights_free(&app->flights);
    for (unsigned i = 0; i < app->domains_count; i++) {
        if (domains[i].origin != NULL)
            origin_free(&domains[i].origin);
        free(domains[i].busy_until_ns);
        domains[i].busy_until_ns = NULL;
    }
    if (app->client != NULL)
        http_client_free(&app->client);
}
