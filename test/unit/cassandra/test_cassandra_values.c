/* Goal: what several servers do to buckets of values at once is as if they had done it one behind
 * the other; nothing that was acknowledged is lost, and nothing half written is seen.
 * Method: a real Cassandra (real.h), and two servers of its cluster. */
#include "values_help.h"

#include "../cmocka_all.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct page_policy all = { .kind = POLICY_ALL };
static const struct value_settings settings[] = {
    { .kind = VALUE_PLAIN, .name = STR_INIT("set"), .ttl_ns = DURATION_NEVER, .policy = &all },
};

static struct side *a, *b;

static int setup(void **state)
{
    real_setup(state);
    real_apply();
    if (the.why != ERR_OK)
        fail_msg("%s", the.note);
    sides_open(settings, COUNT_OF(settings));
    a = &sides.shared[0];
    b = &sides.shared[1];
    assert_int_equal(side_bucket(a, VALUE_PLAIN, "plain", "{}"), ERR_OK);
    assert_int_equal(side_bucket(a, VALUE_REVS, "revs", "{}"), ERR_OK);
    return 0;
}

static int teardown(void **state)
{
    sides_close();
    return real_teardown(state);
}

static struct value_call plain(struct side *s, const char *key)
{
    return side_call(s, VALUE_PLAIN, "plain", key);
}

static struct value_call rev(struct side *s, const char *key, int64_t number)
{
    struct value_call c = side_call(s, VALUE_REVS, "revs", key);
    c.target.has_rev = true;
    c.target.rev = number;
    return c;
}

/* ---- buckets ---- */

static void a_bucket_that_is_dropped_is_gone_on_all_servers(void **state)
{
    (void)state;
    struct value_read r = { .of = side_call(b, VALUE_PLAIN, "gone", "k") };
    assert_int_equal(side_read(b, &r), ERR_NOT_FOUND);
    assert_int_equal(side_bucket(a, VALUE_PLAIN, "gone", "{}"), ERR_OK);
    assert_int_equal(side_bucket(b, VALUE_PLAIN, "gone", "{}"), ERR_OK); /* the same again */
    side_must_put(a, side_call(a, VALUE_PLAIN, "gone", "k"), STR("1"));
    side_must_read(b, side_call(b, VALUE_PLAIN, "gone", "k"), "1"); /* now it is remembered */
    assert_int_equal(side_drop(a, VALUE_PLAIN, "gone"), ERR_OK);
    struct value_put p = side_put_of(side_call(b, VALUE_PLAIN, "gone", "k"), STR("2"));
    assert_int_equal(side_put(b, &p), ERR_NOT_FOUND);
    assert_int_equal(side_drop(b, VALUE_PLAIN, "gone"), ERR_NOT_FOUND);
    mono dropped = clock_mono(the.clock);
    assert_int_equal(side_bucket(b, VALUE_PLAIN, "gone", "{}"), ERR_OK);
    /* a third server may have remembered the old one just before it was dropped */
    assert_true(clock_mono(the.clock).ns >= mono_add_ms(dropped, VALUES_FRESH_MS).ns);
    side_must_read(a, side_call(a, VALUE_PLAIN, "gone", "k"), NULL);
    side_must_put(b, side_call(b, VALUE_PLAIN, "gone", "k"), STR("3"));
    side_must_read(a, side_call(a, VALUE_PLAIN, "gone", "k"), "3");
}

static void other_options_need_a_higher_version(void **state)
{
    (void)state;
    const char *mortal = "{\"default_time_to_live\": 5}",
               *higher = "{\"default_time_to_live\": 5, \"version\": 2}";
    assert_int_equal(side_bucket(a, VALUE_PLAIN, "changed", "{}"), ERR_OK);
    side_must_put(b, side_call(b, VALUE_PLAIN, "changed", "k"), STR("lasting"));
    assert_int_equal(side_bucket(a, VALUE_PLAIN, "changed", mortal), ERR_BAD);
    assert_int_equal(side_bucket(a, VALUE_PLAIN, "changed", higher), ERR_OK);
    side_must_put(b, side_call(b, VALUE_PLAIN, "changed", "l"), STR("mortal"));
    sides_advance(6 * NS_PER_S);
    side_must_read(b, side_call(b, VALUE_PLAIN, "changed", "k"), "lasting");
    side_must_read(b, side_call(b, VALUE_PLAIN, "changed", "l"), NULL);
    assert_int_equal(side_bucket(a, VALUE_PLAIN, "changed", "{\"durability\": 7}"), ERR_BAD);
}

