/* fresh.c - how fresh what is stored is, for operators:
 *
 *   GET  /v1/admin.change         the event log; rules (app/change/rules.c); each domain whose wiki
 *                                 is asked for words: how often, how its sweep goes
 *   POST /v1/admin.change.look    {"domain", "title"}: the wiki is asked now; then as why, and news
 *   POST /v1/admin.change.why     {"domain", "title"}: what a reader would get, and why
 *   POST /v1/admin.change.sweep   {"domain"}: a sweep begins now
 *   POST /v1/admin.change.redo    {"domain"}: what was rendered before now is made anew by its
 *                                 readers
 */
#include "app/admin/fresh.h"

#include "app/answer.h"
#include "app/call.h"
#include "app/change/rules_json.h"
#include "app/errors.h"
#include "app/page/page_request.h"
#include "codec/json.h"
#include "codec/json_text.h"
#include "event/log.h"
#include "event/position.h"
#include "loop/loop.h"
#include "page/redo.h"
#include "page/remake.h"
#include "page/sweep.h"

#include <inttypes.h>

enum { FRESH_BODY_BYTES_MAX = 8192, FRESH_JSON_BYTES_MAX = 8 << 20 };

struct fresh_call {
    struct page_request r;
    struct title_wait title;
    struct page_check check;
    struct trust_cell *cell;
    struct page_why why;
    struct page_redo redo;
    bool looked;
};

static void fresh_answer(struct http_exchange *x, struct buf *b)
{
    str body = buf_take(b, http_arena(x));
    if (body.p == NULL)
        app_fail(x, ERR_LIMIT, NULL);
    else
        answer_json(x, 200, body, "no-store");
}

/* ---- what was asked ---- */

/* {"domain"} and, when titles, {"title"}, which is a key then, but for the wiki's rules. False:
 * answered. */
static bool body_read(struct fresh_call *f, bool titled)
{
    static const char *const known[] = { "domain", "title", NULL };
    static const char *const domains[] = { "domain", NULL };
    struct arena *a = http_arena(f->r.x);
    struct err_note note = { "" };
    json_t *body = NULL;
    str domain = STR(""), title = STR("");
    err why = json_body_parse(http_body(f->r.x), &body, &note);
    if (why == ERR_OK)
        why = json_body_only(body, titled ? known : domains, &note);
    if (why == ERR_OK && json_body_str(body, "domain", &domain, &note) != ERR_OK)
        why = err_bad(&note, "domain: a text is wanted");
    if (why == ERR_OK && titled && json_body_str(body, "title", &title, &note) != ERR_OK)
        why = err_bad(&note, "title: a text is wanted");
    f->r.target.domain = page_domain_find(&f->r.app->page, domain);
    title = arena_copy(a, title);
    json_decref(body);
    if (why != ERR_OK)
        return app_refused(f->r.x, 400, "bad_request#invalid_body", note.text);
    if (f->r.target.domain == NULL)
        return app_refused(f->r.x, 404, "domain_not_found", "This domain is not configured.");
    if (!titled)
        return true;
    why = title.p == NULL ? ERR_LIMIT : page_title_key(a, title, &f->r.target.title, &note);
    if (why != ERR_OK)
        page_title_bad(f->r.x, why, &note);
    return why == ERR_OK;
}

/* NULL: answered. */
static struct fresh_call *fresh_new(struct http_exchange *x, struct app *app, bool titled)
{
    struct fresh_call *f = app_may_wait(x) ? app_new(x, sizeof *f) : NULL;
    if (f == NULL)
        return NULL;
    f->r.x = x;
    f->r.app = app;
    f->r.target.settings = page_settings_now(&app->page);
    return body_read(f, titled) ? f : NULL;
}

static bool is_checked(const struct fresh_call *f)
{
    const struct origin *origin = f->r.target.domain->origin;
    return origin != NULL && origin_has_api(origin);
}

