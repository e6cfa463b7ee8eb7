/* queue.c - the lock of a queue: in, out, and what has to be done before it is out (machine.h);
 * also what a partition shows the queue, and the life of struct queue. Invariants:
 *   1. Whoever leaves has settled all that was in line when the lock was freed, or somebody else
 *      is inside and does.
 *   2. Effects (answers, copies of bodies) are carried out without the lock. */
#include "queue/order/flush.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define QUEUE_MAGIC 0x9e0eu

/* DUE_STEPS_MAX: items taken from the heap before others have the lock. RETRY_MS: pauses between
 * rounds for what is parked. */
enum { DUE_STEPS_MAX = 1024, RETRY_MS = 50, RETRY_MS_MAX = 1000 };

/* ---- what a partition shows the queue ---- */

struct queue_store *part_store(const struct part *p)
{
    return p->queue->all->opts.stores[p->store];
}

/* Requests may be placed here, and items given: memory is what the store has. */
bool part_usable(const struct part *p)
{
    return p->loaded && !p->loading && !p->closed;
}

void part_loads(struct part *p)
{
    /* What place.h compares. A granted item counts as ready until its lease is written. */
    int64_t load = p->ready - p->granting + p->scheduled + p->placing;
    place_load(p->queue->place, p->number, load < 0 ? 0 : (uint64_t)load);
}

/* Puts the partition into the heap of heads anew, or takes it out. Called whenever its head, or
 * whether it gives items, may have changed. */
void part_heads(struct part *p)
{
    struct heap *heads = &p->queue->heads;
    if (p->head.place != 0)
        /* Items on their way back may come before the head: nothing behind them is given until
         * they are there. */
        heap_remove(heads, &p->head);
    bool orphans = p->releasing > 0 || !list_empty(&p->orphans);
    if (part_usable(p) && !p->held && !p->expire_due && !orphans && p->mode != PART_PAUSED &&
        part_head(p) != NULL)
        heap_add(heads, &p->head);
}

/* A batch that was just written: its items in place become ready. They have the greatest ids of
 * the partition. */
void part_arrive(struct part *p, struct batch *b)
{
    for (unsigned i = 0; i < b->count; i++) {
        if (b->states[i] != ITEM_IN_PLACE)
            continue;
        struct ksuid id = ksuid_add(b->first, i);
        /* A read of the window was faster than this outcome. */
        if (part_item(p, id) != NULL)
            continue;
        if (p->whole && p->ready_items + p->behind_items >= PART_WINDOW_ITEMS)
            p->whole = false;
        if (!p->whole && !p->refilling)
            return; /* read when its turn comes */
        if (!b->known)
            part_batch_add(p, b);
        struct qitem *it = part_item_new(p, b, i, id);
        part_key_of(p, it);
        /* The rest of the window is being read: these items stand behind all of it. */
        if (!p->whole) {
            part_tail_put(p, it);
            continue;
        }
        p->edge = id;
        part_ready_put(p, it);
    }
}

/* The partition is looked at in do_work, however often it is put here. */
void queue_work(struct part *p)
{
    if (p->queued)
        return;
    p->queued = true;
    list_append(&p->queue->work, &p->work);
}

/* ---- time ---- */

static bool is_due_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct qitem *x = CONTAINER_OF(unconst(a), struct qitem, due);
    const struct qitem *y = CONTAINER_OF(unconst(b), struct qitem, due);
    /* The id breaks ties, so that a simulation comes out the same each time. */
    return x->wake_at.ns != y->wake_at.ns ? x->wake_at.ns < y->wake_at.ns
                                          : ksuid_cmp(x->id, y->id) < 0;
}

static bool is_overdue_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct slot *x = CONTAINER_OF(unconst(a), struct slot, overdue);
    const struct slot *y = CONTAINER_OF(unconst(b), struct slot, overdue);
    return x->overdue_at.ns < y->overdue_at.ns;
}

