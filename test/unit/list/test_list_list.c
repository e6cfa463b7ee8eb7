/* Goal: a list is made once, by a generator that may answer anything, late or not at all; it is the
 * same for all who ask while it is fresh, stale while or because the next is not there, and dropped
 * when told. Method: one server's lists against a generator over HTTP (stage.h). */
#include "stage.h"

#include "../cmocka_all.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static void a_list_is_made_once_for_all_and_kept(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 1, false, 0);
    stage_hold(&w, true);
    struct asked *all[10];
    for (unsigned i = 0; i < COUNT_OF(all); i++)
        all[i] = stage_ask(&w, 0, "show", (struct wish){ 0 });
    stage_wait_calls(&w, 1);
    stage_hold(&w, false);
    for (unsigned i = 0; i < COUNT_OF(all); i++) {
        assert_int_equal(stage_call_of(stage_wait(all[i])), 1);
        assert_string_equal(all[i]->value->version, all[0]->value->version);
    }
    assert_true(stage_get(&w, 0, "show")->r.hit);
    assert_int_equal(stage_call_of(stage_get(&w, 0, "other")), 2);
    assert_non_null(strstr(w.request, "GET /related?user=a%20b HTTP/1.1\r\n"));
    assert_non_null(strstr(w.request, "Palimpsest-Display: other\r\n"));
    assert_non_null(strstr(w.request, "Request-Timeout-Ms: "));
    assert_int_equal(stage_stats(&w, 0).made, 2);
    stage_end(&w);
}

static void what_is_no_list_is_refused_saying_why(void **state)
{
    (void)state;
    static char long_item[9000], long_reply[64000];
    (void)snprintf(long_item, sizeof long_item, "[{\"link\":\"%08500d\",\"image\":1}]", 1);
    (void)snprintf(long_reply, sizeof long_reply, "[\"%063000d\"]", 1);
    const struct {
        int status;
        const char *body;
        err why;
        const char *said;
    } wrong[] = {
        { 500, "[]", ERR_UNAVAILABLE, "answered 500" },
        { 404, "[]", ERR_UNAVAILABLE, "answered 404" },
        { 200, "", ERR_CORRUPT, "no list" },
        { 200, "[{\"link\":", ERR_CORRUPT, "no list" },
        { 200, "{}", ERR_CORRUPT, "it is no array" },
        { 200, "[1]", ERR_CORRUPT, "item 1 is no object" },
        { 200, "[{\"link\":1}]", ERR_CORRUPT, "no \"image\"" },
        { 200, "[{\"link\":1,\"image\":1},{\"link\":1,\"image\":2}]", ERR_CORRUPT,
          "same \"link\"" },
        { 200, "[{\"link\":1,\"image\":2},{\"link\":2,\"image\":2}]", ERR_CORRUPT,
          "same \"image\"" },
        { 200,
          "[{\"link\":1,\"image\":1},{\"link\":2,\"image\":2},{\"link\":3,\"image\":3},{\"link\":4,"
          "\"image\":4}]",
          ERR_CORRUPT, "4 items, 3 are the most" },
        { 200, long_item, ERR_CORRUPT, "8192 are the most" },
        { 200, long_reply, ERR_UNAVAILABLE, "generator" },
    };
    struct world w;
    stage_begin(&w, 1, false, 0);
    for (unsigned i = 0; i < COUNT_OF(wrong); i++) {
        char display[16];
        (void)snprintf(display, sizeof display, "d%u", i);
        stage_say(&w, wrong[i].status, wrong[i].body);
        const struct asked *a = stage_get(&w, 0, display);
        if (a->why != wrong[i].why || strstr(a->note.text, wrong[i].said) == NULL)
            fail_msg("%.60s: %s (%s)", wrong[i].body, err_name(a->why), a->note.text);
    }
    stage_say(&w, 200, NULL);
    const struct asked *again = stage_get(&w, 0, "d0"); /* the error is remembered */
    assert_int_equal(again->why, ERR_UNAVAILABLE);
    assert_int_equal(again->r.detail, FLIGHT_NEGATIVE);
    assert_true(again->r.retry_after_ms > 0);
    assert_int_equal(stage_calls(&w), COUNT_OF(wrong));
    assert_int_equal(stage_stats(&w, 0).failed, COUNT_OF(wrong));
    assert_int_equal(stage_stats(&w, 0).kept, 0);
    stage_end(&w);
}

