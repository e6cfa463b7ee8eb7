/* Goal: servers that share a Redis show one list of a display while it is fresh, also when Redis
 * loses it, and none of them shows one that was dropped.
 * Method: two servers' lists and a real redis-server that is emptied (stage.h). */
#include "stage.h"

#include "../cmocka_all.h"

enum { EARLY_TRIES = 50 };

static void two_servers_show_one_list_and_both_drop_it(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 2, true, 0);
    const struct asked *first = stage_get(&w, 0, "d"), *second = stage_get(&w, 1, "d");
    assert_string_equal(first->value->version, second->value->version);
    assert_true(str_eq(first->value->json, second->value->json));
    assert_int_equal(stage_calls(&w), 1);
    stage_drop(&w, 0, "d");
    stage_get_until(&w, 1, "d", 2);
    assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 2);
    stage_end(&w);
}

static void a_list_that_takes_long_is_made_anew_before_its_time(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 2, true, 0);
    stage_hold(&w, true);
    struct asked *first = stage_ask(&w, 0, "d", (struct wish){ 0 });
    stage_wait_calls(&w, 1);
    stage_advance(&w, 30 * TTL_MS); /* it takes thirty times as long as it lives: a reader refreshes
                                       it with 29 in 30 */
    stage_hold(&w, false);
    assert_int_equal(stage_call_of(stage_wait(first)), 1);
    for (unsigned i = 0; i < EARLY_TRIES && stage_calls(&w) == 1; i++) {
        assert_in_range(stage_call_of(stage_get(&w, 1, "d")), 1, 2); /* nobody waits for it */
        stage_advance(&w, LIST_CACHE_MS + 1);
    }
    stage_wait_calls(&w, 2);
    assert_true(stage_stats(&w, 1).refreshes > 0);
    stage_end(&w);
}

static void an_emptied_redis_gets_back_what_is_still_fresh(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 2, true, 0);
    const struct asked *first = stage_get(&w, 0, "d");
    stage_advance(&w, TTL_MS / 2); /* long after it is answered without asking */
    stage_redis(&w, "FLUSHALL");
    const struct asked *late = stage_get(&w, 0, "d");
    assert_false(late->r.hit);
    assert_string_equal(late->value->version, first->value->version);
    const struct asked *elsewhere = stage_get(&w, 1, "d");
    assert_string_equal(elsewhere->value->version, first->value->version);
    assert_true(str_eq(elsewhere->value->json, first->value->json));
    assert_int_equal(stage_calls(&w), 1);
    stage_advance(&w, LIST_CACHE_MS + 1);
    stage_redis(&w, "FLUSHALL");
    struct asked *wished = stage_ask(&w, 0, "d", (struct wish){ .only_cached = true });
    assert_string_equal(stage_wait(wished)->value->version, first->value->version);
    assert_false(wished->r.hit);
    stage_end(&w);
}

static void of_two_lists_given_back_the_newer_stands(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 2, true, 0);
    assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 1);
    assert_int_equal(
        stage_call_of(stage_wait(stage_ask(&w, 1, "d", (struct wish){ .no_cache = true }))), 2);
    stage_advance(&w, LIST_CACHE_MS + 1);
    stage_redis(&w, "FLUSHALL");
    assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 1); /* nobody has told it better */
    assert_int_equal(stage_call_of(stage_get(&w, 1, "d")), 2); /* never back */
    stage_advance(&w, LIST_CACHE_MS + 1);
    assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 2);
    assert_int_equal(stage_call_of(stage_get(&w, 1, "d")), 2);
    assert_int_equal(stage_calls(&w), 2);
    stage_end(&w);
}

static void what_was_dropped_is_not_given_back(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 2, true, 0);
    assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 1);
    assert_int_equal(stage_call_of(stage_get(&w, 1, "e")), 2);
    stage_redis(&w, "CLIENT KILL TYPE pubsub"); /* both are cut off, and may have missed a drop */
    stage_wait_ups(&w, 4);
    stage_advance(&w, LIST_CACHE_MS + 1);
    stage_redis(&w, "FLUSHALL");
    assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 3);
    stage_drop(&w, 1, "e");
    stage_redis(&w, "FLUSHALL");
    assert_int_equal(stage_call_of(stage_get(&w, 1, "e")), 4);
    stage_end(&w);
}

