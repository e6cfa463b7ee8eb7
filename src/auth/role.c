/* role.c - roles: named sets of permissions in a namespace. */
#include "auth/authority.h"
#include "auth/list.h"
#include "auth/txn.h"

#include <string.h>

static err bits_of(const struct auth_role *r, uint64_t *bits, struct err_note *note)
{
    *bits = 0;
    for (unsigned i = 0; i < r->permissions_count; i++) {
        uint64_t bit;
        if (!permission_bit(r->permissions[i], &bit)) {
            err_note_set(note, "permission is invalid; '%.*s' is not a recognized permission",
                         STR_ARG(shown(r->permissions[i])));
            return ERR_BAD;
        }
        *bits |= bit;
    }
    return ERR_OK;
}

static err check(const struct auth_role *r, uint64_t *bits, struct err_note *note)
{
    if (r->space.n == 0) {
        err_note_set(note, "namespace is invalid; cannot be empty");
        return ERR_BAD;
    }
    err why = text_name_check(r->name, AUTH_ROLE_BYTES_MAX, "name", note);
    if (why == ERR_OK && str_find(r->name, ':') < r->name.n) {
        err_note_set(note, "name is invalid; '%.*s' cannot contain ':' character",
                     STR_ARG(r->name));
        return ERR_BAD;
    }
    return why != ERR_OK ? why : bits_of(r, bits, note);
}

err auth_role_check(const struct auth_role *r, struct err_note *note)
{
    uint64_t bits;
    return check(r, &bits, note);
}

static err check_not_standard(str name, struct err_note *note)
{
    if (!standard_role_named(name))
        return ERR_OK;
    err_note_set(note, "cannot modify or delete standard role; '%.*s' is a standard role",
                 STR_ARG(name));
    return ERR_BAD;
}

/* ---- rows ---- */

static err role_not_found(struct err_note *note, str space, str name)
{
    err_note_set(note, "role does not exist; '%.*s:%.*s' was not found",
                 STR_ARG(str_take(shown(space), 80)), STR_ARG(str_take(shown(name), 80)));
    return ERR_NOT_FOUND;
}

err role_find(struct row_txn *t, str space, str name, char id[AUTH_ID_BYTES + 1])
{
    struct rowkey k;
    struct row row;
    struct row_role r;
    row_key2(&k, 'r', space, name);
    err why = txn_find(t, &k, &row);
    if (why == ERR_OK)
        why = row_get_role(row.value, &r);
    if (why == ERR_OK && !str_to_cstr(r.id, id, AUTH_ID_BYTES + 1))
        why = ERR_CORRUPT;
    return why;
}

static err put_role(struct row_txn *t, str space, str name, const struct row_role *r)
{
    struct rowkey k;
    struct buf b;
    buf_init(&b, ROW_VALUE_BYTES_MAX);
    row_put_role(&b, r);
    row_key2(&k, 'r', space, name);
    err why = txn_put(t, &k, &b);
    buf_clear(&b);
    row_put_text(&b, name);
    row_key2(&k, 'R', space, r->id);
    if (why == ERR_OK)
        why = txn_put(t, &k, &b);
    buf_fini(&b);
    return why;
}

/* ---- changes ---- */

struct role_change {
    struct change change;
    str space, name;
    uint64_t bits;
    char id[AUTH_ID_BYTES + 1];
};

static err decide_create(struct row_txn *t, void *ctx)
{
    const struct role_change *c = ctx;
    char tag[AUTH_TAG_BYTES_MAX + 1], id[AUTH_ID_BYTES + 1];
    err why = space_tag(t, c->space, tag);
    if (why == ERR_NOT_FOUND)
        return not_found(c->change.note, "namespace", c->space);
    if (why == ERR_OK)
        why = role_find(t, c->space, c->name, id);
    if (why == ERR_OK) {
        err_note_set(c->change.note, "role already exists; '%.*s:%.*s' already exists",
                     STR_ARG(str_take(shown(c->space), 80)), STR_ARG(str_take(shown(c->name), 80)));
        return ERR_CONFLICT;
    }
    if (why == ERR_NOT_FOUND)
        why = txn_count(t, 'r', 1, AUTH_ROLES_MAX, "roles", c->change.note);
    return why != ERR_OK
               ? why
               : put_role(t, c->space, c->name,
                          &(struct row_role){
                              .id = str_of(c->id), .bits = c->bits, .created_at = row_txn_now(t) });
}

err auth_role_create(struct auth *a, const struct auth_role *r, char id[AUTH_ID_BYTES + 1],
                     struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct role_change c = { .change = { .auth = a, .note = note },
                             .space = r->space,
                             .name = r->name };
    err why = check(r, &c.bits, note);
    if (why == ERR_OK)
        why = check_not_standard(r->name, note);
    if (why != ERR_OK)
        return why;
    draw_id(a, c.id);
    why = change_run(&c.change, decide_create, &c);
    if (why == ERR_OK)
        memcpy(id, c.id, sizeof c.id);
    return why;
}

