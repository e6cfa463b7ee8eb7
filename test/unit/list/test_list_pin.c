/* Goal: a display keeps the list it saw first, on every server, as long as it is read; of a list
 * without a display a client keeps the version it names; what limits and losses cost is told.
 * Method: lists that are fresh for 20 ms, or made anew by no-cache, on two servers that share a
 * real Redis, on one that has none, and on one whose Redis dies (stage.h). */
#include "stage.h"

#include "../cmocka_all.h"

#include "flight/shared.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct asked *get_pinned(struct world *w, unsigned node, const char *display)
{
    return stage_wait(stage_ask(w, node, display, (struct wish){ .bucket = "pinned" }));
}

/* Until what is fresh for BRIEF_MS now is so no longer: in real time, for Redis has it. */
static void outlive(struct world *w)
{
    wait_pause(BRIEF_MS + 1); /* no wait for an event: time itself is what is tested */
    stage_advance(w, LIST_CACHE_MS + 1);
}

static void is_version(const struct asked *a, const char *version)
{
    assert_int_equal(a->why, ERR_OK);
    assert_string_equal(a->value->version, version);
}

static void a_display_keeps_its_list_beyond_its_ttl(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 2, true, 0);
    const char *version = get_pinned(&w, 0, "d")->value->version;
    for (unsigned i = 0; i < 4; i++) {
        outlive(&w);
        is_version(get_pinned(&w, i % 2, "d"), version);
    }
    struct wish anew = { .bucket = "pinned", .no_cache = true };
    is_version(stage_wait(stage_ask(&w, 1, "d", anew)), version);
    assert_int_equal(stage_calls(&w), 1);
    assert_int_equal(stage_call_of(get_pinned(&w, 1, "e")), 2); /* another display, another list */
    stage_drop(&w, 0, "d");
    stage_end(&w);
}

static void a_list_of_no_display_changes_with_its_ttl(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 2, true, 0);
    assert_int_equal(stage_call_of(get_pinned(&w, 0, "")), 1);
    outlive(&w);
    assert_int_equal(stage_call_of(get_pinned(&w, 1, "")), 2);
    stage_end(&w);
}

static void a_pin_ends_where_no_read_prolongs_it(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 1, false, 0);
    const char *version = get_pinned(&w, 0, "d")->value->version;
    for (unsigned i = 0; i < 3; i++) {
        stage_advance(&w, DISPLAY_MS - 60000);
        is_version(get_pinned(&w, 0, "d"), version);
    }
    stage_advance(&w, DISPLAY_MS + 1);
    assert_int_equal(stage_call_of(get_pinned(&w, 0, "d")), 2);
    stage_end(&w);
}

static void an_emptied_redis_gets_a_pinned_list_back(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 2, true, 0);
    const char *version = get_pinned(&w, 0, "d")->value->version;
    outlive(&w);
    (void)stage_redis(&w, "FLUSHALL");
    is_version(get_pinned(&w, 0, "d"), version);
    is_version(get_pinned(&w, 1, "d"), version);
    outlive(&w);
    is_version(get_pinned(&w, 1, "d"), version);
    assert_int_equal(stage_calls(&w), 1);
    stage_end(&w);
}

static void who_has_a_list_shows_it_when_redis_dies(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 2, true, 0);
    const char *pinned = get_pinned(&w, 0, "d")->value->version,
               *fresh = stage_get(&w, 0, "d")->value->version;
    redis_server_signal(&w.redis, SIGKILL);
    for (unsigned i = 0; i < 3; i++) {
        stage_advance(&w, LIST_CACHE_MS + 1);
        is_version(get_pinned(&w, 0, "d"), pinned);
        is_version(stage_get(&w, 0, "d"), fresh);
    }
    assert_int_equal(stage_calls(&w), 2);
    stage_end(&w);
}

static uint64_t unpinned(struct world *w)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < w->nodes_count; i++) {
        struct flight_shared_stats s;
        flight_shared_stats_get(w->nodes[i].shared, &s);
        sum += s.unpinned;
    }
    return sum;
}

