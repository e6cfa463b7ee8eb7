/* admin.c - looking into a queue and changing what is in it, for the administration in app:
 * figures, deleting, clearing, decisions. Thread: pool. Deleting and clearing are told_jobs
 * (store/job.h): they hold no thread while a store answers later. */
#include "queue/order/flush.h"

#include "base/buf.h"
#include "base/date.h"
#include "base/log.h"
#include "queue/admin.h"

#include <stdlib.h>
#include <string.h>

/* Ids of one chunk of a clear; bounds of a text and of waiting. */
enum {
    ADMIN_CHUNK = 500,
    WHY_BYTES_MAX = 4 << 20,
    ADMIN_WAIT_MS = 60000,
    ADMIN_ARENA_BYTES_MAX = 64 << 20,
    PROGRESS_NOTE_BYTES = 180, /* of what failed */
};

/* Without the lock: partitions are never taken away. */
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

/* A store did not answer a look into a partition. The store is probed, and those who come
 * meanwhile do not wait. */
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

/* Sums over the items in memory: a sample, when more are in the store. */
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
    /* A schedule has no age: it is not ready yet. */
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

/* The worst comes first: a client sees one state. */
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
    /* The store's counts have a grant as ready until it is written; here it is leased. */
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

/* Partitions that are added meanwhile are left out: the array is made before the lock. */
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

/* Items by id: all of them, or those that are of the kinds. */
struct removing {
    const struct queue_kinds *kinds; /* NULL: all */
    uint32_t partition;
    const str *ids;
    unsigned count;
    struct err_note *note;
    struct queue_later *later;
};

/* A change of a queue's own, whose caller is told later. */
struct removal {
    struct queue_change change;
    struct arena arena;
    struct err_note *note;
    struct queue_later *later;
};

/* At the home of who is told. */
static void admin_removed(struct queue_change *c, err why)
{
    /* The change is over: what it used goes before the caller is told. */
    struct removal *r = CONTAINER_OF(c, struct removal, change);
    struct queue_later *later = r->later;
    if (why != ERR_OK)
        err_note_set(r->note, "%s", c->note.text);
    arena_fini(&r->arena);
    free(r);
    later->why = why;
    /* Runs here, since this is later's home already. */
    later->task.run(&later->task);
}

/* ERR_AGAIN: later is told. */
static err remove_start(struct queue *q, const struct removing *w)
{
    struct removal *r = calloc(1, sizeof *r);
    INVARIANT(r != NULL);
    arena_init(&r->arena, ADMIN_ARENA_BYTES_MAX);
    /* Copies: the caller's ids need not last until the change is over. */
    struct queue_change_item *items = arena_calloc(&r->arena, (size_t)w->count + 1, sizeof *items);
    for (unsigned i = 0; items != NULL && i < w->count; i++)
        items[i].id = arena_copy(&r->arena, w->ids[i]);
    r->note = w->note;
    r->later = w->later;
    r->change = (struct queue_change){
        .queue = q,
        .kind = w->kinds == NULL ? CHANGE_DELETE : CHANGE_CLEAR,
        .clears = w->kinds == NULL ? (struct queue_kinds){ .ready = false } : *w->kinds,
        .partition = w->partition,
        .items = items,
        .items_count = w->count,
        .arena = &r->arena,
        .home = w->later->home,
        .done = admin_removed,
        .deadline = mono_add_ms(clock_mono(q->all->opts.clock), ADMIN_WAIT_MS)
    };
    /* Stays when there is no memory; queue_change_start begins with an empty note. */
    err_note_set(&r->change.note, "queue is overloaded; try again later");
    err why = arena_is_starved(&r->arena) ? ERR_LIMIT : queue_change_start(&r->change);
    if (why == ERR_OK)
        return ERR_AGAIN;
    err_note_set(w->note, "%s", r->change.note.text);
    arena_fini(&r->arena);
    free(r);
    return why;
}

void progress_note(struct err_note *note, unsigned done, unsigned count, const char *what)
{
    struct err_note why = *note;
    if (done > 0)
        err_note_set(note, "the first %u of %u items were %s; then: %.*s", done, count, what,
                     PROGRESS_NOTE_BYTES, why.text);
}

/* ---- deleting: chunk after chunk ---- */

/* One order to delete, made by queue_items_delete; deletion_end frees it. */
struct deletion {
    struct told_job told;
    const struct queue_deletion *order;
    struct err_note *note;
    struct queue *q;
    unsigned done, count; /* that are deleted; of the chunk on its way */
    err why;
};

static bool deletion_due(struct told_job *j)
{
    const struct deletion *d = CONTAINER_OF(j, struct deletion, told);
    return d->why == ERR_OK && d->done < d->order->count;
}

