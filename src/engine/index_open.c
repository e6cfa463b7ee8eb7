/* index_open.c - opening LMDB, and its position in the log. */
#include "engine/index.h"
#include "engine/lmdb_pages.h"
#include "engine/map_guard.h"
#include "engine/store.h"
#include "engine/store_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAP_BYTES_MIN ((uint64_t)16 << 30)

enum {
    READERS_MAX = 2048,
    LEAVES_CHECKED_BYTES_MAX = 256 << 20, /* of a larger index the start reads branches only */
};

/* ---- the position ---- */

int index_position_put(struct engine *e, MDB_txn *txn, struct vlog_tail at, store_time greatest)
{
    char value[28 + INDEX_SUM_BYTES];
    put_be64(value, at.seq);
    put_be32(value + 8, at.segment);
    put_be64(value + 12, at.offset);
    put_be64(value + 20, (uint64_t)greatest.ns);
    return index_small_put(txn, e->meta, STR("position"), value, 28);
}

err index_position(struct engine *e, MDB_txn *txn, struct vlog_tail *at, store_time *greatest)
{
    const char *p;
    err why = index_small_get(txn, e->meta, STR("position"), 28, &p);
    if (why != ERR_OK)
        return ERR_CORRUPT;
    *at = (struct vlog_tail){
        .seq = get_be64(p),
        .segment = get_be32(p + 8),
        .offset = get_be64(p + 12),
    };
    greatest->ns = (int64_t)get_be64(p + 20);
    return ERR_OK;
}

static err read_position(struct engine *e, MDB_txn *txn, struct err_note *note)
{
    const char *p;
    err why = index_small_get(txn, e->meta, STR("store"), RECORD_ID_BYTES, &p);
    if (why == ERR_OK && memcmp(p, e->id, RECORD_ID_BYTES) != 0) {
        err_note_set(note, "the index belongs to another store; put the right index folder back");
        return ERR_CORRUPT;
    }
    if (why == ERR_OK)
        why = index_position(e, txn, &e->indexed, &e->greatest);
    if (why != ERR_OK) {
        err_note_set(note,
                     "the index does not say how far it goes; restore the store from a backup");
        return ERR_CORRUPT;
    }
    return ERR_OK;
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

static int write_first(struct engine *e, MDB_txn *txn)
{
    char value[RECORD_ID_BYTES + INDEX_SUM_BYTES];
    memcpy(value, e->id, RECORD_ID_BYTES);
    int rc = index_small_put(txn, e->meta, STR("store"), value, RECORD_ID_BYTES);
    return rc == 0 ? index_position_put(e, txn, vlog_start(), STORE_TIME_ZERO) : rc;
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

/* A file without meta pages: a crash while the store was made, or somebody took the index away. */
static err make_anew(struct engine *e, struct err_note *note)
{
    if (store_has_segments(e)) {
        err_note_set(
            note,
            "index/data.mdb is missing or cut off beside a log; restore the store from a backup");
        return ERR_CORRUPT;
    }
    return file_err(file_truncate(e->faults, e->data_fd, 0)); /* LMDB makes it */
}

/* What LMDB would trust without looking. A store that is only read is looked over in full. */
static err check_pages(struct engine *e, struct err_note *note)
{
    struct stat st;
    if (fstat(e->data_fd, &st) != 0)
        return ERR_IO;
    if (st.st_size < 2 * INDEX_PAGE_BYTES && !e->read_only)
        return make_anew(e, note);
    struct lmdb_pages_opts opts = {
        .faults = e->faults,
        .fd = e->data_fd,
        .leaf_bytes_max = e->read_only ? UINT64_MAX : LEAVES_CHECKED_BYTES_MAX,
    };
    return lmdb_pages_check(&opts, note);
}

static int env_try(struct engine *e, const char *path, uint64_t map_bytes)
{
    unsigned flags = MDB_NOTLS | MDB_NORDAHEAD | (e->read_only ? MDB_RDONLY | MDB_NOLOCK : 0);
    if (e->env != NULL) /* what failed to open is of no more use */
        mdb_env_close(e->env);
    int rc = mdb_env_create(&e->env);
    INVARIANT(rc == 0);
    (void)mdb_env_set_mapsize(e->env, map_bytes);
    (void)mdb_env_set_maxdbs(e->env, 8);
    (void)mdb_env_set_maxreaders(e->env, READERS_MAX);
    return mdb_env_open(e->env, path, flags, 0600);
}

/* The map takes address space, not memory; limits of the process or the machine may leave less.
 * valgrind says EINVAL. */
static err env_open(struct engine *e, uint64_t map_bytes, struct err_note *note)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/index", e->dir) >= (int)sizeof(path)) {
        err_note_set(note, "the store's path is too long");
        return ERR_IO;
    }
    uint64_t bytes = map_bytes == 0 ? ENGINE_MAP_BYTES : map_bytes;
    int rc = env_try(e, path, bytes);
    while ((rc == ENOMEM || rc == EINVAL) && map_bytes == 0 && bytes > MAP_BYTES_MIN) {
        bytes /= 2;
        rc = env_try(e, path, bytes);
    }
    if (rc == 0)
        return ERR_OK;
    bool damage =
        rc == MDB_INVALID || rc == MDB_VERSION_MISMATCH || rc == MDB_CORRUPTED || rc == ENOENT;
    err_note_set(note, "the index cannot be opened: %s%s", mdb_strerror(rc),
                 damage ? "; restore the store from a backup" : "");
    if (damage)
        return ERR_CORRUPT;
    return file_err(rc) == ERR_FULL ? ERR_FULL : ERR_IO;
}

