/* Goal: each title and each revision takes what the wiki said of it, nothing else, and nothing that
 * is half said. Method: replies as MediaWiki 1.39 gave them, and spoiled ones. */
#include "../cmocka_all.h"
#include "sites.h"
#include "words_said.h"

#include "base/date.h"
#include "render/api_words.h"
#include "render/title_rules.h"

#include <stdio.h>
#include <string.h>

enum { SAID_S = 1795698457, TOUCHED_S = 1795697842 }; /* of SAID_TITLES, and its Plain page */

static struct arena arena;
static struct siteinfo *german;

static int setup(void **state)
{
    (void)state;
    arena_init(&arena, 8 << 20);
    return siteinfo_json_parse(STR(SITE_JSON("de")), &german, NULL) == ERR_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    siteinfo_unref(&german);
    arena_fini(&arena);
    return 0;
}

static enum render_why parse(const char *json, const struct siteinfo *s, struct words *w)
{
    struct err_note note = { .text = "" };
    enum render_why why = api_words_parse(&arena, str_of(json), s, w, &note);
    assert_int_equal(why == RENDER_FINE, note.text[0] == 0);
    assert_int_equal(why == RENDER_FINE, w->said_s > 0);
    return why;
}

/* ---- titles ---- */

static void of_titles(const char *json, const struct siteinfo *s, struct words_title *titles,
                      unsigned count)
{
    struct words w = { .titles = titles, .titles_count = count };
    assert_int_equal(parse(json, s, &w), RENDER_FINE);
}
#define OF_TITLES(json, s, titles) of_titles(json, s, titles, COUNT_OF(titles))

static enum words_title_state state_of(const char *json, const char *title)
{
    struct words_title t[] = { { .title = str_of(title) } };
    OF_TITLES(json, german, t);
    assert_true(t[0].state == WORDS_TITLE_THERE || t[0].page_id == 0);
    assert_int_equal(t[0].state == WORDS_TITLE_ELSEWHERE, t[0].moved_to.n > 0);
    return t[0].state;
}

static void each_title_takes_its_own_word(void **state)
{
    (void)state;
    static const enum words_title_state states[] = {
        WORDS_TITLE_THERE,     WORDS_TITLE_MISSING, WORDS_TITLE_THERE,     WORDS_TITLE_MISSING,
        WORDS_TITLE_INVALID,   WORDS_TITLE_INVALID, WORDS_TITLE_INVALID,   WORDS_TITLE_INVALID,
        WORDS_TITLE_ELSEWHERE, WORDS_TITLE_INVALID, WORDS_TITLE_UNANSWERED
    };
    struct words_title t[] = { { .title = STR("Plain_page") },  { .title = STR("No_such") },
                               { .title = STR("Way") },         { .title = STR("Gone2") },
                               { .title = STR("a[b") },         { .title = STR("Special:Version") },
                               { .title = STR("Media:X.jpg") }, { .title = STR("wikipedia:Y") },
                               { .title = STR("plain_page") },  { .title = STR("Talk:") },
                               { .title = STR("Not_asked") } };
    struct words w = { .titles = t, .titles_count = COUNT_OF(t) };
    assert_int_equal(parse(SAID_TITLES, german, &w), RENDER_FINE);
    assert_int_equal(w.said_s, SAID_S);
    for (size_t i = 0; i < COUNT_OF(t); i++)
        assert_int_equal(t[i].state, states[i]);
    assert_int_equal(t[0].page_id, 2);
    assert_int_equal(t[0].rev, 3);
    assert_int_equal(t[0].touched_s, TOUCHED_S);
    assert_false(t[0].redirect);
    assert_int_equal(t[2].page_id, 4);
    assert_int_equal(t[2].rev, 5);
    assert_int_equal(t[2].touched_s, TOUCHED_S + 1);
    assert_true(t[2].redirect);
    assert_true(str_eq(t[8].moved_to, STR("Plain_page")));
    assert_int_equal(t[8].page_id, 0); /* what the other title has is not this one's */
    assert_int_equal(state_of(SAID_OTHER_WIKI, "wikipedia:Y"), WORDS_TITLE_INVALID);
}

