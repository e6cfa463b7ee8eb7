/* Goal: of changes that depend on one thing one happens; a change is whole; a copy follows.
 * Method: a real Cassandra (real.h). Lost answers: test_cassandra_catalog_lost.c. */
#include "real.h"

#include "../cmocka_all.h"
#include "cassandra/catalog.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct catalog_id none;

static void setup_schema(void **state)
{
    (void)state;
    real_apply();
    if (the.why != ERR_OK)
        fail_msg("%s", the.note);
}

static struct catalog_rows *load_of(const char *scope, const char *key, bool serial)
{
    struct catalog_load l = {
        .call = real_call(), .scope = str_of(scope), .key = str_of(key), .serial = serial
    };
    assert_int_equal(catalog_load(the.catalog, &l), STORE_LATER);
    real_wait("a load");
    if (l.call.why != ERR_OK)
        fail_msg("%s: %s", err_name(l.call.why), l.note.text);
    return l.rows;
}

static err change_run(const char *scope, const struct catalog_id *if_generation,
                      const struct catalog_put *puts, unsigned count, struct catalog_id *id)
{
    struct catalog_change q = { .call = real_call(),
                                .scope = str_of(scope),
                                .if_generation = if_generation,
                                .puts = puts,
                                .puts_count = count };
    assert_int_equal(catalog_change(the.catalog, &q), STORE_LATER);
    real_wait("a change");
    if (q.call.why != ERR_OK)
        print_message("%s: %s\n", err_name(q.call.why), q.note.text);
    assert_false(q.unknown);
    if (id != NULL)
        *id = q.id;
    return q.call.why;
}

static bool has(const struct catalog_rows *r, const char *key, const char *value)
{
    const struct catalog_cell *c = catalog_rows_find(r, str_of(key));
    return c != NULL && str_eq(c->value, str_of(value));
}

static void what_nobody_wrote_is_empty(void **state)
{
    (void)state;
    struct catalog_rows *r = load_of("nothing", NULL, true);
    assert_int_equal(r->count, 0);
    assert_true(catalog_id_eq(&r->generation, &none));
    catalog_rows_drop(&r);
}

static void a_change_is_whole_and_moves_the_generation(void **state)
{
    (void)state;
    struct catalog_id first, second;
    const struct catalog_put two[] = { { .key = STR("b"), .value = STR("2") },
                                       { .key = STR("a"), .value = STR("") } };
    assert_int_equal(change_run("whole", &none, two, 2, &first), ERR_OK);
    struct catalog_rows *r = load_of("whole", NULL, false);
    assert_int_equal(r->count, 2);
    assert_true(catalog_id_eq(&r->generation, &first));
    assert_true(has(r, "a", "") && has(r, "b", "2"));
    assert_true(str_eq(r->cells[0].key, STR("a")));
    assert_true(catalog_id_eq(&r->cells[1].version, &first));
    catalog_rows_drop(&r);

    const struct catalog_put other[] = { { .key = STR("a") }, /* deleted */
                                         { .key = STR("c"), .value = STR("3") } };
    assert_int_equal(change_run("whole", &none, other, 2, NULL), ERR_CONFLICT);
    r = load_of("whole", NULL, true);
    assert_int_equal(r->count, 2);
    catalog_rows_drop(&r);
    assert_int_equal(change_run("whole", &first, other, 2, &second), ERR_OK);
    r = load_of("whole", NULL, false);
    assert_true(catalog_id_eq(&r->generation, &second));
    assert_int_equal(r->count, 2);
    assert_true(has(r, "b", "2") && has(r, "c", "3"));
    assert_true(catalog_id_eq(&r->cells[0].version, &first));
    catalog_rows_drop(&r);
    r = load_of("whole", "b", true);
    assert_int_equal(r->count, 1);
    assert_true(has(r, "b", "2"));
    catalog_rows_drop(&r);
}

