/* Goal: whatever stands in Redis, by a clock that was set back, a replica that is behind or another
 * program, a request is answered in its time, and no list is fresh or shown for longer than its ttl
 * and stale_ttl say. Method: one server makes a list, the test writes into its record or speaks on
 * its channel, another server reads (stage.h). What is written is first what a stepped clock
 * leaves, then fields and texts drawn from a seed: POISON_SEED runs that one alone, POISON_RUNS so
 * many. */
#include "stage.h"

#include "../cmocka_all.h"

#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

enum { RUNS = 100, KEY_BYTES = 64, COMMAND_BYTES = 512 };
#define DAY_MS ((int64_t)24 * 3600 * 1000)

static void key_of(const struct asked *a, char key[KEY_BYTES])
{
    char id[2 * FLIGHT_ID_BYTES + 1];
    for (unsigned i = 0; i < FLIGHT_ID_BYTES; i++)
        (void)snprintf(id + 2 * i, 3, "%02x", a->r.id[i]);
    (void)snprintf(key, KEY_BYTES, "pal:f:{%s}", id);
}

static void set(struct world *w, const char *key, const char *field, const char *value)
{
    char command[COMMAND_BYTES];
    (void)snprintf(command, sizeof command, "HSET %s %s \"%s\"", key, field, value);
    (void)stage_redis(w, command);
}

/* Moves a time in the record. */
static void move(struct world *w, const char *key, const char *field, int64_t ms)
{
    char command[COMMAND_BYTES];
    (void)snprintf(command, sizeof command, "HINCRBY %s %s %lld", key, field, (long long)ms);
    (void)stage_redis(w, command);
}

static void is_in_its_time(const struct asked *a)
{
    assert_int_equal(a->why, ERR_OK);
    assert_in_range(a->value->fresh_ms, 0, TTL_MS);
    assert_in_range(a->value->stale_ms, a->value->fresh_ms, TTL_MS + STALE_MS);
    assert_true(a->value->age_ms >= 0);
}

static struct asked *get_now(struct world *w, unsigned node, const char *display)
{
    return stage_wait(stage_ask(w, node, display, (struct wish){ .wait_ms = WAIT_MS }));
}

static void redis_was_a_day_ahead(struct world *w, const char *key)
{
    move(w, key, "fu", DAY_MS);
    move(w, key, "su", DAY_MS);
    move(w, key, "at", DAY_MS);
    move(w, key, "vb", DAY_MS);
}

static void a_list_of_a_clock_ahead_is_given_back_by_who_holds_it(void **state)
{
    (void)state;
    struct world w;
    char key[KEY_BYTES];
    stage_begin(&w, 2, true, 0);
    const struct asked *first = stage_get(&w, 0, "d");
    key_of(first, key);
    redis_was_a_day_ahead(&w, key);
    stage_advance(&w, LIST_CACHE_MS + 1);
    const struct asked *again = get_now(&w, 0, "d"), *elsewhere = get_now(&w, 1, "d");
    is_in_its_time(again);
    is_in_its_time(elsewhere);
    assert_string_equal(again->value->version, first->value->version);
    assert_string_equal(elsewhere->value->version, first->value->version);
    stage_end(&w);
}

static void a_list_of_a_clock_ahead_is_made_anew_by_who_has_none(void **state)
{
    (void)state;
    struct world w;
    char key[KEY_BYTES];
    stage_begin(&w, 2, true, 0);
    key_of(stage_get(&w, 0, "d"), key);
    redis_was_a_day_ahead(&w, key);
    const struct asked *elsewhere = get_now(&w, 1, "d");
    is_in_its_time(elsewhere);
    assert_int_equal(stage_call_of(elsewhere), 2);
    stage_end(&w);
}

