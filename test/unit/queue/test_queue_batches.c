/* Goal: imports and deletions of several writes are refused before the first of them, or say how
 * far they came. Method: as test_queue_more.c, with a store that holds a write while the server
 * ends. */
#include "queue/machine.h"
#include "queue/store/store.h"
#include "rig.h"

#include <stdatomic.h>

enum { MANY = 2500 };

/* A store that holds the write with this number until it is let go. */
static struct {
    struct queue_store_ops ops;
    const struct queue_store_ops *_Atomic real;
    atomic_int left; /* writes before that */
    struct queue_write *_Atomic held;
} holding;

static void write_holding(struct queue_store *s, struct queue_write *w)
{
    if (atomic_fetch_sub(&holding.left, 1) == 1)
        atomic_store(&holding.held, w);
    else
        holding.real->write(s, w);
}

static void holding_write(int number)
{
    holding.real = rig.stores[0]->ops;
    holding.ops = *holding.real;
    holding.ops.write = write_holding;
    atomic_store(&holding.left, number);
    atomic_store(&holding.held, NULL);
    rig_ops(&rig, 0, &holding.ops);
}

/* A call that is told later. */
struct told {
    struct queue_later later;
    struct awaited answer;
};

static void told_over(struct task *t)
{
    struct told *c = CONTAINER_OF(t, struct told, later.task);
    awaited_tell(&c->answer, c->later.why);
}

static void told_init(struct told *c)
{
    *c = (struct told){ .later = { .home = loop_home(rig.loop), .task.run = told_over } };
    awaited_init(&c->answer);
}

/* What it came to when the server ends while its held write is made. */
static err told_drained(struct told *c)
{
    WAIT_UNTIL(atomic_load(&holding.held) != NULL);
    queues_drain(rig.queues);
    holding.real->write(rig.stores[0], atomic_load(&holding.held));
    err why = awaited_wait(&c->answer);
    awaited_fini(&c->answer);
    return why;
}

static struct queue_item *many_items(struct arena *a)
{
    struct queue_item *items = arena_calloc(a, MANY, sizeof *items);
    assert_non_null(items);
    for (unsigned i = 0; i < MANY; i++)
        items[i].bytes = STR("x");
    return items;
}

static void many_ids(struct arena *a, const struct queue_import *import, str *ids)
{
    for (unsigned i = 0; i < MANY; i++) {
        char text[KSUID_TEXT_BYTES + 1];
        ksuid_format(import->stored[i].id, text);
        ids[i] = arena_copy(a, str_of(text));
        assert_non_null(ids[i].p);
    }
}

static void an_import_that_ends_in_the_middle_says_how_much_is_stored(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "many", 1);
    struct err_note note = { "" };
    struct told told;
    struct arena arena;
    arena_init(&arena, 8 << 20);
    told_init(&told);
    struct queue_import import = { .items = many_items(&arena),
                                   .count = MANY,
                                   .later = &told.later };
    holding_write(2);
    assert_int_equal(queue_items_import(q, &import, &arena, &note), ERR_AGAIN);
    assert_int_equal(told_drained(&told), ERR_SHUTDOWN);
    assert_string_equal(note.text,
                        "the first 2000 of 2500 items were stored; then: queue is shutting down");
    assert_int_equal(rig_stats(q, 0).ready, 2000);
    arena_fini(&arena);
    queue_unref(&q);
}

static void a_deletion_that_ends_in_the_middle_says_how_much_is_deleted(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "many", 1);
    struct err_note note = { "" };
    struct told told;
    struct arena arena;
    str ids[MANY];
    arena_init(&arena, 8 << 20);
    told_init(&told);
    struct queue_import import = { .items = many_items(&arena), .count = MANY };
    assert_int_equal(queue_items_import(q, &import, &arena, &note), ERR_OK);
    for (unsigned i = 1; i < MANY; i++)
        assert_true(ksuid_cmp(import.stored[i - 1].id, import.stored[i].id) < 0);
    many_ids(&arena, &import, ids);
    struct queue_deletion d = { .ids = ids, .count = MANY / 2 };
    assert_int_equal(queue_items_delete(q, &d, &note), ERR_OK);
    assert_int_equal(rig_stats(q, 0).ready, MANY / 2);
    d.count = MANY; /* what was deleted is no error */
    d.later = &told.later;
    holding_write(1);
    assert_int_equal(queue_items_delete(q, &d, &note), ERR_AGAIN);
    assert_int_equal(told_drained(&told), ERR_SHUTDOWN);
    assert_string_equal(note.text,
                        "the first 2000 of 2500 items were deleted; then: queue is shutting down");
    assert_int_equal(rig_stats(q, 0).ready, MANY - 2000);
    arena_fini(&arena);
    queue_unref(&q);
}

static void what_can_be_refused_is_refused_before_the_first_write(void **state)
{
    (void)state;
    static char large[QUEUE_FIELD_BYTES_MAX + 1];
    struct queue *q = rig_queue(&rig, "whole", 1);
    struct err_note note = { "" };
    struct arena arena, small;
    arena_init(&arena, 8 << 20);
    struct queue_item *items = many_items(&arena);
    struct queue_import import = { .items = items, .count = MANY };
    items[MANY - 1].kind = (str){ .p = large, .n = sizeof large };
    assert_int_equal(queue_items_import(q, &import, &arena, &note), ERR_BAD);
    assert_string_equal(note.text,
                        "items is invalid; a field or all of them together are too large");
    items[MANY - 1].kind = STR_NONE;

    struct budget budget = { .bytes_max = 1 << 20 }; /* no room for what the caller will answer */
    arena_init(&small, 1 << 10);
    arena_share(&small, &budget);
    import.answer_bytes = 2 << 20;
    assert_int_equal(queue_items_import(q, &import, &small, &note), ERR_LIMIT);
    assert_int_equal(rig_stats(q, 0).ready, 0);

    import.answer_bytes = 0;
    assert_int_equal(queue_items_import(q, &import, &arena, &note), ERR_OK);
    str ids[MANY];
    many_ids(&arena, &import, ids);
    ids[MANY - 1] = STR("nothing");
    assert_int_equal(queue_items_delete(q, &(struct queue_deletion){ .ids = ids, .count = MANY },
                                        &note),
                     ERR_BAD);
    assert_int_equal(rig_stats(q, 0).ready, MANY);
    arena_fini(&small);
    arena_fini(&arena);
    queue_unref(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_import_that_ends_in_the_middle_says_how_much_is_stored,
                                        rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(a_deletion_that_ends_in_the_middle_says_how_much_is_deleted,
                                        rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(what_can_be_refused_is_refused_before_the_first_write,
                                        rig_setup, rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
