/* multi.c - creating a bucket of multi_content: it says whether the bucket of the configuration is
 * what is wanted. */
#include "app/errors.h"
#include "app/page/page_request.h"
#include "app/table/value_request.h"
#include "codec/json.h"

enum { VALUE_SHOWN_BYTES_MAX = 64 };

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
void value_multi_create(struct http_exchange *x, void *app)
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
