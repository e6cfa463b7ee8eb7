/* Goal: many threads at one queue lose nothing, get nothing twice, and data races are seen by the
 * thread sanitizer; a process killed at a random moment has lost nothing it acknowledged; order
 * keys go on however their items end. Method: producers and consumers on real stores, every item
 * counted; short lives, retries and clears; a child that produces and consumes, and tells through a
 * pipe what it was told, killed by signal 9 again and again on the same directory. */
#include "queue/admin.h"
#include "rig.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PRODUCERS = 4,
    CONSUMERS = 4,
    REQUESTS = 60,
    PER_REQUEST = 5,
    ITEMS = PRODUCERS * REQUESTS * PER_REQUEST
};

static struct queue *queue;
static atomic_uint seen[ITEMS], consumed;

static unsigned number_of(const struct queue_item *it)
{
    unsigned n = 0;
    for (size_t i = 0; i < it->bytes.n && it->bytes.p[i] != ' '; i++)
        n = n * 10 + (unsigned)(it->bytes.p[i] - '0');
    return n;
}

static void *produce(void *ctx)
{
    unsigned base = *(unsigned *)ctx * REQUESTS * PER_REQUEST;
    for (unsigned i = 0; i < REQUESTS; i++) {
        struct ask *a = ask_new();
        for (unsigned n = 0; n < PER_REQUEST; n++)
            a->items[n].bytes = arena_printf(&a->arena, "%u", base + i * PER_REQUEST + n);
        ask_produce(&rig, queue, a, PER_REQUEST);
        if (ask_wait(a) != ERR_OK)
            abort();
        ask_free(a);
    }
    return NULL;
}

static void *consume(void *ctx)
{
    (void)ctx;
    while (atomic_load(&consumed) < ITEMS) {
        struct ask *a =
            rig_lease_begin(&rig, queue, "", 1 + (unsigned)atomic_load(&consumed) % 7, 200);
        struct ksuid ids[8];
        if (ask_wait(a) == ERR_OK) {
            unsigned count = a->u.lease.items_count;
            for (unsigned i = 0; i < count; i++)
                ids[i] = a->u.lease.items[i].id;
            bool retry =
                number_of(&a->u.lease.items[0]) % 5 == 0 && a->u.lease.items[0].attempts == 1;
            if (rig_change(&rig, queue, retry ? CHANGE_RETRY : CHANGE_COMPLETE,
                           a->u.lease.partition, ids, count, NULL) != ERR_OK)
                abort();
            for (unsigned i = 0; i < count && !retry; i++)
                (void)atomic_fetch_add(&seen[number_of(&a->u.lease.items[i])], 1);
            (void)atomic_fetch_add(&consumed, retry ? 0 : count);
        }
        ask_free(a);
    }
    return NULL;
}

static void many_threads_lose_nothing_and_get_nothing_twice(void **state)
{
    pthread_t threads[PRODUCERS + CONSUMERS];
    unsigned numbers[PRODUCERS];
    (void)state;
    rig_init(&rig, 2);
    queue = rig_queue(&rig, "hammer", 3);
    for (unsigned i = 0; i < PRODUCERS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, produce, &numbers[i]), 0);
    }
    for (unsigned i = 0; i < CONSUMERS; i++)
        assert_int_equal(pthread_create(&threads[PRODUCERS + i], NULL, consume, NULL), 0);
    for (unsigned i = 0; i < PRODUCERS + CONSUMERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (unsigned i = 0; i < ITEMS; i++)
        assert_int_equal(atomic_load(&seen[i]), 1);
    for (uint32_t p = 0; p < 3; p++) {
        assert_int_equal(rig_stats(queue, p).ready, 0);
        assert_int_equal(rig_stats(queue, p).leased, 0);
    }
    queue_unref(&queue);
    rig_fini(&rig);
}

/* ---- order keys that end in every way at once ---- */

enum { KEYS = 3 };
static const char *const keys[KEYS] = { "k", "l", "m" };
static atomic_bool over;

