/* index.c - what stands in LMDB.
 *
 *   row      space, key            -> sum 8, kind 1, [blob], value
 *                                     kind 1: bytes 2, hash 8, the bytes; kind 2: place 32 as in vlog/record.h
 *   dead     segment 4, offset 8   -> bytes 8, sum 8      ranges nobody owns, merged with their neighbours
 *   segment  number 4              -> end 8, dead bytes 8, sum 8
 *   meta     "position"            -> seq 8, segment 4, offset 8, greatest store_time 8, sum 8
 *            "store"               -> id 16, sum 8
 * A sum is XXH3 over key and value: LMDB has no checksums of its own. */
#include "engine/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum {
    KIND_NONE, KIND_INLINE, KIND_LOG,
    SUM_BYTES = 8,
    ROW_HEAD = SUM_BYTES + 1,
    INLINE_HEAD = 10,
    LOG_HEAD = 32,
    ROW_BYTES_MAX = ROW_HEAD + INLINE_HEAD + ENGINE_INLINE_BYTES_MAX + ENGINE_VALUE_BYTES_MAX,
    READERS_MAX = 2048,
    PAGE_BYTES = 4096,
    PAGES_PER_ROW = 6,        /* leaf, branches and free list touched by one row, at most */
    HEADROOM_BYTES = 16 << 20,
};

static MDB_val val(str s)
{
    return (MDB_val){ .mv_data = (void *)(uintptr_t)s.p, .mv_size = s.n };
}

static str str_of_val(MDB_val v)
{
    return (str){ .p = v.mv_data, .n = v.mv_size };
}

static uint64_t sum_of(str key, str rest)
{
    return XXH3_64bits_withSeed(rest.p, rest.n, XXH3_64bits(key.p, key.n));
}

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
    str bytes = str_of_val(value);
    if (bytes.n < ROW_HEAD || key.n == 0)
        return ERR_CORRUPT;
    if (get_be64(bytes.p) != sum_of(key, str_skip(bytes, SUM_BYTES)))
        return ERR_CORRUPT;
    struct engine_row row = { .key = str_skip(key, 1) };
    struct cursor c = { .rest = str_skip(bytes, SUM_BYTES) };
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
    if (!blob_in_log(b)) {
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
    size_t at = SUM_BYTES;
    at += blob_encode(&n->blob, out + at);
    if (n->value_n > 0)
        memcpy(out + at, n->value, n->value_n);
    at += n->value_n;
    put_be64(out, sum_of(overlay_key(n), (str){ .p = out + SUM_BYTES, .n = at - SUM_BYTES }));
    return at;
}

/* ---- small rows with a sum at their end ---- */

static int small_put(MDB_txn *txn, MDB_dbi dbi, str key, char *bytes, size_t n)
{
    put_be64(bytes + n, sum_of(key, (str){ .p = bytes, .n = n }));
    MDB_val k = val(key);
    MDB_val v = { .mv_data = bytes, .mv_size = n + SUM_BYTES };
    return mdb_put(txn, dbi, &k, &v, 0);
}

static err small_check(MDB_val key, MDB_val value, size_t n)
{
    if (value.mv_size != n + SUM_BYTES)
        return ERR_CORRUPT;
    str bytes = { .p = value.mv_data, .n = n };
    return get_be64(bytes.p + n) == sum_of(str_of_val(key), bytes) ? ERR_OK : ERR_CORRUPT;
}

static err small_get(MDB_txn *txn, MDB_dbi dbi, str key, size_t n, const char **out)
{
    MDB_val k = val(key);
    MDB_val v;
    int rc = mdb_get(txn, dbi, &k, &v);
    if (rc == MDB_NOTFOUND)
        return ERR_NOT_FOUND;
    if (rc != 0 || small_check(k, v, n) != ERR_OK)
        return ERR_CORRUPT;
    *out = v.mv_data;
    return ERR_OK;
}

/* ---- segments ---- */

static err segment_get(struct engine *e, MDB_txn *txn, uint32_t number, struct index_segment *out)
{
    char key[4];
    const char *p;
    put_be32(key, number);
    *out = (struct index_segment){ .number = number };
    err why = small_get(txn, e->segments, (str){ .p = key, .n = sizeof(key) }, 16, &p);
    if (why == ERR_OK) {
        out->end = get_be64(p);
        out->dead = get_be64(p + 8);
    }
    return why;
}

