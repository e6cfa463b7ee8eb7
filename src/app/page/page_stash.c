#include "app/page/page_stash.h"

#include "app/answer.h"
#include "app/errors.h"
#include "app/page/page_title.h"
#include "base/log.h"
#include "codec/base64.h"
#include "codec/json_text.h"
#include "http/pace.h"
#include "loop/loop.h"
#include "page/quota.h"

#include <string.h>

_Static_assert((int)STASH_STEPS_MAX > (int)PAGE_DAMAGED_MAX, "a walk comes further each time");

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

/* ---- how much ---- */

struct page_quota *stash_quota_new(const struct config *config)
{
    int64_t ttl_ns = 0;
    for (unsigned i = 0; i < config->buckets_count; i++)
        if (config->buckets[i].page.policy.stash_ttl_ns > ttl_ns)
            ttl_ns = config->buckets[i].page.policy.stash_ttl_ns;
    return page_quota_new(config->buckets[0].stash_bytes_max, ttl_ns);
}

void stash_answer_full(struct http_exchange *x)
{
    app_problem(x, 507, "stash_full", NULL,
                STR("Too much is kept for editors already (page.stash_bytes_max)."), STR_NONE);
}

/* ---- what is kept ---- */

/* A row of it. */
struct kept {
    struct page_bucket *bucket;
    const char *bucket_name; /* NULL: a preview */
    str key, title;          /* as stored; of the page */
    str user;                /* digits; empty: nobody in particular */
    struct page_name name;
    store_time until;
    uint64_t bytes;
};
/* One answer's part of it: page buckets in the order of the configuration, then previews. */
struct kept_list {
    struct http_exchange *x;
    const struct app *app;
    struct page_target target; /* title empty: all of the domain */
    unsigned limit, count, at, damaged;
    struct page_list list; /* of the bucket at which it is */
    struct kept *items;
    bool failed, deferred;
    struct home *home;
    err why;
    void (*done)(struct kept_list *l); /* it is filled */
};

static struct page_bucket *bucket_at(const struct kept_list *l, unsigned at)
{
    const struct config *c = l->app->config;
    return at < c->buckets_count
               ? page_store_bucket(l->app->page.store, str_of(c->buckets[at].page.name))
               : l->app->stash;
}

static bool is_preview(const struct kept_list *l)
{
    return l->at == l->app->config->buckets_count;
}

static bool keep_item(void *ctx, str key, const struct page_render *r)
{
    struct kept_list *l = ctx;
    size_t mark = is_preview(l) ? str_find(key, '#') : key.n;
    str title = mark < key.n ? str_skip(key, mark + 1) : key;
    if (l->target.title.n > 0 && !str_eq(title, l->target.title))
        return true;
    if (l->count == l->limit)
        return false;
    struct kept *k = &l->items[l->count++];
    *k = (struct kept){ .bucket = bucket_at(l, l->at),
                        .key = arena_copy(http_arena(l->x), key),
                        .name = r->name,
                        .until = r->stash_until,
                        .bytes = page_render_bytes(r) };
    k->title = str_skip(k->key, key.n - title.n);
    k->user = mark < key.n ? str_take(k->key, mark) : STR("");
    l->failed = l->failed || k->key.p == NULL;
    if (!is_preview(l))
        k->bucket_name = l->app->config->buckets[l->at].page.name;
    else
        k->name.rev--; /* transform.c keeps it one higher */
    return true;
}

static bool keep_damaged(void *ctx, str title, const struct page_name *name)
{
    struct kept_list *l = ctx;
    (void)title; /* palimpsest check names it */
    (void)name;
    l->damaged++;
    return true;
}

static void kept_over(struct kept_list *l)
{
    l->why = l->list.call.why;
    if (l->why == ERR_OK && l->failed)
        l->why = ERR_LIMIT;
    if (l->damaged > 0)
        log_event(l->app->log, LOG_ERROR, "page.damaged", LOG_STR("domain", l->target.domain->name),
                  LOG_INT("rows", l->damaged),
                  LOG_CSTR("what", "left out of stashes; palimpsest check names all damage"));
    l->done(l);
}

static void kept_next(struct kept_list *l);

static void kept_listed(struct store_call *c)
{
    struct kept_list *l = CONTAINER_OF(c, struct kept_list, list.call);
    if (c->why != ERR_OK || l->list.next.n > 0 || l->at == l->app->config->buckets_count) {
        kept_over(l);
        return;
    }
    l->at++;
    l->list.from = STR("");
    kept_next(l);
}

