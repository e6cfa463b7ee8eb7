/* page_answer.c - the answer to a GET of a content: status, header fields, and the ready copy. */
#include "app/answer.h"
#include "app/counters.h"
#include "app/errors.h"
#include "app/page/page_edge.h"
#include "app/page/page_get.h"
#include "base/date.h"
#include "hot/hot.h"
#include "page/etag.h"
#include "page/location.h"
#include "page/trusted.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- header fields ---- */

static str content_url(const struct content_get *g, str behind, str query)
{
    const struct page_get *p = &g->page;
    return page_location(p->arena,
                         &(struct page_location){ .target = &p->target,
                                                  .public_url = str_of(g->app->config->public_url),
                                                  .content = p->target.content,
                                                  .behind = behind,
                                                  .query = query });
}

/* The exact render; with a public URL, as RESTBase has it, the address that was asked for, under
 * the page's own title, from which clients read where a redirect led. A memento names itself
 * always. */
static str content_location(const struct content_get *g)
{
    const struct page_get *p = &g->page;
    char tag[PAGE_TAG_BYTES + 1];
    str name = page_tag(p->read.render.name, tag), query = STR("");
    bool canonical = g->app->config->public_url != NULL && (p->flags & GET_AT) == 0;
    if (canonical && !p->target.has_tid)
        name = p->target.has_rev ? str_take(name, str_find(name, '/')) : STR("");
    if (canonical && p->hops == 0)
        query = http_query_raw(g->x);
    return content_url(g, name, query);
}

/* What else the answer depends on. RFC 7089: the bare path is original and time gate at once; what
 * names or chose a render is a memento of it. */
static void add_memento(struct content_get *g, struct answer *w)
{
    static const char *const vary[2][2] = {
        /* by: a gate? has it an origin? */
        { "Accept-Encoding", "Accept, Accept-Encoding, Origin" },
        { "Accept-Encoding, Accept-Datetime",
          "Accept, Accept-Encoding, Accept-Datetime, Origin" }
    };
    const struct page_get *p = &g->page;
    bool gate = !p->target.has_rev, at = (p->flags & GET_AT) != 0,
         origin = p->target.domain->origin != NULL;
    answer_add(w, STR("vary"), str_of(vary[gate][origin]));
    answer_add(w, STR("link"),
               arena_printf(p->arena, "<%.*s>; rel=\"original timegate\"",
                            STR_ARG(content_url(g, STR(""), STR("")))));
    bool leads_away = p->outcome == GOT_REDIRECT && g->app->config->public_url != NULL;
    if (at || (origin && !leads_away))
        answer_add(w, STR("content-location"), content_location(g));
    if (gate && !at)
        return;
    char *date = arena_alloc(p->arena, DATE_HTTP_BYTES + 1);
    if (date == NULL)
        return;
    date_format_http(tid_time(p->read.render.name.tid).ns, date);
    answer_add(w, STR("memento-datetime"), str_of(date));
}

/* Does the wiki still say so? */
static const char *source_detail(const struct page_get *p)
{
    static const char *const details[] = { [GET_UNASKED] = NULL,
                                           [GET_TRUSTED] = "trusted",
                                           [GET_CHECKED] = "checked",
                                           [GET_UNCHECKED] = "unchecked",
                                           [GET_DATED] = "dated" };
    return p->how == HOW_HIT ? details[p->trusted] : p->how_detail;
}

/* Where it came from (RFC 9211), and in the peer's word. */
static void add_source(const struct page_get *p, struct answer *w)
{
    static const struct {
        const char *status, *word;
    } said[] = {
        [HOW_HIT] = { "hit", "hit" },
        [HOW_MISS] = { "fwd=miss; fwd-status=200; stored", "miss" },
        [HOW_RENEWED] = { "fwd=request; fwd-status=200; stored", "nocache" },
        [HOW_STALE] = { "hit; fwd=request", "hit" },
    };
    const char *detail = source_detail(p);
    bool taken = p->how == HOW_HIT && (p->was & WAS_TAKEN) != 0;
    const enum page_how how = taken ? HOW_MISS : p->how;
    if (taken)
        detail = "secondary";
    bool collapsed = p->how != HOW_HIT && (p->was & WAS_COLLAPSED) != 0;
    answer_add(w, STR("cache-status"),
               arena_printf(p->arena, "palimpsest; %s%s%s%s", said[how].status,
                            collapsed ? "; collapsed" : "",
                            detail == NULL ? "" : "; detail=", detail == NULL ? "" : detail));
    if (p->how == HOW_STALE)
        answer_add(w, STR("warning"), STR("111 palimpsest \"Revalidation Failed\""));
    if (p->target.domain->origin != NULL)
        answer_add(w, STR("x-restbase-cache"), str_of(said[how].word));
}

