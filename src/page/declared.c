/* declared.c - checks a declaration of a bucket against the configuration, for clients that
 * create buckets as in RESTBase. */
#include "page/declared.h"

#include "codec/json.h"
#include "store/table_store.h"

/* A name of the client's is cut in the note. */
enum { NAME_SHOWN_BYTES_MAX = 64 };

/* {"name", "value_type"} of a content that the bucket has. */
static err content_check(const struct page_bucket_opts *o, const json_t *content,
                         struct err_note *note)
{
    static const char *const known[] = { "name", "value_type", NULL };
    str name;
    if (json_body_only(content, known, note) != ERR_OK ||
        json_body_str(content, "name", &name, note) != ERR_OK)
        return ERR_BAD;
    if (page_bucket_allows(o, name))
        return ERR_OK;
    return err_bad(note,
                   "%.*s is not among the contents of this bucket, which come from the "
                   "configuration",
                   STR_ARG(str_take(name, NAME_SHOWN_BYTES_MAX)));
}

/* The main content is one object, the others are an array of them. Either may be left out. */
static err contents_check(const struct page_bucket_opts *o, const json_t *json,
                          struct err_note *note)
{
    const json_t *main_one, *others;
    err e = json_body_object(json, "main_content_type", &main_one, note);
    if (e == ERR_OK)
        e = content_check(o, main_one, note);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    e = json_body_array(json, "dependent_content_types", &others, note);
    for (size_t i = 0; e == ERR_OK && i < json_array_size(others); i++)
        e = content_check(o, json_array_get(others, i), note);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* Of the other options no value is looked at: they mean nothing here. */
static err options_check(const struct page_bucket_opts *o, const json_t *json,
                         struct err_note *note)
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
    int64_t grace_ttl_s, own_s = o->policy.grace_ttl_ns / NS_PER_S;
    if (!json_is_object(json))
        return err_bad(note, "the options of a bucket are a JSON object");
    err e = json_body_only(json, known, note);
    if (e == ERR_OK)
        e = contents_check(o, json, note);
    if (e != ERR_OK)
        return e;
    /* The only number that the configuration knows, too: a wrong one would promise another life
     * of old renders. */
    e = json_body_i64(json, "grace_ttl", 0, TABLE_TTL_S_MAX, &grace_ttl_s, note);
    if (e == ERR_OK && grace_ttl_s * NS_PER_S != o->policy.grace_ttl_ns)
        return err_bad(note, "grace_ttl of this bucket is %lld s, by the configuration",
                       (long long)own_s);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

err page_declared_check(const struct page_bucket_opts *o, str json, struct err_note *note)
{
    json_t *body;
    err e = json_body_parse(json.n == 0 ? STR("{}") : json, &body, note);
    if (e != ERR_OK)
        return e;
    e = options_check(o, body, note);
    json_decref(body);
    return e;
}
