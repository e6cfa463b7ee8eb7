/* Goal: cells give what was bound, of each type; and false for null, another type, and bytes that
 * are no such value. Method: values put by cql_put_* are read back as the cells of one row; rows
 * and items are cut at every byte. */
#include "../cmocka_all.h"
#include "cql/value.h"

#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 8 };

/* Columns of the types of a list of [option]s; to be dropped. */
static struct cql_columns *columns_of(str options)
{
    struct cql_columns *c = calloc(1, sizeof *c + COLUMNS_MAX * sizeof c->at[0]);
    assert_non_null(c);
    c->refs = 1;
    struct cursor at = { .rest = options };
    while (at.rest.n > 0) {
        assert_true(c->count < COLUMNS_MAX);
        c->at[c->count].name = STR("n");
        assert_true(cql_spec_take(&at, &c->at[c->count++].spec));
    }
    return c;
}

static struct cql_rows rows_of(struct cql_columns *c, const struct cql_values *v, unsigned count)
{
    assert_int_equal(cql_values_status(v), ERR_OK);
    return (struct cql_rows){
        .columns = c, .rest = { .rest = buf_str(&v->bytes) }, .count = count, .left = count
    };
}

static void whole_numbers_come_back(void **state)
{
    (void)state;
    struct cql_values v;
    cql_values_init(&v, 4096);
    cql_put_i64(&v, INT64_MIN);
    cql_put_i32(&v, INT32_MIN);
    cql_put_i16(&v, INT16_MIN);
    cql_put_i8(&v, INT8_MIN);
    cql_put_i64(&v, 0x0102030405060708);
    cql_put_i64(&v, -1);
    cql_put_i64(&v, 86399999999999);
    cql_put_i64(&v, INT64_MAX);
    cql_put_i32(&v, INT32_MAX);
    cql_put_i16(&v, INT16_MAX);
    cql_put_i8(&v, INT8_MAX);
    cql_put_i64(&v, 1);
    cql_put_i64(&v, 2);
    cql_put_i64(&v, 3);
    static const int64_t expect[] = { INT64_MIN,
                                      INT32_MIN,
                                      INT16_MIN,
                                      INT8_MIN,
                                      0x0102030405060708,
                                      -1,
                                      86399999999999,
                                      INT64_MAX,
                                      INT32_MAX,
                                      INT16_MAX,
                                      INT8_MAX,
                                      1,
                                      2,
                                      3 };
    struct cql_columns *c = columns_of(STR("\0\2\0\x9\0\x13\0\x14\0\5\0\x0b\0\x12"));
    struct cql_rows rows = rows_of(c, &v, 2);
    struct cql_cell cells[COLUMNS_MAX];
    for (unsigned row = 0; row < 2; row++) {
        assert_true(cql_rows_next(&rows, cells));
        for (unsigned i = 0; i < c->count; i++) {
            int64_t n = 0;
            assert_true(cql_get_i64(&cells[i], &n));
            assert_true(n == expect[row * c->count + i]);
            assert_ptr_equal(cells[i].column, &c->at[i]);
        }
    }
    assert_false(cql_rows_next(&rows, cells));
    assert_false(rows.rest.failed);
    assert_true(cursor_done(&rows.rest));
    cql_columns_drop(&c);
    cql_values_fini(&v);
}

static const unsigned char uuid1[CQL_UUID_BYTES] = { 0x13, 0x81, 0x40, 0x00, 0x1d, 0xd2, 0x11, 0xb2,
                                                     0x80, 1,    2,    3,    4,    5,    6,    7 };

