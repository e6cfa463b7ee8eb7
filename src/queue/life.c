/* life.c - beginning and end, for the server: loading the catalogue, owning partitions,
 * draining, what the clock hook wants done, partitions of deleted queues. */
#include "queue/catalogue.h"
#include "queue/order/flush.h"

#include "base/log.h"
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#define QUEUES_MAGIC 0x9ae5u

/* ---- partitions of deleted queues ---- */

/* The partitions of one deleted queue. Jobs wait in line behind those that came before: of a
 * disk that hangs one holds a thread. Owner: queues.drops, until drop_done. */
struct drop_job {
    struct task begin;
    struct list link; /* in queues.drops */
    struct store_job job;
    struct queues *all;
    uint32_t number, count, at;
    bool left; /* some are another process's, which was told */
    struct drop_part {
        uint32_t store, partition;
    } * parts;
    err why;
};

/* What another process owns is for that one to delete: the queue is forgotten here alone. */
static void drop_take(struct drop_job *d, err why)
{
    if (why == ERR_CONFLICT && !d->left)
        log_event(d->all->opts.log, LOG_WARN, "queue.drop", LOG_INT("queue_number", d->number),
                  LOG_CSTR("what", "another process owns partitions of it, which stay, with their "
                                   "items, until the queue is deleted there"));
    d->left |= why == ERR_CONFLICT;
    d->why = why == ERR_CONFLICT ? ERR_OK : why;
    d->at++;
}

/* Thread: pool. Stops at the first failure: the row stays, and the next start drops the rest. */
static bool drop_step(struct store_job *j)
{
    struct drop_job *d = CONTAINER_OF(j, struct drop_job, job);
    if (store_job_told(j))
        drop_take(d, j->later.why);
    while (d->at < d->count && d->why == ERR_OK) {
        struct queue_store *store = d->all->opts.stores[d->parts[d->at].store];
        const struct queue_part p = { .queue = d->number, .partition = d->parts[d->at].partition };
        err why = store->ops->drop(store, p, store_job_ask(j));
        if (store_job_waits(j, why))
            return true;
        drop_take(d, why);
    }
    /* All are dropped. While the server ends the catalogue is not written any more. */
    if (d->why == ERR_OK && !d->all->draining)
        d->why = catalogue_forget(d->all->opts.engine, d->number);
    return false;
}

/* The loop's, like the list: one job runs at a time. */
static void drop_first(struct queues *all)
{
    struct list *first = list_first(&all->drops);
    if (first != NULL)
        store_job_start(all->opts.loop, &CONTAINER_OF(first, struct drop_job, link)->job);
}

static void drop_done(struct store_job *j)
{
    struct drop_job *d = CONTAINER_OF(j, struct drop_job, job);
    struct queues *all = d->all;
    if (d->why != ERR_OK) /* the row says so at the next start */
        log_event(
            all->opts.log, LOG_WARN, "queue.drop", LOG_INT("queue_number", d->number),
            LOG_CSTR("why", err_name(d->why)),
            LOG_CSTR("what",
                     "items of a deleted queue are still on disk; the next start removes them"));
    list_remove(&d->link);
    free(d->parts);
    free(d);
    drop_first(all);
    /* queues_idle waits for jobs: nothing of d or all is touched behind this line. */
    (void)atomic_fetch_sub(&all->jobs, 1);
}

static void drop_begin(struct task *t)
{
    struct drop_job *d = CONTAINER_OF(t, struct drop_job, begin);
    bool alone = list_empty(&d->all->drops);
    list_append(&d->all->drops, &d->link);
    if (alone)
        drop_first(d->all);
}

/* Dies when out of memory: a deletion is one small allocation. */
static struct drop_job *drop_new(struct queues *qs, uint32_t number, uint32_t count)
{
    struct drop_job *d = calloc(1, sizeof *d);
    INVARIANT(d != NULL);
    *d = (struct drop_job){ .begin = { .run = drop_begin },
                            .job = { .step = drop_step, .done = drop_done },
                            .all = qs,
                            .number = number,
                            .count = count };
    /* One more than needed: calloc of nothing may return NULL. */
    d->parts = calloc(count + 1, sizeof *d->parts);
    INVARIANT(d->parts != NULL);
    return d;
}