static void a_word_is_followed_through_both_forms_of_a_title(void **state)
{
    (void)state;
    struct words_title t[] = { { .title = STR("Café") },
                               { .title = STR("Cafe\xcc\x81") },
                               { .title = STR("cafe\xcc\x81") },
                               { .title = STR("Café") } };
    OF_TITLES(SAID_NFC, german, t);
    assert_int_equal(t[0].state, WORDS_TITLE_THERE);
    assert_int_equal(t[0].rev, 11);
    assert_int_equal(t[3].state, WORDS_TITLE_THERE); /* asked twice, said once */
    for (size_t i = 1; i <= 2; i++) {
        assert_int_equal(t[i].state, WORDS_TITLE_ELSEWHERE);
        assert_true(str_eq(t[i].moved_to, STR("Café")));
    }
}

static void a_users_gender_makes_no_other_title(void **state)
{
    (void)state;
    struct words_title t[] = { { .title = STR("Benutzer:Admin") },
                               { .title = STR("Benutzer_Diskussion:Admin") },
                               { .title = STR("Benutzer:Anna_B") } };
    OF_TITLES(SAID_GENDER, german, t);
    assert_int_equal(t[0].state, WORDS_TITLE_MISSING);
    assert_int_equal(t[0].namespace_id, 2);
    assert_int_equal(t[1].state, WORDS_TITLE_MISSING);
    assert_int_equal(t[1].namespace_id, 3);
    assert_int_equal(t[2].state, WORDS_TITLE_THERE);
    OF_TITLES(SAID_GENDER, NULL, t); /* nobody knows which names are one namespace's */
    assert_int_equal(t[0].state, WORDS_TITLE_UNANSWERED);
    assert_int_equal(t[1].state, WORDS_TITLE_UNANSWERED);
    assert_int_equal(t[2].state, WORDS_TITLE_THERE);
}

#define REPLY(query) "{\"curtimestamp\":\"2026-11-26T13:07:37Z\",\"query\":{" query "}}"
#define PAGES(pages) REPLY("\"pages\":[" pages "]")
#define PAGE(title, more) "{\"ns\":0,\"title\":\"" title "\"" more "}"
#define THERE ",\"pageid\":5,\"touched\":\"2026-11-26T12:57:22Z\",\"lastrevid\":9"
#define MADE(from, to) "{\"fromencoded\":false,\"from\":\"" from "\",\"to\":\"" to "\"}"

static void what_is_said_twice_or_not_at_all_is_no_word(void **state)
{
    (void)state;
    static const char twice[] =
        PAGES(PAGE("A", THERE) "," PAGE("B", THERE) "," PAGE("A", ",\"missing\":true"));
    assert_int_equal(state_of(twice, "A"), WORDS_TITLE_UNANSWERED);
    assert_int_equal(state_of(twice, "B"), WORDS_TITLE_THERE);
    assert_int_equal(state_of(twice, "C"), WORDS_TITLE_UNANSWERED);
    static const char both[] =
        REPLY("\"pages\":[" PAGE("A", THERE) "],\"interwiki\":[{\"title\":\"A\"}]");
    assert_int_equal(state_of(both, "A"), WORDS_TITLE_UNANSWERED);
    static const char forked[] = REPLY("\"normalized\":[" MADE("a", "A") "," MADE(
        "a", "B") "],\"pages\":[" PAGE("A", THERE) "," PAGE("B", THERE) "]");
    assert_int_equal(state_of(forked, "a"), WORDS_TITLE_UNANSWERED);
    assert_int_equal(state_of(forked, "A"), WORDS_TITLE_THERE);
    static const char lost[] =
        REPLY("\"normalized\":[" MADE("a", "B") "],\"pages\":[" PAGE("a", THERE) "]");
    assert_int_equal(state_of(lost, "a"), WORDS_TITLE_UNANSWERED);
    static const char nowhere[] =
        REPLY("\"normalized\":[" MADE("a", "B[") "],\"pages\":[" PAGE("B[", THERE) "]");
    assert_int_equal(state_of(nowhere, "a"), WORDS_TITLE_UNANSWERED);
    assert_int_equal(state_of(PAGES(""), "A"), WORDS_TITLE_UNANSWERED);
    assert_int_equal(state_of(REPLY(""), "A"), WORDS_TITLE_UNANSWERED);
}

