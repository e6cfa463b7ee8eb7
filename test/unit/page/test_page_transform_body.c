/* transform_body: the same fields from three kinds of body, and what the origin is sent. Method:
 * literal bodies; what is written is read back by another JSON reader. */
#include "lib/memory.h"
#include "page/transform_body.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define FORM "application/x-www-form-urlencoded"

static struct transform_fields fields;
static struct err_note note;

static err parse(const char *type, const char *body)
{
    note.text[0] = '\0';
    return transform_body_parse(&memory, str_of(type), str_of(body), &fields, &note);
}

static void assert_text(str got, const char *want)
{
    assert_non_null(got.p);
    assert_true(str_eq(got, str_of(want)));
}

static void json_and_forms_say_the_same(void **state)
{
    (void)state;
    static const struct {
        const char *type, *body;
    } same[] = {
        { "application/json; charset=utf-8",
          "{\"html\":\"<p>\\u00e9\",\"stash\":true,\"body_only\":false,\"x\":[1]}" },
        { "", "{\"html\":{\"headers\":{},\"body\":\"<p>\\u00e9\"},\"stash\":true}" },
        { FORM, "html=%3Cp%3E%C3%A9&stash=1&body_only=0&x=1" },
        { FORM, "html=%3Cp%3E%C3%A9&stash=yes&body_only=no" },
        { FORM, "html=%3Cp%3E%C3%A9&stash=True&body_only=FALSE" },
        { "multipart/form-data; boundary=b",
          "--b\r\nContent-Disposition: form-data; name=html\r\n\r\n<p>\xc3\xa9\r\n--b\r\n"
          "Content-Disposition: form-data; name=stash\r\n\r\ntrue\r\n--b--" },
    };
    for (size_t i = 0; i < COUNT_OF(same); i++) {
        assert_int_equal(parse(same[i].type, same[i].body), ERR_OK);
        assert_text(fields.html, "<p>\xc3\xa9");
        assert_null(fields.wikitext.p);
        assert_true(fields.stash);
        assert_false(fields.body_only);
    }
    assert_int_equal(parse(FORM, "wikitext="), ERR_OK);
    assert_text(fields.wikitext, "");
}

#define FOUR(x) "\"" x "1\":1,\"" x "2\":1,\"" x "3\":1,\"" x "4\":1,"
#define MANY FOUR("a") FOUR("b") FOUR("c") FOUR("d") FOUR("e") FOUR("f") FOUR("g") FOUR("h")

static void bodies_that_mean_nothing_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *type, *body;
    } bad[] = {
        { "application/json", "{" },
        { "application/json", "[]" },
        { "application/json", "{\"html\":7}" },
        { "application/json", "{\"html\":null}" },
        { "application/json", "{\"html\":[\"x\"]}" },
        { "application/json", "{\"html\":{\"bdoy\":\"x\"}}" },
        { "application/json", "{\"html\":{\"body\":7}}" },
        { "application/json", "{\"html\":\"x\",\"html\":\"y\"}" },
        { "application/json", "{\"html\":{" MANY "\"body\":\"x\"}}" },
        { "application/json", "{" MANY "\"html\":\"x\"}" },
        { "application/json", "{\"stash\":\"yes\"}" },
        { "application/json", "{\"stash\":\"true\"}" },
        { "application/json", "{\"stash\":1}" },
        { "application/json", "{\"stash\":null}" },
        { "application/json", "{\"html\":\"\xff\"}" },
        { "application/json", "{\"updates\":7}" },
        { "application/json", "{\"updates\":{}}" },
        { "application/json", "{\"updates\":{\"redlinks\":false}}" },
        { "application/json",
          "{\"updates\":{\"redlinks\":true,\"variant\":{\"target\":\"sr-el\"}}}" },
        { "application/json", "{\"updates\":{\"variant\":{}}}" },
        { "application/json", "{\"updates\":{\"variant\":{\"target\":\"\"}}}" },
        { "application/json", "{\"updates\":{\"variant\":{\"target\":7}}}" },
        { "application/json", "{\"updates\":{\"variant\":{\"target\":\"x\",\"y\":\"z\"}}}" },
        { FORM, "updates=redlinks" },
        { FORM, "updates=%7B%22redlinks%22:true%7D&updates=%7B%22redlinks%22:true%7D" },
        { FORM, "html=%FF" },
        { FORM, "stash=maybe" },
        { FORM, "stash=" },
        { FORM, "stash=null" },
        { FORM, "body_only=11" },
        { FORM, "html=a&html=b" },
        { "text/plain", "html=a" },
        { "multipart/form-data", "" },
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_int_equal(parse(bad[i].type, bad[i].body), ERR_BAD);
        assert_string_not_equal(note.text, "");
    }
}