static void drop_start(struct drop_job *d)
{
    (void)atomic_fetch_add(&d->all->jobs, 1);
    home_post(loop_home(d->all->opts.loop), &d->begin);
}

void queue_drop(struct queue *q)
{
    struct drop_job *d = drop_new(q->all, q->number, q->parts_count);
    for (uint32_t i = 0; i < q->parts_count; i++)
        d->parts[i] = (struct drop_part){ .store = q->parts[i]->store, .partition = i };
    drop_start(d);
}

/* ---- the end of a queue, or of all ---- */

/* A request that waits is answered now; one that is in a write, or that a job works for, ends
 * with that. */
static void end_request(struct queue *q, struct req *r, err why)
{
    req_recall(r);
    bool unknown = r->state == REQ_UNKNOWN;
    switch ((enum req_kind)r->kind) {
    case REQ_PRODUCE:
        if (r->state == REQ_WRITING)
            /* Its outcome is awaited: the client learns what became of it. */
            return;
        produce_leave(q, req_produce(r));
        break;
    case REQ_LEASE:
        if (r->state == REQ_WRITING || own_lease(req_lease(r))->copying)
            return;
        lease_detach(q, req_lease(r));
        break;
    case REQ_CHANGE:
        if (r->state == REQ_WRITING || own_change(req_change(r))->looking)
            return;
        break;
    }
    if (unknown)
        err_note_set(req_note(r), "request timeout; the outcome is unknown, try again");
    else if (why == ERR_SHUTDOWN)
        err_note_set(req_note(r), "queue is shutting down");
    else
        err_note_set(req_note(r), "queue does not exist; no such queue named '%.*s'",
                     STR_ARG(str_take(q->info.name, 180)));
    req_answer(q, r, unknown ? ERR_TIMEOUT : why);
}

/* For all requests, whatever they wait for. The heap of deadlines has each of them. */
void queue_end(struct queue *q, bool deleted)
{
    queue_enter(q);
    q->deleted |= deleted;
    q->draining |= !deleted;
    /* A copy: answering takes requests out of the heap. */
    size_t count = q->deadlines.count;
    struct req **all = calloc(count + 1, sizeof(struct req *));
    INVARIANT(all != NULL);
    for (size_t i = 0; i < count; i++)
        all[i] = CONTAINER_OF(q->deadlines.nodes[i], struct req, until);
    for (size_t i = 0; i < count; i++)
        if (all[i]->state != REQ_ANSWERED)
            end_request(q, all[i], deleted ? ERR_NOT_FOUND : ERR_SHUTDOWN);
    free(all);
    /* Moves that wait end now; those in a write end with it. */
    for (uint32_t i = 0; i < q->parts_count; i++)
        move_abandon(q->parts[i]);
    queue_leave(q);
}

/* All queues, each with a reference; the caller gives them back. */
static struct queue **snapshot(struct queues *qs, size_t *count)
{
    INVARIANT(pthread_rwlock_rdlock(&qs->lock) == 0);
    struct queue **all = calloc(qs->count + 1, sizeof(struct queue *));
    INVARIANT(all != NULL);
    *count = qs->count;
    for (size_t i = 0; i < qs->count; i++) {
        all[i] = qs->sorted[i];
        queue_ref(all[i]);
    }
    INVARIANT(pthread_rwlock_unlock(&qs->lock) == 0);
    return all;
}

void queues_drain(struct queues *qs)
{
    size_t count;
    MAGIC_CHECK(qs, QUEUES_MAGIC);
    qs->draining = true; /* a queue that is being made either is in the list by now, or sees this
                            and ends itself */
    /* Calls that wait for their turn are answered with ERR_SHUTDOWN. */
    limiter_close(qs->turns);
    struct queue **all = snapshot(qs, &count);
    for (size_t i = 0; i < count; i++) {
        queue_end(all[i], false);
        queue_unref(&all[i]);
    }
    free(all);
}

/* A leave that goes on in another thread has a reference. */
static bool is_calm(struct queue *q)
{
    queue_enter(q);
    bool calm = q->busy == 0 && q->requests == 0;
    queue_leave(q);
    return calm &&
           atomic_load(&q->refs) == 2; /* the list's and ours: nobody is leaving it either */
}

