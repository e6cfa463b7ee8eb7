/* rows.h - the rows of the authority. Private to auth.
 *
 * Space SPACE_AUTH; a key is one letter and its fields (codec/rowkey.h), a value starts with ROW_VERSION.
 *   n  namespace                    -> tag, created_at
 *   u  user id                      -> name, created_at
 *   U  user name                    -> user id
 *   r  namespace, role name         -> id, bits, standard, created_at
 *   b  user id, namespace, role     -> id, created_at
 *   k  first half of a key's hash   -> all of its hash, id, user id, namespace, prefix, created_at, expires_at
 *   i  key id                       -> first half of its hash
 *   o  user id, key id              -> nothing: the keys of a user
 *   c                               -> number of keys
 * Ids of users are KSUIDs, or `anonymous`. Decoders fail with ERR_CORRUPT. Thread: any. */
#ifndef AUTH_ROWS_H
#define AUTH_ROWS_H

#include "auth/secret.h"
#include "base/buf.h"
#include "codec/rowkey.h"

enum { ROW_VERSION = 1, ROW_HASH_KEY_BYTES = SECRET_HASH_BYTES / 2, ROW_VALUE_BYTES_MAX = 900 };

void row_key_of_namespace(struct rowkey *k, str name);
void row_key_of_user(struct rowkey *k, str id);
void row_key_of_user_name(struct rowkey *k, str name);
void row_key_of_role(struct rowkey *k, str space, str name);
void row_key_of_bindings(struct rowkey *k, str user_id); /* all of a user: a prefix */
void row_key_of_binding(struct rowkey *k, str user_id, str space, str role);
void row_key_of_secret(struct rowkey *k, const struct secret_hash *h);
void row_key_of_secrets(struct rowkey *k);               /* all: a prefix */
void row_key_of_id(struct rowkey *k, str id);
void row_key_of_owned(struct rowkey *k, str user_id, str id);
void row_key_of_owner(struct rowkey *k, str user_id);    /* a prefix */
void row_key_of_count(struct rowkey *k);
/* Namespace and role of a binding's key, borrowed from it or copied into a. */
MUST_CHECK err row_binding_names(str key, struct arena *a, str *space, str *role);

/* Values as they are on disk. Texts are borrowed: from the row when decoded, from the caller when encoded. */
struct row_secret {
    struct secret_hash hash;
    str id, user_id, space, prefix;
    store_time created_at, expires_at;
};
struct row_role { str id; uint64_t bits; bool standard; store_time created_at; };
struct row_name { str name; store_time created_at; }; /* namespace: its tag; user: its name; binding: its id */

void row_put_secret(struct buf *b, const struct row_secret *r);
MUST_CHECK err row_get_secret(str value, struct row_secret *r);
void row_put_role(struct buf *b, const struct row_role *r);
MUST_CHECK err row_get_role(str value, struct row_role *r);
void row_put_name(struct buf *b, const struct row_name *r);
MUST_CHECK err row_get_name(str value, struct row_name *r);

#endif
