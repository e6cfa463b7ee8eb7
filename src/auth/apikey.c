/* apikey.c - keys of users that are there already. */
#include "auth/authority.h"
#include "auth/list.h"
#include "auth/txn.h"

#include <openssl/crypto.h>
#include <string.h>

err auth_apikey_check(const struct auth_apikey *k, struct err_note *note)
{
    if (k->user_id.n == 0) {
        err_note_set(note, "user_id is invalid; cannot be empty");
        return ERR_BAD;
    }
    if (k->name.n > AUTH_KEY_NAME_BYTES_MAX) {
        err_note_set(note, "name is invalid; cannot be greater than '%d' characters",
                     AUTH_KEY_NAME_BYTES_MAX);
        return ERR_BAD;
    }
    err why = k->scope.n > 0 ? auth_space_name_check(k->scope, note) : ERR_OK;
    return why != ERR_OK ? why : tag_check(k->tag, "key_tag", note);
}

/* ---- rows ---- */

static err put_rows(struct row_txn *t, const struct row_secret *r)
{
    struct rowkey k;
    struct buf b;
    buf_init(&b, ROW_VALUE_BYTES_MAX);
    row_put_secret(&b, r);
    row_key_of_secret(&k, &r->hash);
    err why = txn_put(t, &k, &b);
    buf_clear(&b);
    buf_put(&b, (str){ .p = (const char *)r->hash.bytes, .n = ROW_HASH_KEY_BYTES });
    row_key1(&k, 'i', r->id);
    if (why == ERR_OK)
        why = txn_put(t, &k, &b);
    buf_fini(&b);
    row_key2(&k, 'o', r->user_id, r->id);
    return why != ERR_OK ? why : txn_put_empty(t, &k);
}

/* The tag asked for, else that of the scope, else "live". */
static err choose_tag(struct row_txn *t, const struct secret_new *n,
                      char tag[AUTH_TAG_BYTES_MAX + 1])
{
    tag[0] = '\0';
    err why = ERR_OK;
    if (n->tag.n > 0)
        INVARIANT(str_to_cstr(n->tag, tag, AUTH_TAG_BYTES_MAX + 1)); /* checked */
    else if (n->scope.n > 0)
        why = space_tag(t, n->scope, tag);
    if (tag[0] == '\0')
        INVARIANT(str_to_cstr(STR("live"), tag, AUTH_TAG_BYTES_MAX + 1));
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

err secret_put_new(struct row_txn *t, const struct secret_new *n, struct err_note *note)
{
    char tag[AUTH_TAG_BYTES_MAX + 1];
    unsigned owned = 0;
    struct rowkey k;
    row_key1(&k, 'o', n->user_id);
    err why = rows_count(row_txn_view(t), &k, AUTH_KEYS_OF_USER_MAX, &owned);
    if (why == ERR_OK && owned >= AUTH_KEYS_OF_USER_MAX) {
        err_note_set(note, "keys of a user are limited; there are %d already",
                     AUTH_KEYS_OF_USER_MAX);
        return ERR_LIMIT;
    }
    if (why == ERR_OK)
        why = txn_count(t, 'k', 1, AUTH_KEYS_MAX, "api keys", note);
    if (why == ERR_OK)
        why = choose_tag(t, n, tag);
    if (why != ERR_OK)
        return why;
    secret_format(str_of(tag), n->random, n->secret);
    secret_prefix(str_of(n->secret), n->prefix);
    return put_rows(t, &(struct row_secret){ .hash = secret_hash(str_of(n->secret)),
                                             .id = n->id,
                                             .user_id = n->user_id,
                                             .scope = n->scope,
                                             .prefix = str_of(n->prefix),
                                             .name = n->name,
                                             .created_at = row_txn_now(t),
                                             .expires_at = n->expires_at });
}

/* What the key with this id is; its texts are borrowed from the row. */
static err find_secret(struct row_view *v, str id, struct row_secret *out)
{
    struct rowkey k;
    struct row row;
    struct secret_hash half = { .bytes = { 0 } };
    row_key1(&k, 'i', id);
    err why = rows_find(v, &k, &row);
    if (why != ERR_OK)
        return why;
    if (row.value.n != ROW_HASH_KEY_BYTES)
        return ERR_CORRUPT;
    memcpy(half.bytes, row.value.p, ROW_HASH_KEY_BYTES);
    row_key_of_secret(&k, &half);
    why = rows_find(v, &k, &row);
    if (why == ERR_NOT_FOUND)
        return ERR_CORRUPT;
    return why != ERR_OK ? why : row_get_secret(row.value, out);
}

err secret_delete(struct row_txn *t, str id, char user_id[AUTH_ID_BYTES + 1], struct err_note *note)
{
    struct row_secret r;
    err why = find_secret(row_txn_view(t), id, &r);
    if (why == ERR_NOT_FOUND)
        err_note_set(note, "%s", auth_reason_text(AUTH_KEY_UNKNOWN));
    if (why == ERR_OK && !str_to_cstr(r.user_id, user_id, AUTH_ID_BYTES + 1))
        why = ERR_CORRUPT;
    if (why != ERR_OK)
        return why;
    struct rowkey k;
    row_key_of_secret(&k, &r.hash);
    why = txn_delete(t, &k);
    row_key1(&k, 'i', id);
    if (why == ERR_OK)
        why = txn_delete(t, &k);
    row_key2(&k, 'o', str_of(user_id), id);
    if (why == ERR_OK)
        why = txn_delete(t, &k);
    return why != ERR_OK ? why : txn_count(t, 'k', -1, AUTH_KEYS_MAX, "api keys", note);
}

/* ---- changes ---- */

struct apikey_change {
    struct change change;
    struct secret_new n;
    unsigned char random[SECRET_RANDOM_BYTES];
};

static err decide_create(struct row_txn *t, void *ctx)
{
    const struct apikey_change *c = ctx;
    struct rowkey k;
    struct row row;
    row_key1(&k, 'u', c->n.user_id);
    err why = txn_find(t, &k, &row);
    if (why == ERR_NOT_FOUND)
        return not_found(c->change.note, "user", c->n.user_id);
    return why != ERR_OK ? why : secret_put_new(t, &c->n, c->change.note);
}

err auth_apikey_create(struct auth *a, const struct auth_apikey *k, struct auth_secret *out,
                       struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    err why = auth_apikey_check(k, note);
    if (why != ERR_OK)
        return why;
    struct auth_secret made = { .id = "" };
    struct apikey_change c = { .change = { .auth = a, .note = note } };
    draw_id(a, made.id);
    a->entropy(c.random, sizeof c.random);
    c.n = (struct secret_new){ .id = str_of(made.id),
                               .user_id = k->user_id,
                               .scope = k->scope,
                               .name = k->name,
                               .tag = k->tag,
                               .expires_at = k->expires_at,
                               .random = c.random,
                               .secret = made.key,
                               .prefix = made.prefix };
    why = change_run(&c.change, decide_create, &c);
    if (why == ERR_OK)
        *out = made;
    OPENSSL_cleanse(c.random, sizeof c.random);
    OPENSSL_cleanse(&made, sizeof made);
    return why;
}

static err decide_delete(struct row_txn *t, void *ctx)
{
    const struct apikey_change *c = ctx;
    char user_id[AUTH_ID_BYTES + 1];
    return secret_delete(t, c->n.id, user_id, c->change.note);
}

err auth_apikey_delete(struct auth *a, str id, struct err_note *note)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct apikey_change c = { .change = { .auth = a, .note = note, .removes = true },
                               .n = { .id = id } };
    return change_run(&c.change, decide_delete, &c);
}

