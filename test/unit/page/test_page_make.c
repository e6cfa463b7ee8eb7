/* Goal: a missing render is made once for all who want it, whoever they are; few threads are woken
 * for it; and what the wiki says against stored renders holds. Method: a service on a real store,
 * in front of a wiki that says what the test says (stage.h), without Redis and with it. */
#include "stage.h"

#include "base/log.h"
#include "flight/shared.h"
#include "loop/loop.h"
#include "page/look.h"
#include "page/tell.h"
#include "page/wiki.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HAND_OVERS_MAX = 5 };

/* worker -> loop -> pool (parsed, put) -> committer -> loop -> worker */
static void assert_few_hand_overs(bool has_redis)
{
    struct stage s;
    struct asked a;
    stage_begin(&s, has_redis);
    for (unsigned i = 0; i < 3; i++) {
        char title[8];
        (void)snprintf(title, sizeof title, "T%u", i);
        asked_init(&a, &s, title);
        asked_start(&a);
        assert_int_equal(asked_wait(&a), GOT_CONTENT);
        assert_int_equal(a.get.how, HOW_MISS);
        assert_string_equal(a.get.how_detail, "leader");
        assert_int_equal(a.get.was & WAS_COLLAPSED, 0);
        assert_non_null(strstr(a.body, "made"));
        assert_in_range(a.hand_overs, 1, HAND_OVERS_MAX); /* one less if the loop turns anyway */
        asked_fini(&a);
        asked_init(&a, &s, title);
        asked_start(&a);
        assert_int_equal(asked_wait(&a), GOT_CONTENT);
        assert_int_equal(a.get.how, HOW_HIT);
        assert_int_equal(a.hand_overs, 0);
        asked_fini(&a);
    }
    assert_int_equal(wiki_asked(&s), 3);
    stage_end(&s);
}

static void a_miss_is_handed_over_five_times_at_most(void **state)
{
    (void)state;
    assert_few_hand_overs(false);
}

static void with_redis_no_oftener(void **state)
{
    (void)state;
    assert_few_hand_overs(true);
}

/* ---- the second look ---- */

static void put_meanwhile(struct asked *a)
{
    (void)stage_put(a->stage, "T", 7, "<p>put");
}

static void what_was_put_meanwhile_is_not_made(void **state)
{
    (void)state;
    struct stage s;
    struct asked a;
    stage_begin(&s, false);
    asked_init(&a, &s, "T");
    a.before_wait = put_meanwhile;
    asked_start(&a);
    assert_int_equal(asked_wait(&a), GOT_CONTENT);
    assert_int_equal(a.get.how, HOW_HIT);
    assert_string_equal(a.body, "<p>put");
    assert_int_equal(wiki_asked(&s), 0);
    asked_fini(&a);
    stage_end(&s);
}

/* ---- asked for by domain, title and revision ---- */

struct wisher {
    struct flight_waiter waiter;
    struct awaited over;
    struct page_name name;
    bool found;
};

static void wish_over(struct flight_waiter *w, err why, struct flight_value *v,
                      const struct err_note *note)
{
    struct wisher *k = CONTAINER_OF(w, struct wisher, waiter);
    (void)note;
    if (why == ERR_OK) {
        k->name = page_made_of(v)->name;
        k->found = page_made_of(v)->found;
    }
    awaited_tell(&k->over, why);
}

static err wish_wait(struct stage *s, const struct page_wish *want, struct wisher *k)
{
    *k = (struct wisher){ .waiter = { .deadline = mono_add_ms(clock_mono(s->service.clock), 120000),
                                      .done = wish_over } };
    awaited_init(&k->over);
    err why = page_make(&s->service, want, &k->waiter);
    if (why == ERR_OK)
        why = awaited_wait(&k->over);
    awaited_fini(&k->over);
    return why;
}

static err wish(struct stage *s, const char *title, uint64_t rev, bool fresh, struct wisher *k)
{
    const struct page_wish want = { .domain = &s->domains[0],
                                    .settings = &s->settings,
                                    .title = str_of(title),
                                    .rev = rev,
                                    .fresh = fresh };
    return wish_wait(s, &want, k);
}

