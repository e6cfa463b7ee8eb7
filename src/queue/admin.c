/* admin.c - looking into a queue and changing what is in it, by calls that block: pool threads. */
#include "queue/lease/wait.h"
#include "queue/order/flush.h"

#include "base/buf.h"
#include "base/date.h"
#include "base/log.h"
#include "queue/admin.h"

#include <string.h>

enum {
    ADMIN_CHUNK = 500,
    WHY_BYTES_MAX = 4 << 20,
    ADMIN_WAIT_MS = 60000,
    ADMIN_ARENA_BYTES_MAX = 64 << 20
};

err part_check(struct queue *q, uint32_t partition, struct err_note *note)
{
    if (partition < atomic_load(&q->parts_shown))
        return ERR_OK;
    err_note_set(note, "partition is invalid; '%u' is not a valid partition", partition);
    return ERR_BAD;
}

/* The array of partitions grows under the lock; a partition stays where it is. */
static struct part *part_at(struct queue *q, uint32_t partition)
{
    queue_enter(q);
    struct part *p = q->parts[partition];
    queue_leave(q);
    return p;
}

/* A store that does not answer may not do so for long: nobody waits for it on a thread of the
 * pool. */
err part_readable(const struct part *p, struct err_note *note)
{
    queue_enter(p->queue);
    err why = stores_silent(p->queue->all, p->store) ? part_failing_note(p, note) : ERR_OK;
    queue_leave(p->queue);
    return why;
}

/* Its store did not answer who looked there: it is probed, and those who come meanwhile do not
 * wait. */
void part_looked(const struct part *p, err why)
{
    if (why != ERR_UNAVAILABLE && why != ERR_TIMEOUT)
        return;
    queue_enter(p->queue);
    uint32_t store = p->store;
    queue_leave(p->queue);
    stores_written(p->queue->all, store, ERR_UNAVAILABLE, 0, false);
}

/* ---- stats ---- */

struct ages {
    store_time now;
    double sum_ns, leased_sum_ns;
    uint64_t count, leased_count;
};

static int64_t average_ns(double sum_ns, uint64_t count)
{
    return count == 0 ? 0 : (int64_t)(sum_ns / (double)count);
}

static void add_age(void *ctx, struct hash_node *n)
{
    struct ages *a = ctx;
    const struct qitem *it = CONTAINER_OF(n, struct qitem, by_id);
    if (it->state == QITEM_SCHEDULED || (it->state == QITEM_ENDING && it->from == QITEM_SCHEDULED))
        return;
    a->count++;
    int64_t age_ns = a->now.ns - it->created_at.ns, left_ns = it->due_at.ns - a->now.ns;
    a->sum_ns += age_ns > 0 ? (double)age_ns : 0;
    if (it->state == QITEM_LEASED) {
        a->leased_count++;
        a->leased_sum_ns +=
            left_ns > 0 ? (double)left_ns : 0; /* one past its deadline may wait for its store */
    }
}

static const char *state_of(const struct part *p, enum place_status s)
{
    if (p->foreign)
        return "standby";
    if (p->failing || s == PLACE_ERROR)
        return "error";
    if (p->mode == PART_DRAINING)
        return "draining";
    if (p->mode == PART_PAUSED)
        return "paused";
    return place_status_name(s);
}

static void part_stats(struct part *p, store_time now, struct queue_part_stats *out)
{
    struct ages ages = { .now = now };
    struct qitem *head = part_head(p);
    hash_each(&p->items, add_age, &ages);
    int64_t ready = p->ready - p->granting;
    *out = (struct queue_part_stats){
        .partition = p->number,
        .ready = ready < 0 ? 0 : (uint64_t)ready,
        .scheduled = (uint64_t)p->scheduled,
        .leased = (uint64_t)(p->leased + p->granting),
        .placing = (uint64_t)p->placing,
        .failures = p->failures,
        .damaged = atomic_load(&p->damaged),
        .moving = move_items(p),
        .moves_failed = p->moves_failed,
        .average_age_ns = average_ns(ages.sum_ns, ages.count),
        .average_leased_age_ns = average_ns(ages.leased_sum_ns, ages.leased_count),
        .oldest_age_ns =
            head == NULL ? 0 : store_time_max(now, head->ready_at).ns - head->ready_at.ns,
        .state = state_of(p, stores_status(p->queue->all, p->store)),
        .store = part_store(p)->name
    };
}

err queue_stats_get(struct queue *q, struct arena *a, struct queue_stats *out)
{
    uint32_t count = atomic_load(&q->parts_shown);
    struct queue_part_stats *parts = arena_calloc(a, count, sizeof *parts);
    if (parts == NULL)
        return ERR_LIMIT;
    queue_enter(q);
    store_time now = clock_store(q->all->opts.clock);
    for (uint32_t i = 0; i < count; i++)
        part_stats(q->parts[i], now, &parts[i]);
    *out = (struct queue_stats){ .produce_waiting = q->produces_waiting,
                                 .lease_waiting = q->leases_waiting,
                                 .complete_waiting = q->changes_waiting,
                                 .in_flight = q->requests,
                                 .parts = parts,
                                 .parts_count = count };
    queue_leave(q);
    return ERR_OK;
}

