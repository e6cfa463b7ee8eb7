/* list.c - keys as people may see them. */
#include "auth/auth_impl.h"

#include <stdio.h>
#include <string.h>

/* The roles its user has in the key's namespace, "read,purge". */
static err fill_roles(struct engine_view *v, str user_id, struct arena *a, struct auth_key *out)
{
    struct rowkey from, until;
    row_key_of_bindings(&from, user_id);
    until = from;
    rowkey_prefix_end(&until);
    struct engine_cursor *c = engine_cursor_open(
        v, &(struct engine_range){ .space = SPACE_AUTH, .from = rowkey_str(&from), .until = rowkey_str(&until) });
    size_t n = 0;
    struct engine_row row;
    err why;
    while ((why = engine_cursor_next(c, &row)) == ERR_OK) {
        str space, role;
        why = row_binding_names(row.key, a, &space, &role);
        if (why != ERR_OK)
            break;
        if (!str_eq(space, str_of(out->space)))
            continue;
        int more = snprintf(out->roles + n, sizeof out->roles - n, "%s%.*s", n > 0 ? "," : "", STR_ARG(role));
        if ((size_t)more >= sizeof out->roles - n) {
            why = ERR_NOT_FOUND; /* full: the rest is cut */
            break;
        }
        n += (size_t)more;
    }
    engine_cursor_close(&c);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

static err fill_key(struct engine_view *v, const struct engine_row *row, struct arena *a, struct auth_key *out)
{
    struct row_secret r;
    err why = row_get_secret(row->value, &r);
    if (why != ERR_OK)
        return why;
    *out = (struct auth_key){ .created_at = r.created_at, .expires_at = r.expires_at };
    str user_id = arena_copy(a, r.user_id);
    if (user_id.p == NULL || !str_to_cstr(r.id, out->id, sizeof out->id) ||
        !str_to_cstr(r.prefix, out->prefix, sizeof out->prefix) || !str_to_cstr(r.space, out->space, sizeof out->space))
        return ERR_CORRUPT;
    struct rowkey k;
    struct engine_row user_row;
    struct row_name user;
    row_key_of_user(&k, user_id);
    why = engine_get(v, SPACE_AUTH, rowkey_str(&k), &user_row);
    if (why == ERR_OK)
        why = row_get_name(user_row.value, &user);
    if (why == ERR_OK && !str_to_cstr(user.name, out->user, sizeof out->user))
        why = ERR_CORRUPT;
    if (why == ERR_NOT_FOUND)
        why = ERR_CORRUPT; /* a key without its user */
    return why != ERR_OK ? why : fill_roles(v, user_id, a, out);
}

err auth_key_list(struct auth *a, bool (*each)(void *ctx, const struct auth_key *k), void *ctx)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct rowkey from, until;
    row_key_of_secrets(&from);
    until = from;
    rowkey_prefix_end(&until);
    struct engine_view *v = engine_view_begin(a->engine);
    struct engine_cursor *c = engine_cursor_open(
        v, &(struct engine_range){ .space = SPACE_AUTH, .from = rowkey_str(&from), .until = rowkey_str(&until) });
    struct arena texts;
    arena_init(&texts, 1u << 20);
    bool more = true;
    err why = ERR_OK;
    while (more && why == ERR_OK) {
        struct engine_row row;
        struct auth_key k;
        why = engine_cursor_next(c, &row);
        if (why == ERR_OK)
            why = fill_key(v, &row, &texts, &k);
        if (why == ERR_OK)
            more = each(ctx, &k);
        arena_reset(&texts);
    }
    arena_fini(&texts);
    engine_cursor_close(&c);
    engine_view_end(&v);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}
