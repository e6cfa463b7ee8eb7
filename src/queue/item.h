/* item.h - the bytes of a batch: what producers gave, item by item, so that one can be read without
 * the rest.
 *
 *   batch = version 1, zero 1, count 2, count slots, count items       all numbers big-endian
 *   slot  = offset behind the item's last byte 4, XXH3-64 of the item seeded with its index 8
 *   item  = version 1, lengths of encoding, kind, reference, source_id 2 each, of bytes 4,
 *           enqueue_at 8, then these
 * Items lie side by side in order. Whoever reads one reads its slot and the one before
 * (item_slot_place), then the item where they say, and checks it against the slot. Pure. Thread:
 * any. */
#ifndef QUEUE_ITEM_H
#define QUEUE_ITEM_H

#include "base/arena.h"
#include "base/err.h"
#include "base/times.h"

enum {
    ITEM_FIELD_BYTES_MAX = 2000, /* encoding, kind, reference, source_id */
    ITEM_HEAD_BYTES = 21,
    ITEM_BATCH_HEAD_BYTES = 4,
    ITEM_SLOT_BYTES = 12,
    ITEM_SLOTS_BYTES = 2 * ITEM_SLOT_BYTES,
};

/* Borrowed slices. */
struct item {
    str encoding, kind, reference, source_id, bytes;
    store_time enqueue_at; /* as the producer said; ZERO: it did not */
};

/* Of a batch of them; UINT64_MAX: a field is too long. */
uint64_t item_batch_bytes(const struct item *items, unsigned count);
/* count items (1 to QUEUE_BATCH_ITEMS_MAX) as one batch, in the arena. ERR_LIMIT: a field too long,
 * a batch over QUEUE_BATCH_BYTES_MAX, the arena full. */
MUST_CHECK err item_batch_encode(const struct item *items, unsigned count, struct arena *a,
                                 str *out);
/* A batch that grows item by item. Items stand in the order they come; the slots are written before
 * them when the whole is wanted. Zeroed: an empty one. Owner: caller, item_pack_fini. */
struct item_pack {
    char *memory;
    size_t size, front, used; /* front: before the first item; used: behind the last one */
    struct item_pack_slot {
        uint32_t end; /* from front */
        uint64_t hash;
    } * slots;
    unsigned count, room;
};
/* ERR_LIMIT: a field too long, more than a batch may have, no memory. */
MUST_CHECK err item_pack_add(struct item_pack *p, const struct item *it);
/* The first count items are left. */
void item_pack_cut(struct item_pack *p, unsigned count);
/* The batch of all that was added, one item at least. Borrowed until the next call. */
str item_pack_bytes(struct item_pack *p);
void item_pack_fini(struct item_pack *p);

/* Checks a whole batch of count items. ERR_CORRUPT. */
MUST_CHECK err item_batch_check(str bytes, unsigned count);

struct item_place {
    uint64_t offset, n;
};
struct item_span {
    uint64_t offset, n, hash;
};
/* What of a batch to read for the slots of item index. */
struct item_place item_slot_place(unsigned index);
/* Where item index of count is, from what item_slot_place said; batch_bytes: of the whole batch.
 * ERR_CORRUPT. */
MUST_CHECK err item_slot_decode(str slots, unsigned index, unsigned count, uint64_t batch_bytes,
                                struct item_span *out);
/* Is this the item of the slot? */
bool item_fits(str item, unsigned index, uint64_t hash);

/* Takes an item apart; slices point into it. ERR_CORRUPT. */
MUST_CHECK err item_decode(str bytes, struct item *out);

#endif
