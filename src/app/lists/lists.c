/* lists.c - lists by position (docs/api.md, 6; docs/flights.md, 6).
 *
 *   read the request -> refused at once: 400, 404        nothing was asked of anybody
 *        \-> it is here -> answer
 *        \-> flies -> answer, or what its failing means  */
#include "app/answer.h"
#include "app/app.h"
#include "app/errors.h"
#include "http/negotiate.h"
#include "list/list.h"

enum { POSITION_DIGITS_MAX = 5, TAG_BYTES = FLIGHT_TOKEN_BYTES_MAX + 8 };

struct list_get {
    struct http_exchange *x;
    const struct app *app;
    unsigned position; /* 0: the whole list */
    struct list_request request;
    mono began;
    str named;                 /* List-Version of the request */
    bool waiting, conditional; /* If-Match: never makes a new one */
};

/* Nobody keeps an error, but what is remembered here as well: fail, and a position past the end. */
static bool lists_refuse(struct http_exchange *x, int status, const char *type, const char *detail)
{
    app_problem_told(x, &(struct app_problem){ .status = status,
                                               .type = type,
                                               .detail = str_of(detail),
                                               .cache_control = "no-store" });
    return false;
}

/* Why, by the server's own doing, nothing was asked of anybody. */
static void refuse_own(struct http_exchange *x, err why)
{
    app_origin_fail_kept(x, why, NULL, 1000, "no-store");
}

/* ---- reading the request; false: answered ---- */

static bool parse_display(struct http_exchange *x, str *out)
{
    str display = http_param(x, "display");
    *out = str_eq(display, STR("*")) ? STR("") : display;
    if (out->n > 0 && (out->n > LIST_DISPLAY_BYTES_MAX || !percent_is_plain(display)))
        return lists_refuse(x, 400, "bad_request#display",
                            "A display is 1 to 128 of A-Z a-z 0-9 . _ ~ -, or * for none.");
    return true;
}

/* 1 and up, as digits without a leading zero. */
static bool parse_position(struct http_exchange *x, const struct list_bucket_opts *b, unsigned *out)
{
    str text = http_param(x, "p");
    uint64_t p = 0;
    if (text.p == NULL)
        return true;
    if (text.n > POSITION_DIGITS_MAX || text.p[0] == '0' || !str_to_u64(text, &p))
        return lists_refuse(x, 400, "bad_request#position", "A position is a number from 1.");
    if (p > b->size)
        return lists_refuse(x, 404, "not_found#position", "This list has no such position.");
    *out = (unsigned)p;
    return true;
}

static bool parse_params(struct http_exchange *x, const struct list_bucket_opts *b,
                         str params[LIST_PARAMS_MAX])
{
    struct http_pair pairs[LIST_PARAMS_MAX + 1];
    unsigned count = http_query_all(x, pairs, COUNT_OF(pairs));
    for (unsigned i = 0; i < count; i++) {
        unsigned at = 0;
        while (at < b->params_count && !str_eq(pairs[i].name, str_of(b->params[at])))
            at++;
        if (at == b->params_count)
            return lists_refuse(x, 400, "bad_request#param",
                                "The query holds a parameter this list does not have.");
        if (params[at].p != NULL)
            return lists_refuse(x, 400, "bad_request#param", "The query holds a parameter twice.");
        if (pairs[i].value.n > LIST_VALUE_BYTES_MAX)
            return lists_refuse(x, 400, "bad_request#param",
                                "A parameter is longer than 2048 bytes.");
        params[at] = pairs[i].value.p != NULL ? pairs[i].value : STR("");
    }
    return true;
}

static void parse_wishes(struct list_get *g)
{
    str wishes = http_common(g->x)->cache_control;
    struct list_request *r = &g->request;
    g->conditional = http_common(g->x)->if_match.n > 0;
    r->only_cached = g->conditional || http_cache_control_has(wishes, STR("only-if-cached"));
    /* A shared cache may pass over it: RFC 9111 5.2.1.4 is a wish, and the bucket decides. */
    r->no_cache = !r->only_cached && r->bucket->no_cache_allowed &&
                  http_cache_control_has(wishes, STR("no-cache"));
    if (http_header(g->x, "List-Version", &g->named))
        r->want = g->named;
    r->deadline = mono_add_ms(g->began, headers_wait_ms(g->x, r->bucket->wait_timeout_ms));
}

