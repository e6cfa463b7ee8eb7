/* Goal: a transform is asked of the wiki with the render that its editor began with, and ends as
 * the store and the wiki say; what is kept for an edit is kept for that editor. Method: a service
 * on a real store, in front of a wiki that says what the test says (stage.h). */
#include "stage.h"

#include "base/log.h"
#include "loop/loop.h"
#include "page/quota.h"
#include "page/stash.h"
#include "page/transform.h"
#include "sites.h"

#include <stdio.h>
#include <string.h>

#define HEAD "<html><head></head>"
#define PARSOID(ids)                                                                               \
    "\"data-parsoid\":{\"headers\":{\"content-type\":\"application/json\"},\"body\":{" ids "}}"
#define BUNDLE(html)                                                                               \
    "{\"html\":{\"headers\":{\"content-type\":\"text/html; charset=utf-8\"},\"body\":\"" html      \
    "\"}," PARSOID("\"ids\":{}") "}"

struct transforming {
    struct page_transform page;
    struct arena arena;
    struct task task;
    struct awaited over;
    char body[256], etag[64];
};

static void transform_over(struct page_transform *t)
{
    struct transforming *g = CONTAINER_OF(t, struct transforming, page);
    bool done = t->outcome == TRANSFORM_DONE;
    (void)snprintf(g->body, sizeof g->body, "%.*s", STR_ARG(done ? t->body : STR("")));
    (void)snprintf(g->etag, sizeof g->etag, "%.*s", STR_ARG(done ? t->etag : STR("")));
    awaited_tell(&g->over, ERR_OK);
}

static void transform_init(struct transforming *g, struct stage *s, enum transform_kind kind,
                           const char *title, uint64_t rev)
{
    memset(g, 0, sizeof *g);
    arena_init(&g->arena, 1 << 20);
    awaited_init(&g->over);
    g->page = (struct page_transform){
        .service = &s->service,
        .arena = &g->arena,
        .home = &s->worker.home,
        .kind = kind,
        .target = { .domain = &s->domains[0],
                    .settings = &s->settings,
                    .title = str_of(title),
                    .has_rev = true,
                    .name = { .rev = rev } },
        .fields = { .html = kind <= HTML_TO_HTML ? STR("<p>sent") : STR_NONE,
                    .wikitext = kind <= HTML_TO_HTML ? STR_NONE : STR("sent"),
                    .redlinks = true },
        .deadline = mono_add_ms(clock_mono(s->service.clock), 120000),
        .done = transform_over
    };
}

static void transform_begin(struct task *task)
{
    page_transform_start(&CONTAINER_OF(task, struct transforming, task)->page);
}

static void transform_post(struct transforming *g)
{
    assert_int_equal(page_transform_can(&g->page), TRANSFORM_ALLOWED);
    assert_int_equal(page_transform_check(&g->page), TRANSFORM_ALLOWED);
    g->task.run = transform_begin;
    home_post(g->page.home, &g->task);
}

static enum transform_outcome transform_wait(struct transforming *g)
{
    assert_int_equal(awaited_wait(&g->over), ERR_OK);
    awaited_fini(&g->over);
    return g->page.outcome;
}

static enum transform_outcome transform_run(struct transforming *g)
{
    transform_post(g);
    return transform_wait(g);
}

/* A render as a bundle makes it; its tag. */
static void put_bundle(struct stage *s, const char *title, uint64_t rev, const char *parsoid,
                       char tag[PAGE_TAG_BYTES + 1])
{
    (void)page_tag(stage_put_bundle(s, title, rev, "<p>was", parsoid), tag);
}

/* ---- what is asked ---- */

