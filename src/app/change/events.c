/* events.c - POST /v1/events, as EventGate takes them from EventBus.
 *
 * Each event is one object. Its titles are looked at, and it is appended to the event log as the
 * bytes in which it came. No title that a job names is looked at: the job is still to be done, and
 * its wiki tells what it did. A job that no rule runs is invalid, or its sender would take it for
 * done. So are events of the store's own streams: rules and caches believe those.
 *   What the relayer of EventBus sends are URLs that a wiki wants purged. When a rule relays
 * purges, each of them is an event of CHANGE_PURGES, too, as if it had come by PURGE. A body is 10
 * MiB at most, and its events fifty thousand: they are parsed on the pool, but for a small body.
 * Then they are appended in batches, one behind the other. The answer comes when the last batch is
 * on disk. A batch that fails ends that; its events and those behind it are told as not stored. */
#include "app/answer.h"
#include "app/change/look.h"
#include "app/change/relay.h"
#include "app/coded.h"
#include "app/counters.h"
#include "app/errors.h"
#include "app/pooled.h"
#include "base/utf8.h"
#include "change/change.h"
#include "codec/json.h"
#include "codec/json_text.h"
#include "event/log.h"
#include "http/filter.h"
#include "page/wiki_event.h"
#include "page/wiki_url.h"

#include <string.h>

enum {
    EVENTS_BODY_BYTES_MAX = 10 << 20,
    EVENTS_HERE_BYTES_MAX = 8 << 10, /* so many are parsed where they were read */
    EVENTS_MAX = 50000,              /* in one request */
    EVENTS_REPLY_BYTES_MAX = 24 << 20,
    EVENT_ID_BYTES_MAX = 255,
    RELAY_URI_BYTES_MAX = 8 << 10, /* a longer URL is relayed to nobody */
    RELAY_BYTES_MAX = 64 << 10,    /* of its event: each byte takes six at most */
};
#define RELAYER "resource-purge" /* the stream of EventBus's CdnPurgeEventRelayer */

struct events {
    struct pooled pooled;
    struct app *app;
    struct arena *arena;
    str body;
    uint8_t hops;
    const char *fault; /* of the body; NULL: none */
    err why;
    struct buf invalid; /* the answer, when some are */
    unsigned count, invalid_count;
    uint64_t by[EVENT_KINDS];
    struct buf kept;  /* of struct event: those that are valid, and what is relayed of them */
    struct buf relay; /* the event that relays the one at hand; empty: none does */
    struct event_append append;
    struct event_taken *taken; /* of one batch */
    unsigned stored;           /* of those kept */
    unsigned reloads;          /* of the rules, before they were asked about jobs */
    uint64_t repeated;         /* of those stored */
};

static unsigned kept_count(const struct events *e)
{
    return (unsigned)(e->kept.n / sizeof(struct event));
}

static const struct event *kept_at(const struct events *e, unsigned i)
{
    return (const struct event *)(const void *)e->kept.p + i;
}

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

/* The domain that it names, or that of its database. */
static str domain_named(const struct events *e, const struct wiki_event *event)
{
    if (event->domain.n > 0 || event->database.n == 0)
        return event->domain;
    return domain_of_database(e->app, event->database);
}

/* domain: that it names. */
static bool is_of(const struct wiki_event *event, str domain, const struct page_domain *d)
{
    if (event->domain.n == 0)
        return domain.n > 0 && str_eq(domain, d->name);
    return str_eq(event->domain, d->name) || wiki_place_has(&d->place, event->domain) ||
           (d->origin != NULL && str_eq(event->domain, str_of(origin_opts_of(d->origin)->domain)));
}

/* What an event says by the address of a page alone. */
static err look_at_uri(struct events *e, const struct wiki_event *event,
                       const struct page_domain *d, bool *titled, str *of)
{
    struct wiki_url u;
    str title = STR("");
    if (!wiki_url_parse(event->uri, &u) || !wiki_place_has(&d->place, u.authority))
        return ERR_OK;
    *of = d->name;
    err why = wiki_url_title(e->arena, &d->place, u.path, u.query, &title);
    *titled |= why == ERR_OK && title.n > 0;
    if (why == ERR_OK)
        change_look(e->app, e->arena, d, title, NULL);
    return why;
}

/* The domain it belongs to, by the name that it has here if it is one of ours. */
static str domain_here(const struct events *e, const struct wiki_event *event)
{
    const struct page_service *s = &e->app->page;
    str domain = domain_named(e, event), of = domain;
    for (unsigned i = 0; i < s->domains_count; i++)
        if (is_of(event, domain, &s->domains[i]))
            of = s->domains[i].name;
    return of;
}

