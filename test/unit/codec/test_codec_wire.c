/* Goal: what a client may write in JSON and protobuf and what not; zero times; limits. Method:
 * small bodies; the meaning of all types is compared with Google's library in test_wire.py. */
#include "codec/wire.h"

#include <string.h>

#include "../cmocka_all.h"

struct fixture {
    struct arena a;
    struct err_note note;
};

static int set_up(void **state)
{
    static struct fixture f; /* one test at a time */
    f = (struct fixture){ .note = { "" } };
    arena_init(&f.a, 1 << 20);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    arena_fini(&((struct fixture *)*state)->a);
    return 0;
}

static const Wire__QueueProduceRequest *produce(struct fixture *f, str json)
{
    ProtobufCMessage *m = NULL;
    if (wire_decode(&f->a, &wire__queue_produce_request__descriptor, WIRE_JSON, json, &m,
                    &f->note) != ERR_OK)
        fail_msg("%.*s: %s", STR_ARG(json), f->note.text);
    return (const Wire__QueueProduceRequest *)m;
}

static void either_name_is_read(void **state)
{
    const Wire__QueueProduceRequest *m =
        produce(*state, STR("{\"queue_name\":\"a\",\"requestTimeout\":\"1m\"}"));
    assert_true(str_eq(wire_str(m->queue_name), STR("a")));
    assert_true(str_eq(wire_str(m->request_timeout), STR("1m")));
}

static void fields_are_found_and_filled_by_name(void **state)
{
    struct fixture *f = *state;
    Wire__QueueProduceRequest m = WIRE__QUEUE_PRODUCE_REQUEST__INIT;
    assert_ptr_equal(wire_field(&m.base, "request_timeout"), &m.request_timeout);
    assert_null(wire_field(&m.base, "partition"));
    Wire__QueueProduceItem *items = wire_list(&f->a, &m.base, "items", 3);
    assert_non_null(items);
    assert_int_equal(m.n_items, 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_ptr_equal(m.items[i], &items[i]);
        assert_ptr_equal(items[i].base.descriptor, &wire__queue_produce_item__descriptor);
    }
    assert_true(str_eq(wire_str(wire_number(&f->a, UINT64_MAX)), STR("18446744073709551615")));
    assert_true(str_eq(wire_str(wire_duration(&f->a, 90 * NS_PER_S)), STR("1m30s")));
    assert_int_equal(wire_id(&f->a, KSUID_NIL).len, KSUID_TEXT_BYTES);
    assert_null(wire_list(&f->a, &m.base, "items", 1 << 20));
    assert_int_equal(m.n_items, 3);
    static const char text[64];
    while (arena_alloc(&f->a, sizeof text) != NULL)
        continue;
    assert_null(wire_copy(&f->a, (str){ .p = text, .n = sizeof text }).data);
}

static void nul_and_pairs_survive_in_texts(void **state)
{
    const Wire__QueueProduceRequest *m =
        produce(*state,
                STR(" { \"items\" : [ {\"utf8\":\"a\\u0000b\\ud83d\\ude00\\/\\n\"} , {} ] } \r\n"));
    assert_int_equal(m->n_items, 2);
    assert_true(str_eq(wire_str(m->items[0]->utf8), STR("a\0b\xf0\x9f\x98\x80/\n")));
    assert_int_equal(m->items[1]->utf8.len, 0);
}

static void null_is_as_absent(void **state)
{
    const Wire__QueueProduceRequest *m =
        produce(*state, STR("{\"queue_name\":null,\"items\":null,\"request_timeout\":null}"));
    assert_int_equal(m->queue_name.len, 0);
    assert_int_equal(m->n_items, 0);
}

static void wrong_json_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        " ",
        "null",
        "[]",
        "1",
        "\"a\"",
        "{",
        "{\"queue_name\"}",
        "{\"queue_name\":}",
        "{\"queue_name\":\"a\",}",
        "{\"queue_name\":\"a\"}x",
        "{\"queue_name\":\"a\"}{}",
        "{\"queue_name\":1}",
        "{\"queue_name\":true}",
        "{\"queue_name\":\"a\",\"queue_name\":\"a\"}",
        "{\"queue_name\":\"a\",\"queueName\":null}",
        "{\"nope\":1}",
        "{\"Queue_name\":\"a\"}",
        "{\"items\":{}}",
        "{\"items\":[null]}",
        "{\"items\":[{}",
        "{\"items\":[{},]}",
        "{\"items\":[[]]}",
        "{\"queue_name\":\"\\x\"}",
        "{\"queue_name\":\"\\u12\"}",
        "{\"queue_name\":\"\\ud800\"}",
        "{\"queue_name\":\"\\udc00\"}",
        "{\"queue_name\":\"\\ud800\\u0041\"}",
        "{\"queue_name\":\"a",
        "{\"queue_name\":\"a\\",
        "{\"queue_name\":\"\n\"}",
        "{\"queue_name\":\"\xff\"}",
        "{\"items\":[{\"bytes\":\"A\"}]}",
        "{\"items\":[{\"bytes\":\"AA=\"}]}",
        "{\"items\":[{\"bytes\":\"A-+A\"}]}",
        "{\"items\":[{\"bytes\":\"AA==A\"}]}",
        "{\"items\":[{\"enqueue_at\":\"2026-01-01\"}]}",
        "{\"items\":[{\"enqueue_at\":\"2026-01-01T00:00:60Z\"}]}",
        "{\"items\":[{\"enqueue_at\":\"2026-01-01 00:00:00Z\"}]}",
        "{\"items\":[{\"enqueue_at\":\"0000-01-01T00:00:00Z\"}]}",
        "{\"items\":[{\"enqueue_at\":\"2026-01-01T00:00:00.1234567890Z\"}]}",
        "{\"items\":[{\"enqueue_at\":1}]}",
        "{\"items\":[{\"enqueue_at\":\"0001-01-01T00:00:00+00:01\"}]}",
        "{\"items\":[{\"enqueue_at\":\"\"}]}",
        "{/**/}",
        "{'queue_name':'a'}",
        "{\"queue_name\":\"a\" \"items\":[]}",
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        ProtobufCMessage *m = NULL;
        f->note.text[0] = '\0';
        if (wire_decode(&f->a, &wire__queue_produce_request__descriptor, WIRE_JSON, str_of(bad[i]),
                        &m, &f->note) != ERR_BAD)
            fail_msg("taken: %s", bad[i]);
        assert_null(m);
        assert_true(str_starts(str_of(f->note.text), STR("JSON")));
    }
}

