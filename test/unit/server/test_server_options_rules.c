/* Goal: rules of a configuration are read with it, all their faults are told, and a reload says
 * which of them differ. Method: texts of files, without a server. */
#include "../cmocka_all.h"

#include "rule/rule.h"
#include "server/options.h"

#include <string.h>

static void note_line(void *ctx, const char *line)
{
    buf_printf(ctx, "%s\n", line);
}

static const char *text_of(struct buf *b)
{
    buf_put_c(b, '\0');
    return b->p;
}

static struct options *read_fine(const char *yaml)
{
    struct options *o = options_new();
    struct err_note note = { .text = "" };
    if (options_yaml(o, str_of(yaml), "f.yaml", &note) != ERR_OK ||
        options_finish(o, &note) != ERR_OK)
        fail_msg("%s", note.text);
    return o;
}

static void rules_are_read_with_the_options(void **state)
{
    (void)state;
    struct options *o =
        read_fine("domains: [a]\n"
                  "change:\n"
                  "  retention: 1d\n"
                  "  rules:\n"
                  "    jobs: { match: { stream: \"mediawiki.job.*\" }, effect: job,\n"
                  "            targets: [\"http://h/x\"] }\n"
                  "    known: { match: { stream: x }, effect: drop }\n");
    const struct rule_set *set = options_config(o)->change.rules;
    assert_non_null(set);
    assert_int_equal(rule_set_count(set), 2);
    assert_non_null(rule_set_find(set, STR("jobs")));
    assert_int_equal(rule_set_find(set, STR("jobs"))->line, 5);
    options_free(&o);
    o = read_fine("change: { retention: 1d }\n");
    assert_null(options_config(o)->change.rules);
    options_free(&o);
    o = read_fine("change:\n  rules:\n");
    assert_int_equal(rule_set_count(options_config(o)->change.rules), 0);
    options_free(&o);
}

static void all_faults_of_rules_are_told_with_file_line_and_rule(void **state)
{
    (void)state;
    struct options *o = options_new();
    struct err_note note = { .text = "" };
    struct buf lines;
    buf_init(&lines, 4096);
    const char *yaml = "page: { grace_ttl: 1d }\n"
                       "change:\n"
                       "  rules:\n"
                       "    a: { match: { stream: x }, effect: look, url: y }\n"
                       "    b:\n"
                       "      match: { stream: x }\n"
                       "      effect: fly\n"
                       "    B: { match: { stream: x }, effect: drop }\n"
                       "no_such: 1\n";
    assert_int_equal(options_yaml(o, str_of(yaml), "f.yaml", &note), ERR_BAD);
    options_faults(o, &note, note_line, &lines);
    assert_string_equal(
        text_of(&lines),
        "f.yaml:4: a: url is a field of http, and the effect is look\n"
        "f.yaml:7: b: effect \"fly\" is none of look, purge, http, job, produce, timeline and "
        "drop\n"
        "f.yaml:8: change.rules: \"B\" is no name of a rule: 1 to 64 of a-z, 0-9, _ and -\n");
    assert_true(str_starts(str_of(lines.p), str_of(note.text)));
    assert_null(strchr(note.text, '\n'));
    options_free(&o);
    buf_clear(&lines);
    o = options_new(); /* of other options the first */
    assert_int_equal(options_yaml(o, STR("page: { grace_ttl: soon }\n"), "f.yaml", &note), ERR_BAD);
    options_faults(o, &note, note_line, &lines);
    assert_string_equal(text_of(&lines), "f.yaml:1: page.grace_ttl: \"soon\" is no duration "
                                         "(500ms, 2s, 5m, 1h, 7d, never)\n");
    options_free(&o);
    buf_fini(&lines);
}

static void rules_stand_in_the_file_alone(void **state)
{
    (void)state;
    static const char *const names[] = { "change.rules", "change.rules.jobs",
                                         "change.rules.jobs.effect" };
    struct options_from from = { .file = "command line" };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct options *o = options_new();
        struct err_note note, wanted;
        assert_int_equal(options_set(o, str_of(names[i]), STR("x"), from, &note), ERR_BAD);
        err_note_set(&wanted,
                     "command line: %s: rules stand in the configuration file alone, as a "
                     "section",
                     names[i]);
        assert_string_equal(note.text, wanted.text);
        options_free(&o);
    }
    char variable[] = "PALIMPSEST_CHANGE_RULES=x";
    char *const envp[] = { variable, NULL };
    struct options *o = options_new();
    struct err_note note;
    assert_int_equal(options_environment(o, envp, NULL, NULL, &note), ERR_BAD);
    assert_string_equal(note.text, "environment: change.rules: rules stand in the configuration "
                                   "file alone, as a section");
    options_free(&o);
    o = options_new();
    assert_int_equal(options_yaml(o, STR("rules: { a: {} }\n"), "f.yaml", &note), ERR_BAD);
    assert_string_equal(note.text,
                        "f.yaml:1: rules: of a configuration stand below change: (change: rules:)");
    options_free(&o);
}

