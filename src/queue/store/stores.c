/* stores.c - how the stores are doing, for all queues; probes and recoveries, one at a time a
 * store. Decisions are health.c's. Invariant: health_lock is held for moments, and no other lock
 * is taken under it. */
#include "queue/order/flush.h"

#include "base/log.h"
#include "queue/admin.h"

static void stores_lock(struct queues *all)
{
    INVARIANT(pthread_mutex_lock(&all->health_lock) == 0);
}

static void stores_unlock(struct queues *all)
{
    INVARIANT(pthread_mutex_unlock(&all->health_lock) == 0);
}

/* As of now: a caller that acts on it may find the store changed. */
enum place_status stores_status(struct queues *all, uint32_t store)
{
    stores_lock(all);
    enum place_status s = all->stores[store].health.status;
    stores_unlock(all);
    return s;
}

bool stores_silent(struct queues *all, uint32_t store)
{
    stores_lock(all);
    bool silent = health_silent(&all->stores[store].health);
    stores_unlock(all);
    return silent;
}

/* The first partition of a store that another process owns is told of, and the last. */
void part_set_foreign(struct part *p, bool foreign)
{
    struct queues *all = p->queue->all;
    struct store_state *st = &all->stores[p->store];
    if (p->foreign == foreign)
        return;
    /* Under the lock of the queue; the count is of all queues. */
    p->foreign = foreign;
    stores_lock(all);
    INVARIANT(foreign || st->foreign > 0);
    bool first = foreign && st->foreign == 0;
    st->foreign += foreign ? 1u : -1u;
    bool last = st->foreign == 0;
    stores_unlock(all);
    if (first)
        log_event(all->opts.log, LOG_WARN, "queue.store", LOG_CSTR("store", part_store(p)->name),
                  LOG_CSTR("state", "standby"),
                  LOG_CSTR("why", "another process owns its partitions"));
    /* A partition that is only let go (queue_free) has no owner to tell of. */
    else if (last && p->loaded)
        log_event(all->opts.log, LOG_INFO, "queue.store", LOG_CSTR("store", part_store(p)->name),
                  LOG_CSTR("state", "owner"));
}

/* Its memory was lost, its store is in error, or it was never read and its store does not
 * answer. */
bool part_failing(const struct part *p)
{
    struct queues *all = p->queue->all;
    return p->failing || stores_status(all, p->store) == PLACE_ERROR ||
           (!p->loaded && stores_silent(all, p->store));
}

err part_failing_note(const struct part *p, struct err_note *note)
{
    bool is_read = !p->owned && !part_failing(p);
    err_note_set(note, "partition not available; partition '%u' is %s, retry again", p->number,
                 p->foreign ? "owned by another process"
                 : is_read  ? "being read"
                            : "failing");
    stores_wanted(p->queue->all, p->store);
    return ERR_UNAVAILABLE;
    /* Somebody waits for the store: its probe comes sooner. */
}

/* partition and load of each are the caller's to fill in (place_look). */
void stores_look(struct queues *all, struct place_store *out)
{
    stores_lock(all);
    for (unsigned i = 0; i < all->opts.stores_count; i++)
        out[i] = health_view(&all->stores[i].health);
    stores_unlock(all);
}

bool queues_store(struct queues *all, unsigned index, struct queue_store_stats *out)
{
    if (index >= all->opts.stores_count)
        return false;
    stores_lock(all);
    const struct health *h = &all->stores[index].health;
    *out = (struct queue_store_stats){ .name = all->opts.stores[index]->name,
                                       .state = place_status_name(h->status),
                                       .failures = h->failures_total,
                                       .write_ns = h->write_ns };
    stores_unlock(all);
    return true;
}

/* n: requests placed there (above zero), or answered. */
void stores_in_flight(struct queues *all, uint32_t store, int n)
{
    stores_lock(all);
    struct health *h = &all->stores[store].health;
    INVARIANT(n > 0 || h->in_flight >= (uint32_t)-n);
    h->in_flight += (uint32_t)n;
    stores_unlock(all);
}

/* The status of a store changed, or a probe is due sooner. Queues are told on the loop, by
 * stores_probe: the caller may hold the lock of one. */
static void changed(struct queues *all, uint32_t store, bool turned)
{
    stores_lock(all);
    mono at = health_next(&all->stores[store].health);
    all->stores[store].turned |= turned;
    stores_unlock(all);
    if (at.ns != INT64_MAX || turned)
        timers_soon(all, turned ? (mono){ .ns = 0 } : at);
}

/* Thread: any. took_ns counts for the average when counts says so. */
void stores_written(struct queues *all, uint32_t store, err why, int64_t took_ns, bool counts)
{
    struct health *h = &all->stores[store].health;
    stores_lock(all);
    mono before = health_next(h);
    bool turned = health_written(h, clock_mono(all->opts.clock), why, took_ns, counts);
    mono after = health_next(h);
    stores_unlock(all);
    /* Otherwise nothing changed that the timer has to know. */
    if (turned || after.ns < before.ns)
        changed(all, store, turned);
}

