#include "model.h"

#include "lib/wait.h"

#include <stdio.h>
#include <string.h>

/* ---- what follows from an id ---- */

str model_order(const struct model_batch *b, char text[KSUID_TEXT_BYTES + 1])
{
    if (!b->has_order)
        return STR_NONE;
    ksuid_format(b->first, text);
    return (str){ .p = text, .n = KSUID_TEXT_BYTES };
}

struct item model_item_of(struct ksuid first, unsigned index, char *buf)
{
    static const size_t sizes[] = { 0, 7, 100, 400, 3000, 20000 };
    struct rng r;
    rng_init(&r, first.low * 1000 + index);
    size_t n = sizes[rng_below(&r, first.low % 4 == 0 ? COUNT_OF(sizes) : 3)];
    for (size_t i = 0; i < n; i++)
        buf[i] = (char)rng_next(&r);
    return (struct item){
        .encoding = STR("e"),
        .kind = str_take(STR("kind"), index % 5),
        .source_id = str_take(STR("source"), index % 7),
        .bytes = { .p = buf, .n = n },
        .enqueue_at = { .ns = (int64_t)(first.low % 3) },
    };
}

static str batch_bytes(const struct model_batch *b, struct arena *a)
{
    struct item items[MODEL_BATCH_ITEMS];
    for (unsigned i = 0; i < b->count; i++) {
        char *buf = arena_alloc(a, MODEL_ITEM_BYTES_MAX);
        INVARIANT(buf != NULL);
        items[i] = model_item_of(b->first, i, buf);
    }
    str bytes;
    INVARIANT(item_batch_encode(items, b->count, a, &bytes) == ERR_OK);
    return bytes;
}

/* ---- beginning ---- */

void model_init(struct model *m, uint64_t seed, uint32_t queue)
{
    memset(m, 0, sizeof(*m));
    rng_init(&m->rng, seed);
    m->now = (store_time){ .ns = 1600000000 * NS_PER_S };
    for (unsigned i = 0; i < MODEL_PARTS; i++)
        m->parts[i].part = (struct queue_part){ .queue = queue + i / 2,
                                                .partition = i % 2 * QUEUE_PARTITIONS_MAX };
}

static const unsigned char this_boot[QUEUE_BOOT_BYTES] = "this boot";

err model_own(struct model *m, struct queue_store *s)
{
    struct queue_part parts[MODEL_PARTS];
    struct queue_part_record records[MODEL_PARTS];
    struct err_note note;
    for (unsigned i = 0; i < MODEL_PARTS; i++)
        parts[i] = m->parts[i].part;
    err why = s->ops->own(s, &(struct queue_own){ .parts = parts,
                                                  .count = MODEL_PARTS,
                                                  .boot = this_boot,
                                                  .out = records,
                                                  .note = &note });
    for (unsigned i = 0; why == ERR_OK && i < MODEL_PARTS; i++)
        m->parts[i].epoch = records[i].epoch;
    return why;
}

err model_own_one(struct queue_store *s, struct queue_part p, struct queue_part_record *out)
{
    return s->ops->own(s, &(struct queue_own){
                              .parts = &p, .count = 1, .boot = this_boot, .out = out });
}

/* ---- changes ---- */

/* One side of a write while it is made. */
struct side {
    struct model *m;
    struct model_part *part;
    struct model_write *w;
    struct queue_write_part *out;
    struct queue_op *ops;
};

static struct side side_begin(struct model *m, struct model_write *w, struct model_part *part)
{
    unsigned i = w->write.parts_count++;
    w->write.parts[i] =
        (struct queue_write_part){ .part = part->part, .epoch = part->epoch, .ops = w->ops[i] };
    return (
        struct side){ .m = m, .part = part, .w = w, .out = &w->write.parts[i], .ops = w->ops[i] };
}

static struct queue_op *op_add(struct side *s, enum queue_op_kind kind)
{
    INVARIANT(s->out->ops_count < MODEL_OPS);
    struct queue_op *op = &s->ops[s->out->ops_count++];
    *op = (struct queue_op){ .kind = kind };
    return op;
}

