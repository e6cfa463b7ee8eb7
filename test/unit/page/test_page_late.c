/* Goal: what was asked of the wiki before it denied the page, and comes after that, is given to
 * nobody and does not stay in the store. Method: a wiki that holds one answer back while another is
 * heard (stage.h); and one whose denial is heard right behind the put, before those who wait. */
#include "stage.h"

#include "base/log.h"
#include "loop/loop.h"
#include "page/wiki.h"
#include "title/word.h"

#include <string.h>

#define TEXT "<html><head></head>secret"

/* ---- what only the wiki knows is asked for beside a render: that is another flight ---- */

struct asking {
    struct page_target target;
    struct flight_waiter flight;
    struct awaited over;
};

static void asking_over(struct flight_waiter *w, err why, struct flight_value *v,
                        const struct err_note *note)
{
    (void)v, (void)note;
    awaited_tell(&CONTAINER_OF(w, struct asking, flight)->over, why);
}

static void asking_start(struct asking *a, struct stage *s, enum render_want want, uint64_t rev)
{
    *a = (struct asking){ .target = { .domain = &s->domains[0],
                                      .settings = &s->settings,
                                      .title = STR("T"),
                                      .has_rev = rev != 0,
                                      .name = { .rev = rev } },
                          .flight = { .done = asking_over } };
    awaited_init(&a->over);
    a->flight.deadline = mono_add_ms(clock_mono(s->service.clock), 120000);
    assert_int_equal(page_word_ask(&s->service, &a->target, want, &a->flight), ERR_OK);
}

static err asking_wait(struct asking *a)
{
    err why = awaited_wait(&a->over);
    awaited_fini(&a->over);
    return why;
}

/* A read that is held; what the wiki says meanwhile is heard; then its answer comes. */
struct late {
    struct wiki_says meanwhile;
    uint64_t asked_rev, heard_rev; /* 0: the latest */
    err heard, why;
};

static void assert_late(const struct late *l)
{
    struct stage s;
    struct asked a;
    struct asking meanwhile;
    stage_begin_checked(&s);
    wiki_hold(&s, true);
    asked_init(&a, &s, "T");
    a.get.target.has_rev = l->asked_rev != 0;
    a.get.target.name.rev = l->asked_rev;
    asked_start(&a);
    wiki_wait(&s, 1);
    wiki_hold_no_more(&s);
    wiki_say(&s, l->meanwhile);
    asking_start(&meanwhile, &s, WANT_META, l->heard_rev);
    assert_int_equal(asking_wait(&meanwhile), l->heard);
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = TEXT });
    wiki_hold(&s, false);
    enum page_outcome outcome = asked_wait(&a);
    assert_int_equal(a.get.why, l->why);
    if (l->why == ERR_OK)
        assert_int_equal(outcome, GOT_CONTENT);
    asked_fini(&a);
    err stored = stage_look(&s, "T", l->asked_rev);
    assert_int_equal(stored == ERR_OK, l->why == ERR_OK);
    stage_end(&s);
}

static void a_page_deleted_meanwhile_is_not_given(void **state)
{
    (void)state;
    const struct late gone = { .meanwhile = { .why = RENDER_NO_PAGE },
                               .heard = ERR_NOT_FOUND,
                               .why = ERR_NOT_FOUND };
    assert_late(&gone);
    struct late named = gone;
    named.asked_rev = 6;
    assert_late(&named);
}

static void a_revision_hidden_or_deleted_meanwhile_is_not_given(void **state)
{
    (void)state;
    struct late late = { .meanwhile = { .why = RENDER_SUPPRESSED },
                         .asked_rev = 6,
                         .heard_rev = 6,
                         .heard = ERR_GONE,
                         .why = ERR_GONE };
    assert_late(&late);
    late.meanwhile.why = RENDER_NO_REVISION;
    late.heard = late.why = ERR_NOT_FOUND;
    assert_late(&late);
}