static json_t *written(struct buf *b)
{
    assert_int_equal(buf_status(b), ERR_OK);
    json_t *root = json_loadb(b->p, b->n, JSON_ALLOW_NUL, NULL);
    assert_non_null(root);
    buf_fini(b);
    return root;
}

static const char *text_at(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void what_is_written_reads_back(void **state)
{
    (void)state;
    static const char odd[] = "\"\\/\b\f\n\r\t\x01\x1f\x7f<\xc3\xa9\xf0\x9f\x98\x80>";
    struct transform_original original = { .title = STR("A \"b\""),
                                           .rev = 7,
                                           .html = { STR("text/html; profile=\"x\""), str_of(odd) },
                                           .data_parsoid = { STR("application/json"),
                                                             STR("{\"ids\":{}}") } };
    struct buf b;
    buf_init(&b, 1 << 20);
    transform_body_html(&b, str_of(odd), &original);
    json_t *root = written(&b), *o = json_object_get(root, "original");
    assert_string_equal(text_at(root, "html"), odd);
    assert_string_equal(text_at(o, "title"), "A \"b\"");
    assert_int_equal(json_integer_value(json_object_get(o, "revid")), 7);
    assert_string_equal(text_at(json_object_get(o, "html"), "body"), odd);
    assert_string_equal(text_at(json_object_get(json_object_get(o, "html"), "headers"),
                                "content-type"),
                        "text/html; profile=\"x\"");
    assert_non_null(
        json_object_get(json_object_get(json_object_get(o, "data-parsoid"), "body"), "ids"));
    assert_null(json_object_get(o, "wikitext"));
    json_decref(root);

    original.rev = 0;
    original.wikitext = (struct transform_part){ STR("text/plain"), STR("") };
    buf_init(&b, 1 << 20);
    transform_body_html(&b, STR(""), &original);
    root = written(&b);
    o = json_object_get(root, "original");
    assert_null(json_object_get(o, "revid"));
    assert_string_equal(text_at(json_object_get(o, "wikitext"), "body"), "");
    json_decref(root);

    buf_init(&b, 1 << 20);
    transform_body_html(&b, STR("x"), NULL);
    root = written(&b);
    assert_int_equal(json_object_size(root), 1);
    json_decref(root);

    buf_init(&b, 1 << 20);
    transform_body_wikitext(&b, STR("== x =="), true);
    root = written(&b);
    assert_true(json_is_true(json_object_get(root, "body_only")));
    json_decref(root);
}

static json_t *updates_written(const struct transform_original *original)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    transform_body_updates(&b, &fields, original);
    json_t *root = written(&b);
    assert_string_equal(text_at(json_object_get(json_object_get(root, "original"), "html"), "body"),
                        "<p>");
    return root;
}