/* What is kept in the bucket at which l is. Without origins there is none for previews. */
static void kept_next(struct kept_list *l)
{
    l->list.bucket = bucket_at(l, l->at);
    l->list.title = is_preview(l) ? STR("") : l->target.title; /* titles stand behind users */
    l->list.call = (struct store_call){ .home = l->home, .done = kept_listed };
    l->list.next = STR("");
    if (l->list.bucket == NULL || page_store_list(l->app->page.store, &l->list) == STORE_DONE) {
        kept_listed(&l->list.call);
    } else if (!l->deferred) {
        l->deferred = true;
        http_defer(l->x);
    }
}

/* ---- where the next answer goes on: the number of the bucket in a byte, and the store's token
 * ----
 */

static str next_of(const struct kept_list *l)
{
    struct arena *a = http_arena(l->x);
    char *bytes = arena_alloc(a, 1 + l->list.next.n);
    if (bytes == NULL)
        return STR_NONE;
    bytes[0] = (char)l->at;
    memcpy(bytes + 1, l->list.next.p, l->list.next.n);
    return base64_url(a, (str){ .p = bytes, .n = 1 + l->list.next.n });
}

static bool from_take(struct kept_list *l, str from)
{
    l->at = from.n > 0 ? (unsigned char)from.p[0] : 0;
    l->list.from = str_skip(from, from.n > 0);
    return l->at <= l->app->config->buckets_count;
}

/* ---- listing ---- */

/* {domain}, ?title=, ?page=. False: answered. */
static bool parse_list(struct kept_list *l)
{
    struct http_exchange *x = l->x;
    struct err_note note = { { 0 } };
    struct page_title_seen seen;
    str title, from;
    bool bad = false;
    l->target =
        (struct page_target){ .domain = page_domain_find(&l->app->page, http_param(x, "domain")),
                              .title = STR("") };
    if (l->target.domain == NULL) {
        app_problem(x, 404, "domain_not_found", NULL, STR("This domain is not configured."),
                    STR_NONE);
        return false;
    }
    if (!app_page_listing(x, &l->limit, &from))
        return false;
    if (http_query(x, "title", &title)) {
        err why = page_title_key(http_arena(x), title, &l->target.title, &note);
        if (why != ERR_OK) {
            app_problem(x, 400, "bad_request#invalid_title", NULL, str_of(note.text), STR_NONE);
            return false;
        }
        if (!title_settle(x, &l->target, &seen, &bad) && bad)
            return false;
    }
    if (!from_take(l, from)) {
        app_page_bad_token(x);
        return false;
    }
    return true;
}

/* Fills l, whose done is called then; or answers. Thread: handler's. */
static void kept_start(struct kept_list *l, struct http_exchange *x, const struct app *app,
                       unsigned limit_max)
{
    l->x = x;
    l->app = app;
    l->home = http_home(x);
    if (!parse_list(l))
        return;
    l->limit = l->limit < limit_max ? l->limit : limit_max;
    l->items = arena_calloc(http_arena(x), l->limit, sizeof *l->items);
    if (l->items == NULL) {
        app_fail(x, ERR_LIMIT, NULL);
        return;
    }
    l->list.what = LIST_STASHES;
    l->list.domain = l->target.domain->number;
    l->list.steps = STASH_STEPS_MAX;
    l->list.each = (struct page_each){ .render = keep_item, .damaged = keep_damaged, .ctx = l };
    l->list.arena = http_arena(x);
    kept_next(l);
}

/* False: it failed, which is answered. */
static bool kept_is_fine(struct kept_list *l)
{
    if (l->why == ERR_BAD)
        app_page_bad_token(l->x);
    else if (l->why != ERR_OK)
        app_fail(l->x, l->why, NULL);
    return l->why == ERR_OK;
}

static void put_kept(struct buf *b, struct arena *a, const struct kept *k)
{
    buf_printf(b, "{\"kind\":\"%s\",\"bucket\":", k->bucket_name == NULL ? "preview" : "pin");
    buf_put(b, k->bucket_name == NULL ? STR("null") : json_text_quote(a, str_of(k->bucket_name)));
    buf_printf(b, ",\"title\":%.*s,", STR_ARG(json_text_quote(a, k->title)));
    pagejson_name(b, k->name);
    buf_printf(b, ",\"user\":%.*s", STR_ARG(k->user.n == 0 ? STR("null") : k->user));
    pagejson_time(b, "until", k->until);
    buf_printf(b, ",\"bytes\":%llu}", (unsigned long long)k->bytes);
}