static void a_configured_bucket_is_made_by_the_first_put(void **state)
{
    (void)state;
    struct value_read r = { .of = side_call(b, VALUE_PLAIN, "set", "k") };
    assert_int_equal(side_read(b, &r), ERR_NOT_FOUND);
    side_must_put(a, side_call(a, VALUE_PLAIN, "set", "k"), STR("1"));
    side_must_put(b, side_call(b, VALUE_PLAIN, "set", "k"), STR("2"));
    side_must_read(a, side_call(a, VALUE_PLAIN, "set", "k"), "2");
}

static void other_tables_are_refused_by_name(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, 1 << 20);
    struct table_schema_change c = { .call = real_call(),
                                     .domain = 1,
                                     .table = STR("mine"),
                                     .json = STR("{\"version\": 1}"),
                                     .arena = &arena };
    assert_int_equal(table_store_change(values_store(sides.values[0]), &c), STORE_LATER);
    real_wait("a change");
    assert_int_equal(c.call.why, ERR_BAD);
    assert_non_null(strstr(c.note.text, "mine"));
    struct table_query q = { .domain = 1, .table = STR("mine"), .arena = &arena };
    assert_int_equal(table_store_query(values_store(sides.values[0]), &q), STORE_DONE);
    assert_int_equal(q.call.why, ERR_BAD);
    assert_non_null(strstr(q.note.text, "mine"));
    arena_fini(&arena);
}

/* ---- large values ---- */

static char large[VALUES_BODY_BYTES_MAX];

static str large_of(char fill, size_t n)
{
    for (size_t i = 0; i < n; i++)
        large[i] = (char)(fill + (char)(i % 61));
    return (str){ .p = large, .n = n };
}

static void values_of_every_size_come_back(void **state)
{
    (void)state;
    static const size_t sizes[] = { VALUES_INLINE_BYTES + 1, VALUES_CHUNK_BYTES,
                                    VALUES_CHUNK_BYTES + 1, 9 * VALUES_CHUNK_BYTES + 7, 20 << 20 };
    for (unsigned i = 0; i < COUNT_OF(sizes); i++) {
        str body = large_of((char)('0' + (char)i), sizes[i]);
        side_must_put(a, plain(a, "large"), body);
        struct value_read r = { .of = plain(b, "large") };
        assert_int_equal(side_read(b, &r), ERR_OK);
        assert_true(str_eq(r.of.row.body, body));
        struct value_put same = side_put_of(plain(b, "large"), body);
        same.unlike = true;
        assert_int_equal(side_put(b, &same), ERR_OK);
        assert_int_equal(same.outcome, VALUE_SAME);
        side_clear(a);
        side_clear(b);
    }
}

/* ---- races ---- */

enum { RACERS = 8, ROUNDS = 12 };

struct racer {
    pthread_t thread;
    struct side *side;
    struct value_put put;
    struct awaited over;
    struct arena arena;
    char body[16];
};

static void racer_over(struct store_call *c)
{
    struct value_put *p = CONTAINER_OF(c, struct value_put, of.call);
    awaited_tell(&CONTAINER_OF(p, struct racer, put)->over, c->why);
}

static void *racer_run(void *ctx)
{
    struct racer *r = ctx;
    store_call_then(value_put(&r->side->service, &r->put), &r->put.of.call);
    return NULL;
}

static void racers_run(struct racer *racers, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct racer *r = &racers[i];
        awaited_init(&r->over);
        arena_init(&r->arena, 32 << 20);
        r->put.of.arena = &r->arena;
        r->put.of.call = (struct store_call){ .home = home_here(), .done = racer_over };
        assert_int_equal(pthread_create(&r->thread, NULL, racer_run, r), 0);
    }
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(pthread_join(racers[i].thread, NULL), 0);
        (void)awaited_wait(&racers[i].over);
        awaited_fini(&racers[i].over);
    }
}

static void racers_end(struct racer *racers, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        arena_fini(&racers[i].arena);
}

