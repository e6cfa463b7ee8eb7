/* Goal: what is missing is taken from the secondary, once, under its name, below all that is known
 * here; what can be no render is none; one that fails is left alone. Method: a service on a real
 * store (stage.h) and a source that gives what the test says; contents alone, as values. */
#include "page/secondary.h"
#include "stage.h"

#include "base/metrics.h"
#include "loop/loop.h"

#include <stdlib.h>
#include <string.h>

#define TYPE "content-type: text/html\n"
#define KEPT "<html>there"

/* ---- a source ---- */

struct shelf {
    struct secondary_source source;
    struct stage *stage;
    struct metrics *metrics;
    struct awaited step;
    /* what it gives from here on */
    err why;
    uint64_t rev, newest;
    struct tid tid;
    bool unready;
    const char *headers, *value;
    bool holds; /* until it is told otherwise */
    /* what it was asked; loop */
    struct secondary_read *held;
    atomic_uint asked, released;
    struct secondary_read last;
};

static bool shelf_ready(struct secondary_source *s)
{
    return !CONTAINER_OF(s, struct shelf, source)->unready;
}

static void shelf_answer(void *ctx)
{
    struct secondary_read *r = ctx;
    struct shelf *f = CONTAINER_OF(r->source, struct shelf, source);
    bool another = r->select != SELECT_LATEST && r->name.rev != f->rev;
    r->why = f->why == ERR_OK && another ? ERR_NOT_FOUND : f->why;
    err_note_set(&r->note, "so the test said");
    if (r->why == ERR_OK) {
        r->name = (struct page_name){ .rev = f->rev, .tid = f->tid };
        r->newest = f->newest;
        r->parts_count = 1;
        r->parts[0] = (struct secondary_part){ .content = STR("html"),
                                               .value = str_of(f->value),
                                               .headers = str_of(f->headers) };
    }
    r->done(r);
}

static bool shelf_start(struct secondary_source *s, struct secondary_read *r)
{
    struct shelf *f = CONTAINER_OF(s, struct shelf, source);
    f->last = *r;
    r->source = s;
    if (f->holds)
        f->held = r;
    else
        loop_post(f->stage->loop, shelf_answer, r);
    atomic_fetch_add(&f->asked, 1);
    return true;
}

static void shelf_cancel(struct secondary_source *s, struct secondary_read *r)
{
    struct shelf *f = CONTAINER_OF(s, struct shelf, source);
    if (f->held != r)
        return;
    f->held = NULL;
    f->why = ERR_TIMEOUT;
    loop_post(f->stage->loop, shelf_answer, r);
}

static void shelf_release(struct secondary_source *s, struct secondary_read *r)
{
    struct shelf *f = CONTAINER_OF(s, struct shelf, source);
    (void)r;
    atomic_fetch_add(&f->released, 1);
}

/* "name: value\n" lines here. */
static err shelf_headers(struct arena *a, str text, struct http_pair *out, unsigned max,
                         unsigned *count)
{
    (void)a;
    for (*count = 0; text.n > 0 && *count < max; ++*count) {
        str line = str_split(&text, '\n'), name = str_split(&line, ':');
        if (name.n == 0)
            return ERR_BAD;
        out[*count] = (struct http_pair){ .name = name, .value = str_trim(line) };
    }
    return ERR_OK;
}

static void shelf_open(void *ctx)
{
    struct shelf *f = ctx;
    const struct page_secondary_opts opts = { .service = &f->stage->service,
                                              .source = &f->source,
                                              .metrics = f->metrics,
                                              .timeout_ms = 60000,
                                              .seed = 1 };
    f->stage->service.secondary = page_secondary_new(&opts);
    awaited_tell(&f->step, ERR_OK);
}

static void shelf_close(void *ctx)
{
    struct shelf *f = ctx;
    page_secondary_free(&f->stage->service.secondary);
    awaited_tell(&f->step, ERR_OK);
}

static void shelf_step(struct shelf *f, void (*step)(void *ctx))
{
    awaited_init(&f->step);
    loop_post(f->stage->loop, step, f);
    assert_int_equal(awaited_wait(&f->step), ERR_OK);
    awaited_fini(&f->step);
}

static void begin(struct stage *s, struct shelf *f, bool checked)
{
    memset(f, 0, sizeof *f);
    if (checked)
        stage_begin_checked(s);
    else
        stage_begin(s, false);
    f->stage = s;
    f->metrics = metrics_new("");
    f->rev = 7;
    f->tid = tid_make(0x1e92efd00000000, 7); /* of 2019 */
    f->headers = TYPE;
    f->value = KEPT;
    f->source = (struct secondary_source){ .ready = shelf_ready,
                                           .start = shelf_start,
                                           .cancel = shelf_cancel,
                                           .release = shelf_release,
                                           .headers = shelf_headers };
    shelf_step(f, shelf_open);
}

