/* Goal: renders that are made on request, while the newest revision is made elsewhere: an old one
 * is never taken for the latest, what is learned of newer revisions corrects what is stored, names
 * rise and respect purges. Method: puts and purges on a frozen clock; the store is checked at the
 * end of each. */
#include "bucket/page_write.h"
#include "fixture.h"

static const struct page_name nothing = { 0 };

/* A render of rev, made on request while `behind` is the newest (0: rev is). */
static struct page_put put_asked(struct fixture *f, uint64_t rev, uint64_t behind, const char *text)
{
    struct page_put p = { .behind = behind, .asked = true };
    assert_int_equal(fix_put_as(f, rev, -1, text, &p), ERR_OK);
    return p;
}

static err find_latest(struct fixture *f)
{
    struct page_render r;
    return fix_find(f, SELECT_LATEST, nothing, &r, NULL);
}

static void an_old_revision_is_stored_and_is_not_the_latest(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_put p = put_asked(f, 5, 9, "five");
    assert_true(p.created);
    assert_false(p.latest);
    assert_int_equal(find_latest(f), ERR_NOT_FOUND);
    struct page_render r = fix_exact(f, p.stored);
    assert_int_equal(r.superseded_by.rev, 9);
    assert_true(page_name_is_unmade(r.superseded_by));
    assert_int_equal(r.due_at.ns, T0 + HOUR + HOUR / 4);
    struct page_name newest = put_asked(f, 9, 0, "nine").stored;
    assert_name(fix_latest(f).name, newest);
    assert_int_equal(fix_latest(f).due_at.ns, STORE_TIME_NEVER.ns);
    fake_clock_advance(&f->clock, 2 * HOUR);
    fix_upkeep(f);
    assert_int_equal(fix_history(f), 1);
    fixture_free(f);
}

static void an_old_revision_lives_on_under_a_policy_that_keeps_the_latest_alone(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_LATEST_HASH));
    struct page_name newest = put_asked(f, 9, 0, "nine").stored;
    struct page_name old = put_asked(f, 5, 9, "five").stored;
    assert_int_equal(fix_exact(f, old).state, PAGE_HISTORICAL);
    assert_name(fix_latest(f).name, newest);
    struct page_put p = { .behind = 9 };
    assert_int_equal(fix_put_as(f, 4, -1, "not asked for", &p), ERR_GONE);
    fixture_free(f);
}

static void what_was_the_latest_is_superseded_by_an_old_revision_that_is_newer(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_name first = put_asked(f, 3, 0, "three").stored;
    struct page_name old = put_asked(f, 5, 9, "five").stored;
    assert_name(fix_exact(f, first).superseded_by, old);
    assert_int_equal(find_latest(f), ERR_NOT_FOUND);
    struct page_name older = put_asked(f, 4, 9, "four").stored;
    assert_name(fix_exact(f, older).superseded_by, old);
    assert_int_equal(find_latest(f), ERR_NOT_FOUND);
    fixture_free(f);
}

static void the_same_bytes_again_correct_what_was_believed(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_name name = put_asked(f, 5, 0, "five").stored;
    unsigned told = f->told;
    struct page_put p = put_asked(f, 5, 9, "five");
    assert_name(p.stored, name);
    assert_false(p.applied);
    assert_false(p.latest);
    assert_int_equal(f->told, told + 1);
    assert_int_equal(find_latest(f), ERR_NOT_FOUND);
    assert_int_equal(fix_exact(f, name).requested_until.ns, T0 + HOUR + HOUR / 4);
    p = put_asked(f, 5, 0, "five"); /* what came after it is gone again */
    assert_name(p.stored, name);
    assert_true(p.latest);
    assert_name(fix_latest(f).name, name);
    p = put_asked(f, 5, 0, "five");
    assert_int_equal(f->told, told + 2);
    fixture_free(f);
}

static void the_same_bytes_of_a_lesser_render_do_not_become_the_latest(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    (void)put_asked(f, 5, 9, "five");
    (void)put_asked(f, 7, 9, "seven");
    assert_false(put_asked(f, 5, 0, "five").latest);
    assert_int_equal(find_latest(f), ERR_NOT_FOUND);
    fixture_free(f);
}

static void a_purge_of_the_latest_waits_for_what_is_made_elsewhere(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_name old = put_asked(f, 8, 0, "eight").stored;
    struct page_name newest = put_asked(f, 9, 0, "nine").stored;
    struct page_order o = { .elsewhere = true };
    assert_int_equal(fix_order(f, ORDER_PURGE, newest, &o), ERR_OK);
    assert_int_equal(o.purged, 1);
    assert_int_equal(find_latest(f), ERR_GONE);
    assert_int_equal(fix_exact(f, old).due_at.ns, T0 + GRACE);
    assert_true(page_name_is_unmade(fix_exact(f, old).superseded_by));
    struct page_name again = put_asked(f, 9, 0, "nine").stored;
    assert_int_equal(again.rev, 9);
    assert_true(tid_cmp(again.tid, newest.tid) > 0);
    assert_name(fix_latest(f).name, again);
    fixture_free(f);
}