bool queues_idle(struct queues *qs)
{
    size_t count;
    struct queue **all = snapshot(qs, &count);
    bool idle = atomic_load(&qs->jobs) == 0 && atomic_load(&qs->alive) == count && timers_idle(qs);
    for (size_t i = 0; i < count; i++) {
        idle &= is_calm(all[i]);
        queue_unref(&all[i]);
    }
    free(all);
    return idle;
}

/* Idle before, so only the list's references are left. */
void queues_free(struct queues **qp)
{
    struct queues *qs = *qp;
    if (qs == NULL)
        return;
    MAGIC_CHECK(qs, QUEUES_MAGIC);
    INVARIANT(atomic_load(&qs->jobs) == 0);
    timers_stop(qs);
    for (size_t i = 0; i < qs->count; i++)
        queue_unref(&qs->sorted[i]);
    INVARIANT(atomic_load(&qs->alive) == 0);
    timers_fini(qs);
    limiter_free(&qs->turns);
    stores_fini(qs);
    map_free(&qs->names);
    free(qs->sorted);
    (void)pthread_rwlock_destroy(&qs->lock);
    (void)pthread_mutex_destroy(&qs->change_lock);
    qs->magic = 0;
    free(qs);
    *qp = NULL;
}

/* ---- all that is due ---- */

/* Asked again for each queue, since a queue may send items to one that was calm. */
static bool is_quiet(struct queue *q)
{
    queue_enter(q);
    struct heap_node *n = heap_first(&q->due);
    bool due = n != NULL &&
               CONTAINER_OF(n, struct qitem, due)->wake_at.ns <= clock_store(q->all->opts.clock).ns;
    bool quiet = q->busy == 0 && list_empty(&q->work) && !due;
    queue_leave(q);
    return quiet;
}

/* True: nothing is due or on its way in q. */
static bool work_off(struct queue *q, mono deadline)
{
    struct clock *clock = q->all->opts.clock;
    for (;;) {
        queue_enter(q);
        struct heap_node *n = heap_first(&q->due);
        bool due =
            n != NULL && CONTAINER_OF(n, struct qitem, due)->wake_at.ns <= clock_store(clock).ns;
        bool calm = q->busy == 0 && list_empty(&q->work);
        queue_leave(q); /* does what is due */
        if ((calm && !due) || clock_mono(clock).ns >= deadline.ns)
            return calm && !due;
        if (!calm)
            queue_rest();
    }
}

/* For tests that move the clock: returns when all that is due by now has been written. */
void queues_upkeep_all(struct queues *qs)
{
    mono deadline = mono_add_ms(clock_mono(qs->opts.clock), 2 * qs->opts.write_timeout_ms);
    for (bool again = true; again && clock_mono(qs->opts.clock).ns < deadline.ns;) {
        size_t count;
        struct queue **all = snapshot(qs, &count);
        again = false;
        for (size_t i = 0; i < count;
             i++) { /* a queue may bring items to one that was calm: once more round */
            again |= !is_quiet(all[i]);
            (void)work_off(all[i], deadline);
            queue_unref(&all[i]);
        }
        free(all);
    }
}

/* ---- the beginning ---- */

/* What load_row needs of the caller of catalogue_load. */
struct loading {
    struct queues *qs;
    struct err_note *note;
};

/* Stores are named in rows, so that configuration may reorder them. */
static err store_index(struct queues *qs, const char *name, uint32_t *out)
{
    for (uint32_t i = 0; i < qs->opts.stores_count; i++) {
        if (strcmp(qs->opts.stores[i]->name, name) == 0) {
            *out = i;
            return ERR_OK;
        }
    }
    return ERR_NOT_FOUND;
}

