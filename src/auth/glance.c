/* glance.c - slots under a lock each; two that want one slot take turns in it.
 *
 * Invariant: a slot without a permission is empty. */
#include "auth/glance.h"

#include "base/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct slot {
    pthread_mutex_t lock;
    const char *permission;
    uint64_t generation;
    store_time expires_at;
    bool has_field;
    unsigned char field_n, space_n;
    char field[GLANCE_FIELD_BYTES_MAX], space[GLANCE_SPACE_BYTES_MAX];
};

struct glances {
    uint64_t seed;
    struct slot slots[GLANCE_SLOTS];
};

struct glances *glances_new(uint64_t seed)
{
    struct glances *g = calloc(1, sizeof *g);
    INVARIANT(g != NULL);
    g->seed = seed;
    for (unsigned i = 0; i < GLANCE_SLOTS; i++)
        INVARIANT(pthread_mutex_init(&g->slots[i].lock, NULL) == 0);
    return g;
}

void glances_free(struct glances **gp)
{
    struct glances *g = *gp;
    if (g == NULL)
        return;
    for (unsigned i = 0; i < GLANCE_SLOTS; i++)
        INVARIANT(pthread_mutex_destroy(&g->slots[i].lock) == 0);
    free(g);
    *gp = NULL;
}

/* NULL: it is too long for one. */
static struct slot *slot_of(struct glances *g, const struct glance *what)
{
    if (what->field.n > GLANCE_FIELD_BYTES_MAX || what->space.n > GLANCE_SPACE_BYTES_MAX)
        return NULL;
    /* Of the namespace a little: most senders have one. */
    uint64_t space = what->space.n == 0 ? 0 : (unsigned char)what->space.p[0] ^ what->space.n << 8;
    return &g->slots[XXH3_64bits_withSeed(what->field.p, what->field.n, g->seed + space) %
                     GLANCE_SLOTS];
}

static bool is_same(const char *kept, unsigned kept_n, str s)
{
    return kept_n == s.n && (s.n == 0 || memcmp(kept, s.p, s.n) == 0);
}

bool glances_ask(struct glances *g, const struct glance *what, uint64_t generation,
                 store_time *expires_at)
{
    struct slot *s = slot_of(g, what);
    if (s == NULL)
        return false;
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    bool known = s->permission == what->permission && s->generation == generation &&
                 s->has_field == (what->field.p != NULL) &&
                 is_same(s->field, s->field_n, what->field) &&
                 is_same(s->space, s->space_n, what->space);
    *expires_at = s->expires_at;
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
    return known;
}

void glances_add(struct glances *g, const struct glance *what, uint64_t generation,
                 store_time expires_at)
{
    struct slot *s = slot_of(g, what);
    if (s == NULL)
        return;
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    s->permission = what->permission;
    s->generation = generation;
    s->expires_at = expires_at;
    s->has_field = what->field.p != NULL;
    s->field_n = (unsigned char)what->field.n;
    s->space_n = (unsigned char)what->space.n;
    if (what->field.n > 0)
        memcpy(s->field, what->field.p, what->field.n);
    if (what->space.n > 0)
        memcpy(s->space, what->space.p, what->space.n);
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
}
