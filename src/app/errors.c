/* errors.c - turns an error and its note into a problem document, or into the form that
 * Querator's clients know. Invariant: no other file chooses an HTTP status for an `err`. */
#include "app/errors.h"

#include "app/answer.h"
#include "app/rpc.h"
#include "base/utf8.h"
#include "codec/json_text.h"
#include "http/status.h"

#include <string.h>

static const struct {
    int status;
    const char *type, *detail;
} of_err[ERR_CODES] = {
    [ERR_OK] = { 500, "internal_error", "An answer was expected." },
    [ERR_BAD] = { 400, "bad_request", "The request is wrong." },
    [ERR_NOT_FOUND] = { 404, "not_found", "Nothing is stored there." },
    [ERR_GONE] = { 410, "gone", "What was there is gone." },
    [ERR_CONFLICT] = { 409, "conflict", "It contradicts what is stored." },
    [ERR_PRECONDITION] = { 412, "precondition_failed",
                           "A condition of the request does not hold." },
    [ERR_DENIED] = { 403, "forbidden", "This is not allowed to you." },
    [ERR_LIMIT] = { 503, "overloaded", "A limit of the server is reached; try again later." },
    [ERR_AGAIN] = { 503, "overloaded", "The server is busy; try again later." },
    [ERR_TIMEOUT] = { 503, "timeout",
                      "The deadline passed before it was done; nothing was written." },
    [ERR_FULL] = { 507, "disk_full",
                   "There is no room: the disk has less free than store.free_bytes_min; nothing "
                   "was written." },
    [ERR_SHUTDOWN] = { 503, "shutting_down", "The server is shutting down." },
    [ERR_UNAVAILABLE] = { 503, "unavailable", "A part of the service does not answer." },
    [ERR_CORRUPT] = { 500, "corrupt", "The stored bytes fail their check." },
    [ERR_IO] = { 500, "io_error", "The store could not be read." },
};

/* Everything under /v1/ speaks Querator's language. */
static bool is_queue_path(str target)
{
    return str_starts(target, STR("/v1/"));
}

static str problem_document(struct http_exchange *x, int status, const char *type,
                            const char *title, str detail, str extra)
{
    struct arena *a = http_arena(x);
    char method[17] = { 0 };
    /* The document of a HEAD is not sent, but its length is: the one of the GET (RFC 9110 8.6). */
    const char *name = http_method(x) == HTTP_HEAD ? "GET" : http_method_name(x);
    for (size_t i = 0; i < sizeof method - 1 && name[i] != 0; i++)
        method[i] = (name[i] >= 'A' && name[i] <= 'Z') ? (char)(name[i] - 'A' + 'a') : name[i];
    return arena_printf(
        a,
        "{\"type\":\"" PROBLEM_TYPE_PREFIX "%s\",\"title\":\"%s\",\"detail\":%.*s,\"method\":%.*s,"
        "\"uri\":%.*s,\"status\":%d%.*s}",
        type, title == NULL ? http_status_text(status) : title, STR_ARG(json_text_quote(a, detail)),
        STR_ARG(json_text_quote(a, str_of(method))), STR_ARG(json_text_quote(a, http_target(x))),
        status, (int)extra.n, extra.n == 0 ? "" : extra.p);
}

/* Refused for want of memory that others hold: then no code of ours can tell the client's fault,
 * and whoever obeyed a 4xx would drop what is right. */
static bool is_starved(struct http_exchange *x, int status)
{
    return arena_is_starved(http_arena(x)) &&
           ((status >= 400 && status <= 500) || status == 502 || status == 503);
}

void app_problem_told(struct http_exchange *x, const struct app_problem *told)
{
    static const struct app_problem starved = {
        503,
        "overloaded",
        .detail = { .p = BUDGET_FULL_TEXT, .n = sizeof BUDGET_FULL_TEXT - 1 },
    };
    const struct app_problem *p = is_starved(x, told->status) ? &starved : told;
    if (is_queue_path(http_target(x))) {
        if (p->status == 503)
            http_reply_header(x, STR("retry-after"), STR("1"));
        rpc_error(x, p->status, p->detail);
        return;
    }
    str body = problem_document(x, p->status, p->type, p->title, p->detail, p->extra);
    str content_type = STR("application/problem+json");
    struct answer w = { .status = p->status, .body = body };
    if (body.p == NULL) { /* the arena is full: the least that is still true */
        w.body = STR("{\"status\":503,\"title\":\"Out of memory for this request\"}");
        w.status = 503;
    }
    answer_add(&w, STR("content-type"), content_type);
    answer_add(&w, STR("cache-control"),
               str_of(p->cache_control != NULL ? p->cache_control : HEADERS_CACHE_PRIVATE));
    if (w.status == 503 || p->retry_s > 0)
        answer_add(&w, STR("retry-after"),
                   p->retry_s > 1 ? arena_printf(http_arena(x), "%lld", (long long)p->retry_s)
                                  : STR("1"));
    answer_add_security(&w, http_arena(x), content_type, STR_NONE);
    answer_send(x, &w);
}

