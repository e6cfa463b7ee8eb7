/* What is known of a title: its renders, the fate of one of them, the titles of a domain. Reads of
 * these extend no life. Listings are collected while walking, at most limit items, and go on after
 * the last one. */
#include "app/errors.h"
#include "app/headers.h"
#include "app/page/page_request.h"
#include "app/page/title.h"
#include "app/token.h"
#include "base/date.h"
#include "base/log.h"
#include "bucket/page.h"
#include "codec/json_text.h"

struct listing {
    struct http_exchange *x;
    struct buf out, damaged; /* damaged: the items of rows that cannot be read */
    unsigned limit, count, damaged_count;
    bool more;
    str last; /* title of the last item, in the arena */
    struct page_name last_name;
};

static void listing_begin(struct listing *l)
{
    buf_init(&l->out, LISTING_BYTES_MAX);
    buf_init(&l->damaged, LISTING_BYTES_MAX);
    buf_put(&l->out, STR("{\"items\":["));
}

/* {"title":...,"rev":...,"tid":...}, each null when it cannot be read */
static void put_damaged(struct buf *b, struct arena *a, str title, const struct page_name *name)
{
    bool named = name != NULL && name->rev != 0;
    buf_put(b, STR("{\"title\":"));
    buf_put(b, title.n > 0 ? json_text_quote(a, title) : STR("null"));
    buf_put_c(b, ',');
    if (named)
        pagejson_name(b, *name);
    else
        buf_put(b, STR("\"rev\":null,\"tid\":null"));
    buf_put_c(b, '}');
}

/* A row that is stored and cannot be read takes nobody else's place, and the page it stands on says
 * so. */
static bool listing_damaged(void *ctx, str title, const struct page_name *name)
{
    struct listing *l = ctx;
    l->more = l->count == l->limit;
    if (l->more)
        return false;
    if (l->damaged_count++ > 0)
        buf_put_c(&l->damaged, ',');
    put_damaged(&l->damaged, http_arena(l->x), title, name);
    return true;
}

/* Ends the items. */
static void listing_end(struct listing *l)
{
    buf_put_c(&l->out, ']');
    if (l->damaged_count == 0)
        return;
    l->out.failed = l->out.failed || l->damaged.failed;
    buf_put(&l->out, STR(",\"damaged\":["));
    buf_put(&l->out, buf_str(&l->damaged));
    buf_put_c(&l->out, ']');
}

static void listing_fini(struct listing *l)
{
    buf_fini(&l->damaged);
    buf_fini(&l->out);
}

static void tell_damage(const struct app *a, const struct page_target *t, unsigned count)
{
    if (count > 0)
        log_event(a->log, LOG_ERROR, "page.damaged", LOG_STR("domain", t->domain->name),
                  LOG_STR("title", t->title), LOG_INT("rows", count),
                  LOG_CSTR("what", "left out of a listing; palimpsest check names all damage"));
}

/* Room for one more item? Sets more when not. */
static bool listing_next(struct listing *l)
{
    l->more = l->count == l->limit;
    if (l->more)
        return false;
    if (l->count++ > 0)
        buf_put_c(&l->out, ',');
    return true;
}

static bool bad_token(struct http_exchange *x)
{
    app_problem(x, 400, "bad_request#invalid_paging_token", NULL,
                STR("page is not a token that a listing gave."), STR_NONE);
    return false;
}

/* ---- history ---- */

static bool history_item(void *ctx, str title, const struct page_render *r)
{
    struct listing *l = ctx;
    (void)title; /* the one that was asked for */
    if (!listing_next(l))
        return false;
    buf_put_c(&l->out, '{');
    pagejson_render(&l->out, r);
    buf_put_c(&l->out, '}');
    l->last_name = r->name;
    return true;
}

/* Asked for is a title, so it is not "this render" that is gone. */
static void fail_of_title(struct http_exchange *x, const struct app *app, err why,
                          const struct page_trace *trace)
{
    struct err_note note = { .text = "" };
    if (why == ERR_GONE) {
        char at[DATE_RFC3339_BYTES + 1];
        date_format_ms(trace->at.ns, at);
        bool purged = trace->state == PAGE_PURGED;
        err_note_set(&note,
                     purged ? "This title was %s at %s: none of its renders is left."
                            : "The last render of this title was %s at %s.",
                     page_state_name(trace->state), at);
    }
    app_page_fail(x, app, why, trace, &note);
}

/* A look at the render that the path names. */
struct look {
    struct http_exchange *x;
    const struct app *app;
    struct page_target target;
    struct page_read read;
};

