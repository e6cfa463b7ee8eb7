/* Goal: keys open what their roles say, where they say, until they expire or are deleted; nothing
 * else opens. Method: the authority on an engine in memory that runs every decision twice; a clock
 * that stands. */
#include "authtest.h"

#include "../bucket/engine_mem.h"
#include "../cmocka_all.h"
#include "auth/authority.h"
#include "codec/base64.h"

#include <stdio.h>
#include <string.h>

static void a_new_store_is_an_open_door(void **state)
{
    struct authtest *f = *state;
    bool open = false;
    assert_int_equal(auth_door_open(f->auth, &open), ERR_OK);
    assert_true(open);
    assert_int_equal(authtest_ask(f, STR_NONE, "page.purge", STR("en")), AUTH_FINE);
    assert_int_equal(authtest_ask(f, STR_NONE, "queue.produce", STR("")), AUTH_FINE);
}

static void a_closed_door_stays_closed_over_restarts(void **state)
{
    struct authtest *f = *state;
    bool open = true;
    authtest_lock(f);
    assert_int_equal(authtest_ask(f, STR_NONE, "page.read", STR("en")), AUTH_NO_KEY);
    uint64_t rows = engine_mem_rows(f->engine, SPACE_AUTH);
    authtest_restart(f, true);
    assert_int_equal(auth_door_open(f->auth, &open), ERR_OK);
    assert_false(open);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_AUTH), rows);
    struct err_note note;
    assert_int_equal(auth_door_set(f->auth, true, &note), ERR_OK);
    assert_int_equal(authtest_ask(f, STR_NONE, "page.read", STR("en")), AUTH_FINE);
}

static void nothing_is_asked_when_everything_is_open(void **state)
{
    struct authtest *f = *state;
    authtest_lock(f);
    authtest_restart(f, false);
    assert_int_equal(authtest_ask(f, STR_NONE, "page.purge", STR("en")), AUTH_FINE);
    assert_int_equal(authtest_ask(f, STR("Bearer nonsense"), "page.purge", STR("en")), AUTH_FINE);
    assert_int_equal(authtest_ask(f, STR("Basic eA=="), "page.purge", STR("en")), AUTH_NOT_BEARER);
}

static void a_key_has_the_form_of_the_contract(void **state)
{
    struct authtest *f = *state;
    struct authtest_made m = authtest_make(f, "read", NULL, STORE_TIME_NEVER);
    assert_int_equal(strlen(m.secret), 4 + 4 + 1 + 43);
    assert_memory_equal(m.secret, "qtr-live-", 9);
    assert_memory_equal(m.key.prefix, m.secret, 9 + 8);
    assert_int_equal(strlen(m.key.prefix), 9 + 8);
    assert_int_equal(strlen(m.key.id), AUTH_ID_BYTES);
    assert_string_equal(m.key.space, AUTH_SYSTEM);
    assert_string_equal(m.key.roles, "read");
    assert_memory_equal(m.key.user, "key-", 4);
}

static void roles_are_sets_of_permissions(void **state)
{
    static const struct {
        const char *role, *may, *may_not;
    } cases[] = {
        { "read", "page.read", "page.write" },
        { "read", "table.read", "table.write" },
        { "write", "page.write", "page.purge" },
        { "write", "page.read", "admin.check" },
        { "purge", "page.purge", "page.write" },
        { "admin", "admin.check", "queue.produce" },
        { "purge", "table.purge", "table.write" },
        { "write", "table.write", "table.purge" },
        { "admin", "page.purge", "queue.lease" },
        { "NamespaceOwner", "queue.lease", "page.read" },
        { "PublicViewer", "system.health", "queue.stats" },
        { "Admin", "namespace.update", "no.such" },
    };
    struct authtest *f = *state;
    authtest_lock(f);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct authtest_made m = authtest_make(f, cases[i].role, NULL, STORE_TIME_NEVER);
        assert_int_equal(authtest_ask(f, authtest_bearer(m.secret), cases[i].may, STR("en")),
                         AUTH_FINE);
        assert_int_equal(authtest_ask(f, authtest_bearer(m.secret), cases[i].may_not, STR("en")),
                         AUTH_FORBIDDEN);
        assert_int_equal(authtest_ask(f, authtest_bearer(m.secret), cases[i].may_not, STR("")),
                         AUTH_FORBIDDEN);
    }
}

