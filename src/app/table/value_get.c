/* value_get.c - GET of a value: in a coding the client takes, or not modified. */
#include "app/errors.h"
#include "app/table/value_request.h"
#include "http/negotiate.h"
#include "page/etag.h"

/* The body in a coding the client takes; *coded: it stays in gzip. False: answered. */
static bool body_for(struct value_request *r, str *body, bool *coded)
{
    const struct value_row *row = &r->of.row;
    *body = row->body;
    *coded = row->coding.n > 0;
    if (!*coded)
        return true;
    struct http_accept accept = http_accept_encoding(http_common(r->x)->accept_encoding);
    if (accept.weight[CODING_GZIP] > 0 &&
        accept.weight[CODING_GZIP] >= accept.weight[CODING_IDENTITY])
        return true;
    *coded = false;
    err why = value_raw(row, http_arena(r->x), body);
    if (why == ERR_CORRUPT)
        return app_refused(r->x, 406, "not_acceptable",
                           "The value was stored in gzip, which the client does not accept and "
                           "which cannot be undone.");
    if (why != ERR_OK) /* memory */
        app_fail(r->x, why, NULL);
    return why == ERR_OK;
}

static void answer_value(struct value_request *r, str etag)
{
    struct arena *a = http_arena(r->x);
    const struct value_row *row = &r->of.row;
    struct answer w = { .status = 200 };
    bool coded = false;
    if (!body_for(r, &w.body, &coded))
        return;
    if (value_is_named(http_common(r->x)->if_none_match, etag)) {
        w.status = 304;
        w.body.p = NULL; /* its size is the one of the 200 */
    }
    str type = answer_add_type(&w, row->headers);
    answer_add_kept(&w, row->headers,
                    r->of.target.kind == VALUE_PLAIN ? HEADERS_VALUE : HEADERS_ALL);
    /* The gzip of a value is another representation than its bytes: no strong tag is of both (RFC
     * 9110 8.8.3). */
    if (coded && r->app->config->compat_etag != ETAG_STRONG && str_starts(etag, STR("\"")))
        etag = arena_printf(a, "W/%.*s", STR_ARG(etag));
    if (etag.n > 0)
        answer_add(&w, STR("etag"), etag);
    if (row->coding.n > 0)
        answer_add_vary(&w, a, STR("Accept-Encoding"));
    if (coded && w.status == 200)
        answer_add(&w, STR("content-encoding"), row->coding);
    answer_add(&w, STR("cache-control"), str_of(r->access->cache_control));
    answer_add_security(&w, a, type, r->of.target.domain);
    answer_send(r->x, &w);
}

/* key_value: no-cache asks for a new rendering: 404 makes the caller do it, unless what is stored
 * is old enough for it. */
static void answer_plain(struct value_request *r)
{
    const struct http_common *c = http_common(r->x);
    bool anew = http_cache_control_has(c->cache_control, STR("no-cache"));
    if (anew && c->if_unmodified_since.n == 0)
        app_refused(r->x, 404, "not_found", "no-cache: nothing stored will do.");
    else if (anew && !value_is_older(r->of.row.etag, c->if_unmodified_since))
        app_refused(r->x, 412, "precondition_failed",
                    "The stored value is not older than the date given.");
    else
        answer_value(r, r->of.row.etag);
}

static void get_done(struct store_call *c)
{
    struct value_request *r = value_request_of(c);
    const struct value_row *row = &r->of.row;
    bool plain = r->of.target.kind == VALUE_PLAIN;
    if (c->why != ERR_OK)
        value_fail(r, c->why);
    else if (!row->found)
        app_refused(r->x, 404, "not_found",
                    plain ? "Nothing is stored under this key." : "No such value is stored.");
    else if (plain)
        answer_plain(r);
    else
        answer_value(r, page_etag(http_arena(r->x), (struct page_name){ .rev = (uint64_t)row->rev,
                                                                        .tid = row->tid }));
}

void value_get(struct http_exchange *x, void *app)
{
    struct value_request *r = value_request_new(x, app, get_done);
    if (r != NULL)
        app_read_go(x, value_read(&r->app->values, &r->read), &r->of.call);
}
