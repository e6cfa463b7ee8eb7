/* Goal: namespaces, users, keys, roles and bindings change as Querator's tests pin it, refuse with
 * its sentences, and take along what belongs to them; what they give is in force at once, what they
 * take is gone at once. Method: tables of calls and sentences; the rows in the store are counted
 * after each round trip. */
#include "authtest.h"

#include "../bucket/engine_mem.h"
#include "../cmocka_all.h"
#include "auth/authority.h"
#include "auth/rows.h"
#include "base/ksuid.h"
#include "engine/store.h"

#include <stdio.h>
#include <string.h>

static char long_text[2100];

static str letters(size_t n)
{
    memset(long_text, 'a', sizeof long_text);
    assert_true(n <= sizeof long_text);
    return (str){ .p = long_text, .n = n };
}

static void assert_note(const struct err_note *note, const char *want)
{
    assert_string_equal(note->text, want);
}

static struct auth_role role_of(const char *space, const char *name, const str *permission)
{
    return (struct auth_role){ .space = str_of(space),
                               .name = str_of(name),
                               .permissions = permission,
                               .permissions_count = permission->n > 0 ? 1 : 0 };
}

/* ---- namespaces ---- */

static void names_of_namespaces_are_checked_in_order(void **state)
{
    static const struct {
        str name;
        const char *text;
    } rows[] = {
        { STR_INIT(""), "namespace name is invalid; cannot be empty" },
        { STR_INIT("   "), "namespace name is invalid; cannot be empty" },
        { STR_INIT("my namespace"),
          "namespace name is invalid; 'my namespace' cannot contain whitespace" },
        { STR_INIT("a ~:"), "namespace name is invalid; 'a ~:' cannot contain whitespace" },
        { STR_INIT("my~name:space"),
          "namespace name is invalid; 'my~name:space' cannot contain '~' character" },
        { STR_INIT("a:b"), "namespace name is invalid; 'a:b' cannot contain ':' character" },
        { STR_INIT("a\0b"), "namespace name is invalid; cannot contain control characters" },
        { STR_INIT("_mine"),
          "namespace name is reserved; '_mine' names starting with '_' are reserved" },
        { STR_INIT("_system"),
          "namespace name is reserved; '_system' names starting with '_' are reserved" },
    };
    struct authtest *f = *state;
    struct err_note note;
    uint64_t before = engine_mem_rows(f->engine, SPACE_AUTH);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct auth_space s = { .name = rows[i].name };
        assert_int_equal(auth_space_create(f->auth, &s, &note), ERR_BAD);
        assert_note(&note, rows[i].text);
        assert_int_equal(auth_space_update(f->auth, &s, &note), ERR_BAD);
        assert_note(&note, rows[i].text);
        assert_int_equal(auth_space_delete(f->auth, rows[i].name, false, &note), ERR_BAD);
        assert_note(&note, rows[i].text);
    }
    assert_int_equal(auth_space_create(f->auth, &(struct auth_space){ .name = STR("*") }, &note),
                     ERR_BAD);
    assert_note(&note, "namespace name is reserved; '*' stands for all domains");
    struct auth_key_new key = { .roles = { STR("Admin") }, .roles_count = 1, .space = STR("*") };
    struct authtest_made made;
    assert_int_equal(auth_key_create(f->auth, &key, &made.key, made.secret, &note), ERR_BAD);
    assert_note(&note, "namespace name is reserved; '*' stands for all domains");
    struct auth_space longest = { .name = letters(AUTH_NAME_BYTES_MAX + 1) };
    assert_int_equal(auth_space_create(f->auth, &longest, &note), ERR_BAD);
    assert_note(&note, "namespace name is invalid; cannot be greater than '256' characters");
    longest.name.n--;
    longest.tag = STR("UP");
    assert_int_equal(auth_space_create(f->auth, &longest, &note), ERR_BAD);
    assert_note(&note, "api_key_tag is invalid; must be lowercase alphanumeric only");
    longest.tag = STR("12345678901234567");
    assert_int_equal(auth_space_create(f->auth, &longest, &note), ERR_BAD);
    assert_note(&note, "api_key_tag is invalid; cannot be greater than 16 characters");
    assert_int_equal(engine_mem_rows(f->engine, SPACE_AUTH), before);
    longest.tag = STR("");
    assert_int_equal(auth_space_create(f->auth, &longest, &note), ERR_OK);
    assert_int_equal(auth_space_find(f->auth, longest.name, &note), ERR_OK);
}