/* The partition whose head became ready first; ties: the lowest number. */
static bool is_older(const struct heap_node *a, const struct heap_node *b)
{
    const struct part *x = CONTAINER_OF(unconst(a), struct part, head);
    const struct part *y = CONTAINER_OF(unconst(b), struct part, head);
    int64_t at = part_head(x)->ready_at.ns, other = part_head(y)->ready_at.ns;
    return at != other ? at < other : x->number < y->number;
}

static bool expires_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct part *x = CONTAINER_OF(unconst(a), struct part, expire);
    const struct part *y = CONTAINER_OF(unconst(b), struct part, expire);
    return x->expire_min.ns < y->expire_min.ns;
}

/* Writes without an answer for too long: their store is suspect, and requests that are not sent
 * yet go elsewhere. The outcome may still come. */
static void look_at_writes(struct queue *q, mono now)
{
    for (struct heap_node *n; (n = heap_first(&q->overdue)) != NULL;) {
        struct slot *s = CONTAINER_OF(n, struct slot, overdue);
        if (s->overdue_at.ns > now.ns)
            return;
        heap_remove(&q->overdue, n);
        /* Told again after the same time, should it stay silent. */
        s->overdue_at = mono_add_ms(now, q->all->opts.write_timeout_ms);
        heap_add(&q->overdue, n);
        stores_overdue(q->all, s->part->store, now.ns - s->started.ns);
        produce_unplace_all(s->part);
    }
}

/* Pauses of partitions and of moves that are over. held_at becomes the next instant at which one
 * ends. */
static void let_go(struct queue *q, mono now)
{
    if (q->held_at.ns > now.ns)
        return;
    q->held_at.ns = INT64_MAX;
    for (uint32_t i = 0; i < q->parts_count; i++) {
        struct part *p = q->parts[i];
        if (p->held_until.ns > now.ns && p->held_until.ns < q->held_at.ns)
            q->held_at = p->held_until;
        if (p->held && p->held_until.ns <= now.ns) {
            p->held = false;
            part_heads(p);
        }
        mono again = move_wake(p, now);
        if (again.ns < q->held_at.ns)
            q->held_at = again;
        queue_work(p);
    }
}

/* Requests that found no partition are placed again after a while: not every change of a store
 * or a partition asks for a round. */
static void retry_parked(struct queue *q, mono now)
{
    if (list_empty(&q->parked)) {
        q->retry_at.ns = INT64_MAX;
        q->retry_ms = RETRY_MS;
    } else if (q->retry_at.ns == INT64_MAX) {
        q->retry_at = mono_add_ms(now, q->retry_ms);
    } else if (q->retry_at.ns <= now.ns) {
        q->retry_ms = q->retry_ms * 2 < RETRY_MS_MAX ? q->retry_ms * 2 : RETRY_MS_MAX;
        q->retry_at = mono_add_ms(now, q->retry_ms);
        q->placing_wanted = true;
    }
}

/* Leases and schedules that are due, at most so many at once. */
static void due_items(struct queue *q, store_time now)
{
    struct heap_node *n;
    if (q->draining || q->deleted)
        return; /* the next process does it */
    for (unsigned i = 0; i < DUE_STEPS_MAX && (n = heap_first(&q->due)) != NULL; i++) {
        struct qitem *it = CONTAINER_OF(n, struct qitem, due);
        if (store_time_before(now, it->wake_at))
            break;
        heap_remove(&q->due, n);
        list_append(&it->part->due, &it->link);
        queue_work(it->part);
    }
    while ((n = heap_first(&q->expires)) != NULL) {
        struct part *p = CONTAINER_OF(n, struct part, expire);
        if (store_time_before(now, p->expire_min))
            break;
        heap_remove(&q->expires, n);
        p->expire_due = true;
        part_heads(p); /* what is past its time is not given any more */
        queue_work(p);
    }
    idem_expire(q, now);
}

