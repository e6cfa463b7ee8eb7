/* Goal: what derive.h and the order of facts say of facts that no single store decided: late and
 * lost, of several servers, of one name. Method: a title written down as facts, in seconds from
 * T0, and looked at by title_find. The equality with the embedded store, and what must not matter,
 * is for test/model/model_facts.c. */
#include "title/derive.h"
#include "title/find.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define T0 ((int64_t)1767225600 * NS_PER_S)
enum { GRACE_S = 100, LEDGER_S = 10000, FACTS_MAX = 32 };

struct field {
    struct fact facts[FACTS_MAX];
    struct title_facts in;
    struct title_plan plans[2];
    struct arena arena;
    struct title_memory out;
};

static store_time second(int64_t s)
{
    return (store_time){ .ns = T0 + s * NS_PER_S };
}

static struct page_name name_of(uint64_t rev, int64_t tid_s)
{
    return (struct page_name){ .rev = rev, .tid = tid_make(tid_ticks(second(tid_s)), 1) };
}

static void field_begin(struct field *x, enum page_policy_kind kind)
{
    const struct page_policy policy = { .kind = kind,
                                        .grace_ttl_ns = GRACE_S * NS_PER_S,
                                        .historical_ttl_ns = GRACE_S * NS_PER_S,
                                        .ledger_ttl_ns = LEDGER_S * NS_PER_S,
                                        .count = 1 };
    *x = (struct field){ .in = { .plans_count = 1 } };
    x->plans[0] = (struct title_plan){ .plan = { .policy = policy, .number = 1 } };
    x->in.facts = x->facts;
    x->in.plans = x->plans;
    arena_init(&x->arena, 1u << 24);
}

static void field_end(struct field *x)
{
    arena_fini(&x->arena);
}

/* What follows may be changed by who added it. */
static struct fact *add(struct field *x, enum fact_what what, int64_t at_s, struct page_name name)
{
    assert_true(x->in.facts_count < FACTS_MAX);
    struct fact *f = &x->facts[x->in.facts_count++];
    *f = (struct fact){ .what = what, .srv = 1, .at = second(at_s), .name = name };
    f->said_at = f->joined_at = f->at;
    f->rev_last = name.rev;
    return f;
}

static struct fact *add_put(struct field *x, int64_t at_s, uint64_t rev, int64_t tid_s)
{
    static const struct page_content content = { .name = "html", .stored_bytes = 5 };
    struct fact *f = add(x, FACT_PUT, at_s, name_of(rev, tid_s));
    f->contents = &content;
    f->contents_count = 1;
    memset(f->digest, (int)(x->in.facts_count), sizeof(f->digest));
    return f;
}

static void derive_at(struct field *x, int64_t s)
{
    arena_reset(&x->arena);
    assert_int_equal(title_derive(&x->in, second(s), &x->arena, &x->out), ERR_OK);
}

static err find(struct field *x, enum page_select select, struct page_name name,
                struct page_row *row, struct page_trace *trace)
{
    const struct title_which w = { .select = select, .name = name };
    return title_find(&x->out.title, &w, row, trace);
}

/* ERR_OK: stored; else what is left of it. */
static void assert_state(struct field *x, struct page_name name, enum page_state state)
{
    struct page_row row;
    struct page_trace trace;
    err e = find(x, SELECT_EXACT, name, &row, &trace);
    if (state == PAGE_UNKNOWN)
        assert_int_equal(e, ERR_NOT_FOUND);
    else
        assert_int_equal(e == ERR_OK ? row.r.state : trace.state, state);
}

static void assert_latest(struct field *x, uint64_t rev)
{
    struct page_row row;
    err e = find(x, SELECT_LATEST, page_name_first, &row, NULL);
    assert_int_equal(e == ERR_OK ? row.r.name.rev : 0, rev);
}

/* ---- */

