/* Goal: what a read gives is what the wiki says, within the bounds of trust, and whatever becomes
 * of the wiki. Method: a service on a real store in front of a wiki that says what the test says
 * (stage.h); trust grows old by rules that the test sets. */
#include "check_read.h"

#include "base/log.h"
#include "base/metrics.h"
#include "loop/loop.h"
#include "loop/sysclock.h"
#include "page/changes.h"
#include "page/redo.h"
#include "sites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT "<html><head></head>made"

static void grow_older(struct stage *s)
{
    s->domains[0].trust = (struct trust_rules){ .ttl_ns = -1, .max_ns = INT64_MAX - 1 };
}

static void what_is_stored_is_checked_at_its_first_read(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "stored");
    struct got g = get(&s, 0, 0);
    assert_int_equal(g.outcome, GOT_CONTENT);
    assert_string_equal(g.body, "stored");
    assert_int_equal(g.trusted, GET_CHECKED);
    g = get(&s, 0, 0);
    assert_int_equal(g.trusted, GET_TRUSTED);
    assert_int_equal(wiki_words_asked(&s), 1);
    assert_int_equal(wiki_asked(&s), 0);
    stage_end(&s);
}

static void what_was_made_needs_no_check(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    struct got g = get(&s, 0, 0);
    assert_int_equal(g.outcome, GOT_CONTENT);
    assert_int_equal(g.how, HOW_MISS);
    g = get(&s, 0, 0);
    assert_int_equal(g.how, HOW_HIT);
    assert_int_equal(g.trusted, GET_TRUSTED);
    assert_int_equal(wiki_words_asked(&s), 0); /* the metadata was the word */
    stage_end(&s);
}

static void an_edited_page_is_made_anew(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "stored");
    (void)get(&s, 0, 0);
    grow_old(&s);
    struct wiki_word w = wiki_word_now(&s);
    w.rev = 8;
    w.touched_s += 10;
    wiki_word(&s, w);
    wiki_say(&s, (struct wiki_says){ .rev = 8, .html = TEXT });
    struct got g = get(&s, 0, 0);
    assert_int_equal(g.outcome, GOT_CONTENT);
    assert_non_null(strstr(g.body, "made"));
    stage_end(&s);
}

static void an_edited_page_that_cannot_be_made_stays_as_it_was(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "stored");
    (void)get(&s, 0, 0);
    grow_old(&s);
    struct wiki_word w = wiki_word_now(&s);
    w.rev = 8;
    wiki_word(&s, w);
    wiki_say(&s, (struct wiki_says){ .why = RENDER_FAILED });
    struct got g = get(&s, 0, 0);
    assert_int_equal(g.outcome, GOT_CONTENT);
    assert_string_equal(g.body, "stored");
    assert_int_equal(g.how, HOW_STALE);
    assert_int_equal(get(&s, 0, GET_NO_STALE).outcome, GOT_ORIGIN_FAILED);
    stage_end(&s);
}

static void a_touched_page_is_made_anew_by_its_next_reader(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = "<html><head></head>before" });
    (void)get(&s, 0, 0);
    struct wiki_word w = wiki_word_now(&s);
    w.touched_s += 50;
    wiki_word(&s, w);
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = TEXT });
    assert_non_null(strstr(get(&s, 0, 0).body, "before")); /* nobody has asked yet */
    grow_old(&s);
    struct got g = get(&s, 0, 0);
    assert_non_null(strstr(g.body, "made"));
    assert_int_equal(g.how, HOW_RENEWED);
    s.domains[0].trust.ttl_ns = 60 * NS_PER_S;
    g = get(&s, 0, 0);
    assert_int_equal(g.how, HOW_HIT);
    assert_int_equal(wiki_asked(&s), 2);
    stage_end(&s);
}