static void fewer_items_are_a_shorter_list(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 1, false, 0);
    stage_say(&w, 200, "[{\"link\":1,\"image\":\"x\",\"position\":9}]");
    const struct asked *one = stage_get(&w, 0, "one");
    assert_int_equal(one->value->count, 1);
    assert_true(str_eq(one->value->items[0].text, STR("{\"link\":1,\"image\":\"x\"}")));
    stage_say(&w, 200, "[]");
    assert_int_equal(stage_get(&w, 0, "none")->value->count, 0);
    assert_true(stage_get(&w, 0, "none")->r.hit);
    stage_end(&w);
}

static void a_generator_that_ends_or_hangs_is_an_error_in_time(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 1, false, 0);
    stage_cut(&w, true);
    assert_int_equal(stage_get(&w, 0, "cut")->why, ERR_UNAVAILABLE);
    stage_cut(&w, false);
    stage_hold(&w, true);
    const struct asked *slow =
        stage_wait(stage_ask(&w, 0, "slow", (struct wish){ .bucket = "hasty" }));
    assert_int_equal(slow->why, ERR_TIMEOUT);
    stage_end(&w);
}

static void whoever_cannot_wait_or_leaves_stops_nobody(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 1, false, 0);
    stage_hold(&w, true);
    struct asked *patient = stage_ask(&w, 0, "d", (struct wish){ 0 });
    assert_int_equal(stage_wait(stage_ask(&w, 0, "d", (struct wish){ .wait_ms = 20 }))->why,
                     ERR_TIMEOUT);
    struct asked *gone = stage_ask(&w, 0, "d", (struct wish){ 0 });
    struct asked *alone = stage_ask(&w, 0, "e", (struct wish){ 0 });
    stage_wait_calls(&w, 2);
    assert_true(list_leave(w.nodes[0].lists, &gone->r));
    assert_true(list_leave(w.nodes[0].lists, &alone->r));
    assert_false(list_leave(w.nodes[0].lists, &gone->r));
    stage_hold(&w, false);
    (void)stage_call_of(stage_wait(patient));
    (void)stage_call_of(stage_get(&w, 0, "e")); /* it was made all the same: nobody asks again */
    assert_int_equal(stage_calls(&w), 2);
    assert_false(gone->done);
    stage_end(&w);
}

static void what_was_made_between_the_look_and_the_flight_is_not_made_again(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 1, false, 0);
    struct asked *late = stage_asked(&w, 0, "d", (struct wish){ 0 });
    assert_null(list_here(w.nodes[0].lists, &late->r));
    unsigned made = stage_call_of(stage_get(&w, 0, "d"));
    assert_int_equal(list_start(w.nodes[0].lists, &late->r), ERR_OK);
    assert_int_equal(stage_call_of(stage_wait(late)), made);
    struct asked *anew = stage_asked(&w, 0, "d", (struct wish){ .no_cache = true });
    assert_null(list_here(w.nodes[0].lists, &anew->r));
    assert_int_equal(list_start(w.nodes[0].lists, &anew->r), ERR_OK);
    assert_int_equal(stage_call_of(stage_wait(anew)), made + 1);
    stage_end(&w);
}

