/* index_blocks.c - the blocks of data.mdb, and what is left of its map.
 *
 * While rows come there are more blocks than LMDB uses: what is in the log must get into the index
 * when the disk is full, too. LMDB's file never shrinks, and a commit copies what it changes; after
 * much was written most of the file may be pages that LMDB holds free. At rest these blocks and
 * those ahead go back to the disk, if it has plenty; before the next commit they are there again.
 *
 * Invariants
 *  1. No write transaction that may commit begins while the file has holes: index_fill comes first.
 *  2. A page is punched only when LMDB itself could take it now: the transaction that freed it is
 *     older than the last committed one and than every reader. Nobody commits meanwhile: all that
 *     do hold the space lock.
 *  3. Holes outlive the process: the next start looks for them.
 *  4. Only updates that free are let in while the map has less than a quarter left, or MARGIN_PAGES
 *     (4 GiB): behind the last page in use, and free within. By estimate that is several times
 *     what is let in and not in LMDB yet can take of a map of 16 GiB or more. Should a commit find
 *     the map full all the same, nothing is lost: LMDB has written nothing that its last state
 *     reaches, the transaction is thrown away whole, its rows and the position with them; the
 *     overlay stays, readers look at it first, the log keeps its records (space.c, 1), and the
 *     commit is tried again, as after a full disk. In maps of a few MiB it was seen to fail until
 *     the store was opened with a larger one (docs/adr/0022). */
#include "engine/index.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PAGES_PER_ROW = 6, /* leaf, branches and free list touched by one row, at most */
    PAGES_SPARE = 64,
    PAGES_AHEAD_MIN = 1024, /* 4 MiB */
    PAGES_AHEAD_MAX = 4096, /* 16 MiB */
    REST_PAGES_MIN = 1024,  /* fewer free pages are not worth the holes */
    REST_PAGES_PART = 8,    /* nor are less than an eighth of the file */
    REST_HOLES = 2048,      /* of one call */
    REST_SPACE_FACTOR = 4,  /* times free_bytes_min: less on the disk is not plenty */
};
enum { MARGIN_PAGES = 1 << 20 };
#define REST_SPACE_MIN ((uint64_t)128 << 20)

static uint64_t pages_used(struct engine *e)
{
    MDB_envinfo info;
    return mdb_env_info(e->env, &info) == 0 ? (uint64_t)info.me_last_pgno + 1 : 0;
}

/* A file system that cannot tell says there are none, and then has none. What was reserved and
 * never written looks like a hole, too, and is filled at no cost. */
void index_find_holes(struct engine *e)
{
    off_t hole = lseek(e->data_fd, 0, SEEK_HOLE);
    e->index_holed = hole >= 0 && (uint64_t)hole < pages_used(e) * INDEX_PAGE_BYTES;
}

err index_fill(struct engine *e)
{
    if (!e->index_holed)
        return ERR_OK;
    uint64_t used = pages_used(e);
    err why = file_err(file_reserve(e->faults, e->data_fd, 0, used * INDEX_PAGE_BYTES));
    if (why == ERR_FULL)
        atomic_store(&e->index_full, true);
    if (why != ERR_OK)
        return why;
    e->index_holed = false;
    e->index_pages = used;
    e->rested_to = 0;
    return ERR_OK;
}

/* Pages an index commit may write: copies of the pages it touches, at most all there are, and new
 * ones. */
static uint64_t pages_needed(const struct overlay *o, uint64_t used)
{
    if (o == NULL)
        return 0;
    uint64_t touched = o->rows * PAGES_PER_ROW;
    if (touched > used)
        touched = used;
    return touched + 2 * o->bytes / INDEX_PAGE_BYTES + PAGES_SPARE;
}

/* What to keep in reserve: a small index can touch no more pages than it has. */
static uint64_t pages_ahead(uint64_t used)
{
    uint64_t ahead = 2 * used;
    if (ahead < PAGES_AHEAD_MIN)
        ahead = PAGES_AHEAD_MIN;
    return ahead > PAGES_AHEAD_MAX ? PAGES_AHEAD_MAX : ahead;
}

/* ---- what LMDB may take ---- */

/* One line of LMDB's table of readers; its last word is the transaction, "-" for none. */
static int reader_line(const char *line, void *ctx)
{
    uint64_t *oldest = ctx;
    uint64_t txn;
    str rest = str_of(line);
    rest = str_take(rest, str_find(rest, '\n'));
    str word = STR_NONE;
    while (rest.n > 0)
        word = str_split(&rest, ' ');
    if (str_to_u64(word, &txn) && txn < *oldest)
        *oldest = txn;
    return 0;
}

