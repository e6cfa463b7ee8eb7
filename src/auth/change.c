/* change.c - every change of users, keys and bindings: one update each, the cache emptied behind it.
 *
 * A decision may run again, so all that is random is drawn before it. */
#include "auth/auth_impl.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

enum { IDS_OF_BOOTSTRAP = STANDARD_ROLES + 1 };
enum { IDS_OF_CREATE = AUTH_ROLES_OF_KEY_MAX + 2 };

/* What every change needs. */
struct change {
    struct auth *auth;
    struct err_note *note;
    char fresh[IDS_OF_BOOTSTRAP][AUTH_ID_BYTES + 1];
};

static void draw_ids(struct auth *a, char (*ids)[AUTH_ID_BYTES + 1], unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        unsigned char random[SECRET_ID_RANDOM_BYTES];
        a->entropy(random, sizeof random);
        secret_id(clock_store(a->clock), random, ids[i]);
    }
}

static void change_init(struct change *c, struct auth *a, struct err_note *note)
{
    *c = (struct change){ .auth = a, .note = note };
    draw_ids(a, c->fresh, IDS_OF_BOOTSTRAP);
}

/* ---- rows, inside an update ---- */

static err put_row(struct engine_txn *t, const struct rowkey *k, const struct buf *value)
{
    err why = rowkey_status(k);
    if (why == ERR_OK)
        why = buf_status(value);
    return why != ERR_OK ? why : engine_txn_put(t, SPACE_AUTH, rowkey_str(k), buf_str(value), STR_NONE);
}

static err put_name_row(struct engine_txn *t, const struct rowkey *k, str name)
{
    struct buf b;
    buf_init(&b, ROW_VALUE_BYTES_MAX);
    row_put_name(&b, &(struct row_name){ .name = name, .created_at = engine_txn_now(t) });
    err why = put_row(t, k, &b);
    buf_fini(&b);
    return why;
}

static err delete_row(struct engine_txn *t, const struct rowkey *k)
{
    err why = rowkey_status(k);
    return why != ERR_OK ? why : engine_txn_delete(t, SPACE_AUTH, rowkey_str(k));
}

static err find_row(struct engine_txn *t, const struct rowkey *k, struct engine_row *row)
{
    err why = rowkey_status(k);
    return why != ERR_OK ? why : engine_get(engine_txn_view(t), SPACE_AUTH, rowkey_str(k), row);
}

static err put_binding(struct engine_txn *t, str user_id, str space, str role, str id)
{
    struct rowkey k;
    row_key_of_binding(&k, user_id, space, role);
    return put_name_row(t, &k, id);
}

/* Deletes every row whose key starts with prefix. */
static err delete_all(struct engine_txn *t, const struct rowkey *prefix)
{
    for (;;) {
        struct rowkey until = *prefix;
        rowkey_prefix_end(&until);
        struct engine_cursor *c = engine_cursor_open(
            engine_txn_view(t),
            &(struct engine_range){ .space = SPACE_AUTH, .from = rowkey_str(prefix), .until = rowkey_str(&until) });
        struct engine_row row;
        struct rowkey found;
        rowkey_init(&found);
        err why = engine_cursor_next(c, &row);
        if (why == ERR_OK)
            rowkey_put_raw(&found, row.key); /* the cursor lets go of it */
        engine_cursor_close(&c);
        if (why == ERR_NOT_FOUND)
            return ERR_OK;
        if (why == ERR_OK)
            why = delete_row(t, &found);
        if (why != ERR_OK)
            return why;
    }
}

static err any_row(struct engine_view *v, const struct rowkey *prefix, bool *any)
{
    struct rowkey until = *prefix;
    rowkey_prefix_end(&until);
    struct engine_cursor *c = engine_cursor_open(
        v, &(struct engine_range){ .space = SPACE_AUTH, .from = rowkey_str(prefix), .until = rowkey_str(&until) });
    struct engine_row row;
    err why = engine_cursor_next(c, &row);
    engine_cursor_close(&c);
    if (why != ERR_OK && why != ERR_NOT_FOUND)
        return why;
    *any = why == ERR_OK;
    return ERR_OK;
}

