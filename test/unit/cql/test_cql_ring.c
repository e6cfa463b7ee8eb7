/* Goal: the replicas of a token are those that Cassandra would choose. Method: rings with the
 * replicas that python3-cassandra gives them (golden_ring.txt, as sets); rings of random shape
 * against a walk as NetworkTopologyStrategy.java has it, token by token, in its order; and rings
 * that are small, empty or odd. Seeds are printed. */
#include "base/rng.h"
#include "cql/ring.h"

#include "../cmocka_all.h"
#include "ring_golden.h"

#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 64, TOKENS_MAX = 256, GOLDEN_SUMS_MIN = 200, RANDOM_RINGS = 400 };
static const char *golden_path;

/* What a ring is made of. */
struct town {
    unsigned count;
    struct cql_ring_node nodes[NODES_MAX];
    int64_t tokens[NODES_MAX][TOKENS_MAX];
    char names[NODES_MAX][2][8];
};

static void town_add(struct town *t, str dc, str rack, unsigned tokens_count)
{
    unsigned i = t->count++;
    assert_true(i < NODES_MAX);
    assert_true(tokens_count <= TOKENS_MAX);
    t->nodes[i] = (struct cql_ring_node){ dc, rack, t->tokens[i], tokens_count };
}

static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int token_cmp(const void *va, const void *vb)
{
    int64_t a = *(const int64_t *)va, b = *(const int64_t *)vb;
    return (a > b) - (a < b);
}

/* All tokens of a town, sorted; returns how many. */
static unsigned town_tokens(const struct town *t, int64_t *out)
{
    unsigned n = 0;
    for (unsigned i = 0; i < t->count; i++)
        for (unsigned k = 0; k < t->nodes[i].tokens_count; k++)
            out[n++] = t->nodes[i].tokens[k];
    qsort(out, n, sizeof *out, token_cmp);
    return n;
}

/* Tokens at and behind each of the ring's, and its ends. */
static unsigned town_probes(const struct town *t, int64_t *out)
{
    static int64_t tokens[NODES_MAX * TOKENS_MAX];
    unsigned n = town_tokens(t, tokens), count = 0;
    for (unsigned i = 0; i < n; i++) {
        out[count++] = tokens[i];
        out[count++] = tokens[i] == INT64_MAX ? INT64_MAX : tokens[i] + 1;
    }
    out[count++] = INT64_MIN;
    out[count++] = INT64_MAX;
    return count;
}

static int index_cmp(const void *va, const void *vb)
{
    return *(const uint16_t *)va - *(const uint16_t *)vb;
}

static unsigned sorted_replicas(const struct cql_replicas *r, int64_t token, uint16_t *out)
{
    unsigned count;
    const uint16_t *found = cql_replicas_of(r, token, &count);
    assert_true(count <= CQL_REPLICAS_MAX);
    if (count > 0)
        memcpy(out, found, count * sizeof *out);
    qsort(out, count, sizeof *out, index_cmp);
    return count;
}

/* ---- against the other driver ---- */

static uint64_t fnv_be16(uint64_t h, uint16_t n)
{
    h = (h ^ (n >> 8)) * 0x100000001b3u;
    return (h ^ (n & 0xff)) * 0x100000001b3u;
}

static uint64_t town_sum(const struct town *t, const struct cql_ring *ring,
                         const struct cql_replication *how, str dc)
{
    static int64_t probes[2 * NODES_MAX * TOKENS_MAX + 2];
    struct cql_replicas *r = cql_replicas_new(ring, how, dc);
    unsigned n = town_probes(t, probes);
    uint64_t h = 0xcbf29ce484222325u;
    for (unsigned i = 0; i < n; i++) {
        uint16_t found[CQL_REPLICAS_MAX];
        unsigned count = sorted_replicas(r, probes[i], found);
        for (unsigned k = 0; k < count; k++)
            h = fnv_be16(h, found[k]);
        h = fnv_be16(h, UINT16_MAX);
    }
    cql_replicas_free(&r);
    return h;
}

static struct cql_replication how_of(str line)
{
    bool simple = str_eq(golden_word(&line), STR("SimpleStrategy"));
    struct cql_replication how = {
        .strategy = simple ? CQL_STRATEGY_SIMPLE : CQL_STRATEGY_NETWORK,
    };
    while (line.n > 0) {
        str copies = golden_word(&line), name = str_split(&copies, '=');
        if (simple) {
            how.copies = (unsigned)golden_number(copies);
            continue;
        }
        assert_true(str_to_cstr(name, how.dcs[how.dcs_count].name, sizeof how.dcs[0].name));
        how.dcs[how.dcs_count++].copies = (unsigned)golden_number(copies);
    }
    return how;
}