static void a_cell_is_put_only_as_it_was_read(void **state)
{
    (void)state;
    struct catalog_id first, second;
    struct catalog_put p = { .key = STR("n"), .value = STR("1"), .if_version = &none };
    assert_int_equal(change_run("cells", NULL, &p, 1, &first), ERR_OK);
    assert_int_equal(change_run("cells", NULL, &p, 1, NULL), ERR_CONFLICT);
    p.if_version = &first;
    p.value = STR("2");
    assert_int_equal(change_run("cells", NULL, &p, 1, &second), ERR_OK);
    p.value = STR_NONE;
    assert_int_equal(change_run("cells", NULL, &p, 1, NULL), ERR_CONFLICT);
    p.if_version = &second;
    assert_int_equal(change_run("cells", NULL, &p, 1, NULL), ERR_OK);
    p.if_version = &none; /* it is not there again */
    p.value = STR("3");
    assert_int_equal(change_run("cells", NULL, &p, 1, NULL), ERR_OK);
    const struct catalog_put any = { .key = STR("n"), .value = STR("4") };
    assert_int_equal(change_run("cells", NULL, &any, 1, NULL), ERR_OK);
    struct catalog_rows *r = load_of("cells", NULL, false);
    assert_true(has(r, "n", "4"));
    catalog_rows_drop(&r);
}

static void a_scope_of_many_cells_comes_in_pages(void **state)
{
    (void)state;
    enum { MANY = 2200 };
    static char keys[MANY][8];
    struct catalog_put puts[CATALOG_CHANGE_MAX];
    for (unsigned i = 0; i < MANY; i++)
        (void)snprintf(keys[i], sizeof keys[i], "%07u", (i * 1201) % MANY);
    for (unsigned i = 0; i < MANY;) {
        unsigned n = 0;
        for (; n < CATALOG_CHANGE_MAX && i < MANY; n++, i++)
            puts[n] = (struct catalog_put){ .key = { keys[i], 7 }, .value = { keys[i], 7 } };
        assert_int_equal(change_run("many", NULL, puts, n, NULL), ERR_OK);
    }
    struct catalog_rows *r = load_of("many", NULL, false);
    assert_int_equal(r->count, MANY);
    for (unsigned i = 1; i < MANY; i++)
        assert_true(str_cmp(r->cells[i - 1].key, r->cells[i].key) < 0);
    assert_int_equal(catalog_rows_from(r, STR("0000100")), 100);
    assert_int_equal(catalog_rows_from(r, STR("0000100x")), 101);
    catalog_rows_drop(&r);
}

/* ---- two at once ---- */

enum { RACERS = 4, ROUNDS = 12 };
static struct {
    pthread_mutex_t lock;
    unsigned over;
} race = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void racer_done(struct store_call *c)
{
    (void)c;
    assert_int_equal(pthread_mutex_lock(&race.lock), 0);
    race.over++;
    assert_int_equal(pthread_mutex_unlock(&race.lock), 0);
}

static bool race_is_over(void *ctx)
{
    (void)ctx;
    assert_int_equal(pthread_mutex_lock(&race.lock), 0);
    bool over = race.over == RACERS;
    assert_int_equal(pthread_mutex_unlock(&race.lock), 0);
    return over;
}

/* Of those who saw one version one wins; none is left in doubt while time is left. */
static void of_racers_on_one_cell_one_wins(void **state)
{
    (void)state;
    struct catalog_id at = none;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct catalog_change q[RACERS];
        struct catalog_put p[RACERS];
        char values[RACERS][2];
        unsigned winner = RACERS;
        race.over = 0;
        for (unsigned i = 0; i < RACERS; i++) {
            values[i][0] = (char)('a' + i);
            p[i] = (struct catalog_put){ .key = STR("cell"),
                                         .value = { values[i], 1 },
                                         .if_version = &at };
            q[i] = (struct catalog_change){ .call = { .home = home_here(),
                                                      .done = racer_done,
                                                      .deadline = mono_add_ms(clock_mono(the.clock),
                                                                              30000) },
                                            .scope = STR("race"),
                                            .puts = &p[i],
                                            .puts_count = 1 };
        }
        for (unsigned i = 0; i < RACERS; i++)
            assert_int_equal(catalog_change(the.catalog, &q[i]), STORE_LATER);
        real_until(race_is_over, NULL, "the race");
        for (unsigned i = 0; i < RACERS; i++) {
            assert_false(q[i].unknown);
            if (q[i].call.why == ERR_OK) {
                assert_int_equal(winner, RACERS);
                winner = i;
            } else {
                assert_int_equal(q[i].call.why, ERR_CONFLICT);
            }
        }
        assert_int_not_equal(winner, RACERS);
        struct catalog_rows *r = load_of("race", NULL, true);
        assert_int_equal(r->count, 1);
        assert_int_equal(r->cells[0].value.p[0], values[winner][0]);
        assert_true(catalog_id_eq(&r->cells[0].version, &q[winner].id));
        at = r->cells[0].version;
        catalog_rows_drop(&r);
    }
}