static void html_goes_with_the_render_that_its_tag_names(void **state)
{
    (void)state;
    struct stage s;
    struct transforming g;
    char tag[PAGE_TAG_BYTES + 1];
    stage_begin(&s, false);
    const struct wiki_transforms *w = wiki_transforms(&s);
    put_bundle(&s, "T", 7, "{\"ids\":{}}", tag);
    transform_init(&g, &s, HTML_TO_WIKITEXT, "t", 7); /* which the wiki writes T */
    g.page.tag = str_of(tag);
    g.page.cookie = STR("session=x"); /* which this domain does not forward */
    assert_int_equal(transform_run(&g), TRANSFORM_DONE);
    assert_string_equal(g.body, "reply");
    assert_true(str_eq(g.page.headers, STR("content-type: text/plain\n")));
    assert_string_equal(g.etag, "");
    assert_string_equal(w->from, "pagebundle");
    assert_string_equal(w->to, "wikitext");
    assert_int_equal(w->rev, 7);
    assert_string_equal(w->cookie, "");
    assert_non_null(strstr(w->body, "\"title\":\"T\",\"revid\":7"));
    assert_non_null(strstr(w->body, "<p>sent"));
    assert_non_null(strstr(w->body, "<p>was"));
    arena_fini(&g.arena);
    transform_init(&g, &s, HTML_TO_WIKITEXT, "", 0); /* of no page: nothing is looked for */
    g.page.fields.html = STR("<ul></ul>");
    assert_int_equal(transform_run(&g), TRANSFORM_DONE);
    assert_string_equal(w->from, "html");
    assert_null(strstr(w->body, "original"));
    assert_int_equal(g.page.holds, HOLDS_ELEMENTS);
    arena_fini(&g.arena);
    stage_end(&s);
}

static void a_render_is_brought_up_to_date(void **state)
{
    (void)state;
    struct stage s;
    struct transforming g;
    char tag[PAGE_TAG_BYTES + 1], meta[128];
    stage_begin(&s, false);
    struct wiki_transforms *w = wiki_transforms(&s);
    put_bundle(&s, "T", 7, "{\"ids\":{}}", tag);
    (void)snprintf(meta, sizeof meta,
                   "<head><meta property=\"mw:TimeUuid\" content=\"%s\"/></head>",
                   strchr(tag, '/') + 1);
    w->reply = BUNDLE(HEAD "new");
    transform_init(&g, &s, HTML_TO_HTML, "T", 7);
    g.page.fields.html = str_of(meta); /* its head names the render */
    assert_int_equal(transform_run(&g), TRANSFORM_DONE);
    assert_string_equal(w->to, "pagebundle");
    assert_non_null(strstr(w->body, "redlinks"));
    assert_non_null(strstr(g.body, strchr(tag, '/') + 1));
    assert_non_null(strstr(g.body, "new"));
    arena_fini(&g.arena);
    static const struct {
        const char *reply;
        err why;
    } odd[] = { { "no json", ERR_CORRUPT }, { BUNDLE("<p>no head"), ERR_CORRUPT } };
    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        w->reply = odd[i].reply;
        transform_init(&g, &s, WIKITEXT_TO_HTML, "T", 7);
        assert_int_equal(transform_run(&g), TRANSFORM_ORIGIN_FAILED);
        assert_int_equal(g.page.why, odd[i].why);
        arena_fini(&g.arena);
    }
    transform_init(&g, &s, WIKITEXT_TO_HTML, "T", 7); /* a fragment has no head */
    g.page.fields.body_only = true;
    assert_int_equal(transform_run(&g), TRANSFORM_DONE);
    assert_string_equal(g.body, "<p>no head");
    arena_fini(&g.arena);
    stage_end(&s);
}

static void an_original_that_is_not_there_ends_it(void **state)
{
    (void)state;
    struct stage s;
    struct transforming g;
    char tag[PAGE_TAG_BYTES + 1];
    struct page_order purge = { .kind = ORDER_PURGE };
    stage_begin(&s, false);
    put_bundle(&s, "T", 7, "{\"no\":{}}", tag);
    transform_init(&g, &s, HTML_TO_WIKITEXT, "T", 7);
    g.page.tag = str_of(tag);
    assert_int_equal(transform_run(&g), TRANSFORM_BAD_ORIGINAL);
    arena_fini(&g.arena);
    transform_init(&g, &s, HTML_TO_WIKITEXT, "U", 7);
    g.page.tag = str_of(tag);
    assert_int_equal(transform_run(&g), TRANSFORM_NO_ORIGINAL);
    arena_fini(&g.arena);
    assert_int_equal(stage_order(&s, &purge, "T"), ERR_OK);
    transform_init(&g, &s, HTML_TO_WIKITEXT, "T", 7);
    g.page.tag = str_of(tag);
    assert_int_equal(transform_run(&g), TRANSFORM_ORIGINAL_FAILED);
    assert_int_equal(g.page.why, ERR_GONE);
    assert_int_equal(g.page.trace.state, PAGE_PURGED);
    arena_fini(&g.arena);
    assert_int_equal(wiki_asked(&s), 0);
    stage_end(&s);
}

/* ---- what is kept ---- */

