/* Goal: what only the wiki knows is asked of it, under the title that it writes, and where it does
 * not say the store does, as far as that may be said. Method: a service on a real store, in front
 * of a wiki that says what the test says (stage.h). */
#include "stage.h"

#include "base/log.h"
#include "page/wiki_get.h"
#include "sites.h"

#include <string.h>

struct wondering {
    struct page_wiki_get page;
    struct arena arena;
    struct task task;
    struct awaited over;
    bool drains;
    char body[128], title[64];
    uint64_t rev;
};

static bool wondering_waits(struct page_wiki_get *g, enum page_wait what)
{
    struct wondering *w = CONTAINER_OF(g, struct wondering, page);
    if (what == WAIT_OTHERS)
        g->deadline = mono_add_ms(clock_mono(g->service->clock), 120000);
    return what == WAIT_READ || !w->drains;
}

static void wondering_done(struct page_wiki_get *g)
{
    struct wondering *w = CONTAINER_OF(g, struct wondering, page);
    assert_true(str_to_cstr(g->target.title, w->title, sizeof w->title));
    if (g->outcome == WIKI_TOLD) {
        assert_true(str_to_cstr(g->word->body, w->body, sizeof w->body));
        w->rev = g->word->meta.rev;
    }
    awaited_tell(&w->over, ERR_OK);
}

static void wondering_run(struct task *t)
{
    page_wiki_get_start(&CONTAINER_OF(t, struct wondering, task)->page);
}

/* w.drains and w.page.flags may be set before. */
static enum wiki_outcome wonder(struct wondering *w, struct stage *s, enum render_want want,
                                const char *title)
{
    arena_init(&w->arena, 1 << 20);
    awaited_init(&w->over);
    w->page = (struct page_wiki_get){
        .service = &s->service,
        .arena = &w->arena,
        .home = &s->worker.home,
        .target = { .domain = &s->domains[0], .settings = &s->settings, .title = str_of(title) },
        .want = want,
        .flags = w->page.flags,
        .wait = wondering_waits,
        .done = wondering_done
    };
    w->task.run = wondering_run;
    home_post(w->page.home, &w->task);
    assert_int_equal(awaited_wait(&w->over), ERR_OK);
    awaited_fini(&w->over);
    arena_fini(&w->arena);
    return w->page.outcome;
}

static enum wiki_outcome wonder_with(struct stage *s, enum render_want want, const char *title,
                                     unsigned flags)
{
    struct wondering w = { .page.flags = flags };
    return wonder(&w, s, want, title);
}

static void the_wiki_is_asked_under_its_own_title(void **state)
{
    (void)state;
    struct stage s;
    struct wondering w = { .drains = false };
    stage_begin(&s, false);
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = "'''text'''", .type = "text/plain" });
    assert_int_equal(wonder(&w, &s, WANT_META, "T"), WIKI_TOLD);
    assert_int_equal(w.rev, 7);
    assert_int_equal(wonder(&w, &s, WANT_WIKITEXT, "T"), WIKI_TOLD);
    assert_string_equal(w.body, "'''text'''");
    assert_int_equal(wonder(&w, &s, WANT_LINT, "t"), WIKI_MOVED);
    assert_string_equal(w.title, "T");
    w.page.flags = GET_SCRIPT; /* which would not follow */
    assert_int_equal(wonder(&w, &s, WANT_LINT, "t"), WIKI_TOLD);
    assert_string_equal(w.title, "T");
    assert_true(w.page.title_seen.changed);
    assert_int_equal(wonder(&w, &s, WANT_META, "Special:X"), WIKI_BAD_TITLE);
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = "a header\n no", .type = "text/\x01" });
    assert_int_equal(wonder(&w, &s, WANT_WIKITEXT, "T"), WIKI_FAILED);
    assert_int_equal(w.page.why, ERR_CORRUPT);
    stage_end(&s);
}

