/* Goal: what the origin says against stored renders holds for every way to read them, also after a
 * start, loses nothing, and ends when it says otherwise. Method: puts and marks on a clock the test
 * moves; the store is checked at the end of each. */
#include "bucket/page_write.h"
#include "fixture.h"

static const struct page_name nothing = { 0 };

static err mark(struct fixture *f, enum page_state state, uint64_t first, uint64_t last)
{
    return fix_mark(f, (struct title_mark){ .state = state, .first = first, .last = last });
}

static struct page_put put_again(struct fixture *f, uint64_t rev, const char *text)
{
    struct page_put p = { 0 };
    assert_int_equal(fix_put_as(f, rev, -1, text, &p), ERR_OK);
    return p;
}

static void assert_hidden(struct fixture *f, struct page_name name, enum page_state state)
{
    struct page_trace t;
    struct page_render r;
    assert_int_equal(fix_gone(f, name, &t), ERR_GONE);
    assert_int_equal(t.state, state);
    assert_int_equal(fix_find(f, SELECT_REV, name, &r, NULL), ERR_GONE);
    struct page_which w = {
        .domain = f->domain, .title = STR("T"), .select = SELECT_EXACT, .name = name
    };
    struct page_explanation x;
    struct engine_view *v = engine_view_begin(f->engine);
    assert_int_equal(page_explain(f->bucket, v, &w, &x), ERR_OK);
    engine_view_end(&v);
    assert_int_equal(x.state, state);
}

static err find_latest(struct fixture *f)
{
    struct page_render r;
    return fix_find(f, SELECT_LATEST, nothing, &r, NULL);
}

static void a_suppressed_revision_is_hidden_until_it_is_shown_again(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_name a = fix_put(f, 5, -1), b = fix_put(f, 5, -1), newest = fix_put(f, 9, -1);
    unsigned told = f->told;
    assert_int_equal(mark(f, PAGE_SUPPRESSED, 5, 5), ERR_OK);
    assert_int_equal(f->told, told + 1);
    assert_hidden(f, a, PAGE_SUPPRESSED);
    assert_hidden(f, b, PAGE_SUPPRESSED);
    assert_name(fix_latest(f).name, newest);
    fix_restart(f, fix_policy(POLICY_APP_TTL));
    assert_hidden(f, b, PAGE_SUPPRESSED);
    assert_int_equal(fix_history(f), 3);
    assert_int_equal(mark(f, PAGE_DELETED, 5, 5), ERR_OK); /* the stronger stays */
    assert_hidden(f, a, PAGE_SUPPRESSED);
    assert_int_equal(mark(f, PAGE_CURRENT, 5, 5), ERR_OK);
    (void)fix_exact(f, a);
    (void)fix_exact(f, b);
    assert_name(fix_latest(f).name, newest);
    fixture_free(f);
}

static void a_deleted_title_has_no_render_and_comes_back_whole(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_name old = put_again(f, 5, "five").stored, newest = put_again(f, 9, "nine").stored;
    assert_int_equal(mark(f, PAGE_DELETED, 0, PAGE_REV_MAX), ERR_OK);
    assert_hidden(f, old, PAGE_DELETED);
    assert_hidden(f, newest, PAGE_DELETED);
    assert_int_equal(find_latest(f), ERR_GONE);
    struct page_which w = { .domain = f->domain,
                            .title = STR("T"),
                            .select = SELECT_EXACT,
                            .name = newest,
                            .deleted_too = true };
    struct page_render r;
    struct engine_view *v = engine_view_begin(f->engine);
    assert_int_equal(page_find(f->bucket, v, &w, &r, NULL), ERR_OK);
    engine_view_end(&v);
    struct page_put p = put_again(f, 9, "nine"); /* undeleted */
    assert_name(p.stored, newest);
    assert_true(p.latest);
    assert_name(fix_latest(f).name, newest);
    assert_hidden(f, old, PAGE_DELETED);
    assert_name(put_again(f, 5, "five").stored, old);
    assert_name(fix_latest(f).name, newest);
    fixture_free(f);
}

static void a_pinned_render_outlives_a_deletion_that_is_undone(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_LATEST_HASH));
    struct page_put p = { .stash_ns = 2 * HOUR };
    assert_int_equal(fix_put_as(f, 9, -1, "nine", &p), ERR_OK);
    assert_int_equal(mark(f, PAGE_DELETED, 0, PAGE_REV_MAX), ERR_OK);
    fake_clock_advance(&f->clock, HOUR + HOUR / 2);
    fix_upkeep(f);
    assert_int_equal(mark(f, PAGE_CURRENT, 9, 9), ERR_OK);
    assert_int_equal(fix_exact(f, p.stored).stash_until.ns, T0 + 2 * HOUR);
    fixture_free(f);
}