static void more_lists_than_may_be_made_at_once_are_refused(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 1, false, 2);
    stage_hold(&w, true);
    struct asked *a = stage_ask(&w, 0, "a", (struct wish){ 0 }),
                 *b = stage_ask(&w, 0, "b", (struct wish){ 0 });
    struct asked *c = stage_asked(&w, 0, "c", (struct wish){ 0 });
    assert_null(list_here(w.nodes[0].lists, &c->r));
    assert_int_equal(list_start(w.nodes[0].lists, &c->r), ERR_LIMIT);
    struct asked *again =
        stage_ask(&w, 0, "a", (struct wish){ 0 }); /* one more for a list under way is no more */
    stage_hold(&w, false);
    (void)stage_call_of(stage_wait(a));
    (void)stage_call_of(stage_wait(b));
    (void)stage_call_of(stage_wait(again));
    assert_false(c->done);
    assert_int_equal(stage_stats(&w, 0).refused, 1);
    stage_end(&w);
}

/* ---- time ---- */

static void a_list_is_one_until_its_time_is_over(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 1, false, 0);
    struct wish brief = { .bucket = "brief" };
    assert_int_equal(stage_call_of(stage_wait(stage_ask(&w, 0, "d", brief))), 1);
    stage_advance(&w, TTL_MS / 2);
    const struct asked *late = stage_wait(stage_ask(&w, 0, "d", brief));
    assert_true(late->r.hit); /* reading prolongs nothing */
    assert_int_equal(stage_call_of(late), 1);
    stage_advance(&w, TTL_MS / 2);
    const struct asked *next = stage_wait(stage_ask(&w, 0, "d", brief));
    assert_false(next->r.hit);
    assert_int_equal(stage_call_of(next), 2);
    stage_end(&w);
}

static void other_times_are_of_lists_that_are_made_then(void **state)
{
    (void)state;
    static const char *const names[] = { "related", "brief", "hasty", "uneven", "pinned" };
    struct world w;
    struct list_bucket_opts buckets[COUNT_OF(names)];
    stage_begin(&w, 1, false, 0);
    struct wish brief = { .bucket = "brief" };
    struct lists *lists = w.nodes[0].lists;
    for (size_t i = 0; i < COUNT_OF(names); i++)
        buckets[i] = *lists_bucket(lists, str_of(names[i]));
    const struct list_bucket_opts *before = lists_bucket(lists, STR("brief"));
    lists_limit(lists, buckets);
    assert_ptr_equal(lists_bucket(lists, STR("brief")), before); /* nothing differs */
    assert_int_equal(stage_call_of(stage_wait(stage_ask(&w, 0, "d", brief))), 1);
    buckets[1].ttl_ms = 3 * TTL_MS;
    buckets[1].size = 1; /* that is no time and no limit */
    lists_limit(lists, buckets);
    assert_int_equal(lists_bucket(lists, STR("brief"))->ttl_ms, 3 * TTL_MS);
    assert_int_equal(lists_bucket(lists, STR("brief"))->size, 3);
    assert_int_equal(lists_bucket(lists, STR("related"))->ttl_ms, TTL_MS);
    assert_int_equal(before->ttl_ms, TTL_MS); /* who has it still may read it */
    stage_advance(&w, TTL_MS);
    assert_int_equal(stage_call_of(stage_wait(stage_ask(&w, 0, "d", brief))), 2);
    stage_advance(&w, 2 * TTL_MS);
    const struct asked *late = stage_wait(stage_ask(&w, 0, "d", brief));
    assert_true(late->r.hit);
    assert_int_equal(stage_call_of(late), 2);
    stage_end(&w);
}

static void what_is_stale_is_answered_while_one_makes_the_next(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 1, false, 0);
    assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 1);
    stage_advance(&w, TTL_MS + 1);
    stage_hold(&w, true);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 1);
    stage_wait_calls(&w, 2);
    assert_int_equal(stage_calls(&w), 2);
    stage_hold(&w, false);
    stage_get_until(&w, 0, "d", 2);
    assert_int_equal(stage_calls(&w), 2);
    stage_end(&w);
}

