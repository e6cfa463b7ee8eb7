/* engine_rows.c - views, walks and changes of the engine, by the words of row_store.h. The blob of
 * a row is its `more`. */
#include "auth/engine_rows.h"

#include "engine/engine.h"

#include <stdlib.h>

struct rows {
    struct row_store store;
    struct engine *engine;
};
struct view {
    struct row_view view;
    struct engine *engine;
    struct engine_view *of;
    struct engine_blob blob; /* of the row that was read last */
};
struct walk {
    struct row_cursor cursor;
    struct engine_cursor *of;
    struct engine_blob blob;
};
struct txn {
    struct row_txn txn;
    struct engine_txn *of;
    struct view view;
};

static const struct row_store_ops engine_rows_ops;

static void row_of(const struct engine_row *from, struct engine_blob *blob, struct row *out)
{
    *blob = from->blob;
    *out = (struct row){
        .key = from->key, .value = from->value, .more_n = (size_t)from->blob.n, .own = blob
    };
}

/* ---- reading ---- */

static struct row_view *view_begin(struct row_store *s)
{
    struct rows *rows = CONTAINER_OF(s, struct rows, store);
    struct view *v = calloc(1, sizeof *v);
    INVARIANT(v != NULL);
    v->view.ops = &engine_rows_ops;
    v->engine = rows->engine;
    v->of = engine_view_begin(rows->engine);
    return &v->view;
}

static void view_end(struct row_view *view)
{
    struct view *v = CONTAINER_OF(view, struct view, view);
    engine_view_end(&v->of);
    free(v);
}

static err view_get(struct row_view *view, str key, struct row *out)
{
    struct view *v = CONTAINER_OF(view, struct view, view);
    struct engine_row row;
    err why = engine_get(v->of, SPACE_AUTH, key, &row);
    if (why == ERR_OK)
        row_of(&row, &v->blob, out);
    return why;
}

static err view_more(struct row_view *view, const struct row *row, char *out)
{
    const struct view *v = CONTAINER_OF(view, struct view, view);
    return row->more_n == 0 ? ERR_OK : engine_blob_read(v->engine, row->own, 0, row->more_n, out);
}

static struct row_cursor *cursor_open(struct row_view *view, str from, str until)
{
    const struct view *v = CONTAINER_OF(view, struct view, view);
    struct walk *w = calloc(1, sizeof *w);
    INVARIANT(w != NULL);
    w->cursor.ops = &engine_rows_ops;
    w->of = engine_cursor_open(v->of, &(struct engine_range){
                                          .space = SPACE_AUTH, .from = from, .until = until });
    return &w->cursor;
}

static err cursor_next(struct row_cursor *cursor, struct row *out)
{
    struct walk *w = CONTAINER_OF(cursor, struct walk, cursor);
    struct engine_row row;
    err why = engine_cursor_next(w->of, &row);
    if (why == ERR_OK)
        row_of(&row, &w->blob, out);
    return why;
}

static void cursor_close(struct row_cursor *cursor)
{
    struct walk *w = CONTAINER_OF(cursor, struct walk, cursor);
    engine_cursor_close(&w->of);
    free(w);
}

/* ---- changing ---- */

struct decision {
    const struct row_change *change;
    struct engine *engine;
};

static err engine_rows_decide(struct engine_txn *t, void *ctx)
{
    const struct decision *d = ctx;
    struct txn txn = { .txn = { .ops = &engine_rows_ops },
                       .of = t,
                       .view = { .view = { .ops = &engine_rows_ops },
                                 .engine = d->engine,
                                 .of = engine_txn_view(t) } };
    return d->change->decide(&txn.txn, d->change->ctx);
}

static err change(struct row_store *s, const struct row_change *c)
{
    struct decision d = { .change = c, .engine = CONTAINER_OF(s, struct rows, store)->engine };
    const struct engine_update u = { .decide = engine_rows_decide, .ctx = &d, .frees = c->frees };
    return engine_submit_wait(d.engine, &u);
}

static struct row_view *txn_view(struct row_txn *txn)
{
    return &CONTAINER_OF(txn, struct txn, txn)->view.view;
}

static store_time txn_now(const struct row_txn *txn)
{
    const struct txn *t = (const void *)((const char *)txn - offsetof(struct txn, txn));
    return engine_txn_now(t->of);
}

static err txn_put(struct row_txn *txn, str key, str value, str more)
{
    return engine_txn_put(CONTAINER_OF(txn, struct txn, txn)->of, SPACE_AUTH, key, value, more);
}

static err txn_remove(struct row_txn *txn, str key)
{
    return engine_txn_delete(CONTAINER_OF(txn, struct txn, txn)->of, SPACE_AUTH, key);
}

static const struct row_store_ops engine_rows_ops = {
    .view_begin = view_begin,
    .view_end = view_end,
    .get = view_get,
    .more = view_more,
    .cursor_open = cursor_open,
    .cursor_next = cursor_next,
    .cursor_close = cursor_close,
    .change = change,
    .txn_view = txn_view,
    .txn_now = txn_now,
    .put = txn_put,
    .remove = txn_remove,
};

/* ---- life ---- */

struct row_store *engine_rows_new(struct engine *e)
{
    struct rows *rows = calloc(1, sizeof *rows);
    INVARIANT(rows != NULL);
    rows->store.ops = &engine_rows_ops;
    rows->engine = e;
    return &rows->store;
}

void engine_rows_free(struct row_store **sp)
{
    if (*sp != NULL)
        free(CONTAINER_OF(*sp, struct rows, store));
    *sp = NULL;
}
