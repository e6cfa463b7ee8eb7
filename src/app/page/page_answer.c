/* The answer to a GET of a content: coding, conditions, range, header fields, and the ready copy.
 */
#include "app/counters.h"
#include "app/errors.h"
#include "app/headers.h"
#include "app/page/page_get.h"
#include "app/page/title.h"
#include "base/date.h"

#include <inttypes.h>

static enum http_coding coding_of(enum page_codec c)
{
    switch (c) {
    case PAGE_IDENTITY:
        return CODING_IDENTITY;
    case PAGE_GZIP:
        return CODING_GZIP;
    case PAGE_ZSTD:
        return CODING_ZSTD;
    }
    return CODING_IDENTITY;
}

/* ---- deciding ---- */

/* The stored coding when the client likes it as much as identity, else identity. False: neither
 * will do. */
static bool choose_coding(struct page_get *g)
{
    enum http_coding stored = coding_of(g->content->codec);
    struct http_accept accept = http_accept_encoding(http_common(g->x)->accept_encoding);
    int identity = accept.weight[CODING_IDENTITY];
    bool coded =
        stored != CODING_IDENTITY && accept.weight[stored] > 0 && accept.weight[stored] >= identity;
    g->coding = coded ? stored : CODING_IDENTITY;
    return coded || identity > 0;
}

/* If-Unmodified-Since against the render's time. With no-cache it is the peer's question, "is yours
 * younger than this?": only a strictly older render is served, and a date that cannot be read
 * refuses; else RFC 9110 13.1.4. */
static bool unmodified_since(const struct page_get *g)
{
    const struct http_common *c = http_common(g->x);
    if (g->no_cache && g->how != HOW_HIT)
        return true; /* it asked whether to make it anew, and that was done */
    store_time rendered = tid_time(g->read.render.name.tid), since;
    bool dated = date_parse_http(c->if_unmodified_since, &since.ns);
    if (http_cache_control_has(c->cache_control, STR("no-cache")))
        return dated && store_time_before(rendered, since);
    return !dated || store_time_before(rendered, store_time_add(since, NS_PER_S));
}

bool page_get_is_younger(const struct page_get *g)
{
    const struct http_common *c = http_common(g->x);
    return c->if_match.n == 0 && c->if_unmodified_since.n > 0 && !unmodified_since(g);
}

/* 0: the conditions let the content through (RFC 9110 13.2.2). */
static int condition_status(const struct page_get *g, str tag)
{
    const struct http_common *c = http_common(g->x);
    if (!c->any_conditional)
        return 0;
    if (c->if_match.n > 0) {
        if (!http_etag_matches(c->if_match, tag, false))
            return 412;
    } else if (c->if_unmodified_since.n > 0 && !unmodified_since(g)) {
        return 412;
    }
    return c->if_none_match.n > 0 && http_etag_matches(c->if_none_match, tag, true) ? 304 : 0;
}

/* A range is for GET of identity, and with If-Range only of the very render it names. */
static void choose_range(struct page_get *g, str tag)
{
    const struct http_common *c = http_common(g->x);
    if (c->range.n == 0 || g->coding != CODING_IDENTITY || http_method(g->x) != HTTP_GET)
        return;
    if (c->if_range.n > 0 &&
        (str_eq(c->if_range, STR("*")) || !http_etag_matches(c->if_range, tag, false)))
        return;
    g->range = http_range(c->range, g->content->raw_bytes);
    if (g->range.kind == RANGE_ONE)
        g->status = 206;
    else if (g->range.kind == RANGE_UNSATISFIABLE)
        g->status = 416;
}

void page_get_decide(struct page_get *g)
{
    char text[PAGE_TAG_BYTES + 1];
    str tag = app_page_tag(g->read.render.name, text);
    bool codable = choose_coding(g);
    g->status = condition_status(g, tag);
    if (g->status != 0)
        return;
    g->status = codable ? 200 : 406;
    if (codable)
        choose_range(g, tag);
}

int page_get_variant(const struct http_common *c)
{
    struct http_accept accept = http_accept_encoding(c->accept_encoding);
    int identity = accept.weight[CODING_IDENTITY];
    if (identity == 0)
        return -1;
    int variant = 0;
    for (int coding = CODING_IDENTITY + 1; coding < CODINGS; coding++)
        if (accept.weight[coding] > 0 && accept.weight[coding] >= identity)
            variant |= 1 << coding;
    return variant;
}

