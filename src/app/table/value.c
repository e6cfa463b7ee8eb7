/* Buckets of values over HTTP, with the semantics of RESTBase (docs/api.md, 3; docs/peers.md, 1):
 * the routes of key_value, key_rev_value, and of multi_content, which is the handlers of page
 * buckets under the peer's paths. */
#include "app/page/page_request.h"
#include "app/table/value_request.h"

enum { MULTI_BODY_BYTES_MAX = PAGE_BYTES_MAX /* page.body_bytes_max says less */ };

static void plain_delete(struct http_exchange *x, void *app)
{
    value_delete_start(x, app, VALUE_PLAIN);
}

static void revs_delete(struct http_exchange *x, void *app)
{
    value_delete_start(x, app, VALUE_REVS);
}

static void plain_create(struct http_exchange *x, void *app)
{
    value_bucket_create(x, app, VALUE_PLAIN);
}

static void plain_drop(struct http_exchange *x, void *app)
{
    value_bucket_drop(x, app, VALUE_PLAIN);
}

static void plain_keys(struct http_exchange *x, void *app)
{
    value_bucket_keys(x, app, VALUE_PLAIN);
}

static void revs_create(struct http_exchange *x, void *app)
{
    value_bucket_create(x, app, VALUE_REVS);
}

static void revs_drop(struct http_exchange *x, void *app)
{
    value_bucket_drop(x, app, VALUE_REVS);
}

static void revs_keys(struct http_exchange *x, void *app)
{
    value_bucket_keys(x, app, VALUE_REVS);
}

#define KEY_VALUE "/{domain}/v1/key_value/{bucket}"
#define KEY_REV_VALUE "/{domain}/v1/key_rev_value/{bucket}"
#define MULTI_CONTENT "/{domain}/v1/multi_content/{bucket}"

const struct http_route app_value_routes[] = {
    { HTTP_PUT, KEY_VALUE, plain_create, .body_bytes_max = VALUE_SCHEMA_BODY_BYTES_MAX,
      .permission = "page.write", .label = "key_value.create" },
    { HTTP_DELETE, KEY_VALUE, plain_drop, .permission = "page.purge", .label = "key_value.drop" },
    { HTTP_GET, KEY_VALUE "/", plain_keys, .permission = "page.read", .label = "key_value.keys" },
    { HTTP_GET, KEY_VALUE "/{key}", value_plain_get, .permission = "page.read",
      .label = "key_value.get" },
    { HTTP_PUT, KEY_VALUE "/{key}", value_plain_put, .body_bytes_max = VALUE_BODY_BYTES_MAX,
      .permission = "page.write", .label = "key_value.put" },
    { HTTP_POST, KEY_VALUE "/{key}", value_plain_put, .body_bytes_max = VALUE_BODY_BYTES_MAX,
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
    { HTTP_DELETE, KEY_REV_VALUE "/{key}[/{rev}[/{tid}]]", revs_delete, .permission = "page.purge",
      .label = "key_rev_value.delete" },

    { HTTP_PUT, MULTI_CONTENT, value_multi_create, .body_bytes_max = VALUE_SCHEMA_BODY_BYTES_MAX,
      .permission = "page.write", .label = "multi_content.create" },
    { HTTP_PUT, MULTI_CONTENT "/", value_multi_create,
      .body_bytes_max = VALUE_SCHEMA_BODY_BYTES_MAX, .permission = "page.write",
      .label = "multi_content.create" },
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
