/* space.c - dead extents become holes, empty segments go, sparse ones are copied out.
 *
 * Invariants
 *  1. A byte is punched only when the index, on disk, says it is dead, and no view or pin can reach
 *     it.
 *  2. A segment is unlinked only when the index has forgotten it, on disk, and the same holds for
 *     its bytes.
 *  3. What was not punched before a crash is found again by the sweep over all dead ranges after
 *     each start.
 *
 *   index commit --batch, tagged with the epoch--> waiting --epoch over--> punched
 * The lock space makes an index commit and the arrival of its batch one step for reclaim: whatever
 * a read transaction begun under it shows as dead is either released or in a waiting batch. */
#include "engine/store.h"
#include "engine/walk.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum {
    BLOCK_BYTES = 4096,
    EXTENTS_PER_CALL = 4096,
    COPY_RECORDS = 256,
    COPY_BYTES = 4 << 20,
};

void space_add(struct engine *e, struct dead_batch *batch)
{
    batch->next = NULL;
    if (e->batches_last == NULL)
        e->batches = batch;
    else
        e->batches_last->next = batch;
    e->batches_last = batch;
}

void space_free(struct engine *e)
{
    while (e->batches != NULL) {
        struct dead_batch *b = e->batches;
        e->batches = b->next;
        free(b);
    }
    e->batches_last = NULL;
}

/* One call of reclaim. */
struct reclaim {
    struct engine *engine;
    MDB_txn *txn;
    struct dead_batch *released;
    struct vlog_extent *waiting; /* sorted; may still be read by somebody */
    size_t waiting_count;
    bool more;
};

/* Under the lock: takes released batches off the list, as many as one call may handle. */
static void take_released(struct reclaim *r)
{
    struct engine *e = r->engine;
    struct dead_batch **end = &r->released;
    size_t count = 0;
    while (e->batches != NULL && count < EXTENTS_PER_CALL && epoch_is_over(e, e->batches->epoch)) {
        struct dead_batch *b = e->batches;
        e->batches = b->next;
        b->next = NULL;
        *end = b;
        end = &b->next;
        count += b->count;
    }
    if (e->batches == NULL)
        e->batches_last = NULL;
    r->more = e->batches != NULL && epoch_is_over(e, e->batches->epoch);
}

/* Under the lock; sorted by reclaim_begin outside of it, since a long pin makes it long and index
 * commits wait. */
static void list_waiting(struct reclaim *r)
{
    size_t count = 0;
    for (const struct dead_batch *b = r->engine->batches; b != NULL; b = b->next)
        count += b->count;
    if (count == 0)
        return;
    r->waiting = malloc(count * sizeof(*r->waiting));
    INVARIANT(r->waiting != NULL);
    for (const struct dead_batch *b = r->engine->batches; b != NULL; b = b->next) {
        memcpy(r->waiting + r->waiting_count, b->extents, b->count * sizeof(b->extents[0]));
        r->waiting_count += b->count;
    }
}

