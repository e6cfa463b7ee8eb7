/* Goal: a rule of effect timeline notes each supersession once, samples by domain, loses nothing
 * when an update fails, and its entries go by age. Method: all of change on a stage (stage.h), with
 * events as the store writes them, and the timeline read behind it. */
#include "stage.h"

#include "../bucket/engine_mem.h"
#include "../event/append_wait.h"
#include "change/explain.h"
#include "unit/cmocka_all.h"

#include <stdio.h>
#include <string.h>

#define TID "00000000-0000-1000-8000-0000000000"
#define RULE(more)                                                                                 \
    "rules: { hook: { match: { stream: [palimpsest.render, palimpsest.dated] }, effect: "          \
    "timeline" more " } }"

enum { SEEN_BYTES = 4096 };
static struct page_domain domains[] = { { .name = { "a", 1 }, .number = 3 },
                                        { .name = { "b", 1 }, .number = 9 },
                                        { .name = { "c", 1 }, .number = 7 } };

static void open_it(struct stage *s, const char *rules)
{
    stage_open(s, rules);
    s->page.domains = domains;
    s->page.domains_count = COUNT_OF(domains);
}

static void tell(struct stage *s, const char *stream, const char *domain, const char *json)
{
    struct event_taken taken;
    const struct event e = { .stream = str_of(stream),
                             .domain = str_of(domain),
                             .bytes = str_of(json) };
    fake_clock_advance(&s->clock, NS_PER_MS);
    assert_int_equal(append_wait(s->events, &e, 1, &taken), ERR_OK);
}

/* rev of a title took the place of old. tid: two digits, of what was superseded. */
static void tell_render(struct stage *s, const char *domain, const char *title, unsigned rev,
                        unsigned old, unsigned tid)
{
    char json[1024];
    (void)snprintf(json, sizeof json,
                   "{\"bucket\":\"page\",\"page_title\":\"%s\",\"rev_id\":%u,\"tid\":\"" TID
                   "ff\",\"superseded\":{\"rev_id\":%u,\"tid\":\"" TID "%02u\"}}",
                   title, rev, old, tid); /* it fits */
    tell(s, "palimpsest.render", domain, json);
}

static char seen[SEEN_BYTES];
static bool entry_see(void *ctx, const struct timeline_where *w, const struct timeline_entry *e)
{
    size_t n = strlen(seen);
    (void)ctx;
    (void)snprintf(seen + n, sizeof seen - n, "%u %.*s %s %u", w->domain, STR_ARG(w->title),
                   timeline_kind_name(w->kind), (unsigned)e->rev);
    n = strlen(seen);
    if (w->kind == TIMELINE_RENDER)
        (void)snprintf(seen + n, sizeof seen - n, ".%x", (unsigned)(e->tid.low & 0xff));
    n = strlen(seen);
    (void)snprintf(seen + n, sizeof seen - n, ", ");
    return strlen(seen) + 64 < sizeof seen;
}

static const char *entries(struct stage *s)
{
    struct timeline_listing l = {
        .kind = -1, .before = STORE_TIME_NEVER, .limit = TIMELINE_LIST_MAX, .take = entry_see
    };
    seen[0] = '\0';
    struct engine_view *v = engine_view_begin(s->engine);
    assert_int_equal(timeline_list(v, &l), ERR_OK);
    engine_view_end(&v);
    return seen;
}

static uint64_t count(struct stage *s, uint32_t domain)
{
    uint64_t n = 0;
    struct engine_view *v = engine_view_begin(s->engine);
    assert_int_equal(timeline_count(v, TIMELINE_REVISION, domain, &n), ERR_OK);
    engine_view_end(&v);
    return n;
}

static struct change_rule_status status_of(struct stage *s)
{
    struct arena a;
    struct change_status status;
    arena_init(&a, 1 << 20);
    assert_int_equal(change_status_get(s->change, &a, &status), ERR_OK);
    assert_int_equal(status.rules_count, 1);
    struct change_rule_status own = status.rules[0];
    arena_fini(&a);
    return own;
}

