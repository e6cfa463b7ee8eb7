/* Goal: what becomes of renders is in the event log, each thing once, and what failed is not.
 * Method: a bucket and an event log on one engine in memory, which runs each decision twice;
 * scripts with one change each, and the events behind them. */
#include "event/append.h"
#include "fixture.h"

#include <stdio.h>
#include <string.h>

enum { SEEN_BYTES = 4096, IDS_MAX = 64, ID_BYTES = 36 };

struct stage {
    struct fixture *f;
    struct event_log *log;
    unsigned told;
    uint64_t after;
    char seen[SEEN_BYTES]; /* "render 1, gone 1 culled, dated 1 revision 2" */
    char over[SEEN_BYTES]; /* of those that say what they superseded: "render 2 over 1, " */
    char ids[IDS_MAX][ID_BYTES + 1];
    unsigned ids_count;
};

static void stage_told(void *ctx)
{
    struct stage *s = ctx;
    s->told++;
}

static void stage_begin(struct stage *s, enum page_policy_kind kind, unsigned streams)
{
    struct err_note note;
    *s = (struct stage){ .f = fixture_new(fix_policy(kind)) };
    fake_clock_advance(&s->f->clock, 100 * NS_PER_S);
    const struct event_log_opts opts = { .engine = s->f->engine,
                                         .clock = &s->f->clock.clock,
                                         .random = 1,
                                         .limits = { .retention_ns = 1000 * HOUR,
                                                     .bytes_max = 1 << 20 } };
    assert_int_equal(event_log_new(&opts, &s->log, &note), ERR_OK);
    const struct event_follower follower = { stage_told, s, home_here() };
    event_log_follow(s->log, &follower);
    assert_int_equal(pages_append_to(s->f->pages, s->log, streams, 7), ERR_OK);
}

static void stage_end(struct stage *s)
{
    struct engine *engine = s->f->engine;
    assert_int_equal(event_log_check(engine, damage_found, NULL), ERR_OK);
    fixture_free(s->f);
    event_log_free(&s->log);
}

/* The text behind the first "NAME": up to the next quote, comma or brace. */
static str member_of(str json, const char *name)
{
    size_t at = str_find_str(json, str_of(name));
    assert_true(at < json.n);
    str rest = str_skip(json, at + strlen(name));
    size_t n = 0;
    while (n < rest.n && strchr("\",}", rest.p[n]) == NULL)
        n++;
    return str_take(rest, n);
}

/* What the event says that was superseded, with its tid. */
static void take_over(struct stage *s, str name, str rev, str bytes)
{
    static const char wanted[] = "\"superseded\":{";
    size_t at = str_find_str(bytes, str_of(wanted)), used = strlen(s->over);
    struct tid tid;
    if (at == bytes.n)
        return;
    str over = str_skip(bytes, at + strlen(wanted));
    assert_true(tid_parse(member_of(over, "\"tid\":\""), &tid));
    (void)snprintf(s->over + used, SEEN_BYTES - used, "%.*s %.*s over %.*s, ", STR_ARG(name),
                   STR_ARG(rev), STR_ARG(member_of(over, "\"rev_id\":")));
}

static void take(void *ctx, const struct event_seen *e, str bytes)
{
    struct stage *s = ctx;
    char shown[128];
    str id = member_of(bytes, "\"id\":\""), rev = member_of(bytes, "\"rev_id\":");
    str name = str_skip(e->stream, strlen("palimpsest."));
    bool dated = str_eq(name, STR("dated")), render = str_eq(name, STR("render"));
    assert_true(dated || render || str_eq(name, STR("gone")));
    assert_true(str_eq(member_of(bytes, "\"stream\":\""), e->stream));
    assert_true(str_eq(member_of(bytes, "\"domain\":\""), e->domain));
    assert_true(str_eq(member_of(bytes, "\"page_title\":\""), STR("T")));
    assert_int_equal(id.n, ID_BYTES);
    assert_true(s->ids_count < IDS_MAX);
    memcpy(s->ids[s->ids_count], id.p, ID_BYTES);
    for (unsigned i = 0; i < s->ids_count; i++)
        assert_string_not_equal(s->ids[i], s->ids[s->ids_count]);
    s->ids_count++;
    take_over(s, name, rev, bytes);
    str kind = render ? STR("") : member_of(bytes, "\"kind\":\"");
    bool shown_again = dated && str_eq(kind, STR("shown"));
    str last = dated && !shown_again ? member_of(bytes, "\"last_rev_id\":") : STR("");
    (void)snprintf(shown, sizeof shown, "%s%.*s %.*s%s%.*s%s%.*s", s->seen[0] == 0 ? "" : ", ",
                   STR_ARG(name), STR_ARG(rev), kind.n > 0 ? " " : "", STR_ARG(kind),
                   last.n > 0 ? " " : "", STR_ARG(last));
    assert_true(strlen(s->seen) + strlen(shown) < SEEN_BYTES);
    memcpy(s->seen + strlen(s->seen), shown, strlen(shown) + 1);
}

