/* slew.h - the arithmetic of store_time: runs with the machine's elapsed time and leans towards a
 * target.
 *
 * From an anchor (boot_ns, store_ns) time runs on at the rate of CLOCK_BOOTTIME, corrected by at
 * most SYSCLOCK_SLEW_PPM until offset_ns is used up; it never overshoots and never falls. Pure. */
#ifndef LOOP_SLEW_H
#define LOOP_SLEW_H

#include <stdint.h>

struct slew {
    int64_t boot_ns;   /* CLOCK_BOOTTIME at the anchor */
    int64_t store_ns;  /* store_time there */
    int64_t offset_ns; /* still to be added, may be negative */
};

/* store_time at a reading of CLOCK_BOOTTIME; readings before the anchor count as the anchor. */
int64_t slew_at(const struct slew *s, int64_t boot_ns);
/* The same line anchored anew at boot_ns, leaning from there towards target_ns. */
struct slew slew_towards(const struct slew *s, int64_t boot_ns, int64_t target_ns);

#endif