/* From the touch to the wiki's word by the wiki's clock, from there on by ours. */
static void what_shows_a_change_is_counted(void **state)
{
    (void)state;
    struct stage s;
    struct metrics *m = metrics_new("");
    stage_begin_checked(&s);
    s.domains[0].visible = metric_of(metrics_row(m, METRIC_EDIT_VISIBLE_SECONDS), "en.test");
    (void)get(&s, 0, 0);
    assert_int_equal(metric_value(s.domains[0].visible), 0); /* it shows no change */
    (void)get(&s, 0, GET_NO_CACHE);
    assert_int_equal(metric_value(s.domains[0].visible), 0);
    struct wiki_word w = wiki_word_now(&s);
    w.touched_s += 50; /* 50 s ago */
    wiki_word(&s, w);
    grow_old(&s);
    (void)get(&s, 0, 0);
    assert_int_equal(metric_value(s.domains[0].visible), 1);
    (void)get(&s, 0, GET_NO_CACHE);
    assert_int_equal(metric_value(s.domains[0].visible), 1);
    struct buf text;
    buf_init(&text, 1 << 20);
    metrics_render(m, &text);
    const str seen = buf_str(&text);
    assert_true(str_find_str(seen, STR("le=\"30\"} 0\n")) < seen.n);
    assert_true(str_find_str(seen, STR("le=\"60\"} 1\n")) < seen.n);
    buf_fini(&text);
    stage_end(&s);
    metrics_free(&m);
}

static void a_touched_page_is_left_where_nobody_makes_it_anew(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    s.domains[0].rerender = RERENDER_NEVER;
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = "<html><head></head>before" });
    (void)get(&s, 0, 0);
    struct wiki_word w = wiki_word_now(&s);
    w.touched_s += 50;
    wiki_word(&s, w);
    wiki_say(&s, (struct wiki_says){ .rev = 8, .html = TEXT });
    grow_old(&s);
    assert_non_null(strstr(get(&s, 0, 0).body, "before"));
    w.rev = 8; /* but a newer revision is made */
    wiki_word(&s, w);
    assert_non_null(strstr(get(&s, 0, 0).body, "made"));
    stage_end(&s);
}

static bool lasts(struct stage *s, store_time *until)
{
    struct asked a;
    asked_init(&a, s, "T");
    asked_start(&a);
    (void)asked_wait(&a);
    bool is = page_get_lasts(&a.get, until);
    asked_fini(&a);
    return is;
}

/* As long as the wiki says the same, nothing else would tell. */
static void a_render_that_is_too_old_is_made_anew_once(void **state)
{
    (void)state;
    struct stage s;
    struct err_note note;
    stage_begin_checked(&s);
    s.domains[0].rerender_after_ns = 3600 * NS_PER_S;
    (void)get(&s, 0, 0);
    assert_int_equal(wiki_asked(&s), 1);
    assert_int_equal(get(&s, 0, 0).how, HOW_HIT);
    store_time until, now = clock_store(s.service.clock);
    assert_true(lasts(&s, &until)); /* a ready answer ends in time */
    assert_true(until.ns > now.ns);
    assert_true(until.ns <= now.ns + 3600 * NS_PER_S);
    assert_int_equal(sysclock_advance(s.sysclock, 3601 * NS_PER_S, &note), ERR_OK);
    assert_int_equal(get(&s, 0, 0).how, HOW_RENEWED);
    assert_int_equal(wiki_asked(&s), 2);
    assert_int_equal(get(&s, 0, 0).how, HOW_HIT); /* equal, and so of the same name */
    assert_int_equal(wiki_asked(&s), 2);
    stage_end(&s);
}

struct redoing {
    struct page_redo redo;
    struct awaited over;
};

static void redone(struct page_redo *r)
{
    awaited_tell(&CONTAINER_OF(r, struct redoing, redo)->over, r->why);
}

static void redo(struct stage *s)
{
    struct redoing r = { .redo = { .service = &s->service,
                                   .domain = &s->domains[0],
                                   .home = home_here(),
                                   .done = redone } };
    awaited_init(&r.over);
    page_redo_start(&r.redo);
    assert_int_equal(awaited_wait(&r.over), ERR_OK);
    awaited_fini(&r.over);
}

