/* Goal: each path finds the row a reader of the table would pick, and tables that contradict
 * themselves are refused at start. Method: small tables, matched without a server. */
#include "http/router.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void nothing(struct http_exchange *x, void *app)
{
    (void)x, (void)app;
}

static const struct http_route pages[] = {
    { HTTP_GET, "/{domain}/v1/page/{content}/{title}[/{rev}[/{tid}]]", nothing, .label = "page" },
    { HTTP_PUT, "/{domain}/v1/page/{content}/{title}/{rev}[/{tid}]", nothing, .label = "put" },
    { HTTP_PUT, "/{domain}/v1/page/all/{title}/{rev}[/{tid}]", nothing, .label = "put_all" },
    { HTTP_DELETE, "/{domain}/v1/page/all/{title}[/{rev}[/{tid}]]", nothing, .label = "purge" },
    { HTTP_GET, "/{domain}/v1/page/title/", nothing, .label = "titles" },
    { HTTP_GET, "/{domain}/v1/page/title/{title}[/{rev}]", nothing, .label = "title" },
    { HTTP_GET, "/{domain}/v1/page/history/{title}", nothing, .label = "history" },
    { HTTP_GET, "/{domain}/v1/page/explain/{title}[/{rev}[/{tid}]]", nothing, .label = "explain" },
    { HTTP_POST, "/v1/queue.produce", nothing, .label = "produce" },
    { HTTP_GET, "/", nothing, .label = "root" },
    { HTTP_GET, "/healthz", nothing, .label = "health" },
    { HTTP_GET, "/a/{x}/c", nothing, .label = "axc" },
    { HTTP_GET, "/{y}/b/d", nothing, .label = "ybd" },
    { HTTP_GET, "/files/{+path}", nothing, .label = "files" },
    { HTTP_GET, "/files/exact", nothing, .label = "exact" },
    { HTTP_POST, "/admin/backup", nothing, .admin = true, .label = "backup" },
    { .pattern = NULL },
};

static const struct http_listen content = { .content = true }, admin = { .admin = true },
                                both = { .content = true, .admin = true };

struct fixture {
    struct router *router;
    struct arena arena;
};

static int setup(void **state)
{
    static struct fixture f;
    const struct http_route *tables[] = { pages };
    struct err_note note = { "" };
    if (router_new(tables, 1, &f.router, &note) != ERR_OK)
        fail_msg("%s", note.text);
    arena_init(&f.arena, 1 << 20);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    router_free(&f->router);
    arena_fini(&f->arena);
    return 0;
}

/* "label p1|p2|-" where - is an absent parameter; or why not. */
static const char *found(struct fixture *f, enum http_method method, const char *path,
                         const struct http_listen *from)
{
    static char text[512];
    struct router_match m;
    enum router_result why = router_match(f->router, str_of(path), method, from, &f->arena, &m);
    if (why == ROUTER_NO_METHOD)
        (void)snprintf(text, sizeof text, "no method, allowed %x", m.allowed);
    if (why != ROUTER_FOUND)
        return why == ROUTER_NO_PATH ? "no path" : why == ROUTER_BROKEN ? "broken" : text;
    size_t n = (size_t)snprintf(text, sizeof text, "%s", m.row->route->label);
    for (unsigned i = 0; i < m.row->names_count; i++) {
        str p = m.params[i].p == NULL ? STR("-") : m.params[i];
        n += (size_t)snprintf(text + n, sizeof text - n, "%c%.*s", i == 0 ? ' ' : '|', STR_ARG(p));
    }
    return text;
}