static err deletion_ask(struct told_job *j)
{
    struct deletion *d = CONTAINER_OF(j, struct deletion, told);
    unsigned left = d->order->count - d->done;
    d->count = left < QUEUE_COMPLETE_IDS_MAX ? left : QUEUE_COMPLETE_IDS_MAX;
    const struct removing w = { .partition = d->order->partition,
                                .ids = d->order->ids + d->done,
                                .count = d->count,
                                .note = d->note,
                                .later = store_job_ask(&j->job) };
    /* A store that has fallen silent since the last chunk is not waited for. */
    err why = part_readable(part_at(d->q, w.partition), d->note);
    return why == ERR_OK ? remove_start(d->q, &w) : why;
}

static void deletion_take(struct told_job *j, err why)
{
    struct deletion *d = CONTAINER_OF(j, struct deletion, told);
    d->why = why;
    d->done += why == ERR_OK ? d->count : 0;
}

static err deletion_end(struct told_job *j)
{
    struct deletion *d = CONTAINER_OF(j, struct deletion, told);
    err why = d->why;
    if (why != ERR_OK)
        progress_note(d->note, d->done, d->order->count, "deleted");
    free(d);
    return why;
}

/* All ids are checked before the first is deleted. */
static err deletion_check(struct queue *q, const struct queue_deletion *d, struct err_note *note)
{
    struct ksuid id;
    err why = part_check(q, d->partition, note);
    if (why == ERR_OK && d->count == 0)
        why = err_bad(note, "ids is invalid; cannot be empty");
    for (unsigned i = 0; i < d->count && why == ERR_OK; i++)
        why = id_parse(d->ids[i], &id, note);
    return why;
}

err queue_items_delete(struct queue *q, const struct queue_deletion *order, struct err_note *note)
{
    err why = deletion_check(q, order, note);
    if (why != ERR_OK)
        return why;
    struct deletion *d = calloc(1, sizeof *d);
    INVARIANT(d != NULL);
    *d = (struct deletion){ .told = { .due = deletion_due,
                                      .ask = deletion_ask,
                                      .take = deletion_take,
                                      .end = deletion_end },
                            .order = order,
                            .note = note,
                            .q = q };
    return told_job_run(q->all->opts.loop, &d->told, order->later);
}

/* ---- clearing: partition after partition, chunk after chunk ---- */

enum clear_stage { CLEAR_GATHER, CLEAR_REMOVE };
/* One order to clear, made by queue_clear; clear_end frees it. */
struct clearing {
    struct told_job told;
    struct queue_clear_order order;
    struct err_note *note;
    struct queue *q;
    uint32_t partitions, at;
    bool scheduled; /* first: what is due meanwhile is ready then */
    bool begun;     /* with that kind of that partition */
    enum clear_stage stage;
    struct queue_store *store; /* that was asked */
    struct ksuid from, last;   /* up to what was there when it began */
    struct ksuid ids[ADMIN_CHUNK];
    unsigned count;
    err why;
};

static bool gather_ready(void *ctx, const struct queue_row *row)
{
    struct clearing *c = ctx;
    const struct queue_entry *e = &row->u.entry;
    /* Given after the clear began: stays. Ids come in order, so nothing behind is wanted. */
    if (ksuid_cmp(e->id, c->last) > 0)
        return false;
    c->ids[c->count++] = e->id;
    return c->count < ADMIN_CHUNK;
}

static bool gather_scheduled(void *ctx, const struct queue_row *row)
{
    struct clearing *c = ctx;
    const struct queue_entry *e = &row->u.entry;
    /* Schedules come in order of time: later ones may have smaller ids. */
    if (ksuid_cmp(e->id, c->last) > 0)
        return true;
    c->ids[c->count++] = e->id;
    return c->count < ADMIN_CHUNK;
}

static err gather_ask(struct clearing *c)
{
    struct part *p = part_at(c->q, c->at);
    const struct queue_scan scan = { .part = { .queue = c->q->number, .partition = c->at },
                                     .kind = c->scheduled ? SCAN_SCHEDULED : SCAN_READY,
                                     .from = c->scheduled ? KSUID_NIL : c->from,
                                     .each = c->scheduled ? gather_scheduled : gather_ready,
                                     .ctx = c,
                                     .later = store_job_ask(&c->told.job) };
    c->count = 0;
    /* NULL tells gather_take that the store was not asked. */
    c->store = NULL;
    err why = part_readable(p, c->note);
    if (why != ERR_OK)
        return why;
    queue_enter(c->q);
    c->store = part_store(p);
    queue_leave(c->q);
    return c->store->ops->scan(c->store, &scan);
}

