/* catalogue.h - which queues there are, on disk. Private to queue.
 *
 * Space SPACE_QUEUE of the main engine; keys are one letter and a number:
 *   q number   -> version; blob: the queue (names, timeouts, partitions with their stores and
 *              modes)
 *   d number   -> version; blob: a deleted queue whose partitions still have to be dropped
 *   n          -> the next number; a number is never used twice, so a queue made again begins empty
 *   i          -> the name of this deployment (queue_deployment in open.h)
 * Names go up to 512 bytes, longer than a key may be; stores are named, so that configuration may
 * reorder them. Blocks; Thread: any but the loop. */
#ifndef QUEUE_CATALOGUE_H
#define QUEUE_CATALOGUE_H

#include "queue/order/part.h"
#include "queue/queue.h"

struct buf;
struct engine;
struct catalogue_part {
    uint16_t store;
    unsigned char mode;
};
struct catalogue_row {
    uint32_t number, keyed_count;
    struct queue_info info; /* borrowed texts */
    const char *stores[QUEUE_STORES_MAX];
    unsigned stores_count;
    struct catalogue_part *parts; /* of info.partitions */
};
/* Calls each for all rows, valid inside the call; deleted: its partitions are to be dropped.
 * ERR_CORRUPT, ERR_IO. */
MUST_CHECK err catalogue_load(struct engine *e, uint32_t *next_number,
                              err (*each)(void *ctx, const struct catalogue_row *row, bool deleted),
                              void *ctx);
MUST_CHECK err catalogue_put(struct engine *e, const struct catalogue_row *row,
                             uint32_t next_number);
/* Turns a queue into one to be dropped; drop_done forgets it. */
MUST_CHECK err catalogue_delete(struct engine *e, const struct catalogue_row *row);
MUST_CHECK err catalogue_forget(struct engine *e, uint32_t number);

/* Pure: the blob of a row. decode: names in the arena. ERR_CORRUPT, ERR_LIMIT. */
MUST_CHECK err catalogue_encode(const struct catalogue_row *row, struct buf *out);
MUST_CHECK err catalogue_decode(str bytes, struct arena *a, struct catalogue_row *out);

/* Pure. Is the owner of a store's database or folder (what) this deployment? ERR_BAD, saying what
 * to do. */
MUST_CHECK err queue_owner_check(const char *store, const char *what, str owner, const char *ours,
                                 struct err_note *note);

#endif
