/* sim_open.c - the simulated world begins, its process dies and begins again, it ends. */
#include "engine/store.h"
#include "sim.h"

store_time sim_now(const struct sim *s)
{
    return (store_time){ .ns = s->world.store_ns };
}

uint64_t sim_pick(struct sim *s, uint64_t n)
{
    return rng_below(&s->world.rng, n);
}

unsigned sim_thing(struct sim *s, const struct queue_item *it)
{
    unsigned n = 0;
    CHECK(s, it->bytes.n >= 2 && it->bytes.p[0] == 't');
    for (size_t i = 1; i < it->bytes.n && it->bytes.p[i] != ' '; i++)
        n = n * 10 + (unsigned)(it->bytes.p[i] - '0');
    CHECK(s, n < s->things_count); /* I2 */
    return n;
}

/* ---- opening and killing ---- */

static void open_queues(struct sim *s)
{
    struct err_note note = { "" };
    struct queues_opts o = { .engine = s->catalogue,
                             .stores = s->outer,
                             .stores_count = STORES,
                             .clock = &s->world.clock,
                             .loop = s->world.loop,
                             .seed = s->seed + s->life,
                             .durability = QUEUE_SYNC,
                             .write_timeout_ms = 300,
                             .lease_durability =
                                 s->seed % 2 == 0 ? QUEUE_LEASE_WRITTEN : QUEUE_LEASE_SYNC,
                             .idempotency_window_ns = 60 * NS_PER_S,
                             .reply_bytes_max =
                                 s->mode == SIM_LARGE || s->mode == SIM_SLOW ? 3 * BODY_LARGE : 200,
                             .partitions_max = 1000 };
    err why = queues_new(&o, &s->queues, &note);
    if (why != ERR_OK)
        fprintf(stderr, "%s\n", note.text);
    CHECK(s, why == ERR_OK);
}

static void find_queues(struct sim *s)
{
    struct err_note note;
    CHECK(s, queues_find(s->queues, STR("work"), &s->q, &note) == ERR_OK);
    CHECK(s, queues_find(s->queues, STR("dead"), &s->dead, &note) == ERR_OK);
}

void sim_open(struct sim *s)
{
    static const char *const names[STORES] = { "s0", "s1", "s2" };
    struct err_note note = { "" };
    static const int64_t lives_s[] = { 400, 30, 12 };
    s->expire_ns =
        (s->mode == SIM_WIDE || s->mode == SIM_LARGE ? lives_s[s->seed % COUNT_OF(lives_s)]
                                                     : lives_s[0]) *
        NS_PER_S;
    s->has_dead = s->mode != SIM_WIDE || s->seed % 2 == 0;
    world_init(&s->world, s->seed);
    s->catalogue = engine_mem_new(&s->world.clock);
    for (unsigned i = 0; i < STORES; i++) {
        store_time greatest;
        s->engines[i] = engine_mem_new(&s->world.clock);
        struct queue_local_opts o = { .name = names[i],
                                      .engine = s->engines[i],
                                      .clock = &s->world.clock };
        CHECK(s, queue_local_open(&o, &s->inner[i], &greatest, &note) == ERR_OK);
        s->stores[i] = sim_store_new(&s->world, s->inner[i], names[i]);
        s->outer[i] = sim_store_of(s->stores[i]);
    }
    open_queues(s);
    struct queue_info infos[] = { { .name = STR("dead"),
                                    .lease_timeout_ns = LEASE_NS,
                                    .expire_timeout_ns = 3600 * NS_PER_S,
                                    .partitions = 2 },
                                  { .name = STR("work"),
                                    .lease_timeout_ns = LEASE_NS,
                                    .expire_timeout_ns = s->expire_ns,
                                    .partitions = PARTS,
                                    .max_attempts = s->has_dead ? MAX_ATTEMPTS : 0,
                                    .dead_queue = s->has_dead ? STR("dead") : STR_NONE } };
    for (unsigned i = 0; i < COUNT_OF(infos); i++)
        CHECK(s, queues_create(s->queues, &infos[i], &note) == ERR_OK);
    record_queues(s->record, infos, COUNT_OF(infos), s->mode != SIM_SLOW);
    find_queues(s);
}

void sim_run(struct sim *s, int64_t ns)
{
    int64_t until = s->world.now_ns + ns;
    do {
        (void)world_run_due(&s->world);
        if (s->world.now_ns < until)
            world_advance(&s->world, until - s->world.now_ns);
    } while (s->world.now_ns < until);
    (void)world_run_due(&s->world);
}

/* The old process: it is told that nothing is written any more, and goes. Then the next one
 * begins. */
void sim_restart(struct sim *s, bool killed)
{
    for (unsigned i = 0; i < STORES && killed; i++)
        sim_store_faults(s->stores[i])->crashed = true;
    s->life++; /* what comes now of earlier requests tells nobody anything */
    s->crashes += killed;
    if (killed)
        record_crash(s->record, sim_now(s));
    queues_drain(s->queues);
    queue_unref(&s->q);
    queue_unref(&s->dead);
    for (unsigned i = 0; !queues_idle(s->queues); i++) {
        CHECK(s, i < 100000);
        sim_run(s, 10 * NS_PER_MS);
    }
    queues_free(&s->queues);
    if (!killed)
        record_crash(s->record, sim_now(s));
    for (unsigned i = 0; i < STORES; i++) {
        sim_store_reopen(s->stores[i]);
        sim_store_faults(s->stores[i])->crashed = false;
        sim_store_faults(s->stores[i])->down = false;
    }
    open_queues(s);
    find_queues(s);
}

void sim_close(struct sim *s)
{
    queues_drain(s->queues);
    queue_unref(&s->q);
    queue_unref(&s->dead);
    for (unsigned i = 0; !queues_idle(s->queues); i++) {
        CHECK(s, i < 10000);
        sim_run(s, 10 * NS_PER_MS);
    }
    queues_free(&s->queues);
    world_fini(&s->world);
    for (unsigned i = 0; i < STORES; i++) {
        sim_store_free(&s->stores[i]);
        s->inner[i]->ops->close(&s->inner[i]);
        engine_close(&s->engines[i]);
    }
    engine_close(&s->catalogue);
}
