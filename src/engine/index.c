/* index.c - rows in LMDB, and carrying an overlay into it. */
#include "engine/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    KIND_NONE,
    KIND_INLINE,
    KIND_LOG,
    ROW_HEAD = INDEX_SUM_BYTES + 1,
    INLINE_HEAD = 10,
    LOG_HEAD = 32,
    ROW_BYTES_MAX = ROW_HEAD + INLINE_HEAD + ENGINE_INLINE_BYTES_MAX + ENGINE_VALUE_BYTES_MAX,
};

str db_key(enum engine_space space, str key, char *buf)
{
    INVARIANT(key.n <= ENGINE_KEY_BYTES_MAX);
    buf[0] = (char)space;
    if (key.n > 0)
        memcpy(buf + 1, key.p, key.n);
    return (str){ .p = buf, .n = key.n + 1 };
}

bool blob_same_place(const struct engine_blob *a, const struct engine_blob *b)
{
    return a->segment == b->segment && a->extent_offset == b->extent_offset;
}

int extent_order(const void *a, const void *b)
{
    const struct vlog_extent *x = a;
    const struct vlog_extent *y = b;
    if (x->segment != y->segment)
        return x->segment < y->segment ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* ---- rows ---- */

static err blob_decode(struct cursor *c, uint8_t kind, struct engine_blob *b)
{
    switch (kind) {
    case KIND_NONE:
        return ERR_OK;
    case KIND_INLINE:
        b->n = cursor_be16(c);
        b->hash = cursor_be64(c);
        b->mem = cursor_bytes(c, b->n).p;
        return c->failed ? ERR_CORRUPT : ERR_OK;
    case KIND_LOG:
        b->segment = cursor_be32(c);
        b->extent_offset = cursor_be64(c);
        b->extent_size = cursor_be32(c);
        b->value_offset = cursor_be32(c);
        b->n = cursor_be32(c);
        b->hash = cursor_be64(c);
        return c->failed || b->segment == 0 ? ERR_CORRUPT : ERR_OK;
    default:
        return ERR_CORRUPT;
    }
}

err index_row_decode(str key, MDB_val value, struct engine_row *out)
{
    str bytes = index_str(value);
    if (bytes.n < ROW_HEAD || bytes.n > ROW_BYTES_MAX)
        return ERR_CORRUPT;
    if (key.n == 0 || key.n > DB_KEY_BYTES_MAX)
        return ERR_CORRUPT;
    if (get_be64(bytes.p) != index_sum(key, str_skip(bytes, INDEX_SUM_BYTES)))
        return ERR_CORRUPT;
    struct engine_row row = { .key = str_skip(key, 1) };
    struct cursor c = { .rest = str_skip(bytes, INDEX_SUM_BYTES) };
    uint8_t kind = cursor_u8(&c);
    if (blob_decode(&c, kind, &row.blob) != ERR_OK)
        return ERR_CORRUPT;
    row.value = c.rest;
    *out = row;
    return ERR_OK;
}

static size_t blob_encode(const struct engine_blob *b, char *out)
{
    if (b->n == 0) {
        out[0] = KIND_NONE;
        return 1;
    }
    if (!blob_in_log(b) &&
        b->n <= ENGINE_INLINE_BYTES_MAX) { /* a larger one has its place to come: index_grows */
        out[0] = KIND_INLINE;
        put_be16(out + 1, (uint16_t)b->n);
        put_be64(out + 3, b->hash);
        memcpy(out + 1 + INLINE_HEAD, b->mem, b->n);
        return 1 + INLINE_HEAD + b->n;
    }
    out[0] = KIND_LOG;
    put_be32(out + 1, b->segment);
    put_be64(out + 5, b->extent_offset);
    put_be32(out + 13, b->extent_size);
    put_be32(out + 17, b->value_offset);
    put_be32(out + 21, (uint32_t)b->n);
    put_be64(out + 25, b->hash);
    return 1 + LOG_HEAD;
}

static size_t row_encode(const struct overlay_node *n, char *out)
{
    size_t at = INDEX_SUM_BYTES;
    at += blob_encode(&n->blob, out + at);
    if (n->value_n > 0)
        memcpy(out + at, n->value, n->value_n);
    at += n->value_n;
    put_be64(out, index_sum(overlay_key(n),
                            (str){ .p = out + INDEX_SUM_BYTES, .n = at - INDEX_SUM_BYTES }));
    return at;
}

/* ---- applying an overlay ---- */

struct dead_list {
    struct vlog_extent *all;
    size_t count, size;
    uint64_t bytes;         /* of all */
    uint64_t written_bytes; /* by which the segments grew */
};

static void dead_list_add(struct dead_list *l, struct vlog_extent x)
{
    if (l->count == l->size) {
        l->size = l->size == 0 ? 64 : l->size * 2;
        l->all = realloc(l->all, l->size * sizeof(*l->all));
        INVARIANT(l->all != NULL);
    }
    l->all[l->count++] = x;
    l->bytes += x.size;
}

static struct vlog_extent extent_of(const struct engine_blob *b)
{
    return (struct vlog_extent){ .segment = b->segment,
                                 .offset = b->extent_offset,
                                 .size = b->extent_size };
}

/* Writes one row; what its old version owned alone becomes dead. */
static int apply_row(MDB_cursor *c, const struct overlay_node *n, struct dead_list *dead)
{
    MDB_val k = index_val(overlay_key(n));
    MDB_val v;
    int rc = mdb_cursor_get(c, &k, &v, MDB_SET);
    if (rc != 0 && rc != MDB_NOTFOUND)
        return rc;
    struct engine_row old;
    bool had = rc == 0;
    if (had && index_row_decode(overlay_key(n), v, &old) == ERR_OK && blob_in_log(&old.blob) &&
        !blob_same_place(&old.blob, &n->blob))
        dead_list_add(dead, extent_of(&old.blob));
    if (n->deleted)
        return had ? mdb_cursor_del(c, 0) : 0;
    char bytes[ROW_BYTES_MAX];
    k = index_val(overlay_key(n));
    v = (MDB_val){ .mv_data = bytes, .mv_size = row_encode(n, bytes) };
    return mdb_cursor_put(c, &k, &v, 0);
}

static int apply_rows(struct engine *e, MDB_txn *txn, struct overlay *o, struct dead_list *dead)
{
    MDB_cursor *c;
    int rc = mdb_cursor_open(txn, e->rows, &c);
    if (rc != 0)
        return rc;
    for (struct overlay_node *n = overlay_next(o, NULL, UINT64_MAX); n != NULL && rc == 0;
         n = overlay_next(o, n, UINT64_MAX))
        rc = apply_row(c, n, dead);
    mdb_cursor_close(c);
    return rc;
}

/* The new ends of the segments from where the index stood to where the overlay ends. */
static int apply_ends(struct engine *e, MDB_txn *txn, const struct overlay *o,
                      struct dead_list *dead)
{
    for (uint32_t s = e->indexed.segment; s <= o->end.segment; s++) {
        struct index_segment seg;
        struct vlog_segment file;
        if (index_segment_get(e, txn, s, &seg) == ERR_CORRUPT)
            return MDB_CORRUPTED;
        if (vlog_segment_next(e->log, s, &file) != ERR_OK || file.number != s)
            return EIO;
        uint64_t before = seg.end == 0 ? RECORD_SEGMENT_BYTES : seg.end;
        seg.end = s < o->end.segment ? file.end : o->end.offset;
        dead->written_bytes += seg.end - before;
        int rc = index_segment_put(e, txn, &seg);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int segment_add_dead(struct engine *e, MDB_txn *txn, uint32_t number, uint64_t bytes)
{
    struct index_segment seg;
    if (index_segment_get(e, txn, number, &seg) != ERR_OK)
        return MDB_CORRUPTED;
    seg.dead += bytes;
    INVARIANT(seg.dead <= seg.end - RECORD_SEGMENT_BYTES);
    return index_segment_put(e, txn, &seg);
}

static int apply_dead(struct engine *e, MDB_txn *txn, struct dead_list *dead)
{
    MDB_cursor *c;
    int rc = mdb_cursor_open(txn, e->dead, &c);
    if (rc != 0)
        return rc;
    if (dead->count > 0)
        qsort(dead->all, dead->count, sizeof(*dead->all), extent_order);
    uint64_t bytes = 0;
    for (size_t i = 0; i < dead->count && rc == 0; i++) {
        rc = index_dead_add(e, txn, c, dead->all[i]);
        bytes += dead->all[i].size;
        bool last_of_segment =
            i + 1 == dead->count || dead->all[i + 1].segment != dead->all[i].segment;
        if (rc == 0 && last_of_segment) {
            rc = segment_add_dead(e, txn, dead->all[i].segment, bytes);
            bytes = 0;
        }
    }
    mdb_cursor_close(c);
    return rc;
}

static struct dead_batch *batch_new(const struct dead_list *dead)
{
    if (dead->count == 0)
        return NULL;
    struct dead_batch *b = malloc(sizeof(*b) + dead->count * sizeof(b->extents[0]));
    INVARIANT(b != NULL);
    *b = (struct dead_batch){ .count = dead->count };
    memcpy(b->extents, dead->all, dead->count * sizeof(b->extents[0]));
    return b;
}

static int apply_all(struct engine *e, MDB_txn *txn, struct overlay *o, struct dead_list *dead)
{
    int rc = apply_rows(e, txn, o, dead);
    for (size_t i = 0; i < o->dead_count; i++)
        dead_list_add(dead, o->dead[i]);
    if (rc == 0)
        rc = apply_ends(e, txn, o, dead);
    if (rc == 0)
        rc = apply_dead(e, txn, dead);
    if (rc == 0)
        rc = index_position_put(e, txn, o->end, o->greatest);
    return rc;
}

err index_apply(struct engine *e, struct overlay *o, struct dead_batch **batch, const char **detail)
{
    err why = index_headroom(e, o);
    if (why != ERR_OK) {
        *detail = "reserving blocks for the index";
        return why;
    }
    struct dead_list dead = { .all = NULL };
    MDB_txn *txn = NULL;
    int rc = mdb_txn_begin(e->env, NULL, 0, &txn);
    if (rc == 0) {
        rc = apply_all(e, txn, o, &dead);
        if (rc == 0)
            rc = mdb_txn_commit(txn);
        else
            mdb_txn_abort(txn);
    }
    if (rc == 0) {
        *batch = batch_new(&dead);
        atomic_fetch_add(&e->live_bytes, dead.written_bytes - dead.bytes);
    }
    free(dead.all);
    *detail = rc == 0 ? NULL : mdb_strerror(rc);
    if (rc == MDB_MAP_FULL)
        return ERR_FULL; /* index_blocks.c, 4 */
    return rc == 0 ? ERR_OK : ERR_IO;
}
