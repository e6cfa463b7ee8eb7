#include "app/page/page_request.h"

#include "app/errors.h"
#include "app/form.h"
#include "app/headers.h"
#include "app/token.h"
#include "base/date.h"
#include "codec/base64.h"
#include "codec/json_text.h"
#include "http/negotiate.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static bool refuse(struct http_exchange *x, int status, const char *type, const char *detail)
{
    app_problem(x, status, type, NULL, str_of(detail), STR_NONE);
    return false;
}

static const struct config_bucket *config_of(const struct app *app, str name)
{
    for (unsigned i = 0; i < app->config->buckets_count; i++)
        if (str_eq(name, str_of(app->config->buckets[i].page.name)))
            return &app->config->buckets[i];
    return NULL;
}

static bool parse_bucket(struct http_exchange *x, const struct app *app, struct page_target *t)
{
    str name = http_param(x, "bucket");
    t->config = config_of(app, name);
    t->bucket = t->config == NULL ? NULL : page_store_bucket(app->pages, name);
    if (t->bucket == NULL)
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

bool page_target_parse(struct http_exchange *x, const struct app *app, struct page_target *out)
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
    struct page_target t = { .domain = app_domain_of(x, app), .config = &app->config->buckets[0] };
    if (t.domain == NULL || !parse_name(x, &t, 0) || !parse_title(x, &t))
        return false;
    t.bucket = page_store_bucket(app->pages, str_of(t.config->page.name));
    INVARIANT(t.bucket != NULL);
    *out = t;
    return true;
}