/* What was seen says nothing when the partition has moved to another store meanwhile. */
static err gather_take(struct clearing *c, err why)
{
    struct part *p = part_at(c->q, c->at);
    queue_enter(c->q);
    bool moved = c->store != part_store(p);
    queue_leave(c->q);
    if (c->store == NULL)
        return why; /* it was not asked */
    if (moved)
        return ERR_OK;
    part_looked(p, why);
    if (why != ERR_OK) {
        err_note_set(c->note, "internal error, try your request again");
        return ERR_UNAVAILABLE;
    }
    if (c->count == 0) { /* this kind is through */
        bool ready_too = c->scheduled && c->order.ready;
        c->begun = false;
        c->at += !ready_too;
        c->scheduled = c->order.scheduled && !ready_too;
        return ERR_OK;
    }
    /* Ready items: the next scan goes on behind these. Schedules are scanned from the start
     * again, without those that were removed. */
    c->from = ksuid_add(c->ids[c->count - 1], 1);
    c->stage = CLEAR_REMOVE;
    return ERR_OK;
}

static err chunk_ask(struct clearing *c)
{
    /* What was seen as ready may be leased by now: a clear that is not destructive leaves the
     * item. */
    const struct queue_kinds kinds = { .ready = c->order.ready,
                                       .scheduled = c->order.scheduled,
                                       .leased = c->order.ready && c->order.destructive };
    /* remove_start copies the texts. */
    char texts[ADMIN_CHUNK][KSUID_TEXT_BYTES + 1];
    str ids[ADMIN_CHUNK];
    for (unsigned i = 0; i < c->count; i++) {
        ksuid_format(c->ids[i], texts[i]);
        ids[i] = (str){ .p = texts[i], .n = KSUID_TEXT_BYTES };
    }
    const struct removing w = { .kinds = &kinds,
                                .partition = c->at,
                                .ids = ids,
                                .count = c->count,
                                .note = c->note,
                                .later = store_job_ask(&c->told.job) };
    return remove_start(c->q, &w);
}

/* last: the greatest id that the partition has given. Only its owner knows that one. A store that
 * does not answer is not waited for. */
static err clear_look(const struct part *p, struct ksuid *last, struct err_note *note)
{
    queue_enter(p->queue);
    bool fails = part_failing(p) || stores_silent(p->queue->all, p->store);
    err why = p->owned && !fails ? ERR_OK : part_failing_note(p, note);
    *last = p->last_id;
    queue_leave(p->queue);
    return why;
}

/* For each partition when its turn comes: items that came before that are cleared. */
static err clear_begin(struct clearing *c)
{
    c->begun = true;
    c->stage = CLEAR_GATHER;
    c->from = KSUID_NIL;
    return clear_look(part_at(c->q, c->at), &c->last, c->note);
}

/* Also begins the next partition. */
static bool clear_due(struct told_job *j)
{
    struct clearing *c = CONTAINER_OF(j, struct clearing, told);
    if (c->why == ERR_OK && c->at < c->partitions && !c->begun)
        c->why = clear_begin(c);
    return c->why == ERR_OK && c->at < c->partitions;
}

static err clear_ask(struct told_job *j)
{
    struct clearing *c = CONTAINER_OF(j, struct clearing, told);
    return c->stage == CLEAR_GATHER ? gather_ask(c) : chunk_ask(c);
}

static void clear_take(struct told_job *j, err why)
{
    struct clearing *c = CONTAINER_OF(j, struct clearing, told);
    bool gathered = c->stage == CLEAR_GATHER;
    /* After a removal the next chunk is gathered. */
    c->stage = CLEAR_GATHER;
    c->why = gathered ? gather_take(c, why) : why;
}

static err clear_end(struct told_job *j)
{
    struct clearing *c = CONTAINER_OF(j, struct clearing, told);
    err why = c->why;
    log_event(c->q->all->opts.log, LOG_INFO, "queue.clear", LOG_STR("name", c->q->info.name),
              LOG_CSTR("outcome", err_name(why)));
    free(c);
    return why;
}

err queue_clear(struct queue *q, const struct queue_clear_order *order, struct err_note *note)
{
    err why = ERR_OK;
    if (!order->ready && !order->scheduled) {
        err_note_set(note, "invalid clear request; one of 'queue', 'scheduled' must be true");
        return ERR_BAD;
    }
    struct ksuid last;
    uint32_t partitions = atomic_load(&q->parts_shown);
    for (uint32_t i = 0; i < partitions && why == ERR_OK; i++) /* before one of them is cleared */
        why = clear_look(part_at(q, i), &last, note);
    /* Also when why is an error: clear_end has one way out, which logs. */
    struct clearing *c = calloc(1, sizeof *c);
    INVARIANT(c != NULL);
    *c = (struct clearing){
        .told = { .due = clear_due, .ask = clear_ask, .take = clear_take, .end = clear_end },
        .order = *order,
        .note = note,
        .q = q,
        .partitions = partitions,
        .scheduled = order->scheduled,
        .why = why
    };
    return told_job_run(q->all->opts.loop, &c->told, order->later);
}

/* ---- why ---- */

/* One line of JSON. Names of stores are of the configuration, and need no escapes. */
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

/* The lock is held while lines are made; decisions are few (PLACE_DECISIONS_MAX). */
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
    /* ERR_LIMIT: no room in buffer or arena. */
    return why == ERR_OK && out->p == NULL ? ERR_LIMIT : why;
}
