/* Goal: the wiki is asked about each stored title once a period, wherever a process ended in
 * between and whatever the wiki did; what nobody told of is found. Method: a service on a real
 * store in front of a wiki that says what the test says (stage.h), on a clock that the test moves.
 * A sweep is ended and begun anew on the same store, as by a restart. */
#include "page/sweep.h"

#include "engine/engine.h"
#include "loop/loop.h"
#include "loop/sysclock.h"
#include "stage.h"

#include <stdio.h>
#include <string.h>

#define PERIOD (86400 * NS_PER_S)
enum { BATCH = 50 };

struct on_loop {
    struct stage *stage;
    bool (*step)(struct stage *s); /* again, until true */
    struct awaited over;
};

static void on_loop_run(void *ctx)
{
    struct on_loop *o = ctx;
    if (o->step(o->stage))
        awaited_tell(&o->over, ERR_OK);
    else
        loop_post(o->stage->loop, on_loop_run, o);
}

static void on_loop(struct stage *s, bool (*step)(struct stage *s))
{
    struct on_loop o = { .stage = s, .step = step };
    awaited_init(&o.over);
    loop_post(s->loop, on_loop_run, &o);
    assert_int_equal(awaited_wait(&o.over), ERR_OK);
    awaited_fini(&o.over);
}

static bool open_step(struct stage *s)
{
    s->service.sweeps = page_sweeps_new(&s->service);
    return true;
}

static bool close_step(struct stage *s)
{
    page_sweeps_stop(s->service.sweeps);
    if (!page_sweeps_idle(s->service.sweeps))
        return false;
    page_sweeps_free(&s->service.sweeps);
    return true;
}

static bool now_step(struct stage *s)
{
    assert_true(page_sweep_now(s->service.sweeps, &s->domains[0]));
    assert_false(page_sweep_now(s->service.sweeps, &s->domains[1])); /* nobody to ask */
    return true;
}

static void restart(struct stage *s)
{
    on_loop(s, close_step);
    on_loop(s, open_step);
}

static void begin(struct stage *s, unsigned titles, int64_t period_ns)
{
    stage_begin_checked(s);
    s->domains[0].sweep_period_ns = period_ns;
    for (unsigned i = 0; i < titles; i++) {
        char title[16];
        (void)snprintf(title, sizeof title, "T%03u", i);
        (void)stage_put(s, title, 7, "stored");
    }
}

static void end(struct stage *s)
{
    on_loop(s, close_step);
    stage_end(s);
}

static struct sweep_figures figures(const struct stage *s)
{
    struct sweep_figures f;
    page_sweeps_figures(s->service.sweeps, &s->domains[0], &f);
    return f;
}

static void wait_part(struct stage *s, int64_t ns)
{
    struct err_note note;
    assert_int_equal(sysclock_advance(s->sysclock, ns, &note), ERR_OK);
}

static void each_title_is_asked_about_once_a_period(void **state)
{
    (void)state;
    struct stage s;
    begin(&s, 120, PERIOD);
    on_loop(&s, open_step);
    WAIT_UNTIL(figures(&s).asked == BATCH);
    assert_int_equal(figures(&s).is, SWEEP_GOES);
    assert_int_equal(figures(&s).titles, 120);
    assert_string_equal(figures(&s).at, "T049");
    assert_int_equal(figures(&s).all_since.ns, INT64_MAX);
    wait_part(&s, PERIOD / 2);
    WAIT_UNTIL(figures(&s).asked == 2 * BATCH);
    assert_int_equal(wiki_words_asked(&s), 2);
    wait_part(&s, PERIOD / 2);
    WAIT_UNTIL(figures(&s).laps == 1);
    WAIT_UNTIL(wiki_words_counts(&s).titles == 170); /* and the next lap begins */
    assert_int_equal(wiki_words_asked(&s), 4);
    WAIT_UNTIL(figures(&s).asked == BATCH);
    assert_true(figures(&s).all_since.ns < figures(&s).began.ns);
    assert_int_equal(figures(&s).found, 0); /* first words are no news */
    end(&s);
}

static void a_restart_goes_on_where_the_sweep_was(void **state)
{
    (void)state;
    struct stage s;
    begin(&s, 120, PERIOD);
    on_loop(&s, open_step);
    WAIT_UNTIL(figures(&s).asked == BATCH);
    store_time began = figures(&s).began;
    restart(&s);
    assert_int_equal(figures(&s).asked, BATCH);
    assert_int_equal(figures(&s).began.ns, began.ns);
    wait_part(&s, PERIOD);
    WAIT_UNTIL(figures(&s).laps == 1);
    WAIT_UNTIL(wiki_words_counts(&s).titles == 170); /* none twice, none left out */
    end(&s);
}

