/* move.c - items on their way to another queue: to a dead queue, or back from one by order.
 *
 *   gathered (source) -> round by round: bodies read, batch made in the target (pool, move_in.c)
 *                         -> same store: one write for both sides
 *                         -> else: doomed here (DOOM), inserted there (INSERT), removed here
 *                           (REMOVE); or refused there, and given back here (RELEASE)
 *  1. An item stays in its source until it is durable in the target.
 *  2. Between two stores the target keeps a key for each item until the source has removed the
 *     item. So a second try, after a crash too, inserts nothing twice.
 *  3. A doomed item is given to nobody. After a crash its move goes on (move_out.c).
 *
 * When a round fails:
 *  - Dying items: the move tries again, at growing intervals, as long as the dead queue exists.
 *  - Items that a client sends to the dead queue: after MOVE_ORDER_TRIES the client gets the error.
 *    The items are put back, but for doomed ones, whose move goes on.
 *  - Requeued items: the move ends, and the client gets the error. If the target refused the items,
 *    they are given back first. If they may be in the target, or if the write that gives them back
 *    fails, the error says that they are on their way, and the server goes on with them. */
#include "queue/move/move.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOVES_RUNNING_MAX = 4, /* of a partition: each holds the bodies of a round */
    MOVE_ITEMS_FIRST = 4,
    MOVE_CHUNK_BYTES = 512,
    MOVE_RETRY_MS = 1000,
    MOVE_RETRY_MS_MAX = 30000,
    MOVE_ORDER_TRIES = 3, /* then the client of an order is told */
    MOVE_TOLD_TRIES = 3,
    MOVE_TOLD_MS = 60000, /* then the operator is; so often for a queue */
};

/* ---- gathering: under the lock of the source ---- */

/* busy, and the reference: the queue waits for its moves before it ends. */
struct move *move_new(struct part *p, struct queue_change *c, str to)
{
    struct queue *q = p->queue;
    struct move *m = calloc(1, sizeof *m);
    INVARIANT(m != NULL);
    m->part = p;
    m->generation = p->generation;
    m->change = c;
    m->store = part_store(p);
    m->store_index = p->store;
    m->place = (struct queue_part){ .queue = q->number, .partition = p->number };
    m->to_name_bytes = to.n;
    if (to.n > 0)
        memcpy(m->to_name, to.p, to.n);
    arena_init(&m->arena, MOVE_ARENA_BYTES_MAX);
    arena_chunks(&m->arena, MOVE_CHUNK_BYTES);
    list_append(&p->dying, &m->link);
    list_append(&p->movers, &m->by_part);
    q->busy++;
    queue_ref(q);
    /* The change is answered when its write and each of its moves are over. */
    if (c != NULL)
        own_change(c)->left++;
    return m;
}

/* Takes the item out of wherever it waits. The caller has made sure that it is in no write. */
void move_add(struct move *m, struct qitem *it)
{
    struct part *p = m->part;
    if (it->due.place != 0)
        heap_remove(&p->queue->due, &it->due);
    part_unlist(p, it);
    qitem_move(it, QITEM_MOVING);
    INVARIANT(m->count < MOVE_ITEMS_MAX);
    if (m->count == m->size) { /* many partitions may have few items each that die at once */
        m->size = m->size == 0 ? MOVE_ITEMS_FIRST : 2 * m->size;
        m->items = reallocarray(m->items, m->size, sizeof *m->items);
        INVARIANT(m->items != NULL);
    }
    m->items[m->count++] = (struct moved){
        .item = it, .id = it->id, .place = { .batch = it->batch->first, .index = it->index }
    };
}

/* A move has one target, and one client at most that waits for it. Does m take one more item, of
 * this order and for this queue? */
static bool move_takes(const struct move *m, const struct queue_change *c, str to,
                       uint32_t to_number)
{
    return m->change == c && !m->requeues && m->count < MOVE_ITEMS_MAX &&
           m->to_number == to_number &&
           (to_number > 0 || str_eq((str){ .p = m->to_name, .n = m->to_name_bytes }, to));
}