static void half_a_word_is_none(void **state)
{
    (void)state;
    static const char *const halves[] = {
        PAGES(PAGE("A", "")),
        PAGES(PAGE("A", ",\"pageid\":5,\"lastrevid\":9")),
        PAGES(PAGE("A", ",\"pageid\":5,\"touched\":\"2026-11-26T12:57:22Z\"")),
        PAGES(PAGE("A", ",\"lastrevid\":9,\"touched\":\"2026-11-26T12:57:22Z\"")),
        PAGES(PAGE("A", ",\"pageid\":5,\"lastrevid\":9,\"touched\":\"\"")),
        PAGES(PAGE("A", ",\"pageid\":5,\"lastrevid\":9,\"touched\":20261126125722")),
        PAGES(PAGE("A", ",\"pageid\":5,\"lastrevid\":9,\"touched\":\"1969-01-01T00:00:00Z\"")),
        PAGES(PAGE("A", ",\"pageid\":5,\"lastrevid\":0,\"touched\":\"2026-11-26T12:57:22Z\"")),
        PAGES(PAGE("A", ",\"pageid\":-5,\"lastrevid\":9,\"touched\":\"2026-11-26T12:57:22Z\"")),
        PAGES(PAGE("A", ",\"missing\":true" THERE)),
        PAGES("7,\"A\",null"),
    };
    for (size_t i = 0; i < COUNT_OF(halves); i++)
        if (state_of(halves[i], "A") != WORDS_TITLE_UNANSWERED)
            fail_msg("%s", halves[i]);
    assert_int_equal(state_of(PAGES(PAGE("A", THERE)), "A"), WORDS_TITLE_THERE);
}

/* By a clock that was wrong for a while, or an import. */
static void an_instant_that_is_too_late_is_the_latest_there_is(void **state)
{
    (void)state;
    static const char *const far[] = { "2262-01-01T00:00:00Z", "2262-04-11T23:47:17Z",
                                       "2999-01-01T00:00:00Z", "9999-12-31T23:59:60Z" };
    for (size_t i = 0; i < COUNT_OF(far); i++) {
        char json[256];
        struct words_title t = { .title = STR("A") };
        (void)snprintf(json, sizeof json,
                       PAGES(PAGE("A", ",\"pageid\":5,\"lastrevid\":9,\"touched\":\"%s\"")),
                       far[i]); /* fits */
        struct words w = { .titles = &t, .titles_count = 1 };
        assert_int_equal(parse(json, NULL, &w), RENDER_FINE);
        assert_int_equal(t.state, WORDS_TITLE_THERE);
        assert_int_equal(t.touched_s, DATE_S_MAX);
    }
}

/* ---- revisions ---- */

static struct words_revision revision(const char *json, const struct siteinfo *s, uint64_t rev)
{
    struct words_revision v = { .rev = rev, .page_id = 77 };
    struct words w = { .revisions = &v, .revisions_count = 1 };
    assert_int_equal(parse(json, s, &w), RENDER_FINE);
    bool told = v.state == WORDS_REVISION_SHOWN || v.state == WORDS_REVISION_HIDDEN;
    assert_int_equal(v.rev, rev);
    assert_int_equal(told, v.title.n > 0);
    assert_int_equal(told, v.page_id > 0);
    return v;
}