static void a_namespace_comes_once_and_goes_when_nothing_needs_it(void **state)
{
    struct authtest *f = *state;
    struct err_note note;
    authtest_space(f, "first", "");
    authtest_role(f, "first", "any", "queue.list"); /* makes the row of the count */
    uint64_t rows = engine_mem_rows(f->engine, SPACE_AUTH);
    authtest_space(f, "ns", "");
    struct auth_space again = { .name = STR("ns") };
    assert_int_equal(auth_space_create(f->auth, &again, &note), ERR_CONFLICT);
    assert_note(&note, "namespace already exists; 'ns' already exists");
    authtest_role(f, "ns", "first", "queue.list");
    const char *user = authtest_user(f, "somebody");
    authtest_bind(f, "ns", "first", user);
    assert_int_equal(auth_space_delete(f->auth, STR("ns"), true, &note), ERR_CONFLICT);
    assert_note(&note,
                "namespace has role bindings; 'ns' has role bindings, delete role bindings first");
    struct auth_binding_new n = authtest_binding("ns", "first", user);
    assert_int_equal(auth_binding_delete(f->auth, &n, &note), ERR_OK);
    assert_int_equal(auth_space_delete(f->auth, STR("ns"), true, &note), ERR_CONFLICT);
    assert_note(&note, "namespace has roles; 'ns' has roles, delete roles first");
    assert_int_equal(auth_role_delete(f->auth, STR("ns"), STR("first"), &note), ERR_OK);
    assert_int_equal(auth_space_delete(f->auth, STR("ns"), true, &note), ERR_CONFLICT);
    assert_note(&note, "namespace has queues; 'ns' has queues, delete queues first");
    assert_int_equal(auth_space_delete(f->auth, STR("ns"), false, &note), ERR_OK);
    assert_int_equal(auth_space_find(f->auth, STR("ns"), &note), ERR_NOT_FOUND);
    assert_note(&note, "namespace does not exist; 'ns' was not found");
    assert_int_equal(auth_space_delete(f->auth, STR("ns"), false, &note), ERR_NOT_FOUND);
    assert_int_equal(auth_space_update(f->auth, &again, &note), ERR_NOT_FOUND);
    assert_note(&note, "namespace does not exist; 'ns' was not found");
    assert_int_equal(auth_user_delete(f->auth, str_of(user), &note), ERR_OK);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_AUTH), rows);
    assert_int_equal(auth_space_find(f->auth, STR(""), &note), ERR_OK); /* `_system` */
}

static void the_tag_of_a_key_is_asked_for_or_its_namespaces_or_live(void **state)
{
    struct authtest *f = *state;
    struct err_note note;
    char user[AUTH_ID_BYTES + 1];
    memcpy(user, authtest_user(f, "somebody"), sizeof user);
    authtest_space(f, "ns", "stg");
    assert_memory_equal(authtest_key(f, user, "ns", "ci").key, "qtr-ci-", 7);
    assert_memory_equal(authtest_key(f, user, "ns", "").key, "qtr-stg-", 8);
    assert_memory_equal(authtest_key(f, user, "", "").key, "qtr-live-", 9);
    assert_memory_equal(authtest_key(f, user, "nowhere", "").key, "qtr-live-", 9);
    assert_int_equal(auth_space_update(f->auth, &(struct auth_space){ .name = STR("ns") }, &note),
                     ERR_OK);
    assert_memory_equal(authtest_key(f, user, "ns", "").key, "qtr-live-",
                        9); /* an update without a tag clears it */
}