static struct ksuid mint(struct side *s, unsigned count)
{
    struct ksuid last = s->part->last_id;
    struct ksuid id = ksuid_at(s->m->now, last.high, 1);
    if (ksuid_cmp(id, last) <= 0)
        id = ksuid_add(last, 1 + rng_below(&s->m->rng, 3));
    s->part->last_id = s->out->last_id = ksuid_add(id, count - 1u);
    return id;
}

static struct model_batch *batch_of(struct model_part *p, struct ksuid first)
{
    for (unsigned i = 0; i < p->batches_count; i++)
        if (ksuid_cmp(p->batches[i].first, first) == 0)
            return &p->batches[i];
    INVARIANT(false);
    return NULL;
}

static void keep_order(struct side *s, str *key, struct ksuid first)
{
    char text[KSUID_TEXT_BYTES + 1];
    *key = arena_copy(&s->w->arena, model_order(batch_of(s->part, first), text));
}

/* The states of a batch as they are now; a batch that is gone goes. */
static void states_put(struct side *s, struct ksuid first)
{
    struct model_batch *b = batch_of(s->part, first);
    struct queue_op *op = NULL;
    for (unsigned i = 0; i < s->out->ops_count && op == NULL; i++)
        if (s->ops[i].kind == OP_BATCH_STATES && ksuid_cmp(s->ops[i].u.batch.first, first) == 0)
            op = &s->ops[i];
    if (op == NULL)
        op = op_add(s, OP_BATCH_STATES);
    str states = arena_copy(&s->w->arena, (str){ .p = (const char *)b->states, .n = b->count });
    op->u.batch.first = first;
    op->u.batch.count = b->count;
    op->u.batch.states = (const unsigned char *)states.p;
    for (unsigned i = 0; i < b->count; i++)
        if (b->states[i] != ITEM_GONE)
            return;
    *b = s->part->batches[--s->part->batches_count];
}

static void count_item(struct side *s, const struct model_item *it, int64_t by)
{
    if (it->where == AS_SCHEDULED)
        s->out->scheduled += by;
    else if (it->leased)
        s->out->leased += by;
    else
        s->out->ready += by;
}

static void entry_op(struct side *s, enum queue_op_kind kind, const struct model_item *it)
{
    struct queue_op *op = op_add(s, kind);
    op->u.entry = it->entry;
    op->u.entry.kind = it->where == AS_SCHEDULED ? ENTRY_SCHEDULED : ENTRY_READY;
    keep_order(s, &op->u.entry.order_key, it->entry.place.batch);
}

/* Takes an item from where it is, its lease too. */
static void item_leave(struct side *s, struct model_item *it, enum queue_item_state state)
{
    count_item(s, it, -1);
    if (it->leased)
        op_add(s, OP_LEASE_DELETE)->u.lease.id = it->entry.id;
    if (it->where != IN_PLACE)
        entry_op(s, OP_ENTRY_DELETE, it);
    it->leased = false;
    struct model_batch *b = batch_of(s->part, it->entry.place.batch);
    if (b->states[it->entry.place.index] == state)
        return;
    b->states[it->entry.place.index] = (unsigned char)state;
    states_put(s, b->first);
}

static void item_arrive(struct side *s, struct model_item *it, enum model_where where)
{
    it->where = where;
    it->entry.kind = where == AS_SCHEDULED ? ENTRY_SCHEDULED : ENTRY_READY;
    if (where != AS_SCHEDULED)
        it->entry.enqueue_at = STORE_TIME_ZERO;
    count_item(s, it, 1);
    if (where != IN_PLACE)
        entry_op(s, OP_ENTRY_PUT, it);
}

static void item_remove(struct model_part *p, struct model_item *it)
{
    *it = p->items[--p->items_count];
}