void app_problem(struct http_exchange *x, int status, const char *type, const char *title,
                 str detail, str extra)
{
    app_problem_told(
        x, &(struct app_problem){
               .status = status, .type = type, .title = title, .detail = detail, .extra = extra });
}

bool app_refused(struct http_exchange *x, int status, const char *type, const char *detail)
{
    app_problem(x, status, type, NULL, str_of(detail), STR_NONE);
    return false;
}

bool app_may_wait(struct http_exchange *x)
{
    bool may = !http_draining(x);
    if (!may)
        app_fail(x, ERR_SHUTDOWN, NULL);
    return may;
}

/* What a store says with its own name for it in front of the note: "NAME: text", or "NAME/SECONDS:
 * text" where it knows when to come again. */
static void named_problem(err why, struct app_problem *p)
{
    static const struct {
        err why;
        int status;
        const char *type;
        int64_t retry_s;
    } named[] = {
        { ERR_UNAVAILABLE, 503, "clock_skew", 1 },
        { ERR_UNAVAILABLE, 503, "schema_missing", 10 },
        { ERR_UNAVAILABLE, 503, "keyspace_remade", 5 },
        { ERR_UNAVAILABLE, 503, "policies_unread", 3 },
        { ERR_UNAVAILABLE, 503, "policies_refused", 30 },
        { ERR_AGAIN, 429, "too_many_renders", 60 },
    };
    str text = p->detail, seconds = str_split(&text, ':'), name = str_split(&seconds, '/');
    uint64_t retry_s;
    for (size_t i = 0; i < COUNT_OF(named); i++) {
        if (why != named[i].why || !str_eq(name, str_of(named[i].type)))
            continue;
        p->status = named[i].status;
        p->type = named[i].type;
        p->detail = str_trim(text);
        p->retry_s = str_to_u64(seconds, &retry_s) && retry_s <= INT32_MAX ? (int64_t)retry_s
                                                                           : named[i].retry_s;
    }
}

/* discreet: what broke is for the log, not for the client. */
static void errors_fail(struct http_exchange *x, err why, const struct err_note *note,
                        bool discreet, const char *cache_control)
{
    INVARIANT(why < ERR_CODES);
    str detail =
        note != NULL && note->text[0] != 0 ? str_of(note->text) : str_of(of_err[why].detail);
    if (of_err[why].status == 500 || of_err[why].status == 507) {
        http_state_set(x, arena_cstr(http_arena(x), arena_printf(http_arena(x), "%s: %.*s",
                                                                 err_name(why), STR_ARG(detail))));
        if (discreet)
            detail = str_of(of_err[why].detail);
    }
    struct app_problem p = { .status = of_err[why].status,
                             .type = of_err[why].type,
                             .detail = detail,
                             .cache_control = cache_control };
    named_problem(why, &p);
    app_problem_told(x, &p);
}

void app_origin_fail(struct http_exchange *x, err why, const struct err_note *note,
                     int64_t retry_ms)
{
    app_origin_fail_kept(x, why, note, retry_ms, NULL);
}

void app_origin_fail_kept(struct http_exchange *x, err why, const struct err_note *note,
                          int64_t retry_ms, const char *cache_control)
{
    static const struct {
        int status;
        const char *type, *detail;
    } of_origin[ERR_CODES] = {
        [ERR_NOT_FOUND] = { 404, "not_found", "The wiki has no such page or revision." },
        [ERR_GONE] = { 403, "access_denied#revision", "The text of this revision is hidden." },
        [ERR_DENIED] = { 403, "access_denied#wiki", "Only some may read this of the wiki." },
        [ERR_BAD] = { 400, "bad_request#origin", "The origin refused the request." },
        [ERR_AGAIN] = { 503, "origin_busy", "The origin is busy; try again later." },
        [ERR_UNAVAILABLE] = { 502, "origin_failed", "The origin gave no answer that can be used." },
        [ERR_CORRUPT] = { 502, "origin_failed", "The origin gave an answer that cannot be used." },
        [ERR_TIMEOUT] = { 504, "origin_timeout", "It was not made in time; it may be there soon." },
        [ERR_LIMIT] = { 503, "overloaded", "Too much is being made already; try again later." },
    };
    INVARIANT(why < ERR_CODES);
    if (of_origin[why].status == 0) {
        errors_fail(x, why, note, true, cache_control);
        return;
    }
    str detail = str_of(note != NULL && note->text[0] != 0 ? note->text : of_origin[why].detail);
    struct app_problem p = { of_origin[why].status, of_origin[why].type, .detail = detail,
                             .retry_s = (retry_ms + 999) / 1000, .cache_control = cache_control };
    app_problem_told(x, &p);
}

void app_fail(struct http_exchange *x, err why, const struct err_note *note)
{
    errors_fail(x, why, note, true, NULL);
}

void app_fail_told(struct http_exchange *x, err why, const struct err_note *note)
{
    errors_fail(x, why, note, false, NULL);
}

void *app_new(struct http_exchange *x, size_t size)
{
    void *p = arena_calloc(http_arena(x), 1, size);
    if (p == NULL)
        app_fail(x, ERR_LIMIT, NULL);
    return p;
}
