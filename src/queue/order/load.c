/* load.c - what a partition's memory is read from, for queue.c and flush.c: all at first and
 * after errors, the next of the window later. */
#include "queue/order/load.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* for the rows of a window, and of requests whose outcome is unknown */
    JOB_ARENA_BYTES_MAX = 64 << 20,
    JOB_CHUNK_BYTES = 512 /* all partitions may be read at once */
};

/* ---- merging: under the lock ---- */

/* The batch as memory has it, else as the job has read it. NULL: neither has it, so its row is
 * old. */
static struct batch *merge_batch(struct part *p, struct part_job *j, struct ksuid first)
{
    struct batch *b = part_batch(p, first);
    struct read_batch *read = b == NULL ? load_batch_of(j, first) : NULL;
    if (read == NULL)
        return b;
    return part_batch_of(p, &read->batch);
}

struct batch *part_batch_of(struct part *p, const struct queue_batch *row)
{
    struct batch *b = batch_new(row->count, row->order_key);
    b->first = row->first;
    b->created_at = row->created_at;
    b->expire_at = row->expire_at;
    memcpy(b->states, row->states, row->count);
    part_batch_add(p, b);
    return b;
}

/* A batch without references leaves memory again, on the way on which batches leave. */
static void drop_unused(struct part *p, struct batch *b)
{
    if (b != NULL && b->refs == 0) {
        b->refs = 1;
        batch_unref(p, b);
    }
}

/* The item of a row that was read. NULL: memory has the item already, or the batch says that the
 * item is elsewhere by now. */
static struct qitem *merge_item(struct part *p, struct part_job *j, const struct queue_entry *e,
                                bool in_place)
{
    if (part_item(p, e->id) != NULL)
        return NULL;
    struct batch *b = merge_batch(p, j, e->place.batch);
    /* Other states than the row says: the item moved after the row was read, or the row is
     * damaged (merge_damage). */
    if (b == NULL || e->place.index >= b->count ||
        b->states[e->place.index] != (in_place ? ITEM_IN_PLACE : ITEM_ELSEWHERE)) {
        drop_unused(p, b);
        return NULL;
    }
    struct qitem *it = part_item_new(p, b, e->place.index, e->id);
    it->in_place = in_place;
    it->attempts = attempts_counted(e->attempts);
    it->created_at = e->created_at;
    it->expire_at = e->expire_at;
    part_key_of(p, it);
    if (in_place)
        return it;
    /* In a lease's row and in old entries there is no enqueue_at: the id says when it was given. */
    it->ready_at = e->enqueue_at.ns != 0 ? e->enqueue_at : id_time(e->id);
    return it;
}

/* Ready rows become the window, in order of ids. The edge goes on with each, also with one that
 * is of no use. */
static void merge_ready(struct part *p, struct part_job *j)
{
    /* more: the scan ended because the window is full. */
    bool all = !j->ready.more;
    for (unsigned i = 0; i < j->ready.count; i++) {
        const struct queue_entry *e = &j->ready.rows[i].entry;
        if (ksuid_cmp(e->id, p->done_id) > 0)
            break; /* its write is not known yet: comes with that */
        struct qitem *there = part_item(p, e->id);
        /* The item became ready while the job was under way, and waited in the tail: the read
         * has reached it. */
        if (there != NULL && there->state == QITEM_TAIL) {
            part_unlist(p, there);
            qitem_move(there, QITEM_READY);
            part_ready_put(p, there);
        }
        struct qitem *it = there == NULL ? merge_item(p, j, e, j->ready.rows[i].in_place) : NULL;
        if (it != NULL)
            part_ready_put(p, it);
        p->edge = e->id;
    }
    part_tail_end(p, all);
}