/* ---- header fields ---- */

/* name: what stands behind the title; empty: nothing. */
static str page_url(const struct page_get *g, str name)
{
    struct arena *a = g->arena;
    str base = app_page_base(g->app, a, g->target.domain->name);
    return arena_printf(a, "%.*s/%s/%.*s/%.*s%s%.*s", STR_ARG(base), g->target.config->page.name,
                        STR_ARG(g->target.content), STR_ARG(http_encode(a, g->target.title)),
                        name.n > 0 ? "/" : "", STR_ARG(name));
}

/* The exact render; with a public URL, as RESTBase has it, the address that was asked for, under
 * the page's own title, from which clients read where a redirect led. A memento names itself
 * always. */
static str content_location(const struct page_get *g)
{
    char tag[PAGE_TAG_BYTES + 1];
    str name = app_page_tag(g->read.render.name, tag), query = STR("");
    bool canonical = g->app->config->public_url != NULL && !g->negotiated;
    if (canonical && !g->target.has_tid)
        name = g->target.has_rev ? str_take(name, str_find(name, '/')) : STR("");
    if (canonical && g->x != NULL && g->hops == 0)
        query = http_query_raw(g->x);
    return arena_printf(g->arena, "%.*s%s%.*s", STR_ARG(page_url(g, name)), query.n > 0 ? "?" : "",
                        STR_ARG(query));
}

/* What else the answer depends on. */
static str vary_of(const struct page_get *g)
{
    bool gate = !g->target.has_rev, origin = g->target.domain->origin != NULL;
    if (origin)
        return gate ? STR("Accept, Accept-Encoding, Accept-Datetime, Origin")
                    : STR("Accept, Accept-Encoding, Origin");
    return gate ? STR("Accept-Encoding, Accept-Datetime") : STR("Accept-Encoding");
}

/* RFC 7089: the bare path is original and time gate at once; what names or chose a render is a
 * memento of it. */
static void add_memento(struct page_get *g, struct answer *w)
{
    struct arena *a = g->arena;
    bool gate = !g->target.has_rev;
    answer_add(w, STR("vary"), vary_of(g));
    answer_add(w, STR("link"),
               arena_printf(a, "<%.*s>; rel=\"original timegate\"", STR_ARG(page_url(g, STR("")))));
    bool leads_away = g->status == 302 && g->app->config->public_url != NULL;
    if (g->negotiated || (g->target.domain->origin != NULL && !leads_away))
        answer_add(w, STR("content-location"), content_location(g));
    if (gate && !g->negotiated)
        return;
    char *date = arena_alloc(a, DATE_HTTP_BYTES + 1);
    if (date == NULL)
        return;
    date_format_http(tid_time(g->read.render.name.tid).ns, date);
    answer_add(w, STR("memento-datetime"), str_of(date));
}

static const char *cache_control(const struct page_get *g)
{
    if (g->stash || g->unlike || g->unfollowed)
        return "no-cache";
    return g->target.config->cache_control == NULL ? HEADERS_CACHE_PRIVATE
                                                   : g->target.config->cache_control;
}

/* Where it came from (RFC 9211), and in the peer's word. */
static void add_source(struct page_get *g, struct answer *w)
{
    static const struct {
        const char *status, *word;
    } said[] = {
        [HOW_HIT] = { "hit", "hit" },
        [HOW_MISS] = { "fwd=miss; fwd-status=200; stored", "miss" },
        [HOW_RENEWED] = { "fwd=request; fwd-status=200; stored", "nocache" },
        [HOW_STALE] = { "hit; fwd=request", "hit" },
    };
    const char *detail = g->how_detail;
    answer_add(w, STR("cache-status"),
               g->how == HOW_HIT
                   ? STR("palimpsest; hit")
                   : arena_printf(g->arena, "palimpsest; %s%s%s%s", said[g->how].status,
                                  g->collapsed ? "; collapsed" : "",
                                  detail == NULL ? "" : "; detail=", detail == NULL ? "" : detail));
    if (g->how == HOW_STALE)
        answer_add(w, STR("warning"), STR("111 palimpsest \"Revalidation Failed\""));
    if (g->target.domain->origin != NULL)
        answer_add(w, STR("x-restbase-cache"), str_of(said[g->how].word));
}

