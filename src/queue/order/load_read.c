/* load_read.c - what a job reads of a partition: rows into arrays, then the batches that they point
 * at. */
#include "queue/order/load.h"

#include <stdlib.h>

enum {
    JOB_LEASE_BYTES =
        2048 /* of the arena for each lease: its batch may have no other item in memory */
};

/* The array with room for one more. NULL: there is no memory, and the array is as it was. */
static void *grown(struct part_job *j, void *array, unsigned count, unsigned *size, size_t each)
{
    if (count < *size)
        return array;
    unsigned more = *size == 0 ? 4 : *size * 2;
    array = reallocarray(array, more, each);
    j->is_starved |= array == NULL;
    *size = array == NULL ? *size : more;
    return array;
}

static bool add_row(struct part_job *j, struct rows *rows, const struct queue_entry *e,
                    bool in_place)
{
    if (rows->count == rows->max) {
        rows->more = true;
        return false;
    }
    struct row *room = grown(j, rows->rows, rows->count, &rows->size, sizeof *room);
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
    struct queue_lease *room = grown(j, j->leases, j->leases_count, &j->leases_size, sizeof *room);
    if (room == NULL)
        return false;
    j->leases = room;
    arena_raise(&j->arena, JOB_LEASE_BYTES);
    j->leases[j->leases_count] = *l;
    j->leases[j->leases_count++].order_key = STR_NONE; /* the store's; the batch has it */
    return true;
}

static bool each_key(void *ctx, const struct queue_row *row)
{
    struct part_job *j = ctx;
    struct queue_key *room = grown(j, j->keys, j->keys_count, &j->keys_size, sizeof *room);
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

static err need_batch(struct part_job *j, struct ksuid first)
{
    if (load_batch_of(j, first) != NULL)
        return ERR_OK;
    struct read_batch *b = arena_calloc(&j->arena, 1, sizeof *b);
    if (b == NULL)
        return ERR_LIMIT;
    err why = j->store->ops->batch(j->store, j->place, first, &j->arena, &b->batch);
    if (why == ERR_OK)
        hash_add(&j->batches, &b->node, ksuid_hash(first));
    return why == ERR_NOT_FOUND ? ERR_OK : why; /* gone meanwhile: the row is left out */
}

static err need_batches(struct part_job *j)
{
    err why = ERR_OK;
    for (unsigned i = 0; i < j->ready.count && why == ERR_OK; i++)
        why = need_batch(j, j->ready.rows[i].entry.place.batch);
    for (unsigned i = 0; i < j->scheduled.count && why == ERR_OK; i++)
        why = need_batch(j, j->scheduled.rows[i].entry.place.batch);
    for (unsigned i = 0; i < j->leases_count && why == ERR_OK; i++)
        why = need_batch(j, j->leases[i].place.batch);
    return why;
}

/* The rows of one kind, from where they are wanted. */
static err scan(struct part_job *j, enum queue_scan_kind kind, struct ksuid from,
                bool (*each)(void *ctx, const struct queue_row *row))
{
    const struct queue_scan all = {
        .part = j->place, .kind = kind, .from = from, .at = j->from_at, .each = each, .ctx = j
    };
    return j->store->ops->scan(j->store, &all);
}

static err read_all(struct part_job *j)
{
    const struct queue_store_ops *ops = j->store->ops;
    struct err_note note;
    err why = ERR_OK;
    if (!j->owned)
        why = ops->own(j->store, &j->place, 1, j->part->queue->all->boot, &j->record, &note);
    if (why == ERR_OK)
        why = scan(j, SCAN_LEASES, KSUID_NIL, each_lease);
    if (why == ERR_OK)
        why = scan(j, SCAN_KEYS, KSUID_NIL, each_key);
    for (unsigned i = 0; i < j->unknown_count && why == ERR_OK; i++) {
        struct queue_batch b;
        why = ops->batch(j->store, j->place, j->unknown[i], &j->arena, &b);
        j->unknown_there[i] = why == ERR_OK;
        if (why == ERR_NOT_FOUND)
            why = ERR_OK;
    }
    return why;
}

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
    struct part_job *j = ctx;
    const struct queue_entry *e = &row->u.entry;
    j->sought_all = false;
    if (!row->in_place && e->order_key.n > 0 && !add_row(j, &j->ready, e, false))
        return false;
    j->sought = e->id;
    if (++j->rows_sought == PART_SEEK_ROWS)
        return false;
    j->sought_all = true; /* unless there is one more */
    return true;
}

static err read_firsts(struct part_job *j)
{
    err why = ERR_OK;
    for (unsigned i = 0; i < j->firsts_count && why == ERR_OK; i++) {
        j->from = j->firsts[i].id;
        why = scan(j, SCAN_READY, j->from, each_known);
    }
    j->sought_all = j->seeks;
    if (why == ERR_OK && j->seeks)
        why = scan(j, SCAN_READY, ksuid_add(j->sought, 1), each_sought);
    return why;
}

void load_run(struct loop_job *job)
{
    struct part_job *j = CONTAINER_OF(job, struct part_job, job);
    j->why = j->kind == JOB_LOAD ? read_all(j) : ERR_OK;
    if (j->why == ERR_OK && j->kind == JOB_FIRSTS)
        j->why = read_firsts(j);
    if (j->why == ERR_OK && (j->kind == JOB_LOAD || j->kind == JOB_READY))
        j->why = scan(j, SCAN_READY, j->from, each_ready);
    if (j->why == ERR_OK && (j->kind == JOB_LOAD || j->kind == JOB_SCHEDULED))
        j->why = scan(j, SCAN_SCHEDULED, j->kind == JOB_LOAD ? KSUID_NIL : j->from, each_scheduled);
    if (j->why == ERR_OK && j->is_starved)
        j->why = ERR_LIMIT;
    if (j->why == ERR_OK)
        j->why = need_batches(j);
    j->is_starved |= arena_is_starved(&j->arena);
}