static void a_late_render_lives_a_full_grace(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 5, 0);
    (void)add_put(&x, 100, 6, 100);
    (void)add_put(&x, 180, 4, 50);
    derive_at(&x, 201);
    assert_state(&x, name_of(5, 0), PAGE_CULLED);
    assert_state(&x, name_of(4, 50), PAGE_RECENT);
    derive_at(&x, 279);
    assert_state(&x, name_of(4, 50), PAGE_RECENT);
    derive_at(&x, 280);
    assert_state(&x, name_of(4, 50), PAGE_CULLED);
    assert_latest(&x, 6);
    field_end(&x);
}

static void what_is_gone_does_not_come_back_when_a_greater_one_is_purged(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 1, 0);
    (void)add_put(&x, 10, 2, 10);
    (void)add(&x, FACT_PURGE, 200, (struct page_name){ .rev = 2 });
    derive_at(&x, 201);
    assert_latest(&x, 0);
    assert_state(&x, name_of(1, 0), PAGE_CULLED);
    assert_state(&x, name_of(2, 10), PAGE_PURGED);
    x.facts[2].at = second(50);
    derive_at(&x, 201);
    assert_latest(&x, 1);
    field_end(&x);
}

static void the_first_of_one_name_counts(void **state)
{
    (void)state; /* unused */
    struct field x;
    struct page_row row;
    field_begin(&x, POLICY_APP_TTL);
    add_put(&x, 20, 1, 0)->srv = 2;
    add_put(&x, 10, 1, 0)->srv = 3;
    derive_at(&x, 30);
    assert_int_equal(find(&x, SELECT_EXACT, name_of(1, 0), &row, NULL), ERR_OK);
    assert_int_equal(row.r.stored_at.ns, second(10).ns);
    assert_memory_equal(row.digest, x.facts[1].digest, PAGE_DIGEST_BYTES);
    x.facts[0].at = second(10); /* of one instant: the lesser server's */
    derive_at(&x, 30);
    assert_int_equal(find(&x, SELECT_EXACT, name_of(1, 0), &row, NULL), ERR_OK);
    assert_memory_equal(row.digest, x.facts[0].digest, PAGE_DIGEST_BYTES);
    assert_int_equal(x.out.rows_count, 1);
    field_end(&x);
}

/* The place of the first is none of the second. */
static void a_name_that_was_gone_as_it_came_may_come_again(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_LATEST_HASH);
    add_put(&x, 10, 1, 9)->behind = 2;
    derive_at(&x, 15);
    assert_state(&x, name_of(1, 9), PAGE_CULLED);
    (void)add_put(&x, 20, 1, 9);
    derive_at(&x, 21);
    assert_state(&x, name_of(1, 9), PAGE_CURRENT);
    field_end(&x);
}

static void equal_renders_of_two_servers_both_stay(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 10, 1, 9);
    *add_put(&x, 10, 1, 8) = x.facts[0];
    x.facts[1].srv = 2;
    x.facts[1].name = name_of(1, 8);
    derive_at(&x, 11);
    assert_state(&x, name_of(1, 9), PAGE_CURRENT);
    assert_state(&x, name_of(1, 8), PAGE_RECENT);
    field_end(&x);
}

/* ---- what the wiki says ---- */

static void a_word_holds_against_what_was_asked_before_it(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    add(&x, FACT_SUPPRESSED, 10, (struct page_name){ .rev = 1 })->said_at = second(8);
    add_put(&x, 20, 1, 20)->said_at = second(7);
    derive_at(&x, 21);
    assert_state(&x, name_of(1, 20), PAGE_SUPPRESSED);
    assert_latest(&x, 0);
    x.facts[1].said_at = second(8);
    derive_at(&x, 21);
    assert_state(&x, name_of(1, 20), PAGE_CURRENT);
    x.facts[1].said_at = second(7);
    add(&x, FACT_SHOWN, 30, (struct page_name){ .rev = 1 })->said_at = second(7);
    derive_at(&x, 31);
    assert_state(&x, name_of(1, 20), PAGE_SUPPRESSED);
    x.facts[2].said_at = second(8);
    derive_at(&x, 31);
    assert_state(&x, name_of(1, 20), PAGE_RECENT); /* until the wiki says what the latest is */
    (void)add(&x, FACT_WORD, 32, (struct page_name){ .rev = 1 });
    derive_at(&x, 32);
    assert_latest(&x, 1);
    field_end(&x);
}

