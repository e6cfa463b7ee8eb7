/* clock.h - a clock that stands where a test puts it: all three times are the same instant. */
#ifndef TEST_LIB_CLOCK_H
#define TEST_LIB_CLOCK_H

#include "base/times.h"

#include <stdatomic.h>

struct test_clock {
    struct clock clock;
    _Atomic int64_t ns;
};
void test_clock_init(struct test_clock *c, int64_t ns);
/* Thread: any. */
void test_clock_advance(struct test_clock *c, int64_t ns);

#endif
