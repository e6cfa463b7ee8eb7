/* Goal: reads find what there is, in both times, and the check finds damage. Method: as
 * test_bucket_page.c. */
#include "fixture.h"

#include "base/buf.h"
#include "bucket/page_write.h"

#include <stdio.h>
#include <string.h>

/* ---- reading in time ---- */

static err find_at(struct fixture *f, enum page_select select, int64_t at, struct page_render *r)
{
    struct page_which w = {
        .domain = f->domain, .title = STR("T"), .select = select, .at = { at }
    };
    struct engine_view *v = engine_view_begin(f->engine);
    err e = page_find(f->bucket, v, &w, r, NULL);
    engine_view_end(&v);
    return e;
}

static void two_clocks_are_told_apart(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_render r;
    struct page_name a = fix_put(f, 1, 0);
    fake_clock_advance(&f->clock, 40 * NS_PER_S);
    struct page_name b = fix_put(f, 3, 20);
    (void)fix_put(f, 2, 10); /* late: never served as latest */
    assert_int_equal(find_at(f, SELECT_SERVED_AT, T0 - 1, &r), ERR_NOT_FOUND);
    assert_int_equal(find_at(f, SELECT_SERVED_AT, T0, &r), ERR_OK);
    assert_name(r.name, a);
    assert_int_equal(find_at(f, SELECT_SERVED_AT, T0 + 40 * NS_PER_S - 1, &r), ERR_OK);
    assert_name(r.name, a);
    assert_int_equal(find_at(f, SELECT_SERVED_AT, T0 + 40 * NS_PER_S, &r), ERR_OK);
    assert_name(r.name, b);
    assert_int_equal(find_at(f, SELECT_CURRENT_AT, T0 - 1, &r), ERR_NOT_FOUND);
    assert_int_equal(find_at(f, SELECT_CURRENT_AT, T0 + 15 * NS_PER_S, &r), ERR_OK);
    assert_int_equal(r.name.rev, 2);
    assert_int_equal(find_at(f, SELECT_CURRENT_AT, T0 + 20 * NS_PER_S, &r), ERR_OK);
    assert_name(r.name, b);
    fake_clock_advance(&f->clock, GRACE);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(find_at(f, SELECT_SERVED_AT, T0, &r), ERR_GONE);
        assert_int_equal(find_at(f, SELECT_CURRENT_AT, T0 + 15 * NS_PER_S, &r), ERR_GONE);
        fix_upkeep(f);
    }
    fixture_free(f);
}

struct listing {
    char text[64];
};

static bool list_title(void *ctx, str title, const struct page_render *r)
{
    struct listing *l = ctx;
    assert_true(r->superseded_at.ns == INT64_MAX);
    size_t n = strlen(l->text);
    assert_true(n + title.n < sizeof(l->text));
    memcpy(l->text + n, title.p, title.n);
    return true;
}

static void titles_come_in_order_once_each(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    static const char *const titles[] = { "b", "a", "ab", "c", "b" };
    for (unsigned i = 0; i < COUNT_OF(titles); i++) {
        struct page_put p = {
            .domain = f->domain, .title = str_of(titles[i]), .rev = i + 1, .contents_count = 1
        };
        p.contents[0] = (struct page_put_content){ .name = STR("html"), .raw = STR("x") };
        assert_int_equal(sync_put(f->bucket, &p), ERR_OK);
    }
    struct listing all = { "" }, rest = { "" };
    const struct page_each to_all = { .render = list_title, .ctx = &all };
    const struct page_each to_rest = { .render = list_title, .ctx = &rest };
    struct engine_view *v = engine_view_begin(f->engine);
    assert_int_equal(page_titles(f->bucket, v, f->domain, STR_NONE, &to_all), ERR_OK);
    assert_int_equal(page_titles(f->bucket, v, f->domain, STR("a"), &to_rest), ERR_OK);
    engine_view_end(&v);
    assert_string_equal(all.text, "aabbc");
    assert_string_equal(rest.text, "abbc");
    fixture_free(f);
}

