/* import.c - items that were elsewhere before, into the partition that was named: a produce whose
 * caller blocks.
 *
 * An item with a source_id is stored once: its key is that of an idempotent produce. */
#include "queue/admin.h"
#include "queue/lease/wait.h"
#include "queue/order/flush.h"

enum { IMPORT_WAIT_MS = 60000, IMPORT_PAGE_BYTES_MAX = 64 << 20 };

static void imported(struct queue_produce *r, err why)
{
    waiter_done(r->ctx, why, r->items_count);
}

/* Items on their way into a partition, as one batch. */
struct import {
    struct queue *queue;
    uint32_t partition;
    const struct queue_item *items;
    unsigned count;
    str key; /* of an item with a source_id */
    struct arena *arena;
    /* out */
    struct ksuid first;
    bool repeated;         /* nothing was stored: the key knows first */
    uint32_t max_attempts; /* the queue's: an item has none of its own */
    store_time created_at, expire_at;
};

static struct item import_plain(const struct queue_item *it)
{
    return (struct item){ .encoding = it->encoding,
                          .kind = it->kind,
                          .bytes = it->bytes,
                          .reference = it->reference,
                          .source_id = it->source_id };
}

bool queue_import_fits(const struct queue_item *item)
{
    struct item plain = import_plain(item);
    return item_batch_bytes(&plain, 1) <= QUEUE_REQUEST_BYTES_MAX;
}

static err import_encode(const struct import *m, str *encoded, struct err_note *note)
{
    struct item *plain = arena_calloc(m->arena, (size_t)m->count + 1, sizeof *plain);
    if (plain == NULL)
        return ERR_LIMIT;
    for (unsigned i = 0; i < m->count; i++)
        plain[i] = import_plain(&m->items[i]);
    if (item_batch_encode(plain, m->count, m->arena, encoded) == ERR_OK &&
        encoded->n <= QUEUE_REQUEST_BYTES_MAX)
        return ERR_OK;
    err_note_set(note, "items is invalid; a field or all of them together are too large");
    return ERR_BAD;
}

/* One that takes nothing is not waited for: whoever imports waits on a thread of the pool. */
static err import_admit(const struct part *p, struct err_note *note)
{
    bool fails = p->failing || stores_silent(p->queue->all, p->store);
    if (fails)
        return part_failing_note(p, note);
    if (p->mode == PART_OPEN)
        return ERR_OK;
    err_note_set(note, "partition not available; partition '%u' is %s, retry again", p->number,
                 p->mode == PART_DRAINING ? "draining" : "paused");
    return ERR_UNAVAILABLE;
}

static err import_run(struct import *m, struct err_note *note)
{
    struct queue *q = m->queue;
    struct waiter w;
    str encoded;
    err why = import_encode(m, &encoded, note);
    if (why != ERR_OK)
        return why;
    struct queue_produce r = { .queue = q,
                               .items_count = m->count,
                               .arena = m->arena,
                               .home = &w.home,
                               .done = imported,
                               .ctx = &w,
                               .deadline =
                                   mono_add_ms(clock_mono(q->all->opts.clock), IMPORT_WAIT_MS),
                               .idempotency_key = m->key };
    struct own_produce *own = own_produce(&r);
    *own = (struct own_produce){ .req = { .kind = REQ_PRODUCE, .home = r.home },
                                 .fixed = m->partition,
                                 .import = m->items };
    own->encoded = shared_new(encoded);
    if (own->encoded == NULL)
        return ERR_LIMIT;
    waiter_init(&w);
    queue_enter(q);
    m->max_attempts = q->info.max_attempts;
    why = req_admit(q, note);
    if (why == ERR_OK)
        why = import_admit(q->parts[m->partition], note);
    if (why == ERR_OK) {
        waiter_expect(&w);
        req_add(q, &own->req, r.deadline);
        produce_begin(q, &r);
    } else {
        shared_unref(&own->encoded);
    }
    queue_leave(q);
    if (why == ERR_OK) {
        why = waiter_wait(&w);
        if (why != ERR_OK)
            err_note_set(note, "%s", r.note.text);
    }
    waiter_fini(&w);
    m->first = r.first;
    m->repeated = r.repeated;
    m->created_at = own->created_at;
    m->expire_at = own->expire_at;
    return why;
}

