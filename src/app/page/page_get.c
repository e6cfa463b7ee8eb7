/* GET of one content. The way of a request:
 *
 *   look: read, deciding which bytes are wanted -> answer
 *      |    |                      \-> extend or stash -> answer
 *      |    \-> to be made anew -\
 *      \-> missing, with an origin -> settle the title, make (page_miss.c) -> look -> as above
 *
 * All but what page_miss.c waits for runs on the worker that owns the request. A read that names a
 * revision answers only after its longer life is on disk. */
#include "app/page/page_get.h"
#include "app/counters.h"
#include "app/errors.h"
#include "app/headers.h"
#include "app/page/bundle.h"
#include "app/page/profile.h"
#include "app/page/stash.h"
#include "auth/auth.h"
#include "base/date.h"

/* A render that is older than this is made anew for who wants a newer specification. */
#define PROFILE_AGE_NS (120 * NS_PER_S)

static void answer(struct page_get *g);

/* ---- waiting ---- */

void page_get_defer(struct page_get *g)
{
    g->deadline = app_wait_deadline(g->x, g->app);
    g->deferred = true;
    http_defer(g->x);
}

err page_get_decode(struct page_get *g)
{
    const struct page_body *body = &g->read.bodies[0];
    if (g->coding == CODING_IDENTITY)
        return page_body_raw(body, g->arena, &g->body);
    g->body = page_body_whole(body, g->arena);
    return g->body.p == NULL ? ERR_LIMIT : ERR_OK;
}

/* Once the stored headers are known: a redirect, or a specification the client does not want? */
static void inspect(struct page_get *g)
{
    str type;
    if (!page_miss_can(g))
        return;
    bool redirects =
        g->follow && headers_find(g->read.bodies[0].headers, STR("location"), &g->location);
    g->unfollowed =
        redirects && g->no_cache; /* who has it made anew wants this page, not the other */
    if (redirects && !g->no_cache) {
        g->status = 302;
        return;
    }
    if (!g->profiled || !headers_find(g->read.bodies[0].headers, STR("content-type"), &type))
        return;
    enum profile_verdict verdict = profile_judge(g->arena, http_common(g->x)->accept, type);
    store_time young = store_time_add(tid_time(g->read.render.name.tid), PROFILE_AGE_NS);
    bool may_renew = g->how == HOW_HIT && !g->target.has_tid && !g->negotiated &&
                     store_time_before(young, clock_store(g->app->clock));
    if (verdict == PROFILE_NEWER && may_renew)
        g->found = FOUND_OLD;
    else if (verdict != PROFILE_SERVES)
        g->status = 406;
}

/* From the bytes of the content, just read, to what is answered. */
static err take(struct page_get *g)
{
    inspect(g);
    bool has_body = g->status == 200 || g->status == 206 || g->status == 302;
    return g->found == FOUND_READY && has_body ? page_get_decode(g) : ERR_OK;
}

void page_get_fail(struct page_get *g, err why, const struct page_trace *trace,
                   const struct err_note *note)
{
    if (why == ERR_GONE)
        counters_read(g->app->counters, READ_GONE);
    app_page_fail(g->x, g->app, why, trace, note);
}

static void order_done(struct store_call *c)
{
    struct page_get *g = CONTAINER_OF(c, struct page_get, order.call);
    const struct page_order *o = &g->order;
    int64_t ttl_ns = g->target.config->page.policy.stash_ttl_ns;
    uint64_t n = page_render_bytes(&g->read.render);
    stash_keep(g->app, g->taken, c->why == ERR_OK ? stash_part(n, o->pinned_ns, ttl_ns) : 0);
    bool unwritten = c->why == ERR_FULL &&
                     o->kind == ORDER_EXTEND; /* it is there, and lives as long as it was given */
    g->extended = true;
    if (c->why == ERR_OK || unwritten)
        answer(g);
    else
        page_get_fail(g, c->why, &o->trace, &o->note);
}

static void order_start(struct page_get *g)
{
    g->order = (struct page_order){
        .call = { .deadline = app_page_deadline(g->app), .home = g->home, .done = order_done },
        .bucket = g->target.bucket,
        .kind = g->stash ? ORDER_STASH : ORDER_EXTEND,
        .domain = g->read.which.domain,
        .title = g->target.title,
        .has_rev = true,
        .has_tid = true,
        .name = g->read.render.name,
        .named = g->named
    };
    store_call_then(page_store_order(g->app->pages, &g->order), &g->order.call);
}

static void again_run(struct task *t)
{
    page_get_look(CONTAINER_OF(t, struct page_get, again));
}

void page_get_again(struct page_get *g)
{
    INVARIANT(g->deferred);
    g->again.run = again_run;
    home_post(g->home, &g->again);
}

/* ---- redirects of the wiki ---- */

/* Scripts of another site cannot follow a redirect: they get the page it leads to. False: nothing
 * to follow. */