void part_die(struct part *p, struct slot *s, struct qitem *it, struct queue_change *c)
{
    uint32_t number = it->ordered_to;
    str to = p->queue->info.dead_queue;
    if (number == 0 && to.n == 0) {
        step_gone(s, it);
        return;
    }
    /* Only the last one gathered may take more; others may be under way. */
    struct move *m = list_empty(&p->dying) ? NULL : CONTAINER_OF(p->dying.prev, struct move, link);
    if (m == NULL || !move_takes(m, c, to, number)) {
        m = move_new(p, c, number == 0 ? to : STR_NONE);
        m->to_number = number;
    }
    move_add(m, it);
}

/* ---- writing: on the loop, but for what move_build does ---- */

static void move_free(struct move *m)
{
    struct queue *from = m->part->queue;
    INVARIANT(m->batch == NULL);
    INVARIANT(m->by_part.next == &m->by_part);
    free(m->ops);
    free(m->items);
    arena_fini(&m->arena);
    queue_unref(&m->to);
    queue_unref(&from);
    free(m);
}

/* A move whose source's memory was thrown away, or whose queue ends, does not go on. */
bool move_is_current(const struct move *m)
{
    const struct queue *q = m->part->queue;
    return m->generation == m->part->generation && !q->draining && !q->deleted;
}

/* Its place among MOVES_RUNNING_MAX is free. */
static void stop_running(struct move *m)
{
    m->part->moves_running -= m->running;
    if (m->running && !list_empty(&m->part->dying))
        queue_work(m->part); /* the next one */
    m->running = false;
}

/* Under the lock of the source. */
static void tell_client(struct move *m, err why)
{
    struct queue_change *c = m->change;
    m->change = NULL;
    if (c == NULL)
        return;
    if (why != ERR_OK)
        /* 150 bytes of a name: the note has to hold the sentence. */
        err_note_set(&c->note, "dead queue '%.*s' does not take the items; %s",
                     (int)(m->to_name_bytes < 150 ? m->to_name_bytes : 150), m->to_name,
                     m->doomed ? "they are moved as soon as it does"
                               : "those that were not moved are leased as before, try again");
    change_outcome(c, why);
}

/* Tells a requeue what became of the round. Under the lock of the source. */
static void tell_order(struct move *m, err why)
{
    struct move_order *o = m->order;
    m->order = NULL;
    if (o == NULL)
        return;
    /* Doomed items and those of an unknown outcome still end in either queue. */
    if (why != ERR_OK && (m->doomed || m->unsure))
        o->open += m->round - m->returned;
    waiter_done(&o->waiter, why, m->round);
}

/* The items from index from on leave the move. When the source's memory was thrown away they went
 * with it. */
static void put_back(struct move *m, unsigned from)
{
    for (unsigned i = from; i < m->count && m->generation == m->part->generation; i++)
        /* An item that was given back is no longer the move's. */
        if (m->items[i].item != NULL)
            move_put_back(m, &m->items[i]);
    m->count = from;
}

/* On the loop. Who is told looks there at once, so the items stand in the target first. */
static void finished(void *ctx)
{
    struct move *m = ctx;
    struct queue *q = m->part->queue;
    move_deliver(m);
    queue_enter(q);
    /* After deliver, so that move_items counts the move until its items stand in the target. */
    list_remove(&m->by_part);
    tell_client(m, m->outcome);
    tell_order(m, m->outcome);
    queue_leave(q);
    move_free(m);
}

/* Under the lock of the source. The move is freed on the loop; nobody may look at it from here
 * on. */
void move_end(struct move *m, err why)
{
    struct part *p = m->part;
    struct queue *q = p->queue;
    if (why != ERR_OK)
        put_back(m, 0);
    m->removed = why == ERR_OK;
    m->outcome = why;
    m->count = 0; /* none is on its way any more */
    if (m->told && why == ERR_OK)
        log_event(q->all->opts.log, LOG_INFO, "queue.move", LOG_STR("name", q->info.name),
                  LOG_INT("partition", p->number), LOG_CSTR("state", "moved"));
    stop_running(m);
    q->busy--;
    /* An earlier error of the round is what deliver has to know. */
    if (m->why == ERR_OK)
        m->why = why;
    loop_post(q->all->opts.loop, finished, m);
}

