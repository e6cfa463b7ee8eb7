/* Goal: what is said of rules is JSON, has every figure at its place, and null where there is
 * nothing to say, whatever bytes an error or an event has. Method: structs filled by hand, compared
 * with the text. */
#include "app/change/rules_json.h"

#include "../cmocka_all.h"

#include <jansson.h>
#include <string.h>

#define LOG 0x0123456789abcdefu
#define AT(s) ((store_time){ .ns = (s)*NS_PER_S })

struct stage {
    struct arena arena;
    struct buf out;
    struct rules_json json;
};

static int stage_begin(void **state)
{
    static struct stage s;
    arena_init(&s.arena, 1 << 20);
    buf_init(&s.out, 1 << 20);
    s.json =
        (struct rules_json){ .out = &s.out, .arena = &s.arena, .log = LOG, .now = AT(1800000100) };
    *state = &s;
    return 0;
}

static int stage_end(void **state)
{
    struct stage *s = *state;
    arena_fini(&s->arena);
    buf_fini(&s->out);
    return 0;
}

/* What was written, as JSON; before and behind it. Owner: caller. */
static json_t *read_as(struct stage *s, const char *before, const char *behind)
{
    json_error_t error;
    str text = arena_printf(&s->arena, "%s%.*s%s", before, (int)s->out.n, s->out.p, behind);
    assert_int_equal(buf_status(&s->out), ERR_OK);
    json_t *doc = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (doc == NULL)
        fail_msg("%s: %s", error.text, text.p);
    return doc;
}

static void expect(struct stage *s, const char *want)
{
    buf_put_c(&s->out, '\0');
    assert_string_equal(s->out.p, want);
}

static void a_rate_is_written_as_it_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t count, per_s;
        const char *back;
    } fine[] = { { "10/s", 10, 1, "10/s" },
                 { "7", 7, 1, "7/s" },
                 { "10/m", 10, 60, "10/m" },
                 { "1000000/h", 1000000, 3600, "1000000/h" },
                 { "none", 0, 1, "" } };
    static const char *const bad[] = { "",     "0",     "0/s",       "-1/s", "10/",
                                       "10/d", "10 /s", "1000001/s", "s",    "none/s" };
    int64_t count, per_ns;
    char text[RULES_RATE_BYTES];
    for (size_t i = 0; i < COUNT_OF(fine); i++) {
        assert_true(rules_rate_parse(str_of(fine[i].text), &count, &per_ns));
        assert_int_equal(count, fine[i].count);
        assert_int_equal(per_ns, fine[i].per_s * NS_PER_S);
        rules_rate_format(count, per_ns, text);
        assert_string_equal(text, fine[i].back);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_false(rules_rate_parse(str_of(bad[i]), &count, &per_ns));
    rules_rate_format(INT64_MAX, INT64_MAX, text);
    assert_string_equal(text, "9223372036854775807/9223372036854775807ns");
}

