/* give.c - nobody gives what he has not. Otherwise who may make keys, or bind roles where that
 * counts everywhere, could make himself whatever there is. */
#include "auth/secret.h"
#include "auth/txn.h"

#include <stdlib.h>

/* What the sender of this field may do. ERR_DENIED: its key went away since auth_check passed. */
static err giver_load(struct row_view *v, str authorization, struct grants **out,
                      struct err_note *note)
{
    str key;
    if (!auth_bearer_key(authorization, &key))
        return grants_read(v, NULL, out);
    struct secret_hash hash = secret_hash(key);
    err why = grants_read(v, &hash, out);
    if (why != ERR_NOT_FOUND)
        return why;
    err_note_set(note, "%s", auth_reason_text(AUTH_KEY_UNKNOWN));
    return ERR_DENIED;
}

static err covers(const struct grants *giver, uint64_t bits, str space, struct err_note *note)
{
    str names[AUTH_PERMISSIONS_MAX];
    uint64_t missing = bits & ~grants_bits(giver, space);
    if (missing == 0)
        return ERR_OK;
    if (permission_names(missing, names) == 0) /* a role of a later version */
        names[0] = STR("a permission that is not known here");
    err_note_set(note, "access denied; who has not %.*s in '%.*s' himself cannot give it",
                 STR_ARG(names[0]), STR_ARG(shown(space)));
    return ERR_DENIED;
}

/* What is given in `_system` counts everywhere, and a key with a scope opens that namespace
 * alone. */
static err covers_beyond(const struct grants *giver, uint64_t bits, str space,
                         struct err_note *note)
{
    if (bits == 0 || giver->scope[0] == '\0' || !str_eq(space, STR(AUTH_SYSTEM)))
        return covers(giver, bits, space, note);
    err_note_set(note, "access denied; a key of '%.*s' alone cannot give what counts elsewhere",
                 STR_ARG(shown(str_of(giver->scope))));
    return ERR_DENIED;
}

static err may_give_bits(struct row_view *v, str authorization, str space, uint64_t bits,
                         struct err_note *note)
{
    struct grants *giver;
    err why = giver_load(v, authorization, &giver, note);
    if (why != ERR_OK)
        return why;
    why = covers_beyond(giver, bits, space, note);
    free(giver);
    return why;
}

/* Who may bind roles in a namespace of queues gives there what he likes: it counts nowhere else.
 * Rights on content do: in the domain of that name. */
static uint64_t asked_of_an_owner(uint64_t bits, str space)
{
    return str_eq(space, STR(AUTH_SYSTEM)) ? bits : bits & permission_of_content();
}

err give_check(struct row_txn *t, const struct give *g, struct err_note *note)
{
    struct row_view *v = row_txn_view(t);
    uint64_t bits;
    if (g->giver == NULL || !g->auth->enabled)
        return ERR_OK;
    err why = grants_role_bits(v, g->role_space, g->role_name, &bits);
    if (why != ERR_OK)
        return why;
    return may_give_bits(v, *g->giver, g->space,
                         g->owned ? asked_of_an_owner(bits, g->space) : bits, note);
}

err auth_may_open_door(struct auth *a, str authorization, struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    if (!a->enabled)
        return ERR_OK;
    uint64_t bits = 0;
    struct row_view *v = row_view_begin(a->rows);
    err why = grants_role_bits(v, STR(AUTH_SYSTEM), STR("Admin"), &bits);
    if (why == ERR_OK)
        why = may_give_bits(v, authorization, STR(AUTH_SYSTEM), bits, note);
    row_view_end(&v);
    return why;
}

err auth_may_give_permissions(struct auth *a, str authorization, str space, const str *permissions,
                              unsigned count, struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    uint64_t all = 0, bit;
    if (!a->enabled)
        return ERR_OK;
    for (unsigned i = 0; i < count; i++)
        if (permission_bit(permissions[i], &bit))
            all |= bit;
    struct row_view *v = row_view_begin(a->rows);
    err why = may_give_bits(v, authorization, space_meant(space),
                            asked_of_an_owner(all, space_meant(space)), note);
    row_view_end(&v);
    return why;
}

/* What the key would have of one of its user's grants: without a scope all that it says; with one,
 * in that namespace, and what is of `_system` there as well. */
static err may_give_grant(const struct grants *giver, const struct grant *g, str scope,
                          struct err_note *note)
{
    str space = str_of(g->space);
    bool of_system = str_eq(space, STR(AUTH_SYSTEM));
    if (scope.n == 0)
        return covers_beyond(giver, g->bits, space, note);
    if (!of_system && !str_eq(space, scope))
        return ERR_OK;
    err why = covers(giver, g->bits, scope, note);
    return why == ERR_OK && of_system ? covers(giver, g->bits, space, note) : why;
}

err auth_may_give_key(struct auth *a, str authorization, str user_id, str scope,
                      struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct grants *giver = NULL, *user = NULL;
    if (!a->enabled)
        return ERR_OK;
    struct row_view *v = row_view_begin(a->rows);
    err why = giver_load(v, authorization, &giver, note);
    if (why == ERR_OK)
        why = grants_read_user(v, user_id, &user);
    row_view_end(&v);
    for (unsigned i = 0; why == ERR_OK && i < user->count; i++)
        why = may_give_grant(giver, &user->of[i], scope, note);
    free(user);
    free(giver);
    return why;
}
