/* Goal: nobody gives rights on content, keys, permissions or an open door who has not what they
 * bring where they count. Method: users with keys of several scopes give each other what there is;
 * what may be given is taken again. */
#include "authtest.h"

#include "../bucket/engine_mem.h"
#include "../cmocka_all.h"
#include "auth/authority.h"

#include <string.h>

static void assert_gives(struct authtest *f, const struct auth_secret *giver, const char *space,
                         const char *role, const char *user, err want)
{
    struct err_note note = { .text = "" };
    char id[AUTH_ID_BYTES + 1];
    str field = giver == NULL ? STR_NONE : authtest_bearer(giver->key);
    struct auth_binding_new n = authtest_binding(space, role, user);
    n.giver = &field;
    if (auth_binding_create(f->auth, &n, id, &note) != want)
        fail_msg("%s in %s: %s", role, space, note.text);
    if (want == ERR_OK)
        assert_int_equal(auth_binding_delete(f->auth, &n, &note), ERR_OK);
    else
        assert_memory_equal(note.text, "access denied; ", 15);
}

static void rights_on_content_are_given_by_who_has_them(void **state)
{
    struct authtest *f = *state;
    char owner[AUTH_ID_BYTES + 1], reader[AUTH_ID_BYTES + 1], user[AUTH_ID_BYTES + 1];
    authtest_lock(f);
    authtest_space(f, "en", "");
    authtest_role(f, AUTH_SYSTEM, "edit", "page.write");
    authtest_role(f, AUTH_SYSTEM, "keys", "apikey.create");
    memcpy(owner, authtest_user(f, "owner"), sizeof owner);
    memcpy(reader, authtest_user(f, "reader"), sizeof reader);
    memcpy(user, authtest_user(f, "user"), sizeof user);
    authtest_bind(f, AUTH_SYSTEM, "NamespaceOwner", owner);
    authtest_bind(f, AUTH_SYSTEM, "NamespaceOwner", reader);
    authtest_bind(f, "en", "read", reader);
    struct auth_secret as_owner = authtest_key(f, owner, "", ""),
                       as_reader = authtest_key(f, reader, "", "");
    static const char *const content[] = { "Admin", "admin", "read", "write", "purge", "edit" };
    for (size_t i = 0; i < COUNT_OF(content); i++) {
        assert_gives(f, &as_owner, "en", content[i], user, ERR_DENIED);
        assert_gives(f, &as_owner, AUTH_SYSTEM, content[i], user, ERR_DENIED);
        assert_gives(f, NULL, "en", content[i], user, ERR_DENIED);
        assert_gives(f, &as_reader, "en", content[i], user,
                     strcmp(content[i], "read") == 0 ? ERR_OK : ERR_DENIED);
    }
    assert_gives(f, &as_owner, "en", "NamespaceOwner", user, ERR_OK);
    assert_gives(f, &as_owner, "en", "keys", user, ERR_OK); /* asked for in `_system` alone */
    assert_gives(f, &as_owner, AUTH_SYSTEM, "NamespaceOwner", user, ERR_OK);
    assert_gives(f, &as_owner, AUTH_SYSTEM, "keys", user, ERR_DENIED);
    authtest_restart(f, false);
    assert_gives(f, NULL, "en", "Admin", user, ERR_OK); /* nothing is asked */
}

/* Asked for before the change, it would be another role: one of the namespace hides the one of
 * `_system`. */
