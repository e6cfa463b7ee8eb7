/* local.h - the parts of a local store (queue_local_open in open.h). Private to
 * store/local.
 *
 *   local.c        opening, failing, recovering, dropping
 *   local_owner.c  whose the folder is, and whether it is there
 *   local_write.c  ops -> rows
 *   local_scan.c   rows -> what the owner keeps in memory
 *   local_read.c   single rows; bodies
 *   local_check.c  whether all fits together */
#ifndef QUEUE_STORE_LOCAL_LOCAL_H
#define QUEUE_STORE_LOCAL_LOCAL_H

#include "engine/engine.h"
#include "queue/store/local/rows.h"
#include "queue/store/open.h"

#include <pthread.h>
#include <stdatomic.h>

struct local {
    uint32_t magic;
    struct queue_store store;
    struct queue_local_opts opts; /* name, dir and deployment are our copies */
    pthread_rwlock_t gate;        /* held for writing while the engine is exchanged */
    struct engine *engine;        /* NULL: could not be opened again */
    atomic_bool failed;
    atomic_bool away; /* its folder; then it failed too */
};
#define LOCAL_MAGIC 0x57043007u

struct local *local_of(struct queue_store *s);
/* The engine, until local_leave; ERR_UNAVAILABLE while there is none that works. Never waits. */
MUST_CHECK err local_enter(struct local *l, struct engine **out);
void local_leave(struct local *l);

/* Before the engine is opened. ERR_UNAVAILABLE: there is no store in the folder and there should
 * be. */
MUST_CHECK err local_owner_look(const struct local *l, struct err_note *note);
/* After it was: marks it as ours when it is nobody's. ERR_BAD: it is another's. ERR_UNAVAILABLE: as
 * above. */
MUST_CHECK err local_owner_mark(const struct local *l, struct engine *e, struct err_note *note);

void local_write(struct queue_store *s, struct queue_write *w);
err local_own(struct queue_store *s, const struct queue_own *own);

err local_record(struct queue_store *s, struct queue_part p, struct queue_part_record *out);
err local_scan(struct queue_store *s, const struct queue_scan *scan);
err local_batch(struct queue_store *s, struct queue_part p, const struct queue_batch_look *look);
err local_bodies(struct queue_store *s, struct queue_part p, struct queue_bodies *b);

/* The row of a batch, wherever it stands. ERR_NOT_FOUND, ERR_CORRUPT, ERR_IO. */
struct local_batch {
    enum row_kind kind;
    struct engine_blob blob;  /* until the next call on the view */
    struct queue_batch batch; /* the same for its order key; states are in states */
    unsigned char states[QUEUE_BATCH_ITEMS_MAX];
};
MUST_CHECK err local_batch_find(struct engine_view *v, struct queue_part p, struct ksuid first,
                                struct local_batch *out);
MUST_CHECK err local_record_get(struct engine_view *v, struct queue_part p,
                                struct queue_part_record *out);

#endif
