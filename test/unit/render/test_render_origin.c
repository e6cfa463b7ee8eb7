/* Goal: whatever an origin does, a render has one outcome that says so, in time; what it lies about
 * is not believed; what is safe is tried again, nothing else is. Method: an origin in this process
 * that answers each path from a table, or cuts, hangs, drips without end; the real client on a real
 * loop. */
#include "stage.h"

#include "../cmocka_all.h"
#include "../http/echo.h"
#include "base/buf.h"
#include "base/metrics.h"
#include "render/origin.h"

#include <stdlib.h>
#include <string.h>

static const struct origin_opts parsoid = { .kind = ORIGIN_PARSOID,
                                            .retries = 1,
                                            .reply_bytes_max = 1 << 20 };
static const char REST[] = "/w/rest.php";

static void the_newest_is_rendered(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        FINE_META, { .path = "pagebundle", .head = BUNDLE_HEAD("9"), .body = BUNDLE("9") }, { 0 }
    };
    struct stage *s = stage_new(&parsoid, REST, rules);
    struct wish w;
    wish_begin(&w, s, "A/B_c", 0);
    w.r.accept = STR("text/html; charset=utf-8; profile=\"https://x/Specs/HTML/2.4.0\"");
    w.r.accept_language = STR("en");
    w.r.cookie = STR("a=b");
    wish_now(&w, RENDER_FINE);
    assert_int_equal(w.r.meta.rev, 9);
    assert_true(render_is_latest(&w.r.meta));
    assert_int_equal(w.r.contents_count, 2);
    assert_true(str_starts(w.r.contents[0].raw, STR("<html about=")));
    assert_int_equal(w.r.redirect_to.n, 0);
    assert_int_equal(asked(s), 2);
    assert_int_equal(said(s, "GET /w/api.php?action=query&format=json&formatversion=2&prop="), 1);
    assert_int_equal(said(s, "&titles=%1FA%2FB_c HTTP/1.1"), 1);
    assert_int_equal(said(s, "GET /w/rest.php/wiki.example/v3/page/pagebundle/A%2FB_c/9 HTTP/1.1"),
                     1);
    assert_int_equal(
        said(s, "application/json; charset=utf-8; profile=\"https://x/Specs/pagebundle/2.4.0\""),
        1);
    assert_int_equal(said(s, "a=b"), 2);
    wish_end(&w);
    stage_free(s);
}

