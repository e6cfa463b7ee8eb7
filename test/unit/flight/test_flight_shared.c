/* Goal: servers that share a Redis make a missing value once, whoever asks wherever, and all get
 * the same bytes; whatever dies, is late, too large or too full costs what docs/flights.md, 7,
 * allows and no more. Method: share_world.h. */
#include "share_world.h"

static void a_storm_over_four_servers_makes_one_value(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w, NULL);
    w.plan.hold = true;
    for (unsigned i = 0; i < 200; i++)
        ask(&w, i % NODES, "key", plain);
    WAIT_FOR_SUM(&w, waits, NODES - 1);
    wait_for(&w, &w.made, 1);
    let_go(&w);
    wait_for(&w, &w.done, 200);
    assert_int_equal(w.made, 1);
    all_are(&w, "made 1 by node 0");
    for (unsigned i = 1; i < w.asked_count; i++)
        assert_string_equal(value_of(&w.asked[i])->version, value_of(&w.asked[0])->version);
    clear(&w);
    for (unsigned i = 0; i < NODES; i++) /* late ones find it */
        ask(&w, i, "key", plain);
    wait_for(&w, &w.done, NODES);
    all_are(&w, "made 1 by node 0");
    assert_int_equal(w.made, 1);
    world_end(&w);
}

static void an_error_is_shared_and_remembered(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w, NULL);
    w.plan = (struct plan){ .why = ERR_BAD, .keep_error = true, .hold = true };
    for (unsigned i = 0; i < 2 * NODES; i++)
        ask(&w, i % NODES, "key", plain);
    WAIT_FOR_SUM(&w, waits, NODES - 1);
    wait_for(&w, &w.made, 1); /* the leader may hear of its grant last */
    lock(&w);
    struct flight *f = w.held[0];
    w.held_count = 0;
    unlock(&w);
    finish(&w.nodes[0], f, 1, w.plan);
    wait_for(&w, &w.done, 2 * NODES);
    for (unsigned i = 0; i < w.asked_count; i++) {
        assert_int_equal(w.asked[i].why, ERR_BAD);
        assert_string_equal(w.asked[i].note, "the plan says so");
    }
    clear(&w);
    ask(&w, 3, "key", plain);
    wait_for(&w, &w.done, 1);
    assert_int_equal(w.asked[0].why, ERR_BAD);
    assert_int_equal(w.made, 1);
    world_end(&w);
}

static void a_dead_leader_is_succeeded_by_one(void **state)
{
    (void)state;
    struct world w;
    char token[128];
    world_begin(&w, NULL);
    foreign_leads(&w, "key", token);
    for (unsigned i = 0; i < NODES; i++)
        ask(&w, i, "key", plain);
    wait_for(&w, &w.done, NODES);
    assert_int_equal(w.made, 1);
    WAIT_FOR_SUM(&w, takeovers, 1);
    FOREIGN(&w, SHARE_PUT, "key", token, "V", "late", "60000", "0", "1", "30000", "16384", "x", "1",
            "1", "1", "1048576");
    assert_string_equal(w.reply[0], "LOST"); /* and is told whose value stands */
    assert_string_equal(w.reply[1], value_of(&w.asked[0])->version);
    FOREIGN(&w, SHARE_RENEW, "key", token, "300", "30000");
    assert_string_equal(w.reply[0], "0");
    world_end(&w);
}

static void a_slow_leader_keeps_its_lease(void **state)
{
    (void)state;
    struct world w;
    world_begin_leased(&w, NULL, LEASE_SHORT_MS);
    w.plan.hold = true;
    ask(&w, 0, "key", plain);
    wait_for(&w, &w.made, 1);
    ask(&w, 1, "key", plain);
    WAIT_FOR_SUM(&w, waits, 5); /* its timer ran out four times and found the lease renewed */
    let_go(&w);
    wait_for(&w, &w.done, 2);
    assert_int_equal(w.made, 1);
    all_are(&w, "made 1 by node 0");
    world_end(&w);
}

