/* fetch.c - sends one request to an origin, with its retries, for request.c, site.c, transform.c
 * and words.c. Invariant: a request that could have changed something at the wiki is not sent
 * twice. */
#include "render/fetch.h"

#include "base/date.h"

#include <stdatomic.h>
#include <string.h>

static const char *const why_names[] = { "fine",        "no_page", "no_revision", "suppressed",
                                         "other_title", "denied",  "refused",     "busy",
                                         "failed",      "timeout", "limit",       "canceled" };
_Static_assert(COUNT_OF(why_names) == RENDER_WHYS, "a name each");

const char *render_why_name(enum render_why w)
{
    INVARIANT(w < RENDER_WHYS);
    return why_names[w];
}

/* An empty value sends no header. */
void fetch_header(struct fetch *f, const char *name, str value)
{
    if (value.n == 0)
        return;
    INVARIANT(f->headers_count < FETCH_HEADERS_MAX);
    f->headers[f->headers_count++] = (struct http_pair){ .name = str_of(name), .value = value };
}

/* The client names the version of HTML; a bundle of that version has another name. */
str fetch_bundle_accept(struct arena *a, str accept)
{
    static const struct {
        str from, to;
    } words[] = { { STR_INIT("text/html"), STR_INIT("application/json") },
                  { STR_INIT("/HTML/"), STR_INIT("/pagebundle/") } };
    char *copy = arena_alloc(a, accept.n * 2 + 1), *at = copy;
    if (copy == NULL)
        return STR_NONE;
    while (accept.n > 0) {
        size_t i = 0;
        while (i < COUNT_OF(words) &&
               !str_eq_nocase(str_take(accept, words[i].from.n), words[i].from))
            i++;
        str put = i < COUNT_OF(words) ? words[i].to : str_take(accept, 1);
        memcpy(at, put.p, put.n);
        at += put.n;
        accept = str_skip(accept, i < COUNT_OF(words) ? words[i].from.n : 1);
    }
    *at = 0;
    return (str){ .p = copy, .n = (size_t)(at - copy) };
}

static void call_done(struct http_call *call, err why);

/* One try, with its own timeout within the deadline of all. Thread: any. */
static void try_now(struct fetch *f)
{
    const struct origin_opts *o = &f->origin->opts;
    mono until = mono_add_ms(clock_mono(f->origin->clock), o->timeout_ms);
    /* The old value is of no use. */
    (void)atomic_fetch_add(f->tries == 0 ? &f->origin->requests : &f->origin->retries, 1);
    if (f->tries > 0)
        meter_again(f->origin->meter);
    f->tries++;
    f->call = (struct http_call){ .method = f->body.p == NULL ? "GET" : "POST",
                                  .url = f->url,
                                  .headers = f->headers,
                                  .headers_count = f->headers_count,
                                  .body = f->body,
                                  .reply_bytes_max = f->reply_bytes_max,
                                  .deadline = until.ns < f->deadline.ns ? until : f->deadline,
                                  .pass = f->pass,
                                  .key = &f->origin->turns[TURN_ASIDE],
                                  .arena = f->arena,
                                  .done = call_done,
                                  .ctx = f };
    http_call_start(f->origin->client, &f->call);
}

/* Thread: any; done comes on the loop. */
void fetch_start(struct fetch *f)
{
    f->tries = 0;
    f->canceled = false;
    f->began = clock_mono(f->origin->clock);
    /* as_asker: the wiki must see the reader's own rights, not the server's. */
    if (!f->as_asker && f->origin->opts.authorization != NULL)
        fetch_header(f, "authorization", str_of(f->origin->opts.authorization));
    meter_open(f->origin->meter, 1);
    try_now(f);
}

/* Seconds, or an HTTP date; what cannot be read is 0. */
static int64_t retry_after(const struct fetch *f)
{
    str text = str_trim(http_call_header(&f->call, "retry-after"));
    int64_t s = 0, at;
    if (!str_to_i64(text, &s) && date_parse_http(text, &at))
        s = at / NS_PER_S - clock_wall(f->origin->clock).ns / NS_PER_S;
    /* An instant that is past: no wait. */
    if (s < 0)
        return 0;
    return s < FETCH_RETRY_AFTER_S_MAX ? s : FETCH_RETRY_AFTER_S_MAX;
}

