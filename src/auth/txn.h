/* txn.h - one change of the authority: rows read and written inside an update. Private to auth.
 *
 * A decision may run again, so all that is random is drawn before it. Thread: decisions run where
 * the store of the rows runs them: on the committer of an engine. */
#ifndef AUTH_TXN_H
#define AUTH_TXN_H

#include "auth/auth_impl.h"
#include "auth/rows.h"
#include "store/row_store.h"

/* What every change carries; the first member of its context. removes: it takes rights away, and
 * does so on a full disk, too. */
struct change {
    struct auth *auth;
    struct err_note *note;
    bool removes;
};

/* Runs the decision, waits for the disk, empties the cache. Blocks. */
MUST_CHECK err change_run(struct change *c, err (*decide)(struct row_txn *t, void *ctx), void *ctx);
void draw_id(struct auth *a, char id[AUTH_ID_BYTES + 1]);
/* "<what> does not exist; 'X' was not found" and ERR_NOT_FOUND; a cut name ends at a whole
 * character. */
MUST_CHECK err not_found(struct err_note *note, const char *what, str name);
/* The start of s that fits into a note. */
str shown(str s);

/* ERR_LIMIT, too, when key or value did not fit. */
MUST_CHECK err txn_put(struct row_txn *t, const struct rowkey *k, const struct buf *value);
MUST_CHECK err txn_put_empty(struct row_txn *t, const struct rowkey *k);
MUST_CHECK err txn_delete(struct row_txn *t, const struct rowkey *k);
/* ERR_NOT_FOUND, also when the key has no room: no row can have it. */
MUST_CHECK err rows_find(struct row_view *v, const struct rowkey *k, struct row *row);
MUST_CHECK err txn_find(struct row_txn *t, const struct rowkey *k, struct row *row);
/* The first row under a prefix, copied. ERR_NOT_FOUND. */
struct row_copy {
    struct rowkey key;
    char value[ROW_VALUE_BYTES_MAX];
    size_t value_n;
};
MUST_CHECK err rows_first(struct row_view *v, const struct rowkey *prefix, struct row_copy *out);
MUST_CHECK err rows_any(struct row_view *v, const struct rowkey *prefix, bool *any);
/* How many rows under a prefix, counted up to max. */
MUST_CHECK err rows_count(struct row_view *v, const struct rowkey *prefix, unsigned max,
                          unsigned *count);
/* Adds by (1 or -1) to the number of rows of this letter. ERR_LIMIT past max, which the note calls
 * what. */
MUST_CHECK err txn_count(struct row_txn *t, char kind, int by, uint64_t max, const char *what,
                         struct err_note *note);

/* ---- parts that more than one change is made of ---- */

/* space.c. The row of a namespace; its tag is copied to tag. ERR_NOT_FOUND. */
MUST_CHECK err space_tag(struct row_txn *t, str space, char tag[AUTH_TAG_BYTES_MAX + 1]);
MUST_CHECK err space_put_new(struct row_txn *t, str space, struct err_note *note);
MUST_CHECK err text_name_check(str name, size_t bytes_max, const char *what, struct err_note *note);
/* user.c */
struct user_new {
    str id, name, email, external_id;
};
MUST_CHECK err user_put_new(struct row_txn *t, const struct user_new *u, struct err_note *note);
/* The user with all that belongs to it. ERR_NOT_FOUND. */
MUST_CHECK err user_delete(struct row_txn *t, str id, struct err_note *note);
/* apikey.c */
struct secret_new {
    str id, user_id, scope, name, tag; /* tag: what was asked for, or empty */
    store_time expires_at;
    const unsigned char *random; /* SECRET_RANDOM_BYTES */
    char *secret, *prefix;       /* out, to the caller's */
};
MUST_CHECK err secret_put_new(struct row_txn *t, const struct secret_new *n, struct err_note *note);
/* Deletes the key with this id; user_id gets whose it was. ERR_NOT_FOUND. */
MUST_CHECK err secret_delete(struct row_txn *t, str id, char user_id[AUTH_ID_BYTES + 1],
                             struct err_note *note);
/* role.c. ERR_NOT_FOUND; id is copied. */
MUST_CHECK err role_find(struct row_txn *t, str space, str name, char id[AUTH_ID_BYTES + 1]);
/* binding.c */
struct binding_new {
    str id, user_id, space, role_space, role_name, role_id;
};
/* ERR_CONFLICT when it is there; ERR_LIMIT. */
MUST_CHECK err binding_put_new(struct row_txn *t, const struct binding_new *n,
                               struct err_note *note);
MUST_CHECK err bindings_delete_of(struct row_txn *t, str user_id);
/* give.c. May who gives it have that role bound in space? giver: his Authorization field; NULL:
 * nobody is asked. owned: it is his right to bind roles there, which is enough for what counts
 * nowhere else. ERR_DENIED. */
struct give {
    const struct auth *auth;
    const str *giver;
    str space, role_space, role_name;
    bool owned;
};
MUST_CHECK err give_check(struct row_txn *t, const struct give *g, struct err_note *note);
/* bootstrap.c. What a store with checks has; ids: drawn before, BOOTSTRAP_IDS of them. */
enum { BOOTSTRAP_IDS = STANDARD_ROLES + 1 };
struct bootstrap_ids {
    char text[BOOTSTRAP_IDS][AUTH_ID_BYTES + 1];
};
void bootstrap_draw(struct auth *a, struct bootstrap_ids *ids);
MUST_CHECK err bootstrap_ensure(struct row_txn *t, const struct bootstrap_ids *ids);
/* Why anonymous gets no right while others reach the server: ERR_CONFLICT. */
MUST_CHECK err exposed(struct err_note *note);

#endif
