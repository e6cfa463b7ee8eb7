/* spec: every route is in the document, optional tails as paths of their own. Method: a table of
 * ours, read back. */
#include "app/admin/spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

static const struct http_route routes[] = {
    { .method = HTTP_GET,
      .pattern = "/{domain}/v1/x/{title}[/{rev}[/{tid}]]",
      .label = "page.get",
      .permission = "page.read" },
    { .method = HTTP_PUT,
      .pattern = "/{domain}/v1/x/{title}/{rev}",
      .label = "page.put",
      .body_bytes_max = 5 },
    { .method = HTTP_POST, .pattern = "/v1/y/{+rest}", .label = "unheard of" },
    { .method = HTTP_GET, .pattern = "/{domain}/v1/key_rev_value/{bucket}/{key}/{rev}" },
    { .pattern = NULL },
};

/* What the document says is the least revision; at: of the path's parameters. */
static json_int_t rev_from(const json_t *paths, const char *path, size_t at)
{
    const json_t *get = json_object_get(json_object_get(paths, path), "get");
    const json_t *rev = json_array_get(json_object_get(get, "parameters"), at);
    assert_string_equal(json_string_value(json_object_get(rev, "name")), "rev");
    return json_integer_value(json_object_get(json_object_get(rev, "schema"), "minimum"));
}

static void every_path_and_method_is_described(void **state)
{
    (void)state;
    struct arena a;
    struct buf b;
    arena_init(&a, 1 << 20);
    buf_init(&b, 1 << 20);
    const struct http_route *const tables[] = { routes, NULL };
    assert_int_equal(spec_render(tables, NULL, &a, &b), ERR_OK);
    json_t *doc = json_loadb(b.p, b.n, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(doc);
    json_t *paths = json_object_get(doc, "paths");
    assert_int_equal(json_object_size(paths), 5);
    json_t *both = json_object_get(paths, "/{domain}/v1/x/{title}/{rev}");
    assert_non_null(json_object_get(both, "get"));
    assert_non_null(json_object_get(json_object_get(both, "put"), "requestBody"));
    json_t *exact =
        json_object_get(json_object_get(paths, "/{domain}/v1/x/{title}/{rev}/{tid}"), "get");
    assert_int_equal(json_array_size(json_object_get(exact, "parameters")), 4 + 2);
    assert_non_null(json_object_get(json_object_get(exact, "responses"), "410"));
    assert_non_null(json_object_get(paths, "/v1/y/{rest}"));
    assert_int_equal(rev_from(paths, "/{domain}/v1/x/{title}/{rev}", 2), 1);
    assert_int_equal(rev_from(paths, "/{domain}/v1/key_rev_value/{bucket}/{key}/{rev}", 3), 0);
    assert_string_equal(json_string_value(json_object_get(doc, "openapi")), "3.1.0");
    json_decref(doc);
    buf_fini(&b);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_path_and_method_is_described) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
