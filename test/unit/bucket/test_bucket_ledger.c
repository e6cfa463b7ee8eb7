/* Goal: traces that share rows are put, found, walked and forgotten as if each had a row of its
 * own, rows of stores before among them; and a damaged row costs no more than what it held. Method:
 * random names put and removed in random order against an array of flags; every walk and every name
 * compared after each step. */
#include "base/rng.h"
#include "bucket/ledger.h"
#include "fixture.h"

#include <string.h>

enum { REVS = 4, TIDS = 20, NAMES = REVS * TIDS, STEPS = 600, FORGOTTEN_SOON = 2 };

struct field {
    struct fixture *f;
    struct rng rng;
    bool there[NAMES]; /* in order of names */
    bool soon[NAMES];  /* known for an hour, the others for ever */
    enum { PUT, REMOVE, FORGET } what;
    unsigned which;
    store_time put_at;
};

static struct page_name name_of(unsigned i)
{
    return (struct page_name){ .rev = 1 + i / TIDS,
                               .tid = tid_at(T0 + (int64_t)(i % TIDS) * NS_PER_S, 1) };
}

static struct look look_at(struct field *x, struct engine_view *v)
{
    struct look k;
    look_init(&k, x->f->bucket, v, x->f->domain, STR("T"));
    return k;
}

static struct page_trace_row trace_of(const struct field *x, unsigned i)
{
    struct page_trace_row t = {
        .trace = { .name = name_of(i), .state = PAGE_CULLED, .superseded_by = name_of(i + 1) },
        .forget_at = { x->soon[i] ? x->put_at.ns + HOUR : INT64_MAX }
    };
    t.trace.at = t.stored_at = t.trace.superseded_at = x->put_at;
    return t;
}

static err change(struct engine_txn *txn, void *ctx)
{
    struct field *x = ctx;
    struct edit t;
    struct look k = look_at(x, engine_txn_view(txn));
    unsigned looked = 0;
    bool more = true;
    struct page_trace_row trace = trace_of(x, x->which);
    err e = edit_begin(&t, txn, x->f->bucket, &k.key, NULL);
    if (e == ERR_OK && x->what == PUT)
        e = ledger_put(&t, &trace);
    if (e == ERR_OK && x->what == REMOVE)
        e = ledger_remove(&t, name_of(x->which));
    while (e == ERR_OK && x->what == FORGET && more)
        e = ledger_forget_due(&t, &looked, &more);
    return e == ERR_OK ? edit_end(&t) : e;
}

static void run(struct field *x)
{
    x->put_at = clock_store(&x->f->clock.clock);
    assert_int_equal(engine_update_wait(x->f->engine, change, x), ERR_OK);
}

/* As a store before wrote it; counted by a put in its place. */
static void put_alone(struct field *x)
{
    struct page_key key;
    char value[OLD_TRACE_BYTES_MAX];
    struct look k = look_at(x, NULL);
    run(x);
    struct page_trace_row t = trace_of(x, x->which);
    struct page_traces row;
    struct engine_view *v = engine_view_begin(x->f->engine);
    struct engine_row found;
    page_key_name(&key, &k.key, name_of(x->which));
    bool alone = engine_get(v, SPACE_LEDGER, page_key_str(&key), &found) == ERR_OK &&
                 page_traces_decode(found.value, name_of(x->which), &row) == ERR_OK &&
                 row.count == 1;
    engine_view_end(&v);
    if (alone)
        engine_mem_damage(x->f->engine, SPACE_LEDGER, page_key_str(&key), old_trace(&t, value));
}

static void compare_walk(struct field *x, const struct look *k, unsigned low, unsigned high,
                         bool rising)
{
    struct ledger_walk w;
    struct page_trace_row t;
    ledger_open(&w, k, name_of(low), name_of(high), rising);
    for (unsigned n = 0; n <= high - low; n++) {
        unsigned i = rising ? low + n : high - n;
        if (!x->there[i])
            continue;
        assert_int_equal(ledger_next(&w, &t), ERR_OK);
        assert_name(t.trace.name, name_of(i));
        assert_name(t.trace.superseded_by, name_of(i + 1));
    }
    assert_int_equal(ledger_next(&w, &t), ERR_NOT_FOUND);
    ledger_close(&w);
}

