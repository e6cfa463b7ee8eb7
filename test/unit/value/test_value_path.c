/* Goal: no log says what stands behind the name of a bucket of values, however the path is written.
 * Method: paths, and what may be logged of each. */
#include "value/path.h"

#include "../cmocka_all.h"
#include "lib/memory.h"

static const char wanted_route[] = "/{domain}/v1/key_value/{bucket}/{key}";
static const char any_route[] = "/{domain}/v1/{bucket}/{content}/{title}";

static void logged_is(const char *path, const char *pattern, const char *want)
{
    str logged = value_path_logged(str_of(path), pattern);
    assert_int_equal(logged.n, str_of(want).n);
    assert_memory_equal(logged.p, want, logged.n);
}

static void a_key_is_not_logged(void **state)
{
    (void)state;
    logged_is("/d/v1/key_value/sessions/secret", wanted_route, "/d/v1/key_value/sessions/");
    logged_is("/d/v1/key_value/sessions/a/b/c", wanted_route, "/d/v1/key_value/sessions/");
    logged_is("/d/v1/key_value/sessions", "/{domain}/v1/key_value/{bucket}",
              "/d/v1/key_value/sessions");
}

static void a_path_that_no_route_of_values_took_may_hold_a_key(void **state)
{
    (void)state;
    logged_is("/d/v1/key_value/sessions/secret", NULL, "/d/v1/key_value/sessions/");
    logged_is("/d/v1/key%5Fvalue/sessions%2fsecret", NULL, "/d/v1/key%5Fvalue/sessions%2f");
    logged_is("/d/v1/KEY_rev_VALUE/s/secret/1", any_route, "/d/v1/KEY_rev_VALUE/s/");
    logged_is("//key_value/s/secret", any_route, "//key_value/s/");
    logged_is("/d/v1/key_value", NULL, "/d/v1/key_value");
    logged_is("/d/v1/key%5Gvalue/s/secret", NULL, "/d/v1/key%5Gvalue/s/secret");
    logged_is("/d/v1/key%5", NULL, "/d/v1/key%5");
}

static void all_else_is_logged_whole(void **state)
{
    (void)state;
    logged_is("/d/v1/page/html/Earth", any_route, "/d/v1/page/html/Earth");
    logged_is("/d/v1/table/t/get", "/{domain}/v1/table/{table}/get", "/d/v1/table/t/get");
    logged_is("", NULL, "");
}

static void a_path_names_its_bucket(void **state)
{
    (void)state;
    enum value_kind kind = VALUE_REVS;
    str name;
    assert_true(value_path_bucket(&memory, STR("/d/v1/key_value/a%20b/key"), &kind, &name));
    assert_int_equal(kind, VALUE_PLAIN);
    assert_true(str_eq(name, STR("a b")));
    assert_true(value_path_bucket(&memory, STR("/d/v1/key_rev_value/x"), &kind, &name));
    assert_int_equal(kind, VALUE_REVS);
    assert_true(str_eq(name, STR("x")));
    assert_false(value_path_bucket(&memory, STR("/d/v1/key_value/%zz"), &kind, &name));
    assert_false(value_path_bucket(&memory, STR("/d/v2/key_value/x"), &kind, &name));
    assert_false(value_path_bucket(&memory, STR("/d/v1/page/html/x"), &kind, &name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_not_logged),
        cmocka_unit_test(a_path_that_no_route_of_values_took_may_hold_a_key),
        cmocka_unit_test(all_else_is_logged_whole),
        cmocka_unit_test_setup_teardown(a_path_names_its_bucket, memory_setup, memory_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