/* ---- users and keys ---- */

static void users_are_refused_with_the_contracts_words(void **state)
{
    struct authtest *f = *state;
    struct err_note note;
    char id[AUTH_ID_BYTES + 1];
    (void)authtest_user(f, "taken");
    const struct {
        struct auth_user u;
        err why;
        const char *text;
    } rows[] = {
        { { .name = STR("") }, ERR_BAD, "username is invalid; cannot be empty" },
        { { .name = STR(" \t") }, ERR_BAD, "username is invalid; cannot be empty" },
        { { .name = STR("a\nb") },
          ERR_BAD,
          "username is invalid; cannot contain control characters" },
        { { .name = letters(129) },
          ERR_BAD,
          "username is invalid; cannot be greater than '128' characters" },
        { { .name = STR("x"), .email = letters(257) },
          ERR_BAD,
          "email is invalid; cannot be greater than '256' characters" },
        { { .name = STR("x"), .external_id = letters(257) },
          ERR_BAD,
          "external_id is invalid; cannot be greater than '256' characters" },
        { { .name = STR("taken") },
          ERR_CONFLICT,
          "username is already taken; 'taken' is already taken" },
        { { .name = STR("anonymous") },
          ERR_CONFLICT,
          "username is already taken; 'anonymous' is already taken" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(auth_user_create(f->auth, &rows[i].u, id, &note), rows[i].why);
        assert_note(&note, rows[i].text);
    }
    assert_int_equal(auth_user_delete(f->auth, STR("nobody"), &note), ERR_NOT_FOUND);
    assert_note(&note, "user does not exist; 'nobody' was not found");
    assert_int_equal(auth_user_delete(f->auth, letters(2000), &note), ERR_NOT_FOUND);
    assert_int_equal(auth_user_delete(f->auth, STR(""), &note), ERR_NOT_FOUND);
    struct auth_user most = { .name = letters(128),
                              .email = letters(256),
                              .external_id = letters(256) };
    assert_int_equal(auth_user_create(f->auth, &most, id, &note), ERR_OK);
    struct ksuid k;
    assert_true(ksuid_parse(str_of(id), &k));
    assert_int_equal(k.seconds, (uint32_t)(f->clock.now_ns / NS_PER_S - KSUID_EPOCH_S));
}

static void keys_are_refused_with_the_contracts_words(void **state)
{
    struct authtest *f = *state;
    struct err_note note;
    struct auth_secret s;
    const char *user = authtest_user(f, "somebody");
    const struct {
        struct auth_apikey k;
        err why;
        const char *text;
    } rows[] = {
        { { .user_id = STR("") }, ERR_BAD, "user_id is invalid; cannot be empty" },
        { { .user_id = STR("nobody") },
          ERR_NOT_FOUND,
          "user does not exist; 'nobody' was not found" },
        { { .user_id = str_of(user), .tag = STR("PROD") },
          ERR_BAD,
          "key_tag is invalid; must be lowercase alphanumeric only" },
        { { .user_id = str_of(user), .tag = STR("thistagistoolong1") },
          ERR_BAD,
          "key_tag is invalid; cannot be greater than 16 characters" },
        { { .user_id = str_of(user), .name = letters(129) },
          ERR_BAD,
          "name is invalid; cannot be greater than '128' characters" },
        { { .user_id = str_of(user), .scope = STR("a b") },
          ERR_BAD,
          "namespace name is invalid; 'a b' cannot contain whitespace" },
    };
    uint64_t before = engine_mem_rows(f->engine, SPACE_AUTH);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(auth_apikey_create(f->auth, &rows[i].k, &s, &note), rows[i].why);
        assert_note(&note, rows[i].text);
    }
    assert_int_equal(auth_apikey_delete(f->auth, STR("nothing"), &note), ERR_NOT_FOUND);
    assert_note(&note, "api key does not exist");
    assert_int_equal(engine_mem_rows(f->engine, SPACE_AUTH), before);
}