/* ---- in and out ---- */

void queue_enter(struct queue *q)
{
    INVARIANT(pthread_mutex_lock(&q->lock) == 0);
}

/* Outcomes of writes, in the order in which they came. True: there were some. */
static bool take_arrived(struct queue *q)
{
    struct list arrived;
    list_init(&arrived);
    /* The lists are exchanged under the lock of arrivals; what came is settled without it. */
    INVARIANT(pthread_mutex_lock(&q->arrived_lock) == 0);
    list_join(&arrived, &q->arrived);
    INVARIANT(pthread_mutex_unlock(&q->arrived_lock) == 0);
    bool any = !list_empty(&arrived);
    for (struct list *n; (n = list_take(&arrived)) != NULL;) {
        struct arrival *a = CONTAINER_OF(n, struct arrival, link);
        a->arrived(a);
    }
    return any;
}

/* Partitions with something to write or to read. True: something was started. */
static bool do_work(struct queue *q)
{
    bool any = false;
    struct list work;
    list_init(&work);
    list_join(&work, &q->work);
    for (struct list *n; (n = list_take(&work)) != NULL;) {
        struct part *p = CONTAINER_OF(n, struct part, work);
        p->queued = false;
        any |= part_flush(p);
    }
    return any;
}

static int64_t queue_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When time alone gives this queue something to do. */
static void next_times(struct queue *q, store_time *due, mono *wait)
{
    const struct heap_node *item = heap_first(&q->due), *expire = heap_first(&q->expires);
    const struct heap_node *req = heap_first(&q->deadlines), *slot = heap_first(&q->overdue);
    int64_t at = idem_next(q).ns;
    if (item != NULL)
        at = queue_earlier(at, CONTAINER_OF(unconst(item), struct qitem, due)->wake_at.ns);
    if (expire != NULL)
        at = queue_earlier(at, CONTAINER_OF(unconst(expire), struct part, expire)->expire_min.ns);
    due->ns = q->draining || q->deleted ? INT64_MAX : at;
    at = queue_earlier(q->retry_at.ns, q->held_at.ns);
    if (req != NULL)
        at = queue_earlier(at, CONTAINER_OF(unconst(req), struct req, until)->deadline.ns);
    if (slot != NULL)
        at = queue_earlier(at, CONTAINER_OF(unconst(slot), struct slot, overdue)->overdue_at.ns);
    wait->ns = at;
}

/* Under the lock. Until nothing changes any more: an outcome makes room for writes, a write
 * changes what may be leased, and leases are written. */
static void settle(struct queue *q)
{
    store_time due;
    mono wait, now = clock_mono(q->all->opts.clock);
    /* Time first: what is past its time must not go into a write. */
    requests_time_out(q, now);
    look_at_writes(q, now);
    let_go(q, now);
    due_items(q, clock_store(q->all->opts.clock));
    for (bool more = true; more;) {
        more = take_arrived(q);
        if (q->placing_wanted)
            place_round(q);
        more |= do_work(q);
        lease_round(q);
        /* lease_round queues partitions whose leases are to be written. */
        more |= !list_empty(&q->work);
    }
    retry_parked(q, now);
    next_times(q, &due, &wait);
    timers_update(q, due, wait);
}

static bool has_arrived(struct queue *q)
{
    INVARIANT(pthread_mutex_lock(&q->arrived_lock) == 0);
    bool any = !list_empty(&q->arrived);
    INVARIANT(pthread_mutex_unlock(&q->arrived_lock) == 0);
    return any;
}

/* Settles, frees the lock, and carries the effects out. q may be freed by the last answer: hence
 * the reference. */