static void paths_find_their_rows(void **state)
{
    static const struct {
        enum http_method method;
        const char *path, *wanted;
    } rows[] = {
        { HTTP_GET, "/en/v1/page/html/Main%20Page", "page en|html|Main Page|-|-" },
        { HTTP_GET, "/en/v1/page/html/A%2FB/7", "page en|html|A/B|7|-" },
        { HTTP_GET, "/en/v1/page/html/A/7/x", "page en|html|A|7|x" },
        { HTTP_HEAD, "/en/v1/page/html/A", "page en|html|A|-|-" },
        { HTTP_PUT, "/en/v1/page/html/A/7", "put en|html|A|7|-" },
        { HTTP_PUT, "/en/v1/page/all/A/7", "put_all en|A|7|-" },
        { HTTP_DELETE, "/en/v1/page/all/A", "purge en|A|-|-" },
        { HTTP_GET, "/en/v1/page/title/", "titles en" },
        { HTTP_GET, "/en/v1/page/title/T", "title en|T|-" },
        { HTTP_GET, "/en/v1/page/%74itle/T", "title en|T|-" },
        { HTTP_GET, "/en/v1/page/history/T", "history en|T" },
        { HTTP_POST, "/v1/queue.produce", "produce" },
        { HTTP_GET, "/", "root" },
        { HTTP_GET, "/a/b/c", "axc b" },
        { HTTP_GET, "/a/b/d", "ybd a" },
        { HTTP_GET, "/files/a/b%2Fc//d", "files a/b%2Fc//d" },
        { HTTP_GET, "/files/", "files " },
        { HTTP_GET, "/files/exact", "exact" },
        { HTTP_GET, "/files/exact/no", "files exact/no" },
        { HTTP_GET, "/en/v1/page/html/%25", "page en|html|%|-|-" },
        { HTTP_GET, "/en/v1/page/html/%2525", "page en|html|%25|-|-" },
        { HTTP_GET, "/en/v1/page/html/..", "page en|html|..|-|-" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_string_equal(found(*state, rows[i].method, rows[i].path, &content), rows[i].wanted);
}

static void paths_that_are_unknown(void **state)
{
    static const char *const paths[] = { "/en/v1/page/html",
                                         "/en/v1/page/html/",
                                         "/en/v1/page/html//7",
                                         "/en/v1/page/html/A/7/x/y",
                                         "//v1/page/html/A",
                                         "/en/v1/page/title",
                                         "/files",
                                         "/healthz/",
                                         "/v1/queue.produc",
                                         "/EN/V1/PAGE/HTML/A" };
    for (size_t i = 0; i < COUNT_OF(paths); i++)
        assert_string_equal(found(*state, HTTP_GET, paths[i], &content), "no path");
}

static void a_literal_hides_what_is_less_exact_whatever_its_methods(void **state)
{
    char wanted[64];
    (void)snprintf(wanted, sizeof wanted, "no method, allowed %x",
                   BIT(HTTP_PUT) | BIT(HTTP_DELETE));
    assert_string_equal(found(*state, HTTP_GET, "/en/v1/page/all/T/7", &content), wanted);
    (void)snprintf(wanted, sizeof wanted, "no method, allowed %x", BIT(HTTP_GET) | BIT(HTTP_PUT));
    assert_string_equal(found(*state, HTTP_OTHER, "/en/v1/page/html/T/7", &content), wanted);
    assert_string_equal(found(*state, HTTP_OPTIONS, "/en/v1/page/html/T/7", &content), wanted);
}

static void purges_are_all_that_their_listener_sees(void **state)
{
    (void)state;
    static const struct http_listen purges = { .purge = true };
    static const struct http_route purge[] = {
        { HTTP_PURGE, "/{+rest}", nothing, .label = "purge" },
        { .pattern = NULL },
    };
    const struct http_route *tables[] = { pages, purge };
    struct fixture f = { .router = NULL };
    char wanted[64];
    arena_init(&f.arena, 1 << 16);
    assert_int_equal(router_new(tables, 2, &f.router, NULL), ERR_OK);
    assert_string_equal(found(&f, HTTP_PURGE, "/en/v1/page/html/T", &purges),
                        "purge en/v1/page/html/T");
    assert_string_equal(found(&f, HTTP_PURGE, "/", &purges), "purge ");
    assert_string_equal(found(&f, HTTP_PURGE, "/healthz", &purges), "purge healthz");
    (void)snprintf(wanted, sizeof wanted, "no method, allowed %x", BIT(HTTP_PURGE));
    assert_string_equal(found(&f, HTTP_GET, "/en/v1/page/html/T", &purges), wanted);
    assert_string_equal(found(&f, HTTP_PURGE, "/nothing/of/ours", &both), "no path");
    assert_string_equal(found(&f, HTTP_GET, "/en/v1/page/html/T", &both), "page en|html|T|-|-");
    router_free(&f.router);
    arena_fini(&f.arena);
}

static void listeners_see_their_own_routes(void **state)
{
    assert_string_equal(found(*state, HTTP_POST, "/admin/backup", &content), "no path");
    assert_string_equal(found(*state, HTTP_POST, "/admin/backup", &admin), "backup");
    assert_string_equal(found(*state, HTTP_POST, "/admin/backup", &both), "backup");
    assert_string_equal(found(*state, HTTP_GET, "/en/v1/page/html/T", &admin), "no path");
    assert_string_equal(found(*state, HTTP_GET, "/healthz", &admin), "health");
    assert_string_equal(found(*state, HTTP_GET, "/healthz", &content), "health");
}

static void broken_escapes_are_told_apart(void **state)
{
    assert_string_equal(found(*state, HTTP_GET, "/en/v1/page/html/100%", &content), "broken");
    assert_string_equal(found(*state, HTTP_GET, "/en/v1/page/html/%zz", &content), "broken");
    assert_string_equal(found(*state, HTTP_GET, "/files/a/b/%4", &content), "broken");
    assert_string_equal(found(*state, HTTP_GET, "/%/unknown", &content), "broken");
}

static void a_nul_stays_a_byte(void **state)
{
    struct fixture *f = *state;
    struct router_match m;
    assert_int_equal(router_match(f->router, STR("/en/v1/page/html/a%00b"), HTTP_GET, &content,
                                  &f->arena, &m),
                     ROUTER_FOUND);
    assert_int_equal(m.params[2].n, 3);
    assert_memory_equal(m.params[2].p, "a\0b", 3);
}

static void depth_has_a_limit_that_only_rest_passes(void **state)
{
    struct fixture *f = *state;
    char path[4096] = "/files";
    size_t n = strlen(path);
    for (int i = 0; i < 1000; i++, n += 2)
        memcpy(path + n, "/x", 3);
    struct router_match m;
    assert_int_equal(router_match(f->router, str_of(path), HTTP_GET, &content, &f->arena, &m),
                     ROUTER_FOUND);
    assert_int_equal(m.params[0].n, n - strlen("/files/"));
    path[1] = 'g';
    assert_int_equal(router_match(f->router, str_of(path), HTTP_GET, &content, &f->arena, &m),
                     ROUTER_NO_PATH);
    memcpy(path + n, "/%", 3);
    assert_int_equal(router_match(f->router, str_of(path), HTTP_GET, &content, &f->arena, &m),
                     ROUTER_BROKEN);
}

static void tables_that_contradict_themselves_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *one, *two;
    } bad[] = {
        { "/a/{x}", "/a/{y}" },
        { "/a[/{x}]", "/a" },
        { "/a/{x}[/{y}]", "/a/{x}/{y}" },
        { "a", NULL },
        { "", NULL },
        { "/a/{x", NULL },
        { "/a/x}", NULL },
        { "/a/{}", NULL },
        { "/a/{x}/{x}", NULL },
        { "/a[/b", NULL },
        { "/a/b]", NULL },
        { "/a[/b]/c", NULL },
        { "/{+rest}/b", NULL },
        { "/a/{x}y", NULL },
        { "/a/{X y}", NULL },
        { "/a[b]", NULL },
        { "/a%2f", NULL },
        { "/[/a]]", NULL },
        { "/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}", NULL },
        { "/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5", NULL },
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct http_route table[] = { { HTTP_GET, bad[i].one, nothing, .label = "one" },
                                      { HTTP_GET, bad[i].two, nothing, .label = "two" },
                                      { .pattern = NULL } };
        const struct http_route *tables[] = { table };
        struct router *r = NULL;
        struct err_note note = { "" };
        if (router_new(tables, 1, &r, &note) != ERR_BAD || strstr(note.text, "route") == NULL)
            fail_msg("\"%s\" and \"%s\" were accepted", bad[i].one,
                     bad[i].two == NULL ? "" : bad[i].two);
        assert_null(r);
    }
}

