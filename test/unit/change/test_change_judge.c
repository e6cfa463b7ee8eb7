/* Goal: each answer means for its item what docs/rules.md says. Method: a table of rules and
 * answers. */
#include "change/judge.h"

#include "../rule/rules.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

static const char text[] =
    "rules:\n"
    "  hook: { match: { stream: \"*\" }, effect: http, url: \"http://h/\" }\n"
    "  listed: { match: { stream: \"*\" }, effect: http, url: \"http://h/\", ok: [201, 303, 429], "
    "ignore: [404, 412, 503] }\n"
    "  job: { match: { stream: \"*\" }, effect: job, targets: \"http://h/run\" }\n"
    "  edge: { match: { stream: \"*\" }, effect: purge, targets: \"http://h\", urls: \"/x\" }\n";

#define DONE CHANGE_DONE
#define IGNORED CHANGE_IGNORED
#define FAILED CHANGE_FAILED
#define PAUSED CHANGE_PAUSED
#define HOPELESS CHANGE_HOPELESS
#define NONE NULL

static const struct {
    const char *rule;
    int status;
    bool read_only;
    const char *retry_after; /* NONE: not said */
    enum change_fate fate;
    int64_t wait_s;
    const char *text;
} replies[] = {
    { "hook", 200, false, NONE, DONE, 0, "" },
    { "hook", 204, false, "7", DONE, 0, "" },
    { "hook", 299, false, NONE, DONE, 0, "" },
    { "hook", 301, false, NONE, FAILED, 0, "HTTP 301: redirects are not followed: line" },
    { "hook", 304, false, NONE, FAILED, 0, "HTTP 304: redirects are not followed: line" },
    { "hook", 400, false, NONE, FAILED, 0, "HTTP 400: line" },
    { "hook", 403, false, NONE, FAILED, 0, "HTTP 403: line" },
    { "hook", 404, false, NONE, FAILED, 0, "HTTP 404: line" },
    { "hook", 405, false, NONE, FAILED, 0, "HTTP 405: line" },
    { "hook", 412, false, NONE, FAILED, 0, "HTTP 412: line" },
    { "hook", 423, false, NONE, PAUSED, 0, "HTTP 423: the wiki is read-only: line" },
    { "hook", 429, false, NONE, PAUSED, 0, "HTTP 429: the target asks for fewer requests: line" },
    { "hook", 429, false, "30", PAUSED, 30, "HTTP 429: the target asks for fewer requests: line" },
    { "hook", 500, false, NONE, FAILED, 0, "HTTP 500: line" },
    { "hook", 500, false, "30", FAILED, 0, "HTTP 500: line" },
    { "hook", 500, true, NONE, PAUSED, 0, "HTTP 500: the wiki is read-only: line" },
    { "hook", 501, false, NONE, FAILED, 0, "HTTP 501: line" },
    { "hook", 503, false, NONE, FAILED, 0, "HTTP 503: line" },
    { "hook", 503, false, "30", PAUSED, 30, "HTTP 503: the target asks to be left alone: line" },
    { "hook", 503, true, NONE, PAUSED, 0, "HTTP 503: the wiki is read-only: line" },
    { "hook", 200, true, NONE, PAUSED, 0, "HTTP 200: the wiki is read-only: line" },
    { "hook", 100, false, NONE, FAILED, 0, "HTTP 100: line" },
    { "hook", 599, false, NONE, FAILED, 0, "HTTP 599: line" },
    /* what a rule names wins over all else; what it does not name is not ok */
    { "listed", 201, false, NONE, DONE, 0, "" },
    { "listed", 201, true, NONE, DONE, 0, "" },
    { "listed", 303, false, NONE, DONE, 0, "" },
    { "listed", 429, false, "9", DONE, 0, "" },
    { "listed", 404, false, NONE, IGNORED, 0, "HTTP 404: line" },
    { "listed", 412, true, NONE, IGNORED, 0, "HTTP 412: line" },
    { "listed", 503, false, "9", IGNORED, 0, "HTTP 503: line" },
    { "listed", 200, false, NONE, FAILED, 0, "HTTP 200: line" },
    { "listed", 302, false, NONE, FAILED, 0, "HTTP 302: redirects are not followed: line" },
    { "listed", 423, false, NONE, PAUSED, 0, "HTTP 423: the wiki is read-only: line" },
    /* jobs */
    { "job", 200, false, NONE, DONE, 0, "" },
    { "job", 202, false, NONE, DONE, 0, "" },
    { "job", 307, false, NONE, FAILED, 0, "HTTP 307: redirects are not followed: line" },
    { "job", 400, false, NONE, HOPELESS, 0, "HTTP 400: the wiki cannot read this job: line" },
    { "job", 400, true, NONE, PAUSED, 0, "HTTP 400: the wiki is read-only: line" },
    { "job", 401, false, NONE, PAUSED, 0, "HTTP 401: the runner wants a password: line" },
    { "job", 403, false, NONE, HOPELESS, 0,
      "HTTP 403: the wiki refuses the job's signature: line" },
    { "job", 404, false, NONE, PAUSED, 0, "HTTP 404: no runner is at this URL: line" },
    { "job", 405, false, NONE, PAUSED, 0, "HTTP 405: no runner is at this URL: line" },
    { "job", 408, false, NONE, FAILED, 0, "HTTP 408: line" },
    { "job", 412, false, NONE, FAILED, 0, "HTTP 412: line" },
    { "job", 413, false, NONE, FAILED, 0, "HTTP 413: line" },
    { "job", 423, false, "60", PAUSED, 60, "HTTP 423: the wiki is read-only: line" },
    { "job", 429, false, NONE, PAUSED, 0, "HTTP 429: the target asks for fewer requests: line" },
    { "job", 500, false, NONE, FAILED, 0, "HTTP 500: line" },
    { "job", 500, true, "5", PAUSED, 5, "HTTP 500: the wiki is read-only: line" },
    { "job", 501, false, NONE, PAUSED, 0,
      "HTTP 501: the wiki does not run jobs at this URL yet: line" },
    { "job", 502, false, NONE, FAILED, 0, "HTTP 502: line" },
    { "job", 503, false, NONE, FAILED, 0, "HTTP 503: line" },
    { "job", 503, false, "5", PAUSED, 5, "HTTP 503: the target asks to be left alone: line" },
    { "job", 504, false, NONE, FAILED, 0, "HTTP 504: line" },
    /* purges */
    { "edge", 200, false, NONE, DONE, 0, "" },
    { "edge", 302, false, NONE, FAILED, 0, "HTTP 302: redirects are not followed: line" },
    { "edge", 400, false, NONE, FAILED, 0, "HTTP 400: line" },
    { "edge", 403, false, NONE, FAILED, 0, "HTTP 403: line" },
    { "edge", 404, false, NONE, IGNORED, 0, "HTTP 404: there was nothing to purge: line" },
    { "edge", 405, false, NONE, FAILED, 0, "HTTP 405: the target does not take PURGE: line" },
    { "edge", 412, false, NONE, IGNORED, 0, "HTTP 412: there was nothing to purge: line" },
    { "edge", 423, false, NONE, PAUSED, 0, "HTTP 423: the wiki is read-only: line" },
    { "edge", 429, false, NONE, PAUSED, 0, "HTTP 429: the target asks for fewer requests: line" },
    { "edge", 500, false, NONE, FAILED, 0, "HTTP 500: line" },
    { "edge", 501, false, NONE, FAILED, 0, "HTTP 501: the target does not take PURGE: line" },
    { "edge", 503, false, "5", PAUSED, 5, "HTTP 503: the target asks to be left alone: line" },
};