static void what_a_drop_overtook_is_made_again(void **state)
{
    (void)state;
    struct world w;
    unsigned char id[FLIGHT_ID_BYTES];
    str parts[] = { STR("test"), STR("key") };
    world_begin(&w, NULL);
    w.plan.hold = true;
    ask(&w, 0, "key", plain);
    wait_for(&w, &w.made, 1);
    flight_share_id(parts, COUNT_OF(parts), id);
    flight_shared_drop(w.nodes[1].shared, id, NULL, NULL);
    wait_for(&w, &w.dropped, NODES);
    w.plan.hold = false;
    let_go(&w);
    wait_for(&w, &w.done, 1);
    assert_string_equal(value_of(&w.asked[0])->bytes, "made 2 by node 0");
    world_end(&w);
}

static void long_values_are_fetched_and_too_long_ones_made_by_each(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w, NULL);
    w.plan = (struct plan){ .hold = true, .bytes = 100 << 10 };
    for (unsigned i = 0; i < NODES; i++)
        ask(&w, i, "long", plain);
    WAIT_FOR_SUM(&w, waits, NODES - 1);
    wait_for(&w, &w.made, 1);
    let_go(&w);
    wait_for(&w, &w.done, NODES);
    for (unsigned i = 0; i < NODES; i++)
        assert_int_equal(value_of(&w.asked[i])->bytes_n, 100 << 10);
    assert_int_equal(w.made, 1);
    clear(&w);
    w.plan = (struct plan){ .bytes = 2 << 20 };
    for (unsigned i = 0; i < NODES; i++)
        ask(&w, i, "too long", plain);
    wait_for(&w, &w.done, NODES);
    assert_int_equal(w.made, 1 + NODES);
    world_end(&w);
}

static void without_redis_each_server_works_alone(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w, NULL);
    redis_server_signal(&w.server, SIGKILL);
    wait_for(&w, &w.downs, NODES);
    for (unsigned i = 0; i < 2 * NODES; i++)
        ask(&w, i % NODES, "key", plain);
    wait_for(&w, &w.done, 2 * NODES);
    assert_true(w.made <= 2 * NODES);
    for (unsigned i = 0; i < w.asked_count; i++)
        assert_int_equal(w.asked[i].waiter.detail, FLIGHT_DEGRADED);
    clear(&w);
    struct how refuses = { .fresh_ms = 1000, .not_alone = true };
    unsigned made = w.made;
    ask(&w, 0, "other", refuses);
    wait_for(&w, &w.done, 1);
    assert_int_equal(w.asked[0].why, ERR_AGAIN);
    assert_int_equal(w.made, made);
    world_end(&w);
}

static void waiters_go_on_alone_when_redis_dies(void **state)
{
    (void)state;
    struct world w;
    char token[128];
    world_begin(&w, NULL);
    foreign_leads(&w, "key", token);
    for (unsigned i = 0; i < NODES; i++)
        ask(&w, i, "key", plain);
    WAIT_FOR_SUM(&w, waits, NODES);
    redis_server_signal(&w.server, SIGKILL);
    wait_for(&w, &w.done, NODES);
    for (unsigned i = 0; i < NODES; i++)
        assert_int_equal(w.asked[i].why, ERR_OK);
    world_end(&w);
}

/* Who needs what was begun since a change, not since now, takes what another made meanwhile, and
 * waits for what is under way. */
static void what_was_begun_lately_will_do_for_who_says_so(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w, NULL);
    ask(&w, 0, "key", plain);
    wait_for(&w, &w.done, 1);
    clear(&w);
    struct how lately = { .fresh_ms = 60000, .fresh = true, .ago_ms = 3600000 };
    ask(&w, 1, "key", lately);
    wait_for(&w, &w.done, 1);
    all_are(&w, "made 1 by node 0");
    lately.ago_ms = 1;
    do { /* until it is older than that */
        clear(&w);
        ask(&w, 1, "key", lately);
        wait_for(&w, &w.done, 1);
    } while (w.made == 1);
    all_are(&w, "made 2 by node 1");
    world_end(&w);
}

static void a_full_redis_refuses_whole_and_costs_only_sharing(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w, (const char *const[]){ "--maxmemory", "1", "--maxmemory-policy", "noeviction",
                                           NULL });
    for (unsigned i = 0; i < NODES; i++)
        ask(&w, i, "key", plain);
    wait_for(&w, &w.done, NODES);
    assert_int_equal(w.made, NODES);
    for (unsigned i = 0; i < NODES; i++)
        assert_int_equal(w.asked[i].waiter.detail, FLIGHT_DEGRADED);
    world_end(&w);
}

