/* events.c - POST /v1/events, as EventGate takes them from EventBus.
 *
 * Each event is one object; nothing is kept of it but that its titles were looked at, so 202 is
 * what all get where a log would make it 201. Jobs are told to be invalid: who sends one would wait
 * for it in vain.
 *   A body is 10 MiB at most, and its events fifty thousand: they are taken on the pool. */
#include "app/answer.h"
#include "app/change/change.h"
#include "app/coded.h"
#include "app/counters.h"
#include "app/errors.h"
#include "app/pooled.h"
#include "base/utf8.h"
#include "codec/json.h"
#include "codec/json_text.h"
#include "page/wiki_event.h"
#include "page/wiki_url.h"

enum {
    EVENTS_BODY_BYTES_MAX = 10 << 20,
    EVENTS_MAX = 50000, /* in one request */
    EVENTS_REPLY_BYTES_MAX = 24 << 20
};

struct events {
    struct pooled pooled;
    struct app *app;
    struct arena *arena;
    str body;
    const char *fault; /* of the body; NULL: none */
    err why;
    struct buf invalid; /* the answer, when some are */
    unsigned count, invalid_count;
    uint64_t by[EVENT_KINDS];
};

/* ---- one event ---- */

/* Empty: none. */
static str domain_of_database(const struct app *app, str database)
{
    const struct config_change *c = &app->config->change;
    size_t low = 0, high = c->databases_count;
    while (low < high) {
        size_t at = low + (high - low) / 2;
        int order = str_cmp(c->databases[at].name, database);
        if (order == 0)
            return c->databases[at].domain;
        if (order < 0)
            low = at + 1;
        else
            high = at;
    }
    return STR("");
}

/* domain: of its database, when it names no domain itself. */
static bool is_of(const struct wiki_event *event, str domain, const struct page_domain *d)
{
    if (event->domain.n == 0)
        return domain.n > 0 && str_eq(domain, d->name);
    return str_eq(event->domain, d->name) || wiki_place_has(&d->place, event->domain) ||
           (d->origin != NULL && str_eq(event->domain, str_of(origin_opts_of(d->origin)->domain)));
}

/* What an event says by the address of a page alone. */
static err look_at_uri(struct events *e, const struct wiki_event *event,
                       const struct page_domain *d, bool *titled)
{
    struct wiki_url u;
    str title = STR("");
    if (!wiki_url_parse(event->uri, &u) || !wiki_place_has(&d->place, u.authority))
        return ERR_OK;
    err why = wiki_url_title(e->arena, &d->place, u.path, u.query, &title);
    *titled |= why == ERR_OK && title.n > 0;
    if (why == ERR_OK)
        change_look(e->app, e->arena, d, title, NULL);
    return why;
}

static err look_at(struct events *e, const struct wiki_event *event, bool *titled)
{
    const struct page_service *s = &e->app->page;
    str domain = event->domain.n == 0 && event->database.n > 0
                     ? domain_of_database(e->app, event->database)
                     : STR("");
    err why = ERR_OK;
    for (unsigned i = 0; i < s->domains_count && why == ERR_OK; i++) {
        const struct page_domain *d = &s->domains[i];
        if (event->titles_count == 0) {
            why = look_at_uri(e, event, d, titled);
            continue;
        }
        if (!is_of(event, domain, d))
            continue;
        *titled = true;
        for (unsigned n = 0; n < event->titles_count; n++)
            change_look(e->app, e->arena, d, event->titles[n].title, &event->titles[n].bound);
    }
    return why;
}

static void event_refuse(struct events *e, str json, const char *why)
{
    e->by[EVENT_INVALID]++;
    buf_put(&e->invalid, e->invalid_count == 0 ? STR("{\"event\":") : STR(",{\"event\":"));
    buf_put(&e->invalid, json);
    buf_put(&e->invalid, STR(",\"error\":"));
    json_text_append(&e->invalid, str_of(why));
    buf_put_c(&e->invalid, '}');
    e->invalid_count++;
}

static err event_take(struct events *e, str json)
{
    struct wiki_event event;
    struct err_note note = { .text = "" };
    bool titled = false;
    err why = wiki_event_parse(e->arena, json, &event, &note);
    if (why == ERR_BAD) {
        event_refuse(e, json, note.text);
        return ERR_OK;
    }
    if (why == ERR_OK && str_starts(event.stream, STR(EVENT_JOBS))) {
        event_refuse(e, json, "jobs are not run here");
        return ERR_OK;
    }
    if (why == ERR_OK)
        why = look_at(e, &event, &titled);
    e->by[titled ? EVENT_TITLE : EVENT_OTHER]++;
    return why;
}

