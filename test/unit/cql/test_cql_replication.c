/* Goal: a keyspace's replication is read from the map that the server keeps, and what is no such
 * map is refused. Method: maps written as the server writes them, whole, cut at each byte, and with
 * each byte changed. */
#include "cql/ring.h"

#include "../cmocka_all.h"

#include <string.h>

enum { MAP_BYTES_MAX = 4096 };

/* A map<text, text> of pairs "name=value". */
struct map {
    struct cql_column column;
    struct cql_cell cell;
    struct buf bytes;
};

static const str map_of_texts = STR_INIT("\0\x0d\0\x0d");

static void put_text(struct buf *to, str text)
{
    buf_put_be32(to, (uint32_t)text.n);
    buf_put(to, text);
}

static void map_init(struct map *m, const char *const *pairs)
{
    *m = (struct map){ .column = { .spec = { CQL_MAP, map_of_texts } } };
    uint32_t count = 0;
    while (pairs[count] != NULL)
        count++;
    buf_init(&m->bytes, MAP_BYTES_MAX);
    buf_put_be32(&m->bytes, count);
    for (; *pairs != NULL; pairs++) {
        str value = str_of(*pairs), name = str_split(&value, '=');
        put_text(&m->bytes, name);
        put_text(&m->bytes, value);
    }
    assert_int_equal(buf_status(&m->bytes), ERR_OK);
    m->cell = (struct cql_cell){ .column = &m->column, .bytes = buf_str(&m->bytes) };
}

static err map_read(const char *const *pairs, struct cql_replication *out, struct err_note *note)
{
    struct map m;
    map_init(&m, pairs);
    err e = cql_replication_read(&m.cell, out, note);
    buf_fini(&m.bytes);
    return e;
}

#define PAIRS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static struct cql_replication read_fine(const char *const *pairs)
{
    struct cql_replication r;
    struct err_note note = { "" };
    if (map_read(pairs, &r, &note) != ERR_OK)
        fail_msg("%s: %s", pairs[0], note.text);
    return r;
}

static void a_simple_strategy_has_its_copies(void **state)
{
    (void)state;
    struct cql_replication r = read_fine(
        PAIRS("class=org.apache.cassandra.locator.SimpleStrategy", "replication_factor=3"));
    assert_int_equal(r.strategy, CQL_STRATEGY_SIMPLE);
    assert_int_equal(r.copies, 3);
    assert_int_equal(r.dcs_count, 0);
    /* Without its package, its options in another order, and with one that means nothing. */
    r = read_fine(PAIRS("dc1=many", "replication_factor=3/1", "class=SimpleStrategy"));
    assert_int_equal(r.strategy, CQL_STRATEGY_SIMPLE);
    assert_int_equal(r.copies, 3);
}

static void a_network_topology_has_copies_by_data_centre(void **state)
{
    (void)state;
    struct cql_replication r =
        read_fine(PAIRS("DC2=3/1", "class=org.apache.cassandra.locator.NetworkTopologyStrategy",
                        "dc-1 east=2", "none=0"));
    assert_int_equal(r.strategy, CQL_STRATEGY_NETWORK);
    assert_int_equal(r.copies, 0);
    assert_int_equal(r.dcs_count, 3);
    assert_string_equal(r.dcs[0].name, "DC2");
    assert_int_equal(r.dcs[0].copies, 3);
    assert_string_equal(r.dcs[1].name, "dc-1 east");
    assert_int_equal(r.dcs[1].copies, 2);
    assert_int_equal(r.dcs[2].copies, 0);
    r = read_fine(PAIRS("class=NetworkTopologyStrategy"));
    assert_int_equal(r.dcs_count, 0);
    r = read_fine(PAIRS("class=NetworkTopologyStrategy", "Replication_Factor=5", "dc1=1"));
    assert_int_equal(r.copies, 5);
    assert_int_equal(r.dcs_count, 1);
}

static void options_of_other_strategies_are_not_read(void **state)
{
    (void)state;
    struct cql_replication r = read_fine(PAIRS("class=org.apache.cassandra.locator.LocalStrategy"));
    assert_int_equal(r.strategy, CQL_STRATEGY_LOCAL);
    r = read_fine(PAIRS("a=b", "class=org.apache.cassandra.locator.MetaStrategy", "c=d"));
    assert_int_equal(r.strategy, CQL_STRATEGY_OTHER);
    assert_int_equal(r.dcs_count, 0);
    assert_int_equal(read_fine(PAIRS("class=")).strategy, CQL_STRATEGY_OTHER);
    assert_int_equal(read_fine(PAIRS("class=SimpleStrategy.")).strategy, CQL_STRATEGY_OTHER);
    assert_int_equal(read_fine(PAIRS("class=networktopologystrategy")).strategy,
                     CQL_STRATEGY_OTHER);
}

static void check_refused(const char *const *pairs, err want, const char *says)
{
    struct cql_replication r = { .copies = 77 };
    struct err_note note = { "" };
    assert_int_equal(map_read(pairs, &r, &note), want);
    if (strstr(note.text, says) == NULL)
        fail_msg("%s", note.text);
    assert_int_equal(r.copies, 77); /* untouched */
}

