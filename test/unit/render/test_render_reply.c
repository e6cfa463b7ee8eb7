/* Goal: of what wikis answer only the whole and the asked-for is believed, and hidden things stay
 * hidden. Method: replies as MediaWiki 1.39 gives them, and spoiled ones. */
#include "../cmocka_all.h"
#include "sites.h"

#include "render/api.h"
#include "render/title_rules.h"

#include <jansson.h>
#include <string.h>

static struct arena arena;
static struct siteinfo *german;

static int setup(void **state)
{
    (void)state;
    arena_init(&arena, 4 << 20);
    return siteinfo_json_parse(STR(SITE_JSON("de")), &german, NULL) == ERR_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    siteinfo_unref(&german);
    arena_fini(&arena);
    return 0;
}

#define REPLY(page) "{\"batchcomplete\":true,\"query\":{\"pages\":[" page "]}}"
#define PAGE(title, more, revision)                                                                \
    "{\"pageid\":5,\"ns\":2,\"title\":\"" title                                                    \
    "\",\"contentmodel\":\"wikitext\",\"pagelanguage\":\"de\","                                    \
    "\"touched\":\"2026-01-01T00:00:00Z\",\"lastrevid\":9,\"length\":3" more                       \
    ",\"revisions\":[{" revision "}]}"
#define REVISION(id, more)                                                                         \
    "\"revid\":" id                                                                                \
    ",\"parentid\":7,\"user\":\"Anna\",\"userid\":3,\"timestamp\":\"2026-01-01T00:00:00Z\","       \
    "\"comment\":\"why \\\"so\\\"\",\"sha1\":\"ab\",\"tags\":[\"visualeditor\",\"x\"]" more

static enum render_why parse(const char *json, const char *title, uint64_t rev,
                             struct render_meta *m)
{
    struct err_note note = { .text = "" };
    struct api_asked asked = { .title = str_of(title), .rev = rev };
    *m = (struct render_meta){ 0 };
    enum render_why why = api_parse(&arena, str_of(json), &asked, german, m, &note);
    assert_int_equal(why == RENDER_FINE, note.text[0] == 0);
    return why;
}

static void metadata_is_read(void **state)
{
    (void)state;
    struct render_meta m;
    const char *json = REPLY(PAGE("Benutzerin:An na", ",\"redirect\":true", REVISION("9", "")));
    assert_int_equal(parse(json, "Benutzer:An_na", 0, &m), RENDER_FINE);
    assert_true(str_eq(m.title, STR("Benutzer:An_na")));
    assert_int_equal(m.page_id, 5);
    assert_int_equal(m.rev, 9);
    assert_int_equal(m.parent_rev, 7);
    assert_int_equal(m.namespace_id, 2);
    assert_int_equal(m.user_id, 3);
    assert_true(str_eq(m.user_text, STR("Anna")));
    assert_true(str_eq(m.comment, STR("why \"so\"")));
    assert_true(str_eq(m.timestamp, STR("2026-01-01T00:00:00Z")));
    assert_true(str_eq(m.page_language, STR("de")));
    assert_true(str_eq(m.content_model, STR("wikitext")));
    assert_true(str_eq(m.tags_json, STR("[\"visualeditor\",\"x\"]")));
    assert_true(str_eq(m.restrictions_json, STR("[]")));
    assert_true(m.redirect);
    assert_true(render_is_latest(&m));
    assert_int_equal(m.said_s, 0);
    assert_int_equal(parse(REPLY(PAGE("A", "", REVISION("8", ""))), "", 8, &m), RENDER_FINE);
    assert_true(str_eq(m.title, STR("A")));
    assert_false(render_is_latest(&m));
    assert_int_equal(m.last_rev, 9);
}

#define SAID(query) "{\"curtimestamp\":\"2026-11-26T13:07:37Z\",\"query\":{" query "}}"

