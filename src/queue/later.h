/* later.h - calls of queues and stores that may be answered later. Part of queue.h.
 *
 * The caller sets home and task.run. A call that will be answered later returns ERR_AGAIN. It holds
 * no thread, and posts the task to home exactly once; why has the outcome then. The caller keeps
 * all that the call points to until then. Any other result is final, and the task is not posted.
 * With later NULL the call blocks. With later it may still block for a disk of this machine, so it
 * is not for the loop. */
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
