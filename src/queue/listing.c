/* listing.c - items as somebody looks at them: of one partition, or of all. A job (store/job.h): no
 * thread waits for a store that answers later.
 *
 * 1. Entries are gathered first, those with the least ids: never more than one answer may have,
 *    whatever there is.
 * 2. Their bodies are read in that order, until the answer has reply_bytes_max: bodies before
 *    base64, texts with the escapes of JSON. What is gone meanwhile is left out.
 * 3. A partition that moved meanwhile was looked for where it is not: all of it is done again.
 * Ids of all partitions are in order of time (part_ids), so the least ids of a queue are its oldest
 * items. */
#include "queue/order/flush.h"

#include "base/heap.h"
#include "codec/json_text.h"
#include "queue/admin.h"

#include <stdlib.h>

enum {
    LIST_ITEMS_MAX = 65536,
    LIST_DEFAULT = 1000,
    LIST_CHUNK = 1024,       /* bodies asked for at once */
    LIST_CHUNK_DAMAGED = 16, /* after a damaged one: the store reads those behind damage in vain */
    /* of an item in an answer, about, beside its body and texts: ids, times, names of members */
    LIST_ITEM_BYTES = 512,
    LIST_TRIES = 3,
    LIST_ARENA_BYTES_MAX = 64 << 20,
};

struct found {
    struct heap_node node;
    struct queue_entry entry;
    uint32_t partition;
};

/* A partition as it was when the store was asked: what is needed of it without the lock. */
struct place_now {
    const struct part *part;
    struct queue_part place;
    struct queue_store *store;
    bool is_empty;
};

enum list_stage { LIST_BEGIN, LIST_SCAN, LIST_BODIES, LIST_OVER };
/* One listing, made by queue_items_list; listing_end frees it. */
struct listing {
    struct told_job told;
    struct queue_items_page *page;
    struct err_note *note;
    struct queue *q;
    uint32_t first, end; /* partitions */
    bool scheduled;
    struct ksuid from;
    enum list_stage stage;
    unsigned tries;
    uint64_t mark; /* of where the partitions were when it began */
    struct arena rows;
    struct found *found;
    struct found **order; /* by id, once all are found */
    unsigned count, max;
    struct heap greatest;   /* of found, the greatest id first */
    uint32_t partition;     /* being walked */
    struct place_now place; /* that was asked */
    struct queue_bodies bodies;
    unsigned chunk; /* bodies asked for at once, up to LIST_CHUNK */
    struct queue_place at[LIST_CHUNK];
    str texts[LIST_CHUNK];
    struct arena *arena; /* of the answer */
    struct queue_item *items;
    unsigned items_count, read; /* of order: so many are done */
    uint64_t left;              /* bytes of the answer */
    bool is_full;
    err why;
};

/* ---- gathering ---- */

static bool is_greater(const struct heap_node *a, const struct heap_node *b)
{
    const struct found *x = CONTAINER_OF((struct heap_node *)(uintptr_t)a, struct found, node);
    const struct found *y = CONTAINER_OF((struct heap_node *)(uintptr_t)b, struct found, node);
    return ksuid_cmp(x->entry.id, y->entry.id) > 0;
}

/* False: there are as many with a smaller id. */
static bool listing_keep(struct listing *l, const struct queue_entry *e)
{
    struct found *f;
    if (l->count < l->max) {
        f = &l->found[l->count++];
    } else {
        f = CONTAINER_OF(heap_first(&l->greatest), struct found, node);
        if (ksuid_cmp(f->entry.id, e->id) < 0)
            return false;
        heap_remove(&l->greatest, &f->node);
    }
    f->entry = *e;
    f->entry.order_key = STR_NONE; /* the row's */
    f->partition = l->partition;
    heap_add(&l->greatest, &f->node);
    return true;
}

/* They come by id: none behind one that is not kept would be. */
static bool keep_ready(void *ctx, const struct queue_row *row)
{
    return listing_keep(ctx, &row->u.entry);
}

/* They come by time. */
static bool keep_scheduled(void *ctx, const struct queue_row *row)
{
    struct listing *l = ctx;
    if (ksuid_cmp(row->u.entry.id, l->from) >= 0)
        (void)listing_keep(l, &row->u.entry);
    return true;
}

static struct place_now place_now(const struct listing *l, uint32_t partition)
{
    queue_enter(l->q);
    const struct part *p = l->q->parts[partition];
    int64_t items = l->scheduled ? p->scheduled : p->ready + p->leased;
    struct place_now now = { .part = p,
                             .place = { .queue = l->q->number, .partition = partition },
                             .store = part_store(p),
                             .is_empty = p->loaded && items == 0 };
    queue_leave(l->q);
    return now;
}

