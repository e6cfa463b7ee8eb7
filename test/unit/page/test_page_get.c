/* Goal: a read ends with the outcome that its request, the store and the wiki call for. Method: a
 * service on a real store, in front of a wiki that says what the test says (stage.h). */
#include "stage.h"

#include "base/log.h"
#include "loop/loop.h"
#include "page/hop.h"
#include "page/stash.h"
#include "sites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MADE "<html><head></head>made"

/* ---- what is stored ---- */

static void conditions_codings_and_ranges_choose_the_outcome(void **state)
{
    (void)state;
    struct stage s;
    struct asked a;
    stage_begin(&s, false);
    struct page_name name = stage_put(&s, "T", 7, "0123456789 0123456789 0123456789 0123456789");
    struct page_name other = { .rev = 8 };
    const struct page_match is = { .kind = MATCH_LISTED, .names = &name, .count = 1 },
                            isnt = { .kind = MATCH_LISTED, .names = &other, .count = 1 };
    const struct {
        struct page_match match, none;
        const char *codings, *range;
        enum page_outcome outcome;
        const char *body;
    } cases[] = {
        { { 0 }, { 0 }, "", "", GOT_CONTENT, "0123456789 0123456789 0123456789 0123456789" },
        { is, { 0 }, "", "", GOT_CONTENT, "0123456789 0123456789 0123456789 0123456789" },
        { isnt, { 0 }, "", "", GOT_PRECONDITION, "" },
        { { 0 }, is, "", "", GOT_SAME, "" },
        { { 0 }, { 0 }, "", "bytes=1-3", GOT_PART, "123" },
        { { 0 }, { 0 }, "", "bytes=100-", GOT_NO_RANGE, "" },
        { { 0 }, { 0 }, "identity;q=0", "", GOT_UNACCEPTABLE, "" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        asked_init(&a, &s, "T");
        a.get.condition =
            (struct page_condition){ .match = cases[i].match, .none_match = cases[i].none };
        a.get.accept_encoding = str_of(cases[i].codings);
        a.get.range_fields.range = str_of(cases[i].range);
        asked_start(&a);
        assert_int_equal(asked_wait(&a), cases[i].outcome);
        assert_string_equal(a.body, cases[i].body);
        assert_int_equal(a.get.how, HOW_HIT);
        asked_fini(&a);
    }
    asked_init(&a, &s, "T");
    a.get.accept_encoding = STR("gzip");
    asked_start(&a);
    assert_int_equal(asked_wait(&a), GOT_CONTENT);
    assert_int_equal(a.get.coding, page_coding_of(a.get.read.bodies[0].codec));
    asked_fini(&a);
    assert_int_equal(wiki_asked(&s), 0);
    stage_end(&s);
}

static void what_is_not_there_and_not_made_is_said_so(void **state)
{
    (void)state;
    struct stage s;
    struct asked a;
    stage_begin(&s, false);
    struct page_name name = stage_put(&s, "T", 7, "x");
    asked_init(&a, &s, "T");
    a.get.target.domain = &s.domains[1];
    asked_start(&a);
    assert_int_equal(asked_wait(&a), GOT_NOTHING); /* no origin */
    asked_fini(&a);
    asked_init(&a, &s, "T");
    a.get.target.content = STR("image");
    asked_start(&a);
    assert_int_equal(asked_wait(&a), GOT_NO_CONTENT);
    asked_fini(&a);
    struct page_order purge = { .kind = ORDER_PURGE };
    assert_int_equal(stage_order(&s, &purge, "T"), ERR_OK);
    asked_init(&a, &s, "T"); /* an exact render is never made */
    a.get.target.has_rev = a.get.target.has_tid = true;
    a.get.target.name = name;
    asked_start(&a);
    assert_int_equal(asked_wait(&a), GOT_GONE);
    assert_int_equal(a.get.trace.state, PAGE_PURGED);
    asked_fini(&a);
    asked_init(&a, &s, "T"); /* nor is what an instant selects */
    a.get.flags |= GET_AT;
    a.get.read.which = page_target_which(&a.get.target);
    a.get.read.which.select = SELECT_SERVED_AT;
    a.get.read.which.at = (store_time){ .ns = 1 };
    asked_start(&a);
    assert_int_not_equal(asked_wait(&a), GOT_CONTENT);
    asked_fini(&a);
    assert_int_equal(ask(&s, "U", GET_ONLY_CACHED, NULL), GOT_UNCACHED);
    asked_init(&a, &s, "U");
    a.drains = true;
    asked_start(&a);
    assert_int_equal(asked_wait(&a), GOT_REFUSED);
    asked_fini(&a);
    assert_int_equal(wiki_asked(&s), 0);
    stage_end(&s);
}

static void a_read_that_names_its_revision_makes_its_life_longer(void **state)
{
    (void)state;
    struct stage s;
    struct asked a;
    stage_begin(&s, false);
    (void)stage_put(&s, "T", 7, "old");
    (void)stage_put(&s, "T", 8, "new");
    for (unsigned i = 0; i < 3; i++) {
        asked_init(&a, &s, "T");
        a.get.target.has_rev = true;
        a.get.target.name.rev = 7;
        a.drains = i == 0;
        asked_start(&a);
        assert_int_equal(asked_wait(&a), i == 0 ? GOT_REFUSED : GOT_CONTENT);
        assert_int_equal((a.get.was & WAS_WRITTEN) != 0, i == 1); /* then it is long enough */
        asked_fini(&a);
    }
    stage_end(&s);
}

static void what_is_kept_for_an_editor_is_counted(void **state)
{
    (void)state;
    struct stage s;
    struct asked a;
    stage_begin(&s, false);
    (void)stage_put(&s, "T", 7, "x");
    assert_int_equal(ask(&s, "T", GET_STASH, NULL), GOT_CONTENT);
    (void)stage_put(&s, "U", 7, "x");
    while (page_stash_take(&s.service, 1000))
        ;
    while (page_stash_take(&s.service, 1))
        ;
    assert_int_equal(ask(&s, "U", GET_STASH, NULL), GOT_FULL);
    page_stash_keep(&s.service, 1000, 0);
    asked_init(&a, &s, "U");
    a.get.flags |= GET_STASH;
    a.drains = true;
    asked_start(&a);
    assert_int_equal(asked_wait(&a), GOT_REFUSED); /* which gives back what it took */
    asked_fini(&a);
    assert_int_equal(ask(&s, "U", GET_STASH, NULL), GOT_CONTENT);
    page_stash_keep(&s.service, 10, 20);
    stage_end(&s);
}

/* ---- made anew ---- */

static void no_cache_makes_it_anew_or_tells_what_is_stored(void **state)
{
    (void)state;
    struct stage s;
    struct asked a;
    char body[256];
    stage_begin(&s, false);
    (void)stage_put(&s, "T", 7, "stored");
    wiki_say(&s, (struct wiki_says){ .why = RENDER_FAILED });
    asked_init(&a, &s, "T");
    a.get.flags |= GET_NO_CACHE;
    asked_start(&a);
    assert_int_equal(asked_wait(&a), GOT_CONTENT);
    assert_int_equal(a.get.how, HOW_STALE);
    assert_string_equal(a.body, "stored");
    asked_fini(&a);
    wait_pause(5); /* failures live a millisecond here */
    assert_int_equal(ask(&s, "T", GET_NO_CACHE | GET_NO_STALE, NULL), GOT_ORIGIN_FAILED);
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = MADE });
    asked_init(&a, &s, "T");
    a.get.flags |= GET_NO_CACHE;
    a.get.condition = (struct page_condition){ .dated = true, .before = STORE_TIME_ZERO };
    asked_start(&a); /* "is yours younger than that?" */
    assert_int_equal(asked_wait(&a), GOT_PRECONDITION);
    asked_fini(&a);
    WAIT_UNTIL(ask(&s, "T", GET_NO_CACHE, body) == GOT_CONTENT && strstr(body, "made") != NULL);
    stage_end(&s);
}