/* Is this row the first of an order key, and is nothing of the key in memory yet? */
static bool is_first_away(struct part *p, struct part_job *j, const struct queue_entry *e)
{
    unsigned char hash[16];
    const struct read_batch *b = load_batch_of(j, e->place.batch);
    if (b == NULL || b->batch.order_key.n == 0 || ksuid_cmp(e->id, p->done_id) > 0)
        return false;
    part_okey_hash(b->batch.order_key, hash);
    const struct okey *k = part_okey(p, hash, false);
    return k != NULL && k->marked && k->active == NULL &&
           ksuid_cmp(k->marked_id, ksuid_add(e->place.batch, e->place.index)) == 0;
}

static void merge_firsts(struct part *p, struct part_job *j)
{
    for (unsigned i = 0; i < j->ready.count; i++) {
        const struct queue_entry *e = &j->ready.rows[i].entry;
        struct qitem *it =
            is_first_away(p, j, e) ? merge_item(p, j, e, j->ready.rows[i].in_place) : NULL;
        if (it != NULL)
            part_ready_put(p, it);
    }
    /* An id that was asked for and not found: the item is gone or has another id. Another job
     * would ask in vain. */
    for (unsigned i = 0; i < j->firsts_count; i++) {
        const struct first *f = &j->firsts[i];
        struct okey *k = part_okey(p, f->hash, false);
        if (k != NULL && k->active == NULL && ksuid_cmp(k->away_id, f->id) == 0 &&
            part_item(p, f->id) == NULL)
            k->away_id = KSUID_NIL; /* not there: not asked for again */
    }
    /* The next search for unknown ids goes on where this one stopped. */
    if (j->seeks) {
        p->sought = j->sought;
        p->sought_all = j->sought_all;
    }
}

static void merge_scheduled(struct part *p, struct part_job *j)
{
    for (unsigned i = 0; i < j->scheduled.count; i++) {
        const struct queue_entry *e = &j->scheduled.rows[i].entry;
        struct qitem *it = merge_item(p, j, e, false);
        p->edge_at = e->enqueue_at;
        p->edge_id = e->id;
        if (it == NULL)
            continue;
        it->due_at = e->enqueue_at;
        it->state = QITEM_SCHEDULED;
        /* Its followers stay behind while it waits. */
        if (it->key != NULL && okey_marks(it->key, it))
            it->key->active = it; /* put off, and still first of its key */
        p->scheduled_items++;
        due_add(it, it->due_at);
    }
    /* Items of order keys are in memory beyond the edge, too: the counts must agree as well. */
    p->whole_due = !j->scheduled.more && (int64_t)p->scheduled_items == p->scheduled;
}

/* Leased items. Leases nobody was told of are lost ones (part_lose): their items are orphans,
 * and go back to their place. */
static void merge_leases(struct part *p, struct part_job *j)
{
    part_lost_sort(p);
    for (unsigned i = 0; i < j->leases_count; i++) {
        const struct queue_lease *l = &j->leases[i];
        struct queue_entry e = {
            .id = l->id, .place = l->place, .created_at = l->created_at, .expire_at = l->expire_at
        };
        struct qitem *it = merge_item(p, j, &e, l->in_place);
        if (it == NULL)
            continue;
        it->state = QITEM_LEASED;
        qitem_lease_read(it, l);
        if (it->key != NULL)
            it->key->active = it;
        if (!it->doomed && part_was_lost(p, it))
            list_append(&p->orphans, &it->link);
        else
            /* A doomed item is due at once: it goes on with its move. */
            due_add(it, it->doomed ? STORE_TIME_ZERO : it->due_at);
    }
    part_lost_end(p);
}

/* Rows of both kinds of keys: with a count, an idempotency key; without, the mark of an order
 * key. */
static void merge_keys(struct part *p, struct part_job *j)
{
    for (unsigned i = 0; i < j->keys_count; i++) {
        const struct queue_key *k = &j->keys[i];
        if (k->count > 0) {
            idem_load(p, k);
            continue;
        }
        struct okey *key = part_okey(p, k->hash, true);
        key->marked = true;
        key->marked_id = k->first;
        /* The marked item may stand behind the window: nobody knows until the window was read. */
        p->firsts_away = true;
    }
}

