/* index_room.c - how much the index may still take of its map, and what of that is promised
 * already.
 *
 * LMDB copies every page it changes. It takes new ones from its free list, from records of
 * transactions older than the last committed one and than every reader, and only when none is left
 * from behind its last page. What wants several pages in a row, the record of a large commit's own
 * freed pages, is taken there too when the list has no such run.
 *
 * Invariants
 *  1. Pages counted as free stay free until a commit takes them: readers that begin later see later
 *     transactions.
 *  2. An update is let in only when what it may take, together with all that is let in and not in
 *     LMDB yet, fits; so a frozen overlay can always be applied. Growth leaves a reserve besides,
 *     for updates that free, and these, which may leave traces, a quarter of it. LMDB keeps a page
 *     down to a quarter full, so deletes leave room in pages before they free any: when a trial
 *     shows that the rows go into pages that are there, growth leaves half of the reserve, and what
 *  frees leaves nothing. 3. Single pages never take the last KEEP of the tail; they are there for
 *    runs.
 *  4. Should a commit find the map full all the same (the map was made smaller, or an estimate is
 *     wrong), nothing is lost: LMDB has written nothing that its last state reaches, the
 *     transaction is thrown away whole, its rows and the position with them; the overlay stays,
 *     readers look at it first, the log keeps its records (space.c, 1), and the commit is tried
 *     again, as after a full disk, behind one of next to nothing: what the last commit freed is
 *     taken by the one after the next at the earliest.
 *
 * The bounds, per tree: a row changes one leaf and the branches above it, and each of these is
 * split in two or touches one sibling; never more leaves than there are and than the bytes written
 * can make. */
#include "engine/index.h"

#include <string.h>

enum {
    SPARE_PAGES = 64, /* main tree, meta, a segment forgotten meanwhile */
    /* an eighth of a page: halves of splits are a quarter full at least */
    BYTES_PER_NEW_PAGE = 512,
    /* the row, one before it in the overlay, their group; each may merge with a neighbour */
    DEAD_WRITES_PER_ROW = 6,
    RUN_PAGES_MIN = 509,   /* the record of so many freed pages fits in one page */
    RUN_TRIES = 3,         /* the record grows while it is written */
    ROOM_ENOUGH = 1 << 20, /* pages: beyond 4 GiB nobody needs to know how many more */
    RESERVE_PAGES_MAX = 1 << 19,
    KEEP_PAGES_MAX = 1 << 13,
};

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- what a commit may take ---- */

static uint64_t tree_pages(const struct index_tree *t, uint64_t writes, uint64_t new_leaves)
{
    uint64_t leaves = least(writes, t->leaves + new_leaves);
    uint64_t branches = least(writes * t->depth, t->branches + new_leaves / 8);
    return 2 * (leaves + branches) + t->depth + 2;
}

/* before: bytes of what is applied earlier, which makes the trees larger. */
static uint64_t load_pages(const struct index_room *r, struct index_load load, uint64_t before)
{
    if (load.rows == 0)
        return 0;
    uint64_t made = load.bytes / BYTES_PER_NEW_PAGE;
    uint64_t grown = made + before / BYTES_PER_NEW_PAGE;
    uint64_t dead = DEAD_WRITES_PER_ROW * load.rows + 2;
    return tree_pages(&r->rows, load.rows, grown) + tree_pages(&r->dead, dead, grown / 4) +
           tree_pages(&r->segments, dead, grown / 8) + made + 2 * r->list_pages + SPARE_PAGES;
}

uint64_t index_pages(const struct index_room *r, struct index_load load)
{
    return load_pages(r, load, 0);
}

bool index_fits(const struct index_room *r, const struct index_load loads[], size_t count,
                uint64_t besides)
{
    uint64_t pages = 0;
    uint64_t before = 0;
    for (size_t i = 0; i < count; i++) {
        pages += load_pages(r, loads[i], before);
        before += loads[i].bytes;
    }
    if (pages + besides > r->pages)
        return false;
    return pages <= RUN_PAGES_MIN || RUN_TRIES * (pages / RUN_PAGES_MIN + 1) <= r->tail;
}

/* ---- what there is ---- */

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

int index_free_each(MDB_txn *txn, uint64_t oldest, index_free_cb *each, void *ctx)
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

struct free_count {
    uint64_t pages, enough;
};

static bool count_free(void *ctx, const size_t *pages, size_t count)
{
    struct free_count *f = ctx;
    (void)pages;
    f->pages += count;
    return f->pages < f->enough;
}