void stores_wanted(struct queues *all, uint32_t store)
{
    struct health *h = &all->stores[store].health;
    stores_lock(all);
    mono before = health_next(h);
    health_wanted(h, clock_mono(all->opts.clock));
    mono after = health_next(h);
    stores_unlock(all);
    if (after.ns < before.ns)
        timers_soon(all, after);
}

/* Without a partition for its requests, a queue wants each store that is away. */
void stores_all_wanted(struct queues *all)
{
    for (uint32_t i = 0; i < all->opts.stores_count; i++)
        if (stores_status(all, i) != PLACE_OK)
            stores_wanted(all, i);
}

/* A write has no answer in time. Called again while it stays away. */
void stores_overdue(struct queues *all, uint32_t store, int64_t took_ns)
{
    stores_lock(all);
    bool turned = health_overdue(&all->stores[store].health, clock_mono(all->opts.clock), took_ns);
    stores_unlock(all);
    changed(all, store, turned);
}

/* ---- probes ---- */

/* In ERROR a recovery, else a heartbeat: recovering was set when the probe began. */
static err probe_ask(struct store_state *st)
{
    struct queues *all = st->all;
    struct queue_store *store = all->opts.stores[st->index];
    struct queue_later *later = store_job_ask(&st->job);
    mono deadline = mono_add_ms(clock_mono(all->opts.clock), all->opts.write_timeout_ms);
    return st->recovering ? store->ops->recover(store, &st->note, later)
                          : store->ops->heartbeat(store, deadline, later);
}

/* Thread: pool. One call; its outcome is taken on the loop. */
static bool probe_step(struct store_job *j)
{
    struct store_state *st = CONTAINER_OF(j, struct store_state, job);
    struct queues *all = st->all;
    err why = j->later.why;
    if (!store_job_told(j)) {
        why = probe_ask(st);
        if (store_job_waits(j, why))
            return true;
    }
    st->outcome = why;
    if (why != ERR_OK && st->recovering)
        log_event(all->opts.log, LOG_WARN, "queue.store",
                  LOG_CSTR("store", all->opts.stores[st->index]->name),
                  LOG_CSTR("state", place_status_name(PLACE_ERROR)), LOG_CSTR("why", st->note.text),
                  LOG_CSTR("error", err_name(why)));
    return false;
}

/* Loop. Only a recovery that worked has its partitions read again. */
static void probe_done(struct store_job *j)
{
    struct store_state *st = CONTAINER_OF(j, struct store_state, job);
    struct queues *all = st->all;
    mono now = clock_mono(all->opts.clock);
    stores_lock(all);
    bool turned = health_probed(&st->health, now, st->outcome, now.ns - st->started.ns);
    st->recovered |= turned && st->recovering;
    stores_unlock(all);
    (void)atomic_fetch_sub(&all->jobs, 1);
    changed(all, st->index, turned);
}

/* Loop: the operator first, then all queues. */
static void stores_tell(struct queues *all, struct store_state *st, bool recovered)
{
    stores_lock(all);
    const struct health h = st->health;
    stores_unlock(all);
    struct queue_store *store = all->opts.stores[st->index];
    const char *name = store->name;
    struct err_note said = { .text = "" };
    /* What the server said last, for the log. */
    if (store->ops->said != NULL)
        store->ops->said(store, &said);
    if (h.status == PLACE_OK)
        log_event(all->opts.log, LOG_INFO, "queue.store", LOG_CSTR("store", name),
                  LOG_CSTR("state", place_status_name(h.status)));
    else
        log_event(all->opts.log, LOG_WARN, "queue.store", LOG_CSTR("store", name),
                  LOG_CSTR("state", place_status_name(h.status)), LOG_CSTR("why", health_why(&h)),
                  LOG_CSTR("said", said.text));
    queues_each(all, st->index, recovered);
}

/* Loop, by the timer. Tells of what changed since, and starts the probes that are due. */
mono stores_probe(struct queues *all, mono now)
{
    mono next = { .ns = INT64_MAX };
    for (unsigned i = 0; i < all->opts.stores_count; i++) {
        struct store_state *st = &all->stores[i];
        stores_lock(all);
        bool turned = st->turned, recovered = st->recovered,
             probe = !all->draining && health_probe(&st->health, now);
        /* Both are told once. */
        st->turned = st->recovered = false;
        if (probe) /* else one may be on its way, and reads it */
            st->recovering = st->health.status == PLACE_ERROR;
        mono at = health_next(&st->health);
        stores_unlock(all);
        if (at.ns < next.ns)
            next = at;
        if (turned)
            stores_tell(all, st, recovered);
        if (probe) {
            st->started = now;
            st->note = (struct err_note){ .text = "" };
            st->job = (struct store_job){ .step = probe_step, .done = probe_done };
            (void)atomic_fetch_add(&all->jobs, 1);
            store_job_start(all->opts.loop, &st->job);
        }
    }
    return next;
}

void stores_init(struct queues *all)
{
    INVARIANT(pthread_mutex_init(&all->health_lock, NULL) == 0);
    list_init(&all->drops);
    for (unsigned i = 0; i < all->opts.stores_count; i++)
        all->stores[i] = (struct store_state){ .all = all, .index = i };
}

void stores_fini(struct queues *all)
{
    (void)pthread_mutex_destroy(&all->health_lock);
}