/* The store has answered for batches whose write had an unknown outcome. Each request is done,
 * or is placed again. */
static void settle_unknown(struct part *p, struct part_job *j)
{
    struct list unknown;
    list_init(&unknown);
    list_join(&unknown, &p->unknown);
    for (struct list *n; (n = list_take(&unknown)) != NULL;) {
        struct queue_produce *r = req_produce(CONTAINER_OF(n, struct req, link));
        for (unsigned i = 0; i < j->unknown_count; i++) {
            if (ksuid_cmp(j->unknown[i], own_produce(r)->batch) == 0) {
                produce_known(r, j->unknown_there[i]);
                r = NULL;
                break;
            }
        }
        if (r != NULL)
            list_append(&p->unknown, n); /* it came after the job began; the next one tells */
    }
    idem_reloaded(p);
}

/* The store's record of a partition that this process owns now. Its items are not read yet. */
void part_own(struct part *p, const struct queue_part_record *record)
{
    p->record = *record;
    p->epoch = record->epoch;
    p->ready = (int64_t)record->ready;
    p->scheduled = (int64_t)record->scheduled;
    p->leased = (int64_t)record->leased;
    if (ksuid_cmp(record->last_id, p->last_id) > 0)
        p->last_id = record->last_id;
    /* All ids up to here were settled by the owner before: what is there can be read. */
    p->done_id = p->last_id;
    /* Ids of any partition must come behind those that were ever given here. */
    p->queue->ids_at = store_time_max(p->queue->ids_at, id_time(p->last_id));
    p->owned = true;
    part_loads(p);
}

static void part_tell(const struct part *p, enum log_level level, const char *state,
                      const char *why)
{
    log_event(p->queue->all->opts.log, level, "queue.partition",
              LOG_STR("name", p->queue->info.name), LOG_INT("partition", p->number),
              LOG_CSTR("store", part_store(p)->name), LOG_CSTR("state", state),
              LOG_CSTR("why", why));
}

/* Memory is what the store has: requests may be placed here. */
static void part_opened(struct part *p)
{
    p->loaded = true;
    p->failing = false;
    part_set_foreign(p, false);
    if (p->broken)
        part_tell(p, LOG_INFO, "available", "");
    p->broken = false;
    /* The first time only: idempotency keys of the queue are complete once all partitions were
     * seen. */
    if (!p->seen) {
        p->seen = true;
        INVARIANT(p->queue->unseen > 0);
        p->queue->unseen--;
    }
    p->queue->placing_wanted = true;
    place_open(p->queue->place, p->number, p->mode == PART_OPEN);
}

void part_fresh(struct part *p, const struct queue_part_record *record)
{
    part_own(p, record);
    if (p->ready + p->scheduled + p->leased > 0 || p->loading || p->loaded)
        return; /* not so new: it is read */
    p->whole = p->whole_due = true;
    /* An empty partition needs no read. */
    part_opened(p);
}

/* Points this row at a batch that is not there, or at an item in another state? */
static bool is_dangling(struct part *p, struct part_job *j, const struct queue_place *at,
                        bool in_place)
{
    const struct batch *b = part_batch(p, at->batch);
    const struct read_batch *read = b == NULL ? load_batch_of(j, at->batch) : NULL;
    unsigned count = b != NULL ? b->count : read != NULL ? read->batch.count : 0;
    if (at->index >= count)
        return true;
    unsigned state = b != NULL ? b->states[at->index] : read->batch.states[at->index];
    return state != (in_place ? ITEM_IN_PLACE : ITEM_ELSEWHERE);
}

/* A linear search: it runs for damaged rows alone. */
static bool is_leased(const struct part_job *j, struct ksuid id)
{
    for (unsigned i = 0; i < j->leases_count; i++)
        if (ksuid_cmp(j->leases[i].id, id) == 0)
            return true;
    return false;
}