/* ---- a copy ---- */

struct follow {
    struct catalog_watch *watch;
    atomic_uint changes;
};

static void follow_changed(void *ctx, struct catalog_rows *rows)
{
    struct follow *f = ctx;
    assert_non_null(rows);
    f->changes++;
}

static void follow_start(void *ctx)
{
    struct follow *f = ctx;
    f->watch = catalog_watch_new(&(struct catalog_watch_opts){ .catalog = the.catalog,
                                                               .scope = "follow",
                                                               .poll_ms = 50,
                                                               .changed = follow_changed,
                                                               .ctx = f });
}

static void follow_told(void *ctx)
{
    struct follow *f = ctx;
    catalog_watch_free(&f->watch);
    f->changes = UINT32_MAX;
}

static void follow_stop(void *ctx)
{
    struct follow *f = ctx;
    catalog_watch_stop(f->watch, follow_told, f);
}

static bool follow_is_free(void *ctx)
{
    struct follow *f = ctx;
    return f->changes == UINT32_MAX;
}

static bool follow_has_copy(void *ctx)
{
    struct follow *f = ctx;
    mono at;
    return catalog_watch_fresh(f->watch, &at);
}

static bool follow_sees(void *ctx)
{
    struct follow *f = ctx;
    mono at;
    struct catalog_rows *r = catalog_watch_rows(f->watch, &at);
    bool seen = r != NULL && has(r, "k", "v");
    catalog_rows_drop(&r);
    return seen;
}

static bool follow_moves(void *ctx)
{
    static mono before;
    struct follow *f = ctx;
    mono at;
    bool fresh = catalog_watch_fresh(f->watch, &at);
    bool moved = fresh && before.ns != 0 && at.ns > before.ns;
    before = at;
    return moved;
}

static void a_copy_follows_and_says_how_old_it_is(void **state)
{
    (void)state;
    struct follow f = { .watch = NULL };
    const struct catalog_put p = { .key = STR("k"), .value = STR("v") };
    real_on_loop(follow_start, &f);
    real_until(follow_has_copy, &f, "an empty copy");
    real_until(follow_moves, &f, "the copy is as fresh as the last look");
    mono before = clock_mono(the.clock), at;
    assert_int_equal(change_run("follow", NULL, &p, 1, NULL), ERR_OK);
    real_until(follow_sees, &f, "the change is seen");
    assert_true(catalog_watch_fresh(f.watch, &at));
    assert_true(at.ns > before.ns);
    assert_int_equal(f.changes, 2);

    struct catalog_rows *old = load_of("follow", NULL, false); /* read before the next change */
    const struct catalog_put gone = { .key = STR("k") };
    assert_int_equal(change_run("follow", NULL, &gone, 1, NULL), ERR_OK);
    struct catalog_rows *now = load_of("follow", NULL, false);
    catalog_watch_take(f.watch, now);
    catalog_watch_take(f.watch, old); /* a late one changes nothing */
    assert_false(follow_sees(&f));
    catalog_rows_drop(&old);
    catalog_rows_drop(&now);
    real_on_loop(follow_stop, &f);
    real_until(follow_is_free, &f, "the watch has stopped");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(setup_schema),
        cmocka_unit_test(what_nobody_wrote_is_empty),
        cmocka_unit_test(a_change_is_whole_and_moves_the_generation),
        cmocka_unit_test(a_cell_is_put_only_as_it_was_read),
        cmocka_unit_test(a_scope_of_many_cells_comes_in_pages),
        cmocka_unit_test(of_racers_on_one_cell_one_wins),
        cmocka_unit_test(a_copy_follows_and_says_how_old_it_is),
    };
    return cmocka_run_group_tests(tests, real_setup, real_teardown);
}
