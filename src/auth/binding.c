/* binding.c - bindings: who has which role where. */
#include "auth/authority.h"
#include "auth/list.h"
#include "auth/txn.h"

#include <string.h>

static err binding_empty(const char *what, struct err_note *note)
{
    err_note_set(note, "%s is invalid; cannot be empty", what);
    return ERR_BAD;
}

err auth_binding_user_check(str user_id, struct err_note *note)
{
    if (str_find(user_id, ':') == user_id.n)
        return ERR_OK;
    err_note_set(note, "user_id is invalid; '%.*s' cannot contain ':' character",
                 STR_ARG(shown(user_id)));
    return ERR_BAD;
}

err auth_binding_check(const struct auth_binding_new *n, struct err_note *note)
{
    if (n->space.n == 0)
        return binding_empty("namespace", note);
    if (n->role_name.n == 0)
        return binding_empty("role_name", note);
    return n->user_id.n == 0 ? binding_empty("user_id", note)
                             : auth_binding_user_check(n->user_id, note);
}

/* ---- rows ---- */

static err check_new(struct row_txn *t, const struct binding_new *n, struct err_note *note)
{
    struct rowkey k;
    struct row row;
    unsigned count = 0;
    row_key3(&k, 'b', n->user_id, n->space, n->role_id);
    err why = txn_find(t, &k, &row);
    if (why == ERR_OK) {
        err_note_set(note,
                     "role binding already exists; binding for user '%.*s' to role '%.*s' in "
                     "namespace '%.*s' already "
                     "exists",
                     STR_ARG(n->user_id), STR_ARG(n->role_id),
                     STR_ARG(str_take(shown(n->space), 80)));
        return ERR_CONFLICT;
    }
    row_key1(&k, 'b', n->user_id);
    if (why == ERR_NOT_FOUND)
        why = rows_count(row_txn_view(t), &k, AUTH_GRANTS_MAX, &count);
    if (why == ERR_OK && count >= AUTH_GRANTS_MAX) {
        err_note_set(note, "role bindings of a user are limited; there are %d already",
                     AUTH_GRANTS_MAX);
        return ERR_LIMIT;
    }
    return why;
}

err binding_put_new(struct row_txn *t, const struct binding_new *n, struct err_note *note)
{
    err why = check_new(t, n, note);
    if (why != ERR_OK)
        return why;
    struct rowkey k;
    struct buf b;
    buf_init(&b, ROW_VALUE_BYTES_MAX);
    row_put_binding(&b, &(struct row_binding){ .id = n->id,
                                               .role_space = n->role_space,
                                               .role_name = n->role_name,
                                               .created_at = row_txn_now(t) });
    row_key3(&k, 'b', n->user_id, n->space, n->role_id);
    why = txn_put(t, &k, &b);
    buf_clear(&b);
    row_put_bound(&b, &(struct row_bound){ .user_id = n->user_id, .role_id = n->role_id });
    row_key2(&k, 'B', n->space, n->id);
    if (why == ERR_OK)
        why = txn_put(t, &k, &b);
    buf_fini(&b);
    row_key2(&k, 'x', n->role_id, n->id);
    return why != ERR_OK ? why : txn_put_empty(t, &k);
}

/* The three rows of a binding. */
static err delete_rows(struct row_txn *t, const struct rowkey *key, str space, str role_id, str id)
{
    struct rowkey k;
    row_key2(&k, 'B', space, id);
    err why = txn_delete(t, &k);
    row_key2(&k, 'x', role_id, id);
    if (why == ERR_OK)
        why = txn_delete(t, &k);
    return why != ERR_OK ? why : txn_delete(t, key);
}

