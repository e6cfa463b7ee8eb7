/* Goal: a store that dies takes no lease with it as long as another store has items, and what it
 * holds waits for it. Method: items on all stores, none of their bodies in memory, in the simulated
 * world of sim.h; one store refuses; single leases, each with a deadline. Seeds vary what is told
 * at once and what later. */
#include "sim.h"

enum { ITEMS = 16, SEEDS = 20, DEADLINE_MS = 2000 };

struct told_of {
    struct arena arena;
    bool done;
    err why;
};

static void produced_one(struct queue_produce *p, err why)
{
    struct told_of *t = p->ctx;
    t->done = true;
    t->why = why;
}

static void leased_one(struct queue_lease_request *r, err why)
{
    struct told_of *t = r->ctx;
    t->done = true;
    t->why = why;
}

static void await(struct sim *s, const struct told_of *t)
{
    for (unsigned i = 0; !t->done; i++) {
        CHECK(s, i < 10000);
        sim_run(s, NS_PER_MS);
    }
}

static mono in_time(const struct sim *s)
{
    return (mono){ .ns = s->world.now_ns + DEADLINE_MS * NS_PER_MS };
}

static void produce_one(struct sim *s)
{
    struct told_of t = { .done = false };
    struct queue_item_new item = { .bytes = STR("item") };
    arena_init(&t.arena, 1 << 20);
    struct queue_produce p = { .queue = s->q,
                               .items = &item,
                               .items_count = 1,
                               .deadline = in_time(s),
                               .arena = &t.arena,
                               .home = home_here(),
                               .done = produced_one,
                               .ctx = &t };
    CHECK(s, queue_produce_start(&p) == ERR_OK);
    await(s, &t);
    CHECK(s, t.why == ERR_OK);
    arena_fini(&t.arena);
}

/* The partition of one item; PARTS: none came, and that was said at the deadline. */
static uint32_t lease_one(struct sim *s)
{
    struct told_of t = { .done = false };
    arena_init(&t.arena, 1 << 20);
    struct queue_lease_request r = { .queue = s->q,
                                     .batch_size = 1,
                                     .lease_timeout_ns = 3600 * NS_PER_S,
                                     .deadline = in_time(s),
                                     .arena = &t.arena,
                                     .home = home_here(),
                                     .done = leased_one,
                                     .ctx = &t };
    CHECK(s, queue_lease_start(&r) == ERR_OK);
    await(s, &t);
    CHECK(s, t.why == ERR_OK || t.why == ERR_TIMEOUT);
    CHECK(s, t.why == ERR_OK || s->world.now_ns >= r.deadline.ns);
    CHECK(s, t.why != ERR_OK || r.items[0].attempts == 1);
    arena_fini(&t.arena);
    return t.why == ERR_OK ? r.partition : PARTS;
}

static void store_dies(struct sim *s)
{
    sim_open(s);
    for (unsigned i = 0; i < ITEMS; i++)
        produce_one(s);
    sim_restart(s, false); /* bodies are not in memory any more */
    sim_run(s, NS_PER_S);
    uint32_t dead = (uint32_t)(s->seed % STORES);
    int64_t there = 0;
    for (uint32_t p = 0; p < PARTS; p++)
        there += s->q->parts[p]->store == dead ? 0 : s->q->parts[p]->ready;
    CHECK(s, there > 0);
    CHECK(s, there < ITEMS);
    sim_store_faults(s->stores[dead])->down = true;
    for (int64_t i = 0; i < there; i++) {
        uint32_t p = lease_one(s);
        CHECK(s, p < PARTS);
        CHECK(s, s->q->parts[p]->store != dead);
    }
    CHECK(s, lease_one(s) == PARTS);
    sim_store_faults(s->stores[dead])->down = false;
    sim_run(s, 60 * NS_PER_S); /* a probe finds it */
    for (int64_t i = there; i < ITEMS; i++) {
        uint32_t p = lease_one(s);
        CHECK(s, p < PARTS);
        CHECK(s, s->q->parts[p]->store == dead);
    }
    sim_close(s);
}

int main(void)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct sim *s = calloc(1, sizeof *s);
        INVARIANT(s != NULL);
        s->seed = seed;
        store_dies(s);
        free(s);
    }
    return 0;
}
