/* Goal: one document of YAML is read, and what is none is told by its line in plain words. */
#include "codec/yaml_doc.h"

#include "../cmocka_all.h"

#include <string.h>

static void a_document_has_nodes_with_lines(void **state)
{
    (void)state;
    yaml_document_t doc;
    unsigned line = 7;
    struct err_note note;
    assert_int_equal(yaml_doc_read(STR("a: b\nc: ~\nd: \"~\"\n"), &doc, &line, &note), ERR_OK);
    const yaml_node_t *root = yaml_document_get_root_node(&doc);
    assert_int_equal(root->type, YAML_MAPPING_NODE);
    static const struct {
        const char *text;
        bool null;
    } values[] = { { "b", false }, { "~", true }, { "~", false } };
    for (unsigned i = 0; i < COUNT_OF(values); i++) {
        const yaml_node_pair_t *p = &root->data.mapping.pairs.start[i];
        const yaml_node_t *value = yaml_document_get_node(&doc, p->value);
        assert_true(str_eq(yaml_doc_text(value), str_of(values[i].text)));
        assert_int_equal(yaml_doc_is_null(value), values[i].null);
        assert_int_equal(yaml_doc_line(value), i + 1);
    }
    const yaml_node_t *found = yaml_doc_entry(&doc, root, STR("c"));
    assert_non_null(found);
    assert_int_equal(yaml_doc_line(found), 2);
    assert_null(yaml_doc_entry(&doc, root, STR("e")));
    assert_null(yaml_doc_entry(&doc, found, STR("c")));
    assert_null(yaml_doc_entry(&doc, NULL, STR("c")));
    yaml_document_delete(&doc);
}

static void nothing_is_a_document_without_a_root(void **state)
{
    (void)state;
    static const char *const none[] = { NULL, "", "\n# nothing\n" };
    for (size_t i = 0; i < COUNT_OF(none); i++) {
        yaml_document_t doc;
        unsigned line;
        struct err_note note;
        assert_int_equal(yaml_doc_read(str_of(none[i]), &doc, &line, &note), ERR_OK);
        assert_null(yaml_document_get_root_node(&doc));
        yaml_document_delete(&doc);
    }
}

static void what_is_no_document_is_told_by_its_line(void **state)
{
    static const struct {
        const char *text;
        unsigned line;
        const char *says;
    } bad[] = {
        { "a: b\nc: d: e\n", 2, "a colon with a blank behind it within a value" },
        { "a: [b\n", 2, "a list that begins with [ does not end with ]" },
        { "a: [b, c\n", 2, "does not end with ]" },
        { "r:\n  m: { t: /^[a-z]+/ }\n", 2,
          "a section that begins with { does not end with } before column 13: a value with one of "
          "[ ] { } , in it wants quotes" },
        { "r:\n  m: { \xc3\xa9: /^[a-z]+/ }\n", 2, "before column 13: a value with" },
        { "m: { t: /a{2}/ }\n", 1, "before column 11: a value with one of [ ] { } ," },
        { "m: [/a[b]/]\n", 1, "a list that begins with [ does not end with ] before column 7: a" },
        { "m: { t: /a]/ }\n", 1, "before column 11: a value with" },
        { "m: { t: /a}b/ }\n", 1, "a { or [ ends before column 12: a value with one of [ ] { } ," },
        { "a: b\n\tc: d\n", 2, "a tab: lines are indented with blanks" },
        { "a: b\n---\na: b\n", 0, "more than one document" },
        { "a: b\n---\na: b: c\n", 3, "a colon with a blank behind it" },
        { "a:\n [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", 2, "nested deeper than 32" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        yaml_document_t doc;
        unsigned line;
        struct err_note note;
        assert_int_equal(yaml_doc_read(str_of(bad[i].text), &doc, &line, &note), ERR_BAD);
        if (line != bad[i].line || strstr(note.text, bad[i].says) == NULL)
            fail_msg("%s: %u: %s", bad[i].text, line, note.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_document_has_nodes_with_lines),
        cmocka_unit_test(nothing_is_a_document_without_a_root),
        cmocka_unit_test(what_is_no_document_is_told_by_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