static void other_values_come_back(void **state)
{
    (void)state;
    struct cql_values v;
    cql_values_init(&v, 4096);
    struct tid t = { .ticks = 0x1b21dd213814000, .low = 0x8001020304050607 };
    cql_put_bytes(&v, STR("a\0b"));
    cql_put_bool(&v, true);
    cql_put_double(&v, -0.1);
    cql_put_tid(&v, t);
    cql_put_uuid(&v, uuid1);
    cql_put_date(&v, -719528);
    cql_put_bytes(&v, STR("\x3f\xc0\0\0"));
    cql_put_bytes(&v, STR_NONE);
    struct cql_columns *c = columns_of(STR("\0\3\0\4\0\7\0\xf\0\xc\0\x11\0\x8\0\xd"));
    struct cql_rows rows = rows_of(c, &v, 1);
    struct cql_cell cells[COLUMNS_MAX];
    assert_true(cql_rows_next(&rows, cells));
    str s;
    assert_true(cql_get_bytes(&cells[0], &s));
    assert_true(str_eq(s, STR("a\0b")));
    bool on = false;
    assert_true(cql_get_bool(&cells[1], &on));
    assert_true(on);
    double d;
    assert_true(cql_get_double(&cells[2], &d));
    assert_true(d == -0.1);
    for (unsigned i = 3; i < 5; i++) {
        struct tid got;
        const unsigned char *uuid;
        assert_true(cql_get_tid(&cells[i], &got));
        assert_int_equal(tid_cmp(got, t), 0);
        assert_true(cql_get_uuid(&cells[i], &uuid));
        assert_memory_equal(uuid, uuid1, sizeof uuid1);
    }
    int32_t days;
    assert_true(cql_get_date(&cells[5], &days));
    assert_int_equal(days, -719528);
    assert_true(cql_get_double(&cells[6], &d));
    assert_true(d == 1.5);
    assert_true(cql_get_bytes(&cells[7], &s));
    assert_int_equal(s.n, 0);
    assert_false(cells[7].null);
    cql_columns_drop(&c);
    cql_values_fini(&v);
}

/* The getters that take a cell, as bits. */
static unsigned getters_of(const struct cql_cell *cell)
{
    str s;
    int64_t n;
    bool on;
    double d;
    struct tid t;
    const unsigned char *uuid;
    int32_t days;
    char inet[46];
    struct cql_items items;
    return (unsigned)cql_get_bytes(cell, &s) | (unsigned)cql_get_i64(cell, &n) << 1 |
           (unsigned)cql_get_bool(cell, &on) << 2 | (unsigned)cql_get_double(cell, &d) << 3 |
           (unsigned)cql_get_tid(cell, &t) << 4 | (unsigned)cql_get_uuid(cell, &uuid) << 5 |
           (unsigned)cql_get_date(cell, &days) << 6 | (unsigned)cql_get_inet(cell, inet) << 7 |
           (unsigned)cql_get_items(cell, &items) << 8;
}

/* Which getter takes which size, of each type. */
static void a_getter_takes_only_its_types_at_their_size(void **state)
{
    (void)state;
    static const struct {
        unsigned type, size, getters;
    } takes[] = {
        { CQL_BIGINT, 8, BIT(1) },
        { CQL_COUNTER, 8, BIT(1) },
        { CQL_TIMESTAMP, 8, BIT(1) },
        { CQL_TIME, 8, BIT(1) },
        { CQL_INT, 4, BIT(1) },
        { CQL_SMALLINT, 2, BIT(1) },
        { CQL_TINYINT, 1, BIT(1) },
        { CQL_BOOLEAN, 1, BIT(2) },
        { CQL_DOUBLE, 8, BIT(3) },
        { CQL_FLOAT, 4, BIT(3) },
        { CQL_TIMEUUID, 16, BIT(4) | BIT(5) },
        { CQL_UUID, 16, BIT(4) | BIT(5) },
        { CQL_DATE, 4, BIT(6) },
        { CQL_INET, 4, BIT(7) },
        { CQL_INET, 16, BIT(7) },
    };
    for (unsigned type = 0; type <= CQL_DURATION; type++)
        for (unsigned size = 0; size <= 20; size++) {
            struct cql_column column = { .spec = { .type = (enum cql_type)type } };
            struct cql_cell cell = { .column = &column,
                                     .bytes = { .p = (const char *)uuid1, .n = size } };
            char bytes[20] = { 0 };
            memcpy(bytes, uuid1, sizeof uuid1);
            cell.bytes.p = bytes;
            unsigned expect = BIT(0);
            for (size_t i = 0; i < COUNT_OF(takes); i++)
                if (takes[i].type == type && takes[i].size == size)
                    expect |= takes[i].getters;
            assert_int_equal(getters_of(&cell), expect);
            cell.null = true;
            assert_int_equal(getters_of(&cell), 0);
        }
}