static bool follow(struct page_get *g)
{
    str origin, key;
    if (g->status != 302 || g->hops == PAGE_HOPS_MAX || !http_header(g->x, "origin", &origin))
        return false;
    if (http_decode(g->arena, str_take(g->location, str_find(g->location, '#')), false, &key) !=
        ERR_OK)
        return false;
    if (!g->deferred && !app_page_may_wait(g->x))
        return true;
    if (!g->deferred)
        page_miss_defer(g);
    if (g->hops++ == 0)
        g->from = (struct page_from){ .target = g->target,
                                      .name = g->read.render.name,
                                      .how = g->how,
                                      .how_detail = g->how_detail,
                                      .named = g->named };
    g->target.title = key;
    g->target.has_rev = g->named = g->made = g->settled = false;
    g->how = HOW_HIT;
    g->how_detail = NULL;
    g->unlike = true; /* the answer stands under another title than its own */
    g->read.which = page_target_which(&g->target);
    page_get_again(g);
    return true;
}

bool page_get_turn_back(struct page_get *g)
{
    if (g->hops == 0)
        return false;
    g->hops = 0;
    g->follow = g->no_cache = false;
    g->made = g->settled = true; /* it is there: nothing more is asked for */
    g->target = g->from.target;
    g->how = g->from.how;
    g->how_detail = g->from.how_detail;
    g->named = g->from.named;
    g->read.which = page_target_which(&g->target);
    g->read.which.select = SELECT_EXACT;
    g->read.which.name = g->from.name;
    page_get_again(g);
    return true;
}

static void answer(struct page_get *g)
{
    if (!follow(g))
        page_get_answer(g);
}

/* ---- finding ---- */

/* What the request selects. False: answered. */
static bool select_render(struct page_get *g)
{
    struct http_exchange *x = g->x;
    const struct http_common *c = http_common(x);
    str text;
    g->read.which = page_target_which(&g->target);
    g->named = g->target.has_rev; /* reads of latest and of an instant extend no life */
    if (http_query_raw(x).n > 0 && http_query(x, "at", &text)) {
        bool fine = date_parse_any(text, &g->read.which.at.ns);
        if (!fine || g->target.has_rev) {
            app_problem(x, 400, "bad_request#invalid_instant", NULL,
                        fine ? STR("With at the path names no revision.")
                             : STR("at is " DATE_WANTED "."),
                        STR_NONE);
            return false;
        }
        g->read.which.select = SELECT_SERVED_AT;
        g->negotiated = true;
    } else if (c->accept_datetime.n > 0 && !g->target.has_rev) {
        if (!date_parse_http(c->accept_datetime, &g->read.which.at.ns)) {
            app_problem(x, 400, "bad_request#invalid_datetime", NULL,
                        STR("Accept-Datetime is an HTTP date, of the years " DATE_YEAR_FIRST
                            " to " DATE_YEAR_LAST "."),
                        STR_NONE);
            return false;
        }
        g->read.which.select = SELECT_CURRENT_AT;
        g->negotiated = true;
    }
    bool plain = http_query_raw(x).n == 0;
    if (!plain &&
        (!app_page_flag(x, "stash", &g->stash) || !app_page_flag(x, "redirect", &g->follow)))
        return false;
    g->no_cache = !g->negotiated && !g->target.has_tid &&
                  http_cache_control_has(c->cache_control, STR("no-cache"));
    return true;
}

/* Can a ready answer be made of it, and serve those that ask the same? */
static bool is_plain(struct http_exchange *x)
{
    const struct http_common *c = http_common(x);
    return http_query_raw(x).n == 0 && !c->any_conditional && c->cache_control.n == 0 &&
           c->accept_datetime.n == 0;
}

static void answer_missing(struct page_get *g)
{
    if (page_get_turn_back(g))
        return;
    if (g->why == ERR_NOT_FOUND)
        app_problem(g->x, 404, "not_found", NULL, STR("No such render is stored."), STR_NONE);
    else
        page_get_fail(g, g->why, &g->read.trace, NULL);
}

/* Does a read of it have to make its life longer first? */
static bool must_order(const struct page_get *g)
{
    if (g->status != 200 && g->status != 206 && g->status != 302 && g->status != 304)
        return false;
    return g->stash ||
           (g->named && store_time_before(g->read.lasts_until, clock_store(g->app->clock)));
}

/* A stored redirect or specification stands in the headers, and decides over a 304 too. */
static bool must_read(const struct page_get *g)
{
    return g->status == 200 || g->status == 206 || (g->status == 304 && page_miss_can(g));
}

/* Which bytes are wanted, once the render is known. */
static unsigned choose(struct page_read *r)
{
    struct page_get *g = CONTAINER_OF(r, struct page_get, read);
    g->content = r->contents[0];
    if (g->content == NULL)
        return 0;
    g->found = FOUND_OLD;
    if (g->no_cache && g->how == HOW_HIT && page_miss_can(g) && !page_get_is_younger(g))
        return 0;
    g->found = FOUND_READY;
    page_get_decide(g);
    return must_read(g) ? 1 : 0;
}

