/* local_check.c - whether what partitions hold fits together, for the check of a store
 * (`queue_local_check`).
 *   One walk over a partition's rows, in the order of their kinds: the record first, then
 * batches, then what points at them. Which places are elsewhere and which places entries point
 * at is compared by a sum of hashes, so memory does not depend on how much is stored. */
#include "base/buf.h"
#include "queue/item.h"
#include "queue/store/local/local.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* One check; counted is what the record should say. */
struct check {
    struct engine *engine;
    void (*found)(void *ctx, const char *what);
    void *ctx;
    uint64_t damages;
    struct engine_view *view;
    /* of the partition at hand */
    struct queue_part part;
    bool has_record;
    struct queue_part_record record, counted;
    uint64_t elsewhere, entries;
    uint64_t elsewhere_sum, entries_sum; /* of hashes of places */
    struct ksuid last;                   /* of the batch before */
    bool has_last;
};

static void found(struct check *c, const char *format, ...) PRINTF_LIKE(2, 3);
/* Tells one damage, and goes on: a check shows all there is. */
static void found(struct check *c, const char *format, ...)
{
    char text[256];
    va_list args;
    int n = snprintf(text, sizeof(text), "queue %u, partition %u: ", (unsigned)c->part.queue,
                     (unsigned)c->part.partition);
    va_start(args, format);
    (void)vsnprintf(text + n, sizeof(text) - (size_t)n, format, args);
    va_end(args);
    c->damages++;
    if (c->found != NULL)
        c->found(c->ctx, text);
}

/* The sum of these does not depend on the order in which places are met. */
static uint64_t place_hash(struct queue_place place)
{
    unsigned char bytes[KSUID_BYTES + 2];
    ksuid_key(place.batch, bytes);
    put_be16(bytes + KSUID_BYTES, place.index);
    return XXH3_64bits(bytes, sizeof(bytes));
}

/* ---- batches ---- */

/* One batch in memory at a time. */
static void check_bodies(struct check *c, const struct engine_blob *blob,
                         const struct queue_batch *b, const char *id)
{
    char *bytes = malloc(blob->n + 1);
    INVARIANT(bytes != NULL);
    err why = engine_blob_read(c->engine, blob, 0, blob->n, bytes);
    if (why == ERR_OK)
        why = item_batch_check((str){ .p = bytes, .n = blob->n }, b->count);
    if (why != ERR_OK)
        found(c, "the items of batch %s cannot be read: %s", id, err_name(why));
    free(bytes);
}

/* A batch goes with its last item. */
static void count_states(struct check *c, const struct queue_batch *b, const char *id)
{
    unsigned gone = 0;
    for (unsigned i = 0; i < b->count; i++) {
        struct queue_place place = { .batch = b->first, .index = (uint16_t)i };
        c->counted.ready += b->states[i] == ITEM_IN_PLACE;
        gone += b->states[i] == ITEM_GONE;
        if (b->states[i] != ITEM_ELSEWHERE)
            continue;
        c->elsewhere++;
        c->elsewhere_sum += place_hash(place);
    }
    if (gone == b->count)
        found(c, "all items of batch %s are gone and it is still there", id);
}

/* The record was read before: its key is the first of the partition. */
static void check_batch(struct check *c, const struct row_key_parts *key,
                        const struct engine_row *row)
{
    char id[KSUID_TEXT_BYTES + 1];
    struct local_batch b;
    ksuid_format(key->id, id);
    if (row_batch_decode(row->value, b.states, &b.batch) != ERR_OK) {
        found(c, "batch %s cannot be read", id);
        return;
    }
    b.batch.first = key->id;
    c->counted.bytes += row->blob.n;
    count_states(c, &b.batch, id);
    struct ksuid end = ksuid_add(key->id, b.batch.count - 1u);
    if (ksuid_cmp(end, c->record.last_id) > 0)
        found(c, "batch %s has ids above the greatest one given", id);
    /* Ids of batches ascend, each behind the last item of the one before. */
    if (c->has_last && ksuid_cmp(key->id, c->last) <= 0)
        found(c, "batch %s overlaps the one before", id);
    c->has_last = true;
    c->last = end;
    check_bodies(c, &row->blob, &b.batch, id);
}

/* ---- what points at them ---- */

/* The state of a place; ITEM_GONE when there is none. */
static enum queue_item_state state_of(struct check *c, struct queue_place place)
{
    struct local_batch b;
    err why = local_batch_find(c->view, c->part, place.batch, &b);
    if (why != ERR_OK || place.index >= b.batch.count)
        return ITEM_GONE;
    return (enum queue_item_state)b.states[place.index];
}

/* An entry counts by its kind; leases are taken out of ready in part_end. */
static void check_entry(struct check *c, const struct row_key_parts *key, str value)
{
    struct queue_entry e;
    char id[KSUID_TEXT_BYTES + 1];
    ksuid_format(key->id, id);
    if (row_entry_decode(value, &e) != ERR_OK) {
        found(c, "entry %s cannot be read", id);
        return;
    }
    c->entries++;
    c->entries_sum += place_hash(e.place);
    c->counted.ready += key->kind == ROW_READY;
    c->counted.scheduled += key->kind == ROW_SCHEDULED;
    /* An item has one place: its entry, or its batch. */
    if (state_of(c, e.place) != ITEM_ELSEWHERE)
        found(c, "entry %s points at an item that is not elsewhere", id);
    if (ksuid_cmp(key->id, c->record.last_id) > 0)
        found(c, "entry %s has an id above the greatest one given", id);
}

