/* What is known of a title: its renders, the fate of one of them, the titles of a domain. Reads of
 * these extend no life. Listings are collected while the store walks, at most limit items; it says
 * where to go on. */
#include "app/answer.h"
#include "app/errors.h"
#include "app/page/page_request.h"
#include "app/page/page_title.h"
#include "base/date.h"
#include "base/log.h"
#include "codec/base64.h"
#include "codec/json_text.h"

struct listing {
    struct http_exchange *x;
    const struct app *app;
    struct page_target target;
    struct page_list list;
    struct buf out, damaged; /* damaged: the items of rows that cannot be read */
    unsigned limit, count, damaged_count;
};

/* A row that is stored and cannot be read takes nobody else's place, and the page it stands on says
 * so. */
static bool listing_damaged(void *ctx, str title, const struct page_name *name)
{
    struct listing *l = ctx;
    if (l->count == l->limit)
        return false;
    if (l->damaged_count++ > 0)
        buf_put_c(&l->damaged, ',');
    pagejson_damaged(&l->damaged, http_arena(l->x), title, name);
    return true;
}

static void tell_damage(const struct app *a, const struct page_target *t, unsigned count)
{
    if (count > 0)
        log_event(a->log, LOG_ERROR, "page.damaged", LOG_STR("domain", t->domain->name),
                  LOG_STR("title", t->title), LOG_INT("rows", count),
                  LOG_CSTR("what", "left out of a listing; palimpsest check names all damage"));
}

/* False: there is no room for one more item. */
static bool listing_next(struct listing *l)
{
    if (l->count == l->limit)
        return false;
    if (l->count++ > 0)
        buf_put_c(&l->out, ',');
    return true;
}

/* Of a target; ?limit= and ?page=. NULL: answered. */
static struct listing *listing_new(struct http_exchange *x, const struct app *app,
                                   const struct page_target *t)
{
    struct listing *l = app_new(x, sizeof *l);
    if (l == NULL)
        return NULL;
    *l = (struct listing){ .x = x,
                           .app = app,
                           .target = *t,
                           .list = { .call.home = http_home(x),
                                     .bucket = t->settings->bucket,
                                     .domain = t->domain->number,
                                     .title = t->title,
                                     .each = { .damaged = listing_damaged, .ctx = l },
                                     .arena = http_arena(x) } };
    return app_page_listing(x, &l->limit, &l->list.from) ? l : NULL;
}

static void listing_start(struct listing *l)
{
    buf_init(&l->out, LISTING_BYTES_MAX);
    buf_init(&l->damaged, LISTING_BYTES_MAX);
    buf_put(&l->out, STR("{\"items\":["));
    app_page_call(l->x, page_store_list(l->app->page.store, &l->list), &l->list.call);
}

/* Answers with what was collected. links: says so in RESTBase's shape, too. */
static void listing_answer(struct listing *l, bool links)
{
    str next = l->list.next.n > 0 ? base64_url(http_arena(l->x), l->list.next) : STR("");
    buf_put_c(&l->out, ']');
    if (l->damaged_count > 0) {
        l->out.failed = l->out.failed || l->damaged.failed;
        buf_put(&l->out, STR(",\"damaged\":["));
        buf_put(&l->out, buf_str(&l->damaged));
        buf_put_c(&l->out, ']');
    }
    if (next.n > 0)
        buf_printf(&l->out, ",\"next\":\"%.*s\"", STR_ARG(next));
    if (next.n > 0 && links)
        buf_printf(&l->out, ",\"_links\":{\"next\":{\"href\":\"?page=%.*s\"}}", STR_ARG(next));
    buf_put_c(&l->out, '}');
    app_page_answer_buf(l->x, 200, &l->out, STR_NONE);
}

/* Of a listing that is over: false when it failed, which is answered. */
static bool listing_is_fine(struct listing *l)
{
    err why = l->list.call.why;
    tell_damage(l->app, &l->target, l->damaged_count);
    if (why == ERR_BAD)
        app_page_bad_token(l->x);
    else if (why != ERR_OK)
        app_fail(l->x, why, NULL);
    return why == ERR_OK;
}

static void listing_free(struct listing *l)
{
    buf_fini(&l->damaged);
    buf_fini(&l->out);
}

/* ---- history ---- */

static bool history_item(void *ctx, str title, const struct page_render *r)
{
    struct listing *l = ctx;
    (void)title; /* the one that was asked for */
    if (!listing_next(l))
        return false;
    buf_put_c(&l->out, '{');
    pagejson_render(&l->out, r);
    buf_put_c(&l->out, '}');
    return true;
}

/* Asked for is a title, so it is not "this render" that is gone. */
static void fail_of_title(struct http_exchange *x, const struct app *app, err why,
                          const struct page_trace *trace)
{
    struct err_note note = { .text = "" };
    if (why == ERR_GONE) {
        char at[DATE_RFC3339_BYTES + 1];
        date_format_ms(trace->at.ns, at);
        bool purged = trace->state == PAGE_PURGED;
        err_note_set(&note,
                     purged ? "This title was %s at %s: none of its renders is left."
                            : "The last render of this title was %s at %s.",
                     page_state_name(trace->state), at);
    }
    app_page_fail(x, app, why, trace, &note);
}

/* A look at the render that the path names. */
struct look {
    struct http_exchange *x;
    const struct app *app;
    struct page_target target;
    struct page_read read;
};

