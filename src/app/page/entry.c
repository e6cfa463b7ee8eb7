/* entry.c - what there is: the names below a domain, below its API and below a bucket, as RESTBase
 * lists them, and the OpenAPI document under a domain's own path. The names say where a client may
 * go on, not what is stored. */
#include "app/answer.h"
#include "app/errors.h"
#include "app/page/page_request.h"

/* Names of options and routes need no escape. */
static void put_item(struct buf *b, const char *name)
{
    buf_printf(b, "%s\"%s\"", b->n > 0 ? "," : "{\"items\":[", name);
}

static void answer_items(struct http_exchange *x, struct buf *items)
{
    buf_put(items, STR("]}"));
    app_page_answer_buf(x, 200, items, STR_NONE);
}

static void get_domain(struct http_exchange *x, void *app)
{
    if (app_domain_of(x, app) != NULL)
        answer_json(x, 200, STR("{\"items\":[\"v1\"]}"), NULL);
}

/* {domain}/v1/: ?spec gives the document. */
static void get_api(struct http_exchange *x, void *app)
{
    static const char *const others[] = { "batch",         "key_rev_value", "key_value", "lists",
                                          "multi_content", "table",         "transform" };
    const struct app *a = app;
    struct buf b;
    str ignored;
    if (app_domain_of(x, a) == NULL)
        return;
    if (http_query(x, "spec", &ignored)) {
        app_answer_spec(x, a);
        return;
    }
    buf_init(&b, LISTING_BYTES_MAX);
    for (unsigned i = 0; i < a->config->buckets_count; i++)
        put_item(&b, a->config->buckets[i].page.name);
    for (size_t i = 0; i < COUNT_OF(others); i++)
        put_item(&b, others[i]);
    answer_items(x, &b);
}

/* The contents that the configuration names, and the routes that every bucket of pages has. */
static void get_bucket(struct http_exchange *x, void *app)
{
    static const char *const routes[] = { "explain", "history", "lint", "title", "wikitext" };
    const struct app *a = app;
    struct page_target t;
    struct buf b;
    if (!app_page_target_parse(x, a, &t))
        return;
    buf_init(&b, LISTING_BYTES_MAX);
    if (t.settings->opts->contents_count == 0 && t.domain->origin != NULL) {
        put_item(&b, "html");
        put_item(&b, "data-parsoid");
    }
    for (unsigned i = 0; i < t.settings->opts->contents_count; i++)
        put_item(&b, t.settings->opts->contents[i]);
    for (size_t i = 0; i < COUNT_OF(routes); i++)
        put_item(&b, routes[i]);
    answer_items(x, &b);
}

const struct http_route app_entry_routes[] = {
    { HTTP_GET, "/{domain}/", get_domain, .permission = "page.read", .label = "entry.domain" },
    { HTTP_GET, "/{domain}/v1/", get_api, .permission = "page.read", .label = "entry.api" },
    { HTTP_GET, "/{domain}/v1/{bucket}/", get_bucket, .permission = "page.read",
      .label = "entry.bucket" },
    { .pattern = NULL },
};