/* What a render is made under is known before it is asked for. */
static void metadata_tells_the_wikis_word(void **state)
{
    (void)state;
    struct render_meta m;
    const char *json = SAID("\"pages\":[" PAGE("A", "", REVISION("8", "")) "]");
    assert_int_equal(parse(json, "A", 8, &m), RENDER_FINE);
    assert_int_equal(m.last_rev, 9);
    assert_int_equal(m.touched_s, 1767225600);
    assert_int_equal(m.said_s, 1795698457);
    json = SAID("\"pages\":[" PAGE("A", "", REVISION("9", ",\"texthidden\":true")) "]");
    assert_int_equal(parse(json, "A", 0, &m), RENDER_SUPPRESSED);
    assert_int_equal(m.said_s, 1795698457);
    json = SAID("\"pages\":[{\"ns\":0,\"title\":\"A\",\"missing\":true}]");
    assert_int_equal(parse(json, "A", 0, &m), RENDER_NO_PAGE);
    assert_int_equal(m.said_s, 1795698457); /* that nothing is there is a word, too */
    assert_int_equal(m.rev + m.last_rev, 0);
    assert_int_equal(parse(json, "A", 9, &m), RENDER_NO_REVISION);
    assert_int_equal(m.said_s, 0);
    json = SAID("\"pages\":[" PAGE("B", "", REVISION("9", "")) "]");
    assert_int_equal(parse(json, "A", 0, &m), RENDER_OTHER_TITLE);
    assert_int_equal(m.said_s, 0);
}

static void what_is_hidden_is_not_told(void **state)
{
    (void)state;
    struct render_meta m;
    const char *user =
        REPLY(PAGE("A", "", REVISION("9", ",\"userhidden\":true,\"commenthidden\":true")));
    assert_int_equal(parse(user, "A", 9, &m), RENDER_FINE);
    assert_int_equal(m.user_text.n + m.comment.n + m.user_id, 0);
    assert_true(str_eq(m.restrictions_json, STR("[\"userhidden\",\"commenthidden\"]")));
    assert_int_equal(parse(REPLY(PAGE("A", "", REVISION("9", ",\"sha1hidden\":true"))), "A", 9, &m),
                     RENDER_SUPPRESSED);
    assert_int_equal(m.rev, 9);
    assert_int_equal(parse(REPLY(PAGE("A", "", REVISION("9", ",\"texthidden\":true"))), "A", 0, &m),
                     RENDER_SUPPRESSED);
    assert_int_equal(parse(REPLY(PAGE("A", "", REVISION("9", ",\"texthidden\":false"))), "A", 0,
                           &m),
                     RENDER_FINE);
}

