/* Goal: who follows is told each change of a title once, in order, after it is on disk and never of
 * what failed; who keeps what it was told knows the latest render at each moment. Method: scripts
 * with one change each, and random histories whose changes, replayed, are compared with the
 * store. */
#include "base/rng.h"
#include "fixture.h"
#include "store/page_store.h"

#include <stdio.h>

enum { TOLD_MAX = 256, NAMES_MAX = 512, STEPS = 4000, REVS = 6 };

/* A follower that writes down what it is told, when its home runs. */
struct scribe {
    struct home home;
    struct task_list waiting;
    struct fixture *f;
    struct page_change told[TOLD_MAX];
    unsigned count;
    struct page_position last;
    /* what is stored, by what was told */
    struct page_name names[NAMES_MAX];
    unsigned names_count;
    bool has_latest;
    struct page_name latest;
};

static void scribe_post(struct home *h, struct task *t)
{
    struct scribe *s = CONTAINER_OF(h, struct scribe, home);
    (void)task_list_put(&s->waiting, t);
}

static unsigned scribe_place(const struct scribe *s, struct page_name name)
{
    unsigned i = 0;
    while (i < s->names_count && page_name_cmp(s->names[i], name) != 0)
        i++;
    return i;
}

static bool scribe_is_latest(const struct scribe *s, struct page_name name)
{
    return s->has_latest && page_name_cmp(s->latest, name) == 0;
}

static void scribe_replay(struct scribe *s, const struct page_change *c)
{
    unsigned i = scribe_place(s, c->name);
    bool is_new = i == s->names_count;
    switch (c->what) {
    case CHANGE_STORED:
    case CHANGE_LATEST:
        assert_true(i < NAMES_MAX);
        s->names[i] = c->name;
        s->names_count += is_new;
        if (c->what == CHANGE_LATEST) {
            s->has_latest = true;
            s->latest = c->name;
        }
        break;
    case CHANGE_CULLED:
    case CHANGE_PURGED:
        assert_false(is_new);
        s->names[i] = s->names[--s->names_count];
        s->has_latest = s->has_latest && !scribe_is_latest(s, c->name);
        break;
    case CHANGE_SUPERSEDED:
        assert_false(is_new);
        s->has_latest = s->has_latest && !scribe_is_latest(s, c->name);
        break;
    case CHANGE_HIDDEN:
    case CHANGE_SHOWN:
    case CHANGE_DATED:
    case CHANGE_DUE:
        assert_false(is_new);
        break;
    case CHANGE_WHATS:
        fail();
    }
}

static void scribe_told(void *ctx, const struct page_change *changes, unsigned count)
{
    struct scribe *s = ctx;
    assert_true(count > 0);
    for (unsigned i = 0; i < count; i++) {
        const struct page_change *c = &changes[i];
        assert_true(page_position_cmp(s->last, c->position) < 0);
        assert_true(str_eq(c->title, STR("T")));
        assert_int_equal(c->domain, s->f->domain);
        assert_int_equal(c->bucket, page_bucket_number(s->f->bucket));
        s->last = c->position;
        scribe_replay(s, c);
        s->told[s->count] = *c;
        s->count = (s->count + 1) % TOLD_MAX;
    }
}

static void scribe_follow(struct scribe *s)
{
    const struct page_follower follower = { .told = scribe_told, .ctx = s, .home = &s->home };
    page_store_follow(pages_store(s->f->pages), &follower);
}

static struct scribe *scribe_new(enum page_policy_kind kind)
{
    struct scribe *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->home.post = scribe_post;
    s->f = fixture_new(fix_policy(kind));
    scribe_follow(s);
    return s;
}

static void scribe_read(struct scribe *s)
{
    for (struct task *t = task_list_take(&s->waiting); t != NULL; t = task_list_take(&s->waiting))
        t->run(t);
}

static void scribe_free(struct scribe *s)
{
    scribe_read(s);
    fixture_free(s->f);
    free(s);
}

/* What was told since the last time, as "latest 2, superseded 1 by 2". */
static void assert_told(struct scribe *s, const char *should)
{
    char text[1024] = "";
    size_t n = 0;
    s->count = 0;
    scribe_read(s);
    for (unsigned i = 0; i < s->count; i++) {
        const struct page_change *c = &s->told[i];
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %llu", i > 0 ? ", " : "",
                              page_change_name(c->what), (unsigned long long)c->name.rev);
        if (c->by.rev != 0)
            n += (size_t)snprintf(text + n, sizeof text - n, " by %llu",
                                  (unsigned long long)c->by.rev);
    }
    assert_string_equal(text, should);
}