/* The removal is tried until it is written. A requeue does not wait for that, and its later items
 * are put back: nobody would be told that they were moved. */
void move_stands_in_both(struct move *m, err why)
{
    m->unsure = true;
    if (m->order != NULL)
        put_back(m, m->round);
    tell_order(m, why);
}

/* The move waits in part.later. busy falls: a queue that ends need not wait for it. */
void move_later(struct move *m)
{
    struct part *p = m->part;
    struct queue *q = p->queue;
    /* Twice as long after each try, up to MOVE_RETRY_MS_MAX. */
    unsigned shift = m->tries == 0 ? 0 : m->tries < 6 ? m->tries - 1 : 5;
    int64_t ms = (int64_t)MOVE_RETRY_MS << shift;
    ms = ms < MOVE_RETRY_MS_MAX ? ms : MOVE_RETRY_MS_MAX;
    m->again_at = mono_add_ms(clock_mono(q->all->opts.clock), ms);
    list_append(&p->later, &m->link);
    /* The queue's timer knows held_at alone. */
    if (m->again_at.ns < q->held_at.ns)
        q->held_at = m->again_at;
    stop_running(m);
    q->busy--;
    if (!list_empty(&p->changes))
        queue_work(p); /* who wants to delete its items need not wait */
}

void move_failed(struct move *m, err why)
{
    struct part *p = m->part;
    struct queue *q = p->queue;
    mono now = clock_mono(q->all->opts.clock);
    m->tries++;
    p->failures++;
    p->moves_failed++;
    /* A move that fails now and then is nobody's business: only several failures in a row are
     * told. */
    if (m->tries < MOVE_TOLD_TRIES || now.ns < q->move_told_at.ns)
        return;
    q->move_told_at = mono_add_ms(now, MOVE_TOLD_MS);
    m->told = true;
    str to = { .p = m->to_name, .n = m->to_name_bytes };
    log_event(q->all->opts.log, LOG_WARN, "queue.move", LOG_STR("name", q->info.name),
              LOG_INT("partition", p->number), LOG_CSTR("state", "failing"), LOG_STR("to", to),
              LOG_INT("items", m->count), LOG_INT("tries", m->tries),
              LOG_CSTR("why", err_name(why)), LOG_CSTR("what", m->what));
}

/* Frees what the last round had, but for its items. */
static void reset(struct move *m)
{
    queue_unref(&m->to);
    m->to = NULL;
    m->to_part = NULL;
    free(m->ops);
    m->ops = NULL;
    m->ops_count = 0;
    m->across = m->removed = false;
    m->why = ERR_OK;
    m->stage = MOVE_NEW;
    arena_reset(&m->arena);
}

/* Under the lock of the source: the client of an order is not kept waiting for ever. True: the move
 * is over. */
static bool give_up(struct move *m, err why)
{
    if (m->change == NULL || m->tries < MOVE_ORDER_TRIES)
        return false;
    /* Doomed items cannot be put back without a write: the client hears of it, and the move goes
     * on. */
    if (m->doomed)
        tell_client(m, why);
    else
        move_end(m, why);
    return !m->doomed;
}

/* Are doomed items of a requeue to be given back? They are when the target refused them or is gone,
 * and when they cannot be read. */
static bool gives_back(const struct move *m, err why)
{
    if (m->requeues)
        return m->stage == MOVE_INSERT && why != ERR_IO;
    return m->to_number > 0 && (why == ERR_NOT_FOUND || why == ERR_CORRUPT);
}

/* Under the lock of the source. */
static void release(struct move *m, err why)
{
    m->why = why;
    m->stage = MOVE_RELEASE;
    list_append(&m->part->moves, &m->link);
    queue_work(m->part);
}

/* On the loop: the round came to nothing. The target's side is settled first, then the source
 * decides what becomes of the move. */
