/* Goal: who walks the titles of a domain meets each that is stored, once, and no other; a word goes
 * when nothing of its title is stored any more, and never one that a render to come is judged by; a
 * note is there after a restart. Method: puts and words on a clock the test moves. */
#include "fixture.h"

#include <stdio.h>
#include <string.h>

struct walked {
    unsigned count, stored, heard;
    char titles[400]; /* with a bar behind each */
    bool more;
};

static bool walked_title(void *ctx, const struct page_swept *t)
{
    struct walked *w = ctx;
    size_t n = strlen(w->titles);
    w->count++;
    w->stored += t->stored;
    w->heard += t->heard;
    (void)snprintf(w->titles + n, sizeof w->titles - n, "%.*s|", STR_ARG(t->title));
    return true;
}

static struct walked walk(struct fixture *f, const char *after, const char *until, unsigned titles)
{
    struct walked w = { .count = 0 };
    struct page_walk request = { .domain = f->domain,
                                 .after = str_of(after),
                                 .until = str_of(until),
                                 .titles = titles,
                                 .each = walked_title,
                                 .ctx = &w };
    assert_int_equal(page_store_walk(pages_store(f->pages), &request), STORE_DONE);
    assert_int_equal(request.call.why, ERR_OK);
    w.more = request.more;
    return w;
}

static void put_title(struct fixture *f, uint32_t domain, const char *title, uint64_t rev)
{
    struct page_put p = { .domain = domain,
                          .title = str_of(title),
                          .rev = rev,
                          .contents_count = 1,
                          .contents = { { .name = STR("html"),
                                          .headers = STR("content-type: text/html\n"),
                                          .raw = STR("text") } } };
    assert_int_equal(sync_put(f->bucket, &p), ERR_OK);
}

static struct title_word word_of(const struct fixture *f, uint64_t rev)
{
    return (struct title_word){ .page_id = 3,
                                .rev = rev,
                                .touched = T0 / NS_PER_S,
                                .said = f->clock.now_ns / NS_PER_S,
                                .asked_at = { f->clock.now_ns } };
}

static void wait_s(struct fixture *f, int64_t s)
{
    fake_clock_advance(&f->clock, s * NS_PER_S);
}

static struct fixture *begin(void)
{
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    wait_s(f, 100);
    return f;
}

static void a_walk_meets_each_title_of_its_domain_once(void **state)
{
    (void)state;
    struct fixture *f = begin();
    uint32_t other = 0;
    assert_int_equal(pages_domain(f->pages, STR("other.test"), &other), ERR_OK);
    put_title(f, f->domain, "B", 1);
    put_title(f, f->domain, "B", 2);
    put_title(f, f->domain, "A", 1);
    put_title(f, f->domain, "Ab", 1);
    put_title(f, other, "Z", 1);
    struct page_hear h = { .marks_count = 0 };
    struct title_word w = word_of(f, 1);
    (void)fix_put(f, 1, -1);
    assert_int_equal(fix_hear(f, &w, &h), ERR_OK);
    struct walked all = walk(f, "", "", 100);
    assert_string_equal(all.titles, "A|Ab|B|T|");
    assert_int_equal(all.stored, 4);
    assert_int_equal(all.heard, 1);
    assert_false(all.more);
    struct walked some = walk(f, "A", "", 2);
    assert_string_equal(some.titles, "Ab|B|");
    assert_true(some.more);
    assert_string_equal(walk(f, "A", "B", 100).titles, "Ab|B|");
    assert_string_equal(walk(f, "T", "", 100).titles, "");
    assert_false(walk(f, "T", "", 100).more);
    fixture_free(f);
}

static struct page_revs revs(struct fixture *f, uint64_t below, store_time since)
{
    struct page_revs r = { .domain = f->domain, .title = STR("T"), .below = below, .since = since };
    assert_int_equal(page_store_revs(pages_store(f->pages), &r), STORE_DONE);
    assert_int_equal(r.call.why, ERR_OK);
    return r;
}

static void revisions_are_told_greatest_first(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(fix_policy(POLICY_ALL));
    for (uint64_t rev = 1; rev <= 60; rev++)
        (void)fix_put(f, rev, -1);
    (void)fix_put(f, 7, -1); /* another of it */
    struct page_revs r = revs(f, 60, STORE_TIME_ZERO);
    assert_int_equal(r.count, PAGE_REVS_MAX);
    assert_int_equal(r.revs[0], 59);
    assert_int_equal(r.revs[PAGE_REVS_MAX - 1], 10);
    assert_int_equal(r.next, 10);
    r = revs(f, r.next, STORE_TIME_ZERO);
    assert_int_equal(r.count, 9);
    assert_int_equal(r.next, 0);
    wait_s(f, 10);
    store_time since = { .ns = f->clock.now_ns };
    (void)fix_put(f, 5, -1);
    r = revs(f, 60, since);
    assert_int_equal(r.count, 1);
    assert_int_equal(r.revs[0], 5);
    assert_int_equal(revs(f, 1, STORE_TIME_ZERO).count, 0);
    fixture_free(f);
}

