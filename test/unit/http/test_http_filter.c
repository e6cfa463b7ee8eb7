/* Goal: a listener with a filter shows what it names, and has no path for anything else. Method:
 * the routes of a small server, matched through filters; patterns and labels as a description asks.
 */
#include "http/filter.h"
#include "http/router.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void nothing(struct http_exchange *x, void *app)
{
    (void)x, (void)app;
}

#define BUCKET "/{domain}/v1/{bucket}"
static const struct http_route routes[] = {
    { HTTP_GET, BUCKET "/{content}/{title}[/{rev}]", nothing, .label = "page.get" },
    { HTTP_PUT, BUCKET "/{content}/{title}/{rev}", nothing, .label = "page.put" },
    { HTTP_GET, BUCKET "/history/{title}", nothing, .label = "page.history" },
    { HTTP_GET, BUCKET "/", nothing, .label = "entry.bucket" },
    { HTTP_GET, "/{domain}/v1/", nothing, .label = "entry.api" },
    { HTTP_GET, "/{domain}/", nothing, .label = "entry.domain" },
    { HTTP_GET, "/{domain}/v1/kv/{bucket}/", nothing, .label = "kv.keys" },
    { HTTP_GET, "/{domain}/v1/kv/{bucket}/{key}", nothing, .label = "kv.get" },
    { HTTP_POST, "/v1/queue.produce", nothing, .label = "queue.produce" },
    { HTTP_POST, "/v1/queues.list", nothing, .label = "queues.list" },
    { HTTP_GET, "/healthz", nothing, .label = "health" },
    { HTTP_GET, "/metrics", nothing, .label = "metrics" },
    { HTTP_GET, "/bare", nothing, .label = NULL },
    { HTTP_POST, "/v1/admin.check", nothing, .label = "admin.check", .admin = true },
    { HTTP_PURGE, "/{+rest}", nothing, .label = "change.purge" },
    { .pattern = NULL },
};

/* "page.get": the label that a method and a path find there; else what the router says. */
static const char *seen(const struct http_filter *v, enum http_method method, const char *path)
{
    static const char *const words[] = { [ROUTER_NO_PATH] = "none",
                                         [ROUTER_NO_METHOD] = "method",
                                         [ROUTER_BROKEN] = "broken",
                                         [ROUTER_NO_MEMORY] = "memory" };
    const struct http_listen plain = { .content = true, .admin = true },
                             part = { .content = true, .admin = true, .filter = v, .number = 3 };
    const struct http_route *const tables[] = { routes };
    struct router *r;
    struct router_match m;
    struct arena a;
    arena_init(&a, 1 << 16);
    assert_int_equal(router_new(tables, 1, &r, NULL), ERR_OK);
    router_hide(r, &part);
    (void)router_match(r, str_of(path), method, &plain, &a, &m);
    enum router_result why = router_match(r, str_of(path), method, &part, &a, &m);
    const char *label = why == ROUTER_FOUND ? m.row->route->label : words[why];
    if (why == ROUTER_NO_METHOD)
        assert_int_not_equal(m.allowed, 0);
    router_free(&r);
    arena_fini(&a);
    return label;
}

static void shows(const struct http_filter *v, const char *path, const char *label)
{
    assert_string_equal(seen(v, HTTP_GET, path), label);
}

static const str health_and_reads[] = { { "health", 6 }, { "page.get", 8 } };
static const str domains[] = { { "de", 2 }, { "en", 2 }, { "en.wiki", 7 } };
static const struct http_filter_path html[] = { { { { "page", 4 }, { "html", 4 } }, 2 } };
static const struct http_filter_path several[] = { { { { "kv", 2 }, { "open", 4 } }, 2 },
                                                   { { { "page", 4 } }, 1 } };