static void each_revision_takes_its_own_word(void **state)
{
    (void)state;
    static const struct {
        uint64_t rev;
        enum words_revision_state state;
        uint64_t page_id;
        const char *title;
    } all[] = {
        { 12, WORDS_REVISION_SHOWN, 8, "Part" },   { 3, WORDS_REVISION_SHOWN, 2, "Plain_page" },
        { 7, WORDS_REVISION_HIDDEN, 6, "Hidden" }, { 8, WORDS_REVISION_HIDDEN, 6, "Hidden" },
        { 9, WORDS_REVISION_SHOWN, 6, "Hidden" },  { 17, WORDS_REVISION_MISSING, 0, "" },
        { 999, WORDS_REVISION_MISSING, 0, "" },    { 5, WORDS_REVISION_UNANSWERED, 0, "" }
    };
    struct words_revision v[COUNT_OF(all)];
    struct words w = { .revisions = v, .revisions_count = COUNT_OF(v) };
    for (size_t i = 0; i < COUNT_OF(all); i++)
        v[i] = (struct words_revision){ .rev = all[i].rev };
    assert_int_equal(parse(SAID_REVISIONS, german, &w), RENDER_FINE);
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        assert_int_equal(v[i].state, all[i].state);
        assert_int_equal(v[i].page_id, all[i].page_id);
        assert_true(str_eq(v[i].title, str_of(all[i].title)));
    }
}

static void a_reply_that_does_not_say_what_is_hidden_is_no_word(void **state)
{
    (void)state;
    assert_int_equal(revision(SAID_IDS, german, 7).state, WORDS_REVISION_UNANSWERED);
    assert_int_equal(revision(SAID_IDS, german, 3).state, WORDS_REVISION_UNANSWERED);
}

static void what_an_account_may_see_is_hidden_all_the_same(void **state)
{
    (void)state;
    assert_int_equal(revision(SAID_RIGHT, german, 7).state, WORDS_REVISION_HIDDEN);
    assert_int_equal(revision(SAID_RIGHT, german, 8).state, WORDS_REVISION_HIDDEN);
    assert_int_equal(revision(SAID_RIGHT, german, 17).state, WORDS_REVISION_UNANSWERED);
    assert_int_equal(revision(SAID_RIGHT, german, 999).state, WORDS_REVISION_MISSING);
}

#define REVISIONS(title, more)                                                                     \
    "{\"ns\":2,\"title\":\"" title "\",\"revisions\":[" more "],\"pageid\":5}"
#define NINE "{\"revid\":9,\"sha1\":\"ab\"}"

static void a_revision_said_twice_or_by_halves_is_no_word(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        PAGES(REVISIONS("A", NINE "," NINE)),
        PAGES(REVISIONS("A", NINE) "," REVISIONS("B", NINE)),
        REPLY("\"badrevids\":{\"9\":{\"revid\":9,\"missing\":true}},\"pages\":[" REVISIONS(
            "A", NINE) "]"),
        REPLY("\"badrevids\":{\"9\":{\"revid\":9}}"),
        REPLY("\"badrevids\":{\"9\":7}"),
        PAGES(REVISIONS("", NINE)),
        PAGES(REVISIONS("A[", NINE)),
        PAGES("{\"title\":\"A\",\"revisions\":[" NINE "]}"),
        PAGES("{\"pageid\":5,\"title\":\"A\",\"missing\":true,\"revisions\":[" NINE "]}"),
        PAGES("{\"pageid\":5,\"title\":\"A\",\"revisions\":" NINE "}"),
        PAGES(REVISIONS("A", "{\"revid\":9,\"sha1\":7}")),
        PAGES(REVISIONS("A", "{\"revid\":\"9\",\"sha1\":\"ab\"}")),
        PAGES(REVISIONS("A", "9")),
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        if (revision(wrong[i], german, 9).state != WORDS_REVISION_UNANSWERED)
            fail_msg("%s", wrong[i]);
    struct words_revision v = revision(PAGES(REVISIONS("Benutzerin:An na", NINE)), german, 9);
    assert_int_equal(v.state, WORDS_REVISION_SHOWN);
    assert_true(str_eq(v.title, STR("Benutzer:An_na")));
    v = revision(PAGES(REVISIONS("Benutzerin:An na", NINE)), NULL, 9);
    assert_int_equal(v.state, WORDS_REVISION_UNANSWERED);
    assert_int_equal(revision(SAID_REVISIONS, NULL, 3).state, WORDS_REVISION_SHOWN);
}

/* ---- no word at all ---- */

#define ERROR(code) "{\"error\":{\"code\":\"" code "\"},\"curtimestamp\":\"2026-11-26T13:07:38Z\"}"