/* done answers. */
static void look_start(struct http_exchange *x, const struct app *app, const struct page_target *t,
                       void (*done)(struct store_call *c))
{
    struct look *k = arena_calloc(http_arena(x), 1, sizeof *k);
    if (k == NULL) {
        app_fail(x, ERR_LIMIT, NULL);
        return;
    }
    *k = (struct look){ .x = x,
                        .app = app,
                        .target = *t,
                        .read = { .call = { .home = http_home(x), .done = done },
                                  .bucket = t->bucket,
                                  .which = page_target_which(t),
                                  .arena = http_arena(x) } };
    if (page_store_read(app->pages, &k->read) == STORE_DONE)
        done(&k->read.call);
    else
        http_defer(x);
}

/* Why a title has no history: it never was, or what it had is gone. */
static void answer_no_history(struct store_call *c)
{
    struct look *k = CONTAINER_OF(c, struct look, read.call);
    if (c->why == ERR_OK || c->why == ERR_NOT_FOUND)
        app_problem(k->x, 404, "not_found", NULL, STR("Nothing is stored under this title."),
                    STR_NONE);
    else
        fail_of_title(k->x, k->app, c->why, &k->read.trace);
}

/* What is asked of the store alone does not wait for the wiki's rules: then the title counts as it
 * is written. */
static bool parse_settled(struct http_exchange *x, const struct app *a, struct page_target *t)
{
    struct title_seen seen;
    bool bad;
    return page_target_parse(x, a, t) && (title_settle(x, t, &seen, &bad) || !bad);
}

void app_page_get_history(struct http_exchange *x, void *app)
{
    const struct app *a = app;
    struct page_target t;
    struct listing l = { .x = x };
    struct page_name after;
    str page;
    if (!parse_settled(x, a, &t) || !app_page_listing(x, &l.limit, &page))
        return;
    if (page.p != NULL && !token_to_render(http_arena(x), page, &after.rev, &after.tid)) {
        (void)bad_token(x); /* it has answered */
        return;
    }
    listing_begin(&l);
    struct engine_view *v = engine_view_begin(a->engine);
    const struct page_each each = { .render = history_item, .damaged = listing_damaged, .ctx = &l };
    err why =
        page_history(t.bucket, v, t.domain->number, t.title, page.p == NULL ? NULL : &after, &each);
    engine_view_end(&v);
    tell_damage(a, &t, l.damaged_count);
    if (why != ERR_OK && why != ERR_NOT_FOUND) {
        app_fail(x, why, NULL);
    } else if (l.count == 0 && l.damaged_count == 0 && page.p == NULL) {
        look_start(x, a, &t, answer_no_history);
    } else {
        str next =
            l.more ? token_of_render(http_arena(x), l.last_name.rev, l.last_name.tid) : STR_NONE;
        listing_end(&l);
        if (next.n > 0)
            buf_printf(&l.out, ",\"next\":\"%.*s\"", STR_ARG(next));
        buf_put_c(&l.out, '}');
        app_page_answer_buf(x, 200, &l.out, STR_NONE);
    }
    listing_fini(&l);
}

/* ---- explain ---- */

static void put_hold(struct buf *b, const char *kind, store_time until, bool *first)
{
    if (until.ns == STORE_TIME_ZERO.ns)
        return;
    buf_printf(b, "%s{\"kind\":\"%s\"", *first ? "" : ",", kind);
    pagejson_time(b, "until", until);
    buf_put_c(b, '}');
    *first = false;
}

static void put_trace(struct buf *b, const struct page_trace *t)
{
    pagejson_name(b, t->name);
    char rendered[DATE_RFC3339_BYTES + 1];
    date_format_ms(tid_time(t->name.tid).ns, rendered);
    buf_printf(b, ",\"rendered_at\":\"%s\",\"state\":\"%s\"", rendered, page_state_name(t->state));
    pagejson_time(b, "at", t->at);
    pagejson_time(b, "superseded_at", t->superseded_at);
    buf_put(b, STR(",\"superseded_by\":"));
    bool known = t->superseded_by.rev != 0;
    if (known)
        pagejson_successor(b, t->superseded_by);
    else
        buf_put(b, STR("null"));
    pagejson_time(b, "due_at", STORE_TIME_NEVER);
    buf_put(b, STR(",\"bytes\":{}"));
}

static void put_unknown(struct buf *b, const struct page_target *t)
{
    char tid[TID_TEXT_BYTES + 1];
    tid_format(t->name.tid, tid);
    if (t->has_rev)
        buf_printf(b, "\"rev\":%llu,", (unsigned long long)t->name.rev);
    else
        buf_put(b, STR("\"rev\":null,"));
    if (t->has_tid)
        buf_printf(b, "\"tid\":\"%s\",", tid);
    else
        buf_put(b, STR("\"tid\":null,"));
    buf_printf(b, "\"state\":\"%s\"", page_state_name(PAGE_UNKNOWN));
}

