/* grants.c - gathers from the rows what one key may do in each namespace, and keeps the result
 * in a cache. Invariant: an entry of the cache is used only in the generation in which its rows
 * were read; each change of the authority begins a new generation. */
#include "auth/grants.h"

#include "auth/txn.h"
#include "base/map.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- from rows ---- */

err grants_role_bits(struct row_view *v, str space, str role, uint64_t *bits)
{
    struct rowkey k;
    struct row row;
    struct row_role r;
    row_key2(&k, 'r', space, role);
    err why = rows_find(v, &k, &row);
    if (why == ERR_OK)
        why = row_get_role(row.value, &r);
    if (why == ERR_OK)
        *bits = r.bits;
    return why;
}

/* A binding to a role that is gone gives nothing. */
static err bound_bits(struct row_view *v, const struct row_binding *b, uint64_t *bits)
{
    err why = grants_role_bits(v, b->role_space, b->role_name, bits);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

/* What a binding's row says, copied into a: the next call on the view lets go of it. */
static err read_binding(const struct row *row, struct arena *a, str *space, struct row_binding *b)
{
    str key = arena_copy(a, row->key), value = arena_copy(a, row->value), texts[3];
    if (key.p == NULL || value.p == NULL)
        return ERR_LIMIT;
    err why = row_key_texts(key, 'b', a, texts, COUNT_OF(texts));
    *space = texts[1];
    return why != ERR_OK ? why : row_get_binding(value, b);
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

static err load_bindings(struct row_view *v, str user_id, struct arena *a, struct grants *g)
{
    struct rowkey from, until;
    row_key1(&from, 'b', user_id);
    until = from;
    rowkey_prefix_end(&until);
    struct row_cursor *c = row_cursor_open(v, rowkey_str(&from), rowkey_str(&until));
    err why = ERR_OK;
    for (unsigned i = 0; i < AUTH_GRANTS_MAX && why == ERR_OK; i++) {
        struct row row;
        struct row_binding b;
        str space = STR_NONE;
        uint64_t bits = 0;
        why = row_cursor_next(c, &row);
        if (why == ERR_OK)
            why = read_binding(&row, a, &space, &b);
        if (why == ERR_OK)
            why = bound_bits(v, &b, &bits);
        if (why == ERR_OK)
            why = add_grant(g, space, bits);
    }
    row_cursor_close(&c);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

static err load_key(struct row_view *v, const struct secret_hash *h, struct arena *a,
                    struct grants *g, str *user_id)
{
    struct rowkey k;
    row_key_of_secret(&k, h);
    struct row row;
    struct row_secret secret;
    err why = row_get(v, rowkey_str(&k), &row);
    if (why == ERR_OK)
        why = row_get_secret(row.value, &secret);
    if (why != ERR_OK)
        return why;
    if (!secret_hash_eq(&secret.hash, h))
        return ERR_NOT_FOUND;
    g->expires_at = secret.expires_at;
    *user_id = arena_copy(a, secret.user_id);
    return user_id->p != NULL && str_to_cstr(secret.scope, g->scope, sizeof g->scope) ? ERR_OK
                                                                                      : ERR_CORRUPT;
}

/* h NULL: of this user. */
static err auth_grants_load(struct row_view *v, const struct secret_hash *h, str user_id,
                            struct grants **out)
{
    struct grants *g = calloc(1, sizeof *g + AUTH_GRANTS_MAX * sizeof g->of[0]);
    INVARIANT(g != NULL);
    g->expires_at = STORE_TIME_NEVER;
    struct arena a;
    arena_init(&a, 1u << 20);
    err why = h == NULL ? ERR_OK : load_key(v, h, &a, g, &user_id);
    if (why == ERR_OK)
        why = load_bindings(v, user_id, &a, g);
    arena_fini(&a);
    if (why != ERR_OK) {
        free(g);
        return why;
    }
    struct grants *fit = realloc(g, sizeof *g + g->count * sizeof g->of[0]);
    *out = fit != NULL ? fit : g;
    return ERR_OK;
}

err grants_read(struct row_view *v, const struct secret_hash *h, struct grants **out)
{
    return auth_grants_load(v, h, STR(AUTH_ANONYMOUS), out);
}

err grants_load(struct row_store *rows, const struct secret_hash *h, struct grants **out)
{
    struct row_view *v = row_view_begin(rows);
    err why = grants_read(v, h, out);
    row_view_end(&v);
    return why;
}

err grants_read_user(struct row_view *v, str user_id, struct grants **out)
{
    return auth_grants_load(v, NULL, user_id, out);
}

uint64_t grants_bits(const struct grants *g, str space)
{
    const str all = STR(AUTH_SYSTEM), scope = str_of(g->scope);
    bool anywhere = str_eq(space, STR(AUTH_ANYWHERE));
    if (anywhere && scope.n > 0) {
        space = scope;
        anywhere = false;
    }
    uint64_t bits = 0;
    if (scope.n > 0 && !str_eq(scope, space) && !str_eq(space, all))
        return bits;
    for (unsigned i = 0; i < g->count; i++) {
        str where = str_of(g->of[i].space);
        if (anywhere || str_eq(where, all) || str_eq(where, space))
            bits |= g->of[i].bits;
    }
    return bits;
}

bool grants_allow(const struct grants *g, uint64_t bit, str space)
{
    return (grants_bits(g, space) & bit) != 0;
}

/* ---- the cache ---- */

struct grants_cache {
    pthread_rwlock_t lock;
    struct map *map; /* hash -> struct grants */
    uint64_t seed;
    _Atomic uint64_t generation; /* changed under the lock */
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

static void grants_empty(struct grants_cache *c)
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
        *out = (struct grants_verdict){ .allowed = grants_allow(g, bit, space),
                                        .expires_at = g->expires_at };
    INVARIANT(pthread_rwlock_unlock(&c->lock) == 0);
    return g != NULL ? ERR_OK : ERR_NOT_FOUND;
}

uint64_t grants_cache_generation(struct grants_cache *c)
{
    return atomic_load(&c->generation);
}

void grants_cache_add(struct grants_cache *c, const struct secret_hash *h, struct grants *g,
                      uint64_t generation)
{
    struct grants *old = g; /* stays this when it is too old to keep */
    INVARIANT(pthread_rwlock_wrlock(&c->lock) == 0);
    if (c->generation == generation) {
        if (map_count(c->map) >= AUTH_CACHE_MAX)
            grants_empty(c);
        old = map_put(c->map, key_of(h), g);
    }
    INVARIANT(pthread_rwlock_unlock(&c->lock) == 0);
    free(old);
}

void grants_cache_empty(struct grants_cache *c)
{
    INVARIANT(pthread_rwlock_wrlock(&c->lock) == 0);
    c->generation++;
    grants_empty(c);
    INVARIANT(pthread_rwlock_unlock(&c->lock) == 0);
}
