/* move.c - items on their way to another queue: to a dead queue, or back from one by order.
 *
 *   gathered (source) -> bodies read, batch made in the target (pool) -> same store: one write for both sides
 *                         -> else: doomed here (DOOM), inserted there (INSERT), removed here (REMOVE)
 * The item stays in its source until it is durable in the target. Across stores the target keeps a key for each item,
 * so that a second try after a crash inserts nothing twice; the key goes when the source is rid of the item. Doomed
 * is a lease whose attempts say so: nobody gets that item again, and after a crash it is moved before anything else.
 *   What fails is tried again after MOVE_RETRY_MS, as long as there is a target; ordered moves are put back. */
#include "queue/flush.h"
#include "queue/wait.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { MOVE_ITEMS_MAX = 256, MOVE_ARENA_BYTES_MAX = 64 << 20, MOVE_RETRY_MS = 1000 };
#define MOVE_KEY_NS (7 * 24 * 3600 * NS_PER_S)

enum move_stage { MOVE_NEW, MOVE_DOOM, MOVE_INSERT, MOVE_REMOVE };
struct move {
    struct list link;             /* part.dying, part.moves, part.later */
    enum move_stage stage;
    mono again_at;
    struct part *part;
    uint64_t generation;
    struct queue_change *change;  /* that waits for it; NULL: none */
    struct waiter *waiter;
    bool keeps;                   /* ordered: without a target it fails */
    struct qitem *items[MOVE_ITEMS_MAX];
    struct queue_place places[MOVE_ITEMS_MAX];
    struct ksuid ids[MOVE_ITEMS_MAX];
    bool skip[MOVE_ITEMS_MAX];    /* the target has it already */
    unsigned count, new_count;
    struct queue_store *store;
    uint32_t store_index;
    struct queue_part place;
    char to_name[QUEUE_NAME_BYTES_MAX];
    size_t to_name_bytes;
    struct queue *to;             /* a reference; NULL: there is none */
    struct part *to_part;
    uint64_t to_generation, to_epoch;
    uint32_t to_store_index;
    bool removed;                 /* from the source */
    struct list by_part;          /* part.movers */
    struct batch *batch;
    bool across, placed;
    struct queue_write write;
    struct queue_op *ops;
    unsigned ops_count;
    struct arena arena;
    struct loop_job job;
    err why;
};

/* ---- gathering: under the lock of the source ---- */

static struct move *move_new(struct part *p, struct queue_change *c, str to)
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
    memcpy(m->to_name, to.p, to.n);
    arena_init(&m->arena, MOVE_ARENA_BYTES_MAX);
    list_append(&p->dying, &m->link);
    list_append(&p->movers, &m->by_part);
    q->busy++;
    queue_ref(q);
    if (c != NULL)
        own_change(c)->left++;
    return m;
}

static void move_add(struct move *m, struct qitem *it)
{
    struct part *p = m->part;
    if (it->due.place != 0)
        heap_remove(&p->queue->due, &it->due);
    part_unlist(p, it);
    qitem_move(it, QITEM_MOVING);
    m->places[m->count] = (struct queue_place){ .batch = it->batch->first, .index = it->index };
    m->ids[m->count] = it->id;
    m->items[m->count++] = it;
}

void part_die(struct part *p, struct slot *s, struct qitem *it, struct queue_change *c)
{
    str to = p->queue->info.dead_queue;
    if (to.n == 0) {
        step_gone(s, it);
        return;
    }
    struct move *m = list_empty(&p->dying) ? NULL : CONTAINER_OF(p->dying.prev, struct move, link);
    if (m == NULL || m->change != c || m->count == MOVE_ITEMS_MAX)
        m = move_new(p, c, to);
    move_add(m, it);
}