static void of_too_many_displays_the_one_not_read_for_longest_goes(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 2, true, 0);
    const char *d = get_pinned(&w, 0, "d")->value->version;
    outlive(&w);
    const char *e = get_pinned(&w, 0, "e")->value->version;
    outlive(&w);
    is_version(get_pinned(&w, 0, "d"), d); /* now e was not read for longest */
    outlive(&w);
    assert_int_equal(stage_call_of(get_pinned(&w, 0, "f")), 3);
    is_version(get_pinned(&w, 1, "d"), d);
    assert_int_equal(unpinned(&w), 1);
    outlive(&w);
    const struct asked *lost = get_pinned(&w, 1, "e"); /* who does not hold it */
    assert_int_equal(stage_call_of(lost), 4);
    assert_string_not_equal(lost->value->version, e);
    stage_end(&w);
}

/* count items of 8,000 bytes. */
static char *large_list(unsigned count)
{
    char *body = malloc((size_t)count * 8200 + 2), *at = body;
    assert_non_null(body);
    for (unsigned i = 0; i < count; i++)
        at += snprintf(at, 8200, "%c{\"link\":%u,\"image\":%u,\"text\":\"%08000u\"}",
                       i == 0 ? '[' : ',', i, i, i);
    (void)snprintf(at, 2, "]");
    return body;
}

static void memory_without_redis_keeps_the_displays_that_are_read(void **state)
{
    (void)state;
    struct world w;
    char display[16];
    stage_begin(&w, 1, false, 0);
    char *body = large_list(3);
    stage_say(&w, 200, body);
    const char *version = get_pinned(&w, 0, "d")->value->version;
    char *kept = strdup(version);
    for (unsigned i = 0; stage_stats(&w, 0).pins_evicted < 3; i++) {
        assert_in_range(i, 0, 1000);
        (void)snprintf(display, sizeof display, "x%u", i);
        assert_int_equal(get_pinned(&w, 0, display)->why, ERR_OK);
        is_version(get_pinned(&w, 0, "d"), kept);
        stage_forget(&w);
    }
    free(kept);
    stage_end(&w);
    free(body);
}

static void a_display_has_no_list_that_servers_cannot_share(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 2, true, 0);
    char *body = large_list(150);
    stage_say(&w, 200, body);
    assert_int_equal(get_pinned(&w, 0, "d")->why, ERR_CORRUPT);
    assert_int_equal(get_pinned(&w, 0, "")->why, ERR_OK); /* each server makes its own */
    stage_end(&w);
    free(body);
}

/* ---- versions ---- */

static struct asked *get_version(struct world *w, unsigned node, const char *version)
{
    return stage_wait(stage_ask(w, node, "", (struct wish){ .want = version }));
}

static const char *make_next(struct world *w, unsigned node)
{
    const struct asked *a = stage_wait(stage_ask(w, node, "", (struct wish){ .no_cache = true }));
    assert_int_equal(a->why, ERR_OK);
    return a->value->version;
}

static void keeps_versions(struct world *w, unsigned other)
{
    const char *first = stage_get(w, 0, "")->value->version, *second = make_next(w, 0),
               *third = make_next(w, 0);
    assert_string_not_equal(first, second);
    is_version(get_version(w, other, first), first); /* where it was never shown */
    is_version(get_version(w, 0, second), second);
    is_version(get_version(w, other, third), third);
    is_version(get_version(w, other, "1.none"), third);
    is_version(get_version(w, other, "no token"), third);
    stage_advance(w, LIST_CACHE_MS + 1);
    is_version(get_version(w, other, first), first);
    is_version(stage_get(w, other, ""), third);
    stage_drop(w, 0, "");
    stage_get_until(w, other, "", 4);
    assert_int_equal(stage_call_of(get_version(w, other, "1.none")), 4);
    assert_int_equal(stage_calls(w), 4);
}

static void a_client_keeps_the_version_it_names_on_every_server(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 2, true, 0);
    keeps_versions(&w, 1);
    stage_end(&w);
}

