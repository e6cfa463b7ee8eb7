/* auth.h - who may do what: users, keys, roles, bindings in namespaces; one authority for all
 * routes.
 *
 * Model. A key belongs to a user and may have a scope, a namespace. A role is a named set of
 * permissions in a namespace; a binding gives a user a role in a namespace. A request asks for one
 * permission in one namespace: content routes in the namespace named as the domain, queue routes in
 * that of the queue, admin routes in `_system`. Bindings in `_system` count everywhere. A key with
 * a scope opens that namespace only (and what its user may do in `_system` itself). A request
 * without a key is made by the user `anonymous`.
 *   Bindings are made in namespaces that are there. Whatever the name of one, a domain of that name
 * may come, so rights on content are given only by who has them himself.
 *   A store that is opened with checks for the first time gets the standard roles and one binding,
 * anonymous -> Admin, the open door: until it is taken away every request is allowed, and the
 * server listens on loopback only. A door that was closed stays closed. `_system` is always there;
 * with checks off, nothing else is.
 *   Keys are `qtr-<tag>-<entropy>` (32 random bytes in base62); stored is their SHA-256, compared
 * in constant time, shown is `qtr-<tag>-` and eight characters. What a key may do is cached; every
 * change made through this object empties the cache before it returns. Expiry is judged at every
 * check.
 *   Rows may be those of many servers (opts.rows). Then they are known as of a moment ago; a change
 * made elsewhere empties the cache when it is seen. While they are not known, or only as they were
 * too long ago, every check is ERR_UNAVAILABLE: a key that was revoked meanwhile must not pass. A
 * server that others reach (exposed) gives anonymous nothing then, whatever the rows say.
 * Source: Querator's ADR 25 as its transport tests pin it (docs/peers.md, 2).
 *
 * Rows: rows.h; in an engine in SPACE_AUTH. Thread: any; changes wait for the disk: a pool job or
 * start-up. */
#ifndef AUTH_AUTH_H
#define AUTH_AUTH_H

#include "base/arena.h"
#include "base/check.h"
#include "base/err.h"
#include "base/str.h"
#include "base/times.h"
#include "codec/json.h"

enum {
    AUTH_NAME_BYTES_MAX = 256, /* of a namespace; of a user made with its key */
    AUTH_USER_BYTES_MAX = 128, /* of a user's name */
    AUTH_MAIL_BYTES_MAX = 256, /* email, external id */
    AUTH_ROLE_BYTES_MAX = 128,
    AUTH_KEY_NAME_BYTES_MAX = 128,
    AUTH_TEXT_BYTES_MAX = 2000, /* description of a namespace */
    AUTH_TAG_BYTES_MAX = 16,
    AUTH_ID_BYTES = 27, /* KSUID text */
    AUTH_KEY_BYTES_MAX = 4 + AUTH_TAG_BYTES_MAX + 1 + 43,
    AUTH_PREFIX_BYTES_MAX = 4 + AUTH_TAG_BYTES_MAX + 1 + 8,
    AUTH_SPACES_MAX = 100000, /* in one store; so many users and keys, too */
    AUTH_USERS_MAX = 100000,
    AUTH_KEYS_MAX = 100000,
    AUTH_ROLES_MAX = 100000,
    AUTH_KEYS_OF_USER_MAX = 1000,
    AUTH_GRANTS_MAX = 256,     /* bindings of one user */
    AUTH_ROLES_OF_KEY_MAX = 8, /* given at once to a new key */
    AUTH_PERMISSIONS_MAX = 64, /* that there are */
    AUTH_PAGE_DEFAULT = 1000,  /* rows of a list without a limit */
    AUTH_PAGE_MAX = 65536,
    AUTH_PAGE_BYTES_MAX = 8 << 20, /* a list stops here, with at least one row */
    AUTH_PLACE_BYTES = 8,  /* the first of a key's hash: no two keys share them but by a miracle */
    AUTH_CACHE_MAX = 4096, /* keys whose rights are remembered */
};
#define AUTH_SYSTEM "_system"
#define AUTH_ANONYMOUS "anonymous"
#define AUTH_ANYWHERE                                                                              \
    "\xff" /* as a space that is asked for: in one at least. Names are UTF-8: none is this */

