/* index_space.c - segments and dead ranges in LMDB, and the small rows they are made of. */
#include "engine/index.h"

#include <string.h>

/* ---- small rows with a sum at their end ---- */

int index_small_put(MDB_txn *txn, MDB_dbi dbi, str key, char *bytes, size_t n)
{
    put_be64(bytes + n, index_sum(key, (str){ .p = bytes, .n = n }));
    MDB_val k = index_val(key);
    MDB_val v = { .mv_data = bytes, .mv_size = n + INDEX_SUM_BYTES };
    return mdb_put(txn, dbi, &k, &v, 0);
}

err index_small_check(MDB_val key, MDB_val value, size_t n)
{
    if (value.mv_size != n + INDEX_SUM_BYTES)
        return ERR_CORRUPT;
    str bytes = { .p = value.mv_data, .n = n };
    return get_be64(bytes.p + n) == index_sum(index_str(key), bytes) ? ERR_OK : ERR_CORRUPT;
}

err index_small_get(MDB_txn *txn, MDB_dbi dbi, str key, size_t n, const char **out)
{
    MDB_val k = index_val(key);
    MDB_val v;
    int rc = mdb_get(txn, dbi, &k, &v);
    if (rc == MDB_NOTFOUND)
        return ERR_NOT_FOUND;
    if (rc != 0 || index_small_check(k, v, n) != ERR_OK)
        return ERR_CORRUPT;
    *out = v.mv_data;
    return ERR_OK;
}

/* ---- segments ---- */

err index_segment_get(struct engine *e, MDB_txn *txn, uint32_t number, struct index_segment *out)
{
    char key[4];
    const char *p;
    put_be32(key, number);
    *out = (struct index_segment){ .number = number };
    err why = index_small_get(txn, e->segments, (str){ .p = key, .n = sizeof(key) }, 16, &p);
    if (why == ERR_OK) {
        out->end = get_be64(p);
        out->dead = get_be64(p + 8);
    }
    return why;
}

int index_segment_put(struct engine *e, MDB_txn *txn, const struct index_segment *s)
{
    char key[4];
    char value[16 + INDEX_SUM_BYTES];
    put_be32(key, s->number);
    put_be64(value, s->end);
    put_be64(value + 8, s->dead);
    return index_small_put(txn, e->segments, (str){ .p = key, .n = sizeof(key) }, value, 16);
}

err index_segment_next(struct engine *e, MDB_txn *txn, uint32_t from, struct index_segment *out)
{
    char at[4];
    put_be32(at, from);
    MDB_val k = { .mv_data = at, .mv_size = sizeof(at) };
    MDB_val v;
    MDB_cursor *c;
    if (mdb_cursor_open(txn, e->segments, &c) != 0)
        return ERR_CORRUPT;
    int rc = mdb_cursor_get(c, &k, &v, MDB_SET_RANGE);
    mdb_cursor_close(c);
    if (rc == MDB_NOTFOUND)
        return ERR_NOT_FOUND;
    if (rc != 0 || k.mv_size != sizeof(at) || index_small_check(k, v, 16) != ERR_OK)
        return ERR_CORRUPT;
    const char *p = v.mv_data;
    *out = (struct index_segment){ .number = get_be32(k.mv_data),
                                   .end = get_be64(p),
                                   .dead = get_be64(p + 8) };
    return ERR_OK;
}

/* ---- dead ranges ---- */

static void dead_key(const struct vlog_extent *x, char key[12])
{
    put_be32(key, x->segment);
    put_be64(key + 4, x->offset);
}

static err dead_decode(MDB_val k, MDB_val v, struct vlog_extent *out)
{
    if (k.mv_size != 12 || index_small_check(k, v, 8) != ERR_OK)
        return ERR_CORRUPT;
    const char *p = k.mv_data;
    *out = (struct vlog_extent){ .segment = get_be32(p),
                                 .offset = get_be64(p + 4),
                                 .size = get_be64(v.mv_data) };
    return ERR_OK;
}

/* Moves the cursor by op (SET_RANGE: to near) and reads the range there, if it is of the same
 * segment. */