static bool is_made_now(const struct page_get *p)
{
    return (p->was & WAS_MADE) != 0 && p->word_age_ns != TRUST_NEVER;
}

static int64_t age_s_of(const struct content_get *g)
{
    int64_t age_s = g->page.word_age_ns / NS_PER_S, max = g->age_s_max;
    return max > 0 && age_s > max ? max : age_s;
}

/* What 200, 206, 302 and 304 share. */
static void add_validators(struct content_get *g, struct answer *w)
{
    const struct page_get *p = &g->page;
    char tag[PAGE_TAG_BYTES + 1];
    (void)page_tag(p->read.render.name, tag);
    bool strong = p->coding == CODING_IDENTITY || g->app->config->compat_etag == ETAG_STRONG;
    answer_add(w, STR("etag"), arena_printf(p->arena, "%s\"%s\"", strong ? "" : "W/", tag));
    answer_add(w, STR("cache-control"), str_of(g->cache_control));
    add_source(p, w);
    if (is_made_now(p)) /* the same for all whom it answers */
        answer_add(w, STR("age"), arena_printf(p->arena, "%" PRId64, age_s_of(g)));
    add_memento(g, w);
}

static void build_content(struct content_get *g, struct answer *w)
{
    const struct page_get *p = &g->page;
    str headers = p->read.bodies[0].headers;
    w->status = p->outcome == GOT_PART ? 206 : p->outcome == GOT_REDIRECT ? 302 : 200;
    w->body = p->body;
    answer_add_kept(w, headers, HEADERS_X_STORE);
    str type = answer_add_type(w, headers);
    add_validators(g, w);
    if (p->outcome == GOT_REDIRECT)
        answer_add(w, STR("location"),
                   page_location_redirect(p->arena, &p->target, p->location, http_query_raw(g->x)));
    if (p->coding == CODING_IDENTITY)
        answer_add(w, STR("accept-ranges"), STR("bytes"));
    else
        answer_add(w, STR("content-encoding"), str_of(http_coding_name(p->coding)));
    if (p->outcome == GOT_PART) {
        w->body = str_take(str_skip(p->body, p->range.first), p->range.last - p->range.first + 1);
        answer_add(w, STR("content-range"),
                   arena_printf(p->arena, "bytes %" PRIu64 "-%" PRIu64 "/%zu", p->range.first,
                                p->range.last, p->body.n));
    }
    str domain = p->target.domain->name;
    answer_add_security_and(w, p->arena, type, domain, page_styles(g->app, p->arena, domain));
}

static void build_same(struct content_get *g, struct answer *w)
{
    const struct page_content *content = g->page.read.contents[0];
    bool raw = g->page.coding == CODING_IDENTITY;
    *w = (struct answer){ .status = 304 };
    w->body = (str){ .n = raw ? content->raw_bytes : content->stored_bytes }; /* of the 200 */
    add_validators(g, w);
    answer_add_security(w, g->page.arena, STR_NONE, STR_NONE);
}

/* ---- ready answers ---- */

/* Nothing in it but path, codings and If-None-Match. (An empty query is another address to caches.)
 */
static bool is_ready_request(const struct http_exchange *x)
{
    const struct http_common *c = http_common(x);
    bool only_none_match = !c->any_conditional ||
                           (c->if_match.n == 0 && c->if_unmodified_since.n == 0 &&
                            c->if_modified_since.n == 0 && c->if_range.n == 0 && c->range.n == 0);
    return only_none_match && http_query_raw(x).p == NULL && c->cache_control.n == 0 &&
           c->accept_datetime.n == 0 && !page_names_profile(x) &&
           (http_method(x) == HTTP_GET || http_method(x) == HTTP_HEAD);
}