/* At most count ready items of a partition on their way to queue to; how many. */
static unsigned requeue_part(struct part *p, str to, unsigned count, struct waiter *w)
{
    struct move *m = NULL;
    unsigned n = 0;
    for (struct qitem *it; part_usable(p) && n < count && n < MOVE_ITEMS_MAX && (it = part_head(p)) != NULL; n++) {
        if (m == NULL)
            m = move_new(p, NULL, to);
        move_add(m, it);
    }
    if (m != NULL) {
        m->waiter = w;
        m->keeps = true;
        waiter_expect(w);
    }
    move_begin(p);
    return n;
}

err queue_requeue(struct queue *dead, struct queue *to, unsigned count, unsigned *moved, struct err_note *note)
{
    struct waiter w;
    unsigned asked = 0;
    err why = ERR_OK;
    if (dead == to) {
        err_note_set(note, "queue is invalid; items cannot be moved to the queue they are in");
        return ERR_BAD;
    }
    waiter_init(&w);
    for (bool more = true; more && asked < count && why == ERR_OK;) {
        more = false;
        queue_enter(dead);
        for (uint32_t i = 0; i < dead->parts_count && asked < count; i++) {
            unsigned n = requeue_part(dead->parts[i], to->info.name, count - asked, &w);
            asked += n;
            more |= n > 0;
        }
        queue_leave(dead);
        why = waiter_wait(&w);
    }
    *moved = w.good;
    waiter_fini(&w);
    if (why != ERR_OK)
        err_note_set(note, "internal error, try your request again");
    return why == ERR_OK ? ERR_OK : ERR_UNAVAILABLE;
}

/* ---- reading and placing: on the pool ---- */

static void key_of(const struct move *m, unsigned i, unsigned char out[16])
{
    unsigned char text[8 + KSUID_BYTES];
    XXH128_canonical_t c;
    put_be32(text, m->place.queue);
    put_be32(text + 4, m->place.partition);
    ksuid_key(m->ids[i], text + 8);
    XXH128_canonicalFromHash(&c, XXH3_128bits_withSeed(text, sizeof text, UINT64_C(0x6d6f7665)));
    memcpy(out, c.digest, 16);
}

/* The bodies of all that go. An item that dies and cannot be read goes to no queue: it is told of, and removed. */
static err bodies_read(struct move *m, str *bodies)
{
    for (unsigned at = 0; at < m->count; at++) {
        struct queue_bodies b = { .at = m->places + at, .count = m->count - at, .bytes_max = UINT64_MAX,
                                  .arena = &m->arena, .out = bodies + at };
        err why = m->store->ops->bodies(m->store, m->place, &b);
        if (why == ERR_OK)
            return ERR_OK;
        at += b.read;
        if (!damage_is(why) || m->keeps)
            return why;
        m->new_count -= !m->skip[at];
        m->skip[at] = true;
        damage_tell(m->part, 1, m->ids[at], "its body cannot be read; it goes to no dead queue");
    }
    return ERR_OK;
}

static err encode(struct move *m, str *out)
{
    str *bodies = arena_calloc(&m->arena, m->count, sizeof *bodies);
    struct item *items = arena_calloc(&m->arena, m->count, sizeof *items);
    if (bodies == NULL || items == NULL)
        return ERR_LIMIT;
    err why = bodies_read(m, bodies);
    unsigned n = 0;
    for (unsigned i = 0; i < m->count && why == ERR_OK; i++) {
        if (m->skip[i])
            continue;
        why = item_decode(bodies[i], &items[n]);
        char *id = arena_alloc(&m->arena, KSUID_TEXT_BYTES + 1);
        if (id == NULL)
            return ERR_LIMIT;
        ksuid_format(m->ids[i], id);
        items[n].source_id = (str){ .p = id, .n = KSUID_TEXT_BYTES };
        items[n++].enqueue_at = STORE_TIME_ZERO;
    }
    return why == ERR_OK && n > 0 ? item_batch_encode(items, n, &m->arena, out) : why;
}

