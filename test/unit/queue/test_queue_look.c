/* Goal: what a queue shows of itself: items by age over all partitions, whole pages and those that
 * end at their bytes. Method: as test_queue_queue.c; the clock stands still or is moved between two
 * produces, so ages are known. */
#include "rig.h"

#include "base/rng.h"
#include "queue/admin.h"
#include "queue/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of two partitions, within one second; often the clock stands still. */
static void ids_of_all_partitions_are_in_order_of_time(void **state)
{
    (void)state;
    static struct queue q;
    static struct part p[2] = { { .queue = &q }, { .queue = &q } };
    struct rng rng;
    store_time now = { .ns = INT64_C(1800000000) * NS_PER_S };
    struct ksuid last = KSUID_NIL;
    rng_init(&rng, 7);
    for (int i = 0; i < 2000; i++, now.ns += rng_next(&rng) % 4 == 0 ? 0 : 499999) {
        struct ksuid first = part_ids(&p[rng_next(&rng) % 2], 1000, now, rng_next(&rng));
        assert_true(ksuid_cmp(first, last) > 0);
        last = ksuid_add(first, 999);
        assert_in_range(id_time(first).ns, now.ns, now.ns + 100);
        assert_int_equal(id_time(last).ns, id_time(first).ns);
    }
    struct ksuid again = part_ids(&p[0], 1, (store_time){ .ns = now.ns - NS_PER_S }, 0);
    struct ksuid next = part_ids(&p[0], 1, (store_time){ .ns = now.ns - NS_PER_S }, UINT64_MAX);
    assert_true(ksuid_cmp(again, last) > 0 &&
                ksuid_cmp(next, again) > 0); /* of a clock that went back */
}

/* ---- looking at all partitions ---- */

enum { SHOWN_MAX = 64, LOOK_BYTES = 1 << 20 };

/* What is looked at, as one text. memory: of the answer. */
struct look {
    struct arena arena;
    struct queue_item *items;
    unsigned count;
    char text[SHOWN_MAX * 8];
};

static err look(struct queue *q, uint32_t partition, str pivot, unsigned limit, struct look *out)
{
    struct err_note note;
    out->count = 0;
    out->text[0] = '\0';
    struct queue_items_page page = { .partition = partition, .pivot = pivot, .limit = limit };
    err why = queue_items_list(q, &page, &out->arena, &note);
    out->items = page.found;
    out->count = page.count;
    for (unsigned i = 0; i < out->count && i < SHOWN_MAX; i++) {
        size_t n = strlen(out->text);
        int more = snprintf(out->text + n, sizeof out->text - n, "%s%.*s", i == 0 ? "" : " ",
                            STR_ARG(str_take(out->items[i].bytes, 2)));
        assert_in_range(more, 0, sizeof out->text - n - 1);
    }
    return why;
}

static void shows(struct queue *q, unsigned limit, const char *text)
{
    struct look l;
    arena_init(&l.arena, LOOK_BYTES);
    assert_int_equal(look(q, QUEUE_PARTS_ALL, STR(""), limit, &l), ERR_OK);
    assert_string_equal(l.text, text);
    arena_fini(&l.arena);
}

static void pages_show(struct queue *q, unsigned limit, const char *text)
{
    char pivot[KSUID_TEXT_BYTES + 1] = "", all[SHOWN_MAX * 8] = "";
    struct look l = { .count = limit };
    while (l.count == limit) {
        arena_init(&l.arena, LOOK_BYTES);
        assert_int_equal(look(q, QUEUE_PARTS_ALL, str_of(pivot), limit, &l), ERR_OK);
        size_t n = strlen(all);
        int more =
            snprintf(all + n, sizeof all - n, "%s%s", n == 0 || l.count == 0 ? "" : " ", l.text);
        assert_in_range(more, 0, sizeof all - n - 1);
        if (l.count > 0)
            ksuid_format(ksuid_add(l.items[l.count - 1].id, 1), pivot);
        arena_fini(&l.arena);
    }
    assert_string_equal(all, text);
}

/* One by one, so that each goes to the next partition. The rig puts a 0 behind each body. */
static void fill(struct queue *q, unsigned from, unsigned end)
{
    for (unsigned i = from; i < end; i++) {
        char body[8];
        (void)snprintf(body, sizeof body, "%02u", i);
        (void)rig_produce(&rig, q, body, 1);
    }
}

static void reopen(struct queue **q, const char *name)
{
    struct err_note note;
    queue_unref(q);
    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(queues_find(rig.queues, str_of(name), q, &note), ERR_OK);
    queue_await_read(*q, QUEUE_PARTS_ALL, mono_add_ms(clock_mono(rig.clock), RIG_WAIT_MS));
}

