/* Buckets of values over HTTP, with the semantics of RESTBase (notes of the peer, 1.3 to 1.5): key_value here,
 * key_rev_value in value_rev.c, creating and listing in value_bucket.c. multi_content is the handlers of page buckets
 * under the peer's paths. */
#include "app/value_request.h"

#include "app/errors.h"
#include "app/page_request.h"
#include "base/date.h"
#include "http/negotiate.h"

enum { MULTI_BODY_BYTES_MAX = ENGINE_BLOB_BYTES_MAX }; /* page.body_bytes_max says less */

/* ---- key_value: GET ---- */

/* The time of the tid in an etag "rev/tid[/suffix]". */
static bool etag_time(str etag, int64_t *ns)
{
    struct tid tid;
    if (str_starts(etag, STR("W/")))
        etag = str_skip(etag, 2);
    if (etag.n > 0 && etag.p[0] == '"')
        etag = str_skip(etag, 1);
    etag = str_skip(etag, str_find(etag, '/') + 1);
    if (!tid_parse(str_take(etag, TID_TEXT_BYTES), &tid))
        return false;
    *ns = tid_time(tid).ns;
    return true;
}

/* no-cache asks for a new rendering: 404 makes the caller do it, unless what is stored is old enough for it. */
static bool fresh_enough(struct value_request *r)
{
    const struct http_common *c = http_common(r->x);
    int64_t stored_ns, since_ns;
    if (!http_cache_control_has(c->cache_control, STR("no-cache")))
        return true;
    if (c->if_unmodified_since.n == 0) {
        app_problem(r->x, 404, "not_found", NULL, STR("no-cache: nothing stored will do."), STR_NONE);
        return false;
    }
    bool older = etag_time(r->row.etag, &stored_ns) && date_parse_http(c->if_unmodified_since, &since_ns) &&
                 stored_ns < since_ns;
    if (!older)
        app_problem(r->x, 412, "precondition_failed", NULL, STR("The stored value is not older than the date given."),
                    STR_NONE);
    return older;
}

static void get_read(struct value_request *r, err why)
{
    if (why != ERR_OK)
        value_fail(r, why);
    else if (!r->row.found)
        app_problem(r->x, 404, "not_found", NULL, STR("Nothing is stored under this key."), STR_NONE);
    else if (fresh_enough(r))
        value_answer(r, r->row.etag);
}

static void plain_get(struct http_exchange *x, void *app)
{
    struct value_request *r = value_request_new(x, app, BUCKET_PLAIN);
    if (r != NULL)
        value_read(r, true, get_read);
}

/* ---- key_value: PUT ---- */

static void put_written(struct value_request *r, err why)
{
    if (why == ERR_OK)
        http_answer(r->x, 201, STR_NONE);
    else
        value_fail(r, why);
}

static void put_write(struct value_request *r)
{
    struct value_row row = { .found = true };
    if (!value_kept(r, HEADERS_X_STORE, &row.headers, &row.coding))
        return;
    str etag;
    if (http_header(r->x, "x-store-etag", &etag) && etag.n > 0 && headers_value_is_sane(etag))
        row.etag = etag;
    value_write(r, &row, put_written);
}

/* Is what is stored what is being written? Then the old headers are the answer. */
static bool is_same(const struct value_request *r)
{
    str sent, stored = STR_NONE;
    if (!r->row.found || !str_eq(r->row.body, http_body(r->x)))
        return false;
    (void)headers_find(r->row.headers, STR("content-type"), &stored); /* none: compared as empty */
    return !http_header(r->x, "x-store-content-type", &sent) || str_eq(sent, stored);
}

static void put_read(struct value_request *r, err why)
{
    if (why != ERR_OK) {
        value_fail(r, why);
        return;
    }
    if (!is_same(r)) {
        put_write(r);
        return;
    }
    struct http_pair line;
    str lines = r->row.headers;
    while (headers_next(&lines, &line))
        if (!str_eq_nocase(line.name, STR("content-type")))
            http_reply_header(r->x, line.name, line.value);
    if (r->row.etag.n > 0)
        http_reply_header(r->x, STR("etag"), r->row.etag);
    app_problem(r->x, 412, "precondition_failed", NULL, STR("The same value is stored already."), STR_NONE);
}

static void plain_put(struct http_exchange *x, void *app)
{
    struct value_request *r = value_request_new(x, app, BUCKET_PLAIN);
    str hash;
    if (r == NULL)
        return;
    if (http_cache_control_has(http_common(x)->cache_control, STR("no-store")))
        http_answer(x, 202, STR_NONE);
    else if (http_header(x, "if-none-hash-match", &hash))
        value_read(r, true, put_read);
    else
        put_write(r);
}

static void plain_delete(struct http_exchange *x, void *app)
{
    struct value_request *r = value_request_new(x, app, BUCKET_PLAIN);
    if (r != NULL)
        value_delete(r);
}

/* ---- buckets ---- */

static void plain_create(struct http_exchange *x, void *app)
{
    value_bucket_create(x, app, BUCKET_PLAIN);
}

