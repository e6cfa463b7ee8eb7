/* Goal: each kind of origin is asked in its own way and believed by its own signs; transforms go
 * out as they must; siteinfo is asked for once for many. Method: as test_render_origin. */
#include "stage.h"

#include "../cmocka_all.h"
#include "../http/echo.h"
#include "sites.h"

#include "render/site.h"
#include "render/title_rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char REST[] = "/w/rest.php";
static const struct origin_opts parsoid = { .kind = ORIGIN_PARSOID };

/* ---- what else a wiki gives ---- */

struct given {
    const char *name;
    enum origin_kind kind;
    enum render_want want;
    struct rule rules[3];
    enum render_why why;
    const char *content, *raw, *headers, *target;
};
static const struct given givens[] = {
    { "wikitext",
      ORIGIN_PARSOID,
      WANT_WIKITEXT,
      { FINE_META,
        { .path = "x",
          .head = "200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n",
          .body = "a\n" } },
      RENDER_FINE,
      "wikitext",
      "a\n",
      "content-type: text/plain; charset=utf-8\n",
      "/v3/page/wikitext/A%2FB_c/9 " },
    { "wikitext of a quoted parameter",
      ORIGIN_PARSOID,
      WANT_WIKITEXT,
      { FINE_META,
        { .path = "x",
          .head = "200 OK\r\nContent-Type: text/plain;x=\"a;b\\\";c\";charset=UTF-8\r\n",
          .body = "a" } },
      RENDER_FINE,
      "wikitext",
      "a",
      "content-type: text/plain; x=\"a;b\\\";c\"; charset=utf-8\n",
      "/v3/page/wikitext/A%2FB_c/9 " },
    { "wikitext of another revision",
      ORIGIN_PARSOID,
      WANT_WIKITEXT,
      { FINE_META,
        { .path = "x",
          .head = "200 OK\r\nContent-Type: text/plain\r\nContent-Revision-Id: 8\r\n",
          .body = "a" } },
      RENDER_FAILED,
      NULL,
      NULL,
      NULL,
      NULL },
    { "wikitext of another type",
      ORIGIN_PARSOID,
      WANT_WIKITEXT,
      { FINE_META, { .path = "x", .head = "200 OK\r\nContent-Type: text/html\r\n", .body = "a" } },
      RENDER_FAILED,
      NULL,
      NULL,
      NULL,
      NULL },
    { "wikitext that is no UTF-8",
      ORIGIN_PARSOID,
      WANT_WIKITEXT,
      { FINE_META,
        { .path = "x", .head = "200 OK\r\nContent-Type: text/plain\r\n", .body = "\xff" } },
      RENDER_FAILED,
      NULL,
      NULL,
      NULL,
      NULL },
    { "wikitext of another charset",
      ORIGIN_PARSOID,
      WANT_WIKITEXT,
      { FINE_META,
        { .path = "x",
          .head = "200 OK\r\nContent-Type: text/plain; charset=\"latin1\"\r\n",
          .body = "a" } },
      RENDER_FAILED,
      NULL,
      NULL,
      NULL,
      NULL },
    { "lint",
      ORIGIN_PARSOID,
      WANT_LINT,
      { FINE_META,
        { .path = "x", .head = "200 OK\r\nContent-Type: application/json\r\n", .body = "[{}]" } },
      RENDER_FINE,
      "lint",
      "[{}]",
      "content-type: application/json\n",
      "/v3/page/lint/A%2FB_c/9 " },
    { "lint that is no array",
      ORIGIN_PARSOID,
      WANT_LINT,
      { FINE_META,
        { .path = "x", .head = "200 OK\r\nContent-Type: application/json\r\n", .body = "{}" } },
      RENDER_FAILED,
      NULL,
      NULL,
      NULL,
      NULL },
    { "core html",
      ORIGIN_REST,
      WANT_RENDER,
      { FINE_META,
        { .path = "x",
          .head = "200 OK\r\nContent-Type: text/html;charset=UTF-8\r\nContent-Language: en\r\n"
                  "ETag: \"9/7d5a1a00-c6a1-11f0-8001-010203040506/view/html\"\r\n",
          .body = "<html>x" } },
      RENDER_FINE,
      "html",
      "<html>x",
      "content-type: text/html; charset=utf-8\ncontent-language: en\n",
      "/w/rest.php/v1/revision/9/html " },
    { "core html of another revision",
      ORIGIN_REST,
      WANT_RENDER,
      { FINE_META,
        { .path = "x",
          .head = "200 OK\r\nContent-Type: text/html\r\nETag: W/\"8/x\"\r\n",
          .body = "<html>x" } },
      RENDER_FAILED,
      NULL,
      NULL,
      NULL,
      NULL },
    { "core html that is no UTF-8",
      ORIGIN_REST,
      WANT_RENDER,
      { FINE_META,
        { .path = "x", .head = "200 OK\r\nContent-Type: text/html\r\n", .body = "<html>\xc3" } },
      RENDER_FAILED,
      NULL,
      NULL,
      NULL,
      NULL },
    { "core source",
      ORIGIN_REST,
      WANT_WIKITEXT,
      { FINE_META,
        { .path = "x",
          .head = "200 OK\r\nContent-Type: application/json\r\n",
          .body = "{\"id\":9,\"source\":\"a\\u00e9\"}" } },
      RENDER_FINE,
      "wikitext",
      "a\xc3\xa9",
      "content-type: text/plain; charset=utf-8\n",
      "/w/rest.php/v1/revision/9 " },
    { "core source of another revision",
      ORIGIN_REST,
      WANT_WIKITEXT,
      { FINE_META, { .path = "x", .head = "200 OK\r\n", .body = "{\"id\":8,\"source\":\"a\"}" } },
      RENDER_FAILED,
      NULL,
      NULL,
      NULL,
      NULL },
    { "core lint", ORIGIN_REST, WANT_LINT, { FINE_META }, RENDER_REFUSED, NULL, NULL, NULL, NULL },
    { "metadata", ORIGIN_REST, WANT_META, { FINE_META }, RENDER_FINE, NULL, NULL, NULL, NULL },
};

