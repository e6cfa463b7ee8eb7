/* Goal: events of each stream name the titles that they are about, with what the wiki's word has to
 * reach; what is no event is told. Method: events as EventBus sends them, cut to what counts. */
#include "base/buf.h"
#include "page/wiki_event.h"

#include "../cmocka_all.h"

#include <stdio.h>

enum { DT = 1767225600 }; /* 2026-01-01T00:00:00Z */
#define AT "\"dt\":\"2026-01-01T00:00:00.999Z\""
#define META(stream) "\"meta\":{\"stream\":\"" stream "\",\"domain\":\"en.test\"," AT "}"

struct wanted {
    const char *json;
    struct wiki_event_title titles[EVENT_TITLES_MAX];
};

static void parsed(struct arena *a, const char *json, struct wiki_event *out)
{
    struct err_note note = { .text = "" };
    if (wiki_event_parse(a, str_of(json), out, &note) != ERR_OK)
        fail_msg("%s: %s", json, note.text);
}

static void check_titles(const struct wanted *w)
{
    struct arena a;
    struct wiki_event e;
    unsigned count = 0;
    arena_init(&a, 1 << 20);
    parsed(&a, w->json, &e);
    assert_true(str_eq(e.domain, STR("en.test")));
    while (count < EVENT_TITLES_MAX && w->titles[count].title.n > 0)
        count++;
    if (e.titles_count != count)
        fail_msg("%s: %u titles", w->json, e.titles_count);
    for (unsigned i = 0; i < count; i++) {
        const struct wiki_event_title *got = &e.titles[i], *want = &w->titles[i];
        if (!str_eq(got->title, want->title) || got->bound.rev != want->bound.rev ||
            got->bound.touched != want->bound.touched)
            fail_msg("%s: %.*s %llu %lld", w->json, STR_ARG(got->title),
                     (unsigned long long)got->bound.rev, (long long)got->bound.touched);
    }
    arena_fini(&a);
}