static void check_lease(struct check *c, const struct row_key_parts *key, str value)
{
    struct queue_lease l;
    char id[KSUID_TEXT_BYTES + 1];
    ksuid_format(key->id, id);
    if (row_lease_decode(value, &l) != ERR_OK) {
        found(c, "lease %s cannot be read", id);
        return;
    }
    c->counted.leased++;
    bool there = state_of(c, l.place) == (l.in_place ? ITEM_IN_PLACE : ITEM_ELSEWHERE);
    /* A lease in place has the id that its batch gave the item. */
    if (there && l.in_place)
        there = ksuid_cmp(ksuid_add(l.place.batch, l.place.index), key->id) == 0;
    /* Otherwise there is a ready entry of its id. */
    if (there && !l.in_place) {
        struct row_key ready = row_key_id(c->part, ROW_READY, key->id);
        struct engine_row row;
        there = engine_get(c->view, SPACE_PARTITION, row_key_str(&ready), &row) == ERR_OK;
    }
    if (!there)
        found(c, "lease %s is of no ready item", id);
}

/* ---- a partition ---- */

static void part_begin(struct check *c, struct queue_part p)
{
    c->part = p;
    c->has_record = c->has_last = false;
    c->record = c->counted = (struct queue_part_record){ .epoch = 0 };
    c->elsewhere = c->entries = c->elsewhere_sum = c->entries_sum = 0;
}

/* What the rows of the partition came to is held against its record. */
static void part_end(struct check *c)
{
    const struct queue_part_record *r = &c->record;
    struct queue_part_record *n = &c->counted;
    /* Queue 0 has rows of the store itself, and no record. */
    if (c->part.queue == 0)
        return;
    if (!c->has_record) {
        found(c, "rows of a partition that is not there; it was being dropped");
        return;
    }
    if (n->leased > n->ready)
        found(c, "more leases than ready items");
    else
        n->ready -= n->leased;
    if (r->ready != n->ready || r->scheduled != n->scheduled || r->leased != n->leased)
        found(c, "counts say %llu ready, %llu scheduled, %llu leased, rows %llu, %llu, %llu",
              (unsigned long long)r->ready, (unsigned long long)r->scheduled,
              (unsigned long long)r->leased, (unsigned long long)n->ready,
              (unsigned long long)n->scheduled, (unsigned long long)n->leased);
    if (r->bytes != n->bytes)
        found(c, "counts say %llu bytes, batches have %llu", (unsigned long long)r->bytes,
              (unsigned long long)n->bytes);
    if (c->elsewhere != c->entries || c->elsewhere_sum != c->entries_sum)
        found(c, "%llu items are elsewhere, %llu entries stand for them, not one for each",
              (unsigned long long)c->elsewhere, (unsigned long long)c->entries);
}

/* Rows that are only to be readable. */
static void check_small(struct check *c, const struct row_key_parts *key, str value)
{
    struct queue_key k;
    uint64_t beats;
    str owner;
    bool good = true;
    if (key->kind == ROW_KEY)
        good = row_key_decode(value, &k) == ERR_OK;
    if (key->kind == ROW_HEARTBEAT)
        good = row_heartbeat_decode(value, &beats) == ERR_OK;
    if (key->kind == ROW_OWNER)
        good = row_owner_decode(value, &owner) == ERR_OK;
    if (!good)
        found(c, "a row of kind %d cannot be read", (int)key->kind);
}

static void check_row(struct check *c, const struct row_key_parts *key,
                      const struct engine_row *row)
{
    switch (key->kind) {
    case ROW_RECORD:
        c->has_record = row_record_decode(row->value, &c->record) == ERR_OK;
        if (!c->has_record)
            found(c, "the record cannot be read");
        break;
    case ROW_BATCH:
    case ROW_ASIDE:
        if (key->kind == ROW_ASIDE && c->has_last && ksuid_cmp(key->id, c->last) <= 0)
            c->has_last = false; /* their ids lie among those of the others */
        check_batch(c, key, row);
        break;
    case ROW_READY:
    case ROW_SCHEDULED:
        check_entry(c, key, row->value);
        break;
    case ROW_LEASE:
        check_lease(c, key, row->value);
        break;
    case ROW_KEY:
    case ROW_HEARTBEAT:
    case ROW_OWNER:
        check_small(c, key, row->value);
        break;
    case ROW_UNUSED:
    case ROW_KINDS:
        INVARIANT(false);
    }
}

/* found goes on with the next row; only the engine's errors end the walk. */
static err check_all(struct check *c)
{
    struct engine_range range = { .space = SPACE_PARTITION };
    struct engine_cursor *cursor = engine_cursor_open(c->view, &range);
    for (;;) {
        struct engine_row row;
        struct row_key_parts key;
        err why = engine_cursor_next(cursor, &row);
        if (why == ERR_NOT_FOUND)
            break;
        if (why != ERR_OK)
            return why;
        if (row_key_parse(row.key, &key) != ERR_OK) {
            found(c, "a key behind those of this partition cannot be read");
            continue;
        }
        /* Keys are in order of partitions: another one begins. */
        if (key.part.queue != c->part.queue || key.part.partition != c->part.partition) {
            part_end(c);
            part_begin(c, key.part);
        }
        check_row(c, &key, &row);
    }
    part_end(c);
    return ERR_OK;
}

err queue_local_check(struct engine *e, void (*found_fn)(void *ctx, const char *what), void *ctx)
{
    struct check c = { .engine = e, .found = found_fn, .ctx = ctx, .view = engine_view_begin(e) };
    err why = check_all(&c);
    engine_view_end(&c.view);
    if (why == ERR_CORRUPT)
        found(&c, "a row cannot be read");
    return why != ERR_OK ? why : c.damages > 0 ? ERR_CORRUPT : ERR_OK;
}