static struct rule fitted(struct rule rule)
{
    if (rule.path != NULL && strcmp(rule.path, "x") == 0)
        rule.path = "rest.php";
    return rule;
}

static void check_given(const struct given *g)
{
    struct rule rules[COUNT_OF(g->rules)];
    for (size_t i = 0; i < COUNT_OF(rules); i++)
        rules[i] = fitted(g->rules[i]);
    struct stage *s = stage_new(&(struct origin_opts){ .kind = g->kind }, REST, rules);
    struct wish w;
    wish_begin(&w, s, "A/B_c", 9);
    w.r.want = g->want;
    wish_now(&w, g->why);
    if (g->content != NULL) {
        assert_int_equal(w.r.contents_count, 1);
        assert_true(str_eq(w.r.contents[0].name, str_of(g->content)));
        assert_true(str_eq(w.r.contents[0].raw, str_of(g->raw)));
        assert_true(str_eq(w.r.contents[0].headers, str_of(g->headers)));
        assert_int_equal(said(s, g->target), 1);
    }
    assert_true(w.r.meta.rev == 9);
    wish_end(&w);
    stage_free(s);
}

static void each_kind_gives_what_it_has(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(givens); i++) {
        print_message("%s\n", givens[i].name);
        check_given(&givens[i]);
    }
}

/* ---- whose a cookie is ---- */