static bool batch_size(struct fixture *f, const char *number, int32_t *out)
{
    ProtobufCMessage *m;
    str json = arena_printf(&f->a, "{\"batch_size\":%s}", number);
    if (wire_decode(&f->a, &wire__queue_lease_request__descriptor, WIRE_JSON, json, &m, &f->note) !=
        ERR_OK)
        return false;
    *out = ((const Wire__QueueLeaseRequest *)m)->batch_size;
    return true;
}

static void whole_numbers_may_be_quoted_and_have_exponents(void **state)
{
    static const struct {
        const char *text;
        int32_t value;
    } good[] = {
        { "0", 0 },
        { "-0", 0 },
        { "7", 7 },
        { "\"7\"", 7 },
        { "1.0", 1 },
        { "1e2", 100 },
        { "1.5E1", 15 },
        { "100e-2", 1 },
        { "2147483647", INT32_MAX },
        { "-2147483648", INT32_MIN },
        { "\"1e3\"", 1000 },
        { "0e99999999999999999999", 0 },
        { "0.000", 0 },
        { "10000000000000000000000000000e-27", 10 },
    };
    static const char *const bad[] = {
        "1.5",
        "2147483648",
        "-2147483649",
        "1e10",
        "1e99999999999",
        "01",
        "+1",
        ".5",
        "1.",
        "1e",
        "--1",
        "\"\"",
        "\" 1\"",
        "\"1 \"",
        "\"x\"",
        "true",
        "0x1",
        "1e-1",
        "100000000000000000000000000001e-28",
        "NaN",
        "Infinity",
        "[1]",
    };
    int32_t value = -1;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        if (!batch_size(*state, good[i].text, &value) || value != good[i].value)
            fail_msg("%s: %d", good[i].text, value);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (batch_size(*state, bad[i], &value))
            fail_msg("taken: %s as %d", bad[i], value);
}

static void the_deadline_of_what_is_not_leased_is_the_zero_time_of_go(void **state)
{
    struct fixture *f = *state;
    Wire__StorageItem item = WIRE__STORAGE_ITEM__INIT;
    str json, protobuf;
    ProtobufCMessage *m;
    item.lease_deadline = wire_time(&f->a, STORE_TIME_ZERO);
    assert_int_equal(wire_encode(&f->a, &item.base, WIRE_JSON, &json), ERR_OK);
    assert_true(str_eq(json, STR("{\"lease_deadline\":\"0001-01-01T00:00:00Z\"}")));
    assert_int_equal(wire_encode(&f->a, &item.base, WIRE_PROTOBUF, &protobuf), ERR_OK);
    assert_int_equal(
        wire_decode(&f->a, item.base.descriptor, WIRE_PROTOBUF, protobuf, &m, &f->note), ERR_OK);
    const Wire__Timestamp *t = ((const Wire__StorageItem *)m)->lease_deadline;
    assert_int_equal(t->seconds, INT64_C(-62135596800));
    assert_int_equal(wire_time_read(t).ns, 0);
    assert_int_equal(wire_time_read(NULL).ns, 0);
}

static void instants_outside_of_store_time_are_cut(void **state)
{
    (void)state;
    Wire__Timestamp t = WIRE__TIMESTAMP__INIT;
    t.seconds = INT64_C(253402300799);
    assert_int_equal(wire_time_read(&t).ns, INT64_MAX - 1);
    t.seconds = INT64_MIN;
    assert_int_equal(wire_time_read(&t).ns, INT64_MIN);
    t.seconds = 1;
    t.nanos = 5;
    assert_int_equal(wire_time_read(&t).ns, NS_PER_S + 5);
}