static void puts_are_told(void **state)
{
    (void)state;
    struct scribe *s = scribe_new(POLICY_LATEST);
    struct page_put p = { .stash_ns = 0 };
    fix_put(s->f, 1, 1);
    assert_told(s, "latest 1");
    fix_put(s->f, 3, 2);
    assert_told(s, "superseded 1 by 3, latest 3");
    fix_put(s->f, 2, 3);
    assert_told(s, "stored 2 by 3");
    assert_int_equal(fix_put_as(s->f, 4, 4, "the same", &p), ERR_OK);
    assert_told(s, "superseded 3 by 4, latest 4");
    assert_int_equal(fix_put_as(s->f, 4, 4, "the same", &p), ERR_OK);
    assert_told(s, "");
    assert_int_equal(fix_put_as(s->f, 4, 4, "another", &p), ERR_CONFLICT);
    assert_told(s, "");
    engine_mem_refuse(s->f->engine, ERR_IO);
    assert_int_equal(fix_put_as(s->f, 5, 5, "never", &p), ERR_IO);
    engine_mem_refuse(s->f->engine, ERR_OK);
    assert_told(s, "");
    scribe_free(s);
}

static void orders_are_told(void **state)
{
    (void)state;
    struct scribe *s = scribe_new(POLICY_LATEST);
    struct page_order o = { .until = { .ns = 0 } };
    struct page_name third;
    fix_put(s->f, 1, 1);
    fix_put(s->f, 2, 2);
    assert_told(s, "latest 1, superseded 1 by 2, latest 2");
    fake_clock_advance(&s->f->clock, NS_PER_S);
    assert_int_equal(fix_mark(s->f, (struct title_mark){ PAGE_SUPPRESSED, 2, 2, { 0 } }), ERR_OK);
    assert_told(s, "hidden 2, superseded 2 by 3");
    assert_int_equal(fix_mark(s->f, (struct title_mark){ PAGE_CURRENT, 2, 2, { 0 } }), ERR_OK);
    assert_told(s, "shown 2");
    third = fix_put(s->f, 3, 3);
    assert_told(s, "latest 3");
    assert_int_equal(fix_order(s->f, ORDER_PURGE, third, &o), ERR_OK);
    assert_told(s, "purged 3, latest 2");
    assert_int_equal(fix_order(s->f, ORDER_PURGE, (struct page_name){ .rev = 0 }, &o), ERR_OK);
    assert_told(s, "purged 1, purged 2");
    assert_false(s->has_latest);
    scribe_free(s);
}

static void culls_are_told_as_all_else(void **state)
{
    (void)state;
    struct scribe *s = scribe_new(POLICY_APP_TTL);
    fix_put(s->f, 1, 1);
    struct page_name second = fix_put(s->f, 2, 2);
    struct page_order o = { .until = { .ns = s->f->clock.now_ns + 9 * HOUR } };
    fix_put(s->f, 3, 3);
    assert_told(s, "latest 1, superseded 1 by 2, latest 2, superseded 2 by 3, latest 3");
    assert_int_equal(fix_order(s->f, ORDER_HOLD, second, &o), ERR_OK);
    assert_told(s, "due 2");
    fake_clock_advance(&s->f->clock, 2 * HOUR);
    fix_upkeep(s->f);
    assert_told(s, "culled 1");
    scribe_free(s);
}

static void positions_rise_over_a_restart(void **state)
{
    (void)state;
    struct scribe *s = scribe_new(POLICY_LATEST);
    fix_put(s->f, 1, 1);
    fix_put(s->f, 2, 2);
    scribe_read(s);
    struct page_position before = s->last;
    assert_int_equal(page_position_cmp(before, page_store_position(pages_store(s->f->pages))), 0);
    fix_restart(s->f, fix_policy(POLICY_LATEST));
    scribe_follow(s);
    struct page_position at_start = page_store_position(pages_store(s->f->pages));
    assert_true(page_position_cmp(before, at_start) <= 0);
    assert_true(before.at.ns == at_start.at.ns); /* so it missed nothing of a later instant */
    fix_put(s->f, 3, 3);                         /* though the clock stands */
    scribe_read(s);
    assert_true(page_position_cmp(at_start, s->last) < 0);
    scribe_free(s);
}