static void of_those_who_create_one_wins(void **state)
{
    (void)state;
    static struct racer racers[RACERS];
    for (unsigned round = 0; round < ROUNDS; round++) {
        char key[16];
        unsigned won = 0;
        (void)snprintf(key, sizeof key, "race%u", round);
        for (unsigned i = 0; i < RACERS; i++) {
            struct racer *r = &racers[i];
            r->side = &sides.shared[i % SIDES_SERVERS];
            (void)snprintf(r->body, sizeof r->body, "%u", i);
            r->put = side_put_of(plain(r->side, key), str_of(r->body));
            r->put.condition.if_none_match = STR("*");
        }
        racers_run(racers, RACERS);
        const struct racer *winner = NULL;
        for (unsigned i = 0; i < RACERS; i++) {
            if (racers[i].put.of.call.why != ERR_OK)
                fail_msg("%s: %s", err_name(racers[i].put.of.call.why), racers[i].put.of.note.text);
            if (racers[i].put.outcome == VALUE_WRITTEN) {
                won++;
                winner = &racers[i];
            }
        }
        assert_int_equal(won, 1);
        side_must_read(b, plain(b, key), winner->body);
        racers_end(racers, RACERS);
    }
}

/* Each adds one by If-Match on what it read, until it has; none is lost. */
struct adder {
    pthread_t thread;
    struct side side;
    unsigned added;
};

static void call_over(struct store_call *c)
{
    awaited_tell(c->own, c->why);
}

static void *adder_run(void *ctx)
{
    struct adder *d = ctx;
    while (d->added < ROUNDS) {
        struct awaited over;
        char body[16], etag[24];
        struct value_read r = { .of = plain(&d->side, "sum") };
        awaited_init(&over);
        r.of.call = (struct store_call){ .home = home_here(), .done = call_over, .own = &over };
        store_call_then(value_read(&d->side.service, &r), &r.of.call);
        INVARIANT(awaited_wait(&over) == ERR_OK);
        awaited_fini(&over);
        INVARIANT(r.of.row.found);
        uint64_t sum;
        INVARIANT(str_to_u64(r.of.row.body, &sum));
        (void)snprintf(body, sizeof body, "%u", (unsigned)sum + 1);
        (void)snprintf(etag, sizeof etag, "\"%s\"", body);
        struct value_put p = side_put_of(plain(&d->side, "sum"), str_of(body));
        p.etag = str_of(etag);
        p.condition.if_match = r.of.row.etag;
        awaited_init(&over);
        p.of.call = (struct store_call){ .home = home_here(), .done = call_over, .own = &over };
        store_call_then(value_put(&d->side.service, &p), &p.of.call);
        if (awaited_wait(&over) != ERR_OK)
            check_failed(__FILE__, __LINE__, p.of.note.text);
        awaited_fini(&over);
        d->added += p.outcome == VALUE_WRITTEN;
        side_clear(&d->side);
    }
    return NULL;
}

static void no_addition_is_lost(void **state)
{
    (void)state;
    static struct adder adders[4];
    struct value_put first = side_put_of(plain(a, "sum"), STR("0"));
    first.etag = STR("\"0\"");
    assert_int_equal(side_put(a, &first), ERR_OK);
    for (unsigned i = 0; i < COUNT_OF(adders); i++) {
        adders[i] = (struct adder){ .side.service = sides.shared[i % SIDES_SERVERS].service };
        arena_init(&adders[i].side.arena, 32 << 20);
        assert_int_equal(pthread_create(&adders[i].thread, NULL, adder_run, &adders[i]), 0);
    }
    for (unsigned i = 0; i < COUNT_OF(adders); i++) {
        assert_int_equal(pthread_join(adders[i].thread, NULL), 0);
        arena_fini(&adders[i].side.arena);
    }
    char all_of_them[16];
    (void)snprintf(all_of_them, sizeof all_of_them, "%d", (int)(ROUNDS * COUNT_OF(adders)));
    side_must_read(b, plain(b, "sum"), all_of_them);
}

/* The tid of a later put is greater, also when clocks stand still. */
static void tids_are_minted_one_behind_the_other(void **state)
{
    (void)state;
    struct tid last = { .ticks = 0 };
    for (unsigned i = 0; i < 4; i++) {
        struct side *s = &sides.shared[i % SIDES_SERVERS];
        struct value_put p = side_put_of(rev(s, "minted", 5), STR("x"));
        assert_int_equal(side_put(s, &p), ERR_OK);
        assert_true(tid_cmp(last, p.of.target.tid) < 0);
        last = p.of.target.tid;
    }
}

/* ---- many ---- */

