/* bootstrap.c - what every store has, and the open door.
 *
 * The standard roles tell a store that was opened with checks before: they cannot be deleted. Only
 * the first time is anonymous given Admin, so that a door once closed stays closed. */
#include "auth/txn.h"

#include <string.h>

void bootstrap_draw(struct auth *a, struct bootstrap_ids *ids)
{
    for (unsigned i = 0; i < BOOTSTRAP_IDS; i++)
        draw_id(a, ids->text[i]);
}

static err put_role(struct row_txn *t, const struct rowkey *k, const struct row_role *r)
{
    struct buf b;
    buf_init(&b, ROW_VALUE_BYTES_MAX);
    row_put_role(&b, r);
    err why = txn_put(t, k, &b);
    buf_fini(&b);
    return why;
}

/* The role as this version has it; a role keeps its id. */
static err ensure_role(struct row_txn *t, const struct standard_role *role, const char *fresh_id)
{
    struct rowkey k, by_id;
    struct row row;
    struct row_role now = { .id = str_of(fresh_id),
                            .standard = true,
                            .created_at = row_txn_now(t) };
    char id[AUTH_ID_BYTES + 1];
    row_key2(&k, 'r', STR(AUTH_SYSTEM), str_of(role->name));
    err why = txn_find(t, &k, &row);
    if (why == ERR_OK) {
        why = row_get_role(row.value, &now);
        if (why != ERR_OK || now.bits == role->bits)
            return why;
        INVARIANT(str_to_cstr(now.id, id, sizeof id)); /* row_get_role looked */
        now.id = str_of(id);
    } else if (why != ERR_NOT_FOUND) {
        return why;
    }
    now.bits = role->bits;
    struct buf b;
    buf_init(&b, ROW_VALUE_BYTES_MAX);
    row_put_text(&b, str_of(role->name));
    row_key2(&by_id, 'R', STR(AUTH_SYSTEM), now.id);
    why = txn_put(t, &by_id, &b);
    buf_fini(&b);
    return why != ERR_OK ? why : put_role(t, &k, &now);
}

static err bind_anonymous(struct row_txn *t, str id)
{
    char role_id[AUTH_ID_BYTES + 1];
    err why = role_find(t, STR(AUTH_SYSTEM), STR("Admin"), role_id);
    if (why != ERR_OK)
        return why;
    return binding_put_new(t,
                           &(struct binding_new){ .id = id,
                                                  .user_id = STR(AUTH_ANONYMOUS),
                                                  .space = STR(AUTH_SYSTEM),
                                                  .role_space = STR(AUTH_SYSTEM),
                                                  .role_name = STR("Admin"),
                                                  .role_id = str_of(role_id) },
                           NULL);
}

static err ensure_anonymous(struct row_txn *t)
{
    struct rowkey k;
    struct row row;
    row_key1(&k, 'u', STR(AUTH_ANONYMOUS));
    err why = txn_find(t, &k, &row);
    if (why != ERR_NOT_FOUND)
        return why;
    return user_put_new(
        t, &(struct user_new){ .id = STR(AUTH_ANONYMOUS), .name = STR(AUTH_ANONYMOUS) }, NULL);
}

static err ensure_system(struct row_txn *t)
{
    char tag[AUTH_TAG_BYTES_MAX + 1];
    err why = space_tag(t, STR(AUTH_SYSTEM), tag);
    return why == ERR_NOT_FOUND ? space_put_new(t, STR(AUTH_SYSTEM), NULL) : why;
}

err bootstrap_ensure(struct row_txn *t, const struct bootstrap_ids *ids)
{
    struct standard_role roles[STANDARD_ROLES];
    char admin[AUTH_ID_BYTES + 1];
    standard_roles(roles);
    err why = role_find(t, STR(AUTH_SYSTEM), STR("Admin"), admin);
    bool first = why == ERR_NOT_FOUND;
    if (why == ERR_OK || first)
        why = ensure_system(t);
    if (why == ERR_OK)
        why = ensure_anonymous(t);
    for (unsigned i = 0; i < STANDARD_ROLES && why == ERR_OK; i++)
        why = ensure_role(t, &roles[i], ids->text[i]);
    return why == ERR_OK && first ? bind_anonymous(t, str_of(ids->text[STANDARD_ROLES])) : why;
}

struct bootstrap {
    struct change change;
    struct bootstrap_ids ids;
    bool open; /* of the door */
};

static err decide_bootstrap(struct row_txn *t, void *ctx)
{
    const struct bootstrap *b = ctx;
    return b->change.auth->enabled ? bootstrap_ensure(t, &b->ids) : ensure_system(t);
}

err auth_bootstrap(struct auth *a, struct err_note *note)
{
    struct bootstrap b = { .change = { .auth = a, .note = note } };
    bootstrap_draw(a, &b.ids);
    return change_run(&b.change, decide_bootstrap, &b);
}

/* ---- the open door ---- */

err exposed(struct err_note *note)
{
    err_note_set(
        note,
        "a listener is not on loopback: everybody who reaches it could do what anonymous may");
    return ERR_CONFLICT;
}

static err decide_door(struct row_txn *t, void *ctx)
{
    const struct bootstrap *b = ctx;
    err why = bootstrap_ensure(t, &b->ids);
    if (why == ERR_OK)
        why = bindings_delete_of(t, STR(AUTH_ANONYMOUS));
    if (why == ERR_OK && b->open)
        why = bind_anonymous(t, str_of(b->ids.text[STANDARD_ROLES]));
    return why;
}

err auth_door_set(struct auth *a, bool open, struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct bootstrap b = { .change = { .auth = a, .note = note, .removes = !open }, .open = open };
    if (open && a->exposed)
        return exposed(note);
    bootstrap_draw(a, &b.ids);
    err why = change_run(&b.change, decide_door, &b);
    if (why != ERR_OK)
        err_note_set(note, "the store refused: %s", err_name(why));
    return why;
}

err auth_door_open(struct auth *a, bool *open)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct rowkey k;
    struct row row;
    struct row_view *v = row_view_begin(a->rows);
    bool any = true;
    row_key2(&k, 'r', STR(AUTH_SYSTEM), STR("Admin"));
    err why = rows_find(v, &k, &row);
    row_key1(&k, 'b', STR(AUTH_ANONYMOUS));
    if (why == ERR_OK)
        why = rows_any(v, &k, &any);
    else if (why == ERR_NOT_FOUND)
        why = ERR_OK;
    row_view_end(&v);
    if (why == ERR_OK)
        *open = any;
    return why;
}
