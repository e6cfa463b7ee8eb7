/* form: bodies as curl and browsers send them are read, ambiguous ones refused. Method: literal
 * bodies, and every prefix of a good one. */
#include "http/form.h"
#include "lib/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define URLENCODED "application/x-www-form-urlencoded; charset=UTF-8"
#define MULTIPART "multipart/form-data; boundary=------------------------d74496d66958873e"
#define MARK "--------------------------d74496d66958873e"

static struct form form;
static struct err_note note;

static err parse(const char *type, const char *body)
{
    note.text[0] = '\0';
    return form_parse(&memory, str_of(type), str_of(body), &form, &note);
}

static void assert_field(const char *name, const char *want)
{
    str value;
    assert_true(form_find(&form, name, &value));
    assert_true(str_eq(value, str_of(want)));
}

static void urlencoded_is_decoded_once(void **state)
{
    (void)state;
    str value;
    assert_int_equal(
        parse(URLENCODED, "title=A%2FB+c&wikitext=%2541%3D1%26&&stash=true&empty=&bare"), ERR_OK);
    assert_int_equal(form.count, 5);
    assert_field("title", "A/B c");
    assert_field("wikitext", "%41=1&");
    assert_field("stash", "true");
    assert_field("empty", "");
    assert_field("bare", "");
    assert_false(form_find(&form, "missing", &value));
    assert_int_equal(parse(URLENCODED, ""), ERR_OK);
    assert_int_equal(form.count, 0);
}

static void urlencoded_with_a_broken_escape_or_a_field_twice_is_refused(void **state)
{
    (void)state;
    assert_int_equal(parse(URLENCODED, "a=%4"), ERR_BAD);
    assert_string_not_equal(note.text, "");
    assert_int_equal(parse(URLENCODED, "a=%zz"), ERR_BAD);
    assert_int_equal(parse(URLENCODED, "a=1&b=2&a=1"), ERR_BAD);
    assert_string_equal(note.text, "the field a is there twice");
    assert_int_equal(parse(URLENCODED, "=1"), ERR_BAD);
}

static void more_fields_than_the_limit_are_refused(void **state)
{
    (void)state;
    char body[4 * (FORM_FIELDS_MAX + 1)] = "";
    for (unsigned i = 0; i <= FORM_FIELDS_MAX; i++)
        memcpy(body + 3 * i, (char[]){ '&', (char)('A' + i % 26), (char)('a' + i / 26) }, 3);
    assert_int_equal(parse(URLENCODED, body), ERR_BAD);
    body[3 * FORM_FIELDS_MAX] = '\0';
    assert_int_equal(parse(URLENCODED, body), ERR_OK);
}

static const char good[] =
    "ignored\r\n" MARK "\r\nContent-Disposition: form-data; name=\"html\"\r\n\r\n<p>\r\n--x\r\n"
    "\r\n" MARK " \t\r\ncontent-type: text/plain\r\n"
    "CONTENT-DISPOSITION: Form-Data; filename=\"a;b\"; name=\"w\\\"x\"\r\n"
    "Content-Transfer-Encoding: binary\r\n\r\n"
    "\r\n" MARK "\r\nContent-Disposition: form-data; name=stash\r\n\r\ntrue\r\n" MARK
    "--\r\nalso ignored";

static void multipart_gives_each_part_its_bytes(void **state)
{
    (void)state;
    assert_int_equal(parse(MULTIPART, good), ERR_OK);
    assert_int_equal(form.count, 3);
    assert_field("html", "<p>\r\n--x\r\n");
    assert_field("w\"x", "");
    assert_field("stash", "true");
    assert_int_equal(parse(MULTIPART, MARK "--"), ERR_OK);
    assert_int_equal(form.count, 0);
    assert_int_equal(parse("Multipart/Form-Data; charset=x; boundary=\"a b\"",
                           "--a b\r\nContent-Disposition: form-data; name=n\r\n\r\nv\r\n--a b--"),
                     ERR_OK);
    assert_field("n", "v");
}

static void multipart_cut_anywhere_is_refused(void **state)
{
    (void)state;
    size_t end =
        str_find_str(str_of(good), STR("true\r\n" MARK "--")) + sizeof "true\r\n" MARK "--" - 1;
    for (size_t n = 0; n < end; n++) {
        assert_int_equal(
            form_parse(&memory, STR(MULTIPART), (str){ .p = good, .n = n }, &form, &note), ERR_BAD);
        arena_reset(&memory);
    }
    assert_int_equal(
        form_parse(&memory, STR(MULTIPART), (str){ .p = good, .n = end }, &form, &note), ERR_OK);
}

static void multipart_that_two_would_read_differently_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        MARK "\r\nContent-Disposition: form-data\r\n\r\nv\r\n" MARK "--",
        MARK "\r\nContent-Type: text/plain\r\n\r\nv\r\n" MARK "--",
        MARK "\r\nContent-Disposition: attachment; name=a\r\n\r\nv\r\n" MARK "--",
        MARK "\r\nContent-Disposition: form-data; name=a; name=b\r\n\r\nv\r\n" MARK "--",
        MARK "\r\nContent-Disposition: form-data; name=a\r\nContent-Disposition: form-data; "
             "name=a\r\n\r\nv\r\n" MARK "--",
        MARK "\r\nContent-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: "
             "base64\r\n\r\nv\r\n" MARK "--",
        MARK "\r\nContent-Disposition: form-data; name=\"a\r\n\r\nv\r\n" MARK "--",
        MARK "\r\nno field\r\n\r\nv\r\n" MARK "--",
        MARK "x\r\nContent-Disposition: form-data; name=a\r\n\r\nv\r\n" MARK "--",
        MARK "\nContent-Disposition: form-data; name=a\n\nv\n" MARK "--",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_int_equal(parse(MULTIPART, bad[i]), ERR_BAD);
        assert_string_not_equal(note.text, "");
    }
}

static void a_boundary_is_needed_and_other_types_are_none_of_ours(void **state)
{
    (void)state;
    assert_int_equal(parse("multipart/form-data", MARK "--"), ERR_BAD);
    assert_int_equal(parse("multipart/form-data; boundary=", MARK "--"), ERR_BAD);
    assert_int_equal(parse("multipart/form-data; boundary=\"a ", MARK "--"), ERR_BAD);
    assert_int_equal(parse("multipart/form-data; boundary=a; boundary=b", "--a--"), ERR_BAD);
    assert_int_equal(
        parse("multipart/form-data; boundary="
              "0123456789012345678901234567890123456789012345678901234567890123456789x",
              "--0"),
        ERR_BAD);
    assert_int_equal(parse("application/json", "{}"), ERR_NOT_FOUND);
    assert_int_equal(parse("", ""), ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urlencoded_is_decoded_once),
        cmocka_unit_test(urlencoded_with_a_broken_escape_or_a_field_twice_is_refused),
        cmocka_unit_test(more_fields_than_the_limit_are_refused),
        cmocka_unit_test(multipart_gives_each_part_its_bytes),
        cmocka_unit_test(multipart_cut_anywhere_is_refused),
        cmocka_unit_test(multipart_that_two_would_read_differently_is_refused),
        cmocka_unit_test(a_boundary_is_needed_and_other_types_are_none_of_ours),
    };
    return cmocka_run_group_tests(tests, memory_setup, memory_teardown);
}
