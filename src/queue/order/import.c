/* import.c - items that were elsewhere before, into the partition that was named: batch after
 * batch, each a produce of the queue's own.
 *
 * Invariants
 *  1. What can be refused is refused before the first write: an item that is too large, no memory
 *     for the batches or for what the caller makes of the items afterwards.
 *  2. Each batch is made in the room of the one before.
 *
 * An item with a source_id is stored once, in a batch of its own: its key is that of an idempotent
 * produce. When the key was given before, the partition is read for the item: one that was
 * completed since then is no longer in the way of its source_id, and the produce is made again with
 * another key. */
#include "queue/admin.h"
#include "queue/order/flush.h"

#include <stdlib.h>

enum {
    /* IMPORT_WAIT_MS: a batch that no store takes for so long fails the import. */
    IMPORT_WAIT_MS = 60000,
    IMPORT_PAGE_BYTES_MAX = 64 << 20,
    IMPORT_BATCH_BYTES = 4 << 20,
    IMPORT_BATCH_ITEM_BYTES = 512, /* of memory, for an item in a batch, beside its fields */
    IMPORT_ROUND_BYTES = 4096,     /* of memory, for what is rounded up */
};

/* A batch is put; when its key was given before, the item is looked for. */
enum import_stage { IMPORT_PUT, IMPORT_FIND };
/* One import under way, made by queue_items_import; import_end frees it. */
struct import {
    struct told_job told;
    struct queue_import *import;
    struct err_note *note;
    struct queue *queue;
    struct arena *arena;
    struct queue_item *stored; /* all of them, as they are now */
    unsigned done;             /* items that are stored */
    /* the batch on its way */
    unsigned count;
    struct arena_mark before;
    str key; /* of an item with a source_id */
    enum import_stage stage;
    bool again; /* with another key */
    struct queue_produce produce;
    struct ksuid first;
    uint32_t max_attempts; /* the queue's: an item has none of its own */
    bool over;
    bool was_there; /* an item of the batch; as it is now: */
    struct queue_item there;
    /* the search for the item that is there */
    struct arena rows;
    struct queue_items_page page;
    char pivot[KSUID_TEXT_BYTES + 1];
    struct ksuid from;
    err why;
};

/* enqueue_at is left out: an imported item is ready, or leased. */
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

#define IMPORT_TOO_LARGE "items is invalid; a field or all of them together are too large"

/* Called at the home of the produce, which is the job's: a thread of the pool. Makes the job's
 * next step take the outcome. */
static void imported(struct queue_produce *r, err why)
{
    struct queue_later *later = &CONTAINER_OF(r, struct import, produce)->told.job.later;
    later->why = why;
    later->task.run(&later->task);
}

/* Into the arena above m->before: batch_end releases it. */
static err import_encode(const struct import *m, str *encoded, struct err_note *note)
{
    struct item *plain = arena_calloc(m->arena, (size_t)m->count + 1, sizeof *plain);
    if (plain == NULL)
        return ERR_LIMIT;
    for (unsigned i = 0; i < m->count; i++)
        plain[i] = import_plain(&m->import->items[m->done + i]);
    /* QUEUE_BATCH_BYTES_MAX is larger: a move adds to it later. */
    if (item_batch_encode(plain, m->count, m->arena, encoded) == ERR_OK &&
        encoded->n <= QUEUE_REQUEST_BYTES_MAX)
        return ERR_OK;
    return err_bad(note, IMPORT_TOO_LARGE);
}

/* A partition that takes nothing now is told of at once, instead of when the time is over. */
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

/* A produce without items of its own: encoded and import say all of it. */
static err put_ask(struct import *m)
{
    struct queue *q = m->queue;
    struct queue_produce *r = &m->produce;
    str encoded;
    err why = import_encode(m, &encoded, m->note);
    if (why != ERR_OK)
        return why;
    struct queue_later *later = store_job_ask(&m->told.job);
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
                                 .fixed = m->import->partition,
                                 .import = m->import->items + m->done };
    own->encoded = shared_new(encoded);
    if (own->encoded == NULL)
        return ERR_LIMIT;
    queue_enter(q);
    /* Under the lock: an update of the queue may change it. */
    m->max_attempts = q->info.max_attempts;
    why = req_admit(q, m->note);
    if (why == ERR_OK)
        why = import_admit(q->parts[m->import->partition], m->note);
    if (why == ERR_OK) {
        req_add(q, &own->req, r->deadline);
        produce_begin(q, r);
    } else {
        shared_unref(&own->encoded);
    }
    queue_leave(q); /* m is not ours any more when it was begun */
    return why == ERR_OK ? ERR_AGAIN : why;
}