static const struct {
    const char *json;
    enum render_why why;
} failures[] = {
    { "", RENDER_FAILED },
    { "<html>", RENDER_FAILED },
    { "[]", RENDER_FAILED },
    { "{\"batchcomplete\":true,\"curtimestamp\":\"2026-11-26T12:57:40Z\"}", RENDER_FAILED },
    { "{\"query\":{\"pages\":[" PAGE("A", THERE) "]}}", RENDER_FAILED },
    { "{\"curtimestamp\":\"now\",\"query\":{\"pages\":[" PAGE("A", THERE) "]}}", RENDER_FAILED },
    { "{\"curtimestamp\":1795698457,\"query\":{\"pages\":[" PAGE("A", THERE) "]}}", RENDER_FAILED },
    { "{\"continue\":{\"incontinue\":\"0|B\"},\"curtimestamp\":\"2026-11-26T13:07:37Z\","
      "\"query\":{\"pages\":[" PAGE("A", THERE) "]}}",
      RENDER_FAILED },
    { "{\"continue\":{\"rccontinue\":\"1|2\",\"incontinue\":\"0|B\",\"continue\":\"||\"},"
      "\"curtimestamp\":\"2026-11-26T13:07:37Z\",\"query\":{\"pages\":[" PAGE("A", THERE) "]}}",
      RENDER_FAILED },
    { "{\"continue\":true,\"curtimestamp\":\"2026-11-26T13:07:37Z\","
      "\"query\":{\"pages\":[" PAGE("A", THERE) "]}}",
      RENDER_FAILED },
    { REPLY("\"pages\":{\"5\":" PAGE("A", THERE) "}"), RENDER_FAILED },
    { REPLY("\"pages\":[" PAGE("A", THERE) "],\"normalized\":{}"), RENDER_FAILED },
    { REPLY("\"pages\":[" PAGE("A", THERE) "],\"interwiki\":7"), RENDER_FAILED },
    { REPLY("\"pages\":[" PAGE("A", THERE) "],\"badrevids\":[]"), RENDER_FAILED },
    { SAID_MAXLAG, RENDER_BUSY },
    { ERROR("ratelimited"), RENDER_BUSY },
    { ERROR("readonly"), RENDER_BUSY },
    { SAID_DENIED, RENDER_DENIED },
    { SAID_TOO_MANY, RENDER_REFUSED },
    { ERROR("internal_api_error_DBQueryError"), RENDER_FAILED },
};

static void each_failure_has_its_meaning_and_leaves_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(failures); i++) {
        struct words_title t = { .title = STR("A"), .state = WORDS_TITLE_THERE, .page_id = 5 };
        struct words w = { .titles = &t, .titles_count = 1, .said_s = 7 };
        enum render_why why = parse(failures[i].json, german, &w);
        if (why != failures[i].why)
            fail_msg("%s: %s", failures[i].json, render_why_name(why));
        assert_int_equal(t.state, WORDS_TITLE_UNANSWERED);
        assert_int_equal(t.page_id, 0);
        assert_true(str_eq(t.title, STR("A")));
    }
}

static void a_full_arena_leaves_nothing(void **state)
{
    (void)state;
    unsigned full = 0;
    for (size_t bytes = 0; bytes < 1 << 20; bytes += 64) {
        struct arena small;
        struct err_note note = { .text = "" };
        struct words_title t[] = { { .title = STR("Café") }, { .title = STR("Cafe\xcc\x81") } };
        struct words w = { .titles = t, .titles_count = COUNT_OF(t) };
        arena_init(&small, bytes);
        enum render_why why = api_words_parse(&small, STR(SAID_NFC), german, &w, &note);
        assert_true(why == RENDER_FINE || why == RENDER_LIMIT);
        assert_int_equal(t[0].state,
                         why == RENDER_FINE ? WORDS_TITLE_THERE : WORDS_TITLE_UNANSWERED);
        assert_int_equal(t[1].state,
                         why == RENDER_FINE ? WORDS_TITLE_ELSEWHERE : WORDS_TITLE_UNANSWERED);
        full += why == RENDER_LIMIT;
        arena_fini(&small);
        if (why == RENDER_FINE)
            break;
    }
    assert_true(full > 0);
}

