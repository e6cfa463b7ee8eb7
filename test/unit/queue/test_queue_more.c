/* Goal: what the queue does beyond its peer: order keys, tokens, schedules, clearing, importing,
 * partitions added, drained and moved, windows smaller than the backlog. Method: as
 * test_queue_queue.c. */
#include "rig.h"

#include "queue/admin.h"
#include "queue/machine.h"
#include "queue/order/part.h"

#include <string.h>

static void order_key_has_one_in_flight_also_after_a_return_and_a_restart(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "ordered", 4);
    static const char *const bodies[] = { "1", "2", "3" };
    uint32_t partition = 0;
    for (unsigned i = 0; i < 3; i++) {
        struct ask *a = rig_produce_keyed(&rig, q, bodies[i], "", "customer");
        assert_true(i == 0 || a->u.produce.partition == partition);
        partition = a->u.produce.partition;
        ask_free(a);
    }
    struct ask *a = rig_lease(&rig, q, 10);
    assert_int_equal(a->u.lease.items_count, 1);
    assert_true(rig_body_is(&a->u.lease.items[0], "1"));
    assert_int_equal(rig_change(&rig, q, CHANGE_RETRY, partition, &a->u.lease.items[0].id, 1, NULL),
                     ERR_OK);
    queue_unref(&q);
    rig_close(&rig);
    rig_open(&rig);
    struct err_note note;
    assert_int_equal(queues_find(rig.queues, STR("ordered"), &q, &note), ERR_OK);
    for (unsigned i = 0; i < 3; i++) {
        struct ask *b = rig_lease(&rig, q, 10);
        assert_int_equal(b->u.lease.items_count, 1);
        assert_true(rig_body_is(&b->u.lease.items[0], bodies[i]));
        assert_int_equal(rig_change(&rig, q, CHANGE_COMPLETE, partition, &b->u.lease.items[0].id, 1,
                                    NULL),
                         ERR_OK);
        ask_free(b);
    }
    ask_free(a);
    queue_unref(&q);
}

static struct ask *change_one(struct queue *q, enum queue_change_kind kind,
                              const struct queue_item *it, uint64_t token, err want)
{
    struct ask *a = ask_new();
    ksuid_format(it->id, a->ids[0]);
    a->changes[0] = (struct queue_change_item){ .id = str_of(a->ids[0]),
                                                .token = token,
                                                .extend_ns = 100 * NS_PER_S };
    a->u.change.kind = kind;
    a->u.change.items_count = 1;
    assert_int_equal(rig_change_items(&rig, q, a), want);
    return a;
}

static void token_fences_and_completing_again_is_no_error(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "tokens", 1);
    (void)rig_produce(&rig, q, "t", 1);
    struct ask *l = rig_lease_token(&rig, q, 1);
    const struct queue_item *it = &l->u.lease.items[0];
    assert_true(it->token != 0);
    struct ask *wrong = change_one(q, CHANGE_COMPLETE, it, it->token + 1, ERR_CONFLICT);
    assert_non_null(strstr(wrong->u.change.note.text, "is leased by another"));
    ask_free(change_one(q, CHANGE_EXTEND, it, it->token, ERR_OK)), ask_free(wrong);
    rig_advance(&rig, 90 * NS_PER_S); /* past the lease, not past its extension */
    ask_free(change_one(q, CHANGE_COMPLETE, it, it->token, ERR_OK));
    ask_free(change_one(q, CHANGE_COMPLETE, it, it->token, ERR_OK));
    ask_free(change_one(q, CHANGE_COMPLETE, it, 0, ERR_NOT_FOUND));
    ask_free(l);
    queue_unref(&q);
}

static void produce_later(struct queue *q, const char *body, int64_t in_ns)
{
    struct ask *a = ask_new();
    a->items[0] =
        (struct queue_item_new){ .bytes = str_of(body),
                                 .enqueue_at = store_time_add(clock_store(rig.clock), in_ns) };
    ask_produce(&rig, q, a, 1);
    assert_int_equal(ask_wait(a), ERR_OK);
    ask_free(a);
}

