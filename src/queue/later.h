/* later.h - calls of queues and stores that may be answered later. Part of queue.h.
 *
 * Such a call returns ERR_AGAIN, holds no thread while it waits, and posts the task to home once,
 * with why; what the call points to is lent until then. Without one (NULL) the call blocks. A call
 * may block for a disk of this machine. */
#ifndef QUEUE_LATER_H
#define QUEUE_LATER_H

#include "base/err.h"
#include "base/home.h"

struct queue_later {
    struct home *home;
    struct task task; /* its run is the caller's */
    err why;
};

#endif