static void a_list_is_fresh_no_longer_than_its_ttl_from_when_it_was_made(void **state)
{
    (void)state;
    struct world w;
    char key[KEY_BYTES];
    stage_begin(&w, 2, true, 0);
    key_of(stage_get(&w, 0, "d"), key);
    move(&w, key, "fu", DAY_MS);
    move(&w, key, "su", DAY_MS);
    move(&w, key, "at", -TTL_MS / 2);
    const struct asked *elsewhere = get_now(&w, 1, "d");
    assert_int_equal(stage_call_of(elsewhere), 1);
    assert_in_range(elsewhere->value->fresh_ms, 1, TTL_MS / 2);
    assert_in_range(elsewhere->value->stale_ms, 1, TTL_MS / 2 + STALE_MS);
    stage_end(&w);
}

static void an_error_of_a_clock_ahead_is_not_answered(void **state)
{
    (void)state;
    struct world w;
    char key[KEY_BYTES];
    stage_begin(&w, 2, true, 0);
    stage_say(&w, 500, "no");
    const struct asked *failed = stage_wait(stage_ask(&w, 0, "d", (struct wish){ 0 }));
    assert_int_equal(failed->why, ERR_UNAVAILABLE);
    key_of(failed, key);
    move(&w, key, "eu", DAY_MS);
    stage_say(&w, 200, NULL);
    is_in_its_time(get_now(&w, 1, "d"));
    stage_end(&w);
}

static void a_fence_that_is_no_number_of_ours_hinders_nobody(void **state)
{
    (void)state;
    static const char *const fences[] = {
        "1e300", "nan",  "inf",
        "-1",    "9e15", "9300000000000000",
        "x",     "",     "999999999999999999999999999999999999999999999999999999999999",
    };
    struct world w;
    char key[KEY_BYTES];
    stage_begin(&w, 1, true, 0);
    for (unsigned i = 0; i < COUNT_OF(fences); i++) {
        char display[16];
        (void)snprintf(display, sizeof display, "d%u", i);
        struct asked *a = stage_asked(&w, 0, display, (struct wish){ .wait_ms = WAIT_MS });
        assert_null(list_here(w.nodes[0].lists, &a->r));
        key_of(a, key);
        set(&w, key, "f", fences[i]);
        assert_int_equal(list_start(w.nodes[0].lists, &a->r), ERR_OK);
        is_in_its_time(stage_wait(a));
    }
    stage_end(&w);
}

/* ---- drawn ---- */

static const char *const record_fields[] = {
    "val", "ver", "k", "fu", "su", "at", "d", "vb", "lt",
    "lx",  "lb",  "w", "ek", "eu", "en", "f", "a",  "pin"
};
static const char *const texts[] = {
    "",
    "0",
    "-1",
    "1",
    "nan",
    "-nan",
    "inf",
    "-inf",
    "1e300",
    "-1e300",
    "0x7fffffffffffffff",
    "9e15",
    " 7",
    "7.5",
    "8999999999999999",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "99999999999999999999999999999",
    "\\xff\\xfe",
    "a\\r\\nX-Evil: 1",
    "1.a\\r\\nX-Evil: 1",
    "5.node0",
    "9999999999999999.node0",
    "1e300.node0",
    "not_shared",
    "OK",
    "timeout",
    "unavailable \\x01\\xff",
    "[]",
    "[{}]",
    "{}",
    "null",
    "node0 node1 node0 ",
    "pal:all",
};
static const char *const words[] = {
    "V 9223372036854775807 9223372036854775807 0 []",
    "V -9223372036854775808 1 -9223372036854775808 []",
    "V 1 1 9223372036854775807 []",
    "V 60000 -5 0 []",
    "V x y z []",
    "E 9223372036854775807 timeout",
    "E -9223372036854775808 OK",
    "E 5 \\xff\\xff",
    "T",
    "L",
    "L L",
    "Q",
    "V",
    "E",
};

static const char *one_of(struct rng *r, const char *const *of, unsigned count)
{
    return of[rng_below(r, count)];
}