/* A process that ends between question and note has asked for nothing. */
static void what_was_not_noted_is_asked_for_again(void **state)
{
    (void)state;
    struct stage s;
    begin(&s, 60, PERIOD);
    on_loop(&s, open_step);
    WAIT_UNTIL(figures(&s).asked == BATCH);
    struct wiki_word w = wiki_word_now(&s);
    w.why = RENDER_FAILED;
    wiki_word(&s, w);
    wait_part(&s, PERIOD - NS_PER_S);
    WAIT_UNTIL(figures(&s).failures >= 1);
    assert_true(figures(&s).fails);
    assert_int_equal(figures(&s).asked, BATCH);
    restart(&s);
    assert_string_equal(figures(&s).at, "T049");
    WAIT_UNTIL(figures(&s).failures >= 1);
    w.why = RENDER_FINE;
    wiki_word(&s, w);
    WAIT_UNTIL(figures(&s).laps == 1);
    assert_false(figures(&s).fails);
    assert_int_equal(wiki_words_counts(&s).titles, 60);
    end(&s);
}

static err read_rev(struct stage *s, uint64_t rev)
{
    struct arena a;
    arena_init(&a, 1 << 20);
    struct page_read r = { .bucket = s->settings.bucket,
                           .which = { .domain = s->domains[0].number,
                                      .title = STR("T"),
                                      .select = SELECT_REV,
                                      .name = { .rev = rev } },
                           .arena = &a };
    assert_int_equal(page_store_read(s->service.store, &r), STORE_DONE);
    arena_fini(&a);
    return r.call.why;
}

static void hidden_text_that_nobody_reads_is_found(void **state)
{
    (void)state;
    struct stage s;
    begin(&s, 0, PERIOD);
    (void)stage_put(&s, "T", 5, "fine");
    (void)stage_put(&s, "T", 6, "secret");
    (void)stage_put(&s, "T", 7, "stored");
    struct page_order hold = { .kind = ORDER_HOLD, .has_rev = true, .until = { INT64_MAX } };
    for (hold.name.rev = 5; hold.name.rev < 7; hold.name.rev++)
        assert_int_equal(stage_order(&s, &hold, "T"), ERR_OK);
    on_loop(&s, open_step);
    WAIT_UNTIL(figures(&s).laps == 1);
    assert_int_equal(figures(&s).revisions, 2); /* nobody had asked before */
    assert_int_equal(read_rev(&s, 6), ERR_OK);
    wait_part(&s, PERIOD);
    WAIT_UNTIL(figures(&s).laps == 2);
    assert_int_equal(figures(&s).revisions, 2); /* the page was not touched */
    struct wiki_word w = wiki_word_now(&s);
    w.touched_s = clock_store(s.service.clock).ns / NS_PER_S;
    w.shown = WORDS_REVISION_HIDDEN;
    wiki_word(&s, w);
    wait_part(&s, PERIOD);
    WAIT_UNTIL(figures(&s).laps == 3);
    assert_int_equal(figures(&s).revisions, 4);
    assert_int_equal(figures(&s).found, 3); /* the title's word, and two revisions */
    assert_int_equal(read_rev(&s, 6), ERR_GONE);
    end(&s);
}

static bool look_step(struct stage *s)
{
    const struct trust_key k = { .domain = s->domains[0].number, .title = STR("Other") };
    struct trust_cell *cell = page_trust_hold(s->service.trust, &k);
    assert_true(page_checks_look(s->service.checks, &s->domains[0], cell));
    trust_release(&cell);
    return true;
}

static uint64_t waiting(struct stage *s)
{
    struct check_figures f;
    page_checks_figures(s->service.checks, &s->domains[0], &f);
    return f.waiting;
}

/* Its place is for other domains of the host meanwhile. */
static void a_sweep_does_not_wait_until_the_wiki_may_be_asked(void **state)
{
    (void)state;
    struct stage s;
    begin(&s, 1, 0);
    struct wiki_word w = wiki_word_now(&s);
    w.why = RENDER_BUSY;
    wiki_word(&s, w);
    wiki_hold_words(&s, true);
    on_loop(&s, open_step);
    on_loop(&s, look_step);
    WAIT_UNTIL(wiki_words_asked(&s) == 1);
    on_loop(&s, now_step);
    WAIT_UNTIL(waiting(&s) == 1); /* behind that call */
    wiki_hold_words(&s, false);
    WAIT_UNTIL(figures(&s).failures == 1);
    assert_int_equal(wiki_words_asked(&s), 1);
    assert_int_equal(waiting(&s), 0);
    assert_int_equal(figures(&s).laps, 0);
    w.why = RENDER_FINE;
    wiki_word(&s, w);
    WAIT_UNTIL(figures(&s).laps == 1); /* as soon as it may be */
    assert_int_equal(figures(&s).failures, 1);
    end(&s);
}

