/* value_put.c - PUT and DELETE of a value: what is sent as what is stored, and what became of it.
 */
#include "app/errors.h"
#include "app/table/value_request.h"
#include "loop/entropy.h"
#include "page/etag.h"

#include <inttypes.h>

enum { VALUE_HEADERS_MAX = 128 };

static struct value_condition condition_of(const struct http_exchange *x)
{
    const struct http_common *c = http_common(x);
    return (struct value_condition){ .if_match = c->if_match, .if_none_match = c->if_none_match };
}

/* A member of gzip is stored as it came, once all of it was looked at: those who take it get it
 * without any work. False: answered. */
static bool body_take(struct value_request *r, enum headers_rule rule)
{
    str sent = STR_NONE, named = STR_NONE;
    struct coded_body body;
    (void)http_header(r->x, "content-encoding", &sent); /* absent is fine */
    if (rule == HEADERS_VALUE)
        (void)http_header(r->x, "x-store-content-encoding", &named); /* absent is fine */
    if (sent.n > 0 && named.n > 0 && !coded_same(sent, named))
        return app_refused(
            r->x, 400, "bad_request#invalid_coding",
            "Content-Encoding and x-store-content-encoding name different codings of one body.");
    if (!coded_body_read(r->x, r->app, named.n > 0 ? named : sent, VALUE_BODY_BYTES_MAX, &body))
        return false;
    bool as_it_came = body.coding == FRAME_GZIP;
    r->put.coding = as_it_came ? str_of(frame_coding_name(FRAME_GZIP)) : STR_NONE;
    r->put.raw = body.raw;
    r->put.body = as_it_came ? http_body(r->x) : body.raw;
    if (r->put.body.p == NULL)
        r->put.body = STR("");
    return true;
}

/* False: answered. */
static bool headers_take(struct value_request *r, enum headers_rule rule)
{
    struct http_pair fields[VALUE_HEADERS_MAX];
    struct err_note note = { .text = "" };
    unsigned count = http_headers_all(r->x, fields, VALUE_HEADERS_MAX);
    err why = headers_keep(http_arena(r->x), fields, count, rule, &r->put.headers, &note);
    if (why != ERR_OK && note.text[0] != 0)
        return app_refused(r->x, 400, "bad_request#invalid_headers", note.text);
    if (why != ERR_OK)
        app_fail(r->x, why, NULL);
    return why == ERR_OK;
}

/* On the pool: it may take milliseconds, so its deadline runs from behind the body. */
static void put_start(struct value_request *r, enum headers_rule rule)
{
    if (!body_take(r, rule) || !headers_take(r, rule) || !app_may_wait(r->x))
        return;
    r->of.call.deadline = page_write_deadline(&r->app->page);
    r->put.condition = condition_of(r->x);
    r->put.random = entropy_u64();
    app_call_go(r->x, value_put(&r->app->values, &r->put), &r->of.call);
}

/* False: answered, it failed or a condition did not hold. */
static bool is_written(struct value_request *r, enum value_outcome outcome)
{
    if (r->of.call.why != ERR_OK)
        value_fail(r, r->of.call.why);
    else if (outcome == VALUE_UNMET)
        app_refused(r->x, 412, "precondition_failed", "A condition of the request does not hold.");
    return r->of.call.why == ERR_OK && outcome != VALUE_UNMET;
}

/* ---- key_value ---- */

/* With the stored headers. */
static void answer_same(const struct value_request *r)
{
    struct http_pair line;
    str lines = r->put.same_headers;
    while (headers_next(&lines, &line))
        if (!str_eq_nocase(line.name, STR("content-type")) &&
            headers_may_keep(line.name, HEADERS_VALUE))
            http_reply_header(r->x, line.name, line.value);
    http_reply_header(r->x, STR("etag"), r->put.same_etag);
    app_refused(r->x, 412, "precondition_failed", "The same value is stored already.");
}

static void plain_written(struct store_call *c)
{
    struct value_request *r = value_request_of(c);
    if (!is_written(r, r->put.outcome))
        return;
    if (r->put.outcome == VALUE_SAME)
        answer_same(r);
    else
        http_answer(r->x, 201, STR_NONE);
}

void value_put_plain(struct http_exchange *x, void *app)
{
    str etag, hash;
    struct value_request *r = value_request_new(x, app, plain_written);
    if (r == NULL)
        return;
    if (http_cache_control_has(http_common(x)->cache_control, STR("no-store"))) {
        http_answer(x, 202, STR_NONE);
        return;
    }
    if (http_header(x, "x-store-etag", &etag) && etag.n > 0 && headers_value_is_sane(etag))
        r->put.etag = etag;
    r->put.unlike = http_header(x, "if-none-hash-match", &hash);
    put_start(r, HEADERS_VALUE);
}

/* ---- key_rev_value ---- */

static void rev_written(struct store_call *c)
{
    struct value_request *r = value_request_of(c);
    const struct value_target *t = &r->of.target;
    struct arena *a = http_arena(r->x);
    char tid[TID_TEXT_BYTES + 1];
    if (!is_written(r, r->put.outcome))
        return;
    if (r->put.outcome == VALUE_TID_LAST) {
        app_refused(r->x, 409, "conflict",
                    "The newest tid of this revision is the last there can be: name one.");
        return;
    }
    tid_format(t->tid, tid);
    struct answer w = {
        .status = 201,
        .body = arena_printf(a, "{\"message\":\"Created.\",\"rev\":%" PRId64 ",\"tid\":\"%s\"}",
                             t->rev, tid)
    };
    str type = answer_add_type(&w, r->put.headers);
    answer_add_kept(&w, r->put.headers, HEADERS_ALL); /* the peer answers with all it stored */
    answer_add(&w, STR("etag"),
               page_etag(a, (struct page_name){ .rev = (uint64_t)t->rev, .tid = t->tid }));
    answer_add(&w, STR("cache-control"), str_of(r->access->cache_control));
    answer_add_security(&w, a, type, STR_NONE);
    answer_send(r->x, &w);
}

void value_put_rev(struct http_exchange *x, void *app)
{
    struct value_request *r = value_request_new(x, app, rev_written);
    if (r != NULL && r->of.target.has_rev)
        put_start(r, HEADERS_ALL);
    else if (r != NULL)
        app_refused(x, 400, "bad_request#invalid_revision", "A PUT names its revision.");
}

/* ---- both ---- */

static void delete_done(struct store_call *c)
{
    struct value_request *r = value_request_of(c);
    if (is_written(r, r->del.outcome))
        http_answer(r->x, 204, STR_NONE);
}

void value_remove(struct http_exchange *x, void *app)
{
    struct value_request *r = value_request_new(x, app, delete_done);
    if (r == NULL || !app_may_wait(x))
        return;
    r->del.condition = condition_of(x);
    app_call_go(x, value_delete(&r->app->values, &r->del), &r->of.call);
}