static void a_newer_specification_makes_it_anew(void **state)
{
    (void)state;
    static const char stored[] = "text/html; profile=\"https://x/Specs/HTML/1.0.0\"";
    struct stage s;
    struct asked a;
    stage_begin(&s, false);
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = MADE, .type = stored });
    assert_int_equal(ask(&s, "T", 0, NULL), GOT_CONTENT);
    asked_init(&a, &s, "T");
    a.get.accept = STR("text/html; profile=\"https://x/Specs/HTML/2.0.0\"");
    asked_start(&a); /* it was made a moment ago: another would be no newer */
    assert_int_equal(asked_wait(&a), GOT_UNACCEPTABLE);
    asked_fini(&a);
    asked_init(&a, &s, "T");
    a.get.accept = STR("text/html; profile=\"https://x/Specs/HTML/1.0.0\"");
    asked_start(&a);
    assert_int_equal(asked_wait(&a), GOT_CONTENT);
    asked_fini(&a);
    stage_end(&s);
}

/* ---- one making, many waiters ---- */

static void waiters_share_the_making_and_what_one_built(void **state)
{
    (void)state;
    struct stage s;
    struct asked first, waiters[4];
    stage_begin(&s, false);
    wiki_hold(&s, true);
    asked_init(&first, &s, "T");
    first.wants_shape = 0;
    first.offers = NULL;
    asked_start(&first);
    wiki_wait(&s, 1);
    for (size_t i = 0; i < COUNT_OF(waiters); i++) {
        asked_init(&waiters[i], &s, "T");
        waiters[i].wants_shape = i == 3 ? -1 : 0;
        waiters[i].offers = strdup("built");
        asked_start(&waiters[i]);
    }
    struct flight_stats stats;
    do
        flights_stats_get(s.service.flights, &stats);
    while (stats.waiters < 1 + COUNT_OF(waiters) && (wait_pause(1), true));
    wiki_hold(&s, false);
    assert_int_equal(asked_wait(&first), GOT_CONTENT);
    assert_int_equal(asked_wait(&waiters[0]), GOT_CONTENT);
    assert_true(waiters[0].offered);
    assert_int_equal(waiters[0].get.was & WAS_COLLAPSED, WAS_COLLAPSED);
    for (size_t i = 1; i < 3; i++) {
        assert_int_equal(asked_wait(&waiters[i]), GOT_SHAPE);
        assert_string_equal(waiters[i].body, "built");
        free(waiters[i].offers);
    }
    assert_int_equal(asked_wait(&waiters[3]), GOT_CONTENT); /* who asks oddly reads for itself */
    free(waiters[3].offers);
    assert_int_equal(wiki_asked(&s), 1);
    asked_fini(&first);
    for (size_t i = 0; i < COUNT_OF(waiters); i++)
        asked_fini(&waiters[i]);
    stage_end(&s);
}

