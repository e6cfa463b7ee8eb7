/* give.c - nobody gives what he has not. Otherwise who may make keys, or bind roles where that counts everywhere, could
 * make himself whatever there is. */
#include "auth/secret.h"
#include "auth/txn.h"

#include <stdlib.h>

/* What the sender of this field may do; auth_check passed. */
static err giver_load(struct auth *a, str authorization, struct grants **out)
{
    str key;
    if (!auth_bearer_key(authorization, &key))
        return grants_load(a->engine, NULL, out);
    struct secret_hash hash = secret_hash(key);
    return grants_load(a->engine, &hash, out);
}

static err covers(const struct grants *giver, uint64_t bits, str space, struct err_note *note)
{
    str names[AUTH_PERMISSIONS_MAX];
    uint64_t missing = bits & ~grants_bits(giver, space);
    if (missing == 0)
        return ERR_OK;
    (void)permission_names(missing, names); /* one at least */
    err_note_set(note, "access denied; who has not %.*s in '%.*s' himself cannot give it", STR_ARG(names[0]),
                 STR_ARG(shown(space)));
    return ERR_DENIED;
}

static err may_give_bits(struct auth *a, str authorization, str space, uint64_t bits, struct err_note *note)
{
    struct grants *giver;
    err why = giver_load(a, authorization, &giver);
    if (why != ERR_OK)
        return why;
    why = covers(giver, bits, space_meant(space), note);
    free(giver);
    return why;
}

/* Its own, or one of `_system`; one that is not there gives nothing. */
static err role_bits(struct auth *a, str space, str role, uint64_t *bits)
{
    struct engine_view *v = engine_view_begin(a->engine);
    err why = grants_role_bits(v, space, role, bits);
    if (why == ERR_NOT_FOUND)
        why = grants_role_bits(v, STR(AUTH_SYSTEM), role, bits);
    engine_view_end(&v);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

err auth_may_give_roles(struct auth *a, str authorization, str space, const str *roles, unsigned count,
                        struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    uint64_t all = 0;
    if (!a->enabled)
        return ERR_OK;
    for (unsigned i = 0; i < count; i++) {
        uint64_t bits = 0;
        err why = role_bits(a, space_meant(space), roles[i], &bits);
        if (why != ERR_OK)
            return why;
        all |= bits;
    }
    return may_give_bits(a, authorization, space, all, note);
}

err auth_may_give_permissions(struct auth *a, str authorization, str space, const str *permissions, unsigned count,
                              struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    uint64_t all = 0, bit;
    if (!a->enabled)
        return ERR_OK;
    for (unsigned i = 0; i < count; i++)
        if (permission_bit(permissions[i], &bit))
            all |= bit;
    return may_give_bits(a, authorization, space, all, note);
}

err auth_may_give_key(struct auth *a, str authorization, str user_id, str scope, struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct grants *giver, *user;
    if (!a->enabled)
        return ERR_OK;
    err why = giver_load(a, authorization, &giver);
    if (why != ERR_OK)
        return why;
    why = grants_load_user(a->engine, user_id, &user);
    for (unsigned i = 0; why == ERR_OK && i < user->count; i++) {
        str space = str_of(user->of[i].space);
        if (scope.n == 0 || str_eq(space, scope) || str_eq(space, STR(AUTH_SYSTEM)))
            why = covers(giver, user->of[i].bits, space, note);
    }
    if (why == ERR_OK || why == ERR_DENIED)
        free(user);
    free(giver);
    return why;
}
