/* Goal: a listing is JSON that goes on where it ended, and a title without a history says why it
 * has none. Method: a service on a real store (stage.h). */
#include "stage.h"

#include "page/listing.h"

#include <string.h>

struct told {
    struct page_listing listing;
    struct page_target target;
    struct arena arena;
    struct awaited over;
};

static void listing_over(struct store_call *c)
{
    awaited_tell(&CONTAINER_OF(c, struct told, listing.call)->over, ERR_OK);
}

static err told_run(struct stage *s, struct told *t, const char *title, unsigned limit, str from)
{
    memset(t, 0, sizeof *t);
    arena_init(&t->arena, 1 << 20);
    awaited_init(&t->over);
    t->target = (struct page_target){ .domain = &s->domains[0],
                                      .settings = &s->settings,
                                      .title = str_of(title) };
    t->listing = (struct page_listing){ .call = { .home = home_here(), .done = listing_over },
                                        .service = &s->service,
                                        .target = &t->target,
                                        .what = title[0] == 0 ? LIST_TITLES : LIST_HISTORY,
                                        .limit = limit,
                                        .from = from,
                                        .arena = &t->arena };
    if (page_listing(&t->listing) == STORE_LATER)
        assert_int_equal(awaited_wait(&t->over), ERR_OK);
    awaited_fini(&t->over);
    return t->listing.call.why;
}

static void has(const struct told *t, const char *text, bool want)
{
    assert_non_null(t->listing.json.p);
    if ((strstr(t->listing.json.p, text) != NULL) != want)
        fail_msg("%s: %s", text, t->listing.json.p);
}

static void titles_come_page_by_page(void **state)
{
    (void)state;
    struct stage s;
    struct told t;
    char token[64];
    stage_begin(&s, false);
    assert_int_equal(told_run(&s, &t, "", 2, STR("")), ERR_OK);
    assert_string_equal(t.listing.json.p, "{\"items\":[]}");
    arena_fini(&t.arena);
    (void)stage_put(&s, "A", 1, "<p>");
    (void)stage_put(&s, "B \"b\"", 1, "<p>");
    (void)stage_put(&s, "C", 1, "<p>");
    assert_int_equal(told_run(&s, &t, "", 2, STR("")), ERR_OK);
    has(&t, "{\"items\":[\"A\",\"B \\\"b\\\"\"],\"next\":\"", true);
    has(&t, "\"_links\":{\"next\":{\"href\":\"?page=", true);
    str next = t.listing.list.next;
    assert_true(next.n > 0 && next.n <= sizeof token);
    memcpy(token, next.p, next.n);
    arena_fini(&t.arena);
    assert_int_equal(told_run(&s, &t, "", 2, (str){ .p = token, .n = next.n }), ERR_OK);
    assert_string_equal(t.listing.json.p, "{\"items\":[\"C\"]}");
    arena_fini(&t.arena);
    assert_int_equal(told_run(&s, &t, "", 2, STR("x")), ERR_BAD);
    arena_fini(&t.arena);
    stage_end(&s);
}

static void a_history_is_newest_first(void **state)
{
    (void)state;
    struct stage s;
    struct told t;
    stage_begin(&s, false);
    (void)stage_put(&s, "A", 7, "<p>7");
    (void)stage_put(&s, "A", 8, "<p>8");
    assert_int_equal(told_run(&s, &t, "A", 1, STR("")), ERR_OK);
    has(&t, "{\"items\":[{\"rev\":8,", true);
    has(&t, "\"rev\":7", false);
    has(&t, "\"next\":\"", true);
    has(&t, "_links", false);
    arena_fini(&t.arena);
    stage_end(&s);
}

static void a_title_without_a_history_says_why(void **state)
{
    (void)state;
    struct stage s;
    struct told t;
    struct page_order purge = { .kind = ORDER_PURGE };
    stage_begin(&s, false);
    assert_int_equal(told_run(&s, &t, "A", 9, STR("")), ERR_NOT_FOUND);
    arena_fini(&t.arena);
    (void)stage_put(&s, "A", 7, "<p>");
    assert_int_equal(stage_order(&s, &purge, "A"), ERR_OK);
    assert_int_equal(told_run(&s, &t, "A", 9, STR("")), ERR_GONE);
    assert_int_equal(t.listing.trace.state, PAGE_PURGED);
    arena_fini(&t.arena);
    stage_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(titles_come_page_by_page),
        cmocka_unit_test(a_history_is_newest_first),
        cmocka_unit_test(a_title_without_a_history_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
