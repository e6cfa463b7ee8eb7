/* view.c - one consistent state: pending > active overlay > frozen overlay > LMDB.
 *
 * Why it is consistent. Under the state lock a view takes the number of the last published group,
 * the two overlays and a read transaction of LMDB. LMDB may already hold what the frozen overlay
 * holds, but never anything of the active one (which must be frozen first, under the same lock), so
 * whichever commit it shows, the overlays cover the difference. Versions published later are above
 * the view's number. */
#include "engine/parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- beginning and ending ---- */

static struct engine_view *view_new(struct engine *e)
{
    struct engine_view *v = calloc(1, sizeof(*v));
    INVARIANT(v != NULL);
    v->magic = ENGINE_VIEW_MAGIC;
    v->engine = e;
    return v;
}

static size_t views_hint(void)
{
    uint64_t self = (uint64_t)(uintptr_t)pthread_self();
    return (size_t)((self * 0x9e3779b97f4a7c15u) >> 58); /* 6 bits: VIEWS_KEPT */
}

static struct engine_view *view_take(struct engine *e)
{
    size_t hint = views_hint();
    for (size_t i = 0; i < VIEWS_KEPT; i++) {
        struct engine_view *_Atomic *slot = &e->views[(hint + i) % VIEWS_KEPT];
        if (atomic_load_explicit(slot, memory_order_relaxed) == NULL)
            continue;
        struct engine_view *v = atomic_exchange(slot, NULL);
        if (v != NULL)
            return v;
    }
    return view_new(e);
}

static void view_free(struct engine_view *v)
{
    while (v->unused != NULL) {
        struct engine_cursor *c = v->unused;
        v->unused = c->next;
        if (c->lmdb != NULL)
            mdb_cursor_close(c->lmdb);
        free(c);
    }
    if (v->txn != NULL)
        mdb_txn_abort(v->txn);
    v->magic = 0;
    free(v);
}

static void view_keep(struct engine *e, struct engine_view *v)
{
    size_t hint = views_hint();
    for (size_t i = 0; i < VIEWS_KEPT; i++) {
        struct engine_view *none = NULL;
        if (atomic_compare_exchange_strong(&e->views[(hint + i) % VIEWS_KEPT], &none, v))
            return;
    }
    view_free(v);
}

void views_free(struct engine *e)
{
    for (size_t i = 0; i < VIEWS_KEPT; i++) {
        struct engine_view *v = atomic_exchange(&e->views[i], NULL);
        if (v != NULL)
            view_free(v);
    }
}

static int view_txn(struct engine *e, struct engine_view *v)
{
    return v->txn == NULL ? mdb_txn_begin(e->env, NULL, MDB_RDONLY, &v->txn)
                          : mdb_txn_renew(v->txn);
}

struct engine_view *view_begin_pending(struct engine *e, struct overlay *pending)
{
    struct engine_view *v = view_take(e);
    MAGIC_CHECK(v, ENGINE_VIEW_MAGIC);
    v->layers[0] = pending;
    v->seqs[0] = UINT64_MAX;
    pthread_rwlock_rdlock(&e->state);
    v->seqs[1] = v->seqs[2] = atomic_load_explicit(&e->published, memory_order_acquire);
    v->layers[1] = e->active;
    overlay_ref(e->active);
    v->layers[2] = e->frozen;
    if (e->frozen != NULL)
        overlay_ref(e->frozen);
    v->epoch = e->epoch;
    atomic_fetch_add(&e->pins[v->epoch % EPOCHS], 1);
    int rc = view_txn(e, v);
    pthread_rwlock_unlock(&e->state);
    v->broken = rc != 0;
    if (v->broken)
        engine_fail(e, "reading the index", mdb_strerror(rc));
    return v;
}

struct engine_view *engine_view_begin(struct engine *e)
{
    MAGIC_CHECK(e, ENGINE_MAGIC);
    return view_begin_pending(e, NULL);
}

