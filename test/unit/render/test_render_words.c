/* Goal: words are one call whose outcome says what there is to be done, and no render is in their
 * way. Method: as test_render_origin; replies as MediaWiki 1.39 gave them. */
#include "stage.h"

#include "../cmocka_all.h"
#include "../http/echo.h"
#include "base/buf.h"
#include "base/metrics.h"
#include "render/api_words.h"
#include "sites.h"
#include "words_said.h"

#include <stdlib.h>
#include <string.h>

static const struct origin_opts parsoid = { .kind = ORIGIN_PARSOID,
                                            .retries = 1,
                                            .reply_bytes_max = 1 << 20 };
static const char REST[] = "/w/rest.php";

#define RULES                                                                                      \
    {                                                                                              \
        .path = "meta=siteinfo", .head = "200 OK\r\n", .body = SITE_JSON("de")                     \
    }
#define WORDS(...)                                                                                 \
    {                                                                                              \
        .path = "/w/api.php", __VA_ARGS__                                                          \
    }
#define FINE WORDS(.head = "200 OK\r\n", .body = SAID_TITLES)

/* ---- questions ---- */

struct question {
    struct words_request r;
    struct stage *stage;
    struct arena arena;
    struct words_title titles[WORDS_MAX];
    struct words_revision revisions[WORDS_MAX];
    enum render_why why;
    unsigned dones;
};

static void question_done(struct words_request *r, enum render_why why)
{
    struct question *q = r->ctx;
    loop_assert_here(q->stage->asker.loop);
    q->why = why;
    q->dones++;
    if (--q->stage->asker.left == 0)
        loop_stop(q->stage->asker.loop);
}

static void question_begin(struct question *q, struct stage *s)
{
    *q = (struct question){ .stage = s };
    arena_init(&q->arena, 8 << 20);
    q->titles[0].title = STR("Plain_page");
    q->r = (struct words_request){ .origin = s->origin,
                                   .words = { .titles = q->titles, .titles_count = 1 },
                                   .deadline = mono_add_ms(clock_mono(echo_clock()), WAIT_MS),
                                   .arena = &q->arena,
                                   .done = question_done,
                                   .ctx = q };
}

static void question_start(struct question *q)
{
    q->stage->asker.left++;
    words_start(&q->r);
}

static void question_check(struct question *q, enum render_why why)
{
    assert_int_equal(q->dones, 1);
    if (q->why != why)
        fail_msg("%s (%s) instead of %s", render_why_name(q->why), q->r.note.text,
                 render_why_name(why));
    assert_int_equal(why == RENDER_FINE, q->r.note.text[0] == 0);
    assert_int_equal(why == RENDER_FINE, q->r.words.said_s > 0);
    assert_true(why == RENDER_FINE || q->titles[0].state == WORDS_TITLE_UNANSWERED);
    assert_true(why == RENDER_BUSY || q->r.retry_after_s == 0);
}

static void question_now(struct question *q, enum render_why why)
{
    question_start(q);
    asker_run(&q->stage->asker);
    question_check(q, why);
}

static void question_end(struct question *q)
{
    arena_fini(&q->arena);
}

/* Of a wiki whose rules are known. */
static struct stage *stage_words(const struct origin_opts *opts, const struct rule *rules)
{
    struct stage *s = stage_new(opts, REST, rules);
    struct curious c;
    curious_start(&c, s, WAIT_MS);
    asker_run(&s->asker);
    assert_int_equal(c.why, RENDER_FINE);
    return s;
}

/* Requests but for the one for the rules. */
static unsigned asked_words(struct stage *s)
{
    return asked(s) - said(s, "meta=siteinfo");
}

static char *digits(char *at, unsigned n)
{
    *at++ = (char)('0' + n / 10);
    *at++ = (char)('0' + n % 10);
    return at;
}

/* WORDS_MAX titles, "00..." and so on, of so many bytes. */
static void ask_long(struct question *q, size_t bytes)
{
    for (unsigned i = 0; i < WORDS_MAX; i++) {
        char *title = arena_alloc(&q->arena, bytes);
        assert_non_null(title);
        memset(digits(title, i), 'x', bytes - 2);
        q->titles[i].title = (str){ .p = title, .n = bytes };
    }
    q->r.words.titles_count = WORDS_MAX;
}