static void routes_are_shown_by_label_or_first_word(void **state)
{
    (void)state;
    static const str words[] = { { "queue", 5 }, { "page.history", 12 }, { "admin", 5 } };
    const struct http_filter v = { .routes = words, .routes_count = COUNT_OF(words) };
    assert_string_equal(seen(&v, HTTP_POST, "/v1/queue.produce"), "queue.produce");
    assert_string_equal(seen(&v, HTTP_POST, "/v1/queues.list"), "none");
    assert_string_equal(seen(&v, HTTP_GET, "/v1/queue.produce"), "method");
    assert_string_equal(seen(&v, HTTP_POST, "/v1/admin.check"), "admin.check");
    shows(&v, "/en/v1/page/history/T", "page.history");
    shows(&v, "/en/v1/page/html/T", "none");
    shows(&v, "/healthz", "none");
    shows(&v, "/metrics", "none");
    shows(&v, "/bare", "none");
}

static void what_is_hidden_falls_through_to_nothing(void **state)
{
    (void)state;
    const struct http_filter v = { .routes = health_and_reads, .routes_count = 2 };
    shows(&v, "/en/v1/page/html/T", "page.get");
    shows(&v, "/en/v1/page/history/T", "none"); /* and no content called history */
    assert_string_equal(seen(&v, HTTP_PUT, "/en/v1/page/html/T/1"), "method");
    assert_string_equal(seen(&v, HTTP_PUT, "/en/v1/page/history/T"), "none");
    assert_string_equal(seen(&v, HTTP_OPTIONS, "/en/v1/page/history/T"), "none");
    assert_string_equal(seen(&v, HTTP_PURGE, "/en/v1/page/history/T"), "none");
    assert_string_equal(seen(&v, HTTP_HEAD, "/en/v1/page/html/T"), "page.get");
    shows(&v, "/en/v1/page/%zz/T", "broken");
}

static void domains_and_paths_are_compared_decoded_and_whole(void **state)
{
    (void)state;
    const struct http_filter v = {
        .domains = domains, .domains_count = 3, .paths = html, .paths_count = 1
    };
    shows(&v, "/en/v1/page/html/T", "page.get");
    shows(&v, "/%65n/v1/pag%65/%68tml/T/1", "page.get");
    shows(&v, "/de/v1/page/html/T", "page.get");
    static const char *const hidden[] = {
        "/fr/v1/page/html/T",
        "/e/v1/page/html/T",
        "/en./v1/page/html/T",
        "/En/v1/page/html/T",
        "/en.wik/v1/page/html/T",
        "/en/v1/page/htm/T",
        "/en/v1/page/html2/T",
        "/en/v1/pages/html/T",
        "/en/v1/page%2Fhtml/x/T",
        "/en/v1/page/history/T",
        "/en/v1/kv/page/",
        "/en/v1/kv/page/html",
        "/en/v1/page/../T",
        "/en%00/v1/page/html/T",
        "/en/v1//html/T",
        "/en/v1/other/",
        "/en/v1/{bucket}/html/T",
        "/{domain}/v1/page/html/T",
        "/fr/",
        "/fr/v1/",
        "/fr/v1/page/",
        "/v1/page/html/T",
        "/en/v1/page/data/T",
        "/en/v2/page/html/T",
    };
    for (size_t i = 0; i < COUNT_OF(hidden); i++)
        shows(&v, hidden[i], "none");
}

static void lists_are_shown_where_they_lead_on(void **state)
{
    (void)state;
    const struct http_filter v = { .paths = several, .paths_count = 2 };
    shows(&v, "/en/", "entry.domain");
    shows(&v, "/en/v1/", "entry.api");
    shows(&v, "/en/v1/page/", "entry.bucket");
    shows(&v, "/en/v1/mobile/", "none");
    shows(&v, "/en/v1/kv/open/", "kv.keys");
    shows(&v, "/en/v1/kv/open/k", "kv.get");
    shows(&v, "/en/v1/kv/shut/", "none");
    shows(&v, "/en/v1/kv/shut/k", "none");
    static const struct http_filter_path key[] = { { { { "kv", 2 }, { "open", 4 }, { "k", 1 } },
                                                     3 } };
    const struct http_filter one = { .paths = key, .paths_count = 1 };
    shows(&one, "/en/v1/kv/open/k", "kv.get");
    shows(&one, "/en/v1/kv/open/", "none"); /* the keys beside it */
}

