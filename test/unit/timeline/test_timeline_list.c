/* Goal: pages of timelines hold each entry once, in order, and none that is too new; a pivot that
 * belongs to another list is refused. Method: entries of domains and titles in a real engine,
 * listed in pages of every size. */
#include "timeline/timeline.h"

#include "../cmocka_all.h"
#include "../scratch.h"
#include "engine/store.h"

#include <stdio.h>
#include <string.h>

enum { SEEN_MAX = 4000 };

struct fixture {
    char dir[FOLDER_PATH_BYTES];
    struct fake_clock clock;
    struct engine *engine;
    char seen[SEEN_MAX]; /* "domain.title.rev.second ", one behind the other */
    size_t seen_n;
};

static int set_up(void **state)
{
    static struct fixture f; /* one at a time: cmocka runs tests in turn */
    folder_make(f.dir);
    fake_clock_init(&f.clock, 1000 * NS_PER_S);
    f.engine = scratch_engine(f.dir, &f.clock.clock);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    engine_close(&f->engine);
    folder_remove(f->dir);
    return 0;
}

struct job {
    struct timeline_where where;
    struct timeline_entry entry;
};

static err add_decide(struct engine_txn *t, void *ctx)
{
    const struct job *j = ctx;
    return timeline_add(t, &j->where, &j->entry);
}

static void add(struct fixture *f, enum timeline_kind kind, uint32_t domain, const char *title,
                uint64_t rev, int64_t at_s)
{
    struct job j = { .where = { .kind = kind, .domain = domain, .title = str_of(title) },
                     .entry = { .at = { .ns = at_s * NS_PER_S }, .rev = rev } };
    assert_int_equal(engine_update_wait(f->engine, add_decide, &j), ERR_OK);
}

static bool seen_take(void *ctx, const struct timeline_where *w, const struct timeline_entry *e)
{
    struct fixture *f = ctx;
    int n = snprintf(f->seen + f->seen_n, SEEN_MAX - f->seen_n, "%u.%.*s.%u.%u ", w->domain,
                     STR_ARG(w->title), (unsigned)e->rev, (unsigned)(e->at.ns / NS_PER_S));
    f->seen_n += (size_t)n;
    assert_true(f->seen_n < SEEN_MAX);
    return true;
}

/* All pages, one behind the other. */
static const char *list(struct fixture *f, struct timeline_listing l, unsigned limit)
{
    char pivot[TIMELINE_KEY_BYTES_MAX];
    f->seen_n = 0;
    f->seen[0] = '\0';
    l.limit = limit;
    l.take = seen_take;
    l.ctx = f;
    for (unsigned pages = 0;; pages++) {
        struct engine_view *v = engine_view_begin(f->engine);
        assert_int_equal(timeline_list(v, &l), ERR_OK);
        engine_view_end(&v);
        if (l.next_n == 0)
            return f->seen;
        memcpy(pivot, l.next, l.next_n);
        l.pivot = (str){ .p = pivot, .n = l.next_n };
        assert_true(pages < 100);
    }
}

static void fill(struct fixture *f)
{
    add(f, TIMELINE_REVISION, 2, "B", 1, 10);
    add(f, TIMELINE_REVISION, 2, "A", 1, 20);
    add(f, TIMELINE_REVISION, 2, "A", 2, 30);
    add(f, TIMELINE_RENDER, 2, "A", 3, 25);
    add(f, TIMELINE_RENDER, 2, "A", 2, 5);
    add(f, TIMELINE_REVISION, 9, "A", 7, 1);
    add(f, TIMELINE_REVISION, 9, "A", 8, 99);
    add(f, TIMELINE_REVISION, 1, "A", 4, 50);
}

static void what_fell_due_comes_in_order_of_time(void **state)
{
    struct fixture *f = *state;
    fill(f);
    for (unsigned limit = 1; limit < 10; limit++) {
        struct timeline_listing all = { .kind = -1, .before = { .ns = 30 * NS_PER_S } };
        assert_string_equal(list(f, all, limit), "2.A.2.5 2.B.1.10 2.A.1.20 2.A.3.25 9.A.7.1 ");
        struct timeline_listing one = all;
        one.has_domain = true;
        one.domain = 9;
        assert_string_equal(list(f, one, limit), "9.A.7.1 ");
        one.domain = 3;
        assert_string_equal(list(f, one, limit), "");
        struct timeline_listing renders = all;
        renders.kind = TIMELINE_RENDER;
        assert_string_equal(list(f, renders, limit), "2.A.2.5 2.A.3.25 ");
        struct timeline_listing ever = all;
        ever.before = STORE_TIME_NEVER;
        assert_string_equal(
            list(f, ever, limit),
            "1.A.4.50 2.A.2.5 2.B.1.10 2.A.1.20 2.A.3.25 2.A.2.30 9.A.7.1 9.A.8.99 ");
    }
}

