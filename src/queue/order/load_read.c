/* load_read.c - what a job reads of a partition, for load.c: rows into arrays, then the batches
 * that they point at. Thread: pool, without the queue's lock; the job's own memory alone. */
#include "queue/order/load.h"

#include <stdlib.h>

enum {
    JOB_LEASE_BYTES =
        2048 /* of the arena for each lease: its batch may have no other item in memory */
};

/* The array with room for one more. NULL: there is no memory, and the array is as it was. */
static void *load_read_grown(struct part_job *j, void *array, unsigned count, unsigned *size,
                             size_t each)
{
    if (count < *size)
        return array;
    unsigned more = *size == 0 ? 4 : *size * 2;
    array = reallocarray(array, more, each);
    j->is_starved |= array == NULL;
    *size = array == NULL ? *size : more;
    return array;
}

/* False ends the scan: the array is full (more), or there is no memory (is_starved). */
static bool add_row(struct part_job *j, struct rows *rows, const struct queue_entry *e,
                    bool in_place)
{
    if (rows->count == rows->max) {
        rows->more = true;
        return false;
    }
    struct row *room = load_read_grown(j, rows->rows, rows->count, &rows->size, sizeof *room);
    if (room == NULL)
        return false;
    rows->rows = room;
    rows->rows[rows->count] = (struct row){ .entry = *e, .in_place = in_place };
    rows->rows[rows->count++].entry.order_key = STR_NONE; /* the store's; the batch has it */
    return true;
}

static bool each_ready(void *ctx, const struct queue_row *row)
{
    struct part_job *j = ctx;
    return add_row(j, &j->ready, &row->u.entry, row->in_place);
}

static bool each_scheduled(void *ctx, const struct queue_row *row)
{
    struct part_job *j = ctx;
    return add_row(j, &j->scheduled, &row->u.entry, false);
}

static bool each_lease(void *ctx, const struct queue_row *row)
{
    struct part_job *j = ctx;
    const struct queue_lease *l = &row->u.lease;
    struct queue_lease *room =
        load_read_grown(j, j->leases, j->leases_count, &j->leases_size, sizeof *room);
    if (room == NULL)
        return false;
    j->leases = room;
    /* Leases have no upper bound of their own: the arena grows with them. */
    arena_raise(&j->arena, JOB_LEASE_BYTES);
    j->leases[j->leases_count] = *l;
    j->leases[j->leases_count++].order_key = STR_NONE; /* the store's; the batch has it */
    return true;
}

static bool each_key(void *ctx, const struct queue_row *row)
{
    struct part_job *j = ctx;
    struct queue_key *room =
        load_read_grown(j, j->keys, j->keys_count, &j->keys_size, sizeof *room);
    if (room == NULL)
        return false;
    j->keys = room;
    j->keys[j->keys_count++] = row->u.key;
    return true;
}

struct read_batch *load_batch_of(struct part_job *j, struct ksuid first)
{
    struct hash_node *n = hash_first(&j->batches, ksuid_hash(first));
    for (; n != NULL; n = hash_next(n)) {
        struct read_batch *b = CONTAINER_OF(n, struct read_batch, node);
        if (ksuid_cmp(b->batch.first, first) == 0)
            return b;
    }
    return NULL;
}

/* A scan from an id on shows that item first, or a later one when it is gone. */
static bool each_known(void *ctx, const struct queue_row *row)
{
    struct part_job *j = ctx;
    if (ksuid_cmp(row->u.entry.id, j->from) == 0)
        (void)add_row(j, &j->ready, &row->u.entry, row->in_place); /* fewer than a window */
    return false;
}

/* Only what left its place can be first of its key there. */
static bool each_sought(void *ctx, const struct queue_row *row)
{
    /* The order key is read here; add_row drops it. */
    struct part_job *j = ctx;
    const struct queue_entry *e = &row->u.entry;
    j->sought_all = false;
    if (!row->in_place && e->order_key.n > 0 && !add_row(j, &j->ready, e, false))
        return false;
    j->sought = e->id;
    /* So many rows for each job: the next one goes on behind them. */
    if (++j->rows_sought == PART_SEEK_ROWS)
        return false;
    j->sought_all = true; /* unless there is one more */
    return true;
}

/* ---- stages ---- */

/* Rows of all kinds count as one list, so that their batches are asked for one after the other. */
static unsigned rows_count(const struct part_job *j)
{
    return j->ready.count + j->scheduled.count + j->leases_count;
}

/* Of all rows that were read. */
static struct ksuid row_batch(const struct part_job *j, unsigned i)
{
    if (i < j->ready.count)
        return j->ready.rows[i].entry.place.batch;
    i -= j->ready.count;
    if (i < j->scheduled.count)
        return j->scheduled.rows[i].entry.place.batch;
    return j->leases[i - j->scheduled.count].place.batch;
}

