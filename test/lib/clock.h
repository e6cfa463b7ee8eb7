/* clock.h - a clock that stands where a test puts it: all three times are the same instant. */
#ifndef TEST_LIB_CLOCK_H
#define TEST_LIB_CLOCK_H

#include "base/times.h"

#include <stdatomic.h>

struct fake_clock {
    struct clock clock;
    _Atomic int64_t now_ns;
};
void fake_clock_init(struct fake_clock *c, int64_t now_ns);
/* Thread: any. */
void fake_clock_advance(struct fake_clock *c, int64_t ns);

#endif