/* What is new in the log; the followers were told when something is. */
static void assert_seen(struct stage *s, const char *should)
{
    struct event_read r = {
        .after = s->after, .looks_max = 1000, .bytes_max = 1 << 20, .take = take, .ctx = s
    };
    s->seen[0] = s->over[0] = 0;
    assert_int_equal(event_log_read(s->log, &r), ERR_OK);
    s->after = r.after;
    assert_string_equal(s->seen, should);
    assert_int_equal(s->told > 0, should[0] != 0);
    s->told = 0;
}

static void puts_are_renders(void **state)
{
    (void)state;
    struct stage s;
    struct page_put p = { .stash_ns = 0 };
    stage_begin(&s, POLICY_LATEST, BIT(PAGE_STREAMS) - 1);
    fix_put(s.f, 1, 1);
    assert_seen(&s, "render 1");
    fix_put(s.f, 3, 2);
    assert_seen(&s, "render 3");
    fix_put(s.f, 2, 3);
    assert_seen(&s, "");
    assert_int_equal(fix_put_as(s.f, 4, 4, "the same", &p), ERR_OK);
    assert_int_equal(fix_put_as(s.f, 4, 4, "the same", &p), ERR_OK);
    assert_seen(&s, "render 4");
    assert_int_equal(fix_put_as(s.f, 4, 4, "another", &p), ERR_CONFLICT);
    engine_mem_refuse(s.f->engine, ERR_FULL);
    assert_int_equal(fix_put_as(s.f, 5, 5, "never", &p), ERR_FULL);
    engine_mem_refuse(s.f->engine, ERR_OK);
    assert_seen(&s, "");
    stage_end(&s);
}

static void hiding_and_purging_is_told(void **state)
{
    (void)state;
    struct stage s;
    struct page_order o = { .until = { .ns = 0 } };
    stage_begin(&s, POLICY_LATEST, BIT(PAGE_STREAMS) - 1);
    fix_put(s.f, 1, 1);
    fix_put(s.f, 2, 2);
    assert_seen(&s, "render 1, render 2");
    fake_clock_advance(&s.f->clock, NS_PER_S);
    assert_int_equal(fix_mark(s.f, (struct title_mark){ PAGE_SUPPRESSED, 2, 2, { 0 } }), ERR_OK);
    assert_seen(&s, "gone 2 hidden");
    const struct page_name third = fix_put(s.f, 3, 3);
    assert_seen(&s, "render 3");
    assert_int_equal(fix_order(s.f, ORDER_PURGE, third, &o), ERR_OK);
    assert_seen(&s, "gone 3 purged, render 1");
    fake_clock_advance(&s.f->clock, NS_PER_S);
    assert_int_equal(fix_mark(s.f, (struct title_mark){ PAGE_DELETED, 1, 1, { 0 } }), ERR_OK);
    assert_seen(&s, "gone 1 deleted");
    stage_end(&s);
}

static void culls_are_told(void **state)
{
    (void)state;
    struct stage s;
    stage_begin(&s, POLICY_APP_TTL, BIT(PAGE_STREAMS) - 1);
    for (unsigned rev = 1; rev <= 3; rev++)
        fix_put(s.f, rev, rev);
    assert_seen(&s, "render 1, render 2, render 3");
    fake_clock_advance(&s.f->clock, 2 * HOUR);
    fix_upkeep(s.f);
    assert_seen(&s, "gone 2 culled, gone 1 culled");
    stage_end(&s);
}