static uint64_t hex_number(str hex)
{
    uint64_t n = 0;
    for (size_t i = 0; i < hex.n; i++)
        n = n << 4 | (uint64_t)str_hex_digit(hex.p[i]);
    return n;
}

static unsigned check_sums(const struct town *t, const struct cql_ring *ring,
                           const struct cql_replication *how, str line)
{
    unsigned checked = 0;
    while (line.n > 0) {
        str want = golden_word(&line), dc = str_split(&want, '=');
        str of = str_eq(dc, STR("*")) ? STR_NONE : dc;
        assert_int_equal(town_sum(t, ring, how, of), hex_number(want));
        checked++;
    }
    return checked;
}

static void check_at(const struct cql_ring *ring, const struct cql_replication *how, str line)
{
    struct cql_replicas *r = cql_replicas_new(ring, how, STR_NONE);
    uint16_t found[CQL_REPLICAS_MAX];
    unsigned count = sorted_replicas(r, golden_number(golden_word(&line)), found), met = 0;
    str nodes = golden_word(&line);
    while (nodes.n > 0 && !str_eq(nodes, STR("-"))) {
        assert_true(met < count);
        assert_int_equal(found[met++], golden_number(str_split(&nodes, ',')));
    }
    assert_int_equal(met, count);
    cql_replicas_free(&r);
}

static void golden_node(struct town *t, str line)
{
    str dc = golden_word(&line), rack = golden_word(&line);
    uint64_t seed = (uint64_t)golden_number(golden_word(&line));
    town_add(t, dc, rack, (unsigned)golden_number(golden_word(&line)));
    for (unsigned i = 0; i < t->nodes[t->count - 1].tokens_count; i++)
        t->tokens[t->count - 1][i] = (int64_t)splitmix(&seed);
}

static void replicas_are_those_of_another_driver(void **state)
{
    (void)state;
    static struct town town;
    struct cql_ring *ring = NULL;
    struct cql_replication how = { .strategy = CQL_STRATEGY_OTHER };
    unsigned checked = 0;
    str text = golden_text(golden_path);
    for (str line; golden_line(&text, &line);) {
        str whole = line, word = golden_word(&line);
        if (str_eq(word, STR("ring"))) {
            town.count = 0;
        } else if (str_eq(word, STR("node"))) {
            golden_node(&town, line);
        } else if (str_eq(word, STR("how"))) {
            print_message("%.*s\n", STR_ARG(whole));
            how = how_of(line);
            cql_ring_free(&ring);
            ring = cql_ring_new(town.nodes, town.count);
        } else if (str_eq(word, STR("at"))) {
            check_at(ring, &how, line);
        } else if (str_eq(word, STR("sum"))) {
            checked += check_sums(&town, ring, &how, line);
        }
    }
    assert_true(checked >= GOLDEN_SUMS_MIN);
    cql_ring_free(&ring);
}

/* ---- against a walk as the server makes it ---- */

struct model_dc {
    str name;
    unsigned left, nodes;
    int64_t repeats;
};
struct model {
    const struct town *town;
    const struct cql_replication *how;
    struct model_dc dcs[NODES_MAX];
    unsigned dcs_count;
    unsigned out[NODES_MAX], count;
};

static struct model_dc *model_dc(struct model *m, str name)
{
    for (unsigned i = 0; i < m->dcs_count; i++)
        if (str_eq(m->dcs[i].name, name))
            return &m->dcs[i];
    m->dcs[m->dcs_count] = (struct model_dc){ .name = name };
    return &m->dcs[m->dcs_count++];
}

static bool same_rack(const struct cql_ring_node *a, const struct cql_ring_node *b)
{
    return str_eq(a->dc, b->dc) && str_eq(a->rack, b->rack);
}

static void model_init(struct model *m)
{
    const struct town *t = m->town;
    m->dcs_count = m->count = 0;
    for (unsigned i = 0; i < t->count; i++) {
        if (t->nodes[i].tokens_count == 0)
            continue;
        struct model_dc *d = model_dc(m, t->nodes[i].dc);
        bool seen = false;
        for (unsigned k = 0; k < i; k++)
            seen = seen || (t->nodes[k].tokens_count > 0 && same_rack(&t->nodes[k], &t->nodes[i]));
        d->repeats -= !seen;
        d->nodes++;
    }
    for (unsigned i = 0; i < m->dcs_count; i++) {
        unsigned copies = m->how->copies;
        for (unsigned k = 0; k < m->how->dcs_count; k++)
            if (str_eq(str_of(m->how->dcs[k].name), m->dcs[i].name))
                copies = m->how->dcs[k].copies;
        m->dcs[i].repeats += copies;
        m->dcs[i].left = copies < m->dcs[i].nodes ? copies : m->dcs[i].nodes;
    }
}

