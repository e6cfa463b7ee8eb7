#include "app/page/page_request.h"

enum {
    BODY_BYTES_CEILING = PAGE_BYTES_MAX, /* the most that page.body_bytes_max may be */
    HOLD_BODY_BYTES_MAX = 4096
};

const struct http_route app_page_routes[] = {
    { HTTP_PUT, "/{domain}/v1/{bucket}/all/{title}/{rev}[/{tid}]", app_page_put_bundle,
      .body_bytes_max = BODY_BYTES_CEILING, .permission = "page.write", .label = "page.put" },
    { HTTP_DELETE, "/{domain}/v1/{bucket}/all/{title}[/{rev}[/{tid}]]", app_page_delete_all,
      .permission = "page.purge", .label = "page.purge" },
    { HTTP_GET, "/{domain}/v1/{bucket}/history/{title}", app_page_get_history,
      .permission = "page.read", .label = "page.history" },
    { HTTP_GET, "/{domain}/v1/{bucket}/explain/{title}[/{rev}[/{tid}]]", app_page_get_explanation,
      .permission = "page.read", .label = "page.explain" },
    { HTTP_GET, "/{domain}/v1/{bucket}/title/", app_page_get_titles, .permission = "page.read",
      .label = "page.titles" },
    { HTTP_GET, "/{domain}/v1/{bucket}/title/{title}[/{rev}]", app_page_get_title,
      .permission = "page.read", .label = "page.title" },
    { HTTP_GET, "/{domain}/v1/{bucket}/wikitext/{title}[/{rev}]", app_page_get_wikitext,
      .permission = "page.read", .label = "page.wikitext" },
    { HTTP_GET, "/{domain}/v1/{bucket}/lint/{title}[/{rev}]", app_page_get_lint,
      .permission = "page.read", .label = "page.lint" },
    { HTTP_PUT, "/{domain}/v1/{bucket}/hold/{title}/{rev}[/{tid}]", app_page_put_hold,
      .body_bytes_max = HOLD_BODY_BYTES_MAX, .permission = "page.write", .label = "page.hold" },
    { HTTP_DELETE, "/{domain}/v1/{bucket}/hold/{title}/{rev}[/{tid}]", app_page_delete_hold,
      .permission = "page.write", .label = "page.release" },
    { HTTP_PUT, "/{domain}/v1/{bucket}/{content}/{title}/{rev}[/{tid}]", app_page_put_content,
      .body_bytes_max = BODY_BYTES_CEILING, .permission = "page.write",
      .label = "page.put_content" },
    { HTTP_GET, "/{domain}/v1/{bucket}/{content}/{title}[/{rev}[/{tid}]]", app_page_get_content,
      .permission = "page.read", .label = "page.get" },
    { HTTP_POST, "/{domain}/v1/transform/{from}/to/{to}[/{title}[/{rev}]]", app_transform_post,
      .body_bytes_max = BODY_BYTES_CEILING, .permission = "page.read", .label = "transform" },
    { .pattern = NULL },
};