/* One row of the catalogue: a queue, or one whose partitions are still to be dropped. */
static err load_row(void *ctx, const struct catalogue_row *row, bool deleted)
{
    struct loading *l = ctx;
    struct queues *qs = l->qs;
    uint32_t stores[QUEUE_STORES_MAX];
    for (unsigned s = 0; s < row->stores_count; s++) {
        /* A store that only old rows name may be gone from the configuration. */
        bool used = false;
        for (uint32_t i = 0; i < row->info.partitions; i++)
            used |= row->parts[i].store == s;
        if (store_index(qs, row->stores[s], &stores[s]) == ERR_OK || !used)
            continue;
        err_note_set(l->note,
                     "queue '%.*s' has partitions on store '%s', which queue.stores does not name",
                     STR_ARG(str_take(row->info.name, 100)), row->stores[s]);
        return ERR_BAD;
    }
    if (deleted) {
        struct drop_job *d = drop_new(qs, row->number, row->info.partitions);
        for (uint32_t i = 0; i < row->info.partitions; i++)
            d->parts[i] =
                (struct drop_part){ .store = stores[row->parts[i].store], .partition = i };
        drop_start(d);
        return ERR_OK;
    }
    struct queue *q = queue_new(qs, &row->info, row->number);
    q->keyed_count = row->keyed_count;
    for (uint32_t i = 0; i < row->info.partitions; i++) {
        queue_part_add(q, stores[row->parts[i].store]);
        q->parts[i]->mode = (enum part_mode)row->parts[i].mode;
    }
    /* A queue that does not say follows the configuration of this start. */
    if (!q->info.has_durability)
        q->info.durability = qs->opts.durability;
    queues_enlist(qs, q);
    return ERR_OK;
}

/* Owns as many partitions as one call takes: one sync for all of them. What fails is owned when
 * it is read. One list over all queues: the round behind the last queue (q NULL) sends what is
 * left. */
static void own_all(struct queues *qs, uint32_t store)
{
    struct queue_part *places = calloc(QUEUE_OWN_MAX, sizeof *places);
    struct queue_part_record *records = calloc(QUEUE_OWN_MAX, sizeof *records);
    struct part **parts = calloc(QUEUE_OWN_MAX, sizeof(struct part *));
    INVARIANT(places != NULL && records != NULL && parts != NULL);
    unsigned count = 0;
    for (size_t i = 0; i <= qs->count; i++) {
        struct queue *q = i < qs->count ? qs->sorted[i] : NULL;
        for (uint32_t p = 0; p < (q == NULL ? 1 : q->parts_count); p++) {
            /* The list is full, or the end was reached. */
            if (count == QUEUE_OWN_MAX || (q == NULL && count > 0)) {
                struct queue_store *s = qs->opts.stores[store];
                const struct queue_own own = {
                    .parts = places, .count = count, .boot = qs->boot, .out = records
                };
                err why = s->ops->own(s, &own);
                for (unsigned n = 0; n < count && why == ERR_OK; n++)
                    part_own(parts[n], &records[n]);
                count = 0;
            }
            if (q == NULL || q->parts[p]->store != store)
                continue;
            places[count] = (struct queue_part){ .queue = q->number, .partition = p };
            parts[count++] = q->parts[p];
        }
    }
    free(places);
    free(records);
    free(parts);
}

/* All of one store in one call; what fails is read like any other, later. Like own_all, for the
 * new partitions of one queue. They are empty: nothing has to be read. */
static void own_fresh(struct queue *q, uint32_t from, uint32_t store)
{
    struct queues *qs = q->all;
    struct queue_part *places = calloc(QUEUE_OWN_MAX, sizeof *places);
    struct queue_part_record *records = calloc(QUEUE_OWN_MAX, sizeof *records);
    INVARIANT(places != NULL);
    INVARIANT(records != NULL);
    for (uint32_t next = from; next < q->parts_count;) {
        unsigned count = 0;
        for (; next < q->parts_count && count < QUEUE_OWN_MAX; next++)
            if (q->parts[next]->store == store)
                places[count++] = (struct queue_part){ .queue = q->number, .partition = next };
        if (count == 0 || stores_silent(qs, store)) /* one that is away is not waited for */
            break;
        struct queue_store *s = qs->opts.stores[store];
        const struct queue_own own = {
            .parts = places, .count = count, .boot = qs->boot, .out = records
        };
        err why = s->ops->own(s, &own);
        /* The next queue does not wait for a store that has just kept this one waiting. */
        if (why == ERR_UNAVAILABLE || why == ERR_TIMEOUT)
            stores_written(qs, store, ERR_UNAVAILABLE, 0, false);
        queue_enter(q);
        for (unsigned i = 0; i < count && why == ERR_OK; i++)
            part_fresh(q->parts[places[i].partition], &records[i]);
        queue_leave(q);
    }
    free(places);
    free(records);
}

/* fresh was set by the caller: until here part_read begins no read of q. */
void queue_own_fresh(struct queue *q, uint32_t from)
{
    for (uint32_t s = 0; s < q->all->opts.stores_count; s++)
        own_fresh(q, from, s);
    queue_enter(q);
    q->fresh = false;
    for (uint32_t i = from; i < q->parts_count; i++)
        queue_work(q->parts[i]); /* those that were not owned are read */
    queue_leave(q);
}