static void protobuf_is_checked_for_utf8_and_keeps_nul(void **state)
{
    struct fixture *f = *state;
    ProtobufCMessage *m = NULL;
    const ProtobufCMessageDescriptor *type = &wire__queue_complete_request__descriptor;
    assert_int_equal(wire_decode(&f->a, type, WIRE_PROTOBUF,
                                 STR("\x0a\x03"
                                     "a\0b"),
                                 &m, &f->note),
                     ERR_OK);
    assert_true(str_eq(wire_str(((const Wire__QueueCompleteRequest *)m)->queue_name), STR("a\0b")));
    assert_int_equal(wire_decode(&f->a, type, WIRE_PROTOBUF, STR("\x22\x01\xff"), &m, &f->note),
                     ERR_BAD);
    assert_string_equal(f->note.text, "protobuf: field ids is not UTF-8");
    assert_int_equal(wire_decode(&f->a, type, WIRE_PROTOBUF,
                                 STR("\x0a\x05"
                                     "a"),
                                 &m, &f->note),
                     ERR_BAD);
    assert_int_equal(wire_decode(&f->a, type, WIRE_PROTOBUF, STR(""), &m, &f->note), ERR_OK);
    assert_int_equal(wire_decode(&f->a, type, WIRE_PROTOBUF, STR("\xa2\x06\x01x\x0a\x01q"), &m,
                                 &f->note),
                     ERR_OK);
    assert_true(str_eq(wire_str(((const Wire__QueueCompleteRequest *)m)->queue_name), STR("q")));
    assert_int_equal(m->n_unknown_fields, 0);
}

static void protobuf_is_checked_for_instants_that_json_can_say(void **state)
{
    struct fixture *f = *state;
    static const struct {
        int64_t seconds;
        int32_t nanos;
        err want;
    } cases[] = {
        { INT64_C(-62135596800), 0, ERR_OK },
        { INT64_C(253402300799), 999999999, ERR_OK },
        { 0, 0, ERR_OK },
        { INT64_C(-62135596801), 0, ERR_BAD },
        { INT64_C(253402300800), 0, ERR_BAD },
        { INT64_MAX, 0, ERR_BAD },
        { INT64_MIN, 0, ERR_BAD },
        { 0, -1, ERR_BAD },
        { 0, 1000000000, ERR_BAD },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        Wire__Timestamp at = WIRE__TIMESTAMP__INIT;
        Wire__QueueProduceItem item = WIRE__QUEUE_PRODUCE_ITEM__INIT, *items = &item;
        Wire__QueueProduceRequest produce = WIRE__QUEUE_PRODUCE_REQUEST__INIT;
        ProtobufCMessage *m = NULL;
        str bytes;
        at.seconds = cases[i].seconds;
        at.nanos = cases[i].nanos;
        item.enqueue_at = &at;
        produce.items = &items;
        produce.n_items = 1;
        assert_int_equal(wire_encode(&f->a, &produce.base, WIRE_PROTOBUF, &bytes), ERR_OK);
        err why = wire_decode(&f->a, produce.base.descriptor, WIRE_PROTOBUF, bytes, &m, &f->note);
        assert_int_equal(why, cases[i].want);
        if (why != ERR_OK)
            assert_string_equal(f->note.text,
                                "protobuf: field enqueue_at is no instant of the years 1 to 9999");
    }
}

static void zero_is_not_written(void **state)
{
    struct fixture *f = *state;
    Wire__QueueLeaseResponse m = WIRE__QUEUE_LEASE_RESPONSE__INIT;
    str json;
    assert_int_equal(wire_encode(&f->a, &m.base, WIRE_JSON, &json), ERR_OK);
    assert_true(str_eq(json, STR("{}")));
    m.queue_name = wire_bytes(STR("q\x01\x7f"));
    m.partition = -3;
    assert_int_equal(wire_encode(&f->a, &m.base, WIRE_JSON, &json), ERR_OK);
    assert_true(str_eq(json, STR("{\"queue_name\":\"q\\u0001\\u007f\",\"partition\":-3}")));
}

static void a_full_arena_is_a_limit_not_an_error_of_the_body(void **state)
{
    struct fixture *f = *state;
    ProtobufCMessage *m = NULL;
    struct arena small;
    char body[4096];
    for (size_t i = 0; i + 1 < sizeof body; i += 2)
        memcpy(body + i, "\x1a\x00", 2); /* an empty item */
    arena_init(&small, 64 << 10);
    err why = wire_decode(&small, &wire__queue_produce_request__descriptor, WIRE_PROTOBUF,
                          (str){ .p = body, .n = sizeof body }, &m, &f->note);
    assert_int_equal(why, ERR_LIMIT);
    arena_fini(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fields_are_found_and_filled_by_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(either_name_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nul_and_pairs_survive_in_texts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(null_is_as_absent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_json_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(whole_numbers_may_be_quoted_and_have_exponents, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_deadline_of_what_is_not_leased_is_the_zero_time_of_go,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(instants_outside_of_store_time_are_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(protobuf_is_checked_for_utf8_and_keeps_nul, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(protobuf_is_checked_for_instants_that_json_can_say, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(zero_is_not_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_arena_is_a_limit_not_an_error_of_the_body, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