/* What the wiki says to ask_long: all are missing. */
static char *say_long(const struct question *q)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    buf_put(&b, STR("{\"curtimestamp\":\"2026-11-26T13:07:37Z\",\"query\":{\"pages\":["));
    for (unsigned i = 0; i < WORDS_MAX; i++)
        buf_printf(&b, "%s{\"ns\":0,\"title\":\"%.*s\",\"missing\":true}", i > 0 ? "," : "",
                   STR_ARG(q->titles[WORDS_MAX - 1 - i].title));
    buf_put(&b, STR("]}}"));
    char *text = strndup(b.p, b.n);
    assert_non_null(text);
    buf_fini(&b);
    return text;
}

/* ---- one call ---- */

static unsigned counted(struct metrics *m, const char *line)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    metrics_render(m, &b);
    buf_put_c(&b, 0);
    bool has = strstr(b.p, line) != NULL;
    buf_fini(&b);
    return has;
}

static void words_of_titles_and_of_revisions_are_one_get_each(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        RULES,
        { .path = "prop=info", .head = "200 OK\r\n", .body = SAID_TITLES },
        { .path = "prop=revisions", .head = "200 OK\r\n", .body = SAID_REVISIONS },
        { 0 }
    };
    struct metrics *m = metrics_new("");
    struct origin_metrics *all = origin_metrics_new(m);
    struct stage *s = stage_new(&parsoid, REST, rules);
    struct curious c;
    struct question q;
    origin_measure(s->origin, all, STR("a.test"));
    curious_start(&c, s, WAIT_MS);
    asker_run(&s->asker);
    question_begin(&q, s);
    q.titles[1].title = STR("Way");
    q.r.words.titles_count = 2;
    question_now(&q, RENDER_FINE);
    assert_int_equal(q.titles[0].rev, 3);
    assert_int_equal(q.titles[1].rev, 5);
    question_end(&q);
    question_begin(&q, s);
    q.revisions[0].rev = 7;
    q.r.words = (struct words){ .revisions = q.revisions, .revisions_count = 1 };
    question_now(&q, RENDER_FINE);
    assert_int_equal(q.revisions[0].state, WORDS_REVISION_HIDDEN);
    question_end(&q);
    assert_int_equal(asked_words(s), 2);
    assert_int_equal(said(s, "GET /w/api.php?action=query&format=json&formatversion=2&curtimestamp="
                             "1&maxlag=5&" WIKI_NEWEST_QUERY
                             "&prop=info&titles=%1FPlain_page%1FWay HTTP/1.1\r\n"),
                     1);
    assert_int_equal(said(s, "prop=revisions&rvprop=ids%7Csha1&revids=7 HTTP/1.1\r\n"), 1);
    assert_int_equal(said(s, "ookie:"), 0);
    assert_true(counted(m, "kind=\"word\",outcome=\"fine\",domain=\"a.test\"} 1\n"));
    assert_true(counted(m, "kind=\"revisions\",outcome=\"fine\",domain=\"a.test\"} 1\n"));
    stage_free(s);
    origin_metrics_free(&all);
    metrics_free(&m);
}

static void a_long_question_is_a_post_that_promises_to_write_nothing(void **state)
{
    (void)state;
    struct question q;
    struct rule rules[] = { RULES,
                            { .path = "POST /w/api.php HTTP", .head = "200 OK\r\n" },
                            { 0 } };
    struct stage *s = stage_words(&parsoid, (const struct rule[]){ RULES, { 0 } });
    question_begin(&q, s);
    ask_long(&q, 255);
    char *said_all = say_long(&q);
    rules[1].body = said_all;
    memcpy(s->rules, rules, sizeof rules);
    question_now(&q, RENDER_FINE);
    for (unsigned i = 0; i < WORDS_MAX; i++)
        assert_int_equal(q.titles[i].state, WORDS_TITLE_MISSING);
    assert_int_equal(asked_words(s), 1);
    assert_int_equal(said(s, "promise-non-write-api-action: true\r\n"), 1);
    assert_int_equal(said(s, "content-type: application/x-www-form-urlencoded\r\n"), 1);
    assert_int_equal(said(s, "\r\n\r\naction=query&format=json&formatversion=2&curtimestamp=1&"),
                     1);
    assert_int_equal(said(s, "%1F49xxx"), 1);
    assert_int_equal(said(s, "ookie:"), 0);
    question_end(&q);
    stage_free(s);
    free(said_all);
}