static enum page_found found_of(struct page_get *g)
{
    const struct page_read *r = &g->read;
    g->why = r->call.why;
    if (!r->found)
        return g->why == ERR_NOT_FOUND || g->why == ERR_GONE ? FOUND_NOTHING : FOUND_FAILURE;
    if (g->content == NULL)
        return FOUND_NO_CONTENT;
    if (g->why == ERR_OK && r->bodies[0].pieces_count > 0)
        g->why = take(g);
    return g->why == ERR_OK ? g->found : FOUND_FAILURE;
}

static void next(struct page_get *g);

static void read_done(struct store_call *c)
{
    struct page_get *g = CONTAINER_OF(c, struct page_get, read.call);
    g->found = found_of(g);
    next(g);
}

void page_get_look(struct page_get *g)
{
    struct page_read *r = &g->read;
    struct page_store *pages = g->app->pages;
    g->mark = hot_mark(g->app->hot, page_store_bucket_number(pages, g->target.bucket),
                       r->which.domain, g->target.title);
    r->call = (struct store_call){ .home = g->home, .done = read_done };
    r->bucket = g->target.bucket;
    r->arena = g->arena;
    r->wanted_count = 1;
    r->wanted[0] = g->target.content;
    r->choose = choose;
    if (page_store_read(pages, r) == STORE_DONE)
        read_done(&r->call);
    else if (!g->deferred)
        page_get_defer(g);
}

/* False: answered 507. */
static bool may_pin(struct page_get *g)
{
    int64_t ttl_ns = g->target.config->page.policy.stash_ttl_ns;
    g->taken = g->stash ? stash_pin_bytes(&g->read.render, ttl_ns, clock_store(g->app->clock)) : 0;
    if (!g->stash || stash_take(g->app, g->taken))
        return true;
    stash_answer_full(g->x);
    return false;
}

static void go_on(struct page_get *g)
{
    if (!must_order(g)) {
        answer(g);
        return;
    }
    if ((!g->deferred && !app_page_may_wait(g->x)) || !may_pin(g))
        return;
    if (!g->deferred)
        page_get_defer(g);
    order_start(g);
}

/* A purge came between the making of what was waited for and this look. */
static bool was_purged_unread(const struct page_get *g)
{
    return g->made && !g->remade && g->why == ERR_GONE && g->read.trace.state == PAGE_PURGED;
}

/* Every origin gives HTML, and to an editor a 404 is a page that is not there. */
static bool lacks_what_is_made(const struct page_get *g)
{
    return !g->made && str_eq(g->target.content, STR("html")) && page_miss_can(g);
}

static void make_once_more(struct page_get *g)
{
    g->remade = true;
    g->made = false;
    g->read.which = page_target_which(&g->target);
    page_miss_start(g);
}

static void next(struct page_get *g)
{
    switch (g->found) {
    case FOUND_READY:
        go_on(g);
        return;
    case FOUND_OLD:
        page_miss_start(g);
        return;
    case FOUND_NOTHING:
        if (was_purged_unread(g))
            make_once_more(g);
        else if (!g->made && (page_miss_can(g) || page_miss_may_be_unlike(g)))
            page_miss_start(g);
        else
            answer_missing(g);
        return;
    case FOUND_NO_CONTENT:
        if (lacks_what_is_made(g))
            page_miss_start(g);
        else if (!page_get_turn_back(g))
            app_problem(g->x, 404, "not_found#content", NULL,
                        STR("This render has no content of that name."), STR_NONE);
        return;
    case FOUND_FAILURE:
        app_fail(g->x, g->why, NULL);
        return;
    }
}

void app_page_get_content(struct http_exchange *x, void *app)
{
    const struct app *a = app;
    if (auth_enabled(a->auth) && app_page_hot_answer(x, a)) /* open: app_early has looked already */
        return;
    struct page_get *g = arena_calloc(http_arena(x), 1, sizeof *g);
    if (g == NULL) {
        app_fail(x, ERR_LIMIT, NULL);
        return;
    }
    g->x = x;
    g->app = a;
    g->arena = http_arena(x);
    g->home = http_home(x);
    g->plain = is_plain(x);
    g->follow = true;
    g->profiled = app_page_names_profile(x);
    if (!page_target_parse(x, a, &g->target) || !select_render(g))
        return;
    if (!bundle_name_is_fine(g->target.content)) {
        app_problem(x, 404, "not_found#content", NULL, STR("No content can have this name."),
                    STR_NONE);
        return;
    }
    if (g->stash && !stash_may_ask(x, a, g->target.config))
        return;
    if (page_miss_refuses_stash(g))
        return;
    page_get_look(g);
}