void engine_view_end(struct engine_view **vp)
{
    struct engine_view *v = *vp;
    if (v == NULL)
        return;
    MAGIC_CHECK(v, ENGINE_VIEW_MAGIC);
    *vp = NULL;
    while (v->open != NULL) {
        struct engine_cursor *c = v->open;
        engine_cursor_close(&c);
    }
    if (!v->broken)
        mdb_txn_reset(v->txn);
    v->layers[0] = NULL;
    overlay_unref(&v->layers[1]);
    overlay_unref(&v->layers[2]);
    atomic_fetch_sub(&v->engine->pins[v->epoch % EPOCHS], 1);
    view_keep(v->engine, v);
}

/* ---- pins ---- */

struct engine_pin engine_pin(struct engine_view *v)
{
    MAGIC_CHECK(v, ENGINE_VIEW_MAGIC);
    atomic_fetch_add(&v->engine->pins[v->epoch % EPOCHS], 1);
    return (struct engine_pin){ .epoch = v->epoch };
}

void engine_unpin(struct engine *e, struct engine_pin pin)
{
    MAGIC_CHECK(e, ENGINE_MAGIC);
    uint64_t before = atomic_fetch_sub(&e->pins[pin.epoch % EPOCHS], 1);
    INVARIANT(before > 0);
}

void epoch_advance(struct engine *e)
{
    if (atomic_load(&e->pins[(e->epoch + 1) % EPOCHS]) == 0)
        e->epoch++;
}

bool epoch_is_over(struct engine *e, uint64_t epoch)
{
    pthread_rwlock_rdlock(&e->state);
    bool over = epoch < e->epoch;
    uint64_t oldest = e->epoch < EPOCHS ? 0 : e->epoch - EPOCHS + 1;
    for (uint64_t i = oldest; i <= epoch && over; i++)
        over = atomic_load(&e->pins[i % EPOCHS]) == 0;
    pthread_rwlock_unlock(&e->state);
    return over;
}

/* ---- single rows ---- */

static void row_of_node(const struct overlay_node *n, struct engine_row *out)
{
    *out = (struct engine_row){
        .key = str_skip(overlay_key(n), 1),
        .value = overlay_value(n),
        .blob = n->blob,
    };
}

err engine_get(struct engine_view *v, enum engine_space space, str key, struct engine_row *out)
{
    MAGIC_CHECK(v, ENGINE_VIEW_MAGIC);
    if (key.n > ENGINE_KEY_BYTES_MAX)
        return ERR_NOT_FOUND;
    char buf[DB_KEY_BYTES_MAX];
    str full = db_key(space, key, buf);
    for (int i = 0; i < LAYERS; i++) {
        if (v->layers[i] == NULL)
            continue;
        const struct overlay_node *n = overlay_find(v->layers[i], full, v->seqs[i]);
        if (n == NULL)
            continue;
        if (n->deleted)
            return ERR_NOT_FOUND;
        row_of_node(n, out);
        return ERR_OK;
    }
    if (v->broken)
        return ERR_IO;
    MDB_val k = { .mv_data = buf, .mv_size = full.n };
    MDB_val value;
    int rc = mdb_get(v->txn, v->engine->rows, &k, &value);
    if (rc == MDB_NOTFOUND)
        return ERR_NOT_FOUND;
    if (rc != 0)
        return ERR_CORRUPT;
    err why = index_row_decode(full, value, out);
    if (why == ERR_OK)
        out->key = key; /* the caller's own bytes */
    return why;
}

/* ---- cursors ---- */

static str cursor_from(const struct engine_cursor *c)
{
    return (str){ .p = c->from, .n = c->from_n };
}

static str cursor_until(const struct engine_cursor *c)
{
    return (str){ .p = c->until, .n = c->until_n };
}

static str lmdb_key(const struct engine_cursor *c)
{
    return (str){ .p = c->key.mv_data, .n = c->key.mv_size };
}

static void lmdb_move(struct engine_cursor *c, MDB_cursor_op op)
{
    int rc = mdb_cursor_get(c->lmdb, &c->key, &c->value, op);
    c->has_lmdb = rc == 0;
    if (rc != 0 && rc != MDB_NOTFOUND)
        c->failed = rc;
}