static void *produce_keyed(void *ctx)
{
    (void)ctx;
    for (unsigned i = 0; i < REQUESTS; i++) {
        struct ask *a = ask_new();
        for (unsigned n = 0; n < PER_REQUEST; n++)
            a->items[n].bytes = arena_printf(&a->arena, "%u", i * PER_REQUEST + n);
        a->u.produce.order_key = str_of(keys[i % KEYS]);
        ask_produce(&rig, queue, a, PER_REQUEST);
        if (ask_wait(a) != ERR_OK)
            abort();
        ask_free(a);
    }
    return NULL;
}

/* Takes some, completes them, gives them back or forgets them; what was cleared meanwhile is none
 * of its business. */
static void *consume_keyed(void *ctx)
{
    (void)ctx;
    for (unsigned i = 0; !atomic_load(&over); i++) {
        struct ask *a = rig_lease_begin(&rig, queue, "", 4, 20);
        struct ksuid ids[4];
        if (ask_wait(a) == ERR_OK) {
            for (unsigned n = 0; n < a->u.lease.items_count; n++)
                ids[n] = a->u.lease.items[n].id;
            if (i % 3 != 0)
                (void)rig_change(&rig, queue, i % 3 == 1 ? CHANGE_RETRY : CHANGE_COMPLETE,
                                 a->u.lease.partition, ids, a->u.lease.items_count, NULL);
        }
        ask_free(a);
    }
    return NULL;
}

static void *clear_keyed(void *ctx)
{
    struct err_note note;
    (void)ctx;
    for (unsigned i = 0; !atomic_load(&over); i++) {
        err why = queue_clear(queue,
                              &(struct queue_clear_order){
                                  .ready = true, .scheduled = true, .destructive = i % 2 == 0 },
                              &note);
        (void)why; /* what it leaves dies soon */
    }
    return NULL;
}

static uint64_t keyed_left(void)
{
    struct queue_part_stats a = rig_stats(queue, 0), b = rig_stats(queue, 1);
    return a.ready + a.leased + a.scheduled + b.ready + b.leased + b.scheduled;
}

static void order_keys_that_end_in_every_way_at_once_go_on(void **state)
{
    static void *(*const all[])(void *ctx) = { produce_keyed, produce_keyed, consume_keyed,
                                               consume_keyed, clear_keyed };
    struct queue_info info = { .name = STR("keyed"),
                               .lease_timeout_ns = 5 * NS_PER_MS,
                               .partitions = 2,
                               .expire_timeout_ns = 20 * NS_PER_MS,
                               .max_attempts = 2,
                               .dead_queue = STR("dead") };
    pthread_t threads[COUNT_OF(all)];
    struct err_note note;
    (void)state;
    rig_init(&rig, 2);
    struct queue *dead = rig_queue(&rig, "dead", 1);
    queue = rig_create(&rig, info);
    for (unsigned i = 0; i < COUNT_OF(all); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, all[i], NULL), 0);
    for (unsigned i = 0; i < COUNT_OF(all); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        atomic_store(&over, all[i + 1 < COUNT_OF(all) ? i + 1 : i] != produce_keyed);
    }
    info.lease_timeout_ns = info.expire_timeout_ns = 24 * 3600 * NS_PER_S;
    assert_int_equal(queues_update(rig.queues, &info, &note), ERR_OK);
    const mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
    while (keyed_left() > 0) { /* all that is left dies soon */
        rig_advance(&rig, NS_PER_MS);
        assert_true(clock_mono(rig.clock).ns < deadline.ns);
    }
    for (unsigned i = 0; i < KEYS; i++) {
        ask_free(rig_produce_keyed(&rig, queue, "1", "", keys[i]));
        struct ask *a = rig_lease(&rig, queue, 10);
        assert_int_equal(a->u.lease.items_count, 1);
        assert_int_equal(rig_change(&rig, queue, CHANGE_COMPLETE, a->u.lease.partition,
                                    &a->u.lease.items[0].id, 1, NULL),
                         ERR_OK);
        ask_free(a);
    }
    assert_int_equal(keyed_left(), 0);
    queue_unref(&queue), queue_unref(&dead);
    rig_fini(&rig);
}

/* ---- killed ---- */

enum { KILLS = 12, KILL_ITEMS = 100000 };
enum told { NOTHING, PRODUCING, PRODUCED, COMPLETING, COMPLETED };
struct word {
    unsigned item;
    unsigned told;
};

static void tell(int to, unsigned item, enum told what)
{
    struct word w = { .item = item, .told = what };
    if (write(to, &w, sizeof w) != (ssize_t)sizeof w)
        _exit(3);
}