/* Index of the first waiting extent that ends behind offset of segment. */
static size_t first_waiting(const struct reclaim *r, uint32_t segment, uint64_t offset)
{
    size_t low = 0;
    size_t high = r->waiting_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct vlog_extent *x = &r->waiting[mid];
        if (x->segment < segment || (x->segment == segment && x->offset + x->size <= offset))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static err punch(struct reclaim *r, uint32_t segment, uint64_t from, uint64_t to)
{
    from = (from + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
    to = to / BLOCK_BYTES * BLOCK_BYTES;
    if (from >= to)
        return ERR_OK;
    atomic_fetch_add(&r->engine->punched_bytes, to - from);
    return vlog_punch(r->engine->log, (struct vlog_extent){
                                          .segment = segment, .offset = from, .size = to - from });
}

/* Punches a range that is dead, except for what is still waiting inside. */
static err punch_free(struct reclaim *r, struct vlog_extent x)
{
    uint64_t at = x.offset;
    uint64_t end = x.offset + x.size;
    for (size_t i = first_waiting(r, x.segment, at); i < r->waiting_count; i++) {
        const struct vlog_extent *w = &r->waiting[i];
        if (w->segment != x.segment || w->offset >= end)
            break;
        err why = at < w->offset ? punch(r, x.segment, at, w->offset) : ERR_OK;
        if (why != ERR_OK)
            return why;
        at = w->offset + w->size;
    }
    return at < end ? punch(r, x.segment, at, end) : ERR_OK;
}

/* An extent that was released, widened to whole blocks as far as its dead neighbours reach. */
static err punch_extent(struct reclaim *r, struct vlog_extent x)
{
    struct vlog_extent whole;
    err why = index_dead_at(r->engine, r->txn, x.segment, x.offset, &whole);
    if (why == ERR_NOT_FOUND || (why == ERR_OK && whole.offset > x.offset))
        return ERR_OK; /* its segment is gone */
    if (why != ERR_OK)
        return why;
    uint64_t from = x.offset / BLOCK_BYTES * BLOCK_BYTES;
    uint64_t to = (x.offset + x.size + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
    uint64_t whole_end = whole.offset + whole.size;
    if (from < whole.offset)
        from = whole.offset;
    if (to > whole_end)
        to = whole_end;
    return punch_free(r, (struct vlog_extent){
                             .segment = x.segment, .offset = from, .size = to - from });
}

static err punch_released(struct reclaim *r)
{
    err why = ERR_OK;
    for (const struct dead_batch *b = r->released; b != NULL && why == ERR_OK; b = b->next)
        for (size_t i = 0; i < b->count && why == ERR_OK; i++)
            why = punch_extent(r, b->extents[i]);
    return why;
}

/* After a start: everything dead is punched once more, a part at each call. */
static err sweep(struct reclaim *r)
{
    struct engine *e = r->engine;
    err why = ERR_OK;
    for (int i = 0; i < EXTENTS_PER_CALL && !e->sweep_done && why == ERR_OK; i++) {
        struct vlog_extent x;
        struct index_segment s;
        why = index_dead_at(e, r->txn, e->sweep.segment, e->sweep.offset, &x);
        if (why == ERR_OK) {
            why = punch_free(r, x);
            e->sweep.offset = x.offset + x.size;
            continue;
        }
        if (why == ERR_NOT_FOUND)
            why = index_segment_next(e, r->txn, e->sweep.segment + 1, &s);
        if (why == ERR_OK)
            e->sweep = (struct vlog_extent){ .segment = s.number };
        e->sweep_done = why == ERR_NOT_FOUND;
        why = why == ERR_NOT_FOUND ? ERR_OK : why;
    }
    r->more = r->more || !e->sweep_done;
    return why;
}

static bool waits_in(const struct reclaim *r, uint32_t segment)
{
    size_t i = first_waiting(r, segment, 0);
    return i < r->waiting_count && r->waiting[i].segment == segment;
}

static err remove_segment(struct engine *e, uint32_t number)
{
    pthread_mutex_lock(&e->space);
    err why = index_segment_forget(e, number);
    pthread_mutex_unlock(&e->space);
    if (why == ERR_FULL)
        return ERR_OK; /* another time */
    if (why != ERR_OK) {
        engine_fail(e, "forgetting a segment", err_name(why));
        return why;
    }
    return vlog_unlink(e->log, number);
}

/* ---- copying out ---- */

struct copy {
    struct walk_record record;
    char *bytes;
};
struct copies {
    struct copy *all;
    size_t count, bytes;
    size_t written; /* by the last run of the decision */
};

/* Writes each record again, unless its row has another blob by now. Runs on the committer. */
static err copy_decide(struct engine_txn *t, void *ctx)
{
    struct copies *list = ctx;
    list->written = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct copy *c = &list->all[i];
        str key = { .p = c->record.key, .n = c->record.key_n };
        str bytes = { .p = c->bytes, .n = c->record.blob.n };
        struct engine_row row;
        err why = engine_get(engine_txn_view(t), c->record.space, key, &row);
        if (why == ERR_NOT_FOUND || (why == ERR_OK && !blob_same_place(&row.blob, &c->record.blob)))
            continue;
        if (why == ERR_OK)
            why = engine_txn_put(t, c->record.space, key, row.value, bytes);
        if (why != ERR_OK)
            return why;
        list->written++;
    }
    return ERR_OK;
}

/* Reads one record for copying. A damaged one stays where it is, for check to find. */
static void copy_read(struct engine *e, const struct walk_record *record, struct copies *out)
{
    char *bytes = malloc(record->blob.n + 1);
    INVARIANT(bytes != NULL);
    err why = engine_blob_read(e, &record->blob, 0, record->blob.n, bytes);
    if (why != ERR_OK || XXH3_64bits(bytes, record->blob.n) != record->blob.hash) {
        free(bytes);
        return;
    }
    out->all[out->count++] = (struct copy){ .record = *record, .bytes = bytes };
    out->bytes += record->blob.n;
}

static err copy_collect(struct reclaim *r, const struct index_segment *s, struct copies *out)
{
    struct walk w;
    walk_init(&w, r->engine, r->txn, s->number, s->end);
    err why = ERR_OK;
    while (why == ERR_OK && out->count < COPY_RECORDS && out->bytes < COPY_BYTES) {
        struct walk_record record;
        why = walk_next(&w, &record);
        if (why == ERR_CORRUPT)
            why = walk_resync(&w);
        else if (why == ERR_OK)
            copy_read(r->engine, &record, out);
    }
    walk_fini(&w);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

/* *copied is set when anything was: a segment with nothing but damaged records must not stop the
 * others. */
static err copy_out(struct reclaim *r, const struct index_segment *s, bool *copied)
{
    struct copies list = { .all = calloc(COPY_RECORDS, sizeof(*list.all)) };
    INVARIANT(list.all != NULL);
    err why = copy_collect(r, s, &list);
    const struct engine_update again = { .decide = copy_decide,
                                         .ctx = &list,
                                         .frees = true }; /* ends in more room */
    if (why == ERR_OK && list.count > 0)
        why = engine_submit_wait(r->engine, &again);
    if (why == ERR_OK && list.count > 0)
        why = engine_flush(r->engine);
    if (why == ERR_OK) {
        atomic_fetch_add(&r->engine->copied_bytes, list.bytes);
        *copied = list.written > 0;
        r->more = r->more || *copied;
    }
    for (size_t i = 0; i < list.count; i++)
        free(list.all[i].bytes);
    free(list.all);
    return why;
}

/* ---- segments ---- */

/* What to do with a sealed segment none of whose bytes wait. */
static err tend_segment(struct reclaim *r, const struct index_segment *s, bool *copied)
{
    struct engine *e = r->engine;
    uint64_t live = s->end - RECORD_SEGMENT_BYTES - s->dead;
    if (live == 0)
        return remove_segment(e, s->number);
    struct vlog_segment file;
    if (vlog_segment_next(e->log, s->number, &file) != ERR_OK || file.number != s->number)
        return ERR_CORRUPT;
    bool sparse = file.allocated / 5 > live / 4; /* more than 1.25 x */
    if (*copied || !sparse || !e->started)
        return ERR_OK;
    return copy_out(r, s, copied);
}

static err tend_segments(struct reclaim *r, uint32_t sealed_below)
{
    struct engine *e = r->engine;
    struct index_segment s = { .number = 0 };
    bool copied = false;
    err why = index_segment_next(e, r->txn, 0, &s);
    while (why == ERR_OK && s.number < sealed_below) {
        if (!waits_in(r, s.number))
            why = tend_segment(r, &s, &copied);
        if (why == ERR_OK)
            why = index_segment_next(e, r->txn, s.number + 1, &s);
    }
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

static err reclaim_begin(struct reclaim *r, uint32_t *sealed_below)
{
    struct engine *e = r->engine;
    pthread_mutex_lock(&e->space);
    pthread_rwlock_wrlock(&e->state);
    if (e->batches != NULL && e->batches->epoch == e->epoch)
        epoch_advance(e); /* its counter was in use when the batch came */
    pthread_rwlock_unlock(&e->state);
    pthread_mutex_lock(&e->index);
    *sealed_below = e->indexed.segment;
    pthread_mutex_unlock(&e->index);
    int rc = mdb_txn_begin(e->env, NULL, MDB_RDONLY, &r->txn);
    if (rc == 0) {
        take_released(r);
        list_waiting(r);
    }
    pthread_mutex_unlock(&e->space);
    if (r->waiting_count > 0)
        qsort(r->waiting, r->waiting_count, sizeof(*r->waiting), extent_order);
    return rc == 0 ? ERR_OK : ERR_IO;
}

static void reclaim_end(struct reclaim *r)
{
    if (r->txn != NULL)
        mdb_txn_abort(r->txn);
    while (r->released != NULL) {
        struct dead_batch *b = r->released;
        r->released = b->next;
        free(b);
    }
    free(r->waiting);
}

err engine_reclaim(struct engine *e, bool *more)
{
    MAGIC_CHECK(e, ENGINE_MAGIC);
    *more = false;
    if (e->read_only || atomic_load(&e->failed))
        return ERR_OK;
    pthread_mutex_lock(&e->reclaim);
    struct reclaim r = { .engine = e };
    uint32_t sealed_below = 0;
    err why = reclaim_begin(&r, &sealed_below);
    if (why == ERR_OK)
        why = punch_released(&r);
    if (why == ERR_OK)
        why = sweep(&r);
    if (why == ERR_OK && !r.more)
        why = tend_segments(&r, sealed_below);
    if (why == ERR_OK)
        *more = r.more;
    reclaim_end(&r);
    pthread_mutex_unlock(&e->reclaim);
    return why;
}