/* What a status says. 404 is a revision that is not there: callers that asked otherwise correct
 * that. */
static enum render_why judge_status(struct fetch *f)
{
    int status = f->call.status;
    if (status == 200) {
        f->retry_after_s = retry_after(f);
        return RENDER_FINE;
    }
    err_note_set(&f->note, "the origin answered %d", status);
    if (status == 404)
        return RENDER_NO_REVISION;
    if (status == 408 || status == 425 || status == 429 || status == 503) {
        f->retry_after_s = retry_after(f);
        return RENDER_BUSY;
    }
    if (status >= 300 && status < 400)
        err_note_set(&f->note, "the origin redirects (%d), which is not followed", status);
    if (status == 401 || status == 403)
        return RENDER_DENIED;
    return status >= 400 && status < 500 ? RENDER_REFUSED : RENDER_FAILED;
}

/* What became of the last try. */
static enum render_why fetch_judge(struct fetch *f, err why)
{
    if (f->canceled)
        return RENDER_CANCELED;
    if (why == ERR_OK)
        return judge_status(f);
    f->note = f->call.note;
    switch ((int)why) {
    case ERR_TIMEOUT:
        return RENDER_TIMEOUT;
    case ERR_SHUTDOWN:
        return RENDER_CANCELED;
    case ERR_LIMIT:
        return f->call.sent ? RENDER_LIMIT
                            : RENDER_BUSY; /* too large, or too many waiting for this origin */
    default:
        return RENDER_FAILED;
    }
}

/* Is another try worth it? Only of what reads, in time, and after failures that may pass. */
static bool is_worth_another(const struct fetch *f, err why)
{
    const struct origin_opts *o = &f->origin->opts;
    if (f->canceled || (f->body.p != NULL && !f->reads) || f->tries > o->retries)
        return false;
    int64_t rest = f->deadline.ns - clock_mono(f->origin->clock).ns;
    if (rest <= FETCH_AGAIN_MS * f->tries * NS_PER_MS)
        return false;
    if (why == ERR_OK)
        return f->call.status == 500 || f->call.status == 502 || f->call.status == 504;
    return why == ERR_UNAVAILABLE || (why == ERR_BAD && f->call.sent);
}

void fetch_count(const struct fetch *f, enum render_why why)
{
    meter_outcome(f->origin->meter, f->kind, why);
}

/* f may be gone behind done. */
static void fetch_finish(struct fetch *f, enum render_why why)
{
    meter_open(f->origin->meter, -1);
    meter_took(f->origin->meter, f->kind, clock_mono(f->origin->clock).ns - f->began.ns);
    if (why != RENDER_FINE)
        fetch_count(f, why);
    f->done(f, why);
}

/* Loop: the pause between two tries is over, or was cut short by a cancel. */
static void try_again(void *ctx)
{
    struct fetch *f = ctx;
    loop_timer_free(&f->timer);
    if (!f->canceled) {
        try_now(f);
        return;
    }
    err_note_set(&f->note, "canceled");
    fetch_finish(f, RENDER_CANCELED);
}

static void call_done(struct http_call *call, err why)
{
    struct fetch *f = call->ctx;
    if (!is_worth_another(f, why)) {
        fetch_finish(f, fetch_judge(f, why));
        return;
    }
    f->timer = loop_timer_new(f->origin->loop, try_again, f);
    loop_timer_start(f->timer, FETCH_AGAIN_MS * f->tries, 0);
}

/* done comes soon, by the way of the timer or of the call. */
void fetch_cancel(struct fetch *f)
{
    loop_assert_here(f->origin->loop);
    f->canceled = true;
    if (f->timer != NULL)
        loop_timer_start(f->timer, 0, 0);
    else
        http_call_cancel(f->origin->client, &f->call);
}
