#include "rig.h"

#include "engine/store.h"
#include "queue/admin.h"
#include "queue/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *run_loop(void *ctx)
{
    struct rig *r = ctx;
    loop_run(r->loop);
    queues_free(&r->queues); /* its timer belongs to this thread */
    return NULL;
}

void rig_open(struct rig *r)
{
    struct err_note note = { "" };
    store_time greatest = STORE_TIME_ZERO;
    r->engine = scratch_engine(r->dir, r->clock);
    for (unsigned i = 0; i < r->stores_count; i++) {
        static const char *const names[RIG_STORES_MAX] = { "s0", "s1", "s2", "s3" };
        char dir[128];
        (void)snprintf(dir, sizeof dir, "%s/store-%u", r->dir, i);
        struct queue_local_opts o = { .name = names[i],
                                      .engine = i == 0 ? r->engine : NULL,
                                      .dir = i == 0 ? NULL : dir,
                                      .clock = r->clock,
                                      .segment_bytes = 8u << 20 };
        err why = queue_local_open(&o, &r->stores[i], &greatest, &note);
        if (why != ERR_OK)
            fail_msg("store: %s", note.text);
    }
    r->loop = loop_new(4);
    r->opts.engine = r->engine;
    r->opts.stores = r->stores;
    r->opts.stores_count = r->stores_count;
    r->opts.clock = r->clock;
    r->opts.loop = r->loop;
    if (queues_new(&r->opts, &r->queues, &note) != ERR_OK)
        fail_msg("queues: %s", note.text);
    assert_int_equal(pthread_create(&r->thread, NULL, run_loop, r), 0);
}

void rig_prepare(struct rig *r, unsigned stores)
{
    memset(r, 0, sizeof *r);
    folder_make(r->dir);
    r->sysclock = sysclock_new();
    r->clock = sysclock_clock(r->sysclock);
    sysclock_start(r->sysclock, STORE_TIME_ZERO);
    r->stores_count = stores;
    r->opts = (struct queues_opts){ .seed = 7,
                                    .durability = QUEUE_SYNC,
                                    .write_timeout_ms = RIG_WAIT_MS / 2,
                                    .idempotency_window_ns = 300 * NS_PER_S,
                                    .reply_bytes_max = 8u << 20,
                                    .partitions_max = 1u << 20 };
}

void rig_init(struct rig *r, unsigned stores)
{
    rig_prepare(r, stores);
    rig_open(r);
}

void rig_close(struct rig *r)
{
    queues_drain(r->queues);
    for (unsigned i = 0; !queues_idle(r->queues); i++) {
        if (i > RIG_WAIT_MS) {
            for (size_t n = 0; n < r->queues->count; n++) {
                const struct queue *q = r->queues->sorted[n];
                fprintf(stderr, "queue %zu: busy %u, requests %llu, refs %u\n", n, q->busy,
                        (unsigned long long)q->requests, q->refs);
            }
            fail_msg("queues do not come to rest: %u jobs, %u of %zu queues", r->queues->jobs,
                     r->queues->alive, r->queues->count);
        }
        wait_pause(1);
    }
    loop_stop(r->loop);
    (void)pthread_join(r->thread, NULL);
    loop_free(&r->loop);
    for (unsigned i = r->stores_count; i > 0; i--)
        r->stores[i - 1]->ops->close(&r->stores[i - 1]);
    engine_close(&r->engine);
}

void rig_fini(struct rig *r)
{
    rig_close(r);
    sysclock_free(&r->sysclock);
    folder_remove(r->dir);
}

/* A server never does this, so a queue reads the pointer without a lock. */
void rig_ops(struct rig *r, unsigned store, const struct queue_store_ops *ops)
{
    assert_true(r->ops_count < RIG_OPS_MAX);
    struct queue_store_ops *copy = &r->ops[r->ops_count++];
    *copy = *ops;
    r->stores[store]->ops = copy;
}

const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:rig_ops\n";
}

void rig_advance(struct rig *r, int64_t ns)
{
    struct err_note note;
    assert_int_equal(sysclock_advance(r->sysclock, ns, &note), ERR_OK);
    queues_upkeep_all(r->queues);
}

struct rig rig;

int rig_setup(void **state)
{
    (void)state;
    rig_init(&rig, 1);
    return 0;
}