static void no_cache_joins_only_what_begins_later(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w, NULL);
    ask(&w, 0, "key", plain);
    wait_for(&w, &w.done, 1);
    clear(&w);
    struct how again = { .fresh_ms = 60000, .fresh = true };
    ask(&w, 1, "key", again);
    wait_for(&w, &w.done, 1);
    all_are(&w, "made 2 by node 1");
    clear(&w);
    ask(&w, 2, "key", plain);
    wait_for(&w, &w.done, 1);
    all_are(&w, "made 2 by node 1");
    world_end(&w);
}

static void a_stale_value_is_answered_and_asks_for_its_refresh(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w, NULL);
    struct how brief = { .fresh_ms = 1, .stale_ms = 60000 };
    struct how looks = { .fresh_ms = 60000, .stale_ms = 60000, .peek = true };
    ask(&w, 0, "key", brief);
    wait_for(&w, &w.done, 1);
    clear(&w);
    do { /* fresh for a millisecond */
        clear(&w);
        ask(&w, 1, "key", looks);
        wait_for(&w, &w.done, 1);
    } while (!value_of(&w.asked[0])->refresh);
    all_are(&w, "made 1 by node 0");
    clear(&w);
    ask(&w, 1, "key",
        (struct how){ .fresh_ms = 60000, .stale_ms = 60000 }); /* the refresh itself */
    wait_for(&w, &w.done, 1);
    all_are(&w, "made 2 by node 1");
    clear(&w);
    ask(&w, 2, "key", looks);
    wait_for(&w, &w.done, 1);
    all_are(&w, "made 2 by node 1");
    assert_false(value_of(&w.asked[0])->refresh);
    world_end(&w);
}

static void what_came_and_is_of_no_use_is_made_here_and_counted_so(void **state)
{
    (void)state;
    struct world w;
    struct flight_stats made;
    world_begin(&w, NULL);
    ask(&w, 0, "k", plain);
    clear(&w);
    w.plan.wants_none = true;
    ask(&w, 1, "k", plain);
    wait_for(&w, &w.done, 1);
    assert_string_equal(value_of(&w.asked[0])->bytes, "made 2 by node 1");
    assert_string_equal(value_of(&w.asked[0])->version, "");
    assert_int_equal(w.asked[0].waiter.detail, FLIGHT_DEGRADED);
    flights_stats_get(w.nodes[1].flights, &made);
    assert_int_equal(made.made, 1);
    clear(&w);
    w.plan.wants_none = false;
    ask(&w, 2, "k", plain);
    wait_for(&w, &w.done, 1);
    all_are(&w, "made 1 by node 0"); /* it stands */
    world_end(&w);
}

static void all_are_told(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w, NULL);
    flight_shared_tell(w.nodes[2].shared, STR("purge it"), false);
    wait_for(&w, &w.told, NODES);
    assert_string_equal(w.told_text, "purge it");
    world_end(&w);
}

/* The loop stands until it is let go. */
struct stop {
    struct world *w;
    unsigned stands, go;
};
static void stand(void *ctx)
{
    struct stop *s = ctx;
    lock(s->w);
    s->stands = 1;
    unlock(s->w);
    wait_for(s->w, &s->go, 1);
}

static void stop_begin(struct stop *s, struct world *w)
{
    *s = (struct stop){ .w = w };
    loop_post(w->loop, stand, s);
    wait_for(w, &s->stands, 1);
}

static void stop_end(struct stop *s)
{
    lock(s->w);
    s->go = 1;
    unlock(s->w);
}

struct order_end {
    struct world *w;
    err why;
    unsigned done;
};
static void order_ended(void *ctx, err why)
{
    struct order_end *o = ctx;
    lock(o->w);
    o->why = why;
    o->done = 1;
    unlock(o->w);
}