static void same_path_with_other_methods_is_fine(void **state)
{
    (void)state;
    const struct http_route one[] = { { HTTP_GET, "/a/{x}", nothing, .label = "get" },
                                      { .pattern = NULL } };
    const struct http_route two[] = { { HTTP_PUT, "/a/{y}", nothing, .label = "put" },
                                      { .pattern = NULL } };
    const struct http_route *tables[] = { one, two };
    struct fixture f = { .router = NULL };
    arena_init(&f.arena, 1 << 16);
    assert_int_equal(router_new(tables, 2, &f.router, NULL), ERR_OK);
    assert_string_equal(found(&f, HTTP_PUT, "/a/1", &content), "put 1");
    assert_string_equal(found(&f, HTTP_GET, "/a/1", &content), "get 1");
    router_free(&f.router);
    arena_fini(&f.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(paths_find_their_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(paths_that_are_unknown, setup, teardown),
        cmocka_unit_test_setup_teardown(a_literal_hides_what_is_less_exact_whatever_its_methods,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(listeners_see_their_own_routes, setup, teardown),
        cmocka_unit_test(purges_are_all_that_their_listener_sees),
        cmocka_unit_test_setup_teardown(broken_escapes_are_told_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(a_nul_stays_a_byte, setup, teardown),
        cmocka_unit_test_setup_teardown(depth_has_a_limit_that_only_rest_passes, setup, teardown),
        cmocka_unit_test(tables_that_contradict_themselves_are_refused),
        cmocka_unit_test(same_path_with_other_methods_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