static void schedule_is_kept_over_a_restart_and_wakes_a_waiting_lease(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "later", 1);
    produce_later(q, "second", 200 * NS_PER_S);
    produce_later(q, "first", 100 * NS_PER_S);
    assert_int_equal(rig_stats(q, 0).scheduled, 2);
    queue_unref(&q);
    rig_close(&rig);
    rig_open(&rig);
    struct err_note note;
    assert_int_equal(queues_find(rig.queues, STR("later"), &q, &note), ERR_OK);
    struct ask *a = rig_lease_begin(&rig, q, "c", 10, 15000);
    rig_advance(&rig, 50 * NS_PER_S);
    assert_false(ask_is_done(a));
    rig_advance(&rig, 60 * NS_PER_S);
    assert_int_equal(ask_wait(a), ERR_OK);
    assert_true(rig_body_is(&a->u.lease.items[0], "first"));
    assert_int_equal(rig_change(&rig, q, CHANGE_COMPLETE, 0, &a->u.lease.items[0].id, 1, NULL),
                     ERR_OK);
    rig_advance(&rig, 100 * NS_PER_S);
    struct ask *b = rig_lease(&rig, q, 1);
    assert_true(rig_body_is(&b->u.lease.items[0], "second"));
    ask_free(a), ask_free(b);
    queue_unref(&q);
}

enum { LIFE_S = 7200, DUE_S = 4 * LIFE_S };

static struct queue_item leased_one(struct queue *q)
{
    struct ask *l = rig_lease(&rig, q, 1);
    struct queue_item it = l->u.lease.items[0];
    it.bytes = it.reference = it.kind = it.encoding = it.source_id = STR_NONE;
    ask_free(l);
    return it;
}

/* Through its schedule, an end before it was due for what was produced with it, and another by a
 * retry. */
static void item_expires_its_time_after_it_is_due(void **state)
{
    (void)state;
    struct queue *q =
        rig_create(&rig, (struct queue_info){ .name = STR("ends"),
                                              .lease_timeout_ns = 3600 * NS_PER_S,
                                              .expire_timeout_ns = LIFE_S * NS_PER_S });
    store_time due = store_time_add(clock_store(rig.clock), DUE_S * NS_PER_S);
    (void)rig_produce(&rig, q, "now", 1);
    produce_later(q, "later", DUE_S * NS_PER_S);
    rig_advance(&rig, (LIFE_S + 1) * NS_PER_S);
    assert_int_equal(rig_stats(q, 0).ready, 0);
    assert_int_equal(rig_stats(q, 0).scheduled, 1);
    rig_advance(&rig, (DUE_S - LIFE_S) * NS_PER_S);
    struct queue_item it = leased_one(q);
    int64_t life_ns = it.expire_at.ns - due.ns;
    assert_true(life_ns > (LIFE_S - 10) * NS_PER_S && life_ns < (LIFE_S + 10) * NS_PER_S);
    struct ask *c = ask_new();
    ksuid_format(it.id, c->ids[0]);
    c->changes[0] =
        (struct queue_change_item){ .id = str_of(c->ids[0]),
                                    .retry_at = store_time_add(it.expire_at, LIFE_S * NS_PER_S) };
    c->u.change.kind = CHANGE_RETRY;
    c->u.change.items_count = 1;
    assert_int_equal(rig_change_items(&rig, q, c), ERR_OK);
    rig_advance(&rig, (2 * LIFE_S + 1) * NS_PER_S);
    struct queue_item again = leased_one(q);
    assert_int_equal(again.expire_at.ns, store_time_add(it.expire_at, 2 * LIFE_S * NS_PER_S).ns);
    rig_advance(&rig, (LIFE_S + 3601) * NS_PER_S); /* past its life and its lease */
    assert_int_equal(rig_stats(q, 0).ready + rig_stats(q, 0).leased + rig_stats(q, 0).scheduled, 0);
    ask_free(c);
    queue_unref(&q);
}