struct engine;
struct row_store;
struct auth;
struct auth_opts {
    struct engine *engine;
    struct row_store *rows; /* that many servers share (store/row_store.h); NULL: in the engine */
    struct clock *clock;    /* store_time: expiry */
    void (*entropy)(void *dst, size_t n); /* unguessable bytes */
    bool enabled;                         /* false: every check passes */
    bool exposed; /* others than this machine reach it: anonymous gets no rights */
};
/* Owner: caller; engine, rows and clock outlive it. It writes what a new engine lacks, which must
 * be started. With shared rows it writes nothing: auth_begin does. Fails: what the engine says,
 * ERR_CORRUPT. */
MUST_CHECK err auth_new(const struct auth_opts *opts, struct auth **out, struct err_note *note);
/* With shared rows: writes what they lack. Until it succeeded once on some server, nobody may do
 * anything. Again it changes nothing. Fails: what the store says. Blocks: a pool job. */
MUST_CHECK err auth_begin(struct auth *a, struct err_note *note);
void auth_free(struct auth **ap);
bool auth_enabled(const struct auth *a);
/* Is enough known to judge by? With shared rows: auth_begin succeeded here, and they are recent. */
bool auth_known(const struct auth *a);
/* Is it the name of a permission? Routes are checked with it at start. */
bool auth_permission_known(const char *permission);

enum auth_reason {
    AUTH_FINE,
    AUTH_NOT_BEARER,  /* a header that is not "Bearer <key>" */
    AUTH_NO_KEY,      /* no header, and anonymous may not */
    AUTH_KEY_INVALID, /* not the form of a key */
    AUTH_KEY_UNKNOWN,
    AUTH_KEY_EXPIRED,
    AUTH_FORBIDDEN, /* a good key, but not for this */
    AUTH_REASONS
};
/* The sentence for the client: "api key does not exist". Static. */
const char *auth_reason_text(enum auth_reason r);

/* May the sender of this Authorization field (STR_NONE: none) do that there?
 *   permission  one that is known, else nobody may; NULL: only whether the key is good
 *   space       namespace: the domain, or AUTH_SYSTEM; an empty one means AUTH_SYSTEM; or
 * AUTH_ANYWHERE ERR_OK; ERR_DENIED with *why (never AUTH_FINE); what the engine says. Never blocks
 * on a write. A field that is not Bearer is AUTH_NOT_BEARER also when everything is open: content
 * routes pass STR_NONE instead (auth_is_bearer). */
MUST_CHECK err auth_check(struct auth *a, str authorization, const char *permission, str space,
                          enum auth_reason *why);
bool auth_is_bearer(str authorization);
/* Would auth_check allow it? For what is asked with every request: a sender who was allowed is
 * known by the whole field, until any change of the authority, or the key's end. permission: a
 * string of the program's own, the same one each time. */
bool auth_glance(struct auth *a, str authorization, const char *permission, str space);

/* ---- nobody gives what he has not: to be asked, on the pool, before what the sender of
 * authorization gives ---- ERR_DENIED with a sentence in note; what the engine says. What is not
 * there is passed over: the change tells it. An empty space means AUTH_SYSTEM. With a key of one
 * namespace nothing is given that counts elsewhere. Of bindings and of the roles of a new key the
 * change asks itself (its giver): a name may be another role by then. */
/* A role with those permissions in space: all of them in `_system`, elsewhere those on content. */
MUST_CHECK err auth_may_give_permissions(struct auth *a, str authorization, str space,
                                         const str *permissions, unsigned count,
                                         struct err_note *note);
/* A key of that user with that scope (empty: none): it is as good as what the user may do there. */
MUST_CHECK err auth_may_give_key(struct auth *a, str authorization, str user_id, str scope,
                                 struct err_note *note);
