/* page.c - the routes of pages. */
#include "app/page/page_request.h"

enum {
    BODY_BYTES_CEILING = PAGE_BYTES_MAX, /* the most that page.body_bytes_max may be */
    HOLD_BODY_BYTES_MAX = 4096
};

#define BUCKET "/{domain}/v1/{bucket}"
const struct http_route app_page_routes[] = {
    { HTTP_PUT, BUCKET "/all/{title}/{rev}[/{tid}]", app_page_put_bundle,
      .body_bytes_max = BODY_BYTES_CEILING, .permission = "page.write", .label = "page.put",
      .pool = true },
    { HTTP_DELETE, BUCKET "/all/{title}[/{rev}[/{tid}]]", app_page_order, .kind = ORDER_PURGE,
      .permission = "page.purge", .label = "page.purge" },
    { HTTP_GET, BUCKET "/history/{title}", app_page_get_listing, .gate = app_page_gate,
      .kind = LIST_HISTORY, .permission = "page.read", .label = "page.history", .pool = true },
    { HTTP_GET, BUCKET "/explain/{title}[/{rev}[/{tid}]]", app_page_get_explanation,
      .gate = app_page_gate, .permission = "page.read", .label = "page.explain", .pool = true },
    { HTTP_GET, BUCKET "/title/", app_page_get_listing, .gate = app_page_gate, .kind = LIST_TITLES,
      .permission = "page.read", .label = "page.titles", .pool = true },
    { HTTP_GET, BUCKET "/title/{title}[/{rev}]", app_page_get_wiki, .gate = app_page_gate,
      .kind = WANT_META, .permission = "page.read", .label = "page.title" },
    { HTTP_GET, BUCKET "/wikitext/{title}[/{rev}]", app_page_get_wiki, .gate = app_page_gate,
      .kind = WANT_WIKITEXT, .permission = "page.read", .label = "page.wikitext" },
    { HTTP_GET, BUCKET "/lint/{title}[/{rev}]", app_page_get_wiki, .gate = app_page_gate,
      .kind = WANT_LINT, .permission = "page.read", .label = "page.lint" },
    { HTTP_PUT, BUCKET "/hold/{title}/{rev}[/{tid}]", app_page_order, .kind = ORDER_HOLD,
      .body_bytes_max = HOLD_BODY_BYTES_MAX, .permission = "page.write", .label = "page.hold" },
    { HTTP_DELETE, BUCKET "/hold/{title}/{rev}[/{tid}]", app_page_order, .kind = ORDER_RELEASE,
      .permission = "page.write", .label = "page.release" },
    { HTTP_PUT, BUCKET "/{content}/{title}/{rev}[/{tid}]", app_page_put_content,
      .body_bytes_max = BODY_BYTES_CEILING, .permission = "page.write", .label = "page.put_content",
      .pool = true },
    { HTTP_GET, BUCKET "/{content}/{title}[/{rev}[/{tid}]]", app_page_get_content,
      .gate = app_page_gate, .permission = "page.read", .label = "page.get", .pool = true },
    { HTTP_POST, "/{domain}/v1/transform/{from}/to/{to}[/{title}[/{rev}]]", app_transform_post,
      .gate = app_page_gate, .body_bytes_max = BODY_BYTES_CEILING, .permission = "page.read",
      .label = "transform", .pool = true },
    { .pattern = NULL },
};