struct told {
    const char *name;
    struct rule rules[4];
    uint64_t rev;
    enum render_why why;
    unsigned requests;
};
static const struct told tolds[] = {
    { "revision",
      { FINE_META, TEXT(.head = BUNDLE_HEAD("9"), .body = BUNDLE("9")) },
      9,
      RENDER_FINE,
      2 },
    { "another title's",
      { { .path = "api", .head = "200 OK\r\n", .body = META("8", "") } },
      9,
      RENDER_FAILED,
      1 },
    { "unknown",
      { { .path = "api", .head = "200 OK\r\n", .body = "{\"query\":{\"badrevids\":{\"9\":{}}}}" } },
      9,
      RENDER_NO_REVISION,
      1 },
    { "hidden",
      { { .path = "api", .head = "200 OK\r\n", .body = META("9", ",\"texthidden\":true") } },
      9,
      RENDER_SUPPRESSED,
      1 },
    { "there and 404",
      { FINE_META, TEXT(.head = "404 Not Found\r\n", .body = "{}") },
      9,
      RENDER_FAILED,
      2 },
    { "there and 404 as newest",
      { FINE_META, TEXT(.head = "404 Not Found\r\n", .body = "{}") },
      0,
      RENDER_FAILED,
      2 },
    { "api away",
      { { .path = "api", .head = "404 Not Found\r\n", .body = "" } },
      9,
      RENDER_FAILED,
      1 },
    { "api of HTML",
      { { .path = "api", .head = "200 OK\r\n", .body = "<html>" } },
      9,
      RENDER_FAILED,
      1 },
    { "refused",
      { FINE_META, TEXT(.head = "406 Not Acceptable\r\n", .body = "") },
      0,
      RENDER_REFUSED,
      2 },
    { "busy",
      { FINE_META, TEXT(.head = "429 Too Many Requests\r\nRetry-After: 7\r\n") },
      0,
      RENDER_BUSY,
      2 },
    { "busy by its own word",
      { { .path = "api",
          .head = "200 OK\r\nRetry-After: 7\r\n",
          .body = "{\"error\":{\"code\":\"maxlag\"}}" } },
      0,
      RENDER_BUSY,
      1 },
    { "elsewhere",
      { FINE_META, TEXT(.head = "302 Found\r\nLocation: http://127.0.0.1:1/\r\n") },
      0,
      RENDER_FAILED,
      2 },
    { "created",
      { FINE_META, TEXT(.head = "201 Created\r\n", .body = BUNDLE("9")) },
      0,
      RENDER_FAILED,
      2 },
    { "once 500",
      { FINE_META, TEXT(.head = "500 Oops\r\n", .times = 1),
        TEXT(.head = BUNDLE_HEAD("9"), .body = BUNDLE("9")) },
      0,
      RENDER_FINE,
      3 },
    { "always 500", { FINE_META, TEXT(.head = "500 Oops\r\n") }, 0, RENDER_FAILED, 3 },
    { "always 502", { { .path = "api", .head = "502 Bad\r\n" } }, 0, RENDER_FAILED, 2 },
    { "always 501", { FINE_META, TEXT(.head = "501 Oops\r\n") }, 0, RENDER_FAILED, 2 },
    { "once cut",
      { FINE_META, TEXT(.act = ACT_CUT, .head = BUNDLE_HEAD("9"), .body = BUNDLE("9"), .times = 1),
        TEXT(.head = BUNDLE_HEAD("9"), .body = BUNDLE("9")) },
      0,
      RENDER_FINE,
      3 },
    { "always cut",
      { FINE_META, TEXT(.act = ACT_CUT, .head = BUNDLE_HEAD("9"), .body = BUNDLE("9")) },
      0,
      RENDER_FAILED,
      3 },
    { "endless",
      { FINE_META, TEXT(.act = ACT_ENDLESS, .head = BUNDLE_HEAD("9")) },
      0,
      RENDER_LIMIT,
      2 },
    { "other revision",
      { FINE_META, TEXT(.head = BUNDLE_HEAD("8"), .body = BUNDLE("9")) },
      0,
      RENDER_FAILED,
      2 },
    { "other head",
      { FINE_META, TEXT(.head = BUNDLE_HEAD("9"), .body = BUNDLE("8")) },
      0,
      RENDER_FAILED,
      2 },
    { "both other",
      { FINE_META, TEXT(.head = BUNDLE_HEAD("8"), .body = BUNDLE("8")) },
      0,
      RENDER_FAILED,
      2 },
    { "other type",
      { FINE_META, TEXT(.head = "200 OK\r\nContent-Type: text/html\r\n", .body = BUNDLE("9")) },
      0,
      RENDER_FAILED,
      2 },
    { "no type",
      { FINE_META, TEXT(.head = "200 OK\r\n", .body = BUNDLE("9")) },
      0,
      RENDER_FAILED,
      2 },
    { "half JSON",
      { FINE_META, TEXT(.head = BUNDLE_HEAD("9"), .body = "{\"html\":") },
      0,
      RENDER_FAILED,
      2 },
    { "no revision",
      { FINE_META,
        TEXT(.head = "200 OK\r\nContent-Type: application/json\r\n", .body = BUNDLE("x")) },
      0,
      RENDER_FAILED,
      2 },
};

/* The sum of all lines that begin so. */
static uint64_t sum_of(struct metrics *m, const char *begin)
{
    struct buf b;
    uint64_t sum = 0, value;
    buf_init(&b, 1 << 20);
    metrics_render(m, &b);
    for (str rest = buf_str(&b); rest.p != NULL;) {
        str line = str_split(&rest, '\n');
        size_t n = line.n;
        while (n > 0 && line.p[n - 1] != ' ')
            n--;
        if (str_starts(line, str_of(begin)) && str_to_u64(str_skip(line, n), &value))
            sum += value;
    }
    buf_fini(&b);
    return sum;
}

