/* page_listing.c - what is known of a title: its renders, the fate of one of them, its metadata;
 * the titles of a domain. Reads of these extend no life. */
#include "app/answer.h"
#include "app/errors.h"
#include "app/page/page_request.h"
#include "base/date.h"
#include "codec/json_text.h"
#include "page/trusted.h"

enum { LISTING_LIMIT_DEFAULT = 100 };

/* False: answered. The wiki said last that only some may read it. */
static bool is_open(struct http_exchange *x, const struct page_request *r)
{
    bool closed = page_is_closed(&r->app->page, r->target.domain);
    if (closed)
        app_origin_fail(x, ERR_DENIED, NULL, 0);
    return !closed;
}

/* ---- history, titles ---- */

struct listing {
    struct page_request r;
    struct page_listing page;
};

/* Asked for is a title, so it is not "this render" that is gone. */
static void answer_gone(const struct listing *l)
{
    const struct page_trace *trace = &l->page.trace;
    struct err_note note = { .text = "" };
    char at[DATE_RFC3339_BYTES + 1];
    date_format_ms(trace->at.ns, at);
    err_note_set(&note,
                 trace->state == PAGE_PURGED
                     ? "This title was %s at %s: none of its renders is left."
                     : "The last render of this title was %s at %s.",
                 page_state_name(trace->state), at);
    page_fail(l->r.x, l->r.app, ERR_GONE, trace, &note);
}

static void listing_done(struct store_call *c)
{
    struct listing *l = CONTAINER_OF(c, struct listing, page.call);
    struct http_exchange *x = l->r.x;
    if (c->why == ERR_OK)
        page_answer_json(x, l->page.json, STR_NONE);
    else if (c->why == ERR_BAD)
        app_token_bad(x);
    else if (c->why == ERR_NOT_FOUND)
        app_refused(x, 404, "not_found", "Nothing is stored under this title.");
    else if (c->why == ERR_GONE)
        answer_gone(l);
    else
        page_fail(x, l->r.app, c->why, NULL, NULL);
}

void app_page_get_listing(struct http_exchange *x, void *app)
{
    struct listing *l = page_request_new(x, app, sizeof *l);
    if (l == NULL || !is_open(x, &l->r))
        return;
    l->page = (struct page_listing){ .call = { .home = http_home(x), .done = listing_done },
                                     .service = &l->r.app->page,
                                     .target = &l->r.target,
                                     .what = (enum page_list_what)http_route(x)->kind,
                                     .limit = LISTING_LIMIT_DEFAULT,
                                     .arena = http_arena(x) };
    if ((l->page.what == LIST_TITLES || page_title_settled(x, &l->r.target)) &&
        app_listing_parse(x, &l->page.limit, &l->page.from))
        app_call_go(x, page_listing(&l->page), &l->page.call);
}

/* ---- explain ---- */

struct explaining {
    struct page_request r;
    struct page_explain explain;
};

static void explain_done(struct store_call *c)
{
    struct explaining *e = CONTAINER_OF(c, struct explaining, explain.call);
    const struct page_target *t = &e->r.target;
    struct arena *a = http_arena(e->r.x);
    struct buf b;
    if (c->why != ERR_OK) {
        page_fail(e->r.x, e->r.app, c->why, NULL, NULL);
        return;
    }
    page_tell_damage(&e->r.app->page, t, e->explain.is.passed);
    buf_init(&b, PAGE_JSON_BYTES_MAX);
    buf_printf(&b, "{\"title\":%.*s,", STR_ARG(json_text_quote(a, t->title)));
    pagejson_explanation(&b, a, t, &e->explain.is);
    page_answer_json(e->r.x, buf_take(&b, a), STR_NONE);
}

void app_page_get_explanation(struct http_exchange *x, void *app)
{
    struct explaining *e = page_request_new(x, app, sizeof *e);
    if (e == NULL || !is_open(x, &e->r) || !page_title_settled(x, &e->r.target))
        return;
    e->explain = (struct page_explain){ .call = { .home = http_home(x), .done = explain_done },
                                        .bucket = e->r.target.settings->bucket,
                                        .which = page_target_which(&e->r.target) };
    app_call_go(x, page_store_explain(e->r.app->page.store, &e->explain), &e->explain.call);
}