static void what_is_told_to_be_redone_is_made_anew_by_its_readers(void **state)
{
    (void)state;
    struct stage s;
    _Atomic int64_t redo_ns = 0;
    stage_begin_checked(&s);
    s.domains[0].redo_ns = &redo_ns;
    assert_int_equal(page_redo_load(&s.service, &s.domains[0]), ERR_OK);
    assert_int_equal(redo_ns, 0);
    (void)get(&s, 0, 0);
    store_time until;
    assert_true(lasts(&s, &until));
    assert_int_equal(until.ns, INT64_MAX);
    struct page_seen seen =
        page_changes_see(s.service.changes,
                         page_store_bucket_number(s.service.store, s.settings.bucket),
                         s.domains[0].number, STR("T"));
    redo(&s);
    assert_true(page_changed_since(s.service.changes, seen)); /* ready answers end */
    assert_int_equal(get(&s, 0, 0).how, HOW_RENEWED);
    assert_int_equal(get(&s, 0, 0).how, HOW_HIT);
    assert_int_equal(wiki_asked(&s), 2);
    int64_t told = atomic_exchange(&redo_ns, 0); /* after a restart */
    assert_int_equal(page_redo_load(&s.service, &s.domains[0]), ERR_OK);
    assert_int_equal(redo_ns, told);
    stage_end(&s);
}

static void a_deleted_page_is_gone_for_all_who_ask(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 6, "older");
    (void)stage_put(&s, "T", 7, "stored");
    (void)get(&s, 0, 0);
    grow_old(&s);
    wiki_word(&s,
              (struct wiki_word){ .state = WORDS_TITLE_MISSING, .shown = WORDS_REVISION_MISSING });
    wiki_say(&s, (struct wiki_says){ .why = RENDER_NO_PAGE });
    assert_int_equal(get(&s, 0, 0).outcome, GOT_ORIGIN_FAILED);
    struct got g = get(&s, 6, 0);
    assert_int_equal(g.outcome, GOT_ORIGIN_FAILED);
    assert_int_equal(g.why, ERR_NOT_FOUND);
    stage_end(&s);
}

static void hidden_text_is_not_given_by_number(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    struct page_name old = stage_put(&s, "T", 6, "secret");
    (void)stage_put(&s, "T", 7, "stored");
    assert_string_equal(get(&s, 6, 0).body, "secret");
    assert_int_equal(wiki_words_asked(&s), 1);
    assert_string_equal(get(&s, 6, 0).body, "secret"); /* trusted */
    assert_int_equal(wiki_words_asked(&s), 1);
    grow_old(&s);
    struct wiki_word w = wiki_word_now(&s);
    w.shown = WORDS_REVISION_HIDDEN;
    wiki_word(&s, w);
    wiki_say(&s, (struct wiki_says){ .why = RENDER_SUPPRESSED });
    assert_int_equal(get(&s, 6, 0).outcome, GOT_GONE);
    struct asked a;
    asked_init(&a, &s, "T");
    a.get.target.has_rev = a.get.target.has_tid = true;
    a.get.target.name = old;
    asked_start(&a);
    assert_int_equal(asked_wait(&a), GOT_GONE);
    asked_fini(&a);
    stage_end(&s);
}

static void an_editor_is_checked_first(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "stored");
    (void)get(&s, 0, 0);
    struct trust_key k = { .domain = s.domains[0].number, .title = STR("T") };
    struct trust_cell *c = page_trust_hold(s.service.trust, &k);
    trust_doubt(c, (store_time){ .ns = clock_store(s.service.clock).ns });
    trust_release(&c);
    assert_int_equal(get(&s, 0, GET_STASH).trusted, GET_CHECKED);
    assert_int_equal(wiki_words_asked(&s), 2);
    stage_end(&s);
}

static void doubt_title(void *ctx)
{
    struct stage *s = ctx;
    const struct trust_key k = { .domain = s->domains[0].number, .title = STR("T") };
    const struct title_bound none = { .rev = 0 };
    assert_true(page_trust_doubt(s->service.trust, &k, clock_store(s->service.clock), &none));
}

/* Who waited is answered by the word that was asked for him; who comes later has it asked again. */
static void a_doubt_that_comes_while_the_wiki_is_asked_is_for_later_readers(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 6, "older");
    (void)stage_put(&s, "T", 7, "stored");
    struct wiki_word w = wiki_word_now(&s), quiet = w;
    w.meanwhile = doubt_title;
    w.ctx = &s;
    wiki_word(&s, w);
    const uint64_t revs[] = { 0, 6 };
    for (unsigned i = 0; i < COUNT_OF(revs); i++) {
        struct got g = get(&s, revs[i], 0);
        assert_int_equal(g.outcome, GOT_CONTENT);
        assert_int_equal(g.trusted, GET_CHECKED);
        assert_int_equal(wiki_words_asked(&s), i + 1);
    }
    wiki_word(&s, quiet);
    for (unsigned i = 0; i < COUNT_OF(revs); i++)
        assert_int_equal(get(&s, revs[i], 0).trusted, GET_CHECKED);
    assert_int_equal(wiki_words_asked(&s), 4);
    for (unsigned i = 0; i < COUNT_OF(revs); i++)
        assert_int_equal(get(&s, revs[i], 0).trusted, GET_TRUSTED);
    stage_end(&s);
}

