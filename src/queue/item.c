/* item.c - batches encoded whole or item by item, and single items found in them (item.h). Pure.
 * Invariant: an item is read only after its slot was checked against the bounds of the batch,
 * and its bytes against the slot's hash. */
#include "queue/item.h"

#include "base/buf.h"
#include "queue/store/store.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { BATCH_VERSION = 1, ITEM_VERSION = 1 };

static uint64_t item_bytes(const struct item *it)
{
    return (uint64_t)ITEM_HEAD_BYTES + it->encoding.n + it->kind.n + it->reference.n +
           it->source_id.n + it->bytes.n;
}

/* Lengths are stored in two bytes; the bound leaves room. */
static bool item_fields_fit(const struct item *it)
{
    return it->encoding.n <= ITEM_FIELD_BYTES_MAX && it->kind.n <= ITEM_FIELD_BYTES_MAX &&
           it->reference.n <= ITEM_FIELD_BYTES_MAX && it->source_id.n <= ITEM_FIELD_BYTES_MAX &&
           it->bytes.n <= QUEUE_BATCH_BYTES_MAX;
}

static char *queue_item_put(char *at, str s)
{
    if (s.n > 0)
        memcpy(at, s.p, s.n);
    return at + s.n;
}

/* Returns where the item ends. The caller has made sure of the room. */
static char *item_encode(const struct item *it, char *at)
{
    *at = ITEM_VERSION;
    put_be16(at + 1, (uint16_t)it->encoding.n);
    put_be16(at + 3, (uint16_t)it->kind.n);
    put_be16(at + 5, (uint16_t)it->reference.n);
    put_be16(at + 7, (uint16_t)it->source_id.n);
    put_be32(at + 9, (uint32_t)it->bytes.n);
    put_be64(at + 13, (uint64_t)it->enqueue_at.ns);
    at = queue_item_put(at + ITEM_HEAD_BYTES, it->encoding);
    at = queue_item_put(at, it->kind);
    at = queue_item_put(at, it->reference);
    at = queue_item_put(at, it->source_id);
    return queue_item_put(at, it->bytes);
}

/* Where the slot of index count would begin: the end of the slots before it. */
static uint64_t slots_end(unsigned count)
{
    return ITEM_BATCH_HEAD_BYTES + (uint64_t)count * ITEM_SLOT_BYTES;
}

uint64_t item_batch_bytes(const struct item *items, unsigned count)
{
    uint64_t n = slots_end(count);
    for (unsigned i = 0; i < count; i++) {
        /* A field too long: no sum of bytes says so. */
        if (!item_fields_fit(&items[i]))
            return UINT64_MAX;
        n += item_bytes(&items[i]);
    }
    return n;
}

err item_batch_encode(const struct item *items, unsigned count, struct arena *a, str *out)
{
    /* The count stands in two bytes, and the store's states have an upper bound. */
    if (count == 0 || count > QUEUE_BATCH_ITEMS_MAX)
        return ERR_LIMIT;
    uint64_t n = item_batch_bytes(items, count);
    if (n > QUEUE_BATCH_BYTES_MAX)
        return ERR_LIMIT;
    char *bytes = arena_alloc(a, n);
    if (bytes == NULL)
        return ERR_LIMIT;
    bytes[0] = BATCH_VERSION;
    bytes[1] = 0;
    put_be16(bytes + 2, (uint16_t)count);
    char *at = bytes + slots_end(count);
    for (unsigned i = 0; i < count; i++) {
        char *slot = bytes + slots_end(i);
        char *end = item_encode(&items[i], at);
        put_be32(slot, (uint32_t)(end - bytes));
        /* Seeded with the index: an item read in another's place does not pass. */
        put_be64(slot + 4, XXH3_64bits_withSeed(at, (size_t)(end - at), i));
        at = end;
    }
    *out = (str){ .p = bytes, .n = n };
    return ERR_OK;
}

/* ---- a batch that grows ---- */

enum { PACK_BYTES_LEAST = 2048, PACK_ROOM_LEAST = 32 };

/* Room for so many slots before the items, and so many bytes behind them. Slots are written in
 * front of the items at the end, so more slots move the items. */
static bool pack_grow(struct item_pack *p, unsigned count, uint64_t bytes)
{
    if (count > p->room) {
        unsigned room = p->room == 0 ? PACK_ROOM_LEAST : p->room;
        while (room < count)
            room *= 2;
        /* slots and memory grow apart: a failure of the second leaves the first larger, which is
         * no harm. */
        struct item_pack_slot *slots = realloc(p->slots, room * sizeof *slots);
        if (slots == NULL)
            return false;
        p->slots = slots;
        p->room = room;
    }
    size_t front = slots_end(p->room), used = p->used - p->front;
    /* Enough room on both sides. */
    if (p->memory != NULL && front == p->front && p->size - p->used >= bytes)
        return true;
    size_t size = p->size == 0 ? PACK_BYTES_LEAST : p->size;
    /* Doubled, so that a batch of many small items is copied a few times only. */
    while (size < front + used + bytes)
        size *= 2;
    char *memory = malloc(size);
    if (memory == NULL)
        return false;
    if (used > 0)
        memcpy(memory + front, p->memory + p->front, used);
    free(p->memory);
    p->memory = memory;
    p->size = size;
    p->front = front;
    p->used = front + used;
    return true;
}

