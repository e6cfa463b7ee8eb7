/* auth.c - the check, and the life of the authority. Changes are in change.c. */
#include "auth/auth_impl.h"
#include "auth/engine_rows.h"

#include <stdlib.h>
#include <string.h>

bool auth_enabled(const struct auth *a)
{
    return a->enabled;
}

/* What was concluded from the rows before is void. */
static void rows_changed(void *ctx)
{
    const struct auth *a = ctx;
    grants_cache_empty(a->cache);
}

err auth_new(const struct auth_opts *opts, struct auth **out, struct err_note *note)
{
    struct auth *a = calloc(1, sizeof *a);
    INVARIANT(a != NULL);
    uint64_t seed;
    opts->entropy(&seed, sizeof seed);
    *a = (struct auth){ .magic = AUTH_MAGIC,
                        .shared = opts->rows != NULL,
                        .clock = opts->clock,
                        .entropy = opts->entropy,
                        .enabled = opts->enabled,
                        .exposed = opts->exposed,
                        .cache = grants_cache_new(seed),
                        .glances = glances_new(seed) };
    if (!a->shared)
        a->own_rows = engine_rows_new(opts->engine);
    a->rows = a->shared ? opts->rows : a->own_rows;
    row_store_listen(a->rows, rows_changed, a);
    err why = a->shared ? ERR_OK : auth_begin(a, note);
    if (why != ERR_OK) {
        auth_free(&a);
        return why;
    }
    *out = a;
    return ERR_OK;
}

err auth_begin(struct auth *a, struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct err_note told;
    err why = auth_bootstrap(a, &told);
    if (why != ERR_OK)
        err_note_set(note, "the rows of users and keys cannot be made: %s (%s)", err_name(why),
                     told.text);
    else
        atomic_store(&a->begun, true);
    return why;
}

bool auth_known(const struct auth *a)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    return !a->enabled || !a->shared || (atomic_load(&a->begun) && row_store_known(a->rows));
}

void auth_free(struct auth **ap)
{
    struct auth *a = *ap;
    if (a == NULL)
        return;
    MAGIC_CHECK(a, AUTH_MAGIC);
    grants_cache_free(&a->cache);
    glances_free(&a->glances);
    engine_rows_free(&a->own_rows);
    a->magic = 0;
    free(a);
    *ap = NULL;
}

const char *auth_reason_text(enum auth_reason r)
{
    static const char *const texts[AUTH_REASONS] = {
        [AUTH_FINE] = "allowed",
        [AUTH_NOT_BEARER] = "invalid authorization header format",
        [AUTH_NO_KEY] = "access denied",
        [AUTH_KEY_INVALID] = "api key is invalid",
        [AUTH_KEY_UNKNOWN] = "api key does not exist",
        [AUTH_KEY_EXPIRED] = "api key has expired",
        [AUTH_FORBIDDEN] = "access denied",
    };
    return texts[r];
}

/* The scheme in any letter case, one space or more, then the key. */
bool auth_bearer_key(str field, str *key)
{
    const str usual = STR("Bearer q");
    if (field.n > usual.n && memcmp(field.p, usual.p, usual.n) == 0) {
        *key = str_trim(str_skip(field, usual.n - 1));
        return true;
    }
    str scheme = str_take(field, str_find(field, ' '));
    if (!str_eq_nocase(scheme, STR("Bearer")))
        return false;
    *key = str_trim(str_skip(field, scheme.n));
    return key->n > 0;
}

bool auth_is_bearer(str authorization)
{
    str key;
    return auth_bearer_key(authorization, &key);
}

void auth_shown(str authorization, char out[AUTH_PREFIX_BYTES_MAX + 1])
{
    str key;
    if (auth_bearer_key(authorization, &key) && secret_valid(key))
        secret_prefix(key, out);
    else
        INVARIANT(str_to_cstr(STR(AUTH_ANONYMOUS), out, AUTH_PREFIX_BYTES_MAX + 1));
}

/* From the cache, else from the rows. h NULL: anonymous, whose place in the cache is the hash of
 * nothing. */
static err auth_ask(struct auth *a, const struct secret_hash *h, uint64_t bit, str space,
                    struct grants_verdict *out)
{
    struct secret_hash of_nothing = { .bytes = { 0 } };
    const struct secret_hash *place = h != NULL ? h : &of_nothing;
    if (grants_cache_ask(a->cache, place, bit, space, out) == ERR_OK)
        return ERR_OK;
    uint64_t generation = grants_cache_generation(a->cache);
    struct grants *g;
    err why = grants_load(a->rows, h, &g);
    if (why != ERR_OK)
        return why;
    *out = (struct grants_verdict){ .allowed = grants_allow(g, bit, space),
                                    .expires_at = g->expires_at };
    grants_cache_add(a->cache, place, g, generation);
    return ERR_OK;
}

static err denied(enum auth_reason reason, enum auth_reason *why)
{
    *why = reason;
    return ERR_DENIED;
}

/* *expires_at: of the key, when it may. */
static err check(struct auth *a, str authorization, const char *permission, str space,
                 enum auth_reason *why, store_time *expires_at)
{
    bool has_key = authorization.p != NULL;
    str key = STR_NONE;
    if (has_key && !auth_bearer_key(authorization, &key))
        return denied(AUTH_NOT_BEARER, why);
    if (!a->enabled)
        return ERR_OK;
    if (has_key && !secret_valid(key))
        return denied(AUTH_KEY_INVALID, why);
    if (a->shared && !row_store_known(a->rows))
        return ERR_UNAVAILABLE; /* a key may be revoked that was good when it was last seen */
    if (a->shared && a->exposed && !has_key)
        return denied(AUTH_NO_KEY, why); /* another server may have opened the door */
    uint64_t bit = 0;
    bool known = permission != NULL && permission_bit(str_of(permission), &bit);
    struct secret_hash hash;
    if (has_key)
        hash = secret_hash(key);
    struct grants_verdict verdict;
    err failed = auth_ask(a, has_key ? &hash : NULL, bit, space_meant(space), &verdict);
    if (failed == ERR_NOT_FOUND)
        return denied(AUTH_KEY_UNKNOWN, why);
    if (failed != ERR_OK)
        return failed;
    if (!store_time_before(clock_store(a->clock), verdict.expires_at))
        return denied(AUTH_KEY_EXPIRED, why);
    if (permission != NULL && (!known || !verdict.allowed))
        return denied(has_key ? AUTH_FORBIDDEN : AUTH_NO_KEY, why);
    *expires_at = verdict.expires_at;
    return ERR_OK;
}

err auth_check(struct auth *a, str authorization, const char *permission, str space,
               enum auth_reason *why)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    store_time expires_at; /* judged already */
    return check(a, authorization, permission, space, why, &expires_at);
}

bool auth_glance(struct auth *a, str authorization, const char *permission, str space)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    if (!a->enabled)
        return true;
    if (a->shared && !row_store_known(a->rows))
        return false;
    const struct glance what = { .field = authorization, .space = space, .permission = permission };
    store_time expires_at;
    uint64_t generation = grants_cache_generation(a->cache);
    if (glances_ask(a->glances, &what, generation, &expires_at))
        return expires_at.ns == STORE_TIME_NEVER.ns ||
               store_time_before(clock_store(a->clock), expires_at);
    enum auth_reason why;
    if (check(a, authorization, permission, space, &why, &expires_at) != ERR_OK)
        return false;
    glances_add(a->glances, &what, generation, expires_at);
    return true;
}
