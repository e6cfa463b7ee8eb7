/* migrate.c - a partition to another store while its queue goes on, for parts.c: closed, copied
 * row by row, switched, dropped. Thread: pool, under change_lock. */
#include "queue/lease/wait.h"
#include "queue/order/flush.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* Limits of one write of the copy, and of the memory that it is built in. */
    COPY_ROWS_MAX = 1000,
    COPY_BYTES_MAX = 4 << 20,
    COPY_ARENA_BYTES_MAX = 64 << 20,
    QUIET_MS = 10000
};

/* One copy under way, on the stack of migrate. The counts are those of the rows gathered since
 * the last write. */
struct copy {
    struct queue *queue;
    struct queue_store *from, *to;
    struct queue_part place;
    struct queue_part_record record; /* of the copy */
    struct arena arena;
    struct queue_op *ops;
    unsigned ops_count;
    int64_t ready, scheduled, leased;
    uint64_t bytes;
    bool is_starved; /* a row found no memory: the copy is worth nothing */
};

static void migrate_written(struct queue_write *w, err why)
{
    waiter_done(w->ctx, why, 1);
}

/* Writes what was gathered, and waits. After it nothing is gathered, and the arena is empty:
 * whatever pointed there has been written. */
static err migrate_flush(struct copy *c)
{
    if (c->is_starved)
        return ERR_LIMIT;
    if (c->queue->all->draining)
        /* Nothing counts before queue_save. */
        return ERR_SHUTDOWN; /* the old one is whole; the copy is dropped by the next try */
    if (c->ops_count == 0)
        return ERR_OK;
    struct waiter waiter;
    waiter_init(&waiter);
    waiter_expect(&waiter);
    struct queue_write w = { .parts_count = 1, .done = migrate_written, .ctx = &waiter };
    w.parts[0] = (struct queue_write_part){ .part = c->place,
                                            .epoch = c->record.epoch,
                                            .ready = c->ready,
                                            .scheduled = c->scheduled,
                                            .leased = c->leased,
                                            .last_id = c->record.last_id,
                                            .settled = c->record.last_id,
                                            .ops = c->ops,
                                            .ops_count = c->ops_count };
    c->to->ops->write(c->to, &w);
    err why = waiter_wait(&waiter);
    waiter_fini(&waiter);
    c->ops_count = 0;
    c->ready = c->scheduled = c->leased = 0;
    c->bytes = 0;
    arena_reset(&c->arena);
    return why;
}

/* ---- batches, with the items that stand in their place ---- */

enum { ROWS_FIRST = 256 };

/* The array with room for one more. NULL: there is no memory, and the array is as it was. */
static void *migrate_grown(void *array, size_t count, size_t *size, size_t each)
{
    if (count < *size)
        return array;
    size_t more = *size == 0 ? ROWS_FIRST : *size * 2;
    array = reallocarray(array, more, each);
    *size = array == NULL ? *size : more;
    return array;
}

/* First ids of all batches that have a live item. */
struct firsts {
    struct ksuid *ids;
    size_t count, size;
    bool is_starved;
};

/* Rows of one batch come one after the other: equal neighbours are left out here, others in
 * copy_batches. */
static bool add_first(struct firsts *f, struct ksuid id)
{
    if (f->count > 0 && ksuid_cmp(f->ids[f->count - 1], id) == 0)
        return true;
    struct ksuid *ids = migrate_grown(f->ids, f->count, &f->size, sizeof *ids);
    f->is_starved |= ids == NULL;
    if (ids == NULL)
        return false;
    f->ids = ids;
    f->ids[f->count++] = id;
    return true;
}

static bool first_of(void *ctx, const struct queue_row *row)
{
    return add_first(ctx, row->u.entry.place.batch);
}

static int first_cmp(const void *a, const void *b)
{
    return ksuid_cmp(*(const struct ksuid *)a, *(const struct ksuid *)b);
}