static void updates_are_read_and_written(void **state)
{
    (void)state;
    const struct transform_original original = { .title = STR("A"),
                                                 .rev = 7,
                                                 .html = { STR("text/html"), STR("<p>") } };
    assert_int_equal(parse("application/json", "{\"updates\":{\"redlinks\":true}}"), ERR_OK);
    json_t *root = updates_written(&original);
    assert_true(json_is_true(json_object_get(json_object_get(root, "updates"), "redlinks")));
    json_decref(root);

    assert_int_equal(parse(FORM, "updates=%7B%22variant%22:%7B%22target%22:%22sr-el%22%7D%7D"),
                     ERR_OK);
    assert_false(fields.redlinks);
    root = updates_written(&original);
    const json_t *variant = json_object_get(json_object_get(root, "updates"), "variant");
    assert_string_equal(text_at(variant, "target"), "sr-el");
    assert_int_equal(json_object_size(variant), 1);
    json_decref(root);

    assert_int_equal(
        parse("", "{\"updates\":{\"variant\":{\"source\":\"sr-ec\",\"target\":\"a\\\"b\"}}}"),
        ERR_OK);
    root = updates_written(&original);
    variant = json_object_get(json_object_get(root, "updates"), "variant");
    assert_string_equal(text_at(variant, "target"), "a\"b");
    assert_string_equal(text_at(variant, "source"), "sr-ec");
    json_decref(root);
}

static void a_body_past_the_limit_is_said_by_the_buffer(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 16);
    transform_body_wikitext(&b, STR("0123456789"), false);
    assert_int_equal(buf_status(&b), ERR_LIMIT);
    buf_fini(&b);
}

static void ids_are_asked_for(void **state)
{
    (void)state;
    assert_true(transform_parsoid_has_ids(&memory, STR("{\"counter\":1,\"ids\":{}}")));
    assert_false(transform_parsoid_has_ids(&memory, STR("{\"counter\":1}")));
    assert_false(transform_parsoid_has_ids(&memory, STR("{\"ids\":[]}")));
    assert_false(transform_parsoid_has_ids(&memory, STR("[]")));
    assert_false(transform_parsoid_has_ids(&memory, STR("")));
    assert_false(transform_parsoid_has_ids(&memory, STR("{\"ids\":{}")));
}

static void a_document_is_known_by_what_it_holds(void **state)
{
    (void)state;
    static const struct {
        const char *html;
        enum transform_holds holds;
    } rows[] = {
        { "", HOLDS_NOTHING },
        { "<!DOCTYPE html><html><head><title>T</title></head><body> "
          "<section><p><br/></p></section></body></html>",
          HOLDS_NOTHING },
        { "<p title='a > b'>\n</p>", HOLDS_NOTHING },
        { "<h2></h2>", HOLDS_ELEMENTS },
        { "<p><b></b></p>", HOLDS_ELEMENTS },
        { "<ul></ul>", HOLDS_ELEMENTS },
        { "<h2><br></h2>", HOLDS_ELEMENTS },
        { "<p><link rel=\"x\"></p>", HOLDS_ELEMENTS },
        { "<p typeof=\"mw:Transclusion\" data-mw='{\"a>b\":1}'></p>", HOLDS_ELEMENTS },
        { "<span data-mw=\"a > b\" typeof=mw:Nowiki></span>", HOLDS_ELEMENTS },
        { "<p>x</p>", HOLDS_TEXT },
        { "<ul></ul>&nbsp;", HOLDS_TEXT },
        { "<p></p><!-- kept -->", HOLDS_TEXT },
        { "1 < 2", HOLDS_TEXT },
        { "<", HOLDS_TEXT },
        { "<p", HOLDS_NOTHING },
        { "<b", HOLDS_ELEMENTS },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (transform_holds(str_of(rows[i].html)) != rows[i].holds)
            fail_msg("%s", rows[i].html);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_and_forms_say_the_same),
        cmocka_unit_test(bodies_that_mean_nothing_are_refused),
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(updates_are_read_and_written),
        cmocka_unit_test(a_body_past_the_limit_is_said_by_the_buffer),
        cmocka_unit_test(ids_are_asked_for),
        cmocka_unit_test(a_document_is_known_by_what_it_holds),
    };
    return cmocka_run_group_tests(tests, memory_setup, memory_teardown);
}