static void a_newest_revision_that_went_down_is_the_latest(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_name good = put_again(f, 5, "good").stored,
                     bad = put_again(f, PAGE_REV_MAX, "bad").stored;
    assert_int_equal(mark(f, PAGE_DELETED, 6, PAGE_REV_MAX), ERR_OK);
    assert_hidden(f, bad, PAGE_DELETED);
    assert_true(put_again(f, 5, "good").latest);
    assert_name(fix_latest(f).name, good);
    struct page_name newer = put_again(f, 7, "newer").stored;
    assert_name(fix_latest(f).name, newer);
    assert_hidden(f, bad, PAGE_DELETED);
    assert_int_equal(mark(f, PAGE_CURRENT, PAGE_REV_MAX, PAGE_REV_MAX),
                     ERR_OK); /* it was there after all */
    assert_name(fix_exact(f, newer).superseded_by, bad);
    assert_int_equal(find_latest(f),
                     ERR_NOT_FOUND); /* the origin has not said that it is the newest */
    assert_true(put_again(f, PAGE_REV_MAX, "bad").latest);
    fixture_free(f);
}

static void the_later_word_holds(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    const struct title_mark before = { .state = PAGE_DELETED,
                                       .last = PAGE_REV_MAX,
                                       .said_at = { .ns = f->clock.now_ns } };
    fake_clock_advance(&f->clock, NS_PER_S);
    struct page_name name = put_again(f, 9, "nine").stored; /* the origin was asked before */
    assert_int_equal(fix_mark(f, before), ERR_OK);
    assert_name(fix_latest(f).name, name);
    struct page_put p = { .said_at = { .ns = f->clock.now_ns } };
    fake_clock_advance(&f->clock, NS_PER_S);
    assert_int_equal(mark(f, PAGE_DELETED, 0, PAGE_REV_MAX), ERR_OK);
    assert_int_equal(fix_put_as(f, 9, -1, "nine", &p),
                     ERR_GONE); /* asked for before it was deleted */
    assert_int_equal(p.trace.state, PAGE_DELETED);
    assert_hidden(f, name, PAGE_DELETED);
    fixture_free(f);
}

/* A deleted title of which the wiki gives an old revision back alone. Found by model_facts
 * --seed 1007. */
static void r0013_what_is_shown_below_hidden_ones_may_be_the_latest_again(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_name old = put_again(f, 1, "old").stored, newest = fix_put(f, 2, -1);
    assert_int_equal(mark(f, PAGE_DELETED, 0, PAGE_REV_MAX), ERR_OK);
    assert_int_equal(mark(f, PAGE_CURRENT, 1, 1), ERR_OK);
    (void)fix_exact(f, old);
    assert_hidden(f, newest, PAGE_DELETED);
    assert_int_equal(find_latest(f), ERR_GONE); /* the wiki is asked, and says the same again */
    assert_false(put_again(f, 1, "old").created);
    assert_name(fix_latest(f).name, old);
    fixture_free(f);
}

static void many_renders_are_hidden_by_one_order(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_ALL));
    struct page_name first = fix_put(f, 1, -1);
    for (uint64_t rev = 2; rev <= 1100; rev++)
        (void)fix_put(f, rev, -1);
    assert_int_equal(mark(f, PAGE_DELETED, 0, PAGE_REV_MAX), ERR_OK);
    assert_hidden(f, first, PAGE_DELETED);
    assert_int_equal(find_latest(f), ERR_GONE);
    fixture_free(f);
}

static void a_put_shows_all_renders_of_its_revision(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_ALL));
    struct page_name first = fix_put(f, 1, -1);
    for (unsigned i = 2; i <= 1100; i++)
        (void)fix_put(f, 1, -1);
    assert_int_equal(mark(f, PAGE_DELETED, 1, 1), ERR_OK);
    assert_hidden(f, first, PAGE_DELETED);
    fake_clock_advance(&f->clock, NS_PER_S);
    (void)fix_put(f, 1, -1);
    assert_int_equal(fix_exact(f, first).hidden, PAGE_CURRENT);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_suppressed_revision_is_hidden_until_it_is_shown_again),
        cmocka_unit_test(a_deleted_title_has_no_render_and_comes_back_whole),
        cmocka_unit_test(a_pinned_render_outlives_a_deletion_that_is_undone),
        cmocka_unit_test(a_newest_revision_that_went_down_is_the_latest),
        cmocka_unit_test(the_later_word_holds),
        cmocka_unit_test(r0013_what_is_shown_below_hidden_ones_may_be_the_latest_again),
        cmocka_unit_test(many_renders_are_hidden_by_one_order),
        cmocka_unit_test(a_put_shows_all_renders_of_its_revision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