static void the_role_that_is_bound_is_the_one_that_is_judged(void **state)
{
    struct authtest *f = *state;
    struct err_note note;
    char owner[AUTH_ID_BYTES + 1];
    authtest_lock(f);
    authtest_space(f, "en", "");
    authtest_role(f, AUTH_SYSTEM, "edit", "page.write");
    authtest_role(f, "en", "edit", "queue.list");
    memcpy(owner, authtest_user(f, "owner"), sizeof owner);
    authtest_bind(f, AUTH_SYSTEM, "NamespaceOwner", owner);
    struct auth_secret key = authtest_key(f, owner, "", "");
    assert_gives(f, &key, "en", "edit", owner, ERR_OK);
    assert_int_equal(auth_role_delete(f->auth, STR("en"), STR("edit"), &note), ERR_OK);
    assert_gives(f, &key, "en", "edit", owner, ERR_DENIED);
    assert_int_equal(authtest_ask_key(f, &key, "page.write", "en"), AUTH_FORBIDDEN);
    str gone = authtest_bearer(key.key);
    struct auth_binding_new n = authtest_binding("en", "PublicViewer", owner);
    n.giver = &gone;
    char id[AUTH_ID_BYTES + 1];
    assert_int_equal(auth_apikey_delete(f->auth, str_of(key.id), &note), ERR_OK);
    assert_int_equal(auth_binding_create(f->auth, &n, id, &note), ERR_DENIED);
    assert_string_equal(note.text, "api key does not exist");
}

static void a_key_of_one_namespace_gives_nothing_elsewhere(void **state)
{
    struct authtest *f = *state;
    struct err_note note;
    char root[AUTH_ID_BYTES + 1], user[AUTH_ID_BYTES + 1], secret[AUTH_KEY_BYTES_MAX + 1];
    authtest_lock(f);
    authtest_space(f, "ns", "");
    authtest_space(f, "en", "");
    memcpy(root, authtest_user(f, "root"), sizeof root);
    memcpy(user, authtest_user(f, "user"), sizeof user);
    authtest_bind(f, AUTH_SYSTEM, "Admin", root);
    struct auth_secret free_key = authtest_key(f, root, "", ""),
                       scoped = authtest_key(f, root, "ns", "");
    assert_gives(f, &scoped, "ns", "Admin", user, ERR_OK);
    assert_gives(f, &scoped, "en", "read", user, ERR_DENIED);
    assert_gives(f, &scoped, AUTH_SYSTEM, "read", user, ERR_DENIED);
    static const struct {
        const char *scope;
        err want;
    } keys[] = {
        { "", ERR_DENIED },
        { "en", ERR_DENIED },
        { "ns", ERR_OK },
        { AUTH_SYSTEM, ERR_OK },
    };
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        str field = authtest_bearer(scoped.key), scope = str_of(keys[i].scope);
        assert_int_equal(auth_may_give_key(f->auth, field, str_of(root), scope, &note),
                         keys[i].want);
        struct auth_key_new n = { .roles = { STR("write") },
                                  .roles_count = 1,
                                  .space = scope,
                                  .expires_at = STORE_TIME_NEVER,
                                  .giver = &field };
        struct auth_key made;
        err want =
            str_eq(scope, STR("ns")) ? ERR_OK : ERR_DENIED; /* one of `_system` has no scope */
        assert_int_equal(auth_key_create(f->auth, &n, &made, secret, &note), want);
        field = authtest_bearer(free_key.key);
        assert_int_equal(auth_may_give_key(f->auth, field, str_of(root), scope, &note), ERR_OK);
    }
    str some = STR("queue.list"), field = authtest_bearer(scoped.key);
    assert_int_equal(auth_may_give_permissions(f->auth, field, STR(""), &some, 1, &note),
                     ERR_DENIED);
    assert_string_equal(note.text,
                        "access denied; a key of 'ns' alone cannot give what counts elsewhere");
    assert_int_equal(auth_may_give_permissions(f->auth, field, STR(""), &some, 0, &note), ERR_OK);
    assert_int_equal(auth_may_open_door(f->auth, field, &note), ERR_DENIED);
    assert_int_equal(auth_may_open_door(f->auth, authtest_bearer(free_key.key), &note), ERR_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, authtest_up, authtest_down)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rights_on_content_are_given_by_who_has_them),
        TEST(the_role_that_is_bound_is_the_one_that_is_judged),
        TEST(a_key_of_one_namespace_gives_nothing_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