/* What 200, 206, 302 and 304 share. */
static void add_validators(struct page_get *g, struct answer *w)
{
    char tag[PAGE_TAG_BYTES + 1];
    (void)app_page_tag(g->read.render.name, tag);
    bool strong = g->coding == CODING_IDENTITY || g->app->config->compat_etag == ETAG_STRONG;
    const char *weak = strong ? "" : "W/";
    answer_add(w, STR("etag"), arena_printf(g->arena, "%s\"%s\"", weak, tag));
    answer_add(w, STR("cache-control"), str_of(cache_control(g)));
    add_source(g, w);
    add_memento(g, w);
}

static void build_content(struct page_get *g, struct answer *w)
{
    str type = STR("application/octet-stream");
    w->status = g->status;
    w->body = g->body;
    bool typed = headers_find(g->read.bodies[0].headers, STR("content-type"), &type);
    answer_add_kept(w, g->read.bodies[0].headers, HEADERS_X_STORE);
    if (!typed)
        answer_add(w, STR("content-type"), type);
    add_validators(g, w);
    if (g->status == 302)
        answer_add(w, STR("location"),
                   title_location(g->arena, &g->target, g->location, http_query_raw(g->x)));
    if (g->coding == CODING_IDENTITY)
        answer_add(w, STR("accept-ranges"), STR("bytes"));
    else
        answer_add(w, STR("content-encoding"), str_of(http_coding_name(g->coding)));
    if (g->status == 206) {
        w->body = str_take(str_skip(g->body, g->range.first), g->range.last - g->range.first + 1);
        answer_add(w, STR("content-range"),
                   arena_printf(g->arena, "bytes %" PRIu64 "-%" PRIu64 "/%zu", g->range.first,
                                g->range.last, g->body.n));
    }
    str domain = g->target.domain->name;
    answer_add_security_and(w, g->arena, type, domain, app_page_styles(g->app, g->arena, domain));
}

static void build_same(struct page_get *g, struct answer *w)
{
    bool raw = g->coding == CODING_IDENTITY;
    *w = (struct answer){ .status = 304 };
    w->body = (str){ .n = raw ? g->content->raw_bytes : g->content->stored_bytes }; /* of the 200 */
    add_validators(g, w);
    answer_add_security(w, g->arena, STR_NONE, STR_NONE);
}

/* ---- ready answers ---- */

/* Until when the ready answer is as good as a look into the store: while the render is not due, in
 * the state it is counted in, and for one that is named while a read of it needs no longer life. */
static store_time valid_until(const struct page_get *g)
{
    const struct page_policy *policy = &g->target.config->page.policy;
    store_time until = g->read.render.due_at;
    if (g->read.render.state == PAGE_RECENT)
        until = store_time_min(until,
                               store_time_add(g->read.render.superseded_at, policy->grace_ttl_ns));
    if (g->read.which.select != SELECT_LATEST)
        until = store_time_min(until, g->read.lasts_until);
    return until;
}

/* Nothing in it but path, codings and If-None-Match. */
static bool is_ready_request(const struct http_exchange *x)
{
    const struct http_common *c = http_common(x);
    bool only_none_match = !c->any_conditional ||
                           (c->if_match.n == 0 && c->if_unmodified_since.n == 0 &&
                            c->if_modified_since.n == 0 && c->if_range.n == 0 && c->range.n == 0);
    return only_none_match && http_query_raw(x).n == 0 && c->cache_control.n == 0 &&
           c->accept_datetime.n == 0 && !app_page_names_profile(x) &&
           (http_method(x) == HTTP_GET || http_method(x) == HTTP_HEAD);
}

static struct http_ready *ready_of(const struct page_get *g, const struct answer *w)
{
    return http_ready_new(g->app->budget, w->status, w->headers, w->count, w->body);
}

static bool may_be_ready(const struct page_get *g)
{
    bool as_stored = g->how == HOW_HIT && !g->unlike && g->hops == 0;
    return is_ready_request(g->x) && !g->extended && as_stored && g->app->config->hot_bytes > 0 &&
           (g->status == 200 || g->status == 304);
}