/* NULL: it was answered. */
static struct list_get *list_get_new(struct http_exchange *x, struct app *app)
{
    struct list_get *g = arena_alloc(http_arena(x), sizeof *g);
    if (g == NULL) {
        refuse_own(x, ERR_LIMIT);
        return NULL;
    }
    *g = (struct list_get){ .x = x, .app = app, .began = clock_mono(app->clock) };
    const struct page_domain *domain = app_domain_of(x, app);
    if (domain == NULL)
        return NULL;
    struct list_request *r = &g->request;
    r->domain = domain->name;
    r->bucket = lists_bucket(app->lists, http_param(x, "bucket"));
    if (r->bucket == NULL) {
        lists_refuse(x, 404, "not_found#list", "There is no list of this name.");
        return NULL;
    }
    if (!parse_display(x, &r->display) || !parse_position(x, r->bucket, &g->position) ||
        !parse_params(x, r->bucket, r->params))
        return NULL;
    parse_wishes(g);
    return g;
}

/* ---- answering ---- */

static void lists_header(struct http_exchange *x, const char *name, str value)
{
    http_reply_header(x, str_of(name), value);
}

/* Where it comes from: hit, or how the flight went; what is stale says so. */
static str source_of(const struct list_get *g, int64_t fresh_ms)
{
    const struct list_request *r = &g->request;
    struct arena *a = http_arena(g->x);
    if (r->hit)
        return arena_printf(a, "palimpsest; hit; ttl=%lld",
                            (long long)(r->pinned && fresh_ms < 0 ? 0 : fresh_ms / 1000));
    bool collapsed = r->detail == FLIGHT_WAITED || r->detail == FLIGHT_REMOTE;
    return arena_printf(a, "palimpsest; fwd=miss%s; detail=%s", collapsed ? "; collapsed" : "",
                        fresh_ms <= 0 && !r->pinned ? "stale" : flight_detail_name(r->detail));
}

static void headers(struct list_get *g, const struct list_value *v, str tag)
{
    struct arena *a = http_arena(g->x);
    mono now = clock_mono(g->app->clock);
    lists_header(g->x, "ETag", arena_printf(a, "\"%.*s\"", STR_ARG(tag)));
    lists_header(g->x, "List-Version", str_of(v->version));
    lists_header(g->x, "List-Size", arena_printf(a, "%u", v->count));
    if (g->request.display.n == 0) /* then the name decides */
        lists_header(g->x, "Vary", STR("List-Version"));
    if (g->named.n > 0) { /* such a client learns whether it still has that version */
        bool kept = str_eq(g->named, str_of(v->version));
        lists_header(g->x, "List-Pin", kept ? STR("kept") : STR("lost"));
        lists_pin_told(g->app->lists, &g->request, kept);
    }
    lists_header(g->x, "Age", arena_printf(a, "%lld", (long long)(list_age_ms(v, now) / 1000)));
    lists_header(g->x, "Server-Timing",
                 arena_printf(a, "wait;dur=%.1f", (double)(now.ns - g->began.ns) / 1e6));
    lists_header(g->x, "Cache-Status", source_of(g, list_fresh_ms(v, now)));
}

static const char *cache_control(const struct list_get *g, const struct list_value *v)
{
    const struct list_bucket_opts *b = g->request.bucket;
    int64_t fresh_ms = list_fresh_ms(v, clock_mono(g->app->clock));
    long long left_s = fresh_ms > 0 ? fresh_ms / 1000 : 0, stale_s = b->stale_ttl_ms / 1000;
    return arena_printf(http_arena(g->x),
                        "%s, max-age=%lld, stale-while-revalidate=%lld, stale-if-error=%lld",
                        b->is_public ? "public" : "private", left_s, stale_s, stale_s)
        .p;
}

static void lists_answer(struct list_get *g, const struct list_value *v)
{
    struct arena *a = http_arena(g->x);
    str tag =
        g->position > 0 ? arena_printf(a, "%s-%u", v->version, g->position) : str_of(v->version);
    str match = http_common(g->x)->if_match, none_match = http_common(g->x)->if_none_match;
    /* If-Match names the list as a whole, or this answer of it. */
    if (g->conditional && !http_etag_matches(match, str_of(v->version), false) &&
        !http_etag_matches(match, tag, false)) {
        lists_refuse(g->x, 412, "precondition_failed", "Another list is shown by now.");
        return;
    }
    headers(g, v, tag);
    const char *cached = cache_control(g, v);
    if (g->position > v->count) {
        app_problem_told(g->x, &(struct app_problem){ .status = 404,
                                                      .type = "not_found#position",
                                                      .detail = STR("This list is shorter."),
                                                      .cache_control = cached });
        return;
    }
    str body = list_json(a, v, g->position);
    if (tag.p == NULL || body.p == NULL || cached == NULL) {
        refuse_own(g->x, ERR_LIMIT);
        return;
    }
    lists_header(g->x, "Content-Type", STR("application/json"));
    lists_header(g->x, "Cache-Control", str_of(cached));
    bool same = none_match.n > 0 && http_etag_matches(none_match, tag, true);
    http_answer(g->x, same ? 304 : 200, same ? (str){ .p = NULL, .n = body.n } : body);
}