struct case_ {
    const char *json, *title;
    uint64_t rev;
    enum render_why why;
};
static const struct case_ cases[] = {
    { REPLY("{\"ns\":0,\"title\":\"A\",\"missing\":true}"), "A", 0, RENDER_NO_PAGE },
    { REPLY("{\"ns\":0,\"title\":\"A\",\"missing\":true}"), "A", 9, RENDER_NO_REVISION },
    { REPLY("{\"title\":\"A\",\"invalidreason\":\"x\",\"invalid\":true}"), "A", 0, RENDER_NO_PAGE },
    { REPLY("{\"ns\":-1,\"title\":\"Special:A\",\"special\":true}"), "Spezial:A", 0,
      RENDER_NO_PAGE },
    { REPLY(PAGE("B", "", REVISION("9", ""))), "A", 9, RENDER_NO_REVISION },
    { REPLY(PAGE("B", "", REVISION("9", ""))), "A", 0, RENDER_OTHER_TITLE },
    { REPLY("{\"ns\":0,\"title\":\"B\",\"missing\":true}"), "A", 0, RENDER_OTHER_TITLE },
    { REPLY("{\"ns\":0,\"title\":\"B\",\"missing\":true}"), "A", 9, RENDER_NO_REVISION },
    { REPLY(PAGE("B[", "", REVISION("9", ""))), "A", 0, RENDER_FAILED },
    { REPLY(PAGE("A", "", REVISION("8", ""))), "A", 9, RENDER_FAILED },
    { REPLY(PAGE("A", "", REVISION("0", ""))), "A", 0, RENDER_FAILED },
    { REPLY(PAGE("A", "", REVISION("-9", ""))), "A", 0, RENDER_FAILED },
    { REPLY(PAGE("A", "", "\"revid\":\"9\"")), "A", 0, RENDER_FAILED },
    { REPLY("{\"title\":\"A\",\"revisions\":[]}"), "A", 0, RENDER_FAILED },
    { REPLY("{\"title\":\"A\",\"revisions\":[9]}"), "A", 0, RENDER_FAILED },
    { REPLY("{\"title\":\"A\"}"), "A", 9, RENDER_FAILED },
    { REPLY("{\"revisions\":[{" REVISION("9", "") "}]}"), "", 9, RENDER_FAILED },
    { REPLY("null"), "A", 0, RENDER_FAILED },
    { REPLY(PAGE("A", "", REVISION("9", "")) "," PAGE("A", "", REVISION("9", ""))), "A", 9,
      RENDER_FAILED },
    { REPLY(""), "A", 0, RENDER_FAILED },
    { REPLY("7"), "A", 0, RENDER_FAILED },
    { "{\"query\":{\"pages\":{\"5\":{\"missing\":true}}}}", "A", 0, RENDER_FAILED },
    { "{\"query\":{}}", "A", 0, RENDER_FAILED },
    { "{\"query\":{\"interwiki\":[{\"title\":\"x:A\"}]}}", "x:A", 0, RENDER_NO_PAGE },
    { "{\"query\":{\"badrevids\":{\"9\":{\"revid\":9,\"missing\":true}}}}", "A", 9,
      RENDER_NO_REVISION },
    { "{\"error\":{\"code\":\"maxlag\",\"info\":\"x\"}}", "A", 9, RENDER_BUSY },
    { "{\"error\":{\"code\":\"readonly\"}}", "A", 9, RENDER_BUSY },
    { "{\"error\":{\"code\":\"internal_api_error_DBQueryError\"}}", "A", 9, RENDER_FAILED },
    { "{\"error\":{\"code\":\"readapidenied\"}}", "A", 9, RENDER_DENIED },
    { "{\"error\":{\"code\":\"unknown_action\"}}", "A", 9, RENDER_REFUSED },
    { "{\"batchcomplete\":true}", "A", 9, RENDER_FAILED },
    { "[]", "A", 9, RENDER_FAILED },
    { "<html>", "A", 9, RENDER_FAILED },
    { "", "A", 9, RENDER_FAILED },
};

static void each_answer_has_its_meaning(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct render_meta m;
        enum render_why why = parse(cases[i].json, cases[i].title, cases[i].rev, &m);
        if (why != cases[i].why)
            fail_msg("%s of %s: %s", cases[i].json, cases[i].title, render_why_name(why));
    }
}

static void queries_ask_for_one_title(void **state)
{
    (void)state;
    str q = api_query(&arena, &(struct api_asked){ .title = STR("A/B|C&D=\xc3\xa9") });
    assert_true(str_ends(q, STR("&curtimestamp=1&titles=%1FA%2FB%7CC%26D%3D%C3%A9")));
    q = api_query(&arena, &(struct api_asked){ .title = STR("A"), .rev = INT64_MAX });
    assert_true(str_ends(q, STR("&curtimestamp=1&revids=9223372036854775807")));
}

/* ---- bundles ---- */

#define HTML(type, body)                                                                           \
    "\"html\":{\"headers\":{\"Content-Type\":" type ",\"content-language\":\"de\"},\"body\":" body \
    "}"
#define DATA(type, body)                                                                           \
    "\"data-parsoid\":{\"headers\":{\"content-type\":" type "},\"body\":" body "}"
#define HTML_TYPE "\"text/html;charset=UTF-8; profile=\\\"https://x/Specs/HTML/2.6.0\\\"\""
#define JSON_TYPE "\"application/json\""
#define DOCUMENT "\"<head>\""
#define IDS "{\"ids\":{}}"