static void a_wiki_that_is_away_leaves_what_is_stored_unchecked(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 6, "older");
    (void)stage_put(&s, "T", 7, "stored");
    struct wiki_word w = wiki_word_now(&s);
    w.why = RENDER_FAILED;
    wiki_word(&s, w);
    struct got g = get(&s, 0, 0);
    assert_int_equal(g.outcome, GOT_CONTENT);
    assert_int_equal(g.trusted, GET_UNCHECKED);
    g = get(&s, 0, GET_STASH);
    assert_int_equal(g.outcome, GOT_CONTENT);
    assert_int_equal(g.trusted, GET_UNCHECKED);
    assert_int_equal(get(&s, 6, 0).outcome, GOT_ORIGIN_FAILED); /* it may be hidden */
    assert_int_equal(get(&s, 0, GET_NO_STALE).outcome, GOT_ORIGIN_FAILED);
    s.settings.stale_if_error_ns = 0;
    assert_int_equal(get(&s, 0, 0).outcome, GOT_ORIGIN_FAILED);
    assert_int_equal(wiki_words_asked(&s), 1); /* it is left alone for a second */
    stage_end(&s);
}

static void edited(void *ctx)
{
    wiki_say(ctx, (struct wiki_says){ .rev = 8, .html = TEXT " after" });
}

static uint64_t making_for(const struct stage *s)
{
    struct flight_stats f;
    flights_stats_get(s->service.flights, &f);
    return f.waiters;
}

/* The page is edited while it is made, and somebody says so: who comes then gets the edit. */
static void a_making_from_before_a_change_is_not_for_who_comes_behind_it(void **state)
{
    (void)state;
    struct stage s;
    struct asked first, second;
    stage_begin_checked(&s);
    wiki_hold(&s, true);
    asked_init(&first, &s, "T");
    asked_start(&first);
    wiki_wait(&s, 1);
    const struct trust_key k = { .domain = s.domains[0].number, .title = STR("T") };
    const struct title_bound none = { .rev = 0 };
    assert_true(page_trust_doubt(s.service.trust, &k, clock_store(s.service.clock), &none));
    asked_init(&second, &s, "T");
    asked_start(&second);
    WAIT_UNTIL(making_for(&s) == 2);
    struct wiki_word w = wiki_word_now(&s);
    w.rev = 8;
    w.touched_s += 10;
    w.meanwhile = edited;
    w.ctx = &s;
    wiki_word(&s, w);
    wiki_hold(&s, false);
    assert_int_equal(asked_wait(&first), GOT_CONTENT);
    assert_int_equal(asked_wait(&second), GOT_CONTENT);
    assert_non_null(strstr(second.body, "after"));
    asked_fini(&first);
    asked_fini(&second);
    stage_end(&s);
}

/* ---- more is wanted than there is room for ---- */

struct wanted {
    struct stage *s;
    struct page_check check;
    struct trust_cell *cell;
    atomic_bool over;
};

static void wanted_over(struct page_check *c)
{
    CONTAINER_OF(c, struct wanted, check)->over = true;
}

static void wanted_start(struct wanted *w, struct stage *s, const char *title, int64_t ms)
{
    const struct trust_key k = { .domain = s->domains[0].number, .title = str_of(title) };
    *w = (struct wanted){ .s = s, .cell = page_trust_hold(s->service.trust, &k) };
    w->check = (struct page_check){ .checks = s->service.checks,
                                    .domain = &s->domains[0],
                                    .cell = w->cell,
                                    .since = clock_store(s->service.clock),
                                    .deadline = mono_add_ms(clock_mono(s->service.clock), ms),
                                    .home = home_here(),
                                    .done = wanted_over };
    page_check_start(&w->check);
}

static err wanted_end(struct wanted *w)
{
    WAIT_UNTIL(w->over);
    trust_release(&w->cell);
    return w->check.why;
}

