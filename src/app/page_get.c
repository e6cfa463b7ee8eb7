/* GET of one content. The way of a request:
 *
 *   find in a view -> decide -> read what is in memory -> answer at once
 *                           \-> extend or stash (the committer) -> read on the pool when cold ->
 * answer
 *
 * A read that names a revision answers only after its longer life is on disk. While a cold read
 * waits, a pin keeps the bytes; whatever is inline or not yet written was copied inside the view.
 */
#include "app/page_get.h"
#include "app/bundle.h"
#include "app/errors.h"
#include "auth/auth.h"
#include "base/date.h"

/* ---- waiting ---- */

static void unpin(struct page_get *g)
{
    if (g->pinned)
        engine_unpin(g->app->engine, g->pin);
    g->pinned = false;
}

/* The body from the frame: here, so that the committer and the loop never decompress. */
static err decode(struct page_get *g)
{
    g->body = g->frame;
    if (g->coding != CODING_IDENTITY)
        return ERR_OK;
    return page_frame_raw(g->content, g->frame, http_arena(g->x), &g->body);
}

static void read_run(struct loop_job *j)
{
    struct page_get *g = CONTAINER_OF(j, struct page_get, job);
    g->read_result = page_read(g->target.bucket, &g->render, g->content, http_arena(g->x), false,
                               &g->headers, &g->frame);
    if (g->read_result == ERR_OK)
        g->read_result = decode(g);
}

static void read_done(struct loop_job *j, bool canceled)
{
    struct page_get *g = CONTAINER_OF(j, struct page_get, job);
    unpin(g);
    err why = canceled ? ERR_SHUTDOWN : g->read_result;
    if (why == ERR_OK)
        page_get_answer(g);
    else
        app_fail(g->x, why, NULL);
}

static void read_start(struct page_get *g)
{
    g->job = (struct loop_job){ .run = read_run, .done = read_done };
    loop_job_start(g->app->loop, &g->job);
}

static void order_done(struct page_order *o, err why)
{
    struct page_get *g = CONTAINER_OF(o, struct page_get, order);
    if (why != ERR_OK) {
        unpin(g);
        app_page_fail(g->x, why, &o->trace, &o->note);
        return;
    }
    g->extended = true;
    if (g->cold)
        read_start(g);
    else
        page_get_answer(g);
}

/* Reads of latest and of an instant extend no life. */
static bool names_revision(const struct page_get *g)
{
    return g->which.select == SELECT_REV || g->which.select == SELECT_EXACT;
}

static void order_start(struct page_get *g)
{
    g->order = (struct page_order){ .kind = g->stash ? ORDER_STASH : ORDER_EXTEND,
                                    .domain = g->which.domain,
                                    .title = g->target.title,
                                    .has_rev = true,
                                    .has_tid = true,
                                    .name = g->render.name,
                                    .named = names_revision(g),
                                    .deadline = app_page_deadline(g->app),
                                    .done = order_done };
    page_order_start(g->target.bucket, &g->order);
}

/* ---- finding ---- */

/* What the request selects. False: answered. */
static bool select_render(struct page_get *g)
{
    struct http_exchange *x = g->x;
    const struct http_common *c = http_common(x);
    str text;
    g->which = page_target_which(&g->target);
    if (http_query_raw(x).n > 0 && http_query(x, "at", &text)) {
        bool fine = !g->target.has_rev && date_parse_any(text, &g->which.at.ns);
        if (!fine) {
            app_problem(x, 400, "bad_request#invalid_instant", NULL,
                        STR("at is an RFC 3339 instant, and the path then names no revision."),
                        STR_NONE);
            return false;
        }
        g->which.select = SELECT_SERVED_AT;
        g->negotiated = true;
    } else if (c->accept_datetime.n > 0 && !g->target.has_rev) {
        if (!date_parse_http(c->accept_datetime, &g->which.at.ns)) {
            app_problem(x, 400, "bad_request#invalid_datetime", NULL,
                        STR("Accept-Datetime is an HTTP date."), STR_NONE);
            return false;
        }
        g->which.select = SELECT_CURRENT_AT;
        g->negotiated = true;
    }
    g->stash =
        http_query_raw(x).n > 0 && http_query(x, "stash", &text) && str_eq(text, STR("true"));
    return true;
}

/* Can a ready answer be made of it, and serve those that ask the same? */
static bool is_plain(struct http_exchange *x)
{
    const struct http_common *c = http_common(x);
    return http_query_raw(x).n == 0 && !c->any_conditional && c->cache_control.n == 0 &&
           c->accept_datetime.n == 0;
}

static void answer_missing(struct page_get *g, err why, const struct page_trace *trace)
{
    if (why == ERR_NOT_FOUND)
        app_problem(g->x, 404, "not_found", NULL, STR("No such render is stored."), STR_NONE);
    else
        app_page_fail(g->x, why, trace, NULL);
}

/* Does a read of it have to make its life longer first? */
static bool must_order(const struct page_get *g)
{
    if (g->status != 200 && g->status != 206 && g->status != 304)
        return false;
    return g->stash ||
           (names_revision(g) &&
            page_wants_extension(g->target.bucket, &g->render, clock_store(g->app->clock)));
}

/* Inside the view: finds, decides, reads what is in memory. False: answered. */
static bool find(struct page_get *g, struct engine_view *v)
{
    struct page_trace trace;
    err why = page_find(g->target.bucket, v, &g->which, &g->render, &trace);
    if (why != ERR_OK) {
        answer_missing(g, why, &trace);
        return false;
    }
    g->content = page_content_find(&g->render, g->target.content);
    if (g->content == NULL) {
        app_problem(g->x, 404, "not_found#content", NULL,
                    STR("This render has no content of that name."), STR_NONE);
        return false;
    }
    page_get_decide(g);
    if (g->status != 200 && g->status != 206)
        return true;
    why = page_read(g->target.bucket, &g->render, g->content, http_arena(g->x), true, &g->headers,
                    &g->frame);
    g->cold = why == ERR_AGAIN;
    if (why == ERR_OK)
        why = decode(g);
    if (why != ERR_OK && !g->cold) {
        app_fail(g->x, why, NULL);
        return false;
    }
    if (g->cold) {
        g->pin = engine_pin(v);
        g->pinned = true;
    }
    return true;
}

static void get_start(struct page_get *g)
{
    g->mark = hot_mark(g->app->hot, page_bucket_number(g->target.bucket), g->which.domain,
                       g->target.title);
    struct engine_view *v = engine_view_begin(g->app->engine);
    bool going = find(g, v);
    engine_view_end(&v);
    if (!going)
        return;
    bool order = must_order(g);
    if (!order && !g->cold) {
        page_get_answer(g);
        return;
    }
    if (!app_page_may_wait(g->x)) {
        unpin(g);
        return;
    }
    http_defer(g->x);
    if (order)
        order_start(g);
    else
        read_start(g);
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
    g->plain = is_plain(x);
    if (!page_target_parse(x, a, &g->target) || !select_render(g))
        return;
    if (!bundle_name_is_fine(g->target.content)) {
        app_problem(x, 404, "not_found#content", NULL, STR("No content can have this name."),
                    STR_NONE);
        return;
    }
    get_start(g);
}
