/* Goal: the queues' rows of the metrics say what is there, within the room they are given. Method:
 * as test_queue_queue.c; the text is searched for lines. */
#include "base/metrics.h"
#include "queue/admin.h"
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Owner: caller. */
static char *figures(size_t bytes_max)
{
    struct metrics *m = metrics_new("x_");
    struct buf b;
    buf_init(&b, bytes_max);
    queues_figures(rig.queues, m, &b);
    buf_put_c(&b, '\0');
    assert_int_equal(buf_status(&b), ERR_OK);
    char *text = strdup(buf_str(&b).p);
    assert_non_null(text);
    buf_fini(&b);
    metrics_free(&m);
    return text;
}

static unsigned lines_with(const char *text, const char *part)
{
    unsigned n = 0;
    while ((text = strstr(text, part)) != NULL) {
        n++;
        text += strlen(part);
    }
    return n;
}

static void partitions_stores_and_what_waits_are_told(void **state)
{
    (void)state;
    struct queue *q = rig_queue(&rig, "a\"b", 2), *empty = rig_queue(&rig, "empty", 1);
    ask_free(rig_produce_keyed(&rig, q, "1", "", "key"));
    ask_free(rig_produce_keyed(&rig, q, "2", "", "other"));
    ask_free(rig_produce_keyed(&rig, q, "3", "", "key"));
    struct ask *leased = rig_lease(&rig, q, 1);
    struct ask *waits = rig_lease_begin(&rig, empty, "c", 1, RIG_WAIT_MS);
    char *text = figures(1 << 20), line[128];
    uint64_t ready = rig_stats(q, 1).ready;
    (void)snprintf(line, sizeof line,
                   "\nx_queue_items{queue=\"a\\\"b\",partition=\"1\",state=\"ready\"} %llu\n",
                   (unsigned long long)ready);
    assert_int_equal(lines_with(text, line), 1);
    assert_int_equal(lines_with(text, "state=\"leased\"} 1\n"), 1);
    assert_int_equal(lines_with(text, "\nx_queue_items{queue=\"a\\\"b\","), 2 * 4);
    assert_int_equal(lines_with(text, "\nx_queue_waiting{queue=\"empty\",kind=\"lease\"} 1\n"), 1);
    assert_int_equal(
        lines_with(text, "\nx_queue_store_state{store=\"s0\",state=\"available\"} 1\n"), 1);
    assert_int_equal(lines_with(text, "\nx_queue_store_failures{store=\"s0\"} 0\n"), 1);
    assert_int_equal(lines_with(text, "\nx_queue_left_out 0\n"), 1);
    assert_int_equal(lines_with(text, "# HELP "), lines_with(text, "# TYPE "));
    assert_int_equal(lines_with(text, "# TYPE x_queue_items "), 1);
    queue_lease_cancel(&waits->u.lease);
    (void)ask_wait(waits);
    ask_free(waits), ask_free(leased);
    queue_unref(&q), queue_unref(&empty);
    free(text);
}

/* However little room there is, what is told is told whole. */
static void what_has_no_room_is_left_out_and_told(void **state)
{
    enum { QUEUES = 40, STORES_BYTES = 128 << 10 };
    (void)state;
    for (unsigned i = 0; i < QUEUES; i++) {
        char name[QUEUE_NAME_BYTES_MAX + 1];
        (void)snprintf(name, sizeof name, "%03u%0500d", i, 0);
        struct queue *q = rig_queue(&rig, name, 1);
        queue_unref(&q);
    }
    unsigned before = 0;
    for (size_t room = 0; before < QUEUES; room += 32 << 10) {
        char *text = figures(STORES_BYTES + room);
        unsigned shown = lines_with(text, "kind=\"produce\"");
        unsigned parts = lines_with(text, "state=\"ready\"");
        assert_true(parts >= before && parts <= shown);
        bool whole = parts == QUEUES;
        assert_int_equal(lines_with(text, "\nx_queue_left_out 0\n"), whole);
        assert_int_equal(lines_with(text, "\nx_queue_left_out 1\n"), !whole);
        assert_int_equal(lines_with(text, "queue_store_write_us{store=\"s0\"}"), 1);
        before = parts;
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(partitions_stores_and_what_waits_are_told, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(what_has_no_room_is_left_out_and_told, rig_setup,
                                        rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
