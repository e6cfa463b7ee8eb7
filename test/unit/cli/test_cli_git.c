/* Goal: the records of git's plumbing are read as git writes them, and anything else is refused. */
#include "cli/git.h"

#include "../cmocka_all.h"

#include <string.h>

#define OID_A "0f7bc766052a5a0ee28a393d51d2370f96d8ceb8"
#define OID_0 "0000000000000000000000000000000000000000"

static void regular_files_are_taken(void **state)
{
    (void)state;
    struct git_change c;
    assert_true(git_raw_parse(STR(":000000 100644 " OID_0 " " OID_A " A"), &c));
    assert_false(c.deleted);
    assert_string_equal(c.oid, OID_A);
    assert_true(git_raw_parse(STR(":100644 100755 " OID_A " " OID_A " M"), &c));
    assert_false(c.deleted);
}

static void deletions_links_and_submodules_are_no_documents(void **state)
{
    (void)state;
    struct git_change c;
    assert_true(git_raw_parse(STR(":100644 000000 " OID_A " " OID_0 " D"), &c));
    assert_true(c.deleted);
    assert_true(git_raw_parse(STR(":000000 120000 " OID_0 " " OID_A " A"), &c));
    assert_true(c.deleted);
    assert_true(git_raw_parse(STR(":000000 160000 " OID_0 " " OID_A " A"), &c));
    assert_true(c.deleted);
}

static void other_records_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        ":",
        ":100644 100644",
        "100644 100644 " OID_A " " OID_A " M",
        ":100644 100644 " OID_A " abc M",
        ":100644 100644 " OID_A " " OID_A,
        ":100644 100644 " OID_A " " OID_A " M x",
        ":100644 100644 " OID_A " " OID_A OID_A " M",
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct git_change c;
        assert_false(git_raw_parse(str_of(wrong[i]), &c));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regular_files_are_taken),
        cmocka_unit_test(deletions_links_and_submodules_are_no_documents),
        cmocka_unit_test(other_records_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
