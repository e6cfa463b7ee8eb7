/* Goal: a declaration of a bucket is taken when the bucket is so, and refused with the word that is
 * wrong. Method: declarations against two configurations. */
#include "page/declared.h"

#include "../cmocka_all.h"

static const char *const contents[] = { "html", "data-parsoid" };
static const struct page_bucket_opts named = { .name = "page",
                                               .contents = contents,
                                               .contents_count = COUNT_OF(contents),
                                               .policy = { .grace_ttl_ns = 86400 * NS_PER_S } },
                                     any = { .name = "any" };

static void taken(const struct page_bucket_opts *o, const char *json)
{
    struct err_note note = { "" };
    if (page_declared_check(o, str_of(json), &note) != ERR_OK)
        fail_msg("%s: %s", json, note.text);
}

static void refused(const struct page_bucket_opts *o, const char *json, const char *word)
{
    struct err_note note = { "" };
    assert_int_equal(page_declared_check(o, str_of(json), &note), ERR_BAD);
    if (str_find_str(str_of(note.text), str_of(word)) == str_of(note.text).n)
        fail_msg("%s: %s", json, note.text);
}

static void a_declaration_of_what_is_there_is_taken(void **state)
{
    (void)state;
    taken(&named, "");
    taken(&named, "{}");
    taken(&named, "{\"main_content_type\":{\"name\":\"html\",\"value_type\":\"blob\"},"
                  "\"dependent_content_types\":[{\"name\":\"data-parsoid\"}],"
                  "\"grace_ttl\":86400,\"index_ttl\":1,\"version\":2,\"updates\":{}}");
    taken(&named, "{\"dependent_content_types\":[]}");
    taken(&any, "{\"main_content_type\":{\"name\":\"whatever\"}}");
}

static void what_the_bucket_is_not_is_named(void **state)
{
    (void)state;
    refused(&named, "{\"main_content_type\":{\"name\":\"lint\"}}", "lint is not among");
    refused(&named, "{\"dependent_content_types\":[{\"name\":\"html\"},{\"name\":\"x\"}]}",
            "x is not among");
    refused(&named, "{\"main_content_type\":{}}", "name");
    refused(&named, "{\"main_content_type\":{\"name\":\"html\",\"size\":1}}", "size");
    refused(&named, "{\"main_content_type\":\"html\"}", "main_content_type");
    refused(&named, "{\"dependent_content_types\":{}}", "dependent_content_types");
    refused(&named, "{\"grace_ttl\":86401}", "grace_ttl of this bucket is 86400 s");
    refused(&named, "{\"grace_ttl\":-1}", "grace_ttl");
    refused(&named, "{\"ttl\":1}", "ttl");
    refused(&named, "[]", "a JSON object");
    refused(&named, "{", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_declaration_of_what_is_there_is_taken),
        cmocka_unit_test(what_the_bucket_is_not_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
