/* Goal: whatever stores and clients do, the queue keeps I1-I13 (see below). Method: the real machine over real
 * local stores (their engine in memory), a virtual loop and clock, stores that delay, fail, break and are killed,
 * random clients; a naive model of what every client was told; checked after each step, and counted at the end.
 * Everything follows from the seed, which is printed; run one again with --seed N. --record FILE writes down what
 * clients asked and were told; linear.py checks that on its own.
 *
 *   I1 no loss, I2 no phantom, I3 whole requests, I4 one live lease, I5 fenced changes, I7 order keys, I8 attempts,
 *   I9 dead letters once, I10 no duplicates, I11 never early, I12 no lost wake-up, I13 decisions replay */
#include "../unit/bucket/engine_mem.h"
#include "queue/flush.h"
#include "queue/queue.h"
#include "queue/store_open.h"
#include "record.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STORES = 3, PARTS = 4, ITEMS_MAX = 4000, ASKS_MAX = 64, BATCH_MAX = 6, KEYS = 3, MAX_ATTEMPTS = 4 };
#define LEASE_NS (10 * NS_PER_S)
#define EXPIRE_NS (400 * NS_PER_S)

enum told { TOLD_NOTHING, TOLD_OK, TOLD_FAILED, TOLD_UNKNOWN };
struct thing {                 /* one item as its clients know it */
    enum told produced, completed;
    unsigned request;          /* number of its produce */
    int key;                   /* order key, -1: none */
    store_time not_before;
    unsigned grants;           /* delivered */
    bool held;                 /* by a client, as far as that knows */
    bool asked, asked_before;  /* an end of it was asked for and the answer is not known */
    bool dies;                 /* it was asked into the dead queue */
    store_time produced_at;
    store_time deadline;
    struct ksuid id;
    uint32_t partition;
    uint64_t token;
    unsigned seen;             /* in the final count */
};

struct ask {
    struct sim *sim;
    struct arena arena;
    bool used, answered;
    unsigned first, count;     /* things */
    unsigned things[BATCH_MAX];
    unsigned life;
    uint64_t op;               /* its number in the record */
    union { struct queue_produce produce; struct queue_lease_request lease; struct queue_change change; } u;
    struct queue_item_new items[BATCH_MAX];
    struct queue_change_item changes[BATCH_MAX];
    char ids[BATCH_MAX][KSUID_TEXT_BYTES + 1];
    int kind;                  /* enum req_kind */
};

struct sim {
    struct world world;
    uint64_t seed;
    struct engine *catalogue, *engines[STORES];
    struct queue_store *inner[STORES];
    struct sim_store *stores[STORES];
    struct queue_store *outer[STORES];
    struct queues *queues;
    struct queue *q, *dead;
    struct thing things[ITEMS_MAX];
    unsigned things_count, requests, life;
    struct ask asks[ASKS_MAX];
    uint64_t grants, oks, unknowns, failures, crashes;
    struct record *record;     /* NULL: none */
};

