/* Goal: an idempotency key stands for one produce within its window, over partitions, stores and
 * restarts, and for no other request. Method: as test_queue_queue.c. */
#include "rig.h"

#include "engine/store.h"
#include "queue/machine.h"
#include "queue/store/local/rows.h"

#include <string.h>

static void refuses_another(struct queue *q, const char *body, const char *idempotency,
                            const char *order)
{
    struct ask *a = rig_produce_keyed_begin(&rig, q, body, idempotency, order);
    assert_int_equal(ask_wait(a), ERR_PRECONDITION);
    assert_non_null(strstr(a->u.produce.note.text,
                           "idempotency-key is invalid; it was used for another request"));
    ask_free(a);
}

static void key_stands_for_one_produce_also_after_a_restart(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "once", 3);
    struct ask *a = rig_produce_keyed(&rig, q, "x", "key-1", "");
    struct ask *b = rig_produce_keyed(&rig, q, "x", "key-1", "");
    assert_false(a->u.produce.repeated);
    assert_true(b->u.produce.repeated);
    assert_int_equal(ksuid_cmp(a->u.produce.first, b->u.produce.first), 0);
    assert_int_equal(a->u.produce.partition, b->u.produce.partition);
    queue_unref(&q);
    rig_close(&rig);
    rig_open(&rig);
    struct err_note note;
    assert_int_equal(queues_find(rig.queues, STR("once"), &q, &note), ERR_OK);
    struct ask *c = rig_produce_keyed(&rig, q, "x", "key-1", "");
    assert_true(c->u.produce.repeated);
    assert_int_equal(ksuid_cmp(a->u.produce.first, c->u.produce.first), 0);
    rig_advance(&rig, 301 * NS_PER_S); /* past its window */
    struct ask *d = rig_produce_keyed(&rig, q, "z", "key-1", "");
    assert_false(d->u.produce.repeated);
    assert_int_equal(rig_stats(q, 0).ready + rig_stats(q, 1).ready + rig_stats(q, 2).ready, 2);
    ask_free(a), ask_free(b), ask_free(c), ask_free(d);
    queue_unref(&q);
}

static void key_of_another_request_is_refused_also_after_a_restart(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "other", 4);
    for (unsigned round = 0; round < 2; round++) {
        struct ask *a = rig_produce_keyed(&rig, q, "x", "key-1", "");
        assert_int_equal(a->u.produce.repeated, round == 1);
        ask_free(a);
        refuses_another(q, "y", "key-1", "");
        refuses_another(q, "", "key-1", "");
        refuses_another(q, "x", "key-1", "customer");
        a = ask_new(); /* the same bytes, cut in another place */
        a->items[0] = (struct queue_item_new){ .kind = STR("x") };
        a->u.produce.idempotency_key = STR("key-1");
        ask_produce(&rig, q, a, 1);
        assert_int_equal(ask_wait(a), ERR_PRECONDITION);
        ask_free(a);
        queue_unref(&q);
        rig_close(&rig);
        rig_open(&rig);
        struct err_note note;
        assert_int_equal(queues_find(rig.queues, STR("other"), &q, &note), ERR_OK);
    }
    uint64_t ready = 0;
    for (unsigned i = 0; i < 4; i++)
        ready += rig_stats(q, i).ready;
    assert_int_equal(ready, 1);
    rig_advance(&rig, 301 * NS_PER_S); /* past its window */
    struct ask *a = rig_produce_keyed(&rig, q, "y", "key-1", "");
    assert_false(a->u.produce.repeated);
    ask_free(a);
    queue_unref(&q);
}

