/* Goal: a rule matches the events that its conditions say, and says which condition failed. What
 * cannot be decided is no match. Method: a table of conditions over a few events. */
#include "rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EDIT                                                                                       \
    "{\"meta\":{\"stream\":\"mediawiki.page_change.v1\",\"dt\":\"2026-01-01T23:00:00Z\"},"         \
    "\"page_change_kind\":\"edit\",\"page\":{\"page_title\":\"Talk:A b\",\"page_id\":7,"           \
    "\"is_redirect\":false,\"tags\":[\"x\"]},\"revision\":{\"rev_id\":42},\"comment\":\"\","       \
    "\"note\":null,\"p\\u0061th\":\"/x/\",\"esc\":\"a\\u00e9\\n\"}"
#define RENDER                                                                                     \
    "{\"meta\":{\"stream\":\"palimpsest.gone\"},\"bucket\":\"page\",\"page_title\":\"T\","         \
    "\"rev_id\":1,\"tid\":\"6f0e\",\"kind\":\"culled\"}"

static enum rule_answer ask(const char *match, struct rule_given given, struct err_note *why)
{
    struct rule_verdict v;
    struct rule_set *s = rules_matching(match);
    struct rule_event *e = rule_event_new(s);
    assert_int_equal(rule_event_begin(e, &given), ERR_OK);
    rule_match(e, rule_set_at(s, 0), &v);
    rule_why(e, rule_set_at(s, 0), &v, why);
    rule_event_free(&e);
    rule_set_unref(&s);
    return v.answer;
}

static const struct {
    const char *match, *why;
} edits[] = {
    { "{ stream: \"*\" }", NULL },
    { "{ stream: mediawiki.page_change.v1 }", NULL },
    { "{ stream: \"mediawiki.*.v1\" }", NULL },
    { "{ stream: \"mediawiki.*.v2\" }",
      "line 1: stream is \"mediawiki.page_change.v1\", not \"mediawiki.*.v2\"" },
    { "{ stream: \"*media*page*\" }", NULL },
    { "{ \"meta.stream\": [a, \"*_change.*\"] }", NULL },
    { "{ stream: { equal: \"*\" } }", "line 1: stream is \"mediawiki.page_change.v1\", not \"*\"" },
    { "{ domain: en.test }", NULL },
    { "{ domain: \"*.test\" }", NULL },
    { "{ domain: [a, b] }", "line 1: domain is \"en.test\", none of 2 values" },
    { "{ title: \"Talk:A b\" }", NULL },
    { "{ title: \"*\" }", "line 1: title is \"Talk:A b\", not \"*\"" },
    { "{ title: /^Talk:/ }", NULL },
    { "{ title: /^talk:/ }", "line 1: title is \"Talk:A b\", not \"/^talk:/\"" },
    { "{ title: /^talk:/i }", NULL },
    { "{ title: { pattern: \"^.alk\" } }", NULL },
    { "{ kind: edit }", NULL },
    { "{ rev: 42 }", NULL },
    { "{ rev: \"42\" }", NULL },
    { "{ page.page_id: 7 }", NULL },
    { "{ page.page_id: [8, /7/] }", NULL },
    { "{ page.page_id: 7.0 }", "line 1: page.page_id is \"7\", not \"7.0\"" },
    { "{ page.is_redirect: false }", NULL },
    { "{ page.is_redirect: true }", "line 1: page.is_redirect is \"false\", not \"true\"" },
    { "{ comment: \"\" }", NULL },
    { "{ comment: { present: true } }", NULL },
    { "{ note: { absent: true } }", NULL },
    { "{ note: { present: true } }", "line 1: note is not there" },
    { "{ page: { present: true } }", NULL },
    { "{ page: { absent: true } }", "line 1: page is there" },
    { "{ page: x }", "line 1: page is no text" },
    { "{ page.tags: x }", "line 1: page.tags is no text" },
    { "{ page.tags.x: x }", "line 1: page.tags.x is not there" },
    { "{ comment.x: { absent: true } }", NULL },
    { "{ a.b.c: { absent: true } }", NULL },
    { "{ path: { equal: /x/ } }", NULL },
    { "{ esc: /\xc3\xa9$/ }", "line 1: esc is \"a\xc3\xa9\n\", not \"/\xc3\xa9$/\"" },
    { "{ esc: /a.\\s$/ }", NULL },
    { "{ tid: { absent: true } }", NULL },
    { "{ title: /Talk/, domain: fr.test }", "line 1: domain is \"en.test\", not \"fr.test\"" },
    { "{ all: [{ domain: en.test }, { rev: 42 }] }", NULL },
    { "{ all: [{ domain: en.test }, { rev: 43 }] }", "line 1: rev is \"42\", not \"43\"" },
    { "{ any: [{ rev: 43 }, { rev: 42 }] }", NULL },
    { "{ any: [{ rev: 43 }, { rev: 44 }] }", "line 1: nothing in any holds" },
    { "{ any: { rev: 42, domain: fr.test } }", "line 1: nothing in any holds" },
    { "{ not: [{ rev: 43 }, { rev: 44 }] }", NULL },
    { "{ not: [{ rev: 43 }, { rev: 42 }] }", "line 1: something in not holds" },
    { "{ not: { rev: 42, domain: fr.test } }", NULL },
    { "{ not: { not: { rev: 42 } } }", NULL },
    { "{ rev: 42, any: [{ kind: x }, { not: { any: [{ kind: a }, { kind: b }] } }] }", NULL },
    { "{ all: [{ stream: \"*\" }, { domain: en.test }], not: [{ \"meta.stream\": "
      "\"mediawiki.job.*\" }] }",
      NULL },
};