#define CHECK(s, cond)                                                                                      \
    do {                                                                                                    \
        if (!(cond)) {                                                                                      \
            fprintf(stderr, "seed %llu: line %d: %s\n", (unsigned long long)(s)->seed, __LINE__, #cond); \
            abort();                                                                                        \
        }                                                                                                   \
    } while (0)

static store_time now_of(const struct sim *s)
{
    return (store_time){ .ns = s->world.store_ns };
}

static uint64_t pick(struct sim *s, uint64_t n)
{
    return rng_below(&s->world.rng, n);
}

/* ---- opening and killing ---- */

static void open_queues(struct sim *s)
{
    struct err_note note = { "" };
    struct queues_opts o = { .engine = s->catalogue, .stores = s->outer, .stores_count = STORES,
                             .clock = &s->world.clock, .loop = s->world.loop, .seed = s->seed + s->life,
                             .durability = QUEUE_SYNC, .write_timeout_ms = 300, .lease_sync = s->seed % 2,
                             .idempotency_window_ns = 60 * NS_PER_S, .reply_bytes_max = 200,
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

static void sim_open(struct sim *s)
{
    static const char *const names[STORES] = { "s0", "s1", "s2" };
    struct err_note note = { "" };
    world_init(&s->world, s->seed);
    s->catalogue = engine_mem_new(&s->world.clock);
    for (unsigned i = 0; i < STORES; i++) {
        store_time greatest;
        s->engines[i] = engine_mem_new(&s->world.clock);
        struct queue_local_opts o = { .name = names[i], .engine = s->engines[i], .clock = &s->world.clock };
        CHECK(s, queue_local_open(&o, &s->inner[i], &greatest, &note) == ERR_OK);
        s->stores[i] = sim_store_new(&s->world, s->inner[i], names[i]);
        s->outer[i] = sim_store_of(s->stores[i]);
    }
    open_queues(s);
    struct queue_info infos[] = {
        { .name = STR("dead"), .lease_timeout_ns = LEASE_NS, .expire_timeout_ns = 3600 * NS_PER_S, .partitions = 2 },
        { .name = STR("work"), .lease_timeout_ns = LEASE_NS, .expire_timeout_ns = EXPIRE_NS, .partitions = PARTS,
          .max_attempts = MAX_ATTEMPTS, .dead_queue = STR("dead") } };
    for (unsigned i = 0; i < COUNT_OF(infos); i++)
        CHECK(s, queues_create(s->queues, &infos[i], &note) == ERR_OK);
    record_queues(s->record, infos, COUNT_OF(infos));
    find_queues(s);
}

static void run(struct sim *s, int64_t ns)
{
    int64_t until = s->world.now_ns + ns;
    do {
        (void)world_run_due(&s->world);
        if (s->world.now_ns < until)
            world_advance(&s->world, until - s->world.now_ns);
    } while (s->world.now_ns < until);
    (void)world_run_due(&s->world);
}

/* The old process: it is told that nothing is written any more, and goes. Then the next one begins. */
static void sim_restart(struct sim *s, bool killed)
{
    for (unsigned i = 0; i < STORES && killed; i++)
        sim_store_faults(s->stores[i])->crashed = true;
    s->life++; /* what comes now of earlier requests tells nobody anything */
    s->crashes += killed;
    if (killed)
        record_crash(s->record, now_of(s));
    queues_drain(s->queues);
    queue_unref(&s->q);
    queue_unref(&s->dead);
    for (unsigned i = 0; !queues_idle(s->queues); i++) {
        CHECK(s, i < 100000);
        run(s, 10 * NS_PER_MS);
    }
    queues_free(&s->queues);
    if (!killed)
        record_crash(s->record, now_of(s));
    for (unsigned i = 0; i < STORES; i++) {
        sim_store_reopen(s->stores[i]);
        sim_store_faults(s->stores[i])->crashed = false;
        sim_store_faults(s->stores[i])->down = false;
    }
    open_queues(s);
    find_queues(s);
}

/* ---- what clients are told ---- */

static void ask_free(struct ask *a)
{
    arena_fini(&a->arena);
    a->used = false;
}

static void produced(struct queue_produce *p, err why)
{
    struct ask *a = p->ctx;
    struct sim *s = a->sim;
    bool unknown = why == ERR_TIMEOUT && strstr(p->note.text, "unknown") != NULL;
    bool late = a->life != s->life; /* a killed process tells nobody */
    CHECK(s, !a->answered);
    a->answered = true;
    if (!late)
        record_answer(s->record, now_of(s), a->op, why == ERR_OK ? "ok" : unknown ? "unknown" : "none");
    for (unsigned i = 0; i < a->count; i++) {
        struct thing *t = &s->things[a->first + i];
        t->produced = why == ERR_OK && !late ? TOLD_OK : late || unknown ? TOLD_UNKNOWN : TOLD_FAILED;
    }
    s->oks += why == ERR_OK;
    s->unknowns += unknown;
    s->failures += why != ERR_OK && !unknown;
    ask_free(a);
}

static unsigned thing_of(struct sim *s, const struct queue_item *it)
{
    unsigned n = 0;
    CHECK(s, it->bytes.n >= 2 && it->bytes.p[0] == 't');
    for (size_t i = 1; i < it->bytes.n && it->bytes.p[i] != ' '; i++)
        n = n * 10 + (unsigned)(it->bytes.p[i] - '0');
    CHECK(s, n < s->things_count); /* I2 */
    return n;
}

/* I7: of a key the earliest that is not over; those of one partition and never scheduled. */
static void check_order(struct sim *s, unsigned n)
{
    for (unsigned i = 0; i < n && s->things[n].key >= 0; i++) {
        const struct thing *t = &s->things[i];
        if (t->key != s->things[n].key)
            continue;
        CHECK(s, !(t->held && store_time_before((store_time){ .ns = s->world.store_ns }, t->deadline)) || t->asked);
        CHECK(s, t->produced != TOLD_OK || t->request >= s->things[n].request || t->completed != TOLD_NOTHING ||
                     t->asked || t->grants >= MAX_ATTEMPTS || t->dies ||
                     t->produced_at.ns + EXPIRE_NS <= s->world.store_ns);
    }
}

static void granted(struct sim *s, struct queue_lease_request *r, const struct queue_item *it)
{
    unsigned n = thing_of(s, it);
    struct thing *t = &s->things[n];
    store_time now = { .ns = s->world.store_ns };
    CHECK(s, t->produced != TOLD_FAILED);                              /* I2 */
    CHECK(s, t->completed != TOLD_OK);                                 /* I5, I10 */
    CHECK(s, !t->held || t->asked || !store_time_before(now, t->deadline)); /* I4, I11 */
    CHECK(s, store_time_add(now, QUEUE_SOON_NS).ns >= t->not_before.ns);    /* I11 */
    CHECK(s, it->attempts >= t->grants + 1);                           /* I8 */
    CHECK(s, it->attempts <= MAX_ATTEMPTS);
    CHECK(s, !t->held || ksuid_cmp(it->id, t->id) > 0);                /* I4: a new id for each grant */
    check_order(s, n);
    t->held = true;
    t->asked = false;
    t->grants = it->attempts;
    t->id = it->id;
    t->deadline = it->lease_deadline;
    t->partition = r->partition;
    t->token = it->token;
    s->grants++;
}

static void leased(struct queue_lease_request *r, err why)
{
    struct ask *a = r->ctx;
    struct sim *s = a->sim;
    CHECK(s, !a->answered);
    a->answered = true;
    CHECK(s, why != ERR_OK || (r->items_count > 0 && r->items_count <= r->batch_size));
    if (a->life == s->life && why == ERR_OK)
        record_leased(s->record, now_of(s), a->op, r);
    else if (a->life == s->life)
        record_answer(s->record, now_of(s), a->op, "none");
    for (unsigned i = 0; i < r->items_count && why == ERR_OK && a->life == s->life; i++)
        granted(s, r, &r->items[i]);
    for (unsigned i = 0; i < r->items_count && why == ERR_OK && a->life != s->life; i++) {
        struct thing *t = &s->things[thing_of(s, &r->items[i])]; /* nobody heard of it: it expires */
        t->asked = true;
    }
    ask_free(a);
}

static void changed(struct queue_change *c, err why)
{
    struct ask *a = c->ctx;
    struct sim *s = a->sim;
    CHECK(s, !a->answered);
    a->answered = true;
    bool definite = why == ERR_BAD || why == ERR_NOT_FOUND || why == ERR_CONFLICT;
    if (a->life == s->life)
        record_answer(s->record, now_of(s), a->op, why == ERR_OK ? "ok" : definite ? "refused" : "unknown");
    for (unsigned i = 0; i < a->count; i++) {
        struct thing *t = &s->things[a->things[i]];
        char id[KSUID_TEXT_BYTES + 1];
        ksuid_format(t->id, id);
        if (strcmp(id, a->ids[i]) != 0)
            continue; /* it was granted again meanwhile */
        if (a->life != s->life)
            why = ERR_UNAVAILABLE;
        if (definite) {
            CHECK(s, store_time_before(t->deadline, (store_time){ .ns = s->world.store_ns + 1 }) || t->asked_before ||
                         a->count > 1); /* I5: a live lease can be changed */
            t->asked = t->asked_before;
        } else if (why == ERR_OK && c->kind == CHANGE_COMPLETE) {
            CHECK(s, t->completed != TOLD_OK);
            t->completed = TOLD_OK;
            t->held = false;
        } else if (why == ERR_OK && c->kind == CHANGE_EXTEND) {
            t->deadline = store_time_max(t->deadline, (store_time){ .ns = s->world.store_ns });
            t->asked = true; /* how long exactly: not followed */
        } else if (c->kind == CHANGE_COMPLETE) {
            t->completed = t->completed == TOLD_OK ? TOLD_OK : TOLD_UNKNOWN;
        }
    }
    ask_free(a);
}

/* ---- what clients do ---- */

static struct ask *ask_new(struct sim *s, int kind)
{
    for (unsigned i = 0; i < ASKS_MAX; i++) {
        struct ask *a = &s->asks[i];
        if (a->used)
            continue;
        memset(a, 0, sizeof *a);
        a->sim = s;
        a->used = true;
        a->life = s->life;
        a->kind = kind;
        arena_init(&a->arena, 1 << 20);
        return a;
    }
    return NULL;
}

static mono soon(struct sim *s)
{
    return (mono){ .ns = s->world.now_ns + (int64_t)pick(s, 3 * NS_PER_S) + 20 * NS_PER_MS };
}

static void do_produce(struct sim *s)
{
    struct ask *a = ask_new(s, REQ_PRODUCE);
    if (a == NULL || s->things_count + BATCH_MAX > ITEMS_MAX)
        goto out;
    a->first = s->things_count;
    a->count = 1 + (unsigned)pick(s, BATCH_MAX);
    int key = pick(s, 4) == 0 ? (int)pick(s, KEYS) : -1;
    bool scheduled = key < 0 && pick(s, 4) == 0;
    for (unsigned i = 0; i < a->count; i++) {
        struct thing *t = &s->things[s->things_count++];
        *t = (struct thing){ .request = s->requests, .key = key, .produced_at.ns = s->world.store_ns };
        if (scheduled && pick(s, 2) == 0)
            t->not_before.ns = s->world.store_ns + (int64_t)pick(s, 20 * NS_PER_S) + NS_PER_MS;
        str body = arena_printf(&a->arena, "t%u %s", a->first + i, pick(s, 9) == 0 ? "................" : "");
        a->items[i] = (struct queue_item_new){ .bytes = body, .enqueue_at = t->not_before };
    }
    s->requests++;
    a->u.produce = (struct queue_produce){ .queue = s->q, .items = a->items, .items_count = a->count,
                                           .deadline = soon(s), .arena = &a->arena, .done = produced, .ctx = a };
    if (key >= 0)
        a->u.produce.order_key = arena_printf(&a->arena, "key-%d", key);
    a->op = record_produce(s->record, now_of(s), &a->u.produce);
    err why = queue_produce_start(&a->u.produce);
    if (why == ERR_OK)
        return;
    record_answer(s->record, now_of(s), a->op, "none");
    CHECK(s, why == ERR_SHUTDOWN || why == ERR_LIMIT);
    for (unsigned i = 0; i < a->count; i++)
        s->things[a->first + i].produced = TOLD_FAILED;
out:
    if (a != NULL)
        ask_free(a);
}

static void do_lease(struct sim *s, struct queue *q)
{
    struct ask *a = ask_new(s, REQ_LEASE);
    if (a == NULL)
        return;
    a->u.lease = (struct queue_lease_request){ .queue = q, .batch_size = 1 + (unsigned)pick(s, BATCH_MAX),
                                               .deadline = soon(s), .wants_token = pick(s, 2) == 0,
                                               .arena = &a->arena, .done = leased, .ctx = a };
    if (pick(s, 3) == 0)
        a->u.lease.client_id = arena_printf(&a->arena, "client-%u", (unsigned)pick(s, 4));
    a->op = record_lease(s->record, now_of(s), &a->u.lease);
    err why = queue_lease_start(&a->u.lease);
    CHECK(s, why == ERR_OK || why == ERR_BAD || why == ERR_SHUTDOWN);
    if (why == ERR_OK)
        return;
    record_answer(s->record, now_of(s), a->op, "none");
    ask_free(a);
}

static bool is_free(const struct thing *t)
{
    return t->held && !t->asked;
}

static void do_change(struct sim *s)
{
    if (s->things_count == 0)
        return;
    unsigned n = (unsigned)pick(s, s->things_count);
    while (n < s->things_count && !is_free(&s->things[n]))
        n++;
    if (n == s->things_count)
        return;
    struct ask *a = ask_new(s, REQ_CHANGE);
    if (a == NULL)
        return;
    enum queue_change_kind kind = pick(s, 3) != 0 ? CHANGE_COMPLETE : pick(s, 4) != 0 ? CHANGE_RETRY : CHANGE_EXTEND;
    uint32_t partition = s->things[n].partition;
    for (; n < s->things_count && a->count < 1 + pick(s, BATCH_MAX); n++) {
        struct thing *t = &s->things[n];
        if (!is_free(t) || t->partition != partition)
            continue;
        struct queue_change_item *it = &a->changes[a->count];
        ksuid_format(t->id, a->ids[a->count]);
        *it = (struct queue_change_item){ .id = str_of(a->ids[a->count]), .token = t->token, .extend_ns = LEASE_NS };
        if (kind == CHANGE_RETRY && pick(s, 3) == 0)
            it->retry_at.ns = s->world.store_ns + (int64_t)pick(s, 10 * NS_PER_S);
        it->dead = kind == CHANGE_RETRY && pick(s, 8) == 0;
        t->dies |= it->dead;
        t->asked_before = t->asked;
        t->asked = true;
        a->things[a->count++] = n;
    }
    a->u.change = (struct queue_change){ .queue = s->q, .kind = kind, .partition = partition, .items = a->changes,
                                         .items_count = a->count, .deadline = soon(s), .arena = &a->arena,
                                         .done = changed, .ctx = a };
    a->op = record_change(s->record, now_of(s), &a->u.change);
    err why = queue_change_start(&a->u.change);
    if (why == ERR_OK)
        return;
    record_answer(s->record, now_of(s), a->op, "none");
    CHECK(s, why == ERR_UNAVAILABLE || why == ERR_SHUTDOWN);
    for (unsigned i = 0; i < a->count; i++)
        s->things[a->things[i]].asked = false;
    ask_free(a);
}

static void do_cancel(struct sim *s)
{
    struct ask *a = &s->asks[pick(s, ASKS_MAX)];
    if (!a->used || a->answered || a->life != s->life)
        return;
    if (a->kind == REQ_PRODUCE)
        queue_produce_cancel(&a->u.produce);
    else if (a->kind == REQ_LEASE)
        queue_lease_cancel(&a->u.lease);
}

static void do_fault(struct sim *s)
{
    struct sim_faults *f = sim_store_faults(s->stores[pick(s, STORES)]);
    switch (pick(s, 7)) {
    case 0: f->fail_permille = (unsigned)pick(s, 2) * (unsigned)pick(s, 300); break;
    case 1: f->unknown_permille = (unsigned)pick(s, 2) * (unsigned)pick(s, 40); break;
    case 2: f->delay_ns = (int64_t)pick(s, 2) * NS_PER_MS; break;
    case 3: f->delay_ns = (int64_t)pick(s, 500) * NS_PER_MS; break;
    case 4: f->down = pick(s, 3) == 0; break;
    default: f->fail_permille = f->unknown_permille = 0; f->down = false; f->delay_ns = NS_PER_MS; break;
    }
}

static void do_admin(struct sim *s)
{
    struct err_note note;
    uint32_t partition = (uint32_t)pick(s, PARTS);
    static const enum queue_part_order orders[] = { PART_DRAIN, PART_PAUSE, PART_RESUME, PART_RESUME };
    if (pick(s, 2) == 0) {
        CHECK(s, queues_test_pause(s->queues, STR("work"), pick(s, 3) == 0, &note) == ERR_OK);
        return;
    }
    struct queue_part_change c = { .order = orders[pick(s, 4)], .partition = partition };
    CHECK(s, queue_part_change(s->q, &c, &note) == ERR_OK);
}

static void step(struct sim *s)
{
    uint64_t what = pick(s, 100);
    if (what < 30)
        do_produce(s);
    else if (what < 55)
        do_lease(s, s->q);
    else if (what < 80)
        do_change(s);
    else if (what < 84)
        do_cancel(s);
    else if (what < 90)
        do_fault(s);
    else if (what < 93)
        do_admin(s);
    else if (what < 94)
        s->world.store_ns += (int64_t)pick(s, 30 * NS_PER_S);
    else if (what < 95 && pick(s, 8) == 0)
        sim_restart(s, pick(s, 4) != 0);
    if (pick(s, 3) != 0)
        run(s, (int64_t)pick(s, pick(s, 5) == 0 ? 2 * NS_PER_S : 5 * NS_PER_MS));
}

/* ---- what must hold at any time ---- */

static void count_item(void *ctx, struct hash_node *n)
{
    const struct qitem *it = CONTAINER_OF(n, struct qitem, by_id);
    unsigned *counts = ctx;
    counts[it->state]++;
    INVARIANT(it->batch != NULL);
    INVARIANT(it->index < it->batch->count);
    if (!it->batch->dirty && it->state != QITEM_ENDING)
        INVARIANT(it->batch->states[it->index] == (it->in_place ? ITEM_IN_PLACE : ITEM_ELSEWHERE));
}

static void check_part(struct sim *s, struct part *p)
{
    unsigned counts[QITEM_STATES] = { 0 }, listed = 0;
    const struct qitem *before = NULL;
    hash_each(&p->items, count_item, counts);
    for (struct list *n = p->ready_list.next; n != &p->ready_list; n = n->next, listed++) {
        const struct qitem *it = CONTAINER_OF(n, struct qitem, link);
        CHECK(s, it->state == QITEM_READY);
        CHECK(s, before == NULL || ksuid_cmp(before->id, it->id) < 0); /* I6 */
        before = it;
    }
    CHECK(s, listed == p->ready_items);
    CHECK(s, counts[QITEM_BEHIND] == p->behind_items);
    CHECK(s, counts[QITEM_TAIL] == p->tail_items);
    CHECK(s, counts[QITEM_GRANTING] == (unsigned)p->granting);
    CHECK(s, p->placing >= 0);
    CHECK(s, counts[QITEM_FREE] == 0);
    bool idle = p->loaded && (p->main == NULL || !p->main->busy) && (p->early == NULL || !p->early->busy);
    if (!idle || !p->whole || counts[QITEM_ENDING] + counts[QITEM_MOVING] > 0)
        return;
    CHECK(s, counts[QITEM_READY] + counts[QITEM_BEHIND] + counts[QITEM_GRANTING] == (unsigned)p->ready);
    CHECK(s, counts[QITEM_LEASED] == (unsigned)p->leased);
}

static void check_now(struct sim *s)
{
    struct queue *queues[] = { s->q, s->dead };
    for (size_t i = 0; i < COUNT_OF(queues); i++) {
        struct queue *q = queues[i];
        for (uint32_t p = 0; p < q->parts_count; p++)
            check_part(s, q->parts[p]);
        CHECK(s, q->paused || list_empty(&q->waiting) || heap_first(&q->heads) == NULL); /* I12 */
        for (unsigned d = 0; d < place_decisions(q->place); d++)
            CHECK(s, place_replays(q->place, place_decision_at(q->place, d))); /* I13 */
    }
}

/* ---- the end: everything is taken out and counted ---- */

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
        run(d->sim, NS_PER_MS);
    }
}

static void drain_complete(struct drain *d, struct queue *q)
{
    for (unsigned i = 0; i < d->r.items_count; i++) {
        ksuid_format(d->r.items[i].id, d->ids[i]);
        d->changes[i] = (struct queue_change_item){ .id = str_of(d->ids[i]) };
    }
    d->c = (struct queue_change){ .queue = q, .kind = CHANGE_COMPLETE, .partition = d->r.partition, .ctx = d,
                                  .items = d->changes, .items_count = d->r.items_count, .arena = &d->arena,
                                  .deadline = { .ns = d->sim->world.now_ns + 5 * NS_PER_S }, .done = drain_changed };
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
    arena_init(&d.arena, 1 << 20);
    d.r = (struct queue_lease_request){ .queue = q, .batch_size = DRAIN_ITEMS, .arena = &d.arena,
                                        .done = drained, .ctx = &d,
                                        .lease_timeout_ns = 3600 * 24 * NS_PER_S,
                                        .deadline = { .ns = s->world.now_ns + 500 * NS_PER_MS } };
    CHECK(s, queue_lease_start(&d.r) == ERR_OK);
    drain_wait(&d);
    bool got = d.why == ERR_OK;
    if (!got && d.why != ERR_TIMEOUT)
        fprintf(stderr, "drain: %s %s\n", err_name(d.why), d.r.note.text);
    for (unsigned i = 0; i < d.r.items_count && got; i++)
        s->things[thing_of(s, &d.r.items[i])].seen++;
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
        CHECK(s, queue_part_change(s->q, &(struct queue_part_change){ .order = PART_RESUME, .partition = p }, &note) ==
                     ERR_OK);
    run(s, 60 * NS_PER_S);
    for (unsigned i = 0; i < 40 * STORES; i++) /* a recovery that fails is tried again later and later */
        if (s->queues->stores[i % STORES].health.status != PLACE_OK)
            run(s, 15 * NS_PER_S);
    run(s, 30 * NS_PER_S);
    for (unsigned i = 0; i < ASKS_MAX; i++)
        CHECK(s, !s->asks[i].used); /* every request was answered */
    for (unsigned i = 0; i < STORES; i++) {
        const struct health *h = &s->queues->stores[i].health;
        if (h->status != PLACE_OK || sim_store_broken(s->stores[i]))
            fprintf(stderr, "store %u: status %d, broken %d, failures %u, probe in %lld ms\n", i, h->status,
                    sim_store_broken(s->stores[i]), h->failures,
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
            fprintf(stderr, "%.*s %u on %u: ready %lld scheduled %lld leased %lld, here: ready %zu behind %zu "
                            "later %zu, loaded %d whole %d held %d granting %lld\n",
                    STR_ARG(queues[i]->info.name), n, p->store,
                    (long long)p->ready, (long long)p->scheduled, (long long)p->leased, p->ready_items,
                    p->behind_items, p->scheduled_items, p->loaded, p->whole, p->held, (long long)p->granting);
        }
    }
}

static void count_all(struct sim *s)
{
    calm_down(s);
    while (drain_one(s, s->q))
        ;
    while (drain_one(s, s->dead))
        ;
    bool shown = false;
    for (unsigned i = 0; i < s->things_count; i++) {
        const struct thing *t = &s->things[i];
        bool odd = t->seen > 1 || (t->seen == 0 && t->produced == TOLD_OK && t->completed == TOLD_NOTHING);
        if (odd && !shown)
            show_parts(s);
        shown |= odd;
        if (t->seen > 1 || (t->seen == 0 && t->produced == TOLD_OK && t->completed == TOLD_NOTHING))
            fprintf(stderr, "item %u of request %u: seen %u, grants %u, dies %d, key %d, later %d, partition %u\n", i,
                    t->request, t->seen, t->grants, t->dies, t->key, t->not_before.ns != 0, t->partition);
        CHECK(s, t->seen <= 1);                                             /* I10, I9 */
        CHECK(s, t->produced != TOLD_FAILED || t->seen == 0);               /* I2 */
        CHECK(s, t->completed != TOLD_OK || t->seen == 0);
        CHECK(s, t->produced != TOLD_OK || t->completed != TOLD_NOTHING || t->seen == 1); /* I1 */
    }
    for (unsigned i = 0, n; i < s->things_count; i = n) { /* I3: those never completed, all or none */
        unsigned seen = 0, whole = 0;
        for (n = i; n < s->things_count && s->things[n].request == s->things[i].request; n++) {
            whole += s->things[n].completed == TOLD_NOTHING;
            seen += s->things[n].completed == TOLD_NOTHING && s->things[n].seen == 1;
        }
        CHECK(s, seen == 0 || seen == whole);
    }
}

static void record_end(struct sim *s)
{
    record_drained_begin(s->record, now_of(s));
    for (unsigned i = 0; i < s->things_count; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "t%u", i);
        for (unsigned n = 0; n < s->things[i].seen; n++)
            record_drained(s->record, name);
    }
    record_drained_end(s->record);
    record_close(&s->record);
}