void queue_leave(struct queue *q)
{
    queue_ref(q);
    for (;;) {
        struct list replies, fetches;
        list_init(&replies);
        list_init(&fetches);
        settle(q);
        list_join(&replies, &q->replies);
        list_join(&fetches, &q->fetches);
        INVARIANT(pthread_mutex_unlock(&q->lock) == 0);
        requests_tell(&replies);
        if (!list_empty(&fetches)) {
            lease_fetch_all(q, &fetches); /* enters again to say so */
            continue;
        }
        /* An outcome that came after settle: whoever brought it may have found the lock taken,
         * and left it to this thread. */
        if (!has_arrived(q) || pthread_mutex_trylock(&q->lock) != 0)
            break;
    }
    struct queue *mine = q;
    queue_unref(&mine);
}

void queue_rest(void)
{
    const struct timespec ms = { .tv_nsec = NS_PER_MS };
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &ms, NULL); /* shorter is fine */
}

/* For tasks of requests and of the queue. When somebody is inside, he looks at what arrived
 * after unlocking. */
void queue_look(struct queue *q)
{
    if (pthread_mutex_trylock(&q->lock) == 0)
        queue_leave(q);
}

static void call_run(struct task *t)
{
    struct queue *q = CONTAINER_OF(t, struct queue, call);
    /* Cleared first: an outcome that comes from here on posts the task again. */
    atomic_store(&q->called, 0);
    queue_look(q);
    queue_unref(&q);
}

void queue_arrive_lock(struct queue *q)
{
    queue_ref(q); /* what arrives may be the last that holds it */
    INVARIANT(pthread_mutex_lock(&q->arrived_lock) == 0);
}

void queue_arrive_unlock(struct queue *q, struct arrival *a)
{
    list_append(&q->arrived, &a->link);
    INVARIANT(pthread_mutex_unlock(&q->arrived_lock) == 0);
}

/* The reference of queue_arrive_lock goes to the posted task, or back. */
void queue_arrive_tell(struct queue *q, struct req *const *callers, unsigned count)
{
    bool is_called = false;
    for (unsigned i = 0; i < count; i++) {
        if (callers[i] != NULL)
            /* The tasks belong to requests of the write; the first that runs looks for all of
             * them. */
            home_post(callers[i]->home, &callers[i]->task);
        is_called |= callers[i] != NULL;
    }
    if (!is_called && atomic_exchange(&q->called, 1) == 0)
        home_post(loop_home(q->all->opts.loop), &q->call); /* with this reference */
    else
        queue_unref(&q);
}

/* ---- life ---- */

/* Relaxed: the caller has a reference already, or the lock under which there is one. */
void queue_ref(struct queue *q)
{
    (void)atomic_fetch_add_explicit(&q->refs, 1, memory_order_relaxed);
}

static char *own_text(str s)
{
    char *p = malloc(s.n + 1);
    INVARIANT(p != NULL);
    if (s.n > 0)
        memcpy(p, s.p, s.n);
    p[s.n] = '\0';
    return p;
}

/* All texts of *to become its own; queue_info_free frees them. */
void queue_info_own(struct queue_info *to, const struct queue_info *from)
{
    *to = *from;
    to->name.p = own_text(from->name);
    to->space.p = own_text(from->space);
    to->dead_queue.p = own_text(from->dead_queue);
    to->reference.p = own_text(from->reference);
}

void queue_info_free(struct queue_info *info)
{
    free((void *)(uintptr_t)info->name.p);
    free((void *)(uintptr_t)info->space.p);
    free((void *)(uintptr_t)info->dead_queue.p);
    free((void *)(uintptr_t)info->reference.p);
}