/* A word that came before a render is to it as if it came after: SUPPRESSED is the stronger. */
static void words_before_a_render_hide_it_as_those_after(void **state)
{
    (void)state; /* unused */
    static const struct {
        enum fact_what first, second;
        int64_t said_s;
        enum page_state state;
    } rows[] = {
        { FACT_SUPPRESSED, FACT_DELETED, 12, PAGE_SUPPRESSED },
        { FACT_DELETED, FACT_SUPPRESSED, 12, PAGE_SUPPRESSED },
        { FACT_DELETED, FACT_SHOWN, 12, PAGE_CURRENT },
        { FACT_DELETED, FACT_SHOWN, 9, PAGE_DELETED },
    };
    for (unsigned i = 0; i < COUNT_OF(rows); i++) {
        struct field x;
        field_begin(&x, POLICY_ALL);
        add(&x, rows[i].first, 10, (struct page_name){ .rev = 1 })->said_at = second(10);
        add(&x, rows[i].second, 12, (struct page_name){ .rev = 1 })->said_at =
            second(rows[i].said_s);
        add_put(&x, 20, 1, 20)->said_at = second(5);
        derive_at(&x, 21);
        assert_state(&x, name_of(1, 20), rows[i].state);
        field_end(&x);
    }
}

/* Clocks of two servers may put two askings in the wrong order. */
static void within_the_skew_hiding_wins(void **state)
{
    (void)state; /* unused */
    static const struct {
        bool put_first;
        int64_t put_said_s, deleted_said_s, shown_said_s; /* shown 0: not */
        enum page_state state;
    } rows[] = {
        { true, 12, 10, 0, PAGE_DELETED },  { true, 13, 10, 0, PAGE_CURRENT },
        { false, 11, 10, 0, PAGE_DELETED }, { false, 12, 10, 0, PAGE_CURRENT },
        { true, 5, 10, 11, PAGE_DELETED },  { true, 5, 10, 12, PAGE_RECENT },
        { false, 5, 10, 11, PAGE_DELETED }, { false, 5, 10, 12, PAGE_CURRENT },
    };
    for (unsigned i = 0; i < COUNT_OF(rows); i++) {
        struct field x;
        field_begin(&x, POLICY_APP_TTL);
        x.in.skew_ns = 2 * NS_PER_S;
        add_put(&x, rows[i].put_first ? 20 : 40, 1, 20)->said_at = second(rows[i].put_said_s);
        add(&x, FACT_DELETED, 30, (struct page_name){ .rev = 1 })->said_at =
            second(rows[i].deleted_said_s);
        if (rows[i].shown_said_s != 0)
            add(&x, FACT_SHOWN, 35, (struct page_name){ .rev = 1 })->said_at =
                second(rows[i].shown_said_s);
        derive_at(&x, 41);
        assert_state(&x, name_of(1, 20), rows[i].state);
        field_end(&x);
    }
}

/* It was asked before the wiki last said that the render is hidden. */
static void a_late_word_shows_nothing_that_was_hidden_again(void **state)
{
    (void)state; /* unused */
    static const enum fact_what hides[][2] = { { FACT_DELETED, FACT_DELETED },
                                               { FACT_SUPPRESSED, FACT_DELETED },
                                               { FACT_DELETED, FACT_SUPPRESSED } };
    for (unsigned i = 0; i < COUNT_OF(hides); i++)
        for (int64_t put_s = 1; put_s < 40; put_s += 30) {
            struct field x;
            field_begin(&x, POLICY_ALL);
            add_put(&x, put_s, 1, 1)->said_at = second(1);
            (void)add(&x, hides[i][0], 10, (struct page_name){ .rev = 1 });
            (void)add(&x, hides[i][1], 20, (struct page_name){ .rev = 1 });
            add(&x, FACT_SHOWN, 21, (struct page_name){ .rev = 1 })->said_at = second(15);
            derive_at(&x, 50);
            assert_state(&x, name_of(1, 1), i == 0 ? PAGE_DELETED : PAGE_SUPPRESSED);
            x.facts[3].said_at = second(20);
            derive_at(&x, 50);
            assert_state(&x, name_of(1, 1), put_s == 1 ? PAGE_RECENT : PAGE_CURRENT);
            field_end(&x);
        }
}