/* Given back until an instant within its life, it keeps the life it had: never a shorter one. */
static void retry_never_shortens_a_life(void **state)
{
    (void)state;
    struct queue *q =
        rig_create(&rig, (struct queue_info){ .name = STR("keeps"),
                                              .lease_timeout_ns = NS_PER_S,
                                              .expire_timeout_ns = LIFE_S * NS_PER_S });
    struct err_note note = { "" };
    (void)rig_produce(&rig, q, "kept", 1);
    const struct queue_info shorter = { .name = STR("keeps"), .expire_timeout_ns = 60 * NS_PER_S };
    assert_int_equal(queues_update(rig.queues, &shorter, &note), ERR_OK);
    struct ask *l = rig_lease(&rig, q, 1), *c = ask_new();
    store_time end = l->u.lease.items[0].expire_at;
    ksuid_format(l->u.lease.items[0].id, c->ids[0]);
    c->changes[0] = (struct queue_change_item){
        .id = str_of(c->ids[0]), .retry_at = store_time_add(clock_store(rig.clock), 30 * NS_PER_S)
    };
    c->u.change.kind = CHANGE_RETRY;
    c->u.change.items_count = 1;
    assert_int_equal(rig_change_items(&rig, q, c), ERR_OK);
    rig_advance(&rig, 31 * NS_PER_S);
    assert_int_equal(leased_one(q).expire_at.ns, end.ns);
    ask_free(l), ask_free(c);
    queue_unref(&q);
}

static void clear_removes_what_it_was_told_to(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "cleared", 2);
    struct err_note note = { "" };
    (void)rig_produce(&rig, q, "a", 10);
    (void)rig_produce(&rig, q, "b", 10);
    produce_later(q, "l", 100 * NS_PER_S);
    struct ask *a = rig_lease(&rig, q, 4);
    assert_int_equal(queue_clear(q,
                                 &(struct queue_clear_order){
                                     .ready = false, .scheduled = false, .destructive = false },
                                 &note),
                     ERR_BAD);
    assert_int_equal(queue_clear(q,
                                 &(struct queue_clear_order){
                                     .ready = true, .scheduled = false, .destructive = false },
                                 &note),
                     ERR_OK);
    assert_int_equal(rig_stats(q, 0).ready + rig_stats(q, 1).ready, 0);
    assert_int_equal(rig_stats(q, 0).leased + rig_stats(q, 1).leased, 4);
    assert_int_equal(queue_clear(q,
                                 &(struct queue_clear_order){
                                     .ready = true, .scheduled = true, .destructive = true },
                                 &note),
                     ERR_OK);
    assert_int_equal(rig_stats(q, 0).leased + rig_stats(q, 1).leased, 0);
    assert_int_equal(rig_stats(q, 0).scheduled + rig_stats(q, 1).scheduled, 0);
    assert_int_equal(rig_change(&rig, q, CHANGE_COMPLETE, a->u.lease.partition,
                                &a->u.lease.items[0].id, 1, NULL),
                     ERR_NOT_FOUND);
    ask_free(a);
    queue_unref(&q);
}