static void what_is_hidden_of_another_revision_or_shown_again_is_no_matter(void **state)
{
    (void)state;
    const struct late other = { .meanwhile = { .why = RENDER_SUPPRESSED },
                                .heard_rev = 5,
                                .heard = ERR_GONE };
    assert_late(&other);
    const struct late shown = { .meanwhile = { .rev = 7, .html = TEXT }, .asked_rev = 6 };
    assert_late(&shown);
}

static void wikitext_that_was_hidden_meanwhile_is_not_given(void **state)
{
    (void)state;
    struct stage s;
    struct asking text, meanwhile;
    stage_begin_checked(&s);
    wiki_hold(&s, true);
    asking_start(&text, &s, WANT_WIKITEXT, 6);
    wiki_wait(&s, 1);
    wiki_hold_no_more(&s);
    wiki_say(&s, (struct wiki_says){ .why = RENDER_SUPPRESSED });
    asking_start(&meanwhile, &s, WANT_META, 6);
    assert_int_equal(asking_wait(&meanwhile), ERR_GONE);
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = "secret", .type = "text/plain" });
    wiki_hold(&s, false);
    assert_int_equal(asking_wait(&text), ERR_GONE);
    stage_end(&s);
}

/* ---- denied between the put and those who wait ---- */

static struct stage *behind; /* what the listener below is about: the store tells it no more */
static uint64_t behind_says;
static uint64_t behind_rev;
static atomic_uint behind_times;

static void on_put(void *ctx, uint16_t bucket, uint32_t domain, str title)
{
    const struct trust_key k = { .domain = domain, .title = title, .rev = behind_rev };
    if (atomic_load(&behind_times) > 0) {
        atomic_fetch_sub(&behind_times, 1);
        struct trust_cell *c = page_trust_hold(behind->service.trust, &k);
        trust_hear(c, clock_store(behind->service.clock), behind_says);
        trust_release(&c);
    }
    page_changes_tell(ctx, bucket, domain, title);
}

static void deny_behind(struct stage *s, uint64_t rev, uint64_t says)
{
    const struct page_listener listener = { .changed = on_put, .ctx = s->service.changes };
    behind = s;
    behind_rev = rev;
    behind_says = says;
    atomic_store(&behind_times, 1);
    page_store_listen(s->service.store, &listener);
    wiki_say(s, (struct wiki_says){ .rev = 7, .html = TEXT });
}

static void what_is_denied_behind_its_put_is_hidden(void **state)
{
    (void)state;
    const struct {
        uint64_t rev, says;
        err why;
    } cases[] = {
        { 0, title_word_hash(&(struct title_word){ .missing = true }), ERR_NOT_FOUND },
        { 7, TRUST_HIDDEN, ERR_GONE },
        { 7, TRUST_GONE, ERR_NOT_FOUND },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct stage s;
        struct asked a;
        stage_begin_checked(&s);
        deny_behind(&s, cases[i].rev, cases[i].says);
        asked_init(&a, &s, "T");
        asked_start(&a);
        (void)asked_wait(&a);
        assert_int_equal(a.get.why, cases[i].why);
        asked_fini(&a);
        assert_int_equal(stage_look(&s, "T", 7), ERR_GONE);
        stage_end(&s);
    }
}

static void what_was_made_of_another_page_is_made_once_more(void **state)
{
    (void)state;
    struct stage s;
    char body[256];
    stage_begin_checked(&s);
    deny_behind(&s, 0, 12345); /* another word: of which page, no cell says */
    assert_int_equal(ask(&s, "T", 0, body), GOT_CONTENT);
    assert_int_equal(wiki_asked(&s), 2);
    assert_int_equal(stage_look(&s, "T", 7), ERR_OK);
    stage_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_deleted_meanwhile_is_not_given),
        cmocka_unit_test(a_revision_hidden_or_deleted_meanwhile_is_not_given),
        cmocka_unit_test(what_is_hidden_of_another_revision_or_shown_again_is_no_matter),
        cmocka_unit_test(wikitext_that_was_hidden_meanwhile_is_not_given),
        cmocka_unit_test(what_is_denied_behind_its_put_is_hidden),
        cmocka_unit_test(what_was_made_of_another_page_is_made_once_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