/* Then facts of the lesser may be forgotten. */
static void hiding_a_lesser_render_is_nothing_to_the_newest(void **state)
{
    (void)state; /* unused */
    struct field x;
    struct page_row row;
    field_begin(&x, POLICY_ALL);
    (void)add_put(&x, 0, 1, 0);
    (void)add_put(&x, 1, 2, 1);
    (void)add_put(&x, 2, 3, 2);
    add_put(&x, 3, 3, 3)->behind = 4;
    (void)add(&x, FACT_PURGE, 4, name_of(3, 3));
    (void)add(&x, FACT_PURGE, 5, name_of(3, 2));
    (void)add(&x, FACT_DELETED, 6, (struct page_name){ .rev = 1 });
    derive_at(&x, 6);
    assert_int_equal(find(&x, SELECT_EXACT, name_of(2, 1), &row, NULL), ERR_OK);
    assert_int_equal(page_name_cmp(row.r.superseded_by, name_of(3, 2)), 0);
    field_end(&x);
}

/* ---- purges and pins ---- */

static void a_purge_covers_what_arrives_later_with_an_older_name(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add(&x, FACT_PURGE, 10, (struct page_name){ .rev = 1 });
    (void)add_put(&x, 20, 1, 10);
    (void)add_put(&x, 21, 1, 11);
    (void)add_put(&x, 22, 2, 5);
    derive_at(&x, 30);
    assert_state(&x, name_of(1, 10), PAGE_PURGED);
    assert_state(&x, name_of(1, 11), PAGE_RECENT);
    assert_state(&x, name_of(2, 5), PAGE_CURRENT);
    field_end(&x);
}

/* Written later, it says no more than the purges it stands for: puts before it stay. */
static void a_joined_fence_counts_against_what_arrives_after_it(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 5, 1, 5);
    add(&x, FACT_FENCE, 8, page_name_first)->joined_at = second(10);
    (void)add_put(&x, 9, 2, 7);
    (void)add_put(&x, 11, 3, 8);
    (void)add_put(&x, 12, 3, 9);
    derive_at(&x, 30);
    assert_state(&x, name_of(1, 5), PAGE_RECENT);
    assert_state(&x, name_of(2, 7), PAGE_RECENT);
    assert_state(&x, name_of(3, 8), PAGE_PURGED);
    assert_state(&x, name_of(3, 9), PAGE_CURRENT);
    field_end(&x);
}

static void pins_hold_what_is_there_and_wake_nothing(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 1, 0);
    (void)add_put(&x, 1, 2, 1);
    add(&x, FACT_STASH, 50, name_of(1, 0))->until = second(300);
    add(&x, FACT_STASH, 60, name_of(1, 0))->until = second(200); /* the greatest holds */
    derive_at(&x, 299);
    assert_state(&x, name_of(1, 0), PAGE_HELD);
    derive_at(&x, 300);
    assert_state(&x, name_of(1, 0), PAGE_CULLED);
    add(&x, FACT_HOLD, 300, name_of(1, 0))->until = second(900); /* in the instant it is gone */
    derive_at(&x, 301);
    assert_state(&x, name_of(1, 0), PAGE_CULLED);
    x.facts[4].at = second(299);
    derive_at(&x, 899);
    assert_state(&x, name_of(1, 0), PAGE_HELD);
    (void)add(&x, FACT_RELEASE, 400, (struct page_name){ .rev = 1 });
    derive_at(&x, 400);
    assert_state(&x, name_of(1, 0), PAGE_CULLED);
    field_end(&x);
}

static void a_dropped_render_leaves_its_place_in_its_group(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_LATEST);
    (void)add_put(&x, 0, 1, 0);
    (void)add_put(&x, 1, 1, 1);
    derive_at(&x, 200);
    assert_state(&x, name_of(1, 0), PAGE_CULLED);
    (void)add(&x, FACT_DROP, 10, name_of(1, 1));
    derive_at(&x, 200);
    assert_state(&x, name_of(1, 0), PAGE_ARCHIVE);
    field_end(&x);
}

