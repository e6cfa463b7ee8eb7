/* page_wiki.c - what only the wiki knows of a page: metadata of a revision, its wikitext, its lint
 * errors.
 *
 * Asked for when it is asked for, once for all who ask at the same time, and not stored. Without an
 * origin the metadata is what the store knows, and there is no wikitext and no lint; nor are there
 * when the wiki is away, and the metadata is then what the store knows, said to be stale. */
#include "app/errors.h"
#include "app/headers.h"
#include "app/page/page_ask.h"
#include "app/page/title.h"
#include "codec/json_text.h"
#include "flight/flight.h"
#include "http/negotiate.h"
#include "loop/loop.h"

#include <inttypes.h>
#include <stdlib.h>

enum { WIKI_JSON_BYTES_MAX = 1 << 20 };
#define WIKI_MAGIC 0x31ca31cau

/* Shared by all who wait. */
struct wiki_value {
    struct flight_value v;
    struct arena arena; /* of all below */
    uint64_t rev;
    struct tid tid; /* of the newest render that is stored of it; zero: none */
    str type, body;
    str moved_to;         /* the wiki has the page under this title: the rest is empty; else n 0 */
    int64_t namespace_id; /* of moved_to */
};

struct wiki_make {
    uint32_t magic;
    const struct app *app;
    struct flight *flight;
    struct page_target target;
    enum render_want want;
    struct page_ask ask;
    struct page_read read;
    struct task task;
    struct wiki_value *value;
};

struct wiki_get {
    struct http_exchange *x;
    const struct app *app;
    struct page_target target;
    enum render_want want;
    struct title_wait wait;
    bool moved; /* the title is the wiki's own word */
    struct flight_waiter flight;
    /* looking for what is stored instead */
    struct home *home; /* x's worker */
    struct task task;
    struct page_read stored;
    err why; /* of the wiki */
    struct err_note note;
    int64_t retry_ms;
};

/* ---- the value ---- */

static void value_free(struct flight_value *v)
{
    struct wiki_value *value = CONTAINER_OF(v, struct wiki_value, v);
    arena_fini(&value->arena);
    free(value);
}

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

/* ---- making it ---- */

static void make_release(void *ctx)
{
    struct wiki_make *m = ctx;
    MAGIC_CHECK(m, WIKI_MAGIC);
    m->magic = 0;
    if (m->value != NULL) {
        struct flight_value *v = &m->value->v;
        flight_value_unref(&v);
    }
    free(m);
}

static void finish(struct wiki_make *m, err why, bool keep)
{
    struct wiki_value *value = m->value;
    if (why == ERR_OK)
        m->value = NULL; /* its reference passes to the flight */
    struct err_note note = m->ask.request.note;
    flight_finish(m->flight, why, why == ERR_OK ? &value->v : NULL, keep, &note);
}

static void build_over(struct task *t)
{
    struct wiki_make *m = CONTAINER_OF(t, struct wiki_make, task);
    bool built = m->value->body.p != NULL && headers_value_is_sane(m->value->type);
    finish(m, built ? ERR_OK : ERR_CORRUPT, false);
}

/* Pool. */
static void build(struct store_call *c)
{
    struct wiki_make *m = CONTAINER_OF(c, struct wiki_make, read.call);
    struct wiki_value *value = m->value;
    value->rev = m->ask.request.meta.rev;
    if (c->why == ERR_OK)
        value->tid = m->read.render.name.tid;
    if (m->want == WANT_META) {
        value->type = STR("application/json; charset=utf-8");
        value->body = metadata_json(&value->arena, &m->ask.request.meta, value->tid);
    } else {
        value->type = STR("application/octet-stream");
        (void)headers_find(m->ask.request.contents[0].headers, STR("content-type"),
                           &value->type); /* else that stands */
        value->body = m->ask.request.contents[0].raw;
    }
    m->task.run = build_over;
    home_post(loop_home(m->app->loop), &m->task);
}

static void build_run(struct task *t)
{
    struct wiki_make *m = CONTAINER_OF(t, struct wiki_make, task);
    m->read = (struct page_read){ .call = { .home = loop_pool(m->app->loop), .done = build },
                                  .bucket = m->target.bucket,
                                  .arena = &m->value->arena,
                                  .which = { .domain = m->target.domain->number,
                                             .title = m->target.title,
                                             .select = SELECT_REV,
                                             .name = { .rev = m->ask.request.meta.rev } } };
    store_call_then(page_store_read(m->app->pages, &m->read), &m->read.call);
}