/* Is there something to ask for at this place? */
static bool load_due(const struct part_job *j)
{
    /* once: a scan is one call; the others are one call for each index. */
    bool loads = j->kind == JOB_LOAD, once = j->index == 0;
    switch (j->stage) {
    case LOAD_OWN:
        return loads && once && !j->owned;
    case LOAD_LEASES:
    case LOAD_KEYS:
        return loads && once;
    case LOAD_UNKNOWN:
        return loads && j->index < j->unknown_count;
    case LOAD_FIRSTS:
        return j->kind == JOB_FIRSTS && j->index < j->firsts_count;
    case LOAD_SEEK:
        return j->kind == JOB_FIRSTS && once && j->seeks;
    case LOAD_READY:
        return (loads || j->kind == JOB_READY) && once;
    case LOAD_SCHEDULED:
        return (loads || j->kind == JOB_SCHEDULED) && once;
    case LOAD_BATCHES:
        return j->index < rows_count(j);
    case LOAD_OVER:
        break;
    }
    return false;
}

/* The rows of one kind, from where they are wanted. The outcome may come later. */
static err scan_ask(struct part_job *j, enum queue_scan_kind kind, struct ksuid from,
                    bool (*each)(void *ctx, const struct queue_row *row))
{
    const struct queue_scan scan = { .part = j->place,
                                     .kind = kind,
                                     .from = from,
                                     .at = j->from_at,
                                     .each = each,
                                     .ctx = j,
                                     .later = store_job_ask(&j->job) };
    return j->store->ops->scan(j->store, &scan);
}

/* The result is in j->batch; load_take keeps it when the batch is there. */
static err batch_ask(struct part_job *j, struct ksuid first)
{
    j->batch = arena_calloc(&j->arena, 1, sizeof *j->batch);
    if (j->batch == NULL)
        return ERR_LIMIT;
    const struct queue_batch_look look = {
        .first = first, .arena = &j->arena, .out = &j->batch->batch, .later = store_job_ask(&j->job)
    };
    return j->store->ops->batch(j->store, j->place, &look);
}

static err load_ask(struct part_job *j)
{
    struct queue_own own = { .parts = &j->place,
                             .count = 1,
                             .boot = j->part->queue->all->boot,
                             .out = &j->record,
                             .note = &j->note };
    switch (j->stage) {
    case LOAD_OWN:
        own.later = store_job_ask(&j->job);
        return j->store->ops->own(j->store, &own);
    case LOAD_LEASES:
        return scan_ask(j, SCAN_LEASES, KSUID_NIL, each_lease);
    case LOAD_KEYS:
        return scan_ask(j, SCAN_KEYS, KSUID_NIL, each_key);
    case LOAD_UNKNOWN:
        return batch_ask(j, j->unknown[j->index]);
    case LOAD_FIRSTS:
        j->from = j->firsts[j->index].id;
        return scan_ask(j, SCAN_READY, j->from, each_known);
    case LOAD_SEEK:
        j->sought_all = true;
        return scan_ask(j, SCAN_READY, ksuid_add(j->sought, 1), each_sought);
    case LOAD_READY:
        return scan_ask(j, SCAN_READY, j->from, each_ready);
    /* A first load begins at the first schedule; j->from_at is zero then. */
    case LOAD_SCHEDULED:
        return scan_ask(j, SCAN_SCHEDULED, j->kind == JOB_LOAD ? KSUID_NIL : j->from,
                        each_scheduled);
    case LOAD_BATCHES:
        j->batch = NULL;
        /* Several rows point at one batch: it is read once. */
        return load_batch_of(j, row_batch(j, j->index)) != NULL
                   ? ERR_OK
                   : batch_ask(j, row_batch(j, j->index));
    case LOAD_OVER:
        break;
    }
    return ERR_OK;
}

/* A batch that is not there is gone meanwhile: its rows are left out. */
static err load_take(struct part_job *j, err why)
{
    unsigned at = j->index++;
    bool batch = j->stage == LOAD_UNKNOWN || j->stage == LOAD_BATCHES;
    if (j->stage == LOAD_UNKNOWN)
        j->unknown_there[at] = why == ERR_OK;
    if (j->stage == LOAD_BATCHES && why == ERR_OK && j->batch != NULL)
        hash_add(&j->batches, &j->batch->node, ksuid_hash(row_batch(j, at)));
    if (batch && why == ERR_NOT_FOUND)
        return ERR_OK;
    /* A callback that found no memory ended its scan early, and the store called that ERR_OK. */
    return why == ERR_OK && j->is_starved ? ERR_LIMIT : why;
}

bool load_step(struct store_job *job)
{
    struct part_job *j = CONTAINER_OF(job, struct part_job, job);
    /* A step after the first takes the outcome for which the step before it left. */
    err why = store_job_told(job) ? load_take(j, job->later.why) : ERR_OK;
    while (why == ERR_OK && j->stage != LOAD_OVER) {
        if (!load_due(j)) {
            j->stage++;
            j->index = 0;
            continue;
        }
        why = load_ask(j);
        if (store_job_waits(job, why))
            return true;
        why = load_take(j, why);
    }
    j->why = why;
    j->is_starved |= arena_is_starved(&j->arena);
    return false;
}
