#include "app/page/stash.h"

#include "app/errors.h"
#include "app/headers.h"
#include "app/page/pace.h"
#include "app/page/title.h"
#include "app/token.h"
#include "base/address.h"
#include "base/log.h"
#include "bucket/page_write.h"
#include "codec/json_text.h"
#include "loop/loop.h"

#include <string.h>

_Static_assert((int)STASH_STEPS_MAX > (int)PAGE_DAMAGED_MAX, "a walk comes further each time");

static bool is_proxy(const struct config *c, str address)
{
    struct address a;
    if (c->proxies_count == 0 || !address_parse(address, &a))
        return false;
    for (unsigned i = 0; i < c->proxies_count; i++)
        if (network_holds(&c->proxies[i], &a))
            return true;
    return false;
}

/* The last of X-Forwarded-For that is no proxy of ours: those before it anybody may have
 * written. */
static str forwarded_for(const struct config *c, str field)
{
    for (;;) {
        size_t from = field.n;
        while (from > 0 && field.p[from - 1] != ',')
            from--;
        str last = str_trim(str_skip(field, from));
        if (from == 0 || !is_proxy(c, last))
            return last;
        field = str_take(field, from - 1);
    }
}

/* Where a request comes from, as far as who says it is believed. */
struct asker {
    str addresses[2]; /* a proxy sets one of two fields, and the other may be its client's own: both
                         are paced */
    unsigned count;
    bool own; /* from our own network, through no proxy */
};

/* What is no address is one client together (pace.h). */
static bool is_same(str one, str other)
{
    struct address a, b;
    bool has_a = address_parse(one, &a), has_b = address_parse(other, &b);
    return has_a == has_b && (!has_a || memcmp(a.at, b.at, sizeof a.at) == 0);
}

static void asker_add(struct asker *k, str address)
{
    if (k->count == 0 || !is_same(k->addresses[0], address))
        k->addresses[k->count++] = address;
}

static struct asker asker_of(const struct http_exchange *x, const struct config *c)
{
    struct asker k = { .count = 0 };
    struct address a;
    str peer = http_peer(x), said, path;
    bool is_said = http_header(x, "x-client-ip", &said),
         is_path = http_header(x, "x-forwarded-for", &path);
    bool believed = is_proxy(c, peer) && (is_said || is_path);
    k.own = !is_said && !is_path && address_parse(peer, &a) && address_is_private(&a);
    if (!believed)
        asker_add(&k, peer);
    if (believed && is_path)
        asker_add(&k, forwarded_for(c, path));
    if (believed && is_said)
        asker_add(&k, str_trim(said));
    return k;
}

bool stash_may_ask(struct http_exchange *x, const struct app *app,
                   const struct config_bucket *config)
{
    const struct asker k = asker_of(x, app->config);
    bool may = true;
    for (unsigned i = 0; i < k.count && may && !k.own; i++)
        may = pace_take(app->pace, k.addresses[i], config->stash_per_s_max, clock_mono(app->clock));
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

struct pace *stash_pace_new(const struct config *config, uint64_t seed)
{
    int64_t ttl_ns = 0;
    for (unsigned i = 0; i < config->buckets_count; i++)
        if (config->buckets[i].page.policy.stash_ttl_ns > ttl_ns)
            ttl_ns = config->buckets[i].page.policy.stash_ttl_ns;
    return pace_new(seed, config->buckets[0].stash_bytes_max, ttl_ns);
}

bool stash_take(const struct app *app, uint64_t n)
{
    return pace_keep(app->pace, n, clock_store(app->clock));
}

void stash_keep(const struct app *app, uint64_t taken, uint64_t kept)
{
    if (kept < taken)
        pace_give(app->pace, taken - kept);
    else if (kept > taken) /* a pin on it ended meanwhile, or what was there already is larger than
                              what was sent */
        pace_keep_too(app->pace, kept - taken, clock_store(app->clock));
}

void stash_keep_put(const struct app *app, uint64_t taken, const struct page_put *put)
{
    bool stored = put->call.why == ERR_OK;
    stash_keep(app, taken, stored ? stash_part(put->bytes, put->pinned_ns, put->stash_ns) : 0);
}

uint64_t stash_put_bytes(const struct page_put *put)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < put->contents_count; i++)
        n += (uint64_t)put->contents[i].headers.n + put->contents[i].raw.n;
    return n;
}

