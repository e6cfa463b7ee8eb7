/* page_get.c - GET of a content: what was asked, as values for the page service.
 *
 * The request sleeps from when the service first waits for something; all goes on at its home. */
#include "app/page/page_get.h"

#include "app/answer.h"
#include "app/errors.h"
#include "app/page/page_edge.h"
#include "auth/auth.h"
#include "base/date.h"
#include "page/content.h"

/* Which render an instant selects, if one does. False: answered. */
static bool at_parse(struct content_get *g)
{
    struct http_exchange *x = g->x;
    struct page_get *p = &g->page;
    str date = http_common(x)->accept_datetime, text;
    if (http_query_raw(x).n > 0 && http_query(x, "at", &text)) {
        if (!date_parse_any(text, &p->read.which.at.ns))
            return app_refused(x, 400, "bad_request#invalid_instant", "at is " DATE_WANTED ".");
        if (p->target.has_rev)
            return app_refused(x, 400, "bad_request#invalid_instant",
                               "With at the path names no revision.");
        p->read.which.select = SELECT_SERVED_AT;
        p->flags |= GET_AT;
    } else if (date.n > 0 && !p->target.has_rev) {
        if (!date_parse_http(date, &p->read.which.at.ns))
            return app_refused(x, 400, "bad_request#invalid_datetime",
                               "Accept-Datetime is an HTTP date, of the years " DATE_YEAR_FIRST
                               " to " DATE_YEAR_LAST ".");
        p->read.which.select = SELECT_CURRENT_AT;
        p->flags |= GET_AT;
    }
    return true;
}

/* Flags and conditions. False: answered. */
static bool wishes_parse(struct content_get *g)
{
    struct http_exchange *x = g->x;
    const struct http_common *c = http_common(x);
    struct page_get *p = &g->page;
    struct page_condition_fields fields;
    bool stash = false, redirect = true;
    if (http_query_raw(x).n > 0 &&
        (!page_flag(x, "stash", &stash) || !page_flag(x, "redirect", &redirect)))
        return false;
    p->flags |= (stash ? GET_STASH : 0u) | (redirect ? GET_FOLLOW : 0u) | page_wishes(x);
    if (!c->any_conditional)
        return true;
    if (!page_condition_of(x, &fields, &p->condition))
        return false;
    if ((p->flags & GET_NO_CACHE) != 0)
        page_condition_ask_younger(&fields, &p->condition);
    if (http_method(x) == HTTP_GET)
        p->range_fields = (struct page_range_fields){ .range = c->range, .if_range = c->if_range };
    return true;
}

/* ---- waiting ---- */

/* The client has left: its answer goes nowhere, and the flight goes on without it. Loop thread. */
static void client_gone(struct http_exchange *x, void *ctx)
{
    struct content_get *g = ctx;
    if (page_get_leave(&g->page))
        app_refused(x, 499, "client_closed", "The client left.");
}

/* Does it ask as most do, so that what one of them is answered will do for all? */
static int shape_of(const struct content_get *g)
{
    const struct http_common *c = http_common(g->x);
    bool plain = http_query_raw(g->x).n == 0 && !c->any_conditional && c->cache_control.n == 0 &&
                 c->accept_datetime.n == 0 && g->page.accept.n == 0 && !http_has_request_id(g->x) &&
                 page_edge_may_share(g);
    int variant = plain ? page_coding_variant(c->accept_encoding) : -1;
    int parsoid = str_eq(g->page.target.content, STR("html")) ? 0 : PAGE_SHAPES / 2;
    _Static_assert(1 << (CODINGS - 1) <= PAGE_SHAPES / 2, "a shape for each variant");
    return variant < 0 ? -1 : variant / 2 + parsoid;
}

static bool content_waits(struct page_get *p, enum page_wait what)
{
    struct content_get *g = CONTAINER_OF(p, struct content_get, page);
    if (!page_waits(g->x, &g->deferred, what))
        return false;
    if (!g->tells_gone && what == WAIT_OTHERS) {
        g->tells_gone = true; /* a read that waited for the store did not ask to be told */
        http_on_gone(g->x, client_gone, g);
    }
    if (what == WAIT_OTHERS && p->deadline.ns == 0) {
        p->deadline = page_wait_deadline(g->x, g->app);
        p->shape = shape_of(g);
    }
    return true;
}

static void content_done(struct page_get *p)
{
    content_answer(CONTAINER_OF(p, struct content_get, page));
}

void app_page_get_content(struct http_exchange *x, void *app)
{
    const struct app *a = app;
    struct content_get *g = app_new(x, sizeof *g);
    if (g == NULL)
        return;
    g->x = x;
    g->app = a;
    struct page_get *p = &g->page;
    p->service = &a->page;
    p->arena = http_arena(x);
    p->home = http_home(x);
    p->wait = content_waits;
    p->done = content_done;
    p->accept_encoding = http_common(x)->accept_encoding;
    if (page_names_profile(x))
        p->accept = http_common(x)->accept;
    if (!page_target_parse(x, a, &p->target))
        return;
    p->read.which = page_target_which(&p->target);
    if (!at_parse(g) || !wishes_parse(g))
        return;
    bool stash = (p->flags & GET_STASH) != 0;
    if (!page_content_is_fine(p->target.content))
        app_refused(x, 404, "not_found#content", "No content can have this name.");
    else if (stash && !stash_may_ask(x, a, p->target.settings))
        return;
    else if (stash && !page_target_can_be_edited(&p->target))
        app_refused(x, 400, "bad_request#stash",
                    "This domain's origin gives no page bundles: what is edited could not be "
                    "saved.");
    else
        page_get_start(p);
}