/* ---- what a new store lacks ---- */

static err ensure_role(struct engine_txn *t, const struct standard_role *role, const char *fresh_id)
{
    struct rowkey k;
    row_key_of_role(&k, STR(AUTH_SYSTEM), str_of(role->name));
    struct engine_row row;
    struct row_role now = { .id = str_of(fresh_id), .standard = true, .created_at = engine_txn_now(t) };
    char id[AUTH_ID_BYTES + 1];
    err why = find_row(t, &k, &row);
    if (why == ERR_OK) {
        why = row_get_role(row.value, &now);
        if (why != ERR_OK || now.bits == role->bits)
            return why;
        if (!str_to_cstr(now.id, id, sizeof id)) /* a role keeps its id */
            return ERR_CORRUPT;
        now.id = str_of(id);
    } else if (why != ERR_NOT_FOUND) {
        return why;
    }
    now.bits = role->bits;
    struct buf b;
    buf_init(&b, ROW_VALUE_BYTES_MAX);
    row_put_role(&b, &now);
    why = put_row(t, &k, &b);
    buf_fini(&b);
    return why;
}

static err ensure_system(struct engine_txn *t, const char *fresh_id)
{
    struct rowkey k;
    struct engine_row row;
    row_key_of_namespace(&k, STR(AUTH_SYSTEM));
    err why = find_row(t, &k, &row);
    if (why != ERR_NOT_FOUND)
        return why;
    why = put_name_row(t, &k, STR_NONE);
    row_key_of_user(&k, STR(AUTH_ANONYMOUS));
    if (why == ERR_OK)
        why = put_name_row(t, &k, STR(AUTH_ANONYMOUS));
    row_key_of_user_name(&k, STR(AUTH_ANONYMOUS));
    if (why == ERR_OK)
        why = put_name_row(t, &k, STR(AUTH_ANONYMOUS));
    if (why == ERR_OK)
        why = put_binding(t, STR(AUTH_ANONYMOUS), STR(AUTH_SYSTEM), STR("Admin"), str_of(fresh_id));
    return why;
}

static err ensure(struct engine_txn *t, const struct change *c)
{
    struct standard_role roles[STANDARD_ROLES];
    standard_roles(roles);
    err why = ensure_system(t, c->fresh[STANDARD_ROLES]);
    for (unsigned i = 0; i < STANDARD_ROLES && why == ERR_OK; i++)
        why = ensure_role(t, &roles[i], c->fresh[i]);
    return why;
}

static err decide_bootstrap(struct engine_txn *t, void *ctx)
{
    return ensure(t, ctx);
}

err auth_bootstrap(struct auth *a)
{
    struct change c;
    change_init(&c, a, NULL);
    err why = engine_update_wait(a->engine, decide_bootstrap, &c);
    grants_cache_empty(a->cache);
    return why;
}

/* ---- keys ---- */