/* Keeps a ready copy of the 304, and of the 200 when it is at hand. Returns the one that g is
 * answered with, with a reference; NULL when there is none. */
static struct http_ready *keep_ready(struct page_get *g, const struct answer *full)
{
    int variant = page_get_variant(http_common(g->x));
    if (variant < 0 || !may_be_ready(g))
        return NULL;
    struct hot_key key = { .target = http_target(g->x), .variant = (unsigned)variant };
    if ((full != NULL && !hot_takes(g->app->hot, full->body.n)) || !hot_wants(g->app->hot, key))
        return NULL;
    struct answer same;
    build_same(g, &same);
    char text[PAGE_TAG_BYTES + 1];
    struct hot_entry_opts opts = { .mark = g->mark,
                                   .valid_until = valid_until(g),
                                   .kind = counters_read_kind(g->read.render.state),
                                   .tag = app_page_tag(g->read.render.name, text),
                                   .full = full == NULL ? NULL : ready_of(g, full),
                                   .same = ready_of(g, &same) };
    if (opts.same != NULL && (full == NULL || opts.full != NULL))
        hot_put(g->app->hot, key, &opts);
    if (full == NULL)
        return opts.same;
    http_ready_unref(&opts.same);
    return opts.full;
}

/* A ready answer names no request; to who named this one, it does. */
static void send_ready(struct http_exchange *x, struct http_ready **rp)
{
    if (http_has_request_id(x))
        http_reply_header(x, STR("x-request-id"), http_request_id(x));
    http_answer_ready(x, *rp);
    http_ready_unref(rp);
}

/* Browsers' Accept fields name none; whoever does has to be asked what it makes of the content. */
bool app_page_names_profile(const struct http_exchange *x)
{
    str accept = http_common(x)->accept;
    return accept.n > 0 && str_find_str(accept, STR("profile")) < accept.n;
}

bool app_page_hot_answer(struct http_exchange *x, const struct app *app)
{
    if (app->config->hot_bytes == 0 || !is_ready_request(x))
        return false;
    const struct http_common *c = http_common(x);
    int variant = page_get_variant(c);
    if (variant < 0)
        return false;
    struct hot_key key = { .target = http_target(x), .variant = (unsigned)variant };
    struct http_ready *r = hot_get(app->hot, key, app->clock, c->if_none_match);
    if (r == NULL)
        return false;
    send_ready(x, &r);
    return true;
}

/* ---- answering ---- */

static void answer_content(struct page_get *g)
{
    struct answer w = { 0 };
    build_content(g, &w);
    struct http_ready *r = keep_ready(g, &w);
    if (r != NULL)
        send_ready(g->x, &r);
    else
        answer_send(g->x, &w);
}

static void answer_same(struct page_get *g)
{
    struct http_ready *r = keep_ready(g, NULL);
    if (r != NULL) {
        send_ready(g->x, &r);
        return;
    }
    struct answer w;
    build_same(g, &w);
    answer_send(g->x, &w);
}

static void answer_unsatisfiable(struct page_get *g)
{
    http_reply_header(g->x, STR("content-range"),
                      arena_printf(http_arena(g->x), "bytes */%" PRIu32, g->content->raw_bytes));
    app_problem(g->x, 416, "range_not_satisfiable", NULL,
                STR("The range lies outside the content."), STR_NONE);
}

struct http_ready *page_get_ready(struct page_get *g)
{
    struct answer w = { 0 };
    g->status = 200;
    build_content(g, &w);
    return ready_of(g, &w);
}

void page_get_answer(struct page_get *g)
{
    if (g->status < 400)
        counters_read(g->app->counters, counters_read_kind(g->read.render.state));
    switch (g->status) {
    case 304:
        answer_same(g);
        return;
    case 406:
        app_problem(
            g->x, 406, "not_acceptable", NULL,
            STR("None of the codings accepted is there, or none of the specification's versions."),
            STR_NONE);
        return;
    case 412:
        app_problem(g->x, 412, "precondition_failed", NULL,
                    STR("A condition of the request does not hold."), STR_NONE);
        return;
    case 416:
        answer_unsatisfiable(g);
        return;
    default:
        answer_content(g);
    }
}