/* The batch is stored, or its key was known. A repeated one is looked for, but once: with the
 * second key the first answer counts. */
static err put_take(struct import *m, err why)
{
    if (why != ERR_OK && m->produce.note.text[0] != '\0')
        err_note_set(m->note, "%s", m->produce.note.text);
    m->first = m->produce.first;
    /* again: the key names the id that was not found, so whoever was given it before stored the
     * same. */
    m->over = !m->produce.repeated || m->again;
    m->stage = IMPORT_FIND;
    m->from = KSUID_NIL;
    m->page = (struct queue_items_page){ .partition = m->import->partition,
                                         .limit = QUEUE_LEASE_ITEMS_MAX };
    return why;
}

/* ---- is an item with this source_id there, under whatever id it has by now? ---- */

/* The next page of the partition: ready and leased items first, then scheduled ones. */
static err find_ask(struct import *m)
{
    arena_reset(&m->rows);
    ksuid_format(m->from, m->pivot);
    m->page.pivot = str_of(m->pivot);
    m->page.later = store_job_ask(&m->told.job);
    return queue_items_list(m->queue, &m->page, &m->rows, m->note);
}

static err find_take(struct import *m, err why)
{
    char text[KSUID_TEXT_BYTES + 1];
    if (why != ERR_OK)
        return why;
    for (unsigned i = 0; i < m->page.count && !m->over; i++) {
        m->from = ksuid_add(m->page.found[i].id, 1);
        m->over = str_eq(m->page.found[i].source_id, m->import->items[m->done].source_id);
        if (!m->over)
            continue;
        m->first = m->page.found[i].id;
        m->was_there = true;
        /* The texts are in m->rows, which the next page resets. */
        m->there = m->page.found[i]; /* of which numbers and times alone are read later */
    }
    if (m->over || m->page.count > 0)
        return ERR_OK;
    m->from = KSUID_NIL;
    /* All ready ones were seen, and none has the source_id: the schedules are next. */
    if (!m->page.scheduled) {
        m->page.scheduled = true;
        return ERR_OK;
    }
    /* It was completed since: the same source_id may be stored again. The new key is derived
     * from the id of the item before, so two imports that find out at once agree on it. */
    ksuid_format(m->first, text);
    m->key = arena_printf(m->arena, "%.*s after %s", STR_ARG(m->key), text);
    m->again = true;
    m->stage = IMPORT_PUT;
    return m->key.p == NULL ? ERR_LIMIT : ERR_OK;
}

/* ---- batches ---- */

static size_t fields_bytes(const struct queue_item *q)
{
    return q->bytes.n + q->encoding.n + q->kind.n + q->reference.n + q->source_id.n;
}

/* How many of the items from there on go into one batch. An item with a source_id goes alone. */
static unsigned batch_count(const struct queue_import *import, unsigned from)
{
    size_t bytes = 0;
    unsigned n = 0;
    while (from + n < import->count && n < QUEUE_PRODUCE_ITEMS_MAX) {
        const struct queue_item *q = &import->items[from + n];
        if (q->source_id.n > 0)
            return n == 0 ? 1 : n;
        bytes += fields_bytes(q);
        if (n > 0 && bytes > IMPORT_BATCH_BYTES)
            break;
        n++;
    }
    return n;
}

/* Of the largest batch: each batch takes the room of the one before. */
static size_t batch_room(const struct queue_import *import)
{
    size_t room = 0;
    for (unsigned from = 0, n; from < import->count; from += n) {
        size_t bytes = IMPORT_ROUND_BYTES;
        n = batch_count(import, from);
        for (unsigned i = from; i < from + n; i++)
            bytes += fields_bytes(&import->items[i]) + IMPORT_BATCH_ITEM_BYTES;
        room = bytes > room ? bytes : room;
    }
    return room;
}

static void batch_begin(struct import *m)
{
    const struct queue_item *first = &m->import->items[m->done];
    m->before = arena_mark(m->arena);
    m->count = batch_count(m->import, m->done);
    m->stage = IMPORT_PUT;
    m->again = m->over = m->was_there = false;
    m->key = STR("");
    if (first->source_id.n > 0) /* no client's key begins so: it comes in a header */
        m->key = arena_printf(m->arena, "\001source %.*s", STR_ARG(first->source_id));
    if (m->key.p == NULL)
        m->why = ERR_LIMIT;
}