static void plain_drop(struct http_exchange *x, void *app)
{
    value_bucket_drop(x, app, BUCKET_PLAIN);
}

static void plain_keys(struct http_exchange *x, void *app)
{
    value_bucket_keys(x, app, BUCKET_PLAIN);
}

static void revs_create(struct http_exchange *x, void *app)
{
    value_bucket_create(x, app, BUCKET_REVS);
}

static void revs_drop(struct http_exchange *x, void *app)
{
    value_bucket_drop(x, app, BUCKET_REVS);
}

static void revs_keys(struct http_exchange *x, void *app)
{
    value_bucket_keys(x, app, BUCKET_REVS);
}

/* A multi_content bucket is one of configuration: creating it says whether it is there. */
static void multi_create(struct http_exchange *x, void *app)
{
    const struct app *a = app;
    if (app_domain_of(x, a) == NULL)
        return;
    if (pages_find(a->pages, http_param(x, "bucket")) == NULL)
        app_problem(x, 404, "unknown_bucket", NULL, STR("Buckets of this kind come from the configuration."), STR_NONE);
    else
        answer_json(x, 201, STR("{\"type\":\"bucket_created\",\"title\":\"The bucket is there.\"}"), NULL);
}

#define KEY_VALUE "/{domain}/v1/key_value/{bucket}"
#define KEY_REV_VALUE "/{domain}/v1/key_rev_value/{bucket}"
#define MULTI_CONTENT "/{domain}/v1/multi_content/{bucket}"

const struct http_route app_value_routes[] = {
    { HTTP_PUT, KEY_VALUE, plain_create, .body_bytes_max = VALUE_SCHEMA_BODY_BYTES_MAX, .permission = "page.write",
      .label = "key_value.create" },
    { HTTP_DELETE, KEY_VALUE, plain_drop, .permission = "page.purge", .label = "key_value.drop" },
    { HTTP_GET, KEY_VALUE "/", plain_keys, .permission = "page.read", .label = "key_value.keys" },
    { HTTP_GET, KEY_VALUE "/{key}", plain_get, .permission = "page.read", .label = "key_value.get" },
    { HTTP_PUT, KEY_VALUE "/{key}", plain_put, .body_bytes_max = VALUE_BODY_BYTES_MAX, .permission = "page.write",
      .label = "key_value.put" },
    { HTTP_DELETE, KEY_VALUE "/{key}", plain_delete, .permission = "page.purge", .label = "key_value.delete" },

    { HTTP_PUT, KEY_REV_VALUE, revs_create, .body_bytes_max = VALUE_SCHEMA_BODY_BYTES_MAX, .permission = "page.write",
      .label = "key_rev_value.create" },
    { HTTP_DELETE, KEY_REV_VALUE, revs_drop, .permission = "page.purge", .label = "key_rev_value.drop" },
    { HTTP_GET, KEY_REV_VALUE "/", revs_keys, .permission = "page.read", .label = "key_rev_value.keys" },
    { HTTP_GET, KEY_REV_VALUE "/{key}/", value_key_revs, .permission = "page.read", .label = "key_rev_value.revs" },
    { HTTP_GET, KEY_REV_VALUE "/{key}[/{rev}[/{tid}]]", value_rev_get, .permission = "page.read",
      .label = "key_rev_value.get" },
    { HTTP_PUT, KEY_REV_VALUE "/{key}[/{rev}[/{tid}]]", value_rev_put, .body_bytes_max = VALUE_BODY_BYTES_MAX,
      .permission = "page.write", .label = "key_rev_value.put" },
    { HTTP_DELETE, KEY_REV_VALUE "/{key}[/{rev}[/{tid}]]", value_rev_delete, .permission = "page.purge",
      .label = "key_rev_value.delete" },

    { HTTP_PUT, MULTI_CONTENT, multi_create, .body_bytes_max = VALUE_SCHEMA_BODY_BYTES_MAX, .permission = "page.write",
      .label = "multi_content.create" },
    { HTTP_PUT, MULTI_CONTENT "/", multi_create, .body_bytes_max = VALUE_SCHEMA_BODY_BYTES_MAX,
      .permission = "page.write", .label = "multi_content.create" },
    { HTTP_PUT, MULTI_CONTENT "/all/{title}/{rev}[/{tid}]", app_page_put_bundle, .body_bytes_max = MULTI_BODY_BYTES_MAX,
      .permission = "page.write", .label = "multi_content.put" },
    { HTTP_DELETE, MULTI_CONTENT "/all/{title}[/{rev}[/{tid}]]", app_page_delete_all, .permission = "page.purge",
      .label = "multi_content.purge" },
    { HTTP_GET, MULTI_CONTENT "/history/{title}", app_page_get_history, .permission = "page.read",
      .label = "multi_content.history" },
    { HTTP_GET, MULTI_CONTENT "/title/", app_page_get_titles, .permission = "page.read",
      .label = "multi_content.titles" },
    { HTTP_GET, MULTI_CONTENT "/{content}/{title}[/{rev}[/{tid}]]", app_page_get_content, .permission = "page.read",
      .label = "multi_content.get" },
    { .pattern = NULL },
};