static void only_selected_streams_are_told(void **state)
{
    (void)state;
    struct stage s;
    stage_begin(&s, POLICY_APP_TTL, BIT(STREAM_GONE));
    for (unsigned rev = 1; rev <= 2; rev++)
        fix_put(s.f, rev, rev);
    assert_seen(&s, "");
    fake_clock_advance(&s.f->clock, 2 * HOUR);
    fix_upkeep(s.f);
    assert_seen(&s, "gone 1 culled");
    stage_end(&s);
    stage_begin(&s, POLICY_APP_TTL, 0);
    fix_put(s.f, 1, 1);
    assert_seen(&s, "");
    stage_end(&s);
}

static void other_streams_are_told_from_then_on(void **state)
{
    (void)state;
    struct stage s;
    stage_begin(&s, POLICY_APP_TTL, 0);
    fix_put(s.f, 1, 1);
    assert_seen(&s, "");
    pages_stream(s.f->pages, BIT(STREAM_RENDER));
    fix_put(s.f, 2, 2);
    assert_seen(&s, "render 2");
    pages_stream(s.f->pages, BIT(STREAM_RENDER) | BIT(STREAM_GONE));
    fix_put(s.f, 3, 3);
    fake_clock_advance(&s.f->clock, 2 * HOUR);
    fix_upkeep(s.f);
    assert_seen(&s, "render 3, gone 2 culled, gone 1 culled");
    unsigned told = s.told;
    pages_stream(s.f->pages, 0);
    fix_put(s.f, 4, 4);
    assert_seen(&s, "");
    assert_int_equal(s.told, told);
    stage_end(&s);
}

/* ---- what the wiki says ---- */

/* Touched so many seconds ago, and said now. */
static struct title_word word_of(const struct stage *s, uint64_t rev, int64_t touched_s)
{
    int64_t now_s = s->f->clock.now_ns / NS_PER_S;
    return (
        struct title_word){ .page_id = 3, .rev = rev, .touched = now_s - touched_s, .said = now_s };
}

static void hear_marked(struct stage *s, struct title_word w, const struct title_mark *marks,
                        unsigned count)
{
    struct page_hear h = { .marks = marks, .marks_count = count };
    assert_int_equal(fix_hear(s->f, &w, &h), ERR_OK);
}

static void hear(struct stage *s, struct title_word w)
{
    hear_marked(s, w, NULL, 0);
}

/* A render that the wiki made under that word, as a maker puts it. */
static void made_behind(struct stage *s, uint64_t rev, struct title_word under, const char *text,
                        uint64_t behind)
{
    under.asked_at.ns = s->f->clock.now_ns;
    struct page_put p = {
        .heeds = true, .word = &under, .said_at = under.asked_at, .behind = behind
    };
    assert_int_equal(fix_put_as(s->f, rev, -1, text, &p), ERR_OK);
}

static void made(struct stage *s, uint64_t rev, const char *text)
{
    made_behind(s, rev, word_of(s, rev, 50), text, 0);
}

static void pass_s(struct stage *s, int64_t seconds)
{
    fake_clock_advance(&s->f->clock, seconds * NS_PER_S);
}

static void a_newer_revision_dates_the_latest_once(void **state)
{
    (void)state;
    struct stage s;
    stage_begin(&s, POLICY_LATEST, BIT(PAGE_STREAMS) - 1);
    made(&s, 5, "five");
    assert_seen(&s, "render 5");
    pass_s(&s, 10);
    hear(&s, word_of(&s, 5, 60)); /* the same */
    assert_seen(&s, "");
    pass_s(&s, 10);
    hear(&s, word_of(&s, 6, 1));
    assert_seen(&s, "dated 5 revision 6");
    pass_s(&s, 10);
    hear(&s, word_of(&s, 6, 1));
    hear(&s, word_of(&s, 7, 0));
    assert_seen(&s, ""); /* it is dated already */
    pass_s(&s, 10);
    made_behind(&s, 7, word_of(&s, 7, 10), "seven", 0);
    assert_seen(&s, "render 7");
    pass_s(&s, 10);
    hear(&s, word_of(&s, 8, 1));
    assert_seen(&s, "dated 7 revision 8");
    stage_end(&s);
}

