/* entry.c - what there is: the names below a domain, below its API and below a bucket, as RESTBase
 * lists them, and the OpenAPI document under a domain's own path. The names say where a client may
 * go on, not what is stored. */
#include "app/answer.h"
#include "app/errors.h"
#include "app/page/page_request.h"
#include "codec/json_text.h"
#include "http/filter.h"

static void get_domain(struct http_exchange *x, void *app)
{
    if (app_domain_of(x, app) != NULL)
        answer_json(x, 200, STR("{\"items\":[\"v1\"]}"), NULL);
}

/* A name, and the routes below it. bucket: NULL: it is a bucket itself. */
static void add_name(struct json_list *out, const struct http_exchange *x, const char *bucket,
                     const char *name, const char *label)
{
    const struct http_filter *v = http_filter_of(x);
    str parts[2] = { str_of(bucket == NULL ? name : bucket), str_of(name) };
    if (http_filter_leads(v, parts, bucket == NULL ? 1 : 2) && http_filter_label(v, str_of(label)))
        json_text_append(json_list_item(out), str_of(name));
}

/* {domain}/v1/: ?spec gives the document. */
static void get_api(struct http_exchange *x, void *app)
{
    static const char *const others[][2] = {
        { "batch", "table.batch" },           { "key_rev_value", "key_rev_value" },
        { "key_value", "key_value" },         { "lists", "list" },
        { "multi_content", "multi_content" }, { "table", "table" },
        { "transform", "transform" },
    };
    const struct app *a = app;
    struct json_list out;
    str ignored;
    if (app_domain_of(x, a) == NULL)
        return;
    if (http_query(x, "spec", &ignored)) {
        app_answer_spec(x, a);
        return;
    }
    json_list_init(&out, PAGE_JSON_BYTES_MAX);
    for (unsigned i = 0; i < a->config->buckets_count; i++)
        add_name(&out, x, NULL, a->config->buckets[i].page.name, "page");
    for (size_t i = 0; i < COUNT_OF(others); i++)
        add_name(&out, x, NULL, others[i][0], others[i][1]);
    page_answer_json(x, json_list_end(&out, http_arena(x), STR_NONE, JSON_LIST_PLAIN), STR_NONE);
}

/* The contents that the configuration names, and the routes that every bucket of pages has. */
static void get_bucket(struct http_exchange *x, void *app)
{
    static const char *const wiki[] = { "html", "data-parsoid" }, *const routes[][2] = {
        { "explain", "page.explain" }, { "history", "page.history" },   { "lint", "page.lint" },
        { "title", "page.title" },     { "wikitext", "page.wikitext" },
    };
    struct page_target t;
    struct json_list out;
    if (!page_target_parse(x, app, &t))
        return;
    const struct page_bucket_opts *o = t.settings->opts;
    const char *bucket = o->name;
    json_list_init(&out, PAGE_JSON_BYTES_MAX);
    for (size_t i = 0; i < COUNT_OF(wiki) && o->contents_count == 0 && t.domain->origin != NULL;
         i++)
        add_name(&out, x, bucket, wiki[i], "page.get");
    for (unsigned i = 0; i < o->contents_count; i++)
        add_name(&out, x, bucket, o->contents[i], "page.get");
    for (size_t i = 0; i < COUNT_OF(routes); i++)
        add_name(&out, x, bucket, routes[i][0], routes[i][1]);
    page_answer_json(x, json_list_end(&out, http_arena(x), STR_NONE, JSON_LIST_PLAIN), STR_NONE);
}

const struct http_route app_entry_routes[] = {
    { HTTP_GET, "/{domain}/", get_domain, .permission = "page.read", .label = "entry.domain" },
    { HTTP_GET, "/{domain}/v1/", get_api, .permission = "page.read", .label = "entry.api" },
    { HTTP_GET, "/{domain}/v1/{bucket}/", get_bucket, .permission = "page.read",
      .label = "entry.bucket" },
    { .pattern = NULL },
};
