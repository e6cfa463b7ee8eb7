/* page_wiki.c - GET of what only the wiki knows of a page (page/wiki.h): metadata of a revision,
 * its wikitext, its lint errors.
 *
 * All runs at the worker of the request. Without an origin the metadata is what the store knows,
 * and there is no wikitext and no lint; nor are there when the wiki is away, and the metadata is
 * then what the store knows, said to be stale. */
#include "app/answer.h"
#include "app/errors.h"
#include "app/page/page_title.h"
#include "codec/json_text.h"
#include "http/negotiate.h"
#include "page/location.h"
#include "page/wiki.h"

#include <inttypes.h>

enum { WIKI_JSON_BYTES_MAX = 1 << 20 };

struct wiki_get {
    struct http_exchange *x;
    const struct app *app;
    struct page_target target;
    enum render_want want;
    struct title_wait wait;
    bool moved; /* the title is the wiki's own word */
    struct flight_waiter flight;
    struct page_word *word; /* what the flight gave; NULL: why and note */
    struct task task;
    struct home *home; /* x's worker */
    /* looking for what is stored instead */
    struct page_read stored;
    err why; /* of the wiki */
    struct err_note note;
    int64_t retry_ms;
};

/* ---- answering ---- */

static void put_member(struct buf *b, struct arena *a, const char *name, str text)
{
    buf_printf(b, "\"%s\":%.*s,", name,
               STR_ARG(text.n == 0 ? STR("null") : json_text_quote(a, text)));
}

/* RESTBase's shape (docs/peers.md, 1). */
static str metadata_json(struct arena *a, const struct render_meta *m, struct tid tid)
{
    struct buf b;
    char text[TID_TEXT_BYTES + 1];
    bool named = tid.ticks != 0 || tid.low != 0;
    if (named)
        tid_format(tid, text);
    buf_init(&b, WIKI_JSON_BYTES_MAX);
    buf_put(&b, STR("{\"items\":[{"));
    put_member(&b, a, "title", m->title);
    buf_printf(&b,
               "\"page_id\":%" PRIu64 ",\"rev\":%" PRIu64 ",\"tid\":%s%s%s,\"namespace\":%" PRId64
               ",",
               m->page_id, m->rev, named ? "\"" : "", named ? text : "null", named ? "\"" : "",
               m->namespace_id);
    if (m->user_hidden)
        buf_put(&b, STR("\"user_id\":null,"));
    else
        buf_printf(&b, "\"user_id\":%" PRIu64 ",", m->user_id);
    put_member(&b, a, "user_text", m->user_text);
    put_member(&b, a, "timestamp", m->timestamp);
    put_member(&b, a, "comment", m->comment);
    buf_printf(&b, "\"tags\":%.*s,\"restrictions\":%.*s,", STR_ARG(m->tags_json),
               STR_ARG(m->restrictions_json));
    put_member(&b, a, "page_language", m->page_language);
    buf_printf(&b, "\"redirect\":%s,\"page_deleted\":null}],\"count\":1}",
               m->redirect ? "true" : "false");
    str json = b.failed ? STR_NONE : arena_copy(a, buf_str(&b));
    buf_fini(&b);
    return json;
}

/* Of one who cannot ask the wiki. */
static str stored_json(struct arena *a, str title, struct page_name name)
{
    struct buf b;
    buf_init(&b, WIKI_JSON_BYTES_MAX);
    pagejson_title(&b, a, title, name, STORE_TIME_NEVER);
    str json = b.failed ? STR_NONE : arena_copy(a, buf_str(&b));
    buf_fini(&b);
    return json;
}

static str cache_control_of(const struct wiki_get *g)
{
    const char *configured = g->target.settings->cache_control;
    if (g->wait.page.seen.changed) /* it stands under another title than its own */
        return STR("no-cache");
    if (g->want == WANT_META) /* of users, too, whom the wiki may hide */
        return STR(HEADERS_CACHE_PRIVATE);
    return str_of(configured == NULL ? HEADERS_CACHE_PRIVATE : configured);
}

