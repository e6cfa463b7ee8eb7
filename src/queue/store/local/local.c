/* local.c - a store of partitions on the embedded engine: opening, failing, recovering,
 * dropping. For src/queue through store.h. */
#include "queue/store/local/local.h"
#include "engine/store.h"

#include <stdlib.h>
#include <string.h>

enum { DROP_ROWS_PER_STEP = 2000 };

struct local *local_of(struct queue_store *s)
{
    struct local *l = CONTAINER_OF(s, struct local, store);
    MAGIC_CHECK(l, LOCAL_MAGIC);
    return l;
}

err local_enter(struct local *l, struct engine **out)
{
    /* failed is looked at first: recover may wait for the gate's readers. */
    if (atomic_load(&l->failed) || pthread_rwlock_tryrdlock(&l->gate) != 0)
        return ERR_UNAVAILABLE;
    if (l->engine == NULL) {
        pthread_rwlock_unlock(&l->gate);
        return ERR_UNAVAILABLE;
    }
    *out = l->engine;
    return ERR_OK;
}

void local_leave(struct local *l)
{
    pthread_rwlock_unlock(&l->gate);
}

/* ---- dropping ---- */

struct dropping {
    struct queue_part part;
    bool more;
};

/* The record goes first: from then on no owner's write fits. Each step has all rows from the
 * start of the partition, since those before are gone. */