static void what_is_stale_stands_when_the_next_cannot_be_made_until_that_is_over_too(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 1, false, 0);
    assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 1);
    stage_say(&w, 500, "no");
    stage_advance(&w, TTL_MS + 1);
    assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 1);
    stage_wait_calls(&w, 2);
    assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 1);
    stage_advance(&w, STALE_MS);
    const struct asked *over = stage_get(&w, 0, "d");
    assert_int_equal(over->why, ERR_UNAVAILABLE);
    stage_end(&w);
}

static void a_wish_makes_a_new_one_or_none(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 1, false, 0);
    assert_int_equal(stage_wait(stage_ask(&w, 0, "d", (struct wish){ .only_cached = true }))->why,
                     ERR_NOT_FOUND);
    assert_int_equal(stage_calls(&w), 0);
    assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 1);
    assert_int_equal(
        stage_call_of(stage_wait(stage_ask(&w, 0, "d", (struct wish){ .only_cached = true }))), 1);
    assert_int_equal(
        stage_call_of(stage_wait(stage_ask(&w, 0, "d", (struct wish){ .no_cache = true }))), 2);
    assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 2);
    stage_end(&w);
}

static void what_began_before_a_new_one_was_wished_for_does_not_take_its_place(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 10; i++) { /* the two answers come in any order */
        struct world w;
        stage_begin(&w, 1, false, 0);
        assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 1);
        stage_advance(&w, TTL_MS + 1);
        stage_hold(&w, true);
        assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 1);
        stage_wait_calls(&w, 2); /* behind it, the next is being made */
        struct asked *anew = stage_ask(&w, 0, "d", (struct wish){ .no_cache = true });
        stage_wait_calls(&w, 3);
        stage_hold(&w, false);
        assert_int_equal(stage_call_of(stage_wait(anew)), 3);
        stage_wait_idle(&w);
        assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 3);
        stage_end(&w);
    }
}

static struct asked *ask_anew(struct world *w)
{
    return stage_ask(w, 0, "d", (struct wish){ .no_cache = true });
}

/* The second is asked for while the first is made, the third while the second is. */
static void of_new_ones_that_overlap_the_last_stays(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 1, false, 0);
    stage_hold(&w, true);
    struct asked *first = ask_anew(&w);
    stage_wait_calls(&w, 1);
    struct asked *second = ask_anew(&w);
    stage_pass(&w, 1);
    assert_int_equal(stage_call_of(stage_wait(first)), 1);
    stage_wait_calls(&w, 2);
    struct asked *third = ask_anew(&w);
    stage_pass(&w, 2);
    assert_int_equal(stage_call_of(stage_wait(second)), 2);
    assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 2);
    stage_hold(&w, false);
    assert_int_equal(stage_call_of(stage_wait(third)), 3);
    stage_wait_idle(&w);
    assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 3);
    stage_end(&w);
}

/* Of what is answered without waiting, until it is of that call. */
static void wait_here(struct world *w, unsigned call)
{
    struct asked *a = stage_asked(w, 0, "d", (struct wish){ 0 });
    for (int64_t left_ms = WAIT_MS;; wait_look(&left_ms, "an answer of that call")) {
        a->value = list_here(w->nodes[0].lists, &a->r);
        assert_non_null(a->value);
        if (stage_call_of(a) == call)
            return;
        struct flight_value *value = &a->value->v;
        flight_value_unref(&value);
    }
}

static void what_began_later_and_was_quicker_stays(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 1, false, 0);
    assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 1);
    stage_advance(&w, TTL_MS + 1);
    stage_hold(&w, true);
    struct asked *slow = ask_anew(&w);
    stage_wait_calls(&w, 2);
    assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 1);
    stage_wait_calls(&w, 3); /* the next, behind that answer */
    stage_pass(&w, 3);
    wait_here(&w, 3);
    stage_hold(&w, false);
    assert_int_equal(stage_call_of(stage_wait(slow)),
                     2); /* it was promised no older than when it was asked for */
    stage_wait_idle(&w);
    assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 3);
    stage_end(&w);
}