/* To the byte. */
static void the_longest_get_is_as_long_as_stated(void **state)
{
    (void)state;
    static const struct rule rules[] = { RULES, FINE, { 0 } };
    struct stage *s = stage_words(&parsoid, rules);
    for (size_t more = 0; more <= 1; more++) {
        struct question q;
        question_begin(&q, s);
        str query = api_words_query(&q.arena, &q.r.words);
        str url = origin_api_url(s->origin, &q.arena, query);
        size_t bytes = q.titles[0].title.n + WORDS_URL_BYTES_MAX - url.n + more;
        char *title = arena_alloc(&q.arena, bytes);
        assert_non_null(title);
        memset(title, 'x', bytes);
        q.titles[0].title = (str){ .p = title, .n = bytes };
        question_now(&q, RENDER_FINE);
        assert_int_equal(said(s, "GET /w/api.php?action=query&format=json&formatversion=2&curtim"),
                         1);
        assert_int_equal(said(s, "POST "), more);
        question_end(&q);
    }
    stage_free(s);
}

static void a_get_that_is_too_long_after_all_is_asked_by_post(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        RULES,
        { .path = "GET ", .head = "414 Too Long\r\n" },
        { .path = "POST ", .head = "200 OK\r\n", .body = SAID_TITLES },
        { 0 }
    };
    static const struct rule never[] = { RULES, WORDS(.head = "414 Too Long\r\n"), { 0 } };
    struct stage *s = stage_words(&parsoid, rules);
    struct question q;
    question_begin(&q, s);
    question_now(&q, RENDER_FINE);
    assert_int_equal(q.titles[0].state, WORDS_TITLE_THERE);
    assert_int_equal(asked_words(s), 2);
    assert_int_equal(said(s, "&titles=%1FPlain_page"), 2);
    question_end(&q);
    stage_free(s);
    s = stage_words(&parsoid, never);
    question_begin(&q, s);
    question_now(&q, RENDER_REFUSED);
    assert_int_equal(asked_words(s), 2);
    question_end(&q);
    stage_free(s);
}

static void a_reply_for_other_titles_says_nothing(void **state)
{
    (void)state;
    static const struct rule rules[] = { RULES, FINE, { 0 } };
    struct stage *s = stage_words(&parsoid, rules);
    struct question q;
    question_begin(&q, s);
    q.titles[0].title = STR("Elsewhere");
    q.titles[1].title = STR("Way");
    q.r.words.titles_count = 2;
    question_now(&q, RENDER_FINE);
    assert_int_equal(q.titles[0].state, WORDS_TITLE_UNANSWERED);
    assert_int_equal(q.titles[1].state, WORDS_TITLE_THERE);
    question_end(&q);
    stage_free(s);
}

/* Without the rules a word is had all the same, and they are asked for. */
static void words_ask_for_rules_that_are_not_known(void **state)
{
    (void)state;
    static const struct rule rules[] = { RULES, FINE, { 0 } };
    struct stage *s = stage_new(&parsoid, REST, rules);
    struct question q;
    struct curious c;
    question_begin(&q, s);
    question_now(&q, RENDER_FINE);
    assert_int_equal(q.titles[0].state, WORDS_TITLE_THERE);
    question_end(&q);
    curious_start(&c, s, WAIT_MS);
    asker_run(&s->asker);
    assert_int_equal(c.why, RENDER_FINE);
    assert_int_equal(said(s, "meta=siteinfo"), 1);
    stage_free(s);
}

/* ---- failures ---- */

#define DENIED_REPLY(status)                                                                       \
    WORDS(.head = status "\r\nContent-Type: application/json\r\n", .body = SAID_DENIED)