static void a_key_of_a_domain_opens_that_domain_alone(void **state)
{
    struct authtest *f = *state;
    authtest_lock(f);
    struct authtest_made m = authtest_make(f, "write", "en.example.test", STORE_TIME_NEVER);
    assert_int_equal(authtest_ask(f, authtest_bearer(m.secret), "page.write",
                                  STR("en.example.test")),
                     AUTH_FINE);
    assert_int_equal(authtest_ask(f, authtest_bearer(m.secret), "page.write",
                                  STR("de.example.test")),
                     AUTH_FORBIDDEN);
    assert_int_equal(authtest_ask(f, authtest_bearer(m.secret), "page.write",
                                  STR("en.example.tes")),
                     AUTH_FORBIDDEN);
    assert_int_equal(authtest_ask(f, authtest_bearer(m.secret), "page.write", STR("")),
                     AUTH_FORBIDDEN);
    assert_int_equal(authtest_ask(f, authtest_bearer(m.secret), "apikey.create", STR(AUTH_SYSTEM)),
                     AUTH_FORBIDDEN);
}

static void keys_that_are_none_are_told_apart(void **state)
{
    struct authtest *f = *state;
    struct authtest_made m = authtest_make(f, "read", NULL, STORE_TIME_NEVER);
    char other[AUTH_KEY_BYTES_MAX + 1];
    memcpy(other, m.secret, sizeof other);
    other[20] = other[20] == 'a' ? 'b' : 'a';
    assert_int_equal(authtest_ask(f, authtest_bearer(other), "page.read", STR("en")),
                     AUTH_KEY_UNKNOWN);
    assert_int_equal(authtest_ask(f, authtest_bearer("qtr-live-short"), "page.read", STR("en")),
                     AUTH_KEY_INVALID);
    assert_int_equal(
        authtest_ask(f, authtest_bearer("xtr-live-0123456789012345678901234567890123456789012"),
                     "page.read", STR("en")),
        AUTH_KEY_INVALID);
    assert_int_equal(
        authtest_ask(f, authtest_bearer("qtr-LIVE-0123456789012345678901234567890123456789012"),
                     "page.read", STR("en")),
        AUTH_KEY_INVALID);
    assert_int_equal(
        authtest_ask(f, authtest_bearer("qtr-live-012345678901234567890123456789012345678901!"),
                     "page.read", STR("en")),
        AUTH_KEY_INVALID);
    assert_int_equal(authtest_ask(f, STR("Basic eA=="), "page.read", STR("en")), AUTH_NOT_BEARER);
    assert_int_equal(authtest_ask(f, STR("Bearer"), "page.read", STR("en")), AUTH_NOT_BEARER);
    assert_int_equal(authtest_ask(f, STR("Bearer "), "page.read", STR("en")), AUTH_NOT_BEARER);
    assert_int_equal(authtest_ask(f, STR(""), "page.read", STR("en")), AUTH_NOT_BEARER);
    char lower[300];
    assert_true(snprintf(lower, sizeof lower, "bearer   %s", m.secret) < (int)sizeof lower);
    assert_int_equal(authtest_ask(f, str_of(lower), "page.read", STR("en")), AUTH_FINE);
    assert_true(auth_is_bearer(str_of(lower)));
    assert_false(auth_is_bearer(STR("Digest x")));
    assert_false(auth_is_bearer(STR_NONE));
}

static void a_key_ends_when_it_expires_also_from_the_cache(void **state)
{
    struct authtest *f = *state;
    authtest_lock(f);
    struct authtest_made m =
        authtest_make(f, "read", NULL, (store_time){ .ns = f->clock.now_ns + 10 });
    assert_int_equal(authtest_ask(f, authtest_bearer(m.secret), "page.read", STR("en")), AUTH_FINE);
    f->clock.now_ns += 9;
    assert_int_equal(authtest_ask(f, authtest_bearer(m.secret), "page.read", STR("en")), AUTH_FINE);
    f->clock.now_ns += 1;
    assert_int_equal(authtest_ask(f, authtest_bearer(m.secret), "page.read", STR("en")),
                     AUTH_KEY_EXPIRED);
    authtest_restart(f, true);
    assert_int_equal(authtest_ask(f, authtest_bearer(m.secret), "page.read", STR("en")),
                     AUTH_KEY_EXPIRED);
}