static void what_is_kept_is_its_users_alone(void **state)
{
    (void)state;
    struct stage s;
    struct transforming g;
    char etag[64];
    stage_begin(&s, false);
    struct wiki_transforms *w = wiki_transforms(&s);
    s.domains[0].forward_cookies = true;
    for (uint64_t user = 0; user < 2; user++) {
        w->reply = BUNDLE(HEAD "preview");
        wiki_say(&s, (struct wiki_says){ .user_id = user });
        transform_init(&g, &s, WIKITEXT_TO_HTML, "T", 0);
        g.page.fields.stash = true;
        g.page.cookie = STR("session=x");
        assert_int_equal(transform_run(&g), TRANSFORM_DONE);
        assert_string_equal(w->cookie, "session=x");
        assert_non_null(strstr(g.body, "mw:TimeUuid"));
        memcpy(etag, g.etag, sizeof etag);
        assert_true(str_starts(str_of(etag), STR("0/")) && str_ends(str_of(etag), STR("/stash")));
        arena_fini(&g.arena);
        for (uint64_t other = 0; other < 3; other++) {
            w->reply = "text";
            wiki_say(&s, (struct wiki_says){ .user_id = other });
            transform_init(&g, &s, HTML_TO_WIKITEXT, "T", 0);
            g.page.tag = str_of(etag);
            g.page.cookie = STR("session=y"); /* cookies change, users do not */
            assert_int_equal(transform_run(&g),
                             other == user ? TRANSFORM_DONE : TRANSFORM_NO_ORIGINAL);
            if (other == user)
                assert_non_null(strstr(w->body, "\"wikitext\":{")); /* it goes back, too */
            arena_fini(&g.arena);
        }
    }
    wiki_say(&s, (struct wiki_says){ .why = RENDER_BUSY }); /* nobody knows whose it is */
    transform_init(&g, &s, HTML_TO_WIKITEXT, "T", 0);
    g.page.tag = str_of(etag);
    g.page.cookie = STR("session=y");
    assert_int_equal(transform_run(&g), TRANSFORM_ORIGIN_FAILED);
    assert_int_equal(g.page.why, ERR_AGAIN);
    assert_int_equal(g.page.retry_ms, 7000);
    arena_fini(&g.arena);
    stage_end(&s);
}

static void what_finds_no_room_is_not_kept(void **state)
{
    (void)state;
    struct stage s;
    struct transforming g;
    stage_begin(&s, false);
    struct wiki_transforms *w = wiki_transforms(&s);
    assert_true(page_stash_take(&s.service, 99950));
    w->reply = BUNDLE(HEAD "preview");
    for (unsigned i = 0; i < 2; i++) {
        transform_init(&g, &s, WIKITEXT_TO_HTML, "T", 7);
        g.page.fields.stash = true;
        assert_int_equal(transform_run(&g), i == 0 ? TRANSFORM_FULL : TRANSFORM_DONE);
        arena_fini(&g.arena);
        page_stash_keep(&s.service, i == 0 ? 99950 : 0, 0);
    }
    static const char *const odd[] = { "{}", "[", BUNDLE("<p>no head") };
    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        w->reply = odd[i];
        transform_init(&g, &s, WIKITEXT_TO_HTML, "T", 7);
        g.page.fields.stash = true;
        assert_int_equal(transform_run(&g), TRANSFORM_ORIGIN_FAILED);
        assert_int_equal(g.page.why, ERR_CORRUPT);
        arena_fini(&g.arena);
    }
    stage_end(&s);
}

/* ---- what the wiki says ---- */

