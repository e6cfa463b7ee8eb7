/* reply.h - replies as values, over hiredis's. Private to redis. */
#ifndef REDIS_REPLY_H
#define REDIS_REPLY_H

#include "redis/redis.h"

/* The error text of an error reply; STR_NONE: it is none. */
str reply_error(const struct redis_reply *r);
/* What an error reply means for the caller. broken: the connection is of no use any more. Pure. */
err reply_error_code(str text, bool *broken);

#endif