static void a_touch_dates_the_latest_until_it_is_made_anew(void **state)
{
    (void)state;
    struct stage s;
    stage_begin(&s, POLICY_LATEST, BIT(PAGE_STREAMS) - 1);
    made(&s, 5, "five");
    pass_s(&s, 10);
    hear(&s, word_of(&s, 5, 1));
    assert_seen(&s, "render 5, dated 5 touched 5");
    pass_s(&s, 10);
    hear(&s, word_of(&s, 5, 1));
    assert_seen(&s, "");
    made_behind(&s, 5, word_of(&s, 5, 1), "five", 0); /* anew, and equal */
    assert_seen(&s, "");
    pass_s(&s, 10);
    hear(&s, word_of(&s, 5, 1));
    assert_seen(&s, "dated 5 touched 5");
    stage_end(&s);
}

/* What was put by a client was made under no word: a touch says nothing of it. */
static void a_render_of_no_wiki_is_dated_by_a_revision_alone(void **state)
{
    (void)state;
    struct stage s;
    stage_begin(&s, POLICY_LATEST, BIT(PAGE_STREAMS) - 1);
    fix_put(s.f, 5, 5);
    hear(&s, word_of(&s, 5, 50));
    pass_s(&s, 10);
    hear(&s, word_of(&s, 5, 1));
    assert_seen(&s, "render 5");
    pass_s(&s, 10);
    hear(&s, word_of(&s, 6, 1));
    assert_seen(&s, "dated 5 revision 6");
    stage_end(&s);
}

/* The maker of a render heard of a newer revision, and no word came of it yet. */
static void what_is_superseded_by_an_unmade_revision_is_dated(void **state)
{
    (void)state;
    struct stage s;
    stage_begin(&s, POLICY_LATEST, BIT(PAGE_STREAMS) - 1);
    made(&s, 5, "five");
    pass_s(&s, 10);
    made_behind(&s, 5, word_of(&s, 5, 60), "five", 6);
    assert_seen(&s, "render 5, dated 5 revision 6");
    pass_s(&s, 10);
    hear(&s, word_of(&s, 6, 1));
    assert_seen(&s, "");
    made_behind(&s, 6, word_of(&s, 6, 1), "six", 0);
    assert_seen(&s, "render 6");
    pass_s(&s, 10);
    made_behind(&s, 7, word_of(&s, 6, 11), "seven", 8);
    assert_seen(&s, "dated 7 revision 8");
    pass_s(&s, 10);
    hear(&s, word_of(&s, 8, 1));
    assert_seen(&s, "");
    stage_end(&s);
}

static void events_say_what_was_superseded(void **state)
{
    (void)state;
    struct stage s;
    struct page_order o = { .until = { .ns = 0 } };
    stage_begin(&s, POLICY_APP_TTL, BIT(PAGE_STREAMS) - 1);
    fix_put(s.f, 1, 1);
    fix_put(s.f, 3, 2);
    fix_put(s.f, 2, 3); /* late: the latest stays */
    fix_put(s.f, 3, 4);
    fix_put(s.f, 4, 5);
    assert_seen(&s, "render 1, render 3, render 3, render 4");
    assert_string_equal(s.over, "render 3 over 1, render 3 over 3, render 4 over 3, ");
    assert_int_equal(fix_order(s.f, ORDER_PURGE, fix_put(s.f, 5, 6), &o), ERR_OK);
    assert_seen(&s, "render 5, gone 5 purged, render 4");
    assert_string_equal(s.over, "render 5 over 4, "); /* what comes back supersedes nothing */
    stage_end(&s);
}

/* By the word the latest is dated. It is superseded by a render, or by a maker's word of one. */
static void a_word_alone_supersedes_nothing(void **state)
{
    (void)state;
    struct stage s;
    stage_begin(&s, POLICY_LATEST, BIT(PAGE_STREAMS) - 1);
    made(&s, 5, "five");
    pass_s(&s, 10);
    hear(&s, word_of(&s, 6, 1));
    assert_seen(&s, "render 5, dated 5 revision 6");
    assert_string_equal(s.over, "");
    made_behind(&s, 6, word_of(&s, 6, 1), "six", 0);
    assert_seen(&s, "render 6");
    assert_string_equal(s.over, "render 6 over 5, ");
    pass_s(&s, 10);
    made_behind(&s, 6, word_of(&s, 6, 1), "six", 7);
    assert_seen(&s, "dated 6 revision 7");
    assert_string_equal(s.over, "dated 6 over 6, ");
    stage_end(&s);
}