/* Another revision of it was put after it was looked at: so it is looked at once more. */
static void what_is_still_dated_when_it_is_looked_at_again_is_made(void **state)
{
    (void)state;
    struct stage s;
    struct wisher k;
    char body[256];
    stage_begin_checked(&s);
    assert_int_equal(ask(&s, "T", 0, body), GOT_CONTENT);
    struct wiki_word w = wiki_word_now(&s);
    w.touched_s += 50;
    wiki_word(&s, w);
    assert_true(page_look(&s.service, &s.domains[0], STR("T"), NULL));
    WAIT_UNTIL(stage_dated(&s, "T") == DATED_TOUCHED);
    const struct page_seen seen =
        page_changes_see(s.service.changes,
                         page_store_bucket_number(s.service.store, s.settings.bucket),
                         s.domains[0].number, STR("T"));
    const struct page_wish want = { .domain = &s.domains[0],
                                    .settings = &s.settings,
                                    .title = STR("T"),
                                    .fresh = true,
                                    .dated = true,
                                    .seen = &seen };
    (void)stage_put(&s, "T", 6, "older");
    assert_int_equal(wish_wait(&s, &want, &k), ERR_OK);
    assert_false(k.found);
    assert_int_equal(stage_dated(&s, "T"), DATED_NOT);
    assert_int_equal(wish_wait(&s, &want, &k), ERR_OK); /* nor is it made twice */
    assert_true(k.found);
    assert_int_equal(wiki_asked(&s), 2);
    stage_end(&s);
}

static void a_render_is_asked_for_without_a_request(void **state)
{
    (void)state;
    struct stage s;
    struct wisher first, again, fresh, old;
    stage_begin(&s, false);
    assert_int_equal(wish(&s, "T", 0, false, &first), ERR_OK);
    assert_int_equal(first.name.rev, 7);
    assert_false(first.found);
    assert_int_equal(wish(&s, "T", 0, false, &again), ERR_OK);
    assert_true(again.found);
    assert_int_equal(page_name_cmp(again.name, first.name), 0);
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = "<html><head></head>made anew" });
    assert_int_equal(wish(&s, "T", 0, true, &fresh), ERR_OK);
    assert_true(page_name_cmp(fresh.name, first.name) > 0);
    assert_int_equal(wish(&s, "T", 3, false, &old), ERR_OK);
    assert_int_equal(old.name.rev, 3);
    assert_int_equal(wiki_asked(&s), 3);
    wiki_say(&s, (struct wiki_says){ .why = RENDER_BUSY });
    assert_int_equal(wish(&s, "Other", 0, false, &old), ERR_AGAIN);
    assert_true(atomic_load(&s.busy_until_ns) > 0);
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = "no head" });
    assert_int_equal(wish(&s, "Headless", 0, false, &old),
                     ERR_OK); /* a head is the origin's business */
    stage_end(&s);
}

/* ---- what the wiki says ---- */

static void what_the_wiki_denies_is_gone_until_it_says_otherwise(void **state)
{
    (void)state;
    struct stage s;
    struct wisher k;
    struct page_trace trace;
    stage_begin(&s, false);
    assert_int_equal(ask(&s, "T", 0, NULL), GOT_CONTENT);
    wiki_say(&s, (struct wiki_says){ .why = RENDER_NO_PAGE });
    assert_int_equal(wish(&s, "T", 0, true, &k), ERR_NOT_FOUND);
    struct asked a;
    asked_init(&a, &s, "T");
    a.get.flags |= GET_ONLY_CACHED;
    asked_start(&a);
    assert_int_equal(asked_wait(&a), GOT_UNCACHED); /* it is hidden, and nobody may be asked */
    asked_fini(&a);
    assert_int_equal(ask(&s, "T", 0, NULL), GOT_ORIGIN_FAILED);
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = "<html><head></head>back" });
    assert_int_equal(ask(&s, "T", 0, NULL), GOT_CONTENT);
    wiki_say(&s, (struct wiki_says){ .why = RENDER_SUPPRESSED });
    asked_init(&a, &s, "T");
    a.get.target.has_rev = true;
    a.get.target.name.rev = 9;
    asked_start(&a);
    assert_int_equal(asked_wait(&a), GOT_GONE);
    trace = a.get.trace;
    assert_int_equal(trace.state, PAGE_SUPPRESSED);
    asked_fini(&a);
    static const struct {
        enum render_why why;
        err is;
    } others[] = { { RENDER_DENIED, ERR_DENIED },      { RENDER_REFUSED, ERR_BAD },
                   { RENDER_FAILED, ERR_UNAVAILABLE }, { RENDER_TIMEOUT, ERR_TIMEOUT },
                   { RENDER_LIMIT, ERR_CORRUPT },      { RENDER_NO_REVISION, ERR_NOT_FOUND } };
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        char title[8];
        (void)snprintf(title, sizeof title, "E%zu", i);
        wiki_say(&s, (struct wiki_says){ .why = others[i].why });
        assert_int_equal(wish(&s, title, i % 2 == 0 ? 5 : 0, false, &k), others[i].is);
    }
    stage_end(&s);
}