static void asked(struct page_ask *a)
{
    struct wiki_make *m = CONTAINER_OF(a, struct wiki_make, ask);
    if (a->why == RENDER_OTHER_TITLE) {
        m->value->moved_to = a->request.meta.title;
        m->value->namespace_id = a->request.meta.namespace_id;
        finish(m, ERR_OK, false);
        return;
    }
    if (a->why != RENDER_FINE) {
        bool of_page =
            a->why == RENDER_NO_PAGE || a->why == RENDER_NO_REVISION || a->why == RENDER_SUPPRESSED;
        bool starved = a->why == RENDER_LIMIT && arena_is_starved(&m->value->arena);
        finish(m, starved ? ERR_LIMIT : app_err_of_render(a->why), !of_page && !starved);
        return;
    }
    m->task.run = build_run;
    home_post(loop_pool(m->app->loop), &m->task);
}

static void make_start(struct flight *f, void *ctx)
{
    struct wiki_make *m = ctx;
    MAGIC_CHECK(m, WIKI_MAGIC);
    m->flight = f;
    m->ask = (struct page_ask){ .app = m->app,
                                .target = &m->target,
                                .want = m->want,
                                .deadline = flight_deadline(f),
                                .pass = flight_pass(f),
                                .arena = &m->value->arena,
                                .done = asked };
    page_ask_start(&m->ask);
}

static void make_cancel(struct flight *f, void *ctx)
{
    struct wiki_make *m = ctx;
    (void)f;
    page_ask_cancel(&m->ask);
}

static struct wiki_make *make_new(const struct wiki_get *g)
{
    struct wiki_make *m = calloc(1, sizeof *m);
    struct wiki_value *value = calloc(1, sizeof *value);
    INVARIANT(m != NULL);
    INVARIANT(value != NULL);
    *value = (struct wiki_value){ .v = { .refs = 1, .free = value_free } };
    arena_init(&value->arena, g->app->config->http.arena_bytes_max);
    arena_share(&value->arena, g->app->budget);
    *m = (struct wiki_make){
        .magic = WIKI_MAGIC, .app = g->app, .target = g->target, .want = g->want, .value = value
    };
    m->target.title = arena_copy(&value->arena, g->target.title);
    m->target.content = STR("");
    if (m->target.title.p != NULL)
        return m;
    make_release(m);
    return NULL;
}

/* ---- answering ---- */

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
    const char *configured = g->target.config->cache_control;
    if (g->wait.seen.changed) /* it stands under another title than its own */
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
    str query = http_query_raw(g->x), rev = STR("");
    if (g->app->config->public_url == NULL)
        return;
    if (g->target.has_rev)
        rev = arena_printf(a, "/%" PRIu64, g->target.name.rev);
    answer_add(w, STR("content-location"),
               arena_printf(a, "%.*s/%s/%s/%.*s%.*s%s%.*s",
                            STR_ARG(app_page_base(g->app, a, g->target.domain->name)),
                            g->target.config->page.name, contents[g->want],
                            STR_ARG(http_encode(a, g->target.title)), STR_ARG(rev),
                            query.n > 0 ? "?" : "", STR_ARG(query)));
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
    str etag = arena_printf(a, "\"%.*s\"", STR_ARG(app_page_tag(g->stored.render.name, tag)));
    if (!answer_begin(g, &w, type, etag))
        return;
    answer_add(&w, STR("cache-status"), str_of(source));
    if (g->why != ERR_OK)
        answer_add(&w, STR("warning"), STR("111 palimpsest \"Revalidation Failed\""));
    answer_add_security(&w, a, type, STR_NONE);
    answer_send(g->x, &w);
}

static void answer_value(struct wiki_get *g, const struct wiki_value *value)
{
    struct arena *a = http_arena(g->x);
    char tag[PAGE_TAG_BYTES + 1];
    bool named = value->tid.ticks != 0 || value->tid.low != 0;
    str name = named ? app_page_tag((struct page_name){ .rev = value->rev, .tid = value->tid }, tag)
                     : arena_printf(a, "%" PRIu64, value->rev);
    struct answer w = { .status = 200, .body = arena_copy(a, value->body) };
    str type = arena_copy(a, value->type), etag = arena_printf(a, "\"%.*s\"", STR_ARG(name));
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
                                    .bucket = g->target.bucket,
                                    .which = page_target_which(&g->target),
                                    .arena = http_arena(g->x) };
    return page_store_read(g->app->pages, &g->stored);
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