static void a_title_that_the_wiki_has_otherwise_is_followed_once(void **state)
{
    (void)state;
    struct stage s;
    stage_begin(&s, false);
    wiki_say(&s, (struct wiki_says){ .why = RENDER_OTHER_TITLE, .title = "U" });
    assert_int_equal(wonder_with(&s, WANT_LINT, "T", 0), WIKI_MOVED);
    struct wondering w = { .page.flags = GET_NO_CACHE };
    assert_int_equal(wonder(&w, &s, WANT_LINT, "T"), WIKI_FAILED); /* and that by another */
    assert_int_equal(w.page.why, ERR_UNAVAILABLE);
    assert_string_equal(w.title, "U");
    stage_end(&s);
}

static void the_store_says_what_it_knows_when_the_wiki_is_away(void **state)
{
    (void)state;
    static const struct {
        enum render_why why;
        enum render_want want;
        const char *title;
        unsigned flags;
        enum wiki_outcome outcome;
    } cases[] = {
        { RENDER_FAILED, WANT_META, "T", 0, WIKI_STORED },
        { RENDER_FAILED, WANT_META, "U", 0, WIKI_FAILED }, /* not stored */
        { RENDER_FAILED, WANT_META, "T", GET_NO_STALE, WIKI_FAILED },
        { RENDER_FAILED, WANT_LINT, "T", 0, WIKI_FAILED },
        { RENDER_NO_PAGE, WANT_META, "V", 0, WIKI_FAILED }, /* that is no outage */
        { RENDER_FINE, WANT_META, "T", GET_ONLY_CACHED, WIKI_STORED },
        { RENDER_FINE, WANT_META, "U", GET_ONLY_CACHED, WIKI_UNCACHED },
        { RENDER_FINE, WANT_LINT, "T", GET_ONLY_CACHED, WIKI_UNCACHED },
        { RENDER_FINE, WANT_LINT, "Special:X", GET_ONLY_CACHED, WIKI_BAD_TITLE },
    };
    struct stage s;
    stage_begin(&s, false);
    (void)stage_put(&s, "T", 7, "<p>");
    (void)stage_put(&s, "V", 7, "<p>");
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        wiki_say(&s, (struct wiki_says){ .why = cases[i].why });
        assert_int_equal(wonder_with(&s, cases[i].want, cases[i].title, cases[i].flags),
                         cases[i].outcome);
    }
    wiki_rules(&s, NULL);
    assert_int_equal(wonder_with(&s, WANT_META, "T", 0), WIKI_STORED);
    assert_int_equal(wonder_with(&s, WANT_WIKITEXT, "T", 0), WIKI_FAILED);
    assert_int_equal(wonder_with(&s, WANT_META, "T", GET_ONLY_CACHED), WIKI_STORED);
    struct wondering drained = { .drains = true };
    assert_int_equal(wonder(&drained, &s, WANT_META, "T"), WIKI_REFUSED);
    wiki_rules(&s, SITE_JSON("de"));
    assert_int_equal(wonder(&drained, &s, WANT_META, "T"), WIKI_REFUSED);
    drained.page.flags = GET_ONLY_CACHED;
    assert_int_equal(wonder(&drained, &s, WANT_META, "T"), WIKI_STORED);
    stage_end(&s);
}

static void a_failure_is_remembered_for_a_while(void **state)
{
    (void)state;
    struct stage s;
    struct wondering w = { .drains = false };
    stage_begin(&s, false);
    wiki_say(&s, (struct wiki_says){ .why = RENDER_BUSY });
    assert_int_equal(wonder(&w, &s, WANT_LINT, "T"), WIKI_FAILED);
    assert_int_equal(w.page.why, ERR_AGAIN);
    assert_in_range(w.page.retry_ms, 1, 7000);
    stage_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_wiki_is_asked_under_its_own_title),
        cmocka_unit_test(a_title_that_the_wiki_has_otherwise_is_followed_once),
        cmocka_unit_test(the_store_says_what_it_knows_when_the_wiki_is_away),
        cmocka_unit_test(a_failure_is_remembered_for_a_while),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
