/* Goal: requests go to the replicas, evenly; to slow nodes last, to remote ones when nothing else
 * is left; the p99 is that of what was measured; tries to connect are spread; addresses are read
 * and mapped as they are meant. Method: a client that never runs, with nodes set up by hand and a
 * clock of the test's; counts over many plans of a fixed seed. */
#include "../cmocka_all.h"
#include "cql/cql_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS = 30000, RACKS = 3 };

struct fixture {
    struct cql c;
    struct clock clock;
    mono now;
    struct cql_statement statement;
    struct cql_values values;
    struct cql_part part;
    struct cql_request q;
};

static mono fixture_now(struct clock *clock)
{
    return CONTAINER_OF(clock, struct fixture, clock)->now;
}

/* One after the other: of dc1, or dc2 where remote says so. All are up. */
static struct cql_node *node_add(struct fixture *f, bool remote, unsigned tokens)
{
    struct cql_node *n = cql_node_new(&f->c);
    assert_non_null(n);
    n->local = !remote;
    n->seen = true;
    n->open = 1;
    (void)snprintf(n->dc, sizeof n->dc, remote ? "dc2" : "dc1");
    (void)snprintf(n->rack, sizeof n->rack, "rack%u", n->place % RACKS);
    n->tokens = calloc(tokens + 1, sizeof *n->tokens);
    n->tokens_count = tokens;
    for (unsigned i = 0; i < tokens; i++)
        n->tokens[i] = (int64_t)rng_next(&f->c.rng);
    return n;
}

static void fixture_init(struct fixture *f, unsigned local, unsigned remote, unsigned tokens)
{
    *f = (struct fixture){ .clock = { .mono_now = fixture_now }, .now = { .ns = NS_PER_S } };
    struct cql *c = &f->c;
    c->opts.clock = &f->clock;
    c->opts.local_dc = "dc1";
    c->opts.connections = 2;
    c->opts.inflight_max = 1024;
    c->opts.retry_min_ms = 250;
    c->opts.retry_max_ms = 30000;
    rng_init(&c->rng, 7);
    buf_init(&c->routing, 4096);
    list_init(&c->dirty);
    for (unsigned i = 0; i < local; i++)
        (void)node_add(f, false, tokens);
    for (unsigned i = 0; i < remote; i++)
        (void)node_add(f, true, tokens);
    (void)snprintf(f->statement.keyspace, sizeof f->statement.keyspace, "ks");
    f->statement.partition_count = 1;
    cql_values_init(&f->values, 1024);
    cql_put_i64(&f->values, 1);
    f->part = (struct cql_part){ .statement = &f->statement, .values = &f->values };
    f->q = (struct cql_request){ .way = CQL_WAY_EXECUTE, .parts = &f->part, .parts_count = 1 };
}

static void ring_make(struct fixture *f, unsigned copies)
{
    struct cql *c = &f->c;
    struct cql_ring_node nodes[64];
    c->ring_places = calloc(64, sizeof *c->ring_places);
    for (unsigned i = 0; i < c->nodes_count; i++) {
        const struct cql_node *n = c->nodes[i];
        c->ring_places[i] = (uint16_t)i;
        nodes[i] = (struct cql_ring_node){ .dc = str_of(n->dc),
                                           .rack = str_of(n->rack),
                                           .tokens = n->tokens,
                                           .tokens_count = n->tokens_count };
    }
    c->ring = cql_ring_new(nodes, c->nodes_count);
    c->keyspaces = calloc(1, sizeof *c->keyspaces);
    c->keyspaces_count = 1;
    *c->keyspaces =
        (struct cql_keyspace){ .name = "ks",
                               .how = { .strategy = CQL_STRATEGY_NETWORK, .dcs_count = 1 } };
    (void)snprintf(c->keyspaces->how.dcs[0].name, sizeof c->keyspaces->how.dcs[0].name, "dc1");
    c->keyspaces->how.dcs[0].copies = copies;
}

