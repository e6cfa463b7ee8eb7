/* app.c - the hooks that every request passes: ready answers, permissions, refusals, and what is
 * counted at its end. The HTTP server calls them; the route tables name the handlers. Invariant:
 * a private wiki's domain is withheld from caches and from scripts of other sites on every
 * answer, refusals included. */
#include "app/app.h"

#include "app/answer.h"
#include "app/cors.h"
#include "app/counters.h"
#include "app/errors.h"
#include "app/page/page_request.h"
#include "app/rpc.h"
#include "app/table/value_path.h"
#include "auth/auth.h"
#include "codec/frame.h"
#include "hot/hot.h"
#include "http/counts.h"
#include "http/pace.h"
#include "loop/entropy.h"
#include "page/changes.h"
#include "page/quota.h"
#include "page/stash.h"

#include <stdlib.h>
#include <string.h>

const struct http_route *const app_tables[APP_TABLES_MAX] = {
    app_page_routes,   app_entry_routes,
    app_hop_routes,    app_table_routes,
    app_value_routes,  app_list_routes,
    app_flight_routes, app_slow_routes,
    app_fresh_routes,  app_stash_routes,
    app_admin_routes,  app_key_routes,
    app_queue_routes,  app_authority_routes,
    app_event_routes,  app_stream_routes,
    app_purge_routes,  app_rule_routes,
    app_item_routes,   app_timeline_routes,
    app_hook_routes,   NULL
};

/* Of what is answered before routing. */
static const char hot_label[] = "page.hot";

static void page_changed(void *ctx, uint16_t bucket, uint32_t domain, str title)
{
    page_changes_tell(ctx, bucket, domain, title);
}

void app_start(struct app *app)
{
    struct page_service *page = &app->page;
    page->changes = page_changes_new(entropy_u64());
    page->quota = page_stash_quota_new(page, app->config->buckets[0].stash_bytes_max);
    page->shape_free = app_page_shape_free;
    app->hot = hot_new(app->config->hot_bytes, entropy_u64(), page->changes);
    app->requests = http_counts_new(app->metrics, app_tables, hot_label);
    app->counters = counters_new(app->metrics);
    app->frames = calloc(1, sizeof *app->frames);
    INVARIANT(app->frames != NULL);
    app->pace = pace_new(entropy_u64());
    for (unsigned i = 0; i < COUNT_OF(app->ok); i++)
        app->ok[i] = rpc_ok_new((enum wire_encoding)i);
    const struct page_listener listener = { .changed = page_changed, .ctx = page->changes };
    page_store_listen(page->store, &listener);
}

void app_stop(struct app *app)
{
    if (app->frames == NULL) /* it was never started */
        return;
    hot_free(&app->hot);
    page_trust_free(&app->page.trust); /* ready answers held its cells */
    page_changes_free(&app->page.changes);
    page_quota_free(&app->page.quota);
    pace_free(&app->pace);
    frame_pool_fini(app->frames);
    free(app->frames);
    app->frames = NULL;
    http_counts_free(&app->requests);
    counters_free(&app->counters);
    for (unsigned i = 0; i < COUNT_OF(app->ok); i++)
        http_ready_unref(&app->ok[i]);
}

/* What a private wiki's domain has is for nobody's cache, and for no script of another site. */
static void withhold(struct http_exchange *x, const struct app *app)
{
    str rest = str_skip(http_target(x), 1);
    const struct page_domain *d = http_route(x) != NULL
                                      ? page_domain_find(&app->page, http_param(x, "domain"))
                                      : page_domain_find(&app->page, str_split(&rest, '/'));
    if (d != NULL && d->is_private)
        http_withhold(x);
}

/* A browser asks before it sends a header of its own, such as If-None-Match, to another site. What
 * writes is not for other sites' scripts; a transform writes nothing. */