static void beside_domains_and_paths_health_alone_has_no_domain(void **state)
{
    (void)state;
    const struct http_filter by_domain = { .domains = domains, .domains_count = 3 },
                             by_path = { .paths = html, .paths_count = 1 }, all = { .paths = NULL };
    shows(&by_domain, "/healthz", "health");
    shows(&by_path, "/healthz", "health");
    shows(&by_domain, "/metrics", "none");
    shows(&by_path, "/bare", "none");
    assert_string_equal(seen(&by_domain, HTTP_POST, "/v1/queue.produce"), "none");
    assert_string_equal(seen(&by_path, HTTP_POST, "/v1/admin.check"), "none");
    shows(&all, "/metrics", "metrics");
    assert_string_equal(seen(&all, HTTP_POST, "/v1/queue.produce"), "queue.produce");
    assert_string_equal(seen(&all, HTTP_POST, "/v1/admin.check"), "none");
    assert_string_equal(seen(NULL, HTTP_POST, "/v1/admin.check"), "admin.check");
}

static void patterns_are_shown_when_some_path_of_theirs_is(void **state)
{
    (void)state;
    const struct http_filter v = { .paths = several, .paths_count = 2 },
                             deep = { .paths = html, .paths_count = 1 };
    assert_true(http_filter_pattern(&v, BUCKET "/{content}/{title}"));
    assert_true(http_filter_pattern(&v, "/{domain}/v1/kv/{bucket}/{key}"));
    assert_false(http_filter_pattern(&v, "/{domain}/v1/table/{table}"));
    assert_true(http_filter_pattern(&deep, BUCKET "/{content}/{title}"));
    assert_false(http_filter_pattern(&deep, BUCKET "/history/{title}"));
    assert_false(http_filter_pattern(&deep, "/{domain}/v1/kv/{bucket}/{key}"));
    assert_true(http_filter_pattern(&deep, BUCKET "/"));
    assert_true(http_filter_pattern(&deep, "/{domain}/v1/"));
    assert_true(http_filter_pattern(&deep, "/healthz"));
    assert_true(http_filter_pattern(NULL, "/{domain}/v1/table/{table}"));
}

static void names_lead_to_what_is_shown(void **state)
{
    (void)state;
    const struct http_filter v = {
        .routes = health_and_reads, .routes_count = 2, .paths = html, .paths_count = 1
    };
    const str page[] = { STR("page"), STR("html"), STR("T") }, other[] = { STR("mobile") };
    for (unsigned n = 1; n <= 3; n++)
        assert_true(http_filter_leads(&v, page, n));
    assert_false(http_filter_leads(&v, other, 1));
    assert_true(http_filter_leads(NULL, other, 1));
    assert_true(http_filter_label(&v, STR("page")));
    assert_true(http_filter_label(&v, STR("page.get")));
    assert_false(http_filter_label(&v, STR("page.put")));
    assert_false(http_filter_label(&v, STR("pag")));
    assert_true(http_filter_label(NULL, STR("page.put")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routes_are_shown_by_label_or_first_word),
        cmocka_unit_test(what_is_hidden_falls_through_to_nothing),
        cmocka_unit_test(domains_and_paths_are_compared_decoded_and_whole),
        cmocka_unit_test(lists_are_shown_where_they_lead_on),
        cmocka_unit_test(beside_domains_and_paths_health_alone_has_no_domain),
        cmocka_unit_test(patterns_are_shown_when_some_path_of_theirs_is),
        cmocka_unit_test(names_lead_to_what_is_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