struct leaving {
    struct asked *asked;
    struct awaited over;
    bool left;
};

static void leave(void *ctx)
{
    struct leaving *l = ctx;
    l->left = page_get_leave(&l->asked->get);
    awaited_tell(&l->over, ERR_OK);
}

static bool leaves(struct stage *s, struct asked *a)
{
    struct leaving l = { .asked = a };
    awaited_init(&l.over);
    loop_post(s->loop, leave, &l);
    assert_int_equal(awaited_wait(&l.over), ERR_OK);
    awaited_fini(&l.over);
    return l.left;
}

static void who_leaves_is_not_told_and_it_is_made_all_the_same(void **state)
{
    (void)state;
    struct stage s;
    struct asked a;
    stage_begin(&s, false);
    wiki_hold(&s, true);
    asked_init(&a, &s, "T");
    asked_start(&a);
    wiki_wait(&s, 1);
    assert_true(leaves(&s, &a));
    assert_false(leaves(&s, &a));
    wiki_hold(&s, false);
    WAIT_UNTIL(ask(&s, "T", GET_ONLY_CACHED, NULL) == GOT_CONTENT);
    asked_fini(&a);
    stage_end(&s);
}

/* ---- redirects ---- */

static void redirects_are_told_and_followed_for_scripts(void **state)
{
    (void)state;
    struct stage s;
    struct asked a;
    char body[256];
    stage_begin(&s, false);
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = MADE, .redirect = "B" });
    asked_init(&a, &s, "A");
    asked_start(&a);
    assert_int_equal(asked_wait(&a), GOT_REDIRECT);
    assert_true(str_eq(a.get.location, STR("B")));
    asked_fini(&a);
    (void)stage_put(&s, "B", 3, "target");
    assert_int_equal(ask(&s, "A", GET_SCRIPT, body), GOT_CONTENT);
    assert_string_equal(body, "target");
    struct page_order purge = { .kind = ORDER_PURGE, .elsewhere = true };
    assert_int_equal(stage_order(&s, &purge, "B"), ERR_OK);
    wiki_say(&s, (struct wiki_says){ .why = RENDER_NO_PAGE });
    asked_init(&a, &s, "A"); /* where it leads to nothing, it is the page itself */
    a.get.flags |= GET_SCRIPT;
    asked_start(&a);
    assert_int_equal(asked_wait(&a), GOT_CONTENT);
    assert_non_null(strstr(a.body, "made"));
    assert_true(str_eq(a.get.target.title, STR("A")));
    asked_fini(&a);
    asked_init(&a, &s, "A");
    a.get.flags = 0; /* not to be followed */
    asked_start(&a);
    assert_int_equal(asked_wait(&a), GOT_CONTENT);
    asked_fini(&a);
    stage_end(&s);
}