struct crowd {
    struct stage *s;
    struct wanted wanted;
    unsigned took; /* looks that found room */
    atomic_bool over;
};

/* Loop: the wiki is asked for nothing of it before all are wanted. */
static void crowd_run(void *ctx)
{
    struct crowd *c = ctx;
    struct stage *s = c->s;
    for (unsigned n = 0; n < CHECK_ITEMS_MAX + 3; n++) {
        char title[32];
        int bytes = snprintf(title, sizeof title, "Told %u", n);
        const struct trust_key k = { .domain = s->domains[0].number,
                                     .title = { .p = title, .n = (size_t)bytes } };
        struct trust_cell *cell = page_trust_hold(s->service.trust, &k);
        c->took += page_checks_look(s->service.checks, &s->domains[0], cell);
        trust_release(&cell);
    }
    wanted_start(&c->wanted, s, "T", 60000);
    c->over = true;
}

static void who_waits_finds_room_however_much_is_wanted(void **state)
{
    (void)state;
    struct stage s;
    struct check_figures f;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "stored");
    struct crowd c = { .s = &s };
    loop_post(s.loop, crowd_run, &c);
    WAIT_UNTIL(c.over);
    assert_int_equal(wanted_end(&c.wanted), ERR_OK);
    assert_int_equal(c.took, CHECK_ITEMS_MAX);
    page_checks_figures(s.service.checks, &s.domains[0], &f);
    assert_int_equal(f.full, 3);
    assert_int_equal(f.failures, 0);
    stage_end(&s);
}

static uint64_t waiting(const struct stage *s)
{
    struct check_figures f;
    page_checks_figures(s->service.checks, &s->domains[0], &f);
    return f.waiting;
}

static void who_waits_comes_before_what_was_left(void **state)
{
    enum { LEFT = 2 * WORDS_MAX };
    (void)state;
    struct stage s;
    struct wanted first, last, *left = calloc(LEFT, sizeof *left);
    char title[32];
    assert_non_null(left);
    stage_begin_checked(&s);
    wiki_hold_words(&s, true);
    wanted_start(&first, &s, "First", 60000);
    WAIT_UNTIL(wiki_words_asked(&s) == 1);
    for (unsigned i = 0; i < LEFT; i++) {
        (void)snprintf(title, sizeof title, "Left %u", i);
        wanted_start(&left[i], &s, title, 0);
    }
    for (unsigned i = 0; i < LEFT; i++)
        assert_int_equal(wanted_end(&left[i]), ERR_TIMEOUT);
    wanted_start(&last, &s, "Last", 60000);
    WAIT_UNTIL(waiting(&s) == 2);
    wiki_hold_words(&s, false);
    assert_int_equal(wanted_end(&last), ERR_OK);
    assert_int_equal(wiki_words_asked(&s), 2); /* the next after the one that was under way */
    assert_int_equal(wanted_end(&first), ERR_OK);
    free(left);
    stage_end(&s);
}

static void a_reader_does_not_wait_for_what_is_a_little_old(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "stored");
    (void)get(&s, 0, 0);
    grow_older(&s);
    assert_int_equal(get(&s, 0, 0).trusted, GET_TRUSTED);
    WAIT_UNTIL(wiki_words_asked(&s) == 2); /* gathered for a second, then asked for */
    stage_end(&s);
}

/* Negative memory is of the latest alone. */
static void a_missing_page_is_asked_for_once(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    wiki_say(&s, (struct wiki_says){ .why = RENDER_NO_PAGE });
    assert_int_equal(get(&s, 0, 0).why, ERR_NOT_FOUND);
    assert_int_equal(get(&s, 0, 0).why, ERR_NOT_FOUND);
    assert_int_equal(get(&s, 0, GET_ONLY_CACHED).why, ERR_NOT_FOUND);
    assert_int_equal(wiki_asked(&s), 1);
    assert_int_equal(get(&s, 0, GET_STASH).why, ERR_NOT_FOUND); /* may be about to make it */
    assert_int_equal(wiki_asked(&s), 2);
    assert_int_equal(get(&s, 5, 0).why, ERR_NOT_FOUND);
    assert_int_equal(get(&s, 0, GET_NO_CACHE).why, ERR_NOT_FOUND);
    assert_int_equal(wiki_asked(&s), 4);
    grow_old(&s);
    wiki_say(&s, (struct wiki_says){ .rev = 7, .html = TEXT });
    assert_int_equal(get(&s, 0, 0).outcome, GOT_CONTENT);
    stage_end(&s);
}