static void a_deleted_key_opens_nothing_and_leaves_nothing(void **state)
{
    struct authtest *f = *state;
    struct err_note note;
    authtest_lock(f);
    (void)authtest_make(f, "read", NULL, STORE_TIME_NEVER); /* makes the row of the count */
    uint64_t rows = engine_mem_rows(f->engine, SPACE_AUTH);
    struct authtest_made m = authtest_make(f, "write", NULL, STORE_TIME_NEVER);
    assert_int_equal(authtest_ask(f, authtest_bearer(m.secret), "page.read", STR("en")), AUTH_FINE);
    assert_int_equal(auth_key_delete(f->auth, str_of(m.key.id), &note), ERR_OK);
    assert_int_equal(authtest_ask(f, authtest_bearer(m.secret), "page.read", STR("en")),
                     AUTH_KEY_UNKNOWN);
    assert_int_equal(engine_mem_rows(f->engine, SPACE_AUTH), rows);
    assert_int_equal(auth_key_delete(f->auth, str_of(m.key.id), &note), ERR_NOT_FOUND);
    assert_int_equal(auth_key_delete(f->auth, STR(""), &note), ERR_NOT_FOUND);
}

struct listing {
    unsigned count;
    struct auth_key last;
};

static bool list_each(void *ctx, const struct auth_key *k)
{
    struct listing *l = ctx;
    l->count++;
    l->last = *k;
    return true;
}

/* What is remembered of a sender ends with any change, with the key's life, and at another
 * namespace, permission or field. */
static void a_glance_is_never_older_than_a_check(void **state)
{
    struct authtest *f = *state;
    static const char read[] = "page.read", write[] = "page.write";
    struct err_note note;
    authtest_lock(f);
    struct authtest_made m =
        authtest_make(f, "read", "en", (store_time){ .ns = f->clock.now_ns + 5 });
    struct authtest_made other = authtest_make(f, "read", "en", STORE_TIME_NEVER);
    str field = authtest_bearer(m.secret);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(auth_glance(f->auth, field, read, STR("en")));
        assert_false(auth_glance(f->auth, field, read, STR("de")));
        assert_false(auth_glance(f->auth, field, write, STR("en")));
        assert_false(auth_glance(f->auth, str_take(field, field.n - 1), read, STR("en")));
        assert_false(auth_glance(f->auth, STR_NONE, read, STR("en")));
        assert_false(auth_glance(f->auth, STR(""), read, STR("en")));
    }
    f->clock.now_ns += 5;
    assert_false(auth_glance(f->auth, field, read, STR("en")));
    field = authtest_bearer(other.secret);
    assert_true(auth_glance(f->auth, field, read, STR("en")));
    assert_int_equal(auth_key_delete(f->auth, str_of(other.key.id), &note), ERR_OK);
    assert_false(auth_glance(f->auth, field, read, STR("en")));
    assert_int_equal(auth_door_set(f->auth, true, &note), ERR_OK);
    assert_true(auth_glance(f->auth, STR_NONE, read, STR("en")));
    assert_int_equal(auth_door_set(f->auth, false, &note), ERR_OK);
    assert_false(auth_glance(f->auth, STR_NONE, read, STR("en")));
}

static void a_listing_shows_no_secrets(void **state)
{
    struct authtest *f = *state;
    struct listing l = { .count = 0 };
    assert_int_equal(auth_key_list(f->auth, STR_NONE, list_each, &l), ERR_OK);
    assert_int_equal(l.count, 0);
    struct authtest_made m =
        authtest_make(f, "purge", "en", (store_time){ .ns = f->clock.now_ns + 5 });
    assert_int_equal(auth_key_list(f->auth, STR_NONE, list_each, &l), ERR_OK);
    assert_int_equal(l.count, 1);
    assert_string_equal(l.last.id, m.key.id);
    assert_string_equal(l.last.user, m.key.user);
    assert_string_equal(l.last.roles, "purge");
    assert_string_equal(l.last.space, "en");
    assert_string_equal(l.last.prefix, m.key.prefix);
    assert_int_equal(l.last.expires_at.ns, m.key.expires_at.ns);
    assert_int_equal(l.last.created_at.ns, f->clock.now_ns);
    (void)authtest_make(f, "purge", "en", STORE_TIME_NEVER);
    l.count = 0;
    assert_int_equal(auth_key_list(f->auth, STR_NONE, list_each, &l), ERR_OK);
    assert_int_equal(l.count, 2);
    str last = { .p = (const char *)l.last.place, .n = AUTH_PLACE_BYTES };
    struct listing rest = { .count = 0 };
    assert_int_equal(auth_key_list(f->auth, last, list_each, &rest), ERR_OK);
    assert_int_equal(rest.count, 1);
    assert_string_equal(rest.last.id, l.last.id);
}