/* Which partition: on the same store when there is one, for then it is one write. */
static struct part *choose(struct move *m)
{
    struct queue *to = m->to;
    struct place_store stores[PLACE_STORES_MAX];
    stores_look(to->all, stores);
    place_look(to->place, stores);
    const struct place_store *same = &stores[m->store_index];
    if (same->status != PLACE_ERROR && same->partition != PLACE_NONE)
        return to->parts[same->partition];
    uint32_t store = place_pick(stores, to->all->opts.stores_count);
    return store == PLACE_NONE ? NULL : to->parts[stores[store].partition];
}

/* Under the lock of the target: what of it is there already. */
static err find_there(struct move *m)
{
    unsigned char hash[16];
    if (m->to->unseen + m->to->unsure > 0)
        return ERR_UNAVAILABLE;
    m->new_count = 0;
    for (unsigned i = 0; i < m->count; i++) {
        key_of(m, i, hash);
        const struct idem *there = idem_find(m->to, hash);
        m->skip[i] = there != NULL && there->stored;
        m->new_count += !m->skip[i];
    }
    return ERR_OK;
}

/* Under the lock of the target: a place, ids, and the ops of its side. */
static err settle_in(struct move *m, str encoded)
{
    struct queue *to = m->to;
    struct part *p = choose(m);
    if (p == NULL || !part_usable(p) || to->draining || to->deleted)
        return ERR_UNAVAILABLE;
    store_time now = clock_store(to->all->opts.clock);
    m->ops = calloc((size_t)m->new_count + 1, sizeof *m->ops);
    INVARIANT(m->ops != NULL);
    m->to_part = p;
    m->to_generation = p->generation;
    m->to_epoch = p->epoch;
    m->to_store_index = p->store;
    m->across = p->store != m->store_index;
    m->batch = batch_new((uint16_t)m->new_count, STR_NONE);
    m->batch->first = part_ids(p, m->new_count, now, rng_next(&to->rng));
    m->batch->created_at = now;
    m->batch->expire_at = store_time_add(now, to->info.expire_timeout_ns);
    batch_ref(m->batch);
    m->ops[m->ops_count++] = (struct queue_op){
        .kind = OP_BATCH_PUT, .u.batch = { .first = m->batch->first, .count = m->batch->count, .created_at = now,
                                           .expire_at = m->batch->expire_at, .states = m->batch->states,
                                           .bytes = encoded } };
    for (unsigned i = 0, at = 0; i < m->count && m->across; i++) {
        if (m->skip[i])
            continue;
        struct queue_op *op = &m->ops[m->ops_count++];
        *op = (struct queue_op){ .kind = OP_KEY_PUT,
                                 .u.key = { .first = ksuid_add(m->batch->first, at++), .count = 1,
                                            .expire_at = store_time_add(now, MOVE_KEY_NS) } };
        key_of(m, i, op->u.key.hash);
    }
    p->placing += m->new_count;
    part_loads(p);
    m->placed = true;
    to->busy++;
    return ERR_OK;
}

/* A dead queue that was deleted is none, though somebody else has a queue of its name now. */
static bool find_target(struct move *m)
{
    struct queue *from = m->part->queue;
    struct err_note note;
    if (queues_find(from->all, (str){ .p = m->to_name, .n = m->to_name_bytes }, &m->to, &note) != ERR_OK)
        return false;
    if (!m->keeps && !str_eq(m->to->info.space, from->info.space)) /* who orders a move was asked for its rights */
        queue_unref(&m->to);
    return m->to != NULL;
}

