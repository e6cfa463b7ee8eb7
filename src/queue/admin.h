/* admin.h - looking into queues and administering them: figures, listings, imports, partitions.
 * Part of queue.h: the same errors and words. */
#ifndef QUEUE_ADMIN_H
#define QUEUE_ADMIN_H

#include "queue/later.h"
#include "queue/queue.h"

struct buf;
struct metrics;

/* ---- looking and administering. Blocks, but what has a later: pool thread. Results in the arena.
 * ---- */
struct queue_part_stats {
    uint32_t partition;
    uint64_t ready, scheduled, leased, placing, failures, damaged;
    uint64_t moving, moves_failed; /* ready and leased items on their way to another queue; tries */
    int64_t average_age_ns, average_leased_age_ns, oldest_age_ns;
    const char *state,
        *store; /* "available", "suspect", "error", "standby", "draining", "paused" */
};
struct queue_stats {
    uint64_t produce_waiting, lease_waiting, complete_waiting,
        in_flight; /* in_flight: all requests that wait */
    struct queue_part_stats *parts;
    unsigned parts_count;
};
MUST_CHECK err queue_stats_get(struct queue *q, struct arena *a, struct queue_stats *out);
/* Of a partition, or QUEUE_PARTS_ALL, in order of ids from pivot (inclusive; empty: the first): the
 * oldest first. */
struct queue_items_page {
    uint32_t partition;
    bool scheduled; /* those that wait for an instant, not the ready and leased ones */
    str pivot;
    unsigned limit; /* 0: the default */
    struct queue_later *later;
    struct queue_item *found;
    unsigned count;
};
MUST_CHECK err queue_items_list(struct queue *q, struct queue_items_page *page, struct arena *a,
                                struct err_note *note);
/* In writes of at most QUEUE_PRODUCE_ITEMS_MAX items; an item with a source_id in one of its own.
 * What can be refused is refused before the first: then nothing is stored. When a later one fails,
 * the note says how many items those before it stored. With a source_id: not while an item with it
 * is there that was imported within the idempotency window; the id is that of the first then. */
struct queue_import {
    uint32_t partition;
    const struct queue_item *items;
    unsigned count; /* at most QUEUE_IMPORT_ITEMS_MAX */
    /* what the caller takes of the arena when all is stored: it is reserved before the first write,
     * and the arena's ceiling is raised for it */
    size_t answer_bytes;
    struct queue_item *stored; /* count of them, as they are now */
    struct queue_later *later;
};
/* Can an item of these fields be stored? */
bool queue_import_fits(const struct queue_item *item);
MUST_CHECK err queue_items_import(struct queue *q, struct queue_import *import, struct arena *a,
                                  struct err_note *note);
/* In writes of at most QUEUE_COMPLETE_IDS_MAX ids; as an import when a later one fails. Borrowed
 * until it is told. */
struct queue_deletion {
    uint32_t partition;
    const str *ids;
    unsigned count;
    struct queue_later *later;
};
MUST_CHECK err queue_items_delete(struct queue *q, const struct queue_deletion *d,
                                  struct err_note *note);
/* All ready or scheduled items that are there when it comes to their partition; destructive: leased
 * ones, too. */
struct queue_clear_order {
    bool ready, scheduled, destructive;
    struct queue_later *later;
};
MUST_CHECK err queue_clear(struct queue *q, const struct queue_clear_order *order,
                           struct err_note *note);
void queue_reload(struct queue *q);
/* Items from a dead queue back to the tail of another: at most count, *moved of them. */
MUST_CHECK err queue_requeue(struct queue *dead, struct queue *to, unsigned count, unsigned *moved,
                             struct err_note *note);

/* Appends the queues' rows of the metrics, as many as have room. */
void queues_figures(struct queues *qs, const struct metrics *m, struct buf *out);
enum queue_part_order { PART_ADD, PART_DRAIN, PART_PAUSE, PART_RESUME, PART_MOVE };
struct queue_part_change {
    enum queue_part_order order;
    uint32_t partition;
    str store;
};
MUST_CHECK err queue_part_change(struct queue *q, const struct queue_part_change *c,
                                 struct err_note *note);
/* Spreads partitions over stores by affinity while requests run; returns when done. */
MUST_CHECK err queue_rebalance(struct queue *q, struct err_note *note);
/* Why requests went where: the last decisions, as JSON lines; each can be replayed from what it
 * recorded (place.h). */
MUST_CHECK err queue_why(struct queue *q, unsigned limit, struct arena *a, str *out);

#endif