/* All of its items as the batch had them; those gone are empty: nobody reads them again. */
static err batch_bytes(struct copy *c, const struct queue_batch *b, str *out)
{
    struct item *items = arena_calloc(&c->arena, b->count, sizeof *items);
    if (items == NULL)
        return ERR_LIMIT;
    err why = ERR_OK;
    for (unsigned i = 0; i < b->count && why == ERR_OK; i++) {
        struct queue_place at = { .batch = b->first, .index = (uint16_t)i };
        /* Batches keep their count and their indexes, so entries and leases point at the same
         * items. */
        str body;
        if (b->states[i] == ITEM_GONE)
            continue;
        /* One by one: bodies that are gone have nothing to be read. */
        struct queue_bodies one = { .at = &at, .count = 1, .arena = &c->arena, .out = &body };
        why = c->from->ops->bodies(c->from, c->place, &one);
        if (why == ERR_OK)
            why = item_decode(body, &items[i]);
    }
    return why == ERR_OK ? item_batch_encode(items, b->count, &c->arena, out) : why;
}

static err batch_look(struct copy *c, struct ksuid first, struct queue_batch *out)
{
    const struct queue_batch_look look = { .first = first, .arena = &c->arena, .out = out };
    return c->from->ops->batch(c->from, c->place, &look);
}

/* The copy has the batch under its own id, with the states that it has. */
static err copy_batch(struct copy *c, struct ksuid first)
{
    struct queue_batch b;
    err why = batch_look(c, first, &b);
    if (why == ERR_OK)
        why = batch_bytes(c, &b, &b.bytes);
    if (why != ERR_OK)
        return why;
    for (unsigned i = 0; i < b.count; i++)
        c->ready += b.states[i] == ITEM_IN_PLACE;
    c->ops[c->ops_count++] = (struct queue_op){ .kind = OP_BATCH_PUT, .u.batch = b };
    c->bytes += b.bytes.n;
    /* Bodies fill a write long before rows do. */
    return c->bytes > COPY_BYTES_MAX || c->ops_count == COPY_ROWS_MAX ? migrate_flush(c) : ERR_OK;
}

/* The rows of one kind, from where they are wanted. */
static err scan(struct copy *c, struct queue_scan all)
{
    all.part = c->place;
    return c->from->ops->scan(c->from, &all);
}

/* Ready rows name batches with items in place and those of entries; leased items are ready rows
 * as well. */
static err copy_batches(struct copy *c)
{
    struct firsts f = { .ids = NULL };
    err why = scan(c, (struct queue_scan){ .kind = SCAN_READY, .each = first_of, .ctx = &f });
    if (why == ERR_OK)
        why = scan(c, (struct queue_scan){ .kind = SCAN_SCHEDULED, .each = first_of, .ctx = &f });
    if (why == ERR_OK && f.is_starved)
        why = ERR_LIMIT;
    if (why == ERR_OK && f.count > 0)
        qsort(f.ids, f.count, sizeof *f.ids, first_cmp);
    for (size_t i = 0; i < f.count && why == ERR_OK; i++)
        /* Sorted: equal ids stand beside each other. */
        if (i == 0 || ksuid_cmp(f.ids[i - 1], f.ids[i]) != 0)
            why = copy_batch(c, f.ids[i]);
    free(f.ids);
    return why == ERR_OK ? migrate_flush(c) : why;
}

/* ---- rows that point into batches: gathered inside the store's callbacks, written between them
 * ---- */

static struct queue_op *add_op(struct copy *c, enum queue_op_kind kind)
{
    struct queue_op *op = &c->ops[c->ops_count++];
    *op = (struct queue_op){ .kind = kind };
    return op;
}

static bool copy_entry(struct copy *c, const struct queue_entry *e)
{
    struct queue_op *op = add_op(c, OP_ENTRY_PUT);
    op->u.entry = *e;
    op->u.entry.order_key = arena_copy(&c->arena, e->order_key);
    /* order_key points into the store's row: it must last until the write. */
    c->is_starved |= op->u.entry.order_key.p == NULL;
    /* False: the write is full. The scan goes on from the last row. */
    return !c->is_starved && c->ops_count < COPY_ROWS_MAX;
}