static void an_event_matches_what_is_said_of_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(edits); i++) {
        struct err_note why;
        enum rule_answer got =
            ask(edits[i].match, rules_given("mediawiki.page_change.v1", "en.test", EDIT), &why);
        const char *want = edits[i].why == NULL ? "it matches" : edits[i].why;
        if (strcmp(why.text, want) != 0 || (got == RULE_MATCHES) != (edits[i].why == NULL))
            fail_msg("%s: %s; wanted %s", edits[i].match, why.text, want);
    }
}

static void events_of_the_store_have_the_same_words(void **state)
{
    (void)state;
    struct err_note why;
    struct rule_given given = rules_given("palimpsest.gone", "", RENDER);
    assert_int_equal(ask("{ title: T, rev: 1, kind: culled, tid: 6f0e }", given, &why),
                     RULE_MATCHES);
    assert_int_equal(ask("{ domain: { absent: true } }", given, &why), RULE_MATCHES);
    assert_int_equal(ask("{ domain: en.test }", given, &why), RULE_DIFFERS);
}

static void captures_are_those_of_what_held(void **state)
{
    (void)state;
    struct rule_set *s = rules_matching(
        "{ title: \"/^(?<ns>\\\\w+):(?<rest>.*)$/\", any: [{ kind: \"/(?<k>e).(?<no>x)?/\", rev: 1 "
        "}, { domain: \"/^(?<k>..)/\" }], not: { domain: \"/(?<no>zz)/\" } }");
    struct rule_event *e = rule_event_new(s);
    struct rule_given given = rules_given("s", "en.test", EDIT);
    struct rule_verdict v;
    const struct rule *r = rule_set_at(s, 0);
    assert_int_equal(rule_event_begin(e, &given), ERR_OK);
    rule_match(e, r, &v);
    assert_int_equal(v.answer, RULE_MATCHES);
    assert_int_equal(r->captures_count, 4);
    for (unsigned i = 0; i < r->captures_count; i++) {
        str want = str_eq(r->captures[i], STR("ns"))     ? STR("Talk")
                   : str_eq(r->captures[i], STR("rest")) ? STR("A b")
                   : str_eq(r->captures[i], STR("k"))    ? STR("en")
                                                         : STR_NONE;
        assert_true(str_eq(v.captures[i], want));
        assert_true((v.captures[i].p == NULL) == (want.p == NULL));
    }
    rule_event_free(&e);
    rule_set_unref(&s);
}

