/* ids.h - which events the log took lately, by their ids. Private to this folder.
 *
 * Model. A table in memory from the digest of an event to its number. What goes in goes out in the
 * same order: the oldest ids leave when they are older than somebody wants to know, or when there
 * are more than max. It is built anew from the log when that is opened.
 *   It grows by one bucket with each id: no call has to move the whole table, whatever its size.
 * EVENT_ID_BYTES of memory an id, for as many as there were at once.
 * Source: Litwin, "Linear Hashing: A New Tool for File and Table Addressing", 1980.
 * Thread: one at a time; event_ids_figures any. */
#ifndef EVENT_IDS_H
#define EVENT_IDS_H

#include "event/rows.h"

struct event_ids;
struct event_ids *event_ids_new(void);
void event_ids_free(struct event_ids **ip);

/* What counts from now on: numbers behind `behind`, and not more than max of them. Each call that
 * puts one in lets a few go. */
void event_ids_bound(struct event_ids *i, uint64_t behind, uint64_t max);
/* 0: it was not taken, as far as it counts. */
uint64_t event_ids_find(const struct event_ids *i, const unsigned char digest[EVENT_DIGEST_BYTES]);
/* seq: greater than all before. */
void event_ids_put(struct event_ids *i, const unsigned char digest[EVENT_DIGEST_BYTES],
                   uint64_t seq);
/* It was put in, and is not to count: the event was not stored, or is to be stored once more. */
void event_ids_strike(struct event_ids *i, const unsigned char digest[EVENT_DIGEST_BYTES],
                      uint64_t seq);

/* ids: that are there; early: that left because there were too many, although they still counted.
 */
void event_ids_figures(const struct event_ids *i, uint64_t *ids, uint64_t *early);

#endif