uint64_t stash_part(uint64_t n, int64_t pinned_ns, int64_t ttl_ns)
{
    if (pinned_ns <= 0)
        return 0;
    if (pinned_ns >= ttl_ns || ttl_ns == INT64_MAX) /* of never there are no parts */
        return n;
    return (uint64_t)((double)n * ((double)pinned_ns / (double)ttl_ns));
}

uint64_t stash_pin_bytes(const struct page_render *r, int64_t ttl_ns, store_time now)
{
    store_time until = store_time_add(now, ttl_ns);
    store_time from = store_time_before(now, r->stash_until) ? r->stash_until : now;
    return stash_part(page_render_bytes(r), until.ns - from.ns, ttl_ns);
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
    struct page_stash_walk walk;
    struct kept *items;
    bool failed, more;
};

static struct page_bucket *bucket_at(const struct kept_list *l, unsigned at)
{
    const struct config *c = l->app->config;
    return at < c->buckets_count
               ? page_store_bucket(l->app->pages, str_of(c->buckets[at].page.name))
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

/* Fills l. Thread: handler's. */
static err kept_find(struct kept_list *l)
{
    const struct page_each each = { .render = keep_item, .damaged = keep_damaged, .ctx = l };
    unsigned last = l->app->config->buckets_count;
    struct engine_view *v = engine_view_begin(l->app->engine);
    err why = ERR_OK;
    for (;; l->at++) {
        bool users = is_preview(l); /* titles stand behind them */
        l->walk.title = users ? STR("") : l->target.title;
        if (bucket_at(l, l->at) != NULL)
            why = page_stashes(bucket_at(l, l->at), v, &l->walk, &each, &l->more);
        if (why != ERR_OK || l->more || l->at == last)
            break;
        l->walk.after = (struct page_place){ .title_bytes = 0 };
    }
    engine_view_end(&v);
    if (l->damaged > 0)
        log_event(l->app->log, LOG_ERROR, "page.damaged", LOG_STR("domain", l->target.domain->name),
                  LOG_INT("rows", l->damaged),
                  LOG_CSTR("what", "left out of stashes; palimpsest check names all damage"));
    return why == ERR_OK && l->failed ? ERR_LIMIT : why;
}

/* ---- where the next answer goes on: "BUCKET REV TID TITLE" ---- */

static str next_of(const struct kept_list *l)
{
    struct arena *a = http_arena(l->x);
    const struct page_place *p = &l->walk.after;
    char tid[TID_TEXT_BYTES + 1];
    tid_format(p->name.tid, tid);
    return token_of_title(a,
                          arena_printf(a, "%u %llu %s %.*s", l->at, (unsigned long long)p->name.rev,
                                       tid, (int)p->title_bytes, p->title));
}

static bool read_place(struct kept_list *l, str token)
{
    str rest, tid;
    uint64_t at;
    struct page_place p;
    if (!token_to_title(http_arena(l->x), token, &rest) ||
        !str_to_u64(str_split(&rest, ' '), &at) || at > l->app->config->buckets_count ||
        !str_to_u64(str_split(&rest, ' '), &p.name.rev))
        return false;
    tid = str_split(&rest, ' ');
    p.title_bytes = rest.n;
    if (rest.n > sizeof p.title || (rest.n > 0 && !tid_parse(tid, &p.name.tid)))
        return false;
    memcpy(p.title, rest.p, rest.n);
    l->at = (unsigned)at;
    l->walk.after = p;
    return true;
}

/* ---- listing ---- */

/* {domain}, ?title=, ?page=. False: answered. */
static bool parse_list(struct kept_list *l)
{
    struct http_exchange *x = l->x;
    struct err_note note = { { 0 } };
    struct title_seen seen;
    str title, page;
    bool bad = false;
    l->target = (struct page_target){ .domain = app_domain_find(l->app, http_param(x, "domain")),
                                      .title = STR("") };
    if (l->target.domain == NULL) {
        app_problem(x, 404, "domain_not_found", NULL, STR("This domain is not configured."),
                    STR_NONE);
        return false;
    }
    if (!app_page_listing(x, &l->limit, &page))
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
    if (page.p != NULL && !read_place(l, page)) {
        app_problem(x, 400, "bad_request#invalid_paging_token", NULL,
                    STR("page is not a token that a listing gave."), STR_NONE);
        return false;
    }
    l->walk.domain = l->target.domain->number;
    l->walk.steps = STASH_STEPS_MAX;
    return true;
}

static struct kept_list *list_new(struct http_exchange *x, const struct app *app,
                                  unsigned limit_max)
{
    struct kept_list *l = arena_calloc(http_arena(x), 1, sizeof *l);
    if (l == NULL) {
        app_fail(x, ERR_LIMIT, NULL);
        return NULL;
    }
    *l = (struct kept_list){ .x = x, .app = app };
    if (!parse_list(l))
        return NULL;
    l->limit = l->limit < limit_max ? l->limit : limit_max;
    l->items = arena_calloc(http_arena(x), l->limit, sizeof *l->items);
    err why = l->items == NULL ? ERR_LIMIT : kept_find(l);
    if (why == ERR_OK)
        return l;
    app_fail(x, why, NULL);
    return NULL;
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
    if (l->more)
        buf_printf(b, ",\"next\":\"%.*s\"", STR_ARG(next_of(l)));
    buf_put_c(b, '}');
}

static void get_stashes(struct http_exchange *x, void *app)
{
    const struct kept_list *l = list_new(x, app, LISTING_LIMIT_MAX);
    struct buf b;
    if (l == NULL)
        return;
    buf_init(&b, LISTING_BYTES_MAX);
    buf_put(&b, STR("{\"items\":["));
    for (unsigned i = 0; i < l->count; i++) {
        if (i > 0)
            buf_put_c(&b, ',');
        put_kept(&b, http_arena(x), &l->items[i]);
    }
    buf_put_c(&b, ']');
    put_next(&b, l);
    app_page_answer_buf(x, 200, &b, STR_NONE);
    buf_fini(&b);
}

/* ---- removing ---- */

struct removal {
    struct kept_list *list;
    struct home *home;
    struct page_order order;
    unsigned done;
    uint64_t bytes;
    err why;
};

static void removal_answer(struct removal *r)
{
    struct buf b;
    if (r->why != ERR_OK) {
        app_fail(r->list->x, r->why, &r->order.note);
        return;
    }
    buf_init(&b, LISTING_BYTES_MAX);
    buf_printf(&b, "{\"removed\":%u,\"bytes\":%llu", r->done, (unsigned long long)r->bytes);
    put_next(&b, r->list);
    app_page_answer_buf(r->list->x, 200, &b, STR_NONE);
    buf_fini(&b);
}

/* The last one was removed: what it took of the quota is free again. */
static void give_back(struct removal *r)
{
    const struct app *app = r->list->app;
    const struct kept *k = &r->list->items[r->done - 1];
    int64_t ttl_ns = page_store_bucket_opts(app->pages, k->bucket)->policy.stash_ttl_ns;
    r->bytes += k->bytes;
    stash_keep(app, stash_part(k->bytes, r->order.pinned_ns, ttl_ns), 0);
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
    const struct kept_list *l = r->list;
    if (r->why == ERR_OK && r->done > 0)
        give_back(r);
    if (r->why != ERR_OK || r->done == l->count) {
        removal_answer(r);
        return;
    }
    const struct kept *k = &l->items[r->done++];
    bool preview = k->bucket_name == NULL;
    r->order = (struct page_order){
        .call = { .deadline = app_page_deadline(l->app), .home = r->home, .done = removal_did },
        .bucket = k->bucket,
        .kind = ORDER_UNSTASH,
        .domain = l->target.domain->number,
        .title = k->key,
        .has_rev = true,
        .has_tid = true,
        .name = k->name,
        .drop = preview
    };
    if (preview)
        r->order.name.rev++;
    store_call_then(page_store_order(l->app->pages, &r->order), &r->order.call);
}

static void delete_stashes(struct http_exchange *x, void *app)
{
    struct removal *r = arena_calloc(http_arena(x), 1, sizeof *r);
    if (r == NULL || !app_page_may_wait(x)) {
        if (r == NULL)
            app_fail(x, ERR_LIMIT, NULL);
        return;
    }
    r->list = list_new(x, app, STASH_REMOVE_MAX);
    if (r->list == NULL)
        return;
    r->home = http_home(x);
    http_defer(x);
    removal_next(r);
}

const struct http_route app_stash_routes[] = {
    { HTTP_GET, "/v1/admin.stash/{domain}", get_stashes, .permission = "admin.read",
      .label = "admin.stash.list", .admin = true },
    { HTTP_DELETE, "/v1/admin.stash/{domain}", delete_stashes, .permission = "page.purge",
      .label = "admin.stash.remove", .admin = true },
    { .pattern = NULL },
};