static void window_is_smaller_than_the_backlog(void **state)
{
    enum { REQUESTS = 12, EACH = 1000 };
    (void)state;
    struct queue *q = rig_queue(&rig, "deep", 1);
    struct err_note note = { "" };
    struct ksuid last = KSUID_NIL;
    for (unsigned i = 0; i < REQUESTS; i++) {
        char body[2] = { (char)('a' + i), '\0' };
        (void)rig_produce(&rig, q, body, EACH);
    }
    assert_int_equal(rig_stats(q, 0).ready, REQUESTS * EACH);
    struct arena arena;
    struct queue_items_page page = { .limit = 12000 };
    arena_init(&arena, 64 << 20);
    assert_int_equal(queue_items_list(q, &page, &arena, &note), ERR_OK);
    assert_int_equal(page.count, REQUESTS * EACH);
    char text[2][KSUID_TEXT_BYTES + 1];
    ksuid_format(page.found[11000].id, text[0]);
    ksuid_format(page.found[11001].id, text[1]);
    str ids[3] = { str_of(text[0]), str_of(text[1]), str_of(text[0]) };
    assert_int_equal(rig_change(&rig, q, CHANGE_COMPLETE, 0, &page.found[11002].id, 1, &note),
                     ERR_CONFLICT);
    assert_int_equal(
        queue_items_delete(q, &(struct queue_deletion){ .partition = 0, .ids = ids, .count = 3 },
                           &note),
        ERR_OK);
    unsigned taken = 0;
    while (taken < REQUESTS * EACH - 2) {
        struct ask *a = rig_lease(&rig, q, EACH);
        assert_true(a->u.lease.items_count > 0);
        struct ksuid got[EACH];
        for (unsigned i = 0; i < a->u.lease.items_count; i++) {
            got[i] = a->u.lease.items[i].id;
            assert_true(ksuid_cmp(got[i], last) > 0);
            last = got[i];
        }
        assert_int_equal(rig_change(&rig, q, CHANGE_COMPLETE, 0, got, a->u.lease.items_count, NULL),
                         ERR_OK);
        taken += a->u.lease.items_count;
        ask_free(a);
    }
    assert_int_equal(rig_stats(q, 0).ready, 0);
    assert_int_equal(rig_stats(q, 0).leased, 0);
    arena_fini(&arena);
    queue_unref(&q);
}

/* Who asked for some of a full window left: they go back to its beginning, whatever came meanwhile
 * at its end. */
static void items_go_back_to_the_beginning_of_a_full_window(void **state)
{
    enum { LEFT = 10, ROUNDS = 5 };
    (void)state;
    struct queue *q = rig_create(&rig, (struct queue_info){ .name = STR("full"),
                                                            .lease_timeout_ns = 3600 * NS_PER_S });
    unsigned all = PART_WINDOW_ITEMS;
    for (unsigned n = 0; n < all; n += 512)
        (void)rig_produce(&rig, q, "f", 512);
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct ask *a = rig_lease_begin(&rig, q, "", LEFT, RIG_WAIT_MS);
        queue_lease_cancel(&a->u.lease);
        struct ask *b = rig_produce_begin(&rig, q, "g", LEFT);
        if (ask_wait(a) == ERR_OK)
            all -= a->u.lease.items_count; /* it was quicker */
        assert_int_equal(ask_wait(b), ERR_OK);
        all += LEFT;
        ask_free(a), ask_free(b);
    }
    while (all > 0) {
        struct ask *a = rig_lease(&rig, q, 1000);
        assert_true(a->u.lease.items_count <= all);
        all -= a->u.lease.items_count;
        ask_free(a);
    }
    queue_unref(&q);
}

static void imported_items_keep_attempts_and_leases(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "imported", 2);
    struct err_note note = { "" };
    struct arena arena;
    struct queue_item in[3] = { { .bytes = STR_INIT("a"), .attempts = 3 },
                                { .bytes = STR_INIT("b") },
                                { .bytes = STR_INIT("c"),
                                  .attempts = 1,
                                  .lease_deadline =
                                      store_time_add(clock_store(rig.clock), 50 * NS_PER_S) } };
    struct queue_import import = { .partition = 1, .items = in, .count = 3 };
    arena_init(&arena, 1 << 20);
    assert_int_equal(queue_items_import(q, &import, &arena, &note), ERR_OK);
    assert_int_equal(rig_stats(q, 1).ready, 2);
    assert_int_equal(rig_stats(q, 1).leased, 1);
    struct ask *a = rig_lease(&rig, q, 10);
    assert_int_equal(a->u.lease.items_count, 2);
    assert_int_equal(a->u.lease.items[0].attempts, 4);
    assert_int_equal(ksuid_cmp(a->u.lease.items[0].id, import.stored[0].id), 0);
    rig_advance(&rig, 51 * NS_PER_S);
    struct ask *b = rig_lease(&rig, q, 10);
    assert_int_equal(b->u.lease.items_count, 1);
    assert_true(rig_body_is(&b->u.lease.items[0], "c"));
    arena_fini(&arena);
    ask_free(a), ask_free(b);
    queue_unref(&q);
}

