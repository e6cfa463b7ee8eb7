/* value.c - buckets of values over HTTP, with the semantics of RESTBase (docs/api.md, 3;
 * docs/peers.md, 1): the routes of key_value, key_rev_value, and of multi_content, which is the
 * handlers of page buckets under the peer's paths. */
#include "app/errors.h"
#include "app/page/page_request.h"
#include "app/table/value_request.h"
#include "page/declared.h"

enum {
    VALUE_SCHEMA_BODY_BYTES_MAX = 16 << 10,
    MULTI_BODY_BYTES_MAX = PAGE_BYTES_MAX /* page.body_bytes_max says less */
};

/* Creating a bucket of multi_content says whether it is there, and is what is wanted. */
static void multi_create(struct http_exchange *x, void *app)
{
    struct page_target t;
    struct err_note note = { .text = "" };
    if (!page_target_parse(x, app, &t))
        return;
    err why = page_declared_check(t.settings->opts, http_body(x), &note);
    if (why != ERR_OK)
        app_fail(x, why, &note);
    else
        answer_json(x, 201, STR("{\"type\":\"bucket_created\",\"title\":\"The bucket is there.\"}"),
                    NULL);
}

#define KEY_VALUE "/{domain}/v1/key_value/{bucket}"
#define KEY_REV_VALUE "/{domain}/v1/key_rev_value/{bucket}"
#define KEY_REV_VALUE_NAMED KEY_REV_VALUE "/{key}[/{rev}[/{tid}]]"
#define MULTI_CONTENT "/{domain}/v1/multi_content/{bucket}"

const struct http_route app_value_routes[] = {
    { HTTP_PUT, KEY_VALUE, value_bucket_create, .kind = VALUE_PLAIN,
      .body_bytes_max = VALUE_SCHEMA_BODY_BYTES_MAX, .permission = "page.write",
      .label = "key_value.create" },
    { HTTP_DELETE, KEY_VALUE, value_bucket_drop, .kind = VALUE_PLAIN, .permission = "page.purge",
      .label = "key_value.drop" },
    { HTTP_GET, KEY_VALUE "/", value_keys, .kind = VALUE_PLAIN, .permission = "page.read",
      .label = "key_value.keys", .pool = true },
    { HTTP_GET, KEY_VALUE "/{key}", value_get, .kind = VALUE_PLAIN, .permission = "page.read",
      .label = "key_value.get", .pool = true },
    { HTTP_PUT, KEY_VALUE "/{key}", value_put_plain, .kind = VALUE_PLAIN,
      .body_bytes_max = VALUE_BODY_BYTES_MAX, .permission = "page.write", .label = "key_value.put",
      .pool = true },
    { HTTP_POST, KEY_VALUE "/{key}", value_put_plain, .kind = VALUE_PLAIN,
      .body_bytes_max = VALUE_BODY_BYTES_MAX, .permission = "page.write", .label = "key_value.put",
      .pool = true },
    { HTTP_DELETE, KEY_VALUE "/{key}", value_remove, .kind = VALUE_PLAIN,
      .permission = "page.purge", .label = "key_value.delete" },

    { HTTP_PUT, KEY_REV_VALUE, value_bucket_create, .kind = VALUE_REVS,
      .body_bytes_max = VALUE_SCHEMA_BODY_BYTES_MAX, .permission = "page.write",
      .label = "key_rev_value.create" },
    { HTTP_DELETE, KEY_REV_VALUE, value_bucket_drop, .kind = VALUE_REVS, .permission = "page.purge",
      .label = "key_rev_value.drop" },
    { HTTP_GET, KEY_REV_VALUE "/", value_keys, .kind = VALUE_REVS, .permission = "page.read",
      .label = "key_rev_value.keys", .pool = true },
    { HTTP_GET, KEY_REV_VALUE "/{key}/", value_keys, .kind = VALUE_REVS, .permission = "page.read",
      .label = "key_rev_value.revs", .pool = true },
    { HTTP_GET, KEY_REV_VALUE_NAMED, value_get, .kind = VALUE_REVS, .permission = "page.read",
      .label = "key_rev_value.get", .pool = true },
    { HTTP_PUT, KEY_REV_VALUE_NAMED, value_put_rev, .kind = VALUE_REVS,
      .body_bytes_max = VALUE_BODY_BYTES_MAX, .permission = "page.write",
      .label = "key_rev_value.put", .pool = true },
    { HTTP_POST, KEY_REV_VALUE_NAMED, value_put_rev, .kind = VALUE_REVS,
      .body_bytes_max = VALUE_BODY_BYTES_MAX, .permission = "page.write",
      .label = "key_rev_value.put", .pool = true },
    { HTTP_DELETE, KEY_REV_VALUE_NAMED, value_remove, .kind = VALUE_REVS,
      .permission = "page.purge", .label = "key_rev_value.delete" },

    { HTTP_PUT, MULTI_CONTENT, multi_create, .body_bytes_max = VALUE_SCHEMA_BODY_BYTES_MAX,
      .permission = "page.write", .label = "multi_content.create" },
    { HTTP_PUT, MULTI_CONTENT "/", multi_create, .body_bytes_max = VALUE_SCHEMA_BODY_BYTES_MAX,
      .permission = "page.write", .label = "multi_content.create" },
    { HTTP_PUT, MULTI_CONTENT "/all/{title}/{rev}[/{tid}]", app_page_put_bundle,
      .body_bytes_max = MULTI_BODY_BYTES_MAX, .permission = "page.write",
      .label = "multi_content.put", .pool = true },
    { HTTP_DELETE, MULTI_CONTENT "/all/{title}[/{rev}[/{tid}]]", app_page_order,
      .kind = ORDER_PURGE, .permission = "page.purge", .label = "multi_content.purge" },
    { HTTP_GET, MULTI_CONTENT "/history/{title}", app_page_get_listing, .kind = LIST_HISTORY,
      .permission = "page.read", .label = "multi_content.history", .pool = true },
    { HTTP_GET, MULTI_CONTENT "/title/", app_page_get_listing, .kind = LIST_TITLES,
      .permission = "page.read", .label = "multi_content.titles", .pool = true },
    { HTTP_GET, MULTI_CONTENT "/{content}/{title}[/{rev}[/{tid}]]", app_page_get_content,
      .permission = "page.read", .label = "multi_content.get", .pool = true },
    { .pattern = NULL },
};