static bool list_rev(void *ctx, str title, const struct page_render *r)
{
    uint64_t *revs = ctx;
    assert_true(str_eq(title, STR("T")));
    *revs = 10 * *revs + r->name.rev;
    return true;
}

/* The revisions that are pinned, as digits, looked at so many renders at a time. */
static uint64_t stashed_revs(struct fixture *f, unsigned steps)
{
    uint64_t revs = 0;
    const struct page_each each = { .render = list_rev, .ctx = &revs };
    struct page_stash_walk w = { .domain = f->domain };
    bool more = true;
    for (unsigned asked = 0; more; asked++) {
        assert_true(asked < 10);
        w.steps = steps;
        struct engine_view *v = engine_view_begin(f->engine);
        assert_int_equal(page_stashes(f->bucket, v, &w, &each, &more), ERR_OK);
        engine_view_end(&v);
    }
    return revs;
}

static void stashes_are_found_in_steps_and_end_by_order(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_name names[5];
    struct page_order o = { 0 };
    for (unsigned i = 1; i < COUNT_OF(names); i++) {
        names[i] = fix_put(f, i, i);
        if (i != 3)
            assert_int_equal(fix_order(f, ORDER_STASH, names[i], &o), ERR_OK);
    }
    for (unsigned steps = 1; steps < 6; steps++)
        assert_int_equal(stashed_revs(f, steps), 421);
    int64_t pinned_ns = o.pinned_ns;
    assert_true(pinned_ns > 0);
    assert_int_equal(fix_order(f, ORDER_STASH, names[2], &o), ERR_OK);
    assert_int_equal(o.pinned_ns, 0); /* as long already */
    assert_int_equal(fix_order(f, ORDER_UNSTASH, names[2], &o), ERR_OK);
    assert_int_equal(o.pinned_ns, pinned_ns);
    assert_int_equal(fix_order(f, ORDER_UNSTASH, names[2], &o), ERR_OK);
    assert_int_equal(o.pinned_ns, 0); /* gone already */
    assert_int_equal(stashed_revs(f, 2), 41);
    fake_clock_advance(&f->clock, GRACE);
    struct page_trace t;
    assert_int_equal(fix_gone(f, names[2], &t), ERR_GONE);
    assert_name(fix_exact(f, names[1]).name, names[1]);
    fake_clock_advance(&f->clock, 2 * HOUR);
    assert_int_equal(stashed_revs(f, 9), 0);
    fixture_free(f);
}

static void explain_answers_for_everything(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_name a = fix_put(f, 1, 0), b = fix_put(f, 2, 1);
    struct page_order o = { 0 };
    fake_clock_advance(&f->clock, GRACE);
    (void)fix_put(f, 3, 2);
    assert_int_equal(fix_order(f, ORDER_PURGE, b, &o), ERR_OK);
    const struct {
        struct page_name name;
        enum page_state state;
    } rows[] = {
        { a, PAGE_CULLED },
        { b, PAGE_PURGED },
        { fix_latest(f).name, PAGE_CURRENT },
        { { .rev = 9 }, PAGE_UNKNOWN },
    };
    for (unsigned i = 0; i < COUNT_OF(rows); i++) {
        struct page_which w = {
            .domain = f->domain, .title = STR("T"), .select = SELECT_EXACT, .name = rows[i].name
        };
        struct page_explanation x;
        struct engine_view *v = engine_view_begin(f->engine);
        assert_int_equal(page_explain(f->bucket, v, &w, &x), ERR_OK);
        engine_view_end(&v);
        assert_int_equal(x.state, rows[i].state);
        assert_non_null(x.reason);
    }
    fixture_free(f);
}

/* ---- what cannot be read ---- */

struct told {
    char text[160];
    unsigned stop_at;
};

static void told_add(struct told *t, const char *kind, str title, uint64_t rev)
{
    size_t n = strlen(t->text);
    (void)snprintf(t->text + n, sizeof(t->text) - n, "%s%.*s%llu ", kind, STR_ARG(title),
                   (unsigned long long)rev);
}

static bool told_render(void *ctx, str title, const struct page_render *r)
{
    told_add(ctx, "", title, r->name.rev);
    return true;
}

