#include "auth/grants.h"

#include "base/map.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- from rows ---- */

static err role_bits(struct engine_view *v, str space, str role, uint64_t *bits)
{
    const str spaces[] = { space, STR(AUTH_SYSTEM) };
    for (size_t i = 0; i < COUNT_OF(spaces); i++) {
        struct rowkey k;
        row_key_of_role(&k, spaces[i], role);
        struct engine_row row;
        err why = engine_get(v, SPACE_AUTH, rowkey_str(&k), &row);
        if (why == ERR_NOT_FOUND)
            continue;
        struct row_role r;
        if (why == ERR_OK)
            why = row_get_role(row.value, &r);
        if (why == ERR_OK)
            *bits |= r.bits;
        return why;
    }
    return ERR_OK; /* a binding to a role that is gone gives nothing */
}

static err add_grant(struct grants *g, str space, uint64_t bits)
{
    for (unsigned i = 0; i < g->count; i++)
        if (str_eq(str_of(g->of[i].space), space)) {
            g->of[i].bits |= bits;
            return ERR_OK;
        }
    INVARIANT(g->count < AUTH_GRANTS_MAX);
    if (!str_to_cstr(space, g->of[g->count].space, sizeof g->of[0].space))
        return ERR_CORRUPT;
    g->of[g->count++].bits = bits;
    return ERR_OK;
}