static const struct told {
    const char *name;
    struct rule rule;
    enum render_why why;
    unsigned requests;
    int64_t retry_after_s;
} tolds[] = {
    { "408", WORDS(.head = "408 Slow\r\n"), RENDER_BUSY, 1, 0 },
    { "425", WORDS(.head = "425 Early\r\nRetry-After: 3\r\n"), RENDER_BUSY, 1, 3 },
    { "429", WORDS(.head = "429 Many\r\nRetry-After: 70\r\n"), RENDER_BUSY, 1, 70 },
    { "503", WORDS(.head = "503 Off\r\nRetry-After: 600\r\n"), RENDER_BUSY, 1, 600 },
    { "until long ago", WORDS(.head = "503 Off\r\nRetry-After: Mon, 01 Jan 1680 00:00:00 GMT\r\n"),
      RENDER_BUSY, 1, 0 },
    { "lagging",
      WORDS(.head = "200 OK\r\nRetry-After: 5\r\nX-Database-Lag: 7\r\n", .body = SAID_MAXLAG),
      RENDER_BUSY, 1, 5 },
    { "limited", WORDS(.head = "200 OK\r\n", .body = "{\"error\":{\"code\":\"ratelimited\"}}"),
      RENDER_BUSY, 1, 0 },
    { "closed", DENIED_REPLY("200 OK"), RENDER_DENIED, 1, 0 },
    { "closed by status", DENIED_REPLY("403 Forbidden"), RENDER_DENIED, 1, 0 },
    { "a guard before it", WORDS(.head = "403 Forbidden\r\n", .body = "<html>"), RENDER_REFUSED, 1,
      0 },
    { "a password before it", WORDS(.head = "401 Who\r\n", .body = ""), RENDER_REFUSED, 1, 0 },
    { "400", WORDS(.head = "400 Bad\r\n"), RENDER_REFUSED, 1, 0 },
    { "too many", WORDS(.head = "200 OK\r\n", .body = SAID_TOO_MANY), RENDER_REFUSED, 1, 0 },
    { "404", WORDS(.head = "404 Not Found\r\nRetry-After: 9\r\n"), RENDER_FAILED, 1, 0 },
    { "redirected", WORDS(.head = "302 Found\r\nLocation: /\r\n"), RENDER_FAILED, 1, 0 },
    { "501", WORDS(.head = "501 Oops\r\n"), RENDER_FAILED, 1, 0 },
    { "500 always", WORDS(.head = "500 Oops\r\n"), RENDER_FAILED, 2, 0 },
    { "no JSON", WORDS(.head = "200 OK\r\n", .body = "<html>"), RENDER_FAILED, 1, 0 },
    { "no instant", WORDS(.head = "200 OK\r\n", .body = "{\"query\":{\"pages\":[]}}"),
      RENDER_FAILED, 1, 0 },
    { "cut always", WORDS(.act = ACT_CUT, .head = "200 OK\r\n", .body = SAID_TITLES), RENDER_FAILED,
      2, 0 },
    { "endless", WORDS(.act = ACT_ENDLESS, .head = "200 OK\r\n"), RENDER_LIMIT, 1, 0 },
    { "500 once", WORDS(.head = "500 Oops\r\n", .times = 1), RENDER_FINE, 2, 0 },
    { "502 once", WORDS(.head = "502 Oops\r\n", .times = 1), RENDER_FINE, 2, 0 },
    { "cut once", WORDS(.act = ACT_CUT, .head = "200 OK\r\n", .body = SAID_TITLES, .times = 1),
      RENDER_FINE, 2, 0 },
};

static void each_answer_has_its_outcome(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * COUNT_OF(tolds); i++) {
        const struct told *t = &tolds[i / 2];
        bool post = i % 2 == 1;
        struct rule rules[] = { RULES, t->rule, FINE, { 0 } };
        struct stage *s = stage_words(&parsoid, rules);
        struct question q;
        print_message("%s, %s\n", t->name, post ? "POST" : "GET");
        question_begin(&q, s);
        if (post)
            ask_long(&q, 200);
        question_now(&q, t->why);
        assert_int_equal(asked_words(s), t->requests);
        assert_int_equal(said(s, "POST "), post ? t->requests : 0);
        assert_int_equal(q.r.retry_after_s, t->retry_after_s);
        question_end(&q);
        stage_free(s);
    }
}

static void a_wiki_that_hangs_or_is_down_is_left(void **state)
{
    (void)state;
    static const struct rule rules[] = { RULES, WORDS(.act = ACT_HANG), { 0 } };
    struct stage *s = stage_words(&parsoid, rules);
    struct question q;
    question_begin(&q, s);
    q.r.deadline = mono_add_ms(clock_mono(echo_clock()), 30);
    question_now(&q, RENDER_TIMEOUT);
    question_end(&q);
    rogue_stop(&s->rogue);
    question_begin(&q, s);
    question_now(&q, RENDER_FAILED);
    question_end(&q);
    stage_free(s);
}