void app_options(struct http_exchange *x, void *app)
{
    struct answer w = { .status = 204 };
    value_share(x, app);
    withhold(x, app);
    if (!answer_shared(x))
        return;
    str rest = str_skip(http_target(x), 1);
    (void)str_split(&rest, '/'); /* the domain */
    bool transform = str_starts(rest, STR("v1/transform/"));
    answer_add_security(&w, http_arena(x), STR_NONE, STR_NONE);
    answer_add(&w, STR("access-control-allow-methods"),
               transform ? STR("GET,HEAD,POST") : STR("GET,HEAD"));
    answer_add(&w, STR("access-control-allow-headers"),
               STR("accept, accept-datetime, accept-encoding, accept-language, api-user-agent, "
                   "cache-control, "
                   "content-length, content-type, dnt, if-match, if-modified-since, if-none-match, "
                   "range"));
    for (unsigned i = 0; i < w.count; i++)
        http_reply_header(x, w.headers[i].name, w.headers[i].value);
}

/* Querator's language is spoken under /v1/, but for the operator's own routes, those between
 * servers, events, their stream and the hooks; and a PURGE names paths of a wiki. */
static bool is_queue(const struct http_exchange *x)
{
    static const char *const others[] = { "/v1/admin.", "/v1/servers.", "/v1/test." };
    str path = http_target(x);
    bool queue = http_method(x) != HTTP_PURGE && str_starts(path, STR("/v1/")) &&
                 !str_eq(path, STR("/v1/events")) && !str_eq(path, STR("/v1/stream"));
    for (size_t i = 0; i < COUNT_OF(others); i++)
        queue = queue && !str_starts(path, str_of(others[i]));
    return queue;
}

/* Querator knows POST alone, and calls what it does not know unimplemented. A route of ours that
 * has this path is none of its calls, and has its own methods. */
static void refuse_queue(struct http_exchange *x, int status, const char *type, str detail,
                         const struct app *a)
{
    bool unknown = status == 404 || (status == 405 && is_queue(x));
    bool limited = status == 413 && http_route(x) != NULL; /* by the route, not in the head */
    if (limited && is_queue(x))
        rpc_too_large(x);
    else if (!unknown)
        app_problem(x, status, type, NULL, detail, STR_NONE);
    else if (http_method(x) != HTTP_POST)
        rpc_errorf(x, 400, "http method '%.32s' not allowed; only POST", http_method_name(x));
    else if (app_may(x, NULL, STR_NONE, a))
        rpc_errorf(x, 501, "no such method; %.*s", STR_ARG(http_target(x)));
}

const struct page_domain *app_domain_of(struct http_exchange *x, const struct app *app)
{
    const struct page_domain *d = page_domain_find(&app->page, http_param(x, "domain"));
    if (d == NULL && str_starts(http_target(x), STR("/v1/"))) /* no domain has the name v1 */
        refuse_queue(x, 404, "not_found#route", STR("no route has this path"), app);
    else if (d == NULL)
        app_problem(x, 404, "domain_not_found", NULL, STR("This domain is not configured."),
                    STR_NONE);
    return d;
}

/* Another scheme says nothing to a content route. */
static str bearer_of(const struct http_exchange *x)
{
    str field = http_common(x)->authorization;
    return auth_is_bearer(field) ? field : STR_NONE;
}

/* A ready answer needs no route: what is ready was read by the permission of pages, in the
 * namespace that the path begins with. One that is written otherwise goes the long way. */
static bool may_have_ready(struct http_exchange *x, const struct app *a)
{
    static const char permission[] = "page.read";
    if (a->config->auth == AUTH_OPEN)
        return true;
    str rest = str_skip(http_target(x), 1), domain = str_split(&rest, '/');
    return domain.n > 0 && str_find(domain, '%') == domain.n &&
           auth_glance(a->auth, bearer_of(x), permission, domain);
}

bool app_early(struct http_exchange *x, void *app)
{
    const struct app *a = app;
    return may_have_ready(x, a) && app_page_hot_answer(x, a);
}