static int segment_put(struct engine *e, MDB_txn *txn, const struct index_segment *s)
{
    char key[4];
    char value[16 + SUM_BYTES];
    put_be32(key, s->number);
    put_be64(value, s->end);
    put_be64(value + 8, s->dead);
    return small_put(txn, e->segments, (str){ .p = key, .n = sizeof(key) }, value, 16);
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
    if (rc != 0 || k.mv_size != sizeof(at) || small_check(k, v, 16) != ERR_OK)
        return ERR_CORRUPT;
    const char *p = v.mv_data;
    *out = (struct index_segment){ .number = get_be32(k.mv_data), .end = get_be64(p), .dead = get_be64(p + 8) };
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
    if (k.mv_size != 12 || small_check(k, v, 8) != ERR_OK)
        return ERR_CORRUPT;
    const char *p = k.mv_data;
    *out = (struct vlog_extent){ .segment = get_be32(p), .offset = get_be64(p + 4), .size = get_be64(v.mv_data) };
    return ERR_OK;
}

/* Moves the cursor by op (SET_RANGE: to near) and reads the range there, if it is of the same segment. */
static int dead_step(MDB_cursor *c, MDB_cursor_op op, const struct vlog_extent *near, struct vlog_extent *out)
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
    char value[8 + SUM_BYTES];
    dead_key(x, key);
    put_be64(value, x->size);
    return small_put(txn, e->dead, (str){ .p = key, .n = sizeof(key) }, value, 8);
}

/* Adds a range and merges it with its neighbours. */
static int dead_add(struct engine *e, MDB_txn *txn, MDB_cursor *c, struct vlog_extent x)
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

err index_dead_at(struct engine *e, MDB_txn *txn, uint32_t segment, uint64_t offset, struct vlog_extent *out)
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