static void a_purge_of_one_render_leaves_the_same_bytes_to_become_the_latest(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_name first = put_asked(f, 9, 0, "nine").stored;
    struct page_name second = put_asked(f, 9, 0, "nine, other").stored;
    struct page_order o = { .elsewhere = true };
    assert_int_equal(fix_order(f, ORDER_PURGE, second, &o), ERR_OK);
    assert_int_equal(find_latest(f), ERR_GONE);
    assert_name(put_asked(f, 9, 0, "nine").stored, first);
    assert_name(fix_latest(f).name, first);
    fixture_free(f);
}

static err mint(struct fixture *f, uint64_t rev, int64_t began_ns, struct tid *out)
{
    struct page_which w = {
        .domain = f->domain, .title = STR("T"), .select = SELECT_REV, .name = { .rev = rev }
    };
    struct engine_view *v = engine_view_begin(f->engine);
    err e = page_mint(f->bucket, v, &w, (store_time){ .ns = began_ns }, 77, out);
    engine_view_end(&v);
    return e;
}

static void names_made_ahead_are_greater_than_all_there_were(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct tid tid;
    assert_int_equal(mint(f, 5, T0, &tid), ERR_OK);
    assert_int_equal(tid_time(tid).ns, T0);
    struct page_name stored = fix_put(f, 5, 2);
    assert_int_equal(mint(f, 5, T0, &tid), ERR_OK);
    assert_true(tid_cmp(tid, stored.tid) > 0);
    (void)fix_put(f, 5, 4);
    fake_clock_advance(&f->clock, 2 * GRACE);
    fix_upkeep(f); /* the first has left a trace alone */
    assert_int_equal(mint(f, 5, T0, &tid), ERR_OK);
    assert_int_equal(tid_time(tid).ns, T0 + 4 * NS_PER_S + 100);
    assert_int_equal(mint(f, 6, T0 + 7, &tid), ERR_OK);
    assert_int_equal(tid_time(tid).ns, T0 + 100);
    fixture_free(f);
}

static void what_began_before_a_purge_gets_no_name(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_order o = { 0 };
    struct page_put p = { 0 };
    struct tid tid;
    assert_int_equal(fix_order(f, ORDER_PURGE, (struct page_name){ .rev = 5 }, &o), ERR_OK);
    assert_int_equal(mint(f, 5, T0 - 1, &tid), ERR_GONE);
    assert_int_equal(mint(f, 6, T0 - 1, &tid), ERR_OK);
    assert_int_equal(mint(f, 5, T0, &tid), ERR_OK); /* in the same instant: as if after */
    p = (struct page_put){ .domain = f->domain,
                           .title = STR("T"),
                           .rev = 5,
                           .has_tid = true,
                           .tid = tid,
                           .contents_count = 1 };
    p.contents[0] = (struct page_put_content){ .name = STR("html"), .raw = STR("x") };
    assert_int_equal(sync_put(f->bucket, &p), ERR_OK);
    assert_int_equal(fix_order(f, ORDER_PURGE, nothing, &o), ERR_OK);
    assert_int_equal(mint(f, 6, T0 - 1, &tid), ERR_GONE);
    fixture_free(f);
}

/* Found by model_facts --seed 7: the check called it damage. */
static void r0012_what_waits_for_a_revision_may_be_outlived_by_a_lesser_render(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_put p = { .stash_ns = 2 * HOUR };
    assert_int_equal(fix_put_as(f, 5, -1, "stashed", &p), ERR_OK);
    struct page_name stashed = p.stored;
    p = (struct page_put){ .behind = 6 };
    assert_int_equal(fix_put_as(f, 5, -1, "not the newest revision", &p), ERR_OK);
    struct page_name waits = p.stored;
    fake_clock_advance(&f->clock, 2 * GRACE);
    struct page_trace t;
    assert_int_equal(fix_gone(f, waits, &t), ERR_GONE);
    assert_name(fix_exact(f, stashed).superseded_by, waits);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_old_revision_is_stored_and_is_not_the_latest),
        cmocka_unit_test(an_old_revision_lives_on_under_a_policy_that_keeps_the_latest_alone),
        cmocka_unit_test(what_was_the_latest_is_superseded_by_an_old_revision_that_is_newer),
        cmocka_unit_test(the_same_bytes_again_correct_what_was_believed),
        cmocka_unit_test(the_same_bytes_of_a_lesser_render_do_not_become_the_latest),
        cmocka_unit_test(a_purge_of_the_latest_waits_for_what_is_made_elsewhere),
        cmocka_unit_test(a_purge_of_one_render_leaves_the_same_bytes_to_become_the_latest),
        cmocka_unit_test(names_made_ahead_are_greater_than_all_there_were),
        cmocka_unit_test(what_began_before_a_purge_gets_no_name),
        cmocka_unit_test(r0012_what_waits_for_a_revision_may_be_outlived_by_a_lesser_render),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