static void poison(struct world *w, struct rng *r, const char *key)
{
    char command[COMMAND_BYTES];
    switch (rng_below(r, 10)) {
    case 0: { /* "pal:f:{ID}": the id */
        (void)snprintf(command, sizeof command, "PUBLISH pal:n:node%u \"%.32s %llu.%s %s\"",
                       (unsigned)rng_below(r, 2), key + 7, (unsigned long long)rng_next(r),
                       one_of(r, texts, COUNT_OF(texts)), one_of(r, words, COUNT_OF(words)));
        (void)stage_redis(w, command);
        return;
    }
    case 1:
        (void)snprintf(command, sizeof command, "PUBLISH pal:all \"%s\"",
                       one_of(r, texts, COUNT_OF(texts)));
        (void)stage_redis(w, command);
        return;
    case 2: /* of another type */
        (void)snprintf(command, sizeof command, "SET %s x", key);
        (void)stage_redis(w, command);
        return;
    case 3:
        (void)stage_redis(w, "SCRIPT FLUSH");
        return;
    default:
        (void)snprintf(command, sizeof command,
                       "EVAL \"if redis.call('TYPE', KEYS[1]).ok == 'string' then "
                       "redis.call('DEL', KEYS[1]) end\" 1 %s",
                       key);
        (void)stage_redis(w, command);
        for (unsigned n = (unsigned)rng_below(r, 6) + 1; n > 0; n--)
            set(w, key, one_of(r, record_fields, COUNT_OF(record_fields)),
                one_of(r, texts, COUNT_OF(texts)));
    }
}

/* A list of zero items is one, too; an error is told at once. */
static void is_harmless(const struct asked *a, uint64_t seed)
{
    bool fine =
        a->why != ERR_OK || (a->value->fresh_ms <= TTL_MS &&
                             a->value->stale_ms <= TTL_MS + STALE_MS && a->value->age_ms >= 0);
    if (!fine || a->why == ERR_TIMEOUT)
        fail_msg("seed %llu: %s", (unsigned long long)seed,
                 a->why == ERR_OK ? "beyond its time" : err_name(a->why));
    if (a->why == ERR_OK && strspn(a->value->version, "0123456789abcdefghijklmnopqrstuvwxyz.") !=
                                strlen(a->value->version))
        fail_msg("seed %llu: version %s", (unsigned long long)seed, a->value->version);
}

static void poison_run(struct world *w, uint64_t seed)
{
    struct rng r;
    char display[32], key[KEY_BYTES];
    rng_init(&r, seed);
    (void)snprintf(display, sizeof display, "d%llu", (unsigned long long)seed);
    if (rng_below(&r, 3) == 0) { /* before anybody made it */
        struct asked *a = stage_asked(w, 0, display, (struct wish){ 0 });
        assert_null(list_here(w->nodes[0].lists, &a->r));
        key_of(a, key);
    } else {
        key_of(stage_get(w, 0, display), key);
    }
    poison(w, &r, key);
    is_harmless(get_now(w, 1, display), seed);
    poison(w, &r, key);
    stage_advance(w, LIST_CACHE_MS + 1);
    is_harmless(get_now(w, 0, display), seed);
    is_harmless(get_now(w, 1, display), seed);
    stage_forget(w);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    uint64_t n;
    return text != NULL && str_to_u64(str_of(text), &n) ? n : otherwise;
}

static void whatever_is_written_into_redis_is_answered_in_time(void **state)
{
    (void)state;
    struct world w;
    uint64_t only = number_of("POISON_SEED", 0), runs = number_of("POISON_RUNS", RUNS);
    stage_begin(&w, 2, true, 0);
    for (uint64_t seed = only != 0 ? only : 1; seed <= (only != 0 ? only : runs); seed++)
        poison_run(&w, seed);
    stage_end(&w);
}

int main(void)
{
    redis_server_need();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_of_a_clock_ahead_is_given_back_by_who_holds_it),
        cmocka_unit_test(a_list_of_a_clock_ahead_is_made_anew_by_who_has_none),
        cmocka_unit_test(a_list_is_fresh_no_longer_than_its_ttl_from_when_it_was_made),
        cmocka_unit_test(an_error_of_a_clock_ahead_is_not_answered),
        cmocka_unit_test(a_fence_that_is_no_number_of_ours_hinders_nobody),
        cmocka_unit_test(whatever_is_written_into_redis_is_answered_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