static bool copy_ready(void *ctx, const struct queue_row *row)
{
    struct copy *c = ctx;
    c->record.settled = row->u.entry.id; /* how far this scan came */
    /* Items in place came with their batch. */
    if (row->in_place)
        return true;
    c->ready++;
    return copy_entry(c, &row->u.entry);
}

static bool copy_scheduled(void *ctx, const struct queue_row *row)
{
    struct copy *c = ctx;
    c->scheduled++;
    return copy_entry(c, &row->u.entry);
}

/* Full writes, one after the other: a store's callback must not call the store, so the scan ends
 * for each write. */
static err copy_entries(struct copy *c)
{
    struct ksuid from = KSUID_NIL;
    bool more = true;
    err why = ERR_OK;
    while (more && why == ERR_OK) {
        /* copy_ready sets it; the field is free until the copy is settled. */
        c->record.settled = KSUID_NIL;
        why = scan(c, (struct queue_scan){
                          .kind = SCAN_READY, .from = from, .each = copy_ready, .ctx = c });
        more = c->ops_count == COPY_ROWS_MAX;
        from = ksuid_add(c->record.settled, 1);
        if (why == ERR_OK)
            why = migrate_flush(c);
    }
    store_time at = STORE_TIME_ZERO;
    from = KSUID_NIL;
    for (more = true; more && why == ERR_OK;) {
        why = scan(
            c,
            (struct queue_scan){
                .kind = SCAN_SCHEDULED, .at = at, .from = from, .each = copy_scheduled, .ctx = c });
        more = c->ops_count == COPY_ROWS_MAX;
        if (more) {
            at = c->ops[c->ops_count - 1].u.entry.enqueue_at;
            from = ksuid_add(c->ops[c->ops_count - 1].u.entry.id, 1);
        }
        if (why == ERR_OK)
            why = migrate_flush(c);
    }
    return why;
}

/* Rows without bodies: all of them are gathered first, because batches are asked for between the
 * writes. */
struct small_rows {
    struct queue_lease *leases;
    struct queue_key *keys;
    size_t count, size;
    struct copy *copy;
};

static bool keep_lease(void *ctx, const struct queue_row *row)
{
    struct small_rows *r = ctx;
    struct queue_lease *leases = migrate_grown(r->leases, r->count, &r->size, sizeof *leases);
    r->copy->is_starved |= leases == NULL;
    if (leases == NULL)
        return false;
    r->leases = leases;
    r->leases[r->count] = row->u.lease;
    r->leases[r->count++].order_key = STR_NONE; /* the batch has it */
    return true;
}

static bool keep_key(void *ctx, const struct queue_row *row)
{
    struct small_rows *r = ctx;
    struct queue_key *keys = migrate_grown(r->keys, r->count, &r->size, sizeof *keys);
    r->copy->is_starved |= keys == NULL;
    if (keys == NULL)
        return false;
    r->keys = keys;
    r->keys[r->count++] = row->u.key;
    return true;
}

static err copy_leases_and_keys(struct copy *c)
{
    struct small_rows r = { .copy = c };
    err why = scan(c, (struct queue_scan){ .kind = SCAN_LEASES, .each = keep_lease, .ctx = &r });
    for (size_t i = 0; i < r.count && why == ERR_OK; i++) {
        struct queue_batch b;
        why = batch_look(c, r.leases[i].place.batch, &b);
        if (why != ERR_OK)
            break;
        add_op(c, OP_LEASE_PUT)->u.lease = r.leases[i];
        /* The order key is in the batch of the new store as well; the row needs it for the
         * owner's reading. */
        c->ops[c->ops_count - 1].u.lease.order_key = b.order_key;
        /* The item came as ready, with its batch or entry. */
        c->ready--;
        c->leased++;
        why = c->ops_count == COPY_ROWS_MAX ? migrate_flush(c) : ERR_OK;
    }
    if (why == ERR_OK)
        why = migrate_flush(c);
    free(r.leases);
    r = (struct small_rows){ .copy = c };
    /* Zeroed: the keys' array begins anew. */
    if (why == ERR_OK)
        why = scan(c, (struct queue_scan){ .kind = SCAN_KEYS, .each = keep_key, .ctx = &r });
    for (size_t i = 0; i < r.count && why == ERR_OK; i++) {
        add_op(c, OP_KEY_PUT)->u.key = r.keys[i];
        why = c->ops_count == COPY_ROWS_MAX ? migrate_flush(c) : ERR_OK;
    }
    free(r.keys);
    return why == ERR_OK ? migrate_flush(c) : why;
}