/* As of a content: clients of RESTBase read the page's own title from it. */
static void add_location(struct wiki_get *g, struct answer *w)
{
    static const char *const contents[] = { [WANT_RENDER] = "html",
                                            [WANT_META] = "title",
                                            [WANT_WIKITEXT] = "wikitext",
                                            [WANT_LINT] = "lint" };
    struct arena *a = http_arena(g->x);
    const struct page_location l = { .target = &g->target,
                                     .public_url = str_of(g->app->config->public_url),
                                     .content = str_of(contents[g->want]),
                                     .behind = g->target.has_rev
                                                   ? arena_printf(a, "%" PRIu64, g->target.name.rev)
                                                   : STR(""),
                                     .query = http_query_raw(g->x) };
    if (l.public_url.n > 0)
        answer_add(w, STR("content-location"), page_location(a, &l));
}

/* What an answer of either kind says. False: answered, the arena is full. */
static bool answer_begin(struct wiki_get *g, struct answer *w, str type, str etag)
{
    if (w->body.p == NULL || type.p == NULL || etag.p == NULL) {
        app_fail(g->x, ERR_LIMIT, NULL);
        return false;
    }
    answer_add(w, STR("content-type"), type);
    answer_add(w, STR("etag"), etag);
    answer_add(w, STR("cache-control"), cache_control_of(g));
    add_location(g, w);
    return true;
}

static void answer_stored(struct wiki_get *g, const char *source)
{
    struct arena *a = http_arena(g->x);
    char tag[PAGE_TAG_BYTES + 1];
    str type = STR("application/json; charset=utf-8");
    struct answer w = { .status = 200,
                        .body = stored_json(a, g->target.title, g->stored.render.name) };
    str etag = arena_printf(a, "\"%.*s\"", STR_ARG(page_tag(g->stored.render.name, tag)));
    if (!answer_begin(g, &w, type, etag))
        return;
    answer_add(&w, STR("cache-status"), str_of(source));
    if (g->why != ERR_OK)
        answer_add(&w, STR("warning"), STR("111 palimpsest \"Revalidation Failed\""));
    answer_add_security(&w, a, type, STR_NONE);
    answer_send(g->x, &w);
}

static void answer_word(struct wiki_get *g)
{
    const struct page_word *word = g->word;
    struct arena *a = http_arena(g->x);
    char tag[PAGE_TAG_BYTES + 1];
    uint64_t rev = word->meta.rev;
    bool named = word->tid.ticks != 0 || word->tid.low != 0, meta = g->want == WANT_META;
    str name = named ? page_tag((struct page_name){ .rev = rev, .tid = word->tid }, tag)
                     : arena_printf(a, "%" PRIu64, rev);
    struct answer w = { .status = 200,
                        .body = meta ? metadata_json(a, &word->meta, word->tid)
                                     : arena_copy(a, word->body) };
    str type = meta ? STR("application/json; charset=utf-8") : arena_copy(a, word->type);
    str etag = arena_printf(a, "\"%.*s\"", STR_ARG(name));
    if (!answer_begin(g, &w, type, etag))
        return;
    answer_add(&w, STR("cache-status"),
               arena_printf(a, "palimpsest; fwd=miss; fwd-status=200%s; detail=%s",
                            g->flight.detail == FLIGHT_LED ? "" : "; collapsed",
                            flight_detail_name(g->flight.detail)));
    answer_add_security(&w, a, type, STR_NONE);
    answer_send(g->x, &w);
}

/* ---- what is stored, when the wiki does not say ---- */

/* done: with what is stored, or not. Thread: g's home. */
static enum store_start stored_start(struct wiki_get *g, void (*done)(struct store_call *c))
{
    g->stored = (struct page_read){ .call = { .home = g->home, .done = done },
                                    .bucket = g->target.settings->bucket,
                                    .which = page_target_which(&g->target),
                                    .arena = http_arena(g->x) };
    return page_store_read(g->app->page.store, &g->stored);
}

static void stale_read(struct store_call *c)
{
    struct wiki_get *g = CONTAINER_OF(c, struct wiki_get, stored.call);
    if (c->why == ERR_OK &&
        app_page_may_be_stale(g->x, g->app, &g->target, g->why, g->stored.render.name.tid))
        answer_stored(g, "palimpsest; hit; fwd=miss; detail=stale-error");
    else
        app_origin_fail(g->x, g->why, &g->note, g->retry_ms);
}

/* Deferred. */
static void wiki_failed(struct wiki_get *g, err why, const struct err_note *note,
                        int64_t remembered_ms)
{
    int64_t retry_ms = page_retry_ms(&g->app->page, &g->target, why, remembered_ms);
    if (g->want != WANT_META) {
        app_origin_fail(g->x, why, note, retry_ms);
        return;
    }
    g->why = why;
    g->note = note != NULL ? *note : (struct err_note){ { 0 } };
    g->retry_ms = retry_ms;
    store_call_then(stored_start(g, stale_read), &g->stored.call);
}

