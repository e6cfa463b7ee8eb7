/* record.h - what clients of the simulation asked and were told, in order, as test/scene/linear.py
 * reads it: one JSON object a line. All functions do nothing without a record. Single thread. */
#ifndef SIM_RECORD_H
#define SIM_RECORD_H

#include "queue/queue.h"

#include <stdint.h>

struct record;
/* Owner: caller; record_close. NULL: the file cannot be made. */
struct record *record_open(const char *path);
void record_close(struct record **rp);
/* Before anything else: the queues, and whether stores fail. */
void record_queues(struct record *r, const struct queue_info *infos, unsigned count,
                   bool is_faulty);
/* The call of an operation, before it is started; its number. The name of an item is its body's
 * first word. */
uint64_t record_produce(struct record *r, store_time at, const struct queue_produce *p);
uint64_t record_lease(struct record *r, store_time at, const struct queue_lease_request *l);
uint64_t record_change(struct record *r, store_time at, const struct queue_change *c);
/* Its answer: how is ok, refused, none or unknown (linear.py says when). */
void record_answer(struct record *r, store_time at, uint64_t op, const char *how);
void record_leased(struct record *r, store_time at, uint64_t op,
                   const struct queue_lease_request *l);
/* The process ended: what was not answered never will be. */
void record_crash(struct record *r, store_time at);
/* At the end, what came out of the queues when they were emptied: begin, each, end. */
void record_drained_begin(struct record *r, store_time at);
void record_drained(struct record *r, const char *name);
void record_drained_end(struct record *r);

#endif
