/* Goal: lists come in order of name or id, from a pivot that is included and need not exist, no
 * further than asked. Method: many rows of each kind; pages of them beside the whole. */
#include "authtest.h"

#include "../bucket/engine_mem.h"
#include "../cmocka_all.h"
#include "auth/authority.h"

#include <stdio.h>
#include <string.h>

enum { ROWS = 40 };

static struct auth_page page_of(str pivot, unsigned limit)
{
    return (struct auth_page){ .pivot = pivot, .limit = limit };
}

static err bindings_of(struct authtest *f, str space, str user, const struct auth_page *page,
                       struct auth_binding_list *out, struct arena *a)
{
    *out = (struct auth_binding_list){ .space = space, .user_id = user, .page = page };
    return auth_binding_list(f->auth, out, a);
}

static void namespaces_are_paged_by_name(void **state)
{
    struct authtest *f = *state;
    struct err_note note;
    struct arena a;
    struct auth_space *all, *some;
    unsigned count;
    char name[20];
    static char description[AUTH_TEXT_BYTES_MAX];
    memset(description, 'd', sizeof description);
    arena_init(&a, 1u << 20);
    for (unsigned i = 0; i < ROWS; i++) {
        assert_true(snprintf(name, sizeof name, "ns%02u", i * 2) > 0);
        struct auth_space s = { .name = str_of(name),
                                .tag = STR("t"),
                                .description = { .p = description,
                                                 .n = i == 3 ? sizeof description : i } };
        assert_int_equal(auth_space_create(f->auth, &s, &note), ERR_OK);
        f->clock.now_ns += NS_PER_S;
    }
    struct auth_page page = page_of(STR(""), 0);
    assert_int_equal(auth_space_list(f->auth, &page, &a, &all, &count), ERR_OK);
    assert_int_equal(count, ROWS + 1);
    assert_true(str_eq(all[0].name, STR(AUTH_SYSTEM)));
    assert_true(str_eq(all[4].name, STR("ns06")));
    assert_true(str_eq(all[4].tag, STR("t")));
    assert_int_equal(all[4].description.n, sizeof description);
    assert_memory_equal(all[4].description.p, description, sizeof description);
    assert_int_equal(all[5].description.n, 4);
    assert_int_equal(all[5].created_at.ns - all[4].created_at.ns, NS_PER_S);
    page = page_of(STR("ns06"), 2);
    assert_int_equal(auth_space_list(f->auth, &page, &a, &some, &count), ERR_OK);
    assert_int_equal(count, 2);
    assert_true(str_eq(some[0].name, STR("ns06")) && str_eq(some[1].name, STR("ns08")));
    page = page_of(STR("ns07"), 1);
    assert_int_equal(auth_space_list(f->auth, &page, &a, &some, &count), ERR_OK);
    assert_true(count == 1 && str_eq(some[0].name, STR("ns08")));
    page = page_of(STR("ns06\0z"), 1); /* behind ns06, before ns08 */
    assert_int_equal(auth_space_list(f->auth, &page, &a, &some, &count), ERR_OK);
    assert_true(count == 1 && str_eq(some[0].name, STR("ns08")));
    page = page_of(STR("zzz"), 10);
    assert_int_equal(auth_space_list(f->auth, &page, &a, &some, &count), ERR_OK);
    assert_int_equal(count, 0);
    static char pivot[2000];
    memset(pivot, 0, sizeof pivot);
    page = page_of((str){ .p = pivot, .n = sizeof pivot }, 1);
    assert_int_equal(auth_space_list(f->auth, &page, &a, &some, &count), ERR_OK);
    assert_true(count == 1 && str_eq(some[0].name, STR(AUTH_SYSTEM)));
    memset(pivot, 'z', sizeof pivot);
    assert_int_equal(auth_space_list(f->auth, &page, &a, &some, &count), ERR_OK);
    assert_int_equal(count, 0);
    assert_int_equal(auth_space_update(f->auth, &(struct auth_space){ .name = STR("ns06") }, &note),
                     ERR_OK);
    page = page_of(STR("ns06"), 1);
    assert_int_equal(auth_space_list(f->auth, &page, &a, &some, &count), ERR_OK);
    assert_true(some[0].description.n == 0 && some[0].tag.n == 0);
    assert_int_equal(some[0].created_at.ns,
                     all[4].created_at.ns); /* an update does not make it younger */
    arena_fini(&a);
}