void move_again(void *ctx)
{
    struct move *m = ctx;
    struct queue *q = m->part->queue;
    err why = m->why;
    /* Before reset, which clears the stage. */
    bool back = gives_back(m, why);
    move_deliver(m);
    reset(m);
    /* move_end may drop the last reference but this one. */
    queue_ref(q);
    queue_enter(q);
    if (move_is_current(m))
        move_failed(m, why);
    if (back && move_is_current(m))
        release(m, why);
    else if (m->requeues || !move_is_current(m))
        move_end(m, why);
    else if (!give_up(m, why))
        move_later(m);
    queue_leave(q);
    queue_unref(&q);
}

/* On the loop: goes on with the items that are left. */
static void next_round(void *ctx)
{
    struct move *m = ctx;
    struct part *p = m->part;
    struct queue *q = p->queue;
    move_deliver(m);
    reset(m);
    queue_ref(q);
    queue_enter(q);
    /* The items of the round are in the target alone. */
    m->count -= m->round;
    memmove(m->items, m->items + m->round, m->count * sizeof *m->items);
    m->round = m->tries = 0;
    m->doomed = m->unsure = false;
    if (!move_is_current(m)) {
        move_end(m, ERR_UNAVAILABLE);
    } else {
        stop_running(m);
        /* Behind other moves: each gets a round. */
        list_append(&p->dying, &m->link);
        move_begin(p);
    }
    queue_leave(q);
    queue_unref(&q);
}

void move_round_over(struct move *m)
{
    if (m->round == m->count) {
        move_end(m, ERR_OK);
        return;
    }
    /* One outcome awaited more, and this one told: the order goes on waiting for the rest. */
    if (m->order != NULL) {
        waiter_expect(&m->order->waiter);
        waiter_done(&m->order->waiter, ERR_OK, m->round);
    }
    m->removed = true;
    loop_post(m->part->queue->all->opts.loop, next_round, m);
}

/* Called on the loop, under the queue's lock. */
mono move_wake(struct part *p, mono now)
{
    mono next = { .ns = INT64_MAX };
    for (struct list *n = p->later.next, *after; n != &p->later; n = after) {
        after = n->next;
        struct move *m = CONTAINER_OF(n, struct move, link);
        if (m->again_at.ns > now.ns) {
            next.ns = m->again_at.ns < next.ns ? m->again_at.ns : next.ns;
            continue;
        }
        list_remove(n);
        /* A removal needs no second look at the target: its items are there. */
        list_append(m->stage == MOVE_REMOVE ? &p->moves : &p->dying, n);
        p->queue->busy++;
        queue_work(p);
    }
    return next;
}

/* On the loop: the next step is a write of the source. */
static void to_source(struct move *m)
{
    struct part *p = m->part;
    struct queue *q = p->queue;
    queue_ref(q);
    queue_enter(q);
    if (!move_is_current(m)) {
        move_end(m, ERR_UNAVAILABLE);
    } else {
        list_append(&p->moves, &m->link);
        queue_work(p);
    }
    queue_leave(q);
    queue_unref(&q);
}

static void inserted(void *ctx)
{
    struct move *m = ctx;
    if (m->why != ERR_OK) {
        move_again(m);
        return;
    }
    /* The target has its items before the source removes them. */
    move_deliver(m);
    m->stage = MOVE_REMOVE;
    to_source(m);
}

/* On the thread of the target's store: it touches only the move. */
static void insert_written(struct queue_write *w, err why)
{
    struct move *m = w->ctx;
    m->why = why;
    loop_post(m->part->queue->all->opts.loop, inserted, m);
}

/* On the loop. */
void move_insert(void *ctx)
{
    struct move *m = ctx;
    struct queues *all = m->to->all;
    m->stage = MOVE_INSERT;
    move_side_of_target(m, &m->write.parts[0]);
    m->write.parts_count = 1;
    m->write.deadline = mono_add_ms(clock_mono(all->opts.clock), all->opts.write_timeout_ms);
    m->write.done = insert_written;
    m->write.ctx = m;
    struct queue_store *store = all->opts.stores[m->to_store_index];
    store->ops->write(store, &m->write);
}

