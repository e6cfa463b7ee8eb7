#include "authtest.h"

#include "../bucket/engine_mem.h"
#include "../cmocka_all.h"
#include "auth/authority.h"
#include "base/rng.h"
#include "engine/store.h"

#include <stdio.h>
#include <string.h>

static struct rng entropy_rng;

static void fake_entropy(void *dst, size_t n)
{
    unsigned char *p = dst;
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)rng_next(&entropy_rng);
}

void authtest_restart(struct authtest *f, bool enabled)
{
    struct err_note note;
    auth_free(&f->auth);
    struct auth_opts opts = { .engine = f->engine,
                              .clock = &f->clock.clock,
                              .entropy = fake_entropy,
                              .enabled = enabled,
                              .exposed = f->exposed };
    assert_int_equal(auth_new(&opts, &f->auth, &note), ERR_OK);
}

int authtest_up(void **state)
{
    static struct authtest f;
    f = (struct authtest){ .engine = NULL };
    rng_init(&entropy_rng, 7);
    fake_clock_init(&f.clock, 1800000000 * NS_PER_S);
    f.engine = engine_mem_new(&f.clock.clock);
    authtest_restart(&f, true);
    *state = &f;
    return 0;
}

int authtest_down(void **state)
{
    struct authtest *f = *state;
    auth_free(&f->auth);
    engine_close(&f->engine);
    return 0;
}

str authtest_bearer(const char *key)
{
    static char field[300];
    assert_true(snprintf(field, sizeof field, "Bearer %s", key) < (int)sizeof field);
    return str_of(field);
}

enum auth_reason authtest_ask(struct authtest *f, str field, const char *permission, str space)
{
    enum auth_reason why = AUTH_FINE;
    err got = auth_check(f->auth, field, permission, space, &why);
    for (unsigned i = 0; i < 2; i++) /* the second time it may be remembered */
        assert_int_equal(auth_glance(f->auth, field, permission, space),
                         got == ERR_OK || !auth_enabled(f->auth));
    if (got == ERR_OK)
        return AUTH_FINE;
    assert_int_equal(got, ERR_DENIED);
    assert_int_not_equal(why, AUTH_FINE);
    return why;
}

struct authtest_made authtest_make(struct authtest *f, const char *role, const char *space,
                                   store_time expires_at)
{
    struct authtest_made m;
    struct err_note note;
    struct auth_key_new n = { .roles = { str_of(role) },
                              .roles_count = 1,
                              .space = str_of(space),
                              .expires_at = expires_at };
    if (auth_key_create(f->auth, &n, &m.key, m.secret, &note) != ERR_OK)
        fail_msg("%s", note.text);
    return m;
}

void authtest_lock(struct authtest *f)
{
    struct err_note note;
    assert_int_equal(auth_door_set(f->auth, false, &note), ERR_OK);
}

const char *authtest_user(struct authtest *f, const char *name)
{
    static char id[AUTH_ID_BYTES + 1];
    struct err_note note;
    if (auth_user_create(f->auth, &(struct auth_user){ .name = str_of(name) }, id, &note) != ERR_OK)
        fail_msg("%s", note.text);
    return id;
}

void authtest_space(struct authtest *f, const char *name, const char *tag)
{
    struct err_note note;
    if (auth_space_create(f->auth, &(struct auth_space){ .name = str_of(name), .tag = str_of(tag) },
                          &note) != ERR_OK)
        fail_msg("%s", note.text);
}

void authtest_role(struct authtest *f, const char *space, const char *name, const char *permission)
{
    struct err_note note;
    char id[AUTH_ID_BYTES + 1];
    str permissions = str_of(permission);
    struct auth_role r = { .space = str_of(space),
                           .name = str_of(name),
                           .permissions = &permissions,
                           .permissions_count = permissions.n > 0 ? 1 : 0 };
    if (auth_role_create(f->auth, &r, id, &note) != ERR_OK)
        fail_msg("%s", note.text);
}

struct auth_binding_new authtest_binding(const char *space, const char *role, const char *user)
{
    return (struct auth_binding_new){ .space = str_of(space),
                                      .role_name = str_of(role),
                                      .user_id = str_of(user) };
}

void authtest_bind(struct authtest *f, const char *space, const char *role, const char *user)
{
    struct err_note note;
    char id[AUTH_ID_BYTES + 1];
    struct auth_binding_new n = authtest_binding(space, role, user);
    if (auth_binding_create(f->auth, &n, id, &note) != ERR_OK)
        fail_msg("%s", note.text);
}

struct auth_secret authtest_key(struct authtest *f, const char *user, const char *scope,
                                const char *tag)
{
    struct auth_secret s;
    struct err_note note;
    struct auth_apikey k = { .user_id = str_of(user),
                             .scope = str_of(scope),
                             .tag = str_of(tag),
                             .expires_at = STORE_TIME_NEVER };
    if (auth_apikey_create(f->auth, &k, &s, &note) != ERR_OK)
        fail_msg("%s", note.text);
    return s;
}

enum auth_reason authtest_ask_key(struct authtest *f, const struct auth_secret *s,
                                  const char *permission, const char *space)
{
    return authtest_ask(f, authtest_bearer(s->key), permission, str_of(space));
}
