/* auth.h - who may do what: users, keys, roles, bindings in namespaces; one authority for all routes.
 *
 * Model. A key belongs to a user and has a scope, a namespace. A role is a named set of permissions; a
 * binding gives a user a role in a namespace. A request asks for one permission in one namespace: content
 * routes in the namespace named as the domain, admin routes in `_system`. Bindings in `_system` count
 * everywhere. A key scoped to another namespace than `_system` opens that one only (and what its user may do
 * in `_system` itself). A request without a key is made by the user `anonymous`.
 *   A new store has the standard roles and one binding, anonymous -> Admin, the open door: until it is
 * taken away every request is allowed, and the server listens on loopback only.
 *   Keys are `qtr-<tag>-<entropy>` (32 random bytes in base62); stored is their SHA-256, compared in constant
 * time, shown is `qtr-<tag>-` and eight characters. What a key may do is cached; every change made through
 * this object empties the cache before it returns. Expiry is judged at every check.
 * Source: Querator's ADR 25 as its transport tests pin it.
 *
 * Rows in SPACE_AUTH: rows.h. Thread: any; changes wait for the disk: a pool job or start-up. */
#ifndef AUTH_AUTH_H
#define AUTH_AUTH_H

#include "base/check.h"
#include "base/err.h"
#include "base/str.h"
#include "base/times.h"

enum {
    AUTH_NAME_BYTES_MAX = 255,     /* of a namespace or user */
    AUTH_ROLE_BYTES_MAX = 128,
    AUTH_TAG_BYTES_MAX = 16,
    AUTH_ID_BYTES = 27,            /* KSUID text */
    AUTH_KEY_BYTES_MAX = 4 + AUTH_TAG_BYTES_MAX + 1 + 43,
    AUTH_PREFIX_BYTES_MAX = 4 + AUTH_TAG_BYTES_MAX + 1 + 8,
    AUTH_KEYS_MAX = 100000,        /* in one store */
    AUTH_ROLES_OF_KEY_MAX = 8,     /* given at once to a new key */
    AUTH_GRANTS_MAX = 256,         /* bindings of one user */
    AUTH_CACHE_MAX = 4096,         /* keys whose rights are remembered */
};
#define AUTH_SYSTEM "_system"
#define AUTH_ANONYMOUS "anonymous"

struct engine;
struct auth;
struct auth_opts {
    struct engine *engine;
    struct clock *clock;                      /* store_time: expiry */
    void (*entropy)(void *dst, size_t n);     /* unguessable bytes */
    bool enabled;                             /* false: every check passes */
};
/* Owner: caller; engine and clock outlive it. When enabled it writes what a new store lacks, so the engine
 * must be started. Fails: what the engine says, ERR_CORRUPT. */
MUST_CHECK err auth_new(const struct auth_opts *opts, struct auth **out, struct err_note *note);
void auth_free(struct auth **ap);
bool auth_enabled(const struct auth *a);
/* Is it the name of a permission? Routes are checked with it at start. */
bool auth_permission_known(const char *permission);

enum auth_reason {
    AUTH_FINE,
    AUTH_NOT_BEARER,   /* a header that is not "Bearer <key>" */
    AUTH_NO_KEY,       /* no header, and anonymous may not */
    AUTH_KEY_INVALID,  /* not the form of a key */
    AUTH_KEY_UNKNOWN,
    AUTH_KEY_EXPIRED,
    AUTH_FORBIDDEN,    /* a good key, but not for this */
    AUTH_REASONS
};
/* The sentence for the client: "api key does not exist". Static. */
const char *auth_reason_text(enum auth_reason r);

/* May the sender of this Authorization field (STR_NONE: none) do that there?
 *   permission  one that is known, else nobody may; NULL: only whether the key is good
 *   space       namespace: the domain, or AUTH_SYSTEM; an empty one means AUTH_SYSTEM
 * ERR_OK; ERR_DENIED with *why (never AUTH_FINE); what the engine says. Never blocks on a write.
 * A field that is not Bearer is AUTH_NOT_BEARER also when everything is open: content routes pass STR_NONE
 * instead (auth_is_bearer). */
MUST_CHECK err auth_check(struct auth *a, str authorization, const char *permission, str space,
                          enum auth_reason *why);
bool auth_is_bearer(str authorization);

/* ---- keys ---- */
struct auth_key_new {
    str name;                               /* of its user, which is made with it; empty: "key-<id>" */
    str roles[AUTH_ROLES_OF_KEY_MAX];       /* names of roles in space or `_system` */
    unsigned roles_count;                   /* 0 is refused */
    str space;                              /* scope and where the roles are bound; empty: `_system` */
    str tag;                                /* empty: the namespace's, else "live" */
    store_time expires_at;                  /* NEVER: does not */
};
struct auth_key {
    char id[AUTH_ID_BYTES + 1];
    char prefix[AUTH_PREFIX_BYTES_MAX + 1]; /* what may be shown */
    char user[AUTH_NAME_BYTES_MAX + 1];     /* its user's name */
    char space[AUTH_NAME_BYTES_MAX + 1];
    char roles[AUTH_NAME_BYTES_MAX + 1];    /* of its user in space: "read,purge", cut when longer */
    store_time created_at, expires_at;
};
/* Makes a user, its bindings and its key in one update. secret: the whole key, given out here and never
 * again; NUL-terminated. Fails: ERR_BAD (names, unknown role), ERR_CONFLICT (user name taken), ERR_LIMIT. */
MUST_CHECK err auth_key_create(struct auth *a, const struct auth_key_new *n, struct auth_key *out,
                               char secret[AUTH_KEY_BYTES_MAX + 1], struct err_note *note);
/* Every key in order of its hash; until each returns false. */
MUST_CHECK err auth_key_list(struct auth *a, bool (*each)(void *ctx, const struct auth_key *k), void *ctx);
/* Deletes the key with this id, and its user and bindings when that was the user's last key.
 * ERR_NOT_FOUND. From its return on the key opens nothing. */
MUST_CHECK err auth_key_delete(struct auth *a, str id, struct err_note *note);

/* ---- the open door ---- */
/* Does anonymous hold any binding? true too on a store that has no auth rows yet. */
MUST_CHECK err auth_door_open(struct auth *a, bool *open);
/* Takes every binding from anonymous (open false) or gives it Admin (true). */
MUST_CHECK err auth_door_set(struct auth *a, bool open, struct err_note *note);

#endif