/* There anonymous is a user like others: what it may not do is forbidden, not unauthorized. */
static void refuse_caller(struct http_exchange *x, enum auth_reason why)
{
    bool queue = is_queue(x), forbidden = why == AUTH_FORBIDDEN || (why == AUTH_NO_KEY && queue);
    str text = str_of(auth_reason_text(why));
    if (!forbidden)
        http_reply_header(x, STR("www-authenticate"), STR("Bearer"));
    if (queue)
        rpc_error(x, forbidden ? 403 : 401, text);
    else
        app_problem(x, forbidden ? 403 : 401, forbidden ? "forbidden" : "unauthorized", NULL, text,
                    STR_NONE);
}

static bool puts_page(const struct http_exchange *x)
{
    const struct http_route *route = http_route(x);
    return route != NULL &&
           (route->handle == app_page_put_bundle || route->handle == app_page_put_content ||
            route->handle == app_transform_post);
}

bool app_may(struct http_exchange *x, const char *permission, str space, const struct app *a)
{
    bool queue = str_starts(http_target(x), STR("/v1/"));
    if (!auth_enabled(a->auth) && !is_queue(x))
        return true;
    str field = queue ? http_common(x)->authorization : bearer_of(x);
    enum auth_reason reason = AUTH_FINE;
    err why = auth_check(a->auth, field, permission, space, &reason);
    if (why == ERR_DENIED)
        refuse_caller(x, reason);
    else if (why != ERR_OK)
        app_fail(x, why, NULL);
    return why == ERR_OK;
}

bool app_has(struct http_exchange *x, const char *permission, str space, const struct app *a)
{
    enum auth_reason reason;
    return auth_check(a->auth, bearer_of(x), permission, space, &reason) == ERR_OK;
}

bool app_authorize(struct http_exchange *x, const char *permission, void *app)
{
    const struct app *a = app;
    if (puts_page(x))
        http_body_limit(x, a->config->page_body_bytes_max);
    value_share(x, a);
    withhold(x, a);
    if (!cors_may(x, a))
        return false;
    if (permission == NULL && !is_queue(x))
        return true;
    str domain = http_param(x, "domain");
    return app_may(x, permission, domain.p == NULL ? STR(AUTH_SYSTEM) : domain, a);
}

void app_refuse(struct http_exchange *x, int status, const char *type, str detail, void *app)
{
    if (status == 413 && puts_page(x))
        app_page_too_large(x, app);
    else if (str_starts(http_target(x), STR("/v1/")))
        refuse_queue(x, status, type, detail, app);
    else
        app_problem(x, status, type, NULL, detail, STR_NONE);
}

str app_target_shown(const struct http_exchange *x, void *app)
{
    (void)app; /* which keys are secret its path says */
    return value_target_logged(x);
}

void app_finished(struct http_exchange *x, int status, int64_t ns, uint64_t bytes_sent, void *app)
{
    struct app *a = app;
    const struct http_route *route = http_route(x);
    const char *label = route == NULL ? NULL : route->label;
    if (route == NULL && (status == 200 || status == 304))
        label = hot_label; /* nothing else is answered with success before routing */
    http_counts_add(a->requests, label, status, ns, bytes_sent);
    if ((status == 500 || status == 507) && http_state(x) != NULL) /* app_fail's words for us */
        log_event(a->log, LOG_ERROR, "http.failed", LOG_CSTR("method", http_method_name(x)),
                  LOG_STR("path", value_target_logged(x)), LOG_INT("status", status),
                  LOG_CSTR("why", http_state(x)), LOG_STR("request_id", http_request_id(x)));
    if (http_body(x).n >= APP_BIG_BODY_BYTES)
        atomic_store(&a->trims, APP_TRIMS);
    if (!atomic_load_explicit(&a->access_log, memory_order_relaxed))
        return;
    log_event(a->log, LOG_INFO, "http.request", LOG_CSTR("method", http_method_name(x)),
              LOG_STR("path", value_target_logged(x)), LOG_INT("status", status),
              LOG_INT("us", ns / 1000), LOG_INT("bytes", bytes_sent), LOG_STR("peer", http_peer(x)),
              LOG_CSTR("route", label == NULL ? "" : label),
              LOG_STR("request_id", http_request_id(x)));
}
