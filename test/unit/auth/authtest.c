#include "authtest.h"

#include "../bucket/engine_mem.h"
#include "../cmocka_all.h"
#include "base/rng.h"

#include <stdio.h>
#include <string.h>

static struct rng entropy_rng;

static void fake_entropy(void *dst, size_t n)
{
    unsigned char *p = dst;
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)rng_next(&entropy_rng);
}

static store_time still_store(struct clock *c)
{
    return (store_time){ .ns = CONTAINER_OF(c, struct authtest_clock, clock)->ns };
}

static mono still_mono(struct clock *c)
{
    return (mono){ .ns = CONTAINER_OF(c, struct authtest_clock, clock)->ns };
}

void authtest_restart(struct authtest *f, bool enabled)
{
    struct err_note note;
    auth_free(&f->auth);
    struct auth_opts opts = { .engine = f->engine, .clock = &f->clock.clock, .entropy = fake_entropy,
                              .enabled = enabled, .exposed = f->exposed };
    assert_int_equal(auth_new(&opts, &f->auth, &note), ERR_OK);
}

int authtest_up(void **state)
{
    static struct authtest f;
    f = (struct authtest){ .engine = NULL };
    rng_init(&entropy_rng, 7);
    f.clock = (struct authtest_clock){ .clock = { .store_now = still_store, .mono_now = still_mono },
                                    .ns = 1800000000 * NS_PER_S };
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
    if (got == ERR_OK)
        return AUTH_FINE;
    assert_int_equal(got, ERR_DENIED);
    assert_int_not_equal(why, AUTH_FINE);
    return why;
}

struct authtest_made authtest_make(struct authtest *f, const char *role, const char *space, store_time expires_at)
{
    struct authtest_made m;
    struct err_note note;
    struct auth_key_new n = { .roles = { str_of(role) }, .roles_count = 1, .space = str_of(space),
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