/* All keys, in pieces of that size at most. */
static unsigned pieces_of(struct authtest *f, size_t bytes_max, unsigned *keys)
{
    char place[AUTH_PLACE_BYTES];
    str from = STR_NONE, text;
    unsigned pieces = 0;
    *keys = 0;
    do {
        struct arena a;
        arena_init(&a, 1 << 20);
        assert_int_equal(auth_keys_json(f->auth, from, bytes_max, &a, &text), ERR_OK);
        assert_true(str_ends(text, STR("}\n")));
        json_t *json = json_body_read(text);
        const json_t *items;
        str next = STR_NONE, bytes;
        assert_non_null(json);
        assert_int_equal(json_body_array(json, "items", &items, NULL), ERR_OK);
        *keys += (unsigned)json_array_size(items);
        pieces++;
        from = STR_NONE;
        if (json_body_str(json, "next", &next, NULL) == ERR_OK) {
            assert_int_equal(base64_decode(&a, next, BASE64_TOKEN, &bytes), ERR_OK);
            assert_int_equal(bytes.n, sizeof place);
            memcpy(place, bytes.p, sizeof place);
            from = (str){ .p = place, .n = sizeof place };
        }
        json_decref(json);
        arena_fini(&a);
    } while (from.n > 0);
    return pieces;
}

static void keys_are_listed_in_pieces_none_twice(void **state)
{
    struct authtest *f = *state;
    unsigned keys;
    assert_int_equal(pieces_of(f, 100, &keys), 1);
    assert_int_equal(keys, 0);
    for (unsigned i = 0; i < 5; i++)
        (void)authtest_make(f, "purge", "en", STORE_TIME_NEVER);
    assert_int_equal(pieces_of(f, 1 << 20, &keys), 1);
    assert_int_equal(keys, 5);
    assert_int_equal(pieces_of(f, 1, &keys), 5); /* one at least in each */
    assert_int_equal(keys, 5);
    struct arena small;
    str text = STR("as it was");
    arena_init(&small, 100);
    assert_int_equal(auth_keys_json(f->auth, STR_NONE, 1 << 20, &small, &text), ERR_LIMIT);
    assert_true(str_eq(text, STR("as it was")));
    arena_fini(&small);
}

static void a_key_is_its_members(void **state)
{
    struct authtest *f = *state;
    struct arena a;
    struct authtest_made m =
        authtest_make(f, "purge", "en", (store_time){ .ns = f->clock.now_ns + 5 });
    arena_init(&a, 1 << 16);
    str text = auth_key_json(&a, &m.key);
    assert_true(str_starts(text, STR("\"id\":\"")));
    assert_true(str_find_str(text, STR("\",\"namespace\":\"en\",\"roles\":\"purge\",")) < text.n);
    assert_true(str_find_str(text, STR("\"expires_at\":\"2")) < text.n);
    m.key.expires_at = STORE_TIME_NEVER;
    assert_true(str_ends(auth_key_json(&a, &m.key), STR("\"expires_at\":null")));
    arena_fini(&a);
}

