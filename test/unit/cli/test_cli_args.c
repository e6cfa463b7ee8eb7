/* Goal: a command line means one thing, and a wrong one is said to be wrong.
 * Method: a table of verbs of the test's own. */
#include "cli/args.h"

#include "../cmocka_all.h"

#include <stdio.h>
#include <string.h>

static const struct cli_option options[] = {
    { "output", 'o', "FILE", "where" },
    { "quiet", 'q', NULL, "no word" },
    { NULL, 0, NULL, NULL },
};
static const struct cli_verb verbs[] = {
    { .name = "get",
      .usage = "A [B]",
      .operands_min = 1,
      .operands_max = 2,
      .options = options,
      .client = true },
    { .name = "import", .usage = "", .operands_max = 1 },
    { .name = "import git", .usage = "", .operands_max = 1 },
    { .name = "put", .usage = "A FILE", .operands_max = 2, .files_from = 2 },
    { .name = "change rules check", .usage = "FILE", .operands_max = 1, .files_from = 1 },
    { .name = NULL },
};

static err parse(const char *line, struct cli_call *out, struct err_note *note)
{
    static char words[16][64];
    char *argv[16];
    int argc = 0;
    for (str rest = str_of(line); rest.n > 0; argc++) {
        assert_true(argc < 16);
        assert_true(str_to_cstr(str_split(&rest, ' '), words[argc], sizeof words[argc]));
        argv[argc] = words[argc];
    }
    return args_parse(&verbs[0], argc, argv, out, note);
}

static void options_and_operands_come_in_any_order(void **state)
{
    (void)state;
    struct cli_call c;
    struct err_note note;
    assert_int_equal(parse("a -o x --domain=d b --json", &c, &note), ERR_OK);
    assert_int_equal(c.operands_count, 2);
    assert_string_equal(c.operands[0], "a");
    assert_string_equal(c.operands[1], "b");
    assert_string_equal(cli_value(&c, "output"), "x");
    assert_string_equal(cli_value(&c, "domain"), "d");
    assert_true(cli_flag(&c, "json"));
    assert_false(cli_flag(&c, "quiet"));
    assert_null(cli_value(&c, "server"));
}

static void letters_take_values_joined_or_apart(void **state)
{
    (void)state;
    struct cli_call c;
    struct err_note note;
    assert_int_equal(parse("a -oxy", &c, &note), ERR_OK);
    assert_string_equal(cli_value(&c, "output"), "xy");
    assert_int_equal(parse("a -o xy", &c, &note), ERR_OK);
    assert_string_equal(cli_value(&c, "output"), "xy");
}

static void the_last_value_wins(void **state)
{
    (void)state;
    struct cli_call c;
    struct err_note note;
    assert_int_equal(parse("--output=1 a --output 2", &c, &note), ERR_OK);
    assert_string_equal(cli_value(&c, "output"), "2");
}

static void two_dashes_end_options(void **state)
{
    (void)state;
    struct cli_call c;
    struct err_note note;
    assert_int_equal(parse("-- -o --quiet", &c, &note), ERR_OK);
    assert_int_equal(c.operands_count, 2);
    assert_string_equal(c.operands[0], "-o");
    assert_string_equal(c.operands[1], "--quiet");
    assert_int_equal(parse("-", &c, &note), ERR_OK);
    assert_string_equal(c.operands[0], "-");
}

static void wrong_lines_say_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *line, *says;
    } wrong[] = {
        { "", "something is missing" },
        { "a b c", "too many words" },
        { "a --bogus", "unknown option --bogus" },
        { "a -z", "unknown option -z" },
        { "a --output", "--output wants a value" },
        { "a --quiet=yes", "--quiet takes no value" },
        { "a -qx", "--quiet takes no value" },
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct cli_call c;
        struct err_note note;
        assert_int_equal(parse(wrong[i].line, &c, &note), ERR_BAD);
        assert_non_null(strstr(note.text, wrong[i].says));
    }
}