static void traces_end_and_nothing_is_known(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 1, 0);
    (void)add_put(&x, 1, 2, 1);
    derive_at(&x, 101 + LEDGER_S - 1);
    assert_state(&x, name_of(1, 0), PAGE_CULLED);
    derive_at(&x, 101 + LEDGER_S);
    assert_state(&x, name_of(1, 0), PAGE_UNKNOWN);
    field_end(&x);
}

/* ---- policies ---- */

static void a_policy_holds_from_its_instant_on(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 1, 0);
    (void)add_put(&x, 1, 1, 1);
    (void)add_put(&x, 90, 1, 90);
    x.plans[1] = x.plans[0];
    x.plans[1].plan.policy.kind = POLICY_ALL;
    x.plans[1].plan.number = 2;
    x.plans[1].plan.changed_at = x.plans[1].at = second(150);
    x.in.plans_count = 2;
    derive_at(&x, 149);
    assert_state(&x, name_of(1, 0), PAGE_CULLED); /* at 101, before it */
    assert_state(&x, name_of(1, 1), PAGE_RECENT);
    derive_at(&x, 1000);
    assert_state(&x, name_of(1, 0), PAGE_CULLED);
    assert_state(&x, name_of(1, 1), PAGE_ARCHIVE);
    field_end(&x);
}

static void policies_come_in_any_order_and_twice(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 1, 0);
    (void)add_put(&x, 1, 1, 1);
    (void)add_put(&x, 90, 1, 90);
    const struct title_plan first = x.plans[0];
    struct title_plan second_one = first;
    second_one.plan.policy.kind = POLICY_ALL;
    second_one.plan.number = 2;
    second_one.plan.changed_at = second_one.at = second(150);
    const struct title_plan plans[] = { second_one, first, second_one, first };
    x.in.plans = plans;
    x.in.plans_count = COUNT_OF(plans);
    derive_at(&x, 149);
    assert_state(&x, name_of(1, 0), PAGE_CULLED);
    assert_state(&x, name_of(1, 1), PAGE_RECENT);
    derive_at(&x, 1000);
    assert_state(&x, name_of(1, 1), PAGE_ARCHIVE);
    field_end(&x);
}

/* ---- times ---- */

static void a_fact_is_later_than_what_its_decision_saw(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    assert_int_equal(title_stamp(&x.in, second(5), second(4)).ns, second(5).ns);
    assert_int_equal(title_stamp(&x.in, second(5), second(5)).ns, second(5).ns + 1);
    (void)add_put(&x, 10, 1, 0);
    (void)add_put(&x, 7, 2, 7);
    assert_int_equal(title_stamp(&x.in, second(5), second(4)).ns, second(10).ns + 1);
    assert_int_equal(title_stamp(&x.in, second(11), second(4)).ns, second(11).ns);
    add(&x, FACT_FENCE, 1, page_name_first)->joined_at = second(20);
    assert_int_equal(title_stamp(&x.in, second(11), second(4)).ns, second(20).ns + 1);
    field_end(&x);
}

/* A server behind pins what one ahead has put: by its own clock the pin would be lost. */
static void a_pin_of_a_server_behind_holds(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 10, 1, 10);
    store_time at = title_stamp(&x.in, second(9), second(8));
    struct fact *pin = add(&x, FACT_HOLD, 9, name_of(1, 10));
    pin->until = second(900);
    pin->srv = 2;
    (void)add_put(&x, 20, 2, 20);
    derive_at(&x, 130);
    assert_state(&x, name_of(1, 10), PAGE_CULLED);
    pin->at = at;
    derive_at(&x, 130);
    assert_state(&x, name_of(1, 10), PAGE_HELD);
    field_end(&x);
}