static void two_followers_are_told_alike(void **state)
{
    (void)state;
    struct scribe *s = scribe_new(POLICY_LATEST), *other = calloc(1, sizeof *other);
    assert_non_null(other);
    other->home.post = scribe_post;
    other->f = s->f;
    scribe_follow(other);
    fix_put(s->f, 1, 1);
    fix_put(s->f, 2, 2);
    assert_told(s, "latest 1, superseded 1 by 2, latest 2");
    assert_told(other, "latest 1, superseded 1 by 2, latest 2");
    assert_int_equal(page_position_cmp(s->last, other->last), 0);
    free(other);
    scribe_free(s);
}

/* ---- random histories ---- */

static struct page_name any_name(const struct scribe *s, struct rng *r)
{
    if (s->names_count == 0)
        return (struct page_name){ .rev = 1 };
    return s->names[rng_below(r, s->names_count)];
}

static void any_put(struct scribe *s, struct rng *r)
{
    char text[32];
    struct page_put p = { .stash_ns = rng_below(r, 5) == 0 ? GRACE : 0,
                          .asked = rng_below(r, 4) == 0 };
    uint64_t rev = 1 + rng_below(r, REVS);
    if (rng_below(r, 8) == 0)
        p.behind = rev + 1 + rng_below(r, 2);
    (void)snprintf(text, sizeof text, "text %u", (unsigned)rng_below(r, 1000));
    (void)fix_put_as(s->f, rev, -1, text, &p); /* some are refused: fences, marks */
}

static void any_order(struct scribe *s, struct rng *r)
{
    static const enum page_order_kind kinds[] = { ORDER_EXTEND, ORDER_STASH, ORDER_UNSTASH,
                                                  ORDER_HOLD,   ORDER_PURGE, ORDER_RELEASE };
    enum page_order_kind kind = kinds[rng_below(r, COUNT_OF(kinds))];
    struct page_name name = any_name(s, r);
    struct page_order o = { .until = { .ns = s->f->clock.now_ns + HOUR } };
    if (kind == ORDER_PURGE && rng_below(r, 20) == 0)
        name = (struct page_name){ .rev = 0 };
    (void)fix_order(s->f, kind, name, &o);
}

static void any_mark(struct scribe *s, struct rng *r)
{
    static const enum page_state marks[] = { PAGE_CURRENT, PAGE_SUPPRESSED, PAGE_DELETED };
    const uint64_t rev = any_name(s, r).rev;
    (void)fix_mark(s->f, (struct title_mark){ .state = marks[rng_below(r, COUNT_OF(marks))],
                                              .first = rev,
                                              .last = rev + rng_below(r, 2) });
}

static void assert_same_latest(struct scribe *s, unsigned step)
{
    struct page_render r;
    err e = fix_find(s->f, SELECT_LATEST, (struct page_name){ 0 }, &r, NULL);
    if ((e == ERR_OK) != s->has_latest || (e == ERR_OK && !scribe_is_latest(s, r.name)))
        fail_msg("step %u: latest is %s %llu, told %d %llu", step, err_name(e),
                 (unsigned long long)(e == ERR_OK ? r.name.rev : 0), s->has_latest,
                 (unsigned long long)s->latest.rev);
}

static void compare_history(enum page_policy_kind kind)
{
    struct scribe *s = scribe_new(kind);
    struct rng r;
    rng_init(&r, 20261126 + (uint64_t)kind);
    for (unsigned step = 0; step < STEPS; step++) {
        uint64_t dice = rng_below(&r, 16);
        if (rng_below(&r, 8) == 0)
            any_mark(s, &r);
        if (dice < 8)
            any_put(s, &r);
        else if (dice < 14)
            any_order(s, &r);
        else if (dice == 14)
            fake_clock_advance(&s->f->clock, (int64_t)rng_below(&r, 2 * GRACE));
        else {
            fake_clock_advance(&s->f->clock, 1);
            fix_upkeep(s->f);
            scribe_read(s);
            assert_int_equal(fix_history(s->f), s->names_count);
        }
        scribe_read(s);
        assert_same_latest(s, step);
    }
    scribe_free(s);
}

/* But for policy ttl, under which the latest may have run out before its cull. */
static void what_was_told_is_what_is_stored(void **state)
{
    (void)state;
    compare_history(POLICY_APP_TTL);
    compare_history(POLICY_LATEST);
    compare_history(POLICY_LATEST_HASH);
    compare_history(POLICY_INTERVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puts_are_told),
        cmocka_unit_test(orders_are_told),
        cmocka_unit_test(culls_are_told_as_all_else),
        cmocka_unit_test(positions_rise_over_a_restart),
        cmocka_unit_test(two_followers_are_told_alike),
        cmocka_unit_test(what_was_told_is_what_is_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