/* One reference, the caller's. Partitions are added by queue_part_add. */
struct queue *queue_new(struct queues *all, const struct queue_info *info, uint32_t number)
{
    struct queue *q = calloc(1, sizeof *q);
    INVARIANT(q != NULL);
    q->magic = QUEUE_MAGIC;
    q->all = all;
    q->number = number;
    q->refs = 1;
    INVARIANT(pthread_mutex_init(&q->lock, NULL) == 0);
    INVARIANT(pthread_mutex_init(&q->arrived_lock, NULL) == 0);
    queue_info_own(&q->info, info);
    q->call.run = call_run;
    struct list *lists[] = {
        &q->arrived, &q->parked, &q->waiting,      &q->held,       &q->replies,
        &q->fetches, &q->work,   &q->idems_by_age, &q->free_items, &q->resting
    };
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        list_init(lists[i]);
    hash_init(&q->clients);
    hash_init(&q->idems);
    heap_init(&q->due, is_due_before);
    heap_init(&q->deadlines, req_is_sooner);
    heap_init(&q->overdue, is_overdue_before);
    heap_init(&q->heads, is_older);
    heap_init(&q->expires, expires_before);
    /* Other numbers than the queues beside it: they share the server's seed. */
    rng_init(&q->rng, all->opts.seed ^ ((uint64_t)number << 32));
    q->retry_at.ns = q->held_at.ns = q->wait_at.ns = q->unplaced_at.ns = INT64_MAX;
    q->due_at = STORE_TIME_NEVER;
    q->retry_ms = RETRY_MS;
    q->place = place_new(all->opts.stores_count);
    /* queues_idle waits until only queues in the list are alive. */
    (void)atomic_fetch_add(&all->alive, 1);
    return q;
}

/* Under the queue's lock, or before anybody else knows the queue. */
void queue_part_add(struct queue *q, uint32_t store)
{
    struct part *p = malloc(sizeof *p);
    INVARIANT(p != NULL);
    part_init(p, q, q->parts_count, store);
    /* The array moves as it grows; a struct part never does. */
    q->parts = reallocarray(q->parts, q->parts_count + 1, sizeof(struct part *));
    INVARIANT(q->parts != NULL);
    q->parts[q->parts_count++] = p;
    atomic_store(&q->parts_shown, q->parts_count);
    /* Its idempotency keys are not known before it was read. */
    q->unseen++;
    place_put(q->place, p->number, store);
    queue_work(p);
}

/* The last reference is gone: no request, write, job or timer knows q. */
static void queue_free(struct queue *q)
{
    INVARIANT(q->requests == 0);
    INVARIANT(q->busy == 0);
    INVARIANT(q->due_node.place == 0);
    INVARIANT(q->wait_node.place == 0);
    for (uint32_t i = 0; i < q->parts_count; i++) {
        /* Its store counts the partitions that others own. */
        part_set_foreign(q->parts[i], false);
        part_fini(q->parts[i]);
        INVARIANT(part_idle(q->parts[i]));
        free(q->parts[i]);
    }
    for (struct list *n; (n = list_take(&q->resting)) != NULL;) {
        struct slot *s = CONTAINER_OF(n, struct slot, link);
        slot_free(&s);
    }
    free(q->parts);
    idem_free_all(q);
    hash_fini(&q->clients);
    hash_fini(&q->idems);
    struct heap *heaps[] = { &q->due, &q->deadlines, &q->overdue, &q->heads, &q->expires };
    for (size_t i = 0; i < COUNT_OF(heaps); i++)
        heap_fini(heaps[i]);
    for (unsigned i = 0; i < q->chunks_count; i++)
        free(q->chunks[i]);
    free(q->chunks);
    place_free(&q->place);
    queue_info_free(&q->info);
    (void)pthread_mutex_destroy(&q->lock);
    (void)pthread_mutex_destroy(&q->arrived_lock);
    struct queues *all = q->all;
    q->magic = 0;
    free(q);
    (void)atomic_fetch_sub(&all->alive, 1); /* whoever waits for that may free all */
}

void queue_unref(struct queue **qp)
{
    struct queue *q = *qp;
    if (q == NULL)
        return;
    MAGIC_CHECK(q, QUEUE_MAGIC);
    *qp = NULL;
    /* acq_rel: the freeing thread sees what others wrote before they let go. */
    if (atomic_fetch_sub_explicit(&q->refs, 1, memory_order_acq_rel) == 1)
        queue_free(q);
}