static void other_bytes_of_a_name_are_counted(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 10, 1, 9);
    *add_put(&x, 0, 1, 9) = x.facts[0]; /* the same fact, given twice */
    (void)add_put(&x, 11, 1, 9);
    memcpy(add_put(&x, 12, 1, 9)->digest, x.facts[0].digest, PAGE_DIGEST_BYTES);
    derive_at(&x, 20);
    assert_int_equal(x.out.conflicts, 1);
    assert_int_equal(x.out.rows_count, 1);
    field_end(&x);
}

/* ---- whose bytes are free ---- */

static void assert_range(const struct title_range *r, struct page_name low, struct page_name high)
{
    assert_int_equal(page_name_cmp(r->low, low), 0);
    assert_int_equal(page_name_cmp(r->high, high), 0);
}

static struct title_cull cull_at(struct field *x, int64_t s)
{
    struct title_cull cull;
    arena_reset(&x->arena);
    assert_int_equal(title_cull(&x->in, second(s), &x->arena, &cull), ERR_OK);
    assert_int_equal(cull.at.ns, second(s).ns);
    return cull;
}

static struct page_name at_tick(uint64_t rev, int64_t tid_s, bool after)
{
    struct page_name name = name_of(rev, tid_s);
    name.tid.low = after ? 0 : UINT64_MAX;
    name.tid.ticks += after ? 1 : (uint64_t)-1;
    return name;
}

static void bytes_go_in_ranges_between_those_that_stay(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    for (int i = 0; i < 6; i++)
        (void)add_put(&x, i, 1 + (uint64_t)i / 2, i);
    add(&x, FACT_HOLD, 10, name_of(2, 2))->until = second(900);
    assert_int_equal(cull_at(&x, 100).count, 0);
    struct title_cull c = cull_at(&x, 200);
    assert_int_equal(c.count, 2);
    assert_range(&c.ranges[0], page_name_first, at_tick(2, 2, false));
    assert_range(&c.ranges[1], at_tick(2, 2, true), at_tick(3, 5, false));
    x.facts[0].contents_count = x.facts[1].contents_count = 0; /* gone already */
    assert_int_equal(cull_at(&x, 200).count, 1);
    assert_int_equal(cull_at(&x, 900).count, 1);
    assert_range(&cull_at(&x, 900).ranges[0], page_name_first, at_tick(3, 5, false));
    field_end(&x);
}

/* Late ones are put behind the horizon: their bytes are not meant, their names are spared. */
static void bytes_of_what_came_later_stay(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 2, 0);
    (void)add_put(&x, 1, 3, 1);
    (void)add_put(&x, 150, 1, 0);
    struct title_cull c = cull_at(&x, 120);
    assert_int_equal(c.count, 1);
    assert_range(&c.ranges[0], at_tick(1, 0, true), at_tick(3, 1, false));
    field_end(&x);
}

/* Stores order renders of one tick in different ways. */
static void bytes_of_one_tick_go_together(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 1, 0);
    add_put(&x, 1, 1, 0)->name.tid.low++;
    assert_int_equal(cull_at(&x, 200).count, 0);
    (void)add_put(&x, 2, 2, 2);
    assert_int_equal(cull_at(&x, 200).count, 1);
    field_end(&x);
}

/* ---- what may be forgotten ---- */

static unsigned forgotten(struct field *x, int64_t horizon_s)
{
    struct title_forget forget;
    unsigned count = 0;
    arena_reset(&x->arena);
    assert_int_equal(title_forget(&x->in, second(horizon_s), &x->arena, &forget), ERR_OK);
    for (size_t i = 0; i < x->in.facts_count; i++)
        count += title_forgets(&x->in, &forget, &x->facts[i]);
    return count;
}

static void the_lowest_renders_are_forgotten_when_all_of_them_are_unknown(void **state)
{
    (void)state; /* unused */
    struct field x;
    const int64_t all_over = 200 + LEDGER_S;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 1, 0);
    add(&x, FACT_STASH, 1, name_of(1, 0))->until = second(50);
    (void)add_put(&x, 2, 2, 2);
    (void)add_put(&x, 3, 3, 3);
    assert_int_equal(forgotten(&x, all_over - 150), 0);
    assert_int_equal(forgotten(&x, all_over), 3); /* two renders and the pin; the latest stays */
    add(&x, FACT_HOLD, 4, name_of(1, 0))->until = second(2 * all_over);
    assert_int_equal(forgotten(&x, all_over), 0); /* the lowest holds what is above it */
    field_end(&x);
}