static void an_origin_without_api_has_no_words(void **state)
{
    (void)state;
    static const struct rule none[] = { { 0 } };
    struct origin_opts template = { .kind = ORIGIN_TEMPLATE };
    struct stage *s = stage_new(&template, "/{title}/{rev}", none);
    struct question q;
    question_begin(&q, s);
    question_now(&q, RENDER_REFUSED);
    assert_int_equal(asked(s), 0);
    question_end(&q);
    stage_free(s);
}

static void a_full_arena_is_told(void **state)
{
    (void)state;
    static const struct rule rules[] = { RULES, FINE, { 0 } };
    struct stage *s = stage_words(&parsoid, rules);
    bool fine = false;
    for (size_t bytes = 0; !fine; bytes += bytes < 1024 ? 64 : 512) {
        struct question q;
        question_begin(&q, s);
        q.arena.bytes_max = bytes;
        question_start(&q);
        asker_run(&s->asker);
        fine = q.why == RENDER_FINE;
        assert_true(fine || q.why == RENDER_LIMIT || q.why == RENDER_BUSY);
        question_check(&q, q.why);
        assert_true(bytes < 1 << 20);
        question_end(&q);
    }
    stage_free(s);
}

/* ---- turns and cancels ---- */

struct crowd {
    struct stage *stage;
    struct question *questions;
    struct wish *wishes;
    unsigned questions_count, wishes_count;
    unsigned after; /* requests */
    struct loop_timer *timer;
};

static void crowd_cancel(void *ctx)
{
    struct crowd *c = ctx;
    if (asked_words(c->stage) < c->after)
        return;
    for (unsigned i = 0; i < 2 * c->questions_count; i++) /* twice is once */
        words_cancel(&c->questions[i / 2].r);
    for (unsigned i = 0; i < c->wishes_count; i++)
        render_cancel(&c->wishes[i].r);
    loop_timer_free(&c->timer);
}

static void crowd_cancel_later(struct crowd *c)
{
    c->timer = loop_timer_new(c->stage->asker.loop, crowd_cancel, c);
    loop_timer_start(c->timer, 1, 1);
}

static void few_words_are_asked_at_once_and_a_flood_is_refused(void **state)
{
    (void)state;
    enum { ROOM = WORDS_AT_ONCE + ORIGIN_WORDS_WAITING_MAX, FLOOD = ROOM + 3 };
    static const struct rule rules[] = { RULES, WORDS(.act = ACT_HANG), { 0 } };
    struct stage *s = stage_words(&parsoid, rules);
    struct question *q = calloc(FLOOD, sizeof *q);
    assert_non_null(q);
    struct crowd c = {
        .stage = s, .questions = q, .questions_count = ROOM, .after = WORDS_AT_ONCE
    };
    for (unsigned i = 0; i < FLOOD; i++) {
        question_begin(&q[i], s);
        if (i == WORDS_AT_ONCE)
            q[i].r.deadline = clock_mono(echo_clock());
        question_start(&q[i]);
    }
    crowd_cancel_later(&c);
    asker_run(&s->asker);
    for (unsigned i = 0; i < FLOOD; i++) {
        question_check(&q[i], i >= ROOM            ? RENDER_BUSY
                              : i == WORDS_AT_ONCE ? RENDER_TIMEOUT
                                                   : RENDER_CANCELED);
        question_end(&q[i]);
    }
    assert_int_equal(asked_words(s), WORDS_AT_ONCE); /* who waited was never asked for */
    free(q);
    stage_free(s);
}