/* ---- titles ---- */

static void titles_are_the_wikis(void **state)
{
    (void)state;
    struct stage s;
    struct asked a;
    char body[256];
    stage_begin(&s, false);
    assert_int_equal(ask(&s, "T", 0, NULL), GOT_CONTENT);
    wiki_rules(&s, NULL);
    assert_int_equal(ask(&s, "t", 0, NULL), GOT_ORIGIN_FAILED); /* no rules, and none to be had */
    assert_int_equal(ask(&s, "t", GET_ONLY_CACHED, NULL), GOT_UNCACHED);
    wiki_rules(&s, SITE_JSON("de"));
    asked_init(&a, &s, "t");
    asked_start(&a);
    assert_int_equal(asked_wait(&a), GOT_MOVED);
    assert_true(str_eq(a.get.target.title, STR("T")));
    asked_fini(&a);
    assert_int_equal(ask(&s, "t", GET_SCRIPT, body), GOT_CONTENT); /* who cannot go there gets it */
    assert_non_null(strstr(body, "made"));
    assert_int_equal(ask(&s, "t", GET_ONLY_CACHED, NULL), GOT_CONTENT);
    assert_int_equal(ask(&s, "Spezial:X", 0, NULL), GOT_BAD_TITLE);
    assert_int_equal(ask(&s, "a|b", 0, NULL), GOT_BAD_TITLE);
    assert_int_equal(ask(&s, "a|b", GET_ONLY_CACHED, NULL), GOT_BAD_TITLE);
    wiki_say(&s, (struct wiki_says){ .why = RENDER_OTHER_TITLE, .title = "T" });
    assert_int_equal(ask(&s, "Other", 0, NULL), GOT_MOVED); /* the wiki's own word */
    assert_int_equal(ask(&s, "Other", GET_SCRIPT, body), GOT_CONTENT);
    assert_non_null(strstr(body, "made"));
    wiki_say(&s, (struct wiki_says){ .why = RENDER_OTHER_TITLE, .title = "V" });
    assert_int_equal(ask(&s, "U", GET_SCRIPT, NULL), GOT_ORIGIN_FAILED); /* and that by another */
    stage_end(&s);
}

/* ---- what is asked of a service, and of a target ---- */

