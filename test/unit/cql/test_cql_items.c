/* Goal: lists, sets, maps, tuples and user types are bound, and read back item by item; what is cut
 * or lies about its count fails. Method: as the cells', nested ones too. */
#include "../cmocka_all.h"
#include "cql/value.h"

#include <stdlib.h>
#include <string.h>

static struct cql_column column_of(str option)
{
    struct cql_column column = { .name = STR("c") };
    struct cursor at = { .rest = option };
    assert_true(cql_spec_take(&at, &column.spec));
    return column;
}

/* The one value that is bound, as a cell. */
static struct cql_cell cell_of(const struct cql_column *column, const struct cql_values *v)
{
    assert_int_equal(cql_values_status(v), ERR_OK);
    assert_int_equal(v->count, 1);
    return (struct cql_cell){ .column = column, .bytes = cql_value_at(v, 0) };
}

static void a_list_and_a_set_give_their_items(void **state)
{
    (void)state;
    static const str options[] = { STR_INIT("\0\x20\0\x9"), STR_INIT("\0\x22\0\x9") };
    for (size_t o = 0; o < COUNT_OF(options); o++) {
        struct cql_values v;
        cql_values_init(&v, 4096);
        struct cql_open open = cql_put_open(&v, true);
        for (int i = 0; i < 5; i++)
            cql_put_i32(&v, i);
        cql_put_close(&v, open, false);
        struct cql_column column = column_of(options[o]);
        struct cql_cell cell = cell_of(&column, &v), item;
        struct cql_items items;
        assert_true(cql_get_items(&cell, &items));
        assert_int_equal(items.left, 5);
        for (int i = 0; i < 5; i++) {
            int64_t n;
            assert_true(cql_items_next(&items, &item));
            assert_true(cql_get_i64(&item, &n));
            assert_int_equal(n, i);
        }
        assert_false(cql_items_next(&items, &item));
        assert_false(items.rest.failed);
        cql_values_fini(&v);
    }
}

/* {"a": [1, 2], "b": []} */
static void put_map_of_lists(struct cql_values *v)
{
    struct cql_open map = cql_put_open(v, true);
    cql_put_bytes(v, STR("a"));
    struct cql_open list = cql_put_open(v, true);
    cql_put_i64(v, 1);
    cql_put_i64(v, 2);
    cql_put_close(v, list, false);
    cql_put_bytes(v, STR("b"));
    list = cql_put_open(v, true);
    cql_put_close(v, list, false);
    cql_put_close(v, map, true);
}

static void a_map_gives_keys_and_values_in_turn(void **state)
{
    (void)state;
    struct cql_values v;
    cql_values_init(&v, 4096);
    put_map_of_lists(&v);
    struct cql_column column = column_of(STR("\0\x21\0\xd\0\x20\0\2"));
    struct cql_cell cell = cell_of(&column, &v), key, value, item;
    struct cql_items pairs, list;
    int64_t n = 0;
    assert_true(cql_get_items(&cell, &pairs));
    assert_int_equal(pairs.left, 4);
    assert_true(cql_items_next(&pairs, &key));
    assert_true(str_eq(key.bytes, STR("a")));
    assert_int_equal(key.column->spec.type, CQL_TEXT);
    assert_true(cql_items_next(&pairs, &value));
    assert_true(cql_get_items(&value, &list));
    assert_true(cql_items_next(&list, &item) && cql_get_i64(&item, &n) && n == 1);
    assert_true(cql_items_next(&list, &item) && cql_get_i64(&item, &n) && n == 2);
    assert_false(cql_items_next(&list, &item));
    assert_true(cql_items_next(&pairs, &key));
    assert_true(str_eq(key.bytes, STR("b")));
    assert_true(cql_items_next(&pairs, &value));
    assert_true(cql_get_items(&value, &list));
    assert_false(cql_items_next(&list, &item));
    assert_false(cql_items_next(&pairs, &key));
    assert_false(pairs.rest.failed);
    cql_values_fini(&v);
}

static void a_tuple_gives_items_of_several_types_and_null_where_it_ends(void **state)
{
    (void)state;
    struct cql_values v;
    cql_values_init(&v, 4096);
    struct cql_open open = cql_put_open(&v, false);
    cql_put_i32(&v, 7);
    cql_put_null(&v);
    cql_put_close(&v, open, false);
    struct cql_column column = column_of(STR("\0\x31\0\3\0\x9\0\xd\0\x20\0\xd"));
    struct cql_cell cell = cell_of(&column, &v), item;
    struct cql_items items;
    int64_t n = 0;
    assert_true(cql_get_items(&cell, &items));
    assert_true(cql_items_next(&items, &item));
    assert_true(cql_get_i64(&item, &n) && n == 7);
    assert_true(cql_items_next(&items, &item));
    assert_true(item.null && item.column->spec.type == CQL_TEXT);
    assert_true(cql_items_next(&items, &item));
    assert_true(item.null && item.column->spec.type == CQL_LIST);
    assert_false(cql_items_next(&items, &item));
    assert_false(items.rest.failed);
    cql_values_fini(&v);
}

