/* remote_impl.h - what the files of a timeline in Redis share. Private to remote.c, remote_list.c
 * and remote_expire.c. */
#ifndef TIMELINE_REMOTE_IMPL_H
#define TIMELINE_REMOTE_IMPL_H

#include "redis/redis.h"
#include "timeline/remote_rows.h"

struct timeline_remote {
    struct redis *redis;
};

/* n with a text before it. */
str timeline_remote_number(char out[TIMELINE_REMOTE_NUMBER_BYTES], const char *before, int64_t n);
int64_t timeline_remote_us(store_time at);
/* The end of a range by score: all before that instant. */
str timeline_remote_before(char out[TIMELINE_REMOTE_NUMBER_BYTES], store_time before);

#endif