/* ---- all of them ---- */

/* value: an object, or an array. ERR_BAD: there are too many. */
static err events_take(struct events *e, str value)
{
    str rest = value, one = value;
    bool list = value.p[0] == '[';
    err why = ERR_OK;
    while (why == ERR_OK && (list ? json_slice_item(&rest, &one) : e->count == 0)) {
        struct arena_mark mark = arena_mark(e->arena);
        if (++e->count > EVENTS_MAX)
            return ERR_BAD;
        why = event_take(e, one);
        arena_release(e->arena, mark);
    }
    return why != ERR_OK ? why : buf_status(&e->invalid);
}

static bool wants_reply(const struct events *e)
{
    str hasty;
    return e->fault == NULL && e->why == ERR_OK && e->invalid_count > 0 &&
           !http_query(e->pooled.x, "hasty", &hasty);
}

/* STR_NONE: the memory of the request is full. */
static str reply_take(struct events *e)
{
    buf_put(&e->invalid, STR("],\"error\":[]}"));
    return buf_take(&e->invalid, e->arena);
}

/* e may be gone behind it. */
static void events_answer(struct events *e, bool wants, str reply)
{
    struct http_exchange *x = e->pooled.x;
    for (unsigned kind = 0; kind < EVENT_KINDS; kind++)
        counters_events(e->app->counters, (enum event_kind)kind, e->by[kind]);
    if (!wants)
        http_answer(x, 202, STR(""));
    else if (reply.p == NULL)
        app_fail(x, ERR_LIMIT, NULL);
    else
        answer_json(x, e->invalid_count == e->count ? 400 : 207, reply, "no-store");
}

static bool is_json_type(const struct http_exchange *x)
{
    str type = http_common(x)->content_type;
    return str_eq_nocase(str_trim(str_take(type, str_find(type, ';'))), STR("application/json"));
}

/* NULL: it is one value, which is not empty; else what is wrong. */
static const char *body_fault(str text, str *value)
{
    if (text.n == 0)
        return "There is no event in an empty body.";
    if (!utf8_valid(text) || !json_slice_value(text, value))
        return "The body is not JSON in UTF-8.";
    str rest = *value, item;
    bool list = value->p[0] == '[', object = value->p[0] == '{';
    if (!list && !object)
        return "An event is an object; several are an array of objects.";
    return list && !json_slice_item(&rest, &item) ? "There is no event in an empty array." : NULL;
}

/* Home. */
static void events_over(struct pooled *p)
{
    struct events *e = CONTAINER_OF(p, struct events, pooled);
    bool wants = wants_reply(e);
    str reply = wants ? reply_take(e) : STR_NONE;
    buf_fini(&e->invalid); /* in no memory of the request */
    if (e->fault != NULL)
        (void)app_refused(p->x, 400, "bad_request", e->fault);
    else if (e->why == ERR_BAD)
        app_problem(p->x, 413, "content_too_large", NULL,
                    arena_printf(e->arena, "There are more than %d events.", EVENTS_MAX), STR_NONE);
    else if (e->why != ERR_OK)
        app_fail(p->x, e->why, NULL);
    else
        events_answer(e, wants, reply);
}

/* Pool. */
static void events_run(struct pooled *p)
{
    struct events *e = CONTAINER_OF(p, struct events, pooled);
    str value;
    e->fault = body_fault(e->body, &value);
    if (e->fault == NULL)
        e->why = events_take(e, value);
}

static void post_events(struct http_exchange *x, void *app)
{
    struct coded_body body;
    str coding = STR_NONE;
    (void)http_header(x, "content-encoding", &coding);
    if (!coded_body_read(x, app, coding, EVENTS_BODY_BYTES_MAX, &body))
        return;
    if (!is_json_type(x)) {
        (void)app_refused(x, 400, "bad_request", "Content-Type has to be application/json.");
        return;
    }
    struct events *e = pooled_new(x, app, sizeof *e);
    if (e == NULL)
        return;
    e->app = app;
    e->arena = http_arena(x);
    e->body = body.raw;
    buf_init(&e->invalid, EVENTS_REPLY_BYTES_MAX);
    buf_put(&e->invalid, STR("{\"invalid\":["));
    pooled_start(&e->pooled, events_run, events_over);
}

const struct http_route app_event_routes[] = {
    { HTTP_POST, "/v1/events", post_events, .body_bytes_max = EVENTS_BODY_BYTES_MAX,
      .permission = "change.write", .label = "change.events" },
    { .pattern = NULL },
};