static void all_keys_are_listed_in_order(void **state)
{
    (void)state;
    enum { MANY = 150 };
    assert_int_equal(side_bucket(a, VALUE_PLAIN, "many", "{}"), ERR_OK);
    for (unsigned i = 0; i < MANY; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%03u", i);
        side_must_put(a, side_call(a, VALUE_PLAIN, "many", key), STR("x"));
    }
    unsigned seen = 0;
    str from = STR_NONE;
    do {
        struct value_list l = { .of = side_call(b, VALUE_PLAIN, "many", NULL),
                                .limit = 40,
                                .from = from };
        if (side_list(b, &l) != ERR_OK)
            fail_msg("%s", l.of.note.text);
        for (unsigned i = 0; i < l.items_count; i++, seen++) {
            char key[16];
            (void)snprintf(key, sizeof key, "k%03u", seen);
            assert_true(str_eq(l.items[i].key, str_of(key)));
        }
        from = l.next;
    } while (from.n > 0);
    assert_int_equal(seen, MANY);
    struct value_list bad = { .of = side_call(b, VALUE_PLAIN, "many", NULL), .from = STR("x") };
    assert_int_equal(side_list(b, &bad), ERR_BAD);
}

static void many_revisions_are_listed_and_read(void **state)
{
    (void)state;
    enum { MANY = 620 };
    for (int64_t i = 0; i < MANY; i++) {
        side_must_put(a, rev(a, "long", i), STR("x"));
        side_clear(a);
    }
    side_must_put(a, rev(a, "long", 3), STR("deep")); /* behind the first page */
    side_must_read(b, rev(b, "long", 3), "deep");
    struct value_put p = side_put_of(rev(b, "long", 3), STR("no"));
    p.condition.if_none_match = STR("*");
    assert_int_equal(side_put(b, &p), ERR_OK);
    assert_int_equal(p.outcome, VALUE_UNMET);
    struct value_list l = { .of = side_call(b, VALUE_REVS, "revs", "long"), .limit = 1000 };
    assert_int_equal(side_list(b, &l), ERR_OK);
    assert_int_equal(l.items_count, MANY + 1);
    assert_int_equal(l.items[0].rev, MANY - 1);
    assert_int_equal(l.next.n, 0);
    struct value_delete d = { .of = rev(a, "long", 3) };
    assert_int_equal(side_delete(a, &d), ERR_OK);
    side_must_read(b, rev(b, "long", 3), NULL);
    struct value_delete whole = { .of = side_call(a, VALUE_REVS, "revs", "long") };
    assert_int_equal(side_delete(a, &whole), ERR_OK);
    side_must_read(b, side_call(b, VALUE_REVS, "revs", "long"), NULL);
}

/* ---- the upkeep ---- */

static void what_has_ended_goes_and_what_is_stays(void **state)
{
    (void)state;
    const char *mortal = "{\"default_time_to_live\": 5}";
    assert_int_equal(side_bucket(a, VALUE_PLAIN, "ends", mortal), ERR_OK);
    assert_int_equal(side_bucket(a, VALUE_PLAIN, "stays", "{}"), ERR_OK);
    sides_advance(26 * 3600 * NS_PER_S);
    side_upkeep(a); /* what other tests left */
    int64_t rows = rows_in("value", "tid"), keys = rows_in("value_key", "key"),
            chunks = rows_in("value_chunk", "bytes");
    str big = large_of('a', 3 * VALUES_CHUNK_BYTES);
    side_must_put(a, side_call(a, VALUE_PLAIN, "ends", "k"), big);
    side_must_put(a, side_call(a, VALUE_PLAIN, "stays", "k"), big);
    side_must_put(b, side_call(b, VALUE_PLAIN, "stays", "k"), big); /* in its place */
    assert_int_equal(rows_in("value", "tid"), rows + 2);
    assert_int_equal(rows_in("value_chunk", "bytes"), chunks + 6);
    sides_advance(26 * 3600 * NS_PER_S);
    side_upkeep(b);
    side_upkeep(a); /* it was b's turn: nothing is left to do for a day */
    assert_int_equal(rows_in("value", "tid"), rows + 1);
    assert_int_equal(rows_in("value_key", "key"), keys + 1);
    assert_int_equal(rows_in("value_chunk", "bytes"), chunks + 3);
    struct value_read r = { .of = side_call(b, VALUE_PLAIN, "stays", "k") };
    assert_int_equal(side_read(b, &r), ERR_OK);
    assert_true(str_eq(r.of.row.body, big));
    side_must_put(b, side_call(b, VALUE_PLAIN, "ends", "k"), STR("again"));
    side_must_read(a, side_call(a, VALUE_PLAIN, "ends", "k"), "again");
    struct value_list l = { .of = side_call(a, VALUE_PLAIN, "ends", NULL), .limit = 10 };
    assert_int_equal(side_list(a, &l), ERR_OK);
    assert_int_equal(l.items_count, 1);
}

