/* shown.c - compares what a store shows with a model. */
#include "model.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct look {
    const struct model_part *part;
    struct queue_store *store;
    struct arena arena;
    char *why;
    bool differs;
    unsigned seen;
    struct ksuid from, last;
    store_time at, last_at;
};

static bool differ(struct look *k, const char *format, ...) PRINTF_LIKE(2, 3);
static bool differ(struct look *k, const char *format, ...)
{
    va_list args;
    if (k->differs)
        return false;
    k->differs = true;
    int n = snprintf(k->why, MODEL_WHY_BYTES, "partition %u/%u: ", (unsigned)k->part->part.queue,
                     (unsigned)k->part->part.partition);
    va_start(args, format);
    (void)vsnprintf(k->why + n, (size_t)(MODEL_WHY_BYTES - n), format, args);
    va_end(args);
    return false;
}

static const struct model_batch *batch_of(const struct model_part *p, struct ksuid first)
{
    for (unsigned i = 0; i < p->batches_count; i++)
        if (ksuid_cmp(p->batches[i].first, first) == 0)
            return &p->batches[i];
    return NULL;
}

static const struct model_item *item_by_id(const struct model_part *p, struct ksuid id)
{
    for (unsigned i = 0; i < p->items_count; i++)
        if (ksuid_cmp(p->items[i].entry.id, id) == 0)
            return &p->items[i];
    return NULL;
}

static bool order_fits(const struct model_part *p, struct ksuid batch, str key)
{
    char text[KSUID_TEXT_BYTES + 1];
    const struct model_batch *b = batch_of(p, batch);
    return b != NULL && str_eq(model_order(b, text), key);
}

static bool place_eq(struct queue_place a, struct queue_place b)
{
    return ksuid_cmp(a.batch, b.batch) == 0 && a.index == b.index;
}

static bool entry_eq(const struct queue_entry *a, const struct queue_entry *b)
{
    return ksuid_cmp(a->id, b->id) == 0 && a->kind == b->kind && place_eq(a->place, b->place) &&
           a->attempts == b->attempts && a->enqueue_at.ns == b->enqueue_at.ns &&
           a->created_at.ns == b->created_at.ns && a->expire_at.ns == b->expire_at.ns;
}

/* ---- the record ---- */

static void look_record(struct look *k)
{
    const struct model_part *p = k->part;
    struct queue_part_record r,
        want = { .last_id = p->last_id, .settled = p->settled, .epoch = p->epoch };
    for (unsigned i = 0; i < p->items_count; i++) {
        const struct model_item *it = &p->items[i];
        want.scheduled += it->where == AS_SCHEDULED;
        want.leased += it->leased;
        want.ready += it->where != AS_SCHEDULED && !it->leased;
    }
    for (unsigned i = 0; i < p->batches_count; i++)
        want.bytes += p->batches[i].bytes;
    err why = k->store->ops->record(k->store, p->part, &r);
    if (why != ERR_OK)
        (void)differ(k, "record: %s", err_name(why));
    else if (r.ready != want.ready || r.scheduled != want.scheduled || r.leased != want.leased)
        (void)differ(k, "counts %llu %llu %llu, not %llu %llu %llu", (unsigned long long)r.ready,
                     (unsigned long long)r.scheduled, (unsigned long long)r.leased,
                     (unsigned long long)want.ready, (unsigned long long)want.scheduled,
                     (unsigned long long)want.leased);
    else if (r.bytes != want.bytes)
        (void)differ(k, "%llu bytes, not %llu", (unsigned long long)r.bytes,
                     (unsigned long long)want.bytes);
    else if (ksuid_cmp(r.last_id, want.last_id) != 0 || ksuid_cmp(r.settled, want.settled) != 0)
        (void)differ(k, "another last or settled id");
    else if (r.epoch != want.epoch)
        (void)differ(k, "epoch %llu, not %llu", (unsigned long long)r.epoch,
                     (unsigned long long)want.epoch);
}

/* ---- entries ---- */

static bool look_ready_one(void *ctx, const struct queue_row *row)
{
    struct look *k = ctx;
    const struct queue_entry *e = &row->u.entry;
    const struct model_item *it = item_by_id(k->part, e->id);
    char id[KSUID_TEXT_BYTES + 1];
    ksuid_format(e->id, id);
    if (it == NULL || it->where == AS_SCHEDULED)
        return differ(k, "%s is shown ready", id);
    if (row->in_place != (it->where == IN_PLACE) || !entry_eq(e, &it->entry))
        return differ(k, "ready %s differs", id);
    if (!order_fits(k->part, e->place.batch, e->order_key))
        return differ(k, "the order key of ready %s differs", id);
    if (ksuid_cmp(e->id, k->from) < 0 || (k->seen > 0 && ksuid_cmp(e->id, k->last) <= 0))
        return differ(k, "ready %s is out of order", id);
    k->last = e->id;
    k->seen++;
    return true;
}

