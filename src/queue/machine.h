/* machine.h - one queue: its requests, writes and effects under one lock; all queues of a server.
 * Private to queue.
 *
 * A call enters the queue (lock), decides, starts writes in the order they were decided, and
 * leaves: on leaving it settles what came of it until nothing changes (queue_settle), unlocks, and
 * carries the effects out: answers, copies of bodies. Answers are tasks, posted to the homes of
 * their requests.
 *   A store's thread that brings an outcome sends what is behind that write (slot.h), puts the
 * outcome into queue.arrived, posts a task or two and is done: no store's thread waits for a queue,
 * or works for it. Whoever runs such a task enters if nobody is inside; who is inside looks at
 * arrived again after unlocking. */
#ifndef QUEUE_MACHINE_H
#define QUEUE_MACHINE_H

#include "base/rng.h"
#include "loop/loop.h"
#include "queue/item.h"
#include "queue/order/health.h"
#include "queue/order/part.h"
#include "queue/queue.h"
#include "queue/request.h"
#include "queue/turn.h"

#include <pthread.h>
#include <stdatomic.h>

/* An outcome brought in by any thread; arrived is called under the lock of the queue. */
struct arrival {
    struct list link;
    void (*arrived)(struct arrival *a);
};

struct idem {
    struct hash_node node;
    unsigned char hash[16];
    struct list age; /* in queue.idems_by_age; until stored in the write that puts it */
    uint32_t partition, count;
    bool stored;
    struct ksuid first;
    store_time expire_at;
    unsigned char digest[QUEUE_DIGEST_BYTES]; /* of what its writer stores; zero: none */
    struct queue_produce *writer; /* whose write it is; NULL: stored, or its writer left */
    struct list waiting;          /* the same request again */
};

struct queue {
    uint32_t magic;
    atomic_uint refs;
    struct queues *all;
    uint32_t number;
    pthread_mutex_t lock;
    pthread_mutex_t arrived_lock;
    struct list arrived; /* struct arrival */
    struct task call;    /* on the loop: looks at what arrived */
    atomic_uint called;  /* it is posted */
    bool deleted, draining, paused, placing_wanted;
    bool fresh;      /* new partitions are being owned: nothing is read yet */
    unsigned unseen; /* partitions whose keys were never read */
    /* partitions where items were moved to, or not: nobody knows until they are read */
    unsigned unsure;
    struct queue_info info; /* texts are own memory */
    struct part **parts;
    uint32_t parts_count;
    atomic_uint parts_shown; /* the same, for a look without the lock */
    uint32_t keyed_count;    /* partitions that order keys are spread over */
    struct place *place;
    struct list parked;           /* produce, by seq */
    struct list waiting;          /* leases, by seq */
    struct list held;             /* all kinds, while paused */
    struct list replies, fetches; /* effects */
    struct list work;             /* parts with something to write */
    struct list resting;          /* slots of no partition */
    unsigned resting_count;
    struct hash clients, idems;
    struct list idems_by_age;
    struct heap due;       /* items by due_at */
    struct heap deadlines; /* requests */
    struct heap overdue;   /* busy slots */
    struct heap heads;     /* parts by age of their head */
    struct heap expires;   /* parts by expire_min */
    struct rng rng;
    store_time ids_at; /* of the last ids, of whichever partition */
    uint64_t seq, marks, requests, produces_waiting, leases_waiting, changes_waiting;
    unsigned busy; /* writes, jobs and moves on their way */
    mono retry_at; /* of what is parked; INT64_MAX: nothing is */
    int64_t retry_ms;
    mono unplaced_at;   /* since when no partition takes a produce; ns INT64_MAX: one does */
    bool unplaced_said; /* in the log */
    mono held_at;       /* the first part that may be written again */
    mono move_told_at;  /* that moves fail is told then again */
    struct list free_items;
    struct qitem **chunks;
    unsigned chunks_count;
    uint32_t last_part; /* served last */
    /* in queues.timers */
    struct heap_node due_node, wait_node;
    store_time due_at;
    mono wait_at;
};

struct store_state {
    struct health health;
    struct store_job job;
    struct err_note note; /* of a recovery */
    struct queues *all;
    uint32_t index;
    mono started;
    err outcome;
    bool recovering, turned, recovered; /* turned, recovered: to be told to the queues */
    uint32_t foreign;                   /* partitions that another process owns */
};