static void a_purge_is_forgotten_for_a_later_one_that_covers_it(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    (void)add(&x, FACT_PURGE, 1, (struct page_name){ .rev = 1 });
    assert_int_equal(forgotten(&x, 10), 0);
    (void)add(&x, FACT_PURGE, 2, (struct page_name){ .rev = 2 });
    assert_int_equal(forgotten(&x, 10), 0);
    (void)add(&x, FACT_PURGE, 3, page_name_first);
    assert_int_equal(forgotten(&x, 10), 2);
    assert_int_equal(forgotten(&x, 2), 0); /* what covers it is not behind the horizon */
    (void)add_put(&x, 0, 1, 0);
    assert_int_equal(forgotten(&x, 10), 0); /* it would be purged by the other one */
    field_end(&x);
}

static struct fact forget_fact(struct field *x, int64_t horizon_s)
{
    struct title_forget forget;
    arena_reset(&x->arena);
    assert_int_equal(title_forget(&x->in, second(horizon_s), &x->arena, &forget), ERR_OK);
    assert_true(forget.any);
    return title_forget_fact(&forget, second(horizon_s + 1));
}

/* A copy that was away brings back what others deleted, and not what it had missed. */
static void what_is_forgotten_stays_so_when_a_part_of_it_comes_back(void **state)
{
    (void)state; /* unused */
    struct field x;
    const int64_t all_over = 300 + LEDGER_S;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 1, 0);
    (void)add_put(&x, 1, 2, 1);
    (void)add(&x, FACT_PURGE, 2, (struct page_name){ .rev = 2 });
    (void)add(&x, FACT_PURGE, 3, page_name_first);
    const struct fact f = forget_fact(&x, all_over);
    assert_int_equal(page_name_cmp(f.name, name_of(2, 1)), 0);
    x.in.facts_count = 1; /* the rest is gone */
    derive_at(&x, all_over + 2);
    assert_latest(&x, 1);
    x.facts[x.in.facts_count++] = f;
    derive_at(&x, all_over + 2);
    assert_latest(&x, 0);
    assert_state(&x, name_of(1, 0), PAGE_UNKNOWN);
    (void)add_put(&x, all_over + 5, 1, 0); /* and what comes later is new */
    derive_at(&x, all_over + 6);
    assert_latest(&x, 1);
    field_end(&x);
}

static void what_says_that_it_is_forgotten_goes_for_what_says_more(void **state)
{
    (void)state; /* unused */
    struct field x;
    const int64_t all_over = 300 + LEDGER_S;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 1, 0);
    (void)add_put(&x, 1, 2, 1);
    x.facts[2] = forget_fact(&x, all_over);
    x.in.facts_count = 3;
    assert_int_equal(forgotten(&x, all_over + 1), 1); /* the put, and not what tells of it */
    (void)add_put(&x, all_over + 10, 3, 3);
    (void)add_put(&x, all_over + 11, 4, 4);
    x.facts[5] = forget_fact(&x, 2 * all_over + 200);
    x.in.facts_count = 6;
    assert_int_equal(forgotten(&x, 2 * all_over + 201), 4);
    field_end(&x);
}

/* A pin that ended says until when its render was there to be the latest again. */
static void a_pin_that_ended_still_counts(void **state)
{
    (void)state; /* unused */
    struct field x;
    const int64_t all_over = 1000 + LEDGER_S;
    field_begin(&x, POLICY_APP_TTL);
    (void)add_put(&x, 0, 1, 0);
    (void)add_put(&x, 1, 2, 1);
    (void)add(&x, FACT_PURGE, 200, (struct page_name){ .rev = 2 });
    add(&x, FACT_STASH, 10, name_of(1, 0))->until = second(300);
    assert_int_equal(forgotten(&x, all_over), 0);
    derive_at(&x, all_over);
    assert_latest(&x, 1);
    x.in.facts_count--;
    derive_at(&x, all_over);
    assert_latest(&x, 0);
    field_end(&x);
}