struct page_which page_target_which(const struct page_target *t)
{
    enum page_select select = t->has_tid ? SELECT_EXACT : t->has_rev ? SELECT_REV : SELECT_LATEST;
    return (struct page_which){
        .domain = t->domain->number, .title = t->title, .select = select, .name = t->name
    };
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

bool app_page_may_be_stale(const struct http_exchange *x, const struct app *app,
                           const struct page_target *t, err why, struct tid tid)
{
    bool outage = why == ERR_UNAVAILABLE || why == ERR_TIMEOUT || why == ERR_AGAIN ||
                  why == ERR_CORRUPT || why == ERR_LIMIT || why == ERR_SHUTDOWN;
    str wishes = http_common(x)->cache_control;
    if (!outage || str_find_str(wishes, STR("stale-if-error=0")) < wishes.n)
        return false;
    store_time until = store_time_add(tid_time(tid), t->config->stale_if_error_ns);
    return store_time_before(clock_store(app->clock), until);
}

void app_page_heed(const struct app *app, const struct page_target *t, enum render_why why,
                   int64_t retry_after_s)
{
    if (why == RENDER_BUSY && t->domain->busy_until_ns != NULL)
        atomic_store(t->domain->busy_until_ns,
                     mono_add_ms(clock_mono(app->clock), 1000 * retry_after_s).ns);
}

int64_t app_page_retry_ms(const struct app *app, const struct page_target *t, err why,
                          int64_t remembered_ms)
{
    if (why != ERR_AGAIN || t->domain->busy_until_ns == NULL)
        return remembered_ms;
    int64_t busy_ms =
        (atomic_load(t->domain->busy_until_ns) - clock_mono(app->clock).ns) / NS_PER_MS;
    return busy_ms > remembered_ms ? busy_ms : remembered_ms;
}

void app_page_too_large(struct http_exchange *x, const struct app *app)
{
    app_problem(x, 413, "content_too_large", NULL,
                arena_printf(http_arena(x), "A body has at most %zu bytes (page.body_bytes_max).",
                             app->config->page_body_bytes_max),
                STR_NONE);
}

mono app_page_deadline(const struct app *app)
{
    return mono_add_ms(clock_mono(app->clock), app->config->write_timeout_ms);
}

mono app_wait_deadline(const struct http_exchange *x, const struct app *app)
{
    return mono_add_ms(clock_mono(app->clock), headers_wait_ms(x, app->config->wait_timeout_ms));
}

str app_page_base(const struct app *app, struct arena *a, str domain)
{
    const str hole = STR("{domain}");
    str url = str_of(app->config->public_url);
    if (url.n == 0)
        return arena_printf(a, "/%.*s/v1", STR_ARG(domain));
    str base = STR("");
    while (url.n > 0 && base.p != NULL) {
        size_t at = str_find_str(url, hole);
        bool found = at < url.n;
        base = arena_printf(a, "%.*s%.*s%.*s", STR_ARG(base), STR_ARG(str_take(url, at)),
                            STR_ARG(found ? domain : STR("")));
        url = str_skip(url, at + (found ? hole.n : 0));
    }
    return base;
}

str app_page_styles(const struct app *app, struct arena *a, str domain)
{
    if (app->config->public_url == NULL)
        return STR_NONE;
    str base = app_page_base(app, a, domain);
    size_t host = str_find_str(base, STR("://")) + 3;
    return str_take(base, host + str_find(str_skip(base, host), '/'));
}

str app_page_tag(struct page_name n, char out[PAGE_TAG_BYTES + 1])
{
    int used = snprintf(out, PAGE_TAG_BYTES + 1, "%" PRIu64 "/", n.rev);
    INVARIANT(used > 0 && used + TID_TEXT_BYTES <= PAGE_TAG_BYTES);
    tid_format(n.tid, out + used);
    return (str){ .p = out, .n = (size_t)used + TID_TEXT_BYTES };
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

void app_page_answer_buf(struct http_exchange *x, int status, const struct buf *b, str etag)
{
    str body = b->failed ? STR_NONE : arena_copy(http_arena(x), buf_str(b));
    if (body.p == NULL) {
        refuse(x, 503, "overloaded", "The answer grew too large; ask for less.");
        return;
    }
    if (etag.n > 0)
        http_reply_header(x, STR("etag"), etag);
    answer_json(x, status, body, NULL);
}

void pagejson_time(struct buf *b, const char *name, store_time t)
{
    char text[DATE_RFC3339_BYTES + 1];
    if (t.ns == STORE_TIME_NEVER.ns || t.ns == STORE_TIME_ZERO.ns) {
        buf_printf(b, ",\"%s\":null", name);
        return;
    }
    date_format_ms(t.ns, text);
    buf_printf(b, ",\"%s\":\"%s\"", name, text);
}

void pagejson_name(struct buf *b, struct page_name n)
{
    char tid[TID_TEXT_BYTES + 1];
    tid_format(n.tid, tid);
    buf_printf(b, "\"rev\":%" PRIu64 ",\"tid\":\"%s\"", n.rev, tid);
}

/* A revision known to exist, of which no render is stored, has none to name. */
void pagejson_successor(struct buf *b, struct page_name n)
{
    if (page_name_is_unmade(n)) {
        buf_printf(b, "{\"rev\":%" PRIu64 ",\"tid\":null}", n.rev);
        return;
    }
    buf_put_c(b, '{');
    pagejson_name(b, n);
    buf_put_c(b, '}');
}

void pagejson_render(struct buf *b, const struct page_render *r)
{
    bool superseded = r->superseded_at.ns != STORE_TIME_NEVER.ns;
    pagejson_name(b, r->name);
    char text[DATE_RFC3339_BYTES + 1];
    date_format_ms(tid_time(r->name.tid).ns, text); /* a real instant, also when it is 1970 */
    buf_printf(b, ",\"rendered_at\":\"%s\",\"state\":\"%s\"", text, page_state_name(r->state));
    pagejson_time(b, "superseded_at", r->superseded_at);
    buf_put(b, STR(",\"superseded_by\":"));
    if (superseded)
        pagejson_successor(b, r->superseded_by);
    else
        buf_put(b, STR("null"));
    pagejson_time(b, "due_at", r->due_at);
    buf_put(b, STR(",\"bytes\":{"));
    for (unsigned i = 0; i < r->contents_count; i++)
        buf_printf(b, "%s\"%s\":%" PRIu32, i == 0 ? "" : ",", r->contents[i].name,
                   r->contents[i].raw_bytes);
    buf_put_c(b, '}');
}

bool app_page_tag_name(str tag, struct page_name *out)
{
    char text[PAGE_TAG_BYTES + 1];
    struct page_name n;
    str rest = tag;
    if (!str_to_u64(str_split(&rest, '/'), &n.rev) || !tid_parse(rest, &n.tid) ||
        !str_eq(app_page_tag(n, text), tag))
        return false;
    *out = n;
    return true;
}

/* Tags of others name no render. False: the arena is full. */
static bool match_of(struct arena *a, str field, bool weak, struct page_match *out)
{
    struct http_etag tag;
    size_t names_max = field.n / (2 + TID_TEXT_BYTES) + 1; /* "R/TID" and more each */
    struct page_name *names;
    *out = (struct page_match){ .kind = MATCH_UNASKED };
    if (field.n == 0)
        return true;
    out->kind = MATCH_ANY;
    if (str_eq(str_trim(field), STR("*")))
        return true;
    out->kind = MATCH_LISTED;
    out->names = names = arena_calloc(a, names_max, sizeof *names);
    if (names == NULL)
        return false;
    while (out->count < names_max && http_etag_next(&field, &tag))
        if ((weak || !tag.weak) && app_page_tag_name(tag.opaque, &names[out->count]))
            out->count++;
    return true;
}

bool app_page_condition(struct http_exchange *x, struct page_condition *out)
{
    const struct http_common *c = http_common(x);
    struct arena *a = http_arena(x);
    store_time since;
    *out = (struct page_condition){ .dated = false };
    if (!c->any_conditional)
        return true;
    if (!match_of(a, c->if_match, false, &out->match) ||
        !match_of(a, c->if_none_match, true, &out->none_match)) {
        app_fail(x, ERR_LIMIT, NULL);
        return false;
    }
    out->dated = c->if_match.n == 0 && c->if_unmodified_since.n > 0 &&
                 date_parse_http(c->if_unmodified_since, &since.ns);
    if (out->dated)
        out->before = store_time_add(since, NS_PER_S);
    return true;
}

void pagejson_title(struct buf *b, struct arena *a, str title, struct page_name n,
                    store_time revised_at)
{
    buf_printf(b, "{\"items\":[{\"title\":%.*s,\"page_id\":null,",
               STR_ARG(json_text_quote(a, title)));
    pagejson_name(b, n);
    buf_put(b, STR(",\"namespace\":null,\"user_id\":null,\"user_text\":null"));
    pagejson_time(b, "timestamp", revised_at);
    buf_put(b, STR(",\"comment\":null,\"tags\":[],\"restrictions\":[],\"page_language\":null,"
                   "\"redirect\":null,"
                   "\"page_deleted\":null}]"));
    buf_put(b, STR(",\"count\":1}"));
}