static void a_page_found_missing_by_a_check_is_not_asked_for_again(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "stored");
    wiki_word(&s, (struct wiki_word){ .state = WORDS_TITLE_MISSING });
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(get(&s, 0, 0).why, ERR_NOT_FOUND);
    assert_int_equal(wiki_words_asked(&s), 1);
    assert_int_equal(wiki_asked(&s), 0);
    stage_end(&s);
}

static void a_closed_wiki_is_given_by_nobody(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "stored");
    (void)get(&s, 0, 0);
    grow_old(&s);
    struct wiki_word w = wiki_word_now(&s);
    w.why = RENDER_DENIED;
    wiki_word(&s, w);
    assert_int_equal(get(&s, 0, 0).why, ERR_DENIED);
    assert_int_equal(get(&s, 0, GET_STASH).why, ERR_DENIED);
    assert_int_equal(get(&s, 7, 0).why, ERR_DENIED);
    s.domains[0].trust.ttl_ns = 60 * NS_PER_S; /* what was trusted is not, either */
    assert_int_equal(get(&s, 0, 0).why, ERR_DENIED);
    assert_int_equal(get(&s, 0, GET_ONLY_CACHED).why, ERR_DENIED);
    stage_end(&s);
}

/* Revision 9 is made, and heard of, while the wiki is asked whether 8 is still there. */
struct overtaking {
    struct stage *stage;
    unsigned calls;
    struct page_put put;
    struct page_hear hear;
    struct title_word word;
    struct awaited put_over, heard;
};

static void overtaking_put(struct store_call *c)
{
    awaited_tell(&CONTAINER_OF(c, struct overtaking, put.call)->put_over, c->why);
}

static void overtaking_heard(struct store_call *c)
{
    awaited_tell(&CONTAINER_OF(c, struct overtaking, hear.call)->heard, c->why);
}

static void overtake(void *ctx)
{
    struct overtaking *o = ctx;
    struct stage *s = o->stage;
    struct home *worker = &s->worker.home; /* the loop waits here */
    struct wiki_word w = wiki_word_now(s);
    struct arena arena;
    if (++o->calls != 2)
        return;
    w.rev = 9;
    wiki_word(s, w);
    arena_init(&arena, 1 << 20);
    o->put = (struct page_put){ .call = { .home = worker, .done = overtaking_put },
                                .bucket = s->settings.bucket,
                                .domain = s->domains[0].number,
                                .title = STR("T"),
                                .rev = 9,
                                .arena = &arena,
                                .contents_count = 1,
                                .contents = { { .name = STR("html"),
                                                .headers = STR("content-type: text/html\n"),
                                                .raw = STR("nine") } } };
    if (page_store_put(s->service.store, &o->put) == STORE_LATER)
        assert_int_equal(awaited_wait(&o->put_over), ERR_OK);
    o->word = (struct title_word){ .page_id = w.page_id,
                                   .rev = 9,
                                   .touched = w.touched_s,
                                   .said = clock_store(s->service.clock).ns / NS_PER_S,
                                   .asked_at = clock_store(s->service.clock) };
    o->hear = (struct page_hear){
        .call = { .deadline = { .ns = INT64_MAX }, .home = worker, .done = overtaking_heard },
        .domain = s->domains[0].number,
        .title = STR("T"),
        .word = &o->word
    };
    if (page_store_hear(s->service.store, &o->hear) == STORE_LATER)
        assert_int_equal(awaited_wait(&o->heard), ERR_OK);
    arena_fini(&arena);
}

/* A word that was overtaken while a revision above it was asked for is of no use any more. */
static void a_word_that_was_overtaken_is_asked_for_anew(void **state)
{
    (void)state;
    struct stage s;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "seven");
    (void)stage_put(&s, "T", 8, "eight");
    s.domains[0].check_wait_ms = 5000;
    struct overtaking o = { .stage = &s };
    awaited_init(&o.put_over);
    awaited_init(&o.heard);
    struct wiki_word w = wiki_word_now(&s);
    w.shown = WORDS_REVISION_MISSING;
    w.meanwhile = overtake;
    w.ctx = &o;
    wiki_word(&s, w);
    struct got g = get(&s, 0, 0);
    assert_int_equal(g.outcome, GOT_CONTENT);
    assert_string_equal(g.body, "nine");
    assert_int_equal(g.trusted, GET_CHECKED);
    assert_int_equal(wiki_words_asked(&s), 3);
    stage_end(&s);
    awaited_fini(&o.put_over);
    awaited_fini(&o.heard);
}

