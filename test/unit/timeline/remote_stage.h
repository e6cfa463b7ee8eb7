/* remote_stage.h - a timeline in a redis-server of the test's own. The test's thread is the loop's:
 * each call runs the loop until it is answered. */
#ifndef TEST_REMOTE_STAGE_H
#define TEST_REMOTE_STAGE_H

#include "loop/loop.h"
#include "loop/sysclock.h"
#include "redis/redis.h"
#include "redis_server.h"
#include "timeline/remote.h"

enum { REMOTE_STAGE_TIMEOUT_MS = 2000 };

struct remote_stage {
    struct redis_server server;
    struct sysclock *clock;
    struct loop *loop;
    struct redis *redis;
    struct timeline_remote *remote;
    struct loop_timer *guard;
    bool up, wanted_up, waits_for_up;
    bool answered;
    err why;
    char text[ERR_NOTE_BYTES]; /* of the last answer that was an error */
    int64_t integer;           /* of the last answer to a command */
};
void remote_stage_open(struct remote_stage *s);
void remote_stage_close(struct remote_stage *s);
/* Runs the loop until the client is up, or down. */
void remote_stage_until(struct remote_stage *s, bool up);
/* One command, words apart by spaces; its answer: an integer is in s->integer. */
err remote_stage_command(struct remote_stage *s, const char *words);
err remote_stage_add(struct remote_stage *s, struct timeline_remote_add *a);
err remote_stage_list(struct remote_stage *s, struct timeline_remote_list *l);
err remote_stage_expire(struct remote_stage *s, struct timeline_remote_expiry *x);

#endif