static void partition_moves_to_another_store_with_all_it_holds(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "moved", 1);
    struct err_note note = { "" };
    (void)rig_produce(&rig, q, "m", 300);
    produce_later(q, "l", 100 * NS_PER_S);
    struct ask *a = rig_lease(&rig, q, 7);
    struct ask *k = rig_produce_keyed(&rig, q, "k", "key", "");
    assert_int_equal(rig_change(&rig, q, CHANGE_RETRY, 0, &a->u.lease.items[0].id, 1, NULL),
                     ERR_OK);
    struct queue_part_change c = { .order = PART_MOVE, .partition = 0, .store = STR("s1") };
    if (queue_part_change(q, &c, &note) != ERR_OK)
        fail_msg("move: %s", note.text);
    assert_int_equal(rig_change(&rig, q, CHANGE_COMPLETE, 0, &a->u.lease.items[1].id, 1, NULL),
                     ERR_OK);
    assert_string_equal(rig_stats(q, 0).store, "s1");
    assert_int_equal(rig_stats(q, 0).ready, 295);
    assert_int_equal(rig_stats(q, 0).leased, 5);
    assert_int_equal(rig_stats(q, 0).scheduled, 1);
    struct ask *again = rig_produce_keyed(&rig, q, "k", "key", "");
    assert_true(again->u.produce.repeated);
    queue_unref(&q);
    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(queues_find(rig.queues, STR("moved"), &q, &note), ERR_OK);
    rig_advance(&rig, 101 * NS_PER_S);
    assert_string_equal(rig_stats(q, 0).store, "s1");
    assert_int_equal(rig_stats(q, 0).ready, 301);
    ask_free(a), ask_free(k), ask_free(again);
    queue_unref(&q);
}

/* The first look into the source is over only when the partition has moved away. */
static struct {
    struct queue_store_ops ops;
    const struct queue_store_ops *_Atomic real;
    struct queue *moved;
} slow_look;

static err look_beside_move(struct queue_store *store, const struct queue_scan *scan)
{
    struct queue *q = slow_look.moved;
    struct queue_part_change c = { .order = PART_MOVE, .partition = 0, .store = STR("s1") };
    slow_look.moved = NULL;
    if (q != NULL)
        assert_int_equal(queue_part_change(q, &c, NULL), ERR_OK);
    return slow_look.real->scan(store, scan);
}

static void clearing_follows_a_partition_that_moves(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "cleared", 1);
    struct err_note note = { "" };
    struct queue_part_change home = { .order = PART_MOVE, .partition = 0, .store = STR("s0") };
    assert_int_equal(queue_part_change(q, &home, &note), ERR_OK);
    (void)rig_produce(&rig, q, "m", 30);
    slow_look.real = rig.stores[0]->ops;
    slow_look.ops = *slow_look.real;
    slow_look.ops.scan = look_beside_move;
    slow_look.moved = q;
    rig_ops(&rig, 0, &slow_look.ops);
    err why = queue_clear(
        q, &(struct queue_clear_order){ .ready = true, .scheduled = false, .destructive = false },
        &note);
    rig_ops(&rig, 0, slow_look.real);
    struct queue_part_stats left = rig_stats(q, 0);
    queue_unref(&q);
    assert_int_equal(why, ERR_OK);
    assert_null(slow_look.moved);
    assert_string_equal(left.store, "s1");
    assert_int_equal(left.ready, 0);
}