static void lists_fail(struct list_get *g, err why, const struct err_note *note)
{
    if (why == ERR_NOT_FOUND && g->conditional) {
        lists_refuse(g->x, 412, "precondition_failed", "That list is gone.");
    } else if (why == ERR_NOT_FOUND) {
        lists_refuse(g->x, 504, "not_cached", "No such list is there, and none was to be made.");
    } else {
        struct arena *a = http_arena(g->x);
        const char *detail = flight_detail_name(g->request.detail), *cached = NULL;
        int64_t retry_ms = g->request.retry_after_ms;
        lists_header(g->x, "Cache-Status",
                     arena_printf(a, "palimpsest; fwd=miss; detail=%s", detail));
        if (retry_ms > 0) /* remembered for so long, as Retry-After says it */
            cached = arena_printf(a, "private, max-age=%lld", (long long)(retry_ms + 999) / 1000).p;
        app_origin_fail_kept(g->x, why, note, retry_ms > 0 ? retry_ms : 1000,
                             cached != NULL ? cached : "no-store");
    }
}

/* ---- waiting ---- */

static void lists_flown(struct list_request *r, err why, struct list_value *v,
                        const struct err_note *note)
{
    struct list_get *g = CONTAINER_OF(r, struct list_get, request);
    g->waiting = false;
    if (why == ERR_OK)
        lists_answer(g, v);
    else
        lists_fail(g, why, note);
}

static void lists_gone(struct http_exchange *x, void *ctx)
{
    struct list_get *g = ctx;
    if (!g->waiting || !list_leave(g->app->lists, &g->request))
        return; /* whoever has it answers */
    g->waiting = false;
    lists_refuse(x, 499, "client_closed", "The client left.");
}

static void lists_fly(struct list_get *g)
{
    if (http_draining(g->x)) {
        lists_fail(g, ERR_SHUTDOWN, NULL);
        return;
    }
    http_defer(g->x);
    g->waiting = true;
    http_on_gone(g->x, lists_gone, g);
    g->request.done = lists_flown;
    err why = list_start(g->app->lists, &g->request);
    if (why == ERR_OK)
        return;
    g->waiting = false;
    lists_fail(g, why, NULL);
}

static void list_get(struct http_exchange *x, void *app)
{
    struct list_get *g = list_get_new(x, app);
    if (g == NULL)
        return;
    struct list_value *v = list_here(g->app->lists, &g->request);
    if (v == NULL) {
        lists_fly(g);
        return;
    }
    lists_answer(g, v);
    struct flight_value *value = &v->v;
    flight_value_unref(&value);
}

/* ---- dropping ---- */

static void app_lists_dropped(void *ctx, err why)
{
    struct list_get *g = ctx;
    if (why == ERR_OK)
        http_answer(g->x, 204, STR_NONE);
    else
        lists_refuse(g->x, 503, "redis_away",
                     "It was forgotten here; other servers could not be told.");
}

/* A position has nothing of its own that could go: its list goes. */
static void list_delete(struct http_exchange *x, void *app)
{
    struct list_get *g = list_get_new(x, app);
    if (g == NULL)
        return;
    if (http_draining(x)) {
        refuse_own(x, ERR_SHUTDOWN);
        return;
    }
    http_defer(x);
    list_drop(g->app->lists, &g->request, app_lists_dropped, g);
}

const struct http_route app_list_routes[] = {
    { HTTP_GET, "/{domain}/v1/lists/{bucket}/{display}[/{p}]", list_get, .permission = "page.read",
      .label = "list", .pool = true },
    { HTTP_DELETE, "/{domain}/v1/lists/{bucket}/{display}[/{p}]", list_delete,
      .permission = "page.purge", .label = "list", .pool = true },
    { .pattern = NULL },
};