static void compare_all(struct field *x)
{
    struct engine_view *v = engine_view_begin(x->f->engine);
    struct look k = look_at(x, v);
    struct page_trace_row t;
    struct page_name greatest;
    for (unsigned i = 0; i < NAMES; i++) {
        assert_int_equal(ledger_get(&k, name_of(i), &t), x->there[i] ? ERR_OK : ERR_NOT_FOUND);
        unsigned low = i / TIDS * TIDS, top = i + 1;
        while (top > low && !x->there[top - 1])
            top--;
        err e = ledger_greatest(&k, name_of(low), name_of(i), &greatest);
        assert_int_equal(e, top > low ? ERR_OK : ERR_NOT_FOUND);
        if (e == ERR_OK)
            assert_name(greatest, name_of(top - 1));
    }
    unsigned low = (unsigned)rng_below(&x->rng, NAMES),
             high = low + (unsigned)rng_below(&x->rng, NAMES - low);
    compare_walk(x, &k, 0, NAMES - 1, false);
    compare_walk(x, &k, 0, NAMES - 1, true);
    compare_walk(x, &k, low, high, false);
    compare_walk(x, &k, low, high, true);
    engine_view_end(&v);
}

static void step(struct field *x)
{
    x->what = rng_below(&x->rng, 5) < 3 ? PUT : REMOVE;
    x->which = (unsigned)rng_below(&x->rng, NAMES);
    if (x->what == PUT)
        x->soon[x->which] = rng_below(&x->rng, FORGOTTEN_SOON) == 0;
    if (x->what == PUT && !x->there[x->which] && rng_below(&x->rng, 4) == 0)
        put_alone(x);
    else
        run(x);
    x->there[x->which] = x->what == PUT;
    compare_all(x);
}

static void field_init(struct field *x, uint64_t seed)
{
    *x = (struct field){ .f = fixture_new(fix_policy(POLICY_APP_TTL)) };
    rng_init(&x->rng, seed);
}

static uint64_t count_there(const struct field *x)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < NAMES; i++)
        n += x->there[i];
    return n;
}

static void shared_rows_are_as_rows_of_their_own(void **state)
{
    (void)state; /* unused */
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct field x;
        field_init(&x, seed);
        for (unsigned i = 0; i < STEPS; i++)
            step(&x);
        assert_int_equal(traces_stored(x.f->engine), count_there(&x));
        fake_clock_advance(&x.f->clock, HOUR);
        x.what = FORGET;
        run(&x);
        for (unsigned i = 0; i < NAMES; i++)
            x.there[i] &= !x.soon[i];
        compare_all(&x);
        assert_int_equal(traces_stored(x.f->engine), count_there(&x));
        fixture_free(x.f); /* counts them */
    }
}

static void put_each(struct field *x, bool falling)
{
    x->what = PUT;
    for (unsigned i = 0; i < NAMES; i++) {
        x->which = falling ? NAMES - 1 - i : i;
        run(x);
    }
}

static void rows_are_full_whatever_the_order(void **state)
{
    (void)state; /* unused */
    for (int falling = 0; falling < 2; falling++) {
        struct field x;
        field_init(&x, 1);
        put_each(&x, falling);
        assert_int_equal(traces_stored(x.f->engine), NAMES);
        assert_int_equal(engine_mem_rows(x.f->engine, SPACE_LEDGER), NAMES / PAGE_ROW_TRACES_MAX);
        fixture_free(x.f);
    }
}

static void damaged_row_takes_only_its_own_traces_with_it(void **state)
{
    (void)state; /* unused */
    struct field x;
    struct page_key key;
    struct page_trace_row t;
    struct page_name greatest;
    field_init(&x, 1);
    put_each(&x, false);
    struct engine_view *v = engine_view_begin(x.f->engine);
    struct look k = look_at(&x, v);
    page_key_name(&key, &k.key, name_of(PAGE_ROW_TRACES_MAX));
    engine_view_end(&v);
    engine_mem_damage(x.f->engine, SPACE_LEDGER, page_key_str(&key), STR("\2"));
    v = engine_view_begin(x.f->engine);
    k = look_at(&x, v);
    for (unsigned i = 0; i < NAMES; i++) {
        bool lost = i / PAGE_ROW_TRACES_MAX == 1;
        err lone = i % PAGE_ROW_TRACES_MAX == 0
                       ? ERR_CORRUPT
                       : ERR_NOT_FOUND; /* its lowest is all that is known */
        assert_int_equal(ledger_get(&k, name_of(i), &t), lost ? lone : ERR_OK);
    }
    assert_int_equal(ledger_greatest(&k, name_of(TIDS), name_of(NAMES - 1), &greatest), ERR_OK);
    engine_view_end(&v);
    x.what = PUT;
    x.which = PAGE_ROW_TRACES_MAX + 3; /* is put again beside it */
    run(&x);
    x.what = FORGET;
    run(&x);
    assert_int_equal(traces_stored(x.f->engine), NAMES - PAGE_ROW_TRACES_MAX + 1);
    fixture_free(x.f); /* counted anew */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_rows_are_as_rows_of_their_own),
        cmocka_unit_test(rows_are_full_whatever_the_order),
        cmocka_unit_test(damaged_row_takes_only_its_own_traces_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