static void what_was_superseded_is_noted(void **state)
{
    (void)state;
    struct stage s;
    open_it(&s, RULE(""));
    change_start(s.change);
    tell_render(&s, "b", "M", 2, 1, 1);
    tell_render(&s, "b", "M", 2, 2, 2);
    tell_render(&s, "a", "M", 5, 3, 3);
    stage_calm(&s);
    assert_string_equal(entries(&s), "3 M revision 3, 9 M revision 1, 9 M render 2.2, ");
    tell(&s, "palimpsest.render", "a", "{\"page_title\":\"N\",\"rev_id\":1,\"tid\":\"" TID "01\"}");
    tell(&s, "palimpsest.dated", "a",
         "{\"page_title\":\"O\",\"rev_id\":4,\"kind\":\"revision\",\"last_rev_id\":5,"
         "\"superseded\":{\"rev_id\":4,\"tid\":\"" TID "04\"}}");
    tell(&s, "palimpsest.gone", "a",
         "{\"page_title\":\"P\",\"rev_id\":4,\"superseded\":{\"rev_id\":4,\"tid\":\"" TID "04\"}}");
    tell_render(&s, "unknown", "M", 5, 3, 3);
    tell(&s, "palimpsest.render", "a",
         "{\"page_title\":\"Q\",\"rev_id\":4,\"superseded\":{\"rev_id\":\"x\",\"tid\":\"y\"}}");
    stage_calm(&s);
    assert_string_equal(entries(&s),
                        "3 M revision 3, 3 O revision 4, 9 M revision 1, 9 M render 2.2, ");
    struct change_rule_status r = status_of(&s);
    assert_int_equal(r.matched, 7);
    assert_int_equal(r.done, 4);
    assert_int_equal(r.ignored, 1);
    assert_int_equal(r.refused, 2);
    assert_int_equal(stage_items(&s, "hook", -1), 0); /* it needs no items */
    stage_close(&s);
}

static void explained(struct stage *s, const char *why)
{
    struct arena a;
    struct err_note note;
    struct event_figures f;
    struct change_explanation e;
    arena_init(&a, 64 << 20);
    assert_int_equal(event_log_figures(s->events, &f), ERR_OK);
    assert_int_equal(change_explain(s->change, f.last, &a, &e, &note), ERR_OK);
    assert_int_equal(e.count, 1);
    assert_true(e.rules[0].matches);
    assert_null(e.rules[0].item);
    if (str_find_str(e.rules[0].why, str_of(why)) == e.rules[0].why.n)
        fail_msg("%.*s", STR_ARG(e.rules[0].why));
    arena_fini(&a);
}

/* It has no sampler before the router's first turn, and whoever asks takes no token. */
static void an_entry_is_explained_without_taking_a_token(void **state)
{
    (void)state;
    struct stage s;
    open_it(&s, RULE(", burst: 1, rate_per_s: 0.000001"));
    tell_render(&s, "a", "M", 2, 1, 1);
    explained(&s, "not seen it yet");
    change_start(s.change);
    stage_calm(&s);
    explained(&s, "timeline ls shows it");
    tell_render(&s, "b", "M", 2, 1, 1);
    for (unsigned i = 0; i < 3; i++)
        explained(&s, "not seen it yet");
    stage_calm(&s);
    assert_string_equal(entries(&s), "3 M revision 1, 9 M revision 1, ");
    tell_render(&s, "unknown", "M", 2, 1, 1);
    stage_calm(&s);
    explained(&s, "its domain is not configured, or");
    tell(&s, "palimpsest.render", "a", "{\"page_title\":\"N\",\"rev_id\":1,\"tid\":\"" TID "01\"}");
    stage_calm(&s);
    explained(&s, "nothing was superseded");
    stage_close(&s);
}

#define HOOK "rules: { hook: { match: { stream: \"*\" }, effect: http, url: \"$T/{title}\" } }"