static err drop_decide(struct engine_txn *t, void *ctx)
{
    struct dropping *d = ctx;
    char end[ROW_PART_BYTES];
    struct row_key key = row_key_prefix(d->part, ROW_RECORD);
    err why = engine_txn_delete(t, SPACE_PARTITION, row_key_str(&key));
    str prefix = { .p = key.bytes, .n = ROW_PART_BYTES };
    struct engine_range range = {
        .space = SPACE_PARTITION,
        .from = prefix,
        .until = engine_prefix_end(prefix, end),
    };
    d->more = false;
    struct engine_cursor *c = engine_cursor_open(engine_txn_view(t), &range);
    for (unsigned i = 0; why == ERR_OK && !d->more; i++) {
        /* A bounded number of rows: a decision holds all writes of the engine up. */
        struct engine_row row;
        why = engine_cursor_next(c, &row);
        if (why == ERR_NOT_FOUND)
            break;
        if (why == ERR_OK && row.key.n > sizeof(key.bytes))
            why = ERR_CORRUPT;
        if (why != ERR_OK)
            break;
        memcpy(key.bytes, row.key.p, row.key.n); /* the row ends with the next call */
        key.n = row.key.n;
        why = engine_txn_delete(t, SPACE_PARTITION, row_key_str(&key));
        d->more = i + 1 == DROP_ROWS_PER_STEP;
    }
    engine_cursor_close(&c);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

static err local_drop(struct queue_store *s, struct queue_part p, struct queue_later *later)
{
    (void)later; /* it blocks */
    struct local *l = local_of(s);
    struct engine *e = NULL;
    struct dropping d = { .part = p, .more = true };
    err why = local_enter(l, &e);
    if (why != ERR_OK)
        return why;
    while (why == ERR_OK && d.more) {
        /* frees: a full disk can be emptied. */
        struct engine_update u = { .decide = drop_decide, .ctx = &d, .frees = true };
        why = engine_submit_wait(e, &u);
    }
    local_leave(l);
    return why;
}

/* ---- heartbeat ---- */

/* A count, so that each beat writes something. */
static err beat_decide(struct engine_txn *t, void *ctx)
{
    (void)ctx;
    struct row_key key = row_key_prefix((struct queue_part){ .queue = 0 }, ROW_HEARTBEAT);
    struct engine_row row;
    uint64_t count = 0;
    err why = engine_get(engine_txn_view(t), SPACE_PARTITION, row_key_str(&key), &row);
    if (why == ERR_OK)
        why = row_heartbeat_decode(row.value, &count);
    if (why != ERR_OK && why != ERR_NOT_FOUND)
        return why;
    char buf[ROW_VALUE_BYTES_MAX];
    return engine_txn_put(t, SPACE_PARTITION, row_key_str(&key),
                          row_heartbeat_encode(count + 1, buf), STR_NONE);
}

/* It waits for the sync: a disk that hangs holds this thread until the deadline. */
static err local_heartbeat(struct queue_store *s, mono deadline, struct queue_later *later)
{
    (void)later;
    struct local *l = local_of(s);
    struct engine *e = NULL;
    err why = local_enter(l, &e);
    if (why != ERR_OK)
        return why;
    struct engine_update u = { .decide = beat_decide, .deadline = deadline };
    why = engine_submit_wait(e, &u);
    local_leave(l);
    return why;
}

/* ---- space ---- */

static err local_reclaim(struct queue_store *s, bool *more)
{
    struct local *l = local_of(s);
    struct engine *e = NULL;
    *more = false;
    if (l->opts.engine != NULL)
        /* The main engine's space is the server's to look after. */
        return ERR_OK; /* whose it is looks after it */
    err why = local_enter(l, &e);
    if (why != ERR_OK)
        return why;
    why = engine_reclaim(e, more);
    local_leave(l);
    return why;
}

/* ---- opening, failing, opening again ---- */

/* Thread: the engine's. Once for each failure: it is told, and no write is taken until recover. */
static void engine_failed(void *ctx, const char *what)
{
    struct local *l = ctx;
    MAGIC_CHECK(l, LOCAL_MAGIC);
    bool before = atomic_exchange(&l->failed, true);
    if (!before && l->opts.failed != NULL)
        l->opts.failed(l->opts.ctx, l->store.name, what);
}

/* Whose the folder is must be known before anything is written there. */
static err own_engine_open(struct local *l, store_time *greatest, struct err_note *note)
{
    struct engine_opts opts = {
        .dir = l->opts.dir,
        .segment_bytes = l->opts.segment_bytes,
        .free_bytes_min = l->opts.free_bytes_min,
        .faults = l->opts.faults,
    };
    struct engine *e = NULL;
    err why = local_owner_look(l, note);
    if (why == ERR_OK)
        why = engine_open(&opts, &e, greatest, note);
    if (why != ERR_OK)
        return why;
    /* Before the start: the committer may fail at once. */
    engine_on_failure(e, engine_failed, l);
    why = engine_start(e, l->opts.clock, note);
    if (why == ERR_OK)
        why = local_owner_mark(l, e, note);
    if (why != ERR_OK) {
        engine_close(&e);
        return why;
    }
    l->engine = e;
    return ERR_OK;
}

static err local_recover(struct queue_store *s, struct err_note *note, struct queue_later *later)
{
    (void)later;
    struct local *l = local_of(s);
    /* A probe came for a store that works: nothing is to be done. */
    if (!atomic_load(&l->failed))
        return ERR_OK;
    store_time greatest;
    /* Waits for calls that are in the engine. New ones find failed set, and do not wait. */
    pthread_rwlock_wrlock(&l->gate);
    l->opts.used = true; /* what was open once is there, or away */
    engine_close(&l->engine);
    err why = own_engine_open(l, &greatest, note);
    if (why == ERR_OK && l->opts.recovered != NULL)
        /* The clock must not be behind what is stored. */
        l->opts.recovered(l->opts.ctx, greatest);
    /* away: still not there. A folder that came back and fails otherwise is only in error. */
    atomic_store(&l->away, l->away && why != ERR_OK);
    atomic_store(&l->failed, why != ERR_OK);
    pthread_rwlock_unlock(&l->gate);
    /* Others are tried again; damage is told as what it is. */
    return why == ERR_OK || why == ERR_CORRUPT ? why : ERR_UNAVAILABLE;
}

static void local_close(struct queue_store **sp)
{
    if (*sp == NULL)
        return;
    struct local *l = local_of(*sp);
    /* An engine that was borrowed is closed by its owner. */
    if (l->opts.engine == NULL)
        engine_close(&l->engine);
    pthread_rwlock_destroy(&l->gate);
    free((char *)(uintptr_t)l->opts.name);
    free((char *)(uintptr_t)l->opts.dir);
    free((char *)(uintptr_t)l->opts.deployment);
    l->magic = 0;
    free(l);
    *sp = NULL;
}

static const struct queue_store_ops local_ops = {
    .write = local_write,
    .own = local_own,
    .record = local_record,
    .scan = local_scan,
    .batch = local_batch,
    .bodies = local_bodies,
    .drop = local_drop,
    .recover = local_recover,
    .heartbeat = local_heartbeat,
    .reclaim = local_reclaim,
    .close = local_close,
};

static const char *copy_text(const char *text)
{
    char *copy = strdup(text);
    INVARIANT(copy != NULL);
    return copy;
}

/* A folder that is away is no error of opening: the store begins as failed. */
err queue_local_open(const struct queue_local_opts *opts, struct queue_store **out,
                     store_time *greatest, struct err_note *note)
{
    INVARIANT((opts->engine == NULL) != (opts->dir == NULL));
    struct local *l = calloc(1, sizeof(*l));
    INVARIANT(l != NULL);
    l->magic = LOCAL_MAGIC;
    l->opts = *opts;
    l->opts.name = copy_text(opts->name);
    l->opts.dir = opts->dir == NULL ? NULL : copy_text(opts->dir);
    l->opts.deployment = opts->deployment == NULL ? NULL : copy_text(opts->deployment);
    l->store = (struct queue_store){ .ops = &local_ops, .name = l->opts.name };
    pthread_rwlock_init(&l->gate, NULL);
    l->engine = opts->engine;
    store_time time = STORE_TIME_ZERO;
    err why = opts->engine == NULL ? own_engine_open(l, &time, note) : ERR_OK;
    struct queue_store *s = &l->store;
    if (why == ERR_UNAVAILABLE) {
        atomic_store(&l->away, true); /* recovered when it is there */
        engine_failed(l, note == NULL ? "its folder is away" : note->text);
        why = ERR_OK;
        time = STORE_TIME_ZERO;
    }
    if (why != ERR_OK) {
        local_close(&s);
        return why;
    }
    *out = s;
    *greatest = time;
    return ERR_OK;
}
