/* log_impl.h - what the files of the event log share. Private to this folder. */
#ifndef EVENT_LOG_IMPL_H
#define EVENT_LOG_IMPL_H

#include "engine/engine.h"
#include "event/ids.h"

#include <pthread.h>
#include <stdatomic.h>

struct event_telling {
    struct event_follower follower;
    struct task task;
    atomic_uint tellings; /* that the task has not answered yet; it is posted, or runs, while > 0 */
};

/* Requests to append. Those that wait become one update, as soon as the one before is on disk. */
struct event_batch {
    pthread_mutex_t lock;  /* of the next five */
    pthread_cond_t landed; /* it is not flying */
    struct event_append *first, *last;
    unsigned waiting;
    bool flying;          /* the update is the engine's */
    struct buf forgotten; /* digests: they leave the table before the next update is decided */
    /* Of the update that is decided: the committer's. */
    struct engine_update update;
    struct event_append *decided;
    struct event_ids *ids;
    /* Rows of several events: their blobs behind each other. */
    char *text, *end;
    size_t text_size;
    /* The row that is being made. */
    char *row_text; /* begins there */
    const struct event *only;
    unsigned events;
    unsigned char digests[EVENT_ROW_EVENTS_MAX * EVENT_DIGEST_BYTES];
};

struct event_log {
    uint32_t magic;
    struct engine *engine;
    struct clock *clock;
    uint64_t id;
    _Atomic int64_t retention_ns, dedupe_ns;
    _Atomic uint64_t bytes_max, ids_max;
    _Atomic uint64_t given; /* the greatest number of an event, which may not be on disk */
    _Atomic uint64_t line;  /* event_log_cut: no event gets a number up to it any more */
    struct event_telling tellings[EVENT_FOLLOWERS_MAX];
    unsigned tellings_count;
    pthread_mutex_t lock; /* of hushed */
    bool hushed;
    struct event_batch batch;
};
#define EVENT_LOG_MAGIC 0xe7e27109u

/* ---- log.c ---- */
/* Sets it to the greater of the two, and returns that. */
uint64_t event_number_raise(_Atomic uint64_t *number, uint64_t to);

/* ---- append.c ---- */
void event_batch_init(struct event_log *l);
void event_batch_fini(struct event_log *l);
/* Events up to that number do not count as repeated at that instant. */
uint64_t event_batch_since(struct event_log *l, store_time now);
/* Tells the table so. Before anything is appended, or within an update. */
void event_batch_bound(struct event_log *l, store_time now);

/* ---- known.c ---- */
/* Takes the ids that count from the log. ERR_IO, ERR_CORRUPT. */
MUST_CHECK err event_ids_load(struct event_log *l);

#endif