static void what_the_wiki_says_instead_is_told(void **state)
{
    (void)state;
    static const struct {
        enum render_why why, fate;
        uint64_t rev;
        enum transform_outcome outcome;
        err is;
    } cases[] = {
        { RENDER_NO_REVISION, RENDER_NO_PAGE, 7, TRANSFORM_DELETED, ERR_OK },
        { RENDER_NO_REVISION, RENDER_NO_REVISION, 7, TRANSFORM_DELETED, ERR_OK },
        { RENDER_NO_REVISION, RENDER_SUPPRESSED, 7, TRANSFORM_HIDDEN, ERR_OK },
        { RENDER_NO_REVISION, RENDER_FINE, 7, TRANSFORM_ORIGIN_FAILED, ERR_UNAVAILABLE },
        { RENDER_NO_REVISION, RENDER_TIMEOUT, 7, TRANSFORM_ORIGIN_FAILED, ERR_TIMEOUT },
        { RENDER_NO_REVISION, RENDER_FINE, 0, TRANSFORM_ORIGIN_FAILED, ERR_UNAVAILABLE },
        { RENDER_REFUSED, RENDER_FINE, 7, TRANSFORM_REFUSED, ERR_OK },
        { RENDER_DENIED, RENDER_FINE, 7, TRANSFORM_REFUSED, ERR_OK },
        { RENDER_FAILED, RENDER_FINE, 7, TRANSFORM_ORIGIN_FAILED, ERR_UNAVAILABLE },
        { RENDER_BUSY, RENDER_FINE, 7, TRANSFORM_ORIGIN_FAILED, ERR_AGAIN },
    };
    struct stage s;
    struct transforming g;
    stage_begin(&s, false);
    struct wiki_transforms *w = wiki_transforms(&s);
    w->status = 413;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        bool words = cases[i].why == RENDER_REFUSED;
        w->why = cases[i].why;
        w->reply = words ? "{\"message\":\"too much\"}" : "none";
        wiki_say(&s, (struct wiki_says){ .why = cases[i].fate });
        transform_init(&g, &s, WIKITEXT_TO_LINT, "T", cases[i].rev);
        assert_int_equal(transform_run(&g), cases[i].outcome);
        assert_int_equal(g.page.why, cases[i].is);
        if (g.page.outcome == TRANSFORM_REFUSED) {
            assert_int_equal(g.page.origin_status, 413);
            assert_true(str_eq(g.page.words, words ? STR("too much") : STR("the wiki says so")));
        }
        arena_fini(&g.arena);
    }
    stage_end(&s);
}

/* A transform of a stored render, after so long. */
static enum transform_outcome transform_checked(struct stage *s, const char *tag)
{
    struct transforming g;
    transform_init(&g, s, HTML_TO_WIKITEXT, "T", 6);
    g.page.tag = str_of(tag);
    enum transform_outcome outcome = transform_run(&g);
    arena_fini(&g.arena);
    return outcome;
}

/* Revision 6, which is not the wiki's newest; nothing is trusted of it yet. */
static void begin_checked(struct stage *s, char tag[PAGE_TAG_BYTES + 1])
{
    stage_begin_checked(s);
    put_bundle(s, "T", 6, "{\"ids\":{}}", tag);
}

static void an_original_is_used_once_the_wiki_says_that_it_may_be(void **state)
{
    (void)state;
    struct stage s;
    char tag[PAGE_TAG_BYTES + 1];
    begin_checked(&s, tag);
    assert_int_equal(transform_checked(&s, tag), TRANSFORM_DONE);
    assert_int_equal(wiki_words_asked(&s), 1);
    const struct trust_key k = { .domain = s.domains[0].number, .title = STR("T"), .rev = 6 };
    struct trust_cell *c = page_trust_hold(s.service.trust, &k);
    trust_doubt(c, clock_store(s.service.clock));
    trust_release(&c);
    unsigned asked = wiki_asked(&s);
    struct wiki_word w = wiki_word_now(&s);
    w.shown = WORDS_REVISION_HIDDEN;
    wiki_word(&s, w);
    assert_int_equal(transform_checked(&s, tag), TRANSFORM_HIDDEN);
    assert_int_equal(stage_look(&s, "T", 6), ERR_GONE);
    assert_int_equal(transform_checked(&s, tag), TRANSFORM_HIDDEN); /* as it is marked */
    assert_int_equal(wiki_words_asked(&s), 2);
    assert_int_equal(wiki_asked(&s), asked); /* nothing went to the wiki */
    stage_end(&s);
}

/* The page was moved, or deleted: the wiki says which. */
static void an_original_of_a_page_that_went_is_left_to_the_wiki(void **state)
{
    (void)state;
    struct stage s;
    char tag[PAGE_TAG_BYTES + 1];
    begin_checked(&s, tag);
    struct wiki_word w = wiki_word_now(&s);
    w.shown = WORDS_REVISION_MISSING;
    wiki_word(&s, w);
    assert_int_equal(transform_checked(&s, tag), TRANSFORM_DONE);
    assert_int_equal(stage_look(&s, "T", 6), ERR_GONE);
    wiki_transforms(&s)->why = RENDER_NO_REVISION;
    wiki_say(&s, (struct wiki_says){ .why = RENDER_NO_REVISION });
    assert_int_equal(transform_checked(&s, tag), TRANSFORM_DELETED);
    stage_end(&s);
}

static void a_wiki_without_words_leaves_the_original(void **state)
{
    (void)state;
    struct stage s;
    char tag[PAGE_TAG_BYTES + 1];
    begin_checked(&s, tag);
    struct wiki_word w = wiki_word_now(&s);
    w.why = RENDER_FAILED;
    wiki_word(&s, w);
    assert_int_equal(transform_checked(&s, tag), TRANSFORM_DONE);
    stage_end(&s);
}

