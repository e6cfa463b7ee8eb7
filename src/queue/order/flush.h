/* flush.h - the writes of a partition: what goes into the next, what comes of it. Private to queue.
 *
 * A write is built from what waits when its slot is free, from memory that no other main write is
 * changing; so what it decides is certain but for its own outcome. On ERR_OK its steps take effect
 * in memory; on a definite failure they are taken back and the requests wait again or are refused;
 * after an unknown one the partition's memory is thrown away and read again. Thread: under the lock
 * of the queue. */
#ifndef QUEUE_ORDER_FLUSH_H
#define QUEUE_ORDER_FLUSH_H

#include "queue/order/slot.h"

/* flush.c. True: something was started. */
bool part_flush(struct part *p);
void part_hold(struct part *p);

/* step.c: one item's way out of its place. Builds the ops and counts; the item is ENDING then. */
void step_gone(struct slot *s, struct qitem *it);
void step_return(struct slot *s, struct qitem *it, store_time now);
void step_schedule(struct slot *s, struct qitem *it, store_time at);
void step_extend(struct slot *s, struct qitem *it, store_time deadline);
void step_release(struct slot *s, struct qitem *it);
void step_done(struct part *p, const struct step *s);
void step_undo(struct part *p, const struct step *s);
enum { STEP_OPS_MAX = 4 }; /* of one item, its batch's states included */
store_time queue_expiry(const struct queue *q,
                        store_time due); /* of an item that may be leased from due on */
struct queue_entry qitem_entry(const struct qitem *it, enum queue_entry_kind kind);
struct queue_lease qitem_lease(const struct qitem *it, store_time deadline);
void qitem_lease_read(struct qitem *it, const struct queue_lease *row); /* what it says of it */
/* Attempts that a row or a client gave, within their limit. */
uint32_t attempts_counted(uint32_t attempts);
void due_add(struct qitem *it, store_time at);
void due_put(struct qitem *it); /* into queue.due, or out of sight when too far ahead */

/* produce.c */
err req_admit(struct queue *q, struct err_note *note);
void produce_begin(struct queue *q, struct queue_produce *r); /* it is in no list yet */
void place_round(struct queue *q);
void produce_build(struct part *p, struct slot *s, store_time now);
/* The batch of small requests, if there is one, is whole for now; it is the batch's own now, and
 * nothing more comes to it. */
void produce_pack_close(struct slot *s);
void produce_pack_end(struct slot *s);
void produce_done(struct queue_produce *r);
void produce_again(struct queue_produce *r); /* definitely not written: placed anew */
void produce_unplace_all(struct part *p);    /* what is in no write yet */
void produce_leave(struct queue *q,
                   struct queue_produce *r); /* before it is answered with an error */
void produce_unknown(struct part *p, struct queue_produce *r);
void produce_known(struct queue_produce *r,
                   bool there); /* what the store said of an unknown outcome */

/* idem.c */
struct idem *idem_find(struct queue *q, const unsigned char hash[16]);
void idem_digest(const struct queue_produce *r, unsigned char out[QUEUE_DIGEST_BYTES]);
/* ERR_AGAIN: r is the one that writes; ERR_OK: it was answered, or waits; ERR_PRECONDITION: another
 * request's key. */
err idem_join(struct queue *q, struct queue_produce *r);
bool idem_ready(struct queue *q, struct queue_produce *r); /* it may be placed: it writes its key */
void idem_build(struct slot *s, struct queue_produce *r, struct ksuid first, store_time now);
void idem_outcome(struct slot *s, err why);
void idem_reloaded(struct part *p);
void idem_left(struct queue *q, struct queue_produce *r);
void idem_expire(struct queue *q, store_time now);
void idem_delete(struct part *p, struct slot *s);
void idem_load(struct part *p, const struct queue_key *k);
store_time idem_next(const struct queue *q);
void idem_end(struct queue *q, const unsigned char hash[16]);
void idem_free_all(struct queue *q);

/* lease.c */
void lease_round(struct queue *q);
void lease_build(struct part *p, struct slot *s);
void lease_written(struct queue_lease_request *r, bool ok, bool unknown);
void lease_fetch_all(struct queue *q,
                     struct list *fetches); /* not under the lock; leaves it locked */