/* Each request is counted once, whatever came of it, and nothing stays open. */
static void assert_measured(struct metrics *m, const struct origin_stats *stats)
{
    assert_int_equal(sum_of(m, "origin_requests_total{"), stats->requests);
    assert_int_equal(sum_of(m, "origin_request_seconds_count{"), stats->requests);
    assert_int_equal(sum_of(m, "origin_retries_total{"), stats->retries);
    assert_int_equal(sum_of(m, "origin_open_requests{"), 0);
    assert_int_equal(sum_of(m, "origin_renders_making{") + sum_of(m, "origin_renders_waiting{"), 0);
}

static void each_answer_has_its_outcome(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(tolds); i++) {
        struct metrics *m = metrics_new("");
        struct origin_metrics *all = origin_metrics_new(m);
        struct stage *s = stage_new(&parsoid, REST, tolds[i].rules);
        struct wish w;
        origin_measure(s->origin, all, STR("a.test"));
        print_message("%s\n", tolds[i].name);
        wish_begin(&w, s, "A/B_c", tolds[i].rev);
        wish_now(&w, tolds[i].why);
        assert_int_equal(asked(s), tolds[i].requests);
        struct origin_stats stats;
        origin_stats_get(s->origin, &stats);
        assert_int_equal(stats.requests + stats.retries, tolds[i].requests);
        assert_int_equal(stats.making + stats.waiting, 0);
        assert_measured(m, &stats);
        assert_int_equal(w.r.retry_after_s, tolds[i].why == RENDER_BUSY ? 7 : 0);
        wish_end(&w);
        stage_free(s);
        origin_metrics_free(&all);
        metrics_free(&m);
    }
}

static void an_origin_that_is_down_is_told(void **state)
{
    (void)state;
    static const struct rule none[] = { { 0 } };
    struct stage *s = stage_new(&parsoid, REST, none);
    rogue_stop(&s->rogue);
    struct wish w;
    wish_begin(&w, s, "A", 0);
    wish_now(&w, RENDER_FAILED);
    wish_end(&w);
    stage_free(s);
}

static void an_origin_that_hangs_is_left(void **state)
{
    (void)state;
    static const struct rule rules[] = { { .path = "api", .act = ACT_HANG }, { 0 } };
    struct origin_opts brief = parsoid;
    brief.timeout_ms = 30;
    struct stage *s = stage_new(&brief, REST, rules);
    struct wish w;
    wish_begin(&w, s, "A/B_c", 0);
    wish_now(&w, RENDER_TIMEOUT);
    assert_true(asked(s) <= 1); /* not asked again */
    wish_end(&w);
    stage_free(s);
    s = stage_new(&parsoid, REST, rules);
    wish_begin(&w, s, "A/B_c", 0);
    w.r.deadline = mono_add_ms(clock_mono(echo_clock()), 30);
    wish_now(&w, RENDER_TIMEOUT);
    wish_end(&w);
    stage_free(s);
}

/* ---- cancel ---- */

struct canceler {
    struct wish *wish;
    struct loop_timer *timer;
    unsigned after;
};

static void cancel_when_asked(void *ctx)
{
    struct canceler *c = ctx;
    struct stage *s = c->wish->stage;
    if (rogue_requests(s->rogue) < c->after)
        return;
    render_cancel(&c->wish->r);
    render_cancel(&c->wish->r);
    loop_timer_free(&c->timer);
}

static void a_canceled_render_is_done_once(void **state)
{
    (void)state;
    static const struct rule hangs[] = { { .path = "api", .act = ACT_HANG }, { 0 } };
    static const struct rule text_hangs[] = { FINE_META, TEXT(.act = ACT_HANG), { 0 } };
    static const struct rule fails[] = { FINE_META, TEXT(.head = "500 Oops\r\n"), { 0 } };
    static const struct rule *const all[] = { hangs, text_hangs, fails };
    struct origin_opts patient = parsoid;
    patient.retries = 100000;
    for (unsigned i = 0; i < COUNT_OF(all); i++) {
        struct stage *s = stage_new(&patient, REST, all[i]);
        struct wish w;
        wish_begin(&w, s, "A/B_c", 0);
        struct canceler c = { .wish = &w, .after = i == 0 ? 1 : 2 };
        c.timer = loop_timer_new(s->asker.loop, cancel_when_asked, &c);
        loop_timer_start(c.timer, 1, 1);
        wish_now(&w, RENDER_CANCELED);
        wish_end(&w);
        stage_free(s);
    }
}