static void a_rule_says_all_of_itself(void **state)
{
    struct stage *s = *state;
    struct change_type_limit types[] = { { STR("a\"b"), 1 }, { STR("c"), 2 } };
    const struct change_rule_status r = {
        .name = STR("jobs"),
        .effect = RULE_JOB,
        .paused = true,
        .concurrency = 4,
        .rate_count = 10,
        .rate_per_ns = 60 * NS_PER_S,
        .overridden = true,
        .types = types,
        .types_count = 2,
        .calls = true,
        .limits = { [RULE_BY_TYPE] =
                        (const struct rule_limit[]){ { STR("a\"b"), 3 }, { STR("*"), 4 } },
                    [RULE_BY_TARGET] = (const struct rule_limit[]){ { STR("a:80"), 5 } } },
        .limits_count = { [RULE_BY_TYPE] = 2, [RULE_BY_TARGET] = 1 },
        .retries = 2,
        .backoff_ns = 90 * NS_PER_S,
        .backoff_factor = 6,
        .counts = { [CHANGE_READY] = 1,
                    [CHANGE_WAITING] = 2,
                    [CHANGE_SCHEDULED] = 3,
                    [CHANGE_DEAD] = 4 },
        .running = 1,
        .oldest = AT(1800000000),
        .matched = 10,
        .collapsed = 11,
        .done = 12,
        .ignored = 13,
        .failed = 14,
        .died = 15,
        .dropped = 16,
        .refused = 17,
        .looped = 18,
        .sampled = 19,
        .expired = 20,
        .last_error = "503",
        .last_error_at = AT(1800000001),
        .targets = &(const struct change_target_status){ .name = STR("a:80"), .running = 1 },
        .targets_count = 1,
    };
    const struct change_status status = { .cursor = 1800000050000000,
                                          .cursor_at = AT(1800000050),
                                          .behind = 5 };
    rules_json_rule(&s->json, &status, &r);
    expect(
        s,
        "{\"name\":\"jobs\",\"effect\":\"job\",\"paused\":true,\"removed\":false,\"replaying\":"
        "false,\"position\":\"0123456789abcdef-1800000050000000-1800000050000\",\"lag\":11,"
        "\"oldest_s\":100,\"running\":1,\"limit\":{\"concurrency\":4,\"rate\":\"10/m\","
        "\"types\":{\"a\\\"b\":1,\"c\":2}},\"override\":true,\"concurrency_of\":{\"type\":{"
        "\"a\\\"b\":"
        "3,\"*\":4},\"domain\":{},\"target\":{\"a:80\":5}},\"retries\":2,\"backoff\":\"90s\","
        "\"backoff_factor\":6,\"targets\":[{\"name\":\"a:80\","
        "\"running\":1,\"failed\":0,\"drained\":false,\"paused_until\":null,\"last_error\":null}],"
        "\"ready\":1,\"waiting\":2,"
        "\"scheduled\":3,\"dead\":4,\"matched\":10,"
        "\"collapsed\":11,\"done\":12,\"ignored\":13,\"failures\":14,\"died\":15,\"dropped\":16,"
        "\"refused\":17,\"looped\":18,\"sampled\":19,\"expired\":20,\"last_error\":\"503\",\"last_"
        "error_at\":\"2027-01-15T08:00:"
        "01.000Z\"}");
}

static void what_there_is_not_is_null(void **state)
{
    struct stage *s = *state;
    const struct change_rule_status rules[] = {
        { .name = STR("b"), .effect = RULE_DROP, .oldest = STORE_TIME_NEVER },
        { .name = STR("c"), .removed = true, .oldest = AT(1900000000), .last_error = "cut \xe4" },
    };
    const struct change_target_status targets[] = {
        { .name = STR("a:80"), .running = 2, .failed = 3, .paused_until = AT(1800000200) },
        { .name = STR("b:80"), .drained = true, .last_error = "\"\n\x1b" },
    };
    const struct change_status status = { .rules = (struct change_rule_status *)(uintptr_t)rules,
                                          .rules_count = 2,
                                          .targets =
                                              (struct change_target_status *)(uintptr_t)targets,
                                          .targets_count = 2 };
    rules_json_status(&s->json, &status);
    json_t *doc = read_as(s, "{\"x\":1", "}"), *router = json_object_get(doc, "router");
    assert_true(json_is_null(json_object_get(router, "position")));
    assert_int_equal(json_integer_value(json_object_get(router, "lag_s")), 0);
    json_t *rule = json_array_get(json_object_get(doc, "rules"), 0);
    static const char *const empty[] = { "position", "oldest_s", "last_error", "last_error_at" };
    for (size_t i = 0; i < COUNT_OF(empty); i++)
        assert_true(json_is_null(json_object_get(rule, empty[i])));
    assert_true(json_is_null(json_object_get(json_object_get(rule, "limit"), "rate")));
    rule = json_array_get(json_object_get(doc, "rules"), 1);
    assert_int_equal(json_integer_value(json_object_get(rule, "oldest_s")), 0); /* a clock went */
    assert_string_equal(json_string_value(json_object_get(rule, "last_error")), "cut \xef\xbf\xbd");
    json_t *target = json_array_get(json_object_get(doc, "targets"), 1);
    assert_true(json_is_true(json_object_get(target, "drained")));
    assert_true(json_is_null(json_object_get(target, "paused_until")));
    assert_string_equal(json_string_value(json_object_get(target, "last_error")), "\"\n\x1b");
    json_decref(doc);
    buf_clear(&s->out);
    rules_json_status(&s->json, NULL);
    doc = read_as(s, "{\"x\":1", "}");
    assert_true(json_is_null(json_object_get(doc, "rules")));
    json_decref(doc);
}

