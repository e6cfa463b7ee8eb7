/* A GET that has to wait for its render. The way of it:
 *
 *   settle the title -> moved: 301
 *        |      \-> its key is another one: look under that -> here again when it is missing
 *        |-> not to be made (an exact render, an instant): 404
 *        \-> join the flight -> look by the name that was made -> as any GET
 *                    |    \-> the wiki writes the title otherwise: 301, or look under that
 *                    |    \-> asked for plainly, as all the others: the answer made for all
 *                    \-> failed -> what is stored, if it may be stale -> else why
 */
#include "app/counters.h"
#include "app/errors.h"
#include "app/page/render_make.h"

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

bool page_miss_may_be_unlike(const struct page_get *g)
{
    const struct origin *origin = g->target.domain->origin;
    return g->why == ERR_NOT_FOUND && !g->settled && origin != NULL && origin_has_api(origin);
}

/* ---- failing ---- */

static bool may_be_stale(const struct page_get *g, err why)
{
    return g->found == FOUND_OLD && g->no_cache &&
           app_page_may_be_stale(g->x, g->app, &g->target, why, g->read.render.name.tid);
}

static void failed(struct page_get *g, err why, const struct err_note *note, int64_t remembered_ms)
{
    if (why == ERR_NOT_FOUND && page_get_turn_back(g))
        return;
    if (may_be_stale(g, why)) {
        g->how = HOW_STALE;
        g->how_detail = "stale-error";
        page_get_again(g);
        return;
    }
    if (why == ERR_GONE) { /* hidden, stored or not */
        struct page_trace hidden = { .state = PAGE_SUPPRESSED,
                                     .at = clock_store(g->app->clock),
                                     .policy = g->target.config->page.policy.kind };
        page_get_fail(g, ERR_GONE, &hidden, note);
        return;
    }
    app_origin_fail(g->x, why, note, app_page_retry_ms(g->app, &g->target, why, remembered_ms));
}

/* ---- the flight ---- */

/* The answer made for all, if this one asks as all do. */
static struct http_ready *ready_for(const struct page_get *g, const struct render_value *value)
{
    int variant = page_get_variant(http_common(g->x));
    bool plain = g->plain && g->how == HOW_MISS && g->collapsed && !g->unlike && g->hops == 0 &&
                 !g->profiled;
    if (g->named && value->short_lived)
        return NULL; /* its life is made longer first */
    if (!plain || variant < 0 || http_has_request_id(g->x) ||
        !str_eq(g->target.content, str_of(value->content)))
        return NULL;
    enum http_coding stored = value->codec == PAGE_GZIP ? CODING_GZIP : CODING_ZSTD;
    bool coded = value->codec != PAGE_IDENTITY && ((unsigned)variant & BIT(stored)) != 0;
    return value->ready[coded ? RENDER_CODED : RENDER_RAW];
}

/* The wiki has the page under another title: readers are sent there, the others get it all the
 * same. */
static void moved(struct page_get *g, const struct render_value *value)
{
    struct title_seen seen;
    static const struct err_note again = {
        .text = "the wiki knows the page by another title, and that by another"
    };
    err why = title_take(g->arena, &g->target, str_of(value->moved_to), value->namespace_id, &seen);
    if (why != ERR_OK || g->moved) {
        failed(g, ERR_UNAVAILABLE, &again, 0);
        return;
    }
    if (title_answer_moved(g->x, &g->target, seen))
        return;
    g->moved = g->unlike = true;
    g->read.which.title = g->target.title;
    page_get_again(g);
}

static void landed(struct flight_waiter *w, err why, struct flight_value *v,
                   const struct err_note *note)
{
    struct page_get *g = CONTAINER_OF(w, struct page_get, flight);
    g->waiting = false;
    if (w->detail == FLIGHT_NEGATIVE)
        origin_count_remembered(g->target.domain->origin);
    if (why != ERR_OK) {
        failed(g, why, note, w->retry_after_ms);
        return;
    }
    const struct render_value *value = render_value_of(v);
    if (value->moved_to != NULL) {
        moved(g, value);
        return;
    }
    g->how = value->found ? HOW_HIT : g->found == FOUND_OLD ? HOW_RENEWED : HOW_MISS;
    g->collapsed = w->detail != FLIGHT_LED;
    g->how_detail = flight_detail_name(w->detail);
    g->made = true;
    struct http_ready *ready = ready_for(g, value);
    if (ready != NULL) {
        counters_read(g->app->counters, counters_read_kind(value->state));
        http_answer_ready(g->x, ready);
        return;
    }
    g->read.which.select = SELECT_EXACT;
    g->read.which.name = value->name;
    page_get_again(g);
}