static bool refuse_unchecked(const struct fresh_call *f)
{
    return app_refused(f->r.x, 400, "bad_request#no_api",
                       "This domain has no origin with api.php, so nobody can be asked.");
}

/* ---- why, look ---- */

static void why_over(struct store_call *c)
{
    struct fresh_call *f = CONTAINER_OF(c, struct fresh_call, why.call);
    struct buf b;
    if (c->why != ERR_OK) {
        app_fail(f->r.x, c->why, NULL);
        return;
    }
    buf_init(&b, FRESH_JSON_BYTES_MAX);
    buf_put_c(&b, '{');
    fresh_why_json(&b, &f->why);
    if (f->looked)
        buf_printf(&b, ",\"news\":%s", f->check.news ? "true" : "false");
    buf_put_c(&b, '}');
    fresh_answer(f->r.x, &b);
}

static void why_go(struct page_request *r)
{
    struct fresh_call *f = CONTAINER_OF(r, struct fresh_call, r);
    f->why = (struct page_why){ .call = { .home = http_home(r->x), .done = why_over },
                                .service = &r->app->page,
                                .domain = r->target.domain,
                                .title = r->target.title,
                                .told = f->looked && f->check.has_word ? &f->check.word : NULL,
                                .arena = http_arena(r->x) };
    store_call_then(page_why_start(&f->why), &f->why.call);
}

static void post_why(struct http_exchange *x, void *app)
{
    struct fresh_call *f = fresh_new(x, app, true);
    if (f != NULL)
        title_wait_start(&f->title, &f->r, why_go);
}

static void looked(struct page_check *c)
{
    struct fresh_call *f = CONTAINER_OF(c, struct fresh_call, check);
    struct err_note note = { "" };
    trust_release(&f->cell);
    f->looked = true;
    if (c->why == ERR_OK) {
        why_go(&f->r);
        return;
    }
    err_note_set(&note, c->unreached ? "the wiki has not heard yet of what was told of this"
                                     : "the wiki could not be asked");
    app_origin_fail(f->r.x, c->why, &note, 1000 * c->retry_after_s);
}

static void look_go(struct page_request *r)
{
    struct fresh_call *f = CONTAINER_OF(r, struct fresh_call, r);
    const struct page_service *s = &r->app->page;
    const struct trust_key k = { .domain = r->target.domain->number, .title = r->target.title };
    f->cell = page_trust_hold(s->trust, &k);
    f->check = (struct page_check){ .checks = s->checks,
                                    .domain = r->target.domain,
                                    .cell = f->cell,
                                    .since = clock_store(s->clock),
                                    .deadline = page_wait_deadline(r->x, r->app),
                                    .home = http_home(r->x),
                                    .done = looked };
    page_check_start(&f->check);
}

static void post_look(struct http_exchange *x, void *app)
{
    struct fresh_call *f = fresh_new(x, app, true);
    if (f == NULL)
        return;
    if (is_checked(f))
        title_wait_start(&f->title, &f->r, look_go);
    else
        refuse_unchecked(f);
}

/* ---- sweep, redo ---- */

/* On the loop. */
static void sweep_go(void *ctx)
{
    struct fresh_call *f = ctx;
    const struct page_service *s = &f->r.app->page;
    if (page_sweep_now(s->sweeps, f->r.target.domain))
        answer_json(f->r.x, 200, STR("{\"begun\":true}"), "no-store");
    else
        app_fail(f->r.x, ERR_SHUTDOWN, NULL);
}

static void post_sweep(struct http_exchange *x, void *app)
{
    struct fresh_call *f = fresh_new(x, app, false);
    if (f == NULL)
        return;
    if (!is_checked(f)) {
        refuse_unchecked(f);
        return;
    }
    http_defer(x);
    loop_post(f->r.app->loop, sweep_go, f);
}

