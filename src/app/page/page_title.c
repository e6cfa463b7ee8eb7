/* page_title.c - titles of requests: settled by page/title.h, and answered when that ends the
 * request. */
#include "app/page/page_title.h"

#include "app/answer.h"
#include "app/errors.h"
#include "page/location.h"

void title_answer_bad(struct http_exchange *x, err why, const struct err_note *note)
{
    if (why == ERR_BAD)
        app_problem(x, 400, "bad_request#invalid_title", NULL, str_of(note->text), STR_NONE);
    else if (why == ERR_NOT_FOUND)
        app_problem(x, 404, "not_found", NULL, str_of(note->text), STR_NONE);
    else
        app_fail(x, why, note);
}

bool title_settle(struct http_exchange *x, struct page_target *target)
{
    struct page_title_wait w = { .target = target, .arena = http_arena(x) };
    bool bad = page_title_settle(&w) && w.end == TITLE_BAD;
    if (bad)
        title_answer_bad(x, w.why, &w.note);
    return !bad;
}

static void title_over(struct page_title_wait *p)
{
    struct title_wait *w = CONTAINER_OF(p, struct title_wait, page);
    switch (p->end) {
    case TITLE_SETTLED:
        w->go(w);
        return;
    case TITLE_BAD:
        title_answer_bad(w->x, p->why, &p->note);
        return;
    case TITLE_NO_RULES:
        app_origin_fail(w->x, p->why, &p->note, 0);
        return;
    }
}

void title_wait_start(struct title_wait *w)
{
    w->page = (struct page_title_wait){ .target = w->target,
                                        .arena = http_arena(w->x),
                                        .deadline = w->deadline,
                                        .home = http_home(w->x),
                                        .done = title_over };
    bool known = page_title_settle(&w->page);
    if (!known && !app_page_may_wait(w->x))
        return;
    http_defer(w->x);
    if (known)
        title_over(&w->page);
    else
        page_title_wait(&w->page);
}

void title_answer_moved(struct http_exchange *x, const struct page_target *target)
{
    const char *cache_control = target->settings->cache_control;
    struct answer w = { .status = 301 };
    answer_add(&w, STR("location"), page_location_moved(http_arena(x), target, http_query_raw(x)));
    answer_add(&w, STR("cache-control"),
               str_of(cache_control == NULL ? HEADERS_CACHE_PRIVATE : cache_control));
    answer_add(&w, STR("vary"), STR("Origin"));
    answer_add_security(&w, http_arena(x), STR_NONE, STR_NONE);
    answer_send(x, &w);
}