/* What hides within the skew is still awaited by puts for which the wiki was asked since. */
static void a_mark_stays_as_long_as_a_clock_may_be_wrong(void **state)
{
    (void)state; /* unused */
    struct field x;
    field_begin(&x, POLICY_APP_TTL);
    x.in.skew_ns = 4 * NS_PER_S;
    (void)add(&x, FACT_DELETED, 10, (struct page_name){ .rev = 1 });
    assert_int_equal(forgotten(&x, 13), 0);
    assert_int_equal(forgotten(&x, 14), 1);
    add_put(&x, 20, 1, 20)->said_at = second(13);
    assert_int_equal(forgotten(&x, 15), 0);
    x.facts[1].said_at = second(14);
    assert_int_equal(forgotten(&x, 15), 1);
    field_end(&x);
}

static void too_little_memory_is_told(void **state)
{
    (void)state; /* unused */
    struct field x;
    struct arena small;
    field_begin(&x, POLICY_APP_TTL);
    for (unsigned i = 0; i < FACTS_MAX; i++)
        (void)add_put(&x, i, i + 1, i);
    arena_init(&small, 16384);
    assert_int_equal(title_derive(&x.in, second(0), &small, &x.out), ERR_LIMIT);
    struct title_cull cull;
    struct title_forget forget;
    assert_int_equal(title_cull(&x.in, second(0), &small, &cull), ERR_LIMIT);
    assert_int_equal(title_forget(&x.in, second(0), &small, &forget), ERR_LIMIT);
    arena_fini(&small);
    field_end(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_render_lives_a_full_grace),
        cmocka_unit_test(what_is_gone_does_not_come_back_when_a_greater_one_is_purged),
        cmocka_unit_test(the_first_of_one_name_counts),
        cmocka_unit_test(a_name_that_was_gone_as_it_came_may_come_again),
        cmocka_unit_test(equal_renders_of_two_servers_both_stay),
        cmocka_unit_test(a_word_holds_against_what_was_asked_before_it),
        cmocka_unit_test(words_before_a_render_hide_it_as_those_after),
        cmocka_unit_test(within_the_skew_hiding_wins),
        cmocka_unit_test(a_late_word_shows_nothing_that_was_hidden_again),
        cmocka_unit_test(hiding_a_lesser_render_is_nothing_to_the_newest),
        cmocka_unit_test(a_purge_covers_what_arrives_later_with_an_older_name),
        cmocka_unit_test(a_joined_fence_counts_against_what_arrives_after_it),
        cmocka_unit_test(pins_hold_what_is_there_and_wake_nothing),
        cmocka_unit_test(a_dropped_render_leaves_its_place_in_its_group),
        cmocka_unit_test(traces_end_and_nothing_is_known),
        cmocka_unit_test(a_policy_holds_from_its_instant_on),
        cmocka_unit_test(policies_come_in_any_order_and_twice),
        cmocka_unit_test(a_fact_is_later_than_what_its_decision_saw),
        cmocka_unit_test(a_pin_of_a_server_behind_holds),
        cmocka_unit_test(other_bytes_of_a_name_are_counted),
        cmocka_unit_test(bytes_go_in_ranges_between_those_that_stay),
        cmocka_unit_test(bytes_of_what_came_later_stay),
        cmocka_unit_test(bytes_of_one_tick_go_together),
        cmocka_unit_test(the_lowest_renders_are_forgotten_when_all_of_them_are_unknown),
        cmocka_unit_test(a_purge_is_forgotten_for_a_later_one_that_covers_it),
        cmocka_unit_test(what_is_forgotten_stays_so_when_a_part_of_it_comes_back),
        cmocka_unit_test(what_says_that_it_is_forgotten_goes_for_what_says_more),
        cmocka_unit_test(a_pin_that_ended_still_counts),
        cmocka_unit_test(a_mark_stays_as_long_as_a_clock_may_be_wrong),
        cmocka_unit_test(too_little_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