/* Nothing is written here now, so a row whose batch is not there will never have one. */
static void merge_damage(struct part *p, struct part_job *j)
{
    const struct rows *kinds[] = { &j->ready, &j->scheduled };
    /* Items of leases first: an entry with a lease is told of once, as a lease. */
    for (unsigned i = 0; i < j->leases_count; i++)
        if (is_dangling(p, j, &j->leases[i].place, j->leases[i].in_place))
            damage_lease(p, &j->leases[i]);
    for (unsigned k = 0; k < COUNT_OF(kinds); k++)
        for (unsigned i = 0; i < kinds[k]->count; i++) {
            const struct queue_entry *e = &kinds[k]->rows[i].entry;
            if (!kinds[k]->rows[i].in_place && is_dangling(p, j, &e->place, false) &&
                !is_leased(j, e->id))
                damage_entry(p, e);
        }
    /* Only after a read of everything the counts of the record can be put right. */
    damage_found(p, !j->ready.more && !j->scheduled.more);
}

/* Marks first, then leases: both say who is first of an order key, before ready items of the key
 * come in. */
static void merge_load(struct part *p, struct part_job *j)
{
    if (!j->owned)
        part_own(p, &j->record);
    merge_keys(p, j);
    merge_leases(p, j);
    part_opened(p);
    merge_scheduled(p, j);
    merge_ready(p, j);
    merge_damage(p, j);
    /* Items that another queue moved here are visible now, or were never written. */
    if (p->unsure) {
        p->unsure = false;
        INVARIANT(p->queue->unsure > 0);
        p->queue->unsure--;
    }
    settle_unknown(p, j);
}

static void job_free(struct part_job *j)
{
    free(j->ready.rows);
    free(j->scheduled.rows);
    free(j->firsts);
    free(j->leases);
    free(j->keys);
    free(j->unknown);
    free(j->unknown_there);
    hash_fini(&j->batches);
    arena_fini(&j->arena);
    free(j);
}

/* A later read of the window counts only when no batch changed unseen while it was under way
 * (churn). A first load has nothing to compare with. */
static void merge(struct part *p, struct part_job *j)
{
    switch (j->kind) {
    case JOB_LOAD:
        merge_load(p, j);
        break;
    case JOB_READY:
        if (j->churn == p->churn)
            merge_ready(p, j);
        else
            /* What was read is dropped, and read again. */
            part_tail_end(p, false);
        break;
    case JOB_SCHEDULED:
        if (j->churn == p->churn)
            merge_scheduled(p, j);
        break;
    case JOB_FIRSTS:
        if (j->churn == p->churn)
            merge_firsts(p, j);
        /* The tail ends with each read; after this one the window is still not whole. */
        part_tail_end(p, false);
        break;
    }
}

/* Another process owns the partition. This one asks for it again, and no request waits for it. */
static void part_stand_by(struct part *p)
{
    part_set_foreign(p, true);
    p->failing = true;
    change_refuse_all(p);
}

/* This partition alone cannot be had: its store serves the others. The partition is asked for
 * again, and the operator is told once. */
static void part_broke(struct part *p, const struct err_note *why)
{
    if (!p->broken)
        part_tell(p, LOG_WARN, "error", why->text);
    p->broken = p->failing = true;
    change_refuse_all(p);
}

