/* Goal: rows read and write what they name, and pass over what a type does not have. Method: a
 * struct, and messages of three types. */
#include "codec/wire_map.h"

#include "../cmocka_all.h"
#include "lib/memory.h"

struct role {
    str id, space, name;
    const str *permissions;
    unsigned permissions_count;
    store_time created_at, expires_at;
};
static const struct wire_row rows[] = {
    { "id", offsetof(struct role, id), WIRE_TEXT, 0 },
    { "namespace", offsetof(struct role, space), WIRE_TEXT, 0 },
    { "name", offsetof(struct role, name), WIRE_TEXT, 0 },
    { "permissions", offsetof(struct role, permissions), WIRE_TEXTS,
      offsetof(struct role, permissions_count) },
    { "created_at", offsetof(struct role, created_at), WIRE_TIME_OUT, 0 },
    { "expires_at", offsetof(struct role, expires_at), WIRE_INSTANT, 0 },
    { NULL, sizeof(struct role), WIRE_TEXT, 0 },
};

static void a_struct_comes_back_as_it_was_written(void **state)
{
    (void)state;
    const str permissions[] = { STR("page.read"), STR("page.write") };
    const struct role written = { STR("1"), STR("wiki"),  STR("editor"),   permissions,
                                  2,        { NS_PER_S }, STORE_TIME_NEVER };
    struct role read = { .name = STR("") };
    Wire__Role m = WIRE__ROLE__INIT;
    assert_int_equal(wire_map_write(&memory, rows, &written, &m.base), ERR_OK);
    assert_int_equal(m.n_permissions, 2);
    assert_int_equal(wire_time_read(m.created_at).ns, NS_PER_S);
    assert_int_equal(wire_map_read(&memory, &m.base, rows, &read), ERR_OK);
    assert_true(str_eq(read.id, STR("1")) && str_eq(read.space, STR("wiki")));
    assert_true(str_eq(read.name, STR("editor")));
    assert_int_equal(read.permissions_count, 2);
    assert_true(str_eq(read.permissions[1], STR("page.write")));
    assert_int_equal(wire_map_size(rows), sizeof read);
    assert_int_equal(read.created_at.ns, 0); /* a client has nothing to say of it */
}

static void an_instant_is_there_or_never(void **state)
{
    (void)state;
    struct role key = { .expires_at = { 5 * NS_PER_S } };
    Wire__APIKeyMetadata m = WIRE__APIKEY_METADATA__INIT, none = m;
    assert_int_equal(wire_map_write(&memory, rows, &key, &m.base), ERR_OK);
    assert_non_null(m.expires_at);
    key.expires_at = STORE_TIME_NEVER;
    assert_int_equal(wire_map_read(&memory, &m.base, rows, &key), ERR_OK);
    assert_int_equal(key.expires_at.ns, 5 * NS_PER_S);
    assert_int_equal(wire_map_read(&memory, &none.base, rows, &key), ERR_OK);
    assert_int_equal(key.expires_at.ns, STORE_TIME_NEVER.ns);
    assert_int_equal(wire_map_write(&memory, rows, &key, &none.base), ERR_OK);
    assert_null(none.expires_at);
}

static void a_full_arena_is_told(void **state)
{
    (void)state;
    struct arena small;
    const str permissions[] = { STR("page.read") };
    struct role role = { .permissions = permissions, .permissions_count = 1 };
    Wire__Role m = WIRE__ROLE__INIT;
    ProtobufCBinaryData one = wire_bytes(STR("page.read"));
    arena_init(&small, 1);
    assert_int_equal(wire_map_write(&small, rows, &role, &m.base), ERR_LIMIT);
    m.n_permissions = 1;
    m.permissions = &one;
    assert_int_equal(wire_map_read(&small, &m.base, rows, &role), ERR_LIMIT);
    arena_fini(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_struct_comes_back_as_it_was_written, memory_setup,
                                        memory_teardown),
        cmocka_unit_test_setup_teardown(an_instant_is_there_or_never, memory_setup,
                                        memory_teardown),
        cmocka_unit_test(a_full_arena_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
