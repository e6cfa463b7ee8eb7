/* json: renders, traces and titles read as they are documented. Method: literal JSON. */
#include "page/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define TID "4f5557d1-e5f8-11f1-acbd-2d438c2196b5"
#define AT "2026-11-21T22:10:07.083Z" /* of that tid */
#define NAMED(rev) "\"rev\":" rev ",\"tid\":\"" TID "\""

static struct arena memory;
static struct buf out;

static int setup(void **state)
{
    (void)state;
    arena_init(&memory, 1 << 16);
    buf_init(&out, 1 << 16);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    buf_fini(&out);
    arena_fini(&memory);
    return 0;
}

static void assert_json(const char *want)
{
    buf_put_c(&out, 0);
    assert_string_equal(out.p, want);
    buf_clear(&out);
}

static struct page_name name_of(uint64_t rev)
{
    struct page_name n = { .rev = rev };
    assert_true(tid_parse(STR(TID), &n.tid));
    return n;
}

static void a_render_says_what_superseded_it(void **state)
{
    (void)state;
    struct page_render r = { .name = name_of(7),
                             .state = PAGE_CURRENT,
                             .superseded_at = STORE_TIME_NEVER,
                             .due_at = STORE_TIME_NEVER,
                             .contents_count = 2,
                             .contents = { { .name = "html", .raw_bytes = 3 },
                                           { .name = "x", .raw_bytes = 4 } } };
    pagejson_render(&out, &r);
    assert_json(NAMED("7") ",\"rendered_at\":\"" AT
                           "\",\"state\":\"current\",\"superseded_at\":null,"
                           "\"superseded_by\":null,\"due_at\":null,\"bytes\":{\"html\":3,\"x\":4}");
    r.state = PAGE_RECENT;
    r.superseded_at = tid_time(r.name.tid);
    r.superseded_by = name_of(8);
    r.due_at = (store_time){ .ns = 1 };
    r.contents_count = 0;
    pagejson_render(&out, &r);
    assert_json(
        NAMED("7") ",\"rendered_at\":\"" AT "\",\"state\":\"recent\",\"superseded_at\":\"" AT
                   "\",\"superseded_by\":{" NAMED("8") "},\"due_at\":"
                                                       "\"1970-01-01T00:00:00.000Z\",\"bytes\":{}");
    r.superseded_by = (struct page_name){ .rev = 8 }; /* of which no render is stored */
    pagejson_render(&out, &r);
    buf_put_c(&out, 0);
    assert_non_null(strstr(out.p, "\"superseded_by\":{\"rev\":8,\"tid\":null}"));
}

static void what_became_of_a_render_is_explained(void **state)
{
    (void)state;
    static const struct page_bucket_opts opts = { .name = "page",
                                                  .policy = { .kind = POLICY_APP_TTL } };
    static const struct page_settings settings = { .opts = &opts };
    struct page_target t = { .settings = &settings, .title = STR("T") };
    struct page_explanation e = { .state = PAGE_UNKNOWN,
                                  .policy = POLICY_LATEST, /* not that of the options */
                                  .reason = "never \"stored\"" };
    pagejson_explanation(&out, &memory, &t, &e);
    assert_json("\"rev\":null,\"tid\":null,\"state\":\"unknown\",\"policy\":\"latest\","
                "\"reason\":\"never \\\"stored\\\"\",\"holds\":[]}");
    t.has_rev = t.has_tid = true;
    t.name = name_of(7);
    e.passed = 1; /* a damaged row, of which nothing more is known */
    pagejson_explanation(&out, &memory, &t, &e);
    assert_json(NAMED("7") ",\"state\":\"unknown\",\"policy\":\"latest\","
                           "\"reason\":\"never \\\"stored\\\"\",\"holds\":[],\"damaged\":["
                           "{\"title\":\"T\",\"rev\":null,\"tid\":null}]}");
    e = (struct page_explanation){ .state = PAGE_CULLED,
                                   .reason = "due",
                                   .trace = { .name = name_of(7),
                                              .state = PAGE_CULLED,
                                              .policy = POLICY_TTL,
                                              .at = { .ns = 1000000 },
                                              .superseded_at = STORE_TIME_NEVER } };
    pagejson_explanation(&out, &memory, &t, &e);
    assert_json(
        NAMED("7") ",\"rendered_at\":\"" AT "\",\"state\":\"culled\",\"at\":"
                   "\"1970-01-01T00:00:00.001Z\",\"superseded_at\":null,\"superseded_by\":"
                   "null,\"due_at\":null,\"bytes\":{},\"policy\":\"ttl\",\"reason\":\"due\","
                   "\"holds\":[]}");
    e = (struct page_explanation){ .state = PAGE_HELD,
                                   .reason = "held",
                                   .stashed = true,
                                   .held = true,
                                   .requested = true,
                                   .render = { .name = name_of(7),
                                               .state = PAGE_HELD,
                                               .superseded_at = STORE_TIME_NEVER,
                                               .due_at = STORE_TIME_NEVER,
                                               .hold_until = STORE_TIME_NEVER,
                                               .stash_until = STORE_TIME_ZERO,
                                               .requested_until = { .ns = 1000000 } } };
    pagejson_explanation(&out, &memory, &t, &e);
    buf_put_c(&out, 0);
    assert_non_null(strstr(out.p, "\"holds\":[{\"kind\":\"hold\",\"until\":null},{\"kind\":"
                                  "\"request\",\"until\":\"1970-01-01T00:00:00.001Z\"}]}"));
}

