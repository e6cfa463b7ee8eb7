/* value_get.c - GET of a value: in a coding the client takes, or not modified. */
#include "app/table/value_request.h"

#include "app/errors.h"
#include "base/date.h"
#include "http/negotiate.h"
#include "page/etag.h"

/* Does If-None-Match name this etag? */
static bool value_unchanged(const struct value_request *r, str etag)
{
    str field = http_common(r->x)->if_none_match;
    bool weak;
    str tag = http_etag_bare(etag, &weak);
    return str_eq(str_trim(field), STR("*")) ||
           (field.n > 0 && tag.n > 0 && http_etag_matches(field, tag, true));
}

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
    if (why == ERR_OK)
        return true;
    if (why != ERR_CORRUPT) { /* memory */
        app_fail(r->x, why, NULL);
        return false;
    }
    app_problem(r->x, 406, "not_acceptable", NULL,
                STR("The value was stored in gzip, which the client does not accept and which "
                    "cannot be undone."),
                STR_NONE);
    return false;
}

/* The gzip of a value is another representation than its bytes: no strong tag is of both (RFC 9110
 * 8.8.3). */
static str tag_of_coded(const struct value_request *r, str etag)
{
    if (r->app->config->compat_etag == ETAG_STRONG || !str_starts(etag, STR("\"")))
        return etag;
    return arena_printf(http_arena(r->x), "W/%.*s", STR_ARG(etag));
}

static void value_answer(struct value_request *r, str etag)
{
    struct answer w = { .status = 200 };
    str type;
    bool coded = false;
    if (!body_for(r, &w.body, &coded))
        return;
    if (value_unchanged(r, etag)) {
        w.status = 304;
        w.body.p = NULL; /* its size is the one of the 200 */
    }
    if (!headers_find(r->of.row.headers, STR("content-type"), &type)) {
        type = STR("application/octet-stream");
        answer_add(&w, STR("content-type"), type);
    }
    answer_add_kept(&w, r->of.row.headers,
                    r->of.target.kind == VALUE_PLAIN ? HEADERS_VALUE : HEADERS_ALL);
    if (etag.n > 0)
        answer_add(&w, STR("etag"), coded ? tag_of_coded(r, etag) : etag);
    if (r->of.row.coding.n > 0)
        answer_add_vary(&w, http_arena(r->x), STR("Accept-Encoding"));
    if (coded && w.status == 200)
        answer_add(&w, STR("content-encoding"), r->of.row.coding);
    answer_add(&w, STR("cache-control"), str_of(r->access->cache_control));
    answer_add_security(&w, http_arena(r->x), type, r->of.target.domain);
    answer_send(r->x, &w);
}

/* ---- key_value ---- */

/* The time of the tid in an etag "rev/tid[/suffix]". */
static bool etag_time(str etag, int64_t *ns)
{
    struct tid tid;
    bool weak;
    etag = http_etag_bare(etag, &weak);
    etag = str_skip(etag, str_find(etag, '/') + 1);
    if (!tid_parse(str_take(etag, TID_TEXT_BYTES), &tid))
        return false;
    *ns = tid_time(tid).ns;
    return true;
}

/* no-cache asks for a new rendering: 404 makes the caller do it, unless what is stored is old
 * enough for it. */
static bool fresh_enough(struct value_request *r)
{
    const struct http_common *c = http_common(r->x);
    int64_t stored_ns, since_ns;
    if (!http_cache_control_has(c->cache_control, STR("no-cache")))
        return true;
    if (c->if_unmodified_since.n == 0) {
        app_problem(r->x, 404, "not_found", NULL, STR("no-cache: nothing stored will do."),
                    STR_NONE);
        return false;
    }
    bool older = etag_time(r->of.row.etag, &stored_ns) &&
                 date_parse_http(c->if_unmodified_since, &since_ns) && stored_ns < since_ns;
    if (!older)
        app_problem(r->x, 412, "precondition_failed", NULL,
                    STR("The stored value is not older than the date given."), STR_NONE);
    return older;
}

static void plain_read(struct store_call *c)
{
    struct value_request *r = value_request_of(c);
    if (c->why != ERR_OK)
        value_fail(r, c->why);
    else if (!r->of.row.found)
        app_problem(r->x, 404, "not_found", NULL, STR("Nothing is stored under this key."),
                    STR_NONE);
    else if (fresh_enough(r))
        value_answer(r, r->of.row.etag);
}

static void get_start(struct value_request *r)
{
    if (r != NULL)
        table_read_go(r->x, value_read(&r->app->values, &r->read), &r->of.call);
}

void value_plain_get(struct http_exchange *x, void *app)
{
    get_start(value_request_new(x, app, VALUE_PLAIN, plain_read));
}

/* ---- key_rev_value ---- */

static void rev_read(struct store_call *c)
{
    struct value_request *r = value_request_of(c);
    const struct value_row *row = &r->of.row;
    const struct page_name name = { .rev = (uint64_t)row->rev, .tid = row->tid };
    char tag[PAGE_TAG_BYTES + 1];
    if (c->why != ERR_OK) {
        value_fail(r, c->why);
    } else if (!row->found) {
        app_problem(r->x, 404, "not_found", NULL, STR("No such value is stored."), STR_NONE);
    } else {
        (void)page_tag(name, tag);
        value_answer(r, arena_printf(http_arena(r->x), "\"%s\"", tag));
    }
}

void value_rev_get(struct http_exchange *x, void *app)
{
    get_start(value_request_new(x, app, VALUE_REVS, rev_read));
}