struct user {
    const char *body;
    enum render_why why;
    uint64_t id;
};
static const struct user users[] = {
    { "{\"query\":{\"userinfo\":{\"id\":42,\"name\":\"Alice\"}}}", RENDER_FINE, 42 },
    { "{\"query\":{\"userinfo\":{\"id\":0,\"name\":\"127.0.0.1\",\"anon\":true}}}", RENDER_FINE,
      0 },
    { "{\"query\":{\"userinfo\":{\"id\":-1}}}", RENDER_FAILED, 0 },
    { "{\"query\":{\"userinfo\":{\"id\":\"42\"}}}", RENDER_FAILED, 0 },
    { "{\"query\":{\"userinfo\":[]}}", RENDER_FAILED, 0 },
    { "{\"query\":{}}", RENDER_FAILED, 0 },
    { "{\"error\":{\"code\":\"readapidenied\"}}", RENDER_DENIED, 0 },
    { "{\"error\":{\"code\":\"readonly\"}}", RENDER_BUSY, 0 },
    { "not JSON", RENDER_FAILED, 0 },
};

static void the_wiki_says_whose_a_cookie_is(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(users); i++) {
        const struct rule rules[] = {
            { .path = "/w/api.php?", .head = "200 OK\r\n", .body = users[i].body }, { 0 }
        };
        struct stage *s = stage_new(&parsoid, REST, rules);
        struct wish w;
        print_message("%s\n", users[i].body);
        wish_begin(&w, s, "", 0);
        w.r.want = WANT_USER;
        w.r.cookie = STR("session=x");
        wish_now(&w, users[i].why);
        assert_int_equal(w.r.user_id, users[i].id);
        assert_int_equal(said(s, "meta=userinfo "), 1);
        assert_int_equal(said(s, "session=x\r\n"), 1);
        assert_int_equal(asked(s), 1);
        wish_end(&w);
        stage_free(s);
    }
}

/* ---- who may read ---- */

#define ACTIONS(actions) "{\"query\":{\"pages\":[{\"title\":\"A/B c\"," actions "}]}}"
#define RIGHTS(rights) "{\"query\":{\"userinfo\":{\"id\":0,\"rights\":[" rights "]}}}"
static const struct leave {
    const char *body, *title;
    enum render_why why;
    bool may;
} leaves[] = {
    { ACTIONS("\"actions\":{\"read\":true}"), "A/B_c", RENDER_FINE, true },
    { ACTIONS("\"missing\":true,\"actions\":{\"read\":true}"), "A/B_c", RENDER_FINE, true },
    { ACTIONS("\"actions\":{\"read\":false}"), "A/B_c", RENDER_FINE, false },
    { ACTIONS("\"actions\":{\"edit\":true}"), "A/B_c", RENDER_FINE, false },
    { ACTIONS("\"actions\":{\"read\":\"true\"}"), "A/B_c", RENDER_FINE, false },
    { ACTIONS("\"actions\":[true]"), "A/B_c", RENDER_FINE, false },
    { ACTIONS("\"invalid\":true"), "A/B_c", RENDER_FINE, false },
    { "{\"query\":{\"interwiki\":[{\"title\":\"w:A\"}]}}", "A/B_c", RENDER_FINE, false },
    { "{\"query\":{\"pages\":{}}}", "A/B_c", RENDER_FINE, false },
    { "{\"query\":{\"userinfo\":{\"id\":0}}}", "A/B_c", RENDER_FINE, false },
    { RIGHTS("\"edit\",\"read\""), "", RENDER_FINE, true }, /* whatever page */
    { RIGHTS("\"edit\",\"readmore\",1"), "", RENDER_FINE, false },
    { RIGHTS("{\"read\":\"read\"}"), "", RENDER_FINE, false },
    { "{\"query\":{\"userinfo\":{\"id\":0,\"rights\":\"read\"}}}", "", RENDER_FINE, false },
    { "{\"query\":{\"userinfo\":{\"id\":7}}}", "", RENDER_FINE, false },
    { "{\"error\":{\"code\":\"readapidenied\"}}", "", RENDER_DENIED, false },
    { "{\"error\":{\"code\":\"readapidenied\"}}", "A/B_c", RENDER_DENIED, false },
    { "{}", "", RENDER_FAILED, false },
    { "not JSON", "A/B_c", RENDER_FAILED, false },
};