static void a_key_goes_alone_and_a_user_takes_all_along(void **state)
{
    struct authtest *f = *state;
    struct err_note note;
    authtest_lock(f);
    authtest_space(f, "ns", "");
    authtest_role(f, "ns", "worker", "queue.lease");
    char user[AUTH_ID_BYTES + 1];
    memcpy(user, authtest_user(f, "first"), sizeof user); /* makes the rows of the counts */
    (void)authtest_key(f, user, "", "");
    uint64_t rows = engine_mem_rows(f->engine, SPACE_AUTH);
    memcpy(user, authtest_user(f, "second"), sizeof user);
    authtest_bind(f, "ns", "worker", user);
    authtest_bind(f, AUTH_SYSTEM, "PublicViewer", user);
    struct auth_secret a = authtest_key(f, user, "", ""), b = authtest_key(f, user, "ns", "");
    assert_int_equal(authtest_ask_key(f, &a, "queue.lease", "ns"), AUTH_FINE);
    assert_int_equal(authtest_ask_key(f, &b, "queue.lease", "ns"), AUTH_FINE);
    assert_int_equal(auth_apikey_delete(f->auth, str_of(a.id), &note), ERR_OK);
    assert_int_equal(authtest_ask_key(f, &a, "queue.lease", "ns"), AUTH_KEY_UNKNOWN);
    assert_int_equal(authtest_ask_key(f, &b, "queue.lease", "ns"), AUTH_FINE);
    assert_int_equal(auth_user_delete(f->auth, str_of(user), &note), ERR_OK);
    assert_int_equal(authtest_ask_key(f, &b, "queue.lease", "ns"), AUTH_KEY_UNKNOWN);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_AUTH), rows);
    assert_int_equal(auth_user_delete(f->auth, str_of(user), &note), ERR_NOT_FOUND);
    (void)authtest_user(f, "second"); /* the name is free again */
}

static void a_scope_limits_whatever_the_user_may(void **state)
{
    struct authtest *f = *state;
    authtest_lock(f);
    authtest_space(f, "ns", "");
    authtest_space(f, "other", "");
    char user[AUTH_ID_BYTES + 1];
    memcpy(user, authtest_user(f, "root"), sizeof user);
    authtest_bind(f, AUTH_SYSTEM, "Admin", user);
    struct auth_secret free_key = authtest_key(f, user, "", ""),
                       scoped = authtest_key(f, user, "ns", "");
    assert_int_equal(authtest_ask_key(f, &free_key, "queue.create", "other"), AUTH_FINE);
    assert_int_equal(authtest_ask_key(f, &scoped, "queue.create", "ns"), AUTH_FINE);
    assert_int_equal(authtest_ask_key(f, &scoped, "queue.create", "other"), AUTH_FORBIDDEN);
    assert_int_equal(authtest_ask_key(f, &scoped, "user.list", ""),
                     AUTH_FINE); /* what it may in `_system` itself */
    assert_int_equal(authtest_ask_key(f, &scoped, "page.purge", "ns"),
                     AUTH_FINE); /* one authority */
    assert_int_equal(authtest_ask_key(f, &scoped, NULL, ""), AUTH_FINE);
    assert_int_equal(authtest_ask(f, STR_NONE, NULL, STR("")), AUTH_FINE);
    assert_int_equal(authtest_ask(f, STR("Bearer x"), NULL, STR("")), AUTH_KEY_INVALID);
}

/* ---- roles and bindings ---- */