struct create {
    struct change change;
    const struct auth_key_new *n;
    str space, name;
    char ids[IDS_OF_CREATE][AUTH_ID_BYTES + 1]; /* key, user, bindings */
    char name_text[AUTH_NAME_BYTES_MAX + 1];
    unsigned char random[SECRET_RANDOM_BYTES];
    char *secret;                               /* the caller's, AUTH_KEY_BYTES_MAX + 1 */
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

static err check_new(struct create *c)
{
    struct err_note *note = c->change.note;
    bool is_system = str_eq(c->space, STR(AUTH_SYSTEM));
    if (!is_plain(c->space, AUTH_NAME_BYTES_MAX) || (c->space.p[0] == '_' && !is_system)) {
        err_note_set(note, "namespace is invalid; '%.*s'", STR_ARG(str_take(c->space, 60)));
        return ERR_BAD;
    }
    if (!is_plain(c->name, AUTH_NAME_BYTES_MAX)) {
        err_note_set(note, "username is invalid; '%.*s'", STR_ARG(str_take(c->name, 60)));
        return ERR_BAD;
    }
    if (c->n->tag.n > 0 && !secret_tag_valid(c->n->tag)) {
        err_note_set(note, c->n->tag.n > AUTH_TAG_BYTES_MAX
                               ? "key_tag is invalid; cannot be greater than 16 characters"
                               : "key_tag is invalid; must be lowercase alphanumeric only");
        return ERR_BAD;
    }
    if (c->n->roles_count == 0 || c->n->roles_count > AUTH_ROLES_OF_KEY_MAX) {
        err_note_set(note, "a key has 1 to %d roles", AUTH_ROLES_OF_KEY_MAX);
        return ERR_BAD;
    }
    return ERR_OK;
}

static err decide_user(struct engine_txn *t, struct create *c)
{
    struct rowkey k;
    struct engine_row row;
    row_key_of_user_name(&k, c->name);
    err why = find_row(t, &k, &row);
    if (why == ERR_OK) {
        err_note_set(c->change.note, "username is already taken");
        return ERR_CONFLICT;
    }
    if (why == ERR_NOT_FOUND)
        why = put_name_row(t, &k, str_of(c->ids[1]));
    row_key_of_user(&k, str_of(c->ids[1]));
    return why != ERR_OK ? why : put_name_row(t, &k, c->name);
}

static err decide_roles(struct engine_txn *t, struct create *c)
{
    err why = ERR_OK;
    for (unsigned i = 0; i < c->n->roles_count && why == ERR_OK; i++) {
        struct rowkey k;
        struct engine_row row;
        row_key_of_role(&k, c->space, c->n->roles[i]);
        why = find_row(t, &k, &row);
        row_key_of_role(&k, STR(AUTH_SYSTEM), c->n->roles[i]);
        if (why == ERR_NOT_FOUND)
            why = find_row(t, &k, &row);
        if (why == ERR_NOT_FOUND || why == ERR_LIMIT) {
            err_note_set(c->change.note, "role does not exist; '%.*s'", STR_ARG(str_take(c->n->roles[i], 60)));
            return ERR_BAD;
        }
        if (why == ERR_OK)
            why = put_binding(t, str_of(c->ids[1]), c->space, c->n->roles[i], str_of(c->ids[2 + i]));
    }
    return why;
}

/* The namespace is made when it is not there; *tag is its key tag, copied. */
static err decide_namespace(struct engine_txn *t, str space, char tag[AUTH_TAG_BYTES_MAX + 1])
{
    struct rowkey k;
    struct engine_row row;
    struct row_name found = { .name = STR_NONE };
    row_key_of_namespace(&k, space);
    err why = find_row(t, &k, &row);
    if (why == ERR_NOT_FOUND)
        why = put_name_row(t, &k, STR_NONE);
    else if (why == ERR_OK)
        why = row_get_name(row.value, &found);
    if (why == ERR_OK && !str_to_cstr(found.name, tag, AUTH_TAG_BYTES_MAX + 1))
        return ERR_CORRUPT;
    return why;
}

static err change_count(struct engine_txn *t, int by, struct err_note *note)
{
    struct rowkey k;
    struct engine_row row;
    uint64_t count = 0;
    row_key_of_count(&k);
    err why = find_row(t, &k, &row);
    if (why == ERR_OK) {
        struct cursor c = { .rest = row.value };
        bool known = cursor_u8(&c) == ROW_VERSION;
        count = cursor_be64(&c);
        if (!known || !cursor_done(&c))
            return ERR_CORRUPT;
    } else if (why != ERR_NOT_FOUND) {
        return why;
    }
    if (by < 0 && count == 0)
        return ERR_CORRUPT;
    count = by < 0 ? count - 1 : count + 1;
    if (count > AUTH_KEYS_MAX) {
        err_note_set(note, "more than %d keys", AUTH_KEYS_MAX);
        return ERR_LIMIT;
    }
    struct buf b;
    buf_init(&b, ROW_VALUE_BYTES_MAX);
    buf_put_u8(&b, ROW_VERSION);
    buf_put_be64(&b, count);
    why = put_row(t, &k, &b);
    buf_fini(&b);
    return why;
}

static err put_secret(struct engine_txn *t, struct create *c, str tag)
{
    secret_format(tag, c->random, c->secret);
    secret_prefix(str_of(c->secret), c->prefix);
    c->created_at = engine_txn_now(t);
    struct row_secret r = { .hash = secret_hash(str_of(c->secret)), .id = str_of(c->ids[0]),
                            .user_id = str_of(c->ids[1]), .space = c->space, .prefix = str_of(c->prefix),
                            .created_at = c->created_at, .expires_at = c->n->expires_at };
    struct rowkey k;
    struct buf b;
    buf_init(&b, ROW_VALUE_BYTES_MAX);
    row_put_secret(&b, &r);
    row_key_of_secret(&k, &r.hash);
    err why = put_row(t, &k, &b);
    buf_clear(&b);
    buf_put(&b, (str){ .p = (const char *)r.hash.bytes, .n = ROW_HASH_KEY_BYTES });
    row_key_of_id(&k, r.id);
    if (why == ERR_OK)
        why = put_row(t, &k, &b);
    buf_clear(&b);
    row_key_of_owned(&k, r.user_id, r.id);
    if (why == ERR_OK)
        why = put_row(t, &k, &b);
    buf_fini(&b);
    return why;
}

static err decide_create(struct engine_txn *t, void *ctx)
{
    struct create *c = ctx;
    char tag[AUTH_TAG_BYTES_MAX + 1] = "";
    err why = ensure(t, &c->change);
    if (why == ERR_OK)
        why = decide_namespace(t, c->space, tag);
    if (why == ERR_OK)
        why = decide_user(t, c);
    if (why == ERR_OK)
        why = decide_roles(t, c);
    if (why == ERR_OK)
        why = change_count(t, 1, c->change.note);
    if (why != ERR_OK)
        return why;
    return put_secret(t, c, c->n->tag.n > 0 ? c->n->tag : tag[0] != '\0' ? str_of(tag) : STR("live"));
}

static void fill_created(const struct create *c, struct auth_key *out)
{
    *out = (struct auth_key){ .created_at = c->created_at, .expires_at = c->n->expires_at };
    memcpy(out->id, c->ids[0], sizeof out->id);
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

err auth_key_create(struct auth *a, const struct auth_key_new *n, struct auth_key *out,
                    char secret[AUTH_KEY_BYTES_MAX + 1], struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct create c = { .n = n, .secret = secret };
    change_init(&c.change, a, note);
    draw_ids(a, c.ids, IDS_OF_CREATE);
    a->entropy(c.random, sizeof c.random);
    c.space = n->space.n > 0 ? n->space : STR(AUTH_SYSTEM);
    (void)snprintf(c.name_text, sizeof c.name_text, "key-%s", c.ids[0]); /* always fits */
    c.name = n->name.n > 0 ? n->name : str_of(c.name_text);
    secret[0] = '\0';
    err_note_set(note, "the store refused");
    err why = check_new(&c);
    if (why == ERR_OK)
        why = engine_update_wait(a->engine, decide_create, &c);
    grants_cache_empty(a->cache);
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

static err delete_user(struct engine_txn *t, str user_id)
{
    struct rowkey k, name_key;
    struct engine_row row;
    struct row_name user;
    row_key_of_user(&k, user_id);
    err why = find_row(t, &k, &row);
    if (why == ERR_OK)
        why = row_get_name(row.value, &user);
    if (why != ERR_OK)
        return why == ERR_NOT_FOUND ? ERR_OK : why;
    row_key_of_user_name(&name_key, user.name);
    why = delete_row(t, &name_key);
    if (why == ERR_OK)
        why = delete_row(t, &k);
    row_key_of_bindings(&k, user_id);
    return why != ERR_OK ? why : delete_all(t, &k);
}

static err decide_delete(struct engine_txn *t, void *ctx)
{
    const struct removal *r = ctx;
    struct rowkey by_id, k;
    struct engine_row row;
    row_key_of_id(&by_id, r->id);
    err why = find_row(t, &by_id, &row);
    if (why != ERR_OK)
        return why;
    struct secret_hash half = { .bytes = { 0 } };
    if (row.value.n != ROW_HASH_KEY_BYTES)
        return ERR_CORRUPT;
    memcpy(half.bytes, row.value.p, ROW_HASH_KEY_BYTES);
    struct row_secret secret;
    char user_id[AUTH_NAME_BYTES_MAX + 1];
    row_key_of_secret(&k, &half);
    why = find_row(t, &k, &row);
    if (why == ERR_OK)
        why = row_get_secret(row.value, &secret);
    if (why != ERR_OK || !str_to_cstr(secret.user_id, user_id, sizeof user_id))
        return why == ERR_OK || why == ERR_NOT_FOUND ? ERR_CORRUPT : why;
    why = delete_row(t, &k);
    if (why == ERR_OK)
        why = delete_row(t, &by_id);
    row_key_of_owned(&k, str_of(user_id), r->id);
    if (why == ERR_OK)
        why = delete_row(t, &k);
    if (why == ERR_OK)
        why = change_count(t, -1, r->change.note);
    bool others = true;
    row_key_of_owner(&k, str_of(user_id));
    if (why == ERR_OK)
        why = any_row(engine_txn_view(t), &k, &others);
    return why != ERR_OK || others ? why : delete_user(t, str_of(user_id));
}

err auth_key_delete(struct auth *a, str id, struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct removal r = { .id = id };
    change_init(&r.change, a, note);
    err why = engine_update_wait(a->engine, decide_delete, &r);
    grants_cache_empty(a->cache);
    if (why != ERR_OK)
        err_note_set(note, why == ERR_NOT_FOUND ? "api key does not exist" : "the store refused");
    return why;
}

/* ---- the open door ---- */

struct door {
    struct change change;
    bool open;
};

static err decide_door(struct engine_txn *t, void *ctx)
{
    const struct door *d = ctx;
    err why = ensure(t, &d->change);
    struct rowkey k;
    row_key_of_bindings(&k, STR(AUTH_ANONYMOUS));
    if (why == ERR_OK)
        why = delete_all(t, &k);
    if (why == ERR_OK && d->open)
        why = put_binding(t, STR(AUTH_ANONYMOUS), STR(AUTH_SYSTEM), STR("Admin"), str_of(d->change.fresh[0]));
    return why;
}

err auth_door_set(struct auth *a, bool open, struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct door d = { .open = open };
    change_init(&d.change, a, note);
    err why = engine_update_wait(a->engine, decide_door, &d);
    grants_cache_empty(a->cache);
    if (why != ERR_OK)
        err_note_set(note, "the store refused: %s", err_name(why));
    return why;
}

err auth_door_open(struct auth *a, bool *open)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct rowkey k;
    struct engine_row row;
    struct engine_view *v = engine_view_begin(a->engine);
    row_key_of_namespace(&k, STR(AUTH_SYSTEM));
    err why = engine_get(v, SPACE_AUTH, rowkey_str(&k), &row);
    bool any = true;
    row_key_of_bindings(&k, STR(AUTH_ANONYMOUS));
    if (why == ERR_OK)
        why = any_row(v, &k, &any);
    else if (why == ERR_NOT_FOUND)
        why = ERR_OK;
    engine_view_end(&v);
    if (why == ERR_OK)
        *open = any;
    return why;
}