static err look_scan(struct look *k, struct queue_scan scan)
{
    scan.part = k->part->part;
    scan.ctx = k;
    return k->store->ops->scan(k->store, &scan);
}

static void look_ready(struct look *k, struct ksuid from)
{
    k->from = from;
    k->seen = 0;
    err why =
        look_scan(k,
                  (struct queue_scan){ .kind = SCAN_READY, .from = from, .each = look_ready_one });
    unsigned want = 0;
    for (unsigned i = 0; i < k->part->items_count; i++)
        want += k->part->items[i].where != AS_SCHEDULED &&
                ksuid_cmp(k->part->items[i].entry.id, from) >= 0;
    if (why != ERR_OK)
        (void)differ(k, "ready: %s", err_name(why));
    else if (k->seen != want)
        (void)differ(k, "%u ready, not %u", k->seen, want);
}

static bool look_scheduled_one(void *ctx, const struct queue_row *row)
{
    struct look *k = ctx;
    const struct queue_entry *e = &row->u.entry;
    const struct model_item *it = item_by_id(k->part, e->id);
    char id[KSUID_TEXT_BYTES + 1];
    ksuid_format(e->id, id);
    if (it == NULL || it->where != AS_SCHEDULED || !entry_eq(e, &it->entry))
        return differ(k, "scheduled %s differs", id);
    if (!order_fits(k->part, e->place.batch, e->order_key))
        return differ(k, "the order key of scheduled %s differs", id);
    int order = e->enqueue_at.ns < k->last_at.ns ? -1 : e->enqueue_at.ns > k->last_at.ns;
    if (k->seen > 0 && (order < 0 || (order == 0 && ksuid_cmp(e->id, k->last) <= 0)))
        return differ(k, "scheduled %s is out of order", id);
    k->last = e->id;
    k->last_at = e->enqueue_at;
    k->seen++;
    return true;
}

static void look_scheduled(struct look *k, store_time at, struct ksuid from)
{
    k->seen = 0;
    err why =
        look_scan(k,
                  (struct queue_scan){
                      .kind = SCAN_SCHEDULED, .at = at, .from = from, .each = look_scheduled_one });
    unsigned want = 0;
    for (unsigned i = 0; i < k->part->items_count; i++) {
        const struct queue_entry *e = &k->part->items[i].entry;
        want += k->part->items[i].where == AS_SCHEDULED &&
                (e->enqueue_at.ns > at.ns ||
                 (e->enqueue_at.ns == at.ns && ksuid_cmp(e->id, from) >= 0));
    }
    if (why != ERR_OK)
        (void)differ(k, "scheduled: %s", err_name(why));
    else if (k->seen != want)
        (void)differ(k, "%u scheduled, not %u", k->seen, want);
}

/* ---- leases, keys ---- */

static bool look_lease_one(void *ctx, const struct queue_row *row)
{
    struct look *k = ctx;
    const struct queue_lease *l = &row->u.lease;
    const struct model_item *it = item_by_id(k->part, l->id);
    char id[KSUID_TEXT_BYTES + 1];
    ksuid_format(l->id, id);
    if (it == NULL || !it->leased)
        return differ(k, "%s is shown leased", id);
    const struct queue_lease *w = &it->lease;
    if (!place_eq(l->place, w->place) || l->in_place != w->in_place ||
        l->deadline.ns != w->deadline.ns || l->attempts != w->attempts || l->token != w->token ||
        l->created_at.ns != w->created_at.ns || l->expire_at.ns != w->expire_at.ns ||
        !order_fits(k->part, l->place.batch, l->order_key))
        return differ(k, "the lease of %s differs", id);
    k->seen++;
    return true;
}

static bool look_key_one(void *ctx, const struct queue_row *row)
{
    struct look *k = ctx;
    const struct queue_key *x = &row->u.key;
    for (unsigned i = 0; i < k->part->keys_count; i++) {
        const struct queue_key *w = &k->part->keys[i];
        if (memcmp(w->hash, x->hash, sizeof(w->hash)) != 0)
            continue;
        if (ksuid_cmp(w->first, x->first) != 0 || w->count != x->count ||
            w->expire_at.ns != x->expire_at.ns ||
            memcmp(w->digest, x->digest, sizeof(w->digest)) != 0)
            return differ(k, "a key differs");
        k->seen++;
        return true;
    }
    return differ(k, "a key that is none");
}