/* Puts a batch of count items; which of them are scheduled is left to chance, all of them often. */
static void produce(struct side *s, unsigned count)
{
    struct model *m = s->m;
    struct model_part *p = s->part;
    if (p->batches_count == MODEL_BATCHES || p->items_count + count > MODEL_ITEMS)
        return;
    struct model_batch *b = &p->batches[p->batches_count++];
    *b = (struct model_batch){
        .first = mint(s, count),
        .count = (uint16_t)count,
        .created_at = m->now,
        .expire_at = store_time_add(m->now, NS_PER_S * (int64_t)rng_below(&m->rng, 1000)),
        .has_order = rng_below(&m->rng, 3) == 0,
    };
    struct queue_op *op = op_add(s, OP_BATCH_PUT);
    uint64_t scheduled = rng_below(&m->rng, 4);
    for (unsigned i = 0; i < count; i++) {
        struct model_item *it = &p->items[p->items_count++];
        *it = (struct model_item){ .entry = {
                                       .id = ksuid_add(b->first, i),
                                       .place = { .batch = b->first, .index = (uint16_t)i },
                                       .created_at = b->created_at,
                                       .expire_at = b->expire_at,
                                   } };
        bool later = scheduled == 0 || (scheduled == 1 && rng_below(&m->rng, 2) == 0);
        b->states[i] = later ? ITEM_ELSEWHERE : ITEM_IN_PLACE;
        it->entry.enqueue_at =
            later ? store_time_add(m->now, (int64_t)rng_below(&m->rng, 9)) : STORE_TIME_ZERO;
        item_arrive(s, it, later ? AS_SCHEDULED : IN_PLACE);
    }
    str states = arena_copy(&s->w->arena, (str){ .p = (const char *)b->states, .n = count });
    op->u.batch = (struct queue_batch){
        .first = b->first,
        .count = b->count,
        .created_at = b->created_at,
        .expire_at = b->expire_at,
        .states = (const unsigned char *)states.p,
        .bytes = batch_bytes(b, &s->w->arena),
    };
    b->bytes = op->u.batch.bytes.n;
    keep_order(s, &op->u.batch.order_key, b->first);
}

static struct model_item *any_item(struct side *s, bool leased)
{
    struct model_part *p = s->part;
    if (p->items_count == 0)
        return NULL;
    struct model_item *it = &p->items[rng_below(&s->m->rng, p->items_count)];
    return it->leased == leased ? it : NULL;
}

static void lease(struct side *s)
{
    struct model_item *it = any_item(s, false);
    if (it == NULL || it->where == AS_SCHEDULED)
        return;
    count_item(s, it, -1);
    it->leased = true;
    count_item(s, it, 1);
    it->lease = (struct queue_lease){
        .id = it->entry.id,
        .place = it->entry.place,
        .in_place = it->where == IN_PLACE,
        .deadline = store_time_add(s->m->now, NS_PER_S),
        .attempts = it->entry.attempts + 1,
        .token = rng_next(&s->m->rng),
        .created_at = it->entry.created_at,
        .expire_at = it->entry.expire_at,
    };
    struct queue_op *op = op_add(s, OP_LEASE_PUT);
    op->u.lease = it->lease;
    keep_order(s, &op->u.lease.order_key, it->entry.place.batch);
}

static void extend(struct side *s)
{
    struct model_item *it = any_item(s, true);
    if (it == NULL)
        return;
    it->lease.deadline = store_time_add(s->m->now, 5 * NS_PER_S);
    struct queue_op *op = op_add(s, OP_LEASE_PUT);
    op->u.lease = it->lease;
    keep_order(s, &op->u.lease.order_key, it->entry.place.batch);
}

static void complete(struct side *s)
{
    struct model_item *it = any_item(s, rng_below(&s->m->rng, 5) != 0);
    if (it == NULL)
        return;
    item_leave(s, it, ITEM_GONE);
    item_remove(s->part, it);
}

/* Expiry, retry and a due schedule: to the tail, or to a later instant, under a new id. */
static void move_on(struct side *s)
{
    struct model_item *it = any_item(s, rng_below(&s->m->rng, 3) != 0);
    if (it == NULL)
        return;
    it->entry.attempts += it->leased;
    item_leave(s, it, ITEM_ELSEWHERE);
    it->entry.id = mint(s, 1);
    bool later = rng_below(&s->m->rng, 3) == 0;
    it->entry.enqueue_at = store_time_add(s->m->now, (int64_t)rng_below(&s->m->rng, 9));
    item_arrive(s, it, later ? AS_SCHEDULED : AS_READY);
}