static void what_cannot_be_decided_is_no_match(void **state)
{
    (void)state;
    static const char *const twice[] = { "{ title: a }", "{ title: b }", "{ not: { title: a } }",
                                         "{ title: { absent: true } }",
                                         "{ any: [{ title: a }, { domain: x }] }" };
    struct rule_given given =
        rules_given("s", "d", "{\"page_title\":\"a\",\"page\\u005ftitle\":\"b\"}");
    struct err_note why;
    for (size_t i = 0; i < COUNT_OF(twice); i++) {
        assert_int_equal(ask(twice[i], given, &why), RULE_OPEN);
        assert_string_equal(why.text, "line 1: the event has title twice");
    }
    assert_int_equal(ask("{ any: [{ title: a }, { domain: d }] }", given, &why), RULE_MATCHES);
    given = rules_given("s", "d", "{\"a\":{\"b\":1},\"a\":{\"b\":1}}");
    assert_int_equal(ask("{ a.b: 1 }", given, &why), RULE_OPEN);
    assert_int_equal(ask("{ c: { absent: true } }", given, &why), RULE_MATCHES);
}

static void a_pattern_has_its_limit_and_that_is_counted(void **state)
{
    (void)state;
    char *text = malloc(RULE_SUBJECT_BYTES_MAX + 64);
    assert_non_null(text);
    struct rule_set *s =
        rules_of("rules:\n  slow:\n    effect: drop\n    match:\n"
                 "      title: \"/^(a+)+$/\"\n"
                 "  not_slow: { effect: drop, match: { not: { title: /^(a+)+$/ } } "
                 "}\n"
                 "  long: { effect: drop, match: { title: /a/ } }\n");
    struct rule_event *e = rule_event_new(s);
    struct rule_verdict v;
    struct err_note why;
    struct rule_given given =
        rules_given("s", "d", "{\"page_title\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\"}");
    assert_int_equal(rule_event_begin(e, &given), ERR_OK);
    rule_match(e, rule_set_at(s, 0), &v);
    assert_int_equal(v.answer, RULE_OPEN);
    rule_why(e, rule_set_at(s, 0), &v, &why);
    assert_string_equal(why.text, "line 5: title is too much for the pattern: 100000 steps and "
                                  "65536 bytes are the limits");
    assert_int_equal(rule_event_open(e), 1);
    rule_match(e, rule_set_at(s, 1), &v);
    assert_int_equal(v.answer, RULE_OPEN);
    assert_int_equal(rule_event_open(e), 2);
    rule_match(e, rule_set_at(s, 2), &v);
    assert_int_equal(v.answer, RULE_MATCHES);
    size_t n = (size_t)snprintf(text, 32, "{\"page_title\":\"");
    memset(text + n, 'a', RULE_SUBJECT_BYTES_MAX + 1);
    memcpy(text + n + RULE_SUBJECT_BYTES_MAX + 1, "\"}", 3);
    given.bytes = str_of(text);
    assert_int_equal(rule_event_begin(e, &given), ERR_OK);
    rule_match(e, rule_set_at(s, 2), &v);
    assert_int_equal(v.answer, RULE_OPEN);
    rule_event_free(&e);
    rule_set_unref(&s);
    free(text);
}

static void what_is_no_event_is_refused_and_the_next_one_is_not(void **state)
{
    (void)state;
    static const char *const bad[] = { "",    "[]",           "1",         "{",
                                       "{}x", "{\"a\":\xff}", "{\"a\" 1}", "{\"a\":\"\xc0\x80\"}" };
    struct rule_set *s = rules_matching("{ title: a }");
    struct rule_event *e = rule_event_new(s);
    struct rule_verdict v;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct rule_given given = rules_given("s", "d", bad[i]);
        assert_int_equal(rule_event_begin(e, &given), ERR_BAD);
        given.bytes = STR(" {\"page_title\" : \"a\"} ");
        assert_int_equal(rule_event_begin(e, &given), ERR_OK);
        rule_match(e, rule_set_at(s, 0), &v);
        assert_int_equal(v.answer, RULE_MATCHES);
        given.bytes = STR("{}");
        assert_int_equal(rule_event_begin(e, &given), ERR_OK);
        rule_match(e, rule_set_at(s, 0), &v);
        assert_int_equal(v.answer, RULE_DIFFERS);
    }
    rule_event_free(&e);
    rule_set_unref(&s);
}

