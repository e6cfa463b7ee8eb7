/* page_request.c - what the handlers of pages share. */
#include "app/page/page_request.h"

#include "app/answer.h"
#include "app/errors.h"
#include "base/date.h"
#include "http/form.h"
#include "http/negotiate.h"
#include "page/condition.h"
#include "page/location.h"

/* ---- what it is about ---- */

bool page_target_parse(struct http_exchange *x, const struct app *app, struct page_target *out)
{
    str bucket = http_param(x, "bucket"), content = http_param(x, "content");
    str title = http_param(x, "title"), rev = http_param(x, "rev"), tid = http_param(x, "tid");
    struct err_note note = { { 0 } };
    struct page_target t = { .domain = app_domain_of(x, app),
                             .settings = page_settings_now(&app->page),
                             .content = content,
                             .has_rev = rev.p != NULL,
                             .has_tid = tid.p != NULL };
    if (t.domain == NULL)
        return false;
    if (bucket.p != NULL)
        t.settings = page_settings_find(&app->page, bucket);
    if (t.settings == NULL)
        return app_refused(x, 404, "unknown_bucket", "There is no bucket of this name.");
    uint64_t least = bucket.p != NULL;
    if (t.has_rev &&
        (!str_to_u64(rev, &t.name.rev) || t.name.rev < least || t.name.rev > PAGE_REV_MAX))
        return app_refused(x, 400, "bad_request#invalid_revision",
                           "A revision is a number from 1 to 2^63-1.");
    if (t.has_tid && !tid_parse(tid, &t.name.tid))
        return app_refused(x, 400, "bad_request#invalid_tid", "A tid is a version-1 UUID.");
    err why = title.p == NULL ? ERR_OK : page_title_key(http_arena(x), title, &t.title, &note);
    if (why != ERR_OK)
        page_title_bad(x, why, &note);
    else
        *out = t;
    return why == ERR_OK;
}

void *page_request_new(struct http_exchange *x, const struct app *app, size_t size)
{
    struct page_request *r = app_new(x, size);
    if (r == NULL || !page_target_parse(x, app, &r->target))
        return NULL;
    r->x = x;
    r->app = app;
    return r;
}

/* ---- titles ---- */

bool page_title_settled(struct http_exchange *x, struct page_target *target)
{
    struct page_title_wait w = { .target = target, .arena = http_arena(x) };
    bool bad = page_title_settle(&w) && w.end == TITLE_BAD;
    if (bad)
        page_title_bad(x, w.why, &w.note);
    return !bad;
}

bool page_target_settled(struct http_exchange *x, const struct app *app, struct page_target *out)
{
    return page_target_parse(x, app, out) && page_title_settled(x, out);
}

static void title_over(struct page_title_wait *p)
{
    struct title_wait *w = CONTAINER_OF(p, struct title_wait, page);
    switch (p->end) {
    case TITLE_SETTLED:
        w->go(w->r);
        return;
    case TITLE_BAD:
        page_title_bad(w->r->x, p->why, &p->note);
        return;
    case TITLE_NO_RULES:
        app_origin_fail(w->r->x, p->why, &p->note, 0);
        return;
    }
}

void title_wait_start(struct title_wait *w, struct page_request *r,
                      void (*go)(struct page_request *r))
{
    *w = (struct title_wait){ .page = { .target = &r->target,
                                        .arena = http_arena(r->x),
                                        .deadline = page_wait_deadline(r->x, r->app),
                                        .home = http_home(r->x),
                                        .done = title_over },
                              .r = r,
                              .go = go };
    bool known = page_title_settle(&w->page);
    if (!known && !app_may_wait(r->x))
        return;
    http_defer(r->x);
    if (known)
        title_over(&w->page);
    else
        page_title_wait(&w->page);
}

void page_title_bad(struct http_exchange *x, err why, const struct err_note *note)
{
    if (why == ERR_BAD)
        app_refused(x, 400, "bad_request#invalid_title", note->text);
    else if (why == ERR_NOT_FOUND)
        app_refused(x, 404, "not_found", note->text);
    else
        app_fail(x, why, note);
}

void page_moved(struct http_exchange *x, const struct page_target *target)
{
    const char *cache_control = target->settings->cache_control;
    struct answer w = { .status = 301 };
    answer_add(&w, STR("location"), page_location_moved(http_arena(x), target, http_query_raw(x)));
    answer_add(&w, STR("cache-control"),
               str_of(cache_control == NULL ? HEADERS_CACHE_PRIVATE : cache_control));
    answer_add(&w, STR("vary"), STR("Origin"));
    answer_add_security(&w, http_arena(x), STR_NONE, STR_NONE);
    answer_send(x, &w);
}