/* Its chunks are there, and then the policy says no: as a server that ends in between. */
static void chunks_of_a_write_that_broke_off_go(void **state)
{
    (void)state;
    const char *strict = "{\"revisionRetentionPolicy\": {\"type\": \"latest\", \"count\": 1, "
                         "\"grace_ttl\": 0}}";
    assert_int_equal(side_bucket(a, VALUE_REVS, "strict", strict), ERR_OK);
    str big = large_of('b', 2 * VALUES_CHUNK_BYTES);
    struct value_call newest = side_call(a, VALUE_REVS, "strict", "k"), late;
    newest.target.has_rev = newest.target.has_tid = true;
    newest.target.rev = 1;
    newest.target.tid = tid_make(tid_ticks(clock_store(&sides.clock)), 1);
    late = newest;
    late.target.tid = tid_make(newest.target.tid.ticks - 100, 1);
    side_must_put(a, newest, big);
    int64_t chunks = rows_in("value_chunk", "bytes");
    struct value_put p = side_put_of(late, big);
    assert_int_equal(side_put(a, &p), ERR_GONE);
    assert_int_equal(rows_in("value_chunk", "bytes"), chunks + 2);
    sides_advance(26 * 3600 * NS_PER_S);
    side_upkeep(b);
    assert_int_equal(rows_in("value_chunk", "bytes"), chunks);
    struct value_read r = { .of = newest };
    assert_int_equal(side_read(a, &r), ERR_OK);
    assert_true(str_eq(r.of.row.body, big));
}

static void a_dropped_bucket_leaves_nothing(void **state)
{
    (void)state;
    assert_int_equal(side_bucket(a, VALUE_PLAIN, "left", "{}"), ERR_OK);
    side_must_put(a, side_call(a, VALUE_PLAIN, "left", "k"), large_of('c', VALUES_CHUNK_BYTES));
    int64_t rows = rows_in("value", "tid"), made = rows_in("value_made", "one");
    assert_int_equal(side_drop(a, VALUE_PLAIN, "left"), ERR_OK);
    assert_int_equal(rows_in("value", "tid"), rows);
    sides_advance(26 * 3600 * NS_PER_S);
    side_upkeep(b);
    assert_true(rows_in("value", "tid") < rows);
    assert_true(rows_in("value_made", "one") < made);
}

/* A step of a holds the lease; b waits until a has been silent for as long as a lease lasts. */
static void one_server_sweeps_and_another_takes_over(void **state)
{
    (void)state;
    bool more;
    store_time next;
    sides_advance(26 * 3600 * NS_PER_S);
    assert_int_equal(table_store_upkeep(a->service.store, &more, &next), ERR_OK);
    assert_true(more);
    assert_int_equal(table_store_upkeep(b->service.store, &more, &next), ERR_OK);
    assert_false(more);
    assert_true(store_time_before(clock_store(&sides.clock), next));
    assert_int_equal(table_store_upkeep(a->service.store, &more, &next), ERR_OK);
    sides_advance(2 * VALUES_LEASE_S * NS_PER_S);
    assert_int_equal(table_store_upkeep(b->service.store, &more, &next), ERR_OK);
    assert_true(more);
    assert_int_equal(table_store_upkeep(a->service.store, &more, &next), ERR_OK);
    assert_false(more);
    side_upkeep(b);
    sides_advance(26 * 3600 * NS_PER_S);
    side_upkeep(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_server_sweeps_and_another_takes_over),
        cmocka_unit_test(a_bucket_that_is_dropped_is_gone_on_all_servers),
        cmocka_unit_test(other_options_need_a_higher_version),
        cmocka_unit_test(a_configured_bucket_is_made_by_the_first_put),
        cmocka_unit_test(other_tables_are_refused_by_name),
        cmocka_unit_test(values_of_every_size_come_back),
        cmocka_unit_test(of_those_who_create_one_wins),
        cmocka_unit_test(no_addition_is_lost),
        cmocka_unit_test(tids_are_minted_one_behind_the_other),
        cmocka_unit_test(all_keys_are_listed_in_order),
        cmocka_unit_test(many_revisions_are_listed_and_read),
        cmocka_unit_test(what_has_ended_goes_and_what_is_stays),
        cmocka_unit_test(chunks_of_a_write_that_broke_off_go),
        cmocka_unit_test(a_dropped_bucket_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