static void a_bundle_is_taken_apart(void **state)
{
    (void)state;
    struct render_content c[4];
    unsigned count = 0;
    const char *json =
        "{\"contentmodel\":\"wikitext\"," HTML(HTML_TYPE, "\"<head><p>\\u00e9</p>\"") "," DATA(
            JSON_TYPE, "{\"ids\":{\"mwAA\":{\"dsr\":[0,3,null,1]}},\"counter\":1}") "}";
    assert_int_equal(pagebundle_parse(str_of(json), &arena, c, COUNT_OF(c), &count, NULL), ERR_OK);
    assert_int_equal(count, 2);
    assert_true(str_eq(c[0].name, STR("html")));
    assert_true(str_eq(c[0].raw, STR("<head><p>\xc3\xa9</p>")));
    assert_true(str_eq(c[0].headers,
                       STR("content-type: text/html; charset=utf-8; "
                           "profile=\"https://x/Specs/HTML/2.6.0\"\ncontent-language: de\n")));
    assert_true(str_eq(c[1].name, STR("data-parsoid")));
    assert_true(str_eq(c[1].raw, STR("{\"ids\":{\"mwAA\":{\"dsr\":[0,3,null,1]}},\"counter\":1}")));
    assert_true(str_eq(c[1].headers, STR("content-type: application/json\n")));
}

static const char *const no_bundles[] = {
    "",
    "x",
    "[]",
    "{}",
    "{" HTML(HTML_TYPE, DOCUMENT) "}",
    "{" DATA(JSON_TYPE, IDS) "}",
    "{" HTML("\"text/plain\"", DOCUMENT) "," DATA(JSON_TYPE, IDS) "}",
    "{" HTML("\"text/htmlx\"", DOCUMENT) "," DATA(JSON_TYPE, IDS) "}",
    "{" HTML("7", DOCUMENT) "," DATA(JSON_TYPE, IDS) "}",
    "{" HTML("\"text/html; x=\\u0007\"", DOCUMENT) "," DATA(JSON_TYPE, IDS) "}",
    "{" HTML("\"text/html\\r\\nx: y\"", DOCUMENT) "," DATA(JSON_TYPE, IDS) "}",
    "{" HTML(HTML_TYPE, "{}") "," DATA(JSON_TYPE, IDS) "}",
    "{" HTML(HTML_TYPE, DOCUMENT) "," DATA(JSON_TYPE, "\"{}\"") "}",
    "{" HTML(HTML_TYPE, DOCUMENT) "," DATA("\"text/plain\"", IDS) "}",
    "{" HTML(HTML_TYPE, DOCUMENT) ",\"data-parsoid\":7}",
    "{" HTML(HTML_TYPE, "\"\\ud800\"") "," DATA(JSON_TYPE, IDS) "}",
    "{" HTML(HTML_TYPE, "\"\"") "," DATA(JSON_TYPE, IDS) "}",
    "{" HTML(HTML_TYPE, "\"<p>no head\"") "," DATA(JSON_TYPE, IDS) "}",
    "{" HTML("\"text/html; charset=utf-16\"", DOCUMENT) "," DATA(JSON_TYPE, IDS) "}",
    "{" HTML("\"text/html; charset=\\\"latin1\\\"\"", DOCUMENT) "," DATA(JSON_TYPE, IDS) "}",
    "{" HTML(HTML_TYPE, DOCUMENT) "," DATA(JSON_TYPE, "{}") "}",
    "{" HTML(HTML_TYPE, DOCUMENT) "," DATA(JSON_TYPE, "{\"ids\":7}") "}",
    "{" HTML(HTML_TYPE, DOCUMENT) "," DATA(JSON_TYPE, "[]") "}",
    "{" HTML(HTML_TYPE, "\"<p>\"") "," DATA(JSON_TYPE, "[1]") "}",
    "{" HTML(HTML_TYPE, "\"<p>\"") "," DATA(JSON_TYPE, "{\"ids\":7}") "}",
    "{" HTML(HTML_TYPE, "\"<p>\"") ",\"data-parsoid\":{}}",
    "{\"html\":{\"body\":" DOCUMENT "}," DATA(JSON_TYPE, IDS) "}",
};