static void the_wiki_says_who_may_read(void **state)
{
    struct origin_opts opts = parsoid;
    (void)state;
    opts.authorization = "Bearer ours";
    for (size_t i = 0; i < COUNT_OF(leaves); i++) {
        const struct leave *l = &leaves[i];
        const struct rule rules[] = {
            { .path = "/w/api.php?", .head = "200 OK\r\n", .body = l->body }, { 0 }
        };
        struct stage *s = stage_new(&opts, REST, rules);
        struct wish w;
        print_message("%s\n", l->body);
        wish_begin(&w, s, l->title, 0);
        w.r.want = WANT_LEAVE;
        w.r.cookie = STR("session=x");
        w.r.authorization = STR("Basic theirs");
        wish_now(&w, l->why);
        assert_int_equal(w.r.may_read, l->may);
        assert_int_equal(said(s, "intestactions=read&titles=%1FA%2FB_c "), l->title[0] != 0);
        assert_int_equal(said(s, "meta=userinfo&uiprop=rights "), l->title[0] == 0);
        assert_int_equal(said(s, "session=x\r\n"), 1);
        assert_int_equal(said(s, "Basic theirs\r\n"), 1);
        assert_int_equal(said(s, "ours"), 0);
        assert_int_equal(asked(s), 1);
        wish_end(&w);
        stage_free(s);
    }
}

/* ---- templates ---- */

struct filled {
    const char *template, *target, *head, *body;
    uint64_t rev, named;
};
#define PAGE "200 OK\r\nContent-Type: text/html\r\n"
static const struct filled fills[] = {
    { "/{domain}/{title}/{rev}", "GET /wiki.example/A%2FB_c/9 ", PAGE "Content-Revision-Id: 9\r\n",
      "x", 9, 9 },
    { "/{domain}/{title}/{rev}", "GET /wiki.example/A%2FB_c ", PAGE "Content-Revision-Id: 9\r\n",
      "x", 0, 9 },
    { "/w?t={title}&oldid={rev}&x=1", "GET /w?t=A%2FB_c&oldid=&x=1 ", PAGE "ETag: W/\"7/abc\"\r\n",
      "x", 0, 7 },
    { "/w/{title}", "GET /w/A%2FB_c ", PAGE, "<html about='//w/revision/5'>", 0, 5 },
    { "/w/{title}/{rev}", "GET /w/A%2FB_c/9 ", PAGE, "x", 9, 9 },
    { "/w/{title}", "GET /w/A%2FB_c ", PAGE, "x", 0, 0 },
    { "/w/{title}/{rev}", "GET /w/A%2FB_c/9 ", PAGE "Content-Revision-Id: 8\r\n", "x", 9, 0 },
    { "/w/{title}", "GET /w/A%2FB_c ", PAGE "ETag: \"abc\"\r\n", "x", 0, 0 },
    { "/w/{title}", "GET /w/A%2FB_c ", PAGE "ETag: \"99999999999999999999\"\r\n", "x", 0, 0 },
    { "/w/{title}", "GET /w/A%2FB_c ",
      "200 OK\r\nContent-Type: text/plain\r\nContent-Revision-Id: 9\r\n", "x", 9, 0 },
};

static void templates_are_filled_in(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(fills); i++) {
        const struct rule rules[] = { { .path = "/", .head = fills[i].head, .body = fills[i].body },
                                      { 0 } };
        struct stage *s =
            stage_new(&(struct origin_opts){ .kind = ORIGIN_TEMPLATE }, fills[i].template, rules);
        struct wish w;
        assert_false(origin_has_api(s->origin));
        wish_begin(&w, s, "A/B_c", fills[i].rev);
        wish_now(&w, fills[i].named != 0 ? RENDER_FINE : RENDER_FAILED);
        assert_int_equal(said(s, fills[i].target), 1);
        if (fills[i].named != 0)
            assert_int_equal(w.r.meta.rev, fills[i].named);
        wish_end(&w);
        wish_begin(&w, s, "A/B_c", fills[i].rev);
        w.r.want = WANT_META;
        wish_now(&w, RENDER_REFUSED);
        wish_end(&w);
        stage_free(s);
    }
}