static void what_a_transform_is_told_is_heard(void **state)
{
    (void)state;
    static const struct {
        enum render_why fate;
        enum transform_outcome outcome;
    } cases[] = { { RENDER_SUPPRESSED, TRANSFORM_HIDDEN },
                  { RENDER_NO_REVISION, TRANSFORM_DELETED },
                  { RENDER_NO_PAGE, TRANSFORM_DELETED } };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct stage s;
        struct transforming g;
        char tag[PAGE_TAG_BYTES + 1];
        begin_checked(&s, tag);
        wiki_transforms(&s)->why = RENDER_NO_REVISION;
        wiki_say(&s, (struct wiki_says){ .why = cases[i].fate });
        transform_init(&g, &s, WIKITEXT_TO_LINT, "T", 6);
        assert_int_equal(transform_run(&g), cases[i].outcome);
        arena_fini(&g.arena);
        assert_int_equal(stage_look(&s, "T", 6), ERR_GONE);
        stage_end(&s);
    }
}

static void leave_on_loop(void *ctx)
{
    struct transforming *g = ctx;
    page_transform_leave(&g->page);
}

static void who_leaves_ends_it(void **state)
{
    (void)state;
    struct stage s;
    struct transforming g;
    stage_begin(&s, false);
    wiki_transforms(&s)->reply = NULL;
    transform_init(&g, &s, WIKITEXT_TO_LINT, "T", 7);
    transform_post(&g);
    wiki_wait(&s, 1);
    loop_post(s.loop, leave_on_loop, &g);
    assert_int_equal(transform_wait(&g), TRANSFORM_ORIGIN_FAILED);
    assert_int_equal(g.page.why, ERR_SHUTDOWN);
    arena_fini(&g.arena);
    stage_end(&s);
}

static void titles_and_rules_come_first(void **state)
{
    (void)state;
    static const struct {
        const char *rules, *title;
        enum origin_transforms told;
        enum transform_outcome outcome;
    } cases[] = {
        { SITE_JSON("de"), "Special:X", TRANSFORMS_HAD, TRANSFORM_BAD_TITLE },
        { SITE_JSON("de"), "T", TRANSFORMS_NONE, TRANSFORM_NONE },
        { SITE_JSON("de"), "", TRANSFORMS_HAD, TRANSFORM_DONE },
        { NULL, "T", TRANSFORMS_HAD, TRANSFORM_ORIGIN_FAILED },
        { NULL, "", TRANSFORMS_HAD, TRANSFORM_ORIGIN_FAILED },
    };
    struct stage s;
    struct transforming g;
    stage_begin(&s, false);
    struct wiki_transforms *w = wiki_transforms(&s);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        wiki_rules(&s, cases[i].rules);
        w->has = TRANSFORMS_UNKNOWN;
        w->told = cases[i].told;
        transform_init(&g, &s, WIKITEXT_TO_LINT, cases[i].title, 0);
        assert_int_equal(transform_run(&g), cases[i].outcome);
        arena_fini(&g.arena);
    }
    stage_end(&s);
}

/* ---- what may be asked ---- */