static void streams_name_titles_and_bounds(void **state)
{
    (void)state;
    static const struct wanted rows[] = {
        { "{" META("mediawiki.page-create") ",\"page_title\":\"A\",\"rev_id\":8}",
          { { STR_INIT("A"), { .rev = 8 } } } },
        { "{" META("mediawiki.revision-create") ",\"page_title\":\"A\\u00fc\",\"rev_id\":8}",
          { { STR_INIT("A\xc3\xbc"), { .rev = 8 } } } },
        { "{" META("mediawiki.page-undelete") ",\"page_title\":\"A\",\"rev_id\":8}",
          { { STR_INIT("A"), { .rev = 8 } } } },
        { "{" META("mediawiki.page-delete") ",\"page_title\":\"A\",\"rev_id\":8}",
          { { STR_INIT("A"), { .touched = DT } } } },
        { "{" META("mediawiki.page-suppress") ",\"page_title\":\"A\"}",
          { { STR_INIT("A"), { .touched = DT } } } },
        { "{" META("mediawiki.revision-visibility-change") ",\"page_title\":\"A\",\"rev_id\":8,"
                                                           "\"prior_state\":{\"visibility\":{"
                                                           "\"text\":true}}}",
          { { STR_INIT("A"), { .touched = DT - EVENT_SLACK_S } } } },
        { "{" META(
              "mediawiki.page-move") ",\"page_title\":\"B\",\"rev_id\":9,"
                                     "\"prior_state\":{\"page_title\":\"A\",\"rev_id\":8},"
                                     "\"new_redirect_page\":{\"page_title\":\"A\",\"rev_id\":10}}",
          { { STR_INIT("B"), { .rev = 9 } }, { STR_INIT("A"), { .rev = 10 } } } },
        { "{" META("mediawiki.page-move") ",\"page_title\":\"B\",\"rev_id\":9,"
                                          "\"prior_state\":{\"page_title\":\"A\",\"rev_id\":8}}",
          { { STR_INIT("B"), { .rev = 9 } },
            { STR_INIT("A"), { .touched = DT - EVENT_SLACK_S } } } },
        { "{" META("mediawiki.page-links-change") ",\"page_title\":\"A\",\"rev_id\":8}",
          { { STR_INIT("A"), { .rev = 0 } } } },
        { "{" META("mediawiki.page-properties-change") ",\"page_title\":\"A\",\"rev_id\":8}",
          { { STR_INIT("A"), { .rev = 0 } } } },
        { "{" META("nobody.knows.it") ",\"page_title\":\"A\",\"rev_id\":8}",
          { { STR_INIT("A"), { .rev = 0 } } } },
        { "{" META("mediawiki.page_change.v1") ",\"page_change_kind\":\"edit\","
                                               "\"page\":{\"page_title\":\"A\"},\"revision\":{"
                                               "\"rev_id\":8},"
                                               "\"prior_state\":{\"revision\":{\"rev_id\":7}}}",
          { { STR_INIT("A"), { .rev = 8 } } } },
        { "{" META("mediawiki.page_change.v1") ",\"page_change_kind\":\"move\","
                                               "\"page\":{\"page_title\":\"B\"},\"revision\":{"
                                               "\"rev_id\":9},"
                                               "\"prior_state\":{\"page\":{\"page_title\":\"A\"}},"
                                               "\"created_redirect_page\":{\"page_title\":\"A\"}}",
          { { STR_INIT("B"), { .rev = 9 } }, { STR_INIT("A"), { .rev = 0 } } } },
        { "{" META(
              "rc0.page_change") ",\"page_change_kind\":\"delete\",\"dt\":"
                                 "\"2026-01-01T01:00:00+01:00\",\"page\":{\"page_title\":\"A\"},"
                                 "\"revision\":{\"rev_id\":8}}",
          { { STR_INIT("A"), { .touched = DT } } } },
        { "{" META("mediawiki.page_change.v1") ",\"page_change_kind\":\"visibility_change\","
                                               "\"page\":{\"page_title\":\"A\"}}",
          { { STR_INIT("A"), { .touched = DT - EVENT_SLACK_S } } } },
        { "{" META("mediawiki.page_change.v1") ",\"page_change_kind\":\"new\","
                                               "\"page\":{\"page_title\":\"A\"}}",
          { { STR_INIT("A"), { .rev = 0 } } } },
        { "{" META("resource_change") "}", { { STR_INIT(""), { .rev = 0 } } } },
        { "{" META("x") ",\"page_title\":7,\"page\":[],\"prior_state\":\"x\"}",
          { { STR_INIT(""), { .rev = 0 } } } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_titles(&rows[i]);
}

static void numbers_and_times_that_are_none_bind_nothing(void **state)
{
    (void)state;
    static const char *const revs[] = {
        "-1", "1.5", "\"8\"", "null", "9223372036854775808", "1e3"
    };
    struct arena a;
    struct wiki_event e;
    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < COUNT_OF(revs); i++) {
        str json = arena_printf(
            &a, "{" META("mediawiki.page-create") ",\"page_title\":\"A\",\"rev_id\":%s}", revs[i]);
        parsed(&a, json.p, &e);
        assert_int_equal(e.titles[0].bound.rev, 0);
    }
    parsed(&a,
           "{\"meta\":{\"stream\":\"mediawiki.page-delete\",\"dt\":\"now\"},"
           "\"page_title\":\"A\"}",
           &e);
    assert_int_equal(e.titles[0].bound.touched, 0);
    parsed(&a,
           "{\"meta\":{\"stream\":\"mediawiki.page-delete\",\"dt\":\"2999-01-01T00:00:00Z\"},"
           "\"page_title\":\"A\"}",
           &e);
    assert_int_equal(e.titles[0].bound.touched, 0);
    arena_fini(&a);
}

static void whose_it_is_stands_in_it(void **state)
{
    (void)state;
    struct arena a;
    struct wiki_event e;
    arena_init(&a, 1 << 20);
    parsed(&a, "{\"meta\":{\"stream\":\"x\",\"uri\":\"http://a/b\"},\"database\":\"enwiki\"}", &e);
    assert_int_equal(e.domain.n, 0);
    assert_true(str_eq(e.database, STR("enwiki")));
    assert_true(str_eq(e.uri, STR("http://a/b")));
    parsed(&a, "{\"meta\":{\"stream\":\"x\"},\"wiki_id\":\"dewiki\"}", &e);
    assert_true(str_eq(e.database, STR("dewiki")));
    arena_fini(&a);
}

static void what_is_no_event_is_told(void **state)
{
    (void)state;
    static const char *const rows[] = { "7",
                                        "[]",
                                        "\"x\"",
                                        "{}",
                                        "{\"meta\":{}}",
                                        "{\"meta\":{\"stream\":\"\"}}",
                                        "{\"meta\":{\"stream\":7}}",
                                        "{\"meta\":[]}",
                                        "{\"meta\":{\"stream\":\"a\"},\"meta\":{}}",
                                        "{\"meta\":{\"stream\":\"\\ud800\"}}" };
    struct arena a;
    struct wiki_event e;
    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err_note note = { .text = "" };
        if (wiki_event_parse(&a, str_of(rows[i]), &e, &note) != ERR_BAD || note.text[0] == 0)
            fail_msg("%s: %s", rows[i], note.text);
    }
    arena_fini(&a);
}