/* Over partitions, over stores, over a restart; what was given back is at the end, what is leased
 * where it was. */
static void oldest_of_all_partitions_come_first(void **state)
{
    static const char all[] = "00 01 02 03 04 05 06 07 08 09 10 11 12 13 14 15 16 17 18 19";
    static const char after[] = "00 01 02 04 05 06 07 08 09 10 11 12 13 14 15 16 17 18 19 03 20 21";
    (void)state;
    struct queue *q = rig_queue(&rig, "old", 5);
    struct err_note note = { "" };
    assert_int_equal(queue_rebalance(q, &note), ERR_OK);
    fill(q, 0, 20);
    shows(q, 1, "00");
    shows(q, 7, "00 01 02 03 04 05 06");
    shows(q, 1000, all);
    pages_show(q, 3, all);
    struct ask *held = rig_lease(&rig, q, 1);
    assert_true(rig_body_is(&held->u.lease.items[0], "000"));
    for (bool is_third = false; !is_third;) { /* which partition it is in is for placing to say */
        struct ask *l = rig_lease(&rig, q, 1);
        is_third = rig_body_is(&l->u.lease.items[0], "030");
        if (is_third)
            assert_int_equal(rig_change(&rig, q, CHANGE_RETRY, l->u.lease.partition,
                                        &l->u.lease.items[0].id, 1, NULL),
                             ERR_OK);
        ask_free(l);
    }
    fill(q, 20, 22);
    shows(q, 1000, after);
    reopen(&q, "old");
    shows(q, 1000, after);
    pages_show(q, 4, after);
    ask_free(held);
    queue_unref(&q);
}

/* ---- what an answer may have ---- */

static unsigned counted(struct queue *q, uint32_t partition, size_t memory)
{
    struct look l;
    arena_init(&l.arena, memory);
    assert_int_equal(look(q, partition, STR(""), 0, &l), ERR_OK);
    arena_fini(&l.arena);
    return l.count;
}

static void answers_end_at_their_bytes_whatever_the_limit(void **state)
{
    enum {
        LARGE = 1 << 20,
        REPLY = 4 << 20,
        MEMORY = REPLY + LARGE + (1 << 20),
        PARTITIONS = 3,
        EACH = 8
    };
    (void)state;
    rig_close(&rig);
    rig.opts.reply_bytes_max = REPLY;
    rig_open(&rig);
    struct queue *q = rig_queue(&rig, "large", PARTITIONS);
    char *body = calloc(1, LARGE + 1);
    assert_non_null(body);
    memset(body, 'x', LARGE);
    for (unsigned i = 0; i < PARTITIONS * EACH; i++)
        (void)rig_produce(&rig, q, body, 1);
    assert_int_equal(counted(q, QUEUE_PARTS_ALL, MEMORY), 3);
    assert_int_equal(counted(q, 0, MEMORY), 3);
    reopen(&q, "large"); /* nothing of it is in memory */
    assert_int_equal(counted(q, QUEUE_PARTS_ALL, MEMORY), 3);
    assert_int_equal(counted(q, 0, MEMORY), 3);
    queue_unref(&q);
    rig_close(&rig);
    rig.opts.reply_bytes_max = LARGE / 2;
    rig_open(&rig);
    struct err_note note;
    assert_int_equal(queues_find(rig.queues, STR("large"), &q, &note), ERR_OK);
    assert_int_equal(counted(q, QUEUE_PARTS_ALL, MEMORY), 1);
    free(body);
    queue_unref(&q);
}

/* Each item counts, so small ones do not fill the memory of an answer beside their bodies. */
static void answers_of_small_items_end_too(void **state)
{
    enum { REPLY = 64 << 10, MEMORY = 2 * REPLY };
    (void)state;
    rig_close(&rig);
    rig.opts.reply_bytes_max = REPLY;
    rig_open(&rig);
    struct queue *q = rig_queue(&rig, "small", 2);
    (void)rig_produce(&rig, q, "s", 1000);
    (void)rig_produce(&rig, q, "s", 1000);
    unsigned all = counted(q, QUEUE_PARTS_ALL, MEMORY), one = counted(q, 1, MEMORY);
    assert_true(all > 100 && all < 130);
    assert_int_equal(one, all);
    queue_unref(&q);
}

static void many_partitions_need_no_memory_of_an_answer(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "wide", 3000);
    fill(q, 0, 3);
    shows(q, 2, "00 01");
    struct look l;
    arena_init(&l.arena, 16 << 10);
    assert_int_equal(look(q, QUEUE_PARTS_ALL, STR(""), 0, &l), ERR_OK);
    assert_int_equal(l.count, 3);
    arena_fini(&l.arena);
    queue_unref(&q);
}

/* ---- lists of queues ---- */

enum { NAMES = 300 };