/* Renders of other domains fill their host. */
static void words_do_not_wait_behind_renders(void **state)
{
    (void)state;
    enum { DOMAINS = 6, EACH = 3 };
    static const struct rule rules[] = {
        RULES,
        { .path = "prop=info&", .head = "200 OK\r\n", .body = SAID_TITLES },
        WORDS(.act = ACT_HANG),
        { 0 }
    };
    static const char *const names[DOMAINS] = { "a.test", "b.test", "c.test",
                                                "d.test", "e.test", "f.test" };
    struct origin_opts one = parsoid;
    one.concurrency = 1;
    struct stage *s = stage_words(&one, rules);
    struct origin_opts other = *origin_opts_of(s->origin);
    struct origin *others[DOMAINS];
    struct wish wishes[DOMAINS * EACH];
    for (unsigned i = 0; i < DOMAINS; i++) {
        other.domain = names[i];
        assert_int_equal(origin_new(s->asker.client, s->asker.loop, echo_clock(), &other,
                                    &others[i], NULL),
                         ERR_OK);
    }
    limiter_limit(http_client_limiter(s->asker.client), LIMITER_ORIGIN,
                  render_source(s->origin, WANT_RENDER),
                  (struct limiter_limits){ .running_max = DOMAINS - 1 });
    for (unsigned i = 0; i < DOMAINS * EACH; i++) {
        wish_begin(&wishes[i], s, "A/B_c", 0);
        wishes[i].r.origin = others[i % DOMAINS];
        wish_start(&wishes[i]);
    }
    struct question q;
    struct crowd c = {
        .stage = s, .wishes = wishes, .wishes_count = DOMAINS * EACH, .after = DOMAINS
    };
    question_begin(&q, s);
    q.r.origin = others[0];
    question_start(&q);
    crowd_cancel_later(&c); /* when the host has its fill of renders, and the word */
    asker_run(&s->asker);
    question_check(&q, RENDER_FINE);
    assert_int_equal(said(s, "prop=info&titles"), 1);
    assert_int_equal(asked_words(s), DOMAINS);
    for (unsigned i = 0; i < DOMAINS * EACH; i++) {
        assert_int_equal(wishes[i].why, RENDER_CANCELED);
        wish_end(&wishes[i]);
    }
    question_end(&q);
    mono until = mono_add_ms(clock_mono(echo_clock()), WAIT_MS);
    for (unsigned i = 0; i < DOMAINS; i++) {
        while (!origin_idle(others[i])) { /* its rules were asked for */
            assert_true(clock_mono(echo_clock()).ns < until.ns);
            loop_post(s->asker.loop, (void (*)(void *))loop_stop, s->asker.loop);
            loop_run(s->asker.loop);
        }
        origin_free(&others[i]);
    }
    stage_free(s);
}

static void a_canceled_question_is_done_once(void **state)
{
    (void)state;
    static const struct rule hangs[] = { RULES, WORDS(.act = ACT_HANG), { 0 } };
    static const struct rule fails[] = { RULES, WORDS(.head = "500 Oops\r\n"), { 0 } };
    static const struct rule *const all[] = { hangs, fails };
    struct origin_opts patient = parsoid;
    patient.retries = 100000;
    for (unsigned i = 0; i < COUNT_OF(all); i++) {
        struct stage *s = stage_words(&patient, all[i]);
        struct question q;
        struct crowd c = { .stage = s, .questions = &q, .questions_count = 1, .after = 1 };
        question_begin(&q, s);
        crowd_cancel_later(&c);
        question_now(&q, RENDER_CANCELED);
        question_end(&q);
        stage_free(s);
    }
    struct stage *s = stage_words(&patient, hangs);
    struct question q;
    question_begin(&q, s);
    question_start(&q);
    http_client_stop(s->asker.client);
    asker_run(&s->asker);
    question_check(&q, RENDER_CANCELED);
    question_end(&q);
    stage_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_titles_and_of_revisions_are_one_get_each),
        cmocka_unit_test(a_long_question_is_a_post_that_promises_to_write_nothing),
        cmocka_unit_test(the_longest_get_is_as_long_as_stated),
        cmocka_unit_test(a_get_that_is_too_long_after_all_is_asked_by_post),
        cmocka_unit_test(a_reply_for_other_titles_says_nothing),
        cmocka_unit_test(words_ask_for_rules_that_are_not_known),
        cmocka_unit_test(each_answer_has_its_outcome),
        cmocka_unit_test(a_wiki_that_hangs_or_is_down_is_left),
        cmocka_unit_test(an_origin_without_api_has_no_words),
        cmocka_unit_test(a_full_arena_is_told),
        cmocka_unit_test(few_words_are_asked_at_once_and_a_flood_is_refused),
        cmocka_unit_test(words_do_not_wait_behind_renders),
        cmocka_unit_test(a_canceled_question_is_done_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
