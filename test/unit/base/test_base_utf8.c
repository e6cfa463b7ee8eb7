/* Goal: RFC 3629 validity and NFC. Method: the classic bad sequences; composed and decomposed
 * pairs. */
#include "base/utf8.h"

#include "../cmocka_all.h"

static void validity_is_that_of_rfc_3629(void **state)
{
    (void)state;
    const str good[] = { STR_NONE,
                         STR(""),
                         STR("a\0b"),
                         STR("\xc2\x80"),
                         STR("\xef\xbf\xbf"),
                         STR("\xf0\x90\x80\x80"),
                         STR("\xf4\x8f\xbf\xbf"),
                         STR("\xed\x9f\xbf"),
                         STR("\xee\x80\x80") };
    const str bad[] = { STR("\x80"),
                        STR("\xc3"),
                        STR("\xc0\x80"),
                        STR("\xc1\xbf"),
                        STR("\xe0\x9f\xbf"),
                        STR("\xed\xa0\x80"),
                        STR("\xed\xbf\xbf"),
                        STR("\xf0\x8f\xbf\xbf"),
                        STR("\xf4\x90\x80\x80"),
                        STR("\xf5\x80\x80\x80"),
                        STR("\xff"),
                        STR("a\xe2\x82"),
                        STR("\xe2\x28\xa1") };
    for (size_t i = 0; i < COUNT_OF(good); i++)
        assert_true(utf8_valid(good[i]));
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_false(utf8_valid(bad[i]));
}

static void titles_come_out_composed(void **state)
{
    (void)state;
    static const struct {
        str from, to;
    } rows[] = {
        { STR_INIT("Cafe\xcc\x81"), STR_INIT("Caf\xc3\xa9") },
        { STR_INIT("A\xcc\x8a"), STR_INIT("\xc3\x85") },
        { STR_INIT("\xe2\x84\xab"), STR_INIT("\xc3\x85") }, /* angstrom sign */
        { STR_INIT("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab"), STR_INIT("\xed\x95\x9c") }, /* hangul */
        { STR_INIT("q\xcc\x87\xcc\xa3"), STR_INIT("q\xcc\xa3\xcc\x87") }, /* marks in order */
        { STR_INIT("\xef\xac\x81"),
          STR_INIT("\xef\xac\x81") }, /* a ligature is compatible, not equal */
    };
    struct arena a;
    arena_init(&a, 1 << 16);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        str got, again;
        assert_int_equal(utf8_nfc(&a, rows[i].from, &got), ERR_OK);
        assert_true(str_eq(got, rows[i].to));
        assert_int_equal(utf8_nfc(&a, got, &again), ERR_OK);
        assert_ptr_equal(again.p, got.p); /* in form already: itself */
    }
    arena_fini(&a);
}

static void ascii_and_nothing_need_no_memory(void **state)
{
    (void)state;
    struct arena a;
    str got = STR("x");
    arena_init(&a, 0);
    assert_int_equal(utf8_nfc(&a, STR("Main Page"), &got), ERR_OK);
    assert_true(str_eq(got, STR("Main Page")));
    assert_int_equal(utf8_nfc(&a, STR_NONE, &got), ERR_OK);
    assert_int_equal(got.n, 0);
    assert_int_equal(utf8_nfc(&a, STR("e\xcc\x81"), &got), ERR_LIMIT);
    assert_int_equal(utf8_nfc(&a, STR("\xff"), &got), ERR_BAD);
    arena_fini(&a);
}

static void spaces_are_those_of_unicode(void **state)
{
    (void)state;
    static const struct {
        str s;
        bool any, all;
    } rows[] = {
        { STR_INIT(""), false, true },
        { STR_INIT("name"), false, false },
        { STR_INIT("  \t\n\v\f\r"), true, true },
        { STR_INIT("a b"), true, false },
        { STR_INIT("a\xc2\xa0"), true, false },               /* no-break space */
        { STR_INIT("\xe2\x80\x83\xe3\x80\x80"), true, true }, /* em space, ideographic space */
        { STR_INIT("a\xe2\x80\x8b"), false, false },          /* zero width space is none */
        { STR_INIT("\xff\xe2\x80"), false, false },
        { STR_INIT("a\0b"), false, false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(utf8_has_space(rows[i].s), rows[i].any);
        assert_int_equal(utf8_is_blank(rows[i].s), rows[i].all);
    }
}

static void what_is_no_text_becomes_question_marks(void **state)
{
    (void)state;
    static const struct {
        str text;
        size_t bytes_max;
        str clean;
    } rows[] = {
        { STR_INIT(""), 4, STR_INIT("") },
        { STR_INIT("a\0b"), 4, STR_INIT("a\0b") },
        { STR_INIT("abcde"), 4, STR_INIT("abcd") },
        { STR_INIT("ab\xc3\xa9"), 4, STR_INIT("ab\xc3\xa9") },
        { STR_INIT("abc\xc3\xa9"), 4, STR_INIT("abc") }, /* between characters */
        { STR_INIT("\xc3x\xff"), 4, STR_INIT("?x?") },
        { STR_INIT("\xed\xa0\x80z"), 4, STR_INIT("???z") }, /* half a pair */
        { STR_INIT("a\xe2\x82"), 4, STR_INIT("a??") },
        { STR_INIT("\xc0\x80"), 1, STR_INIT("?") },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char out[8];
        size_t n = utf8_clean(rows[i].text, out, rows[i].bytes_max);
        assert_true(str_eq((str){ .p = out, .n = n }, rows[i].clean));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spaces_are_those_of_unicode),
        cmocka_unit_test(what_is_no_text_becomes_question_marks),
        cmocka_unit_test(validity_is_that_of_rfc_3629),
        cmocka_unit_test(titles_come_out_composed),
        cmocka_unit_test(ascii_and_nothing_need_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