static void one_of_too_many_members_is_none_and_a_full_arena_is_no_fault_of_it(void **state)
{
    (void)state;
    struct arena a, small;
    struct wiki_event e;
    struct err_note note = { .text = "" };
    struct buf b;
    arena_init(&a, 1 << 20);
    arena_init(&small, 4096);
    buf_init(&b, 1 << 20);
    buf_put(&b, STR("{\"meta\":{\"stream\":\"x\"}"));
    for (unsigned i = 0; i < EVENT_MEMBERS_MAX; i++)
        buf_printf(&b, ",\"m%u\":0", i);
    buf_put_c(&b, '}');
    assert_int_equal(wiki_event_parse(&a, buf_str(&b), &e, &note), ERR_BAD);
    assert_int_equal(wiki_event_parse(&small, STR("{" META("x") "}"), &e, &note), ERR_LIMIT);
    buf_fini(&b);
    arena_fini(&a);
    arena_fini(&small);
}

/* A job that runs at once because nobody can read when it is due has run too early. */
static void a_job_says_readably_when_it_is_due(void **state)
{
    (void)state;
    static const struct {
        const char *until;
        bool fine;
    } rows[] = { { "\"2026-03-01T01:00:00Z\"", true },
                 { "\"2026-03-01T01:00:00.25+01:00\"", true },
                 { "1772326800", true },
                 { "1772326800.25", true },
                 { "\"1772326800\"", true },
                 { "null", true },
                 { "1772326800000", false },
                 { "1.7e9", false },
                 { "\"\"", false },
                 { "\"20260301010000\"", false },
                 { "\"2026-03-01 01:00:00\"", false },
                 { "\"2026-03-01T01:00:00\"", false },
                 { "\"tomorrow\"", false },
                 { "\"\\ud800\"", false },
                 { "true", false },
                 { "{}", false } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (unsigned job = 0; job < 2; job++) {
            struct wiki_event e;
            struct err_note note = { .text = "" };
            struct arena a;
            char text[256];
            int n = snprintf(text, sizeof text,
                             "{\"meta\":{\"stream\":\"mediawiki.%s\"},\"delay_until\":%s}",
                             job == 1 ? "job.x" : "page-create", rows[i].until);
            assert_true(n > 0 && (size_t)n < sizeof text);
            arena_init(&a, 65536);
            err why = wiki_event_parse(&a, str_of(text), &e, &note);
            if ((why == ERR_OK) != (job == 0 || rows[i].fine))
                fail_msg("%s: %s", text, note.text);
            if (why != ERR_OK)
                assert_string_equal(note.text, "delay_until is no instant: ISO 8601 with a zone, "
                                               "or seconds since 1970, is wanted");
            arena_fini(&a);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_name_titles_and_bounds),
        cmocka_unit_test(numbers_and_times_that_are_none_bind_nothing),
        cmocka_unit_test(whose_it_is_stands_in_it),
        cmocka_unit_test(what_is_no_event_is_told),
        cmocka_unit_test(one_of_too_many_members_is_none_and_a_full_arena_is_no_fault_of_it),
        cmocka_unit_test(a_job_says_readably_when_it_is_due),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
