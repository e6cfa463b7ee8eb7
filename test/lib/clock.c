/* clock.c - see clock.h. */
#include "lib/clock.h"

#include "base/check.h"

static int64_t fake_now(struct clock *c)
{
    return atomic_load(&CONTAINER_OF(c, struct fake_clock, clock)->now_ns);
}

static store_time fake_store(struct clock *c)
{
    return (store_time){ .ns = fake_now(c) };
}

static mono fake_mono(struct clock *c)
{
    return (mono){ .ns = fake_now(c) };
}

static wall fake_wall(struct clock *c)
{
    return (wall){ .ns = fake_now(c) };
}

void fake_clock_init(struct fake_clock *c, int64_t now_ns)
{
    c->clock =
        (struct clock){ .store_now = fake_store, .mono_now = fake_mono, .wall_now = fake_wall };
    atomic_init(&c->now_ns, now_ns);
}

void fake_clock_advance(struct fake_clock *c, int64_t ns)
{
    atomic_fetch_add(&c->now_ns, ns);
}
