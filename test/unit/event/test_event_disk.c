/* Goal: what an append said is taken in is there after a restart, whole, and the store is sound.
 * Events of several threads at once, of which two send the same, are each stored once.
 * Method: the log on the embedded engine in a folder; events of a few bytes, and of more than rows
 * hold; opened again, read, culled, reclaimed, and checked. */
#include "../cmocka_all.h"
#include "append_wait.h"
#include "engine/store.h"
#include "event/log.h"
#include "lib/clock.h"
#include "lib/folder.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY_NS (24 * 3600 * NS_PER_S)
enum { EVENTS = 300, LARGE = 100000, THREADS = 8, EACH = 300, ID_BYTES = 32 };

struct stage {
    char dir[FOLDER_PATH_BYTES];
    struct fake_clock clock;
    struct engine *engine;
    struct event_log *log;
    char *text; /* LARGE bytes */
    unsigned next;
    unsigned char seen[THREADS * EACH];
};

static void stage_open(struct stage *s)
{
    const struct engine_opts opts = { .dir = s->dir };
    store_time greatest;
    struct err_note note;
    assert_int_equal(engine_open(&opts, &s->engine, &greatest, &note), ERR_OK);
    assert_int_equal(engine_start(s->engine, &s->clock.clock, &note), ERR_OK);
    const struct event_log_opts log = { .engine = s->engine,
                                        .clock = &s->clock.clock,
                                        .random = 1,
                                        .limits = { .retention_ns = DAY_NS,
                                                    .bytes_max = (uint64_t)1 << 40,
                                                    .dedupe_ns = NS_PER_S,
                                                    .ids_max = 1000000 } };
    assert_int_equal(event_log_new(&log, &s->log, &note), ERR_OK);
}

static void stage_close(struct stage *s)
{
    event_log_free(&s->log);
    engine_close(&s->engine);
}

/* The text of the i-th event: its number in bytes, as many as the number says. */
static str text_of(const struct stage *s, unsigned i)
{
    size_t n = i % 10 == 9 ? LARGE - i : i;
    memset(s->text, (int)(i % 251), n);
    return (str){ .p = s->text, .n = n };
}

static void append(struct stage *s, unsigned i)
{
    const struct event e = { .stream = STR("s"), .bytes = text_of(s, i) };
    struct event_taken taken;
    assert_int_equal(append_wait(s->log, &e, 1, &taken), ERR_OK);
}

static void take(void *ctx, const struct event_seen *e, str bytes)
{
    struct stage *s = ctx;
    assert_int_equal(e->count, s->next + 1);
    assert_true(str_eq(bytes, text_of(s, s->next)));
    s->next++;
}

static void read_all(struct stage *s, unsigned first)
{
    struct event_read r = {
        .looks_max = 7, .bytes_max = 1 << 18, .take = take, .ctx = s, .more = true
    };
    s->next = first;
    while (r.more)
        assert_int_equal(event_log_read(s->log, &r), ERR_OK);
    assert_int_equal(s->next, EVENTS);
}

static void no_damage(void *ctx, const char *what)
{
    (void)ctx;
    fail_msg("%s", what);
}

static void check(struct stage *s)
{
    const struct engine_check_opts opts = { .found = no_damage };
    assert_int_equal(event_log_check(s->engine, no_damage, NULL), ERR_OK);
    assert_int_equal(engine_check(s->engine, &opts), ERR_OK);
}

static void cull(struct stage *s)
{
    bool more = true;
    store_time next;
    while (more)
        assert_int_equal(event_log_upkeep(s->log, &more, &next), ERR_OK);
    assert_int_equal(engine_flush(s->engine), ERR_OK);
    for (more = true; more;)
        assert_int_equal(engine_reclaim(s->engine, &more), ERR_OK);
}

static void what_was_taken_in_is_there_after_a_restart(void **state)
{
    (void)state;
    struct stage s = { .text = malloc(LARGE) };
    assert_non_null(s.text);
    folder_make(s.dir);
    fake_clock_init(&s.clock, 1800000000 * NS_PER_S);
    stage_open(&s);
    const uint64_t id = event_log_id(s.log);
    for (unsigned i = 0; i < EVENTS; i++) {
        if (i == EVENTS / 2) {
            stage_close(&s);
            fake_clock_advance(&s.clock, DAY_NS / 2);
            stage_open(&s);
        }
        append(&s, i);
    }
    read_all(&s, 0);
    stage_close(&s);
    stage_open(&s);
    assert_int_equal(event_log_id(s.log), id);
    read_all(&s, 0);
    check(&s);
    fake_clock_advance(&s.clock, DAY_NS / 2);
    cull(&s);
    read_all(&s, EVENTS / 2);
    check(&s);
    stage_close(&s);
    folder_remove(s.dir);
    free(s.text);
}

/* ---- several at once ---- */

struct sender {
    struct stage *stage;
    unsigned number;
    pthread_t thread;
};

static void *send_all(void *ctx)
{
    const struct sender *me = ctx;
    for (unsigned i = 0; i < EACH; i++) {
        char text[ID_BYTES];
        (void)snprintf(text, sizeof text, "%u", me->number * EACH + i); /* it fits */
        /* Each id comes from two of them. */
        char id[ID_BYTES];
        (void)snprintf(id, sizeof id, "%u %u", me->number / 2, i); /* as above */
        const struct event e = { .stream = STR("s"), .id = str_of(id), .bytes = str_of(text) };
        struct event_taken taken;
        if (append_wait(me->stage->log, &e, 1, &taken) != ERR_OK)
            return ctx;
    }
    return NULL;
}

static void take_number(void *ctx, const struct event_seen *e, str bytes)
{
    struct stage *s = ctx;
    uint64_t number;
    assert_int_equal(e->count, ++s->next);
    assert_true(str_to_u64(bytes, &number));
    s->seen[number]++;
}

static void senders_at_once_are_each_stored_once(void **state)
{
    (void)state;
    struct stage s = { .next = 0 };
    struct sender senders[THREADS];
    folder_make(s.dir);
    fake_clock_init(&s.clock, 1800000000 * NS_PER_S);
    stage_open(&s);
    for (unsigned i = 0; i < THREADS; i++) {
        senders[i] = (struct sender){ .stage = &s, .number = i };
        assert_int_equal(pthread_create(&senders[i].thread, NULL, send_all, &senders[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        void *failed;
        assert_int_equal(pthread_join(senders[i].thread, &failed), 0);
        assert_null(failed);
    }
    struct event_read r = {
        .looks_max = 10, .bytes_max = 1000, .take = take_number, .ctx = &s, .more = true
    };
    while (r.more)
        assert_int_equal(event_log_read(s.log, &r), ERR_OK);
    assert_int_equal(s.next, THREADS / 2 * EACH);
    for (unsigned i = 0; i < THREADS; i += 2)
        for (unsigned n = 0; n < EACH; n++)
            assert_int_equal(s.seen[i * EACH + n] + s.seen[(i + 1) * EACH + n], 1);
    check(&s);
    stage_close(&s);
    folder_remove(s.dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(senders_at_once_are_each_stored_once),
        cmocka_unit_test(what_was_taken_in_is_there_after_a_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