/* Produces one, takes one, completes it: until it is killed. */
static void child(struct rig *r, int to, unsigned first)
{
    struct err_note note;
    struct queue *q;
    rig_open(r);
    if (queues_find(r->queues, STR("killed"), &q, &note) != ERR_OK)
        q = rig_queue(r, "killed", 2);
    for (unsigned n = first;; n++) {
        struct ask *a = ask_new();
        a->items[0].bytes = arena_printf(&a->arena, "%u", n);
        tell(to, n, PRODUCING);
        ask_produce(r, q, a, 1);
        if (ask_wait(a) != ERR_OK)
            _exit(4);
        tell(to, n, PRODUCED);
        ask_free(a);
        a = rig_lease_soon(r, q, 1);
        if (a->u.lease.items_count == 1 && n % 3 != 0) {
            unsigned item = number_of(&a->u.lease.items[0]);
            tell(to, item, COMPLETING);
            if (rig_change(r, q, CHANGE_COMPLETE, a->u.lease.partition, &a->u.lease.items[0].id, 1,
                           NULL) != ERR_OK)
                _exit(5);
            tell(to, item, COMPLETED);
        }
        ask_free(a);
    }
}

typedef void life_fn(struct rig *r, int to, unsigned first);

static unsigned live_and_die(struct rig *r, life_fn *life, unsigned char *told, unsigned first,
                             unsigned words)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)close(ends[0]);
        life(r, ends[1], first);
    }
    (void)close(ends[1]);
    struct word w;
    unsigned last = first;
    for (unsigned i = 0; read(ends[0], &w, sizeof w) == (ssize_t)sizeof w; i++) {
        assert_true(w.item < KILL_ITEMS);
        told[w.item] = (unsigned char)w.told;
        last = w.item >= last ? w.item + 1 : last;
        if (i == words)
            assert_int_equal(kill(pid, SIGKILL), 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    (void)close(ends[0]);
    return last;
}

static void a_killed_process_has_lost_nothing(void **state)
{
    unsigned char *told = calloc(KILL_ITEMS, 1), *found = calloc(KILL_ITEMS, 1);
    unsigned next = 0;
    (void)state;
    rig_prepare(&rig, 2);
    for (unsigned i = 0; i < KILLS; i++)
        next = live_and_die(&rig, child, told, next, 40 + 37 * i);
    rig_open(&rig);
    struct err_note note;
    struct queue *q;
    assert_int_equal(queues_find(rig.queues, STR("killed"), &q, &note), ERR_OK);
    rig_advance(&rig, 61 * NS_PER_S); /* what was leased is ready again */
    for (struct ask *a;;) {
        a = rig_lease_soon(&rig, q, 500);
        unsigned count = a->u.lease.items_count;
        for (unsigned i = 0; i < count; i++)
            found[number_of(&a->u.lease.items[i])]++;
        ask_free(a);
        if (count == 0)
            break;
    }
    for (unsigned i = 0; i < next; i++) {
        assert_true(found[i] <= 1);
        if (told[i] == PRODUCED)
            assert_int_equal(found[i], 1);
        if (told[i] == COMPLETED)
            assert_int_equal(found[i], 0);
    }
    queue_unref(&q);
    rig_fini(&rig);
    free(told);
    free(found);
}

/* ---- killed, with large bodies that die ---- */

enum { LARGE_KILLS = 5, LARGE_ITEMS = 8, LARGE_BODY = 1500000 };

static const struct queue_info large_info = { .name = STR_INIT("large"),
                                              .partitions = 2,
                                              .lease_timeout_ns = 2 * NS_PER_S,
                                              .max_attempts = 1,
                                              .dead_queue = STR_INIT("dead") };

static struct ask *produce_large(struct rig *r, struct queue *q, unsigned first)
{
    struct ask *a = ask_new();
    for (unsigned n = 0; n < LARGE_ITEMS; n++) {
        size_t size = 64 + (first + n) * 2654435761u % (n % 2 == 0 ? LARGE_BODY : 2000);
        char *p = arena_calloc(&a->arena, 1, size);
        if (p == NULL)
            _exit(6);
        (void)snprintf(p, size, "%u ", first + n);
        a->items[n].bytes = (str){ .p = p, .n = size };
    }
    ask_produce(r, q, a, LARGE_ITEMS);
    return a;
}

/* Completes every fourth item of a lease; the others die, and so may these. */
static void complete_some(struct rig *r, struct queue *q, const struct ask *a, int to)
{
    for (unsigned i = 0; i < a->u.lease.items_count; i += 4) {
        unsigned item = number_of(&a->u.lease.items[i]);
        tell(to, item, COMPLETING);
        if (rig_change(r, q, CHANGE_COMPLETE, a->u.lease.partition, &a->u.lease.items[i].id, 1,
                       NULL) == ERR_OK)
            tell(to, item, COMPLETED);
    }
}

static void child_large(struct rig *r, int to, unsigned first)
{
    struct err_note note;
    struct queue *q;
    rig_open(r);
    if (queues_find(r->queues, large_info.name, &q, &note) != ERR_OK) {
        (void)rig_queue(r, "dead", 1);
        q = rig_create(r, large_info);
    }
    for (unsigned n = first;; n += LARGE_ITEMS) {
        for (unsigned i = 0; i < LARGE_ITEMS; i++)
            tell(to, n + i, PRODUCING);
        struct ask *a = produce_large(r, q, n);
        if (ask_wait(a) != ERR_OK)
            _exit(4);
        ask_free(a);
        for (unsigned i = 0; i < LARGE_ITEMS; i++)
            tell(to, n + i, PRODUCED);
        a = rig_lease_soon(r, q, 1 + n % 97);
        complete_some(r, q, a, to);
        ask_free(a);
    }
}

static void find_all(struct queue *q, uint32_t partitions, unsigned char *found)
{
    for (uint32_t p = 0; p < partitions;) {
        if (rig_stats(q, p).ready == 0) {
            p++;
            continue;
        }
        struct ask *a = rig_lease(&rig, q, 1000);
        for (unsigned i = 0; i < a->u.lease.items_count; i++)
            found[number_of(&a->u.lease.items[i])]++;
        ask_free(a);
    }
}

/* Whoever was leased is dead, and nothing is on its way any more. */
static void all_died(struct queue *q, struct queue *dead)
{
    const mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
    for (uint32_t p = 0; p < large_info.partitions;) {
        rig_advance(&rig, NS_PER_MS); /* little: what is dead expires in a day */
        const struct queue_part_stats s = rig_stats(q, p);
        p += s.leased + s.moving + rig_stats(dead, 0).placing == 0;
        assert_true(clock_mono(rig.clock).ns < deadline.ns);
    }
}

static void a_killed_process_has_lost_no_large_body_that_died(void **state)
{
    unsigned char *told = calloc(KILL_ITEMS, 1), *found = calloc(KILL_ITEMS, 1);
    unsigned next = 0;
    (void)state;
    rig_prepare(&rig, 2);
    for (unsigned i = 0; i < LARGE_KILLS; i++)
        next = live_and_die(&rig, child_large, told,
                            (next + LARGE_ITEMS) / LARGE_ITEMS * LARGE_ITEMS, 200 + 61 * i);
    rig_open(&rig);
    struct err_note note;
    struct queue *q, *dead;
    struct queue_info info = large_info;
    info.lease_timeout_ns = 3600 * NS_PER_S;
    assert_int_equal(queues_update(rig.queues, &info, &note), ERR_OK);
    assert_int_equal(queues_find(rig.queues, large_info.name, &q, &note), ERR_OK);
    assert_int_equal(queues_find(rig.queues, STR("dead"), &dead, &note), ERR_OK);
    all_died(q, dead);
    find_all(q, large_info.partitions, found);
    find_all(dead, 1, found);
    for (unsigned i = 0; i < next; i++) {
        assert_true(found[i] <= 1);
        if (told[i] == PRODUCED)
            assert_int_equal(found[i], 1);
        if (told[i] == COMPLETED)
            assert_int_equal(found[i], 0);
    }
    queue_unref(&q);
    queue_unref(&dead);
    rig_fini(&rig);
    free(told);
    free(found);
}

/* ---- killed, while items are requeued between two stores ---- */

enum { WANDERING = 300, WANDER_KILLS = 12, WANDER_STEP = 7 };

static void wander_queues(struct rig *r, struct queue **here, struct queue **there)
{
    struct err_note note;
    struct queue_part_change c = { .order = PART_MOVE, .store = STR("s1") };
    if (queues_find(r->queues, STR("here"), here, &note) != ERR_OK)
        *here = rig_queue(r, "here", 1);
    if (queues_find(r->queues, STR("there"), there, &note) != ERR_OK)
        *there = rig_queue(r, "there", 1);
    if (queue_part_change(*there, &c, &note) != ERR_OK)
        _exit(7);
    const mono deadline = mono_add_ms(clock_mono(r->clock), RIG_WAIT_MS);
    queue_await_read(*here, QUEUE_PARTS_ALL, deadline);
    queue_await_read(*there, QUEUE_PARTS_ALL, deadline);
}

/* What was between the two stores goes on by itself: each item is ready, in one of them. */
static bool wander_rests(struct rig *r, struct queue *here, struct queue *there)
{
    const mono deadline = mono_add_ms(clock_mono(r->clock), RIG_WAIT_MS);
    uint64_t ready = 0, leased = 1;
    while ((ready != WANDERING || leased != 0) && clock_mono(r->clock).ns < deadline.ns) {
        queues_upkeep_all(r->queues);
        ready = rig_stats(here, 0).ready + rig_stats(there, 0).ready;
        leased = rig_stats(here, 0).leased + rig_stats(there, 0).leased;
    }
    return ready == WANDERING && leased == 0;
}

static const struct queue_store_ops *_Atomic real;
static int told_to;

/* Each write is told before it begins: so each of a requeue is the last one that was not done. */
static void write_told(struct queue_store *s, struct queue_write *w)
{
    tell(told_to, WANDERING - 1, COMPLETING);
    real->write(s, w);
}

/* The first one produces them; then they go there and back, until it is killed. */
static void child_wander(struct rig *r, int to, unsigned first)
{
    struct err_note note;
    struct queue *here, *there;
    unsigned moved;
    rig_open(r);
    wander_queues(r, &here, &there);
    for (unsigned n = first; n < WANDERING; n++) {
        struct ask *a = ask_new();
        a->items[0].bytes = arena_printf(&a->arena, "%u", n);
        ask_produce(r, here, a, 1);
        if (ask_wait(a) != ERR_OK)
            _exit(4);
        ask_free(a);
    }
    if (!wander_rests(r, here, there))
        _exit(8);
    static struct queue_store_ops ops;
    real = r->stores[0]->ops;
    ops = *real;
    ops.write = write_told;
    told_to = to;
    rig_ops(r, 0, &ops);
    rig_ops(r, 1, &ops);
    for (unsigned n = 0;; n++) {
        err why = n % 3 == 2 ? queue_requeue(there, here, WANDER_STEP, &moved, &note)
                             : queue_requeue(here, there, WANDER_STEP, &moved, &note);
        if (why != ERR_OK && why != ERR_UNAVAILABLE)
            _exit(5);
    }
}

static void a_process_killed_in_a_requeue_leaves_no_item_twice(void **state)
{
    unsigned char *told = calloc(KILL_ITEMS, 1), *found = calloc(KILL_ITEMS, 1);
    struct queue *here, *there;
    unsigned next = 0;
    (void)state;
    rig_prepare(&rig, 2);
    for (unsigned i = 0; i < WANDER_KILLS; i++)
        next = live_and_die(&rig, child_wander, told, next, 20 + 13 * i);
    rig_open(&rig);
    wander_queues(&rig, &here, &there);
    assert_true(wander_rests(&rig, here, there));
    find_all(here, 1, found);
    find_all(there, 1, found);
    for (unsigned i = 0; i < WANDERING; i++)
        assert_int_equal(found[i], 1);
    queue_unref(&here);
    queue_unref(&there);
    rig_fini(&rig);
    free(told);
    free(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_process_has_lost_nothing), /* first: a fork wants one thread */
        cmocka_unit_test(a_killed_process_has_lost_no_large_body_that_died),
        cmocka_unit_test(a_process_killed_in_a_requeue_leaves_no_item_twice),
        cmocka_unit_test(many_threads_lose_nothing_and_get_nothing_twice),
        cmocka_unit_test(order_keys_that_end_in_every_way_at_once_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