static void redone(struct page_redo *r)
{
    struct fresh_call *f = CONTAINER_OF(r, struct fresh_call, redo);
    struct buf b;
    if (r->why != ERR_OK) {
        app_fail(f->r.x, r->why, NULL);
        return;
    }
    buf_init(&b, FRESH_JSON_BYTES_MAX);
    buf_put(&b, STR("{\"redo_before\":"));
    fresh_put_time(&b, r->at.ns);
    buf_put_c(&b, '}');
    fresh_answer(f->r.x, &b);
}

static void post_redo(struct http_exchange *x, void *app)
{
    struct fresh_call *f = fresh_new(x, app, false);
    if (f == NULL)
        return;
    if (!is_checked(f)) {
        refuse_unchecked(f);
        return;
    }
    http_defer(x);
    f->redo = (struct page_redo){ .service = &f->r.app->page,
                                  .domain = f->r.target.domain,
                                  .home = http_home(x),
                                  .done = redone };
    page_redo_start(&f->redo);
}

/* ---- domains ---- */

static void put_period(struct buf *b, const char *name, int64_t ns)
{
    if (ns == 0 || ns == INT64_MAX)
        buf_printf(b, ",\"%s\":null", name);
    else
        buf_printf(b, ",\"%s\":%" PRId64, name, ns / NS_PER_S);
}

static void put_sweep(struct buf *b, const struct page_domain *d, const struct sweep_figures *s)
{
    static const char *const states[] = {
        [SWEEP_OFF] = "off", [SWEEP_RESTS] = "rests", [SWEEP_GOES] = "goes"
    };
    buf_printf(b, ",\"sweep\":{\"state\":\"%s\",\"fails\":%s", states[s->is],
               s->fails ? "true" : "false");
    put_period(b, "period_s", d->sweep_period_ns);
    buf_put(b, STR(",\"began\":"));
    fresh_put_time(b, s->began.ns);
    buf_printf(b, ",\"titles\":%" PRIu64 ",\"asked\":%" PRIu64 ",\"at\":", s->titles, s->asked);
    if (s->at[0] == '\0')
        buf_put(b, STR("null"));
    else
        json_text_append(b, str_of(s->at));
    buf_put(b, STR(",\"all_since\":"));
    fresh_put_time(b, s->all_since.ns);
    buf_printf(b,
               ",\"late_s\":%" PRId64 ",\"laps\":%" PRIu64 ",\"revisions\":%" PRIu64
               ",\"unanswered\":%" PRIu64 ",\"forgotten\":%" PRIu64 ",\"failures\":%" PRIu64 "}",
               s->late_ns / NS_PER_S, s->laps, s->revisions, s->unanswered, s->forgotten,
               s->failures);
}

/* What is made anew without a reader. */
static void put_rerenders(struct buf *b, const struct page_service *s, const struct page_domain *d)
{
    struct remake_figures r;
    page_remakes_figures(s->remakes, d, &r);
    buf_printf(b,
               ",\"anew\":{\"waiting\":%" PRIu64 ",\"making\":%" PRIu64 ",\"made\":%" PRIu64
               ",\"failed\":%" PRIu64 ",\"dropped\":%" PRIu64 "}",
               r.waiting, r.making, r.made, r.failed, r.dropped);
}

static void put_domain(struct buf *b, const struct page_service *s, const struct page_domain *d)
{
    enum page_rerender rerender = d->rerender;
    static const char *const rerenders[] = { [RERENDER_ON_READ] = "on_read",
                                             [RERENDER_AT_ONCE] = "at_once",
                                             [RERENDER_PACED] = "paced",
                                             [RERENDER_NEVER] = "never" };
    struct check_figures checks;
    struct sweep_figures sweep;
    page_checks_figures(s->checks, d, &checks);
    page_sweeps_figures(s->sweeps, d, &sweep);
    buf_put(b, STR("{\"domain\":"));
    json_text_append(b, d->name);
    buf_printf(b,
               ",\"closed\":%s,\"checks\":%" PRIu64 ",\"missed\":%" PRIu64 ",\"words\":%" PRIu64
               ",\"failures\":%" PRIu64 ",\"lagging\":%" PRIu64 ",\"waiting\":%" PRIu64
               ",\"rerender\":\"%s\"",
               checks.closed ? "true" : "false", checks.calls, sweep.found, checks.words,
               checks.failures, checks.lagging, checks.waiting, rerenders[rerender]);
    put_period(b, "rerender_after_s", d->rerender_after_ns);
    buf_put(b, STR(",\"redo_before\":"));
    fresh_put_time(b, atomic_load(d->redo_ns));
    put_rerenders(b, s, d);
    put_sweep(b, d, &sweep);
    buf_put_c(b, '}');
}