static void items_of_a_rule_with_another_effect_by_now_are_noted_or_dropped(void **state)
{
    (void)state;
    static const char *const by_now[] = {
        RULE(""), "rules: { hook: { match: { stream: \"*\" }, effect: drop } }"
    };
    for (unsigned i = 0; i < COUNT_OF(by_now); i++) {
        struct stage s;
        struct err_note note;
        open_it(&s, HOOK);
        assert_int_equal(change_pause(s.change, STR("hook"), true, &note), ERR_OK);
        change_start(s.change);
        tell_render(&s, "a", "M", 2, 1, 1);
        stage_calm(&s);
        assert_int_equal(stage_items(&s, "hook", -1), 1);
        stage_take(&s, by_now[i]);
        assert_int_equal(change_pause(s.change, STR("hook"), false, &note), ERR_OK);
        stage_calm(&s);
        assert_int_equal(stage_items(&s, "hook", -1), 0);
        assert_string_equal(entries(&s), i == 0 ? "3 M revision 1, " : "");
        assert_int_equal(status_of(&s).dropped, i);
        assert_int_equal(status_of(&s).died, 0);
        stage_close(&s);
    }
}

static void two_buckets_tell_of_one_supersession(void **state)
{
    (void)state;
    struct stage s;
    open_it(&s, RULE(", burst: 1, rate_per_s: 0.001"));
    change_start(s.change);
    tell_render(&s, "a", "M", 2, 1, 1);
    tell_render(&s, "a", "M", 2, 1, 2); /* in the same batch */
    stage_calm(&s);
    tell_render(&s, "a", "M", 2, 1, 1);
    stage_calm(&s);
    assert_string_equal(entries(&s), "3 M revision 1, ");
    struct change_rule_status r = status_of(&s);
    assert_int_equal(r.done, 1);
    assert_int_equal(r.collapsed, 2);
    assert_int_equal(r.sampled, 0);
    tell_render(&s, "a", "M", 3, 2, 1);
    tell_render(&s, "a", "M", 3, 2, 1); /* what was left out once stays so */
    stage_calm(&s);
    assert_int_equal(status_of(&s).sampled, 2);
    stage_close(&s);
}

static void a_busy_domain_is_sampled_and_a_quiet_one_is_not(void **state)
{
    (void)state;
    struct stage s;
    open_it(&s, RULE(", burst: 5, rate_per_s: 0.1"));
    change_start(s.change);
    for (unsigned i = 0; i < 3000; i++) { /* 3,000 in 300 s */
        tell_render(&s, "a", "M", i + 2, i + 1, 1);
        fake_clock_advance(&s.clock, 99 * NS_PER_MS);
        if (i % 600 == 0)
            tell_render(&s, "b", "M", i + 2, i + 1, 1);
    }
    stage_calm(&s);
    assert_int_equal(count(&s, 9), 5);
    assert_true(count(&s, 3) >= 34 && count(&s, 3) <= 36);
    struct change_rule_status r = status_of(&s);
    assert_int_equal(r.sampled + r.done, 3005);
    stage_close(&s);
}

/* What was sampled before the failure has the same verdict behind it. */
static void an_update_that_fails_loses_no_entry_and_no_token(void **state)
{
    (void)state;
    struct stage s;
    open_it(&s, RULE(", burst: 3, rate_per_s: 0.000001"));
    tell_render(&s, "a", "M", 2, 1, 1);
    tell_render(&s, "a", "M", 3, 2, 1);
    tell_render(&s, "a", "M", 4, 3, 1);
    tell_render(&s, "a", "M", 5, 4, 1);
    engine_mem_refuse(s.engine, ERR_FULL);
    change_start(s.change);
    stage_calm(&s);
    assert_string_equal(entries(&s), "");
    engine_mem_refuse(s.engine, ERR_OK);
    stage_later(&s, CHANGE_AGAIN_MS);
    assert_string_equal(entries(&s), "3 M revision 1, 3 M revision 2, 3 M revision 3, ");
    stage_close(&s);
}

static void a_restart_goes_on_behind_what_is_noted(void **state)
{
    (void)state;
    struct stage s;
    open_it(&s, RULE(""));
    change_start(s.change);
    tell_render(&s, "a", "M", 2, 1, 1);
    stage_calm(&s);
    stage_reopen(&s, RULE(", ttl: 7d"));
    tell_render(&s, "a", "M", 3, 2, 1);
    change_start(s.change);
    stage_calm(&s);
    assert_string_equal(entries(&s), "3 M revision 1, 3 M revision 2, ");
    assert_int_equal(status_of(&s).done, 1);
    stage_close(&s);
}

