/* purge.c - PURGE, as MediaWiki sends it to the caches of $wgCdnServers, on a listener of its own.
 *
 * The target is a URL of the wiki (an article, its history, its talk, a thumbnail), or one of ours.
 * Taken is every URL of a host that is known; those that name a title make us look at it. Several
 * wikis may have one host: then all of them are looked at. */
#include "app/answer.h"
#include "app/change/look.h"
#include "app/counters.h"
#include "app/errors.h"
#include "base/address.h"
#include "page/wiki_url.h"

static bool may_purge(const struct http_exchange *x, const struct config_change *c)
{
    return networks_hold_peer(c->purge_from, c->purge_from_count, http_peer(x));
}

struct purge {
    struct app *app;
    struct arena *arena;
    str host, path, query;
    bool known, titled; /* the host is; a title was named */
};

static err look(struct purge *p, const struct page_domain *d, str title)
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
        str title;
        if (!wiki_place_has(&d->place, p->host))
            continue;
        why = wiki_url_title(p->arena, &d->place, p->path, p->query, &title);
        if (why == ERR_OK)
            why = look(p, d, title);
    }
    return why;
}

static err purge_own(struct purge *p)
{
    str name, title;
    err why = wiki_url_own(p->arena, p->path, &name, &title);
    const struct page_domain *d =
        why != ERR_OK || name.n == 0 ? NULL : page_domain_find(&p->app->page, name);
    return d == NULL ? why : look(p, d, title);
}

static void purge_title(struct http_exchange *x, void *app)
{
    struct app *a = app;
    struct purge p = { .app = a,
                       .arena = http_arena(x),
                       .host = STR(""),
                       .path = http_target(x),
                       .query = http_query_raw(x) };
    if (!may_purge(x, &a->config->change)) {
        counters_purge(a->counters, PURGE_REFUSED);
        (void)app_refused(x, 403, "forbidden",
                          "PURGE is not taken from this address (change.purge_from).");
        return;
    }
    (void)http_header(x, "host", &p.host); /* that of an absolute target stands for it */
    err why = purge_own(&p);
    if (why == ERR_OK)
        why = purge_wikis(&p);
    if (why != ERR_OK) {
        app_fail(x, why, NULL);
        return;
    }
    counters_purge(a->counters, !p.known ? PURGE_UNKNOWN : p.titled ? PURGE_TITLE : PURGE_OTHER);
    if (p.known)
        http_answer(x, 200, STR(""));
    else
        (void)app_refused(x, 404, "domain_not_found", "No wiki here has this host.");
}

const struct http_route app_purge_routes[] = {
    { HTTP_PURGE, "/{+rest}", purge_title, .label = "change.purge" },
    { .pattern = NULL },
};