static void fixture_fini(struct fixture *f)
{
    struct cql *c = &f->c;
    for (unsigned i = 0; i < c->nodes_count; i++)
        if (c->nodes[i] != NULL)
            cql_node_free(c, c->nodes[i]);
    cql_topology_free(c);
    buf_fini(&c->routing);
    cql_values_fini(&f->values);
}

static void key_set(struct fixture *f, int64_t key)
{
    cql_values_clear(&f->values);
    cql_put_i64(&f->values, key);
}

/* ---- the order ---- */

static void replicas_come_first_each_as_often(void **state)
{
    (void)state;
    static struct fixture f;
    unsigned first[64] = { 0 }, second[64] = { 0 };
    fixture_init(&f, 6, 2, 8);
    ring_make(&f, 3);
    for (unsigned i = 0; i < PLANS; i++) {
        cql_plan(&f.c, &f.q);
        assert_int_equal(f.q.plan_count, 6); /* none of dc2 */
        first[f.q.plan[0]]++;
        second[f.q.plan[1]]++;
    }
    unsigned replicas = 0;
    for (unsigned n = 0; n < 8; n++) {
        replicas += first[n] > 0;
        if (first[n] == 0)
            continue;
        assert_in_range(first[n], PLANS / 3 - PLANS / 50, PLANS / 3 + PLANS / 50);
        assert_in_range(second[n], PLANS / 3 - PLANS / 50, PLANS / 3 + PLANS / 50);
    }
    assert_int_equal(replicas, 3);
    fixture_fini(&f);
}

static void without_replicas_each_node_comes_first_as_often(void **state)
{
    (void)state;
    static struct fixture f;
    for (unsigned down = 0; down < 3; down++) {
        unsigned first[8] = { 0 };
        fixture_init(&f, 6, 0, 0);
        for (unsigned i = 0; i < down; i++)
            f.c.nodes[2 * i]->open = 0;
        for (unsigned i = 0; i < PLANS; i++) {
            cql_plan(&f.c, &f.q);
            assert_int_equal(f.q.plan_count, 6 - down);
            first[f.q.plan[0]]++;
        }
        unsigned each = PLANS / (6 - down);
        for (unsigned n = 0; n < 6; n++)
            if (f.c.nodes[n]->open > 0)
                assert_in_range(first[n], each - PLANS / 50, each + PLANS / 50);
            else
                assert_int_equal(first[n], 0);
        for (unsigned i = 0; i < 6; i++)
            f.c.nodes[i]->open = 0;
        fixture_fini(&f);
    }
}

static void slow_nodes_come_last_among_their_like(void **state)
{
    (void)state;
    static struct fixture f;
    bool replica[64] = { false };
    fixture_init(&f, 6, 2, 8);
    ring_make(&f, 3);
    f.c.opts.remote_dcs = true;
    cql_plan(&f.c, &f.q);
    for (unsigned i = 0; i < 3; i++)
        replica[f.q.plan[i]] = true;
    unsigned slow_replica = f.q.plan[0], slow_other = f.q.plan[3];
    cql_node_slow(f.c.nodes[slow_replica], f.now);
    cql_node_slow(f.c.nodes[slow_other], f.now);
    cql_node_slow(f.c.nodes[6], f.now);
    for (unsigned i = 0; i < 100; i++) {
        cql_plan(&f.c, &f.q);
        assert_int_equal(f.q.plan_count, 8);
        assert_true(replica[f.q.plan[0]] && replica[f.q.plan[1]]);
        assert_int_equal(f.q.plan[2], slow_replica);
        assert_int_equal(f.q.plan[5], slow_other);
        assert_int_equal(f.q.plan[6], 7);
        assert_int_equal(f.q.plan[7], 6);
    }
    fixture_fini(&f);
}