static err copy_all(struct copy *c, struct err_note *note)
{
    struct queue_part_record old;
    const struct queue_own own = {
        .parts = &c->place, .count = 1, .boot = c->queue->all->boot, .out = &c->record, .note = note
    };
    mono deadline = mono_add_ms(clock_mono(c->queue->all->opts.clock), QUIET_MS);
    err why =
        /* The old store is read only after all that was written is visible. */
        c->from->ops->heartbeat(c->from, deadline,
                                NULL); /* what was written early is seen behind a synced write */
    if (why == ERR_OK)
        why = c->from->ops->record(c->from, c->place, &old);
    if (why == ERR_OK)
        why = c->to->ops->drop(c->to, c->place, NULL); /* what an earlier try left */
    if (why == ERR_OK)
        why = c->to->ops->own(c->to, &own);
    if (why != ERR_OK)
        return why;
    /* Ids of the copy must come behind all that were ever given. */
    c->record.last_id = old.last_id;
    why = copy_batches(c);
    if (why == ERR_OK)
        why = copy_entries(c);
    if (why == ERR_OK)
        why = copy_leases_and_keys(c);
    struct queue_part_record copied;
    if (why == ERR_OK)
        why = c->to->ops->record(c->to, c->place, &copied);
    /* The counts of rows, before and after: nothing was forgotten, and nothing came twice. */
    bool same = why == ERR_OK && copied.ready == old.ready && copied.scheduled == old.scheduled &&
                copied.leased == old.leased;
    if (why == ERR_OK && !same) {
        err_note_set(
            note,
            "the copy has %llu ready, %llu scheduled, %llu leased items, not %llu, %llu, %llu",
            (unsigned long long)copied.ready, (unsigned long long)copied.scheduled,
            (unsigned long long)copied.leased, (unsigned long long)old.ready,
            (unsigned long long)old.scheduled, (unsigned long long)old.leased);
        why = ERR_CORRUPT;
    }
    return why;
}

/* ---- closing and opening ---- */

/* placing: what a move of another queue puts here, since nothing that is produced is placed in a
 * closed one. Nothing of the partition is on its way, in a write, a read, a move or an unknown
 * outcome. */
static bool is_quiet(const struct part *p)
{
    return part_idle(p) && p->placing == 0 && !p->loading && !p->refilling && !p->refilling_due &&
           list_empty(&p->movers) && list_empty(&p->fetching) && list_empty(&p->unknown);
}

/* All work of a partition ends, also a move between its two writes: the marks of its items are
 * durable, so it goes on when the partition has been read again. */
static void close_part(struct queue *q, struct part *p)
{
    queue_enter(q);
    p->closed = true;
    place_open(q->place, p->number, false);
    part_heads(p);
    queue_leave(q);
}

/* Waits until nothing of a closed partition is on its way. */
static bool await_quiet(struct queue *q, struct part *p)
{
    struct clock *clock = q->all->opts.clock;
    mono deadline = mono_add_ms(clock_mono(clock), QUIET_MS);
    for (;;) {
        /* In each round: moves whose step ended meanwhile wait in the lists again. */
        queue_enter(q);
        produce_unplace_all(p);
        move_abandon(p); /* nothing of them goes on while it is closed; they begin anew */
        bool quiet = is_quiet(p), usable = p->loaded && !p->loading; /* but for being closed */
        queue_leave(q);
        if (quiet || clock_mono(clock).ns >= deadline.ns)
            /* usable: what cannot be read cannot be copied. */
            return quiet && usable;
        queue_rest();
    }
}

