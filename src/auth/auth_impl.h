/* auth_impl.h - what the files of the authority share. Private to auth. */
#ifndef AUTH_AUTH_IMPL_H
#define AUTH_AUTH_IMPL_H

#include "auth/auth.h"
#include "auth/glance.h"
#include "auth/grants.h"
#include "auth/permission.h"

#include <stdatomic.h>

#define AUTH_MAGIC 0xa07400a1u

struct auth {
    uint32_t magic;
    struct row_store *rows;
    struct row_store *own_rows; /* in the engine, made here; NULL: the caller's, shared */
    struct clock *clock;
    void (*entropy)(void *dst, size_t n);
    bool enabled, exposed;
    bool shared;       /* rows are those of other servers, too: perhaps not known, or too old */
    atomic_bool begun; /* what the rows may have lacked is written */
    struct grants_cache *cache;
    struct glances *glances;
};

/* An empty one means `_system`. */
static inline str space_meant(str space)
{
    return space.n > 0 ? space : STR(AUTH_SYSTEM);
}
/* The key of an Authorization field. False: it is not "Bearer <key>". */
bool auth_bearer_key(str field, str *key);
/* Writes what a store lacks: `_system`; with checks, anonymous with the open door and the standard
 * roles as this version has them. A door that was closed stays closed. */
MUST_CHECK err auth_bootstrap(struct auth *a, struct err_note *note);

#endif
