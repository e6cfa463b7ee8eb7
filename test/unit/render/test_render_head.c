/* Goal: what is put into heads is found again, and nothing else changes; broken and hostile HTML
 * does no harm. */
#include "../cmocka_all.h"

#include "render/title_rules.h"

#include <string.h>

static struct arena arena;
static struct tid tid;

static int setup(void **state)
{
    (void)state;
    arena_init(&arena, 4 << 20);
    return tid_parse(STR("8f2d1a00-c6a1-11f0-8001-010203040506"), &tid) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

#define META "<meta property=\"mw:TimeUuid\" content=\"8f2d1a00-c6a1-11f0-8001-010203040506\"/>"

static void check_put(const char *html, const char *expected)
{
    str out;
    assert_true(render_head_put(&arena, str_of(html), tid, &out));
    assert_int_equal(out.n, strlen(expected));
    assert_memory_equal(out.p, expected, out.n);
    struct tid found;
    bool changed = strstr(expected, "TimeUuid") != NULL;
    assert_int_equal(render_head_tid(out, &found), changed);
    if (changed)
        assert_int_equal(tid_cmp(found, tid), 0);
}

static void put_goes_behind_the_head_tag(void **state)
{
    (void)state;
    check_put("<!DOCTYPE html>\n<html about=\"x\"><head prefix=\"mwr: https://a/>b\">"
              "<title>a</title></head><body>b</body></html>",
              "<!DOCTYPE html>\n<html about=\"x\"><head prefix=\"mwr: https://a/>b\">" META
              "<title>a</title></head><body>b</body></html>");
    check_put("<HTML><HEAD></HEAD>", "<HTML><HEAD>" META "</HEAD>");
    check_put("<html><!-- <head> --><head>", "<html><!-- <head> --><head>" META);
}

static void put_takes_an_older_one_out(void **state)
{
    (void)state;
    check_put("<html><head><meta content='00000000-c6a1-11f0-8001-010203040506' property='a "
              "mw:TimeUuid'><title>"
              "<meta property=\"mw:TimeUuid\"></title></head><body><meta property=\"mw:TimeUuid\" "
              "content=\"x\"/>",
              "<html><head>" META "<title><meta property=\"mw:TimeUuid\"></title></head><body>"
              "<meta property=\"mw:TimeUuid\" content=\"x\"/>");
}

static void what_has_no_head_stays(void **state)
{
    (void)state;
    static const char *const pages[] = { "",
                                         "<",
                                         "<html>",
                                         "<p>head</p>",
                                         "<body><head></head>",
                                         "<head",
                                         "<headless>",
                                         "<!-- <head>",
                                         "<a b='<head>'>",
                                         "</head>",
                                         "<script><head></script>" };
    for (size_t i = 0; i < COUNT_OF(pages); i++)
        check_put(pages[i], pages[i]);
}

static void revision_is_found_in_about(void **state)
{
    (void)state;
    assert_int_equal(
        render_head_rev(
            STR("<!DOCTYPE html><html prefix=\"dc: x\" about=\"http://h/w/index.php/Special:"
                "Redirect/revision/3450\"><head>")),
        3450);
    assert_int_equal(render_head_rev(STR("<html about='//h/revision/7'>")), 7);
    assert_int_equal(render_head_rev(STR("<html about='//h/revision/7x'>")), 0);
    assert_int_equal(render_head_rev(STR("<html about='//h/revision/99999999999999999999'>")), 0);
    assert_int_equal(render_head_rev(STR("<html about='//h/revision/-7'>")), 0);
    assert_int_equal(render_head_rev(STR("<html><head about='/revision/7'>")), 0);
    assert_int_equal(render_head_rev(STR("<p about='/revision/7'>")), 0);
}

static void check_redirect(const char *html, const char *target, const char *fragment)
{
    str t, f;
    bool found = render_head_redirect(&arena, str_of(html), &t, &f);
    assert_int_equal(found, target != NULL);
    if (!found)
        return;
    assert_true(str_eq(t, str_of(target)));
    assert_true(str_eq(f, str_of(fragment)));
}

static void redirect_target_is_decoded(void **state)
{
    (void)state;
    check_redirect("<html><head></head><body><section>"
                   "<link rel=\"mw:PageProp/redirect\" href=\"./Target%3F_a#b_c\" id=\"x\"/>",
                   "Target?_a", "b_c");
    check_redirect("<link rel=\"mw:PageProp/redirect\" href=\"./B#a b%20c\xc3\xa9\r\n\"/>", "B",
                   "a%20b%20c%C3%A9%0D%0A");
    check_redirect("<link rel=\"mw:PageProp/redirect x\" href=\"../../A%26B&amp;C\"/>", "A&B&C",
                   "");
    check_redirect("<link href='./T?action=edit&amp;redlink=1' rel='mw:PageProp/redirect'/>", "T",
                   "");
    check_redirect("<link rel=\"mw:PageProp/Category\" href=\"./A\"/>", NULL, NULL);
    check_redirect("<link rel=\"mw:PageProp/redirect\" href=\"https://elsewhere/A\"/>", NULL, NULL);
    check_redirect("<link rel=\"mw:PageProp/redirect\" href=\"//elsewhere/A\"/>", NULL, NULL);
    check_redirect("<link rel=\"mw:PageProp/redirect\" href=\"./%zz\"/>", NULL, NULL);
    check_redirect("<link rel=\"mw:PageProp/redirect\" href=\"./\"/>", NULL, NULL);
    check_redirect("<link rel=\"mw:PageProp/redirect\"/>", NULL, NULL);
    check_redirect("<!-- <link rel=\"mw:PageProp/redirect\" href=\"./A\"/> -->", NULL, NULL);
}

static void nothing_far_behind_is_looked_at(void **state)
{
    (void)state;
    size_t n = 4u << 20;
    char *html = test_malloc(n);
    memset(html, '<', n);
    struct tid found;
    str out, fragment, s = { .p = html, .n = n };
    assert_false(render_head_tid(s, &found));
    assert_int_equal(render_head_rev(s), 0);
    assert_false(render_head_redirect(&arena, s, &out, &fragment));
    assert_true(render_head_put(&arena, s, tid, &out));
    assert_ptr_equal(out.p, html);
    test_free(html);
}

static void a_full_arena_is_told(void **state)
{
    (void)state;
    struct arena tiny;
    arena_init(&tiny, 64);
    str out;
    str html = STR("<head><title>a page of some length, longer than the arena</title>");
    assert_false(render_head_put(&tiny, html, tid, &out));
    arena_fini(&tiny);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put_goes_behind_the_head_tag),
        cmocka_unit_test(put_takes_an_older_one_out),
        cmocka_unit_test(what_has_no_head_stays),
        cmocka_unit_test(revision_is_found_in_about),
        cmocka_unit_test(redirect_target_is_decoded),
        cmocka_unit_test(nothing_far_behind_is_looked_at),
        cmocka_unit_test(a_full_arena_is_told),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