/* done answers. */
static void look_start(struct http_exchange *x, const struct app *app, const struct page_target *t,
                       void (*done)(struct store_call *c))
{
    struct look *k = app_new(x, sizeof *k);
    if (k == NULL)
        return;
    *k = (struct look){ .x = x,
                        .app = app,
                        .target = *t,
                        .read = { .call = { .home = http_home(x), .done = done },
                                  .bucket = t->settings->bucket,
                                  .which = page_target_which(t),
                                  .arena = http_arena(x) } };
    app_page_call(x, page_store_read(app->page.store, &k->read), &k->read.call);
}

/* Why a title has no history: it never was, or what it had is gone. */
static void answer_no_history(struct store_call *c)
{
    struct look *k = CONTAINER_OF(c, struct look, read.call);
    if (c->why == ERR_OK || c->why == ERR_NOT_FOUND)
        app_problem(k->x, 404, "not_found", NULL, STR("Nothing is stored under this title."),
                    STR_NONE);
    else
        fail_of_title(k->x, k->app, c->why, &k->read.trace);
}

/* What is asked of the store alone does not wait for the wiki's rules: then the title counts as it
 * is written. */
static bool parse_settled(struct http_exchange *x, const struct app *a, struct page_target *t)
{
    return app_page_target_parse(x, a, t) && title_settle(x, t);
}

static void history_done(struct store_call *c)
{
    struct listing *l = CONTAINER_OF(c, struct listing, list.call);
    bool fine = listing_is_fine(l);
    if (fine && l->count == 0 && l->damaged_count == 0 && l->list.from.n == 0)
        look_start(l->x, l->app, &l->target, answer_no_history);
    else if (fine)
        listing_answer(l, false);
    listing_free(l);
}

void app_page_get_history(struct http_exchange *x, void *app)
{
    struct page_target t;
    struct listing *l = parse_settled(x, app, &t) ? listing_new(x, app, &t) : NULL;
    if (l == NULL)
        return;
    l->list.what = LIST_HISTORY;
    l->list.each.render = history_item;
    l->list.call.done = history_done;
    listing_start(l);
}

/* ---- explain ---- */

struct explaining {
    struct http_exchange *x;
    const struct app *app;
    struct page_target target;
    struct page_explain explain;
};

static void explain_done(struct store_call *c)
{
    struct explaining *e = CONTAINER_OF(c, struct explaining, explain.call);
    struct arena *a = http_arena(e->x);
    struct buf b;
    if (c->why != ERR_OK) {
        app_fail(e->x, c->why, NULL);
        return;
    }
    tell_damage(e->app, &e->target, e->explain.is.passed);
    buf_init(&b, LISTING_BYTES_MAX);
    buf_printf(&b, "{\"title\":%.*s,", STR_ARG(json_text_quote(a, e->target.title)));
    pagejson_explanation(&b, a, &e->target, &e->explain.is);
    app_page_answer_buf(e->x, 200, &b, STR_NONE);
}

void app_page_get_explanation(struct http_exchange *x, void *app)
{
    const struct app *a = app;
    struct explaining *e = app_new(x, sizeof *e);
    if (e == NULL)
        return;
    *e = (struct explaining){ .x = x, .app = a };
    if (!parse_settled(x, a, &e->target))
        return;
    e->explain = (struct page_explain){ .call = { .home = http_home(x), .done = explain_done },
                                        .bucket = e->target.settings->bucket,
                                        .which = page_target_which(&e->target) };
    app_page_call(x, page_store_explain(a->page.store, &e->explain), &e->explain.call);
}

/* ---- titles ---- */

static bool title_item(void *ctx, str title, const struct page_render *latest)
{
    struct listing *l = ctx;
    (void)latest; /* RESTBase's items are bare titles */
    if (!listing_next(l))
        return false;
    json_text_append(&l->out, title);
    return true;
}

static void titles_done(struct store_call *c)
{
    struct listing *l = CONTAINER_OF(c, struct listing, list.call);
    if (listing_is_fine(l))
        listing_answer(l, true);
    listing_free(l);
}

void app_page_get_titles(struct http_exchange *x, void *app)
{
    struct page_target t;
    struct listing *l = app_page_target_parse(x, app, &t) ? listing_new(x, app, &t) : NULL;
    if (l == NULL)
        return;
    l->list.what = LIST_TITLES;
    l->list.each.render = title_item;
    l->list.call.done = titles_done;
    listing_start(l);
}

static void answer_title(struct store_call *c)
{
    struct look *k = CONTAINER_OF(c, struct look, read.call);
    struct page_name name = k->read.render.name;
    char tag[PAGE_TAG_BYTES + 1];
    struct buf b;
    if (c->why != ERR_OK) {
        app_page_fail(k->x, k->app, c->why, &k->read.trace, NULL);
        return;
    }
    buf_init(&b, LISTING_BYTES_MAX);
    pagejson_title(&b, &(struct pagejson_title){ .title = k->target.title,
                                                 .name = name,
                                                 .revised_at = tid_time(name.tid) });
    app_page_answer_buf(k->x, 200, &b,
                        arena_printf(http_arena(k->x), "\"%.*s\"", STR_ARG(page_tag(name, tag))));
}

void app_page_title_stored(struct http_exchange *x, const struct app *a,
                           const struct page_target *t)
{
    look_start(x, a, t, answer_title);
}