static void stale_run(struct task *t)
{
    struct wiki_get *g = CONTAINER_OF(t, struct wiki_get, task);
    store_call_then(stored_start(g, stale_read), &g->stored.call);
}

/* Deferred. */
static void failed(struct wiki_get *g, err why, const struct err_note *note, int64_t remembered_ms)
{
    int64_t retry_ms = app_page_retry_ms(g->app, &g->target, why, remembered_ms);
    if (g->want != WANT_META) {
        app_origin_fail(g->x, why, note, retry_ms);
        return;
    }
    g->why = why;
    g->note = note != NULL ? *note : (struct err_note){ { 0 } };
    g->retry_ms = retry_ms;
    g->task.run = stale_run;
    home_post(g->home, &g->task);
}

static void no_rules(struct title_wait *w, err why, const struct err_note *note)
{
    failed(CONTAINER_OF(w, struct wiki_get, wait), why, note, 0);
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
    if (!title_settle(g->x, &g->target, &g->wait.seen, &bad) && bad)
        return;
    g->stored.call.why = ERR_NOT_FOUND;
    if (g->want != WANT_META || stored_start(g, alone_read) == STORE_DONE)
        alone_read(&g->stored.call);
    else
        http_defer(g->x);
}

static void join(void *ctx);

/* As page_miss.c does. */
static void moved(struct wiki_get *g, const struct wiki_value *value)
{
    static const struct err_note again = {
        .text = "the wiki knows the page by another title, and that by another"
    };
    err why = title_take(http_arena(g->x), &g->target, value->moved_to, value->namespace_id,
                         &g->wait.seen);
    if (why != ERR_OK || g->moved) {
        failed(g, ERR_UNAVAILABLE, &again, 0);
        return;
    }
    if (title_answer_moved(g->x, &g->target, g->wait.seen))
        return;
    g->moved = true;
    loop_post(g->app->loop, join, g);
}

static void landed(struct flight_waiter *w, err why, struct flight_value *v,
                   const struct err_note *note)
{
    struct wiki_get *g = CONTAINER_OF(w, struct wiki_get, flight);
    if (w->detail == FLIGHT_NEGATIVE)
        origin_count_remembered(g->target.domain->origin);
    const struct wiki_value *value = why == ERR_OK ? CONTAINER_OF(v, struct wiki_value, v) : NULL;
    if (value == NULL)
        failed(g, why, note, w->retry_after_ms);
    else if (value->moved_to.n > 0)
        moved(g, value);
    else
        answer_value(g, value);
}

/* ---- joining ---- */

/* Deferred. g may be answered and be gone behind it. */
static void join(void *ctx)
{
    struct wiki_get *g = ctx;
    static const char *const words[] = { [WANT_RENDER] = "render",
                                         [WANT_META] = "title",
                                         [WANT_WIKITEXT] = "wikitext",
                                         [WANT_LINT] = "lint" };
    str domain = g->target.domain->name;
    str key =
        arena_printf(http_arena(g->x), "%s %.*s %" PRIu64 " %.*s", words[g->want], STR_ARG(domain),
                     g->target.has_rev ? g->target.name.rev : 0, STR_ARG(g->target.title));
    struct wiki_make *m = key.p == NULL ? NULL : make_new(g);
    if (m == NULL) {
        app_fail(g->x, ERR_LIMIT, NULL);
        return;
    }
    struct flight_maker maker = { .start = make_start,
                                  .cancel = make_cancel,
                                  .release = make_release,
                                  .ctx = m,
                                  .source = render_source(g->target.domain->origin, g->want) };
    g->flight = (struct flight_waiter){ .deadline = g->wait.deadline, .done = landed };
    err why = flight_join(g->app->flights, key, &maker, &g->flight);
    if (why != ERR_OK)
        failed(g, why, NULL, 0);
}

static void settled(struct title_wait *w)
{
    struct wiki_get *g = CONTAINER_OF(w, struct wiki_get, wait);
    if (title_answer_moved(g->x, &g->target, w->seen) || (!w->deferred && !app_page_may_wait(g->x)))
        return;
    if (!w->deferred)
        http_defer(g->x);
    join(g);
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
    if (!page_target_parse(x, app, &t))
        return;
    if (t.domain->origin != NULL && origin_has_api(t.domain->origin))
        get_from_wiki(x, app, &t, WANT_META);
    else
        app_page_title_stored(x, app, &t);
}

static void get_content(struct http_exchange *x, const struct app *a, enum render_want want)
{
    struct page_target t;
    if (!page_target_parse(x, a, &t))
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