static bool told_damaged(void *ctx, str title, const struct page_name *name)
{
    struct told *t = ctx;
    if (t->stop_at > 0 && name->rev == t->stop_at)
        return false;
    told_add(t, "!", title, name == NULL ? 0 : name->rev);
    return true;
}

/* The row of a stored render no longer decodes. */
static void damage_render(struct fixture *f, str title, struct page_name name)
{
    char key[600];
    size_t n = 0;
    struct engine_view *v = engine_view_begin(f->engine);
    const struct engine_range all = { .space = SPACE_RENDER };
    struct engine_cursor *c = engine_cursor_open(v, &all);
    struct engine_row row;
    while (n == 0 && engine_cursor_next(c, &row) == ERR_OK) {
        str names = str_skip(row.key, row.key.n - 24);
        bool its = str_eq(str_take(str_skip(row.key, 6), row.key.n - 31), title) &&
                   ~get_be64(names.p) == name.rev;
        if (!its)
            continue;
        memcpy(key, row.key.p, row.key.n);
        n = row.key.n;
    }
    engine_cursor_close(&c);
    engine_view_end(&v);
    assert_true(n > 0);
    engine_mem_damage(f->engine, SPACE_RENDER, (str){ key, n }, STR("damaged"));
}

static void undamage_render(struct fixture *f, struct page_name name)
{
    struct page_order o = { 0 };
    assert_int_equal(fix_order(f, ORDER_PURGE, name, &o), ERR_OK);
    fake_clock_advance(&f->clock, 30 * HOUR);
    fix_upkeep(f);
}

static const char *told_history(struct fixture *f, struct told *t)
{
    const struct page_each each = { .render = told_render, .damaged = told_damaged, .ctx = t };
    struct engine_view *v = engine_view_begin(f->engine);
    assert_int_equal(page_history(f->bucket, v, f->domain, STR("T"), NULL, &each), ERR_OK);
    engine_view_end(&v);
    return t->text;
}

static void history_goes_past_damaged_rows_and_names_them(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_ALL));
    struct page_name names[5];
    for (unsigned i = 1; i <= 4; i++)
        names[i] = fix_put(f, i, i);
    damage_render(f, STR("T"), names[2]);
    struct told all = { "", 0 }, cut = { "", 2 };
    assert_string_equal(told_history(f, &all), "T4 T3 !T2 T1 ");
    assert_string_equal(told_history(f, &cut), "T4 T3 ");
    struct pages_stats stats;
    pages_stats_get(f->pages, &stats);
    assert_int_equal(stats.damaged, 1); /* what was told; who stopped there comes back for it */
    struct page_render r;
    assert_int_equal(fix_find(f, SELECT_EXACT, names[2], &r, NULL), ERR_CORRUPT);
    assert_int_equal(fix_find(f, SELECT_REV, names[2], &r, NULL), ERR_CORRUPT);
    assert_int_equal(fix_find(f, SELECT_EXACT, names[1], &r, NULL), ERR_OK);
    const struct page_each deaf = { .render = told_render, .ctx = &all };
    struct engine_view *v = engine_view_begin(f->engine);
    assert_int_equal(page_history(f->bucket, v, f->domain, STR("T"), NULL, &deaf), ERR_CORRUPT);
    engine_view_end(&v);
    undamage_render(f, names[2]);
    fixture_free(f);
}

static void titles_go_past_damaged_rows_and_name_them(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_ALL));
    static const char *const titles[] = { "a", "T", "T", "z" };
    for (unsigned i = 0; i < COUNT_OF(titles); i++) {
        struct page_put p = {
            .domain = f->domain, .title = str_of(titles[i]), .rev = i + 1, .contents_count = 1
        };
        p.contents[0] = (struct page_put_content){ .name = STR("html"), .raw = STR("x") };
        assert_int_equal(sync_put(f->bucket, &p), ERR_OK);
    }
    struct page_name latest = fix_latest(f).name;
    damage_render(f, STR("T"), latest);
    struct told t = { "", 0 };
    const struct page_each each = { .render = told_render, .damaged = told_damaged, .ctx = &t };
    struct engine_view *v = engine_view_begin(f->engine);
    assert_int_equal(page_titles(f->bucket, v, f->domain, STR_NONE, &each), ERR_OK);
    engine_view_end(&v);
    assert_string_equal(t.text, "!T3 a1 z4 "); /* the title's older render is not its latest */
    undamage_render(f, latest);
    fixture_free(f);
}

