/* page_wiki.c - GET of what only the wiki knows of a page: the request becomes a read
 * (page/wiki_get.h), its outcome an answer.
 *
 * Without an origin the metadata is what the store knows, and there is no wikitext and no lint. */
#include "app/answer.h"
#include "app/errors.h"
#include "app/page/page_request.h"
#include "page/location.h"
#include "page/wiki_get.h"

#include <inttypes.h>

enum { WIKI_JSON_BYTES_MAX = 1 << 20 };

struct wiki_get {
    struct page_request r;
    struct page_wiki_get page;
    bool deferred;
};

/* ---- answering ---- */

static str title_json(struct arena *a, const struct pagejson_title *t)
{
    struct buf b;
    buf_init(&b, WIKI_JSON_BYTES_MAX);
    pagejson_title(&b, t);
    return buf_take(&b, a);
}

static str cache_control_of(const struct page_wiki_get *g)
{
    const char *configured = g->target.settings->cache_control;
    if (g->title_seen.changed) /* it stands under another title than its own */
        return STR("no-cache");
    if (g->want == WANT_META || configured == NULL) /* of users, too, whom the wiki may hide */
        return STR(HEADERS_CACHE_PRIVATE);
    return str_of(configured);
}

/* As of a content: clients of RESTBase read the page's own title from it. */
static void add_location(const struct wiki_get *g, struct answer *w)
{
    static const char *const contents[] = { [WANT_RENDER] = "html",
                                            [WANT_META] = "title",
                                            [WANT_WIKITEXT] = "wikitext",
                                            [WANT_LINT] = "lint" };
    const struct page_target *t = &g->page.target;
    struct arena *a = g->page.arena;
    const struct page_location l = { .target = t,
                                     .public_url = str_of(g->r.app->config->public_url),
                                     .content = str_of(contents[g->page.want]),
                                     .behind = t->has_rev ? arena_printf(a, "%" PRIu64, t->name.rev)
                                                          : STR(""),
                                     .query = http_query_raw(g->r.x) };
    if (l.public_url.n > 0)
        answer_add(w, STR("content-location"), page_location(a, &l));
}

/* name: tid zero: of the revision alone, no render of which is stored. */
static void answer_wiki(const struct wiki_get *g, str body, str type, struct page_name name,
                        str source)
{
    struct arena *a = g->page.arena;
    struct answer w = { .status = 200, .body = body };
    str etag = page_name_is_unmade(name) ? arena_printf(a, "\"%" PRIu64 "\"", name.rev)
                                         : page_etag(a, name);
    if (body.p == NULL || type.p == NULL || etag.p == NULL) {
        app_fail(g->r.x, ERR_LIMIT, NULL);
        return;
    }
    answer_add(&w, STR("content-type"), type);
    answer_add(&w, STR("etag"), etag);
    answer_add(&w, STR("cache-control"), cache_control_of(&g->page));
    add_location(g, &w);
    answer_add(&w, STR("cache-status"), source);
    if (g->page.outcome == WIKI_STORED && g->page.why != ERR_OK)
        answer_add(&w, STR("warning"), STR("111 palimpsest \"Revalidation Failed\""));
    answer_add_security(&w, a, type, STR_NONE);
    answer_send(g->r.x, &w);
}

static void answer_stored(const struct wiki_get *g)
{
    const struct page_wiki_get *p = &g->page;
    const struct pagejson_title title = { .title = p->target.title,
                                          .name = p->stored.render.name,
                                          .revised_at = STORE_TIME_NEVER };
    answer_wiki(g, title_json(p->arena, &title), STR("application/json; charset=utf-8"), title.name,
                p->why != ERR_OK ? STR("palimpsest; hit; fwd=miss; detail=stale-error")
                                 : STR("palimpsest; hit"));
}