static void a_new_key_is_read_whole_or_not_at_all(void **state)
{
    static const struct {
        const char *json, *word; /* of the note; NULL: fine */
    } cases[] = {
        { "{\"roles\":[\"read\"]}", NULL },
        { "{\"roles\":[]}", NULL }, /* refused by whoever makes it */
        { "{}", "roles: a list" },
        { "{\"roles\":\"read\"}", "roles" },
        { "{\"roles\":[\"read\"],\"role\":1}", "role is not known" },
        { "{\"roles\":[\"read\"],\"name\":7}", "name" },
        { "{\"roles\":[\"read\"],\"expires\":\"\"}", "expires: a duration" },
        { "{\"roles\":[\"read\"],\"expires\":\"0\"}", "expires: a duration" },
        { "{\"roles\":[\"read\"],\"expires\":\"soon\"}", "expires: a duration" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct auth_key_new n = { .roles_count = 99 };
        struct err_note note = { "" };
        json_t *json = json_body_read(str_of(cases[i].json));
        err why = auth_key_new_read(json, (store_time){ 1 }, &n, &note);
        assert_int_equal(why, cases[i].word == NULL ? ERR_OK : ERR_BAD);
        if (cases[i].word != NULL &&
            str_find_str(str_of(note.text), str_of(cases[i].word)) == str_of(note.text).n)
            fail_msg("%s: %s", cases[i].json, note.text);
        assert_true(why == ERR_OK ? n.expires_at.ns == STORE_TIME_NEVER.ns : n.roles_count == 99);
        json_decref(json);
    }
    struct auth_key_new n;
    struct err_note note;
    json_t *json = json_body_read(STR("{\"roles\":[\"a\",1],\"name\":\"n\",\"domain\":\"d\","
                                      "\"tag\":\"t\",\"expires\":\"2s\"}"));
    assert_int_equal(auth_key_new_read(json, (store_time){ NS_PER_S }, &n, &note), ERR_OK);
    assert_int_equal(n.roles_count, 2);
    assert_true(str_eq(n.roles[0], STR("a")) && n.roles[1].p == NULL);
    assert_true(str_eq(n.name, STR("n")) && str_eq(n.space, STR("d")) && str_eq(n.tag, STR("t")));
    assert_int_equal(n.expires_at.ns, 3 * NS_PER_S);
    json_decref(json);
}

static void nothing_on_disk_holds_the_key(void **state)
{
    struct authtest *f = *state;
    struct authtest_made m = authtest_make(f, "read", NULL, STORE_TIME_NEVER);
    struct engine_view *v = engine_view_begin(f->engine);
    struct engine_cursor *c = engine_cursor_open(v, &(struct engine_range){ .space = SPACE_AUTH });
    struct engine_row row;
    unsigned rows = 0;
    while (engine_cursor_next(c, &row) == ERR_OK) {
        rows++;
        assert_true(str_find_str(row.value, str_of(m.secret + 9 + 8)) == row.value.n);
        assert_true(str_find_str(row.key, str_of(m.secret + 9)) == row.key.n);
    }
    assert_true(rows > 5);
    engine_cursor_close(&c);
    engine_view_end(&v);
}

static void wrong_wishes_are_refused_and_write_nothing(void **state)
{
    struct authtest *f = *state;
    struct auth_key k;
    struct err_note note;
    char secret[AUTH_KEY_BYTES_MAX + 1];
    static const struct {
        struct auth_key_new n;
        err why;
    } cases[] = {
        { { .roles_count = 0 }, ERR_BAD },
        { { .roles = { { "none", 4 } }, .roles_count = 1 }, ERR_BAD },
        { { .roles = { { "read", 4 } }, .roles_count = 1, .space = { "_mine", 5 } }, ERR_BAD },
        { { .roles = { { "read", 4 } }, .roles_count = 1, .space = { "a b", 3 } }, ERR_BAD },
        { { .roles = { { "read", 4 } }, .roles_count = 1, .name = { "a:b", 3 } }, ERR_BAD },
        { { .roles = { { "read", 4 } }, .roles_count = 1, .tag = { "Live", 4 } }, ERR_BAD },
        { { .roles = { { "read", 4 } }, .roles_count = 1, .tag = { "01234567890123456", 17 } },
          ERR_BAD },
        { { .roles = { { "read", 4 } }, .roles_count = 1, .name = { "anonymous", 9 } },
          ERR_CONFLICT },
        { { .roles_count = AUTH_ROLES_OF_KEY_MAX + 1 }, ERR_BAD },
    };
    uint64_t rows = engine_mem_rows(f->engine, SPACE_AUTH);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(auth_key_create(f->auth, &cases[i].n, &k, secret, &note), cases[i].why);
        assert_int_equal(secret[0], 0);
        assert_int_equal(engine_mem_rows(f->engine, SPACE_AUTH), rows);
    }
    engine_mem_refuse(f->engine, ERR_FULL);
    struct auth_key_new fine = { .roles = { STR("read") },
                                 .roles_count = 1,
                                 .expires_at = STORE_TIME_NEVER };
    assert_int_equal(auth_key_create(f->auth, &fine, &k, secret, &note), ERR_FULL);
    assert_int_equal(secret[0], 0);
}