static void explain_goes_past_damaged_rows_and_names_them(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_ALL));
    struct page_name a = fix_put(f, 1, 0), b = fix_put(f, 2, 1);
    damage_render(f, STR("T"), b);
    struct page_which w = { .domain = f->domain, .title = STR("T"), .select = SELECT_LATEST };
    struct page_explanation x;
    struct engine_view *v = engine_view_begin(f->engine);
    assert_int_equal(page_explain(f->bucket, v, &w, &x), ERR_OK);
    assert_name(x.render.name, a);
    assert_int_equal(x.passed, 1);
    assert_name(x.passed_name, b);
    w.select = SELECT_EXACT;
    w.name = b;
    assert_int_equal(page_explain(f->bucket, v, &w, &x), ERR_CORRUPT);
    w.select = SELECT_REV;
    assert_int_equal(page_explain(f->bucket, v, &w, &x),
                     ERR_CORRUPT); /* nothing else is known of it */
    engine_view_end(&v);
    undamage_render(f, b);
    fixture_free(f);
}

/* ---- walks in time are bounded ---- */

struct many {
    char key[600], value[ENGINE_VALUE_BYTES_MAX], blob[4096];
    size_t key_n, value_n, blob_n;
    uint64_t high, low; /* revisions of one update */
    bool gone;
};

static err many_decide(struct engine_txn *t, void *ctx)
{
    const struct many *m = ctx;
    char key[600];
    err e = ERR_OK;
    memcpy(key, m->key, m->key_n);
    for (uint64_t i = 0; i <= m->high - m->low && e == ERR_OK;
         i++) { /* both at the end of the rows: cheap */
        uint64_t rev = m->gone ? m->low + i : m->high - i;
        put_be64(key + m->key_n - 24, ~rev);
        str k = { key, m->key_n };
        e = m->gone ? engine_txn_delete(t, SPACE_RENDER, k)
                    : engine_txn_put(t, SPACE_RENDER, k, (str){ m->value, m->value_n },
                                     (str){ m->blob, m->blob_n });
    }
    return e;
}

/* Copies of the newest row under revisions 2 to PAGE_AT_STEPS_MAX + 1, or none again. */
static void many_set(struct fixture *f, struct many *m, bool gone)
{
    enum { BATCHES = 20, BATCH = PAGE_AT_STEPS_MAX / BATCHES };
    m->gone = gone;
    for (unsigned i = 0; i < BATCHES; i++) {
        m->low = 2 + (uint64_t)BATCH * (gone ? i : BATCHES - 1 - i);
        m->high = m->low + BATCH - 1;
        assert_int_equal(engine_update_wait(f->engine, many_decide, m), ERR_OK);
    }
}

static void walks_in_time_end_at_a_limit(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_ALL));
    struct many m;
    struct page_render r;
    (void)fix_put(f, 1, 0);
    struct engine_view *v = engine_view_begin(f->engine);
    const struct engine_range all = { .space = SPACE_RENDER };
    struct engine_cursor *c = engine_cursor_open(v, &all);
    struct engine_row row;
    assert_int_equal(engine_cursor_next(c, &row), ERR_OK);
    m.key_n = row.key.n;
    m.value_n = row.value.n;
    m.blob_n = row.blob.n;
    assert_true(m.blob_n <= sizeof(m.blob));
    memcpy(m.key, row.key.p, m.key_n);
    memcpy(m.value, row.value.p, m.value_n);
    memcpy(m.blob, row.blob.mem, m.blob_n);
    engine_cursor_close(&c);
    engine_view_end(&v);
    many_set(f, &m, false);
    assert_int_equal(find_at(f, SELECT_SERVED_AT, T0 - 1, &r), ERR_LIMIT);
    assert_int_equal(find_at(f, SELECT_CURRENT_AT, T0 - 1, &r), ERR_LIMIT);
    assert_int_equal(find_at(f, SELECT_SERVED_AT, T0, &r), ERR_OK);
    many_set(f, &m, true);
    assert_int_equal(find_at(f, SELECT_CURRENT_AT, T0, &r), ERR_OK);
    fixture_free(f);
}