/* Is an item with this source_id there, under whatever id it has by now? Reads the partition. */
static err source_find(struct import *m, bool scheduled, bool *found, struct err_note *note)
{
    struct ksuid from = KSUID_NIL;
    struct arena rows;
    err why = ERR_OK;
    struct queue_items_page p = { .partition = m->partition,
                                  .scheduled = scheduled,
                                  .limit = QUEUE_LEASE_ITEMS_MAX,
                                  .count = 1 };
    arena_init(&rows, IMPORT_PAGE_BYTES_MAX);
    while (why == ERR_OK && p.count > 0 && !*found) {
        char pivot[KSUID_TEXT_BYTES + 1];
        ksuid_format(from, pivot);
        arena_reset(&rows);
        p.pivot = str_of(pivot);
        why = queue_items_list(m->queue, &p, &rows, note);
        for (unsigned i = 0; why == ERR_OK && i < p.count && !*found; i++) {
            from = ksuid_add(p.found[i].id, 1);
            *found = str_eq(p.found[i].source_id, m->items[0].source_id);
            if (*found)
                m->first = p.found[i].id;
        }
    }
    arena_fini(&rows);
    return why;
}

/* The key was given before. An item that was completed since then is no longer in the way of its
 * source_id. */
static err import_again(struct import *m, struct err_note *note)
{
    bool found = false;
    char text[KSUID_TEXT_BYTES + 1];
    ksuid_format(m->first, text);
    err why = source_find(m, false, &found, note);
    if (why == ERR_OK && !found)
        why = source_find(m, true, &found, note);
    if (why != ERR_OK || found)
        return why;
    m->key = arena_printf(m->arena, "%.*s after %s", STR_ARG(m->key), text);
    return m->key.p == NULL ? ERR_LIMIT : import_run(m, note);
}

err queue_items_import(struct queue *q, struct queue_import *import, struct arena *a,
                       struct err_note *note)
{
    const struct queue_item *items = import->items;
    uint32_t partition = import->partition;
    unsigned count = import->count;
    struct queue_item *copies = arena_calloc(a, (size_t)count + 1, sizeof *copies);
    if (copies == NULL)
        return ERR_LIMIT;
    if (partition >= atomic_load(&q->parts_shown)) {
        err_note_set(note, "partition is invalid; '%u' is not a valid partition", partition);
        return ERR_BAD;
    }
    if (count == 0 || count > QUEUE_PRODUCE_ITEMS_MAX) {
        err_note_set(note,
                     count == 0 ? "items is invalid; cannot be empty"
                                : "items is invalid; max_import_batch_size is %d but received %u",
                     QUEUE_PRODUCE_ITEMS_MAX, count);
        return ERR_BAD;
    }
    struct import m = {
        .queue = q, .partition = partition, .items = items, .count = count, .arena = a
    };
    if (count == 1 &&
        items[0].source_id.n > 0) /* no client's key begins so: it comes in a header */
        m.key = arena_printf(a, "\001source %.*s", STR_ARG(items[0].source_id));
    err why = import_run(&m, note);
    if (why == ERR_OK && m.repeated)
        why = import_again(&m, note);
    for (unsigned i = 0; i < count && why == ERR_OK; i++) {
        copies[i] = items[i];
        copies[i].id = ksuid_add(m.first, i);
        copies[i].created_at = m.created_at;
        copies[i].max_attempts = m.max_attempts;
        copies[i].expire_at = items[i].expire_at.ns > 0 ? items[i].expire_at : m.expire_at;
    }
    import->stored = copies;
    return why;
}