/* Before the loop runs, so nothing here may be answered later. */
static err begin(struct queues *qs, struct err_note *note)
{
    struct loading l = { .qs = qs, .note = note };
    err why = catalogue_load(qs->opts.engine, &qs->next_number, load_row, &l);
    if (why != ERR_OK)
        return why;
    for (uint32_t s = 0; s < qs->opts.stores_count; s++)
        if (!qs->opts.stores[s]->dies_alone) /* it answers on the loop, which does not run yet */
            own_all(qs, s);
    for (size_t i = 0; i < qs->count; i++) {
        queue_enter(qs->sorted[i]);
        queue_leave(qs->sorted[i]); /* begins to read */
    }
    return ERR_OK;
}

/* On a failure all that was made is freed: nothing runs yet. */
err queues_new(const struct queues_opts *opts, struct queues **out, struct err_note *note)
{
    INVARIANT(opts->stores_count >= 1);
    INVARIANT(opts->stores_count <= QUEUE_STORES_MAX);
    struct queues *qs = calloc(1, sizeof *qs);
    INVARIANT(qs != NULL);
    qs->magic = QUEUES_MAGIC;
    qs->opts = *opts;
    /* Copies: the caller's array goes. */
    for (unsigned i = 0; i < opts->stores_count; i++)
        qs->affinities[i] = opts->affinities == NULL ? 1 : opts->affinities[i];
    qs->opts.affinities = NULL; /* the caller's, gone soon */
    memcpy(qs->boot, opts->boot, sizeof qs->boot);
    INVARIANT(pthread_rwlock_init(&qs->lock, NULL) == 0);
    INVARIANT(pthread_mutex_init(&qs->change_lock, NULL) == 0);
    qs->names = map_new(opts->seed);
    stores_init(qs);
    timers_init(qs);
    qs->turns = turns_new(opts->loop, opts->clock);
    err why = begin(qs, note);
    if (why != ERR_OK) {
        queues_free(&qs);
        return why;
    }
    *out = qs;
    return ERR_OK;
}

/* ---- told by the stores ---- */

/* A store came back, or left: what waits is placed anew, and what was lost is read again.
 * Thread: any, under no lock of a queue. */
void queues_each(struct queues *qs, uint32_t store, bool recovered)
{
    size_t count;
    struct queue **all = snapshot(qs, &count);
    for (size_t i = 0; i < count; i++) {
        struct queue *q = all[i];
        queue_enter(q);
        q->placing_wanted = true;
        for (uint32_t p = 0; p < q->parts_count; p++) {
            struct part *part = q->parts[p];
            if (part->store != store)
                continue;
            /* stale is looked at when the partition is idle. */
            part->stale |= recovered; /* another may have owned it meanwhile */
            if (stores_status(qs, store) != PLACE_OK)
                produce_unplace_all(part);
            if (part_failing(part))
                change_refuse_all(part);
            queue_work(part);
        }
        queue_leave(q);
        queue_unref(&all[i]);
    }
    free(all);
}

/* ---- the hook that parks ---- */

/* In the order of arrival: produces and changes go where new requests go, leases back by their
 * number. */
static void life_resume(struct queue *q)
{
    struct list held;
    list_init(&held);
    list_join(&held, &q->held);
    for (struct list *n; (n = list_take(&held)) != NULL;) {
        struct req *r = CONTAINER_OF(n, struct req, link);
        switch ((enum req_kind)r->kind) {
        case REQ_PRODUCE:
            produce_begin(q, req_produce(r));
            break;
        case REQ_LEASE:
            req_park(&q->waiting, r);
            break;
        case REQ_CHANGE:
            change_begin(q, req_change(r));
            break;
        }
    }
    q->placing_wanted = true;
}

err queues_test_pause(struct queues *qs, str name, bool pause, struct err_note *note)
{
    struct queue *q;
    err why = queues_find(qs, name, &q, note);
    if (why != ERR_OK)
        return why;
    queue_enter(q);
    bool was = q->paused;
    q->paused = pause;
    if (was && !pause)
        life_resume(q);
    queue_leave(q);
    queue_unref(&q);
    return ERR_OK;
}
