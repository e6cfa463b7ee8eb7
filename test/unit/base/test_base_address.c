/* Goal: addresses are told apart as numbers, private ones from public ones, and networks hold what
 * they say. Method: tables. */
#include "base/address.h"

#include "../cmocka_all.h"

static void private_addresses_are_told_from_public_ones(void **state)
{
    (void)state;
    static const char *const private[] = {
        "127.0.0.1",   "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1",
        "169.254.1.1", "::1",      "fd00::1",    "fe80::1",        "::ffff:10.0.0.1"
    };
    static const char *const public[] = { "172.32.0.1", "172.15.0.1",  "203.0.113.9",
                                          "11.0.0.1",   "2001:db8::1", "::ffff:203.0.113.9",
                                          "ff02::1",    "::" };
    static const char *const none[] = { "",           "x",     "127.0.0.1 ", "1.2.3",
                                        "1.2.3.4:80", "[::1]", "::1%lo",     "1.2.3.4/8" };
    struct address a;
    for (size_t i = 0; i < COUNT_OF(private); i++) {
        assert_true(address_parse(str_of(private[i]), &a));
        assert_true(address_is_private(&a));
    }
    for (size_t i = 0; i < COUNT_OF(public); i++) {
        assert_true(address_parse(str_of(public[i]), &a));
        assert_false(address_is_private(&a));
    }
    for (size_t i = 0; i < COUNT_OF(none); i++)
        assert_false(address_parse(str_of(none[i]), &a));
}

static bool holds(const char *network, const char *address)
{
    struct network n;
    struct address a;
    assert_true(network_parse(str_of(network), &n));
    assert_true(address_parse(str_of(address), &a));
    return network_holds(&n, &a);
}

static void who_comes_over_a_unix_socket_has_no_address(void **state)
{
    (void)state;
    struct network all[2];
    struct address a;
    assert_true(network_parse(STR("0.0.0.0/0"), &all[0]));
    assert_true(network_parse(ADDRESS_LOCAL, &all[1]));
    assert_false(address_parse(ADDRESS_LOCAL, &a));
    assert_false(networks_hold_peer(all, 1, ADDRESS_LOCAL));
    assert_true(networks_hold_peer(all, 2, ADDRESS_LOCAL));
    assert_true(networks_hold_peer(all, 2, STR("192.0.2.1")));
    assert_false(networks_hold_peer(all + 1, 1, STR("192.0.2.1")));
    assert_false(networks_hold_peer(all, 2, STR("")));
}

static void networks_hold_what_begins_like_them(void **state)
{
    (void)state;
    assert_true(holds("192.0.2.0/24", "192.0.2.255"));
    assert_true(holds("192.0.2.0/24", "::ffff:192.0.2.1"));
    assert_false(holds("192.0.2.0/24", "192.0.3.0"));
    assert_true(holds("192.0.2.128/25", "192.0.2.128"));
    assert_false(holds("192.0.2.128/25", "192.0.2.127"));
    assert_true(holds("192.0.2.7", "192.0.2.7"));
    assert_false(holds("192.0.2.7", "192.0.2.6"));
    assert_true(holds("0.0.0.0/0", "255.1.2.3"));
    assert_false(holds("0.0.0.0/0", "2001:db8::1"));
    assert_true(holds("::/0", "10.0.0.1"));
    assert_true(holds("2001:db8::/33", "2001:db8:7fff::1"));
    assert_false(holds("2001:db8::/33", "2001:db8:8000::1"));
    static const char *const none[] = { "",
                                        "/",
                                        "/8",
                                        "192.0.2.0/33",
                                        "192.0.2.0/",
                                        "192.0.2.0/-1",
                                        "192.0.2.1/24",
                                        "2001:db8::/129",
                                        "2001:db8::1/64",
                                        "proxy.test",
                                        "192.0.2.0/24/8" };
    struct network n;
    for (size_t i = 0; i < COUNT_OF(none); i++)
        assert_false(network_parse(str_of(none[i]), &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(private_addresses_are_told_from_public_ones),
        cmocka_unit_test(who_comes_over_a_unix_socket_has_no_address),
        cmocka_unit_test(networks_hold_what_begins_like_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
