/* row_store.h - a small set of rows that a server keeps in memory or near it, whichever store they
 * are in: users, keys and roles (auth/auth.h).
 *
 * Model. A row is a key, ordered bytewise, a value, and perhaps a longer text beside them (`more`).
 * Reading happens in a view: one consistent state. Writing happens in a change: a decision that
 * reads the newest state and writes rows, all or none of them. A decision may run again, after its
 * writes were thrown away: it keeps nothing from an earlier run.
 *   A view never fails to begin. Where nothing is known, or nothing recent enough, reading in it is
 * ERR_UNAVAILABLE.
 * Stores: auth/engine_rows.h, on the embedded engine; cassandra/rows.h, shared by many servers.
 * Borrowed rows last until the next call on their view or cursor. Thread: any, for views and
 * changes; a view belongs to the thread that began it, a decision runs where the store says. */
#ifndef STORE_ROW_STORE_H
#define STORE_ROW_STORE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/times.h"

#include <stdatomic.h>

struct row {
    str key, value;
    size_t more_n;   /* bytes of more */
    const void *own; /* the store's */
};
struct row_store;
struct row_view;
struct row_cursor;
struct row_txn;
struct row_change {
    err (*decide)(struct row_txn *t, void *ctx);
    void *ctx;
    bool frees;            /* it takes rows away: also on a full disk */
    struct err_note *note; /* why the store refused, where it can say so; may be NULL */
};

struct row_store_ops {
    struct row_view *(*view_begin)(struct row_store *s);
    void (*view_end)(struct row_view *v);
    err (*get)(struct row_view *v, str key, struct row *out);
    err (*more)(struct row_view *v, const struct row *row, char *out);
    struct row_cursor *(*cursor_open)(struct row_view *v, str from, str until);
    err (*cursor_next)(struct row_cursor *c, struct row *out);
    void (*cursor_close)(struct row_cursor *c);
    err (*change)(struct row_store *s, const struct row_change *u);
    struct row_view *(*txn_view)(struct row_txn *t);
    store_time (*txn_now)(const struct row_txn *t);
    err (*put)(struct row_txn *t, str key, str value, str more);
    err (*remove)(struct row_txn *t, str key);
    bool (*known)(struct row_store *s); /* NULL: always */
};
struct row_store {
    const struct row_store_ops *ops;
    void (*_Atomic changed)(void *ctx); /* row_store_listen */
    void *changed_ctx;
};
/* Each begins with this. */
struct row_view {
    const struct row_store_ops *ops;
};
struct row_cursor {
    const struct row_store_ops *ops;
};
struct row_txn {
    const struct row_store_ops *ops;
};

/* changed is called whenever somebody else changed rows, on a thread of the store. One listener; it
 * outlives the store, or what tells the store of others. */
static inline void row_store_listen(struct row_store *s, void (*changed)(void *ctx), void *ctx)
{
    s->changed_ctx = ctx;
    atomic_store_explicit(&s->changed, changed, memory_order_release);
}
/* For stores. */
static inline void row_store_tell(struct row_store *s)
{
    void (*changed)(void *ctx) = atomic_load_explicit(&s->changed, memory_order_acquire);
    if (changed != NULL)
        changed(s->changed_ctx);
}
/* Are rows known, and recent enough to judge by them? Costs next to nothing. */
static inline bool row_store_known(struct row_store *s)
{
    return s->ops->known == NULL || s->ops->known(s);
}
/* Owner: caller; end it with row_view_end. Never waits. */
static inline struct row_view *row_view_begin(struct row_store *s)
{
    return s->ops->view_begin(s);
}
static inline void row_view_end(struct row_view **vp)
{
    (*vp)->ops->view_end(*vp);
    *vp = NULL;
}
/* ERR_NOT_FOUND, ERR_UNAVAILABLE, ERR_CORRUPT, ERR_IO. *out only on ERR_OK. */
MUST_CHECK static inline err row_get(struct row_view *v, str key, struct row *out)
{
    return v->ops->get(v, key, out);
}
/* The text beside a row that was just read: row->more_n bytes. May block on a cold page. */
MUST_CHECK static inline err row_more(struct row_view *v, const struct row *row, char *out)
{
    return v->ops->more(v, row, out);
}
/* Ordered walk over from <= key < until. Bounds are copied. The cursor is closed before its view
 * ends; rows written by the same change after opening may or may not be seen. */
static inline struct row_cursor *row_cursor_open(struct row_view *v, str from, str until)
{
    return v->ops->cursor_open(v, from, until);
}
/* ERR_NOT_FOUND at the end; else as row_get. */
MUST_CHECK static inline err row_cursor_next(struct row_cursor *c, struct row *out)
{
    return c->ops->cursor_next(c, out);
}
static inline void row_cursor_close(struct row_cursor **cp)
{
    (*cp)->ops->cursor_close(*cp);
    *cp = NULL;
}

/* Runs the decision and waits until what it wrote is safe. What it says other than ERR_OK is the
 * result, and nothing is written; else what the store says. ERR_AGAIN: others change rows just now.
 * Blocks: a pool job, or a start where the store allows it. */
MUST_CHECK static inline err row_store_change(struct row_store *s, const struct row_change *u)
{
    return s->ops->change(s, u);
}
/* The newest state, with this change's own writes. */
static inline struct row_view *row_txn_view(struct row_txn *t)
{
    return t->ops->txn_view(t);
}
static inline store_time row_txn_now(const struct row_txn *t)
{
    return t->ops->txn_now(t);
}
/* Puts or replaces. key and value are copied; more is borrowed until the change is over. ERR_LIMIT:
 * too long, or too many rows for one change. */
MUST_CHECK static inline err row_txn_put(struct row_txn *t, str key, str value, str more)
{
    return t->ops->put(t, key, value, more);
}
/* No error when it is not there. ERR_LIMIT. */
MUST_CHECK static inline err row_txn_delete(struct row_txn *t, str key)
{
    return t->ops->remove(t, key);
}

#endif