static void end(struct stage *s, struct shelf *f)
{
    WAIT_UNTIL(page_secondary_idle(s->service.secondary));
    assert_int_equal(f->asked, f->released);
    shelf_step(f, shelf_close);
    stage_end(s);
    metrics_free(&f->metrics);
}

/* Of the domain without a wiki. rev 0: the latest. */
static enum page_outcome ask_plain(struct stage *s, const char *title, uint64_t rev,
                                   const struct tid *tid, struct asked *kept)
{
    struct asked own, *a = kept != NULL ? kept : &own;
    asked_init(a, s, title);
    a->get.target.domain = &s->domains[1];
    a->get.target.has_rev = rev != 0;
    a->get.target.name.rev = rev;
    a->get.target.has_tid = tid != NULL;
    if (tid != NULL)
        a->get.target.name.tid = *tid;
    asked_start(a);
    enum page_outcome outcome = asked_wait(a);
    if (kept == NULL)
        asked_fini(a);
    return outcome;
}

/* ---- reads ---- */

static void what_is_missing_is_taken_once(void **state)
{
    (void)state;
    struct stage s;
    struct shelf f;
    struct asked a;
    begin(&s, &f, false);
    assert_int_equal(ask_plain(&s, "T", 0, NULL, &a), GOT_CONTENT);
    assert_string_equal(a.body, KEPT);
    assert_int_equal(a.get.was & WAS_TAKEN, WAS_TAKEN);
    assert_int_equal(a.get.read.render.name.rev, 7);
    assert_int_equal(tid_cmp(a.get.read.render.name.tid, f.tid), 0);
    asked_fini(&a);
    assert_int_equal(f.asked, 1);
    assert_int_equal(f.last.select, SELECT_LATEST);
    assert_int_equal(ask_plain(&s, "T", 0, NULL, &a), GOT_CONTENT);
    assert_int_equal(a.get.was & WAS_TAKEN, 0);
    asked_fini(&a);
    assert_int_equal(ask_plain(&s, "T", 7, &f.tid, NULL), GOT_CONTENT);
    assert_int_equal(f.asked, 1);
    assert_int_equal(ask_plain(&s, "T", 8, NULL, NULL), GOT_NOTHING);
    assert_int_equal(f.asked, 2);
    end(&s, &f);
}

/* Else the latest would be it, and the newer one would never be asked for. */
static void an_older_render_is_not_the_latest(void **state)
{
    (void)state;
    struct stage s;
    struct shelf f;
    struct asked a;
    begin(&s, &f, false);
    f.newest = 9;
    assert_int_equal(ask_plain(&s, "T", 7, NULL, NULL), GOT_CONTENT);
    f.newest = 0;
    f.rev = 9;
    assert_int_equal(ask_plain(&s, "T", 0, NULL, &a), GOT_CONTENT);
    assert_int_equal(a.get.read.render.name.rev, 9);
    asked_fini(&a);
    f.newest = f.rev = 7; /* an older render of the newest revision */
    assert_int_equal(ask_plain(&s, "U", 7, &f.tid, NULL), GOT_CONTENT);
    f.newest = 0;
    f.tid = tid_make(f.tid.ticks + 10, 7);
    f.value = "<html>newer"; /* the same bytes would do under their first name */
    assert_int_equal(ask_plain(&s, "U", 0, NULL, &a), GOT_CONTENT);
    assert_int_equal(tid_cmp(a.get.read.render.name.tid, f.tid), 0);
    asked_fini(&a);
    end(&s, &f);
}

static void what_was_purged_is_not_taken(void **state)
{
    (void)state;
    struct stage s;
    struct shelf f;
    struct asked a;
    char body[256];
    begin(&s, &f, false);
    struct page_order purge = { .kind = ORDER_PURGE };
    assert_int_equal(stage_order(&s, &purge, "T"), ERR_OK);
    asked_init(&a, &s, "T");
    a.get.target.has_rev = a.get.target.has_tid = true;
    a.get.target.name = (struct page_name){ .rev = f.rev, .tid = f.tid };
    asked_start(&a);
    assert_int_equal(asked_wait(&a), GOT_NOTHING);
    asked_fini(&a);
    assert_int_equal(f.asked, 1);
    assert_int_equal(ask(&s, "T", 0, body), GOT_CONTENT); /* the origin makes it anew */
    assert_non_null(strstr(body, "made"));
    assert_int_equal(f.asked, 2);
    assert_int_equal(ask_plain(&s, "T", 0, NULL, NULL), GOT_CONTENT); /* of another domain */
    end(&s, &f);
}