static void a_ring_of_twelve_nodes_with_256_tokens_is_routed_by_racks(void **state)
{
    (void)state;
    static struct fixture f;
    unsigned first[12] = { 0 };
    fixture_init(&f, 12, 0, 256);
    ring_make(&f, 3);
    for (unsigned i = 0; i < PLANS; i++) {
        unsigned racks = 0;
        key_set(&f, (int64_t)i);
        cql_plan(&f.c, &f.q);
        assert_int_equal(f.q.plan_count, CQL_PLAN_MAX);
        for (unsigned k = 0; k < 3; k++)
            racks |= BIT(f.q.plan[k] % RACKS);
        assert_int_equal(racks, BIT(0) | BIT(1) | BIT(2));
        first[f.q.plan[0]]++;
    }
    for (unsigned n = 0; n < 12; n++)
        assert_in_range(first[n], PLANS / 12 * 7 / 10, PLANS / 12 * 13 / 10);
    fixture_fini(&f);
}

/* ---- slow ---- */

static void a_slow_node_is_spared_longer_each_time_and_forgiven(void **state)
{
    (void)state;
    static struct fixture f;
    static const int64_t ms[] = { 1000, 2000, 4000, 8000, 10000, 10000 };
    fixture_init(&f, 1, 0, 0);
    struct cql_node *n = f.c.nodes[0];
    for (unsigned i = 0; i < COUNT_OF(ms); i++) {
        cql_node_slow(n, f.now);
        assert_int_equal(n->slow_until.ns - f.now.ns, ms[i] * NS_PER_MS);
        cql_node_slow(n, mono_add_ms(f.now, 1)); /* once is enough */
        assert_int_equal(n->slow_until.ns - f.now.ns, ms[i] * NS_PER_MS);
        cql_node_answered(n, NS_PER_MS); /* to what was sent before */
        assert_int_not_equal(n->slow_ms, 0);
        f.now = n->slow_until;
    }
    cql_node_answered(n, NS_PER_MS);
    cql_node_slow(n, f.now);
    assert_int_equal(n->slow_until.ns - f.now.ns, ms[0] * NS_PER_MS);
    fixture_fini(&f);
}

/* ---- the p99 ---- */

static void the_p99_is_at_most_a_quarter_too_high(void **state)
{
    (void)state;
    static struct fixture f;
    static const struct {
        unsigned slow_per_mille;
        int64_t fast_us, slow_us, p99_us;
    } cases[] = { { 0, 800, 0, 800 },          { 5, 1000, 50000, 1000 },
                  { 15, 1000, 50000, 50000 },  { 500, 3, 5, 5 },
                  { 1000, 0, 2, 2 },           { 1000, 0, 1, 1 },
                  { 20, 2000, 900000, 900000 } };
    for (unsigned i = 0; i < COUNT_OF(cases); i++) {
        fixture_init(&f, 1, 0, 0);
        for (unsigned k = 0; k < 10000; k++) {
            bool slow = k % 1000 < cases[i].slow_per_mille;
            cql_latency_note(&f.c, (slow ? cases[i].slow_us : cases[i].fast_us) * NS_PER_US);
        }
        cql_latency_age(&f.c);
        int64_t p99_us = f.c.p99_ns / NS_PER_US;
        assert_in_range(p99_us, cases[i].p99_us, cases[i].p99_us * 5 / 4 + 1);
        fixture_fini(&f);
    }
}

static void the_p99_follows_and_needs_a_hundred(void **state)
{
    (void)state;
    static struct fixture f;
    fixture_init(&f, 1, 0, 0);
    for (unsigned k = 0; k < 99; k++)
        cql_latency_note(&f.c, NS_PER_S);
    cql_latency_age(&f.c);
    assert_int_equal(f.c.p99_ns, 0);
    cql_latency_note(&f.c, NS_PER_S);
    cql_latency_age(&f.c);
    assert_true(f.c.p99_ns >= NS_PER_S);
    for (unsigned second = 0; second < 10; second++) {
        for (unsigned k = 0; k < 1000; k++)
            cql_latency_note(&f.c, NS_PER_MS);
        cql_latency_age(&f.c);
    }
    assert_true(f.c.p99_ns < 2 * NS_PER_MS);
    cql_latency_note(&f.c, INT64_MAX); /* longer than the last bucket */
    cql_latency_note(&f.c, -1);
    cql_latency_age(&f.c);
    fixture_fini(&f);
}

