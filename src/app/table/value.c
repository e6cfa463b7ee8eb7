/* Buckets of values over HTTP, with the semantics of RESTBase (docs/api.md, 3; docs/peers.md, 1):
 * key_value here, key_rev_value in value_rev.c, creating and listing in value_bucket.c.
 * multi_content is the handlers of page buckets under the peer's paths. */
#include "app/table/value_request.h"

#include "app/errors.h"
#include "app/page/page_request.h"
#include "base/date.h"
#include "codec/json.h"
#include "http/negotiate.h"
#include "table/table_write.h"

#include <string.h>

enum {
    MULTI_BODY_BYTES_MAX = PAGE_BYTES_MAX /* page.body_bytes_max says less */,
    VALUE_SHOWN_BYTES_MAX = 64
};

/* ---- key_value: GET ---- */

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
    bool older = etag_time(r->row.etag, &stored_ns) &&
                 date_parse_http(c->if_unmodified_since, &since_ns) && stored_ns < since_ns;
    if (!older)
        app_problem(r->x, 412, "precondition_failed", NULL,
                    STR("The stored value is not older than the date given."), STR_NONE);
    return older;
}

static void get_read(struct value_request *r, err why)
{
    if (why != ERR_OK)
        value_fail(r, why);
    else if (!r->row.found)
        app_problem(r->x, 404, "not_found", NULL, STR("Nothing is stored under this key."),
                    STR_NONE);
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

/* The conditions of a PUT, and what is stored as they are judged, when that is what is being
 * written.
 *
 * A value in gzip is undone only to be compared, and not in the update that decides: one whose tail
 * speaks of the same bytes is read and undone on the pool, and the update asked again. It takes
 * that word for the very frame alone. */
struct put_condition {
    struct value_request *r;
    bool by_hash;         /* If-None-Hash-Match is among them */
    str headers, coding;  /* to be written */
    struct frame_sum sum; /* of what is */
    str known;       /* a frame of gzip that was undone; borrowed from the arena, behind mark */
    bool known_same; /* it holds the same bytes */
    bool is_open;    /* another frame may: nothing was written */
    unsigned looks;
    struct arena_mark mark;
    char *kept; /* a copy of the stored headers, then of the stored etag */
    size_t headers_bytes, etag_bytes;
};
enum { SAME_KEPT_BYTES_MAX = 2 * PAGE_HEADERS_BYTES_MAX, LOOKS_MAX = 8 };

static bool same_type(const struct put_condition *s, str stored)
{
    str is = STR_NONE, was = STR_NONE;
    if (!headers_find(s->headers, STR("content-type"), &is))
        return true;                                       /* it says nothing of it */
    (void)headers_find(stored, STR("content-type"), &was); /* none: compared as empty */
    return str_eq(is, was);
}

/* By the bytes that both hold: each may have been sent in a coding of its own. */
static bool same_value(struct put_condition *s, const struct table_row *stored)
{
    str value = table_row_value(stored, STR("value")),
        coding = table_row_value(stored, STR("coding"));
    if (str_eq(value, s->r->body) && str_eq(coding, s->coding))
        return true;
    if (coding.n == 0)
        return str_eq(value, s->r->raw);
    if (!frame_gzip_says(value, s->sum))
        return false;
    s->is_open = s->known.p == NULL || !str_eq(value, s->known);
    return s->known_same;
}

static bool is_other(struct put_condition *s, const struct table_row *stored)
{
    if (stored == NULL)
        return true;
    str headers = table_row_value(stored, STR("headers")),
        etag = table_row_value(stored, STR("etag"));
    bool same = same_type(s, headers) && same_value(s, stored);
    if (s->is_open)
        return false;
    if (!same || headers.n + etag.n > SAME_KEPT_BYTES_MAX)
        return !same;
    if (headers.n > 0)
        memcpy(s->kept, headers.p, headers.n);
    if (etag.n > 0)
        memcpy(s->kept + headers.n, etag.p, etag.n);
    s->headers_bytes = headers.n;
    s->etag_bytes = etag.n;
    return false;
}

/* In the update that decides. */
static bool may_put(void *ctx, const struct table_row *stored)
{
    struct put_condition *s = ctx;
    s->headers_bytes = s->etag_bytes = 0;
    s->is_open = false;
    return value_allows(s->r, stored) && (!s->by_hash || is_other(s, stored));
}

static void look_run(struct loop_job *j)
{
    struct value_request *r = CONTAINER_OF(j, struct value_request, job);
    struct put_condition *s = r->write.allow_ctx;
    if (s->looks == 1)
        s->mark = arena_mark(http_arena(r->x));
    else
        arena_release(http_arena(r->x), s->mark); /* what was known, and what its update took */
    s->known = STR_NONE;
    r->why = value_read_wait(r);
    if (r->why != ERR_OK || !frame_gzip_says(r->row.body, s->sum))
        return; /* it is another by now */
    s->known = r->row.body;
    r->why = frame_gzip_holds(s->known, r->raw, &s->known_same);
}

static void look_done(struct loop_job *j, bool canceled)
{
    struct value_request *r = CONTAINER_OF(j, struct value_request, job);
    if (canceled || r->why != ERR_OK)
        value_fail(r, canceled ? ERR_SHUTDOWN : r->why);
    else
        value_write_again(r);
}

/* Who stores a frame of its own each time is not waited for without end. */
static void put_look(struct value_request *r, struct put_condition *s)
{
    if (s->looks++ == LOOKS_MAX) {
        value_fail(r, ERR_AGAIN);
        return;
    }
    r->job = (struct loop_job){ .run = look_run, .done = look_done };
    loop_job_start(r->app->loop, &r->job);
}

/* With the stored headers. */
static void answer_same(const struct value_request *r, const struct put_condition *s)
{
    struct http_pair line;
    str lines = { .p = s->kept, .n = s->headers_bytes };
    while (headers_next(&lines, &line))
        if (!str_eq_nocase(line.name, STR("content-type")) &&
            headers_may_keep(line.name, HEADERS_VALUE))
            http_reply_header(r->x, line.name, line.value);
    if (s->etag_bytes > 0)
        http_reply_header(r->x, STR("etag"),
                          (str){ .p = s->kept + s->headers_bytes, .n = s->etag_bytes });
    app_problem(r->x, 412, "precondition_failed", NULL, STR("The same value is stored already."),
                STR_NONE);
}

static void put_written(struct value_request *r, err why)
{
    struct put_condition *s = r->write.allow_ctx; /* NULL: there was none */
    if (why != ERR_OK)
        value_fail(r, why);
    else if (r->unmet)
        value_unmet(r);
    else if (s != NULL && s->is_open)
        put_look(r, s);
    else if (!r->change.update.applied)
        answer_same(r, s);
    else
        http_answer(r->x, 201, STR_NONE);
}

static bool put_conditional(struct value_request *r, bool by_hash)
{
    struct put_condition *s = arena_calloc(http_arena(r->x), 1, sizeof *s);
    char *kept = arena_alloc(http_arena(r->x), SAME_KEPT_BYTES_MAX);
    if (s == NULL || kept == NULL) {
        app_fail(r->x, ERR_LIMIT, NULL);
        return false;
    }
    *s = (struct put_condition){
        .r = r, .by_hash = by_hash, .headers = r->row.headers, .coding = r->row.coding, .kept = kept
    };
    if (by_hash)
        s->sum = frame_sum_of(r->raw);
    r->write.condition = IF_ALLOWED;
    r->write.allow = may_put;
    r->write.allow_ctx = s;
    return true;
}

static void put_write(struct value_request *r)
{
    str etag, hash;
    r->row = (struct value_row){ .found = true };
    if (!value_kept(r, HEADERS_VALUE, &r->row.headers, &r->row.coding))
        return;
    if (http_header(r->x, "x-store-etag", &etag) && etag.n > 0 && headers_value_is_sane(etag))
        r->row.etag = etag;
    bool by_hash = http_header(r->x, "if-none-hash-match", &hash);
    bool conditional = by_hash || value_is_conditional(r);
    if (!conditional || put_conditional(r, by_hash))
        value_write(r, &r->row, put_written);
}

static void plain_put(struct http_exchange *x, void *app)
{
    struct value_request *r = value_request_new(x, app, BUCKET_PLAIN);
    if (r == NULL)
        return;
    if (http_cache_control_has(http_common(x)->cache_control, STR("no-store")))
        http_answer(x, 202, STR_NONE);
    else if (value_take_body(r, HEADERS_VALUE))
        value_there(r, put_write);
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

/* ---- multi_content: a bucket of configuration ---- */

/* {"name", "value_type"} of a content that the bucket has. */
static err multi_content_check(const struct page_bucket_opts *o, const json_t *json,
                               struct err_note *note)
{
    static const char *const known[] = { "name", "value_type", NULL };
    str name;
    err e = json_body_only(json, known, note);
    if (e == ERR_OK)
        e = json_body_str(json, "name", &name, note);
    if (e != ERR_OK)
        return ERR_BAD;
    bool found = o->contents == NULL;
    for (unsigned i = 0; !found && i < o->contents_count; i++)
        found = str_eq(name, str_of(o->contents[i]));
    if (!found)
        err_note_set(
            note,
            "%.*s is not among the contents of this bucket, which come from the configuration",
            STR_ARG(str_take(name, VALUE_SHOWN_BYTES_MAX)));
    return found ? ERR_OK : ERR_BAD;
}

static err multi_contents_check(const struct page_bucket_opts *o, const json_t *json,
                                struct err_note *note)
{
    const json_t *main_one, *others;
    err e = json_body_object(json, "main_content_type", &main_one, note);
    if (e == ERR_OK)
        e = multi_content_check(o, main_one, note);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    e = json_body_array(json, "dependent_content_types", &others, note);
    for (size_t i = 0; e == ERR_OK && i < json_array_size(others); i++)
        e = multi_content_check(o, json_array_get(others, i), note);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* RESTBase's options (docs/peers.md, 1), as far as they say what the bucket is: it cannot become
 * another by them. */
static err multi_check(const struct page_bucket_opts *o, const json_t *json, struct err_note *note)
{
    static const char *const known[] = { "main_content_type",
                                         "dependent_content_types",
                                         "table_name_prefix",
                                         "grace_ttl",
                                         "index_ttl",
                                         "delete_probability",
                                         "renew_expiring",
                                         "version",
                                         "compression",
                                         "updates",
                                         NULL };
    int64_t grace_ttl_s;
    if (!json_is_object(json)) {
        err_note_set(note, "the options of a bucket are a JSON object");
        return ERR_BAD;
    }
    err e = json_body_only(json, known, note);
    if (e == ERR_OK)
        e = multi_contents_check(o, json, note);
    if (e != ERR_OK)
        return e;
    e = json_body_i64(json, "grace_ttl", 0, TABLE_TTL_S_MAX, &grace_ttl_s, note);
    if (e == ERR_NOT_FOUND || (e == ERR_OK && grace_ttl_s * NS_PER_S == o->policy.grace_ttl_ns))
        return ERR_OK;
    if (e == ERR_OK)
        err_note_set(note, "grace_ttl of this bucket is %lld s, by the configuration",
                     (long long)(o->policy.grace_ttl_ns / NS_PER_S));
    return ERR_BAD;
}

/* Creating it says whether it is there, and is what is wanted. */
static void multi_create(struct http_exchange *x, void *app)
{
    struct page_target t;
    struct err_note note = { .text = "" };
    json_t *json;
    str body = http_body(x);
    if (!app_page_target_parse(x, app, &t))
        return;
    err why = json_body_parse(body.n == 0 ? STR("{}") : body, &json, &note);
    if (why == ERR_OK) {
        why = multi_check(t.settings->opts, json, &note);
        json_decref(json);
    }
    if (why != ERR_OK)
        app_fail(x, why, &note);
    else
        answer_json(x, 201, STR("{\"type\":\"bucket_created\",\"title\":\"The bucket is there.\"}"),
                    NULL);
}

#define KEY_VALUE "/{domain}/v1/key_value/{bucket}"
#define KEY_REV_VALUE "/{domain}/v1/key_rev_value/{bucket}"
#define MULTI_CONTENT "/{domain}/v1/multi_content/{bucket}"

const struct http_route app_value_routes[] = {
    { HTTP_PUT, KEY_VALUE, plain_create, .body_bytes_max = VALUE_SCHEMA_BODY_BYTES_MAX,
      .permission = "page.write", .label = "key_value.create" },
    { HTTP_DELETE, KEY_VALUE, plain_drop, .permission = "page.purge", .label = "key_value.drop" },
    { HTTP_GET, KEY_VALUE "/", plain_keys, .permission = "page.read", .label = "key_value.keys" },
    { HTTP_GET, KEY_VALUE "/{key}", plain_get, .permission = "page.read",
      .label = "key_value.get" },
    { HTTP_PUT, KEY_VALUE "/{key}", plain_put, .body_bytes_max = VALUE_BODY_BYTES_MAX,
      .permission = "page.write", .label = "key_value.put" },
    { HTTP_POST, KEY_VALUE "/{key}", plain_put, .body_bytes_max = VALUE_BODY_BYTES_MAX,
      .permission = "page.write", .label = "key_value.put" },
    { HTTP_DELETE, KEY_VALUE "/{key}", plain_delete, .permission = "page.purge",
      .label = "key_value.delete" },

    { HTTP_PUT, KEY_REV_VALUE, revs_create, .body_bytes_max = VALUE_SCHEMA_BODY_BYTES_MAX,
      .permission = "page.write", .label = "key_rev_value.create" },
    { HTTP_DELETE, KEY_REV_VALUE, revs_drop, .permission = "page.purge",
      .label = "key_rev_value.drop" },
    { HTTP_GET, KEY_REV_VALUE "/", revs_keys, .permission = "page.read",
      .label = "key_rev_value.keys" },
    { HTTP_GET, KEY_REV_VALUE "/{key}/", value_key_revs, .permission = "page.read",
      .label = "key_rev_value.revs" },
    { HTTP_GET, KEY_REV_VALUE "/{key}[/{rev}[/{tid}]]", value_rev_get, .permission = "page.read",
      .label = "key_rev_value.get" },
    { HTTP_PUT, KEY_REV_VALUE "/{key}[/{rev}[/{tid}]]", value_rev_put,
      .body_bytes_max = VALUE_BODY_BYTES_MAX, .permission = "page.write",
      .label = "key_rev_value.put" },
    { HTTP_POST, KEY_REV_VALUE "/{key}[/{rev}[/{tid}]]", value_rev_put,
      .body_bytes_max = VALUE_BODY_BYTES_MAX, .permission = "page.write",
      .label = "key_rev_value.put" },
    { HTTP_DELETE, KEY_REV_VALUE "/{key}[/{rev}[/{tid}]]", value_rev_delete,
      .permission = "page.purge", .label = "key_rev_value.delete" },

    { HTTP_PUT, MULTI_CONTENT, multi_create, .body_bytes_max = VALUE_SCHEMA_BODY_BYTES_MAX,
      .permission = "page.write", .label = "multi_content.create" },
    { HTTP_PUT, MULTI_CONTENT "/", multi_create, .body_bytes_max = VALUE_SCHEMA_BODY_BYTES_MAX,
      .permission = "page.write", .label = "multi_content.create" },
    { HTTP_PUT, MULTI_CONTENT "/all/{title}/{rev}[/{tid}]", app_page_put_bundle,
      .body_bytes_max = MULTI_BODY_BYTES_MAX, .permission = "page.write",
      .label = "multi_content.put" },
    { HTTP_DELETE, MULTI_CONTENT "/all/{title}[/{rev}[/{tid}]]", app_page_delete_all,
      .permission = "page.purge", .label = "multi_content.purge" },
    { HTTP_GET, MULTI_CONTENT "/history/{title}", app_page_get_history, .permission = "page.read",
      .label = "multi_content.history" },
    { HTTP_GET, MULTI_CONTENT "/title/", app_page_get_titles, .permission = "page.read",
      .label = "multi_content.titles" },
    { HTTP_GET, MULTI_CONTENT "/{content}/{title}[/{rev}[/{tid}]]", app_page_get_content,
      .permission = "page.read", .label = "multi_content.get" },
    { .pattern = NULL },
};