static void who_may_not_wait_or_wants_another_thing_asks_nobody(void **state)
{
    (void)state;
    struct stage s;
    struct shelf f;
    struct asked a;
    begin(&s, &f, false);
    static const unsigned flags[] = { GET_OWN, GET_ONLY_CACHED, GET_NO_CACHE };
    for (size_t i = 0; i < COUNT_OF(flags); i++) {
        asked_init(&a, &s, "T");
        a.get.flags |= flags[i];
        asked_start(&a);
        assert_int_equal(asked_wait(&a), flags[i] == GET_ONLY_CACHED ? GOT_UNCACHED : GOT_CONTENT);
        asked_fini(&a);
        if (flags[i] == GET_OWN)
            (void)stage_order(&s, &(struct page_order){ .kind = ORDER_PURGE }, "T");
    }
    assert_int_equal(f.asked, 0);
    end(&s, &f);
}

static void one_that_fails_is_left_alone_and_the_origin_is_asked(void **state)
{
    (void)state;
    struct stage s;
    struct shelf f;
    char body[256];
    begin(&s, &f, false);
    f.why = ERR_TIMEOUT;
    for (unsigned i = 0; i < SECONDARY_FAILURES_MAX; i++) {
        struct asked a;
        assert_int_equal(ask_plain(&s, "T", 0, NULL, &a), GOT_FAILED);
        assert_int_equal(a.get.why, ERR_UNAVAILABLE);
        asked_fini(&a);
    }
    assert_int_equal(f.asked, SECONDARY_FAILURES_MAX);
    assert_int_equal(ask_plain(&s, "T", 0, NULL, NULL), GOT_FAILED);
    assert_int_equal(f.asked, SECONDARY_FAILURES_MAX);
    assert_int_equal(ask(&s, "T", 0, body), GOT_CONTENT);
    assert_non_null(strstr(body, "made"));
    assert_int_equal(f.asked, SECONDARY_FAILURES_MAX);
    f.why = ERR_OK; /* after a pause */
    WAIT_UNTIL(ask_plain(&s, "T", 0, NULL, NULL) == GOT_CONTENT);
    end(&s, &f);
}

static void many_who_ask_share_one_look_and_may_leave(void **state)
{
    (void)state;
    struct stage s;
    struct shelf f;
    struct asked a[5];
    begin(&s, &f, false);
    f.holds = true;
    for (size_t i = 0; i < COUNT_OF(a); i++) {
        asked_init(&a[i], &s, "T");
        a[i].get.target.domain = &s.domains[1];
        asked_start(&a[i]);
    }
    for (size_t i = 0; i < COUNT_OF(a); i++)
        WAIT_UNTIL(a[i].get.taking);
    WAIT_UNTIL(f.asked == 1);
    f.holds = false;
    struct secondary_read *held = f.held;
    f.held = NULL;
    loop_post(s.loop, shelf_answer, held);
    for (size_t i = 0; i < COUNT_OF(a); i++) {
        assert_int_equal(asked_wait(&a[i]), GOT_CONTENT);
        asked_fini(&a[i]);
    }
    assert_int_equal(f.asked, 1);
    f.unready = true;
    assert_int_equal(ask_plain(&s, "U", 0, NULL, NULL), GOT_FAILED);
    assert_int_equal(f.asked, 1);
    end(&s, &f);
}

static void a_drain_ends_what_is_under_way(void **state)
{
    (void)state;
    struct stage s;
    struct shelf f;
    struct asked a;
    begin(&s, &f, false);
    f.holds = true;
    asked_init(&a, &s, "T");
    a.get.target.domain = &s.domains[1];
    asked_start(&a);
    WAIT_UNTIL(f.asked == 1);
    page_secondary_drain(s.service.secondary);
    assert_int_equal(asked_wait(&a), GOT_REFUSED);
    asked_fini(&a);
    assert_int_equal(ask_plain(&s, "T", 0, NULL, NULL), GOT_REFUSED);
    end(&s, &f);
}

/* ---- the wiki's word ---- */

static void the_wiki_is_asked_about_what_was_taken(void **state)
{
    (void)state;
    struct stage s;
    struct shelf f;
    char body[256];
    begin(&s, &f, true);
    assert_int_equal(ask(&s, "T", 0, body), GOT_CONTENT);
    assert_string_equal(body, KEPT);
    assert_int_equal(wiki_words_asked(&s), 1);
    assert_int_equal(wiki_asked(&s), 0);
    struct wiki_word word = wiki_word_now(&s); /* it has a newer one: that is made */
    word.rev = 8;
    wiki_word(&s, word);
    wiki_say(&s, (struct wiki_says){ .rev = 8, .html = "<html><head></head>made" });
    assert_int_equal(ask(&s, "U", 0, body), GOT_CONTENT);
    assert_non_null(strstr(body, "made"));
    word.state = WORDS_TITLE_MISSING;
    word.rev = word.page_id = 0;
    word.touched_s = 0;
    wiki_word(&s, word);
    wiki_say(&s, (struct wiki_says){ .why = RENDER_NO_PAGE });
    assert_int_not_equal(ask(&s, "V", 0, body), GOT_CONTENT);
    end(&s, &f);
}

