/* append_wait.h - events are appended, and the test goes on when they are on disk. */
#ifndef TEST_APPEND_WAIT_H
#define TEST_APPEND_WAIT_H

#include "event/log.h"

/* taken: count of them. Thread: any but the engine's. */
err append_wait(struct event_log *l, const struct event *events, unsigned count,
                struct event_taken *taken);

#endif
