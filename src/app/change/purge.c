/* purge.c - PURGE, as MediaWiki sends it to the caches of $wgCdnServers, on a listener of its own.
 *
 * The target is a URL of the wiki (an article, its history, its talk, a thumbnail), or one of ours.
 * Taken is every URL of a host that is known; those that name a title make us look at it. Several
 * wikis may have one host: then all of them are looked at.
 *   When a rule relays purges, each URL of a wiki's host becomes an event of CHANGE_PURGES, as it
 * came. Its sender is answered when that is on disk: so what waits is bounded by connections. */
#include "app/answer.h"
#include "app/change/look.h"
#include "app/change/relay.h"
#include "app/counters.h"
#include "app/errors.h"
#include "base/address.h"
#include "base/utf8.h"
#include "change/change.h"
#include "event/log.h"
#include "page/wiki_url.h"

static bool may_purge(const struct http_exchange *x, const struct config_change *c)
{
    return networks_hold_peer(c->purge_from, c->purge_from_count, http_peer(x));
}

enum { PURGE_EVENT_BYTES_MAX = 256 << 10 }; /* a head is smaller */

struct purge {
    struct http_exchange *x;
    struct app *app;
    struct arena *arena;
    str host, path, query;
    bool known, titled; /* the host is; a title was named */
    str domain;         /* of a wiki with that host, the first whose title it is; empty: of none */
    struct event event; /* that is relayed */
    struct event_taken taken;
    struct event_append append;
};

static err purge_look(struct purge *p, const struct page_domain *d, str title)
{
    p->known = true;
    p->titled |= title.n > 0;
    change_look(p->app, p->arena, d, title, NULL);
    return ERR_OK;
}

/* By the wiki that has this host. */
static err purge_wikis(struct purge *p)
{
    const struct page_service *s = &p->app->page;
    err why = ERR_OK;
    for (unsigned i = 0; i < s->domains_count && why == ERR_OK; i++) {
        const struct page_domain *d = &s->domains[i];
        str title = STR("");
        if (!wiki_place_has(&d->place, p->host))
            continue;
        why = wiki_url_title(p->arena, &d->place, p->path, p->query, &title);
        if (p->domain.n == 0 || (!p->titled && title.n > 0))
            p->domain = d->name;
        if (why == ERR_OK)
            why = purge_look(p, d, title);
    }
    return why;
}

static err purge_own(struct purge *p)
{
    str name, title;
    err why = wiki_url_own(p->arena, p->path, &name, &title);
    const struct page_domain *d =
        why != ERR_OK || name.n == 0 ? NULL : page_domain_find(&p->app->page, name);
    return d == NULL ? why : purge_look(p, d, title);
}

static void purge_answer(struct purge *p)
{
    counters_purge(p->app->counters, !p->known   ? PURGE_UNKNOWN
                                     : p->titled ? PURGE_TITLE
                                                 : PURGE_OTHER);
    if (p->known)
        http_answer(p->x, 200, STR(""));
    else
        (void)app_refused(p->x, 404, "domain_not_found", "No wiki here has this host.");
}

/* ---- relaying ---- */

/* Empty: there is no memory for it. A query may be empty, and is one all the same. */
static str purge_event(const struct purge *p)
{
    struct buf b;
    str uri = arena_printf(p->arena, "http://%.*s%.*s%s%.*s", STR_ARG(p->host), STR_ARG(p->path),
                           p->query.p != NULL ? "?" : "", STR_ARG(p->query));
    if (uri.p == NULL)
        return STR("");
    buf_init(&b, PURGE_EVENT_BYTES_MAX);
    relay_event_put(&b, p->app->clock, STR(""), p->domain, uri);
    str taken = buf_take(&b, p->arena);
    return taken.p == NULL ? STR("") : taken;
}

/* Home. Whatever stands against it, another try may do. */
static void purge_appended(struct event_append *a, err why)
{
    struct purge *p = CONTAINER_OF(a, struct purge, append);
    bool passing = why == ERR_TIMEOUT || why == ERR_SHUTDOWN;
    if (why == ERR_OK)
        purge_answer(p);
    else if (passing)
        app_fail(p->x, why, NULL);
    else
        (void)app_refused(p->x, 503, "unavailable",
                          "The purge could not be stored, and is relayed to nobody.");
}

static void purge_relay(struct purge *p)
{
    p->event = (struct event){
        .stream = STR(CHANGE_PURGES), .domain = p->domain, .id = STR(""), .bytes = purge_event(p)
    };
    if (p->event.bytes.n == 0) {
        app_fail(p->x, ERR_LIMIT, NULL);
        return;
    }
    p->append = (struct event_append){
        .log = p->app->events,
        .events = &p->event,
        .count = 1,
        .taken = &p->taken,
        .deadline = mono_add_ms(clock_mono(p->app->clock), p->app->config->write_timeout_ms),
        .home = http_home(p->x),
        .done = purge_appended,
    };
    http_defer(p->x);
    event_append_start(&p->append);
}

/* An event is JSON, which has no room for other bytes. */
static bool is_text(const struct purge *p)
{
    return utf8_valid(p->host) && utf8_valid(p->path) && utf8_valid(p->query);
}

static void purge_end(struct purge *p)
{
    bool relays = p->domain.n > 0 && change_relays(p->app->change);
    if (!relays)
        purge_answer(p);
    else if (!is_text(p))
        (void)app_refused(p->x, 400, "bad_request", "A URL that is relayed is UTF-8.");
    else if (app_may_wait(p->x))
        purge_relay(p);
}

static void purge_title(struct http_exchange *x, void *app)
{
    struct app *a = app;
    if (!may_purge(x, &a->config->change)) {
        counters_purge(a->counters, PURGE_REFUSED);
        (void)app_refused(x, 403, "forbidden",
                          "PURGE is not taken from this address (change.purge_from).");
        return;
    }
    struct purge *p = app_new(x, sizeof *p);
    if (p == NULL)
        return;
    *p = (struct purge){ .x = x,
                         .app = a,
                         .arena = http_arena(x),
                         .host = STR(""),
                         .path = http_target(x),
                         .query = http_query_raw(x),
                         .domain = STR("") };
    (void)http_header(x, "host", &p->host); /* that of an absolute target stands for it */
    err why = purge_own(p);
    if (why == ERR_OK)
        why = purge_wikis(p);
    if (why == ERR_OK)
        purge_end(p);
    else
        app_fail(x, why, NULL);
}

const struct http_route app_purge_routes[] = {
    { HTTP_PURGE, "/{+rest}", purge_title, .label = "change.purge" },
    { .pattern = NULL },
};