static err load_bindings(struct engine_view *v, str user_id, struct arena *a, struct grants *g)
{
    struct rowkey from, until;
    row_key_of_bindings(&from, user_id);
    row_key_of_bindings(&until, user_id);
    rowkey_prefix_end(&until);
    struct engine_cursor *c = engine_cursor_open(
        v, &(struct engine_range){ .space = SPACE_AUTH, .from = rowkey_str(&from), .until = rowkey_str(&until) });
    err why = ERR_OK;
    struct engine_row row;
    for (unsigned i = 0; i < AUTH_GRANTS_MAX && why == ERR_OK; i++) {
        why = engine_cursor_next(c, &row);
        str space = STR_NONE, role = STR_NONE, key = STR_NONE;
        uint64_t bits = 0;
        if (why == ERR_OK) {
            key = arena_copy(a, row.key); /* the next call on the view lets go of it */
            why = key.p == NULL ? ERR_LIMIT : row_binding_names(key, a, &space, &role);
        }
        if (why == ERR_OK)
            why = role_bits(v, space, role, &bits);
        if (why == ERR_OK)
            why = add_grant(g, space, bits);
    }
    engine_cursor_close(&c);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

static err load_key(struct engine_view *v, const struct secret_hash *h, struct arena *a, struct grants *g,
                    str *user_id)
{
    struct rowkey k;
    row_key_of_secret(&k, h);
    struct engine_row row;
    struct row_secret secret;
    err why = engine_get(v, SPACE_AUTH, rowkey_str(&k), &row);
    if (why == ERR_OK)
        why = row_get_secret(row.value, &secret);
    if (why != ERR_OK)
        return why;
    if (!secret_hash_eq(&secret.hash, h))
        return ERR_NOT_FOUND;
    g->expires_at = secret.expires_at;
    *user_id = arena_copy(a, secret.user_id);
    return user_id->p != NULL && str_to_cstr(secret.space, g->scope, sizeof g->scope) ? ERR_OK : ERR_CORRUPT;
}

err grants_load(struct engine *e, const struct secret_hash *h, struct grants **out)
{
    struct grants *g = calloc(1, sizeof *g + AUTH_GRANTS_MAX * sizeof g->of[0]);
    INVARIANT(g != NULL);
    g->expires_at = STORE_TIME_NEVER;
    INVARIANT(str_to_cstr(STR(AUTH_SYSTEM), g->scope, sizeof g->scope));
    struct arena a;
    arena_init(&a, 1u << 20);
    str user_id = STR(AUTH_ANONYMOUS);
    struct engine_view *v = engine_view_begin(e);
    err why = h == NULL ? ERR_OK : load_key(v, h, &a, g, &user_id);
    if (why == ERR_OK)
        why = load_bindings(v, user_id, &a, g);
    engine_view_end(&v);
    arena_fini(&a);
    if (why != ERR_OK) {
        free(g);
        return why;
    }
    struct grants *fit = realloc(g, sizeof *g + g->count * sizeof g->of[0]);
    *out = fit != NULL ? fit : g;
    return ERR_OK;
}

bool grants_allow(const struct grants *g, uint64_t bit, str space)
{
    const str all = STR(AUTH_SYSTEM), scope = str_of(g->scope);
    if (!str_eq(scope, all) && !str_eq(scope, space) && !str_eq(space, all))
        return false;
    for (unsigned i = 0; i < g->count; i++) {
        str where = str_of(g->of[i].space);
        if ((g->of[i].bits & bit) != 0 && (str_eq(where, all) || str_eq(where, space)))
            return true;
    }
    return false;
}

/* ---- the cache ---- */

struct grants_cache {
    pthread_rwlock_t lock;
    struct map *map;        /* hash -> struct grants */
    uint64_t seed, generation;
};

struct grants_cache *grants_cache_new(uint64_t seed)
{
    struct grants_cache *c = calloc(1, sizeof *c);
    INVARIANT(c != NULL);
    INVARIANT(pthread_rwlock_init(&c->lock, NULL) == 0);
    c->seed = seed;
    c->map = map_new(seed);
    return c;
}

static void free_each(void *ctx, str key, void *value)
{
    (void)ctx; /* nothing to know */
    (void)key; /* the map's */
    free(value);
}

static void empty(struct grants_cache *c)
{
    map_each(c->map, free_each, NULL);
    map_free(&c->map);
    c->map = map_new(c->seed);
}

void grants_cache_free(struct grants_cache **cp)
{
    if (*cp == NULL)
        return;
    map_each((*cp)->map, free_each, NULL);
    map_free(&(*cp)->map);
    INVARIANT(pthread_rwlock_destroy(&(*cp)->lock) == 0);
    free(*cp);
    *cp = NULL;
}

static str key_of(const struct secret_hash *h)
{
    return (str){ .p = (const char *)h->bytes, .n = SECRET_HASH_BYTES };
}

err grants_cache_ask(struct grants_cache *c, const struct secret_hash *h, uint64_t bit, str space,
                     struct grants_verdict *out)
{
    INVARIANT(pthread_rwlock_rdlock(&c->lock) == 0);
    const struct grants *g = map_get(c->map, key_of(h));
    if (g != NULL)
        *out = (struct grants_verdict){ .allowed = grants_allow(g, bit, space), .expires_at = g->expires_at };
    INVARIANT(pthread_rwlock_unlock(&c->lock) == 0);
    return g != NULL ? ERR_OK : ERR_NOT_FOUND;
}

uint64_t grants_cache_generation(struct grants_cache *c)
{
    INVARIANT(pthread_rwlock_rdlock(&c->lock) == 0);
    uint64_t generation = c->generation;
    INVARIANT(pthread_rwlock_unlock(&c->lock) == 0);
    return generation;
}

void grants_cache_add(struct grants_cache *c, const struct secret_hash *h, struct grants *g, uint64_t generation)
{
    struct grants *old = g; /* stays this when it is too old to keep */
    INVARIANT(pthread_rwlock_wrlock(&c->lock) == 0);
    if (c->generation == generation) {
        if (map_count(c->map) >= AUTH_CACHE_MAX)
            empty(c);
        old = map_put(c->map, key_of(h), g);
    }
    INVARIANT(pthread_rwlock_unlock(&c->lock) == 0);
    free(old);
}

void grants_cache_empty(struct grants_cache *c)
{
    INVARIANT(pthread_rwlock_wrlock(&c->lock) == 0);
    c->generation++;
    empty(c);
    INVARIANT(pthread_rwlock_unlock(&c->lock) == 0);
}