static void damaged_rows_deny_instead_of_allowing(void **state)
{
    struct authtest *f = *state;
    authtest_lock(f);
    struct authtest_made m = authtest_make(f, "read", NULL, STORE_TIME_NEVER);
    struct engine_view *v = engine_view_begin(f->engine);
    struct engine_cursor *c = engine_cursor_open(
        v, &(struct engine_range){ .space = SPACE_AUTH, .from = STR("k"), .until = STR("l") });
    struct engine_row row;
    assert_int_equal(engine_cursor_next(c, &row), ERR_OK);
    char key[ENGINE_KEY_BYTES_MAX], value[ENGINE_VALUE_BYTES_MAX];
    str k = { .p = key, .n = row.key.n }, broken = { .p = value, .n = row.value.n };
    memcpy(key, row.key.p, k.n);
    memcpy(value, row.value.p, broken.n);
    engine_cursor_close(&c);
    engine_view_end(&v);
    value[5] ^= 1; /* another key's hash */
    engine_mem_damage(f->engine, SPACE_AUTH, k, broken);
    assert_int_equal(authtest_ask(f, authtest_bearer(m.secret), "page.read", STR("en")),
                     AUTH_KEY_UNKNOWN);
    engine_mem_damage(f->engine, SPACE_AUTH, k, str_take(broken, broken.n - 1));
    enum auth_reason why;
    assert_int_equal(auth_check(f->auth, authtest_bearer(m.secret), "page.read", STR("en"), &why),
                     ERR_CORRUPT);
}

static void every_reason_has_its_words(void **state)
{
    (void)state;
    for (int r = AUTH_FINE; r < AUTH_REASONS; r++)
        assert_true(strlen(auth_reason_text((enum auth_reason)r)) > 0);
    assert_string_equal(auth_reason_text(AUTH_KEY_UNKNOWN), "api key does not exist");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, authtest_up, authtest_down)
static void anonymous_gets_no_right_while_others_reach_the_server(void **state)
{
    struct authtest *f = *state;
    struct err_note note = { .text = "" };
    char id[AUTH_ID_BYTES + 1];
    struct auth_binding_new viewer = { .space = STR("ta"),
                                       .role_name = STR("PublicViewer"),
                                       .user_id = STR(AUTH_ANONYMOUS) };
    assert_int_equal(auth_space_create(f->auth, &(struct auth_space){ .name = STR("ta") }, &note),
                     ERR_OK);
    authtest_lock(f);
    f->exposed = true;
    authtest_restart(f, true);
    assert_int_equal(auth_binding_create(f->auth, &viewer, id, &note), ERR_CONFLICT);
    assert_non_null(strstr(note.text, "not on loopback"));
    assert_int_equal(auth_door_set(f->auth, true, &note), ERR_CONFLICT);
    bool open = true;
    assert_int_equal(auth_door_open(f->auth, &open), ERR_OK);
    assert_false(open);
    f->exposed = false;
    authtest_restart(f, true);
    assert_int_equal(auth_binding_create(f->auth, &viewer, id, &note), ERR_OK);
    assert_int_equal(auth_door_open(f->auth, &open), ERR_OK);
    assert_true(open);
    f->exposed = true;
    authtest_restart(f, true);
    assert_int_equal(auth_door_set(f->auth, false, &note), ERR_OK); /* it can still be taken away */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_new_store_is_an_open_door),
        TEST(anonymous_gets_no_right_while_others_reach_the_server),
        TEST(a_closed_door_stays_closed_over_restarts),
        TEST(nothing_is_asked_when_everything_is_open),
        TEST(a_key_has_the_form_of_the_contract),
        TEST(roles_are_sets_of_permissions),
        TEST(a_key_of_a_domain_opens_that_domain_alone),
        TEST(keys_that_are_none_are_told_apart),
        TEST(a_key_ends_when_it_expires_also_from_the_cache),
        TEST(a_deleted_key_opens_nothing_and_leaves_nothing),
        TEST(a_glance_is_never_older_than_a_check),
        TEST(a_listing_shows_no_secrets),
        TEST(keys_are_listed_in_pieces_none_twice),
        TEST(a_key_is_its_members),
        TEST(a_new_key_is_read_whole_or_not_at_all),
        TEST(nothing_on_disk_holds_the_key),
        TEST(wrong_wishes_are_refused_and_write_nothing),
        TEST(damaged_rows_deny_instead_of_allowing),
        TEST(every_reason_has_its_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