err item_pack_add(struct item_pack *p, const struct item *it)
{
    /* used: bytes of the items alone. */
    uint64_t bytes = item_bytes(it), used = p->used - p->front;
    if (!item_fields_fit(it) || p->count == QUEUE_BATCH_ITEMS_MAX ||
        slots_end(p->count + 1) + used + bytes > QUEUE_BATCH_BYTES_MAX ||
        !pack_grow(p, p->count + 1, bytes))
        return ERR_LIMIT;
    char *at = p->memory + p->used;
    p->used = (size_t)(item_encode(it, at) - p->memory);
    p->slots[p->count] =
        (struct item_pack_slot){ .end = (uint32_t)(p->used - p->front),
                                 .hash = XXH3_64bits_withSeed(at, bytes, p->count) };
    p->count++;
    return ERR_OK;
}

void item_pack_cut(struct item_pack *p, unsigned count)
{
    INVARIANT(count <= p->count);
    p->count = count;
    /* The slot says where the last item that is left ends. */
    p->used = p->front + (count == 0 ? 0 : p->slots[count - 1].end);
}

/* The slots stand directly before the items: there may be room for more in front of them. */
str item_pack_bytes(struct item_pack *p)
{
    uint64_t head = slots_end(p->count);
    char *bytes = p->memory + p->front - head;
    INVARIANT(p->count > 0);
    bytes[0] = BATCH_VERSION;
    bytes[1] = 0;
    put_be16(bytes + 2, (uint16_t)p->count);
    for (unsigned i = 0; i < p->count; i++) {
        char *slot = bytes + slots_end(i);
        put_be32(slot, (uint32_t)head + p->slots[i].end);
        put_be64(slot + 4, p->slots[i].hash);
    }
    return (str){ .p = bytes, .n = p->used - p->front + head };
}

void item_pack_fini(struct item_pack *p)
{
    free(p->memory);
    free(p->slots);
    *p = (struct item_pack){ .count = 0 };
}

/* ---- one item of a batch ---- */

/* The first item needs the head, which has the count; others need the end of the item before. */
struct item_place item_slot_place(unsigned index)
{
    if (index == 0)
        return (struct item_place){ .offset = 0, .n = ITEM_BATCH_HEAD_BYTES + ITEM_SLOT_BYTES };
    return (struct item_place){ .offset = slots_end(index - 1), .n = ITEM_SLOTS_BYTES };
}

err item_slot_decode(str slots, unsigned index, unsigned count, uint64_t batch_bytes,
                     struct item_span *out)
{
    struct item_place place = item_slot_place(index);
    /* Nothing is taken from the slots before their size is known to be right. */
    if (slots.n != place.n || index >= count || slots_end(count) > batch_bytes)
        return ERR_CORRUPT;
    uint64_t from = slots_end(count);
    const char *slot = slots.p + slots.n - ITEM_SLOT_BYTES;
    if (index > 0)
        from = get_be32(slots.p);
    else if (slots.p[0] != BATCH_VERSION || slots.p[1] != 0 || get_be16(slots.p + 2) != count)
        return ERR_CORRUPT;
    uint64_t end = get_be32(slot);
    /* Each bound of its own: from within items, an end behind it, a head's length at least,
     * within the batch. */
    if (from < slots_end(count) || end < from || end - from < ITEM_HEAD_BYTES || end > batch_bytes)
        return ERR_CORRUPT;
    /* Nothing may stand behind the last item. */
    if (index == count - 1 && end != batch_bytes)
        return ERR_CORRUPT;
    *out = (struct item_span){ .offset = from, .n = end - from, .hash = get_be64(slot + 4) };
    return ERR_OK;
}

bool item_fits(str item, unsigned index, uint64_t hash)
{
    return XXH3_64bits_withSeed(item.p, item.n, index) == hash;
}

/* The caller has checked the hash: a fault here is one of the writer. */
err item_decode(str bytes, struct item *out)
{
    struct cursor c = { .rest = bytes };
    uint8_t version = cursor_u8(&c);
    size_t lengths[4];
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        lengths[i] = cursor_be16(&c);
        if (lengths[i] > ITEM_FIELD_BYTES_MAX)
            return ERR_CORRUPT;
    }
    size_t n = cursor_be32(&c);
    struct item it = { .enqueue_at = { .ns = (int64_t)cursor_be64(&c) } };
    it.encoding = cursor_bytes(&c, lengths[0]);
    it.kind = cursor_bytes(&c, lengths[1]);
    it.reference = cursor_bytes(&c, lengths[2]);
    it.source_id = cursor_bytes(&c, lengths[3]);
    it.bytes = cursor_bytes(&c, n);
    if (version != ITEM_VERSION || !cursor_done(&c))
        return ERR_CORRUPT;
    *out = it;
    return ERR_OK;
}

/* As a reader of single items sees the batch, each of them. */
err item_batch_check(str bytes, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct item_place place = item_slot_place(i);
        struct item_span span;
        struct item it;
        if (place.offset + place.n > bytes.n)
            return ERR_CORRUPT;
        str slots = str_take(str_skip(bytes, place.offset), place.n);
        if (item_slot_decode(slots, i, count, bytes.n, &span) != ERR_OK)
            return ERR_CORRUPT;
        str item = str_take(str_skip(bytes, span.offset), span.n);
        if (!item_fits(item, i, span.hash) || item_decode(item, &it) != ERR_OK)
            return ERR_CORRUPT;
    }
    return count == 0 ? ERR_CORRUPT : ERR_OK;
}
