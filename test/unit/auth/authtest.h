/* authtest.h - the authority on an engine in memory that runs every decision twice, and a clock
 * that stands. */
#ifndef TEST_AUTHTEST_H
#define TEST_AUTHTEST_H

#include "auth/authority.h"
#include "lib/clock.h"

struct engine;
struct authtest {
    struct fake_clock clock;
    struct engine *engine;
    struct auth *auth;
    bool exposed; /* from the next restart on */
};
/* cmocka's set up and tear down; *state is a struct authtest, with checks on. */
int authtest_up(void **state);
int authtest_down(void **state);
void authtest_restart(struct authtest *f, bool enabled);
/* A header field with the key; of the last call alone. */
str authtest_bearer(const char *key);
/* AUTH_FINE, or why not. */
enum auth_reason authtest_ask(struct authtest *f, str field, const char *permission, str space);
struct authtest_made {
    struct auth_key key;
    char secret[AUTH_KEY_BYTES_MAX + 1];
};
struct authtest_made authtest_make(struct authtest *f, const char *role, const char *space,
                                   store_time expires_at);
void authtest_lock(struct authtest *f);

/* Each is made, or the test fails. */
const char *authtest_user(struct authtest *f, const char *name); /* its id; until the next call */
void authtest_space(struct authtest *f, const char *name, const char *tag);
void authtest_role(struct authtest *f, const char *space, const char *name, const char *permission);
void authtest_bind(struct authtest *f, const char *space, const char *role, const char *user);
struct auth_secret authtest_key(struct authtest *f, const char *user, const char *scope,
                                const char *tag);
struct auth_binding_new authtest_binding(const char *space, const char *role, const char *user);
enum auth_reason authtest_ask_key(struct authtest *f, const struct auth_secret *s,
                                  const char *permission, const char *space);

#endif
