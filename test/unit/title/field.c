/* field.c - see field.h. */
#include "field.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define T0 ((int64_t)1767225600 * NS_PER_S)

store_time second(int64_t s)
{
    return (store_time){ .ns = T0 + s * NS_PER_S };
}

struct page_name name_of(uint64_t rev, int64_t tid_s)
{
    return (struct page_name){ .rev = rev, .tid = tid_make(tid_ticks(second(tid_s)), 1) };
}

void field_begin(struct field *x, enum page_policy_kind kind)
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

void field_end(struct field *x)
{
    arena_fini(&x->arena);
}

/* What follows may be changed by who added it. */
struct fact *add(struct field *x, enum fact_what what, int64_t at_s, struct page_name name)
{
    assert_true(x->in.facts_count < FIELD_FACTS_MAX);
    struct fact *f = &x->facts[x->in.facts_count++];
    *f = (struct fact){ .what = what, .srv = 1, .at = second(at_s), .name = name };
    f->said_at = f->joined_at = f->at;
    f->rev_last = name.rev;
    return f;
}

struct fact *add_put(struct field *x, int64_t at_s, uint64_t rev, int64_t tid_s)
{
    static const struct page_content content = { .name = "html", .stored_bytes = 5 };
    struct fact *f = add(x, FACT_PUT, at_s, name_of(rev, tid_s));
    f->contents = &content;
    f->contents_count = 1;
    memset(f->digest, (int)(x->in.facts_count), sizeof(f->digest));
    return f;
}

void derive_at(struct field *x, int64_t s)
{
    arena_reset(&x->arena);
    assert_int_equal(title_derive(&x->in, second(s), &x->arena, &x->out), ERR_OK);
}

err field_find(struct field *x, enum page_select select, struct page_name name,
               struct page_row *row, struct page_trace *trace)
{
    const struct title_which w = { .select = select, .name = name };
    return title_find(&x->out.title, &w, row, trace);
}

/* ERR_OK: stored; else what is left of it. */
void assert_state(struct field *x, struct page_name name, enum page_state state)
{
    struct page_row row;
    struct page_trace trace;
    err e = field_find(x, SELECT_EXACT, name, &row, &trace);
    if (state == PAGE_UNKNOWN)
        assert_int_equal(e, ERR_NOT_FOUND);
    else
        assert_int_equal(e == ERR_OK ? row.r.state : trace.state, state);
}

void assert_latest(struct field *x, uint64_t rev)
{
    struct page_row row;
    err e = field_find(x, SELECT_LATEST, page_name_first, &row, NULL);
    assert_int_equal(e == ERR_OK ? row.r.name.rev : 0, rev);
}
