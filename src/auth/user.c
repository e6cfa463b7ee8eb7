/* user.c - users, and all that goes with one. */
#include "auth/authority.h"
#include "auth/list.h"
#include "auth/txn.h"

#include <string.h>

static err length_check(str s, size_t bytes_max, const char *what, struct err_note *note)
{
    if (s.n <= bytes_max)
        return ERR_OK;
    err_note_set(note, "%s is invalid; cannot be greater than '%zu' characters", what, bytes_max);
    return ERR_BAD;
}

err auth_user_check(const struct auth_user *u, struct err_note *note)
{
    err why = text_name_check(u->name, AUTH_USER_BYTES_MAX, "username", note);
    if (why == ERR_OK)
        why = length_check(u->email, AUTH_MAIL_BYTES_MAX, "email", note);
    return why != ERR_OK ? why
                         : length_check(u->external_id, AUTH_MAIL_BYTES_MAX, "external_id", note);
}

/* ---- rows ---- */

err user_put_new(struct row_txn *t, const struct user_new *u, struct err_note *note)
{
    struct rowkey k;
    struct row row;
    row_key1(&k, 'U', u->name);
    err why = txn_find(t, &k, &row);
    if (why == ERR_OK) {
        err_note_set(note, "username is already taken; '%.*s' is already taken",
                     STR_ARG(shown(u->name)));
        return ERR_CONFLICT;
    }
    if (why != ERR_NOT_FOUND)
        return why;
    struct buf b;
    buf_init(&b, ROW_VALUE_BYTES_MAX);
    row_put_text(&b, u->id);
    why = txn_put(t, &k, &b);
    buf_clear(&b);
    store_time now = row_txn_now(t);
    row_put_user(&b, &(struct row_user){ .name = u->name,
                                         .email = u->email,
                                         .external_id = u->external_id,
                                         .created_at = now,
                                         .updated_at = now });
    row_key1(&k, 'u', u->id);
    if (why == ERR_OK)
        why = txn_put(t, &k, &b);
    buf_fini(&b);
    return why != ERR_OK ? why : txn_count(t, 'u', 1, AUTH_USERS_MAX, "users", note);
}

/* All keys of a user: at most AUTH_KEYS_OF_USER_MAX. */
static err delete_keys(struct row_txn *t, str user_id, struct err_note *note)
{
    struct rowkey prefix;
    struct arena a;
    err why = ERR_OK;
    row_key1(&prefix, 'o', user_id);
    arena_init(&a, 1u << 16);
    while (why == ERR_OK) {
        struct row_copy row;
        str texts[2];
        char owner[AUTH_ID_BYTES + 1];
        why = rows_first(row_txn_view(t), &prefix, &row);
        if (why == ERR_OK)
            why = row_key_texts(rowkey_str(&row.key), 'o', &a, texts, COUNT_OF(texts));
        if (why == ERR_OK) {
            why = secret_delete(t, texts[1], owner, note);
            if (why == ERR_NOT_FOUND)
                why = ERR_CORRUPT; /* a key that the user owns is there */
        }
    }
    arena_fini(&a);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

err user_delete(struct row_txn *t, str id, struct err_note *note)
{
    struct rowkey k, name_key;
    struct row row;
    struct row_user user;
    row_key1(&k, 'u', id);
    err why = txn_find(t, &k, &row);
    if (why == ERR_NOT_FOUND)
        return not_found(note, "user", id);
    if (why == ERR_OK)
        why = row_get_user(row.value, &user);
    if (why != ERR_OK)
        return why;
    row_key1(&name_key, 'U', user.name);
    why = txn_delete(t, &name_key);
    if (why == ERR_OK)
        why = txn_delete(t, &k);
    if (why == ERR_OK)
        why = bindings_delete_of(t, id);
    if (why == ERR_OK)
        why = delete_keys(t, id, note);
    return why != ERR_OK ? why : txn_count(t, 'u', -1, AUTH_USERS_MAX, "users", note);
}

/* ---- changes ---- */

struct user_change {
    struct change change;
    struct user_new n;
    char id[AUTH_ID_BYTES + 1];
};

static err decide_create(struct row_txn *t, void *ctx)
{
    const struct user_change *c = ctx;
    if (str_eq(c->n.name, STR(AUTH_ANONYMOUS))) { /* kept for the one that checks bring along */
        err_note_set(c->change.note,
                     "username is already taken; '" AUTH_ANONYMOUS "' is already taken");
        return ERR_CONFLICT;
    }
    return user_put_new(t, &c->n, c->change.note);
}

err auth_user_create(struct auth *a, const struct auth_user *u, char id[AUTH_ID_BYTES + 1],
                     struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    err why = auth_user_check(u, note);
    if (why != ERR_OK)
        return why;
    struct user_change c = { .change = { .auth = a, .note = note } };
    draw_id(a, c.id);
    c.n = (struct user_new){
        .id = str_of(c.id), .name = u->name, .email = u->email, .external_id = u->external_id
    };
    why = change_run(&c.change, decide_create, &c);
    if (why == ERR_OK)
        memcpy(id, c.id, sizeof c.id);
    return why;
}

static err decide_delete(struct row_txn *t, void *ctx)
{
    const struct user_change *c = ctx;
    return user_delete(t, c->n.id, c->change.note);
}

err auth_user_delete(struct auth *a, str id, struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct user_change c = { .change = { .auth = a, .note = note, .removes = true },
                             .n = { .id = id } };
    return change_run(&c.change, decide_delete, &c);
}

/* ---- reading ---- */

static err list_user(struct listing *l, const struct row *row)
{
    str id;
    struct row_user r;
    err why = row_key_texts(row->key, 'u', l->arena, &id, 1);
    if (why == ERR_OK)
        why = row_get_user(row->value, &r);
    struct auth_user *u = why == ERR_OK ? listing_add(l) : NULL;
    if (u != NULL)
        *u = (struct auth_user){ .id = listing_text(l, id),
                                 .name = listing_text(l, r.name),
                                 .external_id = listing_text(l, r.external_id),
                                 .email = listing_text(l, r.email),
                                 .created_at = r.created_at,
                                 .updated_at = r.updated_at };
    return why;
}

err auth_user_list(struct auth *a, const struct auth_page *page, struct arena *arena,
                   struct auth_user **out, unsigned *count)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct listing l = {
        .auth = a, .arena = arena, .page = page, .size = sizeof **out, .each = list_user
    };
    row_key_of_all(&l.prefix, 'u');
    err why = listing_run(&l);
    if (why == ERR_OK) {
        *out = l.items;
        *count = l.count;
    }
    return why;
}