/* When it has joined, g may have been answered and be gone. */
static void join(struct page_get *g)
{
    g->flight = (struct flight_waiter){ .deadline = g->deadline, .done = landed };
    g->waiting = true;
    err why = render_make_join(g, g->found != FOUND_NOTHING, &g->flight);
    if (why == ERR_OK)
        return;
    g->waiting = false;
    failed(g, why, NULL, 0);
}

/* ---- the title ---- */

static void settled(struct title_wait *w)
{
    struct page_get *g = CONTAINER_OF(w, struct page_get, wait);
    bool same = str_eq(g->read.which.title, g->target.title);
    g->settled = true;
    if (title_answer_moved(g->x, &g->target, w->seen))
        return;
    g->read.which.title = g->target.title;
    g->unlike = g->unlike || w->seen.changed;
    if (same && page_miss_can(g))
        join(g);
    else
        page_get_again(g); /* settled: what is not found then is missing */
}

static void no_rules(struct title_wait *w, err why, const struct err_note *note)
{
    failed(CONTAINER_OF(w, struct page_get, wait), why, note, 0);
}

static bool refused(struct title_wait *w)
{
    return page_get_turn_back(CONTAINER_OF(w, struct page_get, wait));
}

/* ---- what could not be saved ---- */

bool page_miss_refuses_stash(struct page_get *g)
{
    const struct origin *origin = g->target.domain->origin;
    bool saves = origin == NULL || origin_opts_of(origin)->kind == ORIGIN_PARSOID;
    if (!g->stash || saves || !str_eq(g->target.content, STR("html")))
        return false;
    app_problem(
        g->x, 400, "bad_request#stash", NULL,
        STR("This domain's origin gives no page bundles: what is edited could not be saved."),
        STR_NONE);
    return true;
}

/* ---- starting ---- */

/* The client has left: its answer goes nowhere, and the flight goes on without it. Loop thread. */
static void gone(struct http_exchange *x, void *ctx)
{
    struct page_get *g = ctx;
    if (!g->waiting || !flight_leave(g->app->flights, &g->flight))
        return; /* whoever has it answers */
    g->waiting = false;
    app_problem(x, 499, "client_closed", NULL, STR("The client left."), STR_NONE);
}

void page_miss_defer(struct page_get *g)
{
    page_get_defer(g);
    http_on_gone(g->x, gone, g);
}

/* Nobody may be asked. Where the wiki's rules are known, the page may be stored under the title as
 * they have it. True: that was looked into, and g goes on. */
static bool look_uncached(struct page_get *g)
{
    bool bad;
    if (g->settled)
        return false;
    if (!title_settle(g->x, &g->target, &g->wait.seen, &bad))
        return bad;
    g->settled = true;
    g->unlike = g->unlike || !str_eq(g->read.which.title, g->target.title);
    g->read.which.title = g->target.title;
    page_get_look(g);
    return true;
}

void page_miss_start(struct page_get *g)
{
    if (http_cache_control_has(http_common(g->x)->cache_control, STR("only-if-cached"))) {
        if (look_uncached(g))
            return;
        app_problem(g->x, 504, "not_cached", NULL,
                    STR("It would have to be made, and the request forbids that."), STR_NONE);
        return;
    }
    if (!g->deferred && !app_page_may_wait(g->x))
        return;
    if (!g->deferred)
        page_miss_defer(g);
    if (g->settled) {
        join(g);
        return;
    }
    g->wait = (struct title_wait){ .x = g->x,
                                   .target = &g->target,
                                   .deadline = g->deadline,
                                   .go = settled,
                                   .failed = no_rules,
                                   .refused = refused,
                                   .deferred = true };
    title_wait_start(&g->wait);
}