static void users_and_keys_are_paged_by_id(void **state)
{
    struct authtest *f = *state;
    struct err_note note;
    struct arena a;
    struct auth_user *users, *some;
    struct auth_apikey *keys, *some_keys;
    unsigned count;
    char name[20], ids[ROWS][AUTH_ID_BYTES + 1];
    arena_init(&a, 1u << 20);
    for (unsigned i = 0; i < ROWS; i++) {
        assert_true(snprintf(name, sizeof name, "user%u", i) > 0);
        struct auth_user u = { .name = str_of(name),
                               .email = STR("e@x"),
                               .external_id = STR("ext") };
        assert_int_equal(auth_user_create(f->auth, &u, ids[i], &note), ERR_OK);
        struct auth_apikey k = { .user_id = str_of(ids[i / 2]),
                                 .name = str_of(name),
                                 .scope = STR("ns"),
                                 .expires_at = { .ns = f->clock.now_ns + 7 } };
        struct auth_secret s;
        assert_int_equal(auth_apikey_create(f->auth, &k, &s, &note), ERR_OK);
        f->clock.now_ns += NS_PER_S; /* ids of one second are in no order */
    }
    struct auth_page page = page_of(STR(""), 0);
    assert_int_equal(auth_user_list(f->auth, &page, &a, &users, &count), ERR_OK);
    assert_int_equal(count, ROWS + 1); /* and anonymous */
    for (unsigned i = 0; i < ROWS; i++)
        assert_string_equal(arena_cstr(&a, users[i].id), ids[i]);
    assert_true(str_eq(users[ROWS].id, STR(AUTH_ANONYMOUS)) &&
                str_eq(users[ROWS].name, STR(AUTH_ANONYMOUS)));
    assert_true(str_eq(users[5].name, STR("user5")) && str_eq(users[5].email, STR("e@x")));
    assert_true(str_eq(users[5].external_id, STR("ext")));
    assert_int_equal(users[5].created_at.ns, users[5].updated_at.ns);
    page = page_of(users[2].id, 3);
    assert_int_equal(auth_user_list(f->auth, &page, &a, &some, &count), ERR_OK);
    assert_true(count == 3 && str_eq(some[0].id, users[2].id) && str_eq(some[2].id, users[4].id));

    page = page_of(STR(""), 0);
    assert_int_equal(auth_apikey_list(f->auth, STR(""), &page, &a, &keys, &count), ERR_OK);
    assert_int_equal(count, ROWS);
    assert_true(str_eq(keys[6].name, STR("user6")) && str_eq(keys[6].user_id, str_of(ids[3])));
    assert_true(str_eq(keys[6].scope, STR("ns")) && str_starts(keys[6].prefix, STR("qtr-live-")));
    assert_int_equal(keys[6].expires_at.ns, keys[6].created_at.ns + 7);
    page = page_of(keys[6].id, 2);
    assert_int_equal(auth_apikey_list(f->auth, STR(""), &page, &a, &some_keys, &count), ERR_OK);
    assert_true(count == 2 && str_eq(some_keys[0].id, keys[6].id) &&
                str_eq(some_keys[1].id, keys[7].id));
    assert_int_equal(auth_apikey_list(f->auth, str_of(ids[3]), &page, &a, &some_keys, &count),
                     ERR_OK);
    assert_true(count == 2 && str_eq(some_keys[1].id, keys[7].id));
    page = page_of(keys[7].id, 9);
    assert_int_equal(auth_apikey_list(f->auth, str_of(ids[3]), &page, &a, &some_keys, &count),
                     ERR_OK);
    assert_int_equal(count, 1);
    assert_int_equal(auth_apikey_list(f->auth, str_of(ids[30]), &page, &a, &some_keys, &count),
                     ERR_OK);
    assert_int_equal(count, 0);
    arena_fini(&a);
}

