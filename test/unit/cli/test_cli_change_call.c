/* Goal: people see of rules, items and explanations what the server says, aligned, and nothing in
 * it steers their terminal. Method: documents as the server sends them, printed into memory. */
#include "cli/change_call.h"

#include "base/check.h"
#include "codec/json.h"

#include "../cmocka_all.h"

#include <stdlib.h>

static void expect(void (*print)(FILE *to, const json_t *doc), const char *json, const char *want)
{
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    json_t *doc = json_body_read(str_of(json));
    assert_non_null(to);
    assert_non_null(doc);
    print(to, doc);
    assert_int_equal(fclose(to), 0);
    assert_string_equal(text, want);
    free(text);
    json_decref(doc);
}

static void a_table_has_a_line_for_each_rule(void **state)
{
    (void)state;
    expect(change_rules_print,
           "[{\"name\":\"jobs\",\"effect\":\"job\",\"oldest_s\":90,\"running\":2,"
           "\"limit\":{\"concurrency\":4,\"rate\":\"10/s\"},\"ready\":3,\"waiting\":0,"
           "\"scheduled\":3,\"dead\":12,\"last_error\":\"503\\u001b[1m\",\"paused\":true},"
           "{\"name\":\"look\",\"effect\":null,\"oldest_s\":null,\"limit\":"
           "{\"concurrency\":1},\"last_error\":null,\"removed\":true},"
           "{\"oldest_s\":0}]",
           "RULE  EFFECT  STATE    RUNNING  READY  WAITING  SCHEDULED  DEAD  OLDEST  LAST ERROR\n"
           "jobs  job     paused       2/4      1        0          3    12   1m30s  503?[1m\n"
           "look  -       removed      0/1      0        0          0     0       -  -\n"
           "-     -       on           0/0      0        0          0     0      0s  -\n");
}

static void a_rule_is_shown_with_its_limits(void **state)
{
    (void)state;
    expect(change_rule_print,
           "{\"name\":\"a\",\"effect\":\"http\",\"replaying\":true,\"position\":\"p\","
           "\"oldest_s\":1,\"limit\":{\"concurrency\":4,\"rate\":\"10/s\"},\"override\":true,"
           "\"concurrency_of\":{\"type\":{\"x\":2},\"domain\":{},\"target\":{\"*\":1}},"
           "\"retries\":2,\"backoff\":\"1m\",\"backoff_factor\":6,"
           "\"ready\":7,\"failures\":8,\"last_error\":\"x\",\"last_error_at\":\"t\"}",
           "rule           a\neffect         http\nstate          replays\nposition       p\n"
           "oldest         1s\n"
           "limit          4 at once, 10/s; by change limit, until the server starts again\n"
           "  of           type x: 2 at once\n  of           target *: 1 at once\n"
           "retries        2, after 1m, each wait 6 times as long\n"
           "running        0\nready          7\nwaiting        0\nscheduled      0\n"
           "dead           0\nmatched        0\ncollapsed      0\ndone           0\n"
           "ignored        0\nfailures       8\ndied           0\ndropped        0\n"
           "refused        0\nlooped         0\nsampled        0\nexpired        0\nlast error     "
           "x\n  at           t\n");
}

static void targets_say_who_is_left_alone(void **state)
{
    (void)state;
    expect(change_targets_print,
           "[{\"name\":\"a:80\",\"running\":1,\"failed\":2,\"paused_until\":\"t\","
           "\"last_error\":\"e\"},{\"name\":\"b:80\",\"drained\":true,\"paused_until\":\"t\"},"
           "{\"name\":\"c:80\"}]",
           "TARGET  STATE           RUNNING  FAILED  LAST ERROR\n"
           "a:80    paused until t        1       2  e\n"
           "b:80    drained               0       0  -\n"
           "c:80    on                    0       0  -\n");
}

static void an_item_says_what_it_has(void **state)
{
    (void)state;
    expect(change_item_print,
           "{\"id\":\"7\",\"state\":\"ready\",\"running\":true,\"attempts\":3,\"title\":\"A\\tb\","
           "\"error\":null,\"event\":\"{\\\"a\\\":1}\"}",
           "id             7\nstate          running\ntitle          A?b\n"
           "event          {\"a\":1}\nattempts       3\n");
}

static void an_explanation_has_a_line_for_each_rule(void **state)
{
    (void)state;
    expect(
        change_explanation_print,
        "{\"position\":\"p\",\"taken_at\":\"t\",\"stream\":\"s\",\"domain\":null,"
        "\"routed\":false,\"rules\":["
        "{\"rule\":\"a\",\"matches\":true,\"item\":{\"id\":\"1\",\"state\":\"dead\",\"why\":"
        "\"it failed 3 times\",\"error\":\"HTTP 500\"}},"
        "{\"rule\":\"b\",\"matches\":false,\"why\":\"stream: \\\"s\\\" is not x\",\"item\":null},"
        "{\"rule\":\"c\",\"matches\":true,\"why\":\"it was done\",\"item\":null},"
        "{\"rule\":\"d\",\"matches\":true,\"item\":{\"id\":\"2\",\"state\":\"ready\","
        "\"running\":true}},"
        "{\"rule\":\"e\",\"matches\":true,\"collapsed_into\":\"q\",\"item\":{\"id\":\"3\","
        "\"state\":\"ready\"}}]}",
        "position       p\ntaken_at       t\nstream         s\ndomain         -\n"
        "routed         no: the rules have not seen it yet\n\n"
        "a: matches; item 1 is dead: it failed 3 times; last error: HTTP 500\n"
        "b: does not match: stream: \"s\" is not x\n"
        "c: matches; it was done\n"
        "d: matches; item 2 is running\n"
        "e: matches; collapsed into q; item 3 is ready\n");
    expect(change_explanation_print, "{\"routed\":true,\"rules\":[]}",
           "position       -\ntaken_at       -\nstream         -\ndomain         -\n\n"
           "there are no rules\n");
}

static void a_dry_run_is_a_table(void **state)
{
    (void)state;
    expect(change_dry_print,
           "{\"looked\":1,\"rules\":[{\"rule\":\"a\",\"effect\":\"look\",\"matched\":5,"
           "\"unsampled\":1,\"too_old\":2,\"open\":3,\"untitled\":4,\"example\":\"p\"}]}",
           "RULE  EFFECT  MATCHED  UNSAMPLED  TOO OLD  OPEN  EXAMPLE\n"
           "a     look          5          1        2     3  p\nof 1 event\n"
           "a: 4 of them have no title: nothing is looked at\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_has_a_line_for_each_rule),
        cmocka_unit_test(a_rule_is_shown_with_its_limits),
        cmocka_unit_test(targets_say_who_is_left_alone),
        cmocka_unit_test(an_item_says_what_it_has),
        cmocka_unit_test(an_explanation_has_a_line_for_each_rule),
        cmocka_unit_test(a_dry_run_is_a_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
