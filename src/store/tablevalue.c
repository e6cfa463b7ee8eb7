/* tablevalue.c - stored forms of values that callers have without JSON, and rows by name. Pure. */
#include "store/table_read.h"

#include "base/buf.h"

#include <string.h>

/* Turned, it makes numbers sort as unsigned bytes do. */
#define SIGN ((uint64_t)1 << 63)

/* p NULL: the arena is full. */
str table_value_long(struct arena *a, int64_t v)
{
    char bytes[8];
    put_be64(bytes, (uint64_t)v ^ SIGN);
    return arena_copy(a, (str){ .p = bytes, .n = sizeof bytes });
}

int64_t table_long(str stored)
{
    return stored.n == 8 ? (int64_t)(get_be64(stored.p) ^ SIGN) : 0;
}

str table_value_tid(struct arena *a, struct tid t)
{
    unsigned char bytes[TID_KEY_BYTES];
    tid_key(t, bytes);
    return arena_copy(a, (str){ .p = (const char *)bytes, .n = sizeof bytes });
}

struct tid table_tid(str stored)
{
    if (stored.n != TID_KEY_BYTES)
        return (struct tid){ .ticks = 0 };
    unsigned char bytes[TID_KEY_BYTES];
    memcpy(bytes, stored.p, sizeof bytes);
    return tid_from_key(bytes);
}

str table_row_value(const struct table_row *r, str name)
{
    for (unsigned i = 0; i < r->count; i++)
        if (str_eq(r->attrs[i].name, name))
            return r->attrs[i].value;
    return STR_NONE;
}