static void a_client_keeps_the_version_it_names_without_redis(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 1, false, 0);
    keeps_versions(&w, 0);
    stage_end(&w);
}

static void a_version_that_was_dropped_is_not_kept(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 2, true, 0);
    char *first = strdup(stage_get(&w, 0, "")->value->version); /* outlives what was asked */
    assert_non_null(first);
    (void)make_next(&w, 0);
    is_version(get_version(&w, 1, first), first);
    stage_drop(&w, 0, "");
    stage_get_until(&w, 1, "", 3);
    assert_int_equal(stage_call_of(get_version(&w, 1, first)), 3);
    assert_int_equal(stage_call_of(get_version(&w, 0, first)), 3);
    stage_end(&w);
    free(first);
}

static void of_too_many_versions_the_oldest_goes(void **state)
{
    (void)state;
    const char *versions[LIST_VERSIONS_MAX + 2];
    struct world w;
    stage_begin(&w, 2, true, 0);
    versions[0] = stage_get(&w, 0, "")->value->version;
    for (unsigned i = 1; i < COUNT_OF(versions); i++)
        versions[i] = make_next(&w, 0);
    const char *last = versions[COUNT_OF(versions) - 1];
    for (unsigned node = 0; node < 2; node++) {
        is_version(get_version(&w, node, versions[0]), last);
        is_version(get_version(&w, node, versions[1]), versions[1]);
    }
    stage_end(&w);
}

static void a_version_ends_with_its_stale_ttl(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 1, false, 0);
    const char *first = stage_get(&w, 0, "")->value->version, *second = make_next(&w, 0);
    stage_advance(&w, TTL_MS + STALE_MS - 60000);
    is_version(get_version(&w, 0, first), first);
    stage_advance(&w, 60001);
    const struct asked *late = get_version(&w, 0, first);
    assert_string_not_equal(late->value->version, first);
    assert_string_not_equal(late->value->version, second);
    stage_end(&w);
}

static void versions_that_are_lost_are_told_in_one_line_a_minute(void **state)
{
    (void)state;
    struct world w;
    stage_begin(&w, 1, false, 0);
    struct asked *a = stage_get(&w, 0, "");
    for (unsigned i = 0; i < 3; i++)
        lists_pin_told(w.nodes[0].lists, &a->r, false);
    lists_pin_told(w.nodes[0].lists, &a->r, true);
    assert_int_equal(stage_told(&w, " list.pin_lost "), 1);
    stage_advance(&w, LIST_TELL_MS);
    lists_pin_told(w.nodes[0].lists, &a->r, false);
    assert_int_equal(stage_told(&w, " list.pin_lost "), 2);
    assert_int_equal(stage_told(&w, " count=3 "), 1);
    assert_int_equal(stage_stats(&w, 0).pins_lost, 4);
    assert_int_equal(stage_stats(&w, 0).pins_kept, 1);
    stage_end(&w);
}

int main(void)
{
    redis_server_need();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_display_keeps_its_list_beyond_its_ttl),
        cmocka_unit_test(a_list_of_no_display_changes_with_its_ttl),
        cmocka_unit_test(a_pin_ends_where_no_read_prolongs_it),
        cmocka_unit_test(an_emptied_redis_gets_a_pinned_list_back),
        cmocka_unit_test(who_has_a_list_shows_it_when_redis_dies),
        cmocka_unit_test(of_too_many_displays_the_one_not_read_for_longest_goes),
        cmocka_unit_test(memory_without_redis_keeps_the_displays_that_are_read),
        cmocka_unit_test(a_display_has_no_list_that_servers_cannot_share),
        cmocka_unit_test(a_client_keeps_the_version_it_names_on_every_server),
        cmocka_unit_test(a_client_keeps_the_version_it_names_without_redis),
        cmocka_unit_test(a_version_that_was_dropped_is_not_kept),
        cmocka_unit_test(of_too_many_versions_the_oldest_goes),
        cmocka_unit_test(a_version_ends_with_its_stale_ttl),
        cmocka_unit_test(versions_that_are_lost_are_told_in_one_line_a_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