/* The event log; null: it cannot be read. */
static void put_log(struct buf *b, const struct app *app)
{
    struct event_figures f;
    char newest[EVENT_POSITION_BYTES];
    buf_put(b, STR("\"log\":"));
    if (event_log_figures(app->events, &f) != ERR_OK) {
        buf_put(b, STR("null"));
        return;
    }
    struct event_position p = { .log = event_log_id(app->events),
                                .seq = f.last,
                                .at_ms = f.newest.ns / NS_PER_MS };
    buf_put(b, STR("{\"position\":\""));
    buf_put(b, (str){ .p = newest, .n = event_position_print(&p, newest) });
    buf_printf(b,
               "\",\"events\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"taken\":%" PRIu64 ",\"oldest\":",
               f.count, f.bytes, f.taken);
    fresh_put_time(b, f.oldest.ns);
    buf_put(b, STR(",\"newest\":"));
    fresh_put_time(b, f.newest.ns);
    buf_put_c(b, '}');
}

/* The rules; null: they cannot be read. */
static void put_rules(struct buf *b, struct arena *a, const struct app *app)
{
    struct change_status s;
    const struct rules_json json = {
        .out = b, .arena = a, .log = event_log_id(app->events), .now = clock_store(app->clock)
    };
    err why = change_status_get(app->change, a, &s);
    rules_json_status(&json, why == ERR_OK ? &s : NULL);
}

static void get_change(struct http_exchange *x, void *app)
{
    const struct page_service *s = &((const struct app *)app)->page;
    struct buf b;
    bool first = true;
    buf_init(&b, FRESH_JSON_BYTES_MAX);
    buf_put_c(&b, '{');
    put_log(&b, app);
    put_rules(&b, http_arena(x), app);
    buf_put(&b, STR(",\"domains\":["));
    for (unsigned i = 0; i < s->domains_count; i++) {
        const struct page_domain *d = &s->domains[i];
        if (d->origin == NULL || !origin_has_api(d->origin))
            continue;
        buf_put(&b, first ? STR("") : STR(","));
        put_domain(&b, s, d);
        first = false;
    }
    buf_put(&b, STR("]}"));
    fresh_answer(x, &b);
}

const struct http_route app_fresh_routes[] = {
    { HTTP_GET, "/v1/admin.change", get_change, .permission = "admin.read", .label = "admin.change",
      .pool = true, .first = true, .admin = true },
    { HTTP_POST, "/v1/admin.change.look", post_look, .body_bytes_max = FRESH_BODY_BYTES_MAX,
      .permission = "admin.write", .label = "admin.change.look", .admin = true },
    { HTTP_POST, "/v1/admin.change.why", post_why, .body_bytes_max = FRESH_BODY_BYTES_MAX,
      .permission = "admin.read", .label = "admin.change.why", .admin = true },
    { HTTP_POST, "/v1/admin.change.sweep", post_sweep, .body_bytes_max = FRESH_BODY_BYTES_MAX,
      .permission = "admin.write", .label = "admin.change.sweep", .admin = true },
    { HTTP_POST, "/v1/admin.change.redo", post_redo, .body_bytes_max = FRESH_BODY_BYTES_MAX,
      .permission = "admin.write", .label = "admin.change.redo", .admin = true },
    { .pattern = NULL },
};