static unsigned forget(struct fixture *f, int64_t older_s)
{
    const str titles[] = { STR("T"), STR("unknown") };
    struct page_forget forget = { .domain = f->domain,
                                  .titles = titles,
                                  .count = COUNT_OF(titles),
                                  .before = { f->clock.now_ns - older_s * NS_PER_S } };
    assert_int_equal(sync_forget(f->pages, &forget), ERR_OK);
    return forget.forgotten;
}

static void a_word_goes_when_nothing_of_its_title_is_stored(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct page_order o = { 0 };
    struct page_hear h = { .marks_count = 0 };
    struct title_word w = word_of(f, 5);
    (void)fix_put(f, 5, -1);
    assert_int_equal(fix_hear(f, &w, &h), ERR_OK);
    wait_s(f, 1000);
    assert_int_equal(forget(f, 10), 0); /* a render is there */
    assert_int_equal(fix_order(f, ORDER_PURGE, (struct page_name){ 0 }, &o), ERR_OK);
    struct walked left = walk(f, "", "", 100);
    assert_int_equal(left.count, 1);
    assert_int_equal(left.stored, 0);
    assert_int_equal(forget(f, 2000), 0); /* too young */
    assert_int_equal(forget(f, 10), 1);
    assert_int_equal(walk(f, "", "", 100).count, 0);
    assert_int_equal(forget(f, 10), 0);
    fixture_free(f);
}

/* Asked for before the page went, and put after its word was forgotten: it cannot be, while a
 * render is not made for longer than words are kept. Put before, it keeps the word. */
static void a_word_that_denies_a_render_to_come_is_kept(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct title_word under = word_of(f, 5);
    struct page_put p = { .heeds = true, .word = &under, .said_at = under.asked_at };
    (void)fix_put(f, 4, -1);
    wait_s(f, 5);
    struct page_hear h = { .marks_count = 0 };
    const struct title_word gone = { .missing = true, .said = f->clock.now_ns / NS_PER_S };
    assert_int_equal(fix_hear(f, &gone, &h), ERR_OK);
    struct page_order o = { 0 };
    assert_int_equal(fix_order(f, ORDER_PURGE, (struct page_name){ 0 }, &o), ERR_OK);
    wait_s(f, 30);
    assert_int_equal(forget(f, 3600), 0);
    assert_int_equal(fix_put_as(f, 5, -1, "five", &p), ERR_GONE);
    assert_int_equal(walk(f, "", "", 100).stored, 0);
    fixture_free(f);
}

/* The word of the put is that which its render depends on. */
static void a_render_that_comes_after_a_forgotten_word_brings_its_own(void **state)
{
    (void)state;
    struct fixture *f = begin();
    (void)fix_put(f, 5, -1);
    struct page_hear h = { .marks_count = 0 };
    struct title_word w = word_of(f, 5);
    assert_int_equal(fix_hear(f, &w, &h), ERR_OK);
    struct page_order o = { 0 };
    assert_int_equal(fix_order(f, ORDER_PURGE, (struct page_name){ 0 }, &o), ERR_OK);
    wait_s(f, 100);
    assert_int_equal(forget(f, 10), 1);
    struct title_word under = word_of(f, 6);
    struct page_put p = { .heeds = true, .word = &under, .said_at = under.asked_at };
    assert_int_equal(fix_put_as(f, 6, -1, "six", &p), ERR_OK);
    p.word = NULL;
    wait_s(f, 100);
    assert_int_equal(forget(f, 10), 0);
    struct walked all = walk(f, "", "", 100);
    assert_int_equal(all.stored, 1);
    assert_int_equal(all.heard, 1);
    fixture_free(f);
}

static void a_note_outlives_a_restart(void **state)
{
    (void)state;
    struct fixture *f = begin();
    char out[PAGE_NOTE_BYTES_MAX];
    size_t n = 0;
    struct page_store *s = pages_store(f->pages);
    assert_int_equal(page_store_note_get(s, f->domain, PAGE_NOTE_SWEEP, out, &n), ERR_NOT_FOUND);
    struct page_note_put put = { .domain = f->domain,
                                 .note = PAGE_NOTE_SWEEP,
                                 .bytes = STR("here") };
    assert_int_equal(sync_note(f->pages, &put), ERR_OK);
    put.note = PAGE_NOTE_REDO;
    put.bytes = STR("then");
    assert_int_equal(sync_note(f->pages, &put), ERR_OK);
    fix_restart(f, fix_policy(POLICY_APP_TTL));
    s = pages_store(f->pages);
    assert_int_equal(page_store_note_get(s, f->domain, PAGE_NOTE_SWEEP, out, &n), ERR_OK);
    assert_true(str_eq((str){ .p = out, .n = n }, STR("here")));
    assert_int_equal(page_store_note_get(s, f->domain, PAGE_NOTE_REDO, out, &n), ERR_OK);
    assert_true(str_eq((str){ .p = out, .n = n }, STR("then")));
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_walk_meets_each_title_of_its_domain_once),
        cmocka_unit_test(revisions_are_told_greatest_first),
        cmocka_unit_test(a_word_goes_when_nothing_of_its_title_is_stored),
        cmocka_unit_test(a_word_that_denies_a_render_to_come_is_kept),
        cmocka_unit_test(a_render_that_comes_after_a_forgotten_word_brings_its_own),
        cmocka_unit_test(a_note_outlives_a_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
