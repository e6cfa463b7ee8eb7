/* Goal: whatever stores and clients do, the queue keeps I1-I13 (see below). Method: the real
 * machine over real local stores (their engine in memory), a virtual loop and clock, stores that
 * delay, fail, break and are killed, random clients; a naive model of what every client was told;
 * checked after each step, and counted at the end. Everything follows from the seed, which is
 * printed; run one again with --seed N. --record FILE writes down what clients asked and were told;
 * linear.py checks that on its own (not of --wide histories: it knows no administrator). --large:
 * bodies of all sizes up to 1.5 MB, more of which die at once than one move, batch or reply may
 * have. --wide: most items have order keys, live short, with and without a dead queue, and are
 * deleted in any state, several of one key in one write. --slow: stores delay and never fail, and
 * leases wait about as long as a write takes; so linear.py can check the order of items exactly.
 *
 *   I1 no loss, I2 no phantom, I3 whole requests, I4 one live lease, I5 fenced changes, I7 order
 * keys, I8 attempts,
 *   I9 dead letters once, I10 no duplicates, I11 never early, I12 no lost wake-up, I13 decisions
 * replay */
#include "queue/admin.h"
#include "sim.h"

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
        record_answer(s->record, sim_now(s), a->op,
                      why == ERR_OK ? "ok"
                      : unknown     ? "unknown"
                                    : "none");
    for (unsigned i = 0; i < a->count; i++) {
        struct thing *t = &s->things[a->first + i];
        t->produced = why == ERR_OK && !late ? TOLD_OK
                      : late || unknown      ? TOLD_UNKNOWN
                                             : TOLD_FAILED;
        t->place = why == ERR_OK ? ksuid_add(p->first, i) : KSUID_NIL;
        t->partition = p->partition;
    }
    s->oks += why == ERR_OK;
    s->unknowns += unknown;
    s->failures += why != ERR_OK && !unknown;
    ask_free(a);
}

/* I7: of a key the earliest that is not over; those of one partition and never scheduled. */
static void check_order(struct sim *s, unsigned n)
{
    for (unsigned i = 0; i < n && s->things[n].key >= 0; i++) {
        const struct thing *t = &s->things[i];
        if (t->key != s->things[n].key)
            continue;
        CHECK(s, !(t->held &&
                   store_time_before((store_time){ .ns = s->world.store_ns }, t->deadline)) ||
                     t->asked || t->deleted);
        CHECK(s, t->produced != TOLD_OK || t->request >= s->things[n].request ||
                     t->completed != TOLD_NOTHING || t->asked || t->grants >= MAX_ATTEMPTS ||
                     t->dies || sim_may_be_over(s, t));
    }
}