static void domains_and_buckets_are_found_by_name(void **state)
{
    (void)state;
    struct stage s;
    stage_begin(&s, false);
    assert_ptr_equal(page_domain_find(&s.service, STR("en.test")), &s.domains[0]);
    assert_ptr_equal(page_domain_find(&s.service, STR("plain.test")), &s.domains[1]);
    assert_null(page_domain_find(&s.service, STR("a.test")));
    assert_null(page_domain_find(&s.service, STR("z.test")));
    assert_ptr_equal(page_settings_find(&s.service, STR("page")), &s.settings);
    assert_null(page_settings_find(&s.service, STR("pages")));
    stage_end(&s);
}

static void targets_say_what_can_be_done_with_them(void **state)
{
    (void)state;
    static const char *const contents[] = { "html", "image" };
    const struct page_bucket_opts opts = { .name = "page",
                                           .contents = contents,
                                           .contents_count = 2 };
    struct page_settings few = { .opts = &opts };
    struct stage s;
    stage_begin(&s, false);
    struct page_target t = { .domain = &s.domains[0], .settings = &s.settings };
    t.content = STR("html");
    assert_true(page_target_can_be_made(&t));
    assert_true(page_target_can_be_edited(&t)); /* the wiki is of kind parsoid */
    t.content = STR("data-parsoid");
    assert_true(page_target_can_be_made(&t));
    t.settings = &few;
    assert_false(page_target_can_be_made(&t));
    t.content = STR("html");
    assert_true(page_target_can_be_made(&t));
    t.content = STR("image");
    assert_false(page_target_can_be_made(&t));
    t.content = STR("html");
    t.has_tid = t.has_rev = true;
    assert_false(page_target_can_be_made(&t));
    assert_int_equal(page_target_which(&t).select, SELECT_EXACT);
    t.domain = &s.domains[1];
    assert_false(page_target_can_be_made(&t));
    assert_true(page_target_can_be_edited(&t));
    stage_end(&s);
}

static void a_busy_origin_is_left_alone_as_long_as_it_wants(void **state)
{
    (void)state;
    struct stage s;
    stage_begin(&s, false);
    struct page_target t = { .domain = &s.domains[0], .settings = &s.settings };
    struct page_target plain = { .domain = &s.domains[1], .settings = &s.settings };
    page_heed(&s.service, &t, RENDER_FAILED, 60);
    assert_int_equal(page_retry_ms(&s.service, &t, ERR_AGAIN, 5), 5);
    page_heed(&s.service, &t, RENDER_BUSY, 60);
    assert_in_range(page_retry_ms(&s.service, &t, ERR_AGAIN, 5), 1000, 60000);
    assert_int_equal(page_retry_ms(&s.service, &t, ERR_AGAIN, 70000), 70000);
    assert_int_equal(page_retry_ms(&s.service, &t, ERR_TIMEOUT, 5), 5);
    page_heed(&s.service, &plain, RENDER_BUSY, 60);
    assert_int_equal(page_retry_ms(&s.service, &plain, ERR_AGAIN, 5), 5);
    struct tid now = tid_make(tid_ticks(clock_store(s.service.clock)), 1), old = tid_make(1, 1);
    static const err outages[] = { ERR_UNAVAILABLE, ERR_TIMEOUT, ERR_AGAIN,
                                   ERR_CORRUPT,     ERR_LIMIT,   ERR_SHUTDOWN };
    for (size_t i = 0; i < COUNT_OF(outages); i++)
        assert_true(page_may_be_stale(&s.service, &t, outages[i], now));
    assert_false(page_may_be_stale(&s.service, &t, ERR_TIMEOUT, old));
    assert_false(page_may_be_stale(&s.service, &t, ERR_NOT_FOUND, now));
    stage_end(&s);
}