static void key_that_is_being_written_is_refused_to_another_request(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "at-once", 4);
    struct err_note note;
    assert_int_equal(queues_test_pause(rig.queues, STR("at-once"), true, &note), ERR_OK);
    struct ask *first = rig_produce_keyed_begin(&rig, q, "x", "key-1", "");
    struct ask *other = rig_produce_keyed_begin(&rig, q, "y", "key-1", "");
    struct ask *again = rig_produce_keyed_begin(&rig, q, "x", "key-1", "");
    assert_int_equal(queues_test_pause(rig.queues, STR("at-once"), false, &note), ERR_OK);
    assert_int_equal(ask_wait(first), ERR_OK);
    assert_int_equal(ask_wait(other), ERR_PRECONDITION);
    assert_int_equal(ask_wait(again), ERR_OK);
    assert_false(first->u.produce.repeated);
    assert_true(again->u.produce.repeated);
    assert_int_equal(ksuid_cmp(first->u.produce.first, again->u.produce.first), 0);
    ask_free(first), ask_free(other), ask_free(again);
    queue_unref(&q);
}

static bool keep_key(void *ctx, const struct queue_row *row)
{
    *(struct queue_key *)ctx = row->u.key;
    return true;
}

static void written(struct queue_write *w, err why)
{
    *(err *)w->ctx = why;
}

/* Rewrites the key of partition 0 as stores wrote it that kept no digests. Closes both: nobody else
 * has them. */
static void take_digest(struct engine **e, struct queue_store *s, uint32_t queue)
{
    struct queue_part part = { .queue = queue };
    struct queue_part_record record;
    struct queue_key k = { .count = 0 };
    static const unsigned char boot[QUEUE_BOOT_BYTES];
    const struct queue_own own = { .parts = &part, .count = 1, .boot = boot, .out = &record };
    assert_int_equal(s->ops->own(s, &own), ERR_OK);
    const struct queue_scan keys = { .part = part, .kind = SCAN_KEYS, .each = keep_key, .ctx = &k };
    assert_int_equal(s->ops->scan(s, &keys), ERR_OK);
    assert_true(queue_key_has_digest(&k));
    memset(k.digest, 0, sizeof k.digest);
    err why = ERR_AGAIN;
    struct queue_op op = { .kind = OP_KEY_PUT, .u.key = k };
    struct queue_write w = {
        .parts = { { .part = part, .epoch = record.epoch, .ops = &op, .ops_count = 1 } },
        .parts_count = 1,
        .done = written,
        .ctx = &why
    };
    s->ops->write(s, &w);
    s->ops->close(&s);
    engine_close(e); /* answers first */
    assert_int_equal(why, ERR_OK);
}

static void key_of_an_older_store_answers_any_request(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "older", 1);
    struct ask *a = rig_produce_keyed(&rig, q, "x", "key-1", "");
    uint32_t number = q->number;
    queue_unref(&q);
    rig_close(&rig);
    struct err_note note = { "" };
    store_time greatest;
    struct queue_store *s;
    struct engine *e = scratch_engine(rig.dir, rig.clock);
    struct queue_local_opts o = { .name = "s0", .engine = e, .clock = rig.clock };
    assert_int_equal(queue_local_open(&o, &s, &greatest, &note), ERR_OK);
    take_digest(&e, s, number);
    rig_open(&rig);
    assert_int_equal(queues_find(rig.queues, STR("older"), &q, &note), ERR_OK);
    struct ask *b = rig_produce_keyed(&rig, q, "y", "key-1", "");
    assert_true(b->u.produce.repeated);
    assert_int_equal(ksuid_cmp(a->u.produce.first, b->u.produce.first), 0);
    ask_free(a), ask_free(b);
    queue_unref(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(key_stands_for_one_produce_also_after_a_restart,
                                        rig_setup_two, rig_teardown),
        cmocka_unit_test_setup_teardown(key_of_another_request_is_refused_also_after_a_restart,
                                        rig_setup_two, rig_teardown),
        cmocka_unit_test_setup_teardown(key_that_is_being_written_is_refused_to_another_request,
                                        rig_setup_two, rig_teardown),
        cmocka_unit_test_setup_teardown(key_of_an_older_store_answers_any_request, rig_setup,
                                        rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