static void no_rules(struct title_wait *w)
{
    wiki_failed(CONTAINER_OF(w, struct wiki_get, wait), w->page.why, &w->page.note, 0);
}

static void alone_read(struct store_call *c)
{
    struct wiki_get *g = CONTAINER_OF(c, struct wiki_get, stored.call);
    if (c->why == ERR_OK)
        answer_stored(g, "palimpsest; hit");
    else
        app_problem(g->x, 504, "not_cached", NULL,
                    STR("The wiki would have to be asked; the request forbids that."), STR_NONE);
}

/* Nobody is to be asked. */
static void answer_if_stored(struct wiki_get *g)
{
    bool bad;
    if (!title_settle(g->x, &g->target, &g->wait.page.seen, &bad) && bad)
        return;
    g->stored.call.why = ERR_NOT_FOUND;
    if (g->want != WANT_META || stored_start(g, alone_read) == STORE_DONE)
        alone_read(&g->stored.call);
    else
        http_defer(g->x);
}

static void wiki_join(struct wiki_get *g);

/* As page/get_miss.c does. */
static void wiki_moved(struct wiki_get *g)
{
    static const struct err_note again = {
        .text = "the wiki knows the page by another title, and that by another"
    };
    err why = page_title_take(http_arena(g->x), &g->target, g->word->moved_to,
                              g->word->namespace_id, &g->wait.page.seen);
    if (why != ERR_OK || g->moved) {
        wiki_failed(g, ERR_UNAVAILABLE, &again, 0);
        return;
    }
    if (title_moves(g->x, &g->target, g->wait.page.seen))
        return;
    g->moved = true;
    wiki_join(g);
}

static void word_run(struct task *t)
{
    struct wiki_get *g = CONTAINER_OF(t, struct wiki_get, task);
    struct flight_value *v = g->word == NULL ? NULL : &g->word->v;
    struct err_note note = g->note;
    if (g->flight.detail == FLIGHT_NEGATIVE)
        origin_count_remembered(g->target.domain->origin);
    if (v == NULL)
        wiki_failed(g, g->why, &note, g->flight.retry_after_ms);
    else if (g->word->moved_to.n > 0)
        wiki_moved(g);
    else
        answer_word(g);
    if (v != NULL)
        flight_value_unref(&v);
}

/* Loop. */
static void landed(struct flight_waiter *w, err why, struct flight_value *v,
                   const struct err_note *note)
{
    struct wiki_get *g = CONTAINER_OF(w, struct wiki_get, flight);
    g->why = why;
    g->note = note != NULL ? *note : (struct err_note){ { 0 } };
    g->word = why == ERR_OK ? page_word_of(flight_value_ref(v)) : NULL;
    g->task.run = word_run;
    home_post(g->home, &g->task);
}

/* ---- joining ---- */

/* Deferred. g may be answered and be gone behind it. */
static void wiki_join(struct wiki_get *g)
{
    g->flight = (struct flight_waiter){ .deadline = g->wait.deadline, .done = landed };
    err why = page_word_ask(&g->app->page, &g->target, g->want, &g->flight);
    if (why != ERR_OK)
        wiki_failed(g, why, NULL, 0);
}

static void settled(struct title_wait *w)
{
    struct wiki_get *g = CONTAINER_OF(w, struct wiki_get, wait);
    if (title_moves(g->x, &g->target, w->page.seen) || (!w->deferred && !app_page_may_wait(g->x)))
        return;
    if (!w->deferred)
        http_defer(g->x);
    wiki_join(g);
}

static void get_from_wiki(struct http_exchange *x, const struct app *a, const struct page_target *t,
                          enum render_want want)
{
    struct wiki_get *g = arena_calloc(http_arena(x), 1, sizeof *g);
    if (g == NULL) {
        app_fail(x, ERR_LIMIT, NULL);
        return;
    }
    *g = (struct wiki_get){ .x = x, .app = a, .target = *t, .want = want, .home = http_home(x) };
    if (http_cache_control_has(http_common(x)->cache_control, STR("only-if-cached"))) {
        answer_if_stored(g);
        return;
    }
    g->wait = (struct title_wait){ .x = x,
                                   .target = &g->target,
                                   .deadline = app_wait_deadline(x, a),
                                   .go = settled,
                                   .failed = no_rules };
    title_wait_start(&g->wait);
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