static void a_sample_takes_its_share_of_titles_and_all_of_each(void **state)
{
    (void)state;
    struct rule_set *s =
        rules_of("rules: { r: { match: { stream: \"*\" }, effect: drop, sample: 10% } }");
    struct rule_event *e = rule_event_new(s);
    struct rule_verdict v;
    unsigned taken = 0;
    for (unsigned i = 0; i < 2000; i++) {
        char text[128];
        bool first = false;
        for (unsigned again = 0; again < 2; again++) {
            snprintf(text, sizeof text, "{\"page_title\":\"T%u\",\"rev_id\":%u}", i, again);
            struct rule_given given = rules_given("s", "d", text);
            assert_int_equal(rule_event_begin(e, &given), ERR_OK);
            rule_match(e, rule_set_at(s, 0), &v);
            assert_true(v.answer == RULE_MATCHES || v.answer == RULE_NOT_SAMPLED);
            assert_true(again == 0 || first == (v.answer == RULE_MATCHES));
            first = v.answer == RULE_MATCHES;
        }
        taken += first;
    }
    assert_in_range(taken, 140, 260);
    rule_event_free(&e);
    rule_set_unref(&s);
}

static void an_event_too_old_for_its_rule_is_told(void **state)
{
    static const struct {
        const char *bytes;
        int64_t taken_s_ago;
        enum rule_answer want;
        const char *why;
    } ages[] = {
        { "{\"meta\":{\"dt\":\"2026-01-01T23:00:00Z\"}}", 0, RULE_MATCHES, "it matches" },
        { "{\"meta\":{\"dt\":\"2026-01-01T22:59:59Z\"}}", 0, RULE_TOO_OLD,
          "claim_ttl: it is too old" },
        { "{\"meta\":{\"dt\":\"2030-01-01T00:00:00Z\"}}", 0, RULE_MATCHES, "it matches" },
        { "{\"meta\":{\"dt\":\"yesterday\"}}", 0, RULE_MATCHES, "it matches" },
        { "{}", 3601, RULE_TOO_OLD, "claim_ttl: it is too old" },
        { "{}", 3600, RULE_MATCHES, "it matches" },
        { "{\"root_event\":{\"dt\":\"2025-12-26T00:00:00Z\"}}", 0, RULE_MATCHES, "it matches" },
        { "{\"root_event\":{\"dt\":\"2025-12-25T00:00:00Z\"}}", 0, RULE_TOO_OLD,
          "root_claim_ttl: it is too old" },
    };
    (void)state;
    struct rule_set *s = rules_of("rules: { r: { match: { stream: \"*\" }, effect: drop, "
                                  "claim_ttl: 1h, root_claim_ttl: 7d } }");
    struct rule_event *e = rule_event_new(s);
    for (size_t i = 0; i < COUNT_OF(ages); i++) {
        struct rule_verdict v;
        struct err_note why;
        struct rule_given given = rules_given("s", "d", ages[i].bytes);
        given.at.ns -= ages[i].taken_s_ago * NS_PER_S;
        assert_int_equal(rule_event_begin(e, &given), ERR_OK);
        rule_match(e, rule_set_at(s, 0), &v);
        assert_int_equal(v.answer, ages[i].want);
        rule_why(e, rule_set_at(s, 0), &v, &why);
        assert_string_equal(why.text, ages[i].why);
    }
    rule_event_free(&e);
    rule_set_unref(&s);
}