static void what_is_told_leaves_room_for_all_else(void **state)
{
    enum { MANY = 20000 };
    (void)state;
    struct world w;
    struct stop stop;
    struct order_end end = { .w = &w };
    unsigned char id[FLIGHT_ID_BYTES] = "0123456789abcde";
    char text[32];
    world_begin(&w, NULL);
    stop_begin(&stop, &w);
    for (unsigned i = 1; i <= MANY; i++) {
        int n = snprintf(text, sizeof text, "word %u", i);
        flight_shared_tell(w.nodes[2].shared, (str){ .p = text, .n = (size_t)n }, true);
    }
    flight_shared_drop(w.nodes[2].shared, id, order_ended, &end);
    stop_end(&stop);
    wait_for(&w, &end.done, 1);
    assert_int_equal(end.why, ERR_OK);
    wait_for(&w, &w.told, MANY * NODES);
    assert_string_equal(w.told_text, text); /* in their order */
    world_end(&w);
}

static void what_is_told_again_while_it_waits_is_told_once(void **state)
{
    (void)state;
    struct world w;
    struct stop stop;
    world_begin(&w, NULL);
    stop_begin(&stop, &w);
    for (unsigned i = 0; i < 1000; i++)
        flight_shared_tell(w.nodes[0].shared, STR("look"), true);
    for (unsigned i = 0; i < 2; i++)
        flight_shared_tell(w.nodes[0].shared, STR("purge"), false);
    stop_end(&stop);
    wait_for(&w, &w.told, 3 * NODES);
    flight_shared_tell(w.nodes[0].shared, STR("look"), true);
    wait_for(&w, &w.told, 4 * NODES);
    assert_string_equal(w.told_text, "look");
    assert_int_equal(w.told, 4 * NODES);
    world_end(&w);
}

/* 1: it was taken, 0: it was not. */
static void offer_is(struct world *w, const char *version, const char *taken)
{
    FOREIGN(w, SHARE_OFFER, "key", version, "60000", "60000", "5", "V", version, "30000");
    assert_string_equal(w->reply[0], taken);
}

static void what_is_given_back_is_taken_for_nothing_and_for_what_is_older(void **state)
{
    (void)state;
    struct world w;
    char token[128];
    world_begin(&w, NULL);
    FOREIGN(&w, SHARE_JOIN, "key", "stranger", "300", "600", "30000", "0", "", "0", "1", LIMITS);
    assert_string_equal(w.reply[0], "GONE"); /* and no lease was given */
    offer_is(&w, "1000.a", "1");
    offer_is(&w, "1000.a", "0");
    offer_is(&w, "999.b", "0");
    offer_is(&w, "1001.b", "1");
    FOREIGN(&w, SHARE_JOIN, "key", "stranger", "300", "600", "30000", "0", "", "0", "1", LIMITS);
    assert_string_equal(w.reply[0], "HIT");
    assert_string_equal(w.reply[1], "1001.b");
    FOREIGN(&w, SHARE_DROP, "key", "x", "30000");
    offer_is(&w, "1002.c", "0"); /* it was made before the drop */
    foreign_leads(&w, "key", token);
    offer_is(&w, "1002.c", "0"); /* somebody makes it anew */
    world_end(&w);
}

int main(void)
{
    redis_server_need();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_storm_over_four_servers_makes_one_value),
        cmocka_unit_test(an_error_is_shared_and_remembered),
        cmocka_unit_test(a_dead_leader_is_succeeded_by_one),
        cmocka_unit_test(a_slow_leader_keeps_its_lease),
        cmocka_unit_test(what_a_drop_overtook_is_made_again),
        cmocka_unit_test(long_values_are_fetched_and_too_long_ones_made_by_each),
        cmocka_unit_test(without_redis_each_server_works_alone),
        cmocka_unit_test(waiters_go_on_alone_when_redis_dies),
        cmocka_unit_test(a_full_redis_refuses_whole_and_costs_only_sharing),
        cmocka_unit_test(no_cache_joins_only_what_begins_later),
        cmocka_unit_test(what_was_begun_lately_will_do_for_who_says_so),
        cmocka_unit_test(a_stale_value_is_answered_and_asks_for_its_refresh),
        cmocka_unit_test(what_came_and_is_of_no_use_is_made_here_and_counted_so),
        cmocka_unit_test(all_are_told),
        cmocka_unit_test(what_is_told_leaves_room_for_all_else),
        cmocka_unit_test(what_is_told_again_while_it_waits_is_told_once),
        cmocka_unit_test(what_is_given_back_is_taken_for_nothing_and_for_what_is_older),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