/* ---- tries to connect ---- */

static void tries_are_spread_within_their_bounds(void **state)
{
    (void)state;
    static struct fixture f;
    fixture_init(&f, 1, 0, 0);
    int64_t least[10], most[10];
    for (unsigned n = 0; n < 2000; n++) {
        int64_t retry_ms = 0, bound = 250;
        for (unsigned i = 0; i < 10; i++, bound = bound * 2 < 30000 ? bound * 2 : 30000) {
            int64_t ms = cql_backoff_ms(&f.c, &retry_ms);
            assert_in_range(ms, bound / 2, bound);
            least[i] = n == 0 || ms < least[i] ? ms : least[i];
            most[i] = n == 0 || ms > most[i] ? ms : most[i];
        }
        assert_int_equal(retry_ms, 30000);
    }
    for (unsigned i = 0; i < 10; i++)
        assert_true(most[i] - least[i] > (most[i] + 1) * 2 / 5); /* nearly all of the half */
    fixture_fini(&f);
}

/* ---- addresses ---- */

static void mapped_to(struct fixture *f, const char *host, uint16_t port, const char *wanted)
{
    struct sockaddr_storage a;
    socklen_t bytes;
    char text[CQL_NODE_TEXT_BYTES];
    assert_true(cql_address_read(host, port, &a, &bytes));
    cql_address_map(&f->c, &a, &bytes);
    cql_address_print(&a, text);
    assert_string_equal(text, wanted);
}

static void addresses_are_mapped_however_they_are_written(void **state)
{
    (void)state;
    static struct fixture f;
    static const struct cql_mapped map[] = {
        { "10.0.0.1:9142", "127.0.0.1:19142" }, { "10.0.0.1", "127.0.0.1" },
        { "2001:DB8:0:0::1", "::1" },           { "[2001:db8::0002]:9042", "[::1]:29042" },
        { "10.0.0.2", "[2001:db8::9]:1" },
    };
    fixture_init(&f, 0, 0, 0);
    f.c.opts.mapped = map;
    f.c.opts.mapped_count = COUNT_OF(map);
    mapped_to(&f, "10.0.0.1", 9142, "127.0.0.1:19142");
    mapped_to(&f, "10.0.0.1", 9042, "127.0.0.1:9042");
    mapped_to(&f, "10.0.0.2", 9042, "[2001:db8::9]:1");
    mapped_to(&f, "10.0.0.3", 9042, "10.0.0.3:9042");
    mapped_to(&f, "2001:db8::1", 9042, "[::1]:9042");
    mapped_to(&f, "2001:db8::2", 9042, "[::1]:29042");
    mapped_to(&f, "2001:db8::2", 9043, "[2001:db8::2]:9043");
    fixture_fini(&f);
}

