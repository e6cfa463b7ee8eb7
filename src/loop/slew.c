/* slew.c - the arithmetic of a clock that leans towards a target. Invariant: time never goes
 * back and never passes the target; additions saturate. */
#include "loop/slew.h"

#include "loop/sysclock.h"

static int64_t slew_add(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return b > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

static int64_t subtract(int64_t a, int64_t b)
{
    int64_t difference;
    if (__builtin_sub_overflow(a, b, &difference))
        return a > b ? INT64_MAX : INT64_MIN;
    return difference;
}

int64_t slew_at(const struct slew *s, int64_t boot_ns)
{
    if (boot_ns <= s->boot_ns)
        return s->store_ns;
    int64_t elapsed = subtract(boot_ns, s->boot_ns);
    int64_t lean_max = elapsed / (1000000 / SYSCLOCK_SLEW_PPM);
    int64_t lean = s->offset_ns;
    if (lean > lean_max)
        lean = lean_max;
    if (lean < -lean_max)
        lean = -lean_max;
    return slew_add(s->store_ns, slew_add(elapsed, lean));
}

struct slew slew_towards(const struct slew *s, int64_t boot_ns, int64_t target_ns)
{
    int64_t now = slew_at(s, boot_ns);
    return (struct slew){ .boot_ns = boot_ns > s->boot_ns ? boot_ns : s->boot_ns,
                          .store_ns = now,
                          .offset_ns = subtract(target_ns, now) };
}
