/* page_stash.c - what clients keep for the life of an edit: who may, and what an operator asks. */
#include "app/page/page_stash.h"

#include "app/answer.h"
#include "app/errors.h"
#include "app/page/page_title.h"
#include "codec/base64.h"
#include "codec/json_text.h"
#include "http/pace.h"
#include "page/kept.h"

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
    bool may = true;
    for (unsigned i = 0; i < k.count && may && !k.own; i++)
        may =
            pace_take(app->pace, k.addresses[i], settings->stash_per_s_max, clock_mono(app->clock));
    if (may)
        return true;
    http_reply_header(x, STR("retry-after"), STR("1"));
    app_problem(x, 429, "request_rate_exceeded", NULL,
                STR("Too many requests with stash=true from this address (stash_per_s_max; the "
                    "clients of a proxy "
                    "count as one unless http.trusted_proxies names it)."),
                STR_NONE);
    return false;
}

void stash_answer_full(struct http_exchange *x)
{
    app_problem(x, 507, "stash_full", NULL,
                STR("Too much is kept for editors already (page.stash_bytes_max)."), STR_NONE);
}

/* ---- what is kept ---- */

struct kept_call {
    struct page_kept_removal removal; /* or its list alone */
    struct http_exchange *x;
};

/* {domain}, ?title=, ?limit=, ?page=. False: answered. */
static bool kept_parse(struct kept_call *k, const struct app *app, unsigned limit_max)
{
    struct http_exchange *x = k->x;
    struct page_kept_list *l = &k->removal.list;
    struct err_note note = { { 0 } };
    struct page_target target = { .domain = page_domain_find(&app->page, http_param(x, "domain")),
                                  .title = STR("") };
    str title;
    if (target.domain == NULL) {
        app_problem(x, 404, "domain_not_found", NULL, STR("This domain is not configured."),
                    STR_NONE);
        return false;
    }
    if (!app_page_listing(x, &l->limit, &l->from))
        return false;
    if (http_query(x, "title", &title)) {
        err why = page_title_key(http_arena(x), title, &target.title, &note);
        if (why != ERR_OK) {
            app_problem(x, 400, "bad_request#invalid_title", NULL, str_of(note.text), STR_NONE);
            return false;
        }
        if (!title_settle(x, &target))
            return false;
    }
    l->service = &app->page;
    l->domain = target.domain;
    l->title = target.title;
    l->limit = l->limit < limit_max ? l->limit : limit_max;
    l->arena = http_arena(x);
    return true;
}

/* NULL: answered. */
static struct kept_call *kept_new(struct http_exchange *x, const struct app *app,
                                  unsigned limit_max)
{
    struct kept_call *k = app_new(x, sizeof *k);
    if (k == NULL)
        return NULL;
    k->x = x;
    return kept_parse(k, app, limit_max) ? k : NULL;
}

/* False: it failed, which is answered. */
static bool kept_is_fine(struct kept_call *k)
{
    err why = k->removal.list.call.why;
    if (why == ERR_BAD)
        app_page_bad_token(k->x);
    else if (why != ERR_OK)
        app_fail(k->x, why, NULL);
    return why == ERR_OK;
}

static void put_kept(struct buf *b, struct arena *a, const struct page_kept *k)
{
    buf_printf(b, "{\"kind\":\"%s\",\"bucket\":", k->bucket_name == NULL ? "preview" : "pin");
    buf_put(b, k->bucket_name == NULL ? STR("null") : json_text_quote(a, str_of(k->bucket_name)));
    buf_printf(b, ",\"title\":%.*s,", STR_ARG(json_text_quote(a, k->title)));
    pagejson_name(b, k->name);
    buf_printf(b, ",\"user\":%.*s", STR_ARG(k->user.n == 0 ? STR("null") : k->user));
    pagejson_time(b, "until", k->until);
    buf_printf(b, ",\"bytes\":%llu}", (unsigned long long)k->bytes);
}

/* The last member, and the end. */
static void kept_answer(struct kept_call *k, struct buf *b)
{
    str next = k->removal.list.next;
    if (next.n > 0)
        buf_printf(b, ",\"next\":\"%.*s\"", STR_ARG(base64_url(http_arena(k->x), next)));
    buf_put_c(b, '}');
    app_page_answer_buf(k->x, 200, b, STR_NONE);
}

static void stashes_listed(struct store_call *c)
{
    struct kept_call *k = CONTAINER_OF(c, struct kept_call, removal.list.call);
    const struct page_kept_list *l = &k->removal.list;
    struct buf b;
    if (!kept_is_fine(k))
        return;
    buf_init(&b, LISTING_BYTES_MAX);
    buf_put(&b, STR("{\"items\":["));
    for (unsigned i = 0; i < l->count; i++) {
        if (i > 0)
            buf_put_c(&b, ',');
        put_kept(&b, http_arena(k->x), &l->items[i]);
    }
    buf_put_c(&b, ']');
    kept_answer(k, &b);
}

static void get_stashes(struct http_exchange *x, void *app)
{
    struct kept_call *k = kept_new(x, app, LISTING_LIMIT_MAX);
    if (k == NULL)
        return;
    struct page_kept_list *l = &k->removal.list;
    l->call = (struct store_call){ .home = http_home(x), .done = stashes_listed };
    app_page_call(x, page_kept_list(l), &l->call);
}

static void stashes_removed(struct store_call *c)
{
    struct kept_call *k = CONTAINER_OF(c, struct kept_call, removal.call);
    const struct page_kept_removal *r = &k->removal;
    struct buf b;
    if (!kept_is_fine(k))
        return;
    if (c->why != ERR_OK) {
        app_fail(k->x, c->why, &r->order.note);
        return;
    }
    buf_init(&b, LISTING_BYTES_MAX);
    buf_printf(&b, "{\"removed\":%u,\"bytes\":%llu", r->removed, (unsigned long long)r->bytes);
    kept_answer(k, &b);
}

static void delete_stashes(struct http_exchange *x, void *app)
{
    if (!app_page_may_wait(x))
        return;
    struct kept_call *k = kept_new(x, app, STASH_REMOVE_MAX);
    if (k == NULL)
        return;
    struct page_kept_removal *r = &k->removal;
    r->call = (struct store_call){ .home = http_home(x), .done = stashes_removed };
    app_page_call(x, page_kept_remove(r), &r->call);
}

const struct http_route app_stash_routes[] = {
    { HTTP_GET, "/v1/admin.stash/{domain}", get_stashes, .permission = "admin.read",
      .label = "admin.stash.list", .admin = true },
    { HTTP_DELETE, "/v1/admin.stash/{domain}", delete_stashes, .permission = "page.purge",
      .label = "admin.stash.remove", .admin = true },
    { .pattern = NULL },
};
