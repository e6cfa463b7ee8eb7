/* page_order.c - orders: hold, release, purge. Each is one update of the title; the answer follows
 * when it is on disk. */
#include "app/answer.h"
#include "app/errors.h"
#include "app/page/page_request.h"
#include "base/date.h"
#include "codec/json.h"
#include "codec/json_text.h"
#include "page/tell.h"

struct order {
    struct page_request r;
    struct title_wait wait;
    struct page_order op;
};

static void answer_held(struct order *o)
{
    struct arena *a = http_arena(o->r.x);
    struct buf b;
    buf_init(&b, PAGE_JSON_BYTES_MAX);
    buf_printf(&b, "{\"title\":%.*s,", STR_ARG(json_text_quote(a, o->r.target.title)));
    pagejson_render(&b, &o->op.render);
    pagejson_time(&b, "until", o->op.render.hold_until);
    buf_put_c(&b, '}');
    page_answer_json(o->r.x, buf_take(&b, a), STR_NONE);
}

static void order_done(struct store_call *c)
{
    struct order *o = CONTAINER_OF(c, struct order, op.call);
    struct http_exchange *x = o->r.x;
    if (c->why == ERR_NOT_FOUND) {
        app_refused(x, 404, "not_found", "No such render is stored.");
    } else if (c->why != ERR_OK) {
        page_fail(x, o->r.app, c->why, &o->op.trace, &o->op.note);
    } else if (o->op.kind == ORDER_HOLD) {
        answer_held(o);
    } else {
        struct answer w = { .status = 204 };
        if (o->op.kind == ORDER_PURGE)
            page_purge_tell(&o->r.app->page, &o->r.target);
        answer_add(&w, STR("cache-control"), STR(HEADERS_CACHE_PRIVATE));
        answer_add_security(&w, http_arena(x), STR_NONE, STR_NONE);
        answer_send(x, &w);
    }
}

static void order_settled(struct page_request *r)
{
    struct order *o = CONTAINER_OF(r, struct order, r);
    o->op.title = r->target.title;
    o->op.call.deadline = page_write_deadline(&r->app->page);
    store_call_then(page_store_order(r->app->page.store, &o->op), &o->op.call);
}

/* {"until": "2026-01-01T00:00:00Z"}, later than now. False: answered. */
static bool parse_until(struct http_exchange *x, store_time now, store_time *until)
{
    str text;
    if (json_slice_only(http_arena(x), http_body(x), "until", &text) == ERR_OK &&
        date_parse_rfc3339(text, &until->ns) && store_time_before(now, *until))
        return true;
    return app_refused(x, 400, "bad_request#invalid_body",
                       "The body must be {\"until\": INSTANT}: " DATE_WANTED ", and to come.");
}

void app_page_order(struct http_exchange *x, void *app)
{
    struct page_condition_fields fields;
    struct order *o = page_request_new(x, app, sizeof *o);
    if (o == NULL || !app_may_wait(x))
        return;
    const struct page_target *t = &o->r.target;
    o->op = (struct page_order){ .call = { .home = http_home(x), .done = order_done },
                                 .bucket = t->settings->bucket,
                                 .kind = (enum page_order_kind)http_route(x)->kind,
                                 .domain = t->domain->number,
                                 .has_rev = t->has_rev,
                                 .has_tid = t->has_tid,
                                 .name = t->name,
                                 .elsewhere = t->domain->origin != NULL };
    if (!page_condition_of(x, &fields, &o->op.condition))
        return;
    if (o->op.kind == ORDER_HOLD && !parse_until(x, clock_store(o->r.app->clock), &o->op.until))
        return;
    title_wait_start(&o->wait, &o->r, order_settled);
}
