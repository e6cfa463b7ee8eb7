/* key.c - keys with a user of their own: made, listed and deleted together. */
#include "auth/txn.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

struct create {
    struct change change;
    struct bootstrap_ids bootstrap;
    const struct auth_key_new *n;
    str space, name;
    char key_id[AUTH_ID_BYTES + 1], user_id[AUTH_ID_BYTES + 1];
    char binding_ids[AUTH_ROLES_OF_KEY_MAX][AUTH_ID_BYTES + 1];
    char name_text[AUTH_NAME_BYTES_MAX + 1];
    unsigned char random[SECRET_RANDOM_BYTES];
    char *secret; /* the caller's, AUTH_KEY_BYTES_MAX + 1 */
    char prefix[AUTH_PREFIX_BYTES_MAX + 1];
    store_time created_at;
};

static bool is_plain(str s, size_t bytes_max)
{
    if (s.n == 0 || s.n > bytes_max)
        return false;
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] <= ' ' || s.p[i] == 0x7f || s.p[i] == '~' || s.p[i] == ':')
            return false;
    return true;
}

err auth_key_check(const struct auth_key_new *n, struct err_note *note)
{
    str space = space_meant(n->space);
    bool is_system = str_eq(space, STR(AUTH_SYSTEM));
    if (!is_plain(space, AUTH_NAME_BYTES_MAX) || (space.p[0] == '_' && !is_system)) {
        err_note_set(note, "namespace is invalid; '%.*s'", STR_ARG(shown(space)));
        return ERR_BAD;
    }
    if (n->name.n > 0 && !is_plain(n->name, AUTH_NAME_BYTES_MAX)) {
        err_note_set(note, "username is invalid; '%.*s'", STR_ARG(shown(n->name)));
        return ERR_BAD;
    }
    err why = tag_check(n->tag, "key_tag", note);
    if (why == ERR_OK && (n->roles_count == 0 || n->roles_count > AUTH_ROLES_OF_KEY_MAX))
        return err_bad(note, "a key has 1 to %d roles", AUTH_ROLES_OF_KEY_MAX);
    return why;
}

/* The role in the key's namespace, else in `_system`. */
static err bind_role(struct row_txn *t, struct create *c, str role, const char *id)
{
    char role_id[AUTH_ID_BYTES + 1];
    str role_space = c->space;
    err why = role_find(t, role_space, role, role_id);
    if (why == ERR_NOT_FOUND) {
        role_space = STR(AUTH_SYSTEM);
        why = role_find(t, role_space, role, role_id);
    }
    if (why == ERR_NOT_FOUND) {
        err_note_set(c->change.note, "role does not exist; '%.*s'", STR_ARG(shown(role)));
        return ERR_BAD;
    }
    if (why == ERR_OK)
        why = give_check(t,
                         &(struct give){ .auth = c->change.auth,
                                         .giver = c->n->giver,
                                         .space = c->space,
                                         .role_space = role_space,
                                         .role_name = role },
                         c->change.note);
    if (why == ERR_OK)
        why = binding_put_new(t,
                              &(struct binding_new){ .id = str_of(id),
                                                     .user_id = str_of(c->user_id),
                                                     .space = c->space,
                                                     .role_space = role_space,
                                                     .role_name = role,
                                                     .role_id = str_of(role_id) },
                              c->change.note);
    return why == ERR_CONFLICT ? ERR_OK : why; /* a role named twice */
}

static err decide_create(struct row_txn *t, void *ctx)
{
    struct create *c = ctx;
    char tag[AUTH_TAG_BYTES_MAX + 1];
    err why = bootstrap_ensure(t, &c->bootstrap);
    if (why == ERR_OK)
        why = space_tag(t, c->space, tag);
    if (why == ERR_NOT_FOUND)
        why = space_put_new(t, c->space, c->change.note);
    if (why == ERR_OK)
        why = user_put_new(t, &(struct user_new){ .id = str_of(c->user_id), .name = c->name },
                           c->change.note);
    for (unsigned i = 0; i < c->n->roles_count && why == ERR_OK; i++)
        why = bind_role(t, c, c->n->roles[i], c->binding_ids[i]);
    c->created_at = row_txn_now(t);
    if (why != ERR_OK)
        return why;
    struct secret_new secret = { .id = str_of(c->key_id),
                                 .user_id = str_of(c->user_id),
                                 .scope = str_eq(c->space, STR(AUTH_SYSTEM)) ? STR("") : c->space,
                                 .name = c->name,
                                 .tag = c->n->tag,
                                 .expires_at = c->n->expires_at,
                                 .random = c->random,
                                 .secret = c->secret,
                                 .prefix = c->prefix };
    return secret_put_new(t, &secret, c->change.note);
}

static void fill_created(const struct create *c, struct auth_key *out)
{
    *out = (struct auth_key){ .created_at = c->created_at, .expires_at = c->n->expires_at };
    memcpy(out->id, c->key_id, sizeof out->id);
    memcpy(out->prefix, c->prefix, sizeof out->prefix);
    INVARIANT(str_to_cstr(c->name, out->user, sizeof out->user));
    INVARIANT(str_to_cstr(c->space, out->space, sizeof out->space));
    size_t n = 0;
    for (unsigned i = 0; i < c->n->roles_count; i++) {
        int more = snprintf(out->roles + n, sizeof out->roles - n, "%s%.*s", i > 0 ? "," : "",
                            STR_ARG(c->n->roles[i]));
        n += (size_t)more < sizeof out->roles - n ? (size_t)more : 0; /* cut when longer */
    }
}