static void a_stopped_client_ends_all(void **state)
{
    (void)state;
    static const struct rule hangs[] = { { .path = "api", .act = ACT_HANG }, { 0 } };
    struct stage *s = stage_new(&parsoid, REST, hangs);
    struct wish w;
    wish_begin(&w, s, "A", 0);
    wish_start(&w);
    http_client_stop(s->asker.client);
    asker_run(&s->asker);
    assert_int_equal(w.why, RENDER_CANCELED);
    wish_end(&w);
    wish_begin(&w, s, "A", 0);
    wish_now(&w, RENDER_CANCELED);
    wish_end(&w);
    stage_free(s);
}

static void a_full_arena_is_told(void **state)
{
    (void)state;
    static const struct rule rules[] = { FINE_META,
                                         TEXT(.head = BUNDLE_HEAD("9"), .body = BUNDLE("9")),
                                         { 0 } };
    struct stage *s = stage_new(&parsoid, REST, rules);
    bool fine = false;
    for (size_t bytes = 0; !fine; bytes += bytes < 256 ? 64 : 512) {
        struct wish w;
        wish_begin(&w, s, "A/B_c", 0);
        w.arena.bytes_max = bytes;
        wish_start(&w);
        asker_run(&s->asker);
        assert_int_equal(w.dones, 1);
        fine = w.why == RENDER_FINE;
        assert_true(fine || w.why == RENDER_LIMIT || w.why == RENDER_BUSY);
        assert_true(bytes < 1 << 20);
        wish_end(&w);
    }
    stage_free(s);
}

/* ---- waiting for others ---- */

static void cancel_now(void *ctx)
{
    struct wish *w = ctx;
    render_cancel(&w->r);
}

static void who_waits_for_others_runs_out_of_time_or_leaves(void **state)
{
    (void)state;
    static const struct rule hangs[] = { { .path = "api", .act = ACT_HANG }, { 0 } };
    struct origin_opts one = parsoid;
    one.concurrency = 1;
    struct stage *s = stage_new(&one, REST, hangs);
    struct wish first, brief, gone;
    wish_begin(&first, s, "A/B_c", 0);
    wish_begin(&brief, s, "A/B_c", 0);
    wish_begin(&gone, s, "A/B_c", 0);
    brief.r.deadline = mono_add_ms(clock_mono(echo_clock()), 20);
    wish_start(&first);
    wish_start(&brief);
    wish_start(&gone);
    loop_post(s->asker.loop, cancel_now, &gone);
    struct canceler c = { .wish = &first, .after = 1 };
    c.timer = loop_timer_new(s->asker.loop, cancel_when_asked, &c);
    loop_timer_start(c.timer, 200, 1);
    asker_run(&s->asker);
    assert_int_equal(first.why, RENDER_CANCELED);
    assert_int_equal(brief.why, RENDER_TIMEOUT);
    assert_int_equal(gone.why, RENDER_CANCELED);
    assert_int_equal(first.dones + brief.dones + gone.dones, 3);
    assert_int_equal(asked(s), 1); /* who waited was never asked for */
    wish_end(&first);
    wish_end(&brief);
    wish_end(&gone);
    stage_free(s);
}

static void wish_meta(struct wish *w, struct stage *s, const char *title)
{
    wish_begin(w, s, title, 0);
    w->r.want = WANT_META;
}

struct held {
    struct wish *first, *late, *render;
    struct loop_timer *timer;
};

static void cancel_when_others_are_done(void *ctx)
{
    struct held *h = ctx;
    if (h->late->dones == 0 || h->render->dones == 0)
        return;
    render_cancel(&h->first->r);
    loop_timer_free(&h->timer);
}