static void what_is_no_replication_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = { "dc=",    "dc=x",          "dc=-1",    "dc=3/", "dc=/1",
                                         "dc=1/2", "dc=2147483648", "dc=3/1/1", "dc= 3" };
    check_refused(PAIRS("dc1=3"), ERR_BAD, "without a class");
    check_refused((const char *const[]){ NULL }, ERR_BAD, "without a class");
    check_refused(PAIRS("class=SimpleStrategy"), ERR_BAD, "without its replication_factor");
    check_refused(PAIRS("class=SimpleStrategy", "replication_factor=x"), ERR_BAD, "'x' is no");
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        check_refused(PAIRS("class=NetworkTopologyStrategy", wrong[i]), ERR_BAD, "no number");
}

static void more_than_there_is_room_for_is_refused(void **state)
{
    (void)state;
    char text[CQL_DCS_MAX + 1][16];
    const char *pairs[CQL_DCS_MAX + 3] = { "class=NetworkTopologyStrategy" };
    for (unsigned i = 0; i <= CQL_DCS_MAX; i++) {
        memcpy(text[i], (char[]){ 'd', (char)('a' + i), '=', '1', '\0' }, 5);
        pairs[i + 1] = text[i];
    }
    check_refused(pairs, ERR_LIMIT, "more than 16 data centres");
    pairs[CQL_DCS_MAX + 1] = NULL;
    assert_int_equal(read_fine(pairs).dcs_count, CQL_DCS_MAX);
    char name[CQL_NAME_BYTES_MAX + 4];
    memset(name, 'n', sizeof name);
    memcpy(&name[CQL_NAME_BYTES_MAX + 1], "=1", 3);
    check_refused(PAIRS(pairs[0], name), ERR_LIMIT, "name of 64 bytes");
    assert_int_equal(read_fine(PAIRS(pairs[0], &name[1])).dcs_count, 1);
}

static void what_is_no_map_is_refused(void **state)
{
    (void)state;
    struct map m;
    struct cql_replication r;
    struct err_note note;
    map_init(&m, PAIRS("class=LocalStrategy"));
    assert_int_equal(cql_replication_read(&m.cell, &r, &note), ERR_OK);
    struct cql_cell null = m.cell;
    null.null = true;
    assert_int_equal(cql_replication_read(&null, &r, &note), ERR_BAD);
    m.column.spec = (struct cql_spec){ CQL_LIST, STR("\0\x0d") };
    assert_int_equal(cql_replication_read(&m.cell, &r, &note), ERR_BAD);
    m.column.spec = (struct cql_spec){ CQL_TEXT, STR_NONE };
    assert_int_equal(cql_replication_read(&m.cell, &r, &note), ERR_BAD);
    buf_fini(&m.bytes);
}

/* A name with a NUL cannot be told as a C string; a null name or value is none. */
static void names_and_values_are_texts(void **state)
{
    (void)state;
    struct map m;
    struct cql_replication r;
    struct err_note note;
    map_init(&m, PAIRS("class=NetworkTopologyStrategy", "d0=1"));
    char *end = m.bytes.p + m.bytes.n;
    memcpy(end - 7, "d\0", 2);
    assert_int_equal(cql_replication_read(&m.cell, &r, &note), ERR_BAD);
    assert_non_null(strstr(note.text, "NUL"));
    memcpy(end - 7, "d0", 2);
    put_be32(end - 5, UINT32_MAX);
    assert_int_equal(cql_replication_read(&m.cell, &r, &note), ERR_BAD);
    assert_non_null(strstr(note.text, "text to text"));
    buf_fini(&m.bytes);
}

static void bytes_that_are_cut_or_changed_break_nothing(void **state)
{
    (void)state;
    struct map m;
    struct err_note note;
    map_init(&m, PAIRS("class=NetworkTopologyStrategy", "dc1=3", "dc2=2"));
    str whole = m.cell.bytes;
    for (size_t n = 0; n < whole.n; n++) {
        struct cql_replication r;
        m.cell.bytes = str_take(whole, n);
        assert_int_equal(cql_replication_read(&m.cell, &r, &note), ERR_BAD);
    }
    m.cell.bytes = whole;
    for (size_t n = 0; n < whole.n; n++)
        for (unsigned bit = 0; bit < 8; bit++) {
            struct cql_replication r;
            m.bytes.p[n] ^= (char)BIT(bit);
            err e = cql_replication_read(&m.cell, &r, &note);
            assert_true(e == ERR_OK || e == ERR_BAD);
            m.bytes.p[n] ^= (char)BIT(bit);
        }
    buf_fini(&m.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_simple_strategy_has_its_copies),
        cmocka_unit_test(a_network_topology_has_copies_by_data_centre),
        cmocka_unit_test(options_of_other_strategies_are_not_read),
        cmocka_unit_test(what_is_no_replication_is_refused),
        cmocka_unit_test(more_than_there_is_room_for_is_refused),
        cmocka_unit_test(what_is_no_map_is_refused),
        cmocka_unit_test(names_and_values_are_texts),
        cmocka_unit_test(bytes_that_are_cut_or_changed_break_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