/* Admin to anonymous. */
MUST_CHECK err auth_may_open_door(struct auth *a, str authorization, struct err_note *note);

/* Who sent it, as logs may say: what may be shown of the key, or "anonymous". Says nothing of
 * whether it is good. */
void auth_shown(str authorization, char out[AUTH_PREFIX_BYTES_MAX + 1]);

/* ---- keys with a user of their own: what `token` makes ---- */
struct auth_key_new {
    str name;                         /* of its user, which is made with it; empty: "key-<id>" */
    str roles[AUTH_ROLES_OF_KEY_MAX]; /* names of roles in space or `_system` */
    unsigned roles_count;             /* 0 is refused */
    str space;             /* scope and where the roles are bound; empty: none, `_system` */
    str tag;               /* empty: the namespace's, else "live" */
    store_time expires_at; /* NEVER: does not */
    const str *giver;      /* Authorization field of who asks; NULL: nobody has to be asked */
};
struct auth_key {
    char id[AUTH_ID_BYTES + 1];
    char prefix[AUTH_PREFIX_BYTES_MAX + 1]; /* what may be shown */
    char user[AUTH_NAME_BYTES_MAX + 1];     /* its user's name */
    char space[AUTH_NAME_BYTES_MAX + 1];    /* `_system` when it has no scope */
    char roles[AUTH_NAME_BYTES_MAX + 1]; /* of its user in space: "read,purge", cut when longer */
    store_time created_at, expires_at;
    unsigned char place[AUTH_PLACE_BYTES]; /* where it stands in a list */
};
/* Its words alone, but for roles that are not there: ERR_BAD. */
MUST_CHECK err auth_key_check(const struct auth_key_new *n, struct err_note *note);
/* Makes a user, its bindings and its key in one update; the namespace, too, when it is not there.
 * secret: the whole key, given out here and never again; NUL-terminated. Fails: ERR_BAD (names,
 * unknown role), ERR_CONFLICT (user name taken), ERR_LIMIT, ERR_DENIED (the giver has not what the
 * roles give in space). */
MUST_CHECK err auth_key_create(struct auth *a, const struct auth_key_new *n, struct auth_key *out,
                               char secret[AUTH_KEY_BYTES_MAX + 1], struct err_note *note);
/* Every key in order of places, from one on (empty: all), until each returns false. */
MUST_CHECK err auth_key_list(struct auth *a, str from,
                             bool (*each)(void *ctx, const struct auth_key *k), void *ctx);
/* Deletes the key with this id, and its user and bindings when that was the user's last key.
 * ERR_NOT_FOUND. From its return on the key opens nothing. */
MUST_CHECK err auth_key_delete(struct auth *a, str id, struct err_note *note);

/* ---- keys as JSON ---- */
/* The members of a key, without braces, in the arena; STR_NONE when it is full. */
str auth_key_json(struct arena *arena, const struct auth_key *k);
/* {"items":[...],"next"}: all keys from a place on (empty: the first), ended before the key that
 * passes bytes_max, after one at least. ERR_LIMIT: the arena is full; what the engine says. */
MUST_CHECK err auth_keys_json(struct auth *a, str from, size_t bytes_max, struct arena *arena,
                              str *out);
/* {"name", "roles":[...], "domain", "tag", "expires":"30d"}; only roles must be there. Texts are
 * borrowed from json. ERR_BAD. */
MUST_CHECK err auth_key_new_read(const json_t *json, store_time now, struct auth_key_new *out,
                                 struct err_note *note);

/* ---- the open door ---- */
/* Does anonymous hold any binding? true too on a store that was never opened with checks. */
MUST_CHECK err auth_door_open(struct auth *a, bool *open);
/* Takes every binding from anonymous (open false) or gives it Admin (true). ERR_CONFLICT: true, and
 * exposed. */
MUST_CHECK err auth_door_set(struct auth *a, bool open, struct err_note *note);

#endif