static void a_template_tells_no_page_from_no_revision(void **state)
{
    (void)state;
    static const struct rule rules[] = { { .path = "/", .head = "404 Not Found\r\n" }, { 0 } };
    struct stage *s =
        stage_new(&(struct origin_opts){ .kind = ORIGIN_TEMPLATE }, "/{title}/{rev}", rules);
    struct wish w;
    wish_begin(&w, s, "A", 0);
    wish_now(&w, RENDER_NO_PAGE);
    wish_end(&w);
    wish_begin(&w, s, "A", 9);
    wish_now(&w, RENDER_NO_REVISION);
    wish_end(&w);
    stage_free(s);
}

static void a_template_without_revision_has_the_newest_alone(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        { .path = "/", .head = PAGE "ETag: \"9/x\"\r\n", .body = "x" }, { 0 }
    };
    struct stage *s =
        stage_new(&(struct origin_opts){ .kind = ORIGIN_TEMPLATE }, "/{title}", rules);
    struct wish w;
    wish_begin(&w, s, "A", 9);
    wish_now(&w, RENDER_FINE);
    wish_end(&w);
    wish_begin(&w, s, "A", 8);
    wish_now(&w, RENDER_NO_REVISION); /* however often it is asked */
    wish_end(&w);
    stage_free(s);
}

static void what_is_no_origin_is_refused(void **state)
{
    (void)state;
    static const struct origin_opts wrong[] = {
        { .kind = ORIGIN_PARSOID, .domain = "d" },
        { .kind = ORIGIN_PARSOID, .url = "http://h/rest.php" },
        { .kind = ORIGIN_PARSOID, .domain = "d", .url = "ftp://h/rest.php" },
        { .kind = ORIGIN_PARSOID, .domain = "d", .url = "http:///rest.php" },
        { .kind = ORIGIN_PARSOID, .domain = "d", .url = "http://:80/rest.php" },
        { .kind = ORIGIN_PARSOID, .domain = "d", .url = "http://h/a b/rest.php" },
        { .kind = ORIGIN_PARSOID, .domain = "d", .url = "http://h/rest.php#x" },
        { .kind = ORIGIN_PARSOID, .domain = "d", .url = "http://h/other.php" },
        { .kind = ORIGIN_REST, .domain = "d", .url = "http://h/rest.php", .api = "api.php" },
        { .kind = ORIGIN_TEMPLATE, .domain = "d", .url = "http://h/{name}" },
        { .kind = ORIGIN_TEMPLATE, .domain = "d", .url = "http://h/{title}}" },
        { .kind = ORIGIN_TEMPLATE, .domain = "d", .url = "http://h/{title" },
        { .kind = ORIGIN_TEMPLATE, .domain = "d", .url = "http://h/{domain}" },
        { .kind = ORIGIN_TEMPLATE, .domain = "d", .url = "http://{title}/x" },
        { .kind = ORIGIN_TEMPLATE, .domain = "d", .url = "http://{title}.h/{title}" },
        { .kind = ORIGIN_TEMPLATE, .domain = "d", .url = "http://h:{rev}/{title}" },
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct origin *o = NULL;
        struct err_note note = { .text = "" };
        assert_int_equal(origin_new(NULL, NULL, NULL, &wrong[i], &o, &note), ERR_BAD);
        assert_null(o);
        assert_true(note.text[0] != 0);
    }
}

/* ---- transforms ---- */

struct change {
    struct transform_request t;
    struct stage *stage;
    struct arena arena;
    enum render_why why;
    unsigned dones;
};

static void change_done(struct transform_request *t, enum render_why why)
{
    struct change *c = t->ctx;
    c->why = why;
    c->dones++;
    if (--c->stage->asker.left == 0)
        loop_stop(c->stage->asker.loop);
}