static int dead_step(MDB_cursor *c, MDB_cursor_op op, const struct vlog_extent *near,
                     struct vlog_extent *out)
{
    char at[12];
    dead_key(near, at);
    MDB_val k = { .mv_data = at, .mv_size = sizeof(at) };
    MDB_val v;
    int rc = mdb_cursor_get(c, &k, &v, op);
    if (rc != 0)
        return rc;
    if (dead_decode(k, v, out) != ERR_OK)
        return MDB_CORRUPTED;
    return out->segment == near->segment ? 0 : MDB_NOTFOUND;
}

/* The last range that begins before near, of the same segment. */
static int dead_before(MDB_cursor *c, const struct vlog_extent *near, struct vlog_extent *out)
{
    char at[12];
    dead_key(near, at);
    MDB_val k = { .mv_data = at, .mv_size = sizeof(at) };
    MDB_val v;
    int rc = mdb_cursor_get(c, &k, &v, MDB_SET_RANGE);
    if (rc != 0 && rc != MDB_NOTFOUND)
        return rc;
    return dead_step(c, rc == MDB_NOTFOUND ? MDB_LAST : MDB_PREV, near, out);
}

static int dead_put(struct engine *e, MDB_txn *txn, const struct vlog_extent *x)
{
    char key[12];
    char value[8 + INDEX_SUM_BYTES];
    dead_key(x, key);
    put_be64(value, x->size);
    return index_small_put(txn, e->dead, (str){ .p = key, .n = sizeof(key) }, value, 8);
}

int index_dead_add(struct engine *e, MDB_txn *txn, MDB_cursor *c, struct vlog_extent x)
{
    struct vlog_extent near;
    int rc = dead_step(c, MDB_SET_RANGE, &x, &near);
    if (rc == 0) {
        INVARIANT(near.offset >= x.offset + x.size);
        if (near.offset == x.offset + x.size) {
            x.size += near.size;
            rc = mdb_cursor_del(c, 0);
        }
    }
    if (rc != 0 && rc != MDB_NOTFOUND)
        return rc;
    rc = dead_before(c, &x, &near);
    if (rc != 0 && rc != MDB_NOTFOUND)
        return rc;
    if (rc == 0) {
        INVARIANT(near.offset + near.size <= x.offset);
        if (near.offset + near.size == x.offset) {
            near.size += x.size;
            return dead_put(e, txn, &near);
        }
    }
    return dead_put(e, txn, &x);
}

err index_dead_at(struct engine *e, MDB_txn *txn, uint32_t segment, uint64_t offset,
                  struct vlog_extent *out)
{
    MDB_cursor *c;
    if (mdb_cursor_open(txn, e->dead, &c) != 0)
        return ERR_CORRUPT;
    struct vlog_extent want = { .segment = segment, .offset = offset + 1 };
    struct vlog_extent x;
    int rc = dead_before(c, &want, &x);
    if (rc == MDB_NOTFOUND || (rc == 0 && x.offset + x.size <= offset))
        rc = dead_step(c, MDB_SET_RANGE, &want, &x);
    mdb_cursor_close(c);
    if (rc == MDB_NOTFOUND)
        return ERR_NOT_FOUND;
    if (rc != 0)
        return ERR_CORRUPT;
    *out = x;
    return ERR_OK;
}

/* ---- forgetting a segment ---- */

err index_segment_forget(struct engine *e, uint32_t number)
{
    MDB_txn *txn;
    err why = index_fill(e);
    if (why != ERR_OK)
        return why;
    if (mdb_txn_begin(e->env, NULL, 0, &txn) != 0)
        return ERR_IO;
    struct vlog_extent x;
    int rc = 0;
    why = index_dead_at(e, txn, number, 0, &x);
    while (why == ERR_OK && rc == 0) {
        char key[12];
        dead_key(&x, key);
        MDB_val k = { .mv_data = key, .mv_size = sizeof(key) };
        rc = mdb_del(txn, e->dead, &k, NULL);
        why = index_dead_at(e, txn, number, 0, &x);
    }
    char key[4];
    put_be32(key, number);
    MDB_val k = { .mv_data = key, .mv_size = sizeof(key) };
    if (rc == 0)
        rc = mdb_del(txn, e->segments, &k, NULL);
    if (rc != 0 || why == ERR_CORRUPT)
        mdb_txn_abort(txn);
    else
        rc = mdb_txn_commit(txn);
    if (rc == MDB_MAP_FULL)
        return ERR_FULL;
    return rc == 0 && why != ERR_CORRUPT ? ERR_OK : ERR_IO;
}