static void a_tid_is_of_version_1_and_its_variant(void **state)
{
    (void)state;
    unsigned char bytes[CQL_UUID_BYTES];
    struct cql_column column = { .spec = { .type = CQL_UUID } };
    struct cql_cell cell = { .column = &column,
                             .bytes = { .p = (const char *)bytes, .n = sizeof bytes } };
    struct tid t;
    memcpy(bytes, uuid1, sizeof bytes);
    bytes[6] = 0x41;
    assert_false(cql_get_tid(&cell, &t));
    memcpy(bytes, uuid1, sizeof bytes);
    bytes[8] = 0xc0;
    assert_false(cql_get_tid(&cell, &t));
    bytes[8] = 0x7f;
    assert_false(cql_get_tid(&cell, &t));
    bytes[8] = 0xbf;
    assert_true(cql_get_tid(&cell, &t));
}

static void an_address_is_text(void **state)
{
    (void)state;
    struct cql_column column = { .spec = { .type = CQL_INET } };
    struct cql_cell cell = { .column = &column, .bytes = STR("\x7f\0\0\1") };
    char out[46];
    assert_true(cql_get_inet(&cell, out));
    assert_string_equal(out, "127.0.0.1");
    cell.bytes = STR("\x20\1\xd\xb8\0\0\0\0\0\0\0\0\0\0\0\1");
    assert_true(cql_get_inet(&cell, out));
    assert_string_equal(out, "2001:db8::1");
}

static void rows_that_are_cut_end_with_a_failure(void **state)
{
    (void)state;
    struct cql_values v;
    cql_values_init(&v, 4096);
    for (int i = 0; i < 3; i++) {
        cql_put_i32(&v, i);
        cql_put_null(&v);
        cql_put_bytes(&v, STR("abc"));
    }
    struct cql_columns *c = columns_of(STR("\0\x9\0\x9\0\xd"));
    for (size_t n = 0; n < v.bytes.n; n++) {
        char *p = malloc(n == 0 ? 1 : n);
        assert_non_null(p);
        memcpy(p, v.bytes.p, n);
        struct cql_rows rows = {
            .columns = c, .rest = { .rest = { .p = p, .n = n } }, .count = 3, .left = 3
        };
        struct cql_cell cells[COLUMNS_MAX];
        unsigned got = 0;
        while (cql_rows_next(&rows, cells)) {
            int64_t number;
            assert_true(cql_get_i64(&cells[0], &number));
            assert_int_equal(number, got++);
            assert_true(cells[1].null);
        }
        assert_int_equal(got, n / (v.bytes.n / 3));
        assert_true(rows.rest.failed);
        assert_false(cql_rows_next(&rows, cells)); /* and stays so */
        free(p);
    }
    cql_columns_drop(&c);
    cql_values_fini(&v);
}

static void hostile_lengths_of_cells_fail(void **state)
{
    (void)state;
    struct cql_columns *c = columns_of(STR("\0\3"));
    static const str bad[] = { STR_INIT("\x7f\xff\xff\xff"
                                        "a"),
                               STR_INIT("\0\0\0\2a"), STR_INIT("\0\0\0") };
    struct cql_cell cells[COLUMNS_MAX];
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct cql_rows rows = { .columns = c, .rest = { .rest = bad[i] }, .left = 1 };
        assert_false(cql_rows_next(&rows, cells));
        assert_true(rows.rest.failed);
    }
    struct cql_rows least = { .columns = c, .rest = { .rest = STR("\x80\0\0\0") }, .left = 1 };
    assert_true(cql_rows_next(&least, cells));
    assert_true(cells[0].null);
    cql_columns_drop(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_come_back),
        cmocka_unit_test(other_values_come_back),
        cmocka_unit_test(a_getter_takes_only_its_types_at_their_size),
        cmocka_unit_test(a_tid_is_of_version_1_and_its_variant),
        cmocka_unit_test(an_address_is_text),
        cmocka_unit_test(rows_that_are_cut_end_with_a_failure),
        cmocka_unit_test(hostile_lengths_of_cells_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