/* ---- removing ---- */

static void changed(struct queue_change *c, err why)
{
    waiter_done(c->ctx, why, c->items_count);
}

/* Deletes them, or clears those of the kinds that are named. */
static err remove_wait(struct queue *q, const struct queue_kinds *kinds, uint32_t partition,
                       const str *ids, unsigned count, struct err_note *note)
{
    struct arena a;
    struct waiter w;
    arena_init(&a, ADMIN_ARENA_BYTES_MAX);
    struct queue_change_item *items = arena_calloc(&a, (size_t)count + 1, sizeof *items);
    if (items == NULL) {
        err_note_set(note, "queue is overloaded; try again later");
        return ERR_LIMIT;
    }
    waiter_init(&w);
    for (unsigned i = 0; i < count; i++)
        items[i].id = ids[i];
    struct queue_change c = { .queue = q,
                              .kind = kinds == NULL ? CHANGE_DELETE : CHANGE_CLEAR,
                              .clears =
                                  kinds == NULL ? (struct queue_kinds){ .ready = false } : *kinds,
                              .partition = partition,
                              .items = items,
                              .items_count = count,
                              .arena = &a,
                              .home = &w.home,
                              .done = changed,
                              .ctx = &w,
                              .deadline =
                                  mono_add_ms(clock_mono(q->all->opts.clock), ADMIN_WAIT_MS) };
    waiter_expect(&w);
    err why = queue_change_start(&c);
    if (why == ERR_OK)
        why = waiter_wait(&w);
    else
        w.left = 0;
    if (why != ERR_OK)
        err_note_set(note, "%s", c.note.text);
    waiter_fini(&w);
    arena_fini(&a);
    return why;
}

err queue_items_delete(struct queue *q, uint32_t partition, const str *ids, unsigned count,
                       struct err_note *note)
{
    err why = part_check(q, partition, note);
    if (why == ERR_OK && count == 0) {
        err_note_set(note, "ids is invalid; cannot be empty");
        why = ERR_BAD;
    }
    if (why == ERR_OK)
        why = part_readable(part_at(q, partition), note);
    return why == ERR_OK ? remove_wait(q, NULL, partition, ids, count, note) : why;
}

struct gather {
    struct ksuid ids[ADMIN_CHUNK];
    unsigned count;
    struct ksuid last;
};

static bool gather_ready(void *ctx, const struct queue_row *row)
{
    struct gather *g = ctx;
    const struct queue_entry *e = &row->u.entry;
    if (ksuid_cmp(e->id, g->last) > 0)
        return false;
    g->ids[g->count++] = e->id;
    return g->count < ADMIN_CHUNK;
}

static bool gather_scheduled(void *ctx, const struct queue_row *row)
{
    struct gather *g = ctx;
    const struct queue_entry *e = &row->u.entry;
    if (ksuid_cmp(e->id, g->last) > 0)
        return true;
    g->ids[g->count++] = e->id;
    return g->count < ADMIN_CHUNK;
}

static err remove_gathered(struct queue *q, struct part *p, const struct gather *g,
                           const struct queue_kinds *kinds, struct err_note *note)
{
    char texts[ADMIN_CHUNK][KSUID_TEXT_BYTES + 1];
    str ids[ADMIN_CHUNK];
    for (unsigned i = 0; i < g->count; i++) {
        ksuid_format(g->ids[i], texts[i]);
        ids[i] = (str){ .p = texts[i], .n = KSUID_TEXT_BYTES };
    }
    return remove_wait(q, kinds, p->number, ids, g->count, note);
}

/* moved: to another store meanwhile; what was seen says nothing then. */
static err gather(struct queue *q, struct part *p, bool scheduled, struct ksuid from,
                  struct gather *g, bool *moved)
{
    const struct queue_scan scan = { .part = { .queue = q->number, .partition = p->number },
                                     .kind = scheduled ? SCAN_SCHEDULED : SCAN_READY,
                                     .from = scheduled ? KSUID_NIL : from,
                                     .each = scheduled ? gather_scheduled : gather_ready,
                                     .ctx = g };
    g->count = 0;
    queue_enter(q);
    struct queue_store *store = part_store(p);
    queue_leave(q);
    err why = store->ops->scan(store, &scan);
    queue_enter(q);
    *moved = store != part_store(p);
    queue_leave(q);
    return why;
}

/* last: the greatest id that the partition has given. Only its owner knows that one. A store that
 * does not answer is not waited for. */