/* ---- wishes ---- */

unsigned page_wishes(const struct http_exchange *x)
{
    str wishes = http_common(x)->cache_control, origin;
    /* of a private wiki no script of another site reads anything */
    bool script = !http_is_withheld(x) && http_header(x, "origin", &origin);
    unsigned flags = script ? GET_SCRIPT : 0;
    if (wishes.n == 0)
        return flags;
    if (http_cache_control_has(wishes, STR("no-cache")))
        flags |= GET_NO_CACHE;
    if (http_cache_control_has(wishes, STR("only-if-cached")))
        flags |= GET_ONLY_CACHED;
    if (str_find_str(wishes, STR("stale-if-error=0")) < wishes.n)
        flags |= GET_NO_STALE;
    return flags;
}

bool page_flag(struct http_exchange *x, const char *name, bool *out)
{
    str text;
    if (!http_query(x, name, &text) || form_flag(text, out))
        return true;
    return app_refused(
        x, 400, "bad_request",
        arena_printf(http_arena(x), "%s is a flag: true or false, 1 or 0, yes or no.", name).p);
}

bool page_condition_of(struct http_exchange *x, struct page_condition_fields *fields,
                       struct page_condition *out)
{
    const struct http_common *c = http_common(x);
    *fields = (struct page_condition_fields){ .if_match = c->if_match,
                                              .if_none_match = c->if_none_match,
                                              .if_unmodified_since = c->if_unmodified_since };
    *out = (struct page_condition){ .dated = false };
    if (!c->any_conditional || page_condition_parse(http_arena(x), fields, out))
        return true;
    app_fail(x, ERR_LIMIT, NULL);
    return false;
}

mono page_wait_deadline(const struct http_exchange *x, const struct app *app)
{
    return mono_add_ms(clock_mono(app->clock), headers_wait_ms(x, app->wait_timeout_ms));
}

bool page_waits(struct http_exchange *x, bool *deferred, enum page_wait what)
{
    if (*deferred)
        return true;
    if (what != WAIT_READ && http_draining(x))
        return false;
    *deferred = true;
    http_defer(x);
    return true;
}

/* ---- answers ---- */

void page_fail(struct http_exchange *x, const struct app *app, err why,
               const struct page_trace *trace, const struct err_note *note)
{
    struct err_note told;
    bool silent = note == NULL || note->text[0] == '\0';
    if (why == ERR_UNAVAILABLE && silent && !page_store_ready(app->page.store, &told))
        note = &told;
    if (why != ERR_GONE || trace == NULL) {
        app_fail(x, why, note);
        return;
    }
    char at[DATE_RFC3339_BYTES + 1];
    date_format_ms(trace->at.ns, at);
    const char *reason = page_state_name(trace->state), *type = reason;
    bool deleted = trace->state == PAGE_DELETED;
    bool forbidden =
        trace->state == PAGE_SUPPRESSED && app->config->compat_hidden == HIDDEN_FORBIDDEN;
    if (deleted || forbidden)
        type = deleted ? "not_found" : "access_denied#revision";
    str extra = arena_printf(http_arena(x), ",\"reason\":\"%s\",\"at\":\"%s\",\"policy\":\"%s\"",
                             reason, at, page_policy_name(trace->policy));
    str detail = note != NULL && note->text[0] != 0
                     ? str_of(note->text)
                     : arena_printf(http_arena(x), "This render was %s at %s.", reason, at);
    app_problem(x, deleted ? 404 : forbidden ? 403 : 410, type, NULL, detail, extra);
}

void app_page_too_large(struct http_exchange *x, const struct app *app)
{
    app_refused(x, 413, "content_too_large",
                arena_printf(http_arena(x), "A body has at most %zu bytes (page.body_bytes_max).",
                             app->config->page_body_bytes_max)
                    .p);
}

void page_answer_json(struct http_exchange *x, str json, str etag)
{
    if (json.p == NULL) {
        app_refused(x, 503, "overloaded", "The answer grew too large; ask for less.");
        return;
    }
    http_reply_header(x, STR("etag"), etag);
    answer_json(x, 200, json, NULL);
}

str page_styles(const struct app *app, struct arena *a, str domain)
{
    return page_location_styles(a, str_of(app->config->public_url), domain);
}