static void granted(struct sim *s, struct queue_lease_request *r, const struct queue_item *it)
{
    unsigned n = sim_thing(s, it);
    struct thing *t = &s->things[n];
    store_time now = { .ns = s->world.store_ns };
    CHECK(s, t->produced != TOLD_FAILED);                                   /* I2 */
    CHECK(s, t->completed != TOLD_OK);                                      /* I5, I10 */
    CHECK(s, !t->held || t->asked || !store_time_before(now, t->deadline)); /* I4, I11 */
    CHECK(s, store_time_add(now, QUEUE_SOON_NS).ns >= t->not_before.ns);    /* I11 */
    CHECK(s, it->attempts >= t->grants + 1);                                /* I8 */
    CHECK(s, it->attempts <= MAX_ATTEMPTS || !s->has_dead);
    CHECK(s, !t->held || ksuid_cmp(it->id, t->id) > 0); /* I4: a new id for each grant */
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
        record_leased(s->record, sim_now(s), a->op, r);
    else if (a->life == s->life)
        record_answer(s->record, sim_now(s), a->op, "none");
    for (unsigned i = 0; i < r->items_count && why == ERR_OK && a->life == s->life; i++)
        granted(s, r, &r->items[i]);
    for (unsigned i = 0; i < r->items_count && why == ERR_OK && a->life != s->life; i++) {
        struct thing *t =
            &s->things[sim_thing(s, &r->items[i])]; /* nobody heard of it: it expires */
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
        record_answer(s->record, sim_now(s), a->op,
                      why == ERR_OK    ? "ok"
                      : why == ERR_BAD ? "none"
                      : definite       ? "refused"
                                       : "unknown");
    for (unsigned i = 0; i < a->count; i++) {
        struct thing *t = &s->things[a->things[i]];
        char id[KSUID_TEXT_BYTES + 1];
        ksuid_format(t->id, id);
        if (strcmp(id, a->ids[i]) != 0)
            continue; /* it was granted again meanwhile */
        if (a->life != s->life)
            why = ERR_UNAVAILABLE;
        if (definite) { /* I5: a live lease can be changed */
            CHECK(s, store_time_before(t->deadline, (store_time){ .ns = s->world.store_ns + 1 }) ||
                         t->asked_before || a->count > 1 || t->deleted);
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
        arena_init(&a->arena, s->mode == SIM_LARGE ? ARENA_LARGE : ARENA_SMALL);
        return a;
    }
    return NULL;
}

static mono soon(struct sim *s)
{
    return (mono){ .ns = s->world.now_ns + (int64_t)sim_pick(s, 3 * NS_PER_S) + 20 * NS_PER_MS };
}

static mono lease_deadline(struct sim *s)
{
    return s->mode == SIM_SLOW ? (mono){ .ns = s->world.now_ns + (int64_t)sim_pick(s, 2 * SLOW_NS) }
                               : soon(s);
}

/* Says which thing it is; large: mostly small, some as large as they come. */
static str body_of(struct sim *s, struct arena *a, unsigned thing)
{
    if (s->mode != SIM_LARGE)
        return arena_printf(a, "t%u %s", thing, sim_pick(s, 9) == 0 ? "................" : "");
    size_t size = 64 + sim_pick(s, sim_pick(s, 3) == 0 ? BODY_LARGE : 2000);
    char *p = arena_calloc(a, 1, size);
    CHECK(s, p != NULL);
    memset(p, ' ', size);
    (void)snprintf(p, size, "t%u ", thing);
    return (str){ .p = p, .n = size };
}

static void do_produce(struct sim *s)
{
    struct ask *a = ask_new(s, REQ_PRODUCE);
    if (a == NULL || s->things_count + BATCH_MAX > ITEMS_MAX)
        goto out;
    a->first = s->things_count;
    a->count = 1 + (unsigned)sim_pick(s, BATCH_MAX);
    int key = sim_pick(s, 4) == 0 || (s->mode == SIM_WIDE && sim_pick(s, 3) != 0)
                  ? (int)sim_pick(s, KEYS)
                  : -1;
    bool scheduled = key < 0 && sim_pick(s, 4) == 0;
    for (unsigned i = 0; i < a->count; i++) {
        struct thing *t = &s->things[s->things_count++];
        *t = (struct thing){ .request = s->requests,
                             .key = key,
                             .produced_at.ns = s->world.store_ns };
        if (scheduled && sim_pick(s, 2) == 0)
            t->not_before.ns = s->world.store_ns + (int64_t)sim_pick(s, 20 * NS_PER_S) + NS_PER_MS;
        a->items[i] = (struct queue_item_new){ .bytes = body_of(s, &a->arena, a->first + i),
                                               .enqueue_at = t->not_before };
    }
    s->requests++;
    a->u.produce = (struct queue_produce){ .queue = s->q,
                                           .items = a->items,
                                           .items_count = a->count,
                                           .deadline = soon(s),
                                           .arena = &a->arena,
                                           .home = home_here(),
                                           .done = produced,
                                           .ctx = a };
    if (key >= 0)
        a->u.produce.order_key = arena_printf(&a->arena, "key-%d", key);
    a->op = record_produce(s->record, sim_now(s), &a->u.produce);
    err why = queue_produce_start(&a->u.produce);
    if (why == ERR_OK)
        return;
    record_answer(s->record, sim_now(s), a->op, "none");
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
    a->u.lease = (struct queue_lease_request){ .queue = q,
                                               .batch_size = 1 + (unsigned)sim_pick(s, BATCH_MAX),
                                               .deadline = lease_deadline(s),
                                               .wants_token = sim_pick(s, 2) == 0,
                                               .arena = &a->arena,
                                               .home = home_here(),
                                               .done = leased,
                                               .ctx = a };
    if (sim_pick(s, 3) == 0)
        a->u.lease.client_id = arena_printf(&a->arena, "client-%u", (unsigned)sim_pick(s, 4));
    a->op = record_lease(s->record, sim_now(s), &a->u.lease);
    err why = queue_lease_start(&a->u.lease);
    CHECK(s, why == ERR_OK || why == ERR_BAD || why == ERR_SHUTDOWN);
    if (why == ERR_OK)
        return;
    record_answer(s->record, sim_now(s), a->op, "none");
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
    unsigned n = (unsigned)sim_pick(s, s->things_count);
    while (n < s->things_count && !is_free(&s->things[n]))
        n++;
    if (n == s->things_count)
        return;
    struct ask *a = ask_new(s, REQ_CHANGE);
    if (a == NULL)
        return;
    enum queue_change_kind kind = sim_pick(s, 3) != 0   ? CHANGE_COMPLETE
                                  : sim_pick(s, 4) != 0 ? CHANGE_RETRY
                                                        : CHANGE_EXTEND;
    uint32_t partition = s->things[n].partition;
    for (; n < s->things_count && a->count < 1 + sim_pick(s, BATCH_MAX); n++) {
        struct thing *t = &s->things[n];
        if (!is_free(t) || t->partition != partition)
            continue;
        struct queue_change_item *it = &a->changes[a->count];
        ksuid_format(t->id, a->ids[a->count]);
        *it = (struct queue_change_item){ .id = str_of(a->ids[a->count]),
                                          .token = t->token,
                                          .extend_ns = LEASE_NS };
        if (kind == CHANGE_RETRY && sim_pick(s, 3) == 0)
            it->retry_at.ns = s->world.store_ns + (int64_t)sim_pick(s, 10 * NS_PER_S);
        it->dead = kind == CHANGE_RETRY && sim_pick(s, 8) == 0;
        t->dies |= it->dead;
        t->asked_before = t->asked;
        t->asked = true;
        a->things[a->count++] = n;
    }
    a->u.change = (struct queue_change){ .queue = s->q,
                                         .kind = kind,
                                         .partition = partition,
                                         .items = a->changes,
                                         .items_count = a->count,
                                         .deadline = soon(s),
                                         .arena = &a->arena,
                                         .home = home_here(),
                                         .done = changed,
                                         .ctx = a };
    a->op = record_change(s->record, sim_now(s), &a->u.change);
    err why = queue_change_start(&a->u.change);
    if (why == ERR_OK)
        return;
    record_answer(s->record, sim_now(s), a->op, "none");
    CHECK(s, why == ERR_UNAVAILABLE || why == ERR_SHUTDOWN);
    for (unsigned i = 0; i < a->count; i++)
        s->things[a->things[i]].asked = false;
    ask_free(a);
}

static void deleted(struct queue_change *c, err why)
{
    struct ask *a = c->ctx;
    CHECK(a->sim, !a->answered);
    CHECK(a->sim,
          why == ERR_OK || why == ERR_UNAVAILABLE || why == ERR_TIMEOUT || why == ERR_SHUTDOWN);
    a->answered = true;
    ask_free(a);
}

struct gather {
    struct sim *sim;
    struct ask *ask;
    uint32_t partition;
    unsigned skip;
};

/* An item in memory whose producer was told where it is: an end of it is asked for. */
static void gather_item(void *ctx, struct hash_node *n)
{
    struct gather *g = ctx;
    struct ask *a = g->ask;
    const struct qitem *it = CONTAINER_OF(n, struct qitem, by_id);
    struct ksuid place = ksuid_add(it->batch->first, it->index);
    if (a->count == BATCH_MAX || (g->skip > 0 && g->skip-- > 0))
        return;
    for (unsigned i = 0; i < g->sim->things_count; i++) {
        struct thing *t = &g->sim->things[i];
        if (t->partition != g->partition || ksuid_cmp(t->place, place) != 0)
            continue;
        t->deleted = true;
        t->completed = t->completed == TOLD_NOTHING ? TOLD_UNKNOWN : t->completed;
        ksuid_format(it->id, a->ids[a->count]);
        a->changes[a->count] = (struct queue_change_item){ .id = str_of(a->ids[a->count]) };
        a->count++;
        return;
    }
}

/* As an administrator does: items in any state, of one order key and of others, in one write. */
static void do_delete(struct sim *s)
{
    struct ask *a = ask_new(s, REQ_CHANGE);
    if (a == NULL)
        return;
    struct gather g = { .sim = s, .ask = a, .partition = (uint32_t)sim_pick(s, PARTS) };
    g.skip = (unsigned)sim_pick(s, 8);
    hash_each(&s->q->parts[g.partition]->items, gather_item, &g);
    a->u.change = (struct queue_change){ .queue = s->q,
                                         .kind = sim_pick(s, 2) == 0 ? CHANGE_DELETE : CHANGE_CLEAR,
                                         .clears = { .ready = true,
                                                     .scheduled = sim_pick(s, 2) == 0,
                                                     .leased = sim_pick(s, 2) == 0 },
                                         .partition = g.partition,
                                         .items = a->changes,
                                         .items_count = a->count,
                                         .deadline = soon(s),
                                         .arena = &a->arena,
                                         .home = home_here(),
                                         .done = deleted,
                                         .ctx = a };
    if (a->count == 0 || queue_change_start(&a->u.change) != ERR_OK)
        ask_free(a);
}

static void do_cancel(struct sim *s)
{
    struct ask *a = &s->asks[sim_pick(s, ASKS_MAX)];
    if (!a->used || a->answered || a->life != s->life)
        return;
    if (a->kind == REQ_PRODUCE)
        queue_produce_cancel(&a->u.produce);
    else if (a->kind == REQ_LEASE)
        queue_lease_cancel(&a->u.lease);
}

static void do_fault(struct sim *s)
{
    struct sim_faults *f = sim_store_faults(s->stores[sim_pick(s, STORES)]);
    if (s->mode == SIM_SLOW) {
        f->delay_ns = (int64_t)sim_pick(s, SLOW_NS);
        return;
    }
    switch (sim_pick(s, 7)) {
    case 0:
        f->fail_permille = (unsigned)sim_pick(s, 2) * (unsigned)sim_pick(s, 300);
        break;
    case 1:
        f->unknown_permille = (unsigned)sim_pick(s, 2) * (unsigned)sim_pick(s, 40);
        break;
    case 2:
        f->delay_ns = (int64_t)sim_pick(s, 2) * NS_PER_MS;
        break;
    case 3:
        f->delay_ns = (int64_t)sim_pick(s, 500) * NS_PER_MS;
        break;
    case 4:
        f->down = sim_pick(s, 3) == 0;
        break;
    default:
        f->fail_permille = f->unknown_permille = 0;
        f->down = false;
        f->delay_ns = NS_PER_MS;
        break;
    }
}

static void do_admin(struct sim *s)
{
    struct err_note note;
    uint32_t partition = (uint32_t)sim_pick(s, PARTS);
    static const enum queue_part_order orders[] = { PART_DRAIN, PART_PAUSE, PART_RESUME,
                                                    PART_RESUME };
    if (sim_pick(s, 2) == 0) {
        CHECK(s, queues_test_pause(s->queues, STR("work"), sim_pick(s, 3) == 0, &note) == ERR_OK);
        return;
    }
    struct queue_part_change c = { .order = orders[sim_pick(s, 4)], .partition = partition };
    CHECK(s, queue_part_change(s->q, &c, &note) == ERR_OK);
}

static void step(struct sim *s)
{
    uint64_t what = sim_pick(s, 100);
    if (s->mode == SIM_WIDE && sim_pick(s, 20) == 0)
        do_delete(s);
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
        s->world.store_ns += (int64_t)sim_pick(s, 30 * NS_PER_S);
    else if (what < 95 && sim_pick(s, 8) == 0)
        sim_restart(s, sim_pick(s, 4) != 0);
    if (sim_pick(s, 3) != 0)
        sim_run(s, (int64_t)sim_pick(s, sim_pick(s, 5) == 0 ? 2 * NS_PER_S : 5 * NS_PER_MS));
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
    bool idle = p->loaded && part_idle(p);
    CHECK(s, !idle || p->releasing == 0);
    if (!idle || !p->whole || counts[QITEM_ENDING] + counts[QITEM_MOVING] > 0)
        return;
    CHECK(s, counts[QITEM_READY] + counts[QITEM_BEHIND] + counts[QITEM_GRANTING] ==
                 (unsigned)p->ready);
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

static void record_end(struct sim *s)
{
    record_drained_begin(s->record, sim_now(s));
    for (unsigned i = 0; i < s->things_count; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "t%u", i);
        for (unsigned n = 0; n < s->things[i].seen; n++)
            record_drained(s->record, name);
    }
    record_drained_end(s->record);
    record_close(&s->record);
}

static void history(uint64_t seed, unsigned steps, enum sim_mode mode, bool verbose,
                    const char *record)
{
    struct sim *s = calloc(1, sizeof *s);
    INVARIANT(s != NULL);
    s->seed = seed;
    s->mode = mode;
    s->record = record == NULL ? NULL : record_open(record);
    CHECK(s, record == NULL || s->record != NULL);
    sim_open(s);
    for (unsigned i = 0; i < steps; i++) {
        step(s);
        check_now(s);
    }
    sim_count_all(s);
    record_end(s);
    if (verbose)
        printf("seed %llu: %u items, %llu grants, produce %llu ok %llu unknown %llu failed, %llu "
               "crashes\n",
               (unsigned long long)seed, s->things_count, (unsigned long long)s->grants,
               (unsigned long long)s->oks, (unsigned long long)s->unknowns,
               (unsigned long long)s->failures, (unsigned long long)s->crashes);
    sim_close(s);
    free(s);
}

int main(int argc, char **argv)
{
    uint64_t first = 1, count = 200, steps = 400;
    bool verbose = false;
    enum sim_mode mode = SIM_PLAIN;
    const char *record = NULL;
    for (int i = 1; i < argc; i++) {
        uint64_t *to = strcmp(argv[i], "--seed") == 0        ? &first
                       : strcmp(argv[i], "--histories") == 0 ? &count
                       : strcmp(argv[i], "--steps") == 0     ? &steps
                                                             : NULL;
        verbose |= strcmp(argv[i], "--verbose") == 0;
        mode = strcmp(argv[i], "--wide") == 0    ? SIM_WIDE
               : strcmp(argv[i], "--large") == 0 ? SIM_LARGE
               : strcmp(argv[i], "--slow") == 0  ? SIM_SLOW
                                                 : mode;
        if (strcmp(argv[i], "--record") == 0 && i + 1 < argc)
            record = argv[i + 1]; /* of the last seed, when there are several */
        if (to != NULL && i + 1 < argc && str_to_u64(str_of(argv[i + 1]), to) && to == &first)
            count = 1;
    }
    printf("seeds %llu to %llu, %llu steps each\n", (unsigned long long)first,
           (unsigned long long)(first + count - 1), (unsigned long long)steps);
    for (uint64_t seed = first; seed < first + count; seed++)
        history(seed, (unsigned)steps, mode, verbose, record);
    return 0;
}