/* Queues "000..." and so on, each with texts as long as may be, of that byte; every second in space
 * "odd". */
static void queues_with_long_texts(char fill_with)
{
    static char name[QUEUE_NAME_BYTES_MAX], reference[QUEUE_REFERENCE_BYTES_MAX];
    memset(reference, fill_with, sizeof reference);
    for (unsigned i = 0; i < NAMES; i++) {
        memset(name, fill_with, sizeof name);
        char number[8];
        assert_int_equal(snprintf(number, sizeof number, "%03u", i), 3);
        memcpy(name, number, 3);
        struct queue *q =
            rig_create(&rig,
                       (struct queue_info){ .name = { .p = name, .n = sizeof name },
                                            .reference = { .p = reference, .n = sizeof reference },
                                            .space = i % 2 == 1 ? STR("odd") : STR_NONE,
                                            .partitions = 1 });
        queue_unref(&q);
    }
}

/* Goes on by the cursor until there is none; each page is at least one queue, and needs no more
 * memory than given. */
static unsigned pages_of_queues(str space, unsigned limit, size_t memory, unsigned step)
{
    char pivot[QUEUE_NAME_BYTES_MAX];
    struct queues_page page = { .space = space, .limit = limit };
    unsigned pages = 0, seen = step == 2;
    do {
        struct arena arena;
        arena_init(&arena, memory);
        assert_int_equal(queues_list(rig.queues, &page, &arena), ERR_OK);
        assert_in_range(page.count, 1, limit);
        for (unsigned i = 0; i < page.count; i++, seen += step) {
            char number[8];
            assert_int_equal(snprintf(number, sizeof number, "%03u", seen), 3);
            assert_memory_equal(page.found[i].name.p, number, 3);
        }
        assert_true(page.next.n <= sizeof pivot);
        if (page.next.n > 0)
            memcpy(pivot, page.next.p, page.next.n);
        page.pivot = (str){ .p = pivot, .n = page.next.n };
        arena_fini(&arena);
        pages++;
    } while (page.pivot.n > 0);
    assert_in_range(seen, NAMES, NAMES + 1);
    return pages;
}

static void lists_of_queues_end_at_their_bytes_and_go_on(void **state)
{
    enum { REPLY = 64 << 10 };
    (void)state;
    rig_close(&rig);
    rig.opts.reply_bytes_max = REPLY;
    rig_open(&rig);
    queues_with_long_texts('\1'); /* six bytes each in JSON: about four queues an answer */
    unsigned pages = pages_of_queues(STR_NONE, 65536, 2 * REPLY, 1);
    assert_in_range(pages, NAMES / 4, NAMES / 4);
    assert_in_range(pages_of_queues(STR_NONE, 2, 2 * REPLY, 1), NAMES / 2, NAMES / 2);
    assert_in_range(pages_of_queues(STR("odd"), 65536, 2 * REPLY, 2), NAMES / 8, NAMES / 8 + 1);
}

static void a_list_of_queues_that_has_no_room_gives_one(void **state)
{
    (void)state;
    rig_close(&rig);
    rig.opts.reply_bytes_max = 100;
    rig_open(&rig);
    queues_with_long_texts('x');
    assert_int_equal(pages_of_queues(STR_NONE, 65536, 16 << 10, 1), NAMES);
}

static void a_list_of_queues_says_when_it_was_cut_by_number(void **state)
{
    (void)state;
    queues_with_long_texts('x');
    assert_int_equal(pages_of_queues(STR_NONE, NAMES, 8 << 20, 1), 1);
    assert_int_equal(pages_of_queues(STR_NONE, NAMES - 1, 8 << 20, 1), 2);
}

/* ---- what changes meanwhile ---- */

static struct {
    struct queue_store_ops ops;
    const struct queue_store_ops *_Atomic real;
    struct queue *queue; /* NULL: it was done */
    /* deleted before bodies are read; NIL: the partition moves before rows are */
    struct ksuid gone;
} beside;

static err bodies_beside_delete(struct queue_store *store, struct queue_part p,
                                struct queue_bodies *b)
{
    struct queue *q = beside.queue;
    char text[KSUID_TEXT_BYTES + 1];
    struct err_note note;
    str id = { .p = text, .n = KSUID_TEXT_BYTES };
    ksuid_format(beside.gone, text);
    beside.queue = NULL;
    if (q != NULL)
        assert_int_equal(queue_items_delete(
                             q, &(struct queue_deletion){ .partition = 0, .ids = &id, .count = 1 },
                             &note),
                         ERR_OK);
    return beside.real->bodies(store, p, b);
}

