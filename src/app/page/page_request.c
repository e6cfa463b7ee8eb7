/* page_request.c - what the handlers of pages share: names, answers, JSON. */
#include "app/page/page_request.h"

#include "app/answer.h"
#include "app/errors.h"
#include "app/token.h"
#include "base/date.h"
#include "codec/base64.h"
#include "codec/json_text.h"
#include "http/form.h"
#include "http/negotiate.h"
#include "page/condition.h"
#include "page/location.h"

static bool refuse(struct http_exchange *x, int status, const char *type, const char *detail)
{
    app_problem(x, status, type, NULL, str_of(detail), STR_NONE);
    return false;
}

static bool parse_bucket(struct http_exchange *x, const struct app *app, struct page_target *t)
{
    t->settings = page_settings_find(&app->page, http_param(x, "bucket"));
    if (t->settings == NULL)
        return refuse(x, 404, "unknown_bucket", "There is no bucket of this name.");
    return true;
}

static bool parse_name(struct http_exchange *x, struct page_target *t, uint64_t least)
{
    str rev = http_param(x, "rev"), tid = http_param(x, "tid");
    t->has_rev = rev.p != NULL;
    t->has_tid = tid.p != NULL;
    if (t->has_rev &&
        (!str_to_u64(rev, &t->name.rev) || t->name.rev < least || t->name.rev > PAGE_REV_MAX))
        return refuse(x, 400, "bad_request#invalid_revision",
                      "A revision is a number from 1 to 2^63-1.");
    if (t->has_tid && !tid_parse(tid, &t->name.tid))
        return refuse(x, 400, "bad_request#invalid_tid", "A tid is a version-1 UUID.");
    return true;
}

static bool parse_title(struct http_exchange *x, struct page_target *t)
{
    str title = http_param(x, "title");
    struct err_note note = { { 0 } };
    if (title.p == NULL)
        return true;
    err why = page_title_key(http_arena(x), title, &t->title, &note);
    if (why == ERR_BAD)
        return refuse(x, 400, "bad_request#invalid_title", note.text);
    if (why != ERR_OK)
        app_fail(x, why, &note);
    return why == ERR_OK;
}

bool app_page_target_parse(struct http_exchange *x, const struct app *app, struct page_target *out)
{
    struct page_target t = { .domain = app_domain_of(x, app) };
    if (t.domain == NULL)
        return false;
    if (!parse_bucket(x, app, &t) || !parse_name(x, &t, 1) || !parse_title(x, &t))
        return false;
    str content = http_param(x, "content");
    if (content.p != NULL)
        t.content = content;
    *out = t;
    return true;
}

bool app_page_target_of_page(struct http_exchange *x, const struct app *app,
                             struct page_target *out)
{
    struct page_target t = { .domain = app_domain_of(x, app), .settings = &app->page.buckets[0] };
    if (t.domain == NULL || !parse_name(x, &t, 0) || !parse_title(x, &t))
        return false;
    *out = t;
    return true;
}

void app_page_fail(struct http_exchange *x, const struct app *app, err why,
                   const struct page_trace *trace, const struct err_note *note)
{
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

bool app_page_may_wait(struct http_exchange *x)
{
    if (!http_draining(x))
        return true;
    app_fail(x, ERR_SHUTDOWN, NULL);
    return false;
}

unsigned app_page_wishes(const struct http_exchange *x)
{
    str wishes = http_common(x)->cache_control, origin;
    unsigned flags = http_header(x, "origin", &origin) ? GET_SCRIPT : 0;
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

void app_page_call(struct http_exchange *x, enum store_start start, struct store_call *c)
{
    if (start == STORE_DONE)
        c->done(c);
    else
        http_defer(x);
}

void app_page_too_large(struct http_exchange *x, const struct app *app)
{
    app_problem(x, 413, "content_too_large", NULL,
                arena_printf(http_arena(x), "A body has at most %zu bytes (page.body_bytes_max).",
                             app->config->page_body_bytes_max),
                STR_NONE);
}

mono app_wait_deadline(const struct http_exchange *x, const struct app *app)
{
    return mono_add_ms(clock_mono(app->clock), headers_wait_ms(x, app->config->wait_timeout_ms));
}

str app_page_styles(const struct app *app, struct arena *a, str domain)
{
    return page_location_styles(a, str_of(app->config->public_url), domain);
}

bool app_page_flag(struct http_exchange *x, const char *name, bool *out)
{
    str text;
    if (!http_query(x, name, &text) || form_flag(text, out))
        return true;
    app_problem(x, 400, "bad_request", NULL,
                arena_printf(http_arena(x), "%s is a flag: true or false, 1 or 0, yes or no.",
                             name),
                STR_NONE);
    return false;
}

void app_page_bad_token(struct http_exchange *x)
{
    app_problem(x, 400, "bad_request#invalid_paging_token", NULL,
                STR("page is not a token that a listing gave."), STR_NONE);
}

bool app_page_listing(struct http_exchange *x, unsigned *limit, str *from)
{
    uint64_t n = LISTING_LIMIT_DEFAULT;
    str text;
    if (http_query(x, "limit", &text) && (!str_to_u64(text, &n) || n == 0 || n > LISTING_LIMIT_MAX))
        return refuse(x, 400, "bad_request#invalid_limit", "limit is a number from 1 to 1000.");
    *limit = (unsigned)n;
    *from = STR("");
    if (!http_query(x, "page", &text))
        return true;
    bool fine = text.n > 0 && text.n <= TOKEN_TEXT_BYTES_MAX &&
                base64_decode(http_arena(x), text, BASE64_TOKEN, from) == ERR_OK && from->n > 0;
    if (!fine)
        app_page_bad_token(x);
    return fine;
}

void app_page_answer_buf(struct http_exchange *x, int status, struct buf *b, str etag)
{
    str body = b->failed ? STR_NONE : arena_copy(http_arena(x), buf_str(b));
    buf_fini(b);
    if (body.p == NULL) {
        refuse(x, 503, "overloaded", "The answer grew too large; ask for less.");
        return;
    }
    if (etag.n > 0)
        http_reply_header(x, STR("etag"), etag);
    answer_json(x, status, body, NULL);
}

bool app_page_condition(struct http_exchange *x, struct page_condition_fields *fields,
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
