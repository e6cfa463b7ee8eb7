/* Goal: neither the number of leases that a partition has nor lack of memory keeps it from being
 * read, or ends the process. Method: queues over local stores; a store that tells of very many
 * leases; allocations that fail, the Nth and all after it, for every N. */
#include "rig.h"

#include "queue/admin.h"
#include "queue/machine.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- allocations that fail ---- */

static atomic_long left = LONG_MAX; /* so many succeed */

void *__real_reallocarray(void *p, size_t count, size_t size);
void *__wrap_reallocarray(void *p, size_t count, size_t size);
void *__wrap_reallocarray(void *p, size_t count, size_t size)
{
    bool is_list =
        size <= sizeof(void *); /* of times and slots: small, and the end where they cannot grow */
    return is_list || atomic_fetch_sub(&left, 1) > 0 ? __real_reallocarray(p, count, size) : NULL;
}

/* ---- a partition of very many leases ---- */

enum { LEASES = 60000, BATCH = 1000, KEY_BYTES = 200 };

static const struct queue_store_ops *_Atomic real;
static struct queue_store_ops bent;
static unsigned char states[BATCH];

static struct ksuid batch_of(unsigned i)
{
    return (struct ksuid){ .seconds = 1, .high = i + 1, .low = 0 };
}

static str key_of(unsigned i, char text[KEY_BYTES])
{
    memset(text, 'k', KEY_BYTES);
    memcpy(text, &i, sizeof i);
    return (str){ .p = text, .n = KEY_BYTES };
}

static err many_leases(struct queue_store *s, const struct queue_scan *scan)
{
    char key[KEY_BYTES];
    if (scan->kind != SCAN_LEASES)
        return real->scan(s, scan);
    for (unsigned i = 0; i < LEASES; i++) {
        const struct queue_row row = { .u.lease = { .id = batch_of(i),
                                                    .place = { .batch = batch_of(i) },
                                                    .in_place = true,
                                                    .deadline = STORE_TIME_NEVER,
                                                    .attempts = 1,
                                                    .order_key = key_of(i, key) } };
        if (!scan->each(scan->ctx, &row))
            break;
    }
    return ERR_OK;
}

static err large_batch(struct queue_store *s, struct queue_part p,
                       const struct queue_batch_look *look)
{
    struct arena *a = look->arena;
    struct queue_batch *out = look->out;
    struct ksuid first = look->first;
    char key[KEY_BYTES];
    (void)s, (void)p;
    str its = arena_copy(a, key_of((unsigned)first.high - 1, key));
    *out = (struct queue_batch){
        .first = first, .count = BATCH, .expire_at = STORE_TIME_NEVER, .order_key = its
    };
    char *copy = arena_alloc(a, BATCH);
    if (its.p == NULL || copy == NULL)
        return ERR_LIMIT;
    memcpy(copy, states, BATCH);
    out->states = (const unsigned char *)copy;
    return ERR_OK;
}

static void a_partition_is_read_however_many_leases_it_has(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "leased", 1);
    memset(states, ITEM_GONE, sizeof states);
    states[0] = ITEM_IN_PLACE;
    real = rig.stores[0]->ops;
    bent = *real;
    bent.scan = many_leases;
    bent.batch = large_batch;
    rig_ops(&rig, 0, &bent);
    const mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS / 4);
    queue_reload(q);
    while (rig_stats(q, 0).leased != LEASES && clock_mono(rig.clock).ns < deadline.ns)
        queue_rest();
    uint64_t leased = rig_stats(q, 0).leased;
    rig_ops(&rig, 0, real);
    queue_unref(&q);
    assert_int_equal(leased, LEASES);
}

/* ---- lack of memory ---- */

/* Only n arrays grow any more. */
static void starve(long n)
{
    atomic_store(&left, n);
}

/* True: one more was to. */
static bool feed(void)
{
    return atomic_exchange(&left, LONG_MAX) < 0;
}

static void await_counts(struct queue *q, uint64_t ready, uint64_t leased, uint64_t scheduled)
{
    const mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
    for (;;) {
        struct queue_part_stats s = rig_stats(q, 0);
        if (s.ready == ready && s.leased == leased && s.scheduled == scheduled && s.placing == 0)
            return;
        assert_true(clock_mono(rig.clock).ns < deadline.ns);
        queue_rest();
    }
}

static void produce_some(struct queue *q, unsigned count, store_time at)
{
    for (unsigned i = 0; i < count; i++) {
        struct ask *a = ask_new();
        a->items[0] = (struct queue_item_new){ .bytes = STR("x"), .enqueue_at = at };
        a->u.produce.idempotency_key = arena_printf(&a->arena, "%u %lld", i, (long long)at.ns);
        ask_produce(&rig, q, a, 1);
        assert_int_equal(ask_wait(a), ERR_OK);
        ask_free(a);
    }
}

static bool is_loaded(struct queue *q)
{
    queue_enter(q);
    bool is = q->parts[0]->loaded && !q->parts[0]->stale;
    queue_leave(q);
    return is;
}