/* 1994-11-06T08:49:37Z */
static const wall now = { .ns = INT64_C(784111777) * NS_PER_S };

static struct change_result judge(const struct rule_set *s, const char *rule,
                                  const struct change_answer *a)
{
    struct change_result r;
    memset(&r, 0x5a, sizeof r);
    const struct rule *of = rule_set_find(s, str_of(rule));
    assert_non_null(of);
    change_judge(of, a, now, &r);
    return r;
}

static void a_reply_means_what_its_row_says(void **state)
{
    (void)state;
    struct rule_set *s = rules_of(text);
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        const struct change_answer a = { .sent = true,
                                         .status = replies[i].status,
                                         .read_only = replies[i].read_only,
                                         .retry_after = str_of(replies[i].retry_after),
                                         .line = STR("line") };
        struct change_result r = judge(s, replies[i].rule, &a);
        if (r.fate != replies[i].fate || r.wait_ns != replies[i].wait_s * NS_PER_S ||
            strcmp(r.text, replies[i].text) != 0)
            fail_msg("%s, %d: %s, %lld ns, \"%s\"", replies[i].rule, replies[i].status,
                     change_fate_name(r.fate), (long long)r.wait_ns, r.text);
        assert_int_equal(r.status, replies[i].status);
    }
    rule_set_unref(&s);
}

/* Every status that the client hands over has a fate, for every rule. */
static void no_status_is_without_a_row(void **state)
{
    (void)state;
    struct rule_set *s = rules_of(text);
    for (unsigned i = 0; i < rule_set_count(s); i++) {
        for (int status = 100; status <= 599; status++) {
            const struct change_answer a = { .sent = true, .status = status };
            struct change_result r;
            change_judge(rule_set_at(s, i), &a, now, &r);
            assert_in_range(r.fate, 0, CHANGE_FATES - 1);
            assert_int_not_equal(r.fate, CHANGE_STOPPED);
            assert_int_equal(r.text[0] == '\0', r.fate == DONE);
        }
    }
    rule_set_unref(&s);
}