static void model_meet(struct model *m, unsigned node)
{
    const struct cql_ring_node *n = &m->town->nodes[node];
    bool rack_seen = false;
    for (unsigned i = 0; i < m->count; i++) {
        if (m->out[i] == node)
            return;
        rack_seen = rack_seen || same_rack(&m->town->nodes[m->out[i]], n);
    }
    if (m->how->strategy == CQL_STRATEGY_SIMPLE) {
        if (m->count < m->how->copies)
            m->out[m->count++] = node;
        return;
    }
    struct model_dc *d = model_dc(m, n->dc);
    if (d->left == 0 || (rack_seen && d->repeats <= 0))
        return;
    d->repeats -= rack_seen;
    d->left--;
    m->out[m->count++] = node;
}

struct meeting {
    int64_t token;
    unsigned node;
};

static int meeting_cmp(const void *va, const void *vb)
{
    const struct meeting *a = va, *b = vb;
    if (a->token != b->token)
        return a->token < b->token ? -1 : 1;
    return (a->node > b->node) - (a->node < b->node);
}

static void model_walk(struct model *m, int64_t token)
{
    static struct meeting all[NODES_MAX * TOKENS_MAX];
    unsigned n = 0, first = 0;
    for (unsigned i = 0; i < m->town->count; i++)
        for (unsigned k = 0; k < m->town->nodes[i].tokens_count; k++)
            all[n++] = (struct meeting){ m->town->nodes[i].tokens[k], i };
    qsort(all, n, sizeof *all, meeting_cmp);
    while (first < n && all[first].token < token)
        first++;
    model_init(m);
    for (unsigned i = 0; i < n; i++)
        model_meet(m, all[(first + i) % n].node);
}

/* What the walk of the whole ring found, as far as it is in dc, is what a lookup gives. */
static void check_probe(struct model *m, const struct cql_replicas *r, int64_t token, str dc)
{
    unsigned count, k = 0;
    const uint16_t *found = cql_replicas_of(r, token, &count);
    for (unsigned i = 0; i < m->count; i++) {
        if (dc.n > 0 && !str_eq(m->town->nodes[m->out[i]].dc, dc))
            continue;
        if (k == CQL_REPLICAS_MAX)
            break;
        assert_true(k < count);
        assert_int_equal(found[k++], m->out[i]);
    }
    assert_int_equal(k, count);
}

static void check_town(const struct town *t, const struct cql_replication *how)
{
    static int64_t probes[2 * NODES_MAX * TOKENS_MAX + 2];
    static struct model m;
    static const str dcs[] = { STR_INIT(""), STR_INIT("d0"), STR_INIT("d1"), STR_INIT("none") };
    m.town = t;
    m.how = how;
    struct cql_ring *ring = cql_ring_new(t->nodes, t->count);
    struct cql_replicas *r[COUNT_OF(dcs)];
    for (size_t i = 0; i < COUNT_OF(dcs); i++)
        r[i] = cql_replicas_new(ring, how, dcs[i]);
    cql_ring_free(&ring); /* the replicas do not need it */
    unsigned n = town_probes(t, probes);
    for (unsigned i = 0; i < n; i++) {
        model_walk(&m, probes[i]);
        for (size_t k = 0; k < COUNT_OF(dcs); k++)
            check_probe(&m, r[k], probes[i], dcs[k]);
    }
    for (size_t i = 0; i < COUNT_OF(dcs); i++)
        cql_replicas_free(&r[i]);
}

static void random_name(struct rng *rng, char out[8], char kind, unsigned count)
{
    out[0] = kind;
    out[1] = (char)('0' + rng_below(rng, count));
    out[2] = '\0';
}