/* LMDB to the first key >= key, or (reversed) the last key <= key or < key. */
static void lmdb_seek(struct engine_cursor *c, str key, bool inclusive)
{
    if (c->view->broken)
        return;
    c->key = (MDB_val){ .mv_data = (void *)(uintptr_t)key.p, .mv_size = key.n };
    lmdb_move(c, MDB_SET_RANGE);
    if (!c->reversed || c->failed != 0)
        return;
    if (!c->has_lmdb)
        lmdb_move(c, MDB_LAST);
    else if (!inclusive || !str_eq(lmdb_key(c), key))
        lmdb_move(c, MDB_PREV);
}

static void cursor_place(struct engine_cursor *c, str key, bool inclusive)
{
    struct engine_view *v = c->view;
    for (int i = 0; i < LAYERS; i++) {
        if (v->layers[i] == NULL)
            c->at[i] = NULL;
        else if (c->reversed)
            c->at[i] = overlay_before(v->layers[i], key, inclusive, v->seqs[i]);
        else
            c->at[i] = overlay_at_or_after(v->layers[i], key, v->seqs[i]);
    }
    lmdb_seek(c, key, inclusive);
}

static struct engine_cursor *cursor_take(struct engine_view *v)
{
    struct engine_cursor *c = v->unused;
    int rc = 0;
    if (c != NULL) {
        v->unused = c->next;
    } else {
        c = malloc(sizeof(*c));
        INVARIANT(c != NULL);
        c->lmdb = NULL;
    }
    if (c->lmdb != NULL && !v->broken)
        rc = mdb_cursor_renew(v->txn, c->lmdb);
    else if (!v->broken)
        rc = mdb_cursor_open(v->txn, v->engine->rows, &c->lmdb);
    INVARIANT(rc == 0);
    c->view = v;
    c->next = v->open;
    v->open = c;
    c->failed = 0;
    c->has_lmdb = false;
    return c;
}

/* A bound as a database key. One too long to be a row's key is cut and a NUL put behind it: no row
 * lies between the two, so it keeps its order against all rows. */
static uint16_t bound_set(char *dst, enum engine_space space, str key)
{
    size_t n = db_key(space, str_take(key, ENGINE_KEY_BYTES_MAX), dst).n;
    if (key.n > ENGINE_KEY_BYTES_MAX)
        dst[n++] = '\0';
    return (uint16_t)n;
}

struct engine_cursor *engine_cursor_open(struct engine_view *v, const struct engine_range *range)
{
    MAGIC_CHECK(v, ENGINE_VIEW_MAGIC);
    struct engine_cursor *c = cursor_take(v);
    c->reversed = range->reversed;
    c->from_n = bound_set(c->from, range->space, range->from);
    if (range->until.n > 0)
        c->until_n = bound_set(c->until, range->space, range->until);
    else
        c->until_n = bound_set(c->until, range->space + 1, STR_NONE);
    if (c->reversed)
        cursor_place(c, cursor_until(c), false);
    else
        cursor_place(c, cursor_from(c), true);
    return c;
}

void engine_cursor_close(struct engine_cursor **cp)
{
    struct engine_cursor *c = *cp;
    if (c == NULL)
        return;
    *cp = NULL;
    struct engine_cursor **at = &c->view->open;
    while (*at != c) {
        INVARIANT(*at != NULL);
        at = &(*at)->next;
    }
    *at = c->next;
    c->next = c->view->unused;
    c->view->unused = c;
}

void engine_cursor_seek(struct engine_cursor *c, str key)
{
    char buf[DB_BOUND_BYTES_MAX];
    str full = { .p = buf, .n = bound_set(buf, (enum engine_space)(unsigned char)c->from[0], key) };
    bool inclusive = true;
    if (!c->reversed && str_cmp(full, cursor_from(c)) < 0)
        full = cursor_from(c);
    if (c->reversed && str_cmp(full, cursor_until(c)) >= 0) {
        full = cursor_until(c);
        inclusive = false;
    }
    cursor_place(c, full, inclusive);
}

static bool in_range(const struct engine_cursor *c, str key)
{
    return c->reversed ? str_cmp(key, cursor_from(c)) >= 0 : str_cmp(key, cursor_until(c)) < 0;
}