/* LMDB does not say where it mapped the file, but a page begins with its number. */
static err guard(struct engine *e, struct err_note *note)
{
    MDB_txn *txn;
    MDB_envinfo info;
    const char *value;
    uint64_t number = UINT64_MAX;
    char path[PATH_MAX];
    if (mdb_env_info(e->env, &info) != 0 || mdb_txn_begin(e->env, NULL, MDB_RDONLY, &txn) != 0)
        return ERR_IO;
    err why = index_small_get(txn, e->meta, STR("store"), RECORD_ID_BYTES, &value);
    if (why == ERR_OK) {
        const char *page = value - (uintptr_t)value % INDEX_PAGE_BYTES;
        memcpy(&number, page, sizeof(number));
        e->mapped = page - number * INDEX_PAGE_BYTES;
    }
    mdb_txn_abort(txn);
    if (why != ERR_OK || number > info.me_last_pgno) {
        e->mapped = NULL;
        err_note_set(note,
                     "the index does not lie where its pages say; restore the store from a backup");
        return ERR_CORRUPT;
    }
    (void)snprintf(path, sizeof(path), "%s/index/data.mdb",
                   e->dir); /* env_open has seen that it fits */
    map_guard_add(e->mapped, info.me_mapsize, path);
    return ERR_OK;
}

static err open_all(struct engine *e, uint64_t map_bytes, struct err_note *note)
{
    int rc = file_open(e->faults, e->index_fd, "data.mdb",
                       e->read_only ? O_RDONLY : O_RDWR | O_CREAT, &e->data_fd);
    if (rc != 0) {
        err_note_set(note, "index/data.mdb cannot be opened: %s", strerror(rc));
        return rc == ENOENT ? ERR_CORRUPT : ERR_IO;
    }
    err why = check_pages(e, note);
    if (why == ERR_OK)
        why = env_open(e, map_bytes, note);
    if (why == ERR_OK)
        why = open_tables(e, note);
    return why == ERR_OK ? guard(e, note) : why;
}

err index_open(struct engine *e, uint64_t map_bytes, struct err_note *note)
{
    err why = open_all(e, map_bytes, note);
    if (why == ERR_CORRUPT && e->read_only && !store_has_segments(e))
        return store_never_finished(e, note);
    if (why != ERR_OK || e->read_only)
        return why;
    if (file_sync(e->faults, e->index_fd) != 0)
        return ERR_IO;
    index_find_holes(e);
    return index_headroom(e, NULL);
}

void index_close(struct engine *e)
{
    if (e->mapped != NULL)
        map_guard_remove(e->mapped);
    e->mapped = NULL;
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
    if (s->dead + RECORD_SEGMENT_BYTES > s->end) {
        err_note_set(note, "the index counts more dead than written bytes in segment %u",
                     s->number);
        return ERR_CORRUPT;
    }
    if (s->dead + RECORD_SEGMENT_BYTES == s->end && s->number < e->indexed.segment)
        return ERR_OK; /* nothing of it is needed, and a backup leaves it out */
    if (vlog_segment_next(e->log, s->number, &file) != ERR_OK || file.number != s->number) {
        err_note_set(
            note,
            "log segment %u is missing. Put the file back, or restore the store from a backup",
            s->number);
        return ERR_CORRUPT;
    }
    if (file.end < s->end) {
        err_note_set(
            note, "log segment %u is cut off (%llu of %llu bytes); restore the store from a backup",
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
