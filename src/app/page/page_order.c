/* Orders: hold, release, purge. Each is one update of the title; the answer follows when it is on
 * disk. */
#include "app/answer.h"
#include "app/errors.h"
#include "app/page/page_request.h"
#include "app/page/page_title.h"
#include "base/date.h"
#include "base/utf8.h"
#include "codec/json.h"
#include "codec/json_text.h"
#include "page/tell.h"

struct order {
    struct http_exchange *x;
    const struct app *app;
    struct page_target target;
    struct title_wait wait;
    struct page_order op;
};

static void answer_held(struct order *o)
{
    struct buf b;
    buf_init(&b, LISTING_BYTES_MAX);
    buf_printf(&b, "{\"title\":%.*s,", STR_ARG(json_text_quote(http_arena(o->x), o->target.title)));
    pagejson_render(&b, &o->op.render);
    pagejson_time(&b, "until", o->op.render.hold_until);
    buf_put_c(&b, '}');
    app_page_answer_buf(o->x, 200, &b, STR_NONE);
}

static void answer_empty(struct http_exchange *x)
{
    struct answer w = { .status = 204 };
    answer_add(&w, STR("cache-control"), STR(HEADERS_CACHE_PRIVATE));
    answer_add_security(&w, http_arena(x), STR_NONE, STR_NONE);
    answer_send(x, &w);
}

static void answer_purged(struct order *o)
{
    page_purge_tell(&o->app->page, &o->target);
    answer_empty(o->x);
}

static void order_done(struct store_call *c)
{
    struct order *o = CONTAINER_OF(c, struct order, op.call);
    if (c->why == ERR_NOT_FOUND)
        app_problem(o->x, 404, "not_found", NULL, STR("No such render is stored."), STR_NONE);
    else if (c->why != ERR_OK)
        app_page_fail(o->x, o->app, c->why, &o->op.trace, &o->op.note);
    else if (o->op.kind == ORDER_HOLD)
        answer_held(o);
    else if (o->op.kind == ORDER_PURGE)
        answer_purged(o);
    else
        answer_empty(o->x);
}

/* NULL: answered. */
static struct order *order_new(struct http_exchange *x, const struct app *app,
                               enum page_order_kind kind)
{
    struct page_condition_fields fields;
    struct order *o = app_new(x, sizeof *o);
    if (o == NULL)
        return NULL;
    o->x = x;
    o->app = app;
    if (!app_page_target_parse(x, app, &o->target) || !app_page_may_wait(x))
        return NULL;
    o->op = (struct page_order){ .call = { .home = http_home(x), .done = order_done },
                                 .bucket = o->target.settings->bucket,
                                 .kind = kind,
                                 .domain = o->target.domain->number,
                                 .has_rev = o->target.has_rev,
                                 .has_tid = o->target.has_tid,
                                 .name = o->target.name,
                                 .elsewhere = o->target.domain->origin != NULL };
    if (!app_page_condition(x, &fields, &o->op.condition))
        return NULL;
    o->wait =
        (struct title_wait){ .x = x, .target = &o->target, .deadline = app_wait_deadline(x, app) };
    return o;
}

static void order_settled(struct title_wait *w)
{
    struct order *o = CONTAINER_OF(w, struct order, wait);
    o->op.title = o->target.title;
    o->op.call.deadline = page_write_deadline(&o->app->page);
    store_call_then(page_store_order(o->app->page.store, &o->op), &o->op.call);
}

static void order_start(struct order *o)
{
    o->wait.go = order_settled;
    title_wait_start(&o->wait);
}

/* {"until": "2026-01-01T00:00:00Z"}, later than now. */
static bool parse_until(struct arena *a, str body, store_time now, store_time *until)
{
    struct json_member m;
    unsigned count;
    str value, text;
    if (!utf8_valid(body) || !json_slice_value(body, &value) ||
        json_slice_members(a, value, &m, 1, &count) != ERR_OK)
        return false;
    if (count != 1 || !str_eq(m.name, STR("until")) ||
        json_slice_string(a, m.value, &text) != ERR_OK)
        return false;
    return date_parse_rfc3339(text, &until->ns) && store_time_before(now, *until);
}

void app_page_put_hold(struct http_exchange *x, void *app)
{
    const struct app *a = app;
    struct order *o = order_new(x, a, ORDER_HOLD);
    if (o == NULL)
        return;
    if (!parse_until(http_arena(x), http_body(x), clock_store(a->clock), &o->op.until)) {
        app_problem(x, 400, "bad_request#invalid_body", NULL,
                    STR("The body must be {\"until\": INSTANT}: " DATE_WANTED ", and to come."),
                    STR_NONE);
        return;
    }
    order_start(o);
}

void app_page_delete_hold(struct http_exchange *x, void *app)
{
    struct order *o = order_new(x, app, ORDER_RELEASE);
    if (o != NULL)
        order_start(o);
}

void app_page_delete_all(struct http_exchange *x, void *app)
{
    struct order *o = order_new(x, app, ORDER_PURGE);
    if (o != NULL)
        order_start(o);
}
