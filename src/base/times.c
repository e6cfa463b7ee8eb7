/* times.c - arithmetic of instants that saturates: a deadline far away stays far away instead of
 * wrapping. */
#include "base/times.h"

store_time store_time_add(store_time t, int64_t ns)
{
    int64_t sum;
    if (t.ns == INT64_MAX || ns == DURATION_NEVER)
        return STORE_TIME_NEVER;
    if (__builtin_add_overflow(t.ns, ns, &sum))
        return ns > 0 ? STORE_TIME_NEVER : (store_time){ .ns = INT64_MIN };
    return (store_time){ .ns = sum };
}

mono mono_add_ms(mono t, int64_t ms)
{
    int64_t ns, sum;
    if (__builtin_mul_overflow(ms, NS_PER_MS, &ns) || __builtin_add_overflow(t.ns, ns, &sum))
        return (mono){ .ns = ms > 0 ? INT64_MAX : INT64_MIN };
    return (mono){ .ns = sum };
}
