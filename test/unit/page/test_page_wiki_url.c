/* Goal: URLs as wikis purge and tell them name their titles, and all others none. Method: rows of
 * URLs and what they name. */
#include "page/wiki_url.h"

#include "../cmocka_all.h"

static const struct wiki_place place = { .hosts = STR_INIT("wiki.test, Other.test:8080,[::1]"),
                                         .article_path = STR_INIT("/wiki/$1") };

static void hosts_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *authority;
        bool has;
    } rows[] = {
        { "wiki.test", true },        { "WIKI.TEST:81", true },   { "wiki.test.", false },
        { "xwiki.test", false },      { "wiki.tes", false },      { "other.test:8080", true },
        { "other.test", false },      { "other.test:80", false }, { "[::1]", true },
        { "[::1]:80", true },         { "::1", false },           { "", false },
        { "wiki.test,other", false }, { ":80", false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (wiki_place_has(&place, str_of(rows[i].authority)) != rows[i].has)
            fail_msg("%s", rows[i].authority);
    const struct wiki_place none = { .hosts = STR(""), .article_path = STR("/$1") };
    assert_false(wiki_place_has(&none, STR("")));
    assert_false(wiki_place_has(&none, STR("wiki.test")));
}

static void url_is(const struct wiki_place *p, const char *url, const char *title)
{
    struct arena a;
    struct wiki_url u;
    str got;
    arena_init(&a, 1 << 16);
    if (!wiki_url_parse(str_of(url), &u))
        fail_msg("%s", url);
    assert_int_equal(wiki_url_title(&a, p, u.path, u.query, &got), ERR_OK);
    if (!str_eq(got, str_of(title)))
        fail_msg("%s: \"%.*s\"", url, STR_ARG(got));
    arena_fini(&a);
}

static void titles_are_found(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        { "http://wiki.test/wiki/A", "A" },
        { "https://wiki.test/wiki/Talk:A_b/c", "Talk:A_b/c" },
        { "//wiki.test/wiki/A%2Fb%3F%C3%BC+c", "A/b?\xc3\xbc+c" },
        { "http://wiki.test:80/wiki/A?action=history#x", "A" },
        { "http://wiki.test/w/index.php?title=A+b%2Fc&action=history", "A b/c" },
        { "http://wiki.test/w/index.php?action=history&title=A&title=B", "A" },
        { "http://wiki.test/wiki/", "" },
        { "http://wiki.test/wiki", "" },
        { "http://wiki.test/", "" },
        { "http://wiki.test", "" },
        { "http://wiki.test?x", "" },
        { "http://wiki.test/wiki/%zz", "" },
        { "http://wiki.test/images/thumb/a/ab/X.png/120px-X.png", "" },
        { "http://wiki.test/w/load.php?modules=site&only=styles", "" },
        { "http://wiki.test/w/index.php?title=", "" },
        { "http://wiki.test/w/index.php?titles=A", "" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        url_is(&place, rows[i][0], rows[i][1]);
    const struct wiki_place root = { .article_path = STR("/$1") },
                            script = { .article_path = STR("/index.php?title=$1") },
                            tail = { .article_path = STR("/de/$1.html") };
    url_is(&root, "http://x/A/b", "A/b");
    url_is(&root, "http://x/index.php?title=A", "A");
    url_is(&script, "http://x/index.php?title=A", "A");
    url_is(&tail, "http://x/de/A.html", "A");
    url_is(&tail, "http://x/de/.html", "");
    url_is(&tail, "http://x/de/A", "");
}

static void what_is_no_url_is_refused(void **state)
{
    (void)state;
    static const char *const rows[] = { "",
                                        "/wiki/A",
                                        "http:",
                                        "http://",
                                        "http:///wiki/A",
                                        "ftp://wiki.test/wiki/A",
                                        "wiki.test//A" };
    struct wiki_url u;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (wiki_url_parse(str_of(rows[i]), &u))
            fail_msg("%s", rows[i]);
    assert_true(wiki_article_path_is(STR("/wiki/$1")));
    assert_true(wiki_article_path_is(STR("/$1")));
    assert_false(wiki_article_path_is(STR("/wiki/")));
    assert_false(wiki_article_path_is(STR("wiki/$1")));
    assert_false(wiki_article_path_is(STR("/$1/$1")));
    assert_false(wiki_article_path_is(STR("")));
}

static void own_urls_name_domain_and_title(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        { "/en.test/v1/page/html/A%2Fb", "en.test", "A/b" },
        { "/en.test/v1/page/html/A/7/x", "en.test", "A" },
        { "/en.test/v1/page/html/", "", "" },
        { "/en.test/v1/page/html", "", "" },
        { "/en.test/v1/other/html/A", "", "" },
        { "/en.test/v2/page/html/A", "", "" },
        { "//v1/page/html/A", "", "" },
        { "/", "", "" },
    };
    struct arena a;
    arena_init(&a, 1 << 16);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        str domain, title;
        assert_int_equal(wiki_url_own(&a, str_of(rows[i][0]), &domain, &title), ERR_OK);
        if (!str_eq(domain, str_of(rows[i][1])) || !str_eq(title, str_of(rows[i][2])))
            fail_msg("%s", rows[i][0]);
    }
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_are_told_apart),
        cmocka_unit_test(titles_are_found),
        cmocka_unit_test(what_is_no_url_is_refused),
        cmocka_unit_test(own_urls_name_domain_and_title),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
