/* sim_end.c - the end of a history: everything is taken out and counted. */
#include "queue/admin.h"
#include "sim.h"

enum { DRAIN_ITEMS = 50 };
struct drain {
    struct sim *sim;
    struct arena arena;
    struct queue_lease_request r;
    struct queue_change c;
    struct queue_change_item changes[DRAIN_ITEMS];
    char ids[DRAIN_ITEMS][KSUID_TEXT_BYTES + 1];
    bool done;
    err why;
};

static void drain_changed(struct queue_change *c, err why)
{
    struct drain *d = c->ctx;
    d->done = true;
    d->why = why;
}

static void drain_wait(struct drain *d)
{
    for (unsigned i = 0; !d->done; i++) {
        CHECK(d->sim, i < 10000);
        sim_run(d->sim, NS_PER_MS);
    }
}

static void drain_complete(struct drain *d, struct queue *q)
{
    for (unsigned i = 0; i < d->r.items_count; i++) {
        ksuid_format(d->r.items[i].id, d->ids[i]);
        d->changes[i] = (struct queue_change_item){ .id = str_of(d->ids[i]) };
    }
    d->c = (struct queue_change){ .queue = q,
                                  .kind = CHANGE_COMPLETE,
                                  .partition = d->r.partition,
                                  .ctx = d,
                                  .items = d->changes,
                                  .items_count = d->r.items_count,
                                  .arena = &d->arena,
                                  .deadline = { .ns = d->sim->world.now_ns + 5 * NS_PER_S },
                                  .home = home_here(),
                                  .done = drain_changed };
    d->done = false;
    CHECK(d->sim, queue_change_start(&d->c) == ERR_OK);
    drain_wait(d);
    CHECK(d->sim, d->why == ERR_OK);
}

static void drained(struct queue_lease_request *r, err why)
{
    struct drain *d = r->ctx;
    d->done = true;
    d->why = why;
}

static bool drain_one(struct sim *s, struct queue *q)
{
    struct drain d = { .sim = s };
    arena_init(&d.arena, s->mode == SIM_LARGE ? ARENA_REPLY : ARENA_SMALL);
    d.r = (struct queue_lease_request){ .queue = q,
                                        .batch_size = DRAIN_ITEMS,
                                        .arena = &d.arena,
                                        .home = home_here(),
                                        .done = drained,
                                        .ctx = &d,
                                        .lease_timeout_ns = 3600 * 24 * NS_PER_S,
                                        .deadline = { .ns = s->world.now_ns + 500 * NS_PER_MS } };
    CHECK(s, queue_lease_start(&d.r) == ERR_OK);
    drain_wait(&d);
    bool got = d.why == ERR_OK;
    if (!got && d.why != ERR_TIMEOUT)
        fprintf(stderr, "drain: %s %s\n", err_name(d.why), d.r.note.text);
    for (unsigned i = 0; i < d.r.items_count && got; i++)
        s->things[sim_thing(s, &d.r.items[i])].seen++;
    if (got)
        drain_complete(&d, q);
    arena_fini(&d.arena);
    return got;
}

static void calm_down(struct sim *s)
{
    struct err_note note;
    for (unsigned i = 0; i < STORES; i++)
        *sim_store_faults(s->stores[i]) = (struct sim_faults){ .delay_ns = NS_PER_MS };
    CHECK(s, queues_test_pause(s->queues, STR("work"), false, &note) == ERR_OK);
    for (uint32_t p = 0; p < PARTS; p++)
        CHECK(s,
              queue_part_change(s->q,
                                &(struct queue_part_change){ .order = PART_RESUME, .partition = p },
                                &note) == ERR_OK);
    sim_run(s, 60 * NS_PER_S);
    for (unsigned i = 0; i < 40 * STORES;
         i++) /* a recovery that fails is tried again later and later */
        if (s->queues->stores[i % STORES].health.status != PLACE_OK)
            sim_run(s, 15 * NS_PER_S);
    sim_run(s, 30 * NS_PER_S);
    for (unsigned i = 0; i < ASKS_MAX; i++)
        CHECK(s, !s->asks[i].used); /* every request was answered */
    for (unsigned i = 0; i < STORES; i++) {
        const struct health *h = &s->queues->stores[i].health;
        if (h->status != PLACE_OK || sim_store_broken(s->stores[i]))
            fprintf(stderr, "store %u: status %d, broken %d, failures %u, probe in %lld ms\n", i,
                    h->status, sim_store_broken(s->stores[i]), h->failures,
                    (long long)(h->probe_at.ns - s->world.now_ns) / NS_PER_MS);
        CHECK(s, !sim_store_broken(s->stores[i]));
        CHECK(s, h->status == PLACE_OK);
    }
}

static void show_parts(struct sim *s)
{
    struct queue *queues[] = { s->q, s->dead };
    for (size_t i = 0; i < COUNT_OF(queues); i++) {
        for (uint32_t n = 0; n < queues[i]->parts_count; n++) {
            const struct part *p = queues[i]->parts[n];
            fprintf(
                stderr,
                "%.*s %u on %u: ready %lld scheduled %lld leased %lld, here: ready %zu behind %zu "
                "later %zu, loaded %d whole %d held %d granting %lld\n",
                STR_ARG(queues[i]->info.name), n, p->store, (long long)p->ready,
                (long long)p->scheduled, (long long)p->leased, p->ready_items, p->behind_items,
                p->scheduled_items, p->loaded, p->whole, p->held, (long long)p->granting);
        }
    }
}

bool sim_may_be_over(const struct sim *s, const struct thing *t)
{
    store_time due = { .ns = t->not_before.ns - QUEUE_SOON_NS };
    return store_time_max(t->produced_at, due).ns + s->expire_ns <= s->world.store_ns;
}

/* Its time is over, or somebody gave it up, and there is no dead queue: it is deleted. */
static bool is_over(const struct sim *s, const struct thing *t)
{
    return !s->has_dead && (t->dies || sim_may_be_over(s, t));
}

void sim_count_all(struct sim *s)
{
    calm_down(s);
    while (drain_one(s, s->q))
        ;
    while (drain_one(s, s->dead))
        ;
    bool shown = false;
    for (unsigned i = 0; i < s->things_count; i++) {
        const struct thing *t = &s->things[i];
        bool must = t->produced == TOLD_OK && t->completed == TOLD_NOTHING && !is_over(s, t);
        bool odd = t->seen > 1 || (t->seen == 0 && must);
        if (odd && !shown)
            show_parts(s);
        shown |= odd;
        if (odd)
            fprintf(stderr,
                    "item %u of request %u: seen %u, grants %u, dies %d, key %d, later %d, "
                    "partition %u\n",
                    i, t->request, t->seen, t->grants, t->dies, t->key, t->not_before.ns != 0,
                    t->partition);
        CHECK(s, t->seen <= 1);                               /* I10, I9 */
        CHECK(s, t->produced != TOLD_FAILED || t->seen == 0); /* I2 */
        CHECK(s, t->completed != TOLD_OK || t->seen == 0);
        CHECK(s, !must || t->seen == 1); /* I1 */
    }
    for (unsigned i = 0, n; i < s->things_count;
         i = n) { /* I3: those never completed, all or none */
        unsigned seen = 0, whole = 0;
        for (n = i; n < s->things_count && s->things[n].request == s->things[i].request; n++) {
            bool lasts = s->things[n].completed == TOLD_NOTHING && !is_over(s, &s->things[n]);
            whole += lasts;
            seen += lasts && s->things[n].seen == 1;
        }
        CHECK(s, seen == 0 || seen == whole);
    }
}