static void a_purge_meanwhile_makes_it_once_more(void **state)
{
    (void)state;
    struct stage s;
    struct asked a;
    struct page_order purge = { .kind = ORDER_PURGE, .elsewhere = true };
    stage_begin(&s, false);
    wiki_hold(&s, true);
    asked_init(&a, &s, "T");
    asked_start(&a);
    wiki_wait(&s, 1);
    assert_int_equal(stage_order(&s, &purge, "T"), ERR_OK);
    wiki_hold(&s, false);
    assert_int_equal(asked_wait(&a), GOT_CONTENT);
    assert_int_equal(wiki_asked(&s), 2);
    asked_fini(&a);
    stage_end(&s);
}

/* ---- to and from other servers ---- */

static bool is_stored(struct stage *s, const char *title)
{
    return ask(s, title, GET_ONLY_CACHED, NULL) == GOT_CONTENT;
}

/* As another server's, through Redis: whoever tells, all hear it. */
static void words_of_other_servers_are_followed(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "purge",
        "purge node1 page en.test x - T",
        "purge node1 page en.test 0 no-tid T",
        "purge node1 page en.test 7 no-tid T",
        "purge node1 page en.test 0 - ",
        "purge node1 other en.test 0 - T",
        "purge node1 page other.test 0 - T",
        "purge node0 page en.test 0 - T", /* ours */
        "mark node1 page en.test current 9 7 0 T",
        "mark node1 page en.test odd 1 7 0 T",
        "mark node1 page en.test deleted x 7 0 T",
        "mark node1 page en.test deleted 1 x 0 T",
        "mark node1 page en.test deleted 1 7 x T",
        "sing node1 page en.test 0 - T",
    };
    struct stage s;
    stage_begin(&s, true);
    (void)stage_put(&s, "T", 7, "<p>");
    (void)stage_put(&s, "M", 7, "<p>");
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        page_told(&s.service, str_of(bad[i]));
    assert_true(is_stored(&s, "T"));
    flight_shared_tell(s.service.shared, STR("purge node1 page en.test 0 - T"), false);
    WAIT_UNTIL(!is_stored(&s, "T"));
    flight_shared_tell(s.service.shared,
                       STR("mark node1 page en.test deleted 0 9223372036854775807 "
                           "9223372036854775807 M"),
                       false);
    WAIT_UNTIL(!is_stored(&s, "M"));
    struct page_target t = { .domain = &s.domains[0],
                             .settings = &s.settings,
                             .title = STR("T"),
                             .has_rev = true,
                             .has_tid = true,
                             .name = { .rev = 7, .tid = tid_make(0x1f0e6a4a0b0c000, 1) } };
    page_purge_tell(&s.service, &t); /* nobody else hears it; it must not come back as another's */
    stage_end(&s);
}

/* ---- what the wiki alone knows ---- */

struct word_asker {
    struct flight_waiter waiter;
    struct awaited over;
    struct flight_value *value;
};