/* ---- titles as keys ---- */

static void title_keys_are_normal_and_bounded(void **state)
{
    (void)state; /* unused */
    struct arena a;
    struct err_note note = { "" };
    str key;
    char longest[PAGE_TITLE_BYTES_MAX + 1];
    memset(longest, 'x', sizeof(longest));
    arena_init(&a, 1u << 20);
    assert_int_equal(page_title_key(&a, STR("e\xcc\x81"), &key, &note), ERR_OK);
    assert_true(str_eq(key, STR("\xc3\xa9")));
    assert_int_equal(page_title_key(&a, (str){ longest, PAGE_TITLE_BYTES_MAX }, &key, &note),
                     ERR_OK);
    assert_int_equal(page_title_key(&a, (str){ longest, sizeof(longest) }, &key, &note), ERR_BAD);
    static const char *const bad[] = { "", ".", "..", "a\x01", "a\x7f", "\xff", "\xed\xa0\x80" };
    for (unsigned i = 0; i < COUNT_OF(bad); i++)
        assert_int_equal(page_title_key(&a, str_of(bad[i]), &key, &note), ERR_BAD);
    assert_int_equal(page_title_key(&a, (str){ "a\0b", 3 }, &key, &note), ERR_BAD);
    arena_fini(&a);
}

static void check_finds_what_is_damaged(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    unsigned found = 0;
    (void)fix_put(f, 1, 0);
    (void)fix_put(f, 2, 1);
    assert_int_equal(pages_check(f->pages, damage_found, NULL), ERR_OK);
    struct engine_view *v = engine_view_begin(f->engine);
    const struct engine_range all = { .space = SPACE_DUE };
    struct engine_cursor *c = engine_cursor_open(v, &all);
    struct engine_row row;
    char key[ENGINE_KEY_BYTES_MAX];
    assert_int_equal(engine_cursor_next(c, &row), ERR_OK);
    size_t n = row.key.n;
    memcpy(key, row.key.p, n);
    engine_cursor_close(&c);
    engine_view_end(&v);
    engine_mem_damage(f->engine, SPACE_DUE, (str){ key, n }, STR_NONE);
    assert_int_equal(pages_check(f->pages, damage_found, &found), ERR_CORRUPT);
    engine_mem_damage(f->engine, SPACE_DUE, (str){ key, n }, STR(""));
    key[7]++;
    engine_mem_damage(f->engine, SPACE_DUE, (str){ key, n }, STR(""));
    assert_int_equal(pages_check(f->pages, damage_found, &found), ERR_CORRUPT);
    engine_mem_damage(f->engine, SPACE_DUE, (str){ key, n }, STR_NONE);
    fixture_free(f);
}

/* The first row of a space, its value cut short. */
static void cut_first_row(struct fixture *f, enum engine_space space)
{
    struct engine_view *v = engine_view_begin(f->engine);
    const struct engine_range all = { .space = space, .reversed = space == SPACE_RENDER };
    struct engine_cursor *c = engine_cursor_open(v, &all);
    struct engine_row row;
    char key[ENGINE_KEY_BYTES_MAX], value[ENGINE_VALUE_BYTES_MAX];
    assert_int_equal(engine_cursor_next(c, &row), ERR_OK);
    size_t key_n = row.key.n, value_n = row.value.n - 1;
    memcpy(key, row.key.p, key_n);
    memcpy(value, row.value.p, value_n);
    engine_cursor_close(&c);
    engine_view_end(&v);
    engine_mem_damage(f->engine, space, (str){ key, key_n }, (str){ value, value_n });
}

