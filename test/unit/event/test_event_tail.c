/* Goal: readers who are up to date are given each event once and in order from memory, and who is
 * behind is told so.
 * Method: a tail on an engine in memory, first step by step, then with writers and readers on
 * threads; each reader must see every number, in order. */
#include "../bucket/engine_mem.h"
#include "../cmocka_all.h"
#include "append_wait.h"
#include "engine/store.h"
#include "event/tail.h"
#include "lib/clock.h"
#include "lib/wait.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct stage {
    struct fake_clock clock;
    struct engine *engine;
    struct event_log *log;
    struct event_tail *tail;
    atomic_uint news;
    atomic_bool alone; /* nobody follows */
};

static void frame(void *ctx, struct buf *out, const struct event_seen *e, str bytes)
{
    (void)ctx;
    buf_printf(out, "%.*s:%.*s\n", STR_ARG(e->stream), STR_ARG(bytes));
}

static bool wanted(void *ctx)
{
    return !atomic_load(&((struct stage *)ctx)->alone);
}

static void news(void *ctx)
{
    struct stage *s = ctx;
    (void)atomic_fetch_add(&s->news, 1); /* the old value is of no use */
}

static void stage_begin(struct stage *s, size_t bytes_max)
{
    struct err_note note;
    *s = (struct stage){ .tail = NULL };
    fake_clock_init(&s->clock, 1800000000 * NS_PER_S);
    s->engine = engine_mem_new(&s->clock.clock);
    const struct event_log_opts opts = { .engine = s->engine,
                                         .clock = &s->clock.clock,
                                         .limits = { .retention_ns = NS_PER_S,
                                                     .bytes_max = (uint64_t)1 << 40 } };
    assert_int_equal(event_log_new(&opts, &s->log, &note), ERR_OK);
    const struct event_tail_opts tail = { .log = s->log,
                                          .pool = home_here(),
                                          .bytes_max = bytes_max,
                                          .choice = { .frame = frame },
                                          .wanted = wanted,
                                          .news = news,
                                          .ctx = s };
    assert_int_equal(event_tail_new(&tail, &s->tail), ERR_OK);
}

static void stage_end(struct stage *s)
{
    event_log_hush(s->log);
    event_tail_free(&s->tail);
    event_log_free(&s->log);
    engine_close(&s->engine);
}

static uint64_t append(struct stage *s, const char *stream, const char *text)
{
    const struct event e = { .stream = str_of(stream), .bytes = str_of(text) };
    struct event_taken taken;
    assert_int_equal(append_wait(s->log, &e, 1, &taken), ERR_OK);
    return taken.seq;
}

static void what_is_new_is_in_memory(void **state)
{
    (void)state;
    struct stage s;
    struct event_chunk *c = NULL;
    stage_begin(&s, 1 << 20);
    assert_int_equal(event_tail_find(s.tail, event_tail_last(s.tail), &c), TAIL_NOTHING);
    const uint64_t first = append(&s, "a", "one"), second = append(&s, "b", "two");
    assert_int_equal(atomic_load(&s.news), 2);
    assert_int_equal(event_tail_last(s.tail), second);
    assert_int_equal(event_tail_find(s.tail, 0, &c), TAIL_CHUNK);
    assert_int_equal(c->count, 1);
    assert_int_equal(c->last, first);
    assert_true(str_eq(event_frame_text(c, &c->frames[0]), STR("a:one\n")));
    assert_true(str_eq(event_frame_stream(c, &c->frames[0]), STR("a")));
    event_chunk_unref(&c);
    assert_int_equal(event_tail_find(s.tail, first, &c), TAIL_CHUNK);
    assert_true(str_eq(event_frame_text(c, &c->frames[0]), STR("b:two\n")));
    event_chunk_unref(&c);
    assert_int_equal(event_tail_find(s.tail, second, &c), TAIL_NOTHING);
    stage_end(&s);
}