/* Lowers *oldest to the transaction of the oldest reader. */
static int oldest_reader(struct engine *e, uint64_t *oldest)
{
    return mdb_reader_list(e->env, reader_line, oldest) < 0 ? MDB_CORRUPTED : 0;
}

/* LMDB's free list, oldest transaction first, of those that it may take from; each may end it with
 * false. */
typedef bool free_cb(void *ctx, const size_t *pages, size_t count);

static int free_each(MDB_txn *txn, uint64_t oldest, free_cb *each, void *ctx)
{
    enum { FREE_LIST = 0 }; /* LMDB's own tree of that number; readable, as by its mdb_stat -f */
    MDB_cursor *c;
    MDB_val k, v;
    int rc = mdb_cursor_open(txn, FREE_LIST, &c);
    if (rc != 0)
        return rc;
    for (rc = mdb_cursor_get(c, &k, &v, MDB_FIRST); rc == 0;
         rc = mdb_cursor_get(c, &k, &v, MDB_NEXT)) {
        size_t id;
        const size_t *list = v.mv_data; /* how many, then each */
        memcpy(&id, k.mv_data, sizeof(id));
        if (id >= oldest || !each(ctx, list + 1, list[0]))
            break;
    }
    mdb_cursor_close(c);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

static err free_pages_each(struct engine *e, free_cb *each, void *ctx)
{
    MDB_txn *txn;
    if (mdb_txn_begin(e->env, NULL, MDB_RDONLY, &txn) != 0)
        return ERR_IO;
    uint64_t oldest = mdb_txn_id(txn);
    int rc = oldest_reader(e, &oldest);
    if (rc == 0)
        rc = free_each(txn, oldest, each, ctx);
    mdb_txn_abort(txn);
    return rc == 0 ? ERR_OK : ERR_IO;
}

struct free_count {
    uint64_t pages, enough;
};

static bool free_count_add(void *ctx, const size_t *pages, size_t count)
{
    struct free_count *f = ctx;
    (void)pages;
    f->pages += count;
    return f->pages < f->enough;
}

/* Invariant 4. needed: by the next commit. The free list is read only near the end of the map. */
static err map_is_low(struct engine *e, uint64_t needed, bool *low)
{
    MDB_envinfo info;
    if (mdb_env_info(e->env, &info) != 0)
        return ERR_IO;
    uint64_t map = info.me_mapsize / INDEX_PAGE_BYTES;
    uint64_t used = (uint64_t)info.me_last_pgno + 1;
    uint64_t margin = map / 4 < MARGIN_PAGES ? map / 4 : MARGIN_PAGES;
    uint64_t wanted = margin > needed ? margin : needed;
    struct free_count free = { .enough = used + wanted > map ? used + wanted - map : 0 };
    err why = free.enough > 0 ? free_pages_each(e, free_count_add, &free) : ERR_OK;
    *low = free.pages < free.enough;
    return why;
}

err index_headroom(struct engine *e, const struct overlay *o)
{
    MDB_envinfo info;
    if (mdb_env_info(e->env, &info) != 0)
        return ERR_IO;
    uint64_t used = (uint64_t)info.me_last_pgno + 1;
    uint64_t map = info.me_mapsize / INDEX_PAGE_BYTES; /* nothing lies beyond */
    uint64_t need = used + pages_needed(o, used);
    uint64_t want = used + pages_ahead(used) > need ? used + pages_ahead(used) : need;
    need = need > map ? map : need;
    want = want > map ? map : want;
    err filled = index_fill(e);
    if (filled != ERR_OK)
        return filled == ERR_FULL && o == NULL ? ERR_OK : filled;
    uint64_t base = e->index_pages > used ? e->index_pages : used;
    bool full = false;
    if (want <= base) { /* enough was reserved, or the map is smaller than what is in it */
        e->index_pages = base;
    } else {
        int why = file_reserve(e->faults, e->data_fd, base * INDEX_PAGE_BYTES,
                               (want - base) * INDEX_PAGE_BYTES);
        full = file_err(why) == ERR_FULL;
        if (why != 0 && !full)
            return ERR_IO;
        if (why == 0)
            e->index_pages = want;
    }
    bool low = false;
    err why = map_is_low(e, pages_needed(o, used), &low);
    atomic_store(&e->index_full, full || low);
    if (why != ERR_OK)
        return why;
    return need <= e->index_pages || o == NULL ? ERR_OK : ERR_FULL;
}

err index_step(struct engine *e)
{
    MDB_txn *txn;
    MDB_envinfo info;
    struct vlog_tail at;
    store_time greatest;
    err why = index_fill(e);
    if (why == ERR_FULL)
        return ERR_OK;
    if (why != ERR_OK || mdb_env_info(e->env, &info) != 0)
        return ERR_IO;
    uint64_t last = (uint64_t)info.me_last_pgno + 1 + PAGES_SPARE;
    uint64_t map = info.me_mapsize / INDEX_PAGE_BYTES;
    if ((last < map ? last : map) > e->index_pages)
        return ERR_OK; /* the disk is full, too */
    if (mdb_txn_begin(e->env, NULL, 0, &txn) != 0)
        return ERR_IO;
    int rc = MDB_CORRUPTED;
    if (index_position(e, txn, &at, &greatest) == ERR_OK)
        rc = index_position_put(e, txn, at, greatest);
    if (rc == 0)
        rc = mdb_txn_commit(txn);
    else
        mdb_txn_abort(txn);
    return rc == 0 || rc == MDB_MAP_FULL ? ERR_OK : ERR_IO;
}

/* ---- at rest ---- */

struct free_pages {
    size_t *all, count, size;
};

static bool add_free(void *ctx, const size_t *pages, size_t count)
{
    struct free_pages *f = ctx;
    if (f->count + count > f->size) {
        f->size = 2 * (f->count + count);
        f->all = realloc(f->all, f->size * sizeof(*f->all));
        INVARIANT(f->all != NULL);
    }
    memcpy(f->all + f->count, pages, count * sizeof(*pages));
    f->count += count;
    return true;
}

static int by_number(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

/* In order. */
static err free_pages_list(struct engine *e, struct free_pages *out)
{
    err why = free_pages_each(e, add_free, out);
    if (out->count > 0)
        qsort(out->all, out->count, sizeof(*out->all), by_number);
    return why;
}

/* Punches from e->rested_to on, as much as one call may; 0 is there when all is done. */
static err punch_free_pages(struct engine *e, const struct free_pages *f)
{
    size_t i = 0;
    while (i < f->count && f->all[i] < e->rested_to)
        i++;
    for (int holes = 0; i < f->count && holes < REST_HOLES; holes++) {
        size_t first = i++;
        while (i < f->count && f->all[i] == f->all[i - 1] + 1)
            i++;
        uint64_t bytes = (uint64_t)(i - first) * INDEX_PAGE_BYTES;
        e->index_holed = true;
        err why =
            file_err(file_punch(e->faults, e->data_fd, f->all[first] * INDEX_PAGE_BYTES, bytes));
        if (why != ERR_OK)
            return why;
        e->rested_to = f->all[i - 1] + 1;
    }
    if (i == f->count)
        e->rested_to = 0;
    return ERR_OK;
}

static err give_back(struct engine *e, uint64_t used)
{
    struct stat st;
    struct free_pages f = { .all = NULL };
    if (e->index_pages > used && fstat(e->data_fd, &st) == 0 &&
        file_truncate(e->faults, e->data_fd, (uint64_t)st.st_size) ==
            0) /* ends what lies behind its end */
        e->index_pages = used;
    err why = free_pages_list(e, &f);
    if (why == ERR_OK && f.count >= REST_PAGES_MIN && f.count >= used / REST_PAGES_PART)
        why = punch_free_pages(e, &f);
    free(f.all);
    return why;
}

bool index_rest(struct engine *e)
{
    MDB_envinfo info;
    uint64_t space = 0;
    err why = ERR_OK;
    pthread_mutex_lock(&e->space);
    bool plenty = file_space(e->faults, e->data_fd, &space) == 0 && space >= REST_SPACE_MIN &&
                  space / REST_SPACE_FACTOR >= e->free_bytes_min;
    (void)mdb_env_info(e->env, &info); /* fails without an environment only */
    if (!plenty && (e->index_holed || e->rested == info.me_last_txnid)) {
        e->rested = 0;
        why = index_headroom(e, NULL); /* else the next commit asks for it, and tells */
    } else if (plenty && (e->rested != info.me_last_txnid || e->rested_to > 0)) {
        e->rested = info.me_last_txnid;
        why = give_back(e, (uint64_t)info.me_last_pgno + 1);
    }
    bool more = why == ERR_OK && plenty && e->rested_to > 0;
    pthread_mutex_unlock(&e->space);
    return more;
}
