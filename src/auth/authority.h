/* authority.h - what the authority holds, one by one: Querator's namespaces, users, keys, roles and
 * bindings. Part of auth.h. */
#ifndef AUTH_AUTHORITY_H
#define AUTH_AUTHORITY_H

#include "auth/auth.h"

/* ---- one by one: Querator's namespaces, users, keys, roles and bindings ----
 * Fails: ERR_BAD, ERR_CONFLICT and ERR_LIMIT (its 400), ERR_NOT_FOUND (its 453), with its sentence
 * in note; what the engine says. The _check functions look at the words alone: to be asked before
 * who asks is. The others look again. Texts in are borrowed; ids out are NUL-terminated. An empty
 * space means AUTH_SYSTEM where it may be empty. Lists: rows in order of their key from pivot on
 * (inclusive, need not exist; empty: the first), in the arena. */
struct auth_page {
    str pivot;
    unsigned limit; /* 0: AUTH_PAGE_DEFAULT */
};

struct auth_space {
    str name, description, tag;
    store_time created_at;
};
MUST_CHECK err auth_space_name_check(str name, struct err_note *note);
MUST_CHECK err auth_space_check(const struct auth_space *s, struct err_note *note);
MUST_CHECK err auth_space_create(struct auth *a, const struct auth_space *s, struct err_note *note);
/* Replaces description and tag, by nothing as well. */
MUST_CHECK err auth_space_update(struct auth *a, const struct auth_space *s, struct err_note *note);
/* in_use: it has queues, which the caller knows. Bindings, roles, queues are refused in this
 * order. */
MUST_CHECK err auth_space_delete(struct auth *a, str name, bool in_use, struct err_note *note);
/* ERR_NOT_FOUND: "namespace does not exist; 'X' was not found". */
MUST_CHECK err auth_space_find(struct auth *a, str name, struct err_note *note);
MUST_CHECK err auth_space_list(struct auth *a, const struct auth_page *page, struct arena *arena,
                               struct auth_space **out, unsigned *count);

struct auth_user {
    str id, name, external_id, email;
    store_time created_at, updated_at;
};
MUST_CHECK err auth_user_check(const struct auth_user *u, struct err_note *note);
MUST_CHECK err auth_user_create(struct auth *a, const struct auth_user *u,
                                char id[AUTH_ID_BYTES + 1], struct err_note *note);
/* And its keys and bindings, at once. */
MUST_CHECK err auth_user_delete(struct auth *a, str id, struct err_note *note);
MUST_CHECK err auth_user_list(struct auth *a, const struct auth_page *page, struct arena *arena,
                              struct auth_user **out, unsigned *count);

struct auth_apikey {
    str id, user_id, name, prefix;     /* id and prefix: out only */
    str scope;                         /* empty: none */
    str tag;                           /* in only; empty: the scope's, else "live" */
    store_time created_at, expires_at; /* NEVER */
};
struct auth_secret {
    char id[AUTH_ID_BYTES + 1], key[AUTH_KEY_BYTES_MAX + 1], prefix[AUTH_PREFIX_BYTES_MAX + 1];
};
MUST_CHECK err auth_apikey_check(const struct auth_apikey *k, struct err_note *note);
MUST_CHECK err auth_apikey_create(struct auth *a, const struct auth_apikey *k,
                                  struct auth_secret *out, struct err_note *note);
/* The key alone. ERR_NOT_FOUND (its 401): "api key does not exist". */
MUST_CHECK err auth_apikey_delete(struct auth *a, str id, struct err_note *note);
/* Of one user, or of all (user_id empty). */
MUST_CHECK err auth_apikey_list(struct auth *a, str user_id, const struct auth_page *page,
                                struct arena *arena, struct auth_apikey **out, unsigned *count);

struct auth_role {
    str id, space, name;
    const str *permissions; /* of Admin, only those that Querator knows are shown; it has all */
    unsigned permissions_count;
    store_time created_at;
};
MUST_CHECK err auth_role_check(const struct auth_role *r, struct err_note *note);
/* Standard roles are refused by name, wherever, before anything is looked up. */
MUST_CHECK err auth_role_create(struct auth *a, const struct auth_role *r,
                                char id[AUTH_ID_BYTES + 1], struct err_note *note);
MUST_CHECK err auth_role_update(struct auth *a, const struct auth_role *r, struct err_note *note);
MUST_CHECK err auth_role_delete(struct auth *a, str space, str name, struct err_note *note);
MUST_CHECK err auth_role_list(struct auth *a, str space, const struct auth_page *page,
                              struct arena *arena, struct auth_role **out, unsigned *count);

struct auth_binding {
    str id, space, user_id, role_id;
    store_time created_at;
};
struct auth_binding_new {
    str space, role_name, user_id;
    /* of a new one: the Authorization field of who asks; NULL: nobody has to be asked */
    const str *giver;
};
MUST_CHECK err auth_binding_check(const struct auth_binding_new *n, struct err_note *note);
MUST_CHECK err auth_binding_user_check(str user_id, struct err_note *note);
/* To anonymous while exposed: ERR_CONFLICT. Where there is no namespace: ERR_NOT_FOUND. What the
 * giver has not himself, in `_system` or of content anywhere: ERR_DENIED. */
MUST_CHECK err auth_binding_create(struct auth *a, const struct auth_binding_new *n,
                                   char id[AUTH_ID_BYTES + 1], struct err_note *note);
MUST_CHECK err auth_binding_delete(struct auth *a, const struct auth_binding_new *n,
                                   struct err_note *note);
struct auth_binding_list {
    str space, user_id; /* of one user in space, or of all (user_id empty) */
    const struct auth_page *page;
    struct auth_binding *bindings; /* out, in the arena */
    unsigned count;                /* out */
};
MUST_CHECK err auth_binding_list(struct auth *a, struct auth_binding_list *list,
                                 struct arena *arena);

#endif
