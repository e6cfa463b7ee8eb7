/* parts.c - partitions added, drained, paused, resumed and moved while requests run, for app.
 * Thread: pool. Invariant: parts_count and modes change under change_lock alone, so they are
 * read here without the queue's lock. */
#include "queue/order/flush.h"

#include "base/log.h"
#include "queue/admin.h"

/* How long a reload waits for its partitions to be read. */
enum { RELOAD_MS_MAX = 2000 };

static void lock_changes(struct queue *q)
{
    INVARIANT(pthread_mutex_lock(&q->all->change_lock) == 0);
}

static void unlock_changes(struct queue *q)
{
    INVARIANT(pthread_mutex_unlock(&q->all->change_lock) == 0);
}

/* The catalogue's row could not be written; what it said before still holds. */
static err not_saved(struct err_note *note)
{
    err_note_set(note, "internal error, try your request again");
    return ERR_UNAVAILABLE;
}

/* One more partition, on a store. ERR_OK: it can be read, or will be once its store is there. */
static err grow_on(struct queue *q, uint32_t store, struct err_note *note)
{
    if (q->parts_count >= QUEUE_PARTITIONS_MAX) {
        err_note_set(note, "partitions is invalid; cannot be greater than %d",
                     QUEUE_PARTITIONS_MAX);
        return ERR_BAD;
    }
    err why = queues_room(q->all, 1, note);
    if (why != ERR_OK)
        return why;
    if (queue_save_grown(q, store) !=
        ERR_OK) /* before anything is put there: it would not be found again */
        return not_saved(note);
    /* fresh keeps part_read from reading it: queue_own_fresh owns it first. */
    queue_enter(q);
    q->fresh = true;
    queue_part_add(q, store);
    queue_leave(q);
    q->all->partitions++;
    queue_own_fresh(q, q->parts_count - 1);
    return ERR_OK;
}

/* To the store that has the fewest for its weight. */
err queue_grow(struct queue *q, struct err_note *note)
{
    uint32_t counts[QUEUE_STORES_MAX] = { 0 };
    for (uint32_t i = 0; i < q->parts_count; i++)
        counts[q->parts[i]->store]++;
    return grow_on(q, queues_store_for(q->all, counts), note);
}

static err add_part(struct queue *q, str store, struct err_note *note)
{
    const struct queues_opts *opts = &q->all->opts;
    if (store.n == 0)
        return queue_grow(q, note);
    for (uint32_t i = 0; i < opts->stores_count; i++) {
        if (str_eq(str_of(opts->stores[i]->name), store))
            return grow_on(q, i, note);
    }
    err_note_set(note, "store is invalid; there is no store named '%.*s'",
                 STR_ARG(str_take(store, 150)));
    return ERR_BAD;
}

/* Takes effect in memory: what was placed there and not written goes elsewhere. */
static void set_mode(struct queue *q, struct part *p, enum part_mode mode)
{
    queue_enter(q);
    p->mode = mode;
    /* A partition whose memory was lost is opened when it is read. */
    place_open(q->place, p->number, mode == PART_OPEN && part_usable(p));
    if (mode != PART_OPEN)
        produce_unplace_all(p);
    q->placing_wanted = true;
    part_heads(p);
    queue_leave(q);
}

/* Memory first, since the row is written from it; back again when the row cannot be written. */
static err change_mode(struct queue *q, uint32_t partition, enum part_mode mode,
                       struct err_note *note)
{
    struct part *p = q->parts[partition];
    enum part_mode before = p->mode;
    set_mode(q, p, mode);
    if (queue_save(q) == ERR_OK)
        return ERR_OK;
    set_mode(q, p, before);
    return not_saved(note);
}

static const char *name_of(enum queue_part_order order)
{
    switch (order) {
    case PART_ADD:
        return "add";
    case PART_DRAIN:
        return "drain";
    case PART_PAUSE:
        return "pause";
    case PART_RESUME:
        return "resume";
    case PART_MOVE:
        return "move";
    }
    return "";
}

static err change_part(struct queue *q, const struct queue_part_change *c, struct err_note *note)
{
    if (q->deleted) {
        err_note_set(note, "queue does not exist; no such queue named '%.*s'",
                     STR_ARG(str_take(q->info.name, 180)));
        return ERR_NOT_FOUND;
    }
    if (c->order != PART_ADD && c->partition >= q->parts_count) {
        err_note_set(note, "partition is invalid; '%u' is not a valid partition", c->partition);
        return ERR_BAD;
    }
    switch (c->order) {
    case PART_ADD:
        return add_part(q, c->store, note);
    case PART_DRAIN:
        return change_mode(q, c->partition, PART_DRAINING, note);
    case PART_PAUSE:
        return change_mode(q, c->partition, PART_PAUSED, note);
    case PART_RESUME:
        return change_mode(q, c->partition, PART_OPEN, note);
    case PART_MOVE:
        return part_migrate(q, c->partition, c->store, note);
    }
    return ERR_BAD;
}

/* One change at a time for all queues. The log has each order, and its outcome. */
err queue_part_change(struct queue *q, const struct queue_part_change *c, struct err_note *note)
{
    lock_changes(q);
    err why = change_part(q, c, note);
    unlock_changes(q);
    log_event(q->all->opts.log, LOG_INFO, "queue.partition", LOG_STR("name", q->info.name),
              LOG_CSTR("order", name_of(c->order)), LOG_INT("partition", c->partition),
              LOG_STR("store", c->store), LOG_CSTR("outcome", err_name(why)));
    return why;
}

void queue_reload(struct queue *q)
{
    /* A partition added meanwhile was read just now. */
    uint32_t count = atomic_load(&q->parts_shown);
    for (uint32_t i = 0; i < count;
         i++) { /* what cannot be read now is tried again, like after any failure */
        lock_changes(q);
        part_reread(q, i);
        unlock_changes(q);
    }
    queue_await_read(q, QUEUE_PARTS_ALL,
                     mono_add_ms(clock_mono(q->all->opts.clock), RELOAD_MS_MAX));
}

/* Fewest moves: partitions leave only stores that have more than their share, from the last to
 * the first. */
err queue_rebalance(struct queue *q, struct err_note *note)
{
    lock_changes(q);
    uint32_t have[QUEUE_STORES_MAX] = { 0 }, want[QUEUE_STORES_MAX] = { 0 };
    for (uint32_t i = 0; i < q->parts_count; i++) {
        have[q->parts[i]->store]++;
        /* Dealt one by one to the stores that have the fewest for their weight. */
        want[queues_store_for(q->all, want)]++;
    }
    err why = ERR_OK;
    for (uint32_t i = q->parts_count; i > 0 && why == ERR_OK; i--) {
        uint32_t from = q->parts[i - 1]->store, to = 0;
        if (have[from] <= want[from])
            continue;
        /* Some store has fewer than it should: the sums of have and want are equal. */
        while (have[to] >= want[to])
            to++;
        why = part_migrate(q, i - 1, str_of(q->all->opts.stores[to]->name), note);
        have[from] -= why == ERR_OK;
        have[to] += why == ERR_OK;
    }
    unlock_changes(q);
    log_event(q->all->opts.log, LOG_INFO, "queue.rebalance", LOG_STR("name", q->info.name),
              LOG_CSTR("outcome", err_name(why)));
    return why;
}