static void who_is_behind_is_told_and_reads_the_log(void **state)
{
    (void)state;
    struct stage s;
    struct event_chunk *c = NULL;
    const struct event_choice choice = { .frame = frame };
    stage_begin(&s, 1); /* the newest chunk alone */
    const uint64_t first = append(&s, "a", "one"), second = append(&s, "a", "two"),
                   third = append(&s, "a", "three");
    assert_int_equal(event_tail_find(s.tail, first, &c), TAIL_BEHIND);
    assert_int_equal(event_tail_find(s.tail, second, &c), TAIL_CHUNK);
    event_chunk_unref(&c);
    assert_int_equal(event_chunk_read(s.log, first, &choice, &c), ERR_OK);
    assert_int_equal(c->count, 2);
    assert_int_equal(c->last, third);
    assert_false(c->missed > 0 || c->more);
    event_chunk_unref(&c);
    struct event_tail_figures f;
    event_tail_figures(s.tail, &f);
    assert_int_equal(f.chunks, 1);
    assert_int_equal(f.read, 3);
    stage_end(&s);
}

static void nothing_is_read_while_nobody_follows(void **state)
{
    (void)state;
    struct stage s;
    struct event_chunk *c = NULL;
    stage_begin(&s, 1 << 20);
    const uint64_t first = append(&s, "a", "one");
    atomic_store(&s.alone, true);
    const uint64_t second = append(&s, "a", "two");
    assert_int_equal(atomic_load(&s.news), 1);
    assert_int_equal(event_tail_last(s.tail), second);
    assert_int_equal(event_tail_find(s.tail, first, &c), TAIL_BEHIND);
    atomic_store(&s.alone, false);
    const uint64_t third = append(&s, "a", "three");
    assert_int_equal(event_tail_find(s.tail, first, &c), TAIL_BEHIND);
    assert_int_equal(event_tail_find(s.tail, second, &c), TAIL_CHUNK);
    assert_int_equal(c->last, third);
    event_chunk_unref(&c);
    stage_end(&s);
}

/* ---- threads ---- */

enum { WRITERS = 2, READERS = 3, EVENTS_EACH = 2000 };

struct reader {
    struct stage *stage;
    pthread_t thread;
    uint64_t after;
    unsigned seen;
};

static void *write_all(void *ctx)
{
    for (unsigned i = 0; i < EVENTS_EACH; i++)
        (void)append(ctx, "s", "text");
    return NULL;
}

static void reader_take(struct reader *r, struct event_chunk *c)
{
    for (unsigned i = 0; i < c->count; i++) {
        if (c->frames[i].seq <= r->after)
            continue;
        assert_true(str_eq(event_frame_text(c, &c->frames[i]), STR("s:text\n")));
        r->seen++;
    }
    assert_true(c->last > r->after && c->after <= r->after);
    r->after = c->last;
}

static void *read_all(void *ctx)
{
    struct reader *r = ctx;
    const struct event_choice choice = { .frame = frame };
    while (r->seen < WRITERS * EVENTS_EACH) {
        struct event_chunk *c = NULL;
        enum event_tail_has has = event_tail_find(r->stage->tail, r->after, &c);
        if (has == TAIL_BEHIND)
            assert_int_equal(event_chunk_read(r->stage->log, r->after, &choice, &c), ERR_OK);
        if (has == TAIL_NOTHING) {
            wait_pause(0);
            continue;
        }
        reader_take(r, c);
        event_chunk_unref(&c);
    }
    return NULL;
}

static void readers_miss_nothing_while_writers_write(void **state)
{
    (void)state;
    struct stage s;
    pthread_t writers[WRITERS];
    struct reader readers[READERS];
    stage_begin(&s, 8 << 10);
    for (unsigned i = 0; i < READERS; i++) {
        readers[i] = (struct reader){ .stage = &s };
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_all, &readers[i]), 0);
    }
    for (unsigned i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&writers[i], NULL, write_all, &s), 0);
    for (unsigned i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_join(writers[i], NULL), 0);
    for (unsigned i = 0; i < READERS; i++) {
        assert_int_equal(pthread_join(readers[i].thread, NULL), 0);
        assert_int_equal(readers[i].seen, WRITERS * EVENTS_EACH);
    }
    stage_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_new_is_in_memory),
        cmocka_unit_test(who_is_behind_is_told_and_reads_the_log),
        cmocka_unit_test(nothing_is_read_while_nobody_follows),
        cmocka_unit_test(readers_miss_nothing_while_writers_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