static void a_title_is_listed_newest_first(void **state)
{
    struct fixture *f = *state;
    fill(f);
    add(f, TIMELINE_REVISION, 2, "AA", 1, 2);
    for (unsigned limit = 1; limit < 10; limit++) {
        struct timeline_listing title = { .has_domain = true,
                                          .domain = 2,
                                          .title = STR("A"),
                                          .kind = -1,
                                          .before = STORE_TIME_NEVER };
        assert_string_equal(list(f, title, limit), "2.A.2.30 2.A.1.20 2.A.3.25 2.A.2.5 ");
        title.before.ns = 30 * NS_PER_S;
        assert_string_equal(list(f, title, limit), "2.A.1.20 2.A.3.25 2.A.2.5 ");
        title.kind = TIMELINE_REVISION;
        assert_string_equal(list(f, title, limit), "2.A.1.20 ");
        title.kind = TIMELINE_RENDER;
        title.before.ns = 20 * NS_PER_S;
        assert_string_equal(list(f, title, limit), "2.A.2.5 ");
    }
}

static err pivoted(struct fixture *f, struct timeline_listing l, const struct timeline_listing *of)
{
    struct timeline_listing first = *of;
    first.limit = 1;
    first.take = l.take = seen_take;
    first.ctx = l.ctx = f;
    l.limit = 1;
    struct engine_view *v = engine_view_begin(f->engine);
    assert_int_equal(timeline_list(v, &first), ERR_OK);
    assert_true(first.next_n > 0);
    l.pivot = (str){ .p = first.next, .n = first.next_n };
    err why = timeline_list(v, &l);
    if (l.pivot.n > 3) {
        l.pivot.n -= 3;
        assert_int_equal(timeline_list(v, &l), ERR_BAD);
    }
    engine_view_end(&v);
    return why;
}

static void a_pivot_of_another_list_is_refused(void **state)
{
    struct fixture *f = *state;
    fill(f);
    f->seen_n = 0;
    const struct timeline_listing all = { .kind = -1, .before = STORE_TIME_NEVER };
    const struct timeline_listing domain = {
        .has_domain = true, .domain = 2, .kind = -1, .before = STORE_TIME_NEVER
    };
    struct timeline_listing other = domain, title = domain, another = domain, kind = domain;
    other.domain = 9;
    title.title = STR("A");
    another.title = STR("B");
    kind.title = STR("A");
    kind.kind = TIMELINE_RENDER;
    assert_int_equal(pivoted(f, all, &all), ERR_OK);
    assert_int_equal(pivoted(f, domain, &domain), ERR_OK);
    assert_int_equal(pivoted(f, all, &domain), ERR_OK);
    assert_int_equal(pivoted(f, title, &title), ERR_OK);
    assert_int_equal(pivoted(f, other, &domain), ERR_BAD);
    assert_int_equal(pivoted(f, title, &domain), ERR_BAD);
    assert_int_equal(pivoted(f, domain, &title), ERR_BAD);
    assert_int_equal(pivoted(f, another, &title), ERR_BAD);
    assert_int_equal(pivoted(f, kind, &title), ERR_BAD);
}

static bool stop_take(void *ctx, const struct timeline_where *w, const struct timeline_entry *e)
{
    (void)w, (void)e;
    ++*(unsigned *)ctx;
    return false;
}

static void who_takes_may_end_a_page(void **state)
{
    struct fixture *f = *state;
    unsigned taken = 0;
    fill(f);
    struct timeline_listing l = { .kind = -1,
                                  .before = STORE_TIME_NEVER,
                                  .limit = TIMELINE_LIST_MAX,
                                  .take = stop_take,
                                  .ctx = &taken };
    struct engine_view *v = engine_view_begin(f->engine);
    assert_int_equal(timeline_list(v, &l), ERR_OK);
    engine_view_end(&v);
    assert_int_equal(taken, 1);
    assert_true(l.next_n > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_fell_due_comes_in_order_of_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_title_is_listed_newest_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_pivot_of_another_list_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_takes_may_end_a_page, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
