/* grants.h - what one key may do where, gathered from the rows; and the cache of it. Private to
 * auth. */
#ifndef AUTH_GRANTS_H
#define AUTH_GRANTS_H

#include "auth/rows.h"
#include "store/row_store.h"

struct grant {
    char space[AUTH_NAME_BYTES_MAX + 1];
    uint64_t bits;
};
struct grants {
    char scope[AUTH_NAME_BYTES_MAX + 1]; /* empty: none */
    store_time expires_at;
    unsigned count;
    struct grant of[]; /* one each namespace */
};

/* Of the key with this hash; NULL: of anonymous. *out is the caller's, by free(). Fails:
 * ERR_NOT_FOUND (no such key), ERR_CORRUPT, ERR_IO. Thread: any. */
MUST_CHECK err grants_load(struct row_store *rows, const struct secret_hash *h,
                           struct grants **out);
/* As that, in a view: one that a decision has, too. */
MUST_CHECK err grants_read(struct row_view *v, const struct secret_hash *h, struct grants **out);
/* Of a user, by all keys it has. */
MUST_CHECK err grants_read_user(struct row_view *v, str user_id, struct grants **out);
/* The permissions of a role. ERR_NOT_FOUND. */
MUST_CHECK err grants_role_bits(struct row_view *v, str space, str role, uint64_t *bits);
/* What they allow in space, expiry aside; and do they allow bit there? In `_system`: what they
 * allow there itself, which a scope does not take away; it counts everywhere only without one. */
uint64_t grants_bits(const struct grants *g, str space);
bool grants_allow(const struct grants *g, uint64_t bit, str space);

/* Remembers grants by hash until emptied or AUTH_CACHE_MAX. Thread: any. */
struct grants_cache;
struct grants_cache *grants_cache_new(uint64_t seed);
void grants_cache_free(struct grants_cache **cp);
/* Copies the verdict out under the lock: ERR_NOT_FOUND when it is not in there. */
struct grants_verdict {
    bool allowed;
    store_time expires_at;
};
MUST_CHECK err grants_cache_ask(struct grants_cache *c, const struct secret_hash *h, uint64_t bit,
                                str space, struct grants_verdict *out);
/* Read it before loading, give it back with what was loaded: what was loaded before a change is not
 * kept. */
uint64_t grants_cache_generation(struct grants_cache *c);
/* Takes g. */
void grants_cache_add(struct grants_cache *c, const struct secret_hash *h, struct grants *g,
                      uint64_t generation);
void grants_cache_empty(struct grants_cache *c);

#endif