/* What hangs fills the one place for metadata that is beside two for renders. */
static void metadata_has_its_own_turns_and_is_in_nobodys_way(void **state)
{
    (void)state;
    static const struct rule rules[] = { { .path = "%1FHangs", .act = ACT_HANG },
                                         FINE_META,
                                         TEXT(.head = BUNDLE_HEAD("9"), .body = BUNDLE("9")),
                                         { 0 } };
    struct origin_opts two = parsoid;
    two.concurrency = 2;
    struct stage *s = stage_new(&two, REST, rules);
    struct wish first, late, render;
    wish_meta(&first, s, "Hangs");
    wish_meta(&late, s, "A/B_c");
    late.r.deadline = mono_add_ms(clock_mono(echo_clock()), 20);
    wish_begin(&render, s, "A/B_c", 0);
    wish_start(&first);
    wish_start(&late);
    wish_start(&render);
    struct held h = { .first = &first, .late = &late, .render = &render };
    h.timer = loop_timer_new(s->asker.loop, cancel_when_others_are_done, &h);
    loop_timer_start(h.timer, 1, 1);
    asker_run(&s->asker);
    assert_int_equal(first.why, RENDER_CANCELED);
    assert_int_equal(late.why, RENDER_TIMEOUT);
    assert_int_equal(render.why, RENDER_FINE);
    assert_true(asked(s) <= 3); /* nobody asked for late */
    wish_end(&first);
    wish_end(&late);
    wish_end(&render);
    stage_free(s);
}

/* Two wikis on one host, which has room for one request: each has every second turn. */
static void wikis_of_one_host_take_turns(void **state)
{
    (void)state;
    enum { OF_BUSY = 6 };
    static const struct rule rules[] = { FINE_META,
                                         TEXT(.head = BUNDLE_HEAD("9"), .body = BUNDLE("9")),
                                         { 0 } };
    struct stage *s = stage_new(&parsoid, REST, rules);
    struct limiter *limiter = http_client_limiter(s->asker.client);
    struct origin_opts other = *origin_opts_of(s->origin);
    struct origin *quiet;
    struct err_note note;
    other.domain = "quiet.example";
    assert_int_equal(
        origin_new(s->asker.client, s->asker.loop, echo_clock(), &other, &quiet, &note), ERR_OK);
    limiter_limit(limiter, LIMITER_ORIGIN, render_source(quiet, WANT_RENDER),
                  (struct limiter_limits){ .running_max = 1 });
    struct wish busy[OF_BUSY], of_quiet[2];
    for (unsigned i = 0; i < OF_BUSY; i++) {
        wish_begin(&busy[i], s, "A/B_c", 9);
        wish_start(&busy[i]);
    }
    for (unsigned i = 0; i < 2; i++) {
        wish_begin(&of_quiet[i], s, "A/B_c", 9);
        of_quiet[i].r.origin = quiet;
        wish_start(&of_quiet[i]);
    }
    asker_run(&s->asker);
    for (unsigned i = 0; i < OF_BUSY; i++) {
        assert_int_equal(busy[i].why, RENDER_FINE);
        wish_end(&busy[i]);
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(of_quiet[i].why, RENDER_FINE);
        assert_true(of_quiet[i].order <= 2 * i + 3); /* replies are parsed by two threads */
        wish_end(&of_quiet[i]);
    }
    rogue_stop(&s->rogue); /* its threads are gone: their count may be read */
    assert_int_equal(s->open_max, 1);
    origin_free(&quiet);
    stage_free(s);
}

struct crowd {
    struct wish *wishes;
    unsigned count;
};

static void cancel_crowd(void *ctx)
{
    struct crowd *c = ctx;
    for (unsigned i = 0; i < c->count; i++)
        render_cancel(&c->wishes[i].r);
}

static void a_flood_of_metadata_is_refused_beyond_its_bound(void **state)
{
    (void)state;
    enum { IN = 1, FLOOD = IN + ORIGIN_METAS_WAITING_MAX + 3 };
    static const struct rule hangs[] = { { .path = "api", .act = ACT_HANG }, { 0 } };
    struct origin_opts one = parsoid;
    one.concurrency = 1;
    struct stage *s = stage_new(&one, REST, hangs);
    struct crowd crowd = { .wishes = calloc(FLOOD, sizeof *crowd.wishes), .count = FLOOD - 3 };
    assert_non_null(crowd.wishes);
    for (unsigned i = 0; i < FLOOD; i++) {
        wish_meta(&crowd.wishes[i], s, "A/B_c");
        wish_start(&crowd.wishes[i]);
    }
    loop_post(s->asker.loop, cancel_crowd, &crowd);
    asker_run(&s->asker);
    for (unsigned i = 0; i < FLOOD; i++) {
        assert_int_equal(crowd.wishes[i].why, i < crowd.count ? RENDER_CANCELED : RENDER_BUSY);
        assert_int_equal(crowd.wishes[i].dones, 1);
        wish_end(&crowd.wishes[i]);
    }
    free(crowd.wishes);
    stage_free(s);
}