static struct http_ready *ready_of(const struct content_get *g, const struct answer *w)
{
    return http_ready_new(g->app->budget, w->status, w->headers, w->count, w->body);
}

/* Keeps a ready copy of the 304, and of the 200 when it is at hand. Returns the one that g is
 * answered with, with a reference; NULL when there is none. */
static struct http_ready *keep_ready(struct content_get *g, const struct answer *full)
{
    const struct page_get *p = &g->page;
    struct app_hot *hot = g->app->hot;
    int variant = page_coding_variant(p->accept_encoding);
    store_time until;
    if (variant < 0 || g->app->config->hot_bytes == 0 || !is_ready_request(g->x) ||
        http_is_withheld(g->x) || !page_get_lasts(p, &until) ||
        !page_settings_hold(&g->app->page, p->target.settings))
        return NULL;
    struct hot_key key = { .target = http_target(g->x), .variant = (unsigned)variant };
    if ((full != NULL && !hot_takes(hot, full->body.n)) || !hot_wants(hot, key))
        return NULL;
    struct answer same;
    build_same(g, &same);
    char text[PAGE_TAG_BYTES + 1];
    struct hot_entry_opts opts = { .seen = p->seen,
                                   .valid_until = until,
                                   .cell = p->cell,
                                   .says = p->says,
                                   .reader = p->reader,
                                   .rules = &p->target.domain->trust,
                                   .age_s_max = g->age_s_max,
                                   .kind = counters_read_kind(p->read.render.state),
                                   .tag = page_tag(p->read.render.name, text),
                                   .full = full == NULL ? NULL : ready_of(g, full),
                                   .same = ready_of(g, &same) };
    if (opts.same != NULL && (full == NULL || opts.full != NULL))
        hot_put(hot, key, &opts);
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
bool page_names_profile(const struct http_exchange *x)
{
    str accept = http_common(x)->accept;
    return accept.n > 0 && str_find_str(accept, STR("profile")) < accept.n;
}

/* A wiki that was closed: what is ready of it may not be given. */
static bool is_of_closed(const struct http_exchange *x, const struct app *app)
{
    const struct page_service *page = &app->page;
    if (page->checks == NULL || !page_checks_any_closed(page->checks))
        return false;
    str rest = str_skip(http_target(x), 1);
    const struct page_domain *d = page_domain_find(page, str_split(&rest, '/'));
    return d != NULL && page_is_closed(page, d);
}

bool app_page_hot_answer(struct http_exchange *x, const struct app *app)
{
    if (app->config->hot_bytes == 0 || !is_ready_request(x) || is_of_closed(x, app))
        return false;
    const struct http_common *c = http_common(x);
    int variant = page_coding_variant(c->accept_encoding);
    if (variant < 0)
        return false;
    struct hot_key key = { .target = http_target(x), .variant = (unsigned)variant };
    int64_t age_s;
    struct http_ready *r = hot_get(app->hot, key, app->clock, c->if_none_match, &age_s);
    if (r == NULL)
        return false;
    if (age_s >= 0)
        http_reply_age(x, age_s);
    send_ready(x, &r);
    return true;
}

/* ---- the answer that waiters of one flight share: a ready one, and how it is counted ---- */

struct shape {
    struct http_ready *ready;
    enum read_kind kind;
};

void app_page_shape_free(void *shape)
{
    struct shape *s = shape;
    http_ready_unref(&s->ready);
    free(s);
}

/* The answer that g is sent with, with a reference, after it was offered to the others; NULL: it is
 * not to be shared. */
static struct http_ready *shape_offer(struct content_get *g, const struct answer *full)
{
    const struct page_get *p = &g->page;
    if (http_is_withheld(g->x) || !page_get_may_be_shape(p) ||
        atomic_load(&p->made->shapes[p->shape]) != NULL)
        return NULL;
    struct shape *s = malloc(sizeof *s);
    struct http_ready *r = s == NULL ? NULL : ready_of(g, full);
    if (r == NULL) {
        free(s);
        return NULL;
    }
    *s = (struct shape){ .ready = http_ready_ref(r),
                         .kind = counters_read_kind(p->read.render.state) };
    if (!page_made_offer(p->made, (unsigned)p->shape, s))
        app_page_shape_free(s);
    return r;
}

/* ---- answering ---- */

static void say_age(const struct content_get *g)
{
    const struct page_get *p = &g->page;
    if (p->word_age_ns != TRUST_NEVER && !is_made_now(p))
        http_reply_age(g->x, age_s_of(g));
}

static void answer_content(struct content_get *g)
{
    struct answer w = { 0 };
    build_content(g, &w);
    say_age(g);
    struct http_ready *r = g->page.made != NULL ? shape_offer(g, &w) : keep_ready(g, &w);
    if (r != NULL)
        send_ready(g->x, &r);
    else
        answer_send(g->x, &w);
}

static void answer_same(struct content_get *g)
{
    struct http_ready *r = keep_ready(g, NULL);
    say_age(g);
    if (r != NULL) {
        send_ready(g->x, &r);
        return;
    }
    struct answer w;
    build_same(g, &w);
    answer_send(g->x, &w);
}

/* Outcomes of which nothing but words is told. */
static void answer_words(struct content_get *g)
{
    static const struct {
        int status;
        const char *type, *detail;
    } words[] = {
        [GOT_PRECONDITION] = { 412, "precondition_failed",
                               "A condition of the request does not hold." },
        [GOT_UNACCEPTABLE] = { 406, "not_acceptable",
                               "None of the codings accepted is there, or none of the "
                               "specification's versions." },
        [GOT_NO_RANGE] = { 416, "range_not_satisfiable", "The range lies outside the content." },
        [GOT_NOTHING] = { 404, "not_found", "No such render is stored." },
        [GOT_NO_CONTENT] = { 404, "not_found#content", "This render has no content of that name." },
        [GOT_NO_DATA] = { 400, "bad_request#stash",
                          "The wiki gives this page without the data that ties it to its source, "
                          "as "
                          "it does with what is no wikitext: what is edited could not be saved." },
        [GOT_UNCACHED] = { 504, "not_cached",
                           "It would have to be made, and the request forbids that." },
    };
    const struct page_get *p = &g->page;
    if (p->outcome == GOT_NO_RANGE)
        http_reply_header(g->x, STR("content-range"),
                          arena_printf(p->arena, "bytes */%" PRIu32,
                                       p->read.contents[0]->raw_bytes));
    app_refused(g->x, words[p->outcome].status, words[p->outcome].type, words[p->outcome].detail);
}

void content_answer(struct content_get *g)
{
    const struct page_get *p = &g->page;
    if (p->outcome <= GOT_SAME) {
        counters_read(g->app->counters, counters_read_kind(p->read.render.state));
        page_edge_choose(g);
    }
    switch (p->outcome) {
    case GOT_CONTENT:
    case GOT_PART:
    case GOT_REDIRECT:
        answer_content(g);
        return;
    case GOT_SAME:
        answer_same(g);
        return;
    case GOT_SHAPE:
        counters_read(g->app->counters, ((const struct shape *)p->shaped)->kind);
        http_answer_ready(g->x, ((const struct shape *)p->shaped)->ready);
        return;
    case GOT_MOVED:
        page_moved(g->x, &p->target);
        return;
    case GOT_PRECONDITION:
    case GOT_UNACCEPTABLE:
    case GOT_NO_RANGE:
    case GOT_NOTHING:
    case GOT_NO_CONTENT:
    case GOT_NO_DATA:
    case GOT_UNCACHED:
        answer_words(g);
        return;
    case GOT_BAD_TITLE:
        page_title_bad(g->x, p->why, &p->note);
        return;
    case GOT_FULL:
        stash_answer_full(g->x);
        return;
    case GOT_REFUSED:
        app_fail(g->x, ERR_SHUTDOWN, NULL);
        return;
    case GOT_ORIGIN_FAILED:
        app_origin_fail(g->x, p->why, &p->note, p->retry_ms);
        return;
    case GOT_GONE:
        if (p->why == ERR_GONE)
            counters_read(g->app->counters, READ_GONE);
        page_fail(g->x, g->app, p->why, &p->trace, &p->note);
        return;
    case GOT_FAILED:
        page_fail(g->x, g->app, p->why, &p->trace, &p->note);
        return;
    }
}