/* The word was heard before: who knows the latest was told then. */
static void what_is_made_late_is_not_dated_once_more(void **state)
{
    (void)state;
    struct stage s;
    stage_begin(&s, POLICY_LATEST, BIT(PAGE_STREAMS) - 1);
    made(&s, 5, "five");
    pass_s(&s, 10);
    hear(&s, word_of(&s, 8, 1));
    assert_seen(&s, "render 5, dated 5 revision 8");
    made_behind(&s, 7, word_of(&s, 8, 1), "seven", 8);
    made_behind(&s, 6, word_of(&s, 8, 1), "six", 8);
    assert_seen(&s, "");
    made_behind(&s, 8, word_of(&s, 8, 1), "eight", 0);
    assert_seen(&s, "render 8");
    assert_string_equal(s.over, ""); /* so no timeline has 5 or 7 (docs/adr/0042) */
    stage_end(&s);
}

/* What a client put has no word. The first one comes with an older revision that is made. */
static void a_first_word_that_comes_with_a_render_dates_the_latest(void **state)
{
    (void)state;
    struct stage s;
    stage_begin(&s, POLICY_LATEST, BIT(PAGE_STREAMS) - 1);
    fix_put(s.f, 5, 5);
    assert_seen(&s, "render 5");
    pass_s(&s, 10);
    made_behind(&s, 3, word_of(&s, 8, 1), "three", 8);
    assert_seen(&s, "dated 5 revision 8");
    pass_s(&s, 10);
    hear(&s, word_of(&s, 8, 11));
    assert_seen(&s, "");
    made_behind(&s, 8, word_of(&s, 8, 11), "eight", 0);
    assert_seen(&s, "render 8");
    stage_end(&s);
}

static void a_page_that_comes_back_is_told(void **state)
{
    (void)state;
    struct stage s;
    stage_begin(&s, POLICY_LATEST, BIT(PAGE_STREAMS) - 1);
    made(&s, 5, "five");
    pass_s(&s, 10);
    hear(&s, (struct title_word){ .missing = true, .said = s.f->clock.now_ns / NS_PER_S });
    assert_seen(&s, "render 5, gone 5 deleted");
    pass_s(&s, 10);
    hear(&s, word_of(&s, 5, 70)); /* an undelete touches nothing */
    assert_seen(&s, "dated 5 shown, render 5");
    stage_end(&s);
}

static void a_text_that_is_shown_again_is_told(void **state)
{
    (void)state;
    struct stage s;
    const struct title_mark hidden = { PAGE_SUPPRESSED, 5, 5, { 0 } },
                            shown = { PAGE_CURRENT, 5, 5, { 0 } };
    stage_begin(&s, POLICY_LATEST, BIT(PAGE_STREAMS) - 1);
    made(&s, 5, "five");
    pass_s(&s, 10);
    made(&s, 6, "six");
    assert_seen(&s, "render 5, render 6");
    assert_int_equal(fix_mark(s.f, hidden), ERR_OK);
    assert_seen(&s, "gone 5 hidden");
    pass_s(&s, 10);
    assert_int_equal(fix_mark(s.f, shown), ERR_OK);
    assert_seen(&s, "dated 5 shown");
    assert_int_equal(fix_mark(s.f, shown), ERR_OK);
    assert_seen(&s, "");
    stage_end(&s);
}

/* The newest text is hidden, and then the one before it is all that is given: told by what went. */
static void what_is_left_when_the_latest_is_hidden_is_not_dated(void **state)
{
    (void)state;
    struct stage s;
    struct title_mark hidden = { PAGE_SUPPRESSED, 6, 6, { 0 } };
    stage_begin(&s, POLICY_LATEST, BIT(PAGE_STREAMS) - 1);
    made(&s, 5, "five");
    pass_s(&s, 10);
    made(&s, 6, "six");
    pass_s(&s, 10);
    assert_seen(&s, "render 5, render 6");
    hidden.said_at.ns = s.f->clock.now_ns;
    hear_marked(&s, word_of(&s, 7, 1), &hidden, 1);
    assert_seen(&s, "gone 6 hidden");
    stage_end(&s);
}