/* ---- many ---- */

enum { MISSES = 1000, AT_ONCE = 4 };

static void a_thousand_misses_come_few_at_a_time(void **state)
{
    (void)state;
    static const struct rule rules[] = { FINE_META,
                                         TEXT(.head = BUNDLE_HEAD("9"), .body = BUNDLE("9")),
                                         { 0 } };
    struct origin_opts few = parsoid;
    few.concurrency = AT_ONCE;
    struct stage *s = stage_new(&few, REST, rules);
    struct wish *wishes = calloc(MISSES, sizeof *wishes);
    assert_non_null(wishes);
    for (unsigned i = 0; i < MISSES; i++) {
        wish_begin(&wishes[i], s, "A/B_c", i % 2 == 0 ? 9 : 0);
        wish_start(&wishes[i]);
    }
    asker_run(&s->asker);
    for (unsigned i = 0; i < MISSES; i++) {
        assert_int_equal(wishes[i].why, RENDER_FINE);
        assert_int_equal(wishes[i].dones, 1);
        wish_end(&wishes[i]);
    }
    assert_int_equal(rogue_requests(s->rogue), 2 * MISSES);
    rogue_stop(&s->rogue); /* its threads are gone: their count may be read */
    assert_true(s->open_max <= AT_ONCE);
    free(wishes);
    stage_free(s);
}

/* What a host may have at once. */
static unsigned host_running_max(const struct stage *s)
{
    return limiter_limits_of(http_client_limiter(s->asker.client), LIMITER_ORIGIN,
                             render_source(s->origin, WANT_RENDER))
        .running_max;
}

/* Renders, half as many transforms and metadata, siteinfo. */
static unsigned all_of(unsigned concurrency)
{
    return concurrency + 2 * ((concurrency + 1) / 2) + 1;
}

static void limits(struct origin *a, unsigned of_a, struct origin *b, unsigned of_b)
{
    const struct origin_opts opts[] = { { .concurrency = of_a }, { .concurrency = of_b } };
    origins_limit((const struct origin_limit[]){ { a, &opts[0] }, { b, &opts[1] } }, 2);
}

static void a_host_may_have_what_the_domain_that_wants_most_may(void **state)
{
    (void)state;
    static const struct rule rules[] = { { 0 } };
    struct stage *s = stage_new(&parsoid, REST, rules);
    struct origin_opts other = *origin_opts_of(s->origin);
    struct origin *quiet;
    other.domain = "quiet.example";
    other.concurrency = 20;
    assert_int_equal(origin_new(s->asker.client, s->asker.loop, echo_clock(), &other, &quiet, NULL),
                     ERR_OK);
    assert_int_equal(host_running_max(s), all_of(20));
    limits(s->origin, 3, quiet, 5);
    assert_int_equal(host_running_max(s), all_of(5));
    assert_int_equal(origin_opts_of(s->origin)->concurrency, 3);
    limits(s->origin, 30, quiet, 2);
    assert_int_equal(host_running_max(s), all_of(30));
    origin_free(&quiet);
    stage_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_is_rendered),
        cmocka_unit_test(each_answer_has_its_outcome),
        cmocka_unit_test(an_origin_that_is_down_is_told),
        cmocka_unit_test(an_origin_that_hangs_is_left),
        cmocka_unit_test(a_canceled_render_is_done_once),
        cmocka_unit_test(a_stopped_client_ends_all),
        cmocka_unit_test(a_full_arena_is_told),
        cmocka_unit_test(who_waits_for_others_runs_out_of_time_or_leaves),
        cmocka_unit_test(metadata_has_its_own_turns_and_is_in_nobodys_way),
        cmocka_unit_test(wikis_of_one_host_take_turns),
        cmocka_unit_test(a_flood_of_metadata_is_refused_beyond_its_bound),
        cmocka_unit_test(a_thousand_misses_come_few_at_a_time),
        cmocka_unit_test(a_host_may_have_what_the_domain_that_wants_most_may),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