static void answer_told(const struct wiki_get *g)
{
    const struct page_wiki_get *p = &g->page;
    const struct page_word *word = p->word;
    struct arena *a = p->arena;
    const struct pagejson_title title = { .title = word->meta.title,
                                          .name = { .rev = word->meta.rev, .tid = word->tid },
                                          .meta = &word->meta };
    str source =
        arena_printf(a, "palimpsest; fwd=miss; fwd-status=200%s; detail=%s",
                     p->detail == FLIGHT_LED ? "" : "; collapsed", flight_detail_name(p->detail));
    if (p->want == WANT_META)
        answer_wiki(g, title_json(a, &title), STR("application/json; charset=utf-8"), title.name,
                    source);
    else
        answer_wiki(g, arena_copy(a, word->body), arena_copy(a, word->type), title.name, source);
}

static void wiki_done(struct page_wiki_get *p)
{
    const struct wiki_get *g = CONTAINER_OF(p, struct wiki_get, page);
    struct http_exchange *x = g->r.x;
    switch (p->outcome) {
    case WIKI_TOLD:
        answer_told(g);
        return;
    case WIKI_STORED:
        answer_stored(g);
        return;
    case WIKI_MOVED:
        page_moved(x, &p->target);
        return;
    case WIKI_BAD_TITLE:
        page_title_bad(x, p->why, &p->note);
        return;
    case WIKI_UNCACHED:
        app_refused(x, 504, "not_cached",
                    "The wiki would have to be asked; the request forbids that.");
        return;
    case WIKI_REFUSED:
        app_fail(x, ERR_SHUTDOWN, NULL);
        return;
    case WIKI_FAILED:
        app_origin_fail(x, p->why, &p->note, p->retry_ms);
        return;
    }
}

/* ---- asking ---- */

static bool wiki_waits(struct page_wiki_get *p, enum page_wait what)
{
    struct wiki_get *g = CONTAINER_OF(p, struct wiki_get, page);
    if (p->deadline.ns == 0)
        p->deadline = page_wait_deadline(g->r.x, g->r.app);
    return page_waits(g->r.x, &g->deferred, what);
}

/* Of a domain whose origin has no API, or that has none: what the store knows. */
static void title_read(struct store_call *c)
{
    struct wiki_get *g = CONTAINER_OF(c, struct wiki_get, page.stored.call);
    const struct page_read *read = &g->page.stored;
    struct arena *a = http_arena(g->r.x);
    struct page_name name = read->render.name;
    if (c->why != ERR_OK)
        page_fail(g->r.x, g->r.app, c->why, &read->trace, NULL);
    else
        page_answer_json(g->r.x,
                         title_json(a,
                                    &(struct pagejson_title){ .title = g->r.target.title,
                                                              .name = name,
                                                              .revised_at = tid_time(name.tid) }),
                         page_etag(a, name));
}

void app_page_get_wiki(struct http_exchange *x, void *app)
{
    struct wiki_get *g = page_request_new(x, app, sizeof *g);
    if (g == NULL)
        return;
    const struct page_target *t = &g->r.target;
    const struct origin *origin = t->domain->origin;
    struct page_wiki_get *p = &g->page;
    enum render_want want = (enum render_want)http_route(x)->kind;
    if (want == WANT_META && (origin == NULL || !origin_has_api(origin))) {
        p->stored = (struct page_read){ .call = { .home = http_home(x), .done = title_read },
                                        .bucket = t->settings->bucket,
                                        .which = page_target_which(t),
                                        .arena = http_arena(x) };
        app_call_go(x, page_store_read(g->r.app->page.store, &p->stored), &p->stored.call);
        return;
    }
    if (origin == NULL) {
        app_refused(x, 404, "not_found#content",
                    "Only a wiki has this, and this domain has no origin.");
        return;
    }
    *p = (struct page_wiki_get){ .service = &g->r.app->page,
                                 .arena = http_arena(x),
                                 .home = http_home(x),
                                 .target = *t,
                                 .want = want,
                                 .flags = page_wishes(x),
                                 .wait = wiki_waits,
                                 .done = wiki_done };
    page_wiki_get_start(p);
}
