/* queues_list.c - one queue as it is, and pages of all queues by name. Pool threads.
 *
 * 1. A page ends before reply_bytes_max, counted as its answer in JSON has it: texts with their
 *    escapes, and LIST_QUEUE_BYTES for all else of a queue.
 * 2. It holds at least one queue, if there is one: so who goes on from next comes to the end.
 * 3. The memory of its answer is at most three times those bytes: messages, JSON, and texts once
 *    more. */
#include "queue/machine.h"

#include "codec/json_text.h"
#include "codec/wire.h"

enum {
    LIST_MAX = 65536,
    /* of a queue in an answer, beside its texts: names of members, times, numbers */
    LIST_QUEUE_BYTES = 384,
};

static err copy_text(struct arena *a, str *s)
{
    *s = arena_copy(a, *s);
    return s->p == NULL ? ERR_LIMIT : ERR_OK;
}

err queue_info_get(struct queue *q, struct arena *a, struct queue_info *out)
{
    struct queue_info info;
    queue_enter(q);
    info = q->info;
    info.partitions = q->parts_count;
    err why = copy_text(a, &info.name);
    if (why == ERR_OK)
        why = copy_text(a, &info.space);
    if (why == ERR_OK)
        why = copy_text(a, &info.dead_queue);
    if (why == ERR_OK)
        why = copy_text(a, &info.reference);
    queue_leave(q);
    if (why == ERR_OK)
        *out = info;
    return why;
}

static uint64_t answer_bytes(struct queue *q)
{
    const struct queue_info *info = &q->info;
    queue_enter(q); /* an update replaces two of the texts */
    uint64_t bytes = LIST_QUEUE_BYTES;
    bytes += json_text_size(info->name) + json_text_size(info->space);
    bytes += json_text_size(info->dead_queue) + json_text_size(info->reference);
    queue_leave(q);
    return bytes;
}

/* The first queue whose name is pivot or comes behind it. */
static size_t first_from(const struct queues *qs, str pivot)
{
    size_t low = 0;
    for (size_t high = qs->count; low < high;) {
        size_t mid = low + (high - low) / 2;
        if (str_cmp(qs->sorted[mid]->info.name, pivot) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Under the lock of names: name and space of a queue never change in place. */
static err queues_list_fill(struct queues *qs, struct queues_page *page, unsigned max,
                            struct arena *a)
{
    uint64_t left = qs->opts.reply_bytes_max;
    err why = ERR_OK;
    for (size_t i = first_from(qs, page->pivot); i < qs->count && why == ERR_OK; i++) {
        struct queue *q = qs->sorted[i];
        if (page->space.n > 0 && !str_eq(q->info.space, page->space))
            continue;
        uint64_t bytes = answer_bytes(q);
        if (page->count == max || (page->count > 0 && bytes > left)) {
            page->next = q->info.name;
            return copy_text(a, &page->next);
        }
        why = queue_info_get(q, a, &page->found[page->count]);
        page->count += why == ERR_OK;
        left -= bytes < left ? bytes : left;
    }
    return why;
}

err queues_list(struct queues *qs, struct queues_page *page, struct arena *a)
{
    uint64_t fit = qs->opts.reply_bytes_max / LIST_QUEUE_BYTES + 1;
    unsigned max = page->limit == 0 || page->limit > LIST_MAX ? LIST_MAX : page->limit;
    page->count = 0;
    page->next = STR_NONE;
    INVARIANT(pthread_rwlock_rdlock(&qs->lock) == 0);
    if (max > fit)
        max = (unsigned)fit;
    /* Room for a queue even if there is none: arena_calloc of nothing may be NULL. */
    if (max > qs->count)
        max = qs->count == 0 ? 1 : (unsigned)qs->count;
    page->found = arena_calloc(a, max, sizeof *page->found);
    err why = page->found == NULL ? ERR_LIMIT : queues_list_fill(qs, page, max, a);
    INVARIANT(pthread_rwlock_unlock(&qs->lock) == 0);
    return why;
}