/* The next partition; ERR_NOT_FOUND: it has nothing. */
static err scan_ask(struct listing *l)
{
    l->place = place_now(l, l->partition);
    const struct queue_scan scan = { .part = l->place.place,
                                     .kind = l->scheduled ? SCAN_SCHEDULED : SCAN_READY,
                                     .from = l->scheduled ? KSUID_NIL : l->from,
                                     .each = l->scheduled ? keep_scheduled : keep_ready,
                                     .ctx = l,
                                     .later = store_job_ask(&l->told.job) };
    err why = part_readable(l->place.part, l->note);
    if (why != ERR_OK)
        l->place.part = NULL; /* it was not asked */
    else if (l->place.is_empty)
        why = ERR_NOT_FOUND;
    else
        why = l->place.store->ops->scan(l->place.store, &scan);
    return why;
}

static err scan_take(struct listing *l, err why)
{
    if (l->place.part != NULL && why != ERR_NOT_FOUND)
        part_looked(l->place.part, why);
    l->partition++;
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

/* Takes the greatest out again and again, so the array fills from its end. */
static void sort(struct listing *l)
{
    for (unsigned i = l->count; i > 0; i--) {
        struct heap_node *n = heap_first(&l->greatest);
        heap_remove(&l->greatest, n);
        l->order[i - 1] = CONTAINER_OF(n, struct found, node);
    }
}

/* ---- bodies ---- */

/* What an item takes of reply_bytes_max: texts as JSON has them, where one byte may be six. */
static uint64_t answer_bytes(const struct item *it)
{
    return LIST_ITEM_BYTES + json_text_size(it->encoding) + json_text_size(it->kind) +
           json_text_size(it->reference) + json_text_size(it->source_id) + it->bytes.n;
}

/* Nothing when the answer is full, but for the first item. */
static err put_item(struct listing *l, struct found *f, str body)
{
    struct item it;
    const struct queue_entry *e = &f->entry;
    err why = l->is_full ? ERR_OK : item_decode(body, &it);
    if (why != ERR_OK || l->is_full)
        return why;
    uint64_t bytes = answer_bytes(&it);
    l->is_full = l->items_count > 0 && bytes > l->left;
    if (l->is_full)
        return ERR_OK;
    l->left -= bytes < l->left ? bytes : l->left;
    l->order[l->items_count] = f;
    l->items[l->items_count++] =
        (struct queue_item){ .id = e->id,
                             .encoding = it.encoding,
                             .kind = it.kind,
                             .reference = it.reference,
                             .bytes = it.bytes,
                             .source_id = it.source_id,
                             .attempts = attempts_counted(e->attempts),
                             .created_at = e->created_at,
                             .expire_at = e->expire_at,
                             .enqueue_at = l->scheduled ? e->enqueue_at : STORE_TIME_ZERO };
    return ERR_OK;
}

/* Items of one partition, from order[read] on. */
static err bodies_ask(struct listing *l)
{
    struct queue_bodies *b = &l->bodies;
    l->place = place_now(l, l->order[l->read]->partition);
    *b = (struct queue_bodies){
        .at = l->at, .bytes_max = l->left, .arena = l->arena, .out = l->texts
    };
    for (; b->count < l->chunk && l->read + b->count < l->count; b->count++) {
        const struct found *f = l->order[l->read + b->count];
        if (f->partition != l->place.place.partition)
            break;
        l->at[b->count] = f->entry.place;
    }
    b->later = store_job_ask(&l->told.job);
    return l->place.store->ops->bodies(l->place.store, l->place.place, b);
}

/* ERR_NOT_FOUND, ERR_CORRUPT: bodies.read of them, the next one is gone, or damaged: queue.damaged
 * tells, when it is to be leased. */
static err bodies_take(struct listing *l, err why)
{
    const struct queue_bodies *b = &l->bodies;
    bool is_gone = damage_is(why);
    part_looked(l->place.part, why);
    why = is_gone ? ERR_OK : why;
    for (unsigned i = 0; i < b->read && why == ERR_OK; i++)
        why = put_item(l, l->order[l->read + i], l->texts[i]);
    l->is_full |= why == ERR_OK && !is_gone && b->read < b->count;
    l->read += b->read + is_gone;
    l->chunk = is_gone ? LIST_CHUNK_DAMAGED : l->chunk < LIST_CHUNK / 2 ? 2 * l->chunk : LIST_CHUNK;
    return why;
}

/* What only memory knows: leases. */
static void fill_leases(struct listing *l)
{
    struct queue *q = l->q;
    queue_enter(q);
    for (unsigned i = 0; i < l->items_count; i++) {
        struct queue_item *item = &l->items[i];
        const struct qitem *it = part_item(q->parts[l->order[i]->partition], item->id);
        item->max_attempts = q->info.max_attempts;
        if (it == NULL || it->state != QITEM_LEASED)
            continue;
        item->lease_deadline = it->due_at;
        item->attempts = it->attempts;
        item->token = it->token;
    }
    queue_leave(q);
}

/* ---- the whole ---- */

/* Another number when one of the partitions is in another store. */
static uint64_t places_of(struct listing *l)
{
    static const uint64_t fnv_basis = 0xcbf29ce484222325, fnv_prime = 0x100000001b3;
    uint64_t mark = fnv_basis;
    queue_enter(l->q);
    for (uint32_t i = l->first; i < l->end; i++)
        mark = (mark ^ l->q->parts[i]->store) * fnv_prime;
    queue_leave(l->q);
    return mark;
}

/* All memory of the search before it begins; bodies are in the answer's arena. */
static err list_memory(struct listing *l)
{
    arena_init(&l->rows, LIST_ARENA_BYTES_MAX);
    l->found = arena_calloc(&l->rows, l->max, sizeof *l->found);
    l->order = arena_calloc(&l->rows, l->max, sizeof(struct found *));
    return l->found == NULL || l->order == NULL ? ERR_LIMIT : ERR_OK;
}

static void list_begin(struct listing *l)
{
    l->mark = places_of(l);
    l->count = 0;
    l->partition = l->first;
    heap_init(&l->greatest, is_greater);
    l->stage = LIST_SCAN;
}

/* All were found. */
static err list_found(struct listing *l)
{
    sort(l);
    heap_fini(&l->greatest);
    l->stage = LIST_BODIES;
    l->items_count = l->read = 0;
    l->chunk = LIST_CHUNK;
    l->is_full = false;
    l->left = l->q->all->opts.reply_bytes_max;
    l->items = arena_calloc(l->arena, (size_t)l->count + 1, sizeof *l->items);
    return l->items == NULL ? ERR_LIMIT : ERR_OK;
}

/* All were read. As long as partitions move under it, or all that it found is gone and more may be
 * there, it begins anew. */
static err list_read(struct listing *l)
{
    bool is_whole = l->mark == places_of(l) && (l->items_count > 0 || l->count < l->max);
    l->stage = is_whole ? LIST_OVER : LIST_BEGIN;
    return is_whole || ++l->tries < LIST_TRIES ? ERR_OK : ERR_UNAVAILABLE;
}

static bool listing_due(struct told_job *j)
{
    struct listing *l = CONTAINER_OF(j, struct listing, told);
    while (l->why == ERR_OK) {
        if (l->stage == LIST_BEGIN)
            list_begin(l);
        else if (l->stage == LIST_SCAN && l->partition == l->end)
            l->why = list_found(l);
        else if (l->stage == LIST_BODIES && (l->read == l->count || l->is_full))
            l->why = list_read(l);
        else
            return l->stage != LIST_OVER;
    }
    return false;
}

static err listing_ask(struct told_job *j)
{
    struct listing *l = CONTAINER_OF(j, struct listing, told);
    return l->stage == LIST_SCAN ? scan_ask(l) : bodies_ask(l);
}

static void listing_take(struct told_job *j, err why)
{
    struct listing *l = CONTAINER_OF(j, struct listing, told);
    l->why = l->stage == LIST_SCAN ? scan_take(l, why) : bodies_take(l, why);
}

static err listing_end(struct told_job *j)
{
    struct listing *l = CONTAINER_OF(j, struct listing, told);
    err why = l->why;
    /* It ended while gathering: the heap is still there. */
    if (l->stage == LIST_SCAN)
        heap_fini(&l->greatest);
    if (why == ERR_OK) {
        fill_leases(l);
        l->page->found = l->items;
        l->page->count = l->items_count;
    }
    /* The note says "internal error"; a limit is the caller's to explain. */
    if (why == ERR_LIMIT)
        l->note->text[0] = '\0';
    arena_fini(&l->rows);
    free(l);
    return why == ERR_OK || why == ERR_LIMIT ? why : ERR_UNAVAILABLE;
}

/* No more than can fit: each item takes LIST_ITEM_BYTES at least. */
static unsigned most_items(const struct queue *q, unsigned limit)
{
    uint64_t fit = q->all->opts.reply_bytes_max / LIST_ITEM_BYTES + 1;
    unsigned most = limit == 0 ? LIST_DEFAULT : limit < LIST_ITEMS_MAX ? limit : LIST_ITEMS_MAX;
    return fit < most ? (unsigned)fit : most;
}

err queue_items_list(struct queue *q, struct queue_items_page *page, struct arena *a,
                     struct err_note *note)
{
    uint32_t partition = page->partition;
    bool is_all = partition == QUEUE_PARTS_ALL;
    struct ksuid from = KSUID_NIL;
    err why = is_all ? ERR_OK : part_check(q, partition, note);
    if (why == ERR_OK && page->pivot.n > 0)
        why = id_parse(page->pivot, &from, note);
    if (why != ERR_OK)
        return why;
    struct listing *l = calloc(1, sizeof *l);
    INVARIANT(l != NULL);
    *l = (struct listing){ .told = { .due = listing_due,
                                     .ask = listing_ask,
                                     .take = listing_take,
                                     .end = listing_end },
                           .page = page,
                           .note = note,
                           .q = q,
                           .first = is_all ? 0 : partition,
                           .scheduled = page->scheduled,
                           .from = from,
                           .max = most_items(q, page->limit),
                           .end = is_all ? atomic_load(&q->parts_shown) : partition + 1,
                           .arena = a };
    err_note_set(note, "internal error, try your request again");
    l->why = list_memory(l);
    return told_job_run(q->all->opts.loop, &l->told, page->later);
}