static void look_small(struct look *k)
{
    unsigned leased = 0;
    for (unsigned i = 0; i < k->part->items_count; i++)
        leased += k->part->items[i].leased;
    k->seen = 0;
    err why = look_scan(k, (struct queue_scan){ .kind = SCAN_LEASES, .each = look_lease_one });
    if (why != ERR_OK || k->seen != leased)
        (void)differ(k, "%u leases (%s), not %u", k->seen, err_name(why), leased);
    k->seen = 0;
    why = look_scan(k, (struct queue_scan){ .kind = SCAN_KEYS, .each = look_key_one });
    if (why != ERR_OK || k->seen != k->part->keys_count)
        (void)differ(k, "%u keys (%s), not %u", k->seen, err_name(why), k->part->keys_count);
}

/* ---- batches and bodies ---- */

static void look_batch(struct look *k, const struct model_batch *w)
{
    struct queue_batch b;
    char id[KSUID_TEXT_BYTES + 1];
    ksuid_format(w->first, id);
    err why = k->store->ops->batch(k->store, k->part->part,
                                   &(struct queue_batch_look){
                                       .first = w->first, .arena = &k->arena, .out = &b });
    if (why != ERR_OK)
        (void)differ(k, "batch %s: %s", id, err_name(why));
    else if (b.count != w->count || memcmp(b.states, w->states, w->count) != 0 ||
             ksuid_cmp(b.first, w->first) != 0 || b.created_at.ns != w->created_at.ns ||
             b.expire_at.ns != w->expire_at.ns || !order_fits(k->part, w->first, b.order_key))
        (void)differ(k, "batch %s differs", id);
}

static bool body_fits(str bytes, struct queue_place at)
{
    static _Thread_local char buf[MODEL_ITEM_BYTES_MAX];
    struct item it;
    struct item want = model_item_of(at.batch, at.index, buf);
    return item_decode(bytes, &it) == ERR_OK && str_eq(it.encoding, want.encoding) &&
           str_eq(it.kind, want.kind) && str_eq(it.source_id, want.source_id) &&
           str_eq(it.bytes, want.bytes) && it.enqueue_at.ns == want.enqueue_at.ns;
}

static void look_bodies(struct look *k)
{
    struct queue_place at[MODEL_ITEMS];
    str bodies[MODEL_ITEMS];
    unsigned count = k->part->items_count;
    for (unsigned i = 0; i < count; i++)
        at[i] = k->part->items[i].entry.place;
    struct queue_bodies b = {
        .at = at, .count = count, .bytes_max = UINT64_MAX, .arena = &k->arena, .out = bodies
    };
    err why = count == 0 ? ERR_OK : k->store->ops->bodies(k->store, k->part->part, &b);
    if (why != ERR_OK) {
        (void)differ(k, "bodies: %s", err_name(why));
        return;
    }
    for (unsigned i = 0; i < count; i++)
        if (!body_fits(bodies[i], at[i]))
            (void)differ(k, "the body of item %u of a batch differs", at[i].index);
}

static bool part_shown(struct look *k)
{
    const struct model_part *p = k->part;
    arena_init(&k->arena, 64u << 20);
    look_record(k);
    look_ready(k, KSUID_NIL);
    look_scheduled(k, STORE_TIME_ZERO, KSUID_NIL);
    for (unsigned i = 0; i < p->items_count; i += 5) {
        look_ready(k, p->items[i].entry.id);
        look_ready(k, ksuid_add(p->items[i].entry.id, 1));
        look_scheduled(k, p->items[i].entry.enqueue_at, p->items[i].entry.id);
    }
    look_small(k);
    for (unsigned i = 0; i < p->batches_count; i++)
        look_batch(k, &p->batches[i]);
    look_bodies(k);
    arena_fini(&k->arena);
    return !k->differs;
}

bool model_shown(const struct model *m, struct queue_store *s, char why[MODEL_WHY_BYTES])
{
    for (unsigned i = 0; i < MODEL_PARTS; i++) {
        struct look k = { .part = &m->parts[i], .store = s, .why = why };
        if (!part_shown(&k))
            return false;
    }
    return true;
}