int index_oldest_reader(struct engine *e, uint64_t *oldest)
{
    return mdb_reader_list(e->env, reader_line, oldest) < 0 ? MDB_CORRUPTED : 0;
}

static int tree_measure(MDB_txn *txn, MDB_dbi dbi, struct index_tree *out, uint64_t *all)
{
    MDB_stat st;
    int rc = mdb_stat(txn, dbi, &st);
    if (rc != 0)
        return rc;
    *out = (struct index_tree){ .depth = st.ms_depth + 1,
                                .leaves = st.ms_leaf_pages,
                                .branches = st.ms_branch_pages };
    *all = st.ms_leaf_pages + st.ms_branch_pages + st.ms_overflow_pages;
    return 0;
}

static int trees_measure(struct engine *e, MDB_txn *txn, struct index_room *r)
{
    struct index_tree list;
    uint64_t all;
    int rc = tree_measure(txn, e->rows, &r->rows, &all);
    if (rc == 0)
        rc = tree_measure(txn, e->dead, &r->dead, &all);
    if (rc == 0)
        rc = tree_measure(txn, e->segments, &r->segments, &all);
    return rc == 0 ? tree_measure(txn, 0, &list, &r->list_pages) : rc;
}

static int room_measure(struct engine *e, MDB_txn *txn, struct index_room *r)
{
    MDB_envinfo info;
    int rc = mdb_env_info(e->env, &info);
    if (rc != 0)
        return rc;
    uint64_t used = (uint64_t)info.me_last_pgno + 1;
    uint64_t map = info.me_mapsize / INDEX_PAGE_BYTES;
    uint64_t keep = least(map / 32, KEEP_PAGES_MAX);
    *r = (struct index_room){ .txn = mdb_txn_id(txn), .oldest = mdb_txn_id(txn), .used = used };
    r->tail = map > used + 1 ? map - used - 1 : 0; /* LMDB leaves the last one */
    r->reserve = least(map / 4, RESERVE_PAGES_MAX);
    struct free_count free = { .enough = ROOM_ENOUGH };
    rc = index_oldest_reader(e, &r->oldest);
    if (rc == 0)
        rc = trees_measure(e, txn, r);
    if (rc == 0 && e->room.txn == r->txn && e->room.oldest == r->oldest)
        r->free = e->room.free;
    else if (rc == 0 && r->tail < ROOM_ENOUGH)
        rc = index_free_each(txn, r->oldest, count_free, &free);
    if (free.pages > 0)
        r->free = free.pages;
    r->pages = r->free + (r->tail > keep ? r->tail - keep : 0);
    return rc;
}

err index_measure(struct engine *e)
{
    MDB_txn *txn;
    struct index_room r;
    int rc = mdb_txn_begin(e->env, NULL, MDB_RDONLY, &txn);
    if (rc != 0)
        return ERR_IO;
    rc = room_measure(e, txn, &r);
    mdb_txn_abort(txn);
    if (rc != 0)
        return ERR_IO;
    pthread_mutex_lock(&e->index);
    e->room = r;
    pthread_mutex_unlock(&e->index);
    return ERR_OK;
}

/* ---- asking for more ---- */

/* What the last commit freed is free for the one after the next. This one writes the position it
 * finds. */
static err step(struct engine *e)
{
    MDB_txn *txn;
    struct vlog_tail at;
    store_time greatest;
    err why = index_fill(e);
    if (why == ERR_FULL || e->room.used + least(SPARE_PAGES, e->room.tail) > e->index_pages)
        return ERR_OK; /* the disk is full too */
    if (why != ERR_OK)
        return why;
    if (mdb_txn_begin(e->env, NULL, 0, &txn) != 0)
        return ERR_IO;
    int rc = MDB_CORRUPTED;
    if (index_position(e, txn, &at, &greatest) == ERR_OK)
        rc = index_position_put(e, txn, at, greatest);
    if (rc == 0)
        rc = mdb_txn_commit(txn);
    else
        mdb_txn_abort(txn);
    if (rc != 0)
        return rc == MDB_MAP_FULL ? ERR_OK : ERR_IO;
    e->stepped = e->room.txn + 1;
    return ERR_OK;
}

err index_refresh(struct engine *e, uint64_t wanted)
{
    pthread_mutex_lock(&e->space);
    err why = index_measure(e);
    if (why == ERR_OK && e->room.pages < wanted && e->room.txn != e->stepped) {
        why = step(e);
        if (why == ERR_OK)
            why = index_measure(e);
    }
    pthread_mutex_unlock(&e->space);
    return why;
}