static void roles_are_refused_with_the_contracts_words(void **state)
{
    struct authtest *f = *state;
    struct err_note note;
    char id[AUTH_ID_BYTES + 1];
    static const str fine = STR_INIT("queue.list"), bogus = STR_INIT("bogus.perm"),
                     wild = STR_INIT("queue.*");
    authtest_space(f, "ns", "");
    authtest_role(f, "ns", "there", "queue.list");
    const struct {
        struct auth_role r;
        err create, update;
        const char *text;
    } rows[] = {
        { role_of("", "x", &fine), ERR_BAD, ERR_BAD, "namespace is invalid; cannot be empty" },
        { role_of("ns", "", &fine), ERR_BAD, ERR_BAD, "name is invalid; cannot be empty" },
        { role_of("ns", "a:b", &fine), ERR_BAD, ERR_BAD,
          "name is invalid; 'a:b' cannot contain ':' character" },
        { role_of("ns", "x", &bogus), ERR_BAD, ERR_BAD,
          "permission is invalid; 'bogus.perm' is not a recognized permission" },
        { role_of("ns", "x", &wild), ERR_BAD, ERR_BAD,
          "permission is invalid; 'queue.*' is not a recognized permission" },
        { role_of("ns", "Admin", &fine), ERR_BAD, ERR_BAD,
          "cannot modify or delete standard role; 'Admin' is a standard role" },
        { role_of("nowhere", "NamespaceOwner", &fine), ERR_BAD, ERR_BAD,
          "cannot modify or delete standard role; 'NamespaceOwner' is a standard role" },
        { role_of(AUTH_SYSTEM, "purge", &fine), ERR_BAD, ERR_BAD,
          "cannot modify or delete standard role; 'purge' is a standard role" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(auth_role_create(f->auth, &rows[i].r, id, &note), rows[i].create);
        assert_note(&note, rows[i].text);
        assert_int_equal(auth_role_update(f->auth, &rows[i].r, &note), rows[i].update);
        assert_note(&note, rows[i].text);
    }
    struct auth_role r = role_of("nowhere", "x", &fine);
    assert_int_equal(auth_role_create(f->auth, &r, id, &note), ERR_NOT_FOUND);
    assert_note(&note, "namespace does not exist; 'nowhere' was not found");
    assert_int_equal(auth_role_update(f->auth, &r, &note), ERR_NOT_FOUND);
    assert_note(&note, "role does not exist; 'nowhere:x' was not found");
    r = role_of("ns", "there", &fine);
    assert_int_equal(auth_role_create(f->auth, &r, id, &note), ERR_CONFLICT);
    assert_note(&note, "role already exists; 'ns:there' already exists");
    r.name = letters(129);
    assert_int_equal(auth_role_create(f->auth, &r, id, &note), ERR_BAD);
    assert_note(&note, "name is invalid; cannot be greater than '128' characters");
    assert_int_equal(auth_role_delete(f->auth, STR("ns"), STR("Admin"), &note), ERR_BAD);
    assert_note(&note, "cannot modify or delete standard role; 'Admin' is a standard role");
    assert_int_equal(auth_role_delete(f->auth, STR("ns"), letters(1000), &note), ERR_NOT_FOUND);
    assert_int_equal(auth_role_delete(f->auth, STR(""), STR("x"), &note), ERR_NOT_FOUND);
    assert_note(&note, "role does not exist; '_system:x' was not found");
}

static void an_update_of_a_role_is_in_force_at_once(void **state)
{
    struct authtest *f = *state;
    struct err_note note;
    authtest_lock(f);
    authtest_space(f, "ns", "");
    authtest_role(f, "ns", "worker", "queue.lease");
    char user[AUTH_ID_BYTES + 1];
    memcpy(user, authtest_user(f, "somebody"), sizeof user);
    authtest_bind(f, "ns", "worker", user);
    struct auth_secret key = authtest_key(f, user, "", "");
    assert_int_equal(authtest_ask_key(f, &key, "queue.lease", "ns"), AUTH_FINE);
    assert_int_equal(authtest_ask_key(f, &key, "queue.produce", "ns"), AUTH_FORBIDDEN);
    static const str two[] = { STR_INIT("queue.produce"), STR_INIT("page.write") };
    struct auth_role r = {
        .space = STR("ns"), .name = STR("worker"), .permissions = two, .permissions_count = 2
    };
    assert_int_equal(auth_role_update(f->auth, &r, &note), ERR_OK);
    assert_int_equal(authtest_ask_key(f, &key, "queue.lease", "ns"), AUTH_FORBIDDEN);
    assert_int_equal(authtest_ask_key(f, &key, "queue.produce", "ns"), AUTH_FINE);
    assert_int_equal(authtest_ask_key(f, &key, "page.write", "ns"), AUTH_FINE);
    assert_int_equal(auth_role_delete(f->auth, STR("ns"), STR("worker"), &note), ERR_CONFLICT);
    assert_note(&note,
                "role has active bindings; 'worker' has active bindings, delete bindings first");
    struct auth_binding_new n = authtest_binding("ns", "worker", user);
    assert_int_equal(auth_binding_delete(f->auth, &n, &note), ERR_OK);
    assert_int_equal(authtest_ask_key(f, &key, "queue.produce", "ns"), AUTH_FORBIDDEN);
    assert_int_equal(auth_role_delete(f->auth, STR("ns"), STR("worker"), &note), ERR_OK);
}

static void bindings_are_refused_with_the_contracts_words(void **state)
{
    struct authtest *f = *state;
    struct err_note note;
    char id[AUTH_ID_BYTES + 1], user[AUTH_ID_BYTES + 1];
    authtest_space(f, "ns", "");
    authtest_role(f, "ns", "worker", "queue.lease");
    memcpy(user, authtest_user(f, "somebody"), sizeof user);
    const struct {
        struct auth_binding_new n;
        err why;
        const char *text;
    } rows[] = {
        { authtest_binding("", "worker", user), ERR_BAD, "namespace is invalid; cannot be empty" },
        { authtest_binding("ns", "", user), ERR_BAD, "role_name is invalid; cannot be empty" },
        { authtest_binding("ns", "worker", ""), ERR_BAD, "user_id is invalid; cannot be empty" },
        { authtest_binding("ns", "worker", "a:b"), ERR_BAD,
          "user_id is invalid; 'a:b' cannot contain ':' character" },
        { authtest_binding("ns", "none", user), ERR_NOT_FOUND,
          "role does not exist; 'ns:none' was not found" },
        { authtest_binding("ns", "worker", "nobody"), ERR_NOT_FOUND,
          "user does not exist; 'nobody' was not found" },
        { authtest_binding("nowhere", "worker", user), ERR_NOT_FOUND,
          "namespace does not exist; 'nowhere' was not found" },
        { authtest_binding("nowhere", "read", user), ERR_NOT_FOUND,
          "namespace does not exist; 'nowhere' was not found" },
        { authtest_binding("nowhere", "read", AUTH_ANONYMOUS), ERR_NOT_FOUND,
          "namespace does not exist; 'nowhere' was not found" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(auth_binding_create(f->auth, &rows[i].n, id, &note), rows[i].why);
        assert_note(&note, rows[i].text);
    }
    authtest_bind(f, "ns", "worker", user);
    struct auth_binding_new n = authtest_binding("ns", "worker", user);
    assert_int_equal(auth_binding_create(f->auth, &n, id, &note), ERR_CONFLICT);
    assert_memory_equal(note.text, "role binding already exists; binding for user '", 47);
    assert_int_equal(auth_binding_delete(f->auth, &n, &note), ERR_OK);
    assert_int_equal(auth_binding_delete(f->auth, &n, &note), ERR_NOT_FOUND);
    assert_memory_equal(note.text, "role binding does not exist; 'ns:", 33);
    n = authtest_binding("", "none", user);
    assert_int_equal(auth_binding_delete(f->auth, &n, &note), ERR_NOT_FOUND);
    assert_note(&note, "role does not exist; '_system:none' was not found");
}

static void a_standard_role_can_be_had_in_one_namespace(void **state)
{
    struct authtest *f = *state;
    struct err_note note;
    authtest_lock(f);
    authtest_space(f, "ns", "");
    char user[AUTH_ID_BYTES + 1];
    memcpy(user, authtest_user(f, "owner"), sizeof user);
    uint64_t rows = engine_mem_rows(f->engine, SPACE_AUTH);
    authtest_bind(f, "ns", "NamespaceOwner", user);
    struct auth_secret key = authtest_key(f, user, "", "");
    assert_int_equal(authtest_ask_key(f, &key, "role.create", "ns"), AUTH_FINE);
    assert_int_equal(authtest_ask_key(f, &key, "role.create", "other"), AUTH_FORBIDDEN);
    assert_int_equal(authtest_ask_key(f, &key, "role.create", ""), AUTH_FORBIDDEN);
    struct auth_binding_new n = authtest_binding("ns", "NamespaceOwner", user);
    assert_int_equal(auth_binding_delete(f->auth, &n, &note), ERR_OK);
    assert_int_equal(authtest_ask_key(f, &key, "role.create", "ns"), AUTH_FORBIDDEN);
    assert_int_equal(auth_apikey_delete(f->auth, str_of(key.id), &note), ERR_OK);
    assert_true(engine_mem_rows(f->engine, SPACE_AUTH) <= rows + 1); /* the count of keys */
}

static void bindings_of_a_user_have_an_end(void **state)
{
    struct authtest *f = *state;
    struct err_note note;
    char user[AUTH_ID_BYTES + 1], id[AUTH_ID_BYTES + 1], name[20];
    memcpy(user, authtest_user(f, "busy"), sizeof user);
    for (unsigned i = 0; i <= AUTH_GRANTS_MAX; i++) {
        assert_true(snprintf(name, sizeof name, "role%u", i) > 0);
        authtest_role(f, AUTH_SYSTEM, name, "queue.list");
        struct auth_binding_new n = authtest_binding(AUTH_SYSTEM, name, user);
        err why = auth_binding_create(f->auth, &n, id, &note);
        assert_int_equal(why, i < AUTH_GRANTS_MAX ? ERR_OK : ERR_LIMIT);
    }
    assert_note(&note, "role bindings of a user are limited; there are 256 already");
    assert_int_equal(auth_user_delete(f->auth, str_of(user), &note), ERR_OK);
    assert_int_equal(auth_role_delete(f->auth, STR(AUTH_SYSTEM), STR("role0"), &note), ERR_OK);
}

static err drop_space(struct engine_txn *t, void *ctx)
{
    struct rowkey k;
    row_key1(&k, 'n', str_of(ctx));
    return engine_txn_delete(t, SPACE_AUTH, rowkey_str(&k));
}

/* As versions made them that did not ask for the namespace. */
static void a_binding_without_its_namespace_stays_until_it_is_taken(void **state)
{
    struct authtest *f = *state;
    struct err_note note;
    char user[AUTH_ID_BYTES + 1], name[] = "en";
    authtest_lock(f);
    authtest_space(f, name, "");
    memcpy(user, authtest_user(f, "user"), sizeof user);
    authtest_bind(f, name, "read", user);
    struct auth_secret key = authtest_key(f, user, "", "");
    const struct engine_update drop = { .decide = drop_space, .ctx = name };
    assert_int_equal(engine_submit_wait(f->engine, &drop), ERR_OK);
    authtest_restart(f, true);
    assert_int_equal(auth_space_find(f->auth, str_of(name), &note), ERR_NOT_FOUND);
    assert_int_equal(authtest_ask_key(f, &key, "page.read", name), AUTH_FINE);
    struct auth_binding_new n = authtest_binding(name, "read", user);
    assert_int_equal(auth_binding_delete(f->auth, &n, &note), ERR_OK);
    assert_int_equal(authtest_ask_key(f, &key, "page.read", name), AUTH_FORBIDDEN);
}

/* ---- the door ---- */

static void taking_the_binding_of_anonymous_closes_the_door_for_good(void **state)
{
    struct authtest *f = *state;
    struct err_note note;
    bool open = true;
    assert_int_equal(authtest_ask(f, STR_NONE, "user.create", STR("")), AUTH_FINE);
    struct auth_binding_new n = authtest_binding(AUTH_SYSTEM, "Admin", AUTH_ANONYMOUS);
    assert_int_equal(auth_binding_delete(f->auth, &n, &note), ERR_OK);
    assert_int_equal(authtest_ask(f, STR_NONE, "user.create", STR("")), AUTH_NO_KEY);
    authtest_restart(f, true);
    assert_int_equal(auth_door_open(f->auth, &open), ERR_OK);
    assert_false(open);
    assert_int_equal(auth_user_delete(f->auth, STR(AUTH_ANONYMOUS), &note), ERR_OK);
    authtest_restart(f, true); /* the user comes again, what it may does not */
    assert_int_equal(authtest_ask(f, STR_NONE, "user.create", STR("")), AUTH_NO_KEY);
}

static void without_checks_a_store_has_its_system_namespace_alone(void **state)
{
    struct authtest *f = *state;
    struct err_note note;
    auth_free(&f->auth);
    engine_close(&f->engine);
    f->engine = engine_mem_new(&f->clock.clock);
    authtest_restart(f, false);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_AUTH), 2); /* it and the count */
    authtest_restart(f, false);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_AUTH), 2);
    authtest_space(f, "ns", "");
    authtest_role(f, "ns", "worker", "queue.lease");
    authtest_bind(f, "ns", "worker", authtest_user(f, "somebody"));
    struct auth_binding_new n = authtest_binding("ns", "Admin", "x");
    char id[AUTH_ID_BYTES + 1];
    assert_int_equal(auth_binding_create(f->auth, &n, id, &note), ERR_NOT_FOUND);
    authtest_restart(f, true); /* checks come: the door is open as on any new store */
    assert_int_equal(authtest_ask(f, STR_NONE, "user.create", STR("")), AUTH_FINE);
}

