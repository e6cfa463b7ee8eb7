/* breaker.c - CLOSED -> OPEN -> HALF -> CLOSED or OPEN. */
#include "base/breaker.h"

void breaker_init(struct breaker *b, unsigned failures_max, int64_t base_ms, int64_t max_ms)
{
    INVARIANT(failures_max > 0);
    INVARIANT(base_ms > 0);
    INVARIANT(max_ms >= base_ms);
    *b = (struct breaker){
        .failures_max = failures_max, .base_ms = base_ms, .max_ms = max_ms, .state = BREAKER_CLOSED
    };
}

bool breaker_enter(struct breaker *b, mono now)
{
    if (b->state == BREAKER_CLOSED)
        return true;
    if (now.ns < b->until.ns)
        return false;
    b->state = BREAKER_HALF;
    b->until = mono_add_ms(now, b->max_ms);
    return true;
}

void breaker_succeeded(struct breaker *b)
{
    b->state = BREAKER_CLOSED;
    b->failures = 0;
    b->pause_ms = 0;
}

static bool breaker_open(struct breaker *b, mono now)
{
    b->pause_ms = b->pause_ms == 0 ? b->base_ms : 2 * b->pause_ms;
    if (b->pause_ms > b->max_ms)
        b->pause_ms = b->max_ms;
    b->state = BREAKER_OPEN;
    b->failures = 0;
    b->until = mono_add_ms(now, b->pause_ms);
    return true;
}

bool breaker_failed(struct breaker *b, mono now)
{
    switch (b->state) {
    case BREAKER_OPEN:
        return false;
    case BREAKER_HALF:
        return breaker_open(b, now);
    case BREAKER_CLOSED:
        break;
    }
    return ++b->failures >= b->failures_max && breaker_open(b, now);
}
