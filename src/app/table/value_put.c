/* value_put.c - PUT and DELETE of a value: what is sent as what is stored, and what became of it.
 */
#include "app/table/value_request.h"

#include "app/errors.h"
#include "loop/entropy.h"
#include "page/etag.h"

#include <inttypes.h>

enum { VALUE_HEADERS_MAX = 128 };

static bool put_refuse(struct http_exchange *x, const char *type, const char *detail)
{
    app_problem(x, 400, type, NULL, str_of(detail), STR_NONE);
    return false;
}

static struct value_condition condition_of(const struct http_exchange *x)
{
    const struct http_common *c = http_common(x);
    return (struct value_condition){ .if_match = c->if_match, .if_none_match = c->if_none_match };
}

/* A member of gzip is stored as it came, once all of it was looked at: those who take it get it
 * without any work. */
static bool body_take(struct value_request *r, enum headers_rule rule)
{
    str sent = STR_NONE, named = STR_NONE;
    struct coded_body body;
    (void)http_header(r->x, "content-encoding", &sent); /* absent is fine */
    if (rule == HEADERS_VALUE)
        (void)http_header(r->x, "x-store-content-encoding", &named); /* absent is fine */
    if (sent.n > 0 && named.n > 0 && !coded_same(sent, named))
        return put_refuse(
            r->x, "bad_request#invalid_coding",
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
    if (why == ERR_OK)
        return true;
    if (note.text[0] != 0)
        return put_refuse(r->x, "bad_request#invalid_headers", note.text);
    app_fail(r->x, why, NULL);
    return false;
}

/* HTTP worker: it may take milliseconds. */
static void put_start(struct value_request *r, enum headers_rule rule)
{
    if (!body_take(r, rule) || !headers_take(r, rule) || !value_may_wait(r))
        return;
    r->put.condition = condition_of(r->x);
    r->put.random = entropy_u64();
    value_go_on(r, value_put(&r->app->values, &r->put));
}

static void answer_unmet(struct value_request *r)
{
    app_problem(r->x, 412, "precondition_failed", NULL,
                STR("A condition of the request does not hold."), STR_NONE);
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
    if (r->put.same_etag.n > 0)
        http_reply_header(r->x, STR("etag"), r->put.same_etag);
    app_problem(r->x, 412, "precondition_failed", NULL, STR("The same value is stored already."),
                STR_NONE);
}

static void plain_written(struct store_call *c)
{
    struct value_request *r = value_request_of(c);
    if (c->why != ERR_OK)
        value_fail(r, c->why);
    else if (r->put.outcome == VALUE_UNMET)
        answer_unmet(r);
    else if (r->put.outcome == VALUE_SAME)
        answer_same(r);
    else
        http_answer(r->x, 201, STR_NONE);
}

void value_plain_put(struct http_exchange *x, void *app)
{
    str etag, hash;
    struct value_request *r = value_request_new(x, app, VALUE_PLAIN, plain_written);
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

static void rev_answer(struct value_request *r)
{
    const struct value_target *t = &r->of.target;
    char tid[TID_TEXT_BYTES + 1], tag[PAGE_TAG_BYTES + 1];
    struct answer w = { .status = 201 };
    struct arena *a = http_arena(r->x);
    str type;
    tid_format(t->tid, tid);
    w.body = arena_printf(a, "{\"message\":\"Created.\",\"rev\":%" PRId64 ",\"tid\":\"%s\"}",
                          t->rev, tid);
    if (!headers_find(r->put.headers, STR("content-type"), &type)) {
        type = STR("application/octet-stream");
        answer_add(&w, STR("content-type"), type);
    }
    answer_add_kept(&w, r->put.headers, HEADERS_ALL); /* the peer answers with all it stored */
    (void)page_tag((struct page_name){ .rev = (uint64_t)t->rev, .tid = t->tid }, tag);
    answer_add(&w, STR("etag"), arena_printf(a, "\"%s\"", tag));
    answer_add(&w, STR("cache-control"), str_of(r->access->cache_control));
    answer_add_security(&w, a, type, STR_NONE);
    answer_send(r->x, &w);
}

static void rev_written(struct store_call *c)
{
    struct value_request *r = value_request_of(c);
    if (c->why != ERR_OK)
        value_fail(r, c->why);
    else if (r->put.outcome == VALUE_UNMET)
        answer_unmet(r);
    else if (r->put.outcome == VALUE_TID_LAST)
        app_problem(r->x, 409, "conflict", NULL,
                    STR("The newest tid of this revision is the last there can be: name one."),
                    STR_NONE);
    else
        rev_answer(r);
}

void value_rev_put(struct http_exchange *x, void *app)
{
    struct value_request *r = value_request_new(x, app, VALUE_REVS, rev_written);
    if (r == NULL)
        return;
    if (r->of.target.has_rev)
        put_start(r, HEADERS_ALL);
    else
        (void)put_refuse(x, "bad_request#invalid_revision", "A PUT names its revision.");
}

/* ---- both ---- */

static void delete_done(struct store_call *c)
{
    struct value_request *r = value_request_of(c);
    if (c->why != ERR_OK)
        value_fail(r, c->why);
    else if (r->del.outcome == VALUE_UNMET)
        answer_unmet(r);
    else
        http_answer(r->x, 204, STR_NONE);
}

void value_delete_start(struct http_exchange *x, struct app *app, enum value_kind kind)
{
    struct value_request *r = value_request_new(x, app, kind, delete_done);
    if (r == NULL || !value_may_wait(r))
        return;
    r->del.condition = condition_of(x);
    value_go_on(r, value_delete(&app->values, &r->del));
}