static void change_now(struct change *c, struct stage *s, const struct transform_request *t,
                       enum render_why why)
{
    *c = (struct change){ .stage = s, .t = *t };
    arena_init(&c->arena, 16 << 20);
    c->t.origin = s->origin;
    c->t.deadline = mono_add_ms(clock_mono(echo_clock()), WAIT_MS);
    c->t.arena = &c->arena;
    c->t.done = change_done;
    c->t.ctx = c;
    s->asker.left++;
    transform_start(&c->t);
    asker_run(&s->asker);
    assert_int_equal(c->dones, 1);
    if (c->why != why)
        fail_msg("%s (%s) instead of %s", render_why_name(c->why), c->t.note.text,
                 render_why_name(why));
    assert_int_equal(why == RENDER_FINE, c->t.note.text[0] == 0);
}

static void transforms_go_out_as_they_must(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        { .path = "html/to/wikitext",
          .head = "200 OK\r\nContent-Type: text/plain\r\n",
          .body = "''a''" },
        { .path = "to/pagebundle",
          .head = "400 No\r\nContent-Type: application/json\r\n",
          .body = "{\"message\":\"no\"}" },
        { .path = "to/lint", .head = "503 Later\r\nRetry-After: 3\r\n" },
        { .path = "to/html", .head = "500 Oops\r\n" },
        { 0 },
    };
    struct origin_opts opts = parsoid;
    opts.retries = 3;
    struct stage *s = stage_new(&opts, REST, rules);
    struct change c;
    struct transform_request t = { .from = "html",
                                   .to = "wikitext",
                                   .title = STR("A/B_c"),
                                   .rev = 9,
                                   .body = STR("{\"a\":1}"),
                                   .accept = STR("text/html"),
                                   .accept_language = STR("de"),
                                   .cookie = STR("k=v") };
    change_now(&c, s, &t, RENDER_FINE);
    assert_int_equal(c.t.status, 200);
    assert_true(str_eq(c.t.reply, STR("''a''")));
    assert_true(str_eq(c.t.content_type, STR("text/plain")));
    assert_int_equal(
        said(s, "POST /w/rest.php/wiki.example/v3/transform/html/to/wikitext/A%2FB_c/9 HTTP/1.1"),
        1);
    static const char *const parts[] = { "romise-non-write-api-action: true",
                                         "ontent-type: application/json", "k=v",
                                         "ccept-language: de", "\r\n\r\n{\"a\":1}" };
    assert_int_equal(said(s, "text/html"), 0);
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        if (said(s, parts[i]) != 1)
            fail_msg("%s was not said", parts[i]);
    arena_fini(&c.arena);
    t = (struct transform_request){ .from = "wikitext",
                                    .to = "pagebundle",
                                    .title = STR("A"),
                                    .body = STR("{}"),
                                    .accept = STR("text/html; profile=\"x/HTML/1\"") };
    change_now(&c, s, &t, RENDER_REFUSED);
    assert_int_equal(c.t.status, 400);
    assert_true(str_eq(c.t.reply, STR("{\"message\":\"no\"}")));
    assert_int_equal(said(s, "/transform/wikitext/to/pagebundle/A HTTP/1.1"), 1);
    assert_int_equal(said(s, "application/json; profile=\"x/pagebundle/1\""), 1);
    arena_fini(&c.arena);
    t = (struct transform_request){ .from = "wikitext", .to = "lint", .body = STR("{}") };
    change_now(&c, s, &t, RENDER_BUSY);
    assert_int_equal(c.t.retry_after_s, 3);
    assert_int_equal(said(s, "/transform/wikitext/to/lint HTTP/1.1"), 1);
    arena_fini(&c.arena);
    t.to = "html";
    change_now(&c, s, &t, RENDER_FAILED); /* a POST is not tried again */
    assert_int_equal(said(s, "to/html"), 1);
    arena_fini(&c.arena);
    stage_free(s);
}

