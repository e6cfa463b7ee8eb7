/* import.c - items that were elsewhere before, into the partition that was named: a produce of the
 * queue's own.
 *
 * An item with a source_id is stored once: its key is that of an idempotent produce. When the key
 * was given before, the partition is read for the item: one that was completed since then is no
 * longer in the way of its source_id, and the produce is made again with another key. */
#include "queue/admin.h"
#include "queue/lease/wait.h"
#include "queue/order/flush.h"

#include <stdlib.h>

enum { IMPORT_WAIT_MS = 60000, IMPORT_PAGE_BYTES_MAX = 64 << 20 };

/* Items on their way into a partition, as one batch. */
enum import_stage { IMPORT_PUT, IMPORT_FIND };
struct import {
    struct store_job job;
    struct queue_later *later; /* who is told */
    struct queue_import *import;
    struct err_note *note;
    struct queue *queue;
    uint32_t partition;
    const struct queue_item *items;
    struct queue_item *copies; /* as they are now */
    unsigned count;
    str key; /* of an item with a source_id */
    struct arena *arena;
    enum import_stage stage;
    bool again; /* with another key */
    struct queue_produce produce;
    /* the search for the item that is there */
    struct arena rows;
    struct queue_items_page page;
    char pivot[KSUID_TEXT_BYTES + 1];
    struct ksuid from;
    /* out */
    struct ksuid first;
    uint32_t max_attempts; /* the queue's: an item has none of its own */
    bool over;
    err why;
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

/* On the pool. */
static void imported(struct queue_produce *r, err why)
{
    struct queue_later *later = &CONTAINER_OF(r, struct import, produce)->job.later;
    later->why = why;
    later->task.run(&later->task);
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

/* One that takes nothing is not waited for. */
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

/* ---- the produce ---- */

static err put_ask(struct import *m)
{
    struct queue *q = m->queue;
    struct queue_produce *r = &m->produce;
    str encoded;
    err why = import_encode(m, &encoded, m->note);
    if (why != ERR_OK)
        return why;
    struct queue_later *later = store_job_ask(&m->job);
    *r = (struct queue_produce){ .queue = q,
                                 .items_count = m->count,
                                 .arena = m->arena,
                                 .home = later->home,
                                 .done = imported,
                                 .deadline =
                                     mono_add_ms(clock_mono(q->all->opts.clock), IMPORT_WAIT_MS),
                                 .idempotency_key = m->key };
    struct own_produce *own = own_produce(r);
    *own = (struct own_produce){ .req = { .kind = REQ_PRODUCE, .home = r->home },
                                 .fixed = m->partition,
                                 .import = m->items };
    own->encoded = shared_new(encoded);
    if (own->encoded == NULL)
        return ERR_LIMIT;
    queue_enter(q);
    m->max_attempts = q->info.max_attempts;
    why = req_admit(q, m->note);
    if (why == ERR_OK)
        why = import_admit(q->parts[m->partition], m->note);
    if (why == ERR_OK) {
        req_add(q, &own->req, r->deadline);
        produce_begin(q, r);
    } else {
        shared_unref(&own->encoded);
    }
    queue_leave(q); /* m is not ours any more when it was begun */
    return why == ERR_OK ? ERR_AGAIN : why;
}

static err put_take(struct import *m, err why)
{
    if (why != ERR_OK && m->produce.note.text[0] != '\0')
        err_note_set(m->note, "%s", m->produce.note.text);
    m->first = m->produce.first;
    m->over = !m->produce.repeated || m->again;
    m->stage = IMPORT_FIND;
    m->from = KSUID_NIL;
    m->page =
        (struct queue_items_page){ .partition = m->partition, .limit = QUEUE_LEASE_ITEMS_MAX };
    return why;
}

/* ---- is an item with this source_id there, under whatever id it has by now? ---- */

static err find_ask(struct import *m)
{
    arena_reset(&m->rows);
    ksuid_format(m->from, m->pivot);
    m->page.pivot = str_of(m->pivot);
    m->page.later = store_job_ask(&m->job);
    return queue_items_list(m->queue, &m->page, &m->rows, m->note);
}

static err find_take(struct import *m, err why)
{
    char text[KSUID_TEXT_BYTES + 1];
    if (why != ERR_OK)
        return why;
    for (unsigned i = 0; i < m->page.count && !m->over; i++) {
        m->from = ksuid_add(m->page.found[i].id, 1);
        m->over = str_eq(m->page.found[i].source_id, m->items[0].source_id);
        if (m->over)
            m->first = m->page.found[i].id;
    }
    if (m->over || m->page.count > 0)
        return ERR_OK;
    m->from = KSUID_NIL;
    if (!m->page.scheduled) {
        m->page.scheduled = true;
        return ERR_OK;
    }
    ksuid_format(m->first, text);
    m->key = arena_printf(m->arena, "%.*s after %s", STR_ARG(m->key), text);
    m->again = true;
    m->stage = IMPORT_PUT;
    return m->key.p == NULL ? ERR_LIMIT : ERR_OK;
}

/* ---- the whole ---- */

static bool import_step(struct store_job *j)
{
    struct import *m = CONTAINER_OF(j, struct import, job);
    err why = j->later.why;
    bool told = store_job_told(j);
    while (told || (m->why == ERR_OK && !m->over)) {
        if (!told) {
            why = m->stage == IMPORT_PUT ? put_ask(m) : find_ask(m);
            if (store_job_waits(j, why))
                return true;
        }
        told = false;
        m->why = m->stage == IMPORT_PUT ? put_take(m, why) : find_take(m, why);
    }
    return false;
}

/* m is gone. */
static err import_end(struct import *m)
{
    const struct own_produce *own = own_produce(&m->produce);
    err why = m->why;
    for (unsigned i = 0; i < m->count && why == ERR_OK; i++) {
        m->copies[i] = m->items[i];
        m->copies[i].id = ksuid_add(m->first, i);
        m->copies[i].created_at = own->created_at;
        m->copies[i].max_attempts = m->max_attempts;
        m->copies[i].expire_at =
            m->items[i].expire_at.ns > 0 ? m->items[i].expire_at : own->expire_at;
    }
    m->import->stored = m->copies;
    arena_fini(&m->rows);
    free(m);
    return why;
}

static void import_done(struct store_job *j)
{
    struct import *m = CONTAINER_OF(j, struct import, job);
    struct queue_later *later = m->later;
    later->why = import_end(m);
    home_post(later->home, &later->task);
}

static err import_check(struct queue *q, const struct queue_import *import, struct err_note *note)
{
    if (import->partition >= atomic_load(&q->parts_shown)) {
        err_note_set(note, "partition is invalid; '%u' is not a valid partition",
                     import->partition);
        return ERR_BAD;
    }
    if (import->count > 0 && import->count <= QUEUE_PRODUCE_ITEMS_MAX)
        return ERR_OK;
    err_note_set(note,
                 import->count == 0
                     ? "items is invalid; cannot be empty"
                     : "items is invalid; max_import_batch_size is %d but received %u",
                 QUEUE_PRODUCE_ITEMS_MAX, import->count);
    return ERR_BAD;
}

err queue_items_import(struct queue *q, struct queue_import *import, struct arena *a,
                       struct err_note *note)
{
    const struct queue_item *items = import->items;
    struct queue_later *later = import->later;
    struct wait_later blocked;
    err why = import_check(q, import, note);
    struct queue_item *copies = arena_calloc(a, (size_t)import->count + 1, sizeof *copies);
    if (why != ERR_OK || copies == NULL)
        return why != ERR_OK ? why : ERR_LIMIT;
    struct import *m = calloc(1, sizeof *m);
    INVARIANT(m != NULL);
    *m = (struct import){ .job = { .step = import_step, .done = import_done },
                          .later = later != NULL ? later : wait_later_begin(&blocked),
                          .import = import,
                          .note = note,
                          .queue = q,
                          .partition = import->partition,
                          .items = items,
                          .copies = copies,
                          .count = import->count,
                          .arena = a };
    arena_init(&m->rows, IMPORT_PAGE_BYTES_MAX);
    if (m->count == 1 &&
        items[0].source_id.n > 0) /* no client's key begins so: it comes in a header */
        m->key = arena_printf(a, "\001source %.*s", STR_ARG(items[0].source_id));
    why = store_job_run(q->all->opts.loop, &m->job) ? ERR_AGAIN : import_end(m);
    return later != NULL ? why : wait_later_outcome(&blocked, why);
}