static struct wiki_newest newest_of(const char *json)
{
    struct err_note note;
    struct words_title t = { .title = STR("A") };
    struct words w = { .titles = &t, .titles_count = 1 };
    assert_int_equal(api_words_parse(&arena, str_of(json), NULL, &w, &note), RENDER_FINE);
    assert_int_equal(t.state, WORDS_TITLE_THERE);
    return w.newest;
}

/* As MediaWiki 1.39 says it: its list of changes always goes on. */
static void how_far_the_database_had_come_is_read(void **state)
{
    (void)state;
    struct wiki_newest n =
        newest_of("{\"continue\":{\"rccontinue\":\"20261126201613|668\",\"continue\":\"-||info\"},"
                  "\"curtimestamp\":\"2026-11-26T20:21:47Z\",\"query\":{\"pages\":[" PAGE(
                      "A", THERE) "],\"recentchanges\":[{\"type\":\"edit\",\"pageid\":201,"
                                  "\"revid\":669,\"rcid\":670,"
                                  "\"timestamp\":\"2026-11-26T20:16:21Z\"}]}}");
    assert_int_equal(n.id, 670);
    assert_int_equal(n.at_s, 1795724181);
    static const char *const none[] = {
        REPLY("\"pages\":[" PAGE("A", THERE) "]"),
        REPLY("\"pages\":[" PAGE("A", THERE) "],\"recentchanges\":[]"),
        REPLY("\"pages\":[" PAGE("A", THERE) "],\"recentchanges\":7"),
        REPLY("\"pages\":[" PAGE("A", THERE) "],\"recentchanges\":[{\"rcid\":7}]"),
        REPLY("\"pages\":[" PAGE("A", THERE) "],\"recentchanges\":[{\"rcid\":-7,"
                                             "\"timestamp\":\"2026-11-26T20:16:21Z\"}]"),
    };
    for (size_t i = 0; i < COUNT_OF(none); i++)
        assert_int_equal(newest_of(none[i]).id, 0);
}

static void queries_ask_for_all(void **state)
{
    (void)state;
    struct words_title t[] = { { .title = STR("A/B|C") }, { .title = STR("Caf\xc3\xa9_x") } };
    struct words_revision v[] = { { .rev = 7 }, { .rev = INT64_MAX } };
    struct words titles = { .titles = t, .titles_count = COUNT_OF(t) };
    struct words revisions = { .revisions = v, .revisions_count = COUNT_OF(v) };
    assert_true(str_eq(api_words_query(&arena, &titles),
                       STR("curtimestamp=1&maxlag=5&" WIKI_NEWEST_QUERY
                           "&prop=info&titles=%1FA%2FB%7CC%1FCaf%C3%A9_x")));
    assert_true(
        str_eq(api_words_query(&arena, &revisions),
               STR("curtimestamp=1&maxlag=5&" WIKI_NEWEST_QUERY "&prop=revisions&rvprop=ids%7Csha1"
                   "&revids=7%7C9223372036854775807")));
    struct arena none;
    arena_init(&none, 16);
    assert_null(api_words_query(&none, &titles).p);
    assert_null(api_words_query(&none, &revisions).p);
    arena_fini(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_title_takes_its_own_word),
        cmocka_unit_test(a_word_is_followed_through_both_forms_of_a_title),
        cmocka_unit_test(a_users_gender_makes_no_other_title),
        cmocka_unit_test(what_is_said_twice_or_not_at_all_is_no_word),
        cmocka_unit_test(half_a_word_is_none),
        cmocka_unit_test(an_instant_that_is_too_late_is_the_latest_there_is),
        cmocka_unit_test(each_revision_takes_its_own_word),
        cmocka_unit_test(a_reply_that_does_not_say_what_is_hidden_is_no_word),
        cmocka_unit_test(what_an_account_may_see_is_hidden_all_the_same),
        cmocka_unit_test(a_revision_said_twice_or_by_halves_is_no_word),
        cmocka_unit_test(each_failure_has_its_meaning_and_leaves_nothing),
        cmocka_unit_test(a_full_arena_leaves_nothing),
        cmocka_unit_test(how_far_the_database_had_come_is_read),
        cmocka_unit_test(queries_ask_for_all),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