static void addresses_and_contact_points_are_judged(void **state)
{
    (void)state;
    static const char *const good[] = { "10.0.0.1", "10.0.0.1:1", "::1", "[::1]:65535" };
    static const char *const bad[] = { "",           "host",      "10.0.0.1:",
                                       "10.0.0.1:0", "[::1]",     "10.0.0.1:65536",
                                       "10.0.0:1",   "[::1:9042", "10.0.0.1:x" };
    for (unsigned i = 0; i < COUNT_OF(good); i++)
        assert_true(cql_address_text_is_good(good[i]));
    for (unsigned i = 0; i < COUNT_OF(bad); i++)
        assert_false(cql_address_text_is_good(bad[i]));
    static const struct {
        const char *text, *host, *port; /* host NULL: refused */
    } points[] = {
        { "a", "a", "9042" },
        { "a.example:1", "a.example", "1" },
        { "::1", "::1", "9042" },
        { "[::1]", "::1", "9042" },
        { "[::1]:65535", "::1", "65535" },
        { "10.0.0.1:9142", "10.0.0.1", "9142" },
        { "", NULL, NULL },
        { ":1", NULL, NULL },
        { "a:", NULL, NULL },
        { "a:0", NULL, NULL },
        { "a:65536", NULL, NULL },
        { "a:1x", NULL, NULL },
        { "[::1", NULL, NULL },
        { "[::1]x", NULL, NULL },
        { "[::1]:", NULL, NULL },
        { "[]", NULL, NULL },
    };
    for (unsigned i = 0; i < COUNT_OF(points); i++) {
        char host[CQL_HOST_BYTES_MAX + 1], port[6];
        bool fine = cql_point_split(points[i].text, host, port);
        assert_int_equal(fine, points[i].host != NULL);
        if (!fine)
            continue;
        assert_string_equal(host, points[i].host);
        assert_string_equal(port, points[i].port);
    }
}

/* ---- options ---- */

static void refused(const struct cql_opts *o, const char *word)
{
    struct err_note note = { .text = "" };
    assert_null(cql_new(o, &note));
    assert_non_null(strstr(note.text, word));
}

static void options_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    static const struct cql_mapped typo = { "host-1", "10.0.0.1" };
    static char long_name[CQL_NAME_BYTES_MAX + 2];
    memset(long_name, 'd', sizeof long_name - 1);
    const struct cql_opts good = { .contact_points = { "a", "b:1" },
                                   .contact_points_count = 2,
                                   .local_dc = "dc1" };
    struct cql_opts o = good;
    o.contact_points_count = 0;
    refused(&o, "contact points");
    o.contact_points_count = CQL_CONTACT_POINTS_MAX + 1;
    refused(&o, "contact points");
    o.contact_points_count = 3; /* the third is NULL */
    refused(&o, "contact point");
    o = good;
    o.contact_points[1] = "b:x";
    refused(&o, "b:x");
    o = good;
    o.local_dc = NULL;
    refused(&o, "data centre");
    o.local_dc = long_name;
    refused(&o, "data centre");
    o = good;
    o.mapped = &typo;
    o.mapped_count = 1;
    refused(&o, "host-1");
    o = good;
    o.version_max = 3;
    refused(&o, "version");
    o = good;
    o.connections = CQL_CONNECTIONS_MAX + 1;
    refused(&o, "connections");
    o = good;
    o.inflight_max = UINT32_MAX; /* the sum is small */
    o.orphans_max = 2;
    refused(&o, "inflight_max");
    o = good;
    o.user = "u";
    refused(&o, "password");
    o = good;
    o.refresh_ms = -1;
    refused(&o, "negative");
    o = good;
    o.retry_min_ms = 60000; /* above the default of retry_max_ms */
    refused(&o, "retry_min_ms");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_come_first_each_as_often),
        cmocka_unit_test(without_replicas_each_node_comes_first_as_often),
        cmocka_unit_test(slow_nodes_come_last_among_their_like),
        cmocka_unit_test(a_ring_of_twelve_nodes_with_256_tokens_is_routed_by_racks),
        cmocka_unit_test(a_slow_node_is_spared_longer_each_time_and_forgiven),
        cmocka_unit_test(the_p99_is_at_most_a_quarter_too_high),
        cmocka_unit_test(the_p99_follows_and_needs_a_hundred),
        cmocka_unit_test(tries_are_spread_within_their_bounds),
        cmocka_unit_test(addresses_are_mapped_however_they_are_written),
        cmocka_unit_test(addresses_and_contact_points_are_judged),
        cmocka_unit_test(options_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