/* The key that comes next in the walk; p is NULL at the end. */
static str next_key(const struct engine_cursor *c)
{
    str best = STR_NONE;
    for (int i = 0; i <= LAYERS; i++) {
        if (i < LAYERS ? c->at[i] == NULL : !c->has_lmdb)
            continue;
        str key = i < LAYERS ? overlay_key(c->at[i]) : lmdb_key(c);
        int order = best.p == NULL ? -1 : str_cmp(key, best);
        if (best.p == NULL || (c->reversed ? order > 0 : order < 0))
            best = key;
    }
    return best.p != NULL && in_range(c, best) ? best : STR_NONE;
}

static void layer_advance(struct engine_cursor *c, int i)
{
    struct overlay *o = c->view->layers[i];
    uint64_t seq = c->view->seqs[i];
    c->at[i] = c->reversed ? overlay_before(o, overlay_key(c->at[i]), false, seq)
                           : overlay_next(o, c->at[i], seq);
}

/* Takes the row of key from the first source that has it, and moves all sources past it. */
static err engine_view_take(struct engine_cursor *c, str key, bool *deleted, struct engine_row *out)
{
    const struct overlay_node *first = NULL;
    err why = ERR_OK;
    for (int i = 0; i < LAYERS; i++) {
        if (c->at[i] == NULL || !str_eq(overlay_key(c->at[i]), key))
            continue;
        if (first == NULL)
            first = c->at[i];
        layer_advance(c, i);
    }
    bool in_lmdb = c->has_lmdb && str_eq(lmdb_key(c), key);
    *deleted = first != NULL && first->deleted;
    if (first != NULL)
        row_of_node(first, out);
    else
        why = index_row_decode(key, c->value, out);
    if (why != ERR_OK)
        *out = (struct engine_row){ .key = str_skip(key, 1) };
    if (in_lmdb)
        lmdb_move(c, c->reversed ? MDB_PREV : MDB_NEXT);
    return why;
}

err engine_cursor_next(struct engine_cursor *c, struct engine_row *out)
{
    if (c->view->broken)
        return ERR_IO;
    for (;;) {
        if (c->failed != 0) {
            c->failed = 0;
            out->key = STR_NONE;
            return ERR_CORRUPT;
        }
        str key = next_key(c);
        if (key.p == NULL)
            return ERR_NOT_FOUND;
        bool deleted = false;
        struct engine_row row;
        err why = engine_view_take(c, key, &deleted, &row);
        if (deleted)
            continue;
        *out = row;
        return why;
    }
}

str engine_prefix_end(str prefix, char *out)
{
    size_t n = prefix.n;
    while (n > 0 && (unsigned char)prefix.p[n - 1] == 0xff)
        n--;
    if (n == 0)
        return STR_NONE;
    memcpy(out, prefix.p, n);
    out[n - 1] = (char)(out[n - 1] + 1);
    return (str){ .p = out, .n = n };
}

/* ---- blobs ---- */

static err blob_read(struct engine *e, const struct engine_blob *b, uint64_t offset,
                     struct iovec to, bool now)
{
    MAGIC_CHECK(e, ENGINE_MAGIC);
    size_t n = to.iov_len;
    if (offset > b->n || n > b->n - offset)
        return ERR_BAD;
    if (n == 0)
        return ERR_OK;
    if (b->mem != NULL) {
        memcpy(to.iov_base, b->mem + offset, n);
        return ERR_OK;
    }
    uint64_t at = b->extent_offset + b->value_offset + offset;
    return now ? vlog_read_now(e->log, b->segment, at, n, to.iov_base)
               : vlog_read(e->log, b->segment, at, n, to.iov_base);
}

err engine_blob_read(struct engine *e, const struct engine_blob *b, uint64_t offset, uint64_t n,
                     char *dst)
{
    return blob_read(e, b, offset, (struct iovec){ .iov_base = dst, .iov_len = n }, false);
}

err engine_blob_read_now(struct engine *e, const struct engine_blob *b, uint64_t offset, uint64_t n,
                         char *dst)
{
    return blob_read(e, b, offset, (struct iovec){ .iov_base = dst, .iov_len = n }, true);
}