static err prepare(struct move *m)
{
    struct queues *all = m->part->queue->all;
    struct store_state *st = &all->stores[m->store_index];
    str encoded = STR_NONE;
    if (!find_target(m))
        return m->keeps ? ERR_NOT_FOUND : ERR_OK; /* without a dead queue the items are deleted */
    queue_enter(m->to);
    err why = find_there(m);
    queue_leave(m->to);
    if (why != ERR_OK || m->new_count == 0)
        return why;
    if (pthread_rwlock_tryrdlock(&st->gate) != 0)
        return ERR_UNAVAILABLE;
    why = encode(m, &encoded);
    (void)pthread_rwlock_unlock(&st->gate);
    if (why != ERR_OK || m->new_count == 0)
        return why;
    queue_enter(m->to);
    why = settle_in(m, encoded);
    queue_leave(m->to);
    return why;
}

static void move_run(struct loop_job *j)
{
    struct move *m = CONTAINER_OF(j, struct move, job);
    m->why = prepare(m);
}

/* ---- writing: on the loop, but for what move_build does ---- */

static void side_of_target(const struct move *m, struct queue_write_part *w)
{
    *w = (struct queue_write_part){ .part = { .queue = m->to->number, .partition = m->to_part->number },
                                    .epoch = m->to_epoch, .ready = m->new_count,
                                    .last_id = ksuid_add(m->batch->first, m->new_count - 1), .ops = m->ops,
                                    .ops_count = m->ops_count };
}

/* The target's side is over: its items are there, or not. */
static void deliver(struct move *m)
{
    struct queue *to = m->to;
    struct part *p = m->to_part;
    unsigned char hash[16];
    if (to == NULL)
        return;
    queue_enter(to);
    if (m->placed) {
        m->placed = false;
        p->placing -= m->new_count;
        to->busy--;
        if (m->why == ERR_OK && m->to_generation == p->generation) {
            struct ksuid last = ksuid_add(m->batch->first, m->new_count - 1);
            p->ready += m->new_count;
            p->done_id = ksuid_cmp(last, p->done_id) > 0 ? last : p->done_id;
            part_arrive(p, m->batch);
        } else if (m->why == ERR_IO) {
            to->unsure += !p->unsure;
            p->unsure = true;
            part_failed(p);
        }
        batch_unref(p, m->batch);
        m->batch = NULL;
        part_loads(p);
        for (unsigned i = 0; i < m->ops_count && m->why == ERR_OK; i++)
            if (m->ops[i].kind == OP_KEY_PUT)
                idem_load(p, &m->ops[i].u.key);
    }
    for (unsigned i = 0; i < m->count && m->removed; i++) {
        key_of(m, i, hash);
        idem_end(to, hash); /* the source is rid of it: the key has done its work */
    }
    queue_leave(to);
}

static void move_free(struct move *m)
{
    struct queue *from = m->part->queue;
    INVARIANT(m->batch == NULL);
    INVARIANT(m->by_part.next == &m->by_part);
    free(m->ops);
    arena_fini(&m->arena);
    queue_unref(&m->to);
    queue_unref(&from);
    free(m);
}

static void finished(void *ctx)
{
    struct move *m = ctx;
    deliver(m);
    move_free(m);
}

static void put_back(struct part *p, struct qitem *it)
{
    qitem_move(it, (enum qitem_state)it->from);
    if (it->state == QITEM_LEASED || it->state == QITEM_SCHEDULED) {
        due_add(it, it->due_at);
        return;
    }
    it->state = QITEM_READY;
    part_ready_put(p, it);
}

static bool is_current(const struct move *m)
{
    const struct queue *q = m->part->queue;
    return m->generation == m->part->generation && !q->draining && !q->deleted;
}

/* Under the lock of the source: m is over there, its items are gone, back or lost with the memory they stood in. */
static void end(struct move *m, err why)
{
    struct part *p = m->part;
    struct queue *q = p->queue;
    for (unsigned i = 0; i < m->count && why != ERR_OK && m->generation == p->generation; i++)
        put_back(p, m->items[i]);
    m->removed = why == ERR_OK;
    if (m->change != NULL)
        change_outcome(m->change, why);
    if (m->waiter != NULL)
        waiter_done(m->waiter, why, m->count);
    q->busy--;
    list_remove(&m->by_part);
    if (m->why == ERR_OK)
        m->why = why;
    loop_post(q->all->opts.loop, finished, m);
}