static void put_next(struct buf *b, const struct kept_list *l)
{
    if (l->list.next.n > 0)
        buf_printf(b, ",\"next\":\"%.*s\"", STR_ARG(next_of(l)));
    buf_put_c(b, '}');
}

static void answer_stashes(struct kept_list *l)
{
    struct buf b;
    if (!kept_is_fine(l))
        return;
    buf_init(&b, LISTING_BYTES_MAX);
    buf_put(&b, STR("{\"items\":["));
    for (unsigned i = 0; i < l->count; i++) {
        if (i > 0)
            buf_put_c(&b, ',');
        put_kept(&b, http_arena(l->x), &l->items[i]);
    }
    buf_put_c(&b, ']');
    put_next(&b, l);
    app_page_answer_buf(l->x, 200, &b, STR_NONE);
    buf_fini(&b);
}

static void get_stashes(struct http_exchange *x, void *app)
{
    struct kept_list *l = arena_calloc(http_arena(x), 1, sizeof *l);
    if (l == NULL) {
        app_fail(x, ERR_LIMIT, NULL);
        return;
    }
    l->done = answer_stashes;
    kept_start(l, x, app, LISTING_LIMIT_MAX);
}

/* ---- removing ---- */

struct removal {
    struct kept_list list;
    struct page_order order;
    unsigned done;
    uint64_t bytes;
    err why;
};

static void removal_answer(struct removal *r)
{
    struct buf b;
    if (r->why != ERR_OK) {
        app_fail(r->list.x, r->why, &r->order.note);
        return;
    }
    buf_init(&b, LISTING_BYTES_MAX);
    buf_printf(&b, "{\"removed\":%u,\"bytes\":%llu", r->done, (unsigned long long)r->bytes);
    put_next(&b, &r->list);
    app_page_answer_buf(r->list.x, 200, &b, STR_NONE);
    buf_fini(&b);
}

/* The last one was removed: what it took of the quota is free again. */
static void give_back(struct removal *r)
{
    const struct app *app = r->list.app;
    const struct kept *k = &r->list.items[r->done - 1];
    int64_t ttl_ns = page_store_bucket_opts(app->page.store, k->bucket)->policy.stash_ttl_ns;
    r->bytes += k->bytes;
    page_stash_keep(&app->page, page_stash_part(k->bytes, r->order.pinned_ns, ttl_ns), 0);
}

static void removal_next(struct removal *r);

static void removal_did(struct store_call *c)
{
    struct removal *r = CONTAINER_OF(c, struct removal, order.call);
    r->why = c->why;
    removal_next(r);
}

static void removal_next(struct removal *r)
{
    const struct kept_list *l = &r->list;
    if (r->why == ERR_OK && r->done > 0)
        give_back(r);
    if (r->why != ERR_OK || r->done == l->count) {
        removal_answer(r);
        return;
    }
    const struct kept *k = &l->items[r->done++];
    bool preview = k->bucket_name == NULL;
    r->order = (struct page_order){ .call = { .deadline = page_write_deadline(&l->app->page),
                                              .home = l->home,
                                              .done = removal_did },
                                    .bucket = k->bucket,
                                    .kind = ORDER_UNSTASH,
                                    .domain = l->target.domain->number,
                                    .title = k->key,
                                    .has_rev = true,
                                    .has_tid = true,
                                    .name = k->name,
                                    .drop = preview };
    if (preview)
        r->order.name.rev++;
    store_call_then(page_store_order(l->app->page.store, &r->order), &r->order.call);
}

static void removal_start(struct kept_list *l)
{
    if (!kept_is_fine(l))
        return;
    if (!l->deferred)
        http_defer(l->x);
    removal_next(CONTAINER_OF(l, struct removal, list));
}

static void delete_stashes(struct http_exchange *x, void *app)
{
    struct removal *r = arena_calloc(http_arena(x), 1, sizeof *r);
    if (r == NULL || !app_page_may_wait(x)) {
        if (r == NULL)
            app_fail(x, ERR_LIMIT, NULL);
        return;
    }
    r->list.done = removal_start;
    kept_start(&r->list, x, app, STASH_REMOVE_MAX);
}

const struct http_route app_stash_routes[] = {
    { HTTP_GET, "/v1/admin.stash/{domain}", get_stashes, .permission = "admin.read",
      .label = "admin.stash.list", .admin = true },
    { HTTP_DELETE, "/v1/admin.stash/{domain}", delete_stashes, .permission = "page.purge",
      .label = "admin.stash.remove", .admin = true },
    { .pattern = NULL },
};