static void
an_empty_reply_is_believed_when_nothing_was_to_come_or_a_serialiser_says_so(void **state)
{
    (void)state;
    static const struct {
        enum transform_empty empty;
        const char *type;
        enum render_why why;
    } rows[] = {
        { EMPTY_NEVER, "text/plain; profile=\"https://x/Specs/wikitext/1.0.0\"", RENDER_FAILED },
        { EMPTY_IF_NAMED, "text/plain; charset=utf-8; profile=\"https://x/Specs/wikitext/1.0.0\"",
          RENDER_FINE },
        { EMPTY_IF_NAMED, "text/plain; charset=utf-8", RENDER_FAILED },
        { EMPTY_IF_NAMED, "text/html; profile=\"https://x/Specs/wikitext/1.0.0\"", RENDER_FAILED },
        { EMPTY_FINE, "text/plain", RENDER_FINE },
        { EMPTY_FINE, "text/html", RENDER_FAILED },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char head[128];
        (void)snprintf(head, sizeof head, "200 OK\r\nContent-Type: %s\r\n", rows[i].type);
        const struct rule rules[] = { { .path = "to/wikitext", .head = head, .body = "" }, { 0 } };
        struct stage *s = stage_new(&parsoid, REST, rules);
        struct change c;
        struct transform_request t = {
            .from = "html", .to = "wikitext", .body = STR("{}"), .empty = rows[i].empty
        };
        change_now(&c, s, &t, rows[i].why);
        arena_fini(&c.arena);
        stage_free(s);
    }
}

static void a_save_finds_room_while_renders_wait(void **state)
{
    (void)state;
    static const struct rule rules[] = { { .path = "api", .act = ACT_HANG },
                                         { .path = "html/to/wikitext",
                                           .head = "200 OK\r\nContent-Type: text/plain\r\n",
                                           .body = "a" },
                                         { 0 } };
    struct stage *s =
        stage_new(&(struct origin_opts){ .kind = ORIGIN_PARSOID, .concurrency = 1 }, REST, rules);
    struct transform_request t = { .from = "html", .to = "wikitext", .body = STR("{}") };
    struct wish first, second;
    struct change c;
    wish_begin(&first, s, "A/B_c", 0);
    wish_begin(&second, s, "A/B_c", 0);
    render_start(&first.r);
    render_start(&second.r);
    change_now(&c, s, &t, RENDER_FINE);
    arena_fini(&c.arena);
    s->asker.left = 2;
    render_cancel(&first.r);
    render_cancel(&second.r);
    asker_run(&s->asker);
    assert_int_equal(first.why, RENDER_CANCELED);
    assert_int_equal(second.why, RENDER_CANCELED);
    wish_end(&first);
    wish_end(&second);
    stage_free(s);
}

static void other_kinds_have_no_transforms(void **state)
{
    (void)state;
    static const struct rule none[] = { { 0 } };
    struct stage *s = stage_new(&(struct origin_opts){ .kind = ORIGIN_TEMPLATE }, "/{title}", none);
    struct change c;
    struct transform_request t = { .from = "html", .to = "wikitext", .body = STR("{}") };
    change_now(&c, s, &t, RENDER_REFUSED);
    assert_int_equal(asked(s), 0);
    arena_fini(&c.arena);
    stage_free(s);
}

/* ---- siteinfo ---- */

static void siteinfo_is_asked_for_once(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        { .path = "meta=siteinfo", .head = "200 OK\r\n", .body = SITE_JSON("de") }, { 0 }
    };
    struct stage *s = stage_new(&parsoid, REST, rules);
    struct curious c[20];
    assert_null(origin_siteinfo(s->origin)); /* asks */
    for (size_t i = 0; i < COUNT_OF(c); i++)
        curious_start(&c[i], s, WAIT_MS);
    asker_run(&s->asker);
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        assert_int_equal(c[i].gots, 1);
        assert_int_equal(c[i].why, RENDER_FINE);
    }
    struct siteinfo *info = origin_siteinfo(s->origin);
    assert_non_null(info);
    siteinfo_unref(&info);
    curious_start(&c[0], s, WAIT_MS);
    asker_run(&s->asker);
    assert_int_equal(c[0].why, RENDER_FINE);
    assert_int_equal(asked(s), 1);
    stage_free(s);
}