/* Under the lock of the source. */
static void later(struct move *m)
{
    struct queue *q = m->part->queue;
    m->again_at = mono_add_ms(clock_mono(q->all->opts.clock), MOVE_RETRY_MS);
    list_append(&m->part->later, &m->link);
    if (m->again_at.ns < q->held_at.ns)
        q->held_at = m->again_at;
    q->busy--;
}

/* On the loop: nothing came of it; from the beginning, in a while. */
static void again(void *ctx)
{
    struct move *m = ctx;
    struct queue *q = m->part->queue;
    err why = m->why;
    deliver(m);
    queue_unref(&m->to);
    m->to = NULL;
    m->to_part = NULL;
    free(m->ops);
    m->ops = NULL;
    m->ops_count = 0;
    m->across = false;
    m->stage = MOVE_NEW;
    arena_reset(&m->arena);
    queue_ref(q);
    queue_enter(q);
    if (m->keeps || !is_current(m)) {
        end(m, why);
    } else {
        m->why = ERR_OK;
        later(m);
    }
    queue_leave(q);
    queue_unref(&q);
}

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
        list_append(m->stage == MOVE_REMOVE ? &p->moves : &p->dying, n);
        p->queue->busy++;
        queue_work(p);
    }
    return next;
}

/* On the loop: what is next is a write of the source. */
static void to_source(struct move *m)
{
    struct part *p = m->part;
    struct queue *q = p->queue;
    queue_ref(q);
    queue_enter(q);
    if (!is_current(m)) {
        end(m, ERR_UNAVAILABLE);
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
        again(m);
        return;
    }
    deliver(m);
    m->stage = MOVE_REMOVE;
    to_source(m);
}

static void insert_written(struct queue_write *w, err why)
{
    struct move *m = w->ctx;
    m->why = why;
    loop_post(m->part->queue->all->opts.loop, inserted, m);
}

/* On the loop. */
static void insert(void *ctx)
{
    struct move *m = ctx;
    struct queues *all = m->to->all;
    struct store_state *st = &all->stores[m->to_store_index];
    m->stage = MOVE_INSERT;
    side_of_target(m, &m->write.parts[0]);
    m->write.parts_count = 1;
    m->write.deadline = mono_add_ms(clock_mono(all->opts.clock), all->opts.write_timeout_ms);
    m->write.done = insert_written;
    m->write.ctx = m;
    if (pthread_rwlock_tryrdlock(&st->gate) != 0) {
        insert_written(&m->write, ERR_UNAVAILABLE);
        return;
    }
    struct queue_store *store = all->opts.stores[m->to_store_index];
    store->ops->write(store, &m->write);
    (void)pthread_rwlock_unlock(&st->gate);
}

static void move_done(struct loop_job *j, bool canceled)
{
    struct move *m = CONTAINER_OF(j, struct move, job);
    if (canceled)
        m->why = ERR_SHUTDOWN;
    if (m->why != ERR_OK) {
        again(m);
    } else if (m->across && m->placed && m->keeps) {
        insert(m);
    } else {
        m->stage = m->across && m->placed ? MOVE_DOOM : MOVE_REMOVE;
        to_source(m);
    }
}

/* A move from before the memory was thrown away may still be writing into its target: until what came of that is known
 * there, its items, read again since, would be written there once more. */
static bool is_still_moving(const struct part *p)
{
    for (const struct list *n = p->movers.next; n != &p->movers; n = n->next)
        if (CONTAINER_OF(unconst(n), struct move, by_part)->generation != p->generation)
            return true;
    return false;
}