static void random_town(struct rng *rng, struct town *t)
{
    unsigned count = (unsigned)rng_below(rng, rng_below(rng, 4) == 0 ? 40 : 10);
    unsigned dcs = 1 + (unsigned)rng_below(rng, 4), racks = 1 + (unsigned)rng_below(rng, 5);
    unsigned each = 1 + (unsigned)rng_below(rng, rng_below(rng, 3) == 0 ? 16 : 3);
    /* From few values, two nodes often have the same token. */
    uint64_t range = rng_below(rng, 2) == 0 ? UINT64_MAX : 200;
    t->count = 0;
    for (unsigned i = 0; i < count; i++) {
        random_name(rng, t->names[i][0], 'd', dcs);
        random_name(rng, t->names[i][1], 'r', racks);
        town_add(t, str_of(t->names[i][0]), str_of(t->names[i][1]),
                 rng_below(rng, 8) == 0 ? 0 : 1 + (unsigned)rng_below(rng, each));
        for (unsigned k = 0; k < t->nodes[i].tokens_count; k++)
            t->tokens[i][k] = (int64_t)rng_below(rng, range);
    }
}

static struct cql_replication random_how(struct rng *rng)
{
    struct cql_replication how = { .strategy = CQL_STRATEGY_NETWORK };
    unsigned most = 1 + (unsigned)rng_below(rng, 9);
    if (rng_below(rng, 4) == 0 || rng_below(rng, 6) == 0)
        how.copies = (unsigned)rng_below(rng, most + 1);
    if (rng_below(rng, 4) == 0) {
        how.strategy = CQL_STRATEGY_SIMPLE;
        return how;
    }
    for (unsigned i = 0; i < 5; i++) {
        if (rng_below(rng, 4) == 0)
            continue;
        memcpy(how.dcs[how.dcs_count].name, (char[]){ 'd', (char)('0' + i), '\0' }, 3);
        how.dcs[how.dcs_count++].copies =
            rng_below(rng, 20) == 0 ? INT32_MAX : (unsigned)rng_below(rng, most + 1);
    }
    return how;
}

static void replicas_are_those_of_the_servers_walk(void **state)
{
    (void)state;
    static struct town t;
    for (uint64_t seed = 1; seed <= RANDOM_RINGS; seed++) {
        print_message("seed %llu\r", (unsigned long long)seed);
        struct rng rng;
        rng_init(&rng, seed);
        random_town(&rng, &t);
        for (unsigned i = 0; i < 4; i++) {
            struct cql_replication how = random_how(&rng);
            check_town(&t, &how);
        }
    }
    print_message("\n");
}

/* ---- small and odd ---- */

static void check_all(const struct cql_ring *ring, const struct cql_replication *how, str dc,
                      const char *want)
{
    static const int64_t probes[] = { INT64_MIN, -1, 0, 1, 10, 11, 20, 21, 30, 31, INT64_MAX };
    struct cql_replicas *r = cql_replicas_new(ring, how, dc);
    for (size_t i = 0; i < COUNT_OF(probes); i++) {
        uint16_t found[CQL_REPLICAS_MAX];
        unsigned count = sorted_replicas(r, probes[i], found);
        char text[2 * CQL_REPLICAS_MAX + 1] = "";
        for (unsigned k = 0; k < count; k++)
            text[k] = (char)('0' + found[k]);
        assert_string_equal(text, want);
    }
    cql_replicas_free(&r);
}

static void no_nodes_and_no_tokens_make_no_replicas(void **state)
{
    (void)state;
    struct cql_replication how = { .strategy = CQL_STRATEGY_SIMPLE, .copies = 3 };
    struct cql_ring *ring = cql_ring_new(NULL, 0);
    check_all(ring, &how, STR_NONE, "");
    cql_ring_free(&ring);
    const struct cql_ring_node bare[] = { { STR("a"), STR("r"), NULL, 0 },
                                          { STR(""), STR(""), NULL, 0 } };
    ring = cql_ring_new(bare, 2);
    check_all(ring, &how, STR_NONE, "");
    how = (struct cql_replication){ CQL_STRATEGY_NETWORK, 0, 1, { { "a", 3 } } };
    check_all(ring, &how, STR_NONE, "");
    cql_ring_free(&ring);
    cql_ring_free(&ring); /* of nothing */
    struct cql_replicas *none = NULL;
    cql_replicas_free(&none);
}