static void damaged_row_does_not_stop_the_culls(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    for (uint64_t rev = 1; rev <= 4; rev++)
        (void)fix_put(f, rev, -1);
    cut_first_row(f, SPACE_RENDER); /* of revision 1 */
    assert_int_equal(pages_check(f->pages, damage_found, NULL), ERR_CORRUPT);
    fake_clock_advance(&f->clock, GRACE);
    fix_upkeep(f);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 1);
    assert_int_equal(traces_stored(f->engine), 2);
    cut_first_row(f, SPACE_LEDGER);
    fake_clock_advance(&f->clock, (240 + 6) * HOUR);
    fix_upkeep(f);
    assert_int_equal(traces_stored(f->engine), 0);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_DUE), 0);
    fixture_free(f);
}

static void damaged_title_does_not_stop_the_culls_of_others(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_order o = { 0 };
    char key[ENGINE_KEY_BYTES_MAX], value[ENGINE_VALUE_BYTES_MAX];
    for (uint64_t rev = 1; rev <= 2; rev++)
        (void)fix_put(f, rev, -1);
    fake_clock_advance(&f->clock, GRACE);
    fix_upkeep(f);
    (void)fix_put(f, 3, -1);
    for (uint64_t rev = 1; rev <= 2; rev++) {
        struct page_put p = {
            .domain = f->domain, .title = STR("U"), .rev = rev, .contents_count = 1
        };
        p.contents[0] = (struct page_put_content){ .name = STR("html"), .raw = STR("x") };
        assert_int_equal(sync_put(f->bucket, &p), ERR_OK);
    }
    struct engine_view *v = engine_view_begin(f->engine);
    const struct engine_range all = { .space = SPACE_TITLE };
    struct engine_cursor *c = engine_cursor_open(v, &all);
    struct engine_row row;
    assert_int_equal(engine_cursor_next(c, &row), ERR_OK);
    str its_key = { key, row.key.n }, its_value = { value, row.value.n };
    memcpy(key, row.key.p, row.key.n);
    memcpy(value, row.value.p, row.value.n);
    engine_cursor_close(&c);
    engine_view_end(&v);
    cut_first_row(f, SPACE_TITLE); /* of T, which has a trace */
    fake_clock_advance(&f->clock, GRACE);
    fix_upkeep(f);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 3); /* two of T, one of U */
    assert_int_equal(pages_check(f->pages, damage_found, NULL), ERR_CORRUPT);
    engine_mem_damage(f->engine, SPACE_TITLE, its_key, its_value);
    assert_int_equal(fix_order(f, ORDER_PURGE, (struct page_name){ 0 }, &o), ERR_OK);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_RENDER), 1);
    fixture_free(f);
}

static void damaged_title_can_be_purged(void **state)
{
    (void)state; /* unused */
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_order o = { 0 };
    struct page_render r;
    struct page_name a = fix_put(f, 1, -1);
    (void)fix_put(f, 2, -1);
    cut_first_row(f, SPACE_RENDER);
    assert_int_equal(fix_find(f, SELECT_EXACT, a, &r, NULL), ERR_CORRUPT);
    assert_int_equal(fix_order(f, ORDER_PURGE, a, &o), ERR_OK);
    assert_int_equal(o.purged, 1);
    assert_int_equal(fix_latest(f).name.rev, 2);
    assert_int_equal(fix_history(f), 1);
    fake_clock_advance(&f->clock, GRACE);
    fix_upkeep(f);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_clocks_are_told_apart),
        cmocka_unit_test(titles_come_in_order_once_each),
        cmocka_unit_test(stashes_are_found_in_steps_and_end_by_order),
        cmocka_unit_test(explain_answers_for_everything),
        cmocka_unit_test(history_goes_past_damaged_rows_and_names_them),
        cmocka_unit_test(titles_go_past_damaged_rows_and_name_them),
        cmocka_unit_test(explain_goes_past_damaged_rows_and_names_them),
        cmocka_unit_test(walks_in_time_end_at_a_limit),
        cmocka_unit_test(title_keys_are_normal_and_bounded),
        cmocka_unit_test(check_finds_what_is_damaged),
        cmocka_unit_test(damaged_row_does_not_stop_the_culls),
        cmocka_unit_test(damaged_title_does_not_stop_the_culls_of_others),
        cmocka_unit_test(damaged_title_can_be_purged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