/* Counts the times that the store is opened again, in vain. */
static struct {
    struct queue_store_ops ops;
    const struct queue_store_ops *_Atomic real;
    atomic_uint times;
} closed;

static err recover_in_vain(struct queue_store *s, struct err_note *note, struct queue_later *later)
{
    (void)s, (void)later;
    err_note_set(note, "away");
    (void)atomic_fetch_add(&closed.times, 1);
    return ERR_UNAVAILABLE;
}

static void store_close(struct rig *r)
{
    struct store_state *st = &r->queues->stores[0];
    closed.real = r->stores[0]->ops;
    closed.ops = *closed.real;
    closed.ops.recover = recover_in_vain;
    rig_ops(r, 0, &closed.ops);
    mono now = clock_mono(r->clock);
    (void)pthread_mutex_lock(&r->queues->health_lock);
    st->health.status = PLACE_ERROR;
    st->health.failures = HEALTH_FAILURES_MAX;
    st->health.probe_at = mono_add_ms(now, 10 * RIG_WAIT_MS); /* nobody looks by himself */
    (void)pthread_mutex_unlock(&r->queues->health_lock);
}

static void a_lease_that_waits_has_stores_looked_at(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "waited", 1);
    store_close(&rig);
    struct ask *a = rig_lease_begin(&rig, q, "c", 1, 10);
    mono deadline = mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS);
    while (atomic_load(&closed.times) == 0)
        assert_true(clock_mono(rig.clock).ns < deadline.ns);
    (void)ask_wait(a);
    rig_ops(&rig, 0, closed.real);
    ask_free(a);
    queue_unref(&q);
}

static void partitions_are_drained_added_and_rebalanced(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "parts", 2);
    struct err_note note = { "" };
    assert_int_equal(
        queue_part_change(q, &(struct queue_part_change){ .order = PART_DRAIN, .partition = 0 },
                          &note),
        ERR_OK);
    assert_int_equal(rig_produce(&rig, q, "a", 3), 1);
    assert_int_equal(rig_produce(&rig, q, "a", 3), 1);
    assert_int_equal(queue_part_change(q, &(struct queue_part_change){ .order = PART_ADD }, &note),
                     ERR_OK);
    assert_int_equal(rig_produce(&rig, q, "a", 3), 2);
    assert_int_equal(
        queue_part_change(q, &(struct queue_part_change){ .order = PART_PAUSE, .partition = 1 },
                          &note),
        ERR_OK);
    struct ask *a = rig_lease(&rig, q, 10);
    assert_int_equal(a->u.lease.partition, 2);
    assert_int_equal(
        queue_part_change(q, &(struct queue_part_change){ .order = PART_RESUME, .partition = 1 },
                          &note),
        ERR_OK);
    struct ask *b = rig_lease(&rig, q, 10);
    assert_int_equal(b->u.lease.partition, 1);
    struct queue_part_change c = { .order = PART_MOVE, .partition = 2, .store = STR("s1") };
    assert_int_equal(queue_part_change(q, &c, &note), ERR_OK);
    assert_int_equal(queue_rebalance(q, &note), ERR_OK);
    unsigned on_first = 0;
    for (uint32_t p = 0; p < 3; p++)
        on_first += strcmp(rig_stats(q, p).store, "s0") == 0;
    assert_int_equal(on_first, 2);
    ask_free(a), ask_free(b);
    queue_unref(&q);
}

