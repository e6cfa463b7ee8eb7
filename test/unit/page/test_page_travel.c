/* Goal: a render that travels to other servers arrives as it left, and what anybody else wrote into
 * Redis is refused. Method: there and back; then each prefix, and bytes changed where they matter.
 */
#include "page/travel.h"

#include "base/date.h"

#include "../cmocka_all.h"

static struct page_travel some_render(void)
{
    return (struct page_travel){
        .name = { .rev = 7, .tid = tid_make(0x1f0e6a4a0b0c000, 1) },
        .latest = true,
        .redirect_to = STR("B"),
        .redirect_fragment = STR("top"),
        .contents = { { STR("html"), STR("content-type: text/html\n"), STR("<p>") },
                      { STR("data-parsoid"), STR(""), STR("{}") } },
        .contents_count = 2,
    };
}

static err there_and_back(const struct page_travel *t, struct page_travel *out, struct buf *b)
{
    buf_init(b, 1 << 16);
    page_travel_put(b, t);
    return page_travel_get(buf_str(b), out);
}

static const struct title_word some_word = {
    .redirect = true, .page_id = 9, .rev = 8, .touched = 1800000000, .said = 1800000009
};

static void arrives(struct page_travel t)
{
    struct page_travel out;
    struct buf b;
    assert_int_equal(there_and_back(&t, &out, &b), ERR_OK);
    assert_int_equal(page_name_cmp(out.name, t.name), 0);
    assert_true(out.latest);
    assert_int_equal(out.has_word, t.has_word);
    assert_true(title_word_eq(&out.word, &t.word));
    assert_int_equal(out.word.said, t.word.said);
    assert_true(str_eq(out.redirect_to, t.redirect_to));
    assert_true(str_eq(out.redirect_fragment, t.redirect_fragment));
    assert_int_equal(out.contents_count, 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(str_eq(out.contents[i].name, t.contents[i].name));
        assert_true(str_eq(out.contents[i].headers, t.contents[i].headers));
        assert_true(str_eq(out.contents[i].raw, t.contents[i].raw));
    }
    for (size_t n = 0; n < b.n; n++)
        assert_int_equal(page_travel_get(str_take(buf_str(&b), n), &out), ERR_CORRUPT);
    buf_put_c(&b, 'x');
    assert_int_equal(page_travel_get(buf_str(&b), &out), ERR_CORRUPT);
    static const char others[] = { 0, 1, 2, 3 }; /* versions */
    for (size_t i = 0; i < sizeof others; i++) {
        bool same = others[i] == (t.has_word ? 2 : 1);
        b.p[0] = others[i];
        assert_int_equal(page_travel_get(str_take(buf_str(&b), b.n - 1), &out),
                         same ? ERR_OK : ERR_CORRUPT);
    }
    buf_fini(&b);
}

static void a_render_arrives_as_it_left(void **state)
{
    (void)state;
    struct page_travel t = some_render();
    arrives(t);
    t.has_word = true;
    t.word = some_word;
    arrives(t);
}

static void a_word_that_no_wiki_says_is_refused(void **state)
{
    (void)state;
    struct page_travel out;
    struct buf b;
    for (unsigned i = 0; i < 5; i++) {
        struct page_travel t = some_render();
        t.has_word = true;
        t.word = some_word;
        *(i == 0   ? &t.word.page_id
          : i < 3  ? &t.word.rev
          : i == 3 ? (uint64_t *)&t.word.touched
                   : (uint64_t *)&t.word.said) = i == 1 ? UINT64_MAX : 0;
        assert_int_equal(there_and_back(&t, &out, &b), ERR_CORRUPT);
        buf_fini(&b);
    }
    for (unsigned i = 0; i < 2; i++) {
        struct page_travel t = some_render();
        t.has_word = true;
        t.word = some_word;
        *(i == 0 ? &t.word.touched : &t.word.said) = DATE_S_MAX + 1; /* later than any instant */
        assert_int_equal(there_and_back(&t, &out, &b), ERR_CORRUPT);
        buf_fini(&b);
    }
}

static void what_no_server_writes_is_refused(void **state)
{
    (void)state;
    static const char *const headers[] = { "content-type: x",   "content-type\n", "content-type:\n",
                                           "set-cookie: a=b\n", "a: \x01\n",      ": x\n" };
    static const char *const names[] = { "", "all", "A", "a b" };
    struct page_travel out;
    struct buf b;
    for (size_t i = 0; i < COUNT_OF(headers); i++) {
        struct page_travel t = some_render();
        t.contents[0].headers = str_of(headers[i]);
        assert_int_equal(there_and_back(&t, &out, &b), ERR_CORRUPT);
        buf_fini(&b);
    }
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct page_travel t = some_render();
        t.contents[1].name = str_of(names[i]);
        assert_int_equal(there_and_back(&t, &out, &b), ERR_CORRUPT);
        buf_fini(&b);
    }
    struct page_travel none = some_render(), unnamed = some_render(), huge = some_render();
    none.contents_count = 0;
    unnamed.name.rev = 0;
    huge.name.rev = (uint64_t)INT64_MAX + 1;
    const struct page_travel *const bad[] = { &none, &unnamed, &huge };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_int_equal(there_and_back(bad[i], &out, &b), ERR_CORRUPT);
        buf_fini(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_render_arrives_as_it_left),
        cmocka_unit_test(a_word_that_no_wiki_says_is_refused),
        cmocka_unit_test(what_no_server_writes_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