/* On the loop: what a job read goes into memory, or the job failed. */
static void job_done(struct store_job *job)
{
    struct part_job *j = CONTAINER_OF(job, struct part_job, job);
    struct part *p = j->part;
    struct queue *q = p->queue;
    queue_enter(q);
    q->busy--;
    /* A job that began before the memory was thrown away (generation), or that is to be done
     * again (stale), is for nothing. */
    bool current = j->generation == p->generation && !p->stale;
    if (j->kind == JOB_LOAD)
        p->loading = false;
    else if (j->kind == JOB_SCHEDULED)
        p->refilling_due = false;
    else
        p->refilling = false;
    if (j->why == ERR_OK && current) {
        merge(p, j);
    } else {
        if ((j->kind == JOB_READY || j->kind == JOB_FIRSTS) && current)
            part_tail_end(p, false);
        if (j->why == ERR_CONFLICT)
            part_stand_by(p);
        else if (j->why == ERR_GONE)
            part_broke(p, &j->note);
        /* No memory here is no failure of the store. */
        else if (j->why != ERR_OK && !j->is_starved)
            stores_written(q->all, j->store_index, j->why, 0, false);
        /* Not at once again: the next read comes when the pause is over. */
        if (j->why != ERR_OK)
            part_hold(p);
    }
    job_free(j);
    part_loads(p);
    part_heads(p);
    queue_work(p);
    queue_leave(q);
    queue_unref(&q);
}

/* ---- what is to be read ---- */

/* What the job may not look up without the lock is copied here. */
static struct part_job *job_new(struct part *p, enum job_kind kind)
{
    struct queue *q = p->queue;
    struct part_job *j = calloc(1, sizeof *j);
    INVARIANT(j != NULL);
    *j = (struct part_job){ .job = { .step = load_step, .done = job_done },
                            .part = p,
                            .store = part_store(p),
                            .place = { .queue = q->number, .partition = p->number },
                            .kind = kind,
                            .owned = p->owned,
                            .generation = p->generation,
                            .churn = p->churn,
                            .store_index = p->store,
                            .ready.max = PART_WINDOW_ITEMS,
                            .scheduled.max = PART_SCHEDULED_ITEMS };
    hash_init(&j->batches);
    arena_init(&j->arena, JOB_ARENA_BYTES_MAX);
    arena_chunks(&j->arena, JOB_CHUNK_BYTES);
    return j;
}

/* busy and the reference keep the queue until job_done. */
static void job_start(struct part_job *j)
{
    struct queue *q = j->part->queue;
    q->busy++;
    queue_ref(q);
    store_job_start(q->all->opts.loop, &j->job);
}

/* Which batches the store is asked for: those of requests whose outcome is unknown. */
static bool ask_unknown(struct part_job *j)
{
    const struct part *p = j->part;
    size_t n = 0;
    for (const struct list *l = p->unknown.next; l != &p->unknown; l = l->next)
        n++;
    /* Room for one more, because calloc of nothing may return NULL. */
    j->unknown = calloc(n + 1, sizeof *j->unknown);
    j->unknown_there = calloc(n + 1, sizeof *j->unknown_there);
    if (j->unknown == NULL || j->unknown_there == NULL)
        return false;
    for (struct list *l = p->unknown.next; l != &p->unknown; l = l->next)
        j->unknown[j->unknown_count++] =
            own_produce(req_produce(CONTAINER_OF(l, struct req, link)))->batch;
    return true;
}

static void start_load(struct part *p)
{
    struct part_job *j = job_new(p, JOB_LOAD);
    if (!ask_unknown(j)) {
        job_free(j);
        part_hold(p);
        return;
    }
    p->loading = true;
    job_start(j);
}

static void start_ready(struct part *p)
{
    struct part_job *j = job_new(p, JOB_READY);
    j->from = ksuid_add(p->edge, 1);
    p->refilling = true;
    p->tail_over = false;
    job_start(j);
}

static void start_scheduled(struct part *p)
{
    struct part_job *j = job_new(p, JOB_SCHEDULED);
    j->from_at = p->edge_at;
    j->from = ksuid_add(p->edge_id, 1);
    p->refilling_due = true;
    job_start(j);
}

/* Throws the partition's memory away. First all that rests on it takes its way back: writes not
 * sent, leases, moves, requests not written. */