static bool is_replayed(struct stage *s)
{
    return !status_of(s).replaying && s->change->busy == 0;
}

/* A rule that is new sees no events of before; a replay fills the timeline by their own instants.
 */
static void a_replay_fills_the_timeline_and_doubles_nothing(void **state)
{
    (void)state;
    struct stage s;
    struct err_note note;
    open_it(&s, NULL);
    change_start(s.change);
    for (unsigned i = 1; i <= 20; i++) {
        tell_render(&s, "a", "M", i + 1, i, 1);
        fake_clock_advance(&s.clock, 10 * NS_PER_S);
    }
    stage_take(&s, RULE(", burst: 1, rate_per_s: 0.1"));
    tell_render(&s, "a", "M", 100, 99, 1);
    stage_calm(&s);
    assert_int_equal(count(&s, 3), 1);
    for (unsigned times = 0; times < 2; times++) {
        assert_int_equal(change_replay(s.change, STR("hook"), STORE_TIME_ZERO, &note), ERR_OK);
        stage_until(&s, is_replayed);
        assert_int_equal(count(&s, 3), 21);
    }
    stage_close(&s);
}

static void entries_go_by_age(void **state)
{
    (void)state;
    struct stage s;
    open_it(&s, RULE(", ttl: 1h, burst: 2000"));
    change_start(s.change);
    for (unsigned i = 0; i < TIMELINE_EXPIRE_MAX + 200; i++)
        tell_render(&s, "a", "M", i + 2, i + 1, 1);
    stage_calm(&s);
    fake_clock_advance(&s.clock, 1800 * NS_PER_S);
    tell_render(&s, "b", "M", 2, 1, 1);
    stage_calm(&s);
    assert_int_equal(count(&s, 3), TIMELINE_EXPIRE_MAX + 200);
    stage_later(&s, 1801 * 1000);
    assert_int_equal(count(&s, 3), 0);
    assert_int_equal(count(&s, 9), 1);
    assert_int_equal(status_of(&s).expired, TIMELINE_EXPIRE_MAX + 200);
    stage_take(&s, NULL); /* without a rule, as by the default */
    stage_later(&s, 3600 * 1000);
    assert_int_equal(count(&s, 9), 1);
    stage_later(&s, (int64_t)30 * 86400 * 1000);
    assert_int_equal(count(&s, 9), 0);
    stage_close(&s);
}

static bool is_empty(struct stage *s)
{
    return count(s, 3) == 0;
}

/* By itself, in steps, while the loop runs. */
static void age_is_looked_at_while_nothing_else_happens(void **state)
{
    (void)state;
    struct stage s;
    open_it(&s, RULE(", ttl: 1h, burst: 2000"));
    for (unsigned i = 0; i < TIMELINE_EXPIRE_MAX + 200; i++)
        tell_render(&s, "a", "M", i + 2, i + 1, 1);
    change_start(s.change);
    stage_calm(&s);
    fake_clock_advance(&s.clock, 3700 * NS_PER_S);
    stage_reopen(&s, RULE(", ttl: 1h"));
    change_start(s.change);
    stage_calm(&s);
    assert_int_equal(count(&s, 3), 200); /* one step */
    fake_clock_advance(&s.clock, CHANGE_EXPIRE_MORE_MS * NS_PER_MS);
    stage_until(&s, is_empty);
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_superseded_is_noted),
        cmocka_unit_test(an_entry_is_explained_without_taking_a_token),
        cmocka_unit_test(items_of_a_rule_with_another_effect_by_now_are_noted_or_dropped),
        cmocka_unit_test(two_buckets_tell_of_one_supersession),
        cmocka_unit_test(a_busy_domain_is_sampled_and_a_quiet_one_is_not),
        cmocka_unit_test(an_update_that_fails_loses_no_entry_and_no_token),
        cmocka_unit_test(a_restart_goes_on_behind_what_is_noted),
        cmocka_unit_test(a_replay_fills_the_timeline_and_doubles_nothing),
        cmocka_unit_test(entries_go_by_age),
        cmocka_unit_test(age_is_looked_at_while_nothing_else_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