static err rows_beside_move(struct queue_store *store, const struct queue_scan *scan)
{
    struct queue *q = beside.queue;
    struct queue_part_change c = { .order = PART_MOVE, .partition = 0, .store = STR("s1") };
    beside.queue = NULL;
    if (q != NULL)
        assert_int_equal(queue_part_change(q, &c, NULL), ERR_OK);
    return beside.real->scan(store, scan);
}

static struct queue *beside_begin(const char *name)
{
    struct queue *q = rig_queue(&rig, name, 1);
    struct err_note note;
    struct queue_part_change home = { .order = PART_MOVE, .partition = 0, .store = STR("s0") };
    assert_int_equal(queue_part_change(q, &home, &note), ERR_OK);
    beside.real = rig.stores[0]->ops;
    beside.ops = *beside.real;
    beside.queue = q;
    return q;
}

static void what_is_consumed_meanwhile_is_left_out(void **state)
{
    (void)state;
    struct queue *q = beside_begin("consumed");
    fill(q, 0, 4);
    struct ask *l = rig_lease(&rig, q, 2);
    beside.gone = l->u.lease.items[1].id;
    beside.ops.bodies = bodies_beside_delete;
    rig_ops(&rig, 0, &beside.ops);
    shows(q, 1000, "00 02 03");
    assert_null(beside.queue);
    rig_ops(&rig, 0, beside.real);
    ask_free(l);
    queue_unref(&q);
}

static void looking_follows_a_partition_that_moves(void **state)
{
    (void)state;
    struct queue *q = beside_begin("moving");
    fill(q, 0, 4);
    beside.ops.scan = rows_beside_move;
    rig_ops(&rig, 0, &beside.ops);
    shows(q, 1000, "00 01 02 03");
    assert_null(beside.queue);
    rig_ops(&rig, 0, beside.real);
    queue_unref(&q);
}

/* ---- how bodies are asked for ---- */

static struct {
    const struct queue_store_ops *real;
    struct queue_store_ops ops;
    struct ksuid damaged; /* the batch of an item that cannot be read; its number is at */
    unsigned at, calls;
} asked;

/* A store that is asked for the damaged item reads up to it. */
static err bodies_counted(struct queue_store *store, struct queue_part p, struct queue_bodies *b)
{
    unsigned count = b->count;
    err why = ERR_OK;
    asked.calls++;
    for (unsigned i = 0; i < count && b->count == count; i++)
        if (b->at[i].index == asked.at && ksuid_cmp(b->at[i].batch, asked.damaged) == 0)
            b->count = i;
    b->read = 0;
    if (b->count > 0)
        why = asked.real->bodies(store, p, b);
    bool is_met = b->count < count && b->read == b->count;
    b->count = count;
    return why == ERR_OK && is_met ? ERR_CORRUPT : why;
}

/* A store that answers later takes as long for one body as for many. Behind damage little is asked
 * for, since that may be damaged, too, and be read for nothing. */
static void bodies_are_asked_for_by_many(void **state)
{
    enum { ITEMS = 900, DAMAGED = 300, AGAIN = 6 };
    (void)state;
    struct queue *q = rig_queue(&rig, "many", 1);
    struct look l;
    (void)rig_produce(&rig, q, "x", ITEMS);
    asked.real = rig.stores[0]->ops;
    asked.ops = *asked.real;
    asked.ops.bodies = bodies_counted;
    asked.at = ITEMS;
    rig_ops(&rig, 0, &asked.ops);
    arena_init(&l.arena, LOOK_BYTES);
    assert_int_equal(look(q, 0, STR(""), ITEMS, &l), ERR_OK);
    assert_int_equal(l.count, ITEMS);
    assert_int_equal(asked.calls, 1);
    asked.damaged = l.items[0].id;
    asked.at = DAMAGED;
    asked.calls = 0;
    assert_int_equal(look(q, 0, STR(""), ITEMS, &l), ERR_OK);
    assert_int_equal(l.count, ITEMS - 1);
    assert_in_range(asked.calls, 3, 1 + AGAIN); /* 16, 32, 64, ... */
    rig_ops(&rig, 0, asked.real);
    arena_fini(&l.arena);
    queue_unref(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_of_all_partitions_are_in_order_of_time),
        cmocka_unit_test_setup_teardown(oldest_of_all_partitions_come_first, rig_setup_two,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(answers_end_at_their_bytes_whatever_the_limit, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(answers_of_small_items_end_too, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(many_partitions_need_no_memory_of_an_answer, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(lists_of_queues_end_at_their_bytes_and_go_on, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(a_list_of_queues_that_has_no_room_gives_one, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(a_list_of_queues_says_when_it_was_cut_by_number, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(what_is_consumed_meanwhile_is_left_out, rig_setup_two,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(looking_follows_a_partition_that_moves, rig_setup_two,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(bodies_are_asked_for_by_many, rig_setup, rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