/* *of: as domain_here; that of its address, when it has one. */
static err look_at(struct events *e, const struct wiki_event *event, bool *titled, str *of)
{
    const struct page_service *s = &e->app->page;
    str domain = domain_named(e, event);
    err why = ERR_OK;
    *of = domain;
    for (unsigned i = 0; i < s->domains_count && why == ERR_OK; i++) {
        const struct page_domain *d = &s->domains[i];
        bool ours = is_of(event, domain, d);
        if (ours)
            *of = d->name;
        if (!http_filter_domain(http_filter_of(e->pooled.x), d->name))
            continue;
        if (event->titles_count == 0) {
            why = look_at_uri(e, event, d, titled, of);
            continue;
        }
        if (!ours)
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

/* What of an event is kept beside its bytes, while the memory of parsing is given back. */
struct event_names {
    size_t stream_n, domain_n, id_n;
    char stream[EVENT_NAME_BYTES_MAX], domain[EVENT_NAME_BYTES_MAX], id[EVENT_ID_BYTES_MAX];
};

static size_t name_keep(char *dst, str name)
{
    if (name.n > 0)
        memcpy(dst, name.p, name.n);
    return name.n;
}

/* NULL: it is a good one; else what is wrong. */
static const char *event_fault(const struct wiki_event *event, str domain)
{
    if (str_starts(event->stream, STR(EVENT_OWN)))
        return "streams whose names begin with palimpsest. are the server's own";
    if (event->stream.n > EVENT_NAME_BYTES_MAX)
        return "meta.stream is longer than 255 bytes";
    if (event->id.n > EVENT_ID_BYTES_MAX)
        return "meta.id is longer than 255 bytes";
    return domain.n > EVENT_NAME_BYTES_MAX ? "the domain is longer than 255 bytes" : NULL;
}

static bool is_job(const struct wiki_event *event)
{
    return str_starts(event->stream, STR(EVENT_JOBS));
}

#define JOB_UNWANTED "no rule of effect job wants this job: it would not be run"
#define JOB_BETWEEN "the rules were read anew several times meanwhile: send this job again"

/* NULL: a rule runs it. */
static const char *job_fault(struct events *e, const struct wiki_event *job, str json, str *of)
{
    *of = domain_here(e, job);
    return change_takes_job(e->app->change, job->stream, *of, json) ? NULL : JOB_UNWANTED;
}

/* domain: of the wiki that has the URL. */
static void relay_make(struct events *e, const struct wiki_event *event, str domain)
{
    struct wiki_url u;
    if (!str_eq(event->stream, STR(RELAYER)) || event->uri.n > RELAY_URI_BYTES_MAX ||
        !wiki_url_parse(event->uri, &u) || !change_relays(e->app->change))
        return;
    const struct page_domain *d = page_domain_find(&e->app->page, domain);
    bool known = d != NULL && wiki_place_has(&d->place, u.authority) &&
                 http_filter_domain(http_filter_of(e->pooled.x), d->name);
    str whole = str_take(event->uri, str_find(event->uri, '#'));
    str uri = arena_printf(e->arena, "%s%.*s", str_starts(whole, STR("//")) ? "http:" : "",
                           STR_ARG(whole));
    if (known && uri.p != NULL)
        relay_event_put(&e->relay, e->app->clock, event->id, d->name, uri);
}

/* ERR_BAD: it was refused. */
static err event_read(struct events *e, str json, struct event_names *names)
{
    struct wiki_event event;
    struct err_note note = { .text = "" };
    bool titled = false;
    str domain = STR("");
    err why = wiki_event_parse(e->arena, json, &event, &note);
    const char *fault = why == ERR_BAD ? note.text : NULL;
    if (why == ERR_OK)
        fault = event_fault(&event, event.domain);
    bool job = fault == NULL && why == ERR_OK && is_job(&event);
    if (job)
        fault = job_fault(e, &event, json, &domain);
    else if (fault == NULL && why == ERR_OK)
        why = look_at(e, &event, &titled, &domain);
    if (fault != NULL) {
        event_refuse(e, json, fault);
        return ERR_BAD;
    }
    if (why != ERR_OK)
        return why;
    e->by[job ? EVENT_JOB : titled ? EVENT_TITLE : EVENT_OTHER]++;
    relay_make(e, &event, domain);
    names->stream_n = name_keep(names->stream, event.stream);
    names->domain_n = name_keep(names->domain, domain);
    names->id_n = name_keep(names->id, event.id);
    return ERR_OK;
}

static err event_keep(struct events *e, const struct event *event)
{
    if (event->stream.p == NULL || event->domain.p == NULL || event->id.p == NULL ||
        event->bytes.p == NULL)
        return ERR_LIMIT;
    buf_put(&e->kept, (str){ .p = (const char *)event, .n = sizeof *event });
    return buf_status(&e->kept);
}

/* What relays it comes first: when the event is stored, that is, too. */
static err event_keep_all(struct events *e, str json, const struct event_names *n)
{
    struct event event = { .stream = STR(CHANGE_PURGES),
                           .domain =
                               arena_copy(e->arena, (str){ .p = n->domain, .n = n->domain_n }),
                           .id = arena_copy(e->arena, (str){ .p = n->id, .n = n->id_n }),
                           .hops = e->hops };
    err why = ERR_OK;
    if (e->relay.n > 0) {
        event.bytes = arena_copy(e->arena, (str){ .p = e->relay.p, .n = e->relay.n });
        why = event_keep(e, &event);
    }
    event.stream = arena_copy(e->arena, (str){ .p = n->stream, .n = n->stream_n });
    event.bytes = json;
    return why == ERR_OK ? event_keep(e, &event) : why;
}

static err event_take(struct events *e, str json)
{
    struct event_names names;
    struct arena_mark mark = arena_mark(e->arena);
    buf_clear(&e->relay);
    err why = event_read(e, json, &names);
    arena_release(e->arena, mark);
    if (why != ERR_OK)
        return why == ERR_BAD ? ERR_OK : why;
    return event_keep_all(e, json, &names);
}

/* ---- all of them ---- */

/* value: an object, or an array. ERR_BAD: there are too many. */
static err events_take(struct events *e, str value)
{
    str rest = value, one = value;
    bool list = value.p[0] == '[';
    err why = ERR_OK;
    while (why == ERR_OK && (list ? json_slice_item(&rest, &one) : e->count == 0)) {
        if (++e->count > EVENTS_MAX)
            return ERR_BAD;
        why = event_take(e, one);
    }
    return why != ERR_OK ? why : buf_status(&e->invalid);
}

/* ---- the answer ---- */

static void events_fini(struct events *e)
{
    buf_fini(&e->invalid); /* in no memory of the request */
    buf_fini(&e->kept);
    buf_fini(&e->relay);
}

static const char *why_text(err why)
{
    return why == ERR_FULL ? "there is no room on the disk" : "it could not be stored";
}

static bool is_relay(const struct event *event)
{
    return str_eq(event->stream, STR(CHANGE_PURGES));
}

/* Those that were not stored. */
static void errors_put(struct events *e)
{
    bool first = true;
    for (unsigned i = e->stored; i < kept_count(e); i++) {
        if (is_relay(kept_at(e, i))) /* of the one behind it */
            continue;
        buf_put(&e->invalid, first ? STR("{\"event\":") : STR(",{\"event\":"));
        first = false;
        buf_put(&e->invalid, kept_at(e, i)->bytes);
        buf_put(&e->invalid, STR(",\"error\":"));
        json_text_append(&e->invalid, str_of(why_text(e->why)));
        buf_put_c(&e->invalid, '}');
    }
}

/* STR_NONE: the memory of the request is full. */
static str reply_take(struct events *e)
{
    buf_put(&e->invalid, STR("],\"error\":["));
    errors_put(e);
    buf_put(&e->invalid, STR("]}"));
    return buf_take(&e->invalid, e->arena);
}

/* Is there more to try for its sender, who is told to come back? */
static bool is_passing(err why)
{
    return why == ERR_LIMIT || why == ERR_TIMEOUT || why == ERR_SHUTDOWN || why == ERR_UNAVAILABLE;
}

/* All that were to be stored are, or why says why not. e is gone behind it. */
static void events_answer(struct events *e)
{
    struct http_exchange *x = e->pooled.x;
    str hasty;
    bool all = e->stored == kept_count(e);
    for (unsigned kind = 0; kind < EVENT_KINDS; kind++)
        counters_events(e->app->counters, (enum event_kind)kind, e->by[kind]);
    counters_events_repeated(e->app->counters, e->repeated);
    if (!all && e->stored == 0 && is_passing(e->why)) {
        err why = e->why;
        events_fini(e);
        app_fail(x, why, NULL);
        return;
    }
    bool hurried = http_query(x, "hasty", &hasty);
    int status = !all && e->stored == 0                ? 500
                 : all && hurried                      ? 202
                 : all && e->invalid_count == 0        ? 201
                 : all && e->invalid_count == e->count ? 400
                                                       : 207;
    str reply = status < 207 ? STR("") : reply_take(e);
    events_fini(e);
    if (reply.p == NULL)
        app_fail(x, ERR_LIMIT, NULL);
    else if (status < 207)
        http_answer(x, status, reply);
    else
        answer_json(x, status, reply, "no-store");
}

/* ---- appending ---- */

static void events_append(struct events *e);

/* Pool. The rules were read anew. A job was stored in time for those of before, which run it, or
 * the newer ones are asked about it. Of several readings nobody can tell which rules were in force.
 */
static void jobs_recheck(struct pooled *p)
{
    struct events *e = CONTAINER_OF(p, struct events, pooled);
    struct change *c = e->app->change;
    for (unsigned i = 0; i < kept_count(e); i++) {
        const struct event *job = kept_at(e, i);
        if (!str_starts(job->stream, STR(EVENT_JOBS)))
            continue;
        bool takes = change_takes_job(c, job->stream, job->domain, job->bytes);
        bool once = change_reloads(c) == e->reloads + 1;
        if (takes && once)
            continue;
        e->by[EVENT_JOB]--;
        event_log_forget(e->app->events, job->stream, job->id);
        event_refuse(e, job->bytes, takes ? JOB_BETWEEN : JOB_UNWANTED);
    }
}

/* Home. */
static void jobs_rechecked(struct pooled *p)
{
    events_answer(CONTAINER_OF(p, struct events, pooled));
}

/* Home. */
static void events_appended(struct event_append *a, err why)
{
    struct events *e = CONTAINER_OF(a, struct events, append);
    e->why = why;
    for (unsigned i = 0; i < a->count && why == ERR_OK; i++)
        e->repeated += a->taken[i].before && !is_relay(&a->events[i]);
    if (why == ERR_OK)
        e->stored += a->count;
    if (why == ERR_OK && e->stored < kept_count(e))
        events_append(e);
    else if (why == ERR_OK && e->by[EVENT_JOB] > 0 && e->reloads != change_reloads(e->app->change))
        pooled_again(&e->pooled, jobs_recheck, jobs_rechecked);
    else
        events_answer(e);
}

static void events_append(struct events *e)
{
    unsigned left = kept_count(e) - e->stored;
    e->append = (struct event_append){
        .log = e->app->events,
        .events = kept_at(e, e->stored),
        .count = left < EVENT_APPEND_MAX ? left : EVENT_APPEND_MAX,
        .taken = e->taken,
        .deadline = mono_add_ms(clock_mono(e->app->clock), e->app->config->write_timeout_ms),
        .home = e->pooled.home,
        .done = events_appended,
    };
    event_append_start(&e->append);
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
    err why = e->why;
    const char *fault = e->fault;
    if (fault == NULL && why == ERR_OK) {
        if (kept_count(e) > 0)
            events_append(e);
        else
            events_answer(e);
        return;
    }
    events_fini(e);
    if (fault != NULL)
        (void)app_refused(p->x, 400, "bad_request", fault);
    else if (why == ERR_BAD)
        app_problem(p->x, 413, "content_too_large", NULL,
                    arena_printf(e->arena, "There are more than %d events.", EVENTS_MAX), STR_NONE);
    else
        app_fail(p->x, why, NULL);
}

/* Pool. */
static void events_run(struct pooled *p)
{
    struct events *e = CONTAINER_OF(p, struct events, pooled);
    str value;
    e->reloads = change_reloads(e->app->change);
    e->fault = body_fault(e->body, &value);
    if (e->fault == NULL)
        e->why = events_take(e, value);
    unsigned batch = kept_count(e) < EVENT_APPEND_MAX ? kept_count(e) : EVENT_APPEND_MAX;
    e->taken = e->why == ERR_OK ? arena_calloc(e->arena, batch, sizeof *e->taken) : NULL;
    if (e->why == ERR_OK && e->taken == NULL && batch > 0)
        e->why = ERR_LIMIT;
}

/* How many effects of rules led to these events. Of several numbers the greatest counts. What is no
 * number is taken for a loop, and so is a greater one than there is room for: nobody but rules, and
 * those who pass on what these say, sends the header. */
static uint8_t hops_of(struct http_exchange *x)
{
    str text = STR_NONE;
    uint64_t hops, most = 0;
    if (!http_header(x, CHANGE_HOPS_HEADER, &text))
        return 0;
    while (text.n > 0) {
        str one = str_trim(str_split(&text, ','));
        if (!str_to_u64(one, &hops) || hops > UINT8_MAX)
            return UINT8_MAX;
        most = hops > most ? hops : most;
    }
    return (uint8_t)most;
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
    e->hops = hops_of(x);
    buf_init(&e->invalid, EVENTS_REPLY_BYTES_MAX);
    buf_init(&e->kept, 2 * EVENTS_MAX * sizeof(struct event));
    buf_init(&e->relay, RELAY_BYTES_MAX);
    buf_put(&e->invalid, STR("{\"invalid\":["));
    if (coding.n == 0 && e->body.n <= EVENTS_HERE_BYTES_MAX)
        pooled_here(&e->pooled, events_run, events_over);
    else
        pooled_start(&e->pooled, events_run, events_over);
}

const struct http_route app_event_routes[] = {
    { HTTP_POST, "/v1/events", post_events, .body_bytes_max = EVENTS_BODY_BYTES_MAX,
      .permission = "change.write", .label = "change.events" },
    { .pattern = NULL },
};