struct waiting {
    struct page_check check;
    struct awaited over;
};

static void waited(struct page_check *c)
{
    awaited_tell(&CONTAINER_OF(c, struct waiting, check)->over, c->why);
}

static uint64_t who_wait(struct stage *s)
{
    struct check_figures f;
    page_checks_figures(s->service.checks, &s->domains[0], &f);
    return f.waiting;
}

/* That a revision above the word went is asked later than the word itself. */
static void who_comes_after_the_word_waits_for_another(void **state)
{
    (void)state;
    struct stage s;
    struct asked a;
    stage_begin_checked(&s);
    (void)stage_put(&s, "T", 7, "seven");
    (void)stage_put(&s, "T", 8, "eight");
    struct wiki_word w = wiki_word_now(&s);
    w.shown = WORDS_REVISION_MISSING;
    wiki_word(&s, w);
    wiki_hold_words(&s, true);
    asked_init(&a, &s, "T");
    asked_start(&a);
    WAIT_UNTIL(wiki_words_asked(&s) == 1);
    const struct trust_key k = { .domain = s.domains[0].number, .title = STR("T") };
    struct waiting late = { .check = { .checks = s.service.checks,
                                       .domain = &s.domains[0],
                                       .cell = page_trust_hold(s.service.trust, &k),
                                       .since = clock_store(s.service.clock),
                                       .deadline = { .ns = INT64_MAX },
                                       .home = home_here(),
                                       .done = waited } };
    awaited_init(&late.over);
    page_check_start(&late.check);
    WAIT_UNTIL(who_wait(&s) == 2);
    wiki_hold_words(&s, false);
    assert_int_equal(asked_wait(&a), GOT_CONTENT);
    assert_int_equal(awaited_wait(&late.over), ERR_OK);
    assert_int_equal(wiki_words_asked(&s), 3);
    trust_release(&late.check.cell);
    awaited_fini(&late.over);
    asked_fini(&a);
    stage_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_stored_is_checked_at_its_first_read),
        cmocka_unit_test(what_was_made_needs_no_check),
        cmocka_unit_test(an_edited_page_is_made_anew),
        cmocka_unit_test(an_edited_page_that_cannot_be_made_stays_as_it_was),
        cmocka_unit_test(a_touched_page_is_made_anew_by_its_next_reader),
        cmocka_unit_test(what_shows_a_change_is_counted),
        cmocka_unit_test(a_touched_page_is_left_where_nobody_makes_it_anew),
        cmocka_unit_test(a_render_that_is_too_old_is_made_anew_once),
        cmocka_unit_test(what_is_told_to_be_redone_is_made_anew_by_its_readers),
        cmocka_unit_test(a_deleted_page_is_gone_for_all_who_ask),
        cmocka_unit_test(hidden_text_is_not_given_by_number),
        cmocka_unit_test(an_editor_is_checked_first),
        cmocka_unit_test(a_doubt_that_comes_while_the_wiki_is_asked_is_for_later_readers),
        cmocka_unit_test(a_wiki_that_is_away_leaves_what_is_stored_unchecked),
        cmocka_unit_test(a_making_from_before_a_change_is_not_for_who_comes_behind_it),
        cmocka_unit_test(who_waits_finds_room_however_much_is_wanted),
        cmocka_unit_test(who_waits_comes_before_what_was_left),
        cmocka_unit_test(a_reader_does_not_wait_for_what_is_a_little_old),
        cmocka_unit_test(a_missing_page_is_asked_for_once),
        cmocka_unit_test(a_page_found_missing_by_a_check_is_not_asked_for_again),
        cmocka_unit_test(a_closed_wiki_is_given_by_nobody),
        cmocka_unit_test(a_word_that_was_overtaken_is_asked_for_anew),
        cmocka_unit_test(who_comes_after_the_word_waits_for_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