static void put_explanation(struct buf *b, struct arena *a, const struct page_target *t,
                            const struct page_explanation *e)
{
    bool gone = e->state == PAGE_CULLED || e->state == PAGE_PURGED || e->state == PAGE_SUPPRESSED ||
                e->state == PAGE_DELETED;
    enum page_policy_kind policy = gone ? e->trace.policy : t->config->page.policy.kind;
    bool first = true;
    if (e->state == PAGE_UNKNOWN)
        put_unknown(b, t);
    else if (gone)
        put_trace(b, &e->trace);
    else
        pagejson_render(b, &e->render);
    buf_printf(b, ",\"policy\":\"%s\",\"reason\":%.*s,\"holds\":[", page_policy_name(policy),
               STR_ARG(json_text_quote(a, str_of(e->reason))));
    if (!gone && e->state != PAGE_UNKNOWN) {
        put_hold(b, "stash", e->stashed ? e->render.stash_until : STORE_TIME_ZERO, &first);
        put_hold(b, "hold", e->held ? e->render.hold_until : STORE_TIME_ZERO, &first);
        put_hold(b, "request", e->requested ? e->render.requested_until : STORE_TIME_ZERO, &first);
    }
    buf_put_c(b, ']');
    if (e->passed > 0) {
        buf_put(b, STR(",\"damaged\":["));
        put_damaged(b, a, t->title, &e->passed_name);
        buf_put_c(b, ']');
    }
    buf_put_c(b, '}');
}

void app_page_get_explanation(struct http_exchange *x, void *app)
{
    const struct app *a = app;
    struct page_target t;
    if (!parse_settled(x, a, &t))
        return;
    struct page_which which = page_target_which(&t);
    struct page_explanation e = { .state = PAGE_UNKNOWN };
    struct engine_view *v = engine_view_begin(a->engine);
    err why = page_explain(t.bucket, v, &which, &e);
    engine_view_end(&v);
    tell_damage(a, &t, e.passed);
    if (why != ERR_OK && why != ERR_NOT_FOUND) {
        app_fail(x, why, NULL);
        return;
    }
    struct buf b;
    buf_init(&b, LISTING_BYTES_MAX);
    buf_printf(&b, "{\"title\":%.*s,", STR_ARG(json_text_quote(http_arena(x), t.title)));
    put_explanation(&b, http_arena(x), &t, &e);
    app_page_answer_buf(x, 200, &b, STR_NONE);
    buf_fini(&b);
}

/* ---- titles ---- */

static bool title_item(void *ctx, str title, const struct page_render *latest)
{
    struct listing *l = ctx;
    (void)latest; /* RESTBase's items are bare titles */
    if (!listing_next(l))
        return false;
    str text = json_text_quote(http_arena(l->x), title);
    l->last = arena_copy(http_arena(l->x), title);
    l->out.failed = l->out.failed || text.p == NULL || l->last.p == NULL;
    buf_put(&l->out, text);
    return true;
}

void app_page_get_titles(struct http_exchange *x, void *app)
{
    const struct app *a = app;
    struct page_target t;
    struct listing l = { .x = x };
    str page, after = STR_NONE;
    if (!page_target_parse(x, a, &t) || !app_page_listing(x, &l.limit, &page))
        return;
    if (page.p != NULL && !token_to_title(http_arena(x), page, &after)) {
        (void)bad_token(x); /* it has answered */
        return;
    }
    listing_begin(&l);
    struct engine_view *v = engine_view_begin(a->engine);
    const struct page_each each = { .render = title_item, .damaged = listing_damaged, .ctx = &l };
    err why = page_titles(t.bucket, v, t.domain->number, after, &each);
    engine_view_end(&v);
    tell_damage(a, &t, l.damaged_count);
    str next = l.more ? token_of_title(http_arena(x), l.last) : STR_NONE;
    listing_end(&l);
    if (next.n > 0)
        buf_printf(&l.out, ",\"next\":\"%.*s\",\"_links\":{\"next\":{\"href\":\"?page=%.*s\"}}",
                   STR_ARG(next), STR_ARG(next));
    buf_put_c(&l.out, '}');
    if (why == ERR_OK || why == ERR_NOT_FOUND)
        app_page_answer_buf(x, 200, &l.out, STR_NONE);
    else
        app_fail(x, why, NULL);
    listing_fini(&l);
}

static void answer_title(struct store_call *c)
{
    struct look *k = CONTAINER_OF(c, struct look, read.call);
    struct page_name name = k->read.render.name;
    struct arena *a = http_arena(k->x);
    char tag[PAGE_TAG_BYTES + 1];
    struct buf b;
    if (c->why != ERR_OK) {
        app_page_fail(k->x, k->app, c->why, &k->read.trace, NULL);
        return;
    }
    buf_init(&b, LISTING_BYTES_MAX);
    pagejson_title(&b, a, k->target.title, name, tid_time(name.tid));
    app_page_answer_buf(k->x, 200, &b,
                        arena_printf(a, "\"%.*s\"", STR_ARG(app_page_tag(name, tag))));
    buf_fini(&b);
}

void app_page_title_stored(struct http_exchange *x, const struct app *a,
                           const struct page_target *t)
{
    look_start(x, a, t, answer_title);
}