static void lose(struct part *p)
{
    track_withdraw(p, &p->main);
    track_withdraw(p, &p->early);
    lease_lost(p);
    move_lost(p);
    produce_unplace_all(p);
    part_forget(p);
    /* Another process may own the partition now: own it again before it is read. */
    p->owned = false;
    place_open(p->queue->place, p->number, false);
    part_heads(p);
}

void part_failed(struct part *p)
{
    p->failing = true;
    /* A reread by order is covered by the one that comes now. */
    p->stale = false;
    change_refuse_all(p);
    lose(p);
    queue_work(p); /* read again as soon as the store can be */
}

/* The store is put into ERROR. Its recovery then has all its partitions owned and read again. */
void part_refuse(struct part *p)
{
    stores_written(p->queue->all, p->store, ERR_CORRUPT, 0, false);
}

/* Ids of firsts that are away: at most PART_FIRSTS_ITEMS. A first without a known id has to be
 * sought. */
static void gather_first(void *ctx, struct hash_node *n)
{
    struct part_job *j = ctx;
    const struct okey *k = CONTAINER_OF(n, struct okey, node);
    if (!k->marked || k->active != NULL)
        return;
    if (ksuid_cmp(k->away_id, KSUID_NIL) == 0) {
        j->seeks = true;
    } else if (j->firsts_count < PART_FIRSTS_ITEMS) {
        struct first *f = &j->firsts[j->firsts_count++];
        f->id = k->away_id;
        memcpy(f->hash, k->hash, sizeof f->hash);
    }
}

/* As much as memory may hold waits for firsts of order keys: those that stand further on are
 * fetched. */
static void start_firsts(struct part *p)
{
    struct part_job *j = job_new(p, JOB_FIRSTS);
    j->firsts = calloc(PART_FIRSTS_ITEMS, sizeof *j->firsts);
    INVARIANT(j->firsts != NULL);
    hash_each(&p->okeys, gather_first, j);
    /* Sought through to the end once: what is unknown now waits for its schedule. */
    j->seeks &= !p->sought_all;
    j->sought = ksuid_cmp(p->sought, p->edge) > 0 ? p->sought : p->edge;
    /* All firsts are in memory: nothing behind the edge keeps followers waiting. */
    if (j->firsts_count == 0 && !j->seeks) {
        p->firsts_away = false;
        job_free(j);
        return;
    }
    p->refilling = true;
    p->tail_over = false;
    job_start(j);
}

/* Is more of the window wanted, and is there room for what would come, or a first to fetch? */
bool part_reads_on(const struct part *p)
{
    bool refill = !p->whole && !p->refilling && p->ready_items < PART_REFILL_ITEMS;
    return refill && (p->behind_items < PART_BEHIND_ITEMS || p->firsts_away);
}

/* Called before each write is built. At most one read of each kind is under way. */
void part_read(struct part *p)
{
    /* closed: the partition is moving to another store. */
    if (p->queue->draining || p->queue->deleted || p->queue->fresh || p->closed)
        return;
    /* Writes on their way end first: they were built from this memory. */
    if (p->stale && part_idle(p)) {
        p->stale = false;
        lose(p);
    }
    /* held: a read failed a moment ago. */
    if (p->stale || p->loading || p->held || stores_status(p->queue->all, p->store) == PLACE_ERROR)
        return;
    if (!p->loaded) {
        /* Older reads of this partition must be over: their outcome would fall into the new
         * memory. */
        if (part_idle(p) && !p->refilling && !p->refilling_due)
            start_load(p);
        return;
    }
    if (part_reads_on(p) && p->behind_items < PART_BEHIND_ITEMS)
        start_ready(p);
    else if (part_reads_on(p))
        start_firsts(p);
    /* A quarter: schedules are read long before the last one in memory is due. */
    if (!p->whole_due && !p->refilling_due && p->scheduled_items < PART_SCHEDULED_ITEMS / 4)
        start_scheduled(p);
}