int rig_setup_two(void **state)
{
    (void)state;
    rig_init(&rig, 2);
    return 0;
}

int rig_teardown(void **state)
{
    (void)state;
    rig_fini(&rig);
    return 0;
}

struct queue *rig_create(struct rig *r, struct queue_info info)
{
    struct err_note note = { "" };
    struct queue *q = NULL;
    if (info.lease_timeout_ns == 0)
        info.lease_timeout_ns = 60 * NS_PER_S;
    if (info.expire_timeout_ns == 0)
        info.expire_timeout_ns = 24 * 3600 * NS_PER_S;
    if (info.partitions == 0)
        info.partitions = 1;
    if (queues_create(r->queues, &info, &note) != ERR_OK)
        fail_msg("create: %s", note.text);
    assert_int_equal(queues_find(r->queues, info.name, &q, &note), ERR_OK);
    return q;
}

struct queue *rig_queue(struct rig *r, const char *name, uint32_t partitions)
{
    return rig_create(r, (struct queue_info){ .name = str_of(name), .partitions = partitions });
}

/* ---- requests ---- */

struct ask *ask_new(void)
{
    struct ask *a = calloc(1, sizeof *a);
    assert_non_null(a);
    arena_init(&a->arena, 64u << 20);
    awaited_init(&a->answer);
    return a;
}

void ask_free(struct ask *a)
{
    arena_fini(&a->arena);
    awaited_fini(&a->answer);
    free(a);
}

static void produced(struct queue_produce *p, err why)
{
    awaited_tell(&((struct ask *)p->ctx)->answer, why);
}

static void leased(struct queue_lease_request *r, err why)
{
    awaited_tell(&((struct ask *)r->ctx)->answer, why);
}

static void changed(struct queue_change *c, err why)
{
    awaited_tell(&((struct ask *)c->ctx)->answer, why);
}

err ask_wait(struct ask *a)
{
    return awaited_wait(&a->answer);
}

bool ask_is_done(struct ask *a)
{
    return awaited_told(&a->answer);
}

void ask_produce(struct rig *r, struct queue *q, struct ask *a, unsigned count)
{
    a->u.produce.queue = q;
    a->u.produce.items = a->items;
    a->u.produce.items_count = count;
    a->u.produce.deadline = mono_add_ms(clock_mono(r->clock), RIG_WAIT_MS);
    a->u.produce.arena = &a->arena;
    a->u.produce.home = loop_home(r->loop);
    a->u.produce.done = produced;
    a->u.produce.ctx = a;
    if (queue_produce_start(&a->u.produce) != ERR_OK)
        fail_msg("produce: %s", a->u.produce.note.text);
}

struct ask *rig_produce_begin(struct rig *r, struct queue *q, const char *body, unsigned count)
{
    struct ask *a = ask_new();
    for (unsigned i = 0; i < count; i++)
        a->items[i] = (struct queue_item_new){ .bytes = arena_printf(&a->arena, "%s%u", body, i),
                                               .kind = STR("k") };
    ask_produce(r, q, a, count);
    return a;
}

uint32_t rig_produce(struct rig *r, struct queue *q, const char *body, unsigned count)
{
    struct ask *a = rig_produce_begin(r, q, body, count);
    if (ask_wait(a) != ERR_OK)
        fail_msg("produce: %s", a->u.produce.note.text);
    uint32_t partition = a->u.produce.partition;
    ask_free(a);
    return partition;
}

struct ask *rig_produce_keyed_begin(struct rig *r, struct queue *q, const char *body,
                                    const char *idempotency, const char *order)
{
    struct ask *a = ask_new();
    a->items[0].bytes = str_of(body);
    a->u.produce.idempotency_key = str_of(idempotency);
    a->u.produce.order_key = str_of(order);
    ask_produce(r, q, a, 1);
    return a;
}

struct ask *rig_produce_keyed(struct rig *r, struct queue *q, const char *body,
                              const char *idempotency, const char *order)
{
    struct ask *a = rig_produce_keyed_begin(r, q, body, idempotency, order);
    if (ask_wait(a) != ERR_OK)
        fail_msg("produce: %s", a->u.produce.note.text);
    return a;
}