/* Its facts take more than one update, and the word is written with the last. */
static void a_word_with_many_marks_dates_the_latest_once(void **state)
{
    (void)state;
    struct stage s;
    struct title_mark hidden[6];
    stage_begin(&s, POLICY_LATEST, BIT(PAGE_STREAMS) - 1);
    for (unsigned i = 0; i < 7; i++)
        made(&s, i + 1, (const char[]){ (char)('a' + i), 0 });
    pass_s(&s, 10);
    for (unsigned i = 0; i < 6; i++)
        hidden[i] = (struct title_mark){ PAGE_SUPPRESSED, i + 1, i + 1, { s.f->clock.now_ns } };
    assert_seen(&s, "render 1, render 2, render 3, render 4, render 5, render 6, render 7");
    hear_marked(&s, word_of(&s, 8, 1), hidden, 6);
    assert_seen(&s, "gone 1 hidden, gone 2 hidden, gone 3 hidden, gone 4 hidden, gone 5 hidden, "
                    "gone 6 hidden, dated 7 revision 8");
    stage_end(&s);
}

static void a_word_that_is_not_selected_is_not_told(void **state)
{
    (void)state;
    struct stage s;
    stage_begin(&s, POLICY_LATEST, BIT(STREAM_DATED));
    made(&s, 5, "five");
    pass_s(&s, 10);
    hear(&s, word_of(&s, 6, 1));
    assert_seen(&s, "dated 5 revision 6");
    stage_end(&s);
    stage_begin(&s, POLICY_LATEST, BIT(STREAM_RENDER));
    made(&s, 5, "five");
    pass_s(&s, 10);
    hear(&s, word_of(&s, 6, 1));
    assert_seen(&s, "render 5");
    stage_end(&s);
}

/* A word that could not be written dates nothing; said again, it does. */
static void a_word_that_is_lost_is_told_when_it_is_heard(void **state)
{
    (void)state;
    struct stage s;
    stage_begin(&s, POLICY_LATEST, BIT(PAGE_STREAMS) - 1);
    made(&s, 5, "five");
    assert_seen(&s, "render 5");
    pass_s(&s, 10);
    struct title_word w = word_of(&s, 6, 1);
    struct page_hear h = { .marks_count = 0 };
    engine_mem_refuse(s.f->engine, ERR_FULL);
    assert_int_equal(fix_hear(s.f, &w, &h), ERR_FULL);
    engine_mem_refuse(s.f->engine, ERR_OK);
    assert_seen(&s, "");
    hear(&s, w);
    assert_seen(&s, "dated 5 revision 6");
    stage_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_newer_revision_dates_the_latest_once),
        cmocka_unit_test(a_touch_dates_the_latest_until_it_is_made_anew),
        cmocka_unit_test(a_render_of_no_wiki_is_dated_by_a_revision_alone),
        cmocka_unit_test(events_say_what_was_superseded),
        cmocka_unit_test(a_word_alone_supersedes_nothing),
        cmocka_unit_test(what_is_superseded_by_an_unmade_revision_is_dated),
        cmocka_unit_test(what_is_made_late_is_not_dated_once_more),
        cmocka_unit_test(a_first_word_that_comes_with_a_render_dates_the_latest),
        cmocka_unit_test(a_page_that_comes_back_is_told),
        cmocka_unit_test(a_text_that_is_shown_again_is_told),
        cmocka_unit_test(what_is_left_when_the_latest_is_hidden_is_not_dated),
        cmocka_unit_test(a_word_with_many_marks_dates_the_latest_once),
        cmocka_unit_test(a_word_that_is_not_selected_is_not_told),
        cmocka_unit_test(a_word_that_is_lost_is_told_when_it_is_heard),
        cmocka_unit_test(puts_are_renders),
        cmocka_unit_test(hiding_and_purging_is_told),
        cmocka_unit_test(culls_are_told),
        cmocka_unit_test(only_selected_streams_are_told),
        cmocka_unit_test(other_streams_are_told_from_then_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