static void open_part(struct queue *q, struct part *p)
{
    queue_enter(q);
    p->closed = false;
    /* Also after a failed move: memory may be older than the store. */
    p->stale = true; /* it is read again, from where it is now */
    queue_work(p);
    q->placing_wanted = true;
    queue_leave(q);
}

static err migrate(struct queue *q, struct part *p, uint32_t to, struct err_note *note)
{
    struct queues *all = q->all;
    uint32_t from = p->store;
    struct copy c = { .queue = q,
                      .from = all->opts.stores[from],
                      .to = all->opts.stores[to],
                      .place = { .queue = q->number, .partition = p->number } };
    c.ops = calloc(COPY_ROWS_MAX + 1, sizeof *c.ops);
    if (c.ops == NULL)
        return ERR_LIMIT;
    arena_init(&c.arena, COPY_ARENA_BYTES_MAX);
    err why = copy_all(&c, note);
    arena_fini(&c.arena);
    free(c.ops);
    if (why != ERR_OK)
        return why;
    /* Memory first: queue_save writes the row from it. */
    queue_enter(q);
    p->store = to;
    place_put(q->place, p->number, to);
    queue_leave(q);
    why = queue_save(q);
    if (why == ERR_OK) {
        /* The row says that the partition is elsewhere: what is left there is in nobody's way. */
        if (c.from->ops->drop(c.from, c.place, NULL) !=
            ERR_OK) /* dropped when the partition comes back to that store */
            log_event(
                all->opts.log, LOG_WARN, "queue.drop", LOG_STR("name", q->info.name),
                LOG_INT("partition", p->number), LOG_CSTR("store", c.from->name),
                LOG_CSTR(
                    "what",
                    "the partition was moved; what it left on that store goes when it comes back"));
        return ERR_OK;
    }
    /* The row still names the old store, so memory does, too. */
    queue_enter(q);
    p->store = from;
    place_put(q->place, p->number, from);
    queue_leave(q);
    return why;
}

static err failing(const struct part *p, struct err_note *note)
{
    err_note_set(note, "partition not available; partition '%u' is failing, retry again",
                 p->number);
    return ERR_UNAVAILABLE;
}

/* A partition that is not quiet in time is read when it is: stale stays. */
void part_reread(struct queue *q, uint32_t partition)
{
    /* Under change_lock: partitions are added by nobody else. */
    struct part *p = q->parts[partition];
    close_part(q, p);
    (void)await_quiet(q, p); /* not in time: it is read as soon as it is */
    open_part(q, p);
}

err part_migrate(struct queue *q, uint32_t partition, str store, struct err_note *note)
{
    struct queues *all = q->all;
    struct part *p = q->parts[partition];
    uint32_t to = 0;
    while (to < all->opts.stores_count && !str_eq(str_of(all->opts.stores[to]->name), store))
        to++;
    if (to == all->opts.stores_count) {
        err_note_set(note, "store is invalid; there is no store named '%.*s'",
                     STR_ARG(str_take(store, 150)));
        return ERR_BAD;
    }
    if (to == p->store)
        return ERR_OK;
    /* A store that is not well would fail in the middle of the copy. */
    if (stores_status(all, to) != PLACE_OK)
        return failing(p, note);
    close_part(q, p);
    if (!await_quiet(q, p)) {
        open_part(q, p);
        return failing(p, note);
    }
    err why = migrate(q, p, to, note);
    open_part(q, p);
    if (why == ERR_SHUTDOWN)
        err_note_set(note, "queue is shutting down");
    else if (why != ERR_OK && note != NULL && note->text[0] == '\0')
        err_note_set(note, "internal error, try your request again");
    /* Whatever failed, the old partition is whole: the client may try again. */
    return why == ERR_OK || why == ERR_SHUTDOWN ? why : ERR_UNAVAILABLE;
}