static void draw(struct create *c)
{
    struct auth *a = c->change.auth;
    bootstrap_draw(a, &c->bootstrap);
    draw_id(a, c->key_id);
    draw_id(a, c->user_id);
    for (unsigned i = 0; i < AUTH_ROLES_OF_KEY_MAX; i++)
        draw_id(a, c->binding_ids[i]);
    a->entropy(c->random, sizeof c->random);
}

err auth_key_create(struct auth *a, const struct auth_key_new *n, struct auth_key *out,
                    char secret[AUTH_KEY_BYTES_MAX + 1], struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct create c = { .change = { .auth = a, .note = note }, .n = n, .secret = secret };
    draw(&c);
    c.space = space_meant(n->space);
    (void)snprintf(c.name_text, sizeof c.name_text, "key-%s", c.key_id); /* always fits */
    c.name = n->name.n > 0 ? n->name : str_of(c.name_text);
    secret[0] = '\0';
    err why = auth_key_check(n, note);
    if (why == ERR_OK)
        why = change_run(&c.change, decide_create, &c);
    OPENSSL_cleanse(c.random, sizeof c.random);
    if (why == ERR_OK)
        fill_created(&c, out);
    else
        OPENSSL_cleanse(secret, AUTH_KEY_BYTES_MAX + 1);
    return why;
}

/* ---- deletion ---- */

struct removal {
    struct change change;
    str id;
};

static err decide_delete(struct row_txn *t, void *ctx)
{
    const struct removal *r = ctx;
    char user_id[AUTH_ID_BYTES + 1];
    struct rowkey k;
    bool others = true;
    err why = secret_delete(t, r->id, user_id, r->change.note);
    if (why != ERR_OK)
        return why;
    row_key1(&k, 'o', str_of(user_id));
    why = rows_any(row_txn_view(t), &k, &others);
    if (why != ERR_OK || others)
        return why;
    why = user_delete(t, str_of(user_id), r->change.note);
    return why == ERR_NOT_FOUND ? ERR_CORRUPT : why; /* a key has a user */
}

err auth_key_delete(struct auth *a, str id, struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct removal r = { .change = { .auth = a, .note = note, .removes = true }, .id = id };
    return change_run(&r.change, decide_delete, &r);
}

/* ---- reading ---- */

/* The roles its user has in the key's namespace, "read,purge". */
static err fill_roles(struct row_view *v, str user_id, struct arena *a, struct auth_key *out)
{
    struct rowkey from, until;
    row_key2(&from, 'b', user_id, str_of(out->space));
    until = from;
    rowkey_prefix_end(&until);
    struct row_cursor *c = row_cursor_open(v, rowkey_str(&from), rowkey_str(&until));
    size_t n = 0;
    err why = ERR_OK;
    while (why == ERR_OK) {
        struct row row;
        struct row_binding b;
        why = row_cursor_next(c, &row);
        str value = why == ERR_OK ? arena_copy(a, row.value) : STR("");
        if (why == ERR_OK)
            why = value.p == NULL ? ERR_LIMIT : row_get_binding(value, &b);
        if (why != ERR_OK)
            break;
        int more = snprintf(out->roles + n, sizeof out->roles - n, "%s%.*s", n > 0 ? "," : "",
                            STR_ARG(b.role_name));
        if ((size_t)more >= sizeof out->roles - n)
            why = ERR_NOT_FOUND; /* full: the rest is cut */
        n += (size_t)more;
    }
    row_cursor_close(&c);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

static err fill_key(struct row_view *v, const struct row *row, struct arena *a,
                    struct auth_key *out)
{
    struct row_secret r;
    err why = row_get_secret(row->value, &r);
    if (why != ERR_OK)
        return why;
    *out = (struct auth_key){ .created_at = r.created_at, .expires_at = r.expires_at };
    str user_id = arena_copy(a, r.user_id), space = space_meant(r.scope);
    if (user_id.p == NULL || !str_to_cstr(r.id, out->id, sizeof out->id) ||
        !str_to_cstr(r.prefix, out->prefix, sizeof out->prefix) ||
        !str_to_cstr(space, out->space, sizeof out->space))
        return ERR_CORRUPT;
    struct rowkey k;
    struct row user_row;
    struct row_user user;
    row_key1(&k, 'u', user_id);
    why = rows_find(v, &k, &user_row);
    if (why == ERR_OK)
        why = row_get_user(user_row.value, &user);
    if (why == ERR_OK && !str_to_cstr(user.name, out->user, sizeof out->user))
        why = ERR_CORRUPT;
    if (why == ERR_NOT_FOUND)
        why = ERR_CORRUPT; /* a key without its user */
    return why != ERR_OK ? why : fill_roles(v, user_id, a, out);
}

err auth_key_list(struct auth *a, str place, bool (*each)(void *ctx, const struct auth_key *k),
                  void *ctx)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct rowkey from, until;
    row_key_of_all(&from, 'k');
    size_t prefix = rowkey_str(&from).n;
    until = from;
    rowkey_prefix_end(&until);
    rowkey_put_raw(&from, str_take(place, AUTH_PLACE_BYTES));
    struct row_view *v = row_view_begin(a->rows);
    struct row_cursor *c = row_cursor_open(v, rowkey_str(&from), rowkey_str(&until));
    struct arena texts;
    arena_init(&texts, 1u << 20);
    bool more = true;
    err why = ERR_OK;
    while (more && why == ERR_OK) {
        struct row row;
        struct auth_key k;
        why = row_cursor_next(c, &row);
        if (why == ERR_OK)
            why = fill_key(v, &row, &texts, &k);
        if (why == ERR_OK) {
            memcpy(k.place, row.key.p + prefix, AUTH_PLACE_BYTES);
            more = each(ctx, &k);
        }
        arena_reset(&texts);
    }
    arena_fini(&texts);
    row_cursor_close(&c);
    row_view_end(&v);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}
