/* Goal: addresses of pages are those that clients of RESTBase know (docs/peers.md, 1). Method:
 * tables. */
#include "page/location.h"

#include "../cmocka_all.h"

#include <stdio.h>
#include <string.h>

static const struct page_domain domain = { .name = { "en.example.test", 15 } };
static const struct page_bucket_opts opts = { .name = "page" };
static const struct page_settings settings = { .opts = &opts };

static struct page_target target_of(const char *title, bool has_rev, bool has_tid)
{
    return (struct page_target){ .domain = &domain,
                                 .settings = &settings,
                                 .content = STR("html"),
                                 .title = str_of(title),
                                 .has_rev = has_rev,
                                 .has_tid = has_tid,
                                 .name = { .rev = 7, .tid = tid_make(0x1f0e6a4a0b0c000, 1) } };
}

static void assert_text(str got, const char *wanted)
{
    assert_int_equal(got.n, strlen(wanted));
    assert_memory_equal(got.p, wanted, got.n);
}

static void the_base_is_the_public_url_or_our_own(void **state)
{
    (void)state;
    static const struct {
        const char *url, *base, *styles;
    } cases[] = {
        { "", "/en.example.test/v1", NULL },
        { "https://{domain}/api/rest_v1", "https://en.example.test/api/rest_v1",
          "https://en.example.test" },
        { "https://rest.test:8443/{domain}/v1", "https://rest.test:8443/en.example.test/v1",
          "https://rest.test:8443" },
        { "https://rest.test", "https://rest.test", "https://rest.test" },
        { "https://a.{domain}.b/{domain}", "https://a.en.example.test.b/en.example.test",
          "https://a.en.example.test.b" },
    };
    struct arena a;
    arena_init(&a, 1 << 16);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_text(page_location_base(&a, str_of(cases[i].url), domain.name), cases[i].base);
        str styles = page_location_styles(&a, str_of(cases[i].url), domain.name);
        if (cases[i].styles == NULL)
            assert_int_equal(styles.n, 0);
        else
            assert_text(styles, cases[i].styles);
    }
    arena_fini(&a);
    arena_init(&a, 0);
    assert_null(page_location_base(&a, STR("https://{domain}"), domain.name).p);
    arena_fini(&a);
}

static void a_page_has_an_address_with_what_stands_behind(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1 << 16);
    struct page_target t = target_of("A/B c", false, false);
    struct page_location l = { .target = &t, .content = STR("html") };
    assert_text(page_location(&a, &l), "/en.example.test/v1/page/html/A%2FB%20c");
    l.behind = STR("7");
    l.query = STR("x=1");
    l.public_url = STR("https://w/{domain}");
    assert_text(page_location(&a, &l), "https://w/en.example.test/page/html/A%2FB%20c/7?x=1");
    arena_fini(&a);
}

static void redirects_are_relative_to_the_request(void **state)
{
    (void)state;
    static const struct {
        bool has_rev, has_tid;
        const char *key, *query, *location;
    } cases[] = {
        { false, false, "B", "", "B" },
        { true, false, "B", "", "../B" },
        { true, true, "B", "", "../../B" },
        { false, false, "B#top", "a=b", "B?a=b#top" },
        { false, false, "A", "", "A?redirect=false" },
        { false, false, "A#top", "a=b", "A?a=b&redirect=false#top" },
    };
    struct arena a;
    arena_init(&a, 1 << 16);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct page_target t = target_of("A", cases[i].has_rev, cases[i].has_tid);
        assert_text(page_location_redirect(&a, &t, str_of(cases[i].key), str_of(cases[i].query)),
                    cases[i].location);
    }
    arena_fini(&a);
}

static void a_moved_page_keeps_what_it_was_asked_for_by(void **state)
{
    (void)state;
    struct arena a;
    char tid[TID_TEXT_BYTES + 1], exact[128];
    arena_init(&a, 1 << 16);
    struct page_target latest = target_of("B c", false, false), rev = target_of("B c", true, false),
                       named = target_of("B c", true, true);
    tid_format(named.name.tid, tid);
    (void)snprintf(exact, sizeof exact, "../../B%%20c/7/%s?q", tid);
    assert_text(page_location_moved(&a, &latest, STR("")), "B%20c");
    assert_text(page_location_moved(&a, &rev, STR("q=1")), "../B%20c/7?q=1");
    assert_text(page_location_moved(&a, &named, STR("q")), exact);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_base_is_the_public_url_or_our_own),
        cmocka_unit_test(a_page_has_an_address_with_what_stands_behind),
        cmocka_unit_test(redirects_are_relative_to_the_request),
        cmocka_unit_test(a_moved_page_keeps_what_it_was_asked_for_by),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