static void roles_and_bindings_are_those_of_one_namespace(void **state)
{
    struct authtest *f = *state;
    struct err_note note;
    struct arena a;
    struct auth_role *roles;
    struct auth_binding_list bindings, some;
    unsigned count;
    char users[2][AUTH_ID_BYTES + 1], id[AUTH_ID_BYTES + 1], name[20];
    static const str permissions[] = { STR_INIT("page.read"), STR_INIT("queue.list"),
                                       STR_INIT("queue.list") };
    arena_init(&a, 1u << 20);
    assert_int_equal(auth_space_create(f->auth, &(struct auth_space){ .name = STR("ns") }, &note),
                     ERR_OK);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(snprintf(name, sizeof name, "user%u", i) > 0);
        struct auth_user u = { .name = str_of(name) };
        assert_int_equal(auth_user_create(f->auth, &u, users[i], &note), ERR_OK);
    }
    for (unsigned i = 0; i < ROWS; i++) {
        assert_true(snprintf(name, sizeof name, "role%u", i) > 0);
        struct auth_role r = { .space = STR("ns"),
                               .name = str_of(name),
                               .permissions = permissions,
                               .permissions_count = COUNT_OF(permissions) };
        assert_int_equal(auth_role_create(f->auth, &r, id, &note), ERR_OK);
        struct auth_binding_new n = { .space = STR("ns"),
                                      .role_name = str_of(name),
                                      .user_id = str_of(users[i % 2]) };
        assert_int_equal(auth_binding_create(f->auth, &n, id, &note), ERR_OK);
        f->clock.now_ns += NS_PER_S;
    }
    struct auth_page page = page_of(STR(""), 0);
    assert_int_equal(auth_role_list(f->auth, STR("ns"), &page, &a, &roles, &count), ERR_OK);
    assert_int_equal(count, ROWS);
    assert_true(str_eq(roles[4].name, STR("role4")) && str_eq(roles[4].space, STR("ns")));
    assert_int_equal(roles[4].permissions_count, 2);
    assert_true(str_eq(roles[4].permissions[0], STR("queue.list")));
    assert_true(str_eq(roles[4].permissions[1], STR("page.read")));
    assert_int_equal(bindings_of(f, STR("ns"), STR(""), &page, &bindings, &a), ERR_OK);
    assert_int_equal(bindings.count, ROWS);
    assert_true(str_eq(bindings.bindings[4].role_id, roles[4].id) &&
                str_eq(bindings.bindings[4].user_id, str_of(users[0])));
    assert_int_equal(bindings.bindings[4].created_at.ns, roles[4].created_at.ns);
    page = page_of(bindings.bindings[4].id, 3);
    assert_int_equal(bindings_of(f, STR("ns"), STR(""), &page, &some, &a), ERR_OK);
    assert_true(some.count == 3 && str_eq(some.bindings[0].id, bindings.bindings[4].id) &&
                str_eq(some.bindings[2].id, bindings.bindings[6].id));
    assert_int_equal(bindings_of(f, STR("ns"), str_of(users[1]), &page, &some, &a), ERR_OK);
    assert_true(some.count == 3 && str_eq(some.bindings[0].id, bindings.bindings[5].id) &&
                str_eq(some.bindings[2].id, bindings.bindings[9].id));
    page = page_of(STR(""), 0);
    assert_int_equal(auth_role_list(f->auth, STR("other"), &page, &a, &roles, &count), ERR_OK);
    assert_int_equal(count, 0);
    arena_fini(&a);
}

static void the_standard_roles_are_shown_with_what_querator_knows(void **state)
{
    static const struct {
        const char *name;
        unsigned permissions;
    } want[] = {
        { "Admin", 29 },
        { "NamespaceOwner", 19 },
        { "PublicViewer", 2 },
        { "purge", 2 },
    };
    struct authtest *f = *state;
    struct arena a;
    struct auth_role *roles;
    struct auth_binding_list bindings;
    unsigned count, found = 0;
    str admin = STR_NONE;
    struct auth_page page = page_of(STR(""), 0);
    arena_init(&a, 1u << 20);
    assert_int_equal(auth_role_list(f->auth, STR(""), &page, &a, &roles, &count), ERR_OK);
    assert_int_equal(count, 7);
    for (unsigned i = 0; i < count; i++)
        for (unsigned w = 0; w < COUNT_OF(want); w++)
            if (str_eq(roles[i].name, str_of(want[w].name))) {
                assert_int_equal(roles[i].permissions_count, want[w].permissions);
                admin = w == 0 ? roles[i].id : admin;
                found++;
            }
    assert_int_equal(found, COUNT_OF(want));
    assert_int_equal(bindings_of(f, STR(""), STR(""), &page, &bindings, &a), ERR_OK);
    assert_int_equal(bindings.count, 1);
    assert_true(str_eq(bindings.bindings[0].user_id, STR(AUTH_ANONYMOUS)) &&
                str_eq(bindings.bindings[0].role_id, admin));
    struct auth_role *again;
    authtest_restart(f, true);
    assert_int_equal(auth_role_list(f->auth, STR(""), &page, &a, &again, &count), ERR_OK);
    assert_int_equal(count, 7);
    for (unsigned i = 0; i < count; i++)
        assert_true(str_eq(again[i].id, roles[i].id));
    arena_fini(&a);
}

static void a_list_that_finds_no_room_fails(void **state)
{
    struct authtest *f = *state;
    struct arena a;
    struct auth_role *roles = NULL;
    unsigned count = 5;
    struct auth_page page = page_of(STR(""), 0);
    arena_init(&a, 100);
    assert_int_equal(auth_role_list(f->auth, STR(""), &page, &a, &roles, &count), ERR_LIMIT);
    assert_true(roles == NULL && count == 5);
    arena_fini(&a);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, authtest_up, authtest_down)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(namespaces_are_paged_by_name),
        TEST(users_and_keys_are_paged_by_id),
        TEST(roles_and_bindings_are_those_of_one_namespace),
        TEST(the_standard_roles_are_shown_with_what_querator_knows),
        TEST(a_list_that_finds_no_room_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