static void a_damaged_row_says_what_is_known_of_it(void **state)
{
    (void)state;
    const struct page_name name = name_of(7), none = { .rev = 0 };
    pagejson_damaged(&out, &memory, STR(""), NULL);
    assert_json("{\"title\":null,\"rev\":null,\"tid\":null}");
    pagejson_damaged(&out, &memory, STR("T"), &none);
    assert_json("{\"title\":\"T\",\"rev\":null,\"tid\":null}");
    pagejson_damaged(&out, &memory, STR("T"), &name);
    assert_json("{\"title\":\"T\"," NAMED("7") "}");
}

#define STORED_TAIL                                                                                \
    ",\"comment\":null,\"tags\":[],\"restrictions\":[],\"page_language\":null,\"redirect\":null,"  \
    "\"page_deleted\":null}],\"count\":1}"

static void a_title_has_one_shape_whoever_knows_it(void **state)
{
    (void)state;
    struct pagejson_title t = { .title = STR("T"),
                                .name = name_of(7),
                                .revised_at = STORE_TIME_NEVER };
    pagejson_title(&out, &t);
    assert_json("{\"items\":[{\"title\":\"T\",\"page_id\":null," NAMED(
        "7") ",\"namespace\":null,"
             "\"user_id\":null,\"user_text\":null,\"timestamp\":null" STORED_TAIL);
    struct render_meta m = { .title = STR("T"),
                             .page_id = 3,
                             .rev = 7,
                             .namespace_id = -1,
                             .user_text = STR("A"),
                             .user_id = 5,
                             .tags_json = STR("[\"x\"]"),
                             .restrictions_json = STR("[]"),
                             .redirect = true };
    t.meta = &m;
    pagejson_title(&out, &t);
    assert_json("{\"items\":[{\"title\":\"T\",\"page_id\":3," NAMED(
        "7") ",\"namespace\":-1,"
             "\"user_id\":5,\"user_text\":\"A\",\"timestamp\":null,\"comment\":\"\",\"tags\":"
             "[\"x\"],\"restrictions\":[],\"page_language\":null,\"redirect\":true,"
             "\"page_deleted\":null}],\"count\":1}");
    m.user_hidden = m.comment_hidden = true;
    t.name.tid = (struct tid){ .ticks = 0 }; /* no render of it is stored */
    pagejson_title(&out, &t);
    buf_put_c(&out, 0);
    assert_non_null(strstr(out.p, "\"rev\":7,\"tid\":null,\"namespace\":-1,\"user_id\":null"));
    assert_non_null(strstr(out.p, "\"comment\":null"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_render_says_what_superseded_it, setup, teardown),
        cmocka_unit_test_setup_teardown(what_became_of_a_render_is_explained, setup, teardown),
        cmocka_unit_test_setup_teardown(a_damaged_row_says_what_is_known_of_it, setup, teardown),
        cmocka_unit_test_setup_teardown(a_title_has_one_shape_whoever_knows_it, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