void move_begin(struct part *p)
{
    bool wait = !list_empty(&p->dying) && is_still_moving(p);
    for (struct list *n; (n = list_take(&p->dying)) != NULL;) {
        struct move *m = CONTAINER_OF(n, struct move, link);
        if (wait) {
            later(m);
            continue;
        }
        m->job = (struct loop_job){ .run = move_run, .done = move_done };
        stores_job_start(p->queue->all, m->store_index, &m->job);
    }
}

/* ---- the source's side of a write ---- */

static void doom(struct slot *s, struct qitem *it)
{
    if (it->from != QITEM_LEASED) /* past its time, also after a restart: it is moved before it is given */
        return;
    it->attempts |= ATTEMPTS_DOOMED;
    slot_op(s, OP_LEASE_PUT)->u.lease = qitem_lease(it, it->due_at);
}

void move_build(struct part *p, struct slot *s)
{
    struct list *n = list_first(&p->moves);
    if (n == NULL || s->move != NULL)
        return;
    if (!slot_room(s, MOVE_ITEMS_MAX * STEP_OPS_MAX)) {
        p->first = FIRST_MOVE;
        return;
    }
    struct move *m = CONTAINER_OF(n, struct move, link);
    unsigned before = s->ops_count;
    list_remove(n);
    for (unsigned i = 0; i < m->count; i++) {
        if (m->stage == MOVE_DOOM)
            doom(s, m->items[i]);
        else
            step_gone(s, m->items[i]);
    }
    if (m->stage == MOVE_DOOM && s->ops_count == before) {
        loop_post(p->queue->all->opts.loop, insert, m);
        return;
    }
    s->move = m;
    if (m->stage == MOVE_REMOVE && m->placed) {
        side_of_target(m, &s->write.parts[1]);
        s->write.parts_count = 2;
    }
}

/* Its step was taken back: out of where that put it, still on its way. */
static void keep_moving(struct part *p, struct qitem *it)
{
    if (it->due.place != 0)
        heap_remove(&p->queue->due, &it->due);
    part_unlist(p, it);
    qitem_move(it, QITEM_MOVING);
}

void move_outcome(struct move *m, err why)
{
    struct part *p = m->part;
    struct loop *loop = p->queue->all->opts.loop;
    bool current = m->generation == p->generation && why != ERR_IO && why != ERR_CORRUPT;
    if (why != ERR_OK && m->stage == MOVE_REMOVE && current)
        for (unsigned i = 0; i < m->count; i++)
            keep_moving(p, m->items[i]);
    if (m->stage == MOVE_DOOM && why == ERR_OK) {
        loop_post(loop, insert, m);
    } else if (why == ERR_OK) {
        end(m, ERR_OK);
    } else if (m->stage == MOVE_REMOVE && !m->placed && !m->keeps && current && is_current(m)) {
        later(m); /* it is in the target: only this is left */
    } else if (!current) {
        m->generation = p->generation - 1; /* its items are about to be thrown away */
        m->why = why;
        end(m, why);
    } else {
        m->why = why;
        loop_post(loop, again, m);
    }
}

static void end_all(struct part *p, struct list *moves, bool idle)
{
    for (struct list *n; (n = list_take(moves)) != NULL;) {
        p->queue->busy += idle;
        end(CONTAINER_OF(n, struct move, link), ERR_UNAVAILABLE);
    }
}

void move_lost(struct part *p)
{
    for (struct list *n = p->movers.next; n != &p->movers; n = n->next)
        CONTAINER_OF(n, struct move, by_part)->generation = p->generation - 1;
    move_abandon(p);
}

void move_abandon(struct part *p)
{
    end_all(p, &p->moves, false);
    end_all(p, &p->dying, false);
    end_all(p, &p->later, true);
}

void move_forget_change(struct part *p, const struct queue_change *c)
{
    for (struct list *n = p->movers.next; n != &p->movers; n = n->next) {
        struct move *m = CONTAINER_OF(n, struct move, by_part);
        if (m->change == c)
            m->change = NULL;
    }
}