struct queues {
    uint32_t magic;
    struct queues_opts opts;
    unsigned affinities[QUEUE_STORES_MAX]; /* weights of the stores */
    unsigned char boot[QUEUE_BOOT_BYTES];
    pthread_rwlock_t lock;       /* names */
    pthread_mutex_t change_lock; /* one change of the catalogue at a time */
    struct map *names;
    struct queue **sorted; /* by name */
    size_t count, size;
    uint32_t next_number;
    uint64_t partitions;  /* of all queues; under change_lock */
    atomic_bool draining; /* set by the loop; jobs look */
    pthread_mutex_t health_lock;
    struct store_state stores[QUEUE_STORES_MAX];
    struct list drops; /* partitions to be dropped, one queue's at a time; the loop's */
    pthread_mutex_t timers_lock;
    struct heap due, wait;
    mono probe_at; /* the stores are looked at then */
    mono armed;    /* the timer fires then at the latest */
    bool arming, stopped;
    struct loop_timer *timer;
    struct limiter *turns; /* turn.h */
    atomic_uint_least64_t bytes_cached;
    atomic_uint jobs, alive; /* alive: struct queue */
    struct rng rng;
};

/* queue.c */
void queue_enter(struct queue *q);
void queue_leave(struct queue *q);
/* What arrived, if nobody is inside: who is looks for himself. */
void queue_look(struct queue *q);
/* Some time between two looks at what other threads bring about; outside. */
void queue_rest(void);
void queue_ref(struct queue *q);
/* Any thread, in this order. a stands in queue.arrived once unlocked, behind all that arrived under
 * the lock before. Then somebody is called to look at it: the tasks of callers (some may be NULL)
 * are posted, or one of the queue's own. From lock to tell the queue is held. */
void queue_arrive_lock(struct queue *q);
void queue_arrive_unlock(struct queue *q, struct arrival *a);
void queue_arrive_tell(struct queue *q, struct req *const *callers, unsigned count);
err queue_grow(struct queue *q,
               struct err_note *note); /* one more partition. Blocks, under change_lock */
/* Forgets what is in memory and reads it again. Blocks, under change_lock. */
void part_reread(struct queue *q, uint32_t partition);
err part_migrate(struct queue *q, uint32_t partition, str store,
                 struct err_note *note); /* as above */
err queue_save(struct queue *q);         /* its row. As above */
err queue_save_grown(struct queue *q,
                     uint32_t store); /* its row with one more partition, on store. As above */
err queues_room(const struct queues *qs, uint32_t more,
                struct err_note *note);        /* for partitions. Under change_lock */
void queue_end(struct queue *q, bool deleted); /* answers what waits */
void queue_drop(struct queue *q);              /* its partitions, when it can */
void queues_enlist(struct queues *qs, struct queue *q);
struct queue *queues_by_number(struct queues *qs,
                               uint32_t number); /* a reference; NULL: there is none */
uint32_t queues_store_for(struct queues *qs, const uint32_t *counts);
void part_own(struct part *p,
              const struct queue_part_record *record); /* epoch and counts are known */
void part_fresh(struct part *p,
                const struct queue_part_record *record); /* a new one: nothing to read */
void queue_own_fresh(struct queue *q, uint32_t from); /* partitions from number from on. Blocks */
void queue_part_add(struct queue *q, uint32_t store);
void queue_info_own(struct queue_info *to, const struct queue_info *from);
void queue_info_free(struct queue_info *info);
struct queue *queue_new(struct queues *all, const struct queue_info *info, uint32_t number);
void queue_work(struct part *p);                   /* has something to write, or to read */
void part_arrive(struct part *p, struct batch *b); /* is in the store now: its ready items */
void part_loads(struct part *p);                   /* its load changed */
void part_heads(struct part *p);                   /* its head changed */
bool part_usable(const struct part *p);            /* loaded, and its store not in error */
/* It is away: its memory was lost or never read, and its store does not answer, or is in error.
 * Nobody waits for it. */
void part_set_foreign(struct part *p, bool foreign);
bool part_failing(const struct part *p);
err part_failing_note(const struct part *p,
                      struct err_note *note); /* for who asked; its store is probed soon */
struct queue_store *part_store(const struct part *p);
/* stores.c: how store number index does; false: there are not so many. Thread: any. */
struct queue_store_stats {
    const char *name, *state; /* the store's; "available", "suspect", "error" */
    uint64_t failures;        /* writes, reads and probes, so far */
    int64_t write_ns;         /* a write takes about so long */
};
bool queues_store(struct queues *qs, unsigned index, struct queue_store_stats *out);
/* queues.c: was a partition, or were all, read, or cannot they be now? */
bool queue_is_read(struct queue *q, uint32_t partition);
/* The stores of a partition, or all: a bit for each, by its index; unread: of those that were not
 * read. */
uint64_t queue_stores(struct queue *q, uint32_t partition);
uint64_t queue_stores_unread(struct queue *q);
/* turn.c */
struct limiter *turns_new(struct loop *loop, struct clock *clock);
/* queues.c: tells every queue how a store does. */
void queues_each(struct queues *all, uint32_t store, bool recovered);
/* timers.c */
void timers_update(struct queue *q, store_time due, mono wait);
void timers_init(struct queues *all);
bool timers_idle(struct queues *all); /* nothing of it is posted to the loop */
void timers_stop(struct queues *all);
void timers_fini(struct queues *all);
void timers_soon(struct queues *all, mono at); /* look at the stores then */

#endif
