/* page_stash.c - what clients keep for the life of an edit (?stash=true): how often one may ask,
 * and what an operator sees and takes away of it (page/stash.h, page/kept.h).
 *
 *   GET    /v1/admin.stash/{domain}?title=&limit=&page=    items, and next when there may be more
 *   DELETE /v1/admin.stash/{domain}?title=&page=           removes STASH_REMOVE_MAX at most; next
 *                                                          as above */
#include "app/answer.h"
#include "app/errors.h"
#include "app/page/page_request.h"
#include "http/pace.h"
#include "page/kept.h"

enum { STASH_LIMIT_DEFAULT = 100, STASH_REMOVE_MAX = 100 };

bool stash_may_ask(struct http_exchange *x, const struct app *app,
                   const struct page_settings *settings)
{
    struct pace_said said = { .peer = http_peer(x),
                              .client_ip = STR_NONE,
                              .forwarded_for = STR_NONE };
    (void)http_header(x, "x-client-ip", &said.client_ip); /* absent is fine */
    (void)http_header(x, "x-forwarded-for", &said.forwarded_for);
    const struct pace_client k =
        pace_client_of(&said, app->config->proxies, app->config->proxies_count);
    if (pace_take_client(app->pace, &k, settings->stash_per_s_max, clock_mono(app->clock)))
        return true;
    http_reply_header(x, STR("retry-after"), STR("1"));
    return app_refused(x, 429, "request_rate_exceeded",
                       "Too many requests with stash=true from this address (stash_per_s_max; the "
                       "clients of a proxy count as one unless http.trusted_proxies names it).");
}

void stash_answer_full(struct http_exchange *x)
{
    app_refused(x, 507, "stash_full",
                "Too much is kept for editors already (page.stash_bytes_max).");
}

/* ---- what is kept ---- */

struct kept_call {
    struct page_kept_removal removal; /* or its list alone */
    struct http_exchange *x;
};

/* {domain}, ?title=, ?limit=, ?page=. NULL: answered. */
static struct kept_call *kept_new(struct http_exchange *x, const struct app *app)
{
    struct kept_call *k = app_new(x, sizeof *k);
    struct err_note note = { { 0 } };
    struct page_target target = { .domain = page_domain_find(&app->page, http_param(x, "domain")),
                                  .title = STR("") };
    str title;
    if (k == NULL)
        return NULL;
    if (target.domain == NULL) {
        app_refused(x, 404, "domain_not_found", "This domain is not configured.");
        return NULL;
    }
    struct page_kept_list *l = &k->removal.list;
    l->limit = STASH_LIMIT_DEFAULT;
    if (!app_listing_parse(x, &l->limit, &l->from))
        return NULL;
    bool named = http_query(x, "title", &title);
    err why = named ? page_title_key(http_arena(x), title, &target.title, &note) : ERR_OK;
    if (why != ERR_OK)
        page_title_bad(x, why, &note);
    if (why != ERR_OK || (named && !page_title_settled(x, &target)))
        return NULL;
    k->x = x;
    l->service = &app->page;
    l->domain = target.domain;
    l->title = target.title;
    l->arena = http_arena(x);
    return k;
}

/* False: it failed, which is answered. */
static bool kept_is_fine(struct kept_call *k)
{
    err why = k->removal.list.call.why;
    if (why == ERR_BAD)
        return app_token_bad(k->x);
    if (why != ERR_OK)
        app_fail(k->x, why, NULL);
    return why == ERR_OK;
}

static void stashes_listed(struct store_call *c)
{
    struct kept_call *k = CONTAINER_OF(c, struct kept_call, removal.list.call);
    const struct page_kept_list *l = &k->removal.list;
    struct json_list out;
    if (!kept_is_fine(k))
        return;
    json_list_init(&out, PAGE_JSON_BYTES_MAX);
    for (unsigned i = 0; i < l->count; i++)
        page_kept_json(json_list_item(&out), &l->items[i]);
    page_answer_json(k->x, json_list_end(&out, l->arena, l->next, JSON_LIST_PLAIN), STR_NONE);
}

static void get_stashes(struct http_exchange *x, void *app)
{
    struct kept_call *k = kept_new(x, app);
    if (k == NULL)
        return;
    struct page_kept_list *l = &k->removal.list;
    l->call = (struct store_call){ .home = http_home(x), .done = stashes_listed };
    app_call_go(x, page_kept_list(l), &l->call);
}

static void stashes_removed(struct store_call *c)
{
    struct kept_call *k = CONTAINER_OF(c, struct kept_call, removal.call);
    const struct page_kept_removal *r = &k->removal;
    struct arena *a = http_arena(k->x);
    struct buf b;
    if (!kept_is_fine(k))
        return;
    if (c->why != ERR_OK) {
        app_fail(k->x, c->why, &r->order.note);
        return;
    }
    buf_init(&b, PAGE_JSON_BYTES_MAX);
    buf_printf(&b, "{\"removed\":%u,\"bytes\":%llu", r->removed, (unsigned long long)r->bytes);
    json_next_put(&b, a, r->list.next);
    buf_put_c(&b, '}');
    page_answer_json(k->x, buf_take(&b, a), STR_NONE);
}

static void delete_stashes(struct http_exchange *x, void *app)
{
    struct kept_call *k = app_may_wait(x) ? kept_new(x, app) : NULL;
    if (k == NULL)
        return;
    struct page_kept_removal *r = &k->removal;
    r->list.limit = r->list.limit < STASH_REMOVE_MAX ? r->list.limit : STASH_REMOVE_MAX;
    r->call = (struct store_call){ .home = http_home(x), .done = stashes_removed };
    app_call_go(x, page_kept_remove(r), &r->call);
}

const struct http_route app_stash_routes[] = {
    { HTTP_GET, "/v1/admin.stash/{domain}", get_stashes, .permission = "admin.read",
      .label = "admin.stash.list", .admin = true },
    { HTTP_DELETE, "/v1/admin.stash/{domain}", delete_stashes, .permission = "page.purge",
      .label = "admin.stash.remove", .admin = true },
    { .pattern = NULL },
};