static void word_over(struct flight_waiter *w, err why, struct flight_value *v,
                      const struct err_note *note)
{
    struct word_asker *k = CONTAINER_OF(w, struct word_asker, waiter);
    (void)note;
    k->value = why == ERR_OK ? flight_value_ref(v) : NULL;
    awaited_tell(&k->over, why);
}

static err word_ask(struct stage *s, enum render_want want, struct word_asker *k)
{
    const struct page_target t = {
        .domain = &s->domains[0], .settings = &s->settings, .title = STR("T"), .content = STR("")
    };
    *k = (struct word_asker){ .waiter = { .deadline =
                                              mono_add_ms(clock_mono(s->service.clock), 120000),
                                          .done = word_over } };
    awaited_init(&k->over);
    err why = page_word_ask(&s->service, &t, want, &k->waiter);
    if (why == ERR_OK)
        why = awaited_wait(&k->over);
    awaited_fini(&k->over);
    return why;
}

static void the_wiki_is_asked_for_what_it_alone_knows(void **state)
{
    (void)state;
    struct stage s;
    struct word_asker k;
    stage_begin(&s, false);
    assert_int_equal(word_ask(&s, WANT_META, &k), ERR_OK);
    assert_int_equal(page_word_of(k.value)->meta.rev, 7);
    assert_int_equal(page_word_of(k.value)->tid.ticks, 0); /* no render of it is stored */
    flight_value_unref(&k.value);
    struct page_name stored = stage_put(&s, "T", 7, "<p>");
    assert_int_equal(word_ask(&s, WANT_WIKITEXT, &k), ERR_OK);
    assert_true(str_eq(page_word_of(k.value)->body, STR("<html><head></head>made")));
    assert_int_equal(tid_cmp(page_word_of(k.value)->tid, stored.tid), 0);
    flight_value_unref(&k.value);
    wiki_say(&s, (struct wiki_says){ .why = RENDER_OTHER_TITLE, .title = "U" });
    assert_int_equal(word_ask(&s, WANT_LINT, &k), ERR_OK);
    assert_true(str_eq(page_word_of(k.value)->moved_to, STR("U")));
    flight_value_unref(&k.value);
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = "x", .type = "bad\x01type" });
    assert_int_equal(word_ask(&s, WANT_WIKITEXT, &k), ERR_CORRUPT);
    wiki_say(&s, (struct wiki_says){ .why = RENDER_NO_PAGE });
    assert_int_equal(word_ask(&s, WANT_META, &k), ERR_NOT_FOUND);
    wiki_say(&s, (struct wiki_says){ .why = RENDER_LIMIT });
    assert_int_equal(word_ask(&s, WANT_META, &k), ERR_CORRUPT);
    stage_end(&s);
}

/* The service ends while the wiki is being asked. */
static void what_is_made_at_the_end_is_told_to_stop(void **state)
{
    (void)state;
    struct stage s;
    struct asked a;
    stage_begin(&s, false);
    wiki_hold(&s, true);
    asked_init(&a, &s, "T");
    asked_start(&a);
    wiki_wait(&s, 1);
    flights_drain(s.service.flights);
    assert_int_equal(asked_wait(&a), GOT_ORIGIN_FAILED);
    assert_int_equal(a.get.why, ERR_SHUTDOWN);
    asked_fini(&a);
    assert_int_equal(ask(&s, "U", 0, NULL), GOT_ORIGIN_FAILED);
    stage_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_miss_is_handed_over_five_times_at_most),
        cmocka_unit_test(with_redis_no_oftener),
        cmocka_unit_test(what_was_put_meanwhile_is_not_made),
        cmocka_unit_test(a_render_is_asked_for_without_a_request),
        cmocka_unit_test(what_is_still_dated_when_it_is_looked_at_again_is_made),
        cmocka_unit_test(what_the_wiki_denies_is_gone_until_it_says_otherwise),
        cmocka_unit_test(a_purge_meanwhile_makes_it_once_more),
        cmocka_unit_test(words_of_other_servers_are_followed),
        cmocka_unit_test(the_wiki_is_asked_for_what_it_alone_knows),
        cmocka_unit_test(what_is_made_at_the_end_is_told_to_stop),
    };
    redis_server_need();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
