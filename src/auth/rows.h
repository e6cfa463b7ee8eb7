/* rows.h - the rows of the authority. Private to auth.
 *
 * Space SPACE_AUTH; a key is one letter and its fields (codec/rowkey.h), a value starts with
 * ROW_VERSION.
 *   n  namespace                    -> tag, created_at; blob: its description
 *   u  user id                      -> name, email, external id, created_at, updated_at
 *   U  user name                    -> user id
 *   r  namespace, role name         -> id, bits, standard, created_at
 *   R  namespace, role id           -> role name: roles by id
 *   b  user id, namespace, role id  -> id, namespace and name of the role, created_at
 *   B  namespace, binding id        -> user id, role id: bindings by id
 *   x  role id, binding id          -> nothing: the bindings of a role
 *   k  first half of a key's hash   -> all of its hash, id, user id, scope, prefix, name,
 *      created_at, expires_at
 *   i  key id                       -> first half of its hash
 *   o  user id, key id              -> nothing: the keys of a user
 *   c  letter of a row              -> how many there are of n, u, r, k
 * A role that is bound in another namespace than its own is one of `_system`. Ids of users are
 * KSUIDs, or `anonymous`. Decoders fail with ERR_CORRUPT. Thread: any. */
#ifndef AUTH_ROWS_H
#define AUTH_ROWS_H

#include "auth/secret.h"
#include "base/buf.h"
#include "codec/rowkey.h"

enum { ROW_VERSION = 2, ROW_HASH_KEY_BYTES = SECRET_HASH_BYTES / 2, ROW_VALUE_BYTES_MAX = 900 };

/* The key of a row by its letter and the texts that follow; fewer texts than fields: a prefix of
 * many. */
void row_key1(struct rowkey *k, char kind, str a);
void row_key2(struct rowkey *k, char kind, str a, str b);
void row_key3(struct rowkey *k, char kind, str a, str b, str c);
/* All rows of a letter: a prefix. */
void row_key_of_all(struct rowkey *k, char kind);
void row_key_of_secret(struct rowkey *k, const struct secret_hash *h);
void row_key_of_count(struct rowkey *k, char kind);
/* The texts of a key of this letter, borrowed from it or copied into a. */
MUST_CHECK err row_key_texts(str key, char kind, struct arena *a, str *texts, unsigned count);

/* Values as they are on disk. Texts are borrowed: from the row when decoded, from the caller when
 * encoded. */
struct row_space {
    str tag;
    store_time created_at;
};
struct row_user {
    str name, email, external_id;
    store_time created_at, updated_at;
};
struct row_role {
    str id;
    uint64_t bits;
    bool standard;
    store_time created_at;
};
struct row_binding {
    str id, role_space, role_name;
    store_time created_at;
};
struct row_bound {
    str user_id, role_id;
};
struct row_secret {
    struct secret_hash hash;
    str id, user_id, scope, prefix, name;
    store_time created_at, expires_at;
};

void row_put_space(struct buf *b, const struct row_space *r);
MUST_CHECK err row_get_space(str value, struct row_space *r);
void row_put_user(struct buf *b, const struct row_user *r);
MUST_CHECK err row_get_user(str value, struct row_user *r);
void row_put_role(struct buf *b, const struct row_role *r);
MUST_CHECK err row_get_role(str value, struct row_role *r);
void row_put_binding(struct buf *b, const struct row_binding *r);
MUST_CHECK err row_get_binding(str value, struct row_binding *r);
void row_put_bound(struct buf *b, const struct row_bound *r);
MUST_CHECK err row_get_bound(str value, struct row_bound *r);
void row_put_secret(struct buf *b, const struct row_secret *r);
MUST_CHECK err row_get_secret(str value, struct row_secret *r);
/* One text: U and R. */
void row_put_text(struct buf *b, str s);
MUST_CHECK err row_get_text(str value, str *s);

#endif