static void a_user_type_names_its_fields(void **state)
{
    (void)state;
    struct cql_column column = column_of(STR("\0\x30\0\1k\0\1u\0\2\0\3one\0\x9\0\3two\0\xd"));
    struct cql_cell cell = { .column = &column, .bytes = STR("\0\0\0\4\0\0\0\1\0\0\0\1x") }, item;
    struct cql_items items;
    assert_true(cql_get_items(&cell, &items));
    assert_true(cql_items_next(&items, &item));
    assert_true(str_eq(item.column->name, STR("one")));
    assert_true(cql_items_next(&items, &item));
    assert_true(str_eq(item.column->name, STR("two")));
    assert_true(str_eq(item.bytes, STR("x")));
    assert_false(cql_items_next(&items, &item));
}

/* How many items a cell of those bytes gives; -1: it fails, at once or on the way. */
static int walk(const struct cql_column *column, str bytes)
{
    struct cql_cell cell = { .column = column, .bytes = bytes }, item;
    struct cql_items items;
    int count = 0;
    if (!cql_get_items(&cell, &items))
        return -1;
    while (cql_items_next(&items, &item))
        count++;
    return items.rest.failed ? -1 : count;
}

static void what_is_cut_fails(void **state)
{
    (void)state;
    struct cql_values v;
    cql_values_init(&v, 4096);
    put_map_of_lists(&v);
    struct cql_column column = column_of(STR("\0\x21\0\xd\0\x20\0\2"));
    str whole = cql_value_at(&v, 0);
    assert_int_equal(walk(&column, whole), 4);
    for (size_t n = 0; n < whole.n; n++) {
        char *p = malloc(n == 0 ? 1 : n);
        assert_non_null(p);
        memcpy(p, whole.p, n);
        assert_int_equal(walk(&column, (str){ .p = p, .n = n }), -1);
        free(p);
    }
    cql_values_fini(&v);
}

static void a_count_that_lies_fails(void **state)
{
    (void)state;
    struct cql_column list = column_of(STR("\0\x20\0\x9"));
    struct cql_column map = column_of(STR("\0\x21\0\x9\0\x9"));
    struct cql_column tuple = column_of(STR("\0\x31\0\1\0\x9"));
    struct cql_column plain = column_of(STR("\0\x9"));
    assert_int_equal(walk(&list, STR("\0\0\0\0")), 0);
    assert_int_equal(walk(&list, STR("\0\0\0\1")), -1);
    assert_int_equal(walk(&list, STR("\x7f\xff\xff\xff\0\0\0\0")), -1);
    assert_int_equal(walk(&list, STR("\xff\xff\xff\xff\0\0\0\0")), -1);
    assert_int_equal(walk(&list, STR("\0\0\0\1\xff\xff\xff\xff")), 1);
    assert_int_equal(walk(&list, STR("\0\0\0\1\x7f\xff\xff\xff")), -1);
    assert_int_equal(walk(&map, STR("\0\0\0\1\0\0\0\0")), -1);
    assert_int_equal(walk(&map, STR("\x80\0\0\0\0\0\0\0\0\0\0\0")), -1);
    assert_int_equal(walk(&tuple, STR("\0")), -1);
    assert_int_equal(walk(&tuple, STR("")), 1);
    assert_int_equal(walk(&plain, STR("\0\0\0\0")), -1);
    /* the bytes hold one pair, not two: seen before the first is given */
    struct cql_cell cell = { .column = &map, .bytes = STR("\0\0\0\2\0\0\0\0\0\0\0\0") };
    struct cql_items items;
    assert_false(cql_get_items(&cell, &items));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_and_a_set_give_their_items),
        cmocka_unit_test(a_map_gives_keys_and_values_in_turn),
        cmocka_unit_test(a_tuple_gives_items_of_several_types_and_null_where_it_ends),
        cmocka_unit_test(a_user_type_names_its_fields),
        cmocka_unit_test(what_is_cut_fails),
        cmocka_unit_test(a_count_that_lies_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