static void change_key(struct side *s)
{
    struct model_part *p = s->part;
    struct rng *r = &s->m->rng;
    if (p->keys_count > 0 && rng_below(r, 2) == 0) {
        struct queue_key *k = &p->keys[rng_below(r, p->keys_count)];
        op_add(s, OP_KEY_DELETE)->u.key = *k;
        *k = p->keys[--p->keys_count];
    } else if (p->keys_count < MODEL_KEYS) {
        struct queue_key k = { .first = p->last_id, .count = 3, .expire_at = s->m->now };
        for (size_t i = 0; i < sizeof(k.hash); i++)
            k.hash[i] = (unsigned char)rng_next(r);
        for (size_t i = 0; i < sizeof(k.digest) && k.hash[0] % 3 > 0;
             i++) /* older stores had none */
            k.digest[i] = (unsigned char)rng_next(r);
        p->keys[p->keys_count++] = k;
        op_add(s, OP_KEY_PUT)->u.key = k;
    }
}

/* To another partition: inserted there, removed here, in one. */
static void move_over(struct side *from, struct side *to)
{
    struct model_item *it = any_item(from, true);
    if (it == NULL || to->part->batches_count == MODEL_BATCHES ||
        to->part->items_count == MODEL_ITEMS)
        return;
    produce(to, 1);
    item_leave(from, it, ITEM_GONE);
    item_remove(from->part, it);
}

static void change_some(struct side *s)
{
    static void (*const changes[])(struct side * s) = { lease,   lease,    lease,
                                                        extend,  complete, complete,
                                                        move_on, move_on,  change_key };
    void (*change)(struct side *) = changes[rng_below(&s->m->rng, COUNT_OF(changes))];
    unsigned count = 1 + (unsigned)rng_below(&s->m->rng, 5);
    for (unsigned i = 0; i < count; i++)
        change(s);
}

static bool only_leases(const struct queue_write_part *p)
{
    for (unsigned i = 0; i < p->ops_count; i++)
        if (p->ops[i].kind != OP_LEASE_PUT)
            return false;
    return p->ops_count > 0;
}

void model_step(struct model *m, struct model_write *w)
{
    memset(w, 0, sizeof(*w));
    arena_init(&w->arena, 16u << 20);
    m->steps++;
    m->now = store_time_add(m->now, (int64_t)rng_below(&m->rng, 2 * (uint64_t)NS_PER_S));
    unsigned at = (unsigned)rng_below(&m->rng, MODEL_PARTS);
    struct side s = side_begin(m, w, &m->parts[at]);
    uint64_t what = rng_below(&m->rng, 10);
    if (what < 3) {
        produce(&s, what < 2 ? 1 : 1 + (unsigned)rng_below(&m->rng, MODEL_BATCH_ITEMS));
    } else if (what == 3) {
        struct side to = side_begin(m, w, &m->parts[(at + 1) % MODEL_PARTS]);
        move_over(&s, &to);
    } else {
        change_some(&s);
    }
    if (ksuid_cmp(s.part->settled, s.part->last_id) < 0 && rng_below(&m->rng, 3) == 0)
        s.part->settled = s.out->settled = s.part->last_id;
    w->write.early = w->write.parts_count == 1 && only_leases(s.out);
}

void model_write_fini(struct model_write *w)
{
    arena_fini(&w->arena);
}

/* ---- writing ---- */

static void write_done(struct queue_write *w, err why)
{
    awaited_tell(w->ctx, why);
}

err model_write_run(struct queue_store *s, struct queue_write *w)
{
    struct awaited x;
    awaited_init(&x);
    w->done = write_done;
    w->ctx = &x;
    s->ops->write(s, w);
    err why = awaited_wait(&x);
    awaited_fini(&x);
    return why;
}

err model_write_nothing(struct queue_store *s, struct queue_part p, uint64_t epoch)
{
    struct queue_write w = { .parts = { { .part = p, .epoch = epoch } }, .parts_count = 1 };
    return model_write_run(s, &w);
}