/* Errors live for 60 s here. */
static void a_new_one_that_is_made_ends_no_pause_after_an_error(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 1, false, 0);
    struct wish brief = { .bucket = "brief" }, anew = { .bucket = "brief", .no_cache = true };
    stage_hold(&w, true);
    struct asked *first = stage_ask(&w, 0, "d", anew);
    stage_wait_calls(&w, 1);
    struct asked *second = stage_ask(&w, 0, "d", anew);
    stage_pass(&w, 1);
    assert_int_equal(stage_call_of(stage_wait(first)), 1);
    stage_wait_calls(&w, 2);
    stage_say(&w, 500, "no");
    stage_hold(&w, false);
    assert_int_equal(stage_wait(second)->why, ERR_UNAVAILABLE);
    stage_wait_idle(&w);
    assert_int_equal(stage_wait(stage_ask(&w, 0, "d", anew))->why, ERR_UNAVAILABLE);
    assert_int_equal(stage_call_of(stage_wait(stage_ask(&w, 0, "d", brief))), 1);
    assert_int_equal(stage_calls(&w), 2);
    stage_end(&w);
}

static void a_drop_forgets_also_what_is_under_way(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 1, false, 0);
    assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 1);
    stage_drop(&w, 0, "d");
    stage_hold(&w, true);
    struct asked *under_way = stage_ask(&w, 0, "d", (struct wish){ 0 });
    stage_wait_calls(&w, 2);
    stage_drop(&w, 0, "d");
    struct asked *after = stage_ask(&w, 0, "d", (struct wish){ 0 });
    stage_wait_calls(&w, 3); /* it does not wait for what began before */
    stage_hold(&w, false);
    assert_int_equal(stage_call_of(stage_wait(under_way)), 2); /* who asked before gets it */
    assert_int_equal(stage_call_of(stage_wait(after)), 3);
    assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 3);
    stage_end(&w);
}

static void a_drop_ends_the_pause_after_an_error(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 1, false, 0);
    stage_say(&w, 500, "no");
    assert_int_equal(stage_get(&w, 0, "d")->why, ERR_UNAVAILABLE);
    stage_say(&w, 200, NULL);
    assert_int_equal(stage_get(&w, 0, "d")->why,
                     ERR_UNAVAILABLE); /* its generator is not asked again so soon */
    assert_int_equal(stage_calls(&w), 1);
    stage_drop(&w, 0, "d");
    assert_int_equal(stage_call_of(stage_get(&w, 0, "d")), 2);
    stage_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_made_once_for_all_and_kept),
        cmocka_unit_test(what_is_no_list_is_refused_saying_why),
        cmocka_unit_test(fewer_items_are_a_shorter_list),
        cmocka_unit_test(a_generator_that_ends_or_hangs_is_an_error_in_time),
        cmocka_unit_test(whoever_cannot_wait_or_leaves_stops_nobody),
        cmocka_unit_test(what_was_made_between_the_look_and_the_flight_is_not_made_again),
        cmocka_unit_test(more_lists_than_may_be_made_at_once_are_refused),
        cmocka_unit_test(a_list_is_one_until_its_time_is_over),
        cmocka_unit_test(other_times_are_of_lists_that_are_made_then),
        cmocka_unit_test(what_is_stale_is_answered_while_one_makes_the_next),
        cmocka_unit_test(what_is_stale_stands_when_the_next_cannot_be_made_until_that_is_over_too),
        cmocka_unit_test(a_wish_makes_a_new_one_or_none),
        cmocka_unit_test(what_began_before_a_new_one_was_wished_for_does_not_take_its_place),
        cmocka_unit_test(of_new_ones_that_overlap_the_last_stays),
        cmocka_unit_test(what_began_later_and_was_quicker_stays),
        cmocka_unit_test(a_new_one_that_is_made_ends_no_pause_after_an_error),
        cmocka_unit_test(a_drop_forgets_also_what_is_under_way),
        cmocka_unit_test(a_drop_ends_the_pause_after_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
