/* page_wiki.c - GET of what only the wiki knows of a page: the request becomes a read
 * (page/wiki_get.h), its outcome an answer.
 *
 * Without an origin the metadata is what the store knows, and there is no wikitext and no lint. */
#include "app/answer.h"
#include "app/errors.h"
#include "app/page/page_title.h"
#include "page/location.h"
#include "page/wiki_get.h"

#include <inttypes.h>

enum { WIKI_JSON_BYTES_MAX = 1 << 20 };

struct wiki_get {
    struct page_wiki_get page;
    struct http_exchange *x;
    const struct app *app;
    bool deferred;
};

/* ---- answering ---- */

static str title_json(struct arena *a, const struct pagejson_title *t)
{
    struct buf b;
    buf_init(&b, WIKI_JSON_BYTES_MAX);
    pagejson_title(&b, t);
    str json = b.failed ? STR_NONE : arena_copy(a, buf_str(&b));
    buf_fini(&b);
    return json;
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
                                     .public_url = str_of(g->app->config->public_url),
                                     .content = str_of(contents[g->page.want]),
                                     .behind = t->has_rev ? arena_printf(a, "%" PRIu64, t->name.rev)
                                                          : STR(""),
                                     .query = http_query_raw(g->x) };
    if (l.public_url.n > 0)
        answer_add(w, STR("content-location"), page_location(a, &l));
}

/* name: tid zero: of the revision alone, no render of which is stored. */
static void wiki_answer(const struct wiki_get *g, struct answer *w, str type, struct page_name name,
                        str source)
{
    struct arena *a = g->page.arena;
    char tag[PAGE_TAG_BYTES + 1];
    str named =
            page_name_is_unmade(name) ? arena_printf(a, "%" PRIu64, name.rev) : page_tag(name, tag),
        etag = arena_printf(a, "\"%.*s\"", STR_ARG(named));
    if (w->body.p == NULL || type.p == NULL || etag.p == NULL) {
        app_fail(g->x, ERR_LIMIT, NULL);
        return;
    }
    answer_add(w, STR("content-type"), type);
    answer_add(w, STR("etag"), etag);
    answer_add(w, STR("cache-control"), cache_control_of(&g->page));
    add_location(g, w);
    answer_add(w, STR("cache-status"), source);
    if (g->page.outcome == WIKI_STORED && g->page.why != ERR_OK)
        answer_add(w, STR("warning"), STR("111 palimpsest \"Revalidation Failed\""));
    answer_add_security(w, a, type, STR_NONE);
    answer_send(g->x, w);
}

static void answer_stored(const struct wiki_get *g)
{
    const struct page_wiki_get *p = &g->page;
    struct page_name name = p->stored.render.name;
    struct answer w = { .status = 200,
                        .body = title_json(p->arena, &(struct pagejson_title){
                                                         .title = p->target.title,
                                                         .name = name,
                                                         .revised_at = STORE_TIME_NEVER }) };
    wiki_answer(g, &w, STR("application/json; charset=utf-8"), name,
                p->why != ERR_OK ? STR("palimpsest; hit; fwd=miss; detail=stale-error")
                                 : STR("palimpsest; hit"));
}

static void answer_told(const struct wiki_get *g)
{
    const struct page_wiki_get *p = &g->page;
    const struct page_word *word = p->word;
    struct arena *a = p->arena;
    struct page_name name = { .rev = word->meta.rev, .tid = word->tid };
    bool meta = p->want == WANT_META;
    const struct pagejson_title title = { .title = word->meta.title,
                                          .name = name,
                                          .meta = &word->meta };
    struct answer w = { .status = 200,
                        .body = meta ? title_json(a, &title) : arena_copy(a, word->body) };
    wiki_answer(g, &w, meta ? STR("application/json; charset=utf-8") : arena_copy(a, word->type),
                name,
                arena_printf(a, "palimpsest; fwd=miss; fwd-status=200%s; detail=%s",
                             p->detail == FLIGHT_LED ? "" : "; collapsed",
                             flight_detail_name(p->detail)));
}

static void wiki_done(struct page_wiki_get *p)
{
    const struct wiki_get *g = CONTAINER_OF(p, struct wiki_get, page);
    switch (p->outcome) {
    case WIKI_TOLD:
        answer_told(g);
        return;
    case WIKI_STORED:
        answer_stored(g);
        return;
    case WIKI_MOVED:
        title_answer_moved(g->x, &p->target);
        return;
    case WIKI_BAD_TITLE:
        title_answer_bad(g->x, p->why, &p->note);
        return;
    case WIKI_UNCACHED:
        app_problem(g->x, 504, "not_cached", NULL,
                    STR("The wiki would have to be asked; the request forbids that."), STR_NONE);
        return;
    case WIKI_REFUSED:
        app_fail(g->x, ERR_SHUTDOWN, NULL);
        return;
    case WIKI_FAILED:
        app_origin_fail(g->x, p->why, &p->note, p->retry_ms);
        return;
    }
}

/* ---- asking ---- */

static bool wiki_waits(struct page_wiki_get *p, enum page_wait what)
{
    struct wiki_get *g = CONTAINER_OF(p, struct wiki_get, page);
    if (what != WAIT_READ && !g->deferred && http_draining(g->x))
        return false;
    if (!g->deferred)
        http_defer(g->x);
    g->deferred = true;
    if (p->deadline.ns == 0)
        p->deadline = app_wait_deadline(g->x, g->app);
    return true;
}

static void get_from_wiki(struct http_exchange *x, const struct app *a, const struct page_target *t,
                          enum render_want want)
{
    struct wiki_get *g = app_new(x, sizeof *g);
    if (g == NULL)
        return;
    *g = (struct wiki_get){ .x = x,
                            .app = a,
                            .page = { .service = &a->page,
                                      .arena = http_arena(x),
                                      .home = http_home(x),
                                      .target = *t,
                                      .want = want,
                                      .flags = app_page_wishes(x),
                                      .wait = wiki_waits,
                                      .done = wiki_done } };
    page_wiki_get_start(&g->page);
}

void app_page_get_title(struct http_exchange *x, void *app)
{
    struct page_target t;
    if (!app_page_target_parse(x, app, &t))
        return;
    if (t.domain->origin != NULL && origin_has_api(t.domain->origin))
        get_from_wiki(x, app, &t, WANT_META);
    else
        app_page_title_stored(x, app, &t);
}

static void get_content(struct http_exchange *x, const struct app *a, enum render_want want)
{
    struct page_target t;
    if (!app_page_target_parse(x, a, &t))
        return;
    if (t.domain->origin != NULL)
        get_from_wiki(x, a, &t, want);
    else
        app_problem(x, 404, "not_found#content", NULL,
                    STR("Only a wiki has this, and this domain has no origin."), STR_NONE);
}

void app_page_get_wikitext(struct http_exchange *x, void *app)
{
    get_content(x, app, WANT_WIKITEXT);
}

void app_page_get_lint(struct http_exchange *x, void *app)
{
    get_content(x, app, WANT_LINT);
}