static void what_is_no_bundle_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(no_bundles); i++) {
        struct render_content c[4];
        struct err_note note = { .text = "" };
        unsigned count = 77;
        err e = pagebundle_parse(str_of(no_bundles[i]), &arena, c, COUNT_OF(c), &count, &note);
        if (e != ERR_BAD)
            fail_msg("%s is taken", no_bundles[i]);
        assert_int_equal(count, 77);
        assert_true(note.text[0] != 0);
    }
    struct arena tiny;
    struct render_content c[4];
    unsigned count;
    arena_init(&tiny, 32);
    assert_int_equal(
        pagebundle_parse(STR("{" HTML(HTML_TYPE, DOCUMENT) "," DATA(JSON_TYPE, IDS) "}"), &tiny, c,
                         COUNT_OF(c), &count, NULL),
        ERR_LIMIT);
    arena_fini(&tiny);
}

/* As MediaWiki 1.43 gives a module. */
static void what_is_no_wikitext_is_for_readers(void **state)
{
    (void)state;
    static const char *const bundles[] = {
        "{\"contentmodel\":\"\"," HTML(HTML_TYPE, "\"<pre>x\"") "," DATA(JSON_TYPE, "[]") "}",
        "{" HTML(HTML_TYPE, "\"<pre>x\"") "," DATA(JSON_TYPE, "{}") ",\"data-mw\":{\"body\":{}}}",
    };
    for (size_t i = 0; i < COUNT_OF(bundles); i++) {
        struct render_content c[4];
        unsigned count = 0;
        assert_int_equal(pagebundle_parse(str_of(bundles[i]), &arena, c, COUNT_OF(c), &count, NULL),
                         ERR_OK);
        assert_int_equal(count, 1);
        assert_true(str_eq(c[0].name, STR("html")));
        assert_true(str_eq(c[0].raw, STR("<pre>x")));
    }
}

static void html_alone_may_be_a_fragment(void **state)
{
    (void)state;
    struct render_content html;
    struct err_note note = { .text = "" };
    assert_int_equal(pagebundle_html(STR("{" HTML(HTML_TYPE, "\"<p id=mwAQ>\"") "}"), &arena, &html,
                                     &note),
                     ERR_OK);
    assert_true(str_eq(html.raw, STR("<p id=mwAQ>")));
    assert_true(str_ends(html.headers, STR("content-language: de\n")));
    assert_int_equal(pagebundle_html(STR("{" HTML(HTML_TYPE, "\"\"") "}"), &arena, &html, &note),
                     ERR_OK);
    assert_int_equal(html.raw.n, 0);
    static const char *const wrong[] = { "", "{}", "{\"html\":7}", "{" HTML(HTML_TYPE, "7") "}",
                                         "{" HTML("\"text/plain\"", DOCUMENT) "}" };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        note.text[0] = 0;
        assert_int_equal(pagebundle_html(str_of(wrong[i]), &arena, &html, &note), ERR_BAD);
        assert_true(note.text[0] != 0);
    }
}

static void an_error_has_no_query_and_lets_nobody_read(void **state)
{
    (void)state;
    static const char *const replies[] = { "{\"error\":{\"code\":\"readapidenied\"}}", "{}", "[" };
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        json_t *root, *before = json_object();
        const json_t *query = before;
        bool may = true;
        assert_int_not_equal(api_read(str_of(replies[i]), &root, &query, NULL), RENDER_FINE);
        assert_null(query);
        json_decref(root);
        json_decref(before);
        assert_int_not_equal(api_parse_leave(str_of(replies[i]), true, &may, NULL), RENDER_FINE);
        assert_false(may);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metadata_is_read),
        cmocka_unit_test(metadata_tells_the_wikis_word),
        cmocka_unit_test(what_is_hidden_is_not_told),
        cmocka_unit_test(each_answer_has_its_meaning),
        cmocka_unit_test(queries_ask_for_one_title),
        cmocka_unit_test(an_error_has_no_query_and_lets_nobody_read),
        cmocka_unit_test(a_bundle_is_taken_apart),
        cmocka_unit_test(what_is_no_bundle_is_refused),
        cmocka_unit_test(what_is_no_wikitext_is_for_readers),
        cmocka_unit_test(html_alone_may_be_a_fragment),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