static void what_cannot_be_asked_is_refused_before_anything_is_done(void **state)
{
    (void)state;
    struct stage s;
    struct transforming g;
    stage_begin(&s, false);
    assert_int_equal(page_transform_kind(STR("html"), STR("html")), HTML_TO_HTML);
    assert_int_equal(page_transform_kind(STR("wikitext"), STR("lint")), WIKITEXT_TO_LINT);
    assert_int_equal(page_transform_kind(STR("lint"), STR("html")), TRANSFORM_KINDS);
    static const struct {
        enum transform_kind kind;
        enum origin_kind of;
        const char *title;
        uint64_t rev;
        const char *html, *wikitext, *tag;
        bool stash, part, redlinks;
        enum transform_refusal can, is;
    } cases[] = {
        { TRANSFORM_KINDS, 0, "T", 7, "", "", "", 0, 0, 0, TRANSFORM_NO_KIND, 0 },
        { HTML_TO_HTML, ORIGIN_REST, "T", 7, "", "", "", 0, 0, 1, TRANSFORM_NO_BUNDLES, 0 },
        { HTML_TO_WIKITEXT, ORIGIN_REST, "T", 7, "", "", "", 0, 0, 0, TRANSFORM_NO_BUNDLES, 0 },
        { HTML_TO_WIKITEXT, ORIGIN_REST, "T", 0, "", "", "x", 0, 0, 0, 0, TRANSFORM_ALLOWED },
        { HTML_TO_WIKITEXT, 0, "T", 0, NULL, "", "", 0, 0, 0, 0, TRANSFORM_NO_HTML },
        { HTML_TO_WIKITEXT, 0, "T", 7, "<p>", "", "", 0, 0, 0, 0, TRANSFORM_BAD_TAG },
        { HTML_TO_WIKITEXT, 0, "T", 0, "<p>", "", "x", 0, 0, 0, 0, TRANSFORM_BAD_TAG },
        { HTML_TO_WIKITEXT, 0, "T", 0, "<p>", "", "", 0, 0, 0, 0, TRANSFORM_ALLOWED },
        { HTML_TO_HTML, 0, "", 7, "<p>", "", "", 0, 0, 1, 0, TRANSFORM_NO_RENDER },
        { HTML_TO_HTML, 0, "T", 0, "<p>", "", "", 0, 0, 1, 0, TRANSFORM_NO_RENDER },
        { HTML_TO_HTML, 0, "T", 7, "<p>", "", "", 0, 0, 0, 0, TRANSFORM_NO_UPDATES },
        { HTML_TO_HTML, 0, "T", 7, NULL, "", "", 0, 0, 1, 0, TRANSFORM_NO_NAME },
        { WIKITEXT_TO_LINT, 0, "T", 7, "", NULL, "", 0, 0, 0, 0, TRANSFORM_NO_WIKITEXT },
        { WIKITEXT_TO_LINT, 0, "", 0, "", "", "", 1, 1, 0, 0, TRANSFORM_ALLOWED },
        { WIKITEXT_TO_HTML, ORIGIN_REST, "T", 7, "", "", "", 1, 0, 0, 0, TRANSFORM_NO_DATA },
        { WIKITEXT_TO_HTML, 0, "", 0, "", "", "", 1, 0, 0, 0, TRANSFORM_KEEPS_NO_PAGE },
        { WIKITEXT_TO_HTML, 0, "T", 7, "", "", "", 1, 1, 0, 0, TRANSFORM_KEEPS_PART },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        wiki_kind(&s, cases[i].of);
        transform_init(&g, &s, cases[i].kind, cases[i].title, cases[i].rev);
        g.page.fields = (struct transform_fields){ .html = str_of(cases[i].html),
                                                   .wikitext = str_of(cases[i].wikitext),
                                                   .stash = cases[i].stash,
                                                   .body_only = cases[i].part,
                                                   .redlinks = cases[i].redlinks };
        g.page.tag = str_of(cases[i].tag);
        assert_int_equal(page_transform_can(&g.page), cases[i].can);
        if (cases[i].can == TRANSFORM_ALLOWED)
            assert_int_equal(page_transform_check(&g.page), cases[i].is);
        awaited_fini(&g.over);
        arena_fini(&g.arena);
    }
    transform_init(&g, &s, WIKITEXT_TO_HTML, "T", 7);
    g.page.target.domain = &s.domains[1];
    assert_int_equal(page_transform_can(&g.page), TRANSFORM_NO_ORIGIN);
    wiki_transforms(&s)->has = TRANSFORMS_NONE;
    g.page.target.domain = &s.domains[0];
    assert_int_equal(page_transform_can(&g.page), TRANSFORM_NO_ORIGIN);
    awaited_fini(&g.over);
    arena_fini(&g.arena);
    stage_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(html_goes_with_the_render_that_its_tag_names),
        cmocka_unit_test(a_render_is_brought_up_to_date),
        cmocka_unit_test(an_original_that_is_not_there_ends_it),
        cmocka_unit_test(what_is_kept_is_its_users_alone),
        cmocka_unit_test(what_finds_no_room_is_not_kept),
        cmocka_unit_test(what_the_wiki_says_instead_is_told),
        cmocka_unit_test(an_original_is_used_once_the_wiki_says_that_it_may_be),
        cmocka_unit_test(an_original_of_a_page_that_went_is_left_to_the_wiki),
        cmocka_unit_test(a_wiki_without_words_leaves_the_original),
        cmocka_unit_test(what_a_transform_is_told_is_heard),
        cmocka_unit_test(who_leaves_ends_it),
        cmocka_unit_test(titles_and_rules_come_first),
        cmocka_unit_test(what_cannot_be_asked_is_refused_before_anything_is_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