struct ask *rig_lease_begin(struct rig *r, struct queue *q, const char *client, unsigned count,
                            int64_t timeout_ms)
{
    struct ask *a = ask_new();
    a->u.lease =
        (struct queue_lease_request){ .queue = q,
                                      .batch_size = count,
                                      .client_id = str_of(client),
                                      .deadline = mono_add_ms(clock_mono(r->clock), timeout_ms),
                                      .arena = &a->arena,
                                      .home = loop_home(r->loop),
                                      .done = leased,
                                      .ctx = a };
    if (queue_lease_start(&a->u.lease) != ERR_OK)
        fail_msg("lease: %s", a->u.lease.note.text);
    return a;
}

void rig_lease_with(struct rig *r, struct queue *q, struct ask *a, unsigned count)
{
    a->u.lease = (struct queue_lease_request){ .queue = q,
                                               .batch_size = count,
                                               .arena = &a->arena,
                                               .home = loop_home(r->loop),
                                               .done = leased,
                                               .ctx = a };
    a->u.lease.deadline = mono_add_ms(clock_mono(r->clock), RIG_WAIT_MS);
    if (queue_lease_start(&a->u.lease) != ERR_OK)
        fail_msg("lease: %s", a->u.lease.note.text);
}

struct ask *rig_lease_token(struct rig *r, struct queue *q, unsigned count)
{
    struct ask *a = ask_new();
    a->u.lease =
        (struct queue_lease_request){ .queue = q,
                                      .batch_size = count,
                                      .wants_token = true,
                                      .deadline = mono_add_ms(clock_mono(r->clock), RIG_WAIT_MS),
                                      .arena = &a->arena,
                                      .home = loop_home(r->loop),
                                      .done = leased,
                                      .ctx = a };
    if (queue_lease_start(&a->u.lease) != ERR_OK)
        fail_msg("lease: %s", a->u.lease.note.text);
    assert_int_equal(ask_wait(a), ERR_OK);
    return a;
}

struct ask *rig_lease(struct rig *r, struct queue *q, unsigned count)
{
    struct ask *a = rig_lease_begin(r, q, "", count, RIG_WAIT_MS);
    if (ask_wait(a) != ERR_OK)
        fail_msg("lease: %s", a->u.lease.note.text);
    return a;
}

struct ask *rig_lease_soon(struct rig *r, struct queue *q, unsigned count)
{
    struct ask *a = rig_lease_begin(r, q, "", count, 300);
    if (ask_wait(a) != ERR_OK)
        a->u.lease.items_count = 0;
    return a;
}

static err change_start(struct rig *r, struct queue *q, struct ask *a)
{
    a->u.change.queue = q;
    a->u.change.items = a->changes;
    a->u.change.arena = &a->arena;
    if (a->u.change.home == NULL)
        a->u.change.home = loop_home(r->loop);
    a->u.change.done = changed;
    a->u.change.ctx = a;
    a->u.change.deadline = mono_add_ms(clock_mono(r->clock), RIG_WAIT_MS);
    return queue_change_start(&a->u.change);
}

err rig_change_items(struct rig *r, struct queue *q, struct ask *a)
{
    err why = change_start(r, q, a);
    return why == ERR_OK ? ask_wait(a) : why;
}

void rig_change_begin(struct rig *r, struct queue *q, struct ask *a)
{
    if (change_start(r, q, a) != ERR_OK)
        fail_msg("change: %s", a->u.change.note.text);
}

err rig_change(struct rig *r, struct queue *q, enum queue_change_kind kind, uint32_t partition,
               const struct ksuid *ids, unsigned count, struct err_note *note)
{
    struct ask *a = ask_new();
    a->u.change.kind = kind;
    a->u.change.partition = partition;
    a->u.change.items_count = count;
    for (unsigned i = 0; i < count; i++) {
        ksuid_format(ids[i], a->ids[i]);
        a->changes[i].id = str_of(a->ids[i]);
    }
    err why = rig_change_items(r, q, a);
    if (note != NULL)
        *note = a->u.change.note;
    ask_free(a);
    return why;
}

struct queue_part_stats rig_stats(struct queue *q, uint32_t partition)
{
    struct arena a;
    struct queue_stats stats;
    arena_init(&a, 1u << 20);
    assert_int_equal(queue_stats_get(q, &a, &stats), ERR_OK);
    struct queue_part_stats s = stats.parts[partition];
    arena_fini(&a);
    return s;
}

bool rig_body_is(const struct queue_item *it, const char *text)
{
    return str_eq(it->bytes, str_of(text));
}