static void a_deleted_page_is_found(void **state)
{
    (void)state;
    struct stage s;
    begin(&s, 0, PERIOD);
    (void)stage_put(&s, "T", 7, "stored");
    wiki_word(&s,
              (struct wiki_word){ .state = WORDS_TITLE_MISSING, .shown = WORDS_REVISION_MISSING });
    on_loop(&s, open_step);
    WAIT_UNTIL(figures(&s).laps == 1);
    assert_int_equal(read_rev(&s, 7), ERR_GONE);
    assert_int_equal(figures(&s).found, 1);
    assert_int_equal(wiki_words_asked(&s), 1);
    end(&s);
}

static void words_of_nothing_are_forgotten(void **state)
{
    (void)state;
    struct stage s;
    begin(&s, 0, PERIOD);
    (void)stage_put(&s, "T", 7, "stored");
    (void)stage_put(&s, "U", 7, "stored");
    on_loop(&s, open_step);
    WAIT_UNTIL(figures(&s).laps == 1);
    struct page_order purge = { .kind = ORDER_PURGE };
    assert_int_equal(stage_order(&s, &purge, "T"), ERR_OK);
    on_loop(&s, now_step);
    WAIT_UNTIL(figures(&s).laps == 2);
    assert_int_equal(figures(&s).forgotten, 0); /* a render may be under way */
    wait_part(&s, (SWEEP_KEEP_S + 1) * NS_PER_S);
    on_loop(&s, now_step);
    WAIT_UNTIL(figures(&s).laps == 3);
    assert_int_equal(figures(&s).forgotten, 1);
    assert_int_equal(wiki_words_counts(&s).titles,
                     2 + 1 + 1); /* of which nothing is stored: none */
    end(&s);
}

static void a_lap_can_be_asked_for_without_a_period(void **state)
{
    (void)state;
    struct stage s;
    begin(&s, 60, 0);
    on_loop(&s, open_step);
    assert_int_equal(figures(&s).is, SWEEP_OFF);
    on_loop(&s, now_step);
    WAIT_UNTIL(figures(&s).laps == 1);
    assert_int_equal(wiki_words_counts(&s).titles, 60);
    assert_int_equal(wiki_words_asked(&s), 2);
    assert_int_equal(figures(&s).is, SWEEP_OFF);
    end(&s);
}

struct damage {
    struct engine_update update;
    str title;
    unsigned rows;
    struct awaited over;
};

/* What cannot be read stands where renders of the title stood. */
static err damage_decide(struct engine_txn *t, void *ctx)
{
    struct damage *d = ctx;
    const struct engine_range all = { .space = SPACE_RENDER, .from = STR(""), .until = STR_NONE };
    char keys[4][ENGINE_KEY_BYTES_MAX];
    str found[4];
    struct engine_row row;
    struct engine_cursor *c = engine_cursor_open(engine_txn_view(t), &all);
    d->rows = 0;
    while (d->rows < COUNT_OF(found) && engine_cursor_next(c, &row) == ERR_OK) {
        if (str_find_str(row.key, d->title) == row.key.n)
            continue;
        memcpy(keys[d->rows], row.key.p, row.key.n);
        found[d->rows] = (str){ .p = keys[d->rows], .n = row.key.n };
        d->rows++;
    }
    engine_cursor_close(&c);
    err e = ERR_OK;
    for (unsigned i = 0; e == ERR_OK && i < d->rows; i++)
        e = engine_txn_put(t, SPACE_RENDER, found[i], STR("?"), STR_NONE);
    return e;
}

static void damage_done(void *ctx, err why)
{
    awaited_tell(&((struct damage *)ctx)->over, why);
}

static void damage(struct stage *s, const char *title)
{
    struct damage d = { .title = str_of(title) };
    d.update = (struct engine_update){ .decide = damage_decide,
                                       .done = damage_done,
                                       .ctx = &d,
                                       .deadline = { .ns = INT64_MAX },
                                       .partition = STR_NONE };
    awaited_init(&d.over);
    engine_submit(s->engine, &d.update);
    assert_int_equal(awaited_wait(&d.over), ERR_OK);
    assert_int_equal(d.rows, 1);
    awaited_fini(&d.over);
}

static void a_damaged_title_does_not_hold_up_the_others(void **state)
{
    (void)state;
    struct stage s;
    begin(&s, 120, PERIOD);
    damage(&s, "T020");
    on_loop(&s, open_step);
    WAIT_UNTIL(figures(&s).asked == BATCH);
    assert_int_equal(figures(&s).failures, 0);
    assert_int_equal(figures(&s).unanswered, 1);
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_damaged_title_does_not_hold_up_the_others),
        cmocka_unit_test(each_title_is_asked_about_once_a_period),
        cmocka_unit_test(a_restart_goes_on_where_the_sweep_was),
        cmocka_unit_test(what_was_not_noted_is_asked_for_again),
        cmocka_unit_test(hidden_text_that_nobody_reads_is_found),
        cmocka_unit_test(a_sweep_does_not_wait_until_the_wiki_may_be_asked),
        cmocka_unit_test(a_deleted_page_is_found),
        cmocka_unit_test(words_of_nothing_are_forgotten),
        cmocka_unit_test(a_lap_can_be_asked_for_without_a_period),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