static err decide_update(struct row_txn *t, void *ctx)
{
    const struct role_change *c = ctx;
    struct rowkey k;
    struct row row;
    struct row_role was;
    char id[AUTH_ID_BYTES + 1];
    row_key2(&k, 'r', c->space, c->name);
    err why = txn_find(t, &k, &row);
    if (why == ERR_NOT_FOUND)
        return role_not_found(c->change.note, c->space, c->name);
    if (why == ERR_OK)
        why = row_get_role(row.value, &was);
    if (why == ERR_OK && !str_to_cstr(was.id, id, sizeof id))
        why = ERR_CORRUPT;
    return why != ERR_OK ? why
                         : put_role(t, c->space, c->name,
                                    &(struct row_role){ .id = str_of(id),
                                                        .bits = c->bits,
                                                        .standard = was.standard,
                                                        .created_at = was.created_at });
}

err auth_role_update(struct auth *a, const struct auth_role *r, struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct role_change c = { .change = { .auth = a, .note = note },
                             .space = r->space,
                             .name = r->name };
    err why = check(r, &c.bits, note);
    if (why == ERR_OK)
        why = check_not_standard(r->name, note);
    return why != ERR_OK ? why : change_run(&c.change, decide_update, &c);
}

static err decide_delete(struct row_txn *t, void *ctx)
{
    const struct role_change *c = ctx;
    struct rowkey k;
    bool bound = true;
    char id[AUTH_ID_BYTES + 1];
    err why = role_find(t, c->space, c->name, id);
    if (why == ERR_NOT_FOUND)
        return role_not_found(c->change.note, c->space, c->name);
    row_key1(&k, 'x', str_of(id));
    if (why == ERR_OK)
        why = rows_any(row_txn_view(t), &k, &bound);
    if (why == ERR_OK && bound) {
        err_note_set(c->change.note,
                     "role has active bindings; '%.*s' has active bindings, delete bindings first",
                     STR_ARG(shown(c->name)));
        return ERR_CONFLICT;
    }
    row_key2(&k, 'r', c->space, c->name);
    if (why == ERR_OK)
        why = txn_delete(t, &k);
    row_key2(&k, 'R', c->space, str_of(id));
    if (why == ERR_OK)
        why = txn_delete(t, &k);
    return why != ERR_OK ? why : txn_count(t, 'r', -1, AUTH_ROLES_MAX, "roles", c->change.note);
}

err auth_role_delete(struct auth *a, str space, str name, struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct role_change c = { .change = { .auth = a, .note = note, .removes = true },
                             .space = space_meant(space),
                             .name = name };
    err why = check_not_standard(name, note);
    return why != ERR_OK ? why : change_run(&c.change, decide_delete, &c);
}

/* ---- reading ---- */

static err list_role(struct listing *l, const struct row *row)
{
    str texts[2], name;
    struct rowkey k;
    struct row by_name;
    struct row_role r;
    err why = row_key_texts(row->key, 'R', l->arena, texts, COUNT_OF(texts));
    if (why == ERR_OK)
        why = row_get_text(row->value, &name);
    if (why != ERR_OK)
        return why;
    name = listing_text(l, name); /* the next call on the view lets go of it */
    str space = listing_text(l, texts[0]);
    if (l->failed)
        return ERR_LIMIT;
    row_key2(&k, 'r', space, name);
    why = listing_get(l, &k, &by_name);
    if (why == ERR_OK)
        why = row_get_role(by_name.value, &r);
    str *permissions = arena_calloc(l->arena, AUTH_PERMISSIONS_MAX, sizeof *permissions);
    struct auth_role *out = why == ERR_OK && permissions != NULL ? listing_add(l) : NULL;
    if (out == NULL)
        return why == ERR_NOT_FOUND ? ERR_CORRUPT : why == ERR_OK ? ERR_LIMIT : why;
    bool admin = r.standard && str_eq(name, STR("Admin"));
    *out = (struct auth_role){ .id = listing_text(l, r.id),
                               .space = space,
                               .name = name,
                               .permissions = permissions,
                               .created_at = r.created_at };
    out->permissions_count =
        permission_names(admin ? r.bits & permission_of_queues() : r.bits, permissions);
    l->bytes += AUTH_PERMISSIONS_MAX * sizeof *permissions;
    return ERR_OK;
}

err auth_role_list(struct auth *a, str space, const struct auth_page *page, struct arena *arena,
                   struct auth_role **out, unsigned *count)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct listing l = {
        .auth = a, .arena = arena, .page = page, .size = sizeof **out, .each = list_role
    };
    row_key1(&l.prefix, 'R', space_meant(space));
    err why = listing_run(&l);
    if (why == ERR_OK) {
        *out = l.items;
        *count = l.count;
    }
    return why;
}
