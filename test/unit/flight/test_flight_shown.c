/* Goal: what is shown of a flight is JSON, whatever its key holds. Method: flights as they are
 * seen, and their text. */
#include "../cmocka_all.h"

#include "flight/shown.h"
#include "lib/memory.h"

static const wall now = { 20 * NS_PER_S };

static void text_is(const struct flight_seen *f, bool has_record, const char *want)
{
    struct buf b;
    buf_init(&b, 1000);
    flight_json(&b, &memory, f, has_record, now);
    buf_put_c(&b, '\0');
    assert_int_equal(buf_status(&b), ERR_OK);
    assert_string_equal(b.p, want);
    buf_fini(&b);
}

static void a_flight_of_this_process_is_its_label_or_its_key(void **state)
{
    (void)state;
    struct flight_seen f = { .key = STR("k\x01\xff"),
                             .label = STR("page/\"A\""),
                             .state = "making",
                             .waiters = 3,
                             .age_ms = 5000 };
    text_is(&f, false,
            "{\"state\":\"making\",\"what\":\"page/\\\"A\\\"\",\"waiters\":3,"
            "\"since\":\"1970-01-01T00:00:15.000Z\",\"age_ms\":5000}");
    f.label = STR("");
    text_is(&f, false,
            "{\"state\":\"making\",\"what\":\"k\\u0001\xef\xbf\xbd\",\"waiters\":3,"
            "\"since\":\"1970-01-01T00:00:15.000Z\",\"age_ms\":5000}");
}

static void one_across_servers_has_a_record_and_a_leader(void **state)
{
    (void)state;
    static const unsigned char id[FLIGHT_ID_BYTES] = { 0x0a, 0xff };
    struct flight_seen f = { .key = STR("k"), .id = id, .state = "waiting", .token = STR("42.n1") };
    text_is(&f, true,
            "{\"state\":\"waiting\",\"what\":\"k\",\"waiters\":0,"
            "\"since\":\"1970-01-01T00:00:20.000Z\",\"age_ms\":0,"
            "\"record\":\"pal:f:{0aff0000000000000000000000000000}\",\"generation\":42,"
            "\"leader\":\"n1\"}");
    f.token = STR("no token");
    text_is(&f, false,
            "{\"state\":\"waiting\",\"what\":\"k\",\"waiters\":0,"
            "\"since\":\"1970-01-01T00:00:20.000Z\",\"age_ms\":0}");
}

static void without_flights_there_are_figures(void **state)
{
    (void)state;
    str text = flights_json(NULL, NULL, now, &memory);
    assert_true(str_starts(text, STR("{\"redis\":\"none\",\"degraded\":false,\"counts\":{"
                                     "\"flights\":0,\"waiters\":0,")));
    assert_true(str_ends(text, STR(",\"degraded_ms\":0},\"flights\":[],\"left_out\":0}")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flight_of_this_process_is_its_label_or_its_key),
        cmocka_unit_test(one_across_servers_has_a_record_and_a_leader),
        cmocka_unit_test(without_flights_there_are_figures),
    };
    return cmocka_run_group_tests(tests, memory_setup, memory_teardown);
}