/* What could not be read for lack of memory is read when there is some, and no store is blamed. */
static void a_partition_is_read_when_there_is_memory_again(void **state)
{
    enum { ITEMS = 10 };
    bool hit = true;
    (void)state;
    struct queue *q = rig_queue(&rig, "starved", 1);
    produce_some(q, 2 * ITEMS, STORE_TIME_ZERO);
    produce_some(q, ITEMS, store_time_add(clock_store(rig.clock), 3600 * NS_PER_S));
    ask_free(rig_lease(&rig, q, ITEMS));
    long n = 0;
    for (; hit; n++) {
        starve(n);
        queue_reload(q);
        while (!is_loaded(q) && atomic_load(&left) >= 0)
            queue_rest();
        struct queue_store_stats s;
        assert_true(queues_store(rig.queues, 0, &s));
        assert_string_equal(s.state, "available");
        hit = feed();
        queue_await_read(q, 0, mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS));
        await_counts(q, ITEMS, ITEMS, ITEMS);
    }
    assert_true(n > 5);
    struct ask *a = rig_lease(&rig, q, 2 * ITEMS);
    assert_int_equal(a->u.lease.items_count, ITEMS);
    ask_free(a);
    queue_unref(&q);
}

/* ---- writes ---- */

enum { ASKS = 20 };

static struct ask *change_begin(struct queue *q, struct ask *l, enum queue_change_kind kind)
{
    struct ask *a = ask_new();
    struct queue_change *c = &a->u.change;
    c->kind = kind;
    c->items_count = l->u.lease.items_count;
    for (unsigned i = 0; i < c->items_count; i++) {
        ksuid_format(l->u.lease.items[i].id, a->ids[i]);
        a->changes[i].id = str_of(a->ids[i]);
    }
    rig_change_begin(&rig, q, a);
    return a;
}

static void await_all(struct ask **asks, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (ask_wait(asks[i]) != ERR_OK)
            fail_msg("request %u", i);
        ask_free(asks[i]);
    }
}

/* Every kind of request at once, while only n arrays grow; true: one more was to. */
static bool all_is_done_later(struct queue *q, long n)
{
    struct ask *asks[ASKS + 4], *first, *second;
    unsigned count = 0;
    (void)rig_produce(&rig, q, "a", ASKS);
    first = rig_lease(&rig, q, ASKS / 2);
    second = rig_lease(&rig, q, ASKS / 2);
    starve(n);
    store_time later = store_time_add(clock_store(rig.clock), 3600 * NS_PER_S);
    for (unsigned i = 0; i < ASKS; i++) {
        struct ask *a = asks[count++] = ask_new();
        a->items[0] = (struct queue_item_new){ .bytes = STR("x"),
                                               .enqueue_at = i % 2 == 0 ? later : STORE_TIME_ZERO };
        a->u.produce.idempotency_key = arena_printf(&a->arena, "%u", i);
        ask_produce(&rig, q, a, 1);
    }
    asks[count++] = rig_produce_keyed_begin(&rig, q, "o", "", "order");
    asks[count++] = change_begin(q, first, CHANGE_COMPLETE);
    asks[count++] = change_begin(q, second, CHANGE_RETRY);
    asks[count++] = rig_lease_begin(&rig, q, "", ASKS, RIG_WAIT_MS);
    const mono deadline = mono_add_ms(clock_mono(rig.clock), 200);
    while (clock_mono(rig.clock).ns < deadline.ns && atomic_load(&left) >= 0)
        queue_rest();
    bool hit = feed();
    await_all(asks, count);
    ask_free(first), ask_free(second);
    struct queue_part_stats s = rig_stats(q, 0);
    assert_int_equal(s.scheduled, ASKS / 2);
    assert_int_equal(s.ready + s.leased, ASKS / 2 + 1 + ASKS / 2);
    return hit;
}

static void what_finds_no_memory_for_its_rows_is_written_later(void **state)
{
    (void)state;
    bool hit = true;
    long n = 0;
    for (; hit; n++) {
        char name[32];
        (void)snprintf(name, sizeof name, "q%ld", n); /* whose writes have no arrays yet */
        struct queue *q = rig_queue(&rig, name, 1);
        hit = all_is_done_later(q, n);
        queue_unref(&q);
    }
    assert_true(n > 3);
}

/* It stays where it is, whole, until there is memory to copy it. */
static void a_partition_that_finds_no_memory_stays_in_its_store(void **state)
{
    enum { ITEMS = 5 };
    struct err_note note;
    (void)state;
    struct queue *q = rig_queue(&rig, "moved", 1);
    produce_some(q, ITEMS, STORE_TIME_ZERO);
    ask_free(rig_lease(&rig, q, 2));
    bool hit = true;
    for (long n = 0; hit; n++) {
        const char *at = rig_stats(q, 0).store;
        bool is_first = str_eq(str_of(at), STR("s0"));
        struct queue_part_change c = { .order = PART_MOVE,
                                       .store = is_first ? STR("s1") : STR("s0") };
        note.text[0] = '\0';
        starve(n);
        err why = queue_part_change(q, &c, &note);
        hit = feed();
        assert_int_equal(why, hit ? ERR_UNAVAILABLE : ERR_OK);
        assert_true(str_eq(str_of(rig_stats(q, 0).store), hit ? str_of(at) : c.store));
        await_counts(q, ITEMS - 2, 2, 0);
        queue_await_read(q, 0, mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS));
    }
    queue_unref(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_partition_is_read_however_many_leases_it_has, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(a_partition_is_read_when_there_is_memory_again, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(what_finds_no_memory_for_its_rows_is_written_later,
                                        rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(a_partition_that_finds_no_memory_stays_in_its_store,
                                        rig_setup_two, rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
