/* rig.h - queues over local stores in scratch directories, with a real loop on a thread and a clock
 * a test can move; and calls that wait for their answer. */
#ifndef UNIT_QUEUE_RIG_H
#define UNIT_QUEUE_RIG_H

#include "../cmocka_all.h"
#include "../scratch.h"
#include "lib/wait.h"
#include "loop/loop.h"
#include "loop/sysclock.h"
#include "queue/admin.h"
#include "queue/store/open.h"

#include <pthread.h>

enum { RIG_STORES_MAX = 4, RIG_OPS_MAX = 64, RIG_WAIT_MS = WAIT_MS };
struct rig {
    char dir[FOLDER_PATH_BYTES];
    struct sysclock *sysclock;
    struct clock *clock;
    struct engine *engine;
    struct queue_store *stores[RIG_STORES_MAX];
    unsigned stores_count;
    struct queue_store_ops ops[RIG_OPS_MAX];
    unsigned ops_count;
    struct loop *loop;
    pthread_t thread;
    struct queues *queues;
    struct queues_opts opts;
};
/* Opens everything; a second time on the same directory after rig_close. */
void rig_init(struct rig *r, unsigned stores);
void rig_prepare(struct rig *r, unsigned stores); /* all but opening */
void rig_open(struct rig *r);
void rig_close(struct rig *r);
void rig_fini(struct rig *r);
void rig_advance(struct rig *r, int64_t ns); /* and all that is due is done */

/* From here on the store runs a copy of these functions, until it is opened again. Its threads read
 * meanwhile: each has those before or these. ThreadSanitizer looks away here, and nowhere else:
 * what the functions themselves read is atomic. */
void rig_ops(struct rig *r, unsigned store, const struct queue_store_ops *ops);

/* The one that each test of a file has for itself: on one store, on two. */
extern struct rig rig;
int rig_setup(void **state);
int rig_setup_two(void **state);
int rig_teardown(void **state);

struct queue *rig_queue(struct rig *r, const char *name, uint32_t partitions);
struct queue *rig_create(struct rig *r, struct queue_info info);

/* One request with its memory and its answer. */
struct ask {
    struct arena arena;
    struct awaited answer;
    union {
        struct queue_produce produce;
        struct queue_lease_request lease;
        struct queue_change change;
    } u;
    struct queue_item_new items[1000];
    struct queue_change_item changes[1000];
    char ids[1000][28];
};
struct ask *ask_new(void);
void ask_free(struct ask *a);
err ask_wait(struct ask *a);
bool ask_is_done(struct ask *a);

/* Starts it with what a->items and the keys of a->u.produce hold. */
void ask_produce(struct rig *r, struct queue *q, struct ask *a, unsigned count);
/* Begin: do not wait. They fail the test when the start fails. */
struct ask *rig_produce_begin(struct rig *r, struct queue *q, const char *body, unsigned count);
void rig_lease_with(struct rig *r, struct queue *q, struct ask *a, unsigned count); /* a is new */
struct ask *rig_lease_begin(struct rig *r, struct queue *q, const char *client, unsigned count,
                            int64_t timeout_ms);
/* Waits. produce: the partition. */
uint32_t rig_produce(struct rig *r, struct queue *q, const char *body, unsigned count);
/* One item under an idempotency key and an order key, "" for none. Waits until it is stored; begin:
 * waits not. */
struct ask *rig_produce_keyed(struct rig *r, struct queue *q, const char *body,
                              const char *idempotency, const char *order);
struct ask *rig_produce_keyed_begin(struct rig *r, struct queue *q, const char *body,
                                    const char *idempotency, const char *order);
err rig_change(struct rig *r, struct queue *q, enum queue_change_kind kind, uint32_t partition,
               const struct ksuid *ids, unsigned count, struct err_note *note);
err rig_change_items(struct rig *r, struct queue *q, struct ask *a);
void rig_change_begin(struct rig *r, struct queue *q,
                      struct ask *a); /* waits not; fails the test when it is refused */
struct ask *rig_lease(struct rig *r, struct queue *q, unsigned count); /* waits for items */
struct ask *rig_lease_soon(struct rig *r, struct queue *q,
                           unsigned count); /* items, or none after 300 ms */
struct ask *rig_lease_token(struct rig *r, struct queue *q, unsigned count); /* waits for items */
struct queue_part_stats rig_stats(struct queue *q, uint32_t partition);
bool rig_body_is(const struct queue_item *it, const char *text);

#endif