static err clear_begin(const struct part *p, struct ksuid *last, struct err_note *note)
{
    queue_enter(p->queue);
    bool fails = part_failing(p) || stores_silent(p->queue->all, p->store);
    err why = p->owned && !fails ? ERR_OK : part_failing_note(p, note);
    *last = p->last_id;
    queue_leave(p->queue);
    return why;
}

/* All ready or scheduled ones that were there when it began, and are still of one of the kinds. */
static err clear_part(struct queue *q, struct part *p, bool scheduled,
                      const struct queue_kinds *kinds, struct err_note *note)
{
    struct gather g = { .count = 0 };
    struct ksuid from = KSUID_NIL;
    err begun = clear_begin(p, &g.last, note);
    if (begun != ERR_OK)
        return begun;
    for (;;) {
        bool moved;
        err why = part_readable(p, note);
        if (why != ERR_OK)
            return why;
        why = gather(q, p, scheduled, from, &g, &moved);
        if (moved)
            continue;
        part_looked(p, why);
        if (why != ERR_OK) {
            err_note_set(note, "internal error, try your request again");
            return ERR_UNAVAILABLE;
        }
        if (g.count == 0)
            return ERR_OK;
        from = ksuid_add(g.ids[g.count - 1], 1);
        why = remove_gathered(q, p, &g, kinds, note);
        if (why != ERR_OK)
            return why;
    }
}

err queue_clear(struct queue *q, bool ready, bool scheduled, bool destructive,
                struct err_note *note)
{
    const struct queue_kinds kinds = { .ready = ready,
                                       .scheduled = scheduled,
                                       .leased = ready && destructive };
    err why = ERR_OK;
    if (!ready && !scheduled) {
        err_note_set(note, "invalid clear request; one of 'queue', 'scheduled' must be true");
        return ERR_BAD;
    }
    struct ksuid last;
    uint32_t count = atomic_load(&q->parts_shown);
    for (uint32_t i = 0; i < count && why == ERR_OK; i++) /* before one of them is cleared */
        why = clear_begin(part_at(q, i), &last, note);
    for (uint32_t i = 0; i < count && why == ERR_OK; i++) {
        if (scheduled) /* first: what is due meanwhile is ready then */
            why = clear_part(q, part_at(q, i), true, &kinds, note);
        if (why == ERR_OK && ready)
            why = clear_part(q, part_at(q, i), false, &kinds, note);
    }
    log_event(q->all->opts.log, LOG_INFO, "queue.clear", LOG_STR("name", q->info.name),
              LOG_CSTR("outcome", err_name(why)));
    return why;
}

/* ---- why ---- */

static void put_decision(struct buf *b, struct queue *q, const struct place_decision *d)
{
    char at[DATE_RFC3339_BYTES + 1];
    date_format_ms(d->at.ns, at);
    buf_printf(b, "{\"seq\":%llu,\"at\":\"%s\",\"items\":%u,\"partition\":",
               (unsigned long long)d->seq, at, d->items);
    if (d->partition == PLACE_NONE)
        buf_put(b, STR("null"));
    else
        buf_printf(b, "%u", d->partition);
    buf_printf(b, ",\"by_order_key\":%s,\"replays\":%s,\"loads\":[", d->fixed ? "true" : "false",
               place_replays(q->place, d) ? "true" : "false");
    for (uint32_t i = 0; i < d->loads_count; i++)
        buf_printf(b, "%s%llu", i == 0 ? "" : ",", (unsigned long long)d->loads[i]);
    buf_put(b, STR("],\"stores\":["));
    for (unsigned i = 0; i < q->all->opts.stores_count; i++) {
        const struct place_store *s = &d->stores[i];
        buf_printf(b, "%s{\"name\":\"%s\",\"state\":\"%s\",\"in_flight\":%u,\"write_us\":%lld",
                   i == 0 ? "" : ",", q->all->opts.stores[i]->name, place_status_name(s->status),
                   s->in_flight, (long long)(s->write_ns / 1000));
        if (s->partition != PLACE_NONE)
            buf_printf(b, ",\"partition\":%u,\"load\":%llu", s->partition,
                       (unsigned long long)s->load);
        buf_put_c(b, '}');
    }
    buf_put(b, STR("]}\n"));
}

err queue_why(struct queue *q, unsigned limit, struct arena *a, str *out)
{
    struct buf b;
    buf_init(&b, WHY_BYTES_MAX);
    queue_enter(q);
    unsigned count = place_decisions(q->place);
    for (unsigned i = 0; i < count && (limit == 0 || i < limit); i++)
        put_decision(&b, q, place_decision_at(q->place, i));
    queue_leave(q);
    err why = buf_status(&b);
    if (why == ERR_OK)
        *out = arena_copy(a, buf_str(&b));
    buf_fini(&b);
    return why == ERR_OK && out->p == NULL ? ERR_LIMIT : why;
}