/* across: the marks come first, unless nothing has to go (placed). */
static void move_done(struct store_job *j)
{
    struct move *m = CONTAINER_OF(j, struct move, job);
    if (m->why != ERR_OK) {
        move_again(m);
    } else {
        m->stage = m->across && m->placed ? MOVE_DOOM : MOVE_REMOVE;
        to_source(m);
    }
}

/* A move from before the memory was thrown away may still be writing into its target. Its items
 * have been read again since. Until the outcome is known, another move would write them a second
 * time. */
static bool is_still_moving(const struct part *p)
{
    for (const struct list *n = p->movers.next; n != &p->movers; n = n->next)
        if (CONTAINER_OF(unconst(n), struct move, by_part)->generation != p->generation)
            return true;
    return false;
}

/* Starts what was gathered, as far as running moves allow. */
void move_begin(struct part *p)
{
    bool wait = !list_empty(&p->dying) && is_still_moving(p);
    while (p->moves_running < MOVES_RUNNING_MAX && !list_empty(&p->dying)) {
        struct move *m = CONTAINER_OF(list_take(&p->dying), struct move, link);
        /* move_later takes from busy what move_wake gives back. */
        if (wait) {
            move_later(m);
            continue;
        }
        m->running = true;
        p->moves_running++;
        m->job = (struct store_job){ .step = move_prepare, .done = move_done };
        store_job_start(p->queue->all->opts.loop, &m->job);
    }
}

/* idle: the moves were not counted in busy. */
static void end_all(struct part *p, struct list *moves, bool idle)
{
    for (struct list *n; (n = list_take(moves)) != NULL;) {
        p->queue->busy += idle;
        move_end(CONTAINER_OF(n, struct move, link), ERR_UNAVAILABLE);
    }
}

void move_lost(struct part *p)
{
    for (struct list *n = p->movers.next; n != &p->movers; n = n->next)
        /* Before the generation is raised: these moves belong to a memory that is gone. */
        CONTAINER_OF(n, struct move, by_part)->generation = p->generation - 1;
    move_abandon(p);
}

void move_abandon(struct part *p)
{
    end_all(p, &p->moves, false);
    end_all(p, &p->dying, false);
    end_all(p, &p->later, true);
}

/* The client is gone, or answered: its moves go on. */
void move_forget_change(struct part *p, const struct queue_change *c)
{
    for (struct list *n = p->movers.next; n != &p->movers; n = n->next) {
        struct move *m = CONTAINER_OF(n, struct move, by_part);
        if (m->change == c)
            m->change = NULL;
    }
}

/* The move that has the item and waits to be tried again; NULL: none. */
static struct move *waiting_move(struct part *p, const struct qitem *it)
{
    for (struct list *n = p->later.next; n != &p->later; n = n->next) {
        struct move *m = CONTAINER_OF(n, struct move, link);
        for (unsigned i = 0; i < m->count && m->generation == p->generation; i++)
            if (m->items[i].item == it)
                return m;
    }
    return NULL;
}

bool move_waits(struct part *p, const struct qitem *it)
{
    return waiting_move(p, it) != NULL;
}

bool move_lets_go(struct part *p, const struct qitem *it)
{
    const struct move *m = waiting_move(p, it);
    return m != NULL && m->stage == MOVE_NEW;
    /* In another stage something of it was written already. */
}

void move_let_go(struct part *p, const struct qitem *it)
{
    struct move *m = waiting_move(p, it);
    INVARIANT(m != NULL);
    list_remove(&m->link);
    p->queue->busy++;
    move_end(m, ERR_UNAVAILABLE);
    /* Other items of the request were in the same move, and are back as well. */
    queue_work(p); /* others of it are judged again */
}

unsigned move_items(const struct part *p)
{
    unsigned count = 0;
    for (const struct list *n = p->movers.next; n != &p->movers; n = n->next)
        count += CONTAINER_OF(unconst(n), struct move, by_part)->count;
    return count;
}