static void one_node_holds_all(void **state)
{
    (void)state;
    int64_t token = 10;
    const struct cql_ring_node node = { STR("a"), STR("r"), &token, 1 };
    struct cql_ring *ring = cql_ring_new(&node, 1);
    struct cql_replication how = { .strategy = CQL_STRATEGY_SIMPLE, .copies = 3 };
    check_all(ring, &how, STR_NONE, "0");
    check_all(ring, &how, STR("a"), "0");
    check_all(ring, &how, STR("b"), "");
    how = (struct cql_replication){ CQL_STRATEGY_NETWORK, 0, 1, { { "a", 3 } } };
    check_all(ring, &how, STR_NONE, "0");
    how = (struct cql_replication){ CQL_STRATEGY_NETWORK, 0, 1, { { "b", 3 } } };
    check_all(ring, &how, STR_NONE, "");
    how = (struct cql_replication){ CQL_STRATEGY_NETWORK, 2, 1, { { "b", 3 } } };
    check_all(ring, &how, STR("a"), "0"); /* not named: the factor for all */
    cql_ring_free(&ring);
}

static void a_node_without_tokens_makes_no_rack(void **state)
{
    (void)state;
    /* Would the rack of the bare node count, one rack could not be used twice. */
    int64_t tokens[] = { 10, 20 };
    const struct cql_ring_node nodes[] = {
        { STR("a"), STR("r0"), &tokens[0], 1 },
        { STR("a"), STR("r0"), &tokens[1], 1 },
        { STR("a"), STR("r1"), NULL, 0 },
    };
    struct cql_ring *ring = cql_ring_new(nodes, 3);
    struct cql_replication how = { CQL_STRATEGY_NETWORK, 0, 1, { { "a", 2 } } };
    check_all(ring, &how, STR_NONE, "01");
    cql_ring_free(&ring);
}

static void strategies_without_a_ring_tell_no_replicas(void **state)
{
    (void)state;
    int64_t token = 10;
    const struct cql_ring_node node = { STR("a"), STR("r"), &token, 1 };
    struct cql_ring *ring = cql_ring_new(&node, 1);
    struct cql_replication how = { .strategy = CQL_STRATEGY_LOCAL, .copies = 1 };
    check_all(ring, &how, STR_NONE, "");
    how.strategy = CQL_STRATEGY_OTHER;
    check_all(ring, &how, STR_NONE, "");
    cql_ring_free(&ring);
}

static void a_token_of_two_nodes_is_held_by_both(void **state)
{
    (void)state;
    int64_t same[] = { 20, 20 }, other = 30;
    const struct cql_ring_node nodes[] = {
        { STR("b"), STR("r"), &same[0], 1 },
        { STR("a"), STR("r"), &same[1], 1 },
        { STR("a"), STR("r"), &other, 1 },
    };
    struct cql_ring *ring = cql_ring_new(nodes, 3);
    struct cql_replication how = { .strategy = CQL_STRATEGY_SIMPLE, .copies = 2 };
    struct cql_replicas *r = cql_replicas_new(ring, &how, STR_NONE);
    unsigned count;
    const uint16_t *found = cql_replicas_of(r, 15, &count);
    assert_int_equal(count, 2);
    assert_int_equal(found[0], 0);
    assert_int_equal(found[1], 1);
    cql_replicas_free(&r);
    how = (struct cql_replication){ CQL_STRATEGY_NETWORK, 0, 1, { { "a", 1 } } };
    r = cql_replicas_new(ring, &how, STR("a"));
    found = cql_replicas_of(r, 20, &count);
    assert_int_equal(count, 1);
    assert_int_equal(found[0], 1);
    found = cql_replicas_of(r, 21, &count);
    assert_int_equal(found[0], 2);
    cql_replicas_free(&r);
    cql_ring_free(&ring);
}

static void replicas_are_cut_at_their_maximum(void **state)
{
    (void)state;
    static struct town t;
    t.count = 0;
    for (unsigned i = 0; i < 60; i++) {
        town_add(&t, STR("d0"), STR("r"), 1);
        t.tokens[i][0] = i;
    }
    struct cql_replication how = { .strategy = CQL_STRATEGY_SIMPLE, .copies = 50 };
    check_town(&t, &how);
    how = (struct cql_replication){ CQL_STRATEGY_NETWORK, 0, 1, { { "d0", INT32_MAX } } };
    check_town(&t, &how);
}

int main(int argc, char **argv)
{
    INVARIANT(argc == 2);
    golden_path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_are_those_of_another_driver),
        cmocka_unit_test(replicas_are_those_of_the_servers_walk),
        cmocka_unit_test(no_nodes_and_no_tokens_make_no_replicas),
        cmocka_unit_test(one_node_holds_all),
        cmocka_unit_test(a_node_without_tokens_makes_no_rack),
        cmocka_unit_test(strategies_without_a_ring_tell_no_replicas),
        cmocka_unit_test(a_token_of_two_nodes_is_held_by_both),
        cmocka_unit_test(replicas_are_cut_at_their_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