static void batch_end(struct import *m)
{
    const struct own_produce *own = own_produce(&m->produce);
    /* A batch of items without source_id is never a repeated one: was_there is about a single
     * item. */
    for (unsigned i = 0; i < m->count; i++) {
        struct queue_item *stored = &m->stored[m->done + i];
        *stored = m->import->items[m->done + i];
        stored->id = ksuid_add(m->first, i);
        stored->created_at = own->created_at;
        stored->max_attempts = m->max_attempts;
        if (stored->expire_at.ns <= 0)
            stored->expire_at = own->expire_at;
        if (!m->was_there)
            continue;
        stored->created_at = m->there.created_at;
        stored->expire_at = m->there.expire_at;
        stored->attempts = m->there.attempts;
        stored->max_attempts = m->there.max_attempts;
        stored->lease_deadline = m->there.lease_deadline;
    }
    m->done += m->count;
    arena_release(m->arena, m->before);
    if (m->done < m->import->count)
        batch_begin(m);
}

/* ---- the whole ---- */

static bool import_due(struct told_job *j)
{
    const struct import *m = CONTAINER_OF(j, struct import, told);
    return m->why == ERR_OK && m->done < m->import->count;
}

/* Thread: pool, as import_take. */
static err import_ask(struct told_job *j)
{
    struct import *m = CONTAINER_OF(j, struct import, told);
    return m->stage == IMPORT_PUT ? put_ask(m) : find_ask(m);
}

static void import_take(struct told_job *j, err why)
{
    struct import *m = CONTAINER_OF(j, struct import, told);
    m->why = m->stage == IMPORT_PUT ? put_take(m, why) : find_take(m, why);
    if (m->why == ERR_OK && m->over)
        batch_end(m);
}

static err import_end(struct told_job *j)
{
    struct import *m = CONTAINER_OF(j, struct import, told);
    err why = m->why;
    if (why != ERR_OK)
        /* How many items the batches before had stored, for the client. */
        progress_note(m->note, m->done, m->import->count, "stored");
    m->import->stored = m->stored;
    arena_fini(&m->rows);
    free(m);
    return why;
}

static err import_check(struct queue *q, const struct queue_import *import, struct err_note *note)
{
    err why = part_check(q, import->partition, note);
    if (why == ERR_OK && import->count == 0)
        why = err_bad(note, "items is invalid; cannot be empty");
    if (why == ERR_OK && import->count > QUEUE_IMPORT_ITEMS_MAX)
        why = err_bad(note, "items is invalid; max_import_batch_size is %d but received %u",
                      QUEUE_IMPORT_ITEMS_MAX, import->count);
    for (unsigned i = 0; i < import->count && why == ERR_OK; i++)
        if (!queue_import_fits(&import->items[i]))
            why = err_bad(note, IMPORT_TOO_LARGE);
    return why;
}

/* All the memory that the import will take. NULL: it is not to be had. What the caller makes of the
 * answer is made after the last batch, in the room of the batches. */
static struct queue_item *import_room(const struct queue_import *import, struct arena *a)
{
    struct queue_item *stored = arena_calloc(a, import->count, sizeof *stored);
    size_t room = batch_room(import), answer = import->answer_bytes;
    room = answer > room ? answer : room;
    arena_raise(a, room);
    return stored != NULL && arena_reserve(a, room) ? stored : NULL;
}

err queue_items_import(struct queue *q, struct queue_import *import, struct arena *a,
                       struct err_note *note)
{
    err why = import_check(q, import, note);
    if (why != ERR_OK)
        return why;
    struct queue_item *stored = import_room(import, a);
    if (stored == NULL)
        return ERR_LIMIT;
    struct import *m = calloc(1, sizeof *m);
    INVARIANT(m != NULL);
    *m = (struct import){
        .told = { .due = import_due, .ask = import_ask, .take = import_take, .end = import_end },
        .import = import,
        .note = note,
        .queue = q,
        .stored = stored,
        .arena = a
    };
    arena_init(&m->rows, IMPORT_PAGE_BYTES_MAX);
    /* Without a later the job runs to its end here. */
    batch_begin(m);
    return told_job_run(q->all->opts.loop, &m->told, import->later);
}
