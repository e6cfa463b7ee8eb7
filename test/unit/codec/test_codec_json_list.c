/* Goal: a listing is JSON whatever is in it, and one that does not fit is none. Method: listings,
 * and their text. */
#include "codec/json_list.h"

#include "../cmocka_all.h"
#include "lib/memory.h"

static void text_is(str text, const char *want)
{
    assert_non_null(text.p);
    assert_string_equal(text.p, want);
    assert_int_equal(text.n, str_of(want).n);
}

static void an_empty_listing_says_nothing_more(void **state)
{
    (void)state;
    struct json_list l;
    json_list_init(&l, 100);
    text_is(json_list_end(&l, &memory, STR_NONE, JSON_LIST_LINKS), "{\"items\":[]}");
    json_list_init(&l, 100);
    text_is(json_list_end(&l, &memory, STR_NONE, JSON_LIST_LINE), "{\"items\":[]}\n");
}

static void items_and_damaged_rows_stand_apart_in_their_orders(void **state)
{
    (void)state;
    struct json_list l;
    json_list_init(&l, 100);
    buf_put_c(json_list_item(&l), '1');
    buf_put(json_list_damaged(&l), STR("{}"));
    buf_put_c(json_list_item(&l), '2');
    buf_put(json_list_damaged(&l), STR("3"));
    assert_int_equal(l.count, 2);
    assert_int_equal(l.damaged_count, 2);
    text_is(json_list_end(&l, &memory, STR_NONE, JSON_LIST_PLAIN),
            "{\"items\":[1,2],\"damaged\":[{},3]}");
}

static void the_token_is_told_in_one_shape_or_in_two(void **state)
{
    (void)state;
    struct json_list l;
    json_list_init(&l, 100);
    text_is(json_list_end(&l, &memory, STR("\xff\xfe"), JSON_LIST_PLAIN),
            "{\"items\":[],\"next\":\"__4\"}");
    json_list_init(&l, 100);
    text_is(json_list_end(&l, &memory, STR("\xff\xfe"), JSON_LIST_LINKS),
            "{\"items\":[],\"next\":\"__4\",\"_links\":{\"next\":{\"href\":\"?page=__4\"}}}");
}

static void what_does_not_fit_is_no_listing(void **state)
{
    (void)state;
    struct json_list l;
    json_list_init(&l, 20);
    buf_put(json_list_damaged(&l), STR("\"more than twenty bytes\""));
    assert_null(json_list_end(&l, &memory, STR_NONE, JSON_LIST_PLAIN).p);
    json_list_init(&l, 12);
    buf_put(json_list_item(&l), STR("12"));
    assert_null(json_list_end(&l, &memory, STR_NONE, JSON_LIST_PLAIN).p);
    json_list_init(&l, 20);
    json_list_fini(&l);
    struct arena small;
    arena_init(&small, 1);
    json_list_init(&l, 100);
    assert_null(json_list_end(&l, &small, STR("token"), JSON_LIST_PLAIN).p);
    arena_fini(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_empty_listing_says_nothing_more, memory_setup,
                                        memory_teardown),
        cmocka_unit_test_setup_teardown(items_and_damaged_rows_stand_apart_in_their_orders,
                                        memory_setup, memory_teardown),
        cmocka_unit_test_setup_teardown(the_token_is_told_in_one_shape_or_in_two, memory_setup,
                                        memory_teardown),
        cmocka_unit_test_setup_teardown(what_does_not_fit_is_no_listing, memory_setup,
                                        memory_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