static const struct {
    err why;
    bool sent;
    enum change_fate fate;
} silences[] = {
    { ERR_SHUTDOWN, false, CHANGE_STOPPED },
    { ERR_SHUTDOWN, true, CHANGE_STOPPED },
    { ERR_UNAVAILABLE, false, PAUSED },
    { ERR_UNAVAILABLE, true, FAILED },
    { ERR_TIMEOUT, false, PAUSED },
    { ERR_TIMEOUT, true, FAILED },
    { ERR_LIMIT, false, PAUSED },
    { ERR_LIMIT, true, FAILED },
    { ERR_BAD, false, HOPELESS },
    { ERR_BAD, true, FAILED },
    { ERR_IO, true, FAILED },
};

static void without_a_reply_it_counts_when_the_target_may_have_had_it(void **state)
{
    (void)state;
    struct rule_set *s = rules_of(text);
    for (size_t i = 0; i < COUNT_OF(silences); i++) {
        for (unsigned k = 0; k < rule_set_count(s); k++) {
            /* What stands in the answer beside the error is not looked at. */
            const struct change_answer a = { .why = silences[i].why,
                                             .sent = silences[i].sent,
                                             .status = 201,
                                             .read_only = true,
                                             .retry_after = STR("5"),
                                             .note = STR("h: no connection") };
            struct change_result r;
            change_judge(rule_set_at(s, k), &a, now, &r);
            if (r.fate != silences[i].fate)
                fail_msg("%s, %s: %s", err_name(silences[i].why),
                         silences[i].sent ? "sent" : "not sent", change_fate_name(r.fate));
            assert_int_equal(r.status, 0);
            assert_int_equal(r.wait_ns, 0);
            assert_string_equal(r.text, "h: no connection");
        }
    }
    rule_set_unref(&s);
}

static const struct {
    const char *said;
    int64_t wait_s;
} waits[] = {
    { "0", 0 },
    { "1", 1 },
    { " 120 ", 120 },
    { "3600", 3600 },
    { "3601", 3600 },
    { "999999999999999", 3600 },
    { "-5", 0 },
    { "", 0 },
    { "soon", 0 },
    { "1.5", 0 },
    { "Sun, 06 Nov 1994 08:49:57 GMT", 20 },
    { "Sunday, 06-Nov-94 08:50:37 GMT", 60 },
    { "Sun Nov  6 08:49:37 1994", 0 },
    { "Sun, 06 Nov 1994 08:00:00 GMT", 0 },
    { "Sun, 06 Nov 2094 08:49:37 GMT", 3600 },
};

static void a_wait_is_seconds_or_a_date_and_an_hour_at_most(void **state)
{
    (void)state;
    struct rule_set *s = rules_of(text);
    for (size_t i = 0; i < COUNT_OF(waits); i++) {
        const struct change_answer a = { .sent = true,
                                         .status = 503,
                                         .retry_after = str_of(waits[i].said) };
        struct change_result r = judge(s, "job", &a);
        assert_int_equal(r.fate, PAUSED);
        if (r.wait_ns != waits[i].wait_s * NS_PER_S)
            fail_msg("\"%s\": %lld ns", waits[i].said, (long long)r.wait_ns);
    }
    rule_set_unref(&s);
}

/* The text of a 500 whose body begins so. */
static void text_of(str line, char out[CHANGE_ERROR_BYTES_MAX + 1])
{
    struct rule_set *s = rules_of(text);
    const struct change_answer a = { .sent = true, .status = 500, .line = line };
    struct change_result r = judge(s, "hook", &a);
    memcpy(out, r.text, sizeof r.text);
    rule_set_unref(&s);
}

static void what_a_target_says_can_be_printed(void **state)
{
    (void)state;
    char got[CHANGE_ERROR_BYTES_MAX + 1];
    text_of(STR(""), got);
    assert_string_equal(got, "HTTP 500");
    text_of(STR("a\x1b[31mb\x7f\x01"), got);
    assert_string_equal(got, "HTTP 500: a?[31mb??");
    text_of(STR("\xc3\xa9\xff\xc2\x9b z"), got); /* e with an accent, no UTF-8, C1 */
    assert_string_equal(got, "HTTP 500: \xc3\xa9??? z");
    char many[4096];
    for (size_t shift = 0; shift < 3; shift++) {
        memset(many, 'x', shift);
        for (size_t i = shift; i + 3 <= sizeof many; i += 3)
            memcpy(many + i, "\xe2\x82\xac", 3);
        text_of((str){ .p = many, .n = sizeof many - 4 }, got);
        assert_true(utf8_valid(str_of(got)));
        assert_in_range(strlen(got), CHANGE_ERROR_BYTES_MAX - 2, CHANGE_ERROR_BYTES_MAX);
        assert_null(strchr(got, '?'));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_means_what_its_row_says),
        cmocka_unit_test(no_status_is_without_a_row),
        cmocka_unit_test(without_a_reply_it_counts_when_the_target_may_have_had_it),
        cmocka_unit_test(a_wait_is_seconds_or_a_date_and_an_hour_at_most),
        cmocka_unit_test(what_a_target_says_can_be_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
