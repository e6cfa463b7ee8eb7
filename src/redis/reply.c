/* reply.c - a struct redis_reply is hiredis's redisReply under a name of ours: nobody else sees
 * hiredis. */
#include "redis/reply.h"

#include <hiredis/hiredis.h>

static const redisReply *reply_of(const struct redis_reply *r)
{
    return (const redisReply *)(const void *)r;
}

enum redis_type redis_type(const struct redis_reply *r)
{
    switch (reply_of(r)->type) {
    case REDIS_REPLY_INTEGER:
        return REDIS_INTEGER;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
        return REDIS_TEXT;
    case REDIS_REPLY_ARRAY:
        return REDIS_ARRAY;
    default:
        return REDIS_NIL;
    }
}

str redis_text(const struct redis_reply *r)
{
    if (redis_type(r) != REDIS_TEXT)
        return STR_NONE;
    return (str){ .p = reply_of(r)->str, .n = reply_of(r)->len };
}

int64_t redis_integer(const struct redis_reply *r)
{
    int64_t number = 0;
    if (redis_type(r) == REDIS_INTEGER)
        return reply_of(r)->integer;
    return str_to_i64(redis_text(r), &number) ? number : 0;
}

unsigned redis_count(const struct redis_reply *r)
{
    return redis_type(r) == REDIS_ARRAY ? (unsigned)reply_of(r)->elements : 0;
}

const struct redis_reply *redis_at(const struct redis_reply *r, unsigned index)
{
    INVARIANT(index < redis_count(r));
    return (const struct redis_reply *)(const void *)reply_of(r)->element[index];
}

str reply_error(const struct redis_reply *r)
{
    if (reply_of(r)->type != REDIS_REPLY_ERROR)
        return STR_NONE;
    return (str){ .p = reply_of(r)->str, .n = reply_of(r)->len };
}

struct meaning {
    const char *starts;
    err why;
    bool broken;
};
static const struct meaning meanings[] = {
    { "OOM ", ERR_FULL, false },
    { "NOAUTH ", ERR_DENIED, true },
    { "WRONGPASS ", ERR_DENIED, true },
    { "NOPERM ", ERR_DENIED, false },
    { "ERR invalid password", ERR_DENIED, true },
    { "LOADING ", ERR_UNAVAILABLE, true },
    { "READONLY ", ERR_UNAVAILABLE, true },
    { "MASTERDOWN ", ERR_UNAVAILABLE, true },
    { "MISCONF ", ERR_UNAVAILABLE, true },
    { "MOVED ", ERR_UNAVAILABLE, true },
    { "ASK ", ERR_UNAVAILABLE, true },
    { "CLUSTERDOWN ", ERR_UNAVAILABLE, true },
    { "BUSY ", ERR_UNAVAILABLE, true },
    { "ERR max number of clients", ERR_UNAVAILABLE, true },
};

/* What a command within a script said. Redis 6.2 puts words of its own before it. */
static str without_script(str text)
{
    str mark = STR(": -");
    size_t at = str_find_str(text, mark);
    return str_starts(text, STR("ERR Error running script")) && at < text.n
               ? str_skip(text, at + mark.n)
               : text;
}

err reply_error_code(str whole, bool *broken)
{
    str text = without_script(whole);
    for (size_t i = 0; i < COUNT_OF(meanings); i++) {
        if (str_starts(text, str_of(meanings[i].starts))) {
            *broken = meanings[i].broken;
            return meanings[i].why;
        }
    }
    *broken = false;
    return ERR_BAD;
}
