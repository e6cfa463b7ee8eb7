/* A GET that has to wait for its render. The way of it:
 *
 *   settle the title -> moved: 301
 *        |      \-> its key is another one: look under that (page_get_again) -> here again when it is missing
 *        \-> join the flight -> look by the name that was made -> as any GET
 *                    |    \-> asked for plainly, as all the others: the answer made for all
 *                    \-> failed -> what is stored, if it may be stale -> else why
 */
#include "app/errors.h"
#include "app/headers.h"
#include "app/render_make.h"
#include "app/title.h"

bool page_miss_can(const struct page_get *g)
{
    const struct page_target *t = &g->target;
    if (t->domain->origin == NULL || t->has_tid || g->negotiated)
        return false;
    if (!str_eq(t->content, STR("html")) && !str_eq(t->content, STR("data-parsoid")))
        return false;
    for (unsigned i = 0; i < t->config->page.contents_count; i++)
        if (str_eq(t->content, str_of(t->config->page.contents[i])))
            return true;
    return t->config->page.contents == NULL;
}

/* ---- failing ---- */

static bool may_be_stale(const struct page_get *g, err why)
{
    bool outage = why == ERR_UNAVAILABLE || why == ERR_TIMEOUT || why == ERR_AGAIN || why == ERR_CORRUPT ||
                  why == ERR_LIMIT || why == ERR_SHUTDOWN;
    if (!outage || g->found != FOUND_OLD || !g->no_cache)
        return false;
    str wishes = http_common(g->x)->cache_control;
    if (str_find_str(wishes, STR("stale-if-error=0")) < wishes.n)
        return false;
    store_time until = store_time_add(tid_time(g->render.name.tid), g->target.config->stale_if_error_ns);
    return store_time_before(clock_store(g->app->clock), until);
}

static int64_t retry_ms(const struct page_get *g, err why, int64_t remembered_ms)
{
    _Atomic int64_t *busy_until_ns = g->target.domain->busy_until_ns;
    if (why != ERR_AGAIN || busy_until_ns == NULL)
        return remembered_ms;
    int64_t busy_ms = (*busy_until_ns - clock_mono(g->app->clock).ns) / NS_PER_MS;
    return busy_ms > remembered_ms ? busy_ms : remembered_ms;
}

static void failed(struct page_get *g, err why, const struct err_note *note, int64_t remembered_ms)
{
    if (may_be_stale(g, why)) {
        g->how = HOW_STALE;
        g->how_detail = "stale-error";
        page_get_again(g);
        return;
    }
    app_origin_fail(g->x, why, note, retry_ms(g, why, remembered_ms));
}

/* ---- the flight ---- */

/* The answer made for all, if this one asks as all do. */
static struct http_ready *ready_for(const struct page_get *g, const struct render_value *value)
{
    int variant = page_get_variant(http_common(g->x));
    bool plain = g->plain && g->how == HOW_MISS && g->collapsed && !g->unlike && g->hops == 0 && !g->profiled;
    if (!plain || variant < 0 || http_has_request_id(g->x) || !str_eq(g->target.content, str_of(value->content)))
        return NULL;
    enum http_coding stored = value->codec == PAGE_GZIP ? CODING_GZIP : CODING_ZSTD;
    bool coded = value->codec != PAGE_IDENTITY && ((unsigned)variant & BIT(stored)) != 0;
    return value->ready[coded ? RENDER_CODED : RENDER_RAW];
}

static void landed(struct flight_waiter *w, err why, struct flight_value *v, const struct err_note *note)
{
    struct page_get *g = CONTAINER_OF(w, struct page_get, flight);
    if (why != ERR_OK) {
        failed(g, why, note, w->retry_after_ms);
        return;
    }
    const struct render_value *value = render_value_of(v);
    g->how = value->found ? HOW_HIT : g->found == FOUND_OLD ? HOW_RENEWED : HOW_MISS;
    g->collapsed = w->detail != FLIGHT_LED;
    g->how_detail = flight_detail_name(w->detail);
    g->made = true;
    struct http_ready *ready = ready_for(g, value);
    if (ready != NULL) {
        http_answer_ready(g->x, ready);
        return;
    }
    g->which.select = SELECT_EXACT;
    g->which.name = value->name;
    page_get_again(g);
}

static void join(struct page_get *g)
{
    g->flight = (struct flight_waiter){ .deadline = g->deadline, .done = landed };
    err why = render_make_join(g, g->found == FOUND_OLD, &g->flight);
    if (why != ERR_OK)
        failed(g, why, NULL, 0);
    /* else g may have been answered and be gone */
}

/* ---- the title ---- */

static void settle(struct page_get *g);

static void siteinfo_got(struct siteinfo_waiter *w, enum render_why why, const struct err_note *note)
{
    struct page_get *g = CONTAINER_OF(w, struct page_get, siteinfo);
    if (why == RENDER_FINE)
        settle(g);
    else
        failed(g, render_make_err(why), note, 0);
}

/* Readers are sent to the title as the wiki writes it; who would not follow gets the page all the same. */
static bool is_moved(const struct page_get *g, const struct title_seen *seen)
{
    str origin;
    return seen->changed && !seen->user && !g->no_cache && !http_header(g->x, "origin", &origin);
}

static void answer_moved(struct page_get *g)
{
    struct answer w = { .status = 301 };
    answer_add(&w, STR("location"), title_location_same(g->arena, &g->target, http_query_raw(g->x)));
    answer_add(&w, STR("cache-control"),
               str_of(g->target.config->cache_control == NULL ? HEADERS_CACHE_PRIVATE
                                                              : g->target.config->cache_control));
    answer_add(&w, STR("vary"), STR("Origin"));
    answer_add_security(&w, g->arena, STR_NONE, STR_NONE);
    answer_send(g->x, &w);
}

static void settle(struct page_get *g)
{
    struct title_seen seen;
    str written = g->target.title;
    switch (title_settle(g->x, &g->target, &seen)) {
    case TITLE_WAIT:
        g->siteinfo = (struct siteinfo_waiter){ .deadline = g->deadline, .got = siteinfo_got };
        origin_siteinfo_wait(g->target.domain->origin, &g->siteinfo);
        return;
    case TITLE_BAD:
        return;
    case TITLE_FINE:
        break;
    }
    g->settled = true;
    g->which.title = g->target.title;
    if (is_moved(g, &seen)) {
        answer_moved(g);
        return;
    }
    g->unlike = seen.changed;
    if (str_eq(written, g->target.title))
        join(g);
    else
        page_get_again(g);
}

/* ---- starting ---- */

void page_miss_start(struct page_get *g)
{
    if (http_cache_control_has(http_common(g->x)->cache_control, STR("only-if-cached"))) {
        app_problem(g->x, 504, "not_cached", NULL, STR("It would have to be made, and the request forbids that."),
                    STR_NONE);
        return;
    }
    if (!g->deferred) {
        if (!app_page_may_wait(g->x))
            return;
        g->deadline = app_wait_deadline(g->x, g->app);
        http_defer(g->x);
        g->deferred = true;
    }
    if (g->settled)
        join(g);
    else
        settle(g);
}
