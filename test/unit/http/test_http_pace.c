/* pace: a public address gets so many a second, each address its own. Method: time is an
 * argument. */
#include "http/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static mono at_ms(int64_t ms)
{
    return (mono){ .ns = (1000 + ms) * NS_PER_MS };
}

static unsigned granted(struct pace *p, str address, unsigned asked, mono now)
{
    unsigned count = 0;
    for (unsigned i = 0; i < asked; i++)
        count += pace_take(p, address, 5, now);
    return count;
}

static void five_a_second_are_five_a_second(void **state)
{
    (void)state;
    struct pace *p = pace_new(1);
    const str one = STR("203.0.113.9"), other = STR("2001:db8::9");
    assert_int_equal(granted(p, one, 20, at_ms(0)), 5);
    assert_int_equal(granted(p, other, 20, at_ms(0)), 5);
    assert_int_equal(granted(p, one, 20, at_ms(199)), 0);
    assert_int_equal(granted(p, one, 20, at_ms(200)), 1);
    assert_int_equal(granted(p, one, 20, at_ms(900)), 3);
    assert_int_equal(granted(p, one, 20, at_ms(5000)), 5);
    assert_true(pace_take(p, one, 0, at_ms(5000)));
    pace_free(&p);
}

static void a_table_that_is_full_goes_on(void **state)
{
    (void)state;
    struct pace *p = pace_new(1);
    char text[32];
    for (int i = 0; i < 5 * PACE_SLOTS; i++) {
        int n = snprintf(text, sizeof text, "203.0.%d.%d", i / 256, i % 256);
        assert_true(pace_take(p, (str){ .p = text, .n = (size_t)n }, 5, at_ms(0)));
    }
    pace_free(&p);
}

static void one_client_has_one_pace_however_it_is_written(void **state)
{
    (void)state;
    struct pace *p = pace_new(1);
    assert_int_equal(granted(p, STR("203.0.113.9"), 5, at_ms(0)), 5);
    assert_int_equal(granted(p, STR("::ffff:203.0.113.9"), 5, at_ms(0)), 0);
    assert_int_equal(granted(p, STR("2001:db8:0:1::1"), 5, at_ms(0)), 5);
    assert_int_equal(granted(p, STR("2001:db8:0:1:ffff::2"), 5, at_ms(0)), 0);
    assert_int_equal(granted(p, STR("2001:db8:0:2::1"), 5, at_ms(0)), 5);
    assert_int_equal(granted(p, STR("203.0.113.8, 203.0.113.9"), 5, at_ms(0)), 5);
    assert_int_equal(granted(p, STR("anything"), 5, at_ms(0)), 0);
    pace_free(&p);
}

static struct network network_of(const char *text)
{
    struct network n;
    assert_true(network_parse(str_of(text), &n));
    return n;
}

static str said_or_none(const char *text)
{
    return text == NULL ? STR_NONE : str_of(text);
}

/* What a proxy says of its client is believed when it is one of ours. */
static void a_client_is_whom_a_trusted_proxy_names(void **state)
{
    (void)state;
    static const struct {
        const char *peer, *client_ip, *forwarded_for, *first, *second;
        bool own;
    } cases[] = {
        { "203.0.113.9", NULL, NULL, "203.0.113.9", NULL, false },
        { "10.0.0.1", NULL, NULL, "10.0.0.1", NULL, true },
        { "10.0.0.1", "198.51.100.1", NULL, "10.0.0.1", NULL, false }, /* it came through one */
        { "203.0.113.9", "198.51.100.1", "198.51.100.2", "203.0.113.9", NULL, false },
        { "192.0.2.7", NULL, NULL, "192.0.2.7", NULL, false },
        { "192.0.2.7", " 198.51.100.1 ", NULL, "198.51.100.1", NULL, false },
        { "192.0.2.7", NULL, "1.1.1.1, 198.51.100.2, 192.0.2.8", "198.51.100.2", NULL, false },
        { "192.0.2.7", NULL, "192.0.2.9,192.0.2.8", "192.0.2.9", NULL, false },
        { "192.0.2.7", "198.51.100.1", "198.51.100.2", "198.51.100.2", "198.51.100.1", false },
        { "192.0.2.7", "::ffff:198.51.100.2", "198.51.100.2", "198.51.100.2", NULL, false },
        { "192.0.2.7", "odd", "other", "other", NULL, false }, /* one client together */
        { "192.0.2.7", "198.51.100.1", "odd", "odd", "198.51.100.1", false },
        { "unix", NULL, NULL, "unix", NULL, true }, /* of this machine */
        { "unix", "198.51.100.1", "198.51.100.2", "unix", NULL, false },
        { "192.0.2.7", NULL, "198.51.100.1, unix", "unix", NULL, false },
    };
    const struct network proxies[] = { network_of("198.18.0.0/15"), network_of("192.0.2.0/24") };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct pace_said said = { .peer = str_of(cases[i].peer),
                                        .client_ip = said_or_none(cases[i].client_ip),
                                        .forwarded_for = said_or_none(cases[i].forwarded_for) };
        struct pace_client k = pace_client_of(&said, proxies, COUNT_OF(proxies));
        assert_int_equal(k.own, cases[i].own);
        assert_int_equal(k.count, cases[i].second == NULL ? 1 : 2);
        assert_true(str_eq(k.addresses[0], str_of(cases[i].first)));
        if (cases[i].second != NULL)
            assert_true(str_eq(k.addresses[1], str_of(cases[i].second)));
        k = pace_client_of(&said, NULL, 0); /* there is no proxy */
        assert_int_equal(k.count, 1);
        assert_true(str_eq(k.addresses[0], said.peer));
    }
}

static void a_client_is_paced_by_each_of_its_addresses(void **state)
{
    (void)state;
    struct pace *p = pace_new(7);
    const struct pace_client two = { .addresses = { STR("192.0.2.1"), STR("192.0.2.2") },
                                     .count = 2 },
                             second = { .addresses = { STR("192.0.2.2") }, .count = 1 },
                             own = { .addresses = { STR("192.0.2.2") }, .count = 1, .own = true };
    for (unsigned i = 0; i < 2; i++)
        assert_true(pace_take_client(p, &two, 2, at_ms(0)));
    assert_false(pace_take_client(p, &two, 2, at_ms(0)));
    assert_false(pace_take_client(p, &second, 2, at_ms(0)));
    assert_true(pace_take_client(p, &own, 2, at_ms(0)));
    assert_true(pace_take_client(p, &two, 2, at_ms(500)));
    pace_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_a_second_are_five_a_second),
        cmocka_unit_test(a_table_that_is_full_goes_on),
        cmocka_unit_test(one_client_has_one_pace_however_it_is_written),
        cmocka_unit_test(a_client_is_whom_a_trusted_proxy_names),
        cmocka_unit_test(a_client_is_paced_by_each_of_its_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