static void stop(void *loop)
{
    loop_stop(loop);
}

static void siteinfo_that_is_old_serves_while_asked_again(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        { .path = "meta=siteinfo", .head = "200 OK\r\n", .body = SITE_JSON("de"), .times = 1 },
        { .path = "meta=siteinfo", .head = "500 Oops\r\n" },
        { 0 }
    };
    struct origin_opts brief = parsoid;
    brief.siteinfo_ttl_ms = 1;
    struct stage *s = stage_new(&brief, REST, rules);
    struct curious c;
    curious_start(&c, s, WAIT_MS);
    asker_run(&s->asker);
    mono until = mono_add_ms(clock_mono(echo_clock()), WAIT_MS);
    /* A look after a millisecond asks again, and gets what is there. */
    while (asked(s) < 2 || !origin_idle(s->origin)) {
        assert_true(clock_mono(echo_clock()).ns < until.ns);
        struct siteinfo *info = asked(s) < 2 ? origin_siteinfo(s->origin) : NULL;
        assert_true(info != NULL || asked(s) >= 2);
        siteinfo_unref(&info);
        loop_post(s->asker.loop, stop, s->asker.loop);
        loop_run(s->asker.loop);
    }
    struct siteinfo *kept = site_peek(s->origin->site);
    assert_non_null(kept);
    siteinfo_unref(&kept);
    stage_free(s);
}

static void siteinfo_that_cannot_be_had_is_told_to_all(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        { .path = "meta=siteinfo", .head = "200 OK\r\n", .body = "{}" }, { 0 }
    };
    struct stage *s = stage_new(&parsoid, REST, rules);
    struct curious c[3];
    curious_start(&c[0], s, WAIT_MS);
    curious_start(&c[1], s, WAIT_MS);
    asker_run(&s->asker);
    assert_int_equal(c[0].why, RENDER_FAILED);
    assert_int_equal(c[1].why, RENDER_FAILED);
    stage_free(s);
    static const struct rule hangs[] = { { .path = "meta=siteinfo", .act = ACT_HANG }, { 0 } };
    struct origin_opts brief = parsoid;
    brief.timeout_ms = 200;
    s = stage_new(&brief, REST, hangs);
    curious_start(&c[0], s, 10);
    asker_run(&s->asker);
    assert_int_equal(c[0].why, RENDER_TIMEOUT);
    curious_start(&c[1], s, WAIT_MS); /* the fetch under way, or the memory of its failure */
    asker_run(&s->asker);
    assert_int_equal(c[1].why, RENDER_TIMEOUT);
    stage_free(s);
    static const struct rule none[] = { { 0 } };
    s = stage_new(&(struct origin_opts){ .kind = ORIGIN_TEMPLATE }, "/{title}", none);
    curious_start(&c[0], s, WAIT_MS);
    asker_run(&s->asker);
    assert_int_equal(c[0].why, RENDER_REFUSED);
    assert_null(origin_siteinfo(s->origin));
    stage_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_gives_what_it_has),
        cmocka_unit_test(the_wiki_says_whose_a_cookie_is),
        cmocka_unit_test(the_wiki_says_who_may_read),
        cmocka_unit_test(templates_are_filled_in),
        cmocka_unit_test(a_template_tells_no_page_from_no_revision),
        cmocka_unit_test(a_template_without_revision_has_the_newest_alone),
        cmocka_unit_test(what_is_no_origin_is_refused),
        cmocka_unit_test(transforms_go_out_as_they_must),
        cmocka_unit_test(
            an_empty_reply_is_believed_when_nothing_was_to_come_or_a_serialiser_says_so),
        cmocka_unit_test(a_save_finds_room_while_renders_wait),
        cmocka_unit_test(other_kinds_have_no_transforms),
        cmocka_unit_test(siteinfo_is_asked_for_once),
        cmocka_unit_test(siteinfo_that_is_old_serves_while_asked_again),
        cmocka_unit_test(siteinfo_that_cannot_be_had_is_told_to_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