/* ---- contents ---- */

static void contents_are_what_the_headers_say_or_none(void **state)
{
    (void)state;
    static const char *const names[] = { "html", "data-parsoid" };
    static const struct {
        const char *content, *headers, *type, *value;
        bool json;
        err why;
        const char *kept;
    } cases[] = {
        { "html", TYPE, "", "x", false, ERR_OK, TYPE },
        { "html", TYPE "x-a: b\netag: \"1\"\nset-cookie: c\n", "", "", false, ERR_OK,
          TYPE "x-a: b\n" },
        { "html", "", "text/plain", "x", false, ERR_OK, "content-type: text/plain\n" },
        { "html", TYPE, "text/plain", "x", false, ERR_OK, TYPE },
        { "html", "", "", "x", false, ERR_BAD, NULL },
        { "html", "x-a: b\n", "", "x", false, ERR_BAD, NULL },
        { "html", "", "a\nb", "x", false, ERR_BAD, NULL },
        { "html", "", "\xff", "x", false, ERR_BAD, NULL },
        { "html", ":\n", "", "x", false, ERR_BAD, NULL },
        { "html", TYPE "content-encoding: gzip\n", "", "x", false, ERR_BAD, NULL },
        { "html", TYPE "content-encoding: identity\n", "", "x", false, ERR_OK, TYPE },
        { "data-parsoid", "", "", "{\"a\":1}", true, ERR_OK,
          "content-type: application/json; charset=utf-8\n" },
        { "data-parsoid", "", "", "{\"a\":", true, ERR_BAD, NULL },
        { "data-parsoid", "", "", "\"\xff\"", true, ERR_BAD, NULL },
        { "data-parsoid", "content-type: application/json;a=b\n", "", "<p>", false, ERR_BAD, NULL },
        { "mobile", TYPE, "", "x", false, ERR_BAD, NULL }, /* the bucket has none */
    };
    const struct secondary_source source = { .headers = shelf_headers };
    const struct page_bucket_opts bucket = { .contents = names, .contents_count = COUNT_OF(names) };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct arena arena;
        arena_init(&arena, 1 << 16);
        struct secondary_read r = { .parts_count = 1 };
        struct page_put p = { .arena = &arena };
        r.parts[0] = (struct secondary_part){ .content = str_of(cases[i].content),
                                              .json = cases[i].json,
                                              .value = str_of(cases[i].value),
                                              .headers = str_of(cases[i].headers),
                                              .type = str_of(cases[i].type) };
        assert_int_equal(page_secondary_contents(&source, &r, &bucket, &p), cases[i].why);
        assert_int_equal(p.note.text[0] == '\0', cases[i].why == ERR_OK);
        if (cases[i].why == ERR_OK)
            assert_true(str_eq(p.contents[0].headers, str_of(cases[i].kept)));
        arena_fini(&arena);
    }
}

static void a_content_that_is_bad_costs_the_render_and_one_that_is_not_kept_nothing(void **state)
{
    (void)state;
    const struct secondary_source source = { .headers = shelf_headers };
    const struct page_bucket_opts any = { .contents = NULL };
    struct arena arena;
    arena_init(&arena, 1 << 16);
    struct page_put p = { .arena = &arena };
    struct secondary_read r = {
        .parts_count = 2,
        .parts = { { .content = STR("html"), .value = STR("x"), .headers = STR(TYPE) },
                   { .content = STR("data-parsoid"), .value = STR("no"), .json = true } }
    };
    assert_int_equal(page_secondary_contents(&source, &r, &any, &p), ERR_BAD);
    r.parts[1].value = STR("{}");
    assert_int_equal(page_secondary_contents(&source, &r, &any, &p), ERR_OK);
    assert_int_equal(p.contents_count, 2);
    arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_missing_is_taken_once),
        cmocka_unit_test(an_older_render_is_not_the_latest),
        cmocka_unit_test(what_was_purged_is_not_taken),
        cmocka_unit_test(who_may_not_wait_or_wants_another_thing_asks_nobody),
        cmocka_unit_test(one_that_fails_is_left_alone_and_the_origin_is_asked),
        cmocka_unit_test(many_who_ask_share_one_look_and_may_leave),
        cmocka_unit_test(a_drain_ends_what_is_under_way),
        cmocka_unit_test(the_wiki_is_asked_about_what_was_taken),
        cmocka_unit_test(contents_are_what_the_headers_say_or_none),
        cmocka_unit_test(a_content_that_is_bad_costs_the_render_and_one_that_is_not_kept_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
