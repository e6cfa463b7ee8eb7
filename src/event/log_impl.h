/* log_impl.h - what the files of the event log share. Private to this folder. */
#ifndef EVENT_LOG_IMPL_H
#define EVENT_LOG_IMPL_H

#include "event/log.h"

#include <pthread.h>
#include <stdatomic.h>

struct event_telling {
    struct event_follower follower;
    struct task task;
    atomic_uint tellings; /* that the task has not answered yet; it is posted, or runs, while > 0 */
};

struct event_log {
    uint32_t magic;
    struct engine *engine;
    struct clock *clock;
    uint64_t id;
    _Atomic int64_t retention_ns, dedupe_ns;
    _Atomic uint64_t bytes_max;
    struct event_telling tellings[EVENT_FOLLOWERS_MAX];
    unsigned tellings_count;
    pthread_mutex_t lock; /* of hushed */
    bool hushed;
};
#define EVENT_LOG_MAGIC 0xe7e27109u

#endif