static void import_is_refused_at_once_where_nothing_is_taken(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "closed", 2);
    struct queue_item in = { .bytes = STR_INIT("a") };
    struct queue_import import = { .partition = 1, .items = &in, .count = 1 };
    struct queue_part_change c = { .order = PART_DRAIN, .partition = 1 };
    struct err_note note;
    struct arena arena;
    arena_init(&arena, 1 << 20);
    assert_int_equal(queue_part_change(q, &c, &note), ERR_OK);
    assert_int_equal(queue_items_import(q, &import, &arena, &note), ERR_UNAVAILABLE);
    assert_string_equal(note.text,
                        "partition not available; partition '1' is draining, retry again");
    c.order = PART_PAUSE;
    assert_int_equal(queue_part_change(q, &c, &note), ERR_OK);
    assert_int_equal(queue_items_import(q, &import, &arena, &note), ERR_UNAVAILABLE);
    assert_string_equal(note.text, "partition not available; partition '1' is paused, retry again");
    import.partition = 0;
    assert_int_equal(queue_items_import(q, &import, &arena, &note), ERR_OK);
    c.order = PART_RESUME;
    assert_int_equal(queue_part_change(q, &c, &note), ERR_OK);
    import.partition = 1;
    assert_int_equal(queue_items_import(q, &import, &arena, &note), ERR_OK);
    arena_fini(&arena);
    queue_unref(&q);
}

static void queue_made_again_is_empty(void **state)
{
    (void)state;
    struct err_note note = { "" };
    struct queue *q = rig_queue(&rig, "again", 2);
    (void)rig_produce(&rig, q, "a", 10);
    struct ask *a = rig_lease_begin(&rig, q, "", 1, 10000);
    assert_int_equal(ask_wait(a), ERR_OK);
    struct ask *w = rig_lease_begin(&rig, q, "x", 1, 10000);
    assert_int_equal(ask_wait(w), ERR_OK);
    assert_int_equal(queues_delete(rig.queues, STR("again"), true, &note), ERR_OK);
    assert_int_equal(queues_find(rig.queues, STR("again"), &q, &note), ERR_NOT_FOUND);
    queue_unref(&q);
    q = rig_queue(&rig, "again", 2);
    assert_int_equal(rig_stats(q, 0).ready + rig_stats(q, 1).ready, 0);
    struct ask *b = rig_lease_soon(&rig, q, 1);
    assert_int_equal(b->u.lease.items_count, 0);
    ask_free(a), ask_free(b), ask_free(w);
    queue_unref(&q);
}

static void dead_queue_is_kept_until_nobody_names_it_or_by_order(void **state)
{
    (void)state;
    struct err_note note;
    struct queue *dead = rig_queue(&rig, "dead", 1);
    struct queue *a =
        rig_create(&rig, (struct queue_info){ .name = STR("a"), .dead_queue = STR("dead") });
    struct queue *b =
        rig_create(&rig, (struct queue_info){ .name = STR("b"), .dead_queue = STR("dead") });
    struct queue_info keep = { .name = STR("b"),
                               .lease_timeout_ns = NS_PER_S,
                               .expire_timeout_ns = NS_PER_S };
    assert_int_equal(queues_delete(rig.queues, STR("dead"), false, &note), ERR_CONFLICT);
    assert_string_equal(
        note.text, "queue is in use; it is the dead queue of others (2), give them another first");
    (void)rig_produce(&rig, dead, "x", 1);
    assert_int_equal(queues_delete(rig.queues, STR("a"), false, &note), ERR_OK);
    assert_int_equal(queues_delete(rig.queues, STR("dead"), false, &note), ERR_CONFLICT);
    assert_int_equal(queues_update(rig.queues, &keep, &note), ERR_OK);
    assert_int_equal(queues_delete(rig.queues, STR("dead"), false, &note), ERR_OK);
    queue_unref(&dead), queue_unref(&a), queue_unref(&b);
    dead = rig_queue(&rig, "dead", 1);
    keep.dead_queue = STR("dead");
    assert_int_equal(queues_update(rig.queues, &keep, &note), ERR_OK);
    assert_int_equal(queues_delete(rig.queues, STR("dead"), true, &note), ERR_OK);
    queue_unref(&dead);
}

static void refuses_partitions(err why, const struct err_note *note, const char *text)
{
    assert_int_equal(why, ERR_BAD);
    assert_string_equal(note->text, text);
}