static void words_are_utf8_unless_they_name_files(void **state)
{
    (void)state;
    static const struct {
        const char *line, *says;
    } wrong[] = {
        { "\xff", "\"?\" is not UTF-8" },
        { "a b\xc0\xaf", "\"b??\" is not UTF-8" },
        { "a --domain=\xed\xa0\x80", "--domain is not UTF-8" },
        { "a --token \xfe", "--token is not UTF-8" },
    };
    struct cli_call c;
    struct err_note note;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_int_equal(parse(wrong[i].line, &c, &note), ERR_BAD);
        assert_string_equal(note.text, wrong[i].says);
    }
    assert_int_equal(parse("\xc3\xa9 -o \xff", &c, &note), ERR_OK);
    char text[] = "\xc3\xa9", file[] = "\xff";
    assert_int_equal(args_parse(&verbs[3], 2, (char *[]){ text, file }, &c, &note), ERR_OK);
    assert_int_equal(args_parse(&verbs[3], 2, (char *[]){ file, text }, &c, &note), ERR_BAD);
}

static void help_needs_no_operands(void **state)
{
    (void)state;
    struct cli_call c;
    struct err_note note;
    assert_int_equal(parse("--help", &c, &note), ERR_OK);
    assert_true(c.help);
    assert_int_equal(parse("-h", &c, &note), ERR_OK);
    assert_true(c.help);
}

static void the_longest_verb_wins(void **state)
{
    (void)state;
    char import[] = "import", git[] = "git", path[] = "x";
    int words;
    assert_ptr_equal(args_verb(verbs, 3, (char *[]){ import, git, path }, &words), &verbs[2]);
    assert_int_equal(words, 2);
    assert_ptr_equal(args_verb(verbs, 2, (char *[]){ import, path }, &words), &verbs[1]);
    assert_int_equal(words, 1);
    assert_null(args_verb(verbs, 1, (char *[]){ path }, &words));
}

/* Words parted by blanks, before and after. */
static void assert_first(const char *line, const char *want)
{
    static char words[16][64];
    char got[256] = "", *argv[16];
    int argc = 0;
    for (str rest = str_of(line); rest.n > 0; argc++) {
        assert_true(str_to_cstr(str_split(&rest, ' '), words[argc], sizeof words[argc]));
        argv[argc] = words[argc];
    }
    assert_int_equal(args_verb_first(verbs, argc, argv) > 0,
                     line[0] == '-' && strcmp(line, want) != 0);
    for (int i = 0; i < argc; i++)
        (void)snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i > 0 ? " " : "",
                       argv[i]);
    assert_string_equal(got, want);
}

static void options_of_every_verb_move_behind_it(void **state)
{
    (void)state;
    assert_first("--json get a", "get --json a");
    assert_first("--server s --domain=d get a --json", "get --server s --domain=d a --json");
    assert_first("--json import --domain d git", "import git --json --domain d");
    assert_first("--json change rules check f", "change rules check --json f");
    assert_first("change --json rules --domain d check f",
                 "change rules check --json --domain d f");
    assert_first("change --json rules", "change rules --json");
    assert_first("change rules --json x check", "change rules --json x check");
    assert_first("import --json x", "import --json x");
    assert_first("import --json", "import --json");
    assert_first("--json", "--json");
    assert_first("--server", "--server");
    assert_first("--domain get", "--domain get");
    assert_first("--output x get", "--output x get");
    assert_first("--json --output x get", "--output --json x get");
    assert_first("-- get", "-- get");
    assert_first("get -- --json", "get -- --json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_and_operands_come_in_any_order),
        cmocka_unit_test(letters_take_values_joined_or_apart),
        cmocka_unit_test(options_of_every_verb_move_behind_it),
        cmocka_unit_test(the_last_value_wins),
        cmocka_unit_test(two_dashes_end_options),
        cmocka_unit_test(wrong_lines_say_what_is_wrong),
        cmocka_unit_test(words_are_utf8_unless_they_name_files),
        cmocka_unit_test(help_needs_no_operands),
        cmocka_unit_test(the_longest_verb_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