static void what_could_not_be_read_is_not_said_to_be_missing(void **state)
{
    static const struct {
        err why;
        int status;
    } says[] = { { ERR_NOT_FOUND, 404 }, { ERR_CORRUPT, 404 },     { ERR_GONE, 410 },
                 { ERR_IO, 503 },        { ERR_UNAVAILABLE, 503 }, { ERR_LIMIT, 503 },
                 { ERR_TIMEOUT, 503 },   { ERR_SHUTDOWN, 503 } };
    static const struct page_service service = { .arena_bytes_max = 1 << 16 };
    struct arena arena;
    (void)state;
    arena_init(&arena, 1 << 16);
    for (size_t i = 0; i < COUNT_OF(says); i++) {
        struct page_give g = {
            .service = &service, .arena = &arena, .why = says[i].why, .state = PAGE_DELETED
        };
        str body;
        assert_int_equal(page_give_answer(&g, &body), says[i].status);
    }
    arena_fini(&arena);
}

/* Pure: by a read that was filled in by hand. */
static void an_answer_lasts_as_long_as_its_render_stays_as_it_is(void **state)
{
    (void)state;
    struct page_bucket_opts opts = { .policy = { .grace_ttl_ns = 10 } };
    struct page_settings settings = { .opts = &opts };
    static const struct page_service service; /* no wiki is asked */
    static const struct page_domain domain;
    static struct page_get g;
    g = (struct page_get){ .service = &service,
                           .target = { .domain = &domain, .settings = &settings },
                           .outcome = GOT_CONTENT,
                           .how = HOW_HIT,
                           .renews_at = STORE_TIME_NEVER,
                           .read = { .which = { .select = SELECT_LATEST },
                                     .render = { .state = PAGE_CURRENT, .due_at = { 100 } },
                                     .lasts_until = { 50 } } };
    store_time until = STORE_TIME_ZERO;
    assert_true(page_get_lasts(&g, &until));
    assert_int_equal(until.ns, 100); /* its own end */
    g.renews_at.ns = 70;
    assert_true(page_get_lasts(&g, &until));
    assert_int_equal(until.ns, 70); /* then a read tells the other servers of it */
    g.read.which.select = SELECT_REV;
    assert_true(page_get_lasts(&g, &until));
    assert_int_equal(until.ns, 50); /* then a read has to extend its life */
    g.read.render.state = PAGE_RECENT;
    g.read.render.superseded_at.ns = 30;
    assert_true(page_get_lasts(&g, &until));
    assert_int_equal(until.ns, 40); /* then it counts as historical */
    g.outcome = GOT_SAME;
    assert_true(page_get_lasts(&g, &until));
    const struct page_get lasts = g;
    for (unsigned i = 0; i < 5; i++) {
        g = lasts;
        switch (i) {
        case 0:
            g.outcome = GOT_PART;
            break;
        case 1:
            g.how = HOW_STALE;
            break;
        case 2:
            g.hops = 1;
            break;
        case 3:
            g.was = WAS_UNLIKE;
            break;
        default:
            g.was = WAS_WRITTEN | WAS_SETTLED;
        }
        assert_false(page_get_lasts(&g, &until));
    }
    assert_int_equal(until.ns, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conditions_codings_and_ranges_choose_the_outcome),
        cmocka_unit_test(what_is_not_there_and_not_made_is_said_so),
        cmocka_unit_test(a_read_that_names_its_revision_makes_its_life_longer),
        cmocka_unit_test(what_is_kept_for_an_editor_is_counted),
        cmocka_unit_test(no_cache_makes_it_anew_or_tells_what_is_stored),
        cmocka_unit_test(a_newer_specification_makes_it_anew),
        cmocka_unit_test(waiters_share_the_making_and_what_one_built),
        cmocka_unit_test(who_leaves_is_not_told_and_it_is_made_all_the_same),
        cmocka_unit_test(redirects_are_told_and_followed_for_scripts),
        cmocka_unit_test(titles_are_the_wikis),
        cmocka_unit_test(domains_and_buckets_are_found_by_name),
        cmocka_unit_test(targets_say_what_can_be_done_with_them),
        cmocka_unit_test(a_busy_origin_is_left_alone_as_long_as_it_wants),
        cmocka_unit_test(what_could_not_be_read_is_not_said_to_be_missing),
        cmocka_unit_test(an_answer_lasts_as_long_as_its_render_stays_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
