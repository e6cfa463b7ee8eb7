/* Goal: what is read of a title when the wiki's newest revision is not the greatest that is stored:
 * it went down, a copy of the wiki's database is behind, its history was imported; or when another
 * server heard it, by a clock that is ahead. Method: as test_page_check.c. */
#include "check_read.h"

static void a_copy_that_is_behind_hides_nothing(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "seven");
    (void)stage_put(&s, "T", 8, "eight");
    s.domains[0].check_wait_ms = 50; /* rev 7, says the wiki, and that 8 is there */
    struct got g = get(&s, 0, 0);
    assert_int_equal(g.outcome, GOT_CONTENT);
    assert_string_equal(g.body, "eight");
    assert_int_equal(g.trusted, GET_UNCHECKED);
    stage_end(&s);
}

static void a_newest_revision_that_went_down_is_hidden(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "seven");
    (void)stage_put(&s, "T", 8, "eight");
    struct wiki_word w = wiki_word_now(&s);
    w.shown = WORDS_REVISION_MISSING;
    wiki_word(&s, w);
    struct got g = get(&s, 0, 0);
    assert_int_equal(g.outcome, GOT_CONTENT);
    assert_string_equal(g.body, "seven");
    assert_int_equal(wiki_words_asked(&s), 2);
    stage_end(&s);
}

struct hearing {
    struct page_hear hear;
    struct awaited over;
};

static void hearing_over(struct store_call *c)
{
    awaited_tell(&CONTAINER_OF(c, struct hearing, hear.call)->over, c->why);
}

/* A word that another server asked for, by a clock that is so far ahead of ours. there: this
 * revision is, though greater than the wiki's newest. */
static void hear_ahead(struct stage *s, uint64_t there, int64_t ahead_ns)
{
    const struct wiki_word says = wiki_word_now(s);
    const struct title_word w = { .page_id = says.page_id,
                                  .rev = says.rev,
                                  .touched = says.touched_s,
                                  .said = says.touched_s + 100,
                                  .asked_at =
                                      store_time_add(clock_store(s->service.clock), ahead_ns) };
    struct hearing h = { .hear = { .call = { .home = home_here(), .done = hearing_over },
                                   .domain = s->domains[0].number,
                                   .title = STR("T"),
                                   .word = &w,
                                   .believe = true,
                                   .there = there } };
    awaited_init(&h.over);
    if (page_store_hear(s->service.store, &h.hear) == STORE_LATER)
        assert_int_equal(awaited_wait(&h.over), ERR_OK);
    awaited_fini(&h.over);
    assert_int_equal(h.hear.above, 0);
}

/* As after the rests of a title. */
static void hear_there(struct stage *s, uint64_t there)
{
    hear_ahead(s, there, 0);
}

static void an_imported_history_costs_one_question(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "seven");
    (void)stage_put(&s, "T", 8, "imported");
    hear_there(&s, 8);
    struct got g = get(&s, 0, 0);
    assert_int_equal(g.trusted, GET_CHECKED);
    g = get(&s, 0, 0);
    assert_int_equal(g.trusted, GET_TRUSTED);
    assert_int_equal(wiki_words_asked(&s), 1);
    stage_end(&s);
}

static void what_is_known_to_be_there_stays_when_a_greater_one_went(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "seven");
    (void)stage_put(&s, "T", 8, "imported");
    hear_there(&s, 8);
    (void)stage_put(&s, "T", 9, "deleted");
    struct wiki_word w = wiki_word_now(&s);
    w.shown = WORDS_REVISION_MISSING; /* of 9, which is asked for */
    wiki_word(&s, w);
    (void)get(&s, 0, 0);
    assert_int_equal(stage_look(&s, "T", 9), ERR_GONE);
    assert_int_equal(stage_look(&s, "T", 8), ERR_OK);
    stage_end(&s);
}

static void the_newest_is_found_below_a_revision_of_an_imported_history(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = "<html><head></head>seven" });
    assert_non_null(strstr(get(&s, 0, 0).body, "seven"));
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = "<html><head></head>imported" });
    assert_non_null(strstr(get(&s, 8, 0).body, "imported"));
    unsigned asked = wiki_asked(&s);
    struct got g = get(&s, 0, 0);
    assert_int_equal(g.how, HOW_HIT);
    assert_non_null(strstr(g.body, "seven"));
    assert_int_equal(wiki_asked(&s), asked);
    hear_there(&s, 8);
    struct wiki_word w = wiki_word_now(&s);
    w.touched_s += 50; /* and it is made anew when the page is touched */
    wiki_word(&s, w);
    grow_old(&s);
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = "<html><head></head>touched" });
    assert_non_null(strstr(get(&s, 0, 0).body, "touched"));
    stage_end(&s);
}

static void what_is_left_below_a_purge_is_not_the_newest(void **state)
{
    (void)state;
    struct stage s;
    struct asked a;
    stage_begin_checked(&s);
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = "<html><head></head>one" });
    assert_non_null(strstr(get(&s, 0, 0).body, "one"));
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = "<html><head></head>two" });
    asked_init(&a, &s, "T");
    a.get.flags |= GET_NO_CACHE;
    asked_start(&a);
    assert_int_equal(asked_wait(&a), GOT_CONTENT);
    struct page_order purge = { .kind = ORDER_PURGE,
                                .has_rev = true,
                                .has_tid = true,
                                .name = a.get.read.render.name,
                                .elsewhere = true };
    asked_fini(&a);
    assert_int_equal(stage_order(&s, &purge, "T"), ERR_OK);
    assert_int_equal(purge.purged, 1);
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = "<html><head></head>three" });
    assert_non_null(strstr(get(&s, 0, 0).body, "three"));
    stage_end(&s);
}

static void a_word_asked_for_by_a_clock_that_is_ahead_costs_one_question(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "seven");
    hear_ahead(&s, 0, 3600 * NS_PER_S);
    struct got g = get(&s, 0, 0);
    assert_int_equal(g.trusted, GET_CHECKED);
    assert_int_equal(wiki_words_asked(&s), 1);
    g = get(&s, 0, 0);
    assert_int_equal(g.trusted, GET_TRUSTED);
    assert_int_equal(wiki_words_asked(&s), 1);
    stage_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_that_is_behind_hides_nothing),
        cmocka_unit_test(a_newest_revision_that_went_down_is_hidden),
        cmocka_unit_test(an_imported_history_costs_one_question),
        cmocka_unit_test(a_word_asked_for_by_a_clock_that_is_ahead_costs_one_question),
        cmocka_unit_test(what_is_known_to_be_there_stays_when_a_greater_one_went),
        cmocka_unit_test(the_newest_is_found_below_a_revision_of_an_imported_history),
        cmocka_unit_test(what_is_left_below_a_purge_is_not_the_newest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