static int extent_cmp(const void *a, const void *b)
{
    const struct vlog_extent *x = a;
    const struct vlog_extent *y = b;
    if (x->segment != y->segment)
        return x->segment < y->segment ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static struct vlog_extent extent_of(const struct engine_blob *b)
{
    return (struct vlog_extent){ .segment = b->segment, .offset = b->extent_offset, .size = b->extent_size };
}

/* Writes one row; what its old version owned alone becomes dead. */
static int apply_row(MDB_cursor *c, const struct overlay_node *n, struct dead_list *dead)
{
    MDB_val k = val(overlay_key(n));
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
    k = val(overlay_key(n));
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
static int apply_ends(struct engine *e, MDB_txn *txn, const struct overlay *o, struct dead_list *dead)
{
    for (uint32_t s = e->indexed.segment; s <= o->end.segment; s++) {
        struct index_segment seg;
        struct vlog_segment file;
        if (segment_get(e, txn, s, &seg) == ERR_CORRUPT)
            return MDB_CORRUPTED;
        if (vlog_segment_next(e->log, s, &file) != ERR_OK || file.number != s)
            return EIO;
        uint64_t before = seg.end == 0 ? RECORD_SEGMENT_BYTES : seg.end;
        seg.end = s < o->end.segment ? file.end : o->end.offset;
        dead->written_bytes += seg.end - before;
        int rc = segment_put(e, txn, &seg);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int segment_add_dead(struct engine *e, MDB_txn *txn, uint32_t number, uint64_t bytes)
{
    struct index_segment seg;
    if (segment_get(e, txn, number, &seg) != ERR_OK)
        return MDB_CORRUPTED;
    seg.dead += bytes;
    INVARIANT(seg.dead <= seg.end - RECORD_SEGMENT_BYTES);
    return segment_put(e, txn, &seg);
}

static int apply_dead(struct engine *e, MDB_txn *txn, struct dead_list *dead)
{
    MDB_cursor *c;
    int rc = mdb_cursor_open(txn, e->dead, &c);
    if (rc != 0)
        return rc;
    if (dead->count > 0)
        qsort(dead->all, dead->count, sizeof(*dead->all), extent_cmp);
    uint64_t bytes = 0;
    for (size_t i = 0; i < dead->count && rc == 0; i++) {
        rc = dead_add(e, txn, c, dead->all[i]);
        bytes += dead->all[i].size;
        bool last_of_segment = i + 1 == dead->count || dead->all[i + 1].segment != dead->all[i].segment;
        if (rc == 0 && last_of_segment) {
            rc = segment_add_dead(e, txn, dead->all[i].segment, bytes);
            bytes = 0;
        }
    }
    mdb_cursor_close(c);
    return rc;
}

static int position_put(struct engine *e, MDB_txn *txn, struct vlog_tail at, store_time greatest)
{
    char value[28 + SUM_BYTES];
    put_be64(value, at.seq);
    put_be32(value + 8, at.segment);
    put_be64(value + 12, at.offset);
    put_be64(value + 20, (uint64_t)greatest.ns);
    return small_put(txn, e->meta, STR("position"), value, 28);
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
        rc = position_put(e, txn, o->end, o->greatest);
    return rc;
}

err index_apply(struct engine *e, struct overlay *o, struct dead_batch **batch, const char **detail)
{
    err why = index_headroom(e, o->rows);
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
    return rc == 0 ? ERR_OK : ERR_IO;
}

err index_headroom(struct engine *e, uint64_t rows)
{
    MDB_envinfo info;
    if (mdb_env_info(e->env, &info) != 0)
        return ERR_IO;
    uint64_t used = ((uint64_t)info.me_last_pgno + 1) * PAGE_BYTES;
    uint64_t need = used + rows * PAGES_PER_ROW * PAGE_BYTES;
    uint64_t want = used + HEADROOM_BYTES > need ? used + HEADROOM_BYTES : need;
    bool full = want > info.me_mapsize;
    if (!full && want > e->index_reserved) {
        uint64_t base = e->index_reserved > used ? e->index_reserved : used;
        int why = file_reserve(e->faults, e->data_fd, base, want - base);
        full = file_err(why) == ERR_FULL;
        if (why != 0 && !full)
            return ERR_IO;
        if (why == 0)
            e->index_reserved = want;
    }
    atomic_store(&e->index_full, full);
    bool fits = need <= e->index_reserved && need <= info.me_mapsize;
    return fits || rows == 0 ? ERR_OK : ERR_FULL;
}

/* ---- opening ---- */

static int open_dbis(struct engine *e, MDB_txn *txn)
{
    unsigned flags = e->read_only ? 0 : MDB_CREATE;
    int rc = mdb_dbi_open(txn, "row", flags, &e->rows);
    if (rc == 0)
        rc = mdb_dbi_open(txn, "dead", flags, &e->dead);
    if (rc == 0)
        rc = mdb_dbi_open(txn, "segment", flags, &e->segments);
    if (rc == 0)
        rc = mdb_dbi_open(txn, "meta", flags, &e->meta);
    return rc;
}

static err read_position(struct engine *e, MDB_txn *txn, struct err_note *note)
{
    const char *p;
    err why = small_get(txn, e->meta, STR("store"), RECORD_ID_BYTES, &p);
    if (why == ERR_OK && memcmp(p, e->id, RECORD_ID_BYTES) != 0) {
        err_note_set(note, "the index belongs to another store; put the right index folder back");
        return ERR_CORRUPT;
    }
    if (why == ERR_OK)
        why = small_get(txn, e->meta, STR("position"), 28, &p);
    if (why != ERR_OK) {
        err_note_set(note, "the index does not say how far it goes; restore the store from a backup");
        return ERR_CORRUPT;
    }
    e->indexed = (struct vlog_tail){
        .seq = get_be64(p),
        .segment = get_be32(p + 8),
        .offset = get_be64(p + 12),
    };
    e->greatest.ns = (int64_t)get_be64(p + 20);
    return ERR_OK;
}

static int write_first(struct engine *e, MDB_txn *txn)
{
    char value[RECORD_ID_BYTES + SUM_BYTES];
    memcpy(value, e->id, RECORD_ID_BYTES);
    int rc = small_put(txn, e->meta, STR("store"), value, RECORD_ID_BYTES);
    return rc == 0 ? position_put(e, txn, vlog_start(), STORE_TIME_ZERO) : rc;
}

static bool is_new(struct engine *e, MDB_txn *txn)
{
    MDB_stat st;
    return mdb_stat(txn, e->meta, &st) == 0 && st.ms_entries == 0;
}

static err open_tables(struct engine *e, struct err_note *note)
{
    MDB_txn *txn;
    int rc = mdb_txn_begin(e->env, NULL, e->read_only ? MDB_RDONLY : 0, &txn);
    if (rc != 0) {
        err_note_set(note, "the index cannot be read: %s", mdb_strerror(rc));
        return ERR_IO;
    }
    rc = open_dbis(e, txn);
    if (rc == 0 && !e->read_only && is_new(e, txn))
        rc = write_first(e, txn);
    err why = rc == 0 ? read_position(e, txn, note) : ERR_CORRUPT;
    if (rc != 0)
        err_note_set(note, "the index cannot be read: %s", mdb_strerror(rc));
    if (why != ERR_OK) {
        mdb_txn_abort(txn);
        return why;
    }
    rc = mdb_txn_commit(txn);
    if (rc != 0)
        err_note_set(note, "the index cannot be written: %s", mdb_strerror(rc));
    return rc == 0 ? ERR_OK : file_err(rc) == ERR_FULL ? ERR_FULL : ERR_IO;
}

/* LMDB does not look at the file's size itself; a page beyond its end would be SIGBUS. */
static err check_size(struct engine *e, struct err_note *note)
{
    MDB_envinfo info;
    struct stat st;
    if (mdb_env_info(e->env, &info) != 0 || fstat(e->data_fd, &st) != 0)
        return ERR_IO;
    if (info.me_last_txnid == 0 && st.st_size >= 0)
        return ERR_OK;
    if ((uint64_t)st.st_size < ((uint64_t)info.me_last_pgno + 1) * PAGE_BYTES) {
        err_note_set(note, "index/data.mdb is cut off (%lld bytes); restore the store from a backup",
                     (long long)st.st_size);
        return ERR_CORRUPT;
    }
    return ERR_OK;
}

static err env_open(struct engine *e, uint64_t map_bytes, struct err_note *note)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/index", e->dir) >= (int)sizeof(path)) {
        err_note_set(note, "the store's path is too long");
        return ERR_IO;
    }
    unsigned flags = MDB_NOTLS | MDB_NORDAHEAD | (e->read_only ? MDB_RDONLY | MDB_NOLOCK : 0);
    int rc = mdb_env_create(&e->env);
    INVARIANT(rc == 0);
    (void)mdb_env_set_mapsize(e->env, map_bytes);
    (void)mdb_env_set_maxdbs(e->env, 8);
    (void)mdb_env_set_maxreaders(e->env, READERS_MAX);
    rc = mdb_env_open(e->env, path, flags, 0600);
    if (rc == 0)
        return ERR_OK;
    bool damage = rc == MDB_INVALID || rc == MDB_VERSION_MISMATCH || rc == MDB_CORRUPTED || rc == ENOENT;
    err_note_set(note, "the index cannot be opened: %s%s", mdb_strerror(rc),
                 damage ? "; restore the store from a backup" : "");
    if (damage)
        return ERR_CORRUPT;
    return file_err(rc) == ERR_FULL ? ERR_FULL : ERR_IO;
}

err index_open(struct engine *e, uint64_t map_bytes, struct err_note *note)
{
    err why = env_open(e, map_bytes, note);
    if (why != ERR_OK)
        return why;
    int rc = file_open(e->faults, e->index_fd, "data.mdb", e->read_only ? O_RDONLY : O_RDWR, &e->data_fd);
    if (rc != 0) {
        err_note_set(note, "index/data.mdb cannot be opened");
        return ERR_IO;
    }
    why = check_size(e, note);
    if (why == ERR_OK)
        why = open_tables(e, note);
    if (why != ERR_OK || e->read_only)
        return why;
    if (file_sync(e->faults, e->index_fd) != 0)
        return ERR_IO;
    return index_headroom(e, 0);
}

void index_close(struct engine *e)
{
    if (e->env != NULL)
        mdb_env_close(e->env);
    if (e->data_fd >= 0)
        close(e->data_fd);
    e->env = NULL;
    e->data_fd = -1;
}

static err check_one(struct engine *e, const struct index_segment *s, struct err_note *note)
{
    struct vlog_segment file;
    if (s->dead > s->end) {
        err_note_set(note, "the index counts more dead than written bytes in segment %u", s->number);
        return ERR_CORRUPT;
    }
    if (vlog_segment_next(e->log, s->number, &file) != ERR_OK || file.number != s->number) {
        err_note_set(note, "log segment %u is missing. Put the file back, or restore the store from a backup",
                     s->number);
        return ERR_CORRUPT;
    }
    if (file.end < s->end) {
        err_note_set(note, "log segment %u is cut off (%llu of %llu bytes); restore the store from a backup",
                     s->number, (unsigned long long)file.end, (unsigned long long)s->end);
        return ERR_CORRUPT;
    }
    return ERR_OK;
}

err index_check_segments(struct engine *e, struct err_note *note)
{
    MDB_txn *txn;
    if (mdb_txn_begin(e->env, NULL, MDB_RDONLY, &txn) != 0)
        return ERR_IO;
    struct index_segment s = { .number = 0 };
    uint64_t live = 0;
    err why = index_segment_next(e, txn, 0, &s);
    while (why == ERR_OK) {
        why = check_one(e, &s, note);
        live += s.end - RECORD_SEGMENT_BYTES - s.dead;
        if (why == ERR_OK)
            why = index_segment_next(e, txn, s.number + 1, &s);
        else
            break;
    }
    mdb_txn_abort(txn);
    atomic_store(&e->live_bytes, live);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

err index_segment_forget(struct engine *e, uint32_t number)
{
    MDB_txn *txn;
    if (mdb_txn_begin(e->env, NULL, 0, &txn) != 0)
        return ERR_IO;
    struct vlog_extent x;
    int rc = 0;
    err why = index_dead_at(e, txn, number, 0, &x);
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
    if (rc != 0 || why == ERR_CORRUPT) {
        mdb_txn_abort(txn);
        return ERR_IO;
    }
    return mdb_txn_commit(txn) == 0 ? ERR_OK : ERR_IO;
}