static void a_store_that_refuses_changes_nothing(void **state)
{
    struct authtest *f = *state;
    struct err_note note;
    char id[AUTH_ID_BYTES + 1];
    uint64_t rows = engine_mem_rows(f->engine, SPACE_AUTH);
    engine_mem_refuse(f->engine, ERR_FULL);
    assert_int_equal(auth_user_create(f->auth, &(struct auth_user){ .name = STR("x") }, id, &note),
                     ERR_FULL);
    assert_int_equal(auth_space_create(f->auth, &(struct auth_space){ .name = STR("x") }, &note),
                     ERR_FULL);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_AUTH), rows);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, authtest_up, authtest_down)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(names_of_namespaces_are_checked_in_order),
        TEST(a_namespace_comes_once_and_goes_when_nothing_needs_it),
        TEST(the_tag_of_a_key_is_asked_for_or_its_namespaces_or_live),
        TEST(users_are_refused_with_the_contracts_words),
        TEST(keys_are_refused_with_the_contracts_words),
        TEST(a_key_goes_alone_and_a_user_takes_all_along),
        TEST(a_scope_limits_whatever_the_user_may),
        TEST(roles_are_refused_with_the_contracts_words),
        TEST(an_update_of_a_role_is_in_force_at_once),
        TEST(bindings_are_refused_with_the_contracts_words),
        TEST(a_standard_role_can_be_had_in_one_namespace),
        TEST(bindings_of_a_user_have_an_end),
        TEST(a_binding_without_its_namespace_stays_until_it_is_taken),
        TEST(taking_the_binding_of_anonymous_closes_the_door_for_good),
        TEST(without_checks_a_store_has_its_system_namespace_alone),
        TEST(a_store_that_refuses_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
