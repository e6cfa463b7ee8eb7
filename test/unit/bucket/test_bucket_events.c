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
    char seen[SEEN_BYTES]; /* "render 1, gone 1 culled" */
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
    const struct event_log_opts opts = { .engine = s->f->engine,
                                         .clock = &s->f->clock.clock,
                                         .random = 1,
                                         .retention_ns = 1000 * HOUR,
                                         .bytes_max = 1 << 20 };
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

static void take(void *ctx, const struct event_seen *e, str bytes)
{
    struct stage *s = ctx;
    char shown[128];
    str id = member_of(bytes, "\"id\":\""), rev = member_of(bytes, "\"rev_id\":");
    bool gone = str_eq(e->stream, STR("palimpsest.gone"));
    assert_true(gone || str_eq(e->stream, STR("palimpsest.render")));
    assert_true(str_eq(member_of(bytes, "\"stream\":\""), e->stream));
    assert_true(str_eq(member_of(bytes, "\"domain\":\""), e->domain));
    assert_true(str_eq(member_of(bytes, "\"page_title\":\""), STR("T")));
    assert_int_equal(id.n, ID_BYTES);
    assert_true(s->ids_count < IDS_MAX);
    memcpy(s->ids[s->ids_count], id.p, ID_BYTES);
    for (unsigned i = 0; i < s->ids_count; i++)
        assert_string_not_equal(s->ids[i], s->ids[s->ids_count]);
    s->ids_count++;
    str kind = gone ? member_of(bytes, "\"kind\":\"") : STR("");
    (void)snprintf(shown, sizeof shown, "%s%s %.*s%s%.*s", s->seen[0] == 0 ? "" : ", ",
                   gone ? "gone" : "render", STR_ARG(rev), gone ? " " : "", STR_ARG(kind));
    assert_true(strlen(s->seen) + strlen(shown) < SEEN_BYTES);
    memcpy(s->seen + strlen(s->seen), shown, strlen(shown) + 1);
}

/* What is new in the log; the followers were told when something is. */
static void assert_seen(struct stage *s, const char *should)
{
    struct event_read r = {
        .after = s->after, .looks_max = 1000, .bytes_max = 1 << 20, .take = take, .ctx = s
    };
    s->seen[0] = 0;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puts_are_renders),
        cmocka_unit_test(hiding_and_purging_is_told),
        cmocka_unit_test(culls_are_told),
        cmocka_unit_test(only_selected_streams_are_told),
        cmocka_unit_test(other_streams_are_told_from_then_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