static void a_stream_is_wanted_unless_conditions_on_streams_exclude_it(void **state)
{
    static const struct {
        const char *match;
        bool wanted;
    } rows[] = {
        { "{ stream: palimpsest.render }", true },
        { "{ stream: palimpsest.gone }", false },
        { "{ meta.stream: palimpsest.gone }", false },
        { "{ stream: [palimpsest.gone, palimpsest.render] }", true },
        { "{ stream: \"palimpsest.*\" }", true },
        { "{ stream: \"mediawiki.*\" }", false },
        { "{ stream: { equal: \"palimpsest.*\" } }", false },
        { "{ stream: { present: true } }", true },
        { "{ stream: { absent: true } }", false },
        { "{ stream: /^palimpsest/ }", true },
        { "{ stream: /^mediawiki/ }", false },
        { "{ domain: en.test }", true },
        { "{ title: /^Talk:/, stream: x }", false },
        { "{ all: [{ stream: \"*\" }, { stream: x }] }", false },
        { "{ all: [{ stream: \"*\" }, { domain: x }] }", true },
        { "{ any: [{ stream: x }, { stream: \"palimpsest.*\" }] }", true },
        { "{ any: [{ stream: x }, { domain: en.test }] }", true },
        { "{ any: [{ stream: x }, { stream: y }] }", false },
        { "{ domain: d, not: [{ stream: \"mediawiki.*\" }] }", true },
        { "{ domain: d, not: [{ stream: \"palimpsest.*\" }] }", false },
        { "{ domain: d, not: [{ stream: \"palimpsest.*\", domain: e }] }", true },
        { "{ domain: d, not: [{ stream: x, domain: e }, { kind: y }] }", true },
        { "{ domain: d, not: { not: { stream: \"mediawiki.*\" } } }", false },
        { "{ domain: d, not: { any: [{ stream: \"*\" }, { kind: x }] } }", false },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[512];
        (void)snprintf(text, sizeof text, "rules: { r: { match: %s, effect: look } }",
                       rows[i].match);
        struct rule_set *s = rules_of(text);
        if (rule_set_may_want(s, STR("palimpsest.render")) != rows[i].wanted)
            fail_msg("%s", rows[i].match);
        rule_set_unref(&s);
    }
}

static void what_is_dropped_and_no_rules_want_no_stream(void **state)
{
    (void)state;
    struct rule_set *s = rules_of("rules: { r: { match: { stream: \"*\" }, effect: drop } }");
    assert_false(rule_set_may_want(s, STR("palimpsest.render")));
    rule_set_unref(&s);
    s = rules_of("rules: {}");
    assert_false(rule_set_may_want(s, STR("palimpsest.render")));
    assert_false(rule_set_may_want(NULL, STR("palimpsest.render")));
    rule_set_unref(&s);
    s = rules_of("rules: { r: { match: { stream: \"*\" }, effect: drop },\n"
                 "  s: { match: { stream: a }, effect: look },\n"
                 "  t: { match: { stream: palimpsest.gone }, effect: look } }");
    assert_false(rule_set_may_want(s, STR("palimpsest.render")));
    assert_true(rule_set_may_want(s, STR("palimpsest.gone")));
    assert_true(rule_set_may_want(s, STR("a")));
    rule_set_unref(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_matches_what_is_said_of_it),
        cmocka_unit_test(events_of_the_store_have_the_same_words),
        cmocka_unit_test(captures_are_those_of_what_held),
        cmocka_unit_test(what_cannot_be_decided_is_no_match),
        cmocka_unit_test(a_pattern_has_its_limit_and_that_is_counted),
        cmocka_unit_test(what_is_no_event_is_refused_and_the_next_one_is_not),
        cmocka_unit_test(a_sample_takes_its_share_of_titles_and_all_of_each),
        cmocka_unit_test(an_event_too_old_for_its_rule_is_told),
        cmocka_unit_test(a_stream_is_wanted_unless_conditions_on_streams_exclude_it),
        cmocka_unit_test(what_is_dropped_and_no_rules_want_no_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