static void partitions_of_all_queues_have_a_limit_and_more_are_opened(void **state)
{
    (void)state;
    static const char over[] =
        "partitions is invalid; all queues together have 5 and cannot have more than 5"
        " (queue.partitions_max)";
    struct err_note note;
    struct queue_part_change add = { .order = PART_ADD };
    struct queue_info more = { .name = STR("b"),
                               .lease_timeout_ns = NS_PER_S,
                               .expire_timeout_ns = NS_PER_S,
                               .partitions = 3 };
    rig_close(&rig);
    rig.opts.partitions_max = 5;
    rig_open(&rig);
    struct queue *a = rig_queue(&rig, "a", 3);
    assert_int_equal(queues_create(rig.queues, &more, &note), ERR_BAD);
    struct queue *b = rig_queue(&rig, "b", 1);
    assert_int_equal(queues_update(rig.queues, &more, &note), ERR_BAD);
    assert_int_equal(queue_part_change(b, &add, &note), ERR_OK);
    refuses_partitions(queue_part_change(b, &add, &note), &note, over);
    refuses_partitions(queues_update(rig.queues, &more, &note), &note, over);
    more.partitions = 2;
    assert_int_equal(queues_update(rig.queues, &more, &note), ERR_OK);
    queue_unref(&a), queue_unref(&b);
    rig_close(&rig);
    rig.opts.partitions_max = 1;
    rig_open(&rig);
    assert_int_equal(queues_find(rig.queues, STR("b"), &b, &note), ERR_OK);
    (void)rig_produce(&rig, b, "x", 1);
    assert_int_equal(queue_part_change(b, &add, &note), ERR_BAD);
    queue_unref(&b);
    assert_int_equal(queues_delete(rig.queues, STR("a"), true, &note), ERR_OK);
    assert_int_equal(queues_delete(rig.queues, STR("b"), true, &note), ERR_OK);
    b = rig_queue(&rig, "b", 1);
    queue_unref(&b);
}

static void lost_lease_is_none_that_another_server_gave(void **state)
{
    (void)state;
    static struct part p;
    struct qitem it = { .id = { .seconds = 1 } };
    for (int i = 200; i > 0; i--) {
        it.id.low = (uint64_t)i;
        it.due_at.ns = 1000 + i;
        part_lose(&p, &it);
    }
    part_lost_sort(&p);
    assert_true(part_was_lost(&p, &it));
    it.due_at.ns++;
    assert_false(part_was_lost(&p, &it)); /* of the same item, and later */
    it.id.low++;
    assert_true(part_was_lost(&p, &it));
    part_lost_end(&p);
    assert_false(part_was_lost(&p, &it));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            order_key_has_one_in_flight_also_after_a_return_and_a_restart, rig_setup_two,
            rig_teardown),
        cmocka_unit_test_setup_teardown(token_fences_and_completing_again_is_no_error, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(schedule_is_kept_over_a_restart_and_wakes_a_waiting_lease,
                                        rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(item_expires_its_time_after_it_is_due, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(retry_never_shortens_a_life, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(clear_removes_what_it_was_told_to, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(window_is_smaller_than_the_backlog, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(items_go_back_to_the_beginning_of_a_full_window, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(imported_items_keep_attempts_and_leases, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(partition_moves_to_another_store_with_all_it_holds,
                                        rig_setup_two, rig_teardown),
        cmocka_unit_test_setup_teardown(clearing_follows_a_partition_that_moves, rig_setup_two,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(a_lease_that_waits_has_stores_looked_at, rig_setup_two,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(partitions_are_drained_added_and_rebalanced, rig_setup_two,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(import_is_refused_at_once_where_nothing_is_taken, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(queue_made_again_is_empty, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(dead_queue_is_kept_until_nobody_names_it_or_by_order,
                                        rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(partitions_of_all_queues_have_a_limit_and_more_are_opened,
                                        rig_setup, rig_teardown),
        cmocka_unit_test(lost_lease_is_none_that_another_server_gave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
