/* clock.c - see clock.h. */
#include "lib/clock.h"

#include "base/check.h"

static int64_t test_now(struct clock *c)
{
    return atomic_load(&CONTAINER_OF(c, struct test_clock, clock)->ns);
}

static store_time test_store(struct clock *c)
{
    return (store_time){ .ns = test_now(c) };
}

static mono test_mono(struct clock *c)
{
    return (mono){ .ns = test_now(c) };
}

static wall test_wall(struct clock *c)
{
    return (wall){ .ns = test_now(c) };
}

void test_clock_init(struct test_clock *c, int64_t ns)
{
    c->clock =
        (struct clock){ .store_now = test_store, .mono_now = test_mono, .wall_now = test_wall };
    atomic_init(&c->ns, ns);
}

void test_clock_advance(struct test_clock *c, int64_t ns)
{
    atomic_fetch_add(&c->ns, ns);
}