/* ---- reading ---- */

static err add_secret(struct listing *l, str id)
{
    struct row_secret r;
    err why = find_secret(l->view, id, &r);
    if (why == ERR_NOT_FOUND)
        why = ERR_CORRUPT;
    struct auth_apikey *k = why == ERR_OK ? listing_add(l) : NULL;
    if (k != NULL)
        *k = (struct auth_apikey){ .id = listing_text(l, r.id),
                                   .user_id = listing_text(l, r.user_id),
                                   .name = listing_text(l, r.name),
                                   .prefix = listing_text(l, r.prefix),
                                   .scope = listing_text(l, r.scope),
                                   .tag = STR(""),
                                   .created_at = r.created_at,
                                   .expires_at = r.expires_at };
    return why;
}

static err list_by_id(struct listing *l, const struct row *row)
{
    str id;
    err why = row_key_texts(row->key, 'i', l->arena, &id, 1);
    id = listing_text(l, id); /* the next call on the view lets go of it */
    return why != ERR_OK || id.p == NULL ? why : add_secret(l, id);
}

static err list_by_user(struct listing *l, const struct row *row)
{
    str texts[2];
    err why = row_key_texts(row->key, 'o', l->arena, texts, COUNT_OF(texts));
    str id = listing_text(l, texts[1]);
    return why != ERR_OK || id.p == NULL ? why : add_secret(l, id);
}

err auth_apikey_list(struct auth *a, str user_id, const struct auth_page *page, struct arena *arena,
                     struct auth_apikey **out, unsigned *count)
{
    MAGIC_CHECK(a, AUTH_MAGIC);
    struct listing l = { .auth = a,
                         .arena = arena,
                         .page = page,
                         .size = sizeof **out,
                         .each = user_id.n > 0 ? list_by_user : list_by_id };
    if (user_id.n > 0)
        row_key1(&l.prefix, 'o', user_id);
    else
        row_key_of_all(&l.prefix, 'i');
    err why = listing_run(&l);
    if (why == ERR_OK) {
        *out = l.items;
        *count = l.count;
    }
    return why;
}
