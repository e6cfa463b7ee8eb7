/* page_leave.c - the gate of what a private wiki has: the wiki says first whether this reader may
 * read it (page/leave.h). */
#include "app/answer.h"
#include "app/errors.h"
#include "app/page/page_request.h"
#include "auth/auth.h"
#include "page/leave.h"

struct leave_wait {
    struct page_leave page;
    struct http_exchange *x;
};

static void leave_done(struct page_leave *l)
{
    struct http_exchange *x = CONTAINER_OF(l, struct leave_wait, page)->x;
    if (l->why == ERR_OK)
        http_go(x);
    else
        app_origin_fail(x, l->why, &l->note, 1000 * l->retry_after_s);
}

/* A key of ours is no business of the wiki's. */
static str authorization_of(const struct http_exchange *x, const struct app *app)
{
    return auth_enabled(app->auth) ? STR_NONE : http_common(x)->authorization;
}

/* Who does not want to wait for a page is asked about all the same, as long as for a word. */
static mono leave_deadline(const struct http_exchange *x, const struct app *a,
                           const struct page_domain *d)
{
    mono waits = page_wait_deadline(x, a);
    mono least = mono_add_ms(clock_mono(a->clock), d->check_wait_ms);
    return waits.ns < least.ns ? least : waits;
}

bool app_page_gate(struct http_exchange *x, void *app)
{
    const struct app *a = app;
    const struct page_domain *d = page_domain_find(&a->page, http_param(x, "domain"));
    if (d == NULL || !d->is_private)
        return true;
    struct leave_wait *w = app_new(x, sizeof *w);
    if (w == NULL)
        return false;
    str title = http_param(x, "title");
    w->x = x;
    w->page = (struct page_leave){ .service = &a->page,
                                   .domain = d,
                                   .title = title.p == NULL ? STR("") : title,
                                   .authorization = authorization_of(x, a),
                                   .arena = http_arena(x),
                                   .deadline = leave_deadline(x, a, d),
                                   .home = http_home(x),
                                   .done = leave_done };
    (void)http_header(x, "cookie", &w->page.cookie); /* it may have none */
    if (page_leave_known(&w->page))
        return true;
    if (!app_may_wait(x))
        return false;
    http_defer(x);
    page_leave_ask(&w->page);
    return false;
}