static void the_router_says_how_far_it_is_behind(void **state)
{
    struct stage *s = *state;
    const struct change_status status = { .cursor = 7,
                                          .cursor_at = AT(1800000040),
                                          .behind = 9,
                                          .missed = 3,
                                          .missed_at = AT(1800000000) };
    rules_json_status(&s->json, &status);
    expect(s, ",\"router\":{\"position\":\"0123456789abcdef-7-1800000040000\",\"behind\":9,"
              "\"lag_s\":60,\"missed\":3,\"missed_at\":\"2027-01-15T08:00:00.000Z\"},\"rules\":[],"
              "\"targets\":[]");
}

static void an_item_has_its_event_byte_for_byte(void **state)
{
    struct stage *s = *state;
    struct change_item items[] = {
        { .id = UINT64_MAX,
          .seq = 1800000050000001,
          .state = CHANGE_SCHEDULED,
          .attempts = 2,
          .taken = AT(1800000050),
          .due = AT(1800000060),
          .stream = STR("mediawiki.job.x"),
          .type = STR("x"),
          .error = STR("503"),
          .why = STR("its backoff is over in 60 s"),
          .bytes = STR("{\"z\": 1.0,\n\"a\":\"\\u00e4\"}") },
        { .id = 1, .seq = 2, .state = CHANGE_READY, .running = true, .due = AT(1) },
    };
    struct change_listing l = { .items = items, .count = 2, .next = 3 };
    rules_json_listing(&s->json, &l);
    json_t *doc = read_as(s, "", ""), *item = json_array_get(json_object_get(doc, "items"), 0);
    assert_string_equal(json_string_value(json_object_get(item, "id")), "18446744073709551615");
    assert_string_equal(json_string_value(json_object_get(item, "event")),
                        "{\"z\": 1.0,\n\"a\":\"\\u00e4\"}");
    assert_string_equal(json_string_value(json_object_get(item, "due_at")),
                        "2027-01-15T08:01:00.000Z");
    assert_string_equal(json_string_value(json_object_get(item, "position")),
                        "0123456789abcdef-1800000050000001-1800000050000");
    assert_true(json_is_null(json_object_get(item, "domain")));
    item = json_array_get(json_object_get(doc, "items"), 1);
    assert_true(json_is_null(json_object_get(item, "due_at")));
    assert_null(json_object_get(item, "event"));
    assert_true(json_is_true(json_object_get(item, "running")));
    assert_string_equal(json_string_value(json_object_get(doc, "next")), "3");
    json_decref(doc);
    buf_clear(&s->out);
    l = (struct change_listing){ .count = 0 };
    rules_json_listing(&s->json, &l);
    expect(s, "{\"items\":[]}");
}