err bindings_delete_of(struct row_txn *t, str user_id)
{
    struct rowkey prefix;
    struct arena a;
    err why = ERR_OK;
    row_key1(&prefix, 'b', user_id);
    arena_init(&a, 1u << 20);
    while (why == ERR_OK) {
        struct row_copy row;
        struct row_binding b;
        str texts[3];
        why = rows_first(row_txn_view(t), &prefix, &row);
        if (why == ERR_OK)
            why = row_key_texts(rowkey_str(&row.key), 'b', &a, texts, COUNT_OF(texts));
        if (why == ERR_OK)
            why = row_get_binding((str){ .p = row.value, .n = row.value_n }, &b);
        if (why == ERR_OK)
            why = delete_rows(t, &row.key, texts[1], texts[2], b.id);
    }
    arena_fini(&a);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

/* ---- changes ---- */

struct binding_change {
    struct change change;
    struct auth_binding_new n;
    char id[AUTH_ID_BYTES + 1];
};

static err role_missing(const struct binding_change *c)
{
    err_note_set(c->change.note, "role does not exist; '%.*s:%.*s' was not found",
                 STR_ARG(str_take(shown(c->n.space), 80)),
                 STR_ARG(str_take(shown(c->n.role_name), 80)));
    return ERR_NOT_FOUND;
}

static err decide_create(struct row_txn *t, void *ctx)
{
    const struct binding_change *c = ctx;
    struct rowkey k;
    struct row row;
    char role_id[AUTH_ID_BYTES + 1];
    char tag[AUTH_TAG_BYTES_MAX + 1];
    str role_space = c->n.space;
    err why = space_tag(t, role_space, tag);
    if (why == ERR_NOT_FOUND)
        return not_found(c->change.note, "namespace", role_space);
    if (why == ERR_OK)
        why = role_find(t, role_space, c->n.role_name, role_id);
    if (why == ERR_NOT_FOUND) { /* those of `_system` may be had in one namespace alone */
        role_space = STR(AUTH_SYSTEM);
        why = role_find(t, role_space, c->n.role_name, role_id);
    }
    if (why != ERR_OK)
        return why == ERR_NOT_FOUND ? role_missing(c) : why;
    why = give_check(t,
                     &(struct give){ .auth = c->change.auth,
                                     .giver = c->n.giver,
                                     .space = c->n.space,
                                     .role_space = role_space,
                                     .role_name = c->n.role_name,
                                     .owned = true },
                     c->change.note);
    row_key1(&k, 'u', c->n.user_id);
    if (why == ERR_OK)
        why = txn_find(t, &k, &row);
    if (why == ERR_NOT_FOUND)
        return not_found(c->change.note, "user", c->n.user_id);
    return why != ERR_OK ? why
                         : binding_put_new(t,
                                           &(struct binding_new){ .id = str_of(c->id),
                                                                  .user_id = c->n.user_id,
                                                                  .space = c->n.space,
                                                                  .role_space = role_space,
                                                                  .role_name = c->n.role_name,
                                                                  .role_id = str_of(role_id) },
                                           c->change.note);
}

err auth_binding_create(struct auth *a, const struct auth_binding_new *n,
                        char id[AUTH_ID_BYTES + 1], struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct binding_change c = { .change = { .auth = a, .note = note }, .n = *n };
    err why = auth_binding_check(n, note);
    if (why == ERR_OK && a->exposed && str_eq(n->user_id, STR(AUTH_ANONYMOUS)))
        why = exposed(note);
    if (why != ERR_OK)
        return why;
    draw_id(a, c.id);
    why = change_run(&c.change, decide_create, &c);
    if (why == ERR_OK)
        memcpy(id, c.id, sizeof c.id);
    return why;
}

/* Deletes the binding to the role of that name in role_space. ERR_NOT_FOUND: no such role, role_id
 * empty; or no such binding. */
static err delete_bound(struct row_txn *t, const struct binding_change *c, str role_space,
                        char role_id[AUTH_ID_BYTES + 1])
{
    struct rowkey k;
    struct row row;
    struct row_binding b;
    char id[AUTH_ID_BYTES + 1];
    role_id[0] = '\0';
    err why = role_find(t, role_space, c->n.role_name, role_id);
    row_key3(&k, 'b', c->n.user_id, c->n.space, str_of(role_id));
    if (why == ERR_OK)
        why = txn_find(t, &k, &row);
    if (why == ERR_OK)
        why = row_get_binding(row.value, &b);
    if (why == ERR_OK && !str_to_cstr(b.id, id, sizeof id))
        why = ERR_CORRUPT;
    return why != ERR_OK ? why : delete_rows(t, &k, c->n.space, str_of(role_id), str_of(id));
}

static err decide_delete(struct row_txn *t, void *ctx)
{
    const struct binding_change *c = ctx;
    char role_id[AUTH_ID_BYTES + 1], system_id[AUTH_ID_BYTES + 1] = "";
    err why = delete_bound(t, c, c->n.space, role_id);
    if (why == ERR_NOT_FOUND)
        why = delete_bound(t, c, STR(AUTH_SYSTEM), system_id);
    if (why != ERR_NOT_FOUND)
        return why;
    if (role_id[0] == '\0' && system_id[0] == '\0')
        return role_missing(c);
    err_note_set(c->change.note, "role binding does not exist; '%.*s:%.*s:%s' was not found",
                 STR_ARG(str_take(shown(c->n.space), 80)),
                 STR_ARG(str_take(shown(c->n.user_id), 80)),
                 role_id[0] != '\0' ? role_id : system_id);
    return ERR_NOT_FOUND;
}

err auth_binding_delete(struct auth *a, const struct auth_binding_new *n, struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct binding_change c = { .change = { .auth = a, .note = note, .removes = true }, .n = *n };
    if (n->space.n == 0)
        c.n.space = STR(AUTH_SYSTEM);
    err why = auth_binding_user_check(n->user_id, note);
    return why != ERR_OK ? why : change_run(&c.change, decide_delete, &c);
}

/* ---- reading ---- */

static err list_binding(struct listing *l, const struct row *row)
{
    str texts[2];
    struct rowkey k;
    struct row by_user;
    struct row_bound bound;
    struct row_binding b;
    err why = row_key_texts(row->key, 'B', l->arena, texts, COUNT_OF(texts));
    if (why == ERR_OK)
        why = row_get_bound(row->value, &bound);
    if (why != ERR_OK || (l->filter.n > 0 && !str_eq(l->filter, bound.user_id)))
        return why;
    struct auth_binding out = { .id = listing_text(l, texts[1]),
                                .space = listing_text(l, texts[0]),
                                .user_id = listing_text(l, bound.user_id),
                                .role_id = listing_text(l, bound.role_id) };
    if (l->failed)
        return ERR_LIMIT;
    row_key3(&k, 'b', out.user_id, out.space, out.role_id);
    why = listing_get(l, &k, &by_user);
    if (why == ERR_OK)
        why = row_get_binding(by_user.value, &b);
    if (why == ERR_OK)
        out.created_at = b.created_at;
    struct auth_binding *place = why == ERR_OK ? listing_add(l) : NULL;
    if (place != NULL)
        *place = out;
    return why == ERR_NOT_FOUND ? ERR_CORRUPT : why;
}

err auth_binding_list(struct auth *a, struct auth_binding_list *list, struct arena *arena)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct listing l = { .auth = a,
                         .arena = arena,
                         .page = list->page,
                         .size = sizeof *list->bindings,
                         .each = list_binding,
                         .filter = list->user_id };
    row_key1(&l.prefix, 'B', space_meant(list->space));
    err why = listing_run(&l);
    if (why == ERR_OK) {
        list->bindings = l.items;
        list->count = l.count;
    }
    return why;
}