static void sim_close(struct sim *s)
{
    queues_drain(s->queues);
    queue_unref(&s->q);
    queue_unref(&s->dead);
    for (unsigned i = 0; !queues_idle(s->queues); i++) {
        CHECK(s, i < 10000);
        run(s, 10 * NS_PER_MS);
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

static void history(uint64_t seed, unsigned steps, bool verbose, const char *record)
{
    struct sim *s = calloc(1, sizeof *s);
    INVARIANT(s != NULL);
    s->seed = seed;
    s->record = record == NULL ? NULL : record_open(record);
    CHECK(s, record == NULL || s->record != NULL);
    sim_open(s);
    for (unsigned i = 0; i < steps; i++) {
        step(s);
        check_now(s);
    }
    count_all(s);
    record_end(s);
    if (verbose)
        printf("seed %llu: %u items, %llu grants, produce %llu ok %llu unknown %llu failed, %llu crashes\n",
               (unsigned long long)seed, s->things_count, (unsigned long long)s->grants, (unsigned long long)s->oks,
               (unsigned long long)s->unknowns, (unsigned long long)s->failures, (unsigned long long)s->crashes);
    sim_close(s);
    free(s);
}

int main(int argc, char **argv)
{
    uint64_t first = 1, count = 200, steps = 400;
    bool verbose = false;
    const char *record = NULL;
    for (int i = 1; i < argc; i++) {
        uint64_t *to = strcmp(argv[i], "--seed") == 0 ? &first : strcmp(argv[i], "--histories") == 0 ? &count
                       : strcmp(argv[i], "--steps") == 0 ? &steps : NULL;
        verbose |= strcmp(argv[i], "--verbose") == 0;
        if (strcmp(argv[i], "--record") == 0 && i + 1 < argc)
            record = argv[i + 1]; /* of the last seed, when there are several */
        if (to != NULL && i + 1 < argc && str_to_u64(str_of(argv[i + 1]), to) && to == &first)
            count = 1;
    }
    printf("seeds %llu to %llu, %llu steps each\n", (unsigned long long)first, (unsigned long long)(first + count - 1),
           (unsigned long long)steps);
    for (uint64_t seed = first; seed < first + count; seed++)
        history(seed, (unsigned)steps, verbose, record);
    return 0;
}