static void lanes_are_counted_by_domain_and_type(void **state)
{
    struct stage *s = *state;
    struct change_lane lanes[] = {
        { .domain = STR("d"),
          .type = STR("x"),
          .counts = { [CHANGE_READY] = 1,
                      [CHANGE_WAITING] = 2,
                      [CHANGE_SCHEDULED] = 3,
                      [CHANGE_DEAD] = 4 },
          .running = 5,
          .oldest = AT(1800000000) },
    };
    struct change_lanes l = { .lanes = lanes, .count = 1, .cut = true };
    rules_json_lanes(&s->json, &l);
    expect(s, "{\"lanes\":[{\"domain\":\"d\",\"type\":\"x\",\"running\":5,\"ready\":1,"
              "\"waiting\":2,\"scheduled\":3,\"dead\":4,"
              "\"oldest_at\":\"2027-01-15T08:00:00.000Z\"}],\"cut\":true}");
    buf_clear(&s->out);
    l = (struct change_lanes){ .count = 0 };
    rules_json_lanes(&s->json, &l);
    expect(s, "{\"lanes\":[],\"cut\":false}");
}

static void an_explanation_says_what_became_of_it(void **state)
{
    struct stage *s = *state;
    struct change_item item = { .id = 4, .seq = 7, .state = CHANGE_DEAD, .why = STR("it failed") };
    struct change_explained rules[] = {
        { .rule = STR("a"), .matches = true, .item = &item, .collapsed_into = 1800000050000001 },
        { .rule = STR("b"), .why = STR("stream: \"x\" is not y") },
    };
    const struct change_explanation e = { .stream = STR("x"),
                                          .bytes = STR("{}"),
                                          .taken = AT(1800000050),
                                          .routed = true,
                                          .rules = rules,
                                          .count = 2 };
    rules_json_explanation(&s->json, 7, &e);
    json_t *doc = read_as(s, "", "");
    assert_string_equal(json_string_value(json_object_get(doc, "position")),
                        "0123456789abcdef-7-1800000050000");
    assert_string_equal(json_string_value(json_object_get(doc, "event")), "{}");
    json_t *rule = json_array_get(json_object_get(doc, "rules"), 0);
    assert_string_equal(json_string_value(json_object_get(json_object_get(rule, "item"), "state")),
                        "dead");
    assert_string_equal(json_string_value(json_object_get(rule, "collapsed_into")),
                        "0123456789abcdef-1800000050000001-1800000050000");
    rule = json_array_get(json_object_get(doc, "rules"), 1);
    assert_true(json_is_null(json_object_get(rule, "collapsed_into")));
    assert_true(json_is_false(json_object_get(rule, "matches")));
    assert_true(json_is_null(json_object_get(rule, "item")));
    json_decref(doc);
}

static void a_dry_run_counts(void **state)
{
    struct stage *s = *state;
    struct change_dry d = { .looked = 100, .count = 2 };
    struct change_dry_rule rules[] = {
        { .rule = STR("a"), .effect = RULE_PURGE, .matched = 1, .example = 1800000050000001 },
        { .rule = STR("b"),
          .effect = RULE_LOOK,
          .unsampled = 2,
          .too_old = 3,
          .open = 4,
          .untitled = 5 },
    };
    d.rules = rules;
    rules_json_dry(&s->json, &d);
    expect(s, "{\"looked\":100,\"rules\":[{\"rule\":\"a\",\"effect\":\"purge\",\"matched\":1,"
              "\"unsampled\":0,\"too_old\":0,\"open\":0,\"untitled\":0,"
              "\"example\":\"0123456789abcdef-1800000050000001-1800000050000\"},"
              "{\"rule\":\"b\",\"effect\":\"look\",\"matched\":0,\"unsampled\":2,\"too_old\":3,"
              "\"open\":4,\"untitled\":5,\"example\":null}]}");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, stage_begin, stage_end)
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_is_written_as_it_is_read),
        TEST(a_rule_says_all_of_itself),
        TEST(what_there_is_not_is_null),
        TEST(the_router_says_how_far_it_is_behind),
        TEST(an_item_has_its_event_byte_for_byte),
        TEST(lanes_are_counted_by_domain_and_type),
        TEST(an_explanation_says_what_became_of_it),
        TEST(a_dry_run_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