static struct asked *get_uneven(struct world *w, unsigned node)
{
    return stage_wait(stage_ask(w, node, "d", (struct wish){ .bucket = "uneven" }));
}

static void what_another_has_and_is_no_list_here_stays_the_others(void **state)
{
    (void)state;
    struct world w;
    struct flight_stats made;
    stage_begin(&w, 2, true, 0);
    const struct asked *theirs = get_uneven(&w, 0);
    assert_int_equal(theirs->value->count, 3);
    stage_say(&w, 200, "[{\"link\":\"mine\",\"image\":1}]");
    const struct asked *ours = get_uneven(&w, 1);
    assert_int_equal(ours->why, ERR_OK);
    assert_int_equal(ours->value->count, 1);
    assert_int_equal(ours->r.detail, FLIGHT_DEGRADED);
    flights_stats_get(w.nodes[1].flights, &made);
    assert_int_equal(made.made, 1);
    stage_advance(&w, LIST_CACHE_MS + 1);
    const struct asked *again = get_uneven(&w, 1);
    assert_true(again->r.hit); /* the others' is of no more use than before */
    assert_string_equal(again->value->version, ours->value->version);
    assert_string_equal(get_uneven(&w, 0)->value->version, theirs->value->version);
    stage_redis(&w, "FLUSHALL");
    assert_string_equal(get_uneven(&w, 1)->value->version, ours->value->version);
    stage_advance(&w, LIST_CACHE_MS + 1);
    assert_string_equal(get_uneven(&w, 0)->value->version,
                        theirs->value->version); /* given back: nobody else did */
    assert_int_equal(stage_calls(&w), 2);
    stage_advance(&w, TTL_MS);
    const struct asked *next = get_uneven(&w, 1);
    assert_false(next->r.hit);
    assert_string_not_equal(next->value->version, ours->value->version);
    assert_int_equal(stage_calls(&w), 3);
    stage_end(&w);
}

static void many_that_are_unlike_are_told_in_one_line_a_minute(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 2, true, 0);
    struct wish uneven = { .bucket = "uneven" };
    const char *const displays[] = { "a", "b", "c", "d" };
    for (unsigned i = 0; i < COUNT_OF(displays); i++)
        assert_int_equal(stage_wait(stage_ask(&w, 0, displays[i], uneven))->why, ERR_OK);
    stage_say(&w, 200, "[{\"link\":\"mine\",\"image\":1}]");
    struct wish look = { .bucket = "uneven", .only_cached = true };
    assert_int_equal(stage_wait(stage_ask(&w, 1, "a", look))->why,
                     ERR_NOT_FOUND); /* makes none: of no interest */
    for (unsigned i = 0; i < COUNT_OF(displays); i++) {
        if (i == COUNT_OF(displays) - 1)
            stage_advance(&w, LIST_TELL_MS);
        assert_int_equal(stage_wait(stage_ask(&w, 1, displays[i], uneven))->why, ERR_OK);
        assert_int_equal(stage_stats(&w, 1).unlike, i + 1);
    }
    assert_int_equal(stage_told(&w, " list.unlike "), 2);
    assert_int_equal(stage_told(&w, " count=3 "), 1);
    stage_end(&w);
}

int main(void)
{
    redis_server_need();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_servers_show_one_list_and_both_drop_it),
        cmocka_unit_test(a_list_that_takes_long_is_made_anew_before_its_time),
        cmocka_unit_test(an_emptied_redis_gets_back_what_is_still_fresh),
        cmocka_unit_test(of_two_lists_given_back_the_newer_stands),
        cmocka_unit_test(what_was_dropped_is_not_given_back),
        cmocka_unit_test(what_another_has_and_is_no_list_here_stays_the_others),
        cmocka_unit_test(many_that_are_unlike_are_told_in_one_line_a_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