static void a_limit_of_a_domain_that_nobody_configured_is_doubted(void **state)
{
    (void)state;
    struct buf lines;
    buf_init(&lines, 4096);
    struct options *o =
        read_fine("domains: [a]\n"
                  "change:\n"
                  "  rules:\n"
                  "    r: { match: { stream: x }, effect: http, url: \"http://h/\",\n"
                  "         concurrency_of: { domain: { a: 1, b: 2, \"*\": 3 } } }\n");
    options_doubts(o, note_line, &lines);
    assert_string_equal(text_of(&lines), "f.yaml:4: r: concurrency_of limits the domain b, which "
                                         "is not configured\n");
    options_free(&o);
    buf_fini(&lines);
}

static void a_cache_that_is_not_purged_of_all_is_doubted(void **state)
{
    (void)state;
    struct buf lines;
    buf_init(&lines, 4096);
    struct options *o = read_fine("domains: [a]\n"
                                  "change:\n"
                                  "  rules:\n"
                                  "    r: { match: { stream: palimpsest.render }, effect: purge,\n"
                                  "         targets: [\"http://h\"], urls: [/x], edge_ttl: 1d }\n");
    options_doubts(o, note_line, &lines);
    assert_true(str_starts(buf_str(&lines), STR("f.yaml:4: r: edge_ttl is of no use: no rule "
                                                "purges http://h for palimpsest.gone")));
    options_free(&o);
    buf_fini(&lines);
}

static void a_rule_that_feeds_the_events_is_doubted(void **state)
{
    (void)state;
    struct buf lines;
    buf_init(&lines, 4096);
    struct options *o = read_fine(
        "change:\n"
        "  rules:\n"
        "    a: { match: { stream: x }, effect: http, url: \"http://h:1/v1/events?a=b\" }\n"
        "    b: { match: { stream: x }, effect: http, url: \"http://h/v1/events/{title}\" }\n"
        "    c: { match: { stream: x }, effect: http, url: \"http://h\" }\n"
        "    d: { match: { stream: x }, effect: drop }\n");
    options_doubts(o, note_line, &lines);
    assert_string_equal(text_of(&lines), "f.yaml:3: a: url leads to /v1/events: if a rule matches "
                                         "what comes of it, they feed each other\n");
    options_free(&o);
    buf_fini(&lines);
}

static void note_change(void *ctx, const char *name, const char *how, bool taken)
{
    buf_printf(ctx, "%s %s%s\n", name, how == NULL ? "-" : how, taken ? "" : "?");
}

static void a_reload_says_which_rules_differ(void **state)
{
    (void)state;
    struct buf names;
    buf_init(&names, 4096);
    struct options *o = read_fine("change:\n"
                                  "  rules:\n"
                                  "    same: { match: { stream: x }, effect: drop }\n"
                                  "    other: { match: { stream: x }, effect: look }\n"
                                  "    gone: { match: { stream: x }, effect: drop }\n");
    struct options *fresh = read_fine("change:\n"
                                      "  bytes_max: 2G\n"
                                      "  rules:\n"
                                      "    new: { match: { stream: x }, effect: drop }\n"
                                      "    same: { match: { stream: x }, effect: drop }\n"
                                      "    other: { match: { stream: y }, effect: look }\n");
    options_take_over(o, fresh, note_change, &names);
    assert_string_equal(text_of(&names), "change.bytes_max -\n"
                                         "change.rules.new added\n"
                                         "change.rules.other changed\n"
                                         "change.rules.gone removed\n");
    assert_int_equal(rule_set_find(options_config(o)->change.rules, STR("same"))->line, 5);
    buf_clear(&names);
    options_take_over(o, fresh, note_change, &names);
    assert_string_equal(text_of(&names), "");
    options_free(&fresh); /* the rules live on */
    assert_int_equal(rule_set_count(options_config(o)->change.rules), 3);
    fresh = read_fine("change: { bytes_max: 2G }\n");
    options_take_over(o, fresh, note_change, &names);
    assert_null(options_config(o)->change.rules);
    options_take_over(o, fresh, note_change, &names);
    options_free(&fresh);
    fresh = read_fine(
        "change: { bytes_max: 2G, rules: { a: { match: { stream: x }, effect: drop } } }");
    buf_clear(&names);
    options_take_over(o, fresh, note_change, &names);
    assert_string_equal(text_of(&names), "change.rules.a added\n");
    options_free(&fresh);
    options_free(&o);
    buf_fini(&names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_are_read_with_the_options),
        cmocka_unit_test(all_faults_of_rules_are_told_with_file_line_and_rule),
        cmocka_unit_test(rules_stand_in_the_file_alone),
        cmocka_unit_test(a_limit_of_a_domain_that_nobody_configured_is_doubted),
        cmocka_unit_test(a_cache_that_is_not_purged_of_all_is_doubted),
        cmocka_unit_test(a_rule_that_feeds_the_events_is_doubted),
        cmocka_unit_test(a_reload_says_which_rules_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
