/* Goal: tables line up whatever letters are in them, and nothing that comes from elsewhere steers
 * the terminal. Method: printed into memory, which is no terminal, so colours stay away. */
#include "cli/out.h"

#include "base/check.h"

#include "../cmocka_all.h"

#include <stdlib.h>
#include <string.h>

struct memory {
    char *text;
    size_t n;
    FILE *to;
};

static void open_memory(struct memory *m)
{
    *m = (struct memory){ 0 };
    m->to = open_memstream(&m->text, &m->n);
    assert_non_null(m->to);
}

static void expect(struct memory *m, const char *want)
{
    assert_int_equal(fclose(m->to), 0);
    assert_string_equal(m->text, want);
    free(m->text);
}

static void sizes_have_three_digits_or_so(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        { 0, "0 B" },
        { 999, "999 B" },
        { 1000, "1.0 kB" },
        { 999949, "999.9 kB" },
        { 999950, "1.0 MB" },
        { 123456789, "123.5 MB" },
        { UINT64_MAX, "18446.7 PB" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[OUT_SIZE_BYTES];
        out_size(cases[i].bytes, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void control_bytes_and_broken_utf8_become_question_marks(void **state)
{
    (void)state;
    struct memory m;
    open_memory(&m);
    out_text(m.to, STR("a\x1b[31m\r\n\x7f \xc2\x9b \xff \xc3\xa4 \xe2\x82"));
    expect(&m, "a?[31m??? ?? ? \xc3\xa4 ??");
}

static void columns_line_up_by_the_width_of_letters(void **state)
{
    (void)state;
    static const struct out_column columns[] = { { "N", true },
                                                 { "TITLE", false },
                                                 { "X", false } };
    struct memory m;
    open_memory(&m);
    struct out_table *t = out_table_new(m.to, columns, COUNT_OF(columns));
    out_table_row(t, (const str[]){ STR("1"), STR("\xc3\xa4"), STR("a") }, "31");
    out_table_row(
        t, (const str[]){ STR("100"), STR("\xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97"), STR("b") },
        NULL);
    out_table_row(t, (const str[]){ STR("20"), STR("plain"), STR("") }, NULL);
    out_table_end(&t);
    assert_null(t);
    expect(&m, "  N  TITLE   X\n  1  \xc3\xa4       a\n100  \xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97  "
               "b\n 20  plain   \n");
}

static void a_dropped_table_prints_nothing(void **state)
{
    (void)state;
    static const struct out_column columns[] = { { "N", true } };
    struct memory m;
    open_memory(&m);
    struct out_table *t = out_table_new(m.to, columns, COUNT_OF(columns));
    out_table_row(t, (const str[]){ STR("1") }, NULL);
    out_table_drop(&t);
    expect(&m, "");
}

static void a_line_is_cut_where_its_letters_end_and_keeps_its_colours(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        size_t columns;
        const char *shown;
    } cases[] = {
        { "abcdef", 3, "abc" },
        { "abc", 3, "abc" },
        { "abc", 0, "" },
        { "", 5, "" },
        { "\033[1mabcdef\033[0m", 4, "\033[1mabcd\033[0m" },
        { "a\033[31mb\033[0mc", 2, "a\033[31mb\033[0m" },
        { "\xe4\xb8\xad\xe6\x96\x87", 3, "\xe4\xb8\xad" },
        { "\xe4\xb8\xad\xe6\x96\x87z", 3, "\xe4\xb8\xad" },
        { "\033[2Jx\033]0;m", 20, "?[2Jx?]0;m" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct memory m;
        open_memory(&m);
        out_line(m.to, str_of(cases[i].line), cases[i].columns);
        expect(&m, cases[i].shown);
    }
}

static void a_document_shows_what_it_holds_and_keeps_its_lines(void **state)
{
    (void)state;
    struct memory m;
    open_memory(&m);
    out_shown(m.to, STR("a\tb\n\x1b[31m\r\xff\xc3\xa4\xc2\x9b"));
    expect(&m, "a\tb\n\\x1b[31m\\x0d\\xff\xc3\xa4\\xc2\\x9b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_have_three_digits_or_so),
        cmocka_unit_test(control_bytes_and_broken_utf8_become_question_marks),
        cmocka_unit_test(columns_line_up_by_the_width_of_letters),
        cmocka_unit_test(a_dropped_table_prints_nothing),
        cmocka_unit_test(a_line_is_cut_where_its_letters_end_and_keeps_its_colours),
        cmocka_unit_test(a_document_shows_what_it_holds_and_keeps_its_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