void lease_lose_steps(struct slot *s);
void lease_lost(struct part *p); /* memory is thrown away */
void lease_detach(struct queue *q, struct queue_lease_request *r);
void lease_orphans(struct slot *s, bool ok, bool unknown);
void orphan_build(struct part *p, struct slot *s);

/* change.c */
void change_begin(struct queue *q, struct queue_change *c);
void change_build(struct part *p, struct slot *s, store_time now);
void change_outcome(struct queue_change *c, err why);
void change_again(struct queue_change *c);
void change_unwritten(struct queue_change *c); /* the write was taken back */
void change_leave(struct queue_change *c);
void change_refuse_all(struct part *p);

/* damage.c: bodies that cannot be had. */
bool damage_is(err why);
void damage_tell(struct part *p, uint64_t items, struct ksuid id, const char *why);
void damage_lease(struct part *p, const struct queue_lease *l); /* its batch is gone */
void damage_entry(struct part *p, const struct queue_entry *e); /* likewise, and it is not leased */
void damage_found(struct part *p,
                  bool whole); /* after all such; whole: memory has all that the store has */
void damage_build(struct part *p, struct slot *s);
void damage_mended(struct part *p, const struct slot *s);
void damage_aside(struct part *p, struct qitem *it,
                  err why); /* it was GRANTING, and is in no list */

/* due.c: what is due. */
void due_build(struct part *p, struct slot *s, store_time now);
bool item_dies(const struct qitem *it, store_time now);
/* move.c: to another queue. */
struct move;
void part_die(struct part *p, struct slot *s, struct qitem *it, struct queue_change *c);
void move_build(struct part *p, struct slot *s);
void move_outcome(struct move *m, err why);
void move_begin(struct part *p);          /* of what part_die gathered */
mono move_wake(struct part *p, mono now); /* what is tried again; when to look next */
void move_lost(struct part *p);           /* before the memory is thrown away */
void move_abandon(struct part *p);        /* the queue ends */
void move_forget_change(struct part *p, const struct queue_change *c);
/* Its move failed, and is tried again later. lets_go: and nothing of it was written. let_go: such a
 * move is over, its items are back. */
bool move_waits(struct part *p, const struct qitem *it);
bool move_lets_go(struct part *p, const struct qitem *it);
void move_let_go(struct part *p, const struct qitem *it);
unsigned move_items(const struct part *p); /* on their way */

/* load.c */
void part_look(struct part *p,
               struct queue_change *c); /* asks the store for ids that memory does not know */
struct batch *part_batch_of(struct part *p, const struct queue_batch *row);
struct qitem *looked_item(struct part *p, const struct looked *l);
void part_read(struct part *p);           /* starts what has to be read, if anything */
bool part_reads_on(const struct part *p); /* more of the window has to be read */
void part_refuse(struct part *p);         /* what it stores cannot be read: read it all anew */
void part_failed(struct part *p);         /* an unknown outcome, damage: memory is worth nothing */

/* admin.c: of what looks into a partition on a thread of the pool. Not under the lock. */
err part_check(struct queue *q, uint32_t partition,
               struct err_note *note); /* is there such a one? */
err part_readable(const struct part *p,
                  struct err_note *note); /* nobody waits there for a store known to be silent */
void part_looked(const struct part *p, err why); /* its store did not answer: it is probed */

/* Of a call in several writes of which one failed: how many of its items those before were about.
 */
void progress_note(struct err_note *note, unsigned done, unsigned count, const char *what);
/* change.c: the id that a client wrote. */
err id_parse(str text, struct ksuid *out, struct err_note *note);

/* stores.c */
void stores_written(struct queues *all, uint32_t store, err why, int64_t took_ns, bool counts);
void stores_wanted(struct queues *all,
                   uint32_t store);         /* a request waits for it: it is probed soon */
void stores_all_wanted(struct queues *all); /* those that are not well */
void stores_overdue(struct queues *all, uint32_t store, int64_t took_ns);
void stores_in_flight(struct queues *all, uint32_t store, int n);
void stores_look(struct queues *all, struct place_store *out);
enum place_status stores_status(struct queues *all, uint32_t store);
bool stores_silent(struct queues *all,
                   uint32_t store); /* known not to answer: nobody waits for it */
mono stores_probe(struct queues *all,
                  mono now); /* on the loop: starts what is due; when to look again */
void stores_init(struct queues *all);
void stores_fini(struct queues *all);

#endif
